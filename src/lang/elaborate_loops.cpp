// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loops: variables carried by their body, and exits from them.
//
// A `for` becomes the IR's for, unless its body breaks or returns at run time. Then the finished for is rewritten into
// a while whose condition also tests the exit flags. A negative step counts trips and computes the variable from them;
// the number of trips is taken in 64 bits, so that no bound can overflow.
#include "lang/elaborate_p.h"

#include "llvm/ADT/StringSet.h"

namespace tlx::lang {

using namespace ast;
using llvm::cast;
using llvm::dyn_cast;

namespace {

/// Names that a body assigns, at any depth, outside of tasks.
void collectAssigned(const Stmt &s, llvm::StringSet<> &names) {
  switch (s.kind) {
  case StmtKind::Assign:
    for (const Name &n : cast<Assign>(s).target.names) names.insert(n.text);
    break;
  case StmtKind::If: {
    auto &i = cast<If>(s);
    collectAssigned(*i.thenBlock, names);
    if (i.elseBranch) collectAssigned(*i.elseBranch, names);
    break;
  }
  case StmtKind::For:
    collectAssigned(*cast<For>(s).body, names);
    break;
  case StmtKind::While:
    collectAssigned(*cast<While>(s).body, names);
    break;
  case StmtKind::Block:
    for (const StmtPtr &x : cast<Block>(s).stmts) collectAssigned(*x, names);
    break;
  default:
    break;
  }
}

/// A break of this loop, or a return, anywhere inside.
bool exitsLoop(const Stmt &s, bool ownBreaks) {
  switch (s.kind) {
  case StmtKind::Break:
    return ownBreaks;
  case StmtKind::Return:
    return true;
  case StmtKind::If: {
    auto &i = cast<If>(s);
    return exitsLoop(*i.thenBlock, ownBreaks) || (i.elseBranch && exitsLoop(*i.elseBranch, ownBreaks));
  }
  case StmtKind::For:
    return exitsLoop(*cast<For>(s).body, false);
  case StmtKind::While:
    return exitsLoop(*cast<While>(s).body, false);
  case StmtKind::Block:
    return llvm::any_of(cast<Block>(s).stmts, [&](const StmtPtr &x) { return exitsLoop(*x, ownBreaks); });
  default:
    return false;
  }
}

} // namespace

bool containsLoopExit(const Block &body) {
  return exitsLoop(body, true);
}

std::vector<int> Elaborator::assignedCells(const Block &body) {
  llvm::StringSet<> names;
  collectAssigned(body, names);
  std::vector<int> out;
  for (auto &entry : names)
    if (Binding *binding = findLocal(entry.first()); binding && binding->cell >= 0) out.push_back(binding->cell);
  llvm::sort(out); // the set has no order; the IR must
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

void Elaborator::beginIteration() {
  for (Cell &c : cells) c.assigned = false, c.read.reset();
}

/// What tasks in the body of a loop assign has no value in its next iteration, nor behind it.
void Elaborator::endIteration(llvm::ArrayRef<Cell> before, llvm::ArrayRef<Cell> after) {
  for (size_t c = 0; c < before.size(); ++c) {
    if (after[c].taskCopy && after[c].read) error(Diag::ElTaskVar, after[c].read->loc, after[c].read->name);
    cells[c].taskCopy |= after[c].taskCopy;
    if (!before[c].assigned && !before[c].read) cells[c].read = after[c].read;
  }
}

/// Cells that the body set and that were unset before: exit flags and results of a return. At the start of an iteration
/// they are still unset, or the loop would have ended, so their values only leave the loop.
static std::vector<int> newlySet(llvm::ArrayRef<Cell> before, llvm::ArrayRef<Cell> after) {
  std::vector<int> out;
  for (size_t i = 0; i < before.size(); ++i)
    if (!before[i].value && !before[i].poison && after[i].value) out.push_back(int(i));
  return out;
}

//===-- for -------------------------------------------------------------------------------------------------------===//

void Elaborator::checkLoopAttrs(const For &s, std::optional<int64_t> &stages, std::optional<int64_t> &unroll) {
  for (const Arg &a : s.attrs) {
    Val v = value(*a.value);
    const std::string &name = a.name.text;
    bool isStages = name == "num_stages";
    if (!isStages && name != "unroll") {
      error(Diag::ElLoopAttr, a.name.loc, name);
      continue;
    }
    if (v.isPoison()) continue;
    int64_t top = isStages ? 16 : 1024;
    if (!v.isInt() || v.i < 1 || v.i > top) {
      error(Diag::ElLoopAttrValue, a.value->loc, name, top, v.isInt() ? std::to_string(v.i) : describe(v));
      continue;
    }
    (isStages ? stages : unroll) = v.i;
  }
}

/// Everything a bound can be wrong about.
static std::optional<ir::Scalar> boundsType(Elaborator &e, llvm::ArrayRef<Val> bounds, llvm::ArrayRef<Loc> locs) {
  std::optional<Val> common;
  for (size_t i = 0; i < bounds.size(); ++i) {
    const Val &v = bounds[i];
    if (v.isPoison()) return std::nullopt;
    if (!v.isArithmetic() || v.isTile() || !ir::isInt(v.scalar()) || v.scalar() == ir::Scalar::I1) {
      e.error(Diag::ElRangeBound, locs[i], e.describe(v));
      return std::nullopt;
    }
    if (!common || common->isLiteral()) {
      if (!common || !v.isLiteral()) common = v;
      continue;
    }
    auto type = e.commonType(*common, v, locs[i], "range");
    if (!type) return std::nullopt;
    common = Val::integer(0, *type);
  }
  return common->scalar();
}

Flow Elaborator::forLoop(const For &s) {
  At at(*this, s.loc);
  llvm::SmallVector<Val, 3> bounds{s.lo ? value(*s.lo) : Val::integer(0), value(*s.hi),
                                   s.step ? value(*s.step) : Val::integer(1)};
  llvm::SmallVector<Loc, 3> locs{s.lo ? s.lo->loc : s.hi->loc, s.hi->loc, s.step ? s.step->loc : s.hi->loc};
  std::optional<int64_t> stages, unroll;
  checkLoopAttrs(s, stages, unroll);
  auto type = boundsType(*this, bounds, locs);
  if (type && bounds[2].isInt() && bounds[2].i == 0) {
    error(Diag::ElZeroStep, locs[2]);
    type.reset();
  }
  bool broken = !type; // go on with a stand-in: the body may have errors of its own
  if (broken) {
    type = ir::Scalar::I32;
    for (int i = 0; i < 3; ++i) bounds[i] = Val::integer(1);
  }
  auto bound = [&](int i) -> ir::Value * {
    const Val &v = bounds[i];
    if (v.isLiteral()) return materializeAs(v, *type, locs[i], "range");
    if (v.isNumber()) return fits(v, v.scalar(), locs[i]) ? materialize(convertConst(v, *type), locs[i]) : nullptr;
    return convert(v.v, *type);
  };
  ir::Type counterType = context.scalar(*type);
  ir::Value *lo = nullptr, *hi = nullptr, *step = nullptr, *first = nullptr, *stride = nullptr;
  bool exits = containsLoopExit(*s.body);
  if (exits && stages)
    for (const Arg &a : s.attrs)
      if (a.name.text == "num_stages") error(Diag::ElStagesExit, a.loc);
  bool constStep = bounds[2].isInt();
  // i + step may pass the type's end in a while, which tests after adding; only a step of 1 cannot.
  bool countTrips = (constStep && bounds[2].i < 0) || (exits && !(constStep && bounds[2].i == 1));
  lo = bound(0), hi = bound(1), step = bound(2);
  if (!lo || !hi || !step) {
    broken = true;
    lo = hi = step = b().constant(counterType, 1);
  }
  if (!constStep) {
    // A step that turns out zero or negative must not loop for ever: no trips. num_programs is never that.
    bool positive = step->def() && step->def()->is(ir::Opcode::NumPrograms);
    if (!positive) {
      operations += 3;
      ir::Value *runs = b().cmp(ir::Pred::Gt, step, b().constant(counterType, 0));
      hi = b().select(runs, hi, lo);
      if (countTrips) step = b().select(runs, step, b().constant(counterType, 1));
    }
  }
  if (countTrips) {
    first = lo, stride = step;
    bool wide = ir::scalarBits(*type) == 64;
    bool down = constStep && bounds[2].i < 0;
    ir::Value *from = down ? hi : lo, *to = down ? lo : hi;
    ir::Scalar counter = wide ? ir::Scalar::U64 : ir::Scalar::I64;
    ir::Type wideType = context.scalar(counter);
    auto widen = [&](ir::Value *v) {
      return wide ? (v->type == wideType ? v : b().bitcast(v, wideType)) : convert(v, ir::Scalar::I64);
    };
    ir::Value *nonEmpty = b().cmp(ir::Pred::Lt, from, to);
    ir::Value *distance = b().binary(ir::Opcode::Sub, widen(to), widen(from));
    ir::Value *pace = down ? b().constant(wideType, -bounds[2].i) : widen(step);
    ir::Value *trips = b().binary(ir::Opcode::CeilDiv, distance, pace);
    hi = b().select(nonEmpty, trips, b().constant(wideType, 0));
    lo = b().constant(wideType, 0);
    step = b().constant(wideType, 1);
    operations += 12;
  }

  // --- the body, as a for
  size_t firstCell = cells.size();
  std::vector<int> carried;
  for (int c : assignedCells(*s.body))
    if (!cells[c].poison) carried.push_back(c);
  int brokeCell = newCell();
  const std::vector<Cell> before = cells;
  llvm::SmallVector<ir::Value *, 8> inits;
  for (int c : carried) inits.push_back(cells[c].value);
  ++operations;
  ir::Block *parent = b().insertBlock();
  ir::Op *loop = b().forLoop(lo, hi, step, inits);
  if (stages) loop->setAttr(ir::Attr::num_stages, *stages);
  if (unroll) loop->setAttr(ir::Attr::unroll, *unroll);
  ir::Block &body = loop->body();
  b().atEnd(body);
  ir::Value *counter = body.arg(0), *i = counter;
  if (countTrips) {
    operations += 3;
    ir::Scalar have = counter->type.scalar();
    if (have == *type)
      ;
    else if (ir::scalarBits(have) == ir::scalarBits(*type))
      i = b().bitcast(i, counterType);
    else
      i = convert(i, *type);
    i = b().binary(ir::Opcode::Add, first, b().binary(ir::Opcode::Mul, i, stride));
  }
  for (size_t k = 0; k < carried.size(); ++k) cells[carried[k]].value = body.arg(k + 1);

  beginIteration();
  frame().scopes.emplace_back();
  ++frame().controlDepth;
  int continuedCell = newCell();
  frame().loops.push_back({brokeCell, continuedCell});
  define(s.var, {.val = broken ? Val::poison() : Val::runtime(i), .isLoopVar = true});
  block(*s.body);
  frame().loops.pop_back();
  --frame().controlDepth;
  frame().scopes.pop_back();

  // --- what it carries
  const std::vector<Cell> after(cells.begin(), cells.begin() + before.size());
  cells = before;
  endIteration(before, after);
  std::vector<int> fresh = newlySet(before, after);
  bool poison = false;
  for (size_t c = 0; c < before.size(); ++c)
    if (after[c].poison && !before[c].poison) cells[c].poison = poison = true;
  Flow flow = kFalls;
  if (frame().returnedCell >= 0 && !before[frame().returnedCell].value && after[frame().returnedCell].value)
    flow |= kReturns;
  if (poison) { // an error was reported; the IR is not used any more
    b().atEnd(body);
    b().yield(inits);
    b().atEnd(*parent);
    for (int c : fresh) cells[c].poison = true;
    cells.resize(firstCell);
    return flow;
  }
  llvm::SmallVector<ir::Value *, 8> yields;
  for (int c : carried) yields.push_back(after[c].value);
  if (fresh.empty()) {
    b().atEnd(body);
    b().yield(yields);
    for (size_t k = 0; k < carried.size(); ++k) cells[carried[k]].value = loop->result(k);
    // A variable that the body leaves alone on every path is not carried.
    for (size_t k = carried.size(); k-- > 0;)
      if (yields[k] == body.arg(k + 1)) {
        body.arg(k + 1)->replaceAllUsesWith(inits[k]);
        body.back()->eraseOperand(k);
        body.eraseArg(k + 1);
        loop->eraseOperand(3 + k);
        loop->eraseResult(k);
        cells[carried[k]].value = inits[k];
      }
    b().atEnd(*parent);
    cells.resize(firstCell);
    return flow;
  }

  // --- an exit was taken inside: while (counter < hi && !flags)
  b().atEnd(*parent);
  llvm::SmallVector<ir::Value *, 8> whileInits{lo};
  whileInits.append(inits);
  for (int c : fresh) whileInits.push_back(zeroOf(after[c].type));
  ir::Op *loop2 = b().whileLoop(whileInits);
  loop2->moveBefore(loop);
  for (size_t k = inits.size() + 1; k < whileInits.size(); ++k) whileInits[k]->def()->moveBefore(loop2);
  ir::Block &test = loop2->body(0), &body2 = loop2->body(1);
  for (unsigned k = 0; k < body.numArgs(); ++k) body.arg(k)->replaceAllUsesWith(body2.arg(k));
  for (ir::Op *op : body.ops()) op->moveTo(body2);
  auto moved = [&](ir::Value *v) { // a carried value that the body passed on unchanged
    return v->block() == &body ? body2.arg(v->index()) : v;
  };
  b().atEnd(body2);
  llvm::SmallVector<ir::Value *, 8> next{b().binary(ir::Opcode::Add, body2.arg(0), b().constant(lo->type, 1))};
  for (ir::Value *v : yields) next.push_back(moved(v));
  for (int c : fresh) next.push_back(moved(after[c].value));
  b().yield(next);
  b().atEnd(test);
  ir::Value *go = b().cmp(ir::Pred::Lt, test.arg(0), hi);
  llvm::SmallVector<ir::Value *, 8> args;
  for (unsigned k = 0; k < test.numArgs(); ++k) args.push_back(test.arg(k));
  for (size_t k = 0; k < fresh.size(); ++k)
    if (fresh[k] == brokeCell || fresh[k] == frame().returnedCell) {
      ir::Value *flag = args[1 + carried.size() + k];
      go = b().binary(ir::Opcode::And, go, b().binary(ir::Opcode::Xor, flag, b().constant(flag->type, 1)));
    }
  b().condition(go, args);
  operations += 6;
  b().atEnd(*parent);
  for (size_t k = 0; k < carried.size(); ++k) cells[carried[k]].value = loop2->result(1 + k);
  for (size_t k = 0; k < fresh.size(); ++k) {
    cells[fresh[k]].value = loop2->result(1 + carried.size() + k);
    cells[fresh[k]].type = after[fresh[k]].type;
  }
  loop->erase();
  cells.resize(firstCell);
  return flow;
}

//===-- while -----------------------------------------------------------------------------------------------------===//

Flow Elaborator::whileLoop(const While &s) {
  At at(*this, s.loc);
  size_t firstCell = cells.size();
  std::vector<int> carried;
  for (int c : assignedCells(*s.body))
    if (!cells[c].poison) carried.push_back(c);
  int brokeCell = newCell();
  const std::vector<Cell> before = cells;
  llvm::SmallVector<ir::Value *, 8> inits;
  for (int c : carried) inits.push_back(cells[c].value);
  ir::Block *parent = b().insertBlock();
  ++operations;
  ir::Op *loop = b().whileLoop(inits);
  ir::Block &test = loop->body(0), &body = loop->body(1);

  b().atEnd(test);
  for (size_t k = 0; k < carried.size(); ++k) cells[carried[k]].value = test.arg(k);
  beginIteration();
  ++frame().controlDepth;
  ir::Value *go;
  auto known = condition(*s.cond, go, "while");
  if (known && !*known) { // never entered; the body is not looked at, as in a folded if
    --frame().controlDepth;
    cells = before;
    cells.resize(firstCell);
    b().atEnd(*parent);
    loop->erase();
    return kFalls;
  }
  if (known) go = b().constant(context.scalar(ir::Scalar::I1), 1);

  b().atEnd(body);
  cells.resize(before.size()); // the condition assigns nothing
  for (size_t k = 0; k < carried.size(); ++k) cells[carried[k]].value = body.arg(k);
  frame().scopes.emplace_back();
  int continuedCell = newCell();
  frame().loops.push_back({brokeCell, continuedCell});
  Flow inside = block(*s.body);
  frame().loops.pop_back();
  --frame().controlDepth;
  frame().scopes.pop_back();

  const std::vector<Cell> after(cells.begin(), cells.begin() + before.size());
  cells = before;
  endIteration(before, after);
  std::vector<int> fresh = newlySet(before, after);
  Flow flow = kFalls;
  bool returns = frame().returnedCell >= 0 && !before[frame().returnedCell].value && after[frame().returnedCell].value;
  if (returns) flow |= kReturns;
  bool poison = false;
  for (size_t c = 0; c < before.size(); ++c)
    if (after[c].poison && !before[c].poison) cells[c].poison = poison = true;
  if (known && !poison && !after[brokeCell].value) {
    if (!returns && !(inside & kReturns)) error(Diag::ElEndless, s.loc);
    flow &= ~kFalls; // the only way out is a return
  }
  if (poison) {
    for (int c : fresh) cells[c].poison = true;
    b().atEnd(test);
    b().condition(go, {});
    b().atEnd(body);
    b().yield({});
    b().atEnd(*parent);
    cells.resize(firstCell);
    return flow;
  }
  for (int c : fresh) {
    b().atEnd(*parent);
    ir::Value *zero = zeroOf(after[c].type);
    zero->def()->moveBefore(loop);
    loop->addOperand(zero);
    loop->addResult(zero->type);
    test.addArg(zero->type);
    body.addArg(zero->type);
  }
  // Once an exit was taken, the condition is not evaluated any more: it may load through a pointer that has moved on.
  ir::Value *stop = nullptr;
  b().atEnd(test);
  std::vector<ir::Op *> condOps = test.ops();
  for (size_t k = 0; k < fresh.size(); ++k)
    if (fresh[k] == brokeCell || fresh[k] == frame().returnedCell) {
      ir::Value *flag = test.arg(carried.size() + k);
      stop = stop ? b().binary(ir::Opcode::Or, stop, flag) : flag;
    }
  llvm::SmallVector<ir::Value *, 8> args;
  for (unsigned k = 0; k < test.numArgs(); ++k) args.push_back(test.arg(k));
  if (stop) {
    ir::Op *guard = b().ifOp(stop, context.scalar(ir::Scalar::I1));
    b().atEnd(guard->body(0));
    b().yield(b().constant(stop->type, 0));
    for (ir::Op *op : condOps) op->moveTo(guard->body(1));
    b().atEnd(guard->body(1));
    b().yield(go);
    b().atEnd(test);
    go = guard->result();
    operations += 4;
  }
  b().condition(go, args);
  b().atEnd(body);
  llvm::SmallVector<ir::Value *, 8> yields;
  for (int c : carried) yields.push_back(after[c].value);
  for (int c : fresh) yields.push_back(after[c].value);
  b().yield(yields);
  for (size_t k = 0; k < carried.size(); ++k) cells[carried[k]].value = loop->result(k);
  for (size_t k = 0; k < fresh.size(); ++k) {
    cells[fresh[k]].value = loop->result(carried.size() + k);
    cells[fresh[k]].type = after[fresh[k]].type;
  }
  b().atEnd(*parent);
  cells.resize(firstCell);
  return flow;
}

//===-- static for ------------------------------------------------------------------------------------------------===//

Flow Elaborator::staticFor(const For &s) {
  At at(*this, s.loc);
  llvm::SmallVector<Val, 3> bounds{s.lo ? value(*s.lo) : Val::integer(0), value(*s.hi),
                                   s.step ? value(*s.step) : Val::integer(1)};
  llvm::SmallVector<Loc, 3> locs{s.lo ? s.lo->loc : s.hi->loc, s.hi->loc, s.step ? s.step->loc : s.hi->loc};
  for (const Arg &a : s.attrs) error(Diag::ElStaticAttr, a.name.loc, a.name.text);
  for (int i = 0; i < 3; ++i) {
    if (bounds[i].isPoison()) return kFalls;
    if (bounds[i].isRuntime()) return error(Diag::ElStaticBound, locs[i], describe(bounds[i])), kFalls;
  }
  auto type = boundsType(*this, bounds, locs);
  if (!type) return kFalls;
  int64_t lo = bounds[0].i, hi = bounds[1].i, step = bounds[2].i;
  if (step == 0) return error(Diag::ElZeroStep, locs[2]), kFalls;
  __int128 distance = step > 0 ? __int128(hi) - lo : __int128(lo) - hi;
  __int128 pace = step > 0 ? __int128(step) : -__int128(step);
  __int128 trips = distance > 0 ? (distance + pace - 1) / pace : 0;
  if (trips > options.limits.unroll) {
    error(Diag::ElUnroll, s.loc, trips > INT64_MAX ? INT64_MAX : int64_t(trips), options.limits.unroll);
    return kFalls;
  }
  size_t firstCell = cells.size();
  frame().loops.push_back({newCell(), -1});
  Flow flow = unrolled(s, lo, step, 0, int64_t(trips), *type);
  frame().loops.pop_back();
  cells.resize(firstCell);
  // break ends the loop, continue an iteration: what follows the loop runs after either.
  Flow out = flow & kReturns;
  if (flow & (kFalls | kBreaks | kContinues)) out |= kFalls;
  return out;
}

Flow Elaborator::unrolled(const For &s, int64_t lo, int64_t step, int64_t trip, int64_t trips, ir::Scalar type) {
  Flow exits = 0;
  for (; trip < trips; ++trip) {
    if (!step || !this->step(s.loc)) return kFalls;
    size_t firstCell = cells.size();
    frame().scopes.emplace_back();
    frame().loops.back().continuedCell = newCell();
    define(s.var, {.val = Val::integer(lo + trip * step, type), .isLoopVar = true});
    Flow flow = block(*s.body);
    frame().scopes.pop_back();
    if (flow & kContinues) flow = (flow & ~kContinues) | kFalls;
    frame().loops.back().continuedCell = -1;
    cells.resize(firstCell);
    exits |= flow & ~kFalls;
    if (!(flow & kFalls)) return exits;
    ir::Value *go = flow & ~kFalls ? notExited(flow) : nullptr;
    if (!go) continue;
    if (++depth > options.limits.nesting) this->step(s.loc);
    Flow after = guarded(go, flow, [&] { return unrolled(s, lo, step, trip + 1, trips, type); });
    --depth;
    return exits | after;
  }
  return exits | kFalls;
}

} // namespace tlx::lang
