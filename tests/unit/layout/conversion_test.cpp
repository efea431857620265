// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// planConversion: each plan is executed, and each register of each thread must end with the element that `to` names.
#include "testing.h"

using namespace tlx::layout;
using namespace tlx::layout::testing;

namespace {
/// Elements by their row-major number; -1 is none.
int32_t numberOf(const TileLayout &l, unsigned r, unsigned lane, unsigned w) {
  int32_t number = 0;
  const Coord c = l.coordOf(r, lane, w);
  for (unsigned d = 0; d < l.rank(); ++d) number = number * int32_t(l.shape()[d]) + c[d];
  return number;
}

ConversionKind checkConversion(const TileLayout &from, const TileLayout &to, unsigned bits = 32) {
  const ConversionPlan plan = planConversion(from, to, bits);
  if (plan.kind == ConversionKind::Shared) {
    // Registers go to memory and come back as the vector plans and the address parts say.
    std::vector<int32_t> memory(plan.scratch.elements(), -1);
    auto move = [&](const TileLayout &l, bool store) {
      const auto access = accessMap(l, plan.scratch);
      REQUIRE(access);
      REQUIRE(vectorPlan(l, plan.scratch, bits).order.size() == l.registers());
      forAll(l, [&](unsigned r, unsigned lane, unsigned w) {
        AccessMap::Part at = access->registers[r];
        for (const auto &[bases, index] : {std::pair(&access->laneBases, lane), std::pair(&access->warpBases, w)})
          for (unsigned i = 0; i < bases->size(); ++i)
            if (index >> i & 1) at.add += (*bases)[i].add, at.xorBits ^= (*bases)[i].xorBits;
        int32_t &slot = memory.at(at.add + at.xorBits);
        const int32_t number = numberOf(l, r, lane, w);
        if (slot != number) REQUIRE((store && slot == -1));
        slot = number;
      });
    };
    move(from, true);
    move(to, false);
    return plan.kind;
  }
  for (unsigned w = 0; w < from.warps(); ++w) {
    std::vector<std::vector<int32_t>> result(to.lanes(), std::vector<int32_t>(to.registers(), -1));
    const unsigned fromBits = from.bits(InDim::Register), toBits = to.bits(InDim::Register);
    switch (plan.kind) {
    case ConversionKind::None:
    case ConversionKind::Registers:
      for (unsigned lane = 0; lane < to.lanes(); ++lane)
        for (unsigned r = 0; r < to.registers(); ++r)
          result[lane][r] = numberOf(from, plan.kind == ConversionKind::None ? r : plan.registers.at(r), lane, w);
      break;
    case ConversionKind::Shuffle:
      for (unsigned i = 0; i < plan.rounds.size(); ++i)
        for (unsigned lane = 0; lane < 1u << plan.rounds[i].srcLane.bases.size(); ++lane) {
          const auto &round = plan.rounds[i], &first = plan.rounds[i / plan.packed * plan.packed];
          REQUIRE(round.srcLane(lane) == first.srcLane(lane));
          REQUIRE(round.sendReg(lane) == first.sendReg(lane) + i % plan.packed);
          REQUIRE(round.recvReg(lane) == first.recvReg(lane) + i % plan.packed);
        }
      for (unsigned rep = 0; rep < from.repetitions(); ++rep)
        for (const ConversionPlan::Round &round : plan.rounds) {
          std::vector<int32_t> offered;
          for (unsigned lane = 0; lane < from.lanes(); ++lane) {
            const unsigned reg = round.sendReg(lane);
            REQUIRE(reg < 1u << fromBits);
            offered.push_back(numberOf(from, (rep << fromBits) + reg, lane, w));
          }
          for (unsigned lane = 0; lane < to.lanes(); ++lane) {
            const unsigned reg = round.recvReg(lane);
            REQUIRE(reg < 1u << toBits);
            int32_t &slot = result[lane][(rep << toBits) + reg];
            REQUIRE(slot == -1); // exactly once
            slot = offered.at(round.srcLane(lane));
          }
        }
      break;
    case ConversionKind::Shared:
      break;
    }
    for (unsigned lane = 0; lane < to.lanes(); ++lane)
      for (unsigned r = 0; r < to.registers(); ++r) REQUIRE(result[lane][r] == numberOf(to, r, lane, w));
  }
  return plan.kind;
}

using K = ConversionKind;
const U kRows{1, 0};
} // namespace

