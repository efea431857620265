// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Random kernels of loops, branches, products, descriptor loads and stores, against a run of the same tree on the host. Every loop may be a
// pipeline; values are small integers, kept small, so that results are exact.
#include "async_testing.h"

using namespace async_testing;

namespace {

constexpr int kRows = 64, kColumns = 32, kDepth = 160, kBlocks = 12;
using Tile = std::vector<double>;

struct Machine { // the host's side
  const Matrix &a, &b;
  Tile acc[3];
  int64_t variables[4] = {};
  std::vector<Tile> stored;
  int64_t flag;
};

/// One statement: its text, and what it does. Nothing more is known of it.
struct Statement {
  std::string text;
  std::function<void(Machine &)> run;
};

class Generator {
public:
  explicit Generator(uint64_t seed) : rng(seed) {}

  Statement body(int depth) {
    std::vector<Statement> all;
    for (int64_t n = rng.integer(1, 3); n > 0; --n) all.push_back(statement(depth));
    std::string text;
    for (const Statement &s : all) text += s.text;
    return {text, [all](Machine &m) {
              for (const Statement &s : all) s.run(m);
            }};
  }

private:
  Rng rng;
  int loops = 0; // around this place

  struct Index {
    std::string text;
    std::function<int64_t(const Machine &)> value;
  };
  Index index() { // a multiple of 32 inside the operands
    const int64_t start = rng.integer(0, 4) * 32;
    if (!loops) return {std::to_string(start), [=](const Machine &) { return start; }};
    const int64_t v = rng.integer(0, loops - 1), step = rng.integer(1, 2) * 32;
    return {"(k" + std::to_string(v) + " * " + std::to_string(step) + " + " + std::to_string(start) + ") % " +
                std::to_string(kDepth),
            [=](const Machine &m) { return (m.variables[v] * step + start) % kDepth; }};
  }
  std::string acc(int64_t i) { return "x" + std::to_string(i); }

  Statement statement(int depth) {
    const int64_t kind = rng.integer(0, depth > 0 ? 11 : 6);
    const int64_t i = rng.integer(0, 2), j = rng.integer(0, 2);
    if (kind <= 3) return dot(i, kind == 3 ? j : i);
    if (kind == 4) {
      return {acc(i) + " = minimum(maximum(" + acc(j) + " - " + acc(i) + ", -1000.0), 1000.0);\n", [=](Machine &m) {
                for (size_t e = 0; e < m.acc[i].size(); ++e)
                  m.acc[i][e] = std::min(std::max(m.acc[j][e] - m.acc[i][e], -1000.0), 1000.0);
              }};
    }
    if (kind == 5 && i != j) {
      return {"(" + acc(i) + ", " + acc(j) + ") = (" + acc(j) + ", " + acc(i) + ");\n",
              [=](Machine &m) { std::swap(m.acc[i], m.acc[j]); }};
    }
    if (kind <= 6) {
      return {"if row < " + std::to_string(kBlocks) + " { c.store([row * 64, 0], " + acc(i) + "); }\nrow = row + 1;\n",
              [=](Machine &m) { m.stored.push_back(m.acc[i]); }};
    }
    if (kind <= 10) return loop(depth);
    return branch(depth);
  }

  Statement dot(int64_t to, int64_t from) {
    const Index ka = index(), kb = index();
    const bool doubled = rng.integer(0, 5) == 0; // A from registers
    return {acc(to) + " = dot(a.load([0, " + ka.text + "])" + (doubled ? " * 2.0" : "") + ", b.load([" + kb.text +
                ", 0]), " + acc(from) + ");\n",
            [=](Machine &m) {
              const int64_t x = ka.value(m), y = kb.value(m);
              Tile out = m.acc[from];
              for (int64_t r = 0; r < kRows; ++r)
                for (int64_t c = 0; c < kColumns; ++c)
                  for (int64_t k = 0; k < 32; ++k)
                    out[size_t(r * kColumns + c)] += (doubled ? 2 : 1) * m.a(r, x + k) * m.b(y + k, c);
              m.acc[to] = out;
            }};
  }

