// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// wgmma.mma_async as inline assembly: LLVM has no intrinsic for it. The accumulator's alloca is loaded into operands that are tied to the
// results, which are stored back,
//   tlx.nv.wgmma.ss.f32.f16.f16(acc, a, b, 1, 16, 0)
//     →  %v = load acc[0…7]
//        %d = asm "wgmma.mma_async… {$0, …, $7}, $16, $17, p, 1, 1, 0, 0;", "=f×8,0,…,7,l,l" (%v…, a, b)
//        store %d, acc[0…7]
// and SROA turns the memory into values, so that one virtual register carries an element from wgmma to wgmma (a copy in between would make
// ptxas serialize them: C7510 and its kin). A first step that ignores the accumulator has no such inputs, so nothing is zeroed. The steps of
// one product are one piece of assembly.
#include "llvm/ADT/StringSwitch.h"
#include "llvm/IR/InlineAsm.h"

#include "features/wgmma.h"
#include "target/nvidia/nvidia_p.h"

using namespace llvm;

namespace tlx::target::nvidia {

namespace {
/// PTX ISA, "wgmma.mma_async": what the types of A and B decide. K is 32 bytes; the immediates are those of the instruction's grammar.
struct Kind {
  bool rs;         // A in registers
  StringRef types; // "f32.f16.f16"
  unsigned k = 0;  // elements
  bool negates = false, transposes = false;
  bool integers = false, mixed = false; // mixed: integers of different signedness
};

Kind kindOf(StringRef name) {
  name.consume_front("tlx.nv.wgmma.");
  Kind kind{name.starts_with("rs."), name.drop_front(3)};
  auto [a, b] = kind.types.drop_front(4).split('.');
  kind.k = StringSwitch<unsigned>(a).Cases({"f16", "bf16"}, 16).Case("tf32", 8).Default(32);
  kind.transposes = kind.k == 16;
  kind.integers = kind.types.starts_with("s32.");
  kind.mixed = kind.integers && a != b;
  kind.negates = !kind.integers;
  return kind;
}

bool internal(Expansion &e, const Twine &what) {
  e.diags.report(Diag::Internal, e.loc(), (what + " ('" + e.name() + "')").str());
  return false;
}

/// Registers of a lane: the elements of an alloca of [count x float or i32].
struct Accumulator {
  AllocaInst *memory = nullptr;
  ArrayType *type = nullptr;

