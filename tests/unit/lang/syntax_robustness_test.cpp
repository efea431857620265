// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Hostile text: the limits, and thousands of damaged kernels. The kernels are those of docs/language.md, which also
// have to parse and print as themselves.
#include <algorithm>
#include <random>

#include "syntax_testing.h"

using namespace tlx;
using namespace tlx::lang;

namespace {

std::string repeat(const std::string &text, size_t times) {
  std::string out;
  for (size_t i = 0; i < times; ++i) out += text;
  return out;
}

std::string let(const std::string &expr) {
  return syntax::inKernel("let x = " + expr + ";");
}

std::string only(const std::string &text) {
  std::vector<std::string> errors = syntax::errorsIn(text);
  std::string all;
  for (size_t i = 0; i < std::min<size_t>(errors.size(), 3); ++i) all += errors[i] + "\n";
  CHECK_MESSAGE(errors.size() == 1, all);
  return errors.empty() ? "" : errors[0].substr(errors[0].find(' ') + 1);
}

/// Parses anything; every location must lie in the text, and text without errors must print as itself.
void checkParse(const std::string &text) {
  syntax::Parsed parsed(text);
  auto valid = [&](Loc loc) {
    std::string_view line = parsed.sources.line(loc.file, loc.line);
    // The line's text excludes a carriage return at its end, which a caret may stand on.
    return loc.file == 1 && loc.line >= 1 && loc.col >= 1 && loc.col <= line.size() + 2 && loc.endCol >= loc.col &&
           loc.endCol <= line.size() + 3;
  };
  for (const Diagnostic &d : parsed.diags.all()) {
    if (!valid(d.loc) || d.message.empty())
      FAIL(d.message << " at " << d.loc.line << ":" << d.loc.col << " in\n" << text);
    for (const auto &note : d.notes)
      if (!valid(note.loc)) FAIL(note.message << " in\n" << text);
  }
  if (parsed.diags.all().size() > kMaxSyntaxErrors + 1) FAIL("too many errors");
  std::string printed = ast::print(*parsed.file);
  syntax::Parsed again(printed);
  // Also what is left of a damaged file prints as itself: its tree keeps the promises of ast.h. Names that are too long
  // and the like stay in the tree, so errors are not asked for unless the first text had none.
  if (parsed.diags.all().empty() && !again.diags.all().empty()) FAIL(again.diags.render(again.sources));
  if (again.diags.all().empty() && ast::print(*again.file) != printed) FAIL(printed);
}

} // namespace

TEST_SUITE_BEGIN("syntax robustness");

TEST_CASE("documented kernels parse and print as themselves") {
  std::vector<std::string> kernels = syntax::documentedKernels();
  CHECK(kernels.size() >= 3);
  for (const std::string &text : kernels) {
    CAPTURE(text);
    syntax::canonical(text);
  }
}

TEST_CASE("nesting") {
  CHECK(syntax::errorsIn(let(repeat("(", 200) + "a" + repeat(")", 200))).empty());
  const std::string limit = "nested deeper than the limit of 256 levels";
  CHECK(only(let(repeat("(", 100000) + "a" + repeat(")", 100000))) == limit);
  CHECK(only(let(repeat("(", 100000))) == limit);
  CHECK(only(let(repeat("f([", 100000))) == limit);
  CHECK(only(let(repeat("!", 100000) + "a")) == limit);
  CHECK(only(let(repeat("- ", 100000) + "a")) == limit);
  CHECK(only(syntax::inKernel(repeat("{", 1000) + repeat("}", 1000))) == limit);
  CHECK(only(syntax::inKernel(repeat("if a {", 1000) + repeat("}", 1000))) == limit);
  CHECK(only(syntax::inKernel("if a {}" + repeat(" else if a {}", 10000))) == limit);
  CHECK(only("kernel k(x: " + repeat("*", 100000) + "f32) {}") == limit);
  CHECK(syntax::errorsIn(syntax::inKernel("if a {}" + repeat(" else if a {}", 200))).empty());
}

