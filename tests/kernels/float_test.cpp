// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Floating-point arithmetic, minima, mathematics and where, against references in float64 that are rounded once.
#include "operations.h"

using namespace operations;

namespace {
const char *const kFloats[] = {"f16", "bf16", "f32", "f64"};

std::vector<double> edges(const Type &t) {
  double least = floatOf(t, 1), normal = std::ldexp(1.0, 1 - t.bias), most = limitOf(t);
  return {0.0,       -0.0, 1,    -1,    0.5,   1.5,    -2.5,   3,       1e-3,          -100.25, INFINITY,
          -INFINITY, NAN,  most, -most, least, -least, normal, -normal, normal * 0.75, most / 2};
}
void operands(const Type &t, Rng &rng, Array &a, Array &b) {
  auto e = edges(t);
  for (size_t i = 0; i < a.count; ++i) {
    if (i < e.size() * e.size())
      a.set(i, e[i / e.size()]), b.set(i, e[i % e.size()]);
    else if (i % 2)
      a.set(i, rng.normal()), b.set(i, rng.normal());
    else
      a.setRaw(i, rng.next() & maskOf(t)), b.setRaw(i, rng.next() & maskOf(t));
  }
}
/// a·b + c to odd: a second rounding to fewer bits is then right.
double fmaOdd(double a, double b, double c) {
  double p = a * b, s = p + c; // exact product: the operands have at most 24 bits
  if (!std::isfinite(s)) return s;
  double bb = s - p, error = (p - (s - bb)) + (c - bb);
  uint64_t raw;
  std::memcpy(&raw, &s, 8);
  if (error != 0 && !(raw & 1)) s = std::nextafter(s, error > 0 ? INFINITY : -INFINITY);
  return s;
}
double lesser(double a, double b) {
  return std::isnan(a) ? b : std::isnan(b) ? a : std::min(a, b);
}
double greater(double a, double b) {
  return std::isnan(a) ? b : std::isnan(b) ? a : std::max(a, b);
}
double nanOr(double a, double b, double v) {
  return std::isnan(a) || std::isnan(b) ? NAN : v;
}

struct Op {
  const char *text;
  std::function<double(double, double)> value;
};
/// Zeros of either sign are the same to a minimum.
bool zerosEqual(const std::string &text) {
  return text.find("imum") != std::string::npos;
}
} // namespace

TEST_CASE("floats: arithmetic, minima, selection") {
  const std::vector<Op> ops = {{"$a + $b", [](double a, double b) { return a + b; }},
                               {"$a - $b", [](double a, double b) { return a - b; }},
                               {"$a * $b", [](double a, double b) { return a * b; }},
                               {"-$a", [](double a, double) { return -a; }},
                               {"abs($a)", [](double a, double) { return std::fabs(a); }},
                               {"floor($a)", [](double a, double) { return std::floor(a); }},
                               {"ceil($a)", [](double a, double) { return std::ceil(a); }},
                               {"minimum($a, $b)", lesser},
                               {"maximum($a, $b)", greater},
                               {"minimum_nan($a, $b)", [](double a, double b) { return nanOr(a, b, std::min(a, b)); }},
                               {"maximum_nan($a, $b)", [](double a, double b) { return nanOr(a, b, std::max(a, b)); }},
                               {"where($a < $b, $a, $b)", [](double a, double b) { return a < b ? a : b; }},
                               {"($a < $b).to($T)", [](double a, double b) { return a < b; }},
                               {"($a <= $b).to($T)", [](double a, double b) { return a <= b; }},
                               {"($a > $b).to($T)", [](double a, double b) { return a > b; }},
                               {"($a >= $b).to($T)", [](double a, double b) { return a >= b; }},
                               {"($a == $b).to($T)", [](double a, double b) { return a == b; }},
                               {"($a != $b).to($T)", [](double a, double b) { return a != b; }},
                               {"(!($a < $b)).to($T)", [](double a, double b) { return !(a < b); }}};
  constexpr size_t kCount = 768;
  for (const char *name : kFloats)
    for (bool scalar : {false, true}) {
      const Type &t = typeOf(name);
      Rng rng(t.mantissa);
      Array a(name, kCount), b(name, kCount), out(name, kCount * ops.size());
      operands(t, rng, a, b);
      std::string text =
          replace("kernel k(a: *$T, b: *$T, o: *$T) launch(num_warps = $W) {\n  let i = $I;\n  let (va, vb) = (load(a "
                  "+ i), load(b + i));\n",
                  {{"T", name}, {"I", scalar ? "program_id(0)" : "arange(0, 768)"}, {"W", scalar ? "1" : "4"}});
      std::vector<uint64_t> want;
      for (size_t k = 0; k < ops.size(); ++k) {
        std::string operation = ops[k].text;
        if (!scalar && operation[1] == '!') operation = "(~($a < $b)).to($T)";
        text += "  store(o + (" + std::to_string(k * kCount) + " + i), " +
                replace(operation, {{"a", "va"}, {"b", "vb"}, {"T", name}}) + ");\n";
        for (size_t i = 0; i < kCount; ++i)
          want.push_back(floatBits(t, roundTo(t, ops[k].value(a.value(i), b.value(i)))));
      }
      Job job{text + "}\n", {}, {&a, &b}, {&out}, {}};
      if (scalar) job.grid = {kCount};
      job.inOrderOnly = true;
      execute(job, [&](const std::string &where) {
        for (size_t k = 0; k < ops.size(); ++k)
          if (zerosEqual(ops[k].text))
            for (size_t i = k * kCount; i < (k + 1) * kCount; ++i)
              if (out.value(i) == 0 && floatOf(t, want[i]) == 0) out.setRaw(i, want[i]);
        expectBits(out, want, where + " " + name + (scalar ? " scalar" : ""));
      });
    }
}

