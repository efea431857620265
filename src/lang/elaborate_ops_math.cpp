// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operations on numbers, elementwise: mathematics, selection, conversion.
#include "lang/elaborate_p.h"

#include <cmath>

namespace tlx::lang {

using ir::Opcode;
using ir::Scalar;

llvm::ArrayRef<Builtin> mathBuiltins() {
  static const Builtin kTable[] = {
      {"exp", "x", &Elaborator::opExp},
      {"exp2", "x", &Elaborator::opExp2},
      {"log", "x", &Elaborator::opLog},
      {"log2", "x", &Elaborator::opLog2},
      {"sqrt", "x", &Elaborator::opSqrt},
      {"rsqrt", "x", &Elaborator::opRsqrt},
      {"abs", "x", &Elaborator::opAbs},
      {"floor", "x", &Elaborator::opFloor},
      {"ceil", "x", &Elaborator::opCeil},
      {"minimum", "a, b", &Elaborator::opMinimum},
      {"maximum", "a, b", &Elaborator::opMaximum},
      {"minimum_nan", "a, b", &Elaborator::opMinimumNan},
      {"maximum_nan", "a, b", &Elaborator::opMaximumNan},
      {"cdiv", "a, b", &Elaborator::opCdiv},
      {"fma", "a, b, c", &Elaborator::opFma},
      {"mulhi", "a, b", &Elaborator::opMulhi},
      {"where", "condition, a, b", &Elaborator::opWhere},
      {"bitcast", "x, type", &Elaborator::opBitcast},
  };
  return kTable;
}

bool Elaborator::arithmetic(const CallArgs &a, unsigned i) {
  const Val &v = a.vals[i];
  if (!v.isArithmetic()) return notNumber(a.locs[i], a.name, v), false;
  Scalar s = v.scalar();
  if (s == Scalar::I1) return error(Diag::ElBoolArith, a.locs[i], a.name), false;
  if (ir::isFp8(s)) return error(Diag::ElFp8Arith, a.locs[i], a.name, ir::scalarName(s)), false;
  return true;
}

std::optional<Scalar> Elaborator::dtypeOf(const CallArgs &a, unsigned i) {
  if (a.vals[i].is(Val::Kind::DType)) return a.vals[i].dtype;
  error(Diag::ElNeedsDtype, a.locs[i], a.name, describe(a.vals[i]));
  return std::nullopt;
}

std::optional<int64_t> Elaborator::constInt(const CallArgs &a, unsigned i, llvm::StringRef what) {
  if (a.vals[i].isInt()) return a.vals[i].i;
  error(Diag::ElNeedsConstInt, a.locs[i], what, a.name, describe(a.vals[i]));
  return std::nullopt;
}

//===-- one operand -----------------------------------------------------------------------------------------------===//

static double foldUnary(Opcode op, double x) {
  switch (op) {
  case Opcode::Exp:
    return std::exp(x);
  case Opcode::Exp2:
    return std::exp2(x);
  case Opcode::Log:
    return std::log(x);
  case Opcode::Log2:
    return std::log2(x);
  case Opcode::Sqrt:
    return std::sqrt(x);
  case Opcode::Rsqrt:
    return 1 / std::sqrt(x);
  case Opcode::Abs:
    return std::abs(x);
  case Opcode::Floor:
    return std::floor(x);
  default:
    return std::ceil(x);
  }
}

Val Elaborator::mathUnary(CallArgs &a, Opcode op) {
  if (!arithmetic(a, 0)) return Val::poison();
  Val &x = a.vals[0];
  bool exact = op == Opcode::Abs || op == Opcode::Floor || op == Opcode::Ceil;
  if (ir::isInt(x.scalar()) && op != Opcode::Abs) {
    bool literal = x.isInt() && !x.type;
    if (!literal) return error(Diag::ElNeedsFloat, a.locs[0], a.name, describe(x));
    x = Val::floating(double(x.i));
  }
  if (x.isInt()) {
    if (x.i == INT64_MIN) return error(Diag::ElOverflow, a.locs[0]);
    return Val::integer(std::abs(x.i), x.type);
  }
  if (x.isFloat()) {
    double r = foldUnary(op, x.f);
    return Val::floating(x.type ? roundTo(r, *x.type) : r, x.type);
  }
  Scalar type = x.scalar();
  if (ir::isUnsignedInt(type)) return x; // abs
  ++operations;
  // Only f32 and f64 have these functions; narrower floats go through f32.
  if (exact || ir::scalarBits(type) >= 32) return Val::runtime(b().unary(op, x.v));
  return Val::runtime(convert(b().unary(op, convert(x.v, Scalar::F32)), type));
}

Val Elaborator::opExp(CallArgs &a) {
  return mathUnary(a, Opcode::Exp);
}
Val Elaborator::opExp2(CallArgs &a) {
  return mathUnary(a, Opcode::Exp2);
}
Val Elaborator::opLog(CallArgs &a) {
  return mathUnary(a, Opcode::Log);
}
Val Elaborator::opLog2(CallArgs &a) {
  return mathUnary(a, Opcode::Log2);
}
Val Elaborator::opSqrt(CallArgs &a) {
  return mathUnary(a, Opcode::Sqrt);
}
Val Elaborator::opRsqrt(CallArgs &a) {
  return mathUnary(a, Opcode::Rsqrt);
}
Val Elaborator::opAbs(CallArgs &a) {
  return mathUnary(a, Opcode::Abs);
}
Val Elaborator::opFloor(CallArgs &a) {
  return mathUnary(a, Opcode::Floor);
}
Val Elaborator::opCeil(CallArgs &a) {
  return mathUnary(a, Opcode::Ceil);
}

//===-- two and three ---------------------------------------------------------------------------------------------===//

Val Elaborator::mathBinary(CallArgs &a, Opcode op) {
  bool okA = arithmetic(a, 0), okB = arithmetic(a, 1);
  if (!okA || !okB) return Val::poison();
  Val &x = a.vals[0], &y = a.vals[1];
  auto type = commonType(x, y, a.loc, a.name);
  if (!type) return Val::poison();
  if (op == Opcode::CeilDiv) {
    for (int i = 0; i < 2; ++i)
      if (!ir::isInt(a.vals[i].scalar())) return error(Diag::ElNeedsInt, a.locs[i], a.name, describe(a.vals[i]));
    if (y.isInt() && y.i == 0) return error(Diag::ElDivZero, a.locs[1]);
  }
  if (x.isNumber() && y.isNumber()) {
    std::optional<Scalar> result = x.isLiteral() && y.isLiteral() ? std::nullopt : type;
    if (op == Opcode::CeilDiv) {
      if (x.i == INT64_MIN && y.i == -1) return error(Diag::ElOverflow, a.loc);
      int64_t q = x.i / y.i;
      if (x.i % y.i != 0 && (x.i < 0) == (y.i < 0)) ++q;
      return Val::integer(q, result);
    }
    bool isMin = op == Opcode::Min || op == Opcode::MinNan;
    if (x.isInt() && y.isInt()) return Val::integer(isMin ? std::min(x.i, y.i) : std::max(x.i, y.i), result);
    double p = x.isFloat() ? x.f : double(x.i), q = y.isFloat() ? y.f : double(y.i);
    bool nan = (op == Opcode::MinNan || op == Opcode::MaxNan) && (std::isnan(p) || std::isnan(q));
    double r = nan ? NAN : isMin ? std::fmin(p, q) : std::fmax(p, q);
    return Val::floating(result ? roundTo(r, *result) : r, result);
  }
  auto pair = unify(x, y, a.loc, a.name);
  if (!pair) return Val::poison();
  ++operations;
  return Val::runtime(b().binary(op, pair->first, pair->second));
}

Val Elaborator::opMinimum(CallArgs &a) {
  return mathBinary(a, Opcode::Min);
}
Val Elaborator::opMaximum(CallArgs &a) {
  return mathBinary(a, Opcode::Max);
}
Val Elaborator::opMinimumNan(CallArgs &a) {
  return mathBinary(a, Opcode::MinNan);
}
Val Elaborator::opMaximumNan(CallArgs &a) {
  return mathBinary(a, Opcode::MaxNan);
}
Val Elaborator::opCdiv(CallArgs &a) {
  return mathBinary(a, Opcode::CeilDiv);
}

Val Elaborator::opMulhi(CallArgs &a) {
  for (unsigned i = 0; i < 2; ++i) {
    if (!arithmetic(a, i)) return Val::poison();
    if (!ir::isInt(a.vals[i].scalar())) return error(Diag::ElNeedsInt, a.locs[i], a.name, describe(a.vals[i]));
  }
  auto type = commonType(a.vals[0], a.vals[1], a.loc, a.name);
  if (!type) return Val::poison();
  if (ir::scalarBits(*type) < 32) return error(Diag::ElMulhiType, a.loc, ir::scalarName(*type));
  const Val &x = a.vals[0], &y = a.vals[1];
  if (x.isNumber() && y.isNumber()) {
    const unsigned bits = ir::scalarBits(*type);
    if (!fits(x, *type, a.locs[0]) || !fits(y, *type, a.locs[1])) return Val::poison();
    if (ir::isSignedInt(*type)) return Val::integer(int64_t((__int128(x.i) * y.i) >> bits), *type);
    return Val::integer(int64_t((unsigned __int128)(uint64_t(x.i)) * uint64_t(y.i) >> bits), *type);
  }
  auto pair = unify(x, y, a.loc, a.name);
  if (!pair) return Val::poison();
  ++operations;
  return Val::runtime(b().binary(Opcode::MulHi, pair->first, pair->second));
}

Val Elaborator::opFma(CallArgs &a) {
  bool ok = true;
  for (unsigned i = 0; i < 3; ++i) ok &= arithmetic(a, i);
  if (!ok) return Val::poison();
  // One type for all three: the widest, by the table.
  std::optional<Val> common;
  for (unsigned i = 0; i < 3; ++i) {
    Val &v = a.vals[i];
    if (ir::isInt(v.scalar()) && !v.isLiteral()) return error(Diag::ElNeedsFloat, a.locs[i], a.name, describe(v));
    if (!common || (common->isLiteral() && !v.isLiteral())) {
      common = v;
    } else if (!v.isLiteral()) {
      auto type = commonType(*common, v, a.loc, a.name);
      if (!type) return Val::poison();
      common = Val::floating(0, *type);
    }
  }
  Scalar type = common->isLiteral() ? Scalar::F32 : common->scalar();
  llvm::SmallVector<int64_t, 4> shape;
  for (Val &v : a.vals) {
    auto s = commonShape(shape, v.shape(), a.loc, a.name);
    if (!s) return Val::poison();
    shape = *s;
  }
  ir::Value *v[3];
  for (unsigned i = 0; i < 3; ++i) {
    v[i] =
        a.vals[i].isLiteral() ? materializeAs(a.vals[i], type, a.locs[i], a.name) : materialize(a.vals[i], a.locs[i]);
    if (!v[i]) return Val::poison();
    v[i] = broadcast(convert(v[i], type), shape);
  }
  ++operations;
  return Val::runtime(b().fma(v[0], v[1], v[2]));
}

Val Elaborator::opWhere(CallArgs &a) {
  Val &c = a.vals[0];
  if (!c.isArithmetic() || c.scalar() != Scalar::I1) return error(Diag::ElWhereCond, a.locs[0], describe(c));
  Val &x = a.vals[1], &y = a.vals[2];
  bool pointers = x.isPointerLike() && y.isPointerLike();
  if (pointers) {
    if (x.v->type.element() != y.v->type.element())
      return error(Diag::ElParamType, a.locs[2], "b", x.v->type.element().str(), y.v->type.element().str());
  } else {
    for (unsigned i = 1; i < 3; ++i)
      if (!a.vals[i].isArithmetic()) return notNumber(a.locs[i], a.name, a.vals[i]);
  }
  if (c.isBool() && x.isNumber() && y.isNumber()) {
    auto type = commonType(x, y, a.loc, a.name);
    if (!type) return Val::poison();
    const Val &chosen = c.i ? x : y;
    return x.isLiteral() && y.isLiteral() ? chosen : convertConst(chosen, *type);
  }
  auto shape = commonShape(x.shape(), y.shape(), a.loc, a.name);
  if (shape) shape = commonShape(*shape, c.shape(), a.loc, a.name);
  if (!shape) return Val::poison();
  std::optional<std::pair<ir::Value *, ir::Value *>> pair;
  if (pointers)
    pair = std::pair(x.v, y.v);
  else
    pair = unify(x, y, a.loc, a.name);
  ir::Value *cond = materialize(c, a.locs[0]);
  if (!pair || !cond) return Val::poison();
  if (c.isBool()) return Val::runtime(broadcast(c.i ? pair->first : pair->second, *shape));
  if (cond->type.isTile()) cond = broadcast(cond, *shape);
  ++operations;
  return Val::runtime(b().select(cond, broadcast(pair->first, *shape), broadcast(pair->second, *shape)));
}

//===-- conversion ------------------------------------------------------------------------------------------------===//

Val Elaborator::opTo(CallArgs &a) {
  Val &x = a.vals[0];
  if (!x.isArithmetic()) return error(Diag::ElConvert, a.locs[0], describe(x));
  auto to = dtypeOf(a, 1);
  if (!to) return Val::poison();
  Scalar from = x.scalar();
  std::string rounding;
  if (a.has(2)) {
    const Val &r = a.vals[2];
    if (!r.is(Val::Kind::String) || (r.s != "rtne" && r.s != "rtz"))
      return error(Diag::ElRounding, a.locs[2], r.is(Val::Kind::String) ? "\"" + r.s + "\"" : describe(r));
    bool rounds = ir::isFloat(*to) && (ir::isInt(from) || ir::scalarBits(*to) < ir::scalarBits(from));
    if (!rounds) return error(Diag::ElRoundingUse, a.locs[2], ir::scalarName(from), ir::scalarName(*to));
    if (r.s == "rtz") rounding = "rtz";
  }
  if (x.isFloat() && *to == Scalar::U64 && x.f >= 9223372036854775808.0) return error(Diag::ElOverflow, a.loc);
  if (x.isNumber() && rounding.empty()) return convertConst(x, *to);
  ir::Value *v = materialize(x, a.locs[0]);
  if (!v || from == *to) return v ? Val::runtime(v) : Val::poison();
  operations += 2;
  if (*to == Scalar::I1) {
    if (ir::isFp8(from)) v = convert(v, Scalar::F32);
    return Val::runtime(b().cmp(ir::Pred::Ne, v, b().constant(v->type, 0)));
  }
  // 8-bit floats convert from and to the other floats; everything else goes through f32, which holds all of them.
  auto direct = [](Scalar s) { return s == Scalar::F32 || s == Scalar::F16 || s == Scalar::BF16; };
  if ((ir::isFp8(from) && !direct(*to)) || (ir::isFp8(*to) && !direct(from)))
    v = convert(v, Scalar::F32, ir::isFp8(*to) ? rounding : "");
  return Val::runtime(convert(v, *to, rounding));
}

Val Elaborator::opBitcast(CallArgs &a) {
  Val &x = a.vals[0];
  if (!x.isArithmetic()) return error(Diag::ElConvert, a.locs[0], describe(x));
  auto to = dtypeOf(a, 1);
  ir::Value *v = materialize(x, a.locs[0]);
  if (!to || !v) return Val::poison();
  Scalar from = v->type.element().scalar();
  unsigned have = ir::scalarBits(from), want = ir::scalarBits(*to);
  if (have != want)
    return error(Diag::ElBitcast, a.loc, ir::scalarName(from), plural(have, "bit"), ir::scalarName(*to),
                 plural(want, "bit"));
  if (from == *to) return Val::runtime(v);
  ++operations;
  return Val::runtime(b().bitcast(v, context.scalar(*to)));
}

} // namespace tlx::lang
