// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once
#include <string>

namespace tlx {
/// The text of docs/ir.md: prose on the text form, and the table of operations.
std::string documentIr();
} // namespace tlx
