// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the instrumentation adds to arithmetic, conversions of the host's runtime, printing, faults.
#include <cmath>
#include <csignal>
#include <doctest/doctest.h>

#include "sim_test.h"

using namespace sim_test;

TEST_CASE("a 32-bit wrap that reaches an address is a finding, unless the access is masked off") {
  // x[n · stride] through 32 bits, guarded by %on.
  auto p = program(R"((ptr addrspace(1) %x, i32 %n, i32 %stride, i1 %on) {
  %o = mul i32 %n, %stride
  %o1 = add i32 %o, 3
  %i = sext i32 %o1 to i64
  %p = getelementptr i32, ptr addrspace(1) %x, i64 %i
  %v = call i32 @tlx.masked.load.i32(ptr addrspace(1) %p, i1 %on, i32 0)
  ret void
})");
  Memory memory;
  auto *x = upload(memory, std::vector<int>(64, 1));
  auto run = [&](int n, int stride, bool on) { return launch(*p, {}, params(x, n, stride, uint8_t(on)), memory); };
  CHECK(run(5, 7, true).ok());
  CHECK(run(5, -1, true).findings.at(0).kind == FindingKind::OutOfBounds);
  auto wrapped = run(65536, 65536, true); // 2^32: the address is x[3], in bounds
  REQUIRE(wrapped.findings.size() == 1);
  CHECK(wrapped.findings[0].kind == FindingKind::AddressWrap);
  CHECK(wrapped.findings[0].message.find("k.tlx:1:1") != std::string::npos);
  CHECK(run(65536, 65536, false).ok());
}

TEST_CASE("the wrap is followed through a loop") {
  // offset += step, 8 times; the access uses the last offset.
  auto p = program(R"((ptr addrspace(1) %x, i32 %step) {
entry:
  br label %loop
loop:
  %k = phi i32 [ 0, %entry ], [ %k1, %loop ]
  %o = phi i32 [ 0, %entry ], [ %o1, %loop ]
  %o1 = add i32 %o, %step
  %k1 = add i32 %k, 1
  %more = icmp slt i32 %k1, 8
  br i1 %more, label %loop, label %done
done:
  %i = sext i32 %o1 to i64
  %p = getelementptr i32, ptr addrspace(1) %x, i64 %i
  %v = load i32, ptr addrspace(1) %p, align 4
  ret void
})");
  Memory memory;
  auto *x = upload(memory, std::vector<int>(64, 1));
  CHECK(launch(*p, {}, params(x, 7), memory).ok());
  auto wrapped = launch(*p, {}, params(x, 1 << 30), memory); // 2^33 wraps to 0
  REQUIRE(wrapped.findings.size() == 1);
  CHECK(wrapped.findings[0].kind == FindingKind::AddressWrap);
}

TEST_CASE("division by zero is a finding, MIN / -1 wraps") {
  auto p = program(R"((ptr addrspace(1) %out, i32 %a, i32 %b) {
  %q = sdiv i32 %a, %b
  %r = srem i32 %a, %b
  %u = udiv i32 %a, %b
  store i32 %q, ptr addrspace(1) %out, align 4
  %p1 = getelementptr i32, ptr addrspace(1) %out, i64 1
  store i32 %r, ptr addrspace(1) %p1, align 4
  %p2 = getelementptr i32, ptr addrspace(1) %out, i64 2
  store i32 %u, ptr addrspace(1) %p2, align 4
  ret void
})");
  Memory memory;
  auto *out = static_cast<int *>(memory.allocate(12));
  CHECK(launch(*p, {}, params(out, -7, 2), memory).ok());
  CHECK(download(memory, out, 2) == std::vector<int>{-3, -1});
  CHECK(launch(*p, {}, params(out, INT32_MIN, -1), memory).ok());
  CHECK(download(memory, out, 2) == std::vector<int>{INT32_MIN, 0});
  auto zero = launch(*p, {}, params(out, 5, 0), memory);
  CHECK(zero.completed);
  CHECK(zero.findings.size() == 3);
  CHECK(zero.findings[0].kind == FindingKind::DivisionByZero);
  CHECK(zero.findings[0].line == 1);
  CHECK(download(memory, out, 3) == std::vector<int>{-1, 0, -1});
}

