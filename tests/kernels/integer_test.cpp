// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Integer arithmetic of every width and sign, as tiles, scalars and with constant operands, against exact integers.
#include "operations.h"

using namespace operations;

namespace {
const char *const kTypes[] = {"i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"};

Wide floorDiv(Wide a, Wide b) {
  Wide q = a / b;
  return q - (a % b != 0 && (a < 0) != (b < 0));
}
Wide shiftLeft(Wide a, Wide b, const Type &t) {
  return b < 0 || b >= t.bits ? Wide(0) : a << unsigned(b);
}
Wide shiftRight(Wide a, Wide b, const Type &t) {
  return a >> unsigned(b >= t.bits || b < 0 ? t.bits : b);
}

struct Op {
  const char *text;
  std::function<Wide(Wide, Wide, const Type &)> value;
  bool divides = false, shifts = false;
};
const std::vector<Op> &ops() {
  static const std::vector<Op> all = {
      {"$a + $b", [](Wide a, Wide b, const Type &) { return a + b; }},
      {"$a - $b", [](Wide a, Wide b, const Type &) { return a - b; }},
      {"$a * $b", [](Wide a, Wide b, const Type &) { return Wide((unsigned __int128)a * (unsigned __int128)b); }},
      {"$a / $b", [](Wide a, Wide b, const Type &) { return floorDiv(a, b); }, true},
      {"$a % $b", [](Wide a, Wide b, const Type &) { return a - floorDiv(a, b) * b; }, true},
      {"cdiv($a, $b)", [](Wide a, Wide b, const Type &) { return -floorDiv(-a, b); }, true},
      {"$a & $b", [](Wide a, Wide b, const Type &) { return a & b; }},
      {"$a | $b", [](Wide a, Wide b, const Type &) { return a | b; }},
      {"$a ^ $b", [](Wide a, Wide b, const Type &) { return a ^ b; }},
      {"~$a", [](Wide a, Wide, const Type &) { return ~a; }},
      {"$a << $b", shiftLeft, false, true},
      {"$a >> $b", shiftRight, false, true},
      {"minimum($a, $b)", [](Wide a, Wide b, const Type &) { return std::min(a, b); }},
      {"maximum($a, $b)", [](Wide a, Wide b, const Type &) { return std::max(a, b); }},
      {"abs($a)", [](Wide a, Wide, const Type &) { return a < 0 ? -a : a; }},
      {"($a < $b).to($T)", [](Wide a, Wide b, const Type &) { return Wide(a < b); }},
      {"($a <= $b).to($T)", [](Wide a, Wide b, const Type &) { return Wide(a <= b); }},
      {"($a > $b).to($T)", [](Wide a, Wide b, const Type &) { return Wide(a > b); }},
      {"($a >= $b).to($T)", [](Wide a, Wide b, const Type &) { return Wide(a >= b); }},
      {"($a == $b).to($T)", [](Wide a, Wide b, const Type &) { return Wide(a == b); }},
      {"($a != $b).to($T)", [](Wide a, Wide b, const Type &) { return Wide(a != b); }},
      {"where($a < $b, $b, $a)", [](Wide a, Wide b, const Type &) { return a < b ? b : a; }},
  };
  return all;
}

std::vector<Wide> edges(const Type &t) {
  std::vector<Wide> out = {0, 1, 2, 3, 7, 8, largest(t), largest(t) - 1, largest(t) / 2, smallest(t), smallest(t) + 1};
  if (t.isSigned) out.insert(out.end(), {-1, -2, -3, -7, -8, smallest(t) / 2});
  return out;
}
/// Pairs of edge values, then random ones; divisors are never 0.
void operands(const Type &t, Rng &rng, Array &a, Array &b, Array &d, Array &s) {
  auto e = edges(t);
  for (size_t i = 0; i < a.count; ++i) {
    size_t x = i / e.size(), y = i % e.size();
    bool edge = x < e.size();
    a.setRaw(i, edge ? wrap(t, e[x]) : rng.next());
    b.setRaw(i, edge ? wrap(t, e[y]) : i % 3 ? rng.next() : uint64_t(rng.integer(0, 12)));
    d.setRaw(i, b.integer(i) == 0 ? wrap(t, 5) : b.raw(i));
    s.setRaw(i, wrap(t, Wide(rng.integer(0, 3 * t.bits / 2))));
  }
}
uint64_t want(const Op &op, const Type &t, Wide a, Wide b) {
  return wrap(t, op.value(a, b, t));
}
} // namespace

