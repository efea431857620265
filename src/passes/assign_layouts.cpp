// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Layout assignment.
//
//   %p = addptr … : *f16[128, 32]            %p = addptr … : *f16[128, 32, #coalesced]
//   %a = load %p : f16[128, 32]        ->    %a = load %p : f16[128, 32, #coalesced]
//   %d = dot %a, %b, %c                      %1 = convert_layout %a : f16[128, 32, #operandA]
//                                            %d = dot %1, … {mma = 0} : f32[128, 128, #accumulator]
//
// Values that one layout serves without movement (operands and results of elementwise operations, a loop's carried values) form
// a class. Classes get layouts by priority: matrix instructions, then require_layout, then loads and stores (coalescing), then defaults.
// Shape operations relate classes. Where a use needs another layout than its class has, a convert_layout is inserted. What is cheap to
// compute again (indices, constants) is cloned for each use first, so it never needs a conversion.
#include "llvm/ADT/DenseSet.h"

#include "features/mma_layouts.h"
#include "ir/builder.h"
#include "layout/message_layout.h"
#include "passes/async_dots.h"
#include "passes/axis_analysis.h"
#include "passes/direct_copies.h"
#include "passes/passes.h"

namespace tlx::passes {

using namespace ir;
using layout::TileLayout;

namespace {

using Layout = const TileLayout *;

/// The layout an operand of extent 1 along some dimensions needs so that broadcasting it to `l` moves nothing.
TileLayout shrunk(const TileLayout &l, llvm::ArrayRef<int64_t> shape) {
  TileLayout out = l;
  for (unsigned d = 0; d < shape.size(); ++d)
    if (shape[d] == 1 && l.shape()[d] != 1) out = layout::expandDims(layout::slice(out, d), d);
  return out;
}

struct DotPlan {
  Layout accumulator, a, b; // null: the operand goes through shared memory
};

struct Assigner {
  Assigner(Module &module, const features::Target &target, Diagnostics &diagnostics)
      : module(module), target(target), diagnostics(diagnostics), context(module.context) {}
  Module &module;
  const features::Target &target;
  Diagnostics &diagnostics;
  Context &context;

  llvm::DenseMap<Value *, unsigned> ids;
  std::vector<unsigned> parent;
  std::vector<Layout> assigned; // by class representative
  std::vector<std::vector<Value *>> members;
  llvm::DenseMap<Op *, DotPlan> dots;
  std::vector<std::pair<Op *, WgmmaDot>> asyncDots;

  // --- classes --------------------------------------------------------------------------------------------------
  unsigned id(Value *v) {
    auto [it, fresh] = ids.try_emplace(v, parent.size());
    if (fresh) {
      parent.push_back(it->second);
      assigned.push_back(nullptr);
      members.push_back({v});
    }
    return it->second;
  }
  unsigned find(unsigned i) {
    while (parent[i] != i) i = parent[i] = parent[parent[i]];
    return i;
  }
  unsigned classOf(Value *v) { return find(id(v)); }
  void tie(Value *a, Value *b) {
    if (!a->type.isTile() || !b->type.isTile()) return;
    unsigned x = classOf(a), y = classOf(b);
    if (x == y) return;
    if (members[x].size() < members[y].size()) std::swap(x, y);
    parent[y] = x;
    members[x].insert(members[x].end(), members[y].begin(), members[y].end());
    members[y].clear();
  }
  Layout layoutOf(Value *v) { return assigned[classOf(v)]; }

