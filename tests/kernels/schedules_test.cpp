// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Pipelines, shared memory and barriers under every schedule: kernels that put the corner cases of the passes next to
// each other. Values are small integers, so results are exact.
#include <algorithm>

#include <doctest/doctest.h>

#include "harness.h"

using namespace harness;

namespace {
/// Compiles `text` for every target and runs it under every schedule; `want` gives the output for the inputs.
struct Case {
  std::string text;
  std::vector<std::pair<std::string, std::string>> params;
  size_t inputs;  // elements of x
  size_t outputs; // elements of y
  std::string inType = "f16", outType = "f32";
  std::vector<tlx::Arg> scalars; // behind x, y
  std::vector<std::string> facts;
};

void check(const Case &c, const std::function<std::vector<double>(const Tensor &)> &reference) {
  for (const std::string &target : targets()) {
    CAPTURE(target);
    Program p = compileText(c.text, {"case.tlx", "k", c.params, c.facts}, target);
    Rng rng(c.inputs + 7 * c.outputs);
    Tensor x(c.inType, c.inputs), y(c.outType, c.outputs);
    fill(x, rng, Fill::Integers, 3);
    auto dx = upload(x);
    std::vector<double> want = reference(x);
    for (const Setting &s : settings(target, seeds())) {
      y.poison();
      auto dy = upload(y);
      std::vector<tlx::Arg> args{dx, dy};
      args.insert(args.end(), c.scalars.begin(), c.scalars.end());
      CHECK_MESSAGE(p.run({1}, args, s) == "", s.text());
      download(y, dy);
      Worst w = compare(y, want, 0, 0);
      CHECK_MESSAGE(w.ratio == 0, s.text(), ": ", w.text());
    }
  }
}

/// x as a matrix of `cols` columns: element, or 0 where it is outside `rows` x `cols`.
double at(const Tensor &x, int64_t row, int64_t col, int64_t cols) {
  return x.get(size_t(row * cols + col));
}
} // namespace

TEST_CASE("schedules: trips fewer than stages") {
  for (const char *type : {"f16", "i8", "f32"}) // copies, through registers, copies of another width
    for (int stages : {2, 3, 5})
      for (int trips : {0, 1, 2, 7}) {
        CAPTURE(type);
        CAPTURE(stages);
        CAPTURE(trips);
        check({R"(
kernel k<T: dtype, ACC: dtype, S: i32>(x: *T, y: *ACC, n: i32) launch(num_warps = 4) requires(aligned(x, 16)) {
    let r = arange(0, 32);
    var p = x + (r[:, None] * 32 + r[None, :]);
    var acc = zeros([32, 32], ACC);
    for i in range(0, n, num_stages = S) {
        let a = load(p);
        acc = dot(a, a.T, acc);
        p = p + 1024;
    }
    store(y + (r[:, None] * 32 + r[None, :]), acc);
})",
               {{"T", type}, {"ACC", std::string(type) == "i8" ? "i32" : "f32"}, {"S", std::to_string(stages)}},
               size_t(std::max(1, trips)) * 1024,
               1024,
               type,
               std::string(type) == "i8" ? "i32" : "f32",
               {trips},
               {}},
              [&](const Tensor &x) {
                std::vector<double> out(1024);
                for (int t = 0; t < trips; ++t)
                  for (int i = 0; i < 32; ++i)
                    for (int j = 0; j < 32; ++j)
                      for (int l = 0; l < 32; ++l)
                        out[i * 32 + j] += at(x, t * 32 + i, l, 32) * at(x, t * 32 + j, l, 32);
                return out;
              });
      }
}

TEST_CASE("schedules: steps, negative, of run time and zero") {
  // The loop's variable in the address, and its bounds unlike 0 .. n.
  const char *text = R"(
kernel k<DOWN: i1>(x: *f32, y: *f32, lo: i32, hi: i32, step: i32) launch(num_warps = 2) {
    let r = arange(0, 128);
    var acc = zeros([128], f32);
    if DOWN {
        for i in range(hi, lo, -3, num_stages = 3) { acc = acc * 2.0 + load(x + i * 128 + r); }
    } else {
        for i in range(lo, hi, step, num_stages = 3) { acc = acc * 2.0 + load(x + i * 128 + r); }
    }
    store(y + r, acc);
})";
  struct {
    bool down;
    int lo, hi, step;
  } list[] = {{false, 2, 11, 3}, {false, 0, 10, 4}, {false, 3, 9, 0}, {false, 3, 9, -1},
              {true, 0, 10, 0},  {true, 5, 5, 0},   {false, 5, 2, 1}};
  for (auto [down, lo, hi, step] : list) {
    CAPTURE(down);
    CAPTURE(lo);
    CAPTURE(hi);
    CAPTURE(step);
    check({text, {{"DOWN", down ? "true" : "false"}}, 12 * 128, 128, "f32", "f32", {lo, hi, step}, {}},
          [=](const Tensor &x) {
            std::vector<double> out(128);
            for (int j = 0; j < 128; ++j) {
              if (down)
                for (int i = hi; i > lo; i -= 3) out[j] = out[j] * 2 + at(x, i, j, 128);
              else if (step > 0)
                for (int i = lo; i < hi; i += step) out[j] = out[j] * 2 + at(x, i, j, 128);
            }
            return out;
          });
  }
}

