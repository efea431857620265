// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// wgmma: plans over all tiles, fragments against the figures of the PTX ISA ("Register Fragments for wgmma"), matrix descriptors against a
// reader of the canonical layouts ("Shared Memory Matrix Layout"), as the simulator reads them.
#include <doctest/doctest.h>

#include <set>

#include "features/wgmma.h"
#include "layout/message_layout.h"

using namespace tlx;
using namespace tlx::features;
using layout::Coord;
using layout::SharedLayout;
using layout::TileLayout;

namespace {

bool hasInstruction(unsigned n, bool integers) { // PTX ISA, "wgmma.mma_async", shapes
  if (n % 8 || n < 8 || n > 256) return false;
  static const std::set<unsigned> forIntegers{8,   16,  24,  32,  48,  64,  80,  96,  112,
                                              128, 144, 160, 176, 192, 208, 224, 240, 256};
  return !integers || forIntegers.count(n);
}

bool isExtent(int64_t e) {
  return layout::splitExtent(e).has_value();
}

/// Every element of the tile is in one register of one thread.
void checkOnce(const TileLayout &l) {
  REQUIRE(!TileLayout::check(l.shape(), l.allBases()));
  std::vector<unsigned> count(size_t(l.shape()[0] * l.shape()[1]));
  for (unsigned w = 0; w < l.warps(); ++w)
    for (unsigned lane = 0; lane < 32; ++lane)
      for (unsigned r = 0; r < l.registers(); ++r) {
        const Coord c = l.coordOf(r, lane, w);
        ++count[size_t(c[0] * l.shape()[1] + c[1])];
      }
  size_t wrong = 0;
  for (unsigned n : count) wrong += n != 1;
  CHECK(wrong == 0);
}

/// Where a warp's group stands: M first, then N.
std::pair<unsigned, unsigned> groupOf(const WgmmaPlan &p, unsigned warp) {
  const unsigned g = warp / 4;
  return {g % p.groupsM, g / p.groupsM};
}
} // namespace

TEST_CASE("wgmma: plans of all tiles") {
  unsigned found = 0;
  for (int64_t m = 16; m <= 512; m += 16)
    for (int64_t n = 8; n <= 512; n += 8)
      for (unsigned warps : {1u, 2u, 4u, 8u, 16u})
        for (bool integers : {false, true}) {
          if (!isExtent(m) || !isExtent(n)) continue;
          const auto p = planWgmma(m, n, 64, integers ? 8 : 16, integers, warps);
          CAPTURE(m);
          CAPTURE(n);
          CAPTURE(warps);
          CAPTURE(integers);
          if (!p) {
            // None: no warpgroup, no 64 rows in a 2^k part, or more groups than rows of 64 and columns of 8 · 2^k.
            const auto me = *layout::splitExtent(m), ne = *layout::splitExtent(n);
            const bool rows = me.bits >= 6;
            const int64_t places =
                rows ? (int64_t(1) << (me.bits - 6)) * std::max<int64_t>(1, (int64_t(1) << ne.bits) / 8) : 0;
            CHECK((warps % 4 || !rows || int64_t(warps) / 4 > places));
            continue;
          }
          ++found;
          REQUIRE(p->groupsM * p->groupsN * 4 == warps);
          CHECK(p->k == (integers ? 32 : 16));
          REQUIRE(hasInstruction(p->n, integers));
          // The instructions of a group make its part of the tile, and none crosses a repetition that another group has part of.
          const int64_t part = n & -n, side = p->groupsN == 1 ? n : part / p->groupsN;
          CHECK(side % p->n == 0);
          CHECK((m & -m) % (64 * p->groupsM) == 0);
          // The widest that there is, if it alone is enough.
          if (hasInstruction(unsigned(side), integers)) CHECK(p->n == side);
          // Else each instruction starts with a swizzle pattern of a B that is contiguous along N.
          else
            CHECK(p->n % std::min<int64_t>(64, side & -side) == 0);
        }
  CHECK(found > 1000);
}

TEST_CASE("wgmma: depths and types") {
  CHECK(planWgmma(64, 64, 64, 16, false, 4)->k == 16);
  CHECK(planWgmma(64, 64, 64, 32, false, 4)->k == 8);
  CHECK(planWgmma(64, 64, 64, 8, false, 4)->k == 32);
  CHECK(planWgmma(64, 64, 8, 32, false, 4));
  CHECK_FALSE(planWgmma(64, 64, 8, 16, false, 4));
  CHECK_FALSE(planWgmma(64, 64, 16, 8, true, 4));
  CHECK(planWgmma(64, 64, 48, 16, false, 4));
  CHECK_FALSE(planWgmma(64, 64, 64, 64, false, 4)); // f64
  CHECK_FALSE(planWgmma(32, 64, 64, 16, false, 4));
  CHECK_FALSE(planWgmma(96, 64, 64, 16, false, 4)); // 3 · 32
  CHECK_FALSE(planWgmma(64, 4, 64, 16, false, 4));
  CHECK_FALSE(planWgmma(64, 64, 64, 16, false, 6));
  // Along M as far as it goes, then along N.
  CHECK(planWgmma(128, 256, 64, 16, false, 8)->groupsM == 2);
  CHECK(planWgmma(64, 256, 64, 16, false, 8)->groupsN == 2);
  CHECK(planWgmma(64, 256, 64, 16, false, 8)->n == 128);
  CHECK(planWgmma(192, 256, 64, 16, false, 4)->groupsM == 1);
  CHECK_FALSE(planWgmma(192, 8, 64, 16, false, 8));
}

