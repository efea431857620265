// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>
#include <bit>

#include "llvm/ADT/StringExtras.h"

#include "sim/engine.h"
#include "sim/text.h"

namespace tlx::sim {

const char *findingKindName(FindingKind kind) {
  switch (kind) {
  case FindingKind::OutOfBounds:
    return "out-of-bounds";
  case FindingKind::Misaligned:
    return "misaligned";
  case FindingKind::UninitializedRead:
    return "uninitialized-read";
  case FindingKind::InFlight:
    return "in-flight";
  case FindingKind::SlotOverrun:
    return "slot-overrun";
  case FindingKind::AccumulatorInFlight:
    return "accumulator-in-flight";
  case FindingKind::MbarrierMisuse:
    return "mbarrier-misuse";
  case FindingKind::WrongBytes:
    return "wrong-bytes";
  case FindingKind::MissingFence:
    return "missing-fence";
  case FindingKind::AddressWrap:
    return "address-wrap";
  case FindingKind::DivisionByZero:
    return "division-by-zero";
  case FindingKind::MismatchedCollective:
    return "mismatched-collective";
  case FindingKind::PartialWarpBarrier:
    return "partial-warp-barrier";
  case FindingKind::BarrierMismatch:
    return "barrier-mismatch";
  case FindingKind::Deadlock:
    return "deadlock";
  case FindingKind::EndlessLoop:
    return "endless-loop";
  case FindingKind::Fault:
    return "fault";
  case FindingKind::Trap:
    return "trap";
  case FindingKind::AssertionFailed:
    return "assertion-failed";
  case FindingKind::Race:
    return "race";
  case FindingKind::NotCovered:
    return "not-covered";
  case FindingKind::InvalidOperation:
    return "invalid-operation";
  }
  return "?";
}

std::string Finding::text() const {
  std::string r;
  if (!file.empty() || line) r = file + ":" + std::to_string(line) + ":" + std::to_string(col) + ": ";
  r += message + " (thread " + std::to_string(thread) + (task.empty() ? " of cta (" : " of " + task + ", cta (") +
       std::to_string(cta[0]) + ", " + std::to_string(cta[1]) + ", " + std::to_string(cta[2]) + ")";
  if (count > 1) r += ", " + std::to_string(count) + " times";
  return r + ")";
}

std::string lanesText(uint64_t lanes) {
  if (!lanes) return "no lane";
  std::string r = std::popcount(lanes) == 1 ? "lane " : "lanes ";
  bool first = true;
  for (unsigned i = 0; i < kMaxLanes;) {
    if (!(lanes >> i & 1)) {
      ++i;
      continue;
    }
    unsigned end = i;
    while (end < kMaxLanes && (lanes >> end & 1)) ++end;
    if (!first) r += ", ";
    first = false;
    r += std::to_string(i);
    if (end - i > 1) r += "-" + std::to_string(end - 1);
    i = end;
  }
  return r;
}

std::string countText(uint64_t n, const char *what) {
  return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
}

void Engine::report(FindingKind kind, uint32_t site, std::string message, const Thread *thread) {
  auto [it, isNew] = findingIndex.try_emplace(uint64_t(kind) << 32 | site, uint32_t(result.findings.size()));
  if (!isNew) {
    ++result.findings[it->second].count;
    return;
  }
  Finding f;
  f.kind = kind;
  f.message = std::move(message);
  const Site &s = program.sites[site];
  f.file = s.file;
  f.line = s.line;
  f.col = s.col;
  if (thread) {
    f.thread = thread->index;
    f.warp = thread->warp->index;
    f.task = taskText(f.warp, site);
    std::copy(std::begin(thread->warp->cta->id), std::end(thread->warp->cta->id), f.cta);
  }
  result.findings.push_back(std::move(f));
  // The fiber goes on to its next switch; the scheduler then ends the launch.
  if (result.findings.size() >= config.maxFindings) stopping = true;
}

} // namespace tlx::sim
