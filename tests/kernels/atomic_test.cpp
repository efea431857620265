// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Atomics: every kind and type, by many programs on the same elements; results that several threads hold; order among
// programs.
#include "operations.h"

using namespace operations;

namespace {
std::string number(int64_t v) {
  return std::to_string(v);
}
} // namespace

TEST_CASE("atomics: every kind and type, by many programs, with masks") {
  Rng rng(1);
  struct Kind {
    const char *name;
    bool floats, halves;
  };
  for (const Kind &kind : {Kind{"add", true, true}, Kind{"min", true, true}, Kind{"max", true, true},
                           Kind{"and", false, false}, Kind{"or", false, false}, Kind{"xor", false, false}})
    for (const char *name : {"i32", "u32", "i64", "u64", "f16", "bf16", "f32", "f64"}) {
      const Type &t = typeOf(name);
      if (t.isFloat && (!kind.floats || (t.bits == 16 && !kind.halves))) continue;
      constexpr size_t kPrograms = 5, kN = 96;
      Array x(name, kPrograms * kN), y(name, 12);
      if (t.isFloat || std::string(kind.name) == "add")
        x.integers(rng, t.isSigned ? -2 : 0, 2), y.integers(rng, 0, 3); // sums are exact in any order
      else
        x.randomBits(rng), y.randomBits(rng);
      Array sum = y;
      for (size_t i = 0; i < x.count; ++i) {
        if (i % kN >= 90) continue;
        const size_t bin = i % kN % 12;
        const std::string k = kind.name;
        if (k == "add" && t.isFloat) sum.set(bin, sum.value(bin) + x.value(i));
        if (k == "add" && !t.isFloat) sum.setRaw(bin, wrap(t, sum.integer(bin) + x.integer(i)));
        if (k == "min")
          sum.setRaw(bin, t.isFloat ? (x.value(i) < sum.value(bin) ? x.raw(i) : sum.raw(bin))
                                    : wrap(t, std::min(sum.integer(bin), x.integer(i))));
        if (k == "max")
          sum.setRaw(bin, t.isFloat ? (x.value(i) > sum.value(bin) ? x.raw(i) : sum.raw(bin))
                                    : wrap(t, std::max(sum.integer(bin), x.integer(i))));
        if (k == "and") sum.setRaw(bin, sum.raw(bin) & x.raw(i));
        if (k == "or") sum.setRaw(bin, sum.raw(bin) | x.raw(i));
        if (k == "xor") sum.setRaw(bin, sum.raw(bin) ^ x.raw(i));
      }
      const std::vector<uint64_t> want = bitsOf(sum);
      Job job{replace("kernel k(x: *$T, y: *$T, n: i32) launch(num_warps = 2) {\n  let i = arange(0, 96);\n"
                      "  atomic_$K(y + i % 12, load(x + program_id(0) * 96 + i), i < n, order = \"relaxed\", scope = "
                      "\"gpu\");\n}\n",
                      {{"T", name}, {"K", kind.name}}),
              {},
              {&x},
              {&y},
              {int32_t(90)},
              {unsigned(kPrograms), 1, 1}};
      job.keepOutputs = true;
      execute(job, [&](const std::string &where) { expectBits(y, want, where + " " + kind.name + " " + name); });
    }
}

