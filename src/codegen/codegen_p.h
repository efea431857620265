// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to src/codegen: the state of one run. A value of the IR is a list of LLVM values: one for a scalar, a pointer
// or a buffer (its i32 byte offset in the window), one for each register of its layout for a tile. Floats are half,
// bfloat, float and double, fp8 is i8, i1 is i1, pointers are ptr addrspace(1). Each file of the folder emits one group
// of operations.
#pragma once
#include <map>
#include <optional>
#include <tuple>

#include "codegen/codegen.h"
#include "features/wgmma.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/IR/DIBuilder.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/Support/Allocator.h"

namespace tlx::codegen {

using Regs = llvm::ArrayRef<llvm::Value *>;
using RegList = llvm::SmallVector<llvm::Value *, 32>;

class Generator {
public:
  Generator(llvm::LLVMContext &context, const ir::Module &module, const features::Target &target,
            const SourceManager &sources, const Options &options, KernelMetadata &metadata, Diagnostics &diagnostics);
  std::unique_ptr<llvm::Module> run();

private:
  // --- codegen.cpp: the kernel, values, dispatch ------------------------------------------------------------------
  bool makeKernel();
  void makeDebugInfo();
  llvm::DebugLoc debugLoc(Loc loc);
  void emitBlock(const ir::Block &block);
  void emitOp(const ir::Op &op);
  Regs get(const ir::Value *v) const;
  Regs operand(const ir::Op &op, unsigned i) const { return get(op.operand(i)); }
  llvm::Value *scalarOperand(const ir::Op &op, unsigned i) const { return operand(op, i).front(); }
  void set(const ir::Value *v, Regs regs);
  /// Both report and give the results values, so that emission goes on; its output is thrown away. fail: our own
  /// mistake or a pass's.
  void fail(const ir::Op &op, llvm::StringRef what);
  void unsupported(const ir::Op &op, ir::Type type);
  void poison(const ir::Op &op);
  const ir::Op *lastUnsupported = nullptr;

  llvm::Type *registerType(ir::Type element); // of one element in a register
  llvm::Type *memoryType(ir::Type element);   // and in memory: i1 is i8
  llvm::Value *device(llvm::StringRef name, llvm::ArrayRef<llvm::Value *> args);
  llvm::Value *intrinsic(llvm::Intrinsic::ID id, llvm::ArrayRef<llvm::Value *> args);
  bool nvidia() const { return target.vendor == features::Vendor::Nvidia; }
  /// Of the code that is being emitted: a task's, or the kernel's own.
  unsigned threads() const { return scope.warps * module.kernel.warpSize; }
  unsigned laneBits() const { return llvm::Log2_32(module.kernel.warpSize); }
  unsigned threadBits() const { return llvm::Log2_32(threads()); }
  /// Runs `emit` in a block that threads enter where `condition` holds (null: all threads, no block).
  void emitIf(llvm::Value *condition, llvm::function_ref<void()> emit);
  /// Runs `emit` with the builder in the prologue: what depends on the thread alone is computed there once.
  llvm::Value *inPrologue(llvm::function_ref<llvm::Value *()> emit);
  /// The same at the function's entry, for all scopes: allocas, what dispatch needs.
  llvm::Value *atEntry(llvm::function_ref<llvm::Value *()> emit);

  // --- tasks.cpp: warps that run different code
  void emitAsyncTasks(const ir::Op &op);
  void describeForReports();
  void emitTask(const ir::Op &task, bool followed);
  void emitWorkers();
  void emitNamedBarrier(const ir::Op &op);
  void emitWarpAny(const ir::Op &op);
  void changeRegisters(int64_t from, int64_t to);
  void meetAll();
  llvm::Value *meetAtCommand(std::optional<unsigned> number);
  std::vector<const ir::Op *> regionsIn(const ir::Op &op) const;
  void leaveCommands(const ir::Op &op);
  void dispatch(const ir::Op &tasks);
  void dispatchCommands(llvm::ArrayRef<const ir::Op *> regions);
  unsigned freeBarrier();
  std::vector<const ir::Op *> taskRegions; // async_tasks, in order
  unsigned usedBarriers = 0;               // named barriers, a bit each
  unsigned allBarrier = 0;                 // where all warps of the CTA meet

