// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Statements: SSA of variables through branches, and early exits in structured form.
//
// The IR has no jumps. What follows an exit on one side of an `if` moves into the other side:
//     if c { return; } rest            →   if c { } else { rest }
// Where both sides go on, or an exit sits deeper, a flag (an i1 variable of the elaborator) says that it was taken, and
// the rest is guarded by it. A loop that sets such a flag becomes a `while` that tests it (elaborate_loops.cpp).
#include "lang/elaborate_p.h"

namespace tlx::lang {

using namespace ast;
using llvm::cast;
using llvm::dyn_cast;

static bool alwaysExits(const Stmt &s) {
  switch (s.kind) {
  case StmtKind::Break:
  case StmtKind::Continue:
  case StmtKind::Return:
    return true;
  case StmtKind::Block:
    return alwaysExits(cast<Block>(s));
  case StmtKind::If: {
    auto &i = cast<If>(s);
    return i.elseBranch && alwaysExits(*i.thenBlock) && alwaysExits(*i.elseBranch);
  }
  default:
    return false;
  }
}
bool alwaysExits(const Block &block) {
  return llvm::any_of(block.stmts, [](const StmtPtr &s) { return alwaysExits(*s); });
}

bool returnsEarly(const Block &body) {
  auto inside = [](const Stmt &s, auto &self) -> bool {
    switch (s.kind) {
    case StmtKind::Return:
      return true;
    case StmtKind::Block:
      return llvm::any_of(cast<Block>(s).stmts, [&](const StmtPtr &x) { return self(*x, self); });
    case StmtKind::If: {
      auto &i = cast<If>(s);
      return self(*i.thenBlock, self) || (i.elseBranch && self(*i.elseBranch, self));
    }
    case StmtKind::For:
      return self(*cast<For>(s).body, self);
    case StmtKind::While:
      return self(*cast<While>(s).body, self);
    default:
      return false;
    }
  };
  return llvm::any_of(body.stmts, [&](const StmtPtr &s) { return s->kind != StmtKind::Return && inside(*s, inside); });
}

//===-- blocks ----------------------------------------------------------------------------------------------------===//

Flow Elaborator::block(const Block &block) {
  size_t firstCell = cells.size();
  frame().scopes.emplace_back();
  Flow flow = stmts(block.stmts);
  frame().scopes.pop_back();
  cells.resize(firstCell);
  return flow;
}

Flow Elaborator::stmts(llvm::ArrayRef<StmtPtr> list) {
  ++depth;
  struct Leave {
    unsigned &d;
    ~Leave() { --d; }
  } leave{depth};
  Flow exits = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    if (!step(list[i]->loc)) return exits | kFalls;
    llvm::ArrayRef<StmtPtr> rest = list.drop_front(i + 1);
    bool consumed = false;
    Flow flow = list[i]->kind == StmtKind::If ? ifStmt(cast<If>(*list[i]), rest, consumed) : stmt(*list[i]);
    if (consumed || !(flow & kFalls)) return exits | flow;
    if (flow & ~kFalls) return exits | thenRest(flow, rest);
  }
  return exits | kFalls;
}

/// Elaborates what follows a statement with this flow, to the end of the block.
Flow Elaborator::thenRest(Flow flow, llvm::ArrayRef<StmtPtr> rest) {
  if (!(flow & kFalls) || rest.empty()) return flow;
  ir::Value *go = flow & ~kFalls ? notExited(flow) : nullptr;
  if (!go) return (flow & ~kFalls) | stmts(rest);
  return (flow & ~kFalls) | guarded(go, flow, [&] { return stmts(rest); });
}

