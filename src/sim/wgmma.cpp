// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Hopper's wgmma (PTX ISA 9.0, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Operations"). The k-th call of
// every lane of a warpgroup is one operation; lanes run ahead of each other up to a wait. The unit reads shared memory
// at a moment that the schedule picks, between the call and the wait that covers it; what can be checked is checked at
// the first and the last lane's call, so that findings do not depend on that moment. An accumulator leaves the lane's
// memory at its first wgmma, which is poison from then on, and comes back at `retire`.
#include <bit>
#include <cstring>

#include "sim/engine.h"
#include "sim/text.h"
#include "sim/wgmma_math.h"

namespace tlx::sim {

namespace {
constexpr unsigned kRows = 64;
constexpr uint32_t kPoison = 0x7fffdead; // a NaN, and no small integer
constexpr uint32_t kTransposeA = 1, kTransposeB = 2;
constexpr uint16_t kNowhere = 0xffff; // a cell outside the window: more than there are

bool legalN(uint32_t n, bool integers) {
  if (n < 8 || n > 256 || n % 8) return false;
  return !integers || n <= 32 || n % 16 == 0;
}

/// PTX ISA, "Matrix Descriptor Format". Byte offsets.
struct Descriptor {
  uint32_t start, leading, stride, base, mode;
  explicit Descriptor(uint64_t d)
      : start(uint32_t(d & 0x3fff) << 4), leading(uint32_t(d >> 16 & 0x3fff) << 4),
        stride(uint32_t(d >> 32 & 0x3fff) << 4), base(uint32_t(d >> 49 & 7)), mode(uint32_t(d >> 62)) {}
  static constexpr uint64_t kReserved = 3ull << 14 | 3ull << 30 | 7ull << 46 | 0x3ffull << 52;
  uint32_t swizzle() const { return mode == 1 ? 128 : mode == 2 ? 64 : mode == 3 ? 32 : 0; }
};

/// Offsets of the 16-byte units of an operand in the order of its rows: K-major, two along k for each of `rows` rows;
/// across k, rows / 8 for each of 16 rows of k. PTX ISA, "Strides", and its canonical layouts; T is 16 bytes of
/// elements, w = swizzle / 16:
///   K-major, none      ((8,m),(T,2))   : ((1T,SBO),(1,LBO))
///   K-major, swizzled  ((8,m),(T,2))   : ((wT,SBO),(1,T))
///   across, none       ((T,1,m),(8,k)) : ((1,T,SBO),(1T,LBO))
///   across, swizzled   ((T,w,m),(8,k)) : ((1,T,LBO),(wT,SBO))
/// The pattern permutes by bits of the address, not of the row number.
template <typename F> void forEachCell(const Descriptor &d, unsigned rows, bool across, F f) {
  const uint32_t swizzle = d.swizzle(), pitch = swizzle ? swizzle : 16, width = pitch / 16, mask = width - 1;
  auto at = [&](uint32_t linear) { f(swizzle ? linear ^ ((((linear >> 7) - d.base) & mask) << 4) : linear); };
  if (!across) {
    const uint32_t next = swizzle ? 16 : d.leading;
    for (unsigned r = 0; r < rows; ++r)
      for (unsigned u = 0; u < 2; ++u) at(d.start + r % 8 * pitch + r / 8 * d.stride + u * next);
    return;
  }
  for (unsigned k = 0; k < 16; ++k)
    for (unsigned j = 0; j < rows / 8; ++j)
      at(d.start + k % 8 * pitch + k / 8 * (swizzle ? d.stride : d.leading) + j % width * 16 +
         j / width * (swizzle ? d.leading : d.stride));
}

/// Copies a lane's registers out of or into rows of 64 x n: pairs of columns, then 8 rows below, then the next 8
/// columns.
template <bool ToLane> void moveFragment(unsigned lane, unsigned n, uint32_t *registers, uint32_t *values) {
  const unsigned row = lane / 32 * 16 + lane % 32 / 4, column = lane % 4 * 2;
  for (unsigned j = 0; j < n / 8; ++j)
    for (unsigned h = 0; h < 2; ++h) {
      uint32_t *mine = registers + 4 * j + 2 * h, *its = values + (row + 8 * h) * n + 8 * j + column;
      std::memcpy(ToLane ? mine : its, ToLane ? its : mine, 8);
    }
}

unsigned laneOf(const Thread &t) {
  return t.index % kGroupLanes;
}
} // namespace

// --- what a lane does

WgmmaOp &Engine::wgmmaOperation(Warpgroup &g, uint64_t number) {
  while (g.first + g.ops.size() <= number) {
    if (g.spareOps.empty()) g.spareOps.push_back(std::make_unique<WgmmaOp>());
    g.ops.push_back(std::move(g.spareOps.back()));
    g.spareOps.pop_back();
    WgmmaOp &op = *g.ops.back();
    op.lanes = 0;
    op.acc = nullptr;
  }
  return *g.ops[number - g.first];
}

TLX_COLD static std::string differences(const WgmmaOp &op, uint64_t a, uint64_t b, uint32_t useAcc, uint32_t n,
                                        uint32_t transposed) {
  std::string text;
  auto add = [&](bool differs, const char *what) {
    if (differs) text += (text.empty() ? "" : ", ") + std::string(what);
  };
  add(op.a != a, "the descriptor of A");
  add(op.b != b, "the descriptor of B");
  add(op.useAcc != (useAcc != 0), "whether the accumulator is used");
  add(op.n != n, "n");
  add(op.transposed != transposed, "the transposes");
  return text;
}

TLX_COLD void Engine::refuseWgmma(const WgmmaKind &kind, bool registers, uint32_t n, uint32_t transposed,
                                  uint32_t site) {
  const unsigned warps = unsigned(cta().warps.size()), index = current->warp->index;
  if (!program.target->wgmma)
    report(FindingKind::InvalidOperation, site, "this target has no wgmma");
  else if (index / kGroupWarps * kGroupWarps + kGroupWarps > warps)
    report(FindingKind::InvalidOperation, site,
           "wgmma needs a warpgroup of 4 warps, and warp " + std::to_string(index) + " of " + std::to_string(warps) +
               " is not in one");
  else if (!legalN(n, kind.integers))
    report(FindingKind::InvalidOperation, site, "wgmma has no n = " + std::to_string(n) + " for these types");
  else if (transposed > 3 || (transposed && kind.elementBytes != 2) || (registers && (transposed & kTransposeA)))
    report(FindingKind::InvalidOperation, site, "wgmma transposes operands of 16-bit types in shared memory only");
}

void Engine::wgmma(const WgmmaKind &kind, uint32_t *acc, const uint32_t *registers, uint64_t a, uint64_t b,
                   uint32_t useAcc, uint32_t n, uint32_t transposed, uint32_t site) {
  Thread &t = *current;
  Cta &c = cta();
  const unsigned index = t.warp->index / kGroupWarps;
  if (!program.target->wgmma || (index + 1) * kGroupWarps > c.warps.size() || !legalN(n, kind.integers) ||
      transposed > 3 || (transposed && kind.elementBytes != 2) || (registers && (transposed & kTransposeA))) {
    refuseWgmma(kind, registers != nullptr, n, transposed, site);
    stop();
  }
  Warpgroup &g = c.units->groups[index];
  const uint64_t number = t.wgmma.calls++;
  t.wgmma.lastSite = site;
  WgmmaOp &op = wgmmaOperation(g, number);
  if (op.lanes == 0) {
    op.kind = &kind;
    op.a = a, op.b = b, op.site = site, op.n = n, op.transposed = transposed, op.useAcc = useAcc != 0;
    op.aInRegisters = registers != nullptr;
    op.registers.resize(registers ? 4 * kGroupLanes : 0);
    // The unit could read from now on: a lane that runs ahead may not write what the others have still to ask for.
    op.cellsA.clear();
    if (!registers) openOperand(op, c, "A", a, kRows, transposed & kTransposeA, op.cellsA);
    openOperand(op, c, "B", b, n, transposed & kTransposeB, op.cellsB);
  } else if (op.site != site) {
    meetElsewhere(op.site, site);
    stop();
  } else if (op.a != a || op.b != b || op.useAcc != (useAcc != 0) || op.n != n || op.transposed != transposed) {
    report(FindingKind::InvalidOperation, site,
           "the lanes of a warpgroup differ in " + differences(op, a, b, useAcc, n, transposed));
  }
  if (c.trace) recordProduct(op, index, number);
  if (registers) std::memcpy(&op.registers[4 * laneOf(t)], registers, 16);
  if (checkRaces && registers && !t.wgmma.groupEnds.empty() && t.wgmma.fences == t.wgmma.committedFences)
    report(FindingKind::MissingFence, site,
           "missing fence: wgmma with A in registers that the program could write since the last commit needs "
           "tlx.nv.wgmma.fence before it");
  bindAccumulator(g, op, number, acc);
  if (++op.lanes == kGroupLanes) issueWgmma(g, c, index);
}

TLX_COLD void Engine::meetElsewhere(uint32_t first, uint32_t site) {
  report(FindingKind::MismatchedCollective, site,
         "the lanes of a warpgroup do not meet: other lanes are at " + siteText(first) + ", lane " +
             std::to_string(current->lane) + " of warp " + std::to_string(current->warp->index) + " is at " +
             siteText(site));
}

/// The lane's part of the accumulator goes to the unit, unless it is there.
void Engine::bindAccumulator(Warpgroup &g, WgmmaOp &op, uint64_t number, uint32_t *registers) {
  Thread &t = *current;
  WgmmaLane &lane = t.wgmma;
  WgmmaLane::Bound *bound = nullptr;
  for (WgmmaLane::Bound &b : lane.bound)
    if (b.registers == registers) bound = &b;
  if (!bound) {
    lane.bound.push_back({registers, nullptr, 0, 0, 0});
    bound = &lane.bound.back();
  }
  bound->lastOp = number;
  if (bound->acc) {
    if (bound->acc->n != op.n || bound->acc->integers != op.kind->integers) {
      report(FindingKind::AccumulatorInFlight, op.site,
             "wgmma of n = " + std::to_string(op.n) +
                 " on an accumulator that is in flight with another shape, n = " + std::to_string(bound->acc->n));
      stop();
    }
    if (!op.acc) op.acc = bound->acc;
    if (op.acc != bound->acc) {
      report(FindingKind::MismatchedCollective, op.site, "the lanes of a warpgroup name different accumulators");
      stop();
    }
    return;
  }
  if (lane.fences <= bound->fences)
    report(FindingKind::MissingFence, op.site,
           "missing fence: the first wgmma on an accumulator that the program could write needs tlx.nv.wgmma.fence "
           "before it");
  if (!op.acc) {
    if (g.spareAccumulators.empty()) g.spareAccumulators.push_back(std::make_unique<Accumulator>());
    g.accumulators.push_back(std::move(g.spareAccumulators.back()));
    g.spareAccumulators.pop_back();
    op.acc = g.accumulators.back().get();
    op.acc->n = op.n;
    op.acc->integers = op.kind->integers;
    op.acc->bound = 0;
    op.acc->firstOp = number;
    op.acc->values.resize(kRows * op.n);
  } else if (op.acc->firstOp != number) {
    report(FindingKind::MismatchedCollective, op.site, "the lanes of a warpgroup name different accumulators");
    stop();
  }
  bound->acc = op.acc;
  bound->count = op.n / 2;
  ++op.acc->bound;
  if (op.useAcc) moveFragment<false>(laneOf(t), op.n, registers, op.acc->values.data());
  std::fill(registers, registers + bound->count, kPoison);
}

void Engine::wgmmaFence(uint32_t site) {
  onSync(SyncKind::Fence, 0, site);
  ++current->wgmma.fences;
}

void Engine::wgmmaCommit(uint32_t site) {
  onSync(SyncKind::WgmmaCommit, 0, site);
  current->wgmma.groupEnds.push_back(current->wgmma.calls);
  current->wgmma.committedFences = current->wgmma.fences;
}

void Engine::wgmmaWait(uint32_t keep, uint32_t site) {
  const Thread &t = *current;
  const size_t groups = t.wgmma.groupEnds.size();
  const uint64_t end = groups <= keep ? 0 : t.wgmma.groupEnds[groups - keep - 1];
  const uint32_t event = onSync(SyncKind::WgmmaWait, keep, site, 0, int64_t(end));
  if (end > t.wgmma.waited) finishProducts(end, site);
  afterSync(event);
  // The lanes of a warp wait for each other (.sync.aligned), which orders nothing of what they did with memory (PTX ISA says nothing of it), but
  // each of them knows that the unit has read its operands.
  Gather *g;
  if (!arrive(site, t.warp->all, nullptr, g)) return;
  lanesPass(*t.warp);
  // What the operations read is free when the first warp has waited. (A warp's wait is for its own quarter of the rows, but who frees a slot
  // arrives for the whole warpgroup, as in CUTLASS.)
  Cta &c = cta();
  Warpgroup &group = c.units->groups[t.warp->index / kGroupWarps];
  if (group.first < end) releaseWgmmas(group, c, end);
  depart(*g);
}

/// Waits until the first `end` products have retired.
void Engine::finishProducts(uint64_t end, uint32_t site) {
  Thread &t = *current;
  Cta &c = cta();
  Warpgroup &g = c.units->groups[t.warp->index / kGroupWarps];
  while (g.issued < end) {
    g.waiting[t.warp->index % kGroupWarps] |= t.bit();
    block(Wait::Wgmma, site);
  }
  while (g.executed < end) executeWgmma(g, c);
  t.wgmma.waited = end;
}

std::string Engine::wgmmaWaitText(const Thread &t) const {
  const Warpgroup &g = t.warp->cta->units->groups[t.warp->index / kGroupWarps];
  const WgmmaOp &op = *g.ops[g.issued - g.first];
  return siteText(op.site) + " was called by " + std::to_string(op.lanes) + " of 128 lanes";
}

TLX_COLD void Engine::accumulatorChanged(uint32_t site) {
  report(FindingKind::AccumulatorInFlight, site, "the accumulator was written while a wgmma had it in flight");
}

void Engine::wgmmaRetire(uint32_t *registers, uint32_t count, uint32_t site) {
  Thread &t = *current;
  WgmmaLane &lane = t.wgmma;
  for (WgmmaLane::Bound &b : lane.bound) {
    if (b.registers != registers || !b.acc) continue;
    if (b.lastOp >= lane.waited) return; // not yet
    if (count != b.count)
      report(FindingKind::InvalidOperation, site,
             "tlx.nv.wgmma.retire of " + std::to_string(count) + " registers, the accumulator has " +
                 std::to_string(b.count));
    bool changed = false;
    for (unsigned i = 0; i < b.count; ++i) changed |= registers[i] != kPoison;
    if (changed) accumulatorChanged(site);
    moveFragment<true>(laneOf(t), b.acc->n, registers, b.acc->values.data());
    b.fences = lane.fences;
    Accumulator *acc = b.acc;
    b.acc = nullptr;
    if (--acc->bound) return;
    Warpgroup &g = cta().units->groups[t.warp->index / kGroupWarps];
    for (auto &owner : g.accumulators)
      if (owner.get() == acc) {
        g.spareAccumulators.push_back(std::move(owner));
        owner = std::move(g.accumulators.back());
        g.accumulators.pop_back();
        return;
      }
  }
}

void Engine::wgmmaTouch(const uint8_t *address, uint32_t bytes, bool write, uint32_t site) {
  for (const WgmmaLane::Bound &b : current->wgmma.bound) {
    const auto *begin = reinterpret_cast<const uint8_t *>(b.registers);
    if (b.acc && address < begin + 4 * b.count && address + bytes > begin)
      report(FindingKind::AccumulatorInFlight, site,
             std::string(write ? "write" : "read") +
                 " of an accumulator in flight: no tlx.nv.wgmma.wait and tlx.nv.wgmma.retire since its last wgmma");
  }
}

// --- what the unit does

TLX_COLD void Engine::refuseOperand(FindingKind kind, const char *name, uint32_t offset, uint32_t site) {
  const std::string where = std::string("wgmma reads ") + name + " at shared offset " + std::to_string(offset);
  switch (kind) {
  case FindingKind::OutOfBounds:
    return report(kind, site, "out of bounds: " + where + " of " + countText(program.sharedBytes, "byte"));
  case FindingKind::InFlight:
    return report(kind, site, where + ", the destination of a copy in flight: no wait has seen it complete");
  case FindingKind::MbarrierMisuse:
    return report(kind, site, where + ", which is an mbarrier");
  default:
    return report(kind, site, "uninitialized read: " + where + ", which was never written");
  }
}

/// Finds the operand's cells, checks and holds them: one finding of a kind is enough.
void Engine::openOperand(WgmmaOp &op, Cta &c, const char *name, uint64_t bits, unsigned rows, bool across,
                         std::vector<uint16_t> &cells) {
  const Descriptor d(bits);
  if (bits & Descriptor::kReserved)
    report(FindingKind::InvalidOperation, op.site,
           std::string("the descriptor of ") + name +
               " has bits set that must be 0: mask the address by 0x3ffff before the shift by 4");
  cells.clear();
  uint32_t worst = kWritten, worstOffset = 0, outside = ~0u, unwritten = ~0u;
  forEachCell(d, rows, across, [&](uint32_t offset) {
    if (offset + 16 > program.sharedBytes) {
      outside = offset;
      cells.push_back(kNowhere);
      return;
    }
    const uint32_t cell = offset / 16;
    cells.push_back(uint16_t(cell));
    ++c.units->readers[cell];
    uint64_t state[2];
    std::memcpy(state, &c.shadow[offset], 16);
    if (state[0] != 0x0101010101010101ull || state[1] != 0x0101010101010101ull)
      for (unsigned i = 0; i < 16; ++i) {
        const uint8_t s = c.shadow[offset + i];
        if (s == kUnwritten) unwritten = offset + i;
        if (s > worst) worst = s, worstOffset = offset + i;
      }
  });
  if (outside != ~0u) refuseOperand(FindingKind::OutOfBounds, name, outside, op.site);
  if (worst == kMbarrier)
    refuseOperand(FindingKind::MbarrierMisuse, name, worstOffset, op.site);
  else if (worst != kWritten)
    refuseOperand(FindingKind::InFlight, name, worstOffset, op.site);
  if (unwritten != ~0u) refuseOperand(FindingKind::UninitializedRead, name, unwritten, op.site);
}

/// What was written by ordinary stores is fenced for each of the four warps.
void Engine::checkFences(const WgmmaOp &op, Cta &c, unsigned groupIndex) {
  const Units &units = *c.units;
  for (const std::vector<uint16_t> *cells : {&op.cellsA, &op.cellsB})
    for (uint16_t cell : *cells) {
      if (cell == kNowhere) continue;
      uint64_t stamps[2];
      std::memcpy(stamps, &units.stamps[cell * 4], 16);
      if (!(stamps[0] | stamps[1])) continue;
      uint32_t stamp = 0;
      for (unsigned w = 0; w < kGroupWarps && !stamp; ++w)
        stamp = unfencedWrite(c, groupIndex * kGroupWarps + w, Mark::kEvery, cell * 16, 16);
      if (stamp) {
        missingProxyFence(stamp, cells == &op.cellsA ? "wgmma reads A" : "wgmma reads B", cell * 16, op.site);
        break;
      }
    }
}

/// All lanes have called the next operation.
void Engine::issueWgmma(Warpgroup &g, Cta &c, unsigned groupIndex) {
  WgmmaOp &op = *g.ops[g.issued - g.first];
  ++stats.collectives;
  if (traceAccesses && c.trace) recordOperands(op, c, groupIndex);
  checkFences(op, c, groupIndex);
  if (checkRaces) {
    raceOperand(c, op.cellsA, groupIndex * kGroupWarps, "wgmma's read of A", op.site);
    raceOperand(c, op.cellsB, groupIndex * kGroupWarps, "wgmma's read of B", op.site);
  }
  ++g.issued;
  for (unsigned w = 0; w < kGroupWarps; ++w)
    if (uint64_t lanes = g.waiting[w]) {
      g.waiting[w] = 0;
      wake(c.warps[groupIndex * kGroupWarps + w], lanes);
    }
  if (config.schedule == Schedule::Early) executeWgmma(g, c);
  if (config.schedule == Schedule::Random) openWgmmas.push_back({&c, groupIndex});
}

/// The next operation of the group, in order.
void Engine::executeWgmma(Warpgroup &g, Cta &c) {
  // On the heap: what a library holds of thread-local memory itself comes out of a small reserve when a program loads
  // it late.
  struct Raw {
    alignas(64) uint8_t a[kRows * 32];
    alignas(64) uint8_t b[256 * 32];
  };
  static thread_local std::unique_ptr<Raw> own;
  if (!own) own = std::make_unique<Raw>();
  Raw &raw = *own;
  const WgmmaOp &op = *g.ops[g.executed++ - g.first];
  if (c.trace) c.trace->operations[op.traced].end = c.trace->tick();
  auto gather = [&](uint8_t *to, const std::vector<uint16_t> &cells) {
    for (size_t i = 0; i < cells.size(); ++i) {
      if (cells[i] == kNowhere)
        std::memset(to + 16 * i, 0xff, 16);
      else
        std::memcpy(to + 16 * i, c.shared + 16 * size_t(cells[i]), 16);
    }
  };
  if (op.aInRegisters) {
    // A register packs 4 bytes along k; the second is 8 rows below, the third and fourth 16 bytes further along k.
    for (unsigned l = 0; l < kGroupLanes; ++l)
      for (unsigned i = 0; i < 4; ++i)
        std::memcpy(raw.a + (l / 32 * 16 + l % 32 / 4 + i % 2 * 8) * 32 + i / 2 * 16 + l % 4 * 4,
                    &op.registers[4 * l + i], 4);
  } else {
    gather(raw.a, op.cellsA);
  }
  gather(raw.b, op.cellsB);
  multiplyWgmma({*op.kind, op.n, raw.a, raw.b, (op.transposed & kTransposeA) != 0, (op.transposed & kTransposeB) != 0,
                 op.useAcc, op.acc->values.data(), program.exact});
}

void Engine::releaseWgmmas(Warpgroup &g, Cta &c, uint64_t end) {
  for (; g.first < end; ++g.first) {
    WgmmaOp &op = *g.ops.front();
    if (checkRaces && current)
      for (const std::vector<uint16_t> *cells : {&op.cellsA, &op.cellsB})
        for (uint16_t cell : *cells) raceReadsEnd(c, cell * 16u, 16, true, op.site);
    for (const std::vector<uint16_t> *cells : {&op.cellsA, &op.cellsB})
      for (uint16_t cell : *cells)
        if (cell != kNowhere) --c.units->readers[cell];
    g.spareOps.push_back(std::move(g.ops.front()));
    g.ops.pop_front();
  }
}

// --- symbols

namespace {
template <WgmmaFormat A, WgmmaFormat B> struct Kind {
  static constexpr bool integers = A == WgmmaFormat::S8 || A == WgmmaFormat::U8;
  static constexpr unsigned bytes = A == WgmmaFormat::TF32                            ? 4
                                    : A == WgmmaFormat::F16 || A == WgmmaFormat::BF16 ? 2
                                                                                      : 1;
  static constexpr WgmmaKind kind = {A, B, bytes, integers};
  static void ss(uint32_t *acc, uint64_t a, uint64_t b, uint32_t useAcc, uint32_t n, uint32_t transposed,
                 uint32_t site) {
    engine().wgmma(kind, acc, nullptr, a, b, useAcc, n, transposed, site);
  }
  static void rs(uint32_t *acc, const uint32_t *a, uint64_t b, uint32_t useAcc, uint32_t n, uint32_t transposed,
                 uint32_t site) {
    engine().wgmma(kind, acc, a, 0, b, useAcc, n, transposed, site);
  }
};
void fence(uint32_t site) {
  engine().wgmmaFence(site);
}
void commit(uint32_t site) {
  engine().wgmmaCommit(site);
}
void wait(uint32_t keep, uint32_t site) {
  engine().wgmmaWait(keep, site);
}
void retire(uint32_t *acc, uint32_t registers, uint32_t site) {
  engine().wgmmaRetire(acc, registers, site);
}

#define WGMMA(NAME, A, B)                                                                                              \
  symbol("tlx.nv.wgmma.ss." NAME, Kind<WgmmaFormat::A, WgmmaFormat::B>::ss),                                           \
      symbol("tlx.nv.wgmma.rs." NAME, Kind<WgmmaFormat::A, WgmmaFormat::B>::rs)
const Symbol kSymbols[] = {
    symbol("tlx.nv.wgmma.fence", fence), symbol("tlx.nv.wgmma.commit", commit),
    symbol("tlx.nv.wgmma.wait", wait),   symbol("tlx.nv.wgmma.retire", retire),
    WGMMA("f32.f16.f16", F16, F16),      WGMMA("f32.bf16.bf16", BF16, BF16),
    WGMMA("f32.tf32.tf32", TF32, TF32),  WGMMA("f32.e4m3.e4m3", E4M3, E4M3),
    WGMMA("f32.e4m3.e5m2", E4M3, E5M2),  WGMMA("f32.e5m2.e4m3", E5M2, E4M3),
    WGMMA("f32.e5m2.e5m2", E5M2, E5M2),  WGMMA("s32.s8.s8", S8, S8),
    WGMMA("s32.s8.u8", S8, U8),          WGMMA("s32.u8.s8", U8, S8),
    WGMMA("s32.u8.u8", U8, U8),
};
#undef WGMMA
} // namespace

llvm::ArrayRef<Symbol> wgmmaOperations() {
  return kSymbols;
}

} // namespace tlx::sim
