// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sim/instrument.h"

#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"

#include "device_ops/device_ops.h"
#include "sim/text.h"

using namespace llvm;

namespace tlx::sim {

namespace {
constexpr unsigned kGlobal = 1, kShared = 3;

/// Alignment of a masked access: what the argument says, else natural. AMD's global accesses need no more than 4, but
/// code generation makes a vector only of what is aligned.
Align maskedAlign(CallInst &call, Type *type) {
  if (MaybeAlign a = call.getParamAlign(0)) return *a;
  return Align(PowerOf2Ceil(std::min<uint64_t>(16, std::max<uint64_t>(1, type->getPrimitiveSizeInBits() / 8))));
}
} // namespace

void expandMaskedAccesses(Module &module) {
  SmallVector<CallInst *, 32> calls;
  SmallVector<Function *, 8> declarations;
  for (Function &f : module) {
    if (!f.getName().starts_with("tlx.masked.")) continue;
    declarations.push_back(&f);
    for (User *user : f.users())
      if (auto *call = dyn_cast<CallInst>(user)) calls.push_back(call);
  }
  for (CallInst *call : calls) {
    const bool isLoad = !call->getType()->isVoidTy();
    Value *pointer = call->getArgOperand(0), *mask = call->getArgOperand(1), *value = call->getArgOperand(2);
    Align align = maskedAlign(*call, value->getType());
    BasicBlock *head = call->getParent();
    Instruction *then = SplitBlockAndInsertIfThen(mask, call->getIterator(), false);
    IRBuilder<> b(then);
    b.SetCurrentDebugLocation(call->getDebugLoc());
    if (isLoad) {
      Value *loaded = b.CreateAlignedLoad(call->getType(), pointer, align);
      auto *phi = PHINode::Create(call->getType(), 2, "", call->getParent()->begin());
      phi->addIncoming(loaded, then->getParent());
      phi->addIncoming(value, head);
      call->replaceAllUsesWith(phi);
    } else {
      b.CreateAlignedStore(value, pointer, align);
    }
    call->eraseFromParent();
  }
  for (Function *f : declarations)
    if (f->use_empty()) f->eraseFromParent();
}

namespace {
class Instrumenter {
public:
  Instrumenter(Module &module, std::vector<Site> &sites)
      : module(module), context(module.getContext()), sites(sites),
        wraps([this](Instruction &i) { return siteOf(i, "arithmetic"); }) {
    Type *p = PointerType::get(context, 0), *i32 = Type::getInt32Ty(context), *none = Type::getVoidTy(context);
    access = module.getOrInsertFunction("tlx_sim_access", p, p, i32, i32);
    backEdge = module.getOrInsertFunction("tlx_sim_back_edge", none, i32);
    wrapped = module.getOrInsertFunction("tlx_sim_wrapped", none, i32, i32);
    division = module.getOrInsertFunction("tlx_sim_division", none, i32, i32);
    accumulator = module.getOrInsertFunction("tlx_sim_accumulator", none, p, i32, i32, i32);
  }

  bool run(std::string &error) {
    for (Function &f : module) {
      if (f.isDeclaration()) continue;
      backEdges(f);
      findAccumulators(f);
      for (Instruction *i : instructions(f))
        if (!visit(*i, error)) return false;
    }
    return rewriteDeviceOps(error);
  }

private:
  static SmallVector<Instruction *, 0> instructions(Function &f) {
    SmallVector<Instruction *, 0> all;
    for (BasicBlock &b : f)
      for (Instruction &i : b) all.push_back(&i);
    return all;
  }

  uint32_t siteOf(Instruction &i, StringRef what) {
    Site site;
    site.what = what.str();
    if (const DILocation *loc = i.getDebugLoc().get()) {
      site.file = loc->getFilename().str();
      site.line = loc->getLine();
      site.col = loc->getColumn();
      site.region = loc->getDiscriminator(); // by code generation
    }
    sites.push_back(std::move(site));
    return uint32_t(sites.size() - 1);
  }

