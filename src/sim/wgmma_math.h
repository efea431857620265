// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to src/sim: the product of one wgmma, 64 x n x k, on operands as they lie in shared memory.
#pragma once
#include <cstdint>

#include "sim/units.h"

namespace tlx::sim {

struct WgmmaProduct {
  WgmmaKind kind;
  unsigned n;
  // Dense rows. K-major: 64 or n rows of 32 bytes along k; across: 16 rows of k, 64 or n elements of 16 bits each.
  const uint8_t *a, *b;
  bool aAcross, bAcross;
  bool useAcc;
  uint32_t *c; // 64 x n, f32 or i32
  bool exact;  // exact.h
};

/// c = a · b + (useAcc ? c : 0). Sums start with c and add k ascending in f32; sums of integers wrap.
void multiplyWgmma(const WgmmaProduct &product);

} // namespace tlx::sim
