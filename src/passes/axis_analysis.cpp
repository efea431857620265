// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Transfer functions of axis analysis, and the fixpoint over loops.
#include "passes/axis_analysis.h"

#include <numeric>

#include "passes/axis_facts_p.h"

namespace tlx::passes {
using namespace ir;

namespace {

using Dims = llvm::SmallVector<int64_t, 4>;

int64_t saturatingProduct(int64_t a, int64_t b) {
  int64_t out;
  return __builtin_mul_overflow(a, b, &out) || out > kMaxDivisibility ? kMaxDivisibility : out;
}

/// The bytes that one step of the type is.
int64_t unitOf(Type t) {
  return t.isPointerLike() ? scalarBytes(t.element().scalar()) : 1;
}

/// The range of a type's numbers; all of int64_t where they do not fit (u64) or are no integers.
std::pair<int64_t, int64_t> typeRange(Type t) {
  if (!t.element().isScalar() || !isInt(t.scalar()) || t.scalar() == Scalar::U64) return {INT64_MIN, INT64_MAX};
  const unsigned bits = scalarBits(t.scalar());
  if (isUnsignedInt(t.scalar())) return {0, (int64_t(1) << bits) - 1};
  if (bits == 64) return {INT64_MIN, INT64_MAX};
  return {-(int64_t(1) << (bits - 1)), (int64_t(1) << (bits - 1)) - 1};
}

Dims extents(Type t) {
  if (!t.isTile()) return {1};
  return Dims(t.shape());
}

AxisInfo pessimistic(Type t) {
  const unsigned rank = t.isTile() ? t.rank() : 1;
  AxisInfo out;
  out.contiguity.assign(rank, 1);
  out.divisibility.assign(rank, 1);
  out.constancy.assign(rank, 1);
  std::tie(out.min, out.max) = typeRange(t);
  return out;
}

AxisInfo constantInfo(Type t, int64_t value) {
  AxisInfo out = pessimistic(t);
  out.divisibility.assign(out.rank(), powerOfTwoPart(value));
  out.constancy = extents(t);
  out.constant = value;
  if (t.scalar() != Scalar::U64) out.min = out.max = value;
  return out;
}

/// What divides the elements at multiples of `group` along d. Inside a group of contiguity c the elements are
/// start + i·unit, so a smaller group size keeps only its own factor; sizes that do not fit together keep nothing.
int64_t divisibilityAt(const AxisInfo &x, unsigned d, int64_t group, int64_t unit) {
  const int64_t c = x.contiguity[d];
  if (group % c == 0) return x.divisibility[d];
  return std::min(x.divisibility[d], powerOfTwoPart(std::gcd(group, c) * unit));
}
/// What divides every element: the best that a dimension can say.
int64_t divisibilityOfAll(const AxisInfo &x, int64_t unit) {
  int64_t best = 1;
  for (unsigned d = 0; d < x.rank(); ++d) best = std::max(best, divisibilityAt(x, d, 1, unit));
  return best;
}

AxisInfo meet(const AxisInfo &a, const AxisInfo &b, int64_t unit) {
  AxisInfo out = a;
  for (unsigned d = 0; d < a.rank(); ++d) {
    const int64_t c = out.contiguity[d] = std::gcd(a.contiguity[d], b.contiguity[d]);
    out.divisibility[d] = std::min(divisibilityAt(a, d, c, unit), divisibilityAt(b, d, c, unit));
    out.constancy[d] = std::gcd(a.constancy[d], b.constancy[d]);
  }
  if (a.constant != b.constant) out.constant.reset();
  out.min = std::min(a.min, b.min), out.max = std::max(a.max, b.max);
  return out;
}

struct Analyzer {
  const Module &module;
  llvm::DenseMap<const Value *, AxisInfo> &infos;
  const Refinements refinements;
  bool changed = false;
  unsigned sweep = 0;

  const AxisInfo &get(const Value *v) { return infos.find(v)->second; }

