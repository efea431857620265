#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Packs what a machine with a GPU but without LLVM needs to test and time this build: the library, tlxc, the kernel tests, the kernels.
#
#   bench/pack.sh DIR              writes DIR/tlxjit.txz
#   bench/pack.sh --library DIR    writes DIR/tlxjit-library.txz: the library, tlxc, kernels/ and bench/ (without its results) only, packed
#                                  as small as xz can (some two minutes). For bench/peers/run_device.sh, where it travels with the peers'
#                                  pack under one limit
#
# Both unpack to tlxjit/.
set -euo pipefail
usage() { sed -n '3,10p' "$0" | cut -c3-; exit 2; }
library=
[ "${1:-}" != --library ] || { library=1; shift; }
[ $# = 1 ] && [ "${1#-}" = "$1" ] || usage
root=$(cd "$(dirname "$0")/.." && pwd)
out=$(mkdir -p "$1" && cd "$1" && pwd)
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
pack=$work/tlxjit
mkdir "$pack"
cp "$root"/build/libtlxjit.so.0.*.* "$pack/libtlxjit.so.0"
cp "$root"/build/tlxc "$pack/"
programs=("$pack/libtlxjit.so.0" "$pack/tlxc")
left_out=(--exclude=__pycache__)
file=$out/tlxjit.txz level=-4
if [ -n "$library" ]; then
  left_out+=(--exclude=tlxjit/bench/results)
  file=$out/tlxjit-library.txz level=-9e
else
  mkdir "$pack/tests"
  cp "$root"/build/tlx_demo "$pack/"
  cp "$root"/build/tests/test_kernels "$pack/tests/"
  programs+=("$pack/tlx_demo" "$pack/tests/test_kernels")
fi
strip "${programs[@]}"
ln -s libtlxjit.so.0 "$pack/libtlxjit.so"
cp -r "$root/kernels" "$root/bench" "$pack/"
git -C "$root" rev-parse HEAD > "$pack/commit"
tar -C "$work" "${left_out[@]}" -c tlxjit | xz -T2 "$level" > "$file"
ls -l "$file"
