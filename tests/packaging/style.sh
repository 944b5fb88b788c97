#!/bin/sh
# What a reader should never meet: long lines, tabs, blank line ends, files beyond their length. style.sh SOURCE
set -eu
cd "$1"
find src cli include tools tests examples bench -name '*.[ch]' -o -name '*.def' -o -name '*.rules' 2>/dev/null |
    LC_ALL=C sort | xargs awk '
function fault(what) { printf "%s:%d: %s\n", FILENAME, FNR, what; bad = 1 }
FNR == 1 {
    if (file && lines > limit) { printf "%s: %d lines: one subject, less than %d\n", file, lines, limit; bad = 1 }
    file = FILENAME
    limit = file ~ /koine\.h$/ ? 2000 : 1200
}
{ lines = FNR }
length($0) > 120 && FILENAME !~ /\.(def|rules)$/ { # counted in characters, not bytes; tables have a row a line
    text = $0
    gsub(/[\200-\277]/, "", text)
    if (length(text) > 120) fault("a line of " length(text))
}
/\t/ { fault("a tab") }
/[ \r]$/ { fault("blanks at the end of the line") }
/TODO|FIXME|XXX:/ { fault("unfinished") }
END { if (lines > limit) { printf "%s: %d lines\n", file, lines; bad = 1 } exit bad }'
