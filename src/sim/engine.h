// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to src/sim: the state of one launch. One host thread runs it; every GPU thread is a fiber with a stack of its
// own. Operations run on the fiber that calls them, so no frame that owns memory may be live where a fiber can be
// abandoned (block, stop).
#pragma once
#include <boost/context/detail/fcontext.hpp>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "llvm/ADT/DenseMap.h"

#include "sim/races.h"
#include "sim/sim.h"
#include "sim/trace.h"
#include "sim/units.h"

namespace llvm::orc {
class LLJIT;
}

namespace tlx::sim {

// Findings are made in functions of their own: their strings would make the frames of the common path large, and a
// frame is cold in the cache whenever its fiber runs again.
#define TLX_COLD [[gnu::cold, gnu::noinline]]

constexpr unsigned kMaxLanes = 64;
constexpr uint64_t kWave = ~uint64_t(0); // all lanes of a warp of AMD
constexpr unsigned kNamedBarriers = 16;
constexpr unsigned kParamAlign = 128; // of the parameter buffer: tensor maps need 64

/// A place in the program: an access or a device operation. Each call has its own, so lanes that meet at one site meet
/// at one instruction.
struct Site {
  std::string file;
  uint32_t line = 0, col = 0;
  std::string what;    // "load", "tlx.nv.bar.sync"
  uint32_t region = 0; // the async_tasks in which it stands, from 1; 0: in none
};

constexpr uint32_t kKernelSite = 1;

/// What Program holds.
struct ProgramImage {
  ~ProgramImage();
  const features::Target *target = nullptr;
  KernelMetadata metadata;
  std::vector<Site> sites; // [0] is the unknown site, [kKernelSite] the kernel
  unsigned threads = 0, sharedBytes = 0;
  uint32_t paramBytes = 0;
  bool exact = false;
  double compileMilliseconds = 0;
  void (*entry)(const void *params) = nullptr;
  std::unique_ptr<llvm::orc::LLJIT> jit;
};

struct Warp;
struct Cta;

enum class Wait : uint8_t { None, Collective, Barrier, Mbarrier, Wgmma };

/// A cp.async between its issue and the wait that covers it. `done`: the bytes have arrived, which the program may not
/// know yet.
struct AsyncCopy {
  uint8_t *destination = nullptr;
  const uint8_t *source = nullptr;
  uint32_t bytes = 0, sourceBytes = 0, group = 0, site = 0;
  uint64_t serial = 0;
  bool done = false;
};

struct Thread {
  boost::context::detail::fcontext_t context = nullptr;
  Warp *warp = nullptr;
  uint32_t index = 0; // in the CTA
  uint32_t lane = 0;
  char *stack = nullptr; // lowest address
  bool exited = false;
  Wait wait = Wait::None;
  uint32_t waitSite = 0;
  uint32_t sliceSteps = 0; // back-edges since it was scheduled
  uint32_t votes = 0;      // of the last bar.red
  // cp.async
  uint32_t committedGroups = 0;
  std::vector<AsyncCopy> copies;
  // AMD: LDS writes since the last release fence, and whether a barrier was crossed since the last acquire fence
  struct Range {
    uint32_t offset, bytes, site;
  };
  std::vector<Range> unreleased;
  bool needsAcquire = false;
  // Direct loads: LDS reads since the last wait, and those that crossed a barrier without one
  std::vector<Range> reads, lateReads;
  bool lateReadsWaited = false;
  // Hopper
  uint32_t waitBarrier = 0; // Wait::Mbarrier: which one
  uint32_t bulkGroups = 0;  // committed
  std::vector<BulkStore> stores;
  WgmmaLane wgmma;