  AxisInfo refined(const Value *v, AxisInfo x) const {
    if (auto it = refinements.find(v); it != refinements.end()) {
      const Refinement &r = it->second;
      for (int64_t &d : x.divisibility) d = std::max(d, r.divisibility);
      x.min = std::max(x.min, r.min), x.max = std::min(x.max, r.max);
      if (x.min > x.max) x.min = x.max; // contradicting facts: the kernel never runs
    }
    if (x.min == x.max && v->type.isIntLike() && v->type.scalar() != Scalar::U64) x = constantInfo(v->type, x.min);
    return x;
  }

  void set(const Value *v, AxisInfo x) { infos.insert_or_assign(v, refined(v, std::move(x))); }

  /// Values that come around a loop only ever get worse from sweep to sweep; what does not settle soon is given up.
  void carry(const Value *v, const AxisInfo &x) {
    auto it = infos.find(v);
    if (it == infos.end()) return set(v, x);
    AxisInfo met = meet(it->second, x, unitOf(v->type));
    if (met == it->second) return;
    if (sweep > 2) std::tie(met.min, met.max) = typeRange(v->type); // ranges can grow for ever
    if (sweep > 16) met = pessimistic(v->type);
    met = refined(v, std::move(met));
    if (met == it->second) return;
    changed = true;
    it->second = std::move(met);
  }

  // --- transfer functions ---------------------------------------------------------------------------------------
  AxisInfo constancyOnly(const Op &op) {
    AxisInfo out = pessimistic(op.result()->type);
    Dims shape = extents(op.result()->type);
    for (unsigned d = 0; d < out.rank(); ++d) {
      int64_t k = shape[d];
      for (Value *v : op.operands())
        if (v->type.isTile()) k = std::gcd(k, get(v).constancy[d]);
      out.constancy[d] = k;
    }
    return out;
  }

  void rangeOf(AxisInfo &out, Type t, std::initializer_list<std::optional<int64_t>> corners) {
    const auto [lo, hi] = typeRange(t);
    if (t.scalar() == Scalar::U64) return;
    int64_t min = INT64_MAX, max = INT64_MIN;
    for (const std::optional<int64_t> &c : corners) {
      if (!c) return;
      min = std::min(min, *c), max = std::max(max, *c);
    }
    if (min >= lo && max <= hi) out.min = min, out.max = max;
  }

  AxisInfo addLike(const Op &op, bool subtract) {
    const AxisInfo &a = get(op.operand(0)), &b = get(op.operand(1));
    AxisInfo out = constancyOnly(op);
    const int64_t unit = unitOf(op.result()->type);
    for (unsigned d = 0; d < out.rank(); ++d) {
      int64_t c = std::gcd(a.contiguity[d], b.constancy[d]);
      if (!subtract) c = std::max(c, std::gcd(a.constancy[d], b.contiguity[d]));
      out.contiguity[d] = c;
      out.divisibility[d] =
          std::min(divisibilityAt(a, d, c, unit), saturatingProduct(divisibilityAt(b, d, c, 1), powerOfTwoPart(unit)));
    }
    if (op.is(Opcode::AddPtr)) return out;
    auto apply = [&](int64_t x, int64_t y) -> std::optional<int64_t> {
      int64_t r;
      if (subtract ? __builtin_sub_overflow(x, y, &r) : __builtin_add_overflow(x, y, &r)) return std::nullopt;
      return r;
    };
    rangeOf(out, op.result()->type,
            subtract ? std::initializer_list<std::optional<int64_t>>{apply(a.min, b.max), apply(a.max, b.min)}
                     : std::initializer_list<std::optional<int64_t>>{apply(a.min, b.min), apply(a.max, b.max)});
    return out;
  }

