// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// dot in every type, on small, odd and large tiles, transposed, chained, and where control flow stands around it. Small
// integers make every product exact.
#include "operations.h"

using namespace operations;

namespace {
struct Product {
  int64_t m, n, k;
  std::string text() const { return std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k); }
};
std::string number(int64_t v) {
  return std::to_string(v);
}
std::string accumulator(const std::string &type) {
  return type == "i8" || type == "u8" ? "i32" : type == "f64" ? "f64" : "f32";
}
/// Row-major product of values, plus what stands in `acc`.
std::vector<double> multiply(const std::vector<double> &a, const std::vector<double> &b, Product p,
                             std::vector<double> acc = {}) {
  acc.resize(size_t(p.m * p.n), 0.0);
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t k = 0; k < p.k; ++k)
      for (int64_t j = 0; j < p.n; ++j) acc[size_t(i * p.n + j)] += a[size_t(i * p.k + k)] * b[size_t(k * p.n + j)];
  return acc;
}
std::vector<double> values(const Array &a) {
  std::vector<double> v;
  for (size_t i = 0; i < a.count; ++i) v.push_back(a.value(i));
  return v;
}
std::vector<double> transposed(const std::vector<double> &x, int64_t rows, int64_t columns) { // x[rows, columns]
  std::vector<double> y(x.size());
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) y[size_t(j * rows + i)] = x[size_t(i * columns + j)];
  return y;
}
std::string load2(const char *pointer, int64_t rows, int64_t columns) {
  return std::string("load(") + pointer + " + " + offsets({rows, columns}) + ")";
}

bool isFp8(const std::string &type) {
  return type.rfind("f8", 0) == 0;
}
/// Targets whose matrix instructions take the type.
bool takes(const std::string &target, const std::string &type) {
  if (type == "u8") return target.rfind("sm_", 0) == 0;
  if (isFp8(type)) return target == (type.find("fnuz") == std::string::npos ? "gfx950" : "gfx942");
  return true;
}

void dot(const std::string &type, Product p, int warps, bool transA, bool transB, const std::string &precision = "",
         double rtol = 0, std::string typeB = "") {
  if (typeB.empty()) typeB = type;
  Rng rng(uint64_t(p.m * 31 + p.n * 7 + p.k + warps));
  const std::string acc = accumulator(type);
  Array a(type, size_t(p.m * p.k)), b(typeB, size_t(p.k * p.n)), c(acc, size_t(p.m * p.n)), y(acc, c.count),
      z(acc, c.count);
  bool wide = rtol > 0; // normal numbers, else exact integers
  if (wide) {
    a.normal(rng), b.normal(rng), c.normal(rng);
  } else {
    int64_t bound = type == "i8" ? 127 : type == "u8" ? 255 : 4;
    a.integers(rng, type == "u8" ? 0 : -bound, bound), b.integers(rng, type == "u8" ? 0 : -bound, bound),
        c.integers(rng, -1000, 1000);
  }
  std::vector<double> av = values(a), bv = values(b), magnitude;
  if (transA) av = transposed(av, p.k, p.m);
  if (transB) bv = transposed(bv, p.n, p.k);
  std::vector<double> want = multiply(av, bv, p, values(c)), wantZ = multiply(av, bv, p);
  std::string named = precision.empty() ? "" : ", precision = \"" + precision + "\"";
  Job job{replace("kernel k(a: *$T, b: *$U, c: *$C, y: *$C, z: *$C) launch(num_warps = $W) {\n  let va = $A;\n  let vb "
                  "= $B;\n  let vc = $L;\n"
                  "  store(y + $O, dot(va, vb, vc$P)); store(z + $O, dot(va, vb$P));\n}\n",
                  {{"T", type},
                   {"U", typeB},
                   {"C", acc},
                   {"W", number(warps)},
                   {"A", transA ? load2("a", p.k, p.m) + ".T" : load2("a", p.m, p.k)},
                   {"B", transB ? load2("b", p.n, p.k) + ".T" : load2("b", p.k, p.n)},
                   {"L", load2("c", p.m, p.n)},
                   {"O", offsets({p.m, p.n})},
                   {"P", named}}),
          {},
          {&a, &b, &c},
          {&y, &z},
          {}};
  job.inOrderOnly = warps == 1 || p.m * p.n * p.k > 40000;
  std::erase_if(job.on, [&](const std::string &target) { return !takes(target, type); }); // refused, see below
  execute(job, [&](const std::string &where) {
    std::string w = where + " " + type + (typeB == type ? " " : " " + typeB + " ") + p.text() + " warps " +
                    number(warps) + (transA ? " A^T" : "") + (transB ? " B^T" : "") + named;
    double scale = wide ? rtol * double(p.k) : 0;
    expectClose(y, want, scale, 0, w + " with acc"), expectClose(z, wantZ, scale, 0, w);
  });
}
} // namespace

