// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once
#include "ir/builder.h"

namespace tlx::passes {

/// Iterations of a for loop as u32 or u64: the distance of two i32 fits u32 exactly. A step may be known only at run
/// time, and then be negative, or zero for no iterations.
ir::Value *tripCount(ir::Builder &b, ir::Value *lo, ir::Value *hi, ir::Value *step);

/// A copy of `op`; divisors in it are 1 where `guard` is false: an iteration that does not exist may have
/// any, and a loop without iterations may not divide by what does not change in it.
ir::Op *cloneGuarded(ir::Builder &b, const ir::Op &op, llvm::DenseMap<ir::Value *, ir::Value *> &map, ir::Value *guard);

} // namespace tlx::passes
