// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// AMD: copies by loads straight into LDS. A wave gives such a load where its lanes' bytes start in LDS, a base address that all lanes share,
// and an offset of 32 bits a lane; masked-off lanes get zeros.
//
//   %p = addptr %tile, splat %s               base: first lane's address of %tile, less 2^31, plus %s      (scalar)
//   async_copy %buffer, %p, %mask      ->     offsets: %tile's addresses less the first lane's, plus 2^31  (once, where %tile is first used)
//
// So what a loop moves by a scalar costs no vector arithmetic there. Where a tile's addresses are further apart than 32 bits tell (2 GB to
// either side), the wave takes the way through registers, at the same place, and waits for all it has in flight: the counts of
// insertWaits then cover no less than they say.
#include "codegen/codegen_p.h"

using namespace llvm;

namespace tlx::codegen {

namespace {
constexpr uint64_t kMiddle = uint64_t(1) << 31, kLimit = (uint64_t(1) << 32) - (1 << 17); // tlx.amd.buffer.load.lds
enum : unsigned { kNoVm = 63, kNoLgkm = 15 }; // tlx.amd.s.waitcnt: do not wait
} // namespace

Value *Generator::waveId() {
  if (scope.warps == 1) return b.getInt32(0);
  if (!scope.wave) {
    Value *thread = threadId();
    scope.wave = inPrologue([&] { return device("tlx.amd.readfirstlane", {b.CreateLShr(thread, laneBits())}); });
  }
  return scope.wave;
}

const Generator::DirectBase &Generator::directBase(const ir::Op &op, const ir::Value *tile, unsigned vec) {
  DirectBase &base = scope.directBases[{tile, vec}];
  for (const ir::Block *block = op.parent(); block && base.block;
       block = block->parentOp() ? block->parentOp()->parent() : nullptr)
    if (block == base.block) return base; // made there, before
  base = {op.parent(), nullptr, {}, nullptr};
  Regs pointers = get(tile);
  auto address = [&](unsigned r) { return b.CreatePtrToInt(pointers[r], b.getInt64Ty()); };
  Value *first = address(0);
  auto firstLane = [&](Value *word) { return device("tlx.amd.readfirstlane", {b.CreateTrunc(word, b.getInt32Ty())}); };
  Value *low = firstLane(first), *high = firstLane(b.CreateLShr(first, 32));
  Value *uniform = b.CreateOr(b.CreateShl(b.CreateZExt(high, b.getInt64Ty()), 32), b.CreateZExt(low, b.getInt64Ty()));
  base.start = b.CreateSub(uniform, b.getInt64(kMiddle));
  Value *far = b.getFalse();
  for (unsigned r = 0; r < pointers.size(); r += vec) {
    Value *distance = b.CreateSub(address(r), base.start);
    base.offsets.push_back(b.CreateTrunc(distance, b.getInt32Ty()));
    far = b.CreateOr(far, b.CreateICmpUGE(distance, b.getInt64(kLimit)));
  }
  base.near = b.CreateICmpEQ(device("tlx.amd.ballot", {far}), b.getInt64(0));
  return base;
}

/// Where register r of warp w starts in LDS: the same in all lanes, and known to be.
SmallVector<Value *, 16> Generator::waveStarts(const ir::Op &op, const layout::AccessMap &map, unsigned vec,
                                               unsigned bytes) {
  Value *xorPart = b.getInt32(0), *addPart = b.getInt32(0), *id = waveId();
  inPrologue([&] {
    for (unsigned i = 0; i < map.warpBases.size(); ++i) {
      const layout::AccessMap::Part &part = map.warpBases[i];
      Value *bit = b.CreateAnd(b.CreateLShr(id, i), 1);
      if (part.xorBits) xorPart = b.CreateXor(xorPart, b.CreateMul(bit, b.getInt32(part.xorBits * bytes)));
      if (part.add) addPart = b.CreateAdd(addPart, b.CreateMul(bit, b.getInt32(uint32_t(part.add * bytes))));
    }
    return addPart;
  });
  SmallVector<Value *, 16> starts;
  Value *buffer = b.CreateAdd(scalarOperand(op, 0), addPart);
  for (unsigned r = 0; r < map.registers.size(); r += vec) {
    const layout::AccessMap::Part &part = map.registers[r];
    Value *inside = part.xorBits ? b.CreateXor(xorPart, part.xorBits * bytes) : xorPart;
    Value *offset = b.CreateAdd(b.CreateAdd(buffer, inside), b.getInt32(uint32_t(part.add * bytes)));
    starts.push_back(b.CreateGEP(b.getInt8Ty(), smemBase(), offset));
  }
  return starts;
}

void Generator::emitDirectCopy(const ir::Op &op, unsigned vec) {
  const ir::Type buffer = op.operand(0)->type, element = buffer.context().scalar(buffer.scalar());
  const layout::TileLayout *layout = op.operand(1)->type.layout();
  const unsigned bytes = ir::scalarBytes(element.scalar());
  Regs mask = op.numOperands() > 2 ? operand(op, 2) : Regs();

  // What moves the tile: scalars, in bytes.
  const ir::Value *tile = op.operand(1);
  Value *moved = b.getInt64(0);
  for (const ir::Op *def; (def = tile->def()) && def->is(ir::Opcode::AddPtr); tile = def->operand(0)) {
    const ir::Op *offset = def->operand(1)->def();
    if (!offset || !(offset->is(ir::Opcode::Splat) || offset->is(ir::Opcode::Constant))) break;
    // All registers of a constant are equal.
    const ir::Value *scalar = offset->is(ir::Opcode::Splat) ? offset->operand(0) : offset->result();
    Value *wide = b.CreateIntCast(get(scalar).front(), b.getInt64Ty(), ir::isSignedInt(scalar->type.scalar()));
    moved = b.CreateAdd(moved, b.CreateMul(wide, b.getInt64(bytes)));
  }
  const DirectBase &base = directBase(op, tile, vec);
  const layout::AccessMap map = *layout::accessMap(*layout, *buffer.sharedLayout());
  SmallVector<Value *, 16> starts = waveStarts(op, map, vec, bytes);

  // Warps that hold copies stay out.
  const unsigned copies = redundantThreads(layout) >> laneBits();
  Value *holder = copies ? b.CreateICmpEQ(b.CreateAnd(waveId(), copies), b.getInt32(0)) : nullptr;
  emitIf(holder ? b.CreateAnd(base.near, holder) : base.near, [&] {
    Value *start = b.CreateIntToPtr(b.CreateAdd(base.start, moved), b.getPtrTy(1));
    for (unsigned r = 0; r < base.offsets.size(); ++r)
      device(vec * bytes == 16 ? "tlx.amd.buffer.load.lds.b128" : "tlx.amd.buffer.load.lds.b32",
             {starts[r], start, base.offsets[r],
              mask.empty()       ? b.getTrue()
              : mask.size() == 1 ? mask[0]
                                 : mask[r * vec]});
  });
  emitIf(b.CreateNot(base.near), [&] {
    RegList pointers;
    for (Value *p : get(tile)) pointers.push_back(b.CreateGEP(b.getInt8Ty(), p, moved));
    RegList loaded = loadRegisters(op, pointers, mask, Regs(), element, layout);
    storeRegisters(op, op.operand(0), loaded, element, layout);
    device("tlx.amd.s.waitcnt", {b.getInt32(0), b.getInt32(kNoLgkm)});
  });
}

void Generator::emitCountedWait(const ir::Op &op) {
  if (!op.hasAttr(ir::Attr::vmcnt)) return;
  device("tlx.amd.s.waitcnt", {b.getInt32(unsigned(op.intAttr(ir::Attr::vmcnt))), b.getInt32(kNoLgkm)});
}

/// A barrier that leaves loads in flight. Without sched.barrier the back end moves matrix instructions, and with them the waits for
/// what they read, across s_barrier.
void Generator::emitCountedBarrier() {
  device("tlx.amd.sched.barrier", {});
  device("tlx.amd.s.waitcnt", {b.getInt32(kNoVm), b.getInt32(0)});
  device("tlx.amd.s.barrier", {});
  device("tlx.amd.sched.barrier", {});
}

} // namespace tlx::codegen
