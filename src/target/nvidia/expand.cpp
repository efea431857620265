// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Device operations → PTX. LLVM's intrinsics where they exist (they fold addresses and immediates); masked accesses and
// wgmma are inline assembly (masked.cpp, wgmma.cpp), because LLVM has neither a predicated load nor wgmma.mma_async.
#include "llvm/ADT/StringSwitch.h"
#include "llvm/IR/IntrinsicsNVPTX.h"

#include "target/nvidia/nvidia_p.h"

using namespace llvm;

namespace tlx::target::nvidia {

namespace {
// Operations whose operands go to the intrinsic in order, vectors element by element; the result is bitcast, or dropped
// if the operation has none.
struct Direct {
  const char *name;
  Intrinsic::ID id;
  bool features::Target::*needs = nullptr;
};

const Direct kDirect[] = {
    {"tlx.nv.tid.x", Intrinsic::nvvm_read_ptx_sreg_tid_x},
    {"tlx.nv.ctaid.x", Intrinsic::nvvm_read_ptx_sreg_ctaid_x},
    {"tlx.nv.ctaid.y", Intrinsic::nvvm_read_ptx_sreg_ctaid_y},
    {"tlx.nv.ctaid.z", Intrinsic::nvvm_read_ptx_sreg_ctaid_z},
    {"tlx.nv.nctaid.x", Intrinsic::nvvm_read_ptx_sreg_nctaid_x},
    {"tlx.nv.nctaid.y", Intrinsic::nvvm_read_ptx_sreg_nctaid_y},
    {"tlx.nv.nctaid.z", Intrinsic::nvvm_read_ptx_sreg_nctaid_z},
    {"tlx.nv.globaltimer", Intrinsic::nvvm_read_ptx_sreg_globaltimer},
    {"tlx.nv.bar.warp.sync", Intrinsic::nvvm_bar_warp_sync},
    {"tlx.nv.vote.any", Intrinsic::nvvm_vote_any_sync},
    {"tlx.nv.vote.all", Intrinsic::nvvm_vote_all_sync},
    {"tlx.nv.vote.ballot", Intrinsic::nvvm_vote_ballot_sync},
    {"tlx.nv.ldmatrix.x1", Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x1_b16, &features::Target::ldmatrix},
    {"tlx.nv.ldmatrix.x2", Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x2_b16, &features::Target::ldmatrix},
    {"tlx.nv.ldmatrix.x4", Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x4_b16, &features::Target::ldmatrix},
    {"tlx.nv.ldmatrix.x1.trans", Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x1_trans_b16, &features::Target::ldmatrix},
    {"tlx.nv.ldmatrix.x2.trans", Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x2_trans_b16, &features::Target::ldmatrix},
    {"tlx.nv.ldmatrix.x4.trans", Intrinsic::nvvm_ldmatrix_sync_aligned_m8n8_x4_trans_b16, &features::Target::ldmatrix},
    {"tlx.nv.stmatrix.x1", Intrinsic::nvvm_stmatrix_sync_aligned_m8n8_x1_b16, &features::Target::stmatrix},
    {"tlx.nv.stmatrix.x2", Intrinsic::nvvm_stmatrix_sync_aligned_m8n8_x2_b16, &features::Target::stmatrix},
    {"tlx.nv.stmatrix.x4", Intrinsic::nvvm_stmatrix_sync_aligned_m8n8_x4_b16, &features::Target::stmatrix},
    {"tlx.nv.stmatrix.x1.trans", Intrinsic::nvvm_stmatrix_sync_aligned_m8n8_x1_trans_b16, &features::Target::stmatrix},
    {"tlx.nv.stmatrix.x2.trans", Intrinsic::nvvm_stmatrix_sync_aligned_m8n8_x2_trans_b16, &features::Target::stmatrix},
    {"tlx.nv.stmatrix.x4.trans", Intrinsic::nvvm_stmatrix_sync_aligned_m8n8_x4_trans_b16, &features::Target::stmatrix},
    {"tlx.nv.cp.async.commit", Intrinsic::nvvm_cp_async_commit_group, &features::Target::cpAsync},
    // Of two forms the one for the CTA's own barriers and shared memory: those of the cluster add MEMBAR.GPU or CCTL.IVALL.
    {"tlx.nv.mbarrier.init", Intrinsic::nvvm_mbarrier_init_shared, &features::Target::tma},
    {"tlx.nv.mbarrier.inval", Intrinsic::nvvm_mbarrier_inval_shared, &features::Target::tma},
    {"tlx.nv.mbarrier.arrive", Intrinsic::nvvm_mbarrier_arrive_scope_cta_space_cta, &features::Target::tma},
    {"tlx.nv.mbarrier.arrive.expect.tx", Intrinsic::nvvm_mbarrier_arrive_expect_tx_scope_cta_space_cta,
     &features::Target::tma},
    {"tlx.nv.mbarrier.expect.tx", Intrinsic::nvvm_mbarrier_expect_tx_scope_cta_space_cta, &features::Target::tma},
    {"tlx.nv.mbarrier.try.wait", Intrinsic::nvvm_mbarrier_try_wait_parity_scope_cta_space_cta, &features::Target::tma},
    {"tlx.nv.mbarrier.test.wait", Intrinsic::nvvm_mbarrier_test_wait_parity_scope_cta_space_cta,
     &features::Target::tma},
    {"tlx.nv.fence.mbarrier.init", Intrinsic::nvvm_fence_mbarrier_init_release_cluster, &features::Target::tma},
    {"tlx.nv.fence.proxy.async", Intrinsic::nvvm_fence_proxy_async_shared_cta, &features::Target::tma},
    {"tlx.nv.fence.proxy.async.global", Intrinsic::nvvm_fence_proxy_async_global, &features::Target::tma},
    {"tlx.nv.tma.prefetch.map", Intrinsic::nvvm_prefetch_tensormap, &features::Target::tma},
    {"tlx.nv.bulk.commit", Intrinsic::nvvm_cp_async_bulk_commit_group, &features::Target::tma},
    {"tlx.nv.wgmma.fence", Intrinsic::nvvm_wgmma_fence_sync_aligned, &features::Target::wgmma},
    {"tlx.nv.wgmma.commit", Intrinsic::nvvm_wgmma_commit_group_sync_aligned, &features::Target::wgmma},
    {"tlx.nv.ex2.approx", Intrinsic::nvvm_ex2_approx_ftz},
    {"tlx.nv.lg2.approx", Intrinsic::nvvm_lg2_approx_ftz_f},
    {"tlx.nv.rcp.approx", Intrinsic::nvvm_rcp_approx_ftz_f},
    {"tlx.nv.rsqrt.approx", Intrinsic::nvvm_rsqrt_approx_ftz_f},
    {"tlx.nv.div.full", Intrinsic::nvvm_div_full},
    {"tlx.nv.cvt.rna.tf32", Intrinsic::nvvm_f2tf32_rna},
    {"tlx.nv.cvt.rn.bf16x2", Intrinsic::nvvm_ff2bf16x2_rn},
    {"tlx.nv.cvt.rn.f16x2", Intrinsic::nvvm_ff2f16x2_rn},
};

// Waits for groups: the operand is how many may still run, a constant.
const Direct kGroupWaits[] = {
    {"tlx.nv.cp.async.wait", Intrinsic::nvvm_cp_async_wait_group, &features::Target::cpAsync},
    {"tlx.nv.bulk.wait", Intrinsic::nvvm_cp_async_bulk_wait_group, &features::Target::tma},
    {"tlx.nv.bulk.wait.read", Intrinsic::nvvm_cp_async_bulk_wait_group_read, &features::Target::tma},
    {"tlx.nv.wgmma.wait", Intrinsic::nvvm_wgmma_wait_group_sync_aligned, &features::Target::wgmma},
};

// mma.sync: the operation's order is (c, a, b), the intrinsic's (a, b, c).
const Direct kMma[] = {
    {"tlx.nv.mma.m16n8k16.f32.f16", Intrinsic::nvvm_mma_m16n8k16_row_col_f32_f32},
    {"tlx.nv.mma.m16n8k16.f32.bf16", Intrinsic::nvvm_mma_m16n8k16_row_col_bf16},
    {"tlx.nv.mma.m16n8k8.f32.tf32", Intrinsic::nvvm_mma_m16n8k8_row_col_tf32},
    {"tlx.nv.mma.m16n8k32.s32.s8", Intrinsic::nvvm_mma_m16n8k32_row_col_s8},
    {"tlx.nv.mma.m16n8k32.s32.u8", Intrinsic::nvvm_mma_m16n8k32_row_col_u8},
    {"tlx.nv.mma.m8n8k4.f64", Intrinsic::nvvm_mma_m8n8k4_row_col_f64},
};

// shfl.sync's fourth operand: clamp in the low bits. "up" clamps at lane 0, the others at the last lane of the warp.
struct Shuffle {
  const char *name;
  Intrinsic::ID id;
  unsigned clamp;
};
const Shuffle kShuffles[] = {
    {"tlx.nv.shfl.bfly", Intrinsic::nvvm_shfl_sync_bfly_i32, 0x1f},
    {"tlx.nv.shfl.idx", Intrinsic::nvvm_shfl_sync_idx_i32, 0x1f},
    {"tlx.nv.shfl.up", Intrinsic::nvvm_shfl_sync_up_i32, 0},
    {"tlx.nv.shfl.down", Intrinsic::nvvm_shfl_sync_down_i32, 0x1f},
};

template <typename Row, size_t N> const Row *find(const Row (&table)[N], StringRef name) {
  for (const Row &row : table)
    if (name == row.name) return &row;
  return nullptr;
}

/// Overloaded intrinsics take the type of the first operand (ldmatrix, stmatrix: the pointer; ex2: f32).
CallInst *callDirect(Expansion &e, Intrinsic::ID id, ArrayRef<Value *> args) {
  SmallVector<Type *, 1> overloads;
  if (Intrinsic::isOverloaded(id)) overloads.push_back(args[0]->getType());
  return e.intrinsic(id, args, overloads);
}

/// What LLVM's pipelines learn from a pass that the short pipeline does not run: ids are small and not negative.
void addRange(Expansion &e, CallInst *call) {
  uint64_t end = StringSwitch<uint64_t>(e.name())
                     .Case("tlx.nv.tid.x", attributeNumber(*e.call->getFunction(), "tlx.threads", e.target.maxThreads))
                     .Case("tlx.nv.ctaid.x", 0x7fffffff)
                     .Case("tlx.nv.nctaid.x", 0x80000000)
                     .Cases({"tlx.nv.ctaid.y", "tlx.nv.ctaid.z", "tlx.nv.nctaid.y", "tlx.nv.nctaid.z"}, 65536)
                     .Default(0);
  if (end) call->addRangeRetAttr(ConstantRange(APInt(32, 0), APInt(32, end)));
}

Value *expandCpAsync(Expansion &e) {
  auto [full, sized, bytes] =
      StringSwitch<std::tuple<Intrinsic::ID, Intrinsic::ID, unsigned>>(e.name())
          .Case("tlx.nv.cp.async.ca.4",
                {Intrinsic::nvvm_cp_async_ca_shared_global_4, Intrinsic::nvvm_cp_async_ca_shared_global_4_s, 4})
          .Case("tlx.nv.cp.async.ca.8",
                {Intrinsic::nvvm_cp_async_ca_shared_global_8, Intrinsic::nvvm_cp_async_ca_shared_global_8_s, 8})
          .Default({Intrinsic::nvvm_cp_async_cg_shared_global_16, Intrinsic::nvvm_cp_async_cg_shared_global_16_s, 16});
  auto *size = dyn_cast<ConstantInt>(e.arg(2));
  if (size && size->getZExtValue() == bytes) return e.intrinsic(full, {e.arg(0), e.arg(1)});
  return e.intrinsic(sized, {e.arg(0), e.arg(1), e.arg(2)});
}

/// int vprintf(const char *format, void *arguments), which the driver supplies; the packed arguments are what it
/// expects.
Value *expandPrint(Expansion &e) {
  Type *pointer = e.b.getPtrTy();
  FunctionCallee vprintf = e.call->getModule()->getOrInsertFunction(
      "vprintf", FunctionType::get(e.b.getInt32Ty(), {pointer, pointer}, false));
  return e.b.CreateCall(vprintf, {e.arg(0), e.arg(1)});
}

/// Dynamic shared memory: its size is given at launch, up to more than the 48 KB that a static variable may have. 1024
/// bytes is what the widest swizzle needs.
Value *sharedWindow(Module &module) {
  if (GlobalVariable *window = module.getNamedGlobal("tlx_smem")) return window;
  auto *window = new GlobalVariable(module, ArrayType::get(Type::getInt8Ty(module.getContext()), 0), false,
                                    GlobalValue::ExternalLinkage, nullptr, "tlx_smem", nullptr,
                                    GlobalValue::NotThreadLocal, /*AddressSpace=*/3);
  window->setAlignment(Align(1024));
  return window;
}

Value *expand(Expansion &e) {
  StringRef name = e.name();
  if (const Direct *row = find(kDirect, name)) {
    if (row->needs && !require(e, row->needs)) return nullptr;
    SmallVector<Value *, 8> args;
    for (Value *v : e.call->args()) flatten(e.b, v, args);
    CallInst *made = callDirect(e, row->id, args);
    addRange(e, made);
    return e.call->getType()->isVoidTy() ? nullptr : reinterpret(e.b, made, e.call->getType());
  }
  if (const Direct *row = find(kMma, name)) {
    SmallVector<Value *, 16> args;
    for (unsigned i : {1, 2, 0}) flatten(e.b, e.arg(i), args);
    return reinterpret(e.b, e.intrinsic(row->id, args), e.call->getType());
  }
  if (const Shuffle *row = find(kShuffles, name))
    return e.intrinsic(row->id, {e.arg(0), e.arg(1), e.arg(2), e.b.getInt32(row->clamp)});
  if (name.starts_with("tlx.nv.cp.async.c") && e.call->arg_size() == 3) {
    if (require(e, &features::Target::cpAsync)) expandCpAsync(e);
    return nullptr;
  }
  if (const Direct *row = find(kGroupWaits, name)) {
    if (!require(e, row->needs)) return nullptr;
    if (auto pending = e.constant(0)) {
      Type *type = Intrinsic::getType(e.b.getContext(), row->id)->getParamType(0);
      e.intrinsic(row->id, {ConstantInt::get(type, *pending)});
    }
    return nullptr;
  }
  if (name == "tlx.nv.bar.sync" || name == "tlx.nv.bar.arrive") {
    // A run-time id, of a task with replicas, claims all 16 barriers.
    if (e.constant(1))
      e.intrinsic(name == "tlx.nv.bar.sync" ? Intrinsic::nvvm_barrier_cta_sync_aligned_count
                                            : Intrinsic::nvvm_barrier_cta_arrive_aligned_count,
                  {e.arg(0), e.arg(1)});
    return nullptr;
  }
  if (name == "tlx.nv.bar.red.popc")
    return e.constant(1)
               ? e.intrinsic(Intrinsic::nvvm_barrier_cta_red_popc_aligned_count, {e.arg(0), e.arg(1), e.arg(2)})
               : nullptr;
  if (name == "tlx.nv.setmaxnreg.inc" || name == "tlx.nv.setmaxnreg.dec") {
    if (require(e, &features::Target::wgmma) && e.constant(0))
      e.intrinsic(name == "tlx.nv.setmaxnreg.inc" ? Intrinsic::nvvm_setmaxnreg_inc_sync_aligned_u32
                                                  : Intrinsic::nvvm_setmaxnreg_dec_sync_aligned_u32,
                  {e.arg(0)});
    return nullptr;
  }
  if (name == "tlx.nv.elect") {
    if (!require(e, &features::Target::tma)) return nullptr;
    return e.b.CreateExtractValue(e.intrinsic(Intrinsic::nvvm_elect_sync, {e.b.getInt32(~0u)}), 1);
  }
  if (name.consume_front("tlx.nv.fence.acq.rel.")) {
    const char *scope = name == "cta" ? "block" : name == "gpu" ? "device" : "";
    e.b.CreateFence(AtomicOrdering::AcquireRelease, e.b.getContext().getOrInsertSyncScopeID(scope));
    return nullptr;
  }
  if (expandTma(e)) return nullptr;
  if (name == "tlx.nv.pin") return expandPin(e), nullptr;
  if (name == "tlx.nv.wgmma.retire") return expandWgmmaRetire(e), nullptr;
  if (name.starts_with("tlx.nv.wgmma.")) return expandWgmma(e), nullptr;
  if (name == "tlx.smem.base") return sharedWindow(*e.call->getModule());
  if (name.starts_with("tlx.masked.load.")) return expandMaskedLoad(e);
  if (name.starts_with("tlx.masked.store.")) return expandMaskedStore(e);
  if (name == "tlx.print") return expandPrint(e), nullptr;
  if (name == "tlx.assert.fail") {
    FunctionCallee vprintf = e.call->getModule()->getOrInsertFunction(
        "vprintf", FunctionType::get(e.b.getInt32Ty(), {e.b.getPtrTy(), e.b.getPtrTy()}, false));
    e.b.CreateCall(vprintf, {e.arg(0), ConstantPointerNull::get(e.b.getPtrTy())});
    return e.b.CreateIntrinsic(Intrinsic::trap, {}), nullptr;
  }
  if (name == "tlx.trap") return e.b.CreateIntrinsic(Intrinsic::trap, {}), nullptr;
  e.diags.report(Diag::Internal, e.loc(), "no expansion of '" + name.str() + "' for " + e.target.name);
  return nullptr;
}
} // namespace

bool require(Expansion &e, bool features::Target::*unit) {
  if (e.target.*unit) return true;
  e.diags.report(Diag::TargetOpMissing, e.loc(), e.name(), e.target.name);
  return false;
}

static constexpr const char *kPtxFlag = "tlx.ptx"; // a module flag

void requirePtx(Expansion &e, unsigned version) {
  Module &module = *e.call->getModule();
  if (version > ptxVersion(module, e.target)) module.setModuleFlag(Module::Max, kPtxFlag, version);
}

unsigned ptxVersion(const Module &module, const features::Target &target) {
  auto *raised = mdconst::extract_or_null<ConstantInt>(module.getModuleFlag(kPtxFlag));
  return std::max<unsigned>(target.ptxVersion, raised ? raised->getZExtValue() : 0);
}

bool expandDeviceOps(Module &module, Function &kernel, const features::Target &target, const Options &options,
                     Diagnostics &diags) {
  // 64-bit shared pointers: a short-pointer layout needs an option of the whole process and gains nothing after ptxas.
  module.setDataLayout(Triple(tripleOf(target)).computeDataLayout());
  kernel.setCallingConv(CallingConv::PTX_Kernel);
  kernel.setLinkage(GlobalValue::ExternalLinkage);
  // The exact CTA: without it ptxas must assume 1024 threads, and setmaxnreg is ignored.
  if (unsigned threads = attributeNumber(kernel, "tlx.threads", 0))
    kernel.addFnAttr("nvvm.reqntid", std::to_string(threads));
  // What it moves around is the register file of one CTA; without that ptxas may not know how many a thread has at entry, and ignore it.
  if (any_of(module, [](const Function &f) { return f.getName().starts_with("tlx.nv.setmaxnreg.") && !f.use_empty(); }))
    kernel.addFnAttr("nvvm.minctasm", "1");
  markTensorMaps(kernel);
  orderAtomics(kernel, target);
  return expandCalls(module, target, options, diags, expand);
}

} // namespace tlx::target::nvidia