TEST_CASE("floats: no contraction, fma rounds once") {
  constexpr size_t kCount = 1024;
  for (const char *name : kFloats) {
    const Type &t = typeOf(name);
    Rng rng(50 + t.mantissa);
    Array a(name, kCount), b(name, kCount), c(name, kCount), out(name, kCount * 3);
    for (size_t i = 0; i < kCount; ++i) {
      a.set(i, rng.normal()), b.set(i, rng.normal());
      c.set(i, i % 2 ? -a.value(i) * b.value(i) : rng.normal()); // cancels: what remains is the rounding
    }
    for (size_t i = 0; i < 21; ++i)
      a.set(i, edges(t)[i]), b.set(i, edges(t)[(i * 5) % 21]), c.set(i, edges(t)[(i * 8) % 21]);
    std::vector<uint64_t> want(kCount * 3);
    for (size_t i = 0; i < kCount; ++i) {
      double x = a.value(i), y = b.value(i), z = c.value(i);
      want[i] = floatBits(t, roundTo(t, t.bits == 64 ? std::fma(x, y, z) : fmaOdd(x, y, z)));
      volatile double product = roundTo(t, x * y);
      want[kCount + i] = floatBits(t, roundTo(t, product + z));
      want[2 * kCount + i] = floatBits(t, roundTo(t, z - product));
    }
    Job job{replace("kernel k(a: *$T, b: *$T, c: *$T, o: *$T) launch(num_warps = 4) {\n  let i = arange(0, 1024);\n"
                    "  let (va, vb, vc) = (load(a + i), load(b + i), load(c + i));\n"
                    "  store(o + i, fma(va, vb, vc)); store(o + (1024 + i), va * vb + vc); store(o + (2048 + i), vc - "
                    "va * vb);\n}\n",
                    {{"T", name}}),
            {},
            {&a, &b, &c},
            {&out},
            {}};
    job.inOrderOnly = true;
    execute(job, [&](const std::string &where) { expectBits(out, want, where + " " + name); });
  }
}

TEST_CASE("floats: division within 2 ulp in f32, rounded in narrower types") {
  constexpr size_t kCount = 1024;
  for (const char *name : kFloats) {
    const Type &t = typeOf(name);
    Rng rng(60 + t.mantissa);
    Array a(name, kCount), b(name, kCount), out(name, kCount);
    operands(t, rng, a, b);
    std::vector<double> want(kCount);
    for (size_t i = 0; i < kCount; ++i) want[i] = roundTo(t, a.value(i) / b.value(i));
    Job job{replace("kernel k(a: *$T, b: *$T, o: *$T) launch(num_warps = 4) {\n  let i = arange(0, 1024);\n  store(o + "
                    "i, load(a + i) / load(b + i));\n}\n",
                    {{"T", name}}),
            {},
            {&a, &b},
            {&out},
            {}};
    job.inOrderOnly = true;
    double ulp = std::ldexp(1.0, -t.mantissa);
    execute(job, [&](const std::string &where) {
      expectClose(out, want, 2 * floatOf(t, 1), (t.bits == 32 ? 2 : 1) * ulp, where + " " + name);
    });
  }
}

