// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arithmetic on constants with the semantics of ops.def. Floats are computed by APFloat in the type itself, so a folded
// f16 sum is rounded as the device rounds it.
#include <bit>
#include <cmath>

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/APSInt.h"

#include "passes/simplify_p.h"

namespace tlx::passes::detail {
using namespace ir;
using llvm::APFloat;
using llvm::APInt;

namespace {

const llvm::fltSemantics &semantics(Scalar s) {
  switch (s) {
  case Scalar::F8E4M3:
    return APFloat::Float8E4M3FN();
  case Scalar::F8E5M2:
    return APFloat::Float8E5M2();
  case Scalar::F8E4M3FNUZ:
    return APFloat::Float8E4M3FNUZ();
  case Scalar::F8E5M2FNUZ:
    return APFloat::Float8E5M2FNUZ();
  case Scalar::F16:
    return APFloat::IEEEhalf();
  case Scalar::BF16:
    return APFloat::BFloat();
  case Scalar::F32:
    return APFloat::IEEEsingle();
  default:
    return APFloat::IEEEdouble();
  }
}

/// To a narrower or wider type. fp8 saturates: what is too large, infinity included, becomes the largest number.
APFloat converted(APFloat x, Scalar to, APFloat::roundingMode mode) {
  const bool nan = x.isNaN(), negative = x.isNegative();
  bool lost;
  x.convert(semantics(to), mode, &lost);
  if (isFp8(to) && !nan && !x.isFinite()) return APFloat::getLargest(semantics(to), negative);
  return x;
}

/// A constant may have more digits than its type.
APFloat floatOf(const Op &constant) {
  return converted(APFloat(constant.floatAttr(Attr::value)), constant.result()->type.scalar(),
                   APFloat::rmNearestTiesToEven);
}

AttrValue attrOf(APFloat x) {
  if (x.isNaN()) return std::bit_cast<double>(uint64_t(0x7ff8000000000000));
  bool lost;
  x.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
  return x.convertToDouble();
}

int64_t divFloor(int64_t a, int64_t b, bool isSigned) {
  if (!isSigned) return int64_t(uint64_t(a) / uint64_t(b));
  if (b == -1) return int64_t(-uint64_t(a)); // INT64_MIN / -1 wraps
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

bool lessThan(int64_t a, int64_t b, bool isSigned) {
  return isSigned ? a < b : uint64_t(a) < uint64_t(b);
}

std::optional<AttrValue> foldInt(const Op &op, int64_t a, int64_t b, Scalar s) {
  const bool isSigned = isSignedInt(s);
  const unsigned width = scalarBits(s);
  const uint64_t x = uint64_t(a), y = uint64_t(b);
  auto wrapped = [&](uint64_t v) -> std::optional<AttrValue> { return wrapInt(int64_t(v), s); };
  const bool inRange = b >= 0 && b < int64_t(width), past = b >= int64_t(width) || (!isSigned && b < 0);
  switch (op.opcode) {
  case Opcode::Add:
    return wrapped(x + y);
  case Opcode::Sub:
    return wrapped(x - y);
  case Opcode::Mul:
    return wrapped(x * y);
  case Opcode::MulHi:
    if (isSigned) return wrapped(uint64_t((__int128(a) * b) >> width));
    return wrapped(uint64_t((unsigned __int128)(x)*y >> width));
  case Opcode::DivFloor:
    if (!b) return std::nullopt;
    return wrapped(divFloor(a, b, isSigned));
  case Opcode::ModFloor:
    if (!b) return std::nullopt;
    return wrapped(x - uint64_t(divFloor(a, b, isSigned)) * y);
  case Opcode::CeilDiv: {
    if (!b) return std::nullopt;
    const uint64_t q = uint64_t(divFloor(a, b, isSigned));
    return wrapped(q * y == x ? q : q + 1);
  }
  case Opcode::And:
    return wrapped(x & y);
  case Opcode::Or:
    return wrapped(x | y);
  case Opcode::Xor:
    return wrapped(x ^ y);
  case Opcode::Shl:
    if (inRange) return wrapped(x << b);
    return past ? wrapped(0) : std::nullopt;
  case Opcode::Shr:
    if (!inRange && !past) return std::nullopt;
    if (past) return wrapped(isSigned && a < 0 ? ~uint64_t(0) : 0);
    return wrapped(isSigned ? uint64_t(a >> b) : x >> b);
  case Opcode::Min:
  case Opcode::MinNan:
    return wrapped(lessThan(a, b, isSigned) ? x : y);
  case Opcode::Max:
  case Opcode::MaxNan:
    return wrapped(lessThan(a, b, isSigned) ? y : x);
  case Opcode::Neg:
    return wrapped(-x);
  case Opcode::Abs:
    return wrapped(isSigned && a < 0 ? -x : x);
  default:
    return std::nullopt;
  }
}

std::optional<AttrValue> foldFloat(const Op &op, llvm::ArrayRef<APFloat> v, Scalar s) {
  constexpr APFloat::roundingMode nearest = APFloat::rmNearestTiesToEven;
  APFloat r = v[0];
  const bool zeros = v.size() > 1 && v[0].isZero() && v[1].isZero() && v[0].isNegative() != v[1].isNegative();
  // The device's bounds are wider than the error of double, rounded once to f32.
  auto viaDouble = [&](double (*f)(double)) -> std::optional<AttrValue> {
    if (s != Scalar::F32 && s != Scalar::F16 && s != Scalar::BF16) return std::nullopt;
    return attrOf(converted(APFloat(f(std::get<double>(attrOf(v[0])))), s, nearest));
  };
  switch (op.opcode) {
  case Opcode::Add:
    r.add(v[1], nearest);
    break;
  case Opcode::Sub:
    r.subtract(v[1], nearest);
    break;
  case Opcode::Mul:
    r.multiply(v[1], nearest);
    break;
  case Opcode::Div:
    r.divide(v[1], nearest);
    break;
  case Opcode::Fma:
    r.fusedMultiplyAdd(v[1], v[2], nearest);
    break;
  case Opcode::Neg:
    r.changeSign();
    break;
  case Opcode::Abs:
    r.clearSign();
    break;
  case Opcode::Floor:
    r.roundToIntegral(APFloat::rmTowardNegative);
    break;
  case Opcode::Ceil:
    r.roundToIntegral(APFloat::rmTowardPositive);
    break;
  case Opcode::Min: // which zero is not fixed
    if (zeros) return std::nullopt;
    r = minnum(v[0], v[1]);
    break;
  case Opcode::Max:
    if (zeros) return std::nullopt;
    r = maxnum(v[0], v[1]);
    break;
  case Opcode::MinNan:
    if (zeros) return std::nullopt;
    r = minimum(v[0], v[1]);
    break;
  case Opcode::MaxNan:
    if (zeros) return std::nullopt;
    r = maximum(v[0], v[1]);
    break;
  case Opcode::Exp:
    return viaDouble([](double x) { return std::exp(x); });
  case Opcode::Exp2:
    return viaDouble([](double x) { return std::exp2(x); });
  case Opcode::Log:
    return viaDouble([](double x) { return std::log(x); });
  case Opcode::Log2:
    return viaDouble([](double x) { return std::log2(x); });
  case Opcode::Sqrt: // exact: double has more than twice the digits
    return viaDouble([](double x) { return std::sqrt(x); });
  case Opcode::Rsqrt:
    return viaDouble([](double x) { return 1 / std::sqrt(x); });
  default:
    return std::nullopt;
  }
  if (isFp8(s) && !r.isFinite()) return std::nullopt; // how fp8 arithmetic overflows is the target's
  return attrOf(r);
}

int64_t holds(Pred pred, bool less, bool equal, bool ordered = true) {
  switch (pred) {
  case Pred::Eq:
    return equal;
  case Pred::Ne:
    return !equal;
  case Pred::Lt:
    return less;
  case Pred::Le:
    return less || equal;
  case Pred::Gt:
    return ordered && !less && !equal;
  case Pred::Ge:
    return ordered && !less;
  }
  return 0;
}

int64_t compareInts(Pred pred, int64_t a, int64_t b, Scalar s) {
  return holds(pred, lessThan(a, b, isSignedInt(s)), a == b);
}

std::optional<AttrValue> foldCmp(Pred pred, const Op &a, const Op &b) {
  Scalar s = a.result()->type.scalar();
  if (isInt(s)) return compareInts(pred, a.intAttr(Attr::value), b.intAttr(Attr::value), s);
  const APFloat::cmpResult r = floatOf(a).compare(floatOf(b));
  return holds(pred, r == APFloat::cmpLessThan, r == APFloat::cmpEqual, r != APFloat::cmpUnordered);
}

std::optional<AttrValue> foldCast(const Op &op, const Op &x, Scalar to) {
  const Scalar from = x.result()->type.scalar();
  const APFloat::roundingMode mode =
      op.strAttr(Attr::rounding) == "rtz" ? APFloat::rmTowardZero : APFloat::rmNearestTiesToEven;
  if (isInt(from)) {
    const int64_t v = x.intAttr(Attr::value);
    if (to == Scalar::I1) return int64_t(v != 0);
    if (isInt(to)) return wrapInt(v, to);
    APFloat f(APFloat::IEEEquad()); // holds every 64-bit integer: one rounding
    f.convertFromAPInt(APInt(64, uint64_t(v)), from != Scalar::U64, APFloat::rmNearestTiesToEven);
    return attrOf(converted(f, to, mode));
  }
  const APFloat f = floatOf(x);
  if (to == Scalar::I1) return int64_t(!f.isZero() && !f.isNaN());
  if (isFloat(to)) return attrOf(converted(f, to, mode));
  llvm::APSInt r(scalarBits(to), !isSignedInt(to));
  bool exact;
  f.convertToInteger(r, APFloat::rmTowardZero, &exact); // saturates, NaN gives 0
  return isSignedInt(to) ? r.getSExtValue() : int64_t(r.getZExtValue());
}

std::optional<AttrValue> foldBitcast(const Op &x, Scalar to) {
  const Scalar from = x.result()->type.scalar();
  if (from == Scalar::I1 || to == Scalar::I1) return std::nullopt;
  const unsigned bits = scalarBits(from);
  const APInt v = isInt(from) ? APInt(64, uint64_t(x.intAttr(Attr::value))).trunc(bits) : floatOf(x).bitcastToAPInt();
  if (isInt(to)) return wrapInt(int64_t(v.getZExtValue()), to);
  const APFloat f(semantics(to), v);
  if (f.isNaN()) return std::nullopt; // a double does not carry its bits
  return attrOf(f);
}

} // namespace

std::optional<AttrValue> foldConstants(const Op &op, llvm::ArrayRef<const Op *> constants) {
  const Type result = op.result()->type;
  if (result.isPointerLike() || constants.empty()) return std::nullopt;
  const Type operand = constants[0]->result()->type;
  switch (op.opcode) {
  case Opcode::Cmp:
    return foldCmp(Pred(op.intAttr(Attr::pred)), *constants[0], *constants[1]);
  case Opcode::Cast:
    return foldCast(op, *constants[0], result.scalar());
  case Opcode::Bitcast:
    return foldBitcast(*constants[0], result.scalar());
  case Opcode::MultipleOf:
    return constants[0]->attrs()[0].second;
  default:
    break;
  }
  if (!op.has(Elementwise) || !op.has(Pure) || constants.size() > 3) return std::nullopt;
  if (operand.isIntLike()) {
    const int64_t a = constants[0]->intAttr(Attr::value);
    return foldInt(op, a, constants.size() > 1 ? constants[1]->intAttr(Attr::value) : 0, operand.scalar());
  }
  llvm::SmallVector<APFloat, 3> values;
  for (const Op *c : constants) values.push_back(floatOf(*c));
  return foldFloat(op, values, operand.scalar());
}

std::optional<int64_t> foldIntegers(const Op &op, llvm::ArrayRef<int64_t> values) {
  const Scalar from = op.operand(0)->type.scalar(), to = op.result()->type.scalar();
  switch (op.opcode) {
  case Opcode::Cmp:
    return compareInts(Pred(op.intAttr(Attr::pred)), values[0], values[1], from);
  case Opcode::Cast:
    return to == Scalar::I1 ? int64_t(values[0] != 0) : wrapInt(values[0], to);
  case Opcode::Bitcast:
    return wrapInt(values[0], to);
  case Opcode::Select:
    return values[values[0] ? 1 : 2];
  case Opcode::MultipleOf:
    return values[0];
  default:
    break;
  }
  if (!op.has(Elementwise) || !op.has(Pure) || values.size() > 2) return std::nullopt;
  const auto folded = foldInt(op, values[0], values.size() > 1 ? values[1] : 0, from);
  return folded ? std::optional(std::get<int64_t>(*folded)) : std::nullopt;
}

} // namespace tlx::passes::detail
