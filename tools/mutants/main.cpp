// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tlx_mutants: what the checks find when one thing is wrong with the synchronization of a shipped kernel. Each wait, arrival, fence, barrier,
// byte count and arrival count is removed or altered, one at a time, and the kernel runs on the simulator: in order with the race checker, and if
// that is silent under random schedules, whose results are compared. A mutant that is silent there as well is equivalent if all its interleavings
// are covered (orders.cpp) without a finding, and with exact arithmetic its results are those of the original; else it is missed. The originals
// must be silent. Exit code 1 if a mutant is missed.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>

#include "compiler/compiler.h"
#include "instances.h"
#include "lang/elaborate.h"
#include "mutations.h"
#include "passes/passes.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/Support/MemoryBuffer.h"

namespace tlx::mutants {

namespace {
constexpr const char *kTarget = "sm_90a";
constexpr unsigned kSeeds = 20;
constexpr uint64_t kMostSteps = uint64_t(1) << 22; // back-edges; the originals take some thousands

struct Options {
  unsigned every = 1; // takes one mutant of so many
  bool verbose = false;
  std::vector<std::string> names;
};

struct Counts {
  unsigned mutants = 0, refused = 0, checker = 0, data = 0, equivalent = 0, missed = 0;
};

std::string readKernel(const std::string &name) {
  std::ifstream file(std::string(TLX_KERNELS_DIR) + "/" + name);
  if (!file) throw std::runtime_error("cannot read kernels/" + name);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

CompileRequest requestOf(const Instance &instance) {
  CompileRequest request;
  request.fileName = instance.kernel + std::string(".tlx");
  request.source = readKernel(request.fileName);
  request.params = instance.params;
  request.target = kTarget;
  request.forSimulator = true;
  return request;
}

/// Whether the compiler refuses the same mistake in the text.
bool isRefused(const CompileRequest &request, const Mutation &mutation) {
  SourceManager sources;
  Diagnostics diagnostics;
  ir::Context context;
  const features::Target &target = *features::findTarget(kTarget);
  lang::ElaborateOptions options;
  options.params = request.params;
  options.warpSize = target.warpSize;
  options.target = target.name;
  options.import = [](const std::string &name) { return readKernel(name); };
  const uint32_t file = sources.add(request.fileName, request.source);
  std::unique_ptr<ir::Module> module = lang::elaborate(context, sources, file, options, diagnostics);
  if (!module) throw std::runtime_error("the unchanged kernel is refused: " + diagnostics.render(sources));
  module->target = target.name;
  module->kernel.warpSize = target.warpSize;
  if (!apply(*module, mutation, sources)) return false;
  passes::simplify(*module);
  return !passes::checkTasks(*module, target, diagnostics) || !passes::checkSchedules(*module, target, diagnostics) ||
         diagnostics.hasErrors();
}

std::unique_ptr<llvm::Module> parse(llvm::LLVMContext &context, const Binary &binary) {
  const llvm::StringRef bytes(reinterpret_cast<const char *>(binary.image.data()), binary.image.size());
  auto module = llvm::parseBitcodeFile(llvm::MemoryBufferRef(bytes, "kernel"), context);
  if (!module) throw std::runtime_error(llvm::toString(module.takeError()));
  return std::move(*module);
}

Binary mutated(const Binary &original, const Mutation &mutation, std::string &unproven) {
  llvm::LLVMContext context;
  auto module = parse(context, original);
  unproven = unseen(*module, mutation);
  apply(*module, mutation);
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream out(bytes);
  llvm::WriteBitcodeToFile(*module, out);
  Binary binary = original;
  binary.image.assign(bytes.begin(), bytes.end());
  return binary;
}

runtime::SimOptions setting(bool check, std::optional<uint64_t> seed) {
  runtime::SimOptions options;
  options.checkRaces = check;
  options.maxSteps = kMostSteps;
  if (seed) options.schedule = runtime::SimOptions::Schedule::Random, options.seed = *seed;
  return options;
}

runtime::SimOptions everyOrder() {
  runtime::SimOptions options = setting(true, std::nullopt);
  options.exhaustive = options.exact = true;
  return options;
}
/// Why it is not shown that the mutant does what the original does; empty if it is.
std::string difference(const Instance &instance, const Binary &binary, const Outcome &exact) {
  const Outcome all = launch(instance, binary, everyOrder());
  if (!all.kind.empty()) return all.text.substr(0, all.text.find('\n'));
  return all.proof.empty() ? "nothing is proved" : all.out != exact.out ? "other exact results" : "";
}

void run(const Instance &instance, const Options &options, Counts &counts) {
  const CompileRequest request = requestOf(instance);
  const CompileResult compiled = compile(request);
  if (compiled.status != CompileStatus::Ok) throw std::runtime_error(compiled.diagnostics);
  const Binary &original = *compiled.binary;
  const Outcome right = launch(instance, original, setting(true, std::nullopt));
  if (!right.kind.empty()) throw std::runtime_error("the unchanged kernel has a finding: " + right.text);
  std::vector<runtime::SimOptions> schedules;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) schedules.push_back(setting(false, seed));
  const Outcome again = launchUntil(instance, original, {schedules[0], schedules[1]}, right.out);
  if (!again.kind.empty() || again.out != right.out)
    throw std::runtime_error("the unchanged kernel depends on the schedule: " + again.text);
  const Outcome exact = launch(instance, original, everyOrder());
  if (exact.proof.empty()) throw std::runtime_error("the unchanged kernel is not covered: " + exact.text);
  std::printf("  the original: %s\n", exact.proof.c_str());

  std::vector<Mutation> mutations;
  {
    llvm::LLVMContext context;
    mutations = mutationsOf(*parse(context, original));
  }
  for (size_t i = 0; i < mutations.size(); i += options.every) {
    const Mutation &m = mutations[i];
    std::string unproven;
    const Binary binary = mutated(original, m, unproven);
    const bool refused = isRefused(request, m);
    Outcome found = launch(instance, binary, setting(true, std::nullopt));
    const char *verdict = "checker";
    if (!found.kind.empty()) {
      ++counts.checker;
    } else {
      if (found.out == right.out) found = launchUntil(instance, binary, schedules, right.out);
      if (!found.kind.empty() || found.out != right.out) {
        verdict = "data", ++counts.data;
      } else {
        if (unproven.empty()) unproven = difference(instance, binary, exact);
        if (unproven.empty())
          verdict = "equivalent", ++counts.equivalent;
        else if (refused)
          verdict = "compiler only";
        else
          verdict = "MISSED", ++counts.missed;
      }
    }
    ++counts.mutants;
    counts.refused += refused;
    if (options.verbose || !std::strcmp(verdict, "MISSED") || !std::strcmp(verdict, "equivalent"))
      std::printf("  %-12s %s%s%s%s\n", verdict, m.text().c_str(), refused ? "; refused by the compiler" : "",
                  found.kind.empty() ? "" : ("; " + found.kind).c_str(),
                  !std::strcmp(verdict, "MISSED") ? ("; " + unproven).c_str() : "");
    std::fflush(stdout);
  }
}

/// A shipped kernel with tasks that nobody has made an instance of.
std::string forgottenKernel() {
  for (const auto &entry : std::filesystem::directory_iterator(TLX_KERNELS_DIR)) {
    if (entry.path().extension() != ".tlx") continue;
    const std::string name = entry.path().stem().string();
    if (readKernel(name + ".tlx").find("async_tasks {") != std::string::npos &&
        std::none_of(instances().begin(), instances().end(), [&](const Instance &i) { return i.kernel == name; }))
      return name;
  }
  return "";
}

int runAll(const Options &options) {
  if (const std::string name = options.names.empty() ? forgottenKernel() : ""; !name.empty())
    throw std::runtime_error("kernels/" + name + ".tlx has tasks, and tools/mutants/instances.cpp no instance of it");
  Counts total;
  bool any = false;
  std::string table;
  for (const Instance &instance : instances()) {
    const std::string name = instance.name;
    if (!options.names.empty() && std::find(options.names.begin(), options.names.end(), name) == options.names.end() &&
        std::find(options.names.begin(), options.names.end(), instance.kernel) == options.names.end())
      continue;
    any = true;
    std::printf("%s\n", instance.name);
    Counts counts;
    const auto start = std::chrono::steady_clock::now();
    run(instance, options, counts);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    char line[200];
    std::snprintf(line, sizeof line, "%-30s %7u %12u %8u %6u %11u %7u %8.0f s\n", instance.name, counts.mutants,
                  counts.refused, counts.checker, counts.data, counts.equivalent, counts.missed, seconds);
    table += line;
    total.missed += counts.missed;
  }
  if (!any) {
    std::fprintf(stderr, "tlx_mutants: there is no such kernel; there are:\n");
    for (const Instance &instance : instances()) std::fprintf(stderr, "  %s\n", instance.name);
    return 2;
  }
  std::printf("\n%-30s %7s %12s %8s %6s %11s %7s %10s\n%s", "kernel", "mutants", "by compiler", "checker", "data",
              "equivalent", "missed", "time", table.c_str());
  return total.missed ? 1 : 0;
}
} // namespace

} // namespace tlx::mutants

int main(int argc, char **argv) {
  tlx::mutants::Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string a = argv[i];
    if (a == "--verbose") {
      options.verbose = true;
    } else if (a == "--every" && i + 1 < argc && std::atoi(argv[i + 1]) > 0) {
      options.every = unsigned(std::atoi(argv[++i]));
    } else if (!a.empty() && a[0] == '-') {
      std::fprintf(stderr, "usage: tlx_mutants [--verbose] [--every N] [KERNEL...]\n");
      return 2;
    } else {
      options.names.push_back(a);
    }
  }
  try {
    return tlx::mutants::runAll(options);
  } catch (const std::exception &problem) {
    std::fprintf(stderr, "tlx_mutants: %s\n", problem.what());
    return 1;
  }
}
