// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions and scans along one axis.
#include "lang/elaborate_p.h"

namespace tlx::lang {

using ir::Opcode;
using ir::Scalar;

llvm::ArrayRef<Builtin> reduceBuiltins() {
  static const Builtin kTable[] = {
      {"sum", "x, axis?, keep_dims?", &Elaborator::opSum},
      {"max", "x, axis?, keep_dims?, return_indices?", &Elaborator::opMax},
      {"min", "x, axis?, keep_dims?, return_indices?", &Elaborator::opMin},
      {"argmax", "x, axis?, keep_dims?", &Elaborator::opArgmax},
      {"argmin", "x, axis?, keep_dims?", &Elaborator::opArgmin},
      {"reduce", "x, axis, fn, keep_dims?", &Elaborator::opReduce},
      {"associative_scan", "x, axis, fn, reverse?", &Elaborator::opAssociativeScan},
      {"cumsum", "x, axis?, reverse?", &Elaborator::opCumsum},
      {"cumprod", "x, axis?, reverse?", &Elaborator::opCumprod},
  };
  return kTable;
}

std::optional<unsigned> Elaborator::reductionAxis(const CallArgs &a, ir::Value *x) {
  if (a.has(1)) return axisOf(a, 1, x->type.rank());
  if (x->type.rank() == 1) return 0;
  error(Diag::ElNeedsAxis, a.nameLoc, a.name, x->type.str());
  return std::nullopt;
}

Val Elaborator::keepDims(const CallArgs &a, unsigned i, Val reduced, unsigned axis) {
  if (!a.has(i)) return reduced;
  if (!a.vals[i].isBool()) return error(Diag::ElKeepDims, a.locs[i], describe(a.vals[i]));
  if (!a.vals[i].i) return reduced;
  auto grow = [&](const Val &v) {
    ++operations;
    return Val::runtime(v.isTile() ? b().expandDims(v.v, axis) : b().splat(v.v, {1}));
  };
  if (!reduced.is(Val::Kind::Tuple)) return grow(reduced);
  for (Val &v : reduced.elems) v = grow(v);
  return reduced;
}

Val Elaborator::opSum(CallArgs &a) {
  ir::Value *x = tileOf(a, 0);
  if (!x) return Val::poison();
  if (!a.vals[0].isArithmetic()) return error(Diag::ElNotNumber, a.locs[0], a.name, describe(a.vals[0]));
  Scalar type = x->type.scalar();
  if (ir::isFp8(type)) return error(Diag::ElFp8Arith, a.locs[0], a.name, ir::scalarName(type));
  auto axis = reductionAxis(a, x);
  if (!axis) return Val::poison();
  // As Triton: integers narrower than 32 bits add up in 32, and an i1 tile counts. 16-bit floats add up in f32, and
  // the sum is rounded once, to the operand's type.
  Scalar acc = type, result = type;
  if (ir::isFloat(type) && ir::scalarBits(type) < 32)
    acc = Scalar::F32;
  else if (ir::isInt(type) && ir::scalarBits(type) < 32)
    acc = result = ir::isSignedInt(type) || type == Scalar::I1 ? Scalar::I32 : Scalar::U32;
  operations += 4;
  auto out = b().reduce(convert(x, acc), *axis, [&](llvm::ArrayRef<ir::Value *> l, llvm::ArrayRef<ir::Value *> r) {
    return llvm::SmallVector<ir::Value *, 2>{b().binary(Opcode::Add, l[0], r[0])};
  });
  return keepDims(a, 2, Val::runtime(convert(out[0], result)), *axis);
}

Val Elaborator::minMax(CallArgs &a, Opcode op) {
  // max(a, b) on two scalars; with a tile the second argument is the axis.
  if (!a.vals[0].isTile()) {
    if (!a.has(1) || a.has(2) || a.has(3)) return error(Diag::ElNeedsTile, a.locs[0], a.name, describe(a.vals[0]));
    if (a.vals[1].isTile())
      return error(Diag::ElUseElementwise, a.loc, a.name, a.name == "max" ? "maximum" : "minimum");
    return mathBinary(a, op);
  }
  if (a.has(1) && (a.vals[1].isRuntime() || a.vals[1].isFloat()))
    return error(Diag::ElUseElementwise, a.loc, a.name, a.name == "max" ? "maximum" : "minimum");
  auto indices = constBool(a, 3);
  if (!indices) return Val::poison();
  if (*indices) return argMinMax(a, op == Opcode::Max, true, 2);
  if (!arithmetic(a, 0)) return Val::poison();
  ir::Value *x = a.vals[0].v;
  auto axis = reductionAxis(a, x);
  if (!axis) return Val::poison();
  operations += 3;
  auto out = b().reduce(x, *axis, [&](llvm::ArrayRef<ir::Value *> l, llvm::ArrayRef<ir::Value *> r) {
    return llvm::SmallVector<ir::Value *, 2>{b().binary(op, l[0], r[0])};
  });
  return keepDims(a, 2, Val::runtime(out[0]), *axis);
}
Val Elaborator::opMax(CallArgs &a) {
  return minMax(a, Opcode::Max);
}
Val Elaborator::opMin(CallArgs &a) {
  return minMax(a, Opcode::Min);
}

Val Elaborator::argMinMax(CallArgs &a, bool max, bool both, unsigned keep) {
  ir::Value *x = tileOf(a, 0);
  if (!x || !arithmetic(a, 0)) return Val::poison();
  auto axis = reductionAxis(a, x);
  if (!axis) return Val::poison();
  ir::Value *index = b().arange(0, x->type.shape()[*axis]);
  for (unsigned d = 0; d < x->type.rank(); ++d)
    if (d != *axis) index = b().expandDims(index, d);
  if (index->type.shape() != x->type.shape()) index = b().broadcast(index, x->type.shape());
  bool isFloat = x->type.isFloatLike();
  operations += 16;
  // The better value wins, the smaller index among equals; a NaN loses to every number.
  auto combine = [&](llvm::ArrayRef<ir::Value *> l, llvm::ArrayRef<ir::Value *> r) {
    auto &bb = b();
    ir::Value *better = bb.cmp(max ? ir::Pred::Gt : ir::Pred::Lt, l[0], r[0]);
    ir::Value *tie = bb.cmp(ir::Pred::Eq, l[0], r[0]);
    if (isFloat) {
      ir::Value *lNan = bb.cmp(ir::Pred::Ne, l[0], l[0]), *rNan = bb.cmp(ir::Pred::Ne, r[0], r[0]);
      ir::Value *lNumber = bb.cmp(ir::Pred::Eq, l[0], l[0]);
      better = bb.binary(Opcode::Or, better, bb.binary(Opcode::And, lNumber, rNan));
      tie = bb.binary(Opcode::Or, tie, bb.binary(Opcode::And, lNan, rNan));
    }
    ir::Value *first = bb.binary(Opcode::And, tie, bb.cmp(ir::Pred::Lt, l[1], r[1]));
    ir::Value *left = bb.binary(Opcode::Or, better, first);
    return llvm::SmallVector<ir::Value *, 2>{bb.select(left, l[0], r[0]), bb.select(left, l[1], r[1])};
  };
  auto out = b().reduce({x, index}, *axis, combine);
  Val index1 = Val::runtime(out[1]);
  return keepDims(a, keep, both ? Val::tuple({Val::runtime(out[0]), index1}) : index1, *axis);
}
Val Elaborator::opArgmax(CallArgs &a) {
  return argMinMax(a, true, false, 2);
}
Val Elaborator::opArgmin(CallArgs &a) {
  return argMinMax(a, false, false, 2);
}

std::optional<bool> Elaborator::constBool(const CallArgs &a, unsigned i) {
  if (!a.has(i)) return false;
  if (a.vals[i].isBool()) return a.vals[i].i != 0;
  error(Diag::ElFlag, a.locs[i], a.name, describe(a.vals[i]));
  return std::nullopt;
}

Val Elaborator::cumulative(CallArgs &a, Opcode op) {
  ir::Value *x = tileOf(a, 0);
  if (!x) return Val::poison();
  if (!a.vals[0].isArithmetic()) return error(Diag::ElNotNumber, a.locs[0], a.name, describe(a.vals[0]));
  const Scalar type = x->type.scalar();
  if (ir::isFp8(type)) return error(Diag::ElFp8Arith, a.locs[0], a.name, ir::scalarName(type));
  auto axis = reductionAxis(a, x);
  auto reverse = constBool(a, 2);
  if (!axis || !reverse) return Val::poison();
  // The types are those of sum.
  Scalar acc = type, result = type;
  if (ir::isFloat(type) && ir::scalarBits(type) < 32)
    acc = Scalar::F32;
  else if (ir::isInt(type) && ir::scalarBits(type) < 32)
    acc = result = ir::isSignedInt(type) || type == Scalar::I1 ? Scalar::I32 : Scalar::U32;
  operations += 4;
  auto out =
      b().scan(convert(x, acc), *axis, *reverse, [&](llvm::ArrayRef<ir::Value *> l, llvm::ArrayRef<ir::Value *> r) {
        return llvm::SmallVector<ir::Value *, 2>{b().binary(op, l[0], r[0])};
      });
  return Val::runtime(convert(out[0], result));
}
Val Elaborator::opCumsum(CallArgs &a) {
  return cumulative(a, Opcode::Add);
}
Val Elaborator::opCumprod(CallArgs &a) {
  return cumulative(a, Opcode::Mul);
}

Val Elaborator::opReduce(CallArgs &a) {
  return combineAlong(a, false);
}
Val Elaborator::opAssociativeScan(CallArgs &a) {
  return combineAlong(a, true);
}

Val Elaborator::combineAlong(CallArgs &a, bool isScan) {
  std::vector<Val> tiles;
  bool isTuple = a.vals[0].is(Val::Kind::Tuple);
  if (isTuple)
    tiles = a.vals[0].elems;
  else
    tiles.push_back(a.vals[0]);
  llvm::SmallVector<ir::Value *, 2> operands;
  for (const Val &v : tiles) {
    if (!v.isTile() || !v.isArithmetic()) return error(Diag::ElNeedsTile, a.locs[0], a.name, describe(v));
    if (v.shape() != tiles[0].shape())
      return error(Diag::ElReduceShapes, a.locs[0], a.name, shapeText(tiles[0].shape()), shapeText(v.shape()));
    operands.push_back(v.v);
  }
  auto axis = axisOf(a, 1, operands[0]->type.rank());
  if (!axis) return Val::poison();
  if (!a.vals[2].is(Val::Kind::Fn)) return error(Diag::ElCombinerFn, a.locs[2], a.name, describe(a.vals[2]));
  bool ok = true;
  ++operations;
  auto combine = [&](llvm::ArrayRef<ir::Value *> l, llvm::ArrayRef<ir::Value *> r) {
    std::vector<ArgVal> args;
    for (llvm::ArrayRef<ir::Value *> side : {l, r})
      for (ir::Value *v : side) args.push_back({"", {}, Val::runtime(v), a.locs[2]});
    ir::Block *body = b().insertBlock();
    Val result = callFn(a.vals[2].fn, std::move(args), a.loc, a.locs[2]);
    llvm::SmallVector<ir::Value *, 2> out;
    if (result.isPoison()) {
      ok = false;
    } else {
      std::vector<Val> parts = result.is(Val::Kind::Tuple) ? result.elems : std::vector<Val>{result};
      bool match = parts.size() == l.size() && (!isTuple || result.is(Val::Kind::Tuple));
      for (size_t i = 0; match && i < parts.size(); ++i) {
        if (!parts[i].isArithmetic()) {
          match = false;
        } else {
          ir::Value *v = parts[i].isLiteral() ? materializeAs(parts[i], l[i]->type.scalar(), a.locs[2], "the combiner")
                                              : materialize(parts[i], a.locs[2]);
          match = v && v->type == l[i]->type;
          out.push_back(v);
        }
      }
      if (!match) {
        std::string want;
        for (ir::Value *v : l) want += (want.empty() ? "" : ", ") + v->type.str();
        std::string have;
        for (const Val &p : parts) have += (have.empty() ? "" : ", ") + describe(p);
        error(Diag::ElCombinerResult, a.locs[2], have, want);
        ok = false;
      } else {
        // The combiner runs on registers, between lanes and between warps: it may only compute.
        body->walk([&](ir::Op &op) {
          if (op.has(ir::Elementwise) || op.is(Opcode::Constant)) return;
          if (ok) {
            error(Diag::ElCombinerOps, a.locs[2], op.info().name);
            note(op.loc, "it stands here");
          }
          ok = false;
        });
      }
    }
    if (!ok) out.assign(l.begin(), l.end());
    return out;
  };
  std::optional<bool> reverse = false;
  if (isScan && !(reverse = constBool(a, 3))) return Val::poison();
  auto results = isScan ? b().scan(operands, *axis, *reverse, combine) : b().reduce(operands, *axis, combine);
  if (!ok) return Val::poison();
  std::vector<Val> out;
  for (ir::Value *v : results) out.push_back(Val::runtime(v));
  const Val all = isTuple ? Val::tuple(std::move(out)) : out[0];
  return isScan ? all : keepDims(a, 3, all, *axis);
}

} // namespace tlx::lang
