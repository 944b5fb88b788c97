#!/bin/sh
# What the libraries show and what they use. symbols.sh SOURCE SHARED STATIC
set -eu
source=$1 shared=$2 static=$3
command -v nm >/dev/null && command -v objdump >/dev/null || { echo "skipped: no binutils"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C
bad=0

# The shared library exports what koine.h declares, and nothing else.
sed -n 's/^KN_API .*[ *]\(kn_[a-z0-9_]*\)(.*/\1/p' "$source/include/koine.h" | sort -u >"$work/declared"
nm -D --defined-only "$shared" | awk '$2 ~ /[A-Z]/ && $3 !~ /^_(init|fini)$/ { sub(/@.*/, "", $3); print $3 }' |
    sort -u >"$work/exported"
if ! diff "$work/declared" "$work/exported" >"$work/diff"; then
    sed -n 's/^</declared in koine.h but not exported:/p; s/^>/exported but not declared:/p' "$work/diff"
    bad=1
fi

# The static library defines no name outside its prefixes, but those by which GDB finds code made at run time.
nm -g --defined-only "$static" 2>/dev/null |
    awk 'NF == 3 && $3 !~ /^k[a-z]_/ && $3 !~ /^__jit_debug_(descriptor|register_code)$/ { print $3 }' |
    sort -u >"$work/stray"
sed 's/^/not a name of ours (k, a letter for the folder, _): /' "$work/stray"
[ ! -s "$work/stray" ] || bad=1

# A library does not end the process, print by itself, take signals, or keep hidden state (but GDB's list, and its lock).
nm -u "$static" 2>/dev/null | awk '{ print $NF }' | sort -u |
    grep -E '^(abort|exit|_exit|printf|puts|putchar|stdout|stderr|perror|signal|sigaction|setlocale|localeconv|strtok|rand|srand|gets|system|popen|setenv|putenv|chdir|umask|atexit)$' \
        >"$work/forbidden" || true
sed 's/^/uses: /' "$work/forbidden"
[ ! -s "$work/forbidden" ] || bad=1
objdump -t "$static" 2>/dev/null | awk '
    { for (i = 2; i < NF; i++) if ($i == "O") {
        section = $(i + 1)
        if (section ~ /^(\.data|\.bss|\.tdata|\.tbss|\*COM)/ && section !~ /^\.data\.rel\.ro/ &&
            $NF !~ /^(__jit_debug_descriptor|kd_jit_lock)$/) print $NF
    } }' >"$work/mutable"
sed 's/^/mutable global: /' "$work/mutable"
[ ! -s "$work/mutable" ] || bad=1
exit $bad
