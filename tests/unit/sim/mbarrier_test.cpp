// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <doctest/doctest.h>

#include "hopper_test.h"

using namespace sim_test;

namespace {
LaunchResult run(const std::string &kernel, LaunchConfig config = {}, unsigned threads = 32, unsigned shared = 64,
                 const char *target = "sm_90a") {
  auto p = program(kernel, target, threads, shared);
  Memory memory;
  auto *out = static_cast<int *>(memory.allocate(4096));
  memory.fill(out, 0, 4096);
  return launch(*p, config, params(out), memory);
}
const std::string kOut = "ptr addrspace(1) %out";
const std::string kInit = initBarrier("s", 2);
const std::string kInval = "  call void @tlx.nv.mbarrier.inval(ptr addrspace(3) %s)\n";
std::string arrive(unsigned count) {
  return "  call void @tlx.nv.mbarrier.arrive(ptr addrspace(3) %s, i32 " + std::to_string(count) + ")\n";
}
std::string expect(int bytes) {
  return "  call void @tlx.nv.mbarrier.expect.tx(ptr addrspace(3) %s, i32 " + std::to_string(bytes) + ")\n";
}
} // namespace

TEST_CASE("parameters by value are addresses in the aligned buffer") {
  auto p = program(R"((i8 %before, ptr byval([128 x i8]) align 64 %map, i32 %after, ptr addrspace(1) %out) {
  %q = getelementptr i8, ptr %map, i32 127
  %v = load i8, ptr %q, align 1
  %w = zext i8 %v to i32
  %a = ptrtoint ptr %map to i64
  %low = and i64 %a, 63
  %l = trunc i64 %low to i32
  %b = zext i8 %before to i32
  %r0 = shl i32 %w, 8
  %r1 = or i32 %r0, %l
  %r2 = add i32 %r1, %after
  %r3 = add i32 %r2, %b
  store i32 %r3, ptr addrspace(1) %out, align 4
  ret void
})",
                   "sm_90a");
  CHECK(p->paramBytes() == 64 + 128 + 8 + 8);
  Memory memory;
  auto *out = static_cast<int *>(memory.allocate(4));
  MapArgument map;
  map.bytes[127] = 0x5a;
  auto result = launch(*p, {}, params(uint8_t(7), map, 0x10000, out), memory);
  CHECK_MESSAGE(result.ok(), text(result));
  CHECK(download(memory, out, 1)[0] == 0x15a00 + 7);
}

namespace {
/// Warp 0 hands a number a step to warp 1 through a slot, each waits for the other: full at 0 (32 arrivals), empty at 8
/// (32 arrivals).
std::string handshake(const std::string &emptyParity) {
  return "(" + kOut + ") {\n" + kEntry + sharedAt("empty", 8) + R"(  %l = and i32 %t, 31
  %lo = shl i32 %l, 2
  %so = add i32 %lo, 64
  %slot = getelementptr i8, ptr addrspace(3) %s, i32 %so
  %w = lshr i32 %t, 5
)" + inFirstThread(initBarrier("s", 32) + initBarrier("empty", 32) + "  call void @tlx.nv.fence.mbarrier.init()\n") +
         barSync(64) + R"(  %produces = icmp eq i32 %w, 0
  br i1 %produces, label %p, label %c
p:
  %k = phi i32 [ 0, %all ], [ %k1, %putdone ]
  %par = and i32 %k, 1
  %ep = )" +
         emptyParity + "\n" + waitFor("empty", "%ep", "put") +
         R"(  %x0 = mul i32 %k, 100
  %x = add i32 %x0, %l
  store i32 %x, ptr addrspace(3) %slot, align 4
  call void @tlx.nv.mbarrier.arrive(ptr addrspace(3) %s, i32 1)
  %k1 = add i32 %k, 1
  %more = icmp slt i32 %k1, 5
  br i1 %more, label %p, label %end
)" +
         summingConsumer("all", sharedAt("cfull", 0) + sharedAt("cempty", 8) + "  %cpar = and i32 %i, 1\n",
                         "  %v = load i32, ptr addrspace(3) %slot, align 4\n", 5, "%l");
}
} // namespace

