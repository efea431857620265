// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Text of a `.tlx` file → ast::File. The grammar stands in docs/language.md.
#pragma once
#include <memory>
#include <string_view>

#include "lang/ast.h"
#include "support/diagnostics.h"

namespace tlx::lang {

/// Limits on hostile text. Each is an error that names the limit.
constexpr size_t kMaxFileBytes = size_t(1) << 20;
constexpr size_t kMaxNameBytes = 255;
/// Blocks, parentheses, brackets, unary operators and `else if` around one token.
constexpr unsigned kMaxNesting = 256;
/// The height of an expression's tree; `a + b + c + …` grows by one a term.
constexpr unsigned kMaxExprHeight = 1024;
/// A run stops after so many syntax errors in one file.
constexpr unsigned kMaxSyntaxErrors = 100;

/// Parses a file that the source manager holds. Reports every independent syntax error, and returns what could be
/// parsed: the result is never null, whatever the bytes. Thread-safe for different Diagnostics.
std::unique_ptr<ast::File> parseFile(SourceManager &sources, uint32_t file, Diagnostics &diags);

/// What a name of another language is called here ("float32" → "f32", "tl.bfloat16" without its prefix too), or "" if
/// the name is not known as a slip. For messages about unknown names.
std::string_view dtypeSuggestion(std::string_view name);

} // namespace tlx::lang
