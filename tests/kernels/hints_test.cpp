// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Hints of caches on loads and stores, and assertions of kernels.
#include "operations.h"

using namespace operations;

namespace {
bool nvidia(const std::string &target) {
  return target.starts_with("sm_");
}
std::string refusal(const std::string &text, const std::string &target) {
  try {
    compileText(text, {"hints.tlx", "", {}, {}}, target);
  } catch (const std::exception &e) {
    return e.what();
  }
  return "";
}
} // namespace

TEST_CASE("hints: loads and stores with each, masked and not, give what they give without") {
  Rng rng(1);
  for (const std::string &target : targets()) {
    std::vector<std::pair<std::string, std::string>> pairs = {
        {"cache = \"ca\"", "cache = \"wb\""},
        {"cache = \"ca\"", "cache = \"cs\""},
        {"eviction = \"evict_first\"", "eviction = \"evict_first\""},
        {"eviction = \"no_allocate\"", "eviction = \"no_allocate\""}};
    if (nvidia(target)) {
      pairs.push_back({"cache = \"cg\"", "cache = \"cg\""});
      pairs.push_back({"cache = \"cv\"", "cache = \"wt\""});
      pairs.push_back({"eviction = \"evict_last\"", "eviction = \"evict_last\""});
    }
    for (auto &[load, store] : pairs)
      for (const char *type : {"f16", "i8", "f64", "f32"}) {
        Array x(type, 300), y(type, 300), z(type, 256);
        x.randomBits(rng);
        std::vector<uint64_t> want = bitsOf(x), whole(want.begin(), want.begin() + 256);
        Job job{replace("kernel k(x: *$T, y: *$T, z: *$T, n: i32) launch(num_warps = 2) requires(aligned(x, 16), "
                        "aligned(z, 16)) {\n"
                        "  for first in range(0, n, 128) {\n    let i = first + arange(0, 128);\n"
                        "    store(y + i, load(x + i, i < n, $L), i < n, $S);\n  }\n"
                        "  let j = arange(0, 256);\n  store(z + j, load(x + j, $L), $S);\n}\n",
                        {{"T", type}, {"L", load}, {"S", store}}),
                {},
                {&x},
                {&y, &z},
                {int32_t(300)}};
        job.on = {target};
        job.inOrderOnly = true;
        execute(job, [&](const std::string &where) {
          expectBits(y, want, where + " " + load), expectBits(z, whole, where + " whole " + load);
        });
      }
  }
}

TEST_CASE("hints: a loop that is pipelined keeps them, on loads that go through registers") {
  Rng rng(2);
  Array a("f16", 32 * 64), c("f16", 64 * 32), y("f32", 32 * 32);
  a.integers(rng, -3, 3), c.integers(rng, -3, 3);
  std::vector<uint64_t> want;
  Array one("f32", 1);
  for (size_t i = 0; i < 32; ++i)
    for (size_t j = 0; j < 32; ++j) {
      double sum = 0;
      for (size_t k = 0; k < 64; ++k) sum += a.value(i * 64 + k) * c.value(k * 32 + j);
      one.set(0, sum), want.push_back(one.raw(0));
    }
  Job job{"kernel k(a: *f16, c: *f16, y: *f32) launch(num_warps = 4) requires(aligned(a, 16), aligned(c, 16)) {\n"
          "  let (i, j, k) = (arange(0, 32), arange(0, 32), arange(0, 16));\n  var acc = zeros([32, 32], f32);\n"
          "  for s in range(0, 64, 16, num_stages = 3) {\n"
          "    let x = load(a + i[:, None] * 64 + (s + k)[None, :], eviction = \"evict_first\");\n"
          "    acc = dot(x, load(c + (s + k)[:, None] * 32 + j[None, :]), acc);\n  }\n"
          "  store(y + i[:, None] * 32 + j[None, :], acc);\n}\n",
          {},
          {&a, &c},
          {&y},
          {}};
  execute(job, [&](const std::string &where) { expectBits(y, want, where); });
}

TEST_CASE("hints: what a target has no meaning for is an error there") {
  for (const std::string &target : targets()) {
    if (nvidia(target)) continue;
    const std::string loads = refusal("kernel k(x: *f32, y: *f32) { store(y, load(x, cache = \"cg\")); }\n", target);
    CHECK_MESSAGE(loads.find("1:39: error: cache = \"cg\" has no meaning on " + target +
                             "; leave it out, or choose by a parameter") != std::string::npos,
                  loads);
    const std::string stores =
        refusal("kernel k(x: *f32, y: *f32) { store(y, load(x), eviction = \"evict_last\"); }\n", target);
    CHECK_MESSAGE(stores.find("eviction = \"evict_last\" has no meaning on " + target) != std::string::npos, stores);
  }
}

TEST_CASE("assertions: one that holds does nothing, one that fails stops the kernel with its place and text") {
  Array x("i32", 64), y("i32", 64);
  for (size_t i = 0; i < 64; ++i) x.set(i, double(i));
  const std::string text =
      "kernel k(x: *i32, y: *i32, limit: i32) launch(num_warps = 2) {\n  let i = arange(0, 64);\n  let v = load(x + "
      "i);\n"
      "  device_assert(v < limit, \"100% of them\");\n  device_assert(limit > 0);\n  store(y + i, v + 1);\n}\n";
  std::vector<uint64_t> want;
  for (size_t i = 0; i < 64; ++i) want.push_back(i + 1);
  Job job{text, {}, {&x}, {&y}, {int32_t(64)}};
  execute(job, [&](const std::string &where) { expectBits(y, want, where); });
  if (!onSimulator()) return; // a trap ends the process's use of a GPU
  for (const std::string &target : targets()) {
    Program program = compileText(text, {"assert.tlx", "", {}, {}}, target);
    tlx::Buffer in = program.device.allocate(x.data.size()), out = program.device.allocate(y.data.size());
    in.write(x.data.data());
    std::vector<uint8_t> untouched(y.data.size(), 0x77);
    out.write(untouched.data());
    std::string problem = program.run({1, 1, 1}, {in, out, int32_t(63)}, {target});
    CHECK_MESSAGE(problem.find("assert.tlx:4:3: assertion failed: 100% of them (thread") != std::string::npos, target,
                  ": ", problem);
    problem = program.run({1, 1, 1}, {in, out, int32_t(0)}, {target});
    CHECK_MESSAGE(problem.find("assertion failed: 100% of them (thread 0") != std::string::npos, target, ": ", problem);
    Program scalar = compileText("kernel k(limit: i32) {\n  if limit > 3 {\n    device_assert(limit < 5);\n  }\n}\n",
                                 {"assert.tlx", "", {}, {}}, target);
    CHECK(scalar.run({1, 1, 1}, {int32_t(4)}, {target}) == "");
    CHECK(scalar.run({1, 1, 1}, {int32_t(3)}, {target}) == "");
    problem = scalar.run({1, 1, 1}, {int32_t(5)}, {target});
    CHECK_MESSAGE(problem.find("assert.tlx:3:5: assertion failed (thread 0") != std::string::npos, target, ": ",
                  problem);
  }
}