  uint64_t bit() const { return uint64_t(1) << lane; }
};

/// Lanes that have arrived at a collective operation. `slots` point to argument records on the lanes' stacks.
struct Gather {
  uint32_t site = 0; // 0: free
  uint64_t mask = 0, arrived = 0;
  void *slots[kMaxLanes];
};

/// AMD: a wave's load into LDS between its issue and the wait that covers it. `done`: the bytes have arrived, which the program may not
/// know yet.
struct DirectLoad {
  uint32_t offset = 0, bytes = 0, site = 0; // bytes a lane
  uint64_t serial = 0;
  const uint8_t *sources[kMaxLanes]; // null: zeros
  bool done = false;
};

struct Warp {
  Cta *cta = nullptr;
  uint32_t index = 0;
  Thread *lanes = nullptr;
  uint64_t all = 0;     // lanes that exist
  uint64_t live = 0;    // and have not exited
  uint64_t ready = 0;   // can run now
  uint64_t yielded = 0; // can run after the others had a turn
  bool queued = false;
  Gather gathers[2];                 // two: disjoint halves of a warp may meet at different places
  std::vector<DirectLoad> direct;    // in flight, in the order of issue
  std::vector<Thread::Range> landed; // waited for since the last barrier
};

struct NamedBarrier {
  uint32_t count = 0, arrived = 0;
  uint32_t site = 0;  // of the first that arrived
  uint32_t uses = 0;  // complete ones
  uint32_t votes = 0; // of bar.red
  bool reduces = false;
  std::vector<uint64_t> lanes;  // that wait, by warp
  std::vector<uint64_t> passed; // that arrived without waiting (bar.arrive)
};

/// The state of each byte of shared memory.
enum Shadow : uint8_t {
  kUnwritten = 0,
  kWritten = 1,
  kInFlight = 2,    // destination of a cp.async
  kTmaInFlight = 3, // destination of a TMA load
  kMbarrier = 4,
  kUnreleased = 8 /* + warp: AMD, no release fence yet */
};

struct Cta {
  uint32_t id[3] = {0, 0, 0};
  uint32_t number = 0;       // in the grid
  uint8_t *shared = nullptr; // the window
  std::vector<uint8_t> shadow;
  std::vector<uint8_t> writer;  // AMD: warp + 1 of the last write
  std::vector<uint8_t> reading; // direct loads: warp + 1 of the last read that nobody has waited for
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  uint32_t live = 0;
  NamedBarrier barriers[kNamedBarriers];
  std::unique_ptr<Units> units; // Hopper, and where races are checked
  std::unique_ptr<Races> races; // if they are checked
  std::unique_ptr<Trace> trace; // if it is recorded
};

/// How the instrumentation describes an access to the run time, in one constant.
struct AccessFlags {
  uint32_t bits;
  static constexpr uint32_t kRead = 1 << 16, kWrite = 1 << 17, kShared = 1 << 18, kYield = 1 << 19;
  // Atomics, and what they order. ctaScope: only with threads of the same CTA.
  static constexpr uint32_t kAtomic = 1 << 20, kAcquire = 1 << 21, kRelease = 1 << 22, kCtaScope = 1 << 23;
  static constexpr uint32_t kCollective = 1 << 24; // made for all lanes of a warp together
  static uint32_t pack(uint32_t bytes, uint32_t log2Align, uint32_t flags) {
    return (bytes & 0xfff) | log2Align << 12 | flags;
  }
  uint32_t bytes() const { return bits & 0xfff; }
  uint32_t align() const { return 1u << (bits >> 12 & 15); }
  bool read() const { return bits & kRead; }
  bool write() const { return bits & kWrite; }
  bool shared() const { return bits & kShared; }
  bool yield() const { return bits & kYield; }
  bool atomic() const { return bits & kAtomic; }
  bool acquire() const { return bits & kAcquire; }
  bool release() const { return bits & kRelease; }
  bool ctaScope() const { return bits & kCtaScope; }
  bool collective() const { return bits & kCollective; }
};

class Engine {
public:
  Engine(const ProgramImage &program, const LaunchConfig &config, llvm::ArrayRef<uint8_t> params, Memory &memory,
         LaunchResult &result);
  ~Engine();
  void run();

