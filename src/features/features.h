// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What each architecture has. An architecture is a row of kTargets (features.cpp) plus its instruction tables; no pass tests a name.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "llvm/ADT/ArrayRef.h"

namespace tlx::features {

enum class Vendor : uint8_t { Nvidia, Amd };

/// Element types as instruction tables name them.
enum class MmaType : uint8_t { F16, BF16, TF32, XF32, F32, F64, S8, U8, F8E4M3, F8E5M2, F8E4M3FNUZ, F8E5M2FNUZ };
unsigned bitsOf(MmaType type);

/// A warp-level matrix instruction: M x N x K, operand and accumulator types, and the device operation that issues it.
/// Fragment layouts are the bases over (register, lane) of the PTX ISA and the CDNA ISA (accumulator over M x N, A over M x K, B over K x N).
struct MmaInstruction {
  MmaType operand;
  unsigned m, n, k;
  const char *deviceOp;
  bool accumulatorFirst;      // order of the call's operands: (c, a, b) on NVIDIA, (a, b, c) on AMD
  MmaType operandB = operand; // 8-bit floats mix
};

struct Target {
  const char *name; // "sm_80": what users write, and in the key
  Vendor vendor;
  const char *llvmCpu;        // "sm_80", "gfx942"
  unsigned computeCapability; // NVIDIA: 80, 90; 0 elsewhere
  unsigned ptxVersion;        // lowest PTX ISA version that has what we use, times ten: 70 = 7.0
  unsigned warpSize;
  unsigned maxThreads;        // of a CTA
  unsigned sharedBytes;       // most shared memory of a CTA (opt-in limit)
  unsigned staticSharedBytes; // what needs no opt-in
  unsigned registersPerThread;
  unsigned sharedBanks;
  bool cpAsync; // cp.async
  bool ldmatrix;
  bool stmatrix;
  bool tma; // tensor maps, bulk copies, mbarriers
  bool wgmma;
  bool fnuzFp8;        // fp8 units take the fnuz forms
  bool scalarGridArgs; // the grid's size is passed as hidden kernel arguments
  unsigned directToLds =
      0; // AMD: bits a lane of the widest load from global memory straight into shared memory that we use; 0: none
  unsigned cdna = 0; // AMD: generation of the matrix cores (3: gfx942, 4: gfx950)
};

llvm::ArrayRef<Target> allTargets();
const Target *findTarget(std::string_view name);

/// Registers a thread has at launch where `warps` warps share the file: what setmaxnreg moves around (NVIDIA).
inline int64_t launchRegisters(unsigned warps) {
  const int64_t each = 65536 / (int64_t(warps) * 32) / 8 * 8;
  return each < 256 ? each : 256;
}

/// All instructions of a target for operand types, best first.
llvm::ArrayRef<MmaInstruction> mmaInstructions(const Target &target, MmaType a, MmaType b);
inline llvm::ArrayRef<MmaInstruction> mmaInstructions(const Target &target, MmaType operand) {
  return mmaInstructions(target, operand, operand);
}

/// The operand type that `dot` of this element type ("f16", "f8e4m3fnuz") uses at this precision ("default", "tf32", "tf32x3", "ieee");
/// nullopt if it is scalar code on this target or no product at all.
std::optional<MmaType> mmaType(const Target &target, std::string_view scalar, std::string_view precision);
/// The element type nearest to an 8-bit one that the matrix units of `target` do not take: "f8e4m3fnuz" for f8e4m3 on gfx942, else "f16".
std::string_view nearestMmaType(const Target &target, std::string_view scalar);

/// Whether TMA combines blocks by "add", "min", "max", "and", "or" or "xor" in this element type (PTX ISA, "cp.reduce.async.bulk.tensor").
bool tmaReduces(std::string_view kind, std::string_view scalar);

} // namespace tlx::features
