// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The HIP and CUDA paths on recording drivers (fakes/): which calls are made, in which order, with which bytes.
#include <cstdlib>
#include <dlfcn.h>
#include <doctest/doctest.h>

#include "runtime/cuda/device.h"
#include "runtime/hip/device.h"
#include "runtime/launch/kernel.h"
#include "test_metadata.h"

using namespace tlx;
using namespace tlx::runtime;

namespace {

const std::string kFakeHip = TLX_TEST_FAKES "/libfake_amdhip64.so", kFakeCuda = TLX_TEST_FAKES "/libfake_cuda.so";

/// The same copy of the fake that the library has loaded.
class Fake {
public:
  explicit Fake(const std::string &path) : handle(dlopen(path.c_str(), RTLD_NOW)) {
    REQUIRE(handle);
    call("fake_reset");
  }
  void call(const char *name) { reinterpret_cast<void (*)()>(dlsym(handle, name))(); }
  void paramSizes(const std::vector<size_t> &sizes) {
    reinterpret_cast<void (*)(const size_t *, size_t)>(dlsym(handle, "fake_param_sizes"))(sizes.data(), sizes.size());
  }
  std::string log() {
    std::string text = reinterpret_cast<const char *(*)()>(dlsym(handle, "fake_log"))();
    call("fake_reset");
    return text;
  }

private:
  void *handle;
};

Binary image(Binary::Kind kind, const char *text) {
  Binary binary = test::sampleBinary(kind);
  binary.image.assign(text, text + std::strlen(text) + 1);
  return binary;
}

void *const kPointer = reinterpret_cast<void *>(uintptr_t(0x1122334455667700));
const std::vector<Arg> kArgs = {Arg::ofPointer(kPointer), Arg::ofInt(16), Arg::ofInt(-2),
                                Arg::ofFloat(0.5),        Arg::ofInt(1),  Arg::ofFloat(1.5)};
const char *const kBytes = "bytes "
                           "0077665544332211" // x
                           "10000000"
                           "00000000"         // n, padding
                           "feffffffffffffff" // s
                           "0000003f"
                           "01"
                           "00"
                           "003e"                        // scale, flag, padding, half
                           "050000000600000007000000\n"; // grid

} // namespace

TEST_CASE("HIP: load, launch with packed arguments, unload") {
  Fake fake(kFakeHip);
  std::shared_ptr<Device> device;
  REQUIRE(hip::open(kFakeHip, 0, device).isOk());
  CHECK(device->info().id == "hip:0");
  CHECK(device->info().name == "Fake Instinct");
  CHECK(device->info().architecture == "gfx942");
  CHECK(device->info().memoryBytes == size_t(1) << 30);

  Binary binary = image(Binary::Kind::Hsaco, "\x7f"
                                             "ELF");
  binary.metadata.target = "gfx942";
  binary.metadata.warpSize = 64;
  std::shared_ptr<Kernel> kernel;
  REQUIRE(Kernel::create(std::move(binary), kernel).isOk());
  fake.call("fake_reset");
  REQUIRE(kernel->prepare(*device).isOk());
  CHECK(fake.log() == "hipModuleLoadData 7f454c46\nhipModuleGetFunction f_symbol\n");

  void *const stream = reinterpret_cast<void *>(uintptr_t(0x77));
  REQUIRE(kernel->launch(*device, {5, 6, 7}, kArgs, stream, {}, nullptr).isOk());
  // One driver call, nothing else: prepared kernels can be captured.
  CHECK(fake.log() == "hipModuleLaunchKernel f_symbol grid 5 6 7 block 256 1 1 shared 0 stream 0x77 params null\n" +
                          std::string(kBytes));

  REQUIRE(kernel->launch(*device, {0, 6, 7}, kArgs, stream, {}, nullptr).isOk());
  CHECK(fake.log() == ""); // an empty grid launches nothing
  CHECK(kernel->launch(*device, {5, 65536, 7}, kArgs, stream, {}, nullptr).code == Code::InvalidArgument);
  CHECK(kernel->launch(*device, {1u << 24, 1, 1}, kArgs, stream, {}, nullptr).code == Code::InvalidArgument);
  CHECK(fake.log() == "");

  double times[3] = {};
  REQUIRE(kernel->time(*device, {5, 6, 7}, kArgs, stream, {}, 1, times).isOk());
  CHECK(times[2] == 0.25);
  fake.call("fake_reset");
  kernel.reset();
  CHECK(fake.log() == "hipModuleUnload\n");
}

