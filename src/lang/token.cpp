// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "lang/token.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

namespace tlx::lang {

std::string_view tokenText(Tok kind) {
  switch (kind) {
#define TLX_TOKEN(ID, TEXT)                                                                                            \
  case Tok::ID:                                                                                                        \
    return TEXT;
    TLX_KEYWORDS(TLX_TOKEN)
    TLX_PUNCTUATION(TLX_TOKEN)
#undef TLX_TOKEN
  default:
    return "";
  }
}

bool isKeyword(Tok kind) {
  switch (kind) {
#define TLX_TOKEN(ID, TEXT) case Tok::ID:
    TLX_KEYWORDS(TLX_TOKEN)
#undef TLX_TOKEN
    return true;
  default:
    return false;
  }
}

bool endsOperand(Tok kind) {
  switch (kind) {
  case Tok::Ident:
  case Tok::Int:
  case Tok::Float:
  case Tok::String:
  case Tok::True:
  case Tok::False:
  case Tok::Inf:
  case Tok::Nan:
  case Tok::RParen:
  case Tok::RBracket:
    return true;
  default:
    return false;
  }
}

Tok keywordOrIdent(std::string_view text) {
  return llvm::StringSwitch<Tok>(text)
#define TLX_TOKEN(ID, TEXT) .Case(TEXT, Tok::ID)
      TLX_KEYWORDS(TLX_TOKEN)
#undef TLX_TOKEN
          .Default(Tok::Ident);
}

std::string unescapeString(std::string_view text) {
  std::string out;
  if (text.size() < 2) return out;
  text = text.substr(1, text.size() - 2);
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    char c = text[++i];
    switch (c) {
    case 'n':
      out += '\n';
      break;
    case 'r':
      out += '\r';
      break;
    case 't':
      out += '\t';
      break;
    case '0':
      out += '\0';
      break;
    case 'x':
      if (i + 2 < text.size() && llvm::isHexDigit(text[i + 1]) && llvm::isHexDigit(text[i + 2])) {
        out += static_cast<char>(llvm::hexDigitValue(text[i + 1]) * 16 + llvm::hexDigitValue(text[i + 2]));
        i += 2;
        break;
      }
      [[fallthrough]];
    default: // \" and \\, and what the lexer has reported
      if (c != '"' && c != '\\') out += '\\';
      out += c;
    }
  }
  return out;
}

} // namespace tlx::lang
