// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A kernel's metadata for tests of the runtime.
#pragma once
#include "support/metadata.h"

namespace tlx::test {

/// f(x: *f16 @0, n: i32 @8, s: i64 @16, scale: f32 @24, flag: i1 @28, half: f16 @30 | hidden grid @32, 36, 40), 44
/// bytes.
inline KernelMetadata sampleMetadata() {
  using Op = Fact::Op;
  KernelMetadata m;
  m.name = "f";
  m.symbol = "f_symbol";
  m.target = "sm_80";
  m.numWarps = 4;
  m.sharedBytes = 1024;
  m.paramBytes = 44;
  m.args = {{"x", ArgInfo::Kind::Pointer, "*f16", 0, 8},  {"n", ArgInfo::Kind::Scalar, "i32", 8, 4},
            {"s", ArgInfo::Kind::Scalar, "i64", 16, 8},   {"scale", ArgInfo::Kind::Scalar, "f32", 24, 4},
            {"flag", ArgInfo::Kind::Scalar, "i1", 28, 1}, {"half", ArgInfo::Kind::Scalar, "f16", 30, 2}};
  m.hidden = {{HiddenArg::Kind::GridX, 32, 4}, {HiddenArg::Kind::GridY, 36, 4}, {HiddenArg::Kind::GridZ, 40, 4}};
  m.facts = {{"n % 8 == 0", {{Op::Arg, 1}, {Op::Const, 8}, {Op::ModFloor}, {Op::Const, 0}, {Op::Eq}}},
             {"aligned(x, 16)", {{Op::Arg, 0}, {Op::Const, 16}, {Op::ModFloor}, {Op::Const, 0}, {Op::Eq}}},
             {"noalias(x)", {{Op::Arg, 0}}, true}};
  m.resources.registers = 40;
  m.resources.spillStores = 0;
  m.assembler = "ptxas 13.0.88 (\"/opt/ptxas\")";
  m.stages = {{"parse", 0.125}, {"ptxas", 20.5}};
  m.tasks = {{"producer", 0, 0, 4}, {"consumer[1]", 0, 8, 4}};
  m.shared = {{"ring", 1024, 8192, 2, false}, {"full", 9216, 16, 2, true}};
  return m;
}

/// g(m: i32 @0, a: tensor_desc<f16, [128, 64]>, n: i32): a is a map at 64 and n at 192, or a is fields (pointer @8,
/// stride @16, shape @24) and n at 32.
inline KernelMetadata tensorMetadata(bool tensorMap) {
  KernelMetadata m;
  m.name = "g";
  m.symbol = "g_symbol";
  m.target = tensorMap ? "sm_90a" : "sm_80";
  DescriptorInfo info;
  info.element = "f16";
  info.block = {128, 64};
  info.tensorMap = tensorMap;
  ArgInfo arg = {"a", ArgInfo::Kind::TensorDesc, "tensor_desc<f16, [128, 64]>", 64, 128};
  if (tensorMap) {
    info.box = {128, 64};
    info.swizzle = 128;
  } else {
    info.strideOffsets = {16};
    info.shapeOffsets = {24, 28};
    arg.offset = 8, arg.size = 24;
  }
  arg.descriptor = info;
  m.args = {
      {"m", ArgInfo::Kind::Scalar, "i32", 0, 4}, arg, {"n", ArgInfo::Kind::Scalar, "i32", tensorMap ? 192u : 32u, 4}};
  m.paramBytes = tensorMap ? 196 : 36;
  return m;
}

inline Binary sampleBinary(Binary::Kind kind) {
  Binary binary;
  binary.kind = kind;
  binary.metadata = sampleMetadata();
  for (int i = 0; i < 300; ++i) binary.image.push_back(uint8_t(i * 7));
  return binary;
}

} // namespace tlx::test
