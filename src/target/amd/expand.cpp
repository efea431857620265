// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Device operations → LLVM's AMDGPU intrinsics. What LLVM 22 takes and what it makes of it on CDNA was tried form by
// form; the reasons for the attributes are measurements of a GEMM (spills and moves in its loop).
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/IntrinsicsAMDGPU.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"

#include "target/target_p.h"

using namespace llvm;

namespace tlx::target::amd {

namespace {
struct Direct {
  const char *name;
  Intrinsic::ID id;
  unsigned zeros = 0; // immediate operands behind the operation's own: cbsz, abid, blgp of MFMA
};

const Direct kDirect[] = {
    {"tlx.amd.workitem.id.x", Intrinsic::amdgcn_workitem_id_x},
    {"tlx.amd.workgroup.id.x", Intrinsic::amdgcn_workgroup_id_x},
    {"tlx.amd.workgroup.id.y", Intrinsic::amdgcn_workgroup_id_y},
    {"tlx.amd.workgroup.id.z", Intrinsic::amdgcn_workgroup_id_z},
    {"tlx.amd.s.barrier", Intrinsic::amdgcn_s_barrier},
    {"tlx.amd.ds.bpermute", Intrinsic::amdgcn_ds_bpermute},
    {"tlx.amd.readfirstlane", Intrinsic::amdgcn_readfirstlane},
    {"tlx.amd.ballot", Intrinsic::amdgcn_ballot},
    {"tlx.amd.mfma.f32.16x16x16.f16", Intrinsic::amdgcn_mfma_f32_16x16x16f16, 3},
    {"tlx.amd.mfma.f32.16x16x16.bf16", Intrinsic::amdgcn_mfma_f32_16x16x16bf16_1k, 3},
    {"tlx.amd.mfma.f32.32x32x8.f16", Intrinsic::amdgcn_mfma_f32_32x32x8f16, 3},
    {"tlx.amd.mfma.f32.32x32x8.bf16", Intrinsic::amdgcn_mfma_f32_32x32x8bf16_1k, 3},
    {"tlx.amd.mfma.f32.16x16x4.f32", Intrinsic::amdgcn_mfma_f32_16x16x4f32, 3},
    {"tlx.amd.mfma.f32.16x16x8.xf32", Intrinsic::amdgcn_mfma_f32_16x16x8_xf32, 3},
    {"tlx.amd.mfma.i32.16x16x32.i8", Intrinsic::amdgcn_mfma_i32_16x16x32_i8, 3},
    {"tlx.amd.mfma.i32.32x32x16.i8", Intrinsic::amdgcn_mfma_i32_32x32x16_i8, 3},
    {"tlx.amd.mfma.f64.16x16x4.f64", Intrinsic::amdgcn_mfma_f64_16x16x4f64, 3},
    {"tlx.amd.exp2", Intrinsic::amdgcn_exp2},
    {"tlx.amd.log2", Intrinsic::amdgcn_log},
    {"tlx.amd.rcp", Intrinsic::amdgcn_rcp},
    {"tlx.amd.rsq", Intrinsic::amdgcn_rsq},
};

const Direct *findDirect(StringRef name) {
  for (const Direct &row : kDirect)
    if (name == row.name) return &row;
  return nullptr;
}

/// One internal variable of the exact size: LLVM's waits for direct-to-LDS loads are exact with one variable only.
Value *sharedWindow(Module &module, unsigned bytes) {
  if (GlobalVariable *window = module.getNamedGlobal("tlx_lds")) return window;
  Type *type = ArrayType::get(Type::getInt8Ty(module.getContext()), bytes);
  auto *window = new GlobalVariable(module, type, false, GlobalValue::InternalLinkage, PoisonValue::get(type),
                                    "tlx_lds", nullptr, GlobalValue::NotThreadLocal, /*AddressSpace=*/3);
  window->setAlignment(Align(1024));
  return window;
}

Align naturalAlign(Type *type) {
  return Align(type->isPointerTy() ? 8 : type->getPrimitiveSizeInBits().getFixedValue() / 8);
}

/// A branch around a plain access. Neighbours with the same mask share one branch after SimplifyCFG.
Value *expandMaskedLoad(Expansion &e) {
  Type *type = e.call->getType();
  if (!checkAccessType(e, type)) return nullptr;
  if (auto *mask = dyn_cast<ConstantInt>(e.arg(1)))
    return mask->isOne() ? e.b.CreateAlignedLoad(type, e.arg(0), naturalAlign(type)) : e.arg(2);
  BasicBlock *before = e.call->getParent();
  Instruction *end = SplitBlockAndInsertIfThen(e.arg(1), e.call, /*Unreachable=*/false);
  end->setDebugLoc(e.call->getDebugLoc());
  IRBuilder<> then(end);
  then.SetCurrentDebugLocation(e.call->getDebugLoc());
  Value *loaded = then.CreateAlignedLoad(type, e.arg(0), naturalAlign(type));
  e.b.SetInsertPoint(e.call);
  PHINode *phi = e.b.CreatePHI(type, 2);
  phi->addIncoming(loaded, end->getParent());
  phi->addIncoming(e.arg(2), before);
  return phi;
}

Value *expandMaskedStore(Expansion &e) {
  Type *type = e.arg(2)->getType();
  if (!checkAccessType(e, type)) return nullptr;
  auto *mask = dyn_cast<ConstantInt>(e.arg(1));
  if (mask && mask->isZero()) return nullptr;
  Instruction *at = e.call;
  if (!mask) {
    at = SplitBlockAndInsertIfThen(e.arg(1), e.call, /*Unreachable=*/false);
    at->setDebugLoc(e.call->getDebugLoc());
  }
  IRBuilder<> b(at);
  b.SetCurrentDebugLocation(e.call->getDebugLoc());
  b.CreateAlignedStore(e.arg(2), e.arg(0), naturalAlign(type));
  return nullptr;
}

Value *expand(Expansion &e) {
  StringRef name = e.name();
  if (const Direct *row = findDirect(name)) {
    SmallVector<Value *, 8> args(e.call->args());
    for (unsigned i = 0; i < row->zeros; ++i) args.push_back(e.b.getInt32(0));
    SmallVector<Type *, 1> overloads;
    if (Intrinsic::isOverloaded(row->id)) overloads.push_back(e.call->getType());
    CallInst *made = e.intrinsic(row->id, args, overloads);
    return e.call->getType()->isVoidTy() ? nullptr : reinterpret(e.b, made, e.call->getType());
  }
  // Fences make LLVM wait for the wave's own LDS writes (lgkmcnt) before the barrier; s.barrier alone waits for
  // nothing.
  SyncScope::ID workgroup = e.b.getContext().getOrInsertSyncScopeID("workgroup");
  if (name == "tlx.amd.fence.release") return e.b.CreateFence(AtomicOrdering::Release, workgroup), nullptr;
  if (name == "tlx.amd.fence.acquire") return e.b.CreateFence(AtomicOrdering::Acquire, workgroup), nullptr;
  if (name == "tlx.smem.base")
    return sharedWindow(*e.call->getModule(), attributeNumber(*e.call->getFunction(), "tlx.shared-bytes", 0));
  if (name.starts_with("tlx.masked.load.")) return expandMaskedLoad(e);
  if (name.starts_with("tlx.masked.store.")) return expandMaskedStore(e);
  if (name == "tlx.trap") return e.b.CreateIntrinsic(Intrinsic::trap, {}), nullptr;
  if (name == "tlx.print")
    e.diags.report(Diag::TargetPrint, e.loc(), e.target.name);
  else
    e.diags.report(Diag::Internal, e.loc(), "no expansion of '" + name.str() + "' for " + e.target.name);
  return nullptr;
}

/// AMD's stack is address space 5; generic pointers to it cost a conversion, which InferAddressSpaces removes.
void moveAllocas(Module &module) {
  for (Function &f : module)
    for (BasicBlock &block : f)
      for (Instruction &i : make_early_inc_range(block)) {
        auto *old = dyn_cast<AllocaInst>(&i);
        if (!old || old->getAddressSpace() == 5) continue;
        // A lifetime marker has to name the alloca itself; they are only hints.
        for (User *user : make_early_inc_range(old->users()))
          if (auto *marker = dyn_cast<IntrinsicInst>(user); marker && marker->isLifetimeStartOrEnd())
            marker->eraseFromParent();
        IRBuilder<> b(old);
        AllocaInst *made = b.CreateAlloca(old->getAllocatedType(), 5, old->getArraySize());
        made->setAlignment(old->getAlign());
        made->takeName(old);
        old->replaceAllUsesWith(b.CreateAddrSpaceCast(made, old->getType()));
        old->eraseFromParent();
      }
}

void setAttributes(Function &kernel) {
  Module &module = *kernel.getParent();
  unsigned threads = attributeNumber(kernel, "tlx.threads", 0);
  if (threads) kernel.addFnAttr("amdgpu-flat-work-group-size", formatv("{0},{0}", threads).str());
  // Accumulators in AGPRs cost hundreds of moves and spills in a GEMM's loop.
  kernel.addFnAttr("amdgpu-agpr-alloc", "0");
  kernel.addFnAttr("uniform-work-group-size", "true");
  // Every hidden argument and preloaded register that is not used: without these the kernel gets 256 bytes of hidden
  // arguments and the ids packed into one register. Our own hidden arguments are ordinary ones.
  for (const char *name :
       {"dispatch-ptr", "queue-ptr", "dispatch-id", "implicitarg-ptr", "hostcall-ptr", "heap-ptr", "multigrid-sync-arg",
        "default-queue", "completion-action", "lds-kernel-id", "flat-scratch-init", "workitem-id-y", "workitem-id-z",
        "cluster-id-x", "cluster-id-y", "cluster-id-z"})
    kernel.addFnAttr(("amdgpu-no-" + StringRef(name)).str());
  for (const char *id : {"workitem.id.x", "workgroup.id.x", "workgroup.id.y", "workgroup.id.z"}) {
    if (module.getFunction(("llvm.amdgcn." + StringRef(id)).str())) continue;
    std::string name = ("amdgpu-no-" + StringRef(id)).str();
    std::replace(name.begin(), name.end(), '.', '-');
    kernel.addFnAttr(name);
  }
}
} // namespace

bool expandDeviceOps(Module &module, Function &kernel, const features::Target &target, const Options &options,
                     Diagnostics &diags) {
  module.setDataLayout(Triple(tripleOf(target)).computeDataLayout());
  // Code object version 5: every ROCm from 5.5 on loads it.
  if (!module.getModuleFlag("amdhsa_code_object_version"))
    module.addModuleFlag(Module::Error, "amdhsa_code_object_version", 500);
  kernel.setCallingConv(CallingConv::AMDGPU_KERNEL);
  kernel.setLinkage(GlobalValue::ExternalLinkage);
  kernel.setVisibility(GlobalValue::ProtectedVisibility);
  moveAllocas(module);
  if (!expandCalls(module, target, options, diags, expand)) return false;
  setAttributes(kernel);
  return true;
}

} // namespace tlx::target::amd
