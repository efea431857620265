// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Expressions: operators at compile time and at run time, indexing, methods, calls.
#include "ir/speculation.h"
#include "lang/elaborate_p.h"

#include <cmath>

namespace tlx::lang {

using namespace ast;
using llvm::cast;
using llvm::dyn_cast;

Val Elaborator::value(const Expr &e) {
  Val v = eval(e);
  if (v.is(Val::Kind::Unit)) return error(Diag::ElNoValue, e.loc);
  return v;
}

Val Elaborator::eval(const Expr &e) {
  ++depth;
  struct Leave {
    unsigned &d;
    ~Leave() { --d; }
  } leave{depth};
  if (!step(e.loc)) return Val::poison();
  At at(*this, e.loc);
  switch (e.kind) {
  case ExprKind::IntLit: {
    uint64_t v = cast<IntLit>(e).value;
    if (v > uint64_t(INT64_MAX)) return error(Diag::ElOverflow, e.loc);
    return Val::integer(int64_t(v));
  }
  case ExprKind::FloatLit:
    return Val::floating(cast<FloatLit>(e).value);
  case ExprKind::BoolLit:
    return Val::boolean(cast<BoolLit>(e).value);
  case ExprKind::StringLit:
    return Val::string(cast<StringLit>(e).value);
  case ExprKind::NameRef:
    return lookup(cast<NameRef>(e).name, e.loc);
  case ExprKind::Unary:
    return evalUnary(cast<Unary>(e));
  case ExprKind::Binary:
    return evalBinary(cast<ast::Binary>(e));
  case ExprKind::Call:
    return evalCall(cast<Call>(e));
  case ExprKind::MethodCall:
    return evalMethod(cast<MethodCall>(e));
  case ExprKind::Member:
    return evalMember(cast<Member>(e));
  case ExprKind::Index:
    return evalIndex(cast<Index>(e));
  case ExprKind::List:
  case ExprKind::Tuple: {
    std::vector<Val> elems;
    bool poison = false;
    for (const ExprPtr &x : e.kind == ExprKind::List ? cast<List>(e).elements : cast<Tuple>(e).elements) {
      elems.push_back(value(*x));
      elems.back().loc = x->loc;
      poison |= elems.back().isPoison();
    }
    if (poison) return Val::poison();
    return e.kind == ExprKind::List ? Val::list(std::move(elems)) : Val::tuple(std::move(elems));
  }
  }
  return Val::poison();
}

//===-- unary -----------------------------------------------------------------------------------------------------===//

Val Elaborator::evalUnary(const Unary &e) {
  // -2^63 is one literal, though 2^63 alone does not fit.
  if (auto *lit = dyn_cast<IntLit>(e.operand.get()))
    if (e.op == UnaryOp::Neg && lit->value == uint64_t(1) << 63) return Val::integer(INT64_MIN);
  Val v = value(*e.operand);
  if (v.isPoison()) return v;
  std::string op(spelling(e.op));
  if (!v.isArithmetic()) return notNumber(e.opLoc, "'" + op + "'", v);
  ir::Scalar type = v.scalar();
  bool isBool = type == ir::Scalar::I1;
  switch (e.op) {
  case UnaryOp::Not:
    if (!isBool) return error(Diag::ElNotBool, e.opLoc, "'!'", describe(v));
    if (v.isBool()) return Val::boolean(!v.i);
    if (v.isTile()) return error(Diag::ElLogicalTile, e.opLoc, "!", shapeText(v.shape()), "~");
    return Val::runtime(b().binary(ir::Opcode::Xor, v.v, b().constant(v.v->type, 1)));
  case UnaryOp::BitNot:
    if (v.isBool()) return Val::boolean(!v.i);
    if (ir::isFloat(type)) return error(Diag::ElNeedsInt, e.opLoc, "'~'", describe(v));
    if (v.isInt()) return v.type ? convertConst(Val::integer(~v.i), *v.type) : Val::integer(~v.i);
    operations += 2;
    return Val::runtime(b().binary(ir::Opcode::Xor, v.v, b().constant(v.v->type, isBool ? 1 : -1)));
  case UnaryOp::Neg:
    if (isBool) return error(Diag::ElBoolArith, e.opLoc, "'-'");
    if (ir::isFp8(type)) return error(Diag::ElFp8Arith, e.opLoc, "'-'", ir::scalarName(type));
    if (v.isInt()) {
      if (v.i == INT64_MIN) return error(Diag::ElOverflow, e.opLoc);
      return Val::integer(-v.i, v.type);
    }
    if (v.isFloat()) return Val::floating(-v.f, v.type);
    ++operations;
    return Val::runtime(b().unary(ir::Opcode::Neg, v.v));
  }
  return Val::poison();
}

//===-- binary ----------------------------------------------------------------------------------------------------===//

Val Elaborator::evalBinary(const ast::Binary &e) {
  if (e.op == BinaryOp::LogicalAnd || e.op == BinaryOp::LogicalOr) return evalLogical(e);
  // A long sum is a left-leaning tree: walk down its spine so that stack does not grow with its length.
  llvm::SmallVector<const ast::Binary *, 8> spine;
  const Expr *left = &e;
  while (auto *bin = dyn_cast<ast::Binary>(left)) {
    if (bin->op == BinaryOp::LogicalAnd || bin->op == BinaryOp::LogicalOr) break;
    spine.push_back(bin);
    left = bin->lhs.get();
  }
  Val a = value(*left);
  for (size_t i = spine.size(); i-- > 0;) {
    const ast::Binary &node = *spine[i];
    if (!step(node.loc)) return Val::poison();
    Val c = value(*node.rhs);
    At at(*this, node.loc);
    a = binary(node.op, a, c, node.opLoc, node.lhs->loc, node.rhs->loc);
  }
  return a;
}

Val Elaborator::evalLogical(const ast::Binary &e) {
  bool isAnd = e.op == BinaryOp::LogicalAnd;
  std::string what = "'" + std::string(spelling(e.op)) + "'";
  auto check = [&](const Val &v, Loc loc) {
    if (v.isPoison()) return false;
    if (!v.isArithmetic() || v.scalar() != ir::Scalar::I1) return error(Diag::ElNotBool, loc, what, describe(v)), false;
    if (v.isTile()) {
      error(Diag::ElLogicalTile, e.opLoc, spelling(e.op), shapeText(v.shape()), isAnd ? "&" : "|");
      return false;
    }
    return true;
  };
  Val a = value(*e.lhs);
  bool okA = check(a, e.lhs->loc);
  // What decides at compile time leaves the other side unread, as a folded if does.
  if (okA && a.isBool()) {
    if (bool(a.i) != isAnd) return a;
    Val c = value(*e.rhs);
    return check(c, e.rhs->loc) ? c : Val::poison();
  }
  if (!okA) {
    check(value(*e.rhs), e.rhs->loc);
    return Val::poison();
  }
  ir::Block *parent = b().insertBlock();
  ir::Op *op = b().ifOp(a.v, context.scalar(ir::Scalar::I1));
  b().atEnd(op->body(isAnd ? 0 : 1));
  auto savedCells = cells;
  Val c = value(*e.rhs);
  bool okC = check(c, e.rhs->loc);
  cells = std::move(savedCells);
  if (!okC) {
    b().atEnd(*parent);
    return Val::poison();
  }
  if (c.isBool()) { // x && true, x && false
    b().atEnd(*parent);
    op->erase();
    if (bool(c.i) == isAnd) return a;
    return c;
  }
  // Without loads or branches on the right there is nothing to skip: a plain and / or.
  bool pure = llvm::all_of(op->body(isAnd ? 0 : 1).ops(), [](ir::Op *o) { return ir::speculatable(*o); });
  operations += 2;
  if (pure) {
    for (ir::Op *o : op->body(isAnd ? 0 : 1).ops()) o->moveBefore(op);
    op->erase();
    b().atEnd(*parent);
    return Val::runtime(b().binary(isAnd ? ir::Opcode::And : ir::Opcode::Or, a.v, c.v));
  }
  b().yield(c.v);
  b().atEnd(op->body(isAnd ? 1 : 0));
  b().yield(b().constant(context.scalar(ir::Scalar::I1), isAnd ? 0 : 1));
  b().atEnd(*parent);
  return Val::runtime(op->result());
}

static ir::Opcode opcodeOf(BinaryOp op, bool isFloat) {
  using O = ir::Opcode;
  switch (op) {
  case BinaryOp::Add:
    return O::Add;
  case BinaryOp::Sub:
    return O::Sub;
  case BinaryOp::Mul:
    return O::Mul;
  case BinaryOp::Div:
    return isFloat ? O::Div : O::DivFloor;
  case BinaryOp::Mod:
    return O::ModFloor;
  case BinaryOp::BitAnd:
    return O::And;
  case BinaryOp::BitOr:
    return O::Or;
  case BinaryOp::BitXor:
    return O::Xor;
  case BinaryOp::Shl:
    return O::Shl;
  default:
    return O::Shr;
  }
}

static bool isBitOp(BinaryOp op) {
  return op == BinaryOp::BitAnd || op == BinaryOp::BitOr || op == BinaryOp::BitXor || op == BinaryOp::Shl ||
         op == BinaryOp::Shr;
}

Val Elaborator::binary(BinaryOp op, const Val &a, const Val &c, Loc opLoc, Loc aLoc, Loc cLoc) {
  if (a.isPoison() || c.isPoison()) return Val::poison();
  std::string what = "'" + std::string(spelling(op)) + "'";
  if (a.isPointerLike() || c.isPointerLike()) return pointerArith(op, a, c, opLoc);
  if (isComparison(op)) return compare(op, a, c, opLoc);
  if (!a.isArithmetic()) return notNumber(aLoc, what, a);
  if (!c.isArithmetic()) return notNumber(cLoc, what, c);
  if (a.isNumber() && c.isNumber()) return foldBinary(op, a, c, opLoc);

  bool shift = op == BinaryOp::Shl || op == BinaryOp::Shr;
  auto type = commonType(a, c, opLoc, what);
  if (!type) return Val::poison();
  bool isBool = *type == ir::Scalar::I1;
  if (isBool && (shift || !isBitOp(op))) return error(Diag::ElBoolArith, opLoc, what);
  if (ir::isFloat(*type) && isBitOp(op))
    return error(Diag::ElNeedsInt, opLoc, what, describe(ir::isFloat(a.scalar()) ? a : c));
  if (ir::isFloat(*type) && op == BinaryOp::Mod) return error(Diag::ElFloatMod, opLoc, ir::scalarName(*type));
  if (ir::isFp8(*type)) return error(Diag::ElFp8Arith, opLoc, what, ir::scalarName(*type));
  if (c.isInt() && c.i == 0 && (op == BinaryOp::Div || op == BinaryOp::Mod) && ir::isInt(*type))
    return error(Diag::ElDivZero, cLoc);
  if (shift && c.isInt() && (c.i < 0 || c.i >= int64_t(ir::scalarBits(*type))))
    return error(Diag::ElShift, cLoc, c.i, ir::scalarName(*type));
  auto pair = unify(a, c, opLoc, what);
  if (!pair) return Val::poison();
  ++operations;
  return Val::runtime(b().binary(opcodeOf(op, ir::isFloat(*type)), pair->first, pair->second));
}

Val Elaborator::compare(BinaryOp op, const Val &a, const Val &c, Loc opLoc) {
  using K = Val::Kind;
  bool equality = op == BinaryOp::Eq || op == BinaryOp::Ne;
  std::string what = "'" + std::string(spelling(op)) + "'";
  if (a.kind == c.kind && (a.is(K::DType) || a.is(K::Fn) || a.is(K::String))) {
    if (!equality) return error(Diag::ElNotNumber, opLoc, what, describe(a));
    bool same = a.is(K::DType) ? a.dtype == c.dtype : a.is(K::Fn) ? a.fn == c.fn : a.s == c.s;
    return Val::boolean(same == (op == BinaryOp::Eq));
  }
  for (const Val *v : {&a, &c})
    if (!v->isArithmetic()) return notNumber(opLoc, what, *v);
  if (a.isNumber() && c.isNumber()) return foldBinary(op, a, c, opLoc);
  auto type = commonType(a, c, opLoc, what);
  if (!type) return Val::poison();
  if (*type == ir::Scalar::I1 && !equality) return error(Diag::ElBoolArith, opLoc, what);
  if (ir::isFp8(*type)) return error(Diag::ElFp8Arith, opLoc, what, ir::scalarName(*type));
  auto pair = unify(a, c, opLoc, what);
  if (!pair) return Val::poison();
  constexpr ir::Pred kPreds[] = {ir::Pred::Eq, ir::Pred::Ne, ir::Pred::Lt, ir::Pred::Le, ir::Pred::Gt, ir::Pred::Ge};
  ++operations;
  return Val::runtime(b().cmp(kPreds[int(op) - int(BinaryOp::Eq)], pair->first, pair->second));
}

Val Elaborator::foldBinary(BinaryOp op, const Val &a, const Val &c, Loc opLoc) {
  std::string what = "'" + std::string(spelling(op)) + "'";
  auto common = commonType(a, c, opLoc, what);
  if (!common) return Val::poison();
  // Two literals stay a literal.
  std::optional<ir::Scalar> type = a.isLiteral() && c.isLiteral() ? std::nullopt : common;
  bool isFloat = a.isFloat() || c.isFloat() || ir::isFloat(*common), isBool = *common == ir::Scalar::I1;
  if (isComparison(op)) {
    bool equality = op == BinaryOp::Eq || op == BinaryOp::Ne;
    if (isBool && !equality) return error(Diag::ElBoolArith, opLoc, what);
    auto test = [&](auto x, auto y) {
      switch (op) {
      case BinaryOp::Eq:
        return x == y;
      case BinaryOp::Ne:
        return x != y;
      case BinaryOp::Lt:
        return x < y;
      case BinaryOp::Le:
        return x <= y;
      case BinaryOp::Gt:
        return x > y;
      default:
        return x >= y;
      }
    };
    if (!isFloat) return Val::boolean(test(a.i, c.i));
    return Val::boolean(test(a.isFloat() ? a.f : double(a.i), c.isFloat() ? c.f : double(c.i)));
  }
  if (isFloat) {
    if (isBitOp(op)) return error(Diag::ElNeedsInt, opLoc, what, describe(a.isFloat() ? a : c));
    if (op == BinaryOp::Mod) return error(Diag::ElFloatMod, opLoc, ir::scalarName(*common));
    if (type && ir::isFp8(*type)) return error(Diag::ElFp8Arith, opLoc, what, ir::scalarName(*type));
    double x = a.isFloat() ? a.f : double(a.i), y = c.isFloat() ? c.f : double(c.i);
    double r = op == BinaryOp::Add ? x + y : op == BinaryOp::Sub ? x - y : op == BinaryOp::Mul ? x * y : x / y;
    return Val::floating(type ? roundTo(r, *type) : r, type);
  }
  if (isBool) {
    if (op == BinaryOp::BitAnd) return Val::boolean(a.i & c.i);
    if (op == BinaryOp::BitOr) return Val::boolean(a.i | c.i);
    if (op == BinaryOp::BitXor) return Val::boolean(a.i ^ c.i);
    return error(Diag::ElBoolArith, opLoc, what);
  }
  int64_t r = 0;
  bool overflow = false;
  switch (op) {
  case BinaryOp::Add:
    overflow = __builtin_add_overflow(a.i, c.i, &r);
    break;
  case BinaryOp::Sub:
    overflow = __builtin_sub_overflow(a.i, c.i, &r);
    break;
  case BinaryOp::Mul:
    overflow = __builtin_mul_overflow(a.i, c.i, &r);
    break;
  case BinaryOp::Div:
  case BinaryOp::Mod: {
    if (c.i == 0) return error(Diag::ElDivZero, opLoc);
    if (c.i == -1) {
      overflow = op == BinaryOp::Div && a.i == INT64_MIN;
      r = op == BinaryOp::Div && !overflow ? -a.i : 0;
      break;
    }
    int64_t q = a.i / c.i, m = a.i % c.i;
    if (m != 0 && (m < 0) != (c.i < 0)) --q, m += c.i;
    r = op == BinaryOp::Div ? q : m;
    break;
  }
  case BinaryOp::BitAnd:
    r = a.i & c.i;
    break;
  case BinaryOp::BitOr:
    r = a.i | c.i;
    break;
  case BinaryOp::BitXor:
    r = a.i ^ c.i;
    break;
  case BinaryOp::Shl:
    if (c.i < 0 || c.i >= 64) return error(Diag::ElShift, opLoc, c.i, "i64");
    overflow = c.i == 63 ? a.i != 0 : (a.i > (INT64_MAX >> c.i) || a.i < (INT64_MIN >> c.i));
    r = overflow ? 0 : int64_t(uint64_t(a.i) << c.i);
    break;
  default:
    if (c.i < 0 || c.i >= 64) return error(Diag::ElShift, opLoc, c.i, "i64");
    r = a.i >> c.i;
    break;
  }
  if (overflow) return error(Diag::ElOverflow, opLoc);
  return Val::integer(r, type);
}

Val Elaborator::pointerArith(BinaryOp op, const Val &a, const Val &c, Loc opLoc) {
  std::string what = "'" + std::string(spelling(op)) + "'";
  bool swapped = !a.isPointerLike();
  const Val &pointer = swapped ? c : a, &offset = swapped ? a : c;
  bool ok = (op == BinaryOp::Add || (op == BinaryOp::Sub && !swapped)) && !offset.isPointerLike();
  if (!ok) return error(Diag::ElPointerOp, opLoc, what, describe(a), describe(c));
  if (!offset.isArithmetic() || !ir::isInt(offset.scalar()) || offset.scalar() == ir::Scalar::I1)
    return error(Diag::ElPointerOffset, opLoc, describe(offset));
  auto shape = commonShape(pointer.shape(), offset.shape(), opLoc, what);
  ir::Value *o = materialize(offset, opLoc);
  if (!shape || !o) return Val::poison();
  // Offsets count elements and are scaled in 64 bits; narrow ones are 32-bit index arithmetic.
  ir::Scalar s = o->type.element().scalar();
  if (ir::scalarBits(s) < 32) o = convert(o, ir::Scalar::I32);
  if (op == BinaryOp::Sub) {
    if (s == ir::Scalar::U32) o = convert(o, ir::Scalar::I64);
    ++operations;
    o = b().unary(ir::Opcode::Neg, o);
  }
  ++operations;
  return Val::runtime(b().addptr(broadcast(pointer.v, *shape), broadcast(o, *shape)));
}

//===-- indexing and methods --------------------------------------------------------------------------------------===//

Val Elaborator::evalIndex(const Index &e) {
  Val v = value(*e.object);
  if (v.isPoison()) return v;
  if (v.is(Val::Kind::List) || v.is(Val::Kind::Tuple)) {
    if (e.subscripts.size() != 1 || e.subscripts[0].kind != Subscript::At)
      return error(Diag::ElIndexOne, e.loc, describe(v));
    Val i = value(*e.subscripts[0].value);
    if (i.isPoison()) return i;
    if (!i.isInt()) return error(Diag::ElIndexConst, e.subscripts[0].loc, describe(i));
    if (i.i < 0 || i.i >= int64_t(v.elems.size()))
      return error(Diag::ElIndexRange, e.subscripts[0].loc, i.i, describe(v));
    return v.elems[size_t(i.i)];
  }
  if (v.isBuffer() || v.isBarrier()) {
    if (e.subscripts.size() != 1 || e.subscripts[0].kind != Subscript::At)
      return error(Diag::ElIndexOne, e.loc, describe(v));
    Val slot = value(*e.subscripts[0].value);
    return slot.isPoison() ? slot : slotOf(v, slot, e.loc, e.subscripts[0].loc);
  }
  bool grows = false;
  unsigned all = 0;
  for (const Subscript &s : e.subscripts) {
    grows |= s.kind == Subscript::NewAxis;
    all += s.kind == Subscript::All;
    if (s.kind == Subscript::At) {
      if (v.isTile()) return error(Diag::ElTileElement, s.loc, describe(v));
      return error(Diag::ElNotIndexable, e.loc, describe(v));
    }
  }
  if (!v.isTile()) return error(Diag::ElNotIndexable, e.loc, describe(v));
  if (all != v.v->type.rank())
    return error(Diag::ElIndexRank, e.loc, describe(v), plural(v.v->type.rank(), "dimension"), all);
  if (!grows) return v;
  ir::Value *x = v.v;
  for (unsigned i = 0; i < e.subscripts.size(); ++i)
    if (e.subscripts[i].kind == Subscript::NewAxis) {
      if (x->type.rank() >= 8) return error(Diag::ElRank, e.loc, e.subscripts.size());
      ++operations;
      x = b().expandDims(x, i);
    }
  return Val::runtime(x);
}

Val Elaborator::evalMember(const Member &e) {
  Val v = value(*e.object);
  if (v.isPoison()) return v;
  if (e.member.text == "T") {
    if (v.isDesc()) return error(Diag::ElDescTile, e.loc, ".T", describe(v));
    if (!v.isTile() || v.v->type.rank() != 2) return error(Diag::ElTransRank, e.loc, describe(v));
    ++operations;
    return Val::runtime(b().trans(v.v, {1, 0}));
  }
  if (e.member.text == "shape" || e.member.text == "dtype")
    return error(Diag::ElMember, e.member.loc, e.member.text,
                 e.member.text == "dtype" ? "; write dtype_of(x)" : "; shapes are compile-time values: name them");
  if (e.member.text == "to" || e.member.text == "load" || e.member.text == "store")
    return error(Diag::ElMember, e.member.loc, e.member.text, "; call it: ." + e.member.text + "(…)");
  return error(Diag::ElMember, e.member.loc, e.member.text, "; the only one is .T");
}

Val Elaborator::evalMethod(const MethodCall &e) {
  static const Builtin kTo{"to", "x, type, rounding?", &Elaborator::opTo};
  static const Builtin kLoad{"load", "desc, offsets, eviction?", &Elaborator::opDescLoad};
  static const Builtin kStore{"store", "desc, offsets, value, reduce?, eviction?", &Elaborator::opDescStore};
  Val object = value(*e.object);
  auto args = evalArgs(e.args);
  const std::string &name = e.method.text;
  if (object.isPoison()) return object;
  const Builtin *op = name == "to" ? &kTo : name == "load" ? &kLoad : name == "store" ? &kStore : nullptr;
  if (!op) {
    std::string instead;
    if (const Builtin *known = findBuiltin(name)) instead = std::string("; write ") + known->name + "(x, …)";
    return error(Diag::ElMethod, e.method.loc, name, instead);
  }
  if (op != &kTo && !object.isDesc()) return error(Diag::ElDescMethod, e.method.loc, name, describe(object));
  if (!args) return Val::poison();
  args->insert(args->begin(), {"", {}, object, e.object->loc});
  return callBuiltin(*op, std::move(*args), e.loc, e.method.loc, "." + name);
}

//===-- calls -----------------------------------------------------------------------------------------------------===//

std::optional<std::vector<ArgVal>> Elaborator::evalArgs(llvm::ArrayRef<Arg> args) {
  std::vector<ArgVal> out;
  for (const Arg &a : args) out.push_back({a.name.text, a.name.loc, value(*a.value), a.value->loc});
  return out;
}

Val Elaborator::evalCall(const Call &e) {
  const std::string &name = e.callee.text;
  FnRef fn;
  Binding *local = findLocal(name);
  if (local && (local->cell >= 0 || !local->val.is(Val::Kind::Fn)) && (findBuiltin(name) || futureOperation(name)))
    local = nullptr; // let sum = sum(x): a variable does not hide an operation from calls
  Val callee;
  if (local) {
    callee = local->cell >= 0 ? readCell(local->cell) : local->val;
  } else {
    std::optional<Val> own = frame().file ? lookupFile(*frame().file, name, e.callee.loc) : std::nullopt;
    if (own)
      callee = *own;
    else if (const Builtin *op = findBuiltin(name))
      callee = Val::function({nullptr, nullptr, op});
    else
      callee = lookup(name, e.callee.loc);
  }
  auto args = evalArgs(e.args);
  if (callee.isPoison() || !args) return Val::poison();
  if (!callee.is(Val::Kind::Fn)) {
    if (callee.is(Val::Kind::DType)) return error(Diag::ElCallDtype, e.callee.loc, name);
    return error(Diag::ElNotCallable, e.callee.loc, name, describe(callee));
  }
  return callFn(callee.fn, std::move(*args), e.loc, e.callee.loc);
}

Val Elaborator::callFn(const FnRef &fn, std::vector<ArgVal> args, Loc loc, Loc nameLoc) {
  if (fn.builtin) return callBuiltin(*fn.builtin, std::move(args), loc, nameLoc);
  return inlineFn(fn, std::move(args), loc, nameLoc);
}

Val Elaborator::callBuiltin(const Builtin &op, std::vector<ArgVal> args, Loc loc, Loc nameLoc, llvm::StringRef name) {
  CallArgs a;
  a.name = name.empty() ? llvm::StringRef(op.name) : name;
  a.loc = loc, a.nameLoc = nameLoc;
  llvm::SmallVector<llvm::StringRef, 8> params;
  llvm::StringRef(op.params).split(params, ", ", -1, false);
  const size_t positional = size_t(llvm::find(params, "...") - params.begin()); // those behind are given by name
  const bool variadic = positional < params.size();
  if (variadic) params.erase(params.begin() + ptrdiff_t(positional));
  llvm::SmallVector<bool, 8> optional;
  for (llvm::StringRef &p : params) optional.push_back(p.consume_back("?"));
  a.vals.resize(params.size());
  a.locs.assign(params.size(), loc);
  a.given.assign(params.size(), false);
  unsigned position = 0;
  bool poison = false;
  unsigned receiver = name.starts_with(".") ? 1 : 0;
  for (ArgVal &arg : args) {
    poison |= arg.val.isPoison();
    size_t index = position;
    if (arg.name.empty()) {
      ++position;
      if (index >= positional) {
        if (!variadic)
          return error(Diag::ElTooManyArgs, arg.loc, a.name, plural(params.size() - receiver, "argument"),
                       llvm::join(llvm::ArrayRef(params).drop_front(receiver), ", "));
        a.rest.push_back(std::move(arg));
        continue;
      }
    } else {
      index = llvm::find(params, arg.name) - params.begin();
      if (index == params.size() || index < receiver)
        return error(Diag::ElUnknownArg, arg.nameLoc, a.name, arg.name,
                     llvm::join(llvm::ArrayRef(params).drop_front(receiver), ", "));
      if (a.given[index]) return error(Diag::ElArgTwice, arg.nameLoc, arg.name);
    }
    a.vals[index] = std::move(arg.val);
    a.locs[index] = arg.loc;
    a.given[index] = true;
  }
  for (size_t i = 0; i < params.size(); ++i)
    if (!a.given[i] && !optional[i]) return error(Diag::ElMissingArg, nameLoc, a.name, params[i]);
  if (poison) return Val::poison();
  return (this->*op.elaborate)(a);
}

Val Elaborator::checkParam(const Param &param, Val val, Loc loc) {
  if (val.isPoison()) return val;
  const std::string &name = param.name.text;
  if (param.isConst && val.isRuntime()) return error(Diag::ElConstParam, loc, name);
  if (!param.type) return val;
  const TypeExpr &type = *param.type;
  if (type.kind == TypeExpr::Named && (type.name == "dtype" || type.name == "fn")) {
    if (val.kind == (type.name == "dtype" ? Val::Kind::DType : Val::Kind::Fn)) return val;
    return error(Diag::ElParamType, loc, name, type.name, describe(val));
  }
  ir::Type want = resolveType(type);
  if (!want) return Val::poison();
  if (val.isNumber() && want.isScalar()) {
    ir::Scalar s = want.scalar();
    bool adapts = val.isLiteral() && s != ir::Scalar::I1 && (ir::isFloat(s) || val.isInt());
    if (!adapts && val.scalar() != s) return error(Diag::ElParamType, loc, name, want.str(), describe(val));
    if (!fits(val, s, loc)) return Val::poison();
    return convertConst(val, s);
  }
  if (!val.isRuntime() || val.v->type != want) return error(Diag::ElParamType, loc, name, want.str(), describe(val));
  return val;
}

Val Elaborator::inlineFn(const FnRef &ref, std::vector<ArgVal> args, Loc loc, Loc nameLoc) {
  const Fn &fn = *ref.fn;
  if (fn.incomplete) return Val::poison();
  for (auto &f : frames)
    if (f->fn == &fn) return error(Diag::ElRecursion, nameLoc, fn.name.text);
  if (frames.size() > options.limits.callDepth) return error(Diag::ElCallDepth, nameLoc, options.limits.callDepth);

  std::vector<const ArgVal *> bound(fn.params.size());
  unsigned position = 0;
  for (const ArgVal &arg : args) {
    size_t index = position;
    if (arg.name.empty()) {
      ++position;
      if (index >= fn.params.size()) {
        std::string names;
        for (const Param &p : fn.params) names += (names.empty() ? "" : ", ") + p.name.text;
        error(Diag::ElTooManyArgs, arg.loc, fn.name.text, plural(fn.params.size(), "argument"), names);
        note(fn.name.loc, "'" + fn.name.text + "' is defined here");
        return Val::poison();
      }
    } else {
      index = llvm::find_if(fn.params, [&](const Param &p) { return p.name.text == arg.name; }) - fn.params.begin();
      if (index == fn.params.size()) {
        std::string names;
        for (const Param &p : fn.params) names += (names.empty() ? "" : ", ") + p.name.text;
        return error(Diag::ElUnknownArg, arg.nameLoc, fn.name.text, arg.name, names);
      }
      if (bound[index]) return error(Diag::ElArgTwice, arg.nameLoc, arg.name);
    }
    bound[index] = &arg;
  }
  for (size_t i = 0; i < fn.params.size(); ++i)
    if (!bound[i] && !fn.params[i].defaultValue) {
      error(Diag::ElMissingArg, nameLoc, fn.name.text, fn.params[i].name.text);
      note(fn.name.loc, "'" + fn.name.text + "' is defined here");
      return Val::poison();
    }

  size_t firstCell = cells.size();
  auto owned = std::make_unique<Frame>();
  Frame &inner = *owned;
  inner.fn = &fn, inner.file = ref.file;
  inner.scopes.emplace_back();
  frames.push_back(std::move(owned));
  for (size_t i = 0; i < fn.params.size(); ++i) {
    const Param &p = fn.params[i];
    // A wrong argument is the caller's mistake and stands in the caller's text; the type is read here, where earlier
    // parameters are known.
    Val v = bound[i] ? checkParam(p, bound[i]->val, bound[i]->loc)
                     : checkParam(p, value(*p.defaultValue), p.defaultValue->loc);
    define(p.name, {.val = std::move(v)});
  }
  inner.callLoc = loc; // errors from here on are the function's, and say who called it
  inner.returnedCell = newCell();
  if (returnsEarly(*fn.body))
    for (unsigned i = 0; i < kMaxResults; ++i) inner.resultCells.push_back(newCell());
  inner.scopes.emplace_back(); // the body may not redefine a parameter, which the scope check of `define` sees
  Flow flow = stmts(fn.body->stmts);

  Val result = Val::unit();
  if (inner.badReturn || aborted) {
    result = Val::poison();
  } else if (inner.direct) {
    result = *inner.direct;
  } else if (!inner.resultTypes.empty()) {
    if (flow & kFalls) {
      result = error(Diag::ElMissingReturn, fn.body->endLoc.known() ? fn.body->endLoc : fn.name.loc, fn.name.text);
      note(inner.firstReturn, "a value is returned here");
    } else {
      std::vector<Val> values;
      for (size_t i = 0; i < inner.resultTypes.size(); ++i) values.push_back(readCell(inner.resultCells[i]));
      bool poison = llvm::any_of(values, [](const Val &v) { return v.isPoison(); });
      result = poison ? Val::poison() : inner.resultIsTuple ? Val::tuple(std::move(values)) : values[0];
    }
  }
  frames.pop_back();
  cells.resize(firstCell);
  return result;
}

} // namespace tlx::lang
