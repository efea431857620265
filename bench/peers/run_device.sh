#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The comparison with peers on a machine that has a GPU and PyTorch but neither this build nor a network: takes both as packs.
#
#   run_device.sh TLXJIT_PACK PEERS_PACK OUT [arguments of compare.py…]
#
#   TLXJIT_PACK  of bench/pack.sh (--library is enough), or - where libtlxjit.so lies in build/
#   PEERS_PACK   peers.txz: the wheels fbtriton (TLX with its tutorials) and fa3-fwd, unpacked into one folder; or - for none
#   OUT          where the results go
#
# Packs are unpacked once, beside themselves. --quick takes some three minutes; everything takes ten or more, so that a machine that is lent
# for ten minutes a command is asked in parts: --works matmul, --works attention, --works softmax layer_norm rms_norm.
set -euo pipefail
[ $# -ge 3 ] || { sed -n '3,13p' "$0" | cut -c3-; exit 2; }
tlxjit=$1 peers=$2 out=$(mkdir -p "$3" && cd "$3" && pwd)
shift 3
here=$(cd "$(dirname "$0")" && pwd)
python=${TLX_BENCH_PYTHON:-python3}

unpack() { # PACK -> its folder
  local folder=${1%.txz}.unpacked
  [ -e "$folder/done" ] || { mkdir -p "$folder" && tar -xJf "$1" -C "$folder" && touch "$folder/done"; }
  (cd "$folder" && pwd)
}

# The ptxas of stock Triton serves all: our library, and TLX, whose pack comes without.
ptxas=${TLX_PTXAS:-$($python - <<'PY'
import importlib.util, pathlib
found = importlib.util.find_spec("triton")
path = pathlib.Path(found.submodule_search_locations[0]) / "backends/nvidia/bin/ptxas" if found else None
print(path if path and path.exists() else "")
PY
)}
[ -n "$ptxas" ] && export TLX_PTXAS=$ptxas

compare=$here/compare.py
if [ "$tlxjit" != - ]; then
  root=$(unpack "$tlxjit")/tlxjit
  export TLX_LIBRARY=$root/libtlxjit.so
  [ -e "$root/bench/peers/compare.py" ] && compare=$root/bench/peers/compare.py # kernels and measurements of the pack's commit
fi
if [ "$peers" != - ]; then
  folder=$(unpack "$peers")
  if [ -n "$ptxas" ] && [ ! -e "$folder/triton/backends/nvidia/bin/ptxas" ]; then
    mkdir -p "$folder/triton/backends/nvidia/bin"
    ln -s "$ptxas" "$folder/triton/backends/nvidia/bin/ptxas"
  fi
  set -- --peers "$folder" "$@"
fi
exec "$python" "$compare" --out "$out" "$@"
