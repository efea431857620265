// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Global memory: masks, `other`, scattered pointers, strides in 64 bits, atomics, and the order of stores and loads.
#include "operations.h"

using namespace operations;

namespace {
const char *const kTypes[] = {"i1",  "i8",     "i16",    "i32", "i64",  "u8",  "u16", "u32",
                              "u64", "f8e4m3", "f8e5m2", "f16", "bf16", "f32", "f64"};
std::string number(int64_t v) {
  return std::to_string(v);
}
} // namespace

TEST_CASE("memory: masked loads and stores of every type, with and without other") {
  Rng rng(1);
  for (const char *name : kTypes)
    for (int warps : {1, 4}) {
      const Type &t = typeOf(name);
      // n is no multiple of anything, and the input ends there: a masked-off element must not be touched.
      constexpr size_t kRows = 5, kColumns = 77;
      Array x(name, kRows * kColumns), zero(name, 8 * 96), other(name, 8 * 96), kept(name, 8 * 96);
      x.randomBits(rng);
      bool literal = t.bits > 8;
      uint64_t otherBits = t.name == "i1" ? 1 : t.isFloat ? floatBits(t, 2) : wrap(t, 2);
      std::vector<uint64_t> wantZero, wantOther, wantKept;
      for (size_t r = 0; r < 8; ++r)
        for (size_t c = 0; c < 96; ++c) {
          bool in = r < kRows && c < kColumns;
          uint64_t v = in ? x.raw(r * kColumns + c) : 0;
          wantZero.push_back(v), wantOther.push_back(in ? v : otherBits);
          wantKept.push_back(in ? v : 0xa5a5a5a5a5a5a5a5ull & (t.bits == 1 ? 0xff : maskOf(t)));
        }
      std::string value = t.name == "i1" ? "true" : !t.isFloat ? "2" : literal ? "2.0" : "(2.0).to(" + t.name + ")";
      Job job{replace("kernel k(x: *$T, z: *$T, o: *$T, q: *$T, rows: i32, columns: i32) launch(num_warps = $W) {\n"
                      "  let (r, c) = (arange(0, 8)[:, None], arange(0, 96)[None, :]);\n  let m = (r < rows) & (c < "
                      "columns);\n  let p = x + r * columns + c;\n  let at = r * 96 + c;\n"
                      "  let v = load(p, m);\n  store(z + at, v); store(o + at, load(p, m, other = $V)); store(q + at, "
                      "v, m);\n}\n",
                      {{"T", name}, {"W", number(warps)}, {"V", value}}),
              {},
              {&x},
              {&zero, &other, &kept},
              {int32_t(kRows), int32_t(kColumns)}};
      job.inOrderOnly = warps == 1;
      execute(job, [&](const std::string &where) {
        std::string w = where + " " + name;
        expectBits(zero, wantZero, w + " zero"), expectBits(other, wantOther, w + " other"),
            expectBits(kept, wantKept, w + " store");
      });
    }
}

TEST_CASE("memory: other is a tile, and masks are broadcast") {
  Rng rng(2);
  Array x("f32", 16 * 64), fallback("f32", 64), y("f32", 16 * 64);
  x.normal(rng), fallback.normal(rng);
  std::vector<uint64_t> want;
  for (size_t r = 0; r < 16; ++r)
    for (size_t c = 0; c < 64; ++c) want.push_back(r % 3 == 0 ? x.raw(r * 64 + c) : fallback.raw(c));
  Job job{"kernel k(x: *f32, f: *f32, y: *f32) launch(num_warps = 4) {\n  let (r, c) = (arange(0, 16)[:, None], "
          "arange(0, 64)[None, :]);\n"
          "  let v = load(x + r * 64 + c, mask = r % 3 == 0, other = load(f + arange(0, 64)));\n  store(y + r * 64 + "
          "c, v);\n}\n",
          {},
          {&x, &fallback},
          {&y},
          {}};
  execute(job, [&](const std::string &where) { expectBits(y, want, where); });
}

