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
  // Conditions of one op: report and return false where broken.
  bool need(const Op &op, bool condition, const char *rule) { return condition || fail(op, rule); }
  bool intAttr(const Op &op, Attr a, int64_t min, int64_t max);
  bool strAttr(const Op &op, Attr a, llvm::ArrayRef<const char *> values); // if it is there
  /// Descriptors, mbarriers, single regions and asynchronous units: verifier_async.cpp. True for any other op.
  bool asyncRules(const Op &op);
  /// The rules between the layouts of an op's operands and results: types, shapes and attributes are known to be right.
  bool layoutRules(const Op &op);
};

inline bool isScalarOf(Type t, Scalar s) {
  return t.isScalar() && t.scalar() == s;
}

} // namespace tlx::ir::detail
