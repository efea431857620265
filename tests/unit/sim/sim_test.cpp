// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sim_test.h"

#include <doctest/doctest.h>
#include <set>

#include "device_ops/device_ops.h"
#include "llvm/AsmParser/Parser.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/IR/DIBuilder.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace sim_test {

namespace {
/// Every "@tlx.…" of the text, declared as the tables say.
std::string declarations(const std::string &body) {
  LLVMContext context;
  Module module("declarations", context);
  for (size_t at = body.find("@tlx."); at != std::string::npos; at = body.find("@tlx.", at + 1)) {
    size_t end = body.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789.", at + 1);
    tlx::device_ops::getDeviceOp(module, body.substr(at + 1, end - at - 1));
  }
  std::string out;
  raw_string_ostream stream(out);
  for (Function &f : module) {
    f.setAttributes({});
    f.print(stream);
  }
  return out;
}

/// The n-th instruction of the kernel stands in line n of k.tlx.
void addLines(Module &module, Function &kernel) {
  DIBuilder builder(module);
  DIFile *file = builder.createFile("k.tlx", ".");
  builder.createCompileUnit(dwarf::DW_LANG_C, file, "test", true, "", 0);
  DISubprogram *subprogram = builder.createFunction(file, "kernel", "kernel", file, 1,
                                                    builder.createSubroutineType(builder.getOrCreateTypeArray({})), 1,
                                                    DINode::FlagZero, DISubprogram::SPFlagDefinition);
  kernel.setSubprogram(subprogram);
  unsigned line = 0;
  for (BasicBlock &block : kernel)
    for (Instruction &i : block) i.setDebugLoc(DILocation::get(module.getContext(), ++line, 1, subprogram));
  module.addModuleFlag(Module::Warning, "Debug Info Version", DEBUG_METADATA_VERSION);
  builder.finalize();
}
} // namespace

std::unique_ptr<tlx::sim::Program> program(const std::string &body, const char *target, unsigned threads,
                                           unsigned sharedBytes, std::vector<std::string> pointerNames) {
  std::string source = "define void @kernel" + body + "\n" + declarations(body);
  LLVMContext context;
  SMDiagnostic diagnostic;
  auto module = parseAssemblyString(source, diagnostic, context);
  if (!module) {
    std::string message;
    raw_string_ostream stream(message);
    diagnostic.print("test", stream);
    FAIL(message);
  }
  Function *kernel = module->getFunction("kernel");
  kernel->addFnAttr("tlx.kernel");
  kernel->addFnAttr("tlx.threads", std::to_string(threads));
  kernel->addFnAttr("tlx.shared-bytes", std::to_string(sharedBytes));
  addLines(*module, *kernel);
  SmallVector<char, 0> bitcode;
  raw_svector_ostream stream(bitcode);
  WriteBitcodeToFile(*module, stream);
  tlx::KernelMetadata metadata;
  for (size_t i = 0; i < pointerNames.size(); ++i)
    metadata.args.push_back({pointerNames[i], tlx::ArgInfo::Kind::Pointer, "*f32", uint32_t(8 * i), 8});
  std::string error;
  auto result = tlx::sim::Program::load(ArrayRef(reinterpret_cast<const uint8_t *>(bitcode.data()), bitcode.size()),
                                        *tlx::features::findTarget(target), metadata, error);
  if (!result) FAIL(error);
  return result;
}

std::string text(const tlx::sim::LaunchResult &result) {
  std::string out = result.completed ? "" : "(not completed) ";
  for (const auto &f : result.findings) out += std::string(findingKindName(f.kind)) + ": " + f.text() + "\n";
  return out;
}

const tlx::sim::Finding *find(const tlx::sim::LaunchResult &result, tlx::sim::FindingKind kind) {
  for (const auto &f : result.findings)
    if (f.kind == kind) return &f;
  return nullptr;
}
bool has(const tlx::sim::LaunchResult &result, tlx::sim::FindingKind kind) {
  return find(result, kind) != nullptr;
}

} // namespace sim_test
