// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The race checker: two accesses of a byte, one of them a write, by different lanes or by a lane and a TMA transfer, need an edge between them,
// whatever the schedule made of them. Edges are what clocks carry (clocks.cpp): barriers of the CTA and named ones, within a warp bar.warp.sync,
// mbarriers from arrival to wait, the end of a TMA load at a phase of its mbarrier, the end of a TMA store at the wait that covers it, and between
// CTAs atomics from release to acquire.
// What wgmma and TMA stores read of shared memory is read when a wait covers them; until then the units' own marks find who overwrites it.
#include "sim/races.h"

#include "sim/engine.h"
#include "sim/text.h"

namespace tlx::sim {

namespace {
// Readers and atomics of a byte that nothing orders among each other. With more of them, a write that only the others meet is not found.
constexpr size_t kMostOthers = 64;
// Marks and sets of a launch; then all is forgotten, and what a later access meets of it is not found.
constexpr size_t kMostNumbers = 1u << 22; // with the lane's bits less than 2^32

/// One of them has to be ordered before the other.
bool conflict(const Mark &a, const Mark &b) {
  if (a.kind == Mark::Kind::Write || b.kind == Mark::Kind::Write) return true;
  if (a.kind != b.kind) return true;
  return a.kind == Mark::Kind::Atomic && (a.ctaScope || b.ctaScope) && a.cta != b.cta;
}
} // namespace

void Races::forget() {
  marks.assign(1, Mark());
  sets.assign(1, {});
  numbers.clear();
  joins.clear();
  chunks.clear();
  lastKey = ~uint64_t(0);
}

uint32_t Races::number(const Mark &m) {
  if (marks.size() > kMostNumbers || sets.size() > kMostNumbers) forget();
  auto [it, fresh] = numbers.try_emplace({uint64_t(m.cta) << 32 | m.actor, uint64_t(m.step) << 32 | m.site << 4 |
                                                                               unsigned(m.unit) << 3 |
                                                                               unsigned(m.kind) << 1 | m.ctaScope},
                                         uint32_t(marks.size()));
  if (fresh) marks.push_back(m);
  return it->second << kLaneBits | m.lane;
}

uint32_t Races::numberOfSet(llvm::SmallVector<uint32_t, 4> &&set) {
  if (set.empty()) return 0;
  sets.push_back(std::move(set));
  return uint32_t(sets.size() - 1);
}

uint32_t Races::added(uint32_t set, uint32_t number, llvm::function_ref<bool(const Mark &)> isKnown) {
  auto [it, fresh] = joins.try_emplace({set, number}, 0);
  if (!fresh) return it->second;
  const Mark m = mark(number);
  llvm::SmallVector<uint32_t, 4> joined;
  uint32_t own = number;
  for (uint32_t n : sets[set]) {
    const Mark other = mark(n);
    const bool sameActor = other.cta == m.cta && other.actor == m.actor && !m.isStore() && !m.isWarp();
    if (m.isWarp() && n != number && n >> kLaneBits == number >> kLaneBits)
      own = number >> kLaneBits << kLaneBits | Mark::kSome; // lanes side by side
    else if (n != number && !(other.kind == m.kind && other.ctaScope == m.ctaScope && (sameActor || isKnown(other))))
      joined.push_back(n);
  }
  if (joined.size() < kMostOthers) joined.push_back(own);
  return it->second = numberOfSet(std::move(joined));
}

uint32_t Races::replaced(uint32_t set, uint32_t from, uint32_t by) {
  llvm::SmallVector<uint32_t, 4> changed(sets[set]);
  for (uint32_t &n : changed)
    if (n == from) n = by;
  return changed == sets[set] ? set : numberOfSet(std::move(changed));
}

void Races::forEach(uint64_t begin, uint64_t end, llvm::function_ref<void(Cell &)> f) {
  while (begin < end) {
    const uint64_t key = begin / kChunkBytes;
    if (key != lastKey) {
      std::unique_ptr<Chunk> &chunk = chunks[key];
      if (!chunk) chunk = std::make_unique<Chunk>();
      last = chunk.get(), lastKey = key;
    }
    Chunk &chunk = *last;
    const uint64_t stop = std::min(end, (key + 1) * kChunkBytes);
    if (chunk.cells.empty()) chunk.cells.resize(kChunkBytes / 4);
    if (!chunk.fine && (begin % 4 || stop % 4)) {
      std::vector<Cell> cells(kChunkBytes);
      for (unsigned i = 0; i < kChunkBytes; ++i) cells[i] = chunk.cells[i / 4];
      chunk.cells = std::move(cells), chunk.fine = true;
    }
    const unsigned bytes = chunk.fine ? 1 : 4, from = unsigned(begin % kChunkBytes) / bytes,
                   to = from + unsigned(stop - begin) / bytes;
    for (unsigned i = from; i < to; ++i) f(chunk.cells[i]);
    begin = stop;
  }
}

// --- accesses

/// Compares an access with what the bytes remember, on behalf of the mark's lane of `warp`; one finding is enough. True if there is none.
bool Engine::raceCheck(Races &races, uint64_t begin, uint64_t end, const Mark &mark, const Cta &cta, unsigned warp,
                       const char *what) {
  bool silent = true;
  Races::Cell seen; // neighbours have the same history
  races.forEach(begin, end, [&](Races::Cell &cell) {
    if (!silent || cell == seen) return;
    seen = cell;
    auto meets = [&](uint32_t number) {
      const Mark other = races.mark(number);
      const bool same = mark.lane == Mark::kSome && other.lane == Mark::kSome && other.actor == mark.actor &&
                        other.cta == mark.cta && other.step == mark.step &&
                        other.site == mark.site; // stmatrix of copies
      if (!silent || same || !conflict(mark, other) || knows(cta, warp, mark.lane, other)) return;
      silent = false;
      reportRace(&races == &globalRaces, begin, uint32_t(end - begin), mark, other, cta, warp, what);
    };
    if (cell.write) meets(cell.write);
    if (silent && cell.others && mark.kind != Mark::Kind::Read)
      for (uint32_t number : races.set(cell.others)) meets(number);
    else if (silent)
      for (uint32_t number : races.set(cell.others))
        if (races.mark(number).kind == Mark::Kind::Atomic) meets(number);
  });
  return silent;
}

void Engine::raceRecord(Races &races, uint64_t begin, uint64_t end, const Mark &mark, const Cta &cta, unsigned warp) {
  const uint32_t number = races.number(mark);
  const bool write = mark.kind == Mark::Kind::Write;
  uint32_t from = ~0u, to = 0; // the last join: neighbours have the same readers
  races.forEach(begin, end, [&](Races::Cell &cell) {
    if (write) {
      cell = {number, 0};
      return;
    }
    if (cell.others != from) {
      from = cell.others;
      to = races.added(from, number, [&](const Mark &other) {
        // Who knows of a read by wgmma knows nothing of what lanes of that warp did before.
        const bool lanes = mark.lane == Mark::kEvery && other.lane != Mark::kEvery && other.actor == warp;
        return !lanes && knows(cta, warp, mark.lane, other);
      });
    }
    cell.others = to;
  });
}

// --- texts

std::string Engine::laneText(const Mark &m, unsigned warp) const {
  const std::string of = " of " + warpText(warp, m.site);
  return m.lane < Mark::kEvery   ? "lane " + std::to_string(m.lane) + of
         : m.lane == Mark::kSome ? "lanes" + of
                                 : of.substr(4);
}

/// The edge that would have ordered `m` before an access of `warp`, as far as it can be told.
TLX_COLD std::string Engine::missingEdge(const Mark &m, const Cta &cta, unsigned warp, const Mark &access) const {
  const std::string me = warpText(warp, access.site), other = warpText(m.actor, m.site);
  if (m.isStore()) return "it is in flight: no tlx.nv.bulk.wait covers it";
  if (m.cta != cta.number)
    return "no atomic that releases there and none that acquires here order what cta " + ctaText(m.cta) +
           " did before it";
  if (!m.isWarp())
    return "no wait of " + me + " for phase " + std::to_string(m.step) + " of " +
           mbarrierName(cta.units->barriers[m.actor - Mark::kLoads].offset) + " stands between them";
  if (m.actor == warp) return "no tlx.nv.bar.warp.sync orders what " + laneText(m, warp) + " did there before it";
  std::string text = "no barrier orders what " + other + " did there before it";
  for (const Arrival &a : cta.units->arrivals[m.actor]) {
    const std::string at = mbarrierName(cta.units->barriers[a.barrier].offset) + " in phase " +
                           std::to_string(a.phase) + ", " + siteText(a.site);
    if (a.reach.covers(m.lane, m.step))
      return text + ": it arrived behind that at " + at + ", and no wait of " + me +
             " for that phase stands between them";
    if (m.lane != Mark::kEvery && a.reach.last >= m.step &&
        phasesKnown(cta, warp, access.lane, kNamedPhases + a.barrier) > a.phase)
      return text + ": lane " + std::to_string(a.lane) + " arrived behind that at " + at +
             ", and no tlx.nv.bar.warp.sync orders what " + laneText(m, m.actor) + " did before that";
  }
  return text;
}

TLX_COLD std::string Engine::ctaText(uint32_t number) const {
  const uint32_t *grid = config.grid;
  return "(" + std::to_string(number % grid[0]) + ", " + std::to_string(number / grid[0] % grid[1]) + ", " +
         std::to_string(number / grid[0] / grid[1]) + ")";
}

TLX_COLD void Engine::reportRace(bool global, uint64_t begin, uint32_t bytes, const Mark &mark, const Mark &other,
                                 const Cta &cta, unsigned warp, const char *what) {
  const std::string place = global ? " of " + countText(bytes, "byte") + " " + globalText(uintptr_t(begin))
                                   : placeText(bytes, int64_t(begin));
  const bool lanes = other.isWarp() && other.actor == warp && other.cta == cta.number;
  std::string who = siteText(other.site);
  if (other.isWarp())
    who += " of " + (lanes ? laneText(other, warp) : warpText(other.actor, other.site));
  else if (!other.isStore() && other.cta == cta.number)
    who += ", phase " + std::to_string(other.step) + " of " +
           mbarrierName(cta.units->barriers[other.actor - Mark::kLoads].offset);
  if (other.cta != cta.number) who += " of cta " + ctaText(other.cta);
  const char *did = other.kind == Mark::Kind::Read     ? "which reads them"
                    : other.kind == Mark::Kind::Atomic ? "which changes them atomically"
                                                       : "which wrote them";
  report(FindingKind::Race, mark.site,
         "race: " + std::string(what) + place + " by " + (lanes ? laneText(mark, warp) : warpText(warp, mark.site)) +
             " and " + who + ", " + did + ": " + missingEdge(other, cta, warp, mark));
}

// --- shared memory

void Engine::raceShared(Cta &cta, uint32_t offset, AccessFlags flags, uint32_t site) {
  const unsigned warp = current->warp->index;
  for (auto [does, kind, what] : {std::tuple(flags.read() && !flags.write(), Mark::Kind::Read, "read"),
                                  std::tuple(flags.write(), Mark::Kind::Write, "write")}) {
    if (!does) continue;
    Mark mark = markNow(kind, site);
    if (flags.collective() && !amd) mark.lane = Mark::kSome;
    raceCheck(*cta.races, offset, offset + flags.bytes(), mark, cta, warp, what);
    raceRecord(*cta.races, offset, offset + flags.bytes(), mark, cta, warp);
  }
}

/// What wgmma reads must have been written before each of the four warps came there. Its lanes are all there.
void Engine::raceOperand(Cta &cta, const std::vector<uint16_t> &cells, unsigned firstWarp, const char *what,
                         uint32_t site) {
  for (unsigned warp = firstWarp; warp < firstWarp + kGroupWarps; ++warp) {
    const Mark mark{cta.number, warp, 0, site, Mark::Kind::Read, false, Mark::kEvery};
    for (uint16_t cell : cells)
      if (size_t(cell) * 16 + 16 <= program.sharedBytes &&
          !raceCheck(*cta.races, cell * 16u, cell * 16u + 16, mark, cta, warp, what))
        return;
  }
}

/// A wait of this lane, or of the warp as a whole, has ended reads that a unit made for it.
void Engine::raceReadsEnd(Cta &cta, uint32_t offset, uint32_t bytes, bool wholeWarp, uint32_t site) {
  if (uint64_t(offset) + bytes > program.sharedBytes) return;
  Mark mark = markNow(Mark::Kind::Read, site);
  if (wholeWarp) mark.lane = Mark::kEvery;
  raceRecord(*cta.races, offset, offset + bytes, mark, cta, current->warp->index);
}

/// That the barrier was initialized is known to who uses it.
void Engine::raceBarrier(const Mbarrier &barrier, const char *what, uint32_t site) {
  const unsigned warp = current->warp->index;
  const Mark init{cta().number, barrier.initWarp, barrier.initStep, barrier.initSite, Mark::Kind::Write,
                  false,        barrier.initLane};
  if (!knows(cta(), warp, markNow(Mark::Kind::Read, site).lane, init))
    report(FindingKind::Race, site,
           "race: " + std::string(what) + " " + mbarrierName(barrier.offset) + " by " + warpText(warp, site) +
               ", and " + siteText(init.site) + " of " + warpText(init.actor, init.site) +
               ", which initialized it: no barrier orders that before it");
}

} // namespace tlx::sim
