// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "lang/ast.h"

namespace tlx::ast {

namespace {
struct OpInfo {
  std::string_view text;
  int precedence;
};
// In the order of BinaryOp. Bit operations bind tighter than comparisons, so `flags & 1 == 0` asks what it says.
constexpr OpInfo kBinaryOps[] = {
    {"||", 1}, {"&&", 2}, {"==", 3}, {"!=", 3}, {"<", 3}, {"<=", 3}, {">", 3}, {">=", 3}, {"|", 4},
    {"^", 5},  {"&", 6},  {"<<", 7}, {">>", 7}, {"+", 8}, {"-", 8},  {"*", 9}, {"/", 9},  {"%", 9},
};
} // namespace

std::string_view spelling(BinaryOp op) {
  return kBinaryOps[static_cast<unsigned>(op)].text;
}
int precedence(BinaryOp op) {
  return kBinaryOps[static_cast<unsigned>(op)].precedence;
}
bool isComparison(BinaryOp op) {
  return precedence(op) == precedence(BinaryOp::Eq);
}

std::string_view spelling(UnaryOp op) {
  switch (op) {
  case UnaryOp::Neg:
    return "-";
  case UnaryOp::Not:
    return "!";
  case UnaryOp::BitNot:
    return "~";
  }
  return "";
}

} // namespace tlx::ast
