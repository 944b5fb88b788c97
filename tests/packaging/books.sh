#!/bin/sh
# Pages that tell how to change the sources are done to a copy of them, step by step, and what they say is built and run.
# books.sh SOURCE WORK PAGE.md...
#
# A comment line in a page says what the code block below it is:
#   <!-- insert FILE behind TEXT -->  lines that follow the first line of FILE that holds TEXT
#   <!-- create FILE -->              the whole of FILE
#   <!-- append FILE -->              its end
#   <!-- run -->  <!-- run fails -->  commands, run in the copy
#   <!-- prints -->                   lines that the commands before printed
set -eu
source=$1 work=$2
shift 2
fresh=$work/fresh tree=$work/tree steps=$work/steps
rm -rf "$fresh" "$steps"
mkdir -p "$fresh" "$tree"
for part in CMakeLists.txt Makefile koine.pc.in LICENSE README.md cmake include src cli tools docs tests bench examples; do
    if [ -e "$source/$part" ]; then cp -R "$source/$part" "$fresh/"; fi
done
if command -v ccache >/dev/null 2>&1; then
    CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
    export CMAKE_C_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER
fi
echo 'set(CMAKE_UNITY_BUILD ON)' >"$work/quick.cmake" # the pages build it several times
CFLAGS=-O0 CMAKE_BUILD_TYPE=Debug CMAKE_TOOLCHAIN_FILE=$work/quick.cmake
export CFLAGS CMAKE_BUILD_TYPE CMAKE_TOOLCHAIN_FILE

# The copy that is built gets only what changed, so that a second run of this test builds little.
sync_tree() {
    (cd "$fresh" && find . -type f) | while read -r f; do
        if cmp -s "$fresh/$f" "$tree/$f"; then continue; fi
        mkdir -p "$(dirname "$tree/$f")"
        cp "$fresh/$f" "$tree/$f"
    done
    (cd "$tree" && find src tests cli tools cmake include docs -type f) | while read -r f; do
        if [ ! -e "$fresh/$f" ]; then rm "$tree/$f"; fi
    done
}

for page in "$@"; do
    # Steps as files: NN.do is "kind arg", NN.text the block.
    rm -rf "$steps"
    mkdir -p "$steps"
    awk -v dir="$steps" '
        /^<!-- (insert|create|append|run|prints)/ {
            n++
            file = sprintf("%s/%02d", dir, n)
            step = $0
            sub(/^<!-- /, "", step)
            sub(/ -->$/, "", step)
            print step > (file ".do")
            printf "" > (file ".text")
            want = 1
            next
        }
        /^```/ { inside = inside ? 0 : want; if (!inside) want = 0; next }
        inside { print > (file ".text") }' "$page"
    ran=$work/output.txt
    for step in "$steps"/*.do; do
        text=${step%.do}.text
        read -r kind arg rest <"$step" || true
        echo "$(basename "$page"): $(cat "$step")"
        case $kind in
        create)
            mkdir -p "$(dirname "$fresh/$arg")"
            cp "$text" "$fresh/$arg"
            ;;
        append) cat "$text" >>"$fresh/$arg" ;;
        insert)
            awk -v what="${rest#behind }" -v text="$text" '
                { print }
                !done && index($0, what) { while ((getline line < text) > 0) print line; done = 1 }
                END { exit !done }' "$fresh/$arg" >"$work/inserted" || {
                echo "no line of $arg holds: ${rest#behind }"
                exit 1
            }
            cp "$work/inserted" "$fresh/$arg"
            ;;
        run)
            sync_tree
            status=0
            (cd "$tree" && sh -eu "$text") >"$ran" 2>&1 || status=$?
            if [ "${arg:-}" = fails ]; then
                if [ $status = 0 ] || grep -qE 'make.*Error [0-9]|CMake Error' "$ran"; then
                    tail -30 "$ran"
                    echo "it should have failed, and not in the build"
                    exit 1
                fi
            elif [ $status != 0 ]; then
                grep -E 'error|warning' "$ran" | head -20
                tail -40 "$ran"
                exit 1
            fi
            ;;
        prints)
            while IFS= read -r line; do
                if ! grep -qF -- "$line" "$ran"; then
                    cat "$ran" | tail -60
                    echo "not printed: $line"
                    exit 1
                fi
            done <"$text"
            ;;
        esac
    done
done