TEST_CASE("memory: scalars, with a mask") {
  Array x("i32", 8), y("i32", 16);
  for (size_t i = 0; i < 8; ++i) x.set(i, double(i) * 3 + 1);
  std::vector<uint64_t> want;
  for (size_t i = 0; i < 16; ++i) want.push_back(i < 8 ? i * 3 + 1 : i % 2 ? 0xa5a5a5a5 : uint32_t(-7));
  Job job{"kernel k(x: *i32, y: *i32, n: i32) launch(num_warps = 4) {\n  let i = program_id(0);\n  let v = load(x + i, "
          "i < n, other = -7);\n  store(y + i, v, i < n || i % 2 == 0);\n}\n",
          {},
          {&x},
          {&y},
          {8},
          {16}};
  execute(job, [&](const std::string &where) { expectBits(y, want, where); });
}

TEST_CASE("memory: gather and scatter through index tiles") {
  Rng rng(3);
  for (const char *index : {"i32", "i64", "u32", "i8", "u16"})
    for (int warps : {1, 4, 8}) {
      Array x("f16", 100), at(index, 24 * 32), to("i32", 24 * 32), y("f16", 24 * 32);
      x.normal(rng), at.integers(rng, 0, 99);
      std::vector<size_t> order(y.count);
      for (size_t i = 0; i < y.count; ++i) order[i] = i;
      for (size_t i = y.count; i-- > 1;) std::swap(order[i], order[rng.next() % (i + 1)]);
      std::vector<uint64_t> want(y.count);
      for (size_t i = 0; i < y.count; ++i) to.set(i, double(order[i])), want[order[i]] = x.raw(size_t(at.integer(i)));
      Job job{replace("kernel k(x: *f16, at: *$I, to: *i32, y: *f16) launch(num_warps = $W) {\n  let i = $O;\n  "
                      "store(y + load(to + i), load(x + load(at + i)));\n}\n",
                      {{"I", index}, {"W", number(warps)}, {"O", offsets({24, 32})}}),
              {},
              {&x, &at, &to},
              {&y},
              {}};
      job.inOrderOnly = warps != 4;
      execute(job, [&](const std::string &where) { expectBits(y, want, where + " " + index); });
    }
}

TEST_CASE("memory: offsets beyond 2^31 elements, negative strides") {
  // The array is small; the offsets come to it from far away and cancel.
  Rng rng(4);
  Array x("f32", 64 * 16), y("f32", 64 * 16);
  x.normal(rng);
  std::vector<uint64_t> want;
  for (size_t r = 0; r < 64; ++r)
    for (size_t c = 0; c < 16; ++c) want.push_back(x.raw((63 - r) * 16 + c));
  Job job{
      "kernel k(x: *f32, y: *f32, far: i64, stride: i64) launch(num_warps = 4) {\n  let (r, c) = (arange(0, 64)[:, "
      "None], arange(0, 16)[None, :]);\n"
      "  let p = x + far + r * stride + c - (r * 100000000).to(i64) * 0;\n  store(y + r * 16 + c, load(p - far));\n}\n",
      {},
      {&x},
      {&y},
      {int64_t(1) << 33, int64_t(-16)}};
  job.text =
      replace("kernel k(x: *f32, y: *f32, far: i64, stride: i64) launch(num_warps = 4) {\n  let (r, c) = (arange(0, "
              "64)[:, None], arange(0, 16)[None, :]);\n"
              "  let last = x + 63 * 16 + far;\n  store(y + r * 16 + c, load((last + r * stride + c) - far));\n}\n",
              {});
  execute(job, [&](const std::string &where) { expectBits(y, want, where); });
}

TEST_CASE("memory: atomic_add of integers by many programs") {
  Rng rng(5);
  for (const char *type : {"i32", "u32", "i64", "u64"}) {
    const Type &t = typeOf(type);
    Array x(type, 24 * 128), bins(type, 12), order("i32", 24), counter("i32", 1);
    x.randomBits(rng);
    std::vector<uint64_t> want(12, 0);
    for (size_t i = 0; i < x.count; ++i) want[i % 12] = wrap(t, Wide(want[i % 12]) + Wide(x.raw(i)));
    Job job{
        replace(
            "kernel k(x: *$T, bins: *$T, order: *i32, counter: *i32) launch(num_warps = 4) {\n  let i = program_id(0) "
            "* 128 + arange(0, 128);\n"
            "  atomic_add(bins + i % 12, load(x + i));\n  store(order + program_id(0), atomic_add(counter, 1));\n}\n",
            {{"T", type}}),
        {},
        {&x},
        {&bins, &order, &counter},
        {},
        {24}};
    job.keepOutputs = true;
    execute(job, [&](const std::string &where) {
      expectBits(bins, want, where + " " + type);
      std::vector<int64_t> seen;
      for (size_t i = 0; i < 24; ++i) seen.push_back(int64_t(order.integer(i)));
      std::sort(seen.begin(), seen.end());
      for (size_t i = 0; i < 24; ++i) CHECK(seen[i] == int64_t(i)); // each program its own ticket
      CHECK_MESSAGE(counter.integer(0) == 24, where);
    });
  }
}

