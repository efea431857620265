// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// wgmma: every kind, majorness and swizzle against a plain product, exactly; operands are laid out by the canonical
// layouts of the PTX ISA, element by element, which the simulator addresses by 16-byte units. Then each rule broken
// once.
#include <cmath>
#include <doctest/doctest.h>
#include <random>

#include "hopper_test.h"

using namespace sim_test;

namespace {
enum class Format { F16, BF16, TF32, E4M3, E5M2, S8, U8 };
unsigned bytesOf(Format f) {
  return f == Format::TF32 ? 4 : f == Format::F16 || f == Format::BF16 ? 2 : 1;
}
bool isInteger(Format f) {
  return f == Format::S8 || f == Format::U8;
}

/// A small integer (or a quarter of one) in an operand format: formats by exponent bias and mantissa bits.
uint32_t encode(Format f, double value) {
  if (f == Format::S8 || f == Format::U8) return uint32_t(int32_t(value)) & 0xff;
  float x = float(value);
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  if (f == Format::TF32) return bits | 0x1fff; // the unit does not look at these
  if (f == Format::BF16) return bits >> 16;
  const unsigned mantissa = f == Format::F16    ? 10
                            : f == Format::E4M3 ? 3
                                                : 2,
                 bias = f == Format::F16    ? 15
                        : f == Format::E4M3 ? 7
                                            : 15,
                 width = f == Format::F16 ? 16 : 8;
  if (value == 0) return 0;
  int exponent;
  double fraction = std::frexp(std::fabs(value), &exponent) * 2; // [1, 2)
  int e = exponent - 1 + int(bias);
  if (e < 1) fraction = std::ldexp(fraction, e - 1), e = 0; // denormal
  const uint32_t m = uint32_t(std::ldexp(e ? fraction - 1 : fraction, int(mantissa)));
  return uint32_t(value < 0) << (width - 1) | uint32_t(e) << mantissa | m;
}
/// `denormals`: of e4m3, for one operand only, so that sums stay exact.
double drawn(Format f, std::mt19937 &rng, bool denormals) {
  switch (f) {
  case Format::S8:
    return double(int(rng() % 256) - 128);
  case Format::U8:
    return double(rng() % 256);
  case Format::E4M3:
    return double(int(rng() % 31) - 15) / (rng() % 4 || !denormals ? 1 : 512);
  case Format::E5M2:
    return double(int(rng() % 15) - 7) / (rng() % 4 == 0 ? 2 : 1) * (rng() % 2 ? 1 : 0.5);
  default:
    return double(int(rng() % 65) - 32) / 4;
  }
}
double representable(Format f, double v) { // of a drawn value
  if (f == Format::E4M3 || f == Format::E5M2) {
    const unsigned mantissa = f == Format::E4M3 ? 3 : 2;
    int e;
    if (v == 0) return 0;
    std::frexp(v, &e);
    e = std::max(e - 1, f == Format::E4M3 ? -6 : -14);
    const double unit = std::ldexp(1.0, e - int(mantissa));
    return std::trunc(v / unit) * unit;
  }
  return v;
}

/// An operand of rows x depth in shared memory as the canonical layouts say, in elements of 16 bytes / T.
struct Operand {
  Format format;
  unsigned rows, swizzle;
  bool across;
  unsigned start; // offset
  unsigned leading = 0, stride = 0;
  unsigned depth() const { return 32 / bytesOf(format); }
  /// Some offsets that leave gaps: a wrong use of one for the other shows.
  void choose() {
    const unsigned pitch = swizzle ? swizzle : 16, pattern = 8 * pitch;
    if (!across) {
      stride = swizzle ? pattern : 2 * pattern + 256;
      leading = swizzle ? 16 : pattern;
    } else if (swizzle) {
      stride = pattern;                                  // 8 rows of k further
      leading = 2 * pattern + (swizzle == 32 ? 256 : 0); // the next pattern along m or n
    } else {
      stride = 16 * 8;                     // the next 8 of m or n
      leading = stride * (rows / 8) + 128; // 8 rows of k further
    }
  }
  unsigned byteOf(unsigned row, unsigned k) const {
    const unsigned b = bytesOf(format), T = 16 / b, pitch = swizzle ? swizzle : 16, w = pitch / 16;
    unsigned linear;
    if (!across) {
      const unsigned unit = k / T;
      linear = row % 8 * pitch + row / 8 * stride + unit * (swizzle ? 16 : leading) + k % T * b;
    } else {
      const unsigned unit = row / T;
      linear = k % 8 * pitch + k / 8 * (swizzle ? stride : leading) + row % T * b + unit % w * 16 +
               unit / w * (swizzle ? leading : stride);
    }
    return swizzledByte(start + linear, swizzle);
  }
  unsigned end() const {
    unsigned last = 0;
    for (unsigned r = 0; r < rows; ++r)
      for (unsigned k = 0; k < depth(); ++k) last = std::max(last, byteOf(r, k) + bytesOf(format));
    return last;
  }
  uint64_t descriptor() const {
    const uint64_t mode = swizzle == 128 ? 1 : swizzle == 64 ? 2 : swizzle == 32 ? 3 : 0;
    return start >> 4 | uint64_t(leading >> 4) << 16 | uint64_t(stride >> 4) << 32 | mode << 62;
  }
};

std::string number(uint64_t v) {
  return std::to_string(int64_t(v));
}

/// 128 threads copy %in to shared memory, fence, load the accumulator from %c, run `body`, and store it to %d.
/// %base: descriptors' start is relative to the window, which is aligned to more than their 18 bits.
std::string kernel(unsigned n, bool integers, unsigned bytes, const std::string &body,
                   const std::string &fence = kProxyFence) {
  const std::string element = integers ? "i32" : "float", count = std::to_string(n / 2);
  std::string text = "(ptr addrspace(1) %in, ptr addrspace(1) %c, ptr addrspace(1) %d, ptr addrspace(1) %ra) {\n" +
                     kEntry + "  %acc = alloca [" + count + " x " + element + "], align 16\n" +
                     copyWords("ptr addrspace(1) %in", "ptr addrspace(3) %s", bytes / 4, 128, "entry") + fence +
                     barSync(128) +
                     R"(  %rq = getelementptr <4 x i32>, ptr addrspace(1) %ra, i32 %t
  %a = load <4 x i32>, ptr addrspace(1) %rq, align 16
)";
  auto move = [&](const std::string &name, bool in) {
    text +=
        "  %b" + name + " = getelementptr [" + count + " x " + element + "], ptr addrspace(1) %" + name + ", i32 %t\n";
    for (unsigned i = 0; i < n / 2; ++i) {
      const std::string k = name + std::to_string(i), index = std::to_string(i);
      text += "  %g" + k + " = getelementptr " + element + ", ptr addrspace(1) %b" + name + ", i32 " + index +
              "\n  %l" + k + " = getelementptr " + element + ", ptr %acc, i32 " + index + "\n  %v" + k + " = load " +
              element + ", " + (in ? "ptr addrspace(1) %g" : "ptr %l") + k + ", align 4\n  store " + element + " %v" +
              k + ", " + (in ? "ptr %l" : "ptr addrspace(1) %g") + k + ", align 4\n";
    }
  };
  move("c", true);
  text += body;
  move("d", false);
  return text + "  ret void\n}";
}
std::string ss(const std::string &kind, uint64_t a, uint64_t b, unsigned n, bool useAcc = true,
               unsigned transposed = 0) {
  return "  call void @tlx.nv.wgmma.ss." + kind + "(ptr %acc, i64 " + number(a) + ", i64 " + number(b) + ", i32 " +
         (useAcc ? "1" : "0") + ", i32 " + std::to_string(n) + ", i32 " + std::to_string(transposed) + ")\n";
}
std::string rs(const std::string &kind, uint64_t b, unsigned n, bool useAcc = true, unsigned transposed = 0) {
  return "  call void @tlx.nv.wgmma.rs." + kind + "(ptr %acc, <4 x i32> %a, i64 " + number(b) + ", i32 " +
         (useAcc ? "1" : "0") + ", i32 " + std::to_string(n) + ", i32 " + std::to_string(transposed) + ")\n";
}
const std::string kFence = "  call void @tlx.nv.wgmma.fence()\n", kCommit = "  call void @tlx.nv.wgmma.commit()\n";
std::string wait(unsigned n) {
  return "  call void @tlx.nv.wgmma.wait(i32 " + std::to_string(n) + ")\n";
}
std::string retire(unsigned n) {
  return "  call void @tlx.nv.wgmma.retire(ptr %acc, i32 " + std::to_string(n / 2) + ")\n";
}