  Statement loop(int depth) {
    const int64_t trips = rng.integer(0, 4), stages = rng.integer(1, 4), v = loops;
    const bool varies = loops && rng.integer(0, 2) == 0; // with the loop around it
    const std::string bound =
        varies ? "k" + std::to_string(v - 1) + " % 2 + " + std::to_string(trips) : "n + " + std::to_string(trips);
    ++loops;
    const Statement inner = body(depth - 1);
    --loops;
    return {"for k" + std::to_string(v) + " in range(0, " + bound +
                (stages > 1 ? ", num_stages = " + std::to_string(stages) : "") + ") {\n" + inner.text + "}\n",
            [=](Machine &m) {
              const int64_t to = trips + (varies ? m.variables[v - 1] % 2 : 0);
              for (int64_t k = 0; k < to; ++k) {
                m.variables[v] = k;
                inner.run(m);
              }
            }};
  }

  Statement branch(int depth) {
    const Statement yes = body(depth - 1), no = body(depth - 1);
    const int64_t v = loops - 1, parity = rng.integer(0, 1);
    const std::string condition =
        (v < 0 ? std::string("flag") : "k" + std::to_string(v) + " % 2") + " == " + std::to_string(parity);
    return {"if " + condition + " {\n" + yes.text + "} else {\n" + no.text + "}\n",
            [=](Machine &m) { ((v < 0 ? m.flag : m.variables[v] % 2) == parity ? yes : no).run(m); }};
  }
};

void check(uint64_t seed) {
  const Statement body = Generator(seed).body(3);
  const std::string text =
      "kernel k(a: tensor_desc<f16, [64, 32]>, b: tensor_desc<f16, [32, 32]>, c: tensor_desc<f32, [64, 32]>,\n"
      "    n: i32, flag: i32) launch(num_warps = 4) {\nvar x0 = zeros([64, 32], f32);\n"
      "var x1 = zeros([64, 32], f32);\nvar x2 = zeros([64, 32], f32);\nvar row = 0;\n" +
      body.text + "c.store([" + std::to_string(kBlocks) + " * 64, 0], x0 + x1 * 2.0 - x2);\n}\n";
  std::vector<Tile> stored; // of the run on the host, made when the first element is asked for
  int64_t flag = int64_t(seed % 2);
  Case c{text,
         {},
         {Matrix("f16", kRows, kDepth), Matrix("f16", kDepth, kColumns)},
         Matrix("f32", (kBlocks + 1) * kRows, kColumns),
         {int32_t(0), int32_t(flag)}};
  c.poison = 0;
  CAPTURE(seed);
  async_testing::check(c, [&](const std::vector<Matrix> &in, int64_t r, int64_t column) {
    if (stored.empty()) {
      Machine m{in[0], in[1], {}, {}, {}, flag};
      for (Tile &t : m.acc) t.assign(kRows * kColumns, 0);
      body.run(m);
      stored = m.stored;
      stored.resize(kBlocks, Tile(kRows * kColumns, 0));
      Tile last(kRows * kColumns);
      for (size_t e = 0; e < last.size(); ++e) last[e] = m.acc[0][e] + 2 * m.acc[1][e] - m.acc[2][e];
      stored.push_back(last);
    }
    return stored[size_t(r / kRows)][size_t(r % kRows * kColumns + column)];
  });
}
} // namespace

TEST_CASE("async: random loops") {
  uint64_t first = 1, count = seeds() > 5 ? 400 : 40;
  if (const char *v = std::getenv("TLX_TEST_FIRST_SEED")) first = std::strtoull(v, nullptr, 10);
  for (uint64_t seed = first; seed < first + count; ++seed) check(seed);
}
