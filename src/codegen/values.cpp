// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Constants, program ids, and the shape operations, which only number registers anew.
#include "codegen/codegen_p.h"

using namespace llvm;

namespace tlx::codegen {

static const fltSemantics &semanticsOf(ir::Scalar s) {
  switch (s) {
  case ir::Scalar::F8E4M3:
    return APFloat::Float8E4M3FN();
  case ir::Scalar::F8E5M2:
    return APFloat::Float8E5M2();
  case ir::Scalar::F8E4M3FNUZ:
    return APFloat::Float8E4M3FNUZ();
  case ir::Scalar::F8E5M2FNUZ:
    return APFloat::Float8E5M2FNUZ();
  case ir::Scalar::F16:
    return APFloat::IEEEhalf();
  case ir::Scalar::BF16:
    return APFloat::BFloat();
  case ir::Scalar::F32:
    return APFloat::IEEEsingle();
  default:
    return APFloat::IEEEdouble();
  }
}

Constant *Generator::constantOf(const ir::Op &op) {
  ir::Type element = op.result()->type.element();
  if (element.isPointer()) return ConstantPointerNull::get(b.getPtrTy(1));
  ir::Scalar s = element.scalar();
  llvm::Type *type = registerType(element);
  const ir::AttrValue *value = nullptr;
  for (const auto &[key, v] : op.attrs())
    if (key == ir::Attr::value) value = &v;
  if (!value) {
    fail(op, "no value");
    return Constant::getNullValue(type);
  }
  if (ir::isInt(s)) {
    const int64_t *n = std::get_if<int64_t>(value);
    return ConstantInt::get(context, APInt(ir::scalarBits(s), uint64_t(n ? *n : 0), false, true));
  }
  const int64_t *n = std::get_if<int64_t>(value);
  const double *d = std::get_if<double>(value);
  APFloat f(d ? *d : n ? double(*n) : 0.0);
  bool inexact;
  if (ir::isFp8(s)) { // saturating, as casts
    APFloat most = APFloat::getLargest(semanticsOf(s));
    most.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &inexact);
    if (!f.isNaN() && abs(f).compare(most) == APFloat::cmpGreaterThan) {
      if (f.isNegative()) most.changeSign();
      f = most;
    }
  }
  f.convert(semanticsOf(s), APFloat::rmNearestTiesToEven, &inexact);
  if (ir::isFp8(s)) return ConstantInt::get(context, f.bitcastToAPInt());
  return ConstantFP::get(context, f);
}

void Generator::emitConstant(const ir::Op &op) {
  Value *c = constantOf(op);
  ir::Type t = op.result()->type;
  set(op.result(), RegList(t.isTile() ? t.layout()->registers() : 1, c));
}

static const char *const kAxisNames[] = {"x", "y", "z"};

void Generator::emitProgramId(const ir::Op &op) {
  std::string name =
      std::string(nvidia() ? "tlx.nv.ctaid." : "tlx.amd.workgroup.id.") + kAxisNames[op.intAttr(ir::Attr::axis)];
  set(op.result(), device(name, {}));
}

void Generator::emitNumPrograms(const ir::Op &op) {
  const int64_t axis = op.intAttr(ir::Attr::axis);
  set(op.result(),
      target.scalarGridArgs ? gridArgs[axis] : device(std::string("tlx.nv.nctaid.") + kAxisNames[axis], {}));
}

void Generator::emitArange(const ir::Op &op) {
  const layout::TileLayout &layout = *op.result()->type.layout();
  RegList regs;
  for (unsigned r = 0; r < layout.registers(); ++r) {
    regs.push_back(coordinate(layout, r, 0, op.intAttr(ir::Attr::start)));
    auto *sum = dyn_cast<BinaryOperator>(regs.back());
    if (sum && sum->getOpcode() == Instruction::Add)
      if (auto *c = dyn_cast<ConstantInt>(sum->getOperand(1))) aranges[sum] = {sum->getOperand(0), c->getSExtValue()};
  }
  set(op.result(), regs);
}

