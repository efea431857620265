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
    check(operandBLayout(t, mma, 16, 8, {}), 4, 32, [](unsigned l, unsigned i) {
      return Coord{int(l % 4 * 2 + (i & 1) + (i >= 2 ? 8 : 0)), int(l / 4)};
    });
    check(accumulatorLayout(t, mma, 16, 8, {}), 4, 32, [](unsigned l, unsigned i) {
      return Coord{int(l / 4 + (i >= 2 ? 8 : 0)), int(l % 4 * 2 + (i & 1))};
    });
  }
  SUBCASE("m16n8k8, tf32") {
    MmaInstruction mma = instruction(t, MmaType::TF32, 16);
    check(operandALayout(t, mma, 16, 8, {}), 4, 32, [](unsigned l, unsigned i) {
      return Coord{int(l / 4 + (i & 1 ? 8 : 0)), int(l % 4 + (i >= 2 ? 4 : 0))};
    });
    check(operandBLayout(t, mma, 8, 8, {}), 2, 32, [](unsigned l, unsigned i) {
      return Coord{int(l % 4 + i * 4), int(l / 4)};
    });
  }
  SUBCASE("m16n8k32, 8 bit") {
    MmaInstruction mma = instruction(t, MmaType::S8, 16);
    check(operandALayout(t, mma, 16, 32, {}), 16, 32, [](unsigned l, unsigned i) {
      return Coord{int(l / 4 + (i % 8 >= 4 ? 8 : 0)), int(l % 4 * 4 + (i & 3) + (i >= 8 ? 16 : 0))};
    });
    check(operandBLayout(t, mma, 32, 8, {}), 8, 32, [](unsigned l, unsigned i) {
      return Coord{int(l % 4 * 4 + (i & 3) + (i >= 4 ? 16 : 0)), int(l / 4)};
    });
  }
  SUBCASE("m8n8k4, f64") {
    MmaInstruction mma = instruction(t, MmaType::F64, 8);
    check(operandALayout(t, mma, 8, 4, {}), 1, 32, [](unsigned l, unsigned) { return Coord{int(l / 4), int(l % 4)}; });
    check(operandBLayout(t, mma, 4, 8, {}), 1, 32, [](unsigned l, unsigned) { return Coord{int(l % 4), int(l / 4)}; });
    check(accumulatorLayout(t, mma, 8, 8, {}), 2, 32, [](unsigned l, unsigned i) {
      return Coord{int(l / 4), int(l % 4 * 2 + i)};
    });
  }
}

TEST_CASE("MFMA fragments (CDNA3 ISA)") {
  const Target &t = *findTarget("gfx942");
  SUBCASE("16x16x16, 16 bit") {
    MmaInstruction mma = instruction(t, MmaType::F16, 16);
    check(operandALayout(t, mma, 16, 16, {}), 4, 64, [](unsigned l, unsigned i) {
      return Coord{int(l % 16), int(l / 16 * 4 + i)};
    });
    check(operandBLayout(t, mma, 16, 16, {}), 4, 64, [](unsigned l, unsigned i) {
      return Coord{int(l / 16 * 4 + i), int(l % 16)};
    });
    check(accumulatorLayout(t, mma, 16, 16, {}), 4, 64, [](unsigned l, unsigned i) {
      return Coord{int(l / 16 * 4 + i), int(l % 16)};
    });
  }
  SUBCASE("32x32x8, 16 bit") {
    MmaInstruction mma = instruction(t, MmaType::F16, 32);
    check(operandALayout(t, mma, 32, 8, {}), 4, 64, [](unsigned l, unsigned i) {
      return Coord{int(l % 32), int(l / 32 * 4 + i)};
    });
    check(accumulatorLayout(t, mma, 32, 32, {}), 16, 64, [](unsigned l, unsigned i) {
      return Coord{int(8 * (i / 4) + 4 * (l / 32) + i % 4), int(l % 32)};
    });
  }
  SUBCASE("16x16x4, f64") {
    MmaInstruction mma = instruction(t, MmaType::F64, 16);
    check(accumulatorLayout(t, mma, 16, 16, {}), 4, 64, [](unsigned l, unsigned i) {
      return Coord{int(4 * i + l / 16), int(l % 16)};
    });
  }
}

