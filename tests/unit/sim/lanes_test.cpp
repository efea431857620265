// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The lanes of a warp in the race checker: bar.warp.sync orders them, and shuffles, votes and elections do not; what one lane releases and acquires.
#include <doctest/doctest.h>

#include "hopper_test.h"

using namespace sim_test;

namespace {
const std::string kWarpSync = "  call void @tlx.nv.bar.warp.sync(i32 -1)\n";
const std::string kShuffle = "  %moved = call i32 @tlx.nv.shfl.bfly(i32 -1, i32 %t, i32 1)\n";
const std::string kVote = "  %vote = call i1 @tlx.nv.vote.any(i32 -1, i1 true)\n";
const std::string kElect = "  %elected = call i1 @tlx.nv.elect()\n";
/// "%mine" is a word of each thread, "%theirs" that of the thread beside it, in shared memory or in %x.
std::string words(const std::string &space, const std::string &base) {
  return "  %u = xor i32 %t, 1\n  %mine = getelementptr i32, ptr addrspace(" + space + ") " + base +
         ", i32 %t\n  %theirs = getelementptr i32, ptr addrspace(" + space + ") " + base + ", i32 %u\n";
}
std::string store(const std::string &space, const std::string &to) {
  return "  store i32 %t, ptr addrspace(" + space + ") %" + to + ", align 4\n";
}
std::string load(const std::string &space, const std::string &from) {
  return "  %v = load i32, ptr addrspace(" + space + ") %" + from + ", align 4\n";
}

LaunchResult checked(const std::string &body, LaunchConfig config = {}, const char *target = "sm_90a",
                     unsigned threads = 64) {
  auto p = program("(ptr addrspace(1) %x) {\n" + body + "  ret void\n}", target, threads, 4096, {"x"});
  Memory memory;
  auto *x = upload(memory, std::vector<uint32_t>(1024, 0));
  config.checkRaces = true;
  return launch(*p, config, params(x), memory);
}
void checkRight(const LaunchResult &result) {
  CHECK_MESSAGE(result.ok(), text(result));
}
} // namespace

TEST_CASE("lanes: what a lane writes another one reads behind a bar.warp.sync") {
  for (const char *target : {"sm_80", "sm_90a"})
    for (auto [space, base] : {std::pair("3", "%s"), {"1", "%x"}}) {
      const std::string begin = kEntry + words(space, base);
      auto said = [&](const std::string &body) { return checked(begin + body, {}, target); };
      CAPTURE(std::string(target));
      CAPTURE(space);
      checkRight(said(store(space, "mine") + load(space, "mine")));
      checkRight(said(store(space, "mine") + kWarpSync + load(space, "theirs")));
      checkRight(said(store(space, "mine") + barSync(64) + load(space, "theirs")));
      const LaunchResult wrong = said(store(space, "mine") + kShuffle + load(space, "theirs"));
      checkFinding(wrong, FindingKind::Race, "by lane 31 of warp 0 and store (k.tlx:");
      checkFinding(wrong, FindingKind::Race,
                   " of lane 30 of warp 0, which wrote them: no tlx.nv.bar.warp.sync orders what lane 30 of warp 0 did "
                   "there before it");
      checkFinding(said(store(space, "mine") + kVote + load(space, "theirs")), FindingKind::Race, "race: read of 4");
      // And the other way round.
      checkRight(said(store(space, "mine") + kWarpSync + load(space, "mine") + kWarpSync + store(space, "theirs")));
      checkFinding(said(store(space, "mine") + kWarpSync + load(space, "mine") + store(space, "theirs")),
                   FindingKind::Race, "race: write of 4 bytes");
    }
  checkFinding(checked(kEntry + words("3", "%s") + store("3", "mine") + kElect + load("3", "theirs")),
               FindingKind::Race, "no tlx.nv.bar.warp.sync orders");
}

