// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// text → AST → IR → passes → LLVM IR → image. Each step is timed; the first that reports an error ends the compile.
#include "compiler/compiler.h"

#include <chrono>

#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Verifier.h"

#include "codegen/codegen.h"
#include "compiler/build_id.h"
#include "lang/elaborate.h"
#include "passes/explain_layouts.h"
#include "passes/passes.h"
#include "target/target.h"

namespace tlx {

extern const std::pair<std::string_view, std::string_view> kEmbeddedLibrary[];
extern const unsigned kEmbeddedLibrarySize;

namespace {

std::optional<std::string> readImport(const CompileRequest &request, const std::string &name) {
  for (unsigned i = 0; i < kEmbeddedLibrarySize; ++i)
    if (kEmbeddedLibrary[i].first == name) return std::string(kEmbeddedLibrary[i].second);
  return request.import ? request.import(name) : std::nullopt;
}

struct Compilation {
  const CompileRequest &request;
  CompileResult result;
  SourceManager sources;
  Diagnostics diagnostics;
  std::vector<StageTime> stages;
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();

  void lap(const char *stage) {
    auto now = std::chrono::steady_clock::now();
    stages.push_back({stage, std::chrono::duration<double, std::milli>(now - start).count()});
    start = now;
  }

  CompileResult finish(CompileStatus status) {
    result.status = status;
    result.diagnostics = diagnostics.render(sources);
    result.diagnosticsJson = diagnostics.renderJson(sources);
    return std::move(result);
  }
  CompileStatus failure() const {
    for (const Diagnostic &d : diagnostics.all())
      if (d.id == Diag::Internal) return CompileStatus::Internal;
    return CompileStatus::UserError;
  }

  CompileResult run() {
    uint32_t file = sources.add(request.fileName, request.source);
    const features::Target *target = features::findTarget(request.target);
    if (!target) {
      std::string known;
      for (const features::Target &t : features::allTargets()) known += std::string(known.empty() ? "" : ", ") + t.name;
      diagnostics.report(Diag::UnknownTarget, Loc{}, request.target, known);
      return finish(CompileStatus::UserError);
    }
    ir::Context context;
    std::unique_ptr<ir::Module> module = elaborate(context, file, *target);
    if (!module || diagnostics.hasErrors()) return finish(failure());
    module->target = target->name;
    module->kernel.warpSize = target->warpSize;
    if (module->kernel.numWarps * target->warpSize > target->maxThreads) {
      diagnostics.report(Diag::TooManyThreads, module->kernel.loc, module->kernel.numWarps, target->warpSize,
                         target->name, target->maxThreads / target->warpSize);
      return finish(CompileStatus::UserError);
    }
    lap("front end");
    if (!passes(*module, *target)) return finish(failure());
    lap("passes");
    llvm::LLVMContext llvmContext;
    Binary binary;
    std::unique_ptr<llvm::Module> llvm =
        codegen::generate(llvmContext, *module, *target, sources, {request.lineInfo, request.debugTimeout}, binary.metadata, diagnostics);
    if (!llvm || diagnostics.hasErrors()) return finish(failure());
    lap("codegen");
    if (request.keepLlvm) llvm::raw_string_ostream(result.llvm) << *llvm;
    if (!emit(*llvm, *target, binary))
      return finish(failure() == CompileStatus::UserError ? CompileStatus::Unsupported : failure());
    binary.metadata.target = target->name;
    binary.metadata.stages = stages;
    result.binary = std::move(binary);
    return finish(CompileStatus::Ok);
  }

  std::unique_ptr<ir::Module> elaborate(ir::Context &context, uint32_t file, const features::Target &target) {
    lang::ElaborateOptions options;
    options.kernel = request.kernel;
    options.params = request.params;
    options.facts = request.facts;
    options.warpSize = target.warpSize;
    options.target = target.name;
    options.import = [&](const std::string &name) { return readImport(request, name); };
    return lang::elaborate(context, sources, file, options, diagnostics);
  }