/// Where accumulator register i of a thread lies: PTX ISA, "Register Fragments".
unsigned accRow(unsigned thread, unsigned i) {
  return thread / 32 * 16 + thread % 32 / 4 + (i / 2 % 2) * 8;
}
unsigned accColumn(unsigned thread, unsigned i) {
  return i / 4 * 8 + thread % 4 * 2 + i % 2;
}

struct Problem {
  std::string kind;
  Format fa, fb;
  unsigned n;
  Operand a, b;
  bool registers = false;
  std::vector<double> A, B;    // 64 x k, n x k
  std::vector<uint8_t> shared; // what %in holds
  std::vector<uint32_t> fragments;
  unsigned depth() const { return 32 / bytesOf(fa); }
  unsigned transposed() const { return unsigned(a.across && !registers) | unsigned(b.across) << 1; }
  std::string call(bool useAcc = true) const {
    return registers ? rs(kind, b.descriptor(), n, useAcc, transposed())
                     : ss(kind, a.descriptor(), b.descriptor(), n, useAcc, transposed());
  }
};

Problem make(const std::string &kind, Format fa, Format fb, unsigned n, unsigned swizzleA, bool acrossA,
             unsigned swizzleB, bool acrossB, bool registers) {
  Problem p{kind, fa, fb, n, {fa, 64, swizzleA, acrossA, 0}, {fb, n, swizzleB, acrossB, 0}, registers, {}, {}, {}, {}};
  p.a.choose();
  p.b.choose();
  p.b.start = registers ? 1024 : (p.a.end() + 1023) / 1024 * 1024;
  const unsigned bytes = (p.b.end() + 1023) / 1024 * 1024;
  std::mt19937 rng(n + unsigned(fa) * 7 + swizzleA + swizzleB);
  p.shared.assign(bytes, 0x7b); // what lies between is no zero
  p.fragments.assign(512, 0);
  auto put = [&](const Operand &o, std::vector<double> &values) {
    for (unsigned r = 0; r < o.rows; ++r)
      for (unsigned k = 0; k < o.depth(); ++k) {
        values.push_back(representable(o.format, drawn(o.format, rng, &o == &p.a)));
        const uint32_t bits = encode(o.format, values.back());
        if (&o == &p.b || !registers) std::memcpy(&p.shared[o.byteOf(r, k)], &bits, bytesOf(o.format));
      }
  };
  put(p.a, p.A);
  put(p.b, p.B);
  if (registers)
    for (unsigned t = 0; t < 128; ++t)
      for (unsigned i = 0; i < 4; ++i)
        for (unsigned e = 0; e < 4 / bytesOf(fa); ++e) {
          const unsigned pack = 4 / bytesOf(fa), row = t / 32 * 16 + t % 32 / 4 + (i % 2) * 8,
                         k = t % 4 * pack + e + (i / 2) * 4 * pack;
          p.fragments[4 * t + i] |= encode(fa, p.A[row * p.depth() + k]) << (8 * bytesOf(fa) * e);
        }
  return p;
}

