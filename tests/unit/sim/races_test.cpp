// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The race checker on device operations that no compiled kernel leaves out: copies of sm_80 with and without what publishes them, fences of
// what they wrote, fences of initializations.
#include <doctest/doctest.h>

#include "hopper_test.h"

using namespace sim_test;

namespace {
const std::string kPointers = "(ptr addrspace(1) %x, ptr addrspace(1) %out) {\n";
const std::string kMine = R"(  %o = mul i32 %t, 16
  %mine = getelementptr i8, ptr addrspace(3) %s, i32 %o
  %g = getelementptr i8, ptr addrspace(1) %x, i32 %o
)";
const std::string kCopy = "  call void @tlx.nv.cp.async.cg.16(ptr addrspace(3) %mine, ptr addrspace(1) %g, i32 16)\n"
                          "  call void @tlx.nv.cp.async.commit()\n";
const std::string kWait = "  call void @tlx.nv.cp.async.wait(i32 0)\n";
/// out[t] = the first word of what a thread of the other warp copied.
const std::string kReadOther = R"(  %other = xor i32 %t, 32
  %p = mul i32 %other, 16
  %theirs = getelementptr i8, ptr addrspace(3) %s, i32 %p
  %v = load i32, ptr addrspace(3) %theirs, align 4
  %q = getelementptr i32, ptr addrspace(1) %out, i32 %t
  store i32 %v, ptr addrspace(1) %q, align 4
)";

LaunchResult checked(const std::string &text, const char *target = "sm_80", uint32_t programs = 1) {
  auto p = program(text, target, 64, 4096, {"x", "out"});
  Memory memory;
  auto *x = upload(memory, std::vector<uint32_t>(1024, 7)), *out = upload(memory, std::vector<uint32_t>(1024, 0));
  LaunchConfig config;
  config.checkRaces = true;
  config.grid[0] = programs;
  return launch(*p, config, params(x, out), memory);
}
} // namespace

TEST_CASE("races of sm_80: a copy is there for others behind its wait and a barrier") {
  auto said = [](const std::string &body) { return checked(kPointers + kEntry + kMine + body + "  ret void\n}"); };
  const LaunchResult right = said(kCopy + kWait + barSync(64) + kReadOther);
  CHECK_MESSAGE(right.ok(), text(right));
  // In order, the second warp finds what the first one copied; nothing told it.
  checkFinding(said(kCopy + kWait + kReadOther), FindingKind::Race,
               "race: read of 4 bytes at shared offset 0 by warp 1 and tlx.nv.cp.async.cg.16 (k.tlx:");
  checkFinding(said(kCopy + kWait + kReadOther), FindingKind::Race,
               "no barrier orders what warp 0 did there before it");
  // A barrier before the wait publishes nothing.
  const LaunchResult early = said(kCopy + barSync(64) + kWait + kReadOther);
  CHECK((has(early, FindingKind::Race) || has(early, FindingKind::InFlight)));
  // A second copy into what others read, with and without a barrier.
  CHECK(said(kCopy + kWait + barSync(64) + kReadOther + barSync(64) + kCopy + kWait).ok());
  checkFinding(said(kCopy + kWait + barSync(64) + kReadOther + kCopy + kWait), FindingKind::Race,
               "race: write of 16 bytes at shared offset ");
  // What a copy reads of memory is read when its wait covers it.
  const std::string store = "  store i32 9, ptr addrspace(1) %g, align 4\n";
  CHECK(said(kCopy + kWait + barSync(64) + kReadOther).ok());
  CHECK(said(kCopy + kWait + store + barSync(64) + kReadOther).ok()); // its own
  const std::string others =
      "  %z = mul i32 %t, 16\n  %y = xor i32 %z, 512\n"
      "  %h = getelementptr i8, ptr addrspace(1) %x, i32 %y\n  store i32 9, ptr addrspace(1) %h, align 4\n";
  CHECK(said(kCopy + kWait + barSync(64) + others).ok());
  checkFinding(said(kCopy + barSync(64) + others + kWait), FindingKind::Race, "of argument 'x'");
}

