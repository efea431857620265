// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Exact arithmetic: kernels that compute the same give the same bits, however they do it, from random numbers whose sums depend on the order
// otherwise; one wrong operand, one lost or stale tile gives others.
#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

#include "references.h"

using namespace harness;

namespace {
constexpr int kM = 200, kN = 136, kK = 320;
using Params = std::vector<std::pair<std::string, std::string>>;

std::string textOf(const std::string &file) {
  const char *dir = std::getenv("TLX_KERNELS_DIR");
  std::ifstream in(std::string(dir ? dir : TLX_KERNELS_DIR) + "/" + file);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}
std::string replaced(std::string text, const std::string &what, const std::string &with) {
  const size_t at = text.find(what);
  REQUIRE_MESSAGE(at != std::string::npos, what);
  return text.replace(at, what.size(), with);
}

/// C of random A and B, as bytes.
std::vector<uint8_t> product(const std::string &text, const std::string &kernel, const Params &params,
                             unsigned programs, const std::string &target = "sm_90a", bool exact = true,
                             bool mayFind = false) {
  Program p = compileText(text, {kernel + ".tlx", kernel, params, {}}, target);
  Rng rng(7);
  Matrix a("f16", kM, kK), b("f16", kK, kN), c("f16", kM, kN);
  a.fillWith(rng, Fill::Normal, 0), b.fillWith(rng, Fill::Normal, 0);
  c.values.poison();
  auto da = upload(a.values), db = upload(b.values), dc = upload(c.values);
  Setting setting{target, TLX_SCHEDULE_RANDOM, 3};
  setting.exact = exact;
  const std::string problem = p.run({programs}, {a.argument(da), b.argument(db), c.argument(dc), kM, kN, kK}, setting);
  if (!mayFind) CHECK(problem == "");
  download(c.values, dc);
  const auto *data = static_cast<const uint8_t *>(c.values.data());
  return {data, data + c.values.bytes()};
}
Params ws(const char *stages, const char *bn = "64", const char *bk = "64") {
  return {{"BM", "128"}, {"BN", bn}, {"BK", bk}, {"STAGES", stages}};
}
} // namespace

TEST_CASE("exact: gemm_ws and matmul give the same bits, whatever their tiles, stages, programs and target") {
  if (!onSimulator()) return;
  const std::string text = textOf("gemm_ws.tlx"), blocked = textOf("matmul.tlx");
  const std::vector<uint8_t> want = product(text, "gemm_ws", ws("2"), 1);
  CHECK(product(text, "gemm_ws", ws("3"), 1) == want);
  CHECK(product(text, "gemm_ws", ws("2"), 3) == want);
  CHECK(product(text, "gemm_ws", ws("3", "128", "32"), 4) == want);
  const Params tiles = {{"BM", "64"}, {"BN", "64"}, {"BK", "32"}, {"WARPS", "4"}};
  for (const char *target : {"sm_80", "sm_90a", "gfx942"}) {
    CAPTURE(target);
    CHECK(product(blocked, "matmul", tiles, 4 * 3, target) == want);
  }
  // Not because everything is: plain arithmetic is not the same in both, nor is it this.
  CHECK(product(text, "gemm_ws", ws("2"), 1, "sm_90a", false) != want);
  // The same products in another order.
  const std::string backwards =
      replaced(replaced(text, "[m, k * BK]", "[m, (steps - 1 - k) * BK]"), "[k * BK, n]", "[(steps - 1 - k) * BK, n]");
  CHECK(product(backwards, "gemm_ws", ws("2"), 1) == want);
}

