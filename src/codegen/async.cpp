// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Asynchronous units in explicit form: mbarriers, TMA, store groups, and the region that one thread of the CTA runs.
#include "codegen/codegen_p.h"
#include "ir/descriptors.h"
#include "layout/message_layout.h"

using namespace llvm;

namespace tlx::codegen {

/// Warp 0 enters, which the assembler sees to be the same for all its lanes; it waits as a whole, and one lane does the rest. (With the wait
/// under the elected lane's branch, the loop around it would be divergent code.)
void Generator::emitSingle(const ir::Op &op) {
  Value *enters = scope.warps == 1 ? b.getTrue() : b.CreateICmpEQ(warpIndex(), b.getInt32(0));
  if (op.numOperands()) enters = b.CreateAnd(enters, scalarOperand(op, 0));
  emitIf(enters, [&] {
    ir::Op *next = op.body().front();
    auto emitOne = [&] {
      b.SetCurrentDebugLocation(debugLoc(next->loc));
      emitOp(*next);
      next = next->next();
    };
    while (next && (next->is(ir::Opcode::BarrierWait) || next->has(ir::Pure))) emitOne();
    insideSingle = true;
    emitIf(elected(), [&] {
      while (next) emitOne();
    });
    insideSingle = false;
  });
}

Value *Generator::sharedPointer(Value *offset) {
  return b.CreateGEP(b.getInt8Ty(), smemBase(), offset);
}

// --- mbarriers ------------------------------------------------------------------------------------------------------

void Generator::emitAllocBarriers(const ir::Op &op) {
  if (!op.hasAttr(ir::Attr::offset)) return fail(op, "memory has not been planned");
  const unsigned offset = unsigned(op.intAttr(ir::Attr::offset));
  set(op.result(), b.getInt32(offset));
  emitIf(leader(), [&] {
    if (!mapsFetched)
      for (const ir::Value *map : tensorMaps) device("tlx.nv.tma.prefetch.map", get(map).front());
    mapsFetched = true;
    for (unsigned i = 0; i < op.result()->type.depth(); ++i)
      device("tlx.nv.mbarrier.init",
             {sharedPointer(b.getInt32(offset + 8 * i)), b.getInt32(unsigned(op.intAttr(ir::Attr::arrivals, 1)))});
    device("tlx.nv.fence.mbarrier.init", {});
  });
}

void Generator::emitBarrierOp(const ir::Op &op) {
  Value *barrier = sharedPointer(scalarOperand(op, 0));
  switch (op.opcode) {
  case ir::Opcode::BarrierExpect:
    device("tlx.nv.mbarrier.arrive.expect.tx", {barrier, b.getInt32(unsigned(op.intAttr(ir::Attr::bytes)))});
    return;
  case ir::Opcode::BarrierArrive: {
    auto arrive = [&] {
      device("tlx.nv.mbarrier.arrive", {barrier, b.getInt32(unsigned(op.intAttr(ir::Attr::arrivals, 1)))});
    };
    Value *condition = op.numOperands() > 1 ? scalarOperand(op, 1) : nullptr;
    if (insideSingle) return emitIf(condition, arrive);
    // One lane speaks for its warp, behind what the others did.
    device("tlx.nv.bar.warp.sync", {b.getInt32(~0u)});
    return emitIf(condition ? b.CreateAnd(elected(), condition) : elected(), arrive);
  }
  default:
    return emitBarrierWait(op, barrier);
  }
}

// --- TMA --------------------------------------------------------------------------------------------------------------

void Generator::emitAsyncDesc(const ir::Op &op) {
  const bool load = op.is(ir::Opcode::AsyncDescLoad);
  ir::Type buffer = op.operand(1)->type;
  const auto block = ir::columnsOfBlock(op.operand(0)->type.shape(), buffer.shape());
  const unsigned bits = memoryBits(buffer), bytes = bits / 8, first = load ? 3 : 2, rank = block.size();
  const auto dims = *ir::blockDimensions(block, buffer.shape());
  auto messages = buffer.sharedLayout() ? layout::messagesOf(*buffer.sharedLayout(), bits) : std::nullopt;
  if (!messages) return fail(op, "the buffer's layout is not one that TMA writes");
  // A block is seen through the descriptor's own dimensions; the coordinates go innermost first.
  std::string name = load ? "tlx.nv.tma.load." : "tlx.nv.tma.store.";
  if (!load && op.hasAttr(ir::Attr::reduce)) name = "tlx.nv.tma.reduce." + op.strAttr(ir::Attr::reduce).str() + ".";
  name += std::to_string(rank) + "d";
  auto issue = [&](const layout::Messages::One &m) {
    SmallVector<Value *, 10> args;
    Value *at = scalarOperand(op, 1);
    if (m.offset) at = b.CreateAdd(at, b.getInt32(unsigned(m.offset * bytes)), "", true, true);
    args.push_back(sharedPointer(at));
    if (load) args.push_back(sharedPointer(scalarOperand(op, 2)));
    args.push_back(scalarOperand(op, 0));
    SmallVector<Value *, 5> coordinates;
    for (unsigned d = 0; d < rank; ++d) coordinates.push_back(scalarOperand(op, first + d));
    for (unsigned d = 0; d < dims.size(); ++d)
      if (m.at[d]) coordinates[dims[d]] = b.CreateAdd(coordinates[dims[d]], b.getInt32(unsigned(m.at[d])));
    args.append(coordinates.rbegin(), coordinates.rend());
    args.push_back(cachePolicy(op));
    device(name, args);
  };
  emitIf(load ? nullptr : storedByTma(op), [&] { // else edge_store has it
    for (const layout::Messages::One &m : messages->list) issue(m);
  });
}

/// The fixed policies of the priority in L2, as CUTLASS has them (cute::TMA::CacheHintSm90); 0: none.
Value *Generator::cachePolicy(const ir::Op &op) {
  const StringRef eviction = op.strAttr(ir::Attr::eviction);
  return b.getInt64(eviction == "evict_first"    ? 0x12F0000000000000
                    : eviction == "evict_last"   ? 0x14F0000000000000
                    : eviction == "evict_normal" ? 0x1000000000000000
                                                 : 0);
}

/// Message by message, of the box that the descriptor has.
void Generator::emitPrefetch(const ir::Op &op) {
  const ir::Value &descriptor = *op.operand(0);
  const llvm::ArrayRef<int64_t> block = descriptor.type.shape();
  const std::vector<uint32_t> &box = boxes[&descriptor];
  const std::string name = "tlx.nv.tma.prefetch." + std::to_string(block.size()) + "d";
  SmallVector<int64_t, 5> at(block.size(), 0);
  for (;;) {
    SmallVector<Value *, 8> args{scalarOperand(op, 0)};
    for (unsigned d = block.size(); d-- > 0;)
      args.push_back(b.CreateAdd(scalarOperand(op, 1 + d), b.getInt32(unsigned(at[d]))));
    args.push_back(cachePolicy(op));
    device(name, args);
    unsigned d = block.size();
    while (d-- > 0) {
      at[d] += box[d];
      if (at[d] < block[d]) break;
      at[d] = 0;
    }
    if (d == ~0u) return;
  }
}

void Generator::emitBulkCopy(const ir::Op &op) {
  const layout::SharedLayout *memory = op.operand(1)->type.sharedLayout();
  bool plain = memory != nullptr; // element i at i
  for (unsigned k = 0; plain && k < memory->bases()[0].size(); ++k) plain = memory->bases()[0][k] == 1u << k;
  if (!plain || (memory->shape()[0] != memory->box()[0] && memory->boxStride()[0] != memory->box()[0]))
    return fail(op, "the buffer's elements do not lie one after the other");
  Value *shared = sharedPointer(scalarOperand(op, 1)), *bytes = b.getInt32(unsigned(op.intAttr(ir::Attr::bytes)));
  if (op.is(ir::Opcode::AsyncBulkLoad))
    device("tlx.nv.bulk.load",
           {shared, sharedPointer(scalarOperand(op, 2)), scalarOperand(op, 0), bytes, cachePolicy(op)});
  else
    device("tlx.nv.bulk.store", {scalarOperand(op, 0), shared, bytes, cachePolicy(op)});
}

void Generator::emitFence(const ir::Op &op) {
  if (op.strAttr(ir::Attr::scope) == "async_global")
    device("tlx.nv.fence.proxy.async.global", {});
  else if (nvidia())
    device(("tlx.nv.fence.acq.rel." + op.strAttr(ir::Attr::scope)).str(), {});
  else
    b.CreateFence(AtomicOrdering::AcquireRelease, scopeOf(op));
}

/// Whether TMA can store the block: rows are multiples of 16 bytes (it would write the last 16 bytes of others whole), and
/// no box has a negative index (an H200 stops the kernel with an illegal instruction).
Value *Generator::storedByTma(const ir::Op &op) {
  const ir::Value *descriptor = op.operand(0);
  auto it = descriptorFields.find(descriptor);
  if (it == descriptorFields.end() || it->second.empty()) return nullptr;
  const unsigned unit = 16 / ir::scalarBytes(descriptor->type.scalar());
  Value *good = b.CreateICmpEQ(b.CreateAnd(it->second.back(), b.getInt32(unit - 1)), b.getInt32(0));
  const ArrayRef<int64_t> block = descriptor->type.shape();
  for (unsigned d = 0; d < block.size(); ++d) // boxes begin inside the block
    good = b.CreateAnd(good, b.CreateICmpULE(scalarOperand(op, 2 + d), b.getInt32(uint32_t(INT32_MAX - block[d]))));
  return good;
}

/// A loop over the block's elements, one a thread at a time: little code, for what is rare.
void Generator::emitEdgeStore(const ir::Op &op) {
  ir::Type buffer = op.operand(1)->type, element = buffer.context().scalar(buffer.scalar());
  const layout::SharedLayout *memory = buffer.sharedLayout();
  Value *byTma = storedByTma(op);
  if (!byTma || !memory) return fail(op, "the descriptor's fields or the buffer's layout are missing");
  const auto &fields = descriptorFields[op.operand(0)];
  const llvm::ArrayRef<int64_t> shape = buffer.shape();
  const auto block = ir::columnsOfBlock(op.operand(0)->type.shape(), shape);
  const auto dims = *ir::blockDimensions(block, shape);
  const unsigned rank = block.size(), bytes = memoryBits(buffer) / 8;
  emitIf(b.CreateNot(byTma), [&] {
    BasicBlock *before = b.GetInsertBlock(), *head = newBlock("edge"), *body = newBlock("element"),
               *after = newBlock("edges");
    Value *start = threadId();
    b.CreateBr(head);
    b.SetInsertPoint(head);
    PHINode *index = b.CreatePHI(b.getInt32Ty(), 2);
    index->addIncoming(start, before);
    b.CreateCondBr(b.CreateICmpULT(index, b.getInt32(unsigned(buffer.elements()))), body, after);
    b.SetInsertPoint(body);
    SmallVector<Value *, 5> at(rank, b.getInt32(0)); // inside the block
    Value *rest = index;
    SmallVector<Value *, 5> inBuffer(shape.size());
    for (unsigned d = shape.size(); d-- > 0;) {
      Value *c = d ? b.CreateURem(rest, b.getInt32(unsigned(shape[d]))) : rest;
      if (d) rest = b.CreateUDiv(rest, b.getInt32(unsigned(shape[d])));
      at[dims[d]] = inBuffer[d] = c;
    }
    Value *inside = b.getTrue(), *offset = b.getInt64(0);
    for (unsigned d = 0; d < rank; ++d) {
      Value *c = b.CreateAdd(scalarOperand(op, 2 + d), at[d]);
      inside = b.CreateAnd(inside, b.CreateICmpULT(c, fields[rank + d])); // a negative one is large
      Value *wide = b.CreateSExt(c, b.getInt64Ty());
      offset = b.CreateAdd(offset, d + 1 < rank ? b.CreateMul(wide, fields[1 + d]) : wide);
    }
    Value *from = b.CreateAdd(scalarOperand(op, 1), b.CreateMul(elementOffset(*memory, inBuffer), b.getInt32(bytes)));
    emitIf(inside, [&] {
      Value *to = b.CreateGEP(b.getInt8Ty(), fields[0], b.CreateMul(offset, b.getInt64(bytes)));
      Value *v = b.CreateAlignedLoad(memoryType(element), sharedPointer(from), Align(bytes));
      if (op.hasAttr(ir::Attr::reduce))
        b.CreateAtomicRMW(atomicOperation(op.strAttr(ir::Attr::reduce), element.scalar()), to, v, Align(bytes),
                          AtomicOrdering::Monotonic, scopeOf(op));
      else
        b.CreateAlignedStore(v, to, Align(bytes));
    });
    index->addIncoming(b.CreateAdd(index, b.getInt32(threads())), b.GetInsertBlock());
    b.CreateBr(head);
    b.SetInsertPoint(after);
    device("tlx.nv.fence.proxy.async.global", {}); // a TMA load may read them next
  });
}

void Generator::emitAsyncStore(const ir::Op &op) {
  if (op.is(ir::Opcode::AsyncStoreCommit)) {
    device("tlx.nv.bulk.commit", {});
    return;
  }
  device(op.intAttr(ir::Attr::reads) ? "tlx.nv.bulk.wait.read" : "tlx.nv.bulk.wait",
         b.getInt32(unsigned(op.intAttr(ir::Attr::pending))));
}

/// What the launcher has to encode for a descriptor: the box and swizzle of the buffers it is loaded to and stored from.
bool Generator::describe(const ir::Value &argument, DescriptorInfo &info) {
  info.element = ir::scalarName(argument.type.scalar());
  info.block.assign(argument.type.shape().begin(), argument.type.shape().end());
  info.tensorMap = true;
  info.box.assign(info.block.size(), 1);
  info.box.back() = 16 / ir::scalarBytes(argument.type.scalar()); // any valid box, if nothing uses it
  const ir::Op *first = nullptr;
  for (const ir::Use &use : argument.uses()) {
    if (!use.op->is(ir::Opcode::AsyncDescLoad) && !use.op->is(ir::Opcode::AsyncDescStore)) continue;
    ir::Type buffer = use.op->operand(1)->type;
    auto m = buffer.sharedLayout() ? layout::messagesOf(*buffer.sharedLayout(), memoryBits(buffer)) : std::nullopt;
    if (!m) continue; // reported where it is emitted
    // In the dimensions of the block: a buffer may leave out some of extent 1.
    const auto dims = *ir::blockDimensions(ir::columnsOfBlock(argument.type.shape(), buffer.shape()), buffer.shape());
    decltype(info.box) box(info.block.size(), 1);
    for (unsigned d = 0; d < dims.size(); ++d) box[dims[d]] = m->box[d];
    if (first && (info.swizzle != m->swizzle || info.box != box)) {
      Diagnostic &d = diagnostics.report(Diag::DescriptorUses, use.op->loc, argument.name);
      d.notes.emplace_back().loc = first->loc;
      d.notes.back().message.assign("the other form is of this use");
      return false;
    }
    info.swizzle = m->swizzle, info.box = box;
    first = use.op;
  }
  if (auto block = layout::messageLayout(argument.type.shape(), memoryBits(argument.type)); block && !first) {
    const layout::Messages m = *layout::messagesOf(*block, memoryBits(argument.type)); // prefetches alone
    info.swizzle = m.swizzle, info.box.assign(m.box.begin(), m.box.end());
  }
  boxes[&argument] = info.box;
  return true;
}

} // namespace tlx::codegen
