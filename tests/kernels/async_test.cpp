// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// wgmma where the compiler finds it: tiles, types, depths, and where operands come from. Operands are small integers, so that every result
// is exact; outputs are poisoned first, and so is what lies between their rows.
#include "async_testing.h"

using namespace async_testing;

namespace {

// --- one product: tiles, types, depths ---------------------------------------------------------------------------------------

struct Product {
  int64_t m = 64, n = 64, k = 64;
  int stages = 3, warps = 4;
  bool ta = false, tb = false;
  std::string a = "f16", b = "f16", acc = "f32";
};

/// `missing` columns of C: its last block is ragged.
void product(const Product &p, std::vector<int64_t> depths, int64_t missing = 0) {
  const std::string text = replace(R"(
kernel k(a: tensor_desc<$TA, [$AR, $AC]>, b: tensor_desc<$TB, [$BR, $BC]>, c: tensor_desc<$ACC, [$M, $N]>, depth: i32)
    launch(num_warps = $W) {
  var acc = zeros([$M, $N], $ACC);
  for k in range(0, depth, $K, num_stages = $S) {
    acc = dot($LA, $LB, acc);
  }
  c.store([0, 0], acc);
})",
                                   {{"TA", p.a},
                                    {"TB", p.b},
                                    {"ACC", p.acc},
                                    number("M", p.m),
                                    number("N", p.n),
                                    number("K", p.k),
                                    number("S", p.stages),
                                    number("W", p.warps),
                                    number("AR", p.ta ? p.k : p.m),
                                    number("AC", p.ta ? p.m : p.k),
                                    number("BR", p.tb ? p.n : p.k),
                                    number("BC", p.tb ? p.k : p.n),
                                    {"LA", p.ta ? "a.load([k, 0]).T" : "a.load([0, k])"},
                                    {"LB", p.tb ? "b.load([0, k]).T" : "b.load([k, 0])"}});
  for (int64_t depth : depths)
    check({text,
           {},
           {Matrix(p.a, p.ta ? depth : p.m, p.ta ? p.m : depth), Matrix(p.b, p.tb ? p.n : depth, p.tb ? depth : p.n)},
           Matrix(p.acc, p.m, p.n - missing),
           {int32_t(depth)}},
          [&](const std::vector<Matrix> &in, int64_t r, int64_t c) {
            return sum(
                depth, [&](int64_t k) { return p.ta ? in[0](k, r) : in[0](r, k); },
                [&](int64_t k) { return p.tb ? in[1](c, k) : in[1](k, c); });
          });
}

} // namespace

TEST_CASE("async: tiles of every width") {
  for (bool tb : {false, true})
    for (int64_t n : {8, 16, 24, 32, 40, 80, 96, 176, 192, 208, 240, 256}) {
      Product p;
      p.n = n, p.tb = tb, p.k = 32, p.stages = 2;
      product(p, {80});
    }
}

TEST_CASE("async: more columns than one instruction has") {
  for (bool tb : {false, true})
    for (int64_t n : {288, 320, 384, 448, 480}) {
      Product p;
      p.n = n, p.tb = tb, p.k = 32, p.stages = 2;
      product(p, {64});
    }
}

TEST_CASE("async: warpgroups along M and N") {
  struct Tile {
    int64_t m, n;
    int warps;
  };
  for (const Tile &t : {Tile{128, 64, 8},
                        {64, 64, 8},
                        {64, 192, 8},
                        {64, 128, 16},
                        {128, 96, 16},
                        {256, 32, 16},
                        {192, 80, 4},
                        {320, 16, 4},
                        {192, 64, 8}})
    for (bool ta : {false, true})
      for (bool tb : {false, true}) {
        Product p;
        p.m = t.m, p.n = t.n, p.warps = t.warps, p.ta = ta, p.tb = tb, p.k = 32, p.stages = 2;
        product(p, {96});
      }
}

