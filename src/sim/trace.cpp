// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How lanes' synchronizations become a warp's: a lane looks for an event that another lane of the warp has begun behind the lane's own last one,
// and joins it, or puts a new one right behind its last. So the order does not depend on which lane runs first.
#include "sim/trace.h"

#include <algorithm>

#include "sim/engine.h"
#include "sim/orders.h"
#include "sim/timeline.h"

namespace tlx::sim {

namespace {
bool blocks(SyncKind kind) {
  return kind == SyncKind::Wait || kind == SyncKind::Barrier || kind == SyncKind::WgmmaWait;
}
} // namespace

uint32_t Trace::begin(unsigned warp, unsigned lane, const TraceEvent &event) {
  Warp &w = warps[warp];
  const uint64_t bit = uint64_t(1) << lane, now = tick();
  const uint32_t from = w.next[lane];
  const bool alone = event.kind == SyncKind::Load || event.kind == SyncKind::Store; // each has its operation
  for (uint32_t i = from; i < w.order.size() && !alone; ++i) {
    TraceEvent &e = events[w.order[i]];
    if (e.kind != event.kind || e.site != event.site || e.id != event.id || e.count != event.count || (e.lanes & bit))
      continue;
    e.lanes |= bit;
    e.mixed |= e.phase != event.phase;
    if (!blocks(e.kind)) e.end = now;
    w.next[lane] = i + 1;
    return w.order[i];
  }
  const uint32_t number = uint32_t(events.size());
  TraceEvent &e = events.emplace_back(event);
  e.lanes = bit;
  e.begin = now;
  if (!blocks(e.kind)) e.end = now;
  for (uint32_t &n : w.next) n += n > from;
  w.order.insert(w.order.begin() + from, number);
  w.next[lane] = from + 1;
  return number;
}

void Trace::end(uint32_t event) {
  events[event].end = tick();
}

void Trace::meet(unsigned warp, uint64_t mask, uint32_t site) {
  Warp &w = warps[warp];
  uint32_t last = 0;
  for (unsigned l = 0; l < 64; ++l)
    if (mask >> l & 1) last = std::max(last, w.next[l]);
  if (accessesToo) {
    TraceEvent &e = events.emplace_back();
    e.site = site;
    e.lanes = mask;
    e.begin = e.end = step;
    for (uint32_t &n : w.next) n += n > last;
    w.order.insert(w.order.begin() + last++, uint32_t(events.size() - 1));
  }
  for (unsigned l = 0; l < 64; ++l)
    if (mask >> l & 1) w.next[l] = last;
}

/// Equal for equal traces, whatever the schedule: the sum over a warp's accesses does not depend on their order.
std::vector<uint64_t> Trace::digests() const {
  auto mix = [](uint64_t h, uint64_t v) {
    h = (h ^ v) * 0x9e3779b97f4a7c15ull;
    return h ^ h >> 29;
  };
  std::vector<uint32_t> position(events.size()); // among the synchronizations of its warp; lanes' meetings aside
  std::vector<uint64_t> sums(warps.size(), 0);
  for (size_t w = 0; w < warps.size(); ++w) {
    uint32_t n = 0;
    for (uint32_t number : warps[w].order) {
      const TraceEvent &e = events[number];
      position[number] = n++;
      const bool mbarrier = e.kind <= SyncKind::Wait || e.kind == SyncKind::Load;
      const uint64_t id = mbarrier ? barriers[e.id].offset : e.id;
      sums[w] = mix(mix(mix(mix(sums[w], uint64_t(e.kind)), uint64_t(e.site) << 32 | e.count), id), e.lanes);
    }
  }
  for (const TraceAccess &a : accesses)
    if (a.operation == kNone)
      sums[a.warp] += mix(mix(mix(a.after == kNone ? 0 : position[a.after] + 1, uint64_t(a.offset) << 32 | a.bytes),
                              uint64_t(a.site) << 1 | a.write),
                          a.lane);
  return sums;
}

uint32_t Trace::operation(const TraceOperation &o) {
  operations.push_back(o);
  operations.back().begin = tick();
  return uint32_t(operations.size() - 1);
}

void Trace::phase(bool named, uint32_t barrier, int64_t number) {
  phases.push_back({named, barrier, number, tick()});
}

void Trace::access(unsigned warp, unsigned lane, uint32_t offset, uint32_t bytes, bool write, uint32_t site) {
  const Warp &w = warps[warp];
  const uint32_t after = w.next[lane] ? w.order[w.next[lane] - 1] : kNone;
  accesses.push_back({offset, bytes, site, after, kNone, uint8_t(warp), uint8_t(lane), write});
}

void Trace::operationAccess(uint32_t operation, unsigned warp, uint32_t offset, uint32_t bytes, bool write,
                            uint32_t site) {
  if (!accesses.empty()) { // units read cell by cell
    TraceAccess &last = accesses.back();
    if (last.operation == operation && last.offset + last.bytes == offset && last.write == write && last.warp == warp)
      return void(last.bytes += bytes);
  }
  accesses.push_back({offset, bytes, site, kNone, operation, uint8_t(warp), 0, write});
}

// --- what the engine records

uint32_t Engine::record(SyncKind kind, uint32_t id, uint32_t site, uint32_t count, int64_t phase) {
  TraceEvent e;
  e.kind = kind;
  e.id = id;
  e.site = site;
  e.count = count;
  e.phase = phase;
  return cta().trace->begin(current->warp->index, current->lane, e);
}

void Engine::recordLoad(TmaLoad &load) {
  Trace *trace = load.cta->trace.get();
  if (!trace) return;
  const unsigned warp = current->warp->index;
  const uint32_t barrier = load.cta->units->barriers[load.barrier].traced;
  const uint32_t event = onSync(SyncKind::Load, barrier, load.site, load.bytes, int64_t(load.phase));
  load.traced = trace->operation({.kind = TraceOperation::Kind::Load,
                                  .unit = warp,
                                  .site = load.site,
                                  .offset = load.offset,
                                  .bytes = load.bytes,
                                  .barrier = barrier,
                                  .phase = int64_t(load.phase)});
  trace->events[event].operation = load.traced;
  if (traceAccesses) trace->operationAccess(load.traced, warp, load.offset, load.bytes, true, load.site);
}

void Engine::recordStore(BulkStore &store) {
  Trace *trace = cta().trace.get();
  if (!trace) return;
  const unsigned warp = current->warp->index;
  const uint32_t event = onSync(SyncKind::Store, 0, store.site, store.bytes);
  store.traced = trace->operation({.kind = TraceOperation::Kind::Store,
                                   .unit = warp,
                                   .site = store.site,
                                   .offset = store.offset,
                                   .bytes = store.bytes});
  trace->events[event].operation = store.traced;
  if (traceAccesses) trace->operationAccess(store.traced, warp, store.offset, store.bytes, false, store.site);
}

/// A lane calls a wgmma, the first one of its warpgroup or a later one.
void Engine::recordProduct(WgmmaOp &op, unsigned group, uint64_t number) {
  Trace &trace = *cta().trace;
  if (trace.products.size() <= group) trace.products.resize(group + 1);
  std::vector<uint32_t> &products = trace.products[group];
  if (products.size() <= number) {
    op.traced = trace.operation({.kind = TraceOperation::Kind::Wgmma, .unit = group, .site = op.site});
    products.push_back(op.traced);
  }
  const uint32_t event = onSync(SyncKind::Wgmma, uint32_t(number), op.site);
  trace.events[event].operation = op.traced;
}

/// All lanes have called it: what it reads, for each of the four warps.
void Engine::recordOperands(const WgmmaOp &op, Cta &c, unsigned group) {
  std::vector<uint16_t> cells = op.cellsA;
  cells.insert(cells.end(), op.cellsB.begin(), op.cellsB.end());
  std::sort(cells.begin(), cells.end());
  cells.erase(std::unique(cells.begin(), cells.end()), cells.end());
  for (unsigned w = 0; w < kGroupWarps; ++w)
    for (uint16_t cell : cells)
      if (size_t(cell) * 16 + 16 <= program.sharedBytes)
        c.trace->operationAccess(op.traced, group * kGroupWarps + w, cell * 16u, 16, false, op.site);
}

void Engine::endTrace(Cta &cta, bool complete) {
  cta.trace->complete = complete;
  if (config.timeline && cta.number == config.timelineProgram && !rehearsal)
    result.timeline = drawTimeline(*this, *cta.trace);
  if (traceAccesses) {
    if (digests.size() <= cta.number) digests.resize(cta.number + 1);
    digests[cta.number] = cta.trace->digests();
    if (!rehearsal && complete) checkOrders(*this, cta);
  }
  cta.trace.reset();
}

const char *syncKindName(SyncKind kind) {
  static const char *const kNames[] = {"init",         "invalidate",   "arrive",         "expect bytes",
                                       "wait",         "barrier",      "barrier arrive", "proxy fence",
                                       "fence",        "TMA load",     "TMA store",      "wgmma",
                                       "copy",         "store commit", "store wait",     "store wait (read)",
                                       "wgmma commit", "wgmma wait",   "copy commit",    "copy wait",
                                       "meet",         "exit"};
  return kNames[unsigned(kind)];
}

} // namespace tlx::sim
