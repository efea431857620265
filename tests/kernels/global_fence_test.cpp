// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a kernel writes to global memory by ordinary stores and reads back by TMA or a bulk copy needs a fence of the asynchronous proxy in between:
// by who wrote it, before the memory is handed on, or by who reads it, behind the wait. The simulator finds where it is missing; with it
// results are right on a GPU too.
#include <doctest/doctest.h>

#include "references.h"

using namespace harness;

namespace {
constexpr int64_t kPart = 128;
const char *const kFence = "fence(\"async_global\");";

/// What a launch says of the kernel, which writes 3 i + 1 to `scratch`, and that again to `out` as it reads it; right if it says nothing.
std::string said(const std::string &body, uint32_t programs = 1) {
  const bool tma = body.find("there") != std::string::npos; // else no descriptor is in sight
  const std::string text =
      std::string("kernel k(out: *i32, scratch: *i32, flag: *i32") + (tma ? ", there: tensor_desc<i32, [8, 16]>" : "") +
      ") launch(num_warps = 4) requires(aligned(out, 16), aligned(scratch, 16)) {\n" + body + "\n}";
  Program p = compileText(text, {"k.tlx", "k", {}, {}}, "sm_90a");
  for (const Setting &setting : settings("sm_90a", 2)) {
    Tensor out("i32", kPart), scratch("i32", kPart), flag("i32", 4);
    out.poison(), scratch.poison();
    for (size_t i = 0; i < 4; ++i) flag.set(i, 0);
    auto o = upload(out), s = upload(scratch), f = upload(flag);
    const tlx::Tensor there = tensor(s, scratch, {8, 16});
    std::vector<tlx::Arg> args{o, s, f};
    if (tma) args.push_back(there);
    if (std::string problem = p.run({programs}, args, setting); !problem.empty()) return problem;
    download(out, o);
    for (size_t i = 0; i < size_t(kPart); ++i) CHECK(out.get(i) == double(3 * i + 1));
  }
  return "";
}

struct Read {
  const char *buffers, *fetch, *name;
};
/// Ways to read `scratch` that are not the threads' own.
const Read kReads[] = {
    {"let (box, full) = (local_alloc([128], i32), alloc_barriers(1));",
     R"(barrier_expect_bytes(full[0], 512);
        async_bulk_load(scratch, box, full[0]);
        barrier_wait(full[0], 0);
        store(out + arange(0, 128), local_load(box));)",
     "bulk load"},
    {"let (box, full) = (local_alloc([8, 16], i32), alloc_barriers(1));",
     R"(barrier_expect_bytes(full[0], 512);
        async_descriptor_load(there, box, [0, 0], full[0]);
        barrier_wait(full[0], 0);
        store(out + arange(0, 8)[:, None] * 16 + arange(0, 16)[None, :], local_load(box));)",
     "TMA load"},
    {"", "store(out + arange(0, 8)[:, None] * 16 + arange(0, 16)[None, :], there.load([0, 0]));", "TMA load"},
};
const char *const kWrites[] = {"store(scratch + arange(0, 128), arange(0, 128) * 3 + 1);",
                               "let before = atomic_xchg(scratch + arange(0, 128), arange(0, 128) * 3 + 1);"};

/// That the finding is there; on a GPU nothing is tried that is wrong.
void checkMissing(const Read &read, const std::string &body, uint32_t programs = 1) {
  if (!onSimulator()) return;
  const std::string problem = said(body, programs);
  CHECK_MESSAGE(problem.find(std::string("missing fence: a ") + read.name + " reaches ") != std::string::npos, body,
                problem);
  CHECK_MESSAGE(problem.find("fence(\"async_global\")) stands between them") != std::string::npos, problem);
}
void checkRight(const std::string &body, uint32_t programs = 1) {
  const std::string problem = said(body, programs);
  CHECK_MESSAGE(problem == "", body, problem);
}
} // namespace