TEST_CASE("atomics: exchange and compare, and what was there before") {
  Rng rng(2);
  for (const char *name : {"i32", "u32", "i64", "u64", "f32", "f64"}) {
    const Type &t = typeOf(name);
    Array x(name, 64), y(name, 64), before(name, 64), swapped(name, 64), seen(name, 64), scalar(name, 1);
    x.integers(rng, 0, 3), y.integers(rng, 0, 3), swapped.integers(rng, 0, 3), before.integers(rng, 0, 1),
        seen.integers(rng, 0, 1);
    scalar.set(0, 5);
    std::vector<uint64_t> wantY, wantBefore, wantSwapped, wantSeen;
    for (size_t i = 0; i < 64; ++i) {
      const bool on = i < 50;
      wantBefore.push_back(on ? y.raw(i) : 0), wantY.push_back(on ? x.raw(i) : y.raw(i));
      wantSeen.push_back(swapped.raw(i));
      Array seven(name, 1);
      seven.set(0, 7);
      wantSwapped.push_back(swapped.raw(i) == x.raw(i) ? seven.raw(0) : swapped.raw(i));
    }
    Array nine(name, 1);
    nine.set(0, 9);
    Job job{replace("kernel k(x: *$T, y: *$T, b: *$T, s: *$T, o: *$T, c: *$T, n: i32) launch(num_warps = 4) {\n  let i "
                    "= arange(0, 64);\n"
                    "  let v = load(x + i);\n  store(b + i, atomic_xchg(y + i, v, i < n), i < n);\n  store(b + i, "
                    "(0).to($T), i >= n);\n"
                    "  store(o + i, atomic_cas(s + i, v, $S, order = \"acq_rel\", scope = \"sys\"));\n"
                    "  let first = atomic_cas(c, $F, $N);\n  if first != $F { store(c, $S); }\n}\n",
                    {{"T", name},
                     {"S", t.isFloat ? "7.0" : "7"},
                     {"F", t.isFloat ? "5.0" : "5"},
                     {"N", t.isFloat ? "9.0" : "9"}}),
            {},
            {&x},
            {&y, &before, &swapped, &seen, &scalar},
            {int32_t(50)}};
    job.keepOutputs = true;
    execute(job, [&](const std::string &where) {
      const std::string w = where + " " + name;
      expectBits(y, wantY, w + " xchg"), expectBits(before, wantBefore, w + " before"),
          expectBits(swapped, wantSwapped, w + " cas"), expectBits(seen, wantSeen, w + " seen"),
          expectBits(scalar, {nine.raw(0)}, w + " scalar");
    });
  }
}

// Programs add their rows into a sum that a lock guards, and the last to finish, which a counter tells, reads what all
// wrote.
TEST_CASE("atomics: a lock, and the last program reads what the others wrote") {
  Rng rng(3);
  constexpr unsigned kPrograms = 6;
  Array x("i32", kPrograms * 256), lock("i32", 1), count("i32", 1), sum("i32", 256), parts("i32", kPrograms * 256),
      total("i32", 256);
  x.integers(rng, -1000, 1000);
  std::vector<uint64_t> want(256);
  for (size_t i = 0; i < x.count; ++i) want[i % 256] = (want[i % 256] + x.raw(i)) & 0xffffffffu;
  for (const char *scope : {"gpu", "sys"}) {
    for (Array *a : {&lock, &count, &sum, &parts, &total}) a->integers(rng, 0, 0);
    Job job{
        replace(
            "kernel k(x: *i32, lock: *i32, count: *i32, s: *i32, parts: *i32, total: *i32) launch(num_warps = 4) {\n"
            "  let i = arange(0, 256);\n  let v = load(x + program_id(0) * 256 + i);\n  store(parts + program_id(0) * "
            "256 + i, v);\n"
            "  while atomic_cas(lock, 0, 1, order = \"acquire\", scope = \"$S\") != 0 { }\n  store(s + i, load(s + i) "
            "+ v);\n"
            "  atomic_xchg(lock, 0, order = \"release\", scope = \"$S\");\n"
            "  if atomic_add(count, 1, order = \"acq_rel\", scope = \"$S\") == num_programs(0) - 1 {\n    var sum = "
            "zeros([256], i32);\n"
            "    for p in range(0, num_programs(0)) { sum += load(parts + p * 256 + i); }\n    store(total + i, "
            "sum);\n  }\n}\n",
            {{"S", scope}}),
        {},
        {&x},
        {&lock, &count, &sum, &parts, &total},
        {},
        {kPrograms, 1, 1}};
    job.keepOutputs = true;
    execute(job, [&](const std::string &where) {
      expectBits(sum, want, where + " lock"), expectBits(total, want, where + " last"),
          expectBits(count, {kPrograms}, where), expectBits(lock, {0}, where);
    });
  }
}

TEST_CASE("atomics: a result that every thread holds") {
  Array c("i32", 4), out("i32", 64);
  c.set(0, 10), c.set(1, 20), c.set(2, 30), c.set(3, 40);
  std::vector<uint64_t> want;
  for (size_t i = 0; i < 64; ++i) want.push_back(10 * (i / 16 + 1) + 10);
  // Four elements in 128 threads: the threads that did not do the atomic see its result too.
  Job job{"kernel k(c: *i32, out: *i32) launch(num_warps = 4) {\n  let j = arange(0, 4);\n"
          "  let old = atomic_max(c + j, j * 100, order = \"acquire\", scope = \"cta\");\n"
          "  store(out + j[:, None] * 16 + arange(0, 16)[None, :], old[:, None] + 10);\n}\n",
          {},
          {},
          {&c, &out},
          {}};
  job.keepOutputs = true;
  execute(job, [&](const std::string &where) {
    expectBits(out, want, where), expectBits(c, {10, 100, 200, 300}, where);
  });
}
