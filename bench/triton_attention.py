# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention, forward, in Triton with tensor descriptors made on the host: what kernels/attention.tlx computes, over [heads * seq, D] and
for sequences that are whole blocks (EVEN there): seq is a multiple of BM, and BM of BN. compile_time.py compiles it beside ours,
peers/triton_kernels.py launches it."""
import triton
import triton.language as tl


@triton.jit
def _attend(acc, total, largest, q, k, v, head_row, begin, end, row, scale2, BM: tl.constexpr, BN: tl.constexpr, MASK: tl.constexpr):
    rows = row + tl.arange(0, BM)
    for key in range(begin, end, BN):
        scores = tl.dot(q, k.load([head_row + key, 0]).T)
        if MASK:
            keys = key + tl.arange(0, BN)
            scores = tl.where(keys[None, :] <= rows[:, None], scores, -1.0e30)
        grown = tl.maximum(largest, tl.max(scores, 1) * scale2)
        weights = tl.math.exp2(scores * scale2 - grown[:, None])
        shrink = tl.math.exp2(largest - grown)
        total = total * shrink + tl.sum(weights, 1)
        acc = tl.dot(weights.to(v.dtype), v.load([head_row + key, 0]), acc * shrink[:, None])
        largest = grown
    return acc, total, largest


@triton.jit
def attention(q, k, v, o, lse, seq, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr):
    block = tl.program_id(0)
    if CAUSAL:  # rows further down see more keys and come first
        block = tl.num_programs(0) - 1 - block
    head_row, row = tl.program_id(1) * seq, block * BM
    scale2 = scale * 1.4426950408889634
    largest = tl.full([BM], -1.0e30, tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    queries = q.load([head_row + row, 0])
    if CAUSAL:
        acc, total, largest = _attend(acc, total, largest, queries, k, v, head_row, 0, row, row, scale2, BM, BN, False)
        acc, total, largest = _attend(acc, total, largest, queries, k, v, head_row, row, row + BM, row, scale2, BM, BN, True)
    else:
        acc, total, largest = _attend(acc, total, largest, queries, k, v, head_row, 0, seq, row, scale2, BM, BN, False)
    o.store([head_row + row, 0], (acc / total[:, None]).to(o.dtype))
    tl.store(lse + head_row + row + tl.arange(0, BM), (largest + tl.math.log2(total)) * 0.6931471805599453)
