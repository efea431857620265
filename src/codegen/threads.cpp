// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Thread ids, and the parts of coordinates and addresses that they make. A part is a linear function of the bits of the
// thread id; it is computed once in the prologue with one mask and one shift for each distance that bits move.
#include "codegen/codegen_p.h"

using namespace llvm;

namespace tlx::codegen {

namespace {
// Keys of prologueValues.
enum : unsigned { kThread, kLane, kSmemBase, kWarp, kElected, kLeader, kReplica, kMaskIsZero = 1 << 16 };
} // namespace

/// In the scope: the lower bits of the number in the CTA where the scope starts at a multiple of its size.
Value *Generator::threadId() {
  if (Value *v = scope.prologueValues.lookup(kThread)) return v;
  if (!rawThread) rawThread = atEntry([&] { return device(nvidia() ? "tlx.nv.tid.x" : "tlx.amd.workitem.id.x", {}); });
  if (!scope.start && taskRegions.empty()) return scope.prologueValues[kThread] = rawThread;
  return scope.prologueValues[kThread] = inPrologue([&] {
           if (!scope.start && scope.warps == module.kernel.numWarps) return rawThread;
           if (scope.start % scope.warps == 0) return b.CreateAnd(rawThread, threads() - 1);
           Value *own = b.CreateSub(rawThread, b.getInt32(scope.start * module.kernel.warpSize));
           return scope.replicas > 1 ? b.CreateAnd(own, threads() - 1) : own;
         });
}

Value *Generator::laneId() {
  if (Value *v = scope.prologueValues.lookup(kLane)) return v;
  Value *thread = threadId();
  return scope.prologueValues[kLane] = inPrologue([&] { return b.CreateAnd(thread, module.kernel.warpSize - 1); });
}

/// Through a shuffle, so that the assembler knows it is the same in all lanes.
Value *Generator::warpIndex() {
  if (Value *v = scope.prologueValues.lookup(kWarp)) return v;
  if (scope.warps == 1) return scope.prologueValues[kWarp] = b.getInt32(0);
  if (!scope.start) return scope.prologueValues[kWarp] = warpOfCta();
  return scope.prologueValues[kWarp] = inPrologue([&] {
           Value *own = b.CreateSub(warpOfCta(), b.getInt32(scope.start));
           return scope.replicas > 1 ? b.CreateAnd(own, scope.warps - 1) : own;
         });
}

/// Of the values the one of the replica that runs; the same in all lanes.
Value *Generator::perReplica(ArrayRef<int64_t> values, llvm::Type *type) {
  if (!type) type = b.getInt32Ty();
  auto number = [&](int64_t v) { return ConstantInt::getSigned(cast<IntegerType>(type), v); };
  if (all_equal(values)) return number(values[0]);
  Value *&replica = scope.prologueValues[kReplica];
  if (!replica)
    replica = inPrologue(
        [&] { return b.CreateLShr(b.CreateSub(warpOfCta(), b.getInt32(scope.start)), Log2_32(scope.replicaWarps)); });
  return inPrologue([&]() -> Value * {
    const int64_t step = values[1] - values[0];
    bool line = !type->isIntegerTy(1);
    for (size_t r = 1; r < values.size(); ++r) line = line && values[r] - values[r - 1] == step;
    if (line) return b.CreateAdd(b.CreateMul(b.CreateIntCast(replica, type, false), number(step)), number(values[0]));
    Value *v = number(values.back());
    for (size_t r = values.size() - 1; r-- > 0;)
      v = b.CreateSelect(b.CreateICmpEQ(replica, b.getInt32(unsigned(r))), number(values[r]), v);
    return v;
  });
}

Value *Generator::warpOfCta() {
  if (rawWarp) return rawWarp;
  threadId(); // makes rawThread
  return rawWarp = atEntry([&] {
           return device("tlx.nv.shfl.idx", {b.getInt32(~0u), b.CreateLShr(rawThread, laneBits()), b.getInt32(0)});
         });
}

/// A number that all lanes of a warp have, where the assembler cannot know: in tasks, which steer loops around wgmma by such numbers.
Value *Generator::uniform(Value *v) {
  if (taskRegions.empty() || !nvidia() || !v->getType()->isIntegerTy(32)) return v;
  return device("tlx.nv.shfl.idx", {b.getInt32(~0u), v, b.getInt32(0)});
}

/// Elected once: the same lane for the whole kernel, since bulk groups belong to a thread.
Value *Generator::elected() {
  if (Value *v = scope.prologueValues.lookup(kElected)) return v;
  return scope.prologueValues[kElected] = inPrologue([&] { return device("tlx.nv.elect", {}); });
}

Value *Generator::leader() {
  if (Value *v = scope.prologueValues.lookup(kLeader)) return v;
  Value *warp = warpIndex(), *lane = elected();
  return scope.prologueValues[kLeader] =
             inPrologue([&] { return b.CreateAnd(b.CreateICmpEQ(warp, b.getInt32(0)), lane); });
}

Value *Generator::smemBase() {
  if (Value *v = scope.prologueValues.lookup(kSmemBase)) return v;
  return scope.prologueValues[kSmemBase] = inPrologue([&] { return device("tlx.smem.base", {}); });
}

Value *Generator::threadMaskIsZero(unsigned mask) {
  if (Value *v = scope.prologueValues.lookup(kMaskIsZero + mask)) return v;
  Value *thread = threadId();
  return scope.prologueValues[kMaskIsZero + mask] =
             inPrologue([&] { return b.CreateICmpEQ(b.CreateAnd(thread, mask), b.getInt32(0)); });
}

Generator::ThreadPart Generator::threadXor(ArrayRef<uint32_t> perBit) {
  std::vector<int64_t> key(perBit.begin(), perBit.end());
  key.push_back(-1); // apart from sums
  if (auto it = scope.threadParts.find(key); it != scope.threadParts.end()) return it->second;

  std::map<int, uint32_t> byDistance; // distance that bits move up → mask of source bits
  uint32_t possible = 0;
  for (unsigned i = 0; i < perBit.size(); ++i)
    for (uint32_t left = perBit[i]; left; left &= left - 1) {
      byDistance[int(countr_zero(left)) - int(i)] |= 1u << i;
      possible |= left & -left;
    }
  const uint32_t all = uint32_t(threads() - 1);
  ThreadPart part{nullptr, possible};
  if (byDistance.empty()) {
    part.value = b.getInt32(0);
    return scope.threadParts[key] = part;
  }
  Value *thread = threadId();
  part.value = inPrologue([&]() -> Value * {
    Value *sum = nullptr;
    uint32_t used = 0;
    for (auto [distance, mask] : byDistance) {
      // A right shift drops the bits below by itself.
      uint32_t seen = distance < 0 ? all & ~((1u << -distance) - 1) : all;
      Value *term = mask == seen ? thread : b.CreateAnd(thread, mask);
      uint32_t image = distance < 0 ? mask >> -distance : mask << distance;
      if (distance < 0) term = b.CreateLShr(term, -distance);
      if (distance > 0) term = b.CreateShl(term, distance, "", true, true);
      if (!sum)
        sum = term;
      else if (used & image)
        sum = b.CreateXor(sum, term);
      else
        sum = b.CreateOr(sum, term, "", true);
      used |= image;
    }
    return sum;
  });
  return scope.threadParts[key] = part;
}

Value *Generator::threadSum(ArrayRef<int64_t> perBit) {
  std::vector<int64_t> key(perBit.begin(), perBit.end());
  key.push_back(-2);
  if (auto it = scope.threadParts.find(key); it != scope.threadParts.end()) return it->second.value;
  Value *sum = b.getInt32(0);
  if (any_of(perBit, [](int64_t v) { return v != 0; })) {
    Value *thread = threadId();
    sum = inPrologue([&] {
      Value *total = nullptr;
      for (unsigned i = 0; i < perBit.size();) {
        if (!perBit[i]) {
          ++i;
          continue;
        }
        // A run of bits whose parts double is one multiplication.
        unsigned end = i + 1;
        while (end < perBit.size() && perBit[end] == 2 * perBit[end - 1]) ++end;
        Value *bits = b.CreateLShr(thread, i);
        if (end < perBit.size()) bits = b.CreateAnd(bits, (1u << (end - i)) - 1);
        Value *term = b.CreateMul(bits, b.getInt32(uint32_t(perBit[i])), "", true, true);
        total = total ? b.CreateAdd(total, term, "", true, true) : term;
        i = end;
      }
      return total;
    });
  }
  scope.threadParts[key] = {sum, 0};
  return sum;
}

Value *Generator::coordinate(const layout::TileLayout &layout, unsigned reg, unsigned dim, int64_t plus) {
  ThreadPart part = threadXor(perThreadBit<uint32_t>(layout, [&](const layout::Coord &c) { return uint32_t(c[dim]); }));
  const int64_t own = layout.registerCoord(reg)[dim];
  const int64_t inside = own & ((int64_t(1) << layout.extent(dim).bits) - 1);
  Value *v = part.value;
  int64_t add = own + plus;
  if (part.possible & inside) {
    v = b.CreateXor(v, uint64_t(inside));
    add -= inside;
  }
  // Coordinates stay below 2^30: no wrap, so that constants fold into addresses.
  return add ? b.CreateAdd(v, b.getInt32(int32_t(add)), "", plus >= 0, true) : v;
}

int64_t Generator::linearIndex(ArrayRef<int64_t> shape, ArrayRef<int32_t> coord) {
  int64_t index = 0;
  for (unsigned d = 0; d < shape.size(); ++d) index = index * shape[d] + coord[d];
  return index;
}

ArrayRef<int> Generator::registerOfElement(const layout::TileLayout &layout) {
  std::vector<int> &table = elementRegisters[&layout];
  if (table.empty()) {
    int64_t elements = 1;
    for (int64_t e : layout.shape()) elements *= e;
    table.assign(elements, -1);
    for (unsigned r = layout.registers(); r-- > 0;)
      table[linearIndex(layout.shape(), layout.registerCoord(r))] = int(r);
  }
  return table;
}

int Generator::registerAt(const layout::TileLayout &layout, ArrayRef<int32_t> coord) {
  return registerOfElement(layout)[linearIndex(layout.shape(), coord)];
}

ArrayRef<unsigned> Generator::canonicalRegisters(const layout::TileLayout &layout) {
  std::vector<unsigned> &table = canonical[&layout];
  if (table.empty()) {
    table.resize(layout.registers());
    const bool copies = layout.redundantMask(layout::InDim::Register) != 0;
    // Equal for thread 0 is equal for every thread: the thread's part is XORed to both.
    for (unsigned r = 0; r < table.size(); ++r)
      table[r] = copies ? unsigned(registerAt(layout, layout.registerCoord(r))) : r;
  }
  return table;
}

unsigned Generator::redundantThreads(const layout::TileLayout *layout) {
  const unsigned all = threads() - 1;
  if (!layout) return all;
  const unsigned lanes = layout->bits(layout::InDim::Lane), warps = layout->bits(layout::InDim::Warp);
  unsigned used = ((1u << lanes) - 1) & ~layout->redundantMask(layout::InDim::Lane);
  used |= (((1u << warps) - 1) & ~layout->redundantMask(layout::InDim::Warp)) << laneBits();
  return all & ~used;
}

Value *Generator::isFirstHolder(const layout::TileLayout *layout) {
  const unsigned mask = redundantThreads(layout);
  return mask ? threadMaskIsZero(mask) : nullptr;
}

} // namespace tlx::codegen