TEST_CASE("HIP: a second device is made current for each call and the caller's put back") {
  Fake fake(kFakeHip);
  std::shared_ptr<Device> device;
  REQUIRE(hip::open(kFakeHip, 1, device).isOk());
  CHECK(device->info().architecture == "gfx950");
  void *address = nullptr;
  REQUIRE(device->allocate(16, &address).isOk());
  CHECK(fake.log() == "hipSetDevice 1\nhipSetDevice 0\n");
  const char in[4] = {1, 2, 3, 4};
  char out[4] = {};
  REQUIRE(device->copyIn(address, in, 4, nullptr).isOk());
  REQUIRE(device->copyOut(out, address, 4, nullptr).isOk());
  CHECK(std::memcmp(in, out, 4) == 0);
  CHECK(fake.log().find("hipMemcpyAsync kind 1 bytes 4 stream (nil)\n") != std::string::npos);
  CHECK(device->release(address).isOk());
}

TEST_CASE("HIP: errors become statuses") {
  Fake fake(kFakeHip);
  std::shared_ptr<Device> device;
  CHECK(hip::open(kFakeHip, 2, device).code == Code::NotFound);
  REQUIRE(hip::open(kFakeHip, 0, device).isOk());
  void *address = nullptr;
  const Status memory = device->allocate(size_t(1) << 41, &address);
  CHECK(memory.code == Code::OutOfMemory);
  CHECK(memory.message.find("hipErrorOutOfMemory") != std::string::npos);
  std::shared_ptr<LoadedKernel> loaded;
  CHECK(device->load(image(Binary::Kind::Hsaco, "BAD!"), loaded).code == Code::Driver);
  CHECK(device->load(image(Binary::Kind::Cubin, "abcd"), loaded).code == Code::InvalidArgument);
}

TEST_CASE("a missing driver is a status") {
  std::vector<DeviceInfo> devices;
  Status status = hip::enumerate("/nonexistent/libamdhip64.so", devices);
  CHECK(status.code == Code::NoDriver);
  CHECK(status.message.find("/nonexistent") != std::string::npos);
  CHECK(cuda::enumerate("/nonexistent/libcuda.so", devices).code == Code::NoDriver);
  // A library that is not a driver.
  status = cuda::enumerate(kFakeHip, devices);
  CHECK(status.code == Code::NoDriver);
  CHECK(status.message.find("cuInit") != std::string::npos);
  CHECK(devices.empty());
}

TEST_CASE("the environment overrides the driver's path") {
  setenv("TLX_HIP_DRIVER", kFakeHip.c_str(), 1);
  setenv("TLX_CUDA_DRIVER", kFakeCuda.c_str(), 1);
  std::vector<DeviceInfo> devices;
  CHECK(hip::enumerate("", devices).isOk());
  CHECK(cuda::enumerate("", devices).isOk());
  unsetenv("TLX_HIP_DRIVER");
  unsetenv("TLX_CUDA_DRIVER");
  REQUIRE(devices.size() == 3);
  CHECK(devices[2].id == "cuda:0");
  CHECK(devices[2].architecture == "sm_90");
  CHECK(devices[2].multiprocessors == 132);
}

