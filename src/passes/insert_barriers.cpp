// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Barriers where shared-memory accesses of different threads meet: a read of bytes written since the last barrier, a write of bytes read
// or written since. Runs after memory planning, on byte ranges, so reuse of memory is covered too.
//
//   local_store %s, %x                 local_store %s, %x
//   %y = local_load %s         ->      barrier
//                                      %y = local_load %s
//
// Views of a ring with different {ring} numbers are different slots within an iteration. Over a loop's back edge that is forgotten.
//
// An async_copy writes until an async_wait covers it, whatever barriers stand between: the wait makes it a write of that moment, which
// the next barrier publishes. So memory of a ring is not given to another buffer while a thread's last copies are on their way.
#include "ir/builder.h"
#include "passes/passes.h"

namespace tlx::passes {

using namespace ir;

namespace {

struct Access {
  int64_t begin, end;
  int64_t ring; // -1: any slot
  const Op *alloc;
  bool operator==(const Access &) const = default;
  bool meets(const Access &o) const {
    if (end <= o.begin || o.end <= begin) return false;
    return alloc != o.alloc || ring < 0 || o.ring < 0 || ring == o.ring;
  }
};

struct State {
  std::vector<Access> reads, writes; // since the last barrier
  std::vector<Access> inFlight;      // by async_copy, perhaps not yet complete
  bool operator==(const State &) const = default;
  static void add(std::vector<Access> &to, const Access &a) {
    if (!llvm::is_contained(to, a)) to.push_back(a);
  }
  void merge(const State &o) {
    for (const Access &a : o.reads) add(reads, a);
    for (const Access &a : o.writes) add(writes, a);
    for (const Access &a : o.inFlight) add(inFlight, a);
  }
  void barrier() { reads.clear(), writes.clear(); }
  void wait(bool all) {
    for (const Access &a : inFlight) add(writes, a);
    if (all) inFlight.clear();
  }
  void forgetSlots() {
    State s;
    for (Access a : reads) a.ring = -1, add(s.reads, a);
    for (Access a : writes) a.ring = -1, add(s.writes, a);
    for (Access a : inFlight) a.ring = -1, add(s.inFlight, a);
    *this = std::move(s);
  }
};

struct Inserter {
  explicit Inserter(Module &module) : module(module) {}
  Module &module;
  struct LoopStates {
    State entry, exit; // of all visits: a nested loop is walked again only for what it has not seen
  };
  llvm::DenseMap<Op *, LoopStates> loops;

  Access accessOf(Value *buffer) {
    int64_t ring = -1;
    while (!buffer->def()->is(Opcode::LocalAlloc)) {
      if (buffer->def()->hasAttr(Attr::ring)) ring = buffer->def()->intAttr(Attr::ring);
      buffer = buffer->def()->operand(0);
    }
    int64_t at = buffer->def()->intAttr(Attr::offset);
    return {at, at + bufferBytes(buffer->type), ring, buffer->def()};
  }
  static bool conflict(const std::vector<Access> &list, const Access &a) {
    return llvm::any_of(list, [&](const Access &x) { return x.meets(a); });
  }

  void run(Op &op, State &s) {
    if (op.is(Opcode::Barrier)) return s.barrier();
    if (op.is(Opcode::AsyncWait)) return s.wait(op.intAttr(Attr::pending) == 0);
    bool reads = op.is(Opcode::LocalLoad), writes = op.is(Opcode::LocalStore) || op.is(Opcode::AsyncCopy);
    if (reads || writes) {
      Access a = accessOf(op.operand(0));
      if (conflict(s.writes, a) || (writes && conflict(s.reads, a))) {
        Builder b(module);
        b.at(&op);
        b.loc = op.loc;
        b.create(Opcode::Barrier, {}, {});
        s.barrier();
      }
      State::add(writes ? s.writes : s.reads, a);
      if (op.is(Opcode::AsyncCopy)) State::add(s.inFlight, a);
      return;
    }
    if (op.is(Opcode::If)) {
      State other = s;
      run(op.body(0), s);
      run(op.body(1), other);
      s.merge(other);
    } else if (op.is(Opcode::For) || op.is(Opcode::While)) {
      runLoop(op, s);
    } else {
      for (unsigned r = 0; r < op.numRegions(); ++r) run(op.body(r), s);
    }
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
      iteration.forgetSlots();
      State next = entry;
      next.merge(iteration);
      if (next == entry) break;
      entry = std::move(next);
    }
    if (op.is(Opcode::For)) exit = entry;
    exit.forgetSlots();
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
  Inserter(module).run(module.kernel.body, s);
  module.properties.synchronized = true;
  return true;
}

} // namespace tlx::passes