  // --- threads.cpp: thread ids and what layouts make of them -------------------------------------------------------
  llvm::Value *threadId();
  llvm::Value *laneId();
  llvm::Value *warpIndex();                                                            // uniform
  llvm::Value *perReplica(llvm::ArrayRef<int64_t> values, llvm::Type *type = nullptr); // null: i32
  llvm::Value *plannedOffset(const ir::Op &op);
  llvm::Value *warpOfCta(); // the same in the whole CTA
  llvm::Value *uniform(llvm::Value *v);
  llvm::Value *elected(); // i1: one lane of each warp
  llvm::Value *leader();  // i1: the thread that issues what happens once a CTA
  llvm::Value *smemBase();
  /// A sum over the bits of `id` (the thread's id, or the lane's) that are set: entry i for bit i, combined by XOR.
  /// Lives in the prologue.
  struct ThreadPart {
    llvm::Value *value = nullptr;
    uint32_t possible = 0; // bits that can be set
  };
  ThreadPart threadXor(llvm::ArrayRef<uint32_t> perBit);
  llvm::Value *threadSum(llvm::ArrayRef<int64_t> perBit);
  /// Coordinates of an element: i32.
  llvm::Value *coordinate(const layout::TileLayout &layout, unsigned reg, unsigned dim, int64_t plus = 0);
  /// Entries for the bits of the thread id: lanes, then warps.
  template <typename T, typename F> llvm::SmallVector<T, 10> perThreadBit(const layout::TileLayout &layout, F basis);
  /// For each register the first one that holds the same element: itself, for all but copies.
  llvm::ArrayRef<unsigned> canonicalRegisters(const layout::TileLayout &layout);
  /// Bits of the thread id whose threads hold copies only. Null layout: a scalar, all bits.
  unsigned redundantThreads(const layout::TileLayout *layout);
  /// i1: this thread is the first that holds its elements; null if all are.
  llvm::Value *isFirstHolder(const layout::TileLayout *layout);
  llvm::Value *threadMaskIsZero(unsigned mask);
  /// Register of `layout` by row-major element index, for thread 0: -1 where another thread holds it.
  llvm::ArrayRef<int> registerOfElement(const layout::TileLayout &layout);
  int registerAt(const layout::TileLayout &layout, llvm::ArrayRef<int32_t> coord);
  static int64_t linearIndex(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int32_t> coord);

  // --- shuffles.cpp -------------------------------------------------------------------------------------------------
  /// Each lane gets the values of another lane: `source` is the lane (i32). Narrow values are packed, wide ones split.
  RegList shuffle(Regs values, llvm::Value *source);
  RegList shuffleXor(Regs values, unsigned laneMask);
  RegList shuffleWith(Regs values, llvm::function_ref<llvm::Value *(llvm::Value *)> word);
  /// values[constant ^ XOR of the bases of the lane's set bits], by selects on parities of the lane.
  llvm::Value *selectByLane(Regs values, unsigned constant, llvm::ArrayRef<unsigned> bases);
  void emitConvertLayout(const ir::Op &op);

  // --- values.cpp: constants, ids, shapes ---------------------------------------------------------------------------
  llvm::Constant *constantOf(const ir::Op &op);
  void emitConstant(const ir::Op &op);
  void emitProgramId(const ir::Op &op);
  void emitNumPrograms(const ir::Op &op);
  void emitArange(const ir::Op &op);
  void emitSplat(const ir::Op &op);
  void emitShape(const ir::Op &op); // expand_dims broadcast reshape trans
  void emitJoin(const ir::Op &op);
  void emitSplit(const ir::Op &op);
  /// Result registers as operand registers, where `source` maps the coordinate of an element of `to` to that in `from`.
  std::optional<llvm::SmallVector<unsigned, 32>>
  renumber(const layout::TileLayout &to, const layout::TileLayout &from,
           llvm::function_ref<layout::Coord(const layout::Coord &)> source);

