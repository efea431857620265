// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What depends on order: asynchronous copies, barriers, fences, deadlock, spin-waits, determinism.
#include <doctest/doctest.h>

#include "sim_test.h"

using namespace sim_test;

namespace {
/// A ring of 3 stages of 64 threads · 16 bytes: each thread copies its part of step k, and adds what its neighbour
/// copied.
std::string ring(const std::string &wait) {
  auto issue = [](const std::string &n, const std::string &k) {
    return "  %slot" + n + " = urem i32 " + k + ", 3\n  %so" + n + " = mul i32 %slot" + n + ", 1024\n  %do" + n +
           " = add i32 %so" + n + ", %t16\n  %d" + n + " = getelementptr i8, ptr addrspace(3) %s, i32 %do" + n +
           "\n  %xo" + n + " = mul i32 " + k + ", 1024\n  %xi" + n + " = add i32 %xo" + n + ", %t16\n  %x64" + n +
           " = sext i32 %xi" + n + " to i64\n  %p" + n + " = getelementptr i8, ptr addrspace(1) %x, i64 %x64" + n +
           "\n  %in" + n + " = icmp slt i32 " + k + ", %steps\n  %by" + n + " = select i1 %in" + n +
           ", i32 16, i32 0\n  call void @tlx.nv.cp.async.cg.16(ptr addrspace(3) %d" + n + ", ptr addrspace(1) %p" + n +
           ", i32 %by" + n + ")\n  call void @tlx.nv.cp.async.commit()\n";
  };
  return R"((ptr addrspace(1) %x, ptr addrspace(1) %out, i32 %steps) {
entry:
  %t = call i32 @tlx.nv.tid.x()
  %s = call ptr addrspace(3) @tlx.smem.base()
  %t16 = shl i32 %t, 4
  %n0 = add i32 %t, 33
  %n1 = and i32 %n0, 63
  %n16 = shl i32 %n1, 4
)" + issue("a", "0") +
         issue("b", "1") + R"(  br label %loop
loop:
  %k = phi i32 [ 0, %entry ], [ %k1, %loop ]
  %acc = phi i32 [ 0, %entry ], [ %acc1, %loop ]
  )" + wait +
         R"(
  call void @tlx.nv.bar.sync(i32 0, i32 64)
  %k2 = add i32 %k, 2
)" + issue("c", "%k2") +
         R"(  %rs = urem i32 %k, 3
  %ro = mul i32 %rs, 1024
  %ra = add i32 %ro, %n16
  %r = getelementptr i8, ptr addrspace(3) %s, i32 %ra
  %v = load <4 x i32>, ptr addrspace(3) %r, align 16
  %e0 = extractelement <4 x i32> %v, i32 0
  %e3 = extractelement <4 x i32> %v, i32 3
  %a0 = add i32 %acc, %e0
  %acc1 = add i32 %a0, %e3
  %k1 = add i32 %k, 1
  %more = icmp slt i32 %k1, %steps
  br i1 %more, label %loop, label %done
done:
  %po = getelementptr i32, ptr addrspace(1) %out, i32 %t
  store i32 %acc1, ptr addrspace(1) %po, align 4
  ret void
})";
}

} // namespace

TEST_CASE("a cp.async ring is right under every schedule, and without its wait a finding in every one") {
  auto right = program(ring("call void @tlx.nv.cp.async.wait(i32 1)"), "sm_80", 64, 3072);
  auto none = program(ring(""), "sm_80", 64, 3072);
  auto late = program(ring("call void @tlx.nv.cp.async.wait(i32 2)"), "sm_80", 64, 3072);
  forEachSchedule([&](LaunchConfig &config) {
    auto result = runRing(*right, config, [](unsigned t) { return (t + 33) % 64; });
    CHECK_MESSAGE(result.ok(), text(result));
    CHECK(has(runRing(*none, config), FindingKind::InFlight));
    CHECK(has(runRing(*late, config), FindingKind::InFlight));
  });
}

TEST_CASE("cp.async fills with zeros and checks its operands") {
  const std::string kernel = R"((ptr addrspace(1) %x, ptr addrspace(1) %out, i32 %bytes) {
  %s = call ptr addrspace(3) @tlx.smem.base()
  call void @tlx.nv.cp.async.ca.8(ptr addrspace(3) %s, ptr addrspace(1) %x, i32 %bytes)
  call void @tlx.nv.cp.async.commit()
  call void @tlx.nv.cp.async.wait(i32 0)
  %v = load i64, ptr addrspace(3) %s, align 8
  store i64 %v, ptr addrspace(1) %out, align 8
  ret void
})";
  auto p = program(kernel, "sm_80", 32, 16);
  auto run = [&](int bytes, uint64_t &value) {
    Memory memory;
    auto *x = upload(memory, std::vector<uint32_t>{0x11111111});
    auto *out = static_cast<uint64_t *>(memory.allocate(8));
    auto result = launch(*p, {}, params(x, out, bytes), memory);
    value = download(memory, out, 1)[0];
    return result;
  };
  // All 32 threads write the same 8 bytes here, which the ring above does not: one at a time is in flight in this
  // schedule.
  uint64_t value;
  CHECK(run(4, value).ok());
  CHECK(value == 0x11111111);
  CHECK(run(0, value).ok());
  CHECK(value == 0);
  CHECK(has(run(8, value), FindingKind::OutOfBounds));
  CHECK(has(run(9, value), FindingKind::InvalidOperation));
}

