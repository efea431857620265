// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The simulator's global memory. A kernel may touch only what was allocated here or registered; everything else is out
// of bounds.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

namespace tlx::sim {

/// Thread-safe. Addresses are host addresses, so a pointer argument of a kernel is the pointer returned here. Freeing
/// or unregistering memory while a launch uses it is the caller's error.
class Memory {
public:
  /// A range of addresses that kernels may access.
  struct Extent {
    uintptr_t begin = 0, end = 0;
    uint8_t *written = nullptr; // one byte a byte, 1 = written; null: external memory, which counts as written
  };

  Memory() = default;
  ~Memory();
  Memory(const Memory &) = delete;
  Memory &operator=(const Memory &) = delete;

  /// Memory aligned to 256 bytes, filled with 0xff (NaN), or null if the host refuses. Unmapped addresses lie around
  /// it, so that an access out of bounds by less than some hundred megabytes meets no other allocation.
  void *allocate(size_t bytes);
  /// False if `p` was not returned by allocate.
  bool free(void *p);
  /// Declares memory of the application as accessible.
  void registerExternal(void *p, size_t bytes);
  bool unregisterExternal(void *p);

  /// Copies of the host. They fail (false, nothing copied) if the range of this memory is not inside one extent.
  bool write(void *dst, const void *src, size_t bytes);
  bool read(void *dst, const void *src, size_t bytes) const;
  bool fill(void *dst, uint8_t value, size_t bytes);

  std::optional<Extent> find(const void *address) const;
  /// The contents of all allocations, and whether their bytes are written; to go back to them. Registered memory as well.
  struct Contents {
    std::vector<std::pair<Extent, std::vector<uint8_t>>> extents;
  };
  Contents save() const;
  void restore(const Contents &contents); // of extents that are still there
  /// All extents, ascending.
  std::vector<Extent> extents() const;

private:
  struct Block {
    Extent extent;
    void *mapping = nullptr; // null: external
    size_t mappingBytes = 0;
    size_t shadowBytes = 0;
  };
  const Block *lookup(uintptr_t address, size_t bytes) const;
  void release(Block &block);
  mutable std::mutex mutex;
  std::map<uintptr_t, Block> blocks; // by extent.begin
};

} // namespace tlx::sim