TEST_CASE("exact: attention_ws gives the same bits with other rows, consumers, stages and programs") {
  if (!onSimulator()) return;
  auto output = [](const char *bm, const char *consumers, const char *stages, unsigned programs, double scale = 0.125) {
    Program p = compile(
        {"attention_ws.tlx",
         "attention_ws",
         {{"D", "64"}, {"BM", bm}, {"BN", "64"}, {"CONSUMERS", consumers}, {"STAGES", stages}, {"REGISTERS", "160"}},
         {}},
        "sm_90a");
    Rng rng(5);
    Tensor q("bf16", 2 * 200 * 64), k("bf16", 2 * 200 * 64), v("bf16", 2 * 200 * 64), o("bf16", 2 * 200 * 64),
        lse("f32", 400);
    for (Tensor *t : {&q, &k, &v}) fill(*t, rng, Fill::Normal);
    o.poison();
    auto dq = upload(q), dk = upload(k), dv = upload(v), d = upload(o), l = upload(lse);
    auto t = [&](const tlx::Buffer &b) { return tensor(b, o, {2, 200, 64}); };
    Setting exact{"sm_90a"};
    exact.exact = true;
    CHECK(p.run({programs}, {t(dq), t(dk), t(dv), t(d), l, l, 200, 2, scale}, exact) == "");
    download(o, d);
    const auto *data = static_cast<const uint8_t *>(o.data());
    return std::vector<uint8_t>(data, data + o.bytes());
  };
  const std::vector<uint8_t> want = output("128", "2", "2", 1);
  CHECK(output("192", "3", "2", 1) == want);
  CHECK(output("128", "2", "3", 3) == want);
  CHECK(output("128", "2", "2", 1, 0.25) != want);
}

TEST_CASE("exact: one thing wrong gives other bits") {
  if (!onSimulator()) return;
  const std::string text = textOf("gemm_ws.tlx");
  const std::vector<uint8_t> want = product(text, "gemm_ws", ws("2"), 1);
  struct Mutant {
    const char *what, *with;
  };
  for (const Mutant &m : {
           Mutant{"[m, k * BK]", "[m, (steps - 1 - k) * BK]"},                // tiles of A beside others of B
           {"use_acc = k > 0", "use_acc = k > 1"},                            // a lost product
           {"b_ring[slot], acc", "b_ring[(slot + 1) % STAGES], acc"},         // a stale stage
           {"let row = async_task_replica_id() * (BM / 2);", "let row = 0;"}, // both make the same half
           {"c.store([m + row, n], acc.to(T));", "c.store([m + row, n], (acc + acc).to(T));"}, // twice
       }) {
    CAPTURE(m.what);
    CHECK(product(replaced(text, m.what, m.with), "gemm_ws", ws("2"), 1, "sm_90a", true, true) != want);
  }
}

TEST_CASE("exact: the algebra that is kept") {
  if (!onSimulator()) return;
  const std::string text = R"(kernel k(x: *f32, y: *f32, out: *f32) launch(num_warps = 4) {
  let i = arange(0, 128);
  let (a, b) = (load(x + i), load(y + i));
  EXPRESSION
})";
  auto bits = [&](const std::string &expression) {
    Program p = compileText(replaced(text, "EXPRESSION", "store(out + i, " + expression + ");"), {"k.tlx", "k", {}, {}},
                            "sm_90a");
    Rng rng(3);
    Tensor x("f32", 128), y("f32", 128), out("f32", 128);
    fill(x, rng, Fill::Normal), fill(y, rng, Fill::Normal);
    out.poison();
    auto dx = upload(x), dy = upload(y), d = upload(out);
    Setting s{"sm_90a"};
    s.exact = true;
    CHECK(p.run({1}, {dx, dy, d}, s) == "");
    download(out, d);
    const auto *data = static_cast<const uint8_t *>(out.data());
    return std::vector<uint8_t>(data, data + out.bytes());
  };
  CHECK(bits("(a + b) + a") == bits("a + (b + a)"));
  CHECK(bits("(a + b) * a") == bits("a * a + b * a"));
  CHECK(bits("fma(a, b, a)") == bits("a * b + a"));
  CHECK(bits("a - b") == bits("-(b - a)"));
  CHECK(bits("a * 1.0 + 0.0") == bits("a"));
  CHECK(bits("exp2(a + b)") == bits("exp2(a) * exp2(b)"));
  CHECK(bits("(a * exp2(b)) / (a * a * exp2(b))") == bits("a / (a * a)"));
  CHECK(bits("maximum(a, maximum(b, -inf))") == bits("maximum(b, a)"));
  CHECK(bits("exp2(where(a < b, a, -inf) + b)") == bits("where(a < b, exp2(a + b), 0.0)"));
  CHECK(bits("a.to(f16).to(f32).to(f16).to(f32)") == bits("a.to(f16).to(f32)"));
  CHECK(bits("a + b") != bits("a - b"));
  CHECK(bits("a * b") != bits("a"));
  CHECK(bits("exp2(a)") != bits("exp2(b)"));
  CHECK(bits("a + a") != bits("a"));
}
