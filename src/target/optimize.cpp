// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// LLVM's optimizer, cut to what the back ends do not do themselves. Unrolling, rotation and everything that duplicates
// or merges control flow is decided by the IR passes. Both back ends split constants off addresses, reassociate, and
// vectorize loads and stores; AMD's, at O3, also runs straight-line strength reduction and GVN, which NVIDIA's, at O2
// and with a gate (machine.cpp), leaves to ptxas.
#include "llvm/ADT/MapVector.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/IPO/AlwaysInliner.h"
#include "llvm/Transforms/IPO/GlobalDCE.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar/ADCE.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/InferAddressSpaces.h"
#include "llvm/Transforms/Scalar/LICM.h"
#include "llvm/Transforms/Scalar/LoopPassManager.h"
#include "llvm/Transforms/Scalar/SROA.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"

#include "target/target_p.h"

using namespace llvm;

namespace tlx::target {

/// Masks of a tile are compares of one number with many constants. Where they are the same in every iteration LICM takes them all out of the
/// loop, and a predicate that lives long is a register: they go back to where they are used, so that only the number lives.
static void sinkMasks(Function &function) {
  constexpr unsigned kMany = 16;
  MapVector<std::pair<BasicBlock *, Value *>, SmallVector<ICmpInst *, 0>>
      masks; // in program order: the same code each time
  for (BasicBlock &block : function)
    for (Instruction &i : block)
      if (auto *compare = dyn_cast<ICmpInst>(&i))
        for (unsigned side = 0; side < 2; ++side)
          if (isa<ConstantInt>(compare->getOperand(side)))
            masks[{&block, compare->getOperand(1 - side)}].push_back(compare);
  for (auto &[key, compares] : masks) {
    if (compares.size() < kMany) continue;
    for (ICmpInst *compare : compares) {
      DenseMap<BasicBlock *, Instruction *> copies;
      for (Use &use : make_early_inc_range(compare->uses())) {
        auto *user = cast<Instruction>(use.getUser());
        if (user->getParent() == key.first || isa<PHINode>(user)) continue;
        Instruction *&copy = copies[user->getParent()];
        if (!copy) {
          copy = compare->clone();
          copy->insertInto(user->getParent(), user->getParent()->getFirstInsertionPt());
        }
        use.set(copy);
      }
      if (compare->use_empty()) compare->eraseFromParent();
    }
  }
}

bool optimize(Module &module, const features::Target &target, const Options &, Diagnostics &diags) {
  std::unique_ptr<TargetMachine> machine = createMachine(target, module);
  if (!machine) {
    diags.report(Diag::Internal, {}, "LLVM has no back end for " + std::string(target.name));
    return false;
  }
  BackendDiagnostics backend(module.getContext(), target, diags);
  PassBuilder builder(machine.get());
  LoopAnalysisManager loops;
  FunctionAnalysisManager functions;
  CGSCCAnalysisManager calls;
  ModuleAnalysisManager modules;
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(calls);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, calls, modules);

  // The defaults of SimplifyCFGOptions neither hoist nor sink. Keeping loops canonical keeps it from merging loop
  // headers.
  SimplifyCFGOptions cfg;
  FunctionPassManager f;
  // AMD's allocas live in address space 5 behind a cast; SROA sees through it only after this.
  if (target.vendor == features::Vendor::Amd) f.addPass(InferAddressSpacesPass());
  f.addPass(SROAPass(SROAOptions::ModifyCFG));
  f.addPass(EarlyCSEPass());
  f.addPass(SimplifyCFGPass(cfg));
  f.addPass(InstCombinePass());
  f.addPass(createFunctionToLoopPassAdaptor(LICMPass(LICMOptions()), /*UseMemorySSA=*/true));
  f.addPass(EarlyCSEPass());
  f.addPass(SimplifyCFGPass(cfg));
  f.addPass(ADCEPass());

  ModulePassManager m;
  m.addPass(AlwaysInlinerPass());
  m.addPass(GlobalDCEPass());
  m.addPass(createModuleToFunctionPassAdaptor(std::move(f)));
  m.run(module, modules);
  if (target.vendor == features::Vendor::Nvidia)
    for (Function &function : module) sinkMasks(function);
  return !backend.failed();
}

} // namespace tlx::target
