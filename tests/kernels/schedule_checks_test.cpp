// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Hand-written schedules that cannot work, and the message that a compile gives; beside each stands what is close to it and works. The kernels
// that ship are silent, and with the checks off all of it compiles.
#include <doctest/doctest.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "operations.h"

using namespace operations;

namespace {

/// "line:column severity: message" of each diagnostic and "  line: note" of its notes, a line each.
std::string said(const std::string &text, std::vector<std::pair<std::string, std::string>> params = {},
                 uint32_t flags = 0) {
  static tlx::Context context;
  tlx::CompileOptions o;
  o.fileName = "k.tlx";
  o.target = "sm_90a";
  o.image = TLX_IMAGE_SIMULATOR;
  o.params = std::move(params);
  o.flags = flags;
  std::string json;
  try {
    const tlx::Kernel kernel = context.compile(text, o);
    json = tlx_kernel_diagnostics_json(kernel.get());
  } catch (const tlx::Error &e) {
    json = e.diagnosticsJson();
    if (json.empty()) return e.what();
  }
  std::string out;
  if (json.empty()) return out;
  for (const auto &d : nlohmann::json::parse(json)) {
    out += (out.empty() ? "" : "\n") + std::to_string(d["line"].get<int>()) + ":" +
           std::to_string(d["column"].get<int>()) + " " + d["severity"].get<std::string>() + ": " +
           d["message"].get<std::string>();
    for (const auto &note : d["notes"])
      out += "\n  " + std::to_string(note["line"].get<int>()) + ": " + note["message"].get<std::string>();
  }
  return out;
}

/// Two tasks of 4 warps and two barriers; the statements of each task stand on lines of their own: 5 and 8.
std::string tasks(const std::string &first, const std::string &second,
                  const std::string &barriers = "alloc_barriers(2)") {
  return "kernel k(d: tensor_desc<f16, [64, 64]>, p: *i32, n: i32) launch(num_warps = 4) {\n"
         "  let one = local_alloc([64, 64], f16, 2); let x = " +
         barriers +
         "; let y = alloc_barriers(2);\n"
         "  async_tasks {\n    async_task(default, name = \"a\") {\n" +
         first + "\n    }\n    async_task(num_warps = 4, name = \"b\") {\n" + second + "\n    }\n  }\n}\n";
}

void check(const std::string &text, const std::string &want) {
  CAPTURE(text);
  CHECK(said(text) == want);
  CHECK(said(text, {}, TLX_COMPILE_NO_STATIC_CHECKS) == "");
}

std::string shipped(const char *name) {
  const char *dir = std::getenv("TLX_KERNELS_DIR");
  std::ifstream file(std::string(dir ? dir : TLX_KERNELS_DIR) + "/" + name);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}
/// Behind what was found with numbers for the arguments.
const std::string kAdvice =
    "these numbers keep what the kernel requires: say by 'requires' how its arguments depend on "
    "one another, or compile without static checks";
} // namespace

