// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shared-memory planning: buffers whose lifetimes do not meet share bytes.
//
//   %a = local_alloc : buffer<f16[128, 32], 3, smem>      ->      %a = local_alloc {offset = 0} : …
//
// Tasks run at the same time: what one of them has never shares with another's, and what stands outside lasts until all of them have ended.
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include "layout/message_layout.h"
#include "passes/passes.h"

namespace tlx::passes {

using namespace ir;

namespace {

// Bank patterns of the layouts repeat at 128 bytes on every target, so they hold at any offset of that alignment.
constexpr int64_t kAlign = 128, kBarrierBytes = 8;

struct BufferRange {
  Op *alloc; // or an op that needs bytes while it runs
  int64_t bytes = 0, align = kAlign;
  unsigned first = 0, last = 0; // positions in program order
  int64_t offset = 0;
  const Op *task = nullptr; // that it is in
  unsigned tasksFirst = 0, tasksLast = 0;

  bool together(const BufferRange &o) const {
    auto meet = [](unsigned a, unsigned b, unsigned c, unsigned d) { return a <= d && c <= b; };
    if (task && task == o.task && replicasOf(*task) > 1) return true; // each replica is somewhere else in it
    if (task == o.task) return meet(first, last, o.first, o.last);
    if (task && o.task && task->parentOp() == o.task->parentOp()) return true;
    return meet(task ? tasksFirst : first, task ? tasksLast : last, o.task ? o.tasksFirst : o.first,
                o.task ? o.tasksLast : o.last);
  }
};

bool isView(const Op &op) {
  return op.is(Opcode::SubView) || op.is(Opcode::LocalTrans) || op.is(Opcode::LocalSlice) ||
         op.is(Opcode::LocalReshape) || op.is(Opcode::LocalReinterpret) || op.is(Opcode::StorageView);
}

/// What swizzle patterns and barriers need: TMA permutes address bits, so a pattern starts where the address says.
int64_t alignmentOf(Type t) {
  if (t.kind() == Type::Kind::Barrier) return kBarrierBytes;
  if (!t.sharedLayout()) return kAlign;
  auto messages = layout::messagesOf(*t.sharedLayout(), 8 * scalarBytes(t.scalar()));
  return messages ? std::max<int64_t>(kAlign, layout::swizzleAlignment(messages->swizzle)) : kAlign;
}

/// The same for a buffer; of a storage, what its buffers need.
int64_t alignmentOf(const Value &buffer) {
  int64_t align = alignmentOf(buffer.type);
  for (const Use &use : buffer.uses())
    if (use.op->is(Opcode::StorageView)) align = std::max(align, alignmentOf(use.op->result()->type));
  return align;
}

bool needsMemory(const Op &op) {
  return op.is(Opcode::LocalAlloc) || op.is(Opcode::AllocBarriers) || op.hasAttr(Attr::scratch);
}
/// What each replica of its task has of it, with what keeps the alignment of the next one's.
int64_t replicaBytes(const Op &op) {
  if (op.hasAttr(Attr::scratch)) return llvm::alignTo(op.intAttr(Attr::scratch), kAlign);
  return llvm::alignTo(bufferBytes(op.result()->type), alignmentOf(*op.result()));
}
int64_t bytesOf(const Op &op) {
  if (replicasOf(op) > 1) return replicaBytes(op) * replicasOf(op);
  return op.hasAttr(Attr::scratch) ? op.intAttr(Attr::scratch) : bufferBytes(op.result()->type);
}

/// Numbers ops in program order; a use inside a loop that does not hold the buffer's alloc lasts to the loop's end.
struct Lifetimes {
  explicit Lifetimes(Block &kernel) { number(kernel); }
  llvm::DenseMap<Op *, unsigned> position, end;
  unsigned next = 0;
  void number(Block &b) {
    for (Op &op : b) {
      position[&op] = next++;
      for (unsigned i = 0; i < op.numRegions(); ++i) number(op.body(i));
      end[&op] = next++;
    }
  }
  /// Where somebody has waited for `issued` at the latest: behind it in its block, or behind a loop or branch around it.
  unsigned retired(Op &alloc, Op &issued, Opcode wait) {
    unsigned last = position[&issued];
    for (Op *at = &issued; at; at = at->parentOp()) {
      for (Op *op = at; op; op = op->next()) {
        last = std::max(last, end[op]);
        if (op->is(wait) && op->intAttr(Attr::pending) == 0) return last;
      }
      if (at->parent() == alloc.parent()) break;
    }
    return last;
  }
  unsigned lastUse(Op &alloc, Value *v) {
    unsigned last = position[&alloc];
    for (const Use &use : v->uses()) {
      unsigned at = position[use.op];
      for (Op *p = use.op->parentOp(); p && p != alloc.parentOp(); p = p->parentOp())
        if (p->is(Opcode::For) || p->is(Opcode::While) || p->is(Opcode::AsyncTasks)) at = std::max(at, end[p]);
      last = std::max(last, at);
      // A dot in flight reads its operands until its wait, and a copy writes until then.
      if (use.op->is(Opcode::AsyncDot)) last = std::max(last, retired(alloc, *use.op, Opcode::AsyncDotWait));
      if (use.op->is(Opcode::AsyncCopy)) last = std::max(last, retired(alloc, *use.op, Opcode::AsyncWait));
      if (isView(*use.op)) last = std::max(last, lastUse(alloc, use.op->result()));
    }
    return last;
  }
  BufferRange rangeOf(Op &op) {
    const unsigned here = position[&op];
    BufferRange r{&op, bytesOf(op), kAlign, here, here};
    if (!op.hasAttr(Attr::scratch)) r.align = alignmentOf(*op.result()), r.last = lastUse(op, op.result());
    // Barriers are never given up, and initialized before anything else: nothing else may have their bytes.
    if (op.is(Opcode::AllocBarriers)) r.first = 0, r.last = ~0u;
    if (Op *task = taskOf(op))
      r.task = task, r.tasksFirst = position[task->parentOp()], r.tasksLast = end[task->parentOp()];
    return r;
  }
};

/// What meets the memory of `v`: directly, through a slot, or seen transposed.
void usersOf(const Value *v, llvm::SmallVectorImpl<const Op *> &users) {
  for (const Use &use : v->uses())
    if (isView(*use.op))
      usersOf(use.op->result(), users);
    else
      users.push_back(use.op);
}

std::string purposeOf(const Op &alloc) {
  if (alloc.hasAttr(Attr::scratch))
    return alloc.is(Opcode::Scan) ? "totals between warps" : "results of an atomic for all threads";
  const Type t = alloc.result()->type;
  if (t.kind() == Type::Kind::Barrier) return llvm::formatv("{0} mbarriers", t.depth());
  const size_t views =
      size_t(llvm::count_if(alloc.result()->uses(), [](const Use &u) { return u.op->is(Opcode::StorageView); }));
  if (views) return llvm::formatv("storage of {0} buffer{1}", views, views == 1 ? "" : "s");
  llvm::SmallVector<const Op *, 8> users;
  usersOf(alloc.result(), users);
  auto used = [&](Opcode opcode) { return llvm::any_of(users, [&](const Op *op) { return op->is(opcode); }); };
  const char *what = used(Opcode::AsyncDescLoad)    ? "blocks that TMA loads"
                     : used(Opcode::AsyncBulkLoad)  ? "what bulk copies load"
                     : used(Opcode::AsyncDescStore) ? "a block on its way to desc.store"
                     : used(Opcode::AsyncCopy)      ? "loads straight into shared memory"
                     : t.depth() > 1                ? "loads through registers"
                     : used(Opcode::AsyncDot)       ? "an operand of wgmma"
                                                    : "a tile that changes its layout";
  return t.depth() > 1 ? llvm::formatv("ring of {0}: {1}", t.depth(), what).str() : what;
}

std::string line(const BufferRange &b) {
  std::string out =
      llvm::formatv("\n  {0,8} .. {1,8}  {2}  {3} (line {4})", b.offset, b.offset + b.bytes,
                    b.alloc->hasAttr(Attr::scratch) ? std::string(b.alloc->info().name) : b.alloc->result()->type.str(),
                    purposeOf(*b.alloc), b.alloc->loc.line);
  if (b.alloc->is(Opcode::LocalAlloc))
    for (const Use &use : b.alloc->result()->uses()) {
      if (!use.op->is(Opcode::StorageView)) continue;
      const Op &view = *use.op;
      const int64_t first = b.offset + view.intAttr(Attr::offset), group = view.intAttr(Attr::group),
                    slots = view.result()->type.depth() / group;
      out += llvm::formatv("\n  {0,8} .. {1,8}    {2}", first, first + storageBytes(view), view.result()->type.str());
      if (slots > 1) out += llvm::formatv("  {0} every {1} bytes", group, view.intAttr(Attr::stride));
      out += llvm::formatv(" (line {0})", view.loc.line);
    }
  return out;
}

} // namespace

int64_t bufferBytes(Type t) {
  if (t.kind() == Type::Kind::Barrier) return kBarrierBytes * t.depth();
  return (t.sharedLayout() ? t.sharedLayout()->elements() : t.elements()) * scalarBytes(t.scalar()) * t.depth();
}

int64_t storageBytes(const Op &view) {
  const Type t = view.result()->type;
  const int64_t group = view.intAttr(Attr::group), bytes = bufferBytes(t) / t.depth();
  return (t.depth() / group - 1) * view.intAttr(Attr::stride) + group * bytes;
}

int64_t liveSharedBytes(Module &module, Op &at) {
  Lifetimes lifetimes(module.kernel.body);
  BufferRange here;
  here.first = here.last = lifetimes.position[&at];
  if (Op *task = taskOf(at))
    here.task = task, here.tasksFirst = lifetimes.position[task->parentOp()],
    here.tasksLast = lifetimes.end[task->parentOp()];
  int64_t bytes = 0;
  module.kernel.body.walk([&](Op &op) {
    if (op.is(Opcode::AllocBarriers)) bytes += bufferBytes(op.result()->type);
    if (!op.is(Opcode::LocalAlloc)) return;
    const BufferRange r = lifetimes.rangeOf(op);
    if (r.together(here)) bytes += llvm::alignTo(r.bytes, r.align);
  });
  return bytes;
}

bool planMemory(Module &module, const features::Target &target, Diagnostics &diagnostics) {
  Lifetimes lifetimes(module.kernel.body);
  std::vector<BufferRange> buffers;
  module.kernel.body.walk([&](Op &op) {
    if (needsMemory(op)) buffers.push_back(lifetimes.rangeOf(op));
  });
  // Largest first, at the lowest offset where nothing alive at the same time lies.
  std::vector<BufferRange *> order;
  for (BufferRange &b : buffers) order.push_back(&b);
  llvm::stable_sort(order, [](BufferRange *a, BufferRange *b) { return a->bytes > b->bytes; });
  std::vector<BufferRange *> placed;
  int64_t total = 0;
  for (BufferRange *b : order) {
    b->offset = 0;
    for (bool moved = true; moved;) {
      moved = false;
      for (BufferRange *o : placed) {
        bool overlap = b->offset < o->offset + o->bytes && o->offset < b->offset + b->bytes;
        if (overlap && b->together(*o)) {
          b->offset = llvm::alignTo(o->offset + o->bytes, b->align);
          moved = true;
        }
      }
    }
    placed.push_back(b);
    total = std::max(total, b->offset + b->bytes);
    b->alloc->setAttr(Attr::offset, b->offset);
    if (replicasOf(*b->alloc) > 1) b->alloc->setAttr(Attr::bytes, replicaBytes(*b->alloc));
  }
  module.kernel.sharedBytes = unsigned(total);
  if (total > int64_t(target.sharedBytes)) {
    std::string map;
    llvm::stable_sort(placed, [](BufferRange *a, BufferRange *b) { return a->offset < b->offset; });
    bool ring = false;
    for (BufferRange *b : placed) {
      map += line(*b);
      ring |= b->alloc->is(Opcode::LocalAlloc) && b->alloc->result()->type.depth() > 1;
    }
    diagnostics.report(Diag::SharedOverflow, module.kernel.loc, total, target.name, target.sharedBytes,
                       ring ? "lower num_stages or take smaller tiles" : "take smaller tiles", map);
    return false;
  }
  module.properties.plannedMemory = true;
  return true;
}

std::string memoryMap(const Module &module) {
  std::string out = llvm::formatv("shared memory: {0} bytes", module.kernel.sharedBytes);
  std::vector<BufferRange> buffers;
  const_cast<Block &>(module.kernel.body).walk([&](Op &op) {
    if (needsMemory(op)) buffers.push_back({&op, bytesOf(op), kAlign, 0, 0, op.intAttr(Attr::offset)});
  });
  llvm::stable_sort(buffers, [](const BufferRange &a, const BufferRange &b) { return a.offset < b.offset; });
  for (const BufferRange &b : buffers) out += line(b);
  return out + "\n";
}

} // namespace tlx::passes