  const ProgramImage &program;
  const LaunchConfig &config;
  LaunchResult &result;
  Statistics &stats;
  const bool amd;
  const bool hopper;      // TMA, wgmma
  const bool directLoads; // loads straight into LDS
  const bool checkRaces;
  const bool clocks; // who knows what of whom is followed
  const bool traceAccesses;
  const unsigned warpSize;
  bool rehearsal = false;                     // exhaustive: only the digests are wanted
  std::vector<std::vector<uint64_t>> digests; // exhaustive: of what each warp of each program did
  struct {
    uint64_t programs = 0, synchronizations = 0, operations = 0, accesses = 0;
  } covered;                 // exhaustive
  Thread *current = nullptr; // null: the scheduler's own stack
  std::mt19937_64 rng;

  Cta &cta() { return *current->warp->cta; }

  // --- scheduler.cpp
  /// Lets the others run; returns when this fiber is scheduled again.
  void yield();
  /// Waits until another fiber wakes this one.
  void block(Wait wait, uint32_t site);
  void wake(Warp &warp, uint64_t lanes);
  /// Ends the launch. Called on a fiber it does not return.
  void stop();
  void backEdge(uint32_t site);
  void onFault(int signal, uintptr_t address);

  // --- findings.cpp
  void report(FindingKind kind, uint32_t site, std::string message) { report(kind, site, std::move(message), current); }
  void report(FindingKind kind, uint32_t site, std::string message, const Thread *thread);

  // --- names.cpp
  std::string siteText(uint32_t site) const; // "load (file:3:5)"
  std::string taskText(unsigned warp, uint32_t site) const;
  std::string warpText(unsigned warp, uint32_t site) const;
  std::string bufferText(int64_t offset) const;
  std::string placeText(uint64_t bytes, int64_t offset) const;
  std::string offsetText(int64_t offset) const;
  std::string mbarrierName(uint32_t offset) const;

  // --- deadlock.cpp
  void reportDeadlock();
  std::string waitText(const Thread &thread) const;
  std::string lastArrivals(const Mbarrier &barrier) const;

  // --- access.cpp, the one way to memory: checks an access and returns the address to use (another one if it must not
  // happen)
  uint8_t *access(uint8_t *address, AccessFlags flags, uint32_t site);
  /// Where every synchronization passes, before it is made; the members as in TraceEvent. Returns the event of the trace.
  uint32_t onSync(SyncKind kind, uint32_t id, uint32_t site, uint32_t count = 0, int64_t phase = 0) {
    return cta().trace ? record(kind, id, site, count, phase) : 0;
  }
  /// A synchronization that could block has not, or no longer.
  void afterSync(uint32_t event) {
    if (Trace *trace = cta().trace.get()) trace->end(event);
  }
  void asyncIssue(uint8_t *destination, const uint8_t *source, uint32_t bytes, uint32_t sourceBytes, uint32_t site);
  void asyncCommit(uint32_t site);
  void asyncWait(uint32_t keep, uint32_t site);
  void asyncDrain(Thread &thread); // at a thread's end
  void asyncRandom();              // Random: maybe something arrives now
  void releaseFence(uint32_t site);
  void acquireFence(uint32_t site);

  // --- direct_loads_amd.cpp
  const uint8_t *checkSource(const uint8_t *source, uint32_t bytes, uint32_t site);
  void directIssue(uint8_t *start, const uint8_t *const *sources, uint32_t bytes, uint32_t site);
  /// At most `vm` direct loads of this wave stay in flight; with `lgkm` 0 no access of LDS does.
  void waitCounters(uint32_t vm, uint32_t lgkm, uint32_t site);

  // --- clocks.cpp: who knows what of whom
  /// Whether `mark` is ordered before what `lane` of `warp` does now; lanes as marks have them.
  bool knows(const Cta &cta, unsigned warp, unsigned lane, const Mark &mark) const;
  uint32_t phasesKnown(const Cta &cta, unsigned warp, unsigned lane, size_t barrier) const;
  Mark markNow(Mark::Kind kind, uint32_t site) const; // of this lane
  /// All lanes of a warp have met at what orders their memory.
  void lanesMeet(Warp &warp);
  void lanesPass(Warp &warp);

