// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Scalar semantics: conversions between all number types, integers, floats. The kernels run on the simulator, one
// element a register.
#include "testing.h"

#include <cmath>
#include <random>

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/APSInt.h"

using namespace tlx;
using namespace tlx::codegen_test;
using llvm::APFloat;
using llvm::APInt;
using llvm::APSInt;

namespace {

using Bits = std::vector<uint64_t>; // one element each, in the low bits

std::vector<uint8_t> toBytes(const Bits &values, Scalar s) {
  const unsigned bytes = ir::scalarBytes(s);
  std::vector<uint8_t> out(values.size() * bytes);
  for (size_t i = 0; i < values.size(); ++i) std::memcpy(&out[i * bytes], &values[i], bytes);
  return out;
}
Bits fromBytes(const std::vector<uint8_t> &data, Scalar s) {
  const unsigned bytes = ir::scalarBytes(s);
  Bits out(data.size() / bytes);
  for (size_t i = 0; i < out.size(); ++i) std::memcpy(&out[i], &data[i * bytes], bytes);
  return out;
}

/// Applies `make` elementwise to inputs of the same length, which is padded to whole programs of 256 elements.
Bits apply(const char *target, std::vector<std::pair<Scalar, Bits>> inputs, Scalar to,
           const std::function<Value *(ir::Builder &, std::vector<Value *>)> &make) {
  TestKernel k(target);
  const size_t n = inputs[0].second.size(), programs = (n + 255) / 256;
  std::vector<Value *> pointers;
  for (auto &[s, values] : inputs) pointers.push_back(k.pointer(s)), values.resize(programs * 256, values.back());
  Value *out = k.pointer(to);
  const TileLayout *l = k.rows({256}, 4);
  Value *at =
      k.b.binary(Opcode::Add, k.index(l), k.splat(k.b.binary(Opcode::Mul, k.b.programId(0), k.b.constI32(256)), l));
  std::vector<Value *> loaded;
  for (Value *p : pointers) loaded.push_back(k.b.load(k.b.addptr(k.splat(p, l), at)));
  k.b.store(k.b.addptr(k.splat(out, l), at), make(k.b, loaded));

  sim::Memory memory;
  std::vector<uint8_t> buffer;
  for (auto &[s, values] : inputs) {
    auto p = params(upload(memory, toBytes(values, s)));
    buffer.insert(buffer.end(), p.begin(), p.end());
  }
  uint8_t *result = upload(memory, std::vector<uint8_t>(programs * 256 * ir::scalarBytes(to)));
  auto p = params(result);
  buffer.insert(buffer.end(), p.begin(), p.end());
  checkRan(k.run(memory, buffer, unsigned(programs)));
  Bits all = fromBytes(download(memory, result, programs * 256 * ir::scalarBytes(to)), to);
  all.resize(n);
  return all;
}

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

/// The conversion of the language, by LLVM's software floats. NaN results come back as nullopt: any NaN will do.
std::optional<uint64_t> reference(uint64_t bits, Scalar from, Scalar to, bool towardZero) {
  const unsigned width = ir::scalarBits(to);
  const auto mode = towardZero ? APFloat::rmTowardZero : APFloat::rmNearestTiesToEven;
  auto mask = [&](uint64_t v) { return width == 64 ? v : v & ((uint64_t(1) << width) - 1); };
  auto finish = [&](APFloat f) -> std::optional<uint64_t> {
    bool inexact;
    if (f.isNaN()) return std::nullopt;
    if (ir::isFp8(to)) {
      APFloat most = APFloat::getLargest(semantics(to), f.isNegative()), wide = most;
      wide.convert(f.getSemantics(), APFloat::rmNearestTiesToEven, &inexact);
      if (abs(f).compare(abs(wide)) != APFloat::cmpLessThan) return most.bitcastToAPInt().getZExtValue();
    }
    f.convert(semantics(to), mode, &inexact);
    return f.bitcastToAPInt().getZExtValue();
  };
  if (ir::isInt(from)) {
    const unsigned w = ir::scalarBits(from);
    APSInt v(APInt(w, bits, false, true), !ir::isSignedInt(from));
    if (to == Scalar::I1) return v != 0;
    if (ir::isInt(to)) return mask(v.extOrTrunc(64).getZExtValue());
    APFloat f(APFloat::IEEEquad());
    f.convertFromAPInt(v, v.isSigned(), APFloat::rmNearestTiesToEven); // exact
    return finish(f);
  }
  APFloat f(semantics(from), APInt(ir::scalarBits(from), bits, false, true));
  if (!ir::isInt(to)) {
    bool inexact;
    f.convert(APFloat::IEEEquad(), APFloat::rmNearestTiesToEven, &inexact);
    return finish(f);
  }
  if (to == Scalar::I1) return !f.isNaN() && f.isNonZero();
  if (f.isNaN()) return 0;
  APSInt v(width, !ir::isSignedInt(to));
  bool exact;
  f.convertToInteger(v, APFloat::rmTowardZero, &exact); // saturates
  return mask(v.extOrTrunc(64).getZExtValue());
}

Bits samples(Scalar s, size_t n, unsigned seed) {
  const unsigned bits = ir::scalarBits(s);
  Bits out;
  if (bits <= 8) {
    for (unsigned i = 0; i < 1u << bits; ++i) out.push_back(i);
    return out;
  }
  std::mt19937_64 random(seed);
  const uint64_t all = bits == 64 ? ~uint64_t(0) : (uint64_t(1) << bits) - 1;
  if (ir::isInt(s)) {
    for (uint64_t v : {uint64_t(0), uint64_t(1), all, all >> 1, (all >> 1) + 1, uint64_t(0xffff), uint64_t(65520),
                       uint64_t(0x1000001), uint64_t(0x1010001)})
      out.push_back(v & all);
    while (out.size() < n) out.push_back(random() & all >> random() % bits);
    return out;
  }
  // Values around those of narrower types, where rounding decides, and any bits.
  bool inexact;
  while (out.size() < n) {
    const Scalar narrow[] = {Scalar::F8E4M3, Scalar::F8E5M2, Scalar::F8E5M2FNUZ,
                             Scalar::F16,    Scalar::BF16,   Scalar::F32};
    Scalar t = narrow[random() % 6];
    if (ir::scalarBits(t) >= bits || random() % 4 == 0) {
      out.push_back(random() & all);
      continue;
    }
    APFloat f(semantics(t), APInt(ir::scalarBits(t), random(), false, true));
    f.convert(semantics(s), APFloat::rmNearestTiesToEven, &inexact);
    APFloat next = APFloat(semantics(t), APInt(ir::scalarBits(t), f.isNaN() ? 0 : 1, false, true));
    uint64_t v = f.bitcastToAPInt().getZExtValue();
    // Half a step of the narrow type up, and one unit of the wide one to either side.
    const unsigned drop = APFloat::semanticsPrecision(semantics(s)) - APFloat::semanticsPrecision(semantics(t));
    if (random() % 2) v += uint64_t(1) << (drop - 1);
    v += random() % 3 - 1;
    out.push_back(v & all);
  }
  return out;
}

bool isNanBits(uint64_t bits, Scalar s) {
  return APFloat(semantics(s), APInt(ir::scalarBits(s), bits, false, true)).isNaN();
}

void checkCast(const char *target, Scalar from, Scalar to, const Bits &in, bool towardZero) {
  Bits out = apply(target, {{from, in}}, to,
                   [&](ir::Builder &b, std::vector<Value *> v) { return b.cast(v[0], to, towardZero ? "rtz" : ""); });
  unsigned shown = 0;
  for (size_t i = 0; i < in.size() && shown < 3; ++i) {
    std::optional<uint64_t> want = reference(in[i], from, to, towardZero);
    const bool same = want ? out[i] == *want : isNanBits(out[i], to);
    if (same) continue;
    ++shown;
    FAIL_CHECK(ir::scalarName(from).str()
               << " -> " << ir::scalarName(to).str() << (towardZero ? " rtz" : "") << ": bits " << in[i] << " gave "
               << out[i] << ", not " << (want ? std::to_string(*want) : "NaN"));
  }
}

std::vector<Scalar> allScalars() {
  std::vector<Scalar> all;
  for (unsigned i = 0; i < ir::kScalars; ++i) all.push_back(Scalar(i));
  return all;
}

double asDouble(uint64_t bits, Scalar s) {
  APFloat f(semantics(s), APInt(ir::scalarBits(s), bits, false, true));
  bool inexact;
  f.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &inexact);
  return f.convertToDouble();
}
uint64_t bitsOf(double v, Scalar s) {
  APFloat f(v);
  bool inexact;
  f.convert(semantics(s), APFloat::rmNearestTiesToEven, &inexact);
  return f.bitcastToAPInt().getZExtValue();
}

} // namespace