TEST_CASE("CUDA: shared memory above 48 KB is asked for, arguments are packed") {
  Fake fake(kFakeCuda);
  {
    std::shared_ptr<Device> device;
    REQUIRE(cuda::open(kFakeCuda, 0, device).isOk());
    Binary binary = image(Binary::Kind::Cubin, "\x7f"
                                               "ELF");
    binary.metadata.sharedBytes = 100 << 10;
    std::shared_ptr<Kernel> kernel;
    REQUIRE(Kernel::create(std::move(binary), kernel).isOk());
    fake.call("fake_reset");
    REQUIRE(kernel->launch(*device, {5, 6, 7}, kArgs, nullptr, {}, nullptr).isOk());
    CHECK(fake.log() ==
          "push\ncuModuleLoadDataEx 7f454c46\ncuModuleGetFunction f_symbol\ncuFuncSetAttribute 8 102400\npop\n"
          "push\ncuLaunchKernel f_symbol grid 5 6 7 block 128 1 1 shared 102400 stream (nil) params null\n" +
              std::string(kBytes) + "pop\n");
    fake.call("fake_make_current"); // as in a process that uses the CUDA runtime
    REQUIRE(kernel->launch(*device, {5, 6, 7}, kArgs, nullptr, {}, nullptr).isOk());
    CHECK(fake.log().rfind("cuLaunchKernel", 0) == 0);
    // This fake has no events: that turns timing off, and nothing else.
    double time[1];
    CHECK(kernel->time(*device, {1, 1, 1}, kArgs, nullptr, {}, 0, time).code == Code::Unsupported);
    fake.call("fake_reset");
  }
  CHECK(fake.log() == "cuModuleUnload\ncuDevicePrimaryCtxRelease\n");
}

namespace {

/// g(m: i32, a: tensor_desc<f16, [128, 64]>, n: i32) on the fake.
/// What a map has behind it if the kernel stores through it.
void addFields(KernelMetadata &m) {
  m.args[1].size = 152;
  m.args[1].descriptor->pointerOffset = 192;
  m.args[1].descriptor->strideOffsets = {200};
  m.args[1].descriptor->shapeOffsets = {208, 212};
  m.args[2].offset = 216, m.paramBytes = 220;
}
struct TensorKernel {
  std::shared_ptr<Device> device;
  std::shared_ptr<Kernel> kernel;
  explicit TensorKernel(bool tensorMap, bool stored = false) {
    REQUIRE(cuda::open(kFakeCuda, 0, device).isOk());
    Binary binary = image(Binary::Kind::Cubin, "cubin");
    binary.metadata = test::tensorMetadata(tensorMap);
    if (stored) addFields(binary.metadata);
    REQUIRE(Kernel::create(std::move(binary), kernel).isOk());
  }
  Status launch(const Tensor &tensor) {
    const Arg args[] = {Arg::ofInt(7), Arg::ofTensor(&tensor), Arg::ofInt(9)};
    return kernel->launch(*device, {1, 1, 1}, args, nullptr, {}, nullptr);
  }
};

Tensor sampleTensor() {
  return {reinterpret_cast<void *>(uintptr_t(0x7f0000001100)), Element::F16, 2, {200, 120}, {128, 1}};
}

const std::string kEncoded =
    "cuTensorMapEncodeTiled type 6 rank 2 shape 120 200 strides 256 box 64 128 steps 1 1 interleave 0 swizzle "
    "3 promotion 3 fill 0\n";
const std::string kLaunched = "cuLaunchKernel g_symbol grid 1 1 1 block 128 1 1 shared 0 stream (nil) params ";

/// Each parameter by itself (the driver places a map), with this address (16 digits, as in memory) for a map.
std::string arrayWith(const std::string &address) {
  std::string text = kLaunched + "array\nbytes 07000000 ";
  for (int i = 0; i < 16; ++i) text += address;
  return text + " 09000000\n";
}

} // namespace

TEST_CASE("CUDA: tensor maps are encoded with the kernel's box and swizzle, once") {
  Fake fake(kFakeCuda);
  fake.call("fake_make_current");
  fake.paramSizes({4, 128, 4});
  TensorKernel k(true);
  REQUIRE(k.kernel->prepare(*k.device).isOk());
  fake.call("fake_reset");
  Tensor tensor = sampleTensor();
  REQUIRE(k.launch(tensor).isOk());
  CHECK(fake.log() == kEncoded + arrayWith("00110000007f0000"));
  REQUIRE(k.launch(tensor).isOk());
  CHECK(fake.log() == arrayWith("00110000007f0000")); // nothing but the launch
  tensor.strides[0] = 136;
  REQUIRE(k.launch(tensor).isOk());
  CHECK(fake.log().find("strides 272 box") != std::string::npos);

  // Packed: the map as the device makes it.
  std::vector<uint8_t> packed(k.kernel->plan().userBytes(), 0);
  REQUIRE(packed.size() == 196);
  packed[0] = 7, packed[192] = 9;
  REQUIRE(k.kernel->encodeTensor(*k.device, 1, sampleTensor(), {packed.data() + 64, 128}).isOk());
  CHECK(fake.log() == kEncoded);
  REQUIRE(k.kernel->launchPacked(*k.device, {1, 1, 1}, packed, nullptr, {}, nullptr).isOk());
  CHECK(fake.log() == arrayWith("00110000007f0000"));

  // What the driver refuses is reported with the argument, and not used again.
  tensor.data = reinterpret_cast<void *>(uintptr_t(0xbad0000));
  const Status status = k.launch(tensor);
  CHECK(status.code == Code::Driver);
  CHECK(status.message.find("argument 'a' of type tensor_desc<f16, [128, 64]>: cuTensorMapEncodeTiled: ") == 0);
  CHECK(k.launch(tensor).code == Code::Driver);
}

