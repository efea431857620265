// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Helpers of the IR tests: text in, module or diagnostics out.
#pragma once
#include <doctest/doctest.h>

#include "ir/builder.h"

namespace tlx::ir::testing {

/// A module parsed from text, with everything that it needs to live.
struct Parsed {
  Context context;
  SourceManager sources;
  Diagnostics diagnostics;
  std::unique_ptr<Module> module;
  explicit Parsed(std::string text) {
    const uint32_t file = sources.add("test.ir", std::move(text));
    module = parse(context, sources, file, diagnostics);
  }
  std::string messages() const { return diagnostics.render(sources); }
};

/// A kernel around these ops, which may use its arguments.
inline std::string kernel(const std::string &ops, const std::string &args = "", const std::string &properties = "") {
  return "kernel @k(" + args + ") target = \"sm_80\" warps = 4 warp_size = 32 shared_bytes = 0 properties = [" +
         properties + "]\n{\n" + ops + "\n  return\n}\n";
}

} // namespace tlx::ir::testing
