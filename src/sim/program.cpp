// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Bitcode of code generation → machine code of the host. The order of the steps in `prepare` matters and is explained
// there.
#include <chrono>
#include <mutex>

#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/IR/DebugInfo.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

#include "sim/engine.h"
#include "sim/exact.h"
#include "sim/instrument.h"
#include "sim/text.h"

using namespace llvm;

namespace tlx::sim {

ProgramImage::~ProgramImage() = default;
Program::Program() : impl(std::make_unique<ProgramImage>()) {}
Program::~Program() = default;
double Program::compileMilliseconds() const {
  return impl->compileMilliseconds;
}
unsigned Program::threads() const {
  return impl->threads;
}
unsigned Program::sharedBytes() const {
  return impl->sharedBytes;
}
uint32_t Program::paramBytes() const {
  return impl->paramBytes;
}

namespace {
Function *findKernel(Module &module, std::string &error) {
  Function *kernel = nullptr;
  for (Function &f : module) {
    if (!f.hasFnAttribute("tlx.kernel")) continue;
    if (kernel) {
      error = "the module has more than one kernel";
      return nullptr;
    }
    kernel = &f;
  }
  if (!kernel || kernel->isDeclaration()) error = "the module has no kernel", kernel = nullptr;
  return kernel;
}

unsigned integerAttribute(const Function &f, StringRef name) {
  unsigned value = 0;
  f.getFnAttribute(name).getValueAsString().getAsInteger(10, value);
  return value;
}

/// Private memory of AMDGPU is address space 5; on the host it is the stack.
void genericAllocas(Function &f) {
  for (BasicBlock &block : f)
    for (Instruction &i : make_early_inc_range(block)) {
      auto *alloca = dyn_cast<AllocaInst>(&i);
      if (!alloca || !alloca->getAddressSpace()) continue;
      IRBuilder<> b(alloca);
      AllocaInst *plain = b.CreateAlloca(alloca->getAllocatedType(), 0u, alloca->getArraySize());
      plain->setAlignment(alloca->getAlign());
      alloca->replaceAllUsesWith(b.CreateAddrSpaceCast(plain, alloca->getType()));
      alloca->eraseFromParent();
    }
}

Site kernelSite(const Function &kernel) {
  const DISubprogram *where = kernel.getSubprogram();
  if (!where) return {"", 0, 0, "the kernel"};
  return {where->getFilename().str(), where->getLine(), 1, "the kernel"};
}

/// A parameter that is passed as the address of its bytes in the packed buffer: `ptr byval([N x i8]) align A`.
struct ByValue {
  uint64_t bytes = 0; // 0: an ordinary parameter
  Align align;
};
SmallVector<ByValue, 16> byValueParameters(const Function &kernel) {
  SmallVector<ByValue, 16> list(kernel.arg_size());
  for (const Argument &a : kernel.args()) {
    Type *type = a.getParamByValType();
    if (!type) continue;
    const DataLayout &layout = kernel.getParent()->getDataLayout();
    list[a.getArgNo()] = {layout.getTypeAllocSize(type), a.getParamAlign().value_or(layout.getABITypeAlign(type))};
  }
  return list;
}

/// `void tlx_sim_entry(ptr params)`: loads every parameter from the packed buffer and calls the kernel. Returns the
/// buffer's size. The buffer is aligned as its strictest parameter asks (Engine).
uint32_t makeEntry(Module &module, Function &kernel, ArrayRef<ByValue> byValue) {
  LLVMContext &context = module.getContext();
  const DataLayout &layout = module.getDataLayout();
  auto *type = FunctionType::get(Type::getVoidTy(context), {PointerType::get(context, 0)}, false);
  Function *entry = Function::Create(type, GlobalValue::ExternalLinkage, "tlx_sim_entry", module);
  IRBuilder<> b(BasicBlock::Create(context, "", entry));
  SmallVector<Value *, 16> arguments;
  uint64_t at = 0;
  for (Argument &a : kernel.args()) {
    if (const ByValue &v = byValue[a.getArgNo()]; v.bytes) {
      at = alignTo(at, v.align);
      Value *p = b.CreateConstGEP1_64(b.getInt8Ty(), entry->getArg(0), at);
      arguments.push_back(b.CreateAddrSpaceCast(p, a.getType()));
      at += v.bytes;
      continue;
    }
    Type *stored = a.getType()->isIntegerTy(1) ? b.getInt8Ty() : a.getType();
    at = alignTo(at, layout.getABITypeAlign(stored));
    Value *v = b.CreateAlignedLoad(stored, b.CreateConstGEP1_64(b.getInt8Ty(), entry->getArg(0), at), Align(1));
    arguments.push_back(a.getType()->isIntegerTy(1) ? b.CreateICmpNE(v, b.getInt8(0)) : v);
    at += layout.getTypeStoreSize(stored);
  }
  b.CreateCall(&kernel, arguments);
  b.CreateRetVoid();
  return uint32_t(at);
}

bool prepare(Module &module, const orc::JITTargetMachineBuilder &host, const DataLayout &layout, ProgramImage &image,
             std::string &error) {
  Function *kernel = findKernel(module, error);
  if (!kernel) return false;
  image.threads = integerAttribute(*kernel, "tlx.threads");
  image.sharedBytes = integerAttribute(*kernel, "tlx.shared-bytes");
  if (image.threads == 0 || image.threads > image.target->maxThreads) {
    error = "the kernel has " + std::to_string(image.threads) + " threads, " + image.target->name + " allows 1 to " +
            std::to_string(image.target->maxThreads);
    return false;
  }
  if (image.threads % image.target->warpSize) {
    error = "the kernel has " + std::to_string(image.threads) + " threads, not a multiple of " +
            std::to_string(image.target->warpSize);
    return false;
  }
  if (image.sharedBytes > std::min<size_t>(image.target->sharedBytes, kWindowBytes)) {
    error = "the kernel needs " + countText(image.sharedBytes, "byte") + " of shared memory, " + image.target->name +
            " has " + std::to_string(image.target->sharedBytes);
    return false;
  }
  for (GlobalVariable &g : module.globals())
    if (g.getAddressSpace() == 3) {
      error = "shared memory is addressed from tlx.smem.base, not by the global '" + g.getName().str() + "'";
      return false;
    }
  const SmallVector<ByValue, 16> byValue = byValueParameters(*kernel);
  for (const ByValue &v : byValue)
    if (v.align.value() > kParamAlign) {
      error = "a parameter is aligned to " + countText(v.align.value(), "byte") + ", the simulator's buffer to " +
              std::to_string(kParamAlign);
      return false;
    }
  image.sites.push_back(kernelSite(*kernel));
  // The triple before the data layout: the layout is checked against it.
  module.setTargetTriple(host.getTargetTriple());
  module.setDataLayout(layout);
  for (Function &f : module) {
    f.setCallingConv(CallingConv::C);
    for (User *user : f.users())
      if (auto *call = dyn_cast<CallBase>(user)) call->setCallingConv(CallingConv::C);
    if (f.isIntrinsic()) continue;
    // cpu and features are the GPU's; parameter attributes (byref, inreg, align) would change the host's call.
    f.setAttributes(AttributeList());
    f.addFnAttr("probe-stack", "inline-asm"); // a large frame faults at its stack's end, not far behind it
    genericAllocas(f);
  }
  expandMaskedAccesses(module);
  if (image.exact && !makeExact(module, error)) return false;
  if (!instrument(module, image.sites, error)) return false;
  image.paramBytes = makeEntry(module, *kernel, byValue);
  StripDebugInfo(module); // the sites hold what is needed of it
  std::string broken;
  raw_string_ostream stream(broken);
  if (verifyModule(module, &stream)) {
    error = "the module is broken: " + broken;
    return false;
  }
  return true;
}

bool compile(std::unique_ptr<Module> module, std::unique_ptr<LLVMContext> context, std::unique_ptr<orc::LLJIT> jit,
             ProgramImage &image, std::string &error) {
  auto failed = [&](Error e) {
    error = toString(std::move(e));
    return false;
  };
  orc::SymbolMap symbols;
  orc::MangleAndInterner mangle(jit->getExecutionSession(), jit->getDataLayout());
  for (const Symbol &s : runtimeSymbols())
    symbols[mangle(s.name)] = {orc::ExecutorAddr::fromPtr(s.address),
                               JITSymbolFlags::Exported | JITSymbolFlags::Callable};
  if (image.exact) // and instead of those of the same name
    for (const Symbol &s : exactOperations())
      symbols[mangle(s.name)] = {orc::ExecutorAddr::fromPtr(s.address),
                                 JITSymbolFlags::Exported | JITSymbolFlags::Callable};
  if (Error e = jit->getMainJITDylib().define(orc::absoluteSymbols(std::move(symbols)))) return failed(std::move(e));
  if (Error e = jit->addIRModule(orc::ThreadSafeModule(std::move(module), std::move(context))))
    return failed(std::move(e));
  auto entry = jit->lookup("tlx_sim_entry");
  if (!entry) return failed(entry.takeError());
  image.entry = entry->toPtr<void (*)(const void *)>();
  image.jit = std::move(jit);
  return true;
}
} // namespace

std::unique_ptr<Program> Program::load(ArrayRef<uint8_t> bitcode, const features::Target &target,
                                       const KernelMetadata &metadata, std::string &error, bool exact) {
  static std::once_flag once;
  std::call_once(once, [] {
    InitializeNativeTarget();
    InitializeNativeTargetAsmPrinter();
  });
  auto start = std::chrono::steady_clock::now();
  auto fail = [&](Error e) {
    error = toString(std::move(e));
    return nullptr;
  };
  auto context = std::make_unique<LLVMContext>();
  StringRef bytes(reinterpret_cast<const char *>(bitcode.data()), bitcode.size());
  auto module = parseBitcodeFile(MemoryBufferRef(bytes, "kernel"), *context);
  if (!module) return fail(module.takeError());
  auto host = orc::JITTargetMachineBuilder::detectHost();
  if (!host) return fail(host.takeError());
  // Conversions to bf16 in hardware take denormals for zero, and arithmetic in f16 is not ours to choose: what a GPU does is spelled out.
  for (const char *feature : {"avx512bf16", "avxneconvert", "avx512fp16", "amx-bf16", "amx-fp16"})
    if (host->getTargetTriple().isX86()) host->getFeatures().AddFeature(feature, false);
  host->setCodeGenOptLevel(CodeGenOptLevel::None);
  auto jit = orc::LLJITBuilder().setJITTargetMachineBuilder(*host).create();
  if (!jit) return fail(jit.takeError());

  std::unique_ptr<Program> program(new Program());
  ProgramImage &image = *program->impl;
  image.target = &target;
  image.metadata = metadata;
  image.exact = exact;
  image.sites.push_back({"", 0, 0, "an unknown place"});
  if (!prepare(**module, *host, (*jit)->getDataLayout(), image, error)) return nullptr;
  if (!compile(std::move(*module), std::move(context), std::move(*jit), image, error)) return nullptr;
  image.compileMilliseconds =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return program;
}

} // namespace tlx::sim
