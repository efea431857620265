// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a hand-written schedule may not do, said before anything is made of it: tasks that the target has no units, warps or registers for,
// and products in flight that are read. Two things are settled on the way.
//
// A wait retires a product only if enough were issued behind it; what it does not cover stays in flight, under its old name:
//
//   %1 = async_dot %a, %b, %acc                         %1 = async_dot %a, %b, %acc
//   %2 = async_dot_wait {pending = 1} %1       ->       async_dot_wait {pending = 1}
//   yield %2                                            yield %1
//
// Where tasks have budgets of registers, the default task gets what they leave.
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/Support/FormatVariadic.h"

#include "ir/builder.h"
#include "passes/passes.h"

namespace tlx::passes {

using namespace ir;

namespace {

constexpr int64_t kSettled = INT64_MAX / 2; // not in flight

/// How many products were issued since a value's own, at least, on any way through the program.
class Ages {
public:
  int64_t of(Value *v, const Op *at) {
    const int64_t own = base(v);
    return own >= kSettled ? own : own + between(v, at);
  }
  bool inFlight(Value *v) { return base(v) < kSettled; }

private:
  /// At the place where the value becomes visible.
  int64_t base(Value *v) {
    if (auto it = known.find(v); it != known.end()) return it->second;
    if (!v->type.isTile() || !open.insert(v).second) return kSettled; // around a loop: what else flows in decides
    const int64_t age = compute(v);
    open.erase(v);
    if (open.empty()) known[v] = age;
    return age;
  }
  int64_t compute(Value *v) {
    int64_t age = kSettled;
    auto from = [&](Value *x, const Op *at) { age = std::min(age, of(x, at)); };
    const unsigned i = v->index();
    if (Op *def = v->def()) {
      switch (def->opcode) {
      case Opcode::AsyncDot:
        return 0;
      case Opcode::AsyncDotWait: {
        const int64_t operand = of(def->operand(i), def);
        return operand >= def->intAttr(Attr::pending) ? kSettled : operand;
      }
      case Opcode::For:
        from(def->operand(3 + i), def);
        from(def->body().terminator()->operand(i), def->body().terminator());
        break;
      case Opcode::While:
        from(def->body(0).terminator()->operand(1 + i), def->body(0).terminator());
        break;
      case Opcode::If:
        for (unsigned r = 0; r < 2; ++r) from(def->body(r).terminator()->operand(i), def->body(r).terminator());
        break;
      default:
        break;
      }
      return age;
    }
    Op *owner = v->block()->parentOp();
    if (owner && owner->is(Opcode::For) && i > 0) {
      from(owner->operand(2 + i), owner);
      from(owner->body().terminator()->operand(i - 1), owner->body().terminator());
    } else if (owner && owner->is(Opcode::While)) {
      if (v->block() == &owner->body(0)) {
        from(owner->operand(i), owner);
        from(owner->body(1).terminator()->operand(i), owner->body(1).terminator());
      } else {
        from(owner->body(0).terminator()->operand(1 + i), owner->body(0).terminator());
      }
    }
    return age;
  }

  /// Products between the place where `v` becomes visible and `at`, inside which the way goes down into regions.
  static int64_t between(const Value *v, const Op *at) {
    const Block *home = v->def() ? v->def()->parent() : v->block();
    int64_t count = 0;
    for (const Op *op = at; op; op = op->parentOp()) {
      const bool last = op->parent() == home;
      for (const Op *p = op->prev(); p; p = p->prev()) {
        if (last && p == v->def()) return count;
        count += atLeast(*p);
      }
      if (last) break;
    }
    return count;
  }
  static int64_t atLeast(const Op &op) {
    if (op.is(Opcode::AsyncDot)) return 1;
    if (op.is(Opcode::If)) return std::min(atLeast(op.body(0)), atLeast(op.body(1)));
    return op.is(Opcode::While) ? atLeast(op.body(0)) : 0; // a for loop may have no iteration
  }
  static int64_t atLeast(const Block &block) {
    int64_t count = 0;
    for (const Op &op : block) count += atLeast(op);
    return count;
  }

  llvm::DenseMap<Value *, int64_t> known;
  llvm::DenseSet<Value *> open;
};

struct Checker {
  Module &module;
  const features::Target &target;
  Diagnostics &diagnostics;

  // --- units -----------------------------------------------------------------------------------------------------
  void units(const Op &op) {
    const bool isNvidia = target.vendor == features::Vendor::Nvidia;
    auto need = [&](bool has, const char *what, const char *instead) {
      if (!has) diagnostics.report(Diag::TaskUnits, op.loc, op.info().name, what, target.name, instead);
    };
    switch (op.opcode) {
    case Opcode::AsyncTasks:
      return need(isNvidia, "named barriers", "; write the kernel without tasks for it");
    case Opcode::NamedBarrier:
      return need(isNvidia, "named barriers", "");
    case Opcode::AllocBarriers:
      return need(target.tma, "mbarriers", "; a loop with num_stages has a pipeline there as well");
    case Opcode::AsyncDescLoad:
    case Opcode::AsyncDescStore:
      return need(target.tma, "TMA", "; use .load and .store of the descriptor");
    case Opcode::AsyncDescPrefetch:
      return need(target.tma, "TMA", "; leave it out");
    case Opcode::AsyncBulkLoad:
    case Opcode::AsyncBulkStore:
      return need(target.tma, "bulk copies", "; use load, store and buffers");
    case Opcode::WarpAny:
      return need(isNvidia, "warp-uniform branches", "; use a reduction over the tile");
    case Opcode::Fence:
      if (op.strAttr(Attr::scope) != "async_global") return;
      [[fallthrough]];
    case Opcode::FenceProxy:
      return need(target.tma, "an asynchronous proxy", "; leave it out");
    case Opcode::AsyncDot:
      return need(target.wgmma, "wgmma", "; use dot");
    default:
      return;
    }
  }

