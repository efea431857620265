// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Barriers where shared-memory accesses of different threads meet: a read of bytes written since the last barrier, a write of bytes read
// or written since. Runs after memory planning, on byte ranges, so reuse of memory is covered too.
//
//   local_store %s, %x                 local_store %s, %x
//   %y = local_load %s         ->      barrier
//                                      %y = local_load %s
//
// Views of a ring with different {ring} numbers are different slots within an iteration of the loop that steps through the ring: the slot
// with number n is that with n - 1 in the next one. Behind the loop that is forgotten.
//
// Asynchronous accesses last until something waits for them:
//   async_copy         writes until an async_wait covers it, whatever barriers stand between: the wait makes it a write of that moment, which the
//                      next barrier publishes. So memory of a ring is not given to another buffer while a thread's last copies are on their way.
//   async_dot          reads its operands until an async_dot_wait covers it.
//   async_desc_store   reads its buffer until an async_store_wait of the issuing thread: one is inserted before the bytes are written again.
//   async_desc_load    is awaited by each thread at its mbarrier; rings that mbarriers manage ({managed}) need nothing within themselves.
// Tasks have states of their own: at their start all warps of the CTA have met. Memory that several tasks use is theirs to order, by mbarriers;
// within a task all of the above holds. Before an arrival, at a named barrier too, stands a proxy fence if the task has accessed, since its last one,
// a buffer that some unit uses; a task's end is such a place too.
//
// Asynchronous units see what threads wrote only behind fence_proxy_async: it is inserted before the barrier in front of such a unit's access, and
// in front of a TMA write of bytes that threads have accessed. (That both only read needs none.)
#include "ir/builder.h"
#include "passes/passes.h"
#include "passes/pipeline_common.h"

namespace tlx::passes {

using namespace ir;

namespace {

struct Access {
  int64_t begin, end;
  int64_t ring, depth; // number and count of slots; number -1: any
  const Op *loop;      // in which the number counts
  const Op *alloc;
  bool managed;
  int64_t age = 0; // of a dot in flight: groups issued since
  bool operator==(const Access &) const = default;
  bool meets(const Access &o) const {
    if (end <= o.begin || o.end <= begin) return false;
    if (alloc != o.alloc) return true;
    return !managed && (ring < 0 || o.ring < 0 || loop != o.loop || ring == o.ring);
  }
};
using Accesses = std::vector<Access>;

void add(Accesses &to, const Access &a) {
  if (!llvm::is_contained(to, a)) to.push_back(a);
}
void add(Accesses &to, const Accesses &from) {
  for (const Access &a : from) add(to, a);
}
bool conflict(const Accesses &list, const Access &a) {
  return llvm::any_of(list, [&](const Access &x) { return x.meets(a); });
}

struct State {
  Accesses reads, writes;           // since the last barrier
  Accesses copies;                  // async_copy, perhaps not yet complete
  Accesses dots;                    // read by async_dot, perhaps not yet complete
  Accesses stores;                  // read by async_desc_store, perhaps not yet complete
  Accesses unfenced, unfencedReads; // writes and reads by threads, since the last proxy fence
  bool fresh = false;               // mbarriers were initialized, and nobody has met since
  bool operator==(const State &) const = default;

