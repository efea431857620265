// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tensor descriptors that TMA cannot serve: each becomes a pointer, strides and extents, and its accesses become masked
// ones. Without TMA that is all of them; with it those of which an access may begin between two multiples of 16 bytes of
// a row, where the unit stops the kernel, or combines in a way that the unit does not know.
//
//   kernel @k(%a: tensor_desc<f16, [64, 32]>, …)
//     %t = desc_load %a, %m, %k : f16[64, 32]
//
//   ->  kernel @k(%a: *f16, %a_stride0: i64, %a_shape0: i32, %a_shape1: i32, …)
//         descriptor "a" at 0 : tensor_desc<f16, [64, 32]>
//         %t = load a + m * stride0 + k + block offsets, mask : f16[64, 32]
//
// An index may be negative or past the end: the mask has both sides. Indices count elements in 32 bits, addresses are
// made in 64. The launcher checks of each descriptor that pointer and strides are multiples of 16 bytes, which
// multiple_of tells to axis analysis.
#include <set>

#include "llvm/ADT/STLExtras.h"

#include "ir/builder.h"
#include "ir/descriptors.h"
#include "passes/axis_analysis.h"
#include "passes/passes.h"

namespace tlx::passes {

using namespace ir;

namespace {

bool isDescriptor(const Value *v) {
  return v->type.kind() == Type::Kind::TensorDesc;
}

/// What a descriptor has become, as its accesses use it.
struct Fields {
  Value *pointer = nullptr;
  llvm::SmallVector<Value *, 5> strides, shape;
};

class Lowering {
public:
  Lowering(Module &module, const features::Target &target, Diagnostics &diagnostics)
      : module(module), context(module.context), target(target), diagnostics(diagnostics), b(module), axis(module) {}

  bool run() {
    std::vector<Op *> accesses;
    bool good = true;
    module.kernel.body.walk([&](Op &op) {
      for (Value *v : op.operands()) good &= !isDescriptor(v) || check(op, *v);
      if (op.is(Opcode::DescLoad) || op.is(Opcode::DescStore)) accesses.push_back(&op);
    });
    if (!good) return false;
    if (!choose(accesses)) return false;
    if (fields.empty()) return true;
    std::erase_if(accesses, [&](Op *op) { return !fields.contains(op->operand(0)); });
    for (Op *op : accesses) // before arguments change places
      for (unsigned i = op->is(Opcode::DescLoad) ? 1 : 2; i < op->numOperands(); ++i)
        if (axis.nonNegative(op->operand(i))) nonNegative.insert({op, i});
    std::set<std::string> hinted;
    for (Op *op : accesses) // the hint is TMA's
      if (op->hasAttr(Attr::eviction) && hinted.insert(op->operand(0)->name).second)
        diagnostics.report(Diag::DescriptorHint, op->loc, op->operand(0)->name);
    arguments();
    for (Op *op : accesses) lower(*op);
    while (old) module.kernel.body.eraseArg(--old);
    simplify(module); // equal blocks share their offsets and masks, and what a loop does not change leaves it
    return true;
  }

private:
  bool check(const Op &op, const Value &v) {
    if (!op.is(Opcode::DescLoad) && !op.is(Opcode::DescStore)) {
      if (target.tma &&
          (op.is(Opcode::AsyncDescLoad) || op.is(Opcode::AsyncDescStore) || op.is(Opcode::AsyncDescPrefetch)))
        return explicitAccess(op, v);
      if (target.tma) return true;
      diagnostics.report(Diag::CgUnsupported, op.loc, op.info().name, v.type.str(), target.name);
      return false;
    }
    if (v.block() == &module.kernel.body) return true;
    diagnostics.report(Diag::DescriptorChoice, op.loc, target.name);
    return false;
  }

