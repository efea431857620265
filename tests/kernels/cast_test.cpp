// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Conversions among all types, in both roundings, and bitcast, against exact references.
#include "operations.h"

using namespace operations;

namespace {
const std::vector<std::string> kTypes = {"i1",         "i8",         "i16",  "i32", "i64",    "u8",
                                         "u16",        "u32",        "u64",  "f16", "f8e4m3", "f8e5m2",
                                         "f8e4m3fnuz", "f8e5m2fnuz", "bf16", "f32", "f64"};
constexpr size_t kCount = 512;

/// Edges of the type, values that lie on and beside the midpoints of narrower types, random bits, small numbers.
Array samples(const Type &t, Rng &rng) {
  Array a(t.name, kCount);
  a.randomBits(rng);
  size_t at = 0;
  if (!t.isFloat) {
    for (Wide v : {Wide(0), Wide(1), Wide(2), Wide(3), Wide(-1), Wide(-2), largest(t), largest(t) - 1, smallest(t),
                   smallest(t) + 1, largest(t) / 2})
      a.setRaw(at++, wrap(t, v));
    for (int bit = 4; bit < int(t.bits); bit += 3)
      for (int d : {-1, 0, 1}) a.setRaw(at++, wrap(t, (Wide(1) << bit) + d));
    // 2^24 + odd, 2^53 + odd, 2^11 + odd: ties of the floats.
    for (int bit : {11, 8, 24, 53})
      for (int d : {1, 2, 3, 5})
        if (bit < int(t.bits) - 1) a.setRaw(at++, wrap(t, (Wide(1) << bit) + d));
    for (; at < kCount / 2; ++at) a.setRaw(at, wrap(t, Wide(rng.integer(-300, 300))));
    return a;
  }
  for (double v : {0.0,
                   -0.0,
                   1.0,
                   -1.0,
                   0.5,
                   1.5,
                   2.5,
                   -0.75,
                   127.5,
                   128.0,
                   -128.5,
                   255.9,
                   256.0,
                   -1e-9,
                   32767.5,
                   65535.0,
                   65504.0,
                   65519.0,
                   65520.0,
                   448.0,
                   449.0,
                   463.9,
                   464.0,
                   465.0,
                   480.0,
                   -500.0,
                   240.0,
                   247.9,
                   248.0,
                   57344.0,
                   60000.0,
                   61440.0,
                   -65536.0,
                   2147483647.0,
                   2147483648.0,
                   -2147483648.0,
                   -2147483904.0,
                   4294967295.0,
                   4294967296.0,
                   9.2233720368547758e18,
                   -9.2233720368547758e18,
                   1.8446744073709552e19,
                   3e38,
                   -1e39,
                   1e-38,
                   1e-40,
                   1e-45,
                   1e-46,
                   5.9604644775390625e-8,
                   2.9802322387695312e-8,
                   3e-8,
                   6.1e-5,
                   0.001953125,
                   0.0009765625,
                   0.00098,
                   1.52587890625e-5,
                   7.62939453125e-6,
                   7.7e-6,
                   0.0146484375,
                   1e300,
                   -1e300,
                   1e-320})
    a.set(at++, v);
  a.setRaw(at++, floatBits(t, NAN));
  if (t.bits > 8 || t.name == "f8e5m2") a.setRaw(at++, floatBits(t, INFINITY)), a.setRaw(at++, floatBits(t, -INFINITY));
  // Midpoints of narrower mantissas and their neighbours.
  for (int narrow : {2, 3, 7, 10, 23})
    for (int k = 0; k < 6; ++k) {
      if (narrow + 1 > t.mantissa) continue;
      double base = std::ldexp(1 + (rng.next() & ((1ull << narrow) - 1)) * std::ldexp(1.0, -narrow) +
                                   std::ldexp(1.0, -narrow - 1),
                               int(rng.integer(-6, 6)));
      uint64_t raw = floatBits(t, base);
      a.setRaw(at++, raw), a.setRaw(at++, raw + 1), a.setRaw(at++, raw - 1);
      // Beside the midpoint by less than f32 shows: rounding twice would go wrong.
      if (t.bits == 64) a.setRaw(at++, raw + 1000), a.setRaw(at++, raw - 1000);
    }
  for (; at < kCount * 3 / 4; ++at) a.set(at, rng.normal() * 40);
  return a;
}

uint64_t want(const Type &from, const Type &to, uint64_t raw, bool towardsZero) {
  if (from.name == to.name) return raw;
  if (!from.isFloat) {
    Wide v = intOf(from, raw);
    if (to.name == "i1") return v != 0;
    if (!to.isFloat) return wrap(to, v);
    long double exact = (long double)v; // 64 bits fit
    if (to.bits == 8) exact = roundTo(typeOf("f32"), exact, towardsZero);
    return floatBits(to, roundTo(to, exact, towardsZero));
  }
  double v = floatOf(from, raw);
  if (to.name == "i1") return v != 0;
  if (!to.isFloat) {
    if (std::isnan(v)) return 0;
    if (v >= std::ldexp(1.0, 100)) return wrap(to, largest(to));
    if (v <= -std::ldexp(1.0, 100)) return wrap(to, smallest(to));
    return wrap(to, std::clamp(Wide(v), smallest(to), largest(to)));
  }
  if (to.bits == 8 && from.bits == 64) v = roundTo(typeOf("f32"), v, towardsZero);
  return floatBits(to, roundTo(to, v, towardsZero));
}

void convertFrom(const std::string &from, const std::vector<std::string> &to, const std::string &rounding,
                 bool scalar) {
  Rng rng(from.size() * 31 + from[1]);
  Array x = samples(typeOf(from), rng);
  std::vector<Array> outs;
  for (const std::string &t : to) outs.emplace_back(t, kCount);
  std::string args, body;
  Job job;
  job.in = {&x};
  for (size_t k = 0; k < to.size(); ++k) {
    job.out.push_back(&outs[k]);
    args += replace(", o$K: *$T", {{"K", std::to_string(k)}, {"T", to[k]}});
    body += replace("  store(o$K + i, v.to($T$R));\n",
                    {{"K", std::to_string(k)}, {"T", to[k]}, {"R", rounding.empty() ? "" : ", \"" + rounding + "\""}});
  }
  job.text = "kernel k(x: *" + from + args + ") launch(num_warps = " + (scalar ? "1" : "4") +
             ") {\n  let i = " + (scalar ? "program_id(0)" : "arange(0, 512)") + ";\n  let v = load(x + i);\n" + body +
             "}\n";
  if (scalar) job.grid = {kCount};
  job.inOrderOnly = true;
  execute(job, [&](const std::string &where) {
    for (size_t k = 0; k < to.size(); ++k) {
      std::vector<uint64_t> expect;
      for (size_t i = 0; i < kCount; ++i)
        expect.push_back(want(typeOf(from), typeOf(to[k]), x.raw(i), rounding == "rtz"));
      expectBits(outs[k], expect, where + " " + from + " to " + to[k] + " " + rounding);
    }
  });
}
} // namespace

