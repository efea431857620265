// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Measurements, printed only (`test_sim --no-skip -tc="speed*"`): what a warp matrix instruction, a shuffle, a barrier,
// an access cost, and a matrix product.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <doctest/doctest.h>

#include "gemm_test.h"

using namespace sim_test;

namespace {
/// The processor's time, so that a busy machine does not show.
double cpuNanoseconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) * 1e9 + double(t.tv_nsec);
}

/// `body` runs 2000 times in each of 128 (NVIDIA) threads; its values come from %v0 (v4f32), %a (v4i32), %b (v2i32),
/// %t, %p (shared).
double nanosecondsPerStep(const std::string &body, const char *target, std::string last = "%v0") {
  const bool amd = target[0] == 'g';
  auto p = program(R"((ptr addrspace(1) %out) {
entry:
  %t = call i32 @)" + std::string(amd ? "tlx.amd.workitem.id.x" : "tlx.nv.tid.x") +
                       R"(()
  %s = call ptr addrspace(3) @tlx.smem.base()
  %t16 = shl i32 %t, 4
  %p = getelementptr i8, ptr addrspace(3) %s, i32 %t16
  store <4 x i32> zeroinitializer, ptr addrspace(3) %p, align 16
  )" + std::string(amd ? "call void @tlx.amd.fence.release()" : "") +
                       R"(
  br label %loop
loop:
  %k = phi i32 [ 0, %entry ], [ %k1, %loop ]
  %v0 = phi <4 x float> [ zeroinitializer, %entry ], [ )" +
                       last + R"(, %loop ]
)" + body + R"(
  %k1 = add i32 %k, 1
  %more = icmp slt i32 %k1, 2000
  br i1 %more, label %loop, label %done
done:
  ret void
})",
                   target, 128, 4096);
  Memory memory;
  auto *out = upload(memory, std::vector<int>(64, 0));
  double best = 1e18;
  for (int i = 0; i < 20; ++i) {
    const double start = cpuNanoseconds();
    auto result = launch(*p, {}, params(out), memory);
    best = std::min(best, cpuNanoseconds() - start);
    CHECK_MESSAGE(result.ok(), text(result));
  }
  return best / 2000;
}
} // namespace

TEST_CASE("speed" * doctest::skip()) {
  const double loop = nanosecondsPerStep("", "sm_80");
  auto print = [&](const char *what, double step, double per, const char *unit) {
    std::printf("%-28s %8.1f ns a %s\n", what, (step - loop) / per, unit);
  };
  std::printf("%-28s %8.2f ns a thread and iteration\n", "empty loop", loop / 128);
  print("mma m16n8k16 f16",
        nanosecondsPerStep("  %d = call <4 x float> @tlx.nv.mma.m16n8k16.f32.f16(<4 x float> %v0, <4 x i32> "
                           "zeroinitializer, <2 x i32> zeroinitializer)",
                           "sm_80", "%d"),
        4, "warp");
  print("mfma 16x16x16 f16",
        nanosecondsPerStep("  %d = call <4 x float> @tlx.amd.mfma.f32.16x16x16.f16(<2 x i32> zeroinitializer, <2 x "
                           "i32> zeroinitializer, <4 x float> %v0)",
                           "gfx942", "%d"),
        2, "wave");
  print("ldmatrix.x4", nanosecondsPerStep("  %d = call <4 x i32> @tlx.nv.ldmatrix.x4(ptr addrspace(3) %p)", "sm_80"), 4,
        "warp");
  print("shfl.bfly", nanosecondsPerStep("  %d = call i32 @tlx.nv.shfl.bfly(i32 -1, i32 %t, i32 1)", "sm_80"), 128,
        "lane");
  print("bar.sync, 4 warps", nanosecondsPerStep("  call void @tlx.nv.bar.sync(i32 0, i32 128)", "sm_80"), 128,
        "thread");
  print("s.barrier, 2 waves", nanosecondsPerStep("  call void @tlx.amd.s.barrier()", "gfx942"), 128, "thread");
  print("shared load, 16 bytes", nanosecondsPerStep("  %d = load <4 x i32>, ptr addrspace(3) %p, align 16", "sm_80"),
        128, "thread");
  print("shared store, 16 bytes",
        nanosecondsPerStep("  store <4 x i32> zeroinitializer, ptr addrspace(3) %p, align 16", "sm_80"), 128, "thread");
  print("global load, 4 bytes", nanosecondsPerStep("  %d = load i32, ptr addrspace(1) %out, align 4", "sm_80"), 128,
        "thread");
}

TEST_CASE("speed of a warp-specialized product" * doctest::skip()) {
  const GemmData data(256, 512, 256);
  auto p = gemmProgram();
  std::printf("compile %.1f ms\n", p->compileMilliseconds());
  for (Schedule schedule : kSchedules) {
    LaunchConfig config;
    config.schedule = schedule;
    double best = 1e18;
    std::vector<float> got;
    for (int i = 0; i < 20; ++i) {
      const double start = cpuNanoseconds();
      auto result = data.run(*p, config, got);
      best = std::min(best, cpuNanoseconds() - start);
      CHECK_MESSAGE(result.ok(), text(result));
    }
    CHECK(got == data.c);
    std::printf("256 x 512 x 256, schedule %d: %.2f ms\n", int(schedule), best * 1e-6);
  }
}