TEST_CASE("static checks: arrivals") {
  check(tasks("barrier_arrive(x[0]);", "barrier_wait(x[0], 0);"), "");
  check(tasks("barrier_arrive(x[0]);", "barrier_wait(x[0], 0);", "alloc_barriers(2, arrive_count = 2)"),
        "8:1 error: task 'b' can wait here for ever: phase 0 of x[0] needs 2 arrivals and gets 1: task 'a' in line 5");
  check(
      tasks("barrier_arrive(x[0], arrive_count = 2);", "barrier_wait(x[0], 0);", "alloc_barriers(2, arrive_count = 2)"),
      "");
  check(
      tasks("barrier_arrive(x[0], arrive_count = 3);", "barrier_wait(x[0], 0);", "alloc_barriers(2, arrive_count = 2)"),
      "5:1 error: task 'a' arrives here with 3 arrivals, and in this phase x[0] has room for 2 of its 2");
  check(tasks("barrier_arrive(x[0]);", "barrier_wait(x[0], 0);", "alloc_warp_barrier(2, num_warps = 4)"), "");
  check(tasks("barrier_arrive(x[0]);", "barrier_wait(x[0], 0);", "alloc_warp_barrier(2, num_warps = 8)"),
        "8:1 error: task 'b' can wait here for ever: phase 0 of x[0] needs 8 arrivals and gets 4: task 'a' in line 5");
  check(tasks("barrier_arrive(x[1]);", "barrier_wait(x[0], 0);"),
        "8:1 error: task 'b' can wait here for ever: phase 0 of x[0] needs 1 arrival and gets 0");
  check(tasks("", "barrier_wait(x[0], 0);"), "8:1 error: task 'b' can wait here for ever: phase 0 of x[0] needs 1 "
                                             "arrival and gets none: no task arrives there");
  check(tasks("", "barrier_wait(x[0], 1);"), "");
  // Known only at run time: nothing is said, but for a barrier that nobody arrives at.
  check(tasks("if load(p) > 0 { barrier_arrive(x[0]); }", "barrier_wait(x[0], 0);"), "");
  check(
      tasks("if load(p) > 0 { barrier_arrive(x[0]); }", "barrier_wait(y[0], 0);"),
      "8:1 error: task 'b' can wait here for ever: phase 0 of y needs an arrival and gets none: no task arrives there");
  check(tasks("if load(p) > 0 { barrier_arrive(x[0]); }", "for i in range(0, n) { barrier_wait(y[0], i & 1); }"),
        "8:24 warning: task 'b' waits here for y, and no task ever arrives there: only a wait for phase 1 passes, as "
        "long as the barrier is fresh");
  // Each waits for the other first.
  check(tasks("barrier_wait(y[0], 0); barrier_arrive(x[0]);", "barrier_wait(x[0], 0); barrier_arrive(y[0]);"),
        "5:1 error: task 'a' can wait here for ever: phase 0 of y[0] needs 1 arrival and gets 0\n  8: task 'b' waits "
        "for phase 0 of x[0]");
  // A loop without iterations.
  check(tasks("for i in range(0, 0) { barrier_arrive(x[0]); }", "barrier_wait(x[0], 0);"),
        "8:1 error: task 'b' can wait here for ever: phase 0 of x[0] needs 1 arrival and gets none: no task arrives "
        "there");
  check(tasks("for i in range(0, n) { barrier_arrive(x[0]); }", "for i in range(0, n) { barrier_wait(x[0], i & 1); }",
              "alloc_barriers(2, arrive_count = 4)"),
        "8:24 error: task 'b' can wait here for ever (n = 1024): x[0] completes a phase with each 4 arrivals, and "
        "since task 'b' passed it last it got 1024: task 'a' in line 5, 1024 times, so that phase 1 is over before "
        "task 'b' sees it\n  8: " +
            kAdvice);
}

// The caller may keep two arguments in step, or not; where a task goes by no argument of its own, nothing can help it.
TEST_CASE("static checks: arguments that belong together") {
  const std::string kernel =
      "kernel k(steps: i32, size: i32, q: i32) launch(num_warps = 4) {\n  let x = alloc_barriers(1);\n  async_tasks {\n"
      "    async_task(default, name = \"a\") { for i in range(0, steps) { barrier_arrive(x[0]); } }\n"
      "    async_task(num_warps = 4, name = \"b\") {\n      for i in range(0, cdiv(size, 4) + 3) { if i < $MORE { "
      "barrier_wait(x[0], i & 1); } }\n"
      "    }\n  }\n}\n";
  const std::string waits = " task 'b' can wait here for ever (steps = size = 1024): ";
  auto with = [&](const char *more) { return replace(kernel, {{"MORE", more}}); };
  CHECK(said(with("size + 1")).starts_with("6:64 warning:" + waits));
  CHECK(said(with("size + 1"))
            .ends_with(
                "6: tasks go by different arguments, which have one number here: task 'a' by steps, task 'b' by size"));
  // Each of them knows one that the other does not go by, or one goes by less: the caller may know more.
  CHECK(said(with("steps")).starts_with("6:61 warning:" + waits));
  const std::string same = replace(with("size"), {});
  CHECK(said(std::string(same).replace(same.find("0, steps)"), 9, "0, size)"))
            .starts_with("6:60 error: task 'b' can wait here for ever (size = 1024): "));
  // What other tasks go by does not matter, nor what they did before this async_tasks.
  const std::string third =
      "  async_tasks {\n    async_task(default) { let q = 0; }\n    async_task(num_warps = 4, name = "
      "\"c\") { barrier_wait(x[0], 0); }\n  }\n";
  const std::string before =
      "kernel k(steps: i32, size: i32) launch(num_warps = 4) {\n  let x = alloc_barriers(1); let y "
      "= alloc_barriers(1);\n  barrier_arrive(x[0]); barrier_arrive(x[0]);\n";
  CHECK(said(before + third + "}\n") ==
        "6:45 error: task 'c' can wait here for ever: phase 0 of x[0] needs 1 arrival and "
        "gets 0");
}

