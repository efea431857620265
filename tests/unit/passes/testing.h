// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Helpers of the tests of passes: IR text in, module out.
#pragma once
#include <doctest/doctest.h>

#include "ir/builder.h"
#include "passes/passes.h"

namespace tlx::passes::testing {

struct Parsed {
  ir::Context context;
  SourceManager sources;
  Diagnostics diagnostics;
  std::unique_ptr<ir::Module> module;
  /// A kernel of these ops (without the last return), which the verifier accepts.
  Parsed(const std::string &args, const std::string &ops, const std::string &facts = "") {
    const uint32_t file = sources.add("test.ir", "kernel @k(" + args +
                                                     ") target = \"sm_80\" warps = 4 warp_size = 32 shared_bytes = 0 "
                                                     "properties = []\n" +
                                                     facts + "{\n" + ops + "\n  return\n}\n");
    module = ir::parse(context, sources, file, diagnostics);
    if (module) ir::verify(*module, diagnostics);
    REQUIRE_MESSAGE(!diagnostics.hasErrors(), diagnostics.render(sources));
  }
  /// The text between the braces, without the return.
  std::string body() const {
    std::string text = ir::print(*module);
    const size_t begin = text.find("{\n") + 2, end = text.rfind("  return\n");
    return text.substr(begin, end - begin);
  }
  /// The last op of the kernel before the return, and the ops by number from the start.
  ir::Op *last() const { return module->kernel.body.back()->prev(); }
  ir::Op *op(unsigned i) const { return module->kernel.body.ops()[i]; }
};

} // namespace tlx::passes::testing
