// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// TMA rings, mbarriers and wgmma in flight in every form of loop and branch, under every schedule.
#include "async_testing.h"

using namespace async_testing;

// --- loops and branches -------------------------------------------------------------------------------------------------------

TEST_CASE("async: a loop whose buffers are no rings") {
  for (const char *body : {"acc = dot(a.load([0, k]), b.load([k, 0]), acc);", // no num_stages
                           "acc = dot(a.load([0, k]), fixed, acc);", "acc = dot(first, b.load([k, 0]), acc);"}) {
    const std::string s = body;
    check({replace(R"(
kernel k(a: tensor_desc<f16, [64, 32]>, b: tensor_desc<f16, [32, 32]>, c: tensor_desc<f32, [64, 32]>, n: i32) launch(num_warps = 4) {
  let first = a.load([0, 0]);
  let fixed = b.load([0, 0]);
  var acc = zeros([64, 32], f32);
  for k in range(0, n, 32) { $D }
  c.store([0, 0], acc);
})",
                   {{"D", body}}),
           {},
           {Matrix("f16", 64, 128), Matrix("f16", 128, 32)},
           Matrix("f32", 64, 32),
           {int32_t(128)}},
          [&](const std::vector<Matrix> &in, int64_t r, int64_t c) {
            return sum(
                128, [&](int64_t k) { return in[0](r, s.find("first") != std::string::npos ? k % 32 : k); },
                [&](int64_t k) { return in[1](s.find("fixed") != std::string::npos ? k % 32 : k, c); });
          });
  }
}

TEST_CASE("async: dots and loads in branches") {
  // Even steps by a·b, odd ones by a·d; or skipped; the condition is the same for all threads.
  const char *bodies[] = {"if k / 32 % 2 == 0 { acc = dot(a.load([0, k]), b.load([k, 0]), acc); } "
                          "else { acc = dot(a.load([0, k]), d.load([k, 0]), acc); }",
                          "let x = a.load([0, k]); if k / 32 % 2 == 0 { acc = dot(x, b.load([k, 0]), acc); } "
                          "else { acc = dot(x, d.load([k, 0]), acc); }",
                          "let x = a.load([0, k]); let y = b.load([k, 0]); let z = d.load([k, 0]); "
                          "if k / 32 % 2 == 0 { acc = dot(x, y, acc); } else { acc = dot(x, z, acc); }"};
  for (const char *body : bodies)
    for (const char *stages : {"", ", num_stages = 3"})
      check({replace(R"(
kernel k(a: tensor_desc<f16, [64, 32]>, b: tensor_desc<f16, [32, 32]>, d: tensor_desc<f16, [32, 32]>, c: tensor_desc<f32, [64, 32]>, n: i32)
    launch(num_warps = 4) {
  var acc = zeros([64, 32], f32);
  for k in range(0, n, 32$S) { $D }
  c.store([0, 0], acc);
})",
                     {{"D", body}, {"S", stages}}),
             {},
             {Matrix("f16", 64, 160), Matrix("f16", 160, 32), Matrix("f16", 160, 32)},
             Matrix("f32", 64, 32),
             {int32_t(160)}},
            [](const std::vector<Matrix> &in, int64_t r, int64_t c) {
              return sum(
                  160, [&](int64_t k) { return in[0](r, k); }, [&](int64_t k) { return in[k / 32 % 2 ? 2 : 1](k, c); });
            });
}

