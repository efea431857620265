// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "passes/pipeline_common.h"

#include "passes/trip_count.h"

namespace tlx::passes {

using namespace ir;

Value *mapped(const ValueMap &map, Value *v) {
  auto it = map.find(v);
  return it == map.end() ? v : it->second;
}

namespace {
/// Made in a region of it.
bool parentIs(const Value &v, const Op &op) {
  return v.def() && v.def()->parentOp() == &op;
}
} // namespace

bool Slice::add(Value *v) {
  if (v->block() == block) {
    arguments.insert(v);
    return true;
  }
  Op *def = v->def();
  if (!def || def->parent() != block) return true; // from outside
  if (ops.contains(def)) return true;
  if (def->is(Opcode::If)) return addIf(*def);
  if (!def->has(Pure) || def->has(Collective) || def->numRegions()) return false;
  if (!tiles && def->result()->type.isTile()) return false;
  ops.insert(def);
  return llvm::all_of(def->operands(), [&](Value *o) { return add(o); });
}

/// A branch that only chooses among numbers.
bool Slice::addIf(Op &branch) {
  for (unsigned i = 0; i < branch.numResults(); ++i)
    if (branch.result(i)->type.isTile()) return false;
  ops.insert(&branch);
  bool good = add(branch.operand(0));
  for (unsigned r = 0; r < 2; ++r)
    for (Op &op : branch.body(r)) {
      good = good && (op.isTerminator() || (op.has(Pure) && !op.has(Collective) && !op.numRegions()));
      for (Value *o : op.operands()) good = good && (parentIs(*o, branch) || add(o));
    }
  return good;
}

bool Slice::addCarried() {
  for (unsigned i = 0; i < arguments.size(); ++i) // grows as it goes
    if (unsigned index = arguments[i]->index(); index && !add(block->terminator()->operand(index - 1))) return false;
  return true;
}

void Slice::clone(Builder &b, ValueMap &map, Value *guard) const {
  for (Op &op : *block)
    if (ops.contains(&op)) cloneGuarded(b, op, map, guard);
}

namespace {
/// All that happens to the buffer, but for `store`, reads it, and stands behind `load` in its block.
bool onlyReadBehind(const Value &buffer, const Op &store, const Op &load) {
  return llvm::all_of(buffer.uses(), [&](const Use &use) {
    if (use.op == &store) return true;
    const Op *top = use.op, *behind = load.next();
    while (top && top->parent() != load.parent()) top = top->parentOp();
    while (behind && behind != top) behind = behind->next();
    if (!behind || use.op->has(Writes)) return false;
    for (unsigned i = 0; i < use.op->numResults(); ++i)
      if (use.op->result(i)->type.isBuffer() && !onlyReadBehind(*use.op->result(i), store, load)) return false;
    return true;
  });
}
} // namespace

Op *bufferStore(const Op &load) {
  for (const Use &use : load.result()->uses()) {
    if (!use.op->is(Opcode::LocalStore) || use.index != 1 || use.op->parent() != load.parent()) continue;
    const Op *buffer = use.op->operand(0)->def();
    if (buffer->is(Opcode::LocalAlloc) && buffer->parent() == load.parent() &&
        onlyReadBehind(*buffer->result(), *use.op, load))
      return use.op;
  }
  return nullptr;
}

bool ordersMemory(Block &block) {
  bool orders = false;
  block.walk([&](Op &op) {
    orders |= op.is(Opcode::Fence) || (op.hasAttr(Attr::order) && op.strAttr(Attr::order) != "relaxed");
  });
  return orders;
}

void copyEviction(const Op &from, Op &to) {
  if (from.hasAttr(Attr::eviction)) to.setAttr(Attr::eviction, from.strAttr(Attr::eviction).str());
}

void waitForStores(Builder &b, bool reads) {
  Op *single = b.create(Opcode::Single, {}, {});
  Builder in(b.module);
  in.loc = b.loc;
  in.atEnd(single->addRegion());
  Op *wait = in.create(Opcode::AsyncStoreWait, {}, {});
  wait->setAttr(Attr::pending, int64_t(0));
  if (reads) wait->setAttr(Attr::reads, int64_t(1));
  in.yield({});
}

} // namespace tlx::passes