  // --- arithmetic.cpp, integer.cpp, math.cpp
  // ----------------------------------------------------------------------------
  using Args = llvm::ArrayRef<llvm::Value *>;
  void emitElementwise(const ir::Op &op);
  llvm::Value *emitElement(const ir::Op &op, Args args);
  llvm::Value *integerOp(const ir::Op &op, ir::Scalar type, Args args);
  llvm::Value *floatOp(const ir::Op &op, ir::Scalar type, Args args);
  llvm::Value *compare(const ir::Op &op, Args args);
  llvm::Value *divisor(llvm::Value *a, llvm::Value *b, bool isSigned, bool checked);
  llvm::Value *divFloor(llvm::Value *a, llvm::Value *b, bool isSigned, bool checked);
  llvm::Value *modFloor(llvm::Value *a, llvm::Value *b, bool isSigned, bool checked);
  llvm::Value *cdiv(llvm::Value *a, llvm::Value *b, bool isSigned, bool checked);
  llvm::Value *shift(ir::Opcode opcode, llvm::Value *a, llvm::Value *amount, bool isSigned);
  llvm::Value *mathF32(const ir::Op &op, Args args);
  llvm::Value *mathF64(const ir::Op &op, Args args);
  llvm::Value *expF64(llvm::Value *x, bool base2);
  llvm::Value *logF64(llvm::Value *x, bool base2);
  llvm::Value *f64(double v) { return llvm::ConstantFP::get(b.getDoubleTy(), v); }
  llvm::Value *f32(double v) { return llvm::ConstantFP::get(b.getFloatTy(), v); }

  // --- cast.cpp, fp8.cpp
  // ------------------------------------------------------------------------------------------------
  void emitCast(const ir::Op &op);
  llvm::Value *bf16ToF32(llvm::Value *v);
  llvm::Value *castScalar(llvm::Value *v, ir::Scalar from, ir::Scalar to, bool towardZero = false);
  llvm::Value *intToFloat(llvm::Value *v, bool isSigned, ir::Scalar to, bool towardZero);
  llvm::Value *floatToInt(llvm::Value *v, ir::Scalar from, ir::Scalar to);
  llvm::Value *truncateFloat(llvm::Value *v, llvm::Type *to, bool towardZero);
  llvm::Value *f64ToF32Odd(llvm::Value *v);
  llvm::Value *isNan(llvm::Value *v) { return b.CreateFCmpUNO(v, v); }
  llvm::Value *fp8ToF32(llvm::Value *v, ir::Scalar from);
  llvm::Value *f32ToFp8(llvm::Value *v, ir::Scalar to, bool towardZero);

  // --- global.cpp
  // -------------------------------------------------------------------------------------------------------
  void emitLoad(const ir::Op &op);
  void emitStore(const ir::Op &op);
  /// A vector access that the mask may cut: from register `first` on; `cut`: some but not all of its elements are true.
  struct Edge {
    unsigned first;
    llvm::Value *cut;
  };
  /// The cache or eviction hint of an access as its call carries it to the target: "" if there is none.
  std::string hintOf(const ir::Op &op);
  llvm::Value *hinted(llvm::Value *call, llvm::StringRef hint);
  void emitEdges(llvm::ArrayRef<Edge> edges, llvm::function_ref<void(const Edge &)> emit);
  /// A register after emitEdges: as it was, or as it is from there.
  llvm::Value *mergeEdge(llvm::Value *whole, llvm::Value *part);
  llvm::BasicBlock *edgeFrom = nullptr, *edgeBlock = nullptr;
  RegList loadRegisters(const ir::Op &op, Regs pointers, Regs mask, Regs other, ir::Type element,
                        const layout::TileLayout *layout);
  /// The type that moves `bytes` bytes in one access: i8, i16, i32, <2 x i32>, <4 x i32>.
  llvm::Type *accessType(unsigned bytes);
  /// Registers of one element type as one value of `type`, and back. Bits in order, lowest first.
  llvm::Value *pack(Regs values, llvm::Type *type);
  void unpack(llvm::Value *value, llvm::Type *element, unsigned count, llvm::SmallVectorImpl<llvm::Value *> &out);

