// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Values that move between the lanes of a warp: shuffles, and conversions of layouts made of them.
#include "codegen/codegen_p.h"

using namespace llvm;

namespace tlx::codegen {

RegList Generator::shuffleWith(Regs values, function_ref<Value *(Value *)> word) {
  RegList result;
  if (values.empty()) return result;
  llvm::Type *type = values[0]->getType();
  llvm::Type *i32 = b.getInt32Ty();
  if (type->isPointerTy()) {
    RegList ints;
    for (Value *v : values) ints.push_back(b.CreatePtrToInt(v, b.getInt64Ty()));
    for (Value *v : shuffleWith(ints, word)) result.push_back(b.CreateIntToPtr(v, type));
    return result;
  }
  if (type->isIntegerTy(1)) {
    RegList bytes;
    for (Value *v : values) bytes.push_back(b.CreateZExt(v, b.getInt8Ty()));
    for (Value *v : shuffleWith(bytes, word)) result.push_back(b.CreateTrunc(v, type));
    return result;
  }
  const unsigned bits = type->getPrimitiveSizeInBits();
  if (bits == 64) {
    for (Value *v : values) {
      RegList halves;
      unpack(v, i32, 2, halves);
      for (Value *&h : halves) h = word(h);
      result.push_back(pack(halves, type));
    }
    return result;
  }
  // As many as fill a word travel together.
  const unsigned per = 32 / bits;
  for (unsigned i = 0; i < values.size(); i += per) {
    RegList part(values.slice(i, std::min<size_t>(per, values.size() - i)));
    const unsigned real = part.size();
    part.resize(per, PoisonValue::get(type));
    if (real == 1 && per > 1) { // a lone one is extended, not inserted
      Value *wide = b.CreateZExt(b.CreateBitCast(part[0], b.getIntNTy(bits)), i32);
      result.push_back(b.CreateBitCast(b.CreateTrunc(word(wide), b.getIntNTy(bits)), type));
      continue;
    }
    for (unsigned k = real; k < per; ++k) part[k] = Constant::getNullValue(type);
    RegList moved;
    unpack(word(pack(part, i32)), type, per, moved);
    result.append(moved.begin(), moved.begin() + real);
  }
  return result;
}

RegList Generator::shuffle(Regs values, Value *source) {
  Value *address = nullptr;
  return shuffleWith(values, [&](Value *v) {
    if (nvidia()) return device("tlx.nv.shfl.idx", {b.getInt32(~0u), v, source});
    if (!address) address = b.CreateShl(source, 2);
    return device("tlx.amd.ds.bpermute", {address, v});
  });
}

RegList Generator::shuffleXor(Regs values, unsigned laneMask) {
  if (!nvidia()) {
    Value *lane = laneId();
    return shuffle(values, b.CreateXor(lane, laneMask));
  }
  return shuffleWith(values, [&](Value *v) {
    return device("tlx.nv.shfl.bfly", {b.getInt32(~0u), v, b.getInt32(laneMask)});
  });
}

Value *Generator::selectByLane(Regs values, unsigned constant, ArrayRef<unsigned> bases) {
  // An independent set of bases by elimination; each has the mask of lane bits whose parity switches it.
  struct Switch {
    unsigned basis;
    unsigned lanes;
  };
  SmallVector<Switch, 6> switches;
  for (unsigned i = 0; i < bases.size(); ++i) {
    unsigned rest = bases[i];
    SmallVector<unsigned, 6> parts;
    for (unsigned s = 0; s < switches.size(); ++s)
      if (rest && (rest ^ switches[s].basis) < rest) rest ^= switches[s].basis, parts.push_back(s);
    for (unsigned s : parts) switches[s].lanes ^= 1u << i;
    if (rest) {
      switches.push_back({rest, 1u << i});
      sort(switches, [](const Switch &x, const Switch &y) { return x.basis > y.basis; });
    }
  }
  SmallVector<Value *, 6> on;
  for (const Switch &s : switches) {
    if (isPowerOf2_32(s.lanes)) {
      on.push_back(b.CreateNot(threadMaskIsZero(s.lanes)));
    } else {
      Value *lane = laneId();
      on.push_back(b.CreateTrunc(b.CreateUnaryIntrinsic(Intrinsic::ctpop, b.CreateAnd(lane, s.lanes)), b.getInt1Ty()));
    }
  }
  std::function<Value *(unsigned, unsigned)> pick = [&](unsigned index, unsigned s) -> Value * {
    if (s == switches.size()) return values[index];
    Value *off = pick(index, s + 1), *set = pick(index ^ switches[s].basis, s + 1);
    return off == set ? off : b.CreateSelect(on[s], set, off);
  };
  return pick(constant, 0);
}

void Generator::emitConvertLayout(const ir::Op &op) {
  ir::Type type = op.result()->type;
  const layout::TileLayout &from = *op.operand(0)->type.layout(), &to = *type.layout();
  Regs in = operand(op, 0);
  const unsigned bits = type.isPointerLike() ? 64 : ir::scalarBits(type.scalar());
  layout::ConversionPlan plan = layout::planConversion(from, to, bits, {target.sharedBanks});
  RegList regs;
  switch (plan.kind) {
  case layout::ConversionKind::None:
    return set(op.result(), in);
  case layout::ConversionKind::Registers:
    for (unsigned r : plan.registers) regs.push_back(in[r]);
    return set(op.result(), regs);
  case layout::ConversionKind::Shared:
    return fail(op, "a conversion through shared memory has not been lowered");
  case layout::ConversionKind::Shuffle:
    break;
  }

  const unsigned perFrom = 1u << from.bits(layout::InDim::Register), perTo = 1u << to.bits(layout::InDim::Register);
  regs.resize(to.registers());
  for (unsigned rep = 0; rep < to.repetitions(); ++rep) {
    Regs source = in.slice(rep * perFrom, perFrom);
    // Rounds that read the same lane share shuffles.
    SmallVector<Value *, 32> received(plan.rounds.size());
    SmallVector<bool, 32> done(plan.rounds.size());
    for (unsigned k = 0; k < plan.rounds.size(); ++k) {
      if (done[k]) continue;
      const auto &lanes = plan.rounds[k].srcLane;
      RegList offered;
      SmallVector<unsigned, 8> members;
      for (unsigned j = k; j < plan.rounds.size(); ++j) {
        const auto &other = plan.rounds[j].srcLane;
        if (other.constant != lanes.constant || other.bases != lanes.bases) continue;
        done[j] = true;
        members.push_back(j);
        offered.push_back(selectByLane(source, plan.rounds[j].sendReg.constant, plan.rounds[j].sendReg.bases));
      }
      SmallVector<uint32_t, 10> perBit(threadBits());
      bool own = lanes.constant == 0;
      for (unsigned i = 0; i < lanes.bases.size(); ++i) perBit[i] = lanes.bases[i], own &= lanes.bases[i] == 1u << i;
      if (!own) {
        Value *lane = threadXor(perBit).value;
        if (lanes.constant) lane = b.CreateXor(lane, lanes.constant);
        offered = shuffle(offered, lane);
      }
      for (unsigned i = 0; i < members.size(); ++i) received[members[i]] = offered[i];
    }
    // Round k is register recv.constant ^ (part of the lane); the part is the same in all rounds.
    SmallVector<Value *, 32> byConstant(perTo);
    for (unsigned k = 0; k < plan.rounds.size(); ++k) {
      const auto &recv = plan.rounds[k].recvReg;
      if (recv.constant >= perTo || recv.bases != plan.rounds[0].recvReg.bases)
        return fail(op, "rounds of a conversion differ");
      byConstant[recv.constant] = received[k];
    }
    if (is_contained(byConstant, nullptr)) return fail(op, "a conversion leaves a register out");
    for (unsigned r = 0; r < perTo; ++r)
      regs[rep * perTo + r] = selectByLane(byConstant, r, plan.rounds[0].recvReg.bases);
  }
  set(op.result(), regs);
}

} // namespace tlx::codegen
