// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How a tile changes its layout: in registers, by shuffles inside warps, or through shared memory.
//
// Shuffles. A result register r of lane l holds the element x = T(r, l); the source layout F finds it at (r', l') =
// F⁻¹(x). A round delivers to each lane one register of its own choice, recv(l), from lane src(l), which offers one
// register, send(src(l)), whoever reads it. So rounds are possible if recv can be chosen such that what a lane wants is
// a function of whom it reads from. All is linear in the lane's bits: with src(l) and want(l) the two halves of
// F⁻¹(T(recv(l), l)), that is ker src ⊆ ker want. Where two lanes would read different registers of one lane, their
// difference u is made to read from different lanes instead, either because another lane has a copy (a kernel element
// of F) or by giving u another register first (recv(u) ≠ 0). Adding a constant c to recv then serves the other
// registers: 2^registerBits rounds in all.
#include "layout/gf2_p.h"

namespace tlx::layout {
using namespace detail;

namespace {
using Images = llvm::SmallVector<uint64_t, 8>;

Images imagesOf(const TileLayout &layout, const BitSpace &space, InDim dim) {
  return space.packAll(layout.bases(dim));
}

/// Result register → source register, where no thread moves anything.
std::optional<std::vector<unsigned>> planRegisters(const TileLayout &from, const TileLayout &to) {
  for (InDim dim : {InDim::Lane, InDim::Warp, InDim::Cta})
    if (from.bases(dim) != to.bases(dim)) return std::nullopt;
  const BitSpace space(from.shape());
  Span span;
  for (unsigned i = 0; i < from.bits(InDim::Register); ++i)
    span.insert(space.pack(from.bases(InDim::Register)[i]), uint64_t(1) << i);
  llvm::SmallVector<unsigned, 8> source; // by register bit of `to`
  for (const Coord &basis : to.bases(InDim::Register)) {
    const std::optional<uint64_t> at = span.solve(space.pack(basis));
    if (!at) return std::nullopt;
    source.push_back(unsigned(*at));
  }
  std::vector<unsigned> registers(to.registers());
  const unsigned bits = to.bits(InDim::Register);
  for (unsigned r = 0; r < registers.size(); ++r)
    registers[r] = (r >> bits << from.bits(InDim::Register)) + unsigned(combine(source, r & ((1u << bits) - 1)));
  return registers;
}

/// A place in a warp of the source, or a linear part of one: register bits and lane bits.
struct Place {
  uint64_t reg = 0, lane = 0;
  Place &operator^=(const Place &other) {
    reg ^= other.reg;
    lane ^= other.lane;
    return *this;
  }
};

/// The source seen from inside a warp: where an element is, and the differences of places that hold the same element.
class WarpSource {
public:
  WarpSource(const TileLayout &from, const BitSpace &space) : laneBits_(from.bits(InDim::Lane)) {
    // Lanes after registers: an element that the own registers can supply is looked for there.
    unsigned bit = laneBits_;
    for (uint64_t image : imagesOf(from, space, InDim::Register)) insert(image, uint64_t(1) << bit++);
    bit = 0;
    for (uint64_t image : imagesOf(from, space, InDim::Lane)) insert(image, uint64_t(1) << bit++);
  }
  std::optional<Place> find(uint64_t element) const {
    const std::optional<uint64_t> at = span_.solve(element);
    if (!at) return std::nullopt;
    return place(*at);
  }
  llvm::ArrayRef<Place> copies() const { return copies_; }

private:
  void insert(uint64_t image, uint64_t payload) {
    if (const std::optional<uint64_t> kernel = span_.insert(image, payload)) copies_.push_back(place(*kernel));
  }
  Place place(uint64_t payload) const { return {payload >> laneBits_, payload & ((uint64_t(1) << laneBits_) - 1)}; }
  unsigned laneBits_;
  Span span_;
  llvm::SmallVector<Place, 4> copies_;
};

std::optional<std::vector<ConversionPlan::Round>> planRounds(const TileLayout &from, const TileLayout &to) {
  // Warps and CTAs have to agree exactly: the rounds are functions of the lane only.
  for (InDim dim : {InDim::Warp, InDim::Cta})
    if (from.bases(dim) != to.bases(dim)) return std::nullopt;
  const BitSpace space(from.shape());
  const WarpSource source(from, space);
  const unsigned laneBits = from.bits(InDim::Lane), toBits = to.bits(InDim::Register);

  llvm::SmallVector<Place, 8> ofReg, ofLane; // where the element of each register and lane bit of `to` is
  for (uint64_t image : imagesOf(to, space, InDim::Register)) {
    const std::optional<Place> at = source.find(image);
    if (!at) return std::nullopt;
    ofReg.push_back(*at);
  }
  for (uint64_t image : imagesOf(to, space, InDim::Lane)) {
    const std::optional<Place> at = source.find(image);
    if (!at) return std::nullopt;
    ofLane.push_back(*at);
  }
  // A copy in the own lane is best.
  Span copyLanes;
  for (size_t i = 0; i < source.copies().size(); ++i) copyLanes.insert(source.copies()[i].lane, uint64_t(1) << i);
  for (unsigned u = 0; u < laneBits; ++u)
    if (const auto which = copyLanes.solve(ofLane[u].lane ^ uint64_t(1) << u))
      for (size_t i = 0; i < source.copies().size(); ++i)
        if (*which >> i & 1) ofLane[u] ^= source.copies()[i];

  // send maps the lanes read from to the registers wanted there. Lane bits that would want two registers of one lane
  // wait.
  Span send;
  llvm::SmallVector<uint64_t, 6> recv(laneBits, 0);
  llvm::SmallVector<unsigned, 6> waiting;
  for (unsigned u = 0; u < laneBits; ++u)
    if (send.insert(ofLane[u].lane, ofLane[u].reg).value_or(0)) waiting.push_back(u);
  for (unsigned u : waiting) {
    bool moved = false;
    auto move = [&](const Place &by, uint64_t reg) {
      if (moved || send.contains(ofLane[u].lane ^ by.lane)) return;
      ofLane[u] ^= by;
      recv[u] = reg;
      send.insert(ofLane[u].lane, ofLane[u].reg);
      moved = true;
    };
    for (const Place &copy : source.copies()) move(copy, 0);
    for (unsigned b = 0; b < toBits; ++b) move(ofReg[b], uint64_t(1) << b);
    if (!moved) return std::nullopt;
  }

  const llvm::SmallVector<uint64_t, 6> sendBases = send.function(laneBits);
  ConversionPlan::Round bases;
  for (unsigned u = 0; u < laneBits; ++u) {
    bases.sendReg.bases.push_back(unsigned(sendBases[u]));
    bases.srcLane.bases.push_back(unsigned(ofLane[u].lane));
    bases.recvReg.bases.push_back(unsigned(recv[u]));
  }
  std::vector<ConversionPlan::Round> rounds(size_t(1) << toBits, bases);
  for (unsigned c = 0; c < rounds.size(); ++c) {
    Place at;
    for (unsigned b = 0; b < toBits; ++b)
      if (c >> b & 1) at ^= ofReg[b];
    rounds[c].recvReg.constant = c;
    rounds[c].srcLane.constant = unsigned(at.lane);
    rounds[c].sendReg.constant = unsigned(at.reg ^ combine(sendBases, at.lane));
  }
  return rounds;
}

/// How many rounds in a row one 32-bit shuffle can serve: their low register bits are the same on both sides, in each
/// lane.
unsigned packedRounds(llvm::ArrayRef<ConversionPlan::Round> rounds, unsigned bits) {
  unsigned packed = 1;
  while (packed * 2 * bits <= 32 && packed * 2 <= rounds.size()) {
    for (unsigned c = 0; c < rounds.size(); ++c) {
      const ConversionPlan::Round &round = rounds[c], &first = rounds[c & ~packed];
      if ((round.sendReg.constant & packed) != (c & packed) || round.srcLane.constant != first.srcLane.constant)
        return packed;
    }
    for (const ConversionPlan::LaneFunction *f : {&rounds[0].sendReg, &rounds[0].recvReg})
      for (unsigned basis : f->bases)
        if (basis & packed) return packed;
    if ((rounds[0].sendReg.constant ^ rounds[packed].sendReg.constant) != packed) return packed;
    packed *= 2;
  }
  return packed;
}

unsigned rank(llvm::ArrayRef<unsigned> bases) {
  Span span;
  for (unsigned basis : bases) span.insert(basis);
  return span.dim();
}

/// Whether the rounds beat a trip through shared memory. In issue slots of a warp: a shuffle takes two, a register that
/// depends on the lane one select for each independent bit of it; the trip takes four for each 32 bits stored or loaded
/// (address, access, latency that few warps hide), and its two barriers some 64. Scratch memory, which competes with
/// pipeline stages, is not priced.
bool shufflesPay(const TileLayout &from, const TileLayout &to, llvm::ArrayRef<ConversionPlan::Round> rounds,
                 unsigned packed, unsigned bits) {
  const ConversionPlan::Round &round = rounds.back();
  bool ownLane = true;
  for (const ConversionPlan::Round &r : rounds) ownLane = ownLane && r.srcLane.constant == 0;
  for (unsigned u = 0; u < round.srcLane.bases.size(); ++u) ownLane = ownLane && round.srcLane.bases[u] == 1u << u;
  const unsigned words = std::max(1u, bits / 32);
  const unsigned each = (ownLane ? 0 : 2) + rank(round.sendReg.bases) + rank(round.recvReg.bases);
  const unsigned shuffle = rounds.size() / packed * to.repetitions() * words * each;
  const unsigned shared = 4 * ((from.registers() + to.registers()) * bits / 32) + 64;
  return shuffle <= shared;
}
} // namespace

ConversionPlan planConversion(const TileLayout &from, const TileLayout &to, unsigned bits, BankModel model) {
  assert(from.shape() == to.shape() && "a conversion keeps the shape");
  assert(from.bits(InDim::Lane) == to.bits(InDim::Lane) && from.bits(InDim::Warp) == to.bits(InDim::Warp) &&
         "a conversion keeps the threads");
  assert(from.bases(InDim::Cta) == to.bases(InDim::Cta) && "a conversion stays in its CTA");
  ConversionPlan plan;
  if (from == to) {
    plan.kind = ConversionKind::None;
  } else if (auto registers = planRegisters(from, to)) {
    plan.kind = ConversionKind::Registers;
    plan.registers = std::move(*registers);
  } else {
    if (auto rounds = planRounds(from, to)) {
      const unsigned packed = packedRounds(*rounds, bits);
      if (shufflesPay(from, to, *rounds, packed, bits)) {
        plan.kind = ConversionKind::Shuffle;
        plan.rounds = std::move(*rounds);
        plan.packed = packed;
        return plan;
      }
    }
    plan.kind = ConversionKind::Shared;
    plan.scratch = chooseSwizzle(from.shape(), {&from, &to}, bits, model);
  }
  return plan;
}

} // namespace tlx::layout
