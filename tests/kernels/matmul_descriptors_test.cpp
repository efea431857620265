// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// matmul, matmul_persistent, gemm_ws, gemm_pingpong and matmul_bias_act: products by tensor descriptors. Integers are exact to the bit; random
// numbers are held to what f32 accumulation and one rounding may cost. Rows of every tensor are padded to 16 bytes, as
// descriptors demand, with NaN between.
#include <doctest/doctest.h>

#include "references.h"

using namespace harness;

namespace {
struct Shape {
  int m, n, k;
};
struct Config {
  std::string kernel = "matmul", type = "f16", accumulator = "f32", out = "f32";
  int bm = 64, bn = 64, bk = 32, stages = 3, warps = 4;
  bool ta = false, tb = false;
  std::string text() const {
    return kernel + " " + type + " " + std::to_string(bm) + "x" + std::to_string(bn) + "x" + std::to_string(bk) +
           " stages " + std::to_string(stages) + " warps " + std::to_string(warps) + (ta ? " A^T" : "") +
           (tb ? " B^T" : "");
  }
};

CompileSpec specOf(const Config &c) {
  auto number = [](int v) { return std::to_string(v); };
  if (c.kernel.starts_with("gemm_")) // the schedule says what else there is
    return {
        c.kernel + ".tlx",
        c.kernel,
        {{"BM", number(c.bm)}, {"BN", number(c.bn)}, {"BK", number(c.bk)}, {"STAGES", number(c.stages)}, {"T", c.type}},
        {}};
  return {"matmul.tlx",
          c.kernel,
          {{"BM", number(c.bm)},
           {"BN", number(c.bn)},
           {"BK", number(c.bk)},
           {"STAGES", number(c.stages)},
           {"WARPS", number(c.warps)},
           {"T", c.type},
           {"ACC", c.accumulator},
           {"OUT", c.out},
           {"TA", c.ta ? "true" : "false"},
           {"TB", c.tb ? "true" : "false"}},
          {}};
}

int tilesOf(const Config &c, const Shape &s) {
  return (s.m + c.bm - 1) / c.bm * ((s.n + c.bn - 1) / c.bn);
}

/// `programs`: 0 for one a tile. `bound` of the integers: small enough for sums to be exact in the type of C.
void run(const Program &p, const Config &c, const Shape &s, const std::string &target, unsigned seeds, int programs = 0,
         Fill how = Fill::Integers, int bound = 4) {
  CAPTURE(s.m);
  CAPTURE(s.n);
  CAPTURE(s.k);
  CAPTURE(programs);
  Rng rng(s.m * 7 + s.n * 3 + s.k);
  Matrix a(c.type, c.ta ? s.k : s.m, c.ta ? s.m : s.k), b(c.type, c.tb ? s.n : s.k, c.tb ? s.k : s.n),
      out(c.out, s.m, s.n);
  a.fillWith(rng, how, bound), b.fillWith(rng, how, bound);
  const Expected want = expectProduct(multiply(a, c.ta, b, c.tb, s.m, s.n, s.k), out, c.type, how);
  auto da = upload(a.values), db = upload(b.values);
  for (const Setting &setting : settings(target, seeds)) {
    out.values.poison();
    auto dout = upload(out.values);
    CHECK(p.run({uint32_t(programs ? programs : tilesOf(c, s))},
                {a.argument(da), b.argument(db), out.argument(dout), s.m, s.n, s.k}, setting) == "");
    download(out.values, dout);
    std::string wrong = mismatch(out.values, want, out.ld);
    CHECK_MESSAGE(wrong == "", setting.text(), " ", wrong);
  }
}
const std::vector<Shape> kRagged{{64, 64, 64}, {65, 63, 33}, {1, 1, 1}, {100, 1, 70},  {3, 130, 31},
                                 {64, 64, 0},  {0, 5, 5},    {5, 0, 5}, {128, 96, 160}};
} // namespace

TEST_CASE("matmul: integers exact to the bit, ragged shapes, four transposes") {
  for (const std::string &target : targets())
    for (const char *type : {"f16", "bf16"})
      for (bool ta : {false, true})
        for (bool tb : {false, true}) {
          Config c;
          c.type = type, c.ta = ta, c.tb = tb;
          CAPTURE(target);
          CAPTURE(c.text());
          Program p = compile(specOf(c), target);
          for (const Shape &s : kRagged) run(p, c, s, target, seeds());
        }
}

TEST_CASE("matmul: number of stages, tiles, warps, C in the type of A") {
  for (const std::string &target : targets())
    for (int stages : {1, 2, 3, 4})
      for (auto [bm, bn, bk, warps] :
           {std::array<int, 4>{64, 64, 32, 4}, {128, 64, 64, 8}, {128, 128, 64, 4}, {32, 96, 16, 2}, {64, 80, 48, 4}}) {
        Config c;
        c.stages = stages, c.bm = bm, c.bn = bn, c.bk = bk, c.warps = warps, c.out = "f16";
        CAPTURE(target);
        CAPTURE(c.text());
        Program p = compile(specOf(c), target);
        for (const Shape &s : {Shape{130, 136, 200}, {64, 80, 0}, {48, 100, 48}})
          run(p, c, s, target, seeds(), 0, Fill::Integers, 2);
      }
}