  // --- races.cpp, where the launch checks them
  bool raceCheck(Races &races, uint64_t begin, uint64_t end, const Mark &mark, const Cta &cta, unsigned warp,
                 const char *what);
  void raceRecord(Races &races, uint64_t begin, uint64_t end, const Mark &mark, const Cta &cta, unsigned warp);
  void reportRace(bool global, uint64_t begin, uint32_t bytes, const Mark &mark, const Mark &other, const Cta &cta,
                  unsigned warp, const char *what);
  std::string laneText(const Mark &mark, unsigned warp) const;
  std::string missingEdge(const Mark &mark, const Cta &cta, unsigned warp, const Mark &access) const;
  std::string ctaText(uint32_t number) const;
  void raceShared(Cta &cta, uint32_t offset, AccessFlags flags, uint32_t site);
  void raceOperand(Cta &cta, const std::vector<uint16_t> &cells, unsigned firstWarp, const char *what, uint32_t site);
  void raceReadsEnd(Cta &cta, uint32_t offset, uint32_t bytes, bool wholeWarp, uint32_t site);
  void raceBarrier(const Mbarrier &barrier, const char *what, uint32_t site);
  // --- races_global.cpp
  std::string globalText(uintptr_t address) const;
  void publish(uintptr_t address);
  void acquirePublished(uintptr_t address);
  void raceGlobal(uintptr_t address, AccessFlags flags, uint32_t site);
  void raceRow(uintptr_t address, uint32_t bytes, const Mark &mark, const char *what);
  void raceStoreEnds(uintptr_t address, uint32_t bytes, const Mark &inFlight);

  // --- barriers.cpp
  void barrier(uint32_t id, uint32_t count, uint32_t site, std::optional<bool> vote = std::nullopt);
  void barrierArrive(uint32_t id, uint32_t count, uint32_t site);
  void barrierExit(Thread &thread);
  /// A lane arrives at a collective. True in the last lane: it computes for all and calls `depart`; for the others
  /// everything is done when this returns false.
  bool arrive(uint32_t site, uint64_t mask, void *slot, Gather *&gather);
  void depart(Gather &gather);

  // --- mbarrier.cpp
  void mbarrierInit(uint8_t *address, uint32_t count, uint32_t site);
  void mbarrierInvalidate(uint8_t *address, uint32_t site);
  void mbarrierArrive(uint8_t *address, uint32_t count, uint32_t expectedBytes, uint32_t site);
  void mbarrierExpect(uint8_t *address, uint32_t bytes, uint32_t site);
  bool mbarrierWait(uint8_t *address, uint32_t parity, bool mayBlock, uint32_t site);
  void proxyFence(Space space, uint32_t site);
  void initFence();
  /// The stamp of a generic write to these bytes that no proxy fence stands behind, for a unit that this lane starts (lanes as marks have
  /// them); 0 if there is none.
  uint32_t unfencedWrite(const Cta &cta, unsigned warp, unsigned lane, uint32_t offset, uint32_t bytes) const;
  bool fencedGlobal(const Mark &write) const;

  // --- tma.cpp
  void tmaLoad(uint8_t *destination, uint8_t *barrier, const uint8_t *map, const int32_t *at, unsigned rank,
               uint32_t site);
  void tmaStore(BulkKind kind, uint8_t *source, const uint8_t *map, const int32_t *at, unsigned rank, uint32_t site);
  void bulkLoad(uint8_t *destination, uint8_t *barrier, uint8_t *source, uint32_t bytes, uint32_t site);
  void bulkStore(uint8_t *destination, uint8_t *source, uint32_t bytes, uint32_t site);
  void tmaPrefetch(const uint8_t *map, const int32_t *at, unsigned rank, uint32_t site);
  void bulkCommit(uint32_t site);
  void bulkWait(uint32_t keep, bool readOnly, uint32_t site);