  template <typename F> void each(F f) {
    for (Accesses *list : {&reads, &writes, &copies, &dots, &stores, &unfenced, &unfencedReads}) f(*list);
  }
  void merge(const State &o) {
    add(reads, o.reads), add(writes, o.writes), add(copies, o.copies);
    add(dots, o.dots), add(stores, o.stores), add(unfenced, o.unfenced), add(unfencedReads, o.unfencedReads);
    fresh |= o.fresh;
  }
  void barrier() { reads.clear(), writes.clear(), fresh = false; }
  /// All but the last `pending` groups of dots are complete: what they read was read until now.
  void retireDots(int64_t pending) {
    Accesses left;
    for (Access a : dots) {
      if (a.age < pending) {
        left.push_back(a);
      } else {
        a.age = 0;
        add(reads, a);
      }
    }
    dots = std::move(left);
  }
  void issueDot(const Accesses &operands) {
    constexpr int64_t kOld = 16; // ages end somewhere, so that states do
    Accesses older;
    for (Access a : dots) a.age = std::min(a.age + 1, kOld), add(older, a);
    dots = std::move(older);
    add(dots, operands);
  }
  /// What slots are called in the next iteration of `loop`, or behind it.
  void renumber(const Op *loop, bool leaves) {
    each([&](Accesses &list) {
      Accesses renamed;
      for (Access a : list) {
        if (a.ring >= 0) a.ring = a.loop == loop && !leaves ? (a.ring + a.depth - 1) % a.depth : -1;
        add(renamed, a);
      }
      list = std::move(renamed);
    });
  }
};

struct Inserter {
  Inserter(Module &module, const features::Target &target) : module(module), target(target) {}
  Module &module;
  const features::Target &target;
  struct LoopStates {
    State entry, exit; // of all visits: a nested loop is walked again only for what it has not seen
  };
  llvm::DenseMap<Op *, LoopStates> loops;
  llvm::DenseMap<const Op *, bool> withUnits; // buffers that a unit accesses, perhaps from another task

  bool usesUnit(const Value *v) {
    return llvm::any_of(v->uses(), [&](const Use &use) {
      switch (use.op->opcode) {
      case Opcode::SubView:
      case Opcode::LocalTrans:
      case Opcode::LocalSlice:
      case Opcode::LocalReshape:
      case Opcode::LocalReinterpret:
      case Opcode::StorageView:
        return usesUnit(use.op->result());
      case Opcode::AsyncBulkLoad:
      case Opcode::AsyncBulkStore:
      case Opcode::AsyncDot:
      case Opcode::AsyncDescLoad:
      case Opcode::AsyncDescStore:
        return true;
      default:
        return false;
      }
    });
  }
  bool hasUnit(const Access &a) {
    if (!a.alloc->is(Opcode::LocalAlloc)) return false;
    auto [it, fresh] = withUnits.try_emplace(a.alloc, false);
    if (fresh) it->second = usesUnit(a.alloc->result());
    return it->second;
  }
  /// What others may go on to do asynchronously comes behind what this task's threads did. A buffer of a task is its own affair.
  bool fenceFor(Op &op, State &s) {
    auto shared = [&](const Access &a) { return !taskOf(*a.alloc) && hasUnit(a); };
    if (!target.tma || (llvm::none_of(s.unfenced, shared) && llvm::none_of(s.unfencedReads, shared))) return false;
    Builder b(module);
    b.at(&op);
    b.loc = op.loc;
    b.create(Opcode::FenceProxy, {}, {});
    s.unfenced.clear(), s.unfencedReads.clear();
    return true;
  }
  void meetBefore(Op &op, State &s) {
    Builder b(module);
    b.at(&op);
    b.loc = op.loc;
    b.create(Opcode::Barrier, {}, {});
    s.barrier();
  }
  static bool anyOf(const Block &block, llvm::function_ref<bool(const Op &)> f) {
    for (const Op &op : block)
      if (f(op)) return true;
    return false;
  }
  static bool usesBarriers(const Op &op) {
    if (op.is(Opcode::BarrierWait) || op.is(Opcode::BarrierArrive) || op.is(Opcode::BarrierExpect)) return true;
    return op.is(Opcode::Single) && anyOf(op.body(), [](const Op &inner) { return usesBarriers(inner); });
  }

