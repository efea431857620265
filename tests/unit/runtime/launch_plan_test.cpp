// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <cmath>
#include <doctest/doctest.h>

#include "runtime/launch/launch_plan.h"
#include "test_metadata.h"

using namespace tlx;
using namespace tlx::runtime;

namespace {

void *const kPointer = reinterpret_cast<void *>(uintptr_t(0x1000200030004000));

std::vector<Arg> sampleArgs() {
  return {Arg::ofPointer(kPointer), Arg::ofInt(-16), Arg::ofInt(-2),
          Arg::ofFloat(0.5),        Arg::ofInt(1),   Arg::ofFloat(1.5)};
}

template <typename T> T at(const ParamBuffer &buffer, size_t offset) {
  T value;
  std::memcpy(&value, buffer.bytes + offset, sizeof value);
  return value;
}

struct Sample {
  KernelMetadata metadata = test::sampleMetadata();
  LaunchPlan plan;
  ParamBuffer buffer;
  Sample() { REQUIRE(LaunchPlan::create(metadata, plan).isOk()); }
  Status pack(std::vector<Arg> args, Grid grid = {1, 2, 3}) { return plan.pack(args, grid, buffer); }
};

bool mentions(const Status &status, const char *text) {
  return status.message.find(text) != std::string::npos;
}

} // namespace

TEST_CASE("arguments go where the metadata says, the grid behind them") {
  Sample s;
  REQUIRE(s.pack(sampleArgs()).isOk());
  CHECK(s.buffer.size == 44);
  CHECK(at<uint64_t>(s.buffer, 0) == 0x1000200030004000u);
  CHECK(at<int32_t>(s.buffer, 8) == -16);
  CHECK(at<uint32_t>(s.buffer, 12) == 0); // padding is defined
  CHECK(at<int64_t>(s.buffer, 16) == -2);
  CHECK(at<float>(s.buffer, 24) == 0.5f);
  CHECK(at<uint8_t>(s.buffer, 28) == 1);
  CHECK(at<uint16_t>(s.buffer, 30) == 0x3e00);
  CHECK(at<uint32_t>(s.buffer, 32) == 1);
  CHECK(at<uint32_t>(s.buffer, 36) == 2);
  CHECK(at<uint32_t>(s.buffer, 40) == 3);
}

TEST_CASE("the packed form gives the same bytes and checks the same facts") {
  Sample s;
  REQUIRE(s.pack(sampleArgs()).isOk());
  CHECK(s.plan.userBytes() == 32);
  ParamBuffer again;
  REQUIRE(s.plan.packRaw({s.buffer.bytes, 32}, {1, 2, 3}, again).isOk());
  CHECK(std::memcmp(s.buffer.bytes, again.bytes, 44) == 0);
  CHECK(s.plan.packRaw({s.buffer.bytes, 31}, {1, 2, 3}, again).code == Code::InvalidArgument);
  const int32_t broken = -15;
  std::memcpy(s.buffer.bytes + 8, &broken, 4);
  const Status status = s.plan.packRaw({s.buffer.bytes, 32}, {1, 2, 3}, again);
  CHECK(status.code == Code::Fact);
  CHECK(mentions(status, "n = -15"));
}

TEST_CASE("a broken fact is named with its values") {
  Sample s;
  auto args = sampleArgs();
  args[1] = Arg::ofInt(12);
  Status status = s.pack(args);
  CHECK(status.code == Code::Fact);
  CHECK(mentions(status, "'n % 8 == 0'"));
  CHECK(mentions(status, "n = 12"));
  args = sampleArgs();
  args[0] = Arg::ofPointer(reinterpret_cast<void *>(uintptr_t(0x1008)));
  status = s.pack(args);
  CHECK(status.code == Code::Fact);
  CHECK(mentions(status, "'aligned(x, 16)'"));
  CHECK(mentions(status, "x = 0x1008"));
}

TEST_CASE("number, type and range of arguments") {
  Sample s;
  auto args = sampleArgs();
  args.pop_back();
  Status status = s.pack(args);
  CHECK(status.code == Code::InvalidArgument);
  CHECK(mentions(status, "takes 6 arguments (x: *f16, n: i32"));
  CHECK(mentions(status, "5 were passed"));

  auto with = [&](size_t index, Arg arg) {
    auto list = sampleArgs();
    list[index] = arg;
    return s.pack(list);
  };
  status = with(0, Arg::ofInt(4096));
  CHECK(status.code == Code::InvalidArgument);
  CHECK(mentions(status, "'x' is of type *f16, and an integer was passed"));
  CHECK(mentions(with(1, Arg::ofFloat(1)), "a float was passed"));
  CHECK(mentions(with(3, Arg::ofPointer(kPointer)), "a pointer was passed"));
  CHECK(with(3, Arg::ofInt(3)).isOk()); // an integer is a float
  CHECK(mentions(with(1, Arg::ofInt(int64_t(1) << 31)), "'n': 2147483648 does not fit i32"));
  CHECK(with(1, Arg::ofInt(INT32_MIN)).isOk());
  CHECK(!with(1, Arg::ofInt(int64_t(INT32_MIN) - 8)).isOk());
  CHECK(with(2, Arg::ofInt(INT64_MIN)).isOk());
  CHECK(!with(2, Arg::ofUInt(uint64_t(1) << 63)).isOk());
  CHECK(!with(4, Arg::ofInt(2)).isOk());
  CHECK(!with(4, Arg::ofInt(-1)).isOk());
}