TEST_CASE("async: loads in while loops and nested branches") {
  check({R"(
kernel k(a: tensor_desc<f16, [64, 32]>, b: tensor_desc<f16, [32, 32]>, c: tensor_desc<f32, [64, 32]>, n: i32) launch(num_warps = 4) {
  var acc = zeros([64, 32], f32);
  var k = 0;
  while k < n {
    if k != 64 {
      acc = dot(a.load([0, k]), b.load([k, 0]), acc);
      if k == 96 { acc = acc + a.load([0, k]).to(f32); }
    }
    k = k + 32;
  }
  c.store([0, 0], acc);
})",
         {},
         {Matrix("f16", 64, 192), Matrix("f16", 192, 32)},
         Matrix("f32", 64, 32),
         {int32_t(192)}},
        [](const std::vector<Matrix> &in, int64_t r, int64_t c) {
          return in[0](r, 96 + c) + sum(
                                        192, [&](int64_t k) { return k / 32 == 2 ? 0 : in[0](r, k); },
                                        [&](int64_t k) { return in[1](k, c); });
        });
  // The load is part of the condition: the block of flags says whether to go on.
  check({R"(
kernel k(a: tensor_desc<i32, [1, 8]>, b: tensor_desc<i32, [1, 8]>, c: tensor_desc<i32, [1, 8]>, n: i32) launch(num_warps = 4) {
  var total = zeros([1, 8], i32);
  var row = 0;
  while max(max(a.load([row, 0]), axis = 1), axis = 0) < 100 {
    total = total + b.load([row, 0]);
    row = row + 1;
    if row == n { break; }
  }
  c.store([0, 0], total);
})",
         {},
         {Matrix("i32", 9, 8), Matrix("i32", 9, 8)},
         Matrix("i32", 1, 8),
         {int32_t(6)}},
        [](const std::vector<Matrix> &in, int64_t, int64_t c) {
          return sum(
              6, [&](int64_t k) { return in[1](k, c); }, [](int64_t) { return 1.0; });
        });
}

TEST_CASE("async: nested loops, both pipelined") {
  // The inner loop's bounds are those of every outer iteration, or depend on it; its addresses always do.
  for (const char *bound : {"n", "32 + i"})
    for (const char *outer : {"", ", num_stages = 2"})
      check({replace(R"(
kernel k(a: tensor_desc<f16, [64, 32]>, b: tensor_desc<f16, [32, 32]>, d: tensor_desc<f32, [64, 32]>, c: tensor_desc<f32, [64, 32]>, n: i32)
    launch(num_warps = 4) {
  var total = zeros([64, 32], f32);
  for i in range(0, 96, 32$O) {
    let scale = d.load([0, i]);
    var acc = zeros([64, 32], f32);
    for k in range(0, $B, 32, num_stages = 3) {
      acc = dot(a.load([0, i + k]), b.load([k, 0]), acc);
    }
    total = total + acc * scale;
  }
  c.store([0, 0], total);
})",
                     {{"B", bound}, {"O", outer}}),
             {},
             {Matrix("f16", 64, 256), Matrix("f16", 160, 32), Matrix("f32", 64, 96)},
             Matrix("f32", 64, 32),
             {int32_t(160)}},
            [&](const std::vector<Matrix> &in, int64_t r, int64_t c) {
              double total = 0;
              for (int64_t i = 0; i < 96; i += 32) {
                const int64_t depth = bound[0] == 'n' ? 160 : (i + 63) / 32 * 32;
                total += in[2](r, i + c) *
                         sum(
                             depth, [&](int64_t k) { return in[0](r, i + k); }, [&](int64_t k) { return in[1](k, c); });
              }
              return total;
            });
}

