// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operations on global memory: load, store, atomics, and the methods of descriptors.
#include <cmath>

#include "lang/elaborate_p.h"

namespace tlx::lang {

using ir::Scalar;

llvm::ArrayRef<Builtin> memoryBuiltins() {
  static constexpr const char *kRmw = "pointer, value, mask?, order?, scope?";
  static const Builtin kTable[] = {
      {"load", "pointer, mask?, other?, cache?, eviction?", &Elaborator::opLoad},
      {"store", "pointer, value, mask?, cache?, eviction?", &Elaborator::opStore},
      {"async_load", "pointer, buffer, mask?, other?", &Elaborator::opAsyncLoad},
      {"async_load_commit", "", &Elaborator::opAsyncLoadGroup},
      {"async_load_wait", "pending", &Elaborator::opAsyncLoadGroup},
      {"atomic_add", kRmw, &Elaborator::opAtomic},
      {"atomic_min", kRmw, &Elaborator::opAtomic},
      {"atomic_max", kRmw, &Elaborator::opAtomic},
      {"atomic_and", kRmw, &Elaborator::opAtomic},
      {"atomic_or", kRmw, &Elaborator::opAtomic},
      {"atomic_xor", kRmw, &Elaborator::opAtomic},
      {"atomic_xchg", kRmw, &Elaborator::opAtomic},
      {"atomic_cas", "pointer, expected, value, mask?, order?, scope?", &Elaborator::opAtomic},
  };
  return kTable;
}

/// A string argument that is one of a few words; reports what they are.
std::optional<std::string> Elaborator::oneOf(const CallArgs &a, unsigned i, llvm::StringRef what,
                                             std::initializer_list<const char *> words) {
  std::string list;
  for (const char *word : words) {
    if (a.vals[i].is(Val::Kind::String) && a.vals[i].s == word) return a.vals[i].s;
    list += (list.empty() ? "\"" : ", \"") + std::string(word) + "\"";
  }
  error(Diag::ElWord, a.locs[i], what, list);
  return std::nullopt;
}

ir::Value *Elaborator::accessOperand(ir::Value *v, ir::Value *pointer, Loc loc, llvm::StringRef what) {
  llvm::ArrayRef<int64_t> want = pointer->type.shape(), have = v->type.shape();
  bool fits = have.size() <= want.size();
  for (size_t d = 0; fits && d < have.size(); ++d) {
    int64_t e = have[have.size() - 1 - d];
    fits = e == 1 || e == want[want.size() - 1 - d];
  }
  if (!fits) {
    error(Diag::ElAccessShape, loc, what, shapeText(have), pointer->type.isTile() ? shapeText(want) : "a scalar");
    return nullptr;
  }
  return broadcast(v, want);
}

ir::Value *Elaborator::maskOperand(const CallArgs &a, unsigned i, ir::Value *pointer) {
  const Val &m = a.vals[i];
  if (!m.isArithmetic() || m.scalar() != Scalar::I1) return error(Diag::ElMaskType, a.locs[i], describe(m)), nullptr;
  ir::Value *v = materialize(m, a.locs[i]);
  return v ? accessOperand(v, pointer, a.locs[i], "the mask") : nullptr;
}

static ir::Value *pointerOf(Elaborator &e, const CallArgs &a) {
  if (a.vals[0].isPointerLike() && !a.vals[0].isDesc()) return a.vals[0].v;
  if (a.vals[0].isDesc())
    e.error(Diag::ElDescPointer, a.locs[0], a.name);
  else
    e.error(Diag::ElNeedsPointer, a.locs[0], a.name, e.describe(a.vals[0]));
  return nullptr;
}

/// A value for memory of type `type`: a literal adapts, nothing converts.
static ir::Value *elementOperand(Elaborator &e, const CallArgs &a, unsigned i, ir::Value *pointer,
                                 llvm::StringRef what) {
  const Val &v = a.vals[i];
  Scalar type = pointer->type.element().scalar();
  bool adapts = v.isLiteral() && type != Scalar::I1 && (v.isInt() || ir::isFloat(type));
  if (!v.isArithmetic() || (!adapts && v.scalar() != type)) {
    std::string hint =
        v.isArithmetic() && !v.isLiteral() ? "; convert it with .to(" + ir::scalarName(type).str() + ")" : "";
    e.error(Diag::ElStoreType, a.locs[i], what,
            v.isArithmetic() && !v.isLiteral() ? ir::scalarName(v.scalar()).str() : e.describe(v),
            pointer->type.element().str(), hint);
    return nullptr;
  }
  ir::Value *value = e.materializeAs(v, type, a.locs[i], what);
  return value ? e.accessOperand(value, pointer, a.locs[i], what) : nullptr;
}

/// cache = and eviction = at operands i and i + 1. Only one of the two: no machine takes both.
static bool hints(Elaborator &e, const CallArgs &a, unsigned i, std::initializer_list<const char *> caches,
                  std::string &cache, std::string &eviction) {
  auto word = [&](unsigned at, llvm::StringRef what, std::initializer_list<const char *> words, std::string &out) {
    if (!a.has(at)) return true;
    auto v = e.oneOf(a, at, what, words);
    if (v) out = *v;
    return v.has_value();
  };
  if (!word(i, "'cache'", caches, cache) ||
      !word(i + 1, "'eviction'", {"evict_first", "evict_last", "no_allocate"}, eviction))
    return false;
  if (cache.empty() || eviction.empty()) return true;
  e.error(Diag::ElBothHints, a.locs[i + 1]);
  return false;
}
static void setHints(ir::Op *op, const std::string &cache, const std::string &eviction) {
  if (!cache.empty()) op->setAttr(ir::Attr::cache, cache);
  if (!eviction.empty()) op->setAttr(ir::Attr::eviction, eviction);
}

Val Elaborator::opLoad(CallArgs &a) {
  ir::Value *pointer = pointerOf(*this, a), *mask = nullptr, *other = nullptr;
  if (!pointer) return Val::poison();
  bool ok = true;
  if (a.has(1)) ok &= (mask = maskOperand(a, 1, pointer)) != nullptr;
  if (a.has(2)) {
    if (!a.has(1)) return error(Diag::ElOtherMask, a.locs[2]);
    ok &= (other = elementOperand(*this, a, 2, pointer, "'other'")) != nullptr;
  }
  std::string cache, eviction;
  ok &= hints(*this, a, 3, {"ca", "cg", "cv"}, cache, eviction);
  if (!ok) return Val::poison();
  ++operations;
  ir::Value *v = b().load(pointer, mask, other);
  setHints(v->def(), cache, eviction);
  return Val::runtime(v);
}

Val Elaborator::opStore(CallArgs &a) {
  ir::Value *pointer = pointerOf(*this, a), *mask = nullptr;
  if (!pointer) return Val::poison();
  ir::Value *value = elementOperand(*this, a, 1, pointer, "the value");
  if (a.has(2)) mask = maskOperand(a, 2, pointer);
  std::string cache, eviction;
  const bool ok = hints(*this, a, 3, {"wb", "cg", "cs", "wt"}, cache, eviction);
  if (!ok || !value || (a.has(2) && !mask)) return Val::poison();
  ++operations;
  setHints(b().store(pointer, value, mask), cache, eviction);
  return Val::unit();
}

//===-- asynchronous loads ----------------------------------------------------------------------------------------===//

/// What the copies write for masked-off elements anyway; -0.0 is not.
static bool isPlainZero(const Val &v) {
  return (v.isInt() && v.i == 0) || (v.isFloat() && v.f == 0 && !std::signbit(v.f));
}

Val Elaborator::opAsyncLoad(CallArgs &a) {
  ir::Value *pointer = pointerOf(*this, a), *buffer = bufferOf(a, 1);
  if (!pointer || !buffer) return Val::poison();
  if (!pointer->type.isTile() || pointer->type.shape() != buffer->type.shape() ||
      pointer->type.element().scalar() != buffer->type.scalar())
    return error(Diag::ElAsyncLoadBuffer, a.locs[1], describe(a.vals[0]), describe(a.vals[1]));
  llvm::SmallVector<ir::Value *, 4> operands{buffer, pointer};
  if (a.has(2)) operands.push_back(maskOperand(a, 2, pointer));
  if (a.has(3)) {
    if (!a.has(2)) return error(Diag::ElOtherMask, a.locs[3]);
    ir::Value *other = elementOperand(*this, a, 3, pointer, "'other'");
    if (!other) return Val::poison();
    if (!isPlainZero(a.vals[3])) operands.push_back(other);
  }
  if (llvm::is_contained(operands, nullptr)) return Val::poison();
  ++operations;
  b().create(ir::Opcode::AsyncCopy, operands, {});
  return Val::unit();
}

Val Elaborator::opAsyncLoadGroup(CallArgs &a) {
  constexpr int64_t kMaxPending = 63;
  ++operations;
  if (a.name == "async_load_commit") {
    b().create(ir::Opcode::AsyncCommit, {}, {});
    return Val::unit();
  }
  auto pending = constInt(a, 0, "the number of groups");
  if (!pending) return Val::poison();
  if (*pending < 0 || *pending > kMaxPending)
    return error(Diag::ElPendingRange, a.locs[0], "the number of groups", kMaxPending, *pending);
  b().create(ir::Opcode::AsyncWait, {}, {})->setAttr(ir::Attr::pending, *pending);
  return Val::unit();
}

//===-- atomics ---------------------------------------------------------------------------------------------------===//

Val Elaborator::opAtomic(CallArgs &a) {
  const llvm::StringRef kind = a.name.drop_front(llvm::StringRef("atomic_").size());
  const bool cas = kind == "cas", bits = kind == "and" || kind == "or" || kind == "xor";
  ir::Value *pointer = pointerOf(*this, a), *mask = nullptr, *expected = nullptr;
  if (!pointer) return Val::poison();
  const Scalar type = pointer->type.element().scalar();
  const bool wide = !ir::isFp8(type) && ir::scalarBits(type) >= 32, half = type == Scalar::F16 || type == Scalar::BF16;
  const bool arithmetic = kind == "add" || kind == "min" || kind == "max";
  if (!(bits ? wide && ir::isInt(type) : wide || (half && arithmetic)))
    return error(Diag::ElAtomicType, a.locs[0], a.name,
                 bits         ? "i32, i64, u32 and u64"
                 : arithmetic ? "i32, i64, u32, u64, f16, bf16, f32 and f64"
                              : "i32, i64, u32, u64, f32 and f64",
                 ir::scalarName(type));
  unsigned next = 1;
  bool ok = !cas || (expected = elementOperand(*this, a, next++, pointer, "the value expected"));
  ir::Value *value = elementOperand(*this, a, next++, pointer, "the value");
  if (a.has(next)) ok &= (mask = maskOperand(a, next, pointer)) != nullptr;
  std::optional<std::string> order, scope;
  if (a.has(++next))
    ok &= (order = oneOf(a, next, "'order'", {"relaxed", "acquire", "release", "acq_rel"})).has_value();
  if (a.has(++next)) ok &= (scope = oneOf(a, next, "'scope'", {"cta", "gpu", "sys"})).has_value();
  if (!ok || !value) return Val::poison();
  ++operations;
  ir::Value *before = cas ? b().atomicCas(pointer, expected, value, mask) : b().atomicRmw(kind, pointer, value, mask);
  if (order) before->def()->setAttr(ir::Attr::order, *order);
  if (scope) before->def()->setAttr(ir::Attr::scope, *scope);
  return Val::runtime(before);
}

//===-- descriptors -----------------------------------------------------------------------------------------------===//

std::optional<llvm::SmallVector<ir::Value *, 5>> Elaborator::blockOffsets(const CallArgs &a, const Val &desc,
                                                                          unsigned i) {
  const Val &o = a.vals[i];
  const unsigned rank = desc.v->type.rank();
  if (!o.is(Val::Kind::List) || o.elems.size() != rank) {
    error(Diag::ElDescOffsets, a.locs[i], describe(desc), rank,
          o.is(Val::Kind::List) ? std::to_string(o.elems.size()) : describe(o));
    return std::nullopt;
  }
  llvm::SmallVector<ir::Value *, 5> out;
  for (const Val &v : o.elems) {
    const bool adapts = v.isLiteral() && v.isInt();
    const Loc loc = v.loc.known() ? v.loc : a.locs[i];
    if (!v.isArithmetic() || v.isTile() || (!adapts && v.scalar() != Scalar::I32) || v.isFloat()) {
      error(Diag::ElDescOffset, loc, describe(v));
      return std::nullopt;
    }
    if (adapts && v.i != int32_t(v.i)) {
      error(Diag::ElDescOffsetRange, loc, v.i);
      return std::nullopt;
    }
    ir::Value *value = materializeAs(v, Scalar::I32, loc, "the offset of a block");
    if (!value) return std::nullopt;
    out.push_back(value);
  }
  return out;
}

std::optional<std::string> Elaborator::descReduce(const CallArgs &a, unsigned i, ir::Type desc) {
  auto kind = oneOf(a, i, a.name == "async_descriptor_reduce" ? "'kind'" : "'reduce'",
                    {"add", "min", "max", "and", "or", "xor"});
  if (!kind) return std::nullopt;
  const Scalar type = desc.scalar();
  const bool bits = *kind == "and" || *kind == "or" || *kind == "xor";
  if (ir::isFloat(type) ? !bits && !ir::isFp8(type) : ir::scalarBits(type) >= 32) return kind;
  error(Diag::ElDescReduce, a.locs[i], *kind, ir::scalarName(type));
  return std::nullopt;
}

std::optional<std::string> Elaborator::bulkEviction(const CallArgs &a, unsigned i) {
  if (!a.has(i)) return std::string();
  return oneOf(a, i, "'eviction'", {"evict_first", "evict_last", "evict_normal"});
}

Val Elaborator::opDescLoad(CallArgs &a) {
  auto offsets = blockOffsets(a, a.vals[0], 1);
  if (!offsets) return Val::poison();
  auto eviction = bulkEviction(a, 2);
  if (!eviction) return Val::poison();
  ++operations;
  ir::Value *v = b().descLoad(a.vals[0].v, *offsets);
  setHints(v->def(), "", *eviction);
  return Val::runtime(v);
}

Val Elaborator::opDescStore(CallArgs &a) {
  ir::Type desc = a.vals[0].v->type;
  auto offsets = blockOffsets(a, a.vals[0], 1);
  if (!offsets) return Val::poison();
  const Val &v = a.vals[2];
  if (!v.isTile() || v.v->type.shape() != desc.shape() || !v.isArithmetic())
    return error(Diag::ElDescValue, a.locs[2], describe(v), describe(a.vals[0]));
  if (v.scalar() != desc.scalar())
    return error(Diag::ElStoreType, a.locs[2], "the value", ir::scalarName(v.scalar()), describe(a.vals[0]),
                 "; convert it with .to(" + ir::scalarName(desc.scalar()).str() + ")");
  auto reduce = a.has(3) ? descReduce(a, 3, desc) : std::string();
  auto eviction = bulkEviction(a, 4);
  if (!reduce || !eviction) return Val::poison();
  ++operations;
  setHints(b().descStore(a.vals[0].v, v.v, *offsets, *reduce), "", *eviction);
  return Val::unit();
}

} // namespace tlx::lang
