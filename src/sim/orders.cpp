// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// All interleavings of a program, from one run. What a warp does next depends on what it has read, and when it may do it on phases of barriers. If
//   - each arrival, expectation and load comes, in every order that the trace's causes allow, behind the end of the phase before its own,
//   - each wait goes on before the phase behind the one that it waits for can end (a parity is seen again two phases later),
//   - the same holds for the generations of named barriers, and barriers are initialized before they are used,
// then no other schedule can count anything for another phase: its causes are those of this run, so that it ends too, and two accesses can meet in
// some interleaving exactly if neither comes before the other by the causes. Where a condition does not hold, the other order is played (replay.h):
// it hangs, or nothing is proved. So instead of visiting the states, whose number grows with the
// product of the warps' lengths, the conditions and all pairs of accesses are checked: nothing is left out, and no bound is needed.
// The lanes of a warp: what each did before which synchronization of its warp is the same in all orders, so the race checker of this run, which is
// always on, sees all that they can do to each other. A wait of some lanes of a warp orders what others do next only where they meet.
// What is taken for granted: lanes that execute one wait look at the barrier together; what warps read in global memory does not depend on the order
// (the runs under other schedules, rehearse, would differ).
#include "sim/orders.h"

#include <algorithm>
#include <functional>
#include <set>

#include "sim/causes.h"
#include "sim/engine.h"
#include "sim/replay.h"
#include "sim/text.h"

namespace tlx::sim {

namespace {

/// Accesses of one actor between the same two points.
struct Span {
  Causes::Point end;
  const uint32_t *start; // clock at its beginning; null: it begins at once
  uint32_t site;
  unsigned warp;
  bool write, unit;
  const char *what;
  bool operator<(const Span &o) const {
    return std::tie(end.chain, end.index, start, site, warp, write, unit) <
           std::tie(o.end.chain, o.end.index, o.start, o.site, o.warp, o.write, o.unit);
  }
};

class Orders {
public:
  Orders(Engine &engine, const Cta &cta) : engine(engine), cta(cta), trace(*cta.trace), causes(trace) {}
  void check() {
    if (!covers()) return;
    for (uint32_t n = 0; n < trace.events.size(); ++n) {
      const TraceEvent &e = trace.events[n];
      if (e.kind == SyncKind::Arrive) arrivals[{e.id, e.phase}].push_back(n);
      if (e.kind == SyncKind::ProxyFence) fences.push_back(n);
    }
    for (uint32_t n = 0; n < trace.events.size(); ++n) {
      checkPhase(n);
      checkInit(n);
    }
    judge();
    collect();
    sweep();
  }

private:
  const Thread *threadOf(unsigned warp) const { return cta.warps[warp].lanes; }
  void notCovered(const std::string &why, uint32_t site = kKernelSite) {
    engine.report(FindingKind::NotCovered, site, "not covered: " + why, threadOf(0));
  }
  bool covers() {
    for (const TraceEvent &e : trace.events) {
      if (e.kind == SyncKind::Copy)
        return notCovered("copies by cp.async are checked in the order of the run only", e.site), false;
      if (e.mixed) return notCovered("the lanes of a warp come here in different phases", e.site), false;
    }
    if (!causes.complete) return notCovered("lanes of one warp wait for one another"), false;
    for (unsigned w = 0; w < trace.warps.size(); ++w)
      if (!lanesTogether(w)) return false;
    return true;
  }
  /// Who goes on behind a wait has waited, or met the lanes that have.
  bool lanesTogether(unsigned w) {
    std::vector<uint32_t> waits; // of a part of the warp, since all met
    for (uint32_t n : trace.warps[w].order) {
      const TraceEvent &e = trace.events[n];
      const bool all = e.lanes == cta.warps[w].all;
      if (all && (e.kind == SyncKind::Meet || e.kind == SyncKind::Barrier || e.kind == SyncKind::BarrierArrive ||
                  e.kind == SyncKind::Wgmma))
        waits.clear();
      if (e.kind == SyncKind::Arrive || e.kind == SyncKind::Expect || e.kind == SyncKind::Load ||
          e.kind == SyncKind::Wait)
        for (uint32_t wait : waits)
          if (e.lanes & ~trace.events[wait].lanes)
            return notCovered(eventText(n) + " comes behind " + eventText(wait) +
                                  ", which other lanes of that warp made, and the lanes do not meet in between",
                              e.site),
                   false;
      if (e.kind == SyncKind::Wait && !all) waits.push_back(n);
    }
    return true;
  }

