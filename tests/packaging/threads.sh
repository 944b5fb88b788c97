#!/bin/sh
# Under the race detector: the thread pool, and contexts in several threads with a runtime in common. The library is
# built for it in its one-file form; a run of all tests is part of check-full.
# threads.sh SOURCE BUILD
set -eu
source=$1 build=$2
cc=clang
command -v clang >/dev/null || cc=${CC:-cc}
# Address randomisation of recent kernels and older run-time libraries do not get along.
fixed=
if command -v setarch >/dev/null; then fixed="setarch $(uname -m) -R"; fi
run() { # NAME SOURCES
    out=$build/$1_tsan
    shift
    if ! $cc -std=c17 -O0 -g1 -w -fsanitize=thread -I"$source/include" -I"$source/src" -I"$source/tests" -o "$out" \
        "$@" "$source/tests/check.c" -lpthread -lm -ldl 2>"$out.log"; then
        grep -q 'tsan\|sanitize' "$out.log" && { echo "skipped: no thread sanitizer"; exit 77; }
        cat "$out.log"
        exit 1
    fi
    $fixed "$out"
}
run test_pool "$source"/src/base/*.c "$source/tests/base/test_pool.c"
run test_threads "$build/amalgamation/koine.c" "$source/tests/api/test_threads.c"
