// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Vector widths of global accesses, from what axis analysis knows of the pointer and the mask.
//
//   %v = load %p, %m : f16[1024, #0]      ->      %v = load %p, %m {vec = 8} : f16[1024, #0]
#include "passes/axis_analysis.h"
#include "passes/passes.h"

namespace tlx::passes {

using namespace ir;

bool annotateAccesses(Module &module, const features::Target &target, Diagnostics &diagnostics) {
  AxisAnalysis axis(module);
  module.kernel.body.walk([&](Op &op) {
    if (op.is(Opcode::Load) || op.is(Opcode::Store) || op.is(Opcode::AsyncCopy)) {
      unsigned pointer = op.is(Opcode::AsyncCopy) ? 1 : 0;
      if (op.operand(pointer)->type.isTile()) op.setAttr(Attr::vec, int64_t(axis.vectorWidth(op)));
    }
  });
  return true;
}

} // namespace tlx::passes
