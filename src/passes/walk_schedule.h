// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once
#include "ir/ir.h"

namespace tlx::passes {

/// Walks through the kernel as it would run with some numbers for its arguments, and reports where a task waits for ever. False: it could not
/// see what the tasks do, since what they do depends on more than arguments.
bool walkSchedule(const ir::Module &module, Diagnostics &diagnostics);

} // namespace tlx::passes
