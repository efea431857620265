// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <doctest/doctest.h>

#include "references.h"

using namespace harness;

namespace {
void run(const CompileSpec &spec, const std::string &target, const std::string &type, int rows, int cols, int stride,
         unsigned seeds) {
  CAPTURE(rows);
  CAPTURE(cols);
  CAPTURE(stride);
  Program p = compile(spec, target);
  Rng rng(rows * 1000 + cols);
  Tensor x(type, size_t(rows) * stride), y(type, size_t(rows) * stride);
  fill(x, rng, Fill::Normal);
  auto dx = upload(x);
  const Expected want = expectSoftmax(x, rows, cols, stride);
  for (const Setting &s : settings(target, seeds)) {
    y.poison();
    auto dy = upload(y);
    CHECK(p.run({uint32_t(rows)}, {dx, dy, cols, stride}, s) == "");
    download(y, dy);
    std::string wrong = mismatch(y, want, stride);
    CHECK_MESSAGE(wrong == "", s.text(), " ", wrong);
  }
}
} // namespace

TEST_CASE("softmax") {
  for (const std::string &target : targets())
    for (const char *type : {"f32", "f16", "bf16"})
      for (int warps : {1, 4}) {
        CAPTURE(target);
        CAPTURE(type);
        CAPTURE(warps);
        CompileSpec spec{
            "softmax.tlx", "softmax", {{"BLOCK", "512"}, {"T", type}, {"WARPS", std::to_string(warps)}}, {}};
        unsigned count = seeds();
        run(spec, target, type, 3, 512, 512, count);
        run(spec, target, type, 3, 1, 1, count);
        run(spec, target, type, 2, 389, 400, count);
        spec.facts = {"aligned(x, 16)", "aligned(y, 16)", "cols % 16 == 0", "stride % 16 == 0"};
        run(spec, target, type, 2, 400, 416, count);
      }
}

TEST_CASE("softmax of rows longer than a block") {
  for (const std::string &target : targets())
    for (const char *type : {"f32", "bf16"}) {
      CAPTURE(target);
      CAPTURE(type);
      CompileSpec spec{"softmax_long.tlx", "softmax_long", {{"BLOCK", "256"}, {"T", type}}, {}};
      unsigned count = seeds();
      run(spec, target, type, 2, 1000, 1003, count);
      run(spec, target, type, 2, 256, 256, count);
      run(spec, target, type, 1, 1, 1, count);
    }
}

TEST_CASE("softmax refuses rows longer than its block") {
  Program p = compile({"softmax.tlx", "softmax", {{"BLOCK", "64"}}, {}}, targets()[0]);
  Tensor x("f32", 65);
  auto d = upload(x);
  CHECK(p.run({1}, {d, d, 65, 65}, {targets()[0]}).find("cols <= BLOCK") != std::string::npos);
}