  void tieOp(Op &op) {
    switch (op.opcode) {
    case Opcode::Store:
      if (op.numOperands() > 2) tie(op.operand(0), op.operand(2));
      break;
    case Opcode::AtomicRmw:
    case Opcode::AtomicCas: {
      const unsigned mask = op.is(Opcode::AtomicCas) ? 3 : 2;
      tie(op.operand(0), op.result());
      if (op.numOperands() > mask) tie(op.operand(0), op.operand(mask));
      break;
    }
    case Opcode::AsyncCopy:
      for (unsigned i = 2; i < op.numOperands(); ++i) tie(op.operand(1), op.operand(i));
      break;
    case Opcode::LocalGather:
      tie(op.operand(1), op.result());
      break;
    case Opcode::LocalScatter:
      tie(op.operand(1), op.operand(2));
      break;
    case Opcode::RequireLayout:
      id(op.result());
      break; // an edge: the operand may have another layout
    case Opcode::Dot:
    case Opcode::AsyncDot:
      tie(op.operand(2), op.result());
      break;
    case Opcode::AsyncDotWait:
      for (unsigned i = 0; i < op.numResults(); ++i) tie(op.operand(i), op.result(i));
      break;
    case Opcode::Reduce:
      for (unsigned i = 1; i < op.numOperands(); ++i)
        tie(op.operand(0), op.operand(i)), tie(op.result(0), op.result(i));
      break;
    case Opcode::Scan:
      for (unsigned i = 0; i < op.numOperands(); ++i)
        tie(op.operand(0), op.operand(i)), tie(op.operand(0), op.result(i));
      break;
    case Opcode::For:
      for (unsigned i = 0; i < op.numResults(); ++i) {
        tie(op.operand(3 + i), op.result(i));
        tie(op.result(i), op.body().arg(1 + i));
        tie(op.result(i), op.body().terminator()->operand(i));
      }
      break;
    case Opcode::While:
      for (unsigned i = 0; i < op.numResults(); ++i) {
        tie(op.operand(i), op.result(i));
        tie(op.result(i), op.body(0).arg(i));
        tie(op.result(i), op.body(0).terminator()->operand(1 + i));
        tie(op.result(i), op.body(1).arg(i));
        tie(op.result(i), op.body(1).terminator()->operand(i));
      }
      break;
    case Opcode::If:
      for (unsigned i = 0; i < op.numResults(); ++i)
        for (unsigned r = 0; r < 2; ++r) tie(op.result(i), op.body(r).terminator()->operand(i));
      break;
    case Opcode::Split:
      tie(op.result(0), op.result(1));
      break;
    case Opcode::Join:
      tie(op.operand(0), op.operand(1));
      break;
    default:
      if (!op.has(Elementwise)) break;
      Value *first = nullptr;
      auto all = [&](Value *v) {
        if (!v->type.isTile()) return;
        if (first) tie(first, v);
        first = v;
      };
      for (Value *v : op.operands()) all(v);
      for (unsigned i = 0; i < op.numResults(); ++i) all(op.result(i));
    }
  }

  // --- assignment and propagation -------------------------------------------------------------------------------
  std::vector<unsigned> worklist;

  void assign(Value *v, Layout l) {
    unsigned c = classOf(v);
    if (assigned[c]) return;
    assigned[c] = l;
    worklist.push_back(c);
    while (!worklist.empty()) {
      unsigned next = worklist.back();
      worklist.pop_back();
      std::vector<Value *> values = members[next]; // ids may grow
      for (Value *m : values) propagate(m, assigned[next]);
    }
  }
  void set(Value *v, const TileLayout &l) {
    if (!v->type.isTile()) return;
    unsigned c = classOf(v);
    if (assigned[c]) return;
    assigned[c] = context.unique(l);
    worklist.push_back(c);
  }

  static llvm::SmallVector<unsigned, 4> permOf(const Op &op) {
    return llvm::SmallVector<unsigned, 4>(op.listAttr(Attr::perm).begin(), op.listAttr(Attr::perm).end());
  }
  static llvm::SmallVector<unsigned, 4> inverse(llvm::ArrayRef<unsigned> perm) {
    llvm::SmallVector<unsigned, 4> inv(perm.size());
    for (unsigned i = 0; i < perm.size(); ++i) inv[perm[i]] = i;
    return inv;
  }