  // A loop's back-edge: its target dominates it. Irreducible cycles do not come out of code generation.
  void backEdges(Function &f) {
    DominatorTree dominators(f);
    for (BasicBlock &block : f) {
      Instruction *end = block.getTerminator();
      BasicBlock *header = nullptr;
      for (BasicBlock *next : successors(&block))
        if (dominators.dominates(next, &block)) header = next;
      if (!header) continue;
      // The line of the loop is its header's; a generated latch may have none.
      Instruction *where = header->getTerminator()->getDebugLoc() ? header->getTerminator() : end;
      IRBuilder<> b(end);
      b.CreateCall(backEdge, {b.getInt32(siteOf(*where, "loop"))});
    }
  }

  /// What wgmma is given as accumulator: memory of the lane, which belongs to the unit for a time.
  void findAccumulators(Function &f) {
    for (BasicBlock &block : f)
      for (Instruction &i : block) {
        auto *call = dyn_cast<CallInst>(&i);
        Function *callee = call ? call->getCalledFunction() : nullptr;
        if (callee &&
            (callee->getName().starts_with("tlx.nv.wgmma.ss.") || callee->getName().starts_with("tlx.nv.wgmma.rs.")))
          accumulators.insert(getUnderlyingObject(call->getArgOperand(0)));
      }
  }

  uint32_t atomicFlags(AtomicOrdering ordering, SyncScope::ID scope) {
    const StringRef name = context.getSyncScopeName(scope).value_or("");
    return AccessFlags::kAtomic | (isAcquireOrStronger(ordering) ? AccessFlags::kAcquire : 0) |
           (isReleaseOrStronger(ordering) ? AccessFlags::kRelease : 0) |
           (name.starts_with("block") || name.starts_with("workgroup") ? AccessFlags::kCtaScope : 0);
  }

  bool visit(Instruction &i, std::string &error) {
    if (auto *load = dyn_cast<LoadInst>(&i))
      return memory(i, LoadInst::getPointerOperandIndex(), load->getType(), load->getAlign(),
                    AccessFlags::kRead | (load->isVolatile() || load->isAtomic() ? AccessFlags::kYield : 0), "load",
                    error);
    if (auto *store = dyn_cast<StoreInst>(&i))
      return memory(i, StoreInst::getPointerOperandIndex(), store->getValueOperand()->getType(), store->getAlign(),
                    AccessFlags::kWrite, "store", error);
    if (auto *rmw = dyn_cast<AtomicRMWInst>(&i))
      return memory(i, AtomicRMWInst::getPointerOperandIndex(), rmw->getType(), rmw->getAlign(),
                    AccessFlags::kRead | AccessFlags::kWrite | AccessFlags::kYield |
                        atomicFlags(rmw->getOrdering(), rmw->getSyncScopeID()),
                    "atomic", error);
    if (auto *cas = dyn_cast<AtomicCmpXchgInst>(&i))
      return memory(i, AtomicCmpXchgInst::getPointerOperandIndex(), cas->getNewValOperand()->getType(), cas->getAlign(),
                    AccessFlags::kRead | AccessFlags::kWrite | AccessFlags::kYield |
                        atomicFlags(cas->getSuccessOrdering(), cas->getSyncScopeID()),
                    "atomic", error);
    if (auto *op = dyn_cast<BinaryOperator>(&i)) {
      if (op->isIntDivRem()) divide(*op);
      return true;
    }
    if (auto *select = dyn_cast<SelectInst>(&i)) {
      // Code generation makes divisors harmless: select(divisor == 0, 1, divisor).
      if (select->hasMetadata("tlx.divisor")) {
        IRBuilder<> b(select);
        Value *zero = b.CreateZExt(select->getCondition(), b.getInt32Ty());
        b.CreateCall(division, {zero, b.getInt32(siteOf(*select, "division"))});
      }
      return true;
    }
    if (auto *call = dyn_cast<CallInst>(&i)) {
      Function *callee = call->getCalledFunction();
      if (isa<MemIntrinsic>(call) && (call->getArgOperand(0)->getType()->getPointerAddressSpace() == kGlobal ||
                                      call->getArgOperand(0)->getType()->getPointerAddressSpace() == kShared)) {
        error = "memory intrinsics on global or shared memory are not supported by the simulator";
        return false;
      }
      if (callee && callee->getName().starts_with("tlx.nv.cp.async.c") && call->arg_size() == 3)
        if (Value *shadow = wraps.ofPointer(call->getArgOperand(1))) {
          IRBuilder<> b(call); // no source bytes: masked off
          Value *used = b.CreateICmpNE(call->getArgOperand(2), b.getInt32(0));
          b.CreateCall(wrapped,
                       {b.CreateSelect(used, shadow, b.getInt32(0)), b.getInt32(siteOf(*call, callee->getName()))});
        }
      if (callee && callee->getName().starts_with("tlx.amd.buffer.load.lds.")) directLoad(*call);
    }
    return true;
  }

