// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the pipelines of loops and the passes behind them share.
#pragma once
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"

#include "ir/builder.h"

namespace tlx::passes {

using ValueMap = llvm::DenseMap<ir::Value *, ir::Value *>;
ir::Value *mapped(const ValueMap &map, ir::Value *v); // itself if it is not in the map

/// The pure ops of a loop's body (or of another block) that the address of a load needs, to be cloned for an iteration
/// that is to come.
struct Slice {
  ir::Block *block = nullptr;
  bool tiles = false; // whether ops that make tiles may be in it
  llvm::SetVector<ir::Op *> ops;
  llvm::SetVector<ir::Value *> arguments; // of the block

  /// False if the value depends on memory or on control flow in the block; what was added by then stays.
  bool add(ir::Value *v);
  bool addIf(ir::Op &branch);
  /// The same for what the body of a loop makes of the carried values that are in it.
  bool addCarried();
  /// In program order, for an iteration that is real if `guard` is true.
  void clone(ir::Builder &b, ValueMap &map, ir::Value *guard) const;
};

/// The store that takes a loaded tile to a buffer made for it in the same block: a ring or a message takes the buffer's
/// place.
ir::Op *bufferStore(const ir::Op &load);

/// Whether an atomic with a memory order or a fence is in it, or in a region of it: what those order, no load may read before it.
bool ordersMemory(ir::Block &block);

/// The hint of a descriptor's load or store goes on to the TMA operation that does it.
void copyEviction(const ir::Op &from, ir::Op &to);

/// Waits until the program's bulk stores have read their buffers, or are visible.
void waitForStores(ir::Builder &b, bool reads);

} // namespace tlx::passes