TEST_CASE("conversions between all number types") {
  for (Scalar from : allScalars())
    for (Scalar to : allScalars()) {
      if (from == to) continue;
      checkCast("sm_80", from, to, samples(from, 1024, unsigned(from) * 17 + unsigned(to)), false);
      if (ir::isFloat(to)) checkCast("gfx942", from, to, samples(from, 512, unsigned(from) * 31 + unsigned(to)), true);
    }
}

TEST_CASE("fp8 from every f16, both roundings") {
  Bits all;
  for (unsigned i = 0; i < 65536; ++i) all.push_back(i);
  for (Scalar to : {Scalar::F8E4M3, Scalar::F8E5M2, Scalar::F8E4M3FNUZ, Scalar::F8E5M2FNUZ})
    for (bool rtz : {false, true}) checkCast("sm_80", Scalar::F16, to, all, rtz);
}

TEST_CASE("division and shifts of all 8-bit integers") {
  Bits x, y;
  for (unsigned i = 0; i < 256; ++i)
    for (unsigned j = 0; j < 256; ++j) x.push_back(i), y.push_back(j);
  for (Scalar s : {Scalar::I8, Scalar::U8}) {
    const bool isSigned = s == Scalar::I8;
    auto wide = [&](uint64_t v) { return isSigned ? int(int8_t(v)) : int(uint8_t(v)); };
    auto check = [&](Opcode op, const std::function<std::optional<int>(int, int)> &want) {
      Bits out = apply("sm_80", {{s, x}, {s, y}}, s,
                       [&](ir::Builder &b, std::vector<Value *> v) { return b.binary(op, v[0], v[1]); });
      unsigned bad = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        std::optional<int> w = want(wide(x[i]), wide(y[i]));
        if (w && uint8_t(*w) != out[i] && bad++ < 3)
          FAIL_CHECK(ir::info(op).name << " " << wide(x[i]) << ", " << wide(y[i]) << " gave " << wide(out[i])
                                       << ", not " << *w);
      }
    };
    auto floorDiv = [](int a, int b) { return int(std::floor(double(a) / b)); };
    check(Opcode::DivFloor, [&](int a, int b) { return b ? std::optional(floorDiv(a, b)) : std::nullopt; });
    check(Opcode::ModFloor, [&](int a, int b) { return b ? std::optional(a - floorDiv(a, b) * b) : std::nullopt; });
    check(Opcode::CeilDiv,
          [&](int a, int b) { return b ? std::optional(int(std::ceil(double(a) / b))) : std::nullopt; });
    check(Opcode::Shl, [&](int a, int b) { return unsigned(b) < 8 ? a << b : 0; });
    check(Opcode::Shr, [&](int a, int b) { return unsigned(b) < 8 ? a >> b : a < 0 ? -1 : 0; });
    check(Opcode::Mul, [&](int a, int b) { return a * b; });
    check(Opcode::Min, [&](int a, int b) { return std::min(a, b); });
    check(Opcode::Max, [&](int a, int b) { return std::max(a, b); });
  }
}

