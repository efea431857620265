// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Words and limits that the printer and the parser of the text form share.
#pragma once
#include "ir/ir.h"

namespace tlx::ir::text {

/// Limits on hostile text; the elaborator's own limits are tighter.
inline constexpr unsigned kMaxRegionNesting = 256;
inline constexpr unsigned kMaxRank = 8;
inline constexpr int64_t kMaxElements = int64_t(1) << 30;
inline constexpr int64_t kMaxDepth = 1 << 16;

/// Steps of a fact, by Fact::Op.
inline constexpr const char *kFactOps[] = {"const", "arg", "add", "sub", "mul", "div", "mod", "neg", "eq",
                                           "ne",    "lt",  "le",  "gt",  "ge",  "and", "or",  "not"};
static_assert(std::size(kFactOps) == size_t(Fact::Op::Not) + 1);

/// Values of the attribute `pred`, by Pred.
inline constexpr const char *kPreds[] = {"eq", "ne", "lt", "le", "gt", "ge"};
static_assert(std::size(kPreds) == size_t(Pred::Ge) + 1);

struct PropertyName {
  const char *name;
  bool Properties::*member;
};
inline constexpr PropertyName kProperties[] = {{"layouts", &Properties::layouts},
                                               {"lowered_conversions", &Properties::loweredConversions},
                                               {"planned_memory", &Properties::plannedMemory},
                                               {"synchronized", &Properties::synchronized}};

inline bool isWordStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
inline bool isDigit(char c) {
  return c >= '0' && c <= '9';
}
inline bool isWordChar(char c) {
  return isWordStart(c) || isDigit(c);
}
inline bool isWord(llvm::StringRef s) {
  return !s.empty() && isWordStart(s.front()) && llvm::all_of(s, isWordChar);
}

} // namespace tlx::ir::text
