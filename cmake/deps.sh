#!/bin/sh
# Installs what the tests use beside a C compiler, cmake and make. The library itself needs nothing of it.
set -eu
missing=
need() { # need PACKAGE TEST WHY: the test is a shell command that succeeds where the package's part is there
    if ! eval "$2" >/dev/null 2>&1; then
        echo "deps: $1: $3"
        missing="$missing $1"
    fi
}
need gcc 'command -v gcc' 'a compiler the tests use'
need g++ 'command -v g++' 'koine.h is compiled as C++'
need clang 'command -v clang' 'a second compiler, with its sanitizers'
probe=$(mktemp -d)
echo 'int main(void) { return 0; }' >"$probe/main.c"
need libclang-rt-dev 'clang -fsanitize=address,undefined "$probe/main.c" -o "$probe/main"' "clang's sanitizer libraries"
rm -rf "$probe"
need binutils 'command -v nm' 'the list of exported symbols, machine code from another assembler'
need pkg-config 'command -v pkg-config' 'koine.pc is tried from an outside project'
need libzydis-dev 'test -e /usr/include/Zydis/Zydis.h' 'machine code is decoded by another hand'
need libz3-dev 'test -e /usr/include/z3.h' 'rules are proved at the widths of their dtypes'
need zlib1g-dev 'test -e /usr/include/zlib.h' 'gzip files'
need locales 'test -e /usr/share/i18n/locales/de_DE' 'the suite runs in a locale with a decimal comma'
need graphviz 'command -v dot' 'koine ir --graph=dot is given to it'
need strace 'command -v strace' 'what the library asks of the system'
if [ -z "$missing" ]; then
    echo "deps: everything is there"
    exit 0
fi
as_root=
if [ "$(id -u)" != 0 ]; then
    as_root=sudo
    if ! command -v sudo >/dev/null; then
        echo "deps: neither root nor sudo: ask your administrator for:$missing" >&2
        exit 1
    fi
fi
if ! command -v apt-get >/dev/null; then
    echo "deps: no apt-get here: install the counterparts of:$missing" >&2
    exit 1
fi
echo "deps: $as_root apt-get install$missing"
export DEBIAN_FRONTEND=noninteractive
$as_root apt-get update -qq
# shellcheck disable=SC2086
$as_root apt-get install -y -qq --no-install-recommends $missing