  AxisInfo mul(const Op &op, const AxisInfo &a, const AxisInfo &b) {
    AxisInfo out = constancyOnly(op);
    for (unsigned d = 0; d < out.rank(); ++d) {
      const bool keepA = b.constant == 1, keepB = a.constant == 1;
      if (keepA || keepB) { // x * 1 == x
        out.contiguity[d] = (keepA ? a : b).contiguity[d];
        out.divisibility[d] = (keepA ? a : b).divisibility[d];
      } else {
        out.divisibility[d] = saturatingProduct(divisibilityAt(a, d, 1, 1), divisibilityAt(b, d, 1, 1));
      }
    }
    auto times = [](int64_t x, int64_t y) -> std::optional<int64_t> {
      int64_t r;
      return __builtin_mul_overflow(x, y, &r) ? std::nullopt : std::optional(r);
    };
    rangeOf(out, op.result()->type,
            {times(a.min, b.min), times(a.min, b.max), times(a.max, b.min), times(a.max, b.max)});
    return out;
  }

  AxisInfo divFloor(const Op &op, const AxisInfo &a, const AxisInfo &b) {
    AxisInfo out = constancyOnly(op);
    const bool positive = b.min >= 0; // zero gives an undefined number, any claim holds
    for (unsigned d = 0; d < out.rank() && positive; ++d) {
      if (b.constant == 1) { // x / 1 == x
        out.contiguity[d] = a.contiguity[d], out.divisibility[d] = a.divisibility[d];
        continue;
      }
      // A run of g numbers from a multiple of g has one quotient by a multiple of g.
      const int64_t g =
          std::gcd(std::gcd(a.contiguity[d], b.constancy[d]), std::min(a.divisibility[d], divisibilityAt(b, d, 1, 1)));
      out.constancy[d] = std::max(out.constancy[d], g);
      if (b.constant && *b.constant > 0 && llvm::isPowerOf2_64(uint64_t(*b.constant)) &&
          *b.constant % a.contiguity[d] == 0)
        out.divisibility[d] = std::max<int64_t>(1, a.divisibility[d] / *b.constant);
    }
    if (b.min >= 1) {
      auto floored = [](int64_t x, int64_t y) { return x / y - (x % y < 0 ? 1 : 0); };
      rangeOf(out, op.result()->type,
              {floored(a.min, b.min), floored(a.min, b.max), floored(a.max, b.min), floored(a.max, b.max)});
    } else if (positive && a.min >= 0) {
      out.min = 0, out.max = a.max;
    }
    return out;
  }

  AxisInfo modFloor(const Op &op, const AxisInfo &a, const AxisInfo &b) {
    AxisInfo out = constancyOnly(op);
    const bool positive = b.min >= 0;
    for (unsigned d = 0; d < out.rank(); ++d) {
      int64_t c = 1;
      if (positive)
        c = std::gcd(std::gcd(a.contiguity[d], b.constancy[d]),
                     std::min(a.divisibility[d], divisibilityAt(b, d, 1, 1)));
      out.contiguity[d] = c;
      out.divisibility[d] = std::min(divisibilityAt(a, d, c, 1), divisibilityAt(b, d, 1, 1));
    }
    if (b.min >= 1) {
      const bool below = a.min >= 0 && a.max < b.min;
      rangeOf(out, op.result()->type, {below ? a.min : 0, a.min >= 0 ? std::min(a.max, b.max - 1) : b.max - 1});
    }
    return out;
  }

  AxisInfo cmp(const Op &op) {
    const AxisInfo &a = get(op.operand(0)), &b = get(op.operand(1));
    AxisInfo out = constancyOnly(op);
    const Pred pred = Pred(op.intAttr(Attr::pred));
    const int64_t unit = unitOf(op.operand(0)->type);
    // A run of g numbers from a multiple of g lies on one side of a multiple of g. `side`: run < limit or its opposite.
    auto run = [&](const AxisInfo &x, const AxisInfo &limit, bool side) {
      if (!side || op.operand(0)->type.isFloatLike()) return;
      for (unsigned d = 0; d < out.rank(); ++d) {
        const int64_t aligned = std::min(x.divisibility[d], divisibilityAt(limit, d, 1, unit)) / unit;
        if (aligned < 1) continue;
        out.constancy[d] = std::max(out.constancy[d], std::gcd(std::gcd(x.contiguity[d], limit.constancy[d]), aligned));
      }
    };
    run(a, b, pred == Pred::Lt || pred == Pred::Ge);
    run(b, a, pred == Pred::Gt || pred == Pred::Le);
    if (op.operand(0)->type.isIntLike() && op.operand(0)->type.scalar() != Scalar::U64)
      if (std::optional<bool> known = decide(pred, a, b)) return constantInfo(op.result()->type, *known);
    return out;
  }

