// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Helpers of the parser's tests.
#pragma once
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "lang/parser.h"

namespace syntax {

struct Parsed {
  tlx::SourceManager sources;
  tlx::Diagnostics diags;
  std::unique_ptr<tlx::ast::File> file;
  explicit Parsed(const std::string &text) {
    uint32_t number = sources.add("test.tlx", text);
    file = tlx::lang::parseFile(sources, number, diags);
  }
};

inline std::string inKernel(const std::string &statements) {
  return "kernel k() {\n" + statements + "\n}\n";
}

/// "line:column-end message" of each diagnostic.
inline std::vector<std::string> errorsIn(const std::string &text) {
  Parsed parsed(text);
  std::vector<std::string> out;
  for (const tlx::Diagnostic &d : parsed.diags.all())
    out.push_back(std::to_string(d.loc.line) + ":" + std::to_string(d.loc.col) + "-" + std::to_string(d.loc.endCol) +
                  " " + d.message);
  return out;
}

/// The canonical text of a file that must be free of errors, after a check that it prints as itself.
inline std::string canonical(const std::string &text) {
  Parsed first(text);
  CHECK_MESSAGE(first.diags.all().empty(), first.diags.render(first.sources));
  std::string printed = tlx::ast::print(*first.file);
  Parsed second(printed);
  CHECK_MESSAGE(second.diags.all().empty(), second.diags.render(second.sources));
  CHECK(tlx::ast::print(*second.file) == printed);
  return printed;
}

/// The canonical text of one statement.
inline std::string statement(const std::string &text) {
  std::string all = canonical(inKernel(text));
  const std::string head = "kernel k() {\n    ", tail = "\n}\n";
  REQUIRE(all.size() > head.size() + tail.size());
  return all.substr(head.size(), all.size() - head.size() - tail.size());
}

/// The ```tlx blocks of docs/language.md, in order.
inline std::vector<std::string> documentedKernels() {
  std::ifstream in(TLX_SOURCE_DIR "/docs/language.md");
  REQUIRE(in.good());
  std::vector<std::string> blocks;
  std::string line;
  bool inside = false;
  while (std::getline(in, line)) {
    if (!inside && line == "```tlx") {
      inside = true;
      blocks.emplace_back();
    } else if (inside && line == "```") {
      inside = false;
    } else if (inside) {
      blocks.back() += line + "\n";
    }
  }
  return blocks;
}

} // namespace syntax