  // --- wgmma.cpp
  /// `registers` of A, or null: descriptor `a`.
  void wgmma(const WgmmaKind &kind, uint32_t *acc, const uint32_t *registers, uint64_t a, uint64_t b, uint32_t useAcc,
             uint32_t n, uint32_t transposed, uint32_t site);
  void wgmmaFence(uint32_t site);
  void wgmmaCommit(uint32_t site);
  void wgmmaWait(uint32_t keep, uint32_t site);
  void wgmmaRetire(uint32_t *acc, uint32_t registers, uint32_t site);
  /// An access to memory that serves as accumulator somewhere.
  void wgmmaTouch(const uint8_t *address, uint32_t bytes, bool write, uint32_t site);

  /// device_assert: a finding with this text (a format without arguments), and the end of the launch.
  void failAssertion(const char *text, uint32_t site);
  void print(const char *format, const uint8_t *arguments, uint32_t bytes);

private:
  struct Argument {
    std::string name;
    uintptr_t address;
  };
  Thread *next();
  Warp *pop();
  void push(Warp &warp);
  void switchTo(Thread *thread);
  static void fiberMain(boost::context::detail::transfer_t transfer);
  void exitThread();
  void startCta(Cta &cta, uint64_t linear);
  unsigned residencyLimit(bool hard) const;
  std::unique_ptr<Cta> makeCta();

  const Memory::Extent *extentOf(uintptr_t address, uint64_t bytes) const; // null: not inside one
  uint8_t *sharedAccess(uint8_t *address, AccessFlags flags, uint32_t site);
  uint8_t *globalAccess(uint8_t *address, AccessFlags flags, uint32_t site);
  void checkSharedSlow(Cta &cta, uint32_t offset, AccessFlags flags, uint32_t site);
  std::string describeGlobal(uintptr_t address, uint32_t bytes) const;
  std::string describeExtent(size_t index) const;
  uint8_t *substitute(AccessFlags flags);
  void complete(AsyncCopy &copy);
  void copyEnds(const AsyncCopy &copy, uint32_t offset);
  // trace
  uint32_t record(SyncKind kind, uint32_t id, uint32_t site, uint32_t count, int64_t phase);
  void recordLoad(TmaLoad &load);
  void recordStore(BulkStore &store);
  void recordProduct(WgmmaOp &op, unsigned groupIndex, uint64_t number);
  void recordOperands(const WgmmaOp &op, Cta &cta, unsigned groupIndex);
  void endTrace(Cta &cta, bool complete);
  NamedBarrier &joinBarrier(uint32_t id, uint32_t count, bool goesOn, uint32_t site,
                            std::optional<bool> vote = std::nullopt);
  void release(NamedBarrier &barrier, Cta &cta, uint32_t id);
  void refuseBarrier(uint32_t id, uint32_t count, uint32_t site);
  void refuseReduction(uint32_t id, uint32_t site);
  void refuseCount(uint32_t id, uint32_t count, uint32_t site);
  void arrivedTwice(uint32_t id, uint32_t site);
  void refuseSite(uint64_t waiting, uint32_t waitSite, uint32_t site);
  void refuseMask(uint64_t mask, uint32_t site);
  void missingRelease(uint32_t site);
  void usedAgain(const NamedBarrier &barrier, uint32_t id, uint32_t site);
  void partialBarrier(const NamedBarrier &barrier, uint32_t id, const Warp &warp, uint64_t lanes);
  void endlessLoop(uint32_t site);
  uint8_t *sharedRefused(int64_t offset, AccessFlags flags, uint32_t site);
  uint8_t *globalRefused(uintptr_t address, const Memory::Extent *extent, AccessFlags flags, uint32_t site);
  void unwrittenGlobal(uintptr_t address, const Memory::Extent &extent, uint32_t bytes, uint32_t site);
  void printText(std::string text);
  void reportAssertion(const char *text, uint32_t site);

