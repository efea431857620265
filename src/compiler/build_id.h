// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once
#include <string>

namespace tlx {

/// The linker's build id (a hash of the contents) of the library or program that holds this code, in hex: it changes with every build
/// that differs, so a cached binary of another build is never taken for this one's.
const std::string &buildId();

} // namespace tlx
