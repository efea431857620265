// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See tensor.h. The rules are those of tensor maps (CUDA Driver API, cuTensorMapEncodeTiled; PTX ISA, "Tensors"), kept
// on targets without them too: a kernel that launches on one target launches on all.
#include "runtime/launch/tensor.h"

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstring>

namespace tlx::runtime {

namespace {

struct ElementRow {
  const char *name;
  unsigned bytes;
};
constexpr ElementRow kElements[] = {{"", 0},       {"i1", 1},     {"i8", 1},         {"i16", 2},        {"i32", 4},
                                    {"i64", 8},    {"u8", 1},     {"u16", 2},        {"u32", 4},        {"u64", 8},
                                    {"f8e4m3", 1}, {"f8e5m2", 1}, {"f8e4m3fnuz", 1}, {"f8e5m2fnuz", 1}, {"f16", 2},
                                    {"bf16", 2},   {"f32", 4},    {"f64", 8}};
static_assert(std::size(kElements) == size_t(Element::F64) + 1);

constexpr int64_t kMaxExtent = INT32_MAX;          // coordinates are i32
constexpr int64_t kStrideLimit = int64_t(1) << 40; // bytes
constexpr int64_t kAlignment = 16;                 // of the address and of strides in bytes

bool sameTensor(const Tensor &a, const Tensor &b) {
  return a.data == b.data && a.element == b.element && a.rank == b.rank &&
         std::equal(a.shape, a.shape + a.rank, b.shape) && std::equal(a.strides, a.strides + a.rank, b.strides);
}

bool isEmpty(const Tensor &tensor) {
  return std::find(tensor.shape, tensor.shape + tensor.rank, 0) != tensor.shape + tensor.rank;
}

} // namespace

const char *elementName(Element element) {
  return size_t(element) < std::size(kElements) ? kElements[size_t(element)].name : "";
}
unsigned elementBytes(Element element) {
  return size_t(element) < std::size(kElements) ? kElements[size_t(element)].bytes : 0;
}
Element findElement(std::string_view name) {
  for (size_t i = 1; i < std::size(kElements); ++i)
    if (name == kElements[i].name) return Element(i);
  return Element::None;
}

static uint64_t nextEncoderId() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}
TensorMapEncoder::TensorMapEncoder() : encoderId(nextEncoderId()) {}

std::string TensorParam::create(const ArgInfo &arg, TensorParam &param) {
  param = TensorParam();
  if (!arg.descriptor) return "it has no descriptor";
  const DescriptorInfo &info = *arg.descriptor;
  param.arg = &arg;
  param.info = &info;
  param.element = findElement(info.element);
  param.rank = uint32_t(info.block.size());
  if (param.element == Element::None) return "its elements have the unknown type '" + info.element + "'";
  if (param.rank < 1 || param.rank > kMaxRank) return "its block has rank " + std::to_string(info.block.size());
  const bool fields = !info.tensorMap || info.pointerOffset;
  if (fields && (info.shapeOffsets.size() != param.rank || info.strideOffsets.size() != param.rank - 1))
    return "its fields do not fit the rank of its block";
  if (!info.tensorMap) return {};
  // The compiler chose box and swizzle: what is wrong here is not the caller's.
  if (arg.size < kTensorMapBytes || (!fields && arg.size != kTensorMapBytes) || arg.offset % kTensorMapAlignment != 0)
    return "a tensor map has 128 bytes, aligned to 64";
  if (info.box.size() != param.rank) return "its box has rank " + std::to_string(info.box.size());
  for (uint32_t extent : info.box)
    if (extent < 1 || extent > 256) return "an extent of its box is " + std::to_string(extent) + ", not 1 to 256";
  if (info.swizzle != 0 && info.swizzle != 32 && info.swizzle != 64 && info.swizzle != 128)
    return "its swizzle is " + std::to_string(info.swizzle) + ", not 0, 32, 64 or 128";
  const uint64_t row = uint64_t(info.box.back()) * elementBytes(param.element);
  if (row % 16 != 0) return "a row of its box has " + std::to_string(row) + " bytes, which is no multiple of 16";
  if (info.swizzle != 0 && row > info.swizzle)
    return "a row of its box has " + std::to_string(row) + " bytes, more than its swizzle of " +
           std::to_string(info.swizzle);
  param.slot = std::make_unique<Slot>();
  return {};
}

Status TensorParam::fail(const std::string &why) const {
  return Status::error(Code::InvalidArgument, "argument '" + arg->name + "' of type " + arg->type + ": " + why);
}