  void propagate(Value *v, Layout l) {
    if (Op *def = v->def()) { // to the operands of a shape operation that makes v
      Value *x = def->numOperands() ? def->operand(0) : nullptr;
      switch (def->opcode) {
      case Opcode::ExpandDims:
        set(x, layout::slice(*l, def->intAttr(Attr::axis)));
        break;
      case Opcode::Broadcast:
        set(x, shrunk(*l, x->type.shape()));
        break;
      case Opcode::Trans:
        set(x, layout::transpose(*l, inverse(permOf(*def))));
        break;
      case Opcode::Reshape:
        if (auto r = layout::reshape(*l, x->type.shape())) set(x, *r);
        break;
      case Opcode::Join:
        if (auto r = layout::split(*l)) set(x, *r);
        break;
      case Opcode::Split:
        set(x, layout::join(*l));
        break;
      default:
        break;
      }
    }
    for (const Use &use : v->uses()) {
      Op &op = *use.op;
      switch (op.opcode) {
      case Opcode::Reduce:
        if (op.result()->type.isTile()) set(op.result(), layout::slice(*l, op.intAttr(Attr::axis)));
        break;
      case Opcode::Trans:
        set(op.result(), layout::transpose(*l, permOf(op)));
        break;
      case Opcode::Reshape:
        if (auto r = layout::reshape(*l, op.result()->type.shape())) set(op.result(), *r);
        break;
      case Opcode::Join:
        set(op.result(), layout::join(*l));
        break;
      case Opcode::Split:
        if (auto r = layout::split(*l)) set(op.result(), *r);
        break;
      default:
        break;
      }
    }
  }

  // --- matrix instructions --------------------------------------------------------------------------------------
  /// Why a dot of 8-bit floats does not go through wgmma.
  static std::string wgmmaLacks(int64_t m, int64_t n, int64_t k, unsigned warps) {
    if (warps % 4) return llvm::formatv("num_warps to be a multiple of 4, not {0}", warps);
    if (m % 64) return llvm::formatv("M to be a multiple of 64, not {0}", m);
    if (k % 32) return llvm::formatv("K to be a multiple of 32 for 8-bit types, not {0}", k);
    if (!features::planWgmma(m, n, k, 8, false, warps))
      return llvm::formatv("a tile that {0} warpgroups can share: {1} x {2} is none", warps / 4, m, n);
    return llvm::formatv("K as the contiguous dimension of both operands: load B as a tile [{0}, {1}] and pass its .T",
                         n, k);
  }

  /// A product that is written for wgmma.
  bool planAsyncDot(Op &op) {
    const Type a = op.operand(0)->type, acc = op.operand(2)->type;
    const int64_t m = acc.shape()[0], n = acc.shape()[1], k = a.shape()[1];
    const unsigned bits = 8 * scalarBytes(op.operand(1)->type.scalar()), warps = warpsOf(module, op);
    const auto plan = features::planWgmma(m, n, k, bits, !isFloat(acc.scalar()), warps);
    if (!plan) {
      std::string why = llvm::formatv("K is a multiple of {0} here, not {1}", 256 / bits, k);
      if (warps % 4)
        why = llvm::formatv("it is done by 4 warps or a multiple, not by {0}", warps);
      else if (m % 64)
        why = llvm::formatv("M is a multiple of 64, not {0}", m);
      else if (k % (256 / bits) == 0)
        why = llvm::formatv("{0} warpgroups cannot share a tile of {1} x {2}", warps / 4, m, n);
      diagnostics.report(Diag::AsyncDotForm, op.loc, why);
      return false;
    }
    dots[&op] = {context.unique(features::wgmmaAccumulator(*plan, m, n)),
                 a.isTile() ? context.unique(features::wgmmaOperandA(*plan, m, k, bits)) : nullptr, nullptr};
    return true;
  }

