// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the parts of the verifier share.
#pragma once
#include "ir/ir.h"

namespace tlx::ir::detail {

struct OpChecker {
  OpChecker(const Module &module, Diagnostics &diagnostics) : module(module), diagnostics(diagnostics) {}
  const Module &module;
  Diagnostics &diagnostics;

  bool fail(const Op &op, const std::string &rule); // reports; false
  /// One type, where layouts count only once the module says that they are assigned.
  bool same(Type a, Type b) const;
  /// The rules between the layouts of an op's operands and results: types, shapes and attributes are known to be right.
  bool layoutRules(const Op &op);
};

} // namespace tlx::ir::detail
