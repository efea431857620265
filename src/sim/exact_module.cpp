// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Exact arithmetic in a kernel's code: every operation on floats becomes one on integers of their bits, short ones in place, the others as calls of
// exact.cpp. Moving, selecting and storing floats stays as it is.
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"

#include "sim/exact.h"

using namespace llvm;

namespace tlx::sim {

namespace {
class Exact {
public:
  explicit Exact(Module &module) : module(module), b(module.getContext()) {}
  bool run(std::string &message) {
    for (Function &f : module) {
      SmallVector<Instruction *, 0> all;
      for (BasicBlock &block : f)
        for (Instruction &i : block) all.push_back(&i);
      for (Instruction *i : all) {
        b.SetInsertPoint(i);
        Value *result = replace(*i);
        if (!error.empty()) return message = error, false;
        if (!result) continue;
        i->replaceAllUsesWith(result);
        i->eraseFromParent();
      }
    }
    return true;
  }

private:
  static bool isFloat(Type *t) { return t->isFPOrFPVectorTy(); }
  FloatFormat formatOf(Type *t) {
    t = t->getScalarType();
    if (t->isHalfTy()) return FloatFormat::F16;
    if (t->isBFloatTy()) return FloatFormat::BF16;
    if (t->isFloatTy()) return FloatFormat::F32;
    if (!t->isDoubleTy()) error = "there is no exact form of this type of floats";
    return FloatFormat::F64;
  }
  Type *integers(Type *t) {
    Type *one = b.getIntNTy(t->getScalarSizeInBits());
    auto *v = dyn_cast<FixedVectorType>(t);
    return v ? FixedVectorType::get(one, v->getNumElements()) : one;
  }
  Value *bits(Value *v) { return b.CreateBitCast(v, integers(v->getType())); }
  static Constant *number(Type *t, uint64_t n) {
    return ConstantInt::get(t, APInt(t->getScalarSizeInBits(), n, false, true));
  }

  // --- numbers and bits
  Value *rotate(Value *v, unsigned left) {
    const unsigned width = v->getType()->getScalarSizeInBits();
    return b.CreateOr(b.CreateShl(v, left), b.CreateLShr(v, width - left));
  }
  Value *ring(Value *v) {
    const FormatNumbers f = formatNumbers(formatOf(v->getType()));
    Value *x = bits(v);
    return b.CreateMul(rotate(x, f.width - f.mantissa), number(x->getType(), Ring64::inverse(f.one)));
  }
  Value *unring(Value *r, Type *type) {
    const FormatNumbers f = formatNumbers(formatOf(type));
    return b.CreateBitCast(rotate(b.CreateMul(r, number(r->getType(), f.one)), f.mantissa), type);
  }
  Value *infinity(Type *t, bool negative) { return ConstantFP::getInfinity(t, negative); }
  Value *isInfinite(Value *v) {
    Value *x = bits(v);
    const unsigned width = x->getType()->getScalarSizeInBits();
    Value *magnitude = b.CreateAnd(x, number(x->getType(), ~uint64_t(0) >> (65 - width)));
    return b.CreateICmpEQ(magnitude, bits(infinity(v->getType(), false)));
  }
  /// An infinite operand is the result.
  Value *infiniteOr(ArrayRef<Value *> operands, Value *result) {
    for (Value *v : reverse(operands)) result = b.CreateSelect(isInfinite(v), v, result);
    return result;
  }
  Value *add(Value *x, Value *y) { return infiniteOr({x, y}, unring(b.CreateAdd(ring(x), ring(y)), x->getType())); }
  Value *mul(Value *x, Value *y) { return infiniteOr({x, y}, unring(b.CreateMul(ring(x), ring(y)), x->getType())); }
  Value *fma(Value *x, Value *y, Value *z) {
    Value *sum = b.CreateAdd(b.CreateMul(ring(x), ring(y)), ring(z));
    return infiniteOr({x, y, z}, unring(sum, x->getType()));
  }
  Value *neg(Value *x) {
    Value *v = bits(x);
    Value *flipped = b.CreateXor(v, number(v->getType(), uint64_t(1) << (v->getType()->getScalarSizeInBits() - 1)));
    return b.CreateSelect(isInfinite(x), b.CreateBitCast(flipped, x->getType()),
                          unring(b.CreateNeg(ring(x)), x->getType()));
  }
  Value *abs(Value *x) {
    Value *r = ring(x), *negative = b.CreateICmpSLT(r, Constant::getNullValue(r->getType()));
    Value *size = unring(b.CreateSelect(negative, b.CreateNeg(r), r), x->getType());
    return b.CreateSelect(isInfinite(x), infinity(x->getType(), false), size);
  }
  /// Signed integers in the order of floats, with the infinities at the ends.
  Value *key(Value *v) {
    Value *x = bits(v);
    const unsigned width = x->getType()->getScalarSizeInBits();
    Value *flip = b.CreateLShr(b.CreateAShr(x, width - 1), 1), *k = b.CreateXor(x, flip);
    const uint64_t most = ~uint64_t(0) >> (65 - width);
    k = b.CreateSelect(b.CreateICmpEQ(x, bits(infinity(v->getType(), false))), number(x->getType(), most), k);
    return b.CreateSelect(b.CreateICmpEQ(x, bits(infinity(v->getType(), true))), number(x->getType(), most + 1), k);
  }
  Value *extreme(Value *x, Value *y, bool max) {
    Value *less = b.CreateICmpSLT(key(y), key(x));
    return max ? b.CreateSelect(less, x, y) : b.CreateSelect(less, y, x);
  }