TEST_CASE("floats: exp, exp2, log, log2, sqrt, rsqrt") {
  constexpr size_t kCount = 512;
  struct Function {
    const char *text;
    double (*value)(double);
  };
  const Function functions[] = {{"exp", std::exp},   {"exp2", std::exp2},
                                {"log", std::log},   {"log2", std::log2},
                                {"sqrt", std::sqrt}, {"rsqrt", [](double v) { return 1 / std::sqrt(v); }}};
  for (const char *name : kFloats) {
    const Type &t = typeOf(name);
    Rng rng(70 + t.mantissa);
    Array x(name, kCount), out(name, kCount * 6);
    for (size_t i = 0; i < kCount; ++i) x.set(i, i % 4 ? std::fabs(rng.normal()) * 8 : rng.normal() * 60);
    size_t at = 0;
    for (double v : edges(t)) { // the approximate units of f32 may flush denormal numbers
      bool denormal = t.bias == 127 && std::fabs(v) < 0x1p-126;
      x.set(at++, denormal ? 0.0 : v);
    }
    std::string text =
        replace("kernel k(x: *$T, o: *$T) launch(num_warps = 4) {\n  let i = arange(0, 512);\n  let v = load(x + i);\n",
                {{"T", name}});
    std::vector<double> want;
    for (size_t k = 0; k < 6; ++k) {
      text += "  store(o + (" + std::to_string(k * kCount) + " + i), " + functions[k].text + "(v));\n";
      for (size_t i = 0; i < kCount; ++i) want.push_back(roundTo(t, functions[k].value(x.value(i))));
    }
    Job job{text + "}\n", {}, {&x}, {&out}, {}};
    job.inOrderOnly = true;
    // f32: exp costs as many bits as its argument has before the point. One unit in the narrower types.
    double rtol = t.bits == 64 ? 4e-16 * 16 : t.bits == 32 ? 1e-5 : std::ldexp(1.0, -t.mantissa);
    double atol = name == std::string("f16") ? 2 * floatOf(t, 1) : t.bits <= 32 ? 3e-7 : 1e-15; // log near 1
    execute(job, [&](const std::string &where) { expectClose(out, want, atol, rtol, where + " " + name); });
  }
}

TEST_CASE("floats: where broadcasts, selects pointers, and drops NaN that is not chosen") {
  Rng rng(5);
  Array x("f32", 256), y("f32", 256), out("f32", 16 * 256);
  x.normal(rng), y.normal(rng);
  x.set(3, NAN), y.set(4, NAN), x.set(5, INFINITY);
  std::vector<uint64_t> want;
  for (size_t r = 0; r < 16; ++r)
    for (size_t i = 0; i < 256; ++i) want.push_back(r % 3 == 0 ? x.raw(i) : r % 3 == 1 ? y.raw(i) : 0);
  Job job{"kernel k(x: *f32, y: *f32, o: *f32) launch(num_warps = 4) {\n  let (r, i) = (arange(0, 16)[:, None], "
          "arange(0, 256)[None, :]);\n"
          "  let p = where(r % 3 == 0, x + i, y + i);\n"
          "  store(o + r * 256 + i, where(r % 3 == 2, 0.0, load(p)));\n}\n",
          {},
          {&x, &y},
          {&out},
          {}};
  execute(job, [&](const std::string &where) { expectBits(out, want, where); });
}

TEST_CASE("floats: constant operands") {
  // The folds: x + 0, x * 1, x * 0, x - x, 0 - x, x / 1, x * 2, 1 / x with NaN, infinities and zeros of both signs.
  for (const char *name : kFloats) {
    const Type &t = typeOf(name);
    auto e = edges(t);
    Array x(name, 32);
    for (size_t i = 0; i < 32; ++i) x.set(i, e[i % e.size()]);
    const std::vector<Op> ops = {{"$a + 0.0", [](double a, double) { return a + 0.0; }},
                                 {"0.0 + $a", [](double a, double) { return 0.0 + a; }},
                                 {"$a - 0.0", [](double a, double) { return a - 0.0; }},
                                 {"0.0 - $a", [](double a, double) { return 0.0 - a; }},
                                 {"$a * 1.0", [](double a, double) { return a; }},
                                 {"$a * 0.0", [](double a, double) { return a * 0.0; }},
                                 {"$a - $a", [](double a, double) { return a - a; }},
                                 {"$a * 2.0", [](double a, double) { return a * 2; }},
                                 {"$a / 1.0", [](double a, double) { return a; }},
                                 {"$a * (-1.0)", [](double a, double) { return -a; }},
                                 {"$a + (-0.0)", [](double a, double) { return a; }},
                                 {"minimum($a, inf)", [](double a, double) { return lesser(a, INFINITY); }},
                                 {"maximum($a, $a)", [](double a, double) { return a; }},
                                 {"maximum($a, nan)", [](double a, double) { return a; }},
                                 {"($a == $a).to($T)", [](double a, double) { return a == a; }},
                                 {"fma($a, 1.0, 0.0)", [](double a, double) { return a + 0.0; }},
                                 {"fma($a, 0.0, 1.0)", [](double a, double) { return a * 0.0 + 1.0; }},
                                 {"-(-$a)", [](double a, double) { return a; }}};
    Array out(name, 32 * ops.size());
    std::string text =
        replace("kernel k(x: *$T, o: *$T) launch(num_warps = 1) {\n  let i = arange(0, 32);\n  let va = load(x + i);\n",
                {{"T", name}});
    std::vector<uint64_t> want;
    for (size_t k = 0; k < ops.size(); ++k) {
      text += "  store(o + (" + std::to_string(k * 32) + " + i), " + replace(ops[k].text, {{"a", "va"}, {"T", name}}) +
              ");\n";
      for (size_t i = 0; i < 32; ++i) want.push_back(floatBits(t, roundTo(t, ops[k].value(x.value(i), 0))));
    }
    Job job{text + "}\n", {}, {&x}, {&out}, {}};
    job.inOrderOnly = true;
    execute(job, [&](const std::string &where) { expectBits(out, want, where + " " + name); });
  }
}
