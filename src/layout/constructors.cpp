// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Constructors of tile layouts: blocked, instruction units tiled over a tile (MMA accumulators and operands), and what
// the shape operations (expand, reduce, broadcast, transpose, reshape, join, split) make of a layout.
#include "layout/gf2_p.h"
#include "llvm/ADT/STLExtras.h"

namespace tlx::layout {
using namespace detail;
using Bases = TileLayout::Bases;

namespace {
std::vector<Coord> &of(Bases &bases, InDim dim) {
  return bases[unsigned(dim)];
}

/// Hands out the coordinate bits of a tile from low to high, dimension by dimension.
class BitDealer {
public:
  explicit BitDealer(llvm::ArrayRef<int64_t> shape) : rank_(shape.size()) {
    for (int64_t extent : shape) left_.push_back(splitExtent(extent)->bits);
    next_.assign(rank_, 0);
  }
  bool empty(unsigned d) const { return next_[d] == left_[d]; }
  /// The basis of the next bit of dimension d; zero (a copy) past the tile and for a dimension that the tile lacks.
  Coord take(unsigned d) {
    Coord basis(rank_, 0);
    if (d < rank_ && !empty(d)) basis[d] = 1 << next_[d]++;
    return basis;
  }
  void skip(unsigned d, unsigned count) { next_[d] += count; }
  unsigned bits(unsigned d) const { return left_[d]; }

private:
  size_t rank_;
  llvm::SmallVector<unsigned, 4> left_, next_;
};

void dealRest(BitDealer &dealer, std::vector<Coord> &registers, llvm::ArrayRef<unsigned> order) {
  for (unsigned d : order)
    while (!dealer.empty(d)) registers.push_back(dealer.take(d));
}

Coord without(const Coord &coord, unsigned axis) {
  Coord rest = coord;
  rest.erase(rest.begin() + axis);
  return rest;
}

/// Applies `change` to each basis.
template <typename Change> Bases mapBases(const TileLayout &layout, Change change) {
  Bases bases;
  for (InDim dim : kAllInDims)
    for (const Coord &basis : layout.bases(dim)) of(bases, dim).push_back(change(basis));
  return bases;
}
} // namespace

TileLayout::Bases detail::blockedBases(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<unsigned> sizePerThread,
                                       llvm::ArrayRef<unsigned> lanes, llvm::ArrayRef<unsigned> warps,
                                       llvm::ArrayRef<unsigned> order) {
  assert(sizePerThread.size() == shape.size() && lanes.size() == shape.size() && warps.size() == shape.size() &&
         order.size() == shape.size());
  BitDealer dealer(shape);
  Bases bases;
  // A register bit past the tile would be a second copy in the same thread, which nobody wants: it is left out. A
  // thread bit past the tile has to exist, as a zero basis.
  for (unsigned d : order)
    for (unsigned n = sizePerThread[d]; n > 1 && !dealer.empty(d); n /= 2)
      of(bases, InDim::Register).push_back(dealer.take(d));
  for (unsigned d : order)
    for (unsigned n = lanes[d]; n > 1; n /= 2) of(bases, InDim::Lane).push_back(dealer.take(d));
  for (unsigned d : order)
    for (unsigned n = warps[d]; n > 1; n /= 2) of(bases, InDim::Warp).push_back(dealer.take(d));
  dealRest(dealer, of(bases, InDim::Register), order);
  return bases;
}

TileLayout blocked(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<unsigned> sizePerThread,
                   llvm::ArrayRef<unsigned> lanes, llvm::ArrayRef<unsigned> warps, llvm::ArrayRef<unsigned> order) {
  return TileLayout(shape, blockedBases(shape, sizePerThread, lanes, warps, order));
}

TileLayout defaultBlocked(llvm::ArrayRef<int64_t> shape, unsigned perThread, llvm::ArrayRef<unsigned> order,
                          unsigned laneCount, unsigned warpCount) {
  const size_t rank = shape.size();
  llvm::SmallVector<unsigned, 4> left, size(rank, 1);
  for (int64_t extent : shape) left.push_back(1u << splitExtent(extent)->bits);
  auto spread = [&](unsigned count) {
    llvm::SmallVector<unsigned, 4> parts(rank, 1);
    for (unsigned d : order) {
      parts[d] = std::min(count, left[d]);
      left[d] /= parts[d];
      count /= parts[d];
    }
    if (rank > 0) parts[order.back()] *= count; // what the tile cannot use wraps
    return parts;
  };
  if (rank == 0) { // a scalar: all threads hold it
    Bases bases;
    of(bases, InDim::Lane).assign(log2Floor(laneCount), Coord());
    of(bases, InDim::Warp).assign(log2Floor(warpCount), Coord());
    return TileLayout(shape, std::move(bases));
  }
  size[order.front()] = std::min(perThread, left[order.front()]);
  left[order.front()] /= size[order.front()];
  const llvm::SmallVector<unsigned, 4> lanes = spread(laneCount), warps = spread(warpCount);
  return blocked(shape, size, lanes, warps, order);
}

TileLayout tileUnit(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<Coord> unitRegister, llvm::ArrayRef<Coord> unitLane,
                    llvm::ArrayRef<int64_t> unitShape, llvm::ArrayRef<unsigned> warpsPerDim,
                    llvm::ArrayRef<unsigned> warpOrder, llvm::ArrayRef<unsigned> registerOrder) {
  assert(unitShape.size() == shape.size() && warpsPerDim.size() >= shape.size() &&
         warpOrder.size() == warpsPerDim.size() && registerOrder.size() == shape.size());
  BitDealer dealer(shape);
  for (unsigned d = 0; d < shape.size(); ++d) {
    if (!isPowerOf2(unitShape[d]) || log2Floor(unitShape[d]) > dealer.bits(d)) return TileLayout();
    dealer.skip(d, log2Floor(unitShape[d]));
  }
  Bases bases;
  of(bases, InDim::Register).assign(unitRegister.begin(), unitRegister.end());
  of(bases, InDim::Lane).assign(unitLane.begin(), unitLane.end());
  for (unsigned d : warpOrder)
    for (unsigned n = warpsPerDim[d]; n > 1; n /= 2) of(bases, InDim::Warp).push_back(dealer.take(d));
  dealRest(dealer, of(bases, InDim::Register), registerOrder);
  return TileLayout(shape, std::move(bases));
}

TileLayout expandDims(const TileLayout &layout, unsigned axis) {
  llvm::SmallVector<int64_t, 4> shape(layout.shape());
  shape.insert(shape.begin() + axis, 1);
  return TileLayout(shape, mapBases(layout, [&](Coord basis) {
                      basis.insert(basis.begin() + axis, 0);
                      return basis;
                    }));
}

TileLayout slice(const TileLayout &layout, unsigned axis) {
  llvm::SmallVector<int64_t, 4> shape(layout.shape());
  shape.erase(shape.begin() + axis);
  Bases bases = mapBases(layout, [&](const Coord &basis) { return without(basis, axis); });
  // Register bits that only the removed dimension told apart go away. Ones that were copies before stay, so that slice
  // undoes expandDims exactly.
  const unsigned before = layout.redundantMask(InDim::Register);
  const BitSpace space(shape);
  Span span;
  std::vector<Coord> kept;
  for (unsigned i = 0; i < layout.bits(InDim::Register); ++i) {
    Coord &basis = of(bases, InDim::Register)[i];
    const bool copy = span.insert(space.pack(basis)).has_value();
    if (!copy || (before >> i & 1)) kept.push_back(std::move(basis));
  }
  of(bases, InDim::Register) = std::move(kept);
  return TileLayout(shape, std::move(bases));
}

TileLayout broadcastTo(const TileLayout &layout, llvm::ArrayRef<int64_t> shape) {
  assert(shape.size() == layout.rank());
  Bases bases = layout.allBases();
  for (unsigned d = shape.size(); d-- > 0;) {
    if (layout.shape()[d] == shape[d]) continue;
    assert(layout.shape()[d] == 1 && "only a dimension of extent 1 can grow");
    for (unsigned i = 0; i < splitExtent(shape[d])->bits; ++i) {
      Coord basis(shape.size(), 0);
      basis[d] = 1 << i;
      of(bases, InDim::Register).push_back(std::move(basis));
    }
  }
  return TileLayout(shape, std::move(bases));
}

TileLayout transpose(const TileLayout &layout, llvm::ArrayRef<unsigned> perm) {
  llvm::SmallVector<int64_t, 4> shape;
  for (unsigned d : perm) shape.push_back(layout.shape()[d]);
  return TileLayout(shape, mapBases(layout, [&](const Coord &basis) {
                      Coord moved;
                      for (unsigned d : perm) moved.push_back(basis[d]);
                      return moved;
                    }));
}

std::optional<TileLayout> reshape(const TileLayout &layout, llvm::ArrayRef<int64_t> shape) {
  // The row-major index of an element has, from the slowest digit down, the digits p0, bits of k0, p1, bits of k1, …
  // If both shapes have the same digits (neighbouring odd factors multiply), the index bits keep their meaning and so
  // do the repetition numbers. Otherwise an odd factor would cross bits, which is no longer linear.
  auto digits = [](llvm::ArrayRef<int64_t> extents) {
    llvm::SmallVector<std::pair<int64_t, unsigned>, 4> runs; // (odd factor, bits below it)
    for (int64_t extent : extents) {
      const std::optional<Extent> split = splitExtent(extent);
      if (!split) return decltype(runs)();
      if (runs.empty())
        runs.push_back({split->odd, split->bits});
      else if (split->odd == 1)
        runs.back().second += split->bits;
      else if (runs.back().second == 0)
        runs.back() = {runs.back().first * split->odd, split->bits};
      else
        runs.push_back({split->odd, split->bits});
    }
    if (runs.empty()) runs.push_back({1, 0});
    return runs;
  };
  const auto from = digits(layout.shape()), to = digits(shape);
  if (to.empty() || from != to) return std::nullopt;
  const BitSpace fromSpace(layout.shape()), toSpace(shape);
  return TileLayout(shape, mapBases(layout, [&](const Coord &basis) { return toSpace.unpack(fromSpace.pack(basis)); }));
}

TileLayout join(const TileLayout &layout) {
  llvm::SmallVector<int64_t, 4> shape(layout.shape());
  shape.push_back(2);
  Bases bases = mapBases(layout, [](Coord basis) {
    basis.push_back(0);
    return basis;
  });
  Coord fastest(shape.size(), 0);
  fastest.back() = 1;
  of(bases, InDim::Register).insert(of(bases, InDim::Register).begin(), fastest);
  return TileLayout(shape, std::move(bases));
}

std::optional<TileLayout> split(const TileLayout &layout) {
  if (layout.rank() == 0 || layout.shape().back() != 2) return std::nullopt;
  const unsigned axis = layout.rank() - 1;
  unsigned users = 0, registerBit = 0;
  for (InDim dim : kAllInDims)
    for (unsigned i = 0; i < layout.bits(dim); ++i)
      if (layout.bases(dim)[i][axis]) {
        const Coord rest = without(layout.bases(dim)[i], axis);
        if (dim != InDim::Register || llvm::any_of(rest, [](int32_t c) { return c != 0; })) return std::nullopt;
        registerBit = i;
        ++users;
      }
  if (users != 1) return std::nullopt;
  Bases bases = mapBases(layout, [&](const Coord &basis) { return without(basis, axis); });
  of(bases, InDim::Register).erase(of(bases, InDim::Register).begin() + registerBit);
  return TileLayout(layout.shape().drop_back(), std::move(bases));
}

} // namespace tlx::layout