  std::string barrierText(uint32_t barrier) const { return engine.mbarrierName(trace.barriers[barrier].offset); }
  std::string eventText(uint32_t n) const {
    const TraceEvent &e = trace.events[n];
    return engine.siteText(e.site) + " of " + engine.warpText(causes.warpOf[n], e.site);
  }
  void race(uint32_t event, const std::string &text) {
    engine.report(FindingKind::Race, trace.events[event].site, "in another order: " + text,
                  threadOf(causes.warpOf[event]));
  }

  /// That the event belongs to its phase, whatever the order.
  void checkPhase(uint32_t n) {
    const TraceEvent &e = trace.events[n];
    const bool named = e.kind == SyncKind::Barrier || e.kind == SyncKind::BarrierArrive;
    const bool counts = e.kind == SyncKind::Arrive || e.kind == SyncKind::Expect || e.kind == SyncKind::Load;
    if ((named || counts) && e.phase > 0) {
      const Causes::Point previous = named ? causes.generation(e.id, e.phase - 1) : causes.phase(e.id, e.phase - 1);
      if (!Causes::before(previous, causes.enterClock(n)))
        unordered(n, false,
                  eventText(n) + " counts for phase " + std::to_string(e.phase) + " of " +
                      (named ? "barrier " + std::to_string(e.id) : barrierText(e.id)) +
                      " here, and can come before phase " + std::to_string(e.phase - 1) +
                      " is complete: no wait orders it behind that");
    }
    if (e.kind == SyncKind::Expect && !expectedInTime(n))
      unordered(n, true,
                eventText(n) + " can come when the phase's arrivals have all been made: phase " +
                    std::to_string(e.phase) + " of " + barrierText(e.id) + " is then complete without the bytes");
    if (e.kind != SyncKind::Wait) return;
    const uint32_t *next = causes.phaseClock(e.id, e.phase + 1);
    if (next && !Causes::before(causes.leave(n), next))
      unordered(n, true,
                eventText(n) + " waits for phase " + std::to_string(e.phase) + " of " + barrierText(e.id) +
                    ", and phase " + std::to_string(e.phase + 1) +
                    " can be complete before it looks: it then waits for phase " + std::to_string(e.phase + 2));
  }
  /// The order of an event and a phase is open. Kept by site, as findings are.
  void unordered(uint32_t n, bool late, std::string text) {
    open[trace.events[n].site].push_back({n, late, std::move(text)});
  }
  /// A line for each place: "\n  bar.sync (…) of warp 0 (loader), warp 2 (loader)".
  std::string linesOf(const std::vector<uint32_t> &events) const {
    std::map<uint32_t, std::string> lines;
    for (uint32_t n : events) {
      const uint32_t site = trace.events[n].site;
      std::string &line = lines[site];
      line += line.empty() ? "\n  " + eventText(n) : ", " + engine.warpText(causes.warpOf[n], site);
    }
    std::string text;
    for (const auto &[site, line] : lines) text += line;
    return text;
  }
  /// Whether the other order hangs is tried out for some of the events at a site; where none does, nothing is proved.
  void judge() {
    constexpr size_t kTries = 16;
    for (const auto &[site, list] : open) {
      const size_t step = (list.size() + kTries - 1) / kTries;
      bool hangs = false;
      for (size_t i = 0; i < list.size() && !hangs; i += step) {
        const Open &o = list[i];
        Replay replay(trace);
        hangs = !replay.ends(causes.warpOf[o.event], o.event, o.late);
        if (!hangs) continue;
        engine.report(FindingKind::Deadlock, site,
                      "in another order: deadlock: " + o.text + ". Then these wait for ever:" + linesOf(replay.stuck()),
                      threadOf(causes.warpOf[o.event]));
      }
      if (!hangs) notCovered(list[0].text, site);
    }
  }

  /// Some arrival of the phase comes behind the expectation.
  bool expectedInTime(uint32_t n) {
    for (uint32_t arrival : arrivals[{trace.events[n].id, trace.events[n].phase}])
      if (Causes::before(causes.leave(n), causes.enterClock(arrival))) return true;
    return false;
  }