TEST_CASE("dot: every type, small and odd tiles") {
  const Product small[] = {{16, 16, 16}, {16, 8, 32},  {1, 1, 1},  {5, 7, 3},
                           {12, 20, 24}, {48, 16, 32}, {2, 32, 4}, {16, 16, 96}};
  for (const char *type : {"f16", "bf16", "f32", "f64", "i8", "u8"})
    for (const Product &p : small) dot(type, p, p.m % 3 ? 1 : 4, false, false);
}

TEST_CASE("dot: what a target lacks is refused, not computed in another type") {
  if (!onSimulator()) return;
  auto refused = [](const char *a, const char *b, const char *acc, const char *target, const std::string &message) {
    std::string text = replace("kernel k(a: *$A, b: *$B, y: *$C) launch(num_warps = 1) {\n"
                               "  store(y + $O, dot(load(a + $O), load(b + $O)));\n}\n",
                               {{"A", a}, {"B", b}, {"C", acc}, {"O", offsets({32, 32})}});
    CAPTURE(text);
    const std::string place = ":2:" + std::to_string(15 + offsets({32, 32}).size()) + ": error: "; // of dot
    CHECK_THROWS_WITH_AS(compileText(text, {"operations.tlx", "", {}, {}}, target),
                         doctest::Contains((place + message).c_str()), std::runtime_error);
  };
  const std::string lacks = " has no matrix instruction on ", nearest = "; the nearest type that it has is ",
                    with = ": convert the operands with .to(";
  for (const char *target : {"gfx942", "gfx950"})
    refused("u8", "u8", "i32", target, "dot of u8" + lacks + target + nearest + "f16" + with + "f16)");
  refused("f8e4m3", "f8e4m3", "f32", "gfx942",
          "dot of f8e4m3" + lacks + "gfx942" + nearest + "f8e4m3fnuz" + with + "f8e4m3fnuz)");
  refused("f8e5m2", "f8e4m3", "f32", "gfx942",
          "dot of f8e5m2" + lacks + "gfx942" + nearest + "f8e5m2fnuz" + with + "f8e5m2fnuz)");
  refused("f8e5m2fnuz", "f8e5m2fnuz", "f32", "gfx950",
          "dot of f8e5m2fnuz" + lacks + "gfx950" + nearest + "f8e5m2" + with + "f8e5m2)");
  // B alone.
  refused("f8e4m3", "f8e4m3fnuz", "f32", "gfx950",
          "dot of f8e4m3fnuz" + lacks + "gfx950" + nearest + "f8e4m3" + with + "f8e4m3)");
  refused("f8e4m3", "f8e4m3", "f32", "sm_80", "dot of f8e4m3" + lacks + "sm_80" + nearest + "f16" + with + "f16)");
  refused("f8e4m3fnuz", "f8e4m3fnuz", "f32", "sm_90a", "dot of f8e4m3fnuz" + lacks + "sm_90a" + nearest);
}

// gfx942 has the fnuz forms, gfx950 the others; the two of a pair mix.
TEST_CASE("dot: 8-bit floats") {
  for (const char *suffix : {"", "fnuz"})
    for (const char *a : {"f8e4m3", "f8e5m2"})
      for (const char *b : {"f8e4m3", "f8e5m2"}) {
        const std::string typeA = std::string(a) + suffix, typeB = std::string(b) + suffix;
        for (const Product &p : {Product{16, 16, 32}, {64, 32, 64}, {48, 80, 96}, {32, 32, 16}, {5, 7, 3}, {16, 16, 8}})
          for (int t = 0; t < 4; ++t) dot(typeA, p, p.m % 3 ? 4 : 1, t & 1, t & 2, "", 0, typeB);
        dot(typeA, {64, 64, 64}, 4, false, true, "", 1e-6,
            typeB); // all exponents: products and sums are rounded in f32
      }
}

