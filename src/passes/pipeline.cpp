// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The order of the passes. Each line says why it stands there.
#include <chrono>

#include "passes/passes.h"

namespace tlx::passes {

bool runPipeline(ir::Module &module, const features::Target &target, const PipelineOptions &options,
                 Diagnostics &diagnostics) {
#ifdef TLX_VERIFY_PASSES
  const bool verify = true;
#else
  const bool verify = options.verify;
#endif
  for (const PassEntry &pass : allPasses()) {
    if (pass.run == checkSchedules && !options.scheduleChecks) continue;
    auto start = std::chrono::steady_clock::now();
    if (!pass.run(module, target, diagnostics)) return false;
    if (options.after) {
      std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
      options.after(pass.name, module, time.count());
    }
    if (verify && !ir::verify(module, diagnostics)) {
      diagnostics.report(Diag::Internal, module.kernel.loc, std::string("the IR is broken after pass ") + pass.name);
      return false;
    }
  }
  return true;
}

namespace {
bool runSimplify(ir::Module &m, const features::Target &, Diagnostics &) {
  simplify(m);
  return true;
}
} // namespace

const std::vector<PassEntry> &allPasses() {
  static const std::vector<PassEntry> passes = {
      // Before folding, which makes replicas differ in more than their numbers.
      {"merge-replicas", "one code for the replicas of a task", mergeReplicas},
      {"simplify", "folding, CSE, DCE, LICM", runSimplify},
      // Before anything is made of it.
      {"check-tasks", "rules of hand-written schedules", checkTasks},
      // On what the program says, and behind what check-tasks refuses.
      {"check-schedules", "waits that never end, bytes that never come", checkSchedules},
      // Behind the checks, which speak of the program's warps, before layouts.
      {"narrow-tasks", "one warp for what one warp can do", narrowTasks},
      // First of all: layouts are for accesses, and the facts of descriptors for axis analysis.
      {"lower-descriptors", "masked accesses for descriptors that TMA cannot serve", lowerDescriptors},
      // On clean IR: one computation is one value, so that classes are few and facts are seen.
      {"assign-layouts", "matrix instructions, and a layout for every tile", assignLayouts},
      // Merges the clones that got the same layout.
      {"simplify-layouts", "the same, after layouts", runSimplify},
      {"pipeline-descriptors", "TMA rings for num_stages, wgmma in flight", pipelineDescriptors},
      // Behind the pipelines, which look for loops in loops.
      {"start-accumulators", "no zeros for accumulators", startAccumulators},
      // Before conversions are lowered: rings replace the conversion of what they hold.
      {"pipeline-loops", "ring buffers and copies ahead for num_stages", pipelineLoops},
      // Behind all rings: what they leave of shared memory decides how a tile is staged.
      {"lower-descriptor-copies", "TMA for other descriptor accesses", lowerDescriptorCopies},
      {"lower-reductions", "reductions across warps; memory for scans and atomics", lowerReductions},
      {"lower-conversions", "conversions through shared memory", lowerConversions},
      {"simplify-lowered", "the same, after lowering", runSimplify},
      {"annotate-accesses", "vector widths", annotateAccesses},
      // Behind all that looks at definitions outside of tasks, before what looks at threads.
      {"lower-tasks", "arrivals by warp, tasks that stand alone", lowerTasks},
      // Last: nothing may add a buffer after planning, nor an access after barriers.
      {"plan-memory", "offsets in shared memory", planMemory},
      {"insert-barriers", "barriers between threads' accesses", insertBarriers},
      // After barriers: they are marked too.
      {"insert-waits", "counts of loads in flight", insertWaits},
  };
  return passes;
}

} // namespace tlx::passes
