// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The order of the steps, and what both vendors share of the expansion.
#include "target/target.h"

#include <chrono>
#include <cstdlib>

#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include "target/target_p.h"

using namespace llvm;

namespace tlx::target {

bool emit(Module &module, const features::Target &target, const Options &options, Output &out, Diagnostics &diags) {
  auto timed = [&](const char *name, auto step) {
    auto start = std::chrono::steady_clock::now();
    bool ok = step();
    std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - start;
    out.stages.push_back({name, spent.count()});
    return ok;
  };
  std::string assembly;
  bool ok = timed("expand", [&] { return expandDeviceOps(module, target, options, diags); }) &&
            timed("optimize", [&] { return optimize(module, target, options, diags); });
  if (ok && options.keepLlvmIr) {
    raw_string_ostream os(out.llvmIr);
    module.print(os, nullptr);
  }
  ok = ok && timed("back end", [&] { return emitAssembly(module, target, options, assembly, diags); });
  if (ok) {
    out.assembler = assemblerIdentity(target, options);
    ok = timed("assemble", [&] { return assemble(assembly, target, options, out, diags); });
  }
  if (options.keepAssembly) out.assembly = std::move(assembly);
  return ok;
}

bool expandDeviceOps(Module &module, const features::Target &target, const Options &options, Diagnostics &diags) {
  Function *kernel = findKernel(module, diags);
  if (!kernel) return false;
  module.setTargetTriple(Triple(tripleOf(target)));
  // Everything but the kernel is inlined into it: calls cost registers and, between asynchronous MMA, waits.
  for (Function &f : module)
    if (!f.isDeclaration() && &f != kernel) {
      f.setLinkage(GlobalValue::InternalLinkage);
      f.addFnAttr(Attribute::AlwaysInline);
    }
  bool ok = target.vendor == features::Vendor::Nvidia ? nvidia::expandDeviceOps(module, *kernel, target, options, diags)
                                                      : amd::expandDeviceOps(module, *kernel, target, options, diags);
  if (!ok) return false;
  // LLVM's back ends assume a valid module and crash on another one.
  std::string error;
  raw_string_ostream os(error);
  if (verifyModule(module, &os)) {
    diags.report(Diag::Internal, {},
                 "the module of kernel '" + kernel->getName().str() + "' is not valid LLVM IR: " + error);
    return false;
  }
  return true;
}

bool assemble(const std::string &assembly, const features::Target &target, const Options &options, Output &out,
              Diagnostics &diags) {
  if (options.assembler == "none") {
    out.kind = target.vendor == features::Vendor::Nvidia ? Binary::Kind::Ptx : Binary::Kind::Hsaco;
    return true;
  }
  return target.vendor == features::Vendor::Nvidia ? nvidia::assemble(assembly, target, options, out, diags)
                                                   : amd::assemble(assembly, target, options, out, diags);
}

std::string assemblerIdentity(const features::Target &target, const Options &options) {
  if (options.assembler == "none") return "none";
  return target.vendor == features::Vendor::Nvidia ? nvidia::assemblerIdentity(options) : amd::assemblerIdentity();
}

const char *tripleOf(const features::Target &target) {
  return target.vendor == features::Vendor::Nvidia ? "nvptx64-nvidia-cuda" : "amdgcn-amd-amdhsa";
}

Function *findKernel(Module &module, Diagnostics &diags) {
  Function *kernel = nullptr;
  for (Function &f : module) {
    if (!f.hasFnAttribute("tlx.kernel")) continue;
    if (kernel || f.isDeclaration()) {
      diags.report(Diag::Internal, {}, "a module for a target needs one kernel that is defined");
      return nullptr;
    }
    kernel = &f;
  }
  if (!kernel) diags.report(Diag::Internal, {}, "a module for a target has no kernel");
  return kernel;
}

unsigned attributeNumber(const Function &f, StringRef name, unsigned fallback) {
  unsigned value = fallback;
  if (f.hasFnAttribute(name) && f.getFnAttribute(name).getValueAsString().getAsInteger(10, value)) return fallback;
  return value;
}

// --- expansion

Loc Expansion::loc() const {
  const DILocation *at = call->getDebugLoc().get();
  if (!at || !options.sources) return {};
  uint32_t file = options.sources->find(at->getFilename().str());
  if (!file) return {};
  return {file, at->getLine(), at->getColumn(), at->getColumn() ? at->getColumn() + 1 : 0};
}

CallInst *Expansion::intrinsic(Intrinsic::ID id, ArrayRef<Value *> args, ArrayRef<Type *> overloads) {
  Function *f = Intrinsic::getOrInsertDeclaration(call->getModule(), id, overloads);
  SmallVector<Value *, 16> operands;
  for (auto [i, v] : enumerate(args)) operands.push_back(reinterpret(b, v, f->getFunctionType()->getParamType(i)));
  CallInst *made = b.CreateCall(f, operands);
  if (op.effect == device_ops::Effect::Collective || op.effect == device_ops::Effect::Sync) made->setConvergent();
  return made;
}

std::optional<uint64_t> Expansion::constant(unsigned i) {
  if (auto *c = dyn_cast<ConstantInt>(arg(i))) return c->getZExtValue();
  diags.report(Diag::TargetOperandNotConstant, loc(), i, name());
  return std::nullopt;
}

void flatten(IRBuilder<> &b, Value *v, SmallVectorImpl<Value *> &out) {
  auto *type = dyn_cast<FixedVectorType>(v->getType());
  if (!type) return out.push_back(v);
  for (unsigned i = 0; i < type->getNumElements(); ++i) out.push_back(b.CreateExtractElement(v, i));
}

Value *reinterpret(IRBuilder<> &b, Value *v, Type *type) {
  if (v->getType() == type) return v;
  if (auto *s = dyn_cast<StructType>(v->getType())) {
    Value *vector = PoisonValue::get(FixedVectorType::get(s->getElementType(0), s->getNumElements()));
    for (unsigned i = 0; i < s->getNumElements(); ++i)
      vector = b.CreateInsertElement(vector, b.CreateExtractValue(v, i), i);
    return reinterpret(b, vector, type);
  }
  if (v->getType()->isPointerTy()) return b.CreatePtrToInt(v, type);
  if (type->isPointerTy()) return b.CreateIntToPtr(v, type);
  return b.CreateBitCast(v, type);
}

bool checkAccessType(Expansion &e, Type *type) {
  uint64_t bits = type->isPointerTy() ? 64 : type->getPrimitiveSizeInBits().getFixedValue();
  if (bits >= 8 && bits <= 128 && isPowerOf2_64(bits)) return true;
  e.diags.report(Diag::TargetAccessSize, e.loc(), device_ops::nameOfType(type),
                 bits % 8 ? formatv("{0} bits", bits).str() : formatv("{0} bytes", bits / 8).str());
  return false;
}

bool expandCalls(Module &module, const features::Target &target, const Options &options, Diagnostics &diags,
                 function_ref<Value *(Expansion &)> expand) {
  unsigned before = diags.errorCount();
  auto vendor = target.vendor == features::Vendor::Nvidia ? device_ops::Vendor::Nvidia : device_ops::Vendor::Amd;
  for (Function &f : make_early_inc_range(module)) {
    if (!f.getName().starts_with("tlx.")) continue;
    const device_ops::DeviceOp *op = device_ops::findDeviceOp(f.getName());
    if (!op || !f.isDeclaration()) {
      diags.report(Diag::Internal, {}, "'" + f.getName().str() + "' is not a device operation");
      continue;
    }
    // Uses grow while calls are expanded (a branch splits a block): take them first.
    SmallVector<CallInst *, 16> calls;
    for (User *user : f.users()) {
      auto *call = dyn_cast<CallInst>(user);
      if (call && call->getCalledFunction() == &f)
        calls.push_back(call);
      else
        diags.report(Diag::Internal, {}, "the address of device operation '" + f.getName().str() + "' is taken");
    }
    std::reverse(calls.begin(), calls.end()); // users come last first; program order makes the output easier to read
    for (CallInst *call : calls) {
      Expansion e{call, *op, target, options, diags, IRBuilder<>(call)};
      if (op->vendor != device_ops::Vendor::Common && op->vendor != vendor) {
        diags.report(Diag::TargetOpMissing, e.loc(), f.getName(), target.name);
        continue;
      }
      unsigned errors = diags.errorCount();
      Value *value = expand(e);
      if (diags.errorCount() != errors) continue;
      if (!call->getType()->isVoidTy()) {
        if (isa<Instruction>(value)) value->takeName(call);
        call->replaceAllUsesWith(value);
      }
      call->eraseFromParent();
    }
    if (f.use_empty()) f.eraseFromParent();
  }
  return diags.errorCount() == before;
}

// --- files

TemporaryDirectory::TemporaryDirectory() {
  SmallString<128> name;
  sys::path::system_temp_directory(/*ErasedOnReboot=*/true, name);
  sys::path::append(name, "tlxjit-XXXXXX");
  // mkdtemp and not LLVM's function: the mode is 0700, so nobody can exchange what the assembler reads or writes.
  std::string made = name.str().str();
  if (mkdtemp(made.data())) path = made;
}

TemporaryDirectory::~TemporaryDirectory() {
  if (valid()) sys::fs::remove_directories(path, /*IgnoreErrors=*/true);
}

bool writeFile(const std::string &path, StringRef data) {
  std::error_code error;
  raw_fd_ostream os(path, error, sys::fs::OF_None);
  if (error) return false;
  os << data;
  os.close();
  bool ok = !os.has_error();
  os.clear_error(); // the destructor ends the process on an unread error
  return ok;
}

bool readFile(const std::string &path, std::vector<uint8_t> &data) {
  auto buffer = MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!buffer) return false;
  StringRef bytes = (*buffer)->getBuffer();
  data.assign(bytes.bytes_begin(), bytes.bytes_end());
  return true;
}

} // namespace tlx::target
