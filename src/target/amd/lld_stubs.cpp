// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// lld's ELF driver initializes every target that LLVM was built with, for LTO, which we do not use. Empty weak
// definitions for the targets that are not linked keep some 60 MB out. Not for those that are: a weak definition in
// this object would keep the linker from taking the real one out of its archive.

// TLX_UNLESS(T) is nothing for a target with TLX_LINKED_T, TLX_STUBS(T) for the others.
#define TLX_SECOND(FIRST, SECOND, ...) SECOND
#define TLX_PICK(...) TLX_SECOND(__VA_ARGS__, TLX_STUBS, )
#define TLX_NOTHING(TARGET)
#define TLX_LINKED_NVPTX , TLX_NOTHING
#define TLX_LINKED_AMDGPU , TLX_NOTHING
#define TLX_LINKED_X86 , TLX_NOTHING
#ifdef __aarch64__
#define TLX_LINKED_AArch64 , TLX_NOTHING
#endif
#define TLX_STUB(NAME)                                                                                                 \
  __attribute__((weak)) void NAME() {}
#define TLX_STUBS(TARGET)                                                                                              \
  TLX_STUB(LLVMInitialize##TARGET##Target)                                                                             \
  TLX_STUB(LLVMInitialize##TARGET##TargetInfo)                                                                         \
  TLX_STUB(LLVMInitialize##TARGET##TargetMC)                                                                           \
  TLX_STUB(LLVMInitialize##TARGET##AsmPrinter)                                                                         \
  TLX_STUB(LLVMInitialize##TARGET##AsmParser)

/// Called by the linker's user, so that this object is taken out of our archive before lld's own are searched.
namespace tlx::target::amd {
void useLldStubs() {}
} // namespace tlx::target::amd

extern "C" {
#define LLVM_TARGET(TARGET) TLX_PICK(TLX_LINKED_##TARGET)(TARGET)
#include "llvm/Config/Targets.def"
}
