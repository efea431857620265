// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "sim/causes.h"

#include <algorithm>

namespace tlx::sim {

namespace {
/// What makes a phase, a generation or a product complete when all that belong to it have come.
bool contributes(SyncKind kind) {
  switch (kind) {
  case SyncKind::Arrive:
  case SyncKind::Expect:
  case SyncKind::Load:
  case SyncKind::Barrier:
  case SyncKind::BarrierArrive:
  case SyncKind::Wgmma:
    return true;
  default:
    return false;
  }
}
bool isWait(SyncKind kind) {
  return kind == SyncKind::Wait || kind == SyncKind::Barrier || kind == SyncKind::WgmmaWait;
}
constexpr unsigned kGroupWarps = 4;
} // namespace

Causes::Key Causes::keyOf(const TraceEvent &e, unsigned warp) const {
  switch (e.kind) {
  case SyncKind::Barrier:
  case SyncKind::BarrierArrive:
    return {warps + barriers + e.id, e.phase};
  case SyncKind::Wgmma:
    return {warps + barriers + kNamed + warp / kGroupWarps, int64_t(e.id)};
  case SyncKind::WgmmaWait:
    return {warps + barriers + kNamed + warp / kGroupWarps, e.phase - 1}; // the last that it covers; -1: none
  default:
    return {warps + e.id, e.phase};
  }
}

Causes::Causes(const Trace &trace)
    : warps(uint32_t(trace.warps.size())), barriers(uint32_t(trace.barriers.size())),
      chains(warps + barriers + kNamed + (warps + kGroupWarps - 1) / kGroupWarps) {
  const size_t n = trace.events.size();
  warpOf.resize(n), position.resize(n), enterStep.resize(n), leaveStep.resize(n);
  clocks.resize(2 * n * chains);
  at.resize(warps), entered.resize(warps), time.resize(warps);
  for (unsigned w = 0; w < warps; ++w)
    for (uint32_t p = 0; p < trace.warps[w].order.size(); ++p) {
      const uint32_t number = trace.warps[w].order[p];
      const TraceEvent &e = trace.events[number];
      warpOf[number] = w, position[number] = p;
      if (!contributes(e.kind)) continue;
      Completion &c = completions[keyOf(e, w)];
      ++c.parts;
      c.ends |= e.kind == SyncKind::Wgmma && c.parts == kGroupWarps;
    }
  for (const TracePhase &p : trace.phases) completions[{warps + (p.named ? barriers : 0) + p.id, p.phase}].ends = true;
  for (auto &[key, c] : completions) c.clock.resize(chains);
  for (bool moved = true; moved;) {
    moved = false;
    for (unsigned w = 0; w < warps; ++w)
      while (at[w] < trace.warps[w].order.size() && advance(trace, w)) moved = true;
  }
  for (unsigned w = 0; w < warps; ++w) complete &= at[w] == trace.warps[w].order.size();
}

const uint32_t *Causes::phaseClock(uint32_t barrier, int64_t phase) const {
  auto it = completions.find({warps + barrier, phase});
  return it == completions.end() || !it->second.done ? nullptr : it->second.clock.data();
}

void Causes::joinPoint(uint32_t *clock, const Key &key) const {
  const std::vector<uint32_t> &other = completions.at(key).clock;
  for (unsigned c = 0; c < chains; ++c) clock[c] = std::max(clock[c], other[c]);
}

/// Places it if everything that belongs to it has come.
void Causes::finish(const Key &key) {
  auto it = completions.find(key);
  if (it == completions.end() || !it->second.ends || it->second.done || it->second.arrived != it->second.parts) return;
  Completion &c = it->second;
  if (key.second > 0) {
    auto previous = completions.find({key.first, key.second - 1});
    if (previous == completions.end() || !previous->second.done) return;
    joinPoint(c.clock.data(), previous->first);
    c.step = std::max(c.step, previous->second.step);
  }
  if (key.first >= warps + barriers + kNamed) c.step += kUnitSteps;
  c.done = true;
  c.clock[key.first] = uint32_t(key.second) + 1;
  finish({key.first, key.second + 1});
}

/// Places the next point of a warp, if what it waits for is placed.
bool Causes::advance(const Trace &trace, unsigned w) {
  const uint32_t number = trace.warps[w].order[at[w]];
  const TraceEvent &e = trace.events[number];
  const Key key = keyOf(e, w);
  uint32_t *enter = &clocks[size_t(2 * number) * chains], *leave = enter + chains;
  if (!entered[w]) {
    if (at[w]) {
      const uint32_t *before = leaveClock(trace.warps[w].order[at[w] - 1]);
      std::copy(before, before + chains, enter);
    }
    enter[w] = 2 * at[w] + 1;
    enterStep[number] = e.kind == SyncKind::Meet ? time[w] : ++time[w];
    entered[w] = true;
    if (contributes(e.kind)) {
      Completion &c = completions[key];
      for (unsigned i = 0; i < chains; ++i) c.clock[i] = std::max(c.clock[i], enter[i]);
      const uint64_t step = time[w] + (e.kind == SyncKind::Load ? kUnitSteps : 0);
      if (step >= c.step) c.last = number, c.step = step;
      ++c.arrived;
      finish(key);
    }
  }
  uint64_t step = time[w];
  std::copy(enter, enter + chains, leave);
  if (isWait(e.kind) && key.second >= 0) {
    auto it = completions.find(key);
    if (it == completions.end() || !it->second.done) return false;
    joinPoint(leave, key);
    step = std::max(step, it->second.step);
  }
  leave[w] = 2 * at[w] + 2;
  leaveStep[number] = time[w] = step;
  entered[w] = false;
  ++at[w];
  return true;
}

} // namespace tlx::sim
