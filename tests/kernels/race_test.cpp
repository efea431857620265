// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the race checker finds in kernels of tasks, in the schedule that shows least (in order), and that it is silent where nothing is wrong.
// gemm_ws as it ships is checked in matmul_descriptors_test.cpp; here one thing at a time is taken out of its text. `./dev mutants` takes out
// everything, in turn.
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
  Program p =
      compileText(text, {"k.tlx", "k", {}, {}, TLX_COMPILE_NO_STATIC_CHECKS}, "sm_90a"); // some of it is refused
  Tensor out("i32", 128);
  out.poison();
  auto d = upload(out);
  std::string problem = p.run({1}, {d}, {"sm_90a"});
  download(out, d);
  // What is checked for all interleavings knows no less.
  CHECK((p.run({1}, {d}, {"sm_90a", TLX_SCHEDULE_LATE, 0, true}) == "") == (problem == ""));
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
std::string gemmSaid(const std::string &text, bool exhaustive = false) {
  Program p = compileText(text,
                          {"gemm_ws.tlx",
                           "gemm_ws",
                           {{"BM", "128"}, {"BN", "64"}, {"STAGES", "2"}},
                           {},
                           TLX_COMPILE_NO_STATIC_CHECKS}, // which refuse some of it
                          "sm_90a");
  Rng rng(1);
  Matrix a("f16", 256, 320), b("f16", 320, 64), c("f16", 256, 64);
  a.fillWith(rng, Fill::Integers, 2), b.fillWith(rng, Fill::Integers, 2);
  auto da = upload(a.values), db = upload(b.values), dc = upload(c.values);
  Setting setting{"sm_90a"};
  if (exhaustive) setting.schedule = TLX_SCHEDULE_LATE, setting.exhaustive = true;
  return p.run({1}, {a.argument(da), b.argument(db), c.argument(dc), 256, 64, 320}, setting);
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

TEST_CASE("races: a finding names both tasks, the buffer and the edge that is missing") {
  if (!onSimulator()) return;
  auto text = [](const char *wait) {
    return std::string(R"(kernel k(out: *i32) launch(num_warps = 4) {
  let pair = local_alloc([128], i32, 2);
  let ready = alloc_barriers(2);
  async_tasks {
    async_task(default, name = "writer") {
      local_store(pair[1], arange(0, 128) * 3);
      barrier_arrive(ready[1]);
    }
    async_task(num_warps = 4, replicate = 2, name = "reader") {
      )") + wait +
           R"(
      if async_task_replica_id() == 1 { store(out + arange(0, 128), local_load(pair[1])); }
    }
  }
})";
  };
  CHECK(said(text("barrier_wait(ready[1], 0);")) == "");
  const std::string wrong = said(text(""));
  for (const std::string part :
       {"k.tlx:11:", "race: read of 16 bytes at shared offset 512 (pair[1]) by warp 8 (reader[1]) and ",
        " (k.tlx:6:7) of warp 0 (writer), which wrote them: ",
        "no barrier orders what warp 0 (writer) did there before it: it arrived behind that at the mbarrier ready[1] "
        "at shared offset ",
        " in phase 0, tlx.nv.mbarrier.arrive (k.tlx:7:7), and no wait of warp 8 (reader[1]) for that phase stands "
        "between them",
        "(thread 256 of reader[1], cta (0, 0, 0)"})
    CHECK_MESSAGE(wrong.find(part) != std::string::npos, part, " in\n", wrong);
  // What TMA loads is known by a phase of its barrier.
  const std::string text2 =
      replaced(gemmText(), "barrier_wait(full[slot], phase);", "barrier_wait(full[slot], phase ^ 1);");
  const std::string early = gemmSaid(text2);
  for (const std::string part : {"race: wgmma's read of A of 16 bytes at shared offset ", " (a_ring[0]",
                                 ") by warp 4 (consumer[0]) and tlx.nv.tma.load.2d (gemm_ws.tlx:",
                                 "phase 0 of the mbarrier full[0] at shared offset ",
                                 "no wait of warp 4 (consumer[0]) for phase 0 of the mbarrier full[0] at"})
    CHECK_MESSAGE(early.find(part) != std::string::npos, part, " in\n", early);
}

