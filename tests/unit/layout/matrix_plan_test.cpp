// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// matrixPlan by executing its ldmatrix and stmatrix instructions as the PTX ISA describes them.
#include "testing.h"

using namespace tlx::layout;
using namespace tlx::layout::testing;

namespace {
/// Row addresses, in elements, that the 32 lanes supply to one instruction.
std::vector<int64_t> rowAddresses(const MatrixPlan &plan, unsigned instruction, unsigned warp) {
  std::vector<int64_t> rows;
  for (unsigned lane = 0; lane < 32; ++lane) {
    AccessMap::Part at = plan.address.registers[instruction];
    for (unsigned i = 0; i < plan.address.laneBases.size(); ++i)
      if (lane >> i & 1) at.add += plan.address.laneBases[i].add, at.xorBits ^= plan.address.laneBases[i].xorBits;
    for (unsigned i = 0; i < plan.address.warpBases.size(); ++i)
      if (warp >> i & 1) at.add += plan.address.warpBases[i].add, at.xorBits ^= plan.address.warpBases[i].xorBits;
    rows.push_back(at.add + at.xorBits);
  }
  return rows;
}

void checkMatrix(const TileLayout &regs, const SharedLayout &mem, unsigned bits, unsigned count, bool transposed) {
  const auto plan = matrixPlan(regs, mem, bits);
  REQUIRE(plan);
  CHECK(plan->count == count);
  CHECK(plan->transposed == transposed);
  const unsigned pack = 32 / bits;
  CHECK(plan->order.size() * pack == regs.registers());
  CHECK(std::set<unsigned>(plan->order.begin(), plan->order.end()).size() == plan->order.size());
  REQUIRE(plan->address.registers.size() * plan->count == plan->order.size());
  for (unsigned warp = 0; warp < regs.warps(); ++warp)
    for (unsigned i = 0; i < plan->address.registers.size(); ++i) {
      const std::vector<int64_t> rows = rowAddresses(*plan, i, warp);
      for (unsigned m = 0; m < plan->count; ++m)
        for (unsigned lane = 0; lane < 32; ++lane)
          for (unsigned j = 0; j < pack; ++j) {
            // Element j of the register: which row of the matrix and which element of the row.
            const unsigned row = transposed ? 2 * (lane % 4) + j : lane / 4;
            const unsigned column = transposed ? lane / 4 : pack * (lane % 4) + j;
            const int64_t base = rows[8 * m + row];
            REQUIRE(base * bits % 128 == 0);
            const unsigned reg = plan->order[i * plan->count + m] * pack + j;
            REQUIRE(base + column == mem.offsetOf(regs.coordOf(reg, lane, warp)));
          }
    }
  // Bank passes: 8 rows of 16 bytes a matrix.
  unsigned worst = 0;
  for (unsigned i = 0; i < plan->address.registers.size(); ++i) {
    const std::vector<int64_t> rows = rowAddresses(*plan, i, 0);
    unsigned passes = 0;
    for (unsigned m = 0; m < plan->count; ++m) {
      std::map<int64_t, std::set<int64_t>> ofBank;
      for (unsigned r = 0; r < 8; ++r)
        for (int64_t word = rows[8 * m + r] * bits / 32; word < rows[8 * m + r] * bits / 32 + 4; ++word)
          ofBank[word % 32].insert(word);
      size_t most = 0;
      for (auto &[bank, words] : ofBank) most = std::max(most, words.size());
      passes += most;
    }
    worst = std::max(worst, passes);
  }
  CHECK(bankWavefronts(*plan, bits).wavefronts == worst);
}
const U kRows{1, 0}, kColumns{0, 1};
} // namespace