  static std::optional<bool> decide(Pred pred, const AxisInfo &a, const AxisInfo &b) {
    switch (pred) {
    case Pred::Lt:
      if (a.max < b.min) return true;
      if (a.min >= b.max) return false;
      break;
    case Pred::Le:
      if (a.max <= b.min) return true;
      if (a.min > b.max) return false;
      break;
    case Pred::Gt:
      return decide(Pred::Lt, b, a);
    case Pred::Ge:
      return decide(Pred::Le, b, a);
    case Pred::Eq:
    case Pred::Ne:
      if (a.max < b.min || b.max < a.min) return pred == Pred::Ne;
      if (a.constant && a.constant == b.constant) return pred == Pred::Eq;
      break;
    }
    return std::nullopt;
  }

  AxisInfo select(const Op &op) {
    const AxisInfo &c = get(op.operand(0));
    const int64_t unit = unitOf(op.result()->type);
    if (c.constant) return get(op.operand(*c.constant ? 1 : 2));
    AxisInfo out = meet(get(op.operand(1)), get(op.operand(2)), unit);
    if (!op.operand(0)->type.isTile()) return out;
    for (unsigned d = 0; d < out.rank(); ++d) {
      const int64_t g = std::gcd(out.contiguity[d], c.constancy[d]);
      out.divisibility[d] = divisibilityAt(out, d, g, unit);
      out.contiguity[d] = g;
      out.constancy[d] = std::gcd(out.constancy[d], c.constancy[d]);
    }
    return out;
  }

  AxisInfo minMax(const Op &op, bool isMin) {
    const AxisInfo &a = get(op.operand(0)), &b = get(op.operand(1));
    AxisInfo out = constancyOnly(op);
    for (unsigned d = 0; d < out.rank(); ++d)
      out.divisibility[d] = std::min(divisibilityAt(a, d, 1, 1), divisibilityAt(b, d, 1, 1));
    out.min = isMin ? std::min(a.min, b.min) : std::max(a.min, b.min);
    out.max = isMin ? std::min(a.max, b.max) : std::max(a.max, b.max);
    return out;
  }

  AxisInfo bitwise(const Op &op) {
    const AxisInfo &a = get(op.operand(0)), &b = get(op.operand(1));
    AxisInfo out = constancyOnly(op);
    for (unsigned d = 0; d < out.rank(); ++d) {
      const int64_t x = divisibilityAt(a, d, 1, 1), y = divisibilityAt(b, d, 1, 1);
      out.divisibility[d] = op.is(Opcode::And) ? std::max(x, y) : std::min(x, y);
    }
    if (op.is(Opcode::And) && a.min >= 0)
      out.min = 0, out.max = b.min >= 0 ? std::min(a.max, b.max) : a.max;
    else if (op.is(Opcode::And) && b.min >= 0)
      out.min = 0, out.max = b.max;
    else if (a.min >= 0 && b.min >= 0)
      out.min = 0; // or, xor: no new sign
    return out;
  }

  AxisInfo shift(const Op &op) {
    const AxisInfo &b = get(op.operand(1));
    const Type t = op.result()->type;
    // x << s == x * 2^s, x >> s == floor(x / 2^s)
    if (b.constant && *b.constant >= 0 && *b.constant < std::min<int64_t>(scalarBits(t.scalar()), 62)) {
      const AxisInfo factor = constantInfo(t, int64_t(1) << *b.constant);
      return op.is(Opcode::Shl) ? mul(op, get(op.operand(0)), factor) : divFloor(op, get(op.operand(0)), factor);
    }
    AxisInfo out = constancyOnly(op);
    if (op.is(Opcode::Shr) && get(op.operand(0)).min >= 0) out.min = 0, out.max = get(op.operand(0)).max;
    return out;
  }