TEST_CASE("async: two pipelined loops, one after the other") {
  // In one program, in a loop over tiles, and in one whose bounds differ. BIG: rings that only fit one after the other.
  for (const char *around : {"let t = 0; let n = depth; if true {", "let n = depth; for t in range(0, 2) {",
                             "for t in range(0, 2) { let n = depth - t * 32;"})
    for (bool big : {false, true}) {
      const int64_t k = big ? 128 : 32, n = big ? 128 : 32, depth = 4 * k;
      const bool loop = std::string(around).find("for") != std::string::npos, varies = around[0] == 'f';
      if (big && loop && !varies) continue; // the rings of both stay
      check({replace(R"(
kernel k(a: tensor_desc<f16, [64, $K]>, b: tensor_desc<f16, [$K, $N]>, d: tensor_desc<f16, [$K, $N]>, c: tensor_desc<f32, [64, $N]>,
    depth: i32) launch(num_warps = 4) {
  $A
    var acc = zeros([64, $N], f32);
    for k in range(0, n, $K, num_stages = 3) { acc = dot(a.load([64 * t, k]), b.load([k, 0]), acc); }
    var other = zeros([64, $N], f32);
    for k in range(0, n, $K, num_stages = 4) { other = dot(a.load([64 * t, k]), d.load([k, 0]), other); }
    c.store([64 * t, 0], acc * 2.0 - other);
  }
})",
                     {{"A", around}, number("K", k), number("N", n)}),
             {},
             {Matrix("f16", loop ? 128 : 64, depth), Matrix("f16", depth, n), Matrix("f16", depth, n)},
             Matrix("f32", loop ? 128 : 64, n),
             {int32_t(depth)}},
            [&](const std::vector<Matrix> &in, int64_t r, int64_t c) {
              const int64_t to = varies && r >= 64 ? depth - 32 : depth;
              return sum((to + k - 1) / k * k, [&](int64_t j) { return in[0](r, j); },
                         [&](int64_t j) { return 2 * in[1](j, c) - in[2](j, c); });
            });
    }
}

TEST_CASE("async: pipelined loops in branches and while loops") {
  for (const char *around :
       {"if depth > 3 {", "for t in range(0, 3) { if t != 1 {", "var t = 0; while t < 3 { t = t + 1; if t != 2 {"}) {
    const bool twice = around[0] != 'i';
    check({replace(R"(
kernel k(a: tensor_desc<f16, [64, 32]>, b: tensor_desc<f16, [32, 32]>, c: tensor_desc<f32, [64, 32]>, depth: i32) launch(num_warps = 4) {
  var acc = zeros([64, 32], f32);
  $A
    for k in range(0, depth, 32, num_stages = 3) { acc = dot(a.load([0, k]), b.load([k, 0]), acc); }
    acc = acc + 1.0;
  }$E
  c.store([0, 0], acc);
})",
                   {{"A", around}, {"E", twice ? "}" : ""}}),
           {},
           {Matrix("f16", 64, 160), Matrix("f16", 160, 32)},
           Matrix("f32", 64, 32),
           {int32_t(160)}},
          [&](const std::vector<Matrix> &in, int64_t r, int64_t c) {
            return (twice ? 2 : 1) *
                   (1 + sum(
                            160, [&](int64_t k) { return in[0](r, k); }, [&](int64_t k) { return in[1](k, c); }));
          });
  }
}

TEST_CASE("async: programs with no tile, one and many") {
  for (const char *stages : {"2", "3", "4"})
    for (int programs : {1, 2, 7})
      for (int64_t depth : {0, 20, 32, 160}) {
        if (stages[0] != '3' && (programs == 7 || depth == 20)) continue;
        check({replace(R"(
kernel k(a: tensor_desc<f16, [64, 32]>, b: tensor_desc<f16, [32, 48]>, c: tensor_desc<f32, [64, 48]>, tiles: i32, depth: i32)
    launch(num_warps = 4) {
  for tile in range(program_id(0), tiles, num_programs(0)) {
    let m = tile / 2 * 64;
    let n = tile % 2 * 48;
    var acc = zeros([64, 48], f32);
    for k in range(0, depth, 32, num_stages = $S) {
      acc = dot(a.load([m, k]), b.load([k, n]), acc);
    }
    c.store([m, n], acc);
  }
})",
                       {{"S", stages}}),
               {},
               {Matrix("f16", 130, depth), Matrix("f16", depth, 90)},
               Matrix("f32", 130, 90),
               {int32_t(6), int32_t(depth)},
               unsigned(programs)},
              [&](const std::vector<Matrix> &in, int64_t r, int64_t c) {
                return sum(
                    depth, [&](int64_t k) { return in[0](r, k); }, [&](int64_t k) { return in[1](k, c); });
              });
      }
}

