// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Accesses of registers to shared memory: the parts of their addresses, the widest vectors, and the bank wavefronts.
#include "layout/access_p.h"

#include <algorithm>

namespace tlx::layout {
using namespace detail;

namespace detail {
MemoryMap::MemoryMap(const TileLayout &regs, const SharedLayout &mem) {
  assert(regs.shape() == mem.shape() && "a tile and its memory have one shape");
  unsigned start = 0;
  for (unsigned d = 0; d < mem.rank(); ++d) {
    const Extent extent = regs.extent(d);
    const unsigned indexBits = extent.bits - log2Floor(mem.box()[d]);
    dims_.push_back(
        {extent.odd, start, indexBits, mem.boxStride()[d], int64_t(1) << indexBits, mem.box()[d] != mem.shape()[d]});
    start += indexBits;
    repetitions_ *= extent.odd;
  }
  auto image = [&](const Coord &coord) {
    uint64_t box = 0, index = 0;
    for (unsigned d = 0; d < mem.rank(); ++d) {
      box ^= combine(mem.bases()[d], coord[d] & (mem.box()[d] - 1));
      index |= uint64_t(coord[d] >> log2Floor(mem.box()[d])) << dims_[d].indexStart;
    }
    return box | index << 32;
  };
  for (const Coord &basis : regs.bases(InDim::Register)) reg.push_back(image(basis));
  for (const Coord &basis : regs.bases(InDim::Lane)) lane.push_back(image(basis));
  for (const Coord &basis : regs.bases(InDim::Warp)) warp.push_back(image(basis));
}

int64_t MemoryMap::boxOffset(uint64_t image) const {
  int64_t offset = 0;
  if (boxIndex(image))
    for (const Dim &dim : dims_)
      offset += int64_t(boxIndex(image) >> dim.indexStart & ((uint64_t(1) << dim.indexBits) - 1)) * dim.stride;
  return offset;
}

int64_t MemoryMap::repetitionOffset(unsigned rep) const {
  int64_t offset = 0;
  for (size_t d = dims_.size(); d-- > 0 && rep;) {
    offset += int64_t(rep % dims_[d].odd) * dims_[d].boxesPerRepetition * dims_[d].stride;
    rep /= dims_[d].odd;
  }
  return offset;
}

bool MemoryMap::stridesAreMultiplesOf(int64_t elements) const {
  for (const Dim &dim : dims_)
    if (dim.several && dim.stride % elements) return false;
  return true;
}

std::optional<AccessMap> makeAccessMap(const MemoryMap &map, llvm::ArrayRef<uint64_t> lanes,
                                       llvm::ArrayRef<uint64_t> warps, llvm::ArrayRef<Target> targets) {
  // The XOR of box indices is their sum if no bit of an index comes from two places. Inside the targets it is a
  // constant.
  uint64_t threadIndex = 0, targetIndex = 0;
  uint32_t threadBits = 0;
  for (llvm::ArrayRef<uint64_t> images : {lanes, warps})
    for (uint64_t image : images) {
      if (threadIndex & MemoryMap::boxIndex(image)) return std::nullopt;
      threadIndex |= MemoryMap::boxIndex(image);
      threadBits |= MemoryMap::inside(image);
    }
  for (const Target &target : targets) targetIndex |= MemoryMap::boxIndex(target.image);
  if (threadIndex & targetIndex) return std::nullopt;

  AccessMap access;
  for (uint64_t image : lanes) access.laneBases.push_back({map.boxOffset(image), MemoryMap::inside(image)});
  for (uint64_t image : warps) access.warpBases.push_back({map.boxOffset(image), MemoryMap::inside(image)});
  access.registers.reserve(targets.size());
  for (const Target &target : targets) {
    // a ^ (b | c) = (a ^ b) + c if c shares no bit with a or b.
    const uint32_t inside = MemoryMap::inside(target.image), apart = inside & ~threadBits;
    access.registers.push_back(
        {map.boxOffset(target.image) + map.repetitionOffset(target.rep) + apart, inside & threadBits});
  }
  return access;
}

BankReport wavefronts(llvm::ArrayRef<int64_t> offsets, unsigned bits, unsigned bitsEach, unsigned banks) {
  BankReport report;
  const size_t served = lanesServed(bitsEach, banks);
  llvm::SmallVector<int64_t, 128> words;
  llvm::SmallVector<unsigned, 64> load;
  for (size_t first = 0; first < offsets.size(); first += served) {
    words.clear();
    for (size_t l = first; l < std::min(first + served, offsets.size()); ++l)
      for (int64_t word = offsets[l] * bits / 32; word <= (offsets[l] * bits + bitsEach - 1) / 32; ++word)
        words.push_back(word);
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    load.assign(banks, 0);
    for (int64_t word : words) ++load[word % banks];
    report.wavefronts += *std::max_element(load.begin(), load.end());
    report.minimum += (words.size() + banks - 1) / banks;
  }
  return report;
}
} // namespace detail

std::optional<AccessMap> accessMap(const TileLayout &regs, const SharedLayout &mem) {
  const MemoryMap map(regs, mem);
  std::vector<Target> targets(regs.registers());
  const unsigned bits = regs.bits(InDim::Register);
  for (unsigned r = 0; r < targets.size(); ++r) targets[r] = {combine(map.reg, r & ((1u << bits) - 1)), r >> bits};
  return makeAccessMap(map, map.lane, map.warp, targets);
}

VectorPlan vectorPlan(const TileLayout &regs, const SharedLayout &mem, unsigned bits, unsigned maxBytes) {
  const MemoryMap map(regs, mem);
  const unsigned registerBits = regs.bits(InDim::Register), perRepetition = 1u << registerBits;
  Span span; // payload: the combination of register bits
  for (unsigned i = 0; i < registerBits; ++i) span.insert(map.reg[i], uint64_t(1) << i);

  // A vector of 2^v elements takes the registers r ^ span(step[0 … v-1]), where step[i] moves by exactly 2^i elements.
  // As that is all of an aligned block of memory, it is aligned by construction, provided that thread bits keep off the
  // low bits (else the order inside the vector would depend on the thread) and boxes start at multiples of it.
  llvm::SmallVector<unsigned, 8> step;
  auto fits = [&](unsigned v) {
    if ((uint64_t(bits) << (v + 1)) > uint64_t(maxBytes) * 8 || !map.stridesAreMultiplesOf(int64_t(2) << v))
      return false;
    for (const auto *images : {&map.lane, &map.warp})
      for (uint64_t image : *images)
        if (image >> v & 1) return false;
    return true;
  };
  while (fits(step.size())) {
    const std::optional<uint64_t> combination = span.solve(uint64_t(1) << step.size());
    if (!combination) break;
    step.push_back(unsigned(*combination));
  }

  VectorPlan plan;
  plan.vector = 1u << step.size();
  plan.order.reserve(regs.registers());
  std::vector<bool> taken(perRepetition);
  for (unsigned r = 0; r < perRepetition; ++r) {
    if (taken[r]) continue;
    const unsigned first = r ^ unsigned(combine(step, combine(map.reg, r) & (plan.vector - 1)));
    for (unsigned j = 0; j < plan.vector; ++j) {
      plan.order.push_back(first ^ unsigned(combine(step, j)));
      taken[plan.order.back()] = true;
    }
  }
  for (unsigned rep = 1; rep < map.repetitions(); ++rep)
    for (unsigned i = 0; i < perRepetition; ++i) plan.order.push_back(plan.order[i] + rep * perRepetition);
  return plan;
}

BankReport bankWavefronts(const TileLayout &regs, const SharedLayout &mem, const VectorPlan &plan, unsigned bits,
                          BankModel model) {
  const MemoryMap map(regs, mem);
  const unsigned registerBits = regs.bits(InDim::Register);
  // A register's offset XORs into the box and boxes lie whole bank lines apart: then each vector permutes the banks and
  // keeps equal words equal, and the first one speaks for all.
  const bool uniform = map.stridesAreMultiplesOf(std::max(1u, model.banks * 32 / bits));
  BankReport worst;
  llvm::SmallVector<int64_t, 64> offsets(regs.lanes());
  for (size_t v = 0; v < (uniform ? 1 : plan.order.size()); v += plan.vector) {
    const unsigned r = plan.order[v];
    const uint64_t image = combine(map.reg, r & ((1u << registerBits) - 1));
    for (unsigned l = 0; l < offsets.size(); ++l)
      offsets[l] = map.offset(image ^ combine(map.lane, l), r >> registerBits);
    const BankReport report = wavefronts(offsets, bits, bits * plan.vector, model.banks);
    if (v == 0 || report.wavefronts > worst.wavefronts) worst = report;
  }
  return worst;
}

} // namespace tlx::layout
