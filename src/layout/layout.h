// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Layouts as linear maps over GF(2) (background: arXiv 2505.23819), with an odd factor per dimension.
//
// A tile extent is p·2^k with odd p ≤ 15. A TileLayout says which element each register of each thread holds: the bits of
// (register, lane, warp, cta) XOR basis coordinates together inside the 2^k part, and the p repetitions of a dimension
// are further registers. A SharedLayout says at which offset an element lies in memory: a GF(2) map inside a
// power-of-two box, plus an integer stride for each dimension's box index.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

namespace tlx::layout {

using Coord = llvm::SmallVector<int32_t, 4>;

enum class InDim : uint8_t { Register, Lane, Warp, Cta };
inline constexpr unsigned kInDims = 4;
inline constexpr InDim kAllInDims[kInDims] = {InDim::Register, InDim::Lane, InDim::Warp, InDim::Cta};

/// extent = odd · 2^bits with odd ≤ 15, or nullopt.
struct Extent {
  unsigned odd = 1;
  unsigned bits = 0;
  int64_t size() const { return int64_t(odd) << bits; }
};
std::optional<Extent> splitExtent(int64_t extent);

/// The distribution of a tile over registers and threads. Immutable; compare with ==.
///
/// Register number = rep · 2^registerBits + r, where rep counts the repetitions row-major (last dimension fastest).
/// A coordinate is rep_d · 2^k_d + XOR of the bases selected by the bits of r, lane, warp, cta. A zero basis means that
/// the bit does not matter: the element is replicated.
class TileLayout {
public:
  using Bases = std::array<std::vector<Coord>, kInDims>; // by InDim; one coordinate a bit

  TileLayout() = default;
  /// `shape` must split into extents, bases must stay inside the 2^k part and together reach all of it (asserted; use
  /// `check` for input from outside).
  TileLayout(llvm::ArrayRef<int64_t> shape, Bases bases);
  /// Why (shape, bases) is not a layout, or nothing.
  static std::optional<std::string> check(llvm::ArrayRef<int64_t> shape, const Bases &bases);

  unsigned rank() const { return shape_.size(); }
  llvm::ArrayRef<int64_t> shape() const { return shape_; }
  Extent extent(unsigned d) const { return *splitExtent(shape_[d]); }
  unsigned bits(InDim dim) const { return bases_[unsigned(dim)].size(); }
  llvm::ArrayRef<Coord> bases(InDim dim) const { return bases_[unsigned(dim)]; }
  const Bases &allBases() const { return bases_; }
  unsigned lanes() const { return 1u << bits(InDim::Lane); }
  unsigned warps() const { return 1u << bits(InDim::Warp); }
  /// Registers of one thread: Π odd_d · 2^registerBits.
  unsigned registers() const;
  /// Repetitions: Π odd_d.
  unsigned repetitions() const;

  /// The element that a register of a thread holds.
  Coord coordOf(unsigned reg, unsigned lane, unsigned warp, unsigned cta = 0) const;
  /// The register's own contribution (lane = warp = cta = 0): rep part added to the XOR of register bases.
  Coord registerCoord(unsigned reg) const { return coordOf(reg, 0, 0, 0); }
  /// Bits of `dim` whose basis is zero, as a mask: threads (or registers) that hold copies.
  unsigned freeMask(InDim dim) const;
  /// Bits of `dim` that are redundant given the bits before them (register, then lane, warp, cta): a superset of freeMask
  /// that also sees linearly dependent bases. Clear these bits of a thread's id to get the one that should store.
  unsigned redundantMask(InDim dim) const;

