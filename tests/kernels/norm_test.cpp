// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// layer_norm and rms_norm, both forms of each, against float64.
#include <doctest/doctest.h>

#include "references.h"

using namespace harness;

namespace {
struct Norm {
  const char *file, *kernel;
  bool centred; // layer_norm: subtracts the mean, adds a bias
};
const Norm kLayer{"layer_norm.tlx", "layer_norm", true}, kLayerLong{"layer_norm.tlx", "layer_norm_long", true};
const Norm kRms{"rms_norm.tlx", "rms_norm", false}, kRmsLong{"rms_norm.tlx", "rms_norm_long", false};
constexpr double kEps = 1e-5;

CompileSpec spec(const Norm &norm, int block, const std::string &type, const std::string &weightType, int warps,
                 bool facts) {
  CompileSpec s{norm.file,
                norm.kernel,
                {{"BLOCK", std::to_string(block)}, {"T", type}, {"W", weightType}, {"WARPS", std::to_string(warps)}},
                {}};
  if (facts)
    s.facts = {"aligned(x, 16)", "aligned(weight, 16)", "aligned(y, 16)", "cols % 16 == 0", "stride % 16 == 0"};
  if (facts && norm.centred) s.facts.push_back("aligned(bias, 16)");
  return s;
}

void run(const Norm &norm, const Program &p, const std::string &target, const std::string &type,
         const std::string &weightType, int rows, int cols, int stride, unsigned seeds, double offset = 0) {
  CAPTURE(norm.kernel);
  CAPTURE(rows);
  CAPTURE(cols);
  CAPTURE(stride);
  CAPTURE(offset);
  Rng rng(rows * 1000 + cols);
  Tensor x(type, size_t(rows) * stride), y(type, size_t(rows) * stride), weight(weightType, cols),
      bias(weightType, cols);
  for (size_t i = 0; i < x.count(); ++i) x.set(i, rng.normal() + offset);
  fill(weight, rng, Fill::Normal), fill(bias, rng, Fill::Normal);
  const Expected want = expectNorm(x, weight, norm.centred ? &bias : nullptr, rows, cols, stride, kEps);
  auto dx = upload(x), dw = upload(weight), db = upload(bias);
  for (const Setting &s : settings(target, seeds)) {
    y.poison();
    auto dy = upload(y);
    std::vector<tlx::Arg> args{dx, dw};
    if (norm.centred) args.push_back(db);
    for (const tlx::Arg &a : std::vector<tlx::Arg>{dy, cols, stride, kEps}) args.push_back(a);
    CHECK(p.run({uint32_t(rows)}, args, s) == "");
    download(y, dy);
    std::string wrong = mismatch(y, want, stride);
    CHECK_MESSAGE(wrong == "", s.text(), " ", wrong);
  }
}
} // namespace

TEST_CASE("layer_norm and rms_norm of rows that fit a block") {
  for (const std::string &target : targets())
    for (const Norm &norm : {kLayer, kRms})
      for (auto [type, weightType] :
           {std::array<const char *, 2>{"f32", "f32"}, {"f16", "f16"}, {"bf16", "bf16"}, {"bf16", "f32"}})
        for (int warps : {1, 4}) {
          CAPTURE(target);
          CAPTURE(type);
          CAPTURE(weightType);
          CAPTURE(warps);
          unsigned count = warps == 1 ? 1 : seeds();
          Program p = compile(spec(norm, 512, type, weightType, warps, false), target);
          run(norm, p, target, type, weightType, 3, 512, 512, count);
          run(norm, p, target, type, weightType, 1, 1, 1, count);
          run(norm, p, target, type, weightType, 2, 389, 400, count);
          run(norm, p, target, type, weightType, 0, 100, 100, count);
          run(norm, compile(spec(norm, 512, type, weightType, warps, true), target), target, type, weightType, 2, 400,
              416, count);
        }
}

TEST_CASE("layer_norm and rms_norm of rows longer than a block") {
  for (const std::string &target : targets())
    for (const Norm &norm : {kLayerLong, kRmsLong})
      for (const char *type : {"f32", "bf16"}) {
        CAPTURE(target);
        CAPTURE(type);
        Program p = compile(spec(norm, 256, type, type, 4, false), target);
        for (auto [rows, cols, stride] :
             {std::array<int, 3>{2, 1000, 1003}, {2, 256, 256}, {1, 1, 1}, {3, 257, 257}, {0, 300, 300}})
          run(norm, p, target, type, type, rows, cols, stride, seeds());
        run(norm, compile(spec(norm, 256, type, type, 2, true), target), target, type, type, 2, 720, 736, seeds());
      }
}

TEST_CASE("layer_norm of rows far from zero keeps the variance") {
  // With mean 1000 and deviation 1, E[x²] - mean² in f32 would be wrong by some percent.
  for (const std::string &target : targets()) {
    CAPTURE(target);
    run(kLayer, compile(spec(kLayer, 512, "f32", "f32", 4, false), target), target, "f32", "f32", 2, 500, 500, 1, 1000);
    run(kLayerLong, compile(spec(kLayerLong, 128, "f32", "f32", 4, false), target), target, "f32", "f32", 2, 1000, 1000,
        1, 1000);
  }
}

TEST_CASE("layer_norm and rms_norm refuse rows longer than their block") {
  for (const Norm &norm : {kLayer, kRms}) {
    Program p = compile(spec(norm, 64, "f32", "f32", 1, false), targets()[0]);
    Tensor x("f32", 65);
    auto d = upload(x);
    std::vector<tlx::Arg> args{d, d};
    if (norm.centred) args.push_back(d);
    for (const tlx::Arg &a : std::vector<tlx::Arg>{d, 65, 65, kEps}) args.push_back(a);
    CHECK(p.run({1}, args, {targets()[0]}).find("cols <= BLOCK") != std::string::npos);
  }
}
