// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// HIP devices behind the Device interface.
#pragma once
#include "runtime/launch/device.h"

namespace tlx::runtime::hip {

/// All HIP devices. A missing driver is a status (NoDriver). `driverPath` as in Driver::load.
Status enumerate(const std::string &driverPath, std::vector<DeviceInfo> &devices);
Status open(const std::string &driverPath, int ordinal, std::shared_ptr<Device> &device);

} // namespace tlx::runtime::hip
