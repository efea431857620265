// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The equations of simplify. No rule changes the layout of a value that stays.
#include "passes/simplify_p.h"

#include "ir/descriptors.h"

namespace tlx::passes::detail {
using namespace ir;

namespace {

const Op *constantOf(const Value *v) {
  return v->def() && v->def()->is(Opcode::Constant) ? v->def() : nullptr;
}
std::optional<int64_t> intOf(const Value *v) {
  const Op *c = constantOf(v);
  return c && v->type.isIntLike() ? std::optional(c->intAttr(Attr::value)) : std::nullopt;
}
bool isFloatConstant(const Value *v, double x) {
  const Op *c = constantOf(v);
  return c && v->type.isFloatLike() &&
         llvm::bit_cast<uint64_t>(c->floatAttr(Attr::value)) == llvm::bit_cast<uint64_t>(x);
}
/// The scalar in every element: of a splat, or null.
Value *splatted(const Value *v) {
  return v->def() && v->def()->is(Opcode::Splat) ? v->def()->operand(0) : nullptr;
}
Op *defBy(const Value *v, Opcode o) {
  return v->def() && v->def()->is(o) ? v->def() : nullptr;
}

struct Rules {
  Module &module;
  Op *op;
  Builder b{module};

  Rules(Module &module, Op *op) : module(module), op(op) {
    b.at(op);
    b.loc = op->loc;
  }

  Value *x(unsigned i) const { return op->operand(i); }
  Type type() const { return op->result()->type; }

  /// The op is `v`. False if the types do not allow it (layouts may still be missing on one side).
  bool becomes(Value *v) {
    if (v->type != type() || v == op->result()) return false;
    op->result()->replaceAllUsesWith(v);
    op->erase();
    return true;
  }
  Value *constant(Type t, AttrValue value) {
    Op *c = b.create(Opcode::Constant, {}, t);
    c->setAttr(Attr::value, std::move(value));
    return c->result();
  }
  bool becomesConstant(AttrValue value) { return becomes(constant(type(), std::move(value))); }
  bool becomesInt(int64_t v) { return becomesConstant(wrapInt(v, type().scalar())); }
  Value *splat(Value *scalar, Type t) { return b.create(Opcode::Splat, scalar, t)->result(); }

