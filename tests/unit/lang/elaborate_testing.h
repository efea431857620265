// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Helpers of the elaborator's tests.
#pragma once
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "lang/elaborate.h"

namespace elaboration {

struct Elaborated {
  tlx::SourceManager sources;
  tlx::Diagnostics diags;
  tlx::ir::Context context; // outlives the module
  std::unique_ptr<tlx::ir::Module> module;

  explicit Elaborated(const std::string &text, const tlx::lang::ElaborateOptions &options = {},
                      const std::string &name = "test.tlx") {
    uint32_t file = sources.add(name, text);
    module = tlx::lang::elaborate(context, sources, file, options, diags);
    if (module) {
      tlx::Diagnostics broken;
      bool ok = tlx::ir::verify(*module, broken);
      CHECK_MESSAGE(ok, (text + "\n" + broken.render(sources)));
    }
  }
  /// "line:column-end message" of each, a line each.
  std::string errors() const {
    std::string out;
    for (const tlx::Diagnostic &d : diags.all())
      out += (out.empty() ? "" : "\n") + std::to_string(d.loc.line) + ":" + std::to_string(d.loc.col) + "-" +
             std::to_string(d.loc.endCol) + " " + d.message;
    return out;
  }
  /// The operations, without the line of the kernel and the braces.
  std::string body() const {
    if (!module) return diags.render(sources);
    std::string text = tlx::ir::print(*module);
    size_t open = text.find("\n{\n"), close = text.rfind("}");
    return text.substr(open + 3, close - open - 3);
  }
};

/// Statements of a kernel with these names, and functions beside it.
inline std::string program(const std::string &statements) {
  return "kernel k<N: i32 = 8>(p: *f32, h: *f16, b8: *i8, n: i32, m: i64, u: u32, s: f32) {\n" + statements +
         R"(
}
fn twice(x) { return x * 2; }
fn loop_self(x) { return loop_self(x); }
fn typed(x: i32) { return x; }
fn const_only(const x) { return x; }
fn no_return(x) { let y = x; }
fn half_return(x) { if x > 0 { return 1; } }
fn two_types(x) { if x > 0 { return 1.5; } return x; }
fn bad_combine(a, b) { return a < b; }
fn loading(a, b) { if a < b { return a; } return b; }
fn find(p, n) { for i in range(0, n) { if load(p + i) == 0.0 { return i; } } return -1; }
fn sign(x) { if x > 0 { return 1; } else if x < 0 { return -1; } return 0; }
fn pair(n) { if n > 0 { return (n, 1.0); } return (0, 2.0); }
fn swap2(a, b, c, d) { return (minimum(a, c), maximum(b, d)); }
fn a_b(a, b = 3) { return a * b; }
fn apply(x, f: fn) { return f(x); }
fn halved(x) { return x * 0.5; }
)";
}

inline std::filesystem::path root() {
  return TLX_SOURCE_DIR;
}
inline std::string readFile(const std::filesystem::path &path) {
  std::ifstream in(path);
  REQUIRE_MESSAGE(in.good(), path.string());
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

} // namespace elaboration
