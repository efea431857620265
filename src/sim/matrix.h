// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to src/sim: warp-level matrix instructions. An instruction is a struct that says its shape, the format of its
// operands, and which part of each matrix every lane holds; the rest is the same for all. Fragments go through memory
// by tables made at compile time, so one instruction costs a few hundred nanoseconds.
//
//   struct Example {
//     static constexpr unsigned lanes, m, n, k;         // d[m][n] = c[m][n] + Σk a[m][k] · b[k][n]
//     using Raw = uint16_t;                             // an element of a and b as it lies in registers
//     using Acc = float;                                // an element of c and d; products and sums are made in it
//     static constexpr unsigned aRegs, bRegs;           // 32-bit registers a lane (64-bit for f64)
//     static Acc convert(Raw);
//     static constexpr unsigned aRow(lane, reg), aK(lane, reg);   // of the lowest element of a register; its elements
//     follow in k static constexpr unsigned bCol(lane, reg), bK(lane, reg); static constexpr unsigned cRow(lane, i),
//     cCol(lane, i);     // of the i-th of m·n/lanes accumulators
//   };
//
// Order: each sum starts with c and adds k ascending, one rounding an addition. Hardware groups and truncates in ways
// of its own; what is exact (integers) is equal, the rest is within the usual error. Products of f16, bf16 and tf32 are
// exact in f32, so it does not matter whether the host fuses; for f32 and f64 the fused form is meant.
#pragma once
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "sim/engine.h"
#include "sim/exact.h"

