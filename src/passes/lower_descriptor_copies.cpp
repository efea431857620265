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
//                                            edge_store %d, %s, %m, %n                              what TMA cannot store
//                                            …
//                                            single { async_store_wait {pending = 0, reads = 1} }   at the kernel's end
//
// Loads of a descriptor that the kernel stores to as well, and atomic operations that release, wait first until stores are visible. So do
// stores where a task has several of the descriptor, or where a loop brings one to the same block again: TMA keeps no order. A task waits at its end
// for its own stores, if anything comes after its async_tasks until they are visible. Where its async_tasks stands in a loop or branch, it keeps the
// phases of its loads in shared memory from one time to the next.
// (Nothing orders accesses of the same elements through different arguments.)
//
// That a buffer is free again before it is written is the affair of insert-barriers, which waits where bytes are used again.
#include <numeric>

#include "ir/builder.h"
#include "layout/message_layout.h"
#include "passes/control_edit.h"
#include "passes/passes.h"
#include "passes/pipeline_common.h"

namespace tlx::passes {

using namespace ir;

namespace {

/// Whether a value may differ between the iterations of a loop.
struct Variance {
  Op &loop;
  llvm::DenseSet<const Value *> seen;
  bool of(const Value *v) {
    if (!seen.insert(v).second) return false; // looked at already, or on the way
    Op *owner = v->def() ? v->def() : v->block()->parentOp();
    if (owner == &loop) return !v->def();
    bool inside = false;
    for (const Op *p = owner; p && !inside; p = p->parentOp()) inside = p->parentOp() == &loop;
    if (!inside) return false;
    bool varies = owner->has(Reads) || owner->has(Writes);
    for (const Value *operand : owner->operands()) varies = varies || of(operand);
    for (unsigned r = 0; r < owner->numRegions(); ++r)
      if (const Op *end = owner->body(r).terminator())
        for (const Value *passed : end->operands()) varies = varies || of(passed);
    return varies;
  }
};

/// A loop around a store by a descriptor brings it to one block again.
bool storesAgain(Op &store) {
  for (Op *p = store.parentOp(); p && !p->is(Opcode::Task); p = p->parentOp())
    if (p->is(Opcode::For) || p->is(Opcode::While))
      if (Variance loop{*p, {}}; llvm::none_of(store.operands().drop_front(2), [&](Value *v) { return loop.of(v); }))
        return true;
  return false;
}

struct Lowering {
  Module &module;
  const features::Target &target;
  Diagnostics &diagnostics;
  bool stores = false;
  llvm::DenseSet<const Value *> storedTo; // descriptors
  using InTask = std::pair<const Value *, const Op *>;
  llvm::DenseSet<InTask> stored, storedTwice; // descriptors that a store, that several stores of a task name

  const layout::SharedLayout *messageLayoutOf(Type tile, Loc loc) {
    auto made = layout::messageLayout(tile.shape(), 8 * scalarBytes(tile.scalar()));
    if (!made)
      diagnostics.report(Diag::DescriptorBlock, loc, tile.str(),
                         layout::messageProblem(tile.shape(), 8 * scalarBytes(tile.scalar())));
    return made ? module.context.unique(*made) : nullptr;
  }

  /// Where a task keeps a phase from one time that it runs to the next.
  Value *keepPhase(Builder &b, Value *first, const Op &task) {
    const layout::SharedLayout *layout = module.context.unique(layout::SharedLayout::rowMajor({1}, {0}));
    Value *phases = b.localAlloc(Scalar::I32, {1}, replicasOf(task), layout);
    for (unsigned i = 0; i < replicasOf(task); ++i) {
      Value *slot = replicasOf(task) > 1 ? b.subview(phases, b.constI32(i)) : phases;
      b.create(Opcode::LocalStore, {slot, first}, {});
    }
    return phases;
  }
  Value *ofReplica(Builder &b, Value *ring, unsigned replicas) {
    Op *number = b.create(Opcode::PerReplica, {}, module.context.scalar(Scalar::I32));
    std::vector<int64_t> values(replicas);
    std::iota(values.begin(), values.end(), 0);
    number->setAttr(Attr::values, values);
    return b.subview(ring, number->result());
  }

