// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to src/sim: what the race checker remembers of bytes, those of a CTA's shared memory or of global memory. A lane of a warp is an
// actor (on AMD a wave); a TMA load is an actor of its own, which ends with a phase of its mbarrier, and so is a TMA store, which ends with a wait.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"

namespace tlx::sim {

/// An access as bytes remember it.
struct Mark {
  enum class Kind : uint8_t { Read, Write, Atomic };
  static constexpr uint32_t kLoads = 64, kStores = ~0u;
  static constexpr uint8_t kEvery = 64, kSome = 65; // lanes, see below
  uint32_t cta = 0;                                 // its number in the grid
  uint32_t actor =
      0; // below kLoads a warp, from there on loads of mbarrier actor - kLoads; kStores: a TMA store in flight
  uint32_t step = 0; // of the lane, the mbarrier's phase, or the store's number
  uint32_t site = 0;
  Kind kind = Kind::Read;
  bool ctaScope = false; // of an atomic
  /// Of a warp's access. kEvery: made by the warp as a whole, each lane is behind it (a read of wgmma at the wait, all of AMD). kSome: by several
  /// lanes, or nobody can tell by which (ldmatrix).
  uint8_t lane = 0;
  bool unit = false; // of a warp's write: a TMA store's, that the warp has waited for

  bool isWarp() const { return actor < kLoads; }
  bool isStore() const { return actor == kStores; }
};

class Races {
public:
  /// Marks by number, 0: none. `others`: a set of reads and atomics since the write.
  struct Cell {
    uint32_t write = 0, others = 0;
    bool operator==(const Cell &) const = default;
  };
  Races() { forget(); }
  void forget();
  uint32_t number(const Mark &mark);
  Mark mark(uint32_t number) const {
    Mark m = marks[number >> kLaneBits];
    m.lane = number & ((1u << kLaneBits) - 1);
    return m;
  }
  llvm::ArrayRef<uint32_t> set(uint32_t number) const { return sets[number]; }
  /// A set with one mark more. What the mark stands for as well goes: earlier ones of its actor, and those `isKnown` to it.
  uint32_t added(uint32_t set, uint32_t mark, llvm::function_ref<bool(const Mark &)> isKnown);
  uint32_t replaced(uint32_t set, uint32_t mark, uint32_t by);
  /// The cells of bytes [begin, end): one of 4 bytes, or of a byte where an access was smaller.
  void forEach(uint64_t begin, uint64_t end, llvm::function_ref<void(Cell &)> f);

private:
  static constexpr unsigned kChunkBytes = 1024;
  static constexpr unsigned kLaneBits = 7; // of a mark's number: lanes that do the same need one entry
  struct Chunk {
    bool fine = false;
    std::vector<Cell> cells;
  };
  uint32_t numberOfSet(llvm::SmallVector<uint32_t, 4> &&set);
  std::vector<Mark> marks;                          // [0] is none
  std::vector<llvm::SmallVector<uint32_t, 4>> sets; // [0] is empty
  llvm::DenseMap<std::pair<uint64_t, uint64_t>, uint32_t> numbers;
  llvm::DenseMap<std::pair<uint32_t, uint32_t>, uint32_t> joins; // (set, mark) → set
  llvm::DenseMap<uint64_t, std::unique_ptr<Chunk>> chunks;
  uint64_t lastKey = ~uint64_t(0);
  Chunk *last = nullptr;
};

} // namespace tlx::sim
