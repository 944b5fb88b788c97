#!/bin/sh
# Builds the project once more in another way and runs its tests there.
# variant.sh SOURCE FOLDER CTEST_ARGS -- CMAKE_ARGS...
set -eu
source=$1 dir=$2 tests=$3
shift 4
if ! cmake -S "$source" -B "$dir" -DKOINE_VARIANT=ON "$@" >"$dir.log" 2>&1 ||
    ! cmake --build "$dir" -j 2 >>"$dir.log" 2>&1; then
    grep -E 'error|warning|Error' "$dir.log" | head -40
    tail -20 "$dir.log"
    exit 1
fi
cd "$dir"
# shellcheck disable=SC2086
ctest -j 2 --output-on-failure $tests
