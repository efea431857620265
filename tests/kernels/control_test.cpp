// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Control flow and the program grid, functions and tuples, compile-time loops and branches, and device_print.
#include "operations.h"

using namespace operations;

namespace {
std::string number(int64_t v) {
  return std::to_string(v);
}

/// One program for each of n values of i: o[i] = what `body` leaves in `r`, which the host computes with `reference`.
void scalars(const std::string &before, const std::string &body, const std::function<int64_t(int64_t)> &reference,
             uint32_t n = 24) {
  Array out("i64", n);
  std::vector<uint64_t> want;
  for (uint32_t i = 0; i < n; ++i) want.push_back(uint64_t(reference(i)));
  Job job{before + "kernel k(o: *i64) launch(num_warps = 2) {\n  let i = program_id(0);\n" + body +
              "  store(o + i, r.to(i64));\n}\n",
          {},
          {},
          {&out},
          {},
          {n}};
  execute(job, [&](const std::string &where) { expectBits(out, want, where + "\n" + body); });
}
} // namespace

TEST_CASE("control: program ids and counts in three dimensions") {
  Array out("i32", 2 * 3 * 5 * 8);
  std::vector<uint64_t> want;
  for (int z = 0; z < 2; ++z)
    for (int y = 0; y < 3; ++y)
      for (int x = 0; x < 5; ++x)
        for (int v : {x, y, z, 5, 3, 2, 4, x + y * 10 + z * 100}) want.push_back(uint64_t(v));
  Job job{
      "kernel k(o: *i32) launch(num_warps = 4) {\n  let (x, y, z) = (program_id(0), program_id(1), program_id(2));\n"
      "  let p = o + ((z * num_programs(1) + y) * num_programs(0) + x) * 8;\n"
      "  store(p, x); store(p + 1, y); store(p + 2, z); store(p + 3, num_programs(0)); store(p + 4, num_programs(1)); "
      "store(p + 5, num_programs(2));\n"
      "  store(p + 6, num_warps()); store(p + 7, x + y * 10 + z * 100);\n}\n",
      {},
      {},
      {&out},
      {},
      {5, 3, 2}};
  execute(job, [&](const std::string &where) { expectBits(out, want, where); });
  job.grid = {5, 0, 2}; // launches nothing
  execute(job, [&](const std::string &where) { expectBits(out, std::vector<uint64_t>(out.count, 0xa5a5a5a5), where); });
}

TEST_CASE("control: while, break, continue, early return") {
  scalars("",
          "  var (x, r) = (i + 1, 0);\n  while x != 1 && r < 1000 {\n    if x % 2 == 0 { x /= 2; } else { x = 3 * x + "
          "1; }\n    r += 1;\n  }\n",
          [](int64_t i) {
            int64_t x = i + 1, r = 0;
            for (; x != 1; ++r) x = x % 2 ? 3 * x + 1 : x / 2;
            return r;
          });
  scalars("",
          "  var r = 0;\n  for j in range(100) {\n    if j == i { break; }\n    if j % 3 == 1 { continue; }\n    r += "
          "j;\n  }\n",
          [](int64_t i) {
            int64_t r = 0;
            for (int64_t j = 0; j < i; ++j) r += j % 3 == 1 ? 0 : j;
            return r;
          });
  scalars(
      "",
      "  var r = 0;\n  for a in range(6) {\n    for b in range(a, 6) {\n      if b == i % 7 { continue; }\n      var c "
      "= b;\n      while true {\n        if c > 10 { break; }\n        c += a + 1;\n        r += 1;\n      }\n"
      "      if r > 60 { break; }\n    }\n    r += 100 * a;\n    if a == i % 5 { break; }\n  }\n",
      [](int64_t i) {
        int64_t r = 0;
        for (int64_t a = 0; a < 6; ++a) {
          for (int64_t b = a; b < 6; ++b) {
            if (b == i % 7) continue;
            for (int64_t c = b; c <= 10;) c += a + 1, ++r;
            if (r > 60) break;
          }
          r += 100 * a;
          if (a == i % 5) break;
        }
        return r;
      });
  scalars("fn find(n) {\n  if n == 0 { return 1000; }\n  var s = 0;\n  for j in range(50) {\n    s += j;\n    if s >= "
          "n * 7 {\n      if j % 2 == 0 { return s; }\n      return -s;\n    }\n  }\n  return s + 5000;\n}\n",
          "  let r = find(i * 9);\n", [](int64_t i) {
            if (i == 0) return int64_t(1000);
            int64_t s = 0;
            for (int64_t j = 0; j < 50; ++j) {
              s += j;
              if (s >= i * 63) return j % 2 ? -s : s;
            }
            return s + 5000;
          });
  // A kernel that returns early leaves the rest unwritten.
  Array out("i32", 16);
  std::vector<uint64_t> want;
  for (size_t i = 0; i < 16; ++i) want.push_back(i % 4 == 1 ? 7 : i % 4 == 2 ? 0xa5a5a5a5 : i);
  Job job{"kernel k(o: *i32) launch(num_warps = 4) {\n  let i = program_id(0);\n  if i % 4 == 2 { return; }\n  for j "
          "in range(5) {\n    if i % 4 == 1 && j == 3 {\n      store(o + i, 7);\n      return;\n    }\n  }\n  store(o "
          "+ i, i);\n}\n",
          {},
          {},
          {&out},
          {},
          {16}};
  execute(job, [&](const std::string &where) { expectBits(out, want, where); });
}

