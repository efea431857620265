// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What tasks share, in the form in which warps do it.
//
// Arrivals. One of a task counts once, whatever its warps. Where all who arrive at a barrier are tasks of one size, each warp arrives for
// itself and the barrier counts warps, so that nobody waits for the others of its task; else the task meets, and one thread arrives.
//
//   %e = alloc_barriers {arrivals = 2}                  %e = alloc_barriers {arrivals = 8}
//   task {warps = 4} { barrier_arrive {task = 1} … ->   task {warps = 4} { barrier_arrive …
//
// Waits. Each warp waits for itself. What makes the others go on, and with them the phases, is issued when all warps of the task have passed their
// waits: a warp that falls behind by two phases waits for ever.
//
//   barrier_wait; single { barrier_expect … }     ->      barrier_wait; barrier; single { barrier_expect … }
//
// Branches that warp_any decides are taken by some warps and not by others: what stands in them keeps to the warp, which is checked here, where
// everything that needs shared memory is there to be seen.
//
// Captures. The warps of a task did not run what stands outside: numbers that are computed there from arguments are computed again in the
// task, and so are views of buffers. What they cannot compute again (it was read from memory, or comes out of a loop or branch) the kernel's own
// warps put into shared memory before the region, where all warps meet:
//
//   %1 = load %p : i32                                  %1 = load %p : i32
//   async_tasks {                                       %2 = local_alloc : buffer<i32[1], 1, smem>
//     task { … }                                        local_store %2, %1
//     task { … %1 … }                            ->     async_tasks {
//                                                         task { … }
//                                                         task { %3 = local_load %2 : i32 … %3 …
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

#include "ir/builder.h"
#include "passes/passes.h"

namespace tlx::passes {

using namespace ir;

namespace {

struct Lowering {
  Lowering(Module &module, Diagnostics &diagnostics) : module(module), diagnostics(diagnostics) {}
  Module &module;
  Diagnostics &diagnostics;

  // --- arrivals ------------------------------------------------------------------------------------------------------
  static void usersOf(Value *barriers, std::vector<Op *> &users) {
    for (const Use &use : barriers->uses())
      if (use.op->is(Opcode::SubView))
        usersOf(use.op->result(), users);
      else
        users.push_back(use.op);
  }
  void arrivals(Op &alloc) {
    std::vector<Op *> users;
    usersOf(alloc.result(), users);
    int64_t warps = 0; // of each task that arrives; -1: they differ, or one thread arrives
    bool any = false;
    for (Op *op : users) {
      if (op->is(Opcode::BarrierExpect)) warps = -1;
      if (!op->is(Opcode::BarrierArrive)) continue;
      const int64_t own = op->intAttr(Attr::task) ? int64_t(warpsOf(module, *op)) : -1;
      any |= op->intAttr(Attr::task) != 0;
      warps = warps == 0 || warps == own ? own : -1;
    }
    if (!any) return;
    const int64_t count = alloc.intAttr(Attr::arrivals, 1);
    if (warps > 0) alloc.setAttr(Attr::arrivals, count * warps);
    for (Op *op : users) {
      if (!op->is(Opcode::BarrierArrive) || !op->intAttr(Attr::task)) continue;
      op->removeAttr(Attr::task);
      if (warps < 0) together(*op);
    }
  }
  /// The task meets, then one thread arrives.
  void together(Op &arrive) {
    Builder b(module);
    b.at(&arrive);
    b.loc = arrive.loc;
    b.create(Opcode::Barrier, {}, {}); // also of one warp: the lane that arrives may not run ahead of the others' waits
    Op *single = b.create(Opcode::Single, arrive.operands().drop_front(1), {});
    Block &body = single->addRegion();
    if (arrive.numOperands() > 1) arrive.eraseOperand(1);
    arrive.moveTo(body);
    b.atEnd(body);
    b.yield({});
  }