TEST_CASE("memory: atomic_add of floats, with masks") {
  Rng rng(6);
  for (const char *type : {"f16", "bf16", "f32", "f64"})
    for (int warps : {1, 4}) {
      const Type &t = typeOf(type);
      Array x(type, 8 * 96), sums(type, 16);
      x.integers(rng, 0, 2); // sums are exact in every order
      std::vector<double> total(16, 0.0);
      for (size_t i = 0; i < x.count; ++i)
        if (i % 96 < 70) total[i % 96 % 16] += x.value(i);
      std::vector<uint64_t> want;
      for (double v : total) want.push_back(floatBits(t, roundTo(t, v)));
      Job job{replace("kernel k(x: *$T, sums: *$T, n: i32) launch(num_warps = $W) {\n  let i = arange(0, 96);\n"
                      "  atomic_add(sums + i % 16, load(x + program_id(0) * 96 + i), i < n);\n}\n",
                      {{"T", type}, {"W", number(warps)}}),
              {},
              {&x},
              {&sums},
              {70},
              {8}};
      job.keepOutputs = true;
      execute(job, [&](const std::string &where) { expectBits(sums, want, where + " " + type); });
    }
}

TEST_CASE("memory: the value before, once for each element, whatever the tile's layout repeats") {
  // 8 elements in 256 threads: most threads hold copies, which must not add again, and must see the result.
  for (int warps : {1, 4, 8}) {
    Array counters("i32", 8), before("i32", 8), twice("i32", 8);
    for (size_t i = 0; i < 8; ++i) counters.set(i, double(i) * 10);
    Job job{"kernel k(c: *i32, b: *i32, t: *i32) launch(num_warps = " + number(warps) +
                ") {\n  let i = arange(0, 8);\n  let old = atomic_add(c + i, i + 1);\n  store(b + i, old); store(t + "
                "i, old * 2 + sum(old, axis = 0));\n}\n",
            {},
            {},
            {&counters, &before, &twice},
            {}};
    job.keepOutputs = true;
    execute(job, [&](const std::string &where) {
      for (int i = 0; i < 8; ++i) {
        CHECK_MESSAGE(counters.integer(size_t(i)) == i * 11 + 1, where);
        CHECK_MESSAGE(before.integer(size_t(i)) == i * 10, where);
        CHECK_MESSAGE(twice.integer(size_t(i)) == i * 20 + 280, where);
      }
    });
  }
}

// Case 2 of the reported faults: a store, then a load of the same address in a pipelined loop.
TEST_CASE("memory: a store before a load of its address, in a pipelined loop") {
  constexpr int kOuter = 2, kInner = 1024;
  for (int stages : {1, 2, 3, 4})
    for (const char *how : {"store(a + at, v);", "store(alias + at, v);", "atomic_add(a + at, v);"}) {
      bool atomic = std::string(how).find("atomic") == 0;
      Array a("f32", kOuter * kInner), difference("f32", kOuter * kInner);
      Job job{replace("kernel k(a: *f32, d: *f32, P: i32) launch(num_warps = 2) {\n  let s = arange(0, 128);\n  let "
                      "alias = a + (P - P);\n"
                      "  for p in range(P) {\n    for idx in range(0, 1024, 128, num_stages = $S) {\n      let at = p "
                      "* 1024 + idx + s;\n      let v = (idx + p + s).to(f32);\n"
                      "      $H\n      let loaded = load(a + at);\n      store(d + at, loaded - v);\n    }\n  }\n}\n",
                      {{"S", number(stages)}, {"H", how}}),
              {},
              {},
              {&a, &difference},
              {kOuter}};
      job.keepOutputs = true; // zeros, for the atomic form
      std::vector<uint64_t> zero(difference.count, 0);
      (void)atomic;
      execute(job, [&](const std::string &where) {
        expectBits(difference, zero, where + " stages " + number(stages) + " " + how);
      });
    }
}