TEST_CASE("conversions and functions of the host's runtime") {
  auto p = program(R"((ptr addrspace(1) %out, float %x, double %d) {
  %b = fptrunc float %x to bfloat
  store bfloat %b, ptr addrspace(1) %out, align 2
  %h = fptrunc float %x to half
  %p1 = getelementptr half, ptr addrspace(1) %out, i64 1
  store half %h, ptr addrspace(1) %p1, align 2
  %dh = fptrunc double %d to half
  %p2 = getelementptr half, ptr addrspace(1) %out, i64 2
  store half %dh, ptr addrspace(1) %p2, align 2
  %e = call float @llvm.exp2.f32(float %x)
  %eh = fptrunc float %e to half
  %ef = fpext half %eh to float
  %pk = call i32 @tlx.nv.cvt.rn.bf16x2(float %ef, float %x)
  %p4 = getelementptr half, ptr addrspace(1) %out, i64 4
  store i32 %pk, ptr addrspace(1) %p4, align 4
  %pf = call i32 @tlx.nv.cvt.rn.f16x2(float %x, float %ef)
  %p6 = getelementptr half, ptr addrspace(1) %out, i64 6
  store i32 %pf, ptr addrspace(1) %p6, align 4
  ret void
}
declare float @llvm.exp2.f32(float))");
  Memory memory;
  auto *out = static_cast<uint16_t *>(memory.allocate(16));
  auto result = launch(*p, {}, params(out, 3.0f, 1.0 + 1.0 / 2048 + 1e-9), memory);
  CHECK_MESSAGE(result.ok(), text(result));
  auto v = download(memory, out, 8);
  CHECK(v[0] == 0x4040); // 3 in bf16
  CHECK(v[1] == 0x4200); // 3 in f16
  CHECK(v[2] == 0x3c01); // just above a tie: a second rounding would give 0x3c00
  CHECK(v[4] == 0x4040);
  CHECK(v[5] == 0x4100); // 8 in bf16
  CHECK(v[6] == 0x4800); // 8 in f16
  CHECK(v[7] == 0x4200);
}

TEST_CASE("printing") {
  auto p = program(R"((i32 %x) {
  %a = alloca [32 x i8], align 8
  %t = call i32 @tlx.nv.tid.x()
  %first = icmp eq i32 %t, 3
  br i1 %first, label %yes, label %no
yes:
  store i32 %x, ptr %a, align 4
  %p8 = getelementptr i8, ptr %a, i64 8
  store double 1.5, ptr %p8, align 8
  %p16 = getelementptr i8, ptr %a, i64 16
  store i64 -5, ptr %p16, align 8
  call void @tlx.print(ptr @format, ptr %a, i32 24)
  ret void
no:
  ret void
}
@format = private constant [27 x i8] c"x=%05d f=%.2f l=%lld 100%%\00")");
  Memory memory;
  std::string streamed;
  LaunchConfig config;
  config.onPrint = [&](const std::string &s) { streamed += s; };
  auto result = launch(*p, config, params(42), memory);
  CHECK_MESSAGE(result.ok(), text(result));
  CHECK(result.printed == "x=00042 f=1.50 l=-5 100%");
  CHECK(streamed == result.printed);
}

TEST_CASE("faults inside a kernel are findings, and the process keeps its handlers") {
  struct sigaction before, after;
  sigaction(SIGSEGV, nullptr, &before);
  auto wild = program(R"((i64 %a) {
  %p = inttoptr i64 %a to ptr
  store i32 1, ptr %p, align 4
  ret void
})");
  auto deep = program(R"((i32 %x) {
  %a = alloca [300000 x i8], align 16
  %c = call i32 @tlx.nv.tid.x()
  store volatile i32 %x, ptr %a, align 4
  ret void
})");
  auto trap = program(R"((i32 %x) {
  call void @tlx.trap()
  ret void
})");
  Memory memory;
  for (int i = 0; i < 3; ++i) {
    auto result = launch(*wild, {}, params(int64_t(16)), memory);
    CHECK(!result.completed);
    CHECK(result.findings.at(0).kind == FindingKind::Fault);
    CHECK(has(launch(*deep, {}, params(1), memory), FindingKind::Fault));
    CHECK(has(launch(*trap, {}, params(1), memory), FindingKind::Trap));
  }
  sigaction(SIGSEGV, nullptr, &after);
  CHECK((before.sa_handler == after.sa_handler));
}
