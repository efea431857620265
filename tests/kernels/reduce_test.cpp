// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions over every axis of tiles of one to three dimensions, by 1, 4 and 8 warps, with odd extents.
#include "operations.h"

using namespace operations;

namespace {
std::string store(const char *to, const Shape &rest, const std::string &value) {
  return std::string("  store(") + to + (rest.empty() ? "" : " + " + offsets(rest)) + ", " + value + ");\n";
}

void allReductions(const Shape &shape, size_t axis, int warps, const std::string &type, bool inOrder) {
  const Type &t = typeOf(type);
  size_t count = size_t(product(shape, 0, shape.size()));
  Rng rng(count + axis * 7 + warps);
  Array x(type, count);
  // Small integers: sums are exact in every order, and there are ties. Some NaN for the floats.
  x.integers(rng, t.isSigned ? -9 : 0, 9);
  auto all = lines(shape, axis);
  Shape rest = without(shape, axis);
  Array sum(type, all.size()), most(type, all.size()), least(type, all.size()), at("i32", all.size()),
      low("i32", all.size()), kept("i32", all.size());
  const std::string sumType = t.isFloat || t.bits >= 32 ? type : t.isSigned ? "i32" : "u32";
  Array total(sumType, all.size());
  if (t.isFloat)
    for (size_t i = 0; i < all.size(); ++i)
      if (i % 5 == 1) x.setRaw(all[i][i % all[i].size()], floatBits(t, NAN));
  if (t.isFloat && all.size() > 2)
    for (size_t e : all[2]) x.setRaw(e, floatBits(t, NAN)); // all NaN
  std::vector<uint64_t> wantSum, wantMost, wantLeast, wantAt, wantLow;
  for (auto &line : all) {
    double s = 0, hi = NAN, lo = NAN;
    size_t hiAt = 0, loAt = 0;
    for (size_t k = 0; k < line.size(); ++k) {
      double v = x.value(line[k]);
      s += v;
      if (std::isnan(v)) continue;
      if (std::isnan(hi) || v > hi) hi = v, hiAt = k;
      if (std::isnan(lo) || v < lo) lo = v, loAt = k;
    }
    const Type &st = total.type;
    wantSum.push_back(st.isFloat ? floatBits(st, s) : wrap(st, Wide(s)));
    wantMost.push_back(t.isFloat ? floatBits(t, hi) : wrap(t, Wide(hi)));
    wantLeast.push_back(t.isFloat ? floatBits(t, lo) : wrap(t, Wide(lo)));
    wantAt.push_back(hiAt), wantLow.push_back(loAt);
  }
  std::string a = std::to_string(axis);
  std::string lastAxis = std::to_string(int64_t(axis) - int64_t(shape.size()));
  Shape keptShape = shape;
  keptShape[axis] = 1;
  Job job;
  job.text = "kernel k(x: *" + type + ", s: *" + sumType + ", hi: *" + type + ", lo: *" + type +
             ", at: *i32, low: *i32, kept: *i32) launch(num_warps = " + std::to_string(warps) +
             ") {\n  let v = load(x + " + offsets(shape) + ");\n" + store("s", rest, "sum(v, axis = " + a + ")") +
             store("hi", rest, "max(v, axis = " + lastAxis + ")") + store("lo", rest, "min(v, axis = " + a + ")") +
             store("at", rest, "argmax(v, " + a + ")") + store("low", rest, "argmin(v, axis = " + a + ")") +
             "  store(kept + " + offsets(keptShape) + ", argmax(v, " + a + ", keep_dims = true));\n}\n";
  job.in = {&x}, job.out = {&total, &most, &least, &at, &low, &kept};
  job.inOrderOnly = inOrder;
  execute(job, [&](const std::string &where) {
    std::string w = where + " " + type + text(shape) + " axis " + a + " warps " + std::to_string(warps);
    expectBits(total, wantSum, w + " sum"), expectBits(most, wantMost, w + " max"),
        expectBits(least, wantLeast, w + " min");
    expectBits(at, wantAt, w + " argmax"), expectBits(low, wantLow, w + " argmin"),
        expectBits(kept, wantAt, w + " keep_dims");
  });
}
} // namespace

TEST_CASE("reductions: one dimension") {
  for (int64_t n : {1, 2, 12, 32, 80, 96, 176, 208, 512, 1920})
    for (int warps : {1, 4, 8}) allReductions({n}, 0, warps, n % 32 ? "f32" : "i32", warps != 4);
}