// --- indices, pointers, stores ------------------------------------------------------------------------------------------------

TEST_CASE("async: an index that the loop carries") {
  for (const char *around : {"let t = 0; if true {", "for t in range(0, 2) {"}) {
    const bool loop = around[0] == 'f';
    check({replace(R"(
kernel k(a: tensor_desc<f16, [64, 32]>, b: tensor_desc<f16, [32, 32]>, c: tensor_desc<f32, [64, 32]>, start: i32) launch(num_warps = 4) {
  $A
    var acc = zeros([64, 32], f32);
    var at = start;
    for k in range(0, 5, num_stages = 3) {
      acc = dot(a.load([64 * t, at]), b.load([k * 32, 0]), acc);
      at = (at + 96) % 160;
    }
    c.store([64 * t, 0], acc);
  }
})",
                   {{"A", around}}),
           {},
           {Matrix("f16", 64 * (loop + 1), 160), Matrix("f16", 160, 32)},
           Matrix("f32", 64 * (loop + 1), 32),
           {int32_t(32)}},
          [](const std::vector<Matrix> &in, int64_t r, int64_t c) {
            return sum(
                160, [&](int64_t k) { return in[0](r, (32 + k / 32 * 96) % 160 + k % 32); },
                [&](int64_t k) { return in[1](k, c); });
          });
  }
  // Downwards, and by a step that is known at run time only.
  for (const char *range : {"128, -1, -64", "0, 160, step"})
    check({replace(R"(
kernel k(a: tensor_desc<f16, [64, 32]>, b: tensor_desc<f16, [32, 32]>, c: tensor_desc<f32, [64, 32]>, step: i32) launch(num_warps = 4) {
  var acc = zeros([64, 32], f32);
  for k in range($R, num_stages = 3) { acc = dot(a.load([0, k]), b.load([k, 0]), acc); }
  c.store([0, 0], acc);
})",
                   {{"R", range}}),
           {},
           {Matrix("f16", 64, 160), Matrix("f16", 160, 32)},
           Matrix("f32", 64, 32),
           {int32_t(64)}},
          [](const std::vector<Matrix> &in, int64_t r, int64_t c) {
            return sum(
                160, [&](int64_t k) { return k / 32 % 2 ? 0 : in[0](r, k); }, [&](int64_t k) { return in[1](k, c); });
          });
}

TEST_CASE("async: pointers and descriptors in one loop") {
  for (const char *around : {"let t = 0; if true {", "for t in range(0, 2) {"})
    for (bool left : {true, false}) {
      const bool loop = around[0] == 'f';
      const std::string tile = left ? "load(a + (64 * t + arange(0, 64))[:, None] * 160 + (k + arange(0, 32))[None, :])"
                                    : "load(b + (k + arange(0, 32))[:, None] * 32 + arange(0, 32)[None, :])";
      check({replace(R"(
kernel k(a: $A, b: $B, c: tensor_desc<f32, [64, 32]>, n: i32) launch(num_warps = 4) requires(aligned($P, 16)) {
  $O
    var acc = zeros([64, 32], f32);
    for k in range(0, n, 32, num_stages = 3) { acc = dot($X, $Y, acc); }
    c.store([64 * t, 0], acc);
  }
})",
                     {{"A", left ? "*f16" : "tensor_desc<f16, [64, 32]>"},
                      {"B", left ? "tensor_desc<f16, [32, 32]>" : "*f16"},
                      {"P", left ? "a" : "b"},
                      {"X", left ? tile : "a.load([64 * t, k])"},
                      {"Y", left ? "b.load([k, 0])" : tile},
                      {"O", around}}),
             {},
             {Matrix("f16", 64 * (loop + 1), 160, left), Matrix("f16", 160, 32, !left)},
             Matrix("f32", 64 * (loop + 1), 32),
             {int32_t(160)}},
            [](const std::vector<Matrix> &in, int64_t r, int64_t c) {
              return sum(
                  160, [&](int64_t k) { return in[0](r, k); }, [&](int64_t k) { return in[1](k, c); });
            });
    }
}

