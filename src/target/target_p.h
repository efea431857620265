// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to src/target: what the vendor folders share.
#pragma once
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"

#include "device_ops/device_ops.h"
#include "target/target.h"

namespace llvm {
class TargetMachine;
}

namespace tlx::target {

/// Registers LLVM's NVPTX and AMDGPU back ends once per process.
void initializeBackends();
std::unique_ptr<llvm::TargetMachine> createMachine(const features::Target &target, const llvm::Module &module);
/// "nvptx64-nvidia-cuda", "amdgcn-amd-amdhsa".
const char *tripleOf(const features::Target &target);

/// The kernel of a module: the function with "tlx.kernel"; null and a diagnostic if there is not exactly one.
llvm::Function *findKernel(llvm::Module &module, Diagnostics &diags);
/// An integer function attribute, or `fallback`.
unsigned attributeNumber(const llvm::Function &f, llvm::StringRef name, unsigned fallback);

/// LLVM reports some back-end errors (too much LDS, …) to the context, whose default handler ends the process. While
/// this lives they become diagnostics.
class BackendDiagnostics {
public:
  BackendDiagnostics(llvm::LLVMContext &context, const features::Target &target, Diagnostics &diags);
  ~BackendDiagnostics();
  bool failed() const;

private:
  llvm::LLVMContext &context;
  std::unique_ptr<llvm::DiagnosticHandler> previous;
  Diagnostics &diags;
  unsigned before;
};

/// One call of a device operation while it is expanded.
struct Expansion {
  llvm::CallInst *call;
  const device_ops::DeviceOp &op;
  const features::Target &target;
  const Options &options;
  Diagnostics &diags;
  llvm::IRBuilder<> b;

  llvm::StringRef name() const { return call->getCalledFunction()->getName(); }
  llvm::Value *arg(unsigned i) const { return call->getArgOperand(i); }
  Loc loc() const;
  /// Calls an intrinsic with operands cast bitwise to its parameter types (i1 constants are appended by the caller).
  /// Convergent if the operation is.
  llvm::CallInst *intrinsic(llvm::Intrinsic::ID id, llvm::ArrayRef<llvm::Value *> args,
                            llvm::ArrayRef<llvm::Type *> overloads = {});
  /// Integer constant of operand i, or a diagnostic.
  std::optional<uint64_t> constant(unsigned i);
};

/// Elements of vectors, one after another.
void flatten(llvm::IRBuilder<> &b, llvm::Value *v, llvm::SmallVectorImpl<llvm::Value *> &out);
/// Bitwise conversion between values of one size: scalars, vectors and homogeneous structs.
llvm::Value *reinterpret(llvm::IRBuilder<> &b, llvm::Value *v, llvm::Type *type);

/// Runs `expand` on every call of a device operation, which returns the replacing value (null for void), or reports.
/// Operations of another vendor, addresses taken, and unknown tlx.* names are reported here. Declarations are removed.
bool expandCalls(llvm::Module &module, const features::Target &target, const Options &options, Diagnostics &diags,
                 llvm::function_ref<llvm::Value *(Expansion &)> expand);
/// True if a masked access of this type is a single access of 1, 2, 4, 8 or 16 bytes; else reports.
bool checkAccessType(Expansion &e, llvm::Type *type);

namespace nvidia {
bool expandDeviceOps(llvm::Module &module, llvm::Function &kernel, const features::Target &target,
                     const Options &options, Diagnostics &diags);
bool assemble(const std::string &ptx, const features::Target &target, const Options &options, Output &out,
              Diagnostics &diags);
std::string assemblerIdentity(const Options &options);
/// The target's PTX version, or the higher one that an operation of the expanded module needs; 0 elsewhere.
unsigned ptxVersion(const llvm::Module &module, const features::Target &target);
} // namespace nvidia

namespace amd {
bool expandDeviceOps(llvm::Module &module, llvm::Function &kernel, const features::Target &target,
                     const Options &options, Diagnostics &diags);
bool assemble(const std::string &isa, const features::Target &target, const Options &options, Output &out,
              Diagnostics &diags);
std::string assemblerIdentity();
} // namespace amd

/// A directory of its own under the system's temporary directory, removed with its files at the end.
class TemporaryDirectory {
public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  bool valid() const { return !path.empty(); }
  std::string file(llvm::StringRef name) const { return path + "/" + name.str(); }

private:
  std::string path;
};
bool writeFile(const std::string &path, llvm::StringRef data);
bool readFile(const std::string &path, std::vector<uint8_t> &data);

} // namespace tlx::target