  void checkInit(uint32_t n) {
    const TraceEvent &e = trace.events[n];
    const bool uses = e.kind == SyncKind::Arrive || e.kind == SyncKind::Expect || e.kind == SyncKind::Load ||
                      e.kind == SyncKind::Wait || e.kind == SyncKind::Invalidate;
    if (e.kind == SyncKind::Init) inits[e.id] = n;
    if (e.kind == SyncKind::Invalidate) ends[e.id] = n;
    if (!uses) return;
    if (auto it = inits.find(e.id);
        it != inits.end() && !Causes::before(causes.leave(it->second), causes.enterClock(n)))
      race(n, eventText(n) + " can come before " + eventText(it->second) + " has initialized " + barrierText(e.id));
    if (auto it = ends.find(e.id); it != ends.end() && it->second != n)
      race(n, eventText(n) + " can come when " + barrierText(e.id) + " has been invalidated");
    if (e.kind == SyncKind::Invalidate)
      for (uint32_t m = 0; m < n; ++m) {
        const TraceEvent &o = trace.events[m];
        const bool used = o.kind == SyncKind::Arrive || o.kind == SyncKind::Expect || o.kind == SyncKind::Wait;
        if (used && o.id == e.id && !Causes::before(causes.leave(m), causes.enterClock(n)))
          race(m, eventText(m) + " can come when " + barrierText(e.id) + " has been invalidated");
      }
  }

  /// Accesses as spans of points.
  void collect() {
    std::map<std::pair<uint32_t, unsigned>, uint32_t> issues; // (operation, warp) → event
    for (uint32_t n = 0; n < trace.events.size(); ++n)
      if (trace.events[n].operation != Trace::kNone) issues[{trace.events[n].operation, causes.warpOf[n]}] = n;
    std::map<Span, uint32_t> numbers;
    for (const TraceAccess &a : trace.accesses) {
      Span s{{a.warp, Causes::kNever}, nullptr, a.site, a.warp, a.write, a.operation != Trace::kNone, ""};
      s.what = s.unit ? unitText(trace.operations[a.operation].kind) : a.write ? "write" : "read";
      if (s.unit) {
        const uint32_t issue = issues.at({a.operation, a.warp});
        s.start = causes.enterClock(issue);
        const TraceOperation &o = trace.operations[a.operation];
        if (o.kind == TraceOperation::Kind::Load)
          s.end = causes.phase(o.barrier, o.phase);
        else if (o.kind == TraceOperation::Kind::Wgmma)
          s.end = causes.product(o.unit, trace.events[issue].id);
        else if (o.readBy != Trace::kNone)
          s.end = causes.leave(o.readBy);
      } else {
        if (a.after != Trace::kNone) s.start = causes.leaveClock(a.after);
        s.end = {a.warp, nextOf(a)};
      }
      auto [it, fresh] = numbers.try_emplace(s, uint32_t(spans.size()));
      if (fresh) spans.push_back(s);
      borders.push_back({a.offset, it->second, 1});
      borders.push_back({a.offset + a.bytes, it->second, -1});
    }
    std::sort(borders.begin(), borders.end(), [](const Border &a, const Border &b) { return a.offset < b.offset; });
  }
  /// The point at which the lane comes to its next synchronization.
  uint32_t nextOf(const TraceAccess &a) const {
    const std::vector<uint32_t> &order = trace.warps[a.warp].order;
    for (uint32_t p = a.after == Trace::kNone ? 0 : causes.position[a.after] + 1; p < order.size(); ++p)
      if (trace.events[order[p]].lanes >> a.lane & 1) return causes.enter(order[p]).index;
    return Causes::kNever;
  }

  /// Walks over the bytes; sets of spans that meet there are looked at once.
  void sweep() {
    std::map<uint32_t, int> active;
    std::set<std::vector<uint32_t>> seen;
    for (size_t i = 0; i < borders.size();) {
      const uint32_t offset = borders[i].offset;
      for (; i < borders.size() && borders[i].offset == offset; ++i)
        if (!(active[borders[i].span] += borders[i].change)) active.erase(borders[i].span);
      std::vector<uint32_t> here;
      for (auto &[span, count] : active) here.push_back(span);
      if (here.size() < 2 || !seen.insert(here).second) continue;
      for (size_t a = 0; a < here.size(); ++a)
        for (size_t b = a + 1; b < here.size(); ++b)
          if (pairs.insert(uint64_t(here[a]) << 32 | here[b]).second) meet(spans[here[a]], spans[here[b]], offset);
    }
  }