TEST_CASE("ldmatrix of mma operands") {
  // f16 A from row-major memory; B (k x n) from memory with k fastest, or n fastest with .trans.
  for (unsigned maxPhase : {1u, 8u}) {
    checkMatrix(tile({64, 64}, kMmaA16, {4, 1}), SharedLayout::swizzled({64, 64}, kRows, 8, 1, maxPhase), 16, 4, false);
    checkMatrix(tile({64, 64}, kMmaA16, {2, 1, 2}, {2, 0, 1}), SharedLayout::swizzled({64, 64}, kRows, 8, 1, maxPhase),
                16, 4, false);
    checkMatrix(tile({64, 64}, kMmaB16, {1, 2}), SharedLayout::swizzled({64, 64}, kColumns, 8, 1, maxPhase), 16, 4,
                false);
    checkMatrix(tile({64, 64}, kMmaB16, {1, 2}), SharedLayout::swizzled({64, 64}, kRows, 8, 1, maxPhase), 16, 4, true);
    checkMatrix(tile({64, 64}, kMmaA16, {4, 1}), SharedLayout::swizzled({64, 64}, kColumns, 8, 1, maxPhase), 16, 4,
                true);
    checkMatrix(tile({64, 64}, kMmaAcc, {4, 1}), SharedLayout::swizzled({64, 64}, kRows, 8, 1, maxPhase), 16, 4, false);
  }
  // 8-bit and 32-bit elements, plain only.
  checkMatrix(tile({64, 128}, kMmaA8, {4, 1}), SharedLayout::swizzled({64, 128}, kRows, 16, 1, 8), 8, 4, false);
  checkMatrix(tile({64, 32}, kMmaA32, {4, 1}), SharedLayout::swizzled({64, 32}, kRows, 4, 1, 8), 32, 4, false);
  checkMatrix(tile({32, 64}, kMmaB32, {1, 1}), SharedLayout::swizzled({32, 64}, kColumns, 4, 1, 8), 32, 4, false);
  CHECK(!matrixPlan(tile({64, 128}, kMmaA8, {4, 1}), SharedLayout::rowMajor({64, 128}, kColumns), 8));
  CHECK(!matrixPlan(tile({64, 32}, kMmaA32, {4, 1}), SharedLayout::rowMajor({64, 32}, kColumns), 32));
}

TEST_CASE("ldmatrix of small and odd tiles") {
  checkMatrix(tile({16, 8}, kMmaAcc, {1, 1}), SharedLayout::rowMajor({16, 8}, kRows), 16, 2, false);
  checkMatrix(tile({8, 8}, {{{0, 1}}, {{0, 2}, {0, 4}, {1, 0}, {2, 0}, {4, 0}}, {8, 8}}, {1, 1}),
              SharedLayout::rowMajor({8, 8}, kRows), 16, 1, false);
  checkMatrix(tile({192, 80}, kMmaA16, {4, 1}), SharedLayout::rowMajor({192, 80}, kRows), 16, 4, false);
  checkMatrix(tile({80, 192}, kMmaB16, {1, 4}), SharedLayout::swizzled({80, 192}, kRows, 8, 1, 8), 16, 4, true);
  checkMatrix(tile({96, 176}, kMmaAcc, {2, 1}), SharedLayout::rowMajor({96, 176}, kRows), 16, 4, false);
  checkMatrix(tile({16, 64}, kMmaA16, {4, 1}), SharedLayout::rowMajor({16, 64}, kRows), 16, 4,
              false); // copies in warps
  // Several boxes: 64-column boxes of a 128-column tile, the box index in a register bit or a warp bit.
  const SharedLayout boxes({64, 128}, {64, 64}, SharedLayout::swizzled({64, 64}, kRows, 8, 1, 8).bases(), {0, 4096});
  checkMatrix(tile({64, 128}, kMmaA16, {4, 1}), boxes, 16, 4, false);
  checkMatrix(tile({64, 128}, kMmaB16, {1, 4}), boxes, 16, 4, true);
}

TEST_CASE("where ldmatrix does not apply") {
  CHECK(!matrixPlan(blocked({64, 64}, {1, 8}, {4, 8}, {4, 1}, kRows), SharedLayout::rowMajor({64, 64}, kRows), 16));
  CHECK(!matrixPlan(tile({64, 64}, kMfma16, {2, 2}), SharedLayout::rowMajor({64, 64}, kColumns), 16)); // 64 lanes
  CHECK(!matrixPlan(tile({64, 64}, kMmaAcc, {4, 1}), SharedLayout::rowMajor({64, 64}, kRows), 64));
  // A swizzle finer than 16 bytes tears rows.
  CHECK(!matrixPlan(tile({64, 64}, kMmaA16, {4, 1}), SharedLayout::swizzled({64, 64}, kRows, 4, 1, 8), 16));
  // Boxes that start off 16 bytes.
  const SharedLayout off({64, 128}, {64, 64}, SharedLayout::rowMajor({64, 64}, kRows).bases(), {0, 4096 + 4});
  CHECK(!matrixPlan(tile({64, 128}, kMmaA16, {4, 1}), off, 16));
}

TEST_CASE("a 128-byte swizzle frees ldmatrix of conflicts") {
  const TileLayout a = tile({64, 64}, kMmaA16, {4, 1});
  const BankReport plain = bankWavefronts(*matrixPlan(a, SharedLayout::rowMajor({64, 64}, kRows), 16), 16);
  const BankReport swizzle = bankWavefronts(*matrixPlan(a, SharedLayout::swizzled({64, 64}, kRows, 8, 1, 8), 16), 16);
  CHECK(plain.wavefronts == 32);
  CHECK(plain.minimum == 4);
  CHECK(swizzle.wavefronts == 4);
  CHECK(swizzle.minimum == 4);
}