TEST_CASE("races of sm_80: barriers of part of the CTA") {
  // Each warp by itself, then both.
  auto meet = [](const std::string &count) {
    return "  %w = lshr i32 %t, 5\n  %id = add i32 %w, 1\n  call void @tlx.nv.bar.sync(i32 %id, i32 " + count + ")\n";
  };
  auto said = [](const std::string &body) { return checked(kPointers + kEntry + kMine + body + "  ret void\n}"); };
  const std::string write = "  store i32 %t, ptr addrspace(3) %mine, align 4\n";
  checkFinding(said(write + meet("32") + kReadOther), FindingKind::Race,
               " by warp 1 and store (k.tlx:6:1) of warp 0, which wrote them: no barrier orders");
  CHECK(said(write + meet("32") + barSync(64) + kReadOther).ok());
  // One number twice: whole warps meet at it, one after the other, and the second cannot know that the first use is complete.
  const std::string again = "  call void @tlx.nv.bar.sync(i32 1, i32 32)\n";
  checkFinding(said(again), FindingKind::Race,
               "race: barrier 1 is used again by warp 1, and nothing tells it that the "
               "use before, which began at tlx.nv.bar.sync (k.tlx:");
  CHECK(said(barSync(64) + write + barSync(64) + kReadOther).ok());
}

TEST_CASE("races: bytes of a word are places of their own, in shared and in global memory") {
  auto said = [](const std::string &space, const std::string &to, const std::string &shift) {
    return checked(kPointers + kEntry + "  %b = " + shift + "\n  %d = getelementptr i8, ptr addrspace(" + space + ") " +
                   to + ", i32 %b\n  store i8 1, ptr addrspace(" + space + ") %d, align 1\n  ret void\n}");
  };
  for (auto [space, to] : {std::pair("3", "%s"), {"1", "%out"}}) {
    CHECK(said(space, to, "mul i32 %t, 1").ok());
    // Thread t and thread t + 32.
    checkFinding(said(space, to, "and i32 %t, 31"), FindingKind::Race, "race: write of 1 byte");
  }
}

TEST_CASE("proxy fences: what cp.async wrote, by mbarrier") {
  // Warp 1 copies and arrives; warp 0 waits and stores by TMA. The fence stands behind the copy's wait, on either side.
  auto kernel = [](const std::string &beforeWait, const std::string &beforeArrive, const std::string &afterArrive,
                   const std::string &afterWait) {
    return "(ptr byval([128 x i8]) align 64 %map, ptr addrspace(1) %x) {\n" + kEntry + sharedAt("box", 1024) +
           inFirstThread(initBarrier("s", 32)) + barSync(64) + R"(  %lower = icmp ult i32 %t, 32
  br i1 %lower, label %consumer, label %producer
producer:
  %l = and i32 %t, 31
  %o = mul i32 %l, 32
  %p = getelementptr i8, ptr addrspace(3) %box, i32 %o
  %g = getelementptr i8, ptr addrspace(1) %x, i32 %o
  %p1 = getelementptr i8, ptr addrspace(3) %p, i32 16
  %g1 = getelementptr i8, ptr addrspace(1) %g, i32 16
  call void @tlx.nv.cp.async.cg.16(ptr addrspace(3) %p, ptr addrspace(1) %g, i32 16)
  call void @tlx.nv.cp.async.cg.16(ptr addrspace(3) %p1, ptr addrspace(1) %g1, i32 16)
  call void @tlx.nv.cp.async.commit()
)" + beforeWait +
           kWait + beforeArrive + "  call void @tlx.nv.mbarrier.arrive(ptr addrspace(3) %s, i32 1)\n" + afterArrive +
           R"(  ret void
consumer:
  br i1 %first, label %go, label %end
go:
)" + waitFor("s", "0", "w") +
           afterWait + R"(  call void @tlx.nv.tma.store.2d(ptr addrspace(3) %box, ptr %map, i32 0, i32 0, i64 0)
  call void @tlx.nv.bulk.commit()
  call void @tlx.nv.bulk.wait(i32 0)
  br label %end
