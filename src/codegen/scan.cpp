// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Scans along an axis: by the bits of the position, from the lowest. Up to bit k, blocks of 2^k elements are scanned
// and each has its total; at bit k every second block puts the total of the one before it in front of its elements. A
// bit that lies in registers pairs registers, one in lanes a shuffle, one in warps an exchange through shared memory. A run of bits of
// threads collects what comes in front (`prefix`), and the elements get it once at the end of the run. An odd factor of the extent is what is left: repetitions in registers, one after another.
// With {reverse} the order of positions is the other way round; the combiner's left side is what was collected.
//
// Which element comes where is the same for every schedule and every thread, so results are the same bits.
#include "codegen/codegen_p.h"

using namespace llvm;

namespace tlx::codegen {

namespace {
enum class Where : uint8_t { Nowhere, Register, Lane, Warp };
struct Bit {
  Where where = Where::Nowhere;
  unsigned mask = 0; // of the register index, or of the thread id
};
} // namespace

// Each thread has a slot of the planned bytes for what one round takes.
RegList Generator::exchangeWarps(const ir::Op &op, Regs values, unsigned threadMask) {
  const unsigned room = unsigned(op.intAttr(ir::Attr::scratch)) / threads();
  Value *start = plannedOffset(op);
  auto sizeOf = [](Value *v) { return std::max<unsigned>(1, v->getType()->getPrimitiveSizeInBits() / 8); };
  Value *thread = threadId(), *partner = b.CreateXor(thread, threadMask);
  RegList out;
  for (unsigned first = 0, end = 0; first < values.size(); first = end) {
    SmallVector<unsigned, 8> offsets; // in a slot
    for (unsigned used = 0; end < values.size(); ++end) {
      const unsigned size = sizeOf(values[end]), at = unsigned(alignTo(used, size));
      if (at + size > room) break;
      offsets.push_back(at), used = at + size;
    }
    if (first == end) {
      fail(op, "no memory is planned for its totals");
      return RegList(values);
    }
    auto slot = [&](unsigned i, Value *of) { // the same value of all threads lies together
      Value *at = b.CreateNSWMul(of, b.getInt32(sizeOf(values[i])));
      return b.CreateGEP(b.getInt8Ty(), smemBase(),
                         b.CreateNSWAdd(at, b.CreateNSWAdd(start, b.getInt32(offsets[i - first] * threads()))));
    };
    for (unsigned i = first; i < end; ++i) {
      const bool boolean = values[i]->getType()->isIntegerTy(1);
      b.CreateAlignedStore(boolean ? b.CreateZExt(values[i], b.getInt8Ty()) : values[i], slot(i, thread),
                           Align(sizeOf(values[i])));
    }
    emitBarrier();
    for (unsigned i = first; i < end; ++i) {
      const bool boolean = values[i]->getType()->isIntegerTy(1);
      Value *v = b.CreateAlignedLoad(boolean ? b.getInt8Ty() : values[i]->getType(), slot(i, partner),
                                     Align(sizeOf(values[i])));
      out.push_back(boolean ? b.CreateTrunc(v, b.getInt1Ty()) : v);
    }
    emitBarrier(); // the next exchange writes the same bytes
  }
  return out;
}

void Generator::emitScan(const ir::Op &op) {
  const unsigned axis = unsigned(op.intAttr(ir::Attr::axis)), count = op.numOperands();
  const bool reverse = op.intAttr(ir::Attr::reverse);
  const layout::TileLayout &layout = *op.operand(0)->type.layout();
  const unsigned bits = layout.extent(axis).bits;

  SmallVector<Bit, 16> where(bits);
  auto find = [&](layout::InDim dim, Where kind, unsigned shift) {
    for (unsigned i = 0; i < layout.bits(dim); ++i) {
      const layout::Coord &basis = layout.bases(dim)[i];
      if (!basis[axis] || (layout.redundantMask(dim) >> i & 1)) continue;
      const unsigned position = unsigned(basis[axis]);
      bool alone = isPowerOf2_32(position);
      for (unsigned d = 0; d < basis.size(); ++d) alone &= d == axis || !basis[d];
      if (!alone) return false;
      where[Log2_32(position)] = {kind, 1u << (i + shift)};
    }
    return true;
  };
  if (!find(layout::InDim::Register, Where::Register, 0) || !find(layout::InDim::Lane, Where::Lane, 0) ||
      !find(layout::InDim::Warp, Where::Warp, laneBits()))
    return fail(op, "a bit of the layout moves along the axis and across it");
  for (const Bit &bit : where)
    if (bit.where == Where::Nowhere) return fail(op, "the layout does not cover the axis");

  // Registers by the rest of their coordinate and the repetition, in the order of the axis.
  ArrayRef<unsigned> first = canonicalRegisters(layout);
  const ir::Block &body = op.body();
  std::map<std::pair<int64_t, int32_t>, std::map<uint32_t, unsigned>>
      groups; // (rest, repetition) → position in it → register
  SmallVector<int64_t, 4> restShape(layout.shape());
  restShape.erase(restShape.begin() + axis);
  for (unsigned r = 0; r < layout.registers(); ++r) {
    if (first[r] != r) continue;
    layout::Coord c = layout.registerCoord(r);
    const int32_t position = c[axis];
    c.erase(c.begin() + axis);
    groups[{linearIndex(restShape, c), position >> bits}][uint32_t(position) & ((1u << bits) - 1)] = r;
  }

  std::vector<RegList> scan(layout.registers()); // by register, then operand
  for (unsigned r = 0; r < layout.registers(); ++r)
    for (unsigned i = 0; i < count; ++i) scan[r].push_back(operand(op, i)[r]);
  auto combine = [&](const RegList &left, const RegList &right) {
    RegList args = left;
    args.append(right.begin(), right.end());
    return inlineRegion(body, args);
  };
  auto choose = [&](Value *condition, const RegList &a, const RegList &c) {
    RegList out;
    for (unsigned i = 0; i < count; ++i) out.push_back(a[i] == c[i] ? a[i] : b.CreateSelect(condition, a[i], c[i]));
    return out;
  };

  /// Elements of one thread that are neighbours along the axis as far as the bits so far go.
  struct Block {
    SmallVector<unsigned, 16> registers;
    RegList total;
    RegList prefix; // from the bits of threads since the last register bit; empty: none yet
    Value *has = nullptr;
  };
  std::map<std::pair<int64_t, int32_t>, std::map<uint32_t, Block>>
      blocks; // as groups, by position without the bits so far
  for (auto &[group, positions] : groups)
    for (auto [position, r] : positions) blocks[group][position] = {{r}, scan[r], {}, nullptr};
  auto settle = [&](Block &block) {
    if (!block.has) return;
    for (unsigned r : block.registers) scan[r] = choose(block.has, combine(block.prefix, scan[r]), scan[r]);
    block.prefix.clear(), block.has = nullptr;
  };

  bool ownLast = true; // the last register of a block holds its total: no bit of threads so far
  for (unsigned k = 0; k < bits; ++k) {
    const Bit bit = where[k];
    if (bit.where == Where::Register) {
      for (auto &[group, members] : blocks) {
        std::map<uint32_t, Block> halved;
        for (auto &[position, block] : members) {
          if (position & 1) continue;
          Block *before = &block, *behind = &members.find(position | 1)->second;
          if (reverse) std::swap(before, behind);
          settle(*before), settle(*behind);
          for (unsigned r : behind->registers) scan[r] = combine(before->total, scan[r]);
          Block both;
          both.registers = before->registers;
          both.registers.append(behind->registers.begin(), behind->registers.end());
          both.total = ownLast ? scan[behind->registers.back()] : combine(before->total, behind->total);
          halved[position >> 1] = std::move(both);
        }
        members = std::move(halved);
      }
      continue;
    }
    ownLast = false;
    SmallVector<Block *, 16> all;
    for (auto &[group, members] : blocks) {
      std::map<uint32_t, Block> halved; // the bit is the thread's: it is 0 in every register
      for (auto &[position, block] : members) halved[position >> 1] = std::move(block);
      members = std::move(halved);
      for (auto &[position, block] : members) all.push_back(&block);
    }
    SmallVector<RegList, 4> far(count); // by operand, then block
    if (bit.where == Where::Lane) {
      for (unsigned i = 0; i < count; ++i) {
        RegList own;
        for (Block *block : all) own.push_back(block->total[i]);
        far[i] = shuffleXor(own, bit.mask);
      }
    } else {
      RegList own;
      for (unsigned i = 0; i < count; ++i)
        for (Block *block : all) own.push_back(block->total[i]);
      RegList other = exchangeWarps(op, own, bit.mask);
      for (unsigned i = 0; i < count; ++i)
        far[i].append(other.begin() + i * all.size(), other.begin() + (i + 1) * all.size());
    }
    Value *low = threadMaskIsZero(bit.mask), *behind = reverse ? low : b.CreateNot(low);
    for (unsigned g = 0; g < all.size(); ++g) {
      Block &block = *all[g];
      RegList other;
      for (unsigned i = 0; i < count; ++i) other.push_back(far[i][g]);
      RegList inFront = block.has ? choose(block.has, combine(other, block.prefix), other) : other;
      block.prefix = block.has ? choose(behind, inFront, block.prefix) : inFront;
      block.has = block.has ? b.CreateOr(block.has, behind) : behind;
      block.total = combine(choose(behind, other, block.total), choose(behind, block.total, other));
    }
  }

  // What is left: one block a group; repetitions follow one another.
  std::map<int64_t, RegList> carried;
  SmallVector<std::pair<std::pair<int64_t, int32_t>, Block *>, 16> order;
  for (auto &[group, members] : blocks) order.push_back({group, &members.begin()->second});
  if (reverse) std::reverse(order.begin(), order.end());
  for (auto &[group, block] : order) {
    settle(*block);
    RegList &carry = carried[group.first];
    if (!carry.empty())
      for (unsigned r : block->registers) scan[r] = combine(carry, scan[r]);
    carry = carry.empty() ? block->total : combine(carry, block->total);
  }
  b.SetCurrentDebugLocation(debugLoc(op.loc));
  for (unsigned i = 0; i < count; ++i) {
    RegList regs;
    for (unsigned r = 0; r < layout.registers(); ++r) regs.push_back(scan[first[r]][i]);
    set(op.result(i), regs);
  }
}

} // namespace tlx::codegen