TEST_CASE("division by constants") {
  Bits x = samples(Scalar::I32, 512, 5);
  for (int64_t d : {1, 2, 7, 64, 1 << 30, -1, -2, -7, INT32_MIN})
    for (Opcode op : {Opcode::DivFloor, Opcode::ModFloor, Opcode::CeilDiv}) {
      Bits out = apply("sm_80", {{Scalar::I32, x}}, Scalar::I32, [&](ir::Builder &b, std::vector<Value *> v) {
        return b.binary(op, v[0], b.constant(v[0]->type, d));
      });
      for (size_t i = 0; i < x.size(); ++i) {
        const int64_t a = int32_t(x[i]);
        int64_t q = a / d - ((a % d != 0) && ((a < 0) != (d < 0)));
        int64_t want = op == Opcode::DivFloor ? q : op == Opcode::ModFloor ? a - q * d : q + (a % d != 0);
        CHECK(int32_t(out[i]) == int32_t(want));
      }
    }
}

TEST_CASE("minimum, maximum and comparisons with NaN") {
  const double nan = std::nan(""), inf = INFINITY;
  const double values[] = {nan, -inf, -1, 0, 2, inf};
  for (Scalar s : {Scalar::F16, Scalar::BF16, Scalar::F32, Scalar::F64}) {
    Bits x, y;
    for (double a : values)
      for (double c : values) x.push_back(bitsOf(a, s)), y.push_back(bitsOf(c, s));
    for (Opcode op : {Opcode::Min, Opcode::Max, Opcode::MinNan, Opcode::MaxNan}) {
      Bits out = apply("sm_80", {{s, x}, {s, y}}, s,
                       [&](ir::Builder &b, std::vector<Value *> v) { return b.binary(op, v[0], v[1]); });
      for (size_t i = 0; i < x.size(); ++i) {
        const double a = asDouble(x[i], s), c = asDouble(y[i], s);
        const bool min = op == Opcode::Min || op == Opcode::MinNan,
                   propagates = op == Opcode::MinNan || op == Opcode::MaxNan;
        const double want = propagates && (std::isnan(a) || std::isnan(c)) ? nan
                            : min                                          ? std::fmin(a, c)
                                                                           : std::fmax(a, c);
        const double got = asDouble(out[i], s);
        CHECK((got == want || (std::isnan(got) && std::isnan(want))));
      }
    }
    for (ir::Pred p : {ir::Pred::Eq, ir::Pred::Ne, ir::Pred::Lt, ir::Pred::Le, ir::Pred::Gt, ir::Pred::Ge}) {
      Bits out = apply("sm_80", {{s, x}, {s, y}}, Scalar::I1,
                       [&](ir::Builder &b, std::vector<Value *> v) { return b.cmp(p, v[0], v[1]); });
      for (size_t i = 0; i < x.size(); ++i) {
        const double a = asDouble(x[i], s), c = asDouble(y[i], s);
        const bool want = p == ir::Pred::Eq   ? a == c
                          : p == ir::Pred::Ne ? a != c
                          : p == ir::Pred::Lt ? a < c
                          : p == ir::Pred::Le ? a <= c
                          : p == ir::Pred::Gt ? a > c
                                              : a >= c;
        CHECK(bool(out[i]) == want);
      }
    }
  }
}

