// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <doctest/doctest.h>

#include "harness.h"

using namespace harness;

namespace {
struct Shape {
  int m, n, k;
};
struct Config {
  std::string type = "f16", accumulator = "f32", out = "f32";
  int bm = 64, bn = 64, bk = 32, stages = 3, warps = 4;
  bool transA = false, transB = false;
  int precision = 0;
  bool facts = false;
  std::string text() const {
    return type + " " + std::to_string(bm) + "x" + std::to_string(bn) + "x" + std::to_string(bk) + " stages " +
           std::to_string(stages) + (transA ? " A^T" : "") + (transB ? " B^T" : "") + (facts ? " facts" : "") +
           " precision " + std::to_string(precision);
  }
};

Program build(const Config &c, const std::string &target) {
  auto number = [](int v) { return std::to_string(v); };
  CompileSpec spec{"matmul_pointers.tlx",
                   "matmul_pointers",
                   {{"BM", number(c.bm)},
                    {"BN", number(c.bn)},
                    {"BK", number(c.bk)},
                    {"STAGES", number(c.stages)},
                    {"WARPS", number(c.warps)},
                    {"T", c.type},
                    {"ACC", c.accumulator},
                    {"OUT", c.out},
                    {"TRANS_A", c.transA ? "true" : "false"},
                    {"TRANS_B", c.transB ? "true" : "false"},
                    {"PRECISION", number(c.precision)},
                    {"EVEN_K", c.facts ? "true" : "false"}},
                   {}};
  if (c.facts)
    spec.facts = {"aligned(a, 16)", "aligned(b, 16)", "aligned(c, 16)", "M % 16 == 0",  "N % 16 == 0",
                  "K % 16 == 0",    "lda % 16 == 0",  "ldb % 16 == 0",  "ldc % 16 == 0"};
  return compile(spec, target);
}

void run(const Program &p, const Config &c, const Shape &s, const std::string &target, unsigned seeds, Fill how,
         double rtol) {
  CAPTURE(s.m);
  CAPTURE(s.n);
  CAPTURE(s.k);
  int lda = c.transA ? s.m : s.k, ldb = c.transB ? s.k : s.n, ldc = s.n;
  Rng rng(s.m * 7 + s.n * 3 + s.k);
  Tensor a(c.type, size_t(s.m) * s.k), b(c.type, size_t(s.k) * s.n), out(c.out, size_t(s.m) * s.n);
  fill(a, rng, how), fill(b, rng, how);
  std::vector<double> want(size_t(s.m) * s.n, 0.0), magnitude(want.size(), 0.0);
  for (int m = 0; m < s.m; ++m)
    for (int k = 0; k < s.k; ++k) {
      double x = a.get(c.transA ? size_t(k) * lda + m : size_t(m) * lda + k);
      for (int n = 0; n < s.n; ++n) {
        double y = b.get(c.transB ? size_t(n) * ldb + k : size_t(k) * ldb + n);
        want[size_t(m) * s.n + n] += x * y;
        magnitude[size_t(m) * s.n + n] += std::fabs(x * y);
      }
    }
  auto da = upload(a), db = upload(b);
  uint32_t grid = uint32_t(((s.m + c.bm - 1) / c.bm) * ((s.n + c.bn - 1) / c.bn));
  for (const Setting &setting : settings(target, seeds)) {
    out.poison();
    auto dout = upload(out);
    CHECK(p.run({grid}, {da, db, dout, s.m, s.n, s.k, lda, ldb, ldc}, setting) == "");
    download(out, dout);
    double worst = 0;
    size_t at = 0;
    for (size_t i = 0; i < want.size(); ++i) {
      double got = out.get(i), tolerance = rtol * magnitude[i], error = std::fabs(got - want[i]);
      double ratio = got == want[i] ? 0 : tolerance > 0 ? error / tolerance : INFINITY;
      if (std::isnan(got)) ratio = INFINITY;
      if (ratio > worst) worst = ratio, at = i;
    }
    CHECK_MESSAGE(worst <= 1, setting.text(), ": element ", at, " is ", out.get(at), ", should be ", want[at]);
  }
}
const std::vector<Shape> kRagged{{64, 64, 64}, {65, 63, 33}, {1, 1, 1}, {100, 1, 70},  {3, 130, 31},
                                 {64, 64, 0},  {0, 5, 5},    {5, 0, 5}, {128, 96, 160}};
} // namespace

TEST_CASE("matmul_pointers: integers exact to the bit, ragged shapes, four transposes") {
  for (const std::string &target : targets())
    for (bool transA : {false, true})
      for (bool transB : {false, true}) {
        Config c;
        c.transA = transA, c.transB = transB;
        CAPTURE(target);
        CAPTURE(c.text());
        Program p = build(c, target);
        for (const Shape &s : kRagged) run(p, c, s, target, seeds(), Fill::Integers, 0);
      }
}

TEST_CASE("matmul_pointers: with facts, number of stages, tiles, warps") {
  for (const std::string &target : targets())
    for (int stages : {1, 2, 3, 4})
      for (auto [bm, bn, bk, warps] :
           {std::array<int, 4>{64, 64, 32, 4}, {128, 64, 64, 8}, {32, 96, 16, 2}, {64, 80, 48, 4}}) {
        Config c;
        c.facts = true, c.stages = stages, c.bm = bm, c.bn = bn, c.bk = bk, c.warps = warps;
        CAPTURE(target);
        CAPTURE(c.text());
        Program p = build(c, target);
        for (const Shape &s : {Shape{128, 128, 192}, {64, 80, 0}, {48, 96, 48}})
          if (s.k % bk == 0) run(p, c, s, target, seeds(), Fill::Integers, 0);
      }
}

TEST_CASE("matmul_pointers: types") {
  for (const std::string &target : targets())
    for (bool transpose : {false, true}) {
      for (auto [type, accumulator, out] : {std::array<const char *, 3>{"bf16", "f32", "f32"},
                                            {"f32", "f32", "f32"},
                                            {"i8", "i32", "i32"},
                                            {"f64", "f64", "f64"}}) {
        Config c;
        c.type = type, c.accumulator = accumulator, c.out = out, c.bk = c.type == "f64" ? 16 : 32;
        c.transA = transpose, c.transB = !transpose;
        CAPTURE(target);
        CAPTURE(c.text());
        Program p = build(c, target);
        for (const Shape &s : {Shape{64, 64, 64}, {70, 33, 45}}) run(p, c, s, target, seeds(), Fill::Integers, 0);
      }
    }
}

TEST_CASE("matmul_pointers: precision of f32 products on random numbers") {
  for (const std::string &target : targets()) {
    // Relative to the sum of magnitudes: tf32 and xf32 keep 10 bits, three products about 20, ieee all 23.
    for (auto [precision, rtol] : {std::pair<int, double>{0, 2e-3}, {1, 4e-6}, {2, 2e-6}}) {
      Config c;
      c.type = "f32", c.precision = precision, c.bk = 16;
      CAPTURE(target);
      CAPTURE(c.text());
      Program p = build(c, target);
      run(p, c, {65, 40, 100}, target, seeds(), Fill::Normal, rtol);
    }
    for (const char *type : {"f16", "bf16"}) {
      Config c;
      c.type = type;
      CAPTURE(target);
      CAPTURE(c.text());
      Program p = build(c, target);
      run(p, c, {65, 40, 100}, target, seeds(), Fill::Normal, 2e-6);
    }
  }
}
