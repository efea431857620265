// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to src/sim: what the asynchronous units of Hopper keep beside memory: mbarriers, TMA transfers, wgmma, and
// the clocks by which missing proxy fences are found. Only data; the units are mbarrier.cpp, tma.cpp and wgmma.cpp.
#pragma once
#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "llvm/ADT/DenseMap.h"

#include "sim/races.h"
#include "sim/tensor_map.h"

namespace tlx::sim {

struct Thread;
struct Cta;

constexpr unsigned kMaxWarps = 32; // of a CTA on NVIDIA
constexpr unsigned kGroupWarps = 4, kGroupLanes = 128;

/// What is known of a warp: the steps up to `all` of all its lanes, and of each lane those up to `lane`, of which `last` is the highest.
struct Reach {
  uint32_t all = 0, last = 0;
  uint32_t lane[32] = {}; // AMD's lanes are never told apart
  bool operator==(const Reach &) const = default;
  void add(unsigned l, uint32_t step) {
    lane[l] = std::max(lane[l], step);
    last = std::max(last, step);
  }
  /// `l`: as a Mark has it.
  bool covers(unsigned l, uint32_t step) const {
    if (step <= all || step > last) return step <= all;
    if (l == Mark::kSome) return *std::min_element(std::begin(lane), std::end(lane)) >= step;
    return l == Mark::kEvery || lane[l & 31] >= step;
  }
  void join(const Reach &o) {
    all = std::max(all, o.all);
    if (o.last <= all) return;
    for (unsigned l = 0; l < 32; ++l) lane[l] = std::max(lane[l], o.lane[l]);
    last = std::max(last, o.last);
  }
};
/// By warp; nothing is known of those behind the last.
struct Reaches : std::vector<Reach> {
  Reach &of(unsigned warp) {
    if (size() <= warp) resize(warp + 1);
    return (*this)[warp];
  }
  bool covers(unsigned warp, unsigned lane, uint32_t step) const {
    return warp < size() && (*this)[warp].covers(lane, step);
  }
  void join(const Reaches &other) {
    if (size() < other.size()) resize(other.size());
    for (size_t w = 0; w < other.size(); ++w) (*this)[w].join(other[w]);
  }
};

/// Of what a proxy fence speaks.
enum Space : unsigned { kShared, kGlobal, kSpaces };

/// What is known of a CTA: of each warp, which of its steps are ordered before now, and the steps whose generic writes a proxy fence has made visible
/// to the asynchronous proxy; of each named barrier (the first kNamedPhases) and each mbarrier (by number, behind those), how many phases are complete.
constexpr unsigned kNamedPhases = 16;
struct Knowledge {
  Reaches warps;
  Reaches fenced[kSpaces];
  std::vector<uint32_t> phases;
  uint32_t phasesOf(size_t barrier) const { return barrier < phases.size() ? phases[barrier] : 0; }
  void join(const Knowledge &other) {
    warps.join(other.warps);
    for (unsigned space = 0; space < kSpaces; ++space) fenced[space].join(other.fenced[space]);
    if (phases.size() < other.phases.size()) phases.resize(other.phases.size());
    for (size_t b = 0; b < other.phases.size(); ++b) phases[b] = std::max(phases[b], other.phases[b]);
  }
  void knowPhases(size_t barrier, uint32_t count) {
    if (phases.size() <= barrier) phases.resize(barrier + 1);
    phases[barrier] = std::max(phases[barrier], count);
  }
};
using Others = std::map<uint32_t, Knowledge>; // by number of the CTA

/// What is known: of this CTA, and of other CTAs (through atomics). Carried by barriers.
struct Clock : Knowledge {
  std::shared_ptr<const Others> others;
  void join(const Clock &other) {
    Knowledge::join(other);
    joinOthers(other.others);
  }
  void clear() {
    warps.clear(), phases.clear(), others.reset();
    for (Reaches &space : fenced) space.clear();
  }
  void joinOthers(const std::shared_ptr<const Others> &more) {
    if (!more || more == others) return;
    if (!others) {
      others = more;
      return;
    }
    auto both = std::make_shared<Others>(*others);
    for (const auto &[cta, what] : *more) (*both)[cta].join(what);
    others = std::move(both);
  }
};

/// What some lanes of a warp have learned since all of them met: by a phase of an mbarrier (`phase` complete ones), by a proxy fence, or, of one
/// lane, by atomics.
struct Learned {
  static constexpr size_t kAtomics = ~size_t(0), kFence = kAtomics - kSpaces; // kFence + space
  size_t barrier = kAtomics;                                                  // as in Knowledge::phases
  uint32_t phase = 0;
  uint64_t lanes = 0;
  Clock clock;
};

/// Where a warp is. Its lanes count steps of their own, which begin anew where all of them meet.
struct Steps {
  uint32_t first = 1; // the first step since they met
  uint32_t ahead[32] = {};
  Reach fenced[kSpaces]; // of each lane's own writes, since they met
  uint32_t of(unsigned lane) const { return first + ahead[lane & 31]; }
  uint32_t last() const { return first + *std::max_element(std::begin(ahead), std::end(ahead)); }
};

/// An arrival at an mbarrier, for reports. Lanes of a warp that arrive at one place in one phase are one.
struct Arrival {
  uint32_t warp = 0, site = 0, barrier = 0; // the barrier's number
  uint32_t count = 0, loadBytes = 0;        // arrivals, or bytes that a TMA load brought
  uint32_t lane = 0;
  Reach reach;                  // of the warp's own steps
  uint64_t phase = 0, when = 0; // when: steps of the scheduler
};

/// A generic write as its bytes remember it: the warp, the lane and its step, never 0. From the last step on fences are not told apart.
struct WriteStamp {
  static constexpr unsigned kStepBits = 22;
  static uint32_t pack(unsigned warp, unsigned lane, uint32_t step) {
    return warp << (kStepBits + 5) | lane << kStepBits | std::min(step, (1u << kStepBits) - 1);
  }
  static unsigned warp(uint32_t stamp) { return stamp >> (kStepBits + 5); }
  static unsigned lane(uint32_t stamp) { return stamp >> kStepBits & 31; }
  static uint32_t step(uint32_t stamp) { return stamp & ((1u << kStepBits) - 1); }
};

/// A TMA load from its issue until a wait has seen the phase that it belongs to. `arrived`: the bytes are there and
/// counted, which the program may not know yet.
struct TmaLoad {
  TensorMap map;
  int32_t at[5] = {};
  uint32_t offset = 0, bytes = 0, barrier = 0, site = 0;
  uint32_t traced = 0; // as an operation
  uint64_t phase = 0;  // of the barrier at issue
  const Thread *thread = nullptr;
  Cta *cta = nullptr;
  bool arrived = false;
};

struct Mbarrier {
  uint32_t offset = 0;
  bool valid = false;
  uint32_t expected = 0, pending = 0; // arrivals of a phase, and left of this one
  int64_t bytes = 0;                  // expected and not yet arrived; negative: arrived and not yet expected
  uint64_t phase = 0;                 // completed ones
  uint32_t initSite = 0, bytesSite = 0;
  uint32_t initWarp = 0, initStep = 0;
  uint8_t initLane = 0; // as a Mark has it
  uint32_t traced = 0;  // its number in the trace
  Clock arrived, completed;
  bool visible = false;      // to the asynchronous proxy: a fence stands behind its initialization
  std::vector<Arrival> last; // arrivals, a few
  std::vector<std::unique_ptr<TmaLoad>> loads;
  std::vector<uint64_t> waiting; // lanes, by warp; all wait for the phase that is under way
};

enum class BulkKind : uint8_t { Store, Add, Min, Max, And, Or, Xor };

/// A TMA store or reduction from its issue until the wait that covers its group.
struct BulkStore {
  enum class Stage : uint8_t { Issued, Read, Written };
  TensorMap map;
  int32_t at[5] = {};
  uint32_t offset = 0, bytes = 0, group = 0, site = 0;
  uint32_t traced = 0;
  uint64_t serial = 0;
  BulkKind kind = BulkKind::Store;
  Stage stage = Stage::Issued;
  bool readCovered = false;  // a wait says that the source has been read
  std::vector<uint8_t> data; // the box, dense, once read
};

enum class WgmmaFormat : uint8_t { F16, BF16, TF32, E4M3, E5M2, S8, U8 };
struct WgmmaKind {
  WgmmaFormat a, b;
  unsigned elementBytes;
  bool integers;
  unsigned depth() const { return 32 / elementBytes; }
};

/// A tile of 64 x n that the unit owns: f32 or i32, row-major.
struct Accumulator {
  unsigned n = 0, bound = 0; // lanes whose registers it holds
  bool integers = false;
  uint64_t firstOp = 0;
  std::vector<uint32_t> values;
};

/// The k-th wgmma of every lane of a warpgroup is one operation; lanes may run ahead of others.
struct WgmmaOp {
  const WgmmaKind *kind = nullptr;
  uint64_t a = 0, b = 0;
  uint32_t site = 0, n = 0, transposed = 0, lanes = 0, traced = 0;
  bool useAcc = false, aInRegisters = false;
  Accumulator *acc = nullptr;
  std::vector<uint32_t> registers;      // of A, 4 a lane
  std::vector<uint16_t> cellsA, cellsB; // 16-byte units of shared memory in the order of the matrix
};

struct Warpgroup {
  std::deque<std::unique_ptr<WgmmaOp>> ops;     // [i] is number first + i
  uint64_t first = 0, issued = 0, executed = 0; // numbers: kept from here, called by all lanes, done
  uint64_t waiting[kGroupWarps] = {};           // lanes in wgmma.wait
  std::vector<std::unique_ptr<Accumulator>> accumulators, spareAccumulators;
  std::vector<std::unique_ptr<WgmmaOp>> spareOps;
};

/// A lane's side of wgmma.
struct WgmmaLane {
  struct Bound {
    uint32_t *registers;
    Accumulator *acc; // null: the lane's own again
    uint64_t lastOp;
    uint32_t fences; // at its last retire
    unsigned count;  // of registers
  };
  uint64_t calls = 0, waited = 0;           // wgmmas issued; those that a wait covers
  uint32_t fences = 0, committedFences = 0; // committedFences: at the last commit
  uint32_t lastSite = 0;                    // of the last wgmma
  std::vector<uint64_t> groupEnds;          // calls at each commit
  std::vector<Bound> bound;
  void reset() {
    calls = waited = 0;
    fences = committedFences = lastSite = 0;
    groupEnds.clear();
    bound.clear();
  }
};

/// Of a CTA.
struct Units {
  std::vector<uint32_t>
      stamps; // by 4 bytes of shared memory: the last generic write, 0 if none since the last TMA load
  std::vector<uint16_t> readers; // by 16 bytes: asynchronous operations that still read them
  Clock clocks[kMaxWarps];       // what all lanes of a warp know
  std::vector<Learned> learned[kMaxWarps];
  Steps steps[kMaxWarps];
  Clock named[16];                         // named barriers
  std::deque<Arrival> arrivals[kMaxWarps]; // at mbarriers, the last ones of each warp
  std::deque<Mbarrier> barriers;
  llvm::DenseMap<uint32_t, uint32_t> barrierAt; // by offset
  Warpgroup groups[kMaxWarps / kGroupWarps];
};

} // namespace tlx::sim