TEST_CASE("lanes: many that read one word are told apart from the one that writes it") {
  auto said = [](const std::string &between) {
    return checked(kEntry + "  %first = icmp eq i32 %t, 0\n  br i1 %first, label %one, label %all\none:\n" +
                   "  store i32 7, ptr addrspace(3) %s, align 4\n  br label %all\nall:\n" + barSync(64) +
                   "  %v = load i32, ptr addrspace(3) %s, align 4\n" + between +
                   "  %last = icmp eq i32 %t, 31\n  br i1 %last, label %again, label %end\nagain:\n"
                   "  store i32 8, ptr addrspace(3) %s, align 4\n  br label %end\nend:\n");
  };
  checkRight(said(barSync(64)));
  checkFinding(said(kShuffle), FindingKind::Race, "which reads them: ");
  checkFinding(said(kWarpSync), FindingKind::Race, "of warp 1, which reads them: no barrier orders");
}

namespace {
/// Warp 0 writes and warp 1 reads, by an mbarrier (at 0, `arrivals`).
std::string handover(const std::string &arrivals, const std::string &speak, const std::string &listen) {
  return kEntry + sharedAt("data", 1024) + inFirstThread(initBarrier("s", unsigned(std::stoi(arrivals)))) +
         barSync(64) + R"(  %lane = and i32 %t, 31
  %mine = getelementptr i32, ptr addrspace(3) %data, i32 %lane
  %writes = icmp ult i32 %t, 32
  br i1 %writes, label %writer, label %reader
writer:
  store i32 %t, ptr addrspace(3) %mine, align 4
)" + speak +
         R"(  br label %end
reader:
)" + listen +
         R"(  %v = load i32, ptr addrspace(3) %mine, align 4
  br label %end
end:
)";
}
const std::string kArrive = "  call void @tlx.nv.mbarrier.arrive(ptr addrspace(3) %s, i32 1)\n";
const std::string kOneArrives =
    kElect + "  br i1 %elected, label %speak, label %silent\nspeak:\n" + kArrive + "  br label %silent\nsilent:\n";
std::string oneWaits(const std::string &behind) {
  return "  %waits = icmp eq i32 %lane, 0\n  br i1 %waits, label %wait, label %passed\nwait:\n" +
         waitFor("s", "0", "w") + "  br label %passed\npassed:\n" + behind;
}
} // namespace

TEST_CASE("lanes: one that arrives speaks for the others behind a bar.warp.sync") {
  forEachSchedule([](LaunchConfig &config) {
    const std::string wait = waitFor("s", "0", "w");
    checkRight(checked(handover("1", kWarpSync + kOneArrives, wait), config));
    checkRight(checked(handover("32", kArrive, wait), config)); // each for itself
    const LaunchResult wrong = checked(handover("1", kOneArrives, wait), config);
    checkFinding(wrong, FindingKind::Race, "race: read of 4 bytes at shared offset ");
    checkFinding(wrong, FindingKind::Race,
                 ": no barrier orders what warp 0 did there before it: lane 31 arrived behind that at the mbarrier at "
                 "shared offset 0 in phase 0, tlx.nv.mbarrier.arrive (k.tlx:");
    checkFinding(wrong, FindingKind::Race, ", and no tlx.nv.bar.warp.sync orders what lane ");
    // The arrival stands before the barrier of the warp.
    checkFinding(checked(handover("1", kOneArrives + kWarpSync, wait), config), FindingKind::Race, "race: read of 4");
  });
}

TEST_CASE("lanes: what one has waited for the others know behind a bar.warp.sync") {
  const std::string speak = kWarpSync + kOneArrives;
  // The schedules in which the reader's other lanes are there late; else their bytes are not written yet.
  LaunchConfig config;
  checkRight(checked(handover("1", speak, oneWaits(kWarpSync)), config));
  checkRight(
      checked(handover("1", speak, oneWaits(barSync(32).replace(barSync(32).find("i32 0"), 5, "i32 3"))), config));
  checkFinding(checked(handover("1", speak, oneWaits(kShuffle)), config), FindingKind::Race,
               "which wrote them: no barrier orders what warp 0 did there before it: it arrived behind that at");
}

