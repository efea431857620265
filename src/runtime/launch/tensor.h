// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tensors as launch arguments: the rules that every target keeps, and tensor maps, which a device encodes and a launch
// uses again. Free of LLVM and of any driver.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "runtime/launch/status.h"
#include "support/metadata.h"

namespace tlx::runtime {

/// Types in memory: those of tlx_dtype, value for value.
enum class Element : uint8_t {
  None,
  I1,
  I8,
  I16,
  I32,
  I64,
  U8,
  U16,
  U32,
  U64,
  F8E4M3,
  F8E5M2,
  F8E4M3Fnuz,
  F8E5M2Fnuz,
  F16,
  BF16,
  F32,
  F64
};
/// "f16" for Element::F16.
const char *elementName(Element element);
unsigned elementBytes(Element element);
/// None if the language has no such type.
Element findElement(std::string_view name);

/// Parameters are packed without alignment in mind.
template <typename T> void storeAs(uint8_t *bytes, T value) {
  std::memcpy(bytes, &value, sizeof value);
}

constexpr unsigned kMaxRank = 5;        // of a tensor map
constexpr size_t kTensorMapBytes = 128; // CUtensorMap
constexpr size_t kTensorMapAlignment = 64;

/// As the host states it, in the order of the language. What lies behind `rank` in the arrays is not read (nor set: a
/// launch converts one a tensor argument).
struct Tensor {
  void *data;
  Element element;
  uint32_t rank;
  int64_t shape[kMaxRank];
  int64_t strides[kMaxRank]; // elements
};

/// What a device encodes: a tensor that keeps the rules, and how a kernel reads it. Dimensions innermost first, as in
/// the driver's call.
struct TensorMapSpec {
  void *data = nullptr; // may be null if `empty`
  Element element = Element::None;
  uint32_t rank = 0;
  bool empty = false;                  // an extent is 0
  bool stored = false;                 // the kernel writes through the map
  uint64_t shape[kMaxRank] = {};       // elements
  uint64_t strides[kMaxRank - 1] = {}; // bytes, of the dimensions 1 to rank - 1
  uint32_t box[kMaxRank] = {};
  uint32_t swizzle = 0; // bytes
};

/// Makes tensor maps for one device.
class TensorMapEncoder {
public:
  TensorMapEncoder();
  virtual ~TensorMapEncoder() = default;
  /// Writes kTensorMapBytes to `out`, which is aligned to kTensorMapAlignment. May come from several threads at once.
  virtual Status encodeTensorMap(const TensorMapSpec &spec, uint8_t *out) = 0;
  /// Of this encoder alone for the life of the process (an address may come back); never 0.
  const uint64_t encoderId;
};

/// One tensor argument of a kernel.
class TensorParam {
public:
  /// Checks `arg.descriptor`; "" or what is wrong with it. `arg` must outlive the parameter.
  static std::string create(const ArgInfo &arg, TensorParam &param);
  bool isTensorMap() const { return info->tensorMap; }

  /// Writes what the kernel gets for `tensor` to `bytes`, the place of the argument. A map comes from the slot if the
  /// last one was for the same data, shape, strides and device: then nothing is checked, encoded or allocated.
  Status pack(const Tensor &tensor, TensorMapEncoder *encoder, uint8_t *bytes) const;

private:
  Status check(const Tensor &tensor) const;
  Status fail(const std::string &why) const;
  /// Strides in elements, with a value for those that the rules leave open. `tensor` has been checked.
  void fillStrides(const Tensor &tensor, int64_t (&strides)[kMaxRank]) const;
  void packFields(const Tensor &tensor, uint8_t *bytes) const;
  TensorMapSpec specOf(const Tensor &tensor) const;

  struct alignas(kTensorMapAlignment) Slot {
    uint8_t map[kTensorMapBytes];
    std::mutex mutex; // of all members; held while an encoder works, so that threads with one tensor encode once
    uint64_t encoder = 0;
    Tensor tensor;
  };
  const ArgInfo *arg = nullptr;
  const DescriptorInfo *info = nullptr;
  Element element = Element::None;
  uint32_t rank = 0;
  std::unique_ptr<Slot> slot; // of a tensor map
};

} // namespace tlx::runtime
