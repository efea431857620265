// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Number types: promotion, literals that adapt, constants, broadcasting.
#include "lang/elaborate_p.h"

#include <cmath>

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/bit.h"

namespace tlx::lang {

using ir::Scalar;

Promotion promote(Scalar a, Scalar b) {
  if (a == b) return {Promotion::Ok, a};
  if (a == Scalar::I1 || b == Scalar::I1) return {Promotion::BoolMix};
  if (ir::isInt(a) != ir::isInt(b)) return {Promotion::KindMix};
  if (ir::isInt(a) && ir::isSignedInt(a) != ir::isSignedInt(b)) return {Promotion::SignMix};
  unsigned wa = ir::scalarBits(a), wb = ir::scalarBits(b);
  if (wa == wb) return {Promotion::FormatMix};
  return {Promotion::Ok, wa > wb ? a : b};
}

std::string promotionTable() {
  constexpr Scalar kOrder[] = {Scalar::I1,     Scalar::I8,         Scalar::I16,        Scalar::I32, Scalar::I64,
                               Scalar::U8,     Scalar::U16,        Scalar::U32,        Scalar::U64, Scalar::F8E4M3,
                               Scalar::F8E5M2, Scalar::F8E4M3FNUZ, Scalar::F8E5M2FNUZ, Scalar::F16, Scalar::BF16,
                               Scalar::F32,    Scalar::F64};
  static_assert(std::size(kOrder) == ir::kScalars);
  std::string out = "| |";
  for (Scalar s : kOrder) out += " " + ir::scalarName(s).str() + " |";
  out += "\n|---|";
  for (size_t i = 0; i < std::size(kOrder); ++i) out += "---|";
  for (Scalar a : kOrder) {
    out += "\n| " + ir::scalarName(a).str() + " |";
    for (Scalar b : kOrder) {
      Promotion p = promote(a, b);
      out += p.outcome == Promotion::Ok ? " " + ir::scalarName(p.type).str() + " |" : " – |";
    }
  }
  return out + "\n";
}

//===-- constants -------------------------------------------------------------------------------------------------===//

static const llvm::fltSemantics &semantics(Scalar s) {
  switch (s) {
  case Scalar::F8E4M3:
    return llvm::APFloat::Float8E4M3FN();
  case Scalar::F8E5M2:
    return llvm::APFloat::Float8E5M2();
  case Scalar::F8E4M3FNUZ:
    return llvm::APFloat::Float8E4M3FNUZ();
  case Scalar::F8E5M2FNUZ:
    return llvm::APFloat::Float8E5M2FNUZ();
  case Scalar::F16:
    return llvm::APFloat::IEEEhalf();
  case Scalar::BF16:
    return llvm::APFloat::BFloat();
  case Scalar::F32:
    return llvm::APFloat::IEEEsingle();
  default:
    return llvm::APFloat::IEEEdouble();
  }
}

static double largest(Scalar s) {
  llvm::APFloat v = llvm::APFloat::getLargest(semantics(s));
  bool lost;
  v.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &lost);
  return v.convertToDouble();
}

double Elaborator::roundTo(double value, Scalar type) {
  if (std::isnan(value) || type == Scalar::F64) return value;
  // A conversion to an 8-bit float saturates, as at run time.
  if (ir::isFp8(type)) value = std::clamp(value, -largest(type), largest(type));
  if (std::isinf(value)) return value;
  llvm::APFloat v(value);
  bool lost;
  v.convert(semantics(type), llvm::APFloat::rmNearestTiesToEven, &lost);
  v.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &lost);
  return v.convertToDouble();
}

/// An integer rounded once to `type`: on the way through f64 to odd, so that the second rounding is right.
static double integerTo(int64_t i, Scalar type) {
  double d = double(i);
  if (type == Scalar::F64 || __int128(d) == i) return d;
  auto bits = llvm::bit_cast<uint64_t>(d);
  if (!(bits & 1)) d = std::nextafter(d, __int128(d) < i ? INFINITY : -INFINITY);
  return Elaborator::roundTo(d, type);
}

static bool inRange(int64_t v, Scalar s) {
  unsigned bits = ir::scalarBits(s);
  if (ir::isSignedInt(s)) return bits == 64 || (v >= -(int64_t(1) << (bits - 1)) && v < int64_t(1) << (bits - 1));
  return v >= 0 && (bits == 64 || v < int64_t(1) << bits);
}

static std::string number(double v) {
  char text[32];
  snprintf(text, sizeof text, "%g", v);
  return text;
}