  // --- atomics.cpp
  // ------------------------------------------------------------------------------------------------------
  void emitAtomic(const ir::Op &op);
  llvm::Value *emitOneAtomic(const ir::Op &op, llvm::Value *pointer, llvm::ArrayRef<llvm::Value *> data);
  RegList shareAtomicResults(const ir::Op &op, Regs owned, const layout::TileLayout *layout);
  llvm::SyncScope::ID scopeOf(const ir::Op &op);

  // --- local.cpp
  // --------------------------------------------------------------------------------------------------------
  /// Addresses of the accesses of one tile to one buffer.
  struct Addresses {
    std::vector<llvm::Value *> byXor; // thread part for each distinct xorBits of registers, in the prologue
    std::vector<std::pair<unsigned, int64_t>> registers; // index into byXor, bytes to add
  };
  using AddressKey = std::tuple<const layout::TileLayout *, const layout::SharedLayout *, unsigned, bool>;
  struct LocalPlan {
    layout::VectorPlan vector;
    std::optional<layout::MatrixPlan> matrix;
    Addresses addresses; // by register, or by instruction of `matrix`
  };
  const LocalPlan *localPlan(const ir::Op &op, const layout::TileLayout *regs, const layout::SharedLayout *mem,
                             unsigned bits, bool matrices);
  Addresses makeAddresses(const layout::AccessMap &map, unsigned bytes);
  /// Caches the pointers of one op: the buffer's offset is added once for each XOR part.
  struct AddressCache {
    llvm::Value *buffer;
    llvm::SmallVector<llvm::Value *, 8> pointers;
  };
  llvm::Value *address(const Addresses &addresses, unsigned index, AddressCache &cache);
  void emitLocalAlloc(const ir::Op &op);
  void emitSubView(const ir::Op &op);
  void emitLocalSlice(const ir::Op &op);
  void emitStorageView(const ir::Op &op);
  /// Where element `at` of a buffer lies, in elements.
  llvm::Value *elementOffset(const layout::SharedLayout &memory, llvm::ArrayRef<llvm::Value *> at);
  void emitIndexed(const ir::Op &op); // local_gather and local_scatter
  void emitLocalLoad(const ir::Op &op);
  void emitLocalStore(const ir::Op &op);
  void storeRegisters(const ir::Op &op, const ir::Value *buffer, Regs values, ir::Type element,
                      const layout::TileLayout *layout);
  void emitAsyncCopy(const ir::Op &op);
  void emitBarrier(const ir::Op *op = nullptr);
  void emitAsync(const ir::Op &op); // commit and wait
  /// Bits of an element in memory.
  static unsigned memoryBits(ir::Type type) { return ir::scalarBytes(type.scalar()) * 8; }
  /// A buffer's offset in units of 16 bytes.
  llvm::Value *bufferUnits(const ir::Value *buffer);

  // --- async.cpp: mbarriers, TMA, regions of one thread
  void emitSingle(const ir::Op &op);
  void emitAllocBarriers(const ir::Op &op);
  void emitBarrierOp(const ir::Op &op);
  void emitBarrierWait(const ir::Op &op, llvm::Value *barrier); // debug_wait.cpp
  void giveUpLate(const ir::Op &op, llvm::Value *start, llvm::BasicBlock *wait);
  unsigned waitSite(const ir::Op &op, int64_t replica);
  llvm::Value *waitRecords = nullptr; // an argument, under a debug time-out
  void emitAsyncDesc(const ir::Op &op);
  void emitPrefetch(const ir::Op &op);
  void emitBulkCopy(const ir::Op &op);
  void emitFence(const ir::Op &op);
  /// The hint of an asynchronous access, as the units take it.
  llvm::Value *cachePolicy(const ir::Op &op);
  llvm::DenseMap<const ir::Value *, std::vector<uint32_t>> boxes; // of tensor maps
  void emitEdgeStore(const ir::Op &op);
  /// i1: rows of the tensor are a multiple of 16 bytes; null where the kernel does not get its extents.
  llvm::Value *storedByTma(const ir::Op &op);
  llvm::DenseMap<const ir::Value *, llvm::SmallVector<llvm::Value *, 12>> descriptorFields; // pointer, strides, extents
  void emitAsyncStore(const ir::Op &op);
  llvm::Value *sharedPointer(llvm::Value *offset);
  bool describe(const ir::Value &argument, DescriptorInfo &info);
  bool insideSingle = false;
  std::vector<const ir::Value *> tensorMaps; // arguments
  bool mapsFetched = false;