end:
  ret void
})";
  };
  auto run = [&](const std::string &text, LaunchConfig &config) {
    auto p = program(text, "sm_90a", 64, 2048);
    Memory memory;
    auto *tensor = upload(memory, std::vector<uint8_t>(8192, 0)), *x = upload(memory, std::vector<uint8_t>(1024, 1));
    config.checkRaces = true;
    return launch(*p, config, params(tensorMap(tensor, Element::F16, 2, {64, 64}, {64, 8}, 128), x), memory);
  };
  forEachSchedule([&](LaunchConfig &config) {
    for (const std::string &right : {kernel("", kProxyFence, "", ""), kernel("", "", "", kProxyFence)}) {
      const LaunchResult result = run(right, config);
      CHECK_MESSAGE(result.ok(), text(result));
    }
    for (const std::string &wrong :
         {kernel("", "", "", ""), kernel(kProxyFence, "", "", ""), kernel("", "", kProxyFence, "")})
      checkFinding(run(wrong, config), FindingKind::MissingFence, "which warp 1 has written by an ordinary store");
  });
}

TEST_CASE("a TMA load needs a fence behind the initialization of its mbarrier") {
  auto run = [&](const std::string &fence) {
    auto p = program("(ptr byval([128 x i8]) align 64 %map) {\n" + kEntry + sharedAt("box", 1024) +
                         inFirstThread(initBarrier("s", 1) + fence +
                                       R"(  call void @tlx.nv.mbarrier.arrive.expect.tx(ptr addrspace(3) %s, i32 1024)
  call void @tlx.nv.tma.load.2d(ptr addrspace(3) %box, ptr addrspace(3) %s, ptr %map, i32 0, i32 0, i64 0)
)" + waitFor("s", "0", "w")) +
                         "  ret void\n}",
                     "sm_90a", 64, 2048);
    Memory memory;
    auto *tensor = upload(memory, std::vector<uint8_t>(8192, 0));
    LaunchConfig config;
    config.checkRaces = true;
    return launch(*p, config, params(tensorMap(tensor, Element::F16, 2, {64, 64}, {64, 8}, 128)), memory);
  };
  for (const std::string &fence : {std::string("  call void @tlx.nv.fence.mbarrier.init()\n"), kProxyFence}) {
    const LaunchResult right = run(fence);
    CHECK_MESSAGE(right.ok(), text(right));
  }
  checkFinding(run(""), FindingKind::MissingFence,
               "missing fence: a TMA load will arrive at the mbarrier at shared offset 0, which was initialized at "
               "tlx.nv.mbarrier.init (k.tlx:");
}

TEST_CASE("races: TMA stores write global memory until a wait covers them") {
  // Thread 0 stores a box of 1024 bytes; behind it the same thread, or another warp behind a barrier, reads what it wrote.
  auto run = [&](const std::string &wait, const std::string &reader) {
    auto p = program("(ptr byval([128 x i8]) align 64 %map, ptr addrspace(1) %c) {\n" + kEntry + sharedAt("box", 1024) +
                         R"(  %o = mul i32 %t, 16
  %m = getelementptr i8, ptr addrspace(3) %box, i32 %o
  store <4 x i32> zeroinitializer, ptr addrspace(3) %m, align 16
)" + kProxyFence + barSync(64) +
                         inFirstThread(
                             R"(  call void @tlx.nv.tma.store.2d(ptr addrspace(3) %box, ptr %map, i32 0, i32 0, i64 0)
  call void @tlx.nv.bulk.commit()
)" + wait) + barSync(64) +
                         "  %reads = icmp eq i32 %t, " + reader + R"(
  br i1 %reads, label %look, label %end
look:
  %v = load i32, ptr addrspace(1) %c, align 4
  br label %end
end:
  ret void
})",
                     "sm_90a", 64, 2048);
    Memory memory;
    auto *tensor = upload(memory, std::vector<uint8_t>(8192, 0));
    LaunchConfig config;
    config.checkRaces = true;
    return launch(*p, config, params(tensorMap(tensor, Element::F16, 2, {64, 64}, {64, 8}, 128), tensor), memory);
  };
  for (const char *reader : {"0", "63"}) {
    const LaunchResult right = run("  call void @tlx.nv.bulk.wait(i32 0)\n", reader);
    CHECK_MESSAGE(right.ok(), text(right));
    // It has been read from shared memory, and is on its way.
    checkFinding(run("  call void @tlx.nv.bulk.wait.read(i32 0)\n", reader), FindingKind::Race,
                 "which wrote them: it is in flight: no tlx.nv.bulk.wait covers it");
  }
}
