// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operations that move elements: expand_dims, broadcast, reshape, transpose, join, split, and layouts asked for.
#include "operations.h"

using namespace operations;

namespace {
const int kWarps[] = {1, 4, 8};
const char *const kTypes[] = {"f32", "i8", "f16", "i64"};

/// Row-major index → coordinates and back.
Shape coords(const Shape &s, size_t i) {
  Shape c(s.size());
  for (size_t d = s.size(); d-- > 0;) c[d] = int64_t(i) % s[d], i /= size_t(s[d]);
  return c;
}
size_t linear(const Shape &s, const Shape &c) {
  int64_t i = 0;
  for (size_t d = 0; d < s.size(); ++d) i = i * s[d] + c[d];
  return size_t(i);
}
/// Loads a tile of one shape, computes, and stores a tile of another: `from` maps an output element to its input.
void moves(const Shape &in, const std::string &expression, const Shape &out, const std::function<size_t(size_t)> &from,
           int seed = 0) {
  static int turn = 0;
  const char *type = kTypes[turn++ % 4];
  Rng rng(1000 + seed + turn);
  Array x(type, size_t(product(in, 0, in.size()))), y(type, size_t(product(out, 0, out.size())));
  x.randomBits(rng);
  std::vector<uint64_t> want;
  for (size_t i = 0; i < y.count; ++i) want.push_back(x.raw(from(i)));
  for (int warps : kWarps) {
    Job job{
        replace(
            "fn first(p) {\n  let (l, _) = split(p);\n  return l;\n}\nkernel k(x: *$T, y: *$T) launch(num_warps = $W) "
            "{\n  let v = load(x + $I);\n  store(y + $O, $E);\n}\n",
            {{"T", type}, {"W", std::to_string(warps)}, {"I", offsets(in)}, {"O", offsets(out)}, {"E", expression}}),
        {},
        {&x},
        {&y},
        {}};
    job.inOrderOnly = warps == 1 || y.count > 4096;
    execute(job, [&](const std::string &where) {
      expectBits(y, want, where + " " + expression + " of " + text(in) + " warps " + std::to_string(warps), true);
    });
  }
}
} // namespace

TEST_CASE("shapes: transposition") {
  for (const Shape &s : {Shape{16, 64}, {12, 80}, {1, 96}, {176, 4}, {5, 7}, {64, 64}, {3, 192}}) {
    Shape t{s[1], s[0]};
    moves(s, "v.T", t, [&](size_t i) {
      auto c = coords(t, i);
      return linear(s, {c[1], c[0]});
    });
  }
  moves({32, 96}, "trans(v.T)", {32, 96}, [](size_t i) { return i; });
  for (const Shape &s : {Shape{4, 6, 16}, {2, 8, 32}, {3, 5, 7}})
    for (const Shape &perm : {Shape{1, 0, 2}, {2, 1, 0}, {1, 2, 0}, {2, 0, 1}, {0, 2, 1}}) {
      Shape t{s[perm[0]], s[perm[1]], s[perm[2]]};
      moves(s, "trans(v, " + text(perm) + ")", t, [&](size_t i) {
        auto c = coords(t, i);
        Shape from(3);
        for (int d = 0; d < 3; ++d) from[perm[d]] = c[d];
        return linear(s, from);
      });
    }
}

TEST_CASE("shapes: reshape") {
  const std::pair<Shape, Shape> cases[] = {
      {{16, 64}, {1024}},   {{1024}, {8, 128}},   {{4, 6, 16}, {4, 96}}, {{192}, {3, 64}},
      {{15, 8}, {3, 5, 8}}, {{176, 2}, {11, 32}}, {{64, 1}, {1, 64}},    {{2, 2, 2, 2, 2, 2, 2}, {128}},
  };
  for (const auto &[a, b] : cases) moves(a, "reshape(v, " + text(b) + ")", b, [](size_t i) { return i; });
}

TEST_CASE("shapes: a reshape that would mix odd factors is refused") {
  const std::pair<Shape, Shape> cases[] = {
      {{12, 80}, {80, 12}}, {{12, 80}, {960}}, {{4, 6, 16}, {24, 16}}, {{3, 64}, {64, 3}}};
  for (const auto &[a, b] : cases)
    for (const std::string &target : targets()) {
      std::string kernel = "kernel k(x: *f32) launch(num_warps = 4) {\n  store(x + " + offsets(b) +
                           ", reshape(load(x + " + offsets(a) + "), " + text(b) + "));\n}\n";
      CHECK_THROWS_WITH_AS(compileText(kernel, {"operations.tlx", "", {}, {}}, target),
                           doctest::Contains("mixes odd factors"), std::runtime_error);
    }
}