TEST_CASE("casts: every pair of types") {
  for (const std::string &from : kTypes) convertFrom(from, kTypes, "", false);
}

TEST_CASE("casts: every pair of types, scalars") {
  for (const std::string &from : kTypes) convertFrom(from, kTypes, "", true);
}

TEST_CASE("casts: rounding named") {
  for (const std::string &from : kTypes)
    for (const char *rounding : {"rtne", "rtz"}) {
      if (from == "i1") continue;
      std::vector<std::string> to;
      for (const std::string &t : kTypes)
        if (typeOf(t).isFloat && (!typeOf(from).isFloat || typeOf(t).bits < typeOf(from).bits)) to.push_back(t);
      if (!to.empty()) convertFrom(from, to, rounding, false);
    }
}

TEST_CASE("casts: every 16-bit float to the 8-bit ones, every 8-bit float to the others") {
  Array x("u16", 65536);
  for (size_t i = 0; i < x.count; ++i) x.setRaw(i, i);
  for (const char *from : {"f16", "bf16"})
    for (const char *to : {"f8e4m3", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz"}) {
      Array out(to, 65536), rtz(to, 65536);
      std::vector<uint64_t> expect, expectRtz;
      for (size_t i = 0; i < x.count; ++i)
        expect.push_back(want(typeOf(from), typeOf(to), i, false)),
            expectRtz.push_back(want(typeOf(from), typeOf(to), i, true));
      Job job{
          replace(
              "kernel k(x: *u16, o: *$T, z: *$T) launch(num_warps = 8) {\n  let i = program_id(0) * 2048 + arange(0, "
              "2048);\n"
              "  let v = bitcast(load(x + i), $F);\n  store(o + i, v.to($T)); store(z + i, v.to($T, \"rtz\"));\n}\n",
              {{"T", to}, {"F", from}}),
          {},
          {&x},
          {&out, &rtz},
          {},
          {32}};
      job.inOrderOnly = true;
      execute(job, [&](const std::string &where) {
        expectBits(out, expect, where + " " + from + " to " + to);
        expectBits(rtz, expectRtz, where + " " + from + " to " + to + " rtz");
      });
    }
}

TEST_CASE("bitcast keeps every bit") {
  Rng rng(77);
  for (const std::string &from : kTypes) {
    if (from == "i1") continue;
    Array x(from, 256);
    x.randomBits(rng);
    x.setRaw(0, maskOf(x.type)), x.setRaw(1, 0), x.setRaw(2, maskOf(x.type) >> 1);
    std::vector<Array> outs;
    Job job;
    job.in = {&x};
    std::string args, body;
    for (const std::string &to : kTypes)
      if (typeOf(to).bits == x.type.bits) {
        body += replace("  store(o$K + i, bitcast(v, $T));\n", {{"K", std::to_string(outs.size())}, {"T", to}});
        args += replace(", o$K: *$T", {{"K", std::to_string(outs.size())}, {"T", to}});
        outs.emplace_back(to, 256);
      }
    for (Array &o : outs) job.out.push_back(&o);
    job.text = "kernel k(x: *" + from + args +
               ") launch(num_warps = 2) {\n  let i = arange(0, 256);\n  let v = load(x + i);\n" + body + "}\n";
    job.inOrderOnly = true;
    execute(job, [&](const std::string &where) {
      for (Array &o : outs) expectBits(o, bitsOf(x), where + " " + from + " as " + o.type.name, true);
    });
  }
}

TEST_CASE("casts: constants are converted as values are") {
  // Each value once from memory and once as a literal.
  for (const std::string &to : kTypes) {
    if (to == "i1") continue;
    const double large = to == "u64" ? 9e18 : 1e30; // a compile-time value has 63 bits and a sign
    const double values[] = {0.1, 1.5, 2.5, 300.7, -300.7, large, 70000.0, 465.0, 0.0009765625};
    Array x("f32", std::size(values)), literal(to, std::size(values)), loaded(to, std::size(values));
    std::string body;
    for (size_t k = 0; k < x.count; ++k) {
      x.set(k, values[k]);
      char text[64];
      snprintf(text, sizeof text, "%.17g", x.value(k));
      std::string number = text;
      if (number.find_first_of(".e") == std::string::npos) number += ".0";
      body += replace("  store(a + $K, ($V).to(f32).to($T)); store(b + $K, load(x + $K).to($T));\n",
                      {{"K", std::to_string(k)}, {"V", number}, {"T", to}});
    }
    Job job{replace("kernel k(x: *f32, a: *$T, b: *$T) launch(num_warps = 1) {\n" + body + "}\n", {{"T", to}}),
            {},
            {&x},
            {&literal, &loaded},
            {}};
    job.inOrderOnly = true;
    execute(job, [&](const std::string &where) {
      std::vector<uint64_t> expect;
      for (size_t k = 0; k < x.count; ++k) expect.push_back(want(x.type, typeOf(to), x.raw(k), false));
      expectBits(loaded, expect, where + " loaded to " + to);
      expectBits(literal, expect, where + " literal to " + to);
    });
  }
}

TEST_CASE("casts: a compile-time integer is rounded once") {
  // Beside a tie of f32 by less than f64 shows.
  Array out("f32", 2);
  Job job{"kernel k(o: *f32) launch(num_warps = 1) {\n  store(o, (9007199791611905).to(f32)); store(o + 1, "
          "(-9007199791611905).to(f32));\n}\n",
          {},
          {},
          {&out},
          {}};
  execute(job, [&](const std::string &where) {
    CHECK_MESSAGE(out.value(0) == 9007200328482816.0, where);
    CHECK_MESSAGE(out.value(1) == -9007200328482816.0, where);
  });
}
