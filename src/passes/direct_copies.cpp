// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "passes/direct_copies.h"

#include "ir/builder.h"

namespace tlx::passes {

using namespace ir;

std::optional<DirectRing> planDirectRing(const Op &load, llvm::ArrayRef<const layout::TileLayout *> consumers,
                                         const AxisAnalysis &axis, const features::Target &target, unsigned warps) {
  if (!target.directToLds) return std::nullopt;
  const Value *pointer = load.operand(0);
  const Type type = pointer->type;
  const unsigned bytes = scalarBytes(type.scalar());
  unsigned width = axis.vectorWidth(load) * bytes;
  if (width * 8 > target.directToLds) width = target.directToLds / 8;
  if (width == 8) width = 4; // there are loads of 4, 12 and 16 bytes
  if (width < 4 || width < bytes) return std::nullopt;
  // The dimension along which memory is contiguous, as coalescing picks it.
  unsigned fastest = type.rank() - 1;
  const AxisInfo &info = axis.info(pointer);
  for (unsigned d = type.rank(); d-- > 0;)
    if (info.contiguity[d] > info.contiguity[fastest]) fastest = d;
  const unsigned vector = width / bytes;
  layout::SharedLayout memory =
      layout::chooseSwizzle(type.shape(), consumers, 8 * bytes, {target.sharedBanks}, {fastest, vector});
  std::optional<layout::TileLayout> pointers = layout::sideBySide(memory, vector, target.warpSize, warps);
  // A thread's elements must lie side by side in global memory too.
  if (!pointers || layout::contiguousRegisters(*pointers, fastest, vector) != vector) return std::nullopt;
  return DirectRing{std::move(memory), std::move(*pointers)};
}

namespace {
/// The scalar that `offsets` has in every element, made in front of `op` if it is a constant; null if it is no such tile.
Value *scalarOf(Module &module, Value *offsets, Op *op) {
  Op *def = offsets->def();
  if (!def) return nullptr;
  if (def->is(Opcode::Splat)) return def->operand(0);
  if (!def->is(Opcode::Constant)) return nullptr;
  Builder b(module);
  b.at(op);
  b.loc = op->loc;
  return b.constant(module.context.scalar(offsets->type.scalar()), def->intAttr(Attr::value));
}
} // namespace

void separateSteps(Module &module, Op &loop) {
  Block &body = loop.body();
  Builder b(module);
  for (unsigned i = 0; i < loop.numResults(); ++i) {
    Value *arg = body.arg(1 + i), *result = loop.result(i), *init = loop.operand(3 + i);
    const Type type = arg->type;
    if (!type.isTile() || !type.isPointerLike()) continue;
    Op *yield = body.terminator();
    llvm::SmallVector<Value *, 2> steps;
    Value *v = yield->operand(i);
    while (v != arg && v->def() && v->def()->is(Opcode::AddPtr) && v->def()->parent() == &body) {
      Value *step = scalarOf(module, v->def()->operand(1), v->def());
      if (!step) break;
      steps.push_back(step);
      v = v->def()->operand(0);
    }
    if (v != arg || steps.empty()) continue;

    auto moved = [&](Value *offset) { return b.addptr(init, b.splat(offset, type.shape(), type.layout())); };
    b.at(&loop);
    b.loc = loop.loc;
    loop.setOperand(3 + i, b.constant(b.i64(), 0));
    arg->type = result->type = b.i64();
    std::vector<Use> uses(arg->uses().begin(), arg->uses().end()), after(result->uses().begin(), result->uses().end());
    // All elements move by the sum: addptr scales in 64 bits, where sums may be taken first.
    b.at(yield);
    b.loc = loop.loc;
    Value *next = arg;
    for (Value *step : steps)
      next = b.binary(Opcode::Add, next, step->type == b.i64() ? step : b.cast(step, Scalar::I64));
    yield->setOperand(i, next);
    b.at(body.front());
    Value *pointers = moved(arg);
    for (const Use &use : uses) use.op->setOperand(use.index, pointers);
    if (after.empty()) continue;
    b.after(&loop);
    Value *last = moved(result);
    for (const Use &use : after) use.op->setOperand(use.index, last);
  }
}

} // namespace tlx::passes