TEST_CASE("CUDA: element types of tensor maps") {
  Fake fake(kFakeCuda);
  const std::pair<Element, int> types[] = {
      {Element::I1, 0},         {Element::I8, 0},         {Element::U8, 0},  {Element::F8E4M3, 0}, {Element::F8E5M2, 0},
      {Element::F8E4M3Fnuz, 0}, {Element::F8E5M2Fnuz, 0}, {Element::I16, 1}, {Element::U16, 1},    {Element::U32, 2},
      {Element::I32, 3},        {Element::U64, 4},        {Element::I64, 5}, {Element::F16, 6},    {Element::F32, 7},
      {Element::F64, 8},        {Element::BF16, 9}};
  CHECK(std::size(types) == size_t(Element::F64));
  for (const auto &[element, type] : types)
    for (const unsigned swizzle : {0u, 32u, 64u, 128u}) {
      CAPTURE(elementName(element));
      Binary binary = image(Binary::Kind::Cubin, "cubin");
      binary.metadata = test::tensorMetadata(true);
      DescriptorInfo &info = *binary.metadata.args[1].descriptor;
      info.element = elementName(element);
      info.box = {8, 32 / elementBytes(element)};
      info.swizzle = swizzle;
      std::shared_ptr<Kernel> kernel;
      REQUIRE(Kernel::create(std::move(binary), kernel).isOk());
      std::shared_ptr<Device> device;
      REQUIRE(cuda::open(kFakeCuda, 0, device).isOk());
      fake.call("fake_reset");
      Tensor tensor = sampleTensor();
      tensor.element = element;
      uint8_t map[128];
      REQUIRE(kernel->encodeTensor(*device, 1, tensor, map).isOk());
      const std::string log = fake.log();
      CHECK(log.find("type " + std::to_string(type) + " rank 2") != std::string::npos);
      CHECK(log.find("strides " + std::to_string(128 * elementBytes(element)) + " box " +
                     std::to_string(32 / elementBytes(element)) + " 8 ") != std::string::npos);
      const int code = swizzle == 0 ? 0 : swizzle == 32 ? 1 : swizzle == 64 ? 2 : 3;
      CHECK(log.find("swizzle " + std::to_string(code) + " ") != std::string::npos);
    }
}

/// Where the maps of two empty tensors lie, which a kernel stores to or only loads from.
static std::array<uint64_t, 2> emptyTensors(bool stored) {
  Fake fake(kFakeCuda);
  fake.call("fake_make_current");
  if (stored) fake.paramSizes({4, 128, 8, 8, 4, 4, 4});
  TensorKernel k(true, stored);
  Tensor tensor = sampleTensor();
  tensor.shape[0] = 0, tensor.data = nullptr;
  std::array<uint64_t, 2> first{};
  for (int i = 0; i < 2; ++i) {
    alignas(64) uint8_t map[152];
    fake.call("fake_reset");
    tensor.shape[1] = 120 + 8 * i; // another tensor: another map
    const Status status = k.kernel->encodeTensor(*k.device, 1, tensor, {map, stored ? 152u : 128u});
    REQUIRE_MESSAGE(status.isOk(), status.message);
    CHECK(fake.log() == "cuTensorMapEncodeTiled type 6 rank 2 shape 1 1 strides " + std::string(i ? "256" : "240") +
                            " box 64 128 steps 1 1 interleave 0 swizzle 3 promotion 3 fill 0\n");
    std::memcpy(&first[i], map, 8);
    REQUIRE(first[i] % 16 == 0);
    REQUIRE(first[i] != 0);
    uint64_t zero = 1;
    std::memcpy(&zero, reinterpret_cast<void *>(uintptr_t(first[i])), 8); // memory of the fake is the host's
    CHECK(zero == 0);
  }
  return first;
}

