// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Scans: every shape and axis with registers, lanes, warps and odd factors along it, both directions, combiners that
// are not commutative, several values at once; and the top value with its index.
#include "operations.h"

using namespace operations;

namespace {
std::string number(int64_t v) {
  return std::to_string(v);
}
struct Place {
  Shape shape;
  size_t axis;
  int warps;
};
const Place kPlaces[] = {{{1}, 0, 1},      {{2}, 0, 1},        {{64}, 0, 1},     {{1024}, 0, 4},     {{96}, 0, 2},
                         {{2048}, 0, 8},   {{16, 64}, 1, 4},   {{16, 64}, 0, 4}, {{128, 8}, 0, 4},   {{4, 96}, 1, 1},
                         {{80, 4}, 0, 2},  {{4, 8, 16}, 1, 4}, {{2, 240}, 1, 4}, {{8, 4, 32}, 0, 8}, {{3, 5, 7}, 2, 1},
                         {{32, 32}, 0, 1}, {{128, 128}, 0, 4}, {{128, 64}, 1, 8}};
} // namespace

TEST_CASE("scans: cumsum and cumprod of integers, every place of the axis, both directions") {
  Rng rng(1);
  for (const Place &place : kPlaces)
    for (bool reverse : {false, true})
      for (const char *name : {"cumsum", "cumprod"}) {
        const size_t n = size_t(product(place.shape, 0, place.shape.size()));
        Array x("i32", n), y("i32", n);
        x.integers(rng, -9, 9);
        if (std::string(name) == "cumprod")
          for (size_t i = 0; i < n; ++i) x.setRaw(i, x.raw(i) | 1); // odd: a product keeps all its bits
        std::vector<uint64_t> want(n);
        for (std::vector<size_t> line : lines(place.shape, place.axis)) {
          if (reverse) std::reverse(line.begin(), line.end());
          uint64_t acc = std::string(name) == "cumprod";
          for (size_t i : line) want[i] = acc = (name[3] == 's' ? acc + x.raw(i) : acc * x.raw(i)) & 0xffffffffu;
        }
        Job job{replace("kernel k(x: *i32, y: *i32) launch(num_warps = $W) {\n  let at = $O;\n"
                        "  store(y + at, $F(load(x + at), axis = $A, reverse = $R));\n}\n",
                        {{"W", number(place.warps)},
                         {"O", offsets(place.shape)},
                         {"F", name},
                         {"A", number(int64_t(place.axis))},
                         {"R", reverse ? "true" : "false"}}),
                {},
                {&x},
                {&y},
                {}};
        job.inOrderOnly = reverse;
        execute(job, [&](const std::string &where) {
          expectBits(y, want,
                     where + " " + name + " of " + text(place.shape) + " axis " + number(int64_t(place.axis)) +
                         (reverse ? " reverse" : ""));
        });
      }
}

// x -> a·x + b: composing such maps is associative and not commutative, and takes two tiles.
TEST_CASE("scans: a combiner of two values that is not commutative") {
  Rng rng(2);
  for (const Place &place : kPlaces)
    for (bool reverse : {false, true}) {
      const size_t n = size_t(product(place.shape, 0, place.shape.size()));
      Array a("u32", n), c("u32", n), p("u32", n), q("u32", n);
      a.randomBits(rng), c.randomBits(rng);
      std::vector<uint64_t> wantP(n), wantQ(n);
      for (std::vector<size_t> line : lines(place.shape, place.axis)) {
        if (reverse) std::reverse(line.begin(), line.end());
        uint32_t scale = 1, add = 0;
        for (size_t i : line) { // first the map so far, then this one
          add = uint32_t(a.raw(i)) * add + uint32_t(c.raw(i)), scale *= uint32_t(a.raw(i));
          wantP[i] = scale, wantQ[i] = add;
        }
      }
      Job job{replace("fn then(a, b, c, d) { return (c * a, c * b + d); }\n"
                      "kernel k(a: *u32, c: *u32, p: *u32, q: *u32) launch(num_warps = $W) {\n  let at = $O;\n"
                      "  let (x, y) = associative_scan((load(a + at), load(c + at)), $A, then, reverse = $R);\n"
                      "  store(p + at, x); store(q + at, y);\n}\n",
                      {{"W", number(place.warps)},
                       {"O", offsets(place.shape)},
                       {"A", number(int64_t(place.axis))},
                       {"R", reverse ? "true" : "false"}}),
              {},
              {&a, &c},
              {&p, &q},
              {}};
      job.inOrderOnly = !reverse;
      execute(job, [&](const std::string &where) {
        std::string w = where + " " + text(place.shape) + " axis " + number(int64_t(place.axis));
        expectBits(p, wantP, w + " scale"), expectBits(q, wantQ, w + " add");
      });
    }
}

