// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Device operations: the seam between code generation and its three back ends. A hardware action is a call of a declared LLVM
// function `tlx.…`; a vendor target expands the call, the simulator supplies a function for it. The tables (*.def) give every
// operation its signature, attributes and meaning. Nothing else may declare a `tlx.` function.
#pragma once
#include "llvm/ADT/StringRef.h"
#include "llvm/IR/DerivedTypes.h"
#include "llvm/IR/Module.h"

namespace tlx::device_ops {

/// What a call may do, and so the attributes of its declaration. Weaker attributes than these cost optimizations, stronger ones let LLVM
/// merge or sink what must stay where lanes meet.
enum class Effect : uint8_t {
  Pure,       // ids and arithmetic: nounwind willreturn speculatable memory(none) nocallback
  Collective, // lanes meet, no memory: nounwind willreturn convergent memory(none) nocallback
  Sync,       // lanes meet and memory is ordered: nounwind nocallback convergent, default memory effects
  Async,      // asynchronous copies, fences, waits of one thread: nounwind nocallback, default memory effects
  Memory      // an access: nounwind willreturn nocallback, default memory effects
};

enum class Vendor : uint8_t { Common, Nvidia, Amd };

struct DeviceOp {
  const char *name;      // "tlx.nv.shfl.bfly"
  const char *signature; // "i32(i32,i32,i32)": see device_ops.cpp for the letters
  Effect effect;
  Vendor vendor;
  const char *doc;
};

/// Every row of the tables. A row whose name ends in ".*" is a family: the suffix is a type name, e.g. tlx.masked.load.v4i32, and T in
/// its signature is that type.
llvm::ArrayRef<DeviceOp> allDeviceOps();
/// The row of a function name; null if there is none.
const DeviceOp *findDeviceOp(llvm::StringRef name);
/// The declaration in `module`, made on first use with type and attributes from its row. The name must have a row (asserted).
llvm::FunctionCallee getDeviceOp(llvm::Module &module, llvm::StringRef name);
/// "v4i32" ↔ <4 x i32>; the spelling used in family suffixes and signatures.
llvm::Type *typeByName(llvm::LLVMContext &context, llvm::StringRef name);
std::string nameOfType(llvm::Type *type);

} // namespace tlx::device_ops
