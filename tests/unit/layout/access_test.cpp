// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shared layouts and accesses to them: offsets, address parts, vectors and bank wavefronts against brute force.
#include "testing.h"

using namespace tlx::layout;
using namespace tlx::layout::testing;

namespace {
/// Each element has an offset of its own, below elements().
void checkInjective(const SharedLayout &mem) {
  std::set<int64_t> seen;
  int64_t last = 0;
  for (const Point &p : points(mem.shape())) {
    const int64_t offset = mem.offsetOf(p);
    REQUIRE(offset >= 0);
    REQUIRE(seen.insert(offset).second);
    last = std::max(last, offset);
  }
  CHECK(last + 1 == mem.elements());
}

/// An address as code computes it.
int64_t address(const AccessMap &a, unsigned target, unsigned lane, unsigned warp) {
  int64_t add = a.registers[target].add;
  uint32_t bits = a.registers[target].xorBits;
  for (unsigned i = 0; i < a.laneBases.size(); ++i)
    if (lane >> i & 1) add += a.laneBases[i].add, bits ^= a.laneBases[i].xorBits;
  for (unsigned i = 0; i < a.warpBases.size(); ++i)
    if (warp >> i & 1) add += a.warpBases[i].add, bits ^= a.warpBases[i].xorBits;
  return add + bits;
}

/// The passes of warp 0, the worst vector: `banks` words of 4 bytes a pass, each bank one word.
BankReport simulate(const TileLayout &regs, const SharedLayout &mem, const VectorPlan &plan, unsigned bits,
                    unsigned banks) {
  BankReport worst;
  const unsigned bytes = std::max(4u, bits * plan.vector / 8), served = std::max(1u, banks * 4 / bytes);
  for (unsigned v = 0; v < plan.order.size(); v += plan.vector) {
    BankReport report;
    for (unsigned first = 0; first < regs.lanes(); first += served) {
      std::map<int64_t, std::set<int64_t>> wordsOfBank;
      std::set<int64_t> words;
      for (unsigned l = first; l < std::min(first + served, regs.lanes()); ++l)
        for (unsigned j = 0; j < plan.vector; ++j) {
          const int64_t at = mem.offsetOf(regs.coordOf(plan.order[v + j], l, 0)) * bits / 8;
          for (unsigned byte = 0; byte < std::max(1u, bits / 8); ++byte) {
            words.insert((at + byte) / 4);
            wordsOfBank[(at + byte) / 4 % banks].insert((at + byte) / 4);
          }
        }
      size_t most = 0;
      for (auto &[bank, of] : wordsOfBank) most = std::max(most, of.size());
      report.wavefronts += most;
      report.minimum += (words.size() + banks - 1) / banks;
    }
    if (report.wavefronts > worst.wavefronts) worst = report;
  }
  return worst;
}

/// All checks of one pair.
void checkAccess(const TileLayout &regs, const SharedLayout &mem, unsigned bits, unsigned expectedVector) {
  if (const auto a = accessMap(regs, mem)) {
    REQUIRE(a->registers.size() == regs.registers());
    uint32_t threadBits = 0;
    for (const auto *bases : {&a->laneBases, &a->warpBases})
      for (const AccessMap::Part &part : *bases) threadBits |= part.xorBits;
    for (const AccessMap::Part &part : a->registers) REQUIRE((part.xorBits & ~threadBits) == 0);
    forAll(regs, [&](unsigned r, unsigned lane, unsigned w) {
      REQUIRE(address(*a, r, lane, w) == mem.offsetOf(regs.coordOf(r, lane, w)));
    });
  }
  const VectorPlan plan = vectorPlan(regs, mem, bits);
  CHECK(plan.vector == expectedVector);
  CHECK(std::set<unsigned>(plan.order.begin(), plan.order.end()).size() == regs.registers());
  REQUIRE(plan.order.size() == regs.registers());
  for (unsigned w = 0; w < regs.warps(); ++w)
    for (unsigned lane = 0; lane < regs.lanes(); ++lane)
      for (unsigned i = 0; i < plan.order.size(); ++i) {
        const int64_t at = mem.offsetOf(regs.coordOf(plan.order[i], lane, w));
        const int64_t first = mem.offsetOf(regs.coordOf(plan.order[i / plan.vector * plan.vector], lane, w));
        REQUIRE(first % plan.vector == 0);
        REQUIRE(at == first + i % plan.vector);
      }
  for (unsigned banks : {32u, 64u})
    for (unsigned maxBytes : {16u, 4u, 1u}) {
      const VectorPlan narrow = vectorPlan(regs, mem, bits, maxBytes);
      const BankReport got = bankWavefronts(regs, mem, narrow, bits, {banks});
      const BankReport want = simulate(regs, mem, narrow, bits, banks);
      CHECK(got.wavefronts == want.wavefronts);
      CHECK(got.minimum == want.minimum);
    }
}
} // namespace

