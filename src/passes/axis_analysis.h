// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is known at compile time of integers and pointers: along each dimension of a tile, how they step, what divides
// them and where they stay the same; a constant value; a range. From it come vector widths, coalescing and unsigned
// division.
//
//   %0 = arange {start = 0} : i32[1024]        contiguity 1024, divisibility 2^62, constancy 1, range [0, 1023]
//   %1 = mul %pid, %c64 : i32                  divisibility 64
//   %2 = splat %1 : i32[1024]                  divisibility 64, constancy 1024
//   %3 = add %2, %0 : i32[1024]                contiguity 1024, divisibility 64
//
// The groups below are the aligned runs of that many positions along the dimension, the other coordinates fixed:
// - contiguity: in a group each element is the one before plus one (pointers: plus one element);
// - divisibility: a power of two that divides the first element of each such group (pointers: of the address in bytes);
// - constancy: the elements of a group are equal.
// A scalar has one dimension of extent 1. As in Triton's AxisInfo, but a smaller group keeps only what divides its
// size, so that the numbers hold for each combination of them. Integers wrap: a range that could leave the type is the
// whole type.
#pragma once
#include <optional>

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"

#include "ir/ir.h"

namespace tlx::passes {

struct AxisInfo {
  llvm::SmallVector<int64_t, 4> contiguity, divisibility, constancy; // by dimension
  std::optional<int64_t> constant;                                   // of every element; integers only
  int64_t min = INT64_MIN, max = INT64_MAX; // of every element, inclusive; integers up to 64 bits signed
  unsigned rank() const { return contiguity.size(); }
  bool nonNegative() const { return min >= 0; }
  bool operator==(const AxisInfo &) const = default;
  /// contiguity = [4], divisibility = [16], constancy = [1], range = [0, 9]
  std::string str() const;
};

/// Computed once for a module, by sweeps over it until the carried values of loops stay. Uses the kernel's facts,
/// assume and multiple_of. Values made after the analysis have nothing known of them.
class AxisAnalysis {
public:
  explicit AxisAnalysis(const ir::Module &module);
  const AxisInfo &info(const ir::Value *v) const;
  /// Elements that one access instruction of load, store, an atomic or async_copy can move: at most 16 bytes,
  /// consecutive in the registers of the pointer's layout, contiguous and aligned in memory, and masked as one. Without
  /// a layout: what the pointers and the mask allow along their best dimension.
  unsigned vectorWidth(const ir::Op &access) const { return width(access, false); }
  /// The same where the mask of an access may also be a prefix: its first elements, and not all of them.
  unsigned prefixWidth(const ir::Op &access) const { return width(access, true); }
  /// No element is negative, so that a division may be an unsigned one.
  bool nonNegative(const ir::Value *v) const { return info(v).nonNegative(); }

private:
  unsigned width(const ir::Op &access, bool prefixes) const;
  /// Along d, the elements of each aligned run of that many that are true come first.
  int64_t prefix(const ir::Value *mask, unsigned d) const;
  llvm::DenseMap<const ir::Value *, AxisInfo> infos;
  mutable llvm::DenseMap<const ir::Value *, std::unique_ptr<AxisInfo>> unknown;
};

/// Every value with what is known of it, for tests and people: "%3: …" a line, in the order and with the numbers of the
/// text form.
std::string printAxis(const ir::Module &module);

} // namespace tlx::passes