Flow Elaborator::stmt(const Stmt &s) {
  At at(*this, s.loc);
  switch (s.kind) {
  case StmtKind::Let:
    let(cast<Let>(s));
    return kFalls;
  case StmtKind::Assign:
    assign(cast<Assign>(s));
    return kFalls;
  case StmtKind::ExprStmt: {
    Val v = eval(*cast<ExprStmt>(s).value);
    bool used = v.isPoison() || v.is(Val::Kind::Unit);
    if (!used) {
      // atomic_add is called for its effect as often as for its result.
      auto *call = dyn_cast<Call>(cast<ExprStmt>(s).value.get());
      bool pure = !v.isRuntime() || !v.v->def() || v.v->def()->has(ir::Pure);
      if (pure && (!call || findBuiltin(call->callee.text))) error(Diag::ElUnusedValue, s.loc, describe(v));
    }
    return kFalls;
  }
  case StmtKind::If: {
    bool consumed = false;
    return ifStmt(cast<If>(s), {}, consumed);
  }
  case StmtKind::For:
    return cast<For>(s).isStatic ? staticFor(cast<For>(s)) : forLoop(cast<For>(s));
  case StmtKind::While:
    return whileLoop(cast<While>(s));
  case StmtKind::Break:
    if (!frame().loops.empty()) setFlag(frame().loops.back().brokeCell);
    return kBreaks;
  case StmtKind::Continue:
    if (!frame().loops.empty()) setFlag(frame().loops.back().continuedCell);
    return kContinues;
  case StmtKind::Return:
    return ret(cast<Return>(s));
  case StmtKind::Block:
    return block(cast<Block>(s));
  case StmtKind::AsyncTasks:
    asyncTasks(cast<AsyncTasks>(s));
    return kFalls;
  case StmtKind::AsyncTask: // the parser has said where it belongs
    return kFalls;
  }
  return kFalls;
}

//===-- variables -------------------------------------------------------------------------------------------------===//

int Elaborator::newCell(ir::Value *value) {
  Cell c;
  c.value = value;
  if (value) c.type = value->type;
  cells.push_back(c);
  return int(cells.size()) - 1;
}

void Elaborator::setFlag(int cell) {
  ++operations;
  cells[cell].type = context.scalar(ir::Scalar::I1);
  cells[cell].value = b().constant(cells[cell].type, 1);
}

void Elaborator::let(const Let &s) {
  bindPattern(s.target, value(*s.value), s.value->loc, s.isVar);
}

void Elaborator::bindPattern(const Pattern &target, Val val, Loc loc, bool isVar) {
  std::vector<Val> parts(target.names.size());
  if (!target.isTuple) {
    parts[0] = std::move(val);
  } else if (val.is(Val::Kind::Tuple) && val.elems.size() == target.names.size()) {
    parts = std::move(val.elems);
  } else if (!val.isPoison()) {
    error(Diag::ElTupleCount, target.loc, target.names.size(), describe(val));
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    const Name &name = target.names[i];
    Val &v = parts[i];
    if (v.isLiteral()) {
      ir::Scalar type = v.scalar();
      v = fits(v, type, loc) ? convertConst(v, type) : Val::poison();
    }
    if (!isVar) {
      // Reports call barriers and buffers by their names.
      if (ir::Op *def = v.isBarrier() || v.isBuffer() ? v.v->def() : nullptr)
        if ((def->is(ir::Opcode::AllocBarriers) || def->is(ir::Opcode::LocalAlloc)) && !def->hasAttr(ir::Attr::name))
          def->setAttr(ir::Attr::name, std::string(name.text));
      define(name, {.val = std::move(v)});
      continue;
    }
    int cell = newCell();
    if (!v.isPoison() && !v.isNumber() && !v.isRuntime()) {
      error(Diag::ElVarValue, loc, name.text, describe(v));
    } else if (v.isDesc() || v.isBuffer() || v.isBarrier()) {
      error(Diag::ElVarValue, loc, name.text, describe(v));
    } else if (ir::Value *value = materialize(v, loc)) {
      cells[cell].value = value, cells[cell].type = value->type;
    }
    cells[cell].poison = !cells[cell].value;
    define(name, {.cell = cell});
  }
}

