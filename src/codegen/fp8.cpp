// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The four fp8 formats in integer code that every target runs: exact in both directions, saturating (infinities too),
// NaN kept.
//   e4m3: bias 7, no infinity, NaN 0x7f       e4m3fnuz: bias 8, NaN only 0x80, one zero
//   e5m2: bias 15, infinity 0x7c, NaN above   e5m2fnuz: bias 16, NaN only 0x80, one zero
#include <cmath>

#include "codegen/codegen_p.h"

using namespace llvm;

namespace tlx::codegen {

using ir::Scalar;

namespace {
struct Format {
  unsigned mantissa;
  int bias;
  double most; // the largest finite number
  bool fnuz;
};
Format formatOf(Scalar s) {
  switch (s) {
  case Scalar::F8E4M3:
    return {3, 7, 448, false};
  case Scalar::F8E5M2:
    return {2, 15, 57344, false};
  case Scalar::F8E4M3FNUZ:
    return {3, 8, 240, true};
  default:
    return {2, 16, 57344, true};
  }
}
} // namespace

Value *Generator::fp8ToF32(Value *v, Scalar from) {
  if (from == Scalar::F8E5M2) { // the upper half of an f16
    Value *half = b.CreateShl(b.CreateZExt(v, b.getInt16Ty()), 8);
    return b.CreateFPExt(b.CreateBitCast(half, b.getHalfTy()), b.getFloatTy());
  }
  const Format f = formatOf(from);
  // Exponent and mantissa in the place of f32's are a number 2^(127 - bias) times too small, denormals included.
  Value *wide = b.CreateZExt(v, b.getInt32Ty());
  Value *magnitude = b.CreateShl(b.CreateAnd(wide, 0x7f), 23 - f.mantissa);
  Value *x = b.CreateFMul(b.CreateBitCast(magnitude, b.getFloatTy()), f32(std::ldexp(1.0, 127 - f.bias)));
  Value *sign = b.CreateShl(b.CreateAnd(wide, 0x80), 24);
  x = b.CreateBitCast(b.CreateOr(b.CreateBitCast(x, b.getInt32Ty()), sign), b.getFloatTy());
  Value *nan = f.fnuz ? b.CreateICmpEQ(v, b.getInt8(0x80)) : b.CreateICmpEQ(b.CreateAnd(v, 0x7f), b.getInt8(0x7f));
  return b.CreateSelect(nan, ConstantFP::getNaN(b.getFloatTy()), x);
}

Value *Generator::f32ToFp8(Value *v, Scalar to, bool towardZero) {
  const Format f = formatOf(to);
  llvm::Type *i32 = b.getInt32Ty();
  const unsigned drop = 23 - f.mantissa;
  // Clamped first: no rounding then passes the largest number. (NaN becomes a number here and is put back below.)
  Value *magnitude = intrinsic(Intrinsic::minnum, {intrinsic(Intrinsic::fabs, v), f32(f.most)});
  Value *bits = b.CreateBitCast(magnitude, i32);
  Value *rounded = bits;
  if (!towardZero) {
    Value *odd = b.CreateAnd(b.CreateLShr(bits, drop), 1);
    rounded = b.CreateAdd(b.CreateAdd(bits, b.getInt32((1u << (drop - 1)) - 1)), odd);
  }
  Value *normal = b.CreateSub(b.CreateLShr(rounded, drop), b.getInt32(unsigned(127 - f.bias) << f.mantissa));
  // Below the least normal number the step is fixed: 2^(1 - bias - mantissa).
  Value *small;
  if (towardZero) {
    small = b.CreateFPToUI(b.CreateFMul(magnitude, f32(std::ldexp(1.0, f.bias - 1 + int(f.mantissa)))), i32);
  } else { // adding 2^23 steps rounds to one
    Value *magic = f32(std::ldexp(1.0, 1 - f.bias - int(f.mantissa) + 23));
    small = b.CreateSub(b.CreateBitCast(b.CreateFAdd(magnitude, magic), i32), b.CreateBitCast(magic, i32));
  }
  Value *code = b.CreateSelect(b.CreateFCmpOLT(magnitude, f32(std::ldexp(1.0, 1 - f.bias))), small, normal);
  Value *sign = b.CreateAnd(b.CreateLShr(b.CreateBitCast(v, i32), 24), 0x80);
  if (f.fnuz) sign = b.CreateSelect(b.CreateICmpEQ(code, b.getInt32(0)), b.getInt32(0), sign); // 0x80 is the NaN
  code = b.CreateOr(code, sign);
  code = b.CreateSelect(isNan(v), b.getInt32(f.fnuz ? 0x80 : 0x7f), code);
  return b.CreateTrunc(code, b.getInt8Ty());
}

} // namespace tlx::codegen
