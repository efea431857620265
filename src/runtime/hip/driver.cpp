// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See driver.h.
#include "runtime/hip/driver.h"

#include <cstdlib>

namespace tlx::runtime::hip {

Status Driver::load(const std::string &path, Driver &driver) {
  driver = Driver();
  const char *fromEnvironment = std::getenv("TLX_HIP_DRIVER");
  std::string file = path, error, missing;
  if (file.empty() && fromEnvironment) file = fromEnvironment;
  if (!file.empty()) {
    if (!driver.library.open(file, error)) return Status::error(Code::NoDriver, "no HIP driver: " + error);
  } else {
    // Run-time packages have only the versioned name; the plain one comes with the development package.
    bool found = false;
    std::string firstError;
    for (const char *name : {"libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"}) {
      file = name;
      if ((found = driver.library.open(file, error))) break;
      if (firstError.empty()) firstError = error;
    }
    if (!found) return Status::error(Code::NoDriver, "no HIP driver: " + firstError);
  }
  const SharedLibrary &lib = driver.library;

  auto &core = driver.core;
  lib.find("hipInit", core.init, missing);
  lib.find("hipDriverGetVersion", core.driverGetVersion, missing);
  lib.find("hipGetDeviceCount", core.getDeviceCount, missing);
  lib.find("hipGetDevice", core.getDevice, missing);
  lib.find("hipSetDevice", core.setDevice, missing);
  lib.find("hipGetErrorName", core.getErrorName, missing);
  lib.find("hipGetErrorString", core.getErrorString, missing);
  std::string ignored;
  if (!lib.find("hipGetDevicePropertiesR0600", core.getDeviceProperties, ignored)) // since ROCm 6
    lib.find("hipGetDeviceProperties", core.getDeviceProperties, missing);
  if (!missing.empty()) return Status::error(Code::NoDriver, "the HIP driver " + file + " lacks " + missing);

  lib.find("hipModuleLoadData", driver.module.loadData, driver.missingModule);
  lib.find("hipModuleUnload", driver.module.unload, driver.missingModule);
  lib.find("hipModuleGetFunction", driver.module.getFunction, driver.missingModule);
  lib.find("hipModuleLaunchKernel", driver.module.launchKernel, driver.missingModule);

  lib.find("hipMalloc", driver.memory.allocate, driver.missingMemory);
  lib.find("hipFree", driver.memory.release, driver.missingMemory);
  lib.find("hipMemcpyAsync", driver.memory.copyAsync, driver.missingMemory);
  lib.find("hipDeviceTotalMem", driver.memory.total, ignored);

  lib.find("hipStreamCreateWithFlags", driver.stream.create, driver.missingStream);
  lib.find("hipStreamDestroy", driver.stream.destroy, driver.missingStream);
  lib.find("hipStreamSynchronize", driver.stream.synchronize, driver.missingStream);

  lib.find("hipEventCreate", driver.event.create, driver.missingEvent);
  lib.find("hipEventDestroy", driver.event.destroy, driver.missingEvent);
  lib.find("hipEventRecord", driver.event.record, driver.missingEvent);
  lib.find("hipEventSynchronize", driver.event.synchronize, driver.missingEvent);
  lib.find("hipEventElapsedTime", driver.event.elapsedTime, driver.missingEvent);

  const Result result = core.init(0);
  if (result == kNoDevice) return Status::error(Code::NoDriver, "the HIP driver finds no device");
  if (Status status = driver.check(result, "hipInit")) return Status::error(Code::NoDriver, status.message);
  return Status::ok();
}

Status Driver::check(Result result, const char *what) const {
  if (result == kSuccess) return Status::ok();
  const char *name = core.getErrorName ? core.getErrorName(result) : nullptr;
  const char *text = core.getErrorString ? core.getErrorString(result) : nullptr;
  const std::string message = std::string(what) + ": " + (name ? name : "HIP error " + std::to_string(result)) +
                              (text ? std::string(" (") + text + ")" : "");
  return Status::error(result == kOutOfMemory ? Code::OutOfMemory : Code::Driver, message);
}

} // namespace tlx::runtime::hip
