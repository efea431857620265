// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tensors as launch arguments: rules, fields, maps and their reuse, with an encoder that counts.
#include <atomic>
#include <doctest/doctest.h>
#include <thread>

#include "runtime/launch/launch_plan.h"
#include "test_metadata.h"

using namespace tlx;
using namespace tlx::runtime;

namespace {

/// Writes the number of the encoding and the spec, so that a stale or torn map shows.
class CountingEncoder final : public TensorMapEncoder {
public:
  Status encodeTensorMap(const TensorMapSpec &spec, uint8_t *out) override {
    if (refuses) return Status::error(Code::Driver, "no map today");
    CHECK(reinterpret_cast<uintptr_t>(out) % kTensorMapAlignment == 0);
    ++count;
    last = spec;
    for (size_t i = 0; i < kTensorMapBytes; i += 8) std::memcpy(out + i, &spec.data, 8);
    return Status::ok();
  }
  std::atomic<unsigned> count{0};
  TensorMapSpec last;
  bool refuses = false;
};

void *address(uint64_t value) {
  return reinterpret_cast<void *>(uintptr_t(value));
}

/// [200, 120] f16, rows 128 elements apart.
Tensor sampleTensor() {
  return {address(0x10000), Element::F16, 2, {200, 120}, {128, 1}};
}

struct Sample {
  explicit Sample(bool tensorMap) : metadata(test::tensorMetadata(tensorMap)) {
    std::memset(buffer.bytes, 0xcc, sizeof buffer.bytes);
    const Status status = LaunchPlan::create(metadata, plan);
    REQUIRE_MESSAGE(status.isOk(), status.message);
  }
  Status pack(const Tensor &tensor) {
    const Arg args[] = {Arg::ofInt(7), Arg::ofTensor(&tensor), Arg::ofInt(9)};
    return plan.pack(args, {1, 1, 1}, buffer, &encoder);
  }
  KernelMetadata metadata;
  LaunchPlan plan;
  ParamBuffer buffer;
  CountingEncoder encoder;
};

template <typename T> T at(const ParamBuffer &buffer, size_t offset) {
  T value;
  std::memcpy(&value, buffer.bytes + offset, sizeof value);
  return value;
}

bool mentions(const Status &status, const std::string &text) {
  INFO(status.message);
  const bool found = status.message.find(text) != std::string::npos;
  CHECK(found);
  return found;
}

} // namespace

TEST_CASE("tensors: element types by name") {
  CHECK(findElement("f16") == Element::F16);
  CHECK(findElement("f8e5m2fnuz") == Element::F8E5M2Fnuz);
  CHECK(findElement("f17") == Element::None);
  CHECK(findElement("") == Element::None);
  for (int i = 1; i <= int(Element::F64); ++i) CHECK(findElement(elementName(Element(i))) == Element(i));
  CHECK(elementBytes(Element::I1) == 1);
  CHECK(elementBytes(Element::BF16) == 2);
  CHECK(elementBytes(Element::U64) == 8);
  CHECK(elementBytes(Element(99)) == 0);
}

TEST_CASE("tensors as fields: pointer, strides and shape at their offsets") {
  Sample s(false);
  REQUIRE(s.pack(sampleTensor()).isOk());
  CHECK(s.encoder.count == 0);
  CHECK(at<int32_t>(s.buffer, 0) == 7);
  CHECK(at<uint64_t>(s.buffer, 8) == 0x10000);
  CHECK(at<int64_t>(s.buffer, 16) == 128);
  CHECK(at<int32_t>(s.buffer, 24) == 200);
  CHECK(at<int32_t>(s.buffer, 28) == 120);
  CHECK(at<int32_t>(s.buffer, 32) == 9);
  // The packed form is the same bytes.
  uint8_t field[24];
  REQUIRE(s.plan.packTensor(1, sampleTensor(), nullptr, field).isOk());
  CHECK(std::memcmp(field, s.buffer.bytes + 8, sizeof field) == 0);
  ParamBuffer again;
  REQUIRE(s.plan.packRaw({s.buffer.bytes, s.plan.userBytes()}, {1, 1, 1}, again).isOk());
  CHECK(std::memcmp(again.bytes, s.buffer.bytes, s.buffer.size) == 0);
}

