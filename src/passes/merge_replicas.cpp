// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Replicas of a task that differ in numbers only become one task, so that their code is made and assembled once.
//
//   task {start = 4, replica = 0} { %0 = constant {value = 0}                     task {start = 4, replicas = 2} {
//     %1 = subview %q, %0  …  named_barrier {id = 8} }                              %0 = per_replica {values = [0, 1]}
//   task {start = 8, replica = 1} { %0 = constant {value = 1}              ->       %1 = subview %q, %0  …
//     %1 = subview %q, %0  …  named_barrier {id = 9} }                              named_barrier {ids = [8, 9]} }
//
// What only some of them do, and which gives nothing, is done under a condition. First of all passes: folding makes the replicas differ in more
// than their numbers.
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

#include "ir/builder.h"
#include "passes/passes.h"

namespace tlx::passes {

using namespace ir;

namespace {

using Group = llvm::SmallVector<Op *, 4>; // an op of each replica

struct Merger {
  Merger(Module &module, llvm::ArrayRef<Op *> tasks) : module(module), tasks(tasks), maps(tasks.size()) {}
  Module &module;
  llvm::ArrayRef<Op *> tasks;
  std::vector<llvm::DenseMap<Value *, Value *>> maps; // a replica's value → the first one's
  std::vector<std::function<void()>> edits;           // of the first, made when all is known to fit

  static Op *skipConstants(Op *op) {
    while (op->is(Opcode::Constant)) op = op->next();
    return op;
  }
  static Op *after(Op *op) { return skipConstants(op->next()); }
  /// An integer, or a tile of one.
  static bool isNumber(const Value *v) { return v->def() && v->def()->is(Opcode::Constant) && v->type.isIntLike(); }
  /// May have another value in each replica.
  static bool mayDiffer(const Op &op, Attr attr) {
    return (op.is(Opcode::LocalSlice) && attr == Attr::offsets) || (op.is(Opcode::NamedBarrier) && attr == Attr::id);
  }
  static bool alike(const Op &a, const Op &b) {
    if (a.opcode != b.opcode || a.numOperands() != b.numOperands() || a.numResults() != b.numResults() ||
        a.numRegions() != b.numRegions() || a.attrs().size() != b.attrs().size())
      return false;
    for (unsigned i = 0; i < a.numResults(); ++i)
      if (a.result(i)->type != b.result(i)->type) return false;
    for (unsigned i = 0; i < a.attrs().size(); ++i)
      if (a.attrs()[i].first != b.attrs()[i].first ||
          (a.attrs()[i].second != b.attrs()[i].second && !mayDiffer(a, a.attrs()[i].first)))
        return false;
    return true;
  }

  Value *perReplica(Builder &b, std::vector<int64_t> values, Type type) {
    Op *op = b.create(Opcode::PerReplica, {}, type.isTile() ? module.context.scalar(type.scalar()) : type);
    op->setAttr(Attr::values, std::move(values));
    return type.isTile() ? b.create(Opcode::Splat, {op->result()}, type)->result() : op->result();
  }

  bool operands(const Group &ops) {
    for (unsigned i = 0; i < ops[0]->numOperands(); ++i) {
      Value *first = ops[0]->operand(i);
      std::vector<int64_t> numbers;
      bool differ = false;
      for (size_t r = 0; r < ops.size(); ++r) {
        Value *own = ops[r]->operand(i);
        if (isNumber(first) && isNumber(own) && own->type == first->type) {
          numbers.push_back(own->def()->intAttr(Attr::value));
          differ |= numbers[r] != numbers[0];
        } else if (const Op *a = first->def(), *c = own->def();
                   a && c && a->is(Opcode::Constant) && c->is(Opcode::Constant)) {
          if (!alike(*a, *c)) return false;
        } else if (own != first && (r == 0 || maps[r].lookup(own) != first)) {
          return false;
        }
      }
      if (!differ) continue;
      if (numbers.size() != ops.size()) return false;
      edits.push_back([this, op = ops[0], i, numbers] {
        Builder b(module);
        b.at(op);
        b.loc = op->loc;
        op->setOperand(i, perReplica(b, numbers, op->operand(i)->type));
      });
    }
    return true;
  }

  /// Every replica has this op.
  bool all(const Group &ops) {
    if (!operands(ops)) return false;
    for (size_t r = 1; r < ops.size(); ++r)
      for (unsigned i = 0; i < ops[0]->numResults(); ++i) maps[r][ops[r]->result(i)] = ops[0]->result(i);
    for (const auto &[attr, value] : ops[0]->attrs()) {
      if (!mayDiffer(*ops[0], attr)) continue;
      std::vector<int64_t> list;
      bool differ = false;
      for (Op *op : ops) {
        if (attr == Attr::id)
          list.push_back(op->intAttr(attr));
        else
          list.insert(list.end(), op->listAttr(attr).begin(), op->listAttr(attr).end());
        differ |= !alike(*op, *ops[0]) || op->attrs() != ops[0]->attrs();
      }
      if (!differ) continue;
      edits.push_back([op = ops[0], attr = attr, list] {
        op->removeAttr(attr);
        op->setAttr(attr == Attr::id ? Attr::ids : attr, list);
      });
    }
    for (unsigned k = 0; k < ops[0]->numRegions(); ++k) {
      llvm::SmallVector<Block *, 4> blocks;
      for (Op *op : ops) blocks.push_back(&op->body(k));
      if (!regions(blocks)) return false;
    }
    return true;
  }

