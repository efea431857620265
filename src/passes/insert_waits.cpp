// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Counts for hardware that counts (CDNA): waits for groups of copies become waits for numbers of loads.
//
//   async_copy …  (4 loads a warp)             async_copy …
//   async_commit                               async_commit
//   async_copy …                        ->     async_copy …
//   async_commit                               async_commit
//   async_wait {pending = 1}                   async_wait {pending = 1, vmcnt = 4}
//   barrier                                    barrier {counted = 1}
//
// Loads that a program has not waited for when it ends are waited for there.
//
// A warp's counter (vmcnt) says how many of its loads have not come back, in order of issue: all but the last n groups are complete if at
// most as many loads are pending as these n groups have. Where paths differ the smallest number holds; other accesses of global memory
// are counted by the hardware too, which only makes a wait longer than it must be. Copies that are done through registers, or by some
// warps only, count as none.
//
// A barrier while loads may be in flight is `counted`: code generation then waits for the warp's own accesses of shared memory
// (lgkmcnt), and writes no fence, because the back end's fence waits for all loads. It is an attribute of the IR and no work of code
// generation because counting follows control flow, and because text shows and tests it.
#include "ir/builder.h"
#include "layout/layout.h"
#include "passes/passes.h"

namespace tlx::passes {

using namespace ir;

namespace {

constexpr unsigned kGroups = 16;  // as many stages as anyone asks for; older groups are not told apart
constexpr int64_t kMaxCount = 62; // what the counter holds, less one: 63 does not wait

struct InFlight {
  llvm::SmallVector<unsigned, kGroups>
      groups;        // loads of each, the newest first; what lies behind is complete or never was
  unsigned open = 0; // of the group that is not committed
  bool any = false;  // perhaps: some copy has no wait yet
  bool operator==(const InFlight &) const = default;
  void merge(const InFlight &o) {
    for (unsigned i = 0; i < o.groups.size(); ++i)
      if (i < groups.size())
        groups[i] = std::min(groups[i], o.groups[i]);
      else
        groups.push_back(o.groups[i]); // the other path has no such group: nothing to wait for
    open = std::min(open, o.open);
    any |= o.any;
  }
};

struct Counter {
  Module &module;
  const features::Target &target;

  /// Loads that each warp issues for a copy.
  unsigned loadsOf(const Op &copy) {
    const layout::TileLayout *from = copy.operand(1)->type.layout();
    const layout::SharedLayout *to = copy.operand(0)->type.sharedLayout();
    const unsigned bits = 8 * scalarBytes(copy.operand(0)->type.scalar());
    const unsigned vec = unsigned(copy.intAttr(Attr::vec, 1));
    const unsigned vector = from && to ? layout::directVector(*from, *to, bits, vec, target.directToLds) : 0;
    if (!vector || from->redundantMask(layout::InDim::Warp) || from->redundantMask(layout::InDim::Register)) return 0;
    return from->registers() / vector;
  }

  void run(Op &op, InFlight &s) {
    switch (op.opcode) {
    case Opcode::AsyncCopy:
      s.open += loadsOf(op);
      s.any = true;
      break;
    case Opcode::AsyncCommit:
      s.groups.insert(s.groups.begin(), s.open);
      if (s.groups.size() > kGroups) s.groups.pop_back();
      s.open = 0;
      break;
    case Opcode::AsyncWait: {
      const size_t pending = size_t(op.intAttr(Attr::pending));
      int64_t count = s.open;
      for (unsigned i = 0; i < pending && i < s.groups.size(); ++i) count += s.groups[i];
      // More groups than are told apart: none of those behind is known to have loads.
      op.setAttr(Attr::vmcnt, std::min(count, kMaxCount));
      if (s.groups.size() > pending) s.groups.resize(pending);
      if (pending == 0 && s.open == 0) s.any = false;
      break;
    }
    case Opcode::Return: // memory of a program that has ended is another's
      if (s.any) {
        Builder b(module);
        b.at(&op);
        b.loc = op.loc;
        Op *wait = b.create(Opcode::AsyncWait, {}, {});
        wait->setAttr(Attr::pending, int64_t(0));
        wait->setAttr(Attr::vmcnt, int64_t(0));
      }
      break;
    case Opcode::Barrier:
      if (s.any) op.setAttr(Attr::counted, int64_t(1));
      break;
    case Opcode::If: {
      InFlight other = s;
      run(op.body(0), s);
      run(op.body(1), other);
      s.merge(other);
      break;
    }
    case Opcode::For:
    case Opcode::While:
      loop(op, s);
      break;
    default:
      for (unsigned r = 0; r < op.numRegions(); ++r) run(op.body(r), s);
    }
  }
  /// Counts only sink and lists only grow to kGroups, so this ends; the last walk leaves the attributes.
  void loop(Op &op, InFlight &s) {
    InFlight entry = s, exit;
    for (;;) {
      InFlight iteration = entry;
      run(op.body(0), iteration);
      exit = op.is(Opcode::While) ? iteration : entry;
      if (op.is(Opcode::While)) run(op.body(1), iteration);
      InFlight next = entry;
      next.merge(iteration);
      if (next == entry) break;
      entry = std::move(next);
    }
    s = std::move(exit);
  }
  void run(Block &block, InFlight &s) {
    for (Op *op : block.ops()) run(*op, s);
  }
};

} // namespace

bool insertWaits(Module &module, const features::Target &target, Diagnostics &) {
  if (!target.directToLds) return true;
  InFlight s;
  Counter{module, target}.run(module.kernel.body, s);
  return true;
}

} // namespace tlx::passes
