// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "features/features.h"

namespace tlx::features {

namespace {
// PTX ISA 7.0 has mma.sync m16n8k16, cp.async and ldmatrix for sm_80; 7.8 has stmatrix and sm_90; 8.0 names sm_90a.
const Target kTargets[] = {
    {"sm_80", Vendor::Nvidia, "sm_80", 80, 70, 32, 1024, 166912, 49152, 255, 32, true, true, false, false, false, false, false},
    {"sm_90a", Vendor::Nvidia, "sm_90a", 90, 80, 32, 1024, 232448, 49152, 255, 32, true, true, true, true, true, false, false},
    {"gfx942", Vendor::Amd, "gfx942", 0, 0, 64, 1024, 65536, 65536, 512, 32, false, false, false, false, false, true, true},
};

const MmaInstruction kNvidia[] = {
    {MmaType::F16, 16, 8, 16, "tlx.nv.mma.m16n8k16.f32.f16", true},
    {MmaType::BF16, 16, 8, 16, "tlx.nv.mma.m16n8k16.f32.bf16", true},
    {MmaType::TF32, 16, 8, 8, "tlx.nv.mma.m16n8k8.f32.tf32", true},
    {MmaType::S8, 16, 8, 32, "tlx.nv.mma.m16n8k32.s32.s8", true},
    {MmaType::U8, 16, 8, 32, "tlx.nv.mma.m16n8k32.s32.u8", true},
    {MmaType::F64, 8, 8, 4, "tlx.nv.mma.m8n8k4.f64", true},
};

// The 16x16 forms come first: they fit every tile, and the 32x32 forms gain only where registers are short.
const MmaInstruction kAmd[] = {
    {MmaType::F16, 16, 16, 16, "tlx.amd.mfma.f32.16x16x16.f16", false},
    {MmaType::F16, 32, 32, 8, "tlx.amd.mfma.f32.32x32x8.f16", false},
    {MmaType::BF16, 16, 16, 16, "tlx.amd.mfma.f32.16x16x16.bf16", false},
    {MmaType::BF16, 32, 32, 8, "tlx.amd.mfma.f32.32x32x8.bf16", false},
    {MmaType::F32, 16, 16, 4, "tlx.amd.mfma.f32.16x16x4.f32", false},
    {MmaType::XF32, 16, 16, 8, "tlx.amd.mfma.f32.16x16x8.xf32", false},
    {MmaType::S8, 16, 16, 32, "tlx.amd.mfma.i32.16x16x32.i8", false},
    {MmaType::S8, 32, 32, 16, "tlx.amd.mfma.i32.32x32x16.i8", false},
    {MmaType::F64, 16, 16, 4, "tlx.amd.mfma.f64.16x16x4.f64", false},
};
} // namespace

llvm::ArrayRef<Target> allTargets() { return kTargets; }

const Target *findTarget(std::string_view name) {
  for (const Target &t : kTargets)
    if (name == t.name) return &t;
  return nullptr;
}

llvm::ArrayRef<MmaInstruction> mmaInstructions(const Target &target, MmaType operand) {
  llvm::ArrayRef<MmaInstruction> table = target.vendor == Vendor::Nvidia ? llvm::ArrayRef<MmaInstruction>(kNvidia)
                                                                         : llvm::ArrayRef<MmaInstruction>(kAmd);
  size_t first = 0, last = table.size();
  while (first < last && table[first].operand != operand) ++first;
  size_t end = first;
  while (end < last && table[end].operand == operand) ++end;
  return table.slice(first, end - first);
}

} // namespace tlx::features