  /// Where a block begins that TMA moves because the program says so, and how it combines.
  bool explicitAccess(const Op &op, const Value &descriptor) {
    const llvm::StringRef kind = op.strAttr(Attr::reduce), scalar = scalarName(descriptor.type.scalar());
    if (!kind.empty() && !features::tmaReduces(kind, scalar)) {
      diagnostics.report(Diag::AsyncDescReduce, op.loc, kind, scalar);
      return false;
    }
    const int64_t elements = 16 / scalarBytes(descriptor.type.scalar());
    const AxisInfo &last = axis.info(op.operand(op.numOperands() - 1));
    if (last.divisibility[0] % elements == 0) return true;
    if (last.constant)
      diagnostics.report(Diag::AsyncDescMisaligned, op.loc, descriptor.name, *last.constant, elements);
    else
      diagnostics.report(Diag::AsyncDescIndex, op.loc, descriptor.name, elements);
    return false;
  }

  /// The descriptors that become fields. One that the program gives to TMA itself cannot, so all its accesses have to keep to TMA's rules.
  bool choose(llvm::ArrayRef<Op *> accesses) {
    Block &body = module.kernel.body;
    for (unsigned i = 0; i < body.numArgs(); ++i)
      if (isDescriptor(body.arg(i)) && !target.tma) fields.try_emplace(body.arg(i));
    if (!target.tma) return true;
    bool good = true;
    for (const Op *op : accesses) {
      Value *descriptor = op->operand(0);
      const Scalar scalar = descriptor->type.scalar();
      const int64_t elements = 16 / scalarBytes(scalar);
      const bool aligned = axis.info(op->operand(op->numOperands() - 1)).divisibility[0] % elements == 0;
      const bool known =
          !op->hasAttr(Attr::reduce) || features::tmaReduces(op->strAttr(Attr::reduce), scalarName(scalar));
      if (aligned && known) continue;
      if (!onlyAccessed(*descriptor)) {
        good = false;
        if (!known)
          diagnostics.report(Diag::DescriptorSharedReduce, op->loc, descriptor->name, op->strAttr(Attr::reduce),
                             scalarName(scalar));
        else
          diagnostics.report(Diag::DescriptorSharedIndex, op->loc, descriptor->name, std::to_string(elements));
        continue;
      }
      if (!fields.try_emplace(descriptor).second) continue;
      if (!known)
        diagnostics.report(Diag::DescriptorReduce, op->loc, descriptor->name, op->strAttr(Attr::reduce),
                           scalarName(scalar));
      else
        diagnostics.report(Diag::DescriptorIndex, op->loc, descriptor->name, std::to_string(elements));
    }
    return good;
  }
  static bool onlyAccessed(const Value &descriptor) {
    return llvm::all_of(descriptor.uses(),
                        [](const Use &use) { return use.op->is(Opcode::DescLoad) || use.op->is(Opcode::DescStore); });
  }

  /// New arguments behind the old ones, which are erased in the end: the order stays.
  void arguments() {
    Block &body = module.kernel.body;
    old = body.numArgs();
    b.at(body.front());
    b.loc = module.kernel.loc;
    std::vector<int64_t> moved;
    for (unsigned i = 0; i < old; ++i) {
      Value *arg = body.arg(i);
      moved.push_back(body.numArgs() - old);
      if (!fields.contains(arg)) {
        arg->replaceAllUsesWith(body.addArg(arg->type, arg->name));
        continue;
      }
      const Type t = arg->type;
      const std::string &name = arg->name;
      module.kernel.descriptors.push_back({name, t, unsigned(moved.back())});
      Fields f;
      f.pointer = body.addArg(context.pointer(t.scalar()), name);
      auto named = [&](const char *what, unsigned d) { return name.empty() ? name : name + what + std::to_string(d); };
      for (unsigned d = 0; d + 1 < t.rank(); ++d) f.strides.push_back(body.addArg(b.i64(), named("_stride", d)));
      for (unsigned d = 0; d < t.rank(); ++d) f.shape.push_back(body.addArg(b.i32(), named("_shape", d)));
      if (!arg->unused()) {
        const int64_t elements = 16 / scalarBytes(t.scalar());
        f.pointer = b.multipleOf(f.pointer, 16);
        for (Value *&stride : f.strides)
          if (elements > 1) stride = b.multipleOf(stride, elements);
      }
      fields[arg] = f;
    }
    for (Fact &fact : module.kernel.facts)
      for (Fact::Step &step : fact.program)
        if (step.op == Fact::Op::Arg) step.value = moved[size_t(step.value)];
  }