namespace tlx::sim {

/// What one lane brings to a matrix instruction.
struct MatrixLane {
  void *d;
  const void *a, *b, *c;
};

typedef float Float8 __attribute__((vector_size(32)));
typedef uint32_t Int8 __attribute__((vector_size(32)));
typedef double Double4 __attribute__((vector_size(32)));

template <typename I> struct MatrixTables {
  using Unit = std::conditional_t<sizeof(typename I::Raw) == 8, uint64_t, uint32_t>;
  static constexpr unsigned perUnit = sizeof(Unit) / sizeof(typename I::Raw);
  static constexpr unsigned cRegs = I::m * I::n / I::lanes;

  template <unsigned Regs, typename F> static constexpr auto make(F f) {
    std::array<std::array<uint16_t, Regs>, I::lanes> t{};
    for (unsigned l = 0; l < I::lanes; ++l)
      for (unsigned i = 0; i < Regs; ++i) t[l][i] = uint16_t(f(l, i));
    return t;
  }
  // In units of a[m][k] and of b transposed, in elements of c[m][n].
  static constexpr auto a =
      make<I::aRegs>([](unsigned l, unsigned i) { return (I::aRow(l, i) * I::k + I::aK(l, i)) / perUnit; });
  static constexpr auto b =
      make<I::bRegs>([](unsigned l, unsigned i) { return (I::bCol(l, i) * I::k + I::bK(l, i)) / perUnit; });
  static constexpr auto c = make<cRegs>([](unsigned l, unsigned i) { return I::cRow(l, i) * I::n + I::cCol(l, i); });
};

/// An element of b: convertB if the instruction mixes two formats.
template <typename I> [[gnu::always_inline]] inline typename I::Acc convertRight(typename I::Raw raw) {
  if constexpr (requires { I::convertB(raw); })
    return I::convertB(raw);
  else
    return I::convert(raw);
}

/// c += a · b for row-major matrices. `HostFma`: the compiler fuses here.
template <typename I, bool HostFma>
[[gnu::always_inline]] inline void multiply(typename I::Acc *c, const typename I::Acc *a, const typename I::Acc *b) {
  using Acc = typename I::Acc;
  using V = std::conditional_t<std::is_same_v<Acc, float>, Float8,
                               std::conditional_t<std::is_same_v<Acc, double>, Double4, Int8>>;
  constexpr unsigned width = sizeof(V) / sizeof(Acc), rows = 8;
  constexpr bool mustFuse = std::is_same_v<typename I::Raw, float> || std::is_same_v<typename I::Raw, double>;
  if constexpr (mustFuse && !HostFma) {
    for (unsigned i = 0; i < I::m; ++i)
      for (unsigned j = 0; j < I::n; ++j)
        for (unsigned k = 0; k < I::k; ++k)
          c[i * I::n + j] = std::fma(a[i * I::k + k], b[k * I::n + j], c[i * I::n + j]);
  } else {
    for (unsigned i = 0; i < I::m; i += rows)
      for (unsigned j = 0; j < I::n; j += width) {
        V sum[rows];
        for (unsigned r = 0; r < rows; ++r) std::memcpy(&sum[r], c + (i + r) * I::n + j, sizeof(V));
        for (unsigned k = 0; k < I::k; ++k) {
          V right;
          std::memcpy(&right, b + k * I::n + j, sizeof(V));
          for (unsigned r = 0; r < rows; ++r) sum[r] += right * a[(i + r) * I::k + k];
        }
        for (unsigned r = 0; r < rows; ++r) std::memcpy(c + (i + r) * I::n + j, &sum[r], sizeof(V));
      }
  }
}

template <typename I, bool HostFma> [[gnu::always_inline]] inline void computeMatrix(MatrixLane *const *lanes) {
  using T = MatrixTables<I>;
  using Unit = typename T::Unit;
  using Acc = typename I::Acc;
  using Raw = typename I::Raw;
  alignas(64) Raw rawA[I::m * I::k], rawB[I::n * I::k];
  alignas(64) Acc a[I::m * I::k], bT[I::n * I::k], b[I::k * I::n], c[I::m * I::n];
  auto put = [](Raw * to, unsigned unit, const void *from, unsigned reg) __attribute__((always_inline)) {
    std::memcpy(reinterpret_cast<char *>(to) + unit * sizeof(Unit),
                static_cast<const char *>(from) + reg * sizeof(Unit), sizeof(Unit));
  };
  for (unsigned l = 0; l < I::lanes; ++l) {
    for (unsigned i = 0; i < I::aRegs; ++i) put(rawA, T::a[l][i], lanes[l]->a, i);
    for (unsigned i = 0; i < I::bRegs; ++i) put(rawB, T::b[l][i], lanes[l]->b, i);
    for (unsigned i = 0; i < T::cRegs; ++i)
      std::memcpy(&c[T::c[l][i]], static_cast<const Acc *>(lanes[l]->c) + i, sizeof(Acc));
  }
  for (unsigned i = 0; i < I::m * I::k; ++i) a[i] = I::convert(rawA[i]);
  for (unsigned i = 0; i < I::n * I::k; ++i) bT[i] = convertRight<I>(rawB[i]);
  for (unsigned k = 0; k < I::k; ++k)
    for (unsigned j = 0; j < I::n; ++j) b[k * I::n + j] = bT[j * I::k + k];
  multiply<I, HostFma>(c, a, b);
  for (unsigned l = 0; l < I::lanes; ++l)
    for (unsigned i = 0; i < T::cRegs; ++i)
      std::memcpy(static_cast<Acc *>(lanes[l]->d) + i, &c[T::c[l][i]], sizeof(Acc));
}

/// The same in exact arithmetic (exact.h); tf32 is not cut there.
template <typename I> void computeMatrixExact(MatrixLane *const *lanes) {
  using T = MatrixTables<I>;
  using Raw = typename I::Raw;
  using Acc = typename I::Acc;
  using R = std::conditional_t<sizeof(Acc) == 8, Ring64, Ring32>;
  using U = std::conditional_t<sizeof(Acc) == 8, uint64_t, uint32_t>;
  Raw rawA[I::m * I::k], rawB[I::n * I::k];
  U c[I::m * I::n];
  constexpr size_t unit = sizeof(typename T::Unit);
  auto put = [](Raw *to, unsigned at, const void *from, unsigned reg) {
    std::memcpy(reinterpret_cast<char *>(to) + at * unit, static_cast<const char *>(from) + reg * unit, unit);
  };
  for (unsigned l = 0; l < I::lanes; ++l) {
    for (unsigned i = 0; i < I::aRegs; ++i) put(rawA, T::a[l][i], lanes[l]->a, i);
    for (unsigned i = 0; i < I::bRegs; ++i) put(rawB, T::b[l][i], lanes[l]->b, i);
    for (unsigned i = 0; i < T::cRegs; ++i)
      std::memcpy(&c[T::c[l][i]], static_cast<const U *>(lanes[l]->c) + i, sizeof(U));
  }
  auto number = [](Raw raw, bool right) {
    if constexpr (std::is_same_v<Raw, uint32_t>)
      return Ring32::ofBits(raw);
    else
      return ringOf(right ? convertRight<I>(raw) : I::convert(raw));
  };
  U a[I::m * I::k], b[I::n * I::k];
  for (unsigned i = 0; i < I::m * I::k; ++i) a[i] = number(rawA[i], false);
  for (unsigned i = 0; i < I::n * I::k; ++i) b[i] = number(rawB[i], true);
  for (unsigned i = 0; i < I::m; ++i)
    for (unsigned j = 0; j < I::n; ++j) {
      U sum = R::ofBits(c[i * I::n + j]);
      for (unsigned k = 0; k < I::k; ++k) sum += a[i * I::k + k] * b[j * I::k + k];
      c[i * I::n + j] = R::toBits(sum);
    }
  for (unsigned l = 0; l < I::lanes; ++l)
    for (unsigned i = 0; i < T::cRegs; ++i) std::memcpy(static_cast<U *>(lanes[l]->d) + i, &c[T::c[l][i]], sizeof(U));
}

template <typename I> [[gnu::target("avx2,fma")]] void computeMatrixFast(MatrixLane *const *lanes) {
  computeMatrix<I, true>(lanes);
}
template <typename I> void computeMatrixPlain(MatrixLane *const *lanes) {
  computeMatrix<I, false>(lanes);
}

/// True if the launch is exact, and this an instruction on floats.
template <typename I> bool computeExact(MatrixLane *const *lanes) {
  if constexpr (std::is_floating_point_v<typename I::Acc>)
    if (engine().program.exact) return computeMatrixExact<I>(lanes), true;
  return false;
}

/// The lanes of a warp meet, the last one computes.
template <typename I> void matrixInstruction(MatrixLane lane, uint32_t site) {
  static const bool fast = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  Gather *gather;
  if (!engine().arrive(site, I::lanes == 64 ? ~uint64_t(0) : 0xffffffffu, &lane, gather)) return;
  auto *lanes = reinterpret_cast<MatrixLane *const *>(gather->slots);
  if (!computeExact<I>(lanes)) {
    if (fast)
      computeMatrixFast<I>(lanes);
    else
      computeMatrixPlain<I>(lanes);
  }
  engine().depart(*gather);
}

// --- operand formats

[[gnu::always_inline]] inline float floatFromBits(uint32_t bits) {
  float f;
  std::memcpy(&f, &bits, 4);
  return f;
}
struct HalfOperand {
  using Raw = uint16_t;
  using Acc = float;
  // Without branches, so that it vectorizes: the exponent is moved by a multiplication, which also normalizes
  // denormals.
  [[gnu::always_inline]] static float convert(uint16_t h) {
    uint32_t magnitude = uint32_t(h & 0x7fff) << 13;
    float scaled = floatFromBits(magnitude) * 0x1p112f;
    uint32_t bits;
    std::memcpy(&bits, &scaled, 4);
    bits |= (h & 0x7c00) == 0x7c00 ? 0x7f800000u : 0u;
    return floatFromBits(bits | uint32_t(h & 0x8000) << 16);
  }
};
struct BFloatOperand {
  using Raw = uint16_t;
  using Acc = float;
  [[gnu::always_inline]] static float convert(uint16_t h) { return floatFromBits(uint32_t(h) << 16); }
};
/// tf32 and xf32: the low 13 bits of an f32 are not looked at.
struct Tf32Operand {
  using Raw = uint32_t;
  using Acc = float;
  [[gnu::always_inline]] static float convert(uint32_t u) { return floatFromBits(u & ~0x1fffu); }
};
struct FloatOperand {
  using Raw = float;
  using Acc = float;
  [[gnu::always_inline]] static float convert(float f) { return f; }
};
struct DoubleOperand {
  using Raw = double;
  using Acc = double;
  [[gnu::always_inline]] static double convert(double f) { return f; }
};
/// Sums of products of bytes wrap in 32 bits.
struct SignedByteOperand {
  using Raw = int8_t;
  using Acc = uint32_t;
  [[gnu::always_inline]] static uint32_t convert(int8_t v) { return uint32_t(int32_t(v)); }
};
struct UnsignedByteOperand {
  using Raw = uint8_t;
  using Acc = uint32_t;
  [[gnu::always_inline]] static uint32_t convert(uint8_t v) { return v; }
};
/// 8-bit floats. Ocp: e4m3 with one NaN pattern a sign and no infinity, e5m2 as IEEE. Fnuz: no infinity, no -0, whose pattern is the NaN,
/// and a bias higher by one.
template <unsigned Mantissa, bool Fnuz> struct Float8Operand {
  using Raw = uint8_t;
  using Acc = float;
  static constexpr int bias = (Mantissa == 3 ? 7 : 15) + (Fnuz ? 1 : 0);
  [[gnu::always_inline]] static float convert(uint8_t v) {
    const uint32_t magnitude = v & 0x7f, sign = uint32_t(v & 0x80) << 24;
    // As for f16: a multiplication moves the exponent and normalizes denormals.
    float scaled = floatFromBits(magnitude << (23 - Mantissa)) * floatFromBits(uint32_t(254 - bias) << 23);
    uint32_t bits;
    std::memcpy(&bits, &scaled, 4);
    // No choice between two values: loops over this must vectorize.
    if (Fnuz)
      bits |= v == 0x80 ? 0x7fc00000 : 0;
    else if (Mantissa == 3)
      bits |= magnitude == 0x7f ? 0x7fc00000 : 0;
    else
      bits |= magnitude >= 0x7c ? 0x7f800000 : 0;
    return floatFromBits(bits | sign);
  }
};
template <typename A, typename B> struct Float8Pair : A {
  [[gnu::always_inline]] static float convertB(uint8_t v) { return B::convert(v); }
};
using E4m3 = Float8Operand<3, false>;
using E5m2 = Float8Operand<2, false>;
using E4m3Fnuz = Float8Operand<3, true>;
using E5m2Fnuz = Float8Operand<2, true>;

} // namespace tlx::sim
