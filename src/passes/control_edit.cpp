// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "passes/control_edit.h"

namespace tlx::passes {

using namespace ir;

Op *addCarried(Module &module, Op *loop, llvm::ArrayRef<Value *> inits) {
  Builder b(module);
  b.at(loop);
  b.loc = loop->loc;
  Block &old = loop->body();
  llvm::SmallVector<Value *, 16> all(loop->operands().begin() + 3, loop->operands().end());
  all.append(inits.begin(), inits.end());
  Op *fresh = b.forLoop(loop->operand(0), loop->operand(1), loop->operand(2), all);
  for (const auto &[key, value] : loop->attrs()) fresh->setAttr(key, value);
  for (unsigned i = 0; i < old.numArgs(); ++i) {
    fresh->body().arg(i)->name = old.arg(i)->name;
    old.arg(i)->replaceAllUsesWith(fresh->body().arg(i));
  }
  for (Op *op : old.ops()) op->moveTo(fresh->body());
  for (unsigned i = 0; i < loop->numResults(); ++i) loop->result(i)->replaceAllUsesWith(fresh->result(i));
  loop->erase();
  return fresh;
}

void appendYield(Block &body, llvm::ArrayRef<Value *> values) {
  for (Value *v : values) body.terminator()->addOperand(v);
}

namespace {
/// The same branch with one more result.
Op *addResult(Module &module, Op *branch, Type type) {
  Builder b(module);
  b.at(branch);
  b.loc = branch->loc;
  llvm::SmallVector<Type, 8> types;
  for (unsigned i = 0; i < branch->numResults(); ++i) types.push_back(branch->result(i)->type);
  types.push_back(type);
  Op *fresh = b.ifOp(branch->operand(0), types);
  for (unsigned r = 0; r < 2; ++r) {
    for (Op *op : branch->body(r).ops()) op->moveTo(fresh->body(r));
    if (!fresh->body(r).terminator()) {
      b.atEnd(fresh->body(r));
      b.yield({});
    }
  }
  for (unsigned i = 0; i < branch->numResults(); ++i) branch->result(i)->replaceAllUsesWith(fresh->result(i));
  branch->erase();
  return fresh;
}
} // namespace

Value *threadVariable(Module &module, Op *at, Value *init, llvm::function_ref<Value *(Value *)> next) {
  llvm::SmallVector<Op *, 4> around; // innermost first
  for (Op *p = at->parentOp(); p && !p->is(Opcode::Task); p = p->parentOp())
    if (p->is(Opcode::For) || p->is(Opcode::While) || p->is(Opcode::If)) around.push_back(p);
  // Down: what the variable is at the start of each region. A branch passes it through as it is.
  struct Level {
    Op *op;
    Value *before;
    unsigned region;
  };
  llvm::SmallVector<Level, 4> levels;
  Value *v = init;
  for (unsigned k = around.size(); k-- > 0;) {
    Op *op = around[k];
    // `at` moves with its block; which region holds it is found from the next level in.
    Op *inner = k ? around[k - 1] : at;
    unsigned region = 0;
    for (unsigned r = 0; r < op->numRegions(); ++r)
      for (Op *p = inner; p; p = p->parentOp())
        if (p->parent() == &op->body(r)) region = r;
    if (op->is(Opcode::For)) {
      Op *fresh = addCarried(module, op, {v});
      levels.push_back({fresh, v, region});
      v = fresh->body().arg(fresh->body().numArgs() - 1);
    } else if (op->is(Opcode::While)) {
      op->addOperand(v);
      op->addResult(v->type);
      levels.push_back({op, v, region});
      Value *args[] = {op->body(0).addArg(v->type), op->body(1).addArg(v->type)};
      v = args[region];
    } else {
      Op *fresh = addResult(module, op, v->type);
      levels.push_back({fresh, v, region});
    }
  }
  Value *after = next(v);
  for (unsigned k = levels.size(); k-- > 0;) { // and up again
    Level &l = levels[k];
    if (l.op->is(Opcode::For)) {
      appendYield(l.op->body(), after);
    } else if (l.op->is(Opcode::While)) { // the condition's region passes on to the body's, and that back
      Block &condition = l.op->body(0), &body = l.op->body(1);
      condition.terminator()->addOperand(l.region == 0 ? after : condition.arg(condition.numArgs() - 1));
      body.terminator()->addOperand(l.region == 1 ? after : body.arg(body.numArgs() - 1));
    } else {
      l.op->body(l.region).terminator()->addOperand(after);
      l.op->body(1 - l.region).terminator()->addOperand(l.before);
    }
    after = l.op->result(l.op->numResults() - 1);
  }
  return after;
}

} // namespace tlx::passes