TEST_CASE("integers: tiles of every width and sign") {
  constexpr size_t kCount = 512;
  for (const char *name : kTypes) {
    const Type &t = typeOf(name);
    Rng rng(t.bits + t.isSigned);
    Array a(name, kCount), b(name, kCount), d(name, kCount), s(name, kCount), out(name, kCount * ops().size());
    operands(t, rng, a, b, d, s);
    std::string text = "kernel k(a: *$T, b: *$T, d: *$T, s: *$T, o: *$T) launch(num_warps = 4) {\n"
                       "  let i = arange(0, 512);\n"
                       "  let (va, vb, vd, vs) = (load(a + i), load(b + i), load(d + i), load(s + i));\n";
    std::vector<uint64_t> expect;
    for (size_t k = 0; k < ops().size(); ++k) {
      const Op &op = ops()[k];
      text += "  store(o + (" + std::to_string(k * kCount) + " + i), " +
              replace(op.text, {{"a", "va"},
                                {"b", op.divides  ? "vd"
                                      : op.shifts ? "vs"
                                                  : "vb"}}) +
              ");\n";
      const Array &r = op.divides ? d : op.shifts ? s : b;
      for (size_t i = 0; i < kCount; ++i) expect.push_back(want(op, t, a.integer(i), r.integer(i)));
    }
    Job job{replace(text + "}\n", {{"T", name}}), {}, {&a, &b, &d, &s}, {&out}, {}};
    job.inOrderOnly = true;
    execute(job, [&](const std::string &where) { expectBits(out, expect, where + " " + name); });
  }
}

TEST_CASE("integers: scalars, from memory") {
  constexpr size_t kCount = 64;
  for (const char *name : kTypes) {
    const Type &t = typeOf(name);
    Rng rng(100 + t.bits + t.isSigned);
    Array a(name, kCount), b(name, kCount), d(name, kCount), s(name, kCount), out(name, kCount * ops().size());
    operands(t, rng, a, b, d, s);
    for (size_t i = 0; i < kCount; ++i) a.setRaw(i, rng.next()), b.setRaw(i, rng.next());
    std::string text = "kernel k(a: *$T, b: *$T, d: *$T, s: *$T, o: *$T) launch(num_warps = 1) {\n"
                       "  let i = program_id(0);\n"
                       "  let (va, vb, vd, vs) = (load(a + i), load(b + i), load(d + i), load(s + i));\n";
    std::vector<uint64_t> expect;
    for (size_t k = 0; k < ops().size(); ++k) {
      const Op &op = ops()[k];
      text += "  store(o + (" + std::to_string(k * kCount) + " + i), " +
              replace(op.text, {{"a", "va"},
                                {"b", op.divides  ? "vd"
                                      : op.shifts ? "vs"
                                                  : "vb"}}) +
              ");\n";
      const Array &r = op.divides ? d : op.shifts ? s : b;
      for (size_t i = 0; i < kCount; ++i) expect.push_back(want(op, t, a.integer(i), r.integer(i)));
    }
    Job job{replace(text + "}\n", {{"T", name}}), {}, {&a, &b, &d, &s}, {&out}, {}, {kCount}};
    job.inOrderOnly = true;
    execute(job, [&](const std::string &where) { expectBits(out, expect, where + " " + name); });
  }
}

