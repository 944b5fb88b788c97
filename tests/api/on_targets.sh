#!/bin/sh
# on_targets.sh TESTS COMMAND TARGET... - the tests of the API, and the command's demo where its data is, with the
# library's default target set to each of these. What asks for a target of its own is left out: it would run the same.
tests=$1 command=$2
shift 2
failed=0 ran=0
for target; do
    needs=
    case $target in *avx512*) needs=avx512bw ;; x86*) needs=avx2 ;; esac
    if [ -n "$needs" ] && ! grep -qw "$needs" /proc/cpuinfo; then
        echo "left out: $target, this CPU has no $needs"
        continue
    fi
    for t in "$tests"/test_api_*; do
        case ${t##*/test_api_} in
            accuracy | cache | faults | memory | provenance | target | *.*) continue ;;
        esac
        ran=$((ran + 1))
        KOINE_TARGET=$target "$t" >"$t.on.log" 2>&1 && continue
        failed=$((failed + 1))
        echo "$target: ${t##*/}"
        cat "$t.on.log"
    done
    ran=$((ran + 1))
    if [ -n "$KOINE_DATA" ] && ! KOINE_TARGET=$target "$command" demo digits --epochs 1 >/dev/null; then
        failed=$((failed + 1))
        echo "$target: the demo"
    fi
done
rm -f "$tests"/test_api_*.on.log
echo "$ran runs, $failed failed"
[ $failed = 0 ]
