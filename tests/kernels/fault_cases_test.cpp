// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Faults that users of such compilers reported, as small inputs with their right answers: blocked kernels on every target. Hand-written
// schedules are in fault_tasks_test.cpp. All numbers are small integers, so every result is exact.
#include <doctest/doctest.h>

#include "harness.h"

using namespace harness;

namespace {
using Values = std::vector<double>;

/// 128 threads, where what one thread stores must not be loaded by another that holds a copy.
std::string warpsOf128(const std::string &target) {
  return target[0] == 'g' ? "2" : "4";
}

/// Runs `text` on every target under every schedule; `x` is its first argument, `y` (poisoned) its second. A parameter W is warpsOf128.
void check(const std::string &text, std::vector<std::pair<std::string, std::string>> params, const std::string &type,
           const Values &x, const std::string &outType, const Values &want, std::vector<tlx::Arg> scalars,
           const std::vector<std::string> &facts = {}, unsigned programs = 1) {
  for (const std::string &target : targets()) {
    CAPTURE(target);
    auto all = params;
    if (text.find("W: i32>") != std::string::npos) all.emplace_back("W", warpsOf128(target));
    Program p = compileText(text, {"fault.tlx", "k", all, facts}, target);
    Tensor in(type, x.size()), out(outType, want.size());
    for (size_t i = 0; i < x.size(); ++i) in.set(i, x[i]);
    auto dx = upload(in);
    for (const Setting &s : settings(target, seeds())) {
      out.poison();
      auto dy = upload(out);
      std::vector<tlx::Arg> args{dx, dy};
      args.insert(args.end(), scalars.begin(), scalars.end());
      CHECK_MESSAGE(p.run({programs}, args, s) == "", s.text());
      download(out, dy);
      const Worst w = compare(out, want, 0, 0);
      CHECK_MESSAGE(w.ratio == 0, s.text(), ": ", w.text());
    }
  }
}
std::vector<std::pair<std::string, std::string>> stages(int n) {
  return {{"S", std::to_string(n)}};
}
} // namespace

TEST_CASE("fault cases: a pipelined load that only a branch uses") {
  // A use in a later stage must not find the slot filled again.
  Values x(17), want(17);
  for (int i = 0; i < 17; ++i) x[size_t(i)] = i, want[size_t(i)] = i + 1;
  for (int s : {1, 2, 3, 4})
    check(R"(kernel k<S: i32>(x: *i32, y: *i32, flag: i32, n: i32) launch(num_warps = 4) {
  for i in range(0, n, num_stages = S) {
    let at = load(x + i);
    if flag != 0 { store(y + at, i + 1); }
  }
})",
          stages(s), "i32", x, "i32", want, {1, 17});
  // The same with tiles, which go through shared memory.
  Values tiles(17 * 256), sums(17 * 256);
  for (size_t i = 0; i < tiles.size(); ++i) tiles[i] = double(i % 17 * 256 + i / 17), sums[i] = 0;
  for (size_t i = 0; i < tiles.size(); ++i) sums[size_t(tiles[i])] = double(i / 256) + 1;
  for (int s : {1, 2, 3, 4})
    check(R"(kernel k<S: i32>(x: *i32, y: *i32, flag: i32, n: i32) launch(num_warps = 4) requires(aligned(x, 16)) {
  for i in range(0, n, num_stages = S) {
    let at = load(x + i * 256 + arange(0, 256));
    if flag != 0 { store(y + at, full([256], i + 1)); }
  }
})",
          stages(s), "i32", tiles, "i32", sums, {1, 17});
}