// What the folds and strength reductions of constants see.
TEST_CASE("integers: constant operands on either side") {
  constexpr size_t kCount = 256;
  for (const char *name : kTypes) {
    const Type &t = typeOf(name);
    Rng rng(200 + t.bits + t.isSigned);
    Array a(name, kCount), b(name, kCount), d(name, kCount), s(name, kCount);
    operands(t, rng, a, b, d, s);
    std::vector<Wide> constants = {0, 1, 2, 3, 8, 12, 64, largest(t)};
    if (t.isSigned) constants.insert(constants.end(), {-1, -2, -8, -3});
    std::string text =
        "kernel k(a: *$T, o: *$T) launch(num_warps = 4) {\n  let i = arange(0, 256);\n  let va = load(a + i);\n";
    std::vector<uint64_t> expect;
    size_t stores = 0;
    for (const Op &op : ops()) {
      std::string operation = op.text;
      if (operation.find("$b") == std::string::npos) continue;
      for (Wide c : constants) {
        if ((op.divides && c == 0) || (op.shifts && (c < 0 || c >= t.bits))) continue;
        std::string literal = "(" + std::to_string(int64_t(c)) + ")";
        if (c > INT64_MAX) continue; // more than a literal holds
        text += "  store(o + (" + std::to_string(stores++ * kCount) + " + i), " +
                replace(operation, {{"a", "va"}, {"b", literal}}) + ");\n";
        for (size_t i = 0; i < kCount; ++i) expect.push_back(want(op, t, a.integer(i), c));
        if (op.divides || op.shifts) continue;
        text += "  store(o + (" + std::to_string(stores++ * kCount) + " + i), " +
                replace(operation, {{"b", "va"}, {"a", literal}}) + ");\n";
        for (size_t i = 0; i < kCount; ++i) expect.push_back(want(op, t, c, a.integer(i)));
      }
    }
    Array out(name, stores * kCount);
    Job job{replace(text + "}\n", {{"T", name}}), {}, {&a}, {&out}, {}};
    job.inOrderOnly = true;
    execute(job, [&](const std::string &where) { expectBits(out, expect, where + " " + name); });
  }
}

TEST_CASE("integers: mixed widths meet in the wider one") {
  Rng rng(7);
  constexpr size_t kCount = 128;
  for (auto [narrow, wide] : {std::pair("i8", "i16"), std::pair("i8", "i64"), std::pair("i16", "i32"),
                              std::pair("u8", "u32"), std::pair("u16", "u64"), std::pair("u32", "u64")}) {
    const Type &t = typeOf(wide);
    Array a(narrow, kCount), b(wide, kCount), out(wide, kCount * 2);
    a.randomBits(rng), b.randomBits(rng);
    std::vector<uint64_t> expect(kCount * 2);
    for (size_t i = 0; i < kCount; ++i) {
      expect[i] = wrap(t, a.integer(i) + b.integer(i));
      expect[kCount + i] = wrap(t, b.integer(i) - a.integer(i));
    }
    Job job{replace("kernel k(a: *$N, b: *$W, o: *$W) launch(num_warps = 1) {\n  let i = arange(0, 128);\n"
                    "  store(o + i, load(a + i) + load(b + i)); store(o + (128 + i), load(b + i) - load(a + i));\n}\n",
                    {{"N", narrow}, {"W", wide}}),
            {},
            {&a, &b},
            {&out},
            {}};
    execute(job, [&](const std::string &where) { expectBits(out, expect, where + " " + narrow + " " + wide); });
  }
}

TEST_CASE("masks: logic on i1, and on conditions") {
  Rng rng(9);
  Array a("i32", 256), b("i32", 256), out("i32", 256 * 6);
  a.integers(rng, -3, 3), b.integers(rng, -3, 3);
  std::vector<uint64_t> expect(256 * 6);
  for (size_t i = 0; i < 256; ++i) {
    bool p = a.integer(i) > 0, q = b.integer(i) > 0;
    const bool values[] = {p && q, p || q, p != q, !p, p == q, p != q};
    for (size_t k = 0; k < 6; ++k) expect[k * 256 + i] = values[k];
  }
  Job job{
      "kernel k(a: *i32, b: *i32, o: *i32) launch(num_warps = 4) {\n  let i = arange(0, 256);\n"
      "  let p = load(a + i) > 0; let q = load(b + i) > 0;\n"
      "  store(o + i, (p & q).to(i32)); store(o + (256 + i), (p | q).to(i32)); store(o + (512 + i), (p ^ q).to(i32));\n"
      "  store(o + (768 + i), (~p).to(i32)); store(o + (1024 + i), (p == q).to(i32)); store(o + (1280 + i), (p != "
      "q).to(i32));\n}\n",
      {},
      {&a, &b},
      {&out},
      {}};
  execute(job, [&](const std::string &where) { expectBits(out, expect, where); });
}