TEST_CASE("async: stages and depths") {
  for (int stages : {2, 3, 4, 5}) {
    Product p;
    p.m = 64, p.n = 32, p.k = 32, p.stages = stages;
    product(p, {0, 1, 32, 33, 32 * (stages - 1), 32 * stages, 32 * (2 * stages + 1) - 5});
  }
  for (int64_t k : {16, 48, 80, 96, 128, 192}) { // of a step; K-major B of the same
    Product p;
    p.n = 32, p.k = k;
    product(p, {4 * k - 7});
    p.tb = true;
    product(p, {4 * k - 7});
  }
}

// Rings that leave no room for the tile that is stored: it goes through shared memory in columns.
TEST_CASE("async: a store without room for its tile") {
  struct Tile {
    int64_t m, n;
    int stages, warps;
  };
  for (const Tile &t : {Tile{128, 256, 4, 8}, {128, 192, 4, 8}, {256, 128, 4, 8}, {64, 256, 5, 4}})
    for (int64_t missing : {0, 3}) { // of the last column's rows: what TMA does not end
      Product p;
      p.m = t.m, p.n = t.n, p.stages = t.stages, p.warps = t.warps;
      product(p, {130}, missing);
    }
}

TEST_CASE("async: types") {
  struct Types {
    const char *a, *b, *acc;
  };
  for (const Types &t : {Types{"bf16", "bf16", "f32"},
                         {"f32", "f32", "f32"},
                         {"f8e4m3", "f8e4m3", "f32"},
                         {"f8e5m2", "f8e5m2", "f32"},
                         {"i8", "i8", "i32"},
                         {"u8", "u8", "i32"}})
    for (int warps : {4, 8}) {
      Product p;
      p.a = t.a, p.b = t.b, p.acc = t.acc, p.tb = true, p.n = 48, p.warps = warps, p.m = warps * 16, p.k = 64;
      product(p, {0, 150});
    }
  for (bool ta : {false, true})
    for (bool tb : {false, true}) {
      Product p;
      p.a = p.b = "bf16", p.ta = ta, p.tb = tb;
      product(p, {150});
    }
}

// Products that wgmma does not do read the same rings by ldmatrix or plain loads.
TEST_CASE("async: rings for other instructions") {
  struct Form {
    const char *type, *acc, *precision;
    int64_t m, n;
    int warps;
  };
  for (const Form &f : {Form{"f16", "f32", "", 32, 32, 1},
                        {"f16", "f32", "", 32, 64, 2},
                        {"bf16", "f32", "", 96, 32, 4},
                        {"f16", "f32", "", 64, 32, 32},
                        {"f32", "f32", ", precision = \"ieee\"", 64, 32, 4},
                        {"f32", "f32", ", precision = \"tf32x3\"", 64, 32, 4},
                        {"f64", "f64", "", 64, 32, 4},
                        {"i8", "i32", "", 32, 64, 2}})
    for (const char *around : {"let t = 0; if true {", "for t in range(0, 2) {"}) {
      const bool loop = around[0] == 'f';
      check({replace(R"(
kernel k(a: tensor_desc<$T, [$M, 32]>, b: tensor_desc<$T, [$N, 32]>, c: tensor_desc<$ACC, [$M, $N]>) launch(num_warps = $W) {
  $O
    var acc = zeros([$M, $N], $ACC);
    for k in range(0, 160, 32, num_stages = 3) { acc = dot(a.load([$M * t, k]), b.load([0, k]).T, acc$P); }
    c.store([$M * t, 0], acc);
  }
})",
                     {{"T", f.type},
                      {"ACC", f.acc},
                      {"P", f.precision},
                      {"O", around},
                      number("M", f.m),
                      number("N", f.n),
                      number("W", f.warps)}),
             {},
             {Matrix(f.type, f.m * (loop + 1), 160), Matrix(f.type, f.n, 160)},
             Matrix(f.acc, f.m * (loop + 1), f.n)},
            [](const std::vector<Matrix> &in, int64_t r, int64_t c) {
              return sum(
                  160, [&](int64_t k) { return in[0](r, k); }, [&](int64_t k) { return in[1](c, k); });
            });
    }
}