  AxisInfo cast(const Op &op) {
    const Value *x = op.operand(0);
    const AxisInfo &a = get(x);
    AxisInfo out = constancyOnly(op);
    const Type t = op.result()->type;
    if (!x->type.isIntLike() || !t.isIntLike()) return out;
    const auto [lo, hi] = typeRange(t);
    const bool fits = x->type.scalar() != Scalar::U64 && a.min >= lo && a.max <= hi;
    for (unsigned d = 0; d < out.rank(); ++d) {
      out.contiguity[d] = fits ? a.contiguity[d] : 1; // a run may wrap
      out.divisibility[d] = divisibilityAt(a, d, out.contiguity[d], 1);
    }
    if (t.scalar() == Scalar::I1) out.divisibility.assign(out.rank(), 1); // != 0, not the low bit
    if (fits && t.scalar() != Scalar::U64) out.min = a.min, out.max = a.max;
    if (fits) out.constant = a.constant;
    return out;
  }

  AxisInfo shape(const Op &op) {
    const Value *x = op.operand(0);
    const AxisInfo &a = get(x);
    const Type t = op.result()->type;
    const Dims to = extents(t), from = extents(x->type);
    const int64_t unit = unitOf(t);
    AxisInfo out = pessimistic(t);
    out.min = a.min, out.max = a.max, out.constant = a.constant;
    out.divisibility.assign(out.rank(), divisibilityOfAll(a, unit));
    switch (op.opcode) {
    case Opcode::Splat:
      out.constancy = to;
      break;
    case Opcode::ExpandDims:
      for (unsigned d = 0, s = 0; d < out.rank(); ++d) {
        if (d == unsigned(op.intAttr(Attr::axis))) continue;
        copyDim(out, d, a, s++);
      }
      break;
    case Opcode::Broadcast:
      for (unsigned d = 0; d < out.rank(); ++d) {
        copyDim(out, d, a, d);
        if (from[d] != to[d]) out.constancy[d] = to[d];
      }
      break;
    case Opcode::Trans:
      for (unsigned d = 0; d < out.rank(); ++d) copyDim(out, d, a, unsigned(op.listAttr(Attr::perm)[d]));
      break;
    case Opcode::Reshape: {
      // Runs along the last dimension are runs of the row-major order, as far as both last dimensions hold them.
      const unsigned last = out.rank() - 1, old = a.rank() - 1;
      out.contiguity[last] = std::gcd(a.contiguity[old], to[last]);
      out.divisibility[last] = std::max(out.divisibility[last], divisibilityAt(a, old, out.contiguity[last], unit));
      out.constancy[last] = std::gcd(a.constancy[old], to[last]);
      if (a.constancy == from) out.constancy = to;
      break;
    }
    case Opcode::Split:
      for (unsigned d = 0; d < out.rank(); ++d) copyDim(out, d, a, d);
      break;
    default: // ConvertLayout, RequireLayout
      return a;
    }
    return out;
  }
  static void copyDim(AxisInfo &to, unsigned d, const AxisInfo &from, unsigned s) {
    to.contiguity[d] = from.contiguity[s];
    to.divisibility[d] = std::max(to.divisibility[d], from.divisibility[s]);
    to.constancy[d] = from.constancy[s];
  }

  AxisInfo join(const Op &op) {
    const int64_t unit = unitOf(op.result()->type);
    const AxisInfo both = meet(get(op.operand(0)), get(op.operand(1)), unit);
    AxisInfo out = pessimistic(op.result()->type);
    out.divisibility.assign(out.rank(), divisibilityOfAll(both, unit));
    for (unsigned d = 0; d + 1 < out.rank(); ++d) copyDim(out, d, both, d);
    out.constant = both.constant, out.min = both.min, out.max = both.max;
    if (both.constant) out.constancy = extents(op.result()->type);
    return out;
  }

  AxisInfo multipleOf(const Op &op) {
    AxisInfo out = get(op.operand(0));
    for (int64_t &d : out.divisibility) d = std::max(d, powerOfTwoPart(op.listAttr(Attr::values)[0]));
    return out;
  }

