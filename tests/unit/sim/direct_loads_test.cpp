// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// gfx950: loads straight into LDS. A ring of three slots is right in every schedule; each wait that is taken away or weakened is a finding
// in every one.
#include <doctest/doctest.h>

#include "sim_test.h"

using namespace sim_test;

namespace {
/// Two waves; each loads its 1024 bytes of a slot two steps ahead and reads the other wave's.
std::string ring(const std::string &loads, const std::string &reads, const std::string &barrier,
                 const std::string &last) {
  return R"((ptr addrspace(1) %x, ptr addrspace(1) %out, i32 %steps) {
entry:
  %t = call i32 @tlx.amd.workitem.id.x()
  %w0 = lshr i32 %t, 6
  %w = call i32 @tlx.amd.readfirstlane(i32 %w0)
  %s = call ptr addrspace(3) @tlx.smem.base()
  %wo = shl i32 %w, 10
  %off = shl i32 %t, 4
  %d0 = getelementptr i8, ptr addrspace(3) %s, i32 %wo
  call void @tlx.amd.buffer.load.lds.b128(ptr addrspace(3) %d0, ptr addrspace(1) %x, i32 %off, i1 true)
  %d1 = getelementptr i8, ptr addrspace(3) %d0, i32 2048
  %x1 = getelementptr i8, ptr addrspace(1) %x, i32 2048
  %two = icmp sgt i32 %steps, 1
  call void @tlx.amd.buffer.load.lds.b128(ptr addrspace(3) %d1, ptr addrspace(1) %x1, i32 %off, i1 %two)
  br label %loop
loop:
  %k = phi i32 [ 0, %entry ], [ %k1, %loop ]
  %acc = phi i32 [ 0, %entry ], [ %acc2, %loop ]
  %slot = phi i32 [ 0, %entry ], [ %slot1, %loop ]
  %free = phi i32 [ 4096, %entry ], [ %free1, %loop ]
)" + loads +
         "\n  call void @tlx.amd.sched.barrier()\n" + reads + "\n" + barrier +
         "\n  call void @tlx.amd.sched.barrier()\n" + R"(
  %k2 = add i32 %k, 2
  %on = icmp slt i32 %k2, %steps
  %dk = getelementptr i8, ptr addrspace(3) %d0, i32 %free
  %xo = mul i32 %k2, 2048
  %xk = getelementptr i8, ptr addrspace(1) %x, i32 %xo
  call void @tlx.amd.buffer.load.lds.b128(ptr addrspace(3) %dk, ptr addrspace(1) %xk, i32 %off, i1 %on)
  %other = xor i32 %off, 1024
  %from = add i32 %other, %slot
  %p = getelementptr i8, ptr addrspace(3) %s, i32 %from
  %v = load <4 x i32>, ptr addrspace(3) %p, align 16
  %v0 = extractelement <4 x i32> %v, i32 0
  %v3 = extractelement <4 x i32> %v, i32 3
  %acc1 = add i32 %acc, %v0
  %acc2 = add i32 %acc1, %v3
  %k1 = add i32 %k, 1
  %slotN = add i32 %slot, 2048
  %slotEnd = icmp eq i32 %slotN, 6144
  %slot1 = select i1 %slotEnd, i32 0, i32 %slotN
  %freeN = add i32 %free, 2048
  %freeEnd = icmp eq i32 %freeN, 6144
  %free1 = select i1 %freeEnd, i32 0, i32 %freeN
  %more = icmp slt i32 %k1, %steps
  br i1 %more, label %loop, label %end
end:
)" + last +
         R"(
  %po = getelementptr i32, ptr addrspace(1) %out, i32 %t
  store i32 %acc2, ptr addrspace(1) %po, align 4
  ret void
})";
}
std::string waitcnt(int vm, int lgkm) {
  return "  call void @tlx.amd.s.waitcnt(i32 " + std::to_string(vm) + ", i32 " + std::to_string(lgkm) + ")";
}
const std::string kBarrier = "  call void @tlx.amd.s.barrier()", kLoads = waitcnt(1, 15), kReads = waitcnt(63, 0),
                  kLast = waitcnt(0, 15);
} // namespace

