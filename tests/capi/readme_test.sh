#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The README stays true: its C program is taken out, compiled as the README says, run, and its output compared with the block that
# follows it; the tlxc commands of the README run as well.
#   readme_test.sh SOURCE_DIR BUILD_DIR [CFLAGS…]
set -euo pipefail
source=$1 build=$2; shift 2
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
awk '/^```c$/ {on = 1; next} /^```$/ {if (on) exit} on' "$source/README.md" > "$work/readme.c"
awk '/^```c$/ {c = 1} c && /^```$/ {n++; next} n == 2 {print} n >= 3 {exit}' "$source/README.md" > "$work/expected"
[ -s "$work/readme.c" ] && [ -s "$work/expected" ]
cc -std=c11 -Wall "$work/readme.c" "$@" -I"$source/include" -L"$build" -ltlxjit -Wl,-rpath,"$build" -o "$work/readme"
TLX_CACHE=off "$work/readme" > "$work/got"
diff "$work/expected" "$work/got"
# The commands of "The command line", with their continuation lines.
cd "$source"
awk '/^build\/tlxc/ {on = 1} on {print} on && !/\\$/ {on = 0}' README.md | sed "s|^build/tlxc|$build/tlxc|; s|-o softmax.ptx|-o $work/softmax.ptx|; s|out=sum.npy|out=$work/sum.npy|" > "$work/commands"
grep -c tlxc "$work/commands"
TLX_CACHE=off bash -e "$work/commands"
[ -s "$work/sum.npy" ]
