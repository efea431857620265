// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// AMD wave collectives: bpermute, readfirstlane, ballot, MFMA. Layouts: CDNA3 ISA, "Matrix Arithmetic Instructions"
// (VGPR layouts).
#include "sim/matrix.h"

namespace tlx::sim {

namespace {
struct PermuteLane {
  uint32_t address, value, result;
};
uint32_t bpermute(uint32_t address, uint32_t value, uint32_t site) {
  PermuteLane lane{address, value, 0};
  Gather *g;
  if (!engine().arrive(site, kWave, &lane, g)) return lane.result;
  for (void *slot : g->slots) {
    auto &me = *static_cast<PermuteLane *>(slot);
    me.result = static_cast<PermuteLane *>(g->slots[me.address / 4 % 64])->value;
  }
  engine().depart(*g);
  return lane.result;
}

uint32_t readFirstLane(uint32_t value, uint32_t site) {
  PermuteLane lane{0, value, 0};
  Gather *g;
  if (!engine().arrive(site, kWave, &lane, g)) return lane.result;
  for (void *slot : g->slots) static_cast<PermuteLane *>(slot)->result = static_cast<PermuteLane *>(g->slots[0])->value;
  engine().depart(*g);
  return lane.result;
}

struct BallotLane {
  bool predicate;
  uint64_t result;
};
uint64_t ballot(uint32_t predicate, uint32_t site) {
  BallotLane lane{(predicate & 1) != 0, 0};
  Gather *g;
  if (!engine().arrive(site, kWave, &lane, g)) return lane.result;
  uint64_t all = 0;
  for (unsigned l = 0; l < 64; ++l) all |= uint64_t(static_cast<BallotLane *>(g->slots[l])->predicate) << l;
  for (void *slot : g->slots) static_cast<BallotLane *>(slot)->result = all;
  engine().depart(*g);
  return lane.result;
}

// --- MFMA. A lane holds PerLane consecutive k of one row of A and of one column of B.
template <unsigned MN, unsigned PerLane, typename Operand> struct Mfma : Operand {
  static constexpr unsigned lanes = 64, m = MN, n = MN, k = 64 / MN * PerLane;
  static constexpr unsigned perReg = sizeof(typename Operand::Raw) == 8 ? 1 : 4 / sizeof(typename Operand::Raw);
  static constexpr unsigned aRegs = PerLane / perReg, bRegs = aRegs;
  static constexpr unsigned aRow(unsigned l, unsigned) { return l % MN; }
  static constexpr unsigned aK(unsigned l, unsigned i) { return l / MN * PerLane + i * perReg; }
  static constexpr unsigned bCol(unsigned l, unsigned) { return l % MN; }
  static constexpr unsigned bK(unsigned l, unsigned i) { return l / MN * PerLane + i * perReg; }
  // 16x16: row 4·(lane / 16) + i; 32x32: row 8·(i / 4) + 4·(lane / 32) + i % 4; f64: row 4·i + lane / 16.
  static constexpr unsigned cRow(unsigned l, unsigned i) {
    if (sizeof(typename Operand::Raw) == 8) return 4 * i + l / 16;
    return MN == 16 ? 4 * (l / 16) + i : 8 * (i / 4) + 4 * (l / 32) + i % 4;
  }
  static constexpr unsigned cCol(unsigned l, unsigned) { return l % MN; }
};

template <typename I> void mfma(void *d, const void *a, const void *b, const void *c, uint32_t site) {
  matrixInstruction<I>({d, a, b, c}, site);
}
/// One element of a and b a lane: they come by value.
template <typename I> void mfmaScalar(void *d, typename I::Raw a, typename I::Raw b, const void *c, uint32_t site) {
  matrixInstruction<I>({d, &a, &b, c}, site);
}

#define FP8(NAME, A, B)                                                                                                \
  symbol("tlx.amd.mfma.f32.16x16x32." NAME, mfma<Mfma<16, 8, Float8Pair<A, B>>>),                                      \
      symbol("tlx.amd.mfma.f32.32x32x16." NAME, mfma<Mfma<32, 8, Float8Pair<A, B>>>)
const Symbol kAmd[] = {
    symbol("tlx.amd.ds.bpermute", bpermute),
    symbol("tlx.amd.readfirstlane", readFirstLane),
    symbol("tlx.amd.ballot", ballot),
    symbol("tlx.amd.mfma.f32.16x16x16.f16", mfma<Mfma<16, 4, HalfOperand>>),
    symbol("tlx.amd.mfma.f32.16x16x16.bf16", mfma<Mfma<16, 4, BFloatOperand>>),
    symbol("tlx.amd.mfma.f32.32x32x8.f16", mfma<Mfma<32, 4, HalfOperand>>),
    symbol("tlx.amd.mfma.f32.32x32x8.bf16", mfma<Mfma<32, 4, BFloatOperand>>),
    symbol("tlx.amd.mfma.f32.16x16x4.f32", mfmaScalar<Mfma<16, 1, FloatOperand>>),
    symbol("tlx.amd.mfma.f32.16x16x8.xf32", mfma<Mfma<16, 2, Tf32Operand>>),
    symbol("tlx.amd.mfma.i32.16x16x32.i8", mfma<Mfma<16, 8, SignedByteOperand>>),
    symbol("tlx.amd.mfma.i32.32x32x16.i8", mfma<Mfma<32, 8, SignedByteOperand>>),
    symbol("tlx.amd.mfma.f64.16x16x4.f64", mfmaScalar<Mfma<16, 1, DoubleOperand>>),
    symbol("tlx.amd.mfma.f32.16x16x32.f16", mfma<Mfma<16, 8, HalfOperand>>),
    symbol("tlx.amd.mfma.f32.16x16x32.bf16", mfma<Mfma<16, 8, BFloatOperand>>),
    symbol("tlx.amd.mfma.f32.32x32x16.f16", mfma<Mfma<32, 8, HalfOperand>>),
    symbol("tlx.amd.mfma.f32.32x32x16.bf16", mfma<Mfma<32, 8, BFloatOperand>>),
    symbol("tlx.amd.mfma.i32.16x16x64.i8", mfma<Mfma<16, 16, SignedByteOperand>>),
    symbol("tlx.amd.mfma.i32.32x32x32.i8", mfma<Mfma<32, 16, SignedByteOperand>>),
    FP8("f8e4m3fnuz.f8e4m3fnuz", E4m3Fnuz, E4m3Fnuz),
    FP8("f8e4m3fnuz.f8e5m2fnuz", E4m3Fnuz, E5m2Fnuz),
    FP8("f8e5m2fnuz.f8e4m3fnuz", E5m2Fnuz, E4m3Fnuz),
    FP8("f8e5m2fnuz.f8e5m2fnuz", E5m2Fnuz, E5m2Fnuz),
    FP8("f8e4m3.f8e4m3", E4m3, E4m3),
    FP8("f8e4m3.f8e5m2", E4m3, E5m2),
    FP8("f8e5m2.f8e4m3", E5m2, E4m3),
    FP8("f8e5m2.f8e5m2", E5m2, E5m2),
};
#undef FP8
} // namespace

llvm::ArrayRef<Symbol> amdOperations() {
  static const std::vector<Symbol> all = [] {
    std::vector<Symbol> list(std::begin(kAmd), std::end(kAmd));
    llvm::ArrayRef<Symbol> direct = directLoadOperations();
    list.insert(list.end(), direct.begin(), direct.end());
    return list;
  }();
  return all;
}

} // namespace tlx::sim
