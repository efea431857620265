#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# tlxc_test.sh TLXC: exit codes, files and messages of the command line.
set -uo pipefail
tlxc=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export TLX_CACHE_DIR=$dir/cache TLX_CUDA_DRIVER=/nonexistent/libcuda.so TLX_HIP_DRIVER=/nonexistent/libamdhip64.so
failures=0

# expect CODE TEXT COMMAND...: the exit code, and a text in the output (both streams)
expect() {
  local code=$1 text=$2
  shift 2
  local output status
  output=$("$@" 2>&1)
  status=$?
  if [ $status -ne "$code" ] || ! grep -qF -- "$text" <<< "$output"; then
    echo "FAILED: $* (exit code $status, expected $code and '$text')"
    echo "$output" | head -20
    failures=$((failures + 1))
  fi
}

cat > "$dir/k.tlx" << 'TLX'
import "lib.tlx";
kernel add<BLOCK: i32 = 128, T: dtype = f32>(x: *T, y: *T, out: *T, n: i32) launch(num_warps = 4)
{
    let i = program_id(0) * BLOCK + arange(0, BLOCK);
    store(out + i, plus(load(x + i, i < n), load(y + i, i < n)), i < n);
}
TLX
echo 'fn plus(a, b) { return a + b; }' > "$dir/lib.tlx"
printf 'kernel f(x: *f32) {\n  store(x, y);\n}\n' > "$dir/wrong.tlx"

expect 0 'tlxc COMMAND --help' "$tlxc" --help
expect 0 'Forms of --emit' "$tlxc" build --help
expect 0 'randint:LO:HI' "$tlxc" run --help
expect 0 'tlxc 0.1' "$tlxc" --version
expect 0 'gfx942' "$tlxc" targets
expect 0 'sim ' "$tlxc" devices
expect 0 'cuda     none: no CUDA driver' "$tlxc" devices
expect 2 '' "$tlxc"
expect 2 '' "$tlxc" frobnicate
expect 2 '' "$tlxc" build "$dir/k.tlx" --target sm_80 --emit elf
expect 2 'does not go with' "$tlxc" build "$dir/k.tlx" --target gfx942 --emit ptx
expect 2 'write PARAMETER=VALUE' "$tlxc" build "$dir/k.tlx" --target sm_80 -D BLOCK
expect 1 'cannot read' "$tlxc" build "$dir/none.tlx" --target sm_80
expect 1 'wrong.tlx:2:12: error:' "$tlxc" build "$dir/wrong.tlx" --target sm_80 --emit ptx
expect 1 'no CUDA driver' "$tlxc" run "$dir/k.tlx" --device cuda:0 --grid 1

expect 0 '.entry' "$tlxc" build "$dir/k.tlx" --kernel add --target sm_80 --emit ptx
expect 0 '"param_bytes"' "$tlxc" build "$dir/k.tlx" --target gfx942 --emit json
expect 0 'define' "$tlxc" build "$dir/k.tlx" --target sm_80 --emit llvm
expect 0 ' total' "$tlxc" build "$dir/k.tlx" --target gfx942 -o "$dir/k.hsaco" --time-passes
[ "$(head -c 4 "$dir/k.hsaco" | od -An -tx1 | tr -d ' ')" = 7f454c46 ] || { echo "FAILED: no ELF"; failures=$((failures + 1)); }

common=("$tlxc" run "$dir/k.tlx" --kernel add --device sim --grid 8 --arg n=1000)
run=(--arg x=f32[1000]=arange --arg y=f32[1000]=ones --arg 'out=f32[1000]')
expect 0 'ran add on sim' "${common[@]}" --target sm_90a "${run[@]}" --timeline "$dir/t.html"
grep -q 'Timeline of add' "$dir/t.html" && grep -q '</html>' "$dir/t.html" || { echo "FAILED: no timeline"; failures=$((failures + 1)); }
expect 0 'ran add on sim' "${common[@]}" --target sm_90a "${run[@]}" --timeline "$dir/t.html" --timeline-program 3
grep -q 'Program (3, 0, 0)' "$dir/t.html" || { echo "FAILED: no timeline of the fourth program"; failures=$((failures + 1)); }
expect 1 'timeline_program is 8, and the grid has 8 programs, numbered from 0' "${common[@]}" --target sm_90a "${run[@]}" --timeline "$dir/t.html" --timeline-program 8
expect 2 'timeline-program is for --timeline' "${common[@]}" --target sm_90a "${run[@]}" --timeline-program 1
expect 2 'has no program to draw' "$tlxc" run "$dir/k.tlx" --kernel add --grid 0 --arg n=1000 --target sm_90a "${run[@]}" --timeline "$dir/t.html"
expect 0 'ran add on sim' "${common[@]}" --target sm_90a "${run[@]}" --exact
check=("$tlxc" check "$dir/k.tlx" --kernel add --grid 8 --arg n=1000 "${run[@]}" --exhaustive)
expect 0 'every interleaving of 8 programs is covered' "${check[@]}" --target sm_90a
expect 3 'not covered: only targets with mbarriers' "${check[@]}" --target gfx942
for target in sm_80 sm_90a gfx942; do
  expect 0 'ran add on sim' "${common[@]}" --target $target --arg x=f32[1000]=arange --arg y=f32[1000]=ones --arg 'out=f32[1000]' \
    --out out="$dir/out.npy" --schedule random --seed 3
  python3 - "$dir/out.npy" << 'PY' || { echo "FAILED: values for $target"; failures=$((failures + 1)); }