TEST_CASE("lanes: matrices of a warp belong to no lane") {
  // Each lane writes its row's 16 bytes, then ldmatrix reads them all; or stmatrix writes them and each lane reads its own.
  const std::string rows = "  %o = mul i32 %t, 16\n  %row = getelementptr i8, ptr addrspace(3) %s, i32 %o\n";
  const std::string write = "  store <4 x i32> zeroinitializer, ptr addrspace(3) %row, align 16\n";
  const std::string read = "  %v = load <4 x i32>, ptr addrspace(3) %row, align 16\n";
  const std::string ldmatrix = "  %m = call <4 x i32> @tlx.nv.ldmatrix.x4(ptr addrspace(3) %row)\n";
  const std::string stmatrix = "  call void @tlx.nv.stmatrix.x4(ptr addrspace(3) %row, <4 x i32> zeroinitializer)\n";
  auto said = [&](const std::string &body) { return checked(kEntry + rows + body, {}, "sm_90a", 32); };
  checkRight(said(write + kWarpSync + ldmatrix));
  checkFinding(said(write + ldmatrix), FindingKind::Race, "by lanes of warp 0 and store (k.tlx:");
  checkRight(said(stmatrix + kWarpSync + read));
  checkFinding(said(stmatrix + read), FindingKind::Race, " of lanes of warp 0, which wrote them: ");
  // Lanes of one stmatrix may name one row.
  checkRight(said("  %first = getelementptr i8, ptr addrspace(3) %s, i32 0\n"
                  "  call void @tlx.nv.stmatrix.x4(ptr addrspace(3) %first, <4 x i32> zeroinitializer)\n"));
}

TEST_CASE("lanes: what several move together all release, though one has released before") {
  // Warp 0 moves rows by stmatrix behind an arrival of one lane, and each lane releases; warp 1 acquires and reads them.
  auto said = [](const std::string &first, const std::string &release, const std::string &acquire,
                 LaunchConfig &config) {
    return checked(kEntry + sharedAt("rows", 1024) + sharedAt("other", 8) +
                       inFirstThread(initBarrier("s", 32) + initBarrier("other", 1)) + barSync(64) +
                       R"(  %lane = and i32 %t, 31
  %o = shl i32 %lane, 4
  %row = getelementptr i8, ptr addrspace(3) %rows, i32 %o
  %moves = icmp ult i32 %t, 32
  br i1 %moves, label %mover, label %reader
mover:
  %chosen = icmp eq i32 %lane, )" +
                       first + R"(
  br i1 %chosen, label %ahead, label %together
ahead:
  call void @tlx.nv.mbarrier.arrive(ptr addrspace(3) %other, i32 1)
  br label %together
together:
  call void @tlx.nv.stmatrix.x4(ptr addrspace(3) %row, <4 x i32> zeroinitializer)
)" + release + "  br label %end\nreader:\n" +
                       acquire + R"(  %v = load <4 x i32>, ptr addrspace(3) %row, align 16
  br label %end
end:
)",
                   config);
  };
  const std::string arrive = "  call void @tlx.nv.bar.arrive(i32 3, i32 64)\n",
                    sync = "  call void @tlx.nv.bar.sync(i32 3, i32 64)\n";
  forEachSchedule([&](LaunchConfig &config) {
    for (const char *first : {"0", "13", "31"}) {
      checkRight(said(first, kArrive, waitFor("s", "0", "w"), config));
      checkRight(said(first, arrive, sync, config));
      checkRight(said(first, sync, sync, config));
      checkFinding(said(first, "", "", config), FindingKind::Race, "race: ");
    }
  });
}

