#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the code objects of `tlxc build` for gfx942 or gfx950, of every kernel in kernels/, on an emulator of the CDNA instruction set that is not
ours, and compares with NumPy and with our simulator. Needs NumPy, a built tlxc, and an emulator, which is not part of this repository:

  --emulator FILE.py (or TLX_CDNA_EMULATOR): a Python file with

      run(path, kernel, grid, block, args)

  which loads the code object `path` and runs `kernel` on grid = (x, y, z) workgroups of block = (x, y, z) threads. `args` is the list of
  what the kernel's parameters hold, each a pair (value, size in bytes), to be laid out by natural alignment; an address is a pair (address, 8)
  in this process, a float its bits. It returns when the grid is done and raises on what it cannot execute. A few lines make one from the emulator
  of tinygrad (test/mockgpu/amd/emu.py, run_asm): load the ELF segments, read the kernel descriptor, fill the kernel arguments.

Where sums are exact the data are integers and every element must be exact; the rest is compared with float64, with a bound for each element
(below, beside the data). Outputs and the gaps between rows hold NaN before, and the gaps must after; each buffer ends at a page that may not
be touched (rounded up to 16 bytes), and the bytes before it, and between its end and that page, must not change, nor may inputs.

A case is `ok`, or `WRONG`, or `LIMIT`: it fails on the emulator, is marked in the list of cases with one of LIMITS, has in its code what that limit
is about, touched nothing that it should not (unless that limit may reach any address), and is right on our simulator. Exit code 1 if any is WRONG.

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
import select
import struct
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

import configs

ROOT = pathlib.Path(__file__).resolve().parent.parent
KERNELS = ROOT / "kernels"
WAVE = 64
GUARD, POISON = 0xA5, 0xFF
S_BARRIER, S_NOP = 0xBF8A0000, 0xBF800000

# What the emulator of tinygrad (2026-08-22) is known to do wrong or to refuse: key: (what the code object has then, whether it may reach any address,
# why the failure is not ours). bench/results/*-emulator*.md have the evidence. Cases name the keys.
HIGH = r"v(12[89]|1[3-9]\d|2\d\d)"
LIMITS = {
    "acc": (r"v_mfma_\w+ \S+ (a\[|\S+ a\[)|\bds_write\w* v\d+, a", False,
            "A or B of a matrix instruction, or what an LDS store stores, in accumulation registers: the vector register of that number is read"),
    "halves": (rf"v_cvt_f16_f32_e32 {HIGH},|v_cvt_f32_f16_e32 \w+, {HIGH}", True,
               "f16 in vector registers from 128 on, e32 encoding: taken for the upper half of the register 128 below, as on RDNA 3"),
    "xf32": (r"v_mfma_\w+_xf32", False, "v_mfma_f32_16x16x8_xf32: its operands are taken for packed f16"),
    "fnuz": (r"v_mfma_f32_\w+_(fp8|bf8)\b", False, "8-bit floats of gfx942 are FNUZ; they are taken for OCP, which is twice the value"),
    "i8": (r"v_mfma_i32_", False, "integer matrix instructions: the C that the emulator makes of them does not compile"),
    "f64": (r"v_mfma_f64_", False, "v_mfma_f64 is not implemented: its operands are taken for packed f16"),
}

# The grid's size reaches an AMD kernel through hidden arguments only when the kernel asks for it.
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

FLOAT8 = {"f8e4m3": (3, 7), "f8e5m2": (2, 15), "f8e4m3fnuz": (3, 8), "f8e5m2fnuz": (2, 16)}  # bits of the mantissa, bias
NUMPY = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "i8": np.int8, "i32": np.int32}
# Half a unit in the last place, relative; the least normal number.
ULP = 2.0**-24  # that of f32
LAST = {"f16": (2.0**-11, 2.0**-14), "bf16": (2.0**-8, 2.0**-126), "f32": (2.0**-24, 2.0**-126)}


def encode(values, dtype):
    if dtype in FLOAT8:  # of values that the format has, no denormals
        mantissa, bias = FLOAT8[dtype]
        m, e = np.frexp(np.abs(values))
        bits = ((e - 1 + bias) << mantissa) | (np.ldexp(m, mantissa + 1).astype(np.int64) & ((1 << mantissa) - 1))
        return np.where(values == 0, 0, bits | np.where(values < 0, 0x80, 0)).astype(np.uint8)
    if dtype != "bf16":
        return values.astype(NUMPY[dtype])
    bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)  # to nearest even; no NaN comes here


def stored_type(dtype):
    return encode(np.zeros(1), dtype).dtype


