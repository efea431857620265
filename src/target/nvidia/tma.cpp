// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// TMA: bulk copies of boxes of a tensor that a tensor map describes. LLVM has an intrinsic for each direction and rank,
//   tlx.nv.tma.load.2d(dst, barrier, map, x, y, hint)
//     →  cp.async.bulk.tensor.2d.shared::cluster.global.tile… [dst], [map, {x, y}], [barrier];
// The load takes the shared::cluster form: a CTA's own address is valid in the cluster's window, ptxas makes the same instruction of both
// forms (UTMALDG), and the shared::cta form would raise the PTX version from 8.0 to 8.6, which older drivers refuse.
#include "llvm/IR/IntrinsicsNVPTX.h"

#include "target/nvidia/nvidia_p.h"

using namespace llvm;

namespace tlx::target::nvidia {

namespace {
#define TLX_RANKS(NAME)                                                                                                \
  {                                                                                                                    \
    Intrinsic::nvvm_cp_async_bulk_tensor_##NAME##_tile_1d, Intrinsic::nvvm_cp_async_bulk_tensor_##NAME##_tile_2d,      \
        Intrinsic::nvvm_cp_async_bulk_tensor_##NAME##_tile_3d, Intrinsic::nvvm_cp_async_bulk_tensor_##NAME##_tile_4d,  \
        Intrinsic::nvvm_cp_async_bulk_tensor_##NAME##_tile_5d                                                          \
  }
struct Copy {
  const char *name; // between "tlx.nv.tma." and the rank
  bool toShared;
  Intrinsic::ID byRank[5];
};
const Copy kCopies[] = {
    {"load", true, TLX_RANKS(g2s)},
    {"store", false, TLX_RANKS(s2g)},
    {"prefetch", false, TLX_RANKS(prefetch)},
    {"reduce.add", false, TLX_RANKS(reduce_add)},
    {"reduce.min", false, TLX_RANKS(reduce_min)},
    {"reduce.max", false, TLX_RANKS(reduce_max)},
    {"reduce.and", false, TLX_RANKS(reduce_and)},
    {"reduce.or", false, TLX_RANKS(reduce_or)},
    {"reduce.xor", false, TLX_RANKS(reduce_xor)},
};
#undef TLX_RANKS
} // namespace

/// Copies of bytes, without a tensor map.
static void expandBulkCopy(Expansion &e) {
  std::optional<uint64_t> hint = e.constant(e.call->arg_size() - 1);
  if (!require(e, &features::Target::tma) || !hint) return;
  SmallVector<Value *, 8> args(e.call->args());
  if (e.name() == "tlx.nv.bulk.store") {
    args.push_back(e.b.getInt1(*hint != 0));
    e.intrinsic(Intrinsic::nvvm_cp_async_bulk_shared_cta_to_global, args);
    return;
  }
  args[0] = e.b.CreateIntToPtr(e.b.CreatePtrToInt(args[0], e.b.getInt64Ty()), e.b.getPtrTy(7));
  args.insert(args.end() - 1, e.b.getInt16(0)); // no multicast
  args.append({e.b.getFalse(), e.b.getInt1(*hint != 0)});
  e.intrinsic(Intrinsic::nvvm_cp_async_bulk_global_to_shared_cluster, args);
}

bool expandTma(Expansion &e) {
  StringRef name = e.name();
  if (name == "tlx.nv.bulk.load" || name == "tlx.nv.bulk.store") return expandBulkCopy(e), true;
  if (!name.consume_front("tlx.nv.tma.")) return false;
  auto [direction, rank] = name.rsplit('.'); // "load", "2d"
  for (const Copy &copy : kCopies) {
    if (direction != copy.name) continue;
    if (!require(e, &features::Target::tma)) return true;
    unsigned last = e.call->arg_size() - 1;
    std::optional<uint64_t> hint = e.constant(last);
    if (!hint) return true;
    // Every intrinsic: the operands in our order, then the hint's value and whether there is one.
    SmallVector<Value *, 12> args(e.call->args());
    if (copy.toShared) {
      args[0] = e.b.CreateIntToPtr(e.b.CreatePtrToInt(args[0], e.b.getInt64Ty()), e.b.getPtrTy(7));
      args.insert(args.end() - 1, e.b.getInt16(0)); // no multicast: the mask, and that there is none
      args.push_back(e.b.getFalse());
    }
    args.push_back(e.b.getInt1(*hint != 0));
    if (copy.toShared) args.push_back(e.b.getInt32(0)); // one CTA, not a pair
    e.intrinsic(copy.byRank[rank[0] - '1'], args);
    return true;
  }
  return false;
}

void markTensorMaps(Function &kernel) {
  // Without it the callee may write to its copy, so LLVM makes one: 128 bytes of local memory and 384 stores at the kernel's start.
  for (Argument &argument : kernel.args())
    if (argument.hasByValAttr()) argument.addAttr(Attribute::get(kernel.getContext(), "nvvm.grid_constant"));
}

} // namespace tlx::target::nvidia
