// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "layout/message_layout.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

namespace tlx::layout {

namespace {
constexpr unsigned kSwizzles[] = {128, 64, 32, 0};
constexpr int64_t kMaxBox = 256, kMessageAlign = 128; // elements, bytes

/// Columns of a message without a pattern: all, or equal parts that start where a message may; 0 if there are none.
int64_t plainColumns(int64_t columns, int64_t bytes) {
  if (columns <= kMaxBox) return columns;
  for (int64_t part = kMaxBox; part > 0; --part)
    if (columns % part == 0 && part * bytes % kMessageAlign == 0) return part;
  return 0;
}
} // namespace

std::optional<SharedLayout> messageLayout(llvm::ArrayRef<int64_t> shape, unsigned bits, unsigned swizzle) {
  const unsigned rank = shape.size(), inner = rank - 1, bytes = bits / 8;
  if (rank == 0 || rank > 5 || bytes == 0) return std::nullopt;
  const Extent columns = *splitExtent(shape[inner]);
  int64_t width = int64_t(1) << columns.bits; // elements of a box along the inner dimension
  if (swizzle) {
    if (width * bytes < swizzle) return std::nullopt;
    width = swizzle / bytes;
  } else {
    // Without a pattern the tile is plainly row-major: a row is one message or several.
    if (!plainColumns(shape[inner], bytes)) return std::nullopt;
  }
  if ((swizzle ? width : shape[inner]) * bytes % 16) return std::nullopt;
  const int64_t pitch = swizzle ? width : shape[inner]; // elements from row to row
  int64_t rows = 1;
  for (int64_t e : shape.drop_back()) rows *= e;
  // The pattern repeats every 8 · swizzle bytes; columns and tiles of a ring start with it.
  const int64_t columnBytes = rows * pitch * bytes;
  if (swizzle && columnBytes % swizzleAlignment(swizzle)) return std::nullopt;

  llvm::SmallVector<int64_t, 5> box(rank), stride(rank);
  std::vector<std::vector<uint32_t>> bases(rank);
  // Bits of the row number that permute: those that reach address bits 7 and up, as far as the pattern goes.
  auto permuted = [&](int64_t offset) -> uint32_t {
    const int64_t at = offset * bytes;
    unsigned mask = swizzle / 16 ? swizzle / 16 - 1 : 0; // 16-byte units of a row: 7, 3, 1
    return uint32_t(((at >> 7) & mask) * 16 / bytes);
  };
  int64_t next = pitch;
  bool odd = !swizzle &&
             columns.odd > 1; // below an odd factor, bits are no bits of the offset: slower dimensions count boxes of 1
  for (unsigned d = rank; d-- > 0;) {
    const Extent e = *splitExtent(shape[d]);
    if (d == inner) {
      box[d] = width;
      for (int64_t i = 1; i < width; i *= 2) bases[d].push_back(uint32_t(i));
      stride[d] = swizzle ? rows * width : width;
      continue;
    }
    box[d] = odd ? 1 : int64_t(1) << e.bits;
    for (unsigned i = 0; i < e.bits && !odd; ++i) {
      const int64_t offset = next << i;
      bases[d].push_back(uint32_t(offset) ^ permuted(offset));
    }
    stride[d] = next * box[d];
    next *= shape[d];
    // A repetition whose stride still permutes is no sum any more.
    if (shape[d] > box[d] && permuted(stride[d])) return std::nullopt;
    odd = odd || e.odd > 1;
  }
  if (SharedLayout::check(shape, box, bases, stride)) return std::nullopt;
  return SharedLayout(shape, box, std::move(bases), stride);
}

std::optional<SharedLayout> messageLayout(llvm::ArrayRef<int64_t> shape, unsigned bits) {
  for (unsigned swizzle : kSwizzles)
    if (auto l = messageLayout(shape, bits, swizzle)) return l;
  return std::nullopt;
}

std::string messageProblem(llvm::ArrayRef<int64_t> shape, unsigned bits) {
  if (messageLayout(shape, bits)) return "";
  const int64_t columns = shape.empty() ? 0 : shape.back(), bytes = bits / 8;
  if (columns * bytes % 16)
    return llvm::formatv("its rows have {0} bytes, which is no multiple of 16; make the last extent a multiple of {1}",
                         columns * bytes, 16 / bytes);
  return llvm::formatv(
      "its rows of {0} elements are more than the {1} of a message, and have no equal parts of whole {2} "
      "bytes; make the last extent a power of two, or the others a multiple of 8",
      columns, kMaxBox, kMessageAlign);
}

std::optional<unsigned> messageSwizzle(const SharedLayout &layout, unsigned bits) {
  const unsigned inner = layout.rank() - 1;
  for (unsigned swizzle : kSwizzles) {
    const std::optional<SharedLayout> candidate = messageLayout(layout.shape(), bits, swizzle);
    if (!candidate || candidate->box() != layout.box() || candidate->bases() != layout.bases()) continue;
    bool same = true;
    for (unsigned d = 0; d < layout.rank(); ++d) {
      const int64_t mine = layout.boxStride()[d], theirs = candidate->boxStride()[d];
      same = same && (mine == theirs || layout.shape()[d] == layout.box()[d] ||
                      (d == inner && swizzle && mine > theirs && mine * bits / 8 % swizzleAlignment(swizzle) == 0));
    }
    if (same) return swizzle;
  }
  return std::nullopt;
}

std::optional<SharedLayout> messageSlice(const SharedLayout &layout, llvm::ArrayRef<int64_t> offsets,
                                         llvm::ArrayRef<int64_t> shape, unsigned bits) {
  const auto swizzle = messageSwizzle(layout, bits);
  if (!swizzle) return std::nullopt;
  std::optional<SharedLayout> part = messageLayout(shape, bits, *swizzle);
  if (!part) return std::nullopt;
  const unsigned rank = layout.rank(), inner = rank - 1;
  if (shape[inner] > part->box()[inner]) { // columns of boxes stay as far apart as they are
    llvm::SmallVector<int64_t, 5> stride(part->boxStride());
    stride[inner] = layout.boxStride()[inner];
    part = SharedLayout(shape, part->box(), part->bases(), stride);
  }
  const Coord start(offsets.begin(), offsets.end());
  const int64_t first = layout.offsetOf(start);
  if (first * bits / 8 % swizzleAlignment(*swizzle)) return std::nullopt;
  Coord at(rank, 0), from(start);
  for (;;) {
    if (layout.offsetOf(from) - first != part->offsetOf(at)) return std::nullopt;
    unsigned d = rank;
    while (d-- > 0) {
      ++at[d], ++from[d];
      if (at[d] < shape[d]) break;
      at[d] = 0, from[d] = start[d];
    }
    if (d == ~0u) return part;
  }
}

std::optional<Messages> messagesOf(const SharedLayout &layout, unsigned bits) {
  llvm::ArrayRef<int64_t> shape = layout.shape();
  const unsigned rank = shape.size();
  if (const auto form = messageSwizzle(layout, bits)) {
    const unsigned swizzle = *form;
    Messages m;
    m.swizzle = swizzle;
    m.box.resize(rank);
    bool cut = false; // a dimension was cut: those outside it go one by one
    for (unsigned d = rank; d-- > 0;) {
      const bool isColumns = d + 1 == rank;
      int64_t extent = !isColumns ? shape[d] : swizzle ? swizzle / (bits / 8) : plainColumns(shape[d], bits / 8);
      if (cut) extent = 1;
      while (extent > kMaxBox && extent % 2 == 0) extent /= 2;
      if (extent > kMaxBox) extent = 1;
      if (!(isColumns && swizzle) && extent < shape[d]) cut = true;
      m.box[d] = uint32_t(extent);
    }
    Coord at(rank, 0);
    for (;;) {
      m.list.push_back({at, layout.offsetOf(at)});
      unsigned d = rank;
      while (d-- > 0) {
        at[d] += int32_t(m.box[d]);
        if (at[d] < shape[d]) break;
        at[d] = 0;
      }
      if (d == ~0u) break;
    }
    return m;
  }
  return std::nullopt;
}

} // namespace tlx::layout
