// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operations on buffers in shared memory: rings of them, views, loads and stores.
#include "lang/elaborate_p.h"

namespace tlx::lang {

using ir::Scalar;

llvm::ArrayRef<Builtin> localBuiltins() {
  static const Builtin kTable[] = {
      {"local_alloc", "shape, type, num?, reuse?", &Elaborator::opLocalAlloc},
      {"storage_alias_spec", "bytes?", &Elaborator::opStorage},
      {"reuse_group", "buffers, group_type?, group_size?", &Elaborator::opReuseGroup},
      {"set_buffer_overlap", "storage, group", &Elaborator::opSetOverlap},
      {"local_view", "buffer, slot", &Elaborator::opLocalView},
      {"local_slice", "buffer, offsets, shape", &Elaborator::opLocalSlice},
      {"local_trans", "buffer, perm?", &Elaborator::opLocalTrans},
      {"local_reshape", "buffer, shape", &Elaborator::opLocalReshape},
      {"local_reinterpret", "buffer, type, shape?", &Elaborator::opLocalReinterpret},
      {"local_load", "buffer", &Elaborator::opLocalLoad},
      {"local_store", "buffer, value", &Elaborator::opLocalStore},
      {"local_gather", "buffer, indices, axis", &Elaborator::opLocalGather},
      {"local_scatter", "buffer, value, indices, axis", &Elaborator::opLocalScatter},
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
  if (!a.has(3)) return Val::runtime(b().localAlloc(*type, *shape, unsigned(num), nullptr));
  if (!a.vals[3].is(Val::Kind::Storage)) return error(Diag::ElNeedsStorage, a.locs[3], "reuse", describe(a.vals[3]));
  Storage &storage = storages[size_t(a.vals[3].i)];
  if (storage.overlap) return error(Diag::ElStorageLate, a.locs[3]);
  ir::Op *view = b().create(ir::Opcode::StorageView, {storage.alloc},
                            context.buffer(*type, *shape, unsigned(num), ir::Space::Shared));
  storage.members.push_back(view->result());
  return Val::runtime(view->result());
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
  return Val::runtime(b().subview(ring.v, index));
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

Val Elaborator::opLocalReshape(CallArgs &a) {
  const Val &v = a.vals[0];
  if (!v.isBuffer()) return error(Diag::ElNeedsBuffer, a.locs[0], a.name, describe(v));
  auto shape = shapeOf(a.vals[1], a.locs[1]);
  if (!shape) return Val::poison();
  const ir::Type type = v.v->type;
  int64_t want = 1;
  for (int64_t e : *shape) want *= e;
  if (type.elements() != want)
    return error(Diag::ElReshape, a.loc, shapeText(type.shape()), type.elements(), shapeText(*shape), want);
  ++operations;
  return Val::runtime(
      b().create(ir::Opcode::LocalReshape, {v.v}, context.buffer(type.scalar(), *shape, type.depth(), type.space()))
          ->result());
}

Val Elaborator::opLocalReinterpret(CallArgs &a) {
  const Val &v = a.vals[0];
  if (!v.isBuffer()) return error(Diag::ElNeedsBuffer, a.locs[0], a.name, describe(v));
  auto type = dtypeOf(a, 1);
  if (!type) return Val::poison();
  const ir::Type from = v.v->type;
  const int64_t row = from.shape().back() * ir::scalarBytes(from.scalar()), bytes = ir::scalarBytes(*type);
  if (row % bytes) return error(Diag::ElReinterpret, a.loc, describe(v), row, ir::scalarName(*type), bytes);
  llvm::SmallVector<int64_t, 4> shape(from.shape());
  shape.back() = row / bytes;
  ++operations;
  ir::Op *view =
      b().create(ir::Opcode::LocalReinterpret, {v.v}, context.buffer(*type, shape, from.depth(), from.space()));
  if (!a.has(2)) return Val::runtime(view->result());
  CallArgs again;
  again.name = a.name, again.loc = a.loc, again.nameLoc = a.nameLoc;
  again.vals = {Val::runtime(view->result()), a.vals[2]};
  again.locs = {a.locs[0], a.locs[2]};
  again.given = {true, true};
  return opLocalReshape(again);
}

bool Elaborator::localIndices(const CallArgs &a, ir::Value *buffer, unsigned at, unsigned axisAt, unsigned &axis) {
  auto along = axisOf(a, axisAt, buffer->type.rank());
  if (!along) return false;
  axis = *along;
  const Val &v = a.vals[at];
  bool fits = v.isTile() && v.isArithmetic() && ir::isInt(v.scalar()) && v.scalar() != Scalar::I1 &&
              v.shape().size() == buffer->type.rank();
  for (unsigned d = 0; fits && d < buffer->type.rank(); ++d)
    fits = d == axis || v.shape()[d] == buffer->type.shape()[d];
  if (!fits) error(Diag::ElLocalIndices, a.locs[at], a.name, describe(a.vals[0]), axis, describe(v));
  return fits;
}

Val Elaborator::opLocalGather(CallArgs &a) {
  ir::Value *buffer = bufferOf(a, 0);
  unsigned axis = 0;
  if (!buffer || !localIndices(a, buffer, 1, 2, axis)) return Val::poison();
  ++operations;
  ir::Op *op =
      b().create(ir::Opcode::LocalGather, {buffer, a.vals[1].v}, a.vals[1].v->type.withScalar(buffer->type.scalar()));
  op->setAttr(ir::Attr::axis, int64_t(axis));
  return Val::runtime(op->result());
}

Val Elaborator::opLocalScatter(CallArgs &a) {
  ir::Value *buffer = bufferOf(a, 0);
  unsigned axis = 0;
  if (!buffer || !localIndices(a, buffer, 2, 3, axis)) return Val::poison();
  const Val &v = a.vals[1];
  if (!v.isTile() || !v.isArithmetic() || v.shape() != a.vals[2].shape())
    return error(Diag::ElScatterValue, a.locs[1], describe(v), describe(a.vals[2]));
  if (v.scalar() != buffer->type.scalar())
    return error(Diag::ElStoreType, a.locs[1], "the value", ir::scalarName(v.scalar()), describe(a.vals[0]),
                 "; convert it with .to(" + ir::scalarName(buffer->type.scalar()).str() + ")");
  ++operations;
  b().create(ir::Opcode::LocalScatter, {buffer, v.v, a.vals[2].v}, {})->setAttr(ir::Attr::axis, int64_t(axis));
  return Val::unit();
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