  // --- calls: each element by itself, as i64
  Value *call(StringRef name, ArrayRef<Value *> values, ArrayRef<uint32_t> numbers, Type *result) {
    if (auto *vector = dyn_cast<FixedVectorType>(result)) {
      Value *all = PoisonValue::get(vector);
      for (unsigned i = 0; i < vector->getNumElements(); ++i) {
        SmallVector<Value *, 2> one;
        for (Value *v : values) one.push_back(b.CreateExtractElement(v, i));
        all = b.CreateInsertElement(all, call(name, one, numbers, vector->getElementType()), i);
      }
      return all;
    }
    SmallVector<Value *, 4> arguments;
    SmallVector<Type *, 4> types;
    for (Value *v : values) arguments.push_back(b.CreateZExt(bits(v), b.getInt64Ty()));
    for (uint32_t n : numbers) arguments.push_back(b.getInt32(n));
    for (Value *v : arguments) types.push_back(v->getType());
    FunctionCallee f = module.getOrInsertFunction(name, FunctionType::get(b.getInt64Ty(), types, false));
    return b.CreateBitCast(b.CreateTrunc(b.CreateCall(f, arguments), integers(result)), result);
  }
  uint32_t code(Type *t) { return uint32_t(formatOf(t)); }

  Value *compare(FCmpInst &c) {
    Value *x = c.getOperand(0), *y = c.getOperand(1);
    switch (c.getPredicate()) {
    case CmpInst::FCMP_FALSE:
    case CmpInst::FCMP_UNO:
      return Constant::getNullValue(c.getType());
    case CmpInst::FCMP_TRUE:
    case CmpInst::FCMP_ORD:
      return Constant::getAllOnesValue(c.getType());
    case CmpInst::FCMP_OEQ:
    case CmpInst::FCMP_UEQ:
      return b.CreateICmpEQ(bits(x), bits(y));
    case CmpInst::FCMP_ONE:
    case CmpInst::FCMP_UNE:
      return b.CreateICmpNE(bits(x), bits(y));
    case CmpInst::FCMP_OLT:
    case CmpInst::FCMP_ULT:
      return b.CreateICmpSLT(key(x), key(y));
    case CmpInst::FCMP_OLE:
    case CmpInst::FCMP_ULE:
      return b.CreateICmpSLE(key(x), key(y));
    case CmpInst::FCMP_OGT:
    case CmpInst::FCMP_UGT:
      return b.CreateICmpSGT(key(x), key(y));
    default:
      return b.CreateICmpSGE(key(x), key(y));
    }
  }