template <typename Acc>
LaunchResult runProblem(const Problem &p, const Program &program, LaunchConfig config, const std::vector<Acc> &c,
                        std::vector<Acc> &d) {
  Memory memory;
  auto *in = upload(memory, p.shared);
  auto *dc = upload(memory, c);
  auto *ra = upload(memory, p.fragments);
  auto *dd = static_cast<Acc *>(memory.allocate(c.size() * sizeof(Acc)));
  auto result = launch(program, config, params(in, dc, dd, ra), memory);
  d = download(memory, dd, c.size());
  return result;
}

/// The accumulators of all threads before and after `times` products.
template <typename Acc>
std::vector<Acc> expected(const Problem &p, const std::vector<Acc> &c, unsigned times, bool useAcc) {
  std::vector<Acc> d(c.size());
  const unsigned k = p.depth();
  for (unsigned t = 0; t < 128; ++t)
    for (unsigned i = 0; i < p.n / 2; ++i) {
      double sum = 0;
      for (unsigned e = 0; e < k; ++e) sum += p.A[accRow(t, i) * k + e] * p.B[accColumn(t, i) * k + e];
      d[t * (p.n / 2) + i] = Acc((useAcc ? double(c[t * (p.n / 2) + i]) : 0.0) + sum * times);
    }
  return d;
}
template <typename Acc> std::vector<Acc> accumulators(unsigned n) {
  std::vector<Acc> c(128 * n / 2);
  for (size_t i = 0; i < c.size(); ++i) c[i] = Acc(int(i % 201) - 100);
  return c;
}