TEST_CASE("MFMA fragments of twice the k (CDNA4 ISA)") {
  const Target &t = *findTarget("gfx950");
  SUBCASE("16x16x32, 16 bit") {
    MmaInstruction mma = instruction(t, MmaType::BF16, 16);
    CHECK(mma.k == 32);
    check(operandALayout(t, mma, 16, 32, {}), 8, 64, [](unsigned l, unsigned i) {
      return Coord{int(l % 16), int(l / 16 * 8 + i)};
    });
    check(operandBLayout(t, mma, 32, 16, {}), 8, 64, [](unsigned l, unsigned i) {
      return Coord{int(l / 16 * 8 + i), int(l % 16)};
    });
    check(accumulatorLayout(t, mma, 16, 16, {}), 4, 64, [](unsigned l, unsigned i) {
      return Coord{int(l / 16 * 4 + i), int(l % 16)};
    });
  }
  SUBCASE("32x32x16, 16 bit") {
    MmaInstruction mma = instruction(t, MmaType::F16, 32);
    CHECK(mma.k == 16);
    check(operandALayout(t, mma, 32, 16, {}), 8, 64, [](unsigned l, unsigned i) {
      return Coord{int(l % 32), int(l / 32 * 8 + i)};
    });
  }
  SUBCASE("16x16x64, 8 bit") {
    MmaInstruction mma = instruction(t, MmaType::S8, 16);
    CHECK(mma.k == 64);
    check(operandALayout(t, mma, 16, 64, {}), 16, 64, [](unsigned l, unsigned i) {
      return Coord{int(l % 16), int(l / 16 * 16 + i)};
    });
  }
  SUBCASE("16x16x32, 8-bit floats") {
    for (auto [name, a, b] : {std::tuple{"gfx942", MmaType::F8E4M3FNUZ, MmaType::F8E5M2FNUZ},
                              {"gfx950", MmaType::F8E5M2, MmaType::F8E4M3}}) {
      const Target &target = *findTarget(name);
      auto list = mmaInstructions(target, a, b);
      REQUIRE(list.size() == 2);
      CHECK(list[0].k == 32);
      CHECK(list[0].operandB == b);
      check(operandALayout(target, list[0], 16, 32, {}), 8, 64, [](unsigned l, unsigned i) {
        return Coord{int(l % 16), int(l / 16 * 8 + i)};
      });
    }
  }
}

TEST_CASE("operand types of element types, by target") {
  auto is = [](const char *target, const char *scalar, const char *precision, std::optional<MmaType> want) {
    CAPTURE(target);
    CAPTURE(scalar);
    CAPTURE(precision);
    CHECK(mmaType(*findTarget(target), scalar, precision) == want);
  };
  is("sm_80", "f32", "default", MmaType::TF32), is("sm_80", "f32", "ieee", std::nullopt);
  is("gfx942", "f32", "default", MmaType::XF32), is("gfx942", "f32", "tf32x3", MmaType::F32),
      is("gfx942", "f32", "ieee", MmaType::F32);
  // No xf32: ieee for all.
  is("gfx950", "f32", "default", MmaType::F32), is("gfx950", "f32", "tf32", MmaType::F32),
      is("gfx950", "f32", "ieee", MmaType::F32);
  is("gfx950", "f8e4m3", "default", MmaType::F8E4M3), is("gfx942", "i32", "default", std::nullopt);
  CHECK(mmaInstructions(*findTarget("gfx942"), MmaType::F8E4M3).empty());
  CHECK(mmaInstructions(*findTarget("gfx950"), MmaType::F8E4M3FNUZ).empty());
  CHECK(mmaInstructions(*findTarget("gfx950"), MmaType::XF32).empty());
  CHECK(mmaInstructions(*findTarget("gfx950"), MmaType::U8).empty());
  CHECK(nearestMmaType(*findTarget("gfx942"), "f8e4m3") == "f8e4m3fnuz");
  CHECK(nearestMmaType(*findTarget("gfx942"), "f8e5m2") == "f8e5m2fnuz");
  CHECK(nearestMmaType(*findTarget("gfx950"), "f8e5m2fnuz") == "f8e5m2");
  CHECK(nearestMmaType(*findTarget("gfx950"), "u8") == "f16");
  CHECK(nearestMmaType(*findTarget("sm_80"), "f8e4m3") == "f16");
}

TEST_CASE("tiles cover every element, warps agree on what a warp id means, odd factors repeat") {
  for (const Target &t : allTargets())
    for (MmaType type :
         {MmaType::F16, MmaType::TF32, MmaType::XF32, MmaType::S8, MmaType::F64, MmaType::F8E4M3, MmaType::F8E5M2FNUZ})
      for (const MmaInstruction &mma : mmaInstructions(t, type))
        for (auto [m, n, k] : {std::array<int64_t, 3>{128, 64, 64}, {64, 192, 32}, {96, 80, 64}})
          for (unsigned warps : {1u, 4u, 8u}) {
            if (!fits(mma, m, n, k)) continue;
            WarpGrid grid = chooseWarpGrid(mma, m, n, warps);
            REQUIRE(grid.m * grid.n == warps);
            TileLayout acc = accumulatorLayout(t, mma, m, n, grid), a = operandALayout(t, mma, m, k, grid),
                       b = operandBLayout(t, mma, k, n, grid);
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
                for (unsigned r = 0; r < acc.registers(); ++r)
                  rows.insert(acc.coordOf(r, lane, w)[0]), columns.insert(acc.coordOf(r, lane, w)[1]);
                for (unsigned r = 0; r < a.registers(); ++r) rowsA.insert(a.coordOf(r, lane, w)[0]);
                for (unsigned r = 0; r < b.registers(); ++r) columnsB.insert(b.coordOf(r, lane, w)[1]);
              }
              CHECK(rows == rowsA);
              CHECK(columns == columnsB);
            }
          }
}
