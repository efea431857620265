// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Blocks of tensor descriptors as tiles and buffers.
#pragma once
#include <optional>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

namespace tlx::ir {

/// A tile or buffer holds a descriptor's block, all of it or without some of its extents of 1: [1, 128, 64] as [128,
/// 64]. For each of the tile's dimensions the block's; nullopt if it does not hold the block.
inline std::optional<llvm::SmallVector<unsigned, 5>> blockDimensions(llvm::ArrayRef<int64_t> block,
                                                                     llvm::ArrayRef<int64_t> tile) {
  llvm::SmallVector<unsigned, 5> dims(tile.size());
  size_t t = tile.size();
  for (size_t d = block.size(); d-- > 0;) {
    if (t > 0 && tile[t - 1] == block[d])
      dims[--t] = unsigned(d);
    else if (block[d] != 1)
      return std::nullopt;
  }
  if (t > 0) return std::nullopt;
  return dims;
}

/// A store may take columns of the block at a time: its block with the buffer's last extent.
inline llvm::SmallVector<int64_t, 5> columnsOfBlock(llvm::ArrayRef<int64_t> block, llvm::ArrayRef<int64_t> buffer) {
  llvm::SmallVector<int64_t, 5> part(block);
  if (!part.empty() && !buffer.empty() && buffer.back() > 0 && part.back() % buffer.back() == 0)
    part.back() = buffer.back();
  return part;
}

} // namespace tlx::ir
