// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Dots that become wgmma: whether one can, and what it becomes.
#pragma once
#include <optional>

#include "features/wgmma.h"
#include "ir/ir.h"
#include "passes/axis_analysis.h"

namespace tlx::passes {

/// How an operand gets to the unit: through shared memory (the tile `source`, seen with its dimensions swapped if `transposed`), or, A only,
/// in registers.
struct WgmmaOperand {
  ir::Value *source = nullptr;
  bool transposed = false;
  std::optional<layout::SharedLayout> memory; // of `source`; nullopt: registers
};

struct WgmmaDot {
  features::WgmmaPlan plan;
  WgmmaOperand a, b;
};

/// nullopt if the target, the types, the extents or the operands' order in memory do not allow it.
std::optional<WgmmaDot> planWgmmaDot(const ir::Op &dot, unsigned numWarps, const features::Target &target,
                                     const AxisAnalysis &axis);

/// dot → async_dot and its wait, with buffers for what goes through shared memory. Tiles have layouts.
void makeAsyncDot(ir::Module &module, ir::Op &dot, const WgmmaDot &plan);

/// Keeps dots of a loop in flight into the next iteration, where only that reads them and their operands' buffers last as long. The op
/// behind which all dots of the iteration before have retired; null if they had at the loop's top already. `releases`: the caller releases
/// slots that mbarriers manage behind that op; else they were released before, and dots that read them stay.
ir::Op *deferDots(ir::Module &module, ir::Op &loop, bool releases);

} // namespace tlx::passes
