// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Global memory: loads and stores. An access takes {vec} registers in order, at most 16 bytes; {vec} promises that they
// are consecutive and aligned in memory and that their mask is one. With {prefix} the mask may keep only the first of
// them: the access is a whole one where the last is true, and what is left of a tile's edge is done an element at a
// time, in a block that a program enters only where there is an edge.
#include "codegen/codegen_p.h"
#include "device_ops/device_ops.h"

using namespace llvm;

namespace tlx::codegen {

llvm::Type *Generator::accessType(unsigned bytes) {
  return bytes <= 4 ? static_cast<llvm::Type *>(b.getIntNTy(bytes * 8))
                    : FixedVectorType::get(b.getInt32Ty(), bytes / 4);
}

Value *Generator::pack(Regs values, llvm::Type *type) {
  llvm::Type *element = values[0]->getType();
  if (element->isIntegerTy(1)) { // a byte in memory
    RegList bytes;
    for (Value *v : values) bytes.push_back(b.CreateZExt(v, b.getInt8Ty()));
    return pack(bytes, type);
  }
  if (values.size() == 1) return b.CreateBitCast(values[0], type);
  if (all_of(values, [](Value *v) { return isa<Constant>(v) && cast<Constant>(v)->isNullValue(); }))
    return Constant::getNullValue(type);
  // What unpack took apart is used whole: fragments pass from ldmatrix to mma so.
  if (auto *first = dyn_cast<ExtractElementInst>(values[0])) {
    Value *vector = first->getVectorOperand();
    bool whole = cast<FixedVectorType>(vector->getType())->getNumElements() == values.size();
    for (unsigned i = 0; whole && i < values.size(); ++i) {
      auto *e = dyn_cast<ExtractElementInst>(values[i]);
      auto *index = e ? dyn_cast<ConstantInt>(e->getIndexOperand()) : nullptr;
      whole = index && e->getVectorOperand() == vector && index->getZExtValue() == i;
    }
    if (whole) {
      if (auto *bits = dyn_cast<BitCastInst>(vector); bits && bits->getOperand(0)->getType() == type)
        return bits->getOperand(0);
      return b.CreateBitCast(vector, type);
    }
  }
  Value *vector = PoisonValue::get(FixedVectorType::get(element, values.size()));
  for (unsigned i = 0; i < values.size(); ++i) vector = b.CreateInsertElement(vector, values[i], uint64_t(i));
  return b.CreateBitCast(vector, type);
}

void Generator::unpack(Value *value, llvm::Type *element, unsigned count, SmallVectorImpl<Value *> &out) {
  const bool boolean = element->isIntegerTy(1);
  llvm::Type *stored = boolean ? b.getInt8Ty() : element;
  auto add = [&](Value *v) { out.push_back(boolean ? b.CreateICmpNE(v, b.getInt8(0)) : v); };
  if (count == 1) return add(b.CreateBitCast(value, stored));
  Value *vector = b.CreateBitCast(value, FixedVectorType::get(stored, count));
  for (unsigned i = 0; i < count; ++i) add(b.CreateExtractElement(vector, uint64_t(i)));
}

static unsigned registersPerAccess(const ir::Op &op, unsigned registers, unsigned bytes) {
  unsigned vec = unsigned(std::max<int64_t>(1, op.intAttr(ir::Attr::vec, 1)));
  vec = std::min({vec, registers, std::max(1u, 16 / bytes)});
  return 1u << Log2_32(vec);
}

std::string Generator::hintOf(const ir::Op &op) {
  const StringRef cache = op.strAttr(ir::Attr::cache), eviction = op.strAttr(ir::Attr::eviction);
  const bool isDefault = cache == (op.is(ir::Opcode::Load) ? "ca" : "wb");
  if (nvidia()) return cache.empty() ? eviction.empty() ? "" : ".L1::" + eviction.str() : "." + cache.str();
  // AMD: what is used once is marked as such (nt). The other levels have no bits of their own that a kernel may set.
  if (cache == "cs" || eviction == "evict_first" || eviction == "no_allocate") return ".nt";
  if (!isDefault && !(cache.empty() && eviction.empty()))
    diagnostics.report(Diag::CgHint, op.loc, cache.empty() ? "eviction" : "cache",
                       cache.empty() ? eviction.str() : cache.str(), target.name);
  return "";
}

Value *Generator::hinted(Value *call, StringRef hint) {
  if (!hint.empty()) cast<CallInst>(call)->addFnAttr(Attribute::get(context, "tlx.hint", hint));
  return call;
}

void Generator::emitEdges(ArrayRef<Edge> edges, function_ref<void(const Edge &)> emit) {
  if (edges.empty()) return;
  Value *any = edges[0].cut;
  for (const Edge &edge : edges.drop_front()) any = b.CreateOr(any, edge.cut);
  edgeFrom = b.GetInsertBlock();
  emitIf(any, [&] {
    for (const Edge &edge : edges) emit(edge);
    edgeBlock = b.GetInsertBlock();
  });
}

Value *Generator::mergeEdge(Value *whole, Value *part) {
  if (b.GetInsertBlock() == edgeFrom) return part; // the branch was decided at compile time
  PHINode *phi = b.CreatePHI(whole->getType(), 2);
  phi->addIncoming(whole, edgeFrom);
  phi->addIncoming(part, edgeBlock);
  return phi;
}

RegList Generator::loadRegisters(const ir::Op &op, Regs pointers, Regs mask, Regs other, ir::Type element,
                                 const layout::TileLayout *layout) {
  const unsigned bytes = ir::scalarBytes(element.scalar()), n = pointers.size();
  const unsigned per = registersPerAccess(op, n, bytes);
  llvm::Type *type = accessType(bytes * per);
  const std::string name = "tlx.masked.load." + device_ops::nameOfType(type);
  const std::string hint = hintOf(op);
  ArrayRef<unsigned> first = layout ? canonicalRegisters(*layout) : ArrayRef<unsigned>();
  const bool prefix = per > 1 && mask.size() > 1 && op.intAttr(ir::Attr::prefix);
  RegList regs;
  SmallVector<Edge, 8> edges;
  auto at = [](Regs r, unsigned i) { return r.size() == 1 ? r[0] : r[i]; };
  for (unsigned r = 0; r < n; r += per) {
    if (layout && first[r] != r) { // copies, filled in below
      for (unsigned i = r; i < r + per; ++i) regs.push_back(nullptr);
      continue;
    }
    Value *pointer = pointers[r], *m = mask.empty() ? b.getTrue() : at(mask, prefix ? r + per - 1 : r);
    if (prefix) edges.push_back({r, b.CreateAnd(mask[r], b.CreateNot(m))});
    auto *constant = dyn_cast<ConstantInt>(m);
    if (constant && constant->isOne() && hint.empty()) {
      unpack(b.CreateAlignedLoad(type, pointer, Align(bytes * per)), registerType(element), per, regs);
      continue;
    }
    RegList rest;
    for (unsigned i = r; i < r + per; ++i)
      rest.push_back(other.empty() ? Constant::getNullValue(registerType(element)) : at(other, i));
    if (constant && constant->isZero())
      regs.append(rest.begin(), rest.end());
    else
      unpack(hinted(device(name, {pointer, m, pack(rest, type)}), hint), registerType(element), per, regs);
  }
  if (!edges.empty()) {
    RegList parts;
    const std::string one = "tlx.masked.load." + device_ops::nameOfType(accessType(bytes));
    emitEdges(edges, [&](const Edge &edge) {
      for (unsigned i = edge.first; i + 1 < edge.first + per; ++i) { // the last is not of a part
        Value *m = b.CreateAnd(edge.cut, mask[i]),
              *loaded = hinted(device(one, {pointers[i], m, pack(regs[i], accessType(bytes))}), hint);
        unpack(loaded, registerType(element), 1, parts);
      }
    });
    unsigned next = 0;
    for (const Edge &edge : edges)
      for (unsigned i = edge.first; i + 1 < edge.first + per && !parts.empty();
           ++i) // none: no edge, known while compiling
        regs[i] = mergeEdge(regs[i], parts[next++]);
  }
  for (unsigned r = 0; layout && r < n; ++r)
    if (!regs[r]) regs[r] = regs[first[r]];
  return regs;
}

void Generator::emitLoad(const ir::Op &op) {
  ir::Type type = op.result()->type;
  set(op.result(), loadRegisters(op, operand(op, 0), op.numOperands() > 1 ? operand(op, 1) : Regs(),
                                 op.numOperands() > 2 ? operand(op, 2) : Regs(), type.element(),
                                 type.isTile() ? type.layout() : nullptr));
}

void Generator::emitStore(const ir::Op &op) {
  ir::Type pointerType = op.operand(0)->type;
  const layout::TileLayout *layout = pointerType.isTile() ? pointerType.layout() : nullptr;
  const unsigned bytes = ir::scalarBytes(pointerType.scalar());
  Regs pointers = operand(op, 0), data = operand(op, 1), mask = op.numOperands() > 2 ? operand(op, 2) : Regs();
  const unsigned per = registersPerAccess(op, pointers.size(), bytes);
  llvm::Type *type = accessType(bytes * per);
  const std::string name = "tlx.masked.store." + device_ops::nameOfType(type);
  const bool prefix = per > 1 && mask.size() > 1 && op.intAttr(ir::Attr::prefix);
  Value *mine = isFirstHolder(layout);
  const std::string hint = hintOf(op);
  ArrayRef<unsigned> first = layout ? canonicalRegisters(*layout) : ArrayRef<unsigned>();
  SmallVector<Edge, 8> edges;
  for (unsigned r = 0; r < pointers.size(); r += per) {
    if (layout && first[r] != r) continue;
    RegList part;
    for (unsigned i = r; i < r + per; ++i) part.push_back(data.size() == 1 ? data[0] : data[i]);
    Value *m = mask.empty() ? b.getTrue() : mask.size() == 1 ? mask[0] : mask[prefix ? r + per - 1 : r];
    if (prefix) {
      Value *cut = b.CreateAnd(mask[r], b.CreateNot(m));
      edges.push_back({r, mine ? b.CreateAnd(cut, mine) : cut});
    }
    if (mine) m = b.CreateAnd(m, mine);
    auto *constant = dyn_cast<ConstantInt>(m);
    if (constant && constant->isZero()) continue;
    Value *value = pack(part, type);
    if (constant && hint.empty())
      b.CreateAlignedStore(value, pointers[r], Align(bytes * per));
    else
      hinted(device(name, {pointers[r], m, value}), hint);
  }
  const std::string one = "tlx.masked.store." + device_ops::nameOfType(accessType(bytes));
  emitEdges(edges, [&](const Edge &edge) {
    for (unsigned i = edge.first; i + 1 < edge.first + per; ++i)
      hinted(device(one, {pointers[i], b.CreateAnd(edge.cut, mask[i]),
                          pack(data.size() == 1 ? data[0] : data[i], accessType(bytes))}),
             hint);
  });
}

} // namespace tlx::codegen