namespace {
/// 128 threads of gfx942 write LDS and read what the other wave wrote.
std::string exchange(bool release, bool barrier, bool acquire) {
  return std::string(R"((ptr addrspace(1) %out) {
  %t = call i32 @tlx.amd.workitem.id.x()
  %s = call ptr addrspace(3) @tlx.smem.base()
  %p = getelementptr i32, ptr addrspace(3) %s, i32 %t
  store i32 %t, ptr addrspace(3) %p, align 4
)") + (release ? "  call void @tlx.amd.fence.release()\n" : "") +
         (barrier ? "  call void @tlx.amd.s.barrier()\n" : "") +
         (acquire ? "  call void @tlx.amd.fence.acquire()\n" : "") + R"(
  %o = xor i32 %t, 64
  %q = getelementptr i32, ptr addrspace(3) %s, i32 %o
  %v = load i32, ptr addrspace(3) %q, align 4
  %g = getelementptr i32, ptr addrspace(1) %out, i32 %t
  store i32 %v, ptr addrspace(1) %g, align 4
  ret void
})";
}
LaunchResult runKernel(const Program &p, Schedule schedule = Schedule::InOrder, uint64_t maxSteps = 0) {
  Memory memory;
  auto *out = static_cast<int *>(memory.allocate(4096));
  memory.fill(out, 0, 4096);
  LaunchConfig config;
  config.schedule = schedule;
  config.seed = 5;
  if (maxSteps) config.maxSteps = maxSteps;
  return launch(p, config, params(out), memory);
}
/// Threads for which the condition holds run `yes`, the fourth instruction, and end, the others run `other`.
std::string branch(const std::string &condition, const std::string &yes, const std::string &other) {
  return R"((ptr addrspace(1) %out) {
  %t = call i32 @tlx.nv.tid.x()
  %c = icmp )" +
         condition + R"(
  br i1 %c, label %yes, label %no
yes:
  )" + yes +
         R"(
  ret void
no:
  )" + other +
         R"(
  ret void
})";
}
} // namespace

TEST_CASE("AMD: LDS crosses waves by release, barrier, acquire") {
  auto run = [](bool release, bool barrier, bool acquire, Schedule schedule) {
    return runKernel(*program(exchange(release, barrier, acquire), "gfx942", 128, 512), schedule);
  };
  for (Schedule schedule : kSchedules) {
    CHECK_MESSAGE(run(true, true, true, schedule).ok(), text(run(true, true, true, schedule)));
    CHECK(has(run(false, true, true, schedule), FindingKind::MissingFence));
    CHECK(has(run(true, true, false, schedule), FindingKind::MissingFence));
    auto none = run(false, false, false, schedule); // the one that runs first reads what nobody has written
    CHECK((has(none, FindingKind::MissingFence) || has(none, FindingKind::UninitializedRead)));
  }
}

TEST_CASE("deadlock, part of a warp at a barrier, counts that differ") {
  auto kernel = [](const std::string &condition, const std::string &other) {
    return branch(condition, "call void @tlx.nv.bar.sync(i32 1, i32 64)", other);
  };
  for (Schedule schedule : kSchedules) {
    auto missing = runKernel(*program(kernel("slt i32 %t, 32", ""), "sm_80", 64), schedule);
    REQUIRE(missing.findings.size() == 1);
    CHECK(missing.findings[0].kind == FindingKind::Deadlock);
    CHECK(missing.findings[0].message.find("warp 0 at tlx.nv.bar.sync (k.tlx:4:1), 32 of 64 threads have arrived") !=
          std::string::npos);
    auto part = runKernel(*program(kernel("slt i32 %t, 48", ""), "sm_80", 64), schedule);
    REQUIRE(part.findings.size() == 1);
    CHECK(part.findings[0].kind == FindingKind::PartialWarpBarrier);
    CHECK(part.findings[0].message.find("lanes 0-15 at") != std::string::npos);
    CHECK(part.findings[0].message.find("lanes 16-31 exited") != std::string::npos);
    // 64 of 96 threads, half of them from each of two warps and one whole.
    auto passed = runKernel(*program(kernel("ult i32 %t, 64", ""), "sm_80", 96), schedule);
    CHECK_MESSAGE(passed.ok(), text(passed));
    auto counts = runKernel(
        *program(kernel("slt i32 %t, 32", "call void @tlx.nv.bar.sync(i32 1, i32 32)"), "sm_80", 64), schedule);
    CHECK((has(counts, FindingKind::BarrierMismatch) || has(counts, FindingKind::Deadlock)));
    auto odd = runKernel(*program(kernel("slt i32 %t, 32", "call void @tlx.nv.bar.sync(i32 1, i32 40)"), "sm_80", 64),
                         schedule);
    CHECK(has(odd, FindingKind::BarrierMismatch));
  }
}