TEST_CASE("functions: error bounds and special values") {
  struct Function {
    Opcode op;
    double (*exact)(double);
    double lo, hi;
  };
  const Function functions[] = {
      {Opcode::Exp, std::exp, -700, 700},     {Opcode::Exp2, std::exp2, -1000, 1000},
      {Opcode::Log, std::log, 1e-300, 1e300}, {Opcode::Log2, std::log2, 1e-300, 1e300},
      {Opcode::Sqrt, std::sqrt, 0, 1e300},    {Opcode::Rsqrt, [](double x) { return 1 / std::sqrt(x); }, 1e-300, 1e300},
      {Opcode::Floor, std::floor, -100, 100}, {Opcode::Ceil, std::ceil, -100, 100},
      {Opcode::Abs, std::fabs, -100, 100}};
  std::mt19937_64 random(3);
  for (const Function &f : functions)
    for (Scalar s : {Scalar::F64, Scalar::F32, Scalar::F16, Scalar::BF16}) {
      const bool logarithmic = f.hi > 1e200;
      Bits x;
      for (double v : {0.0, 1.0, 2.0, 0.5, 1.5, double(INFINITY), -double(INFINITY), std::nan(""), -1.0})
        x.push_back(bitsOf(v, s));
      while (x.size() < 256) {
        double u = std::uniform_real_distribution<double>(0, 1)(random), v;
        const double shrink = s == Scalar::F64 ? 1 : s == Scalar::F16 ? 1.0 / 80 : 1.0 / 8.5;
        if (logarithmic)
          v = u < 0.3 ? 0.5 + 2 * u
                      : std::pow(10.0, (u * 600 - 300) * (s == Scalar::F64   ? 1
                                                          : s == Scalar::F16 ? 0.012
                                                                             : 0.12));
        else
          v = (f.lo + u * (f.hi - f.lo)) * (f.hi > 100 ? shrink : 1);
        x.push_back(bitsOf(v, s));
      }
      Bits out =
          apply("sm_80", {{s, x}}, s, [&](ir::Builder &b, std::vector<Value *> v) { return b.unary(f.op, v[0]); });
      const int digits = int(APFloat::semanticsPrecision(semantics(s)));
      for (size_t i = 0; i < x.size(); ++i) {
        const double a = asDouble(x[i], s), want = asDouble(bitsOf(f.exact(a), s), s), got = asDouble(out[i], s);
        CAPTURE(ir::info(f.op).name);
        CAPTURE(ir::scalarName(s).str());
        CAPTURE(a);
        CAPTURE(want);
        CAPTURE(got);
        if (std::isnan(want)) {
          CHECK(std::isnan(got));
        } else if (std::isinf(want) || want == 0) {
          CHECK(got == want);
        } else {
          const double ulp = std::ldexp(1.0, std::ilogb(want) - digits + 1);
          double bound = 2.01 * ulp;
          if (s == Scalar::F32 && f.op == Opcode::Exp) bound += std::fabs(want * a) * 0x1p-22;
          if (s == Scalar::F32 && (f.op == Opcode::Log || f.op == Opcode::Log2)) bound += 0x1p-21;
          if (s == Scalar::F64 && (f.op == Opcode::Log || f.op == Opcode::Log2)) bound += 0x1p-60;
          CHECK(std::fabs(got - want) <= bound);
        }
      }
    }
}

