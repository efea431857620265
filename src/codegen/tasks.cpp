// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Warps that run different code. The kernel's own warps walk through the kernel; the others meet them at each async_tasks, one after the
// other, and find their task by their number:
//
//   entry:  br warp < own, %own, %workers
//   own:    … kernel … bar.sync all; default task; [bar.sync all] … ret
//   workers: bar.sync all; warp in a task's range ? that task : next; [bar.sync all]; the next async_tasks …; ret
//
// Behind the last async_tasks nobody waits for the others if nothing follows. Where a loop or branch is around async_tasks, the workers ask which
// one is next: the barrier counts threads, and so many of the own warps' vote for it, from 1; behind the loop or branch none does.
//
//   own:    loop { … bar.red.popc all, thread < 1; default task; bar.sync all … } bar.red.popc all, false
//   workers: loop { switch bar.red.popc all, false: 0: leave; 1: as above; bar.sync all }
#include "codegen/codegen_p.h"

using namespace llvm;

namespace tlx::codegen {

using ir::Attr;
using ir::Opcode;

namespace {
constexpr unsigned kNamedBarriers = 16, kBarrierBytes = 8;

/// The loop or branch of the kernel's own block around it, or itself.
const ir::Op &outermost(const ir::Op &tasks) {
  const ir::Op *op = &tasks;
  while (op->parentOp()) op = op->parentOp();
  return *op;
}
const ir::Op &defaultTask(const ir::Op &tasks) {
  return *tasks.body().front();
}
} // namespace

/// Names for reports: of warps, and of bytes.
void Generator::describeForReports() {
  for (unsigned r = 0; r < taskRegions.size(); ++r) {
    unsigned number = 0;
    for (const ir::Op &task : taskRegions[r]->body()) {
      if (!task.is(Opcode::Task)) continue;
      std::string name = task.strAttr(Attr::name).str();
      if (name.empty()) name = "task " + std::to_string(number);
      const unsigned start = unsigned(task.intAttr(Attr::start)), warps = unsigned(task.intAttr(Attr::warps)),
                     replicas = ir::replicasOf(task);
      for (unsigned i = 0; i < replicas; ++i) {
        const int64_t replica = replicas > 1 ? i : task.intAttr(Attr::replica, -1);
        metadata.tasks.push_back(
            {replica < 0 ? name : name + "[" + std::to_string(replica) + "]", r, start + i * warps, warps});
        ++number;
      }
    }
  }
  const_cast<ir::Block &>(module.kernel.body).walk([&](ir::Op &op) {
    if (!(op.is(Opcode::LocalAlloc) || op.is(Opcode::AllocBarriers)) || !op.hasAttr(Attr::name)) return;
    const ir::Type type = op.result()->type;
    const bool barriers = op.is(Opcode::AllocBarriers);
    if (!barriers && !type.sharedLayout()) return; // code generation refuses it
    const unsigned slot =
        barriers ? kBarrierBytes : unsigned(type.sharedLayout()->elements()) * ir::scalarBytes(type.scalar());
    for (unsigned i = 0; i < ir::replicasOf(op); ++i)
      metadata.shared.push_back({op.strAttr(Attr::name).str(),
                                 unsigned(op.intAttr(Attr::offset) + i * op.intAttr(Attr::bytes)), slot * type.depth(),
                                 type.depth(), barriers});
  });
}

unsigned Generator::freeBarrier() {
  for (unsigned id = 0; id < kNamedBarriers; ++id)
    if (!(usedBarriers >> id & 1)) {
      usedBarriers |= 1u << id;
      return id;
    }
  diagnostics.report(Diag::CgNamedBarriers, module.kernel.loc, kNamedBarriers);
  return 0;
}

void Generator::emitNamedBarrier(const ir::Op &op) {
  Value *id = op.hasAttr(Attr::ids) ? perReplica(op.listAttr(Attr::ids)) : b.getInt32(unsigned(op.intAttr(Attr::id)));
  device(op.intAttr(Attr::arrive) ? "tlx.nv.bar.arrive" : "tlx.nv.bar.sync",
         {id, b.getInt32(unsigned(op.intAttr(Attr::threads)))});
}

void Generator::emitWarpAny(const ir::Op &op) {
  Value *any = nullptr;
  for (Value *v : operand(op, 0)) any = any ? b.CreateOr(any, v) : v;
  set(op.result(), device("tlx.nv.vote.any", {b.getInt32(~0u), any}));
}

/// All warps of the CTA, wherever they are.
void Generator::meetAll() {
  device("tlx.nv.bar.sync", {b.getInt32(allBarrier), b.getInt32(metadata.numWarps * metadata.warpSize)});
}

/// The same, and says which of the async_tasks inside a loop or branch comes next: `number` from 1, 0 for none; null: asks.
Value *Generator::meetAtCommand(std::optional<unsigned> number) {
  const unsigned own = module.kernel.numWarps * metadata.warpSize;
  if (number && *number > own) diagnostics.report(Diag::CgTaskRegions, module.kernel.loc, own);
  Value *votes = number && *number ? b.CreateICmpULT(threadId(), b.getInt32(*number)) : b.getFalse();
  return device("tlx.nv.bar.red.popc",
                {b.getInt32(allBarrier), b.getInt32(metadata.numWarps * metadata.warpSize), votes});
}

/// The async_tasks inside of `op`, a loop or branch.
std::vector<const ir::Op *> Generator::regionsIn(const ir::Op &op) const {
  std::vector<const ir::Op *> regions;
  for (const ir::Op *tasks : taskRegions)
    if (&outermost(*tasks) == &op) regions.push_back(tasks);
  return regions;
}

void Generator::changeRegisters(int64_t from, int64_t to) {
  if (from == to || !from || !to) return;
  device(to > from ? "tlx.nv.setmaxnreg.inc" : "tlx.nv.setmaxnreg.dec", b.getInt32(unsigned(to)));
}

void Generator::emitTask(const ir::Op &task, bool followed) {
  const unsigned warps = unsigned(task.intAttr(Attr::warps)), start = unsigned(task.intAttr(Attr::start)),
                 replicas = ir::replicasOf(task);
  const bool issuer = task.intAttr(Attr::issuer) != 0 && warps > 1;
  const int64_t budget = task.intAttr(Attr::registers), launch = features::launchRegisters(metadata.numWarps);
  region = unsigned(llvm::find(taskRegions, task.parentOp()) - taskRegions.begin()) + 1;
  b.SetCurrentDebugLocation(debugLoc(task.loc));
  changeRegisters(launch, budget);
  if (start || issuer) {
    BasicBlock *own = newBlock("task"), *body = newBlock("task.body"), *after = newBlock("task.end");
    Value *first = issuer ? b.CreateSub(warpOfCta(), b.getInt32(start)) : nullptr;
    if (issuer)
      b.CreateCondBr(b.CreateICmpEQ(replicas > 1 ? b.CreateAnd(first, warps - 1) : first, b.getInt32(0)), own, after);
    else
      b.CreateBr(own);
    Scope outer = std::move(scope);
    scope = Scope();
    scope.warps = issuer ? 1 : warps;
    scope.replicas = replicas, scope.replicaWarps = warps;
    scope.start = start;
    scope.prologue = own;
    b.SetInsertPoint(own);
    b.CreateBr(body);
    b.SetInsertPoint(body);
    emitBlock(task.body());
    scope = std::move(outer);
    b.CreateBr(after);
    b.SetInsertPoint(after);
  } else {
    emitBlock(task.body());
  }
  b.SetCurrentDebugLocation(debugLoc(task.loc));
  if (followed) changeRegisters(budget, launch);
  region = 0;
}

void Generator::emitAsyncTasks(const ir::Op &op) {
  const std::vector<const ir::Op *> regions = regionsIn(outermost(op));
  if (ir::isTopLevel(op))
    meetAll();
  else
    meetAtCommand(unsigned(llvm::find(regions, &op) - regions.begin()) + 1);
  emitTask(defaultTask(op), ir::isFollowed(op));
  if (ir::isFollowed(op)) meetAll();
}

/// Behind a loop or branch, for the workers that wait in it.
void Generator::leaveCommands(const ir::Op &op) {
  if (!taskRegions.empty() && !op.is(Opcode::AsyncTasks) && ir::isTopLevel(op) && !regionsIn(op).empty())
    meetAtCommand(0);
}

/// Of the workers, which have met the kernel's own warps at its start.
void Generator::dispatch(const ir::Op &tasks) {
  const unsigned before = usedBarriers; // tasks of another async_tasks never run at the same time
  BasicBlock *joined = newBlock("joined");
  for (const ir::Op &task : tasks.body()) {
    if (!task.is(Opcode::Task) || &task == &defaultTask(tasks)) continue;
    b.SetCurrentDebugLocation(debugLoc(task.loc));
    BasicBlock *mine = newBlock("worker"), *next = newBlock("dispatch");
    Value *number = b.CreateSub(warpOfCta(), b.getInt32(unsigned(task.intAttr(Attr::start))));
    b.CreateCondBr(b.CreateICmpULT(number, b.getInt32(unsigned(task.intAttr(Attr::warps)) * ir::replicasOf(task))),
                   mine, next);
    b.SetInsertPoint(mine);
    emitTask(task, ir::isFollowed(tasks));
    b.CreateBr(joined);
    b.SetInsertPoint(next);
  }
  b.CreateBr(joined); // warps without a task
  b.SetInsertPoint(joined);
  b.SetCurrentDebugLocation(debugLoc(tasks.loc));
  if (ir::isFollowed(tasks)) meetAll();
  usedBarriers = before;
}

void Generator::dispatchCommands(llvm::ArrayRef<const ir::Op *> regions) {
  BasicBlock *command = newBlock("command"), *left = newBlock("left");
  b.CreateBr(command);
  b.SetInsertPoint(command);
  Value *number = uniform(meetAtCommand(std::nullopt));
  for (unsigned i = 0; i < regions.size(); ++i) {
    BasicBlock *mine = newBlock("region"), *next = newBlock("other");
    b.CreateCondBr(b.CreateICmpEQ(number, b.getInt32(i + 1)), mine, next);
    b.SetInsertPoint(mine);
    dispatch(*regions[i]);
    b.CreateBr(command);
    b.SetInsertPoint(next);
  }
  b.CreateBr(left);
  b.SetInsertPoint(left);
}

void Generator::emitWorkers() {
  if (taskRegions.empty()) return;
  BasicBlock &entry = function->getEntryBlock(), *workers = newBlock("workers");
  b.SetInsertPoint(entry.getTerminator());
  b.SetCurrentDebugLocation(debugLoc(module.kernel.loc));
  Value *own = b.CreateICmpULT(warpOfCta(), b.getInt32(module.kernel.numWarps));
  entry.getTerminator()->eraseFromParent();
  b.SetInsertPoint(&entry);
  b.CreateCondBr(own, scope.prologue, workers);
  b.SetInsertPoint(workers);
  for (const ir::Op *tasks : taskRegions) {
    b.SetCurrentDebugLocation(debugLoc(tasks->loc));
    if (ir::isTopLevel(*tasks)) {
      meetAll();
      dispatch(*tasks);
    } else if (const auto regions = regionsIn(outermost(*tasks)); regions.front() == tasks) {
      dispatchCommands(regions);
    }
  }
  b.CreateRetVoid();
}

} // namespace tlx::codegen
