// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Descriptors in company: behind an acquire, in loops that also store, with two products of one shape, in two shapes.
#include "operations.h"

using namespace operations;
using harness::Tensor;

namespace {

Program compiled(const std::string &text, const std::string &kernel, const std::string &target) {
  try {
    return compileText(text, {"forms.tlx", kernel, {}, {}}, target);
  } catch (const std::exception &e) {
    std::string why = e.what();
    REQUIRE_MESSAGE(false, why);
    throw;
  }
}
std::vector<double> values(const Tensor &t) {
  std::vector<double> v(t.count());
  for (size_t i = 0; i < v.size(); ++i) v[i] = t.get(i);
  return v;
}
bool warns(const Program &p, const char *text) {
  return p.kernel.diagnostics().find(text) != std::string::npos;
}

} // namespace

// Program 1 stores block i and releases a counter; program 0 waits for it and loads the block by another argument. No
// pipeline may load it before.
TEST_CASE("descriptors: what an acquire has seen is loaded behind it") {
  const std::string producer = "  if program_id(0) == 1 {\n"
                               "    for i in range(0, n) {\n"
                               "      w.store([i * 64, 0], full([64, 64], 1.0, f16));\n"
                               "      atomic_add(count, 1, order = \"release\");\n"
                               "    }\n"
                               "  } else {\n";
  const std::string head =
      "(a: tensor_desc<f16, [64, 64]>, w: tensor_desc<f16, [64, 64]>, c: tensor_desc<f32, [64, 64]>, "
      "count: *i32, n: i32) launch(num_warps = 4) {\n" +
      producer;
  const std::string wait = "      var seen = atomic_add(count, 0, order = \"acquire\");\n"
                           "      while seen <= i { seen = atomic_add(count, 0, order = \"acquire\"); }\n";
  const std::string text = "kernel inside" + head + "    for i in range(0, n, num_stages = 3) {\n" + wait +
                           "      let x = a.load([i * 64, 0]);\n"
                           "      c.store([i * 64, 0], dot(x, x.T));\n"
                           "    }\n  }\n}\n"
                           "kernel around" +
                           head + "    for i in range(0, n) {\n" + wait +
                           "      var acc = zeros([64, 64], f32);\n"
                           "      for k in range(0, 64, 64, num_stages = 3) { acc = dot(a.load([i * 64, k]), a.load([i "
                           "* 64, k]).T, acc); }\n"
                           "      c.store([i * 64, 0], acc);\n"
                           "    }\n  }\n}\n";
  constexpr int n = 4;
  for (const std::string &target : targets())
    for (const char *kernel : {"inside", "around"}) {
      const Program p = compiled(text, kernel, target);
      for (const Setting &setting : settings(target, seeds())) {
        Tensor a("f16", 64 * 64 * n), c("f32", 64 * 64 * n), count("i32", 1);
        c.poison();
        tlx::Buffer shared = harness::upload(a), out = harness::upload(c), counter = harness::upload(count);
        tlx::Tensor block = harness::tensor(shared, a, {64 * n, 64}), result = harness::tensor(out, c, {64 * n, 64});
        CHECK(p.run({2, 1, 1}, {block, block, result, counter, n}, setting) == "");
        harness::download(c, out);
        const std::vector<double> got = values(c), want(got.size(), 64.0);
        CHECK_MESSAGE(got == want, kernel, " ", setting.text());
      }
    }
}

