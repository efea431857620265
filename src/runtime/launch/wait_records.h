// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once
#include <span>
#include <string>
#include <vector>

#include "support/metadata.h"

namespace tlx::runtime {

/// What waits said that gave up, a line each: "task 'consumer' (replica 1) of program (3, 0, 0) waited 1000 ms for full[2], phase 1,
/// gemm.tlx:31". "" if none did. A record for each site.
std::string waitText(const std::vector<WaitSite> &sites, uint32_t microseconds, std::span<const WaitRecord> records);

} // namespace tlx::runtime
