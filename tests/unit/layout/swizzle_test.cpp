// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// chooseSwizzle reaches the minimum of wavefronts where layouts exist that do, with the vectors that the accesses
// allow.
#include "testing.h"

using namespace tlx::layout;
using namespace tlx::layout::testing;

namespace {
/// Both ways that an access can move, where they exist, at their minimum.
void checkFree(const TileLayout &access, const SharedLayout &mem, unsigned bits, unsigned minVector,
               BankModel model = {}) {
  if (model.banks == 32)
    if (const auto plan = matrixPlan(access, mem, bits)) {
      const BankReport report = bankWavefronts(*plan, bits, model);
      CHECK(report.wavefronts == report.minimum);
    }
  const VectorPlan plan = vectorPlan(access, mem, bits);
  CHECK(plan.vector >= minVector);
  const BankReport report = bankWavefronts(access, mem, plan, bits, model);
  CHECK(report.wavefronts == report.minimum);
}
void checkBijection(const SharedLayout &mem) {
  std::set<int64_t> seen;
  for (const Point &p : points(mem.shape())) REQUIRE(seen.insert(mem.offsetOf(p)).second);
  CHECK(mem.elements() == int64_t(seen.size()));
}
} // namespace

TEST_CASE("16-byte rows in, ldmatrix out") {
  for (const Shape &shape :
       {Shape{128, 32}, Shape{128, 64}, Shape{64, 128}, Shape{32, 256}, Shape{64, 16}, Shape{192, 80}}) {
    CAPTURE(shape[1]);
    const TileLayout rows = defaultBlocked(shape, 8, {1, 0}, 32, 4);
    const TileLayout a = tile(shape, kMmaA16, {2, 1, 2}, {0, 2, 1});
    const SharedLayout mem = chooseSwizzle(shape, {&rows, &a}, 16);
    checkBijection(mem);
    REQUIRE(matrixPlan(a, mem, 16));
    CHECK(matrixPlan(a, mem, 16)->count == 4);
    CHECK(!matrixPlan(a, mem, 16)->transposed);
    checkFree(rows, mem, 16, 8);
    checkFree(a, mem, 16, 2);
    // The same tile as B [k, n] with n fastest: .trans.
    const TileLayout b = tile(shape, kMmaB16, {1, 2, 2}, {1, 2, 0});
    const SharedLayout memB = chooseSwizzle(shape, {&rows, &b}, 16);
    REQUIRE(matrixPlan(b, memB, 16));
    CHECK(matrixPlan(b, memB, 16)->transposed);
    const BankReport report = bankWavefronts(*matrixPlan(b, memB, 16), 16);
    CHECK(report.wavefronts == report.minimum);
    checkFree(rows, memB, 16, 8);
  }
}

TEST_CASE("the classical swizzle comes out") {
  const TileLayout rows = defaultBlocked({128, 64}, 8, {1, 0}, 32, 4);
  const TileLayout a = tile({128, 64}, kMmaA16, {4, 1});
  CHECK(chooseSwizzle({128, 64}, {&rows, &a}, 16) == SharedLayout::swizzled({128, 64}, U{1, 0}, 8, 1, 8));
}

TEST_CASE("f32 tiles in both orders") {
  for (const Shape &shape : {Shape{64, 64}, Shape{128, 32}, Shape{32, 128}, Shape{96, 32}}) {
    const TileLayout rows = defaultBlocked(shape, 4, {1, 0}, 32, 4);
    const TileLayout columns = defaultBlocked(shape, 4, {0, 1}, 32, 4);
    checkFree(rows, chooseSwizzle(shape, {&rows}, 32), 32, 4);
    checkFree(columns, chooseSwizzle(shape, {&columns}, 32), 32, 4);
    // A transpose: one of the two has its vectors or none; no conflicts in either.
    const SharedLayout mem = chooseSwizzle(shape, {&rows, &columns}, 32);
    checkBijection(mem);
    checkFree(rows, mem, 32, 1);
    checkFree(columns, mem, 32, 1);
    // Scalar on both sides.
    const TileLayout row1 = defaultBlocked(shape, 1, {1, 0}, 32, 4), column1 = defaultBlocked(shape, 1, {0, 1}, 32, 4);
    const SharedLayout mem1 = chooseSwizzle(shape, {&row1, &column1}, 32);
    checkFree(row1, mem1, 32, 1);
    checkFree(column1, mem1, 32, 1);
  }
}

TEST_CASE("accumulators to rows, 16 and 32 bits, and 8-bit operands") {
  const TileLayout rows = defaultBlocked({64, 64}, 8, {1, 0}, 32, 4);
  const TileLayout acc = tile({64, 64}, kMmaAcc, {2, 2});
  for (unsigned bits : {16u, 32u}) {
    const SharedLayout mem = chooseSwizzle({64, 64}, {&acc, &rows}, bits);
    checkFree(acc, mem, bits, 2);
    checkFree(rows, mem, bits, bits == 16 ? 8 : 4);
  }
  const TileLayout rows8 = defaultBlocked({64, 128}, 16, {1, 0}, 32, 4), a8 = tile({64, 128}, kMmaA8, {4, 1});
  const SharedLayout mem8 = chooseSwizzle({64, 128}, {&rows8, &a8}, 8);
  checkFree(rows8, mem8, 8, 16);
  checkFree(a8, mem8, 8, 4);
}

TEST_CASE("wave64 with 32 and 64 banks") {
  for (unsigned banks : {32u, 64u}) {
    const TileLayout rows = defaultBlocked({128, 64}, 8, {1, 0}, 64, 4), acc = tile({128, 64}, kMfma32, {2, 2});
    const SharedLayout mem = chooseSwizzle({128, 64}, {&rows, &acc}, 32, {banks});
    checkBijection(mem);
    checkFree(rows, mem, 32, 1, {banks});
    checkFree(acc, mem, 32, 1, {banks});
  }
}

TEST_CASE("small and odd tiles") {
  for (const Shape &shape : {Shape{12}, Shape{1}, Shape{4, 6}, Shape{3, 5, 8}, Shape{}}) {
    llvm::SmallVector<unsigned, 4> order;
    for (unsigned d = shape.size(); d-- > 0;) order.push_back(d);
    const TileLayout l = defaultBlocked(shape, 4, order, 32, 4);
    for (unsigned bits : {8u, 16u, 32u, 64u}) checkBijection(chooseSwizzle(shape, {&l}, bits));
    checkBijection(chooseSwizzle(shape, {}, 16));
  }
}