TEST_CASE("fault cases: what was just stored is loaded, directly, by another name, and through an atomic") {
  const size_t n = 4 * 4096;
  const Values zeros(n, 0);
  for (int s : {1, 2, 3, 4}) {
    CAPTURE(s);
    check(R"(kernel k<S: i32, W: i32>(a: *f32, y: *f32, rows: i32) launch(num_warps = W) {
  let r = arange(0, 128);
  for p in range(0, rows) {
    for i in range(0, 4096, 128, num_stages = S) {
      let value = (r + i + p).to(f32);
      store(a + p * 4096 + i + r, value);
      store(y + p * 4096 + i + r, load(a + p * 4096 + i + r) - value);
    }
  }
})",
          stages(s), "f32", Values(n, -1), "f32", zeros, {4});
    check(R"(kernel k<S: i32, W: i32>(a: *f32, y: *f32, rows: i32) launch(num_warps = W) {
  let r = arange(0, 128);
  for p in range(0, rows) {
    for i in range(0, 4096, 128, num_stages = S) {
      let value = (r + i + p).to(f32);
      let before = atomic_add(a + p * 4096 + i + r, value);
      store(y + p * 4096 + i + r, load(a + p * 4096 + i + r) - (before + value));
    }
  }
})",
          stages(s), "f32", Values(n, -1), "f32", zeros, {4});
  }
  // Two arguments that point to the same memory.
  for (const std::string &target : targets())
    for (int s : {1, 2, 3, 4}) {
      CAPTURE(target);
      CAPTURE(s);
      Program p = compileText(R"(kernel k<S: i32, W: i32>(a: *f32, b: *f32, y: *f32, rows: i32) launch(num_warps = W) {
  let r = arange(0, 128);
  for p in range(0, rows) {
    for i in range(0, 4096, 128, num_stages = S) {
      let value = (r + i + p).to(f32);
      store(a + p * 4096 + i + r, value);
      store(y + p * 4096 + i + r, load(b + p * 4096 + i + r) - value);
    }
  }
})",
                              {"fault.tlx", "k", {{"S", std::to_string(s)}, {"W", warpsOf128(target)}}, {}}, target);
      Tensor a("f32", n), y("f32", n);
      for (size_t i = 0; i < n; ++i) a.set(i, -1);
      for (const Setting &setting : settings(target, seeds())) {
        auto da = upload(a);
        y.poison();
        auto dy = upload(y);
        CHECK_MESSAGE(p.run({1}, {da, da, dy, 4}, setting) == "", setting.text());
        download(y, dy);
        const Worst w = compare(y, zeros, 0, 0);
        CHECK_MESSAGE(w.ratio == 0, setting.text(), ": ", w.text());
      }
    }
}

TEST_CASE("fault cases: a product of the transposed result of another") {
  // dv = (q kᵀ)ᵀ dₒ, the inner one rounded to the operands' type: small integers stay exact in f16.
  for (int d : {64, 128}) {
    CAPTURE(d);
    const size_t m = 64, dim = size_t(d);
    Rng rng(uint64_t(d) + 7);
    Values x(3 * m * dim);
    for (double &v : x) v = double(rng.integer(-1, 1));
    auto q = [&](size_t i, size_t j) { return x[i * dim + j]; };
    auto k = [&](size_t i, size_t j) { return x[(m + i) * dim + j]; };
    auto o = [&](size_t i, size_t j) { return x[(2 * m + i) * dim + j]; };
    Values scores(m * m), want(m * dim);
    for (size_t i = 0; i < m; ++i)
      for (size_t j = 0; j < m; ++j)
        for (size_t l = 0; l < dim; ++l) scores[i * m + j] += q(i, l) * k(j, l);
    for (size_t i = 0; i < m; ++i)
      for (size_t j = 0; j < dim; ++j)
        for (size_t l = 0; l < m; ++l) want[i * dim + j] += scores[l * m + i] * o(l, j);
    check(R"(kernel k<D: i32>(x: *f16, y: *f32) launch(num_warps = 4) requires(aligned(x, 16)) {
  let at = arange(0, 64)[:, None] * D + arange(0, D)[None, :];
  let scores = dot(load(x + at), load(x + 64 * D + at).T);
  store(y + at, dot(scores.to(f16).T, load(x + 128 * D + at)));
})",
          {{"D", std::to_string(d)}}, "f16", x, "f32", want, {});
  }
}

