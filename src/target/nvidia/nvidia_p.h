// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to src/target/nvidia: the parts of the expansion. Each takes the operations of its family and reports what is wrong with them.
#pragma once
#include "target/target_p.h"

namespace tlx::target::nvidia {

/// True if the target has the unit; else reports that the operation does not exist there.
bool require(Expansion &e, bool features::Target::*unit);

/// The module needs at least this PTX version, times ten.
void requirePtx(Expansion &e, unsigned version);

llvm::Value *expandMaskedLoad(Expansion &e);
llvm::Value *expandMaskedStore(Expansion &e);
/// Atomics of LLVM with an order or a scope become PTX that has them.
void orderAtomics(llvm::Function &kernel, const features::Target &target);
/// tlx.nv.tma.*.Nd: false if the operation is none of them.
bool expandTma(Expansion &e);
/// Arguments passed by value are tensor maps: read where the driver put them.
void markTensorMaps(llvm::Function &kernel);
/// tlx.nv.wgmma.{ss,rs}.*
void expandWgmma(Expansion &e);
void expandWgmmaRetire(Expansion &e);
void expandPin(Expansion &e);

} // namespace tlx::target::nvidia
