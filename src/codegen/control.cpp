// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loops and branches. Conditions are uniform, so control flow is that of the source; each register of a carried value
// is a phi.
#include "codegen/codegen_p.h"

using namespace llvm;

namespace tlx::codegen {

RegList Generator::flatten(ArrayRef<ir::Value *> list) const {
  RegList all;
  for (const ir::Value *v : list) {
    Regs regs = get(v);
    all.append(regs.begin(), regs.end());
  }
  return all;
}

RegList Generator::flow(ArrayRef<ir::Value *> to, ArrayRef<ir::Value *> from) {
  RegList all;
  for (unsigned i = 0; i < to.size(); ++i) {
    if (moveToAccumulator(to[i], from[i])) continue;
    Regs regs = get(from[i]);
    all.append(regs.begin(), regs.end());
  }
  return all;
}

SmallVector<PHINode *, 32> Generator::makePhis(ArrayRef<ir::Value *> list, Regs like) {
  SmallVector<PHINode *, 32> phis;
  unsigned next = 0;
  for (const ir::Value *v : list) {
    if (RegList memory = accumulatorOf(v); !memory.empty()) {
      set(v, memory);
      continue;
    }
    const unsigned n = v->type.isTile() ? v->type.layout()->registers() : 1;
    RegList regs;
    for (unsigned i = 0; i < n; ++i) {
      phis.push_back(b.CreatePHI(like[next++]->getType(), 2));
      regs.push_back(phis.back());
    }
    set(v, regs);
  }
  return phis;
}

static void addIncoming(ArrayRef<PHINode *> phis, Regs values, BasicBlock *from) {
  for (unsigned i = 0; i < phis.size(); ++i) phis[i]->addIncoming(values[i], from);
}

static SmallVector<ir::Value *, 8> argsOf(const ir::Block &block, unsigned first) {
  SmallVector<ir::Value *, 8> args;
  for (unsigned i = first; i < block.numArgs(); ++i) args.push_back(block.arg(i));
  return args;
}
static SmallVector<ir::Value *, 8> resultsOf(const ir::Op &op) {
  SmallVector<ir::Value *, 8> results;
  for (unsigned i = 0; i < op.numResults(); ++i) results.push_back(op.result(i));
  return results;
}

// if (lo < hi) { last = lo + (count - 1) · step; i = lo; do { … } while (i != last, i += step); }: no comparison can
// overflow, and the loop needs no counter besides i. Where the step is not known, while (unsigned(hi - i) > step, i += step).
void Generator::emitFor(const ir::Op &op) {
  Value *lo = scalarOperand(op, 0), *hi = scalarOperand(op, 1), *step = scalarOperand(op, 2);
  const ir::Block &body = op.body();
  const bool isSigned = ir::isSignedInt(op.operand(0)->type.scalar());
  llvm::Type *type = lo->getType();
  Constant *one = ConstantInt::get(type, 1), *zero = Constant::getNullValue(type);

  auto less = [&](Value *x, Value *y) { return isSigned ? b.CreateICmpSLT(x, y) : b.CreateICmpULT(x, y); };
  Value *enters, *last = nullptr, *down = nullptr;
  if (auto *c = dyn_cast<ConstantInt>(step)) {
    const bool up = !isSigned || !c->isNegative();
    enters = c->isZero() ? static_cast<Value *>(b.getFalse()) : up ? less(lo, hi) : less(hi, lo);
    Value *span = b.CreateSub(up ? b.CreateSub(hi, lo) : b.CreateSub(lo, hi), one); // as unsigned
    Constant *size = ConstantInt::get(context, up ? c->getValue() : -c->getValue());
    Value *count = c->isZero() ? span : b.CreateUDiv(span, size);
    Value *way = b.CreateMul(count, size);
    last = up ? b.CreateAdd(lo, way) : b.CreateSub(lo, way);
  } else { // what is left tells the last iteration, without a division
    const ir::Op *def = op.operand(2)->def();
    const bool positive = !isSigned || (def && def->is(ir::Opcode::NumPrograms));
    Value *up = positive ? b.CreateICmpNE(step, zero) : b.CreateICmpSGT(step, zero);
    down = positive ? static_cast<Value *>(b.getFalse()) : b.CreateICmpSLT(step, zero);
    enters = b.CreateOr(b.CreateAnd(up, less(lo, hi)), b.CreateAnd(down, less(hi, lo)));
  }

  SmallVector<ir::Value *, 8> results = resultsOf(op), carried = argsOf(body, 1);
  RegList inits = flow(carried, op.operands().drop_front(3));
  BasicBlock *before = b.GetInsertBlock(), *loop = newBlock("for"), *after = newBlock("endfor");
  b.CreateCondBr(enters, loop, after);

  b.SetInsertPoint(loop);
  PHINode *index = b.CreatePHI(type, 2);
  index->addIncoming(lo, before);
  set(body.arg(0), index);
  SmallVector<PHINode *, 32> phis = makePhis(carried, inits);
  addIncoming(phis, inits, before);
  emitBlock(body);
  b.SetCurrentDebugLocation(debugLoc(op.loc));
  RegList yields;
  BasicBlock *latch = nullptr;
  if (!b.GetInsertBlock()->getTerminator()) { // a return at the end of the body leaves no back-edge
    yields = flow(carried, body.terminator()->operands());
    latch = b.GetInsertBlock();
    Value *more = last ? b.CreateICmpNE(index, last)
                       : b.CreateSelect(down, b.CreateICmpUGT(b.CreateSub(index, hi), b.CreateNeg(step)),
                                        b.CreateICmpUGT(b.CreateSub(hi, index), step));
    Value *next = b.CreateAdd(index, step, "", false, isSigned);
    b.CreateCondBr(more, loop, after);
    index->addIncoming(next, latch);
    addIncoming(phis, yields, latch);
  }

  b.SetInsertPoint(after);
  SmallVector<PHINode *, 32> out = makePhis(results, inits);
  addIncoming(out, inits, before);
  if (latch) addIncoming(out, yields, latch);
}

void Generator::emitWhile(const ir::Op &op) {
  const ir::Block &test = op.body(0), &body = op.body(1);
  RegList inits = flow(argsOf(test, 0), op.operands());
  BasicBlock *before = b.GetInsertBlock(), *header = newBlock("while"), *loop = newBlock("do"),
             *after = newBlock("endwhile");
  b.CreateBr(header);
  b.SetInsertPoint(header);
  SmallVector<PHINode *, 32> phis = makePhis(argsOf(test, 0), inits);
  addIncoming(phis, inits, before);
  emitBlock(test);
  b.SetCurrentDebugLocation(debugLoc(op.loc));
  const ir::Op &condition = *test.terminator();
  auto passed = condition.operands().drop_front();
  b.CreateCondBr(get(condition.operand(0)).front(), loop, after);

  b.SetInsertPoint(loop);
  for (unsigned i = 0; i < body.numArgs(); ++i) set(body.arg(i), get(passed[i]));
  emitBlock(body);
  b.SetCurrentDebugLocation(debugLoc(op.loc));
  if (!b.GetInsertBlock()->getTerminator()) {
    addIncoming(phis, flow(argsOf(test, 0), body.terminator()->operands()), b.GetInsertBlock());
    b.CreateBr(header);
  }
  b.SetInsertPoint(after);
  for (unsigned i = 0; i < op.numResults(); ++i) set(op.result(i), get(passed[i]));
}

void Generator::emitIfOp(const ir::Op &op) {
  BasicBlock *after = newBlock("endif");
  BasicBlock *arms[2] = {newBlock("if"), op.body(1).empty() ? after : newBlock("else")};
  BasicBlock *start = b.GetInsertBlock();
  b.CreateCondBr(scalarOperand(op, 0), arms[0], arms[1]);
  struct Arm {
    BasicBlock *end;
    RegList yields;
  };
  SmallVector<Arm, 2> ends;
  for (unsigned r = 0; r < 2; ++r) {
    if (arms[r] == after) {
      ends.push_back({start, {}});
      continue;
    }
    b.SetInsertPoint(arms[r]);
    emitBlock(op.body(r));
    b.SetCurrentDebugLocation(debugLoc(op.loc));
    if (b.GetInsertBlock()->getTerminator()) continue; // it returned
    const ir::Op *yield = op.body(r).terminator();
    RegList yields = yield ? flow(resultsOf(op), yield->operands()) : RegList();
    ends.push_back({b.GetInsertBlock(), yields});
    b.CreateBr(after);
  }
  b.SetInsertPoint(after);
  if (op.numResults() == 0) return;
  if (ends.empty()) { // both return: what follows is never reached
    for (const ir::Value *v : resultsOf(op)) {
      llvm::Type *type = v->type.isBuffer() ? b.getInt32Ty() : registerType(v->type.element());
      set(v, RegList(v->type.isTile() ? v->type.layout()->registers() : 1, PoisonValue::get(type)));
    }
    return;
  }
  SmallVector<PHINode *, 32> phis = makePhis(resultsOf(op), ends[0].yields);
  for (const Arm &arm : ends) addIncoming(phis, arm.yields, arm.end);
}

} // namespace tlx::codegen
