// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What facts of the launch and assume ops say about single values.
#include "passes/axis_facts_p.h"

namespace tlx::passes {
using namespace ir;

namespace {

/// A node of a fact's expression, as far as it is understood.
struct Expr {
  enum class Kind { Unknown, Const, Arg, ArgMod } kind = Kind::Unknown; // ArgMod: arg % divisor
  int64_t value = 0;                                                    // Const
  unsigned arg = 0;
  int64_t divisor = 0;
  std::vector<std::pair<unsigned, Refinement>> holds; // what follows if this expression is true
};

Refinement atLeast(int64_t v) {
  return {.min = v};
}
Refinement atMost(int64_t v) {
  return {.max = v};
}

std::optional<Refinement> compareWith(Pred pred, int64_t c) {
  switch (pred) {
  case Pred::Eq: {
    Refinement r{.min = c, .max = c};
    r.divisibility = powerOfTwoPart(c);
    return r;
  }
  case Pred::Lt:
    return c == INT64_MIN ? std::nullopt : std::optional(atMost(c - 1));
  case Pred::Le:
    return atMost(c);
  case Pred::Gt:
    return c == INT64_MAX ? std::nullopt : std::optional(atLeast(c + 1));
  case Pred::Ge:
    return atLeast(c);
  case Pred::Ne:
    break;
  }
  return std::nullopt;
}

Pred swapped(Pred p) {
  switch (p) {
  case Pred::Lt:
    return Pred::Gt;
  case Pred::Le:
    return Pred::Ge;
  case Pred::Gt:
    return Pred::Lt;
  case Pred::Ge:
    return Pred::Le;
  default:
    return p;
  }
}

std::optional<Pred> predOf(Fact::Op op) {
  switch (op) {
  case Fact::Op::Eq:
    return Pred::Eq;
  case Fact::Op::Ne:
    return Pred::Ne;
  case Fact::Op::Lt:
    return Pred::Lt;
  case Fact::Op::Le:
    return Pred::Le;
  case Fact::Op::Gt:
    return Pred::Gt;
  case Fact::Op::Ge:
    return Pred::Ge;
  default:
    return std::nullopt;
  }
}

Expr combine(Fact::Op op, Expr a, Expr b) {
  Expr out;
  if (op == Fact::Op::And) {
    out.holds = std::move(a.holds);
    out.holds.insert(out.holds.end(), b.holds.begin(), b.holds.end());
    return out;
  }
  if (op == Fact::Op::Or) { // false || x == x
    if (a.kind == Expr::Kind::Const && !a.value) return b;
    if (b.kind == Expr::Kind::Const && !b.value) return a;
    return out;
  }
  if (op == Fact::Op::ModFloor && a.kind == Expr::Kind::Arg && b.kind == Expr::Kind::Const && b.value > 0) {
    out.kind = Expr::Kind::ArgMod, out.arg = a.arg, out.divisor = b.value;
    return out;
  }
  std::optional<Pred> pred = predOf(op);
  if (!pred) return out;
  if (a.kind == Expr::Kind::Const) {
    std::swap(a, b);
    pred = swapped(*pred);
  }
  if (b.kind != Expr::Kind::Const) return out;
  if (a.kind == Expr::Kind::ArgMod && *pred == Pred::Eq && b.value == 0) {
    out.holds.push_back({a.arg, {.divisibility = powerOfTwoPart(a.divisor)}});
  } else if (a.kind == Expr::Kind::Arg) {
    if (std::optional<Refinement> r = compareWith(*pred, b.value)) out.holds.push_back({a.arg, *r});
  }
  return out;
}

void addFact(const Fact &fact, const Kernel &kernel, Refinements &out) {
  if (fact.noalias) return;
  std::vector<Expr> stack;
  for (const Fact::Step &step : fact.program) {
    if (step.op == Fact::Op::Const) {
      stack.push_back({.kind = Expr::Kind::Const, .value = step.value});
    } else if (step.op == Fact::Op::Arg) {
      if (step.value < 0 || step.value >= int64_t(kernel.body.numArgs())) return;
      stack.push_back({.kind = Expr::Kind::Arg, .arg = unsigned(step.value)});
    } else if (step.op == Fact::Op::Neg || step.op == Fact::Op::Not) {
      if (stack.empty()) return;
      const bool known = stack.back().kind == Expr::Kind::Const;
      const int64_t old = stack.back().value, value = step.op == Fact::Op::Neg ? int64_t(-uint64_t(old)) : !old;
      stack.back() = {.kind = known ? Expr::Kind::Const : Expr::Kind::Unknown, .value = value};
    } else {
      if (stack.size() < 2) return;
      Expr b = std::move(stack.back());
      stack.pop_back();
      stack.back() = combine(step.op, std::move(stack.back()), std::move(b));
    }
  }
  if (stack.size() != 1) return;
  for (const auto &[arg, refinement] : stack.back().holds) out[kernel.body.arg(arg)].merge(refinement);
}

std::optional<int64_t> constantOf(const Value *v) {
  while (v->def() && v->def()->is(Opcode::Splat)) v = v->def()->operand(0);
  if (!v->def() || !v->def()->is(Opcode::Constant) || !v->type.isIntLike()) return std::nullopt;
  return v->def()->intAttr(Attr::value);
}

/// What follows for values that live in `block` from `v` being true there.
void addCondition(const Value *v, const Block *block, Refinements &out) {
  const Op *op = v->def();
  if (!op) return;
  if (op->is(Opcode::And)) {
    addCondition(op->operand(0), block, out);
    addCondition(op->operand(1), block, out);
    return;
  }
  if (!op->is(Opcode::Cmp)) return;
  const Value *a = op->operand(0), *b = op->operand(1);
  Pred pred = Pred(op->intAttr(Attr::pred));
  if (constantOf(a)) {
    std::swap(a, b);
    pred = swapped(pred);
  }
  const std::optional<int64_t> c = constantOf(b);
  if (!c || !a->type.isIntLike()) return;
  // Only where each path that has the value comes to the assumption: the block that defines it.
  auto livesHere = [&](const Value *x) { return (x->def() ? x->def()->parent() : x->block()) == block; };
  if (a->def() && a->def()->is(Opcode::ModFloor) && pred == Pred::Eq && *c == 0) {
    const Value *x = a->def()->operand(0);
    const std::optional<int64_t> n = constantOf(a->def()->operand(1));
    if (n && *n > 0 && livesHere(x)) out[x].merge({.divisibility = powerOfTwoPart(*n)});
  }
  // u64 numbers are stored as their bits: their order is not that of int64_t.
  if (a->type.scalar() == Scalar::U64 || !livesHere(a)) return;
  if (std::optional<Refinement> r = compareWith(pred, *c)) out[a].merge(*r);
}

} // namespace

Refinements collectRefinements(const Module &module) {
  Refinements out;
  for (const Fact &fact : module.kernel.facts) addFact(fact, module.kernel, out);
  const_cast<Block &>(module.kernel.body).walk([&](Op &op) {
    if (op.is(Opcode::Assume)) addCondition(op.operand(0), op.parent(), out);
  });
  return out;
}

} // namespace tlx::passes