TEST_CASE("shapes: expand_dims and broadcast") {
  for (const Shape &s : {Shape{64}, {12}, {96}, {1}})
    for (int64_t n : {1, 3, 16, 80}) {
      Shape rows{n, s[0]}, columns{s[0], n};
      moves(s, "broadcast_to(v[None, :], " + text(rows) + ")", rows, [&](size_t i) { return i % size_t(s[0]); });
      moves(s, "broadcast_to(expand_dims(v, -1), " + text(columns) + ")", columns,
            [&](size_t i) { return i / size_t(n); });
    }
  moves({4, 16}, "broadcast_to(v[:, None, :], [4, 6, 16])", {4, 6, 16}, [](size_t i) { return i / 96 * 16 + i % 16; });
  moves({6, 16}, "broadcast_to(expand_dims(v, 0), [4, 6, 16])", {4, 6, 16}, [](size_t i) { return i % 96; });
  moves({4, 6}, "broadcast_to(v[:, :, None], [4, 6, 16])", {4, 6, 16}, [](size_t i) { return i / 16; });
  moves({1, 1}, "broadcast_to(v, [24, 32])", {24, 32}, [](size_t) { return 0; });
}

TEST_CASE("shapes: join and split") {
  for (const Shape &s : {Shape{64}, {12, 16}, {96}, {4, 6, 16}, {5, 7}}) {
    Shape pair = s;
    pair.push_back(2);
    // The second half is the same tile moved by one element, read again.
    moves(s, "join(v, v)", pair, [](size_t i) { return i / 2; });
    moves(pair, "first(v)", s, [](size_t i) { return 2 * i; });
  }
}

TEST_CASE("shapes: split, swapped, joined") {
  Rng rng(8);
  for (const Shape &s : {Shape{64, 2}, {96, 2}, {12, 16, 2}, {3, 5, 2}, {1, 2}}) {
    size_t count = size_t(product(s, 0, s.size()));
    Array x("f32", count), y("f32", count), a("f32", count / 2), b("f32", count / 2);
    x.normal(rng);
    std::vector<uint64_t> want, left, right;
    for (size_t i = 0; i < count; ++i) want.push_back(x.raw(i ^ 1)), (i % 2 ? right : left).push_back(x.raw(i));
    Shape half(s.begin(), s.end() - 1);
    for (int warps : kWarps) {
      Job job{replace("kernel k(x: *f32, y: *f32, a: *f32, b: *f32) launch(num_warps = $W) {\n  let (l, r) = "
                      "split(load(x + $I));\n"
                      "  store(y + $I, join(r, l)); store(a + $H, l); store(b + $H, r);\n}\n",
                      {{"W", std::to_string(warps)}, {"I", offsets(s)}, {"H", offsets(half)}}),
              {},
              {&x},
              {&y, &a, &b},
              {}};
      execute(job, [&](const std::string &where) {
        expectBits(y, want, where + text(s)), expectBits(a, left, where + text(s)),
            expectBits(b, right, where + text(s));
      });
    }
  }
}

TEST_CASE("shapes: a butterfly of reshape, trans, split and join") {
  // Bit reversal of 64 elements, and the sum of what every step moves.
  std::string steps =
      "let a = reshape(v, [2, 2, 2, 2, 2, 2]);\n  let w = reshape(trans(a, [5, 4, 3, 2, 1, 0]), [64]);\n";
  Rng rng(9);
  Array x("i32", 64), y("i32", 64);
  x.randomBits(rng);
  std::vector<uint64_t> want;
  for (size_t i = 0; i < 64; ++i) {
    size_t r = 0;
    for (int b = 0; b < 6; ++b) r |= (i >> b & 1) << (5 - b);
    want.push_back(x.raw(r));
  }
  for (int warps : kWarps) {
    Job job{"kernel k(x: *i32, y: *i32) launch(num_warps = " + std::to_string(warps) +
                ") {\n  let i = arange(0, 64);\n  let v = load(x + i);\n  " + steps + "  store(y + i, w);\n}\n",
            {},
            {&x},
            {&y},
            {}};
    execute(job, [&](const std::string &where) { expectBits(y, want, where); });
  }
}