TEST_CASE("tensors as maps: what the encoder gets, innermost dimension first") {
  Sample s(true);
  REQUIRE(s.pack(sampleTensor()).isOk());
  CHECK(s.encoder.count == 1);
  const TensorMapSpec &spec = s.encoder.last;
  CHECK(spec.data == address(0x10000));
  CHECK(spec.element == Element::F16);
  CHECK(spec.rank == 2);
  CHECK(!spec.empty);
  CHECK(spec.shape[0] == 120);
  CHECK(spec.shape[1] == 200);
  CHECK(spec.strides[0] == 256); // bytes
  CHECK(spec.box[0] == 64);
  CHECK(spec.box[1] == 128);
  CHECK(spec.swizzle == 128);
  CHECK(at<int32_t>(s.buffer, 0) == 7);
  for (size_t i = 0; i < kTensorMapBytes; i += 8) CHECK(at<uint64_t>(s.buffer, 64 + i) == 0x10000);
  CHECK(at<int32_t>(s.buffer, 192) == 9);
  CHECK(reinterpret_cast<uintptr_t>(s.buffer.bytes) % kTensorMapAlignment == 0);

  uint8_t map[kTensorMapBytes + 1]; // any address will do
  REQUIRE(s.plan.packTensor(1, sampleTensor(), &s.encoder, {map + 1, kTensorMapBytes}).isOk());
  CHECK(std::memcmp(map + 1, s.buffer.bytes + 64, kTensorMapBytes) == 0);
}

TEST_CASE("tensor maps are used again while data, shape, strides and device are the same") {
  Sample s(true);
  const Tensor tensor = sampleTensor();
  REQUIRE(s.pack(tensor).isOk());
  REQUIRE(s.pack(tensor).isOk());
  Tensor other = tensor;
  for (uint32_t d = 2; d < kMaxRank; ++d) other.shape[d] = other.strides[d] = -77; // not read
  REQUIRE(s.pack(other).isOk());
  CHECK(s.encoder.count == 1);
  unsigned expected = 1;
  auto changed = [&](auto change) {
    Tensor t = tensor;
    change(t);
    REQUIRE(s.pack(t).isOk());
    CHECK(s.encoder.count == ++expected);
    CHECK(at<uint64_t>(s.buffer, 64) == reinterpret_cast<uintptr_t>(t.data));
    REQUIRE(s.pack(tensor).isOk());
    CHECK(s.encoder.count == ++expected);
    CHECK(at<uint64_t>(s.buffer, 64) == 0x10000);
  };
  changed([](Tensor &t) { t.data = address(0x20000); });
  changed([](Tensor &t) { t.shape[0] = 201; });
  changed([](Tensor &t) { t.shape[1] = 119; });
  changed([](Tensor &t) { t.strides[0] = 136; });
  // Another device.
  CountingEncoder second;
  CHECK(second.encoderId != s.encoder.encoderId);
  const Arg args[] = {Arg::ofInt(7), Arg::ofTensor(&tensor), Arg::ofInt(9)};
  REQUIRE(s.plan.pack(args, {1, 1, 1}, s.buffer, &second).isOk());
  CHECK(second.count == 1);
  // A failed encoding is not kept.
  second.refuses = true;
  other = tensor;
  other.data = address(0x30000);
  const Arg others[] = {Arg::ofInt(7), Arg::ofTensor(&other), Arg::ofInt(9)};
  const Status status = s.plan.pack(others, {1, 1, 1}, s.buffer, &second);
  CHECK(status.code == Code::Driver);
  mentions(status, "argument 'a' of type tensor_desc<f16, [128, 64]>: no map today");
  second.refuses = false;
  REQUIRE(s.plan.pack(others, {1, 1, 1}, s.buffer, &second).isOk());
  CHECK(second.count == 2);
}

TEST_CASE("tensor maps: several threads with their own tensors get their own maps") {
  Sample s(true);
  std::atomic<unsigned> wrong{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (unsigned i = 0; i < 2000; ++i) {
        Tensor tensor = sampleTensor();
        const uint64_t data = 0x10000 * (1 + (t + i / 50) % 3);
        tensor.data = address(data);
        const Arg args[] = {Arg::ofInt(7), Arg::ofTensor(&tensor), Arg::ofInt(9)};
        ParamBuffer buffer;
        if (!s.plan.pack(args, {1, 1, 1}, buffer, &s.encoder).isOk()) ++wrong;
        for (size_t at = 0; at < kTensorMapBytes; at += 8) wrong += std::memcmp(buffer.bytes + 64 + at, &data, 8) != 0;
      }
    });
  for (std::thread &thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(s.encoder.count >= 3);
  CHECK(s.encoder.count < 8000); // some were used again
}