TEST_CASE("dot: transposed operands") {
  for (const char *type : {"f16", "f32", "f64", "i8"})
    for (const Product &p : {Product{32, 16, 32}, {12, 24, 8}})
      for (int t = 1; t < 4; ++t) dot(type, p, 4, t & 1, t & 2);
}

TEST_CASE("dot: larger tiles on several warps") {
  for (const char *type : {"f16", "bf16", "f32", "i8"}) {
    dot(type, {64, 64, 32}, 4, false, false), dot(type, {128, 64, 32}, 8, false, true),
        dot(type, {96, 48, 64}, 4, false, false);
    dot(type, {176, 16, 32}, 4, false, false), dot(type, {16, 208, 16}, 8, false, false);
  }
}

TEST_CASE("dot: the precisions of f32") {
  for (const Product &p : {Product{32, 16, 32}, {12, 20, 24}}) {
    dot("f32", p, 4, false, false, "default", 3e-3), dot("f32", p, 4, false, false, "tf32", 3e-3);
    dot("f32", p, 4, false, false, "tf32x3", 1e-5), dot("f32", p, 4, false, true, "ieee", 1e-6);
    dot("f64", p, 4, true, false, "", 1e-14);
  }
}

// Case 9 of the reported faults, and its relatives.
TEST_CASE("dot: chained through a conversion") {
  for (const char *type : {"f16", "bf16"})
    for (int64_t width : {64, 128})
      for (int warps : {4, 8}) {
        Rng rng(uint64_t(width + warps));
        // p = q k^T (64 x 64), y = p v, d = p^T v; small integers are exact in bf16 up to 256.
        Array q(type, size_t(64 * width)), k(type, size_t(64 * width)), v(type, 64 * 64), y("f32", 64 * 64),
            d("f32", 64 * 64);
        q.integers(rng, -1, 1), k.integers(rng, -1, 1), v.integers(rng, -3, 3);
        auto p = multiply(values(q), transposed(values(k), 64, width), {64, 64, width});
        auto wantY = multiply(p, values(v), {64, 64, 64}),
             wantD = multiply(transposed(p, 64, 64), values(v), {64, 64, 64});
        Job job{replace("kernel k(q: *$T, k: *$T, v: *$T, y: *f32, d: *f32) launch(num_warps = $W) {\n  let p = "
                        "dot($Q, $K.T).to($T);\n  let vv = $V;\n"
                        "  store(y + $O, dot(p, vv)); store(d + $O, dot(p.T, vv));\n}\n",
                        {{"T", type},
                         {"W", number(warps)},
                         {"Q", load2("q", 64, width)},
                         {"K", load2("k", 64, width)},
                         {"V", load2("v", 64, 64)},
                         {"O", offsets({64, 64})}}),
                {},
                {&q, &k, &v},
                {&y, &d},
                {}};
        job.inOrderOnly = width == 128;
        execute(job, [&](const std::string &where) {
          expectClose(y, wantY, 0, 0, where + " " + type + " width " + number(width) + " p v");
          expectClose(d, wantD, 0, 0, where + " " + type + " width " + number(width) + " p^T v");
        });
      }
}

TEST_CASE("dot: dot(dot(q, k), k^T) with a long inner extent") {
  Rng rng(91);
  Array q("bf16", 64 * 512), k("bf16", 16 * 512), y("f32", 64 * 512);
  q.integers(rng, -1, 1), k.integers(rng, 0, 1);
  auto p = multiply(values(q), transposed(values(k), 16, 512), {64, 16, 512});
  auto want = multiply(p, values(k), {64, 512, 16});
  Job job{replace("kernel k(q: *bf16, k: *bf16, y: *f32) launch(num_warps = 4) {\n  let vk = $K;\n  store(y + $O, "
                  "dot(dot($Q, vk.T).to(bf16), vk));\n}\n",
                  {{"Q", load2("q", 64, 512)}, {"K", load2("k", 16, 512)}, {"O", offsets({64, 512})}}),
          {},
          {&q, &k},
          {&y},
          {}};
  job.inOrderOnly = true;
  execute(job, [&](const std::string &where) { expectClose(y, want, 0, 0, where); });
}

