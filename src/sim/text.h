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
/// " of 4 bytes at shared offset 1024".
std::string placeText(uint64_t bytes, int64_t offset);

} // namespace tlx::sim
