// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where threads meet: named barriers of a CTA, and the gathering of a warp's lanes at a collective operation.
#include <algorithm>
#include <bit>

#include "sim/engine.h"
#include "sim/text.h"

namespace tlx::sim {

TLX_COLD void Engine::refuseBarrier(uint32_t id, uint32_t count, uint32_t site) {
  report(FindingKind::BarrierMismatch, site,
         "barrier " + std::to_string(id) + " with " + std::to_string(count) +
             " threads: ids are 0 to 15, counts a multiple of " + std::to_string(warpSize) + " up to the CTA's " +
             std::to_string(program.threads) + " threads");
}

TLX_COLD void Engine::refuseCount(uint32_t id, uint32_t count, uint32_t site) {
  const NamedBarrier &b = cta().barriers[id];
  report(FindingKind::BarrierMismatch, site,
         "barrier " + std::to_string(id) + " with " + std::to_string(count) + " threads, but others wait at it with " +
             std::to_string(b.count) + " at " + siteText(b.site));
}

TLX_COLD void Engine::refuseReduction(uint32_t id, uint32_t site) {
  const NamedBarrier &b = cta().barriers[id];
  report(FindingKind::BarrierMismatch, site,
         std::string(b.reduces ? "no reduction" : "a reduction") + " at barrier " + std::to_string(id) +
             ", where others wait with" + (b.reduces ? " one at " : "out one at ") + siteText(b.site));
}

TLX_COLD void Engine::refuseSite(uint64_t waiting, uint32_t waitSite, uint32_t site) {
  report(FindingKind::MismatchedCollective, site,
         lanesText(waiting) + " of warp " + std::to_string(current->warp->index) + " wait at " + siteText(waitSite) +
             ", lane " + std::to_string(current->lane) + " is at " + siteText(site) +
             (waitSite == site ? " with another member mask" : ""));
}

TLX_COLD void Engine::refuseMask(uint64_t mask, uint32_t site) {
  report(FindingKind::InvalidOperation, site,
         "lane " + std::to_string(current->lane) + " is not in the member mask 0x" + llvm::utohexstr(mask, true));
}

TLX_COLD void Engine::missingRelease(uint32_t site) {
  report(FindingKind::MissingFence, site,
         "barrier without a release fence: the write at " + siteText(current->unreleased.front().site) +
             " may not have reached shared memory");
  releaseFence(site); // one finding is enough
}

TLX_COLD void Engine::arrivedTwice(uint32_t id, uint32_t site) {
  report(FindingKind::BarrierMismatch, site,
         "lane " + std::to_string(current->lane) + " of warp " + std::to_string(current->warp->index) +
             " arrives at barrier " + std::to_string(id) + " a second time before the others have");
}

TLX_COLD void Engine::partialBarrier(const NamedBarrier &b, uint32_t id, const Warp &warp, uint64_t lanes) {
  report(FindingKind::PartialWarpBarrier, b.site,
         "barrier " + std::to_string(id) + " is passed by " + lanesText(lanes) + " of warp " +
             std::to_string(warp.index) + " only");
}

/// Who arrives may be counted for the use before, unless it knows that this one is complete.
TLX_COLD void Engine::usedAgain(const NamedBarrier &b, uint32_t id, uint32_t site) {
  report(FindingKind::Race, site,
         "race: barrier " + std::to_string(id) + " is used again by " + warpText(current->warp->index, site) +
             ", and nothing tells it that the use before, which began at " + siteText(b.site) + ", is complete");
}

/// The named barrier at which this lane arrives, opened if it is the first. Does not return if the lane must not be there.
NamedBarrier &Engine::joinBarrier(uint32_t id, uint32_t count, bool goesOn, uint32_t site, std::optional<bool> vote) {
  const Warp &warp = *current->warp;
  if (id >= kNamedBarriers || (!amd && (count == 0 || count % warpSize || count > program.threads))) {
    refuseBarrier(id, count, site);
    stop();
  }
  NamedBarrier &b = warp.cta->barriers[id];
  if (checkRaces && phasesKnown(*warp.cta, warp.index, current->lane, id) < b.uses) usedAgain(b, id, site);
  if (!b.arrived) {
    b.count = count;
    b.site = site;
    b.votes = 0, b.reduces = vote.has_value();
    std::fill(b.lanes.begin(), b.lanes.end(), 0);
    std::fill(b.passed.begin(), b.passed.end(), 0);
  } else if (b.count != count) {
    refuseCount(id, count, site);
    stop();
  } else if (b.reduces != vote.has_value()) {
    refuseReduction(id, site);
    stop();
  } else if ((b.lanes[warp.index] | b.passed[warp.index]) & current->bit()) {
    arrivedTwice(id, site);
    stop();
  }
  // A warp speaks once all its lanes are there, unless they go on.
  if (clocks && goesOn)
    releaseClock(warp.cta->units->named[id]);
  else if (clocks && ((b.lanes[warp.index] | b.passed[warp.index] | current->bit()) & warp.live) == warp.live)
    releaseWarp(warp.cta->units->named[id]);
  ++b.arrived;
  b.votes += vote.value_or(false);
  return b;
}

/// `count` 0: all threads that have not exited (s_barrier), else bar.sync's; `vote`: bar.red's.
void Engine::barrier(uint32_t id, uint32_t count, uint32_t site, std::optional<bool> vote) {
  Thread &t = *current;
  Warp &warp = *t.warp;
  Cta &cta = *warp.cta;
  NamedBarrier &b = joinBarrier(id, count, false, site, vote);
  if (uint64_t waiting = b.lanes[warp.index]) {
    const uint32_t other = warp.lanes[std::countr_zero(waiting)].waitSite;
    if (other != site) {
      refuseSite(waiting, other, site);
      stop();
    }
  }
  if (!t.unreleased.empty()) missingRelease(site);
  b.lanes[warp.index] |= t.bit();
  const uint32_t event = onSync(SyncKind::Barrier, id, site, count, b.uses);
  if (b.arrived == (count ? count : cta.live))
    release(b, cta, id);
  else
    block(Wait::Barrier, site);
  afterSync(event);
  if (amd) t.needsAcquire = true;
}

/// Counts as barrier does and goes on.
void Engine::barrierArrive(uint32_t id, uint32_t count, uint32_t site) {
  const Warp &warp = *current->warp;
  NamedBarrier &b = joinBarrier(id, count, true, site);
  b.passed[warp.index] |= current->bit();
  onSync(SyncKind::BarrierArrive, id, site, count, b.uses);
  if (b.arrived == count) release(b, *warp.cta, id);
}

/// Everybody is there.
void Engine::release(NamedBarrier &b, Cta &cta, uint32_t id) {
  ++stats.barriers;
  if (cta.trace) cta.trace->phase(true, id, b.uses);
  if (directLoads) publishDirect(cta);
  for (Warp &warp : cta.warps) {
    uint64_t lanes = b.lanes[warp.index], all = lanes | b.passed[warp.index];
    if (!all) continue;
    if (all != warp.all) partialBarrier(b, id, warp, all);
    if (!lanes) continue;
    for (uint64_t left = b.reduces ? lanes : 0; left; left &= left - 1)
      warp.lanes[std::countr_zero(left)].votes = b.votes;
    if (clocks) {
      Clock &clock = cta.units->clocks[warp.index];
      clock.join(cta.units->named[id]), clock.knowPhases(id, b.uses + 1);
      lanesMeet(warp);
    }
    wake(warp, lanes & ~(current->warp == &warp ? current->bit() : 0));
  }
  b.arrived = 0;
  ++b.uses;
  if (clocks) cta.units->named[id].clear();
}

/// An exited wave counts no longer (AMD).
void Engine::barrierExit(Thread &thread) {
  Cta &cta = *thread.warp->cta;
  NamedBarrier &b = cta.barriers[0];
  if (b.arrived && b.arrived == cta.live) release(b, cta, 0);
}

bool Engine::arrive(uint32_t site, uint64_t mask, void *slot, Gather *&gather) {
  Thread &t = *current;
  Warp &warp = *t.warp;
  const uint64_t bit = t.bit();
  if (!(mask & bit)) {
    refuseMask(mask, site);
    stop();
  }
  Gather *g = nullptr;
  for (Gather &other : warp.gathers) {
    if (!other.site) {
      if (!g) g = &other;
    } else if (other.site == site && other.mask == mask) {
      g = &other;
      break;
    } else if (other.mask & mask) {
      refuseSite(other.arrived, other.site, site);
      stop();
    }
  }
  if (!g) {
    refuseSite(warp.gathers[0].arrived, warp.gathers[0].site, site);
    stop();
  }
  if (!g->site) {
    g->site = site;
    g->mask = mask;
    g->arrived = 0;
  }
  g->slots[t.lane] = slot;
  g->arrived |= bit;
  if (g->arrived == mask) {
    ++stats.collectives;
    if (Trace *trace = warp.cta->trace.get()) trace->meet(warp.index, mask, site);
    gather = g;
    return true;
  }
  block(Wait::Collective, site);
  return false;
}

void Engine::depart(Gather &gather) {
  wake(*current->warp, gather.mask & ~current->bit());
  gather.site = 0;
}

} // namespace tlx::sim