  /// Hooks let others run before an atomic access only: reading and writing apart is as good as one.
  Value *atomic(AtomicRMWInst &rmw) {
    Value *given = rmw.getValOperand();
    auto *old = b.CreateAlignedLoad(given->getType(), rmw.getPointerOperand(), rmw.getAlign(), true);
    Value *now;
    switch (rmw.getOperation()) {
    case AtomicRMWInst::FAdd:
      now = add(old, given);
      break;
    case AtomicRMWInst::FSub:
      now = add(old, neg(given));
      break;
    case AtomicRMWInst::FMin:
    case AtomicRMWInst::FMax:
      now = extreme(old, given, rmw.getOperation() == AtomicRMWInst::FMax);
      break;
    default:
      return nullptr; // moves bits
    }
    b.CreateAlignedStore(now, rmw.getPointerOperand(), rmw.getAlign());
    return old;
  }

  Value *intrinsic(IntrinsicInst &i) {
    bool any = isFloat(i.getType());
    for (Value *v : i.args()) any |= isFloat(v->getType());
    if (!any) return nullptr;
    auto arg = [&](unsigned n) { return i.getArgOperand(n); };
    switch (i.getIntrinsicID()) {
    case Intrinsic::fma:
    case Intrinsic::fmuladd:
      return fma(arg(0), arg(1), arg(2));
    case Intrinsic::fabs:
      return abs(arg(0));
    case Intrinsic::minnum:
    case Intrinsic::minimum:
      return extreme(arg(0), arg(1), false);
    case Intrinsic::maxnum:
    case Intrinsic::maximum:
      return extreme(arg(0), arg(1), true);
    case Intrinsic::exp2:
      return call("tlx_exact_exp2", {arg(0)}, {code(i.getType())}, i.getType());
    case Intrinsic::fptosi_sat:
    case Intrinsic::fptoui_sat:
      return b.CreateSExtOrTrunc(ring(arg(0)), i.getType());
    default:
      break;
    }
    const bool same = all_of(i.args(), [&](Value *v) { return v->getType() == i.getType(); });
    const uint32_t function = uint32_t(i.getIntrinsicID());
    if (same && i.arg_size() == 1) return call("tlx_exact_unary", {arg(0)}, {code(i.getType()), function}, i.getType());
    if (same && i.arg_size() == 2)
      return call("tlx_exact_binary", {arg(0), arg(1)}, {code(i.getType()), function}, i.getType());
    error = "there is no exact form of " + i.getCalledFunction()->getName().str();
    return nullptr;
  }

  Value *replace(Instruction &i) {
    Value *x = i.getNumOperands() ? i.getOperand(0) : nullptr, *y = i.getNumOperands() > 1 ? i.getOperand(1) : nullptr;
    Type *type = i.getType();
    switch (i.getOpcode()) {
    case Instruction::FAdd:
      return add(x, y);
    case Instruction::FSub:
      return add(x, neg(y));
    case Instruction::FMul:
      return mul(x, y);
    case Instruction::FDiv:
      return call("tlx_exact_divide", {x, y}, {code(type)}, type);
    case Instruction::FRem:
      return call("tlx_exact_binary", {x, y}, {code(type), 0}, type);
    case Instruction::FNeg:
      return neg(x);
    case Instruction::FCmp:
      return compare(cast<FCmpInst>(i));
    case Instruction::FPExt:
      return call("tlx_exact_extend", {x}, {code(x->getType()), code(type)}, type);
    case Instruction::FPTrunc:
      return call("tlx_exact_truncate", {x}, {code(x->getType()), code(type)}, type);
    case Instruction::SIToFP:
      return unring(b.CreateSExtOrTrunc(x, integers(type)), type);
    case Instruction::UIToFP:
      return unring(b.CreateZExtOrTrunc(x, integers(type)), type);
    case Instruction::FPToSI:
    case Instruction::FPToUI:
      return b.CreateSExtOrTrunc(ring(x), type);
    case Instruction::AtomicRMW:
      return atomic(cast<AtomicRMWInst>(i));
    case Instruction::Call:
      if (auto *call = dyn_cast<IntrinsicInst>(&i)) return intrinsic(*call);
      return nullptr; // device operations have forms of their own
    default:
      return nullptr;
    }
  }

  Module &module;
  IRBuilder<> b;
  std::string error;
};
} // namespace

bool makeExact(Module &module, std::string &error) {
  return Exact(module).run(error);
}

} // namespace tlx::sim
