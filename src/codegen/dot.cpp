// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// dot: matrix instructions over the fragments of the operands' layouts, or fused multiply-adds where no instruction
// fits.
#include "codegen/codegen_p.h"
#include "device_ops/device_ops.h"
#include "features/mma_layouts.h"

using namespace llvm;

namespace tlx::codegen {

using features::MmaType;

void Generator::emitDot(const ir::Op &op) {
  const int64_t index = op.intAttr(ir::Attr::mma, -1);
  if (index < 0) return emitScalarDot(op);
  // As the pass that chose {mma} sees it.
  auto typeOf = [&](unsigned i) {
    return features::mmaType(target, ir::scalarName(op.operand(i)->type.scalar()), op.strAttr(ir::Attr::precision));
  };
  std::optional<MmaType> a = typeOf(0), c = typeOf(1);
  if (!a || !c) return fail(op, "no matrix instruction of these types");
  auto list = features::mmaInstructions(target, *a, *c);
  if (size_t(index) >= list.size()) return fail(op, "no such matrix instruction");
  emitMma(op, list[index]);
}

Value *Generator::toTf32(Value *v) {
  return device("tlx.nv.cvt.rna.tf32", v);
}

namespace {
/// The fragments of a tile: by the coordinate of their first register, numbers of fragments.
std::map<std::pair<int32_t, int32_t>, unsigned> fragmentsOf(const layout::TileLayout &layout, unsigned size) {
  std::map<std::pair<int32_t, int32_t>, unsigned> fragments;
  for (unsigned u = 0; u < layout.registers() / size; ++u) {
    layout::Coord c = layout.registerCoord(u * size);
    fragments.try_emplace({c[0], c[1]}, u);
  }
  return fragments;
}
} // namespace

void Generator::emitMma(const ir::Op &op, const features::MmaInstruction &mma) {
  const layout::TileLayout &aLayout = *op.operand(0)->type.layout(), &bLayout = *op.operand(1)->type.layout(),
                           &cLayout = *op.operand(2)->type.layout();
  const features::FragmentSizes sizes = features::fragmentSizes(target, mma);
  auto aFragments = fragmentsOf(aLayout, sizes.a), bFragments = fragmentsOf(bLayout, sizes.b);
  FunctionCallee callee = device_ops::getDeviceOp(*out, mma.deviceOp);
  FunctionType *signature = callee.getFunctionType();
  llvm::Type *cType = signature->getReturnType();
  llvm::Type *aType = signature->getParamType(mma.accumulatorFirst ? 1 : 0),
             *bType = signature->getParamType(mma.accumulatorFirst ? 2 : 1);
  Regs aRegs = operand(op, 0), bRegs = operand(op, 1), cRegs = operand(op, 2);
  if (registerType(op.result()->type.element()) != cType->getScalarType()) return unsupported(op, op.result()->type);
  const bool tf32 = mma.operand == MmaType::TF32, split = tf32 && op.strAttr(ir::Attr::precision) == "tf32x3";

  // A fragment as the instruction takes it, made when first used. `low`: what tf32 rounding leaves.
  struct Fragment {
    Value *high = nullptr, *low = nullptr;
  };
  std::vector<Fragment> aMade(aRegs.size() / sizes.a), bMade(bRegs.size() / sizes.b);
  auto fragment = [&](std::vector<Fragment> &made, Regs regs, unsigned size, unsigned u, llvm::Type *type) -> Fragment {
    Fragment &f = made[u];
    if (f.high) return f;
    Regs part = regs.slice(u * size, size);
    if (!tf32) {
      f.high = pack(part, type);
      return f;
    }
    RegList high, low;
    for (Value *v : part) {
      high.push_back(toTf32(v));
      if (split) low.push_back(toTf32(b.CreateFSub(v, b.CreateBitCast(high.back(), b.getFloatTy()))));
    }
    f.high = pack(high, type);
    if (split) f.low = pack(low, type);
    return f;
  };

  const unsigned count = cRegs.size() / sizes.accumulator;
  RegList accumulators;
  SmallVector<layout::Coord, 32> at;
  for (unsigned u = 0; u < count; ++u) {
    accumulators.push_back(pack(cRegs.slice(u * sizes.accumulator, sizes.accumulator), cType));
    at.push_back(cLayout.registerCoord(u * sizes.accumulator));
  }
  // k outermost: the loads of a step's fragments can overlap the instructions of the step before.
  const int64_t k = op.operand(0)->type.shape()[1];
  for (int64_t k0 = 0; k0 < k; k0 += mma.k)
    for (unsigned u = 0; u < count; ++u) {
      auto a = aFragments.find({at[u][0], int32_t(k0)}), c = bFragments.find({int32_t(k0), at[u][1]});
      if (a == aFragments.end() || c == bFragments.end())
        return fail(op, "the operands' layouts do not fit the accumulator's");
      Fragment x = fragment(aMade, aRegs, sizes.a, a->second, aType),
               y = fragment(bMade, bRegs, sizes.b, c->second, bType);
      auto issue = [&](Value *p, Value *q) {
        Value *&acc = accumulators[u];
        acc = mma.accumulatorFirst ? b.CreateCall(callee, {acc, p, q}) : b.CreateCall(callee, {p, q, acc});
      };
      if (split) { // the small products first
        issue(x.low, y.high);
        issue(x.high, y.low);
      }
      issue(x.high, y.high);
    }
  RegList regs;
  for (Value *acc : accumulators) unpack(acc, cType->getScalarType(), sizes.accumulator, regs);
  set(op.result(), regs);
}

void Generator::emitScalarDot(const ir::Op &op) {
  const ir::Type aType = op.operand(0)->type, accType = op.result()->type;
  const layout::TileLayout &aLayout = *aType.layout(), &bLayout = *op.operand(1)->type.layout(),
                           &cLayout = *accType.layout();
  const ir::Scalar from = aType.scalar(), fromB = op.operand(1)->type.scalar(), to = accType.scalar();
  const int64_t k = aType.shape()[1];
  DenseMap<Value *, Value *> convertedA, convertedB;
  auto convert = [&](DenseMap<Value *, Value *> &converted, Value *v, ir::Scalar type) {
    Value *&c = converted[v];
    if (!c) c = castScalar(v, type, to);
    return c;
  };
  RegList regs(operand(op, 2));
  for (int64_t kk = 0; kk < k; ++kk)
    for (unsigned r = 0; r < regs.size(); ++r) {
      layout::Coord c = cLayout.registerCoord(r);
      const int x = registerAt(aLayout, {c[0], int32_t(kk)}), y = registerAt(bLayout, {int32_t(kk), c[1]});
      if (x < 0 || y < 0) return fail(op, "the operands' layouts do not hold k in registers");
      Value *p = convert(convertedA, operand(op, 0)[x], from), *q = convert(convertedB, operand(op, 1)[y], fromB);
      regs[r] = ir::isFloat(to) ? intrinsic(Intrinsic::fma, {p, q, regs[r]}) : b.CreateAdd(b.CreateMul(p, q), regs[r]);
    }
  set(op.result(), regs);
}

} // namespace tlx::codegen
