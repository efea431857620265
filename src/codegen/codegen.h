// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// IR to LLVM IR with device operations. The module must be lowered: layouts assigned, conversions through shared memory
// replaced by local buffers, memory planned, barriers inserted (ir::Properties).
#pragma once
#include <memory>

#include "llvm/IR/Module.h"

#include "features/features.h"
#include "ir/ir.h"
#include "support/diagnostics.h"
#include "support/metadata.h"

namespace tlx::codegen {

struct Options {
  bool lineInfo = true;
  uint32_t debugTimeout = 0; // microseconds; a wait for an mbarrier that takes longer stops the kernel
};

/// Null after errors were reported. Fills what `metadata` says of arguments, hidden arguments, facts, warps and shared
/// memory.
std::unique_ptr<llvm::Module> generate(llvm::LLVMContext &context, const ir::Module &module,
                                       const features::Target &target, const SourceManager &sources,
                                       const Options &options, KernelMetadata &metadata, Diagnostics &diagnostics);

} // namespace tlx::codegen