// Nothing orders accesses of the same elements through different arguments: the loop is pipelined, on every target.
TEST_CASE("descriptors: a loop that loads by one and stores by another is pipelined") {
  const std::string text =
      "kernel k(d: tensor_desc<f32, [8, 32]>, e: tensor_desc<f32, [8, 32]>, n: i32) launch(num_warps = 4) {\n"
      "  for i in range(0, n, num_stages = 3) { e.store([i * 8, 0], d.load([i * 8, 0]) + 1.0); }\n}\n";
  for (const std::string &target : targets()) {
    const Program p = compiled(text, "k", target);
    CHECK_MESSAGE(!warns(p, "num_stages"), p.kernel.diagnostics());
    harness::Rng rng(11);
    for (int n : {0, 1, 2, 7})
      for (const Setting &setting : settings(target, 2)) {
        Tensor d("f32", size_t(8 * 32 * 8)), e("f32", d.count());
        fill(d, rng, harness::Fill::Integers);
        e.poison();
        std::vector<double> want = values(d);
        for (double &v : want) v += 1;
        tlx::Buffer from = harness::upload(d), to = harness::upload(e);
        tlx::Tensor x = harness::tensor(from, d, {8 * n, 32}), y = harness::tensor(to, e, {8 * n, 32});
        CHECK(p.run({1, 1, 1}, {x, y, n}, setting) == "");
        harness::download(e, to);
        for (int i = 0; i < 8 * n * 32; ++i) REQUIRE(e.get(size_t(i)) == want[size_t(i)]);
      }
  }
}

TEST_CASE("descriptors: a loop that cannot be pipelined says so once") {
  const std::string text =
      "kernel index(a: tensor_desc<f16, [64, 64]>, b: tensor_desc<f16, [64, 64]>, c: tensor_desc<f32, [64, 64]>, p: "
      "*i32, n: i32) launch(num_warps = 4) {\n"
      "  var acc = zeros([64, 64], f32);\n"
      "  for k in range(0, n, num_stages = 3) { acc = dot(a.load([0, load(p + k) * 64]), b.load([load(p + k) * 64, "
      "0]), acc); }\n"
      "  c.store([0, 0], acc);\n}\n"
      "kernel ordered(a: tensor_desc<f32, [64, 64]>, c: tensor_desc<f32, [64, 64]>, p: *i32, n: i32) launch(num_warps "
      "= 4) {\n"
      "  var t = zeros([64, 64], f32);\n"
      "  for k in range(0, n, num_stages = 3) { atomic_add(p, 1, order = \"acquire\"); t += a.load([k * 64, 0]); }\n"
      "  c.store([0, 0], t);\n}\n"
      "kernel behind(a: tensor_desc<f32, [64, 64]>, n: i32) launch(num_warps = 4) {\n"
      "  var t = zeros([64, 64], f32);\n"
      "  for k in range(0, n, num_stages = 3) { t += a.load([k * 64, 0]); }\n"
      "  a.store([0, 0], t);\n}\n";
  for (const std::string &target : targets()) {
    for (auto [kernel, why] :
         {std::pair{"index", "depends on memory"}, {"ordered", "an atomic or a fence in it orders memory"}, {"behind", ""}}) {
      const std::string said = compiled(text, kernel, target).kernel.diagnostics();
      size_t count = 0;
      for (size_t at = said.find("num_stages has no effect"); at != std::string::npos;
           at = said.find("num_stages has no effect", at + 1))
        ++count;
      CHECK_MESSAGE(count == (*why ? 1 : 0), target, " ", kernel, "\n", said);
      CHECK_MESSAGE(said.find(why) != std::string::npos, target, " ", kernel, "\n", said);
    }
  }
}