TEST_CASE(
    "mbarriers hand values from warp to warp under every schedule; waits do not use up the budget of back-edges") {
  auto p = program(handshake("xor i32 %par, 1"), "sm_90a", 64, 256);
  auto wrong = program(handshake("or i32 %par, 0"), "sm_90a", 64, 256); // a fresh barrier does not pass parity 0
  forEachSchedule([&](LaunchConfig &config) {
    Memory memory;
    auto *out = static_cast<int *>(memory.allocate(128));
    config.maxSteps = 64 * 12;
    auto result = launch(*p, config, params(out), memory);
    CHECK_MESSAGE(result.ok(), text(result));
    auto got = download(memory, out, 32);
    for (int l = 0; l < 32; ++l) {
      int sum = 0;
      for (int k = 0; k < 5; ++k) sum = 3 * sum + 100 * k + l;
      REQUIRE(got[size_t(l)] == sum);
    }
    auto stuck = launch(*wrong, config, params(out), memory);
    CHECK(!stuck.completed);
    checkFinding(stuck, FindingKind::Deadlock, "the mbarrier at shared offset 8 in phase 0: 0 of 32 arrivals made");
    CHECK(find(stuck, FindingKind::Deadlock)->message.find("tlx.nv.mbarrier.try.wait (k.tlx:") != std::string::npos);
    CHECK(find(stuck, FindingKind::Deadlock)
              ->message.find("the mbarrier at shared offset 0 in phase 0: 0 of 32 arrivals made") != std::string::npos);
  });
}

TEST_CASE("test.wait answers at once, and a loop of it ends") {
  auto p = program("(" + kOut + ") {\n" + kEntry +
                       inFirstThread(initBarrier("s", 1) +
                                     R"(  %no = call i1 @tlx.nv.mbarrier.test.wait(ptr addrspace(3) %s, i32 0)
  %yes = call i1 @tlx.nv.mbarrier.test.wait(ptr addrspace(3) %s, i32 1)
  %a = select i1 %no, i32 1, i32 0
  %b = select i1 %yes, i32 2, i32 0
  %c = or i32 %a, %b
  store i32 %c, ptr addrspace(1) %out, align 4
)") + barSync(64) + R"(  %last = icmp eq i32 %t, 63
  br i1 %last, label %set, label %spin
set:
  call void @tlx.nv.mbarrier.arrive(ptr addrspace(3) %s, i32 1)
  br label %spin
spin:
  %ok = call i1 @tlx.nv.mbarrier.test.wait(ptr addrspace(3) %s, i32 0)
  br i1 %ok, label %end, label %spin
end:
  ret void
})",
                   "sm_90a", 64, 16);
  forEachSchedule([&](LaunchConfig &config) {
    Memory memory;
    auto *out = static_cast<int *>(memory.allocate(4));
    auto result = launch(*p, config, params(out), memory);
    CHECK_MESSAGE(result.ok(), text(result));
    CHECK(download(memory, out, 1)[0] == 2);
  });
}

TEST_CASE("misuse of an mbarrier is a finding") {
  struct Case {
    FindingKind kind;
    std::string body, message;
  };
  const Case cases[] = {
      {FindingKind::MbarrierMisuse, arrive(1),
       "arrival at shared offset 0, where there is no mbarrier: it was not initialized"},
      {FindingKind::MbarrierMisuse, kInit + kInval + expect(16),
       "expectation at shared offset 0, where there is no mbarrier"},
      {FindingKind::MbarrierMisuse, "  call i1 @tlx.nv.mbarrier.try.wait(ptr addrspace(3) %s, i32 0)\n",
       "wait at shared offset 0, where"},
      {FindingKind::MbarrierMisuse, kInval, "tlx.nv.mbarrier.inval of shared offset 0, where"},
      {FindingKind::MbarrierMisuse, kInit + kInit,
       "the mbarrier at shared offset 0 is initialized again without tlx.nv.mbarrier.inval; first at "
       "tlx.nv.mbarrier.init (k.tlx:5:1)"},
      {FindingKind::MbarrierMisuse, kInit + arrive(1) + arrive(2),
       "2 arrivals at the mbarrier at shared offset 0, phase 0, which has 1 of 2 left"},
      {FindingKind::MbarrierMisuse, kInit + "  %v = load i32, ptr addrspace(3) %s, align 4\n",
       "read of 4 bytes at shared offset 0 touches an mbarrier"},
      {FindingKind::MbarrierMisuse, kInit + "  store i64 0, ptr addrspace(3) %s, align 8\n",
       "write of 8 bytes at shared offset 0 touches an mbarrier"},
      {FindingKind::InvalidOperation, initBarrier("s", 0), "an mbarrier for 0 arrivals: there are 1 to 1048575"},
      {FindingKind::InvalidOperation, kInit + arrive(0),
       "an arrival of count 0 at an mbarrier: there are 1 to 1048575"},
      {FindingKind::InvalidOperation, kInit + "  call i1 @tlx.nv.mbarrier.try.wait(ptr addrspace(3) %s, i32 2)\n",
       "a wait for parity 2: there are 0 and 1"},
      {FindingKind::Misaligned, sharedAt("b", 4) + initBarrier("b", 1),
       "misaligned: mbarrier at shared offset 4 needs an alignment of 8"},
      {FindingKind::OutOfBounds, sharedAt("b", 64) + initBarrier("b", 1),
       "out of bounds: mbarrier of 8 bytes at shared offset 64 of 64 bytes"},
      {FindingKind::WrongBytes, kInit + expect(64),
       "wrong bytes: the mbarrier at shared offset 0 in phase 0: 0 of 2 arrivals made, 64 bytes expected have not "
       "arrived"},
      {FindingKind::WrongBytes, kInit + expect(1) + kInval, "1 byte expected have not arrived"},
      {FindingKind::WrongBytes, kInit + expect(1048575) + expect(1),
       "wrong bytes: the transaction count of the mbarrier at shared offset 0 becomes 1048576, beyond 1048575"},
  };
  for (const Case &c : cases) {
    CAPTURE(c.body);
    forEachSchedule(
        [&](LaunchConfig &config) { checkFinding(run(oneThread(kOut, c.body), config), c.kind, c.message); });
  }
  // The same, done right.
  auto right = run(oneThread(kOut, kInit + arrive(1) + arrive(1) + arrive(2) + kInval + kInit + kInval +
                                       "  store i64 0, ptr addrspace(3) %s, align 8\n"));
  CHECK_MESSAGE(right.ok(), text(right));
  checkFinding(run(oneThread(kOut, kInit), {}, 32, 64, "sm_80"), FindingKind::InvalidOperation,
               "this target has no mbarriers");
}

