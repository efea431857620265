// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A task that waits, issues and moves no more than a warp has lanes is its first warp's alone: {issuer = 1}. Nobody meets in it, and no warp of it can
// fall behind the phases that another one moves.
#include "passes/passes.h"

namespace tlx::passes {

using namespace ir;

namespace {

constexpr int64_t kLanes = 32;

bool isSmall(Type t) {
  return !t.isTile() || t.elements() <= kLanes;
}

bool fitsWarp(Op &task) {
  bool fits = true;
  task.walk([&](Op &op) {
    for (const Value *v : op.operands()) fits = fits && isSmall(v->type);
    for (unsigned i = 0; i < op.numResults(); ++i) fits = fits && isSmall(op.result(i)->type);
    switch (op.opcode) {
    case Opcode::Single:
    case Opcode::For:
    case Opcode::While:
    case Opcode::If:
    case Opcode::Assume:
    case Opcode::BarrierWait:
    case Opcode::BarrierArrive:
    case Opcode::BarrierExpect:
    case Opcode::FenceProxy:
    case Opcode::AsyncDescLoad:
    case Opcode::AsyncDescStore:
    case Opcode::AsyncDescPrefetch:
    case Opcode::AsyncBulkLoad:
    case Opcode::AsyncBulkStore:
    case Opcode::AsyncStoreCommit:
    case Opcode::AsyncStoreWait:
    case Opcode::Load:
    case Opcode::Store:
    case Opcode::AtomicRmw:
    case Opcode::AtomicCas:
    case Opcode::LocalLoad:
    case Opcode::LocalStore:
    case Opcode::Reduce:
      return;
    default:
      fits = fits && (op.has(Terminator) || (op.has(Pure) && !op.has(Collective)));
    }
  });
  return fits;
}

} // namespace

bool narrowTasks(Module &module, const features::Target &, Diagnostics &) {
  module.kernel.body.walk([&](Op &op) {
    if (op.is(Opcode::Task) && fitsWarp(op)) op.setAttr(Attr::issuer, int64_t(1));
  });
  return true;
}

} // namespace tlx::passes