TEST_CASE("conversions in registers") {
  const TileLayout l = blocked({64, 64}, {1, 8}, {4, 8}, {4, 1}, kRows);
  CHECK(checkConversion(l, l) == K::None);
  // The accumulator of one MMA is the A operand of the next (m16n8k16), also with odd factors.
  CHECK(checkConversion(tile({64, 64}, kMmaAcc, {4, 1}), tile({64, 64}, kMmaA16, {4, 1})) == K::None);
  CHECK(checkConversion(tile({64, 176}, kMmaAcc, {4, 1}), tile({64, 176}, kMmaA16, {4, 1})) == K::None);
  CHECK(checkConversion(tile({192, 80}, kMmaAcc, {4, 1}), tile({192, 80}, kMmaA16, {4, 1})) == K::None);
  // Another order of registers.
  CHECK(checkConversion(tile({64, 64}, kMmaAcc, {2, 2}, {0, 1}, {1, 0}),
                        tile({64, 64}, kMmaAcc, {2, 2}, {0, 1}, {0, 1})) == K::Registers);
  // A source with copies in registers.
  const TileLayout copies({8}, {{{{1}, {0}, {2}, {3}}, {{4}}, {}, {}}}), plain({8}, {{{{2}, {1}}, {{4}}, {}, {}}});
  CHECK(checkConversion(copies, plain) == K::Registers);
  CHECK(checkConversion(plain, copies) == K::Registers);
}

TEST_CASE("conversions by shuffles") {
  // 8-bit A operand from an accumulator: inside quads.
  CHECK(checkConversion(tile({64, 64}, kMmaAcc, {4, 1}), tile({64, 64}, kMmaA8, {4, 1}), 8) == K::Shuffle);
  CHECK(checkConversion(tile({64, 96}, kMmaAcc, {4, 1}), tile({64, 96}, kMmaA8, {4, 1}), 8) == K::Shuffle);
  CHECK(planConversion(tile({64, 64}, kMmaAcc, {4, 1}), tile({64, 64}, kMmaA8, {4, 1}), 8).packed == 2);
  // tf32 A from an accumulator.
  CHECK(checkConversion(tile({64, 16}, kMmaAcc, {4, 1}), tile({64, 16}, kMmaA32, {4, 1})) == K::Shuffle);
  // Lanes permuted; lanes and registers swapped.
  CHECK(checkConversion(TileLayout({8}, {{{}, {{1}, {2}, {4}}, {}, {}}}),
                        TileLayout({8}, {{{}, {{4}, {1}, {3}}, {}, {}}})) == K::Shuffle);
  CHECK(checkConversion(blocked({4, 32}, {4, 1}, {1, 32}, {1, 1}, kRows),
                        blocked({4, 32}, {1, 4}, {4, 8}, {1, 1}, kRows)) == K::Shuffle);
  CHECK(checkConversion(blocked({12, 32}, {4, 1}, {1, 32}, {1, 1}, kRows),
                        blocked({12, 32}, {1, 4}, {4, 8}, {1, 1}, kRows)) == K::Shuffle);
}

TEST_CASE("conversions with copies") {
  // A row vector as a reduction leaves it (copies in lanes) to a plain one, and back.
  const TileLayout acc = tile({64, 64}, kMmaAcc, {1, 1});
  for (unsigned axis : {0u, 1u}) {
    const TileLayout reduced = slice(acc, axis), plain = blocked({64}, {1}, {32}, {1}, {0});
    CHECK(checkConversion(reduced, plain) == K::Shuffle);
    CHECK(checkConversion(plain, reduced) == K::Shuffle);
    CHECK(checkConversion(slice(acc, axis), slice(acc, 1 - axis)) == K::Shuffle);
  }
  // Everything in all lanes; a lane keeps its share: selects, no shuffle.
  const TileLayout all({32}, {{{{1}, {2}, {4}, {8}, {16}}, {{0}, {0}, {0}, {0}, {0}}, {}, {}}});
  const TileLayout share({32}, {{{{16}}, {{1}, {2}, {4}, {8}, {0}}, {}, {}}});
  CHECK(checkConversion(all, share) == K::Shuffle);
  const ConversionPlan plan = planConversion(all, share, 32);
  for (unsigned lane = 0; lane < 32; ++lane) CHECK(plan.rounds[1].srcLane(lane) == lane);
  checkConversion(share, all);
  // Dependent bases: a lane bit repeats what a register bit has.
  const TileLayout twice({4}, {{{{1}, {2}}, {{2}, {1}}, {}, {}}}), once({4}, {{{}, {{1}, {2}}, {}, {}}});
  checkConversion(twice, once);
  checkConversion(once, twice);
  // Inside a warp there is more than `to` needs.
  const TileLayout spare({4}, {{{{1}}, {{2}}, {{2}}, {}}}), bare({4}, {{{}, {{1}}, {{2}}, {}}});
  CHECK(checkConversion(spare, bare) == K::Shared);
  CHECK(checkConversion(bare, spare) == K::Shared);
}

