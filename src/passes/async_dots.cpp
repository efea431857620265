// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Dots on wgmma, as yet without overlap: other passes move the loads into rings and the waits to where they are needed.
//
//   %a = desc_load …                        %a = desc_load …
//   %b = desc_load …                        %sa = local_alloc : buffer<f16[128, 64, #message], 1, smem>
//   %d = dot %a, %b, %c          ->         local_store %sa, %a
//                                           … the same for %b
//                                           %1 = async_dot %sa, %sb, %c
//                                           %d = async_dot_wait {pending = 0} %1
#include "passes/async_dots.h"

#include "ir/builder.h"
#include "layout/message_layout.h"

namespace tlx::passes {

using namespace ir;

namespace {

bool kindOf(Scalar s, llvm::StringRef precision) {
  switch (s) {
  case Scalar::F16:
  case Scalar::BF16:
  case Scalar::F8E4M3:
  case Scalar::F8E5M2:
  case Scalar::I8:
  case Scalar::U8:
    return true;
  case Scalar::F32:
    return precision != "ieee" && precision != "tf32x3";
  default:
    return false;
  }
}

/// Whether memory is seen by the unit: `layout` of the source, whose dimensions are (M or N, K) if `straight`, else (K, M or N).
bool readable(const layout::SharedLayout &layout, bool straight, unsigned bits) {
  return features::matrixDescriptor(straight ? layout : layout.transposed({1, 0}), bits).has_value();
}

/// The layout in which `source` goes to shared memory: row-major for TMA, along the contiguous dimension for loads through pointers, any
/// that the unit reads for values from registers.
std::optional<layout::SharedLayout> memoryFor(Value *source, bool straight, unsigned bits, const AxisAnalysis &axis) {
  llvm::ArrayRef<int64_t> shape = source->type.shape();
  auto rows = layout::messageLayout(shape, bits);
  auto columns = layout::messageLayout({shape[1], shape[0]}, bits);
  if (columns) columns = columns->transposed({1, 0});
  const Op *def = source->def();
  if (def && def->is(Opcode::DescLoad)) columns.reset();
  if (def && def->is(Opcode::Load)) {
    const AxisInfo &info = axis.info(def->operand(0));
    if (info.contiguity[0] > info.contiguity[1]) std::swap(rows, columns);
  }
  for (auto &l : {rows, columns})
    if (l && readable(*l, straight, bits)) return l;
  return std::nullopt;
}

WgmmaOperand trace(Value *v) {
  WgmmaOperand o;
  for (o.source = v; o.source->def() && o.source->def()->is(Opcode::Trans); o.source = o.source->def()->operand(0))
    o.transposed = !o.transposed;
  return o;
}

bool fromMemory(const Value *v) {
  return v->def() && (v->def()->is(Opcode::DescLoad) || v->def()->is(Opcode::Load));
}

} // namespace

std::optional<WgmmaDot> planWgmmaDot(const Op &dot, unsigned numWarps, const features::Target &target,
                                     const AxisAnalysis &axis) {
  Type a = dot.operand(0)->type, b = dot.operand(1)->type, acc = dot.result()->type;
  const llvm::StringRef precision = dot.strAttr(Attr::precision);
  if (!target.wgmma || !kindOf(a.scalar(), precision) || !kindOf(b.scalar(), precision)) return std::nullopt;
  if (scalarBytes(acc.scalar()) != 4) return std::nullopt; // f16 accumulators: the other instructions
  const unsigned bits = 8 * scalarBytes(a.scalar());
  auto plan = features::planWgmma(acc.shape()[0], acc.shape()[1], a.shape()[1], bits, !isFloat(acc.scalar()), numWarps);
  if (!plan) return std::nullopt;
  WgmmaDot out{*plan, trace(dot.operand(0)), trace(dot.operand(1))};
  // Operands are (M, K) and (K, N); the unit sees (N, K).
  if (fromMemory(out.a.source)) out.a.memory = memoryFor(out.a.source, !out.a.transposed, bits, axis);
  if (!out.a.memory) out.a = {dot.operand(0), false, std::nullopt};
  out.b.memory = memoryFor(out.b.source, out.b.transposed, bits, axis);
  if (!out.b.memory) return std::nullopt;
  return out;
}

void makeAsyncDot(Module &module, Op &dot, const WgmmaDot &plan) {
  Builder b(module);
  auto buffer = [&](const WgmmaOperand &o, unsigned operand) -> Value * {
    if (!o.memory) return dot.operand(operand);
    const layout::SharedLayout *layout = module.context.unique(*o.memory);
    Value *made = nullptr;
    for (const Use &use : o.source->uses()) // another dot may have it there already
      if (use.op->is(Opcode::LocalStore) && use.index == 1 && use.op->operand(0)->type.sharedLayout() == layout &&
          use.op->next() && use.op->operand(0)->def()->is(Opcode::LocalAlloc) &&
          use.op->prev() == use.op->operand(0)->def() && use.op->prev()->prev() == o.source->def())
        made = use.op->operand(0);
    if (!made) {
      if (o.source->def())
        b.after(o.source->def());
      else
        b.at(&dot);
      b.loc = o.source->def() ? o.source->def()->loc : dot.loc;
      made = b.localAlloc(o.source->type.scalar(), o.source->type.shape(), 1, layout);
      b.localStore(made, o.source);
    }
    if (!o.transposed) return made;
    b.at(&dot);
    b.loc = dot.loc;
    Op *view = b.create(Opcode::LocalTrans, {made},
                        module.context.buffer(made->type.scalar(), {made->type.shape()[1], made->type.shape()[0]}, 1,
                                              Space::Shared, module.context.unique(layout->transposed({1, 0}))));
    view->setAttr(Attr::perm, std::vector<int64_t>{1, 0});
    return view->result();
  };
  Value *left = buffer(plan.a, 0), *right = buffer(plan.b, 1);
  b.at(&dot);
  b.loc = dot.loc;
  Op *issued = b.create(Opcode::AsyncDot, {left, right, dot.operand(2)}, dot.result()->type);
  Op *wait = b.create(Opcode::AsyncDotWait, {issued->result()}, dot.result()->type);
  wait->setAttr(Attr::pending, int64_t(0));
  dot.result()->replaceAllUsesWith(wait->result());
  dot.erase();
}

namespace {

/// The buffer of an operand stays as it is until the loop's next iteration has retired what reads it: a slot of a ring, or memory from
/// outside that nobody writes in the loop. Slots that mbarriers manage are released somewhere in the loop: behind the dots only if
/// `releases`.
bool lasts(Value *operand, Op &loop, bool releases) {
  if (operand->type.isTile()) return true;
  Value *v = operand;
  Op *slot = nullptr;
  while (!v->def()->is(Opcode::LocalAlloc)) {
    if (v->def()->is(Opcode::SubView)) slot = v->def();
    v = v->def()->operand(0);
  }
  if (slot) return v->type.depth() > 1 && (releases || slot->parentOp() != &loop || !v->def()->intAttr(Attr::managed));
  for (Op *p = v->def()->parentOp(); p; p = p->parentOp())
    if (p == &loop) return false;
  return llvm::none_of(v->uses(), [&](const Use &use) {
    if (!use.op->has(Writes)) return false;
    for (Op *p = use.op; p; p = p->parentOp())
      if (p == &loop) return true;
    return false;
  });
}

/// The op of `block` that holds `op`.
Op *topLevel(Op *op, Block &block) {
  while (op && op->parent() != &block) op = op->parentOp();
  return op;
}

bool holdsDot(Op &op) {
  bool found = false;
  for (unsigned r = 0; r < op.numRegions(); ++r) op.body(r).walk([&](Op &o) { found |= o.is(Opcode::AsyncDot); });
  return found;
}

} // namespace

namespace {
/// A in registers is read until its dot has retired: in the next iteration a wait for that must stand before they are written again. (Which
/// registers a new value gets is the assembler's choice; on an H200 it has been seen to take these.)
bool waitsBefore(const Op &dot, const Block &body) {
  const Value *a = dot.operand(0);
  if (a->type.isBuffer()) return true;
  int64_t issued = 0; // in this iteration, all behind the last one's
  for (const Op &op : body) {
    if (&op == &dot || &op == a->def()) return false;
    if (op.is(Opcode::AsyncDotWait) && op.intAttr(Attr::pending) <= issued) return true;
    issued += op.is(Opcode::AsyncDot);
  }
  return false;
}
} // namespace

Op *deferDots(Module &module, Op &loop, bool releases) {
  Block &body = loop.body();
  Op *yield = body.terminator();
  bool any = false;
  int64_t dots = 0;
  std::vector<Op *> order = body.ops();
  for (Op *op : order) {
    dots += op->is(Opcode::AsyncDot);
    if (holdsDot(*op)) return nullptr; // groups in branches: nobody can count them
  }
  int64_t before = 0; // dots of the body up to here
  llvm::DenseMap<Op *, int64_t> position;
  llvm::DenseMap<Op *, size_t> place;
  for (Op *op : order) {
    position[op] = before;
    place[op] = place.size();
    before += op->is(Opcode::AsyncDot);
  }
  for (Op *wait : order) {
    if (!wait->is(Opcode::AsyncDotWait) || wait->numResults() != 1 || !wait->result()->hasOneUse()) continue;
    Op *dot = wait->operand(0)->def();
    const Use use = wait->result()->uses().front();
    if (use.op != yield || !dot || !dot->is(Opcode::AsyncDot) || dot->parent() != &body || !dot->result()->hasOneUse())
      continue;
    if (!lasts(dot->operand(0), loop, releases) || !lasts(dot->operand(1), loop, releases) || !waitsBefore(*dot, body))
      continue;
    // The value of the iteration before and the dot's result share their registers: the dot goes on with that value, or starts from one
    // that is no longer in flight, and everybody else has read it before the dot.
    Value *arg = body.arg(1 + use.index), *from = dot->operand(2);
    if (from != arg && (from->block() == &body || (from->def() && from->def()->is(Opcode::AsyncDot)))) continue;
    auto goesOn = [&](const Use &u) { return u.op == dot && u.index == 2; };
    std::vector<Use> uses(arg->uses().begin(), arg->uses().end());
    if (uses.empty()) continue; // nobody would wait before the dot starts anew
    if (!llvm::all_of(uses, [&](const Use &u) { return goesOn(u) || place[topLevel(u.op, body)] < place[dot]; }))
      continue;
    any = true;
    yield->setOperand(use.index, dot->result());
    wait->erase();
    // Who reads the value waits for it.
    Op *first = nullptr;
    for (const Use &u : uses) {
      if (goesOn(u)) continue;
      Op *top = topLevel(u.op, body);
      if (!first || place[top] < place[first]) first = top;
    }
    Builder b(module);
    auto waitFor = [&](Value *v, int64_t pending) {
      Op *w = b.create(Opcode::AsyncDotWait, {v}, v->type);
      w->setAttr(Attr::pending, pending);
      return w->result();
    };
    if (first) {
      b.at(first);
      b.loc = dot->loc;
      Value *done = waitFor(arg, position[first] + (dots - 1 - position[dot]));
      for (const Use &u : uses)
        if (!goesOn(u)) u.op->setOperand(u.index, done);
    }
    Value *result = loop.result(use.index);
    if (!result->unused()) {
      b.after(&loop);
      b.loc = dot->loc;
      std::vector<Use> after(result->uses().begin(), result->uses().end());
      Value *done = waitFor(result, 0);
      for (const Use &u : after) u.op->setOperand(u.index, done);
    }
  }
  if (!any) return nullptr;
  int64_t issued = 0;
  Op *last = nullptr;
  for (Op &op : body) {
    if (op.is(Opcode::AsyncDot)) ++issued, last = &op;
    if (op.is(Opcode::AsyncDotWait) && op.intAttr(Attr::pending) <= issued) return &op;
  }
  Builder b(module);
  b.after(last);
  b.loc = last->loc;
  Op *limit = b.create(Opcode::AsyncDotWait, {}, {});
  limit->setAttr(Attr::pending, dots);
  return limit;
}

} // namespace tlx::passes
