// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tables of wrong programs: the one message that each gives.
#pragma once
#include "elaborate_testing.h"

namespace elaboration {

/// A program, or a part of one, and its message: line, first column, column behind the last, text.
struct Wrong {
  const char *text;
  unsigned line, col, endCol;
  const char *message;
};

/// `program`, which holds wrong.text, gives this message alone, and no module.
inline void check(const Wrong &wrong, const std::string &program, const tlx::lang::ElaborateOptions &options = {}) {
  Elaborated e(program, options);
  CAPTURE(std::string(wrong.text));
  const std::string place =
      std::to_string(wrong.line) + ":" + std::to_string(wrong.col) + "-" + std::to_string(wrong.endCol);
  CHECK(e.errors() == place + " " + wrong.message);
  CHECK(!e.module);
}

} // namespace elaboration