// Figure "WGMMA .m64nNk16 register fragment layout for accumulator matrix D".
TEST_CASE("wgmma: accumulators") {
  for (auto [m, n] : {std::pair<int64_t, int64_t>{64, 8},
                      {64, 64},
                      {64, 80},
                      {128, 96},
                      {192, 176},
                      {128, 208},
                      {64, 256},
                      {256, 32},
                      {320, 48},
                      {128, 384}})
    for (unsigned warps : {4u, 8u, 16u}) {
      const auto p = planWgmma(m, n, 64, 16, false, warps);
      if (!p) continue;
      CAPTURE(m);
      CAPTURE(n);
      CAPTURE(warps);
      const TileLayout l = wgmmaAccumulator(*p, m, n);
      REQUIRE(l.warps() == warps);
      checkOnce(l);
      // Lane and warp of a row and a column.
      const int64_t part = n & -n, own = part / p->groupsN;
      size_t wrong = 0;
      for (unsigned w = 0; w < warps; ++w)
        for (unsigned lane = 0; lane < 32; ++lane)
          for (unsigned r = 0; r < l.registers(); ++r) {
            const Coord c = l.coordOf(r, lane, w);
            const auto [gm, gn] = groupOf(*p, w);
            const unsigned row = unsigned(c[0]) % 64;
            wrong += row / 16 != w % 4 || row % 8 != lane / 4 || unsigned(c[1]) % 8 / 2 != lane % 4;
            wrong += unsigned(c[0]) / 64 % p->groupsM != gm || c[1] % part / own != gn;
          }
      CHECK(wrong == 0);
      // Two neighbouring columns and two rows are next to each other in registers: what stmatrix and stores use.
      for (unsigned r = 0; r < l.registers(); r += 4) {
        const Coord c = l.registerCoord(r);
        CHECK(l.registerCoord(r + 1) == Coord{c[0], c[1] + 1});
        CHECK(l.registerCoord(r + 2) == Coord{c[0] + 8, c[1]});
      }
    }
}

// Figures "WGMMA .m64nNk8/16/32 register fragment layout for matrix A".
TEST_CASE("wgmma: A in registers") {
  for (unsigned bits : {8u, 16u, 32u})
    for (auto [m, k] : {std::pair<int64_t, int64_t>{64, 32}, {64, 64}, {128, 96}, {192, 64}})
      for (unsigned warps : {4u, 8u}) {
        const auto p = planWgmma(m, 64, k, bits, false, warps);
        REQUIRE(p);
        CAPTURE(bits);
        CAPTURE(m);
        CAPTURE(k);
        CAPTURE(warps);
        const TileLayout l = wgmmaOperandA(*p, m, k, bits);
        if (p->groupsN == 1) checkOnce(l);
        REQUIRE(l.warps() == warps);
        const unsigned pack = 32 / bits;
        size_t wrong = 0;
        for (unsigned w = 0; w < warps; ++w)
          for (unsigned lane = 0; lane < 32; ++lane)
            for (unsigned r = 0; r < l.registers(); ++r) {
              const Coord c = l.coordOf(r, lane, w);
              const unsigned row = unsigned(c[0]) % 64;
              wrong += row / 16 != w % 4 || row % 8 != lane / 4 || unsigned(c[1]) / pack % 4 != lane % 4;
              wrong += unsigned(c[0]) / 64 % p->groupsM != groupOf(*p, w).first;
            }
        CHECK(wrong == 0);
        // The four words of one instruction: 8 rows below, then 4 words along k.
        for (unsigned i = 0; i < 4 * pack; ++i)
          CHECK(l.registerCoord(i) == Coord{int(i / pack % 2 * 8), int(i / pack / 2 * 4 * pack + i % pack)});
      }
}

