// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every access of a kernel to global or shared memory passes Engine::access: bounds, alignment, initialization. An
// access that must not happen is redirected to scratch memory, so the kernel goes on and later findings are met as
// well.
#include <algorithm>
#include <cstring>

#include "llvm/ADT/StringExtras.h"

#include "sim/engine.h"
#include "sim/text.h"

namespace tlx::sim {

namespace {
constexpr uint64_t kAllWritten = 0x0101010101010101ull;

/// Whether bytes [0, n) at p are all kWritten. May read up to 7 bytes past them (the shadow has slack).
inline bool allWritten(const uint8_t *p, uint32_t n) {
  uint64_t v;
  for (; n >= 8; n -= 8, p += 8) {
    std::memcpy(&v, p, 8);
    if (v != kAllWritten) return false;
  }
  if (!n) return true;
  std::memcpy(&v, p, 8);
  return ((v ^ kAllWritten) << (64 - 8 * n)) == 0;
}

const char *verb(AccessFlags flags) {
  return !flags.read() ? "write" : flags.write() ? "atomic access" : "read";
}
} // namespace

uint8_t *Engine::substitute(AccessFlags flags) {
  if (flags.read()) std::memset(scratch, 0xff, flags.bytes());
  return scratch;
}

uint8_t *Engine::access(uint8_t *address, AccessFlags flags, uint32_t site) {
  if (flags.yield()) yield();
  if (flags.shared()) return sharedAccess(address, flags, site);
  uint8_t *to = globalAccess(address, flags, site);
  if (checkRaces && to != scratch) raceGlobal(reinterpret_cast<uintptr_t>(to), flags, site);
  return to;
}

// --- global

std::string Engine::describeExtent(size_t index) const {
  const Memory::Extent &e = extents[index];
  for (const Argument &a : arguments)
    if (a.address >= e.begin && (a.address < e.end || a.address == e.begin))
      return "argument '" + a.name + "' (" + countText(e.end - e.begin, "byte") + ")";
  return "an allocation of " + countText(e.end - e.begin, "byte");
}

std::string Engine::describeGlobal(uintptr_t address, uint32_t bytes) const {
  constexpr uint64_t kFar = uint64_t(1) << 40;
  size_t best = extents.size();
  uint64_t bestDistance = kFar;
  for (size_t i = 0; i < extents.size(); ++i) {
    const Memory::Extent &e = extents[i];
    uint64_t distance = address < e.begin ? e.begin - address : address >= e.end ? address - e.end : 0;
    if (distance < bestDistance) bestDistance = distance, best = i;
  }
  if (best == extents.size()) return "at address 0x" + llvm::utohexstr(address, true) + ", which is near no allocation";
  const Memory::Extent &e = extents[best];
  if (address < e.begin) return countText(e.begin - address, "byte") + " before the start of " + describeExtent(best);
  if (address < e.end)
    return countText(address + bytes - e.end, "byte") + " of it past the end of " + describeExtent(best);
  return (address == e.end ? "at the end" : countText(address - e.end, "byte") + " past the end") + " of " +
         describeExtent(best);
}

/// `extent` null: out of bounds, else misaligned in it.
TLX_COLD uint8_t *Engine::globalRefused(uintptr_t address, const Memory::Extent *extent, AccessFlags flags,
                                        uint32_t site) {
  if (!extent)
    report(FindingKind::OutOfBounds, site,
           std::string("out of bounds: global ") + verb(flags) + " of " + countText(flags.bytes(), "byte") + " " +
               describeGlobal(address, flags.bytes()));
  else
    report(FindingKind::Misaligned, site,
           std::string("misaligned: global ") + verb(flags) + " at " + countText(address - extent->begin, "byte") +
               " into " + describeExtent(size_t(extent - extents.data())) + " needs an alignment of " +
               std::to_string(flags.align()));
  return substitute(flags);
}

TLX_COLD void Engine::unwrittenGlobal(uintptr_t address, const Memory::Extent &extent, uint32_t bytes, uint32_t site) {
  report(FindingKind::UninitializedRead, site,
         "uninitialized read: " + countText(bytes, "byte") + " at offset " + std::to_string(address - extent.begin) +
             " of " + describeExtent(size_t(&extent - extents.data())) + " were never written");
}

const Memory::Extent *Engine::extentOf(uintptr_t address, uint64_t bytes) const {
  auto it = std::upper_bound(extents.begin(), extents.end(), address,
                             [](uintptr_t a, const Memory::Extent &e) { return a < e.begin; });
  if (it == extents.begin()) return nullptr;
  const Memory::Extent &extent = *std::prev(it);
  return address <= extent.end && bytes <= extent.end - address ? &extent : nullptr;
}

uint8_t *Engine::globalAccess(uint8_t *p, AccessFlags flags, uint32_t site) {
  ++stats.globalAccesses;
  const uintptr_t address = reinterpret_cast<uintptr_t>(p);
  const uint32_t bytes = flags.bytes();
  const Memory::Extent *extent = nullptr;
  if (uint32_t hint = siteExtent[site]; hint < extents.size()) extent = &extents[hint];
  if (!extent || address < extent->begin || address + bytes > extent->end || address + bytes < address) {
    extent = extentOf(address, bytes);
    if (!extent) return globalRefused(address, nullptr, flags, site);
    siteExtent[site] = uint32_t(extent - extents.data());
  }
  if (address & (flags.align() - 1)) return globalRefused(address, extent, flags, site);
  if (uint8_t *written = extent->written) {
    written += address - extent->begin;
    if (flags.read()) {
      if (!allWritten(written, bytes)) unwrittenGlobal(address, *extent, bytes, site);
    }
    if (flags.write() && !allWritten(written, bytes)) std::memset(written, 1, bytes);
  }
  return p;
}

// --- shared

uint8_t *Engine::sharedAccess(uint8_t *p, AccessFlags flags, uint32_t site) {
  ++stats.sharedAccesses;
  Cta &c = cta();
  const intptr_t offset = p - c.shared;
  const uint32_t bytes = flags.bytes();
  if (offset < 0 || uint64_t(offset) + bytes > program.sharedBytes || (uint64_t(offset) & (flags.align() - 1)))
    return sharedRefused(offset, flags, site);
  if (traceAccesses && c.trace)
    c.trace->access(current->warp->index, current->lane, uint32_t(offset), bytes, flags.write(), site);
  if (checkRaces) raceShared(c, uint32_t(offset), flags, site);
  // The common case in one look: written before, nothing in flight.
  if (amd || !allWritten(&c.shadow[uint64_t(offset)], bytes)) checkSharedSlow(c, uint32_t(offset), flags, site);
  if (hopper && flags.write()) markWrite(c, uint32_t(offset), bytes, site);
  if (directLoads && flags.read()) readBegins(uint32_t(offset), bytes, site);
  return p;
}

TLX_COLD uint8_t *Engine::sharedRefused(int64_t offset, AccessFlags flags, uint32_t site) {
  if (offset < 0 || uint64_t(offset) + flags.bytes() > program.sharedBytes)
    report(FindingKind::OutOfBounds, site,
           std::string("out of bounds: shared ") + verb(flags) + " of " + countText(flags.bytes(), "byte") +
               " at offset " + std::to_string(offset) + " of " + countText(program.sharedBytes, "byte"));
  else
    report(FindingKind::Misaligned, site,
           std::string("misaligned: shared ") + verb(flags) + " at offset " + std::to_string(offset) +
               " needs an alignment of " + std::to_string(flags.align()));
  return substitute(flags);
}

void Engine::checkSharedSlow(Cta &c, uint32_t offset, AccessFlags flags, uint32_t site) {
  Thread &t = *current;
  const uint32_t bytes = flags.bytes();
  uint8_t *shadow = &c.shadow[offset];
  const uint8_t mine = uint8_t(kUnreleased + t.warp->index);
  bool unwritten = false, foreign = false, stale = false;
  uint8_t unit = 0; // the highest of kInFlight, kTmaInFlight, kMbarrier
  for (uint32_t i = 0; i < bytes; ++i) {
    const uint8_t s = shadow[i];
    unwritten |= s == kUnwritten;
    foreign |= s >= kUnreleased && s != mine;
    if (s > kWritten && s < kUnreleased) unit = std::max(unit, s);
  }
  if (amd && t.needsAcquire && flags.read())
    for (uint32_t i = 0; i < bytes; ++i) stale |= c.writer[offset + i] && c.writer[offset + i] != t.warp->index + 1;
  if (unit)
    touchesUnit(unit, FindingKind::InFlight, verb(flags), bytes, offset, site);
  else if (flags.read() && unwritten)
    report(FindingKind::UninitializedRead, site, "uninitialized read" + placeText(bytes, offset));
  else if (flags.read() && foreign)
    report(FindingKind::MissingFence, site,
           std::string("missing fence: ") + verb(flags) + placeText(bytes, offset) +
               " of another wave's write before its release fence");
  else if (stale)
    report(FindingKind::MissingFence, site,
           std::string("missing fence: ") + verb(flags) + placeText(bytes, offset) +
               " after a barrier without an acquire fence");
  if (!flags.write()) return;
  if (!amd) {
    for (uint32_t i = 0; i < bytes; ++i)
      if (shadow[i] == kUnwritten) shadow[i] = kWritten;
    return;
  }
  std::memset(shadow, mine, bytes);
  std::memset(&c.writer[offset], int(t.warp->index + 1), bytes);
  if (!t.unreleased.empty() && t.unreleased.back().offset + t.unreleased.back().bytes == offset)
    t.unreleased.back().bytes += bytes;
  else
    t.unreleased.push_back({offset, bytes, site});
}

void Engine::releaseFence(uint32_t site) {
  Thread &t = *current;
  onSync(SyncKind::Fence, 0, site);
  Cta &c = cta();
  const uint8_t mine = uint8_t(kUnreleased + t.warp->index);
  for (const Thread::Range &r : t.unreleased)
    for (uint32_t i = r.offset; i < r.offset + r.bytes; ++i)
      if (c.shadow[i] == mine) c.shadow[i] = kWritten;
  t.unreleased.clear();
}

void Engine::acquireFence(uint32_t site) {
  onSync(SyncKind::Fence, 0, site);
  current->needsAcquire = false;
}

// --- cp.async: an actor of its own. The schedule picks the moment at which the bytes arrive; the program may look at
// them only after the wait, so the state of the bytes (and with it the finding) does not depend on that moment.

void Engine::asyncIssue(uint8_t *destination, const uint8_t *source, uint32_t bytes, uint32_t sourceBytes,
                        uint32_t site) {
  Thread &t = *current;
  onSync(SyncKind::Copy, 0, site, bytes);
  if (sourceBytes > bytes) {
    report(FindingKind::InvalidOperation, site,
           "cp.async of " + countText(bytes, "byte") + " with " + countText(sourceBytes, "source byte"));
    sourceBytes = bytes;
  }
  const uint32_t log2 = bytes == 4 ? 2 : bytes == 8 ? 3 : 4;
  AsyncCopy copy;
  if (sourceBytes) {
    source =
        globalAccess(const_cast<uint8_t *>(source), {AccessFlags::pack(sourceBytes, log2, AccessFlags::kRead)}, site);
    if (source == scratch) sourceBytes = 0;
    if (checkRaces && sourceBytes)
      raceGlobal(reinterpret_cast<uintptr_t>(source), {AccessFlags::pack(sourceBytes, log2, AccessFlags::kRead)}, site);
  }
  uint8_t *to =
      sharedAccess(destination, {AccessFlags::pack(bytes, log2, AccessFlags::kWrite | AccessFlags::kShared)}, site);
  if (to == scratch) return;
  copy = {to, source, bytes, sourceBytes, t.committedGroups, site, ++asyncSerial, false};
  std::memset(&cta().shadow[size_t(to - cta().shared)], kInFlight, bytes);
  std::memset(to, 0xff, bytes);
  if (config.schedule == Schedule::Early) complete(copy);
  t.copies.push_back(copy);
  if (config.schedule == Schedule::Random) asyncOpen.push_back({&t, copy.serial});
}

void Engine::complete(AsyncCopy &copy) {
  if (copy.done) return;
  copy.done = true;
  if (copy.sourceBytes) std::memcpy(copy.destination, copy.source, copy.sourceBytes);
  std::memset(copy.destination + copy.sourceBytes, 0, copy.bytes - copy.sourceBytes);
}

void Engine::asyncRandom() {
  if (directLoads) directRandom();
  const size_t copies = asyncOpen.size(), loads = openLoads.size(), stores = openStores.size(),
               products = openWgmmas.size();
  const size_t all = copies + loads + stores + products;
  if (!all || rng() % 4) return;
  auto take = [](auto &list, size_t i) {
    auto one = list[i];
    list[i] = list.back();
    list.pop_back();
    return one;
  };
  size_t i = rng() % all;
  if (i < copies) {
    auto [thread, serial] = take(asyncOpen, i);
    for (AsyncCopy &copy : thread->copies)
      if (copy.serial == serial) complete(copy);
  } else if ((i -= copies) < loads) {
    completeLoad();
  } else if ((i -= loads) < stores) {
    auto [thread, serial] = openStores[i];
    bool again = false;
    for (BulkStore &store : thread->stores) {
      if (store.serial != serial) continue;
      again = store.stage == BulkStore::Stage::Issued;
      if (again)
        readSource(store, *thread->warp->cta);
      else
        writeResult(store);
    }
    if (!again) take(openStores, i);
  } else {
    auto [owner, group] = take(openWgmmas, i - stores);
    Warpgroup &g = owner->units->groups[group];
    if (g.executed < g.issued) executeWgmma(g, *owner);
  }
}

void Engine::asyncCommit(uint32_t site) {
  onSync(SyncKind::CopyCommit, 0, site);
  ++current->committedGroups;
}

void Engine::asyncWait(uint32_t keep, uint32_t site) {
  Thread &t = *current;
  onSync(SyncKind::CopyWait, keep, site);
  if (t.committedGroups < keep) return;
  const uint32_t covered = t.committedGroups - keep; // groups [0, covered)
  Cta &c = cta();
  std::erase_if(t.copies, [&](AsyncCopy &copy) {
    if (copy.group >= covered) return false;
    complete(copy);
    const uint32_t offset = uint32_t(copy.destination - c.shared);
    std::memset(&c.shadow[offset], kWritten, copy.bytes);
    if (hopper) markWrite(c, offset, copy.bytes, copy.site); // a generic write that happens now
    if (checkRaces) copyEnds(copy, offset);
    return true;
  });
}

/// What a copy of this thread has read and written counts as read and written now.
void Engine::copyEnds(const AsyncCopy &copy, uint32_t offset) {
  Cta &c = cta();
  const unsigned warp = current->warp->index;
  raceRecord(*c.races, offset, offset + copy.bytes, markNow(Mark::Kind::Write, copy.site), c, warp); // the lane's own
  const auto source = reinterpret_cast<uintptr_t>(copy.source);
  if (copy.sourceBytes)
    raceRecord(globalRaces, source, source + copy.sourceBytes, markNow(Mark::Kind::Read, copy.site), c, warp);
}

void Engine::asyncDrain(Thread &t) {
  for (AsyncCopy &copy : t.copies) complete(copy);
  // Their bytes stay in flight: nobody has waited.
  t.copies.clear();
}

} // namespace tlx::sim