def decode(stored, dtype):
    if dtype == "bf16":
        return (stored.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return stored.astype(np.float64)


def rounded(values, dtype):
    return decode(encode(values, dtype), dtype)


# --- cases

class Tensor:
    """An argument in memory. Without `values` it is an output. Strides are in elements, one a dimension, and the last is 1."""

    def __init__(self, dtype, shape, values=None, strides=None):
        self.dtype, self.shape, self.values = dtype, tuple(shape), values
        dense = [int(np.prod(self.shape[d + 1:])) for d in range(len(self.shape))]
        self.strides = tuple(strides or dense)
        self.dense = list(self.strides) == dense
        self.type = stored_type(dtype)
        self.span = 1 + sum((n - 1) * s for n, s in zip(self.shape, self.strides))

    def elements(self, memory):
        """A view of the elements in `memory`, an array of self.span."""
        return np.lib.stride_tricks.as_strided(memory, self.shape, [s * self.type.itemsize for s in self.strides])

    def image(self):
        memory = np.full(self.span * self.type.itemsize, POISON, np.uint8).view(self.type)
        if self.values is not None:
            self.elements(memory)[...] = encode(self.values, self.dtype)
        return memory

    def gaps_intact(self, memory):
        gaps = np.ones(self.span, bool)
        np.lib.stride_tricks.as_strided(gaps, self.shape, self.strides)[...] = False
        return bool((memory[gaps].view(np.uint8) == POISON).all())


def padded(dtype, shape, values=None):
    """A matrix whose rows are a multiple of 16 bytes apart, as descriptors demand, with at least one element between them."""
    unit = 16 // stored_type(dtype).itemsize
    return Tensor(dtype, shape, values, ((shape[1] + unit) // unit * unit, 1))


class Expected:
    """What an output should hold: float64, and the error allowed for each element before its last rounding; None: exact. `rms`: a bound for
    √(Σ(got - want)² / Σ want²); roundings are independent, so it is far below that of each element."""

    def __init__(self, value, error=None, rms=None):
        self.value, self.error, self.rms = value, error, rms


class Case:
    def __init__(self, name, file, kernel, params, facts, grid, arguments, expected, limit=None):
        self.name, self.file, self.kernel, self.params, self.facts = name, file, kernel, params, facts
        self.grid = tuple(grid) + (1,) * (3 - len(grid))
        self.arguments = arguments  # by name, in any order: Tensor, int or float
        self.expected = expected  # gives {name of an output: Expected}
        self.limits = (limit or "").split()  # keys of LIMITS: why the emulator cannot do this case
        self.tensors = {name: value for name, value in arguments.items() if isinstance(value, Tensor)}


def ints(seed, shape, lo=-4, hi=5):
    return np.random.default_rng(seed).integers(lo, hi, shape).astype(np.float64)


def normal(seed, shape, dtype, scale=1.0, offset=0.0):
    return rounded(np.random.default_rng(seed).standard_normal(shape) * scale + offset, dtype)


def flags(**values):
    return {name: "true" for name, value in values.items() if value}


def title(*words):
    return " ".join(str(word) for word in words if word)


# --- cases of vectors and rows

def vector_add(n, block, dtype, facts=False, warps=4):
    x, y = ints(1, (n,), -99, 100), ints(2, (n,), -99, 100)
    return Case(title("vector_add", dtype, "n", n, "block", block, "warps", warps, facts and "facts"), "vector_add.tlx", "vector_add",
                {"BLOCK": block, "T": dtype, "WARPS": warps},
                ["aligned(x, 16)", "aligned(y, 16)", "aligned(out, 16)", "n % 16 == 0"] if facts else [], (cdiv(n, block),),
                {"x": Tensor(dtype, (n,), x), "y": Tensor(dtype, (n,), y), "out": Tensor(dtype, (n,)), "n": n},
                lambda: {"out": Expected(rounded(x + y, dtype))})


def grid_stride(n, grid):
    x = ints(3, (n,), -99, 100)
    return Case(f"grid_stride f32 n {n} grid {grid[0]}x{grid[1]} (hidden arguments)", None, "grid_stride", {}, [], grid,
                {"x": Tensor("f32", (n,), x), "out": Tensor("f32", (n,)), "n": n}, lambda: {"out": Expected(x * 2 + grid[1])})


def row_facts(facts, *pointers):
    return [f"aligned({p}, 16)" for p in pointers] + ["cols % 16 == 0", "stride % 16 == 0"] if facts else []


def softmax(rows, cols, block, dtype, facts=False, kernel="softmax", warps=4, stride=None):
    stride = stride or cols
    x = normal(4, (rows, cols), dtype, 4)

    def expected():
        e = np.exp(x - x.max(axis=1, keepdims=True))
        y = e / e.sum(axis=1, keepdims=True)
        # x - max, log2(e) and their product are rounded once each: an error of three times |x - max|; and a few for the rest.
        return {"y": Expected(y, y * ULP * (8 + 3 * (x.max(axis=1, keepdims=True) - x)))}

    return Case(title(kernel, dtype, f"{rows}x{cols}", stride != cols and f"stride {stride}", "block", block, "warps", warps, facts and "facts"),
                kernel + ".tlx", kernel, {"BLOCK": block, "T": dtype, "WARPS": warps}, row_facts(facts, "x", "y"), (rows,),
                {"x": Tensor(dtype, (rows, cols), x, (stride, 1)), "y": Tensor(dtype, (rows, cols), None, (stride, 1)), "cols": cols,
                 "stride": stride}, expected)


def norm(kernel, rows, cols, block, dtype, weights=None, facts=False, warps=4, stride=None, offset=0.0):
    stride, weights, centred, eps = stride or cols, weights or dtype, kernel.startswith("layer"), 1e-5
    x = normal(7, (rows, cols), dtype, 1, offset)
    w, b = normal(8, (cols,), weights), normal(9, (cols,), weights)

    def expected():
        mean = x.mean(axis=1, keepdims=True) if centred else 0.0
        deviation = np.sqrt(((x - mean) ** 2).mean(axis=1, keepdims=True) + float(np.float32(eps)))
        unit, bias = (x - mean) / deviation, b if centred else 0 * b
        # Some ten roundings of f32 on the way; the mean's are relative to the mean.
        return {"y": Expected(unit * w + bias, 16 * ULP * (np.abs(bias) + np.abs(w) * (np.abs(unit) + 1 + np.abs(mean) / deviation)))}

    arguments = {"x": Tensor(dtype, (rows, cols), x, (stride, 1)), "weight": Tensor(weights, (cols,), w),
                 "y": Tensor(dtype, (rows, cols), None, (stride, 1)), "cols": cols, "stride": stride, "eps": eps,
                 **({"bias": Tensor(weights, (cols,), b)} if centred else {})}
    return Case(title(kernel, dtype, weights != dtype and f"weights {weights}", f"{rows}x{cols}", stride != cols and f"stride {stride}",
                      offset and f"mean {offset:g}", "block", block, "warps", warps, facts and "facts"),
                kernel.removesuffix("_long") + ".tlx", kernel, {"BLOCK": block, "T": dtype, "W": weights, "WARPS": warps},
                row_facts(facts, *[name for name, value in arguments.items() if isinstance(value, Tensor)]), (rows,), arguments, expected)


# --- cases of matrix products

def matmul_pointers(m, n, k, tile, stages, dtype, out, facts=False, even_k=False, trans_a=False, trans_b=False, warps=4, limit=None):
    bm, bn, bk = tile
    a, b = ints(5, (m, k)), ints(6, (k, n))
    params = {"BM": bm, "BN": bn, "BK": bk, "STAGES": stages, "T": dtype, "OUT": out, "WARPS": warps,
              **flags(EVEN_K=even_k, TRANS_A=trans_a, TRANS_B=trans_b)}
    lda, ldb = (m if trans_a else k), (k if trans_b else n)
    return Case(title("matmul_pointers", dtype, "to", out, f"{m}x{n}x{k} tile {bm}x{bn}x{bk} stages {stages} warps {warps}", facts and "facts",
                      even_k and "even K", trans_a and "A^T", trans_b and "B^T"),
                "matmul_pointers.tlx", "matmul_pointers", params,
                [f"aligned({p}, 16)" for p in "abc"] + [f"{p} % 16 == 0" for p in ("M", "N", "K", "lda", "ldb", "ldc")] if facts else [],
                (cdiv(m, bm) * cdiv(n, bn),),
                {"a": Tensor(dtype, *((k, m), a.T) if trans_a else ((m, k), a)), "b": Tensor(dtype, *((n, k), b.T) if trans_b else ((k, n), b)),
                 "c": Tensor(out, (m, n)), "M": m, "N": n, "K": k, "lda": lda, "ldb": ldb, "ldc": n},
                lambda: {"c": Expected(rounded(a @ b, out))}, limit)


def matmul(m, n, k, tile, stages, dtype, out, ta=False, tb=False, warps=4, group=8, programs=None, acc="f32", limit=None):
    """By descriptors; with `programs` the persistent kernel."""
    bm, bn, bk = tile
    a, b = ints(5, (m, k)), ints(6, (k, n))
    kernel = "matmul_persistent" if programs else "matmul"
    params = {"BM": bm, "BN": bn, "BK": bk, "STAGES": stages, "GROUP_M": group, "WARPS": warps, "T": dtype, "ACC": acc, "OUT": out,
              **flags(TA=ta, TB=tb)}
    return Case(title(kernel, dtype, "to", out, f"{m}x{n}x{k} tile {bm}x{bn}x{bk} stages {stages} warps {warps}", group != 8 and f"group {group}",
                      programs and f"programs {programs}", ta and "A^T", tb and "B^T"),
                "matmul.tlx", kernel, params, [], (programs or cdiv(m, bm) * cdiv(n, bn),),
                {"a": padded(dtype, *((k, m), a.T) if ta else ((m, k), a)), "b": padded(dtype, *((n, k), b.T) if tb else ((k, n), b)),
                 "c": padded(out, (m, n)), "M": m, "N": n, "K": k}, lambda: {"c": Expected(rounded(a @ b, out))}, limit)


def act_silu(x):
    # exp(-x) within 2 + |x| ulp, the quotient within 2 ulp.
    return x / (1 + np.exp(-x)), 10 + 2 * np.abs(x)


def act_gelu(x):
    u = 1.5957691216057308 * (x + 0.044715 * x * x * x)  # some six roundings, which the exponential turns into relative errors of |u| each
    return x / (1 + np.exp(-u)), 10 + 8 * np.abs(u)


# Value, and error in units of 2^-24 of it (None: exact).
ACTIVATIONS = {"identity": lambda x: (x, None), "relu": lambda x: (np.maximum(x, 0), None), "silu": act_silu, "gelu": act_gelu}


def matmul_bias_act(m, n, k, tile, stages, dtype, act, warps=4):
    bm, bn, bk = tile
    a, b, bias = ints(5, (m, k)) / 8, ints(6, (n, k)) / 8, ints(10, (n,)) / 8  # so that sums are exact, and about 1

    def expected():
        value, error = ACTIVATIONS[act](a @ b.T + bias)
        return {"c": Expected(rounded(value, dtype) if error is None else value, None if error is None else np.abs(value) * ULP * error)}

    return Case(title("matmul_bias_act", act, dtype, f"{m}x{n}x{k} tile {bm}x{bn}x{bk} stages {stages} warps {warps}"),
                "matmul_bias_act.tlx", "matmul_bias_act",
                {"BM": bm, "BN": bn, "BK": bk, "STAGES": stages, "WARPS": warps, "T": dtype, "ACT": act}, [], (cdiv(m, bm) * cdiv(n, bn),),
                {"a": padded(dtype, (m, k), a), "b": padded(dtype, (n, k), b), "bias": Tensor(dtype, (n,), bias), "c": padded(dtype, (m, n)),
                 "M": m, "N": n, "K": k}, expected)


# --- cases of attention

def select_one(heads, seq, d, causal):
    """Q, K, V and, for each row, the one key that it sees: its score is above all others by so much that their weights are zero in f32. So O is
    rows of V, exactly, and a fragment in a wrong place is a wrong number."""
    rng = np.random.default_rng(12)
    k = rng.choice([-8.0, 8.0], (heads, seq, d))
    rows = np.arange(seq)
    chosen = (rows * 7919 + 3) % (rows + 1 if causal else seq)
    scores = k[:, chosen] @ k.transpose(0, 2, 1) / np.sqrt(d)
    others = np.where(np.arange(seq) == chosen[:, None], -np.inf, scores)
    assert (scores.max(axis=2) - others.max(axis=2)).min() > 120
    return k[:, chosen], k, ints(13, (heads, seq, d), -99, 100), chosen


def attention_bounds(q, k, v, dtype, causal, scale):
    """O and the logarithms of sums with the errors allowed: each weight is rounded once to the type of V, scores and sums are f32."""
    last, least = LAST[dtype]
    scores, sizes = q @ k.transpose(0, 2, 1) * scale, np.abs(q) @ np.abs(k).transpose(0, 2, 1) * scale
    if causal:
        hidden = np.triu(np.ones(scores.shape[1:], bool), 1)
        scores, sizes = np.where(hidden, -np.inf, scores), np.where(hidden, 0, sizes)
    top = scores.max(axis=2, keepdims=True)
    weights = np.exp(scores - top)
    total = weights.sum(axis=2, keepdims=True)
    o, size = weights @ v / total, weights @ np.abs(v) / total
    error = last * size + (2e-6 + 4 * 2.0**-23 * sizes.max(axis=2, keepdims=True)) * size
    if dtype == "f16":  # its smallest step; and weights below its least normal number, which the emulator's matrix instructions take for 0
        error += 2.0**-25 * ((weights > 0) @ np.abs(v)) / total
        error += np.where(weights < least, weights, 0) @ np.abs(v) / total
    lse = (top + np.log(total))[:, :, 0]
    return o, error, lse


def attention(heads, seq, d, bm, bn, stages, dtype, causal=False, even=False, data="normal", warps=4, limit=None):
    """Tensors as frameworks keep them, [seq, heads, d] with a gap behind each row of all heads. `data`: normal; growing: later keys have larger
    scores, so that the maximum grows all the way; one key: see select_one."""
    scale = float(np.float32(1 / np.sqrt(d)))
    if data == "one key":
        q, k, v, chosen = select_one(heads, seq, d, causal)
    else:  # multiples of 1/64: scores are exact
        q, k, v = (rounded(np.round(normal(11 + i, (heads, seq, d), "f32") * 64) / 64, dtype) for i in range(3))
        k = rounded(k * (1 + np.arange(seq)[:, None] / 16), dtype) if data == "growing" else k

    def expected():
        o, error, lse = attention_bounds(q, k, v, dtype, causal, scale)
        close = Expected(lse, 1e-5 + 1e-6 * np.abs(lse))
        if data == "one key":
            return {"o": Expected(v[:, chosen]), "lse": close}
        return {"o": Expected(o, error, {"f16": 4e-4, "bf16": 3.2e-3}[dtype]), "lse": close}

    strides = (d, heads * d + 8, 1)
    return Case(title("attention", dtype, "causal" if causal else "full", "heads", heads, "seq", seq, "D", d, f"tile {bm}x{bn}", "stages", stages,
                      "warps", warps, even and "even", data != "normal" and data),
                "attention.tlx", "attention",
                {"D": d, "BM": bm, "BN": bn, "STAGES": stages, "WARPS": warps, "T": dtype, **flags(CAUSAL=causal, EVEN=even)}, [],
                (cdiv(seq, bm), heads),
                {"q": Tensor(dtype, (heads, seq, d), q, strides), "k": Tensor(dtype, (heads, seq, d), k, strides),
                 "v": Tensor(dtype, (heads, seq, d), v, strides), "o": Tensor(dtype, (heads, seq, d), None, strides),
                 "lse": Tensor("f32", (heads, seq)), "seq": seq, "scale": scale}, expected, limit)


# --- the list

def cases_of_rows():
    for dtype in ("f32", "f16", "bf16"):
        yield vector_add(3001, 1024, dtype)
    yield vector_add(3008, 1024, "f32", facts=True)
    yield vector_add(3008, 1024, "f16", facts=True)
    yield vector_add(777, 256, "f32", warps=1)
    yield grid_stride(3001, (3, 2))
    for dtype in ("f32", "f16", "bf16"):
        for cols in (389, 512):
            yield softmax(5, cols, 512, dtype)
    yield softmax(5, 512, 512, "f32", facts=True)
    yield softmax(5, 512, 512, "f16", facts=True)
    yield softmax(3, 389, 512, "f32", warps=1)
    yield softmax(3, 389, 512, "f32", warps=8)
    for dtype in ("f32", "f16", "bf16"):
        yield softmax(3, 1300, 512, dtype, kernel="softmax_long")
    yield softmax(2, 1000, 256, "f32", kernel="softmax_long", stride=1003)
    yield softmax(2, 720, 256, "f16", facts=True, kernel="softmax_long", stride=736, warps=2)
    for kernel in ("layer_norm", "rms_norm"):
        for dtype, weights in (("f32", "f32"), ("f16", "f16"), ("bf16", "bf16"), ("bf16", "f32")):
            yield norm(kernel, 3, 389, 512, dtype, weights, stride=400)
        yield norm(kernel, 3, 512, 512, "f32", warps=1)
        yield norm(kernel, 2, 400, 512, "f16", facts=True, stride=416)
        for dtype in ("f32", "f16", "bf16"):
            yield norm(kernel + "_long", 2, 1000, 256, dtype, stride=1003)
        yield norm(kernel + "_long", 2, 720, 256, "bf16", "f32", facts=True, stride=736, warps=2)
        yield norm(kernel + "_long", 1, 1, 256, "f32")
    yield norm("layer_norm", 2, 500, 512, "f32", offset=1000.0)
    yield norm("layer_norm_long", 2, 1000, 128, "f32", offset=1000.0)


def cases_of_configs(target):
    """What kernels/configs.json takes for rows and tiles of this target."""
    for work in ("softmax", "layer_norm", "rms_norm"):
        for rows, cols in ((3, 1008), (2, 2032), (1, 4080), (1, 8176), (1, 12000), (1, 20000)):
            rule = configs.pick(work, target, "bf16", {"rows": rows, "cols": cols}, CONFIGS)
            same = {"dtype": "bf16", "facts": True, "warps": rule.params["WARPS"], "block": rule.params["BLOCK"], "kernel": rule.kernel}
            yield softmax(rows, cols, **same) if work == "softmax" else norm(rows=rows, cols=cols, **same)
    for dtype in ("f16", "bf16"):
        p = configs.pick("matmul", target, dtype, {"M": 200, "N": 152, "K": 72}, CONFIGS).params
        yield matmul(200, 152, 72, (p["BM"], p["BN"], p["BK"]), p["STAGES"], dtype, dtype, warps=p["WARPS"], group=p["GROUP_M"])
        p = configs.pick("attention", target, dtype, {"seq": 200, "heads": 2}, CONFIGS).params
        yield attention(2, 200, 64, p["BM"], p["BN"], p["STAGES"], dtype, causal=True, warps=p["WARPS"],
                        limit="halves" if (target, dtype) == ("gfx942", "f16") else None)


def cases_of_descriptors(target):
    ragged, whole, tile = (100, 130, 70), (128, 128, 96), (64, 64, 32)
    for dtype, out in (("f16", "f16"), ("bf16", "bf16"), ("f16", "f32"), ("bf16", "f32")):
        yield matmul(*ragged, tile, 3, dtype, out)
        yield matmul(*whole, tile, 2, dtype, out)
    for dtype in ("f16", "bf16"):
        for ta, tb in ((True, False), (False, True), (True, True)):
            yield matmul(*ragged, tile, 2, dtype, "f32", ta, tb)
        yield matmul(*ragged, tile, 2, dtype, dtype, programs=4)
        for act in ACTIVATIONS:
            yield matmul_bias_act(*ragged, tile, 2, dtype, act)
    yield matmul(200, 136, 40, tile, 1, "f16", "f32", group=2)
    yield matmul(70, 60, 200, tile, 4, "bf16", "f32")
    yield matmul(60, 60, 7, tile, 3, "f16", "f32")
    yield matmul(40, 50, 100, (32, 32, 32), 2, "f16", "f32", warps=1)
    yield matmul(100, 130, 70, (128, 64, 32), 2, "bf16", "bf16", warps=8)
    yield matmul(*ragged, tile, 3, "f16", "f32", programs=8)  # more programs than tiles
    yield matmul(200, 136, 40, tile, 2, "bf16", "f32", tb=True, group=2, programs=5)
    yield matmul_bias_act(128, 128, 96, tile, 3, "f16", "relu")
    yield matmul_bias_act(100, 130, 70, (128, 64, 32), 2, "bf16", "gelu", warps=8)
    yield matmul(60, 60, 40, tile, 2, "f32", "f32", limit="xf32" if target == "gfx942" else None)
    for dtype in ("f8e4m3fnuz", "f8e5m2fnuz") if target == "gfx942" else ("f8e4m3", "f8e5m2"):
        yield matmul(*ragged, (64, 64, 64), 2, dtype, "f32", tb=True, limit="fnuz" if target == "gfx942" else None)
    yield matmul(60, 60, 70, (64, 64, 64), 2, "i8", "i32", tb=True, acc="i32", limit="i8")
    yield matmul(60, 60, 40, (64, 64, 16), 2, "f64", "f64", tb=True, acc="f64", limit="f64")


def cases_of_attention(target):
    halves = "halves" if target == "gfx942" else None  # gfx950 has an instruction that converts two
    for causal in (False, True):
        for dtype in ("f16", "bf16"):
            yield attention(2, 100, 64, 64, 32, 1, dtype, causal, warps=8)
            yield attention(2, 100, 64, 64, 16, 2, dtype, causal)
            yield attention(2, 100, 80, 64, 32, 1, dtype, causal, limit=halves if dtype == "f16" else None)
            yield attention(2, 100, 96, 64, 16, 1, dtype, causal)
            yield attention(2, 128, 64, 64, 16, 2, dtype, causal, even=True)
            yield attention(1, 100, 64, 64, 16, 2, dtype, causal, data="one key")
        yield attention(1, 1, 64, 64, 32, 1, "f16", causal, warps=8)
        yield attention(1, 150, 64, 64, 32, 2, "bf16", causal, data="growing")
        yield attention(2, 100, 80, 64, 32, 1, "bf16", causal, data="one key")
        yield attention(2, 100, 64, 64, 64, 1, "f16", causal, limit=halves)
        yield attention(2, 100, 64, 64, 64, 1, "bf16", causal)
    yield attention(1, 100, 80, 64, 64, 1, "bf16", limit="acc")


def cases_of_pointers(target):
    if target == "gfx950":  # loads straight into LDS, several rounds of each ring; 8-bit floats (the emulator knows the OCP forms only)
        for dtype in ("f16", "bf16"):
            for stages in (2, 3, 4):
                yield matmul_pointers(128, 144, 512, (64, 64, 32), stages, dtype, "f32", facts=True, even_k=True, trans_b=True)
            yield matmul_pointers(256, 128, 320, (128, 128, 64), 3, dtype, dtype, facts=True, even_k=True, trans_b=True)
            yield matmul_pointers(128, 144, 256, (64, 64, 32), 3, dtype, "f32", facts=True, even_k=True, trans_a=True)
        yield matmul_pointers(256, 256, 256, (256, 256, 64), 2, "bf16", "bf16", facts=True, even_k=True, trans_b=True, warps=8)
        for dtype in ("f8e4m3", "f8e5m2"):
            yield matmul_pointers(128, 144, 256, (64, 64, 64), 3, dtype, "f32", facts=True, even_k=True, trans_b=True)
            yield matmul_pointers(100, 130, 70, (64, 64, 64), 1, dtype, "f32")
        yield matmul_pointers(128, 144, 192, (64, 64, 32), 3, "f32", "f32", facts=True, even_k=True, trans_b=True)
    for tile in ((64, 64, 32), (128, 128, 32)):
        for stages in (1, 3):
            for dtype in ("f16", "bf16"):
                for out in ("f32", "f16"):
                    yield matmul_pointers(100, 130, 70, tile, stages, dtype, out)
                    yield matmul_pointers(128, 128, 96, tile, stages, dtype, out)
                    yield matmul_pointers(128, 128, 96, tile, stages, dtype, out, facts=True)
                yield matmul_pointers(128, 128, 96, tile, stages, dtype, "f32", facts=True, even_k=True)
    for dtype in ("f16", "bf16"):
        yield matmul_pointers(208, 176, 112, (64, 64, 32), 3, dtype, "f32", facts=True)
        for trans_a, trans_b in ((True, False), (False, True), (True, True)):
            yield matmul_pointers(100, 130, 70, (64, 64, 32), 3, dtype, "f32", trans_a=trans_a, trans_b=trans_b)
            yield matmul_pointers(128, 128, 96, (64, 64, 32), 3, dtype, "f32", facts=True, even_k=True, trans_a=trans_a, trans_b=trans_b)
    yield matmul_pointers(100, 130, 70, (64, 64, 32), 2, "bf16", "bf16")
    yield matmul_pointers(40, 50, 200, (32, 32, 32), 3, "f16", "f32", warps=1)
    yield matmul_pointers(100, 130, 70, (128, 64, 32), 3, "f16", "f32", warps=8)
    yield matmul_pointers(60, 60, 7, (64, 64, 32), 3, "f16", "f32")
    yield matmul_pointers(40, 50, 200, (32, 32, 64), 3, "f16", "f32", warps=1, limit="acc")
    yield matmul_pointers(60, 60, 40, (64, 64, 32), 3, "f32", "f32", limit="xf32" if target == "gfx942" else None)


CONFIGS = json.loads((KERNELS / "configs.json").read_text())


def cases(target):
    for group in (cases_of_rows(), cases_of_configs(target), cases_of_descriptors(target), cases_of_attention(target), cases_of_pointers(target)):
        yield from group


# --- memory with a page behind it that may not be touched

class Guarded:
    def __init__(self, content):
        page = mmap.PAGESIZE
        self.nbytes, self.rounded = content.nbytes, cdiv(content.nbytes, 16) * 16
        self.total = cdiv(self.rounded, page) * page + page
        self.map = mmap.mmap(-1, self.total)
        base = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        self.view = np.frombuffer(self.map, np.uint8, self.total - page)
        self.view[:] = GUARD
        self.start = self.total - page - self.rounded
        self.address = base + self.start
        self.view[self.start:self.start + self.nbytes] = content.view(np.uint8)
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mprotect(ctypes.c_void_p(base + self.total - page), ctypes.c_size_t(page), 0):
            raise OSError(ctypes.get_errno(), "mprotect")

    def content(self, dtype):
        return self.view[self.start:self.start + self.nbytes].view(dtype)

    def intact(self):
        return bool((self.view[:self.start] == GUARD).all() and (self.view[self.start + self.nbytes:] == GUARD).all())


# --- one case

def tlxc(options, *words):
    done = subprocess.run([options.tlxc, *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"tlxc {words[0]}: exit {done.returncode}: {(done.stderr or done.stdout).strip().splitlines()[-1:]}")
    return done.stdout


def judge(stored, dtype, expected):
    """(right, text): how far one output is from what it should be."""
    got, want = decode(stored, dtype), expected.value
    if expected.error is None:
        wrong = ~(got == want)
        text = f"{int(wrong.sum())} of {wrong.size} wrong, first at {np.argwhere(wrong)[0].tolist()}" if wrong.any() else "exact"
        return not wrong.any(), text
    last, least = LAST[dtype]
    error = np.abs(got - want)
    allowed = expected.error + np.maximum(np.abs(want) + expected.error, least) * last
    right = bool((error <= allowed).all())  # false for a NaN
    text = f"{float((error / allowed).max()):.2f} of the bound"
    rms = float(np.sqrt((error**2).sum() / (want**2).sum()))
    if expected.rms is not None:
        right = right and rms <= expected.rms
    return right, f"rms {rms:.1e}, {text}"


def compiled(case, options, work, row):
    """The code object, its metadata and the words of the compile; fills the columns that describe it."""
    file = KERNELS / case.file if case.file else work / "kernel.tlx"
    if not case.file:
        file.write_text(GRID_STRIDE)
    words = [file, "--kernel", case.kernel, "--target", options.target, "--no-cache"]
    for name, value in case.params.items():
        words += ["-D", f"{name}={value}"]
    for fact in case.facts:
        words += ["--assume", fact]
    hsaco = work / "kernel.hsaco"
    tlxc(options, "build", *words, "-o", hsaco)
    if options.no_barriers:
        image = hsaco.read_bytes()
        code = np.frombuffer(image, np.uint32, len(image) // 4).copy()
        code[code == S_BARRIER] = S_NOP
        hsaco.write_bytes(code.tobytes() + image[4 * len(code):])
    meta = json.loads(tlxc(options, "build", *words, "--emit", "json"))
    asm = tlxc(options, "build", *words, "--emit", "asm")
    row["registers"], row["lds"], row["hidden"] = meta["resources"]["registers"], meta["shared_bytes"], len(meta["hidden"])
    row["mfma"], row["direct"] = len(re.findall(r"\bv_mfma_", asm)), len(re.findall(r"\bbuffer_load_dword.* lds\b", asm))
    if large := len(re.findall(r"\bv_mfma_\w+_32x32x", asm)):
        row["mfma"] = f"{row['mfma']} ({large} 32x32)"
    widest = {kind: max([4 * int(n or 1) if not short else 2 for n, short in re.findall(
        rf"\b(?:global|buffer)_{kind}_(?:dword(?:x(\d))?|(ushort|short)\w*)", asm)] or [0]) for kind in ("load", "store")}
    row["bytes"] = f"{widest['load']}/{widest['store']}"
    row["limits"] = [key for key, (code, _, _) in LIMITS.items() if re.search(code, asm) and (key != "fnuz" or options.target == "gfx942")]
    return hsaco, meta, words


def simulate(case, options, work, compile_words):
    """What our simulator makes of the same data, by output."""
    words = ["--grid", ",".join(map(str, case.grid))]
    for name, value in case.arguments.items():
        if not isinstance(value, Tensor):
            words += ["--arg", f"{name}={value!r}"]
            continue
        strides = "" if value.dense else ":stride=" + ",".join(map(str, value.strides))
        spec = f"{name}={value.dtype}[{','.join(map(str, value.shape))}{strides}]"
        if value.values is None:
            words += ["--out", f"{name}={work / name}.out.npy"]
        else:
            np.save(work / f"{name}.npy", encode(np.ascontiguousarray(value.values), value.dtype))
            spec += f"=@{work / name}.npy"
        words += ["--arg", spec]
    tlxc(options, "run", *compile_words, "--device", "sim", *words)
    return {name: np.load(work / f"{name}.out.npy") for name, tensor in case.tensors.items() if tensor.values is None}


def parameters(case, meta, buffers):
    """The pairs (value, size) of the kernel's parameters in memory, checked to lie where natural alignment puts them."""
    fields = []
    for arg in meta["args"]:
        value, at = case.arguments[arg["name"]], arg["offset"]
        if arg["kind"] == "scalar":
            bits = struct.unpack("<I", struct.pack("<f", value))[0] if arg["type"] == "f32" else value
            fields.append((at, bits, arg["size"]))
        elif arg["kind"] == "pointer":
            fields.append((at, buffers[arg["name"]].address, 8))
        else:
            form = arg["descriptor"]
            if form["form"] != "fields":
                raise RuntimeError(f"a descriptor in the form '{form['form']}'")
            fields.append((at, buffers[arg["name"]].address, 8))
            fields += [(offset, extent, 4) for offset, extent in zip(form["shape_offsets"], value.shape, strict=True)]
            fields += [(offset, stride, 8) for offset, stride in zip(form["stride_offsets"], value.strides[:-1], strict=True)]
    fields += [(arg["offset"], case.grid["xyz".index(arg["kind"][-1])], arg["size"]) for arg in meta["hidden"]]
    end = 0
    for at, _, size in sorted(fields):
        end = cdiv(end, size) * size
        if at != end:
            raise RuntimeError(f"the metadata puts a parameter at {at}, natural alignment at {end}")
        end += size
    if end != meta["param_bytes"]:
        raise RuntimeError(f"parameters take {end} bytes, the metadata says {meta['param_bytes']}")
    return [(value, size) for _, value, size in sorted(fields)]


def load_emulator(path):
    spec = importlib.util.spec_from_file_location("cdna_emulator", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def damages(case, images, buffers):
    """What was written that should not have been."""
    outputs = [name for name, tensor in case.tensors.items() if tensor.values is None]
    found = ["WROTE OUTSIDE"] if not all(buffer.intact() for buffer in buffers.values()) else []
    if any(buffers[name].content(np.uint8).tobytes() != images[name].tobytes() for name in buffers if name not in outputs):
        found.append("CHANGED AN INPUT")
    if not all(case.tensors[name].gaps_intact(buffers[name].content(case.tensors[name].type)) for name in outputs):
        found.append("WROTE BETWEEN ROWS")
    return found


def run_case(case, options, row, before_emulator):
    """Fills the row of the table. Calls `before_emulator` when it holds all but the emulator's part, which may end the process."""
    with tempfile.TemporaryDirectory() as directory:
        work = pathlib.Path(directory)
        hsaco, meta, words = compiled(case, options, work, row)
        expected = case.expected()

        simulated = simulate(case, options, work, words)
        verdicts = {name: judge(stored, case.tensors[name].dtype, expected[name]) for name, stored in simulated.items()}
        row["simulator"] = texts(verdicts)
        row["simulator ok"] = all(right for right, _ in verdicts.values())

        images = {name: tensor.image() for name, tensor in case.tensors.items()}
        buffers = {name: Guarded(image) for name, image in images.items()}
        before_emulator()
        start = time.time()
        try:
            block = (WAVE * meta["num_warps"], 1, 1)
            load_emulator(options.emulator).run(str(hsaco), meta["symbol"], case.grid, block, parameters(case, meta, buffers))
        except Exception as error:
            row["emulator"] = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
            row["clean"] = not damages(case, images, buffers)
            return
        row["seconds"] = round(time.time() - start, 1)
        results = {name: case.tensors[name].elements(buffers[name].content(case.tensors[name].type)) for name in expected}
        verdicts = {name: judge(stored, case.tensors[name].dtype, expected[name]) for name, stored in results.items()}
        same = all(results[name].tobytes() == simulated[name].tobytes() for name in expected)
        inexact = any(e.error is not None for e in expected.values())
        damage = damages(case, images, buffers)
        row["emulator"] = ", ".join([texts(verdicts)] + (["bits of the simulator"] if same and inexact else []) + damage)
        row["clean"] = not damage
        row["right"] = all(right for right, _ in verdicts.values())


def texts(verdicts):
    return "; ".join((f"{name}: " if len(verdicts) > 1 else "") + text for name, (_, text) in verdicts.items())


# --- many cases

def serve(options):
    """A worker: reads names of cases, writes their rows. What the emulator prints goes to stderr."""
    reply = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    known = {case.name: case for case in cases(options.target)}
    for line in sys.stdin:
        row = {}
        send = lambda: print(json.dumps(row), file=reply, flush=True)
        try:
            run_case(known[line.rstrip("\n")], options, row, send)
        except Exception as error:
            row["emulator" if "simulator" in row else "simulator"] = f"{type(error).__name__}: {error}"
        row["done"] = True
        send()


class Worker:
    """A process that runs cases one after the other, because the emulator translates each kind of instruction once a process, which takes most of
    its time. After a case that is not ok there is a new one."""

    def __init__(self, options):
        self.options, self.process = options, None

    def end(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    def start(self):
        options = self.options
        words = [sys.executable, __file__, "--target", options.target, "--emulator", options.emulator, "--tlxc", options.tlxc, "--worker"]
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(words + (["--no-barriers"] if options.no_barriers else []), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.log)

    def line(self, end):
        """The next line of the worker; b"" if it died, None if `end` came."""
        text = b""
        while not text.endswith(b"\n"):
            if not select.select([self.process.stdout], [], [], max(0, end - time.time()))[0]:
                return None
            if not (more := os.read(self.process.stdout.fileno(), 1 << 16)):
                return b""
            text += more
        return text.splitlines()[-1]

    def run(self, case):
        if not self.process or self.process.poll() is not None:
            self.start()
        self.process.stdin.write(case.name.encode() + b"\n")
        self.process.stdin.flush()
        row, end = {}, time.time() + self.options.timeout
        while not row.get("done"):
            if line := self.line(end):
                row = json.loads(line)
            elif line is None:
                row.update(emulator=f"no end within {self.options.timeout} s", done=True)
            else:
                code = self.process.wait()
                self.log.seek(0)
                row.update(emulator=f"died, exit {code}: {(self.log.read().strip().splitlines() or ['no message'])[-1]}", done=True)
        row["case"], row["state"] = case.name, verdict(case, row, self.options)
        if row["state"] != "ok":
            self.end()
        return row


def verdict(case, row, options):
    if all(row.get(key) for key in ("right", "clean", "simulator ok")):
        return "ok"
    present = row.get("limits", [])
    mine = [key for key in case.limits if key in present]
    if mine and row.get("simulator ok") and (row.get("clean") or any(LIMITS[key][1] for key in mine)) and not options.no_barriers:
        return "LIMIT " + " ".join(mine)
    if present:  # the code of a case may change and come to have what the emulator cannot do
        row["emulator"] = f"{row.get('emulator', 'not run')} (has, and is not marked with: {' '.join(present)})"
    return "WRONG"


def run_all(chosen, options):
    """The rows, in order. Each thread has its own worker."""
    own, workers = threading.local(), []

    def one(case):
        if not hasattr(own, "worker"):
            own.worker = Worker(options)
            workers.append(own.worker)
        return own.worker.run(case)

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        yield from pool.map(one, chosen)
    for worker in workers:
        worker.end()


COLUMNS = ("case", "emulator", "simulator", "registers", "lds", "mfma", "direct", "bytes", "hidden", "seconds")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", choices=("gfx942", "gfx950"), required=True)
    parser.add_argument("--emulator", default=os.environ.get("TLX_CDNA_EMULATOR"), help="the Python file with run()")
    parser.add_argument("--tlxc", default=str(ROOT / "build" / "tlxc"))
    parser.add_argument("--filter", default="", help="only cases whose name matches this regular expression")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--timeout", type=int, default=600, help="seconds for one case")
    parser.add_argument("--markdown", action="store_true", help="print the table in Markdown")
    parser.add_argument("--list", action="store_true", help="only list the cases")
    parser.add_argument("--no-barriers", action="store_true",
                        help="a check of the check: every s_barrier becomes s_nop, and the cases that use shared memory must fail")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    chosen = [case for case in cases(options.target) if re.search(options.filter, case.name)]
    if options.list:
        print("\n".join(case.name for case in chosen))
        return 0
    if not options.emulator:
        parser.error("give an emulator with --emulator or TLX_CDNA_EMULATOR; see --help for what it has to offer")
    if options.worker:
        serve(options)
        return 0
    rows = []
    if options.markdown:
        print("| | " + " | ".join(COLUMNS) + " |\n|---|" + "---|" * len(COLUMNS))
    for row in run_all(chosen, options):
        rows.append(row)
        words = [row["state"]] + [str(row.get(column, "")) for column in COLUMNS]
        print("| " + " | ".join(words) + " |" if options.markdown else "  ".join(words), flush=True)
    states = [row["state"].split()[0] for row in rows]
    print(f"\n{states.count('ok')} of {len(rows)} right, {states.count('LIMIT')} known limits of the emulator, {states.count('WRONG')} wrong")
    for key in sorted({key for row in rows if row["state"].startswith("LIMIT") for key in row["state"].split()[1:]}):
        print(f"  {key}: {LIMITS[key][2]}")
    return 1 if "WRONG" in states else 0


if __name__ == "__main__":
    sys.exit(main())
