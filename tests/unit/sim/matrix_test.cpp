// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every matrix instruction against a plain product of small random integers, exactly. The fragments are filled from
// formulas written here a second time, from the PTX ISA (figures of "Matrix Fragments for mma.…") and the CDNA3 ISA,
// per element and not per register.
#include <cmath>
#include <doctest/doctest.h>
#include <random>

#include "features/features.h"
#include "sim_test.h"

using namespace sim_test;
using tlx::features::MmaInstruction;
using tlx::features::MmaType;

namespace {
struct Place {
  unsigned row, col;
};

// Where element e of a lane's fragment lies: PTX.
Place ptxA(const MmaInstruction &i, unsigned lane, unsigned e) {
  const unsigned g = lane / 4, t = lane % 4;
  if (i.m == 8) return {g, t};
  if (i.k == 16) return {e % 4 < 2 ? g : g + 8, t * 2 + (e & 1) + (e >= 4 ? 8 : 0)};
  if (i.k == 8) return {e % 2 ? g + 8 : g, e < 2 ? t : t + 4};
  return {(e / 4) % 2 ? g + 8 : g, t * 4 + (e & 3) + (e >= 8 ? 16 : 0)};
}
Place ptxB(const MmaInstruction &i, unsigned lane, unsigned e) {
  const unsigned g = lane / 4, t = lane % 4;
  if (i.m == 8) return {t, g};
  if (i.k == 16) return {t * 2 + (e & 1) + (e >= 2 ? 8 : 0), g};
  if (i.k == 8) return {t + 4 * e, g};
  return {t * 4 + (e & 3) + (e >= 4 ? 16 : 0), g};
}
Place ptxC(const MmaInstruction &, unsigned lane, unsigned e) {
  return {lane / 4 + (e >= 2 ? 8 : 0), lane % 4 * 2 + (e & 1)};
}

// CDNA3.
Place cdnaA(const MmaInstruction &i, unsigned lane, unsigned e) {
  const unsigned perLane = i.m * i.k / 64;
  return {lane % i.m, lane / i.m * perLane + e};
}
Place cdnaB(const MmaInstruction &i, unsigned lane, unsigned e) {
  const unsigned perLane = i.n * i.k / 64;
  return {lane / i.n * perLane + e, lane % i.n};
}
Place cdnaC(const MmaInstruction &i, unsigned lane, unsigned e) {
  if (i.operand == MmaType::F64) return {4 * e + lane / 16, lane % 16};
  if (i.m == 16) return {4 * (lane / 16) + e, lane % 16};
  return {8 * (e / 4) + 4 * (lane / 32) + e % 4, lane % 32};
}

unsigned bytesOf(MmaType t) {
  switch (t) {
  case MmaType::F16:
  case MmaType::BF16:
    return 2;
  case MmaType::S8:
  case MmaType::U8:
  case MmaType::F8E4M3:
  case MmaType::F8E5M2:
  case MmaType::F8E4M3FNUZ:
  case MmaType::F8E5M2FNUZ:
    return 1;
  case MmaType::F64:
    return 8;
  default:
    return 4;
  }
}

bool isFp8(MmaType t) {
  return t == MmaType::F8E4M3 || t == MmaType::F8E5M2 || t == MmaType::F8E4M3FNUZ || t == MmaType::F8E5M2FNUZ;
}
/// The largest integer up to which an operand format has all of them; 100 is enough.
int bound(MmaType t) {
  return !isFp8(t) ? 100 : t == MmaType::F8E4M3 || t == MmaType::F8E4M3FNUZ ? 16 : 8;
}

/// A small integer in an operand format.
void encode(MmaType t, int value, uint8_t *to) {
  float f = float(value);
  uint32_t bits;
  std::memcpy(&bits, &f, 4);
  if (t == MmaType::F16) {
    uint16_t h =
        value ? uint16_t((bits >> 16 & 0x8000) | (((bits >> 23 & 255) - 112) << 10) | (bits >> 13 & 0x3ff)) : 0;
    std::memcpy(to, &h, 2);
  } else if (t == MmaType::BF16) {
    uint16_t h = uint16_t(bits >> 16);
    std::memcpy(to, &h, 2);
  } else if (t == MmaType::S8 || t == MmaType::U8) {
    *to = uint8_t(value);
  } else if (isFp8(t)) { // of few enough bits that it is exact: see `bound`
    const unsigned mantissa = t == MmaType::F8E4M3 || t == MmaType::F8E4M3FNUZ ? 3 : 2;
    const int bias = (mantissa == 3 ? 7 : 15) + (t == MmaType::F8E4M3FNUZ || t == MmaType::F8E5M2FNUZ ? 1 : 0);
    const uint32_t exponent = uint32_t(int(bits >> 23 & 255) - 127 + bias);
    const uint32_t fraction = (bits >> (23 - mantissa)) & ((1u << mantissa) - 1);
    *to = value ? uint8_t((bits >> 24 & 0x80) | exponent << mantissa | fraction) : 0;
  } else if (t == MmaType::F64) {
    double d = value;
    std::memcpy(to, &d, 8);
  } else {
    bits |= t == MmaType::TF32 || t == MmaType::XF32 ? 0x1fff : 0; // tf32 does not look at these
    std::memcpy(to, &bits, 4);
  }
}

std::string vectorType(unsigned n, const char *element) {
  return n == 1 ? element : "<" + std::to_string(n) + " x " + element + ">";
}

void check(const MmaInstruction &i, const char *target, unsigned lanes) {
  const bool amd = lanes == 64, isFloat = i.operand != MmaType::S8 && i.operand != MmaType::U8,
             f64 = i.operand == MmaType::F64;
  const unsigned elementBytes = bytesOf(i.operand), aBytes = i.m * i.k / lanes * elementBytes,
                 bBytes = i.n * i.k / lanes * elementBytes, cCount = i.m * i.n / lanes, accBytes = f64 ? 8 : 4;
  const bool scalarF32 = i.operand == MmaType::F32;
  const char *raw = f64 ? "double" : scalarF32 ? "float" : "i32";
  const std::string a = vectorType(aBytes / (f64 ? 8 : 4), raw), b = vectorType(bBytes / (f64 ? 8 : 4), raw),
                    c = vectorType(cCount, f64       ? "double"
                                           : isFloat ? "float"
                                                     : "i32");
  std::string call = i.accumulatorFirst ? c + " %c, " + a + " %a, " + b + " %b" : a + " %a, " + b + " %b, " + c + " %c";
  std::string body =
      "(ptr addrspace(1) %pa, ptr addrspace(1) %pb, ptr addrspace(1) %pc, ptr addrspace(1) %pd) {\n  %t = call i32 @" +
      std::string(amd ? "tlx.amd.workitem.id.x" : "tlx.nv.tid.x") + "()\n";
  for (auto [name, type] : {std::pair{"a", a}, {"b", b}, {"c", c}})
    body += "  %q" + std::string(name) + " = getelementptr " + type + ", ptr addrspace(1) %p" + name + ", i32 %t\n  %" +
            name + " = load " + type + ", ptr addrspace(1) %q" + name + ", align 4\n";
  body += "  %d = call " + c + " @" + i.deviceOp + "(" + call + ")\n  %qd = getelementptr " + c +
          ", ptr addrspace(1) %pd, i32 %t\n  store " + c + " %d, ptr addrspace(1) %qd, align 4\n  ret void\n}";
  auto p = program(body, target, lanes);

  std::mt19937 rng(11);
  std::vector<int> A(i.m * i.k), B(i.k * i.n), C(i.m * i.n);
  auto randomize = [&](std::vector<int> &values, int low, int high) {
    std::uniform_int_distribution<int> pick(low, high);
    for (int &v : values) v = pick(rng);
  };
  const bool isUnsigned = i.operand == MmaType::U8;
  randomize(A, isUnsigned ? 0 : -bound(i.operand), isUnsigned ? 255 : bound(i.operand));
  randomize(B, isUnsigned ? 0 : -bound(i.operandB), isUnsigned ? 255 : bound(i.operandB));
  randomize(C, -100, 100);
  std::vector<uint8_t> fa(lanes * aBytes), fb(lanes * bBytes), fc(lanes * cCount * accBytes);
  auto putAcc = [&](uint8_t *to, int v) {
    if (f64)
      encode(MmaType::F64, v, to);
    else if (isFloat)
      encode(MmaType::F32, v, to);
    else
      std::memcpy(to, &v, 4);
  };
  for (unsigned l = 0; l < lanes; ++l) {
    for (unsigned e = 0; e < aBytes / elementBytes; ++e) {
      Place at = amd ? cdnaA(i, l, e) : ptxA(i, l, e);
      encode(i.operand, A[at.row * i.k + at.col], &fa[l * aBytes + e * elementBytes]);
    }
    for (unsigned e = 0; e < bBytes / elementBytes; ++e) {
      Place at = amd ? cdnaB(i, l, e) : ptxB(i, l, e);
      encode(i.operandB, B[at.row * i.n + at.col], &fb[l * bBytes + e * elementBytes]);
    }
    for (unsigned e = 0; e < cCount; ++e) {
      Place at = amd ? cdnaC(i, l, e) : ptxC(i, l, e);
      putAcc(&fc[(l * cCount + e) * accBytes], C[at.row * i.n + at.col]);
    }
  }
  Memory memory;
  auto *da = upload(memory, fa), *db = upload(memory, fb), *dc = upload(memory, fc);
  auto *dd = static_cast<uint8_t *>(memory.allocate(fc.size()));
  auto result = launch(*p, {}, params(da, db, dc, dd), memory);
  CHECK_MESSAGE(result.ok(), text(result));
  auto fd = download(memory, dd, fc.size());
  unsigned wrong = 0;
  for (unsigned l = 0; l < lanes; ++l)
    for (unsigned e = 0; e < cCount; ++e) {
      Place at = amd ? cdnaC(i, l, e) : ptxC(i, l, e);
      int expected = C[at.row * i.n + at.col];
      for (unsigned k = 0; k < i.k; ++k) expected += A[at.row * i.k + k] * B[k * i.n + at.col];
      uint8_t bytes[8];
      putAcc(bytes, expected);
      wrong += std::memcmp(bytes, &fd[(l * cCount + e) * accBytes], accBytes) != 0;
    }
  CHECK_MESSAGE(wrong == 0, i.deviceOp);
}
} // namespace

