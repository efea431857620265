// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sim/memory.h"

#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace tlx::sim {

namespace {
// Address space, not memory: 10,000 allocations take 5 of 128 TB.
constexpr size_t kGuards[] = {size_t(256) << 20, size_t(16) << 20, size_t(64) << 10};

size_t roundUp(size_t n, size_t to) {
  return (n + to - 1) / to * to;
}

void *reserve(size_t bytes, int protection) {
  void *p = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : p;
}
} // namespace

Memory::~Memory() {
  for (auto &[begin, block] : blocks) release(block);
}

void Memory::release(Block &block) {
  if (!block.mapping) return;
  munmap(block.mapping, block.mappingBytes);
  if (block.extent.written) munmap(block.extent.written, block.shadowBytes);
}

void *Memory::allocate(size_t bytes) {
  const size_t page = size_t(sysconf(_SC_PAGESIZE));
  if (bytes > size_t(1) << 46) return nullptr;
  const size_t body = roundUp(bytes ? bytes : 1, page);
  Block block;
  for (size_t guard : kGuards) {
    block.mappingBytes = body + 2 * guard;
    block.mapping = reserve(block.mappingBytes, PROT_NONE);
    if (!block.mapping) continue;
    char *data = static_cast<char *>(block.mapping) + guard;
    block.shadowBytes = body + page; // the checks read eight bytes at a time
    block.extent.written = static_cast<uint8_t *>(reserve(block.shadowBytes, PROT_READ | PROT_WRITE));
    if (!block.extent.written || mprotect(data, body, PROT_READ | PROT_WRITE) != 0) {
      munmap(block.mapping, block.mappingBytes);
      if (block.extent.written) munmap(block.extent.written, block.shadowBytes);
      return nullptr;
    }
    // Poison what the caller sees; large allocations stay untouched (zero) until written, or they would become
    // resident.
    if (bytes <= size_t(64) << 20) std::memset(data, 0xff, bytes);
    block.extent.begin = reinterpret_cast<uintptr_t>(data);
    block.extent.end = block.extent.begin + bytes;
    std::lock_guard lock(mutex);
    blocks[block.extent.begin] = block;
    return data;
  }
  return nullptr;
}

bool Memory::free(void *p) {
  std::lock_guard lock(mutex);
  auto it = blocks.find(reinterpret_cast<uintptr_t>(p));
  if (it == blocks.end() || !it->second.mapping) return false;
  release(it->second);
  blocks.erase(it);
  return true;
}

void Memory::registerExternal(void *p, size_t bytes) {
  Block block;
  block.extent.begin = reinterpret_cast<uintptr_t>(p);
  block.extent.end = block.extent.begin + bytes;
  std::lock_guard lock(mutex);
  blocks[block.extent.begin] = block;
}

bool Memory::unregisterExternal(void *p) {
  std::lock_guard lock(mutex);
  auto it = blocks.find(reinterpret_cast<uintptr_t>(p));
  if (it == blocks.end() || it->second.mapping) return false;
  blocks.erase(it);
  return true;
}

const Memory::Block *Memory::lookup(uintptr_t address, size_t bytes) const {
  auto it = blocks.upper_bound(address);
  if (it == blocks.begin()) return nullptr;
  const Block &block = std::prev(it)->second;
  return address <= block.extent.end && bytes <= block.extent.end - address ? &block : nullptr;
}

bool Memory::write(void *dst, const void *src, size_t bytes) {
  std::lock_guard lock(mutex);
  const Block *block = lookup(reinterpret_cast<uintptr_t>(dst), bytes);
  if (!block) return false;
  std::memcpy(dst, src, bytes);
  if (block->extent.written)
    std::memset(block->extent.written + (reinterpret_cast<uintptr_t>(dst) - block->extent.begin), 1, bytes);
  return true;
}

bool Memory::read(void *dst, const void *src, size_t bytes) const {
  std::lock_guard lock(mutex);
  if (!lookup(reinterpret_cast<uintptr_t>(src), bytes)) return false;
  std::memcpy(dst, src, bytes);
  return true;
}

bool Memory::fill(void *dst, uint8_t value, size_t bytes) {
  std::lock_guard lock(mutex);
  const Block *block = lookup(reinterpret_cast<uintptr_t>(dst), bytes);
  if (!block) return false;
  std::memset(dst, value, bytes);
  if (block->extent.written)
    std::memset(block->extent.written + (reinterpret_cast<uintptr_t>(dst) - block->extent.begin), 1, bytes);
  return true;
}

std::optional<Memory::Extent> Memory::find(const void *address) const {
  std::lock_guard lock(mutex);
  const Block *block = lookup(reinterpret_cast<uintptr_t>(address), 1);
  return block ? std::optional(block->extent) : std::nullopt;
}

Memory::Contents Memory::save() const {
  std::lock_guard lock(mutex);
  Contents contents;
  for (auto &[begin, block] : blocks) {
    const size_t bytes = block.extent.end - block.extent.begin;
    std::vector<uint8_t> copy(block.extent.written ? 2 * bytes : bytes);
    std::memcpy(copy.data(), reinterpret_cast<const void *>(block.extent.begin), bytes);
    if (block.extent.written) std::memcpy(copy.data() + bytes, block.extent.written, bytes);
    contents.extents.emplace_back(block.extent, std::move(copy));
  }
  return contents;
}

void Memory::restore(const Contents &contents) {
  std::lock_guard lock(mutex);
  for (const auto &[extent, copy] : contents.extents) {
    const size_t bytes = extent.end - extent.begin;
    const Block *block = lookup(extent.begin, bytes);
    if (!block || block->extent.begin != extent.begin) continue;
    std::memcpy(reinterpret_cast<void *>(extent.begin), copy.data(), bytes);
    if (extent.written) std::memcpy(extent.written, copy.data() + bytes, bytes);
  }
}

std::vector<Memory::Extent> Memory::extents() const {
  std::lock_guard lock(mutex);
  std::vector<Extent> result;
  result.reserve(blocks.size());
  for (auto &[begin, block] : blocks) result.push_back(block.extent);
  return result;
}

} // namespace tlx::sim
