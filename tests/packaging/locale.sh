#!/bin/sh
# Test programs again, in a locale whose decimal point is a comma. locale.sh BUILD PROGRAM...
set -eu
build=$1
shift
command -v localedef >/dev/null && [ -e /usr/share/i18n/locales/de_DE ] || { echo "skipped: no de_DE here"; exit 77; }
mkdir -p "$build/locale"
[ -d "$build/locale/de_DE.UTF-8" ] || localedef -i de_DE -f UTF-8 "$build/locale/de_DE.UTF-8" || true
export LOCPATH="$build/locale" LC_ALL=de_DE.UTF-8 KN_TEST_LOCALE=de_DE.UTF-8
for program in "$@"; do
    "$program" >"$build/locale/log" 2>&1 || [ $? = 77 ] || { echo "$program fails under LC_ALL=$LC_ALL:"; cat "$build/locale/log"; exit 1; }
done
echo "$# programs"
