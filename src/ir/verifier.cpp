// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every rule of the IR: what the table says of all operations, what each one demands of its types and attributes, and
// what the module's properties promise. Nothing here asserts or trusts: modules come from text too. Rules on layouts
// stand in verifier_layout.cpp.
#include "llvm/ADT/DenseSet.h"

#include "ir/text_p.h"
#include "ir/verifier_p.h"

namespace tlx::ir {
namespace detail {

bool OpChecker::fail(const Op &op, const std::string &rule) {
  diagnostics.report(Diag::IrInvalid, op.loc, op.info().name, rule);
  return false;
}

bool OpChecker::same(Type a, Type b) const {
  if (a == b) return true;
  if (!a || !b || module.properties.layouts || !a.isTile() || !b.isTile()) return false;
  return a.withLayout(nullptr) == b.withLayout(nullptr); // layouts mean nothing yet
}

bool OpChecker::intAttr(const Op &op, Attr a, int64_t min, int64_t max) {
  for (const auto &[key, value] : op.attrs())
    if (key == a) {
      const int64_t *v = std::get_if<int64_t>(&value);
      if (v && *v >= min && *v <= max) return true;
    }
  std::string rule = "needs the attribute '" + attrName(a).str() + "', an integer";
  if (max != INT64_MAX)
    rule += " from " + std::to_string(min) + " to " + std::to_string(max);
  else if (min != INT64_MIN)
    rule += " of at least " + std::to_string(min);
  return fail(op, rule);
}

bool OpChecker::strAttr(const Op &op, Attr a, llvm::ArrayRef<const char *> values) {
  if (!op.hasAttr(a)) return true;
  std::string list;
  for (const char *v : values) {
    if (op.strAttr(a) == v) return true;
    list += (list.empty() ? "" : " ") + std::string(v);
  }
  return fail(op, "the attribute '" + attrName(a).str() + "' is one of: " + list);
}

} // namespace detail

namespace {
using detail::isScalarOf;
using detail::OpChecker;

using Shape = llvm::ArrayRef<int64_t>;

std::string count(unsigned n, const char *what) {
  return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
}

std::string range(unsigned min, unsigned max) {
  if (min == max) return std::to_string(min);
  if (max == ~0u) return "at least " + std::to_string(min);
  return std::to_string(min) + " to " + std::to_string(max);
}

bool isNumber(Type t) {
  return t.element().isScalar();
}
bool isFloatType(Type t) {
  return t.isFloatLike();
}
bool isIntType(Type t) {
  return t.isIntLike();
}
bool isValueType(Type t) {
  return t.isScalar() || t.isPointer() || t.isTile();
}
Type pointee(Type pointer) {
  return pointer.withElement(pointer.context().scalar(pointer.element().scalar()));
}

class Verifier : public OpChecker {
public:
  using OpChecker::OpChecker;
  bool run();

private:
  void block(const Block &b, Opcode terminator, const Op *parent);
  bool counts(const Op &op);
  bool types(const Op &op);
  bool type(const Op &op, Type t);
  bool rules(const Op &op);
  void kernelRules();

  // Groups of rules. Each stops at the first breach of an op.
  bool sameShape(const Op &op, llvm::ArrayRef<Value *> values);
  bool arithmetic(const Op &op, bool (*allowed)(Type), const char *what);
  bool constant(const Op &op);
  bool shapeOps(const Op &op);
  bool permuted(const Op &op, Shape from, Shape to);
  bool memory(const Op &op);
  bool groups(const Op &op);
  bool scratch(const Op &op) { return !op.hasAttr(Attr::scratch) || intAttr(op, Attr::scratch, 1, INT32_MAX); }
  bool access(const Op &op, unsigned pointer, unsigned mask, Type value);
  bool hints(const Op &op);
  bool atomic(const Op &op);
  bool buffers(const Op &op);
  bool slice(const Op &op);
  bool sameBytes(const Op &op);
  bool storageView(const Op &op);
  bool indexed(const Op &op);
  bool asyncCopy(const Op &op);
  bool allocation(const Op &op);
  bool dot(const Op &op);
  bool reduce(const Op &op);
  bool control(const Op &op);
  bool carried(const Op &op, llvm::ArrayRef<Value *> values, unsigned skip, const char *what);
  bool carriedArgs(const Op &op, const Block &b, unsigned skip, const char *what);

