// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Vector widths of global accesses, from what axis analysis knows of the pointer and the mask, and runs of equal results of comparisons, of
// which one is made: {groups = [8]}.
//
//   %v = load %p, %m : f16[1024, #0]      ->      %v = load %p, %m {vec = 8} : f16[1024, #0]
//
// A mask that cuts through a vector keeps its first elements: {prefix = 1}. Such an access is a whole one where all are true, and one an
// element where some are; cp.async copies fewer bytes.
#include "passes/axis_analysis.h"
#include "passes/passes.h"

namespace tlx::passes {

using namespace ir;

bool annotateAccesses(Module &module, const features::Target &target, Diagnostics &diagnostics) {
  AxisAnalysis axis(module);
  bool good = true;
  module.kernel.body.walk([&](Op &op) {
    if (op.is(Opcode::Cmp) && op.result()->type.isTile()) {
      const auto &runs = axis.info(op.result()).constancy;
      if (llvm::any_of(runs, [](int64_t n) { return n > 1; }))
        op.setAttr(Attr::groups, std::vector<int64_t>(runs.begin(), runs.end()));
    }
    const bool bulk = op.is(Opcode::AsyncBulkLoad) || op.is(Opcode::AsyncBulkStore);
    if (bulk && axis.info(op.operand(0)).divisibility[0] % 16) {
      diagnostics.report(Diag::BulkPointer, op.loc);
      good = false;
    }
    if (op.is(Opcode::Load) || op.is(Opcode::Store) || op.is(Opcode::AsyncCopy)) {
      unsigned pointer = op.is(Opcode::AsyncCopy) ? 1 : 0;
      if (!op.operand(pointer)->type.isTile()) return;
      const unsigned whole = axis.vectorWidth(op);
      const bool prefixes = !op.is(Opcode::AsyncCopy) || target.cpAsync;
      const unsigned vec = prefixes ? axis.prefixWidth(op) : whole;
      op.setAttr(Attr::vec, int64_t(vec));
      if (vec > whole) op.setAttr(Attr::prefix, int64_t(1));
    }
  });
  return good;
}

} // namespace tlx::passes