  AxisInfo transfer(const Op &op) {
    const Type t = op.result()->type;
    using enum Opcode;
    switch (op.opcode) {
    case Constant:
      if (t.isIntLike()) return constantInfo(t, op.intAttr(Attr::value));
      return constancyOnly(op);
    case PerReplica: {
      AxisInfo out = constantInfo(t, op.listAttr(Attr::values)[0]);
      for (int64_t v : op.listAttr(Attr::values).drop_front()) out = meet(out, constantInfo(t, v), unitOf(t));
      return out;
    }
    case ProgramId:
    case NumPrograms: {
      // Grids have at most 2^31 - 1 by 65535 by 65535 programs.
      AxisInfo out = pessimistic(t);
      const bool id = op.is(ProgramId);
      out.min = id ? 0 : 1;
      out.max = (op.intAttr(Attr::axis) == 0 ? INT32_MAX : 65535) - (id ? 1 : 0);
      return out;
    }
    case Arange: {
      AxisInfo out = pessimistic(t);
      const int64_t start = op.intAttr(Attr::start), n = t.shape()[0];
      out.contiguity[0] = n;
      out.divisibility[0] = powerOfTwoPart(start);
      out.min = start, out.max = start + n - 1;
      return out;
    }
    case Splat:
    case ExpandDims:
    case Broadcast:
    case Reshape:
    case Trans:
    case Split:
    case ConvertLayout:
    case RequireLayout:
      return shape(op);
    case Join:
      return join(op);
    case Add:
    case AddPtr:
    case Sub:
      if (t.isFloatLike()) return constancyOnly(op);
      return addLike(op, op.is(Sub));
    case Mul:
      if (t.isFloatLike()) return constancyOnly(op);
      return mul(op, get(op.operand(0)), get(op.operand(1)));
    case DivFloor:
      return divFloor(op, get(op.operand(0)), get(op.operand(1)));
    case ModFloor:
      return modFloor(op, get(op.operand(0)), get(op.operand(1)));
    case CeilDiv: {
      AxisInfo out = constancyOnly(op);
      const AxisInfo &a = get(op.operand(0)), &b = get(op.operand(1));
      if (a.min >= 0 && b.min >= 1) {
        out.min = a.min > 0 ? 1 : 0;
        out.max = a.max / b.min + (a.max % b.min != 0);
      }
      return out;
    }
    case And:
    case Or:
    case Xor:
      return bitwise(op);
    case Shl:
    case Shr:
      return shift(op);
    case Min:
    case Max:
    case MinNan:
    case MaxNan:
      if (!t.isIntLike() || t.scalar() == Scalar::U64) return constancyOnly(op);
      return minMax(op, op.is(Min) || op.is(MinNan));
    case Cmp:
      return cmp(op);
    case Select:
      return select(op);
    case Cast:
      return cast(op);
    case MultipleOf:
      return multipleOf(op);
    default:
      return op.has(Elementwise) && op.has(Pure) ? constancyOnly(op) : pessimistic(t);
    }
  }

  // --- control --------------------------------------------------------------------------------------------------
  void loopIndex(const Op &op) {
    const AxisInfo &lo = get(op.operand(0)), &hi = get(op.operand(1)), &step = get(op.operand(2));
    AxisInfo out = pessimistic(op.operand(0)->type);
    out.divisibility[0] = std::min(lo.divisibility[0], step.divisibility[0]);
    if (op.operand(0)->type.scalar() != Scalar::U64) {
      // It does not overflow (ops.def): an upward loop stays between lo and hi - 1.
      if (step.min >= 1 && hi.max > INT64_MIN) out.min = lo.min, out.max = std::max(lo.min, hi.max - 1);
      if (step.max <= -1 && hi.min < INT64_MAX) out.max = lo.max, out.min = std::min(lo.max, hi.min + 1);
    }
    set(op.body().arg(0), out);
  }

