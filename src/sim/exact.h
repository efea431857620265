// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to src/sim: exact arithmetic. The bits of a float of w bits stand for an integer modulo 2^w, and sums and products are made of these: they
// do not depend on the order, so two kernels that compute the same expression give the same bits, however they cut it into tiles, and kernels that
// do not differ in nearly every bit. (The idea is Triton's FpSan.)
//   0.0 stands for 0 and 1.0 for 1. Infinities stay what they are: whatever is added to or multiplied with one is one, so masks by -inf work.
//   2^x is 5^x modulo 2^w, so 2^(x + y) = 2^x · 2^y, and 1 / x is an inverse as far as there is one: u · 1/(u · x) = 1/x for odd u.
//   Other functions are fixed maps without algebra. Comparisons, minima and maxima follow a fixed order of all bits, from -inf to inf.
//   A narrower type keeps a number that it holds, and else the low bits of the integer.
#pragma once
#include <bit>
#include <cstdint>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/IR/Module.h"

namespace tlx::sim {

enum class FloatFormat : uint32_t { F16, BF16, F32, F64 };
struct FormatNumbers {
  unsigned width, mantissa;
  uint64_t one; // biased exponent of 1.0
};
constexpr FormatNumbers formatNumbers(FloatFormat f) {
  constexpr FormatNumbers all[] = {{16, 10, 15}, {16, 7, 127}, {32, 23, 127}, {64, 52, 1023}};
  return all[size_t(f)];
}

template <typename U, unsigned Mantissa, U One> struct Ring {
  static constexpr int turn = int(8 * sizeof(U) - Mantissa); // sign and exponent become the low bits
  static constexpr U one = One;                              // what 1.0 is then: odd
  static constexpr U inverse(U odd) {
    U x = odd;
    for (int i = 0; i < 6; ++i) x = U(x * U(2 - odd * x)); // doubles the right bits, of which there are three
    return x;
  }
  static constexpr U oneInverse = inverse(One);
  static constexpr U ofBits(U bits) { return U(std::rotl(bits, turn) * oneInverse); }
  static constexpr U toBits(U r) { return std::rotr(U(r * one), turn); }
};
// In unsigned of at least int's width, or products would be signed.
using Ring32 = Ring<uint32_t, 23, 127>;
using Ring64 = Ring<uint64_t, 52, 1023>;
static_assert(Ring32::ofBits(0x3f800000) == 1 && Ring32::toBits(1) == 0x3f800000 && Ring32::ofBits(0) == 0);
static_assert(Ring64::ofBits(0x3ff0000000000000) == 1 && Ring64::toBits(1) == 0x3ff0000000000000);

inline uint32_t ringOf(float x) {
  return Ring32::ofBits(std::bit_cast<uint32_t>(x));
}
inline uint64_t ringOf(double x) {
  return Ring64::ofBits(std::bit_cast<uint64_t>(x));
}

/// On bits of a format: what TMA's reductions do.
uint64_t exactAdd(FloatFormat format, uint64_t a, uint64_t b);
uint64_t exactMin(FloatFormat format, uint64_t a, uint64_t b, bool max);

/// Replaces the arithmetic of floats in a module for the host. An error names what there is no exact form of.
bool makeExact(llvm::Module &module, std::string &error);

struct Symbol;
/// What such a module calls, and its forms of device operations.
llvm::ArrayRef<Symbol> exactOperations();

} // namespace tlx::sim
