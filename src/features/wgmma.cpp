// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "features/wgmma.h"

#include "layout/message_layout.h"

namespace tlx::features {

using layout::Coord;
using layout::InDim;
using layout::TileLayout;

namespace {
constexpr unsigned kWarpsOfGroup = 4;
} // namespace

bool wgmmaWidth(int64_t n, bool integers) {
  return n >= 8 && n <= 256 && n % 8 == 0 && (!integers || n % 16 == 0 || n == 8 || n == 24);
}

std::optional<WgmmaPlan> planWgmma(int64_t tileM, int64_t tileN, int64_t tileK, unsigned operandBits, bool integers,
                                   unsigned warps) {
  if (warps % kWarpsOfGroup || tileM % 64 || operandBits > 32) return std::nullopt;
  WgmmaPlan plan;
  plan.k = 256 / operandBits;
  if (tileK % plan.k) return std::nullopt;
  const auto m = layout::splitExtent(tileM), n = layout::splitExtent(tileN);
  if (!m || !n || m->bits < 6) return std::nullopt;
  // Along M as far as it goes: each group then reads all of B and its own rows of A.
  unsigned groups = warps / kWarpsOfGroup;
  while (groups > 1 && plan.groupsM * 2 <= (1u << (m->bits - 6))) plan.groupsM *= 2, groups /= 2;
  while (groups > 1 && plan.groupsN * 16 <= (1u << n->bits)) plan.groupsN *= 2, groups /= 2;
  if (groups > 1) return std::nullopt;
  // The columns of a group that lie side by side: all of them, or the 2^k part of a repetition. Where they take several instructions, each
  // starts with a swizzle pattern of a B that is contiguous along N (64 columns or the 2^k part: 16-bit types).
  const int64_t side = plan.groupsN == 1 ? tileN : (int64_t(1) << n->bits) / plan.groupsN,
                pattern = std::min<int64_t>(64, side & -side);
  for (int64_t parts = 1; parts <= side / 8; ++parts)
    if (side % parts == 0 && wgmmaWidth(side / parts, integers) && (parts == 1 || side / parts % pattern == 0)) {
      plan.n = unsigned(side / parts);
      return plan;
    }
  return std::nullopt;
}

/// Rows and columns of D's fragment: lanes in groups of four along a row, registers pairs of columns, then 8 rows below, then columns.
TileLayout wgmmaAccumulator(const WgmmaPlan &plan, int64_t tileM, int64_t tileN) {
  const unsigned mBits = layout::splitExtent(tileM)->bits, nBits = layout::splitExtent(tileN)->bits;
  TileLayout::Bases bases;
  auto &registers = bases[unsigned(InDim::Register)], &lanes = bases[unsigned(InDim::Lane)],
       &warps = bases[unsigned(InDim::Warp)];
  const int32_t ownN = (1 << nBits) / int32_t(plan.groupsN), groupM = int32_t(plan.groupsM) * 64;
  registers = {Coord{0, 1}, Coord{8, 0}};
  for (int32_t n = 8; n < ownN; n *= 2) registers.push_back(Coord{0, n});
  for (int32_t m = groupM; m < 1 << mBits; m *= 2) registers.push_back(Coord{m, 0});
  lanes = {Coord{0, 2}, Coord{0, 4}, Coord{1, 0}, Coord{2, 0}, Coord{4, 0}};
  warps = {Coord{16, 0}, Coord{32, 0}};
  for (int32_t m = 64; m < groupM; m *= 2) warps.push_back(Coord{m, 0});
  for (int32_t n = ownN; n < 1 << nBits; n *= 2) warps.push_back(Coord{0, n});
  return TileLayout({tileM, tileN}, bases);
}

/// A in registers: a 32-bit register packs elements along k, the second is 8 rows below, the third and fourth 4 registers further along k.
TileLayout wgmmaOperandA(const WgmmaPlan &plan, int64_t tileM, int64_t tileK, unsigned operandBits) {
  const unsigned mBits = layout::splitExtent(tileM)->bits, kBits = layout::splitExtent(tileK)->bits;
  const int32_t pack = 32 / int32_t(operandBits), groupM = int32_t(plan.groupsM) * 64;
  TileLayout::Bases bases;
  auto &registers = bases[unsigned(InDim::Register)], &lanes = bases[unsigned(InDim::Lane)],
       &warps = bases[unsigned(InDim::Warp)];
  for (int32_t k = 1; k < pack; k *= 2) registers.push_back(Coord{0, k});
  registers.push_back(Coord{8, 0});
  for (int32_t k = 4 * pack; k < 1 << kBits; k *= 2) registers.push_back(Coord{0, k});
  for (int32_t m = groupM; m < 1 << mBits; m *= 2) registers.push_back(Coord{m, 0});
  lanes = {Coord{0, pack}, Coord{0, 2 * pack}, Coord{1, 0}, Coord{2, 0}, Coord{4, 0}};
  warps = {Coord{16, 0}, Coord{32, 0}};
  for (int32_t m = 64; m < groupM; m *= 2) warps.push_back(Coord{m, 0});
  for (unsigned n = 1; n < plan.groupsN; n *= 2) warps.push_back(Coord{0, 0});
  return TileLayout({tileM, tileK}, bases);
}

uint64_t MatrixDescriptor::bits() const {
  const uint64_t mode = swizzle == 128 ? 1 : swizzle == 64 ? 2 : 3;
  return uint64_t(leading >> 4) << 16 | uint64_t(stride >> 4) << 32 | mode << 62;
}

std::optional<MatrixDescriptor> matrixDescriptor(const layout::SharedLayout &layout, unsigned bits) {
  if (layout.rank() != 2) return std::nullopt;
  MatrixDescriptor d;
  auto form = [&](const layout::SharedLayout &l) {
    const auto swizzle = layout::messageSwizzle(l, bits);
    if (!swizzle || !*swizzle) return false;
    d.swizzle = *swizzle;
    d.stride = 8 * *swizzle; // 8 rows of the pattern
    return true;
  };
  // Along k: an instruction's 32 bytes lie inside the pattern's row, there is no other pattern to lead to.
  if (form(layout)) {
    d.leading = 16;
    return d;
  }
  // Across k: the patterns of further columns lie behind all rows of k. 16-bit types only.
  const layout::SharedLayout across = layout.transposed({1, 0});
  if (bits != 16 || !form(across)) return std::nullopt;
  d.transposed = true;
  d.leading = uint32_t(across.boxStride()[1] * bits / 8);
  return d;
}

} // namespace tlx::features