TEST_CASE("control: bounds, steps and the ends of the integers") {
  scalars("", "  var r = 0;\n  for j in range(i, 3) { r += j + 1; }\n", [](int64_t i) {
    return i == 0 ? 6 : i == 1 ? 5 : i == 2 ? 3 : 0;
  });
  scalars("", "  var r = 0;\n  for j in range(20, i, -3) { r = r * 3 % 1000003 + j; }\n", [](int64_t i) {
    int64_t r = 0;
    for (int64_t j = 20; j > i; j -= 3) r = r * 3 % 1000003 + j;
    return r;
  });
  scalars("", "  var r = 0;\n  for j in range(0, 40, i - 2) { r += j; }\n",
          [](int64_t i) { // a step that is not positive does not run
            int64_t r = 0;
            for (int64_t j = 0; i > 2 && j < 40; j += i - 2) r += j;
            return r;
          });
  scalars("", "  var r = 0;\n  for j in range(2147483640 + i % 8, 2147483647, 3) { r += 1; }\n",
          [](int64_t i) { return (7 - i % 8 + 2) / 3; });
  scalars("", "  var r = 0;\n  for j in range(-2147483647 + i % 4, -2147483648, -1) { r += 1; }\n",
          [](int64_t i) { return i % 4 + 1; });
  scalars(
      "",
      "  var r = 0.to(i64);\n  for j in range(i.to(i64) * 5000000000, 40000000000, 5000000000) { r += j / 1000; }\n",
      [](int64_t i) {
        int64_t r = 0;
        for (int64_t j = i * 5000000000; j < 40000000000; j += 5000000000) r += j / 1000;
        return r;
      });
  // Bounds are read once; the variable of a loop keeps its value.
  scalars("", "  var (n, r) = (i % 6, 0);\n  for j in range(n) { n += 10; r += j * n; }\n", [](int64_t i) {
    int64_t n = i % 6, r = 0;
    for (int64_t j = 0; j < i % 6; ++j) n += 10, r += j * n;
    return r;
  });
}

TEST_CASE("control: && and || evaluate the right side only if needed") {
  // The right side divides by i.
  scalars("",
          "  var r = 0;\n  if i != 0 && 12 / i == 3 { r = 1; }\n  if i == 0 || 12 % i != 0 { r += 2; }\n  if !(i > 3 "
          "&& i < 10) { r += 4; }\n",
          [](int64_t i) {
            int64_t r = i == 4 || (i != 0 && 12 / i == 3);
            if (i == 0 || 12 % i != 0) r += 2;
            if (!(i > 3 && i < 10)) r += 4;
            return r;
          });
}

TEST_CASE("control: a division in a loop that does not run, or behind a branch in one, is not computed") {
  scalars("",
          "  var r = 7;\n  for j in range(i) { r += 100 / i + j % i + cdiv(j, i); }\n"
          "  for j in range(3) {\n    if i != 0 { r += (100 + j) / i; }\n  }\n",
          [](int64_t i) {
            int64_t r = 7;
            for (int64_t j = 0; j < i; ++j) r += 100 / i + j % i + (j + i - 1) / i;
            for (int64_t j = 0; i && j < 3; ++j) r += (100 + j) / i;
            return r;
          });
}

