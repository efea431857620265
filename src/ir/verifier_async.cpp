// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rules of what works by itself: tensor descriptors, mbarriers, TMA and wgmma, and of the regions that one thread runs.
#include "llvm/Support/MathExtras.h"

#include "ir/descriptors.h"
#include "ir/verifier_p.h"

namespace tlx::ir::detail {

namespace {

// An mbarrier's pending count and its transaction count have 20 bits (PTX ISA, "Contents of the mbarrier object").
constexpr int64_t kMaxArrivals = (1 << 20) - 1, kMaxBytes = (1 << 20) - 1;

bool isDescriptor(Type t) {
  return t.kind() == Type::Kind::TensorDesc;
}
bool isOneBarrier(Type t) {
  return t.kind() == Type::Kind::Barrier && t.depth() == 1;
}
bool isMatrixBuffer(Type t) {
  return t.isBuffer() && t.space() == Space::Shared && t.depth() == 1 && t.rank() == 2;
}
bool isMatrixTile(Type t) {
  return t.isTile() && t.rank() == 2 && t.element().isScalar();
}

/// Done by one thread for the whole CTA.
bool isSingleIssuer(Opcode o) {
  return o == Opcode::BarrierExpect || o == Opcode::AsyncDescLoad || o == Opcode::AsyncDescStore ||
         o == Opcode::AsyncStoreCommit || o == Opcode::AsyncStoreWait || o == Opcode::AsyncDescPrefetch ||
         o == Opcode::AsyncBulkLoad || o == Opcode::AsyncBulkStore;
}

const Op *singleAround(const Op &op) {
  const Op *around = op.parentOp();
  while (around && !around->is(Opcode::Single)) around = around->parentOp();
  return around;
}

struct AsyncRules {
  OpChecker &check;
  const Op &op;

  bool need(bool condition, const char *rule) { return check.need(op, condition, rule); }
  Type type(unsigned operand) const { return op.operand(operand)->type; }

  /// Operands from `first` on are an index for each dimension of the descriptor.
  bool indices(unsigned first) {
    const unsigned rank = type(0).rank();
    if (op.numOperands() != first + rank) return check.fail(op, "has an index for each dimension of the descriptor");
    for (unsigned i = first; i < op.numOperands(); ++i)
      if (!isScalarOf(type(i), Scalar::I32)) return check.fail(op, "an index is an i32, not " + type(i).str());
    return true;
  }
  bool descriptor() {
    return need(isDescriptor(type(0)), "the first operand is a tensor descriptor") &&
           need(type(0).rank() <= 5, "a tensor descriptor has 1 to 5 dimensions");
  }
  bool block(Type t) {
    return need(blockDimensions(type(0).shape(), t.shape()) && t.scalar() == type(0).scalar(),
                "has the shape and the element type of the descriptor's block");
  }
  bool tileBlock(Type t) { return need(t.isTile() && t.element().isScalar(), "the block is a tile") && block(t); }
  bool bufferBlock(Type t) {
    return need(t.isBuffer() && t.space() == Space::Shared && t.depth() == 1,
                "the block is a buffer of depth 1 in shared memory") &&
           block(t);
  }
  bool columns(Type t) { // of the block
    const bool good = t.isBuffer() && t.space() == Space::Shared && t.depth() == 1 && t.scalar() == type(0).scalar() &&
                      blockDimensions(columnsOfBlock(type(0).shape(), t.shape()), t.shape());
    return need(good, "the block, or columns of it, is a buffer of depth 1 in shared memory");
  }
  bool reduction() {
    if (!check.strAttr(op, Attr::reduce, {"add", "min", "max", "and", "or", "xor"})) return false;
    const llvm::StringRef kind = op.strAttr(Attr::reduce);
    const bool bits = kind == "and" || kind == "or" || kind == "xor";
    return need(!bits || isInt(type(0).scalar()), "combines the bits of integers, not of floats");
  }
  bool eviction() { return check.strAttr(op, Attr::eviction, {"evict_first", "evict_last", "evict_normal"}); }
  /// A copy between the pointer and a buffer of rank 1.
  bool bulk() {
    const Type t = type(1);
    if (!type(0).isPointer()) return check.fail(op, "the first operand is a pointer");
    if (!t.isBuffer() || t.space() != Space::Shared || t.depth() != 1 || t.rank() != 1)
      return check.fail(op, "the second operand is a buffer of rank 1 and depth 1 in shared memory");
    if (type(0).scalar() != t.scalar()) return check.fail(op, "buffer and pointer have one element type");
    if (!check.intAttr(op, Attr::bytes, 16, t.elements() * int64_t(scalarBytes(t.scalar())))) return false;
    return need(op.intAttr(Attr::bytes) % 16 == 0, "'bytes' is a multiple of 16") && eviction();
  }
  bool barrier(unsigned operand) { return need(isOneBarrier(type(operand)), "takes one barrier"); }
  bool predicate(unsigned operand) {
    return op.numOperands() <= operand || need(isScalarOf(type(operand), Scalar::I1), "the predicate is an i1");
  }