TEST_CASE("schedules: a loop over 16-bit numbers") {
  check({R"(
kernel k(x: *f32, y: *f32, lo: i16, hi: i16) launch(num_warps = 1) {
    let r = arange(0, 64);
    var acc = zeros([64], f32);
    for i in range(lo, hi, num_stages = 3) { acc = acc * 2.0 + load(x + i.to(i32) * 64 + r); }
    store(y + r, acc);
})",
         {},
         8 * 64,
         64,
         "f32",
         "f32",
         {1, 8},
         {}},
        [](const Tensor &x) {
          std::vector<double> out(64);
          for (int j = 0; j < 64; ++j)
            for (int i = 1; i < 8; ++i) out[j] = out[j] * 2 + at(x, i, j, 64);
          return out;
        });
}

TEST_CASE("schedules: a ring's memory is used again behind its loop") {
  // A reduction across warps in the loop has barriers behind the copies; what follows the loop is at the ring's place.
  check({R"(
kernel k(x: *f16, y: *f32, n: i32) launch(num_warps = 4) requires(aligned(x, 16)) {
    let r = arange(0, 64);
    let offs = r[:, None] * 64 + r[None, :];
    var p = x + offs;
    var acc = zeros([64, 64], f32);
    var total = 0.0;
    for i in range(0, n, num_stages = 4) {
        let a = load(p);
        acc = dot(a, a, acc);
        total = total + sum(sum(acc, axis = 0), axis = 0);
        p = p + 4096;
    }
    let b = load(x + offs).to(f32);
    let positive = where(acc > 0.0, 1.0, 0.0).to(f16);
    store(y + offs, dot(positive.T, positive.T) + b + total);
})",
         {},
         3 * 4096,
         4096,
         "f16",
         "f32",
         {3},
         {}},
        [](const Tensor &x) {
          std::vector<double> acc(4096), out(4096);
          double total = 0;
          for (int t = 0; t < 3; ++t) {
            for (int i = 0; i < 64; ++i)
              for (int j = 0; j < 64; ++j)
                for (int l = 0; l < 64; ++l) acc[i * 64 + j] += at(x, t * 64 + i, l, 64) * at(x, t * 64 + l, j, 64);
            for (double v : acc) total += v;
          }
          for (int i = 0; i < 64; ++i)
            for (int j = 0; j < 64; ++j) {
              out[i * 64 + j] = at(x, i, j, 64) + total;
              for (int l = 0; l < 64; ++l) out[i * 64 + j] += acc[l * 64 + i] > 0 && acc[j * 64 + l] > 0;
            }
          return out;
        });
}

TEST_CASE("schedules: two pipelined loops in sequence, and nested ones") {
  for (bool nested : {false, true}) {
    CAPTURE(nested);
    check({R"(
kernel k<NESTED: i1>(x: *f16, y: *f32, n: i32) launch(num_warps = 4) requires(aligned(x, 16)) {
    let r = arange(0, 32);
    let offs = r[:, None] * 32 + r[None, :];
    var acc = zeros([32, 32], f32);
    if NESTED {
        for i in range(0, n, num_stages = 3) {
            let a = load(x + i * 1024 + offs);
            for j in range(0, i, num_stages = 3) {
                let b = load(x + j * 1024 + offs);
                acc = dot(a, b, acc);
            }
        }
    } else {
        for i in range(0, n, num_stages = 3) {
            let a = load(x + i * 1024 + offs);
            acc = dot(a, a.T, acc);
        }
        for i in range(0, n, num_stages = 2) {
            let a = load(x + i * 1024 + offs);
            acc = dot(a.T, a, acc);
        }
    }
    store(y + offs, acc);
})",
           {{"NESTED", nested ? "true" : "false"}},
           4 * 1024,
           1024,
           "f16",
           "f32",
           {4},
           {}},
          [=](const Tensor &x) {
            std::vector<double> out(1024);
            for (int t = 0; t < 4; ++t)
              for (int i = 0; i < 32; ++i)
                for (int j = 0; j < 32; ++j)
                  for (int l = 0; l < 32; ++l) {
                    if (nested)
                      for (int u = 0; u < t; ++u)
                        out[i * 32 + j] += at(x, t * 32 + i, l, 32) * at(x, u * 32 + l, j, 32);
                    else
                      out[i * 32 + j] += at(x, t * 32 + i, l, 32) * at(x, t * 32 + j, l, 32) +
                                         at(x, t * 32 + l, i, 32) * at(x, t * 32 + l, j, 32);
                  }
            return out;
          });
  }
}