  static bool ordered(const Span &first, const Span &second) {
    return second.start && Causes::before(first.end, second.start);
  }
  void meet(const Span &a, const Span &b, uint32_t offset) {
    if (!(a.write || b.write) || (!a.unit && !b.unit && a.warp == b.warp)) return;
    if (!ordered(a, b) && !ordered(b, a)) {
      const Span &late = a.site < b.site ? b : a, &other = a.site < b.site ? a : b;
      engine.report(FindingKind::Race, late.site,
                    "in another order: race: " + spanText(late) + " and " + spanText(other) + " touch " +
                        engine.offsetText(offset) + ", and nothing orders them",
                    threadOf(late.warp));
      return;
    }
    const Span &first = ordered(a, b) ? a : b, &second = ordered(a, b) ? b : a;
    if (first.write && !first.unit && second.unit && !fenced(first, second))
      engine.report(FindingKind::MissingFence, second.site,
                    "in another order: missing fence: " + spanText(second) + " touches " + engine.offsetText(offset) +
                        " behind an ordinary " + spanText(first) +
                        ", and no tlx.nv.fence.proxy.async stands between them",
                    threadOf(second.warp));
  }
  bool fenced(const Span &first, const Span &second) const {
    for (uint32_t n : fences)
      if (Causes::before(first.end, causes.enterClock(n)) && Causes::before(causes.leave(n), second.start)) return true;
    return false;
  }
  static const char *unitText(TraceOperation::Kind kind) {
    return kind == TraceOperation::Kind::Load    ? "TMA load"
           : kind == TraceOperation::Kind::Store ? "a TMA store's read"
                                                 : "wgmma's read";
  }
  std::string spanText(const Span &s) const {
    return std::string(s.what) + " at " + engine.siteText(s.site) + " of " + engine.warpText(s.warp, s.site);
  }

  struct Border {
    uint32_t offset, span;
    int change;
  };
  Engine &engine;
  const Cta &cta;
  const Trace &trace;
  Causes causes;
  std::map<std::pair<uint32_t, int64_t>, std::vector<uint32_t>> arrivals; // by barrier and phase: events
  std::vector<uint32_t> fences;
  struct Open {
    uint32_t event;
    bool late; // and not early
    std::string text;
  };
  std::map<uint32_t, std::vector<Open>> open; // by site
  std::map<uint32_t, uint32_t> inits, ends;   // by barrier: event
  std::vector<Span> spans;
  std::vector<Border> borders;
  std::set<uint64_t> pairs;
};
} // namespace

void checkOrders(Engine &engine, const Cta &cta) {
  Orders(engine, cta).check();
  const Trace &trace = *cta.trace;
  engine.covered.programs += 1;
  engine.covered.synchronizations += trace.events.size();
  engine.covered.operations += trace.operations.size();
  engine.covered.accesses += trace.accesses.size();
}

std::vector<std::vector<uint64_t>> rehearse(const Program &program, const LaunchConfig &config,
                                            llvm::ArrayRef<uint8_t> params, Memory &memory) {
  constexpr uint64_t kSeeds = 3;
  const features::Target &target = *program.image().target;
  if (!target.tma && !target.wgmma) return {}; // not covered
  const Memory::Contents before = memory.save();
  std::vector<std::vector<uint64_t>> digests;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    LaunchConfig other = config;
    other.schedule = Schedule::Random;
    other.seed = seed;
    other.checkRaces = false;
    other.onPrint = nullptr;
    LaunchResult unused;
    Engine engine(program.image(), other, params, memory, unused);
    engine.rehearsal = true;
    engine.run();
    memory.restore(before);
    if (seed > 1 && digests != engine.digests) return {};
    digests = std::move(engine.digests);
  }
  return digests;
}

void concludeOrders(Engine &engine, const std::vector<std::vector<uint64_t>> &rehearsed) {
  if (!engine.traceAccesses)
    return engine.report(FindingKind::NotCovered, kKernelSite,
                         "not covered: only targets with mbarriers (sm_90a) are checked for all interleavings",
                         nullptr);
  if (!engine.result.findings.empty() || !engine.result.completed) return;
  if (engine.digests != rehearsed)
    return engine.report(FindingKind::NotCovered, kKernelSite,
                         "not covered: what a warp does depends on the schedule (work by an atomic counter, values "
                         "that another program writes)",
                         nullptr);
  const auto &c = engine.covered;
  engine.result.proof = "every interleaving of " + countText(c.programs, "program") +
                        " is covered: " + countText(c.synchronizations, "synchronization") + " of warps, " +
                        countText(c.operations, "operation") + " of units, " + countText(c.accesses, "piece") +
                        " of shared memory read or written";
}

} // namespace tlx::sim
