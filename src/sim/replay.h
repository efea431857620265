// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to src/sim: one other order of a trace's synchronizations, by what barriers do and not by what they did.
#pragma once
#include <cstdint>
#include <vector>

#include "sim/trace.h"

namespace tlx::sim {

/// Plays the trace again. One warp is late: it stands before an event until nobody else can go on. Or it is early: the others go on only where it
/// waits, until it has passed the event.
class Replay {
public:
  explicit Replay(const Trace &trace) : trace(trace) {}
  /// True if all ends.
  bool ends(uint32_t warp, uint32_t event, bool late);
  /// Where each warp stands that has not ended: its event.
  std::vector<uint32_t> stuck() const;

private:
  struct Barrier {
    uint64_t phase = 0, pending = 0;
    int64_t bytes = 0;
  };
  bool advance(uint32_t warp);
  bool passes(const TraceEvent &event, uint32_t warp) const;
  void act(const TraceEvent &event, uint32_t warp);
  void settle(Barrier &barrier, uint32_t number);
  const Trace &trace;
  std::vector<uint32_t> at; // by warp
  std::vector<bool> acted;  // it has come to its event
  std::vector<Barrier> barriers;
  struct Named {
    uint64_t arrived = 0, generation = 0;
  };
  Named named[16];
  std::vector<uint64_t> joined;                // by warp: the generation that it waits for
  std::vector<std::vector<uint32_t>> products; // by warpgroup and number: warps that have called it
};

} // namespace tlx::sim
