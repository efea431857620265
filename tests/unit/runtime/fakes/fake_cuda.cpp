// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// libcuda.so.1 for tests: one device of capability 9.0. Events are missing, so that a missing group shows.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "recorder.h"

static thread_local void *currentContext = nullptr;
static void *const kPrimary = reinterpret_cast<void *>(uintptr_t(0xc0));
struct Module {
  int unused;
};
struct Function {
  std::string name;
};

FAKE int cuInit(unsigned) {
  return 0;
}
FAKE int cuDriverGetVersion(int *version) {
  return *version = 12080, 0;
}
FAKE int cuDeviceGetCount(int *count) {
  return *count = 1, 0;
}
FAKE int cuDeviceGet(int *device, int ordinal) {
  return *device = ordinal, 0;
}
FAKE int cuDeviceGetName(char *name, int size, int) {
  return std::snprintf(name, size_t(size), "Fake Hopper"), 0;
}
FAKE int cuDeviceGetAttribute(int *value, int attribute, int) {
  *value = attribute == 75 ? 9 : attribute == 76 ? 0 : attribute == 16 ? 132 : attribute == 97 ? 232448 : 0;
  return 0;
}
FAKE int cuDeviceTotalMem_v2(size_t *bytes, int) {
  return *bytes = size_t(1) << 37, 0;
}
FAKE int cuDevicePrimaryCtxRetain(void **context, int) {
  record("cuDevicePrimaryCtxRetain");
  *context = kPrimary;
  return 0;
}
FAKE int cuDevicePrimaryCtxRelease_v2(int) {
  record("cuDevicePrimaryCtxRelease");
  return 0;
}
FAKE int cuCtxGetCurrent(void **context) {
  return *context = currentContext, 0;
}
FAKE int cuCtxPushCurrent_v2(void *context) {
  record("push");
  currentContext = context;
  return 0;
}
FAKE int cuCtxPopCurrent_v2(void **context) {
  record("pop");
  *context = currentContext;
  currentContext = nullptr;
  return 0;
}
FAKE void fake_make_current() {
  currentContext = kPrimary;
}
FAKE int cuGetErrorName(int error, const char **name) {
  *name = error == 218 ? "CUDA_ERROR_INVALID_PTX" : error == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_FAKE";
  return 0;
}
FAKE int cuGetErrorString(int, const char **text) {
  return *text = "fake error", 0;
}

