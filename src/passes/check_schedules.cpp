// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a hand-written schedule says that cannot work, as far as it is certain: slots outside of a ring, bytes that are expected and do not come,
// named barriers that never fill, waits that never end (walk_schedule.cpp). Advice alone: nothing is changed, and no later pass relies on it.
#include "llvm/ADT/STLExtras.h"

#include "ir/names.h"
#include "passes/axis_analysis.h"
#include "passes/passes.h"
#include "passes/walk_schedule.h"

namespace tlx::passes {

using namespace ir;

namespace {

struct Checker {
  const Module &module;
  Diagnostics &diagnostics;

  // --- slots and phases ----------------------------------------------------------------------------------------------
  void ranges(llvm::ArrayRef<const Op *> ops) {
    AxisAnalysis axis(module);
    auto text = [](const AxisInfo &info) {
      return info.min == info.max ? std::to_string(info.min)
                                  : std::to_string(info.min) + " to " + std::to_string(info.max);
    };
    for (const Op *op : ops) {
      const AxisInfo &info = axis.info(op->operand(1));
      if (op->is(Opcode::BarrierWait)) {
        if (info.min > 1 || info.max < 0) diagnostics.report(Diag::PhaseValue, op->loc, text(info));
        continue;
      }
      const int64_t depth = op->operand(0)->type.depth();
      if (info.min >= depth || info.max < 0)
        diagnostics.report(Diag::SlotOutside, op->loc, text(info), slotText(*slotOf(op->operand(0)).alloc), depth);
    }
  }

  // --- bytes -----------------------------------------------------------------------------------------------------------
  /// Operations that happen equally often: of one block, under one predicate, at one slot.
  struct Place {
    const Block *block;
    const Value *predicate, *index;
    int64_t number; // of a slot that is a constant
    bool operator==(const Place &) const = default;
  };
  static Place placeOf(const Op &op, const Value *barrier) {
    const Value *index = slotOf(barrier).index;
    Place p{op.parent(), nullptr, index, 0};
    if (index && index->def() && index->def()->is(Opcode::Constant))
      p.index = nullptr, p.number = index->def()->intAttr(Attr::value);
    if (const Op *single = op.parentOp(); single && single->is(Opcode::Single)) {
      p.block = single->parent();
      if (single->numOperands()) p.predicate = single->operand(0);
    }
    return p;
  }
  struct Traffic {
    int64_t expected = 0, loaded = 0;
    const Op *expect = nullptr;
    std::string loads;
  };
  void bytes(const Op &alloc, llvm::ArrayRef<const Op *> users) {
    std::vector<std::pair<Place, Traffic>> places; // in the order of the text
    auto at = [&](const Place &p) { return llvm::find_if(places, [&](auto &one) { return one.first == p; }); };
    bool any = false;
    for (const Op *op : users)
      if (op->is(Opcode::BarrierExpect)) {
        const Place place = placeOf(*op, op->operand(0));
        if (at(place) == places.end()) places.push_back({place, {}});
        Traffic &t = at(place)->second;
        t.expected += op->intAttr(Attr::bytes);
        if (!t.expect) t.expect = op;
      }
    for (const Op *op : users) {
      if (!op->is(Opcode::AsyncDescLoad) && !op->is(Opcode::AsyncBulkLoad)) continue;
      auto it = at(placeOf(*op, op->operand(2)));
      if (it == places.end()) return; // expected elsewhere
      const int64_t n = op->is(Opcode::AsyncBulkLoad) ? op->intAttr(Attr::bytes) : bufferBytes(op->operand(1)->type);
      it->second.loaded += n;
      it->second.loads += (it->second.loads.empty() ? "" : ", ") + std::to_string(n) + " by the load in line " +
                          std::to_string(op->loc.line);
      any = true;
    }
    for (auto &[place, t] : places) {
      if (t.expected == t.loaded || (any && !t.loaded)) continue;
      diagnostics.report(Diag::ExpectBytes, t.expect->loc, t.expected,
                         slotText(alloc, place.index || alloc.result()->type.depth() == 1 ? -1 : place.number),
                         t.loaded, t.loads.empty() ? "no load names this barrier" : t.loads);
    }
  }