TEST_CASE("CUDA: an empty tensor is a map over a zero of the device's, which no other tensor's store reaches") {
  const auto stored = emptyTensors(true), loaded = emptyTensors(false);
  CHECK(stored[0] != stored[1]);
  CHECK(loaded[0] == loaded[1]);
}

TEST_CASE("CUDA: descriptors as fields need no map") {
  Fake fake(kFakeCuda);
  fake.call("fake_make_current");
  TensorKernel k(false);
  REQUIRE(k.kernel->prepare(*k.device).isOk());
  fake.call("fake_reset");
  REQUIRE(k.launch(sampleTensor()).isOk());
  CHECK(fake.log() == kLaunched + "null\nbytes 0700000000000000" // m, padding
                                  "00110000007f0000"
                                  "8000000000000000"
                                  "c8000000"
                                  "78000000"
                                  "09000000\n");
}

TEST_CASE("CUDA: a map with fields behind it, as kernels that store through it need") {
  Fake fake(kFakeCuda);
  fake.call("fake_make_current");
  fake.paramSizes({4, 128, 8, 8, 4, 4, 4});
  Binary binary = image(Binary::Kind::Cubin, "cubin");
  KernelMetadata &m = binary.metadata = test::tensorMetadata(true);
  addFields(m);
  std::string error;
  const auto read = metadataFromJson(toJson(m), error);
  REQUIRE_MESSAGE(read, error);
  CHECK(*read->args[1].descriptor == *m.args[1].descriptor);

  std::shared_ptr<Device> device;
  std::shared_ptr<Kernel> kernel;
  REQUIRE(cuda::open(kFakeCuda, 0, device).isOk());
  REQUIRE(Kernel::create(std::move(binary), kernel).isOk());
  REQUIRE(kernel->prepare(*device).isOk());
  std::string map;
  for (int i = 0; i < 16; ++i) map += "00110000007f0000";
  const std::string launched =
      kLaunched + "array\nbytes 07000000 " + map + " 00110000007f0000 8000000000000000 c8000000 78000000 09000000\n";
  const Tensor tensor = sampleTensor();
  const Arg args[] = {Arg::ofInt(7), Arg::ofTensor(&tensor), Arg::ofInt(9)};
  for (int i = 0; i < 2; ++i) { // the second time from the last map
    fake.call("fake_reset");
    REQUIRE(kernel->launch(*device, {1, 1, 1}, args, nullptr, {}, nullptr).isOk());
    CHECK(fake.log() == (i ? "" : kEncoded) + launched);
  }
  std::vector<uint8_t> packed(kernel->plan().userBytes(), 0);
  REQUIRE(packed.size() == 220);
  packed[0] = 7, packed[216] = 9;
  REQUIRE(kernel->encodeTensor(*device, 1, tensor, {packed.data() + 64, 152}).isOk());
  fake.call("fake_reset");
  REQUIRE(kernel->launchPacked(*device, {1, 1, 1}, packed, nullptr, {}, nullptr).isOk());
  CHECK(fake.log() == launched);

  auto refused = [](auto change) {
    KernelMetadata bad = test::tensorMetadata(true);
    bad.args[1].size = 152;
    bad.args[1].descriptor->pointerOffset = 192;
    bad.args[1].descriptor->strideOffsets = {200};
    bad.args[1].descriptor->shapeOffsets = {208, 212};
    bad.args[2].offset = 216, bad.paramBytes = 220;
    LaunchPlan plan;
    REQUIRE(LaunchPlan::create(bad, plan).isOk());
    change(bad.args[1], *bad.args[1].descriptor);
    return LaunchPlan::create(bad, plan).code == Code::Internal;
  };
  CHECK(refused([](ArgInfo &, DescriptorInfo &d) { d.pointerOffset = 184; })); // inside the map
  CHECK(refused([](ArgInfo &, DescriptorInfo &d) { d.pointerOffset = 196; })); // not aligned
  CHECK(refused([](ArgInfo &, DescriptorInfo &d) { d.shapeOffsets.pop_back(); }));
  CHECK(refused([](ArgInfo &a, DescriptorInfo &) { a.size = 128; }));
}