TEST_CASE("tensors: each rule, in both forms") {
  for (const bool tensorMap : {false, true}) {
    CAPTURE(tensorMap);
    Sample s(tensorMap);
    REQUIRE(s.pack(sampleTensor()).isOk());
    const unsigned before = s.encoder.count;
    auto refused = [&](const char *text, auto change) {
      Tensor t = sampleTensor();
      change(t);
      const Status status = s.pack(t);
      CHECK(status.code == Code::InvalidArgument);
      mentions(status, std::string("argument 'a' of type tensor_desc<f16, [128, 64]>: ") + text);
      CHECK(s.encoder.count == before);
    };
    refused("the tensor's elements are bf16, not f16", [](Tensor &t) { t.element = Element::BF16; });
    refused("the tensor's elements are of no known dtype, not f16", [](Tensor &t) { t.element = Element::None; });
    refused("the tensor has rank 3, and its blocks have rank 2",
            [](Tensor &t) { t.rank = 3, t.shape[2] = 1, t.strides[2] = 1; });
    refused("the tensor has rank 77, and", [](Tensor &t) { t.rank = 77; });
    refused("the extent of dimension 1 is -1, and extents are 0 to 2147483647", [](Tensor &t) { t.shape[1] = -1; });
    refused("the extent of dimension 0 is 2147483648, and", [](Tensor &t) { t.shape[0] = int64_t(1) << 31; });
    refused("the tensor's data is NULL", [](Tensor &t) { t.data = nullptr; });
    refused("the tensor's data is at 0x10008, which is no multiple of 16",
            [](Tensor &t) { t.data = address(0x10008); });
    refused("the tensor's data is at 0x10008, which is no multiple of 16",
            [](Tensor &t) { t.data = address(0x10008), t.shape[0] = 0; });
    refused("the stride of dimension 1 is 2, and the last dimension's must be 1", [](Tensor &t) { t.strides[1] = 2; });
    refused("the stride of dimension 1 is 128, and the last", [](Tensor &t) { t.strides[0] = 1, t.strides[1] = 128; });
    refused("the stride of dimension 0 is 132 elements, which is 264 bytes and no multiple of 16",
            [](Tensor &t) { t.strides[0] = 132; });
    refused("the stride of dimension 0 is -128, and strides are not negative", [](Tensor &t) { t.strides[0] = -128; });
    refused("the stride of dimension 0 is 549755813888 elements, which is not less than 2^40 bytes",
            [](Tensor &t) { t.strides[0] = int64_t(1) << 39; });
    refused("the stride of dimension 0 is 9223372036854775800 elements, which is not less than 2^40 bytes",
            [](Tensor &t) { t.strides[0] = INT64_MAX - 7; });

    auto taken = [&](auto change) {
      Tensor t = sampleTensor();
      change(t);
      const Status status = s.pack(t);
      CHECK_MESSAGE(status.isOk(), status.message);
    };
    taken([](Tensor &t) { t.strides[0] = 8; });                      // rows overlap
    taken([](Tensor &t) { t.strides[0] = 0; });                      // one row again and again
    taken([](Tensor &t) { t.strides[0] = (int64_t(1) << 39) - 8; }); // the largest
    taken([](Tensor &t) { t.shape[1] = 1, t.strides[1] = -5; });     // an extent of 1 frees its stride
    taken([](Tensor &t) { t.shape[0] = 1, t.strides[0] = 3; });
    taken([](Tensor &t) { t.shape[0] = 0, t.strides[0] = 3, t.data = nullptr; });
    taken([](Tensor &t) { t.shape[0] = INT32_MAX; });
  }
}

TEST_CASE("tensors: kinds that do not fit") {
  Sample s(false);
  const Tensor tensor = sampleTensor();
  const Arg pointer[] = {Arg::ofInt(7), Arg::ofPointer(tensor.data), Arg::ofInt(9)};
  Status status = s.plan.pack(pointer, {1, 1, 1}, s.buffer);
  CHECK(status.code == Code::InvalidArgument);
  mentions(status, "argument 'a' is of type tensor_desc<f16, [128, 64]>, and a pointer was passed");
  const Arg scalar[] = {Arg::ofTensor(&tensor), Arg::ofTensor(&tensor), Arg::ofInt(9)};
  mentions(s.plan.pack(scalar, {1, 1, 1}, s.buffer), "argument 'm' is of type i32, and a tensor was passed");
  uint8_t bytes[24];
  mentions(s.plan.packTensor(0, tensor, nullptr, bytes), "argument 'm' is of type i32, which is no tensor_desc");
  CHECK(s.plan.packTensor(3, tensor, nullptr, bytes).code == Code::NotFound);
  mentions(s.plan.packTensor(1, tensor, nullptr, {bytes, 23}), "has 24 bytes in the packed buffer, and room for 23");
  Sample map(true); // and no device
  const Arg args[] = {Arg::ofInt(7), Arg::ofTensor(&tensor), Arg::ofInt(9)};
  mentions(map.plan.pack(args, {1, 1, 1}, map.buffer), "a tensor map is made by a device");
}

