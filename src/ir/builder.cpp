// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ir/builder.h"

namespace tlx::ir {

Op *Builder::create(Opcode opcode, llvm::ArrayRef<Value *> operands, llvm::ArrayRef<Type> results) {
  auto op = std::make_unique<Op>(opcode, loc);
  for (Value *v : operands) op->addOperand(v);
  for (Type t : results) op->addResult(t);
  return block->insert(std::move(op), before);
}

Op *Builder::clone(const Op &op, llvm::DenseMap<Value *, Value *> &map) {
  auto mapped = [&](Value *v) {
    auto it = map.find(v);
    return it == map.end() ? v : it->second;
  };
  llvm::SmallVector<Value *, 4> operands;
  for (Value *v : op.operands()) operands.push_back(mapped(v));
  llvm::SmallVector<Type, 2> types;
  for (unsigned i = 0; i < op.numResults(); ++i) types.push_back(op.result(i)->type);
  Op *copy = create(op.opcode, operands, types);
  copy->loc = op.loc;
  for (const auto &[key, value] : op.attrs()) copy->setAttr(key, value);
  for (unsigned i = 0; i < op.numResults(); ++i) map[op.result(i)] = copy->result(i);
  for (unsigned r = 0; r < op.numRegions(); ++r) {
    Block &to = copy->addRegion();
    const Block &from = op.body(r);
    for (unsigned i = 0; i < from.numArgs(); ++i) map[from.arg(i)] = to.addArg(from.arg(i)->type, from.arg(i)->name);
    Builder inner(module);
    inner.atEnd(to);
    for (Op &o : from) inner.clone(o, map);
  }
  return copy;
}

Value *Builder::constant(Type type, int64_t value) {
  if (type.isFloatLike()) return constantFloat(type, double(value));
  Op *op = create(Opcode::Constant, {}, type);
  op->setAttr(Attr::value, wrapInt(value, type.scalar()));
  return op->result();
}
Value *Builder::constantFloat(Type type, double value) {
  Op *op = create(Opcode::Constant, {}, type);
  op->setAttr(Attr::value, value);
  return op->result();
}

static Op *withAxis(Op *op, int64_t axis) {
  op->setAttr(Attr::axis, axis);
  return op;
}
Value *Builder::programId(unsigned axis) {
  return withAxis(create(Opcode::ProgramId, {}, i32()), axis)->result();
}
Value *Builder::numPrograms(unsigned axis) {
  return withAxis(create(Opcode::NumPrograms, {}, i32()), axis)->result();
}

Value *Builder::arange(int64_t start, int64_t end) {
  Op *op = create(Opcode::Arange, {}, context.tile(i32(), {end - start}));
  op->setAttr(Attr::start, start);
  return op->result();
}
Value *Builder::splat(Value *scalar, llvm::ArrayRef<int64_t> shape, const layout::TileLayout *layout) {
  return create(Opcode::Splat, scalar, context.tile(scalar->type, shape, layout))->result();
}
Value *Builder::expandDims(Value *x, unsigned axis) {
  llvm::SmallVector<int64_t, 4> shape(x->type.shape());
  shape.insert(shape.begin() + axis, 1);
  return withAxis(create(Opcode::ExpandDims, x, context.tile(x->type.element(), shape)), axis)->result();
}
Value *Builder::broadcast(Value *x, llvm::ArrayRef<int64_t> shape) {
  return create(Opcode::Broadcast, x, context.tile(x->type.element(), shape))->result();
}
Value *Builder::reshape(Value *x, llvm::ArrayRef<int64_t> shape) {
  return create(Opcode::Reshape, x, context.tile(x->type.element(), shape))->result();
}
Value *Builder::trans(Value *x, llvm::ArrayRef<int64_t> perm) {
  llvm::SmallVector<int64_t, 4> shape;
  for (int64_t p : perm) shape.push_back(x->type.shape()[p]);
  Op *op = create(Opcode::Trans, x, context.tile(x->type.element(), shape));
  op->setAttr(Attr::perm, perm.vec());
  return op->result();
}
Value *Builder::join(Value *a, Value *b) {
  llvm::SmallVector<int64_t, 4> shape(a->type.shape());
  shape.push_back(2);
  return create(Opcode::Join, {a, b}, context.tile(a->type.element(), shape))->result();
}
std::pair<Value *, Value *> Builder::split(Value *x) {
  Type t = context.tile(x->type.element(), x->type.shape().drop_back());
  Op *op = create(Opcode::Split, x, {t, t});
  return {op->result(0), op->result(1)};
}
Value *Builder::convertLayout(Value *x, const layout::TileLayout *layout) {
  if (x->type.layout() == layout) return x;
  return create(Opcode::ConvertLayout, x, x->type.withLayout(layout))->result();
}
Value *Builder::requireLayout(Value *x, llvm::StringRef literal) {
  Op *op = create(Opcode::RequireLayout, x, x->type);
  op->setAttr(Attr::layout, literal.str());
  return op->result();
}

Value *Builder::unary(Opcode opcode, Value *x) {
  return create(opcode, x, x->type)->result();
}
Value *Builder::binary(Opcode opcode, Value *a, Value *b) {
  return create(opcode, {a, b}, a->type)->result();
}
Value *Builder::fma(Value *a, Value *b, Value *c) {
  return create(Opcode::Fma, {a, b, c}, a->type)->result();
}
Value *Builder::cmp(Pred pred, Value *a, Value *b) {
  Op *op = create(Opcode::Cmp, {a, b}, a->type.withScalar(Scalar::I1));
  op->setAttr(Attr::pred, int64_t(pred));
  return op->result();
}
Value *Builder::select(Value *condition, Value *a, Value *b) {
  return create(Opcode::Select, {condition, a, b}, a->type)->result();
}
Value *Builder::cast(Value *x, Scalar to, llvm::StringRef rounding) {
  if (x->type.scalar() == to) return x;
  Op *op = create(Opcode::Cast, x, x->type.withScalar(to));
  if (!rounding.empty()) op->setAttr(Attr::rounding, rounding.str());
  return op->result();
}
Value *Builder::bitcast(Value *x, Type element) {
  return create(Opcode::Bitcast, x, x->type.withElement(element))->result();
}

void Builder::assume(Value *condition) {
  create(Opcode::Assume, condition, {});
}
Value *Builder::multipleOf(Value *x, int64_t n) {
  Op *op = create(Opcode::MultipleOf, x, x->type);
  op->setAttr(Attr::values, std::vector<int64_t>{n});
  return op->result();
}
Value *Builder::addptr(Value *pointer, Value *offset) {
  return create(Opcode::AddPtr, {pointer, offset}, pointer->type)->result();
}

static llvm::SmallVector<Value *, 4> present(std::initializer_list<Value *> values) {
  llvm::SmallVector<Value *, 4> out;
  for (Value *v : values)
    if (v) out.push_back(v);
  return out;
}
static Type pointee(Type pointer) {
  return pointer.withElement(pointer.context().scalar(pointer.element().scalar()));
}

Value *Builder::load(Value *pointer, Value *mask, Value *other) {
  assert(!other || mask);
  return create(Opcode::Load, present({pointer, mask, other}), pointee(pointer->type))->result();
}
Op *Builder::store(Value *pointer, Value *value, Value *mask) {
  return create(Opcode::Store, present({pointer, value, mask}), {});
}
Value *Builder::atomicRmw(llvm::StringRef kind, Value *pointer, Value *value, Value *mask) {
  Op *op = create(Opcode::AtomicRmw, present({pointer, value, mask}), value->type);
  op->setAttr(Attr::kind, kind.str());
  return op->result();
}
Value *Builder::atomicCas(Value *pointer, Value *expected, Value *value, Value *mask) {
  return create(Opcode::AtomicCas, present({pointer, expected, value, mask}), value->type)->result();
}
Value *Builder::descLoad(Value *descriptor, llvm::ArrayRef<Value *> indices) {
  Type t = descriptor->type;
  llvm::SmallVector<Value *, 6> operands{descriptor};
  operands.append(indices.begin(), indices.end());
  return create(Opcode::DescLoad, operands, context.tile(context.scalar(t.scalar()), t.shape()))->result();
}
Op *Builder::descStore(Value *descriptor, Value *tile, llvm::ArrayRef<Value *> indices, llvm::StringRef reduce) {
  llvm::SmallVector<Value *, 6> operands{descriptor, tile};
  operands.append(indices.begin(), indices.end());
  Op *op = create(Opcode::DescStore, operands, {});
  if (!reduce.empty()) op->setAttr(Attr::reduce, reduce.str());
  return op;
}
Value *Builder::dot(Value *a, Value *b, Value *acc, llvm::StringRef precision) {
  Op *op = create(Opcode::Dot, {a, b, acc}, acc->type);
  if (!precision.empty()) op->setAttr(Attr::precision, precision.str());
  return op->result();
}

llvm::SmallVector<Value *, 2> Builder::reduce(llvm::ArrayRef<Value *> tiles, unsigned axis, Combine combine) {
  llvm::SmallVector<int64_t, 4> shape(tiles[0]->type.shape());
  shape.erase(shape.begin() + axis);
  llvm::SmallVector<Type, 2> results;
  for (Value *t : tiles) results.push_back(shape.empty() ? t->type.element() : context.tile(t->type.element(), shape));
  return combining(Opcode::Reduce, tiles, results, axis, combine);
}
llvm::SmallVector<Value *, 2> Builder::scan(llvm::ArrayRef<Value *> tiles, unsigned axis, bool reverse,
                                            Combine combine) {
  llvm::SmallVector<Type, 2> results;
  for (Value *t : tiles) results.push_back(t->type);
  llvm::SmallVector<Value *, 2> out = combining(Opcode::Scan, tiles, results, axis, combine);
  if (reverse) out[0]->def()->setAttr(Attr::reverse, int64_t(1));
  return out;
}

llvm::SmallVector<Value *, 2> Builder::combining(Opcode opcode, llvm::ArrayRef<Value *> tiles,
                                                 llvm::ArrayRef<Type> results, unsigned axis, Combine combine) {
  Op *op = withAxis(create(opcode, tiles, results), axis);
  Block &body = op->addRegion();
  llvm::SmallVector<Value *, 4> lhs, rhs;
  for (Value *t : tiles) lhs.push_back(body.addArg(t->type.element()));
  for (Value *t : tiles) rhs.push_back(body.addArg(t->type.element()));
  Block *savedBlock = block;
  Op *savedBefore = before;
  atEnd(body);
  yield(combine(lhs, rhs));
  block = savedBlock, before = savedBefore;
  llvm::SmallVector<Value *, 2> out;
  for (unsigned i = 0; i < op->numResults(); ++i) out.push_back(op->result(i));
  return out;
}

static llvm::SmallVector<Type, 4> typesOf(llvm::ArrayRef<Value *> values) {
  llvm::SmallVector<Type, 4> types;
  for (Value *v : values) types.push_back(v->type);
  return types;
}

Op *Builder::forLoop(Value *lo, Value *hi, Value *step, llvm::ArrayRef<Value *> inits) {
  llvm::SmallVector<Value *, 8> operands{lo, hi, step};
  operands.append(inits.begin(), inits.end());
  Op *op = create(Opcode::For, operands, typesOf(inits));
  Block &body = op->addRegion();
  body.addArg(lo->type);
  for (Value *v : inits) body.addArg(v->type);
  return op;
}
Op *Builder::whileLoop(llvm::ArrayRef<Value *> inits) {
  Op *op = create(Opcode::While, inits, typesOf(inits));
  for (int i = 0; i < 2; ++i) {
    Block &b = op->addRegion();
    for (Value *v : inits) b.addArg(v->type);
  }
  return op;
}
Op *Builder::ifOp(Value *condition, llvm::ArrayRef<Type> results) {
  Op *op = create(Opcode::If, condition, results);
  op->addRegion();
  op->addRegion();
  return op;
}
void Builder::yield(llvm::ArrayRef<Value *> values) {
  create(Opcode::Yield, values, {});
}
void Builder::condition(Value *goOn, llvm::ArrayRef<Value *> values) {
  llvm::SmallVector<Value *, 8> operands{goOn};
  operands.append(values.begin(), values.end());
  create(Opcode::Condition, operands, {});
}
void Builder::ret() {
  create(Opcode::Return, {}, {});
}
void Builder::print(llvm::StringRef format, llvm::ArrayRef<Value *> values) {
  create(Opcode::Print, values, {})->setAttr(Attr::format, format.str());
}

Value *Builder::localAlloc(Scalar element, llvm::ArrayRef<int64_t> shape, unsigned depth,
                           const layout::SharedLayout *layout) {
  return create(Opcode::LocalAlloc, {}, context.buffer(element, shape, depth, Space::Shared, layout))->result();
}
Value *Builder::subview(Value *buffer, Value *slot) {
  Type t = buffer->type;
  if (t.kind() == Type::Kind::Barrier) return create(Opcode::SubView, {buffer, slot}, context.barrier(1))->result();
  return create(Opcode::SubView, {buffer, slot}, context.buffer(t.scalar(), t.shape(), 1, t.space(), t.sharedLayout()))
      ->result();
}
Value *Builder::localLoad(Value *buffer, const layout::TileLayout *layout) {
  Type t = buffer->type;
  return create(Opcode::LocalLoad, buffer, context.tile(context.scalar(t.scalar()), t.shape(), layout))->result();
}
void Builder::localStore(Value *buffer, Value *tile) {
  create(Opcode::LocalStore, {buffer, tile}, {});
}
void Builder::asyncCopy(Value *buffer, Value *pointer, Value *mask) {
  create(Opcode::AsyncCopy, present({buffer, pointer, mask}), {});
}

} // namespace tlx::ir
