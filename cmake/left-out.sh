#!/bin/sh
# Names what `make check` leaves out on this machine, and why. left-out.sh BUILD
build=$1
say() { echo "left out: $1"; }
has() { command -v "$1" >/dev/null 2>&1; }
has clang || say "clang (not installed): the sanitizer build and the header use cc alone"
has g++ || has clang++ || say "koine.h as C++ (no g++ or clang++)"
has pkg-config || say "koine.pc from an outside project (no pkg-config)"
has strace || say "the trace of system calls (no strace)"
grep -q '^KOINE_ZYDIS_4:INTERNAL=1' "$build/CMakeCache.txt" 2>/dev/null ||
    say "machine code decoded by Zydis (no libzydis-dev of version 4)"
grep -q '^KOINE_Z3_LIBRARY:FILEPATH=/' "$build/CMakeCache.txt" 2>/dev/null || say "rules proved by Z3 (no libz3-dev)"
has gdb || say "what GDB sees of machine code (no gdb)"
has as || say "machine code against an assembler (no as)"
has nm || say "the list of symbols (no nm)"
grep -q '^ZLIB_INCLUDE_DIR:PATH=/' "$build/CMakeCache.txt" 2>/dev/null || say "gzip files (built without zlib)"
[ -e /usr/share/i18n/locales/de_DE ] || say "the locale with a decimal comma (package locales)"
[ -n "${KOINE_DATA:-}" ] || say "real data sets (KOINE_DATA is not set)"
exit 0