TEST_CASE("tensors: strides that the rules leave open get a value that a map can hold") {
  Sample s(true);
  Tensor t = sampleTensor();
  t.shape[0] = 1, t.strides[0] = 3;
  REQUIRE(s.pack(t).isOk());
  CHECK(s.encoder.last.strides[0] == 240); // a dense row of 120
  t.shape[1] = 119;
  REQUIRE(s.pack(t).isOk());
  CHECK(s.encoder.last.strides[0] == 240); // rounded up
  t.shape[1] = INT32_MAX;
  REQUIRE(s.pack(t).isOk());
  CHECK(s.encoder.last.strides[0] == uint64_t(1) << 32);
  t.shape[0] = 0, t.shape[1] = 0;
  REQUIRE(s.pack(t).isOk());
  CHECK(s.encoder.last.empty);
  CHECK(s.encoder.last.shape[0] == 0);
  CHECK(s.encoder.last.strides[0] == 16);

  KernelMetadata m = test::tensorMetadata(true); // rank 5: products beyond 64 bits
  m.args[1].descriptor->block = {1, 1, 1, 1, 64};
  m.args[1].descriptor->box = {1, 1, 1, 1, 64};
  LaunchPlan plan;
  REQUIRE(LaunchPlan::create(m, plan).isOk());
  const Tensor large = {address(16), Element::F16, 5, {1, 1, 1, INT32_MAX, 64}, {5, 5, 5, int64_t(1) << 38, 1}};
  const Arg args[] = {Arg::ofInt(7), Arg::ofTensor(&large), Arg::ofInt(9)};
  REQUIRE(plan.pack(args, {1, 1, 1}, s.buffer, &s.encoder).isOk());
  CHECK(s.encoder.last.strides[0] == uint64_t(1) << 39);
  for (int d = 1; d < 4; ++d) CHECK(s.encoder.last.strides[d] == (uint64_t(1) << 40) - 16);
}

TEST_CASE("tensors: descriptors that make no sense are refused") {
  auto refused = [](bool tensorMap, const char *text, auto change) {
    KernelMetadata m = test::tensorMetadata(tensorMap);
    change(m.args[1], *m.args[1].descriptor, m);
    LaunchPlan plan;
    const Status status = LaunchPlan::create(m, plan);
    CHECK(status.code == Code::Internal);
    mentions(status, text);
  };
  using M = KernelMetadata;
  using A = ArgInfo;
  using D = DescriptorInfo;
  refused(true, "has no descriptor", [](A &a, D &, M &) { a.descriptor.reset(); });
  refused(true, "unknown type 'f17'", [](A &, D &d, M &) { d.element = "f17"; });
  refused(true, "rank 0", [](A &, D &d, M &) { d.block.clear(); });
  refused(true, "rank 6", [](A &, D &d, M &) { d.block.assign(6, 1); });
  refused(true, "aligned to 64", [](A &a, D &, M &) { a.offset = 32; });
  refused(true, "128 bytes", [](A &a, D &, M &) { a.size = 64; });
  refused(true, "box has rank 1", [](A &, D &d, M &) { d.box = {64}; });
  refused(true, "is 257, not 1 to 256", [](A &, D &d, M &) { d.box[0] = 257; });
  refused(true, "is 0, not 1 to 256", [](A &, D &d, M &) { d.box[0] = 0; });
  refused(true, "swizzle is 48", [](A &, D &d, M &) { d.swizzle = 48; });
  refused(true, "has 120 bytes, which is no multiple of 16", [](A &, D &d, M &) { d.box[1] = 60; });
  refused(true, "has 128 bytes, more than its swizzle of 64", [](A &, D &d, M &) { d.swizzle = 64; });
  refused(true, "lies outside", [](A &, D &, M &m) { m.paramBytes = 128; });
  refused(true, "speaks of a tensor descriptor", [](A &, D &, M &m) {
    m.facts = {{"aligned(a, 16)", {{Fact::Op::Arg, 1}, {Fact::Op::Const, 16}, {Fact::Op::ModFloor}, {Fact::Op::Not}}}};
  });
  refused(false, "do not fit the rank", [](A &, D &d, M &) { d.shapeOffsets.pop_back(); });
  refused(false, "do not fit the rank", [](A &, D &d, M &) { d.strideOffsets.push_back(40); });
  refused(false, "overlaps", [](A &, D &d, M &) { d.shapeOffsets[0] = 20; });
  refused(false, "not naturally aligned", [](A &, D &d, M &) { d.strideOffsets[0] = 20; });
  refused(false, "before its pointer", [](A &, D &d, M &) { d.shapeOffsets[0] = 4; });
  refused(false, "does not end with its last field", [](A &a, D &, M &) { a.size = 28; });
  refused(false, "lies outside", [](A &, D &d, M &) { d.shapeOffsets[1] = 4000; });
}
