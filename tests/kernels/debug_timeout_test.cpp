// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The debug time-out of waits: what it adds to the code and to nothing else, that the simulator goes its way, and (TLX_TEST_DEVICE=cuda:0) that a
// wait for a phase that never comes ends with an error that names it.
#include <doctest/doctest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "harness.h"

using namespace harness;

namespace {
/// The task `reader` waits for a phase that nobody completes.
const char *const kStuck = R"(kernel k(p: *i32) launch(num_warps = 4) {
  let full = alloc_barriers(3);
  let done = alloc_barriers(1);
  async_tasks {
    async_task(default, name = "writer") {
      barrier_wait(done[0], 0);
    }
    async_task(num_warps = 4, name = "reader", replicate = 2) {
      barrier_wait(full[2 - async_task_replica_id()], 0);
      barrier_arrive(done[0]);
      store(p + arange(0, 128), arange(0, 128));
    }
  }
})";
const char *const kRight = R"(kernel k(p: *i32) launch(num_warps = 4) {
  let full = alloc_barriers(1);
  async_tasks {
    async_task(default, name = "writer") { barrier_arrive(full[0]); }
    async_task(num_warps = 4, name = "reader") {
      barrier_wait(full[0], 0);
      store(p + arange(0, 128), arange(0, 128));
    }
  }
})";

tlx::Kernel built(const char *text, uint32_t timeout, const std::string &target = "sm_90a") {
  static tlx::Context context;
  tlx::CompileOptions o;
  o.fileName = "k.tlx";
  o.target = target;
  o.keep = TLX_KEEP_ASSEMBLY;
  o.flags = TLX_COMPILE_NO_STATIC_CHECKS;
  o.debugTimeout = timeout;
  return context.compile(text, o);
}
std::string assembly(const tlx::Kernel &kernel) {
  return std::string(kernel.artifact(TLX_ARTIFACT_ASSEMBLY));
}
size_t count(const std::string &text, const std::string &what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}
} // namespace

TEST_CASE("debug time-out: code and metadata") {
  const tlx::Kernel plain = built(kStuck, 0), timed = built(kStuck, 250000);
  const std::string without = assembly(plain), with = assembly(timed);
  CHECK(without.find("globaltimer") == std::string::npos);
  CHECK(without.find("trap") == std::string::npos);
  // Two texts: the replicas of the second share their code, and have a record each.
  CHECK(count(with, "mbarrier.try_wait") == 2);
  CHECK(count(with, "fence.acq_rel.sys") == 2);
  CHECK(count(with, "st.volatile.global.v4.b32") == 2);
  CHECK(count(with, "trap;") == 2);
  CHECK(count(with, ", 250000001;") == 2); // nanoseconds: later than that
  CHECK(count(with, ", 281250001;") == 2); // and an eighth more
  if (tlx_kernel_image_kind(timed.get()) != TLX_IMAGE_KIND_CUBIN) MESSAGE("no ptxas: PTX is checked as text only");
  const auto json = nlohmann::json::parse(timed.metadataJson());
  CHECK(json["debug_timeout"] == 250000);
  REQUIRE(json["waits"].size() == 3);
  CHECK(json["waits"][0]["task"] == "task 'writer'");
  CHECK(json["waits"][0]["barrier"] == "done");
  CHECK(json["waits"][0]["place"] == "k.tlx:6");
  CHECK(json["waits"][1]["task"] == "task 'reader' (replica 0)");
  CHECK(json["waits"][2]["task"] == "task 'reader' (replica 1)");
  CHECK(json["waits"][2]["barrier"] == "full");
  REQUIRE(json["hidden"].size() == 1);
  CHECK(json["hidden"][0]["kind"] == "wait_record");
  CHECK(!nlohmann::json::parse(plain.metadataJson()).contains("waits"));
  // A kernel that waits for no barrier is the same with and without; so is one for a target without mbarriers.
  const char *const none = "kernel k(p: *i32) { store(p, 1); }";
  CHECK(assembly(built(none, 0)) == assembly(built(none, 1000)));
  CHECK(assembly(built(none, 0, "gfx942")) == assembly(built(none, 1000, "gfx942")));
}

TEST_CASE("debug time-out: kernels that are right stay so, and the simulator finds the deadlock itself") {
  for (uint32_t timeout : {0u, 1000000u}) {
    CAPTURE(timeout);
    Program right = compileText(kRight, {"k.tlx", "k", {}, {}, 0, timeout}, "sm_90a");
    Tensor out("i32", 128);
    out.poison();
    tlx::Buffer d = upload(out);
    CHECK(right.run({1}, {d}, {"sm_90a"}) == "");
    download(out, d);
    for (size_t i = 0; i < 128; ++i) CHECK(out.get(i) == double(i));
    if (!onSimulator()) continue; // a trap ends the process's use of a GPU
    Program stuck = compileText(kStuck, {"k.tlx", "k", {}, {}, TLX_COMPILE_NO_STATIC_CHECKS, timeout}, "sm_90a");
    const std::string problem = stuck.run({1}, {d}, {"sm_90a"});
    CHECK_MESSAGE(problem.find("deadlock") != std::string::npos, problem);
  }
}

// Runs in a process of its own, which the next test starts: the trap poisons the process's context.
TEST_CASE("debug time-out: a launch that hangs" * doctest::skip(!std::getenv("TLX_TEST_HANG"))) {
  Program stuck = compileText(kStuck, {"k.tlx", "k", {}, {}, TLX_COMPILE_NO_STATIC_CHECKS, 200000}, "sm_90a");
  tlx::Buffer d = upload(Tensor("i32", 128));
  std::printf("said: %s\n", stuck.run({1}, {d}, {"sm_90a"}).c_str());
}

TEST_CASE("debug time-out: a GPU says which wait it was") {
  if (onSimulator()) {
    MESSAGE("no GPU: TLX_TEST_DEVICE=cuda:0 runs it");
    return;
  }
  const auto start = std::chrono::steady_clock::now();
  char self[4096] = {};
  REQUIRE(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
  const std::string command =
      std::string("TLX_TEST_HANG=1 '") + self + "' -tc='debug time-out: a launch that hangs' 2>&1";
  std::FILE *child = popen(command.c_str(), "r");
  REQUIRE(child);
  std::string text;
  char line[512];
  while (std::fgets(line, sizeof line, child)) text += line;
  pclose(child);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  CHECK(seconds.count() < 20); // a process, a compile, a context
  INFO(text);
  for (const char *part : {"task 'writer' of program (0, 0, 0) waited 200 ms for done[0], phase 0, k.tlx:6",
                           "task 'reader' (replica 0) of program (0, 0, 0) waited 200 ms for full[2], phase 0, k.tlx:9",
                           "task 'reader' (replica 1) of program (0, 0, 0) waited 200 ms for full[1], phase 0, k.tlx:9",
                           "cuStreamSynchronize"})
    CHECK_MESSAGE(text.find(part) != std::string::npos, part);
}