template <typename Acc> void check(const Problem &p, bool useAcc) {
  CAPTURE(p.kind);
  CAPTURE(p.n);
  CAPTURE(p.a.swizzle);
  CAPTURE(p.a.across);
  CAPTURE(p.b.swizzle);
  CAPTURE(p.b.across);
  CAPTURE(p.registers);
  const std::string twice = kFence + p.call(useAcc) + p.call() + kCommit + wait(0) + retire(p.n);
  auto program = sim_test::program(kernel(p.n, std::is_same_v<Acc, int32_t>, unsigned(p.shared.size()), twice),
                                   "sm_90a", 128, unsigned(p.shared.size()));
  const std::vector<Acc> c = accumulators<Acc>(p.n), right = expected(p, c, 2, useAcc);
  for (Schedule schedule : kSchedules) {
    LaunchConfig config;
    config.schedule = schedule;
    std::vector<Acc> d;
    auto result = runProblem(p, *program, config, c, d);
    CHECK_MESSAGE(result.ok(), text(result));
    CHECK(d == right);
  }
}
} // namespace

TEST_CASE("wgmma: f16 and bf16, both majors of both operands, all swizzles") {
  for (unsigned swizzle : {128u, 64u, 32u, 0u})
    for (bool acrossA : {false, true})
      for (bool acrossB : {false, true}) {
        check<float>(make("f32.f16.f16", Format::F16, Format::F16, 64, swizzle, acrossA, swizzle, acrossB, false),
                     true);
        check<float>(make("f32.bf16.bf16", Format::BF16, Format::BF16, 128, 128, acrossA, swizzle, acrossB, false),
                     false);
      }
}

TEST_CASE("wgmma: every kind, A in shared memory and in registers") {
  const std::tuple<const char *, Format, Format> kinds[] = {
      {"f32.f16.f16", Format::F16, Format::F16},     {"f32.bf16.bf16", Format::BF16, Format::BF16},
      {"f32.tf32.tf32", Format::TF32, Format::TF32}, {"f32.e4m3.e4m3", Format::E4M3, Format::E4M3},
      {"f32.e4m3.e5m2", Format::E4M3, Format::E5M2}, {"f32.e5m2.e4m3", Format::E5M2, Format::E4M3},
      {"f32.e5m2.e5m2", Format::E5M2, Format::E5M2}, {"s32.s8.s8", Format::S8, Format::S8},
      {"s32.s8.u8", Format::S8, Format::U8},         {"s32.u8.s8", Format::U8, Format::S8},
      {"s32.u8.u8", Format::U8, Format::U8}};
  for (auto &[kind, a, b] : kinds)
    for (bool registers : {false, true})
      for (unsigned swizzle : {128u, 64u, 0u}) {
        const Problem p = make(kind, a, b, 32, swizzle, false, swizzle, false, registers);
        isInteger(a) ? check<int32_t>(p, true) : check<float>(p, true);
      }
  check<float>(make("f32.f16.f16", Format::F16, Format::F16, 16, 128, false, 64, true, true),
               true); // B transposed, A in registers
}

