// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Asynchronous units in explicit form: mbarriers, TMA, store groups, and the region that one thread of the CTA runs.
#include "codegen/codegen_p.h"
#include "layout/message_layout.h"

using namespace llvm;

namespace tlx::codegen {

void Generator::emitSingle(const ir::Op &op) {
  Value *enters = leader();
  if (op.numOperands()) enters = b.CreateAnd(enters, scalarOperand(op, 0));
  const bool outer = insideSingle;
  insideSingle = true;
  emitIf(enters, [&] { emitBlock(op.body()); });
  insideSingle = outer;
}

Value *Generator::sharedPointer(Value *offset) { return b.CreateGEP(b.getInt8Ty(), smemBase(), offset); }

// --- mbarriers ------------------------------------------------------------------------------------------------------

void Generator::emitAllocBarriers(const ir::Op &op) {
  if (!op.hasAttr(ir::Attr::offset)) return fail(op, "memory has not been planned");
  const unsigned offset = unsigned(op.intAttr(ir::Attr::offset));
  set(op.result(), b.getInt32(offset));
  emitIf(leader(), [&] {
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
    auto arrive = [&] { device("tlx.nv.mbarrier.arrive", {barrier, b.getInt32(1)}); };
    Value *condition = op.numOperands() > 1 ? scalarOperand(op, 1) : nullptr;
    if (insideSingle) return emitIf(condition, arrive);
    // One lane speaks for its warp, behind what the others did.
    device("tlx.nv.bar.warp.sync", {b.getInt32(~0u)});
    Value *first = b.CreateICmpEQ(laneId(), b.getInt32(0));
    return emitIf(condition ? b.CreateAnd(first, condition) : first, arrive);
  }
  default: { // BarrierWait: the test in line, back for another try
    BasicBlock *wait = newBlock("wait"), *passed = newBlock("passed");
    b.CreateBr(wait);
    b.SetInsertPoint(wait);
    Value *done = device("tlx.nv.mbarrier.try.wait", {barrier, scalarOperand(op, 1)});
    b.CreateCondBr(done, passed, wait);
    b.SetInsertPoint(passed);
  }
  }
}

// --- TMA --------------------------------------------------------------------------------------------------------------

void Generator::emitAsyncDesc(const ir::Op &op) {
  const bool load = op.is(ir::Opcode::AsyncDescLoad);
  ir::Type buffer = op.operand(1)->type;
  const unsigned bits = memoryBits(buffer), bytes = bits / 8, first = load ? 3 : 2, rank = buffer.rank();
  auto messages = buffer.sharedLayout() ? layout::messagesOf(*buffer.sharedLayout(), bits) : std::nullopt;
  if (!messages) return fail(op, "the buffer's layout is not one that TMA writes");
  // A block is seen through the descriptor's own dimensions; the coordinates go innermost first.
  std::string name = load ? "tlx.nv.tma.load." : "tlx.nv.tma.store.";
  if (!load && op.hasAttr(ir::Attr::reduce)) name = "tlx.nv.tma.reduce." + op.strAttr(ir::Attr::reduce).str() + ".";
  name += std::to_string(rank) + "d";
  for (const layout::Messages::One &m : messages->list) {
    SmallVector<Value *, 10> args;
    Value *at = scalarOperand(op, 1);
    if (m.offset) at = b.CreateAdd(at, b.getInt32(unsigned(m.offset * bytes)), "", true, true);
    args.push_back(sharedPointer(at));
    if (load) args.push_back(sharedPointer(scalarOperand(op, 2)));
    args.push_back(scalarOperand(op, 0));
    for (unsigned d = rank; d-- > 0;) {
      Value *c = scalarOperand(op, first + d);
      args.push_back(m.at[d] ? b.CreateAdd(c, b.getInt32(unsigned(m.at[d]))) : c);
    }
    args.push_back(b.getInt64(0));
    device(name, args);
  }
}

void Generator::emitAsyncStore(const ir::Op &op) {
  if (op.is(ir::Opcode::AsyncStoreCommit)) {
    device("tlx.nv.bulk.commit", {});
    return;
  }
  device(op.intAttr(ir::Attr::reads) ? "tlx.nv.bulk.wait.read" : "tlx.nv.bulk.wait",
         b.getInt32(unsigned(op.intAttr(ir::Attr::pending))));
}

/// What the launcher has to encode for a descriptor: the box and swizzle of the buffers it is loaded to and stored from. All agree
/// (layout assignment saw to it).
bool Generator::describe(const ir::Value &argument, DescriptorInfo &info) {
  info.element = ir::scalarName(argument.type.scalar());
  info.block.assign(argument.type.shape().begin(), argument.type.shape().end());
  info.tensorMap = true;
  std::optional<layout::Messages> found;
  for (const ir::Use &use : argument.uses()) {
    if (!use.op->is(ir::Opcode::AsyncDescLoad) && !use.op->is(ir::Opcode::AsyncDescStore)) continue;
    ir::Type buffer = use.op->operand(1)->type;
    auto m = buffer.sharedLayout() ? layout::messagesOf(*buffer.sharedLayout(), memoryBits(buffer)) : std::nullopt;
    if (!m) continue; // reported where it is emitted
    if (found && (found->swizzle != m->swizzle || found->box != m->box)) {
      fail(*use.op, "two uses of one descriptor with different boxes");
      return false;
    }
    found = std::move(m);
  }
  if (!found) { // never used: any valid box
    info.box.assign(info.block.size(), 1);
    info.box.back() = 16 / ir::scalarBytes(argument.type.scalar());
    return true;
  }
  info.swizzle = found->swizzle;
  info.box.assign(found->box.begin(), found->box.end());
  return true;
}

} // namespace tlx::codegen