  bool planDot(Op &op, const AxisAnalysis &axis) {
    if (op.is(Opcode::AsyncDot)) return planAsyncDot(op);
    Type a = op.operand(0)->type, acc = op.operand(2)->type;
    const unsigned warps = warpsOf(module, op);
    int64_t m = acc.shape()[0], n = acc.shape()[1], k = a.shape()[1];
    if (auto wgmma = planWgmmaDot(op, warps, target, axis)) {
      DotPlan plan{context.unique(features::wgmmaAccumulator(wgmma->plan, m, n)), nullptr, nullptr};
      if (!wgmma->a.memory)
        plan.a = context.unique(features::wgmmaOperandA(wgmma->plan, m, k, 8 * scalarBytes(a.scalar())));
      dots[&op] = plan;
      asyncDots.push_back({&op, std::move(*wgmma)});
      return true;
    }
    const llvm::StringRef precision = op.strAttr(Attr::precision);
    auto typeA = features::mmaType(target, scalarName(a.scalar()), precision),
         typeB = features::mmaType(target, scalarName(op.operand(1)->type.scalar()), precision);
    llvm::ArrayRef<features::MmaInstruction> list;
    if (typeA && typeB) list = features::mmaInstructions(target, *typeA, *typeB);
    if (list.empty() &&
        scalarBytes(a.scalar()) == 1) { // 8-bit types have no meaning beyond the units'; wide floats have scalar code
      const Scalar right = op.operand(1)->type.scalar();
      auto onWgmma = [](Scalar s) { return s == Scalar::F8E4M3 || s == Scalar::F8E5M2; };
      if (target.wgmma && onWgmma(a.scalar()) && onWgmma(right)) {
        diagnostics.report(Diag::DotForm, op.loc, scalarName(a.scalar()), scalarName(right), target.name,
                           wgmmaLacks(m, n, k, warps));
        return false;
      }
      Scalar lacking =
          typeA && features::mmaInstructions(target, *typeA).empty() ? a.scalar() : op.operand(1)->type.scalar();
      diagnostics.report(Diag::DotUnsupported, op.loc, scalarName(lacking).str(), target.name,
                         std::string(features::nearestMmaType(target, scalarName(lacking))));
      return false;
    }
    int chosen = -1;
    features::MmaInstruction mma{};
    for (unsigned i = 0; i < list.size() && chosen < 0; ++i)
      if (features::fits(list[i], m, n, k)) chosen = i, mma = list[i];
    op.setAttr(Attr::mma, int64_t(chosen));
    DotPlan plan;
    if (chosen >= 0) {
      features::WarpGrid grid = features::chooseWarpGrid(mma, m, n, warps);
      plan.accumulator = context.unique(features::accumulatorLayout(target, mma, m, n, grid));
      plan.a = context.unique(features::operandALayout(target, mma, m, k, grid));
      plan.b = context.unique(features::operandBLayout(target, mma, k, n, grid));
    } else {
      // Scalar code: an accumulator tile a thread, whole rows of A and columns of B in registers.
      unsigned perThread = n >= 4 && (n & -n) >= 4 ? 4 : 1;
      TileLayout c = layout::defaultBlocked({m, n}, perThread, {1, 0}, target.warpSize, warps);
      plan.accumulator = context.unique(c);
      plan.a = context.unique(layout::broadcastTo(layout::expandDims(layout::slice(c, 1), 1), {m, k}));
      plan.b = context.unique(layout::broadcastTo(layout::expandDims(layout::slice(c, 0), 0), {k, n}));
    }
    dots[&op] = plan;
    return true;
  }