FAKE int cuModuleLoadDataEx(Module **module, const void *image, unsigned count, int *options, void **values) {
  record("cuModuleLoadDataEx %s", hexBytes(image, 4).c_str());
  if (std::memcmp(image, "BAD", 3) == 0) {
    for (unsigned i = 0; i < count; ++i)
      if (options[i] == 5) std::strcpy(static_cast<char *>(values[i]), "ptxas: line 3: syntax error");
    return 218;
  }
  *module = new Module;
  return 0;
}
FAKE int cuModuleUnload(Module *module) {
  record("cuModuleUnload");
  delete module;
  return 0;
}
FAKE int cuModuleGetFunction(Function **function, Module *, const char *name) {
  record("cuModuleGetFunction %s", name);
  *function = new Function{name};
  return 0;
}
FAKE int cuFuncSetAttribute(Function *, int attribute, int value) {
  record("cuFuncSetAttribute %d %d", attribute, value);
  return 0;
}
/// The bytes of each parameter of the next launches: a driver knows them from the image.
static std::vector<size_t> gParamSizes;
FAKE void fake_param_sizes(const size_t *sizes, size_t count) {
  gParamSizes.assign(sizes, sizes + count);
}
/// From now on launches hang: the second wait of the kernel writes its record, whose address is the last of the parameters, and traps.
static bool gHangs = false;
FAKE void fake_hang() {
  gHangs = true;
}
FAKE void fake_recover() {
  gHangs = false;
}
static void hang(void **extra) {
  const size_t size = *static_cast<size_t *>(extra[3]);
  uint64_t records;
  std::memcpy(&records, static_cast<char *>(extra[1]) + size - 8, 8);
  const uint32_t record[4] = {1u << 31 | 1, 1024 + 2 * 8, 7, 3 | 2u << 16};
  std::memcpy(reinterpret_cast<void *>(uintptr_t(records) + 16), record, 16);
}
FAKE int cuLaunchKernel(Function *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                        unsigned bz, unsigned shared, void *stream, void **params, void **extra) {
  if (gQuiet) return 0;
  if (gHangs) return hang(extra), 0;
  std::string bytes = "none";
  if (extra && uintptr_t(extra[0]) == 1 && uintptr_t(extra[2]) == 2 && extra[4] == nullptr)
    bytes = hexBytes(extra[1], *static_cast<size_t *>(extra[3]));
  for (size_t i = 0; params && i < gParamSizes.size(); ++i)
    bytes = (i ? bytes + " " : "") + hexBytes(params[i], gParamSizes[i]);
  record("cuLaunchKernel %s grid %u %u %u block %u %u %u shared %u stream %p params %s", function->name.c_str(), gx, gy,
         gz, bx, by, bz, shared, stream, params ? "array" : "null");
  record("bytes %s", bytes.c_str());
  return 0;
}
// The map's bytes are the address again and again; nothing of what a driver checks is checked.
FAKE int cuTensorMapEncodeTiled(void *map, int type, uint32_t rank, void *address, const uint64_t *shape,
                                const uint64_t *strides, const uint32_t *box, const uint32_t *elementStrides,
                                int interleave, int swizzle, int promotion, int fill) {
  if (uintptr_t(map) % 64 != 0 || uintptr_t(address) == 0xbad0000) return 1;
  for (size_t i = 0; i < 128; i += 8) std::memcpy(static_cast<char *>(map) + i, &address, 8);
  if (gQuiet) return 0;
  std::string shapes, stride, boxes, steps;
  for (uint32_t d = 0; d < rank; ++d) {
    shapes += " " + std::to_string(shape[d]);
    if (d + 1 < rank) stride += " " + std::to_string(strides[d]);
    boxes += " " + std::to_string(box[d]);
    steps += " " + std::to_string(elementStrides[d]);
  }
  record("cuTensorMapEncodeTiled type %d rank %u shape%s strides%s box%s steps%s interleave %d swizzle %d promotion %d "
         "fill %d",
         type, rank, shapes.c_str(), stride.c_str(), boxes.c_str(), steps.c_str(), interleave, swizzle, promotion,
         fill);
  return 0;
}
FAKE int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
  if (bytes > (size_t(1) << 40)) return 2;
  *address = uint64_t(uintptr_t(std::aligned_alloc(256, (bytes + 255) / 256 * 256)));
  return 0;
}
FAKE int cuMemFree_v2(uint64_t address) {
  return std::free(reinterpret_cast<void *>(uintptr_t(address))), 0;
}
FAKE int cuMemHostAlloc(void **memory, size_t bytes, unsigned flags) {
  record("cuMemHostAlloc %zu flags %u", bytes, flags);
  return *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256), 0;
}
FAKE int cuMemFreeHost(void *memory) {
  record("cuMemFreeHost");
  return std::free(memory), 0;
}
FAKE int cuMemHostGetDevicePointer_v2(uint64_t *address, void *memory, unsigned) {
  return *address = uint64_t(uintptr_t(memory)), 0;
}
FAKE int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *) {
  return std::memcpy(reinterpret_cast<void *>(uintptr_t(to)), from, bytes), 0;
}
FAKE int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *) {
  return std::memcpy(to, reinterpret_cast<void *>(uintptr_t(from)), bytes), 0;
}
FAKE int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *) {
  return std::memcpy(reinterpret_cast<void *>(uintptr_t(to)), reinterpret_cast<void *>(uintptr_t(from)), bytes), 0;
}
FAKE int cuStreamCreate(void **stream, unsigned) {
  return *stream = reinterpret_cast<void *>(uintptr_t(0x51)), 0;
}
FAKE int cuStreamDestroy_v2(void *) {
  return 0;
}
FAKE int cuStreamSynchronize(void *) {
  return gHangs ? 719 : 0;
}
