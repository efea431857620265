// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The parts of simplify.
#pragma once
#include "ir/builder.h"

namespace tlx::passes::detail {

/// The value of `op` applied to constants, one a operand, as an attribute of its result's element type: exactly what
/// the operation gives at run time, or nothing where that is not fixed (a zero divisor) or the op is not folded.
std::optional<ir::AttrValue> foldConstants(const ir::Op &op, llvm::ArrayRef<const ir::Op *> constants);

/// The same for scalars of integer types, i1 included.
std::optional<int64_t> foldIntegers(const ir::Op &op, llvm::ArrayRef<int64_t> values);

/// One step for one op: replaces, rewrites or erases it by an equation. True if something changed; `op` may be gone
/// then. New ops stand before it, and are themselves as simple as the rules make them after another step.
bool simplifyOp(ir::Module &module, ir::Op *op);

/// Erases what no effect needs: ops, loops and branches, their dead carried values and results. True if something went.
bool eraseDead(ir::Module &module);

} // namespace tlx::passes::detail
