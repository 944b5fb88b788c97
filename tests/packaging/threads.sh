#!/bin/sh
# The thread pool under the race detector, built by itself: the whole library's run is part of check-full.
# threads.sh SOURCE BUILD
set -eu
source=$1 out=$2/test_pool_tsan
cc=clang
command -v clang >/dev/null || cc=${CC:-cc}
if ! $cc -std=c17 -O1 -g -fsanitize=thread -I"$source/include" -I"$source/src" -I"$source/tests" -o "$out" \
    "$source"/src/base/*.c "$source/tests/check.c" "$source/tests/base/test_pool.c" -lpthread -lm 2>"$out.log"; then
    grep -q 'tsan\|sanitize' "$out.log" && { echo "skipped: no thread sanitizer"; exit 77; }
    cat "$out.log"
    exit 1
fi
# Address randomisation of recent kernels and older run-time libraries do not get along.
if command -v setarch >/dev/null; then setarch "$(uname -m)" -R "$out"; else "$out"; fi
