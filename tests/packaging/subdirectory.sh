#!/bin/sh
# A project that holds the library by add_subdirectory, and compiles several sources at once (CMAKE_UNITY_BUILD).
# subdirectory.sh SOURCE WORK
set -eu
source=$1 work=$2
cmake -S "$source/tests/packaging/subdirectory" -B "$work" -DKOINE="$source" -DCMAKE_BUILD_TYPE=Debug \
    -DCMAKE_C_FLAGS_DEBUG=-O0 -DCMAKE_UNITY_BUILD=ON >"$work.log" 2>&1 &&
    cmake --build "$work" -j 2 >>"$work.log" 2>&1 || { cat "$work.log"; exit 1; }
"$work/hello"
if [ -e "$work/koine/tests" ]; then
    echo "an outside project should not build the tests" >&2
    exit 1
fi