TEST_CASE("an mbarrier must not be invalidated while threads wait for it") {
  // Thread 0 lets the others have their turn before it goes on.
  const std::string kernel = "(" + kOut + ") {\n" + kEntry + inFirstThread(kInit) + barSync(32) +
                             R"(  br i1 %first, label %busy, label %waits
busy:
  %k = phi i32 [ 0, %all ], [ %k1, %busy ]
  %k1 = add i32 %k, 1
  %more = icmp slt i32 %k1, 5000
  br i1 %more, label %busy, label %inval
inval:
)" + kInval + "  ret void\nwaits:\n" +
                             waitFor("s", "0", "w") + "  ret void\n}";
  forEachSchedule([&](LaunchConfig &config) {
    checkFinding(run(kernel, config), FindingKind::MbarrierMisuse,
                 "the mbarrier at shared offset 0 is invalidated while threads wait for it");
  });
}

TEST_CASE("a deadlock at an mbarrier names arrivals and bytes that are missing, also where the rest of the warp waits "
          "elsewhere") {
  const std::string kernel = oneThread(
      kOut,
      kInit + "  call void @tlx.nv.mbarrier.arrive.expect.tx(ptr addrspace(3) %s, i32 512)\n" + waitFor("s", "0", "w"),
      "  call void @tlx.nv.bar.warp.sync(i32 -1)\n");
  forEachSchedule([&](LaunchConfig &config) {
    auto result = run(kernel, config);
    CHECK(!result.completed);
    checkFinding(result, FindingKind::Deadlock,
                 "lane 0 at tlx.nv.mbarrier.try.wait (k.tlx:8:1), the mbarrier at shared offset 0 in phase 0: 1 of 2 "
                 "arrivals made, "
                 "512 bytes expected have not arrived");
    checkFinding(result, FindingKind::WrongBytes, "512 bytes expected have not arrived");
    CHECK(result.findings.size() == 2);
    CHECK(result.findings[0].line == 8);
  });
}

