// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where threads meet: named barriers of a CTA, and the gathering of a warp's lanes at a collective operation.
#include <algorithm>
#include <bit>

#include "sim/engine.h"
#include "sim/text.h"

namespace tlx::sim {

/// `count` 0: all threads that have not exited (s_barrier), else bar.sync's.
void Engine::barrier(uint32_t id, uint32_t count, uint32_t site) {
  Thread &t = *current;
  Warp &warp = *t.warp;
  Cta &cta = *warp.cta;
  onSync(SyncKind::Barrier, id, site);
  if (id >= kNamedBarriers || (!amd && (count == 0 || count % warpSize || count > (program.threads + 31) / 32 * 32))) {
    report(FindingKind::BarrierMismatch, site,
           "barrier " + std::to_string(id) + " with " + std::to_string(count) +
               " threads: ids are 0 to 15, counts a multiple of " + std::to_string(warpSize) + " up to the CTA's " +
               std::to_string(program.threads) + " threads");
    stop();
  }
  NamedBarrier &b = cta.barriers[id];
  if (!b.arrived) {
    b.count = count;
    b.site = site;
    std::fill(b.lanes.begin(), b.lanes.end(), 0);
  } else if (b.count != count) {
    report(FindingKind::BarrierMismatch, site,
           "barrier " + std::to_string(id) + " with " + std::to_string(count) +
               " threads, but others wait at it with " + std::to_string(b.count) + " at " + siteText(b.site));
    stop();
  }
  if (uint64_t waiting = b.lanes[warp.index]) {
    const Thread &first = warp.lanes[std::countr_zero(waiting)];
    if (first.waitSite != site) {
      report(FindingKind::MismatchedCollective, site,
             lanesText(waiting) + " of warp " + std::to_string(warp.index) + " wait at " + siteText(first.waitSite) +
                 ", lane " + std::to_string(t.lane) + " is at " + siteText(site));
      stop();
    }
  }
  if (!t.unreleased.empty()) {
    report(FindingKind::MissingFence, site,
           "barrier without a release fence: the write at " + siteText(t.unreleased.front().site) +
               " may not have reached shared memory");
    releaseFence(site); // one finding is enough
  }
  b.lanes[warp.index] |= t.bit();
  if (++b.arrived == (count ? count : cta.live))
    release(b, cta, id);
  else
    block(Wait::Barrier, site);
  if (amd) t.needsAcquire = true;
}

/// Everybody is there.
void Engine::release(NamedBarrier &b, Cta &cta, uint32_t id) {
  ++stats.barriers;
  for (Warp &warp : cta.warps) {
    uint64_t lanes = b.lanes[warp.index];
    if (!lanes) continue;
    if (lanes != warp.all)
      report(FindingKind::PartialWarpBarrier, b.site,
             "barrier " + std::to_string(id) + " is passed by " + lanesText(lanes) + " of warp " +
                 std::to_string(warp.index) + " only");
    wake(warp, lanes & ~(current->warp == &warp ? current->bit() : 0));
  }
  b.arrived = 0;
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
    report(FindingKind::InvalidOperation, site,
           "lane " + std::to_string(t.lane) + " is not in the member mask 0x" + llvm::utohexstr(mask, true));
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
      report(FindingKind::MismatchedCollective, site,
             lanesText(other.arrived) + " of warp " + std::to_string(warp.index) + " wait at " + siteText(other.site) +
                 (other.site == site ? " with another member mask" : "") + ", lane " + std::to_string(t.lane) +
                 " is at " + siteText(site));
      stop();
    }
  }
  if (!g) {
    report(FindingKind::MismatchedCollective, site, "the lanes of a warp meet at more than two operations at a time");
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
    onSync(SyncKind::WarpCollective, warp.index, site);
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
