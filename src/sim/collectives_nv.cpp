// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// NVIDIA warp collectives: shuffles, votes, ldmatrix, stmatrix, mma.sync. Fragment layouts: PTX ISA 9.0, "Matrix
// Fragments for mma.m16n8k16" and its neighbours, "ldmatrix", "stmatrix".
#include <bit>

#include "sim/matrix.h"

namespace tlx::sim {

namespace {
// --- shuffles and votes
struct ShuffleLane {
  uint32_t value, operand, result;
};
enum class Shuffle { Bfly, Idx, Up, Down };

TLX_COLD void readsOutsideMask(int lane, int from, uint32_t mask, uint32_t site) {
  engine().report(FindingKind::InvalidOperation, site,
                  "lane " + std::to_string(lane) + " reads lane " + std::to_string(from) +
                      ", which is not in the member mask 0x" + llvm::utohexstr(mask, true));
}

template <Shuffle Kind> uint32_t shuffle(uint32_t mask, uint32_t value, uint32_t operand, uint32_t site) {
  ShuffleLane lane{value, operand & 31, 0};
  Gather *g;
  if (!engine().arrive(site, mask, &lane, g)) return lane.result;
  for (uint64_t rest = mask; rest; rest &= rest - 1) {
    const int l = std::countr_zero(rest);
    auto &me = *static_cast<ShuffleLane *>(g->slots[l]);
    const int o = int(me.operand);
    int from = Kind == Shuffle::Bfly ? l ^ o : Kind == Shuffle::Idx ? o : Kind == Shuffle::Up ? l - o : l + o;
    if (from < 0 || from > 31) from = l;
    if (mask >> from & 1) {
      me.result = static_cast<ShuffleLane *>(g->slots[from])->value;
    } else {
      readsOutsideMask(l, from, mask, site);
      me.result = ~0u;
    }
  }
  engine().depart(*g);
  return lane.result;
}

struct VoteLane {
  bool predicate;
  uint32_t ballot;
};
uint32_t ballot(uint32_t mask, uint32_t predicate, uint32_t site) {
  VoteLane lane{(predicate & 1) != 0, 0};
  Gather *g;
  if (!engine().arrive(site, mask, &lane, g)) return lane.ballot;
  uint32_t all = 0;
  for (uint64_t rest = mask; rest; rest &= rest - 1) {
    const int l = std::countr_zero(rest);
    all |= uint32_t(static_cast<VoteLane *>(g->slots[l])->predicate) << l;
  }
  for (uint64_t rest = mask; rest; rest &= rest - 1)
    static_cast<VoteLane *>(g->slots[std::countr_zero(rest)])->ballot = all;
  engine().depart(*g);
  return lane.ballot;
}
uint32_t voteAny(uint32_t mask, uint32_t predicate, uint32_t site) {
  return ballot(mask, predicate, site) != 0;
}
uint32_t voteAll(uint32_t mask, uint32_t predicate, uint32_t site) {
  return ballot(mask, predicate, site) == mask;
}

void warpSync(uint32_t mask, uint32_t site) {
  Engine &e = engine();
  Gather *g;
  if (!e.arrive(site, mask, nullptr, g)) return;
  // One of part of a warp counts as none; shuffles and votes order no memory (PTX ISA, "bar.warp.sync" against "shfl.sync").
  Warp &warp = *e.current->warp;
  if (e.clocks && (mask & warp.live) == warp.live) e.lanesMeet(warp);
  e.depart(*g);
}

// --- ldmatrix, stmatrix: N 8x8 matrices of 16-bit elements. Lane 8·i + r gives the address of row r of matrix i; lane
// l holds row l / 4, columns 2·(l % 4) and the next, transposed: the element pair of column l / 4.
struct RowsLane {
  uint8_t *address;
  uint32_t *registers;
};

template <unsigned N, bool Trans, bool Store> void moveMatrices(uint32_t *registers, uint8_t *address, uint32_t site) {
  RowsLane lane{address, registers};
  if (engine().current->lane < 8 * N)
    lane.address = engine().access(address,
                                   {AccessFlags::pack(16, 4,
                                                      AccessFlags::kShared | AccessFlags::kCollective |
                                                          (Store ? AccessFlags::kWrite : AccessFlags::kRead))},
                                   site);
  Gather *g;
  if (!engine().arrive(site, 0xffffffff, &lane, g)) return;
  // What each of them does next is behind all that the others did here.
  if (engine().clocks) engine().lanesPass(*engine().current->warp);
  auto at = [&](unsigned l) { return static_cast<RowsLane *>(g->slots[l]); };
  for (unsigned i = 0; i < N; ++i) {
    uint16_t tile[8][8];
    if constexpr (!Store)
      for (unsigned r = 0; r < 8; ++r) std::memcpy(tile[r], at(8 * i + r)->address, 16);
    for (unsigned l = 0; l < 32; ++l) {
      const unsigned row = l / 4, col = l % 4 * 2;
      uint16_t &low = Trans ? tile[col][row] : tile[row][col], &high = Trans ? tile[col + 1][row] : tile[row][col + 1];
      uint32_t &reg = at(l)->registers[i];
      if constexpr (Store)
        low = uint16_t(reg), high = uint16_t(reg >> 16);
      else
        reg = low | uint32_t(high) << 16;
    }
    if constexpr (Store)
      for (unsigned r = 0; r < 8; ++r) std::memcpy(at(8 * i + r)->address, tile[r], 16);
  }
  engine().depart(*g);
}
template <unsigned N, bool Trans> void ldmatrix(uint32_t *out, uint8_t *address, uint32_t site) {
  moveMatrices<N, Trans, false>(out, address, site);
}
template <bool Trans> uint32_t ldmatrix1(uint8_t *address, uint32_t site) {
  uint32_t out = 0;
  moveMatrices<1, Trans, false>(&out, address, site);
  return out;
}
template <unsigned N, bool Trans> void stmatrix(uint8_t *address, uint32_t *in, uint32_t site) {
  moveMatrices<N, Trans, true>(in, address, site);
}
template <bool Trans> void stmatrix1(uint8_t *address, uint32_t in, uint32_t site) {
  moveMatrices<1, Trans, true>(&in, address, site);
}

// --- mma.sync. g = lane / 4, t = lane % 4.
template <unsigned K, typename Operand> struct M16N8 : Operand {
  static constexpr unsigned lanes = 32, m = 16, n = 8, k = K, aRegs = 4, bRegs = 2;
  static constexpr unsigned perReg = 4 / sizeof(typename Operand::Raw); // K == 8 · perReg
  static constexpr unsigned aRow(unsigned l, unsigned i) { return l / 4 + i % 2 * 8; }
  static constexpr unsigned aK(unsigned l, unsigned i) { return l % 4 * perReg + i / 2 * (K / 2); }
  static constexpr unsigned bCol(unsigned l, unsigned) { return l / 4; }
  static constexpr unsigned bK(unsigned l, unsigned i) { return l % 4 * perReg + i * (K / 2); }
  static constexpr unsigned cRow(unsigned l, unsigned i) { return l / 4 + i / 2 * 8; }
  static constexpr unsigned cCol(unsigned l, unsigned i) { return l % 4 * 2 + i % 2; }
};
struct M8N8K4F64 : DoubleOperand {
  static constexpr unsigned lanes = 32, m = 8, n = 8, k = 4, aRegs = 1, bRegs = 1;
  static constexpr unsigned aRow(unsigned l, unsigned) { return l / 4; }
  static constexpr unsigned aK(unsigned l, unsigned) { return l % 4; }
  static constexpr unsigned bCol(unsigned l, unsigned) { return l / 4; }
  static constexpr unsigned bK(unsigned l, unsigned) { return l % 4; }
  static constexpr unsigned cRow(unsigned l, unsigned) { return l / 4; }
  static constexpr unsigned cCol(unsigned l, unsigned i) { return l % 4 * 2 + i; }
};

template <typename I> void mma(void *d, const void *c, const void *a, const void *b, uint32_t site) {
  matrixInstruction<I>({d, a, b, c}, site);
}
void mmaF64(double *d, const double *c, double a, double b, uint32_t site) {
  matrixInstruction<M8N8K4F64>({d, &a, &b, c}, site);
}

const Symbol kNvidia[] = {
    symbol("tlx.nv.bar.warp.sync", warpSync),
    symbol("tlx.nv.shfl.bfly", shuffle<Shuffle::Bfly>),
    symbol("tlx.nv.shfl.idx", shuffle<Shuffle::Idx>),
    symbol("tlx.nv.shfl.up", shuffle<Shuffle::Up>),
    symbol("tlx.nv.shfl.down", shuffle<Shuffle::Down>),
    symbol("tlx.nv.vote.any", voteAny),
    symbol("tlx.nv.vote.all", voteAll),
    symbol("tlx.nv.vote.ballot", ballot),
    symbol("tlx.nv.ldmatrix.x1", ldmatrix1<false>),
    symbol("tlx.nv.ldmatrix.x2", ldmatrix<2, false>),
    symbol("tlx.nv.ldmatrix.x4", ldmatrix<4, false>),
    symbol("tlx.nv.ldmatrix.x1.trans", ldmatrix1<true>),
    symbol("tlx.nv.ldmatrix.x2.trans", ldmatrix<2, true>),
    symbol("tlx.nv.ldmatrix.x4.trans", ldmatrix<4, true>),
    symbol("tlx.nv.stmatrix.x1", stmatrix1<false>),
    symbol("tlx.nv.stmatrix.x2", stmatrix<2, false>),
    symbol("tlx.nv.stmatrix.x4", stmatrix<4, false>),
    symbol("tlx.nv.stmatrix.x1.trans", stmatrix1<true>),
    symbol("tlx.nv.stmatrix.x2.trans", stmatrix<2, true>),
    symbol("tlx.nv.stmatrix.x4.trans", stmatrix<4, true>),
    symbol("tlx.nv.mma.m16n8k16.f32.f16", mma<M16N8<16, HalfOperand>>),
    symbol("tlx.nv.mma.m16n8k16.f32.bf16", mma<M16N8<16, BFloatOperand>>),
    symbol("tlx.nv.mma.m16n8k8.f32.tf32", mma<M16N8<8, Tf32Operand>>),
    symbol("tlx.nv.mma.m16n8k32.s32.s8", mma<M16N8<32, SignedByteOperand>>),
    symbol("tlx.nv.mma.m16n8k32.s32.u8", mma<M16N8<32, UnsignedByteOperand>>),
    symbol("tlx.nv.mma.m8n8k4.f64", mmaF64),
};
} // namespace

llvm::ArrayRef<Symbol> nvidiaOperations() {
  return kNvidia;
}

} // namespace tlx::sim