  // --- memory ---------------------------------------------------------------------------------------------------
  static Value *pointerOf(const Op &access) { return access.operand(access.is(Opcode::AsyncCopy) ? 1 : 0); }
  struct Coalescing {
    TileLayout layout;
    unsigned vector; // elements
  };
  Coalescing coalesced(Value *pointer, const AxisAnalysis &axis) {
    Type t = pointer->type;
    const AxisInfo &info = axis.info(pointer);
    unsigned rank = t.rank(), bytes = scalarBytes(t.scalar());
    llvm::SmallVector<unsigned, 4> order;
    for (unsigned d = rank; d-- > 0;) order.push_back(d);
    // The most contiguous dimension is the fastest; ties keep row-major.
    llvm::stable_sort(order, [&](unsigned x, unsigned y) { return info.contiguity[x] > info.contiguity[y]; });
    unsigned fast = order[0];
    int64_t vector = std::min<int64_t>(info.contiguity[fast], std::max<int64_t>(1, info.divisibility[fast] / bytes));
    vector = std::min<int64_t>(vector, 16 / bytes);
    const unsigned warps = warpsAt(pointer);
    int64_t threads = int64_t(target.warpSize) * warps;
    int64_t perThread = std::max<int64_t>(1, t.elements() / threads);
    while (perThread & (perThread - 1)) perThread &= perThread - 1;
    vector = std::min(vector, perThread);
    int64_t part = t.shape()[fast] & -t.shape()[fast];
    vector = std::max<int64_t>(1, std::min(vector, part));
    while (vector & (vector - 1)) vector &= vector - 1;
    return {layout::defaultBlocked(t.shape(), vector, order, target.warpSize, warps), unsigned(vector)};
  }

  /// For a load that the pipeliner sends straight into shared memory, from where dots read it: what the ring's swizzle demands.
  std::optional<TileLayout> directLayout(Op &load, const AxisAnalysis &axis) {
    Op *loop = load.parentOp();
    if (!target.directToLds || !load.is(Opcode::Load) || !loop || !loop->is(Opcode::For) ||
        loop->intAttr(Attr::num_stages) < 2)
      return {};
    llvm::SmallVector<Layout, 2> consumers;
    for (const Use &use : load.result()->uses()) {
      if (!use.op->is(Opcode::Dot) || use.index > 1) return {};
      consumers.push_back(use.index == 0 ? dots[use.op].a : dots[use.op].b);
    }
    auto ring = planDirectRing(load, consumers, axis, target, warpsOf(module, load));
    return ring ? std::optional(std::move(ring->pointers)) : std::nullopt;
  }

  // --- rewriting ------------------------------------------------------------------------------------------------
  void require(Op &op, unsigned operand, Layout l) {
    Value *v = op.operand(operand);
    if (!v->type.isTile() || v->type.layout() == l) return;
    Builder b(module);
    b.at(&op);
    b.loc = op.loc;
    op.setOperand(operand, b.convertLayout(v, l));
  }
  /// The op makes its result in `l`; its uses keep the class's layout.
  void produce(Op &op, unsigned result, Layout l) {
    Value *v = op.result(result);
    Layout wanted = v->type.layout();
    if (wanted == l) return;
    v->type = v->type.withLayout(l);
    Builder b(module);
    b.after(&op);
    b.loc = op.loc;
    Value *converted = b.convertLayout(v, wanted);
    v->replaceAllUsesWith(converted);
    converted->def()->setOperand(0, v);
  }

  /// Those that hold the value.
  unsigned warpsAt(const Value *v) const {
    const Op *at = v->def() ? v->def() : v->block()->parentOp();
    return at ? warpsOf(module, *at) : module.kernel.numWarps;
  }
  /// Of the value's shape, `vector` elements a thread along the last dimension.
  Layout defaultLayout(const Value *v, unsigned vector = 1) {
    llvm::SmallVector<unsigned, 4> order;
    for (unsigned d = v->type.rank(); d-- > 0;) order.push_back(d);
    return context.unique(layout::defaultBlocked(v->type.shape(), vector, order, target.warpSize, warpsAt(v)));
  }
  /// Each lane and warp bit moves along the axis or across it, not both, and none holds copies along the axis: what reductions over lanes
  /// and warps take. Pins may be otherwise.
  static bool reducible(const TileLayout &l, unsigned axis) {
    for (layout::InDim dim : {layout::InDim::Lane, layout::InDim::Warp})
      for (unsigned i = 0; i < l.bits(dim); ++i) {
        const layout::Coord &c = l.bases(dim)[i];
        if (!c[axis]) continue;
        if (l.redundantMask(dim) >> i & 1) return false;
        for (unsigned d = 0; d < c.size(); ++d)
          if (d != axis && c[d]) return false;
      }
    return true;
  }