TEST_CASE("schedules: a load for two dots, in a branch, and a carried value that steps the address") {
  // `at` moves the address and is added to the sum; the load is used by two dots, one of them in a branch.
  check({R"(
kernel k(x: *f16, y: *f32, n: i32) launch(num_warps = 4) requires(aligned(x, 16)) {
    let r = arange(0, 32);
    let offs = r[:, None] * 32 + r[None, :];
    var acc = zeros([32, 32], f32);
    var place = 0;
    for i in range(0, n, num_stages = 3) {
        let a = load(x + place * 1024 + offs);
        acc = dot(a, a.T, acc);
        if i % 2 == 1 { acc = dot(a, a, acc); }
        acc = acc + place.to(f32);
        place = (place + 3) % 4;
    }
    store(y + offs, acc);
})",
         {},
         4 * 1024,
         1024,
         "f16",
         "f32",
         {6},
         {}},
        [](const Tensor &x) {
          std::vector<double> out(1024);
          int place = 0;
          for (int t = 0; t < 6; ++t) {
            for (int i = 0; i < 32; ++i)
              for (int j = 0; j < 32; ++j) {
                for (int l = 0; l < 32; ++l)
                  out[i * 32 + j] += at(x, place * 32 + i, l, 32) *
                                     (at(x, place * 32 + j, l, 32) + (t % 2 ? at(x, place * 32 + l, j, 32) : 0));
                out[i * 32 + j] += place;
              }
            place = (place + 3) % 4;
          }
          return out;
        });
}

TEST_CASE("schedules: masked-off elements and `other` in a pipeline") {
  for (const char *other : {"", ", other = 0.0", ", other = -0.0", ", other = 5.0"}) {
    CAPTURE(other);
    check({std::string(R"(
kernel k(x: *f32, y: *f32, n: i32) launch(num_warps = 2) {
    let r = arange(0, 128);
    var acc = full([128], 1.0, f32);
    for i in range(0, n, num_stages = 3) {
        let v = load(x + i * 128 + r, r % 8 < i)") +
               other + R"();
        acc = acc * 2.0 + v + where(1.0 / v < 0.0, 100.0, 0.0) * where(v == 0.0, 1.0, 0.0);
    }
    store(y + r, acc);
})",
           {},
           5 * 128,
           128,
           "f32",
           "f32",
           {5},
           {}},
          [&](const Tensor &x) {
            double zero = std::string(other).find("-0") != std::string::npos  ? -0.0
                          : std::string(other).find('5') != std::string::npos ? 5
                                                                              : 0.0;
            std::vector<double> out(128, 1.0);
            for (int j = 0; j < 128; ++j)
              for (int i = 0; i < 5; ++i) {
                double v = j % 8 < i ? at(x, i, j, 128) : zero;
                out[j] = out[j] * 2 + v + (v == 0 && std::signbit(v) ? 100 : 0);
              }
            return out;
          });
  }
}

TEST_CASE("schedules: a divisor that is zero behind the last iteration") {
  check({R"(
kernel k(x: *f32, y: *f32, n: i32) launch(num_warps = 1) {
    let r = arange(0, 32);
    var acc = zeros([32], f32);
    for i in range(0, n, num_stages = 3) { acc = acc * 2.0 + load(x + 12 / (n - i) * 32 + r / (n - i + 0 * r)); }
    store(y + r, acc);
})",
         {},
         14 * 32,
         32,
         "f32",
         "f32",
         {4},
         {}},
        [](const Tensor &x) {
          std::vector<double> out(32);
          for (int j = 0; j < 32; ++j)
            for (int i = 0; i < 4; ++i) out[j] = out[j] * 2 + x.get(12 / (4 - i) * 32 + j / (4 - i));
          return out;
        });
}