TEST_CASE("both back ends select every operation on every type") {
  for (const char *target : kTargets)
    for (Scalar s : allScalars()) {
      if (s == Scalar::I1) continue;
      CAPTURE(target);
      CAPTURE(ir::scalarName(s).str());
      TestKernel k(target);
      Value *p = k.pointer(s), *q = k.pointer(s), *flags = k.pointer(Scalar::I1);
      const TileLayout *l = k.rows({256}, 4);
      Value *x = k.loadTile(p, l), *y = k.loadTile(q, l), *v = x;
      ir::Builder &b = k.b;
      std::vector<Opcode> ops = {Opcode::Add, Opcode::Sub,    Opcode::Mul,   Opcode::Min,
                                 Opcode::Max, Opcode::MinNan, Opcode::MaxNan};
      if (ir::isInt(s))
        ops.insert(ops.end(), {Opcode::DivFloor, Opcode::ModFloor, Opcode::CeilDiv, Opcode::And, Opcode::Or,
                               Opcode::Xor, Opcode::Shl, Opcode::Shr});
      else
        ops.push_back(Opcode::Div);
      for (Opcode op : ops) v = b.binary(op, v, y);
      v = b.unary(Opcode::Abs, b.unary(Opcode::Neg, v));
      if (ir::isFloat(s)) {
        for (Opcode op : {Opcode::Exp, Opcode::Exp2, Opcode::Log, Opcode::Log2, Opcode::Sqrt, Opcode::Rsqrt,
                          Opcode::Floor, Opcode::Ceil})
          v = b.unary(op, v);
        v = b.fma(v, x, y);
        v = b.binary(Opcode::Div, v, x);
        v->def()->setAttr(ir::Attr::precise, int64_t(1));
      }
      for (Scalar to : allScalars()) v = b.select(b.cmp(ir::Pred::Lt, b.cast(b.cast(v, to), s), y), v, x);
      for (Scalar to : allScalars())
        if (ir::isFloat(to)) v = b.select(b.cmp(ir::Pred::Lt, b.cast(b.cast(v, to, "rtz"), s), y), v, x);
      k.storeTile(q, v);
      k.storeTile(flags, b.cmp(ir::Pred::Ne, x, y), 4);
      if (!ir::isFp8(s)) b.atomicAdd(b.addptr(k.splat(p, l), k.index(l)), v);
      CHECK(k.assembly().size() > 1000);
    }
}
