// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copies whose lanes write side by side: the source's layout is the inverse of the shared layout, dealt to registers, lanes and warps.
#include "layout/access_p.h"

namespace tlx::layout {
using namespace detail;

std::optional<TileLayout> sideBySide(const SharedLayout &mem, unsigned vector, unsigned lanes, unsigned warps) {
  const BitSpace space(mem.shape());
  Span span; // payload: the coordinate
  for (unsigned d = 0; d < mem.rank(); ++d) {
    if (mem.bases()[d].size() != space.bits(d)) return std::nullopt;
    for (unsigned i = 0; i < space.bits(d); ++i) {
      Coord coord(mem.rank(), 0);
      coord[d] = 1 << i;
      span.insert(mem.bases()[d][i], space.pack(coord));
    }
  }
  const unsigned vectorBits = log2Floor(vector), laneBits = log2Floor(lanes), warpBits = log2Floor(warps);
  if (space.total() < vectorBits + laneBits) return std::nullopt;
  TileLayout::Bases bases;
  unsigned next = 0;
  auto deal = [&](InDim dim, unsigned count) {
    for (; count && next < space.total(); --count, ++next)
      bases[unsigned(dim)].push_back(space.unpack(*span.solve(uint64_t(1) << next)));
    return count;
  };
  deal(InDim::Register, vectorBits);
  deal(InDim::Lane, laneBits);
  for (unsigned left = deal(InDim::Warp, warpBits); left; --left) // copies
    bases[unsigned(InDim::Warp)].push_back(Coord(mem.rank(), 0));
  deal(InDim::Register, space.total());
  return TileLayout(mem.shape(), std::move(bases));
}

bool isSideBySide(const TileLayout &regs, const SharedLayout &mem, unsigned vector) {
  const std::optional<AccessMap> map = accessMap(regs, mem);
  if (!map || map->registers.size() % vector) return false;
  // Bits that lanes and other parts share would XOR, not add: then the lanes of some warp or register are not in order.
  uint32_t laneXor = 0, others = 0;
  for (unsigned i = 0; i < map->laneBases.size(); ++i) {
    const AccessMap::Part &part = map->laneBases[i];
    const int64_t step = int64_t(vector) << i;
    if (part.add + int64_t(part.xorBits) != step) return false;
    laneXor |= part.xorBits;
  }
  for (const AccessMap::Part &part : map->warpBases) {
    others |= part.xorBits;
    if (part.add % vector || part.xorBits % vector) return false;
  }
  for (unsigned r = 0; r < map->registers.size(); ++r) {
    const AccessMap::Part &first = map->registers[r - r % vector], &own = map->registers[r];
    others |= own.xorBits;
    if (first.add % vector || first.xorBits % vector || own.xorBits != first.xorBits ||
        own.add != first.add + r % vector)
      return false;
  }
  return !(laneXor & others);
}

unsigned directVector(const TileLayout &regs, const SharedLayout &mem, unsigned bits, unsigned vec, unsigned widest) {
  for (unsigned width : {128u, 32u})
    if (width <= widest && bits <= width && width / bits <= vec && isSideBySide(regs, mem, width / bits))
      return width / bits;
  return 0;
}

} // namespace tlx::layout
