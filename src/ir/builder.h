// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Creates ops with the result types that the rules of ops.def demand. Operands must already fit (the elaborator has checked them
// against the language); broadcasting and promotion are done by the caller.
#pragma once
#include "ir/ir.h"

namespace tlx::ir {

class Builder {
public:
  explicit Builder(Module &module) : module(module), context(module.context), block(&module.kernel.body) {}
  Module &module;
  Context &context;
  Loc loc;

  void atEnd(Block &b) { block = &b, before = nullptr; }
  void at(Op *op) { block = op->parent(), before = op; }
  void after(Op *op) { block = op->parent(), before = op->next(); }
  Block *insertBlock() const { return block; }
  Op *insertPoint() const { return before; }

  /// The general form; the others are made of it.
  Op *create(Opcode opcode, llvm::ArrayRef<Value *> operands, llvm::ArrayRef<Type> results);
  /// A copy of `op` at the insertion point, regions included, with operands taken through `map` where it has an entry; results are added
  /// to `map`.
  Op *clone(const Op &op, llvm::DenseMap<Value *, Value *> &map);

  Type i1() { return context.scalar(Scalar::I1); }
  Type i32() { return context.scalar(Scalar::I32); }
  Type i64() { return context.scalar(Scalar::I64); }
  Type f32() { return context.scalar(Scalar::F32); }

  Value *constant(Type type, int64_t value); // a float type takes the number as a float
  Value *constantFloat(Type type, double value);
  Value *constI32(int64_t v) { return constant(i32(), v); }
  Value *programId(unsigned axis);
  Value *numPrograms(unsigned axis);
  Value *arange(int64_t start, int64_t end);
  Value *splat(Value *scalar, llvm::ArrayRef<int64_t> shape, const layout::TileLayout *layout = nullptr);
  Value *expandDims(Value *x, unsigned axis);
  Value *broadcast(Value *x, llvm::ArrayRef<int64_t> shape);
  Value *reshape(Value *x, llvm::ArrayRef<int64_t> shape);
  Value *trans(Value *x, llvm::ArrayRef<int64_t> perm);
  Value *join(Value *a, Value *b);
  std::pair<Value *, Value *> split(Value *x);
  Value *convertLayout(Value *x, const layout::TileLayout *layout);
  Value *requireLayout(Value *x, llvm::StringRef literal);

  Value *unary(Opcode opcode, Value *x);
  Value *binary(Opcode opcode, Value *a, Value *b);
  Value *fma(Value *a, Value *b, Value *c);
  Value *cmp(Pred pred, Value *a, Value *b);
  Value *select(Value *condition, Value *a, Value *b);
  Value *cast(Value *x, Scalar to, llvm::StringRef rounding = {});
  Value *bitcast(Value *x, Type element);

  void assume(Value *condition);
  Value *multipleOf(Value *x, int64_t n);
  Value *addptr(Value *pointer, Value *offset);
  Value *load(Value *pointer, Value *mask = nullptr, Value *other = nullptr);
  Op *store(Value *pointer, Value *value, Value *mask = nullptr);
  Value *atomicRmw(llvm::StringRef kind, Value *pointer, Value *value, Value *mask = nullptr);
  Value *atomicAdd(Value *pointer, Value *value, Value *mask = nullptr) {
    return atomicRmw("add", pointer, value, mask);
  }
  Value *atomicCas(Value *pointer, Value *expected, Value *value, Value *mask = nullptr);
  Value *descLoad(Value *descriptor, llvm::ArrayRef<Value *> indices);
  Op *descStore(Value *descriptor, Value *tile, llvm::ArrayRef<Value *> indices, llvm::StringRef reduce = {});
  Value *dot(Value *a, Value *b, Value *acc, llvm::StringRef precision = {});

  /// Reduces tiles of one shape along `axis`. `combine` gets lhs… and rhs… as scalars, inside the region, and returns the results.
  using Combine = llvm::function_ref<llvm::SmallVector<Value *, 2>(llvm::ArrayRef<Value *>, llvm::ArrayRef<Value *>)>;
  llvm::SmallVector<Value *, 2> reduce(llvm::ArrayRef<Value *> tiles, unsigned axis, Combine combine);
  /// The results have the operands' types.
  llvm::SmallVector<Value *, 2> scan(llvm::ArrayRef<Value *> tiles, unsigned axis, bool reverse, Combine combine);

  /// Loops and branches: the op with its blocks and arguments, insertion point unchanged. The caller fills each block and ends it with
  /// yield (or condition).
  Op *forLoop(Value *lo, Value *hi, Value *step, llvm::ArrayRef<Value *> inits);
  Op *whileLoop(llvm::ArrayRef<Value *> inits);
  Op *ifOp(Value *condition, llvm::ArrayRef<Type> results);
  void yield(llvm::ArrayRef<Value *> values);
  void condition(Value *goOn, llvm::ArrayRef<Value *> values);
  void ret();
  void print(llvm::StringRef format, llvm::ArrayRef<Value *> values);

  Value *localAlloc(Scalar element, llvm::ArrayRef<int64_t> shape, unsigned depth, const layout::SharedLayout *layout);
  Value *subview(Value *buffer, Value *slot);
  Value *localLoad(Value *buffer, const layout::TileLayout *layout);
  void localStore(Value *buffer, Value *tile);
  void asyncCopy(Value *buffer, Value *pointer, Value *mask = nullptr);

private:
  llvm::SmallVector<Value *, 2> combining(Opcode opcode, llvm::ArrayRef<Value *> tiles, llvm::ArrayRef<Type> results,
                                          unsigned axis, Combine combine);
  Block *block;
  Op *before = nullptr;
};

} // namespace tlx::ir