  bool operator==(const TileLayout &) const = default;
  /// The literal that `parseTileLayout` reads: linear(register = [[0, 1], …], lane = […], warp = […], cta = […]).
  std::string str() const;

private:
  llvm::SmallVector<int64_t, 4> shape_;
  Bases bases_;
};

// --- constructors -------------------------------------------------------------------------------------------------

/// Each thread holds sizePerThread elements in a row of `order` (fastest dimension first), lanes and warps tile the rest; all
/// five arguments are powers of two. Thread bits past the tile wrap (replicate), register bits past it are left out; what is
/// smaller repeats in registers, the 2^k part first (the fastest dimension of `order` first), then the odd factors.
TileLayout blocked(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<unsigned> sizePerThread,
                   llvm::ArrayRef<unsigned> lanes, llvm::ArrayRef<unsigned> warps, llvm::ArrayRef<unsigned> order);
/// The default for a shape: `perThread` elements of the fastest dimension (order.front()) a thread, lanes and then warps along
/// `order`.
TileLayout defaultBlocked(llvm::ArrayRef<int64_t> shape, unsigned perThread, llvm::ArrayRef<unsigned> order,
                          unsigned laneCount, unsigned warpCount);

/// Builds a layout from an instruction's own layout (`unit`, register and lane bases over `unitShape`) by tiling it: warps over
/// the tile as `warpsPerDim` in `warpOrder` (fastest first), the rest in registers in `registerOrder` (fastest first).
/// This is how MMA accumulators and operands are made; a warp bit whose dimension the operand lacks is a zero basis: such
/// dimensions are the entries of `warpsPerDim` past the tile's rank (A of an [M, N] grid: {warpsM, 1, warpsN}), and `warpOrder`
/// names them too. In each dimension the unit is lowest, then warps, then registers. A unit larger than the 2^k part of a dimension
/// does not tile it: the result then has rank 0 (shape() is empty), which the caller has to report.
TileLayout tileUnit(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<Coord> unitRegister, llvm::ArrayRef<Coord> unitLane,
                    llvm::ArrayRef<int64_t> unitShape, llvm::ArrayRef<unsigned> warpsPerDim,
                    llvm::ArrayRef<unsigned> warpOrder, llvm::ArrayRef<unsigned> registerOrder);

/// The layout of x[…, None, …] for x in `layout`, and its inverse with the dimension removed (as after a reduction over it,
/// where thread bits along the dimension become zero bases and register bits along it go away).
TileLayout expandDims(const TileLayout &layout, unsigned axis);
TileLayout slice(const TileLayout &layout, unsigned axis);
/// The layout in which reading `layout` with one dimension of extent 1 grown to `extent` costs nothing: new registers only.
TileLayout broadcastTo(const TileLayout &layout, llvm::ArrayRef<int64_t> shape);
/// Result dimension i is source dimension perm[i]. Repetitions count in the order of the new dimensions: where two dimensions with
/// odd factors swap, register numbers change (find the source register by coordinate).
TileLayout transpose(const TileLayout &layout, llvm::ArrayRef<unsigned> perm);
/// Row-major reshape; register numbers stay. nullopt if it is not free: odd factors that would mix with bits.
std::optional<TileLayout> reshape(const TileLayout &layout, llvm::ArrayRef<int64_t> shape);
/// join adds a last dimension of 2 held in the fastest register bit; split is its inverse, nullopt if that dimension is
/// not exactly one register bit (which may be any; the two results of register r hold it clear and set).
TileLayout join(const TileLayout &layout);
std::optional<TileLayout> split(const TileLayout &layout);

/// Elements of consecutive coordinates along `dim` that lie in consecutive registers starting at multiples of that number:
/// the widest vector that an access along `dim` can use. At most `limit`.
unsigned contiguousRegisters(const TileLayout &layout, unsigned dim, unsigned limit);

// --- literals -------------------------------------------------------------------------------------------------

/// Reads a layout literal for a tile of this shape: linear(…) as printed, or
/// blocked(size = [1, 8], lanes = [4, 8], warps = [4, 1], order = [1, 0]). In linear(…) a name left out has no bits. On failure
/// `error` says why, in one lower-case sentence; any text and shape are safe.
std::optional<TileLayout> parseTileLayout(llvm::StringRef text, llvm::ArrayRef<int64_t> shape, std::string &error);

// --- shared memory --------------------------------------------------------------------------------------------

/// Where an element lies in memory, in elements: G(coordinate mod box) + Σ (coordinate_d / box_d) · boxStride_d, with G linear
/// over GF(2) and a bijection of the box.
class SharedLayout {
public:
  SharedLayout() = default;
  /// `bases[d][i]` = offset bits of coordinate bit i of dimension d inside the box; boxStride in elements, by dimension.
  SharedLayout(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> box, std::vector<std::vector<uint32_t>> bases,
               llvm::ArrayRef<int64_t> boxStride);
  /// Why the arguments are not a shared layout (for input from outside; the constructor asserts it), or nothing. A box divides the
  /// 2^k part of its dimension, and boxes must not overlap.
  static std::optional<std::string> check(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> box,
                                          const std::vector<std::vector<uint32_t>> &bases,
                                          llvm::ArrayRef<int64_t> boxStride);
  /// Row-major in `order` (fastest first), boxes of the 2^k part (themselves row-major), no swizzle.
  static SharedLayout rowMajor(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<unsigned> order);
  /// The classical XOR swizzle of rows: within rows of the fastest dimension, vector column ^= (row / perPhase) % maxPhase, with
  /// columns of `vec` elements. The row is the next dimension of `order`.
  static SharedLayout swizzled(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<unsigned> order, unsigned vec,
                               unsigned perPhase, unsigned maxPhase);

