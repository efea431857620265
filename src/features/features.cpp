// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "features/features.h"

#include <algorithm>

namespace tlx::features {

namespace {
// PTX ISA 7.0 has mma.sync m16n8k16, cp.async and ldmatrix for sm_80; 7.8 has stmatrix and sm_90; 8.0 names sm_90a.
// gfx942 loads straight into LDS too, by 4 bytes a lane at most: four times the instructions of a load through registers, so unused.
const Target kTargets[] = {
    {"sm_80", Vendor::Nvidia, "sm_80", 80, 70, 32, 1024, 166912, 49152, 255, 32, true, true, false, false, false, false,
     false},
    {"sm_90a", Vendor::Nvidia, "sm_90a", 90, 80, 32, 1024, 232448, 49152, 255, 32, true, true, true, true, true, false,
     false},
    {"gfx942", Vendor::Amd, "gfx942", 0,     0,     64,    1024, 65536, 65536, 512,
     32,       false,       false,    false, false, false, true, true,  0,     3},
    {"gfx950", Vendor::Amd, "gfx950", 0,     0,     64,    1024,  163840, 163840, 512,
     64,       false,       false,    false, false, false, false, true,   128,    4},
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
#define FP8(A, B, NAME)                                                                                                \
  {MmaType::A, 16, 16, 32, "tlx.amd.mfma.f32.16x16x32." NAME, false, MmaType::B}, {                                    \
    MmaType::A, 32, 32, 16, "tlx.amd.mfma.f32.32x32x16." NAME, false, MmaType::B                                       \
  }
const MmaInstruction kCdna3[] = {
    {MmaType::F16, 16, 16, 16, "tlx.amd.mfma.f32.16x16x16.f16", false},
    {MmaType::F16, 32, 32, 8, "tlx.amd.mfma.f32.32x32x8.f16", false},
    {MmaType::BF16, 16, 16, 16, "tlx.amd.mfma.f32.16x16x16.bf16", false},
    {MmaType::BF16, 32, 32, 8, "tlx.amd.mfma.f32.32x32x8.bf16", false},
    {MmaType::F32, 16, 16, 4, "tlx.amd.mfma.f32.16x16x4.f32", false},
    {MmaType::XF32, 16, 16, 8, "tlx.amd.mfma.f32.16x16x8.xf32", false},
    {MmaType::S8, 16, 16, 32, "tlx.amd.mfma.i32.16x16x32.i8", false},
    {MmaType::S8, 32, 32, 16, "tlx.amd.mfma.i32.32x32x16.i8", false},
    {MmaType::F64, 16, 16, 4, "tlx.amd.mfma.f64.16x16x4.f64", false},
    FP8(F8E4M3FNUZ, F8E4M3FNUZ, "f8e4m3fnuz.f8e4m3fnuz"),
    FP8(F8E4M3FNUZ, F8E5M2FNUZ, "f8e4m3fnuz.f8e5m2fnuz"),
    FP8(F8E5M2FNUZ, F8E4M3FNUZ, "f8e5m2fnuz.f8e4m3fnuz"),
    FP8(F8E5M2FNUZ, F8E5M2FNUZ, "f8e5m2fnuz.f8e5m2fnuz"),
};

// Twice the k an instruction; the shapes of CDNA 3 serve tiles with less. xf32 is gone.
const MmaInstruction kCdna4[] = {
    {MmaType::F16, 16, 16, 32, "tlx.amd.mfma.f32.16x16x32.f16", false},
    {MmaType::F16, 16, 16, 16, "tlx.amd.mfma.f32.16x16x16.f16", false},
    {MmaType::F16, 32, 32, 16, "tlx.amd.mfma.f32.32x32x16.f16", false},
    {MmaType::F16, 32, 32, 8, "tlx.amd.mfma.f32.32x32x8.f16", false},
    {MmaType::BF16, 16, 16, 32, "tlx.amd.mfma.f32.16x16x32.bf16", false},
    {MmaType::BF16, 16, 16, 16, "tlx.amd.mfma.f32.16x16x16.bf16", false},
    {MmaType::BF16, 32, 32, 16, "tlx.amd.mfma.f32.32x32x16.bf16", false},
    {MmaType::BF16, 32, 32, 8, "tlx.amd.mfma.f32.32x32x8.bf16", false},
    {MmaType::F32, 16, 16, 4, "tlx.amd.mfma.f32.16x16x4.f32", false},
    {MmaType::S8, 16, 16, 64, "tlx.amd.mfma.i32.16x16x64.i8", false},
    {MmaType::S8, 16, 16, 32, "tlx.amd.mfma.i32.16x16x32.i8", false},
    {MmaType::S8, 32, 32, 32, "tlx.amd.mfma.i32.32x32x32.i8", false},
    {MmaType::S8, 32, 32, 16, "tlx.amd.mfma.i32.32x32x16.i8", false},
    {MmaType::F64, 16, 16, 4, "tlx.amd.mfma.f64.16x16x4.f64", false},
    FP8(F8E4M3, F8E4M3, "f8e4m3.f8e4m3"),
    FP8(F8E4M3, F8E5M2, "f8e4m3.f8e5m2"),
    FP8(F8E5M2, F8E4M3, "f8e5m2.f8e4m3"),
    FP8(F8E5M2, F8E5M2, "f8e5m2.f8e5m2"),
};
#undef FP8
} // namespace

llvm::ArrayRef<Target> allTargets() {
  return kTargets;
}

const Target *findTarget(std::string_view name) {
  for (const Target &t : kTargets)
    if (name == t.name) return &t;
  return nullptr;
}

unsigned bitsOf(MmaType type) {
  switch (type) {
  case MmaType::S8:
  case MmaType::U8:
  case MmaType::F8E4M3:
  case MmaType::F8E5M2:
  case MmaType::F8E4M3FNUZ:
  case MmaType::F8E5M2FNUZ:
    return 8;
  case MmaType::F16:
  case MmaType::BF16:
    return 16;
  case MmaType::TF32:
  case MmaType::XF32:
  case MmaType::F32:
    return 32;
  case MmaType::F64:
    return 64;
  }
  return 0;
}

llvm::ArrayRef<MmaInstruction> mmaInstructions(const Target &target, MmaType a, MmaType b) {
  llvm::ArrayRef<MmaInstruction> table = kNvidia;
  if (target.vendor == Vendor::Amd) table = target.cdna == 4 ? llvm::ArrayRef<MmaInstruction>(kCdna4) : kCdna3;
  auto matches = [&](const MmaInstruction &row) { return row.operand == a && row.operandB == b; };
  size_t first = 0;
  while (first < table.size() && !matches(table[first])) ++first;
  size_t end = first;
  while (end < table.size() && matches(table[end])) ++end;
  return table.slice(first, end - first);
}

namespace {
struct NamedType {
  std::string_view name;
  MmaType type;
};
const NamedType kNamed[] = {
    {"f16", MmaType::F16},
    {"bf16", MmaType::BF16},
    {"f64", MmaType::F64},
    {"i8", MmaType::S8},
    {"u8", MmaType::U8},
    {"f8e4m3", MmaType::F8E4M3},
    {"f8e5m2", MmaType::F8E5M2},
    {"f8e4m3fnuz", MmaType::F8E4M3FNUZ},
    {"f8e5m2fnuz", MmaType::F8E5M2FNUZ},
};
} // namespace

std::optional<MmaType> mmaType(const Target &target, std::string_view scalar, std::string_view precision) {
  for (const NamedType &row : kNamed)
    if (row.name == scalar) return row.type;
  if (scalar != "f32") return std::nullopt;
  if (target.vendor == Vendor::Nvidia) return precision == "ieee" ? std::nullopt : std::optional(MmaType::TF32);
  // On AMD, ieee f32 has matrix units of its own. It serves tf32x3, whose accuracy it exceeds, and all of f32 where there is no xf32.
  bool exact = precision == "ieee" || precision == "tf32x3" || mmaInstructions(target, MmaType::XF32).empty();
  return exact ? MmaType::F32 : MmaType::XF32;
}

std::string_view nearestMmaType(const Target &target, std::string_view scalar) {
  for (auto [ocp, fnuz] :
       {std::pair<std::string_view, std::string_view>{"f8e4m3", "f8e4m3fnuz"}, {"f8e5m2", "f8e5m2fnuz"}})
    for (auto [has, other] : {std::pair{ocp, fnuz}, {fnuz, ocp}})
      if (scalar == has)
        if (auto type = mmaType(target, other, "");
            type && (!mmaInstructions(target, *type).empty() || (target.wgmma && other == ocp)))
          return other;
  return "f16";
}

bool tmaReduces(std::string_view kind, std::string_view scalar) {
  auto oneOf = [&](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), scalar) != names.end();
  };
  if (oneOf({"i32", "u32", "i64", "u64"})) return true;
  if (kind == "add") return oneOf({"f16", "bf16", "f32", "f64"});
  return (kind == "min" || kind == "max") && oneOf({"f16", "bf16"});
}

} // namespace tlx::features