TEST_CASE("row-major and swizzled shared layouts") {
  const SharedLayout plain = SharedLayout::rowMajor({16, 32}, {1, 0});
  CHECK(plain.offsetOf({3, 5}) == 3 * 32 + 5);
  CHECK(SharedLayout::rowMajor({16, 32}, {0, 1}).offsetOf({3, 5}) == 5 * 16 + 3);
  checkInjective(plain);
  const SharedLayout odd = SharedLayout::rowMajor({192, 80}, {1, 0}); // boxes of 64 x 16, five in a row
  CHECK(odd.elements() == 192 * 80);
  CHECK(odd.offsetOf({65, 17}) == (1 * 5 + 1) * 1024 + 16 + 1);
  checkInjective(odd);
  for (unsigned vec : {1u, 4u, 8u})
    for (unsigned perPhase : {1u, 2u})
      for (unsigned maxPhase : {1u, 4u, 8u}) {
        const SharedLayout s = SharedLayout::swizzled({96, 64}, {1, 0}, vec, perPhase, maxPhase);
        checkInjective(s);
        for (const Point &p : points({32, 64}))
          REQUIRE(s.offsetOf(p) == p[0] * 64 + (p[1] ^ int(p[0] / perPhase % maxPhase * vec)));
      }
  const SharedLayout t = odd.transposed({1, 0});
  for (const Point &p : points({192, 80})) REQUIRE(t.offsetOf({p[1], p[0]}) == odd.offsetOf(p));
  CHECK(SharedLayout::rowMajor({}, {}).elements() == 1);
  // The boxes of a padded layout: V of 192 x 80 in boxes of 64 x 16 with their rows of boxes 10,240 bytes apart.
  const SharedLayout v({192, 80}, {64, 16}, odd.bases(), {5120, 1024});
  CHECK(v.elements() == 192 * 80);
  CHECK(SharedLayout({64, 48}, {64, 16}, SharedLayout::rowMajor({64, 16}, {1, 0}).bases(), {0, 1032}).elements() ==
        2 * 1032 + 1024);
}

TEST_CASE("SharedLayout::check names what is wrong") {
  auto why = [](const Shape &shape, const Shape &box, std::vector<std::vector<uint32_t>> bases, const Shape &stride) {
    return SharedLayout::check(shape, box, bases, stride).value_or("");
  };
  CHECK(why({12}, {4}, {{1, 2}}, {4}) == "");
  CHECK(why({12}, {4}, {{1, 2}}, {3}).find("overlap") != std::string::npos);
  CHECK(why({12}, {4}, {{1, 1}}, {4}).find("bijection") != std::string::npos);
  CHECK(why({12}, {4}, {{1, 4}}, {4}).find("leaves the box") != std::string::npos);
  CHECK(why({12}, {8}, {{1, 2, 4}}, {8}).find("divides 12") != std::string::npos);
  CHECK(why({12}, {4}, {{1}}, {4}).find("1 bases") != std::string::npos);
  CHECK(why({12}, {4}, {{1, 2}}, {}).find("one entry") != std::string::npos);
}

TEST_CASE("accesses to one box") {
  const SharedLayout plain = SharedLayout::rowMajor({64, 64}, {1, 0});
  const SharedLayout swizzle = SharedLayout::swizzled({64, 64}, {1, 0}, 8, 1, 8);
  const SharedLayout columns = SharedLayout::rowMajor({64, 64}, {0, 1});
  const TileLayout rows = blocked({64, 64}, {1, 8}, {4, 8}, {4, 1}, {1, 0});
  const TileLayout square = blocked({64, 64}, {4, 4}, {4, 8}, {2, 2}, {1, 0});
  const TileLayout acc = tile({64, 64}, kMmaAcc, {2, 2});
  checkAccess(rows, plain, 16, 8);
  checkAccess(rows, plain, 32, 4); // the 16 bytes limit
  checkAccess(rows, plain, 8, 8);
  checkAccess(rows, swizzle, 16, 8);
  checkAccess(rows, columns, 16, 1);
  checkAccess(square, plain, 16, 4);
  checkAccess(square, columns, 16, 4); // registers that are not neighbours
  checkAccess(square, swizzle, 64, 2);
  checkAccess(acc, plain, 32, 2);
  checkAccess(acc, swizzle, 16, 2);
  checkAccess(acc, columns, 32, 1);
  checkAccess(tile({64, 64}, kMfma16, {2, 2}), columns, 16, 4);
  checkAccess(tile({64, 64}, kMfma32, {2, 2}), plain, 16, 1);
  checkAccess(tile({64, 64}, kMfma32, {1, 1}), columns, 8, 4);
}