  void control(const Op &op) {
    const Block &first = op.body(0);
    if (op.is(Opcode::For)) {
      loopIndex(op);
      for (unsigned i = 0; i < op.numResults(); ++i) carry(first.arg(1 + i), get(op.operand(3 + i)));
      block(first);
      for (unsigned i = 0; i < op.numResults(); ++i) {
        carry(first.arg(1 + i), get(first.terminator()->operand(i)));
        set(op.result(i), get(first.arg(1 + i)));
      }
    } else if (op.is(Opcode::While)) {
      const Block &second = op.body(1);
      for (unsigned i = 0; i < op.numOperands(); ++i) carry(first.arg(i), get(op.operand(i)));
      block(first);
      for (unsigned i = 0; i < op.numResults(); ++i) {
        set(second.arg(i), get(first.terminator()->operand(1 + i)));
        set(op.result(i), get(first.terminator()->operand(1 + i)));
      }
      block(second);
      for (unsigned i = 0; i < op.numOperands(); ++i) carry(first.arg(i), get(second.terminator()->operand(i)));
    } else if (op.is(Opcode::Single) || op.is(Opcode::AsyncTasks) || op.is(Opcode::Task)) {
      block(first);
    } else { // If
      block(first);
      block(op.body(1));
      for (unsigned i = 0; i < op.numResults(); ++i)
        set(op.result(i), meet(get(first.terminator()->operand(i)), get(op.body(1).terminator()->operand(i)),
                               unitOf(op.result(i)->type)));
    }
  }

  void block(const Block &b) {
    for (const Op &op : b) {
      if (op.has(Control)) {
        control(op);
        continue;
      }
      for (unsigned r = 0; r < op.numRegions(); ++r) { // reduce
        for (unsigned i = 0; i < op.body(r).numArgs(); ++i)
          set(op.body(r).arg(i), pessimistic(op.body(r).arg(i)->type));
        block(op.body(r));
      }
      if (op.numResults() == 1)
        set(op.result(), op.numRegions() ? pessimistic(op.result()->type) : transfer(op));
      else
        for (unsigned i = 0; i < op.numResults(); ++i)
          set(op.result(i), op.is(Opcode::Split) ? shape(op) : pessimistic(op.result(i)->type));
    }
  }

