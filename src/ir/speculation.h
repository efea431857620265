// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once
#include "ir/ir.h"

namespace tlx::ir {

/// Whether `op` may be computed where the program would not have: it has no effect and nothing to report. An integer
/// division by what may be zero has: the simulator names it.
inline bool speculatable(const Op &op) {
  if (!op.has(Pure) || op.has(Collective) || op.numRegions()) return false;
  if (!op.is(Opcode::DivFloor) && !op.is(Opcode::ModFloor) && !op.is(Opcode::CeilDiv)) return true;
  const Op *divisor = op.operand(1)->def();
  if (divisor && divisor->is(Opcode::Splat)) divisor = divisor->operand(0)->def();
  return divisor && divisor->is(Opcode::Constant) && divisor->intAttr(Attr::value) != 0;
}

} // namespace tlx::ir