  /// Some replicas, those in `has`, do ops[r] before they come to what the others do next.
  bool some(const Group &ops, llvm::ArrayRef<bool> has) {
    const size_t who = size_t(llvm::find(has, true) - has.begin());
    Op *op = ops[who], *before = ops[0];
    for (size_t r = 0; r < ops.size(); ++r)
      if (has[r] && r != who && (op->numOperands() || ops[r]->attrs() != op->attrs())) return false;
    llvm::DenseMap<Value *, Value *> own;
    for (Value *v : op->operands()) {
      const bool known = who == 0 || isNumber(v) || maps[who].contains(v) || !taskOfValue(*v);
      if (!known) return false;
      if (who && maps[who].contains(v)) own[v] = maps[who].lookup(v);
    }
    std::vector<int64_t> flags(has.begin(), has.end());
    edits.push_back([this, op, before, own, flags]() mutable {
      Builder b(module);
      b.at(before);
      b.loc = op->loc;
      Op *branch = b.create(Opcode::If, {perReplica(b, flags, b.i1())}, {});
      Builder in(module);
      in.loc = op->loc;
      in.atEnd(branch->addRegion());
      for (Value *v : op->operands())
        if (isNumber(v) && op != before) own[v] = in.clone(*v->def(), own)->result();
      in.clone(*op, own);
      in.yield({});
      in.atEnd(branch->addRegion());
      in.yield({});
      if (op == before) op->erase();
    });
    return true;
  }
  static const Op *taskOfValue(const Value &v) {
    if (v.def()) return taskOf(*v.def());
    const Op *around = v.block()->parentOp();
    return !around || around->is(Opcode::Task) ? around : taskOf(*around);
  }

  bool regions(llvm::ArrayRef<Block *> blocks) {
    for (size_t r = 1; r < blocks.size(); ++r) {
      if (blocks[r]->numArgs() != blocks[0]->numArgs()) return false;
      for (unsigned i = 0; i < blocks[0]->numArgs(); ++i) maps[r][blocks[r]->arg(i)] = blocks[0]->arg(i);
    }
    Group at;
    for (Block *b : blocks) at.push_back(skipConstants(b->front()));
    for (;;) {
      if (llvm::all_of(at, [&](Op *op) { return alike(*op, *at[0]); })) {
        const bool last = at[0]->isTerminator();
        if (!all(at)) return false;
        if (last) return true;
        for (Op *&op : at) op = after(op);
        continue;
      }
      if (!oneMore(at)) return false;
    }
  }
  /// One op of some replicas that the others do not have, after which all go on alike.
  bool oneMore(Group &at) {
    for (Op *op : at) {
      if (op->numResults() || op->numRegions() || op->isTerminator()) continue;
      llvm::SmallVector<bool, 4> has;
      Group next;
      for (Op *o : at) {
        has.push_back(alike(*o, *op));
        next.push_back(has.back() ? after(o) : o);
      }
      if (!llvm::all_of(next, [&](Op *o) { return alike(*o, *next[0]); })) continue;
      if (!some(at, has)) return false;
      at = next;
      return true;
    }
    return false;
  }

  bool run() {
    llvm::SmallVector<Block *, 4> blocks;
    for (Op *task : tasks) blocks.push_back(&task->body());
    if (!regions(blocks)) return false;
    for (auto &edit : edits) edit();
    tasks[0]->removeAttr(Attr::replica);
    tasks[0]->setAttr(Attr::replicas, int64_t(tasks.size()));
    for (Op *task : tasks.drop_front()) task->erase();
    return true;
  }
};

/// The other replicas of `first`'s text behind it, on warps that follow one another: with it, or alone.
llvm::SmallVector<Op *, 4> replicasOf(Op *first) {
  llvm::SmallVector<Op *, 4> tasks{first};
  const int64_t warps = first->intAttr(Attr::warps);
  for (Op *op = first->next(); op && op->is(Opcode::Task); op = op->next()) {
    const int64_t number = int64_t(tasks.size());
    if (op->intAttr(Attr::replica) != number ||
        op->intAttr(Attr::start) != first->intAttr(Attr::start) + number * warps)
      break;
    tasks.push_back(op);
  }
  return tasks;
}

} // namespace

bool mergeReplicas(Module &module, const features::Target &, Diagnostics &) {
  std::vector<Op *> firsts;
  module.kernel.body.walk([&](Op &op) {
    if (op.is(Opcode::Task) && op.hasAttr(Attr::replica) && op.intAttr(Attr::replica) == 0) firsts.push_back(&op);
  });
  for (Op *first : firsts) {
    const auto tasks = replicasOf(first);
    if (tasks.size() > 1) Merger(module, tasks).run();
  }
  return true;
}

} // namespace tlx::passes
