// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How buffers that are written by hand lie in shared memory. What units read or write has the form of a message; other buffers get a swizzle for
// their accesses. Views follow:
//
//   %0 = local_alloc : buffer<f16[64, 64], 2, smem>            %0 = local_alloc : buffer<f16[64, 64, #s0], 2, smem>
//   %1 = subview %0, %i : buffer<f16[64, 64], 1, smem>   ->    %1 = subview %0, %i : buffer<f16[64, 64, #s0], 1, smem>
//   %2 = local_trans %1 : buffer<f16[64, 64], 1, smem>         %2 = local_trans %1 : buffer<f16[64, 64, #s1], 1, smem>
//
// A unit may see a buffer in another shape or type than it was allocated in: then it gets the layout in which that view has the form of a
// message. Buffers in a storage are placed one by one: they share bytes, and no layout.
#include "features/wgmma.h"
#include "layout/message_layout.h"
#include "passes/passes.h"
#include "llvm/Support/FormatVariadic.h"

namespace tlx::passes {

using namespace ir;
using layout::SharedLayout;

namespace {

unsigned bitsOf(Type t) {
  return 8 * scalarBytes(t.scalar());
}
llvm::SmallVector<unsigned, 4> permOf(const Op &op) {
  return llvm::SmallVector<unsigned, 4>(op.listAttr(Attr::perm).begin(), op.listAttr(Attr::perm).end());
}
bool isView(const Op &op) {
  return op.is(Opcode::SubView) || op.is(Opcode::LocalTrans) || op.is(Opcode::LocalSlice) ||
         op.is(Opcode::LocalReshape) || op.is(Opcode::LocalReinterpret);
}
bool byTma(const Op &op) {
  return op.is(Opcode::AsyncDescLoad) || op.is(Opcode::AsyncDescStore);
}
bool byBulkCopy(const Op &op) {
  return op.is(Opcode::AsyncBulkLoad) || op.is(Opcode::AsyncBulkStore);
}

class Placer {
public:
  Placer(Module &module, const features::Target &target, Diagnostics &diagnostics, Value *buffer)
      : module(module), target(target), diagnostics(diagnostics), buffer(buffer) {
    collect(buffer);
  }

  void run() {
    const std::vector<SharedLayout> list = candidates();
    if (list.empty()) return;
    std::vector<SharedLayout> layouts;
    const Op *bad = nullptr;
    bool good = false;
    for (bool strict : {true, false}) // what wgmma cannot read has a message of its own
      for (size_t i = 0; i < list.size() && !good; ++i) {
        const Op *problem = nullptr;
        good = follow(list[i], layouts, problem, strict);
        if (!bad) bad = problem;
      }
    if (!good) return refuse(*bad);
    for (size_t i = 0; i < views.size(); ++i) {
      const Type t = views[i]->type;
      views[i]->type =
          module.context.buffer(t.scalar(), t.shape(), t.depth(), t.space(), module.context.unique(layouts[i]));
    }
    for (Value *view : views)
      for (const Use &use : view->uses()) checkUnit(*use.op, use.index);
  }

private:
  void collect(Value *v) {
    views.push_back(v);
    for (const Use &use : v->uses())
      if (isView(*use.op)) collect(use.op->result());
  }

  /// The view's layout, by that of what it is seen in.
  static std::optional<SharedLayout> viewed(const Op &op, const SharedLayout &from) {
    const Type t = op.result()->type, whole = op.operand(0)->type;
    switch (op.opcode) {
    case Opcode::LocalTrans:
      return from.transposed(permOf(op));
    case Opcode::LocalSlice: { // of each replica: the layout counts from the slice's start, wherever that is
      std::optional<SharedLayout> own = from;
      for (auto at = op.listAttr(Attr::offsets); own && !at.empty(); at = at.drop_front(t.rank()))
        own = layout::messageSlice(from, at.take_front(t.rank()), t.shape(), bitsOf(t));
      return own;
    }
    case Opcode::LocalReshape:
      return from.reshaped(t.shape());
    case Opcode::LocalReinterpret:
      return from.reinterpreted(scalarBytes(whole.scalar()), scalarBytes(t.scalar()));
    default:
      return from;
    }
  }
  /// The inverse: what `buffer` must have so that the view has `l`; nullopt for slices, which do not say it.
  std::optional<SharedLayout> whole(Value *view, SharedLayout l) const {
    for (; view != buffer; view = view->def()->operand(0)) {
      const Op &op = *view->def();
      const Type from = op.operand(0)->type;
      std::optional<SharedLayout> next = l;
      if (op.is(Opcode::LocalTrans)) {
        const auto perm = permOf(op);
        llvm::SmallVector<unsigned, 4> inverse(perm.size());
        for (unsigned i = 0; i < perm.size(); ++i) inverse[perm[i]] = i;
        next = l.transposed(inverse);
      } else if (op.is(Opcode::LocalReshape)) {
        next = l.reshaped(from.shape());
      } else if (op.is(Opcode::LocalReinterpret)) {
        next = l.reinterpreted(scalarBytes(view->type.scalar()), scalarBytes(from.scalar()));
      } else if (op.is(Opcode::LocalSlice)) {
        next.reset();
      }
      if (!next) return std::nullopt;
      l = *next;
    }
    return l;
  }

  /// Seen in another shape or type than the buffer's.
  bool isRecast(const Value *view) const {
    for (; view != buffer; view = view->def()->operand(0))
      if (view->def()->is(Opcode::LocalReshape) || view->def()->is(Opcode::LocalReinterpret)) return true;
    return false;
  }

