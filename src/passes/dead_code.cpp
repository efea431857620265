// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Dead code. Effects are the roots; what they need is marked through operands, carried values and results of regions;
// the rest goes. A value that a loop only carries around for itself is never reached:
//
//   %r, %s = for …, %a, %b : … ^(%i, %x, %y) {         %s = for …, %b : … ^(%i, %y) {
//     %x2 = add %x, %c                            ->
//     store …, %y                                         store …, %y
//     yield %x2, %y2                                      yield %y2
//   }   // %r unused                                    }
#include "llvm/ADT/DenseSet.h"

#include "passes/simplify_p.h"

namespace tlx::passes::detail {
using namespace ir;

namespace {

struct Liveness {
  llvm::DenseSet<const Op *> ops;
  llvm::DenseSet<std::pair<const Op *, unsigned>> slots; // carried values and results of control ops
  std::vector<Value *> work;

  static bool isRoot(const Op &op) {
    if (op.has(Writes) || op.has(Sync) || op.has(Async) || op.has(Assumes) || op.is(Opcode::Return)) return true;
    if (!op.is(Opcode::While)) return false;
    // A while loop that reads memory may wait for another program.
    bool reads = false;
    for (unsigned r = 0; r < 2; ++r) op.body(r).walk([&](Op &o) { reads = reads || o.has(Reads); });
    return reads;
  }

  void need(Value *v) { work.push_back(v); }

  void markOp(Op *op) {
    for (; op && ops.insert(op).second; op = op->parentOp()) {
      switch (op->opcode) {
      case Opcode::For:
        for (unsigned i = 0; i < 3; ++i) need(op->operand(i));
        break;
      case Opcode::While:
        need(op->body(0).terminator()->operand(0));
        break;
      case Opcode::If:
        need(op->operand(0));
        break;
      case Opcode::AsyncTasks: // the default task stays: it is the kernel's own warps, whatever they do
        markOp(op->body().front());
        break;
      case Opcode::Yield:
      case Opcode::Condition:
        break; // by slot
      default:
        for (Value *v : op->operands()) need(v);
        for (unsigned r = 0; r < op->numRegions(); ++r)
          for (Value *v : op->body(r).terminator()->operands()) need(v);
      }
    }
  }

  void markSlot(Op *op, unsigned i) {
    if (!slots.insert({op, i}).second) return;
    if (op->is(Opcode::For)) {
      need(op->operand(3 + i));
      need(op->body().terminator()->operand(i));
    } else if (op->is(Opcode::While)) {
      need(op->operand(i));
      need(op->body(0).terminator()->operand(1 + i));
      need(op->body(1).terminator()->operand(i));
    } else {
      for (unsigned r = 0; r < 2; ++r) need(op->body(r).terminator()->operand(i));
    }
  }

  void run(Block &body) {
    body.walk([&](Op &op) {
      if (isRoot(op)) markOp(&op);
    });
    while (!work.empty()) {
      Value *v = work.back();
      work.pop_back();
      if (Op *def = v->def()) {
        markOp(def);
        if (def->has(Control)) markSlot(def, v->index());
        continue;
      }
      Op *owner = v->block()->parentOp();
      if (!owner) continue;
      markOp(owner);
      if (owner->is(Opcode::For) && v->index() > 0) markSlot(owner, v->index() - 1);
      if (owner->is(Opcode::While)) markSlot(owner, v->index());
    }
  }
};

struct Sweeper {
  const Liveness &live;
  bool changed = false;

  /// Cuts what feeds the dead slots of a live op, so that nothing uses what will go.
  void cut(Op &op) {
    for (unsigned i = op.numResults(); i-- > 0;) {
      if (live.slots.contains({&op, i})) continue;
      if (op.is(Opcode::For)) op.eraseOperand(3 + i);
      if (op.is(Opcode::While)) {
        op.eraseOperand(i);
        op.body(0).terminator()->eraseOperand(1 + i);
        op.body(1).terminator()->eraseOperand(i);
      } else {
        for (unsigned r = 0; r < op.numRegions(); ++r) op.body(r).terminator()->eraseOperand(i);
      }
    }
  }
  void eraseSlots(Op &op) {
    for (unsigned i = op.numResults(); i-- > 0;) {
      if (live.slots.contains({&op, i})) continue;
      changed = true;
      op.eraseResult(i);
      if (op.is(Opcode::For)) op.body().eraseArg(1 + i);
      if (op.is(Opcode::While))
        for (unsigned r = 0; r < 2; ++r) op.body(r).eraseArg(i);
    }
  }

  void cutAll(Block &b) {
    b.walk([&](Op &op) {
      if (op.has(Control) && live.ops.contains(&op)) cut(op);
    });
  }
  /// Backwards: users go before what they use.
  void sweep(Block &b) {
    for (Op *op = b.back(); op;) {
      Op *before = op->prev();
      if (op->isTerminator()) {
        // stays with its region
      } else if (!live.ops.contains(op)) {
        op->erase();
        changed = true;
      } else {
        for (unsigned r = op->numRegions(); r-- > 0;) sweep(op->body(r));
        if (op->has(Control)) eraseSlots(*op);
      }
      op = before;
    }
  }
};

} // namespace

bool eraseDead(Module &module) {
  Liveness live;
  live.run(module.kernel.body);
  Sweeper sweeper{live};
  sweeper.cutAll(module.kernel.body);
  sweeper.sweep(module.kernel.body);
  return sweeper.changed;
}

} // namespace tlx::passes::detail
