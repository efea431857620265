// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operations of asynchronous units: barriers, TMA, wgmma. What one thread does for its task stands in a single region.
#include "ir/descriptors.h"
#include "lang/elaborate_p.h"

namespace tlx::lang {

using ir::Attr;
using ir::Opcode;
using ir::Scalar;

llvm::ArrayRef<Builtin> asyncBuiltins() {
  static const Builtin kTable[] = {
      {"async_task_replica_id", "", &Elaborator::opTaskReplicaId},
      {"alloc_barriers", "num, arrive_count?", &Elaborator::opAllocBarriers},
      {"alloc_warp_barrier", "num, num_warps?, num_arrivals?", &Elaborator::opAllocBarriers},
      {"barrier_wait", "barrier, phase, pred?", &Elaborator::opBarrierWait},
      {"barrier_arrive", "barrier, arrive_count?, pred?", &Elaborator::opBarrierArrive},
      {"barrier_expect_bytes", "barrier, bytes, pred?", &Elaborator::opBarrierExpect},
      {"named_barrier_wait", "id, threads", &Elaborator::opNamedBarrier},
      {"named_barrier_arrive", "id, threads", &Elaborator::opNamedBarrier},
      {"fence", "scope", &Elaborator::opFence},
      {"fence_async_shared", "", &Elaborator::opFence},
      {"async_descriptor_load", "desc, buffer, offsets, barrier, pred?, eviction?", &Elaborator::opAsyncDescLoad},
      {"async_descriptor_store", "desc, buffer, offsets, reduce?, eviction?", &Elaborator::opAsyncDescStore},
      {"async_descriptor_reduce", "desc, buffer, offsets, kind, eviction?", &Elaborator::opAsyncDescStore},
      {"async_descriptor_prefetch", "desc, offsets, pred?, eviction?", &Elaborator::opAsyncDescPrefetch},
      {"async_bulk_load", "pointer, buffer, barrier, bytes?, pred?, eviction?", &Elaborator::opAsyncBulk},
      {"async_bulk_store", "pointer, buffer, bytes?, pred?, eviction?", &Elaborator::opAsyncBulk},
      {"async_descriptor_store_wait", "pending", &Elaborator::opAsyncDescStoreWait},
      {"async_dot", "a, b, acc?, use_acc?", &Elaborator::opAsyncDot},
      {"async_dot_wait", "pending, ..., pinned?", &Elaborator::opAsyncDotWait},
      {"warp_any", "x", &Elaborator::opWarpAny},
  };
  return kTable;
}

namespace {
constexpr int64_t kMaxBarriers = 256, kMaxArrivals = (1 << 20) - 1, kMaxBytes = (1 << 20) - 1, kMaxPending = 63,
                  kNamedBarriers = 16;

/// The region that one thread of the task runs.
ir::Builder single(Elaborator &e, ir::Value *pred, ir::Op *&region) {
  llvm::SmallVector<ir::Value *, 1> operands;
  if (pred) operands.push_back(pred);
  region = e.b().create(Opcode::Single, operands, {});
  ir::Builder in(*e.module);
  in.loc = e.b().loc;
  in.atEnd(region->addRegion());
  e.operations += 2;
  return in;
}
} // namespace

ir::Value *Elaborator::barrierOf(const CallArgs &a, unsigned i) {
  const Val &v = a.vals[i];
  if (!v.isBarrier()) return error(Diag::ElNeedsBarrier, a.locs[i], a.name, describe(v)), nullptr;
  if (v.v->type.depth() != 1) return error(Diag::ElOneSlot, a.locs[i], a.name, describe(v)), nullptr;
  return v.v;
}

std::optional<ir::Value *> Elaborator::predicate(const CallArgs &a, unsigned i) {
  if (!a.has(i)) return nullptr;
  const Val &v = a.vals[i];
  if (!v.isArithmetic() || v.isTile() || v.scalar() != Scalar::I1) {
    error(Diag::ElNotBool, a.locs[i], "'pred'", describe(v));
    return std::nullopt;
  }
  return materialize(v, a.locs[i]);
}

//===-- barriers --------------------------------------------------------------------------------------------------===//

Val Elaborator::opAllocBarriers(CallArgs &a) {
  const bool ofWarps = a.name == "alloc_warp_barrier";
  auto count = [&](unsigned i, llvm::StringRef what, int64_t most, int64_t &out) {
    if (!a.has(i)) return true;
    auto n = constInt(a, i, what);
    if (!n) return false;
    if (*n >= 1 && *n <= most) return out = *n, true;
    error(Diag::ElCountRange, a.locs[i], what, most, *n);
    return false;
  };
  int64_t num = 1, arrivals = 1, more = 1;
  const bool ok = count(0, "the number of barriers", kMaxBarriers, num) &&
                  count(1, ofWarps ? "num_warps" : "arrive_count", ofWarps ? 64 : kMaxArrivals, arrivals) &&
                  (!ofWarps || count(2, "num_arrivals", 1024, more));
  if (!ok) return Val::poison();
  // Barriers are initialized once, before anybody uses them.
  if (task || frame().controlDepth || b().insertBlock() != &module->kernel.body)
    return error(Diag::ElBarrierPlace, a.nameLoc, a.name);
  ++operations;
  ir::Op *op = b().create(Opcode::AllocBarriers, {}, context.barrier(unsigned(num)));
  op->setAttr(Attr::arrivals, arrivals * more);
  if (ofWarps) op->setAttr(Attr::warps, int64_t(1));
  return Val::runtime(op->result());
}

/// The alloc_barriers that a barrier is one of.
static const ir::Op &allocOf(const ir::Value *barrier) {
  while (!barrier->def()->is(Opcode::AllocBarriers)) barrier = barrier->def()->operand(0);
  return *barrier->def();
}

Val Elaborator::opBarrierWait(CallArgs &a) {
  ir::Value *barrier = barrierOf(a, 0);
  const Val &phase = a.vals[1];
  auto pred = predicate(a, 2);
  if (!barrier || !pred) return Val::poison();
  if (!phase.isArithmetic() || phase.isTile() || phase.isFloat() ||
      (!phase.isLiteral() && phase.scalar() != Scalar::I32))
    return error(Diag::ElPhase, a.locs[1], describe(phase));
  if (phase.isInt() && phase.i != 0 && phase.i != 1) return error(Diag::ElPhase, a.locs[1], phase.i);
  ir::Value *parity = materializeAs(phase, Scalar::I32, a.locs[1], "a phase");
  if (!parity) return Val::poison();
  operations += 2;
  if (!*pred) {
    b().create(Opcode::BarrierWait, {barrier, parity}, {});
    return Val::unit();
  }
  ir::Block *outside = b().insertBlock();
  ir::Op *branch = b().ifOp(*pred, {});
  b().atEnd(branch->body(0));
  b().create(Opcode::BarrierWait, {barrier, parity}, {});
  b().yield({});
  b().atEnd(branch->body(1));
  b().yield({});
  b().atEnd(*outside);
  return Val::unit();
}

Val Elaborator::opBarrierArrive(CallArgs &a) {
  ir::Value *barrier = barrierOf(a, 0);
  auto pred = predicate(a, 2);
  if (!barrier || !pred) return Val::poison();
  int64_t count = 1;
  if (a.has(1)) {
    auto n = constInt(a, 1, "arrive_count");
    if (!n) return Val::poison();
    if (*n < 1 || *n > kMaxArrivals) return error(Diag::ElCountRange, a.locs[1], "arrive_count", kMaxArrivals, *n);
    count = *n;
  }
  llvm::SmallVector<ir::Value *, 2> operands{barrier};
  if (*pred) operands.push_back(*pred);
  ++operations;
  ir::Op *op = b().create(Opcode::BarrierArrive, operands, {});
  if (count != 1) op->setAttr(Attr::arrivals, count);
  if (!allocOf(barrier).intAttr(Attr::warps)) op->setAttr(Attr::task, int64_t(1));
  return Val::unit();
}

Val Elaborator::opBarrierExpect(CallArgs &a) {
  ir::Value *barrier = barrierOf(a, 0);
  auto bytes = constInt(a, 1, "the number of bytes");
  auto pred = predicate(a, 2);
  if (!barrier || !bytes || !pred) return Val::poison();
  if (*bytes < 1 || *bytes > kMaxBytes)
    return error(Diag::ElCountRange, a.locs[1], "the number of bytes", kMaxBytes, *bytes);
  if (allocOf(barrier).intAttr(Attr::warps)) return error(Diag::ElWarpBarrier, a.locs[0], a.name);
  ir::Op *region = nullptr;
  ir::Builder in = single(*this, *pred, region);
  in.create(Opcode::BarrierExpect, {barrier}, {})->setAttr(Attr::bytes, *bytes);
  in.yield({});
  return Val::unit();
}

Val Elaborator::opNamedBarrier(CallArgs &a) {
  auto id = constInt(a, 0, "the number of a named barrier"), threads = constInt(a, 1, "the number of threads");
  if (!id || !threads) return Val::poison();
  if (*id < 0 || *id >= kNamedBarriers) return error(Diag::ElNamedBarrier, a.locs[0], *id);
  if (*threads < options.warpSize || *threads > 1024 || *threads % options.warpSize)
    return error(Diag::ElNamedThreads, a.locs[1], options.warpSize, *threads);
  ++operations;
  ir::Op *op = b().create(Opcode::NamedBarrier, {}, {});
  op->setAttr(Attr::id, *id);
  op->setAttr(Attr::threads, *threads);
  if (a.name == "named_barrier_arrive") op->setAttr(Attr::arrive, int64_t(1));
  return Val::unit();
}

Val Elaborator::opFence(CallArgs &a) {
  std::string scope = "async_shared";
  if (a.name == "fence") {
    auto word = oneOf(a, 0, "'scope'", {"cta", "gpu", "sys", "async_shared", "async_global"});
    if (!word) return Val::poison();
    scope = *word;
  }
  ++operations;
  if (scope == "async_shared")
    b().create(Opcode::FenceProxy, {}, {});
  else
    b().create(Opcode::Fence, {}, {})->setAttr(Attr::scope, scope);
  if (scope == "async_global")
    b().create(Opcode::Barrier, {}, {}); // the thread that starts a unit stands for all of the task
  return Val::unit();
}

//===-- TMA -------------------------------------------------------------------------------------------------------===//

/// A descriptor, and a buffer that holds its block.
static bool blockOf(Elaborator &e, const CallArgs &a, ir::Value *&buffer) {
  if (!a.vals[0].isDesc()) {
    e.error(Diag::ElNeedsDesc, a.locs[0], a.name, e.describe(a.vals[0]));
    return false;
  }
  buffer = e.bufferOf(a, 1);
  if (!buffer) return false;
  const ir::Type desc = a.vals[0].v->type;
  if (ir::blockDimensions(desc.shape(), buffer->type.shape()) && buffer->type.scalar() == desc.scalar()) return true;
  e.error(Diag::ElBlockBuffer, a.locs[1], e.describe(a.vals[1]), e.describe(a.vals[0]));
  return false;
}

static void setEviction(ir::Op *op, const std::string &eviction) {
  if (!eviction.empty()) op->setAttr(Attr::eviction, eviction);
}

Val Elaborator::opAsyncDescLoad(CallArgs &a) {
  ir::Value *buffer = nullptr;
  if (!blockOf(*this, a, buffer)) return Val::poison();
  auto offsets = blockOffsets(a, a.vals[0], 2);
  ir::Value *barrier = barrierOf(a, 3);
  auto pred = predicate(a, 4);
  auto eviction = bulkEviction(a, 5);
  if (!offsets || !barrier || !pred || !eviction) return Val::poison();
  if (allocOf(barrier).intAttr(Attr::warps)) return error(Diag::ElWarpBarrier, a.locs[3], a.name);
  llvm::SmallVector<ir::Value *, 8> operands{a.vals[0].v, buffer, barrier};
  operands.append(offsets->begin(), offsets->end());
  ir::Op *region = nullptr;
  ir::Builder in = single(*this, *pred, region);
  setEviction(in.create(Opcode::AsyncDescLoad, operands, {}), *eviction);
  in.yield({});
  return Val::unit();
}

Val Elaborator::opAsyncDescStore(CallArgs &a) {
  ir::Value *buffer = nullptr;
  if (!blockOf(*this, a, buffer)) return Val::poison();
  auto offsets = blockOffsets(a, a.vals[0], 2);
  auto reduce = a.has(3) ? descReduce(a, 3, a.vals[0].v->type) : std::string();
  auto eviction = bulkEviction(a, 4);
  if (!offsets || !reduce || !eviction) return Val::poison();
  llvm::SmallVector<ir::Value *, 8> operands{a.vals[0].v, buffer};
  operands.append(offsets->begin(), offsets->end());
  ir::Op *region = nullptr;
  ir::Builder in = single(*this, nullptr, region);
  ir::Op *store = in.create(Opcode::AsyncDescStore, operands, {});
  setEviction(store, *eviction);
  in.create(Opcode::AsyncStoreCommit, {}, {});
  in.yield({});
  ir::Op *edge = b().create(Opcode::EdgeStore, operands, {});
  if (!reduce->empty()) store->setAttr(Attr::reduce, *reduce), edge->setAttr(Attr::reduce, *reduce);
  return Val::unit();
}

Val Elaborator::opAsyncDescStoreWait(CallArgs &a) {
  auto pending = constInt(a, 0, "the number of stores");
  if (!pending) return Val::poison();
  if (*pending < 0 || *pending > kMaxPending)
    return error(Diag::ElPendingRange, a.locs[0], "the number of stores", kMaxPending, *pending);
  ir::Op *region = nullptr;
  ir::Builder in = single(*this, nullptr, region);
  in.create(Opcode::AsyncStoreWait, {}, {})->setAttr(Attr::pending, *pending);
  in.yield({});
  // Behind it each thread of the task may write the buffers.
  b().create(Opcode::Barrier, {}, {});
  return Val::unit();
}

Val Elaborator::opAsyncDescPrefetch(CallArgs &a) {
  if (!a.vals[0].isDesc()) return error(Diag::ElNeedsDesc, a.locs[0], a.name, describe(a.vals[0]));
  auto offsets = blockOffsets(a, a.vals[0], 1);
  auto pred = predicate(a, 2);
  auto eviction = bulkEviction(a, 3);
  if (!offsets || !pred || !eviction) return Val::poison();
  llvm::SmallVector<ir::Value *, 8> operands{a.vals[0].v};
  operands.append(offsets->begin(), offsets->end());
  ir::Op *region = nullptr;
  ir::Builder in = single(*this, *pred, region);
  setEviction(in.create(Opcode::AsyncDescPrefetch, operands, {}), *eviction);
  in.yield({});
  return Val::unit();
}

/// async_bulk_load and async_bulk_store: as many bytes as there are at a pointer, without a descriptor.
Val Elaborator::opAsyncBulk(CallArgs &a) {
  const bool load = a.name == "async_bulk_load";
  const unsigned next = load ? 3 : 2; // bytes, pred, eviction
  const Val &p = a.vals[0];
  ir::Value *buffer = bufferOf(a, 1), *barrier = load ? barrierOf(a, 2) : nullptr;
  auto pred = predicate(a, next + 1);
  auto eviction = bulkEviction(a, next + 2);
  if (!buffer || (load && !barrier) || !pred || !eviction) return Val::poison();
  if (buffer->type.rank() != 1) return error(Diag::ElBulkBuffer, a.locs[1], a.name, describe(a.vals[1]));
  if (!p.isPointerLike() || p.isTile() || p.v->type.scalar() != buffer->type.scalar())
    return error(Diag::ElBulkPointer, a.locs[0], a.name, describe(p), ir::scalarName(buffer->type.scalar()));
  if (load && allocOf(barrier).intAttr(Attr::warps)) return error(Diag::ElWarpBarrier, a.locs[2], a.name);
  const int64_t whole = buffer->type.elements() * int64_t(ir::scalarBytes(buffer->type.scalar()));
  auto bytes = a.has(next) ? constInt(a, next, "the number of bytes") : whole;
  if (!bytes) return Val::poison();
  if (*bytes < 16 || *bytes > whole || *bytes % 16)
    return error(Diag::ElBulkBytes, a.has(next) ? a.locs[next] : a.locs[1], whole, *bytes);
  llvm::SmallVector<ir::Value *, 3> operands{p.v, buffer};
  if (load) operands.push_back(barrier);
  ir::Op *region = nullptr;
  ir::Builder in = single(*this, *pred, region);
  ir::Op *copy = in.create(load ? Opcode::AsyncBulkLoad : Opcode::AsyncBulkStore, operands, {});
  copy->setAttr(Attr::bytes, *bytes);
  setEviction(copy, *eviction);
  if (!load) in.create(Opcode::AsyncStoreCommit, {}, {});
  in.yield({});
  return Val::unit();
}

//===-- wgmma -----------------------------------------------------------------------------------------------------===//

Val Elaborator::opAsyncDot(CallArgs &a) {
  const bool tile = a.vals[0].isTile();
  ir::Value *x = tile ? a.vals[0].v : bufferOf(a, 0), *y = bufferOf(a, 1);
  if (!x || !y) return Val::poison();
  for (unsigned i = 0; i < 2; ++i)
    if ((i ? y : x)->type.rank() != 2) return error(Diag::ElDotRank, a.locs[i], describe(a.vals[i]));
  llvm::ArrayRef<int64_t> xs = x->type.shape(), ys = y->type.shape();
  if (xs[1] != ys[0]) return error(Diag::ElDotShapes, a.loc, shapeText(xs), shapeText(ys), xs[1], ys[0]);
  const Scalar s = x->type.isTile() ? x->type.element().scalar() : x->type.scalar(), t = y->type.scalar();
  const bool bytes = s == Scalar::I8 || s == Scalar::U8, bothBytes = bytes && (t == Scalar::I8 || t == Scalar::U8);
  if (s != t && !bothBytes && !(ir::isFp8(s) && ir::isFp8(t)))
    return error(Diag::ElDotTypes, a.loc, ir::scalarName(s), ir::scalarName(t));
  if ((ir::isInt(s) && !bytes) || s == Scalar::F64) return error(Diag::ElAsyncDotType, a.locs[0], ir::scalarName(s));
  ir::Type want = context.tile(context.scalar(bytes ? Scalar::I32 : Scalar::F32), {xs[0], ys[1]});
  ir::Value *acc = nullptr;
  if (a.has(2)) {
    if (!a.vals[2].isTile() || a.vals[2].v->type != want)
      return error(Diag::ElDotAcc, a.locs[2], describe(a.vals[2]), want.str());
    acc = a.vals[2].v;
  } else {
    acc = b().constant(want, 0);
  }
  llvm::SmallVector<ir::Value *, 4> operands{x, y, acc};
  if (a.has(3)) {
    const Val &use = a.vals[3];
    if (!use.isArithmetic() || use.isTile() || use.scalar() != Scalar::I1)
      return error(Diag::ElNotBool, a.locs[3], "'use_acc'", describe(use));
    if (!a.has(2)) return error(Diag::ElUseAcc, a.locs[3]);
    if (!use.isBool() || !use.i) operands.push_back(materialize(use, a.locs[3])); // true is the default
  }
  operations += 2;
  return Val::runtime(b().create(Opcode::AsyncDot, operands, want)->result());
}

Val Elaborator::opAsyncDotWait(CallArgs &a) {
  auto pending = constInt(a, 0, "the number of products");
  if (!pending) return Val::poison();
  if (*pending < 0 || *pending > 7)
    return error(Diag::ElPendingRange, a.locs[0], "the number of products", 7, *pending);
  auto pinned = constBool(a, 1);
  if (!pinned) return Val::poison();
  llvm::SmallVector<ir::Value *, 2> values;
  llvm::SmallVector<ir::Type, 2> types;
  for (const ArgVal &v : a.rest) {
    if (!v.val.isTile()) return error(Diag::ElNeedsTile, v.loc, a.name, describe(v.val));
    values.push_back(v.val.v), types.push_back(v.val.v->type);
  }
  ++operations;
  ir::Op *op = b().create(Opcode::AsyncDotWait, values, types);
  op->setAttr(Attr::pending, *pending);
  if (*pinned) op->setAttr(Attr::pinned, int64_t(1));
  if (values.empty()) return Val::unit();
  if (values.size() == 1) return Val::runtime(op->result());
  std::vector<Val> results;
  for (unsigned i = 0; i < values.size(); ++i) results.push_back(Val::runtime(op->result(i)));
  return Val::tuple(std::move(results));
}

Val Elaborator::opWarpAny(CallArgs &a) {
  ir::Value *x = tileOf(a, 0);
  if (!x) return Val::poison();
  if (!a.vals[0].isArithmetic() || a.vals[0].scalar() != Scalar::I1)
    return error(Diag::ElWarpAny, a.locs[0], describe(a.vals[0]));
  ++operations;
  return Val::runtime(b().create(Opcode::WarpAny, x, b().i1())->result());
}

} // namespace tlx::lang
