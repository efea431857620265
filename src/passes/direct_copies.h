// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rings that are filled by loads straight into shared memory (Target::directToLds). Such a load writes the lanes of a warp side by side,
// so it is the source that is permuted: layout assignment gives the pointers the layout in which they are the ring in memory's order,
// swizzle included, and the pipeliner makes the ring. Both ask here, and must get one answer.
#pragma once
#include <optional>

#include "features/features.h"
#include "passes/axis_analysis.h"

namespace tlx::passes {

struct DirectRing {
  layout::SharedLayout memory;
  layout::TileLayout pointers;
};
/// For a load whose value is wanted in the layouts `consumers`. nullopt if the target has no such loads, or no width of theirs fits.
std::optional<DirectRing> planDirectRing(const ir::Op &load, llvm::ArrayRef<const layout::TileLayout *> consumers,
                                         const AxisAnalysis &axis, const features::Target &target, unsigned warps);

/// Pointer tiles that a loop moves by scalars become the same tile in every iteration, plus a scalar:
///
///   for … (%p = %q) {              for … (%o = 0) {
///     load %p               ->       load (addptr %q, splat %o)
///     yield addptr %p, splat %s      yield add %o, %s
///
/// so that what differs between threads is computed once, in front of the loop.
void separateSteps(ir::Module &module, ir::Op &loop);

} // namespace tlx::passes