  // --- warps and registers -----------------------------------------------------------------------------------------
  void warps() {
    const unsigned warps = launchWarps(module.kernel);
    if (warps * module.kernel.warpSize > target.maxThreads)
      diagnostics.report(Diag::TaskThreads, module.kernel.loc, module.kernel.numWarps, warps, target.name,
                         target.maxThreads / module.kernel.warpSize);
  }
  void registers(Op &tasks) {
    constexpr int64_t kGroup = 4, kLeast = 24, kMost = 256;
    const int64_t all = launchWarps(module.kernel), launch = features::launchRegisters(unsigned(all));
    Op *own = tasks.body().front();
    int64_t asked = 0, warps = 0; // warps without a task keep theirs
    bool some = false;
    std::string terms;
    for (Op &task : tasks.body()) {
      if (!task.is(Opcode::Task)) continue;
      const int64_t n = task.intAttr(Attr::registers), w = task.intAttr(Attr::warps) * replicasOf(task);
      warps += w;
      if (!task.hasAttr(Attr::registers)) continue;
      some = true;
      asked += n * w;
      terms += llvm::formatv("{0}{1} x {2}", terms.empty() ? "" : " + ", n, w);
    }
    if (!some) return;
    for (Op &task : tasks.body())
      if (task.is(Opcode::Task) && (task.intAttr(Attr::warps) % kGroup || task.intAttr(Attr::start) % kGroup)) {
        const llvm::StringRef name = task.strAttr(Attr::name);
        diagnostics.report(Diag::TaskGroup, task.loc, name.empty() ? "this task" : "'" + name.str() + "'",
                           task.intAttr(Attr::warps));
        return;
      }
    const int64_t left = launch * warps - asked, mine = left / own->intAttr(Attr::warps) / 8 * 8;
    if (!own->hasAttr(Attr::registers) && mine >= kLeast) {
      own->setAttr(Attr::registers, std::min(mine, kMost));
      return;
    }
    if (own->hasAttr(Attr::registers) ? left >= 0 : false) return;
    diagnostics.report(
        Diag::TaskBudget, tasks.loc, asked, warps, launch * warps,
        llvm::formatv("{0}, of {1} a thread ({2} warps){3}", terms, launch, all,
                      left >= 0 ? llvm::formatv("; the default task needs {0} a thread at least", kLeast).str() : ""));
  }

  // --- products in flight --------------------------------------------------------------------------------------------
  void settleWaits(llvm::ArrayRef<Op *> waits) {
    Ages ages;
    std::vector<std::pair<Op *, std::vector<bool>>> covered;
    for (Op *wait : waits) {
      covered.push_back({wait, {}});
      for (Value *v : wait->operands())
        covered.back().second.push_back(ages.of(v, wait) >= wait->intAttr(Attr::pending));
    }
    for (auto &[wait, done] : covered)
      for (unsigned i = wait->numOperands(); i-- > 0;)
        if (!done[i]) {
          wait->result(i)->replaceAllUsesWith(wait->operand(i));
          wait->eraseResult(i);
          wait->eraseOperand(i);
        }
  }
  void flights() {
    Ages ages;
    module.kernel.body.walk([&](Op &op) {
      for (unsigned i = 0; i < op.numOperands(); ++i) {
        const bool passes = (op.is(Opcode::AsyncDot) && i == 2) || op.is(Opcode::AsyncDotWait) ||
                            op.is(Opcode::Yield) || op.is(Opcode::Condition) || op.is(Opcode::For) ||
                            op.is(Opcode::While);
        if (!passes && op.operand(i)->type.isTile() && ages.inFlight(op.operand(i))) {
          diagnostics.report(Diag::AsyncDotFlight, op.loc, 0);
          return;
        }
      }
    });
  }

  bool run() {
    const unsigned before = diagnostics.errorCount();
    std::vector<Op *> waits, tasks, loops;
    bool dots = false;
    module.kernel.body.walk([&](Op &op) {
      units(op);
      if (op.is(Opcode::AsyncDotWait)) waits.push_back(&op);
      if (op.is(Opcode::AsyncTasks)) tasks.push_back(&op);
      if (op.is(Opcode::For) && op.intAttr(Attr::num_stages) > 1 && taskOf(op)) loops.push_back(&op);
      dots |= op.is(Opcode::AsyncDot);
    });
    for (Op *op : loops) { // the schedule of a task is written by hand
      diagnostics.report(Diag::NotPipelined, op->loc,
                         "it stands in a task, whose copies and waits are those that it says");
      op->removeAttr(Attr::num_stages);
    }
    if (!tasks.empty()) warps();
    for (Op *op : tasks) registers(*op);
    if (diagnostics.errorCount() != before) return false;
    settleWaits(waits);
    if (dots) flights();
    return diagnostics.errorCount() == before;
  }
};

} // namespace

bool checkTasks(Module &module, const features::Target &target, Diagnostics &diagnostics) {
  return Checker{module, target, diagnostics}.run();
}

} // namespace tlx::passes