TEST_CASE("races: a deadlock names tasks, barriers, what is missing and who came last") {
  if (!onSimulator()) return;
  const std::string wrong = gemmSaid(
      replaced(gemmText(), "alloc_barriers(STAGES, arrive_count = 2)", "alloc_barriers(STAGES, arrive_count = 3)"));
  for (const std::string part :
       {"deadlock: every thread waits:", "warp 0 (producer) at tlx.nv.mbarrier.try.wait (gemm_ws.tlx:",
        "the mbarrier empty[0] at shared offset ", " in phase 0: 8 of 12 arrivals made", "last there (this is step ",
        "phase 0: tlx.nv.mbarrier.arrive (gemm_ws.tlx:", " of warp 11 (consumer[1]), in step ",
        "warps 4-7 (consumer[0]) at tlx.nv.mbarrier.try.wait (gemm_ws.tlx:", " bytes of a TMA load, in step "})
    CHECK_MESSAGE(wrong.find(part) != std::string::npos, part, " in\n", wrong);
}

TEST_CASE("races: more mbarriers than fit a word of bits") {
  if (!onSimulator()) return;
  // The last of 100: what it orders and what it does not.
  const std::string text = replaced(handover("barrier_arrive(ready[99]);", "barrier_wait(ready[99], 0);"),
                                    "alloc_barriers(1)", "alloc_barriers(100)");
  CHECK(said(text) == "");
  CHECK(said(replaced(text, "barrier_wait(ready[99]", "barrier_wait(ready[98]")).find("deadlock") != std::string::npos);
  CHECK(said(replaced(text, "barrier_wait(ready[99], 0)", "barrier_wait(ready[99], 1)")).find("race: ") !=
        std::string::npos);
  const std::string gemm = gemmText();
  const std::string many = replaced(gemm, "let full   = alloc_barriers(STAGES); ",
                                    "let others = alloc_barriers(90);\n    let full   = alloc_barriers(STAGES); ");
  CHECK(gemmSaid(many) == "");
  CHECK(gemmSaid(replaced(many, "barrier_wait(full[slot], phase);", "")).find("wgmma") != std::string::npos);
  CHECK(gemmSaid(replaced(many, "barrier_wait(empty[slot], phase ^ 1);", "")).find("TMA load") != std::string::npos);
}

namespace {
/// A kernel of pointers with `programs` programs: what the race checker says of it.
std::string globalSaid(const std::string &body, unsigned programs, const char *target = "sm_80") {
  // 128 threads, so that none holds what another holds too.
  const std::string warps = target[0] == 'g' ? "2" : "4";
  Program p =
      compileText("kernel k(x: *i32, flag: *i32, out: *i32) launch(num_warps = " + warps + ") {\n" + body + "\n}",
                  {"k.tlx", "k", {}, {}}, target);
  Tensor x("i32", 1024), flag("i32", 16), out("i32", 1024);
  for (size_t i = 0; i < 1024; ++i) x.set(i, double(i)), out.set(i, 0);
  for (size_t i = 0; i < 16; ++i) flag.set(i, 0);
  auto dx = upload(x), dflag = upload(flag), dout = upload(out);
  return p.run({programs}, {dx, dflag, dout}, {target});
}
} // namespace

TEST_CASE("races: global memory, within a program and between programs") {
  if (!onSimulator()) return;
  const std::string r = "let r = arange(0, 128); let me = program_id(0);\n";
  for (const char *target : {"sm_80", "sm_90a", "gfx942", "gfx950"}) {
    CAPTURE(std::string(target));
    auto said = [&](const std::string &body, unsigned programs) { return globalSaid(r + body, programs, target); };
    // Programs with parts of their own; all read the same.
    CHECK(said("store(out + me * 128 + r, load(x + r) + load(x + 128 + r));", 4) == "");
    // The same place by two programs.
    const std::string twice = said("store(out + r, load(x + r));", 2);
    CHECK_MESSAGE(twice.find("race: write of ") != std::string::npos, twice);
    CHECK_MESSAGE(twice.find("of argument 'out' (4096 bytes) by warp ") != std::string::npos, twice);
    CHECK_MESSAGE(twice.find("of cta (0, 0, 0), which wrote them: no atomic that releases there") != std::string::npos,
                  twice);
    // A program's warps: what one stores another loads, with nothing between.
    const std::string moved = said("store(out + r, load(x + r)); store(out + 512 + r, load(out + (127 - r)));", 1);
    CHECK_MESSAGE(moved.find("race: read of ") != std::string::npos, moved);
    // The same thread: no other warp.
    CHECK(said("store(out + r, load(x + r)); store(out + 512 + r, load(out + r));", 1) == "");
    // Relaxed atomics do not race with each other, with a plain load they do.
    CHECK(said("let before = atomic_add(out + r, 1);", 4) == "");
    CHECK(said("let before = atomic_add(out + r, 1); store(out + 256 + me * 128 + r, load(out + r));", 2)
              .find("race: ") != std::string::npos);
    // An order of one program's threads only is none for another program.
    CHECK(said("let before = atomic_add(out + r, 1, scope = \"cta\");", 2).find("race: ") != std::string::npos);
  }
}

