// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How reports call tasks, rings and barriers.
#pragma once
#include "ir/ir.h"

namespace tlx::ir {

/// "task 'consumer' (replica 1)", "the default task", "the task of line 12"; null: "the kernel". `replica`: which one, of a task with several.
std::string taskText(const Op *task, int64_t replica = -1);

/// "full[2]"; without a name "the barriers of line 7 [2]". `slot` -1: all of them.
std::string slotText(const Op &alloc, int64_t slot = -1);

/// The alloc_barriers or local_alloc that a view is of, and its slot: null if the ring is seen as a whole.
struct SlotOf {
  const Op *alloc = nullptr;
  const Value *index = nullptr;
  int64_t depth = 1; // of the ring
};
SlotOf slotOf(const Value *view);

} // namespace tlx::ir
