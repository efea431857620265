// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// async_dot: wgmma and its accumulators. An accumulator that may be in flight is not registers but memory of the lane, one alloca an
// instruction block, so that a value keeps its identity from the first wgmma to the wait (the optimizer turns the memory into registers;
// the simulator needs the identity). Values that are tied through loops and branches share one set of allocas.
#include "features/wgmma.h"
#include "codegen/codegen_p.h"
#include "llvm/ADT/EquivalenceClasses.h"

using namespace llvm;

namespace tlx::codegen {

namespace {
using ir::Opcode;

/// Calls f(a, b) for each pair of values that control flow makes one: carried values, results, what regions yield. `b` flows into `a`.
void eachFlow(const ir::Op &op, function_ref<void(const ir::Value *, const ir::Value *)> f) {
  switch (op.opcode) {
  case Opcode::For:
    for (unsigned i = 0; i < op.numResults(); ++i) {
      const ir::Value *yielded = op.body().terminator()->operand(i);
      f(op.result(i), yielded), f(op.body().arg(1 + i), yielded);
      f(op.result(i), op.operand(3 + i)), f(op.body().arg(1 + i), op.operand(3 + i));
    }
    break;
  case Opcode::While:
    for (unsigned i = 0; i < op.numResults(); ++i) {
      const ir::Value *passed = op.body(0).terminator()->operand(1 + i);
      f(op.result(i), passed), f(op.body(1).arg(i), passed);
      f(op.body(0).arg(i), op.body(1).terminator()->operand(i)), f(op.body(0).arg(i), op.operand(i));
    }
    break;
  case Opcode::If:
    for (unsigned i = 0; i < op.numResults(); ++i)
      for (unsigned r = 0; r < 2; ++r)
        if (const ir::Op *yield = op.body(r).terminator()) f(op.result(i), yield->operand(i));
    break;
  default:
    break;
  }
}
} // namespace

/// A value is in flight if an async_dot makes it or it may come from one through control flow; a wait ends that.
void Generator::findAccumulators() {
  DenseSet<const ir::Value *> inFlight;
  auto &body = const_cast<ir::Block &>(module.kernel.body);
  std::vector<const ir::Op *> control;
  body.walk([&](ir::Op &op) {
    if (op.is(Opcode::AsyncDot)) inFlight.insert(op.result());
    if (op.is(Opcode::For) || op.is(Opcode::While) || op.is(Opcode::If)) control.push_back(&op);
  });
  if (inFlight.empty()) return;
  for (bool grew = true; grew;) {
    grew = false;
    for (const ir::Op *op : control)
      eachFlow(*op, [&](const ir::Value *to, const ir::Value *from) {
        if (inFlight.contains(from)) grew |= inFlight.insert(to).second;
      });
  }
  EquivalenceClasses<const ir::Value *> classes;
  for (const ir::Value *v : inFlight) classes.insert(v);
  auto tie = [&](const ir::Value *a, const ir::Value *b) {
    if (inFlight.contains(a) && inFlight.contains(b)) classes.unionSets(a, b);
  };
  for (const ir::Op *op : control) eachFlow(*op, tie);
  body.walk([&](ir::Op &op) {
    if (op.is(Opcode::AsyncDot)) tie(op.result(), op.operand(2));
  });
  DenseMap<const ir::Value *, RegList> storage; // by leader of the class
  for (const ir::Value *v : inFlight) {
    RegList &own = storage[classes.getLeaderValue(v)];
    if (own.empty()) {
      const auto blocks = accumulatorBlocks(v->type);
      if (blocks.empty()) continue; // reported at the dot
      llvm::Type *element = ir::isFloat(v->type.scalar()) ? b.getFloatTy() : b.getInt32Ty();
      for (const AccumulatorBlock &block : blocks)
        own.push_back(atEntry([&] { return b.CreateAlloca(ArrayType::get(element, block.registers.size())); }));
    }
    accumulators[v] = own;
  }
}

std::optional<features::WgmmaPlan> Generator::wgmmaPlan(ir::Type acc, int64_t k, unsigned operandBits) {
  return features::planWgmma(acc.shape()[0], acc.shape()[1], k, operandBits, !ir::isFloat(acc.scalar()),
                             acc.layout() ? acc.layout()->warps() : 0);
}

/// The blocks of m64 x n that make the tile of one warpgroup, columns first, with the tile's registers in the fragment's order.
ArrayRef<Generator::AccumulatorBlock> Generator::accumulatorBlocks(ir::Type type) {
  auto [it, fresh] = blocksOf.try_emplace({type.layout(), ir::isFloat(type.scalar())}); // which n there is differs
  if (!fresh || !type.layout()) return it->second;
  const auto plan = wgmmaPlan(type, 32, 8); // n and the groups do not depend on the operands
  const layout::TileLayout &l = *type.layout();
  if (!plan || !(l == features::wgmmaAccumulator(*plan, type.shape()[0], type.shape()[1]))) return it->second;
  const int64_t rows = type.shape()[0], columns = type.shape()[1], part = columns & -columns;
  const int64_t side = plan->groupsN == 1 ? columns : part / plan->groupsN, next = plan->groupsN == 1 ? columns : part;
  for (int64_t m = 0; m < rows; m += 64 * plan->groupsM)
    for (int64_t repetition = 0; repetition < columns; repetition += next)
      for (int64_t n = repetition; n < repetition + side; n += plan->n) {
        AccumulatorBlock block{m, n, {}};
        for (unsigned j = 0; j < plan->n / 8; ++j)
          for (unsigned i = 0; i < 4; ++i) {
            const int reg = registerAt(l, {int32_t(m + (i >> 1) * 8), int32_t(n + j * 8 + (i & 1))});
            assert(reg >= 0 && "the accumulator's layout holds its fragment in thread 0");
            block.registers.push_back(unsigned(reg));
          }
        it->second.push_back(std::move(block));
      }
  return it->second;
}

RegList Generator::accumulatorOf(const ir::Value *v) const {
  auto it = accumulators.find(v);
  return it == accumulators.end() ? RegList() : it->second;
}

void Generator::storeAccumulator(Regs pointers, const ir::Value *from) {
  // Undefined values are stored too: else the memory would carry those of the iteration before around an outer loop.
  Regs regs = get(from);
  const auto blocks = accumulatorBlocks(from->type);
  for (unsigned k = 0; k < blocks.size(); ++k) {
    auto *type = cast<AllocaInst>(pointers[k])->getAllocatedType();
    for (unsigned i = 0; i < blocks[k].registers.size(); ++i)
      b.CreateStore(regs[blocks[k].registers[i]], b.CreateConstInBoundsGEP2_32(type, pointers[k], 0, i));
  }
}

/// `from` flows into `to`, which may live in memory: null if it does and nothing is left to carry in registers.
bool Generator::moveToAccumulator(const ir::Value *to, const ir::Value *from) {
  RegList target = accumulatorOf(to);
  if (target.empty()) return false;
  RegList source = accumulatorOf(from);
  if (source.empty())
    storeAccumulator(target, from);
  else
    assert(source == target && "values that flow into one another share their memory");
  return true;
}

/// Bytes that the warps of this thread's group add to the address of a matrix: rows are dealt to warpgroups.
Value *Generator::groupOffset(const layout::TileLayout &tile, const layout::SharedLayout &memory, unsigned dim,
                              unsigned bits) {
  Value *sum = nullptr;
  auto warps = tile.bases(layout::InDim::Warp);
  for (unsigned i = 2; i < warps.size(); ++i) {
    if (!warps[i][dim]) continue;
    layout::Coord c{0, 0};
    c[0] = warps[i][dim]; // memory is seen as [M or N, K]
    const int64_t bytes = memory.offsetOf(c) * bits / 8;
    Value *bit = b.CreateAnd(b.CreateLShr(warpIndex(), b.getInt32(i)), b.getInt32(1));
    Value *part = b.CreateMul(bit, b.getInt32(unsigned(bytes)), "", true, true);
    sum = sum ? b.CreateAdd(sum, part, "", true, true) : part;
  }
  return sum;
}

/// A matrix in shared memory: the low word of the descriptor of its first element, to which constants are added. (Additions in 64 bits would
/// save an instruction each, but ptxas 12.8 makes wrong code of them: attention of D = 80 gave wrong results on an H200.)
struct Generator::Matrix {
  const layout::SharedLayout *layout;
  unsigned bits;
  features::MatrixDescriptor shape;
  Value *low; // i32
};

Generator::Matrix Generator::matrix(const ir::Op &op, unsigned operand, bool rowsOfD, const layout::TileLayout &acc) {
  ir::Type type = op.operand(operand)->type;
  // B is [K, N]: seen as [N, K].
  const layout::SharedLayout *l = type.sharedLayout();
  Matrix m{nullptr, memoryBits(type), {}, nullptr};
  if (l && !rowsOfD) l = type.context().unique(l->transposed({1, 0}));
  auto shape = l ? features::matrixDescriptor(*l, m.bits) : std::nullopt;
  if (!shape) {
    fail(op, "the layout of an operand in shared memory is not one that wgmma reads");
    return m;
  }
  m.layout = l, m.shape = *shape;
  // (window + group's part) >> 4, masked to the field, with the low half of the descriptor's constants.
  const unsigned constant = uint32_t(shape->bits());
  Value *base = inPrologue([&] {
    Value *window = b.CreatePtrToInt(smemBase(), b.getInt32Ty());
    if (Value *group = groupOffset(acc, *l, rowsOfD ? 0 : 1, m.bits)) window = b.CreateAdd(window, group);
    Value *units = b.CreateAnd(b.CreateLShr(window, 4), b.getInt32(0x3fff));
    return b.CreateAdd(units, b.getInt32(constant));
  });
  m.low = b.CreateAdd(base, bufferUnits(op.operand(operand)));
  return m;
}

Value *Generator::descriptorAt(const Matrix &m, int64_t row, int64_t k) {
  const int64_t bytes = m.layout->offsetOf({int32_t(row), int32_t(k)}) * m.bits / 8;
  Value *low = bytes ? b.CreateAdd(m.low, b.getInt32(unsigned(bytes >> 4))) : m.low;
  return b.CreateOr(b.CreateZExt(low, b.getInt64Ty()), b.getInt64(m.shape.bits() & ~uint64_t(0xffffffff)));
}

static StringRef kindName(ir::Scalar s) {
  switch (s) {
  case ir::Scalar::F16:
    return "f16";
  case ir::Scalar::BF16:
    return "bf16";
  case ir::Scalar::F32:
    return "tf32";
  case ir::Scalar::F8E4M3:
    return "e4m3";
  case ir::Scalar::F8E5M2:
    return "e5m2";
  case ir::Scalar::I8:
    return "s8";
  case ir::Scalar::U8:
    return "u8";
  default:
    return "";
  }
}

void Generator::emitAsyncDot(const ir::Op &op) {
  ir::Type aType = op.operand(0)->type, bType = op.operand(1)->type, accType = op.result()->type;
  const unsigned bits = memoryBits(bType);
  const int64_t depth = aType.shape()[1];
  const auto plan = wgmmaPlan(accType, depth, bits);
  const auto blocks = accumulatorBlocks(accType);
  RegList pointers = accumulatorOf(op.result());
  const StringRef a = kindName(aType.scalar()), bName = kindName(bType.scalar());
  if (!plan || blocks.empty() || pointers.empty() || a.empty() || bName.empty())
    return fail(op, "there is no wgmma for it");
  const bool registers = aType.isTile();
  const layout::TileLayout &acc = *accType.layout();
  if (registers && !(*aType.layout() == features::wgmmaOperandA(*plan, aType.shape()[0], depth, bits)))
    return fail(op, "A in registers has another layout than the unit takes");

  if (accumulatorOf(op.operand(2)).empty()) storeAccumulator(pointers, op.operand(2));
  Matrix matrixA = registers ? Matrix{} : matrix(op, 0, true, acc), matrixB = matrix(op, 1, false, acc);
  if ((!registers && !matrixA.layout) || !matrixB.layout) return;
  device("tlx.nv.wgmma.fence", {});
  const std::string name = ("tlx.nv.wgmma." + Twine(registers ? "rs." : "ss.") +
                            (ir::isFloat(accType.scalar()) ? "f32." : "s32.") + a + "." + bName)
                               .str();
  const unsigned transposed = (!registers && matrixA.shape.transposed ? 1 : 0) | (matrixB.shape.transposed ? 2 : 0);
  Value *first = op.numOperands() > 3 ? b.CreateZExt(scalarOperand(op, 3), b.getInt32Ty()) : b.getInt32(1);
  const unsigned pack = 32 / bits;
  for (int64_t k = 0; k < depth; k += plan->k)
    for (unsigned u = 0; u < blocks.size(); ++u) {
      Value *useAcc = k == 0 ? first : b.getInt32(1);
      Value *left;
      if (registers) {
        Regs regs = operand(op, 0);
        RegList words;
        for (unsigned w = 0; w < 4; ++w) {
          RegList part;
          for (unsigned e = 0; e < pack; ++e)
            part.push_back(regs[unsigned(registerAt(
                *aType.layout(), {int32_t(blocks[u].m + (w & 1) * 8), int32_t(k + (w >> 1) * 4 * pack + e)}))]);
          words.push_back(this->pack(part, b.getInt32Ty()));
        }
        left = this->pack(words, FixedVectorType::get(b.getInt32Ty(), 4));
      } else {
        left = descriptorAt(matrixA, blocks[u].m, k);
      }
      device(name, {pointers[u], left, descriptorAt(matrixB, blocks[u].n, k), useAcc, b.getInt32(plan->n),
                    b.getInt32(transposed)});
    }
  device("tlx.nv.wgmma.commit", {});
}

/// What a pinned wait stands behind: the number that was computed last since the product before it, of those the one in the fewest registers (a
/// sum over what others are parts of), as one word.
Value *Generator::pinnedBy(const ir::Op &wait) {
  constexpr size_t kMost = 8;
  const ir::Value *best = nullptr;
  for (const ir::Op *op = wait.prev(); op && !op->is(ir::Opcode::AsyncDot); op = op->prev())
    for (unsigned i = 0; i < op->numResults(); ++i) {
      const ir::Value *v = op->result(i);
      const bool number =
          (v->type.isTile() || v->type.isScalar()) && v->type.isFloatLike() && !op->is(ir::Opcode::Constant);
      if (number && accumulatorOf(v).empty() && (!best || get(v).size() < get(best).size())) best = v;
    }
  if (!best) return laneId();
  Value *word = b.getInt32(0);
  for (Value *v : get(best).take_front(kMost)) {
    Value *bits = b.CreateBitCast(v, b.getIntNTy(v->getType()->getPrimitiveSizeInBits()));
    word = b.CreateXor(word, b.CreateZExtOrTrunc(bits, b.getInt32Ty()));
  }
  return word;
}

void Generator::emitAsyncDotWait(const ir::Op &op) {
  if (op.intAttr(ir::Attr::pinned)) device("tlx.nv.pin", {pinnedBy(op), smemBase()});
  device("tlx.nv.wgmma.wait", b.getInt32(unsigned(op.intAttr(ir::Attr::pending))));
  for (unsigned k = 0; k < op.numResults(); ++k) {
    const ir::Value *v = op.operand(k);
    RegList pointers = accumulatorOf(v);
    if (pointers.empty()) { // nothing was in flight
      set(op.result(k), get(v));
      continue;
    }
    const auto blocks = accumulatorBlocks(v->type);
    RegList regs(v->type.layout()->registers(), nullptr);
    for (unsigned u = 0; u < blocks.size(); ++u) {
      auto *type = cast<ArrayType>(cast<AllocaInst>(pointers[u])->getAllocatedType());
      device("tlx.nv.wgmma.retire", {pointers[u], b.getInt32(unsigned(blocks[u].registers.size()))});
      for (unsigned i = 0; i < blocks[u].registers.size(); ++i)
        regs[blocks[u].registers[i]] =
            b.CreateLoad(type->getElementType(), b.CreateConstInBoundsGEP2_32(type, pointers[u], 0, i));
    }
    set(op.result(k), regs);
  }
}

} // namespace tlx::codegen
