// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// requires(…) and facts of options: comparisons over the kernel's arguments, as the stack programs that every launch
// evaluates.
#include "lang/elaborate_p.h"
#include "lang/parser.h"

namespace tlx::lang {

using namespace ast;
using llvm::cast;
using llvm::dyn_cast;

void Elaborator::requiresClause(llvm::ArrayRef<ExprPtr> facts) {
  for (const ExprPtr &e : facts) addFact(*e);
}

void Elaborator::optionFacts() {
  for (size_t i = 0; i < options.facts.size(); ++i) {
    // A kernel around the fact, which stands on a line of its own so that messages show it as it was given.
    uint32_t file = sources.add("<fact " + std::to_string(i + 1) + ">",
                                "kernel facts() requires(\n" + options.facts[i] + "\n) {}\n");
    unsigned errors = diags.errorCount();
    auto parsed = parseFile(sources, file, diags);
    if (diags.errorCount() != errors) continue;
    if (parsed->kernels.size() != 1 || parsed->order.size() != 1 || !parsed->kernels[0]->body->stmts.empty()) {
      error(Diag::ElFactForm, {file, 2, 1, uint32_t(options.facts[i].size() + 1)});
      continue;
    }
    requiresClause(parsed->kernels[0]->facts);
  }
}

void Elaborator::addFact(const Expr &e) {
  if (auto *both = dyn_cast<ast::Binary>(&e); both && both->op == BinaryOp::LogicalAnd) {
    addFact(*both->lhs);
    addFact(*both->rhs);
    return;
  }
  Fact fact;
  if (e.loc.known())
    fact.text = std::string(sources.line(e.loc.file, e.loc.line).substr(e.loc.col - 1, e.loc.endCol - e.loc.col));
  if (auto *call = dyn_cast<Call>(&e); call && call->callee.text == "noalias") {
    if (call->args.size() != 1 || !call->args[0].isPositional()) {
      error(Diag::ElFactForm, e.loc);
      return;
    }
    Val p = value(*call->args[0].value);
    if (p.isPoison()) return;
    if (!p.isPointerLike() || p.v->block() != &module->kernel.body) {
      error(Diag::ElFactPointer, call->args[0].loc, "noalias", describe(p));
      return;
    }
    fact.noalias = true;
    fact.program.push_back({Fact::Op::Arg, p.v->index()});
    module->kernel.facts.push_back(std::move(fact));
    return;
  }
  auto isTruth = factProgram(e, fact.program);
  if (!isTruth) return;
  if (!*isTruth) {
    error(Diag::ElFactForm, e.loc);
    return;
  }
  if (fact.program.size() == 1 && fact.program[0].op == Fact::Op::Const) { // about parameters only
    if (!fact.program[0].value) error(Diag::ElFactFalse, e.loc, fact.text);
    return;
  }
  module->kernel.facts.push_back(std::move(fact));
}

static std::optional<Fact::Op> factOp(BinaryOp op) {
  switch (op) {
  case BinaryOp::LogicalOr:
    return Fact::Op::Or;
  case BinaryOp::LogicalAnd:
    return Fact::Op::And;
  case BinaryOp::Eq:
    return Fact::Op::Eq;
  case BinaryOp::Ne:
    return Fact::Op::Ne;
  case BinaryOp::Lt:
    return Fact::Op::Lt;
  case BinaryOp::Le:
    return Fact::Op::Le;
  case BinaryOp::Gt:
    return Fact::Op::Gt;
  case BinaryOp::Ge:
    return Fact::Op::Ge;
  case BinaryOp::Add:
    return Fact::Op::Add;
  case BinaryOp::Sub:
    return Fact::Op::Sub;
  case BinaryOp::Mul:
    return Fact::Op::Mul;
  case BinaryOp::Div:
    return Fact::Op::DivFloor;
  case BinaryOp::Mod:
    return Fact::Op::ModFloor;
  default:
    return std::nullopt;
  }
}

std::optional<bool> Elaborator::factProgram(const Expr &e, std::vector<Fact::Step> &program) {
  if (!step(e.loc)) return std::nullopt;
  ++depth;
  struct Leave {
    unsigned &d;
    ~Leave() { --d; }
  } leave{depth};
  using Op = Fact::Op;
  size_t start = program.size();
  auto isConst = [&](size_t from) { return program.size() == from + 1 && program[from].op == Op::Const; };
  if (auto *u = dyn_cast<Unary>(&e); u && u->op != UnaryOp::BitNot) {
    auto truth = factProgram(*u->operand, program);
    if (!truth) return std::nullopt;
    if (*truth != (u->op == UnaryOp::Not)) return error(Diag::ElFactForm, e.loc), std::nullopt;
    if (isConst(start))
      program[start].value =
          u->op == UnaryOp::Not ? !program[start].value : int64_t(0 - uint64_t(program[start].value));
    else
      program.push_back({u->op == UnaryOp::Not ? Op::Not : Op::Neg, 0});
    return truth;
  }
  if (auto *bin = dyn_cast<ast::Binary>(&e)) {
    auto op = factOp(bin->op);
    if (!op) return error(Diag::ElFactOp, bin->opLoc, "'" + std::string(spelling(bin->op)) + "'"), std::nullopt;
    auto l = factProgram(*bin->lhs, program);
    size_t middle = program.size();
    if (!l) return std::nullopt;
    auto r = factProgram(*bin->rhs, program);
    if (!r) return std::nullopt;
    bool logical = *op == Op::And || *op == Op::Or;
    bool equality = *op == Op::Eq || *op == Op::Ne;
    if (*l != *r || (!equality && *l != logical)) return error(Diag::ElFactForm, e.loc), std::nullopt;
    bool lConst = middle == start + 1 && program[start].op == Op::Const, rConst = isConst(middle);
    if (rConst && program[middle].value == 0 && (*op == Op::DivFloor || *op == Op::ModFloor))
      return error(Diag::ElDivZero, bin->rhs->loc), std::nullopt;
    if (lConst && rConst) {
      Val folded =
          foldBinary(logical ? (*op == Op::And ? BinaryOp::BitAnd : BinaryOp::BitOr) : bin->op,
                     *l ? Val::boolean(program[start].value) : Val::integer(program[start].value),
                     *l ? Val::boolean(program[middle].value) : Val::integer(program[middle].value), bin->opLoc);
      if (folded.isPoison()) return std::nullopt;
      program.resize(start);
      program.push_back({Op::Const, folded.i});
      return folded.isBool();
    }
    // false || x and true && x are x; true || x and false && x are decided.
    if (logical && (lConst || rConst)) {
      bool known = program[lConst ? start : middle].value != 0;
      if (known == (*op == Op::Or)) {
        program.resize(start);
        program.push_back({Op::Const, known});
      } else {
        program.erase(program.begin() + (lConst ? start : middle));
      }
      return true;
    }
    program.push_back({*op, 0});
    return logical || isComparison(bin->op);
  }
  if (auto *call = dyn_cast<Call>(&e)) {
    const std::string &name = call->callee.text;
    bool positional = llvm::all_of(call->args, [](const Arg &a) { return a.isPositional(); });
    if (name == "aligned" && call->args.size() == 2 && positional) {
      Val p = value(*call->args[0].value), n = value(*call->args[1].value);
      if (p.isPoison() || n.isPoison()) return std::nullopt;
      if (!p.isPointerLike() || p.v->block() != &module->kernel.body)
        return error(Diag::ElFactPointer, call->args[0].loc, name, describe(p)), std::nullopt;
      if (!n.isInt() || n.i < 1 || (n.i & (n.i - 1)))
        return error(Diag::ElAlignment, call->args[1].loc, n.isInt() ? std::to_string(n.i) : describe(n)), std::nullopt;
      program.insert(program.end(),
                     {{Op::Arg, p.v->index()}, {Op::Const, n.i}, {Op::ModFloor, 0}, {Op::Const, 0}, {Op::Eq, 0}});
      return true;
    }
    if (name == "cdiv" && call->args.size() == 2 && positional) {
      // cdiv(a, b) = -(-a / b)
      auto l = factProgram(*call->args[0].value, program);
      if (!l) return std::nullopt;
      program.push_back({Op::Neg, 0});
      auto r = factProgram(*call->args[1].value, program);
      if (!r) return std::nullopt;
      if (*l || *r) return error(Diag::ElFactForm, e.loc), std::nullopt;
      program.insert(program.end(), {{Op::DivFloor, 0}, {Op::Neg, 0}});
      return false;
    }
  }
  // What is left has to be an argument or a compile-time value.
  if (auto *call = dyn_cast<Call>(&e); call && findBuiltin(call->callee.text) && call->callee.text != "bytes_of" &&
                                       call->callee.text != "num_warps" && call->callee.text != "warp_size")
    return error(Diag::ElFactOp, call->callee.loc, "'" + call->callee.text + "'"), std::nullopt;
  Val v = value(e);
  if (v.isPoison()) return std::nullopt;
  if (v.isInt() || v.isBool()) {
    program.push_back({Op::Const, v.i});
    return v.isBool();
  }
  if (!v.isRuntime() || v.v->block() != &module->kernel.body)
    return error(Diag::ElFactValue, e.loc, describe(v)), std::nullopt;
  if (v.isPointerLike() || v.isDesc()) return error(Diag::ElFactPointerUse, e.loc, describe(v)), std::nullopt;
  if (!ir::isInt(v.scalar())) return error(Diag::ElFactValue, e.loc, describe(v)), std::nullopt;
  program.push_back({Op::Arg, v.v->index()});
  return v.scalar() == ir::Scalar::I1;
}

} // namespace tlx::lang
