// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The distribution of a tile over registers and threads: its invariants, the element of a register, and what is
// replicated.
#include "layout/gf2_p.h"

namespace tlx::layout {
using namespace detail;

namespace {
// Upper bounds that any target stays far below. They keep every shift and product of this library inside 32 bits, also
// for literals that come from outside.
constexpr unsigned kMaxBits[kInDims] = {20, 6, 8, 8};
constexpr const char *kInDimNames[kInDims] = {"register", "lane", "warp", "cta"};
constexpr int64_t kMaxElements = int64_t(1) << 30;
constexpr size_t kMaxRank = 8;
} // namespace

std::optional<Extent> splitExtent(int64_t extent) {
  if (extent <= 0) return std::nullopt;
  Extent split;
  split.bits = llvm::countr_zero(uint64_t(extent));
  const int64_t odd = extent >> split.bits;
  if (odd > 15) return std::nullopt;
  split.odd = unsigned(odd);
  return split;
}

TileLayout::TileLayout(llvm::ArrayRef<int64_t> shape, Bases bases)
    : shape_(shape.begin(), shape.end()), bases_(std::move(bases)) {
  assert(!check(shape, bases_) && "not a layout; TileLayout::check says why");
}

std::optional<std::string> detail::checkShape(llvm::ArrayRef<int64_t> shape) {
  if (shape.size() > kMaxRank) return "a tile has at most " + std::to_string(kMaxRank) + " dimensions";
  int64_t elements = 1;
  for (int64_t extent : shape) {
    if (!splitExtent(extent)) return "extent " + std::to_string(extent) + " is not p * 2^k with odd p up to 15";
    if (extent > kMaxElements / elements) return "the tile has more than 2^30 elements";
    elements *= extent;
  }
  return std::nullopt;
}

std::optional<std::string> TileLayout::check(llvm::ArrayRef<int64_t> shape, const Bases &bases) {
  if (auto why = checkShape(shape)) return why;
  int64_t repetitions = 1;
  for (int64_t extent : shape) repetitions *= splitExtent(extent)->odd;
  const BitSpace space(shape);
  Span span;
  for (unsigned dim = 0; dim < kInDims; ++dim) {
    const std::string name = kInDimNames[dim];
    if (bases[dim].size() > kMaxBits[dim])
      return name + " has " + std::to_string(bases[dim].size()) + " bases; at most " + std::to_string(kMaxBits[dim]) +
             " are possible";
    for (size_t i = 0; i < bases[dim].size(); ++i) {
      const Coord &basis = bases[dim][i];
      const std::string where = name + " basis " + std::to_string(i);
      if (basis.size() != shape.size())
        return where + " has " + std::to_string(basis.size()) + " coordinates, the tile has " +
               std::to_string(shape.size()) + " dimensions";
      for (size_t d = 0; d < shape.size(); ++d)
        if (basis[d] < 0 || basis[d] >= int64_t(1) << space.bits(d))
          return where + " leaves the tile: " + std::to_string(basis[d]) + " in dimension " + std::to_string(d) +
                 ", whose power-of-two part is " + std::to_string(int64_t(1) << space.bits(d));
      span.insert(space.pack(basis));
    }
  }
  if (span.dim() != space.total())
    return "the bases reach only 2^" + std::to_string(span.dim()) + " of the 2^" + std::to_string(space.total()) +
           " elements of a repetition";
  if (repetitions << bases[unsigned(InDim::Register)].size() > kMaxElements)
    return "a thread would have more than 2^30 registers";
  return std::nullopt;
}

unsigned TileLayout::repetitions() const {
  unsigned count = 1;
  for (unsigned d = 0; d < rank(); ++d) count *= extent(d).odd;
  return count;
}

unsigned TileLayout::registers() const {
  return repetitions() << bits(InDim::Register);
}

Coord TileLayout::coordOf(unsigned reg, unsigned lane, unsigned warp, unsigned cta) const {
  assert(reg < registers() && lane < lanes() && warp < warps() && cta < 1u << bits(InDim::Cta));
  Coord coord(rank(), 0);
  const unsigned index[kInDims] = {reg & ((1u << bits(InDim::Register)) - 1), lane, warp, cta};
  for (unsigned dim = 0; dim < kInDims; ++dim)
    for (unsigned i = 0; index[dim] >> i; ++i)
      if (index[dim] >> i & 1)
        for (unsigned d = 0; d < rank(); ++d) coord[d] ^= bases_[dim][i][d];
  unsigned rep = reg >> bits(InDim::Register);
  for (unsigned d = rank(); d-- > 0;) {
    const Extent split = extent(d);
    coord[d] += (rep % split.odd) << split.bits;
    rep /= split.odd;
  }
  return coord;
}

unsigned TileLayout::freeMask(InDim dim) const {
  unsigned mask = 0;
  for (unsigned i = 0; i < bits(dim); ++i) {
    bool zero = true;
    for (int32_t c : bases(dim)[i]) zero &= c == 0;
    mask |= unsigned(zero) << i;
  }
  return mask;
}

unsigned TileLayout::redundantMask(InDim dim) const {
  const BitSpace space(shape_);
  Span span;
  for (InDim before : kAllInDims) {
    unsigned mask = 0;
    for (unsigned i = 0; i < bits(before); ++i)
      if (span.insert(space.pack(bases(before)[i]))) mask |= 1u << i;
    if (before == dim) return mask;
  }
  return 0;
}

unsigned contiguousRegisters(const TileLayout &layout, unsigned dim, unsigned limit) {
  // Registers 0 … v-1 step through the low bits of `dim` and nothing else touches those bits: then each group of v
  // registers starts at a multiple of v, in each thread.
  const auto stepsAlone = [&](unsigned bit) {
    for (InDim in : kAllInDims)
      for (unsigned i = 0; i < layout.bits(in); ++i) {
        const Coord &basis = layout.bases(in)[i];
        if (in != InDim::Register || i != bit) {
          if (basis[dim] >> bit & 1) return false;
          continue;
        }
        for (unsigned d = 0; d < layout.rank(); ++d)
          if (basis[d] != (d == dim ? 1 << bit : 0)) return false;
      }
    return true;
  };
  unsigned bit = 0;
  while (bit < layout.bits(InDim::Register) && bit < layout.extent(dim).bits && (2u << bit) <= limit && stepsAlone(bit))
    ++bit;
  return 1u << bit;
}

} // namespace tlx::layout
