// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Constructors of tile layouts against the formulas of their documentation, over all indices.
#include "testing.h"

using namespace tlx::layout;
using namespace tlx::layout::testing;

TEST_CASE("extents split into an odd factor and bits") {
  CHECK(splitExtent(192)->odd == 3);
  CHECK(splitExtent(192)->bits == 6);
  CHECK(splitExtent(80)->odd == 5);
  CHECK(splitExtent(176)->odd == 11);
  CHECK(splitExtent(208)->size() == 208);
  CHECK(splitExtent(1)->bits == 0);
  CHECK(!splitExtent(17));
  CHECK(!splitExtent(0));
  CHECK(!splitExtent(-8));
}

namespace {
// The element that blocked() gives a register: positions count inside the tile that size, lanes and warps span; what
// passes 2^k wraps, and what is left of 2^k and the odd factor repeats.
void checkBlocked(const Shape &shape, const U &size, const U &lanes, const U &warps, const U &order) {
  CAPTURE(shape.size());
  const TileLayout l = blocked(shape, size, lanes, warps, order);
  checkCovers(l);
  const unsigned rank = shape.size();
  for (unsigned warp = 0; warp < l.warps(); ++warp)
    for (unsigned lane = 0; lane < l.lanes(); ++lane)
      for (unsigned reg = 0; reg < l.registers(); ++reg) {
        unsigned r = reg & ((1u << l.bits(InDim::Register)) - 1), rep = reg >> l.bits(InDim::Register);
        unsigned ln = lane, wp = warp;
        Point want(rank);
        std::vector<unsigned> at(rank), grid(rank, 1);
        auto digit = [&](unsigned &index, unsigned d, unsigned count) {
          at[d] += grid[d] * (index % count);
          grid[d] *= count;
          index /= count;
        };
        for (unsigned d : order) digit(r, d, std::min<unsigned>(size[d], 1u << splitExtent(shape[d])->bits));
        for (unsigned d : order) digit(ln, d, lanes[d]);
        for (unsigned d : order) digit(wp, d, warps[d]);
        for (unsigned d : order) digit(r, d, std::max(1u, (1u << splitExtent(shape[d])->bits) / grid[d]));
        for (unsigned d = rank; d-- > 0;) {
          const Extent e = *splitExtent(shape[d]);
          want[d] = at[d] % (1 << e.bits) + (rep % e.odd << e.bits);
          rep /= e.odd;
        }
        REQUIRE(point(l.coordOf(reg, lane, warp)) == want);
      }
}
} // namespace

TEST_CASE("blocked") {
  checkBlocked({64, 64}, {1, 8}, {4, 8}, {4, 1}, {1, 0});
  checkBlocked({64, 32}, {4, 2}, {8, 4}, {2, 2}, {0, 1});
  checkBlocked({8, 16}, {1, 8}, {8, 8}, {2, 4}, {1, 0});    // wraps in lanes and warps
  checkBlocked({4, 4}, {1, 8}, {4, 8}, {4, 1}, {1, 0});     // a row shorter than a thread's vector
  checkBlocked({192, 80}, {1, 8}, {16, 2}, {4, 1}, {1, 0}); // odd factors 3 and 5
  checkBlocked({96, 176}, {1, 4}, {8, 4}, {2, 2}, {1, 0});  // 3 and 11
  checkBlocked({208, 16}, {2, 2}, {16, 4}, {1, 1}, {0, 1}); // 13, wave64
  checkBlocked({12}, {1}, {32}, {4}, {0});                  // arange(12)
  checkBlocked({4, 6, 8}, {1, 1, 4}, {2, 8, 2}, {2, 1, 2}, {2, 0, 1});
}

TEST_CASE("defaultBlocked") {
  const TileLayout l = defaultBlocked({64, 64}, 8, {1, 0}, 32, 4);
  CHECK(l == blocked({64, 64}, {1, 8}, {4, 8}, {4, 1}, {1, 0}));
  CHECK(defaultBlocked({128}, 4, {0}, 32, 4) == blocked({128}, {4}, {32}, {4}, {0}));
  CHECK(defaultBlocked({192, 80}, 8, {1, 0}, 64, 4) == blocked({192, 80}, {1, 8}, {32, 2}, {4, 1}, {1, 0}));
  checkCovers(defaultBlocked({12}, 4, {0}, 32, 8));
  checkCovers(defaultBlocked({2, 3, 4}, 8, {2, 1, 0}, 32, 8));
  const TileLayout scalar = defaultBlocked({}, 1, {}, 32, 4);
  CHECK(scalar.registers() == 1);
  CHECK(scalar.lanes() == 32);
  CHECK(scalar.freeMask(InDim::Warp) == 3);
}

