// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The race checker of shared memory: two accesses of a byte, one of them a write, by different warps or by a warp and a TMA load, need an edge
// between them, whatever the schedule made of them. Edges are what clocks carry: barriers of the CTA and named ones, mbarriers from arrival to
// wait, and the end of a TMA load at a phase of its mbarrier. What wgmma and TMA stores read is read when a wait covers them; until then the
// units' own marks find who overwrites it.
#include "sim/races.h"

#include "sim/engine.h"
#include "sim/text.h"

namespace tlx::sim {

uint32_t Races::single(const ReadMark &mark) {
  auto [it, fresh] = singles.try_emplace({uint64_t(mark.warp) << 32 | mark.step, mark.site}, uint32_t(sets.size()));
  if (fresh) sets.push_back({mark});
  return it->second;
}

void Races::addRead(size_t begin, size_t end, const ReadMark &mark) {
  const uint32_t one = single(mark);
  uint32_t from = 0, to = one; // the last join: neighbours have the same readers
  for (size_t i = begin; i < end; ++i) {
    if (reads[i] == one) continue;
    if (reads[i] != from) {
      from = reads[i];
      auto [it, fresh] = joins.try_emplace({from, one}, 0);
      if (fresh) {
        llvm::SmallVector<ReadMark, 4> joined;
        for (const ReadMark &r : sets[from])
          if (r.warp != mark.warp) joined.push_back(r);
        if (joined.empty()) {
          it->second = one;
        } else {
          joined.push_back(mark);
          it->second = uint32_t(sets.size());
          sets.push_back(std::move(joined));
        }
      }
      to = it->second;
    } else if (from == 0) {
      to = one;
    }
    reads[i] = to;
  }
}

namespace {
bool isWarp(const WriteMark &w) {
  return w.actor < WriteMark::kLoads;
}
} // namespace

bool Engine::knowsWrite(const Clock &clock, unsigned warp, const WriteMark &w) const {
  if (w.actor == WriteMark::kNobody) return true;
  if (isWarp(w)) return w.actor == warp || clock.all[w.actor] >= w.step;
  const uint32_t barrier = w.actor - WriteMark::kLoads;
  return barrier >= Clock::kBarriers || clock.phases[barrier] > w.step;
}

TLX_COLD std::string Engine::writerText(const Cta &cta, const WriteMark &w) const {
  if (isWarp(w)) return siteText(w.site) + " of " + warpText(w.actor, w.site);
  return siteText(w.site) + ", phase " + std::to_string(w.step) + " of " +
         mbarrierName(cta.units->barriers[w.actor - WriteMark::kLoads].offset);
}

TLX_COLD void Engine::raceWithWrite(Cta &cta, const char *what, uint32_t bytes, uint32_t offset, unsigned warp,
                                    const WriteMark &w, uint32_t site) {
  const std::string edge = isWarp(w)
                               ? "no barrier orders what " + warpText(w.actor, w.site) + " did there before it"
                               : "no wait that " + warpText(warp, site) + " knows of has seen that phase complete";
  report(FindingKind::Race, site,
         "race: " + std::string(what) + placeText(bytes, offset) + " by " + warpText(warp, site) + " and " +
             writerText(cta, w) + ", which wrote them: " + edge);
}

TLX_COLD void Engine::raceWithRead(const char *what, uint32_t bytes, uint32_t offset, unsigned warp, const ReadMark &r,
                                   uint32_t site) {
  report(FindingKind::Race, site,
         "race: " + std::string(what) + placeText(bytes, offset) + " by " + warpText(warp, site) + " and " +
             siteText(r.site) + " of " + warpText(r.warp, r.site) +
             ", which reads them: no barrier orders that read before it");
}

/// Whether what the bytes hold is ordered before what `warp` does now.
bool Engine::raceSource(Cta &cta, uint32_t offset, uint32_t bytes, unsigned warp, const char *what, uint32_t site) {
  const Clock &clock = cta.units->clocks[warp];
  for (uint32_t i = offset; i < offset + bytes; ++i)
    if (const WriteMark &w = cta.races->writeOf(i); !knowsWrite(clock, warp, w)) {
      raceWithWrite(cta, what, bytes, offset, warp, w, site);
      return false;
    }
  return true;
}

/// The bytes are written, by the warp or, for it, by a load that ends with a phase of an mbarrier.
void Engine::raceWrite(Cta &cta, uint32_t offset, uint32_t bytes, unsigned warp, const WriteMark &mark,
                       const char *what, uint32_t site) {
  Races &races = *cta.races;
  const Clock &clock = cta.units->clocks[warp];
  bool found = false;
  for (uint32_t i = offset; i < offset + bytes; ++i) {
    WriteMark &w = races.writeOf(i);
    if (!found && !knowsWrite(clock, warp, w)) raceWithWrite(cta, what, bytes, offset, warp, w, site), found = true;
    for (const ReadMark &r : races.readersOf(i))
      if (!found && r.warp != warp && clock.all[r.warp] < r.step)
        raceWithRead(what, bytes, offset, warp, r, site), found = true;
    w = mark;
    races.forgetReads(i);
  }
}

void Engine::raceAccess(Cta &cta, uint32_t offset, AccessFlags flags, uint32_t site) {
  const unsigned warp = current->warp->index;
  if (flags.read()) {
    raceSource(cta, offset, flags.bytes(), warp, "read", site);
    cta.races->addRead(offset, offset + flags.bytes(), {warp, cta.units->clocks[warp].all[warp], site});
  }
  if (flags.write())
    raceWrite(cta, offset, flags.bytes(), warp, {warp, cta.units->clocks[warp].all[warp], site}, "write", site);
}

/// What wgmma reads must have been written before each of the four warps came there.
void Engine::raceOperand(Cta &cta, const std::vector<uint16_t> &cells, unsigned firstWarp, const char *what,
                         uint32_t site) {
  for (unsigned warp = firstWarp; warp < firstWarp + kGroupWarps; ++warp)
    for (uint16_t cell : cells)
      if (size_t(cell) * 16 + 16 <= program.sharedBytes && !raceSource(cta, cell * 16u, 16, warp, what, site)) return;
}

/// A wait of `warp` has ended these reads.
void Engine::raceReadsEnd(Cta &cta, const std::vector<uint16_t> &cells, unsigned warp, uint32_t site) {
  const ReadMark mark{warp, cta.units->clocks[warp].all[warp], site};
  for (uint16_t cell : cells)
    if (size_t(cell) * 16 + 16 <= program.sharedBytes) cta.races->addRead(cell * 16u, cell * 16u + 16, mark);
}

/// That the barrier was initialized is known to who uses it.
void Engine::raceBarrier(const Mbarrier &barrier, const char *what, uint32_t site) {
  const unsigned warp = current->warp->index;
  const WriteMark init{barrier.initWarp, barrier.initStep, barrier.initSite};
  if (!knowsWrite(cta().units->clocks[warp], warp, init))
    report(FindingKind::Race, site,
           "race: " + std::string(what) + " " + mbarrierName(barrier.offset) + " by " + warpText(warp, site) +
               ", and " + siteText(init.site) + " of " + warpText(init.actor, init.site) +
               ", which initialized it: no barrier orders that before it");
}

} // namespace tlx::sim