// Case 10.
TEST_CASE("dot: chained i8, clipped in between") {
  for (bool transV : {false, true}) {
    Rng rng(10 + transV);
    Array q("i8", 64 * 64), k("i8", 64 * 64), v("i8", 64 * 64), y("i32", 64 * 64);
    q.randomBits(rng), k.randomBits(rng), v.randomBits(rng);
    auto p = multiply(values(q), transposed(values(k), 64, 64), {64, 64, 64});
    for (double &e : p) e = std::clamp(std::floor(e / 1024), -128.0, 127.0);
    auto want = multiply(p, transV ? transposed(values(v), 64, 64) : values(v), {64, 64, 64});
    Job job{
        replace("kernel k(q: *i8, k: *i8, v: *i8, y: *i32) launch(num_warps = 4) {\n  let p = dot($Q, $K.T) >> 10;\n"
                "  let c = minimum(maximum(p, -128), 127).to(i8);\n  store(y + $O, dot(c, $V));\n}\n",
                {{"Q", load2("q", 64, 64)},
                 {"K", load2("k", 64, 64)},
                 {"V", load2("v", 64, 64) + (transV ? ".T" : "")},
                 {"O", offsets({64, 64})}}),
        {},
        {&q, &k, &v},
        {&y},
        {}};
    job.inOrderOnly = true;
    execute(job, [&](const std::string &where) { expectClose(y, want, 0, 0, where); });
  }
}

TEST_CASE("dot: i8 with an inner extent of 2052, in small steps, beyond 2^24") {
  Rng rng(2052);
  constexpr int64_t kLength = 2052;
  Array a("i8", 16 * kLength), b("i8", kLength * 16), y("i32", 256);
  a.integers(rng, 100, 127), b.integers(rng, 100, 127);
  for (size_t i = 0; i < 16; ++i) a.set(i, -128);
  auto want = multiply(values(a), values(b), {16, 16, kLength});
  CHECK(want[255] > 16777216.0);
  for (int step : {1, 2, 4}) {
    Job job{replace("kernel k(a: *i8, b: *i8, y: *i32, K: i32) launch(num_warps = 1) {\n  var acc = zeros([16, 16], "
                    "i32);\n  let (m, s) = (arange(0, 16), arange(0, $S));\n"
                    "  for k in range(0, K, $S, num_stages = $N) {\n    let va = load(a + m[:, None] * K + (k + "
                    "s)[None, :]);\n    let vb = load(b + (k + s)[:, None] * 16 + m[None, :]);\n"
                    "    acc = dot(va, vb, acc);\n  }\n  store(y + m[:, None] * 16 + m[None, :], acc);\n}\n",
                    {{"S", number(step)}, {"N", number(step)}}),
            {},
            {&a, &b},
            {&y},
            {int32_t(kLength)}};
    job.inOrderOnly = true;
    execute(job, [&](const std::string &where) { expectClose(y, want, 0, 0, where + " step " + number(step)); });
  }
}

TEST_CASE("dot: in branches and loops that a scalar steers") {
  Rng rng(13);
  Array a("f16", 4 * 32 * 16), b("f16", 16 * 32), y("f32", 32 * 32), which("i32", 4);
  a.integers(rng, -3, 3), b.integers(rng, -3, 3);
  which.set(0, 1), which.set(1, 0), which.set(2, 2), which.set(3, 1);
  std::vector<double> want(32 * 32, 0.0);
  for (size_t s = 0; s < 4; ++s) {
    std::vector<double> part;
    for (size_t i = 0; i < 512; ++i) part.push_back(a.value(s * 512 + i));
    auto product = multiply(part, values(b), {32, 32, 16});
    for (size_t i = 0; i < want.size(); ++i)
      if (which.integer(s) == 1)
        want[i] += product[i];
      else if (which.integer(s) == 2)
        want[i] = want[i] * 2 - product[i];
  }
  for (int stages : {1, 2, 3, 4}) {
    Job job{
        replace("kernel k(a: *f16, b: *f16, which: *i32, y: *f32, n: i32) launch(num_warps = 4) {\n  var acc = "
                "zeros([32, 32], f32);\n  let vb = $B;\n"
                "  for s in range(0, n, num_stages = $S) {\n    let va = load(a + s * 512 + $A);\n    let w = "
                "load(which + s);\n"
                "    if w == 1 {\n      acc = dot(va, vb, acc);\n    } else if w == 2 {\n      acc = acc * 2.0 - "
                "dot(va, vb);\n    }\n  }\n  store(y + $O, acc);\n}\n",
                {{"S", number(stages)}, {"A", offsets({32, 16})}, {"B", load2("b", 16, 32)}, {"O", offsets({32, 32})}}),
        {},
        {&a, &b, &which},
        {&y},
        {4}};
    execute(job, [&](const std::string &where) { expectClose(y, want, 0, 0, where + " stages " + number(stages)); });
    job.scalars = {0}; // no iteration at all
    execute(job, [&](const std::string &where) {
      expectClose(y, std::vector<double>(1024, 0.0), 0, 0, where + " no trips, stages " + number(stages));
    });
  }
}

