// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Edits of loops and branches that several passes need.
#pragma once
#include "ir/builder.h"

namespace tlx::passes {

/// The same for loop with further carried values: `loop` is replaced and gone. The new ones are the last arguments and results; the
/// caller appends what the body yields for them with appendYield before anything else looks at the loop.
ir::Op *addCarried(ir::Module &module, ir::Op *loop, llvm::ArrayRef<ir::Value *> inits);
void appendYield(ir::Block &body, llvm::ArrayRef<ir::Value *> values);

/// A variable that starts as `init` at the kernel's start and is followed through all loops and branches around `at`: `next` is called
/// with its value at `at` and makes the one behind it.
ir::Value *threadVariable(ir::Module &module, ir::Op *at, ir::Value *init, llvm::function_ref<ir::Value *(ir::Value *)> next);

} // namespace tlx::passes