TEST_CASE("wgmma: every legal n") {
  for (unsigned n = 8; n <= 256; n += 8)
    check<float>(make("f32.f16.f16", Format::F16, Format::F16, n, 128, false, 128, false, false), n % 16 == 0);
  for (unsigned n : {8u, 16u, 24u, 32u, 48u, 80u, 96u, 176u, 192u, 208u, 256u})
    check<int32_t>(make("s32.s8.u8", Format::S8, Format::U8, n, 128, false, 128, false, n % 32 == 0), n % 16 == 0);
  // Across, patterns of 64 columns: n that ends inside one.
  for (unsigned n : {80u, 96u, 176u, 192u, 256u})
    check<float>(make("f32.bf16.bf16", Format::BF16, Format::BF16, n, 128, true, 128, true, false), true);
}

TEST_CASE("wgmma: integers wrap, and a step along k starts inside a pattern") {
  Problem p = make("s32.u8.u8", Format::U8, Format::U8, 8, 128, false, 128, false, false);
  std::vector<int32_t> c(128 * 4, 0x7fffff00), d;
  auto program =
      sim_test::program(kernel(8, true, unsigned(p.shared.size()), kFence + p.call() + kCommit + wait(0) + retire(8)),
                        "sm_90a", 128, unsigned(p.shared.size()));
  CHECK(runProblem(p, *program, {}, c, d).ok());
  for (unsigned t = 0; t < 128; ++t)
    for (unsigned i = 0; i < 4; ++i) {
      uint32_t sum = 0x7fffff00;
      for (unsigned k = 0; k < 32; ++k)
        sum += uint32_t(p.A[accRow(t, i) * 32 + k]) * uint32_t(p.B[accColumn(t, i) * 32 + k]);
      REQUIRE(uint32_t(d[t * 4 + i]) == sum);
    }
  // Four k steps of 16 in rows of 64 f16, 128 bytes: start addresses 0, 32, 64, 96.
  std::mt19937 rng(3);
  std::vector<float> A(64 * 64), B(8 * 64);
  std::vector<uint8_t> shared(9216);
  auto put = [&](std::vector<float> &m, unsigned rows, unsigned start) {
    for (unsigned r = 0; r < rows; ++r)
      for (unsigned k = 0; k < 64; ++k) {
        m[r * 64 + k] = float(int(rng() % 17) - 8);
        const uint16_t h = uint16_t(encode(Format::F16, double(m[r * 64 + k])));
        std::memcpy(&shared[start + swizzledByte(r * 128 + k * 2, 128)], &h, 2);
      }
  };
  put(A, 64, 0);
  put(B, 8, 8192);
  std::string body = kFence;
  for (unsigned step = 0; step < 4; ++step) {
    const uint64_t high = uint64_t(64) << 32 | 1ull << 62 | 1 << 16;
    body += ss("f32.f16.f16", high | step * 2, high | (8192 / 16 + step * 2), 8, step != 0);
  }
  auto steps = sim_test::program(kernel(8, false, 9216, body + kCommit + wait(0) + retire(8)), "sm_90a", 128, 9216);
  Memory memory;
  auto *in = upload(memory, shared);
  auto *dc = upload(memory, std::vector<float>(512, 1e30f));
  auto *ra = upload(memory, std::vector<uint32_t>(512, 0));
  auto *dd = static_cast<float *>(memory.allocate(2048));
  auto result = launch(*steps, {}, params(in, dc, dd, ra), memory);
  CHECK_MESSAGE(result.ok(), text(result));
  auto got = download(memory, dd, 512);
  for (unsigned t = 0; t < 128; ++t)
    for (unsigned i = 0; i < 4; ++i) {
      float sum = 0;
      for (unsigned k = 0; k < 64; ++k) sum += A[accRow(t, i) * 64 + k] * B[accColumn(t, i) * 64 + k];
      REQUIRE(got[t * 4 + i] == sum);
    }
}