  /// A tile of rank 1 along dimension d of the shape.
  Value *along(Value *tile, unsigned d, llvm::ArrayRef<int64_t> shape) {
    for (unsigned i = 0; i < shape.size(); ++i)
      if (i != d) tile = b.expandDims(tile, i);
    return tile->type.shape() == shape ? tile : b.broadcast(tile, shape);
  }

  Value *plus(Value *a, Value *c) { return a ? b.binary(Opcode::Add, a, c) : c; }
  Value *both(Value *a, Value *c) { return a ? b.binary(Opcode::And, a, c) : c; }

  void lower(Op &op) {
    const bool isLoad = op.is(Opcode::DescLoad);
    const Fields &f = fields[op.operand(0)];
    const llvm::ArrayRef<int64_t> block = op.operand(0)->type.shape();
    const llvm::ArrayRef<int64_t> shape = isLoad ? op.result()->type.shape() : op.operand(1)->type.shape();
    const unsigned rank = block.size(), first = isLoad ? 1 : 2;
    llvm::SmallVector<int, 5> tileDims(rank, -1); // of the block's dimensions; none for those that the tile leaves out
    for (auto [t, d] : llvm::enumerate(*blockDimensions(block, shape))) tileDims[d] = int(t);
    b.at(&op);
    b.loc = op.loc;
    Value *start = nullptr, *offsets = nullptr, *mask = nullptr;
    for (unsigned d = 0; d < rank; ++d) {
      const bool inTile = tileDims[d] >= 0;
      Value *index = op.operand(first + d), *range = inTile ? b.arange(0, block[d]) : nullptr;
      Value *element = inTile ? b.binary(Opcode::Add, b.splat(index, block[d]), range) : index;
      // The sum wraps only from beyond the last element to below the first, and both are outside.
      Value *inside = b.cmp(Pred::Lt, element, inTile ? b.splat(f.shape[d], block[d]) : f.shape[d]);
      if (!nonNegative.contains({&op, first + d}))
        inside = both(b.cmp(Pred::Ge, element, b.constant(element->type, 0)), inside);
      mask = both(mask, inTile ? along(inside, unsigned(tileDims[d]), shape) : b.splat(inside, shape));
      Value *wide = b.cast(index, Scalar::I64), *step = inTile ? b.cast(range, Scalar::I64) : nullptr;
      if (d + 1 < rank) {
        wide = b.binary(Opcode::Mul, wide, f.strides[d]);
        if (inTile) step = b.binary(Opcode::Mul, step, b.splat(f.strides[d], block[d]));
      }
      start = plus(start, wide);
      if (inTile) offsets = plus(offsets, along(step, unsigned(tileDims[d]), shape));
    }
    Value *pointer = b.splat(b.addptr(f.pointer, start), shape);
    if (offsets) pointer = b.addptr(pointer, offsets);
    if (isLoad) {
      op.result()->replaceAllUsesWith(b.load(pointer, mask));
    } else if (op.hasAttr(Attr::reduce)) {
      b.atomicRmw(op.strAttr(Attr::reduce), pointer, op.operand(1), mask);
    } else {
      b.store(pointer, op.operand(1), mask);
    }
    op.erase();
  }

  Module &module;
  Context &context;
  const features::Target &target;
  Diagnostics &diagnostics;
  Builder b;
  AxisAnalysis axis;
  unsigned old = 0; // arguments of the kernel as it came
  llvm::DenseMap<Value *, Fields> fields;
  std::set<std::pair<const Op *, unsigned>> nonNegative;
};

} // namespace

bool lowerDescriptors(Module &module, const features::Target &target, Diagnostics &diagnostics) {
  bool any = false;
  for (unsigned i = 0; i < module.kernel.body.numArgs(); ++i) any |= isDescriptor(module.kernel.body.arg(i));
  return !any || Lowering(module, target, diagnostics).run();
}

} // namespace tlx::passes