TEST_CASE("height of an expression") {
  CHECK(syntax::errorsIn(let("a" + repeat(" + a", 1000))).empty());
  const std::string limit = "this expression is higher than the limit of 1024 levels; name a part of it with 'let'";
  CHECK(only(let("a" + repeat(" + a", 100000))) == limit);
  CHECK(only(let("a" + repeat(".T", 100000))) == limit);
  CHECK(only(let("a" + repeat("[0]", 100000))) == limit);
  // Long is not high.
  CHECK(syntax::errorsIn(let("[" + repeat("a + 1, ", 20000) + "]")).empty());
}

TEST_CASE("sizes and counts") {
  CHECK(only(std::string(kMaxFileBytes + 1, ' ')) == "the file has 1048577 bytes; the limit is 1048576");
  CHECK(syntax::errorsIn(std::string(kMaxFileBytes, ' ')).empty());
  CHECK(only(let(std::string(256, 'a'))) == "this name has 256 bytes; the limit is 255");
  CHECK(syntax::errorsIn(let(std::string(255, 'a'))).empty());
  std::vector<std::string> errors = syntax::errorsIn(syntax::inKernel(repeat("let x = ;\n", 1000)));
  REQUIRE(errors.size() == kMaxSyntaxErrors + 1);
  CHECK(errors.back() == "102:9-10 more than 100 syntax errors; the rest of the file was not looked at");
  CHECK(syntax::errorsIn(syntax::inKernel(repeat("@ ;", 1000))).size() == kMaxSyntaxErrors + 1);
  CHECK(only("kernel k() { let s = \"\xff\xfe\"; }\n// \xff\n") == "the text is not valid UTF-8 here");
}

TEST_CASE("bytes without meaning") {
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (unsigned n = random() % 200; n > 0; --n) text += static_cast<char>(random());
    checkParse(text);
  }
}

TEST_CASE("damaged bytes") {
  std::vector<std::string> kernels = syntax::documentedKernels();
  std::mt19937 random(2);
  for (int i = 0; i < 6000; ++i) {
    std::string text = kernels[random() % kernels.size()];
    for (unsigned n = 1 + random() % 4; n > 0 && !text.empty(); --n) {
      size_t at = random() % text.size();
      switch (random() % 5) {
      case 0:
        text[at] = static_cast<char>(random());
        break;
      case 1:
        text.erase(at, 1 + random() % 20);
        break;
      case 2:
        text.insert(at, 1, "(){}[]<>;,.:=+-*/\"'#\\\n"[random() % 22]);
        break;
      case 3:
        text.insert(at, text.substr(random() % text.size(), random() % 40));
        break;
      case 4:
        text.resize(at);
        break;
      }
    }
    checkParse(text);
  }
}

TEST_CASE("damaged tokens") {
  const char *words[] = {"kernel", "fn",    "import", "const",  "let",    "var",  "if",          "else",       "for",
                         "in",     "while", "break",  "return", "static", "true", "async_tasks", "async_task", "range",
                         "_",      "not",   "(",      ")",      "{",      "}",    "[",           "]",          "<",
                         ">",      ";",     ",",      ":",      "=",      "==",   "+",           "-",          "*",
                         "/",      "//",    "<<",     ">>",     "&&",     "1",    "1.5",         "\"s\"",      "x",
                         "None",   "elif",  "and",    "?",      "tl"};
  std::vector<std::string> kernels = syntax::documentedKernels();
  std::mt19937 random(3);
  auto isWord = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (int i = 0; i < 6000; ++i) {
    std::string text = kernels[random() % kernels.size()];
    for (unsigned n = 1 + random() % 3; n > 0; --n) {
      size_t from = random() % text.size(), to = from + 1;
      while (from > 0 && isWord(text[from]) && isWord(text[from - 1])) --from;
      while (to < text.size() && isWord(text[from]) && isWord(text[to])) ++to;
      std::string word = std::string(" ") + words[random() % std::size(words)] + " ";
      if (random() % 3 == 0)
        text.insert(from, word);
      else
        text.replace(from, to - from, random() % 3 ? word : " ");
    }
    checkParse(text);
  }
}

TEST_SUITE_END();
