// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// wgmma: which instructions there are, how a tile is dealt to warpgroups, the layouts of accumulators and of A in registers, and the matrix
// descriptors of operands in shared memory (PTX ISA, "Asynchronous warpgroup level matrix instructions").
#pragma once
#include <optional>

#include "features/features.h"
#include "layout/layout.h"

namespace tlx::features {

/// Whether there is a wgmma of n columns (PTX ISA: multiples of 8 up to 256; of integers only 8, 24 and multiples of 16).
bool wgmmaWidth(int64_t n, bool integers);

/// How M x N x K is made of instructions: warpgroups along M and N, and instructions of m64 x n x k (k is 32 bytes).
struct WgmmaPlan {
  unsigned groupsM = 1, groupsN = 1; // warpgroups
  unsigned n = 8;                    // columns of an instruction
  unsigned k = 16;                   // and of its depth, in elements
};
/// nullopt if the extents, the number of warps or `operandBits` do not suit.
std::optional<WgmmaPlan> planWgmma(int64_t tileM, int64_t tileN, int64_t tileK, unsigned operandBits, bool integers,
                                   unsigned warps);

/// The accumulator's layout, and A's [M, K] in registers.
layout::TileLayout wgmmaAccumulator(const WgmmaPlan &plan, int64_t tileM, int64_t tileN);
layout::TileLayout wgmmaOperandA(const WgmmaPlan &plan, int64_t tileM, int64_t tileK, unsigned operandBits);

/// A matrix in shared memory as the descriptor states it. Bytes; the start address is added by who issues.
struct MatrixDescriptor {
  bool transposed = false;          // M or N is the contiguous dimension
  unsigned swizzle = 128;           // bytes
  uint32_t leading = 0, stride = 0; // byte offsets between patterns: along the other dimension, and every 8 rows
  /// The 64 bits with a start address of 0.
  uint64_t bits() const;
};
/// For an operand seen as [M or N, K]. nullopt if the layout is not one that the unit reads.
std::optional<MatrixDescriptor> matrixDescriptor(const layout::SharedLayout &layout, unsigned bits);

} // namespace tlx::features
