// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// All of Hopper's units together: a warp-specialized matrix product, 128 x 256 x 64 a CTA, a producer thread and two
// consumer warpgroups, TMA into a ring of two slots, wgmma with one group in flight.
#include "gemm_test.h"

#include <doctest/doctest.h>
#include <random>

#include "hopper_test.h"

namespace sim_test {

namespace {
std::string gemm(const GemmVariant &v) {
  const std::string fill = R"(  %so = mul i32 %pslot, 49152
  %sa = add i32 %so, 1024
  %sb = add i32 %so, 17408
  %da = getelementptr i8, ptr addrspace(3) %s, i32 %sa
  %db = getelementptr i8, ptr addrspace(3) %s, i32 %sb
  call void @tlx.nv.mbarrier.arrive.expect.tx(ptr addrspace(3) %pfull, i32 )" +
                           std::to_string(v.expected) + R"()
  %k0 = shl i32 %k, 6
  call void @tlx.nv.tma.load.2d(ptr addrspace(3) %da, ptr addrspace(3) %pfull, ptr %ma, i32 %k0, i32 %m0, i64 0)
  call void @tlx.nv.tma.load.2d(ptr addrspace(3) %db, ptr addrspace(3) %pfull, ptr %mb, i32 %k0, i32 %n0, i64 0)
)";
  std::string text =
      R"((ptr byval([128 x i8]) align 64 %ma, ptr byval([128 x i8]) align 64 %mb, ptr addrspace(1) %result, i32 %n, i32 %steps) {
entry:
  %acc = alloca [128 x float], align 16
  %t = call i32 @tlx.nv.tid.x()
  %s = call ptr addrspace(3) @tlx.smem.base()
  %cx = call i32 @tlx.nv.ctaid.x()
  %cy = call i32 @tlx.nv.ctaid.y()
  %m0 = shl i32 %cy, 7
  %n0 = shl i32 %cx, 8
)" + ringBarriers(2, 384) +
      R"(  %w = lshr i32 %t, 7
  %consumer = icmp ult i32 %w, 2
  br i1 %consumer, label %c, label %other
other:
  %producer = icmp eq i32 %t, 256
  br i1 %producer, label %p, label %end
)" + ringProducer("other", fill, "%steps") +
      R"(c:
  %i = phi i32 [ 0, %all ], [ %i1, %cnext ]
)" + ringStep("i", "c") +
      (v.waitForFull ? waitFor("cfull", "%cpar", "cw") : "  br label %cwdone\ncwdone:\n") +
      R"(  %cso = mul i32 %cslot, 49152
  %arow = shl i32 %w, 13
  %window = ptrtoint ptr addrspace(3) %s to i32
  %abase = add i32 %cso, %window
  %aoff = add i32 %abase, 1024
  %aadr = add i32 %aoff, %arow
  %badr = add i32 %abase, 17408
  %am = and i32 %aadr, 262143
  %bm = and i32 %badr, 262143
  %al = lshr i32 %am, 4
  %bl = lshr i32 %bm, 4
)" + std::string(v.fence ? "  call void @tlx.nv.wgmma.fence()\n" : "");
  for (unsigned kk = 0; kk < 4; ++kk) {
    const std::string q = std::to_string(kk);
    text += "  %al" + q + " = add i32 %al, " + std::to_string(2 * kk) + "\n  %bl" + q + " = add i32 %bl, " +
            std::to_string(2 * kk) + "\n";
    for (const char *o : {"a", "b"})
      text += std::string("  %") + o + "w" + q + " = zext i32 %" + o + "l" + q + " to i64\n  %" + o + "d" + q +
              " = or i64 %" + o + "w" + q + ", " + std::to_string(int64_t(64ull << 32 | 1ull << 62 | 1 << 16)) + "\n";
    text += "  %ks" + q + " = add i32 %i, " + q + "\n  %uc" + q + " = icmp ne i32 %ks" + q + ", 0\n  %use" + q +
            " = zext i1 %uc" + q + " to i32\n  call void @tlx.nv.wgmma.ss.f32.f16.f16(ptr %acc, i64 %ad" + q +
            ", i64 %bd" + q + ", i32 %use" + q + ", i32 256, i32 0)\n";
  }
  text += R"(  call void @tlx.nv.wgmma.commit()
  call void @tlx.nv.wgmma.wait(i32 1)
  %lane = and i32 %t, 127
  %isFirst = icmp eq i32 %lane, 0
  %later = icmp )" +
          std::string(v.releaseCurrent ? "sge" : "sgt") + R"( i32 %i, 0
  %rel = and i1 %isFirst, %later
  br i1 %rel, label %release, label %cnext
release:
  %prev = )" +
          (v.releaseCurrent ? "or i32 %cslot, 0" : "xor i32 %cslot, 1") + R"(
  %prev8 = shl i32 %prev, 3
  %released = getelementptr i8, ptr addrspace(3) %empty0, i32 %prev8
  call void @tlx.nv.mbarrier.arrive(ptr addrspace(3) %released, i32 1)
  br label %cnext
cnext:
  %i1 = add i32 %i, 1
  %cmore = icmp slt i32 %i1, %steps
  br i1 %cmore, label %c, label %out
