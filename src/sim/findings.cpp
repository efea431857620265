// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>
#include <bit>

#include "llvm/ADT/StringExtras.h"

#include "sim/engine.h"
#include "sim/text.h"

namespace tlx::sim {

const char *findingKindName(FindingKind kind) {
  switch (kind) {
  case FindingKind::OutOfBounds:
    return "out-of-bounds";
  case FindingKind::Misaligned:
    return "misaligned";
  case FindingKind::UninitializedRead:
    return "uninitialized-read";
  case FindingKind::InFlight:
    return "in-flight";
  case FindingKind::SlotOverrun:
    return "slot-overrun";
  case FindingKind::AccumulatorInFlight:
    return "accumulator-in-flight";
  case FindingKind::MbarrierMisuse:
    return "mbarrier-misuse";
  case FindingKind::WrongBytes:
    return "wrong-bytes";
  case FindingKind::MissingFence:
    return "missing-fence";
  case FindingKind::AddressWrap:
    return "address-wrap";
  case FindingKind::DivisionByZero:
    return "division-by-zero";
  case FindingKind::MismatchedCollective:
    return "mismatched-collective";
  case FindingKind::PartialWarpBarrier:
    return "partial-warp-barrier";
  case FindingKind::BarrierMismatch:
    return "barrier-mismatch";
  case FindingKind::Deadlock:
    return "deadlock";
  case FindingKind::EndlessLoop:
    return "endless-loop";
  case FindingKind::Fault:
    return "fault";
  case FindingKind::Trap:
    return "trap";
  case FindingKind::AssertionFailed:
    return "assertion-failed";
  case FindingKind::Race:
    return "race";
  case FindingKind::InvalidOperation:
    return "invalid-operation";
  }
  return "?";
}

std::string Finding::text() const {
  std::string r;
  if (!file.empty() || line) r = file + ":" + std::to_string(line) + ":" + std::to_string(col) + ": ";
  r += message + " (thread " + std::to_string(thread) + (task.empty() ? " of cta (" : " of " + task + ", cta (") +
       std::to_string(cta[0]) + ", " + std::to_string(cta[1]) + ", " + std::to_string(cta[2]) + ")";
  if (count > 1) r += ", " + std::to_string(count) + " times";
  return r + ")";
}

std::string lanesText(uint64_t lanes) {
  if (!lanes) return "no lane";
  std::string r = std::popcount(lanes) == 1 ? "lane " : "lanes ";
  bool first = true;
  for (unsigned i = 0; i < kMaxLanes;) {
    if (!(lanes >> i & 1)) {
      ++i;
      continue;
    }
    unsigned end = i;
    while (end < kMaxLanes && (lanes >> end & 1)) ++end;
    if (!first) r += ", ";
    first = false;
    r += std::to_string(i);
    if (end - i > 1) r += "-" + std::to_string(end - 1);
    i = end;
  }
  return r;
}

std::string countText(uint64_t n, const char *what) {
  return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
}

void Engine::report(FindingKind kind, uint32_t site, std::string message, const Thread *thread) {
  auto [it, isNew] = findingIndex.try_emplace(uint64_t(kind) << 32 | site, uint32_t(result.findings.size()));
  if (!isNew) {
    ++result.findings[it->second].count;
    return;
  }
  Finding f;
  f.kind = kind;
  f.message = std::move(message);
  const Site &s = program.sites[site];
  f.file = s.file;
  f.line = s.line;
  f.col = s.col;
  if (thread) {
    f.thread = thread->index;
    f.warp = thread->warp->index;
    f.task = taskText(f.warp, site);
    std::copy(std::begin(thread->warp->cta->id), std::end(thread->warp->cta->id), f.cta);
  }
  result.findings.push_back(std::move(f));
  // The fiber goes on to its next switch; the scheduler then ends the launch.
  if (result.findings.size() >= config.maxFindings) stopping = true;
}

void Engine::reportDeadlock() {
  // One line a group of lanes of a warp that wait at the same place. The finding stands at the first place.
  FindingKind kind = FindingKind::Deadlock;
  uint32_t place = 0;
  const Thread *who = nullptr;
  std::string lines;
  bool unit = false; // somebody waits for an mbarrier or a wgmma: what the others wait for follows from it
  for (auto &cta : resident) {
    for (Warp &warp : cta->warps) {
      uint64_t seen = 0, exited = warp.all & ~warp.live;
      unsigned groups = exited ? 1 : 0;
      std::string text;
      bool collective = false;
      for (unsigned l = 0; l < warpSize; ++l) {
        if (!(warp.live >> l & 1) || (seen >> l & 1)) continue;
        const Thread &t = warp.lanes[l];
        if (t.wait == Wait::None) continue;
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
        text += "\n  cta (" + std::to_string(cta->id[0]) + ", " + std::to_string(cta->id[1]) + ", " +
                std::to_string(cta->id[2]) + ") " + warpText(warp.index, t.waitSite) + " " +
                (group == warp.all ? "" : lanesText(group) + " ") + "at " + siteText(t.waitSite);
        if (t.wait == Wait::Barrier)
          for (NamedBarrier &b : cta->barriers)
            if (b.arrived && (b.lanes[warp.index] & t.bit()))
              text += ", " + std::to_string(b.arrived) + " of " + std::to_string(b.count ? b.count : cta->live) +
                      " threads have arrived";
        if (t.wait == Wait::Mbarrier) text += ", " + mbarrierText(cta->units->barriers[t.waitBarrier]);
        if (t.wait == Wait::Wgmma) text += ", " + wgmmaWaitText(t);
      }
      if (exited && seen) text += "\n    " + lanesText(exited) + " exited";
      lines += text;
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
