// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Random numbers of std/random.tlx: known answers of Philox 4x32-10, the numbers of a reference on every target, and
// their statistics; mulhi.
#include "operations.h"

using namespace operations;

namespace {
struct Four {
  uint32_t v[4];
};
Four philox(uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3, uint32_t k0, uint32_t k1, int rounds = 10) {
  for (int i = 0; i < rounds; ++i) {
    const uint64_t a = uint64_t(0xd2511f53) * c0, b = uint64_t(0xcd9e8d57) * c2;
    const uint32_t n0 = uint32_t(b >> 32) ^ c1 ^ k0, n2 = uint32_t(a >> 32) ^ c3 ^ k1;
    c1 = uint32_t(b), c3 = uint32_t(a), c0 = n0, c2 = n2;
    k0 += 0x9e3779b9, k1 += 0xbb67ae85;
  }
  return {{c0, c1, c2, c3}};
}
float uniform(uint32_t bits) {
  const int32_t x = int32_t(bits);
  return float(x < 0 ? -x - 1 : x) * 4.6566127342e-10f;
}
} // namespace

// The known answers are of the authors' library (Random123, kat_vectors).
TEST_CASE("random: known answers of philox 4x32-10") {
  const Four zero = philox(0, 0, 0, 0, 0, 0), ones = philox(~0u, ~0u, ~0u, ~0u, ~0u, ~0u),
             pi = philox(0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0);
  const uint32_t want[3][4] = {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
                               {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
                               {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}};
  for (unsigned i = 0; i < 4; ++i) {
    CHECK(zero.v[i] == want[0][i]);
    CHECK(ones.v[i] == want[1][i]);
    CHECK(pi.v[i] == want[2][i]);
  }
  Array out("u32", 12);
  Job job{"import \"std/random.tlx\";\nkernel k(out: *u32, zero: u32) launch(num_warps = 1) {\n"
          "  let z = zero; let o = ~zero;\n"
          "  let (a, b, c, d) = philox(z, z, z, z, z, z);\n  store(out, a); store(out + 1, b); store(out + 2, c); "
          "store(out + 3, d);\n"
          "  let (e, f, g, h) = philox(o, o, o, o, o, o);\n  store(out + 4, e); store(out + 5, f); store(out + 6, g); "
          "store(out + 7, h);\n"
          "  let (i, j, l, m) = philox(z + 0x243f6a88, z + 0x85a308d3, z + 0x13198a2e, z + 0x03707344, z + 0xa4093822, "
          "z + 0x299f31d0);\n"
          "  store(out + 8, i); store(out + 9, j); store(out + 10, l); store(out + 11, m);\n}\n",
          {},
          {},
          {&out},
          {uint32_t(0)}};
  execute(job, [&](const std::string &where) {
    std::vector<uint64_t> all;
    for (auto &row : want) all.insert(all.end(), row, row + 4);
    expectBits(out, all, where);
  });
}

TEST_CASE("random: integers and uniform numbers of seed and offset, in 32 and 64 bits") {
  constexpr size_t kN = 256;
  for (const char *type : {"i32", "i64"}) {
    const int64_t seed = 0x123456789abcdefll, first = std::string(type) == "i64" ? (5ll << 32) - 100 : 1000;
    Array a("u32", kN), b("u32", kN), c("u32", kN), d("u32", kN), u("f32", kN), fewer("u32", kN);
    std::vector<uint64_t> want[4], wantU, wantFewer;
    for (size_t i = 0; i < kN; ++i) {
      const uint64_t at = uint64_t(first + int64_t(i));
      const Four four = philox(uint32_t(at), uint32_t(at >> 32), 0, 0, uint32_t(seed), uint32_t(uint64_t(seed) >> 32));
      for (unsigned j = 0; j < 4; ++j) want[j].push_back(four.v[j]);
      const float f = uniform(four.v[0]);
      uint32_t bits;
      std::memcpy(&bits, &f, 4);
      wantU.push_back(bits);
      wantFewer.push_back(
          philox(uint32_t(at), uint32_t(at >> 32), 0, 0, uint32_t(seed), uint32_t(uint64_t(seed) >> 32), 7).v[0]);
    }
    Job job{
        replace(
            "import \"std/random.tlx\";\nkernel k(a: *u32, b: *u32, c: *u32, d: *u32, u: *f32, e: *u32, seed: i64, "
            "first: $T) launch(num_warps = 4) {\n"
            "  let i = arange(0, 256);\n  let at = first + i;\n  let (w, x, y, z) = randint4x(seed, at);\n"
            "  store(a + i, w); store(b + i, x); store(c + i, y); store(d + i, z);\n  store(u + i, rand(seed, at));\n"
            "  store(e + i, randint(seed, at, ROUNDS = 7));\n}\n",
            {{"T", type}}),
        {},
        {},
        {&a, &b, &c, &d, &u, &fewer},
        {seed}};
    if (std::string(type) == "i64")
      job.scalars.push_back(first);
    else
      job.scalars.push_back(int32_t(first));
    execute(job, [&](const std::string &where) {
      expectBits(a, want[0], where + " 0"), expectBits(b, want[1], where + " 1"), expectBits(c, want[2], where + " 2"),
          expectBits(d, want[3], where + " 3");
      expectBits(u, wantU, where + " rand"), expectBits(fewer, wantFewer, where + " 7 rounds");
    });
  }
}

TEST_CASE("random: normal numbers are those of Box and Muller, and have their moments") {
  constexpr size_t kN = 4096;
  Array x("f32", kN), y("f32", kN);
  std::vector<double> want, wantSecond;
  for (size_t i = 0; i < kN; ++i) {
    const Four four = philox(uint32_t(i), 0, 0, 0, 42, 0);
    const double u = std::max(1e-7, double(uniform(four.v[0]))), v = uniform(four.v[1]), pi = std::acos(-1.0);
    want.push_back(std::sqrt(-2 * std::log(u)) * std::cos(2 * pi * v));
    wantSecond.push_back(std::sqrt(-2 * std::log(u)) * std::sin(2 * pi * v));
  }
  Job job{"import \"std/random.tlx\";\nkernel k(x: *f32, y: *f32) launch(num_warps = 4) {\n  let i = program_id(0) * "
          "512 + arange(0, 512);\n"
          "  store(x + i, randn(42, i));\n  let (_, second, _, _) = randn4x(42, i);\n  store(y + i, second);\n}\n",
          {},
          {},
          {&x, &y},
          {},
          {8, 1, 1}};
  job.inOrderOnly = true;
  execute(job, [&](const std::string &where) {
    expectClose(x, want, 4e-6, 4e-6, where + " first"), expectClose(y, wantSecond, 4e-6, 4e-6, where + " second");
    double sum = 0, squares = 0;
    for (size_t i = 0; i < kN; ++i) sum += x.value(i), squares += x.value(i) * x.value(i);
    CHECK_MESSAGE(std::fabs(sum / kN) < 0.05, where);
    CHECK_MESSAGE(std::fabs(squares / kN - 1) < 0.08, where);
  });
}

TEST_CASE("random: mulhi is the upper half of the product") {
  Rng rng(1);
  for (const char *name : {"i32", "u32", "i64", "u64"}) {
    const Type &t = typeOf(name);
    Array x(name, 128), y(name, 128), z(name, 128), k(name, 128);
    x.randomBits(rng), y.randomBits(rng);
    x.setRaw(0, 0), x.setRaw(1, maskOf(t)), y.setRaw(1, maskOf(t)), x.setRaw(2, 1ull << (t.bits - 1)),
        y.setRaw(2, 1ull << (t.bits - 1));
    std::vector<uint64_t> want, wantK;
    auto upper = [&](size_t i, Wide by) {
      if (t.isSigned || t.bits < 64) return wrap(t, (x.integer(i) * by) >> t.bits);
      return uint64_t((unsigned __int128)(x.raw(i)) * (unsigned __int128)(by) >> 64);
    };
    for (size_t i = 0; i < 128; ++i) want.push_back(upper(i, y.integer(i))), wantK.push_back(upper(i, 1234567891));
    Job job{
        replace("kernel k(x: *$T, y: *$T, z: *$T, k: *$T) launch(num_warps = 2) {\n  let i = arange(0, 128);\n"
                "  store(z + i, mulhi(load(x + i), load(y + i)));\n  store(k + i, mulhi(load(x + i), 1234567891));\n"
                "  static_assert(mulhi(-3, 1 << 30) == -1);\n}\n",
                {{"T", name}}),
        {},
        {&x, &y},
        {&z, &k},
        {}};
    job.inOrderOnly = true;
    execute(job, [&](const std::string &where) {
      expectBits(z, want, where + " " + name), expectBits(k, wantK, where + " constant");
    });
  }
}