  llvm::DenseSet<const Value *> visible;
};

// --- structure ----------------------------------------------------------------------------------------------------

bool Verifier::counts(const Op &op) {
  const OpInfo &i = op.info();
  if (op.numOperands() < i.minOperands || op.numOperands() > i.maxOperands)
    return fail(op, "has " + count(op.numOperands(), "operand") + ", not " + range(i.minOperands, i.maxOperands));
  if (op.numResults() < i.minResults || op.numResults() > i.maxResults)
    return fail(op, "has " + count(op.numResults(), "result") + ", not " + range(i.minResults, i.maxResults));
  if (op.numRegions() != i.regions)
    return fail(op, "has " + count(op.numRegions(), "region") + ", not " + std::to_string(i.regions));
  return true;
}

bool Verifier::type(const Op &op, Type t) {
  if (!t) return fail(op, "a value has no type");
  if (t.isTile()) {
    if (!need(op, t.rank() >= 1 && t.rank() <= text::kMaxRank, "a tile has 1 to 8 dimensions")) return false;
    for (int64_t e : t.shape())
      if (!layout::splitExtent(e))
        return fail(op, "a tile's extent " + std::to_string(e) + " is not p * 2^k with odd p up to 15");
    if (!module.properties.layouts) return true;
    if (!t.layout()) return fail(op, "a tile has no layout (the module says that all have)");
    if (t.layout()->shape() != t.shape()) return fail(op, "a tile's layout is one of another shape");
    // Every thread takes part in every layout, as a copy if there is nothing else for it.
    if (t.layout()->lanes() != module.kernel.warpSize || t.layout()->warps() != warpsOf(module, op))
      return fail(op, "a layout is for " + std::to_string(t.layout()->warps()) + " warps of " +
                          std::to_string(t.layout()->lanes()) + ", the " + (taskOf(op) ? "task" : "kernel") + " has " +
                          std::to_string(warpsOf(module, op)) + " of " + std::to_string(module.kernel.warpSize));
  }
  if (t.isBuffer() && t.sharedLayout() && t.sharedLayout()->shape() != t.shape())
    return fail(op, "a buffer's layout is one of another shape");
  return true;
}

bool Verifier::types(const Op &op) {
  for (unsigned i = 0; i < op.numResults(); ++i)
    if (!type(op, op.result(i)->type)) return false;
  for (unsigned r = 0; r < op.numRegions(); ++r)
    for (unsigned i = 0; i < op.body(r).numArgs(); ++i)
      if (!type(op, op.body(r).arg(i)->type)) return false;
  return true;
}

void Verifier::block(const Block &b, Opcode terminator, const Op *parent) {
  std::vector<const Value *> mine;
  auto show = [&](const Value *v) {
    if (visible.insert(v).second) mine.push_back(v);
  };
  for (unsigned i = 0; i < b.numArgs(); ++i) show(b.arg(i));
  const Op *last = b.back();
  if (!last || last->opcode != terminator) {
    const std::string rule = std::string("a region does not end with '") + info(terminator).name + "'";
    if (parent)
      fail(*parent, rule);
    else
      diagnostics.report(Diag::IrInvalid, module.kernel.loc, "kernel", "does not end with 'return'");
  }
  for (const Op &op : b) {
    bool good = counts(op);
    for (Value *v : op.operands()) {
      if (!v)
        good = fail(op, "an operand is missing");
      else if (!visible.contains(v))
        good = fail(op, "an operand is not defined before its use or not visible here");
    }
    if (op.isTerminator() && &op != last) good = fail(op, "stands in the middle of a region");
    good = good && types(op);
    // Regions first: the rules of loops look at their terminators.
    bool inner = true;
    for (unsigned r = 0; r < op.numRegions(); ++r) {
      const Opcode end = op.is(Opcode::While) && r == 0 ? Opcode::Condition : Opcode::Yield;
      block(op.body(r), end, &op);
      inner = inner && op.body(r).terminator() && op.body(r).terminator()->opcode == end;
    }
    // An operand without a type was reported where it is defined.
    const bool typed = llvm::all_of(op.operands(), [](Value *v) { return v && v->type; });
    if (good && inner && typed && rules(op) && module.properties.layouts) layoutRules(op);
    for (unsigned i = 0; i < op.numResults(); ++i) show(op.result(i));
  }
  for (const Value *v : mine) visible.erase(v);
}

void Verifier::kernelRules() {
  const Kernel &k = module.kernel;
  auto bad = [&](const std::string &rule) { diagnostics.report(Diag::IrInvalid, k.loc, "kernel", rule); };
  if (k.numWarps < 1 || k.numWarps > 64 || !llvm::isPowerOf2_32(k.numWarps))
    bad("the number of warps is no power of two up to 64");
  if (k.warpSize != 32 && k.warpSize != 64) bad("the warp size is neither 32 nor 64");
  for (unsigned i = 0; i < k.body.numArgs(); ++i)
    if (!k.body.arg(i)->type || k.body.arg(i)->type.isTile() || k.body.arg(i)->type.isBuffer())
      bad("argument " + std::to_string(i) + " is a tile or a buffer");
  for (const DescriptorArgument &d : k.descriptors) {
    const unsigned rank = d.type ? d.type.rank() : 0;
    const bool typed = d.type && d.type.kind() == Type::Kind::TensorDesc && rank >= 1 && rank <= 5;
    bool good = typed && d.first + 2 * rank <= k.body.numArgs();
    for (unsigned i = 0; good && i < 2 * rank; ++i) {
      Type want = i == 0     ? module.context.pointer(d.type.scalar())
                  : i < rank ? module.context.scalar(Scalar::I64)
                             : module.context.scalar(Scalar::I32);
      good = k.body.arg(d.first + i)->type == want;
    }
    if (!good)
      bad("the descriptor '" + d.name + "' names arguments that are not a pointer, i64 strides and i32 extents");
  }
  for (const Fact &f : k.facts)
    for (const Fact::Step &s : f.program)
      if (s.op == Fact::Op::Arg && (s.value < 0 || s.value >= int64_t(k.body.numArgs())))
        bad("the fact '" + f.text + "' names argument " + std::to_string(s.value) + ", which does not exist");
}

bool Verifier::run() {
  const unsigned before = diagnostics.errorCount();
  kernelRules();
  block(module.kernel.body, Opcode::Return, nullptr);
  return diagnostics.errorCount() == before;
}

// --- values -------------------------------------------------------------------------------------------------------

bool Verifier::sameShape(const Op &op, llvm::ArrayRef<Value *> values) {
  for (Value *v : values)
    if (v->type.isTile() != values[0]->type.isTile() || v->type.shape() != values[0]->type.shape())
      return fail(op, "operands and results have one shape; " + values[0]->type.str() + " and " + v->type.str() +
                          " differ");
  return true;
}

bool Verifier::arithmetic(const Op &op, bool (*allowed)(Type), const char *what) {
  Type t = op.result()->type;
  for (Value *v : op.operands())
    if (!same(v->type, t))
      return fail(op, "operands and result have one type; " + v->type.str() + " and " + t.str() + " differ");
  if (!isValueType(t) || !allowed(t)) return fail(op, std::string("works on ") + what + ", not on " + t.str());
  return true;
}

bool Verifier::constant(const Op &op) {
  Type t = op.result()->type;
  if (!isValueType(t) || !isNumber(t)) return fail(op, "is a number or a tile of numbers, not " + t.str());
  if (!op.hasAttr(Attr::value)) return fail(op, "needs the attribute 'value'");
  const AttrValue &value = op.attrs()[0].second;
  if (isFloat(t.scalar()))
    return need(op, std::holds_alternative<double>(value), "the value of a float type is a float");
  const int64_t *v = std::get_if<int64_t>(&value);
  if (!v) return fail(op, "the value of an integer type is an integer");
  return need(op, wrapInt(*v, t.scalar()) == *v, "the value does not fit the type");
}

bool Verifier::permuted(const Op &op, Shape from, Shape to) {
  llvm::ArrayRef<int64_t> perm = op.listAttr(Attr::perm);
  if (perm.size() != from.size()) return fail(op, "'perm' has an entry for each dimension");
  unsigned seen = 0;
  for (int64_t p : perm) {
    if (p < 0 || p >= int64_t(from.size()) || (seen >> p & 1)) return fail(op, "'perm' is no permutation");
    seen |= 1u << p;
  }
  bool good = to.size() == from.size();
  for (unsigned i = 0; good && i < perm.size(); ++i) good = to[i] == from[perm[i]];
  return need(op, good, "dimension i of the result is dimension perm[i] of the operand");
}

bool Verifier::shapeOps(const Op &op) {
  Type to = op.result()->type;
  if (!to.isTile()) return fail(op, "the result is a tile");
  Type from = op.operand(0)->type;
  if (op.is(Opcode::Splat))
    return need(op, !from.isTile() && from == to.element(), "the operand is one element of the result");
  if (!from.isTile()) return fail(op, "the operand is a tile");
  if (from.element() != to.element()) return fail(op, "operand and result have one element type");
  Shape a = from.shape(), b = to.shape();
  switch (op.opcode) {
  case Opcode::ExpandDims: {
    if (!intAttr(op, Attr::axis, 0, int64_t(a.size()))) return false;
    llvm::SmallVector<int64_t, 4> want(a);
    want.insert(want.begin() + op.intAttr(Attr::axis), 1);
    return need(op, b == Shape(want), "the result is the operand with a dimension of 1 at 'axis'");
  }
  case Opcode::Broadcast: {
    bool good = a.size() == b.size();
    for (unsigned d = 0; good && d < a.size(); ++d) good = a[d] == b[d] || a[d] == 1;
    return need(op, good, "only dimensions of extent 1 grow");
  }
  case Opcode::Reshape:
    return need(op, from.elements() == to.elements(), "a reshape keeps the number of elements");
  case Opcode::Trans:
    return permuted(op, a, b);
  case Opcode::Join:
    return need(op, same(from, op.operand(1)->type), "the operands have one type") &&
           need(op, b.size() == a.size() + 1 && b.drop_back() == a && b.back() == 2,
                "the result has a last dimension of 2");
  case Opcode::Split:
    return need(op, same(to, op.result(1)->type), "the results have one type") &&
           need(op, a.size() == b.size() + 1 && a.drop_back() == b && a.back() == 2,
                "the operand has a last dimension of 2");
  default: // ConvertLayout, RequireLayout
    if (op.is(Opcode::RequireLayout) && op.strAttr(Attr::layout).empty())
      return fail(op, "needs the attribute 'layout', a literal");
    return need(op, a == b, "operand and result have one shape");
  }
}

bool Verifier::groups(const Op &op) {
  if (!op.hasAttr(Attr::groups)) return true;
  const auto list = op.listAttr(Attr::groups);
  const Type t = op.result()->type;
  return need(op, t.isTile() && list.size() == t.rank() && llvm::all_of(list, [](int64_t n) { return n >= 1; }),
              "groups has a positive number for each dimension of the tile");
}

// --- memory -------------------------------------------------------------------------------------------------------

bool Verifier::access(const Op &op, unsigned pointer, unsigned mask, Type value) {
  Type p = op.operand(pointer)->type;
  if (!isValueType(p) || !p.isPointerLike()) return fail(op, "the address is a pointer or a tile of pointers");
  if (!same(value, pointee(p))) return fail(op, "the value is " + value.str() + ", the pointer to " + pointee(p).str());
  if (mask < op.numOperands() && !same(op.operand(mask)->type, p.withScalar(Scalar::I1)))
    return fail(op, "the mask is " + p.withScalar(Scalar::I1).str() + ", not " + op.operand(mask)->type.str());
  return !op.hasAttr(Attr::vec) || intAttr(op, Attr::vec, 1, 16);
}

bool Verifier::hints(const Op &op) {
  const bool load = op.is(Opcode::Load);
  const char *const loads[] = {"ca", "cg", "cv"}, *const stores[] = {"wb", "cg", "cs", "wt"};
  return strAttr(op, Attr::cache, load ? llvm::ArrayRef<const char *>(loads) : llvm::ArrayRef<const char *>(stores)) &&
         strAttr(op, Attr::eviction, {"evict_first", "evict_last", "no_allocate"});
}

bool Verifier::atomic(const Op &op) {
  const bool cas = op.is(Opcode::AtomicCas);
  Type value = op.operand(1)->type;
  if (!access(op, 0, cas ? 3 : 2, value)) return false;
  if (cas && !same(op.operand(2)->type, value)) return fail(op, "the value has the type of what is expected");
  if (!same(op.result()->type, value)) return fail(op, "the result has the type of the value");
  if (!cas) {
    if (!op.hasAttr(Attr::kind)) return fail(op, "needs the attribute 'kind'");
    if (!strAttr(op, Attr::kind, {"add", "min", "max", "and", "or", "xor", "xchg"})) return false;
    const llvm::StringRef kind = op.strAttr(Attr::kind);
    if ((kind == "and" || kind == "or" || kind == "xor") && !isIntType(value))
      return fail(op, "combines the bits of integers, not of " + value.str());
  }
  return strAttr(op, Attr::order, {"relaxed", "acquire", "release", "acq_rel"}) &&
         strAttr(op, Attr::scope, {"cta", "gpu", "sys"}) && scratch(op);
}

bool Verifier::memory(const Op &op) {
  switch (op.opcode) {
  case Opcode::Load:
    if (!access(op, 0, 1, op.result()->type) || !hints(op)) return false;
    return op.numOperands() < 3 ||
           need(op, same(op.operand(2)->type, op.result()->type), "'other' has the type of the result");
  case Opcode::Store:
    return access(op, 0, 2, op.operand(1)->type) && hints(op);
  case Opcode::AtomicRmw:
  case Opcode::AtomicCas:
    return atomic(op);
  default: { // AddPtr
    Type p = op.operand(0)->type, offset = op.operand(1)->type;
    return need(op, isValueType(p) && p.isPointerLike(), "the first operand is a pointer or a tile of pointers") &&
           need(op, isValueType(offset) && isIntType(offset) && !offset.isBoolLike(), "the offset is an integer") &&
           sameShape(op, {op.operand(0), op.operand(1), op.result()}) &&
           need(op, same(p, op.result()->type), "the result has the type of the pointer");
  }
  }
}

bool Verifier::allocation(const Op &op) {
  Type t = op.result()->type;
  if (!t.isBuffer()) return fail(op, "the result is a buffer");
  if (!module.properties.plannedMemory && !op.hasAttr(Attr::offset)) return true;
  if (!intAttr(op, Attr::offset, 0, INT32_MAX)) return false;
  if (!module.properties.plannedMemory || t.space() != Space::Shared) return true;
  const int64_t offset = op.intAttr(Attr::offset);
  const int64_t elements = (t.sharedLayout() ? t.sharedLayout()->elements() : t.elements()) * t.depth();
  // 16 bytes: the widest access, and what cp.async and ldmatrix address.
  if (offset % 16) return fail(op, "the offset is no multiple of 16");
  const int64_t end = offset + elements * scalarBytes(t.scalar());
  if (end > int64_t(module.kernel.sharedBytes))
    return fail(op, "ends at byte " + std::to_string(end) + " of " + std::to_string(module.kernel.sharedBytes));
  return true;
}

bool Verifier::asyncCopy(const Op &op) {
  Type t = op.operand(0)->type, p = op.operand(1)->type;
  if (!t.isBuffer() || t.depth() != 1) return fail(op, "the first operand is a buffer of depth 1");
  if (!p.isTile() || !p.isPointerLike()) return fail(op, "the second operand is a tile of pointers");
  if (p.shape() != t.shape() || p.element().scalar() != t.scalar())
    return fail(op, "buffer and pointers have one shape and element type");
  if (op.numOperands() > 2 && !same(op.operand(2)->type, p.withScalar(Scalar::I1)))
    return fail(op, "the mask is " + p.withScalar(Scalar::I1).str());
  if (op.numOperands() > 3 && !same(op.operand(3)->type, pointee(p))) return fail(op, "'other' has the pointee's type");
  return !op.hasAttr(Attr::vec) || intAttr(op, Attr::vec, 1, 16);
}

bool Verifier::slice(const Op &op) {
  Type from = op.operand(0)->type, to = op.result()->type;
  if (!to.isBuffer() || to.scalar() != from.scalar() || to.space() != from.space() || from.depth() != 1 ||
      to.depth() != 1 || to.rank() != from.rank())
    return fail(op, "operand and result are buffers of depth 1 that differ in their shape only");
  llvm::ArrayRef<int64_t> at = op.listAttr(Attr::offsets);
  bool inside = at.size() == from.rank() || at.size() == from.rank() * replicasOf(op);
  for (unsigned i = 0; inside && i < at.size(); ++i) {
    const unsigned d = i % from.rank();
    inside = at[i] >= 0 && at[i] + to.shape()[d] <= from.shape()[d];
  }
  return need(op, inside, "'offsets' has an entry for each dimension, and the result lies inside the operand") &&
         need(op, !from.sharedLayout() == !to.sharedLayout(), "both have a layout or none");
}

/// local_reshape and local_reinterpret.
bool Verifier::sameBytes(const Op &op) {
  Type from = op.operand(0)->type, to = op.result()->type;
  const layout::SharedLayout *have = from.sharedLayout();
  if (!to.isBuffer() || to.depth() != from.depth() || to.space() != from.space())
    return fail(op, "the result is buffers, as many as the operand");
  const bool recast = op.is(Opcode::LocalReinterpret);
  const unsigned bytes = scalarBytes(from.scalar()), now = scalarBytes(to.scalar());
  if (recast) {
    const bool fits = to.rank() == from.rank() && to.shape().drop_back() == from.shape().drop_back() &&
                      to.shape().back() * now == from.shape().back() * bytes;
    if (!fits) return fail(op, "the result has the operand's bytes, and differs in the last extent only");
  } else if (to.scalar() != from.scalar() || to.elements() != from.elements()) {
    return fail(op, "the result has the operand's elements, in another shape");
  }
  if (!have && !to.sharedLayout()) return true;
  if (!have || !to.sharedLayout()) return fail(op, "both have a layout or none");
  const auto want = recast ? have->reinterpreted(bytes, now) : have->reshaped(to.shape());
  return need(op, want && *want == *to.sharedLayout(), "the result's layout is the operand's, seen in its shape");
}

bool Verifier::storageView(const Op &op) {
  Type from = op.operand(0)->type, to = op.result()->type;
  if (from.scalar() != Scalar::U8 || !op.operand(0)->def() || !op.operand(0)->def()->is(Opcode::LocalAlloc))
    return fail(op, "the operand is a local_alloc of u8");
  if (!to.isBuffer() || to.space() != from.space()) return fail(op, "the result is a buffer in the same memory");
  if (!intAttr(op, Attr::offset, 0, INT32_MAX) || !intAttr(op, Attr::stride, 0, INT32_MAX) ||
      !intAttr(op, Attr::group, 1, to.depth()))
    return false;
  const int64_t bytes = to.elements() * scalarBytes(to.scalar()), group = op.intAttr(Attr::group);
  if (to.depth() % group) return fail(op, "'group' divides the number of buffers");
  const int64_t end = op.intAttr(Attr::offset) + (to.depth() / group - 1) * op.intAttr(Attr::stride) + group * bytes;
  if (to.depth() > group && op.intAttr(Attr::stride) < group * bytes) return fail(op, "its own buffers overlap");
  return need(op, end <= from.elements() * int64_t(from.depth()), "lies inside of the operand") &&
         need(op, op.intAttr(Attr::offset) % 16 == 0 && op.intAttr(Attr::stride) % 16 == 0,
              "'offset' and 'stride' are multiples of 16");
}

/// local_gather and local_scatter.
bool Verifier::indexed(const Op &op) {
  Type t = op.operand(0)->type;
  const bool gather = op.is(Opcode::LocalGather);
  Type tile = gather ? op.result()->type : op.operand(1)->type, indices = op.operand(gather ? 1 : 2)->type;
  if (t.depth() != 1) return fail(op, "the buffer has depth 1");
  if (!intAttr(op, Attr::axis, 0, int64_t(t.rank()) - 1)) return false;
  if (!tile.isTile() || !tile.element().isScalar() || tile.scalar() != t.scalar())
    return fail(op, "the tile has the buffer's element type");
  if (!indices.isTile() || !isIntType(indices) || indices.scalar() == Scalar::I1 ||
      !same(indices, tile.withScalar(indices.scalar())))
    return fail(op, "the indices are integers, one for each element of the tile");
  bool fits = tile.rank() == t.rank();
  for (unsigned d = 0; fits && d < t.rank(); ++d)
    fits = d == unsigned(op.intAttr(Attr::axis)) || tile.shape()[d] == t.shape()[d];
  return need(op, fits, "the tile has the buffer's extents, but for that of the axis");
}

bool Verifier::buffers(const Op &op) {
  Type t = op.operand(0)->type;
  if (op.is(Opcode::SubView) && t.kind() == Type::Kind::Barrier)
    return need(op, isScalarOf(op.operand(1)->type, Scalar::I32), "the slot is an i32") &&
           need(op, op.result()->type == module.context.barrier(1), "the result is one barrier");
  if (!t.isBuffer()) return fail(op, "the first operand is a buffer");
  Context &c = module.context;
  switch (op.opcode) {
  case Opcode::SubView:
    return need(op, isScalarOf(op.operand(1)->type, Scalar::I32), "the slot is an i32") &&
           need(op, op.result()->type == c.buffer(t.scalar(), t.shape(), 1, t.space(), t.sharedLayout()),
                "the result is the operand's type with depth 1");
  case Opcode::LocalTrans: {
    Type to = op.result()->type;
    if (!to.isBuffer() || to.scalar() != t.scalar() || to.depth() != t.depth() || to.space() != t.space())
      return fail(op, "the result differs from the operand in its shape only");
    if (!permuted(op, t.shape(), to.shape())) return false;
    if (!t.sharedLayout() && !to.sharedLayout()) return true;
    llvm::SmallVector<unsigned, 4> perm;
    for (int64_t p : op.listAttr(Attr::perm)) perm.push_back(unsigned(p));
    return need(op, t.sharedLayout() && to.sharedLayout() && t.sharedLayout()->transposed(perm) == *to.sharedLayout(),
                "the result's layout is the operand's, transposed");
  }
  case Opcode::LocalSlice:
    return slice(op);
  case Opcode::LocalReshape:
  case Opcode::LocalReinterpret:
    return sameBytes(op);
  case Opcode::StorageView:
    return storageView(op);
  case Opcode::LocalGather:
  case Opcode::LocalScatter:
    return indexed(op);
  default: { // LocalLoad, LocalStore
    Type tile = op.is(Opcode::LocalLoad) ? op.result()->type : op.operand(1)->type;
    if (tile.isScalar())
      return need(op, t.depth() == 1 && t.elements() == 1 && tile.scalar() == t.scalar(),
                  "a scalar is in a buffer of one element of its type");
    return need(op, t.depth() == 1, "the buffer has depth 1") &&
           need(op,
                tile.isTile() && tile.element().isScalar() && tile.scalar() == t.scalar() && tile.shape() == t.shape(),
                "buffer and tile have one shape and element type");
  }
  }
}

// --- matrices, reductions, control --------------------------------------------------------------------------------

bool Verifier::dot(const Op &op) {
  Type a = op.operand(0)->type, b = op.operand(1)->type, acc = op.operand(2)->type;
  if (!a.isTile() || !b.isTile() || !acc.isTile() || a.rank() != 2 || b.rank() != 2 || acc.rank() != 2)
    return fail(op, "operands are tiles of rank 2");
  if (!isNumber(a) || !isNumber(b) || !isNumber(acc)) return fail(op, "operands are tiles of numbers");
  const bool bothFp8 = isFp8(a.scalar()) && isFp8(b.scalar());
  if (a.scalar() != b.scalar() && !bothFp8) return fail(op, "a and b have one element type, or each an fp8 type");
  if (isInt(acc.scalar()) != isInt(a.scalar())) return fail(op, "integers accumulate in integers, floats in floats");
  if (a.shape()[1] != b.shape()[0] || acc.shape()[0] != a.shape()[0] || acc.shape()[1] != b.shape()[1])
    return fail(op, "shapes are [M, K], [K, N] and [M, N]; got " + a.str() + ", " + b.str() + " and " + acc.str());
  return need(op, same(op.result()->type, acc), "the result has the type of the accumulator") &&
         strAttr(op, Attr::precision, {"tf32", "tf32x3", "ieee"}) &&
         (!op.hasAttr(Attr::mma) || intAttr(op, Attr::mma, -1, INT32_MAX));
}

bool Verifier::reduce(const Op &op) {
  const unsigned n = op.numOperands();
  Type first = op.operand(0)->type;
  if (!first.isTile()) return fail(op, "operands are tiles");
  if (op.numResults() != n) return fail(op, "has a result for each operand");
  if (!intAttr(op, Attr::axis, 0, int64_t(first.rank()) - 1)) return false;
  const unsigned axis = unsigned(op.intAttr(Attr::axis));
  const Block &body = op.body();
  if (body.numArgs() != 2 * n) return fail(op, "the region has two arguments for each operand");
  const Op &yield = *body.terminator();
  if (yield.numOperands() != n) return fail(op, "the region yields a value for each operand");
  for (unsigned i = 0; i < n; ++i) {
    Type t = op.operand(i)->type, r = op.result(i)->type;
    if (!t.isTile() || t.shape() != first.shape()) return fail(op, "operands have one shape");
    if (body.arg(i)->type != t.element() || body.arg(n + i)->type != t.element() ||
        yield.operand(i)->type != t.element())
      return fail(op, "arguments and yielded values of the region have the element types of the operands");
    if (r.element() != t.element()) return fail(op, "results have the element types of the operands");
    llvm::SmallVector<int64_t, 4> want(t.shape());
    if (op.is(Opcode::Scan)) {
      if (!same(r, t)) return fail(op, "results have the types of the operands");
      if (!scratch(op)) return false;
      continue;
    }
    if (op.intAttr(Attr::partial)) {
      if (r.rank() != t.rank()) return fail(op, "a partial reduction keeps the axis");
      want[axis] = r.shape()[axis];
    } else {
      want.erase(want.begin() + axis);
    }
    if (r.shape() != Shape(want) || r.isTile() != !want.empty())
      return fail(op, "results have the operands' shape without the axis");
  }
  bool pure = true;
  const_cast<Block &>(body).walk([&](Op &o) { pure = pure && (o.has(Pure) || o.has(Terminator) || o.has(Control)); });
  return need(op, pure, "the region touches no memory");
}

bool Verifier::carried(const Op &op, llvm::ArrayRef<Value *> values, unsigned skip, const char *what) {
  values = values.drop_front(std::min<size_t>(skip, values.size()));
  bool good = values.size() == op.numResults();
  for (unsigned i = 0; good && i < values.size(); ++i) good = same(values[i]->type, op.result(i)->type);
  return good || fail(op, std::string(what) + " have the number and the types of the results");
}
bool Verifier::carriedArgs(const Op &op, const Block &b, unsigned skip, const char *what) {
  llvm::SmallVector<Value *, 8> values;
  for (unsigned i = 0; i < b.numArgs(); ++i) values.push_back(b.arg(i));
  return carried(op, values, skip, what);
}

bool Verifier::control(const Op &op) {
  switch (op.opcode) {
  case Opcode::For: {
    Type t = op.operand(0)->type;
    if (!t.isScalar() || !isIntType(t) || t.scalar() == Scalar::I1 || op.operand(1)->type != t ||
        op.operand(2)->type != t)
      return fail(op, "bounds and step are integers of one type");
    if (!op.body().numArgs() || op.body().arg(0)->type != t)
      return fail(op, "the region's first argument has the type of the bounds");
    for (Attr a : {Attr::num_stages, Attr::unroll})
      if (op.hasAttr(a) && !intAttr(op, a, 0, 1 << 20)) return false;
    return carried(op, op.operands(), 3, "initial values") && carriedArgs(op, op.body(), 1, "the region's arguments") &&
           carried(op, op.body().terminator()->operands(), 0, "yielded values");
  }
  case Opcode::While:
    return carried(op, op.operands(), 0, "initial values") &&
           carriedArgs(op, op.body(0), 0, "the arguments of the first region") &&
           carriedArgs(op, op.body(1), 0, "the arguments of the second region") &&
           carried(op, op.body(0).terminator()->operands(), 1, "values of the condition") &&
           carried(op, op.body(1).terminator()->operands(), 0, "yielded values");
  default: // If
    if (!isScalarOf(op.operand(0)->type, Scalar::I1)) return fail(op, "the condition is an i1");
    for (unsigned r = 0; r < 2; ++r) {
      if (op.body(r).numArgs()) return fail(op, "the regions have no arguments");
      if (!carried(op, op.body(r).terminator()->operands(), 0, "yielded values")) return false;
    }
    return true;
  }
}

bool Verifier::rules(const Op &op) {
  using enum Opcode;
  switch (op.opcode) {
  case Constant:
    return constant(op);
  case ProgramId:
  case NumPrograms:
    return intAttr(op, Attr::axis, 0, 2) &&
           need(op, isScalarOf(op.result()->type, Scalar::I32), "the result is an i32");
  case Arange: {
    Type t = op.result()->type;
    return need(op, t.isTile() && t.rank() == 1 && t.element() == module.context.scalar(Scalar::I32),
                "the result is a tile of i32 with one dimension") &&
           intAttr(op, Attr::start, INT32_MIN, INT32_MAX - t.elements() + 1);
  }
  case Splat:
  case ExpandDims:
  case Broadcast:
  case Reshape:
  case Trans:
  case Join:
  case Split:
  case ConvertLayout:
  case RequireLayout:
    return shapeOps(op);
  case Add:
  case Sub:
  case Mul:
  case Neg:
  case Min:
  case Max:
  case MinNan:
  case MaxNan:
  case Abs:
    return arithmetic(op, isNumber, "numbers");
  case MulHi: {
    Type t = op.result()->type;
    return arithmetic(op, isIntType, "integers") &&
           need(op, scalarBits(t.element().scalar()) >= 32, "works on integers of 32 and 64 bits");
  }
  case DivFloor:
  case ModFloor:
  case CeilDiv:
  case And:
  case Or:
  case Xor:
  case Shl:
  case Shr:
    return arithmetic(op, isIntType, "integers");
  case Div:
  case Fma:
  case Exp:
  case Exp2:
  case Log:
  case Log2:
  case Sqrt:
  case Rsqrt:
  case Floor:
  case Ceil:
    return arithmetic(op, isFloatType, "floats");
  case Cmp:
    return need(op, isValueType(op.operand(0)->type), "compares numbers or pointers") &&
           need(op, same(op.operand(0)->type, op.operand(1)->type), "the operands have one type") &&
           need(op, same(op.result()->type, op.operand(0)->type.withScalar(Scalar::I1)),
                "the result is an i1 in the shape of the operands") &&
           intAttr(op, Attr::pred, 0, int64_t(Pred::Ge)) && groups(op);
  case Select: {
    Type c = op.operand(0)->type, t = op.result()->type;
    return need(op, same(op.operand(1)->type, t) && same(op.operand(2)->type, t),
                "the alternatives and the result have one type") &&
           need(op, isValueType(t), "chooses among numbers, pointers and tiles") &&
           need(op, isScalarOf(c, Scalar::I1) || same(c, t.withScalar(Scalar::I1)),
                "the condition is an i1, or one for each element");
  }
  case Cast:
    return need(op,
                isValueType(op.operand(0)->type) && isNumber(op.operand(0)->type) && isValueType(op.result()->type) &&
                    isNumber(op.result()->type),
                "converts numbers") &&
           sameShape(op, {op.operand(0), op.result()}) && strAttr(op, Attr::rounding, {"rtne", "rtz"});
  case Bitcast: {
    Type a = op.operand(0)->type, b = op.result()->type;
    auto bits = [](Type t) { return t.isPointerLike() ? 64 : scalarBits(t.scalar()); };
    return need(op, isValueType(a) && isValueType(b), "converts numbers and pointers") &&
           sameShape(op, {op.operand(0), op.result()}) && need(op, bits(a) == bits(b), "both types have one width");
  }
  case Assume:
    return need(op, isValueType(op.operand(0)->type) && op.operand(0)->type.isBoolLike(), "the operand is an i1");
  case MultipleOf: {
    llvm::ArrayRef<int64_t> values = op.listAttr(Attr::values);
    Type t = op.result()->type;
    return need(op, values.size() == 1 && values[0] > 0,
                "needs the attribute 'values', a list of one positive number") &&
           need(op, same(op.operand(0)->type, t), "operand and result have one type") &&
           need(op, isValueType(t) && (t.isPointerLike() || isIntType(t)), "works on integers and pointers");
  }
  case AddPtr:
  case Load:
  case Store:
  case AtomicRmw:
  case AtomicCas:
    return memory(op);
  case LocalAlloc:
    return allocation(op);
  case SubView:
  case LocalLoad:
  case LocalStore:
  case LocalTrans:
  case LocalSlice:
  case LocalReshape:
  case LocalReinterpret:
  case StorageView:
  case LocalGather:
  case LocalScatter:
    return buffers(op);
  case AsyncCopy:
    return asyncCopy(op);
  case AsyncWait:
    return intAttr(op, Attr::pending, 0, 1 << 20);
  case AsyncCommit:
  case Barrier:
  case Return:
  case Yield:
    return true; // yield: the rules of the op around it
  case Condition:
    return need(op, isScalarOf(op.operand(0)->type, Scalar::I1), "the first operand is an i1");
  case Dot:
    return dot(op);
  case Reduce:
  case Scan:
    return reduce(op);
  case For:
  case While:
  case If:
    return control(op);
  case Assert:
    return need(op, isValueType(op.operand(0)->type) && op.operand(0)->type.isBoolLike(), "the operand is an i1") &&
           need(op, op.hasAttr(Attr::message), "needs the attribute 'message'");
  case Print:
    for (Value *v : op.operands())
      if (!isValueType(v->type)) return fail(op, "prints numbers, pointers and tiles");
    return need(op, op.hasAttr(Attr::format), "needs the attribute 'format'");
  default:
    return asyncRules(op);
  }
}

} // namespace

bool verify(const Module &module, Diagnostics &diagnostics) {
  return Verifier(module, diagnostics).run();
}

} // namespace tlx::ir
