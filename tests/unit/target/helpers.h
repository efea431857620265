// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Modules for the tests of src/target: from text, and one kernel for each device operation.
#pragma once
#include <string>

#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/SourceMgr.h"

#include "device_ops/device_ops.h"
#include "features/features.h"
#include "target/target.h"

#include <doctest/doctest.h>

namespace tlx::test {

inline std::string render(const Diagnostics &diags) {
  std::string text;
  for (const Diagnostic &d : diags.all()) text += d.message + "\n";
  return text;
}

inline std::unique_ptr<llvm::Module> parse(llvm::LLVMContext &context, const std::string &text) {
  llvm::SMDiagnostic error;
  auto module = llvm::parseAssemblyString(text, error, context);
  REQUIRE_MESSAGE(module, error.getMessage().str());
  return module;
}

inline const features::Target &archOf(const char *name) {
  const features::Target *t = features::findTarget(name);
  REQUIRE(t);
  return *t;
}

/// Text → output; the text of diagnostics if it failed.
struct Emitted {
  bool ok = false;
  target::Output out;
  std::string diagnostics;
};

inline Emitted emit(llvm::Module &module, const char *name, target::Options options = {}) {
  Emitted e;
  Diagnostics diags;
  e.ok = target::emit(module, archOf(name), options, e.out, diags);
  e.diagnostics = render(diags);
  return e;
}

inline Emitted emitText(const std::string &text, const char *name, target::Options options = {}) {
  llvm::LLVMContext context;
  auto module = parse(context, text);
  return emit(*module, name, options);
}

inline target::Options with(const char *assembler) {
  target::Options o;
  o.assembler = assembler;
  return o;
}

inline bool hasPtxas() {
  return target::assemblerIdentity(archOf("sm_80"), with("ptxas")).find("missing") != 0;
}

/// A kernel that calls one operation with operands that the optimizer cannot know, and stores the result.
/// Families use `suffix` as their type. `constants` makes i32 operands constants (barrier ids, counts).
inline std::unique_ptr<llvm::Module> kernelOf(llvm::LLVMContext &context, const device_ops::DeviceOp &op,
                                              const std::string &suffix, bool constants) {
  using namespace llvm;
  auto module = std::make_unique<Module>("m", context);
  IRBuilder<> b(context);
  auto *type = FunctionType::get(b.getVoidTy(), {b.getPtrTy(1), b.getInt32Ty()}, false);
  auto *kernel = Function::Create(type, GlobalValue::ExternalLinkage, "k", module.get());
  kernel->addFnAttr("tlx.kernel");
  kernel->addFnAttr("tlx.threads", "128");
  kernel->addFnAttr("tlx.shared-bytes", "4096");
  b.SetInsertPoint(BasicBlock::Create(context, "entry", kernel));
  std::string name = op.name;
  if (StringRef(name).ends_with(".*")) name = name.substr(0, name.size() - 1) + suffix;
  FunctionCallee callee = device_ops::getDeviceOp(*module, name);
  Value *global = kernel->getArg(0), *n = kernel->getArg(1);
  SmallVector<Value *, 4> args;
  unsigned position = 0;
  for (Type *t : callee.getFunctionType()->params()) {
    Value *at = b.CreateGEP(b.getInt8Ty(), global, b.getInt32(256 * ++position));
    if (t->isPointerTy() && t->getPointerAddressSpace() == 1)
      args.push_back(at);
    else if (t->isPointerTy() && t->getPointerAddressSpace() == 3)
      args.push_back(b.CreateGEP(b.getInt8Ty(), b.CreateCall(device_ops::getDeviceOp(*module, "tlx.smem.base")), n));
    else if (t->isPointerTy() && position == 1)
      args.push_back(b.CreateGlobalString("x = %d\n"));
    else if (t->isPointerTy()) {
      Value *packed = b.CreateAlloca(b.getInt32Ty());
      b.CreateStore(n, packed);
      args.push_back(packed);
    } else if (t->isIntegerTy(1))
      args.push_back(b.CreateICmpSGT(n, b.getInt32(position)));
    else if (t->isIntegerTy(32) && constants)
      args.push_back(b.getInt32(position == 1 ? 1 : 64));
    else if (t->isIntegerTy(64) && constants)
      args.push_back(b.getInt64(0x1000000000000000));
    else if (t->isIntegerTy(32))
      args.push_back(b.CreateAdd(n, b.getInt32(position)));
    else
      args.push_back(b.CreateLoad(t, at));
  }
  CallInst *call = b.CreateCall(callee, args);
  if (call->getType()->isPointerTy())
    b.CreateStore(b.CreateLoad(b.getInt32Ty(), call), global);
  else if (call->getType()->isIntegerTy(1))
    b.CreateStore(b.CreateZExt(call, b.getInt32Ty()), global);
  else if (!call->getType()->isVoidTy())
    b.CreateStore(call, global);
  b.CreateRetVoid();
  return module;
}

inline bool takesConstants(llvm::StringRef name) {
  return name == "tlx.nv.bar.sync" || name == "tlx.nv.bar.arrive" || name == "tlx.nv.bar.red.popc" ||
         name == "tlx.nv.cp.async.wait" || name == "tlx.nv.bulk.wait" || name == "tlx.nv.bulk.load" ||
         name == "tlx.nv.bulk.store" || name == "tlx.nv.bulk.wait.read" || name == "tlx.nv.wgmma.wait" ||
         name == "tlx.amd.s.waitcnt";
}

} // namespace tlx::test