TEST_CASE("HIP: no tensor maps") {
  Fake fake(kFakeHip);
  std::shared_ptr<Device> device;
  REQUIRE(hip::open(kFakeHip, 0, device).isOk());
  Binary binary = image(Binary::Kind::Hsaco, "hsaco");
  binary.metadata = test::tensorMetadata(true);
  std::shared_ptr<Kernel> kernel;
  REQUIRE(Kernel::create(std::move(binary), kernel).isOk());
  uint8_t map[128];
  const Status status = kernel->encodeTensor(*device, 1, sampleTensor(), map);
  CHECK(status.code == Code::Unsupported);
  CHECK(status.message.find("hip:0 has no tensor maps") != std::string::npos);
}

TEST_CASE("CUDA: a wait that gave up is named by the error of the next call") {
  Fake fake(kFakeCuda);
  std::shared_ptr<Device> device;
  REQUIRE(cuda::open(kFakeCuda, 0, device).isOk());
  Binary binary = image(Binary::Kind::Cubin, "cubin");
  KernelMetadata &m = binary.metadata;
  m.hidden.push_back({HiddenArg::Kind::WaitRecord, 48, 8});
  m.paramBytes = 56;
  m.debugTimeout = 250000;
  m.waits = {{"the kernel", "x", "k.tlx:3", 512, 1}, {"task 'consumer' (replica 1)", "full", "k.tlx:31", 1024, 3}};
  std::string error;
  const auto again = metadataFromJson(toJson(m), error);
  REQUIRE(again);
  CHECK(again->waits == m.waits);
  CHECK(again->debugTimeout == 250000);
  std::shared_ptr<Kernel> kernel;
  REQUIRE(Kernel::create(std::move(binary), kernel).isOk());
  fake.call("fake_reset");
  REQUIRE(kernel->prepare(*device).isOk());
  CHECK(fake.log().find("cuMemHostAlloc 32 flags 2\n") != std::string::npos);
  REQUIRE(kernel->launch(*device, {1, 1, 1}, kArgs, nullptr, {}, nullptr).isOk());
  CHECK(device->synchronize(nullptr).isOk());
  CHECK(fake.log().find("0000000000000000\npop") == std::string::npos); // an address, not 0
  fake.call("fake_hang");
  REQUIRE(kernel->launch(*device, {1, 1, 1}, kArgs, nullptr, {}, nullptr).isOk());
  const Status status = device->synchronize(nullptr);
  CHECK(status.code == Code::Driver);
  CHECK(status.message ==
        "task 'consumer' (replica 1) of program (7, 3, 2) waited 250 ms for full[2], phase 1, k.tlx:31\n"
        "cuStreamSynchronize: CUDA_ERROR_FAKE (fake error)");
  kernel.reset();
  CHECK(fake.log().find("cuModuleUnload\ncuMemFreeHost\n") != std::string::npos);
  fake.call("fake_recover");
}

TEST_CASE("CUDA: errors become statuses, with the assembler's log") {
  Fake fake(kFakeCuda);
  std::shared_ptr<Device> device;
  REQUIRE(cuda::open(kFakeCuda, 0, device).isOk());
  std::shared_ptr<LoadedKernel> loaded;
  const Status status = device->load(image(Binary::Kind::Ptx, "BAD ptx"), loaded);
  CHECK(status.code == Code::Driver);
  CHECK(status.message.find("CUDA_ERROR_INVALID_PTX") != std::string::npos);
  CHECK(status.message.find("ptxas: line 3: syntax error") != std::string::npos);
  Binary large = image(Binary::Kind::Cubin, "abcd");
  large.metadata.sharedBytes = 300 << 10;
  CHECK(device->load(large, loaded).code == Code::Unsupported);
  CHECK(cuda::open(kFakeCuda, 1, device).code == Code::NotFound);
}
