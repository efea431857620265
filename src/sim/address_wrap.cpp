// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A shadow for index arithmetic: next to every i32 add, sub, mul, shl that may wrap and can reach a global address
// stands an i32 that holds the site of the first operation that did. It follows the value through phis, selects,
// extensions and further arithmetic, and the access that uses the address looks at it. So a wrap whose access is masked
// off is no finding.
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Operator.h"

#include "sim/instrument.h"

using namespace llvm;

namespace tlx::sim {

namespace {
constexpr unsigned kMaxDepth = 48; // of the walk back from an address

bool isIndexArithmetic(unsigned opcode) {
  return opcode == Instruction::Add || opcode == Instruction::Sub || opcode == Instruction::Mul ||
         opcode == Instruction::Shl;
}

/// Whether the operation itself can wrap in a way that is a mistake. Unsigned subtraction and adding a negative
/// constant go below zero on the way to a right result, so they do not count there.
bool mayWrap(BinaryOperator &op, bool isSigned) {
  if (!op.getType()->isIntegerTy(32) || !isIndexArithmetic(op.getOpcode())) return false;
  if (isSigned ? op.hasNoSignedWrap() : op.hasNoUnsignedWrap()) return false;
  if (isSigned) return true;
  if (op.getOpcode() == Instruction::Sub) return false;
  auto *c = dyn_cast<ConstantInt>(op.getOperand(1));
  return !(op.getOpcode() == Instruction::Add && c && c->isNegative());
}

/// The operands through which a wrap passes on to `value`, with the signedness in which they are seen.
template <typename Visit> void forEachSource(Value *value, bool isSigned, Visit visit) {
  auto *inst = dyn_cast<Instruction>(value);
  if (!inst) return;
  if (auto *gep = dyn_cast<GetElementPtrInst>(inst)) {
    visit(gep->getPointerOperand(), isSigned);
    for (Value *index : gep->indices()) visit(index, true); // an i32 index is sign-extended
  } else if (isa<SExtInst>(inst)) {
    visit(inst->getOperand(0), true);
  } else if (isa<ZExtInst>(inst)) {
    visit(inst->getOperand(0), false);
  } else if (isa<IntToPtrInst, PtrToIntInst, AddrSpaceCastInst, FreezeInst, BitCastInst>(inst)) {
    visit(inst->getOperand(0), isSigned);
  } else if (auto *select = dyn_cast<SelectInst>(inst)) {
    visit(select->getTrueValue(), isSigned);
    visit(select->getFalseValue(), isSigned);
  } else if (auto *phi = dyn_cast<PHINode>(inst)) {
    for (Value *v : phi->incoming_values()) visit(v, isSigned);
  } else if (isIndexArithmetic(inst->getOpcode()) || inst->getOpcode() == Instruction::Or) {
    visit(inst->getOperand(0), isSigned);
    visit(inst->getOperand(1), isSigned);
  }
}

bool isScalar(Type *t) {
  return t->isIntegerTy(32) || t->isIntegerTy(64) || t->isPointerTy();
}
} // namespace

/// Without this look ahead every address would carry shadows that are always 0.
bool WrapShadow::reaches(Value *value, bool isSigned, unsigned depth) {
  if (!isa<Instruction>(value) || !isScalar(value->getType()) || depth > kMaxDepth) return false;
  auto [it, isNew] = known.try_emplace({value, isSigned}, false); // false while on the way: a cycle adds nothing
  if (!isNew) return it->second;
  bool result = reachesUncached(value, isSigned, depth);
  return known[{value, isSigned}] = result;
}

bool WrapShadow::reachesUncached(Value *value, bool isSigned, unsigned depth) {
  if (auto *op = dyn_cast<BinaryOperator>(value); op && mayWrap(*op, isSigned)) return true;
  bool any = false;
  forEachSource(value, isSigned, [&](Value *v, bool s) { any = any || reaches(v, s, depth + 1); });
  return any;
}

Value *WrapShadow::ofPointer(Value *pointer) {
  return reaches(pointer, true, 0) ? shadow(pointer, true, 0) : nullptr;
}

Value *WrapShadow::shadow(Value *value, bool isSigned, unsigned depth) {
  if (!isa<Instruction>(value) || !isScalar(value->getType()) || depth > kMaxDepth) return nullptr;
  if (auto it = made.find({value, isSigned}); it != made.end()) return it->second;
  Value *result = compute(value, isSigned, depth);
  made[{value, isSigned}] = result;
  return result;
}

Value *WrapShadow::compute(Value *value, bool isSigned, unsigned depth) {
  auto &inst = *cast<Instruction>(value);
  Type *i32 = Type::getInt32Ty(inst.getContext());
  Constant *none = ConstantInt::get(i32, 0);
  auto orNone = [&](Value *v) { return v ? v : none; };

  if (auto *phi = dyn_cast<PHINode>(&inst)) {
    // Entered before its operands: a loop's phi is its own source.
    auto *shadowPhi = PHINode::Create(i32, phi->getNumIncomingValues(), "wrap", phi->getIterator());
    made[{value, isSigned}] = shadowPhi;
    for (unsigned i = 0; i < phi->getNumIncomingValues(); ++i)
      shadowPhi->addIncoming(orNone(shadow(phi->getIncomingValue(i), isSigned, depth + 1)), phi->getIncomingBlock(i));
    return shadowPhi;
  }

  SmallVector<Value *, 4> sources;
  forEachSource(&inst, isSigned, [&](Value *v, bool s) { sources.push_back(shadow(v, s, depth + 1)); });
  IRBuilder<> b(inst.getNextNode());
  if (auto *select = dyn_cast<SelectInst>(&inst)) {
    if (!sources[0] && !sources[1]) return nullptr;
    return b.CreateSelect(select->getCondition(), orNone(sources[0]), orNone(sources[1]));
  }
  Value *result = nullptr;
  for (Value *s : sources) {
    if (!s || s == result) continue;
    result = result ? b.CreateSelect(b.CreateICmpNE(result, none), result, s) : s;
  }
  auto *op = dyn_cast<BinaryOperator>(&inst);
  if (!op || !mayWrap(*op, isSigned)) return result;

  // In 64 bits nothing wraps: compare with the extended result. (A shift by 32 or more is not defined, whatever the
  // check says.)
  Type *i64 = b.getInt64Ty();
  auto extend = [&](Value *v) { return isSigned ? b.CreateSExt(v, i64) : b.CreateZExt(v, i64); };
  Value *right = op->getOpcode() == Instruction::Shl ? b.CreateAnd(b.CreateZExt(op->getOperand(1), i64), 31)
                                                     : extend(op->getOperand(1));
  Value *wide = b.CreateBinOp(op->getOpcode(), extend(op->getOperand(0)), right);
  Value *wrapped = b.CreateICmpNE(wide, extend(op));
  return b.CreateSelect(wrapped, b.getInt32(makeSite(inst)), orNone(result));
}

} // namespace tlx::sim
