// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// LLVM's back ends: registration, target machines, and the text they emit.
#include <mutex>

#include "llvm/IR/DebugInfo.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/OptBisect.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

#include "target/target_p.h"

using namespace llvm;

namespace tlx::target {

void initializeBackends() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    LLVMInitializeAMDGPUTargetInfo();
    LLVMInitializeAMDGPUTarget();
    LLVMInitializeAMDGPUTargetMC();
    LLVMInitializeAMDGPUAsmPrinter();
    LLVMInitializeAMDGPUAsmParser();
  });
}

std::unique_ptr<TargetMachine> createMachine(const features::Target &target, const Module &module) {
  initializeBackends();
  Triple triple(tripleOf(target));
  std::string error;
  const llvm::Target *backend = TargetRegistry::lookupTarget(triple, error);
  if (!backend) return nullptr;
  // The lowest PTX version that has what we use: older drivers take the PTX then.
  unsigned ptx = nvidia::ptxVersion(module, target);
  std::string features = ptx ? "+ptx" + std::to_string(ptx) : "";
  // -O0 would keep a move for every tied operand of inline assembly; never use it. On NVIDIA ptxas does what -O3 adds (GVN), and the
  // PTX of -O2 assembles to the same code in less time.
  auto level = target.vendor == features::Vendor::Nvidia ? CodeGenOptLevel::Default : CodeGenOptLevel::Aggressive;
  return std::unique_ptr<TargetMachine>(backend->createTargetMachine(triple, target.llvmCpu, features, TargetOptions(),
                                                                     Reloc::PIC_, std::nullopt, level));
}

/// Compile units of the kind "debug directives only": ".loc" without DWARF sections. ptxas makes the line table itself,
/// and the ".target …, debug" of the other kinds would turn its optimizer off.
static void keepLineDirectives(Module &module) {
  DebugInfoFinder finder;
  finder.processModule(module);
  NamedMDNode *units = module.getNamedMetadata("llvm.dbg.cu");
  for (unsigned i = 0; units && i < units->getNumOperands(); ++i) {
    auto *old = cast<DICompileUnit>(units->getOperand(i));
    auto *unit = DICompileUnit::getDistinct(
        module.getContext(), old->getSourceLanguage(), old->getFile(), old->getProducer(), old->isOptimized(),
        old->getFlags(), old->getRuntimeVersion(), "", DICompileUnit::DebugDirectivesOnly, nullptr, nullptr, nullptr,
        nullptr, nullptr, 0, false, false, DICompileUnit::DebugNameTableKind::None, false, "", "");
    units->setOperand(i, unit);
    for (DISubprogram *sub : finder.subprograms())
      if (sub->getUnit() == old) sub->replaceUnit(unit);
  }
}

namespace {
/// Leaves out of NVPTX's fixed pipeline what costs a fifth of text to PTX and gains nothing: address chains of unrolled
/// tiles have thousands of candidates for straight-line strength reduction, and ptxas folds the same constants. Nobody
/// stands behind AMD's back end, so there it runs.
class PassGate final : public OptPassGate {
public:
  bool isEnabled() const override { return true; }
  bool shouldRunPass(StringRef pass, StringRef) const override { return pass != "slsr"; }
};
} // namespace

bool emitAssembly(Module &module, const features::Target &target, const Options &options, std::string &assembly,
                  Diagnostics &diags) {
  std::unique_ptr<TargetMachine> machine = createMachine(target, module);
  if (!machine) {
    diags.report(Diag::Internal, {}, "LLVM has no back end for " + std::string(target.name));
    return false;
  }
  if (!options.lineInfo)
    StripDebugInfo(module);
  else if (target.vendor == features::Vendor::Nvidia)
    keepLineDirectives(module);
  BackendDiagnostics backend(module.getContext(), target, diags);
  SmallVector<char, 0> text;
  raw_svector_ostream os(text);
  static PassGate gate;
  if (target.vendor == features::Vendor::Nvidia) module.getContext().setOptPassGate(gate);
  legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, os, nullptr, CodeGenFileType::AssemblyFile, /*DisableVerify=*/true)) {
    diags.report(Diag::Internal, {}, "LLVM's back end for " + std::string(target.name) + " cannot print assembly");
    return false;
  }
  passes.run(module);
  assembly.assign(text.begin(), text.end());
  return !backend.failed();
}

namespace {
class Collector final : public DiagnosticHandler {
public:
  Collector(const features::Target &target, Diagnostics &diags) : target(target), diags(diags) {}
  bool handleDiagnostics(const DiagnosticInfo &info) override {
    if (info.getSeverity() != DS_Error)
      return true; // remarks and warnings of the back end are about its own heuristics
    std::string text;
    raw_string_ostream os(text);
    DiagnosticPrinterRawOStream printer(os);
    info.print(printer);
    diags.report(Diag::TargetBackend, {}, target.name, text);
    return true;
  }

private:
  const features::Target &target;
  Diagnostics &diags;
};
} // namespace

BackendDiagnostics::BackendDiagnostics(LLVMContext &context, const features::Target &target, Diagnostics &diags)
    : context(context), previous(context.getDiagnosticHandler()), diags(diags), before(diags.errorCount()) {
  context.setDiagnosticHandler(std::make_unique<Collector>(target, diags));
}

BackendDiagnostics::~BackendDiagnostics() {
  context.setDiagnosticHandler(std::move(previous));
}

bool BackendDiagnostics::failed() const {
  return diags.errorCount() != before;
}

} // namespace tlx::target
