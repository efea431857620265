// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Number conversions, each rounded once. Between floats and integers: truncated and saturated, NaN gives 0; to i1:
// whether it is not zero.
#include "codegen/codegen_p.h"

using namespace llvm;

namespace tlx::codegen {

using ir::Scalar;

void Generator::emitCast(const ir::Op &op) {
  const Scalar from = op.operand(0)->type.scalar(), to = op.result()->type.scalar();
  const bool towardZero = op.strAttr(ir::Attr::rounding) == "rtz";
  Regs in = operand(op, 0);
  RegList regs(in.size(), nullptr);
  // Pairs of f32 become one packed conversion.
  const bool packed = from == Scalar::F32 && (to == Scalar::F16 || to == Scalar::BF16) && !towardZero;
  SmallDenseMap<Value *, Value *, 32> made;
  for (unsigned r = 0; r < in.size(); ++r) {
    if (packed && r + 1 < in.size() && in[r] != in[r + 1] && !isa<Constant>(in[r]) && !isa<Constant>(in[r + 1])) {
      Value *pair =
          b.CreateInsertElement(PoisonValue::get(FixedVectorType::get(b.getFloatTy(), 2)), in[r], uint64_t(0));
      pair = b.CreateInsertElement(pair, in[r + 1], uint64_t(1));
      Value *narrow = b.CreateFPTrunc(pair, FixedVectorType::get(registerType(op.result()->type.element()), 2));
      regs[r] = b.CreateExtractElement(narrow, uint64_t(0));
      regs[r + 1] = b.CreateExtractElement(narrow, uint64_t(1));
      ++r;
      continue;
    }
    Value *&v = made[in[r]];
    if (!v) v = castScalar(in[r], from, to, towardZero);
    regs[r] = v;
  }
  set(op.result(), regs);
}

// The upper half of the f32. An element of loaded words becomes it in one operation, where taking it out would be
// another.
Value *Generator::bf16ToF32(Value *v) {
  auto *element = dyn_cast<ExtractElementInst>(v);
  auto *index = element ? dyn_cast<ConstantInt>(element->getIndexOperand()) : nullptr;
  auto *cast = element ? dyn_cast<BitCastInst>(element->getVectorOperand()) : nullptr;
  if (!index || !cast || !cast->getSrcTy()->getScalarType()->isIntegerTy(32)) return b.CreateFPExt(v, b.getFloatTy());
  Value *word = cast->getOperand(0);
  if (word->getType()->isVectorTy()) word = b.CreateExtractElement(word, index->getZExtValue() / 2);
  word = index->getZExtValue() % 2 ? b.CreateAnd(word, 0xffff0000u) : b.CreateShl(word, 16);
  return b.CreateBitCast(word, b.getFloatTy());
}

Value *Generator::castScalar(Value *v, Scalar from, Scalar to, bool towardZero) {
  if (from == to) return v;
  const bool toInt = ir::isInt(to);
  if (ir::isInt(from)) {
    if (to == Scalar::I1) return b.CreateICmpNE(v, Constant::getNullValue(v->getType()));
    if (toInt) return b.CreateIntCast(v, b.getIntNTy(ir::scalarBits(to)), ir::isSignedInt(from));
    return intToFloat(v, ir::isSignedInt(from), to, towardZero);
  }
  if (ir::isFp8(from)) return castScalar(fp8ToF32(v, from), Scalar::F32, to, towardZero);
  if (toInt) return floatToInt(v, from, to);
  if (ir::isFp8(to)) {
    if (from == Scalar::F64)
      v = towardZero ? truncateFloat(v, b.getFloatTy(), true) : f64ToF32Odd(v);
    else if (from != Scalar::F32)
      v = b.CreateFPExt(v, b.getFloatTy());
    return f32ToFp8(v, to, towardZero);
  }
  llvm::Type *type = to == Scalar::F16    ? b.getHalfTy()
                     : to == Scalar::BF16 ? b.getBFloatTy()
                     : to == Scalar::F32  ? b.getFloatTy()
                                          : b.getDoubleTy();
  if (ir::scalarBits(from) < ir::scalarBits(to)) {
    // f16 and bf16 to f64 by f32: exact, and every target has both steps.
    if (from == Scalar::BF16) v = bf16ToF32(v);
    if (to == Scalar::F64 && from == Scalar::F16) v = b.CreateFPExt(v, b.getFloatTy());
    return v->getType() == type ? v : b.CreateFPExt(v, type);
  }
  if (ir::scalarBits(from) == ir::scalarBits(to))
    v = b.CreateFPExt(v, b.getFloatTy()); // f16 and bf16: neither holds the other
  if (from == Scalar::F64 && to != Scalar::F32)
    v = towardZero ? truncateFloat(v, b.getFloatTy(), true) : f64ToF32Odd(v);
  return truncateFloat(v, type, towardZero);
}

// Toward zero: where rounding to nearest went up, one unit back; infinity becomes the largest number so.
Value *Generator::truncateFloat(Value *v, llvm::Type *to, bool towardZero) {
  Value *near = b.CreateFPTrunc(v, to);
  if (!towardZero) return near;
  llvm::Type *bits = b.getIntNTy(to->getPrimitiveSizeInBits());
  Value *back = b.CreateFPExt(near, v->getType());
  Value *up = b.CreateFCmpOGT(intrinsic(Intrinsic::fabs, back), intrinsic(Intrinsic::fabs, v));
  // An infinite operand stays: |inf| > |inf| is false.
  return b.CreateBitCast(b.CreateSub(b.CreateBitCast(near, bits), b.CreateZExt(up, bits)), to);
}

// Rounding to odd keeps enough for a second rounding: toward zero, and the last bit set where that was inexact.
Value *Generator::f64ToF32Odd(Value *v) {
  Value *zero = truncateFloat(v, b.getFloatTy(), true);
  Value *inexact = b.CreateFCmpONE(b.CreateFPExt(zero, b.getDoubleTy()), v);
  Value *bits = b.CreateOr(b.CreateBitCast(zero, b.getInt32Ty()), b.CreateZExt(inexact, b.getInt32Ty()));
  return b.CreateBitCast(bits, b.getFloatTy());
}

Value *Generator::intToFloat(Value *v, bool isSigned, Scalar to, bool towardZero) {
  auto convert = [&](Value *x, llvm::Type *type) {
    return isSigned ? b.CreateSIToFP(x, type) : b.CreateUIToFP(x, type);
  };
  const unsigned width = v->getType()->getIntegerBitWidth();
  if (to == Scalar::F64 && (width < 64 || !towardZero)) return convert(v, b.getDoubleTy());
  if (to == Scalar::F32 && (width <= 16 || !towardZero)) return convert(v, b.getFloatTy());
  if (width <= 16) return castScalar(convert(v, b.getFloatTy()), Scalar::F32, to, towardZero);
  if (width <= 32 && to != Scalar::F64)
    return castScalar(convert(v, b.getDoubleTy()), Scalar::F64, to, towardZero); // exact in f64
  if (to == Scalar::F16 || ir::isFp8(to)) {
    // What does not fit in 32 bits is beyond every number of these types.
    llvm::Type *i64 = b.getInt64Ty();
    Value *most = ConstantInt::get(i64, 1 << 30);
    Value *bounded = isSigned ? intrinsic(Intrinsic::smax, {intrinsic(Intrinsic::smin, {v, most}),
                                                            ConstantInt::getSigned(i64, -(1 << 30))})
                              : intrinsic(Intrinsic::umin, {v, most});
    return castScalar(b.CreateSIToFP(b.CreateTrunc(bounded, b.getInt32Ty()), b.getDoubleTy()), Scalar::F64, to,
                      towardZero);
  }
  // 64 bits to bf16, or toward zero: the leading 53 bits and whether anything was below them, then the exponent.
  Value *zero = b.getInt64(0);
  Value *negative = isSigned ? b.CreateICmpSLT(v, zero) : b.getFalse();
  Value *magnitude = b.CreateSelect(negative, b.CreateNeg(v), v);
  Value *lead = b.CreateIntrinsic(Intrinsic::ctlz, {v->getType()}, {magnitude, b.getFalse()});
  Value *drop = b.CreateSelect(b.CreateICmpULT(lead, b.getInt64(11)), b.CreateSub(b.getInt64(11), lead), zero);
  Value *kept = b.CreateLShr(magnitude, drop);
  Value *lost = b.CreateICmpNE(b.CreateShl(kept, drop), magnitude);
  if (to != Scalar::F64)
    kept = b.CreateOr(kept, b.CreateZExt(lost, b.getInt64Ty())); // sticky, for the rounding that follows
  Value *power = b.CreateBitCast(b.CreateShl(b.CreateAdd(drop, b.getInt64(1023)), 52), b.getDoubleTy());
  Value *wide = b.CreateFMul(b.CreateUIToFP(kept, b.getDoubleTy()), power);
  wide = b.CreateSelect(negative, b.CreateFNeg(wide), wide);
  return castScalar(wide, Scalar::F64, to, towardZero);
}

Value *Generator::floatToInt(Value *v, Scalar from, Scalar to) {
  if (to == Scalar::I1) return b.CreateFCmpONE(v, Constant::getNullValue(v->getType()));
  if (from == Scalar::F16 || from == Scalar::BF16) v = b.CreateFPExt(v, b.getFloatTy());
  llvm::Type *type = b.getIntNTy(ir::scalarBits(to));
  return b.CreateIntrinsic(ir::isSignedInt(to) ? Intrinsic::fptosi_sat : Intrinsic::fptoui_sat, {type, v->getType()},
                           {v});
}

} // namespace tlx::codegen