  bool single() {
    const Block &body = op.body();
    if (!predicate(0)) return false;
    if (body.numArgs() || body.terminator()->numOperands())
      return check.fail(op, "the region takes and yields nothing");
    if (singleAround(op)) return check.fail(op, "stands inside another single region");
    const Op *bad = nullptr;
    bool tiles = false;
    const_cast<Block &>(body).walk([&](Op &inner) {
      bool hasTile = false;
      for (Value *v : inner.operands()) hasTile |= v && v->type && v->type.isTile();
      for (unsigned i = 0; i < inner.numResults(); ++i)
        hasTile |= inner.result(i)->type && inner.result(i)->type.isTile();
      if (bad || (!inner.has(Collective) && !hasTile)) return;
      bad = &inner;
      tiles = !inner.has(Collective);
    });
    if (!bad) return true;
    if (tiles) return check.fail(*bad, "stands in a single region, whose thread has a part of a tile only");
    return check.fail(*bad, "stands in a single region, and needs the other threads");
  }

  bool allocBarriers() {
    Type t = op.result()->type;
    if (t.kind() != Type::Kind::Barrier) return check.fail(op, "the result is barriers");
    if (!check.intAttr(op, Attr::arrivals, 1, kMaxArrivals)) return false;
    if (singleAround(op)) return check.fail(op, "stands in a single region, and needs the other threads");
    if (!check.module.properties.plannedMemory && !op.hasAttr(Attr::offset)) return true;
    if (!check.intAttr(op, Attr::offset, 0, INT32_MAX)) return false;
    const int64_t offset = op.intAttr(Attr::offset), end = offset + 8 * int64_t(t.depth());
    if (offset % 8) return check.fail(op, "the offset is no multiple of 8");
    if (check.module.properties.plannedMemory && end > int64_t(check.module.kernel.sharedBytes))
      return check.fail(op, "ends at byte " + std::to_string(end) + " of " +
                                std::to_string(check.module.kernel.sharedBytes));
    return true;
  }

  bool dot() {
    Type a = type(0), b = type(1), acc = type(2);
    if (!isMatrixBuffer(a) && !isMatrixTile(a))
      return check.fail(op, "a is a buffer of depth 1 in shared memory or a tile, of rank 2");
    if (!isMatrixBuffer(b)) return check.fail(op, "b is a buffer of depth 1 in shared memory, of rank 2");
    if (!isMatrixTile(acc)) return check.fail(op, "the accumulator is a tile of rank 2");
    if (a.shape()[1] != b.shape()[0] || acc.shape()[0] != a.shape()[0] || acc.shape()[1] != b.shape()[1])
      return check.fail(op,
                        "shapes are [M, K], [K, N] and [M, N]; got " + a.str() + ", " + b.str() + " and " + acc.str());
    const Scalar s = a.scalar();
    const bool bothFp8 = isFp8(s) && isFp8(b.scalar()), bytes = s == Scalar::I8 || s == Scalar::U8;
    if (!bothFp8 && !bytes && s != Scalar::F16 && s != Scalar::BF16 && s != Scalar::F32)
      return check.fail(op, "multiplies f16, bf16, f32, fp8, i8 and u8, not " + scalarName(s).str());
    if (!bothFp8 && s != b.scalar() && !(bytes && scalarBits(b.scalar()) == 8 && isInt(b.scalar())))
      return check.fail(op, "a and b have one element type, or each an 8-bit type of one kind");
    if (acc.scalar() != (bytes ? Scalar::I32 : Scalar::F32))
      return check.fail(op, std::string("accumulates in ") + (bytes ? "i32" : "f32") + ", not in " +
                                scalarName(acc.scalar()).str());
    return need(op.numOperands() < 4 || isScalarOf(type(3), Scalar::I1), "use_acc is an i1") &&
           need(check.same(op.result()->type, acc), "the result has the type of the accumulator");
  }

