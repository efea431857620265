// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <doctest/doctest.h>

#include "harness.h"

using namespace harness;

TEST_CASE("vector_add") {
  for (const std::string &target : targets()) {
    CAPTURE(target);
    for (const char *type : {"f32", "f16", "bf16", "i32", "i64", "u8", "f64"}) {
      CAPTURE(type);
      bool facts = std::string(type) == "f32";
      for (int f = 0; f <= int(facts); ++f) {
        CompileSpec spec{"vector_add.tlx", "vector_add", {{"BLOCK", "256"}, {"T", type}}, {}};
        if (f) spec.facts = {"aligned(x, 16)", "aligned(y, 16)", "aligned(out, 16)", "n % 16 == 0"};
        Program p = compile(spec, target);
        for (int n : f ? std::vector<int>{16, 1024, 1040} : std::vector<int>{0, 1, 255, 256, 257, 1000}) {
          CAPTURE(n);
          Rng rng(n + 17);
          Tensor x(type, n), y(type, n), out(type, n);
          fill(x, rng, Fill::Integers, 50), fill(y, rng, Fill::Integers, 50);
          std::vector<double> want;
          for (int i = 0; i < n; ++i) want.push_back(x.get(i) + y.get(i));
          auto dx = upload(x), dy = upload(y);
          for (const Setting &s : settings(target, seeds())) {
            out.poison();
            auto dout = upload(out);
            CHECK(p.run({uint32_t((n + 255) / 256)}, {dx, dy, dout, n}, s) == "");
            download(out, dout);
            Worst w = compare(out, want, 0, 0);
            CHECK_MESSAGE(w.ratio == 0, s.text(), ": ", w.text());
          }
        }
      }
    }
  }
}

TEST_CASE("a broken fact is an error that names it") {
  Program p = compile({"vector_add.tlx", "vector_add", {{"BLOCK", "256"}}, {"n % 16 == 0"}}, targets()[0]);
  Tensor x("f32", 64);
  auto d = upload(x);
  std::string problem = p.run({1}, {d, d, d, 17}, {targets()[0]});
  CHECK(problem.find("n % 16 == 0") != std::string::npos);
}