// The same through two pointer arguments that name one array.
TEST_CASE("memory: a store through another argument before the load, in a pipelined loop") {
  for (int stages : {1, 2, 3, 4}) {
    Array seen("f32", 1024);
    std::string text =
        replace("kernel k(d: *f32, a: *f32, b: *f32, n: i32) launch(num_warps = 2) {\n  let s = arange(0, 128);\n"
                "  for idx in range(0, n, 128, num_stages = $S) {\n    store(b + idx + s, (idx + s).to(f32));\n    "
                "store(d + idx + s, load(a + idx + s));\n  }\n}\n",
                {{"S", number(stages)}});
    for (const std::string &target : targets()) {
      Program p = compileText(text, {"operations.tlx", "", {}, {}}, target);
      for (const Setting &s : settings(target, 2)) {
        tlx::Buffer shared = p.device.allocate(4096), out = p.device.allocate(4096);
        std::vector<uint8_t> poison(4096, 0xa5);
        shared.write(poison.data()), out.write(poison.data());
        CHECK_MESSAGE(p.run({1}, {out, shared, shared, 1024}, s) == "", s.text());
        out.read(seen.data.data());
        for (size_t i = 0; i < 1024; ++i)
          if (seen.value(i) != double(i)) {
            CHECK_MESSAGE(seen.value(i) == double(i), s.text(), " stages ", stages, " element ", i);
            break;
          }
      }
    }
  }
}

// Case 1: a pipelined scalar load whose use is conditional.
TEST_CASE("memory: a conditional use of a pipelined load") {
  for (int stages : {1, 2, 3, 4}) {
    Array v("i32", 17), out("i32", 18);
    for (size_t i = 0; i < 17; ++i) v.set(i, double(i));
    std::vector<uint64_t> want, none(18, 0xa5a5a5a5);
    for (size_t i = 0; i < 18; ++i) want.push_back(i < 17 ? i + 1 : 0xa5a5a5a5);
    for (const char *load : {"load(v + i)", "sum(load(v + i + arange(0, 1)), axis = 0)"})
      for (int flag : {1, 0}) {
        Job job{replace("kernel k(v: *i32, out: *i32, n: i32, flag: i32) launch(num_warps = 4) {\n  for i in range(0, "
                        "n, num_stages = $S) {\n    let at = $L;\n"
                        "    if flag != 0 {\n      store(out + at, i + 1);\n    }\n  }\n}\n",
                        {{"S", number(stages)}, {"L", load}}),
                {},
                {&v},
                {&out},
                {17, flag}};
        execute(job, [&](const std::string &where) {
          expectBits(out, flag ? want : none, where + " stages " + number(stages));
        });
      }
  }
}

TEST_CASE("memory: copies in pipelined loops, with masks, other and every element size") {
  Rng rng(7);
  for (const char *type : {"i8", "f16", "f32", "i64"})
    for (int stages : {1, 2, 4})
      for (int64_t n : {0, 1, 100, 515}) {
        const Type &t = typeOf(type);
        Array x(type, size_t(n)), y(type, 640);
        x.randomBits(rng);
        std::vector<uint64_t> want;
        for (int64_t i = 0; i < 640; ++i) want.push_back(i < n ? x.raw(size_t(i)) : t.isFloat ? floatBits(t, 3) : 3);
        Job job{replace("kernel k(x: *$T, y: *$T, n: i32) launch(num_warps = 4) {\n  let s = arange(0, 64);\n  for i "
                        "in range(0, 640, 64, num_stages = $S) {\n"
                        "    let v = load(x + i + s, i + s < n, other = $O);\n    store(y + i + s, v);\n  }\n}\n",
                        {{"T", type}, {"S", number(stages)}, {"O", t.isFloat ? "3.0" : "3"}}),
                {},
                {&x},
                {&y},
                {int32_t(n)}};
        job.inOrderOnly = n < 500;
        execute(job, [&](const std::string &where) {
          expectBits(y, want, where + " " + type + " stages " + number(stages) + " n " + number(n), true);
        });
      }
}