TEST_CASE("shapes: pointers move as numbers do") {
  Rng rng(10);
  Array x("f32", 32 * 64), y("f32", 64 * 32);
  x.normal(rng);
  std::vector<uint64_t> want;
  for (size_t i = 0; i < y.count; ++i) want.push_back(x.raw(i % 32 * 64 + i / 32));
  Job job{"kernel k(x: *f32, y: *f32) launch(num_warps = 4) {\n  let p = reshape((x + arange(0, 2048)), [32, 64]).T;\n"
          "  let q = broadcast_to(expand_dims(y + arange(0, 64) * 32, 1), [64, 32]) + arange(0, 32)[None, :];\n  "
          "store(q, load(p));\n}\n",
          {},
          {&x},
          {&y},
          {}};
  execute(job, [&](const std::string &where) { expectBits(y, want, where); });
}

TEST_CASE("layouts asked for keep the values") {
  // Lanes differ: each target has its own layouts.
  struct Case {
    Shape shape;
    int warps;
    const char *layout;
  };
  const Case narrow[] = {
      {{64, 64}, 4, "blocked(size = [1, 4], lanes = [2, 16], warps = [4, 1], order = [1, 0])"},
      {{64, 64}, 4, "blocked(size = [4, 1], lanes = [16, 2], warps = [1, 4], order = [0, 1])"},
      {{96, 64}, 8, "blocked(size = [1, 8], lanes = [4, 8], warps = [8, 1], order = [1, 0])"},
      {{16, 16},
       1,
       "linear(register = [[0, 1], [8, 0], [0, 8]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [])"},
      {{32, 32},
       4,
       "linear(register = [[1, 1], [2, 0], [0, 2]], lane = [[4, 0], [0, 1], [8, 4], [0, 8], [16, 16]], warp = [[0, 4], "
       "[0, 16]])"},
      {{256}, 2, "blocked(size = [2], lanes = [32], warps = [2], order = [0])"}};
  const Case wide[] = {
      {{64, 64}, 4, "blocked(size = [1, 4], lanes = [4, 16], warps = [4, 1], order = [1, 0])"},
      {{64, 64}, 4, "blocked(size = [4, 1], lanes = [16, 4], warps = [1, 4], order = [0, 1])"},
      {{96, 64}, 8, "blocked(size = [1, 8], lanes = [8, 8], warps = [8, 1], order = [1, 0])"},
      {{16, 16},
       1,
       "linear(register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0], [0, 8]], warp = [])"},
      {{256}, 2, "blocked(size = [2], lanes = [64], warps = [2], order = [0])"}};
  Rng rng(11);
  for (const std::string &target : targets())
    for (const Case &c : target.rfind("gfx", 0) == 0 ? std::vector<Case>(std::begin(wide), std::end(wide))
                                                     : std::vector<Case>(std::begin(narrow), std::end(narrow)))
      for (const char *type : {"f16", "f32", "i8"}) {
        Array x(type, size_t(product(c.shape, 0, c.shape.size()))), y(type, x.count),
            sum(type == std::string("i8") ? "i32" : type, x.count / size_t(c.shape[0]));
        x.integers(rng, -3, 3);
        std::vector<uint64_t> wantSum;
        for (auto &line : lines(c.shape, 0)) {
          double s = 0;
          for (size_t e : line) s += x.value(e);
          wantSum.push_back(sum.type.isFloat ? floatBits(sum.type, s) : wrap(sum.type, Wide(s)));
        }
        Job job{replace("kernel k(x: *$T, y: *$T, s: *$S) launch(num_warps = $W) {\n  let v = require_layout(load(x + "
                        "$I), $L);\n  store(y + $I, v);\n",
                        {{"T", type},
                         {"S", sum.type.name},
                         {"W", std::to_string(c.warps)},
                         {"I", offsets(c.shape)},
                         {"L", c.layout}}) +
                    (c.shape.size() == 1 ? "  store(s, sum(v, axis = 0));\n}\n"
                                         : "  store(s + " + offsets(without(c.shape, 0)) + ", sum(v, axis = 0));\n}\n"),
                {},
                {&x},
                {&y, &sum},
                {}};
        job.on = {target};
        execute(job, [&](const std::string &where) {
          expectBits(y, bitsOf(x), where + " " + c.layout), expectBits(sum, wantSum, where + " sum " + c.layout);
        });
      }
}