  /// Each bit of registers, lanes and warps that moves along the axis is one bit of the position and moves nowhere else.
  static bool scannable(const TileLayout &l, unsigned axis) {
    for (layout::InDim dim : {layout::InDim::Register, layout::InDim::Lane, layout::InDim::Warp})
      for (unsigned i = 0; i < l.bits(dim); ++i) {
        const layout::Coord &c = l.bases(dim)[i];
        if (!c[axis] || (l.redundantMask(dim) >> i & 1)) continue;
        if (c[axis] & (c[axis] - 1)) return false;
        for (unsigned d = 0; d < c.size(); ++d)
          if (d != axis && c[d]) return false;
      }
    return true;
  }

  void fixOp(Op &op) {
    Value *r = op.numResults() ? op.result(0) : nullptr;
    Value *x = op.numOperands() ? op.operand(0) : nullptr;
    switch (op.opcode) {
    case Opcode::Store:
    case Opcode::AtomicRmw:
      require(op, 1, x->type.layout());
      break;
    case Opcode::AtomicCas:
      require(op, 1, x->type.layout()), require(op, 2, x->type.layout());
      break;
    case Opcode::RequireLayout:
      require(op, 0, r->type.layout());
      break;
    case Opcode::AsyncDot: // the accumulator's class has its layout: it came first
      if (dots[&op].a) require(op, 0, dots[&op].a);
      break;
    case Opcode::Dot:
      if (dots[&op].a) require(op, 0, dots[&op].a);
      if (dots[&op].b) require(op, 1, dots[&op].b);
      // Two dots of one class may use different instructions: the class has the layout of the first.
      require(op, 2, dots[&op].accumulator);
      produce(op, 0, dots[&op].accumulator);
      break;
    case Opcode::ExpandDims:
      require(op, 0, context.unique(layout::slice(*r->type.layout(), op.intAttr(Attr::axis))));
      break;
    case Opcode::Broadcast:
      require(op, 0, context.unique(shrunk(*r->type.layout(), x->type.shape())));
      break;
    case Opcode::Reduce:
      if (!reducible(*x->type.layout(), op.intAttr(Attr::axis)))
        for (unsigned i = 0; i < op.numOperands(); ++i) require(op, i, defaultLayout(x));
      x = op.operand(0);
      for (unsigned i = 0; i < op.numResults(); ++i)
        if (op.result(i)->type.isTile())
          produce(op, i, context.unique(layout::slice(*x->type.layout(), op.intAttr(Attr::axis))));
      break;
    case Opcode::Scan: {
      Layout l = scannable(*x->type.layout(), op.intAttr(Attr::axis)) ? x->type.layout() : defaultLayout(x);
      for (unsigned i = 0; i < op.numOperands(); ++i) require(op, i, l), produce(op, i, l);
      break;
    }
    case Opcode::Trans:
      produce(op, 0, context.unique(layout::transpose(*x->type.layout(), permOf(op))));
      break;
    case Opcode::Join:
      produce(op, 0, context.unique(layout::join(*x->type.layout())));
      break;
    case Opcode::Split:
      require(op, 0, context.unique(layout::join(*r->type.layout())));
      break;
    case Opcode::Reshape: {
      if (auto l = layout::reshape(*x->type.layout(), r->type.shape())) {
        produce(op, 0, context.unique(*l));
      } else if (auto back = layout::reshape(*r->type.layout(), x->type.shape())) {
        require(op, 0, context.unique(*back));
      } else { // both carry odd factors that do not line up
        diagnostics.report(Diag::ReshapeUnsupported, op.loc, x->type.str(), r->type.str());
      }
      break;
    }
    default:
      break;
    }
  }

