# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Who takes part: for a work, callables over the same random inputs. One class a process (see worker.py), since Triton and TLX are both
called `triton`. Needs PyTorch and a CUDA device. A callable takes a stream and returns its output; all but ours use PyTorch's stream."""
import importlib
import math
import zlib

import torch

import ours

DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16}


class Absent(Exception):
    """This contender is not on this machine; the text says why."""


def make_data(work):
    torch.manual_seed(zlib.crc32(work.name.encode()))
    s, dtype = work.sizes, DTYPES[work.type]
    random = lambda *shape: torch.randn(*shape, device="cuda", dtype=dtype)
    if work.kind == "matmul":
        return {"a": random(s["M"], s["K"]), "b": random(s["K"], s["N"]), "out": random(s["M"], s["N"])}
    if work.kind == "attention":
        shape = (s["batch"], s["heads"], s["seq"], s["D"])
        data = {name: random(*shape) for name in ("q", "k", "v", "out")}
        return data | {"lse": torch.empty(shape[:3], device="cuda", dtype=torch.float32),
                       "counter": torch.zeros(2, device="cuda", dtype=torch.int32)}
    return {"x": random(s["rows"], s["cols"]), "out": random(s["rows"], s["cols"]), "weight": random(s["cols"]), "bias": random(s["cols"])}


def relative_error(work, data, out):
    """‖out - reference‖ / ‖reference‖ of some rows, the reference in f64 (attention: f32, which is far more than the roundings)."""
    s = work.sizes
    if work.kind == "matmul":
        got, want = out[-256:], data["a"][-256:].double() @ data["b"].double()
    elif work.kind == "attention":
        last = slice(max(0, s["seq"] - 512), s["seq"])
        q, k, v = data["q"][-1, -1, last].float(), data["k"][-1, -1].float(), data["v"][-1, -1].float()
        scores = q @ k.T * s["D"] ** -0.5
        if s["causal"]:
            rows = torch.arange(last.start, last.stop, device="cuda")
            scores = scores.masked_fill(torch.arange(s["seq"], device="cuda")[None, :] > rows[:, None], -math.inf)
        got, want = out[-1, -1, last], torch.softmax(scores, 1) @ v
    else:
        x = data["x"][-64:].double()
        got, weight, bias = out[-64:], data["weight"].double(), data["bias"].double()
        if work.kind == "softmax":
            want = torch.softmax(x, 1)
        elif work.kind == "layer_norm":
            want = torch.nn.functional.layer_norm(x, (s["cols"],), weight, bias, ours.EPS)
        else:
            want = x * torch.rsqrt((x * x).mean(1, keepdim=True) + ours.EPS) * weight
    error = float((got.double() - want.double()).norm() / want.double().norm())
    return error if math.isfinite(error) else math.inf


# Twice what one or two roundings to the type give.
TOLERANCE = {"f16": 1e-3, "bf16": 6e-3}


def check(work, data, out):
    """The relative error of `out`; RuntimeError if it is wrong. data["out"] was NaN before the call, and the inputs give finite results: the
    rows that relative_error does not look at must at least have been written."""
    bad = out.numel() - int(torch.isfinite(out).sum())
    if bad:
        raise RuntimeError(f"wrong: {bad} of {out.numel()} elements that nobody wrote, or that are not finite")
    error = relative_error(work, data, out)
    if error > TOLERANCE[work.type]:
        raise RuntimeError(f"wrong: relative error {error:.2e}")
    return error