// What a number depends on is asked once of each value, though each has two ways to the one before it.
TEST_CASE("static checks: a phase from a long chain of numbers") {
  std::string chain = "let p0 = n;\n";
  for (int i = 1; i <= 64; ++i)
    chain += replace("let p$I = p$J ^ (p$J >> 1);\n", {{"I", std::to_string(i)}, {"J", std::to_string(i - 1)}});
  const std::string text = tasks("barrier_arrive(x[0]); barrier_wait(y[0], 0);",
                                 chain + "barrier_wait(x[0], p64 & 1); barrier_wait(x[0], p64 & 1 ^ 1);");
  CHECK(said(text).find("can wait here for ever (n = 1024)") != std::string::npos);
}

TEST_CASE("static checks: bytes") {
  const std::string load = " async_descriptor_load(d, one[0], [0, n * 8], x[0]);";
  check(tasks("barrier_expect_bytes(x[0], 8192);" + load, "barrier_wait(x[0], 0);"), "");
  check(tasks("barrier_expect_bytes(x[0], 8208);" + load, "barrier_wait(x[0], 0);"),
        "5:1 error: 8208 bytes are expected at x[0] and 8192 arrive there: 8192 by the load in line 5");
  check(tasks("barrier_expect_bytes(x[0], 8192);" + load + load, "barrier_wait(x[0], 0);"),
        "5:1 error: 8192 bytes are expected at x[0] and 16384 arrive there: 8192 by the load in line 5, 8192 by the "
        "load in line 5");
  check(tasks("barrier_expect_bytes(x[0], 16384);" + load + load, "barrier_wait(x[0], 0);"), "");
  check(tasks("barrier_expect_bytes(x[0], 64);", "barrier_wait(x[0], 0);"),
        "5:1 error: 64 bytes are expected at x[0] and 0 arrive there: no load names this barrier");
  // Not in one line, but the walk sees it.
  check(tasks("barrier_expect_bytes(x[0], 8192);\nif n > 0 {" + load + " }", "barrier_wait(x[0], 0);"), "");
  check(tasks("barrier_expect_bytes(x[0], 8192);\nif n < 0 {" + load + " }", "barrier_wait(x[0], 0);"),
        "9:1 error: task 'b' can wait here for ever (n = 1024): phase 0 of x[0] needs 8192 bytes and gets 0 (expected "
        "by task 'a' in line 5)\n  9: " +
            kAdvice);
}