  // --- named barriers ----------------------------------------------------------------------------------------------------
  void namedBarriers(llvm::ArrayRef<const Op *> ops) {
    struct Use {
      const Op *first = nullptr;
      llvm::SmallVector<std::pair<const Op *, int64_t>, 4> tasks; // and replica, -1: all
    };
    using Key = std::tuple<const Op *, int64_t, int64_t>; // async_tasks, id, threads
    std::vector<std::pair<Key, Use>> uses;                // in the order of the text
    auto tasksOf = [](const Op &op) { return taskOf(op) ? taskOf(op)->parentOp() : nullptr; };
    auto idOf = [](const Op &op, unsigned replica) {
      return op.hasAttr(Attr::ids) ? op.listAttr(Attr::ids)[replica] : op.intAttr(Attr::id);
    };
    for (const Op *op : ops)
      for (unsigned r = 0; r < replicasOf(*op); ++r) {
        const Key key{tasksOf(*op), idOf(*op, r), op->intAttr(Attr::threads)};
        auto found = llvm::find_if(uses, [&](auto &one) { return one.first == key; });
        Use &use = found == uses.end() ? uses.emplace_back(key, Use()).second : found->second;
        if (!use.first) use.first = op;
        const std::pair<const Op *, int64_t> task{taskOf(*op), replicasOf(*op) > 1 ? int64_t(r) : -1};
        if (!llvm::is_contained(use.tasks, task)) use.tasks.push_back(task);
      }
    for (auto &[key, use] : uses) {
      auto [tasks, id, threads] = key;
      int64_t sum = 0, most = 0;
      std::string who;
      for (auto [task, replica] : use.tasks) {
        const int64_t n = int64_t(task ? task->intAttr(Attr::warps) : module.kernel.numWarps) * module.kernel.warpSize;
        sum += n, most = std::max(most, n);
        who += (who.empty() ? "" : ", ") + taskText(task, replica) + " " + std::to_string(n);
      }
      if (sum >= threads && most <= threads) continue;
      std::string others;
      for (const Op *op : ops)
        if (idOf(*op, 0) == id && op->intAttr(Attr::threads) != threads && tasksOf(*op) == tasks && others.empty())
          others =
              "; line " + std::to_string(op->loc.line) + " uses it with " + std::to_string(op->intAttr(Attr::threads));
      diagnostics.report(Diag::NamedBarrierThreads, use.first->loc, id, threads, sum, who, others);
    }
  }

  // --- waits -------------------------------------------------------------------------------------------------------------
  /// A barrier that nobody arrives at, where the walk saw nothing.
  void neverArrives(const Op &alloc, llvm::ArrayRef<const Op *> users) {
    auto arrives = [](const Op *op) { return op->is(Opcode::BarrierArrive) || op->is(Opcode::BarrierExpect); };
    if (llvm::any_of(users, arrives)) return;
    for (const Op *op : users) {
      if (!op->is(Opcode::BarrierWait)) continue;
      const Op *phase = op->operand(1)->def();
      const bool isKnown = phase && phase->is(Opcode::Constant);
      if (isKnown && phase->intAttr(Attr::value) == 1) continue; // passes
      if (isKnown)
        diagnostics.report(Diag::WaitForever, op->loc, taskText(taskOf(*op)), "", 0, slotText(alloc), "an arrival",
                           "none: no task arrives there");
      else
        diagnostics.report(Diag::NeverArrives, op->loc, taskText(taskOf(*op)), slotText(alloc));
      return;
    }
  }

  static void usersOf(const Value &view, std::vector<const Op *> &users) {
    for (const Use &use : view.uses())
      if (use.op->is(Opcode::SubView))
        usersOf(*use.op->result(), users);
      else
        users.push_back(use.op);
  }

  bool run() {
    const unsigned before = diagnostics.errorCount();
    std::vector<const Op *> allocs, indexed, named;
    const_cast<Module &>(module).kernel.body.walk([&](Op &op) {
      if (op.is(Opcode::AllocBarriers)) allocs.push_back(&op);
      if (op.is(Opcode::SubView) || op.is(Opcode::BarrierWait)) indexed.push_back(&op);
      if (op.is(Opcode::NamedBarrier)) named.push_back(&op);
    });
    if (!indexed.empty()) ranges(indexed);
    namedBarriers(named);
    for (const Op *alloc : allocs) {
      std::vector<const Op *> users;
      usersOf(*alloc->result(), users);
      bytes(*alloc, users);
    }
    if (allocs.empty() || diagnostics.errorCount() != before) return diagnostics.errorCount() == before;
    if (!walkSchedule(module, diagnostics))
      for (const Op *alloc : allocs) {
        std::vector<const Op *> users;
        usersOf(*alloc->result(), users);
        neverArrives(*alloc, users);
      }
    return diagnostics.errorCount() == before;
  }
};

} // namespace

bool checkSchedules(Module &module, const features::Target &, Diagnostics &diagnostics) {
  return Checker{module, diagnostics}.run();
}

} // namespace tlx::passes
