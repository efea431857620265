// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The simulator behind the Device interface: it runs any target's lowering on the host.
#pragma once
#include "runtime/launch/device.h"

namespace tlx::runtime::sim {

DeviceInfo info();
std::shared_ptr<Device> open();

} // namespace tlx::runtime::sim