TEST_CASE("mma.m16n8k16 and m16n8k8 fragments") {
  // PTX ISA: groupID = lane / 4, threadID_in_group = lane % 4.
  for (unsigned lane = 0; lane < 32; ++lane) {
    const int g = lane / 4, t = lane % 4;
    const TileLayout c = tile({16, 8}, kMmaAcc, {1, 1});
    for (int i = 0; i < 4; ++i) CHECK(point(c.coordOf(i, lane, 0)) == Point{i < 2 ? g : g + 8, t * 2 + (i & 1)});
    const TileLayout a = tile({16, 16}, kMmaA16, {1, 1});
    for (int i = 0; i < 8; ++i)
      CHECK(point(a.coordOf(i, lane, 0)) ==
            Point{(i < 2 || (i >= 4 && i < 6)) ? g : g + 8, i < 4 ? t * 2 + (i & 1) : t * 2 + (i & 1) + 8});
    const TileLayout b = tile({16, 8}, kMmaB16, {1, 1});
    for (int i = 0; i < 4; ++i) CHECK(point(b.coordOf(i, lane, 0)) == Point{t * 2 + (i & 1) + (i < 2 ? 0 : 8), g});
    const TileLayout a32 = tile({16, 8}, kMmaA32, {1, 1});
    for (int i = 0; i < 4; ++i) CHECK(point(a32.coordOf(i, lane, 0)) == Point{g + (i & 1) * 8, t + (i >> 1) * 4});
    const TileLayout b32 = tile({8, 8}, kMmaB32, {1, 1});
    for (int i = 0; i < 2; ++i) CHECK(point(b32.coordOf(i, lane, 0)) == Point{t + i * 4, g});
  }
}

TEST_CASE("MFMA accumulators") {
  for (unsigned lane = 0; lane < 64; ++lane) {
    const TileLayout c16 = tile({16, 16}, kMfma16, {1, 1}), c32 = tile({32, 32}, kMfma32, {1, 1});
    for (int r = 0; r < 4; ++r) CHECK(point(c16.coordOf(r, lane, 0)) == Point{int(lane / 16 * 4 + r), int(lane % 16)});
    for (int r = 0; r < 16; ++r)
      CHECK(point(c32.coordOf(r, lane, 0)) == Point{int(8 * (r / 4) + 4 * (lane / 32) + r % 4), int(lane % 32)});
  }
}

namespace {
// tileUnit: coordinate = unit part + unit extent · (warp + warps · repetition), wrapped into 2^k, plus the odd
// repetition.
void checkTiled(const Shape &shape, const Unit &unit, const U &warps, const U &warpOrder, const U &registerOrder) {
  const TileLayout l = tile(shape, unit, warps, warpOrder, registerOrder);
  const TileLayout one = tile(unit.shape, unit, {1, 1});
  REQUIRE(l.rank() == shape.size());
  checkCovers(l);
  for (unsigned warp = 0; warp < l.warps(); ++warp)
    for (unsigned lane = 0; lane < l.lanes(); ++lane)
      for (unsigned reg = 0; reg < l.registers(); ++reg) {
        const Coord inside = one.coordOf(reg % one.registers(), lane, 0);
        unsigned more = (reg & ((1u << l.bits(InDim::Register)) - 1)) / one.registers();
        unsigned rep = reg >> l.bits(InDim::Register), w = warp;
        std::vector<unsigned> warpAt(warps.size());
        for (unsigned d : warpOrder) warpAt[d] = w % warps[d], w /= warps[d];
        Point want(2);
        for (unsigned d : registerOrder) {
          const unsigned pow2 = 1u << splitExtent(shape[d])->bits, grid = unit.shape[d] * warps[d];
          const unsigned count = std::max(1u, pow2 / grid);
          want[d] = (inside[d] + unit.shape[d] * warpAt[d] + grid * (more % count)) % pow2;
          more /= count;
        }
        for (unsigned d = 2; d-- > 0;) {
          const Extent e = *splitExtent(shape[d]);
          want[d] += rep % e.odd << e.bits;
          rep /= e.odd;
        }
        REQUIRE(point(l.coordOf(reg, lane, warp)) == want);
      }
}
} // namespace

