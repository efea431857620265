// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions over an axis that several warps share.
//
//   %r = reduce %x {axis = 0} : f32               %p = reduce %x {axis = 0, partial = 1} : f32[4]   one element a warp
//                                           ->    %q = convert_layout %p : f32[4]                   all of them in each thread
//                                                 %r = reduce %q {axis = 0} : f32                   in registers
//
// Scans along such an axis, and atomics whose result more threads want than perform them, get bytes of shared memory to hand it over:
// {scratch = 4096}.
#include "ir/builder.h"
#include "passes/passes.h"

namespace tlx::passes {

using namespace ir;
using layout::Coord;
using layout::InDim;
using layout::TileLayout;

namespace {

/// Warp bits along the axis.
unsigned warpBitsAlong(const TileLayout &l, unsigned axis) {
  unsigned n = 0;
  for (const Coord &c : l.bases(InDim::Warp)) n += c[axis] != 0;
  return n;
}

struct Partial {
  TileLayout partial, gathered;
};
Partial partialLayouts(const TileLayout &l, unsigned axis, unsigned warpBits) {
  llvm::SmallVector<int64_t, 4> shape(l.shape());
  shape[axis] = int64_t(1) << warpBits;
  TileLayout::Bases partial, gathered;
  auto unit = [&](unsigned bit) {
    Coord c(shape.size(), 0);
    c[axis] = 1 << bit;
    return c;
  };
  for (unsigned b = 0; b < warpBits; ++b) gathered[unsigned(InDim::Register)].push_back(unit(b));
  for (const Coord &c : l.bases(InDim::Register)) {
    if (c[axis]) continue;
    partial[unsigned(InDim::Register)].push_back(c);
    gathered[unsigned(InDim::Register)].push_back(c);
  }
  for (InDim dim : {InDim::Lane, InDim::Warp, InDim::Cta}) {
    unsigned bit = 0;
    for (const Coord &c : l.bases(dim)) {
      Coord zero = c;
      zero[axis] = 0;
      gathered[unsigned(dim)].push_back(zero);
      partial[unsigned(dim)].push_back(dim == InDim::Warp && c[axis] ? unit(bit++) : zero);
    }
  }
  return {TileLayout(shape, partial), TileLayout(shape, gathered)};
}

/// Between warps a scan hands over totals, in rounds if there are many: a slot for each thread.
int64_t scanScratch(const Op &op, int64_t threads) {
  if (!warpBitsAlong(*op.operand(0)->type.layout(), unsigned(op.intAttr(Attr::axis)))) return 0;
  int64_t bytes = 0;
  for (const Value *v : op.operands()) bytes += 8 * int64_t(v->type.layout()->registers());
  return std::min<int64_t>(bytes, 32) * threads;
}
/// Each element is combined by one thread; where others have it too, it goes to them by a slot.
int64_t atomicScratch(const Op &op, int64_t threads) {
  if (op.result()->unused()) return 0;
  const Type t = op.result()->type;
  int64_t holders = 1;
  if (t.isTile())
    for (InDim dim : {InDim::Lane, InDim::Warp})
      holders <<= t.layout()->bits(dim) - unsigned(llvm::popcount(t.layout()->redundantMask(dim)));
  const int64_t bytes = std::max<int64_t>(1, scalarBytes(t.scalar())) * (t.isTile() ? t.elements() : 1);
  return holders < threads ? int64_t(llvm::alignTo(uint64_t(bytes), 16)) : 0;
}

} // namespace

bool lowerReductions(Module &module, const features::Target &target, Diagnostics &diagnostics) {
  std::vector<Op *> reductions;
  module.kernel.body.walk([&](Op &op) {
    const int64_t threads = int64_t(warpsOf(module, op)) * target.warpSize;
    if (op.is(Opcode::Reduce) && !op.hasAttr(Attr::partial)) reductions.push_back(&op);
    const bool atomic = op.is(Opcode::AtomicRmw) || op.is(Opcode::AtomicCas);
    if (int64_t bytes = op.is(Opcode::Scan) ? scanScratch(op, threads) : atomic ? atomicScratch(op, threads) : 0)
      op.setAttr(Attr::scratch, bytes);
  });
  for (Op *op : reductions) {
    unsigned axis = op->intAttr(Attr::axis);
    const TileLayout &l = *op->operand(0)->type.layout();
    unsigned warpBits = warpBitsAlong(l, axis);
    if (warpBits == 0) continue;
    Partial layouts = partialLayouts(l, axis, warpBits);
    Builder b(module);
    b.at(op);
    b.loc = op->loc;
    llvm::DenseMap<Value *, Value *> map;
    Op *partial = b.clone(*op, map);
    partial->setAttr(Attr::partial, int64_t(1));
    const TileLayout *partialLayout = module.context.unique(layouts.partial);
    const TileLayout *gatheredLayout = module.context.unique(layouts.gathered);
    for (unsigned i = 0; i < op->numResults(); ++i) {
      partial->result(i)->type =
          module.context.tile(op->operand(i)->type.element(), layouts.partial.shape(), partialLayout);
      op->setOperand(i, b.convertLayout(partial->result(i), gatheredLayout));
    }
  }
  return true;
}

} // namespace tlx::passes
