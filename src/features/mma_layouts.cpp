// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "features/mma_layouts.h"

#include "llvm/Support/MathExtras.h"

namespace tlx::features {

using layout::Coord;

namespace {
/// Bases of one instruction's fragment over two dimensions: element order in a lane, then lanes.
struct Unit {
  std::vector<Coord> registers, lanes;
};

// Appends bases for `extent` consecutive steps along `dim` that start at `first`.
void steps(std::vector<Coord> &bases, unsigned dim, unsigned first, unsigned extent) {
  for (unsigned i = 1; i < extent; i *= 2) {
    Coord c{0, 0};
    c[dim] = int32_t(first * i);
    bases.push_back(c);
  }
}

// NVIDIA mma.sync. Groups of four lanes hold a row: of A and C along k (n), of B along k down a column. A lane's 32-bit register
// packs 32/bits elements along k; further registers are the rows 8 below (A, C), then the second half of k.
Unit nvidiaA(const MmaInstruction &mma) {
  Unit u;
  unsigned pack = std::max(1u, 32 / bitsOf(mma.operand));
  steps(u.registers, 1, 1, pack);
  if (mma.m == 16) steps(u.registers, 0, 8, 2);
  steps(u.registers, 1, 4 * pack, mma.k / (4 * pack));
  steps(u.lanes, 1, pack, 4);
  steps(u.lanes, 0, 1, 8);
  return u;
}
Unit nvidiaB(const MmaInstruction &mma) { // K x N
  Unit u;
  unsigned pack = std::max(1u, 32 / bitsOf(mma.operand));
  steps(u.registers, 0, 1, pack);
  steps(u.registers, 0, 4 * pack, mma.k / (4 * pack));
  steps(u.lanes, 0, pack, 4);
  steps(u.lanes, 1, 1, 8);
  return u;
}
Unit nvidiaC(const MmaInstruction &mma) {
  Unit u;
  steps(u.registers, 1, 1, 2);
  if (mma.m == 16) steps(u.registers, 0, 8, 2);
  steps(u.lanes, 1, 2, 4);
  steps(u.lanes, 0, 1, 8);
  return u;
}

// MFMA: lane % m is the row of A (column of B), and the k values of an instruction are dealt to the lane groups in runs.
Unit amdA(const MmaInstruction &mma) {
  Unit u;
  unsigned perLane = mma.m * mma.k / 64;
  steps(u.registers, 1, 1, perLane);
  steps(u.lanes, 0, 1, mma.m);
  steps(u.lanes, 1, perLane, 64 / mma.m);
  return u;
}
Unit amdB(const MmaInstruction &mma) {
  Unit u;
  unsigned perLane = mma.n * mma.k / 64;
  steps(u.registers, 0, 1, perLane);
  steps(u.lanes, 1, 1, mma.n);
  steps(u.lanes, 0, perLane, 64 / mma.n);
  return u;
}
Unit amdC(const MmaInstruction &mma) {
  Unit u;
  if (mma.operand == MmaType::F64) { // row = 4 · i + lane / 16
    steps(u.registers, 0, 4, 4);
    steps(u.lanes, 1, 1, 16);
    steps(u.lanes, 0, 1, 4);
  } else if (mma.m == 16) { // row = 4 · (lane / 16) + i
    steps(u.registers, 0, 1, 4);
    steps(u.lanes, 1, 1, 16);
    steps(u.lanes, 0, 4, 4);
  } else { // 32x32: row = 8 · (i / 4) + 4 · (lane / 32) + i % 4
    steps(u.registers, 0, 1, 4);
    steps(u.registers, 0, 8, 4);
    steps(u.lanes, 1, 1, 32);
    steps(u.lanes, 0, 4, 2);
  }
  return u;
}

layout::TileLayout tile(const Unit &unit, int64_t rows, int64_t columns, unsigned unitRows, unsigned unitColumns,
                        std::array<unsigned, 2> warps, std::array<unsigned, 2> registerOrder) {
  // All three layouts of one instruction must give a warp id the same meaning: m fastest.
  return layout::tileUnit({rows, columns}, unit.registers, unit.lanes, {unitRows, unitColumns}, warps, {0u, 1u},
                          registerOrder);
}
} // namespace

bool fits(const MmaInstruction &mma, int64_t tileM, int64_t tileN, int64_t tileK) {
  // The 2^k part of each extent must hold the instruction.
  auto part = [](int64_t extent) { return extent & -extent; };
  return part(tileM) >= mma.m && part(tileN) >= mma.n && part(tileK) >= mma.k;
}

WarpGrid chooseWarpGrid(const MmaInstruction &mma, int64_t tileM, int64_t tileN, unsigned warps) {
  int64_t partM = (tileM & -tileM) / mma.m, partN = (tileN & -tileN) / mma.n;
  WarpGrid best{1, warps};
  int64_t bestCost = INT64_MAX;
  for (unsigned m = 1; m <= warps; m *= 2) {
    unsigned n = warps / m;
    // Each warp reads its rows of A and its columns of B; warps beyond what the tile has repeat work.
    int64_t usedM = std::min<int64_t>(m, partM), usedN = std::min<int64_t>(n, partN);
    int64_t waste = int64_t(m) * n / (usedM * usedN);
    int64_t cost = (tileM / usedM + tileN / usedN) * waste * waste;
    if (cost < bestCost) bestCost = cost, best = {m, n};
  }
  return best;
}

layout::TileLayout accumulatorLayout(const Target &target, const MmaInstruction &mma, int64_t tileM, int64_t tileN,
                                     WarpGrid grid) {
  Unit u = target.vendor == Vendor::Nvidia ? nvidiaC(mma) : amdC(mma);
  return tile(u, tileM, tileN, mma.m, mma.n, {grid.m, grid.n}, {1u, 0u});
}
layout::TileLayout operandALayout(const Target &target, const MmaInstruction &mma, int64_t tileM, int64_t tileK,
                                  WarpGrid grid) {
  Unit u = target.vendor == Vendor::Nvidia ? nvidiaA(mma) : amdA(mma);
  // Dimension 1 (k) has no warps: the bits of n are zero bases. tileUnit makes them so when the grid says 1 and the warp bits
  // remain: they are added here.
  layout::TileLayout l = tile(u, tileM, tileK, mma.m, mma.k, {grid.m, 1}, {1u, 0u});
  layout::TileLayout::Bases bases = l.allBases();
  for (unsigned n = 1; n < grid.n; n *= 2) bases[unsigned(layout::InDim::Warp)].push_back(Coord{0, 0});
  return layout::TileLayout({tileM, tileK}, bases);
}
layout::TileLayout operandBLayout(const Target &target, const MmaInstruction &mma, int64_t tileK, int64_t tileN,
                                  WarpGrid grid) {
  Unit u = target.vendor == Vendor::Nvidia ? nvidiaB(mma) : amdB(mma);
  // N first: an ldmatrix.x4 then holds two column blocks of one k step.
  layout::TileLayout l = tile(u, tileK, tileN, mma.k, mma.n, {1, grid.n}, {1u, 0u});
  layout::TileLayout::Bases bases = l.allBases();
  auto &warp = bases[unsigned(layout::InDim::Warp)];
  for (unsigned m = 1; m < grid.m; m *= 2) warp.insert(warp.begin(), Coord{0, 0});
  return layout::TileLayout({tileK, tileN}, bases);
}

FragmentSizes fragmentSizes(const Target &target, const MmaInstruction &mma) {
  unsigned lanes = target.warpSize;
  return {mma.m * mma.n / lanes, mma.m * mma.k / lanes, mma.k * mma.n / lanes};
}

} // namespace tlx::features
