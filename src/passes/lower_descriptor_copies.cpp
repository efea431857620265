// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Descriptor loads and stores outside of pipelines, on targets with TMA: each through a buffer of its own.
//
//   %a = desc_load %d[%m, %k]        ->      %bar = alloc_barriers {arrivals = 1} depth 1        at the kernel's start
//                                            single { barrier_expect %bar; async_desc_load %d, %s, %bar, %m, %k }
//                                            barrier_wait %bar, %phase                           the phase flips each time
//                                            %a = local_load %s
//
//   desc_store %d[%m, %n], %c        ->      local_store %s, %c
//                                            fence_proxy_async; barrier
//                                            single { async_desc_store %d, %s, %m, %n; async_store_commit }
//                                            edge_store %d, %s, %m, %n                              rows that TMA cannot end
//                                            …
//                                            single { async_store_wait {pending = 0, reads = 1} }   at the kernel's end
//
// That a buffer is free again before it is written is the affair of insert-barriers, which waits where bytes are used again.
#include "ir/builder.h"
#include "layout/message_layout.h"
#include "passes/control_edit.h"
#include "passes/passes.h"

namespace tlx::passes {

using namespace ir;

namespace {

struct Lowering {
  Module &module;
  Diagnostics &diagnostics;
  bool stores = false;

  const layout::SharedLayout *messageLayoutOf(Type tile, Loc loc) {
    auto made = layout::messageLayout(tile.shape(), 8 * scalarBytes(tile.scalar()));
    if (!made) diagnostics.report(Diag::DescriptorBlock, loc, tile.str());
    return made ? module.context.unique(*made) : nullptr;
  }

  /// The buffer that a store takes the block to, if that is all the block is for as far as memory goes.
  Op *bufferStore(Op &load) {
    for (const Use &use : load.result()->uses()) {
      Op *store = use.op;
      if (!store->is(Opcode::LocalStore) || use.index != 1 || store->parent() != load.parent()) continue;
      Op *alloc = store->operand(0)->def();
      if (alloc->is(Opcode::LocalAlloc) && alloc->parent() == load.parent() &&
          layout::messagesOf(*store->operand(0)->type.sharedLayout(), 8 * scalarBytes(load.result()->type.scalar())))
        return store;
    }
    return nullptr;
  }

  void load(Op &op) {
    Type t = op.result()->type;
    Builder b(module);
    b.loc = op.loc;
    Value *buffer = nullptr;
    if (Op *store = bufferStore(op)) {
      buffer = store->operand(0);
      buffer->def()->moveBefore(&op);
      store->erase();
    } else {
      const layout::SharedLayout *layout = messageLayoutOf(t, op.loc);
      if (!layout) return;
      b.at(&op);
      buffer = b.localAlloc(t.scalar(), t.shape(), 1, layout);
    }
    b.at(module.kernel.body.front());
    Op *barrier = b.create(Opcode::AllocBarriers, {}, module.context.barrier(1));
    barrier->setAttr(Attr::arrivals, int64_t(1));
    Value *first = b.constI32(0);
    b.create(Opcode::Barrier, {}, {});

    threadVariable(module, &op, first, [&](Value *phase) {
      b.at(&op);
      b.loc = op.loc;
      Op *single = b.create(Opcode::Single, {}, {});
      Builder in(module);
      in.loc = op.loc;
      in.atEnd(single->addRegion());
      in.create(Opcode::BarrierExpect, {barrier->result()}, {})->setAttr(Attr::bytes, t.elements() * int64_t(scalarBytes(t.scalar())));
      llvm::SmallVector<Value *, 8> operands{op.operand(0), buffer, barrier->result()};
      operands.append(op.operands().begin() + 1, op.operands().end());
      in.create(Opcode::AsyncDescLoad, operands, {});
      in.yield({});
      b.create(Opcode::BarrierWait, {barrier->result(), phase}, {});
      if (!op.result()->unused()) op.result()->replaceAllUsesWith(b.localLoad(buffer, t.layout()));
      return b.binary(Opcode::Xor, phase, b.constI32(1));
    });
    op.erase();
  }

  void store(Op &op) {
    Type t = op.operand(1)->type;
    const layout::SharedLayout *layout = messageLayoutOf(t, op.loc);
    if (!layout) return;
    Builder b(module);
    b.at(&op);
    b.loc = op.loc;
    Value *buffer = b.localAlloc(t.scalar(), t.shape(), 1, layout);
    b.localStore(buffer, op.operand(1));
    Op *single = b.create(Opcode::Single, {}, {});
    Builder in(module);
    in.loc = op.loc;
    in.atEnd(single->addRegion());
    llvm::SmallVector<Value *, 8> operands{op.operand(0), buffer};
    operands.append(op.operands().begin() + 2, op.operands().end());
    Op *issued = in.create(Opcode::AsyncDescStore, operands, {});
    if (op.hasAttr(Attr::reduce)) issued->setAttr(Attr::reduce, op.strAttr(Attr::reduce).str());
    in.create(Opcode::AsyncStoreCommit, {}, {});
    in.yield({});
    // A reduction has no such form: the launcher sees to it that rows are whole.
    if (!op.hasAttr(Attr::reduce)) b.create(Opcode::EdgeStore, operands, {});
    op.erase();
    stores = true;
  }

  void drain() { // the memory must last until it has been read
    std::vector<Op *> ends;
    module.kernel.body.walk([&](Op &op) {
      if (op.is(Opcode::Return)) ends.push_back(&op);
    });
    for (Op *end : ends) {
      Builder b(module);
      b.at(end);
      b.loc = end->loc;
      Op *single = b.create(Opcode::Single, {}, {});
      Builder in(module);
      in.loc = end->loc;
      in.atEnd(single->addRegion());
      Op *wait = in.create(Opcode::AsyncStoreWait, {}, {});
      wait->setAttr(Attr::pending, int64_t(0));
      wait->setAttr(Attr::reads, int64_t(1));
      in.yield({});
    }
  }
};

} // namespace

bool lowerDescriptorCopies(Module &module, const features::Target &target, Diagnostics &diagnostics) {
  if (!target.tma) return true;
  const unsigned before = diagnostics.errorCount();
  Lowering lowering{module, diagnostics};
  std::vector<Op *> ops;
  module.kernel.body.walk([&](Op &op) {
    if (op.is(Opcode::DescLoad) || op.is(Opcode::DescStore)) ops.push_back(&op);
  });
  for (Op *op : ops) op->is(Opcode::DescLoad) ? lowering.load(*op) : lowering.store(*op);
  if (lowering.stores) lowering.drain();
  return diagnostics.errorCount() == before;
}

} // namespace tlx::passes
