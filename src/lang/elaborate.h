// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Syntax tree + compile-time parameters → ir::Module. Everything that the language decides is decided here: names,
// types, promotion, broadcasting, compile-time evaluation, inlining, structured control flow. What depends on a target
// is left to the passes.
//
// The parts: elaborate.cpp (kernel, parameters, entry), elaborate_imports.cpp (files), elaborate_env.cpp (names, types,
// values), elaborate_promotion.cpp (the table, constants, broadcasting), elaborate_exprs.cpp (operators, calls),
// elaborate_stmts.cpp and elaborate_loops.cpp (SSA of variables, structured exits), elaborate_ops_*.cpp (operations),
// elaborate_facts.cpp (requires).
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/ir.h"
#include "support/diagnostics.h"
#include "support/source.h"

namespace tlx::lang {

/// Bounds on what a text can make the elaborator do. Each is an error that names the limit.
struct ElaborateLimits {
  unsigned steps = 500000;                 ///< expressions and statements elaborated, unrolled copies included
  unsigned unroll = 4096;                  ///< iterations of one static for
  unsigned callDepth = 64;                 ///< calls inside calls
  unsigned nesting = 3000;                 ///< levels of expressions, blocks and calls together
  unsigned operations = 20000;             ///< operations of the IR
  int64_t tileElements = int64_t(1) << 20; ///< elements of a tile
};

/// Supplies the text of an import; nullopt: not found.
using ImportFn = std::function<std::optional<std::string>(const std::string &)>;

struct ElaborateOptions {
  std::string kernel;                                      ///< may be empty if the file has exactly one
  std::vector<std::pair<std::string, std::string>> params; ///< as the user writes them: "128", "f16", "true", "relu"
  std::vector<std::string> facts;                          ///< as in requires(…): "K % 8 == 0"
  unsigned warpSize = 32;
  std::string target; ///< kept in the module
  ImportFn import;
  ElaborateLimits limits;
};

/// Parses `file` and what it imports, and elaborates one kernel. Null after errors were reported: every independent
/// one. Thread-safe for different contexts, source managers and diagnostics.
std::unique_ptr<ir::Module> elaborate(ir::Context &context, SourceManager &sources, uint32_t file,
                                      const ElaborateOptions &options, Diagnostics &diagnostics);

/// Names and texts of all imports of a file, transitive, each once, in the order in which they are met: what the
/// cache's key needs. nullopt if one cannot be read (elaborate will report it).
std::optional<std::vector<std::pair<std::string, std::string>>> importsOf(const std::string &source,
                                                                          const ImportFn &import);

/// Names of the operations that a kernel can call, sorted: for the documentation and its test.
std::vector<std::string> operationNames();

} // namespace tlx::lang
