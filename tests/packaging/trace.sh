#!/bin/sh
# Between kn_open and kn_close of an idle context the library asks the system for memory and nothing else.
# trace.sh PROGRAM BUILD
set -eu
log=$2/trace.log
command -v strace >/dev/null || { echo "skipped: no strace"; exit 77; }
strace -f -o "$log" true 2>/dev/null || { echo "skipped: strace is not allowed here"; exit 77; }
strace -f -o "$log" "$1" --open-only
sed -n '/write(999, "begin"/,/write(999, "end"/p' "$log" | grep -v 'write(999' |
    grep -vE '^[0-9]+ +(getrandom|brk|mmap|munmap|madvise|mremap)\(' >"$log.found" || true
if [ -s "$log.found" ]; then
    echo "an idle context calls:"
    cat "$log.found"
    exit 1
fi
