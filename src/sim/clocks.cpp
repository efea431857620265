// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Who knows what of whom. What is ordered before now is known by steps: each warp has a clock, which all its lanes know, and lanes have what they
// learned since the lanes met. The lanes of a warp are ordered by bar.warp.sync and by barriers at which all of them are; that they meet at a
// shuffle, a vote, an election, ldmatrix or wgmma orders nothing in memory (PTX ISA). A lane that releases (an arrival, an atomic) speaks of its own
// steps and of those of all lanes until they met; what it acquires reaches the others when they meet next. AMD's lanes are one.
#include <algorithm>

#include "llvm/ADT/STLExtras.h"

#include "sim/engine.h"

namespace tlx::sim {

Mark Engine::markNow(Mark::Kind kind, uint32_t site) const {
  const Warp &warp = *current->warp;
  const Steps &steps = warp.cta->units->steps[warp.index];
  return {warp.cta->number,
          warp.index,
          amd ? steps.first : steps.of(current->lane),
          site,
          kind,
          false,
          amd ? Mark::kEvery : uint8_t(current->lane)};
}

/// What the clock says of a CTA: that of the clock, or another one; null if nothing.
static const Knowledge *knowledgeOf(const Clock &clock, uint32_t cta, uint32_t own) {
  if (cta == own) return &clock;
  if (!clock.others) return nullptr;
  auto it = clock.others->find(cta);
  return it == clock.others->end() ? nullptr : &it->second;
}

bool Engine::knows(const Cta &cta, unsigned warp, unsigned lane, const Mark &m) const {
  if (m.isStore()) return false;
  const Units &units = *cta.units;
  const bool here = m.cta == cta.number;
  if (here && m.isWarp() && m.actor == warp &&
      (m.step < units.steps[warp].first || m.lane == Mark::kEvery || lane == Mark::kEvery ||
       (m.lane == lane && lane != Mark::kSome)))
    return true;
  auto in = [&](const Clock &clock) {
    const Knowledge *known = knowledgeOf(clock, m.cta, cta.number);
    if (!known) return false;
    return m.isWarp() ? known->warps.covers(m.actor, m.lane, m.step)
                      : known->phasesOf(kNamedPhases + m.actor - Mark::kLoads) > m.step;
  };
  if (in(units.clocks[warp])) return true;
  if (lane == Mark::kEvery) return false;
  const unsigned who = lane == Mark::kSome ? current->lane : lane;
  return llvm::any_of(units.learned[warp], [&](const Learned &l) { return (l.lanes >> who & 1) && in(l.clock); });
}

/// How many phases of a barrier are known to be complete.
uint32_t Engine::phasesKnown(const Cta &cta, unsigned warp, unsigned lane, size_t barrier) const {
  const Units &units = *cta.units;
  uint32_t n = units.clocks[warp].phasesOf(barrier);
  for (const Learned &l : units.learned[warp])
    if (lane < Mark::kEvery && (l.lanes >> lane & 1)) n = std::max(n, l.clock.phasesOf(barrier));
  return n;
}

/// What this lane's release says of its warp.
Reach Engine::ownReach() const {
  const Steps &steps = current->warp->cta->units->steps[current->warp->index];
  Reach own;
  own.all = amd ? steps.first : steps.first - 1;
  if (!amd) own.add(current->lane, steps.of(current->lane));
  return own;
}

void Engine::advanceClock() {
  Steps &steps = current->warp->cta->units->steps[current->warp->index];
  ++(amd ? steps.first : steps.ahead[current->lane]);
}

/// This lane releases.
void Engine::releaseClock(Clock &to) {
  const unsigned w = current->warp->index;
  const Units &units = *current->warp->cta->units;
  to.join(units.clocks[w]);
  for (const Learned &l : units.learned[w])
    if (l.lanes & current->bit()) to.join(l.clock);
  to.warps.of(w).join(ownReach());
  for (unsigned space = 0; space < kSpaces && !amd; ++space)
    if (const Reach &fenced = units.steps[w].fenced[space]; fenced.last)
      to.fenced[space].of(w).add(current->lane, fenced.lane[current->lane]);
  advanceClock();
}

/// The warp releases as a whole, all its lanes are here.
void Engine::releaseWarp(Clock &to) {
  const unsigned w = current->warp->index;
  const Units &units = *current->warp->cta->units;
  to.join(units.clocks[w]);
  for (const Learned &l : units.learned[w]) to.join(l.clock);
  Reach &own = to.warps.of(w);
  own.all = std::max(own.all, units.steps[w].last());
  for (unsigned space = 0; space < kSpaces; ++space) to.fenced[space].of(w).join(units.steps[w].fenced[space]);
}

void Engine::lanesMeet(Warp &warp) {
  Units &units = *warp.cta->units;
  Steps &steps = units.steps[warp.index];
  for (unsigned space = 0; space < kSpaces; ++space) {
    Reach &fenced = steps.fenced[space];
    if (fenced.last) units.clocks[warp.index].fenced[space].of(warp.index).join(fenced);
    fenced = Reach();
  }
  steps.first = steps.last() + 1;
  std::fill(std::begin(steps.ahead), std::end(steps.ahead), 0u);
  for (const Learned &l : units.learned[warp.index]) units.clocks[warp.index].join(l.clock);
  units.learned[warp.index].clear();
}

/// All lanes have come here, which orders nothing: they are at one step, behind all that any of them has released.
void Engine::lanesPass(Warp &warp) {
  Steps &steps = warp.cta->units->steps[warp.index];
  std::fill(std::begin(steps.ahead), std::end(steps.ahead), steps.last() - steps.first);
}

/// A wait of this lane has seen the barrier's phases. What all lanes of the warp have waited for, the warp knows.
void Engine::learnPhases(const Mbarrier &b, size_t index) {
  Warp &warp = *current->warp;
  Clock &clock = warp.cta->units->clocks[warp.index];
  const auto phase = uint32_t(b.phase);
  if (clock.phasesOf(index) >= phase) return;
  std::vector<Learned> &learned = warp.cta->units->learned[warp.index];
  bool known = false;
  for (Learned &l : learned)
    if (l.barrier == index && l.phase <= phase) {
      l.lanes |= current->bit();
      known |= l.phase == phase;
    }
  if (!known) {
    Learned &l = learned.emplace_back(index, phase, current->bit(), b.completed);
    l.clock.knowPhases(index, phase);
  }
  // Of two phases that the same lanes know, the later one says all: one lane may wait any number of times before the others meet it.
  for (size_t i = 0; i < learned.size();) {
    const Learned &l = learned[i];
    const bool all = (l.lanes & warp.live) == warp.live;
    const bool later = llvm::any_of(
        learned, [&](const Learned &o) { return o.barrier == l.barrier && o.phase > l.phase && o.lanes == l.lanes; });
    if (l.barrier != index || !(all || later)) {
      ++i;
      continue;
    }
    if (!later) clock.join(l.clock);
    learned.erase(learned.begin() + ptrdiff_t(i));
  }
}

/// Everything that is ordered before this fence is visible to the asynchronous proxy behind it, also what others wrote.
void Engine::proxyFence(Space space, uint32_t site) {
  if (space == kShared) onSync(SyncKind::ProxyFence, 0, site);
  if (!hopper || (space == kGlobal && !checkRaces)) return;
  Warp &warp = *current->warp;
  Units &units = *warp.cta->units;
  Steps &steps = units.steps[warp.index];
  std::vector<Learned> &learned = units.learned[warp.index];
  Clock clock;
  clock.fenced[space] = units.clocks[warp.index].warps;
  for (const Learned &l : learned)
    if (l.lanes & current->bit()) clock.fenced[space].join(l.clock.warps);
  Reach &own = clock.fenced[space].of(warp.index);
  own.all = std::max(own.all, steps.first - 1);
  steps.fenced[space].add(current->lane, steps.of(current->lane));
  if (space == kGlobal) { // shared memory is of one CTA
    auto fenced = std::make_shared<Others>();
    auto add = [&](const Clock &known) {
      if (!known.others) return;
      for (const auto &[cta, what] : *known.others) (*fenced)[cta].fenced[space].join(what.warps);
    };
    add(units.clocks[warp.index]);
    for (const Learned &l : learned)
      if (l.lanes & current->bit()) add(l.clock);
    if (!fenced->empty()) clock.others = std::move(fenced);
  }
  // Lanes that do the same have one entry, and so has one lane that fences again.
  auto it = llvm::find_if(learned, [&](const Learned &l) {
    return l.barrier == Learned::kFence + space &&
           (l.lanes == current->bit() || (l.clock.fenced[space] == clock.fenced[space] && !clock.others));
  });
  if (it == learned.end()) it = learned.insert(it, {Learned::kFence + space, 0, current->bit(), {}});
  it->clock.join(clock);
  it->lanes |= current->bit();
  if ((it->lanes & warp.live) == warp.live) {
    units.clocks[warp.index].join(it->clock);
    learned.erase(it);
  }
  if (space == kShared) initFence();
  advanceClock();
}

uint32_t Engine::unfencedWrite(const Cta &cta, unsigned warp, unsigned lane, uint32_t offset, uint32_t bytes) const {
  const Units &units = *cta.units;
  auto isFenced = [&](unsigned writer, unsigned writerLane, uint32_t step) {
    auto in = [&](const Clock &clock) { return clock.fenced[kShared].covers(writer, writerLane, step); };
    return in(units.clocks[warp]) ||
           (writer == warp && (lane == writerLane || lane == Mark::kEvery) &&
            step <= units.steps[warp].fenced[kShared].lane[writerLane]) ||
           llvm::any_of(units.learned[warp],
                        [&](const Learned &l) { return lane < Mark::kEvery && (l.lanes >> lane & 1) && in(l.clock); });
  };
  for (uint32_t i = offset / 4; i <= (offset + bytes - 1) / 4; ++i)
    if (const uint32_t s = units.stamps[i];
        s && !isFenced(WriteStamp::warp(s), WriteStamp::lane(s), WriteStamp::step(s)))
      return s;
  return 0;
}

/// As Engine::unfencedWrite, of a write of global memory.
bool Engine::fencedGlobal(const Mark &m) const {
  const Warp &warp = *current->warp;
  const Units &units = *warp.cta->units;
  const bool here = m.cta == warp.cta->number;
  const Reach &own = units.steps[warp.index].fenced[kGlobal];
  if (here && m.actor == warp.index && m.lane == current->lane && m.step <= own.lane[m.lane & 31]) return true;
  auto in = [&](const Clock &clock) {
    const Knowledge *known = knowledgeOf(clock, m.cta, warp.cta->number);
    return known && known->fenced[kGlobal].covers(m.actor, m.lane, m.step);
  };
  return in(units.clocks[warp.index]) || llvm::any_of(units.learned[warp.index], [&](const Learned &l) {
           return (l.lanes & current->bit()) && in(l.clock);
         });
}

/// Where this lane keeps what its atomics acquire.
Clock &Engine::learnedByAtomics() {
  Warp &warp = *current->warp;
  if (amd) return warp.cta->units->clocks[warp.index];
  std::vector<Learned> &learned = warp.cta->units->learned[warp.index];
  for (Learned &l : learned)
    if (l.barrier == Learned::kAtomics && l.lanes == current->bit()) return l.clock;
  learned.emplace_back().lanes = current->bit();
  return learned.back().clock;
}

} // namespace tlx::sim