TEST_CASE("reductions: two dimensions") {
  for (const Shape &s : {Shape{16, 64}, {12, 80}, {96, 4}, {1, 192}, {176, 2}, {5, 7}, {64, 96}})
    for (size_t axis : {0, 1})
      for (int warps : {1, 4, 8}) allReductions(s, axis, warps, axis ? "f32" : "i32", warps != 4 || s[0] * s[1] > 2000);
}

TEST_CASE("reductions: three dimensions") {
  for (const Shape &s : {Shape{4, 6, 16}, {2, 4, 8}, {3, 5, 7}, {16, 1, 12}})
    for (size_t axis : {0, 1, 2})
      for (int warps : {1, 4, 8}) allReductions(s, axis, warps, axis == 1 ? "i32" : "f32", warps != 4);
}

TEST_CASE("reductions: every type") {
  for (const char *type : {"i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64"})
    for (int warps : {1, 4})
      for (size_t axis : {0, 1}) allReductions({12, 32}, axis, warps, type, true);
}

TEST_CASE("reductions: sum of 16-bit floats is rounded once") {
  for (const char *type : {"f16", "bf16"}) {
    const Type &t = typeOf(type);
    Array x(type, 2048), out(type, 2);
    for (size_t i = 0; i < 2048; ++i)
      x.set(i, i % 1024 == 0 ? 2048.0 : 1.0); // one by one, every 1 would be lost in f16
    uint64_t want = floatBits(t, roundTo(t, 2048.0 + 1023));
    Job job{replace("kernel k(x: *$T, o: *$T) launch(num_warps = 4) {\n  let v = load(x + arange(0, 2)[:, None] * 1024 "
                    "+ arange(0, 1024)[None, :]);\n"
                    "  store(o + arange(0, 2), sum(v, axis = 1));\n}\n",
                    {{"T", type}}),
            {},
            {&x},
            {&out},
            {}};
    execute(job, [&](const std::string &where) { expectBits(out, {want, want}, where + " " + type); });
  }
}

TEST_CASE("reductions: an i1 tile counts") {
  Rng rng(3);
  Array x("i32", 96 * 12), out("i32", 12);
  x.integers(rng, -5, 5);
  std::vector<uint64_t> want(12, 0);
  for (size_t i = 0; i < x.count; ++i) want[i % 12] += x.integer(i) > 0;
  Job job{"kernel k(x: *i32, o: *i32) launch(num_warps = 4) {\n  let v = load(x + arange(0, 96)[:, None] * 12 + "
          "arange(0, 12)[None, :]);\n"
          "  store(o + arange(0, 12), sum(v > 0, axis = 0));\n}\n",
          {},
          {&x},
          {&out},
          {}};
  execute(job, [&](const std::string &where) { expectBits(out, want, where); });
}

TEST_CASE("reduce: functions of one value") {
  Rng rng(4);
  for (const Shape &s : {Shape{512}, {12, 80}, {80, 12}, {4, 6, 16}})
    for (size_t axis = 0; axis < s.size(); ++axis)
      for (int warps : {1, 4, 8}) {
        size_t count = size_t(product(s, 0, s.size()));
        auto all = lines(s, axis);
        Array x("u32", count), parity("u32", all.size()), least("u32", all.size()), multiplied("u32", all.size());
        x.randomBits(rng);
        std::vector<uint64_t> wantParity, wantLeast, wantProduct;
        for (auto &line : all) {
          uint32_t p = 0, l = ~0u, m = 1;
          for (size_t e : line)
            p ^= uint32_t(x.raw(e)), l = std::min(l, uint32_t(x.raw(e))), m *= uint32_t(x.raw(e)) | 1;
          wantParity.push_back(p), wantLeast.push_back(l), wantProduct.push_back(m);
        }
        Shape rest = without(s, axis);
        std::string a = std::to_string(axis);
        Job job{"fn parity(a, b) { return a ^ b; }\nfn times(a, b) { return a * b; }\nfn least(a, b) { return "
                "minimum(a, b); }\n"
                "kernel k<F: fn = parity>(x: *u32, o: *u32, l: *u32, m: *u32) launch(num_warps = " +
                    std::to_string(warps) + ") {\n  let v = load(x + " + offsets(s) + ");\n" +
                    store("o", rest, "reduce(v, " + a + ", F)") + store("l", rest, "reduce(v, " + a + ", least)") +
                    store("m", rest, "reduce(v | 1, " + a + ", times)") + "}\n",
                {},
                {&x},
                {&parity, &least, &multiplied},
                {}};
        job.inOrderOnly = warps != 4;
        execute(job, [&](const std::string &where) {
          std::string w = where + text(s) + " axis " + a + " warps " + std::to_string(warps);
          expectBits(parity, wantParity, w), expectBits(least, wantLeast, w), expectBits(multiplied, wantProduct, w);
        });
      }
}

