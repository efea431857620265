// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Facts about single values, for axis analysis.
#pragma once
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/bit.h"

#include "ir/ir.h"

namespace tlx::passes {

/// Stands for "any power of two": the divisibility of zero.
inline constexpr int64_t kMaxDivisibility = int64_t(1) << 62;

inline int64_t powerOfTwoPart(int64_t v) {
  if (v == 0) return kMaxDivisibility;
  return int64_t(1) << std::min(62, llvm::countr_zero(uint64_t(v)));
}

struct Refinement {
  int64_t divisibility = 1;
  int64_t min = INT64_MIN, max = INT64_MAX;
  void merge(const Refinement &o) {
    divisibility = std::max(divisibility, o.divisibility);
    min = std::max(min, o.min), max = std::min(max, o.max);
  }
};
using Refinements = llvm::DenseMap<const ir::Value *, Refinement>;

/// From the kernel's facts and the assume ops.
Refinements collectRefinements(const ir::Module &module);

} // namespace tlx::passes