  // --- waits ---------------------------------------------------------------------------------------------------------
  static bool movesPhases(Op &single) {
    bool moves = false;
    single.walk([&](Op &op) {
      moves |= op.is(Opcode::BarrierExpect) || op.is(Opcode::AsyncDescLoad) || op.is(Opcode::AsyncBulkLoad);
    });
    return moves;
  }
  void meetBeforeIssue(Op &task) {
    if (warpsOf(module, task) == 1) return;
    std::vector<Op *> singles;
    bool waits = false;
    task.walk([&](Op &op) {
      waits |= op.is(Opcode::BarrierWait);
      if (op.is(Opcode::Single) && movesPhases(op)) singles.push_back(&op);
    });
    for (Op *single : singles) {
      if (!waits || (single->prev() && single->prev()->is(Opcode::Barrier))) continue;
      Builder b(module);
      b.at(single);
      b.loc = single->loc;
      b.create(Opcode::Barrier, {}, {});
    }
  }

  // --- captures ------------------------------------------------------------------------------------------------------
  static bool isInside(const Value &v, const Op &task) {
    const Op *at = v.def() ? v.def()->parentOp() : v.block()->parentOp();
    while (at && at != &task) at = at->parentOp();
    return at != nullptr;
  }
  /// What every warp has: arguments, and what lies at a place that is known.
  bool isShared(const Value &v) const {
    return (!v.def() && v.block() == &module.kernel.body) ||
           (v.def() && (v.def()->is(Opcode::LocalAlloc) || v.def()->is(Opcode::AllocBarriers)));
  }
  llvm::DenseMap<std::pair<Value *, Op *>, Value *> mailboxes; // by value and region
  /// The buffer that holds a number or pointer for the tasks of a region.
  Value *mailbox(Value *v, Op &tasks) {
    Value *&box = mailboxes[{v, &tasks}];
    if (box) return box;
    Builder b(module);
    b.at(&tasks);
    b.loc = tasks.loc;
    const Scalar stored = v->type.isPointer() ? Scalar::I64 : v->type.scalar();
    box = b.localAlloc(stored, {1}, 1, module.context.unique(layout::SharedLayout::rowMajor({1}, {0})));
    Value *bits = v->type.isPointer() ? b.create(Opcode::Bitcast, v, b.i64())->result() : v;
    b.create(Opcode::LocalStore, {box, bits}, {});
    return box;
  }
  Value *handedOver(Value *v, Builder &b, Op &tasks) {
    const Type type = v->type;
    Value *box = mailbox(v, tasks);
    Value *read = b.create(Opcode::LocalLoad, box, module.context.scalar(box->type.scalar()))->result();
    return type.isPointer() ? b.create(Opcode::Bitcast, read, type)->result() : read;
  }
  Value *again(Value *v, Builder &b, llvm::DenseMap<Value *, Value *> &map, const Op &user, Op &tasks) {
    if (isShared(*v)) return v;
    if (auto it = map.find(v); it != map.end()) return it->second;
    Op *def = v->def();
    if (!def || !def->has(Pure) || def->has(Collective) || def->numRegions()) {
      if ((v->type.isScalar() || v->type.isPointer()) && !differs(v)) return map[v] = handedOver(v, b, tasks);
      diagnostics.report(Diag::TaskCapture, user.loc);
      return nullptr;
    }
    for (Value *operand : def->operands())
      if (Value *copy = again(operand, b, map, user, tasks))
        map[operand] = copy;
      else
        return nullptr;
    b.clone(*def, map);
    return map[v];
  }
  void captures(Op &task) {
    Builder b(module);
    b.at(task.body().front());
    b.loc = task.loc;
    llvm::DenseMap<Value *, Value *> map;
    std::vector<Op *> ops;
    task.walk([&](Op &op) { ops.push_back(&op); });
    for (Op *op : ops)
      for (unsigned i = 0; i < op->numOperands(); ++i) {
        Value *v = op->operand(i);
        if (isShared(*v) || isInside(*v, task)) continue;
        Value *copy = again(v, b, map, *op, *task.parentOp());
        if (!copy) return;
        op->setOperand(i, copy);
      }
  }