  // --- clones of what is cheap ------------------------------------------------------------------------------------
  llvm::DenseSet<Op *> rematerializable;
  unsigned cloneBudget = 0;

  void markCheap() {
    module.kernel.body.walk([&](Op &op) {
      if (!op.has(Cheap) || op.numResults() != 1 || !op.result()->type.isTile()) return;
      for (Value *v : op.operands())
        if (v->type.isTile() && (!v->def() || !rematerializable.contains(v->def()))) return;
      rematerializable.insert(&op);
    });
  }
  /// Gives this use its own copy of a cheap tree.
  void cloneTree(Op &user, unsigned operand) {
    Value *v = user.operand(operand);
    if (!v->type.isTile() || !v->def() || !rematerializable.contains(v->def())) return;
    if (!v->hasOneUse()) {
      if (cloneBudget == 0) return;
      --cloneBudget;
      Builder b(module);
      b.at(v->def());
      llvm::DenseMap<Value *, Value *> map;
      Op *copy = b.clone(*v->def(), map);
      rematerializable.insert(copy);
      user.setOperand(operand, copy->result());
      v = copy->result();
    }
    Op *def = v->def();
    for (unsigned i = 0; i < def->numOperands(); ++i) cloneTree(*def, i);
  }

  bool run() {
    bool ok = true;
    markCheap();
    cloneBudget = 4000;
    std::vector<Op *> all;
    module.kernel.body.walk([&](Op &op) { all.push_back(&op); });
    for (Op *op : all)
      if (!rematerializable.contains(op))
        for (unsigned i = 0; i < op->numOperands(); ++i) cloneTree(*op, i);
    all.clear();
    module.kernel.body.walk([&](Op &op) { all.push_back(&op); });

    for (Op *op : all) tieOp(*op);
    AxisAnalysis axis(module);
    auto isDot = [](const Op *op) { return op->is(Opcode::Dot) || op->is(Opcode::AsyncDot); };
    for (Op *op : all)
      if (isDot(op)) ok &= planDot(*op, axis);
    if (!ok) return false;

    // 1. hardware: accumulators of matrix instructions, which those in flight cannot leave. Operands are converted at the dot.
    for (Op *op : all)
      if (op->is(Opcode::AsyncDot)) assign(op->result(), dots[op].accumulator);
    for (Op *op : all)
      if (op->is(Opcode::Dot)) assign(op->result(), dots[op].accumulator);
    // 2. pins
    for (Op *op : all)
      if (op->is(Opcode::RequireLayout)) {
        std::string error;
        Type t = op->result()->type;
        auto l = layout::parseTileLayout(op->strAttr(Attr::layout), t.shape(), error);
        const unsigned warps = warpsOf(module, *op);
        if (l && (l->lanes() != target.warpSize || l->warps() != warps))
          error = llvm::formatv("it is for {0} lanes and {1} warps, the kernel has {2} and {3}", l->lanes(), l->warps(),
                                target.warpSize, warps);
        if (!l || !error.empty()) {
          diagnostics.report(Diag::LayoutLiteral, op->loc, t.str(), error);
          return false;
        }
        Layout pin = context.unique(*l);
        if (Layout has = layoutOf(op->result()); has && has != pin) {
          // A matrix instruction owns the class: the pinned value lives on its own and is converted back.
          pinned.push_back({op, pin});
          continue;
        }
        assign(op->result(), pin);
      }
    // 3. loads by size, then stores: coalescing
    std::vector<Op *> loads;
    for (Op *op : all)
      if ((op->is(Opcode::Load) || op->is(Opcode::AtomicRmw) || op->is(Opcode::AtomicCas) ||
           op->is(Opcode::AsyncCopy)) &&
          pointerOf(*op)->type.isTile())
        loads.push_back(op);
    llvm::stable_sort(loads,
                      [](Op *a, Op *b) { return pointerOf(*a)->type.elements() > pointerOf(*b)->type.elements(); });
    for (Op *op : loads)
      if (!layoutOf(pointerOf(*op))) {
        std::optional<TileLayout> direct = directLayout(*op, axis);
        assign(pointerOf(*op), context.unique(direct ? *direct : coalesced(pointerOf(*op), axis).layout));
      }
    for (Op *op : all)
      if (op->is(Opcode::Store) && op->operand(0)->type.isTile() && !layoutOf(op->operand(0))) {
        Coalescing best = coalesced(op->operand(0), axis);
        Layout value = layoutOf(op->operand(1));
        if (value && storesWell(*value, op->operand(0), best, axis))
          assign(op->operand(0), value);
        else
          assign(op->operand(0), context.unique(best.layout));
        if (!value) assign(op->operand(1), layoutOf(op->operand(0)));
      }
    // 4. loads from buffers, 16 bytes a thread
    for (Op *op : all)
      if ((op->is(Opcode::LocalLoad) || op->is(Opcode::LocalGather)) && !layoutOf(op->result()))
        assign(op->result(), defaultLayout(op->result(), localVector(op->result())));
    // 5. the rest, in program order
    auto defaults = [&](Value *v) {
      if (!v->type.isTile() || layoutOf(v)) return;
      assign(v, defaultLayout(v));
    };
    for (Op *op : all) {
      for (Value *v : op->operands()) defaults(v);
      for (unsigned i = 0; i < op->numResults(); ++i) defaults(op->result(i));
      for (unsigned r = 0; r < op->numRegions(); ++r)
        for (unsigned i = 0; i < op->body(r).numArgs(); ++i) defaults(op->body(r).arg(i));
    }

    for (auto &[v, i] : ids) v->type = v->type.withLayout(assigned[find(i)]);
    for (auto &[op, l] : pinned) op->result()->type = op->result()->type.withLayout(l);
    for (auto &[op, l] : pinned) restore(*op, l);
    unsigned before = diagnostics.errorCount();
    for (Op *op : all) fixOp(*op);
    placeBuffers(module, target, diagnostics);
    for (auto &[op, plan] : asyncDots) makeAsyncDot(module, *op, plan);
    module.properties.layouts = true;
    return diagnostics.errorCount() == before;
  }

