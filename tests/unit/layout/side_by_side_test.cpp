// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Layouts of copies whose lanes write side by side, element by element against offsetOf.
#include "testing.h"

using namespace tlx::layout;

namespace {
/// Whether every warp's lanes write 64 · vector consecutive elements, from the definition.
bool sideBySideByHand(const TileLayout &regs, const SharedLayout &mem, unsigned vector) {
  for (unsigned w = 0; w < regs.warps(); ++w)
    for (unsigned r = 0; r < regs.registers(); r += vector) {
      const int64_t start = mem.offsetOf(regs.coordOf(r, 0, w));
      if (start % vector) return false;
      for (unsigned l = 0; l < regs.lanes(); ++l)
        for (unsigned j = 0; j < vector; ++j)
          if (mem.offsetOf(regs.coordOf(r + j, l, w)) != start + l * vector + j) return false;
    }
  return true;
}
} // namespace

TEST_CASE("side by side: the inverse of a swizzle, for tiles of every form") {
  for (auto [m, n] :
       {std::pair<int64_t, int64_t>{128, 64}, {64, 32}, {96, 64}, {64, 176}, {32, 16}, {256, 64}, {16, 16}})
    for (unsigned bits : {8u, 16u, 32u})
      for (unsigned warps : {1u, 4u, 8u})
        for (unsigned fastest : {0u, 1u})
          for (unsigned width : {128u, 32u}) {
            CAPTURE(m);
            CAPTURE(n);
            CAPTURE(bits);
            CAPTURE(warps);
            const unsigned vector = width / bits;
            // Read down the other dimension: what needs a swizzle.
            TileLayout reader = defaultBlocked({m, n}, 8, {1 - fastest, fastest}, 64, warps);
            SharedLayout mem = chooseSwizzle({m, n}, {&reader}, bits, {64}, {fastest, vector});
            for (unsigned i = 0; (1u << i) < vector && i < mem.bases()[fastest].size(); ++i)
              CHECK(mem.bases()[fastest][i] == 1u << i);
            auto regs = sideBySide(mem, vector, 64, warps);
            const int64_t whole = (m & -m) * (n & -n);
            REQUIRE(regs.has_value() == (whole >= 64 * vector));
            if (!regs) continue;
            CHECK(sideBySideByHand(*regs, mem, vector));
            CHECK(isSideBySide(*regs, mem, vector));
            CHECK(contiguousRegisters(*regs, fastest, vector) == std::min<int64_t>(vector, fastest ? n & -n : m & -m));
            CHECK(directVector(*regs, mem, bits, vector, 128) == vector);
            CHECK(directVector(*regs, mem, bits, vector, width / 2) <= width / 2 / bits);
          }
}

TEST_CASE("side by side: layouts that are not") {
  SharedLayout rows = SharedLayout::rowMajor({64, 64}, {1, 0});
  TileLayout blocked = defaultBlocked({64, 64}, 8, {1, 0}, 64, 4);
  CHECK(isSideBySide(blocked, rows, 8));
  CHECK(sideBySideByHand(blocked, rows, 8));
  CHECK(directVector(blocked, rows, 16, 8, 128) == 8);
  CHECK(directVector(blocked, rows, 16, 4, 128) ==
        0); // only half of it is contiguous in global memory, and 4 bytes are not this layout
  CHECK(directVector(blocked, rows, 16, 8, 0) == 0);
  // The same tile in a swizzled ring: lanes of a row trade places.
  SharedLayout swizzled = SharedLayout::swizzled({64, 64}, {1, 0}, 8, 1, 8);
  CHECK_FALSE(isSideBySide(blocked, swizzled, 8));
  CHECK_FALSE(sideBySideByHand(blocked, swizzled, 8));
  CHECK(isSideBySide(*sideBySide(swizzled, 8, 64, 4), swizzled, 8));
  // Fewer elements than the lanes move: no copy.
  CHECK_FALSE(sideBySide(SharedLayout::rowMajor({8, 8}, {1, 0}), 8, 64, 1).has_value());
  TileLayout small = defaultBlocked({8, 8}, 8, {1, 0}, 64, 1);
  CHECK_FALSE(isSideBySide(small, SharedLayout::rowMajor({8, 8}, {1, 0}), 8));
  // More warps than the tile has: the others hold copies, and their lanes are in order too.
  auto copies = sideBySide(SharedLayout::rowMajor({32, 16}, {1, 0}), 8, 64, 4);
  REQUIRE(copies);
  CHECK(copies->redundantMask(InDim::Warp) == 3);
}