TEST_CASE("lanes: who starts a TMA store needs the others' writes") {
  auto said = [](const std::string &between) {
    auto p =
        program("(ptr byval([128 x i8]) align 64 %map) {\n" + kEntry + sharedAt("box", 1024) + R"(  %o = mul i32 %t, 32
  %m = getelementptr i8, ptr addrspace(3) %box, i32 %o
  store <8 x i32> zeroinitializer, ptr addrspace(3) %m, align 32
)" + kProxyFence + between +
                    kElect + R"(  br i1 %elected, label %one, label %end
one:
  call void @tlx.nv.tma.store.2d(ptr addrspace(3) %box, ptr %map, i32 0, i32 0, i64 0)
  call void @tlx.nv.bulk.commit()
  call void @tlx.nv.bulk.wait(i32 0)
  br label %end
end:
  ret void
})",
                "sm_90a", 32, 2048);
    Memory memory;
    auto *tensor = upload(memory, std::vector<uint8_t>(8192, 0));
    LaunchConfig config;
    config.checkRaces = true;
    return launch(*p, config, params(tensorMap(tensor, Element::F16, 2, {64, 64}, {64, 8}, 128)), memory);
  };
  checkRight(said(kWarpSync));
  checkFinding(said(""), FindingKind::Race, "race: TMA store of 1024 bytes at shared offset 1024 by lane 31 of warp 0");
}

TEST_CASE("lanes: those of AMD are one") {
  const LaunchResult right =
      checked("entry:\n  %t = call i32 @tlx.amd.workitem.id.x()\n  %s = call ptr addrspace(3) @tlx.smem.base()\n" +
                  words("3", "%s") + store("3", "mine") + "  %moved = call i32 @tlx.amd.ds.bpermute(i32 0, i32 %t)\n" +
                  load("3", "theirs"),
              {}, "gfx942");
  checkRight(right);
}

TEST_CASE("lanes: one that goes through many phases while the others wait for it") {
  // Lane 0 of warp 1 hands a word back and forth with lane 0 of warp 0; the other lanes of both wait for it behind that.
  const std::string steps = "2000";
  auto side = [&](const std::string &name, const std::string &first, const std::string &second) {
    return name + ":\n  br label %" + name + "loop\n" + name + "loop:\n  %" + name + "k = phi i32 [ 0, %" + name +
           " ], [ %" + name + "k1, %" + second + " ]\n  %" + name + "p = and i32 %" + name + "k, 1\n" + first + "  %" +
           name + "k1 = add i32 %" + name + "k, 1\n  %" + name + "more = icmp ult i32 %" + name + "k1, " + steps +
           "\n  br i1 %" + name + "more, label %" + name + "loop, label %met\n";
  };
  auto arrive = [](const std::string &barrier) {
    return "  call void @tlx.nv.mbarrier.arrive(ptr addrspace(3) %" + barrier + ", i32 1)\n";
  };
  auto said = [&](const std::string &meet) {
    return checked(kEntry + sharedAt("back", 8) + sharedAt("data", 1024) +
                   inFirstThread(initBarrier("s", 1) + initBarrier("back", 1)) + barSync(64) +
                   "  %lane = and i32 %t, 31\n  %w = lshr i32 %t, 5\n  %goes = icmp eq i32 %lane, 0\n"
                   "  br i1 %goes, label %one2, label %met\none2:\n  %ping = icmp eq i32 %w, 0\n"
                   "  br i1 %ping, label %a, label %b\n" +
                   side("a",
                        "  store i32 %t, ptr addrspace(3) %data, align 4\n" + kProxyFence + arrive("s") +
                            waitFor("back", "%ap", "aw"),
                        "awdone") +
                   side("b",
                        waitFor("s", "%bp", "bw") + "  store i32 %t, ptr addrspace(3) %data, align 4\n" + kProxyFence +
                            arrive("back"),
                        "bwdone") +
                   "met:\n" + meet + "  %v = load i32, ptr addrspace(3) %data, align 4\n");
  };
  checkRight(said(barSync(64)));
  CHECK(has(said(kShuffle), FindingKind::Race));
}