TEST_CASE("tileUnit") {
  checkTiled({128, 64}, kMmaAcc, {4, 1}, {0, 1}, {1, 0});
  checkTiled({64, 64}, kMmaAcc, {2, 2}, {1, 0}, {0, 1});
  checkTiled({128, 176}, kMmaAcc, {4, 1}, {0, 1}, {1, 0}); // N = 11 · 16
  checkTiled({64, 208}, kMmaAcc, {4, 1}, {0, 1}, {1, 0});  // N = 13 · 16
  checkTiled({192, 80}, kMmaA16, {4, 1}, {0, 1}, {1, 0});  // M = 3 · 64, K = 5 · 16
  checkTiled({96, 64}, kMmaB16, {1, 2}, {1, 0}, {1, 0});
  checkTiled({16, 64}, kMmaAcc, {4, 2}, {0, 1}, {1, 0}); // fewer rows than warps: copies
  checkTiled({128, 128}, kMfma32, {2, 2}, {1, 0}, {1, 0});
  checkTiled({64, 96}, kMfma16, {2, 1}, {1, 0}, {1, 0});
  // Warps along a dimension that the operand lacks hold copies: A of a 2x2 warp grid, N is dimension 2.
  const TileLayout a = tile({32, 16}, kMmaA16, {2, 1, 2}, {0, 2, 1});
  CHECK(a.warps() == 4);
  CHECK(a.freeMask(InDim::Warp) == 2);
  CHECK(point(a.coordOf(0, 0, 1)) == Point{16, 0});
  CHECK(a.coordOf(3, 7, 3) == a.coordOf(3, 7, 1));
  // 80 = 5 · 16 has no room for a unit of 32 rows.
  CHECK(tile({80, 32}, kMfma32, {1, 1}).rank() == 0);
}

TEST_CASE("check names what is wrong") {
  auto why = [](const Shape &shape, TileLayout::Bases bases) { return TileLayout::check(shape, bases).value_or(""); };
  CHECK(why({4}, {{{{1}, {2}}, {}, {}, {}}}) == "");
  CHECK(why({34}, {}).find("34") != std::string::npos);
  CHECK(why({4}, {{{{1}}, {}, {}, {}}}).find("2^1 of the 2^2") != std::string::npos);
  CHECK(why({4}, {{{{1}, {4}}, {}, {}, {}}}).find("register basis 1 leaves") != std::string::npos);
  CHECK(why({4}, {{{{1}}, {{-2}}, {}, {}}}).find("lane basis 0 leaves") != std::string::npos);
  CHECK(why({4}, {{{{1}}, {{2, 0}}, {}, {}}}).find("2 coordinates") != std::string::npos);
  CHECK(why({1 << 20, 1 << 20}, {}).find("2^30") != std::string::npos);
}

TEST_CASE("expandDims and slice") {
  const TileLayout acc = tile({64, 48}, kMmaAcc, {2, 2});
  for (unsigned axis : {0u, 1u}) {
    const TileLayout s = slice(acc, axis);
    checkCovers(s);
    CHECK(s.redundantMask(InDim::Register) == 0);
    // Each thread holds, in the slice, exactly the coordinates that it holds in the whole.
    for (unsigned w = 0; w < 4; ++w)
      for (unsigned lane = 0; lane < 32; ++lane) {
        std::set<int> whole, part;
        for (unsigned r = 0; r < acc.registers(); ++r) whole.insert(acc.coordOf(r, lane, w)[1 - axis]);
        for (unsigned r = 0; r < s.registers(); ++r) part.insert(s.coordOf(r, lane, w)[0]);
        REQUIRE(whole == part);
        REQUIRE(part.size() == s.registers());
      }
    CHECK(slice(expandDims(s, axis), axis) == s);
  }
  CHECK(expandDims(acc, 1).shape() == llvm::ArrayRef<int64_t>({64, 1, 48}));
  CHECK(slice(slice(acc, 0), 0).rank() == 0);
}

TEST_CASE("broadcastTo adds registers only") {
  const TileLayout row = expandDims(slice(tile({64, 48}, kMmaAcc, {2, 2}), 0), 0);
  const TileLayout wide = broadcastTo(row, {12, 48});
  checkCovers(wide);
  forAll(wide, [&](unsigned r, unsigned lane, unsigned w) {
    bool held = false;
    for (unsigned s = 0; s < row.registers(); ++s) held |= row.coordOf(s, lane, w)[1] == wide.coordOf(r, lane, w)[1];
    REQUIRE(held);
  });
  CHECK(wide.registers() == row.registers() * 12);
}