TEST_CASE("global fence: within a program") {
  for (const Read &read : kReads)
    for (const char *write : kWrites) {
      auto body = [&](const char *between) {
        return std::string(read.buffers) + "\n" + write + "\n" + between + "\n" + read.fetch;
      };
      checkRight(body(kFence));
      if (!onSimulator()) continue;
      // Where no barrier stands between, for another reason, this is a race before it is a missing fence.
      const std::string problem = said(body(""));
      CHECK_MESSAGE((problem.find(std::string("race: ") + read.name + " of ") != std::string::npos ||
                     problem.find(std::string("missing fence: a ") + read.name + " reaches ") != std::string::npos),
                    problem);
    }
}

TEST_CASE("global fence: from task to task, on either side of the arrival") {
  for (const Read &read : kReads)
    for (const char *write : kWrites)
      for (const char *warps : {"1", "4"}) {
        if (!*read.buffers && *warps == '1') continue; // a block for each of the tasks' threads
        auto body = [&](const char *beforeArrive, const char *afterArrive, const char *beforeWait,
                        const char *afterWait) {
          return std::string(read.buffers) + R"(
  let ready = alloc_barriers(1);
  async_tasks {
    async_task(default, name = "writer") {
      )" + write +
                 "\n" + beforeArrive + "\nbarrier_arrive(ready[0]);\n" + afterArrive + R"(
    }
    async_task(num_warps = )" +
                 warps + R"(, name = "reader") {
      )" + beforeWait +
                 "\nbarrier_wait(ready[0], 0);\n" + afterWait + "\n" + read.fetch + R"(
    }
  })";
        };
        checkRight(body(kFence, "", "", ""));
        checkRight(body("", "", "", kFence));
        checkMissing(read, body("", "", "", ""));
        checkMissing(read, body("", kFence, "", ""));
        checkMissing(read, body("", "", kFence, ""));
      }
}

TEST_CASE("global fence: from program to program") {
  for (const Read &read : kReads) {
    auto body = [&](const char *behindWrite, const char *order, const char *behindWait) {
      return std::string(read.buffers) + "\nif program_id(0) == 0 {\n" + kWrites[0] + behindWrite +
             R"(
    let before = atomic_xchg(flag, 1, order = "release");
  } else {
    var seen = 0;
    while seen == 0 { seen = atomic_add(flag, 0, order = ")" +
             order + "\"); }\n" + behindWait + read.fetch + "\n}";
    };
    // An atomic that acquires comes with a fence where some unit reaches global memory.
    checkRight(body("", "acquire", ""), 2);
    checkRight(body(kFence, "acquire", ""), 2);
    checkRight(body("", "acquire", kFence), 2);
    // The fence makes visible what is known, and nothing is.
    if (onSimulator()) CHECK(said(body("", "relaxed", kFence), 2).find("race: ") != std::string::npos);
  }
}

TEST_CASE("global fence: what a unit has written needs none") {
  checkRight(R"(
  let (box, other, full) = (local_alloc([8, 16], i32), local_alloc([8, 16], i32), alloc_barriers(1));
  let number = arange(0, 8)[:, None] * 16 + arange(0, 16)[None, :];
  local_store(box, number * 3 + 1);
  async_descriptor_store(there, box, [0, 0]);
  async_descriptor_store_wait(0);
  barrier_expect_bytes(full[0], 512);
  async_descriptor_load(there, other, [0, 0], full[0]);
  barrier_wait(full[0], 0);
  store(out + number, local_load(other));)");
}

TEST_CASE("global fence: no load of a pipeline runs past it") {
  const std::string loop = R"(
  let number = arange(0, 8)[:, None] * 16 + arange(0, 16)[None, :];
  var sum = zeros([8, 16], i32);
  for s in range(0, 4, num_stages = 3) {
    store(scratch + number, number * (s + 1));
    fence("async_global");
    sum += there.load([0, 0]);
  }
  store(out + number, sum - number * 7 + 1);)"; // 1 + 2 + 3 + 4 = 7 + 3
  checkRight(loop);
}

TEST_CASE("global fence: targets without such units refuse it") {
  std::string problem;
  try {
    compileText("kernel k() launch(num_warps = 4) { fence(\"async_global\"); }", {"k.tlx", "k", {}, {}}, "sm_80");
  } catch (const std::exception &e) {
    problem = e.what();
  }
  CHECK(problem.find("fence needs an asynchronous proxy, which sm_80 has not") != std::string::npos);
}