TEST_CASE("lanes that meet at different collectives, or not at all") {
  auto kernel = [](const std::string &other) {
    return branch("slt i32 %t, 20", "%a = call i32 @tlx.nv.shfl.bfly(i32 -1, i32 %t, i32 1)", other);
  };
  for (Schedule schedule : kSchedules) {
    auto different = runKernel(*program(kernel("%b = call i32 @tlx.nv.shfl.bfly(i32 -1, i32 %t, i32 1)")), schedule);
    REQUIRE(has(different, FindingKind::MismatchedCollective));
    const std::string &message = find(different, FindingKind::MismatchedCollective)->message;
    CHECK(message.find("k.tlx:4:1") != std::string::npos);
    CHECK(message.find("k.tlx:6:1") != std::string::npos);
    auto exited = runKernel(*program(kernel("")), schedule);
    REQUIRE(has(exited, FindingKind::MismatchedCollective));
    CHECK(find(exited, FindingKind::MismatchedCollective)->message.find("lanes 20-31 exited") != std::string::npos);
    CHECK(find(exited, FindingKind::MismatchedCollective)->message.find("lanes 0-19 at tlx.nv.shfl.bfly (k.tlx:4:1)") !=
          std::string::npos);
  }
}

TEST_CASE("an endless loop is a finding that names its line") {
  auto p = program(R"((ptr addrspace(1) %out) {
entry:
  %t = call i32 @tlx.nv.tid.x()
  br label %loop
loop:
  %k = phi i32 [ 0, %entry ], [ %k1, %loop ]
  %k1 = add i32 %k, 1
  br label %loop
})");
  for (Schedule schedule : kSchedules) {
    auto result = runKernel(*p, schedule, 100000);
    CHECK(!result.completed);
    REQUIRE(result.findings.size() == 1);
    CHECK(result.findings[0].kind == FindingKind::EndlessLoop);
    CHECK(result.findings[0].line == 5);
  }
}

TEST_CASE("spin-waits end: a flag set by a later CTA, and a barrier of the whole grid") {
  auto flag = program(R"((ptr addrspace(1) %out) {
  %c = call i32 @tlx.nv.ctaid.x()
  %last = icmp eq i32 %c, 7
  br i1 %last, label %set, label %wait
wait:
  %v = load volatile i32, ptr addrspace(1) %out, align 4
  %set1 = icmp ne i32 %v, 0
  br i1 %set1, label %done, label %wait
set:
  store i32 1, ptr addrspace(1) %out, align 4
  br label %done
done:
  ret void
})");
  auto grid = program(R"((ptr addrspace(1) %out) {
  %t = call i32 @tlx.nv.tid.x()
  %first = icmp eq i32 %t, 0
  br i1 %first, label %arrive, label %meet
arrive:
  %old = atomicrmw add ptr addrspace(1) %out, i32 1 seq_cst, align 4
  br label %spin
spin:
  %v = load volatile i32, ptr addrspace(1) %out, align 4
  %all = icmp eq i32 %v, 8
  br i1 %all, label %meet, label %spin
meet:
  call void @tlx.nv.bar.sync(i32 0, i32 64)
  ret void
})",
                      "sm_80", 64);
  for (auto *p : {flag.get(), grid.get()})
    for (Schedule schedule : kSchedules) {
      Memory memory;
      auto *out = upload(memory, std::vector<int>(1, 0));
      LaunchConfig config;
      config.grid[0] = 8;
      config.schedule = schedule;
      config.maxResidentCtas = 1;
      auto result = launch(*p, config, params(out), memory);
      CHECK_MESSAGE(result.ok(), text(result));
    }
}

TEST_CASE("the same seed gives the same result") {
  // The order of atomics decides who gets which ticket.
  auto p = program(R"((ptr addrspace(1) %out) {
  %t = call i32 @tlx.nv.tid.x()
  %ticket = atomicrmw add ptr addrspace(1) %out, i32 1 monotonic, align 4
  %i = add i32 %ticket, 1
  %p = getelementptr i32, ptr addrspace(1) %out, i32 %i
  store i32 %t, ptr addrspace(1) %p, align 4
  ret void
})",
                   "sm_80", 128);
  auto run = [&](uint64_t seed) {
    Memory memory;
    auto *out = static_cast<int *>(memory.allocate(129 * 4));
    memory.fill(out, 0, 129 * 4);
    LaunchConfig config;
    config.schedule = Schedule::Random;
    config.seed = seed;
    CHECK(launch(*p, config, params(out), memory).ok());
    return download(memory, out, 129);
  };
  CHECK(run(1) == run(1));
  CHECK(run(2) == run(2));
  CHECK(run(1) != run(2));
}