TEST_CASE("control: functions, tuples, defaults, compile-time parameters") {
  scalars(
      "fn divmod(a, b) { return (a / b, a % b); }\nfn swap(p, q) { return (q, p); }\n"
      "fn poly(x, const N: i32, scale = 2) {\n  var r = 0;\n  static for j in range(N) { r = r * x + j * scale; }\n  "
      "return r;\n}\n"
      "fn apply(x, const F) { return F(x, 3); }\nfn times(a, b) { return a * b; }\n",
      "  var (a, b) = divmod(i * 7 - 40, 5);\n  (a, b) = swap(a, b);\n  (a, b) = (b, a);\n  let (_, q) = swap(b, i);\n"
      "  let r = a * 1000 + b * 100 + poly(i % 4, 4) + poly(x = 2, N = 3, scale = i) + q;\n",
      [](int64_t i) {
        int64_t v = i * 7 - 40, a = v >= 0 ? v / 5 : -((-v + 4) / 5), b = v - a * 5;
        auto poly = [](int64_t x, int n, int64_t scale) {
          int64_t r = 0;
          for (int j = 0; j < n; ++j) r = r * x + j * scale;
          return r;
        };
        return a * 1000 + b * 100 + poly(i % 4, 4, 2) + poly(2, 3, i) + b;
      });
}

TEST_CASE("control: tiles through branches, loops and tuples") {
  Rng rng(1);
  Array x("f32", 12 * 64), y("f32", 6 * 12 * 64), z("i32", 6 * 64);
  x.integers(rng, -9, 9);
  std::vector<double> wantY;
  std::vector<uint64_t> wantZ;
  for (int i = 0; i < 6; ++i) {
    std::vector<double> a, b(x.count, 0.0);
    for (size_t e = 0; e < x.count; ++e) a.push_back(x.value(e));
    std::vector<int> n(64, 0);
    for (int j = 0; j < i; ++j) {
      if (j == 3) continue;
      for (size_t e = 0; e < a.size(); ++e) {
        if (j % 2 == 0)
          a[e] = a[e] + double(e % 64), b[e] += a[e];
        else
          std::swap(a[e], b[e]);
      }
      for (size_t c = 0; c < 64; ++c) n[c] += j;
      if (j == 4) break;
    }
    for (size_t e = 0; e < a.size(); ++e) wantY.push_back(a[e] - b[e]);
    for (int v : n) wantZ.push_back(uint64_t(v));
  }
  for (int warps : {1, 4}) {
    Job job{"kernel k(x: *f32, y: *f32, z: *i32) launch(num_warps = " + number(warps) +
                ") {\n  let (r, c) = (arange(0, 12)[:, None], arange(0, 64)[None, :]);\n  let i = program_id(0);\n"
                "  var (a, b) = (load(x + r * 64 + c), zeros([12, 64], f32));\n  var n = zeros([64], i32);\n  for j in "
                "range(i) {\n    if j == 3 { continue; }\n"
                "    if j % 2 == 0 {\n      a += c.to(f32);\n      b += a;\n    } else {\n      (a, b) = (b, a);\n    "
                "}\n    n += j;\n    if j == 4 { break; }\n  }\n"
                "  store(y + i * 768 + r * 64 + c, a - b); store(z + i * 64 + arange(0, 64), n);\n}\n",
            {},
            {&x},
            {&y, &z},
            {},
            {6}};
    execute(job, [&](const std::string &where) { expectClose(y, wantY, 0, 0, where), expectBits(z, wantZ, where); });
  }
}

TEST_CASE("control: compile-time branches and unrolled loops") {
  for (int mode = 0; mode < 3; ++mode) {
    Array out("i32", 4 * 16);
    std::vector<uint64_t> want;
    for (int row = 0; row < 4; ++row)
      for (int c = 0; c < 16; ++c)
        want.push_back(uint64_t(mode == 0 ? row : mode == 1 ? row * c : c - row) & 0xffffffff);
    Job job{"const ROWS = 4;\nkernel k<MODE: i32, T: dtype = i32>(o: *T) launch(num_warps = 1) {\n  static_assert(ROWS "
            "* 2 == 8 && bytes_of(T) == 4, \"rows\");\n  let c = arange(0, 16);\n"
            "  static for row in range(ROWS) {\n    if MODE == 0 {\n      store(o + row * 16 + c, full([16], row, "
            "T));\n    } else if MODE == 1 {\n      store(o + row * 16 + c, c * row);\n    } else {\n      store(o + "
            "row * 16 + c, c - row);\n    }\n"
            "    if MODE == 7 { store(o, no_such_name(1)); }\n  }\n}\n",
            {{"MODE", number(mode)}},
            {},
            {&out},
            {}};
    execute(job, [&](const std::string &where) { expectBits(out, want, where + " mode " + number(mode)); });
  }
}

