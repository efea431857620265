// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// PTX → cubin: ptxas as a child process (it can be killed, and its report is read), else nvJitLink in process, else the
// driver's own compiler at load time.
#include <cstdlib>
#include <map>
#include <mutex>
#include <sys/stat.h>

#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"

#include "target/nvidia/nvjitlink.h"
#include "target/nvidia/process.h"
#include "target/target_p.h"

using namespace llvm;

namespace tlx::target::nvidia {

namespace {
/// The path that the user named: option, TLX_PTXAS.
std::string namedPtxas(const Options &options) {
  if (!options.ptxasPath.empty()) return options.ptxasPath;
  const char *environment = std::getenv("TLX_PTXAS");
  return environment ? environment : "";
}

/// Path of ptxas: the named one, which no other replaces, else PATH and the usual place.
std::string findPtxas(const Options &options) {
  std::string named = namedPtxas(options);
  if (!named.empty()) return sys::fs::can_execute(named) ? named : std::string();
  if (auto found = sys::findProgramByName("ptxas")) return *found;
  auto found = sys::findProgramByName("ptxas", {"/usr/local/cuda/bin"});
  return found ? *found : std::string();
}

/// "13.0.88" of "… release 13.0, V13.0.88"; asked once per path, time and size of the file (0.01 s a question).
std::string ptxasVersion(const std::string &path) {
  using Key = std::tuple<std::string, int64_t, int64_t, int64_t>;
  static std::mutex mutex;
  static std::map<Key, std::string> known;
  struct stat info {};
  if (stat(path.c_str(), &info)) return "?";
  std::lock_guard<std::mutex> lock(mutex);
  std::string &version = known[Key(path, info.st_mtim.tv_sec, info.st_mtim.tv_nsec, info.st_size)];
  if (version.empty()) {
    ProcessResult r = runProcess({path, "--version"}, 30);
    StringRef text = StringRef(r.output).split(", V").second.take_until([](char c) { return isSpace(c); });
    version = text.empty() ? "?" : text.str();
  }
  return version;
}

enum class Kind { Ptxas, NvJitLink, Driver, Missing, Unknown };
struct Choice {
  Kind kind;
  std::string path;
};

Choice choose(const Options &options) {
  StringRef name = options.assembler;
  if (name == "driver") return {Kind::Driver, ""};
  if (name == "nvjitlink") return {nvJitLinkVersion().empty() ? Kind::Missing : Kind::NvJitLink, ""};
  if (name != "" && name != "ptxas") return {Kind::Unknown, ""};
  std::string path = findPtxas(options);
  if (!path.empty()) return {Kind::Ptxas, path};
  if (name == "ptxas" || !namedPtxas(options).empty()) return {Kind::Missing, namedPtxas(options)};
  return {nvJitLinkVersion().empty() ? Kind::Driver : Kind::NvJitLink, ""};
}

std::string architecture(const features::Target &target, const Options &options) {
  return options.assembleFor.empty() ? target.name : options.assembleFor;
}

/// The number before `unit` in "    0 bytes stack frame, 8 bytes spill stores, …".
std::optional<unsigned> numberBefore(StringRef text, StringRef unit) {
  size_t at = text.rfind(unit);
  if (at == StringRef::npos) return std::nullopt;
  StringRef before = text.take_front(at).rtrim();
  unsigned value = 0;
  if (before.substr(before.find_last_not_of("0123456789") + 1).getAsInteger(10, value)) return std::nullopt;
  return value;
}

/// Resources and warnings of the assembler's report. C75xx ("potential performance loss: wgmma serialized …") come as
/// "info" with exit code 0, so nobody would see them otherwise.
void readReport(StringRef log, Output &out) {
  out.log = log.str();
  out.resources.registers = numberBefore(log, " registers");
  out.resources.stackBytes = numberBefore(log, " bytes stack frame");
  out.resources.spillStores = numberBefore(log, " bytes spill stores");
  out.resources.spillLoads = numberBefore(log, " bytes spill loads");
  SmallVector<StringRef, 16> lines;
  log.split(lines, '\n', -1, false);
  for (StringRef line : lines)
    if (line.contains("(C75") || line.contains("warning")) out.warnings.push_back(line.trim().str());
}

bool runPtxas(const std::string &path, const std::string &ptx, const features::Target &target, const Options &options,
              Output &out, Diagnostics &diags) {
  TemporaryDirectory directory;
  std::string input = directory.file("kernel.ptx"), output = directory.file("kernel.cubin");
  if (!directory.valid() || !writeFile(input, ptx)) {
    diags.report(Diag::AssemblerFailed, {}, "ptxas", "the temporary directory cannot be written");
    return false;
  }
  std::vector<std::string> command{path, "-v", "--gpu-name=" + architecture(target, options)};
  if (options.lineInfo) command.push_back("-lineinfo");
  command.insert(command.end(), {input, "-o", output});
  ProcessResult r = runProcess(command, options.timeoutSeconds);
  if (!r.started) {
    diags.report(Diag::AssemblerFailed, {}, "'" + path + "'", r.output);
    return false;
  }
  // The input's name is random; what a user or a test reads should not be.
  std::string log = r.output;
  for (size_t at; (at = log.find(input)) != std::string::npos;) log.replace(at, input.size(), "kernel.ptx");
  readReport(log, out);
  if (r.timedOut) {
    diags.report(Diag::AssemblerTimeout, {}, "ptxas", options.timeoutSeconds);
    return false;
  }
  if (r.exitCode != 0 || !readFile(output, out.image) || out.image.empty()) {
    diags.report(Diag::AssemblerFailed, {}, "ptxas", log.empty() ? "no output" : StringRef(log).trim().str());
    return false;
  }
  return true;
}

bool runNvJitLink(const std::string &ptx, const features::Target &target, const Options &options, Output &out,
                  Diagnostics &diags) {
  std::vector<std::string> arguments{"-arch=" + architecture(target, options), "-verbose"};
  if (options.lineInfo) arguments.push_back("-lineinfo");
  std::string log;
  bool ok = nvJitLinkAssemble(ptx, arguments, out.image, log);
  readReport(log, out);
  if (!ok)
    diags.report(Diag::AssemblerFailed, {}, "nvJitLink", log.empty() ? "no message" : StringRef(log).trim().str());
  return ok;
}
} // namespace

bool assemble(const std::string &ptx, const features::Target &target, const Options &options, Output &out,
              Diagnostics &diags) {
  Choice choice = choose(options);
  out.kind = Binary::Kind::Cubin;
  switch (choice.kind) {
  case Kind::Ptxas:
    return runPtxas(choice.path, ptx, target, options, out, diags);
  case Kind::NvJitLink:
    return runNvJitLink(ptx, target, options, out, diags);
  case Kind::Driver:
    out.kind = Binary::Kind::Ptx;
    out.image.assign(ptx.begin(), ptx.end());
    out.image.push_back(0); // cuModuleLoadDataEx takes a C string
    return true;
  case Kind::Missing:
    diags.report(Diag::AssemblerMissing, {}, options.assembler.empty() ? "ptxas" : options.assembler,
                 choice.path.empty() ? "" : " ('" + choice.path + "')");
    return false;
  case Kind::Unknown:
    diags.report(Diag::AssemblerUnknown, {}, options.assembler);
    return false;
  }
  return false;
}

std::string assemblerIdentity(const Options &options) {
  Choice choice = choose(options);
  switch (choice.kind) {
  case Kind::Ptxas:
    return "ptxas " + ptxasVersion(choice.path) + " (" + choice.path + ")";
  case Kind::NvJitLink:
    return "nvjitlink " + nvJitLinkVersion();
  case Kind::Driver:
    return "driver";
  case Kind::Missing:
  case Kind::Unknown:
    break;
  }
  return "missing: " + (choice.path.empty() ? options.assembler : choice.path);
}

} // namespace tlx::target::nvidia
