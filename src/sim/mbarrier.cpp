// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Hopper's mbarriers (PTX ISA 9.0, "Asynchronous Barrier: mbarrier"), proxy fences, and what all asynchronous units
// share: clocks, the marks on bytes of shared memory, how a thread and a CTA end.
#include <bit>
#include <cstring>

#include "llvm/ADT/STLExtras.h"

#include "sim/engine.h"
#include "sim/text.h"

namespace tlx::sim {

namespace {
constexpr int64_t kMaxBytes = (1 << 20) - 1; // of a transaction count, and the most arrivals
} // namespace

// --- clocks and marks

/// fence.mbarrier_init, or a proxy fence: barriers that this warp has initialized are visible to the asynchronous proxy.
void Engine::initFence() {
  const Warp &warp = *current->warp;
  if (hopper)
    for (Mbarrier &b : warp.cta->units->barriers)
      if (b.initWarp == warp.index) b.visible = true;
}

TLX_COLD void Engine::missingProxyFence(uint32_t stamp, const char *what, uint32_t offset, uint32_t site) {
  report(FindingKind::MissingFence, site,
         std::string("missing fence: ") + what + " at " + offsetText(offset) + ", which warp " +
             std::to_string(WriteStamp::warp(stamp)) +
             " has written by an ordinary store, and no tlx.nv.fence.proxy.async stands between them");
}

/// A generic write: who made it and when, for the proxy fence; nobody may still read.
void Engine::markWrite(Cta &cta, uint32_t offset, uint32_t bytes, uint32_t site) {
  Units &units = *cta.units;
  const unsigned warp = current->warp->index;
  const uint32_t stamp = WriteStamp::pack(warp, current->lane, units.steps[warp].of(current->lane));
  for (uint32_t i = offset / 4; i <= (offset + bytes - 1) / 4; ++i) units.stamps[i] = stamp;
  for (uint32_t i = offset / 16; i <= (offset + bytes - 1) / 16; ++i)
    if (units.readers[i]) {
      overwritten(cta, offset, bytes, "write", site);
      break;
    }
}

/// Finds who reads [offset, offset + bytes) and says so.
TLX_COLD void Engine::overwritten(Cta &cta, uint32_t offset, uint32_t bytes, const char *what, uint32_t site) {
  const uint32_t firstCell = offset / 16, lastCell = (offset + bytes - 1) / 16;
  auto overlaps = [&](const std::vector<uint16_t> &cells) {
    for (uint16_t c : cells)
      if (c >= firstCell && c <= lastCell) return true;
    return false;
  };
  std::string reader, cure;
  for (Warpgroup &group : cta.units->groups)
    for (const auto &pointer : group.ops) {
      const WgmmaOp &op = *pointer;
      if (reader.empty() && (overlaps(op.cellsA) || overlaps(op.cellsB)))
        reader = siteText(op.site), cure = "no tlx.nv.wgmma.wait covers it";
    }
  for (Thread &t : cta.threads)
    for (const BulkStore &store : t.stores)
      if (reader.empty() && !store.readCovered && store.offset <= lastCell * 16 + 15 &&
          store.offset + store.bytes > firstCell * 16)
        reader = siteText(store.site), cure = "no tlx.nv.bulk.wait.read covers it";
  report(FindingKind::SlotOverrun, site,
         what + placeText(bytes, offset) + " which " + reader + " may still read: " + cure);
}

/// Bytes of shared memory are touched whose `state` is an mbarrier's or a copy's in flight. `kind`: of touching what a
/// TMA load will write.
TLX_COLD void Engine::touchesUnit(uint8_t state, FindingKind kind, const char *what, uint32_t bytes, uint32_t offset,
                                  uint32_t site) {
  const std::string touches = what + placeText(bytes, offset) + " touches ";
  if (state == kMbarrier)
    report(FindingKind::MbarrierMisuse, site, touches + "an mbarrier");
  else if (state == kTmaInFlight)
    report(kind, site,
           touches + "the destination of a TMA load in flight: no wait has seen its mbarrier's phase complete");
  else
    report(FindingKind::InFlight, site,
           touches + "a " + (amd ? "direct load's" : "cp.async") +
               " destination in flight: no wait covers the copy yet");
}

void Engine::startUnits(Cta &cta) {
  Units &units = *cta.units;
  units.stamps.assign(program.sharedBytes / 4 + 4, 0);
  units.readers.assign(program.sharedBytes / 16 + 4, 0);
  for (unsigned w = 0; w < kMaxWarps; ++w) {
    units.clocks[w] = Clock();
    units.learned[w].clear();
    units.steps[w] = Steps();
  }
  for (Clock &c : units.named) c = Clock();
  for (std::deque<Arrival> &list : units.arrivals) list.clear();
  units.barriers.clear();
  units.barrierAt.clear();
  for (Warpgroup &group : units.groups) group = Warpgroup();
  for (Thread &t : cta.threads) {
    t.bulkGroups = 0;
    t.stores.clear();
    t.wgmma.reset();
  }
}

void Engine::endThreadUnits(Thread &t) {
  if (t.wgmma.calls > t.wgmma.waited) {
    const bool committed = !t.wgmma.groupEnds.empty() && t.wgmma.groupEnds.back() == t.wgmma.calls;
    report(FindingKind::AccumulatorInFlight, t.wgmma.lastSite,
           committed ? "the kernel ends with this wgmma in flight: no tlx.nv.wgmma.wait covers it"
                     : "the kernel ends with this wgmma in flight: no tlx.nv.wgmma.commit stands behind it");
  }
  for (BulkStore &store : t.stores) {
    if (!store.readCovered)
      report(FindingKind::InFlight, store.site,
             "the thread ends while this TMA store may still read shared memory: no tlx.nv.bulk.wait.read or "
             "tlx.nv.bulk.wait covers it");
    readSource(store, *t.warp->cta);
    writeResult(store);
    releaseSource(store, *t.warp->cta);
  }
  t.stores.clear();
}

void Engine::endUnits(Cta &cta) {
  std::erase_if(openLoads, [&](TmaLoad *load) {
    if (load->cta != &cta) return false;
    arrive(*load);
    return true;
  });
  for (const Mbarrier &b : cta.units->barriers) {
    for (const auto &load : b.loads)
      report(FindingKind::InFlight, load->site,
             "the kernel ends with this TMA load in flight: no wait has seen its mbarrier's phase complete",
             load->thread);
    if (b.valid && b.bytes) wrongBytes(b, cta, &cta.threads[0]);
  }
}

// --- mbarriers

std::string Engine::mbarrierText(const Mbarrier &b) const {
  std::string text = mbarrierName(b.offset) + " in phase " + std::to_string(b.phase) + ": " +
                     std::to_string(b.expected - b.pending) + " of " + countText(b.expected, "arrival") + " made";
  if (b.bytes > 0) text += ", " + countText(uint64_t(b.bytes), "byte") + " expected have not arrived";
  if (b.bytes < 0) text += ", " + countText(uint64_t(-b.bytes), "byte") + " arrived that were not expected";
  return text;
}

TLX_COLD void Engine::wrongBytes(const Mbarrier &b, const Cta &cta, const Thread *thread) {
  if (thread && thread->warp->cta != &cta) thread = &cta.threads[0];
  report(FindingKind::WrongBytes, b.bytesSite, "wrong bytes: " + mbarrierText(b), thread);
}

TLX_COLD void Engine::noBarrier(int64_t offset, const char *what, uint32_t site) {
  report(FindingKind::MbarrierMisuse, site,
         std::string(what) + " shared offset " + std::to_string(offset) +
             ", where there is no mbarrier: it was not initialized, or has been invalidated");
}

/// The initialized barrier at an address, or null with a finding.
Mbarrier *Engine::barrierOf(uint8_t *address, const char *what, uint32_t site) {
  const int64_t offset = address - cta().shared;
  Units *units = cta().units.get();
  if (units && offset >= 0 && uint64_t(offset) + 8 <= program.sharedBytes) {
    auto it = units->barrierAt.find(uint32_t(offset));
    if (it != units->barrierAt.end() && units->barriers[it->second].valid) {
      Mbarrier &b = units->barriers[it->second];
      if (checkRaces) raceBarrier(b, what, site);
      return &b;
    }
  }
  noBarrier(offset, what, site);
  return nullptr;
}

void Engine::mbarrierInit(uint8_t *address, uint32_t count, uint32_t site) {
  Cta &c = cta();
  const int64_t offset = address - c.shared;
  if (!hopper) return report(FindingKind::InvalidOperation, site, "this target has no mbarriers");
  if (offset < 0 || uint64_t(offset) + 8 > program.sharedBytes)
    return report(FindingKind::OutOfBounds, site,
                  "out of bounds: mbarrier of 8 bytes at shared offset " + std::to_string(offset) + " of " +
                      countText(program.sharedBytes, "byte"));
  if (offset % 8)
    return report(FindingKind::Misaligned, site,
                  "misaligned: mbarrier at shared offset " + std::to_string(offset) + " needs an alignment of 8");
  if (count == 0 || count > kMaxBytes) {
    report(FindingKind::InvalidOperation, site,
           "an mbarrier for " + std::to_string(count) + " arrivals: there are 1 to 1048575");
    count = 1;
  }
  Units &units = *c.units;
  // A new one also where there was one: what is known of the old one's phases says nothing of this one's.
  auto [it, isNew] = units.barrierAt.try_emplace(uint32_t(offset), 0);
  if (isNew || !units.barriers[it->second].valid) {
    it->second = uint32_t(units.barriers.size());
    units.barriers.emplace_back();
  }
  Mbarrier &b = units.barriers[it->second];
  if (b.valid)
    report(FindingKind::MbarrierMisuse, site,
           mbarrierName(uint32_t(offset)) + " is initialized again without tlx.nv.mbarrier.inval; first at " +
               siteText(b.initSite));
  checkShared(c, uint32_t(offset), 8, true, "tlx.nv.mbarrier.init", site);
  b.offset = uint32_t(offset);
  b.valid = true;
  b.expected = b.pending = count;
  b.bytes = 0;
  b.phase = 0;
  b.initSite = b.bytesSite = site;
  const Mark now = markNow(Mark::Kind::Write, site);
  b.initWarp = now.actor, b.initStep = now.step, b.initLane = now.lane;
  b.arrived = b.completed = Clock();
  b.visible = false;
  b.last.clear();
  b.waiting.assign(c.warps.size(), 0);
  std::memset(&c.shadow[size_t(offset)], kMbarrier, 8);
  if (c.trace) {
    b.traced = uint32_t(c.trace->barriers.size());
    c.trace->barriers.push_back({b.offset, count});
  }
  onSync(SyncKind::Init, b.traced, site, count);
}

void Engine::mbarrierInvalidate(uint8_t *address, uint32_t site) {
  Mbarrier *b = barrierOf(address, "tlx.nv.mbarrier.inval of", site);
  if (!b) return;
  Cta &c = cta();
  onSync(SyncKind::Invalidate, b->traced, site);
  publishLoads(*b, c);
  bool waited = false;
  for (uint64_t lanes : b->waiting) waited |= lanes != 0;
  if (waited || !b->loads.empty())
    report(FindingKind::MbarrierMisuse, site,
           mbarrierName(b->offset) + " is invalidated while " +
               (waited ? "threads wait for it" : "a TMA load will arrive at it"));
  if (b->bytes) wrongBytes(*b, c, current);
  b->valid = false;
  std::memset(&c.shadow[b->offset], kUnwritten, 8);
  std::memset(c.shared + b->offset, 0xff, 8);
}

void Engine::finishPhase(Mbarrier &b, Cta &cta) {
  if (b.pending || b.bytes) return;
  if (cta.trace) cta.trace->phase(false, b.traced, int64_t(b.phase));
  ++b.phase;
  b.pending = b.expected;
  b.completed.join(b.arrived);
  b.arrived.clear();
  for (unsigned w = 0; w < cta.warps.size(); ++w)
    if (uint64_t lanes = b.waiting[w]) {
      b.waiting[w] = 0;
      wake(cta.warps[w], lanes);
    }
}

void Engine::logArrival(Mbarrier &b, const Arrival &a) {
  constexpr size_t kOfBarrier = 4, kOfWarp = 64;
  const auto joins = [&](const auto &list) {
    return !list.empty() && list.back().warp == a.warp && list.back().site == a.site && list.back().phase == a.phase &&
           list.back().barrier == a.barrier && !a.loadBytes;
  };
  if (joins(b.last)) {
    b.last.back().count += a.count, b.last.back().when = a.when;
  } else {
    if (b.last.size() == kOfBarrier) b.last.erase(b.last.begin());
    b.last.push_back(a);
  }
  if (!checkRaces || a.loadBytes) return;
  std::deque<Arrival> &list = current->warp->cta->units->arrivals[a.warp];
  if (list.size() == kOfWarp) list.pop_front();
  list.push_back(a);
}

void Engine::arriveAt(Mbarrier &b, uint32_t count, uint32_t site) {
  onSync(SyncKind::Arrive, b.traced, site, count, int64_t(b.phase));
  const Warp &warp = *current->warp;
  const Units &units = *warp.cta->units;
  logArrival(b, {warp.index, site, units.barrierAt.lookup(b.offset), count, 0, current->lane, ownReach(), b.phase,
                 stats.switches});
  releaseClock(b.arrived);
  if (count == 0 || count > kMaxBytes)
    return report(FindingKind::InvalidOperation, site,
                  "an arrival of count " + std::to_string(count) + " at an mbarrier: there are 1 to 1048575");
  if (count > b.pending) {
    report(FindingKind::MbarrierMisuse, site,
           countText(count, "arrival") + " at " + mbarrierName(b.offset) + ", phase " + std::to_string(b.phase) +
               ", which has " + std::to_string(b.pending) + " of " + std::to_string(b.expected) + " left");
    count = b.pending;
  }
  b.pending -= count;
  finishPhase(b, cta());
}

/// Positive: told to expect; negative: arrived.
void Engine::expectBytes(Mbarrier &b, int64_t bytes, uint32_t site, const Thread *thread) {
  b.bytes += bytes;
  if (bytes > 0 || b.bytes < 0) b.bytesSite = site;
  if (b.bytes > kMaxBytes || b.bytes < -kMaxBytes) {
    report(FindingKind::WrongBytes, site,
           "wrong bytes: the transaction count of " + mbarrierName(b.offset) + " becomes " + std::to_string(b.bytes) +
               ", beyond 1048575",
           thread);
    b.bytes = std::clamp(b.bytes, -kMaxBytes, kMaxBytes);
  }
}

void Engine::mbarrierArrive(uint8_t *address, uint32_t count, uint32_t bytes, uint32_t site) {
  Mbarrier *b = barrierOf(address, "arrival at", site);
  if (!b) return;
  if (bytes) {
    onSync(SyncKind::Expect, b->traced, site, bytes, int64_t(b->phase));
    expectBytes(*b, bytes, site, current);
  }
  arriveAt(*b, count, site);
}

void Engine::mbarrierExpect(uint8_t *address, uint32_t bytes, uint32_t site) {
  Mbarrier *b = barrierOf(address, "expectation at", site);
  if (!b) return;
  onSync(SyncKind::Expect, b->traced, site, bytes, int64_t(b->phase));
  expectBytes(*b, bytes, site, current);
  finishPhase(*b, cta());
}

/// The parity of the phase under way decides, as in hardware: a thread that is late by a whole phase does not notice.
bool Engine::mbarrierWait(uint8_t *address, uint32_t parity, bool mayBlock, uint32_t site) {
  Mbarrier *b = barrierOf(address, "wait at", site);
  if (!b) return true; // and no endless loop
  Thread &t = *current;
  if (parity > 1) {
    report(FindingKind::InvalidOperation, site, "a wait for parity " + std::to_string(parity) + ": there are 0 and 1");
    return true;
  }
  const bool passes = (b->phase & 1) != parity;
  if (!passes && !mayBlock) {
    yield();
    return false;
  }
  const uint32_t event = onSync(SyncKind::Wait, b->traced, site, parity, int64_t(b->phase) - passes);
  if (!passes) {
    t.waitBarrier = cta().units->barrierAt[b->offset];
    b->waiting[t.warp->index] |= t.bit();
    block(Wait::Mbarrier, site);
  }
  afterSync(event);
  if (!b->loads.empty()) publishLoads(*b, *t.warp->cta);
  learnPhases(*b, kNamedPhases + cta().units->barrierAt[b->offset]);
  return true;
}

/// A thread knows that the phase is complete: the bytes of its loads may be looked at.
void Engine::publishLoads(Mbarrier &b, Cta &cta) {
  std::erase_if(b.loads, [&](const std::unique_ptr<TmaLoad> &load) {
    if (!load->arrived || load->phase >= b.phase) return false;
    std::memset(&cta.shadow[load->offset], kWritten, load->bytes);
    return true;
  });
}

namespace {
void init(uint8_t *barrier, uint32_t count, uint32_t site) {
  engine().mbarrierInit(barrier, count, site);
}
void invalidate(uint8_t *barrier, uint32_t site) {
  engine().mbarrierInvalidate(barrier, site);
}
void arrive(uint8_t *barrier, uint32_t count, uint32_t site) {
  engine().mbarrierArrive(barrier, count, 0, site);
}
void arriveExpect(uint8_t *barrier, uint32_t bytes, uint32_t site) {
  engine().mbarrierArrive(barrier, 1, bytes, site);
}
void expect(uint8_t *barrier, uint32_t bytes, uint32_t site) {
  engine().mbarrierExpect(barrier, bytes, site);
}
uint32_t tryWait(uint8_t *barrier, uint32_t parity, uint32_t site) {
  return engine().mbarrierWait(barrier, parity, true, site);
}
uint32_t testWait(uint8_t *barrier, uint32_t parity, uint32_t site) {
  return engine().mbarrierWait(barrier, parity, false, site);
}
void proxyFence(uint32_t site) {
  engine().proxyFence(kShared, site);
}
void proxyFenceGlobal(uint32_t site) {
  engine().proxyFence(kGlobal, site);
}
void initFence(uint32_t) {
  engine().initFence();
}
// Memory is sequentially consistent here, and what orders threads are barriers and mbarriers.
void otherFence(uint32_t) {}
void pin(uint32_t, uint8_t *, uint32_t) {}

/// The ISA leaves open which lane it is. The last one: a kernel that counts on the first has races.
uint32_t elect(uint32_t site) {
  const uint64_t live = engine().current->warp->live;
  const unsigned last = 63 - unsigned(std::countl_zero(live));
  Gather *g;
  if (engine().arrive(site, live, nullptr, g)) engine().depart(*g);
  return engine().current->lane == last;
}

const Symbol kSymbols[] = {
    symbol("tlx.nv.elect", elect),
    symbol("tlx.nv.mbarrier.init", init),
    symbol("tlx.nv.mbarrier.inval", invalidate),
    symbol("tlx.nv.mbarrier.arrive", arrive),
    symbol("tlx.nv.mbarrier.arrive.expect.tx", arriveExpect),
    symbol("tlx.nv.mbarrier.expect.tx", expect),
    symbol("tlx.nv.mbarrier.try.wait", tryWait),
    symbol("tlx.nv.mbarrier.test.wait", testWait),
    symbol("tlx.nv.fence.mbarrier.init", initFence),
    symbol("tlx.nv.fence.proxy.async", proxyFence),
    symbol("tlx.nv.fence.proxy.async.global", proxyFenceGlobal),
    symbol("tlx.nv.pin", pin),
    symbol("tlx.nv.fence.acq.rel.cta", otherFence),
    symbol("tlx.nv.fence.acq.rel.gpu", otherFence),
    symbol("tlx.nv.fence.acq.rel.sys", otherFence),
};
} // namespace

llvm::ArrayRef<Symbol> mbarrierOperations() {
  return kSymbols;
}

} // namespace tlx::sim