bool Elaborator::fits(const Val &v, Scalar type, Loc loc) {
  std::string name = ir::scalarName(type).str();
  if (v.isInt() && ir::isInt(type)) {
    if (inRange(v.i, type)) return true;
    // An integer left to its default type may have been meant wider.
    bool wider = type == Scalar::I32 && inRange(v.i, Scalar::I64);
    error(Diag::ElIntRange, loc, v.i, name, wider ? "; write (" + std::to_string(v.i) + ").to(i64)" : "");
    return false;
  }
  if (v.isFloat() && std::isfinite(v.f) && std::abs(v.f) > largest(type) &&
      (ir::isFp8(type) || std::isinf(roundTo(v.f, type)))) {
    error(Diag::ElFloatRange, loc, number(v.f), name, number(largest(type)));
    return false;
  }
  return true;
}

Val Elaborator::convertConst(const Val &v, Scalar type) {
  auto wrapInt = [&](int64_t i) {
    unsigned bits = ir::scalarBits(type);
    if (bits < 64) {
      uint64_t mask = (uint64_t(1) << bits) - 1, u = uint64_t(i) & mask;
      i = ir::isSignedInt(type) && (u >> (bits - 1)) ? int64_t(u | ~mask) : int64_t(u);
    }
    return Val::integer(i, type);
  };
  if (type == Scalar::I1) return Val::boolean(v.isFloat() ? v.f != 0 : v.i != 0);
  if (ir::isFloat(type)) return Val::floating(v.isFloat() ? roundTo(v.f, type) : integerTo(v.i, type), type);
  if (!v.isFloat()) return wrapInt(v.i);
  // Float to integer truncates and saturates, NaN gives 0.
  if (std::isnan(v.f)) return Val::integer(0, type);
  unsigned bits = ir::scalarBits(type) - (ir::isSignedInt(type) ? 1 : 0);
  double top = std::ldexp(1.0, int(std::min(bits, 63u))), low = ir::isSignedInt(type) ? -top : 0, t = std::trunc(v.f);
  int64_t highest = bits >= 63 ? INT64_MAX : (int64_t(1) << bits) - 1;
  return Val::integer(t >= top ? highest : t <= low ? (low < 0 ? -highest - 1 : 0) : int64_t(t), type);
}

ir::Value *Elaborator::materialize(const Val &v, Loc loc) {
  if (v.isRuntime()) return v.v;
  if (v.isPoison()) return nullptr;
  if (!v.isNumber()) return error(Diag::ElNotRuntime, loc, describe(v)), nullptr;
  if (!fits(v, v.scalar(), loc)) return nullptr;
  ++operations;
  ir::Type type = context.scalar(v.scalar());
  return v.isFloat() ? b().constantFloat(type, roundTo(v.f, v.scalar())) : b().constant(type, v.i);
}

ir::Value *Elaborator::materializeAs(const Val &v, Scalar type, Loc loc, llvm::StringRef what) {
  if (v.isPoison()) return nullptr;
  if (!v.isArithmetic()) return error(Diag::ElNotNumber, loc, what, describe(v)), nullptr;
  if (v.isLiteral() && type != Scalar::I1 && (ir::isFloat(type) || v.isInt())) {
    if (!fits(v, type, loc)) return nullptr;
    ++operations;
    double f = v.isFloat() ? roundTo(v.f, type) : integerTo(v.i, type);
    return ir::isFloat(type) ? b().constantFloat(context.scalar(type), f) : b().constant(context.scalar(type), v.i);
  }
  if (v.scalar() != type) {
    error(Diag::ElNeedsType, loc, what, v.isLiteral() ? describe(v) : ir::scalarName(v.scalar()).str(),
          ir::scalarName(type));
    return nullptr;
  }
  return materialize(v, loc);
}

ir::Value *Elaborator::convert(ir::Value *v, Scalar type, llvm::StringRef rounding) {
  if (v->type.element().scalar() == type) return v;
  ++operations;
  return b().cast(v, type, rounding);
}

//===-- two operands ----------------------------------------------------------------------------------------------===//