namespace {
/// PTX ISA, "Strides" and the canonical layouts: the byte where the unit looks for element (row, k) of an operand, from the descriptor
/// alone. `start` is a multiple of 16.
uint64_t read(uint64_t descriptor, uint64_t start, bool across, unsigned row, unsigned k, unsigned bytes) {
  const uint64_t leading = (descriptor >> 16 & 0x3fff) << 4, stride = (descriptor >> 32 & 0x3fff) << 4,
                 mode = descriptor >> 62;
  const unsigned swizzle = mode == 1 ? 128 : mode == 2 ? 64 : mode == 3 ? 32 : 0;
  if (!swizzle) return ~0ull;
  uint64_t linear = start;
  if (!across) { // k is contiguous: 32 bytes of it
    linear += row % 8 * swizzle + row / 8 * stride + k * bytes;
  } else { // rows are contiguous, in patterns `leading` apart
    const unsigned perPattern = swizzle / bytes;
    linear += row / perPattern * leading + row % perPattern * bytes + k % 8 * swizzle + k / 8 * stride;
  }
  return linear ^ ((linear >> 7 & (swizzle / 16 - 1)) << 4);
}

/// Instructions of `n` rows and 32 bytes of k, stepped as codegen does: the start address moves to the first element.
void checkReader(const SharedLayout &l, unsigned bits, unsigned n, const MatrixDescriptor &d) {
  const unsigned bytes = bits / 8, depth = 32 / bytes;
  size_t wrong = 0;
  for (int64_t row = 0; row + n <= l.shape()[0]; row += n)
    for (int64_t k = 0; k < l.shape()[1]; k += depth) {
      const int64_t start = l.offsetOf({int32_t(row), int32_t(k)}) * bytes;
      REQUIRE(start % 16 == 0);
      for (unsigned r = 0; r < n; ++r)
        for (unsigned i = 0; i < depth; ++i)
          wrong += read(d.bits(), uint64_t(start), d.transposed, r, i, bytes) !=
                   uint64_t(l.offsetOf({int32_t(row + r), int32_t(k + i)})) * bytes;
    }
  CHECK(wrong == 0);
}
} // namespace

TEST_CASE("wgmma: matrix descriptors read what is there") {
  unsigned straight = 0, across = 0;
  for (unsigned bits : {8u, 16u, 32u})
    for (int64_t rows : {8, 16, 24, 32, 48, 64, 80, 96, 128, 176, 192, 208, 256, 288, 320, 384, 448, 480, 512})
      for (int64_t depth : {16, 32, 48, 64, 80, 96, 128, 192, 256})
        for (unsigned swizzle : {32u, 64u, 128u}) {
          if (depth * bits / 8 % 32) continue;
          CAPTURE(bits);
          CAPTURE(rows);
          CAPTURE(depth);
          CAPTURE(swizzle);
          const auto plan = planWgmma(64, rows, depth, bits, bits == 8, 4);
          REQUIRE(plan);
          if (auto l = layout::messageLayout({rows, depth}, bits, swizzle)) {
            const auto d = matrixDescriptor(*l, bits);
            REQUIRE(d);
            CHECK_FALSE(d->transposed);
            CHECK(d->swizzle == swizzle);
            checkReader(*l, bits, plan->n, *d);
            ++straight;
          }
          if (auto l = layout::messageLayout({depth, rows}, bits, swizzle)) {
            const SharedLayout seen = l->transposed({1, 0});
            const auto d = matrixDescriptor(seen, bits);
            REQUIRE(d.has_value() == (bits == 16));
            if (!d) continue;
            CHECK(d->transposed);
            CHECK(d->swizzle == swizzle);
            // The widest swizzle is what operands get; a narrower one holds for instructions as well.
            checkReader(seen, bits, plan->n, *d);
            ++across;
          }
        }
  CHECK(straight > 300);
  CHECK(across > 100);
}

// Warpgroups side by side along N start inside a pattern: within it, never across its end.
TEST_CASE("wgmma: groups along N") {
  for (int64_t n : {16, 32, 64, 128, 192, 256, 320})
    for (unsigned warps : {8u, 16u}) {
      const auto plan = planWgmma(64, n, 64, 16, false, warps);
      if (!plan || plan->groupsN == 1) continue;
      CAPTURE(n);
      CAPTURE(warps);
      const SharedLayout seen = layout::messageLayout({64, n}, 16)->transposed({1, 0});
      const auto d = matrixDescriptor(seen, 16);
      REQUIRE(d);
      checkReader(seen, 16, plan->n, *d);
    }
}

TEST_CASE("wgmma: fields of a matrix descriptor") {
  // PTX ISA, "Matrix Descriptor Format": leading offset in bits 16-29, stride in 32-45, in units of 16 bytes; swizzle in 62-63.
  const auto k = matrixDescriptor(*layout::messageLayout({64, 64}, 16), 16);
  REQUIRE(k);
  CHECK(k->bits() == (1ull << 62 | uint64_t(1024 / 16) << 32 | uint64_t(1) << 16));
  const auto across = matrixDescriptor(layout::messageLayout({32, 128}, 16)->transposed({1, 0}), 16);
  REQUIRE(across);
  CHECK(across->bits() == (1ull << 62 | uint64_t(1024 / 16) << 32 | uint64_t(32 * 128 / 16) << 16));
  CHECK((matrixDescriptor(*layout::messageLayout({64, 32}, 16), 16)->bits() >> 62) == 2);
  CHECK((matrixDescriptor(*layout::messageLayout({64, 16}, 16), 16)->bits() >> 62) == 3);
  // Not what the unit reads: no swizzle, other patterns, a third dimension.
  CHECK_FALSE(matrixDescriptor(*layout::messageLayout({64, 64}, 16, 0), 16));
  CHECK_FALSE(matrixDescriptor(SharedLayout::swizzled({64, 64}, {1, 0}, 8, 1, 4), 16));
  CHECK_FALSE(matrixDescriptor(*layout::messageLayout({1, 64, 64}, 16), 16));
}
