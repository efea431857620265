// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to src/layout: a tile layout composed with a shared layout, and the count of bank wavefronts.
#pragma once
#include "layout/gf2_p.h"

namespace tlx::layout::detail {

/// Where the bits of (register, lane, warp) of `regs` lead in `mem`. An image packs what is linear: the offset inside
/// the box in the low 32 bits, and above them the bits of the box index of each dimension. Images XOR; `offset` makes
/// them elements.
class MemoryMap {
public:
  MemoryMap(const TileLayout &regs, const SharedLayout &mem);

  llvm::SmallVector<uint64_t, 10> reg;
  llvm::SmallVector<uint64_t, 6> lane, warp;

  static uint32_t inside(uint64_t image) { return uint32_t(image); }
  static uint64_t boxIndex(uint64_t image) { return image >> 32; }
  /// Σ box index · stride of an image.
  int64_t boxOffset(uint64_t image) const;
  /// What the odd repetition `rep` of the tile adds.
  int64_t repetitionOffset(unsigned rep) const;
  int64_t offset(uint64_t image, unsigned rep) const {
    return inside(image) + boxOffset(image) + repetitionOffset(rep);
  }
  unsigned repetitions() const { return repetitions_; }
  /// Each stride between boxes that are there is a multiple of `elements`.
  bool stridesAreMultiplesOf(int64_t elements) const;

private:
  struct Dim {
    unsigned odd, indexStart, indexBits; // where the box index of the dimension lies above bit 32
    int64_t stride, boxesPerRepetition;
    bool several; // more than one box
  };
  llvm::SmallVector<Dim, 4> dims_;
  unsigned repetitions_ = 1;
};

/// A register or instruction whose address is wanted.
struct Target {
  uint64_t image = 0;
  unsigned rep = 0;
};
/// The address parts of `targets` under these thread bits, or nullopt where box indices of thread and target bits do
/// not add.
std::optional<AccessMap> makeAccessMap(const MemoryMap &map, llvm::ArrayRef<uint64_t> lanes,
                                       llvm::ArrayRef<uint64_t> warps, llvm::ArrayRef<Target> targets);

/// Passes that memory of `banks` words of 32 bits needs for lanes that each move `bitsEach` bits from bit address
/// offsets[lane] · bits. Lanes are served in groups of at most `banks` words.
BankReport wavefronts(llvm::ArrayRef<int64_t> offsets, unsigned bits, unsigned bitsEach, unsigned banks);
/// Lanes served together when each moves `bitsEach` bits.
inline unsigned lanesServed(unsigned bitsEach, unsigned banks) {
  return std::max(1u, banks * 32 / std::max(32u, bitsEach));
}

} // namespace tlx::layout::detail
