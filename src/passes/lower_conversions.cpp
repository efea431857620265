// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Conversions that cross warps, or would cost more as shuffles, go through shared memory.
//
//   %y = convert_layout %x        ->        %s = local_alloc : buffer<…>      swizzled for both accesses
//                                           local_store %s, %x
//                                           %y = local_load %s
#include "ir/builder.h"
#include "passes/passes.h"

namespace tlx::passes {

using namespace ir;

bool lowerConversions(Module &module, const features::Target &target, Diagnostics &diagnostics) {
  std::vector<Op *> conversions;
  module.kernel.body.walk([&](Op &op) {
    if (op.is(Opcode::ConvertLayout)) conversions.push_back(&op);
  });
  for (Op *op : conversions) {
    Value *x = op->operand(0);
    Type from = x->type, to = op->result()->type;
    bool pointers = from.isPointerLike();
    unsigned bits = pointers ? 64 : 8 * scalarBytes(from.scalar());
    layout::ConversionPlan plan = layout::planConversion(*from.layout(), *to.layout(), bits, {target.sharedBanks});
    if (plan.kind != layout::ConversionKind::Shared) continue;
    Builder b(module);
    b.at(op);
    b.loc = op->loc;
    if (pointers) x = b.bitcast(x, module.context.scalar(Scalar::U64)); // memory holds numbers
    Value *buffer = b.localAlloc(x->type.scalar(), from.shape(), 1, module.context.unique(plan.scratch));
    b.localStore(buffer, x);
    Value *y = b.localLoad(buffer, to.layout());
    if (pointers) y = b.bitcast(y, from.element());
    op->result()->replaceAllUsesWith(y);
    op->erase();
  }
  module.properties.loweredConversions = true;
  return true;
}

} // namespace tlx::passes