namespace {
/// The 64 x 8 x 16 f16 product with another body; findings only.
struct Small {
  Problem p = make("f32.f16.f16", Format::F16, Format::F16, 8, 128, false, 128, false, false);
  std::string call = p.call();
  LaunchResult run(const std::string &body, LaunchConfig config = {}, unsigned shared = 0,
                   const std::string &fence = kProxyFence, const char *target = "sm_90a",
                   std::vector<float> *d = nullptr, unsigned n = 8) {
    const unsigned bytes = unsigned(p.shared.size());
    auto program = sim_test::program(kernel(n, false, bytes, body, fence), target, 128, shared ? shared : bytes);
    const std::vector<float> c = accumulators<float>(n);
    std::vector<float> local;
    return runProblem(p, *program, config, c, d ? *d : local);
  }
};
const std::string kAccFirst = "  %ap = getelementptr [4 x float], ptr %acc, i32 0, i32 1\n";
const std::string kAccRead = kAccFirst + "  %av = load float, ptr %ap, align 4\n";
const std::string kAccWrite = kAccFirst + "  store float 0.0, ptr %ap, align 4\n";
const std::string kSharedAddress = "  %t4 = shl i32 %t, 2\n  %sp = getelementptr i8, ptr addrspace(3) %s, i32 %t4\n";
} // namespace

TEST_CASE("wgmma: accumulators in flight, fences, groups, under every schedule") {
  Small s;
  struct Case {
    FindingKind kind;
    std::string body, message;
  };
  const std::string inFlight =
      " of an accumulator in flight: no tlx.nv.wgmma.wait and tlx.nv.wgmma.retire since its last wgmma";
  const Case cases[] = {
      {FindingKind::AccumulatorInFlight, kFence + s.call + kCommit + kAccRead + wait(0) + retire(8), "read" + inFlight},
      {FindingKind::AccumulatorInFlight, kFence + s.call + kCommit + wait(0) + kAccRead + retire(8), "read" + inFlight},
      {FindingKind::AccumulatorInFlight,
       kFence + s.call + kCommit + wait(1) + retire(8) + kAccRead + wait(0) + retire(8), "read" + inFlight},
      {FindingKind::AccumulatorInFlight, kFence + s.call + kCommit + kAccWrite + wait(0) + retire(8),
       "write" + inFlight},
      {FindingKind::AccumulatorInFlight, kFence + s.call + kCommit + kAccWrite + wait(0) + retire(8),
       "the accumulator was written while a wgmma had it in flight"},
      {FindingKind::MissingFence, s.call + kCommit + wait(0) + retire(8),
       "missing fence: the first wgmma on an accumulator that the program could write needs tlx.nv.wgmma.fence before "
       "it"},
      {FindingKind::MissingFence,
       kFence + s.call + kCommit + wait(0) + retire(8) + s.call + kCommit + wait(0) + retire(8),
       "missing fence: the first wgmma on an accumulator"},
      {FindingKind::AccumulatorInFlight, kFence + s.call + wait(0) + retire(8),
       "the kernel ends with this wgmma in flight: no tlx.nv.wgmma.commit stands behind it"},
      {FindingKind::AccumulatorInFlight, kFence + s.call + kCommit + wait(1),
       "the kernel ends with this wgmma in flight: no tlx.nv.wgmma.wait covers it"},
      // Three warps have waited, so the unit has forgotten the operation when the last one ends.
      {FindingKind::AccumulatorInFlight,
       kFence + s.call + kCommit + "  %few = icmp ult i32 %t, 96\n  br i1 %few, label %waits, label %ends\nwaits:\n" +
           wait(0) + "  br label %ends\nends:\n" + barSync(128),
       "the kernel ends with this wgmma in flight: no tlx.nv.wgmma.wait covers it"},
      {FindingKind::InvalidOperation, kFence + s.call + kCommit + wait(0) + retire(16),
       "tlx.nv.wgmma.retire of 8 registers, the accumulator has 4"},
  };
  for (const Case &c : cases) {
    CAPTURE(c.body);
    forEachSchedule([&](LaunchConfig &config) { checkFinding(s.run(c.body, config), c.kind, c.message); });
  }
  // Two groups on one accumulator, the fence in time, retire that does nothing before the wait that covers: right.
  for (const std::string &body :
       {kFence + s.call + kCommit + s.call + kCommit + wait(1) + retire(8) + wait(0) + retire(8),
        kFence + s.call + kCommit + wait(0) + retire(8) + kAccRead + kFence + s.call + kCommit + wait(0) + retire(8)})
    forEachSchedule([&](LaunchConfig &config) {
      std::vector<float> d;
      auto result = s.run(body, config, 0, kProxyFence, "sm_90a", &d);
      CHECK_MESSAGE(result.ok(), text(result));
      CHECK(d == expected(s.p, accumulators<float>(8), 2, true));
    });
  // Without retire the program reads poison.
  std::vector<float> d;
  s.run(kFence + s.call + kCommit + wait(0), {}, 0, kProxyFence, "sm_90a", &d);
  for (float v : d) REQUIRE(std::isnan(v));
}

