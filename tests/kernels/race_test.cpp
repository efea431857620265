// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the race checker finds in kernels of tasks, in the schedule that shows least (in order), and that it is silent where nothing is wrong.
// gemm_ws as it ships is checked in matmul_descriptors_test.cpp; here one thing at a time is taken out of its text.
#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

#include "references.h"

using namespace harness;

namespace {
/// Task `writer` fills a buffer, task `reader` copies it to memory.
std::string handover(const char *behindStore, const char *beforeLoad) {
  return std::string(R"(kernel k(out: *i32) launch(num_warps = 4) {
  let buffer = local_alloc([128], i32);
  let ready = alloc_barriers(1);
  async_tasks {
    async_task(default, name = "writer") {
      local_store(buffer, arange(0, 128) * 3);
      )") +
         behindStore + R"(
    }
    async_task(num_warps = 4, name = "reader") {
      )" +
         beforeLoad + R"(
      store(out + arange(0, 128), local_load(buffer));
    }
  }
})";
}

/// What the launch says; the output must be right if it is silent.
std::string said(const std::string &text) {
  Program p = compileText(text, {"k.tlx", "k", {}, {}}, "sm_90a");
  Tensor out("i32", 128);
  out.poison();
  auto d = upload(out);
  std::string problem = p.run({1}, {d}, {"sm_90a"});
  download(out, d);
  if (problem.empty())
    for (size_t i = 0; i < 128; ++i) CHECK(out.get(i) == double(3 * i));
  return problem;
}

std::string replaced(std::string text, const std::string &what, const std::string &with) {
  const size_t at = text.find(what);
  REQUIRE_MESSAGE(at != std::string::npos, what);
  return text.replace(at, what.size(), with);
}

std::string gemmText() {
  const char *dir = std::getenv("TLX_KERNELS_DIR");
  std::ifstream file(std::string(dir ? dir : TLX_KERNELS_DIR) + "/gemm_ws.tlx");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}
std::string gemmSaid(const std::string &text) {
  Program p =
      compileText(text, {"gemm_ws.tlx", "gemm_ws", {{"BM", "128"}, {"BN", "64"}, {"STAGES", "2"}}, {}}, "sm_90a");
  Rng rng(1);
  Matrix a("f16", 256, 320), b("f16", 320, 64), c("f16", 256, 64);
  a.fillWith(rng, Fill::Integers, 2), b.fillWith(rng, Fill::Integers, 2);
  auto da = upload(a.values), db = upload(b.values), dc = upload(c.values);
  return p.run({1}, {a.argument(da), b.argument(db), c.argument(dc), 256, 64, 320}, {"sm_90a"});
}
} // namespace

TEST_CASE("races: a buffer that one task writes and another reads") {
  if (!onSimulator()) return;
  CHECK(said(handover("barrier_arrive(ready[0]);", "barrier_wait(ready[0], 0);")) == "");
  CHECK(said(handover("named_barrier_arrive(5, 256);", "named_barrier_wait(5, 256);")) == "");
  const std::string missing = said(handover("barrier_arrive(ready[0]);", ""));
  CHECK(missing.find("race: read of ") != std::string::npos);
  CHECK(missing.find("no barrier orders what warp ") != std::string::npos);
  // A wait for the phase before the first one passes at once.
  CHECK(said(handover("barrier_arrive(ready[0]);", "barrier_wait(ready[0], 1);")).find("race: ") != std::string::npos);
  // The arrival stands before what it should publish.
  const std::string early =
      replaced(handover("", "barrier_wait(ready[0], 0);"), "local_store", "barrier_arrive(ready[0]); local_store");
  CHECK(said(early).find("race: ") != std::string::npos);
}

TEST_CASE("races: within a task the compiler orders, between tasks that follow one another too") {
  if (!onSimulator()) return;
  CHECK(said(R"(kernel k(out: *i32) launch(num_warps = 4) {
  let a = local_alloc([128], i32);
  let b = local_alloc([128], i32);
  async_tasks {
    async_task(default) { local_store(a, arange(0, 128)); local_store(a, local_load(a) + arange(0, 128)); }
    async_task(num_warps = 4) { local_store(b, arange(0, 128)); }
  }
  local_store(b, local_load(a) + local_load(b));
  async_tasks {
    async_task(default) { local_store(b, local_load(b) + arange(0, 128) * 0); }
    async_task(num_warps = 2) { let y = local_load(a); }
  }
  store(out + arange(0, 128), local_load(b));
})") == "");
}

TEST_CASE("races: tasks of one and of two warps, a kernel of one") {
  if (!onSimulator()) return;
  for (const char *own : {"1", "2", "8"})
    for (const char *other : {"1", "2"}) {
      const std::string text = replaced(handover("barrier_arrive(ready[0]);", "barrier_wait(ready[0], 0);"),
                                        "num_warps = 4)", std::string("num_warps = ") + own + ")");
      CAPTURE(own);
      CAPTURE(other);
      CHECK(said(replaced(text, "async_task(num_warps = 4", std::string("async_task(num_warps = ") + other)) == "");
    }
}

TEST_CASE("races: gemm_ws with one thing less") {
  if (!onSimulator()) return;
  const std::string text = gemmText();
  CHECK(gemmSaid(text) == "");
  struct Mutant {
    const char *what, *with, *finding;
  };
  for (const Mutant &m : {
           // the producer fills slots that are still read
           Mutant{"barrier_wait(empty[slot], phase ^ 1);", "", "TMA load"},
           {"barrier_wait(empty[slot], phase ^ 1);", "barrier_wait(empty[slot], phase);", "deadlock"},
           // consumers read slots that are not filled
           {"barrier_wait(full[slot], phase);", "", "wgmma"},
           {"barrier_wait(full[slot], phase);", "barrier_wait(full[slot], phase ^ 1);", "wgmma"},
           // released before the product has retired
           {"acc = async_dot_wait(1, acc);                  // step k - 1 has retired", "", "TMA load"},
           {"barrier_arrive(empty[last], pred = k > 0);", "", "deadlock"},
           {"alloc_barriers(STAGES, arrive_count = 2)", "alloc_barriers(STAGES, arrive_count = 1)", "arrival"},
           {"alloc_barriers(STAGES, arrive_count = 2)", "alloc_barriers(STAGES, arrive_count = 3)", "deadlock"},
           {"bytes_of(a_ring[slot]) + bytes_of(b_ring[slot])", "bytes_of(a_ring[slot])", "bytes"},
           {"bytes_of(a_ring[slot]) + bytes_of(b_ring[slot])", "bytes_of(a_ring[slot]) + bytes_of(b_ring[slot]) + 16",
            "deadlock"},
       }) {
    CAPTURE(m.what);
    CAPTURE(m.with);
    const std::string problem = gemmSaid(replaced(text, m.what, m.with));
    CHECK_MESSAGE(problem.find(m.finding) != std::string::npos, problem);
  }
}
