// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Units are as fast as can be here: loads arrive when they are issued, products retire when the four warps have called them.
#include "sim/replay.h"

#include <algorithm>
#include <bit>

namespace tlx::sim {

bool Replay::ends(uint32_t warp, uint32_t event, bool late) {
  const uint32_t warps = uint32_t(trace.warps.size());
  at.assign(warps, 0), acted.assign(warps, false), joined.assign(warps, 0);
  barriers.assign(trace.barriers.size(), {});
  for (size_t b = 0; b < barriers.size(); ++b) barriers[b].pending = trace.barriers[b].arrivals;
  for (Named &n : named) n = {};
  products.assign(trace.products.size(), {});
  for (size_t g = 0; g < products.size(); ++g) products[g].resize(trace.products[g].size());
  bool special = true;
  auto here = [&] {
    return at[warp] < trace.warps[warp].order.size() ? trace.warps[warp].order[at[warp]] : Trace::kNone;
  };
  for (;;) {
    bool moved = false;
    if (special && !late) {
      bool passed = false;
      while (!passed && here() != Trace::kNone) {
        const uint32_t n = here();
        if (!advance(warp)) break;
        moved = true;
        passed = n == event;
      }
      special = !passed;
      if (moved) continue;
    }
    for (uint32_t w = 0; w < warps; ++w) {
      if (special && !late && w == warp) continue;
      while (!(special && late && w == warp && here() == event) && advance(w)) {
        moved = true;
        if (special && !late) break; // the early one may go on
      }
    }
    if (moved) continue;
    if (!special) break;
    special = false; // nobody else can go on
  }
  return stuck().empty();
}

std::vector<uint32_t> Replay::stuck() const {
  std::vector<uint32_t> events;
  for (size_t w = 0; w < at.size(); ++w)
    if (at[w] < trace.warps[w].order.size()) events.push_back(trace.warps[w].order[at[w]]);
  return events;
}

/// The warp's next event, if it can be passed.
bool Replay::advance(uint32_t w) {
  if (at[w] == trace.warps[w].order.size()) return false;
  const TraceEvent &e = trace.events[trace.warps[w].order[at[w]]];
  if (!acted[w]) act(e, w), acted[w] = true;
  if (!passes(e, w)) return false;
  acted[w] = false;
  ++at[w];
  return true;
}

void Replay::act(const TraceEvent &e, uint32_t w) {
  const uint64_t lanes = uint64_t(std::popcount(e.lanes));
  switch (e.kind) {
  case SyncKind::Arrive:
    barriers[e.id].pending -= std::min(barriers[e.id].pending, lanes * e.count);
    return settle(barriers[e.id], e.id);
  case SyncKind::Expect:
    barriers[e.id].bytes += int64_t(lanes * e.count);
    return settle(barriers[e.id], e.id);
  case SyncKind::Load:
    barriers[e.id].bytes -= int64_t(e.count);
    return settle(barriers[e.id], e.id);
  case SyncKind::Barrier:
  case SyncKind::BarrierArrive:
    joined[w] = named[e.id].generation;
    named[e.id].arrived += lanes;
    if (named[e.id].arrived == e.count) named[e.id].arrived = 0, ++named[e.id].generation;
    return;
  case SyncKind::Wgmma:
    ++products[w / 4][e.id];
    return;
  default:
    return;
  }
}

void Replay::settle(Barrier &b, uint32_t number) {
  if (b.pending || b.bytes) return;
  ++b.phase;
  b.pending = trace.barriers[number].arrivals;
}

bool Replay::passes(const TraceEvent &e, uint32_t w) const {
  switch (e.kind) {
  case SyncKind::Wait:
    return (barriers[e.id].phase & 1) != e.count;
  case SyncKind::Barrier:
    return named[e.id].generation > joined[w];
  case SyncKind::WgmmaWait:
    return e.phase == 0 || products[w / 4][size_t(e.phase) - 1] == 4;
  default:
    return true;
  }
}

} // namespace tlx::sim
