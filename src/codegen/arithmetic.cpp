// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elementwise operations: one element at a time, the same LLVM instruction only once where registers repeat their
// operands.
#include "codegen/codegen_p.h"

using namespace llvm;

namespace tlx::codegen {

void Generator::emitElementwise(const ir::Op &op) {
  if (op.numResults() != 1) return fail(op, "not an elementwise operation");
  ir::Type type = op.result()->type;
  const unsigned n = type.isTile() ? type.layout()->registers() : 1;
  SmallVector<Regs, 3> operands;
  for (unsigned i = 0; i < op.numOperands(); ++i) {
    operands.push_back(operand(op, i));
    // A scalar stands for each element (the condition of a select).
    if (operands.back().size() != n && operands.back().size() != 1)
      return fail(op, "operands and result differ in registers");
  }
  // Where a comparison has runs of equal results, the first of a run is all of them.
  std::map<layout::Coord, unsigned> leaders;
  auto leader = [&](unsigned r) {
    if (!op.hasAttr(ir::Attr::groups) || !type.isTile()) return r;
    layout::Coord run = type.layout()->registerCoord(r);
    for (auto [d, n] : enumerate(op.listAttr(ir::Attr::groups))) {
      const int64_t extent = type.shape()[d]; // threads and repetitions move by multiples of powers of two in it
      run[d] /= int32_t(std::min({n & -n, extent & -extent}));
    }
    return leaders.try_emplace(run, r).first->second;
  };
  using Key = std::tuple<Value *, Value *, Value *>;
  SmallDenseMap<Key, Value *, 32> made;
  RegList regs;
  for (unsigned r = 0; r < n; ++r) {
    if (const unsigned first = leader(r); first != r) {
      regs.push_back(regs[first]);
      continue;
    }
    std::array<Value *, 3> args{};
    for (unsigned i = 0; i < operands.size(); ++i) args[i] = operands[i].size() == 1 ? operands[i][0] : operands[i][r];
    auto compute = [&] { return emitElement(op, Args(args).take_front(operands.size())); };
    if (n == 1) {
      regs.push_back(compute());
      continue;
    }
    auto [it, fresh] = made.try_emplace(Key(args[0], args[1], args[2]), nullptr);
    if (fresh) {
      Value *v = compute();
      made[Key(args[0], args[1], args[2])] = v;
      regs.push_back(v);
    } else {
      regs.push_back(it->second);
    }
  }
  set(op.result(), regs);
}

static bool isWideFloat(ir::Scalar s) {
  return s == ir::Scalar::F32 || s == ir::Scalar::F64;
}

Value *Generator::emitElement(const ir::Op &op, Args args) {
  using ir::Opcode;
  ir::Type element = op.operand(op.is(Opcode::Select) ? 1 : 0)->type.element();
  switch (op.opcode) {
  case Opcode::Select:
    return args[1] == args[2] ? args[1] : b.CreateSelect(args[0], args[1], args[2]);
  case Opcode::Cmp:
    return compare(op, args);
  case Opcode::Bitcast: {
    llvm::Type *to = registerType(op.result()->type.element());
    return b.CreateBitOrPointerCast(args[0], to);
  }
  case Opcode::AddPtr: {
    // Scaled in 64 bits.
    ir::Scalar index = op.operand(1)->type.element().scalar();
    Value *wide = b.CreateIntCast(args[1], b.getInt64Ty(), ir::isSignedInt(index));
    return b.CreateGEP(memoryType(element.context().scalar(element.scalar())), args[0], wide);
  }
  default:
    break;
  }
  if (element.isPointer()) {
    unsupported(op, element);
    return PoisonValue::get(registerType(element));
  }
  const ir::Scalar s = element.scalar();
  if (ir::isInt(s)) return integerOp(op, s, args);
  if (ir::isFp8(s)) { // no unit computes in fp8: one operation in f32, rounded back
    RegList wide;
    for (Value *v : args) wide.push_back(fp8ToF32(v, s));
    return f32ToFp8(floatOp(op, ir::Scalar::F32, wide), s, false);
  }
  return floatOp(op, s, args);
}

Value *Generator::compare(const ir::Op &op, Args args) {
  ir::Type element = op.operand(0)->type.element();
  const auto pred = ir::Pred(op.intAttr(ir::Attr::pred));
  Value *x = args[0], *y = args[1];
  if (element.isScalar() && ir::isFloat(element.scalar())) {
    if (ir::isFp8(element.scalar())) x = fp8ToF32(x, element.scalar()), y = fp8ToF32(y, element.scalar());
    switch (pred) {
    case ir::Pred::Eq:
      return b.CreateFCmpOEQ(x, y);
    case ir::Pred::Ne:
      return b.CreateFCmpUNE(x, y);
    case ir::Pred::Lt:
      return b.CreateFCmpOLT(x, y);
    case ir::Pred::Le:
      return b.CreateFCmpOLE(x, y);
    case ir::Pred::Gt:
      return b.CreateFCmpOGT(x, y);
    case ir::Pred::Ge:
      return b.CreateFCmpOGE(x, y);
    }
  }
  const bool isSigned = element.isScalar() && ir::isSignedInt(element.scalar());
  // t + c < y, where t is the thread's part of an arange, is c < y - t: one register for all c, and c is an immediate. (y - t is below all c
  // where it would be less than the smallest number.)
  if (auto it = aranges.find(x); it != aranges.end() && isSigned && !isa<Constant>(y) && !aranges.contains(y)) {
    x = b.getInt32(uint32_t(it->second.second));
    y = b.CreateBinaryIntrinsic(Intrinsic::ssub_sat, y, it->second.first);
  }
  switch (pred) {
  case ir::Pred::Eq:
    return b.CreateICmpEQ(x, y);
  case ir::Pred::Ne:
    return b.CreateICmpNE(x, y);
  case ir::Pred::Lt:
    return isSigned ? b.CreateICmpSLT(x, y) : b.CreateICmpULT(x, y);
  case ir::Pred::Le:
    return isSigned ? b.CreateICmpSLE(x, y) : b.CreateICmpULE(x, y);
  case ir::Pred::Gt:
    return isSigned ? b.CreateICmpSGT(x, y) : b.CreateICmpUGT(x, y);
  case ir::Pred::Ge:
    return isSigned ? b.CreateICmpSGE(x, y) : b.CreateICmpUGE(x, y);
  }
  llvm_unreachable("all predicates are above");
}

Value *Generator::floatOp(const ir::Op &op, ir::Scalar s, Args args) {
  using ir::Opcode;
  const bool narrow = !isWideFloat(s);
  switch (op.opcode) {
  case Opcode::Add:
    return b.CreateFAdd(args[0], args[1]);
  case Opcode::Sub:
    return b.CreateFSub(args[0], args[1]);
  case Opcode::Mul:
    return b.CreateFMul(args[0], args[1]);
  case Opcode::Neg:
    return b.CreateFNeg(args[0]);
  case Opcode::Abs:
    return intrinsic(Intrinsic::fabs, args[0]);
  case Opcode::Fma:
    return intrinsic(Intrinsic::fma, args);
  case Opcode::Min:
    return intrinsic(Intrinsic::minnum, args);
  case Opcode::Max:
    return intrinsic(Intrinsic::maxnum, args);
  case Opcode::MinNan:
  case Opcode::MaxNan: {
    const bool min = op.is(Opcode::MinNan);
    // No target has an instruction for f64: NaN + anything is a NaN.
    if (s == ir::Scalar::F64)
      return b.CreateSelect(b.CreateFCmpUNO(args[0], args[1]), b.CreateFAdd(args[0], args[1]),
                            intrinsic(min ? Intrinsic::minnum : Intrinsic::maxnum, args));
    return intrinsic(min ? Intrinsic::minimum : Intrinsic::maximum, args);
  }
  default:
    break;
  }
  if (narrow) { // by way of f32; for an IEEE / or sqrt two roundings are as good as one (24 >= 2 · 11 + 2)
    RegList wide;
    for (Value *v : args) wide.push_back(b.CreateFPExt(v, b.getFloatTy()));
    return b.CreateFPTrunc(mathF32(op, wide), args[0]->getType());
  }
  return s == ir::Scalar::F64 ? mathF64(op, args) : mathF32(op, args);
}

} // namespace tlx::codegen