TEST_CASE("wgmma: what happens to its operands, under every schedule") {
  Small s;
  const std::string write = kSharedAddress + "  store i32 0, ptr addrspace(3) %sp, align 4\n";
  forEachSchedule([&](LaunchConfig &config) {
    checkFinding(s.run(kFence + s.call + kCommit + write + wait(0) + retire(8), config), FindingKind::SlotOverrun,
                 "write of 4 bytes at shared offset ");
    checkFinding(s.run(kFence + s.call + kCommit + wait(1) + write + wait(0) + retire(8), config),
                 FindingKind::SlotOverrun, " which tlx.nv.wgmma.ss.f32.f16.f16 (k.tlx:");
    auto right = s.run(kFence + s.call + kCommit + wait(0) + barSync(128) + write + retire(8), config);
    CHECK_MESSAGE(right.ok(), text(right));
    checkFinding(s.run(kFence + s.call + kCommit + wait(0) + retire(8), config, 0, ""), FindingKind::MissingFence,
                 "missing fence: wgmma reads A at shared offset 0, which warp 0 has written by an ordinary store");
    const std::string copies =
        sharedAt("bp", s.p.b.start) +
        inFirstThread(
            "  call void @tlx.nv.cp.async.cg.16(ptr addrspace(3) %bp, ptr addrspace(1) %in, i32 16)\n  call void "
            "@tlx.nv.cp.async.commit()\n") +
        barSync(128);
    checkFinding(s.run(copies + kFence + s.call + kCommit + wait(0) + retire(8), config), FindingKind::InFlight,
                 "wgmma reads B at shared offset " + std::to_string(s.p.b.start) +
                     ", the destination of a copy in flight: no wait has seen it complete");
  });
  // B behind what was written: at the end of shared memory, and past it.
  auto at = [&](unsigned offset) {
    Problem p = s.p;
    p.b.start = offset;
    return kFence + p.call() + kCommit + wait(0) + retire(8);
  };
  const unsigned bytes = unsigned(s.p.shared.size());
  checkFinding(s.run(at(bytes), {}, bytes + 1024), FindingKind::UninitializedRead,
               "uninitialized read: wgmma reads B at shared offset ");
  checkFinding(s.run(at(bytes), {}), FindingKind::OutOfBounds, "out of bounds: wgmma reads B at shared offset ");
  const std::string barrier = sharedAt("bp", bytes) + inFirstThread(initBarrier("bp", 1)) + barSync(128);
  checkFinding(s.run(barrier + at(bytes), {}, bytes + 1024), FindingKind::MbarrierMisuse, ", which is an mbarrier");
}