TEST_CASE("control: reductions and barriers inside uniform branches") {
  Rng rng(2);
  Array x("f32", 8 * 512), y("f32", 8);
  x.integers(rng, -50, 50);
  std::vector<double> want;
  for (size_t i = 0; i < 8; ++i) {
    double sum = 0, top = -INFINITY;
    for (size_t c = 0; c < 512; ++c) sum += x.value(i * 512 + c), top = std::max(top, x.value(i * 512 + c));
    double v = sum;
    int steps = 0;
    while (v > -200 && steps < 6) v -= top, ++steps;
    want.push_back(i % 2 ? v + steps : top);
  }
  Job job{"kernel k(x: *f32, y: *f32) launch(num_warps = 8) {\n  let i = program_id(0);\n  let t = load(x + i * 512 + "
          "arange(0, 512));\n"
          "  if i % 2 == 1 {\n    var (v, steps) = (sum(t), 0);\n    while v > -200.0 && steps < 6 {\n      v -= "
          "max(t, axis = 0);\n      steps += 1;\n    }\n    store(y + i, v + steps.to(f32));\n"
          "  } else {\n    store(y + i, max(t, axis = 0));\n  }\n}\n",
          {},
          {&x},
          {&y},
          {},
          {8}};
  execute(job, [&](const std::string &where) { expectClose(y, want, 0, 0, where); });
}

// A scalar that a loop or a branch depends on is the same in all threads, also where a combiner rounds differently by
// order.
TEST_CASE("control: a branch on the scalar of an order-dependent reduction is uniform") {
  Rng rng(3);
  Array x("f32", 512), y("i32", 256);
  x.normal(rng);
  Job job{"fn blend(a, b) { return (a * 3.0 + b * 5.0) * 0.125; }\nkernel k(x: *f32, y: *i32) launch(num_warps = 8) "
          "{\n  let t = load(x + arange(0, 512));\n"
          "  let v = reduce(t, 0, blend);\n  let bits = bitcast(v, i32);\n  var n = 0;\n  while n < bits % 7 {\n    n "
          "+= 1;\n    if sum(t * n.to(f32)) == 123456.0 { break; }\n  }\n  store(y + arange(0, 256), full([256], bits "
          "* 8 + n));\n}\n",
          {},
          {&x},
          {&y},
          {}};
  execute(job, [&](const std::string &where) { expectBits(y, std::vector<uint64_t>(256, y.raw(0)), where); });
}

TEST_CASE("prints: device_print on the simulator") {
  if (!onSimulator()) return;
  Array x("f32", 4);
  for (size_t i = 0; i < 4; ++i) x.set(i, double(i) * 1.5 - 1);
  std::string printed;
  Job job{"kernel k(x: *f32, n: i32) launch(num_warps = 4) {\n  device_print(\"n %d, hex %x, 100%%, %u, flag %d\\n\", "
          "n, n + 250, (3).to(u32), n > 2);\n"
          "  device_print(\"f %f e %e g %g\\n\", 0.5 * n.to(f32), n.to(f64), load(x + 1));\n  device_print(\"tile "
          "%g\\n\", load(x + arange(0, 4)));\n}\n",
          {},
          {&x},
          {},
          {5}};
  job.printed = &printed;
  execute(job, [&](const std::string &where) {
    CHECK_MESSAGE(printed.find("n 5, hex ff, 100%, 3, flag 1") != std::string::npos, where, printed);
    CHECK_MESSAGE(printed.find("f 2.500000 e 5.000000e+00 g 0.5") != std::string::npos, where, printed);
    size_t lines = 0;
    for (const char *value : {"-1", "0.5", "2", "3.5"}) {
      for (size_t at = 0; (at = printed.find("tile " + std::string(value), at)) != std::string::npos; ++at) ++lines;
      CHECK_MESSAGE(printed.find(value) != std::string::npos, where, printed);
    }
    CHECK_MESSAGE(std::count(printed.begin(), printed.end(), '\n') >= 6, where,
                  printed); // once a program, not once a thread
    CHECK_MESSAGE(std::count(printed.begin(), printed.end(), '\n') <= 8, where, printed);
  });
}