  // --- warp-uniform branches -----------------------------------------------------------------------------------------
  /// Numbers that may differ from warp to warp: all that a warp_any decides or flows into.
  llvm::DenseSet<const Value *> perWarp;
  bool differs(const Value *v) const { return perWarp.contains(v); }
  void spread(Value *any) {
    std::vector<Value *> open;
    auto reach = [&](Value *v) {
      if (!v->type.isTile() && perWarp.insert(v).second) open.push_back(v);
    };
    reach(any);
    while (!open.empty()) {
      Value *v = open.back();
      open.pop_back();
      for (const Use &use : v->uses()) {
        Op *op = use.op, *around = op->parentOp();
        if (op->is(Opcode::For) && use.index >= 3)
          reach(op->body().arg(use.index - 2)), reach(op->result(use.index - 3));
        if (op->is(Opcode::While)) reach(op->body(0).arg(use.index));
        if (op->is(Opcode::Yield) && around->is(Opcode::While)) reach(around->body(0).arg(use.index));
        if (op->is(Opcode::Yield) && around->is(Opcode::For)) reach(around->body().arg(1 + use.index));
        if (op->is(Opcode::Yield) && !around->is(Opcode::While)) reach(around->result(use.index));
        if (op->is(Opcode::Condition) && use.index)
          reach(around->body(1).arg(use.index - 1)), reach(around->result(use.index - 1));
        if (op->is(Opcode::For) || op->is(Opcode::While)) continue;
        for (unsigned i = 0; i < op->numResults(); ++i) reach(op->result(i));
      }
    }
  }
  void keepsToWarp(const Block &body) {
    bool said = false;
    const_cast<Block &>(body).walk([&](Op &op) {
      const bool own = op.has(Terminator) || op.is(Opcode::If) || (op.has(Pure) && !op.is(Opcode::Dot)) ||
                       op.is(Opcode::Reduce) || op.is(Opcode::Assume);
      if (own || said) return;
      said = true;
      diagnostics.report(Diag::WarpBranch, op.loc,
                         op.is(Opcode::LocalAlloc) ? "what it computes crosses warps, through shared memory"
                                                   : op.info().name);
    });
  }
  void warpBranches() {
    module.kernel.body.walk([&](Op &op) {
      if (op.is(Opcode::WarpAny)) spread(op.result());
    });
    module.kernel.body.walk([&](Op &op) {
      auto refuse = [&](unsigned operand) {
        if (op.numOperands() > operand && differs(op.operand(operand)))
          diagnostics.report(Diag::WarpBranch, op.loc, op.info().name);
      };
      switch (op.opcode) {
      case Opcode::If:
        if (differs(op.operand(0))) keepsToWarp(op.body(0)), keepsToWarp(op.body(1));
        break;
      case Opcode::For:
        for (unsigned i = 0; i < 3; ++i) refuse(i);
        break;
      case Opcode::Condition:
      case Opcode::Single:
        refuse(0);
        break;
      case Opcode::BarrierArrive:
      case Opcode::BarrierWait:
      case Opcode::SubView:
        refuse(1);
        break;
      case Opcode::AsyncDot:
        refuse(3);
        break;
      case Opcode::AsyncDescLoad:
      case Opcode::AsyncDescStore:
      case Opcode::EdgeStore:
        for (unsigned i = 2; i < op.numOperands(); ++i) refuse(i);
        break;
      case Opcode::AsyncDescPrefetch:
        for (unsigned i = 1; i < op.numOperands(); ++i) refuse(i);
        break;
      case Opcode::AsyncBulkLoad:
      case Opcode::AsyncBulkStore:
        refuse(0);
        break;
      default:
        break;
      }
    });
  }

  bool run() {
    const unsigned before = diagnostics.errorCount();
    std::vector<Op *> barriers, tasks;
    module.kernel.body.walk([&](Op &op) {
      if (op.is(Opcode::Task)) tasks.push_back(&op);
      if (op.is(Opcode::AllocBarriers)) barriers.push_back(&op);
    });
    for (Op *op : barriers) arrivals(*op);
    warpBranches(); // on what the program says
    for (Op *task : tasks) meetBeforeIssue(*task);
    for (Op *task : tasks)
      if (task->intAttr(Attr::start)) captures(*task); // the default task runs on the warps that ran the rest
    return diagnostics.errorCount() == before;
  }
};

} // namespace

bool lowerTasks(Module &module, const features::Target &, Diagnostics &diagnostics) {
  return Lowering(module, diagnostics).run();
}

} // namespace tlx::passes