TEST_CASE("async: wgmma from pointers") {
  for (bool transposed : {false, true}) // B's contiguous dimension
    for (const char *stages : {"", ", num_stages = 2", ", num_stages = 4"})
      for (int64_t n : {32, 80})
        check({replace(
                   R"(
kernel k(a: *f16, b: *f16, c: *f32, depth: i32) launch(num_warps = 4) requires(aligned(a, 16), aligned(b, 16), aligned(c, 16)) {
  var acc = zeros([64, $N], f32);
  for k in range(0, depth, 32$S) {
    let x = load(a + arange(0, 64)[:, None] * 160 + (k + arange(0, 32))[None, :]);
    let y = load(b + (k + arange(0, 32))[:, None] * $R + arange(0, $N)[None, :] * $C);
    acc = dot(x, y, acc);
  }
  store(c + arange(0, 64)[:, None] * $N + arange(0, $N)[None, :], acc);
})",
                   {{"S", stages}, number("N", n), number("R", transposed ? 1 : n), number("C", transposed ? 160 : 1)}),
               {},
               {Matrix("f16", 64, 160, true), transposed ? Matrix("f16", n, 160, true) : Matrix("f16", 160, n, true)},
               Matrix("f32", 64, n, true),
               {int32_t(160)}},
              [&](const std::vector<Matrix> &in, int64_t r, int64_t c) {
                return sum(
                    160, [&](int64_t k) { return in[0](r, k); },
                    [&](int64_t k) { return transposed ? in[1](c, k) : in[1](k, c); });
              });
}

TEST_CASE("async: stores in loops and branches") {
  for (const char *body : {"c.store([r, 0], a.load([r, 0]) * 2.0);",
                           "if r % 32 == 0 { c.store([r, 0], a.load([r, 0]) * 2.0); } "
                           "else { let x = a.load([r, 0]); c.store([r, 0], x + x); }",
                           "let x = a.load([r, 0]) * 2.0; c.store([r, 0], x * 3.0); c.store([r, 0], x);"})
    for (const char *stages : {"", ", num_stages = 3"})
      for (int64_t cols : {64, 61}) // rows that TMA ends, and that it does not
        check({replace(R"(
kernel k(a: tensor_desc<f16, [16, 64]>, c: tensor_desc<f16, [16, 64]>, rows: i32) launch(num_warps = 4) {
  for r in range(0, rows, 16$S) { $D }
})",
                       {{"D", body}, {"S", stages}}),
               {},
               {Matrix("f16", 90, cols)},
               Matrix("f16", 90, cols),
               {int32_t(90)}},
              [](const std::vector<Matrix> &in, int64_t r, int64_t c) { return 2 * in[0](r, c); });
}

// A descriptor that is stored to and loaded from: in program order. Rows that TMA ends, and that it does not.
TEST_CASE("async: a load behind a store to the same descriptor") {
  for (const char *around : {"let t = 0; if true {", "for t in range(0, 3) {"})
    for (int64_t cols : {64, 61}) {
      const bool loop = around[0] == 'f';
      check({replace(R"(
kernel k(a: tensor_desc<f32, [16, 64]>, c: tensor_desc<f32, [16, 64]>, out: tensor_desc<f32, [16, 64]>) launch(num_warps = 4) {
  var sum = zeros([16, 64], f32);
  $A
    let x = a.load([0, 0]) + t.to(f32);
    c.store([0, 0], x);
    sum = sum + c.load([0, 0]);
  }
  out.store([0, 0], sum);
})",
                     {{"A", around}}),
             {},
             {Matrix("f32", 16, cols), Matrix("f32", 16, cols)},
             Matrix("f32", 16, cols)},
            [&](const std::vector<Matrix> &in, int64_t r, int64_t c) {
              return loop ? 3 * in[0](r, c) + 3 : in[0](r, c);
            });
    }
}

