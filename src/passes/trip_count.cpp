// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "passes/trip_count.h"

namespace tlx::passes {

using namespace ir;

Value *tripCount(Builder &b, Value *lo, Value *hi, Value *step) {
  Scalar scalar = lo->type.scalar();
  if (scalarBytes(scalar) < 4) {
    lo = b.cast(lo, Scalar::I32), hi = b.cast(hi, Scalar::I32), step = b.cast(step, Scalar::I32);
    scalar = Scalar::I32;
  }
  Type type = b.context.scalar(scalarBytes(scalar) == 8 ? Scalar::U64 : Scalar::U32);
  auto asUnsigned = [&](Value *v) { return v->type == type ? v : b.bitcast(v, type); };
  Value *zero = b.constant(lo->type, 0), *none = b.constant(type, 0);
  auto upward = [&] { return b.select(b.cmp(Pred::Gt, hi, lo), asUnsigned(b.binary(Opcode::Sub, hi, lo)), none); };
  auto downward = [&] { return b.select(b.cmp(Pred::Gt, lo, hi), asUnsigned(b.binary(Opcode::Sub, lo, hi)), none); };
  Op *known = step->def();
  if (known && known->is(Opcode::Constant)) {
    int64_t n = known->intAttr(Attr::value);
    bool up = n > 0 || !isSignedInt(scalar);
    Value *size = asUnsigned(up ? step : b.binary(Opcode::Sub, zero, step));
    return n ? b.binary(Opcode::CeilDiv, up ? upward() : downward(), size) : none;
  }
  Value *up = b.cmp(Pred::Gt, step, zero), *still = b.cmp(Pred::Eq, step, zero), *size = step, *span = upward();
  if (isSignedInt(scalar)) {
    size = b.select(up, step, b.binary(Opcode::Sub, zero, step));
    span = b.select(up, span, downward());
  }
  return b.binary(Opcode::CeilDiv, b.select(still, none, span), b.select(still, b.constant(type, 1), asUnsigned(size)));
}

namespace {
void guardDivision(Module &module, Op &op, Value *guard) {
  if (!op.is(Opcode::DivFloor) && !op.is(Opcode::ModFloor) && !op.is(Opcode::CeilDiv)) return;
  Value *divisor = op.operand(1);
  if (divisor->def() && divisor->def()->is(Opcode::Constant)) return;
  Builder b(module);
  b.at(&op);
  b.loc = op.loc;
  op.setOperand(1, b.select(guard, divisor, b.constant(divisor->type, 1)));
}
} // namespace

Op *cloneGuarded(Builder &b, const Op &op, llvm::DenseMap<Value *, Value *> &map, Value *guard) {
  Op *clone = b.clone(op, map);
  guardDivision(b.module, *clone, guard);
  std::vector<Op *> inner;
  for (unsigned r = 0; r < clone->numRegions(); ++r) clone->body(r).walk([&](Op &o) { inner.push_back(&o); });
  for (Op *o : inner) guardDivision(b.module, *o, guard);
  return clone;
}

} // namespace tlx::passes
