#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Packs what a machine with a GPU but without LLVM needs to test and time this build: the library, tlxc, the kernel tests, the kernels.
#   bench/pack.sh DIR      writes DIR/tlxjit.txz
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
out=$(mkdir -p "$1" && cd "$1" && pwd)
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
mkdir -p "$work/tlxjit/tests"
cp "$root"/build/libtlxjit.so.0.*.* "$work/tlxjit/libtlxjit.so.0"
cp "$root"/build/tlxc "$root"/build/tlx_demo "$work/tlxjit/"
cp "$root"/build/tests/test_kernels "$work/tlxjit/tests/"
strip "$work"/tlxjit/libtlxjit.so.0 "$work"/tlxjit/tlxc "$work"/tlxjit/tlx_demo "$work"/tlxjit/tests/test_kernels
ln -s libtlxjit.so.0 "$work/tlxjit/libtlxjit.so"
cp -r "$root/kernels" "$root/bench" "$work/tlxjit/"
git -C "$root" rev-parse HEAD > "$work/tlxjit/commit"
tar -C "$work" -c tlxjit | xz -T2 -4 > "$out/tlxjit.txz"
ls -l "$out/tlxjit.txz"