  // Direct loads
  void directOverrun(uint32_t offset, uint8_t reader, uint32_t site);
  void directTwice(uint32_t offset, bool flying, uint32_t site);
  void completeDirect(DirectLoad &load, Cta &cta);
  void directRandom();
  void readBegins(uint32_t offset, uint32_t bytes, uint32_t site);
  void readsEnd(Thread &thread);
  void readsCross(Thread &thread);
  void forgetReads(Cta &cta, Thread &thread, std::vector<Thread::Range> &reads);
  void publishDirect(Cta &cta);
  void startDirect(Cta &cta);
  void directExit(Thread &thread);
  void endDirect(Cta &cta);
  // Hopper: what all units share
  void startUnits(Cta &cta);
  Reach ownReach() const;
  void endThreadUnits(Thread &thread);
  void endUnits(Cta &cta); // on the scheduler's stack
  bool completeLoad();     // an arrival that the schedule picks; false if no load is open
  void markWrite(Cta &cta, uint32_t offset, uint32_t bytes, uint32_t site);
  // clocks
  void releaseClock(Clock &to);
  void releaseWarp(Clock &to);
  void advanceClock();
  void learnPhases(const Mbarrier &barrier, size_t index);
  Clock &learnedByAtomics();
  void overwritten(Cta &cta, uint32_t offset, uint32_t bytes, const char *what, uint32_t site);
  void logArrival(Mbarrier &barrier, const Arrival &arrival);
  void missingProxyFence(uint32_t stamp, const char *what, uint32_t offset, uint32_t site);
  void touchesUnit(uint8_t state, FindingKind kind, const char *what, uint32_t bytes, uint32_t offset, uint32_t site);
  // mbarriers
  void noBarrier(int64_t offset, const char *what, uint32_t site);
  Mbarrier *barrierOf(uint8_t *address, const char *what, uint32_t site);
  void arriveAt(Mbarrier &barrier, uint32_t count, uint32_t site);
  void expectBytes(Mbarrier &barrier, int64_t bytes, uint32_t site, const Thread *thread);
  void finishPhase(Mbarrier &barrier, Cta &cta);
  void publishLoads(Mbarrier &barrier, Cta &cta);
  void wrongBytes(const Mbarrier &barrier, const Cta &cta, const Thread *thread);
  std::string mbarrierText(const Mbarrier &barrier) const;
  std::string wgmmaWaitText(const Thread &thread) const;
  // TMA
  const TensorMap *checkMap(const uint8_t *map, unsigned rank, uint32_t site);
  bool checkBox(const TensorMap &map, const int32_t *at, const uint8_t *address, const char *what, uint32_t site,
                uint32_t &offset, uint32_t &bytes);
  bool checkShared(Cta &cta, uint32_t offset, uint32_t bytes, bool write, const char *what, uint32_t site);
  bool checkBulk(const uint8_t *global, const uint8_t *shared, uint32_t bytes, uint32_t site);
  void issueLoad(const TensorMap &map, const int32_t *at, uint32_t offset, uint32_t bytes, uint8_t *barrier,
                 const char *what, uint32_t site);
  void issueStore(const TensorMap &map, const int32_t *at, uint32_t offset, uint32_t bytes, BulkKind kind,
                  const char *what, uint32_t site);
  void arrive(TmaLoad &load);
  void storeEnds(const BulkStore &store);
  void readSource(BulkStore &store, Cta &cta);
  void writeResult(BulkStore &store);
  void releaseSource(BulkStore &store, Cta &cta);
  // wgmma
  void refuseWgmma(const WgmmaKind &kind, bool registers, uint32_t n, uint32_t transposed, uint32_t site);
  void refuseOperand(FindingKind kind, const char *name, uint32_t offset, uint32_t site);
  void meetElsewhere(uint32_t first, uint32_t site);
  void accumulatorChanged(uint32_t site);
  WgmmaOp &wgmmaOperation(Warpgroup &group, uint64_t number);
  void bindAccumulator(Warpgroup &group, WgmmaOp &op, uint64_t number, uint32_t *registers);
  void issueWgmma(Warpgroup &group, Cta &cta, unsigned groupIndex);
  void openOperand(WgmmaOp &op, Cta &cta, const char *name, uint64_t descriptor, unsigned rows, bool across,
                   std::vector<uint16_t> &cells);
  void checkFences(const WgmmaOp &op, Cta &cta, unsigned groupIndex);
  void finishProducts(uint64_t end, uint32_t site);
  void executeWgmma(Warpgroup &group, Cta &cta);
  void releaseWgmmas(Warpgroup &group, Cta &cta, uint64_t end);

