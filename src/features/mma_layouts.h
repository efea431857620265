// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Layouts of matrix instructions, from the fragment tables of the PTX ISA ("Matrix Fragments for mma") and the CDNA3 ISA.
// The registers of one instruction are the lowest register bits; repetitions of it over the tile follow.
#pragma once
#include "features/features.h"
#include "layout/layout.h"

namespace tlx::features {

/// Warps along M and N for a tile, chosen so that a warp's part is as square as it can be.
struct WarpGrid {
  unsigned m = 1, n = 1;
};
WarpGrid chooseWarpGrid(const MmaInstruction &mma, int64_t tileM, int64_t tileN, unsigned warps);

/// The accumulator's layout of an M x N tile.
layout::TileLayout accumulatorLayout(const Target &target, const MmaInstruction &mma, int64_t tileM, int64_t tileN,
                                     WarpGrid grid);
/// Operand A's (M x K) or B's (K x N).
layout::TileLayout operandALayout(const Target &target, const MmaInstruction &mma, int64_t tileM, int64_t tileK,
                                  WarpGrid grid);
layout::TileLayout operandBLayout(const Target &target, const MmaInstruction &mma, int64_t tileK, int64_t tileN,
                                  WarpGrid grid);
/// Registers (elements) of one instruction that a lane holds of the accumulator, A and B.
struct FragmentSizes {
  unsigned accumulator, a, b;
};
FragmentSizes fragmentSizes(const Target &target, const MmaInstruction &mma);

/// The extents that the instruction needs: each divisible by m, n, k of the instruction.
bool fits(const MmaInstruction &mma, int64_t tileM, int64_t tileN, int64_t tileK);

} // namespace tlx::features