TEST_CASE("scans: types, and operations as combiners") {
  Rng rng(3);
  for (const char *name : {"i8", "u8", "i16", "i64", "u64", "f16", "bf16", "f32", "f64", "i1"}) {
    const Type &t = typeOf(name);
    const std::string result = t.bits >= 32 || t.isFloat ? name : t.isSigned || t.bits == 1 ? "i32" : "u32";
    Array x(name, 256), sums(result, 256), tops(name, 256);
    if (t.bits == 1)
      for (size_t i = 0; i < 256; ++i) x.setRaw(i, rng.next() & 1);
    else
      x.integers(rng, t.isSigned ? -2 : 0, 2); // exact in every type
    std::vector<uint64_t> wantSums(256), wantTops(256);
    Array sum(result, 1);
    double total = 0, top = 0;
    for (size_t i = 0; i < 256; ++i) {
      total += x.value(i);
      top = i ? std::max(top, x.value(i)) : x.value(i);
      sum.set(0, total), wantSums[i] = sum.raw(0);
      Array one(name, 1);
      one.set(0, top), wantTops[i] = one.raw(0);
    }
    const bool truth = t.bits == 1;
    Job job{replace("fn either(a, b) { return a | b; }\n"
                    "kernel k(x: *$T, s: *$R, m: *$T) launch(num_warps = 4) {\n  let i = arange(0, 256);\n  let v = "
                    "load(x + i);\n"
                    "  store(s + i, cumsum(v));\n  store(m + i, associative_scan(v, 0, $F));\n}\n",
                    {{"T", name}, {"R", result}, {"F", truth ? "either" : "maximum"}}),
            {},
            {&x},
            {&sums, &tops},
            {}};
    execute(job, [&](const std::string &where) {
      expectBits(sums, wantSums, where + " " + name + " cumsum"),
          expectBits(tops, wantTops, where + " " + name + " maximum");
    });
  }
}

TEST_CASE("scans: in a loop, with a carried total") {
  Rng rng(4);
  constexpr size_t kChunks = 5, kBlock = 256;
  Array x("i32", kChunks * kBlock - 3), y("i32", x.count);
  x.integers(rng, -1000, 1000);
  std::vector<uint64_t> want;
  uint32_t sum = 0;
  for (size_t i = 0; i < x.count; ++i) want.push_back(sum += uint32_t(x.raw(i)));
  Job job{"kernel k(x: *i32, y: *i32, n: i32) launch(num_warps = 2) {\n  var carry = 0;\n  for first in range(0, n, "
          "256) {\n"
          "    let i = first + arange(0, 256);\n    let v = load(x + i, i < n);\n    store(y + i, cumsum(v) + carry, i "
          "< n);\n"
          "    carry += sum(v);\n  }\n}\n",
          {},
          {&x},
          {&y},
          {int32_t(x.count)}};
  execute(job, [&](const std::string &where) { expectBits(y, want, where); });
}

// Lanes and warps of the accumulator's layout run in other orders than those of loads.
TEST_CASE("scans: of the result of dot") {
  Rng rng(5);
  Array a("f16", 32 * 16), c("f16", 16 * 64), y("f32", 32 * 64), z("f32", 32 * 64);
  a.integers(rng, -3, 3), c.integers(rng, -3, 3);
  std::vector<uint64_t> wantY(y.count), wantZ(y.count);
  Array one("f32", 1);
  std::vector<double> d(y.count);
  for (size_t i = 0; i < 32; ++i)
    for (size_t j = 0; j < 64; ++j)
      for (size_t k = 0; k < 16; ++k) d[i * 64 + j] += a.value(i * 16 + k) * c.value(k * 64 + j);
  for (size_t axis : {0, 1})
    for (const auto &line : lines({32, 64}, axis)) {
      double sum = 0;
      for (size_t i : line) one.set(0, sum += d[i]), (axis ? wantY : wantZ)[i] = one.raw(0);
    }
  Job job{replace("kernel k(a: *f16, c: *f16, y: *f32, z: *f32) launch(num_warps = 4) {\n"
                  "  let d = dot(load(a + $A), load(c + $C));\n  store(y + $D, cumsum(d, 1));\n  store(z + $D, "
                  "cumsum(d, 0));\n}\n",
                  {{"A", offsets({32, 16})}, {"C", offsets({16, 64})}, {"D", offsets({32, 64})}}),
          {},
          {&a, &c},
          {&y, &z},
          {}};
  execute(job, [&](const std::string &where) {
    expectBits(y, wantY, where + " rows"), expectBits(z, wantZ, where + " columns");
  });
}

