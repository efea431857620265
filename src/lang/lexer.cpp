// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "lang/lexer.h"

#include <charconv>

#include "lang/parser.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ConvertUTF.h"

namespace tlx::lang {

namespace {

bool isNameStart(char c) {
  return llvm::isAlpha(c) || c == '_';
}
bool isNameChar(char c) {
  return llvm::isAlnum(c) || c == '_';
}

class Lexer {
public:
  Lexer(std::string_view text, uint32_t file, Diagnostics &diags) : text(text), file(file), diags(diags) {}
  TokenList run();

private:
  char at(size_t i) const { return i < text.size() ? text[i] : '\0'; }
  uint32_t column(size_t i) const { return static_cast<uint32_t>(i - lineStart + 1); }
  Loc range(size_t from, size_t to) const { return {file, line, column(from), column(to)}; }
  void push(Tok kind, size_t from);

  void lineComment();
  void blockComment();
  void number();
  void string();
  void punctuation();
  void strayCharacter();
  size_t sequenceLength(size_t i);

  void integer(size_t from, unsigned base, size_t digits);
  void floating(size_t from);

  std::string_view text;
  uint32_t file;
  Diagnostics &diags;
  TokenList out;
  size_t pos = 0, lineStart = 0;
  uint32_t line = 1;
  bool badUtf8Reported = false;
};

void Lexer::push(Tok kind, size_t from) {
  Token token;
  token.kind = kind;
  token.begin = static_cast<uint32_t>(from);
  token.end = static_cast<uint32_t>(pos);
  token.line = line;
  token.col = column(from);
  out.tokens.push_back(token);
}

TokenList Lexer::run() {
  if (text.substr(0, 3) == "\xEF\xBB\xBF") pos = 3; // a byte order mark
  while (pos < text.size()) {
    if (diags.errorCount() > kMaxSyntaxErrors) {
      out.truncated = true;
      break;
    }
    char c = text[pos];
    if (c == '\n') {
      lineStart = ++pos;
      ++line;
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
      ++pos;
    } else if (c == '/' && at(pos + 1) == '/') {
      lineComment();
    } else if (c == '/' && at(pos + 1) == '*') {
      blockComment();
    } else if (c == '#') {
      size_t from = pos;
      lineComment();
      diags.report(Diag::SynHash, range(from, from + 1));
    } else if (isNameStart(c)) {
      size_t from = pos;
      while (isNameChar(at(pos))) ++pos;
      if (pos - from > kMaxNameBytes) diags.report(Diag::SynNameLength, range(from, pos), pos - from, kMaxNameBytes);
      push(keywordOrIdent(text.substr(from, pos - from)), from);
    } else if (llvm::isDigit(c)) {
      number();
    } else if (c == '"') {
      string();
    } else {
      punctuation();
    }
  }
  pos = text.size();
  if (out.truncated) lineStart = pos;
  push(Tok::Eof, pos);
  return std::move(out);
}

/// Also the rest of a line after '#', which is reported and otherwise taken for a comment.
void Lexer::lineComment() {
  size_t from = pos;
  while (pos < text.size() && text[pos] != '\n') pos += sequenceLength(pos);
  if (!out.tokens.empty() && out.tokens.back().line == line)
    out.trailingComments.push_back(
        {static_cast<uint32_t>(out.tokens.size()), line, column(from), column(std::min(pos, from + 2))});
}

void Lexer::blockComment() {
  Loc open = range(pos, pos + 2);
  pos += 2;
  while (pos < text.size()) {
    if (text[pos] == '*' && at(pos + 1) == '/') {
      pos += 2;
      return;
    }
    if (text[pos] == '\n') {
      lineStart = ++pos;
      ++line;
    } else {
      pos += sequenceLength(pos);
    }
  }
  diags.report(Diag::SynComment, open);
  out.truncated = true;
}

/// The bytes of the character at i; 1 for a byte that is not UTF-8, which is reported once a file.
size_t Lexer::sequenceLength(size_t i) {
  auto byte = static_cast<unsigned char>(text[i]);
  if (byte < 0x80) return 1;
  const auto *start = reinterpret_cast<const llvm::UTF8 *>(text.data() + i);
  const auto *end = reinterpret_cast<const llvm::UTF8 *>(text.data() + text.size());
  if (llvm::isLegalUTF8Sequence(start, end)) return llvm::getNumBytesForUTF8(byte);
  if (!badUtf8Reported) diags.report(Diag::SynBadUtf8, range(i, i + 1));
  badUtf8Reported = true;
  return 1;
}

//===-- numbers ---------------------------------------------------------------------------------------------------===//

/// A malformed number is reported and still becomes a number, so that nothing follows from it.
void Lexer::number() {
  size_t from = pos;
  char marker = at(pos + 1);
  if (text[pos] == '0' && (marker == 'x' || marker == 'X' || marker == 'b' || marker == 'B')) {
    pos += 2;
    size_t digits = pos;
    while (isNameChar(at(pos))) ++pos;
    return integer(from, marker == 'x' || marker == 'X' ? 16 : 2, digits);
  }
  auto skipDigits = [&] {
    while (llvm::isDigit(at(pos)) || at(pos) == '_') ++pos;
  };
  skipDigits();
  bool isFloat = false;
  bool endsInDot = false;
  // `1.to(f32)` is a method call on 1, so a point belongs to the number only before a digit. A point before anything
  // else is the C habit of writing `1.`.
  if (at(pos) == '.' && llvm::isDigit(at(pos + 1))) {
    isFloat = true;
    ++pos;
    skipDigits();
  } else if (at(pos) == '.' && !isNameStart(at(pos + 1))) {
    isFloat = endsInDot = true;
    ++pos;
  }
  if ((at(pos) == 'e' || at(pos) == 'E') &&
      (llvm::isDigit(at(pos + 1)) || ((at(pos + 1) == '+' || at(pos + 1) == '-') && llvm::isDigit(at(pos + 2))))) {
    isFloat = true;
    pos += 2;
    skipDigits();
  }
  if (isNameChar(at(pos))) {
    while (isNameChar(at(pos))) ++pos;
    push(isFloat ? Tok::Float : Tok::Int, from);
    diags.report(Diag::SynNumber, range(from, pos), text.substr(from, pos - from),
                 "a literal has no suffix; it adapts to its use, and .to(T) converts");
    return;
  }
  if (endsInDot) {
    push(Tok::Float, from);
    diags.report(Diag::SynNumber, range(from, pos), text.substr(from, pos - from), "write a digit after the point");
    return;
  }
  if (isFloat) return floating(from);
  integer(from, 10, from);
}

/// '_' stands between two digits (of base 16 at most).
bool separatorsMisplaced(std::string_view s) {
  for (size_t i = 0; i < s.size(); ++i)
    if (s[i] == '_' && (i == 0 || i + 1 == s.size() || !llvm::isHexDigit(s[i - 1]) || !llvm::isHexDigit(s[i + 1])))
      return true;
  return false;
}

void Lexer::integer(size_t from, unsigned base, size_t digits) {
  push(Tok::Int, from);
  std::string_view all = text.substr(from, pos - from), body = text.substr(digits, pos - digits);
  auto malformed = [&](const char *why) { diags.report(Diag::SynNumber, range(from, pos), all, why); };
  if (body.empty()) return malformed("digits are missing");
  if (separatorsMisplaced(body)) return malformed("'_' stands between two digits");
  if (base == 10 && body.size() > 1 && body[0] == '0') return malformed("a decimal number does not start with 0");
  uint64_t value = 0;
  for (char c : body) {
    if (c == '_') continue;
    unsigned digit = llvm::hexDigitValue(c);
    if (digit >= base)
      return malformed(base == 2 ? "a binary number has the digits 0 and 1"
                                 : "a hexadecimal number has the digits 0-9 and a-f");
    if (value > (UINT64_MAX - digit) / base) {
      diags.report(Diag::SynIntRange, range(from, pos), all);
      return;
    }
    value = value * base + digit;
  }
  out.tokens.back().intValue = value;
}

void Lexer::floating(size_t from) {
  push(Tok::Float, from);
  std::string_view all = text.substr(from, pos - from);
  if (separatorsMisplaced(all)) {
    diags.report(Diag::SynNumber, range(from, pos), all, "'_' stands between two digits");
    return;
  }
  std::string clean;
  for (char c : all)
    if (c != '_') clean += c;
  double value = 0;
  auto result = std::from_chars(clean.data(), clean.data() + clean.size(), value);
  if (result.ec != std::errc())
    diags.report(Diag::SynFloatRange, range(from, pos), all);
  else
    out.tokens.back().floatValue = value;
}

//===-- strings and the rest --------------------------------------------------------------------------------------===//

void Lexer::string() {
  size_t from = pos++;
  while (pos < text.size() && text[pos] != '"' && text[pos] != '\n') {
    if (text[pos] != '\\') {
      pos += sequenceLength(pos);
      continue;
    }
    size_t escape = pos++;
    char c = at(pos);
    if (pos == text.size() || c == '\n') break;
    bool known = c == 'n' || c == 'r' || c == 't' || c == '0' || c == '"' || c == '\\';
    if (c == 'x' && llvm::isHexDigit(at(pos + 1)) && llvm::isHexDigit(at(pos + 2))) {
      known = true;
      pos += 2;
    }
    pos += sequenceLength(pos);
    if (!known) diags.report(Diag::SynEscape, range(escape, pos));
  }
  if (at(pos) == '"' && pos < text.size()) {
    ++pos;
    push(Tok::String, from);
    return;
  }
  push(Tok::Error, from);
  diags.report(Diag::SynString, range(from, from + 1));
}

void Lexer::punctuation() {
  size_t from = pos;
  // `.5`, unless it follows an operand, where the point is a method's.
  if (text[pos] == '.' && llvm::isDigit(at(pos + 1)) && (out.tokens.empty() || !endsOperand(out.tokens.back().kind))) {
    ++pos;
    while (isNameChar(at(pos))) ++pos;
    push(Tok::Float, from);
    diags.report(Diag::SynNumber, range(from, pos), text.substr(from, pos - from), "write a digit before the point");
    return;
  }
  std::string_view rest = text.substr(pos);
#define TLX_TOKEN(ID, TEXT)                                                                                            \
  if (rest.substr(0, sizeof(TEXT) - 1) == TEXT) {                                                                      \
    pos += sizeof(TEXT) - 1;                                                                                           \
    return push(Tok::ID, from);                                                                                        \
  }
  TLX_PUNCTUATION(TLX_TOKEN)
#undef TLX_TOKEN
  strayCharacter();
}

void Lexer::strayCharacter() {
  size_t from = pos;
  char c = text[pos];
  if (c == '\'') {
    // Take the whole 'text' if it is closed on this line.
    size_t close = pos + 1;
    while (close < text.size() && text[close] != '\'' && text[close] != '\n') ++close;
    pos = at(close) == '\'' ? close + 1 : pos + 1;
    push(Tok::Error, from);
    diags.report(Diag::SynSingleQuote, range(from, from + 1));
    return;
  }
  bool utf8WasFine = !badUtf8Reported;
  pos += sequenceLength(pos);
  push(Tok::Error, from);
  if (static_cast<unsigned char>(c) >= 0x80 && (pos - from == 1 || (utf8WasFine && badUtf8Reported))) return;
  std::string shown = llvm::isPrint(c) || pos - from > 1
                          ? "'" + std::string(text.substr(from, pos - from)) + "'"
                          : "0x" + llvm::utohexstr(static_cast<unsigned char>(c), /*LowerCase=*/true, 2);
  // A word in another script is one report.
  while (pos < text.size() && static_cast<unsigned char>(text[pos]) >= 0x80) pos += sequenceLength(pos);
  out.tokens.back().end = static_cast<uint32_t>(pos);
  diags.report(Diag::SynCharacter, range(from, pos), shown);
}

} // namespace

TokenList lex(std::string_view text, uint32_t file, Diagnostics &diags) {
  return Lexer(text, file, diags).run();
}

} // namespace tlx::lang
