// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to src/sim: wording shared by findings.
#pragma once
#include <cstdint>
#include <string>

namespace tlx::sim {

/// "lanes 0-15, 31".
std::string lanesText(uint64_t lanes);
/// "1 byte", "2 bytes".
std::string countText(uint64_t n, const char *what);

} // namespace tlx::sim
