// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions: a tree over the registers of a thread in the order of the axis, then a butterfly over the lanes along it.
// Each step combines a pair that both sides see, and a combiner is commutative, so all lanes end with the same bits.
// Across warps a pass has made a partial reduction (the axis keeps an element a warp), a conversion and a reduction in
// registers of it.
#include "codegen/codegen_p.h"

using namespace llvm;

namespace tlx::codegen {

RegList Generator::inlineRegion(const ir::Block &body, Regs args) {
  for (unsigned i = 0; i < body.numArgs(); ++i) set(body.arg(i), args[i]);
  emitBlock(body);
  return flatten(body.terminator()->operands());
}

void Generator::emitReduce(const ir::Op &op) {
  const unsigned axis = unsigned(op.intAttr(ir::Attr::axis)), count = op.numOperands();
  const layout::TileLayout &layout = *op.operand(0)->type.layout();
  for (unsigned i = 1; i < count; ++i)
    if (op.operand(i)->type.layout() != &layout && !(*op.operand(i)->type.layout() == layout))
      return fail(op, "operands differ in layout");

  // Registers by what remains of their coordinate, each group along the axis.
  auto rest = [&](layout::Coord c) {
    c.erase(c.begin() + axis);
    return c;
  };
  SmallVector<int64_t, 4> restShape(layout.shape());
  restShape.erase(restShape.begin() + axis);
  std::map<int64_t, SmallVector<std::pair<int32_t, unsigned>, 16>> groups;
  ArrayRef<unsigned> first = canonicalRegisters(layout);
  for (unsigned r = 0; r < layout.registers(); ++r) {
    if (first[r] != r) continue;
    layout::Coord c = layout.registerCoord(r);
    groups[linearIndex(restShape, rest(c))].push_back({c[axis], r});
  }

  // Lane bits that reach further along the axis. A bit that also moves elsewhere would pair elements of different
  // results.
  const unsigned redundantLanes = layout.redundantMask(layout::InDim::Lane),
                 redundantWarps = layout.redundantMask(layout::InDim::Warp);
  SmallVector<unsigned, 6> butterflies;
  for (unsigned i = 0; i < layout.bits(layout::InDim::Lane); ++i) {
    const layout::Coord &basis = layout.bases(layout::InDim::Lane)[i];
    if (!basis[axis] || (redundantLanes >> i & 1)) continue;
    if (any_of(rest(basis), [](int32_t c) { return c != 0; }))
      return fail(op, "a lane bit moves along the axis and across it");
    butterflies.push_back(1u << i);
  }
  if (!op.intAttr(ir::Attr::partial))
    for (unsigned i = 0; i < layout.bits(layout::InDim::Warp); ++i)
      if (layout.bases(layout::InDim::Warp)[i][axis] && !(redundantWarps >> i & 1))
        return fail(op, "a reduction across warps has not been lowered");

  const ir::Block &body = op.body();
  DenseMap<int64_t, unsigned> indexOf;
  SmallVector<RegList, 8> reduced; // by group, then operand
  for (auto &[key, members] : groups) {
    sort(members);
    SmallVector<RegList, 16> level;
    for (auto [position, r] : members) {
      RegList elements;
      for (unsigned i = 0; i < count; ++i) elements.push_back(operand(op, i)[r]);
      level.push_back(std::move(elements));
    }
    while (level.size() > 1) {
      SmallVector<RegList, 16> next;
      for (unsigned i = 0; i + 1 < level.size(); i += 2) {
        RegList args = level[i];
        args.append(level[i + 1].begin(), level[i + 1].end());
        next.push_back(inlineRegion(body, args));
      }
      if (level.size() % 2) next.push_back(level.back());
      level = std::move(next);
    }
    indexOf[key] = reduced.size();
    reduced.push_back(std::move(level[0]));
  }
  for (unsigned mask : butterflies) {
    SmallVector<RegList, 4> other; // by operand, then group
    for (unsigned i = 0; i < count; ++i) {
      RegList column;
      for (const RegList &group : reduced) column.push_back(group[i]);
      other.push_back(shuffleXor(column, mask));
    }
    for (unsigned g = 0; g < reduced.size(); ++g) {
      RegList args = reduced[g];
      for (unsigned i = 0; i < count; ++i) args.push_back(other[i][g]);
      reduced[g] = inlineRegion(body, args);
    }
  }
  b.SetCurrentDebugLocation(debugLoc(op.loc));

  for (unsigned i = 0; i < count; ++i) {
    ir::Type type = op.result(i)->type;
    if (!type.isTile()) {
      set(op.result(i), reduced[0][i]);
      continue;
    }
    RegList regs;
    for (unsigned r = 0; r < type.layout()->registers(); ++r) {
      layout::Coord c = type.layout()->registerCoord(r);
      auto it = indexOf.find(linearIndex(restShape, op.intAttr(ir::Attr::partial) ? rest(c) : c));
      if (it == indexOf.end()) return fail(op, "the result's layout does not follow from the operand's");
      regs.push_back(reduced[it->second][i]);
    }
    set(op.result(i), regs);
  }
}

} // namespace tlx::codegen
