// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to src/sim: from code generation's module to one for the host.
#pragma once
#include <string>
#include <vector>

#include "llvm/IR/Module.h"

#include "sim/engine.h"

namespace tlx::sim {

/// tlx.masked.load/store become a branch around a plain access, so that what is masked off is neither checked nor
/// executed.
void expandMaskedAccesses(llvm::Module &module);

/// Adds the hooks: accesses to address spaces 1 and 3, back-edges, divisions, 32-bit arithmetic that reaches a global
/// address. Rewrites the calls of device operations to what operations.cpp expects. Fills `sites`. An error names what
/// the simulator cannot run.
bool instrument(llvm::Module &module, std::vector<Site> &sites, std::string &error);

/// 32-bit arithmetic that reaches addresses (address_wrap.cpp). For a pointer or an index, an i32 that is the site of
/// an operation that wrapped on the way to it, or 0. Null if nothing can have.
class WrapShadow {
public:
  using MakeSite = std::function<uint32_t(llvm::Instruction &)>;
  explicit WrapShadow(MakeSite makeSite) : makeSite(std::move(makeSite)) {}
  llvm::Value *ofPointer(llvm::Value *pointer);

private:
  llvm::Value *shadow(llvm::Value *value, bool isSigned, unsigned depth);
  llvm::Value *compute(llvm::Value *value, bool isSigned, unsigned depth);
  bool reaches(llvm::Value *value, bool isSigned, unsigned depth);
  bool reachesUncached(llvm::Value *value, bool isSigned, unsigned depth);
  MakeSite makeSite;
  llvm::DenseMap<std::pair<llvm::Value *, unsigned>, llvm::Value *> made;
  llvm::DenseMap<std::pair<llvm::Value *, unsigned>, bool> known;
};

} // namespace tlx::sim
