// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Device operations → LLVM's AMDGPU intrinsics. What LLVM 22 takes and what it makes of it on CDNA was tried form by
// form; the reasons for the attributes are measurements of a GEMM (spills and moves in its loop).
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/IntrinsicsAMDGPU.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"

#include "target/target_p.h"

using namespace llvm;

namespace tlx::target::amd {

namespace {
struct Direct {
  const char *name;
  Intrinsic::ID id;
  unsigned zeros = 0; // immediate operands behind the operation's own: cbsz, abid, blgp of MFMA
  unsigned cdna = 0;  // the generation that has it; 0: all. LLVM aborts on some that are missing, or says nothing
};

// 8-bit floats: one intrinsic, whose format is the target's.
#define FP8(CDNA, A, B, HA, HB)                                                                                        \
  {"tlx.amd.mfma.f32.16x16x32." A "." B, Intrinsic::amdgcn_mfma_f32_16x16x32_##HA##_##HB, 3, CDNA}, {                  \
    "tlx.amd.mfma.f32.32x32x16." A "." B, Intrinsic::amdgcn_mfma_f32_32x32x16_##HA##_##HB, 3, CDNA                     \
  }

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
    {"tlx.amd.mfma.f32.16x16x8.xf32", Intrinsic::amdgcn_mfma_f32_16x16x8_xf32, 3, 3},
    {"tlx.amd.mfma.i32.16x16x32.i8", Intrinsic::amdgcn_mfma_i32_16x16x32_i8, 3},
    {"tlx.amd.mfma.i32.32x32x16.i8", Intrinsic::amdgcn_mfma_i32_32x32x16_i8, 3},
    {"tlx.amd.mfma.f64.16x16x4.f64", Intrinsic::amdgcn_mfma_f64_16x16x4f64, 3},
    {"tlx.amd.mfma.f32.16x16x32.f16", Intrinsic::amdgcn_mfma_f32_16x16x32_f16, 3, 4},
    {"tlx.amd.mfma.f32.16x16x32.bf16", Intrinsic::amdgcn_mfma_f32_16x16x32_bf16, 3, 4},
    {"tlx.amd.mfma.f32.32x32x16.f16", Intrinsic::amdgcn_mfma_f32_32x32x16_f16, 3, 4},
    {"tlx.amd.mfma.f32.32x32x16.bf16", Intrinsic::amdgcn_mfma_f32_32x32x16_bf16, 3, 4},
    {"tlx.amd.mfma.i32.16x16x64.i8", Intrinsic::amdgcn_mfma_i32_16x16x64_i8, 3, 4},
    {"tlx.amd.mfma.i32.32x32x32.i8", Intrinsic::amdgcn_mfma_i32_32x32x32_i8, 3, 4},
    FP8(3, "f8e4m3fnuz", "f8e4m3fnuz", fp8, fp8),
    FP8(3, "f8e4m3fnuz", "f8e5m2fnuz", fp8, bf8),
    FP8(3, "f8e5m2fnuz", "f8e4m3fnuz", bf8, fp8),
    FP8(3, "f8e5m2fnuz", "f8e5m2fnuz", bf8, bf8),
    FP8(4, "f8e4m3", "f8e4m3", fp8, fp8),
    FP8(4, "f8e4m3", "f8e5m2", fp8, bf8),
    FP8(4, "f8e5m2", "f8e4m3", bf8, fp8),
    FP8(4, "f8e5m2", "f8e5m2", bf8, bf8),
    {"tlx.amd.exp2", Intrinsic::amdgcn_exp2},
    {"tlx.amd.log2", Intrinsic::amdgcn_log},
    {"tlx.amd.rcp", Intrinsic::amdgcn_rcp},
    {"tlx.amd.rsq", Intrinsic::amdgcn_rsq},
};

#undef FP8

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

/// "tlx.hint" of the call says that the data are used once.
void markHint(Expansion &e, Instruction *access) {
  if (e.call->hasFnAttr("tlx.hint"))
    access->setMetadata(LLVMContext::MD_nontemporal,
                        MDNode::get(e.b.getContext(), ConstantAsMetadata::get(e.b.getInt32(1))));
}

/// A branch around a plain access. Neighbours with the same mask share one branch after SimplifyCFG.
Value *expandMaskedLoad(Expansion &e) {
  Type *type = e.call->getType();
  if (!checkAccessType(e, type)) return nullptr;
  if (auto *mask = dyn_cast<ConstantInt>(e.arg(1))) {
    if (mask->isZero()) return e.arg(2);
    auto *load = e.b.CreateAlignedLoad(type, e.arg(0), naturalAlign(type));
    return markHint(e, load), load;
  }
  BasicBlock *before = e.call->getParent();
  Instruction *end = SplitBlockAndInsertIfThen(e.arg(1), e.call, /*Unreachable=*/false);
  end->setDebugLoc(e.call->getDebugLoc());
  IRBuilder<> then(end);
  then.SetCurrentDebugLocation(e.call->getDebugLoc());
  auto *loaded = then.CreateAlignedLoad(type, e.arg(0), naturalAlign(type));
  markHint(e, loaded);
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
  markHint(e, b.CreateAlignedStore(e.arg(2), e.arg(0), naturalAlign(type)));
  return nullptr;
}

/// s_waitcnt's immediate on gfx9: vmcnt in bits 0-3 and 14-15, expcnt in 4-6 (unused: 7), lgkmcnt in 8-11.
void expandWait(Expansion &e) {
  auto vm = e.constant(0), lgkm = e.constant(1);
  if (!vm || !lgkm) return;
  const uint32_t v = uint32_t(std::min<uint64_t>(*vm, 63)), l = uint32_t(std::min<uint64_t>(*lgkm, 15));
  e.b.CreateIntrinsic(Intrinsic::amdgcn_s_waitcnt, {}, {e.b.getInt32((v & 15) | (v >> 4) << 14 | 7 << 4 | l << 8)});
}

// What lies behind the buffer's end reads as zero: so masked lanes get an offset there.
constexpr uint32_t kRecords = 0xffff0000, kMaskedOff = 0xffff0000,
                   kRaw = 0x27000; // the last: 32-bit data format, no stride

void expandLoadLds(Expansion &e) {
  const unsigned bytes = e.name().ends_with("b128") ? 16 : 4;
  if (e.target.directToLds < bytes * 8) {
    e.diags.report(Diag::TargetOpMissing, e.loc(), e.name(), e.target.name);
    return;
  }
  Type *resource = PointerType::get(e.b.getContext(), 8);
  Value *buffer = e.b.CreateIntrinsic(Intrinsic::amdgcn_make_buffer_rsrc, {resource, e.arg(1)->getType()},
                                      {e.arg(1), e.b.getInt16(0), e.b.getInt64(kRecords), e.b.getInt32(kRaw)});
  Value *offset = e.b.CreateSelect(e.arg(3), e.arg(2), e.b.getInt32(kMaskedOff));
  Value *zero = e.b.getInt32(0);
  e.b.CreateIntrinsic(Intrinsic::amdgcn_raw_ptr_buffer_load_lds, {},
                      {buffer, e.arg(0), e.b.getInt32(bytes), offset, zero, zero, zero});
}

/// LLVM waits (vmcnt) before each access of LDS that may see a load straight into it. Where those waits stand is our passes' work, so
/// the accesses say that they do not. True with one variable for all of LDS: with several every wait would go (insertWaits).
void separateDirectLoads(Function &kernel) {
  SmallVector<Instruction *, 64> loads, others;
  for (BasicBlock &block : kernel)
    for (Instruction &i : block) {
      auto *call = dyn_cast<IntrinsicInst>(&i);
      if (call && call->getIntrinsicID() == Intrinsic::amdgcn_raw_ptr_buffer_load_lds) loads.push_back(&i);
      if (Value *p = getLoadStorePointerOperand(&i); p && p->getType()->getPointerAddressSpace() == 3)
        others.push_back(&i);
    }
  if (loads.empty()) return;
  MDBuilder builder(kernel.getContext());
  MDNode *scope = builder.createAnonymousAliasScope(builder.createAnonymousAliasScopeDomain("lds"), "direct loads");
  MDNode *list = MDNode::get(kernel.getContext(), {scope});
  for (Instruction *i : loads) i->setMetadata(LLVMContext::MD_alias_scope, list);
  for (Instruction *i : others) i->setMetadata(LLVMContext::MD_noalias, list);
}

Value *expand(Expansion &e) {
  StringRef name = e.name();
  if (const Direct *row = findDirect(name)) {
    if (row->cdna && row->cdna != e.target.cdna) {
      e.diags.report(Diag::TargetOpMissing, e.loc(), name, e.target.name);
      return nullptr;
    }
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
  if (name == "tlx.amd.s.waitcnt") return expandWait(e), nullptr;
  if (name == "tlx.amd.sched.barrier")
    return e.b.CreateIntrinsic(Intrinsic::amdgcn_sched_barrier, {}, {e.b.getInt32(0)}), nullptr;
  if (name.starts_with("tlx.amd.buffer.load.lds.")) return expandLoadLds(e), nullptr;
  if (name == "tlx.smem.base")
    return sharedWindow(*e.call->getModule(), attributeNumber(*e.call->getFunction(), "tlx.shared-bytes", 0));
  if (name.starts_with("tlx.masked.load.")) return expandMaskedLoad(e);
  if (name.starts_with("tlx.masked.store.")) return expandMaskedStore(e);
  if (name == "tlx.trap" || name == "tlx.assert.fail") return e.b.CreateIntrinsic(Intrinsic::trap, {}), nullptr;
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
  separateDirectLoads(kernel);
  setAttributes(kernel);
  return true;
}

} // namespace tlx::target::amd
