// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to src/layout: linear algebra over GF(2) on bit vectors of up to 64 bits, and the packing of coordinates into
// them.
#pragma once
#include <cassert>

#include "layout/layout.h"
#include "llvm/ADT/bit.h"

namespace tlx::layout::detail {

inline bool isPowerOf2(int64_t value) {
  return value > 0 && (value & (value - 1)) == 0;
}
inline unsigned log2Floor(uint64_t value) {
  return 63 - llvm::countl_zero(value);
}

/// The span of the vectors inserted so far, with the combination of inserted vectors that makes each of its elements.
/// Payloads travel with the vectors: the payload of a combination is the XOR of payloads.
class Span {
public:
  /// Adds a vector. If it depends on the earlier ones nothing changes and the XOR of its payload with the payload of
  /// the equal combination comes back (the payload of a kernel element); otherwise nullopt.
  std::optional<uint64_t> insert(uint64_t vector, uint64_t payload = 0) {
    reduce(vector, payload);
    if (!vector) return payload;
    rows_.push_back({vector, payload});
    return std::nullopt;
  }
  bool contains(uint64_t vector) const {
    uint64_t payload = 0;
    reduce(vector, payload);
    return !vector;
  }
  /// The payload of the combination that gives `vector`, or nullopt outside the span.
  std::optional<uint64_t> solve(uint64_t vector) const {
    uint64_t payload = 0;
    reduce(vector, payload);
    if (vector) return std::nullopt;
    return payload;
  }
  unsigned dim() const { return rows_.size(); }

  /// A linear function f with f(inserted vector) = its payload, as the images of `bits` unit vectors. Zero off the
  /// span.
  llvm::SmallVector<uint64_t, 6> function(unsigned bits) const {
    llvm::SmallVector<Row, 16> rows = rows_;
    for (size_t i = rows.size(); i-- > 0;) // each pivot stays in one row only
      for (size_t j = 0; j < rows.size(); ++j)
        if (i != j && (rows[j].vector >> rows[i].pivot() & 1)) {
          rows[j].vector ^= rows[i].vector;
          rows[j].payload ^= rows[i].payload;
        }
    llvm::SmallVector<uint64_t, 6> images(bits, 0);
    for (const Row &row : rows) images[row.pivot()] = row.payload;
    return images;
  }

private:
  struct Row {
    uint64_t vector, payload;
    unsigned pivot() const { return log2Floor(vector); }
  };
  // A row never has the pivot of an earlier row set, so one pass in insertion order reduces completely.
  void reduce(uint64_t &vector, uint64_t &payload) const {
    for (const Row &row : rows_)
      if (vector >> row.pivot() & 1) {
        vector ^= row.vector;
        payload ^= row.payload;
      }
  }
  llvm::SmallVector<Row, 16> rows_;
};

/// XOR of the images of the set bits of `index`.
template <typename Images> uint64_t combine(const Images &images, uint64_t index) {
  uint64_t value = 0;
  for (size_t i = 0; index; ++i, index >>= 1)
    if (index & 1) value ^= images[i];
  return value;
}

/// The 2^k parts of a shape's dimensions side by side in one integer, row-major: the last dimension in the lowest bits.
class BitSpace {
public:
  explicit BitSpace(llvm::ArrayRef<int64_t> shape) : start_(shape.size()), bits_(shape.size()) {
    for (size_t d = shape.size(); d-- > 0;) {
      start_[d] = total_;
      bits_[d] = splitExtent(shape[d])->bits;
      total_ += bits_[d];
    }
  }
  unsigned total() const { return total_; }
  unsigned bits(unsigned d) const { return bits_[d]; }
  uint64_t pack(llvm::ArrayRef<int32_t> coord) const {
    uint64_t flat = 0;
    for (size_t d = 0; d < start_.size(); ++d) flat |= uint64_t(coord[d]) << start_[d];
    return flat;
  }
  Coord unpack(uint64_t flat) const {
    Coord coord(start_.size());
    for (size_t d = 0; d < start_.size(); ++d) coord[d] = flat >> start_[d] & ((uint64_t(1) << bits_[d]) - 1);
    return coord;
  }
  llvm::SmallVector<uint64_t, 8> packAll(llvm::ArrayRef<Coord> coords) const {
    llvm::SmallVector<uint64_t, 8> packed;
    for (const Coord &coord : coords) packed.push_back(pack(coord));
    return packed;
  }

private:
  llvm::SmallVector<unsigned, 4> start_, bits_;
  unsigned total_ = 0;
};

/// Why `shape` is not the shape of a tile, or nothing.
std::optional<std::string> checkShape(llvm::ArrayRef<int64_t> shape);
/// The bases of blocked() for a valid shape; they may still be too many (TileLayout::check).
TileLayout::Bases blockedBases(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<unsigned> sizePerThread,
                               llvm::ArrayRef<unsigned> lanes, llvm::ArrayRef<unsigned> warps,
                               llvm::ArrayRef<unsigned> order);

} // namespace tlx::layout::detail