TEST_CASE("direct loads: a ring is right under every schedule, and without a wait a finding in every one") {
  auto load = [](const std::string &text) { return program(text, "gfx950", 128, 6144); };
  auto right = load(ring(kLoads, kReads, kBarrier, kLast));
  // A fence waits for loads as well (as LLVM makes it).
  auto fenced = load(
      ring("", "  call void @tlx.amd.fence.release()", kBarrier + "\n  call void @tlx.amd.fence.acquire()", kLast));
  struct Mutation {
    const char *what;
    std::unique_ptr<Program> program;
    FindingKind kind;
  };
  std::vector<Mutation> mutations;
  mutations.push_back({"no wait for loads", load(ring("", kReads, kBarrier, kLast)), FindingKind::InFlight});
  mutations.push_back(
      {"one load too many in flight", load(ring(waitcnt(2, 15), kReads, kBarrier, kLast)), FindingKind::InFlight});
  mutations.push_back({"no wait for reads", load(ring(kLoads, "", kBarrier, kLast)), FindingKind::SlotOverrun});
  mutations.push_back(
      {"a wait for some reads", load(ring(kLoads, waitcnt(63, 1), kBarrier, kLast)), FindingKind::SlotOverrun});
  mutations.push_back({"loads in flight at the end", load(ring(kLoads, kReads, kBarrier, "")), FindingKind::InFlight});
  auto apart = load(ring(kLoads, kReads, "", kLast));
  forEachSchedule([&](LaunchConfig &config) {
    for (const Program *p : {right.get(), fenced.get()}) {
      auto result = runRing(*p, config, [](unsigned t) { return t ^ 64; });
      CHECK_MESSAGE(result.ok(), text(result));
    }
    for (const Mutation &m : mutations) {
      CAPTURE(m.what);
      CHECK(has(runRing(*m.program, config), m.kind));
    }
    CHECK_FALSE(runRing(*apart, config).ok()); // no barrier
  });
}

TEST_CASE("direct loads: sizes, zeros, and operands that the unit does not take") {
  auto kernel = [](const std::string &size, const std::string &start, const std::string &base) {
    return R"((ptr addrspace(1) %x, ptr addrspace(1) %out, i32 %offset, i32 %lanes) {
  %t = call i32 @tlx.amd.workitem.id.x()
  %s = call ptr addrspace(3) @tlx.smem.base()
  %l = mul i32 %t, )" +
           size + R"(
  %o = add i32 %l, %offset
  %on = icmp slt i32 %t, %lanes
  %d = getelementptr i8, ptr addrspace(3) %s, i32 )" +
           start + R"(
  %b = getelementptr i8, ptr addrspace(1) %x, i32 )" +
           base + R"(
  call void @tlx.amd.buffer.load.lds.b)" +
           (size == "4" ? "32" : "128") + R"((ptr addrspace(3) %d, ptr addrspace(1) %b, i32 %o, i1 %on)
  call void @tlx.amd.s.waitcnt(i32 0, i32 15)
  %p = getelementptr i8, ptr addrspace(3) %s, i32 %l
  %v = load i32, ptr addrspace(3) %p, align 4
  %q = getelementptr i32, ptr addrspace(1) %out, i32 %t
  store i32 %v, ptr addrspace(1) %q, align 4
  ret void
})";
  };
  std::vector<int> x(256);
  for (int i = 0; i < 256; ++i) x[size_t(i)] = i + 1;
  auto run = [&](const Program &p, int offset, int lanes, std::vector<int> *got) {
    Memory memory;
    int *dx = upload(memory, x), *out = static_cast<int *>(memory.allocate(256));
    auto result = launch(p, {}, params(dx, out, offset, lanes), memory);
    if (got) *got = download(memory, out, 64);
    return result;
  };
  for (const char *size : {"4", "16"}) {
    CAPTURE(std::string(size));
    auto p = program(kernel(size, "0", "0"), "gfx950", 64, 1024);
    std::vector<int> got;
    auto result = run(*p, 0, 60, &got);
    CHECK_MESSAGE(result.ok(), text(result));
    for (int l = 0; l < 64; ++l) CHECK(got[size_t(l)] == (l < 60 ? l * atoi(size) / 4 + 1 : 0));
    // One element past the end, by the last lane only; masked off it is none.
    const int shift = size == std::string("4") ? 772 : 4;
    CHECK(has(run(*p, shift, 64, nullptr), FindingKind::OutOfBounds));
    CHECK(run(*p, shift, 63, nullptr).ok());
    CHECK(has(run(*p, 2, 60, nullptr), FindingKind::Misaligned));
    CHECK(has(run(*p, -1024, 64, nullptr), FindingKind::InvalidOperation)); // behind the buffer's end
  }
  auto lds = program(kernel("16", "512", "0"), "gfx950", 64, 1024);
  CHECK(has(run(*lds, 0, 64, nullptr), FindingKind::OutOfBounds));
  auto starts = program(kernel("4", "%l", "0"), "gfx950", 64, 4096);
  CHECK(has(run(*starts, 0, 64, nullptr), FindingKind::InvalidOperation));
  auto bases = program(kernel("4", "0", "%l"), "gfx950", 64, 4096);
  CHECK(has(run(*bases, 0, 16, nullptr), FindingKind::InvalidOperation));
}