// --- where operands come from -------------------------------------------------------------------------------------------------

TEST_CASE("async: operands from registers") {
  const Reference doubled = [](const std::vector<Matrix> &in, int64_t r, int64_t c) {
    return sum(
        96, [&](int64_t k) { return in[0](r, k) + 1; }, [&](int64_t k) { return in[1](k, c) * 2 - 1; });
  };
  for (int warps : {4, 8})
    for (const char *body : {"dot(a.load([0, k]) + 1.0, b.load([k, 0]) * 2.0 - 1.0, acc)",
                             "dot((a.load([0, k]).T + 1.0).T, (b.load([k, 0]).T * 2.0 - 1.0).T, acc)"})
      for (const char *stages : {"", ", num_stages = 3"})
        check({replace(R"(
kernel k(a: tensor_desc<f16, [64, 32]>, b: tensor_desc<f16, [32, 64]>, c: tensor_desc<f32, [64, 64]>) launch(num_warps = $W) {
  var acc = zeros([64, 64], f32);
  for k in range(0, 96, 32$S) { acc = $D; }
  c.store([0, 0], acc);
})",
                       {number("W", warps), {"S", stages}, {"D", body}}),
               {},
               {Matrix("f16", 64, 96), Matrix("f16", 96, 64)},
               Matrix("f32", 64, 64)},
              doubled);
}

TEST_CASE("async: A in registers, other types") {
  for (const char *type : {"bf16", "i8", "u8", "f32", "f8e4m3", "f8e5m2"}) {
    const std::string t = type, acc = t[0] == 'i' || t[0] == 'u' ? "i32" : "f32";
    const bool narrow = t[0] == 'f' && t[1] == '8';
    check({replace(R"(
kernel k(a: tensor_desc<$T, [64, 64]>, b: tensor_desc<$T, [32, 64]>, c: tensor_desc<$ACC, [64, 32]>) launch(num_warps = 4) {
  var acc = zeros([64, 32], $ACC);
  for k in range(0, 128, 64, num_stages = 2) {
    let x = a.load([0, k]);
    acc = dot($X, b.load([0, k]).T, acc);
  }
  c.store([0, 0], acc);
})",
                   {{"T", t}, {"ACC", acc}, {"X", narrow ? "(x.to(f32) + 1.0).to(" + t + ")" : "x + 1"}}),
           {},
           {Matrix(t, 64, 128), Matrix(t, 32, 128)},
           Matrix(acc, 64, 32)},
          [](const std::vector<Matrix> &in, int64_t r, int64_t c) {
            return sum(
                128, [&](int64_t k) { return in[0](r, k) + 1; }, [&](int64_t k) { return in[1](c, k); });
          });
  }
}

// x = A·B; then C = x·V, with x from the accumulator's registers.
TEST_CASE("async: chains of dots") {
  for (int warps : {4, 8})
    for (int stages : {2, 3})
      for (int64_t n : {64, 80})
        check({replace(R"(
kernel k(q: tensor_desc<f16, [$M, 64]>, b: tensor_desc<f16, [32, 64]>, v: tensor_desc<f16, [32, $N]>, c: tensor_desc<f32, [$M, $N]>, n: i32)
    launch(num_warps = $W) {
  let x = q.load([0, 0]);
  var acc = zeros([$M, $N], f32);
  for j in range(0, n, 32, num_stages = $S) {
    let s = dot(x, b.load([j, 0]).T, zeros([$M, 32], f32));
    acc = dot(s.to(f16), v.load([j, 0]), acc);
  }
  c.store([0, 0], acc);
})",
                       {number("W", warps), number("S", stages), number("M", 16 * warps), number("N", n)}),
               {},
               {Matrix("f16", 16 * warps, 64), Matrix("f16", 160, 64), Matrix("f16", 160, n)},
               Matrix("f32", 16 * warps, n),
               {int32_t(160)}},
              [row = std::vector<double>(160)](const std::vector<Matrix> &in, int64_t r, int64_t c) mutable {
                for (int64_t j = 0; j < 160 && c == 0; ++j) // A·B, once a row
                  row[size_t(j)] = sum(
                      64, [&](int64_t k) { return in[0](r, k); }, [&](int64_t k) { return in[1](j, k); });
                return sum(
                    160, [&](int64_t j) { return row[size_t(j)]; }, [&](int64_t j) { return in[2](j, c); });
              });
}