// Tiles of a ring that are no multiple of 128 bytes: TMA needs that alignment of each.
TEST_CASE("async: small blocks in a pipelined loop") {
  for (int64_t n : {4, 8, 16, 32, 48, 64})
    check({replace(R"(
kernel k(a: tensor_desc<i32, [1, $N]>, c: tensor_desc<i32, [1, $N]>, rows: i32) launch(num_warps = 4) {
  var total = zeros([1, $N], i32);
  for r in range(0, rows, num_stages = 3) { total = total + a.load([r, 0]) * (r + 1); }
  c.store([0, 0], total);
})",
                   {number("N", n)}),
           {},
           {Matrix("i32", 7, n)},
           Matrix("i32", 1, n),
           {int32_t(7)}},
          [](const std::vector<Matrix> &in, int64_t, int64_t c) {
            return sum(
                7, [&](int64_t r) { return in[0](r, c); }, [](int64_t r) { return double(r + 1); });
          });
}

// Blocks that are longer than one message of 256 elements.
TEST_CASE("async: long blocks") {
  for (int64_t n : {256, 512, 1024, 2048})
    check({replace(R"(
kernel k(a: tensor_desc<f32, [1, $N]>, c: tensor_desc<f32, [1, $N]>, rows: i32) launch(num_warps = 4) {
  for r in range(0, rows) { c.store([r, 0], a.load([r, 0]) * 2.0); }
})",
                   {number("N", n)}),
           {},
           {Matrix("f32", 5, n - 7)},
           Matrix("f32", 5, n - 7),
           {int32_t(5)}},
          [](const std::vector<Matrix> &in, int64_t r, int64_t c) { return 2 * in[0](r, c); });
}

// Values that are alive together must not share what a dot in flight accumulates in.
TEST_CASE("async: accumulators that meet in a loop") {
  struct Body {
    const char *text;
    std::function<double(double acc, double other, double ab, double ad, double &next)>
        step; // returns the new acc, sets the new other
  };
  const Body bodies[] = {
      // Two dots start from one accumulator.
      {"let t = dot(x, y, acc); acc = dot(x, z, acc); other = other + t;",
       [](double acc, double other, double ab, double ad, double &next) { return next = other + acc + ab, acc + ad; }},
      {"let t = dot(x, z, acc); other = other + dot(x, y, acc); acc = t;",
       [](double acc, double other, double ab, double ad, double &next) { return next = other + acc + ab, acc + ad; }},
      // They trade places.
      {"let t = dot(x, y, acc); acc = dot(x, z, other); other = t;",
       [](double acc, double other, double ab, double ad, double &next) { return next = acc + ab, other + ad; }},
      // The value of the iteration before is used behind the dot that makes the next one.
      {"let t = dot(x, y, zeros([64, 32], f32)); other = other + acc; acc = t; other = other + dot(x, z, zeros([64, "
       "32], f32));",
       [](double acc, double other, double ab, double ad, double &next) { return next = other + acc + ad, ab; }},
      {"let t = acc; acc = dot(x, y, acc); other = t * 2.0;",
       [](double acc, double, double ab, double, double &next) { return next = acc * 2, acc + ab; }},
      // A chain in one iteration.
      {"acc = dot(x, y, acc); acc = dot(x, z, acc); other = dot(x, y, other);",
       [](double acc, double other, double ab, double ad, double &next) { return next = other + ab, acc + ab + ad; }}};
  for (const Body &body : bodies)
    for (const char *start : {"0.0", "1.0"})
      check({replace(R"(
kernel k(a: tensor_desc<f16, [64, 32]>, b: tensor_desc<f16, [32, 32]>, d: tensor_desc<f16, [32, 32]>, c: tensor_desc<f32, [64, 32]>)
    launch(num_warps = 4) {
  var acc = zeros([64, 32], f32) + $S;
  var other = zeros([64, 32], f32);
  for k in range(0, 160, 32, num_stages = 3) {
    let x = a.load([0, k]);
    let y = b.load([k, 0]);
    let z = d.load([k, 0]);
    $B
  }
  c.store([0, 0], acc + other * 0.5);
})",
                     {{"B", body.text}, {"S", start}}),
             {},
             {Matrix("f16", 64, 160), Matrix("f16", 160, 32), Matrix("f16", 160, 32)},
             Matrix("f32", 64, 32)},
            [&](const std::vector<Matrix> &in, int64_t r, int64_t c) {
              double acc = start[0] - '0', other = 0;
              for (int64_t k = 0; k < 160; k += 32) {
                const double ab = sum(
                    32, [&](int64_t j) { return in[0](r, k + j); }, [&](int64_t j) { return in[1](k + j, c); });
                const double ad = sum(
                    32, [&](int64_t j) { return in[0](r, k + j); }, [&](int64_t j) { return in[2](k + j, c); });
                double next = 0;
                acc = body.step(acc, other, ab, ad, next);
                other = next;
              }
              return acc + other * 0.5;
            });
}

