#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the code objects of `tlxc build` for gfx942 or gfx950 on an emulator of the CDNA instruction set that is not ours, and compares with NumPy and
with our simulator. Needs NumPy, a built tlxc, and an emulator, which is not part of this repository:

  --emulator FILE.py (or TLX_CDNA_EMULATOR): a Python file with

      run(path, kernel, grid, block, args)

  which loads the code object `path` and runs `kernel` on grid = (x, y, z) workgroups of block = (x, y, z) threads. `args` is the list of
  the kernel's arguments, each a pair (value, size in bytes), to be laid out by natural alignment; an address is a pair (address, 8) in
  this process. It returns when the grid is done and raises on what it cannot execute. A few lines make one from the emulator of
  tinygrad (test/mockgpu/amd/emu.py, run_asm): load the ELF segments, read the kernel descriptor, fill the kernel arguments.

Integer-valued inputs, so matrix products and sums must be exact; softmax is compared with float64. Each buffer ends at a page that may
not be touched (rounded up to 16 bytes), and the bytes before it, and between its end and that page, must not change. Every case runs in
a process of its own. Exit code 1 if any case fails.

  bench/emulate_cdna.py --target gfx942|gfx950 --emulator FILE.py [--filter TEXT] [--jobs N] [--list] [--markdown] [--no-barriers]"""
import argparse
import concurrent.futures
import ctypes
import importlib.util
import json
import mmap
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
KERNELS = ROOT / "kernels"
WAVE = 64
GUARD = 0xA5
S_BARRIER, S_NOP = 0xBF8A0000, 0xBF800000

# The grid's size reaches an AMD kernel through hidden arguments only when the kernel asks for it; no kernel of ours does.
GRID_STRIDE = """
kernel grid_stride<BLOCK: i32 = 256>(x: *f32, out: *f32, n: i32) launch(num_warps = 4) {
    for start in range((program_id(1) * num_programs(0) + program_id(0)) * BLOCK, n, num_programs(0) * num_programs(1) * BLOCK) {
        let i = start + arange(0, BLOCK);
        store(out + i, load(x + i, i < n) * 2.0 + num_programs(1).to(f32), i < n);
    }
}
"""


def cdiv(a, b):
    return -(-a // b)


# --- element types: how an array of float64 is stored, and read back

FLOAT8 = {"f8e4m3": (3, 7), "f8e5m2": (2, 15)}  # bits of the mantissa, bias


def encode(values, dtype):
    if dtype in FLOAT8:  # of values that the format has, no denormals
        mantissa, bias = FLOAT8[dtype]
        m, e = np.frexp(np.abs(values))
        bits = ((e - 1 + bias) << mantissa) | (np.ldexp(m, mantissa + 1).astype(np.int64) & ((1 << mantissa) - 1))
        return np.where(values == 0, 0, bits | np.where(values < 0, 0x80, 0)).astype(np.uint8)
    if dtype != "bf16":
        return values.astype({"f16": np.float16, "f32": np.float32}[dtype])
    bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)  # to nearest even; no NaN comes here


def decode(stored, dtype):
    if dtype == "bf16":
        return (stored.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return stored.astype(np.float64)


# --- cases: a dict of plain values each; `inputs` and `reference` make the data

class Case:
    def __init__(self, name, file, kernel, params, facts, grid, tensors, scalars, out, check, slack=None):
        self.name, self.file, self.kernel, self.params, self.facts, self.grid = name, file, kernel, params, facts, grid
        self.tensors = tensors  # name: (dtype, shape, values or None for the output), in any order
        self.scalars, self.out, self.check = scalars, out, check
        self.slack = slack  # None: exact; else the error allowed for each element before the last rounding, in units of 2^-24


def ints(seed, shape, lo=-4, hi=5):
    return np.random.default_rng(seed).integers(lo, hi, shape).astype(np.float64)


def vector_add(n, block, dtype, facts=False, warps=4):
    x, y = ints(1, (n,), -99, 100), ints(2, (n,), -99, 100)
    return Case(f"vector_add {dtype} n {n} block {block} warps {warps}{' facts' if facts else ''}", "vector_add.tlx", "vector_add",
                {"BLOCK": block, "T": dtype, "WARPS": warps},
                ["aligned(x, 16)", "aligned(y, 16)", "aligned(out, 16)", "n % 16 == 0"] if facts else [], (cdiv(n, block), 1, 1),
                {"x": (dtype, (n,), x), "y": (dtype, (n,), y), "out": (dtype, (n,), None)}, {"n": n}, "out", lambda: x + y)


def grid_stride(n, grid):
    x = ints(3, (n,), -99, 100)
    return Case(f"grid_stride f32 n {n} grid {grid[0]}x{grid[1]} (hidden arguments)", None, "grid_stride", {}, [], grid,
                {"x": ("f32", (n,), x), "out": ("f32", (n,), None)}, {"n": n}, "out", lambda: x * 2 + grid[1])


def softmax(rows, cols, block, dtype, facts=False, kernel="softmax", warps=4):
    x = decode(encode(np.random.default_rng(4).standard_normal((rows, cols)) * 4, dtype), dtype)

    def reference():
        e = np.exp(x - x.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    return Case(f"{kernel} {dtype} {rows}x{cols} block {block} warps {warps}{' facts' if facts else ''}", kernel + ".tlx", kernel,
                {"BLOCK": block, "T": dtype, "WARPS": warps},
                ["aligned(x, 16)", "aligned(y, 16)", "cols % 16 == 0", "stride % 16 == 0"] if facts else [], (rows, 1, 1),
                {"x": (dtype, (rows, cols), x), "y": (dtype, (rows, cols), None)}, {"cols": cols, "stride": cols}, "y", reference,
                # x - max, log2(e) and their product are rounded once each: an error of three times |x - max|; and a few for the rest.
                lambda: 8 + 3 * (x.max(axis=1, keepdims=True) - x))


def matmul(m, n, k, tile, stages, dtype, out, facts=False, even_k=False, trans_a=False, trans_b=False, warps=4):
    bm, bn, bk = tile
    a, b = ints(5, (m, k)), ints(6, (k, n))
    params = {"BM": bm, "BN": bn, "BK": bk, "STAGES": stages, "T": dtype, "OUT": out, "WARPS": warps}
    params.update({"EVEN_K": "true"} if even_k else {})
    params.update({"TRANS_A": "true"} if trans_a else {})
    params.update({"TRANS_B": "true"} if trans_b else {})
    lda, ldb = (m if trans_a else k), (k if trans_b else n)
    marks = [text for text, on in (("facts", facts), ("even K", even_k), ("A^T", trans_a), ("B^T", trans_b)) if on]
    return Case(" ".join([f"matmul {dtype} to {out} {m}x{n}x{k} tile {bm}x{bn}x{bk} stages {stages} warps {warps}"] + marks),
                "matmul_pointers.tlx", "matmul_pointers", params,
                [f"aligned({p}, 16)" for p in "abc"] + [f"{p} % 16 == 0" for p in ("M", "N", "K", "lda", "ldb", "ldc")] if facts else [],
                (cdiv(m, bm) * cdiv(n, bn), 1, 1),
                {"a": (dtype, (k, m) if trans_a else (m, k), a.T.copy() if trans_a else a),
                 "b": (dtype, (n, k) if trans_b else (k, n), b.T.copy() if trans_b else b), "c": (out, (m, n), None)},
                {"M": m, "N": n, "K": k, "lda": lda, "ldb": ldb, "ldc": n}, "c",
                lambda: decode(encode(a @ b, out), out))


def cases(target):
    if target == "gfx950":  # loads straight into LDS, several rounds of each ring; 8-bit floats (the emulator knows the OCP forms only)
        for dtype in ("f16", "bf16"):
            for stages in (2, 3, 4):
                yield matmul(128, 144, 512, (64, 64, 32), stages, dtype, "f32", facts=True, even_k=True, trans_b=True)
            yield matmul(256, 128, 320, (128, 128, 64), 3, dtype, dtype, facts=True, even_k=True, trans_b=True)
            yield matmul(128, 144, 256, (64, 64, 32), 3, dtype, "f32", facts=True, even_k=True, trans_a=True)
        yield matmul(256, 256, 256, (256, 256, 64), 2, "bf16", "bf16", facts=True, even_k=True, trans_b=True, warps=8)
        for dtype in FLOAT8:
            yield matmul(128, 144, 256, (64, 64, 64), 3, dtype, "f32", facts=True, even_k=True, trans_b=True)
            yield matmul(100, 130, 70, (64, 64, 64), 1, dtype, "f32")
        yield matmul(128, 144, 192, (64, 64, 32), 3, "f32", "f32", facts=True, even_k=True, trans_b=True)
    for dtype in ("f32", "f16"):
        yield vector_add(3001, 1024, dtype)
    yield vector_add(3008, 1024, "f32", facts=True)
    yield vector_add(3008, 1024, "f16", facts=True)
    yield vector_add(777, 256, "f32", warps=1)
    yield grid_stride(3001, (3, 2, 1))
    for dtype in ("f32", "f16"):
        for cols in (389, 512):
            yield softmax(5, cols, 512, dtype)
    yield softmax(5, 512, 512, "f32", facts=True)
    yield softmax(5, 512, 512, "f16", facts=True)
    yield softmax(3, 389, 512, "f32", warps=1)
    yield softmax(3, 389, 512, "f32", warps=8)
    yield softmax(3, 1300, 512, "f32", kernel="softmax_long")
    for tile in ((64, 64, 32), (128, 128, 32)):
        for stages in (1, 3):
            for dtype in ("f16", "bf16"):
                for out in ("f32", "f16"):
                    yield matmul(100, 130, 70, tile, stages, dtype, out)
                    yield matmul(128, 128, 96, tile, stages, dtype, out)
                    yield matmul(128, 128, 96, tile, stages, dtype, out, facts=True)
                yield matmul(128, 128, 96, tile, stages, dtype, "f32", facts=True, even_k=True)
    for dtype in ("f16", "bf16"):
        yield matmul(208, 176, 112, (64, 64, 32), 3, dtype, "f32", facts=True)
        for trans_a, trans_b in ((True, False), (False, True), (True, True)):
            yield matmul(100, 130, 70, (64, 64, 32), 3, dtype, "f32", trans_a=trans_a, trans_b=trans_b)
            yield matmul(128, 128, 96, (64, 64, 32), 3, dtype, "f32", facts=True, even_k=True, trans_a=trans_a, trans_b=trans_b)
    yield matmul(100, 130, 70, (64, 64, 32), 2, "bf16", "bf16")
    yield matmul(40, 50, 200, (32, 32, 32), 3, "f16", "f32", warps=1)
    yield matmul(100, 130, 70, (128, 64, 32), 3, "f16", "f32", warps=8)
    yield matmul(60, 60, 7, (64, 64, 32), 3, "f16", "f32")
    # These two need more of the emulator: A and B of a matrix instruction in accumulation registers, and xf32. The results say who can.
    yield matmul(40, 50, 200, (32, 32, 64), 3, "f16", "f32", warps=1)
    yield matmul(60, 60, 40, (64, 64, 32), 3, "f32", "f32")


# --- memory with a page behind it that may not be touched

class Guarded:
    def __init__(self, nbytes, content=None):
        page = mmap.PAGESIZE
        self.nbytes, self.rounded = nbytes, cdiv(nbytes, 16) * 16
        self.total = cdiv(self.rounded, page) * page + page
        self.map = mmap.mmap(-1, self.total)
        base = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        self.view = np.frombuffer(self.map, np.uint8, self.total - page)
        self.view[:] = GUARD
        self.start = self.total - page - self.rounded
        self.address = base + self.start
        if content is not None:
            self.view[self.start:self.start + nbytes] = np.frombuffer(content.tobytes(), np.uint8)
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mprotect(ctypes.c_void_p(base + self.total - page), ctypes.c_size_t(page), 0):
            raise OSError(ctypes.get_errno(), "mprotect")

    def bytes(self):
        return self.view[self.start:self.start + self.nbytes].tobytes()

    def intact(self):
        return bool((self.view[:self.start] == GUARD).all() and (self.view[self.start + self.nbytes:] == GUARD).all())


# --- one case

def tlxc(options, *words):
    done = subprocess.run([options.tlxc, *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"tlxc {words[0]}: exit {done.returncode}: {(done.stderr or done.stdout).strip().splitlines()[-1:]}")
    return done.stdout


def judge(case, stored, dtype, reference):
    """(right, text): how far the result is from the reference."""
    got = decode(stored, dtype)
    if not case.slack:
        wrong = ~(got == reference)
        text = f"{int(wrong.sum())} of {wrong.size} wrong, first at {np.argwhere(wrong)[0].tolist()}" if wrong.any() else "exact"
        return not wrong.any(), text
    last, floor = (2.0**-11, 2.0**-14) if dtype == "f16" else (2.0**-24, 2.0**-126)  # half a unit in the last place; the least normal
    error = np.abs(got - reference)
    allowed = np.abs(reference) * 2.0**-24 * case.slack() + np.maximum(np.abs(reference), floor) * last
    relative = float((error / np.abs(reference))[reference >= floor].max())
    right = bool((error <= allowed).all())  # false for a NaN
    return right, f"error {relative:.1e}, {float((error / allowed).max()):.2f} of the bound"


def run_case(case, options):
    """The row of the table. Runs in a process of its own."""
    row = {"case": case.name, "emulator": "not run", "simulator": "not run", "ok": False}
    with tempfile.TemporaryDirectory() as directory:
        work = pathlib.Path(directory)
        file = KERNELS / case.file if case.file else work / "kernel.tlx"
        if not case.file:
            file.write_text(GRID_STRIDE)
        compile_words = [file, "--kernel", case.kernel, "--target", options.target, "--no-cache"]
        for name, value in case.params.items():
            compile_words += ["-D", f"{name}={value}"]
        for fact in case.facts:
            compile_words += ["--assume", fact]
        hsaco = work / "kernel.hsaco"
        tlxc(options, "build", *compile_words, "-o", hsaco)
        if options.no_barriers:
            image = hsaco.read_bytes()
            code = np.frombuffer(image, np.uint32, len(image) // 4).copy()
            code[code == S_BARRIER] = S_NOP
            hsaco.write_bytes(code.tobytes() + image[4 * len(code):])
        meta = json.loads(tlxc(options, "build", *compile_words, "--emit", "json"))
        asm = tlxc(options, "build", *compile_words, "--emit", "asm")
        row["registers"], row["lds"], row["hidden"] = meta["resources"]["registers"], meta["shared_bytes"], len(meta["hidden"])
        row["mfma"], row["direct"] = len(re.findall(r"\bv_mfma_", asm)), len(re.findall(r"\bbuffer_load_dword.* lds\b", asm))
        widest = {kind: max([4 * int(n or 1) if not short else 2 for n, short in re.findall(
            rf"\b(?:global|buffer)_{kind}_(?:dword(?:x(\d))?|(ushort|short)\w*)", asm)] or [0]) for kind in ("load", "store")}
        row["bytes"] = f"{widest['load']}/{widest['store']}"

        reference = case.check()
        dtype, shape, _ = case.tensors[case.out]
        stored_type = encode(np.zeros(1), dtype).dtype

        # Our simulator, on the same data.
        words = ["--grid", ",".join(map(str, case.grid)), "--out", f"{case.out}={work / 'out.npy'}"]
        for name, (kind, extent, values) in case.tensors.items():
            spec = f"{name}={kind}[{','.join(map(str, extent))}]"
            if values is not None:
                np.save(work / f"{name}.npy", encode(values, kind))
                spec += f"=@{work / name}.npy"
            words += ["--arg", spec]
        for name, value in case.scalars.items():
            words += ["--arg", f"{name}={value}"]
        simulated = None
        try:
            tlxc(options, "run", *compile_words, "--device", "sim", *words)
            simulated = np.load(work / "out.npy")
            row["simulator"] = judge(case, simulated, dtype, reference)[1]
        except Exception as error:
            row["simulator"] = f"{type(error).__name__}: {error}"

        # The emulator.
        buffers = {name: Guarded(int(np.prod(extent)) * encode(np.zeros(1), kind).dtype.itemsize,
                                 None if values is None else encode(values, kind)) for name, (kind, extent, values) in case.tensors.items()}
        before = {name: buffer.bytes() for name, buffer in buffers.items()}
        args, offset = [], 0
        for arg in meta["args"]:
            value = buffers[arg["name"]].address if arg["kind"] == "pointer" else case.scalars[arg["name"]]
            args.append((arg["offset"], value, arg["size"]))
        for arg in meta["hidden"]:
            args.append((arg["offset"], case.grid["xyz".index(arg["kind"][-1])], arg["size"]))
        for at, _, size in sorted(args):
            offset = cdiv(offset, size) * size
            if at != offset:
                raise RuntimeError(f"the metadata puts an argument at {at}, natural alignment at {offset}")
            offset += size
        if offset != meta["param_bytes"]:
            raise RuntimeError(f"arguments take {offset} bytes, the metadata says {meta['param_bytes']}")
        spec = importlib.util.spec_from_file_location("cdna_emulator", options.emulator)
        emulator = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(emulator)
        start = time.time()
        emulator.run(str(hsaco), meta["symbol"], case.grid, (WAVE * meta["num_warps"], 1, 1),
                     [(value, size) for _, value, size in sorted(args)])
        row["seconds"] = round(time.time() - start, 1)
        stored = np.frombuffer(buffers[case.out].bytes(), stored_type).reshape(shape)
        right, row["emulator"] = judge(case, stored, dtype, reference)
        guards = all(buffer.intact() for buffer in buffers.values())
        inputs = all(buffers[name].bytes() == before[name] for name in buffers if name != case.out)
        if not guards:
            row["emulator"] += ", WROTE OUTSIDE"
        if not inputs:
            row["emulator"] += ", CHANGED AN INPUT"
        if simulated is not None and case.slack:
            same = stored.view(np.uint8).tobytes() == simulated.tobytes()
            row["emulator"] += ", bits of the simulator" if same else ""
        row["ok"] = right and guards and inputs
    return row


def in_process(case, options):
    words = [sys.executable, __file__, "--target", options.target, "--emulator", options.emulator, "--tlxc", options.tlxc, "--one", case.name]
    words += ["--no-barriers"] if options.no_barriers else []
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=options.timeout)
    except subprocess.TimeoutExpired:
        return {"case": case.name, "ok": False, "emulator": f"no end within {options.timeout} s"}
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"case"')]
    if lines:
        return json.loads(lines[-1])
    why = (done.stderr.strip().splitlines() or ["no message"])[-1]
    return {"case": case.name, "ok": False, "emulator": f"died, exit {done.returncode}: {why}"}


COLUMNS = ("case", "emulator", "simulator", "registers", "lds", "mfma", "direct", "bytes", "hidden", "seconds")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", choices=("gfx942", "gfx950"), required=True)
    parser.add_argument("--emulator", default=os.environ.get("TLX_CDNA_EMULATOR"), help="the Python file with run()")
    parser.add_argument("--tlxc", default=str(ROOT / "build" / "tlxc"))
    parser.add_argument("--filter", default="", help="only cases whose name matches this regular expression")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--timeout", type=int, default=300, help="seconds for one case")
    parser.add_argument("--markdown", action="store_true", help="print the table in Markdown")
    parser.add_argument("--list", action="store_true", help="only list the cases")
    parser.add_argument("--no-barriers", action="store_true",
                        help="a check of the check: every s_barrier becomes s_nop, and the cases that use shared memory must fail")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    chosen = [case for case in cases(options.target) if (case.name == options.one if options.one else re.search(options.filter, case.name))]
    if options.list:
        print("\n".join(case.name for case in chosen))
        return 0
    if not options.emulator:
        parser.error("give an emulator with --emulator or TLX_CDNA_EMULATOR; see --help for what it has to offer")
    if options.one:
        row = {"case": options.one, "ok": False}
        try:
            row = run_case(chosen[0], options)
        except Exception as error:
            row["emulator"] = f"{type(error).__name__}: {error}"
        print(json.dumps(row))
        return 0
    rows = []
    if options.markdown:
        print("| | " + " | ".join(COLUMNS) + " |\n|---|" + "---|" * len(COLUMNS))
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for row in pool.map(lambda case: in_process(case, options), chosen):
            rows.append(row)
            words = ["ok" if row["ok"] else "WRONG"] + [str(row.get(column, "")) for column in COLUMNS]
            print("| " + " | ".join(words) + " |" if options.markdown else "  ".join(words), flush=True)
    print(f"\n{sum(row['ok'] for row in rows)} of {len(rows)} right")
    return 0 if all(row["ok"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
