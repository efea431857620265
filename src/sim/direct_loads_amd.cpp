// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// AMD: loads from global memory straight into LDS, and the counters that say when they are there. A wave issues such a load as a whole; its
// bytes arrive when the schedule picks, and the wave knows it when a wait for vmcnt covers the load. Other waves may look behind a barrier
// after that. Nobody may overwrite with one what a wave has begun to read (ds_read is asynchronous too): the reading wave waits for
// lgkmcnt, then comes the barrier, then the load.
//
// What is a finding does not depend on when bytes arrive, so it is one in every schedule:
//   the bytes of a load are in flight until the wave's own wait, whenever they come;
//   reads that no wait stood behind when their wave came to a barrier stay marked until the next barrier.
#include <algorithm>
#include <cstring>

#include "sim/engine.h"

namespace tlx::sim {

namespace {
struct DirectLane {
  uint8_t *start;
  const uint8_t *source; // null: masked off
  const uint8_t *base;
};
constexpr uint64_t kOffsets = (uint64_t(1) << 32) - (1 << 17); // the buffer's end

template <unsigned Bytes>
void directLoad(uint8_t *start, const uint8_t *base, uint32_t offset, uint32_t mask, uint32_t site) {
  Engine &e = engine();
  const bool on = mask & 1;
  if (on && offset >= kOffsets)
    e.report(FindingKind::InvalidOperation, site,
             "offset " + std::to_string(offset) + " of a direct load is behind the buffer's end");
  DirectLane lane{start, on && offset < kOffsets ? base + offset : nullptr, base};
  // The source is checked by the lane it belongs to, before the lanes meet.
  if (lane.source) lane.source = e.checkSource(lane.source, Bytes, site);
  Gather *g;
  if (!e.arrive(site, kWave, &lane, g)) return;
  const uint8_t *sources[kMaxLanes];
  bool uniform = true;
  for (unsigned l = 0; l < kMaxLanes; ++l) {
    auto &other = *static_cast<DirectLane *>(g->slots[l]);
    sources[l] = other.source;
    uniform &= other.start == start && other.base == base;
  }
  if (!uniform)
    e.report(FindingKind::InvalidOperation, site,
             "the lanes of a wave give a direct load different bases or different starts in shared memory");
  e.directIssue(start, sources, Bytes, site);
  e.depart(*g);
}

void waitCounters(uint32_t vm, uint32_t lgkm, uint32_t site) {
  engine().waitCounters(vm, lgkm, site);
}
void schedBarrier(uint32_t site) {
  engine().acquireFence(site); // what holds the compiler's reads behind a barrier without fences
}

const Symbol kDirect[] = {
    {"tlx.amd.buffer.load.lds.b32", reinterpret_cast<void *>(directLoad<4>)},
    {"tlx.amd.buffer.load.lds.b128", reinterpret_cast<void *>(directLoad<16>)},
    {"tlx.amd.s.waitcnt", reinterpret_cast<void *>(waitCounters)},
    {"tlx.amd.sched.barrier", reinterpret_cast<void *>(schedBarrier)},
};
} // namespace

llvm::ArrayRef<Symbol> directLoadOperations() {
  return kDirect;
}

/// Global memory that a load will read; null if it must not.
const uint8_t *Engine::checkSource(const uint8_t *source, uint32_t bytes, uint32_t site) {
  uint8_t *p = globalAccess(const_cast<uint8_t *>(source), {AccessFlags::pack(bytes, 2, AccessFlags::kRead)}, site);
  if (p == scratch) return nullptr;
  if (checkRaces) raceGlobal(reinterpret_cast<uintptr_t>(p), {AccessFlags::pack(bytes, 2, AccessFlags::kRead)}, site);
  return p;
}

TLX_COLD void Engine::directOverrun(uint32_t offset, uint8_t reader, uint32_t site) {
  report(FindingKind::SlotOverrun, site,
         "a direct load overwrites shared offset " + std::to_string(offset) + ", which wave " +
             std::to_string(reader - 1) +
             " may not have read yet: its reads have no wait (lgkmcnt) before the barrier");
}
TLX_COLD void Engine::directTwice(uint32_t offset, bool flying, uint32_t site) {
  report(flying ? FindingKind::InFlight : FindingKind::MissingFence, site,
         flying ? "a direct load goes to shared offset " + std::to_string(offset) + ", where another one is in flight"
                : "missing fence: a direct load goes to shared offset " + std::to_string(offset) +
                      ", which another wave has written since the last barrier");
}

void Engine::directIssue(uint8_t *start, const uint8_t *const *sources, uint32_t bytes, uint32_t site) {
  Warp &warp = *current->warp;
  Cta &c = cta();
  const uint32_t total = bytes * kMaxLanes;
  onSync(SyncKind::Copy, 0, site, bytes);
  const int64_t at = start - c.shared;
  if (at < 0 || uint64_t(at) + total > program.sharedBytes || at % bytes) {
    sharedRefused(at, {AccessFlags::pack(total, bytes == 16 ? 4 : 2, AccessFlags::kWrite | AccessFlags::kShared)},
                  site);
    return;
  }
  const uint32_t offset = uint32_t(at);
  for (uint32_t i = offset; i < offset + total; ++i) {
    const uint8_t s = c.shadow[i];
    if (c.reading[i]) {
      directOverrun(i, c.reading[i], site);
      break;
    }
    if (s == kInFlight || (s >= kUnreleased && s != kUnreleased + warp.index)) {
      directTwice(i, s == kInFlight, site);
      break;
    }
  }
  if (checkRaces)
    raceShared(c, offset, {AccessFlags::pack(total, 2, AccessFlags::kWrite | AccessFlags::kShared)}, site);
  std::memset(&c.shadow[offset], kInFlight, total);
  std::memset(start, 0xff, total);
  DirectLoad load;
  load.offset = offset, load.bytes = bytes, load.site = site, load.serial = ++asyncSerial;
  std::copy(sources, sources + kMaxLanes, load.sources);
  if (config.schedule == Schedule::Early) completeDirect(load, c);
  warp.direct.push_back(load);
  if (config.schedule == Schedule::Random) openDirect.push_back({&warp, load.serial});
}

void Engine::completeDirect(DirectLoad &load, Cta &c) {
  if (load.done) return;
  load.done = true;
  for (unsigned l = 0; l < kMaxLanes; ++l) {
    uint8_t *to = c.shared + load.offset + l * load.bytes;
    if (load.sources[l])
      std::memcpy(to, load.sources[l], load.bytes);
    else
      std::memset(to, 0, load.bytes);
  }
}

void Engine::directRandom() {
  if (openDirect.empty() || rng() % 4) return;
  const size_t i = rng() % openDirect.size();
  auto [warp, serial] = openDirect[i];
  openDirect[i] = openDirect.back();
  openDirect.pop_back();
  for (DirectLoad &load : warp->direct)
    if (load.serial == serial) completeDirect(load, *warp->cta);
}

/// Loads of a wave arrive in the order of issue, as far as its counter tells.
void Engine::waitCounters(uint32_t vm, uint32_t lgkm, uint32_t site) {
  Warp &warp = *current->warp;
  Cta &c = *warp.cta;
  onSync(SyncKind::CopyWait, vm, site);
  if (vm < 63 && warp.direct.size() > vm) {
    const size_t covered = warp.direct.size() - vm;
    for (size_t i = 0; i < covered; ++i) {
      DirectLoad &load = warp.direct[i];
      completeDirect(load, c);
      // As if the wave had written it now: others see it behind the next barrier.
      std::memset(&c.shadow[load.offset], int(kUnreleased + warp.index), load.bytes * kMaxLanes);
      std::memset(&c.writer[load.offset], int(warp.index + 1), load.bytes * kMaxLanes);
      if (checkRaces)
        raceRecord(*c.races, load.offset, load.offset + load.bytes * kMaxLanes, markNow(Mark::Kind::Write, load.site),
                   c, warp.index);
      warp.landed.push_back({load.offset, load.bytes * kMaxLanes, load.site});
    }
    warp.direct.erase(warp.direct.begin(), warp.direct.begin() + ptrdiff_t(covered));
  }
  // Lower counts are not told apart: nothing here makes use of them.
  if (lgkm) return;
  releaseFence(site);
  if (directLoads) readsEnd(*current);
}

void Engine::readBegins(uint32_t offset, uint32_t bytes, uint32_t site) {
  Thread &t = *current;
  std::memset(&cta().reading[offset], int(t.warp->index + 1), bytes);
  if (!t.reads.empty() && t.reads.back().offset + t.reads.back().bytes == offset)
    t.reads.back().bytes += bytes;
  else
    t.reads.push_back({offset, bytes, site});
}

void Engine::readsEnd(Thread &t) {
  Cta &c = *t.warp->cta;
  forgetReads(c, t, t.reads);
  t.lateReadsWaited = true;
}

/// Bytes that another wave has begun to read since keep their mark.
void Engine::forgetReads(Cta &c, Thread &t, std::vector<Thread::Range> &reads) {
  const uint8_t mine = uint8_t(t.warp->index + 1);
  for (const Thread::Range &r : reads)
    for (uint32_t i = r.offset; i < r.offset + r.bytes; ++i)
      if (c.reading[i] == mine) c.reading[i] = 0;
  reads.clear();
}

/// A thread comes to a barrier: what it reads without having waited stays marked behind it.
void Engine::readsCross(Thread &t) {
  if (t.reads.empty()) return;
  t.lateReads.insert(t.lateReads.end(), t.reads.begin(), t.reads.end());
  t.lateReadsWaited = false;
  t.reads.clear();
}

/// All are at the barrier: loads whose waves have waited are there for everybody.
void Engine::publishDirect(Cta &c) {
  for (Warp &warp : c.warps) {
    const uint8_t mine = uint8_t(kUnreleased + warp.index);
    for (const Thread::Range &r : warp.landed)
      for (uint32_t i = r.offset; i < r.offset + r.bytes; ++i)
        if (c.shadow[i] == mine) c.shadow[i] = kWritten;
    warp.landed.clear();
  }
  for (Thread &t : c.threads) {
    if (t.lateReadsWaited) forgetReads(c, t, t.lateReads);
    readsCross(t);
  }
}

void Engine::startDirect(Cta &c) {
  std::fill(c.reading.begin(), c.reading.end(), uint8_t(0));
  for (Warp &warp : c.warps) warp.direct.clear(), warp.landed.clear();
  for (Thread &t : c.threads) t.reads.clear(), t.lateReads.clear(), t.lateReadsWaited = false;
}

/// The last lane of a wave ends: LDS is another workgroup's afterwards.
void Engine::directExit(Thread &t) {
  Warp &warp = *t.warp;
  if (warp.live || warp.direct.empty()) return;
  const DirectLoad &load = warp.direct.front();
  report(FindingKind::InFlight, load.site,
         "a wave ends with direct loads in flight, this one among them: no wait covers it");
  warp.direct.clear();
}

/// Of a CTA that has ended; nobody may complete its loads afterwards.
void Engine::endDirect(Cta &c) {
  std::erase_if(openDirect, [&](auto &open) { return open.first->cta == &c; });
}

} // namespace tlx::sim
