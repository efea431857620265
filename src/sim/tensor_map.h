// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The simulator's tensor map: what its TMA reads in place of the 128 opaque bytes that a CUDA driver encodes.
#pragma once
#include <cstdint>

namespace tlx::sim {

/// Dimensions innermost first, as in the coordinates of tlx.nv.tma.*. Checked by who encodes it (runtime/sim), so that the simulator can
/// trust all but the memory it points to.
struct TensorMap {
  static constexpr uint32_t kMagic = 0x4d584c54; // "TLXM"
  enum class Element : uint8_t { U8, U16, U32, I32, U64, I64, F16, BF16, F32, F64 }; // what reductions compute with
  uint32_t magic = kMagic;
  uint8_t rank = 1; // 1 to 5
  Element element = Element::U8;
  uint8_t elementBytes = 1;
  uint8_t swizzle = 0;        // bytes: 0, 32, 64 or 128
  uint64_t base = 0;          // address
  uint64_t shape[5] = {};     // elements
  uint64_t strides[4] = {};   // bytes, of dimensions 1 to rank - 1
  uint32_t box[5] = {};       // elements of one message
};
static_assert(sizeof(TensorMap) <= 128);

} // namespace tlx::sim