  // --- wgmma.cpp
  struct AccumulatorBlock {
    int64_t m, n;                    // of warp 0
    std::vector<unsigned> registers; // of the tile, in the order of the instruction's fragment
  };
  struct Matrix;
  void findAccumulators();
  std::optional<features::WgmmaPlan> wgmmaPlan(ir::Type acc, int64_t k, unsigned operandBits);
  llvm::ArrayRef<AccumulatorBlock> accumulatorBlocks(ir::Type type);
  /// The allocas of a value that may be in flight; empty for all others.
  RegList accumulatorOf(const ir::Value *v) const;
  void storeAccumulator(Regs pointers, const ir::Value *from);
  bool moveToAccumulator(const ir::Value *to, const ir::Value *from);
  llvm::Value *groupOffset(const layout::TileLayout &tile, const layout::SharedLayout &memory, unsigned dim,
                           unsigned bits);
  Matrix matrix(const ir::Op &op, unsigned operand, bool rowsOfD, const layout::TileLayout &acc);
  llvm::Value *descriptorAt(const Matrix &m, int64_t row, int64_t k);
  void emitAsyncDot(const ir::Op &op);
  void emitAsyncDotWait(const ir::Op &op);
  llvm::Value *pinnedBy(const ir::Op &wait);

  // --- direct_copy.cpp: AMD
  /// Addresses of a tile as a wave's loads straight into LDS take them.
  struct DirectBase {
    const ir::Block *block = nullptr; // where it was made
    llvm::Value *start = nullptr;     // i64, the same in all lanes
    RegList offsets;                  // i32, one a vector of registers
    llvm::Value *near = nullptr;      // i1: they fit, in all lanes
  };
  llvm::Value *waveId();
  const DirectBase &directBase(const ir::Op &op, const ir::Value *tile, unsigned vec);
  llvm::SmallVector<llvm::Value *, 16> waveStarts(const ir::Op &op, const layout::AccessMap &map, unsigned vec,
                                                  unsigned bytes);
  void emitDirectCopy(const ir::Op &op, unsigned vec);
  void emitCountedWait(const ir::Op &op);
  void emitCountedBarrier();

  // --- dot.cpp, reduce.cpp
  // ------------------------------------------------------------------------------------------------
  void emitDot(const ir::Op &op);
  void emitMma(const ir::Op &op, const features::MmaInstruction &mma);
  void emitScalarDot(const ir::Op &op);
  llvm::Value *toTf32(llvm::Value *v);
  void emitReduce(const ir::Op &op);
  void emitScan(const ir::Op &op);
  /// What the thread holds whose number differs in these bits of the warp; through shared memory behind the planned part.
  RegList exchangeWarps(const ir::Op &op, Regs values, unsigned threadMask);
  RegList inlineRegion(const ir::Block &body, Regs args);

