// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// NumPy's .npy files, version 1.0 (numpy.lib.format), little-endian. bf16 and the fp8 types, which NumPy lacks, are
// stored as their bits in unsigned integers ('<u2', '|u1').
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "values.h"

namespace tlxc {

/// The elements in row-major order, as `type`. The file must have this shape, and this dtype or (for floats) f2, f4 or
/// f8, which is rounded. Throws Failure(kUserError).
std::vector<uint8_t> readNpy(const std::string &path, const ElementType &type, const std::vector<int64_t> &shape);
/// `data` in row-major order.
void writeNpy(const std::string &path, const ElementType &type, const std::vector<int64_t> &shape,
              const std::vector<uint8_t> &data);

} // namespace tlxc
