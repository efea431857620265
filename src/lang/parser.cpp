// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The parser's entry, its messages and its recovery.
#include "lang/parser.h"

#include <algorithm>

#include "lang/parser_p.h"
#include "llvm/ADT/StringSwitch.h"

namespace tlx::lang {

//===-- tokens ----------------------------------------------------------------------------------------------------===//

void Parser::indexLines() {
  lineEnd.resize(list.tokens.size());
  for (size_t i = list.tokens.size(); i-- > 0;) {
    bool last = i + 1 == list.tokens.size() || list.tokens[i + 1].line != list.tokens[i].line ||
                list.tokens[i + 1].kind == Tok::Eof;
    lineEnd[i] = last ? static_cast<uint32_t>(i) : lineEnd[i + 1];
  }
}

Loc Parser::since(uint32_t start) const {
  const Token &first = list.tokens[start];
  uint32_t last = std::clamp(pos ? pos - 1 : 0, start, std::max(start, lineEnd[start]));
  return {file, first.line, first.col, list.tokens[last].endCol()};
}

bool Parser::accept(Tok kind) {
  if (!at(kind)) return false;
  advance();
  return true;
}

//===-- messages --------------------------------------------------------------------------------------------------===//

std::string Parser::describe(const Token &token) const {
  if (token.kind == Tok::Eof) return "the end of the file";
  if (token.kind == Tok::String) return "a string";
  std::string_view shown = textOf(token);
  return shown.size() > 40 ? "'" + std::string(shown.substr(0, 37)) + "...'" : "'" + std::string(shown) + "'";
}

bool Parser::isNews() const {
  if (at(Tok::Error) || errorToken == pos) return false;
  return !(at(Tok::Eof) && list.truncated);
}

/// `a // b` was meant as a division if the error stands at the first token after the comment, and an operand before it.
void Parser::explainComment() {
  if (!reported || pos == 0 || !endsOperand(prev().kind)) return;
  auto it = std::lower_bound(list.trailingComments.begin(), list.trailingComments.end(), pos,
                             [](const LineComment &c, uint32_t token) { return c.nextToken < token; });
  if (it == list.trailingComments.end() || it->nextToken != pos || it->line != prev().line) return;
  reported->message += "; '//' starts a comment, and '/' on integers rounds down already";
  noteHere({file, it->line, it->col, it->endCol}, "the comment starts here");
}

bool Parser::looksLikeTypeName(const Token &token) const {
  if (token.kind != Tok::Ident) return false;
  std::string_view name = textOf(token);
  return !dtypeSuggestion(name).empty() ||
         llvm::StringSwitch<bool>(name)
             .Cases({"i1", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"}, true)
             .Cases({"f16", "bf16", "f32", "f64", "f8e4m3", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz"}, true)
             .Default(false);
}

/// Two tokens that touch and are one operator in other languages.
bool Parser::failWithJoinedOperator() {
  Loc both = here();
  both.col = prev().col;
  auto word = [&](const char *wrong, const char *right) { return failAt(both, Diag::SynWord, wrong, right), true; };
  if (at(Tok::Star) && joined(Tok::Star)) return failAt(both, Diag::SynPower), true;
  if (at(Tok::Plus) && joined(Tok::Plus)) return failAt(both, Diag::SynIncrement, "++", "+="), true;
  if (at(Tok::Minus) && joined(Tok::Minus)) return failAt(both, Diag::SynIncrement, "--", "-="), true;
  if (at(Tok::Greater) && joined(Tok::Assign)) return word("=>", ">=");
  if (at(Tok::Less) && joined(Tok::Assign)) return word("=<", "<=");
  if (at(Tok::Greater) && joined(Tok::Less)) return word("<>", "!=");
  if (at(Tok::Assign) && joined(Tok::EqEq)) return word("===", "==");
  if (at(Tok::Assign) && joined(Tok::NotEq)) return word("!==", "!=");
  if (at(Tok::Greater) && joined(Tok::Minus)) return word("->", ".");
  if (peek(1).begin != tok().end) return false;
  Loc next = here();
  ++next.endCol;
  auto pair = [&](Tok first, Tok second, const char *wrong, const char *right) {
    if (!at(first) || peek(1).kind != second) return false;
    failAt(next, Diag::SynWord, wrong, right);
    return true;
  };
  if (at(Tok::Plus) && peek(1).kind == Tok::Plus) return failAt(next, Diag::SynIncrement, "++", "+="), true;
  return pair(Tok::Colon, Tok::Assign, ":=", "=") || pair(Tok::Assign, Tok::Less, "=<", "<=") ||
         pair(Tok::Assign, Tok::Greater, "=>", ">=");
}

/// What the current token shows of other languages, between or in expressions.
bool Parser::failWithHabit() {
  if (pos && prev().line == tok().line && failWithJoinedOperator()) return true;
  bool afterOperand = pos && endsOperand(prev().kind);
  if (at(Tok::Question)) return failHere(Diag::SynConditional), true;
  if (afterOperand && at(Tok::If) && prev().line == tok().line) {
    failHere(Diag::SynConditional);
    advance(); // recovery would take it for a statement
    return true;
  }
  if (afterOperand && at(Tok::Ident)) {
    std::string_view word = textOf(tok());
    if (word == "and") return failHere(Diag::SynWord, "and", "&&"), true;
    if (word == "or") return failHere(Diag::SynWord, "or", "||"), true;
    if (word == "is") return failHere(Diag::SynWord, "is", "=="), true;
    // (float)x
    if (pos >= 3 && prev().kind == Tok::RParen && looksLikeTypeName(list.tokens[pos - 2]) &&
        list.tokens[pos - 3].kind == Tok::LParen) {
      std::string_view type = textOf(list.tokens[pos - 2]);
      std::string_view ours = dtypeSuggestion(type);
      return failHere(Diag::SynCast, ours.empty() ? type : ours), true;
    }
  }
  return false;
}

void Parser::failExpected(std::string_view what) {
  if (!failWithHabit()) failHere(Diag::SynExpected, what, describe(tok()));
  explainComment();
}

bool Parser::expect(Tok kind) {
  if (accept(kind)) return true;
  failExpected("'" + std::string(tokenText(kind)) + "'");
  return false;
}

bool Parser::expectClose(Tok kind, uint32_t open, std::string_view what) {
  if (accept(kind)) return true;
  if (at(Tok::Assign) && !failWithJoinedOperator()) {
    failHere(Diag::SynAssignInExpr);
    return false;
  }
  failExpected(what);
  const Token &opener = list.tokens[open];
  if (opener.line != tok().line) noteHere(locOf(opener), "to match this");
  return false;
}

bool Parser::Nested::ok() const {
  if (parser.nesting <= kMaxNesting) return true;
  if (parser.tooDeep)
    parser.errorToken = parser.pos;
  else
    parser.failHere(Diag::SynNesting, kMaxNesting);
  parser.tooDeep = true;
  return false;
}

//===-- recovery --------------------------------------------------------------------------------------------------===//

bool Parser::startsItem(uint32_t index) const {
  auto kindAt = [&](uint32_t i) { return i < list.tokens.size() ? list.tokens[i].kind : Tok::Eof; };
  switch (kindAt(index)) {
  case Tok::Kernel:
    return kindAt(index + 1) == Tok::Ident;
  case Tok::Fn:
    return kindAt(index + 1) == Tok::Ident && kindAt(index + 2) == Tok::LParen;
  case Tok::Import:
    return kindAt(index + 1) == Tok::String;
  case Tok::Const:
    return kindAt(index + 1) == Tok::Ident && kindAt(index + 2) == Tok::Assign;
  default:
    return false;
  }
}

static bool startsStatement(Tok kind) {
  switch (kind) {
  case Tok::Let:
  case Tok::Var:
  case Tok::If:
  case Tok::For:
  case Tok::While:
  case Tok::Break:
  case Tok::Continue:
  case Tok::Return:
  case Tok::Static:
  case Tok::AsyncTasks:
  case Tok::AsyncTask:
    return true;
  default:
    return false;
  }
}

void Parser::skipBraces() {
  unsigned depth = 1;
  while (!at(Tok::Eof)) {
    if (startsItem(pos) && tok().col == 1) return; // its '}' is missing
    if (at(Tok::LBrace)) ++depth;
    bool closes = at(Tok::RBrace) && --depth == 0;
    advance();
    if (closes) return;
  }
}

void Parser::skipStatement() {
  while (!at(Tok::Eof) && !at(Tok::RBrace) && !startsStatement(tok().kind) && !startsItem(pos)) {
    if (accept(Tok::Semicolon)) return;
    if (accept(Tok::LBrace)) {
      skipBraces();
      return;
    }
    advance();
  }
}

bool Parser::skipToBlock() {
  while (!at(Tok::LBrace)) {
    if (at(Tok::Eof) || at(Tok::Semicolon) || at(Tok::RBrace) || startsStatement(tok().kind) || startsItem(pos))
      return false;
    advance();
  }
  return true;
}

void Parser::skipToItem() {
  while (!at(Tok::Eof) && !startsItem(pos)) {
    if (accept(Tok::LBrace))
      skipBraces();
    else
      advance();
  }
}

//===-- entry -----------------------------------------------------------------------------------------------------===//

std::unique_ptr<ast::File> Parser::parse() {
  indexLines();
  for (const Diagnostic &d : diags.all()) lexerErrorLines.push_back(d.loc.line);
  auto result = std::make_unique<ast::File>();
  result->file = file;
  while (!at(Tok::Eof) && !tooManyErrors()) parseItem(*result);
  return result;
}

/// The lexer finds its errors before the parser does; people read a file from the top.
static void mergeInOrder(const Diagnostics &found, uint32_t file, Diagnostics &diags) {
  std::vector<const Diagnostic *> sorted;
  for (const Diagnostic &d : found.all()) sorted.push_back(&d);
  std::stable_sort(sorted.begin(), sorted.end(), [](const Diagnostic *a, const Diagnostic *b) {
    return std::pair(a->loc.line, a->loc.col) < std::pair(b->loc.line, b->loc.col);
  });
  unsigned count = 0;
  for (const Diagnostic *d : sorted) {
    if (count++ == kMaxSyntaxErrors) {
      diags.report(Diag::SynTooManyErrors, d->loc, kMaxSyntaxErrors);
      return;
    }
    Diagnostic &copy = diags.report(d->id, d->loc);
    copy.message = d->message;
    copy.notes = d->notes;
  }
}

std::unique_ptr<ast::File> parseFile(SourceManager &sources, uint32_t file, Diagnostics &diags) {
  std::string_view text = sources.text(file);
  if (text.size() > kMaxFileBytes) {
    diags.report(Diag::SynFileSize, Loc{file, 1, 1, 2}, text.size(), kMaxFileBytes);
    auto empty = std::make_unique<ast::File>();
    empty->file = file;
    return empty;
  }
  Diagnostics found;
  TokenList tokens = lex(text, file, found);
  auto result = Parser(text, file, std::move(tokens), found).parse();
  mergeInOrder(found, file, diags);
  return result;
}

std::string_view dtypeSuggestion(std::string_view name) {
  for (std::string_view prefix : {"tl.", "tlx."})
    if (name.substr(0, prefix.size()) == prefix) {
      name.remove_prefix(prefix.size());
      break;
    }
  return llvm::StringSwitch<std::string_view>(name)
      .Cases({"float32", "float", "fp32", "float_t"}, "f32")
      .Cases({"float16", "half", "fp16"}, "f16")
      .Cases({"bfloat16", "bfloat", "bf16_t"}, "bf16")
      .Cases({"float64", "double", "fp64"}, "f64")
      .Cases({"int1", "bool", "bool_"}, "i1")
      .Cases({"int8", "int8_t", "char"}, "i8")
      .Cases({"int16", "int16_t", "short"}, "i16")
      .Cases({"int32", "int32_t", "int"}, "i32")
      .Cases({"int64", "int64_t", "long"}, "i64")
      .Cases({"uint8", "uint8_t", "byte"}, "u8")
      .Cases({"uint16", "uint16_t"}, "u16")
      .Cases({"uint32", "uint32_t", "uint", "unsigned"}, "u32")
      .Cases({"uint64", "uint64_t", "size_t"}, "u64")
      .Cases({"float8e4nv", "float8_e4m3fn", "f8e4m3fn", "fp8e4nv"}, "f8e4m3")
      .Cases({"float8e5", "float8_e5m2", "fp8e5"}, "f8e5m2")
      .Cases({"float8e4b8", "float8_e4m3fnuz", "fp8e4b8"}, "f8e4m3fnuz")
      .Cases({"float8e5b16", "float8_e5m2fnuz", "fp8e5b16"}, "f8e5m2fnuz")
      .Default("");
}

} // namespace tlx::lang
