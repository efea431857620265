// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Atomics with an order or a scope. LLVM's NVPTX back end makes `atom` of an atomicrmw and drops both (a
// compare-and-swap keeps them, and so does an atomicrmw that becomes a loop of them), so what PTX has an instruction
// for is written here:
//   atomicrmw add ptr addrspace(1) p, i32 v syncscope("device") release  →  atom.release.gpu.global.add.u32
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"

#include "target/nvidia/nvidia_p.h"

using namespace llvm;

namespace tlx::target::nvidia {

namespace {
/// "add.noftz.f16"; empty where PTX has none, or none on this target.
std::string instructionOf(const AtomicRMWInst &rmw, const features::Target &target) {
  Type *type = rmw.getType();
  const unsigned bits = type->getPrimitiveSizeInBits();
  const std::string width = std::to_string(bits);
  const bool word = type->isIntegerTy() && (bits == 32 || bits == 64);
  switch (rmw.getOperation()) {
  case AtomicRMWInst::Add:
    return word ? "add.u" + width : "";
  case AtomicRMWInst::FAdd:
    if (type->isHalfTy()) return "add.noftz.f16";
    if (type->isBFloatTy()) return target.computeCapability >= 90 ? "add.noftz.bf16" : "";
    return "add.f" + width;
  case AtomicRMWInst::Min:
    return word ? "min.s" + width : "";
  case AtomicRMWInst::Max:
    return word ? "max.s" + width : "";
  case AtomicRMWInst::UMin:
    return word ? "min.u" + width : "";
  case AtomicRMWInst::UMax:
    return word ? "max.u" + width : "";
  case AtomicRMWInst::And:
    return word ? "and.b" + width : "";
  case AtomicRMWInst::Or:
    return word ? "or.b" + width : "";
  case AtomicRMWInst::Xor:
    return word ? "xor.b" + width : "";
  case AtomicRMWInst::Xchg:
    return bits == 32 || bits == 64 ? "exch.b" + width : "";
  default:
    return "";
  }
}
} // namespace

void orderAtomics(Function &kernel, const features::Target &target) {
  LLVMContext &context = kernel.getContext();
  const SyncScope::ID device = context.getOrInsertSyncScopeID("device"),
                      block = context.getOrInsertSyncScopeID("block");
  SmallVector<AtomicRMWInst *, 8> atomics;
  for (Instruction &i : instructions(kernel))
    if (auto *rmw = dyn_cast<AtomicRMWInst>(&i); rmw && rmw->getPointerAddressSpace() == 1)
      if (rmw->getOrdering() != AtomicOrdering::Monotonic || rmw->getSyncScopeID() != device) atomics.push_back(rmw);
  for (AtomicRMWInst *rmw : atomics) {
    const std::string instruction = instructionOf(*rmw, target);
    if (instruction.empty()) continue;
    const AtomicOrdering ordering = rmw->getOrdering();
    const char *order = ordering == AtomicOrdering::Acquire     ? "acquire"
                        : ordering == AtomicOrdering::Release   ? "release"
                        : ordering == AtomicOrdering::Monotonic ? "relaxed"
                                                                : "acq_rel";
    const char *scope = rmw->getSyncScopeID() == device ? "gpu" : rmw->getSyncScopeID() == block ? "cta" : "sys";
    IRBuilder<> b(rmw);
    Type *type = rmw->getType(), *travels = type;
    if (type->getPrimitiveSizeInBits() == 16) travels = b.getInt16Ty();
    const char *kind = travels->isFloatTy()       ? "f"
                       : travels->isDoubleTy()    ? "d"
                       : travels->isIntegerTy(64) ? "l"
                       : travels->isIntegerTy(16) ? "h"
                                                  : "r";
    const bool bits = instruction.find(".b") != std::string::npos && !travels->isIntegerTy() &&
                      instruction.find("bf16") == std::string::npos;
    if (bits)
      travels = b.getIntNTy(unsigned(type->getPrimitiveSizeInBits())),
      kind = travels->isIntegerTy(64) ? "l" : "r"; // exch of a float
    const std::string text = std::string("atom.") + order + "." + scope + ".global." + instruction + " $0, [$1], $2;";
    const std::string constraints = std::string("=") + kind + ",l," + kind + ",~{memory}";
    Value *pointer = rmw->getPointerOperand();
    auto *signature = FunctionType::get(travels, {pointer->getType(), travels}, false);
    CallInst *call = b.CreateCall(InlineAsm::get(signature, text, constraints, /*hasSideEffects=*/true),
                                  {pointer, b.CreateBitCast(rmw->getValOperand(), travels)});
    call->setDoesNotThrow();
    rmw->replaceAllUsesWith(b.CreateBitCast(call, type));
    rmw->eraseFromParent();
  }
}

} // namespace tlx::target::nvidia
