#!/bin/sh
# Nothing outside src/target/x86 knows x86: without that folder the library builds, and runs on the C target.
# without_x86.sh SOURCE WORK
set -eu
source=$1 work=$2
rm -rf "$work"
mkdir -p "$work"
cp -R "$source/CMakeLists.txt" "$source/src" "$source/include" "$source/cmake" "$source/cli" "$source/tools" "$work/"
rm -rf "$work/src/target/x86"
if ! cmake -S "$work" -B "$work/build" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG=-O0 -DKOINE_TESTS=OFF \
        -DKOINE_INSTALL=OFF -DKOINE_VARIANT=ON -DCMAKE_UNITY_BUILD=ON >"$work.log" 2>&1 ||
    ! cmake --build "$work/build" -j 2 >>"$work.log" 2>&1; then
    grep -E 'error|warning|undefined' "$work.log" | head -40
    tail -20 "$work.log"
    exit 1
fi
cd "$work"
cat >compiled.c <<'END'
#include <koine.h>
#include <stdio.h>

int main(void) {
    kn_config   cfg = {.device = "CPU", .size = sizeof cfg};
    kn_context *kn  = kn_open(&cfg);
    float       data[64 * 64];
    for (int i = 0; i < 64 * 64; i++) data[i] = (float)(i % 7);
    kn_tensor *x   = kn_from(kn, data, KN_F32, KN_DIMS(64, 64));
    double     got = kn_item(kn_sum(kn_matmul(x, x))), want = 0;
    for (int k = 0; k < 64; k++) { /* the sum of column k, times that of row k */
        double column = 0, row = 0;
        for (int i = 0; i < 64; i++) column += data[64 * i + k], row += data[64 * k + i];
        want += column * row;
    }
    printf("%g = %g %s\n", got, want, kn_error(kn));
    kn_close(kn);
    return got == want ? 0 : 1;
}
END
libs="-lm -lpthread -ldl"
[ ! -e /usr/include/zlib.h ] || libs="$libs -lz"
# shellcheck disable=SC2086
${CC:-cc} -std=c99 -Iinclude -o compiled compiled.c build/libkoine.a $libs
./compiled
if nm build/libkoine.a 2>/dev/null | grep -E ' [A-Za-z] kx_'; then
    echo "names of the x86-64 target, without it" >&2
    exit 1
fi