class Torch:
    """cuBLAS, cuDNN, PyTorch's own kernels, and copies."""

    def versions(self):
        return {"torch": torch.__version__, "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version()}

    def prepare(self, work, data):
        if work.kind == "matmul":
            return {"cublas": lambda s: torch.matmul(data["a"], data["b"], out=data["out"])}
        if work.kind == "attention":
            from torch.nn.attention import SDPBackend, sdpa_kernel

            def cudnn(_):
                with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                    return torch.nn.functional.scaled_dot_product_attention(data["q"], data["k"], data["v"], is_causal=work.sizes["causal"])
            return {"cudnn": cudnn}
        functional, shape = torch.nn.functional, (work.sizes["cols"],)
        own = {"softmax": lambda s: torch.softmax(data["x"], 1),
               "layer_norm": lambda s: functional.layer_norm(data["x"], shape, data["weight"], data["bias"], ours.EPS),
               "rms_norm": lambda s: functional.rms_norm(data["x"], shape, data["weight"], ours.EPS)}[work.kind]
        return {"copy": lambda s: data["out"].copy_(data["x"]), "torch": own}


class Tlxjit:
    """This project."""

    def __init__(self, target="sm_90a"):
        self.target = target
        try:
            self.library = ours.tlxlib.Library()
            self.device = self.library.device("cuda:0")
        except (OSError, RuntimeError) as error:
            raise Absent(str(error)) from error

    def versions(self):
        return {"target": self.target}

    def prepare(self, work, data, config=None):
        seen = dict(data)
        if work.kind == "attention":  # [batch * heads, seq, D]
            seen |= {name: data[name].flatten(0, 1) for name in ("q", "k", "v", "out")}
        calls = {"tlxjit": self._bound(work, data, seen, config)}
        for name in ours.configs.others(work.kind) if config is None else []:
            try:
                other = ours.configs.pick(name, self.target, work.type, ours.rule_sizes(work))
            except KeyError:
                continue
            calls[f"tlxjit {name}"] = self._bound(work, data, seen, other)
        return calls

    def _bound(self, work, data, seen, config):
        launch, metadata, config = ours.launcher(self.library, self.device, self.target, work, seen,
                                                 torch.cuda.get_device_properties(0).multi_processor_count, config)

        def call(stream):
            launch(stream)
            return data["out"]
        call.note = {"kernel": config.kernel, "params": ours.params_of(work, config), "shared_bytes": metadata.get("shared_bytes"),
                     **metadata.get("resources", {})}
        return call


class Triton:
    """Stock Triton, blocked."""

    def __init__(self):
        try:
            import triton
            if hasattr(triton.language, "extra") and importlib.util.find_spec("triton.language.extra.tlx"):
                raise Absent("the triton of this Python is TLX")
            import triton_kernels
        except ImportError as error:
            raise Absent(str(error)) from error
        self.triton, self.kernels = triton, triton_kernels

    def versions(self):
        return {"triton": self.triton.__version__}

    def prepare(self, work, data):
        if work.kind == "matmul":
            call, note = self.kernels.matmul(data["a"], data["b"], data["out"])
        elif work.kind == "attention":
            call, note = self.kernels.attention(data["q"], data["k"], data["v"], data["out"], work.sizes["causal"], work.sizes["D"] ** -0.5)
        else:
            return {}

        def on(_):
            call()
            return data["out"]
        on.note = {"config": note}
        return {"triton": on}


class Tlx:
    """TLX's own tutorials for Hopper (wheel fbtriton), and FlashAttention-3 (wheel fa3-fwd): both from the pack of peers."""
    TUTORIALS = "triton.language.extra.tlx.tutorials."

    def __init__(self):
        self.missing = {}
        self.gemm = self._module(self.TUTORIALS + "hopper_gemm_ws")
        self.attention = self._module(self.TUTORIALS + "hopper_fa_ws_pipelined_pingpong_persistent")
        self.fa3 = self._module("fa3_fwd_interface")
        if not (self.gemm or self.attention or self.fa3):
            raise Absent("; ".join(f"{name}: {why}" for name, why in self.missing.items()))
        if self.gemm:
            kernel = self.gemm.matmul_kernel_tlx_ws
            if len(kernel.configs) > 60:  # the tutorial's own list takes minutes: keep those that win here
                kernel.configs = [c for c in kernel.configs if c.kwargs["GROUP_SIZE_M"] == 8 and c.kwargs["NUM_STAGES"] in (3, 4)
                                  and (c.kwargs["BM"], c.kwargs["BN"]) in ((128, 256), (128, 128)) and c.kwargs["USE_WARP_BARRIER"]]

    def _module(self, name):
        try:
            return importlib.import_module(name)
        except Exception as error:
            self.missing[name] = f"{type(error).__name__}: {error}"
            return None

    def versions(self):
        import importlib.metadata
        found = {}
        for package in ("fbtriton", "fa3-fwd"):
            try:
                found[package] = importlib.metadata.version(package)
            except importlib.metadata.PackageNotFoundError:
                found[package] = None
        return found | {"missing": self.missing}

    def prepare(self, work, data):
        found = {}
        if work.kind == "matmul" and work.type == "f16" and self.gemm:  # the tutorial writes f16 only
            found["tlx"] = lambda s: self.gemm.matmul(data["a"], data["b"])
        if work.kind == "attention":
            scale, causal = work.sizes["D"] ** -0.5, work.sizes["causal"]
            if self.attention and not causal:  # there is no causal form
                found["tlx"] = lambda s: self.attention.attention(data["q"], data["k"], data["v"], scale)
            if self.fa3 and work.type == "bf16":
                q, k, v = (data[name].transpose(1, 2).contiguous() for name in ("q", "k", "v"))  # [batch, seq, heads, D]

                def fa3(_):
                    out = self.fa3.flash_attn_func(q, k, v, softmax_scale=scale, causal=causal)
                    return (out[0] if isinstance(out, tuple) else out).transpose(1, 2)
                found["fa3"] = fa3
        return found


GROUPS = {"torch": Torch, "tlxjit": Tlxjit, "triton": Triton, "tlx": Tlx}