void Elaborator::assignTo(const Name &name, Val val, Loc loc) {
  if (name.isDiscard()) return;
  Binding *binding = findLocal(name.text);
  if (!binding) {
    bool file = frame().file && (frame().file->consts.count(name.text) || frame().file->fns.count(name.text));
    if (file)
      error(Diag::ElAssignConst, name.loc, name.text);
    else
      error(Diag::ElAssignUnknown, name.loc, name.text);
    return;
  }
  if (binding->cell < 0) {
    if (binding->isLoopVar)
      error(Diag::ElAssignLoopVar, name.loc, name.text);
    else
      error(Diag::ElAssignLet, name.loc, name.text);
    note(binding->loc, "'" + name.text + "' is defined here");
    return;
  }
  int cell = binding->cell;
  if (cells[cell].poison) return;
  ir::Type want = cells[cell].type;
  if (val.isPoison()) {
    cells[cell].poison = true;
    return;
  }
  bool literal = val.isLiteral() && want.isScalar() && want.scalar() != ir::Scalar::I1 &&
                 (val.isInt() || ir::isFloat(want.scalar()));
  ir::Value *v = nullptr;
  if (literal) {
    v = materializeAs(val, want.scalar(), loc, "'='");
  } else if (!val.isNumber() && !val.isRuntime()) {
    error(Diag::ElAssignType, loc, name.text, want.str(), describe(val), "");
  } else if (!(val.isRuntime() ? val.v->type == want : want.isScalar() && val.scalar() == want.scalar())) {
    std::string hint;
    if (val.shape() != want.shape())
      hint = want.isTile() && val.shape().empty()
                 ? "; write full(" + shapeText(want.shape()) + ", …, " +
                       (want.element().isScalar() ? ir::scalarName(want.scalar()).str() : want.element().str()) + ")"
                 : "";
    else if (val.isArithmetic() && !val.isLiteral() && want.element().isScalar())
      hint = "; convert it with .to(" + ir::scalarName(want.element().scalar()).str() + ")";
    error(Diag::ElAssignType, loc, name.text, want.str(), describe(val), hint);
    note(binding->loc, "'" + name.text + "' is defined here");
  } else {
    v = materialize(val, loc);
  }
  // After a wrong assignment the variable keeps its value: the type is known, so what follows can be checked.
  if (v) cells[cell].value = v, cells[cell].taskCopy = false, cells[cell].assigned = true;
}

void Elaborator::assign(const Assign &s) {
  if (s.op) {
    const Name &name = s.target.names[0];
    Binding *binding = findLocal(name.text);
    Val old = binding && binding->cell >= 0 ? lookup(name.text, name.loc) : Val::poison();
    Val v = value(*s.value);
    if (!binding || binding->cell < 0) { // says what is wrong with the target
      assignTo(name, Val::poison(), name.loc);
      return;
    }
    assignTo(name, binary(*s.op, old, v, s.opLoc, name.loc, s.value->loc), s.value->loc);
    return;
  }
  Val v = value(*s.value);
  if (!s.target.isTuple) {
    assignTo(s.target.names[0], std::move(v), s.value->loc);
    return;
  }
  if (v.isPoison()) {
    for (const Name &n : s.target.names) assignTo(n, Val::poison(), s.value->loc);
    return;
  }
  if (!v.is(Val::Kind::Tuple) || v.elems.size() != s.target.names.size()) {
    error(Diag::ElTupleCount, s.target.loc, s.target.names.size(), describe(v));
    return;
  }
  auto *tuple = dyn_cast<Tuple>(s.value.get());
  for (size_t i = 0; i < v.elems.size(); ++i)
    assignTo(s.target.names[i], v.elems[i], tuple ? tuple->elements[i]->loc : s.value->loc);
}

//===-- branches --------------------------------------------------------------------------------------------------===//

ir::Value *Elaborator::zeroOf(ir::Type type) {
  return b().constant(type, 0);
}