TEST_CASE("schedules: stores in a pipelined loop that the loads may read") {
  // y's rows come from rows before, through pointers that trade places: only the text's order gives the sums.
  check({R"(
kernel k(x: *f32, y: *f32, n: i32) launch(num_warps = 1) requires(noalias(x)) { // no thread but one has an element
    let r = arange(0, 64);
    var from = x + r;
    var to = y + r;
    for i in range(0, n, num_stages = 3) {
        let v = load(from);
        store(to, v + 1.0);
        from = to;
        to = to + 64;
    }
})",
         {},
         64,
         5 * 64,
         "f32",
         "f32",
         {5},
         {}},
        [](const Tensor &x) {
          std::vector<double> out;
          for (int i = 0; i < 5; ++i)
            for (int j = 0; j < 64; ++j) out.push_back(x.get(j) + i + 1);
          return out;
        });
}

TEST_CASE("schedules: buffers in branches and while loops") {
  check({R"(
kernel k(x: *f32, y: *f32, n: i32) launch(num_warps = 4) {
    let r = arange(0, 32);
    let offs = r[:, None] * 32 + r[None, :];
    var v = load(x + offs);
    var steps = 0;
    while sum(sum(v, axis = 1), axis = 0) < 3000.0 && steps < n {
        if steps % 3 == 0 { v = v.T + 1.0; }
        else {
            if steps % 3 == 1 { v = v + sum(v, axis = 0)[None, :] * 0.0 + 1.0; }
            else { v = v + max(v, axis = 1)[:, None]; }
        }
        steps += 1;
    }
    store(y + offs, v.T + steps.to(f32) + sum(v, axis = 0)[:, None]);
})",
         {},
         1024,
         1024,
         "f32",
         "f32",
         {9},
         {}},
        [](const Tensor &x) {
          std::vector<double> v(1024), w(1024);
          for (int i = 0; i < 1024; ++i) v[i] = x.get(i);
          int steps = 0;
          for (;;) {
            double total = 0;
            for (double d : v) total += d;
            if (!(total < 3000 && steps < 9)) break;
            for (int i = 0; i < 32; ++i) {
              double top = -INFINITY;
              for (int j = 0; j < 32; ++j) top = std::max(top, v[i * 32 + j]);
              for (int j = 0; j < 32; ++j)
                w[i * 32 + j] = steps % 3 == 0   ? v[j * 32 + i] + 1
                                : steps % 3 == 1 ? v[i * 32 + j] + 1
                                                 : v[i * 32 + j] + top;
            }
            v = w;
            ++steps;
          }
          for (int i = 0; i < 32; ++i)
            for (int j = 0; j < 32; ++j) {
              w[i * 32 + j] = v[j * 32 + i] + steps;
              for (int l = 0; l < 32; ++l) w[i * 32 + j] += v[l * 32 + i];
            }
          return w;
        });
}

TEST_CASE("schedules: what a while loop's condition reads is not overwritten behind it") {
  check({R"(
kernel k(x: *f32, y: *f32, n: i32) launch(num_warps = 4) {
    let r = arange(0, 32);
    let offs = r[:, None] * 32 + r[None, :];
    var v = load(x + offs);
    while max(max(v, axis = 1), axis = 0) < 9.0 { v = v.T + 1.0; }
    store(y + r, sum(v, axis = 0));
})",
         {},
         1024,
         32,
         "f32",
         "f32",
         {0},
         {}},
        [](const Tensor &x) {
          std::vector<double> v(1024), w(1024), out(32);
          for (int i = 0; i < 1024; ++i) v[i] = x.get(i);
          while (*std::max_element(v.begin(), v.end()) < 9) {
            for (int i = 0; i < 1024; ++i) w[i] = v[i % 32 * 32 + i / 32] + 1;
            v = w;
          }
          for (int i = 0; i < 1024; ++i) out[i % 32] += v[i];
          return out;
        });
}

TEST_CASE("schedules: two instructions for one accumulator") {
  check({R"(
kernel k(x: *f32, y: *f32) launch(num_warps = 4) {
    let r = arange(0, 32);
    let offs = r[:, None] * 32 + r[None, :];
    let a = load(x + offs);
    let h = a.to(f16);
    var acc = dot(h, h);
    acc = dot(a, a, acc, precision = "ieee");
    acc = dot(a, a.T, acc);
    store(y + offs, acc);
})",
         {},
         1024,
         1024,
         "f32",
         "f32",
         {},
         {}},
        [](const Tensor &x) {
          std::vector<double> out(1024);
          for (int i = 0; i < 32; ++i)
            for (int j = 0; j < 32; ++j)
              for (int l = 0; l < 32; ++l) out[i * 32 + j] += at(x, i, l, 32) * (2 * at(x, l, j, 32) + at(x, j, l, 32));
          return out;
        });
}