TEST_CASE("wgmma: operands that there are not") {
  Small s;
  const uint64_t a = s.p.a.descriptor(), b = s.p.b.descriptor();
  auto one = [&](const std::string &call, FindingKind kind, const std::string &message, const char *target = "sm_90a",
                 unsigned n = 8) {
    checkFinding(s.run(kFence + call + kCommit + wait(0) + retire(n), {}, 0, kProxyFence, target, nullptr, n), kind,
                 message);
  };
  one(ss("f32.f16.f16", a, b, 12), FindingKind::InvalidOperation, "wgmma has no n = 12 for these types");
  one(ss("f32.f16.f16", a, b, 264), FindingKind::InvalidOperation, "wgmma has no n = 264 for these types");
  one(ss("s32.s8.s8", a, b, 40), FindingKind::InvalidOperation, "wgmma has no n = 40 for these types");
  one(ss("f32.tf32.tf32", a, b, 8, true, 2), FindingKind::InvalidOperation,
      "wgmma transposes operands of 16-bit types in shared memory only");
  one(rs("f32.f16.f16", b, 8, true, 1), FindingKind::InvalidOperation,
      "wgmma transposes operands of 16-bit types in shared memory only");
  one(ss("f32.f16.f16", a | 1 << 14, b, 8), FindingKind::InvalidOperation,
      "the descriptor of A has bits set that must be 0: mask the address by 0x3ffff before the shift by 4");
  one(s.call, FindingKind::InvalidOperation, "this target has no wgmma", "sm_80");
  one("  %odd = and i32 %t, 1\n  call void @tlx.nv.wgmma.ss.f32.f16.f16(ptr %acc, i64 " + number(a) + ", i64 " +
          number(b) + ", i32 %odd, i32 8, i32 0)\n",
      FindingKind::InvalidOperation, "the lanes of a warpgroup differ in whether the accumulator is used");
  one("  %z = icmp ult i32 %t, 96\n  br i1 %z, label %x, label %y\nx:\n" + s.call + "  br label %m\ny:\n" + s.call +
          "  br label %m\nm:\n",
      FindingKind::MismatchedCollective,
      "the lanes of a warpgroup do not meet: other lanes are at tlx.nv.wgmma.ss.f32.f16.f16 (k.tlx:");
  one("  %z = icmp ult i32 %t, 96\n  br i1 %z, label %x, label %m\nx:\n" + s.call + "  br label %m\nm:\n",
      FindingKind::Deadlock, ") was called by 96 of 128 lanes");
  one("  %other = alloca [4 x float], align 16\n  %bit = and i32 %t, 1\n  %odd = icmp eq i32 %bit, 1\n  %mixed = "
      "select i1 "
      "%odd, ptr %acc, ptr %other\n" +
          s.call + "  call void @tlx.nv.wgmma.ss.f32.f16.f16(ptr %mixed, i64 " + number(a) + ", i64 " + number(b) +
          ", i32 1, i32 8, i32 0)\n",
      FindingKind::MismatchedCollective, "the lanes of a warpgroup name different accumulators");
  auto small = sim_test::program(R"(() {
  %acc = alloca [4 x float]
  call void @tlx.nv.wgmma.ss.f32.f16.f16(ptr %acc, i64 0, i64 0, i32 1, i32 8, i32 0)
  ret void
})",
                                 "sm_90a", 160, 1024);
  Memory memory;
  LaunchConfig late;
  late.schedule = Schedule::Late; // warp 4 first
  checkFinding(launch(*small, late, {}, memory), FindingKind::InvalidOperation,
               "wgmma needs a warpgroup of 4 warps, and warp 4 of 5 is not in one");
  // Another shape on what is in flight.
  one(s.call + ss("f32.f16.f16", a, b, 16), FindingKind::AccumulatorInFlight,
      "wgmma of n = 16 on an accumulator that is in flight with another shape, n = 8", "sm_90a", 16);
}
