#!/bin/sh
# The generator's output does not depend on the compiler that built it, its flags, the locale or the folder.
# rulegen.sh SOURCE BUILD RULES...
set -eu
source=$1 build=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$source"
for cc in "${CC_FOR_BUILD:-cc}" clang; do
    command -v "$cc" >/dev/null || continue
    for flags in -O0 "-O2 -funsigned-char"; do
        # shellcheck disable=SC2086
        $cc -std=c17 $flags -Iinclude -Isrc -o "$work/rulegen" tools/rulegen*.c
        rm -rf "$work/gen"
        mkdir "$work/gen"
        LOCPATH="$build/locale" LC_ALL=de_DE.UTF-8 "$work/rulegen" -o "$work/gen" "$@"
        for file in gen/rules_gen.h gen/rules_gen.c gen/rules_proof.h gen/rules_proof.c; do
            cmp "$work/$file" "$build/$file" || { echo "$cc $flags: $file differs" >&2; exit 1; }
        done
    done
done