TEST_CASE("static checks: slots, phases, the last index of TMA") {
  check(tasks("for i in range(0, 2) { barrier_arrive(x[i]); }", "barrier_wait(x[0], 0);"), "");
  check(tasks("for i in range(0, 3) { barrier_arrive(x[i]); }", "barrier_wait(x[0], 0);"),
        "5:24 error: there is no slot 2 in x: they go from 0, and it has 2\n  2: declared here");
  check(tasks("for i in range(2, 4) { barrier_arrive(x[i]); }", "barrier_wait(x[0], 1);"),
        "5:39 error: there is no slot 2 to 3 in x: they go from 0, and it has 2");
  check(tasks("barrier_arrive(x[0]);", "for i in range(0, 4) { barrier_wait(x[0], i); }"),
        "8:24 error: task 'b' can wait here for ever: phase 1 of x[0] needs 1 arrival and gets 0");
  check(tasks("barrier_arrive(x[0]);", "for i in range(2, 4) { barrier_wait(x[0], i); }"),
        "8:24 error: a phase is 0 or 1, and this is 2 to 3");
  // The caller knows how large an argument is.
  check(tasks("barrier_arrive(x[n]);", "barrier_wait(x[0], n);"), "");
  check(tasks("for i in range(0, n) { barrier_arrive(x[i]); }", "barrier_wait(x[0], 0);"), "");
  auto at = [](const char *index) {
    return said(tasks(std::string("barrier_expect_bytes(x[0], 8192); async_descriptor_load(d, one[0], [0, ") + index +
                          "], x[0]);",
                      "barrier_wait(x[0], 0);"),
                {}, TLX_COMPILE_NO_STATIC_CHECKS);
  };
  CHECK(at("8") == "");
  CHECK(at("n * 8") == "");
  CHECK(at("12") == "5:35 error: TMA begins at multiples of 16 bytes, and the last index into 'd' is 12, no multiple "
                    "of 8: use .load and .store, which can do without");
  CHECK(at("n") == "5:35 error: TMA begins at multiples of 16 bytes, and the last index into 'd' is not known to be a "
                   "multiple of 8: state it with multiple_of, or use .load and .store, which can do without");
}

TEST_CASE("static checks: named barriers") {
  check(tasks("named_barrier_wait(3, 256);", "named_barrier_arrive(3, 256);"), "");
  check(tasks("named_barrier_wait(3, 128);", "named_barrier_wait(4, 128);"), "");
  check(tasks("named_barrier_wait(3, 256);", "named_barrier_arrive(3, 128);"),
        "5:1 error: named barrier 3 is complete with 256 threads, and the tasks that use it with that number have 128: "
        "task 'a' 128; line 8 uses it with 128");
  check(tasks("named_barrier_wait(3, 64);", ""), "5:1 error: named barrier 3 is complete with 64 threads, and the "
                                                 "tasks that use it with that number have 128: task 'a' 128");
}

TEST_CASE("static checks: a phase that does not change") {
  const std::string writer = "for i in range(0, n) { barrier_wait(y[0], i & 1 ^ 1); barrier_arrive(x[0]); }";
  check(tasks(writer, "for i in range(0, n) { barrier_wait(x[0], i & 1); barrier_arrive(y[0]); }"), "");
  check(tasks("for i in range(0, n) { barrier_arrive(x[0]); }", "for i in range(0, n) { barrier_wait(x[0], 0); }"),
        "8:24 error: task 'b' can wait here for ever (n = 1024): x[0] completes a phase with each arrival, and since "
        "task 'b' passed it last it got 1024: task 'a' in line 5, 1024 times, so that phase 1 is over before task 'b' "
        "sees it\n  8: " +
            kAdvice);
  check(tasks("barrier_arrive(x[0]);", "for i in range(0, n) { barrier_wait(x[0], 0); }"), ""); // it is complete once
}

TEST_CASE("static checks: what depends on the warp") {
  auto branch = [](const char *body) {
    return std::string("kernel k(p: *f32, n: i32) launch(num_warps = 4) {\n  let bar = alloc_barriers(1);\n  let x = "
                       "load(p + arange(0, 512));\n") +
           body + "\n}\n";
  };
  CHECK(said(branch("let any = warp_any(x > 1.0);\nif any { barrier_arrive(bar[0]); }")) ==
        "5:10 error: a branch that warp_any decides keeps to the warp, and this needs others: barrier_arrive");
  CHECK(
      said(branch(
          "var any = false;\nfor i in range(0, n) { if any { barrier_arrive(bar[0]); } any = warp_any(x > 1.0); }")) ==
      "5:33 error: a branch that warp_any decides keeps to the warp, and this needs others: barrier_arrive");
  CHECK(said(branch("var (any, i) = (false, 0);\nwhile i < n { if any { barrier_arrive(bar[0]); } any = warp_any(x > "
                    "1.0); i += 1; }")) ==
        "5:24 error: a branch that warp_any decides keeps to the warp, and this needs others: barrier_arrive");
}