TEST_CASE("scans: the top value with its index") {
  Rng rng(6);
  for (const char *name : {"f32", "i32", "f16"})
    for (bool largest : {true, false}) {
      Array x(name, 16 * 64), v(name, 16), i("i32", 16), kept("i32", 16);
      x.integers(rng, -20, 20);
      if (x.type.isFloat)
        for (size_t r = 0; r < 16; r += 3) x.set(r * 64 + size_t(rng.integer(0, 63)), NAN);
      std::vector<uint64_t> wantV, wantI;
      for (size_t r = 0; r < 16; ++r) {
        size_t best = 64;
        for (size_t c = 0; c < 64; ++c) {
          const double now = x.value(r * 64 + c);
          if (std::isnan(now)) continue;
          if (best == 64 || (largest ? now > x.value(r * 64 + best) : now < x.value(r * 64 + best))) best = c;
        }
        wantV.push_back(x.raw(r * 64 + best)), wantI.push_back(best);
      }
      Job job{
          replace("kernel k(x: *$T, v: *$T, i: *i32, kept: *i32) launch(num_warps = 4) {\n  let r = arange(0, 16);\n"
                  "  let (top, index) = $F(load(x + $O), axis = 1, return_indices = true);\n  store(v + r, top); "
                  "store(i + r, index);\n"
                  "  let (_, wide) = $F(load(x + $O), axis = 1, keep_dims = true, return_indices = true);\n"
                  "  store(kept + r[:, None], wide);\n}\n",
                  {{"T", name}, {"F", largest ? "max" : "min"}, {"O", offsets({16, 64})}}),
          {},
          {&x},
          {&v, &i, &kept},
          {}};
      execute(job, [&](const std::string &where) {
        expectBits(v, wantV, where + " value"), expectBits(i, wantI, where + " index"),
            expectBits(kept, wantI, where + " kept");
      });
    }
}

// The ring takes nearly all of shared memory; what the warps hand each other lies where it was.
TEST_CASE("scans: behind a ring that fills shared memory") {
  for (const std::string &target : targets()) {
    const int stages = target == "sm_90a" ? 7 : target == "sm_80" ? 5 : target == "gfx950" ? 4 : 2;
    const std::string text =
        "kernel k(a: tensor_desc<f16, [128, 64]>, b: tensor_desc<f16, [64, 128]>, c: *f32) launch(num_warps = 8) {\n"
        "  var acc = zeros([128, 128], f32);\n"
        "  for k in range(0, 256, 64, num_stages = " +
        number(stages) +
        ") { acc = dot(a.load([0, k]), b.load([k, 0]), acc); }\n"
        "  let at = arange(0, 128)[:, None] * 128 + arange(0, 128)[None, :];\n"
        "  store(c + at, cumsum(acc, axis = 0));\n}\n";
    Program p;
    try {
      p = compileText(text, {"scan.tlx", "k", {}, {}}, target);
    } catch (const std::exception &e) {
      std::string why = e.what();
      CHECK_MESSAGE(false, why);
      continue;
    }
    harness::Rng rng(8);
    harness::Tensor a("f16", 128 * 256), b("f16", 256 * 128), c("f32", 128 * 128);
    fill(a, rng, harness::Fill::Integers), fill(b, rng, harness::Fill::Integers);
    std::vector<double> want(c.count());
    for (size_t i = 0; i < 128; ++i)
      for (size_t j = 0; j < 128; ++j) {
        double sum = i ? want[(i - 1) * 128 + j] : 0;
        for (size_t k = 0; k < 256; ++k) sum += a.get(i * 256 + k) * b.get(k * 128 + j);
        want[i * 128 + j] = sum;
      }
    for (const Setting &setting : harness::settings(target, 2)) {
      c.poison();
      tlx::Buffer left = harness::upload(a), right = harness::upload(b), out = harness::upload(c);
      tlx::Tensor ta = harness::tensor(left, a, {128, 256}), tb = harness::tensor(right, b, {256, 128});
      CHECK(p.run({1, 1, 1}, {ta, tb, out}, setting) == "");
      harness::download(c, out);
      for (size_t i = 0; i < c.count(); ++i) REQUIRE(c.get(i) == want[i]);
    }
  }
}