TEST_CASE("unsigned parameters") {
  KernelMetadata m;
  m.name = "u";
  m.paramBytes = 16;
  m.args = {{"a", ArgInfo::Kind::Scalar, "u8", 0, 1}, {"b", ArgInfo::Kind::Scalar, "u64", 8, 8}};
  LaunchPlan plan;
  REQUIRE(LaunchPlan::create(m, plan).isOk());
  ParamBuffer buffer;
  CHECK(plan.pack(std::vector<Arg>{Arg::ofInt(255), Arg::ofUInt(UINT64_MAX)}, {}, buffer).isOk());
  CHECK(at<uint64_t>(buffer, 8) == UINT64_MAX);
  CHECK(!plan.pack(std::vector<Arg>{Arg::ofInt(256), Arg::ofUInt(0)}, {}, buffer).isOk());
  CHECK(!plan.pack(std::vector<Arg>{Arg::ofInt(0), Arg::ofInt(-1)}, {}, buffer).isOk());
}

TEST_CASE("a layout that makes no sense is refused") {
  auto refused = [](auto change) {
    KernelMetadata m = test::sampleMetadata();
    change(m);
    LaunchPlan plan;
    return !LaunchPlan::create(m, plan).isOk();
  };
  CHECK(refused([](KernelMetadata &m) { m.args[1].offset = 6; }));   // not aligned
  CHECK(refused([](KernelMetadata &m) { m.args[1].offset = 4; }));   // overlap
  CHECK(refused([](KernelMetadata &m) { m.args[1].size = 8; }));     // not the type's
  CHECK(refused([](KernelMetadata &m) { m.args[1].type = "i33"; })); // no type
  CHECK(refused([](KernelMetadata &m) { m.paramBytes = 40; }));      // hidden argument outside
  CHECK(refused([](KernelMetadata &m) { m.paramBytes = 5000; }));    // more than a launch can pass
  CHECK(refused([](KernelMetadata &m) { m.facts[0].program[0].value = 6; }));
  CHECK(refused([](KernelMetadata &m) { m.args[0].kind = ArgInfo::Kind::TensorDesc; })); // without a descriptor
}

TEST_CASE("grids") {
  GridLimits limits;
  CHECK(checkGrid({0x7fffffff, 65535, 65535}, limits, 128).isOk());
  CHECK(checkGrid({1, 65536, 1}, limits, 128).code == Code::InvalidArgument);
  CHECK(mentions(checkGrid({0x80000000u, 1, 1}, limits, 128), "grid.x is 2147483648"));
  limits.threads = 0xffffffffu; // HIP
  CHECK(!checkGrid({1u << 25, 1, 1}, limits, 256).isOk());
  CHECK(checkGrid({(1u << 24) - 1, 1, 1}, limits, 256).isOk());
  CHECK(Grid{1, 0, 1}.empty());
}

TEST_CASE("rounding of small floats") {
  CHECK(roundToFloatBits(0, 5, 10) == 0);
  CHECK(roundToFloatBits(-0.0, 5, 10) == 0x8000);
  CHECK(roundToFloatBits(65504, 5, 10) == 0x7bff);
  CHECK(roundToFloatBits(65519.99, 5, 10) == 0x7bff);
  CHECK(roundToFloatBits(65520, 5, 10) == 0x7c00); // to infinity
  CHECK(roundToFloatBits(1e300, 5, 10) == 0x7c00);
  CHECK(roundToFloatBits(0x1p-24, 5, 10) == 1); // least subnormal
  CHECK(roundToFloatBits(0x1p-25, 5, 10) == 0); // ties to even
  CHECK(roundToFloatBits(0x1.8p-24, 5, 10) == 2);
  CHECK(roundToFloatBits(0x1p-14, 5, 10) == 0x400);
  CHECK(roundToFloatBits(0x1.ffcp-15 + 0x1p-25, 5, 10) == 0x400); // a carry from subnormal to normal
  CHECK(roundToFloatBits(1 + 0x1p-11, 5, 10) == 0x3c00);
  CHECK(roundToFloatBits(1 + 3 * 0x1p-11, 5, 10) == 0x3c02);
  CHECK(roundToFloatBits(INFINITY, 8, 7) == 0x7f80);
  CHECK(roundToFloatBits(-INFINITY, 8, 7) == 0xff80);
  CHECK((roundToFloatBits(NAN, 8, 7) & 0x7fff) == 0x7fc0);
  // Against the host for every f32 exponent: bf16 is f32's upper half, rounded.
  for (uint32_t i = 0; i < 0x7f800000u; i += 0x9e3779u) {
    float f;
    std::memcpy(&f, &i, 4);
    const uint32_t expected = (i + 0x7fff + ((i >> 16) & 1)) >> 16;
    CHECK(roundToFloatBits(f, 8, 7) == expected);
  }
}
