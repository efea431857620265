// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The race checker's part on global memory, where warps of all CTAs meet. What orders CTAs is an atomic that releases and one that acquires
// what it wrote (or what a later atomic made of it); relaxed atomics do not race with each other.
#include "sim/engine.h"
#include "sim/text.h"

namespace tlx::sim {

TLX_COLD std::string Engine::globalText(uintptr_t address) const {
  const Memory::Extent *extent = extentOf(address, 1);
  if (!extent) return "of global memory";
  return "at offset " + std::to_string(address - extent->begin) + " of " +
         describeExtent(size_t(extent - extents.data()));
}

namespace {
void join(Others &to, uint32_t cta, const Knowledge &what) {
  to[cta].join(what);
}
} // namespace

/// What is known at an atomic that releases goes with the value that it writes.
void Engine::publish(uintptr_t address) {
  const Warp &warp = *current->warp;
  Cta &cta = *warp.cta;
  Clock clock;
  releaseClock(clock);
  std::shared_ptr<const Others> &there = published[address];
  auto next = there ? std::make_shared<Others>(*there) : std::make_shared<Others>();
  if (clock.others)
    for (const auto &[number, what] : *clock.others) join(*next, number, what);
  join(*next, cta.number, clock);
  there = std::move(next);
}

void Engine::acquirePublished(uintptr_t address) {
  auto it = published.find(address);
  if (it == published.end()) return;
  Cta &cta = *current->warp->cta;
  Clock &clock = learnedByAtomics();
  if (auto own = it->second->find(cta.number); own != it->second->end()) clock.Knowledge::join(own->second);
  clock.joinOthers(it->second);
}

void Engine::raceGlobal(uintptr_t address, AccessFlags flags, uint32_t site) {
  Cta &cta = *current->warp->cta;
  const unsigned warp = current->warp->index;
  if (flags.acquire()) acquirePublished(address);
  Mark mark = markNow(flags.atomic() ? Mark::Kind::Atomic : flags.write() ? Mark::Kind::Write : Mark::Kind::Read, site);
  mark.ctaScope = flags.ctaScope();
  const char *what = flags.atomic() ? "atomic access" : flags.write() ? "write" : "read";
  raceCheck(globalRaces, address, address + flags.bytes(), mark, cta, warp, what);
  raceRecord(globalRaces, address, address + flags.bytes(), mark, cta, warp);
  if (flags.release())
    publish(address);
  else if (!flags.atomic() && flags.write() && !published.empty())
    published.erase(published.lower_bound(address), published.lower_bound(address + flags.bytes()));
}

/// A row that a TMA transfer reads or writes; `mark` is the transfer's. What warps wrote is visible to it behind a proxy fence.
void Engine::raceRow(uintptr_t address, uint32_t bytes, const Mark &mark, const char *what) {
  const Warp &warp = *current->warp;
  bool silent = raceCheck(globalRaces, address, address + bytes, mark, *warp.cta, warp.index, what);
  Races::Cell seen; // neighbours have the same history
  auto visible = [&](uint32_t number) {
    const Mark m = globalRaces.mark(number);
    if (!silent || !m.isWarp() || m.unit || m.kind == Mark::Kind::Read || fencedGlobal(m)) return;
    silent = false;
    report(FindingKind::MissingFence, mark.site,
           std::string("missing fence: a ") + what + " reaches " + countText(bytes, "byte") + " " +
               globalText(address) + ", which " + siteText(m.site) + " of " + warpText(m.actor, m.site) +
               (m.cta == warp.cta->number ? "" : " of cta " + ctaText(m.cta)) +
               " has written, and no tlx.nv.fence.proxy.async.global (fence(\"async_global\")) stands between them");
  };
  globalRaces.forEach(address, address + bytes, [&](Races::Cell &cell) {
    if (!silent || cell == seen) return;
    seen = cell;
    if (cell.write) visible(cell.write);
    for (uint32_t number : globalRaces.set(cell.others)) visible(number);
  });
  raceRecord(globalRaces, address, address + bytes, mark, *warp.cta, warp.index);
}

/// A wait of this warp has ended a TMA store: what it wrote counts as written by the warp, now.
void Engine::raceStoreEnds(uintptr_t address, uint32_t bytes, const Mark &inFlight) {
  Mark ended = markNow(inFlight.kind, inFlight.site);
  ended.unit = true;
  const uint32_t from = globalRaces.number(inFlight), by = globalRaces.number(ended);
  uint32_t set = 0, changed = 0; // the last one: neighbours have the same
  globalRaces.forEach(address, address + bytes, [&](Races::Cell &cell) {
    if (cell.write == from) cell.write = by;
    if (cell.others != set) set = cell.others, changed = globalRaces.replaced(set, from, by);
    cell.others = changed;
  });
}

} // namespace tlx::sim