  unsigned rank() const { return shape_.size(); }
  llvm::ArrayRef<int64_t> shape() const { return shape_; }
  llvm::ArrayRef<int64_t> box() const { return box_; }
  llvm::ArrayRef<int64_t> boxStride() const { return boxStride_; }
  const std::vector<std::vector<uint32_t>> &bases() const { return bases_; }
  /// Elements of memory taken (max offset + 1).
  int64_t elements() const;
  int64_t offsetOf(llvm::ArrayRef<int32_t> coord) const;
  SharedLayout transposed(llvm::ArrayRef<unsigned> perm) const; // the same bytes seen with dimensions permuted
  /// The same bytes seen in another shape of as many elements, in row-major order; nullopt where that is no such layout: an odd factor of an
  /// extent leaves its place, or a dimension would go on behind a gap.
  std::optional<SharedLayout> reshaped(llvm::ArrayRef<int64_t> shape) const;
  /// The same bytes seen as elements of another size, the last extent changed; nullopt if what becomes one element is not contiguous.
  std::optional<SharedLayout> reinterpreted(unsigned fromBytes, unsigned toBytes) const;

  bool operator==(const SharedLayout &) const = default;
  std::string str() const; // shared(box = […], bases = [[…], […]], stride = […])

private:
  llvm::SmallVector<int64_t, 4> shape_, box_, boxStride_;
  std::vector<std::vector<uint32_t>> bases_;
};
std::optional<SharedLayout> parseSharedLayout(llvm::StringRef text, llvm::ArrayRef<int64_t> shape, std::string &error);

/// An access of registers to memory as code computes it: offset = addT + addR + (xorT ^ xorR), in elements, where the T
/// parts are linear in the bits of lane and warp (bases below) and the R parts are constants of a register.
struct AccessMap {
  struct Part {
    int64_t add = 0;
    uint32_t xorBits = 0;
    bool operator==(const Part &) const = default;
  };
  std::vector<Part> laneBases, warpBases; // one a bit; add parts add up, xor parts XOR up
  std::vector<Part> registers;            // one a register
};
/// The addresses are those of CTA 0: a CTA's own memory holds its own part. Bits of a register that no thread bit touches are in its
/// add part (an immediate of the instruction); xorBits is what has to stay an XOR.
/// nullopt if a box index mixes thread and register bits of one dimension in a way that is not a sum (choose other boxes).
std::optional<AccessMap> accessMap(const TileLayout &regs, const SharedLayout &mem);

/// How registers move to or from memory: `vector` elements at a time, vector i taking registers order[i·vector …].
struct VectorPlan {
  unsigned vector = 1;         // elements in one access
  std::vector<unsigned> order; // register numbers, `vector` consecutive offsets at a time
};
/// The widest plan (at most maxBytes an access, aligned by construction) for elements of `bits` bits. All registers are in
/// `order`, copies too (redundantMask tells which stores can be left out).
VectorPlan vectorPlan(const TileLayout &regs, const SharedLayout &mem, unsigned bits, unsigned maxBytes = 16);

/// Bank behaviour of one warp-wide access of `vector` elements a lane. `wavefronts` counts the passes the memory needs,
/// `minimum` the passes that its bytes need at least.
struct BankReport {
  unsigned wavefronts = 0, minimum = 0;
};
struct BankModel {
  unsigned banks = 32; // of 4 bytes
};
/// The worst over the register vectors of `plan` in warp 0. Lanes are served in groups so that a group moves at most banks·4 bytes
/// (8 lanes at 16 bytes, 16 at 8, 32 at 4 or less); lanes that read the same word share it.
BankReport bankWavefronts(const TileLayout &regs, const SharedLayout &mem, const VectorPlan &plan, unsigned bits,
                          BankModel model = {});

/// What a swizzle may not change.
struct SwizzleLimits {
  std::optional<unsigned> fastest; // the dimension that has to be
  unsigned vector = 1;             // aligned groups of that many elements stay whole
};
/// A swizzle of a row-major tile (order: fastest first) for which an access with each of `accesses` has minimal
/// wavefronts and the widest vectors that it can have; the best found where no layout has all. `bits` of an element. Accesses that
/// ldmatrix or stmatrix can do (matrixPlan, 32 banks) are counted as such.
SharedLayout chooseSwizzle(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<const TileLayout *> accesses, unsigned bits,
                           BankModel model = {}, SwizzleLimits limits = {});

// --- copies whose lanes write side by side (CDNA loads straight into LDS) --------------------------------------------

/// The layout of a tile in registers for which `vector` elements a lane, lane after lane and then warp after warp, are `mem` in its own
/// order: what such a copy needs of its source, swizzle included. nullopt if a box of `mem` is less than its 2^k part, or less than what
/// one warp moves at a time.
std::optional<TileLayout> sideBySide(const SharedLayout &mem, unsigned vector, unsigned lanes, unsigned warps);
/// Whether registers r … r + vector - 1 (r a multiple of it) of the lanes of a warp lie side by side in `mem`, for every r and warp.
bool isSideBySide(const TileLayout &regs, const SharedLayout &mem, unsigned vector);
/// Elements a lane moves at a time in such a copy: 16 bytes or 4, at most `widest` bits, of registers that hold `vec` consecutive elements
/// of global memory; 0 if the layouts allow no such copy.
unsigned directVector(const TileLayout &regs, const SharedLayout &mem, unsigned bits, unsigned vec, unsigned widest);

// --- ldmatrix and stmatrix (PTX ISA, "Warp-level matrix load/store") ------------------------------------------

/// Registers of 32 bits that one ldmatrix.xN fills: matrix m supplies the 32-bit register `order[i·count + m]` (a group of 32/bits
/// tile registers, numbered by its first tile register / (32/bits)). `rowBases`: offset parts of the lane's row address by
/// lane bit; `registers[i]`: the constant part of instruction i; `warpBases` as in AccessMap.
struct MatrixPlan {
  unsigned count = 4;      // matrices an instruction: 1, 2 or 4
  bool transposed = false; // .trans (16-bit elements only)
  std::vector<unsigned> order;
  AccessMap address; // address.registers has one entry an instruction
};
/// The plan with which ldmatrix (or stmatrix: the same map) moves `regs` from `mem`, or nullopt where the map does not allow it:
/// each 8x8 matrix row must be 16 contiguous, 16-byte aligned bytes.
std::optional<MatrixPlan> matrixPlan(const TileLayout &regs, const SharedLayout &mem, unsigned bits);
BankReport bankWavefronts(const MatrixPlan &plan, unsigned bits, BankModel model = {});

// --- conversions ------------------------------------------------------------------------------------------------

enum class ConversionKind : uint8_t {
  None,      // same layout
  Registers, // each thread already holds its elements: result register i is source register registers[i]
  Shuffle,   // inside a warp, by shuffles; a round whose srcLane is the identity needs none, only selects
  Shared     // through shared memory
};
/// One shuffle: every lane sends register `send` selected by its lane bits and receives from `source lane`.
struct ConversionPlan {
  ConversionKind kind = ConversionKind::Shared;
  std::vector<unsigned> registers; // Registers; all of `to`, odd repetitions included
  /// Shuffle, as a sequence of rounds. Round k: lane l offers its source register sendReg[k](l) and reads lane srcLane[k](l); the
  /// value is result register recvReg[k](l). Each is linear in the lane's bits: constant ^ XOR of bases. All rounds have the
  /// same bases, only constants differ, so select trees can be shared.
  struct LaneFunction {
    unsigned constant = 0;
    llvm::SmallVector<unsigned, 6> bases; // by lane bit
    unsigned operator()(unsigned lane) const {
      unsigned v = constant;
      for (unsigned i = 0; i < bases.size(); ++i)
        if (lane >> i & 1) v ^= bases[i];
      return v;
    }
  };
  struct Round {
    LaneFunction sendReg, srcLane, recvReg;
  };
  /// Register numbers inside one repetition; the same rounds serve each repetition (number rep · 2^registerBits + r, each side with
  /// its own registerBits). Every lane receives every register of `to` exactly once.
  std::vector<Round> rounds;
  /// An opportunity, not a duty: rounds come in groups of `packed` that read the same lanes, and sendReg and recvReg of the i-th are
  /// those of the first plus i. So one 32-bit shuffle of `packed` small elements can serve a group.
  unsigned packed = 1;
  /// Shared: the scratch layout, with a computed swizzle.
  SharedLayout scratch;
};
/// How `from` becomes `to`: the cheapest kind that applies. Both have the same shape, lane, warp and cta bits. Elements stay in
/// their CTA; layouts that differ in cta bases need a copy through cluster memory, which is no conversion (asserted). Any holder
/// of a copy may supply an element, and all holders of `to` get it.
ConversionPlan planConversion(const TileLayout &from, const TileLayout &to, unsigned bits, BankModel model = {});

} // namespace tlx::layout
