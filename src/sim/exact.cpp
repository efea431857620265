// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Exact arithmetic on the host: what is too long to stand in the kernel's code, and the device operations that compute with floats.
#include "sim/exact.h"

#include <limits>

#include "sim/engine.h"
#include "sim/matrix.h"
#include "sim/round.h"

namespace tlx::sim {

namespace {
struct FormatBits : FormatNumbers {
  uint64_t mask() const { return ~uint64_t(0) >> (64 - width); }
  uint64_t infinity() const { return (uint64_t(1) << (width - 1)) - (uint64_t(1) << mantissa); }
  uint64_t sign() const { return uint64_t(1) << (width - 1); }
  unsigned turn() const { return width - mantissa; }
  bool isInfinite(uint64_t bits) const { return (bits & ~sign()) == infinity(); }
  uint64_t inverse(uint64_t odd) const { return Ring64::inverse(odd) & mask(); }
  uint64_t ofBits(uint64_t bits) const {
    const uint64_t turned = (bits << turn() | bits >> (width - turn())) & mask();
    return turned * inverse(one) & mask();
  }
  uint64_t toBits(uint64_t r) const {
    r = r * one & mask();
    return (r >> turn() | r << (width - turn())) & mask();
  }
};
FormatBits formatOf(FloatFormat f) {
  return {formatNumbers(f)};
}

uint64_t mixed(uint64_t x, uint64_t salt) {
  x = (x ^ salt * 0x9e3779b97f4a7c15ull) * 0xff51afd7ed558ccdull;
  x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53ull;
  return x ^ x >> 33;
}

/// A fixed map to numbers of the format.
uint64_t mapped(FloatFormat format, uint64_t a, uint64_t b, uint64_t salt) {
  return formatOf(format).toBits(mixed(mixed(a, salt), b) & formatOf(format).mask());
}

uint64_t exp2(FloatFormat format, uint64_t bits) {
  const FormatBits f = formatOf(format);
  if (f.isInfinite(bits)) return bits & f.sign() ? 0 : bits;
  uint64_t result = 1, power = 5;
  for (uint64_t n = f.ofBits(bits); n; n >>= 1, power *= power)
    if (n & 1) result *= power;
  return f.toBits(result & f.mask());
}
/// 1 / (2^k · u) = 2^k · 1/u: right for odd numbers, and factors that have an inverse can be taken out of any.
uint64_t reciprocal(FloatFormat format, uint64_t bits) {
  const FormatBits f = formatOf(format);
  if (f.isInfinite(bits)) return 0;
  const uint64_t r = f.ofBits(bits);
  if (!r) return f.infinity();
  const int k = std::countr_zero(r);
  return f.toBits((f.inverse(r >> k) << k) & f.mask());
}
uint64_t multiply(FloatFormat format, uint64_t a, uint64_t b) {
  const FormatBits f = formatOf(format);
  if (f.isInfinite(a)) return a;
  if (f.isInfinite(b)) return b;
  return f.toBits(f.ofBits(a) * f.ofBits(b) & f.mask());
}
uint64_t divide(uint64_t a, uint64_t b, uint32_t format) {
  return multiply(FloatFormat(format), a, reciprocal(FloatFormat(format), b));
}

uint32_t bitsOf(float x) {
  return std::bit_cast<uint32_t>(x);
}
uint64_t bitsOf(double x) {
  return std::bit_cast<uint64_t>(x);
}

/// To a wider format: the number, NaNs by their bits.
uint64_t extend(uint64_t bits, uint32_t from, uint32_t to) {
  uint32_t single = uint32_t(bits);
  if (FloatFormat(from) == FloatFormat::F16) single = bitsOf(HalfOperand::convert(uint16_t(bits)));
  if (FloatFormat(from) == FloatFormat::BF16) single = uint32_t(bits) << 16;
  if (FloatFormat(to) == FloatFormat::F32) return single;
  if ((single & 0x7f800000) == 0x7f800000)
    return uint64_t(single >> 31) << 63 | uint64_t(0x7ff) << 52 | uint64_t(single & 0x7fffff) << 29;
  return bitsOf(double(floatFromBits(single)));
}
/// To a narrower one: what it holds stays, else the low bits of the integer, with an exponent below that of NaNs.
uint64_t truncate(uint64_t bits, uint32_t from, uint32_t to) {
  const FormatBits wide = formatOf(FloatFormat(from)), narrow = formatOf(FloatFormat(to));
  double x;
  if (FloatFormat(from) == FloatFormat::F32)
    x = double(floatFromBits(uint32_t(bits)));
  else
    std::memcpy(&x, &bits, 8);
  const uint64_t kept = FloatFormat(to) == FloatFormat::F32    ? bitsOf(float(x))
                        : FloatFormat(to) == FloatFormat::BF16 ? doubleToBf16(x)
                                                               : toF16(x);
  if (extend(kept, to, from) == bits) return kept;
  uint64_t low = wide.ofBits(bits) & narrow.mask();
  if ((low & narrow.infinity()) == narrow.infinity()) low ^= uint64_t(1) << narrow.mantissa;
  return low;
}

uint64_t unary(uint64_t bits, uint32_t format, uint32_t function) {
  return mapped(FloatFormat(format), bits, 0, function);
}
uint64_t binary(uint64_t a, uint64_t b, uint32_t format, uint32_t function) {
  return mapped(FloatFormat(format), a, b, function);
}
uint64_t power2(uint64_t bits, uint32_t format) {
  return exp2(FloatFormat(format), bits);
}

// --- device operations
constexpr uint32_t kLog2 = 1u << 20, kRsqrt = kLog2 + 1; // beyond the numbers of LLVM's intrinsics
constexpr auto F32 = FloatFormat::F32;
float single(uint64_t bits) {
  return floatFromBits(uint32_t(bits));
}
float deviceExp2(float x, uint32_t) {
  return single(exp2(F32, bitsOf(x)));
}
float deviceLog2(float x, uint32_t) {
  return single(mapped(F32, bitsOf(x), 0, kLog2));
}
float deviceRcp(float x, uint32_t) {
  return single(reciprocal(F32, bitsOf(x)));
}
float deviceRsqrt(float x, uint32_t) {
  return single(mapped(F32, bitsOf(x), 0, kRsqrt));
}
float deviceDiv(float a, float b, uint32_t) {
  return single(divide(bitsOf(a), bitsOf(b), uint32_t(F32)));
}
uint32_t deviceTf32(float x, uint32_t) {
  return bitsOf(x);
}
uint32_t packed(float high, float low, FloatFormat to) {
  return uint32_t(truncate(bitsOf(high), uint32_t(F32), uint32_t(to)) << 16 |
                  truncate(bitsOf(low), uint32_t(F32), uint32_t(to)));
}
uint32_t devicePackBf16(float high, float low, uint32_t) {
  return packed(high, low, FloatFormat::BF16);
}
uint32_t devicePackF16(float high, float low, uint32_t) {
  return packed(high, low, FloatFormat::F16);
}

const Symbol kSymbols[] = {
    symbol("tlx_exact_divide", divide),
    symbol("tlx_exact_extend", extend),
    symbol("tlx_exact_truncate", truncate),
    symbol("tlx_exact_unary", unary),
    symbol("tlx_exact_binary", binary),
    symbol("tlx_exact_exp2", power2),
    symbol("tlx.nv.ex2.approx", deviceExp2),
    symbol("tlx.nv.lg2.approx", deviceLog2),
    symbol("tlx.nv.rcp.approx", deviceRcp),
    symbol("tlx.nv.rsqrt.approx", deviceRsqrt),
    symbol("tlx.nv.div.full", deviceDiv),
    symbol("tlx.nv.cvt.rna.tf32", deviceTf32),
    symbol("tlx.nv.cvt.rn.bf16x2", devicePackBf16),
    symbol("tlx.nv.cvt.rn.f16x2", devicePackF16),
    symbol("tlx.amd.exp2", deviceExp2),
    symbol("tlx.amd.log2", deviceLog2),
    symbol("tlx.amd.rcp", deviceRcp),
    symbol("tlx.amd.rsq", deviceRsqrt),
};
} // namespace

llvm::ArrayRef<Symbol> exactOperations() {
  return kSymbols;
}

uint64_t exactAdd(FloatFormat format, uint64_t a, uint64_t b) {
  const FormatBits f = formatOf(format);
  if (f.isInfinite(a)) return a;
  if (f.isInfinite(b)) return b;
  return f.toBits((f.ofBits(a) + f.ofBits(b)) & f.mask());
}

uint64_t exactMin(FloatFormat format, uint64_t a, uint64_t b, bool max) {
  const FormatBits f = formatOf(format);
  auto key = [&](uint64_t bits) { // as makeExact's
    if (f.isInfinite(bits))
      return bits & f.sign() ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max();
    return bits & f.sign() ? -int64_t(bits & ~f.sign()) - 1 : int64_t(bits);
  };
  return (key(b) < key(a)) != max ? b : a;
}

} // namespace tlx::sim
