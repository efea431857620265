// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Global memory: results, masks, and what is wrong with accesses.
#include <doctest/doctest.h>

#include "sim_test.h"

using namespace sim_test;

namespace {
// z[i] = x[i] + y[i] for i = ctaid * 64 + tid < n, masked.
const char *kAdd = R"((ptr addrspace(1) %x, ptr addrspace(1) %y, ptr addrspace(1) %z, i32 %n) {
  %t = call i32 @tlx.nv.tid.x()
  %c = call i32 @tlx.nv.ctaid.x()
  %b = mul i32 %c, 64
  %i = add i32 %b, %t
  %m = icmp slt i32 %i, %n
  %i64 = sext i32 %i to i64
  %px = getelementptr float, ptr addrspace(1) %x, i64 %i64
  %py = getelementptr float, ptr addrspace(1) %y, i64 %i64
  %pz = getelementptr float, ptr addrspace(1) %z, i64 %i64
  %vx = call float @tlx.masked.load.f32(ptr addrspace(1) %px, i1 %m, float 0.0)
  %vy = call float @tlx.masked.load.f32(ptr addrspace(1) %py, i1 %m, float 0.0)
  %s = fadd float %vx, %vy
  call void @tlx.masked.store.f32(ptr addrspace(1) %pz, i1 %m, float %s)
  ret void
})";
} // namespace

TEST_CASE("vector add with a masked tail, in every schedule") {
  auto p = program(kAdd, "sm_80", 64);
  const int n = 1000;
  std::vector<float> x(n), y(n);
  for (int i = 0; i < n; ++i) x[size_t(i)] = float(i), y[size_t(i)] = float(3 * i);
  for (auto schedule : kSchedules) {
    Memory memory;
    float *dx = upload(memory, x), *dy = upload(memory, y);
    auto *dz = static_cast<float *>(memory.allocate(n * 4));
    LaunchConfig config;
    config.grid[0] = 16;
    config.schedule = schedule;
    config.seed = 7;
    auto result = launch(*p, config, params(dx, dy, dz, n), memory);
    CHECK_MESSAGE(result.ok(), text(result));
    CHECK(result.statistics.ctas == 16);
    auto z = download(memory, dz, n);
    for (int i = 0; i < n; ++i) REQUIRE(z[size_t(i)] == 4 * i);
  }
}

namespace {
/// Loads x[i + offset] and stores it to y[i], one thread an element.
std::string copyAt(const std::string &load, const std::string &type = "i32") {
  return R"((ptr addrspace(1) %x, ptr addrspace(1) %y, i64 %offset) {
  %t = call i32 @tlx.nv.tid.x()
  %i = sext i32 %t to i64
  %b = mul i64 %i, 4
  %o = add i64 %b, %offset
  %px = getelementptr i8, ptr addrspace(1) %x, i64 %o
  %v = load )" +
         load + R"(
  %py = getelementptr i8, ptr addrspace(1) %y, i64 %b
  store )" +
         type + R"( %v, ptr addrspace(1) %py, align 4
  ret void
})";
}
const std::string kCopy = copyAt("i32, ptr addrspace(1) %px, align 4");

LaunchResult runCopy(Program &p, int64_t offset, bool writeAll = true) {
  Memory memory;
  auto *x = static_cast<int *>(memory.allocate(128)), *y = static_cast<int *>(memory.allocate(128));
  std::vector<int> values(32, 5);
  memory.write(x, values.data(), writeAll ? 128 : 124);
  return launch(p, {}, params(x, y, offset), memory);
}
} // namespace

TEST_CASE("out of bounds, both sides, names the argument") {
  auto p = program(kCopy, "sm_80", 32, 0, {"x", "y"});
  CHECK(runCopy(*p, 0).ok());
  auto after = runCopy(*p, 4);
  REQUIRE(after.findings.size() == 1);
  CHECK(after.completed);
  CHECK(after.findings[0].kind == FindingKind::OutOfBounds);
  CHECK(after.findings[0].thread == 31);
  CHECK(after.findings[0].file == "k.tlx");
  CHECK(after.findings[0].line == 6);
  CHECK(after.findings[0].message == "out of bounds: global read of 4 bytes at the end of argument 'x' (128 bytes)");
  auto far = runCopy(*p, 128 + 128);
  REQUIRE(far.findings.size() == 1);
  CHECK(far.findings[0].count == 32);
  CHECK(far.findings[0].message ==
        "out of bounds: global read of 4 bytes 128 bytes past the end of argument 'x' (128 bytes)");
  auto before = runCopy(*p, -8);
  REQUIRE(before.findings.size() == 1);
  CHECK(before.findings[0].count == 2);
  CHECK(before.findings[0].message ==
        "out of bounds: global read of 4 bytes 8 bytes before the start of argument 'x' (128 bytes)");
}

