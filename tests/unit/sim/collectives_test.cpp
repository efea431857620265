// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Warp collectives against plain loops over lanes and matrices.
#include <doctest/doctest.h>

#include "device_ops/device_ops.h"
#include "sim_test.h"

using namespace sim_test;

namespace {
/// out[tid] = OP(…) for a kernel body that computes i32 %r from i32 %t and i32 %v = in[tid].
std::string laneKernel(const char *id, const std::string &compute) {
  return std::string("(ptr addrspace(1) %in, ptr addrspace(1) %out) {\n  %t = call i32 @") + id + R"(()
  %pi = getelementptr i32, ptr addrspace(1) %in, i32 %t
  %v = load i32, ptr addrspace(1) %pi, align 4
)" + compute +
         R"(
  %po = getelementptr i32, ptr addrspace(1) %out, i32 %t
  store i32 %r, ptr addrspace(1) %po, align 4
  ret void
})";
}

std::vector<uint32_t> runLanes(const std::string &body, const char *target, unsigned threads,
                               const std::vector<uint32_t> &in, Schedule schedule = Schedule::InOrder) {
  auto p = program(body, target, threads);
  Memory memory;
  auto *din = upload(memory, in);
  auto *dout = static_cast<uint32_t *>(memory.allocate(threads * 4));
  LaunchConfig config;
  config.schedule = schedule;
  config.seed = 3;
  auto result = launch(*p, config, params(din, dout), memory);
  CHECK_MESSAGE(result.ok(), text(result));
  return download(memory, dout, threads);
}

std::vector<uint32_t> iota(unsigned n) {
  std::vector<uint32_t> v(n);
  for (unsigned i = 0; i < n; ++i) v[i] = i * i + 7;
  return v;
}
} // namespace

TEST_CASE("every row of the device-operation tables has a simulator function") {
  for (const auto &op : tlx::device_ops::allDeviceOps()) CHECK_MESSAGE(tlx::sim::implementsDeviceOp(op.name), op.name);
}

TEST_CASE("shuffle reduction over 32 lanes") {
  std::string steps = "  %s16 = add i32 %v, 0\n";
  for (int d = 16; d; d /= 2) {
    std::string i = std::to_string(d), n = std::to_string(d / 2);
    steps += "  %x" + i + " = call i32 @tlx.nv.shfl.bfly(i32 -1, i32 %s" + i + ", i32 " + i + ")\n  %s" + n +
             " = add i32 %s" + i + ", %x" + i + "\n";
  }
  auto in = iota(64);
  for (auto schedule : kSchedules) {
    auto out = runLanes(laneKernel("tlx.nv.tid.x", steps + "  %r = add i32 %s0, 0"), "sm_80", 64, in, schedule);
    for (unsigned i = 0; i < 64; ++i) {
      uint32_t sum = 0;
      for (unsigned l = 0; l < 32; ++l) sum += in[i / 32 * 32 + l];
      CHECK(out[i] == sum);
    }
  }
}

TEST_CASE("shuffle reduction over 64 lanes") {
  std::string steps = "  %s32 = add i32 %v, 0\n";
  for (int d = 32; d; d /= 2) {
    std::string i = std::to_string(d), n = std::to_string(d / 2);
    steps += "  %l" + i + " = xor i32 %t, " + i + "\n  %a" + i + " = shl i32 %l" + i + ", 2\n  %x" + i +
             " = call i32 @tlx.amd.ds.bpermute(i32 %a" + i + ", i32 %s" + i + ")\n  %s" + n + " = add i32 %s" + i +
             ", %x" + i + "\n";
  }
  auto in = iota(128);
  for (auto schedule : kSchedules) {
    auto out =
        runLanes(laneKernel("tlx.amd.workitem.id.x", steps + "  %r = add i32 %s0, 0"), "gfx942", 128, in, schedule);
    for (unsigned i = 0; i < 128; ++i) {
      uint32_t sum = 0;
      for (unsigned l = 0; l < 64; ++l) sum += in[i / 64 * 64 + l];
      CHECK(out[i] == sum);
    }
  }
}

