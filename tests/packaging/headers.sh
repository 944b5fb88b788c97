#!/bin/sh
# koine.h compiles clean as every C and C++ a user may have. headers.sh SOURCE
set -eu
here=$1/tests/packaging
flags="-pedantic -Wall -Wextra -Werror -I$1/include -fsyntax-only"
ran=0
try() { # try COMPILER FILE STD...
    compiler=$1 file=$2
    shift 2
    command -v "$compiler" >/dev/null || return 0
    for std in "$@"; do
        if ! $compiler -std="$std" $flags "$file"; then
            echo "$compiler -std=$std rejects $file" >&2
            exit 1
        fi
        ran=$((ran + 1))
    done
}
for cc in cc gcc clang; do try $cc "$here/use.c" c99 c11 c17 c2x; done
for cxx in g++ clang++; do try $cxx "$here/use.cpp" c++11 c++14 c++17 c++20; done
echo "$ran compilations"
