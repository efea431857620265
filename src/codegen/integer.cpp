// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Integers: they wrap, division floors, shifts by the width or more are defined. Where {nonneg} says that both operands
// of a division are not negative, the signed forms become the cheaper unsigned ones.
#include "codegen/codegen_p.h"

using namespace llvm;

namespace tlx::codegen {

Value *Generator::integerOp(const ir::Op &op, ir::Scalar s, Args args) {
  using ir::Opcode;
  const bool isSigned = ir::isSignedInt(s);
  const bool floorSigned = isSigned && !op.intAttr(ir::Attr::nonneg);
  const bool checked = !op.result()->type.isTile();
  Value *x = args[0], *y = args.size() > 1 ? args[1] : nullptr;
  switch (op.opcode) {
  case Opcode::Add:
    return b.CreateAdd(x, y);
  case Opcode::Sub:
    return b.CreateSub(x, y);
  case Opcode::Mul:
    return b.CreateMul(x, y);
  case Opcode::MulHi: {
    const unsigned width = x->getType()->getIntegerBitWidth();
    llvm::Type *wide = b.getIntNTy(2 * width);
    Value *product = b.CreateMul(b.CreateIntCast(x, wide, isSigned), b.CreateIntCast(y, wide, isSigned));
    return b.CreateTrunc(b.CreateLShr(product, width), x->getType());
  }
  case Opcode::Fma:
    return b.CreateAdd(b.CreateMul(x, y), args[2]);
  case Opcode::Neg:
    return b.CreateNeg(x);
  case Opcode::And:
    return b.CreateAnd(x, y);
  case Opcode::Or:
    return b.CreateOr(x, y);
  case Opcode::Xor:
    return b.CreateXor(x, y);
  case Opcode::Shl:
  case Opcode::Shr:
    return shift(op.opcode, x, y, isSigned);
  case Opcode::Min:
  case Opcode::MinNan:
    return intrinsic(isSigned ? Intrinsic::smin : Intrinsic::umin, args);
  case Opcode::Max:
  case Opcode::MaxNan:
    return intrinsic(isSigned ? Intrinsic::smax : Intrinsic::umax, args);
  case Opcode::Abs:
    return isSigned ? b.CreateIntrinsic(Intrinsic::abs, {x->getType()}, {x, b.getFalse()}) : x;
  case Opcode::Floor:
  case Opcode::Ceil:
    return x;
  case Opcode::DivFloor:
    return divFloor(x, y, floorSigned, checked);
  case Opcode::ModFloor:
    return modFloor(x, y, floorSigned, checked);
  case Opcode::CeilDiv:
    return cdiv(x, y, floorSigned, checked);
  default:
    unsupported(op, op.operand(0)->type);
    return PoisonValue::get(x->getType());
  }
}

Value *Generator::shift(ir::Opcode opcode, Value *x, Value *amount, bool isSigned) {
  const unsigned width = x->getType()->getIntegerBitWidth();
  llvm::Type *type = x->getType();
  Value *small = b.CreateICmpULT(amount, ConstantInt::get(type, width));
  if (opcode == ir::Opcode::Shr && isSigned) // the sign is what width - 1 leaves
    return b.CreateAShr(x, b.CreateSelect(small, amount, ConstantInt::get(type, width - 1)));
  if (auto *c = dyn_cast<ConstantInt>(amount); c && c->getValue().uge(width)) return Constant::getNullValue(type);
  Value *shifted = opcode == ir::Opcode::Shl ? b.CreateShl(x, amount) : b.CreateLShr(x, amount);
  return b.CreateSelect(small, shifted, Constant::getNullValue(type));
}

// Division by zero and MIN / -1 are undefined in LLVM, whose folds then reach code before the division (a select with a
// zero arm). The language has numbers there, so the divisor is made harmless. The simulator finds the select by its
// metadata and reports zero. Only a scalar's carries it: a tile divides in every element, also where the program masks the result off.
Value *Generator::divisor(Value *x, Value *y, bool isSigned, bool checked) {
  llvm::Type *type = y->getType();
  Constant *one = ConstantInt::get(type, 1);
  if (auto *c = dyn_cast<ConstantInt>(y)) {
    if (c->isZero()) return one;
    if (!isSigned || !c->isMinusOne()) return y;
  } else {
    y = b.CreateSelect(b.CreateICmpEQ(y, Constant::getNullValue(type)), one, y);
    if (auto *select = dyn_cast<Instruction>(y); checked && select)
      select->setMetadata("tlx.divisor", MDNode::get(context, {}));
  }
  if (isSigned) { // MIN / 1 is what MIN / -1 wraps to
    Constant *min = ConstantInt::get(type, APInt::getSignedMinValue(type->getIntegerBitWidth()));
    Value *wraps = b.CreateAnd(b.CreateICmpEQ(x, min), b.CreateICmpEQ(y, Constant::getAllOnesValue(type)));
    y = b.CreateSelect(wraps, one, y);
  }
  return y;
}

static std::optional<unsigned> powerOfTwo(Value *v) {
  auto *c = dyn_cast<ConstantInt>(v);
  if (!c || !c->getValue().isPowerOf2() || c->getValue().isSignMask()) return std::nullopt;
  return c->getValue().logBase2();
}

Value *Generator::divFloor(Value *x, Value *y, bool isSigned, bool checked) {
  if (auto n = powerOfTwo(y)) return isSigned ? b.CreateAShr(x, *n) : b.CreateLShr(x, *n);
  Value *d = divisor(x, y, isSigned, checked);
  if (!isSigned) return b.CreateUDiv(x, d);
  // trunc(x / d) is one too large where the remainder is not zero and its sign is not the divisor's.
  Value *q = b.CreateSDiv(x, d);
  Value *r = b.CreateNSWSub(x, b.CreateNSWMul(q, d));
  Constant *zero = Constant::getNullValue(x->getType());
  Value *below = b.CreateAnd(b.CreateICmpNE(r, zero), b.CreateICmpSLT(b.CreateXor(r, d), zero));
  return b.CreateNSWAdd(q, b.CreateSExt(below, x->getType()));
}

Value *Generator::modFloor(Value *x, Value *y, bool isSigned, bool checked) {
  if (auto n = powerOfTwo(y)) return b.CreateAnd(x, ConstantInt::get(context, cast<ConstantInt>(y)->getValue() - 1));
  Value *d = divisor(x, y, isSigned, checked);
  if (!isSigned) return b.CreateURem(x, d);
  Value *r = b.CreateSRem(x, d);
  Constant *zero = Constant::getNullValue(x->getType());
  Value *below = b.CreateAnd(b.CreateICmpNE(r, zero), b.CreateICmpSLT(b.CreateXor(r, d), zero));
  return b.CreateNSWAdd(r, b.CreateSelect(below, d, zero));
}

Value *Generator::cdiv(Value *x, Value *y, bool isSigned, bool checked) {
  llvm::Type *type = x->getType();
  Constant *zero = Constant::getNullValue(type);
  if (auto n = powerOfTwo(y)) { // (x >> n) + (low bits != 0)
    Value *q = isSigned ? b.CreateAShr(x, *n) : b.CreateLShr(x, *n);
    Value *low = b.CreateAnd(x, ConstantInt::get(context, cast<ConstantInt>(y)->getValue() - 1));
    return *n == 0 ? x : b.CreateAdd(q, b.CreateZExt(b.CreateICmpNE(low, zero), type), "", !isSigned, true);
  }
  Value *d = divisor(x, y, isSigned, checked);
  Value *q = isSigned ? b.CreateSDiv(x, d) : b.CreateUDiv(x, d);
  Value *r = b.CreateSub(x, b.CreateMul(q, d, "", !isSigned, isSigned), "", !isSigned, isSigned);
  Value *above = b.CreateICmpNE(r, zero);
  // Where the quotient is not negative, trunc is floor: one more.
  if (isSigned) above = b.CreateAnd(above, b.CreateICmpSGE(b.CreateXor(r, d), zero));
  return b.CreateAdd(q, b.CreateZExt(above, type), "", !isSigned, isSigned);
}

} // namespace tlx::codegen
