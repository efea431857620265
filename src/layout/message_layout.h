// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tiles in shared memory as TMA moves them (PTX ISA, "Tensor swizzling modes"): the fastest dimension is cut into columns of boxes as wide
// as the swizzle pattern; inside a column the rows lie one after the other, and 16-byte units of a row are permuted by address bits.
#pragma once
#include "layout/layout.h"

namespace tlx::layout {

/// Bytes that a swizzle pattern needs its start aligned to.
inline unsigned swizzleAlignment(unsigned swizzle) {
  return swizzle ? 8 * swizzle : 128;
}

/// The layout of a row-major tile with a swizzle of 128, 64, 32 or 0 bytes. nullopt where the hardware has none: an inner extent that the
/// pattern's width does not divide (its 2^k part, with bits of an element), rows that leave a pattern unfinished before the next column or the
/// next tile of a ring, an inner box that is no multiple of 16 bytes.
std::optional<SharedLayout> messageLayout(llvm::ArrayRef<int64_t> shape, unsigned bits, unsigned swizzle);
/// The widest swizzle that the tile can have, and its layout.
std::optional<SharedLayout> messageLayout(llvm::ArrayRef<int64_t> shape, unsigned bits);

/// How TMA moves a tile of such a layout: boxes of at most 256 elements a dimension, one message each.
struct Messages {
  unsigned swizzle = 0;               // bytes
  llvm::SmallVector<uint32_t, 5> box; // elements, by dimension
  struct One {
    Coord at;       // where its box starts in the tile
    int64_t offset; // and in memory, in elements
  };
  std::vector<One> list;
};
/// Why a block has no such layout, with its numbers; "" if it has one.
std::string messageProblem(llvm::ArrayRef<int64_t> shape, unsigned bits);
/// The part of a message-layout tile that starts at `offsets`, seen by itself: offsets in memory count from its first element. nullopt where
/// that is no message layout: it cuts through a swizzle pattern, or its columns' boxes.
std::optional<SharedLayout> messageSlice(const SharedLayout &layout, llvm::ArrayRef<int64_t> offsets,
                                         llvm::ArrayRef<int64_t> shape, unsigned bits);
/// The swizzle of a layout of messageLayout, whose columns of boxes may be further apart (a slice of rows); nullopt for others.
std::optional<unsigned> messageSwizzle(const SharedLayout &layout, unsigned bits);
/// nullopt if `layout` has no messageSwizzle.
std::optional<Messages> messagesOf(const SharedLayout &layout, unsigned bits);

} // namespace tlx::layout
