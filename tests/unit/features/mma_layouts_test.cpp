// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The fragment layouts against the index formulas of the PTX ISA and the CDNA3 ISA, written out here a second time.
#include <doctest/doctest.h>

#include <set>

#include "features/mma_layouts.h"

using namespace tlx;
using namespace tlx::features;
using layout::Coord;
using layout::TileLayout;

namespace {
using Formula = Coord (*)(unsigned lane, unsigned i);

void check(const TileLayout &l, unsigned registers, unsigned lanes, Formula formula) {
  REQUIRE(l.registers() == registers);
  REQUIRE(l.lanes() == lanes);
  for (unsigned lane = 0; lane < lanes; ++lane)
    for (unsigned i = 0; i < registers; ++i) CHECK(l.coordOf(i, lane, 0) == formula(lane, i));
}
MmaInstruction instruction(const Target &t, MmaType type, unsigned m) {
  for (const MmaInstruction &mma : mmaInstructions(t, type))
    if (mma.m == m) return mma;
  FAIL("no such instruction");
  return {};
}
} // namespace

TEST_CASE("mma.sync fragments (PTX ISA, Matrix Fragments for mma)") {
  const Target &t = *findTarget("sm_80");
  SUBCASE("m16n8k16, 16 bit") {
    MmaInstruction mma = instruction(t, MmaType::F16, 16);
    check(operandALayout(t, mma, 16, 16, {}), 8, 32, [](unsigned l, unsigned i) {
      return Coord{int(l / 4 + (i % 4 >= 2 ? 8 : 0)), int(l % 4 * 2 + (i & 1) + (i >= 4 ? 8 : 0))};
    });
    check(operandBLayout(t, mma, 16, 8, {}), 4, 32,
          [](unsigned l, unsigned i) { return Coord{int(l % 4 * 2 + (i & 1) + (i >= 2 ? 8 : 0)), int(l / 4)}; });
    check(accumulatorLayout(t, mma, 16, 8, {}), 4, 32,
          [](unsigned l, unsigned i) { return Coord{int(l / 4 + (i >= 2 ? 8 : 0)), int(l % 4 * 2 + (i & 1))}; });
  }
  SUBCASE("m16n8k8, tf32") {
    MmaInstruction mma = instruction(t, MmaType::TF32, 16);
    check(operandALayout(t, mma, 16, 8, {}), 4, 32,
          [](unsigned l, unsigned i) { return Coord{int(l / 4 + (i & 1 ? 8 : 0)), int(l % 4 + (i >= 2 ? 4 : 0))}; });
    check(operandBLayout(t, mma, 8, 8, {}), 2, 32, [](unsigned l, unsigned i) { return Coord{int(l % 4 + i * 4), int(l / 4)}; });
  }
  SUBCASE("m16n8k32, 8 bit") {
    MmaInstruction mma = instruction(t, MmaType::S8, 16);
    check(operandALayout(t, mma, 16, 32, {}), 16, 32, [](unsigned l, unsigned i) {
      return Coord{int(l / 4 + (i % 8 >= 4 ? 8 : 0)), int(l % 4 * 4 + (i & 3) + (i >= 8 ? 16 : 0))};
    });
    check(operandBLayout(t, mma, 32, 8, {}), 8, 32,
          [](unsigned l, unsigned i) { return Coord{int(l % 4 * 4 + (i & 3) + (i >= 4 ? 16 : 0)), int(l / 4)}; });
  }
  SUBCASE("m8n8k4, f64") {
    MmaInstruction mma = instruction(t, MmaType::F64, 8);
    check(operandALayout(t, mma, 8, 4, {}), 1, 32, [](unsigned l, unsigned) { return Coord{int(l / 4), int(l % 4)}; });
    check(operandBLayout(t, mma, 4, 8, {}), 1, 32, [](unsigned l, unsigned) { return Coord{int(l % 4), int(l / 4)}; });
    check(accumulatorLayout(t, mma, 8, 8, {}), 2, 32, [](unsigned l, unsigned i) { return Coord{int(l / 4), int(l % 4 * 2 + i)}; });
  }
}