out:
  call void @tlx.nv.wgmma.wait(i32 0)
)" + std::string(v.retire ? "  call void @tlx.nv.wgmma.retire(ptr %acc, i32 128)\n" : "") +
          R"(  %ln = and i32 %t, 31
  %g = lshr i32 %ln, 2
  %tw = lshr i32 %t, 5
  %t16 = shl i32 %tw, 4
  %r0 = add i32 %t16, %g
  %row = add i32 %r0, %m0
  %q4 = and i32 %ln, 3
  %q2 = shl i32 %q4, 1
  %col = add i32 %q2, %n0
  %rn = mul i32 %row, %n
  %at = add i32 %rn, %col
  %at64 = sext i32 %at to i64
  %p0 = getelementptr float, ptr addrspace(1) %result, i64 %at64
  %n8 = shl i32 %n, 3
  %n64 = sext i32 %n8 to i64
  %p1 = getelementptr float, ptr addrspace(1) %p0, i64 %n64
)";
  for (unsigned i = 0; i < 128; i += 2) {
    const std::string k = std::to_string(i);
    text += "  %x" + k + " = getelementptr float, ptr %acc, i32 " + k + "\n  %v" + k + " = load <2 x float>, ptr %x" +
            k + ", align 8\n  %y" + k + " = getelementptr float, ptr addrspace(1) %p" + std::to_string(i / 2 % 2) +
            ", i32 " + std::to_string(i / 4 * 8) + "\n  store <2 x float> %v" + k + ", ptr addrspace(1) %y" + k +
            ", align 8\n";
  }
  return text + "  br label %end\nend:\n  ret void\n}";
}
} // namespace

std::unique_ptr<Program> gemmProgram(const GemmVariant &variant) {
  return program(gemm(variant), "sm_90a", 384, 1024 + 2 * 49152);
}

GemmData::GemmData(unsigned m, unsigned n, unsigned k) : m(m), n(n), k(k), a(m * k), b(n * k), c(m * n) {
  static const uint16_t kHalves[] = {0xc400, 0xc200, 0xc000, 0xbc00, 0, 0x3c00, 0x4000, 0x4200, 0x4400}; // -4 to 4
  std::mt19937 rng(5);
  std::vector<float> fa(m * k), fb(n * k);
  for (size_t i = 0; i < a.size(); ++i) {
    unsigned x = rng() % 9;
    a[i] = kHalves[x];
    fa[i] = float(int(x) - 4);
  }
  for (size_t i = 0; i < b.size(); ++i) {
    unsigned x = rng() % 9;
    b[i] = kHalves[x];
    fb[i] = float(int(x) - 4);
  }
  for (unsigned i = 0; i < m; ++i)
    for (unsigned j = 0; j < n; ++j) {
      float sum = 0;
      for (unsigned e = 0; e < k; ++e) sum += fa[i * k + e] * fb[j * k + e];
      c[i * n + j] = sum;
    }
}

LaunchResult GemmData::run(const Program &p, LaunchConfig config, std::vector<float> &got) const {
  Memory memory;
  uint16_t *da = upload(memory, a), *db = upload(memory, b);
  auto *dc = static_cast<float *>(memory.allocate(c.size() * 4));
  config.grid[0] = n / 256, config.grid[1] = m / 128;
  auto result = launch(p, config,
                       params(tensorMap(da, Element::F16, 2, {k, m}, {64, 128}, 128),
                              tensorMap(db, Element::F16, 2, {k, n}, {64, 256}, 128), dc, int(n), int((k + 63) / 64)),
                       memory);
  got = download(memory, dc, c.size());
  return result;
}

} // namespace sim_test

using namespace sim_test;

TEST_CASE("a warp-specialized product is right under every schedule, also with a last step that is cut off") {
  auto p = gemmProgram();
  for (unsigned k : {320u, 232u, 64u}) {
    const GemmData data(128, 512, k);
    forEachSchedule([&](LaunchConfig &config) {
      std::vector<float> got;
      auto result = data.run(*p, config, got);
      CHECK_MESSAGE(result.ok(), text(result));
      CHECK(got == data.c);
    });
  }
}

TEST_CASE("a warp-specialized product with one mistake") {
  const GemmData data(128, 256, 448);
  auto finds = [&](GemmVariant v, FindingKind kind, const std::string &message) {
    auto p = gemmProgram(v);
    forEachSchedule([&](LaunchConfig &config) {
      std::vector<float> got;
      checkFinding(data.run(*p, config, got), kind, message);
    });
  };
  GemmVariant v;
  v.waitForFull = false;
  auto p = gemmProgram(v);
  forEachSchedule([&](LaunchConfig &config) { // who runs first decides what B is
    std::vector<float> got;
    auto result = data.run(*p, config, got);
    CHECK((has(result, FindingKind::InFlight) || has(result, FindingKind::UninitializedRead)));
  });
  v = {};
  v.fence = false;
  finds(v, FindingKind::MissingFence, "needs tlx.nv.wgmma.fence before it");
  v = {};
  v.retire = false;
  finds(v, FindingKind::AccumulatorInFlight, "read of an accumulator in flight");
  v = {};
  v.expected = 32768;
  finds(v, FindingKind::WrongBytes, "wrong bytes: ");
  // Released while wgmma reads it: found where the producer gets its turn in time.
  v = {};
  v.releaseCurrent = true;
  auto overrun = gemmProgram(v);
  unsigned found = 0;
  forEachSchedule([&](LaunchConfig &config) {
    std::vector<float> got;
    found += has(data.run(*overrun, config, got), FindingKind::SlotOverrun);
  });
  CHECK(found >= 4);
  MESSAGE("a slot released too early: found in " << found << " of 8 schedules");
}
