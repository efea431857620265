// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Storages: bytes that buffers share. A storage is an allocation of bytes, its buffers are views of it, and where they lie follows from the
// groups that set_buffer_overlap names:
//
//   reuse_group([qk, reuse_group([p, l], "distinct")])      of two slots each
//
//   slot 0: | qk[0]           |  slot 1: | qk[1]           |
//           | p[0]  | l[0] |             | p[1]  | l[1] |
//
// Without a group each buffer has the slots of its own one after the other, from the storage's first byte on.
#include "lang/elaborate_p.h"

#include "llvm/Support/MathExtras.h"

namespace tlx::lang {

namespace {
constexpr int64_t kUnit = 128, kMostAlign = 1024, kMaxStorage = int64_t(1) << 20;

int64_t bytesOfOne(const ir::Value *buffer) {
  return buffer->type.elements() * ir::scalarBytes(buffer->type.scalar());
}
/// A swizzle pattern is 256, 512 or 1024 bytes, and fills whatever has it.
int64_t alignmentOf(int64_t bytes) {
  return std::clamp(bytes & -bytes, kUnit, kMostAlign);
}

/// A buffer, or a group, of one slot.
struct Slot {
  int64_t count = 0, bytes = 0, align = kUnit;
};
struct Place {
  int64_t offset = 0, group = 1;
};

/// The places of a group's buffers inside of a slot.
struct Layout {
  Elaborator &e;
  const Storage &storage;
  Loc loc;
  std::map<ir::Value *, Place> places;

