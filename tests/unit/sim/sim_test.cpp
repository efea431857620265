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

std::unique_ptr<Program> program(const std::string &body, const char *target, unsigned threads, unsigned sharedBytes,
                                 std::vector<std::string> pointerNames) {
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
  auto result = Program::load(ArrayRef(reinterpret_cast<const uint8_t *>(bitcode.data()), bitcode.size()),
                              *tlx::features::findTarget(target), metadata, error);
  if (!result) FAIL(error);
  return result;
}

std::string text(const LaunchResult &result) {
  std::string out = result.completed ? "" : "(not completed) ";
  for (const auto &f : result.findings) out += std::string(findingKindName(f.kind)) + ": " + f.text() + "\n";
  return out;
}

const Finding *find(const LaunchResult &result, FindingKind kind) {
  for (const auto &f : result.findings)
    if (f.kind == kind) return &f;
  return nullptr;
}
bool has(const LaunchResult &result, FindingKind kind) {
  return find(result, kind) != nullptr;
}

void forEachSchedule(const std::function<void(LaunchConfig &)> &f) {
  for (Schedule schedule : kSchedules)
    for (uint64_t seed = 0; seed < (schedule == Schedule::Random ? 5 : 1); ++seed) {
      LaunchConfig config;
      config.schedule = schedule;
      config.seed = seed;
      CAPTURE(int(schedule));
      CAPTURE(seed);
      f(config);
    }
}

LaunchResult runRing(const Program &ring, const LaunchConfig &config, unsigned (*neighbour)(unsigned)) {
  const unsigned steps = 7, threads = ring.threads();
  std::vector<int> x(steps * threads * 4);
  for (size_t i = 0; i < x.size(); ++i) x[i] = int(i * 2654435761u >> 8);
  Memory memory;
  int *dx = upload(memory, x), *out = static_cast<int *>(memory.allocate(threads * 4));
  auto result = launch(ring, config, params(dx, out, int(steps)), memory);
  if (neighbour) {
    auto got = download(memory, out, threads);
    for (unsigned t = 0; t < threads; ++t) {
      uint32_t sum = 0;
      for (unsigned k = 0; k < steps; ++k)
        for (unsigned e : {0u, 3u}) sum += uint32_t(x[(k * threads + neighbour(t)) * 4 + e]);
      REQUIRE(uint32_t(got[t]) == sum);
    }
  }
  return result;
}

} // namespace sim_test
