// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Accumulators that start from zero need no zeros: the first wgmma ignores what is there. Only where the loop has no iteration are zeros
// made, in a branch of their own.
//
//   %r = for %lo, %hi, %st, %zeros ^(%i, %acc) {          %r = if %lo < %hi {
//     %1 = async_dot %a, %b, %acc                           %2 = for %lo, %hi, %st, %uninit ^(%i, %acc) {
//     yield %1                                    ->          %1 = async_dot %a, %b, %acc, %i != %lo
//   }                                                         yield %1
//                                                           }
//                                                           yield %2
//                                                         } else { yield %zeros }
//   %1 = async_dot %a, %b, %zeros                         %1 = async_dot %a, %b, %uninit, false
#include "ir/builder.h"
#include "passes/passes.h"
#include "passes/trip_count.h"

namespace tlx::passes {

using namespace ir;

namespace {

bool isZeros(const Value *v) {
  const Op *def = v->def();
  if (!def || !def->is(Opcode::Constant) || !v->type.isTile()) return false;
  return isFloat(v->type.scalar()) ? llvm::bit_cast<uint64_t>(def->floatAttr(Attr::value)) == 0
                                   : def->intAttr(Attr::value) == 0;
}

/// The loop's index is no longer its first.
bool isLater(const Value *v, const Op &loop) {
  const Op *cmp = v->def();
  if (!cmp || !cmp->is(Opcode::Cmp) || cmp->operand(0) != loop.body().arg(0)) return false;
  const auto pred = Pred(cmp->intAttr(Attr::pred));
  if (pred != Pred::Ne && pred != Pred::Gt) return false;
  const Value *first = cmp->operand(1), *lo = loop.operand(0);
  auto constant = [](const Value *x) { return x->def() && x->def()->is(Opcode::Constant); };
  return first == lo ||
         (constant(first) && constant(lo) && first->def()->intAttr(Attr::value) == lo->def()->intAttr(Attr::value));
}

/// The dot that alone reads the carried value, as its accumulator: always, or from the second iteration on.
Op *onlyDot(Value *arg, const Op &loop) {
  if (!arg->hasOneUse()) return nullptr;
  const Use use = arg->uses().front();
  const bool fits = use.op->is(Opcode::AsyncDot) && use.index == 2 && use.op->parent() == &loop.body() &&
                    (use.op->numOperands() == 3 || isLater(use.op->operand(3), loop));
  return fits ? use.op : nullptr;
}

void start(Module &module, Op &loop, llvm::ArrayRef<unsigned> carried) {
  Block &body = loop.body();
  Builder b(module);
  b.loc = loop.loc;
  b.at(body.front());
  Value *later = b.cmp(Pred::Ne, body.arg(0), loop.operand(0));
  for (unsigned i : carried)
    if (Op *dot = onlyDot(body.arg(1 + i), loop); dot->numOperands() == 3) dot->addOperand(later);
  b.at(&loop);
  Value *trips = tripCount(b, loop.operand(0), loop.operand(1), loop.operand(2));
  llvm::SmallVector<Type, 8> types;
  llvm::SmallVector<Value *, 8> inits;
  for (unsigned i = 0; i < loop.numResults(); ++i)
    types.push_back(loop.result(i)->type), inits.push_back(loop.operand(3 + i));
  Op *branch = b.ifOp(b.cmp(Pred::Gt, trips, b.constant(trips->type, 0)), types);
  for (unsigned i = 0; i < loop.numResults(); ++i) loop.result(i)->replaceAllUsesWith(branch->result(i));
  loop.moveTo(branch->body(0));
  b.at(&loop);
  for (unsigned i : carried) loop.setOperand(3 + i, b.create(Opcode::Uninit, {}, types[i])->result());
  b.atEnd(branch->body(0));
  llvm::SmallVector<Value *, 8> results;
  for (unsigned i = 0; i < loop.numResults(); ++i) results.push_back(loop.result(i));
  b.yield(results);
  b.atEnd(branch->body(1));
  b.yield(inits);
}

} // namespace

bool startAccumulators(Module &module, const features::Target &, Diagnostics &) {
  std::vector<Op *> loops, fresh;
  module.kernel.body.walk([&](Op &op) {
    if (op.is(Opcode::For)) loops.push_back(&op);
    if (op.is(Opcode::AsyncDot) && op.numOperands() == 3 && isZeros(op.operand(2))) fresh.push_back(&op);
  });
  for (Op *dot : fresh) {
    Builder b(module);
    b.at(dot);
    b.loc = dot->loc;
    dot->setOperand(2, b.create(Opcode::Uninit, {}, dot->result()->type)->result());
    dot->addOperand(b.constant(b.i1(), 0));
  }
  for (Op *loop : loops) {
    llvm::SmallVector<unsigned, 2> carried;
    for (unsigned i = 0; i < loop->numResults(); ++i)
      if (isZeros(loop->operand(3 + i)) && onlyDot(loop->body().arg(1 + i), *loop)) carried.push_back(i);
    if (!carried.empty()) start(module, *loop, carried);
  }
  return true;
}

} // namespace tlx::passes
