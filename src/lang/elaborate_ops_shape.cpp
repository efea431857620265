// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operations that make tiles, change their shape, multiply them, or pin their layout.
#include "lang/elaborate_p.h"

namespace tlx::lang {

using ir::Scalar;

llvm::ArrayRef<Builtin> shapeBuiltins() {
  static const Builtin kTable[] = {
      {"arange", "lo, hi", &Elaborator::opArange},
      {"full", "shape, value, type?", &Elaborator::opFull},
      {"zeros", "shape, type", &Elaborator::opZeros},
      {"expand_dims", "x, axis", &Elaborator::opExpandDims},
      {"broadcast_to", "x, shape", &Elaborator::opBroadcastTo},
      {"reshape", "x, shape", &Elaborator::opReshape},
      {"trans", "x, perm?", &Elaborator::opTrans},
      {"join", "a, b", &Elaborator::opJoin},
      {"split", "x", &Elaborator::opSplit},
      {"dot", "a, b, acc?, precision?", &Elaborator::opDot},
      {"require_layout", "x, layout", &Elaborator::opRequireLayout},
      {"blocked", "size, lanes, warps, order", &Elaborator::opBlocked},
      {"linear", "register, lane, warp, cta?", &Elaborator::opLinear},
  };
  return kTable;
}

ir::Value *Elaborator::tileOf(const CallArgs &a, unsigned i) {
  if (a.vals[i].isTile()) return a.vals[i].v;
  return error(a.vals[i].isDesc() ? Diag::ElDescTile : Diag::ElNeedsTile, a.locs[i], a.name, describe(a.vals[i])),
         nullptr;
}

std::optional<unsigned> Elaborator::axisOf(const CallArgs &a, unsigned i, unsigned rank) {
  auto axis = constInt(a, i, "the axis");
  if (!axis) return std::nullopt;
  if (*axis < -int64_t(rank) || *axis >= int64_t(rank)) {
    error(Diag::ElAxis, a.locs[i], *axis, rank - 1);
    return std::nullopt;
  }
  return unsigned(*axis < 0 ? *axis + rank : *axis);
}

//===-- making tiles ----------------------------------------------------------------------------------------------===//

Val Elaborator::opArange(CallArgs &a) {
  auto lo = constInt(a, 0, "the start"), hi = constInt(a, 1, "the end");
  if (!lo || !hi) return Val::poison();
  if (*hi <= *lo) return error(Diag::ElArangeEmpty, a.locs[1], *lo, *hi);
  if (!fits(Val::integer(*lo), Scalar::I32, a.locs[0]) || !fits(Val::integer(*hi - 1), Scalar::I32, a.locs[1]))
    return Val::poison();
  if (!layout::splitExtent(*hi - *lo)) return error(Diag::ElArangeExtent, a.loc, *hi - *lo);
  if (*hi - *lo > options.limits.tileElements)
    return error(Diag::ElTileSize, a.loc, shapeText(*hi - *lo), options.limits.tileElements);
  ++operations;
  return Val::runtime(b().arange(*lo, *hi));
}

Val Elaborator::opFull(CallArgs &a) {
  auto shape = shapeOf(a.vals[0], a.locs[0]);
  std::optional<Scalar> type;
  if (a.has(2)) {
    type = dtypeOf(a, 2);
    if (!type) return Val::poison();
  }
  const Val &v = a.vals[1];
  if (!v.isArithmetic() || v.isTile()) return error(Diag::ElFullValue, a.locs[1], describe(v));
  ir::Value *value = type ? materializeAs(v, *type, a.locs[1], "the value") : materialize(v, a.locs[1]);
  return shape && value ? Val::runtime(broadcast(value, *shape)) : Val::poison();
}

Val Elaborator::opZeros(CallArgs &a) {
  auto shape = shapeOf(a.vals[0], a.locs[0]);
  auto type = dtypeOf(a, 1);
  if (!shape || !type) return Val::poison();
  ++operations;
  return Val::runtime(b().constant(context.tile(context.scalar(*type), *shape), 0));
}

//===-- changing shape --------------------------------------------------------------------------------------------===//

Val Elaborator::opExpandDims(CallArgs &a) {
  ir::Value *x = tileOf(a, 0);
  if (!x) return Val::poison();
  if (x->type.rank() >= 8) return error(Diag::ElRank, a.loc, 9);
  auto axis = axisOf(a, 1, x->type.rank() + 1);
  if (!axis) return Val::poison();
  ++operations;
  return Val::runtime(b().expandDims(x, *axis));
}

Val Elaborator::opBroadcastTo(CallArgs &a) {
  auto shape = shapeOf(a.vals[1], a.locs[1]);
  if (!shape) return Val::poison();
  if (!a.vals[0].isArithmetic() && !a.vals[0].isPointerLike()) return notNumber(a.locs[0], a.name, a.vals[0]);
  ir::Value *x = materialize(a.vals[0], a.locs[0]);
  if (!x) return Val::poison();
  if (x->type.isTile()) {
    llvm::ArrayRef<int64_t> have = x->type.shape();
    bool ok = have.size() == shape->size();
    for (size_t d = 0; ok && d < have.size(); ++d) ok = have[d] == 1 || have[d] == (*shape)[d];
    if (!ok)
      return error(Diag::ElBroadcastTo, a.loc, shapeText(have), shapeText(*shape),
                   have.size() < shape->size() ? "; add dimensions with x[:, None] first" : "");
  }
  return Val::runtime(broadcast(x, *shape));
}

Val Elaborator::opReshape(CallArgs &a) {
  ir::Value *x = tileOf(a, 0);
  auto shape = shapeOf(a.vals[1], a.locs[1]);
  if (!x || !shape) return Val::poison();
  int64_t have = x->type.elements(), want = 1;
  for (int64_t e : *shape) want *= e;
  if (have != want) return error(Diag::ElReshape, a.loc, shapeText(x->type.shape()), have, shapeText(*shape), want);
  if (x->type.shape() == llvm::ArrayRef<int64_t>(*shape)) return a.vals[0];
  ++operations;
  return Val::runtime(b().reshape(x, *shape));
}

Val Elaborator::opTrans(CallArgs &a) {
  ir::Value *x = tileOf(a, 0);
  if (!x) return Val::poison();
  unsigned rank = x->type.rank();
  llvm::SmallVector<int64_t, 4> perm;
  if (!a.has(1)) {
    if (rank != 2) return error(Diag::ElTransRank, a.loc, describe(a.vals[0]));
    perm = {1, 0};
  } else {
    const Val &p = a.vals[1];
    unsigned seen = 0;
    bool ok = p.is(Val::Kind::List) && p.elems.size() == rank;
    for (size_t i = 0; ok && i < rank; ++i) {
      const Val &v = p.elems[i];
      ok = v.isInt() && v.i >= 0 && v.i < int64_t(rank) && !(seen >> v.i & 1);
      if (ok) seen |= 1u << v.i, perm.push_back(v.i);
    }
    if (!ok) return error(Diag::ElPerm, a.locs[1], rank - 1);
  }
  ++operations;
  return Val::runtime(b().trans(x, perm));
}

Val Elaborator::opJoin(CallArgs &a) {
  auto pair = unify(a.vals[0], a.vals[1], a.loc, a.name);
  if (!pair) return Val::poison();
  if (!pair->first->type.isTile()) return error(Diag::ElNeedsTile, a.locs[0], a.name, describe(a.vals[0]));
  if (pair->first->type.rank() >= 8) return error(Diag::ElRank, a.loc, 9);
  if (pair->first->type.elements() * 2 > options.limits.tileElements)
    return error(Diag::ElTileSize, a.loc, shapeText(pair->first->type.shape()), options.limits.tileElements);
  ++operations;
  return Val::runtime(b().join(pair->first, pair->second));
}

Val Elaborator::opSplit(CallArgs &a) {
  ir::Value *x = tileOf(a, 0);
  if (!x) return Val::poison();
  if (x->type.rank() < 2 || x->type.shape().back() != 2) return error(Diag::ElSplit, a.locs[0], describe(a.vals[0]));
  ++operations;
  auto [first, second] = b().split(x);
  return Val::tuple({Val::runtime(first), Val::runtime(second)});
}

//===-- dot -------------------------------------------------------------------------------------------------------===//

Val Elaborator::opDot(CallArgs &a) {
  ir::Value *x = tileOf(a, 0), *y = tileOf(a, 1);
  if (!x || !y) return Val::poison();
  for (unsigned i = 0; i < 2; ++i) {
    if (!a.vals[i].isArithmetic()) return error(Diag::ElNotNumber, a.locs[i], a.name, describe(a.vals[i]));
    if (a.vals[i].v->type.rank() != 2) return error(Diag::ElDotRank, a.locs[i], describe(a.vals[i]));
  }
  llvm::ArrayRef<int64_t> xs = x->type.shape(), ys = y->type.shape();
  if (xs[1] != ys[0]) return error(Diag::ElDotShapes, a.loc, shapeText(xs), shapeText(ys), xs[1], ys[0]);
  Scalar s = x->type.scalar(), t = y->type.scalar();
  if (s != t && !(ir::isFp8(s) && ir::isFp8(t)))
    return error(Diag::ElDotTypes, a.loc, ir::scalarName(s), ir::scalarName(t));
  bool isInt = s == Scalar::I8 || s == Scalar::U8;
  if (ir::isInt(s) && !isInt) return error(Diag::ElDotType, a.locs[0], ir::scalarName(s));
  Scalar accType = isInt ? Scalar::I32 : s == Scalar::F64 ? Scalar::F64 : Scalar::F32;
  ir::Type want = context.tile(context.scalar(accType), {xs[0], ys[1]});
  if (want.elements() > options.limits.tileElements)
    return error(Diag::ElTileSize, a.loc, shapeText(want.shape()), options.limits.tileElements);
  std::string precision;
  if (a.has(3)) {
    const Val &p = a.vals[3];
    static constexpr const char *kNames[] = {"default", "tf32", "tf32x3", "ieee"};
    if (!p.is(Val::Kind::String) || !llvm::is_contained(kNames, p.s))
      return error(Diag::ElPrecision, a.locs[3], p.is(Val::Kind::String) ? "\"" + p.s + "\"" : describe(p));
    if (s != Scalar::F32) return error(Diag::ElPrecisionType, a.locs[3], ir::scalarName(s));
    if (p.s != "default") precision = p.s;
  }
  ir::Value *acc = nullptr;
  if (a.has(2)) {
    if (!a.vals[2].isTile() || a.vals[2].v->type != want)
      return error(Diag::ElDotAcc, a.locs[2], describe(a.vals[2]), want.str());
    acc = a.vals[2].v;
  } else {
    acc = b().constant(want, 0);
  }
  operations += 2;
  return Val::runtime(b().dot(x, y, acc, precision));
}

//===-- layouts ---------------------------------------------------------------------------------------------------===//

/// Numbers, in nested lists, as the text of a layout literal; empty if it is anything else.
static std::string literalText(const Val &v, unsigned depth) {
  if (depth == 0) return v.isInt() ? std::to_string(v.i) : "";
  if (!v.is(Val::Kind::List)) return "";
  std::string out = "[";
  for (size_t i = 0; i < v.elems.size(); ++i) {
    std::string part = literalText(v.elems[i], depth - 1);
    if (part.empty()) return "";
    out += (i ? ", " : "") + part;
  }
  return out + "]";
}

Val Elaborator::opBlocked(CallArgs &a) {
  static constexpr const char *kNames[] = {"size", "lanes", "warps", "order"};
  std::string out = "blocked(";
  for (unsigned i = 0; i < 4; ++i) {
    std::string text = literalText(a.vals[i], 1);
    if (text.empty()) return error(Diag::ElLayoutList, a.locs[i], kNames[i], "[1, 8]");
    out += std::string(i ? ", " : "") + kNames[i] + " = " + text;
  }
  return Val::layout(out + ")");
}

Val Elaborator::opLinear(CallArgs &a) {
  static constexpr const char *kNames[] = {"register", "lane", "warp", "cta"};
  std::string out = "linear(";
  for (unsigned i = 0; i < 4; ++i) {
    std::string text = a.has(i) ? literalText(a.vals[i], 2) : "[]";
    if (text.empty()) return error(Diag::ElLayoutList, a.locs[i], kNames[i], "[[0, 1], [0, 2]]");
    out += std::string(i ? ", " : "") + kNames[i] + " = " + text;
  }
  return Val::layout(out + ")");
}

Val Elaborator::opRequireLayout(CallArgs &a) {
  ir::Value *x = tileOf(a, 0);
  if (!x) return Val::poison();
  const Val &l = a.vals[1];
  if (!l.is(Val::Kind::Layout)) return error(Diag::ElNeedsLayout, a.locs[1], describe(l));
  std::string why;
  auto parsed = layout::parseTileLayout(l.s, x->type.shape(), why);
  if (!parsed) return error(Diag::ElBadLayout, a.locs[1], describe(a.vals[0]), why);
  if (parsed->lanes() != options.warpSize && parsed->bits(layout::InDim::Lane) != 0)
    return error(Diag::ElLayoutThreads, a.locs[1], plural(parsed->lanes(), "lane"), options.warpSize, "the kernel");
  if (parsed->warps() != numWarps() && parsed->bits(layout::InDim::Warp) != 0)
    return error(Diag::ElLayoutThreads, a.locs[1], plural(parsed->warps(), "warp"), numWarps(),
                 task ? "this task" : "the kernel");
  ++operations;
  return Val::runtime(b().requireLayout(x, l.s));
}

} // namespace tlx::lang