  // --- buffers that are written by hand ---------------------------------------------------------------------------
  static unsigned localVector(const Value *v) {
    const int64_t part = v->type.shape().back() & -v->type.shape().back();
    return unsigned(std::min<int64_t>(part, 16 / scalarBytes(v->type.element().scalar())));
  }

  std::vector<std::pair<Op *, Layout>> pinned;
  void restore(Op &op, Layout pin) {
    Layout classLayout = assigned[classOf(op.result())];
    op.result()->type = op.result()->type.withLayout(classLayout);
    produce(op, 0, pin);
  }

  /// Whether storing straight from `l` moves as many bytes an access as the coalesced layout would.
  bool storesWell(const TileLayout &l, Value *pointer, const Coalescing &best, const AxisAnalysis &axis) {
    const AxisInfo &info = axis.info(pointer);
    unsigned bytes = scalarBytes(pointer->type.scalar());
    unsigned widest = 1;
    for (unsigned d = 0; d < pointer->type.rank(); ++d) {
      unsigned limit =
          std::min<int64_t>({info.contiguity[d], std::max<int64_t>(1, info.divisibility[d] / bytes), 16 / bytes});
      widest = std::max(widest, layout::contiguousRegisters(l, d, std::max(1u, limit)));
    }
    return widest >= best.vector;
  }
};

} // namespace

bool assignLayouts(Module &module, const features::Target &target, Diagnostics &diagnostics) {
  return Assigner(module, target, diagnostics).run();
}

} // namespace tlx::passes
