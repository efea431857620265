// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The one function from text to binary. Everything that can change the bits is in CompileRequest; the cache's key is made from it.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "support/metadata.h"

namespace tlx {

/// Supplies the text of an import; nullopt: not found. "std/…" names are looked up in the embedded library first.
using ImportCallback = std::function<std::optional<std::string>(const std::string &name)>;

struct CompileRequest {
  std::string fileName = "kernel.tlx"; // for diagnostics and debug info
  std::string source;
  std::string kernel; // may be empty if the file has exactly one
  std::vector<std::pair<std::string, std::string>>
      params;                     // compile-time parameters as the user writes them: "128", "f16", "true", "relu"
  std::vector<std::string> facts; // as in requires(…): "K % 8 == 0", "aligned(x, 16)"
  std::string target = "sm_80";
  ImportCallback import;

  bool forSimulator = false; // the image is bitcode for the simulator instead of the target's machine code
  // NVIDIA: who assembles PTX: "" (first found), "ptxas", "nvjitlink", "driver". "driver" leaves PTX as the image.
  std::string assembler;
  std::string ptxasPath;
  std::string assembleFor; // the device's architecture where it is newer than the target's: "sm_90a"
  bool lineInfo = true;
  bool staticChecks = true;  // of hand-written schedules, by walking through them
  uint32_t debugTimeout = 0; // microseconds after which a wait for a barrier stops the kernel and says where; 0: never

  // What to keep beside the image; none of these changes it.
  bool keepIr = false, keepLlvm = false, keepAssembly = false;
  std::string dumpAfter;       // a pass's name: its IR goes to CompileResult::dump
  bool explainLayouts = false; // CompileResult::layouts
  bool verify = false;         // IR verifier after every pass
};

enum class CompileStatus : uint8_t {
  Ok,
  UserError,   // the source or its parameters are wrong: see diagnostics
  Unsupported, // nothing wrong with the request, but a tool or feature is missing (no assembler, …)
  Internal     // our fault; diagnostics hold what is needed to reproduce it
};

struct CompileResult {
  CompileStatus status = CompileStatus::Internal;
  std::string diagnostics;     // rendered text: errors, warnings
  std::string diagnosticsJson; // the same as JSON
  std::optional<Binary> binary;
  std::string ir, llvm, assembly, dump, layouts; // as asked for
  std::string assemblerLog;
};

CompileResult compile(const CompileRequest &request);

/// Every identity that takes part besides the request: library build id, LLVM's version, the assembler that would be used.
std::string toolchainIdentity(const CompileRequest &request);

/// The text that the cache key hashes: length-prefixed fields of the request, its imports, and toolchainIdentity. nullopt if an
/// import cannot be read (the compile will then report it).
std::optional<std::string> canonicalKey(const CompileRequest &request);

} // namespace tlx
