// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// libamdhip64.so for tests: one gfx942, memory of the host, launches recorded with the bytes of their arguments.
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "recorder.h"

static thread_local int currentDevice = 0;
struct Module {
  std::string image;
};
struct Function {
  std::string name;
};

FAKE int hipInit(unsigned) {
  return 0;
}
FAKE int hipDriverGetVersion(int *version) {
  return *version = 60300000, 0;
}
FAKE int hipGetDeviceCount(int *count) {
  return *count = 2, 0;
}
FAKE int hipGetDevice(int *device) {
  return *device = currentDevice, 0;
}
FAKE int hipSetDevice(int device) {
  record("hipSetDevice %d", device);
  currentDevice = device;
  return 0;
}
// The members that are read, where ROCm 6.3 has them or near: the name at 0, the architecture's name behind 1 KB.
FAKE int hipGetDevicePropertiesR0600(void *properties, int device) {
  std::strcpy(static_cast<char *>(properties), "Fake Instinct");
  std::strcpy(static_cast<char *>(properties) + 1160,
              device == 0 ? "gfx942:sramecc+:xnack-" : "gfx950:sramecc+:xnack-");
  return 0;
}
FAKE const char *hipGetErrorName(int error) {
  return error == 2 ? "hipErrorOutOfMemory" : "hipErrorFake";
}
FAKE const char *hipGetErrorString(int) {
  return "fake error";
}
FAKE int hipDeviceTotalMem(size_t *bytes, int) {
  return *bytes = size_t(1) << 30, 0;
}

FAKE int hipModuleLoadData(Module **module, const void *image) {
  record("hipModuleLoadData %s", hexBytes(image, 4).c_str());
  if (std::memcmp(image, "BAD", 3) == 0) return 200;
  *module = new Module{std::string(static_cast<const char *>(image), 4)};
  return 0;
}
FAKE int hipModuleUnload(Module *module) {
  record("hipModuleUnload");
  delete module;
  return 0;
}
FAKE int hipModuleGetFunction(Function **function, Module *, const char *name) {
  record("hipModuleGetFunction %s", name);
  *function = new Function{name}; // leaked: the test is short
  return 0;
}
FAKE int hipModuleLaunchKernel(Function *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                               unsigned bz, unsigned shared, void *stream, void **params, void **extra) {
  std::string bytes = "none";
  if (extra && uintptr_t(extra[0]) == 1 && uintptr_t(extra[2]) == 2 && uintptr_t(extra[4]) == 3)
    bytes = hexBytes(extra[1], *static_cast<size_t *>(extra[3]));
  record("hipModuleLaunchKernel %s grid %u %u %u block %u %u %u shared %u stream %p params %s", function->name.c_str(),
         gx, gy, gz, bx, by, bz, shared, stream, params ? "array" : "null");
  record("bytes %s", bytes.c_str());
  return 0;
}

FAKE int hipMalloc(void **address, size_t bytes) {
  if (bytes > (size_t(1) << 40)) return 2;
  *address = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  return *address ? 0 : 2;
}
FAKE int hipFree(void *address) {
  return std::free(address), 0;
}
FAKE int hipMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream) {
  record("hipMemcpyAsync kind %d bytes %zu stream %p", kind, bytes, stream);
  std::memcpy(to, from, bytes);
  return 0;
}
FAKE int hipStreamCreateWithFlags(void **stream, unsigned flags) {
  record("hipStreamCreateWithFlags %u", flags);
  *stream = reinterpret_cast<void *>(uintptr_t(0x50));
  return 0;
}
FAKE int hipStreamDestroy(void *) {
  return 0;
}
FAKE int hipStreamSynchronize(void *stream) {
  record("hipStreamSynchronize %p", stream);
  return 0;
}
FAKE int hipEventCreate(void **event) {
  return *event = std::malloc(1), 0;
}
FAKE int hipEventDestroy(void *event) {
  return std::free(event), 0;
}
FAKE int hipEventRecord(void *, void *) {
  return 0;
}
FAKE int hipEventSynchronize(void *) {
  return 0;
}
FAKE int hipEventElapsedTime(float *ms, void *, void *) {
  return *ms = 0.25f, 0;
}