Status TensorParam::check(const Tensor &tensor) const {
  if (tensor.element != element)
    return fail(std::string("the tensor's elements are ") +
                (elementBytes(tensor.element) ? elementName(tensor.element) : "of no known dtype") + ", not " +
                elementName(element));
  if (tensor.rank != rank)
    return fail("the tensor has rank " + std::to_string(tensor.rank) + ", and its blocks have rank " +
                std::to_string(rank));
  for (uint32_t d = 0; d < rank; ++d)
    if (tensor.shape[d] < 0 || tensor.shape[d] > kMaxExtent)
      return fail("the extent of dimension " + std::to_string(d) + " is " + std::to_string(tensor.shape[d]) +
                  ", and extents are 0 to " + std::to_string(kMaxExtent));
  const bool empty = isEmpty(tensor);
  const uintptr_t address = reinterpret_cast<uintptr_t>(tensor.data);
  if (!address && !empty) return fail("the tensor's data is NULL");
  if (address % kAlignment != 0 && !(empty && !address)) {
    char text[24];
    std::snprintf(text, sizeof text, "0x%" PRIxPTR, address);
    return fail(std::string("the tensor's data is at ") + text + ", which is no multiple of 16");
  }
  const int64_t bytes = elementBytes(element);
  for (uint32_t d = rank; d-- > 0;) {   // the last first: a column-major tensor should be told so
    if (tensor.shape[d] <= 1) continue; // never multiplied by anything but 0
    const int64_t stride = tensor.strides[d];
    auto wrong = [&](const std::string &why) {
      return fail("the stride of dimension " + std::to_string(d) + " is " + std::to_string(stride) + why);
    };
    if (d + 1 == rank) {
      if (stride != 1) return wrong(", and the last dimension's must be 1");
      continue;
    }
    if (stride < 0) return wrong(", and strides are not negative");
    if (stride >= (kStrideLimit + bytes - 1) / bytes) return wrong(" elements, which is not less than 2^40 bytes");
    if (stride * bytes % kAlignment != 0)
      return wrong(" elements, which is " + std::to_string(stride * bytes) + " bytes and no multiple of 16");
  }
  return Status::ok();
}

void TensorParam::fillStrides(const Tensor &tensor, int64_t (&strides)[kMaxRank]) const {
  const int64_t bytes = elementBytes(element), most = (kStrideLimit - kAlignment) / bytes;
  strides[rank - 1] = 1;
  for (uint32_t d = rank - 1; d-- > 0;) {
    if (tensor.shape[d] > 1) {
      strides[d] = tensor.strides[d];
      continue;
    }
    // What a dense tensor would have, rounded up to what a map can hold.
    const int64_t extent = std::max<int64_t>(tensor.shape[d + 1], 1), inner = std::max<int64_t>(strides[d + 1], 1);
    const int64_t unit = kAlignment / bytes, dense = extent > most / inner ? most : extent * inner;
    strides[d] = std::min((dense + unit - 1) / unit * unit, most);
  }
}

TensorMapSpec TensorParam::specOf(const Tensor &tensor) const {
  TensorMapSpec spec;
  spec.data = tensor.data;
  spec.element = element;
  spec.rank = rank;
  spec.empty = isEmpty(tensor);
  spec.swizzle = info->swizzle;
  int64_t strides[kMaxRank];
  fillStrides(tensor, strides);
  for (uint32_t d = 0; d < rank; ++d) {
    spec.shape[d] = uint64_t(tensor.shape[rank - 1 - d]);
    spec.box[d] = info->box[rank - 1 - d];
    if (d > 0) spec.strides[d - 1] = uint64_t(strides[rank - 1 - d]) * elementBytes(element);
  }
  spec.stored = info->pointerOffset.has_value(); // a store needs the fields beside the map
  return spec;
}

void TensorParam::packFields(const Tensor &tensor, uint8_t *bytes) const {
  int64_t strides[kMaxRank];
  fillStrides(tensor, strides);
  storeAs(bytes + (info->pointerOffset.value_or(arg->offset) - arg->offset),
          uint64_t(reinterpret_cast<uintptr_t>(tensor.data)));
  // Offsets are the parameter buffer's, and `bytes` is at arg->offset of it.
  for (uint32_t d = 0; d < rank; ++d) {
    storeAs(bytes + (info->shapeOffsets[d] - arg->offset), int32_t(tensor.shape[d]));
    if (d + 1 < rank) storeAs(bytes + (info->strideOffsets[d] - arg->offset), strides[d]);
  }
}

Status TensorParam::pack(const Tensor &tensor, TensorMapEncoder *encoder, uint8_t *bytes) const {
  if (!slot) {
    if (Status status = check(tensor)) return status;
    packFields(tensor, bytes);
    return Status::ok();
  }
  if (!encoder) return fail("a tensor map is made by a device, and there is none");
  std::lock_guard lock(slot->mutex);
  if (slot->encoder != encoder->encoderId || !sameTensor(slot->tensor, tensor)) {
    if (Status status = check(tensor)) return status;
    slot->encoder = 0; // until the new bytes are whole
    if (Status status = encoder->encodeTensorMap(specOf(tensor), slot->map)) {
      status.message = "argument '" + arg->name + "' of type " + arg->type + ": " + status.message;
      return status;
    }
    slot->tensor = tensor;
    slot->encoder = encoder->encoderId;
  }
  std::memcpy(bytes, slot->map, kTensorMapBytes);
  if (info->pointerOffset) packFields(tensor, bytes);
  return Status::ok();
}

} // namespace tlx::runtime