TEST_CASE("fault cases: edges of blocks on their way to memory") {
  // Rows that end inside of 16 bytes: what lies between rows keeps its bytes. (A stride that is no multiple of 16 bytes is refused, see
  // refusals_test.cpp.)
  struct Rows {
    const char *type;
    int columns, pitch;
  };
  for (const Rows &rows : {Rows{"i8", 466, 480}, {"i16", 470, 472}, {"f16", 511, 512}})
    for (const std::string &target : targets()) {
      CAPTURE(target);
      CAPTURE(rows.type);
      Program p = compileText(R"(kernel k<T: dtype>(c: tensor_desc<T, [16, 64]>, columns: i32) launch(num_warps = 4) {
  for n in range(0, columns, 64) {
    let r = arange(0, 16)[:, None] + arange(0, 64)[None, :];
    c.store([0, n], (r % 7).to(T));
  }
})",
                              {"fault.tlx", "k", {{"T", rows.type}}, {}}, target);
      const size_t pitch = size_t(rows.pitch), columns = size_t(rows.columns);
      Tensor c(rows.type, 16 * pitch);
      Values want(16 * pitch);
      for (size_t i = 0; i < want.size(); ++i) {
        c.set(i, 90);
        want[i] = i % pitch < columns ? double((i / pitch + i % pitch % 64) % 7) : 90;
      }
      for (const Setting &setting : settings(target, seeds())) {
        auto dc = upload(c);
        CHECK_MESSAGE(p.run({1}, {tensor(dc, c, {16, rows.columns}, {rows.pitch, 1}), rows.columns}, setting) == "",
                      setting.text());
        Tensor got(rows.type, 16 * pitch);
        download(got, dc);
        const Worst w = compare(got, want, 0, 0);
        CHECK_MESSAGE(w.ratio == 0, setting.text(), ": ", w.text());
      }
    }
  // 100 of 128 numbers, in one dimension.
  for (const std::string &target : targets()) {
    CAPTURE(target);
    Program p = compileText(R"(kernel k(c: tensor_desc<f32, [128]>) launch(num_warps = 4) {
  c.store([0], arange(0, 128).to(f32));
})",
                            {"fault.tlx", "k", {}, {}}, target);
    Tensor c("f32", 128);
    for (size_t i = 0; i < 128; ++i) c.set(i, 90);
    Values want(128, 90);
    for (size_t i = 0; i < 100; ++i) want[i] = double(i);
    for (const Setting &setting : settings(target, seeds())) {
      auto dc = upload(c);
      CHECK_MESSAGE(p.run({1}, {tensor(dc, c, {100})}, setting) == "", setting.text());
      Tensor got("f32", 128);
      download(got, dc);
      const Worst w = compare(got, want, 0, 0);
      CHECK_MESSAGE(w.ratio == 0, setting.text(), ": ", w.text());
    }
  }
}

TEST_CASE("fault cases: one block stored again and again") {
  // In a loop, in a loop around another, and by several operations: the last store is the one that stays.
  for (const char *body :
       {"for i in range(0, n) { c.store([0, 0], full([16, 64], i).to(f32)); }",
        "for i in range(0, n) { for m in range(0, 2) { c.store([16 * m, 0], full([16, 64], i).to(f32)); } }",
        "for i in range(0, n) { c.store([0, 0], full([16, 64], 90.0)); c.store([0, 0], full([16, 64], i).to(f32)); }"})
    for (const std::string &target : targets()) {
      CAPTURE(target);
      CAPTURE(std::string(body));
      Program p = compileText(
          std::string("kernel k(c: tensor_desc<f32, [16, 64]>, n: i32) launch(num_warps = 4) {\n  ") + body + "\n}",
          {"fault.tlx", "k", {}, {}}, target);
      Tensor c("f32", 16 * 64);
      const Values want(16 * 64, 6);
      for (const Setting &setting : settings(target, seeds())) {
        c.poison();
        auto dc = upload(c);
        CHECK_MESSAGE(p.run({1}, {tensor(dc, c, {16, 64}), 7}, setting) == "", setting.text());
        download(c, dc);
        const Worst w = compare(c, want, 0, 0);
        CHECK_MESSAGE(w.ratio == 0, setting.text(), ": ", w.text());
      }
    }
}
