// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Atomics on global memory. One thread does the atomic of an element; who holds a copy gets the result through shared
// memory.
//
// An order is that of the program and not of the thread that does the atomic: what all threads of the CTA wrote before
// a release is visible with it (they meet before), and what they read after an acquire is not older than it (they meet
// behind).
#include "codegen/codegen_p.h"

using namespace llvm;

namespace tlx::codegen {

namespace {
AtomicOrdering orderingOf(StringRef order) {
  if (order == "acquire") return AtomicOrdering::Acquire;
  if (order == "release") return AtomicOrdering::Release;
  if (order == "acq_rel") return AtomicOrdering::AcquireRelease;
  return AtomicOrdering::Monotonic;
}

} // namespace

AtomicRMWInst::BinOp atomicOperation(StringRef kind, ir::Scalar s) {
  const bool isFloat = ir::isFloat(s), isSigned = ir::isSignedInt(s);
  if (kind == "add") return isFloat ? AtomicRMWInst::FAdd : AtomicRMWInst::Add;
  if (kind == "min") return isFloat ? AtomicRMWInst::FMin : isSigned ? AtomicRMWInst::Min : AtomicRMWInst::UMin;
  if (kind == "max") return isFloat ? AtomicRMWInst::FMax : isSigned ? AtomicRMWInst::Max : AtomicRMWInst::UMax;
  if (kind == "and") return AtomicRMWInst::And;
  if (kind == "or") return AtomicRMWInst::Or;
  return kind == "xor" ? AtomicRMWInst::Xor : AtomicRMWInst::Xchg;
}

SyncScope::ID Generator::scopeOf(const ir::Op &op) {
  const StringRef scope = op.strAttr(ir::Attr::scope);
  if (scope == "sys") return SyncScope::System;
  if (scope == "cta") return context.getOrInsertSyncScopeID(nvidia() ? "block" : "workgroup");
  return context.getOrInsertSyncScopeID(nvidia() ? "device" : "agent");
}

Value *Generator::emitOneAtomic(const ir::Op &op, Value *pointer, ArrayRef<Value *> data) {
  const ir::Scalar s = op.operand(1)->type.scalar();
  const MaybeAlign align(ir::scalarBytes(s));
  const AtomicOrdering ordering = orderingOf(op.strAttr(ir::Attr::order));
  if (op.is(ir::Opcode::AtomicCas)) {
    llvm::Type *type = data[0]->getType(), *bits = b.getIntNTy(ir::scalarBits(s));
    const AtomicOrdering failure = ordering == AtomicOrdering::Acquire || ordering == AtomicOrdering::AcquireRelease
                                       ? AtomicOrdering::Acquire
                                       : AtomicOrdering::Monotonic;
    Value *pair = b.CreateAtomicCmpXchg(pointer, b.CreateBitCast(data[0], bits), b.CreateBitCast(data[1], bits), align,
                                        ordering, failure, scopeOf(op));
    return b.CreateBitCast(b.CreateExtractValue(pair, 0), type);
  }
  auto *rmw =
      b.CreateAtomicRMW(atomicOperation(op.strAttr(ir::Attr::kind), s), pointer, data[0], align, ordering, scopeOf(op));
  if (!nvidia() && op.strAttr(ir::Attr::scope) !=
                       "sys") { // ordinary device memory: the hardware's instruction, not a compare-and-swap loop
    rmw->setMetadata("amdgpu.no.fine.grained.memory", MDNode::get(context, {}));
    rmw->setMetadata("amdgpu.no.remote.memory", MDNode::get(context, {}));
    if (s == ir::Scalar::F32) rmw->setMetadata("amdgpu.ignore.denormal.mode", MDNode::get(context, {}));
  }
  return rmw;
}

void Generator::emitAtomic(const ir::Op &op) {
  ir::Type type = op.operand(1)->type;
  const ir::Scalar s = type.scalar();
  if (ir::isFp8(s) || s == ir::Scalar::I1) return unsupported(op, type);
  const unsigned maskAt = op.is(ir::Opcode::AtomicCas) ? 3 : 2;
  const layout::TileLayout *layout = type.isTile() ? type.layout() : nullptr;
  Regs pointers = operand(op, 0), mask = op.numOperands() > maskAt ? operand(op, maskAt) : Regs();
  auto at = [](Regs r, unsigned i) { return r.size() == 1 ? r[0] : r[i]; };
  Value *mine = isFirstHolder(layout);
  ArrayRef<unsigned> first = layout ? canonicalRegisters(*layout) : ArrayRef<unsigned>();
  const bool used = !op.result()->unused();
  const AtomicOrdering ordering = orderingOf(op.strAttr(ir::Attr::order));
  if (isReleaseOrStronger(ordering)) {
    // Where a barrier orders shared memory only, each thread makes sure of its own writes.
    if (!nvidia()) b.CreateFence(AtomicOrdering::Release, scopeOf(op));
    emitBarrier();
  }
  RegList results;
  for (unsigned r = 0; r < pointers.size(); ++r) {
    if (layout && first[r] != r) {
      results.push_back(results[first[r]]);
      continue;
    }
    Value *m = mask.empty() ? b.getTrue() : at(mask, r);
    if (mine) m = b.CreateAnd(m, mine);
    SmallVector<Value *, 2> data;
    for (unsigned i = 1; i < maskAt; ++i) data.push_back(at(operand(op, i), r));
    Value *before = Constant::getNullValue(registerType(type.element())), *none = before;
    BasicBlock *from = b.GetInsertBlock(), *done = nullptr;
    emitIf(m, [&] {
      before = emitOneAtomic(op, pointers[r], data);
      done = b.GetInsertBlock();
    });
    if (used && done && b.GetInsertBlock() != done) {
      PHINode *phi = b.CreatePHI(before->getType(), 2);
      phi->addIncoming(none, from);
      phi->addIncoming(before, done);
      before = phi;
    }
    results.push_back(before);
  }
  const bool share = used && redundantThreads(layout);
  if (share && !op.hasAttr(ir::Attr::scratch)) return fail(op, "no memory is planned for its results");
  set(op.result(), share ? shareAtomicResults(op, results, layout) : results);
  if (!isAcquireOrStronger(ordering)) return;
  if (!share) emitBarrier();
  if (!nvidia()) b.CreateFence(AtomicOrdering::Acquire, scopeOf(op));
  // TMA and bulk copies reach global memory through another proxy.
  bool units = false;
  const_cast<ir::Block &>(module.kernel.body).walk([&](ir::Op &other) {
    units |= other.is(ir::Opcode::AsyncDescLoad) || other.is(ir::Opcode::AsyncDescStore) ||
             other.is(ir::Opcode::AsyncBulkLoad) || other.is(ir::Opcode::AsyncBulkStore);
  });
  if (units) device("tlx.nv.fence.proxy.async.global", {});
}

// Only the first holder of an element has performed its atomic; the others get the result through shared memory: one
// slot an element, a barrier before the reads, and one before the next use.
RegList Generator::shareAtomicResults(const ir::Op &op, Regs owned, const layout::TileLayout *layout) {
  llvm::Type *type = owned[0]->getType();
  const unsigned bytes = type->getPrimitiveSizeInBits() / 8;
  Value *start = plannedOffset(op);
  auto slot = [&](unsigned r) {
    Value *index = b.getInt32(0);
    for (unsigned d = 0; layout && d < layout->rank(); ++d)
      index =
          b.CreateNSWAdd(b.CreateNSWMul(index, b.getInt32(unsigned(layout->shape()[d]))), coordinate(*layout, r, d));
    Value *offset = b.CreateNSWAdd(b.CreateNSWMul(index, b.getInt32(bytes)), start);
    return b.CreateGEP(b.getInt8Ty(), smemBase(), offset);
  };
  emitIf(isFirstHolder(layout), [&] {
    for (unsigned r = 0; r < owned.size(); ++r)
      if (!layout || canonicalRegisters(*layout)[r] == r) b.CreateAlignedStore(owned[r], slot(r), Align(bytes));
  });
  emitBarrier();
  RegList regs;
  for (unsigned r = 0; r < owned.size(); ++r) regs.push_back(b.CreateAlignedLoad(type, slot(r), Align(bytes)));
  if (!layout) regs[0] = uniform(regs[0]);
  emitBarrier();
  return regs;
}

} // namespace tlx::codegen
