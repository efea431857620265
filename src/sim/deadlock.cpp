// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The report of a launch in which nobody can go on: who waits where, for which barrier and phase, what has not come, and who came last.
#include "sim/engine.h"
#include "sim/text.h"

namespace tlx::sim {

namespace {
/// Lanes of a warp that wait at one place; whole warps of a task that do are one line.
struct Waiter {
  const Thread *thread;
  uint64_t lanes;
  std::string task, text;
  unsigned lastWarp;
  bool whole() const { return lanes == thread->warp->all; }
};
} // namespace

/// What waits at a barrier of the CTA, an mbarrier or a wgmma is told of it.
std::string Engine::waitText(const Thread &t) const {
  const Cta &cta = *t.warp->cta;
  std::string text = "at " + siteText(t.waitSite);
  if (t.wait == Wait::Barrier)
    for (const NamedBarrier &b : cta.barriers)
      if (b.arrived && (b.lanes[t.warp->index] & t.bit()))
        text += ", " + std::to_string(b.arrived) + " of " + std::to_string(b.count ? b.count : cta.live) +
                " threads have arrived";
  if (t.wait == Wait::Mbarrier) {
    const Mbarrier &b = cta.units->barriers[t.waitBarrier];
    text += ", " + mbarrierText(b) + lastArrivals(b);
  }
  if (t.wait == Wait::Wgmma) text += ", " + wgmmaWaitText(t);
  return text;
}

std::string Engine::lastArrivals(const Mbarrier &b) const {
  if (b.last.empty()) return "; nobody has arrived there";
  std::string text = "\n      last there (this is step " + std::to_string(stats.switches) + "):";
  for (const Arrival &a : b.last) {
    text += "\n        phase " + std::to_string(a.phase) + ": " + siteText(a.site) + " of " + warpText(a.warp, a.site);
    if (a.loadBytes)
      text += ", " + countText(a.loadBytes, "byte") + " of a TMA load";
    else if (a.count > 1)
      text += ", " + countText(a.count, "arrival");
    text += ", in step " + std::to_string(a.when);
  }
  return text;
}

void Engine::reportDeadlock() {
  // The finding stands at the first place, or where somebody waits for a unit.
  FindingKind kind = FindingKind::Deadlock;
  uint32_t place = 0;
  const Thread *who = nullptr;
  std::string lines;
  bool unit = false; // somebody waits for an mbarrier or a wgmma: what the others wait for follows from it
  for (auto &cta : resident) {
    std::vector<Waiter> waiters;
    for (Warp &warp : cta->warps) {
      uint64_t seen = 0;
      const uint64_t exited = warp.all & ~warp.live;
      unsigned groups = exited ? 1 : 0;
      bool collective = false;
      for (unsigned l = 0; l < warpSize; ++l) {
        const Thread &t = warp.lanes[l];
        if (!(warp.live >> l & 1) || (seen >> l & 1) || t.wait == Wait::None) continue;
        uint64_t group = 0;
        for (unsigned m = l; m < warpSize; ++m)
          if ((warp.live >> m & 1) && warp.lanes[m].wait == t.wait && warp.lanes[m].waitSite == t.waitSite &&
              (t.wait != Wait::Mbarrier || warp.lanes[m].waitBarrier == t.waitBarrier))
            group |= uint64_t(1) << m;
        seen |= group;
        ++groups;
        collective |= t.wait == Wait::Collective;
        const bool waitsForUnit = t.wait == Wait::Mbarrier || t.wait == Wait::Wgmma;
        if (!who || (waitsForUnit && !unit)) who = &t, place = t.waitSite;
        unit |= waitsForUnit;
        Waiter w{&t, group, taskText(warp.index, t.waitSite), waitText(t), warp.index};
        Waiter *before = waiters.empty() ? nullptr : &waiters.back();
        if (before && before->whole() && w.whole() && before->task == w.task && before->text == w.text)
          before->lastWarp = warp.index;
        else
          waiters.push_back(std::move(w));
      }
      if (exited && seen) waiters.back().text += "\n    " + lanesText(exited) + " exited";
      // Part of a warp waits while the rest is elsewhere: the cause, where a whole warp that waits is a consequence.
      if (groups > 1 && seen && kind == FindingKind::Deadlock && !unit) {
        kind = collective ? FindingKind::MismatchedCollective : FindingKind::PartialWarpBarrier;
        for (unsigned l = 0; l < warpSize; ++l)
          if ((seen >> l & 1) && (warp.lanes[l].wait == Wait::Collective || !collective)) {
            who = &warp.lanes[l], place = who->waitSite;
            break;
          }
      }
    }
    for (const Waiter &w : waiters) {
      const unsigned first = w.thread->warp->index;
      lines += "\n  cta " + ctaText(cta->number) + " " +
               (w.lastWarp > first ? "warps " + std::to_string(first) + "-" + std::to_string(w.lastWarp)
                                   : "warp " + std::to_string(first)) +
               (w.task.empty() ? "" : " (" + w.task + ")") + " " + (w.whole() ? "" : lanesText(w.lanes) + " ") + w.text;
    }
  }
  const char *head = kind == FindingKind::MismatchedCollective ? "the lanes of a warp do not meet at one operation:"
                     : kind == FindingKind::PartialWarpBarrier ? "only part of a warp is at a barrier:"
                                                               : "deadlock: every thread waits:";
  if (unit) kind = FindingKind::Deadlock, head = "deadlock: every thread waits:";
  report(kind, place, head + lines, who);
  for (auto &cta : resident)
    if (hopper)
      for (const Mbarrier &b : cta->units->barriers)
        if (b.valid && b.bytes) wrongBytes(b, *cta, who);
}

} // namespace tlx::sim
