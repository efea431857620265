// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tokens of the kernel language. A token is a range of the text on one line; no token spans lines.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace tlx::lang {

// The reserved words. `range`, `launch`, `requires`, `default`, `tensor_desc`, `None` and the data types are names with
// a meaning in one place only.
#define TLX_KEYWORDS(X)                                                                                                \
  X(Import, "import")                                                                                                  \
  X(Const, "const")                                                                                                    \
  X(Fn, "fn")                                                                                                          \
  X(Kernel, "kernel")                                                                                                  \
  X(Let, "let") X(Var, "var") X(If, "if") X(Else, "else") X(For, "for") X(In, "in") X(While, "while")                  \
      X(Break, "break") X(Continue, "continue") X(Return, "return") X(Static, "static") X(True, "true")                \
          X(False, "false") X(Inf, "inf") X(Nan, "nan") X(AsyncTasks, "async_tasks") X(AsyncTask, "async_task")

// Longest first where one is the start of another: the lexer takes the first that fits.
#define TLX_PUNCTUATION(X)                                                                                             \
  X(ShlAssign, "<<=")                                                                                                  \
  X(ShrAssign, ">>=")                                                                                                  \
  X(EqEq, "==")                                                                                                        \
  X(NotEq, "!=")                                                                                                       \
  X(LessEq, "<=") X(GreaterEq, ">=") X(Shl, "<<") X(Shr, ">>") X(AndAnd, "&&") X(OrOr, "||") X(PlusAssign, "+=")       \
      X(MinusAssign, "-=") X(StarAssign, "*=") X(SlashAssign, "/=") X(PercentAssign, "%=") X(AndAssign, "&=")          \
          X(OrAssign, "|=") X(XorAssign, "^=") X(LParen, "(") X(RParen, ")") X(LBracket, "[") X(RBracket, "]")         \
              X(LBrace, "{") X(RBrace, "}") X(Less, "<") X(Greater, ">") X(Assign, "=") X(Plus, "+") X(Minus, "-")     \
                  X(Star, "*") X(Slash, "/") X(Percent, "%") X(And, "&") X(Or, "|") X(Xor, "^") X(Not, "!")            \
                      X(Tilde, "~") X(Comma, ",") X(Semicolon, ";") X(Colon, ":") X(Dot, ".") X(Question, "?")

enum class Tok : uint8_t {
  Eof,
  Error, ///< reported by the lexer; the parser stays silent about it
  Ident,
  Int,
  Float,
  String,
#define TLX_TOKEN(ID, TEXT) ID,
  TLX_KEYWORDS(TLX_TOKEN) TLX_PUNCTUATION(TLX_TOKEN)
#undef TLX_TOKEN
};

struct Token {
  Tok kind = Tok::Eof;
  uint32_t begin = 0, end = 0; ///< bytes of the text
  uint32_t line = 0, col = 0;  ///< from 1; the end column is col + end - begin
  union {
    uint64_t intValue = 0; ///< Int
    double floatValue;     ///< Float
  };
  uint32_t endCol() const { return col + (end - begin); }
};

/// The text of a keyword or punctuation, "" for the other kinds.
std::string_view tokenText(Tok kind);
bool isKeyword(Tok kind);
/// A token after which a binary operator may stand: the end of an operand.
bool endsOperand(Tok kind);
/// The keyword that is spelled so, or Ident.
Tok keywordOrIdent(std::string_view text);
/// The bytes that a string token stands for; `text` is the token with its quotes. Unknown escapes are kept as written.
std::string unescapeString(std::string_view text);

} // namespace tlx::lang