  // --- control.cpp, print.cpp
  // -----------------------------------------------------------------------------------------------
  void emitFor(const ir::Op &op);
  void emitWhile(const ir::Op &op);
  void emitIfOp(const ir::Op &op);
  RegList flatten(llvm::ArrayRef<ir::Value *> values) const;
  /// The registers of `from` that flow into `to`; accumulators in flight flow through their memory.
  RegList flow(llvm::ArrayRef<ir::Value *> to, llvm::ArrayRef<ir::Value *> from);
  /// Phis for the registers of `values` in the current block, bound to them.
  llvm::SmallVector<llvm::PHINode *, 32> makePhis(llvm::ArrayRef<ir::Value *> values, Regs like);
  llvm::BasicBlock *newBlock(const char *name);
  void emitPrint(const ir::Op &op);
  void emitAssert(const ir::Op &op);
  void printLine(llvm::StringRef format, llvm::ArrayRef<std::pair<llvm::Value *, ir::Type>> values);

  llvm::LLVMContext &context;
  const ir::Module &module;
  const features::Target &target;
  const SourceManager &sources;
  const Options &options;
  KernelMetadata &metadata;
  Diagnostics &diagnostics;

  std::unique_ptr<llvm::Module> out;
  llvm::IRBuilder<> b;
  llvm::Function *function = nullptr;
  std::array<llvm::Value *, 3> gridArgs{};

  /// Threads that run the same code: the kernel's own, or a task's. What depends on the thread alone is computed once, in the scope's
  /// prologue.
  struct Scope {
    unsigned warps = 0, start = 0, replicas = 1; // the first warp of all replicas
    unsigned replicaWarps = 0;                   // of which an issuer uses one
    llvm::BasicBlock *prologue = nullptr;
    std::vector<int64_t> barriers;                          // its named barrier, of each replica
    llvm::DenseMap<unsigned, llvm::Value *> prologueValues; // by the keys of threads.cpp
    std::map<std::vector<int64_t>, ThreadPart> threadParts;
    std::map<AddressKey, LocalPlan> localPlans;
    llvm::Value *wave = nullptr; // the warp's number, uniform
    std::map<std::pair<const ir::Value *, unsigned>, DirectBase> directBases;
  } scope;
  llvm::Value *rawThread = nullptr, *rawWarp = nullptr; // in the CTA

  std::unique_ptr<llvm::DIBuilder> debug;
  llvm::DISubprogram *subprogram = nullptr;
  llvm::DenseMap<std::pair<uint32_t, unsigned>, llvm::DIScope *> fileScopes; // by file and region
  unsigned region = 0; // inside of a task: the number of its async_tasks, from 1

  llvm::BumpPtrAllocator arena;
  llvm::DenseMap<const ir::Value *, Regs> values;
  llvm::DenseMap<const layout::TileLayout *, std::vector<unsigned>> canonical;
  llvm::DenseMap<const layout::TileLayout *, std::vector<int>> elementRegisters;
  llvm::DenseMap<llvm::Value *, std::pair<llvm::Value *, int64_t>>
      aranges; // registers: the thread's part, and what is added
  llvm::DenseMap<const ir::Value *, RegList> accumulators;
  std::map<std::pair<const layout::TileLayout *, bool>, std::vector<AccumulatorBlock>>
      blocksOf; // by layout, and whether of floats
};

/// "add" of a type as LLVM's operation.
llvm::AtomicRMWInst::BinOp atomicOperation(llvm::StringRef kind, ir::Scalar s);

/// The metadata's arguments and facts, as of the kernel's own arguments, become those of the user: descriptors.cpp.
void foldDescriptors(const ir::Kernel &kernel, KernelMetadata &metadata);

template <typename T, typename F>
llvm::SmallVector<T, 10> Generator::perThreadBit(const layout::TileLayout &layout, F basis) {
  llvm::SmallVector<T, 10> perBit(threadBits());
  auto lanes = layout.bases(layout::InDim::Lane), warps = layout.bases(layout::InDim::Warp);
  for (unsigned i = 0; i < lanes.size() && i < laneBits(); ++i) perBit[i] = basis(lanes[i]);
  for (unsigned i = 0; i < warps.size() && laneBits() + i < perBit.size(); ++i)
    perBit[laneBits() + i] = basis(warps[i]);
  return perBit;
}

} // namespace tlx::codegen
