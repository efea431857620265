# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Blocked kernels in stock Triton, as its users write them, with tensor descriptors made on the host; each is tuned over a short list of
configurations that do well on Hopper. For Triton 3.4 and later."""
import pathlib
import sys

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import triton_attention  # noqa: E402


@triton.jit
def _tile_of(tile, M, N, BM: tl.constexpr, BN: tl.constexpr, GROUP_M: tl.constexpr):
    rows, columns = tl.cdiv(M, BM), tl.cdiv(N, BN)
    first = tile // (GROUP_M * columns) * GROUP_M
    height = min(rows - first, GROUP_M)
    inside = tile % (GROUP_M * columns)
    return (first + inside % height) * BM, inside // height * BN


@triton.jit
def _matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr, PROGRAMS: tl.constexpr):
    for tile in tl.range(tl.program_id(0), tl.cdiv(M, BM) * tl.cdiv(N, BN), PROGRAMS, flatten=True):
        m, n = _tile_of(tile, M, N, BM, BN, GROUP_M)
        acc = tl.zeros((BM, BN), tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(a.load([m, k]), b.load([k, n]), acc)
        c.store([m, n], acc.to(c.dtype))


@triton.jit
def _matmul_one_tile(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr):
    m, n = _tile_of(tl.program_id(0), M, N, BM, BN, GROUP_M)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(a.load([m, k]), b.load([k, n]), acc)
    c.store([m, n], acc.to(c.dtype))


def _descriptor(x, block):
    return TensorDescriptor(x, list(x.shape), list(x.stride()), list(block))


def _best(launchers):
    """The fastest of {name: callable} that runs at all, by short measurements, and its name."""
    best = (float("inf"), None, None)
    failures = []
    for name, call in launchers.items():
        try:
            call()
            torch.cuda.synchronize()
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            for _ in range(10):
                call()
            end.record()
            end.synchronize()
            best = min(best, (start.elapsed_time(end), name, call), key=lambda b: b[0])
        except Exception as error:  # does not fit, or this Triton has no such form
            failures.append(f"{name}: {type(error).__name__} {str(error)[:80]}")
    if best[1] is None:
        raise RuntimeError("no configuration runs: " + "; ".join(failures)[:400])
    return best[2], best[1]


def matmul(a, b, c):
    """A callable for C = A·B, and what was chosen."""
    M, K, N = a.shape[0], a.shape[1], b.shape[1]
    processors = torch.cuda.get_device_properties(0).multi_processor_count
    launchers = {}
    for bm, bn, bk, stages, warps in ((128, 256, 64, 3, 8), (128, 256, 64, 4, 8), (256, 128, 64, 3, 8), (128, 128, 64, 4, 8),
                                      (128, 128, 64, 4, 4)):
        tiles = triton.cdiv(M, bm) * triton.cdiv(N, bn)
        args = (_descriptor(a, (bm, bk)), _descriptor(b, (bk, bn)), _descriptor(c, (bm, bn)), M, N, K, bm, bn, bk, 8)
        options = {"num_stages": stages, "num_warps": warps}
        name = f"{bm}x{bn}x{bk} stages {stages} warps {warps}"
        launchers[name] = lambda args=args, grid=(tiles,), options=options: _matmul_one_tile[grid](*args, **options)
        programs = min(tiles, processors)
        launchers[name + " persistent"] = lambda args=args, n=programs, options=options: _matmul[(n,)](*args, n, **options)
    return _best(launchers)


def attention(q, k, v, o, causal, scale):
    """Over contiguous [batch, heads, seq, D]."""
    batch, heads, seq, d = q.shape
    flat = [x.view(-1, d) for x in (q, k, v, o)]
    lse = torch.empty(batch * heads * seq, device=q.device, dtype=torch.float32)
    launchers = {}
    for bm, bn, stages, warps in ((128, 128, 2, 8), (128, 64, 3, 8), (128, 64, 2, 4), (128, 64, 3, 4), (128, 128, 3, 8), (64, 64, 3, 4),
                                  (128, 64, 4, 8)):
        descriptors = [_descriptor(x, (rows, d)) for x, rows in zip(flat, (bm, bn, bn, bm))]
        args = (*descriptors, lse, seq, scale, d, bm, bn, causal)
        grid, options = (seq // bm, batch * heads), {"num_stages": stages, "num_warps": warps}
        name = f"{bm}x{bn} stages {stages} warps {warps}"
        launchers[name] = lambda args=args, grid=grid, options=options: triton_attention.attention[grid](*args, **options)
    return _best(launchers)
