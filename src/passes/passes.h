// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The passes: free functions over a module. pipeline.cpp orders them; registry.cpp names them for tlx-opt. Each returns false after it
// reported an error, and leaves a module that the verifier accepts otherwise.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "features/features.h"
#include "ir/ir.h"

namespace tlx::passes {

struct SimplifyOptions {};
/// Folding, CSE, DCE, LICM: simplify.cpp.
void simplify(ir::Module &module, const SimplifyOptions &options = {});

/// Replicas of a task whose code differs in numbers only become one task: merge_replicas.cpp.
bool mergeReplicas(ir::Module &module, const features::Target &target, Diagnostics &diagnostics);
/// Refuses what a hand-written schedule may not do; settles waits and registers: check_tasks.cpp.
bool checkTasks(ir::Module &module, const features::Target &target, Diagnostics &diagnostics);
/// Refuses hand-written schedules that cannot work; changes nothing: check_schedules.cpp.
bool checkSchedules(ir::Module &module, const features::Target &target, Diagnostics &diagnostics);
/// Tasks whose work fits one warp are one warp's: narrow_tasks.cpp.
bool narrowTasks(ir::Module &module, const features::Target &target, Diagnostics &diagnostics);
/// Tensor descriptors become pointers, strides and extents where the target has no TMA: lower_descriptors.cpp.
bool lowerDescriptors(ir::Module &module, const features::Target &target, Diagnostics &diagnostics);
/// Chooses matrix instructions for dots and a layout for every tile; inserts convert_layout where uses disagree: assign_layouts.cpp.
bool assignLayouts(ir::Module &module, const features::Target &target, Diagnostics &diagnostics);
/// Part of it: layouts of the buffers that are written by hand, and of their views: place_buffers.cpp.
void placeBuffers(ir::Module &module, const features::Target &target, Diagnostics &diagnostics);
/// Loops with num_stages and descriptor loads get TMA rings and keep wgmma in flight: pipeline_descriptors.cpp.
bool pipelineDescriptors(ir::Module &module, const features::Target &target, Diagnostics &diagnostics);
/// Accumulators of loops of async_dot start from nothing instead of zeros: accumulators.cpp.
bool startAccumulators(ir::Module &module, const features::Target &target, Diagnostics &diagnostics);
/// The other descriptor loads and stores become TMA and a wait: lower_descriptor_copies.cpp.
bool lowerDescriptorCopies(ir::Module &module, const features::Target &target, Diagnostics &diagnostics);
/// Loops with num_stages get ring buffers and copies ahead: pipeline_loops.cpp.
bool pipelineLoops(ir::Module &module, const features::Target &target, Diagnostics &diagnostics);
/// Splits reductions across warps into a partial one, a conversion and one in registers: lower_reductions.cpp.
bool lowerReductions(ir::Module &module, const features::Target &target, Diagnostics &diagnostics);
/// Conversions that need shared memory become a buffer, a store and a load: lower_conversions.cpp.
bool lowerConversions(ir::Module &module, const features::Target &target, Diagnostics &diagnostics);
/// Sets {vec} on loads, stores and async copies from axis analysis: annotate_accesses.cpp.
bool annotateAccesses(ir::Module &module, const features::Target &target, Diagnostics &diagnostics);
/// Arrivals by warp, and tasks that need nothing from outside: lower_tasks.cpp.
bool lowerTasks(ir::Module &module, const features::Target &target, Diagnostics &diagnostics);
/// Gives every buffer an offset by lifetime; too much is an error with the map: plan_memory.cpp.
bool planMemory(ir::Module &module, const features::Target &target, Diagnostics &diagnostics);
/// Bytes of the buffers and barriers that are alive at `op`.
int64_t liveSharedBytes(ir::Module &module, ir::Op &op);
/// Bytes of a buffer, all slots of a ring.
int64_t bufferBytes(ir::Type buffer);
/// From the first byte of a storage_view to its last.
int64_t storageBytes(const ir::Op &view);
/// The map that planMemory made, for people.
std::string memoryMap(const ir::Module &module);
/// Barriers where accesses of shared memory by different threads meet: insert_barriers.cpp.
bool insertBarriers(ir::Module &module, const features::Target &target, Diagnostics &diagnostics);
/// On targets that load straight into shared memory: numbers of loads for waits, and barriers that leave loads in flight: insert_waits.cpp.
bool insertWaits(ir::Module &module, const features::Target &target, Diagnostics &diagnostics);

struct PassEntry {
  const char *name;
  const char *summary;
  bool (*run)(ir::Module &, const features::Target &, Diagnostics &);
};
/// Every pass by name, in the order of the pipeline.
const std::vector<PassEntry> &allPasses();

struct PipelineOptions {
  bool verify = false;                                                        // after every pass
  bool scheduleChecks = true;                                                 // check-schedules runs
  std::function<void(const char *pass, const ir::Module &, double ms)> after; // timing and dumps
};
/// Elaborated IR to what code generation takes: pipeline.cpp.
bool runPipeline(ir::Module &module, const features::Target &target, const PipelineOptions &options,
                 Diagnostics &diagnostics);

} // namespace tlx::passes