TEST_CASE("static checks: the kernels that ship, and gemm_ws with one thing wrong") {
  CHECK(said(shipped("gemm_ws.tlx")) == "");
  for (const char *consumers : {"2", "3"})
    for (const char *flag : {"true", "false"})
      CHECK(said(shipped("attention_ws.tlx"), {{"D", "64"},
                                               {"BM", consumers[0] == '2' ? "128" : "192"},
                                               {"CONSUMERS", consumers},
                                               {"REGISTERS", consumers[0] == '2' ? "240" : "160"},
                                               {"CAUSAL", flag},
                                               {"DYNAMIC", flag}}) == "");
  struct Mutant {
    const char *what, *with, *message;
  };
  for (const Mutant &m : {
           Mutant{"barrier_wait(empty[slot], phase ^ 1);", "barrier_wait(empty[slot], phase);",
                  "25:21 error: task 'producer' can wait here for ever (M = N = K = 1024): phase 0 of empty[0] needs 2 "
                  "arrivals and gets 0\n  41: task 'consumer' (replica 0) waits for phase 0 of full[0]"},
           {"barrier_arrive(empty[last], pred = k > 0);", "",
            "25:21 error: task 'producer' can wait here for ever (M = N = K = 1024): phase 0 of empty[0] needs 2 "
            "arrivals and gets 0\n  41: task 'consumer' (replica 0) waits for phase 1 of full[0]"},
           {"alloc_barriers(STAGES, arrive_count = 2)", "alloc_barriers(STAGES, arrive_count = 1)",
            "25:21 error: task 'producer' can wait here for ever (M = N = K = 1024): empty[0] completes a phase with "
            "each arrival, and since task 'producer' passed it last it got 2: task 'consumer' (replica 0) in line 45, "
            "task 'consumer' (replica 1) in line 45, so that phase 1 is over before task 'producer' sees it\n"},
           {"alloc_barriers(STAGES, arrive_count = 2)", "alloc_barriers(STAGES, arrive_count = 3)",
            "25:21 error: task 'producer' can wait here for ever (M = N = K = 1024): phase 0 of empty[0] needs 3 "
            "arrivals and gets 2: task 'consumer' (replica 0) in line 45, task 'consumer' (replica 1) in line 45\n"},
           {"bytes_of(a_ring[slot]) + bytes_of(b_ring[slot])", "bytes_of(a_ring[slot])",
            "26:21 error: 16384 bytes are expected at full and 49152 arrive there: 16384 by the load in line 27, 32768 "
            "by the load in line 28"},
           {"barrier_wait(full[slot], phase);", "barrier_wait(full[slot], 0);",
            "25:21 error: task 'producer' can wait here for ever (M = N = K = 512): empty[0] completes a phase with "
            "each 2 arrivals, and since"},
           {"barrier_wait(empty[slot], phase ^ 1);", "",
            "41:21 error: task 'consumer' (replica 0) can wait here for ever (M = N = K = 1024): full[2] completes a "
            "phase with each arrival, and since"},
           {"(slot, phase) = ring_next(slot, phase, STAGES);\n                }\n                acc",
            "(slot, phase) = ring_next(slot, phase, STAGES + 1);\n                }\n                acc",
            "41:21 error: there is no slot 3 in full: they go from 0, and it has 3\n  14: declared here (M = N = K = "
            "1024)"},
       }) {
    std::string text = shipped("gemm_ws.tlx");
    const size_t at = text.find(m.what);
    REQUIRE(at != std::string::npos);
    text.replace(at, std::string(m.what).size(), m.with);
    CAPTURE(m.with);
    const std::string got = said(text);
    CHECK_MESSAGE(got.rfind(m.message, 0) == 0, got);
    const bool constant = std::string(m.with).find("], 0)") != std::string::npos;
    CHECK((got.find("\n41:21 warning: task 'consumer' (replica 0) waits here for phase 0 of full[0] each time") !=
           std::string::npos) == constant);
    CHECK(said(text, {}, TLX_COMPILE_NO_STATIC_CHECKS) == "");
  }
}