  bool run();
  bool foldAll();
  bool scalarWork();
  bool constantRight();
  bool integers();
  bool reassociate();
  bool floats();
  bool comparison();
  bool selection();
  bool casts();
  bool shapes();
  /// convert(trans(load p)) == trans(convert(load p)): where the load becomes a ring, the conversion is how the ring is read
  bool convertBeforeTrans();
  bool pointers();
  bool memory();
  bool forLoop();
  bool whileLoop();
  bool branch();
  void inlineBefore(Block &block);
  bool replaceResult(unsigned i, Value *v);
};

/// Constants in, constant out.
bool Rules::foldAll() {
  if (op->numResults() != 1 || !op->has(Pure) || op->numRegions()) return false;
  llvm::SmallVector<const Op *, 3> constants;
  for (Value *v : op->operands()) {
    const Op *c = constantOf(v);
    if (!c) return false;
    constants.push_back(c);
  }
  std::optional<AttrValue> value = foldConstants(*op, constants);
  return value && becomesConstant(std::move(*value));
}

/// f(splat a, splat b) == splat f(a, b): scalar work stays scalar.
bool Rules::scalarWork() {
  if (!op->has(Elementwise) || !op->has(Pure) || op->is(Opcode::RequireLayout) || !type().isTile()) return false;
  for (Value *v : op->operands())
    if (v->type.isTile() && !splatted(v) && !constantOf(v)) return false;
  llvm::SmallVector<Value *, 3> scalars;
  for (Value *v : op->operands()) {
    if (!v->type.isTile())
      scalars.push_back(v);
    else if (Value *s = splatted(v))
      scalars.push_back(s);
    else
      scalars.push_back(constant(v->type.element(), constantOf(v)->attrs()[0].second));
  }
  Op *scalar = b.create(op->opcode, scalars, type().element());
  for (const auto &[key, value] : op->attrs()) scalar->setAttr(key, value);
  return becomes(splat(scalar->result(), type()));
}

/// c + x == x + c, and c < x == x > c: the rules below look for constants on the right only.
bool Rules::constantRight() {
  if (op->numOperands() != 2 || !constantOf(x(0)) || constantOf(x(1))) return false;
  using enum Opcode;
  switch (op->opcode) {
  case Add:
  case Mul:
  case And:
  case Or:
  case Xor:
  case Min:
  case Max:
  case MinNan:
  case MaxNan:
    break;
  case Cmp: {
    static const Pred swapped[] = {Pred::Eq, Pred::Ne, Pred::Gt, Pred::Ge, Pred::Lt, Pred::Le};
    op->setAttr(Attr::pred, int64_t(swapped[op->intAttr(Attr::pred)]));
    break;
  }
  default:
    return false;
  }
  Value *a = x(0), *c = x(1);
  op->setOperand(0, c);
  op->setOperand(1, a);
  return true;
}

bool Rules::integers() {
  const std::optional<int64_t> c = op->numOperands() > 1 ? intOf(x(1)) : std::nullopt;
  const bool same = op->numOperands() > 1 && x(0) == x(1);
  const int64_t ones = wrapInt(-1, type().scalar());
  using enum Opcode;
  switch (op->opcode) {
  case Add: // x + 0 == x
    return c == 0 && becomes(x(0));
  case Sub:
    if (same) return becomesInt(0);                           // x - x == 0
    if (c == 0) return becomes(x(0));                         // x - 0 == x
    if (intOf(x(0)) == 0) return becomes(b.unary(Neg, x(1))); // 0 - x == -x
    // x - c == x + -c; of an unsigned type the large constant would hide the range
    if (!c || !isSignedInt(type().scalar())) return false;
    return becomes(b.binary(Add, x(0), constant(type(), wrapInt(int64_t(-uint64_t(*c)), type().scalar()))));
  case Mul:
    if (c == 0) return becomesInt(0); // x * 0 == 0
    return c == 1 && becomes(x(0));   // x * 1 == x
  case DivFloor:
  case CeilDiv: // x / 1 == x
    return c == 1 && type().scalar() != Scalar::I1 && becomes(x(0));
  case ModFloor: // x % 1 == 0
    return c == 1 && becomesInt(0);
  case And:
    if (same || c == ones) return becomes(x(0)); // x & x == x, x & ~0 == x
    return c == 0 && becomesInt(0);              // x & 0 == 0
  case Or:
    if (same || c == 0) return becomes(x(0)); // x | x == x, x | 0 == x
    return c == ones && becomesInt(-1);       // x | ~0 == ~0
  case Xor:
    if (same) return becomesInt(0); // x ^ x == 0
    return c == 0 && becomes(x(0)); // x ^ 0 == x
  case Shl:
  case Shr: // x << 0 == x
    return c == 0 && becomes(x(0));
  case Min:
  case Max:
  case MinNan:
  case MaxNan: // min(x, x) == x
    return same && becomes(x(0));
  case Neg: // -(-x) == x
    if (Op *inner = defBy(x(0), Neg)) return becomes(inner->operand(0));
    return false;
  default:
    return false;
  }
}

/// (x ∘ c1) ∘ c2 == x ∘ (c1 ∘ c2) for what is associative in integers that wrap.
bool Rules::reassociate() {
  using enum Opcode;
  if (!op->is(Add) && !op->is(Mul) && !op->is(And) && !op->is(Or) && !op->is(Xor) && !op->is(Min) && !op->is(Max))
    return false;
  if (!intOf(x(1))) return false;
  Op *inner = defBy(x(0), op->opcode);
  if (!inner || !intOf(inner->operand(1)) || inner->operand(1)->type != x(1)->type) return false;
  const Op *constants[] = {constantOf(inner->operand(1)), constantOf(x(1))};
  std::optional<AttrValue> c = foldConstants(*op, constants);
  return c && becomes(b.binary(op->opcode, inner->operand(0), constant(type(), std::move(*c))));
}

bool Rules::floats() {
  using enum Opcode;
  switch (op->opcode) {
  case Add: // x + -0 == x (but -0 + 0 == 0)
    return isFloatConstant(x(1), -0.0) && becomes(x(0));
  case Sub: // x - 0 == x
    return isFloatConstant(x(1), 0.0) && becomes(x(0));
  case Mul:
  case Div: // x * 1 == x / 1 == x
    return isFloatConstant(x(1), 1.0) && becomes(x(0));
  case Neg: // -(-x) == x
    if (Op *inner = defBy(x(0), Neg)) return becomes(inner->operand(0));
    return false;
  case Abs: // |-x| == |x|, ||x|| == |x|
    if (Op *inner = defBy(x(0), Neg)) {
      op->setOperand(0, inner->operand(0));
      return true;
    }
    return defBy(x(0), Abs) && becomes(x(0));
  default:
    return false;
  }
}

bool Rules::comparison() {
  if (!op->is(Opcode::Cmp) || x(0) != x(1) || x(0)->type.isFloatLike()) return false;
  // x == x, x <= x, x >= x are true, the others false
  const Pred p = Pred(op->intAttr(Attr::pred));
  return becomesInt(p == Pred::Eq || p == Pred::Le || p == Pred::Ge);
}

bool Rules::selection() {
  if (!op->is(Opcode::Select)) return false;
  if (std::optional<int64_t> c = intOf(x(0))) return becomes(x(*c ? 1 : 2)); // where(true, a, b) == a
  if (x(1) == x(2)) return becomes(x(1));                                    // where(c, a, a) == a
  // A uniform condition is one scalar: where(splat c, a, b) == where(c, a, b)
  if (Value *scalar = splatted(x(0))) {
    op->setOperand(0, scalar);
    return true;
  }
  // where(c, true, false) == c
  return type().isBoolLike() && intOf(x(1)) == 1 && intOf(x(2)) == 0 && becomes(x(0));
}

/// Whether every number of `from` is one of `to`.
bool widens(Scalar from, Scalar to) {
  if (isInt(from) != isInt(to) || from == Scalar::I1 || to == Scalar::I1) return false;
  if (isInt(from)) return scalarBits(to) > scalarBits(from);
  if (to == Scalar::F64) return from != Scalar::F64;
  return to == Scalar::F32 && scalarBits(from) < 32;
}

bool Rules::casts() {
  if (op->is(Opcode::Cast)) {
    if (x(0)->type == type()) return becomes(x(0));
    // T(W(x)) == x for x of T and W wider
    Op *inner = defBy(x(0), Opcode::Cast);
    return inner && widens(type().scalar(), x(0)->type.scalar()) && becomes(inner->operand(0));
  }
  if (!op->is(Opcode::Bitcast)) return false;
  if (x(0)->type == type()) return becomes(x(0));
  if (Op *inner = defBy(x(0), Opcode::Bitcast)) { // bits of bits
    op->setOperand(0, inner->operand(0));
    return true;
  }
  return false;
}

bool Rules::shapes() {
  using enum Opcode;
  if (op->is(Splat)) { // splat c == a constant tile
    const Op *c = constantOf(x(0));
    return c && becomesConstant(c->attrs()[0].second);
  }
  const bool moves =
      op->is(ExpandDims) || op->is(Broadcast) || op->is(Reshape) || op->is(Trans) || op->is(ConvertLayout);
  if (!moves) return false;
  // Every element is the same before and after: f(splat s) == splat s
  if (Value *s = splatted(x(0))) return becomes(splat(s, type()));
  if (const Op *c = constantOf(x(0))) return becomesConstant(c->attrs()[0].second);
  if (op->is(ConvertLayout)) {
    // convert(convert(x)) == convert(x): only the last layout matters
    if (Op *inner = defBy(x(0), ConvertLayout)) {
      if (inner->operand(0)->type == type()) return becomes(inner->operand(0));
      op->setOperand(0, inner->operand(0));
      return true;
    }
    if (convertBeforeTrans()) return true;
    return becomes(x(0)); // where it already has the layout
  }
  if (op->is(Trans) && !llvm::is_sorted(op->listAttr(Attr::perm))) return false;
  if (op->is(Reshape)) // reshape(desc_load d) == desc_load d, where extents of 1 go
    if (Op *load = defBy(x(0), DescLoad))
      if (!type().layout() && x(0)->hasOneUse() && blockDimensions(load->operand(0)->type.shape(), type().shape())) {
        b.at(load);
        b.loc = load->loc;
        llvm::SmallVector<Value *, 6> operands(load->operands().begin(), load->operands().end());
        Value *made = b.create(DescLoad, operands, type())->result();
        b.at(op);
        return becomes(made);
      }
  if (op->is(ExpandDims)) return false;
  return becomes(x(0)); // broadcast, reshape to the same type; identical permutation
}

bool Rules::convertBeforeTrans() {
  Op *trans = defBy(x(0), Opcode::Trans);
  if (!trans || !type().layout() || x(0)->type == type() || !defBy(trans->operand(0), Opcode::Load)) return false;
  const llvm::ArrayRef<int64_t> perm = trans->listAttr(Attr::perm);
  llvm::SmallVector<unsigned, 4> forth(perm.begin(), perm.end()), back(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) back[perm[i]] = unsigned(i);
  const layout::TileLayout *before = module.context.unique(layout::transpose(*type().layout(), back));
  if (module.context.unique(layout::transpose(*before, forth)) != type().layout()) return false;
  Value *stored = trans->operand(0);
  Value *read = b.create(Opcode::ConvertLayout, {stored}, stored->type.withLayout(before))->result();
  Op *turned = b.create(Opcode::Trans, {read}, type());
  turned->setAttr(Attr::perm, std::vector<int64_t>(perm.begin(), perm.end()));
  return becomes(turned->result());
}

bool Rules::pointers() {
  if (!op->is(Opcode::AddPtr)) return false;
  const std::optional<int64_t> c = intOf(x(1));
  if (!c) return false;
  if (*c == 0) return becomes(x(0)); // p + 0 == p
  // (p + c1) + c2 == p + (c1 + c2), if the sum does not wrap: offsets are scaled in 64 bits
  Op *inner = defBy(x(0), Opcode::AddPtr);
  if (!inner || inner->operand(1)->type != x(1)->type || !intOf(inner->operand(1))) return false;
  int64_t sum;
  const Scalar s = x(1)->type.scalar();
  if (s == Scalar::U64 || __builtin_add_overflow(*intOf(inner->operand(1)), *c, &sum) || wrapInt(sum, s) != sum)
    return false;
  return becomes(b.addptr(inner->operand(0), constant(x(1)->type, sum)));
}

bool Rules::memory() {
  if (op->is(Opcode::DescStore)) { // desc_store d, reshape(x) == desc_store d, x, where extents of 1 came
    Op *reshape = defBy(x(1), Opcode::Reshape);
    if (!reshape || x(1)->type.layout() || !blockDimensions(x(0)->type.shape(), reshape->operand(0)->type.shape()))
      return false;
    op->setOperand(1, reshape->operand(0));
    return true;
  }
  const bool load = op->is(Opcode::Load);
  if (!load && !op->is(Opcode::Store) && !op->is(Opcode::AtomicRmw) && !op->is(Opcode::AtomicCas)) {
    if (op->is(Opcode::Assume) && intOf(x(0)) == 1) { // nothing new
      op->erase();
      return true;
    }
    return false;
  }
  const unsigned mask = load ? 1 : op->is(Opcode::AtomicCas) ? 3 : 2;
  if (op->numOperands() <= mask) return false;
  const std::optional<int64_t> c = intOf(x(mask));
  if (!c) return false;
  if (*c) { // all elements: no mask
    while (op->numOperands() > mask) op->eraseOperand(op->numOperands() - 1);
    return true;
  }
  if (op->is(Opcode::Store)) { // no element: nothing
    op->erase();
    return true;
  }
  if (!load) return false;
  // no element: other, or zero
  if (op->numOperands() > 2) return becomes(x(2));
  if (!type().element().isScalar()) return false;
  return becomesConstant(type().isIntLike() ? AttrValue(int64_t(0)) : AttrValue(0.0));
}

// --- control ------------------------------------------------------------------------------------------------------

bool Rules::replaceResult(unsigned i, Value *v) {
  Value *r = op->result(i);
  if (r->unused() || r->type != v->type) return false;
  r->replaceAllUsesWith(v);
  return true;
}

/// The ops of a region without its terminator.
void Rules::inlineBefore(Block &block) {
  for (Op *inner : block.ops())
    if (!inner->isTerminator()) inner->moveBefore(op);
}

bool sameTypes(llvm::ArrayRef<Value *> values, const Op *op, unsigned skip) {
  for (unsigned i = 0; i < op->numResults(); ++i)
    if (values[skip + i]->type != op->result(i)->type) return false;
  return true;
}

bool Rules::branch() {
  if (std::optional<int64_t> c = intOf(x(0))) { // if true {a} else {b} == a
    Block &taken = op->body(*c ? 0 : 1);
    if (!sameTypes(taken.terminator()->operands(), op, 0)) return false;
    inlineBefore(taken);
    for (unsigned i = 0; i < op->numResults(); ++i) op->result(i)->replaceAllUsesWith(taken.terminator()->operand(i));
    op->erase();
    return true;
  }
  bool changed = false;
  for (unsigned i = 0; i < op->numResults(); ++i) { // both branches give x: x
    Value *v = op->body(0).terminator()->operand(i);
    if (v == op->body(1).terminator()->operand(i)) changed |= replaceResult(i, v);
  }
  return changed;
}

bool Rules::forLoop() {
  const std::optional<int64_t> lo = intOf(x(0)), hi = intOf(x(1)), step = intOf(x(2));
  const bool isSigned = isSignedInt(x(0)->type.scalar());
  if (lo && hi && step && isSigned &&
      (*step > 0 ? *lo >= *hi : *step < 0 && *lo <= *hi)) { // no trip: the initial values
    if (!sameTypes(op->operands(), op, 3)) return false;
    for (unsigned i = 0; i < op->numResults(); ++i) op->result(i)->replaceAllUsesWith(x(3 + i));
    op->erase();
    return true;
  }
  bool changed = false;
  Block &body = op->body();
  for (unsigned i = 0; i < op->numResults(); ++i) {
    Value *arg = body.arg(1 + i), *next = body.terminator()->operand(i), *init = x(3 + i);
    if ((next != arg && next != init) || init->type != arg->type) continue; // carried unchanged: the initial value
    if (!arg->unused()) {
      // The yield keeps a use of its own until the slot is found dead.
      arg->replaceAllUsesWith(init);
      changed = true;
    }
    changed |= replaceResult(i, init);
  }
  return changed;
}

bool Rules::whileLoop() {
  Op *condition = op->body(0).terminator();
  if (intOf(condition->operand(0)) == 0) { // while false: the first region once
    if (!sameTypes(condition->operands(), op, 1)) return false;
    for (unsigned i = 0; i < op->numOperands(); ++i)
      if (op->body(0).arg(i)->type != x(i)->type) return false;
    for (unsigned i = 0; i < op->numOperands(); ++i) op->body(0).arg(i)->replaceAllUsesWith(x(i));
    inlineBefore(op->body(0));
    for (unsigned i = 0; i < op->numResults(); ++i) op->result(i)->replaceAllUsesWith(condition->operand(1 + i));
    op->erase();
    return true;
  }
  bool changed = false;
  Op *yield = op->body(1).terminator();
  for (unsigned i = 0; i < op->numOperands(); ++i) {
    Value *first = op->body(0).arg(i), *second = op->body(1).arg(i), *init = x(i);
    const bool passed = condition->operand(1 + i) == first || condition->operand(1 + i) == init;
    const bool back = yield->operand(i) == second || yield->operand(i) == init;
    if (!passed || !back || init->type != first->type || init->type != second->type) continue;
    for (Value *arg : {first, second})
      if (!arg->unused()) {
        arg->replaceAllUsesWith(init);
        changed = true;
      }
    changed |= replaceResult(i, init);
  }
  return changed;
}

bool Rules::run() {
  switch (op->opcode) {
  case Opcode::If:
    return branch();
  case Opcode::For:
    return forLoop();
  case Opcode::While:
    return whileLoop();
  case Opcode::Constant:
    return false;
  default:
    break;
  }
  if (foldAll() || memory()) return true;
  if (op->numResults() != 1) return false;
  if (constantRight() || selection() || scalarWork() || comparison() || casts() || shapes() || pointers()) return true;
  if (!type().element().isScalar() || !op->has(Elementwise) || !op->has(Pure)) return false;
  if (op->is(Opcode::Cmp) || op->is(Opcode::Select)) return false;
  return type().isIntLike() ? integers() || reassociate() : floats();
}

} // namespace

bool simplifyOp(Module &module, Op *op) {
  return Rules(module, op).run();
}

} // namespace tlx::passes::detail
