// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to src/sim: what the race checker remembers of a CTA's shared memory. A warp is one actor; a TMA load is an actor of its own, which ends
// with a phase of its mbarrier.
#pragma once
#include <cstdint>
#include <vector>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"

namespace tlx::sim {

/// The last write of a byte.
struct WriteMark {
  static constexpr uint32_t kNobody = ~0u,
                            kLoads = 64; // below kLoads a warp, from there on loads of mbarrier actor - kLoads
  uint32_t actor = kNobody;
  uint32_t step = 0; // of the warp's clock, or the mbarrier's phase
  uint32_t site = 0;
};

/// Who has read a byte since it was last written: sets are shared by all bytes with the same readers.
struct ReadMark {
  uint32_t warp, step, site;
};

class Races {
public:
  void start(size_t bytes) {
    writes.assign(bytes, WriteMark());
    reads.assign(bytes, 0);
    sets.assign(1, {});
    joins.clear();
    singles.clear();
  }
  llvm::ArrayRef<ReadMark> readersOf(size_t byte) const { return sets[reads[byte]]; }
  WriteMark &writeOf(size_t byte) { return writes[byte]; }
  void forgetReads(size_t byte) { reads[byte] = 0; }
  /// Adds a reader to the bytes; an earlier read of the same warp is no longer needed.
  void addRead(size_t begin, size_t end, const ReadMark &mark);

private:
  uint32_t single(const ReadMark &mark);
  std::vector<WriteMark> writes;                                 // by byte
  std::vector<uint32_t> reads;                                   // by byte: number of a set; 0: nobody
  std::vector<llvm::SmallVector<ReadMark, 4>> sets;              // [0] is empty
  llvm::DenseMap<std::pair<uint32_t, uint32_t>, uint32_t> joins; // (set, set of one) → set
  llvm::DenseMap<std::pair<uint64_t, uint32_t>, uint32_t> singles;
};

} // namespace tlx::sim
