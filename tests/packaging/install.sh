#!/bin/sh
# An outside project finds the installed library by find_package and by pkg-config, also after the tree has moved.
# install.sh SOURCE BUILD
set -eu
source=$1 build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/first" >"$work/log" || { cat "$work/log"; exit 1; }
mv "$work/first" "$work/moved"
prefix=$work/moved
if grep -rIl "$source\|$build" "$prefix"/lib*/cmake "$prefix"/lib*/pkgconfig "$prefix/include" 2>/dev/null; then
    echo "an installed file names the build's folders" >&2
    exit 1
fi
for shared in OFF ON; do
    cmake -S "$source/tests/packaging/outside" -B "$work/outside-$shared" -DCMAKE_PREFIX_PATH="$prefix" \
        -DBUILD_SHARED_LIBS=$shared -DHELLO="$source/tests/packaging/hello.c" >"$work/log" 2>&1 &&
        cmake --build "$work/outside-$shared" >>"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
    "$work/outside-$shared/hello"
done
if command -v pkg-config >/dev/null; then
    pc=$(dirname "$(find "$prefix" -name koine.pc)")
    export PKG_CONFIG_PATH="$pc"
    cc=${CC:-cc}
    lib=$(pkg-config --variable=libdir koine)
    $cc -o "$work/hello-so" "$source/tests/packaging/hello.c" $(pkg-config --cflags --libs koine)
    LD_LIBRARY_PATH=$lib "$work/hello-so"
    mkdir "$work/static"
    cp "$lib/libkoine.a" "$work/static"
    $cc -o "$work/hello-a" "$source/tests/packaging/hello.c" $(pkg-config --cflags koine) -L"$work/static" \
        $(pkg-config --static --libs koine | sed "s|-L$lib||; s|-L[^ ]*/moved/[^ ]*||")
    "$work/hello-a"
fi
if [ -x "$prefix/bin/koine" ]; then "$prefix/bin/koine" --version; fi
