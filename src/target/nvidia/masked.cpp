// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Masked accesses as one predicated PTX instruction:
//   masked.load T (p, mask, other)  →  @mask ld.global.v4.b32 {…}, [p];   the results tied to `other`
//   masked.store T (p, mask, value) →  @mask st.global.v4.b32 [p], {…};
// A hint of the cache ("tlx.hint" of the call: ".cg", ".L1::evict_first") stands behind ld.global, with or without a
// mask. A branch instead would cost a divergence point an access, and ptxas would not combine them.
#include "llvm/IR/InlineAsm.h"

#include "target/nvidia/nvidia_p.h"

using namespace llvm;

namespace tlx::target::nvidia {

namespace {
/// How a type of 1 to 16 bytes travels: `count` registers of `bits`.
struct Pieces {
  unsigned count, bits;
  char constraint;    // inline-asm register class
  Type *type;         // of a register
  std::string suffix; // ".v4.b32"
};

Pieces piecesOf(Type *type) {
  LLVMContext &context = type->getContext();
  unsigned total = type->isPointerTy() ? 64 : type->getPrimitiveSizeInBits().getFixedValue();
  bool wide = type->getScalarType()->isPointerTy() || type->getScalarSizeInBits() == 64;
  unsigned bits = total >= 32 && !(wide && total >= 64) ? 32 : std::min(total, 64u);
  Pieces p{total / bits, bits, bits == 64 ? 'l' : bits == 32 ? 'r' : 'h', nullptr, ""};
  // PTX has no 8-bit register: ld.b8 and st.b8 use a 16-bit one.
  p.type = Type::getIntNTy(context, std::max(bits, 16u));
  if (p.count > 1) p.suffix = ".v" + std::to_string(p.count);
  p.suffix += ".b" + std::to_string(bits);
  return p;
}

/// The value as `count` registers.
void split(IRBuilder<> &b, Value *v, const Pieces &p, SmallVectorImpl<Value *> &out) {
  Type *piece = b.getIntNTy(p.bits);
  if (v->getType()->isPointerTy()) v = b.CreatePtrToInt(v, b.getInt64Ty());
  Type *shape = p.count > 1 ? static_cast<Type *>(FixedVectorType::get(piece, p.count)) : piece;
  v = b.CreateBitCast(v, shape);
  if (p.bits == 8) v = b.CreateZExt(v, p.type);
  flatten(b, v, out);
}

Value *join(IRBuilder<> &b, Value *v, const Pieces &p, Type *type) {
  if (p.bits == 8) v = b.CreateTrunc(v, b.getInt8Ty());
  return reinterpret(b, v, type);
}

std::string registers(unsigned first, unsigned count) {
  std::string text;
  for (unsigned i = 0; i < count; ++i) text += (i ? ", $" : "$") + std::to_string(first + i);
  return count > 1 ? "{" + text + "}" : text;
}

Align naturalAlign(Type *type) {
  return Align(type->isPointerTy() ? 8 : type->getPrimitiveSizeInBits().getFixedValue() / 8);
}
} // namespace

/// ".cg", ".L1::evict_first", or nothing.
static std::string hintOf(Expansion &e) {
  const std::string hint =
      e.call->getFnAttr("tlx.hint").isValid() ? e.call->getFnAttr("tlx.hint").getValueAsString().str() : "";
  if (StringRef(hint).starts_with(".L1::")) requirePtx(e, 74);
  return hint;
}

Value *expandMaskedLoad(Expansion &e) {
  Type *type = e.call->getType();
  if (!checkAccessType(e, type)) return nullptr;
  const std::string hint = hintOf(e);
  if (auto *mask = dyn_cast<ConstantInt>(e.arg(1)); mask && (mask->isZero() || hint.empty()))
    return mask->isOne() ? e.b.CreateAlignedLoad(type, e.arg(0), naturalAlign(type)) : e.arg(2);
  Pieces p = piecesOf(type);
  SmallVector<Value *, 8> args{e.arg(1), e.arg(0)};
  split(e.b, e.arg(2), p, args);
  SmallVector<Type *, 8> types;
  for (Value *v : args) types.push_back(v->getType());
  Type *result = p.count > 1
                     ? static_cast<Type *>(StructType::get(e.b.getContext(), SmallVector<Type *, 4>(p.count, p.type)))
                     : p.type;
  std::string text = "@$" + std::to_string(p.count) + " ld.global" + hint + p.suffix + " " + registers(0, p.count) +
                     ", [$" + std::to_string(p.count + 1) + "];";
  std::string constraints;
  for (unsigned i = 0; i < p.count; ++i) constraints += std::string("=") + p.constraint + ",";
  constraints += "b,l";
  for (unsigned i = 0; i < p.count; ++i) constraints += "," + std::to_string(i);
  // "sideeffect" orders it in the back end, where inline assembly has no memory operands; the IR passes go by the
  // attributes, which say that it only reads.
  CallInst *load = e.b.CreateCall(
      InlineAsm::get(FunctionType::get(result, types, false), text, constraints, /*hasSideEffects=*/true), args);
  load->setOnlyReadsMemory();
  load->setDoesNotThrow();
  load->addFnAttr(Attribute::WillReturn);
  return join(e.b, load, p, type);
}

Value *expandMaskedStore(Expansion &e) {
  Value *value = e.arg(2);
  Type *type = value->getType();
  if (!checkAccessType(e, type)) return nullptr;
  const std::string hint = hintOf(e);
  if (auto *mask = dyn_cast<ConstantInt>(e.arg(1)); mask && (mask->isZero() || hint.empty())) {
    if (mask->isOne()) e.b.CreateAlignedStore(value, e.arg(0), naturalAlign(type));
    return nullptr;
  }
  Pieces p = piecesOf(type);
  SmallVector<Value *, 8> args{e.arg(1), e.arg(0)};
  split(e.b, value, p, args);
  SmallVector<Type *, 8> types;
  for (Value *v : args) types.push_back(v->getType());
  std::string text = "@$0 st.global" + hint + p.suffix + " [$1], " + registers(2, p.count) + ";";
  std::string constraints = "b,l";
  for (unsigned i = 0; i < p.count; ++i) constraints += std::string(",") + p.constraint;
  constraints += ",~{memory}";
  CallInst *store = e.b.CreateCall(
      InlineAsm::get(FunctionType::get(e.b.getVoidTy(), types, false), text, constraints, /*hasSideEffects=*/true),
      args);
  store->setDoesNotThrow();
  store->addFnAttr(Attribute::WillReturn);
  return nullptr;
}

} // namespace tlx::target::nvidia
