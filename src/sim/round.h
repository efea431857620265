// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to src/sim: numbers to 16-bit floats, rounded once (to nearest, ties to even), as bits.
#pragma once
#include <cstdint>

namespace tlx::sim {

uint16_t toF16(double x);
uint16_t doubleToBf16(double x);

} // namespace tlx::sim
