// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Launches that are checked for all interleavings: what only another schedule would show is found, right kernels are silent and covered, what
// cannot be covered says so. The mutants of gemm_ws are in race_test.cpp.
#include <doctest/doctest.h>

#include "references.h"

using namespace harness;

namespace {
/// Two tasks of one warp each that share a buffer and barriers.
std::string pair(const std::string &writer, const std::string &reader, const char *barriers = "alloc_barriers(2)") {
  return R"(kernel k(out: *i32, counter: *i32) launch(num_warps = 1) {
  let buffer = local_alloc([32], i32, 2);
  let ready = )" +
         std::string(barriers) + R"(;
  let done = alloc_barriers(2);
  async_tasks {
    async_task(default, name = "writer") { )" +
         writer + R"( }
    async_task(num_warps = 1, name = "reader") { )" +
         reader + R"( }
  }
})";
}

struct Said {
  std::string plain, all, proof;
};
Said said(const std::string &text, uint32_t schedule = TLX_SCHEDULE_LATE, unsigned programs = 1) {
  Program p = compileText(text, {"k.tlx", "k", {}, {}, TLX_COMPILE_NO_STATIC_CHECKS}, "sm_90a");
  Tensor out("i32", 128), counter("i32", 2);
  out.poison();
  counter.set(0, 0), counter.set(1, 0);
  auto d = upload(out), c = upload(counter);
  Said s;
  s.plain = p.run({programs}, {d, c}, {"sm_90a", schedule});
  c.write(counter.data());
  s.all = p.run({programs}, {d, c}, {"sm_90a", schedule, 0, true});
  c.write(counter.data());
  s.proof = p.proof({programs}, {d, c});
  return s;
}
bool finds(const std::string &text, const char *what) {
  return text.find(what) != std::string::npos;
}
} // namespace

TEST_CASE("exhaustive: a ring handed over is covered") {
  if (!onSimulator()) return;
  const Said s = said(pair(R"(
      for i in range(0, 6) {
        barrier_wait(done[i % 2], (i / 2 % 2) ^ 1);
        local_store(buffer[i % 2], arange(0, 32) + i);
        barrier_arrive(ready[i % 2]);
      })",
                           R"(
      for i in range(0, 6) {
        barrier_wait(ready[i % 2], i / 2 % 2);
        store(out + arange(0, 32), local_load(buffer[i % 2]));
        barrier_arrive(done[i % 2]);
      })"));
  CHECK(s.plain == "");
  CHECK(s.all == "");
  CHECK_MESSAGE(finds(s.proof, "every interleaving of 1 program is covered"), s.proof);
}

TEST_CASE("exhaustive: a wait that can come too late for its phase") {
  if (!onSimulator()) return;
  const std::string text = pair("barrier_arrive(ready[0]); barrier_arrive(ready[0]);", "barrier_wait(ready[0], 0);");
  const Said s = said(text, TLX_SCHEDULE_IN_ORDER); // the reader is there in time
  CHECK(s.plain == "");
  CHECK_MESSAGE(finds(s.all, "phase 1 can be complete before it looks"), s.all);
  CHECK_MESSAGE(finds(s.all, "in another order: deadlock"), s.all);
  CHECK(s.proof == "");
  CHECK(finds(said(text, TLX_SCHEDULE_LATE).plain, "deadlock")); // and here it is not
}

TEST_CASE("exhaustive: an arrival that can count for another phase") {
  if (!onSimulator()) return;
  const Said s =
      said(pair("barrier_arrive(ready[0]); barrier_wait(ready[0], 0); barrier_arrive(ready[0]);",
                "barrier_arrive(ready[0]); barrier_arrive(ready[0]);", "alloc_barriers(2, arrive_count = 2)"));
  CHECK_MESSAGE(finds(s.all, "can come before phase 0 is complete"), s.all);
  // Here it ends all the same, so that it is no error, and no proof.
  CHECK_MESSAGE(finds(s.all, "not covered: "), s.all);
  CHECK(!finds(s.all, "deadlock"));
}