TEST_CASE("matmul: types") {
  for (const std::string &target : targets())
    for (auto [type, accumulator, out] : {std::array<const char *, 3>{"f16", "f32", "f16"},
                                          {"bf16", "f32", "bf16"},
                                          {"f32", "f32", "f32"},
                                          {"i8", "i32", "i32"},
                                          {"f64", "f64", "f64"}}) {
      for (bool ta : {false, true})
        for (bool tb : {false, true}) {
          Config c;
          c.type = type, c.accumulator = accumulator, c.out = out, c.ta = ta, c.tb = tb,
          c.bk = c.type == "f64" ? 16 : 32;
          CAPTURE(target);
          CAPTURE(c.text());
          Program p = compile(specOf(c), target);
          // Sums of at most 2 · 2 · 60, with bf16 1 · 1 · 60, are exact in the type of C.
          for (const Shape &s : {Shape{64, 64, 60}, {70, 33, 45}})
            run(p, c, s, target, ta ? 1 : seeds(), 0, Fill::Integers, c.out == "bf16" ? 1 : 2);
          if (c.type != "i8") run(p, c, {65, 40, 100}, target, 1, 0, Fill::Normal);
        }
    }
}

TEST_CASE("matmul_persistent: any number of programs") {
  for (const std::string &target : targets())
    for (int stages : {1, 3}) {
      Config c;
      c.kernel = "matmul_persistent", c.stages = stages, c.tb = true;
      CAPTURE(target);
      CAPTURE(c.text());
      Program p = compile(specOf(c), target);
      for (const Shape &s : {Shape{200, 136, 100}, {65, 63, 33}, {130, 130, 0}, {0, 5, 5}, {5, 0, 5}})
        for (int programs : {1, 3, 20}) run(p, c, s, target, seeds(), programs);
    }
}

TEST_CASE("gemm_pingpong: integers exact to the bit, ragged shapes, any number of programs") {
  for (const std::string &target : targets()) {
    if (target != "sm_90a") continue;
    for (const char *type : {"f16", "bf16"})
      for (auto [bm, bn, bk, stages] :
           {std::array<int, 4>{64, 64, 64, 2}, {64, 96, 32, 4}, {128, 80, 64, 3}, {128, 128, 64, 5}}) {
        Config c;
        c.kernel = "gemm_pingpong", c.type = c.out = type, c.bm = bm, c.bn = bn, c.bk = bk, c.stages = stages;
        CAPTURE(c.text());
        Program p = compile(specOf(c), target);
        const bool large = bm * bn == 128 * 128;
        for (const Shape &s :
             {Shape{200, 136, 200}, {65, 63, 33}, {1, 1, 1}, {300, 100, 70}, {192, 64, 0}, {0, 5, 5}, {5, 0, 5}})
          for (int programs : {1, 3})
            run(p, c, s, target, large ? 1 : seeds(), programs, Fill::Integers, c.type == "bf16" ? 1 : 2);
      }
  }
}

TEST_CASE("gemm_ws: integers exact to the bit, ragged shapes, any number of programs") {
  for (const std::string &target : targets()) {
    if (target != "sm_90a") continue;
    for (const char *type : {"f16", "bf16"})
      for (auto [bm, bn, bk, stages] : {std::array<int, 4>{128, 64, 64, 2},
                                        {128, 64, 64, 3},
                                        {128, 96, 32, 4},
                                        {256, 80, 64, 2},
                                        {128, 256, 64, 3}}) {
        Config c;
        c.kernel = "gemm_ws", c.type = c.out = type, c.bm = bm, c.bn = bn, c.bk = bk, c.stages = stages;
        CAPTURE(c.text());
        Program p = compile(specOf(c), target);
        const bool large = bn == 256;
        for (const Shape &s :
             {Shape{130, 136, 200}, {65, 63, 33}, {1, 1, 1}, {300, 100, 70}, {128, 64, 0}, {0, 5, 5}, {5, 0, 5}})
          for (int programs : {1, 3})
            run(p, c, s, target, large ? 1 : seeds(), programs, Fill::Integers, c.type == "bf16" ? 1 : 2);
      }
  }
}

TEST_CASE("matmul_bias_act: every activation") {
  for (const std::string &target : targets())
    for (const Activation &activation : activations())
      for (const char *type : {"f16", "bf16"}) {
        CAPTURE(target);
        CAPTURE(activation.name);
        CAPTURE(type);
        Config c;
        c.type = c.out = type;
        CompileSpec spec{
            "matmul_bias_act.tlx",
            "matmul_bias_act",
            {{"BM", "64"}, {"BN", "64"}, {"BK", "32"}, {"WARPS", "4"}, {"T", type}, {"ACT", activation.name}},
            {}};
        Program p = compile(spec, target);
        for (const Shape &s : {Shape{64, 64, 64}, {65, 100, 40}, {30, 20, 0}}) {
          CAPTURE(s.m);
          CAPTURE(s.n);
          CAPTURE(s.k);
          Rng rng(s.m + s.n + s.k);
          Matrix a(type, s.m, s.k), b(type, s.n, s.k), out(type, s.m, s.n);
          Tensor bias(type, s.n);
          a.fillWith(rng, Fill::Normal, 0), b.fillWith(rng, Fill::Normal, 0), fill(bias, rng, Fill::Normal);
          const Expected want =
              expectBiasAct(multiply(a, false, b, true, s.m, s.n, s.k), bias, activation, out, Fill::Normal);
          auto da = upload(a.values), db = upload(b.values), dbias = upload(bias);
          for (const Setting &setting : settings(target, seeds())) {
            out.values.poison();
            auto dout = upload(out.values);
            CHECK(p.run({uint32_t(tilesOf(c, s))},
                        {a.argument(da), b.argument(db), dbias, out.argument(dout), s.m, s.n, s.k}, setting) == "");
            download(out.values, dout);
            std::string wrong = mismatch(out.values, want, out.ld);
            CHECK_MESSAGE(wrong == "", setting.text(), " ", wrong);
          }
        }
      }
}
