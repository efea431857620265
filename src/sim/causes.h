// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to src/sim: what must come before what in a trace, whatever the schedule.
#pragma once
#include <cstdint>
#include <map>
#include <vector>

#include "sim/trace.h"

namespace tlx::sim {

/// Chains are sequences in which each point comes behind the one before: the synchronizations of a warp (two points each, coming and going on), the
/// phases of an mbarrier, the generations of a named barrier, the products of a warpgroup. A clock says for each chain how many points come
/// before.
class Causes {
public:
  explicit Causes(const Trace &trace);

  struct Point {
    uint32_t chain = 0, index = 0; // index 0: before everything
  };
  static constexpr uint32_t kNever = ~0u; // index of a point that does not come
  Point enter(uint32_t event) const { return {warpOf[event], 2 * position[event] + 1}; }
  Point leave(uint32_t event) const { return {warpOf[event], 2 * position[event] + 2}; }
  Point phase(uint32_t barrier, int64_t phase) const { return {warps + barrier, uint32_t(phase) + 1}; }
  Point generation(uint32_t id, int64_t generation) const { return {warps + barriers + id, uint32_t(generation) + 1}; }
  Point product(unsigned group, uint64_t number) const {
    return {warps + barriers + kNamed + group, uint32_t(number) + 1};
  }
  const uint32_t *enterClock(uint32_t event) const { return &clocks[size_t(2 * event) * chains]; }
  const uint32_t *leaveClock(uint32_t event) const { return &clocks[size_t(2 * event + 1) * chains]; }
  /// Null if it does not complete.
  const uint32_t *phaseClock(uint32_t barrier, int64_t phase) const;
  static bool before(Point p, const uint32_t *clock) { return p.index != kNever && clock[p.chain] >= p.index; }

  /// If every synchronization has been placed. Else lanes of one warp wait for each other, or the launch ended before they went on.
  bool complete = true;
  std::vector<uint32_t> warpOf, position; // by event
  /// Steps by event, if all that can happens at once: a synchronization takes 1, what a unit does kUnitSteps.
  static constexpr uint64_t kUnitSteps = 4;
  std::vector<uint64_t> enterStep, leaveStep; // leave 0: never
  struct Completion {
    unsigned parts = 0, arrived = 0; // synchronizations that make it, and those placed
    uint64_t step = 0;
    bool ends = false;            // in the run
    bool done = false;            // placed
    uint32_t last = Trace::kNone; // the event that made it complete
    std::vector<uint32_t> clock;
  };
  using Key = std::pair<uint32_t, int64_t>; // chain, number
  std::map<Key, Completion> completions;

private:
  static constexpr unsigned kNamed = 16;
  Key keyOf(const TraceEvent &event, unsigned warp) const;
  bool advance(const Trace &trace, unsigned warp);
  void finish(const Key &key);
  void joinPoint(uint32_t *clock, const Key &key) const;
  uint32_t warps, barriers, chains;
  std::vector<uint32_t> clocks;
  std::vector<uint32_t> at;   // by warp: position of its next event
  std::vector<bool> entered;  // and whether it has come there
  std::vector<uint64_t> time; // by warp
};

} // namespace tlx::sim