  bool passes(ir::Module &module, const features::Target &target) {
    passes::PipelineOptions options;
    options.verify = request.verify;
    options.scheduleChecks = request.staticChecks;
    std::string lastText;
    bool dumped = request.dumpAfter.empty();
    if (request.dumpAfter == "elaborate") result.dump = ir::print(module, &sources), dumped = true;
    options.after = [&](const char *pass, const ir::Module &m, double ms) {
      stages.push_back({std::string("pass ") + pass, ms});
      if (request.dumpAfter == pass) result.dump = ir::print(m, &sources), dumped = true;
    };
    if (!passes::runPipeline(module, target, options, diagnostics)) return false;
    if (!dumped) {
      std::string names = "elaborate";
      for (const passes::PassEntry &p : passes::allPasses()) names += std::string(", ") + p.name;
      diagnostics.report(Diag::UnknownPass, Loc{}, request.dumpAfter, names);
      return false;
    }
    if (request.keepIr) result.ir = ir::print(module, &sources);
    if (request.explainLayouts) result.layouts = passes::explainLayouts(module, target);
    return true;
  }

  target::Options targetOptions() const {
    target::Options options;
    options.assembler = request.assembler;
    options.ptxasPath = request.ptxasPath;
    options.assembleFor = request.assembleFor;
    options.lineInfo = request.lineInfo;
    options.sources = &sources;
    return options;
  }

  bool emit(llvm::Module &module, const features::Target &target, Binary &binary) {
    if (request.forSimulator) {
      binary.kind = Binary::Kind::SimBitcode;
      binary.metadata.assembler = "simulator";
      std::string error;
      llvm::raw_string_ostream stream(error);
      if (llvm::verifyModule(module, &stream)) {
        diagnostics.report(Diag::Internal, Loc{}, "codegen made invalid LLVM IR: " + error);
        return false;
      }
      llvm::SmallVector<char, 0> bytes;
      llvm::raw_svector_ostream out(bytes);
      llvm::WriteBitcodeToFile(module, out);
      binary.image.assign(bytes.begin(), bytes.end());
      lap("bitcode");
      return true;
    }
    target::Output out;
    target::Options options = targetOptions();
    if (!target::emit(module, target, options, out, diagnostics)) return false;
    binary.kind = out.kind;
    binary.image = std::move(out.image);
    binary.metadata.assembler = out.assembler;
    binary.metadata.resources = out.resources;
    if (request.assembleFor != request.target) binary.metadata.assembledFor = request.assembleFor;
    for (const StageTime &s : out.stages) stages.push_back(s);
    result.assemblerLog = out.log;
    for (const std::string &w : out.warnings) diagnostics.report(Diag::AssemblerWarning, Loc{}, w);
    if (request.keepAssembly) result.assembly = std::move(out.assembly);
    start = std::chrono::steady_clock::now();
    return true;
  }
};

void addField(std::string &key, std::string_view text) {
  key += std::to_string(text.size());
  key += ':';
  key += text;
}

} // namespace

CompileResult compile(const CompileRequest &request) {
  return Compilation{request}.run();
}

std::string toolchainIdentity(const CompileRequest &request) {
  std::string text = "tlxjit " TLX_VERSION " " + buildId() + "; LLVM " LLVM_VERSION_STRING "; ";
  const features::Target *target = features::findTarget(request.target);
  if (request.forSimulator || !target) return text + "simulator";
  target::Options options;
  options.assembler = request.assembler;
  options.ptxasPath = request.ptxasPath;
  options.assembleFor = request.assembleFor;
  return text + target::assemblerIdentity(*target, options);
}

std::optional<std::string> canonicalKey(const CompileRequest &request) {
  std::string key;
  addField(key, "tlxjit key 1");
  addField(key, toolchainIdentity(request));
  addField(key, request.fileName); // in debug info and diagnostics
  addField(key, request.source);
  auto imports = lang::importsOf(request.source, [&](const std::string &name) { return readImport(request, name); });
  if (!imports) return std::nullopt;
  addField(key, std::to_string(imports->size()));
  for (const auto &[name, text] : *imports) addField(key, name), addField(key, text);
  addField(key, request.kernel);
  addField(key, std::to_string(request.params.size()));
  auto params = request.params;
  std::sort(params.begin(), params.end());
  for (const auto &[name, value] : params) addField(key, name), addField(key, value);
  addField(key, std::to_string(request.facts.size()));
  auto facts = request.facts;
  std::sort(facts.begin(), facts.end());
  for (const std::string &f : facts) addField(key, f);
  addField(key, request.target);
  addField(key, request.forSimulator ? "simulator" : "device");
  addField(key, request.assembleFor);
  addField(key, request.lineInfo ? "lines" : "no lines");
  addField(key, request.staticChecks ? "checks" : "no checks");
  addField(key, std::to_string(request.debugTimeout));
  return key;
}

} // namespace tlx