TEST_CASE("reduce: a value with its index, the last among equals") {
  Rng rng(6);
  for (const Shape &s : {Shape{176}, {12, 96}, {96, 12}, {4, 6, 16}})
    for (size_t axis = 0; axis < s.size(); ++axis)
      for (int warps : {1, 4, 8}) {
        auto all = lines(s, axis);
        Array x("f32", size_t(product(s, 0, s.size()))), value("f32", all.size()), index("i64", all.size());
        x.integers(rng, -4, 4);
        std::vector<uint64_t> wantValue, wantIndex;
        for (auto &line : all) {
          size_t best = 0;
          for (size_t k = 1; k < line.size(); ++k)
            if (x.value(line[k]) >= x.value(line[best])) best = k;
          wantValue.push_back(x.raw(line[best])), wantIndex.push_back(best);
        }
        Shape rest = without(s, axis), one = s;
        std::string index64 = "arange(0, " + std::to_string(s[axis]) + ").to(i64)", dims;
        for (size_t d = 0; d < s.size(); ++d) dims += std::string(d ? ", " : "") + (d == axis ? ":" : "None");
        if (s.size() > 1) index64 = index64 + "[" + dims + "]";
        std::string a = std::to_string(axis);
        Job job{"fn last(va, ia, vb, ib) {\n  let left = (va > vb) | ((va == vb) & (ia > ib));\n  return (where(left, "
                "va, vb), where(left, ia, ib));\n}\n"
                "kernel k(x: *f32, o: *f32, n: *i64) launch(num_warps = " +
                    std::to_string(warps) + ") {\n  let v = load(x + " + offsets(s) + ");\n" +
                    "  let i = broadcast_to(" + index64 + ", " + text(s) + ");\n  let (best, at) = reduce((v, i), " +
                    a + ", last);\n" + store("o", rest, "best") + store("n", rest, "at") + "}\n",
                {},
                {&x},
                {&value, &index},
                {}};
        job.inOrderOnly = warps != 4;
        execute(job, [&](const std::string &where) {
          std::string w = where + text(s) + " axis " + a + " warps " + std::to_string(warps);
          expectBits(value, wantValue, w), expectBits(index, wantIndex, w);
        });
      }
}

// Case 22 of the reported faults: every lane and every run has the same bits.
TEST_CASE("reduce: Welford's triple is the same in every lane, every time") {
  Rng rng(22);
  for (int64_t n : {1024, 96 * 8})
    for (int warps : {1, 4, 8}) {
      Array x("f32", size_t(n)), mean("f32", 256), m2("f32", 256), weight("f32", 256);
      x.normal(rng, 3);
      double sum = 0, squares = 0;
      for (size_t i = 0; i < x.count; ++i) sum += x.value(i);
      for (size_t i = 0; i < x.count; ++i) squares += std::pow(x.value(i) - sum / double(n), 2);
      Job job{
          replace(
              "fn welford(ma, qa, wa, mb, qb, wb) {\n  let w = wa + wb;\n  let share = wb / w;\n  let d = mb - ma;\n"
              "  return (ma + d * share, qa + qb + d * d * wa * share, w);\n}\n"
              "kernel k(x: *f32, mean: *f32, m2: *f32, weight: *f32) launch(num_warps = $W) {\n"
              "  let v = load(x + arange(0, $N));\n"
              "  let (m, q, w) = reduce((v, zeros([$N], f32), full([$N], 1.0, f32)), 0, welford);\n"
              "  let lane = arange(0, 256);\n"
              "  store(mean + lane, full([256], m)); store(m2 + lane, full([256], q)); store(weight + lane, "
              "full([256], w));\n}\n",
              {{"W", std::to_string(warps)}, {"N", std::to_string(n)}}),
          {},
          {&x},
          {&mean, &m2, &weight},
          {}};
      std::vector<uint64_t> first;
      std::string target;
      execute(job, [&](const std::string &where) {
        if (where.substr(0, 5) != target) first = {mean.raw(0), m2.raw(0)}, target = where.substr(0, 5);
        for (size_t i = 0; i < 256; ++i) CHECK((mean.raw(i) == first[0] && m2.raw(i) == first[1]));
        CHECK(mean.value(0) == doctest::Approx(sum / double(n)).epsilon(1e-5));
        CHECK(m2.value(0) == doctest::Approx(squares).epsilon(1e-5));
        CHECK_MESSAGE(weight.value(0) == double(n), where);
      });
    }
}