Flow Elaborator::branch(ir::Value *cond, llvm::function_ref<Flow()> onTrue, llvm::function_ref<Flow()> onFalse) {
  ir::Block *parent = b().insertBlock();
  ++operations;
  ir::Op *op = b().ifOp(cond, {});
  const std::vector<Cell> before = cells;
  std::vector<Cell> after[2];
  Flow flow = 0;
  ++frame().controlDepth;
  for (int side = 0; side < 2; ++side) {
    cells = before;
    b().atEnd(op->body(side));
    flow |= side == 0 ? onTrue() : onFalse();
    after[side].assign(cells.begin(), cells.begin() + before.size());
  }
  --frame().controlDepth;
  cells = before;
  std::vector<ir::Value *> yields[2];
  for (size_t i = 0; i < before.size(); ++i) {
    const Cell &t = after[0][i], &e = after[1][i];
    cells[i].poison = t.poison || e.poison;
    cells[i].taskCopy = t.taskCopy || e.taskCopy;
    cells[i].assigned = t.assigned && e.assigned;
    cells[i].read = t.read ? t.read : e.read;
    if (t.value == e.value || cells[i].poison) {
      cells[i].value = t.value, cells[i].type = t.type;
      continue;
    }
    ir::Type type = t.value ? t.type : e.type;
    for (int side = 0; side < 2; ++side) {
      ir::Value *v = after[side][i].value;
      if (!v) {
        b().atEnd(op->body(side));
        v = zeroOf(type);
      }
      yields[side].push_back(v);
    }
    cells[i].value = op->addResult(type);
    cells[i].type = type;
  }
  for (int side = 0; side < 2; ++side) {
    b().atEnd(op->body(side));
    b().yield(yields[side]);
  }
  b().atEnd(*parent);
  return flow;
}

ir::Value *Elaborator::notExited(Flow flow) {
  ir::Value *any = nullptr;
  auto add = [&](int cell) {
    if (cell < 0 || !cells[cell].value) return;
    ++operations;
    any = any ? b().binary(ir::Opcode::Or, any, cells[cell].value) : cells[cell].value;
  };
  if (!frame().loops.empty()) {
    if (flow & kBreaks) add(frame().loops.back().brokeCell);
    if (flow & kContinues) add(frame().loops.back().continuedCell);
  }
  if (flow & kReturns) add(frame().returnedCell);
  if (!any) return nullptr;
  operations += 2;
  return b().binary(ir::Opcode::Xor, any, b().constant(any->type, 1));
}

/// Runs `body` only if no exit of `flow` was taken. Inside, these flags are false again: a loop in there relies on it.
Flow Elaborator::guarded(ir::Value *go, Flow flow, llvm::function_ref<Flow()> body) {
  auto onTrue = [&] {
    auto clear = [&](int cell) {
      if (cell >= 0 && !cells[cell].poison) cells[cell] = {};
    };
    if (!frame().loops.empty() && flow & kBreaks) clear(frame().loops.back().brokeCell);
    if (!frame().loops.empty() && flow & kContinues) clear(frame().loops.back().continuedCell);
    if (flow & kReturns) {
      clear(frame().returnedCell);
      for (int c : frame().resultCells) clear(c);
    }
    return body();
  };
  return branch(go, onTrue, [] { return Flow(0); });
}

std::optional<bool> Elaborator::condition(const Expr &e, ir::Value *&runtime, llvm::StringRef what) {
  runtime = nullptr;
  Val v = value(e);
  if (v.isBool()) return bool(v.i);
  if (!v.isPoison()) {
    if (v.isTile() && v.isArithmetic())
      error(Diag::ElCondTile, e.loc, what, describe(v));
    else if (v.isArithmetic() && v.scalar() != ir::Scalar::I1)
      error(Diag::ElCondInt, e.loc, what, describe(v));
    else if (!v.isArithmetic())
      error(Diag::ElCond, e.loc, what, describe(v));
    else
      runtime = v.v;
  }
  // Both sides are still worth checking.
  if (!runtime) runtime = b().constant(context.scalar(ir::Scalar::I1), 1);
  return std::nullopt;
}