// 40 columns: wgmma has n = 40 for floats, but not for integers.
TEST_CASE("descriptors: products of floats and of integers in one shape") {
  const std::string text = "kernel k(a: tensor_desc<f16, [64, 32]>, b: tensor_desc<f16, [40, 32]>, x: tensor_desc<i8, "
                           "[64, 32]>, y: tensor_desc<i8, [40, 32]>, c: *f32, z: *i32)\n"
                           "    launch(num_warps = 4) {\n"
                           "  let at = arange(0, 64)[:, None] * 40 + arange(0, 40)[None, :];\n"
                           "  store(c + at, dot(a.load([0, 0]), b.load([0, 0]).T));\n"
                           "  store(z + at, dot(x.load([0, 0]), y.load([0, 0]).T));\n}\n";
  for (const std::string &target : targets()) {
    if (target.starts_with("gfx")) continue; // no matrix instruction of 8 columns
    const Program p = compiled(text, "k", target);
    harness::Rng rng(5);
    for (const Setting &setting : settings(target, 2)) {
      Tensor a("f16", 64 * 32), b("f16", 40 * 32), x("i8", 64 * 32), y("i8", 40 * 32), c("f32", 64 * 40),
          z("i32", 64 * 40);
      for (Tensor *t : {&a, &b, &x, &y}) fill(*t, rng, harness::Fill::Integers);
      c.poison(), z.poison();
      tlx::Buffer bufferA = harness::upload(a), bufferB = harness::upload(b), bufferX = harness::upload(x),
                  bufferY = harness::upload(y), out = harness::upload(c), integers = harness::upload(z);
      tlx::Tensor ta = harness::tensor(bufferA, a, {64, 32}), tb = harness::tensor(bufferB, b, {40, 32}),
                  tx = harness::tensor(bufferX, x, {64, 32}), ty = harness::tensor(bufferY, y, {40, 32});
      CHECK(p.run({1, 1, 1}, {ta, tb, tx, ty, out, integers}, setting) == "");
      harness::download(c, out), harness::download(z, integers);
      for (size_t i = 0; i < 64; ++i)
        for (size_t j = 0; j < 40; ++j) {
          double f = 0, n = 0;
          for (size_t k = 0; k < 32; ++k)
            f += a.get(i * 32 + k) * b.get(j * 32 + k), n += x.get(i * 32 + k) * y.get(j * 32 + k);
          REQUIRE(c.get(i * 40 + j) == f);
          REQUIRE(z.get(i * 40 + j) == n);
        }
    }
  }
}

// One block in shared memory with its extent of 1 and without: the same box.
TEST_CASE("descriptors: blocks that lose an extent of 1") {
  const std::string text = "kernel k(a: tensor_desc<f32, [1, 32, 32]>, o: *f32, p: *f32) launch(num_warps = 4) {\n"
                           "  let x = reshape(a.load([0, 0, 0]), [32, 32]);\n"
                           "  let y = a.load([1, 0, 0]);\n"
                           "  let at = arange(0, 32)[:, None] * 32 + arange(0, 32)[None, :];\n"
                           "  store(o + at, x);\n"
                           "  store(p + reshape(at, [1, 32, 32]), y);\n}\n";
  for (const std::string &target : targets()) {
    const Program p = compiled(text, "k", target);
    harness::Rng rng(6);
    for (const Setting &setting : settings(target, 2)) {
      Tensor a("f32", 2 * 32 * 32), first("f32", 32 * 32), second("f32", 32 * 32);
      fill(a, rng, harness::Fill::Integers);
      first.poison(), second.poison();
      tlx::Buffer from = harness::upload(a), one = harness::upload(first), two = harness::upload(second);
      tlx::Tensor block = harness::tensor(from, a, {2, 32, 32});
      CHECK(p.run({1, 1, 1}, {block, one, two}, setting) == "");
      harness::download(first, one), harness::download(second, two);
      for (size_t i = 0; i < 32 * 32; ++i) {
        REQUIRE(first.get(i) == a.get(i));
        REQUIRE(second.get(i) == a.get(32 * 32 + i));
      }
    }
  }
}

// TMA's reductions write rows to the end of their last 16 bytes: others are combined element by element.
TEST_CASE("descriptors: combining stores to rows of any length") {
  const std::string text = "kernel k(d: tensor_desc<f32, [16, 32]>) launch(num_warps = 4) {\n"
                           "  d.store([0, 0], full([16, 32], 1.0, f32), reduce = \"add\");\n}\n";
  Tensor memory("f32", 32 * 32), after("f32", memory.count());
  for (const std::string &target : targets()) {
    const Program p = compiled(text, "k", target);
    for (const int64_t columns : {28, 29, 30, 31, 32, 1})
      for (const Setting &setting : settings(target, 1)) {
        CAPTURE(columns);
        for (size_t i = 0; i < memory.count(); ++i) memory.set(i, double(i));
        const tlx::Buffer b = harness::upload(memory);
        CHECK(p.run({1, 1, 1}, {harness::tensor(b, memory, {32, columns}, {32, 1})}, setting) == "");
        harness::download(after, b);
        size_t wrong = 0;
        for (size_t i = 0; i < memory.count(); ++i)
          wrong += after.get(i) != double(i) + (i / 32 < 16 && int64_t(i % 32) < columns ? 1 : 0);
        CHECK(wrong == 0);
      }
  }
}