TEST_CASE("schedules: layouts that a kernel asks for") {
  // On a carried value; with lane and warp bits that move along both dimensions, which no reduction takes as it is; on
  // an accumulator.
  for (const std::string &target : targets()) {
    CAPTURE(target);
    bool wide = target.rfind("gfx", 0) == 0;
    std::string lanes =
        wide ? "[1, 1], [0, 2], [0, 4], [0, 8], [2, 0], [4, 0]" : "[1, 1], [0, 2], [0, 4], [0, 8], [2, 0]";
    std::string registers = wide ? "[0, 1]" : "[0, 1], [4, 0]";
    Program p = compileText(R"(
kernel k(x: *f32, y: *f32, n: i32) launch(num_warps = 4) {
    let r = arange(0, 16);
    let s = arange(0, 32);
    var v = load(x + (s[:, None] * 16 + r[None, :]));
    for i in range(0, n) {
        v = require_layout(v, linear(register = [)" +
                                registers + "], lane = [" + lanes + R"(], warp = [[8, 8], [16, 0]])) + 1.0;
    }
    store(y + r, sum(v, axis = 0));
    store(y + 16 + s, sum(v, axis = 1));
})",
                            {"case.tlx", "k", {}, {}}, target);
    Rng rng(5);
    Tensor x("f32", 512), y("f32", 48);
    fill(x, rng, Fill::Integers, 3);
    auto dx = upload(x);
    std::vector<double> want(48);
    for (int i = 0; i < 32; ++i)
      for (int j = 0; j < 16; ++j) want[j] += x.get(i * 16 + j) + 2, want[16 + i] += x.get(i * 16 + j) + 2;
    for (const Setting &s : settings(target, seeds())) {
      y.poison();
      auto dy = upload(y);
      CHECK(p.run({1}, {dx, dy, 2}, s) == "");
      download(y, dy);
      Worst w = compare(y, want, 0, 0);
      CHECK_MESSAGE(w.ratio == 0, s.text(), ": ", w.text());
    }
  }
}

TEST_CASE("a division by zero is a finding" * doctest::skip(!onSimulator())) {
  for (const std::string &target : targets())
    for (const char *expression : {"n / d", "n % d", "cdiv(n, d)"}) {
      Program p = compileText(std::string("kernel k(y: *i32, n: i32, d: i32) launch(num_warps = 1) {\n    store(y, ") +
                                  expression + ");\n}",
                              {"case.tlx", "k", {}, {}}, target);
      Tensor y("i32", 1);
      auto dy = upload(y);
      CHECK(p.run({1}, {dy, 7, 2}, {target}) == "");
      std::string problem = p.run({1}, {dy, 7, 0}, {target});
      CHECK_MESSAGE(problem.find("case.tlx:2:") != std::string::npos, problem);
      CHECK_MESSAGE(problem.find("division by zero") != std::string::npos, problem);
    }
}

TEST_CASE("a tile may divide by zero in elements that are masked off" * doctest::skip(!onSimulator())) {
  for (const std::string &target : targets()) {
    Program p = compileText("kernel k(x: *i32, y: *i32, n: i32) launch(num_warps = 1) {\n    let r = arange(0, 64);\n"
                            "    let d = load(x + r, r < n);\n    store(y + r, 100 / d, r < n);\n}",
                            {"case.tlx", "k", {}, {}}, target);
    Tensor x("i32", 40), y("i32", 40);
    for (unsigned i = 0; i < 40; ++i) x.set(i, double(i) - 50);
    auto dx = upload(x), dy = upload(y);
    CHECK(p.run({1}, {dx, dy, 40}, {target}) == "");
    download(y, dy);
    for (unsigned i = 0; i < 40; ++i) CHECK(y.get(i) == std::floor(100.0 / (double(i) - 50)));
  }
}

TEST_CASE("a pointer that is stated not to alias and does is an error" * doctest::skip(!onSimulator())) {
  const char *text =
      "kernel k(x: *f32, y: *f32, z: *f32) launch(num_warps = 1) requires(noalias(y)) { store(y, load(x) + load(z)); }";
  Program p = compileText(text, {"case.tlx", "k", {}, {}}, targets()[0]);
  Tensor x("f32", 8);
  auto a = upload(x), b = upload(x);
  CHECK(p.run({1}, {a, b, a}, {targets()[0]}) == "");
  std::string problem = p.run({1}, {a, b, b}, {targets()[0]});
  CHECK_MESSAGE(
      problem.find("requires 'noalias(y)', which does not hold here: 'z' points into the same memory as 'y'") !=
          std::string::npos,
      problem);
}
