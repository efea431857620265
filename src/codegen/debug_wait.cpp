// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Waits for an mbarrier, and how they end under a debug time-out: what is waited for goes to memory of the host, which a trap leaves as it is.
//
//   wait:   try_wait ? passed : again
//   again:  time since the first try < time-out ? wait : late
//   late:   record[site] = {phase, barrier, program}; fence; a while for the others who wait, so that their records are there too; trap
#include "codegen/codegen_p.h"
#include "ir/names.h"

using namespace llvm;

namespace tlx::codegen {

namespace {
constexpr uint64_t kNanoseconds = 1000; // of a microsecond
constexpr unsigned kGrace = 8;          // a trap comes an eighth of the time-out later
} // namespace

void Generator::emitBarrierWait(const ir::Op &op, Value *barrier) {
  Value *start = waitRecords ? device("tlx.nv.globaltimer", {}) : nullptr;
  BasicBlock *wait = newBlock("wait"), *passed = newBlock("passed"), *again = waitRecords ? newBlock("again") : wait;
  b.CreateBr(wait);
  b.SetInsertPoint(wait); // the test in line, back for another try
  Value *done = device("tlx.nv.mbarrier.try.wait", {barrier, scalarOperand(op, 1)});
  b.CreateCondBr(done, passed, again);
  if (waitRecords) {
    b.SetInsertPoint(again);
    giveUpLate(op, start, wait);
    b.CreateBr(passed);
  }
  b.SetInsertPoint(passed);
}

void Generator::giveUpLate(const ir::Op &op, Value *start, BasicBlock *wait) {
  const uint64_t limit = options.debugTimeout * kNanoseconds;
  BasicBlock *late = newBlock("late"), *linger = newBlock("linger"), *end = newBlock("give.up");
  auto hasPassed = [&](uint64_t time) {
    return b.CreateICmpUGT(b.CreateSub(device("tlx.nv.globaltimer", {}), start), b.getInt64(time));
  };
  b.CreateCondBr(hasPassed(limit), late, wait);
  b.SetInsertPoint(late);
  Value *record = PoisonValue::get(FixedVectorType::get(b.getInt32Ty(), 4));
  Value *y = device("tlx.nv.ctaid.y", {}), *z = device("tlx.nv.ctaid.z", {});
  Value *const fields[] = {b.CreateOr(scalarOperand(op, 1), b.getInt32(WaitRecord::kWritten)), scalarOperand(op, 0),
                           device("tlx.nv.ctaid.x", {}),
                           b.CreateOr(b.CreateAnd(y, b.getInt32(0xffff)), b.CreateShl(z, b.getInt32(16)))};
  for (unsigned i = 0; i < 4; ++i) record = b.CreateInsertElement(record, fields[i], uint64_t(i));
  std::vector<int64_t> places;
  for (unsigned r = 0; r < scope.replicas; ++r)
    places.push_back(waitSite(op, scope.replicas > 1 ? int64_t(r) : -1) * int64_t(sizeof(WaitRecord)));
  Value *place = b.CreateGEP(b.getInt8Ty(), waitRecords, perReplica(places));
  b.CreateAlignedStore(record, place, Align(sizeof(WaitRecord)), /*isVolatile=*/true);
  device("tlx.nv.fence.acq.rel.sys", {});
  b.CreateBr(linger);
  b.SetInsertPoint(linger);
  b.CreateCondBr(hasPassed(limit + limit / kGrace), end, linger);
  b.SetInsertPoint(end);
  device("tlx.trap", {});
}

unsigned Generator::waitSite(const ir::Op &op, int64_t replica) {
  const ir::Op &alloc = *ir::slotOf(op.operand(0)).alloc;
  WaitSite site;
  site.task = ir::taskText(ir::taskOf(op), replica);
  site.barrier = ir::slotText(alloc);
  if (op.loc.known()) site.place = std::string(sources.name(op.loc.file)) + ":" + std::to_string(op.loc.line);
  site.offset = uint32_t(alloc.intAttr(ir::Attr::offset));
  site.barriers = alloc.result()->type.depth();
  metadata.waits.push_back(std::move(site));
  return unsigned(metadata.waits.size() - 1);
}

} // namespace tlx::codegen
