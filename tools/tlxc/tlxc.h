// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the commands of tlxc share. tlxc is a user of the C API like any other: nothing of the library's insides is
// included.
#pragma once
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tlxjit/tlx.h"

namespace tlxc {

enum ExitCode { kRight = 0, kUserError = 1, kUsage = 2, kFindings = 3, kInternal = 4 };

/// Ends a command: main prints the message and exits with the code.
struct Failure : std::runtime_error {
  Failure(int code, const std::string &message) : std::runtime_error(message), code(code) {}
  int code;
};
int exitCodeOf(tlx_status status);
/// Throws a Failure with the error's diagnostics or message, and releases the error. By reference: in
/// `check(call(&error), error)` the arguments are evaluated in any order, and the pointer is to be read last.
void check(tlx_status status, tlx_error *&error);

template <typename T, void (*Release)(T *)> struct Releaser {
  void operator()(T *handle) const { Release(handle); }
};
using Context = std::unique_ptr<tlx_context, Releaser<tlx_context, tlx_context_release>>;
using Device = std::unique_ptr<tlx_device, Releaser<tlx_device, tlx_device_release>>;
using Kernel = std::unique_ptr<tlx_kernel, Releaser<tlx_kernel, tlx_kernel_release>>;
using Report = std::unique_ptr<tlx_report, Releaser<tlx_report, tlx_report_release>>;

/// Options that `build` and `run` have in common.
struct CompileArgs {
  std::string file, kernel, target, assembler, ptxas, dumpAfter;
  std::vector<std::string> defines, assumptions, includeDirs;
  bool timePasses = false, explainLayouts = false, verify = false, noCache = false,
       noStaticChecks = false;
  uint32_t debugTimeout = 0; // microseconds
};
struct BuildArgs : CompileArgs {
  std::string emit, output;
};
struct RunArgs : CompileArgs {
  std::string device = "sim", grid = "1", schedule = "in-order";
  std::vector<std::string> args, outs;
  uint64_t seed = 0, maxSteps = 0;
  std::string timeline; // file
  uint32_t timelineProgram = 0;
  bool time = false, checkRaces = false, exhaustive = false, exact = false;
  unsigned warmUps = 5, repeats = 20;
};

Context makeContext(const CompileArgs &args);
/// Compiles args.file; prints warnings to stderr.
Kernel compile(tlx_context *context, const CompileArgs &args, const tlx_device *device, uint32_t keep);
/// What --dump-after, --explain-layouts and --time-passes print, to stderr.
void printReports(const tlx_kernel *kernel, const CompileArgs &args);
std::string readFile(const std::string &path);
/// "-" is stdout.
void writeFile(const std::string &path, std::string_view bytes);

int build(const BuildArgs &args);
int run(const RunArgs &args);
int targets();
int devices();

} // namespace tlxc
