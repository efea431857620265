// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The CUDA driver's functions that we use, by dlopen, with our own declarations (CUDA Driver API reference, 12.x; the
// names with _v2 are what its header maps the plain ones to). Grouped by capability: a group that an old or partial
// driver lacks turns one feature off and leaves the others.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/launch/shared_library.h"
#include "runtime/launch/status.h"

namespace tlx::runtime::cuda {

using Result = int; // CUresult
using DeviceHandle = int;
using Pointer = uint64_t; // CUdeviceptr
struct ContextTag;
struct ModuleTag;
struct FunctionTag;
struct StreamTag;
struct EventTag;
using Context = ContextTag *;
using Module = ModuleTag *;
using Function = FunctionTag *;
using Stream = StreamTag *;
using Event = EventTag *;

enum : Result {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kDeinitialized = 4, // the driver is shutting down
  kNoDevice = 100,
  kInvalidImage = 200,
  kNoBinaryForGpu = 209,
  kInvalidPtx = 218,
  kUnsupportedPtxVersion = 222,
};

// CUdevice_attribute
enum : int {
  kMaxGridDimX = 5,
  kMultiprocessorCount = 16,
  kComputeCapabilityMajor = 75,
  kComputeCapabilityMinor = 76,
  kMaxSharedMemoryPerBlockOptin = 97,
};
// CUfunction_attribute
enum : int { kMaxDynamicSharedSize = 8 };
// CUjit_option
enum : int { kJitInfoLogBuffer = 3, kJitInfoLogBufferSize = 4, kJitErrorLogBuffer = 5, kJitErrorLogBufferSize = 6 };

// CUtensorMapDataType
enum : int {
  kMapUint8 = 0,
  kMapUint16 = 1,
  kMapUint32 = 2,
  kMapInt32 = 3,
  kMapUint64 = 4,
  kMapInt64 = 5,
  kMapFloat16 = 6,
  kMapFloat32 = 7,
  kMapFloat64 = 8,
  kMapBfloat16 = 9
};
// CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill
enum : int { kMapInterleaveNone = 0, kMapSwizzleNone = 0, kMapSwizzle32 = 1, kMapSwizzle64 = 2, kMapSwizzle128 = 3 };
enum : int { kMapPromotion256 = 3, kMapFillZeros = 0 };

struct Driver {
  // Initialization, devices, the primary context.
  struct {
    Result (*init)(unsigned);
    Result (*driverGetVersion)(int *);
    Result (*deviceGetCount)(int *);
    Result (*deviceGet)(DeviceHandle *, int);
    Result (*deviceGetName)(char *, int, DeviceHandle);
    Result (*deviceGetAttribute)(int *, int, DeviceHandle);
    Result (*deviceTotalMem)(size_t *, DeviceHandle);
    Result (*primaryContextRetain)(Context *, DeviceHandle);
    Result (*primaryContextRelease)(DeviceHandle);
    Result (*contextGetCurrent)(Context *);
    Result (*contextPush)(Context);
    Result (*contextPop)(Context *);
    Result (*getErrorName)(Result, const char **);
    Result (*getErrorString)(Result, const char **);
  } core = {};
  // Modules and launches.
  struct {
    Result (*moduleLoadDataEx)(Module *, const void *, unsigned, int *, void **);
    Result (*moduleUnload)(Module);
    Result (*moduleGetFunction)(Function *, Module, const char *);
    Result (*functionSetAttribute)(Function, int, int);
    Result (*launchKernel)(Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream,
                           void **, void **);
  } module = {};
  struct {
    Result (*allocate)(Pointer *, size_t);
    Result (*release)(Pointer);
    Result (*copyHostToDevice)(Pointer, const void *, size_t, Stream);
    Result (*copyDeviceToHost)(void *, Pointer, size_t, Stream);
    Result (*copyDeviceToDevice)(Pointer, Pointer, size_t, Stream);
  } memory = {};
  // Memory of the host that kernels write.
  struct {
    Result (*allocate)(void **, size_t, unsigned);
    Result (*release)(void *);
    Result (*devicePointer)(Pointer *, void *, unsigned);
  } host = {};
  struct {
    Result (*create)(Stream *, unsigned);
    Result (*destroy)(Stream);
    Result (*synchronize)(Stream);
  } stream = {};
  struct {
    Result (*create)(Event *, unsigned);
    Result (*destroy)(Event);
    Result (*record)(Event, Stream);
    Result (*synchronize)(Event);
    Result (*elapsedTime)(float *, Event, Event);
  } event = {};
  struct {
    // (map, type, rank, address, shape, strides, box, element strides, interleave, swizzle, L2 promotion, fill)
    Result (*encodeTiled)(void *, int, uint32_t, void *, const uint64_t *, const uint64_t *, const uint32_t *,
                          const uint32_t *, int, int, int, int);
  } tensorMap = {};

  // What a group lacks; empty: it can be used.
  std::string missingModule, missingMemory, missingHost, missingStream, missingEvent, missingTensorMap;

  /// Loads and initializes the driver. `path` empty: TLX_CUDA_DRIVER, else libcuda.so.1.
  static Status load(const std::string &path, Driver &driver);
  Status check(Result result, const char *what) const;

private:
  SharedLibrary library;
};

} // namespace tlx::runtime::cuda