  std::unique_ptr<uint8_t[]> paramMemory;
  llvm::ArrayRef<uint8_t> params;      // a copy in paramMemory, aligned for tensor maps
  std::vector<Memory::Extent> extents; // snapshot, ascending
  std::vector<uint32_t> siteExtent;    // by site: the extent of the last access there
  std::vector<Argument> arguments;
  Races globalRaces;
  std::map<uintptr_t, std::shared_ptr<const Others>> published; // with the value of an atomic, by address

  std::deque<Warp *> queue;
  Warp *running = nullptr;
  boost::context::detail::fcontext_t mainContext = nullptr;
  void *mainFakeStack = nullptr;
  std::vector<std::unique_ptr<Cta>> resident, spare;
  uint64_t nextCta = 0, totalCtas = 0;
  bool stopping = false, ctaFinished = false, wantMoreCtas = false;
  uint64_t yieldsSinceProgress = 0;
  uint64_t stepsLeft = 0;
  uint64_t asyncSerial = 0;
  std::vector<std::pair<Thread *, uint64_t>> asyncOpen;  // Random only
  std::vector<TmaLoad *> openLoads;                      // not arrived, in the order of issue
  std::vector<std::pair<Thread *, uint64_t>> openStores; // Random only
  std::vector<std::pair<Cta *, unsigned>> openWgmmas;    // Random only: CTA, warpgroup
  std::vector<std::pair<Warp *, uint64_t>> openDirect;   // Random only
  llvm::DenseMap<uint64_t, uint32_t> findingIndex;       // kind and site
  alignas(64) uint8_t scratch[4096];                     // what an access that must not happen touches
};

/// The launch that this host thread runs. initial-exec: every access of the kernel comes through here.
extern thread_local Engine *tlsEngine __attribute__((tls_model("initial-exec")));
inline Engine &engine() {
  return *tlsEngine;
}

// --- resources.cpp: pools shared by all launches of the process
char *acquireStack();
void releaseStacks(llvm::ArrayRef<char *> stacks);
constexpr size_t kStackBytes =
    128 << 10; // deepest seen 8.6 KB; a kernel at O0 keeps a slot for every value; pages are only reserved
// Below each stack. A kernel's frame of any size meets it (program.cpp); the width is for the functions that kernels
// call, whose frames are below 16 KB. No wider, and with the stack an odd number of pages, for the sake of the TLB: with
// 1 MB, barriers of 1024 threads took a quarter longer.
constexpr size_t kGuardBytes = 36 << 10;
uint8_t *acquireWindow(); // null: the low 4 GB are full
void releaseWindow(uint8_t *window);
constexpr size_t kWindowBytes = 256 << 10;
/// Signal handlers stand only while a launch runs.
class FaultGuard {
public:
  FaultGuard();
  ~FaultGuard();

private:
  void *alternateStack, *previousStack;
};

/// A symbol that compiled kernels may refer to: device operations, instrumentation, libm.
struct Symbol {
  const char *name;
  void *address;
};
template <typename Function> Symbol symbol(const char *name, Function *function) {
  return {name, reinterpret_cast<void *>(function)};
}
std::vector<Symbol> runtimeSymbols();
llvm::ArrayRef<Symbol> commonOperations(), nvidiaOperations(), mbarrierOperations(), tmaOperations(), wgmmaOperations(),
    amdOperations(), directLoadOperations(), hostLibrary();

} // namespace tlx::sim
