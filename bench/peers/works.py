# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is measured: works with their sizes, and how much each one does. Plain data, so that every process reads the same."""
import dataclasses


@dataclasses.dataclass
class Work:
    kind: str    # matmul, attention, softmax, layer_norm, rms_norm
    type: str    # f16, bf16
    sizes: dict  # matmul: M, N, K; attention: batch, heads (of one batch), seq, D, causal; else rows, cols

    @property
    def name(self):
        s = self.sizes
        if self.kind == "matmul":
            return f"matmul-{self.type}-{s['M']}x{s['N']}x{s['K']}"
        if self.kind == "attention":
            return f"attention-{self.type}-D{s['D']}-S{s['seq']}-{'causal' if s['causal'] else 'full'}"
        return f"{self.kind}-{self.type}-{s['rows']}x{s['cols']}"

    @property
    def unit(self):
        return "TFLOP/s" if self.kind in ("matmul", "attention") else "GB/s"

    @property
    def amount(self):
        """What a second is divided by: 10¹² operations, or 10⁹ bytes that have to move (the weights of a norm count as nothing)."""
        s = self.sizes
        if self.kind == "matmul":
            return 2e-12 * s["M"] * s["N"] * s["K"]
        if self.kind == "attention":
            return 4e-12 * s["batch"] * s["heads"] * s["seq"] ** 2 * s["D"] * (0.5 if s["causal"] else 1)
        return 2 * 2e-9 * s["rows"] * s["cols"]

    @property
    def yardstick(self):
        """The contender that the result is divided by."""
        return {"matmul": "cublas", "attention": "cudnn"}.get(self.kind, "copy")

    @staticmethod
    def from_json(data):
        return Work(data["kind"], data["type"], data["sizes"])


def _matmul(type_, m, n, k):
    return Work("matmul", type_, {"M": m, "N": n, "K": k})


def _attention(type_, seq, causal, d=128, tokens=16384, heads=16):
    return Work("attention", type_, {"batch": max(1, tokens // seq), "heads": heads, "seq": seq, "D": d, "causal": causal})


def _rows(kind, cols, elements=1 << 27):  # 256 MiB: far beyond any cache
    return Work(kind, "bf16", {"rows": elements // cols, "cols": cols})


_PRODUCTS = ((2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192), (16384, 8192, 8192), (8192, 8192, 1024))
_LENGTHS = (2048, 4096, 8192, 16384)
ALL = ([_matmul(t, *mnk) for mnk in _PRODUCTS for t in ("f16", "bf16")]
       + [_attention("f16", seq, causal) for seq in (4096, 16384) for causal in (False, True)]
       + [_attention("bf16", seq, causal, d, heads=2048 // d) for d in (128, 64) for seq in _LENGTHS for causal in (False, True)]
       + [_rows(kind, cols) for kind in ("softmax", "layer_norm", "rms_norm") for cols in (4096, 16384)])

# A few minutes: one of each kind, the sizes that tell most.
QUICK = [w for w in ALL if w.name in (
    "matmul-f16-2048x2048x2048", "matmul-f16-8192x8192x8192", "matmul-bf16-4096x4096x4096", "attention-f16-D128-S4096-full",
    "attention-bf16-D128-S4096-causal", "softmax-bf16-32768x4096", "layer_norm-bf16-32768x4096", "rms_norm-bf16-8192x16384")]

# Sizes for a machine without a GPU: ragged, so that edges are taken.
TINY = ([_matmul(t, 70, 72, 80) for t in ("f16", "bf16")]
        + [_attention("f16", 72, causal, d=64, tokens=72, heads=2) for causal in (False, True)]
        + [Work(kind, "bf16", {"rows": 2, "cols": 400}) for kind in ("softmax", "layer_norm", "rms_norm")])
