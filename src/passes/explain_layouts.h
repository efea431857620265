// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A report for people: each value's layout, and for each shared access its bank wavefronts beside the minimum.
#pragma once
#include <string>

#include "features/features.h"
#include "ir/ir.h"

namespace tlx::passes {

std::string explainLayouts(const ir::Module &module, const features::Target &target);

} // namespace tlx::passes