  bool find(Expansion &e, uint64_t registers) {
    memory = dyn_cast<AllocaInst>(e.arg(0));
    type = memory ? dyn_cast<ArrayType>(memory->getAllocatedType()) : nullptr;
    if (!type || type->getNumElements() != registers || !(element()->isFloatTy() || element()->isIntegerTy(32)))
      return internal(e, "an accumulator has to be an alloca of " + Twine(registers) + " registers");
    return true;
  }
  Type *element() const { return type->getElementType(); }
  unsigned count() const { return static_cast<unsigned>(type->getNumElements()); }
  const char *constraint() const { return element()->isFloatTy() ? "f" : "r"; }
  Value *at(IRBuilder<> &b, unsigned i) const { return b.CreateConstInBoundsGEP2_32(type, memory, 0, i); }
  void load(IRBuilder<> &b, SmallVectorImpl<Value *> &out) const {
    for (unsigned i = 0; i < count(); ++i) out.push_back(b.CreateLoad(element(), at(b, i)));
  }
  void store(IRBuilder<> &b, Value *results) const {
    for (unsigned i = 0; i < count(); ++i) b.CreateStore(b.CreateExtractValue(results, i), at(b, i));
  }
};

std::string operands(unsigned first, unsigned count) {
  std::string text = "{";
  for (unsigned i = 0; i < count; ++i) text += (i ? ", $" : "$") + std::to_string(first + i);
  return text + "}";
}

/// The accumulator's registers through one piece of assembly: results, inputs tied to them if `reads`, then `more` by `constraints`.
void callAsm(Expansion &e, const Accumulator &acc, const std::string &text, bool reads, ArrayRef<Value *> more,
             StringRef constraints) {
  std::string all;
  for (unsigned i = 0; i < acc.count(); ++i) all += (i ? ",=" : "=") + std::string(acc.constraint());
  SmallVector<Value *, 136> args;
  if (reads) {
    acc.load(e.b, args);
    for (unsigned i = 0; i < acc.count(); ++i) all += "," + std::to_string(i);
  }
  args.append(more.begin(), more.end());
  if (!constraints.empty()) all += "," + constraints.str();
  SmallVector<Type *, 136> types;
  for (Value *v : args) types.push_back(v->getType());
  Type *result = StructType::get(e.b.getContext(), SmallVector<Type *, 128>(acc.count(), acc.element()));
  CallInst *call =
      e.b.CreateCall(InlineAsm::get(FunctionType::get(result, types, false), text, all, /*hasSideEffects=*/true), args);
  call->setConvergent();
  call->setDoesNotThrow();
  acc.store(e.b, call);
}

constexpr const char *kJoined = "tlx.joined"; // metadata of a call that an earlier one has taken with it

/// The next step of the same product: nothing that touches memory stands between, and it adds to what this call makes.
CallInst *nextStep(CallInst *call) {
  for (Instruction *i = call->getNextNode(); i; i = i->getNextNode()) {
    if (auto *next = dyn_cast<CallInst>(i); next && next->getCalledFunction() == call->getCalledFunction()) {
      auto *adds = dyn_cast<ConstantInt>(next->getArgOperand(3));
      auto same = [&](unsigned operand) { return next->getArgOperand(operand) == call->getArgOperand(operand); };
      return same(0) && same(4) && same(5) && adds && !adds->isZero() ? next : nullptr;
    }
    if (i->mayReadOrWriteMemory() || i->isTerminator()) return nullptr;
  }
  return nullptr;
}
} // namespace

void expandWgmma(Expansion &e) {
  if (!require(e, &features::Target::wgmma) || e.call->hasMetadata(kJoined)) return;
  Kind kind = kindOf(e.name());
  std::optional<uint64_t> n = e.constant(4), transposed = e.constant(5);
  if (!n || !transposed) return;
  if (!features::wgmmaWidth(*n, kind.integers)) {
    internal(e, "wgmma has no n = " + Twine(*n));
    return;
  }
  if (*transposed > 3 || (*transposed && !kind.transposes) || (kind.rs && (*transposed & 1))) {
    internal(e, "wgmma cannot transpose this operand");
    return;
  }
  Accumulator acc;
  if (!acc.find(e, *n / 2)) return;
  if (acc.element()->isFloatTy() == kind.integers) {
    internal(e, "an accumulator of the wrong type");
    return;
  }

  if (kind.mixed) requirePtx(e, 84);
  // All steps of a product become one piece: each alone would pass the whole accumulator through LLVM's back end.
  SmallVector<CallInst *, 16> steps{e.call};
  while (CallInst *next = nextStep(steps.back())) {
    next->setMetadata(kJoined, MDNode::get(next->getContext(), {}));
    steps.push_back(next);
  }
  e.b.SetInsertPoint(steps.back());
  auto *use = dyn_cast<ConstantInt>(e.arg(3));
  const bool reads = !use || !use->isZero();
  SmallVector<Value *, 48> more;
  std::string constraints;
  unsigned next = acc.count() * (reads ? 2 : 1);
  auto operand = [&](Value *v, const char *constraint) {
    more.push_back(v);
    constraints += (constraints.empty() ? "" : ",") + std::string(constraint);
    return next++;
  };
  std::string immediates;
  if (kind.negates) immediates += ", 1, 1";
  if (kind.transposes && !kind.rs) immediates += *transposed & 1 ? ", 1" : ", 0";
  if (kind.transposes) immediates += *transposed & 2 ? ", 1" : ", 0";
  // scale-d is a predicate: constants are made in place, since they cost no instruction there (PT and !PT).
  std::string text = "{";
  if (!reads) text += " .reg .pred q; setp.ne.b32 q, 0, 0;";
  if ((use && reads) || steps.size() > 1) text += " .reg .pred p; setp.ne.b32 p, 1, 0;";
  for (CallInst *step : steps) {
    std::string a, predicate = "p";
    if (kind.rs) {
      SmallVector<Value *, 4> registers;
      flatten(e.b, step->getArgOperand(1), registers);
      a = operands(next, 4);
      for (Value *v : registers) operand(v, "r");
    } else {
      a = "$" + std::to_string(operand(step->getArgOperand(1), "l"));
    }
    const std::string b = "$" + std::to_string(operand(step->getArgOperand(2), "l"));
    if (step == e.call && !reads) predicate = "q";
    if (step == e.call && !use)
      predicate = "$" + std::to_string(operand(e.b.CreateICmpNE(e.arg(3), e.b.getInt32(0)), "b"));
    text += " wgmma.mma_async.sync.aligned.m64n" + std::to_string(*n) + "k" + std::to_string(kind.k) + "." +
            kind.types.str() + " " + operands(0, acc.count()) + ", " + a + ", " + b + ", " + predicate + immediates +
            ";";
  }
  callAsm(e, acc, text + " }", reads, more, constraints);
}

// ptxas hoists a wait above what was computed before it. It moves none across a branch that it cannot decide, to a loop that it cannot make
// predicates of: taken only for one word of 2^32, and left after a few reads. The vote makes the branch uniform; without it there would be a
// point where the warp meets again.
void expandPin(Expansion &e) {
  if (!require(e, &features::Target::wgmma)) return;
  const std::string text = "{ .reg .pred p, q; .reg .b32 n, x; setp.eq.b32 p, $0, 2143211930; "
                           "vote.sync.any.pred p, p, 0xffffffff; @!p bra DONE; mov.b32 n, 4; "
                           "AGAIN: ld.volatile.shared.b32 x, [$1]; sub.s32 n, n, 1; setp.ne.s32 q, n, 0; "
                           "setp.eq.and.b32 q, x, 2147483647, q; @q bra AGAIN; DONE: }";
  Type *types[] = {e.arg(0)->getType(), e.b.getInt64Ty()};
  Value *address = e.b.CreatePtrToInt(e.arg(1), e.b.getInt64Ty());
  CallInst *call = e.b.CreateCall(
      InlineAsm::get(FunctionType::get(e.b.getVoidTy(), types, false), text, "r,l", /*hasSideEffects=*/true),
      {e.arg(0), address});
  call->setConvergent();
  call->setDoesNotThrow();
}

void expandWgmmaRetire(Expansion &e) {
  if (!require(e, &features::Target::wgmma)) return;
  std::optional<uint64_t> registers = e.constant(1);
  Accumulator acc;
  if (!registers || !acc.find(e, *registers)) return;
  // No instruction: a definition behind the wait, so that nothing that reads the accumulator can be scheduled above it.
  callAsm(e, acc, "", /*reads=*/true, {}, "");
}

} // namespace tlx::target::nvidia
