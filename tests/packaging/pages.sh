#!/bin/sh
# The pages that the build writes are whole: pages.sh BUILD/docs
set -eu
cd "$1"
bad=0
for page in ops.md command.md rules.md pipeline.md; do
    if [ ! -s "$page" ]; then
        echo "no $page"
        bad=1
    fi
done
# pipeline.md: each stage is shown, its commands printed what the text speaks of, and none complained.
for stage in callify rangeify optimize expand select linearize plan; do
    grep -qE "^# (after $stage\$|$stage, after )" pipeline.md || { echo "pipeline.md: no dump of $stage"; bad=1; }
done
for text in 'void r_8_48(' '+ %23 = MULACC' 'after select    %23 = MULACC' '1 algebra.add_neg_zero' 'type=GROUP_REDUCE, rank=1' \
    '/* row_squares.kn:4 > ' '  nothing changed' '+ %10 = ADD %9 -0.0:f32 : f32'; do
    grep -qF -- "$text" pipeline.md || { echo "pipeline.md: no $text"; bad=1; }
done
if grep -q '^koine ir: ' pipeline.md; then
    grep '^koine ir: ' pipeline.md
    bad=1
fi
# command.md: the options of koine ir that it must document.
for flag in diff time count disable-rule graph why provenance verify after stop-after; do
    grep -q "^| \`--$flag" command.md || { echo "command.md: no --$flag"; bad=1; }
done
exit $bad
