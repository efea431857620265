// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Everything is multiplied in f32: products of f16, bf16, tf32 and 8-bit floats are exact there, and so are sums of 32
// products of bytes (below 2^24), which are then added to the accumulator as integers. Hardware groups and truncates
// sums of floats in ways of its own.
#include "sim/wgmma_math.h"

#include <cstring>
#include <memory>
#include <vector>

#include "sim/exact.h"
#include "sim/matrix.h"

namespace tlx::sim {

namespace {
constexpr unsigned kRows = 64, kMaxN = 256, kMaxDepth = 32;

struct S8Operand {
  using Raw = int8_t;
  [[gnu::always_inline]] static float convert(int8_t v) { return float(v); }
};
struct U8Operand {
  using Raw = uint8_t;
  [[gnu::always_inline]] static float convert(uint8_t v) { return float(v); }
};

template <typename Operand> [[gnu::always_inline]] inline void decodeAs(float *to, const uint8_t *raw, unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    typename Operand::Raw r;
    std::memcpy(&r, raw + i * sizeof r, sizeof r);
    to[i] = Operand::convert(r);
  }
}
[[gnu::always_inline]] inline void decode(WgmmaFormat format, float *to, const uint8_t *raw, unsigned count) {
  switch (format) {
  case WgmmaFormat::F16:
    return decodeAs<HalfOperand>(to, raw, count);
  case WgmmaFormat::BF16:
    return decodeAs<BFloatOperand>(to, raw, count);
  case WgmmaFormat::TF32:
    return decodeAs<Tf32Operand>(to, raw, count);
  case WgmmaFormat::E4M3:
    return decodeAs<E4m3>(to, raw, count);
  case WgmmaFormat::E5M2:
    return decodeAs<E5m2>(to, raw, count);
  case WgmmaFormat::S8:
    return decodeAs<S8Operand>(to, raw, count);
  case WgmmaFormat::U8:
    return decodeAs<U8Operand>(to, raw, count);
  }
}

typedef int32_t SignedInt8 __attribute__((vector_size(32)));

/// 4 rows x 8·Columns columns of c.
template <unsigned Columns, bool Integers>
[[gnu::always_inline]] inline void block(const WgmmaProduct &p, uint32_t *c, const float *a, unsigned aRow, unsigned aK,
                                         const float *b) {
  constexpr unsigned rows = 4;
  const unsigned depth = p.kind.depth(), n = p.n;
  Float8 sum[rows][Columns];
  for (unsigned r = 0; r < rows; ++r)
    for (unsigned j = 0; j < Columns; ++j) {
      sum[r][j] = Float8{};
      if (!Integers && p.useAcc) std::memcpy(&sum[r][j], c + r * n + 8 * j, sizeof(Float8));
    }
  for (unsigned k = 0; k < depth; ++k) {
    Float8 right[Columns];
    for (unsigned j = 0; j < Columns; ++j)
      std::memcpy(&right[j], b + k * n + 8 * j, sizeof right[j]); // one copy would go through memory
    for (unsigned r = 0; r < rows; ++r) {
      const float left = a[r * aRow + k * aK];
      for (unsigned j = 0; j < Columns; ++j) sum[r][j] += right[j] * left;
    }
  }
  for (unsigned r = 0; r < rows; ++r)
    for (unsigned j = 0; j < Columns; ++j) {
      if constexpr (Integers) {
        Int8 total = (Int8) __builtin_convertvector(sum[r][j], SignedInt8), old{};
        if (p.useAcc) std::memcpy(&old, c + r * n + 8 * j, sizeof old);
        total += old;
        std::memcpy(c + r * n + 8 * j, &total, sizeof total);
      } else {
        std::memcpy(c + r * n + 8 * j, &sum[r][j], sizeof(Float8));
      }
    }
}

template <bool Integers> [[gnu::always_inline]] inline void multiplyAll(const WgmmaProduct &p) {
  struct alignas(64) Scratch {
    float a[kRows * kMaxDepth], raw[kMaxN * kMaxDepth], b[kMaxN * kMaxDepth];
  };
  static thread_local std::unique_ptr<Scratch> own; // not in the thread's own memory: see executeWgmma
  if (!own) own = std::make_unique<Scratch>();
  Scratch &scratch = *own;
  const unsigned depth = p.kind.depth(), n = p.n;
  decode(p.kind.a, scratch.a, p.a, kRows * depth);
  const unsigned aRow = p.aAcross ? 1 : depth, aK = p.aAcross ? kRows : 1;
  float *b = scratch.b;
  if (p.bAcross) {
    decode(p.kind.b, b, p.b, n * depth);
  } else {
    decode(p.kind.b, scratch.raw, p.b, n * depth);
    for (unsigned j = 0; j < n; j += 8) // 8 columns at a time stay in the cache
      for (unsigned k = 0; k < depth; ++k)
        for (unsigned i = 0; i < 8; ++i) b[k * n + j + i] = scratch.raw[(j + i) * depth + k];
  }
  for (unsigned i = 0; i < kRows; i += 4) {
    unsigned j = 0;
    for (; j + 16 <= n; j += 16) block<2, Integers>(p, p.c + i * n + j, scratch.a + i * aRow, aRow, aK, b + j);
    for (; j < n; j += 8) block<1, Integers>(p, p.c + i * n + j, scratch.a + i * aRow, aRow, aK, b + j);
  }
}

template <bool Integers> [[gnu::target("avx2,fma")]] void multiplyFast(const WgmmaProduct &p) {
  multiplyAll<Integers>(p);
}
template <bool Integers> void multiplyPlain(const WgmmaProduct &p) {
  multiplyAll<Integers>(p);
}

/// The same in exact arithmetic; tf32 is not cut there.
void multiplyExact(const WgmmaProduct &p) {
  const unsigned depth = p.kind.depth(), n = p.n;
  auto numbers = [&](WgmmaFormat format, const uint8_t *raw, unsigned count) {
    std::vector<float> floats(count);
    if (format == WgmmaFormat::TF32)
      std::memcpy(floats.data(), raw, 4 * size_t(count));
    else
      decode(format, floats.data(), raw, count);
    std::vector<uint32_t> ring(count);
    for (unsigned i = 0; i < count; ++i) ring[i] = ringOf(floats[i]);
    return ring;
  };
  const std::vector<uint32_t> a = numbers(p.kind.a, p.a, kRows * depth), b = numbers(p.kind.b, p.b, n * depth);
  for (unsigned i = 0; i < kRows; ++i)
    for (unsigned j = 0; j < n; ++j) {
      uint32_t sum = p.useAcc ? Ring32::ofBits(p.c[i * n + j]) : 0;
      for (unsigned k = 0; k < depth; ++k)
        sum += a[p.aAcross ? k * kRows + i : i * depth + k] * b[p.bAcross ? k * n + j : j * depth + k];
      p.c[i * n + j] = Ring32::toBits(sum);
    }
}
} // namespace

void multiplyWgmma(const WgmmaProduct &p) {
  if (p.exact && !p.kind.integers) return multiplyExact(p);
  static const bool fast = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (p.kind.integers)
    fast ? multiplyFast<true>(p) : multiplyPlain<true>(p);
  else
    fast ? multiplyFast<false>(p) : multiplyPlain<false>(p);
}

} // namespace tlx::sim
