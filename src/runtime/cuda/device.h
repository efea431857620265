// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// CUDA devices behind the Device interface.
#pragma once
#include "runtime/launch/device.h"

namespace tlx::runtime::cuda {

/// All CUDA devices. A missing driver is a status (NoDriver). `driverPath` as in Driver::load.
Status enumerate(const std::string &driverPath, std::vector<DeviceInfo> &devices);
/// Opens device `ordinal`: retains its primary context for as long as the device lives.
Status open(const std::string &driverPath, int ordinal, std::shared_ptr<Device> &device);

} // namespace tlx::runtime::cuda