  void load(Op &op) {
    Type t = op.result()->type;
    Builder b(module);
    b.loc = op.loc;
    Value *buffer = nullptr;
    Op *store = bufferStore(op);
    if (store && layout::messagesOf(*store->operand(0)->type.sharedLayout(), 8 * scalarBytes(t.scalar()))) {
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
    const unsigned replicas = replicasOf(op);
    Op *barriers = b.create(Opcode::AllocBarriers, {}, module.context.barrier(replicas));
    barriers->setAttr(Attr::arrivals, int64_t(1));
    Value *first = b.constI32(0), *kept = nullptr;
    Op *task = taskOf(op);
    if (task && !isTopLevel(*task->parentOp())) kept = keepPhase(b, first, *task);
    b.create(Opcode::Barrier, {}, {});
    if (kept) {
      b.at(task->body().front());
      b.loc = op.loc;
      if (replicas > 1) kept = ofReplica(b, kept, replicas);
      first = b.create(Opcode::LocalLoad, kept, module.context.scalar(Scalar::I32))->result();
    }

    Value *last = threadVariable(module, &op, first, [&](Value *phase) {
      b.at(&op);
      b.loc = op.loc;
      if (storedTo.contains(op.operand(0))) {
        waitForStores(b, false);
        b.create(Opcode::Barrier, {}, {});
      }
      Value *barrier = replicas > 1 ? ofReplica(b, barriers->result(), replicas) : barriers->result();
      Op *single = b.create(Opcode::Single, {}, {});
      Builder in(module);
      in.loc = op.loc;
      in.atEnd(single->addRegion());
      in.create(Opcode::BarrierExpect, {barrier}, {})
          ->setAttr(Attr::bytes, t.elements() * int64_t(scalarBytes(t.scalar())));
      llvm::SmallVector<Value *, 8> operands{op.operand(0), buffer, barrier};
      operands.append(op.operands().begin() + 1, op.operands().end());
      copyEviction(op, *in.create(Opcode::AsyncDescLoad, operands, {}));
      in.yield({});
      b.create(Opcode::BarrierWait, {barrier, phase}, {});
      if (!op.result()->unused()) op.result()->replaceAllUsesWith(b.localLoad(buffer, t.layout()));
      return b.binary(Opcode::Xor, phase, b.constI32(1));
    });
    if (kept) {
      b.at(task->body().terminator());
      b.create(Opcode::LocalStore, {kept, last}, {});
    }
    op.erase();
  }

  /// Left and right halves of a tile's columns, where that moves nothing: the columns' upper bit is one of registers.
  bool halves(Builder &b, Value *tile, llvm::SmallVectorImpl<Value *> &out) {
    Type t = tile->type;
    llvm::SmallVector<int64_t, 5> shape(t.shape()), turned(t.shape()), half(t.shape());
    if (shape.back() % 2) return false;
    shape.back() /= 2, half.back() /= 2, turned.back() /= 2;
    shape.insert(shape.end() - 1, 2);
    turned.push_back(2);
    llvm::SmallVector<unsigned, 6> perm;
    for (unsigned d = 0; d + 2 < shape.size(); ++d) perm.push_back(d);
    perm.append({unsigned(shape.size() - 1), unsigned(shape.size() - 2)});
    auto apart = layout::reshape(*t.layout(), shape);
    if (!apart) return false;
    const layout::TileLayout last = layout::transpose(*apart, perm);
    auto one = layout::split(last);
    if (!one) return false;
    auto typed = [&](llvm::ArrayRef<int64_t> s, const layout::TileLayout &l) {
      return module.context.tile(t.element(), s, module.context.unique(l));
    };
    Value *x = b.create(Opcode::Reshape, {tile}, typed(shape, *apart))->result();
    Op *trans = b.create(Opcode::Trans, {x}, typed(turned, last));
    trans->setAttr(Attr::perm, std::vector<int64_t>(perm.begin(), perm.end()));
    Op *split = b.create(Opcode::Split, {trans->result()}, {typed(half, *one), typed(half, *one)});
    out.append({split->result(0), split->result(1)});
    return true;
  }

  /// The whole tile at once where shared memory has room for it, else columns of it through as many buffers as there is room for.
  void store(Op &op) {
    int64_t room = int64_t(target.sharedBytes) - liveSharedBytes(module, op);
    if (const Op *task = taskOf(op)) room /= tasksWithStores(*task); // each of them stages its own
    Builder b(module);
    b.at(&op);
    b.loc = op.loc;
    // TMA keeps no order between its stores.
    if (storedTwice.contains({op.operand(0), taskOf(op)}) || storesAgain(op)) waitForStores(b, false);
    llvm::SmallVector<Value *, 8> parts{op.operand(1)};
    auto bytesOf = [](Value *v) { return v->type.elements() * int64_t(scalarBytes(v->type.scalar())); };
    while (bytesOf(parts[0]) > room) {
      llvm::SmallVector<Value *, 8> smaller;
      Type t = parts[0]->type;
      llvm::SmallVector<int64_t, 5> half(t.shape());
      half.back() /= 2;
      // Down to one box: messages that all have the form of the whole block's.
      auto whole = layout::messageLayout(op.operand(1)->type.shape(), 8 * scalarBytes(t.scalar())),
           narrow = layout::messageLayout(half, 8 * scalarBytes(t.scalar()));
      if (!whole || !narrow) break;
      auto a = layout::messagesOf(*whole, 8 * scalarBytes(t.scalar())),
           c = layout::messagesOf(*narrow, 8 * scalarBytes(t.scalar()));
      if (a->swizzle != c->swizzle || a->box != c->box) break;
      bool good = true;
      for (Value *p : parts) good = good && halves(b, p, smaller);
      if (!good) break; // planning reports what is too much
      parts = std::move(smaller);
    }
    const size_t buffers =
        size_t(std::clamp<int64_t>(room / std::max<int64_t>(1, bytesOf(parts[0])), 1, int64_t(parts.size())));
    const layout::SharedLayout *layout = messageLayoutOf(parts[0]->type, op.loc);
    if (!layout) return;
    llvm::SmallVector<Value *, 8> ring;
    for (size_t i = 0; i < buffers; ++i)
      ring.push_back(b.localAlloc(parts[0]->type.scalar(), parts[0]->type.shape(), 1, layout));
    for (size_t i = 0; i < parts.size(); ++i)
      storePart(op, b, parts[i], ring[i % buffers], int64_t(i) * parts[0]->type.shape().back());
    op.erase();
    stores = true;
  }

  /// Tasks beside `task`, and itself, that have stores which are still to be lowered.
  static int64_t tasksWithStores(const Op &task) {
    int64_t count = 0;
    for (Op &other : task.parentOp()->body()) {
      bool has = false;
      other.walk([&](Op &op) { has |= op.is(Opcode::DescStore); });
      count += has ? replicasOf(other) : 0;
    }
    return std::max<int64_t>(count, 1);
  }

  void storePart(Op &op, Builder &b, Value *part, Value *buffer, int64_t column) {
    b.localStore(buffer, part);
    llvm::SmallVector<Value *, 8> operands{op.operand(0), buffer};
    operands.append(op.operands().begin() + 2, op.operands().end());
    if (column) operands.back() = b.binary(Opcode::Add, operands.back(), b.constI32(column));
    Op *single = b.create(Opcode::Single, {}, {});
    Builder in(module);
    in.loc = op.loc;
    in.atEnd(single->addRegion());
    Op *issued = in.create(Opcode::AsyncDescStore, operands, {});
    copyEviction(op, *issued);
    in.create(Opcode::AsyncStoreCommit, {}, {});
    in.yield({});
    Op *edge = b.create(Opcode::EdgeStore, operands, {});
    if (op.hasAttr(Attr::reduce))
      for (Op *store : {issued, edge}) store->setAttr(Attr::reduce, op.strAttr(Attr::reduce).str());
  }

  static bool hasStores(Op &task) {
    bool has = false;
    task.walk([&](Op &op) { has |= isStore(op); });
    return has;
  }
  static bool isStore(const Op &op) { return op.is(Opcode::AsyncDescStore) || op.is(Opcode::AsyncBulkStore); }
  void
  drain() { // the memory must last until it has been read; who acquires what an atomic operation releases sees the stores
    std::vector<Op *> ends;
    bool outside = false; // of tasks, which wait for their own
    module.kernel.body.walk([&](Op &op) { outside |= isStore(op) && !taskOf(op); });
    module.kernel.body.walk([&](Op &op) {
      const bool ordered = (op.is(Opcode::AtomicRmw) || op.is(Opcode::AtomicCas)) && op.hasAttr(Attr::order);
      const llvm::StringRef order = ordered ? op.strAttr(Attr::order) : llvm::StringRef();
      const bool releases = order == "release" || order == "acq_rel";
      Op *task = taskOf(op); // whose stores its own threads have issued
      if ((op.is(Opcode::Return) && outside) || (releases && (task ? hasStores(*task) : outside))) ends.push_back(&op);
      if (op.is(Opcode::AsyncTasks) && outside) ends.push_back(&op);
      if (op.is(Opcode::Task) && hasStores(op)) ends.push_back(op.body().terminator());
    });
    for (Op *end : ends) {
      Builder b(module);
      b.at(end);
      b.loc = end->loc;
      // What follows async_tasks, or is in them, may load or store the same.
      const bool ofTask = end->is(Opcode::Yield),
                 last = end->is(Opcode::Return) || (ofTask && !isFollowed(*taskOf(*end)->parentOp()));
      waitForStores(b, last);
      if (!last && !ofTask && !end->is(Opcode::AsyncTasks)) b.create(Opcode::Barrier, {}, {});
    }
  }
};

} // namespace

bool lowerDescriptorCopies(Module &module, const features::Target &target, Diagnostics &diagnostics) {
  if (!target.tma) return true;
  const unsigned before = diagnostics.errorCount();
  Lowering lowering{module, target, diagnostics};
  std::vector<Op *> ops;
  module.kernel.body.walk([&](Op &op) {
    if (op.is(Opcode::DescLoad) || op.is(Opcode::DescStore)) ops.push_back(&op);
    if (!op.is(Opcode::DescStore)) return;
    lowering.storedTo.insert(op.operand(0));
    const Lowering::InTask store{op.operand(0), taskOf(op)};
    if (!lowering.stored.insert(store).second) lowering.storedTwice.insert(store);
  });
  for (Op *op : ops) op->is(Opcode::DescLoad) ? lowering.load(*op) : lowering.store(*op);
  module.kernel.body.walk([&](Op &op) { lowering.stores |= Lowering::isStore(op); });
  if (lowering.stores) lowering.drain();
  return diagnostics.errorCount() == before;
}

} // namespace tlx::passes
