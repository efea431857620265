// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rules between layouts, for modules that have them: elementwise operations keep the layout, shape operations move no
// data, so the layouts of their operands and results determine each other. Where information is lost in one direction
// (a broadcast's new dimension may be spread over threads) either direction of the derivation is accepted.
#include "ir/verifier_p.h"

namespace tlx::ir::detail {

using layout::TileLayout;

namespace {

/// The layout that a tile with extents of 1 must have so that broadcasting it to `to` moves nothing.
TileLayout shrunk(const TileLayout &to, llvm::ArrayRef<int64_t> shape) {
  TileLayout out = to;
  for (unsigned d = 0; d < shape.size(); ++d)
    if (shape[d] == 1 && to.shape()[d] != 1) out = layout::expandDims(layout::slice(out, d), d);
  return out;
}

llvm::SmallVector<unsigned, 4> permutation(const Op &op) {
  llvm::SmallVector<unsigned, 4> perm;
  for (int64_t p : op.listAttr(Attr::perm)) perm.push_back(unsigned(p));
  return perm;
}

} // namespace

bool OpChecker::layoutRules(const Op &op) {
  auto layoutOf = [](Value *v) { return v->type.layout(); };
  const TileLayout *from = op.numOperands() ? layoutOf(op.operand(0)) : nullptr;
  const TileLayout *to = op.numResults() ? layoutOf(op.result()) : nullptr;
  switch (op.opcode) {
  case Opcode::ExpandDims: {
    const unsigned axis = unsigned(op.intAttr(Attr::axis));
    if (layout::expandDims(*from, axis) == *to || layout::slice(*to, axis) == *from) return true;
    return fail(op, "the result's layout is the operand's with a dimension inserted at 'axis'");
  }
  case Opcode::Broadcast:
    if (layout::broadcastTo(*from, to->shape()) == *to || shrunk(*to, from->shape()) == *from) return true;
    return fail(op, "the operand's layout is the result's where grown dimensions are left out");
  case Opcode::Trans:
    if (layout::transpose(*from, permutation(op)) == *to) return true;
    return fail(op, "the result's layout is the operand's, transposed");
  case Opcode::Reshape: {
    const std::optional<TileLayout> want = layout::reshape(*from, to->shape()),
                                    back = layout::reshape(*to, from->shape());
    if ((want && *want == *to) || (back && *back == *from)) return true;
    return fail(op, "the result's layout is the operand's, reshaped");
  }
  case Opcode::Join: {
    const std::optional<TileLayout> back = layout::split(*to);
    if (layout::join(*from) == *to || (back && *back == *from)) return true;
    return fail(op, "the result's layout is the operands' with the new dimension in registers");
  }
  case Opcode::Split: {
    const std::optional<TileLayout> want = layout::split(*from);
    if (want && *want == *to) return true;
    return fail(op, "the operand's layout has the last dimension in one register bit, and the results' are without it");
  }
  case Opcode::Reduce:
    for (unsigned i = 0; i < op.numOperands(); ++i) {
      if (layoutOf(op.operand(i)) != from) return fail(op, "operands have one layout");
      const TileLayout *r = layoutOf(op.result(i));
      if (!r || op.intAttr(Attr::partial)) continue;
      if (layout::slice(*from, unsigned(op.intAttr(Attr::axis))) != *r)
        return fail(op, "the result's layout is the operand's without the axis");
    }
    return true;
  case Opcode::Scan:
    for (Value *v : op.operands())
      if (layoutOf(v) != from) return fail(op, "operands have one layout");
    return true;
  case Opcode::RequireLayout:
  case Opcode::ConvertLayout:
    return true;
  default:
    break;
  }
  if (!op.has(Elementwise)) return true;
  // The scalar condition of a select has no layout.
  const TileLayout *first = nullptr;
  auto agrees = [&](Value *v) {
    if (!v->type.isTile()) return true;
    if (!first) first = layoutOf(v);
    return layoutOf(v) == first;
  };
  for (Value *v : op.operands())
    if (!agrees(v)) return fail(op, "operands and results have one layout");
  for (unsigned i = 0; i < op.numResults(); ++i)
    if (!agrees(op.result(i))) return fail(op, "operands and results have one layout");
  return true;
}

} // namespace tlx::ir::detail
