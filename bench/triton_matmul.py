# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The matrix product of kernels/matmul_pointers.tlx in Triton: the same tiles, the same walk over them, K masked. compile_time.py
compiles it beside ours; nothing launches it."""
import triton
import triton.language as tl


@triton.jit
def matmul(a, b, c, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
           BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr):
    # Programs walk the tiles in bands of GROUP_M rows of tiles, down the band first.
    program = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    band = program // (GROUP_M * tiles_n)
    height = min(tiles_m - band * GROUP_M, GROUP_M)
    within = program % (GROUP_M * tiles_n)
    m = (band * GROUP_M + within % height) * BM
    n = (within // height) * BN

    # Rows and columns beyond the edge wrap around: what they compute is not stored.
    rows = (m + tl.arange(0, BM)) % M
    cols = (n + tl.arange(0, BN)) % N
    ks = tl.arange(0, BK)
    pa = a + rows[:, None] * stride_am + ks[None, :] * stride_ak
    pb = b + ks[:, None] * stride_bk + cols[None, :] * stride_bn
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        x = tl.load(pa, mask=ks[None, :] < K - k * BK, other=0.0)
        y = tl.load(pb, mask=ks[:, None] < K - k * BK, other=0.0)
        acc = tl.dot(x, y, acc)
        pa += BK * stride_ak
        pb += BK * stride_bk

    rows = m + tl.arange(0, BM)
    cols = n + tl.arange(0, BN)
    pc = c + rows[:, None] * stride_cm + cols[None, :] * stride_cn
    tl.store(pc, acc.to(c.dtype.element_ty), mask=(rows[:, None] < M) & (cols[None, :] < N))
