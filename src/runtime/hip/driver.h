// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The HIP runtime's functions that we use, by dlopen, with our own declarations (HIP API reference, ROCm 5 to 7),
// grouped by capability as in cuda/driver.h.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/launch/shared_library.h"
#include "runtime/launch/status.h"

namespace tlx::runtime::hip {

using Result = int; // hipError_t
struct ModuleTag;
struct FunctionTag;
struct StreamTag;
struct EventTag;
using Module = ModuleTag *;
using Function = FunctionTag *;
using Stream = StreamTag *;
using Event = EventTag *;

enum : Result { kSuccess = 0, kOutOfMemory = 2, kNoDevice = 100 };
enum : int { kHostToDevice = 1, kDeviceToHost = 2, kDeviceToDevice = 3 }; // hipMemcpyKind

struct Driver {
  struct {
    Result (*init)(unsigned);
    Result (*driverGetVersion)(int *);
    Result (*getDeviceCount)(int *);
    Result (*getDevice)(int *);
    Result (*setDevice)(int);
    // The structure behind the pointer differs between versions: see describe() in device.cpp.
    Result (*getDeviceProperties)(void *, int);
    const char *(*getErrorName)(Result);
    const char *(*getErrorString)(Result);
  } core = {};
  struct {
    Result (*loadData)(Module *, const void *);
    Result (*unload)(Module);
    Result (*getFunction)(Function *, Module, const char *);
    Result (*launchKernel)(Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream,
                           void **, void **);
  } module = {};
  struct {
    Result (*allocate)(void **, size_t);
    Result (*release)(void *);
    Result (*copyAsync)(void *, const void *, size_t, int, Stream);
    Result (*total)(size_t *, int); // optional
  } memory = {};
  struct {
    Result (*create)(Stream *, unsigned);
    Result (*destroy)(Stream);
    Result (*synchronize)(Stream);
  } stream = {};
  struct {
    Result (*create)(Event *);
    Result (*destroy)(Event);
    Result (*record)(Event, Stream);
    Result (*synchronize)(Event);
    Result (*elapsedTime)(float *, Event, Event);
  } event = {};

  std::string missingModule, missingMemory, missingStream, missingEvent;

  /// Loads and initializes the runtime. `path` empty: TLX_HIP_DRIVER, else libamdhip64.so.
  static Status load(const std::string &path, Driver &driver);
  Status check(Result result, const char *what) const;

private:
  SharedLibrary library;
};

} // namespace tlx::runtime::hip