import struct, sys
data = open(sys.argv[1], "rb").read()
assert data[:8] == b"\x93NUMPY\x01\x00"
n = struct.unpack("<H", data[8:10])[0]
assert (10 + n) % 64 == 0
header = eval(data[10:10 + n])
assert header == {"descr": "<f4", "fortran_order": False, "shape": (1000,)}, header
assert list(struct.unpack("<1000f", data[10 + n:])) == [i + 1.0 for i in range(1000)]
PY
done
# Through a file, with a stride, and in bf16.
expect 0 'ran add' "${common[@]}" --target sm_80 --arg x=f32[1000]=@"$dir/out.npy" --arg y=f32[1000]=randn --arg 'out=f32[1000]=empty'
expect 0 'ran add' "${common[@]}" --target sm_80 -D T=bf16 --arg x=bf16[1000]=randn --arg y=bf16[1000]=randint:-4:4 --arg 'out=bf16[1000]'
expect 0 'time: median' "${common[@]}" --target sm_80 --arg x=f32[1000]=ones --arg y=f32[1000]=ones --arg 'out=f32[1000]' --time --repeats 3
expect 3 'finding' "${common[@]}" --target sm_80 --arg x=f32[1000]=ones --arg y=f32[999]=ones --arg 'out=f32[1000]'
expect 3 'k.tlx:5' "${common[@]}" --target sm_80 --arg x=f32[1000]=ones --arg y=f32[1000]=empty --arg 'out=f32[1000]'
expect 1 'n % 16 == 0' "${common[@]}" --target sm_80 --assume 'n % 16 == 0' --arg x=f32[1000] --arg y=f32[1000] --arg 'out=f32[1000]'
expect 2 "argument 'y' is not given" "${common[@]}" --target sm_80 --arg x=f32[1000] --arg 'out=f32[1000]'
expect 2 "no argument 'z'" "${common[@]}" --target sm_80 --arg x=f32[1000] --arg y=f32[1000] --arg 'out=f32[1000]' --arg z=1
expect 2 'tensor of f16' "${common[@]}" --target sm_80 --arg x=f16[1000] --arg y=f32[1000] --arg 'out=f32[1000]'
expect 2 'write randint:LO:HI' "${common[@]}" --target sm_80 --arg x=f32[10]=randint:3
expect 2 'is not an element type' "${common[@]}" --target sm_80 --arg x=f33[10]=zeros
expect 2 'three dimensions' "$tlxc" run "$dir/k.tlx" --target sm_80 --grid 1,2,3,4
expect 1 'has the shape' "${common[@]}" --target sm_80 --arg x=f32[10,100]=@"$dir/out.npy" --arg y=f32[1000] --arg 'out=f32[1000]'

# Tensors for descriptors: address, shape and strides, on targets with tensor maps and without.
cat > "$dir/d.tlx" << 'TLX'
kernel next(x: tensor_desc<f32, [16, 32]>, y: tensor_desc<f32, [16, 32]>) launch(num_warps = 4)
{
    let at = [program_id(1) * 16, program_id(0) * 32];
    y.store(at, x.load(at) + 1.0);
}
TLX
for target in sm_80 sm_90a gfx942; do
  expect 0 'ran next on sim' "$tlxc" run "$dir/d.tlx" --target $target --device sim --grid 2,2 --schedule late \
    --arg 'x=f32[20,36:stride=40,1]=arange' --arg 'y=f32[20,36]' --out y="$dir/y.npy"
  python3 - "$dir/y.npy" << 'PY' || { echo "FAILED: values of a descriptor for $target"; failures=$((failures + 1)); }
import struct, sys
data = open(sys.argv[1], "rb").read()
n = struct.unpack("<H", data[8:10])[0]
assert list(struct.unpack("<720f", data[10 + n:])) == [i + 1.0 for i in range(720)]
PY
  common=("$tlxc" run "$dir/d.tlx" --target $target --device sim --grid 2,2)
  expect 1 'the stride of dimension 0 is 37 elements, which is 148 bytes and no multiple of 16' "${common[@]}" \
    --arg 'x=f32[20,36:stride=37,1]=arange' --arg 'y=f32[20,36]'
  expect 1 'the stride of dimension 1 is 20, and the last' "${common[@]}" --arg 'x=f32[20,36:stride=1,20]=arange' --arg 'y=f32[20,36]'
  expect 1 'the tensor has rank 1, and its blocks have rank 2' "${common[@]}" --arg 'x=f32[20]=arange' --arg 'y=f32[20,36]'
  expect 2 'gives it a tensor of f16' "${common[@]}" --arg 'x=f16[20,36]=arange' --arg 'y=f32[20,36]'
  expect 2 'write --arg x=f32[SHAPE]' "${common[@]}" --arg x=1 --arg 'y=f32[20,36]'
  expect 2 'a tensor_desc has at most 5' "${common[@]}" --arg 'x=f32[1,1,1,1,1,1]' --arg 'y=f32[20,36]'
done
expect 0 '"form": "fields"' "$tlxc" build "$dir/d.tlx" --target sm_80 --emit json
expect 0 '"form": "tensor_map"' "$tlxc" build "$dir/d.tlx" --target sm_90a --emit json

[ $failures -eq 0 ] && echo "tlxc: all right"
exit $((failures != 0))