void Generator::emitSplat(const ir::Op &op) {
  set(op.result(), RegList(op.result()->type.layout()->registers(), scalarOperand(op, 0)));
}

std::optional<SmallVector<unsigned, 32>>
Generator::renumber(const layout::TileLayout &to, const layout::TileLayout &from,
                    function_ref<layout::Coord(const layout::Coord &)> source) {
  SmallVector<unsigned, 32> numbers;
  for (unsigned r = 0; r < to.registers(); ++r) {
    int at = registerAt(from, source(to.registerCoord(r)));
    if (at < 0) return std::nullopt;
    numbers.push_back(unsigned(at));
  }
  // What holds for thread 0 holds for all if each thread bit moves both sides alike.
  auto agree = [&](layout::InDim dim) {
    if (to.bits(dim) != from.bits(dim)) return false;
    for (unsigned i = 0; i < to.bits(dim); ++i) {
      const bool lane = dim == layout::InDim::Lane;
      const unsigned bit = 1u << i;
      if (source(to.coordOf(0, lane ? bit : 0, lane ? 0 : bit)) !=
          from.coordOf(numbers[0], lane ? bit : 0, lane ? 0 : bit))
        return false;
    }
    return true;
  };
  if (!agree(layout::InDim::Lane) || !agree(layout::InDim::Warp)) return std::nullopt;
  return numbers;
}

void Generator::emitShape(const ir::Op &op) {
  const layout::TileLayout &to = *op.result()->type.layout(), &from = *op.operand(0)->type.layout();
  const unsigned axis = unsigned(op.intAttr(ir::Attr::axis));
  ArrayRef<int64_t> perm = op.listAttr(ir::Attr::perm);
  auto numbers = renumber(to, from, [&](const layout::Coord &c) {
    layout::Coord s = c;
    switch (op.opcode) {
    case ir::Opcode::ExpandDims:
      s.erase(s.begin() + axis);
      break;
    case ir::Opcode::Broadcast:
      for (unsigned d = 0; d < s.size(); ++d)
        if (from.shape()[d] == 1) s[d] = 0;
      break;
    case ir::Opcode::Trans:
      for (unsigned d = 0; d < s.size(); ++d) s[perm[d]] = c[d];
      break;
    default: { // reshape
      int64_t index = linearIndex(to.shape(), c);
      s.assign(from.rank(), 0);
      for (unsigned d = from.rank(); d-- > 0; index /= from.shape()[d]) s[d] = int32_t(index % from.shape()[d]);
    }
    }
    return s;
  });
  if (!numbers) return fail(op, "the layouts of operand and result do not agree");
  Regs in = operand(op, 0);
  RegList regs;
  for (unsigned n : *numbers) regs.push_back(in[n]);
  set(op.result(), regs);
}

void Generator::emitJoin(const ir::Op &op) {
  const layout::TileLayout &to = *op.result()->type.layout(), &from = *op.operand(0)->type.layout();
  auto numbers = renumber(to, from, [](const layout::Coord &c) { return layout::Coord(c.begin(), c.end() - 1); });
  if (!numbers) return fail(op, "the layouts of operands and result do not agree");
  RegList regs;
  for (unsigned r = 0; r < to.registers(); ++r) regs.push_back(operand(op, to.registerCoord(r).back())[(*numbers)[r]]);
  set(op.result(), regs);
}

void Generator::emitSplit(const ir::Op &op) {
  const layout::TileLayout &from = *op.operand(0)->type.layout();
  for (unsigned half = 0; half < 2; ++half) {
    auto numbers = renumber(*op.result(half)->type.layout(), from, [&](const layout::Coord &c) {
      layout::Coord s = c;
      s.push_back(int32_t(half));
      return s;
    });
    if (!numbers) return fail(op, "the layouts of operand and results do not agree");
    RegList regs;
    for (unsigned n : *numbers) regs.push_back(operand(op, 0)[n]);
    set(op.result(half), regs);
  }
}

} // namespace tlx::codegen