Flow Elaborator::ifStmt(const If &s, llvm::ArrayRef<StmtPtr> rest, bool &consumedRest) {
  At at(*this, s.loc);
  ir::Value *cond;
  if (auto known = condition(*s.cond, cond, "if")) {
    if (*known) return block(*s.thenBlock);
    if (!s.elseBranch) return kFalls;
    if (auto *chained = dyn_cast<If>(s.elseBranch.get())) return ifStmt(*chained, rest, consumedRest);
    return block(cast<Block>(*s.elseBranch));
  }
  bool thenExits = alwaysExits(*s.thenBlock), elseExits = s.elseBranch && alwaysExits(*s.elseBranch);
  // The rest moves into the side that goes on, if there is only one.
  bool intoElse = thenExits && !elseExits, intoThen = elseExits && !thenExits;
  consumedRest = intoElse || intoThen;
  auto onTrue = [&] {
    Flow flow = block(*s.thenBlock);
    return intoThen ? thenRest(flow, rest) : flow;
  };
  auto onFalse = [&]() -> Flow {
    llvm::ArrayRef<StmtPtr> tail = intoElse ? rest : llvm::ArrayRef<StmtPtr>();
    if (!s.elseBranch) return thenRest(kFalls, tail);
    auto *chained = dyn_cast<If>(s.elseBranch.get());
    if (!chained) return thenRest(block(cast<Block>(*s.elseBranch)), tail);
    bool consumed = false;
    Flow flow = ifStmt(*chained, tail, consumed);
    return consumed ? flow : thenRest(flow, tail);
  };
  return branch(cond, onTrue, onFalse);
}

//===-- return ----------------------------------------------------------------------------------------------------===//

Flow Elaborator::ret(const Return &s) {
  Frame &f = frame();
  Val v = s.value ? value(*s.value) : Val::unit();
  if (!f.fn) {
    if (s.value) error(Diag::ElKernelReturn, s.value->loc);
    setFlag(f.returnedCell);
    return kReturns;
  }
  if (f.controlDepth == 0 && !f.resultsKnown) {
    f.direct = v;
    return kReturns;
  }
  setFlag(f.returnedCell);
  if (v.isPoison()) {
    f.badReturn = true;
    return kReturns;
  }
  std::vector<Val> parts;
  bool isTuple = v.is(Val::Kind::Tuple);
  if (isTuple)
    parts = v.elems;
  else if (!v.is(Val::Kind::Unit))
    parts.push_back(v);
  Loc loc = s.value ? s.value->loc : s.loc;
  std::vector<ir::Value *> values;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].isDesc()) { // a value that control flow chooses; each descriptor is a parameter of its own
      if (!f.badReturn) error(Diag::ElReturnDesc, loc);
      f.badReturn = true;
      return kReturns;
    }
    if (!parts[i].isNumber() && !parts[i].isRuntime()) {
      error(Diag::ElReturnKind, loc, describe(parts[i]));
      f.badReturn = true;
      return kReturns;
    }
    // A literal takes the type of an earlier return.
    ir::Type type = f.resultsKnown && i < f.resultTypes.size() ? f.resultTypes[i] : ir::Type();
    bool adapts = parts[i].isLiteral() && type && type.isScalar() && type.scalar() != ir::Scalar::I1 &&
                  (parts[i].isInt() || ir::isFloat(type.scalar()));
    values.push_back(adapts ? materializeAs(parts[i], type.scalar(), loc, "'return'") : materialize(parts[i], loc));
    if (!values.back()) {
      f.badReturn = true;
      return kReturns;
    }
  }
  bool fits = isTuple == f.resultIsTuple && values.size() == f.resultTypes.size();
  if (!f.resultsKnown) {
    if (values.size() > f.resultCells.size()) {
      error(Diag::ElReturnCount, loc, values.size(), f.resultCells.size());
      f.badReturn = true;
      return kReturns;
    }
    f.resultsKnown = fits = true;
    f.resultIsTuple = isTuple;
    f.firstReturn = s.loc;
    for (ir::Value *r : values) f.resultTypes.push_back(r->type);
  }
  for (size_t i = 0; fits && i < values.size(); ++i) fits = values[i]->type == f.resultTypes[i];
  if (!fits) {
    std::string here, there;
    for (ir::Value *r : values) here += (here.empty() ? "" : ", ") + r->type.str();
    for (ir::Type t : f.resultTypes) there += (there.empty() ? "" : ", ") + t.str();
    error(Diag::ElReturnTypes, loc, here.empty() ? "nothing" : here, there.empty() ? "nothing" : there);
    note(f.firstReturn, "the first return is here");
    f.badReturn = true;
    return kReturns;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    Cell &cell = cells[f.resultCells[i]];
    cell.value = values[i], cell.type = values[i]->type;
  }
  return kReturns;
}

} // namespace tlx::lang