TEST_CASE("MFMA fragments (CDNA3 ISA)") {
  const Target &t = *findTarget("gfx942");
  SUBCASE("16x16x16, 16 bit") {
    MmaInstruction mma = instruction(t, MmaType::F16, 16);
    check(operandALayout(t, mma, 16, 16, {}), 4, 64, [](unsigned l, unsigned i) { return Coord{int(l % 16), int(l / 16 * 4 + i)}; });
    check(operandBLayout(t, mma, 16, 16, {}), 4, 64, [](unsigned l, unsigned i) { return Coord{int(l / 16 * 4 + i), int(l % 16)}; });
    check(accumulatorLayout(t, mma, 16, 16, {}), 4, 64, [](unsigned l, unsigned i) { return Coord{int(l / 16 * 4 + i), int(l % 16)}; });
  }
  SUBCASE("32x32x8, 16 bit") {
    MmaInstruction mma = instruction(t, MmaType::F16, 32);
    check(operandALayout(t, mma, 32, 8, {}), 4, 64, [](unsigned l, unsigned i) { return Coord{int(l % 32), int(l / 32 * 4 + i)}; });
    check(accumulatorLayout(t, mma, 32, 32, {}), 16, 64,
          [](unsigned l, unsigned i) { return Coord{int(8 * (i / 4) + 4 * (l / 32) + i % 4), int(l % 32)}; });
  }
  SUBCASE("16x16x4, f64") {
    MmaInstruction mma = instruction(t, MmaType::F64, 16);
    check(accumulatorLayout(t, mma, 16, 16, {}), 4, 64, [](unsigned l, unsigned i) { return Coord{int(4 * i + l / 16), int(l % 16)}; });
  }
}

TEST_CASE("tiles cover every element, warps agree on what a warp id means, odd factors repeat") {
  for (const Target &t : allTargets())
    for (MmaType type : {MmaType::F16, MmaType::TF32, MmaType::XF32, MmaType::S8, MmaType::F64})
      for (const MmaInstruction &mma : mmaInstructions(t, type))
        for (auto [m, n, k] : {std::array<int64_t, 3>{128, 64, 64}, {64, 192, 32}, {96, 80, 64}})
          for (unsigned warps : {1u, 4u, 8u}) {
            if (!fits(mma, m, n, k)) continue;
            WarpGrid grid = chooseWarpGrid(mma, m, n, warps);
            REQUIRE(grid.m * grid.n == warps);
            TileLayout acc = accumulatorLayout(t, mma, m, n, grid), a = operandALayout(t, mma, m, k, grid), b = operandBLayout(t, mma, k, n, grid);
            for (const TileLayout *l : {&acc, &a, &b}) {
              REQUIRE(l->warps() == warps);
              std::set<std::pair<int, int>> seen;
              for (unsigned w = 0; w < warps; ++w)
                for (unsigned lane = 0; lane < t.warpSize; ++lane)
                  for (unsigned r = 0; r < l->registers(); ++r) {
                    Coord c = l->coordOf(r, lane, w);
                    seen.insert({c[0], c[1]});
                  }
              CHECK(int64_t(seen.size()) == l->shape()[0] * l->shape()[1]);
            }
            // A warp holds the rows of A and the columns of B that its accumulators need.
            for (unsigned w = 0; w < warps; ++w) {
              std::set<int> rows, columns, rowsA, columnsB;
              for (unsigned lane = 0; lane < t.warpSize; ++lane) {
                for (unsigned r = 0; r < acc.registers(); ++r) rows.insert(acc.coordOf(r, lane, w)[0]), columns.insert(acc.coordOf(r, lane, w)[1]);
                for (unsigned r = 0; r < a.registers(); ++r) rowsA.insert(a.coordOf(r, lane, w)[0]);
                for (unsigned r = 0; r < b.registers(); ++r) columnsB.insert(b.coordOf(r, lane, w)[1]);
              }
              CHECK(rows == rowsA);
              CHECK(columns == columnsB);
            }
          }
}