  Access accessOf(Value *buffer) {
    int64_t ring = -1, first = 0, bytes = -1;
    const Op *loop = nullptr;
    while (!buffer->def()->is(Opcode::LocalAlloc)) {
      if (buffer->def()->hasAttr(Attr::ring))
        ring = buffer->def()->intAttr(Attr::ring), loop = buffer->def()->parentOp();
      if (buffer->def()->is(Opcode::StorageView))
        first = buffer->def()->intAttr(Attr::offset), bytes = storageBytes(*buffer->def());
      buffer = buffer->def()->operand(0);
    }
    Op *alloc = buffer->def();
    const int64_t at = alloc->intAttr(Attr::offset) + first;
    return {at,
            at + (bytes < 0 ? bufferBytes(buffer->type) : bytes),
            ring,
            int64_t(buffer->type.depth()),
            loop,
            alloc,
            alloc->intAttr(Attr::managed) != 0};
  }

  // --- what an op does ---------------------------------------------------------------------------------------------
  struct Effects {
    Accesses reads, writes;           // by threads
    Accesses asyncReads, asyncWrites; // by units
    bool dot = false;                 // asyncReads are those of a dot, else of a TMA store
    bool copy = false;                // writes are those of async_copy
  };
  Effects effectsOf(Op &op) {
    Effects e;
    if (op.hasAttr(Attr::scratch)) { // written and read, with barriers of its own in between and behind
      const int64_t at = op.intAttr(Attr::offset);
      e.writes.push_back({at, at + op.intAttr(Attr::scratch), -1, 1, nullptr, &op, false});
    }
    switch (op.opcode) {
    case Opcode::EdgeStore:
      e.reads.push_back(accessOf(op.operand(1)));
      break;
    case Opcode::LocalLoad:
    case Opcode::LocalGather:
      e.reads.push_back(accessOf(op.operand(0)));
      break;
    case Opcode::LocalStore:
    case Opcode::LocalScatter:
      e.writes.push_back(accessOf(op.operand(0)));
      break;
    case Opcode::AsyncCopy:
      e.writes.push_back(accessOf(op.operand(0))), e.copy = true;
      break;
    case Opcode::AsyncDescLoad:
    case Opcode::AsyncBulkLoad:
      e.asyncWrites.push_back(accessOf(op.operand(1)));
      break;
    case Opcode::AsyncDescStore:
    case Opcode::AsyncBulkStore:
      e.asyncReads.push_back(accessOf(op.operand(1)));
      break;
    case Opcode::AsyncDot:
      e.dot = true;
      for (unsigned i = 0; i < 2; ++i)
        if (op.operand(i)->type.isBuffer()) e.asyncReads.push_back(accessOf(op.operand(i)));
      break;
    case Opcode::Single: // one thread's: what must come before it comes before the region
      for (Op &inner : op.body()) {
        const Effects i = effectsOf(inner);
        add(e.asyncReads, i.asyncReads), add(e.asyncWrites, i.asyncWrites);
      }
      break;
    default:
      break;
    }
    return e;
  }

  // --- what has to stand before it -----------------------------------------------------------------------------------
  void prepare(Op &op, const Effects &e, State &s) {
    Builder b(module);
    b.at(&op);
    b.loc = op.loc;
    bool barrier = false, fence = false, dots = false, stores = false;
    for (const Access &a : e.reads) barrier |= conflict(s.writes, a);
    for (const Access &a : e.asyncReads) {
      barrier |= conflict(s.writes, a);
      fence |= conflict(s.unfenced, a);
    }
    for (const Accesses *list : {&e.writes, &e.asyncWrites})
      for (const Access &a : *list) {
        barrier |= conflict(s.writes, a) || conflict(s.reads, a);
        dots |= conflict(s.dots, a);
        stores |= conflict(s.stores, a);
      }
    for (const Access &a : e.asyncWrites) fence |= conflict(s.unfenced, a) || conflict(s.unfencedReads, a);
    if (dots) {
      b.create(Opcode::AsyncDotWait, {}, {})->setAttr(Attr::pending, int64_t(0));
      s.dots.clear();
    }
    if (stores) {
      waitForStores(b, true);
      s.stores.clear();
    }
    if (fence) {
      b.create(Opcode::FenceProxy, {}, {});
      s.unfenced.clear(), s.unfencedReads.clear();
    }
    if (barrier || fence || dots || stores) {
      b.create(Opcode::Barrier, {}, {});
      s.barrier();
    }
  }

