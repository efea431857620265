// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to src/sim: what one program (CTA) of a launch did: the synchronizations of each warp in the order of the program text's execution, the
// asynchronous operations, the phases of barriers and, if asked for, which bytes of shared memory each touched between which synchronizations.
#pragma once
#include <cstdint>
#include <deque>
#include <vector>

namespace tlx::sim {

enum class SyncKind : uint8_t {
  Init,       // of an mbarrier
  Invalidate, //
  Arrive,     // at an mbarrier, without waiting
  Expect,     // bytes, without arriving
  Wait,       // for a phase of an mbarrier
  Barrier,    // bar.sync, s_barrier
  BarrierArrive,
  ProxyFence,
  Fence, // of wgmma, of memory
  Load,  // TMA: issued
  Store,
  Wgmma,
  Copy, // cp.async, direct loads
  StoreCommit,
  StoreWait, // until results are written
  StoreWaitRead,
  WgmmaCommit,
  WgmmaWait,
  CopyCommit,
  CopyWait,
  Meet, // lanes of a warp at a collective; recorded with accesses only
  Exit
};

/// One synchronization of a warp. Its lanes come there one after another; they are one event if they do the same.
struct TraceEvent {
  SyncKind kind = SyncKind::Meet;
  uint32_t site = 0;
  uint32_t id = 0;    // number of an mbarrier or a named barrier; of a product; how many groups a wait keeps in flight
  uint32_t count = 0; // arrivals of a lane, threads of a named barrier, the parity that a Wait asks for, bytes
  int64_t phase =
      0; // that it belongs to; of a Wait the one waited for, -1: the one before the first; of a Barrier its generation;
         // of a WgmmaWait how many products it covers
  uint32_t operation = ~0u; // that it issues
  uint64_t lanes = 0;
  uint64_t begin = 0, end = 0; // steps: the first lane came, the last one went on; end 0: never
  bool mixed = false;          // lanes differ in the phase
};

/// What a unit does on its own.
struct TraceOperation {
  enum class Kind : uint8_t { Load, Store, Wgmma } kind = Kind::Load;
  uint32_t unit = 0; // Wgmma: the warpgroup; else the warp that issued it
  uint32_t site = 0, offset = 0, bytes = 0;
  uint32_t barrier = 0;                  // Load: number of its mbarrier, and
  int64_t phase = 0;                     // its phase
  uint64_t begin = 0, read = 0, end = 0; // steps; read: of a store, whose source has been read. 0: never
  uint32_t readBy = ~0u, doneBy = ~0u;   // Store: the waits that say so
};

struct TracePhase {
  bool named = false; // a named barrier
  uint32_t id = 0;    // as in TraceEvent
  int64_t phase = 0;
  uint64_t end = 0; // step at which it was complete
};

/// Bytes of shared memory that a lane or a unit touched.
struct TraceAccess {
  uint32_t offset = 0, bytes = 0, site = 0;
  uint32_t after = ~0u;     // event of the lane before it; ~0: none
  uint32_t operation = ~0u; // or: the operation that does it
  uint8_t warp = 0, lane = 0;
  bool write = false;
};

class Trace {
public:
  static constexpr uint32_t kNone = ~0u;
  Trace(unsigned warps, bool withAccesses) : accessesToo(withAccesses), warps(warps) {}

  /// A lane comes to a synchronization, at which other lanes of its warp may have been. Returns the event's number.
  uint32_t begin(unsigned warp, unsigned lane, const TraceEvent &event);
  /// and goes on.
  void end(uint32_t event);
  /// Lanes of a warp meet: what each of them did comes before what any of them does next.
  void meet(unsigned warp, uint64_t mask, uint32_t site);
  uint32_t operation(const TraceOperation &o);
  void phase(bool named, uint32_t id, int64_t phase);
  void access(unsigned warp, unsigned lane, uint32_t offset, uint32_t bytes, bool write, uint32_t site);
  void operationAccess(uint32_t operation, unsigned warp, uint32_t offset, uint32_t bytes, bool write, uint32_t site);
  /// A wait says that a store's source has been read, or that it is done.
  void covered(uint32_t store, uint32_t event, bool readOnly) {
    TraceOperation &o = operations[store];
    if (o.readBy == kNone) o.readBy = event;
    if (!readOnly) o.doneBy = event, o.end = step;
  }
  std::vector<uint64_t> digests() const; // by warp
  uint64_t tick() { return ++step; }

  struct Warp {
    std::vector<uint32_t> order; // its events
    uint32_t next[64] = {};      // by lane: the position behind its last event
  };
  const bool accessesToo;
  uint32_t id[3] = {0, 0, 0}; // of the CTA
  uint64_t step = 0;
  bool complete = false; // every thread ran to its end
  std::vector<Warp> warps;
  std::deque<TraceEvent> events;
  std::vector<TraceOperation> operations;
  std::vector<TracePhase> phases;
  std::vector<TraceAccess> accesses;
  struct Barrier {
    uint32_t offset, arrivals;
  };
  std::vector<Barrier> barriers;               // mbarriers, each time that one was initialized
  std::vector<std::vector<uint32_t>> products; // by warpgroup: operations of its wgmmas
};

const char *syncKindName(SyncKind kind);

} // namespace tlx::sim