TEST_CASE("the other shuffles, votes, readfirstlane, ballot") {
  auto in = iota(32);
  auto up =
      runLanes(laneKernel("tlx.nv.tid.x", "  %r = call i32 @tlx.nv.shfl.up(i32 -1, i32 %v, i32 3)"), "sm_80", 32, in);
  auto down =
      runLanes(laneKernel("tlx.nv.tid.x", "  %r = call i32 @tlx.nv.shfl.down(i32 -1, i32 %v, i32 5)"), "sm_80", 32, in);
  auto idx =
      runLanes(laneKernel("tlx.nv.tid.x", "  %r = call i32 @tlx.nv.shfl.idx(i32 -1, i32 %v, i32 9)"), "sm_80", 32, in);
  for (unsigned i = 0; i < 32; ++i) {
    CHECK(up[i] == in[i < 3 ? i : i - 3]);
    CHECK(down[i] == in[i + 5 > 31 ? i : i + 5]);
    CHECK(idx[i] == in[9]);
  }
  auto votes = runLanes(laneKernel("tlx.nv.tid.x", R"(
  %p = icmp slt i32 %t, 5
  %q = icmp slt i32 %t, 32
  %b = call i32 @tlx.nv.vote.ballot(i32 -1, i1 %p)
  %any = call i1 @tlx.nv.vote.any(i32 -1, i1 %p)
  %all = call i1 @tlx.nv.vote.all(i32 -1, i1 %p)
  %all2 = call i1 @tlx.nv.vote.all(i32 -1, i1 %q)
  call void @tlx.nv.bar.warp.sync(i32 -1)
  %anyi = select i1 %any, i32 256, i32 0
  %alli = select i1 %all, i32 512, i32 0
  %all2i = select i1 %all2, i32 1024, i32 0
  %r0 = or i32 %b, %anyi
  %r1 = or i32 %r0, %alli
  %r = or i32 %r1, %all2i)"),
                        "sm_80", 32, in);
  CHECK(votes[17] == (31 | 256 | 1024));
  auto wave = iota(64);
  auto amd = runLanes(laneKernel("tlx.amd.workitem.id.x", R"(
  %first = call i32 @tlx.amd.readfirstlane(i32 %v)
  %p = icmp sge i32 %t, 60
  %b = call i64 @tlx.amd.ballot(i1 %p)
  %h = lshr i64 %b, 32
  %h32 = trunc i64 %h to i32
  %r = add i32 %h32, %first)"),
                      "gfx942", 64, wave);
  CHECK(amd[40] == 0xf0000000u + wave[0]);
}

TEST_CASE("ldmatrix and stmatrix, plain and transposed") {
  // Each lane's row lies at 16 · lane. The tile of 32 rows of 8 halves is 0, 1, 2, …; matrix i is rows 8i … 8i + 7.
  for (bool trans : {false, true}) {
    const std::string suffix = trans ? ".trans" : "";
    auto p = program(R"((ptr addrspace(1) %out, ptr addrspace(1) %back) {
  %t = call i32 @tlx.nv.tid.x()
  %s = call ptr addrspace(3) @tlx.smem.base()
  %o = shl i32 %t, 4
  %row = getelementptr i8, ptr addrspace(3) %s, i32 %o
  %e = shl i32 %t, 3
  %e0 = insertelement <8 x i32> poison, i32 %e, i32 0
  %e1 = shufflevector <8 x i32> %e0, <8 x i32> poison, <8 x i32> zeroinitializer
  %e2 = add <8 x i32> %e1, <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %h = trunc <8 x i32> %e2 to <8 x i16>
  store <8 x i16> %h, ptr addrspace(3) %row, align 16
  call void @tlx.nv.bar.sync(i32 0, i32 32)
  %v = call <4 x i32> @tlx.nv.ldmatrix.x4)" +
                         suffix + R"((ptr addrspace(3) %row)
  %po = getelementptr <4 x i32>, ptr addrspace(1) %out, i32 %t
  store <4 x i32> %v, ptr addrspace(1) %po, align 16
  %row2 = getelementptr i8, ptr addrspace(3) %row, i32 512
  call void @tlx.nv.stmatrix.x4)" +
                         suffix + R"((ptr addrspace(3) %row2, <4 x i32> %v)
  call void @tlx.nv.bar.sync(i32 0, i32 32)
  %w = load <4 x i32>, ptr addrspace(3) %row2, align 16
  %pb = getelementptr <4 x i32>, ptr addrspace(1) %back, i32 %t
  store <4 x i32> %w, ptr addrspace(1) %pb, align 16
  ret void
})",
                     "sm_90a", 32, 1024);
    Memory memory;
    auto *out = static_cast<uint16_t *>(memory.allocate(512)), *back = static_cast<uint16_t *>(memory.allocate(512));
    auto result = launch(*p, {}, params(out, back), memory);
    CHECK_MESSAGE(result.ok(), text(result));
    auto v = download(memory, out, 256), w = download(memory, back, 256);
    for (unsigned lane = 0; lane < 32; ++lane)
      for (unsigned i = 0; i < 4; ++i)
        for (unsigned h = 0; h < 2; ++h) {
          unsigned row = lane / 4, col = lane % 4 * 2 + h;
          unsigned expected = trans ? (8 * i + col) * 8 + row : (8 * i + row) * 8 + col;
          CHECK(v[lane * 8 + i * 2 + h] == expected);
        }
    for (unsigned i = 0; i < 256; ++i) CHECK(w[i] == i);
  }
}