// Case 4: one trip and none, also by an empty share of a split.
TEST_CASE("dot: a pipelined loop of one trip and of none") {
  Rng rng(14);
  Array a("bf16", 64 * 512), b("bf16", 512 * 64), y("f32", 5 * 64 * 64);
  a.integers(rng, -2, 2), b.integers(rng, -2, 2);
  std::vector<double> want;
  for (int64_t split = 0; split < 5; ++split) { // 8 tiles of K, shares of 2: the last is empty
    std::vector<double> part(64 * 64, 0.0);
    for (int64_t k = split * 128; k < std::min<int64_t>(512, (split + 1) * 128); ++k)
      for (int64_t i = 0; i < 64; ++i)
        for (int64_t j = 0; j < 64; ++j)
          part[size_t(i * 64 + j)] += a.value(size_t(i * 512 + k)) * b.value(size_t(k * 64 + j));
    want.insert(want.end(), part.begin(), part.end());
  }
  for (int stages : {1, 2, 3, 4}) {
    Job job{
        replace("kernel k(a: *bf16, b: *bf16, y: *f32, K: i32, share: i32) launch(num_warps = 4) {\n  let split = "
                "program_id(0);\n  let (m, s) = (arange(0, 64), arange(0, 64));\n"
                "  var acc = zeros([64, 64], f32);\n  let first = split * share * 64;\n  let end = min(first + share * "
                "64, K);\n"
                "  for k in range(first, end, 64, num_stages = $S) {\n    let va = load(a + m[:, None] * 512 + (k + "
                "s)[None, :]);\n    let vb = load(b + (k + s)[:, None] * 64 + m[None, :]);\n"
                "    acc = dot(va, vb, acc);\n  }\n  store(y + split * 4096 + m[:, None] * 64 + m[None, :], acc);\n}\n",
                {{"S", number(stages)}}),
        {},
        {&a, &b},
        {&y},
        {512, 2},
        {5}};
    job.inOrderOnly = stages != 3;
    execute(job, [&](const std::string &where) { expectClose(y, want, 0, 0, where + " stages " + number(stages)); });
  }
}

// Case 8 in its plain form: an accumulator is read in the loop when its tile is complete.
TEST_CASE("dot: a loop over tiles and K in one, the accumulator stored on the last step") {
  Rng rng(15);
  Array a("f16", 4 * 32 * 64), b("f16", 64 * 32), y("f32", 4 * 32 * 32);
  a.integers(rng, -2, 2), b.integers(rng, -2, 2);
  auto want = multiply(values(a), values(b), {128, 32, 64});
  for (int stages : {1, 2, 3, 4}) {
    Job job{
        replace("kernel k(a: *f16, b: *f16, y: *f32, tiles: i32) launch(num_warps = 4) {\n  let (m, s) = (arange(0, "
                "32), arange(0, 16));\n  var acc = zeros([32, 32], f32);\n"
                "  for step in range(0, tiles * 4, num_stages = $S) {\n    let (tile, k) = (step / 4, step % 4 * 16);\n"
                "    let va = load(a + (tile * 32 + m)[:, None] * 64 + (k + s)[None, :]);\n    let vb = load(b + (k + "
                "s)[:, None] * 32 + m[None, :]);\n    acc = dot(va, vb, acc);\n"
                "    if step % 4 == 3 {\n      store(y + (tile * 32 + m)[:, None] * 32 + m[None, :], acc);\n      acc "
                "= zeros([32, 32], f32);\n    }\n  }\n}\n",
                {{"S", number(stages)}}),
        {},
        {&a, &b},
        {&y},
        {4}};
    execute(job, [&](const std::string &where) { expectClose(y, want, 0, 0, where + " stages " + number(stages)); });
  }
}