std::optional<Scalar> Elaborator::commonType(const Val &a, const Val &b, Loc loc, llvm::StringRef what) {
  auto name = [](Scalar s) { return ir::scalarName(s).str(); };
  if (a.isLiteral() != b.isLiteral()) {
    const Val &literal = a.isLiteral() ? a : b, &other = a.isLiteral() ? b : a;
    Scalar type = other.scalar();
    if (type == Scalar::I1) {
      error(Diag::ElMixBool, loc, what, "i1", describe(literal));
      return std::nullopt;
    }
    if (literal.isFloat() && ir::isInt(type)) {
      error(Diag::ElMixKind, loc, what, name(type), "a float literal", "f32");
      return std::nullopt;
    }
    return type;
  }
  if (a.isLiteral()) return a.isFloat() || b.isFloat() ? Scalar::F32 : Scalar::I32;
  Scalar x = a.scalar(), y = b.scalar();
  Promotion p = promote(x, y);
  switch (p.outcome) {
  case Promotion::Ok:
    return p.type;
  case Promotion::BoolMix:
    error(Diag::ElMixBool, loc, what, name(x), name(y));
    break;
  case Promotion::SignMix: {
    Scalar s = ir::isSignedInt(x) ? x : y, u = ir::isSignedInt(x) ? y : x;
    error(Diag::ElMixSign, loc, what, name(s), name(u));
    break;
  }
  case Promotion::KindMix: {
    Scalar i = ir::isInt(x) ? x : y, f = ir::isInt(x) ? y : x;
    error(Diag::ElMixKind, loc, what, name(i), name(f), name(f));
    break;
  }
  case Promotion::FormatMix:
    error(Diag::ElMixFormat, loc, what, name(x), name(y));
    break;
  }
  return std::nullopt;
}

std::optional<llvm::SmallVector<int64_t, 4>>
Elaborator::commonShape(llvm::ArrayRef<int64_t> a, llvm::ArrayRef<int64_t> b, Loc loc, llvm::StringRef what) {
  size_t rank = std::max(a.size(), b.size());
  llvm::SmallVector<int64_t, 4> out;
  for (size_t d = 0; d < rank; ++d) {
    int64_t x = d + a.size() < rank ? 1 : a[d + a.size() - rank];
    int64_t y = d + b.size() < rank ? 1 : b[d + b.size() - rank];
    if (x != y && x != 1 && y != 1) {
      error(Diag::ElShapes, loc, what, shapeText(a), shapeText(b), x, y, d);
      return std::nullopt;
    }
    out.push_back(std::max(x, y));
  }
  int64_t elements = 1;
  for (int64_t e : out) elements = std::min(elements * e, options.limits.tileElements + 1);
  if (elements > options.limits.tileElements) {
    error(Diag::ElTileSize, loc, shapeText(out), options.limits.tileElements);
    return std::nullopt;
  }
  return out;
}

ir::Value *Elaborator::broadcast(ir::Value *v, llvm::ArrayRef<int64_t> shape) {
  if (v->type.shape() == shape) return v;
  ++operations;
  if (!v->type.isTile()) {
    // A constant is made at its shape: one operation, and no splat in the way of a folding pass.
    ir::Op *def = v->def();
    if (def && def->is(ir::Opcode::Constant)) {
      ir::Type type = context.tile(v->type, shape);
      return v->type.isFloatLike() ? b().constantFloat(type, def->floatAttr(ir::Attr::value))
                                   : b().constant(type, def->intAttr(ir::Attr::value));
    }
    return b().splat(v, shape);
  }
  while (v->type.rank() < shape.size()) v = b().expandDims(v, 0);
  return v->type.shape() == shape ? v : b().broadcast(v, shape);
}

std::optional<std::pair<ir::Value *, ir::Value *>> Elaborator::unify(const Val &x, const Val &y, Loc loc,
                                                                     llvm::StringRef what) {
  if (x.isPoison() || y.isPoison()) return std::nullopt;
  for (const Val *v : {&x, &y})
    if (!v->isArithmetic()) return error(Diag::ElNotNumber, loc, what, describe(*v)), std::nullopt;
  auto type = commonType(x, y, loc, what);
  if (!type) return std::nullopt;
  auto shape = commonShape(x.shape(), y.shape(), loc, what);
  if (!shape) return std::nullopt;
  auto prepare = [&](const Val &v) -> ir::Value * {
    ir::Value *value;
    if (v.isLiteral())
      value = materializeAs(v, *type, loc, what);
    else if (v.isNumber())
      value = fits(v, v.scalar(), loc) ? materialize(convertConst(v, *type), loc) : nullptr;
    else
      value = v.v;
    // Converting before growing keeps the conversion on the smaller tile.
    return value ? broadcast(convert(value, *type), *shape) : nullptr;
  };
  ir::Value *a = prepare(x), *c = prepare(y);
  if (!a || !c) return std::nullopt;
  return std::pair(a, c);
}

} // namespace tlx::lang