TEST_CASE("exhaustive: named barriers, silent and mixed up") {
  if (!onSimulator()) return;
  const Said right =
      said(pair("local_store(buffer[0], arange(0, 32)); named_barrier_arrive(5, 64); named_barrier_wait(6, 64);",
                "named_barrier_wait(5, 64); let x = local_load(buffer[0]); store(out + arange(0, 32), x); "
                "named_barrier_arrive(6, 64);"));
  CHECK(right.all == "");
  CHECK(right.proof != "");
  const Said wrong =
      said(pair("named_barrier_arrive(6, 64); named_barrier_wait(5, 64);",
                "local_store(buffer[0], arange(0, 32)); named_barrier_arrive(5, 64); named_barrier_wait(6, 64); "
                "local_store(buffer[1], arange(0, 32));"));
  CHECK(wrong.all == "");
  // The reader's second store and the writer's load meet where the writer is slow.
  const Said race =
      said(pair("named_barrier_wait(5, 64); let x = local_load(buffer[0]); store(out + arange(0, 32), x);",
                "local_store(buffer[0], arange(0, 32)); named_barrier_arrive(5, 64); "
                "local_store(buffer[0], arange(0, 32) * 2);"));
  CHECK_MESSAGE(finds(race.all, "nothing orders them"), race.all);
}

TEST_CASE("exhaustive: what cannot be covered says so") {
  if (!onSimulator()) return;
  // Who takes which number depends on the schedule, and with it what each writes where.
  const Said s =
      said(pair("let i = atomic_add(counter, 1); local_store(buffer[i % 2], arange(0, 32)); barrier_arrive(ready[0]);",
                "let i = atomic_add(counter, 1); barrier_wait(ready[0], 0);"),
           TLX_SCHEDULE_LATE, 2);
  CHECK(s.plain == "");
  CHECK_MESSAGE(finds(s.all, "not covered: what a warp does depends on the schedule"), s.all);
  CHECK(s.proof == "");
  Program p = compileText("kernel k(out: *i32, counter: *i32) { store(out + arange(0, 128), arange(0, 128)); }",
                          {"k.tlx", "k", {}, {}}, "gfx942");
  Tensor out("i32", 128);
  auto d = upload(out);
  CHECK(finds(p.run({1}, {d, d}, {"gfx942", TLX_SCHEDULE_IN_ORDER, 0, true}), "only targets with mbarriers"));
}

TEST_CASE("exhaustive: gemm_ws and attention_ws are covered") {
  if (!onSimulator()) return;
  const Setting all{"sm_90a", TLX_SCHEDULE_LATE, 0, true};
  for (const char *stages : {"2", "3"}) {
    Program p = compile({"gemm_ws.tlx", "gemm_ws", {{"BM", "128"}, {"BN", "64"}, {"STAGES", stages}}, {}}, "sm_90a");
    Rng rng(1);
    Matrix a("f16", 256, 256), b("f16", 256, 64), c("f16", 256, 64);
    a.fillWith(rng, Fill::Integers, 2), b.fillWith(rng, Fill::Integers, 2);
    auto da = upload(a.values), db = upload(b.values), dc = upload(c.values);
    for (unsigned programs : {1u, 2u})
      CHECK(p.run({programs}, {a.argument(da), b.argument(db), c.argument(dc), 256, 64, 256}, all) == "");
    CHECK(finds(p.proof({2}, {a.argument(da), b.argument(db), c.argument(dc), 256, 64, 256}),
                "interleaving of 2 programs"));
  }
  Program p =
      compile({"attention_ws.tlx", "attention_ws", {{"D", "64"}, {"BN", "64"}, {"CAUSAL", "true"}}, {}}, "sm_90a");
  Rng rng(2);
  Tensor x("bf16", 2 * 256 * 64), lse("f32", 2 * 256), counter("i32", 2);
  fill(x, rng, Fill::Normal);
  counter.set(0, 0), counter.set(1, 0);
  auto q = upload(x), o = upload(x), l = upload(lse), n = upload(counter);
  auto t = [&](const tlx::Buffer &b) { return tensor(b, x, {2, 256, 64}); };
  CHECK(p.run({2}, {t(q), t(q), t(q), t(o), l, n, 256, 2, 0.125}, all) == "");
}