TEST_CASE("conversions through shared memory") {
  CHECK(checkConversion(tile({128, 64}, kMmaAcc, {4, 1}), blocked({128, 64}, {1, 8}, {4, 8}, {4, 1}, kRows), 16) ==
        K::Shared);
  CHECK(checkConversion(blocked({64, 64}, {1, 8}, {4, 8}, {4, 1}, kRows),
                        blocked({64, 64}, {8, 1}, {8, 4}, {1, 4}, {0, 1})) == K::Shared);
  // The scratch of a transpose is free of conflicts on both sides.
  const TileLayout a = blocked({64, 64}, {1, 4}, {2, 16}, {4, 1}, kRows),
                   b = blocked({64, 64}, {4, 1}, {16, 2}, {1, 4}, {0, 1});
  const ConversionPlan plan = planConversion(a, b, 32);
  REQUIRE(plan.kind == K::Shared);
  for (const TileLayout *l : {&a, &b}) {
    const BankReport report = bankWavefronts(*l, plan.scratch, vectorPlan(*l, plan.scratch, 32), 32);
    CHECK(report.wavefronts == report.minimum);
  }
}

TEST_CASE("conversions between all pairs") {
  for (const Shape &shape : {Shape{64, 64}, Shape{32, 96}, Shape{192, 80}}) {
    std::vector<TileLayout> layouts;
    for (const U &order : {U{1, 0}, U{0, 1}})
      for (unsigned perThread : {1u, 4u}) layouts.push_back(defaultBlocked(shape, perThread, order, 32, 4));
    layouts.push_back(blocked(shape, {2, 2}, {8, 4}, {2, 2}, {1, 0}));
    layouts.push_back(tile(shape, kMmaAcc, {4, 1}));
    layouts.push_back(tile(shape, kMmaAcc, {2, 2}, {1, 0}, {0, 1}));
    layouts.push_back(tile(shape, kMmaA16, {2, 1, 2}, {0, 2, 1}));
    layouts.push_back(tile(shape, kMmaB16, {1, 2, 2}, {2, 1, 0}));
    layouts.push_back(tile(shape, kMmaA32, {4, 1}));
    layouts.push_back(tile(shape, kMmaB32, {1, 1, 4}, {2, 1, 0}));
    for (const TileLayout &from : layouts)
      for (const TileLayout &to : layouts) {
        const ConversionKind kind = checkConversion(from, to, 16);
        CHECK((kind == K::None) == (from == to));
      }
  }
}

TEST_CASE("conversions of vectors, all pairs, random linear maps") {
  // Random layouts of 64 elements over 2 to 4 register bits, 4 lane bits and 1 warp bit: copies and dependent bases
  // occur.
  unsigned state = 12345;
  auto random = [&] { return state = state * 1664525u + 1013904223u, state >> 16; };
  std::vector<TileLayout> layouts;
  while (layouts.size() < 60) {
    TileLayout::Bases bases;
    for (unsigned dim : {0u, 1u, 2u})
      for (unsigned i = 0; i < (dim == 0 ? 2 + random() % 3 : dim == 1 ? 4u : 1u); ++i) {
        // Half of the bases are unit vectors or zero, as in real layouts.
        const int32_t v = random() % 2 ? random() % 64 : (1 << random() % 7) & 63;
        bases[dim].push_back({v});
      }
    if (random() % 2) bases[2] = {{32}}; // agree on warps often enough
    if (!TileLayout::check({64}, bases)) layouts.push_back(TileLayout({64}, bases));
  }
  std::map<ConversionKind, unsigned> kinds;
  for (const TileLayout &from : layouts)
    for (const TileLayout &to : layouts) ++kinds[checkConversion(from, to)];
  CHECK(kinds[K::Shuffle] > 100);
  CHECK(kinds[K::Shared] > 100);
}
