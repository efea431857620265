// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From codegen's module to an image: device operations become instructions of the vendor, LLVM's short pipeline and
// back end run, and the text is assembled (PTX by ptxas, nvJitLink or the driver; GCN ISA by LLVM and lld, in process).
//
// Expected of the module: no triple and no data layout; one function with the attribute "tlx.kernel" (other definitions
// are inlined into it), "tlx.threads"="128" (threads of the CTA) and "tlx.shared-bytes"="N"; global memory in address
// space 1, shared memory in address space 3 reached from tlx.smem.base by i32 offsets; every hardware action a call of
// an operation of src/device_ops.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "features/features.h"
#include "support/diagnostics.h"
#include "support/metadata.h"
#include "support/source.h"

namespace llvm {
class Module;
}

namespace tlx::target {

struct Options {
  /// What turns PTX into an image: "" (the first found of ptxas, nvJitLink, driver), "ptxas", "nvjitlink", "driver"
  /// (the image is the PTX, for cuModuleLoadDataEx), "none" (stop at the assembly). AMD knows "" and "none".
  std::string assembler;
  std::string ptxasPath;                  // else TLX_PTXAS, PATH, /usr/local/cuda/bin
  std::string assembleFor;                // "sm_90a": sm_80 code assembled for a newer device; empty: the target itself
  bool lineInfo = true;                   // source lines in the image
  bool keepAssembly = true;               // Output::assembly
  bool keepLlvmIr = false;                // Output::llvmIr
  unsigned timeoutSeconds = 0;            // kills ptxas after this; 0: never
  const SourceManager *sources = nullptr; // turns debug locations into locations of diagnostics
};

struct Output {
  std::string llvmIr;         // after optimization, if asked for
  std::string assembly;       // PTX or GCN ISA
  std::vector<uint8_t> image; // empty for the assembler "none"
  Binary::Kind kind = Binary::Kind::Cubin;
  /// NVIDIA: ptxas's report, spills in bytes a thread. AMD: registers are VGPRs, spills are counts of VGPRs (no byte
  /// counts exist).
  Resources resources;
  std::string assembler;         // identity, as assemblerIdentity
  std::string log;               // what the assembler printed
  std::vector<StageTime> stages; // expand, optimize, back end, assemble
  std::vector<std::string> warnings;
};

/// All steps below in order. False if a diagnostic was reported; `out` holds what was made until then. The module is
/// consumed: its contents are the back end's afterwards. Any thread, one LLVMContext per call.
bool emit(llvm::Module &module, const features::Target &target, const Options &options, Output &out,
          Diagnostics &diags);

/// Sets triple, data layout and kernel attributes; replaces every device operation. Reports operations that the target
/// lacks.
bool expandDeviceOps(llvm::Module &module, const features::Target &target, const Options &options, Diagnostics &diags);
/// The short pipeline: no unrolling, rotation, jump threading, hoisting or sinking (those are the IR passes'
/// decisions).
bool optimize(llvm::Module &module, const features::Target &target, const Options &options, Diagnostics &diags);
/// PTX or GCN ISA text.
bool emitAssembly(llvm::Module &module, const features::Target &target, const Options &options, std::string &assembly,
                  Diagnostics &diags);
/// Text → image, resources, log and warnings of `out`.
bool assemble(const std::string &assembly, const features::Target &target, const Options &options, Output &out,
              Diagnostics &diags);

/// What assemble would use, for the cache key and the metadata: "ptxas 13.0.88 (/usr/local/cuda/bin/ptxas)",
/// "nvjitlink 13.0", "driver", "lld 22.1.8", "none"; "missing: …" if the pinned one is not there.
std::string assemblerIdentity(const features::Target &target, const Options &options);

} // namespace tlx::target