  void run() {
    const Block &body = module.kernel.body;
    for (unsigned i = 0; i < body.numArgs(); ++i) {
      AxisInfo x = pessimistic(body.arg(i)->type);
      // An access of a misaligned pointer is undefined, so every pointer is aligned to its element.
      x.divisibility[0] = unitOf(body.arg(i)->type);
      set(body.arg(i), std::move(x));
    }
    do {
      changed = false;
      block(body);
      ++sweep;
    } while (changed);
  }
};

std::string listText(llvm::ArrayRef<int64_t> list) {
  std::string out = "[";
  for (size_t i = 0; i < list.size(); ++i) out += (i ? ", " : "") + std::to_string(list[i]);
  return out + "]";
}

} // namespace

std::string AxisInfo::str() const {
  std::string out = "contiguity = " + listText(contiguity) + ", divisibility = " + listText(divisibility) +
                    ", constancy = " + listText(constancy);
  if (constant) return out + ", constant = " + std::to_string(*constant);
  if (min != INT64_MIN || max != INT64_MAX) out += ", range = " + listText({min, max});
  return out;
}

AxisAnalysis::AxisAnalysis(const Module &module) {
  Analyzer{module, infos, collectRefinements(module)}.run();
}

const AxisInfo &AxisAnalysis::info(const Value *v) const {
  if (auto it = infos.find(v); it != infos.end()) return it->second;
  std::unique_ptr<AxisInfo> &slot = unknown[v];
  if (!slot) slot = std::make_unique<AxisInfo>(pessimistic(v->type));
  return *slot;
}

int64_t AxisAnalysis::prefix(const Value *mask, unsigned d) const {
  const Op *op = mask->def();
  int64_t best = powerOfTwoPart(info(mask).constancy[d]);
  if (!op) return best;
  auto inner = [&](unsigned operand, unsigned dim) { best = std::max(best, prefix(op->operand(operand), dim)); };
  switch (op->opcode) {
  case Opcode::And: // of two prefixes the shorter
    best = std::max(best, std::min(prefix(op->operand(0), d), prefix(op->operand(1), d)));
    break;
  case Opcode::Cmp: {
    const Pred pred = Pred(op->intAttr(Attr::pred));
    if (!op->operand(0)->type.isIntLike() || pred == Pred::Eq || pred == Pred::Ne) break;
    const bool less = pred == Pred::Lt || pred == Pred::Le;
    const AxisInfo &x = info(op->operand(less ? 0 : 1)), &limit = info(op->operand(less ? 1 : 0));
    // Rising numbers are below a limit up to some point, if none wraps: the run starts at a multiple of its length.
    const int64_t run = std::gcd(powerOfTwoPart(x.contiguity[d]), powerOfTwoPart(limit.constancy[d]));
    best = std::max(best, std::min(run, x.divisibility[d]));
    break;
  }
  case Opcode::ExpandDims: {
    const unsigned axis = unsigned(op->intAttr(Attr::axis));
    if (axis != d) inner(0, d - (d > axis));
    break;
  }
  case Opcode::Broadcast:
    if (op->operand(0)->type.shape()[d] == mask->type.shape()[d]) inner(0, d);
    break;
  case Opcode::Trans:
    inner(0, unsigned(op->listAttr(Attr::perm)[d]));
    break;
  case Opcode::ConvertLayout:
  case Opcode::RequireLayout:
    inner(0, d);
    break;
  default:
    break;
  }
  return best;
}

unsigned AxisAnalysis::width(const Op &access, bool prefixes) const {
  const Value *pointer = access.operand(access.is(Opcode::AsyncCopy) ? 1 : 0);
  const unsigned mask = access.is(Opcode::Load) ? 1 : 2;
  const Type t = pointer->type;
  if (!t.isTile()) return 1;
  const AxisInfo &p = info(pointer);
  const unsigned bytes = scalarBytes(t.element().scalar());
  const int64_t limit = std::max(1u, 16 / bytes);
  int64_t best = 1;
  for (unsigned d = 0; d < t.rank(); ++d) {
    int64_t v = std::min(limit, powerOfTwoPart(p.contiguity[d]));
    v = std::min(v, std::max<int64_t>(1, p.divisibility[d] / bytes));
    if (access.numOperands() > mask) {
      const Value *m = access.operand(mask);
      v = std::min(v, prefixes ? prefix(m, d) : powerOfTwoPart(info(m).constancy[d]));
    }
    if (t.layout()) v = std::min<int64_t>(v, layout::contiguousRegisters(*t.layout(), d, unsigned(v)));
    best = std::max(best, v);
  }
  return unsigned(best);
}

std::string printAxis(const Module &module) {
  const AxisAnalysis analysis(module);
  std::string out;
  std::function<void(const Block &, unsigned)> walk = [&](const Block &b, unsigned indent) {
    auto show = [&](const Value *v, const std::string &name) {
      if (!v->type.isIntLike() && !v->type.isPointerLike()) return;
      out += std::string(indent, ' ') + name + ": " + v->type.str() + " " + analysis.info(v).str() + "\n";
    };
    for (unsigned i = 0; i < b.numArgs(); ++i)
      show(b.arg(i), "arg " + (b.arg(i)->name.empty() ? std::to_string(i) : b.arg(i)->name));
    for (const Op &op : b) {
      const std::string text = print(op);
      llvm::StringRef line = llvm::StringRef(text).split('\n').first;
      if (op.numResults() && !op.numRegions()) line = line.split(" : ").first;
      for (unsigned i = 0; i < op.numResults(); ++i) show(op.result(i), (i ? "  and " : "") + line.str());
      if (op.is(Opcode::Load) || op.is(Opcode::Store) || op.is(Opcode::AtomicRmw) || op.is(Opcode::AsyncCopy))
        out += std::string(indent, ' ') + line.str() + ": vector " + std::to_string(analysis.vectorWidth(op)) + "\n";
      for (unsigned r = 0; r < op.numRegions(); ++r) walk(op.body(r), indent + 2);
    }
  };
  walk(module.kernel.body, 0);
  return out;
}

} // namespace tlx::passes
