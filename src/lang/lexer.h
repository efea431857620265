// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Text → tokens. The lexer never fails: what it cannot read is reported and becomes an Error token, which the parser
// skips without a report of its own.
#pragma once
#include <vector>

#include "lang/token.h"
#include "support/diagnostics.h"

namespace tlx::lang {

/// A `//` comment and the token that follows it.
struct LineComment {
  uint32_t nextToken;
  uint32_t line, col, endCol;
};

struct TokenList {
  std::vector<Token> tokens; ///< ends with Eof
  /// The comments that share their line with the token before them, in order. The parser explains an error after one of
  /// them, since `a // b` divides in the languages people come from.
  std::vector<LineComment> trailingComments;
  /// The text ended inside a comment, or after too many errors: what is missing at the end is not worth a report.
  bool truncated = false;
};

TokenList lex(std::string_view text, uint32_t file, Diagnostics &diags);

} // namespace tlx::lang