  /// (start, base, offset, mask): an address is the base and what an offset was cut from.
  void directLoad(CallInst &call) {
    auto *cut = dyn_cast<TruncInst>(call.getArgOperand(2));
    for (Value *part : {call.getArgOperand(1), cut ? cut->getOperand(0) : call.getArgOperand(2)})
      if (Value *shadow = wraps.ofPointer(part)) {
        IRBuilder<> b(&call);
        b.CreateCall(wrapped, {b.CreateSelect(call.getArgOperand(3), shadow, b.getInt32(0)),
                               b.getInt32(siteOf(call, call.getCalledFunction()->getName()))});
      }
  }

  /// The access goes to the address that the hook returns.
  bool memory(Instruction &i, unsigned operand, Type *type, Align align, uint32_t flags, StringRef what,
              std::string &error) {
    Value *pointer = i.getOperand(operand);
    const unsigned space = pointer->getType()->getPointerAddressSpace();
    const uint64_t bytes = module.getDataLayout().getTypeStoreSize(type);
    if (space != kGlobal && space != kShared) {
      if (!accumulators.empty() && accumulators.contains(getUnderlyingObject(pointer))) {
        IRBuilder<> b(&i);
        b.CreateCall(accumulator, {b.CreateAddrSpaceCast(pointer, b.getPtrTy()), b.getInt32(uint32_t(bytes)),
                                   b.getInt32(flags & AccessFlags::kWrite ? 1 : 0), b.getInt32(siteOf(i, what))});
      }
      return true;
    }
    if (bytes > 0xfff) {
      error = "an access of " + countText(bytes, "byte");
      return false;
    }
    const uint32_t site = siteOf(i, what);
    IRBuilder<> b(&i);
    if (space == kShared)
      flags |= AccessFlags::kShared;
    else if (Value *shadow = wraps.ofPointer(pointer))
      b.CreateCall(wrapped, {shadow, b.getInt32(site)});
    Value *flat = b.CreateAddrSpaceCast(pointer, b.getPtrTy());
    Value *checked = b.CreateCall(
        access, {flat, b.getInt32(AccessFlags::pack(uint32_t(bytes), Log2(align), flags)), b.getInt32(site)});
    i.setOperand(operand, b.CreateAddrSpaceCast(checked, pointer->getType()));
    return true;
  }

  // x / 0 == -1, x % 0 == 0 with a finding; MIN / -1 == MIN, MIN % -1 == 0 (integers wrap) without the host's trap.
  void divide(BinaryOperator &op) {
    Type *type = op.getType();
    Value *left = op.getOperand(0), *right = op.getOperand(1);
    const bool isSigned = op.getOpcode() == Instruction::SDiv || op.getOpcode() == Instruction::SRem;
    const bool isRem = op.getOpcode() == Instruction::SRem || op.getOpcode() == Instruction::URem;
    if (auto *c = dyn_cast<ConstantInt>(right); c && !c->isZero() && !c->isMinusOne()) return;
    IRBuilder<> b(&op);
    Value *zero = b.CreateICmpEQ(right, Constant::getNullValue(type));
    Value *unsafe = zero;
    if (isSigned) {
      Constant *min = ConstantInt::get(type, APInt::getSignedMinValue(type->getScalarSizeInBits()));
      unsafe = b.CreateOr(
          zero, b.CreateAnd(b.CreateICmpEQ(left, min), b.CreateICmpEQ(right, Constant::getAllOnesValue(type))));
    }
    Value *any = type->isVectorTy() ? b.CreateOrReduce(zero) : zero;
    b.CreateCall(division, {b.CreateZExt(any, b.getInt32Ty()), b.getInt32(siteOf(op, "division"))});
    op.setOperand(1, b.CreateSelect(unsafe, ConstantInt::get(type, 1), right));
    IRBuilder<> after(op.getNextNode());
    Value *replacement = isRem ? Constant::getNullValue(type) : Constant::getAllOnesValue(type);
    auto *result = cast<Instruction>(after.CreateSelect(zero, replacement, &op));
    op.replaceUsesWithIf(result, [&](Use &use) { return use.getUser() != result; });
  }