TEST_CASE("transpose and reshape") {
  const TileLayout l = blocked({4, 6, 8}, {1, 2, 2}, {2, 1, 4}, {2, 2, 1}, {2, 1, 0});
  const TileLayout t = transpose(l, {2, 0, 1});
  CHECK(t.shape() == llvm::ArrayRef<int64_t>({8, 4, 6}));
  for (unsigned w = 0; w < 4; ++w)
    for (unsigned lane = 0; lane < 8; ++lane)
      for (unsigned r = 0; r < l.registers(); ++r) { // one odd factor: the repetition numbers stay
        const Coord a = l.coordOf(r, lane, w), b = t.coordOf(r, lane, w);
        REQUIRE(point(b) == Point{a[2], a[0], a[1]});
      }
  auto flat = [](const TileLayout &layout, unsigned r, unsigned lane, unsigned w) {
    int64_t index = 0;
    const Coord c = layout.coordOf(r, lane, w);
    for (unsigned d = 0; d < layout.rank(); ++d) index = index * layout.shape()[d] + c[d];
    return index;
  };
  auto checkReshape = [&](const TileLayout &from, const Shape &shape) {
    const auto to = reshape(from, shape);
    REQUIRE(to);
    forAll(from,
           [&](unsigned r, unsigned lane, unsigned w) { REQUIRE(flat(from, r, lane, w) == flat(*to, r, lane, w)); });
  };
  checkReshape(blocked({64, 32}, {1, 8}, {8, 4}, {4, 1}, {1, 0}), {16, 4, 8, 4});
  checkReshape(blocked({64, 32}, {1, 8}, {8, 4}, {4, 1}, {1, 0}), {2048});
  checkReshape(blocked({12}, {1}, {32}, {4}, {0}), {3, 4});
  checkReshape(blocked({3, 5, 8}, {1, 1, 2}, {1, 1, 4}, {1, 1, 1}, {2, 1, 0}), {15, 8});
  checkReshape(blocked({96, 32}, {1, 8}, {8, 4}, {4, 1}, {1, 0}), {3, 1024});
  checkReshape(blocked({8, 48}, {1, 2}, {8, 4}, {1, 1}, {1, 0}), {8, 3, 16});
  CHECK(!reshape(blocked({4, 3}, {1, 1}, {4, 8}, {1, 1}, {1, 0}), {12}));
  CHECK(!reshape(blocked({6}, {1}, {32}, {1}, {0}), {2, 3}));
  CHECK(!reshape(blocked({6}, {1}, {32}, {1}, {0}), {3}));
  CHECK(!reshape(blocked({64}, {1}, {32}, {1}, {0}), {0}));
}

TEST_CASE("join and split") {
  const TileLayout l = blocked({12, 16}, {1, 2}, {4, 8}, {1, 2}, {1, 0});
  const TileLayout j = join(l);
  checkCovers(j);
  forAll(j, [&](unsigned r, unsigned lane, unsigned w) {
    Coord want = l.coordOf(r / 2, lane, w);
    want.push_back(r % 2);
    REQUIRE(j.coordOf(r, lane, w) == want);
  });
  CHECK(split(j) == l);
  CHECK(!split(l));
  CHECK(!split(blocked({16, 2}, {1, 1}, {16, 2}, {1, 1}, {1, 0})));
}

TEST_CASE("copies are seen") {
  const TileLayout l({4}, {{{{1}}, {{0}, {1}}, {{2}, {3}}, {}}});
  CHECK(l.freeMask(InDim::Lane) == 1);
  CHECK(l.redundantMask(InDim::Lane) == 3);
  CHECK(l.redundantMask(InDim::Warp) == 2);
  CHECK(l.redundantMask(InDim::Register) == 0);
  // The threads without redundant bits hold each element once.
  const TileLayout acc = slice(tile({32, 64}, kMmaAcc, {2, 4}), 1);
  std::map<int, unsigned> count;
  forAll(acc, [&](unsigned r, unsigned lane, unsigned w) {
    if ((lane & acc.redundantMask(InDim::Lane)) == 0 && (w & acc.redundantMask(InDim::Warp)) == 0)
      ++count[acc.coordOf(r, lane, w)[0]];
  });
  CHECK(count.size() == 32);
  for (auto &[c, n] : count) CHECK(n == 1);
}

TEST_CASE("contiguousRegisters") {
  CHECK(contiguousRegisters(blocked({64, 64}, {1, 8}, {4, 8}, {4, 1}, {1, 0}), 1, 16) == 8);
  CHECK(contiguousRegisters(blocked({64, 64}, {1, 8}, {4, 8}, {4, 1}, {1, 0}), 1, 4) == 4);
  CHECK(contiguousRegisters(blocked({64, 64}, {1, 8}, {4, 8}, {4, 1}, {1, 0}), 0, 16) == 1);
  CHECK(contiguousRegisters(tile({64, 64}, kMmaAcc, {4, 1}), 1, 16) == 2);
  CHECK(contiguousRegisters(blocked({12}, {4}, {32}, {1}, {0}), 0, 16) == 4);
  // A lane that also steps through the low bit breaks the vector.
  CHECK(contiguousRegisters(TileLayout({4}, {{{{1}, {2}}, {{1}}, {}, {}}}), 0, 4) == 1);
}
