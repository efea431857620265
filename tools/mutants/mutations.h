// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One thing at a time that is wrong with the synchronization of a kernel: in code generation's module, where all of it is calls of device
// operations, that of the text and that of the compiler.
#pragma once
#include <string>
#include <vector>

#include "ir/ir.h"
#include "llvm/IR/Module.h"

namespace tlx::mutants {

struct Mutation {
  enum class Kind : uint8_t { Remove, FlipPhase, More, Less };
  unsigned call = 0; // which of the module's synchronizing calls
  Kind kind = Kind::Remove;
  std::string operation; // "tlx.nv.bar.sync"
  std::string file;
  unsigned line = 0, col = 0;
  unsigned copy = 0, copies = 1; // among the calls of this operation at this place: replicas of a task have one each
  std::string text() const;
};

std::vector<Mutation> mutationsOf(const llvm::Module &module);
void apply(llvm::Module &module, const Mutation &mutation);
/// Why the simulator, if it is silent, has not shown that the mutated module does the same; empty if it has.
std::string unseen(const llvm::Module &module, const Mutation &mutation);

/// The same in the IR that the front end makes; false if the text has no such operation.
bool apply(ir::Module &module, const Mutation &mutation, const SourceManager &sources);

} // namespace tlx::mutants