TEST_CASE("accesses with odd factors, copies and several boxes") {
  const TileLayout rows = blocked({192, 80}, {1, 8}, {16, 2}, {4, 1}, {1, 0});
  checkAccess(rows, SharedLayout::rowMajor({192, 80}, {1, 0}), 16, 8);
  checkAccess(rows, SharedLayout::swizzled({192, 80}, {1, 0}, 8, 1, 2), 16, 8);
  checkAccess(tile({192, 80}, kMmaAcc, {4, 1}), SharedLayout::rowMajor({192, 80}, {0, 1}), 16, 1);
  checkAccess(tile({64, 176}, kMmaAcc, {4, 1}), SharedLayout::rowMajor({64, 176}, {1, 0}), 32, 2);
  checkAccess(blocked({12}, {2}, {32}, {4}, {0}), SharedLayout::rowMajor({12}, {0}), 32, 2);
  checkAccess(slice(tile({64, 96}, kMmaAcc, {2, 2}), 0), SharedLayout::rowMajor({96}, {0}), 32, 2);
  // Two boxes of 64 x 64 side by side in a tile of 64 x 128: the box index is a register bit, then a warp bit.
  const SharedLayout boxes({64, 128}, {64, 64}, SharedLayout::swizzled({64, 64}, {1, 0}, 8, 1, 8).bases(),
                           {0, 4096 + 64});
  checkInjective(boxes);
  const TileLayout inRegister = blocked({64, 128}, {1, 8}, {4, 8}, {4, 1}, {1, 0});
  const TileLayout inWarp = blocked({64, 128}, {1, 8}, {4, 8}, {2, 2}, {1, 0});
  REQUIRE(accessMap(inRegister, boxes));
  REQUIRE(accessMap(inWarp, boxes));
  checkAccess(inRegister, boxes, 16, 8);
  checkAccess(inWarp, boxes, 16, 8);
  // A stride that breaks the vectors: boxes at multiples of 4 elements only.
  const SharedLayout padded({64, 128}, {64, 64}, SharedLayout::rowMajor({64, 64}, {1, 0}).bases(), {0, 4096 + 4});
  checkAccess(inRegister, padded, 16, 4);
  checkAccess(inWarp, padded, 8, 4);
  // The same bit of a box index from a register and a lane is no sum.
  const TileLayout mixed({4}, {{{{1}, {2}}, {{2}}, {}, {}}});
  CHECK(!accessMap(mixed, SharedLayout({4}, {2}, {{1}}, {2})));
  CHECK(accessMap(mixed, SharedLayout({4}, {4}, {{1, 2}}, {4})));
  checkAccess(mixed, SharedLayout({4}, {4}, {{1, 2}}, {4}), 16, 2);
}

TEST_CASE("unswizzled addresses have immediates only") {
  const TileLayout rows = blocked({64, 64}, {1, 8}, {4, 8}, {4, 1}, {1, 0});
  const auto plain = accessMap(rows, SharedLayout::rowMajor({64, 64}, {1, 0}));
  for (const AccessMap::Part &part : plain->registers) CHECK(part.xorBits == 0);
}

TEST_CASE("known bank conflicts") {
  // f32, 32 rows of 32 words: a column access hits one bank 32 times; the swizzle spreads it.
  const TileLayout column = blocked({32, 32}, {1, 1}, {32, 1}, {1, 1}, {1, 0});
  const SharedLayout plain = SharedLayout::rowMajor({32, 32}, {1, 0});
  const SharedLayout swizzle = SharedLayout::swizzled({32, 32}, {1, 0}, 1, 1, 32);
  CHECK(bankWavefronts(column, plain, vectorPlan(column, plain, 32, 4), 32).wavefronts == 32);
  CHECK(bankWavefronts(column, swizzle, vectorPlan(column, swizzle, 32, 4), 32).wavefronts == 1);
  CHECK(bankWavefronts(column, plain, vectorPlan(column, plain, 32, 4), 32, {64}).wavefronts == 16);
  // All lanes read one word.
  const TileLayout one({1}, {{{}, {{0}, {0}, {0}, {0}, {0}}, {}, {}}});
  CHECK(bankWavefronts(one, SharedLayout::rowMajor({1}, {0}), {1, {0}}, 32).wavefronts == 1);
}