TEST_CASE("bar.arrive counts without waiting") {
  // Warp 0 arrives and goes on, warp 1 waits for it.
  auto kernel = [](const std::string &first, const std::string &count) {
    return "(" + kOut + ") {\n" + kEntry + R"(  %c = icmp slt i32 %t, 32
  br i1 %c, label %give, label %take
give:
  %p = getelementptr i32, ptr addrspace(3) %s, i32 %t
  store i32 %t, ptr addrspace(3) %p, align 4
  )" + first +
           R"(
  ret void
take:
  call void @tlx.nv.bar.sync(i32 3, i32 )" +
           count + R"()
  %u = sub i32 %t, 32
  %q = getelementptr i32, ptr addrspace(3) %s, i32 %u
  %v = load i32, ptr addrspace(3) %q, align 4
  %o = getelementptr i32, ptr addrspace(1) %out, i32 %u
  store i32 %v, ptr addrspace(1) %o, align 4
  ret void
})";
  };
  const std::string arriveOnce = "call void @tlx.nv.bar.arrive(i32 3, i32 64)\n";
  auto p = program(kernel(arriveOnce, "64"), "sm_90a", 64, 128);
  forEachSchedule([&](LaunchConfig &config) {
    Memory memory;
    auto *out = static_cast<int *>(memory.allocate(128));
    auto result = launch(*p, config, params(out), memory);
    CHECK_MESSAGE(result.ok(), text(result));
    auto got = download(memory, out, 32);
    for (int i = 0; i < 32; ++i) REQUIRE(got[size_t(i)] == i);
    auto twice =
        run(kernel("call void @tlx.nv.bar.arrive(i32 3, i32 96)\n  call void @tlx.nv.bar.arrive(i32 3, i32 96)", "96"),
            config, 96, 128);
    checkFinding(twice, FindingKind::BarrierMismatch, "arrives at barrier 3 a second time before the others have");
    // Nor may who has arrived wait: it would stand for the partner that does not come.
    const std::string alone = "(" + kOut + ") {\n" + kEntry + R"(  %c = icmp slt i32 %t, 32
  br i1 %c, label %both, label %end
both:
  call void @tlx.nv.bar.arrive(i32 3, i32 64)
  call void @tlx.nv.bar.sync(i32 3, i32 64)
  br label %end
end:
  ret void
})";
    checkFinding(run(alone, config, 64), FindingKind::BarrierMismatch,
                 "arrives at barrier 3 a second time before the others have");
    auto counts = run(kernel("call void @tlx.nv.bar.arrive(i32 3, i32 32)", "64"), config, 64, 128);
    CHECK((has(counts, FindingKind::BarrierMismatch) || has(counts, FindingKind::Deadlock)));
    checkFinding(run(kernel("call void @tlx.nv.bar.arrive(i32 16, i32 64)", "64"), config, 64, 128),
                 FindingKind::BarrierMismatch, "barrier 16 with 64 threads");
  });
}

TEST_CASE("bar.red counts the threads whose predicate holds") {
  // Twice, since the counts of a use must not reach the next one.
  const std::string body = "(" + kOut + ") {\n" + kEntry + R"(  %c = icmp slt i32 %t, 37
  %d = icmp slt i32 %t, 5
  %x = call i32 @tlx.nv.bar.red.popc(i32 3, i32 96, i1 %c)
  %y = call i32 @tlx.nv.bar.red.popc(i32 3, i32 96, i1 %d)
  %z = mul i32 %y, 100
  %r = add i32 %x, %z
  %o = getelementptr i32, ptr addrspace(1) %out, i32 %t
  store i32 %r, ptr addrspace(1) %o, align 4
  ret void
})";
  const std::string mixed = "(" + kOut + ") {\n" + kEntry + R"(  %c = icmp slt i32 %t, 32
  br i1 %c, label %one, label %other
one:
  %x = call i32 @tlx.nv.bar.red.popc(i32 3, i32 64, i1 true)
  br label %end
other:
  call void @tlx.nv.bar.sync(i32 3, i32 64)
  br label %end
end:
  ret void
})";
  auto p = program(body, "sm_80", 96);
  forEachSchedule([&](LaunchConfig &config) {
    Memory memory;
    auto *out = static_cast<int *>(memory.allocate(96 * 4));
    auto result = launch(*p, config, params(out), memory);
    CHECK_MESSAGE(result.ok(), text(result));
    for (int v : download(memory, out, 96)) REQUIRE(v == 537);
    const auto wrong = run(mixed, config, 64);
    CHECK(
        (has(wrong, FindingKind::BarrierMismatch) && text(wrong).find("reduction at barrier 3") != std::string::npos));
  });
}

TEST_CASE("elect is true in the last lane alone, which the ISA leaves open") {
  auto p = program(R"((ptr addrspace(1) %out) {
  %t = call i32 @tlx.nv.tid.x()
  %e = call i1 @tlx.nv.elect()
  %v = zext i1 %e to i32
  %q = getelementptr i32, ptr addrspace(1) %out, i32 %t
  store i32 %v, ptr addrspace(1) %q, align 4
  ret void
})",
                   "sm_90a", 64);
  forEachSchedule([&](LaunchConfig &config) {
    Memory memory;
    auto *out = static_cast<int *>(memory.allocate(256));
    auto result = launch(*p, config, params(out), memory);
    CHECK_MESSAGE(result.ok(), text(result));
    auto got = download(memory, out, 64);
    for (size_t i = 0; i < 64; ++i) CHECK(got[i] == (i % 32 == 31));
  });
}
