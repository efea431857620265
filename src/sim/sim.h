// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The simulator: runs code generation's LLVM module on the host, one fiber a GPU thread, and reports what is wrong with
// it. It is functional, not timed. See docs/architecture.md.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "llvm/ADT/ArrayRef.h"

#include "features/features.h"
#include "sim/memory.h"
#include "support/metadata.h"

namespace tlx::sim {

struct ProgramImage; // engine.h

/// In which order warps run and when asynchronous operations complete. Every schedule is legal on the hardware.
enum class Schedule : uint8_t {
  InOrder, // warps in order, each as far as it can; asynchronous operations complete in order at the wait that covers
           // them
  Random,  // both drawn from the seed
  Late,    // the last warp first; operations complete at the wait that covers them
  Early    // warps take turns often; operations complete when issued
};

enum class FindingKind : uint8_t {
  OutOfBounds,
  Misaligned,
  UninitializedRead,
  InFlight,            // an asynchronous copy's destination is touched before the wait that covers it
  SlotOverrun,         // bytes are overwritten that an asynchronous operation still reads or writes
  AccumulatorInFlight, // wgmma: its accumulator is touched before the wait and retire that cover it, or never waited for
  MissingFence, // AMD: LDS data crosses waves without the fences around the barrier; NVIDIA: without a proxy fence, wgmma.fence
  MbarrierMisuse, // not initialized, initialized twice, too many arrivals
  WrongBytes,     // TMA bytes and what an mbarrier was told to expect do not match
  AddressWrap,    // 32-bit index arithmetic wrapped and reached a global address
  DivisionByZero,
  MismatchedCollective, // lanes of a warp do not meet at one collective operation
  PartialWarpBarrier,   // part of a warp at a barrier
  BarrierMismatch,      // one barrier with two thread counts, or a count that no number of warps makes
  Deadlock,
  EndlessLoop,     // the budget of back-edges is used up
  Fault,           // a signal inside kernel code: wild pointer, stack overflow
  Trap,            // tlx.trap
  AssertionFailed, // device_assert
  Race,            // two accesses of the same bytes, one a write, and nothing orders them
  NotCovered,      // exhaustive: this launch cannot be checked for all interleavings
  InvalidOperation // an operand that the operation does not allow
};
const char *findingKindName(FindingKind kind);

/// Something wrong, once a kind and source position; `count` says how often. The thread is the first that met it.
struct Finding {
  FindingKind kind = FindingKind::Fault;
  std::string message;
  std::string file; // empty: the module has no location there
  uint32_t line = 0, col = 0;
  uint32_t thread = 0, warp = 0; // in the CTA
  std::string task;              // that it ran: "consumer[1]"; empty outside of tasks
  uint32_t cta[3] = {0, 0, 0};
  uint64_t count = 1;
  /// "file:line:col: message (thread 3 of cta (0, 0, 0), 5 times)", or "(thread 131 of consumer[0], cta (0, 0, 0))"
  std::string text() const;
};

struct Statistics {
  uint64_t ctas = 0, switches = 0, sharedAccesses = 0, globalAccesses = 0, collectives = 0, barriers = 0, backEdges = 0;
  unsigned residentCtas = 0; // most at one time
  double milliseconds = 0;
};

struct LaunchConfig {
  uint32_t grid[3] = {1, 1, 1};
  Schedule schedule = Schedule::InOrder;
  uint64_t seed = 0;
  /// Back-edges taken by all threads together before the launch is given up as an endless loop; some seconds of host
  /// time.
  uint64_t maxSteps = uint64_t(1) << 30;
  /// CTAs that live at one time. More are admitted when the live ones wait for them (spin-waits, grid barriers), up to
  /// the hard limits.
  unsigned maxResidentCtas = 2;
  /// Find accesses of shared memory that nothing orders, on targets with mbarriers. Costs some factor of time.
  bool checkRaces = false;
  /// Draw what one program did (LaunchResult::timeline), by its number in the grid.
  bool timeline = false;
  uint32_t timelineProgram = 0;
  /// Check every interleaving of each program, and not this schedule's alone (orders.cpp), and find races. On targets with mbarriers.
  bool exhaustive = false;
  unsigned maxFindings = 64; // distinct ones; then the launch ends
  /// Called with each piece of printed text as well, on the launching thread.
  std::function<void(const std::string &)> onPrint;
};

struct LaunchResult {
  bool completed = false; // every thread of the grid ran to its end
  std::vector<Finding> findings;
  std::string printed;
  std::string timeline; // a page of HTML
  std::string proof;    // exhaustive, without findings: what was covered
  Statistics statistics;
  bool ok() const { return completed && findings.empty(); }
};

/// A compiled module. Immutable; launches of one program may run at the same time on several host threads.
class Program {
public:
  /// Parses bitcode of code generation's module, retargets it to the host, instruments and compiles it. Null with
  /// `error` set if the module is not one (parse error, no or two kernels, an unknown device operation).
  /// `exact`: floats become integers of the same width, see exact.h.
  static std::unique_ptr<Program> load(llvm::ArrayRef<uint8_t> bitcode, const features::Target &target,
                                       const KernelMetadata &metadata, std::string &error, bool exact = false);
  ~Program();

  double compileMilliseconds() const;
  unsigned threads() const; // of a CTA
  unsigned sharedBytes() const;
  uint32_t paramBytes() const; // of the packed parameter buffer, hidden arguments included
  const ProgramImage &image() const { return *impl; }

private:
  Program();
  std::unique_ptr<ProgramImage> impl;
};

/// Runs a grid. `params` is the packed parameter buffer (natural alignment, hidden arguments included). A grid with a 0
/// runs nothing and completes. Same program, configuration and memory contents: same result and findings.
LaunchResult launch(const Program &program, const LaunchConfig &config, llvm::ArrayRef<uint8_t> params, Memory &memory);

/// Whether the simulator has a function for a device operation of the tables (for the completeness test).
bool implementsDeviceOp(llvm::StringRef name);

} // namespace tlx::sim
