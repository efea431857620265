// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shared memory: buffers, accesses of tiles (ldmatrix and stmatrix where the layouts allow them, else vectors of up to
// 16 bytes), asynchronous copies, barriers. Addresses are i32 offsets from the window: buffer + (thread part ^ register
// part) + constant.
#include "codegen/codegen_p.h"

using namespace llvm;

namespace tlx::codegen {

void Generator::emitLocalAlloc(const ir::Op &op) {
  if (!op.hasAttr(ir::Attr::offset)) return fail(op, "memory has not been planned");
  set(op.result(), plannedOffset(op));
}

/// Where the replica that runs has it.
Value *Generator::plannedOffset(const ir::Op &op) {
  const int64_t offset = op.intAttr(ir::Attr::offset);
  std::vector<int64_t> places;
  for (unsigned r = 0; r < scope.replicas; ++r) places.push_back(offset + r * op.intAttr(ir::Attr::bytes));
  return perReplica(places);
}

Value *Generator::bufferUnits(const ir::Value *buffer) {
  Regs regs = get(buffer);
  return regs.size() > 1 ? regs[1] : b.CreateLShr(regs[0], 4, "", true);
}

// Besides the offset in bytes, one in units of 16 bytes, for matrix descriptors: whichever is not used goes away.
void Generator::emitSubView(const ir::Op &op) {
  ir::Type type = op.operand(0)->type;
  const bool barrier = type.kind() == ir::Type::Kind::Barrier;
  if (!barrier && !type.sharedLayout()) return fail(op, "the buffer has no layout");
  const int64_t bytes = barrier ? 8 : type.sharedLayout()->elements() * ir::scalarBytes(type.scalar());
  Value *slot = b.CreateIntCast(scalarOperand(op, 1), b.getInt32Ty(), true);
  auto times = [&](Value *n, int64_t step) { return b.CreateMul(n, b.getInt32(unsigned(step)), "", true, true); };
  // In a storage, slots come in groups, and a stride leads from one to the next.
  const ir::Op *view = op.operand(0)->def();
  while (view && (view->is(ir::Opcode::LocalTrans) || view->is(ir::Opcode::LocalReshape) ||
                  view->is(ir::Opcode::LocalReinterpret)))
    view = view->operand(0)->def();
  const bool grouped = view && view->is(ir::Opcode::StorageView);
  const int64_t group = grouped ? view->intAttr(ir::Attr::group) : type.depth(),
                stride = grouped ? view->intAttr(ir::Attr::stride) : 0;
  auto place = [&](Value *base, int64_t unit) {
    Value *at = group < int64_t(type.depth()) && stride != group * bytes
                    ? b.CreateAdd(times(b.CreateUDiv(slot, b.getInt32(unsigned(group))), stride / unit),
                                  times(b.CreateURem(slot, b.getInt32(unsigned(group))), bytes / unit), "", true, true)
                    : times(slot, bytes / unit);
    return b.CreateAdd(base, at, "", true, true);
  };
  RegList regs{place(scalarOperand(op, 0), 1)};
  if (bytes % 16 == 0) regs.push_back(place(bufferUnits(op.operand(0)), 16));
  set(op.result(), regs);
}

void Generator::emitStorageView(const ir::Op &op) {
  const unsigned offset = unsigned(op.intAttr(ir::Attr::offset));
  set(op.result(), {b.CreateAdd(scalarOperand(op, 0), b.getInt32(offset), "", true, true),
                    b.CreateAdd(bufferUnits(op.operand(0)), b.getInt32(offset / 16), "", true, true)});
}

/// Bits of a coordinate that move by one distance go together: a dimension without a swizzle is one shift.
Value *Generator::elementOffset(const layout::SharedLayout &memory, ArrayRef<Value *> at) {
  Value *sum = b.getInt32(0), *bits = b.getInt32(0);
  for (unsigned d = 0; d < at.size(); ++d) {
    std::map<int, uint32_t> masks; // by distance
    const auto &bases = memory.bases()[d];
    for (unsigned k = 0; k < bases.size(); ++k)
      for (uint32_t rest = bases[k]; rest; rest &= rest - 1)
        masks[int(llvm::countr_zero(rest)) - int(k)] |= uint32_t(1) << k;
    for (auto [distance, mask] : masks) {
      Value *part = b.CreateAnd(at[d], b.getInt32(mask));
      part = distance < 0 ? b.CreateLShr(part, unsigned(-distance)) : b.CreateShl(part, unsigned(distance));
      bits = b.CreateXor(bits, part);
    }
    if (memory.shape()[d] == memory.box()[d]) continue;
    Value *boxes = b.CreateLShr(at[d], Log2_64(uint64_t(memory.box()[d])));
    sum = b.CreateAdd(sum, b.CreateMul(boxes, b.getInt32(unsigned(memory.boxStride()[d]))));
  }
  return b.CreateAdd(sum, bits);
}

void Generator::emitIndexed(const ir::Op &op) {
  const bool gather = op.is(ir::Opcode::LocalGather);
  ir::Type buffer = op.operand(0)->type, indices = op.operand(gather ? 1 : 2)->type;
  const layout::SharedLayout *memory = buffer.sharedLayout();
  const layout::TileLayout *layout = indices.layout();
  if (!memory || !layout) return fail(op, "no layout");
  const unsigned axis = unsigned(op.intAttr(ir::Attr::axis)), bytes = memoryBits(buffer) / 8;
  Regs index = operand(op, gather ? 1 : 2);
  ir::Type element = buffer.context().scalar(buffer.scalar());
  auto pointer = [&](unsigned r) {
    SmallVector<Value *, 4> at;
    for (unsigned d = 0; d < buffer.rank(); ++d)
      at.push_back(d == axis ? b.CreateZExtOrTrunc(index[r], b.getInt32Ty()) : coordinate(*layout, r, d));
    Value *offset = b.CreateMul(elementOffset(*memory, at), b.getInt32(bytes));
    return sharedPointer(b.CreateAdd(scalarOperand(op, 0), offset));
  };
  ArrayRef<unsigned> first = canonicalRegisters(*layout);
  if (gather) {
    RegList regs(index.size(), nullptr), one;
    for (unsigned r = 0; r < index.size(); ++r) {
      if (first[r] != r) continue;
      one.clear();
      unpack(b.CreateAlignedLoad(accessType(bytes), pointer(r), Align(bytes)), registerType(element), 1, one);
      regs[r] = one[0];
    }
    for (unsigned r = 0; r < regs.size(); ++r) regs[r] = regs[first[r]];
    return set(op.result(), regs);
  }
  Regs data = operand(op, 1);
  emitIf(isFirstHolder(layout), [&] {
    for (unsigned r = 0; r < index.size(); ++r)
      if (first[r] == r) b.CreateAlignedStore(pack(data[r], accessType(bytes)), pointer(r), Align(bytes));
  });
}

/// The view's layout counts from its own start.
void Generator::emitLocalSlice(const ir::Op &op) {
  ir::Type type = op.operand(0)->type;
  if (!type.sharedLayout()) return fail(op, "the buffer has no layout");
  std::vector<int64_t> bytes, units; // one, or one for each replica
  for (auto list = op.listAttr(ir::Attr::offsets); !list.empty(); list = list.drop_front(type.rank())) {
    const layout::Coord at(list.begin(), list.begin() + type.rank());
    bytes.push_back(type.sharedLayout()->offsetOf(at) * ir::scalarBytes(type.scalar()));
    if (bytes.back() % 16 == 0) units.push_back(bytes.back() / 16);
  }
  RegList regs{b.CreateAdd(scalarOperand(op, 0), perReplica(bytes), "", true, true)};
  if (units.size() == bytes.size())
    regs.push_back(b.CreateAdd(bufferUnits(op.operand(0)), perReplica(units), "", true, true));
  set(op.result(), regs);
}

Generator::Addresses Generator::makeAddresses(const layout::AccessMap &map, unsigned bytes) {
  SmallVector<int64_t, 10> adds(threadBits());
  SmallVector<uint32_t, 10> xors(threadBits());
  auto place = [&](ArrayRef<layout::AccessMap::Part> parts, unsigned first) {
    for (unsigned i = 0; i < parts.size() && first + i < adds.size(); ++i) {
      adds[first + i] = parts[i].add * bytes;
      xors[first + i] = parts[i].xorBits * bytes;
    }
  };
  place(map.laneBases, 0);
  place(map.warpBases, laneBits());
  ThreadPart x = threadXor(xors);
  Value *sum = threadSum(adds);

  Addresses out;
  DenseMap<uint32_t, unsigned> index;
  for (const layout::AccessMap::Part &reg : map.registers) {
    const uint32_t own = reg.xorBits * bytes;
    auto [it, fresh] = index.try_emplace(own, out.byXor.size());
    if (fresh)
      out.byXor.push_back(inPrologue([&] {
        Value *v = own ? b.CreateXor(x.value, own) : x.value;
        return b.CreateAdd(v, sum, "", true, true);
      }));
    out.registers.push_back({it->second, reg.add * bytes});
  }
  return out;
}

const Generator::LocalPlan *Generator::localPlan(const ir::Op &op, const layout::TileLayout *regs,
                                                 const layout::SharedLayout *mem, unsigned bits, bool matrices) {
  AddressKey key(regs, mem, bits, matrices);
  if (auto it = scope.localPlans.find(key); it != scope.localPlans.end()) return &it->second;
  if (!regs || !mem) return fail(op, "no layout"), nullptr;
  LocalPlan plan;
  if (matrices) plan.matrix = layout::matrixPlan(*regs, *mem, bits);
  if (plan.matrix) {
    plan.addresses = makeAddresses(plan.matrix->address, bits / 8);
  } else {
    std::optional<layout::AccessMap> map = layout::accessMap(*regs, *mem);
    if (!map) return fail(op, "the tile's layout and the buffer's do not fit"), nullptr;
    plan.vector = layout::vectorPlan(*regs, *mem, bits);
    plan.addresses = makeAddresses(*map, bits / 8);
  }
  return &(scope.localPlans[key] = std::move(plan));
}

Value *Generator::address(const Addresses &addresses, unsigned index, AddressCache &cache) {
  auto [part, add] = addresses.registers[index];
  auto *constant = dyn_cast<ConstantInt>(cache.buffer);
  cache.pointers.resize(addresses.byXor.size());
  Value *&pointer = cache.pointers[part];
  if (!pointer) {
    Value *offset = constant ? addresses.byXor[part] : b.CreateAdd(cache.buffer, addresses.byXor[part], "", true, true);
    pointer = b.CreateGEP(b.getInt8Ty(), smemBase(), offset);
  }
  // The rest is an immediate of the instruction.
  if (constant) add += constant->getSExtValue();
  return add ? b.CreateGEP(b.getInt8Ty(), pointer, b.getInt32(unsigned(add))) : pointer;
}

void Generator::emitLocalLoad(const ir::Op &op) {
  ir::Type type = op.result()->type, buffer = op.operand(0)->type;
  const unsigned bits = memoryBits(type.element());
  if (!type.isTile()) { // the one element
    RegList one;
    unpack(b.CreateAlignedLoad(accessType(bits / 8), sharedPointer(scalarOperand(op, 0)), Align(bits / 8)),
           registerType(type), 1, one);
    return set(op.result(), {uniform(one[0])});
  }
  const LocalPlan *plan = localPlan(op, type.layout(), buffer.sharedLayout(), bits, target.ldmatrix);
  if (!plan) return;
  llvm::Type *element = registerType(type.element());
  AddressCache cache{scalarOperand(op, 0), {}};
  RegList regs(type.layout()->registers(), nullptr), part;
  if (plan->matrix) {
    const layout::MatrixPlan &m = *plan->matrix;
    const unsigned per = 32 / bits;
    const std::string name = "tlx.nv.ldmatrix.x" + std::to_string(m.count) + (m.transposed ? ".trans" : "");
    for (unsigned i = 0; i < m.order.size() / m.count; ++i) {
      Value *words = device(name, address(plan->addresses, i, cache));
      for (unsigned k = 0; k < m.count; ++k) {
        Value *word = m.count == 1 ? words : b.CreateExtractElement(words, uint64_t(k));
        part.clear();
        unpack(word, element, per, part);
        std::copy(part.begin(), part.end(), regs.begin() + m.order[i * m.count + k] * per);
      }
    }
    return set(op.result(), regs);
  }
  const layout::VectorPlan &v = plan->vector;
  const unsigned bytes = v.vector * bits / 8;
  ArrayRef<unsigned> first = canonicalRegisters(*type.layout());
  for (unsigned i = 0; i < v.order.size(); i += v.vector) {
    if (first[v.order[i]] != v.order[i]) continue; // copies
    Value *value = b.CreateAlignedLoad(accessType(bytes), address(plan->addresses, v.order[i], cache), Align(bytes));
    part.clear();
    unpack(value, element, v.vector, part);
    for (unsigned k = 0; k < v.vector; ++k) regs[v.order[i + k]] = part[k];
  }
  for (unsigned r = 0; r < regs.size(); ++r) regs[r] = regs[first[r]];
  set(op.result(), regs);
}

void Generator::emitLocalStore(const ir::Op &op) {
  ir::Type type = op.operand(1)->type;
  if (!type.isTile()) {
    emitIf(threadMaskIsZero(threads() - 1), [&] {
      const unsigned bytes = memoryBits(type) / 8;
      b.CreateAlignedStore(pack(operand(op, 1), accessType(bytes)), sharedPointer(scalarOperand(op, 0)), Align(bytes));
    });
    return;
  }
  storeRegisters(op, op.operand(0), operand(op, 1), type.element(), type.layout());
}

void Generator::storeRegisters(const ir::Op &op, const ir::Value *buffer, Regs values, ir::Type element,
                               const layout::TileLayout *layout) {
  const unsigned bits = memoryBits(element);
  const LocalPlan *plan =
      localPlan(op, layout, buffer->type.sharedLayout(), bits, target.stmatrix && !element.isPointer());
  if (!plan) return;
  AddressCache cache{get(buffer).front(), {}};
  // Threads that hold copies stay out: their stores would be work for nothing, and a race in the eyes of a checker.
  // stmatrix needs whole warps.
  unsigned redundant = redundantThreads(layout);
  if (plan->matrix) redundant &= ~(module.kernel.warpSize - 1);
  emitIf(redundant ? threadMaskIsZero(redundant) : nullptr, [&] {
    if (plan->matrix) {
      const layout::MatrixPlan &m = *plan->matrix;
      const unsigned per = 32 / bits;
      const std::string name = "tlx.nv.stmatrix.x" + std::to_string(m.count) + (m.transposed ? ".trans" : "");
      for (unsigned i = 0; i < m.order.size() / m.count; ++i) {
        RegList words;
        for (unsigned k = 0; k < m.count; ++k)
          words.push_back(pack(values.slice(m.order[i * m.count + k] * per, per), b.getInt32Ty()));
        Value *pointer = address(plan->addresses, i, cache);
        device(name, {pointer, m.count == 1 ? words[0] : pack(words, FixedVectorType::get(b.getInt32Ty(), m.count))});
      }
      return;
    }
    const layout::VectorPlan &v = plan->vector;
    const unsigned bytes = v.vector * bits / 8;
    ArrayRef<unsigned> first = canonicalRegisters(*layout);
    for (unsigned i = 0; i < v.order.size(); i += v.vector) {
      if (first[v.order[i]] != v.order[i]) continue;
      RegList part;
      for (unsigned k = 0; k < v.vector; ++k) part.push_back(values[v.order[i + k]]);
      Value *pointer = address(plan->addresses, v.order[i], cache);
      b.CreateAlignedStore(pack(part, accessType(bytes)), pointer, Align(bytes));
    }
  });
}

// cp.async where it exists and the copy has one of its sizes; else a load and a store, which are complete at once (the
// waits are then nothing, and the barrier that follows them orders the stores).
void Generator::emitAsyncCopy(const ir::Op &op) {
  ir::Type pointerType = op.operand(1)->type, buffer = op.operand(0)->type;
  const layout::TileLayout *layout = pointerType.layout();
  ir::Type element = buffer.context().scalar(pointerType.scalar());
  const unsigned bits = memoryBits(element);
  Regs pointers = operand(op, 1), mask = op.numOperands() > 2 ? operand(op, 2) : Regs(),
       other = op.numOperands() > 3 ? operand(op, 3) : Regs();
  if (!layout || !buffer.sharedLayout()) return fail(op, "no layout");
  const unsigned wanted = unsigned(op.intAttr(ir::Attr::vec, 1));
  // Copies write zeros where the mask is false: another value goes through registers.
  if (unsigned direct = layout::directVector(*layout, *buffer.sharedLayout(), bits, wanted, target.directToLds);
      direct && other.empty())
    return emitDirectCopy(op, direct);

  unsigned vec = 1u << Log2_32(unsigned(std::clamp<int64_t>(op.intAttr(ir::Attr::vec, 1), 1, 128 / bits)));
  std::optional<layout::AccessMap> map = layout::accessMap(*layout, *buffer.sharedLayout());
  if (!map) return fail(op, "the tile's layout and the buffer's do not fit");
  // vec registers in order must lie in order and aligned in the buffer too, for every thread.
  auto fits = [&](unsigned v) {
    auto aligned = [&](const layout::AccessMap::Part &p) { return p.add % v == 0 && p.xorBits % v == 0; };
    if (!all_of(map->laneBases, aligned) || !all_of(map->warpBases, aligned)) return false;
    for (unsigned r = 0; r < map->registers.size(); ++r) {
      const auto &first = map->registers[r - r % v], &own = map->registers[r];
      if (!aligned(first) || own.xorBits != first.xorBits || own.add != first.add + r % v) return false;
    }
    return map->registers.size() % v == 0;
  };
  while (vec > 1 && !fits(vec)) vec /= 2;
  const unsigned bytes = vec * bits / 8;
  if (!target.cpAsync || bytes < 4 || !other.empty()) {
    RegList loaded = loadRegisters(op, pointers, mask, other, element, layout);
    return storeRegisters(op, op.operand(0), loaded, element, layout);
  }
  const LocalPlan *plan = localPlan(op, layout, buffer.sharedLayout(), bits, false);
  if (!plan) return;
  const std::string name = std::string("tlx.nv.cp.async.") + (bytes == 16 ? "cg.16" : bytes == 8 ? "ca.8" : "ca.4");
  AddressCache cache{scalarOperand(op, 0), {}};
  ArrayRef<unsigned> first = canonicalRegisters(*layout);
  emitIf(isFirstHolder(layout), [&] {
    for (unsigned r = 0; r < pointers.size(); r += vec) {
      if (first[r] != r) continue;
      Value *size = b.getInt32(bytes);
      if (mask.size() > 1 && op.intAttr(ir::Attr::prefix)) { // as many bytes as the mask keeps
        size = b.getInt32(0);
        for (unsigned i = r; i < r + vec; ++i)
          size = b.CreateAdd(size, b.CreateSelect(mask[i], b.getInt32(bits / 8), b.getInt32(0)));
      } else if (!mask.empty()) {
        size = b.CreateSelect(mask.size() == 1 ? mask[0] : mask[r], size, b.getInt32(0));
      }
      device(name, {address(plan->addresses, r, cache), pointers[r], size});
    }
  });
}

void Generator::emitAsync(const ir::Op &op) {
  if (target.directToLds) return emitCountedWait(op);
  if (!target.cpAsync) return;
  if (op.is(ir::Opcode::AsyncCommit))
    device("tlx.nv.cp.async.commit", {});
  else
    device("tlx.nv.cp.async.wait", b.getInt32(unsigned(op.intAttr(ir::Attr::pending))));
}

void Generator::emitBarrier(const ir::Op *op) {
  if (op && op->hasAttr(ir::Attr::counted)) return emitCountedBarrier();
  if (nvidia()) {
    if (scope.warps == 1 && !taskRegions.empty()) {
      device("tlx.nv.bar.warp.sync", {b.getInt32(~0u)});
      return;
    }
    while (scope.barriers.size() < scope.replicas) scope.barriers.push_back(freeBarrier());
    device("tlx.nv.bar.sync", {perReplica(scope.barriers), b.getInt32(threads())});
    return;
  }
  device("tlx.amd.fence.release", {});
  device("tlx.amd.s.barrier", {});
  device("tlx.amd.fence.acquire", {});
}

} // namespace tlx::codegen
