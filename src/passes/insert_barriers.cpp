// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Barriers where shared-memory accesses of different threads meet: a read of bytes written since the last barrier, a write of bytes read
// or written since. Runs after memory planning, on byte ranges, so reuse of memory is covered too.
//
//   local_store %s, %x                 local_store %s, %x
//   %y = local_load %s         ->      barrier
//                                      %y = local_load %s
//
// Views of a ring with different {ring} numbers are different slots within an iteration. Over a loop's back edge that is forgotten.
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
  bool operator==(const State &) const = default;
  static void add(std::vector<Access> &to, const Access &a) {
    if (!llvm::is_contained(to, a)) to.push_back(a);
  }
  void merge(const State &o) {
    for (const Access &a : o.reads) add(reads, a);
    for (const Access &a : o.writes) add(writes, a);
  }
  void forgetSlots() {
    State s;
    for (Access a : reads) a.ring = -1, add(s.reads, a);
    for (Access a : writes) a.ring = -1, add(s.writes, a);
    *this = std::move(s);
  }
};

struct Inserter {
  Module &module;

  Access accessOf(Value *buffer) {
    int64_t ring = -1;
    while (!buffer->def()->is(Opcode::LocalAlloc)) {
      if (buffer->def()->hasAttr(Attr::ring)) ring = buffer->def()->intAttr(Attr::ring);
      buffer = buffer->def()->operand(0);
    }
    Type t = buffer->type;
    int64_t at = buffer->def()->intAttr(Attr::offset);
    return {at, at + t.sharedLayout()->elements() * scalarBytes(t.scalar()) * t.depth(), ring, buffer->def()};
  }
  static bool conflict(const std::vector<Access> &list, const Access &a) {
    return llvm::any_of(list, [&](const Access &x) { return x.meets(a); });
  }

  void run(Op &op, State &s) {
    if (op.is(Opcode::Barrier)) {
      s = State();
      return;
    }
    bool reads = op.is(Opcode::LocalLoad), writes = op.is(Opcode::LocalStore) || op.is(Opcode::AsyncCopy);
    if (reads || writes) {
      Access a = accessOf(op.operand(0));
      if (conflict(s.writes, a) || (writes && conflict(s.reads, a))) {
        Builder b(module);
        b.at(&op);
        b.loc = op.loc;
        b.create(Opcode::Barrier, {}, {});
        s = State();
      }
      State::add(writes ? s.writes : s.reads, a);
      return;
    }
    if (op.is(Opcode::If)) {
      State other = s;
      run(op.body(0), s);
      run(op.body(1), other);
      s.merge(other);
    } else if (op.is(Opcode::For) || op.is(Opcode::While)) {
      State entry = s;
      // What the end of an iteration leaves pending meets the next one: twice reaches the fixed point, since barriers only
      // ever take accesses away; the loop is for safety.
      for (int i = 0; i < 4; ++i) {
        State iteration = entry;
        for (unsigned r = 0; r < op.numRegions(); ++r) run(op.body(r), iteration);
        iteration.forgetSlots();
        State next = entry;
        next.merge(iteration);
        s = next;
        if (next == entry) break;
        entry = next;
      }
    } else {
      for (unsigned r = 0; r < op.numRegions(); ++r) run(op.body(r), s);
    }
  }
  void run(Block &block, State &s) {
    for (Op *op : block.ops()) run(*op, s);
  }
};

} // namespace

bool insertBarriers(Module &module, const features::Target &target, Diagnostics &diagnostics) {
  State s;
  Inserter{module}.run(module.kernel.body, s);
  module.properties.synchronized = true;
  return true;
}

} // namespace tlx::passes
