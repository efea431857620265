// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// When and how ldmatrix and stmatrix move a tile (PTX ISA, "Warp-level matrix load instruction: ldmatrix").
//
// An 8x8 matrix is 8 rows of 16 bytes. Lane 8·m + i supplies the address of row i of matrix m. Thread T receives, in
// one 32-bit register a matrix, bytes 4·(T % 4) … of row T / 4; with .trans the 16-bit elements (2·(T % 4), T / 4) and
// (2·(T % 4) + 1, T / 4) of the matrix as stored. In bits, with e = log2(32 / bits) and offsets in elements:
//
//              offset bits inside a row                        row number
//   plain      register bits 0 … e-1, lane bits 0, 1           lane bits 2, 3, 4
//   .trans     lane bits 2, 3, 4                               register bit 0, lane bits 0, 1
//
// The offset bits must come from exactly those bits, in this order, and no other bit may touch them; the row number may
// lead anywhere. Further register bits number the matrices: two of them go to the address lanes, the rest to
// instructions.
#include "layout/access_p.h"

#include <algorithm>

namespace tlx::layout {
using namespace detail;

namespace {
struct Rows {
  llvm::SmallVector<uint64_t, 5> inRow; // images that must be 1, 2, 4, …
  llvm::SmallVector<uint64_t, 5> row;   // images of the three bits of the row number
};

/// The map allows whole rows: inRow steps through the low offset bits, and nothing else touches them.
bool rowsFit(const MemoryMap &map, const Rows &rows, unsigned packBits) {
  uint64_t low = (uint64_t(1) << rows.inRow.size()) - 1;
  for (size_t i = 0; i < rows.inRow.size(); ++i)
    if (rows.inRow[i] != uint64_t(1) << i) return false;
  for (uint64_t image : rows.row)
    if (image & low) return false;
  for (uint64_t image : llvm::ArrayRef<uint64_t>(map.reg).drop_front(packBits))
    if (image & low) return false;
  for (uint64_t image : map.warp)
    if (image & low) return false;
  return map.stridesAreMultiplesOf(int64_t(low) + 1); // rows of all boxes stay aligned
}

/// Instructions and their order once the register bits of the matrix number are chosen.
std::optional<MatrixPlan> build(const MemoryMap &map, const Rows &rows, unsigned packBits, bool transposed,
                                llvm::ArrayRef<unsigned> matrixBits) {
  MatrixPlan plan;
  plan.count = 1u << matrixBits.size();
  plan.transposed = transposed;
  llvm::SmallVector<uint64_t, 5> lanes = rows.row;
  for (unsigned bit : matrixBits) lanes.push_back(map.reg[bit]);
  lanes.resize(5, 0); // .x1 and .x2 ignore the addresses of the other lanes: repeat the valid ones

  llvm::SmallVector<unsigned, 8> instructionBits;
  for (unsigned bit = packBits; bit < map.reg.size(); ++bit)
    if (std::find(matrixBits.begin(), matrixBits.end(), bit) == matrixBits.end()) instructionBits.push_back(bit);
  std::vector<Target> targets;
  for (unsigned rep = 0; rep < map.repetitions(); ++rep)
    for (unsigned i = 0; i < 1u << instructionBits.size(); ++i) {
      unsigned first = rep << map.reg.size();
      for (unsigned b = 0; b < instructionBits.size(); ++b) first |= (i >> b & 1) << instructionBits[b];
      for (unsigned m = 0; m < plan.count; ++m) {
        unsigned reg = first;
        for (unsigned b = 0; b < matrixBits.size(); ++b) reg |= (m >> b & 1) << matrixBits[b];
        plan.order.push_back(reg >> packBits);
      }
      targets.push_back({combine(map.reg, first & ((1u << map.reg.size()) - 1)), rep});
    }
  std::optional<AccessMap> address = makeAccessMap(map, lanes, map.warp, targets);
  if (!address) return std::nullopt;
  plan.address = std::move(*address);
  return plan;
}

std::optional<MatrixPlan> planRows(const MemoryMap &map, unsigned packBits, bool transposed) {
  Rows rows;
  const llvm::ArrayRef<uint64_t> reg(map.reg), lane(map.lane);
  if (transposed) {
    rows.inRow.append(lane.begin() + 2, lane.begin() + 5);
    rows.row.append({reg[0], lane[0], lane[1]});
  } else {
    rows.inRow.append(reg.begin(), reg.begin() + packBits);
    rows.inRow.append({lane[0], lane[1]});
    rows.row.append(lane.begin() + 2, lane.begin() + 5);
  }
  if (!rowsFit(map, rows, packBits)) return std::nullopt;

  // The lowest register bits number the matrices: one instruction then fills consecutive registers of one fragment, which a matrix
  // instruction takes as they are (other orders cost a move a register). Copies (image 0) last. If box indices forbid a pair, the
  // next one.
  llvm::SmallVector<unsigned, 8> bits;
  for (unsigned bit = packBits; bit < map.reg.size(); ++bit) bits.push_back(bit);
  std::stable_partition(bits.begin(), bits.end(), [&](unsigned bit) { return map.reg[bit] != 0; });
  for (size_t i = 0; i < bits.size(); ++i)
    for (size_t j = i + 1; j < bits.size(); ++j)
      if (auto plan = build(map, rows, packBits, transposed, {bits[i], bits[j]})) return plan;
  for (unsigned bit : bits)
    if (auto plan = build(map, rows, packBits, transposed, {bit})) return plan;
  return build(map, rows, packBits, transposed, {});
}
} // namespace

std::optional<MatrixPlan> matrixPlan(const TileLayout &regs, const SharedLayout &mem, unsigned bits) {
  if (regs.bits(InDim::Lane) != 5 || (bits != 8 && bits != 16 && bits != 32)) return std::nullopt;
  const unsigned packBits = log2Floor(32 / bits);
  if (regs.bits(InDim::Register) < packBits) return std::nullopt;
  const MemoryMap map(regs, mem);
  if (auto plan = planRows(map, packBits, false)) return plan;
  if (bits == 16) return planRows(map, packBits, true);
  return std::nullopt;
}

BankReport bankWavefronts(const MatrixPlan &plan, unsigned bits, BankModel model) {
  // The rows of one instruction; the memory serves as many at a time as fill its banks (8 of them on 32 banks). The
  // worst instruction counts, in warp 0. Instructions with equal XOR parts whose add parts differ by whole bank lines
  // are alike.
  BankReport worst;
  const AccessMap &a = plan.address;
  const int64_t line = model.banks * 32 / bits;
  llvm::SmallVector<std::pair<uint32_t, int64_t>, 16> seen;
  llvm::SmallVector<int64_t, 32> offsets(plan.count * 8);
  for (const AccessMap::Part &instruction : a.registers) {
    const std::pair<uint32_t, int64_t> kind(instruction.xorBits, instruction.add % line);
    if (std::find(seen.begin(), seen.end(), kind) != seen.end()) continue;
    seen.push_back(kind);
    for (unsigned l = 0; l < offsets.size(); ++l) {
      AccessMap::Part part = instruction;
      for (unsigned i = 0; i < a.laneBases.size(); ++i)
        if (l >> i & 1) {
          part.add += a.laneBases[i].add;
          part.xorBits ^= a.laneBases[i].xorBits;
        }
      offsets[l] = part.add + part.xorBits;
    }
    const BankReport report = wavefronts(offsets, bits, 128, model.banks);
    if (seen.size() == 1 || report.wavefronts > worst.wavefronts) worst = report;
  }
  return worst;
}

} // namespace tlx::layout
