#!/bin/sh
# koine.c and koine.h build by themselves and make a working program. amalgamation.sh SOURCE FOLDER
set -eu
source=$1 dir=$2
cd "$dir"
cp "$source/include/koine.h" .
cc=${CC:-cc}
$cc -std=c17 -O1 -Wall -Wextra -Wshadow -Werror -ffp-contract=off -c koine.c
$cc -std=c99 -I. -o hello "$source/tests/packaging/hello.c" koine.o -lm -lpthread -ldl
./hello
