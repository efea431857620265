// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Transcendental functions and division. f32 uses the approximate units:
//   exp2   2 ulp                     exp    2^-22.5 relative + |x| · 2^-23 (the product x · log2 e is rounded)
//   log2   2^-22 absolute near 1     log    the same, times ln 2
//   rsqrt  2 ulp                     sqrt   IEEE                         div   2 ulp (NVIDIA), 2.5 ulp (AMD);
//   {precise}: IEEE
// Infinities and NaN come out right; denormal operands and results may flush in exp, log and rsqrt. f64 uses
// polynomials, at most 2 ulp.
#include "codegen/codegen_p.h"
#include "llvm/IR/MDBuilder.h"

using namespace llvm;

namespace tlx::codegen {

namespace {
constexpr double kLog2E = 1.4426950408889634, kLn2 = 0.6931471805599453;
// ln 2 in two parts: the high one has 21 trailing zero bits, so its product with an exponent is exact.
constexpr double kLn2High = 6.93147180369123816490e-01, kLn2Low = 1.90821492927058770002e-10;
} // namespace

Value *Generator::mathF32(const ir::Op &op, Args args) {
  using ir::Opcode;
  Value *x = args[0];
  auto unit = [&](const char *nv, const char *amd, Value *v) { return device(nvidia() ? nv : amd, v); };
  switch (op.opcode) {
  case Opcode::Exp2:
    return unit("tlx.nv.ex2.approx", "tlx.amd.exp2", x);
  case Opcode::Exp:
    return unit("tlx.nv.ex2.approx", "tlx.amd.exp2", b.CreateFMul(x, f32(kLog2E)));
  case Opcode::Log2:
    return unit("tlx.nv.lg2.approx", "tlx.amd.log2", x);
  case Opcode::Log:
    return b.CreateFMul(unit("tlx.nv.lg2.approx", "tlx.amd.log2", x), f32(kLn2));
  case Opcode::Rsqrt:
    return unit("tlx.nv.rsqrt.approx", "tlx.amd.rsq", x);
  case Opcode::Sqrt:
    return intrinsic(Intrinsic::sqrt, x);
  case Opcode::Floor:
    return intrinsic(Intrinsic::floor, x);
  case Opcode::Ceil:
    return intrinsic(Intrinsic::ceil, x);
  case Opcode::Div: {
    const bool precise = op.intAttr(ir::Attr::precise);
    if (nvidia() && !precise) return device("tlx.nv.div.full", args);
    Value *q = b.CreateFDiv(args[0], args[1]);
    if (auto *i = dyn_cast<Instruction>(q); i && !precise)
      i->setMetadata(LLVMContext::MD_fpmath, MDBuilder(context).createFPMath(2.5f));
    return q;
  }
  default:
    unsupported(op, op.operand(0)->type);
    return PoisonValue::get(x->getType());
  }
}

Value *Generator::mathF64(const ir::Op &op, Args args) {
  using ir::Opcode;
  switch (op.opcode) {
  case Opcode::Div:
    return b.CreateFDiv(args[0], args[1]);
  case Opcode::Sqrt:
    return intrinsic(Intrinsic::sqrt, args[0]);
  case Opcode::Rsqrt:
    return b.CreateFDiv(f64(1), intrinsic(Intrinsic::sqrt, args[0]));
  case Opcode::Floor:
    return intrinsic(Intrinsic::floor, args[0]);
  case Opcode::Ceil:
    return intrinsic(Intrinsic::ceil, args[0]);
  case Opcode::Exp:
    return expF64(args[0], false);
  case Opcode::Exp2:
    return expF64(args[0], true);
  case Opcode::Log:
    return logF64(args[0], false);
  case Opcode::Log2:
    return logF64(args[0], true);
  default:
    unsupported(op, op.operand(0)->type);
    return PoisonValue::get(args[0]->getType());
  }
}

// x = k · ln 2 + r with |r| ≤ ln 2 / 2, then e^r by its series to r^13 (the next term is below 2^-58) and the exponent
// k in two halves, so that denormal results round once and 2^1024 overflows.
Value *Generator::expF64(Value *x, bool base2) {
  auto fma = [&](Value *p, Value *q, Value *r) { return intrinsic(Intrinsic::fma, {p, q, r}); };
  const double most = base2 ? 1100 : 760; // beyond: 0 and infinity all the same
  Value *clamped = intrinsic(Intrinsic::maxnum, {intrinsic(Intrinsic::minnum, {x, f64(most)}), f64(-most)});
  Value *k = intrinsic(Intrinsic::rint, base2 ? clamped : b.CreateFMul(clamped, f64(kLog2E)));
  Value *r;
  if (base2) {
    r = b.CreateFMul(b.CreateFSub(clamped, k), f64(kLn2));
  } else {
    r = fma(k, f64(-kLn2High), clamped);
    r = fma(k, f64(-kLn2Low), r);
  }
  double factorial = 6227020800.0; // 13!
  Value *p = f64(1 / factorial);
  for (int n = 12; n >= 0; --n) {
    factorial /= n + 1;
    p = fma(p, r, f64(1 / factorial));
  }
  Value *ki = b.CreateFPToSI(k, b.getInt32Ty());
  Value *half = b.CreateAShr(ki, 1);
  auto power = [&](Value *e) { // 2^e for |e| ≤ 1022
    Value *bits = b.CreateShl(b.CreateZExt(b.CreateAdd(e, b.getInt32(1023)), b.getInt64Ty()), 52);
    return b.CreateBitCast(bits, b.getDoubleTy());
  };
  Value *y = b.CreateFMul(b.CreateFMul(p, power(half)), power(b.CreateSub(ki, half)));
  return b.CreateSelect(isNan(x), x, y);
}

// x = 2^e · m with m in [√½, √2); ln m = 2 · atanh(s), s = (m - 1) / (m + 1), by its series to s^21.
Value *Generator::logF64(Value *x, bool base2) {
  auto fma = [&](Value *p, Value *q, Value *r) { return intrinsic(Intrinsic::fma, {p, q, r}); };
  llvm::Type *i64 = b.getInt64Ty();
  Value *denormal = b.CreateFCmpOLT(x, f64(0x1p-1022));
  Value *scaled = b.CreateSelect(denormal, b.CreateFMul(x, f64(0x1p54)), x);
  Value *bits = b.CreateBitCast(scaled, i64);
  // Adding 1 - √½ in units of the exponent moves the carry to where m passes √2.
  Value *moved = b.CreateAdd(bits, b.getInt64(0x3ff0000000000000 - 0x3fe6a09e667f3bcd));
  Value *e = b.CreateSub(b.CreateAShr(moved, 52), b.getInt64(1023));
  Value *m = b.CreateBitCast(b.CreateSub(bits, b.CreateShl(e, 52)), b.getDoubleTy());
  Value *exponent =
      b.CreateSIToFP(b.CreateSub(e, b.CreateSelect(denormal, b.getInt64(54), b.getInt64(0))), b.getDoubleTy());

  Value *f = b.CreateFSub(m, f64(1)); // exact
  Value *s = b.CreateFDiv(f, b.CreateFAdd(f, f64(2)));
  Value *z = b.CreateFMul(s, s);
  Value *p = f64(2.0 / 21);
  for (int n = 19; n >= 3; n -= 2) p = fma(p, z, f64(2.0 / n));
  // ln m = f - (f²/2 - s · (f²/2 + z · p)): the large part f is exact.
  Value *h = b.CreateFMul(b.CreateFMul(f, f), f64(0.5));
  Value *small = b.CreateFSub(h, b.CreateFMul(s, fma(z, p, h)));
  Value *y;
  if (base2) {
    Value *hi = b.CreateFSub(f, small), *lo = b.CreateFSub(b.CreateFSub(f, hi), small);
    Value *product = b.CreateFMul(hi, f64(kLog2E));
    Value *error = fma(hi, f64(kLog2E), b.CreateFNeg(product));
    error = fma(hi, f64(2.0355273740931033e-17), fma(lo, f64(kLog2E), error));
    y = b.CreateFAdd(exponent, b.CreateFAdd(product, error));
  } else {
    Value *low = b.CreateFSub(small, b.CreateFMul(exponent, f64(kLn2Low)));
    y = fma(exponent, f64(kLn2High), b.CreateFSub(f, low));
  }
  Constant *inf = ConstantFP::getInfinity(b.getDoubleTy());
  y = b.CreateSelect(b.CreateFCmpOEQ(x, inf), inf, y);
  y = b.CreateSelect(b.CreateFCmpOEQ(x, f64(0)), ConstantFP::getInfinity(b.getDoubleTy(), true), y);
  return b.CreateSelect(b.CreateFCmpULT(x, f64(0)), ConstantFP::getNaN(b.getDoubleTy()), y);
}

} // namespace tlx::codegen