TEST_CASE("misaligned and uninitialized global reads") {
  auto p = program(kCopy);
  auto misaligned = runCopy(*p, 2);
  CHECK(has(misaligned, FindingKind::Misaligned));
  auto unwritten = runCopy(*p, 0, false);
  REQUIRE(unwritten.findings.size() == 1);
  CHECK(unwritten.findings[0].kind == FindingKind::UninitializedRead);
  CHECK(unwritten.findings[0].thread == 31);
  auto wide = program(copyAt("<4 x i32>, ptr addrspace(1) %px, align 16", "<4 x i32>"));
  CHECK(has(runCopy(*wide, 0), FindingKind::Misaligned));
}

TEST_CASE("external memory is accessible and counts as written") {
  auto p = program(kCopy);
  Memory memory;
  std::vector<int> x(32, 9), y(32, 0);
  memory.registerExternal(x.data(), 128);
  CHECK(has(launch(*p, {}, params(x.data(), y.data(), int64_t(0)), memory), FindingKind::OutOfBounds));
  memory.registerExternal(y.data(), 128);
  auto result = launch(*p, {}, params(x.data(), y.data(), int64_t(0)), memory);
  CHECK_MESSAGE(result.ok(), text(result));
  CHECK(y[31] == 9);
  CHECK(memory.unregisterExternal(x.data()));
  CHECK(!memory.free(y.data()));
}

TEST_CASE("shared memory: bounds, alignment, uninitialized reads") {
  const std::string kernel = R"((ptr addrspace(1) %out, i32 %to, i32 %from) {
  %s = call ptr addrspace(3) @tlx.smem.base()
  %p = getelementptr i8, ptr addrspace(3) %s, i32 %to
  store i32 42, ptr addrspace(3) %p, align 4
  %q = getelementptr i8, ptr addrspace(3) %s, i32 %from
  %v = load i32, ptr addrspace(3) %q, align 4
  store i32 %v, ptr addrspace(1) %out, align 4
  ret void
})";
  for (const char *target : {"sm_80", "gfx942"}) {
    auto p = program(kernel, target, target[0] == 's' ? 32 : 64, 256);
    auto run = [&](int to, int from) {
      Memory memory;
      auto *out = static_cast<int *>(memory.allocate(4));
      return launch(*p, {}, params(out, to, from), memory);
    };
    CHECK_MESSAGE(run(8, 8).ok(), text(run(8, 8)));
    CHECK(run(8, 12).findings.at(0).kind == FindingKind::UninitializedRead);
    CHECK(run(8, 12).findings.at(0).line == 5);
    CHECK(run(252, 252).ok());
    CHECK(run(256, 252).findings.at(0).kind == FindingKind::OutOfBounds);
    CHECK(run(-4, 252).findings.at(0).kind == FindingKind::OutOfBounds);
    CHECK(run(10, 8).findings.at(0).kind == FindingKind::Misaligned);
  }
}

TEST_CASE("a frame that is larger than a thread's stack is a finding, however large it is") {
  for (const char *words : {"51200", "1048576"}) { // 200 KB, 4 MB
    CAPTURE(std::string(words));
    auto p = program(std::string("(ptr addrspace(1) %out) {\n  %a = alloca [") + words + R"( x i32], align 4
  %t = call i32 @tlx.nv.tid.x()
  %p = getelementptr i32, ptr %a, i32 %t
  store i32 %t, ptr %p, align 4
  ret void
})",
                     "sm_80", 64);
    Memory memory;
    auto result = launch(*p, {}, params(memory.allocate(4)), memory);
    CHECK(!result.completed);
    REQUIRE(result.findings.size() == 1);
    CHECK(result.findings[0].kind == FindingKind::Fault);
    CHECK(result.findings[0].message == "the thread's stack overflows (128 KB): more warps or a smaller tile");
    CHECK(result.findings[0].file == "k.tlx");
    CHECK(result.findings[0].line == 1);
  }
}
