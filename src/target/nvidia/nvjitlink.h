// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// libnvJitLink, loaded at run time. Private to src/target/nvidia.
#pragma once
#include <string>
#include <vector>

namespace tlx::target::nvidia {

/// "13.0", or empty if the library is not there.
std::string nvJitLinkVersion();
/// PTX → cubin. `log` gets its messages in both cases.
bool nvJitLinkAssemble(const std::string &ptx, const std::vector<std::string> &options, std::vector<uint8_t> &image,
                       std::string &log);

} // namespace tlx::target::nvidia