  void run(Op &op, State &s) {
    if (s.fresh && usesBarriers(op)) meetBefore(op, s);
    switch (op.opcode) {
    case Opcode::Barrier:
      return s.barrier();
    case Opcode::FenceProxy:
      return s.unfenced.clear(), s.unfencedReads.clear();
    case Opcode::AsyncWait:
      add(s.writes, s.copies);
      if (target.tma) add(s.unfenced, s.copies);
      if (op.intAttr(Attr::pending) == 0) s.copies.clear();
      return;
    case Opcode::AsyncDotWait:
      return s.retireDots(op.intAttr(Attr::pending));
    case Opcode::If: {
      State other = s;
      run(op.body(0), s);
      run(op.body(1), other);
      s.merge(other);
      return;
    }
    case Opcode::For:
    case Opcode::While:
      return runLoop(op, s);
    case Opcode::AsyncTasks:
      return runTasks(op, s);
    case Opcode::AllocBarriers:
      s.fresh = true;
      return;
    case Opcode::BarrierArrive:
    case Opcode::NamedBarrier:
      fenceFor(op, s);
      return;
    case Opcode::Single: // one thread arrives for all
      if (anyOf(op.body(), [](const Op &inner) { return inner.is(Opcode::BarrierArrive); }) && fenceFor(op, s))
        meetBefore(op, s);
      break;
    default:
      break;
    }
    Effects e = effectsOf(op);
    prepare(op, e, s);
    add(s.reads, e.reads), add(s.writes, e.writes);
    if (e.copy) add(s.copies, e.writes);
    if (e.dot)
      s.issueDot(e.asyncReads);
    else
      add(s.stores, e.asyncReads);
    if (target.tma) add(s.unfencedReads, e.reads), add(s.unfenced, e.writes);
    if (op.is(Opcode::Single)) {
      for (Op &inner : op.body())
        if (inner.is(Opcode::AsyncStoreWait) && inner.intAttr(Attr::pending) == 0)
          add(s.reads, s.stores), s.stores.clear();
      return;
    }
    for (unsigned r = 0; r < op.numRegions(); ++r) run(op.body(r), s);
  }
  void runTasks(Op &op, State &s) {
    fenceFor(op, s);
    s.barrier();
    State after;
    bool first = true; // the default task goes on where the kernel's own warps are
    for (Op *task : op.body().ops()) {
      if (!task->is(Opcode::Task)) continue;
      State own = first ? s : State();
      first = false;
      run(task->body(), own);
      fenceFor(*task->body().terminator(), own);
      own.barrier();
      after.merge(own);
    }
    s = after;
  }
  /// What the end of an iteration leaves pending meets the next one, up to a fixed point: states only grow, since barriers only
  /// ever take accesses away. A while loop ends behind its condition, a for loop there or before its first iteration.
  void runLoop(Op &op, State &s) {
    State entry = s;
    if (auto it = loops.find(&op); it != loops.end()) {
      entry = it->second.entry;
      entry.merge(s);
      if (entry == it->second.entry) {
        s = it->second.exit;
        return;
      }
    }
    State exit;
    for (;;) {
      State iteration = entry;
      run(op.body(0), iteration);
      if (op.is(Opcode::While)) {
        exit = iteration;
        run(op.body(1), iteration);
      }
      iteration.renumber(&op, false);
      State next = entry;
      next.merge(iteration);
      if (next == entry) break;
      entry = std::move(next);
    }
    if (op.is(Opcode::For)) exit = entry;
    exit.renumber(&op, true);
    s = exit;
    loops[&op] = {entry, exit};
  }
  void run(Block &block, State &s) {
    for (Op *op : block.ops()) run(*op, s);
  }
};

} // namespace

bool insertBarriers(Module &module, const features::Target &target, Diagnostics &diagnostics) {
  State s;
  Inserter(module, target).run(module.kernel.body, s);
  module.properties.synchronized = true;
  return true;
}

} // namespace tlx::passes
