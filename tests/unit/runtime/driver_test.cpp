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
