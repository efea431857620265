// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// chooseSwizzle: the swizzle of a shared tile, computed from the maps of its accesses.
//
// Take a row-major tile whose offset bits are: t bits inside a vector, then bank bits up to L (one line of all banks),
// then line bits. A swizzle XORs to each line bit j some bank bits s_j. Two lanes served together conflict if they
// differ in the line but not in the bank. With P the span of the offsets that differ inside one group of lanes (its
// vector included) and H the span of the swizzled line bits e_j + s_j, an access is free of conflicts exactly if P ∩ H
// = 0. So the line bits are visited in turn and s_j is chosen such that e_j + s_j leaves the span of P and the earlier
// ones, for all accesses at once; s_j = 0 comes first (no XOR where none is needed), then single bits. A bounded
// depth-first search; if it finds nothing, the choice with the fewest conflicts. Which dimension is fastest and how
// many low bits stay whole (wide vectors for one access leave fewer bank bits to the others) is decided by cost,
// computed from the plans on the finished layout.
#include <algorithm>

#include "layout/access_p.h"

namespace tlx::layout {
using namespace detail;

namespace {
/// A span of offsets, small enough to copy at each node of the search.
struct OffsetSpan {
  uint32_t rows[32] = {}; // by highest bit
  /// Adds a vector; false if it was in the span.
  bool insert(uint32_t vector) {
    while (vector) {
      uint32_t &row = rows[log2Floor(vector)];
      if (!row) {
        row = vector;
        return true;
      }
      vector ^= row;
    }
    return false;
  }
};

unsigned maxVectorBits(unsigned bits) {
  return bits >= 128 ? 0 : log2Floor(128 / bits);
}

/// The offsets, in the unswizzled layout `rows`, that differ inside a group of lanes of the access when `low` offset
/// bits stay whole.
OffsetSpan groupSpan(const TileLayout &regs, const SharedLayout &rows, unsigned bits, unsigned low, BankModel model) {
  OffsetSpan span;
  const unsigned wordBits = bits < 32 ? log2Floor(32 / bits) : 0;
  for (unsigned i = 0; i < wordBits; ++i) span.insert(1u << i); // elements of one word never conflict
  if (model.banks == 32 && low >= maxVectorBits(bits))
    if (const auto plan = matrixPlan(regs, rows, bits)) {
      for (unsigned i = 0; i < low; ++i) span.insert(1u << i);
      for (unsigned i = 0; i < 3; ++i) // the eight rows of a matrix
        span.insert(uint32_t(plan->address.laneBases[i].xorBits));
      return span;
    }
  const unsigned vector = vectorPlan(regs, rows, bits, std::max(1u, (bits << low) / 8)).vector;
  for (unsigned i = 0; (1u << i) < vector; ++i) span.insert(1u << i);
  const MemoryMap map(regs, rows);
  const unsigned group = std::min(lanesServed(bits * vector, model.banks), regs.lanes());
  for (unsigned i = 0; (1u << i) < group; ++i) span.insert(MemoryMap::inside(map.lane[i]));
  return span;
}

/// s_j of each line bit first, first + 1, …, from the bank bits [low, first).
class LineSearch {
public:
  LineSearch(unsigned low, unsigned first, unsigned total) : first_(first), total_(total) {
    for (unsigned s = 0; first > low && s < 1u << (first - low); ++s) choices_.push_back(s << low);
    if (choices_.empty()) choices_.push_back(0);
    std::stable_sort(choices_.begin(), choices_.end(),
                     [](uint32_t a, uint32_t b) { return llvm::popcount(a) < llvm::popcount(b); });
  }
  llvm::SmallVector<uint32_t, 16> run(llvm::ArrayRef<OffsetSpan> groups) {
    if (!descend(first_, Spans(groups.begin(), groups.end()))) {
      found_.clear();
      greedy(Spans(groups.begin(), groups.end()));
    }
    return found_;
  }

private:
  using Spans = llvm::SmallVector<OffsetSpan, 2>;
  bool descend(unsigned j, const Spans &spans) {
    if (j >= total_) return true;
    for (uint32_t s : choices_) {
      if (budget_ == 0) return false;
      --budget_;
      Spans next = spans;
      bool free = true;
      for (OffsetSpan &span : next) free = free && span.insert(1u << j | s);
      if (!free) continue;
      found_.push_back(s);
      if (descend(j + 1, next)) return true;
      found_.pop_back();
    }
    return false;
  }
  void greedy(Spans spans) {
    for (unsigned j = first_; j < total_; ++j) {
      unsigned fewest = ~0u;
      uint32_t best = 0;
      for (uint32_t s : choices_) {
        unsigned conflicts = 0;
        for (OffsetSpan span : spans) conflicts += !span.insert(1u << j | s);
        if (conflicts < fewest) fewest = conflicts, best = s;
      }
      for (OffsetSpan &span : spans) span.insert(1u << j | best);
      found_.push_back(best);
    }
  }
  unsigned first_, total_, budget_ = 2000; // some tens of microseconds
  llvm::SmallVector<uint32_t, 64> choices_;
  llvm::SmallVector<uint32_t, 16> found_;
};

/// Passes of the memory, plus one issue slot an instruction, plus packing for vectors below a word.
unsigned accessCost(const TileLayout &regs, const SharedLayout &mem, unsigned bits, BankModel model) {
  if (model.banks == 32)
    if (const auto plan = matrixPlan(regs, mem, bits)) {
      const unsigned instructions = plan->order.size() / plan->count;
      return instructions * (bankWavefronts(*plan, bits, model).wavefronts + 1);
    }
  const VectorPlan plan = vectorPlan(regs, mem, bits);
  const unsigned instructions = plan.order.size() / plan.vector, packing = plan.vector * bits < 32 ? 1 : 0;
  return instructions * (bankWavefronts(regs, mem, plan, bits, model).wavefronts + 1 + packing);
}
} // namespace

SharedLayout chooseSwizzle(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<const TileLayout *> accesses, unsigned bits,
                           BankModel model, SwizzleLimits limits) {
  const unsigned rank = shape.size();
  const unsigned wordBits = std::max(bits < 32 ? log2Floor(32 / bits) : 0, log2Floor(limits.vector));
  const unsigned lineBits = log2Floor(std::max(1u, model.banks * 32 / bits));

  std::optional<SharedLayout> best;
  std::pair<unsigned, unsigned> bestCost; // (cost, XORed bits: fewer make cheaper addresses)
  for (unsigned choice = 0; choice < std::max(1u, rank); ++choice) {
    // Fastest dimension first: the last one, then the others; below it the usual row-major order.
    llvm::SmallVector<unsigned, 4> order;
    if (limits.fastest && *limits.fastest != rank - 1 - choice) continue;
    if (rank > 0) order.push_back(rank - 1 - choice);
    for (unsigned d = rank; d-- > 0;)
      if (d != order.front()) order.push_back(d);
    const SharedLayout rows = SharedLayout::rowMajor(shape, order);
    if (accesses.empty()) return rows;
    unsigned total = 0;
    for (int64_t extent : rows.box()) total += log2Floor(extent);

    const unsigned widest = std::max(maxVectorBits(bits), wordBits);
    for (unsigned low = widest + 1; low-- > wordBits;) {
      llvm::SmallVector<OffsetSpan, 2> groups;
      for (const TileLayout *access : accesses) groups.push_back(groupSpan(*access, rows, bits, low, model));
      llvm::SmallVector<uint32_t, 16> swizzle;
      if (total > lineBits) swizzle = LineSearch(std::min(low, lineBits), lineBits, total).run(groups);

      std::vector<std::vector<uint32_t>> bases = rows.bases();
      unsigned xored = 0;
      for (std::vector<uint32_t> &dimension : bases)
        for (uint32_t &basis : dimension)
          if (const unsigned j = log2Floor(basis); j >= lineBits && !swizzle.empty()) {
            basis ^= swizzle[j - lineBits];
            xored += llvm::popcount(basis) - 1;
          }
      SharedLayout mem(shape, rows.box(), std::move(bases), rows.boxStride());
      std::pair<unsigned, unsigned> cost(0, xored);
      for (const TileLayout *access : accesses) cost.first += accessCost(*access, mem, bits, model);
      if (!best || cost < bestCost) {
        best = std::move(mem);
        bestCost = cost;
      }
      if (xored == 0 && total <= lineBits) break; // nothing to swizzle: `low` does not matter
    }
  }
  return *best;
}

} // namespace tlx::layout