  bool dotWait() {
    if (!check.intAttr(op, Attr::pending, 0, 1 << 20)) return false;
    if (op.hasAttr(Attr::pinned) && !check.intAttr(op, Attr::pinned, 0, 1)) return false;
    bool good = op.numResults() == op.numOperands();
    for (unsigned i = 0; good && i < op.numResults(); ++i)
      good = type(i).isTile() && check.same(op.result(i)->type, type(i));
    return need(good, "the results are tiles of the operands' types");
  }

  bool tasks() {
    const Op *around = op.parentOp();
    while (around && !around->is(Opcode::AsyncTasks) && !around->is(Opcode::Single)) around = around->parentOp();
    if (around) return check.fail(op, "stands inside another task or a single region");
    const Op *first = op.body().front();
    llvm::SmallVector<std::pair<int64_t, int64_t>, 4> taken;
    for (const Op &task : op.body()) {
      if (task.isTerminator()) continue;
      if (!task.is(Opcode::Task)) return check.fail(task, "stands among the tasks of async_tasks");
      const int64_t start = task.intAttr(Attr::start), end = start + task.intAttr(Attr::warps) * replicasOf(task);
      if (&task == first && (start != 0 || end != int64_t(check.module.kernel.numWarps)))
        return check.fail(task, "the first task is the default one, on the kernel's own warps");
      for (auto [from, to] : taken)
        if (start < to && from < end) return check.fail(task, "two tasks have the same warps");
      taken.push_back({start, end});
    }
    return need(!taken.empty(), "has a default task") && need(!op.body().numArgs(), "the region takes nothing") &&
           need(!op.body().terminator()->numOperands(), "the region yields nothing");
  }

  bool task() {
    if (!op.parentOp() || !op.parentOp()->is(Opcode::AsyncTasks)) return check.fail(op, "stands in async_tasks");
    if (!check.intAttr(op, Attr::warps, 1, 64) || !check.intAttr(op, Attr::start, 0, 63)) return false;
    if (op.hasAttr(Attr::replicas) && !check.intAttr(op, Attr::replicas, 2, 64)) return false;
    if (op.hasAttr(Attr::registers) &&
        (!check.intAttr(op, Attr::registers, 24, 256) || op.intAttr(Attr::registers) % 8))
      return check.fail(op, "'registers' is a multiple of 8");
    if (!llvm::isPowerOf2_64(uint64_t(op.intAttr(Attr::warps))))
      return check.fail(op, "the number of warps is a power of two");
    if (op.body().numArgs() || op.body().terminator()->numOperands())
      return check.fail(op, "the region takes and yields nothing");
    const Op *bad = nullptr;
    const_cast<Block &>(op.body()).walk([&](Op &inner) {
      for (Value *v : inner.operands())
        if (!bad && v && v->type && v->type.isTile() && !inside(*v)) bad = &inner;
    });
    return !bad || check.fail(*bad, "uses a tile from outside of its task, which is in the registers of other warps");
  }
  /// `v` is made in the region of `op`.
  bool inside(const Value &v) const {
    const Op *at = v.def() ? v.def()->parentOp() : v.block()->parentOp();
    while (at && at != &op) at = at->parentOp();
    return at != nullptr;
  }

  bool arrive() {
    if (!barrier(0) || !predicate(1)) return false;
    if (op.hasAttr(Attr::arrivals) && !check.intAttr(op, Attr::arrivals, 1, kMaxArrivals)) return false;
    return !op.intAttr(Attr::task) || need(!singleAround(op), "the task arrives, so all of it is there");
  }