  /// Layouts for the buffer, the best first; none after an error.
  std::vector<SharedLayout> candidates() {
    const Type type = buffer->type;
    llvm::SmallVector<unsigned, 4> order;
    for (unsigned d = type.rank(); d-- > 0;) order.push_back(d);
    const SharedLayout plain = SharedLayout::rowMajor(type.shape(), order);
    std::vector<SharedLayout> out;
    bool unit = false, bulk = false, sliced = false;
    std::vector<const layout::TileLayout *> accesses;
    for (Value *view : views) {
      sliced |= view != buffer && view->def()->is(Opcode::LocalSlice);
      for (const Use &use : view->uses()) {
        bulk |= byBulkCopy(*use.op);
        unit |= byTma(*use.op) || use.op->is(Opcode::AsyncDot);
        const Value *tile = use.op->is(Opcode::LocalLoad)    ? use.op->result()
                            : use.op->is(Opcode::LocalStore) ? use.op->operand(1)
                            : use.op->is(Opcode::AsyncCopy)  ? use.op->operand(1)
                                                             : nullptr;
        if (tile && view->type.shape() == type.shape()) accesses.push_back(tile->type.layout());
      }
    }
    const std::optional<SharedLayout> message = layout::messageLayout(type.shape(), bitsOf(type));
    if (unit) {
      for (Value *view : views) {
        if (!isRecast(view) ||
            llvm::none_of(view->uses(), [](const Use &use) { return byTma(*use.op) || use.op->is(Opcode::AsyncDot); }))
          continue;
        const Type t = view->type;
        if (auto form = layout::messageLayout(t.shape(), bitsOf(t)))
          if (auto own = whole(view, *form)) out.push_back(*own);
      }
      if (message) out.push_back(*message);
      if (out.empty())
        diagnostics.report(Diag::DescriptorBlock, buffer->def()->loc, type.str(),
                           layout::messageProblem(type.shape(), bitsOf(type)));
      return out;
    }
    if (bulk) return {plain};
    if (sliced && message) out.push_back(*message); // slices cut message layouts, whose boxes they know
    out.push_back(layout::chooseSwizzle(type.shape(), accesses, bitsOf(type), layout::BankModel{target.sharedBanks}));
    out.push_back(plain);
    return out;
  }

  static bool readable(const SharedLayout &l, const Op &dot, unsigned operand) {
    const unsigned bits = bitsOf(dot.operand(operand)->type);
    return features::matrixDescriptor(operand ? l.transposed({1, 0}) : l, bits).has_value();
  }
  /// The layouts of all views by that of the buffer; false, and the view that has none or none that its unit takes.
  bool follow(const SharedLayout &own, std::vector<SharedLayout> &layouts, const Op *&problem, bool strict) const {
    layouts.clear();
    llvm::DenseMap<const Value *, size_t> index;
    for (Value *view : views) {
      std::optional<SharedLayout> l =
          view == buffer ? own : viewed(*view->def(), layouts[index[view->def()->operand(0)]]);
      auto fits = [&](const Use &use) {
        if (byTma(*use.op)) return layout::messagesOf(*l, bitsOf(view->type)).has_value();
        return !strict || !use.op->is(Opcode::AsyncDot) || readable(*l, *use.op, use.index);
      };
      if (!l || !llvm::all_of(view->uses(), fits)) {
        problem = view->def();
        return false;
      }
      index[view] = layouts.size();
      layouts.push_back(*l);
    }
    return true;
  }

  void refuse(const Op &view) {
    const Type t = view.result()->type;
    if (!isView(view)) // itself, which its unit takes in no form in which the views can see it
      diagnostics.report(Diag::DescriptorBlock, view.loc, t.str(), "a view of it needs another form");
    else if (view.is(Opcode::LocalSlice))
      diagnostics.report(Diag::SliceForm, view.loc, t.str());
    else
      diagnostics.report(Diag::ViewForm, view.loc, view.operand(0)->type.str(), t.str());
  }

  /// Whether wgmma can read its operand as it lies.
  void checkUnit(const Op &op, unsigned operand) {
    if (!op.is(Opcode::AsyncDot)) return;
    const Type t = op.operand(operand)->type;
    const unsigned bits = bitsOf(t);
    if (readable(*t.sharedLayout(), op, operand)) return;
    const bool narrow = t.shape().back() * bits < 32 * 8;
    diagnostics.report(
        Diag::AsyncDotForm, op.loc,
        narrow ? llvm::formatv("the rows of {0} are shorter than 32 bytes", t.str()).str()
               : llvm::formatv("{0} lies with {1} as its contiguous dimension, and {2}-bit operands are read along K "
                               "only: keep its transpose, and pass local_trans of it",
                               t.str(), operand ? "N" : "M", bits)
                     .str());
  }

  Module &module;
  const features::Target &target;
  Diagnostics &diagnostics;
  Value *const buffer;
  std::vector<Value *> views; // itself first, each behind what it is seen in
};

} // namespace

void placeBuffers(Module &module, const features::Target &target, Diagnostics &diagnostics) {
  std::vector<Value *> buffers;
  module.kernel.body.walk([&](Op &op) {
    if ((op.is(Opcode::LocalAlloc) || op.is(Opcode::StorageView)) && !op.result()->type.sharedLayout())
      buffers.push_back(op.result());
  });
  for (Value *buffer : buffers) Placer(module, target, diagnostics, buffer).run();
}

} // namespace tlx::passes
