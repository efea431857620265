# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The cases of emulate_cdna.py: every kernel in kernels/ with data, and what its outputs should hold. Where sums are exact the data are integers and
every element must be exact; the rest is compared with float64, with a bound for each element (below, beside the data)."""
import json
import pathlib

import numpy as np

import configs

KERNELS = pathlib.Path(__file__).resolve().parent.parent / "kernels"
POISON = 0xFF  # what outputs and the gaps between rows hold before: NaN in every type

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
