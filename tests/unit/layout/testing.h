// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shared by the layout tests: the instruction layouts of the ISA manuals and a few layouts to try everything on.
#pragma once
#include <doctest/doctest.h>

#include <map>
#include <set>

#include "layout/layout.h"

namespace tlx::layout::testing {

using Shape = llvm::SmallVector<int64_t, 4>;
using U = llvm::SmallVector<unsigned, 4>;
using Point = std::vector<int32_t>;

inline Point point(const Coord &c) {
  return Point(c.begin(), c.end());
}
inline std::vector<Point> points(llvm::ArrayRef<int64_t> shape) {
  std::vector<Point> all{{}};
  for (int64_t extent : shape) {
    std::vector<Point> next;
    for (const Point &p : all)
      for (int32_t i = 0; i < extent; ++i) {
        next.push_back(p);
        next.back().push_back(i);
      }
    all = std::move(next);
  }
  return all;
}

/// Calls f(reg, lane, warp) for all of a CTA.
template <typename F> void forAll(const TileLayout &l, F f) {
  for (unsigned w = 0; w < l.warps(); ++w)
    for (unsigned lane = 0; lane < l.lanes(); ++lane)
      for (unsigned r = 0; r < l.registers(); ++r) f(r, lane, w);
}

/// How many (register, thread) hold each element; each element of the tile must be there.
inline std::map<Point, unsigned> holders(const TileLayout &l) {
  std::map<Point, unsigned> count;
  for (const Point &p : points(l.shape())) count[p] = 0;
  forAll(l, [&](unsigned r, unsigned lane, unsigned w) {
    auto it = count.find(point(l.coordOf(r, lane, w)));
    REQUIRE(it != count.end());
    ++it->second;
  });
  return count;
}
inline void checkCovers(const TileLayout &l) {
  REQUIRE(!TileLayout::check(l.shape(), l.allBases()));
  const auto count = holders(l);
  const unsigned copies = count.begin()->second;
  CHECK(copies > 0);
  bool even = true;
  for (auto &[p, n] : count) even &= n == copies;
  CHECK(even);
}

// An instruction's operand: which element of the unit a register of a lane holds.
struct Unit {
  std::vector<Coord> reg, lane;
  Shape shape;
};
// PTX ISA, "Matrix Fragments for mma.m16n8k16 with .f16/.bf16" and "… m16n8k8 with .tf32".
inline const Unit kMmaAcc{{{0, 1}, {8, 0}}, {{0, 2}, {0, 4}, {1, 0}, {2, 0}, {4, 0}}, {16, 8}};
inline const Unit kMmaA16{{{0, 1}, {8, 0}, {0, 8}}, {{0, 2}, {0, 4}, {1, 0}, {2, 0}, {4, 0}}, {16, 16}};
inline const Unit kMmaB16{{{1, 0}, {8, 0}}, {{2, 0}, {4, 0}, {0, 1}, {0, 2}, {0, 4}}, {16, 8}};
inline const Unit kMmaA32{{{8, 0}, {0, 4}}, {{0, 1}, {0, 2}, {1, 0}, {2, 0}, {4, 0}}, {16, 8}};
inline const Unit kMmaB32{{{4, 0}}, {{1, 0}, {2, 0}, {0, 1}, {0, 2}, {0, 4}}, {8, 8}};
inline const Unit kMmaA8{{{0, 1}, {0, 2}, {8, 0}, {0, 16}}, {{0, 4}, {0, 8}, {1, 0}, {2, 0}, {4, 0}}, {16, 32}};
// AMD CDNA3 ISA, MFMA output: 16x16 and 32x32, f32, wave64.
inline const Unit kMfma16{{{1, 0}, {2, 0}}, {{0, 1}, {0, 2}, {0, 4}, {0, 8}, {4, 0}, {8, 0}}, {16, 16}};
inline const Unit kMfma32{
    {{1, 0}, {2, 0}, {8, 0}, {16, 0}}, {{0, 1}, {0, 2}, {0, 4}, {0, 8}, {0, 16}, {4, 0}}, {32, 32}};

inline TileLayout tile(const Shape &shape, const Unit &unit, const U &warps, const U &warpOrder = {0, 1},
                       const U &registerOrder = {1, 0}) {
  return tileUnit(shape, unit.reg, unit.lane, unit.shape, warps, warpOrder, registerOrder);
}

} // namespace tlx::layout::testing