  // The host's calling convention has traps: i1 has garbage above bit 0, half and bfloat differ between compilers,
  // vectors depend on the instruction set, anything over 128 bits goes by pointer. So scalars go as they are, i1 as
  // i32, vectors by pointer.
  bool rewriteDeviceOps(std::string &error) {
    SmallVector<Function *, 32> operations;
    for (Function &f : module)
      if (f.isDeclaration() && f.getName().starts_with("tlx.")) operations.push_back(&f);
    for (Function *f : operations) {
      if (f->use_empty()) {
        f->eraseFromParent();
        continue;
      }
      if (!implementsDeviceOp(f->getName())) {
        error = "the simulator has no device operation '" + f->getName().str() + "'";
        return false;
      }
      rewrite(*f);
    }
    return true;
  }

  Type *hostType(Type *t) {
    if (t->isVectorTy() || t->isPointerTy()) return PointerType::get(context, 0);
    return t->isIntegerTy(1) ? Type::getInt32Ty(context) : t;
  }

  void rewrite(Function &f) {
    Type *resultType = f.getReturnType();
    const bool resultByPointer = resultType->isVectorTy();
    SmallVector<Type *, 8> parameters;
    if (resultByPointer) parameters.push_back(PointerType::get(context, 0));
    for (Type *t : f.getFunctionType()->params()) parameters.push_back(hostType(t));
    parameters.push_back(Type::getInt32Ty(context));
    auto *type =
        FunctionType::get(resultByPointer ? Type::getVoidTy(context) : hostType(resultType), parameters, false);
    Function *host = Function::Create(type, GlobalValue::ExternalLinkage, "", module);
    host->takeName(&f);
    for (User *user : make_early_inc_range(f.users())) {
      auto *call = cast<CallInst>(user);
      IRBuilder<> b(call);
      SmallVector<Value *, 8> arguments;
      Value *result = resultByPointer ? slot(*call->getFunction(), resultType, 0) : nullptr;
      if (result) arguments.push_back(result);
      for (unsigned i = 0; i < call->arg_size(); ++i) {
        Value *v = call->getArgOperand(i);
        if (v->getType()->isVectorTy()) {
          Value *copy = slot(*call->getFunction(), v->getType(), i + 1);
          b.CreateStore(v, copy);
          v = copy;
        } else if (v->getType()->isPointerTy()) {
          v = b.CreateAddrSpaceCast(v, b.getPtrTy());
        } else if (v->getType()->isIntegerTy(1)) {
          v = b.CreateZExt(v, b.getInt32Ty());
        }
        arguments.push_back(v);
      }
      arguments.push_back(b.getInt32(siteOf(*call, host->getName())));
      Value *value = b.CreateCall(host, arguments);
      if (resultByPointer)
        value = b.CreateLoad(resultType, result);
      else if (resultType->isIntegerTy(1))
        value = b.CreateICmpNE(value, b.getInt32(0));
      else if (resultType->isPointerTy())
        value = b.CreateAddrSpaceCast(value, resultType);
      if (!resultType->isVoidTy()) call->replaceAllUsesWith(value);
      call->eraseFromParent();
    }
    f.eraseFromParent();
  }

  /// One for a type and position in a function: hundreds of matrix instructions must not each take stack.
  Value *slot(Function &f, Type *type, unsigned position) {
    Value *&s = slots[{&f, {type, position}}];
    if (!s) s = IRBuilder<>(&f.getEntryBlock(), f.getEntryBlock().begin()).CreateAlloca(type);
    return s;
  }

  Module &module;
  LLVMContext &context;
  std::vector<Site> &sites;
  WrapShadow wraps;
  FunctionCallee access, backEdge, wrapped, division, accumulator;
  SmallPtrSet<const Value *, 8> accumulators;
  DenseMap<std::pair<Function *, std::pair<Type *, unsigned>>, Value *> slots;
};
} // namespace

bool instrument(Module &module, std::vector<Site> &sites, std::string &error) {
  return Instrumenter(module, sites).run(error);
}

} // namespace tlx::sim