// The accumulator is changed between dots: what is in flight must have come back first.
TEST_CASE("async: an accumulator that the loop changes") {
  for (const char *body : {"acc = dot(x, y, acc * 0.5 + 0.5);", "acc = acc * 0.5 + 0.5;\n    acc = dot(x, y, acc);",
                           "acc = dot(x, y, acc);\n    acc = acc * 0.5 + 0.5;"}) {
    const bool after =
        std::string(body).find("acc = dot(x, y, acc);\n") != std::string::npos && std::string(body)[6] == 'd';
    check({replace(R"(
kernel k(a: tensor_desc<f16, [64, 32]>, b: tensor_desc<f16, [32, 32]>, c: tensor_desc<f32, [64, 32]>) launch(num_warps = 4) {
  var acc = zeros([64, 32], f32);
  for k in range(0, 160, 32, num_stages = 3) {
    let x = a.load([0, k]);
    let y = b.load([k, 0]);
    $D
  }
  c.store([0, 0], acc);
})",
                   {{"D", body}}),
           {},
           {Matrix("f16", 64, 160), Matrix("f16", 160, 32)},
           Matrix("f32", 64, 32)},
          [&](const std::vector<Matrix> &in, int64_t r, int64_t c) {
            double acc = 0;
            for (int64_t k = 0; k < 160; k += 32) {
              if (!after) acc = acc * 0.5 + 0.5;
              for (int64_t j = k; j < k + 32; ++j) acc += in[0](r, j) * in[1](j, c);
              if (after) acc = acc * 0.5 + 0.5;
            }
            return acc;
          });
  }
}

// Two accumulators in one loop, one of which is also read by other operations every iteration.
TEST_CASE("async: two dots in flight") {
  for (const char *extra : {"", "    total = total + max(max(x, axis = 1), axis = 0);\n",
                            "    total = total + max(max(other, axis = 1), axis = 0).to(f16) * 0.0;\n"})
    check({replace(R"(
kernel k(a: tensor_desc<f16, [64, 32]>, b: tensor_desc<f16, [32, 32]>, d: tensor_desc<f16, [32, 32]>, c: tensor_desc<f32, [64, 32]>)
    launch(num_warps = 4) {
  var acc = zeros([64, 32], f32);
  var other = zeros([64, 32], f32);
  var total = max(max(a.load([0, 0]), axis = 1), axis = 0) * 0.0;
  for k in range(0, 160, 32, num_stages = 3) {
    let x = a.load([0, k]);
    acc = dot(x, b.load([k, 0]), acc);
$E    other = dot(x, d.load([k, 0]), other);
  }
  c.store([0, 0], acc - other * 3.0 + total.to(f32));
})",
                   {{"E", extra}}),
           {},
           {Matrix("f16", 64, 160), Matrix("f16", 160, 32), Matrix("f16", 160, 32)},
           Matrix("f32", 64, 32)},
          [&](const std::vector<Matrix> &in, int64_t r, int64_t c) {
            double total = 0;
            if (std::string(extra).find("max(x") != std::string::npos)
              for (int64_t k = 0; k < 160; k += 32) {
                double m = -100;
                for (int64_t i = 0; i < 64; ++i)
                  for (int64_t j = k; j < k + 32; ++j) m = std::max(m, in[0](i, j));
                total += m;
              }
            return total + sum(
                               160, [&](int64_t k) { return in[0](r, k); },
                               [&](int64_t k) { return in[1](k, c) - 3 * in[2](k, c); });
          });
}