TEST_CASE("every matrix instruction is a matrix product") {
  using enum MmaType;
  for (auto [target, expected] : {std::pair{"sm_80", 6u}, {"gfx942", 17u}, {"gfx950", 22u}}) {
    unsigned count = 0;
    for (MmaType a : {F16, BF16, TF32, XF32, F32, F64, S8, U8, F8E4M3, F8E5M2, F8E4M3FNUZ, F8E5M2FNUZ})
      for (MmaType b : isFp8(a) ? std::vector{F8E4M3, F8E5M2, F8E4M3FNUZ, F8E5M2FNUZ} : std::vector{a})
        for (const MmaInstruction &i : tlx::features::mmaInstructions(*tlx::features::findTarget(target), a, b)) {
          CAPTURE(i.deviceOp);
          check(i, target, tlx::features::findTarget(target)->warpSize);
          ++count;
        }
    CHECK(count == expected);
  }
}

// Every pattern of the formats, through a product with 1: against the definition (OCP 8-bit floating point 1.0; CDNA3 ISA).
TEST_CASE("8-bit floats of matrix instructions: all 256 patterns") {
  for (bool fnuz : {false, true})
    for (unsigned mantissa : {3u, 2u}) {
      const std::string name = mantissa == 3 ? (fnuz ? "f8e4m3fnuz" : "f8e4m3") : fnuz ? "f8e5m2fnuz" : "f8e5m2";
      CAPTURE(name);
      const std::string op = "tlx.amd.mfma.f32.16x16x32." + name + "." + name;
      auto p = program(R"((ptr addrspace(1) %pa, ptr addrspace(1) %pb, ptr addrspace(1) %pd) {
  %t = call i32 @tlx.amd.workitem.id.x()
  %qa = getelementptr <2 x i32>, ptr addrspace(1) %pa, i32 %t
  %a = load <2 x i32>, ptr addrspace(1) %qa, align 8
  %qb = getelementptr <2 x i32>, ptr addrspace(1) %pb, i32 %t
  %b = load <2 x i32>, ptr addrspace(1) %qb, align 8
  %d = call <4 x float> @)" +
                           op + R"((<2 x i32> %a, <2 x i32> %b, <4 x float> zeroinitializer)
  %qd = getelementptr <4 x float>, ptr addrspace(1) %pd, i32 %t
  store <4 x float> %d, ptr addrspace(1) %qd, align 16
  ret void
})",
                       fnuz ? "gfx942" : "gfx950", 64);
      const int bias = (mantissa == 3 ? 7 : 15) + (fnuz ? 1 : 0);
      const uint8_t one = uint8_t(bias << mantissa);
      for (unsigned first = 0; first < 256; first += 16) {
        // Row r has pattern first + r at k = 0, column 0 a 1 there, all else 0.
        std::vector<uint8_t> a(512, 0), b(512, 0);
        for (unsigned r = 0; r < 16; ++r) a[r * 8] = uint8_t(first + r);
        b[0] = one;
        Memory memory;
        auto *da = upload(memory, a), *db = upload(memory, b);
        auto *dd = static_cast<float *>(memory.allocate(64 * 16));
        auto result = launch(*p, {}, params(da, db, dd), memory);
        CHECK_MESSAGE(result.ok(), text(result));
        auto d = download(memory, dd, 256);
        for (unsigned r = 0; r < 16; ++r) {
          const unsigned v = first + r, e = (v & 0x7f) >> mantissa, m = v & ((1u << mantissa) - 1),
                         top = (1u << (7 - mantissa)) - 1;
          double want = e ? std::ldexp(1 + double(m) / (1 << mantissa), int(e) - bias)
                          : std::ldexp(double(m) / (1 << mantissa), 1 - bias);
          bool nan = fnuz ? v == 0x80 : mantissa == 3 ? (v & 0x7f) == 0x7f : e == top && m;
          if (!fnuz && mantissa == 2 && e == top && !m) want = INFINITY;
          if (v & 0x80) want = -want;
          // Row 4 · (lane / 16) + i of column lane % 16: column 0.
          float got = d[(r / 4 * 16) * 4 + r % 4];
          // inf · 0 in the other columns and k does not reach column 0 of this row: its k = 0 alone is not 0.
          CAPTURE(v);
          if (nan)
            CHECK(std::isnan(got));
          else
            CHECK(double(got) == want);
        }
      }
    }
}
