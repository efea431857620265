# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The worker of a dry run: our kernels at tiny sizes on the simulator, checked against plain Python, so that everything but the GPU and the
peers is exercised. Its times are those of the simulator and say nothing."""
import ctypes
import math
import random
import struct
import time
import zlib

import ours
import works


def _bf16(value):
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 & 0xFFFF


class HostArray:
    """A dense array in host memory that looks as a PyTorch tensor does to tlxlib. Rows of descriptors need a multiple of 16 bytes."""
    FORMS = {"f16": ("e", 2), "bf16": ("H", 2), "f32": ("f", 4)}

    def __init__(self, type_, shape, values=None):
        self.type, self.shape = type_, tuple(shape)
        self.form, size = self.FORMS[type_]
        self.count = math.prod(self.shape)
        self.size = self.count * size
        self.memory = ctypes.create_string_buffer(b"\xff" * (self.size + 64), self.size + 64)  # NaN
        self.begin = -ctypes.addressof(self.memory) % 64  # where it is aligned
        if values is not None:
            encoded = [_bf16(v) for v in values] if type_ == "bf16" else values
            struct.pack_into(f"<{self.count}{self.form}", self.memory, self.begin, *encoded)

    def data_ptr(self):
        return ctypes.addressof(self.memory) + self.begin

    def stride(self):
        return tuple(math.prod(self.shape[d + 1:]) for d in range(len(self.shape)))

    def values(self):
        raw = struct.unpack_from(f"<{self.count}{self.form}", self.memory, self.begin)
        return [struct.unpack("<f", struct.pack("<I", v << 16))[0] for v in raw] if self.type == "bf16" else list(raw)


def make_data(work):
    source, s = random.Random(zlib.crc32(work.name.encode())), work.sizes
    array = lambda *shape: HostArray(work.type, shape, [source.gauss(0, 1) for _ in range(math.prod(shape))])
    if work.kind == "matmul":
        return {"a": array(s["M"], s["K"]), "b": array(s["K"], s["N"]), "out": HostArray(work.type, (s["M"], s["N"]))}
    if work.kind == "attention":
        shape = (s["batch"] * s["heads"], s["seq"], s["D"])
        inputs = {name: array(*shape) for name in ("q", "k", "v")}
        return inputs | {"out": HostArray(work.type, shape), "lse": HostArray("f32", shape[:2])}
    rows, cols = s["rows"], s["cols"]
    return {"x": array(rows, cols), "weight": array(cols), "bias": array(cols), "out": HostArray(work.type, (rows, cols))}


def _weights(scores):
    top = max(scores)
    e = [math.exp(x - top) for x in scores]
    total = sum(e)
    return [x / total for x in e]


def reference(work, data):
    s, values = work.sizes, {name: array.values() for name, array in data.items()}
    if work.kind == "matmul":
        a, b, k, n = values["a"], values["b"], s["K"], s["N"]
        columns = [b[j::n] for j in range(n)]
        return [sum(map(float.__mul__, a[i * k:(i + 1) * k], column)) for i in range(s["M"]) for column in columns]
    if work.kind == "attention":
        seq, d, out = s["seq"], s["D"], []
        row = lambda name, h, i: values[name][(h * seq + i) * d:(h * seq + i + 1) * d]
        for h in range(s["batch"] * s["heads"]):
            for i in range(seq):
                seen = i + 1 if s["causal"] else seq
                weights = _weights([sum(map(float.__mul__, row("q", h, i), row("k", h, j))) * d**-0.5 for j in range(seen)])
                out += [sum(w * x for w, x in zip(weights, (values["v"][(h * seq + j) * d + c] for j in range(seen)))) for c in range(d)]
        return out
    out, cols = [], s["cols"]
    for r in range(s["rows"]):
        x = values["x"][r * cols:(r + 1) * cols]
        if work.kind == "softmax":
            out += _weights(x)
            continue
        mean = sum(x) / cols if work.kind == "layer_norm" else 0.0
        unit = (sum((v - mean) ** 2 for v in x) / cols + ours.EPS) ** -0.5
        out += [(v - mean) * unit * w + (b if work.kind == "layer_norm" else 0) for v, w, b in zip(x, values["weight"], values["bias"])]
    return out


class DryWorker:
    def __init__(self, target="sm_80"):
        self.target, self.library = target, ours.tlxlib.Library()
        self.device = self.library.device("sim")
        self.calls, self.data = {}, {}

    def open(self):
        return {"versions": {"target": self.target}, "gpu": "simulator", "multiprocessors": 4}

    def prepare(self, work, configs=None):
        work = works.Work.from_json(work)
        self.drop()
        data = self.data = make_data(work)
        for array in data.values():
            self.library.register(self.device, array.data_ptr(), array.size)
        try:
            launch, metadata, config = ours.launcher(self.library, self.device, self.target, work, data, 4)
            launch()
            want, got = reference(work, data), data["out"].values()
            error = math.sqrt(sum((g - w) ** 2 for g, w in zip(got, want)) / sum(w * w for w in want))
            if not error <= {"f16": 1e-3, "bf16": 6e-3}[work.type]:
                raise RuntimeError(f"wrong: relative error {error:.2e}")
        except RuntimeError as error:
            return {"contenders": {}, "failed": {"tlxjit": str(error)[:2000]}}
        self.calls = {"tlxjit": launch}
        note = {"kernel": config.kernel, "params": ours.params_of(work, config), "shared_bytes": metadata.get("shared_bytes")}
        return {"contenders": {"tlxjit": {"error": error, **note}}, "failed": {}}

    def alone(self, contender, warm, timed):
        begin = time.perf_counter()
        self.calls[contender]()
        return {"seconds": time.perf_counter() - begin}

    called = alone

    def drop(self):
        for array in self.data.values():
            self.library.unregister(self.device, array.data_ptr())
        self.calls, self.data = {}, {}
        return {}