  bool namedBarrier() {
    for (int64_t id : op.listAttr(Attr::ids))
      if (id < 0 || id > 15) return check.fail(op, "'ids' are 0 to 15");
    if (op.hasAttr(Attr::ids) && !onePerReplica(Attr::ids, 1)) return false;
    return (op.hasAttr(Attr::ids) || check.intAttr(op, Attr::id, 0, 15)) && check.intAttr(op, Attr::threads, 1, 2048) &&
           need(op.intAttr(Attr::threads) % check.module.kernel.warpSize == 0, "'threads' are whole warps");
  }

  bool onePerReplica(Attr attr, size_t each) {
    const size_t count = replicasOf(op) * each;
    return op.listAttr(attr).size() == count ||
           check.fail(op, "'" + attrName(attr).str() + "' has " + std::to_string(each) +
                              (each == 1 ? " number" : " numbers") + " for each replica of the task around it");
  }
  bool perReplica() {
    const Type t = op.result()->type;
    if (!t.isScalar() || !t.isIntLike()) return check.fail(op, "is a number, an integer");
    for (int64_t v : op.listAttr(Attr::values))
      if (wrapInt(v, t.scalar()) != v) return check.fail(op, "a value does not fit the type");
    return need(replicasOf(op) > 1, "stands in a task with replicas") && onePerReplica(Attr::values, 1);
  }

  bool run() {
    if (isSingleIssuer(op.opcode) && !singleAround(op))
      return check.fail(op, "is done by one thread for all: it stands in a single region");
    switch (op.opcode) {
    case Opcode::DescLoad:
      return descriptor() && tileBlock(op.result()->type) && indices(1) && eviction();
    case Opcode::DescStore:
      return descriptor() && tileBlock(type(1)) && indices(2) && reduction() && eviction();
    case Opcode::Single:
      return single();
    case Opcode::AllocBarriers:
      return allocBarriers();
    case Opcode::BarrierExpect:
      return barrier(0) && check.intAttr(op, Attr::bytes, 1, kMaxBytes);
    case Opcode::BarrierArrive:
      return arrive();
    case Opcode::AsyncTasks:
      return tasks();
    case Opcode::Task:
      return task();
    case Opcode::NamedBarrier:
      return namedBarrier();
    case Opcode::PerReplica:
      return perReplica();
    case Opcode::WarpAny:
      return need(type(0).isTile() && type(0).isBoolLike(), "the operand is a tile of i1") &&
             need(isScalarOf(op.result()->type, Scalar::I1), "the result is an i1");
    case Opcode::BarrierWait:
      return barrier(0) && need(isScalarOf(type(1), Scalar::I32), "the phase is an i32");
    case Opcode::AsyncDescLoad:
      return descriptor() && bufferBlock(type(1)) && barrier(2) && indices(3) && eviction();
    case Opcode::AsyncDescPrefetch:
      return descriptor() && indices(1) && eviction();
    case Opcode::AsyncBulkLoad:
      return bulk() && barrier(2);
    case Opcode::AsyncBulkStore:
      return bulk();
    case Opcode::Fence:
      return need(op.hasAttr(Attr::scope), "needs the attribute 'scope'") &&
             check.strAttr(op, Attr::scope, {"cta", "gpu", "sys", "async_global"});
    case Opcode::EdgeStore:
    case Opcode::AsyncDescStore:
      return descriptor() && columns(type(1)) && indices(2) && reduction() && eviction();
    case Opcode::AsyncStoreWait:
      return check.intAttr(op, Attr::pending, 0, 1 << 20) &&
             (!op.hasAttr(Attr::reads) || check.intAttr(op, Attr::reads, 0, 1));
    case Opcode::AsyncDot:
      return dot();
    case Opcode::AsyncDotWait:
      return dotWait();
    case Opcode::Uninit:
      return need(op.result()->type.isTile() && op.result()->type.element().isScalar(), "is a tile of numbers");
    default:
      return true;
    }
  }
};

} // namespace

bool OpChecker::asyncRules(const Op &op) {
  return AsyncRules{*this, op}.run();
}

} // namespace tlx::ir::detail
