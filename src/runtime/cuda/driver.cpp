// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See driver.h.
#include "runtime/cuda/driver.h"

#include <cstdlib>

namespace tlx::runtime::cuda {

Status Driver::load(const std::string &path, Driver &driver) {
  driver = Driver();
  const char *fromEnvironment = std::getenv("TLX_CUDA_DRIVER");
  const std::string file = !path.empty()                         ? path
                           : fromEnvironment && *fromEnvironment ? fromEnvironment
                                                                 : "libcuda.so.1";
  std::string error, missing;
  if (!driver.library.open(file, error)) return Status::error(Code::NoDriver, "no CUDA driver: " + error);
  const SharedLibrary &lib = driver.library;

  auto &core = driver.core;
  lib.find("cuInit", core.init, missing);
  lib.find("cuDriverGetVersion", core.driverGetVersion, missing);
  lib.find("cuDeviceGetCount", core.deviceGetCount, missing);
  lib.find("cuDeviceGet", core.deviceGet, missing);
  lib.find("cuDeviceGetName", core.deviceGetName, missing);
  lib.find("cuDeviceGetAttribute", core.deviceGetAttribute, missing);
  lib.find("cuDeviceTotalMem_v2", core.deviceTotalMem, missing);
  lib.find("cuDevicePrimaryCtxRetain", core.primaryContextRetain, missing);
  lib.find("cuDevicePrimaryCtxRelease_v2", core.primaryContextRelease, missing);
  lib.find("cuCtxGetCurrent", core.contextGetCurrent, missing);
  lib.find("cuCtxPushCurrent_v2", core.contextPush, missing);
  lib.find("cuCtxPopCurrent_v2", core.contextPop, missing);
  lib.find("cuGetErrorName", core.getErrorName, missing);
  lib.find("cuGetErrorString", core.getErrorString, missing);
  if (!missing.empty()) return Status::error(Code::NoDriver, "the CUDA driver " + file + " lacks " + missing);

  auto &module = driver.module;
  lib.find("cuModuleLoadDataEx", module.moduleLoadDataEx, driver.missingModule);
  lib.find("cuModuleUnload", module.moduleUnload, driver.missingModule);
  lib.find("cuModuleGetFunction", module.moduleGetFunction, driver.missingModule);
  lib.find("cuFuncSetAttribute", module.functionSetAttribute, driver.missingModule);
  lib.find("cuLaunchKernel", module.launchKernel, driver.missingModule);

  auto &memory = driver.memory;
  lib.find("cuMemAlloc_v2", memory.allocate, driver.missingMemory);
  lib.find("cuMemFree_v2", memory.release, driver.missingMemory);
  lib.find("cuMemcpyHtoDAsync_v2", memory.copyHostToDevice, driver.missingMemory);
  lib.find("cuMemcpyDtoHAsync_v2", memory.copyDeviceToHost, driver.missingMemory);
  lib.find("cuMemcpyDtoDAsync_v2", memory.copyDeviceToDevice, driver.missingMemory);

  lib.find("cuMemHostAlloc", driver.host.allocate, driver.missingHost);
  lib.find("cuMemFreeHost", driver.host.release, driver.missingHost);
  lib.find("cuMemHostGetDevicePointer_v2", driver.host.devicePointer, driver.missingHost);

  lib.find("cuStreamCreate", driver.stream.create, driver.missingStream);
  lib.find("cuStreamDestroy_v2", driver.stream.destroy, driver.missingStream);
  lib.find("cuStreamSynchronize", driver.stream.synchronize, driver.missingStream);

  lib.find("cuEventCreate", driver.event.create, driver.missingEvent);
  lib.find("cuEventDestroy_v2", driver.event.destroy, driver.missingEvent);
  lib.find("cuEventRecord", driver.event.record, driver.missingEvent);
  lib.find("cuEventSynchronize", driver.event.synchronize, driver.missingEvent);
  lib.find("cuEventElapsedTime", driver.event.elapsedTime, driver.missingEvent);

  lib.find("cuTensorMapEncodeTiled", driver.tensorMap.encodeTiled, driver.missingTensorMap); // since CUDA 12.0

  const Result result = core.init(0);
  if (result == kNoDevice) return Status::error(Code::NoDriver, "the CUDA driver finds no device");
  if (Status status = driver.check(result, "cuInit")) return Status::error(Code::NoDriver, status.message);
  return Status::ok();
}

Status Driver::check(Result result, const char *what) const {
  if (result == kSuccess) return Status::ok();
  const char *name = nullptr, *text = nullptr;
  if (core.getErrorName) core.getErrorName(result, &name);
  if (core.getErrorString) core.getErrorString(result, &text);
  const std::string message = std::string(what) + ": " + (name ? name : "CUDA error " + std::to_string(result)) +
                              (text ? std::string(" (") + text + ")" : "");
  return Status::error(result == kOutOfMemory ? Code::OutOfMemory : Code::Driver, message);
}

} // namespace tlx::runtime::cuda
