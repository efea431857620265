// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Global memory: results, masks, and what is wrong with accesses.
#include <doctest/doctest.h>

#include "sim_test.h"

using namespace sim_test;
using tlx::sim::FindingKind;
using tlx::sim::launch;
using tlx::sim::LaunchConfig;
using tlx::sim::Memory;

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
