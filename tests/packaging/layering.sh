#!/bin/sh
# A folder of src/ includes only what stands below it. layering.sh SOURCE
set -eu
cd "$1"
find src cli -name '*.[ch]' -o -name '*.def' -o -name '*.rules' 2>/dev/null | LC_ALL=C sort | xargs awk '
BEGIN {
    # Folders on one line do not know each other.
    n = split("base|dialect|rewrite device|rules|target|optimize|lower|runtime|tensor|nn format|llm viz|cli", row, "|")
    for (i = 1; i <= n; i++) {
        m = split(row[i], peers, " ")
        for (k = 1; k <= m; k++) rank[peers[k]] = i
    }
    generated["rules_gen.h"] = rank["rewrite"]
}
function folder(path,   part) {
    split(path, part, "/")
    return part[1] == "src" ? part[2] : part[1]
}
# In .rules files the line is: include "folder/file.h"
match($0, /^[ \t]*#?[ \t]*include[ \t]+"[^"]+"/) {
    name = $0
    sub(/^[^"]*"/, "", name)
    sub(/".*$/, "", name)
    if (name == "koine.h") next
    from = folder(FILENAME)
    if (!(from in rank)) { printf "%s: folder \"%s\" has no place in the layers\n", FILENAME, from; bad = 1; next }
    if (name in generated) {
        if (generated[name] > rank[from]) { printf "%s:%d: may not know %s\n", FILENAME, FNR, name; bad = 1 }
        next
    }
    to = name
    if (index(name, "/") == 0) to = from
    else sub(/\/.*$/, "", to)
    if (to == from) next
    # a file beside the including one, in a folder below it
    if (!(to in rank)) { if (name ~ /\.\./) { printf "%s:%d: \"%s\"\n", FILENAME, FNR, name; bad = 1 } next }
    if (rank[to] >= rank[from]) { printf "%s:%d: %s may not know %s\n", FILENAME, FNR, from, name; bad = 1 }
}
END { exit bad }'