TEST_CASE("races: lanes of one warp") {
  if (!onSimulator()) return;
  // A task of one warp moves elements between its lanes through global memory.
  auto said = [](const std::string &between) {
    return globalSaid("async_tasks {\n  async_task(default) {}\n"
                      "  async_task(num_warps = 1, name = \"mover\") {\n    let r = arange(0, 32);\n    store(out + r, "
                      "load(x + r));\n    " +
                          between + "\n    store(out + 512 + r, load(out + (31 - r)));\n  }\n}",
                      1, "sm_90a");
  };
  CHECK(said("named_barrier_wait(5, 32);") == "");
  const std::string wrong = said("");
  for (const std::string part : {"race: read of 4 bytes at offset ",
                                 " of argument 'out' (4096 bytes) by lane 1 of warp 4 (mover) and store (k.tlx:6:5) ",
                                 "of lane 30 of warp 4 (mover), which wrote them: no tlx.nv.bar.warp.sync orders "
                                 "what lane 30 of warp 4 (mover) did there before it",
                                 "of mover, cta (0, 0, 0)"})
    CHECK_MESSAGE(wrong.find(part) != std::string::npos, part, " in\n", wrong);
  // A wave of AMD is one actor.
  const std::string wave = "let r = arange(0, 128); if program_id(0) == 0 { store(out + r, load(x + r)); "
                           "store(out + 512 + r, load(out + (r ^ 1))); }";
  CHECK(globalSaid(wave, 1, "gfx942") == "");
  CHECK(globalSaid(wave, 1, "sm_80").find("no tlx.nv.bar.warp.sync orders") != std::string::npos);
}

TEST_CASE("races: programs that hand values on through memory") {
  if (!onSimulator()) return;
  for (const char *target : {"sm_80", "sm_90a", "gfx942"}) {
    CAPTURE(std::string(target));
    auto handover = [&](const char *release, const char *acquire) {
      return globalSaid(
          std::string("let r = arange(0, 128);\n") +
              "if program_id(0) == 0 {\n  store(out + r, load(x + r));\n  let before = atomic_xchg(flag, 1, order = "
              "\"" +
              release + "\");\n} else {\n  var seen = 0;\n  while seen == 0 { seen = atomic_add(flag, 0, order = \"" +
              acquire + "\"); }\n  store(out + 512 + r, load(out + (127 - r)));\n}",
          2, target);
    };
    CHECK(handover("release", "acquire") == "");
    CHECK(handover("acq_rel", "acq_rel") == "");
    CHECK(handover("relaxed", "acquire").find("race: read of ") != std::string::npos);
    CHECK(handover("release", "relaxed").find("race: read of ") != std::string::npos);
  }
  // From the first program to the third by way of the second.
  const std::string chain = R"(let r = arange(0, 128);
let me = program_id(0);
if me > 0 {
  var seen = 0;
  while seen == 0 { seen = atomic_add(flag + me - 1, 0, order = "acquire"); }
}
if me == 0 { store(out + r, load(x + r)); }
if me == 2 { store(out + 512 + r, load(out + (127 - r))); }
let before = atomic_xchg(flag + me, 1, order = "release");)";
  CHECK(globalSaid(chain, 3) == "");
  CHECK(globalSaid(replaced(chain, "\"acquire\"", "\"relaxed\""), 3).find("race: read of ") != std::string::npos);
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
    const std::string all = gemmSaid(replaced(text, m.what, m.with), true);
    CHECK_MESSAGE(all.find(m.finding) != std::string::npos, all);
  }
}