  std::optional<Slot> buffer(const Val &v, int64_t group) {
    if (!llvm::is_contained(storage.members, v.v))
      return e.error(Diag::ElOverlapOther, loc, e.describe(v)), std::nullopt;
    if (!places.try_emplace(v.v, Place{0, group}).second)
      return e.error(Diag::ElOverlapTwice, loc, e.describe(v)), std::nullopt;
    const int64_t depth = v.v->type.depth(), bytes = bytesOfOne(v.v);
    if (depth % group) return e.error(Diag::ElGroupSize, loc, group, e.describe(v), depth), std::nullopt;
    return Slot{depth / group, bytes * group, alignmentOf(bytes)};
  }
  std::optional<Slot> of(const Val &v) {
    if (!v.is(Val::Kind::Overlap)) return buffer(v, 1);
    if (v.i > 1) return buffer(v.elems[0], v.i);
    Slot all;
    for (const Val &element : v.elems) {
      std::map<ir::Value *, Place> before = std::move(places);
      places.clear();
      auto slot = of(element);
      if (!slot) return std::nullopt;
      if (all.count && slot->count != all.count)
        return e.error(Diag::ElOverlapCount, loc, all.count, slot->count), std::nullopt;
      const int64_t at = v.s == "distinct" ? int64_t(llvm::alignTo(uint64_t(all.bytes), uint64_t(slot->align))) : 0;
      for (auto &[member, place] : places) {
        place.offset += at;
        if (!before.insert({member, place}).second)
          return e.error(Diag::ElOverlapTwice, loc, e.describe(Val::runtime(member))), std::nullopt;
      }
      places = std::move(before);
      all = {slot->count, std::max(all.bytes, at + slot->bytes), std::max(all.align, slot->align)};
    }
    return all;
  }
};
} // namespace

Val Elaborator::opStorage(CallArgs &a) {
  Storage storage;
  storage.loc = a.loc;
  if (a.has(0)) {
    auto bytes = constInt(a, 0, "the size of a storage");
    if (!bytes) return Val::poison();
    if (*bytes < 1 || *bytes > kMaxStorage)
      return error(Diag::ElCountRange, a.locs[0], "the size of a storage", kMaxStorage, *bytes);
    storage.bytes = *bytes;
  }
  ++operations;
  storage.alloc = b().localAlloc(ir::Scalar::U8, {kUnit}, 1, nullptr); // its size: placeStorage
  storages.push_back(std::move(storage));
  return Val::storage(int64_t(storages.size()) - 1);
}

Val Elaborator::opReuseGroup(CallArgs &a) {
  Val out = Val::overlap(a.vals[0].elems, "shared", 1);
  if (!a.vals[0].is(Val::Kind::List) || out.elems.empty())
    return error(Diag::ElGroupList, a.locs[0], describe(a.vals[0]));
  for (const Val &v : out.elems)
    if (!v.is(Val::Kind::Overlap) && !v.isBuffer())
      return error(Diag::ElGroupList, v.loc.known() ? v.loc : a.locs[0], describe(v));
  if (a.has(1)) {
    auto type = oneOf(a, 1, "'group_type'", {"shared", "distinct"});
    if (!type) return Val::poison();
    out.s = *type;
  }
  if (a.has(2)) {
    auto size = constInt(a, 2, "'group_size'");
    if (!size) return Val::poison();
    if (*size < 1 || *size > 64) return error(Diag::ElCountRange, a.locs[2], "'group_size'", 64, *size);
    if (*size > 1 && (out.elems.size() > 1 || !out.elems[0].isBuffer())) return error(Diag::ElGroupOne, a.locs[2]);
    out.i = *size;
  }
  return out;
}

Val Elaborator::opSetOverlap(CallArgs &a) {
  if (!a.vals[0].is(Val::Kind::Storage)) return error(Diag::ElNeedsStorage, a.locs[0], a.name, describe(a.vals[0]));
  if (!a.vals[1].is(Val::Kind::Overlap)) return error(Diag::ElNeedsGroup, a.locs[1], describe(a.vals[1]));
  Storage &storage = storages[size_t(a.vals[0].i)];
  if (storage.overlap) return error(Diag::ElOverlapAgain, a.loc);
  storage.overlap = a.vals[1];
  Layout layout{*this, storage, a.locs[1], {}};
  auto slot = layout.of(a.vals[1]);
  if (!slot) return Val::poison();
  for (ir::Value *member : storage.members)
    if (!layout.places.count(member)) return error(Diag::ElOverlapMissing, a.locs[1], describe(Val::runtime(member)));
  const int64_t stride = int64_t(llvm::alignTo(uint64_t(slot->bytes), uint64_t(slot->align)));
  for (auto &[member, place] : layout.places) {
    member->def()->setAttr(ir::Attr::offset, place.offset);
    member->def()->setAttr(ir::Attr::stride, stride);
    member->def()->setAttr(ir::Attr::group, place.group);
  }
  return Val::unit();
}

void Elaborator::placeStorages() {
  for (Storage &storage : storages) placeStorage(storage);
}

void Elaborator::placeStorage(Storage &storage) {
  int64_t need = 1;
  for (ir::Value *member : storage.members) {
    ir::Op &op = *member->def();
    const int64_t depth = member->type.depth();
    if (!op.hasAttr(ir::Attr::group)) { // all of them from the first byte on
      op.setAttr(ir::Attr::offset, int64_t(0));
      op.setAttr(ir::Attr::stride, int64_t(0));
      op.setAttr(ir::Attr::group, depth);
    }
    const int64_t group = op.intAttr(ir::Attr::group);
    need = std::max(need, op.intAttr(ir::Attr::offset) + (depth / group - 1) * op.intAttr(ir::Attr::stride) +
                              group * bytesOfOne(member));
  }
  if (storage.bytes && *storage.bytes < need) {
    error(Diag::ElStorageSmall, storage.loc, *storage.bytes, need);
    return;
  }
  const int64_t units = int64_t(llvm::divideCeil(uint64_t(storage.bytes.value_or(need)), uint64_t(kUnit)));
  storage.alloc->type = context.buffer(ir::Scalar::U8, {kUnit}, unsigned(units), ir::Space::Shared);
}

} // namespace tlx::lang
