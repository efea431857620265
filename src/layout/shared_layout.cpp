// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Layouts of tiles in shared memory: invariants, row-major and XOR-swizzled boxes, and the offset of an element.
#include <algorithm>

#include "layout/gf2_p.h"
#include "llvm/ADT/STLExtras.h"

namespace tlx::layout {
using namespace detail;

namespace {
constexpr int64_t kMaxOffset = int64_t(1) << 30; // elements; offsets and XOR parts fit 32 bits

int64_t boxElements(llvm::ArrayRef<int64_t> box) {
  int64_t elements = 1;
  for (int64_t extent : box) elements *= extent;
  return elements;
}

/// Row-major bases of boxes that are the 2^k parts, with the strides of the boxes themselves.
struct RowMajor {
  llvm::SmallVector<int64_t, 4> box, stride;
  std::vector<std::vector<uint32_t>> bases;
  RowMajor(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<unsigned> order)
      : box(shape.size()), stride(shape.size()), bases(shape.size()) {
    assert(order.size() == shape.size());
    int64_t next = 1;
    for (unsigned d : order) {
      const unsigned bits = splitExtent(shape[d])->bits;
      box[d] = int64_t(1) << bits;
      for (unsigned i = 0; i < bits; ++i, next *= 2) bases[d].push_back(uint32_t(next));
    }
    for (unsigned d : order) {
      stride[d] = next;
      next *= splitExtent(shape[d])->odd;
    }
  }
};
} // namespace

SharedLayout::SharedLayout(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> box,
                           std::vector<std::vector<uint32_t>> bases, llvm::ArrayRef<int64_t> boxStride)
    : shape_(shape.begin(), shape.end()), box_(box.begin(), box.end()), boxStride_(boxStride.begin(), boxStride.end()),
      bases_(std::move(bases)) {
  assert(!check(shape, box, bases_, boxStride) && "not a shared layout; SharedLayout::check says why");
}

std::optional<std::string> SharedLayout::check(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> box,
                                               const std::vector<std::vector<uint32_t>> &bases,
                                               llvm::ArrayRef<int64_t> boxStride) {
  const size_t rank = shape.size();
  if (rank > 8) return "a tile has at most 8 dimensions";
  if (box.size() != rank || bases.size() != rank || boxStride.size() != rank)
    return "box, bases and stride need one entry for each of the " + std::to_string(rank) + " dimensions";
  unsigned bits = 0;
  for (size_t d = 0; d < rank; ++d) {
    const std::string where = " in dimension " + std::to_string(d);
    const std::optional<Extent> split = splitExtent(shape[d]);
    if (!split || shape[d] > kMaxOffset)
      return "extent " + std::to_string(shape[d]) + " is not p * 2^k with odd p up to 15";
    if (!isPowerOf2(box[d]) || box[d] > int64_t(1) << split->bits)
      return "a box of " + std::to_string(box[d]) + where + " is not a power of two that divides " +
             std::to_string(shape[d]);
    if (int64_t(1) << bases[d].size() != box[d] || bases[d].size() > 30)
      return std::to_string(bases[d].size()) + " bases for a box of " + std::to_string(box[d]) + where;
    bits += bases[d].size();
  }
  if (bits > 30) return "the box has more than 2^30 elements";
  Span span;
  for (size_t d = 0; d < rank; ++d)
    for (uint32_t basis : bases[d]) {
      if (basis >> bits)
        return "basis " + std::to_string(basis) + " leaves the box of 2^" + std::to_string(bits) + " elements";
      if (span.insert(basis))
        return "the bases are not a bijection of the box: " + std::to_string(basis) + " depends on the others";
    }
  // Boxes one stride after the other, slowest last: each stride has to clear what lies below it.
  llvm::SmallVector<std::pair<int64_t, int64_t>, 4> steps; // (stride, boxes) where there is more than one
  for (size_t d = 0; d < rank; ++d) {
    if (boxStride[d] < 0 || boxStride[d] > kMaxOffset)
      return "stride " + std::to_string(boxStride[d]) + " is out of range";
    if (shape[d] != box[d]) steps.push_back({boxStride[d], shape[d] / box[d]});
  }
  llvm::sort(steps);
  int64_t below = int64_t(1) << bits;
  for (auto [stride, count] : steps) {
    if (stride < below)
      return "boxes overlap: a stride of " + std::to_string(stride) + " over " + std::to_string(below) + " elements";
    if (count > kMaxOffset / stride) return "the layout takes more than 2^30 elements";
    below += stride * (count - 1);
  }
  if (below > kMaxOffset) return "the layout takes more than 2^30 elements";
  return std::nullopt;
}

SharedLayout SharedLayout::rowMajor(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<unsigned> order) {
  RowMajor rows(shape, order);
  return SharedLayout(shape, rows.box, std::move(rows.bases), rows.stride);
}

SharedLayout SharedLayout::swizzled(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<unsigned> order, unsigned vec,
                                    unsigned perPhase, unsigned maxPhase) {
  assert(isPowerOf2(vec) && isPowerOf2(perPhase) && isPowerOf2(maxPhase));
  RowMajor rows(shape, order);
  if (order.size() > 1) {
    // Row bit perPhase·2^i selects column bit vec·2^i. What leaves the row is dropped: a row has no more columns.
    std::vector<uint32_t> &rowBases = rows.bases[order[1]];
    const unsigned first = log2Floor(perPhase), phases = log2Floor(maxPhase);
    for (unsigned i = 0; i < phases && first + i < rowBases.size(); ++i)
      if (int64_t(vec) << i < rows.box[order[0]]) rowBases[first + i] ^= vec << i;
  }
  return SharedLayout(shape, rows.box, std::move(rows.bases), rows.stride);
}

int64_t SharedLayout::elements() const {
  int64_t last = boxElements(box_) - 1;
  for (unsigned d = 0; d < rank(); ++d) last += (shape_[d] / box_[d] - 1) * boxStride_[d];
  return last + 1;
}

int64_t SharedLayout::offsetOf(llvm::ArrayRef<int32_t> coord) const {
  assert(coord.size() == rank());
  uint32_t inside = 0;
  int64_t boxes = 0;
  for (unsigned d = 0; d < rank(); ++d) {
    inside ^= combine(bases_[d], coord[d] % box_[d]);
    boxes += coord[d] / box_[d] * boxStride_[d];
  }
  return inside + boxes;
}

SharedLayout SharedLayout::transposed(llvm::ArrayRef<unsigned> perm) const {
  llvm::SmallVector<int64_t, 4> shape, box, stride;
  std::vector<std::vector<uint32_t>> bases;
  for (unsigned d : perm) {
    shape.push_back(shape_[d]);
    box.push_back(box_[d]);
    stride.push_back(boxStride_[d]);
    bases.push_back(bases_[d]);
  }
  return SharedLayout(shape, box, std::move(bases), stride);
}

namespace {
/// Dimensions first … end - 1 as bits of one row-major index, the lowest first; of the outermost one the boxes that are no bits.
struct Flat {
  std::vector<uint32_t> bits;
  int64_t boxes = 1, stride = 0;
};
std::optional<Flat> flatten(const SharedLayout &l, size_t first, size_t end) {
  Flat f;
  for (size_t d = end; d-- > first;) {
    if (f.boxes > 1 && l.shape()[d] > 1) return std::nullopt; // something lies outside of boxes that are no bits
    f.bits.insert(f.bits.end(), l.bases()[d].begin(), l.bases()[d].end());
    int64_t boxes = l.shape()[d] / l.box()[d], stride = l.boxStride()[d];
    for (; boxes % 2 == 0 && isPowerOf2(stride); boxes /= 2, stride *= 2) f.bits.push_back(uint32_t(stride));
    if (boxes > 1) f.boxes = boxes, f.stride = stride;
  }
  return f;
}
} // namespace

// Extents are matched from the left: where the products of some old and some new ones are equal, these map onto one another.
std::optional<SharedLayout> SharedLayout::reshaped(llvm::ArrayRef<int64_t> shape) const {
  llvm::SmallVector<int64_t, 4> box(shape.size(), 1), stride(shape.size(), 0);
  std::vector<std::vector<uint32_t>> bases(shape.size());
  size_t from = 0, to = 0;
  while (from < rank() || to < shape.size()) {
    const size_t firstFrom = from, firstTo = to;
    int64_t have = from < rank() ? shape_[from++] : 1, want = to < shape.size() ? shape[to++] : 1;
    while (have != want) {
      if (have < want ? from == rank() : to == shape.size()) return std::nullopt;
      if (have < want)
        have *= shape_[from++];
      else
        want *= shape[to++];
    }
    if (from - firstFrom == 1 && to - firstTo == 1) {
      box[firstTo] = box_[firstFrom], stride[firstTo] = boxStride_[firstFrom], bases[firstTo] = bases_[firstFrom];
      continue;
    }
    std::optional<Flat> flat = flatten(*this, firstFrom, from);
    if (!flat) return std::nullopt;
    size_t next = 0;
    for (size_t d = to; d-- > firstTo;) {
      const unsigned k = splitExtent(shape[d])->bits;
      for (unsigned i = 0; i < k && next < flat->bits.size(); ++i) bases[d].push_back(flat->bits[next++]);
      box[d] = int64_t(1) << bases[d].size();
      if (box[d] == shape[d]) continue;
      if (next < flat->bits.size() || shape[d] != box[d] * flat->boxes) return std::nullopt;
      stride[d] = flat->stride, flat->boxes = 1;
    }
  }
  if (check(shape, box, bases, stride)) return std::nullopt;
  return SharedLayout(shape, box, std::move(bases), stride);
}

std::optional<SharedLayout> SharedLayout::reinterpreted(unsigned fromBytes, unsigned toBytes) const {
  if (fromBytes == toBytes) return *this;
  const unsigned inner = rank() - 1;
  const bool grows = toBytes > fromBytes;
  const unsigned ratio = grows ? toBytes / fromBytes : fromBytes / toBytes, bits = log2Floor(ratio);
  llvm::SmallVector<int64_t, 4> shape(shape_), box(box_), stride(boxStride_);
  std::vector<std::vector<uint32_t>> bases = bases_;
  std::vector<uint32_t> &fast = bases[inner];
  if (grows) {
    if (fast.size() < bits) return std::nullopt;
    for (unsigned i = 0; i < bits; ++i)
      if (fast[i] != uint32_t(1) << i) return std::nullopt;
    fast.erase(fast.begin(), fast.begin() + bits);
    shape[inner] /= ratio, box[inner] /= ratio;
  } else {
    shape[inner] *= ratio, box[inner] *= ratio;
  }
  for (unsigned d = 0; d < rank(); ++d) {
    if (grows && stride[d] % ratio && shape[d] != box[d]) return std::nullopt;
    stride[d] = grows ? stride[d] / ratio : stride[d] * ratio;
    for (uint32_t &basis : bases[d]) {
      if (grows && basis % ratio) return std::nullopt;
      basis = grows ? basis / ratio : basis * ratio;
    }
  }
  if (!grows)
    for (unsigned i = bits; i-- > 0;) fast.insert(fast.begin(), uint32_t(1) << i);
  if (check(shape, box, bases, stride)) return std::nullopt;
  return SharedLayout(shape, box, std::move(bases), stride);
}

} // namespace tlx::layout
