// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions: a tree over the registers of a thread in the order of the axis, then a butterfly over the lanes along it.
// Each step combines a pair that both sides see, the lower lane's values on the left unless the combiner is commutative
// to the last bit, so all lanes end with the same bits: a scalar is uniform.
// Across warps a pass has made a partial reduction (the axis keeps an element a warp), a conversion and a reduction in
// registers of it.
#include "codegen/codegen_p.h"

using namespace llvm;

namespace tlx::codegen {

namespace {
/// Whether `u` computes from a combiner's arguments what `v` does when left and right ones change places.
bool mirrored(const ir::Block &body, ir::Value *u, ir::Value *v,
              std::map<std::pair<ir::Value *, ir::Value *>, bool> &known) {
  using ir::Opcode;
  const unsigned n = body.numArgs() / 2;
  for (unsigned i = 0; i < body.numArgs(); ++i)
    if (u == body.arg(i)) return v == body.arg(i < n ? i + n : i - n);
  const ir::Op *a = u->def(), *c = v->def();
  if (!a || !c || a->parent() != &body || c->parent() != &body) return u == v;
  if (auto it = known.find({u, v}); it != known.end()) return it->second;
  bool same =
      a->opcode == c->opcode && a->numOperands() == c->numOperands() && a->attrs() == c->attrs() && u->type == v->type;
  auto operands = [&](unsigned i, unsigned j) { return mirrored(body, a->operand(i), c->operand(j), known); };
  if (same) {
    bool straight = true;
    for (unsigned i = 0; straight && i < a->numOperands(); ++i) straight = operands(i, i);
    static constexpr Opcode kCommutative[] = {Opcode::Add, Opcode::Mul, Opcode::And,    Opcode::Or,    Opcode::Xor,
                                              Opcode::Min, Opcode::Max, Opcode::MinNan, Opcode::MaxNan};
    same = straight || (is_contained(kCommutative, a->opcode) && operands(0, 1) && operands(1, 0));
  }
  return known[{u, v}] = same;
}
bool commutative(const ir::Block &body) {
  std::map<std::pair<ir::Value *, ir::Value *>, bool> known;
  return all_of(body.terminator()->operands(), [&](ir::Value *v) { return mirrored(body, v, v, known); });
}
} // namespace

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
  const bool ordered = !butterflies.empty() && !commutative(body);
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
      for (unsigned i = 0; ordered && i < count; ++i) {
        Value *lower = threadMaskIsZero(mask), *own = args[i], *far = args[count + i];
        args[i] = b.CreateSelect(lower, own, far);
        args[count + i] = b.CreateSelect(lower, far, own);
      }
      reduced[g] = inlineRegion(body, args);
    }
  }
  b.SetCurrentDebugLocation(debugLoc(op.loc));

  for (unsigned i = 0; i < count; ++i) {
    ir::Type type = op.result(i)->type;
    if (!type.isTile()) {
      set(op.result(i), uniform(reduced[0][i]));
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