// A block of the outer loop is an operand in the inner one; either loop may be a pipeline.
TEST_CASE("async: an operand that outlasts a loop") {
  for (const char *outer : {"", ", num_stages = 2", ", num_stages = 3"})
    for (const char *inner : {"", ", num_stages = 3"})
      for (const char *bound : {"128", "t * 32"})
        check({replace(R"(
kernel k(a: tensor_desc<f16, [64, 32]>, b: tensor_desc<f16, [32, 32]>, c: tensor_desc<f32, [64, 32]>) launch(num_warps = 4) {
  for t in range(0, 5$O) {
    let x = a.load([64 * t, 0]);
    var acc = zeros([64, 32], f32);
    for k in range(0, $B, 32$I) { acc = dot(x, b.load([k, 0]), acc); }
    c.store([64 * t, 0], acc);
  }
})",
                       {{"O", outer}, {"I", inner}, {"B", bound}}),
               {},
               {Matrix("f16", 300, 32), Matrix("f16", 128, 32)},
               Matrix("f32", 300, 32)},
              [&](const std::vector<Matrix> &in, int64_t r, int64_t c) {
                return sum(
                    bound[0] == 't' ? r / 64 * 32 : 128, [&](int64_t k) { return in[0](r, k % 32); },
                    [&](int64_t k) { return in[1](k, c); });
              });
}

TEST_CASE("async: loops that end early") {
  for (const char *leave : {"if k == 96 { break; }", "if k == 96 { continue; }"})
    for (const char *stages : {"", ", num_stages = 3"}) {
      if (*stages && leave[13] == 'b') continue; // refused: it is no loop that can be counted
      check({replace(R"(
kernel k(a: tensor_desc<f16, [64, 32]>, b: tensor_desc<f16, [32, 32]>, c: tensor_desc<f32, [64, 32]>, tiles: i32) launch(num_warps = 4) {
  for t in range(0, tiles) {
    var acc = zeros([64, 32], f32);
    for k in range(0, 160, 32$S) {
      let x = a.load([64 * t, k]);
      $L
      acc = dot(x, b.load([k, 0]), acc);
    }
    c.store([64 * t, 0], acc);
  }
})",
                     {{"L", leave}, {"S", stages}}),
             {},
             {Matrix("f16", 128, 160), Matrix("f16", 160, 32)},
             Matrix("f32", 128, 32),
             {int32_t(2)}},
            [&](const std::vector<Matrix> &in, int64_t r, int64_t c) {
              return sum(
                  160, [&](int64_t k) { return k / 32 == 3 || (k / 32 > 3 && leave[13] == 'b') ? 0 : in[0](r, k); },
                  [&](int64_t k) { return in[1](k, c); });
            });
    }
}
