// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operations on buffers in shared memory: rings of them, views, loads and stores.
#include "lang/elaborate_p.h"

namespace tlx::lang {

using ir::Scalar;

llvm::ArrayRef<Builtin> localBuiltins() {
  static const Builtin kTable[] = {
      {"local_alloc", "shape, type, num?", &Elaborator::opLocalAlloc},
      {"local_view", "buffer, slot", &Elaborator::opLocalView},
      {"local_slice", "buffer, offsets, shape", &Elaborator::opLocalSlice},
      {"local_trans", "buffer, perm?", &Elaborator::opLocalTrans},
      {"local_load", "buffer", &Elaborator::opLocalLoad},
      {"local_store", "buffer, value", &Elaborator::opLocalStore},
  };
  return kTable;
}

namespace {
constexpr int64_t kMaxRing = 64;
}

ir::Value *Elaborator::bufferOf(const CallArgs &a, unsigned i) {
  const Val &v = a.vals[i];
  if (!v.isBuffer()) return error(Diag::ElNeedsBuffer, a.locs[i], a.name, describe(v)), nullptr;
  if (v.v->type.depth() != 1) return error(Diag::ElOneSlot, a.locs[i], a.name, describe(v)), nullptr;
  return v.v;
}

Val Elaborator::opLocalAlloc(CallArgs &a) {
  auto shape = shapeOf(a.vals[0], a.locs[0]);
  auto type = dtypeOf(a, 1);
  if (!shape || !type) return Val::poison();
  int64_t num = 1;
  if (a.has(2)) {
    auto n = constInt(a, 2, "the number of buffers");
    if (!n) return Val::poison();
    if (*n < 1 || *n > kMaxRing) return error(Diag::ElCountRange, a.locs[2], "the number of buffers", kMaxRing, *n);
    num = *n;
  }
  ++operations;
  return Val::runtime(b().localAlloc(*type, *shape, unsigned(num), nullptr));
}

Val Elaborator::slotOf(const Val &ring, const Val &slot, Loc loc, Loc slotLoc) {
  const ir::Type type = ring.v->type;
  if (!slot.isArithmetic() || slot.isTile() || slot.isFloat() || (!slot.isLiteral() && slot.scalar() != Scalar::I32))
    return error(Diag::ElSlot, slotLoc, describe(slot));
  if (slot.isInt() && (slot.i < 0 || slot.i >= int64_t(type.depth())))
    return error(Diag::ElSlotRange, slotLoc, slot.i, describe(ring), type.depth());
  if (type.depth() == 1 && slot.isInt()) return ring;
  ir::Value *index = materializeAs(slot, Scalar::I32, slotLoc, "a slot");
  if (!index) return Val::poison();
  ++operations;
  if (ring.isBuffer()) return Val::runtime(b().subview(ring.v, index));
  return Val::runtime(b().create(ir::Opcode::SubView, {ring.v, index}, context.barrier(1))->result());
}

Val Elaborator::opLocalView(CallArgs &a) {
  if (!a.vals[0].isBuffer() && !a.vals[0].isBarrier())
    return error(Diag::ElNeedsBuffer, a.locs[0], a.name, describe(a.vals[0]));
  return slotOf(a.vals[0], a.vals[1], a.loc, a.locs[1]);
}

Val Elaborator::opLocalSlice(CallArgs &a) {
  ir::Value *buffer = bufferOf(a, 0);
  auto shape = shapeOf(a.vals[2], a.locs[2]);
  if (!buffer || !shape) return Val::poison();
  const ir::Type type = buffer->type;
  const Val &at = a.vals[1];
  if (!at.is(Val::Kind::List) || at.elems.size() != type.rank() || shape->size() != type.rank())
    return error(Diag::ElSliceRank, a.locs[1], describe(a.vals[0]), type.rank());
  std::vector<int64_t> offsets;
  for (unsigned d = 0; d < type.rank(); ++d) {
    const Val &o = at.elems[d];
    const Loc loc = o.loc.known() ? o.loc : a.locs[1];
    if (!o.isInt()) return error(Diag::ElSliceOffset, loc, describe(o));
    if (o.i < 0 || o.i + (*shape)[d] > type.shape()[d])
      return error(Diag::ElSliceRange, loc, o.i, o.i + (*shape)[d], type.shape()[d], d);
    offsets.push_back(o.i);
  }
  ++operations;
  ir::Op *op = b().create(ir::Opcode::LocalSlice, {buffer}, context.buffer(type.scalar(), *shape, 1, type.space()));
  op->setAttr(ir::Attr::offsets, offsets);
  return Val::runtime(op->result());
}

Val Elaborator::opLocalTrans(CallArgs &a) {
  const Val &v = a.vals[0];
  if (!v.isBuffer()) return error(Diag::ElNeedsBuffer, a.locs[0], a.name, describe(v));
  const ir::Type type = v.v->type;
  std::vector<int64_t> perm;
  if (a.has(1)) {
    if (a.vals[1].is(Val::Kind::List))
      for (const Val &p : a.vals[1].elems) perm.push_back(p.isInt() ? p.i : -1);
  } else if (type.rank() == 2) {
    perm = {1, 0};
  } else {
    return error(Diag::ElTransRank, a.locs[0], describe(v));
  }
  llvm::SmallVector<int64_t, 4> shape;
  uint64_t seen = 0;
  for (int64_t p : perm)
    if (p >= 0 && p < int64_t(type.rank())) seen |= uint64_t(1) << p, shape.push_back(type.shape()[size_t(p)]);
  if (perm.size() != type.rank() || seen + 1 != uint64_t(1) << type.rank())
    return error(Diag::ElPerm, a.locs[1], type.rank() - 1);
  ++operations;
  ir::Op *op =
      b().create(ir::Opcode::LocalTrans, {v.v}, context.buffer(type.scalar(), shape, type.depth(), type.space()));
  op->setAttr(ir::Attr::perm, perm);
  return Val::runtime(op->result());
}

Val Elaborator::opLocalLoad(CallArgs &a) {
  ir::Value *buffer = bufferOf(a, 0);
  if (!buffer) return Val::poison();
  ++operations;
  return Val::runtime(b().localLoad(buffer, nullptr));
}

Val Elaborator::opLocalStore(CallArgs &a) {
  ir::Value *buffer = bufferOf(a, 0);
  if (!buffer) return Val::poison();
  const Val &v = a.vals[1];
  const ir::Type type = buffer->type;
  if (!v.isTile() || !v.isArithmetic() || v.v->type.shape() != type.shape())
    return error(Diag::ElLocalValue, a.locs[1], describe(v), describe(a.vals[0]));
  if (v.scalar() != type.scalar())
    return error(Diag::ElStoreType, a.locs[1], "the value", ir::scalarName(v.scalar()), describe(a.vals[0]),
                 "; convert it with .to(" + ir::scalarName(type.scalar()).str() + ")");
  ++operations;
  b().localStore(buffer, v.v);
  return Val::unit();
}

} // namespace tlx::lang
