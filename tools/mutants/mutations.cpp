// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "mutations.h"

#include <optional>

#include "ir/builder.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Instructions.h"

namespace tlx::mutants {

namespace {
using Kind = Mutation::Kind;

/// What may be wrong with an operation: `number` is the argument whose value changes by `step`.
struct Rule {
  const char *operation;
  bool remove;
  int number; // -1: none
  unsigned step;
  bool less; // also downwards
  std::optional<ir::Opcode> source;
};
const Rule kRules[] = {
    {"tlx.nv.mbarrier.init", true, 1, 1, true, ir::Opcode::AllocBarriers},
    {"tlx.nv.mbarrier.arrive", true, 1, 1, false, ir::Opcode::BarrierArrive},
    {"tlx.nv.mbarrier.arrive.expect.tx", true, 1, 16, true, ir::Opcode::BarrierExpect},
    {"tlx.nv.mbarrier.try.wait", true, -1, 0, false, ir::Opcode::BarrierWait},
    {"tlx.nv.fence.mbarrier.init", true, -1, 0, false, std::nullopt},
    {"tlx.nv.fence.proxy.async", true, -1, 0, false, std::nullopt},
    {"tlx.nv.fence.proxy.async.global", true, -1, 0, false, std::nullopt},
    {"tlx.nv.bar.sync", true, -1, 0, false, ir::Opcode::NamedBarrier},
    {"tlx.nv.bar.arrive", true, -1, 0, false, ir::Opcode::NamedBarrier},
    {"tlx.nv.bar.warp.sync", true, -1, 0, false, std::nullopt},
    {"tlx.nv.cp.async.commit", true, -1, 0, false, std::nullopt},
    {"tlx.nv.cp.async.wait", true, 0, 1, false, std::nullopt},
    {"tlx.nv.wgmma.fence", true, -1, 0, false, std::nullopt},
    {"tlx.nv.wgmma.commit", true, -1, 0, false, std::nullopt},
    {"tlx.nv.wgmma.wait", true, 0, 1, false, ir::Opcode::AsyncDotWait},
    {"tlx.nv.bulk.commit", true, -1, 0, false, ir::Opcode::AsyncStoreCommit},
    {"tlx.nv.bulk.wait", true, 0, 1, false, ir::Opcode::AsyncStoreWait},
    {"tlx.nv.bulk.wait.read", true, 0, 1, false, ir::Opcode::AsyncStoreWait},
};

const Rule *ruleOf(llvm::StringRef operation) {
  for (const Rule &rule : kRules)
    if (operation == rule.operation) return &rule;
  return nullptr;
}

std::vector<llvm::CallInst *> callsOf(const llvm::Module &module) {
  std::vector<llvm::CallInst *> calls;
  for (llvm::Function &f : const_cast<llvm::Module &>(module))
    for (llvm::BasicBlock &block : f)
      for (llvm::Instruction &i : block)
        if (auto *call = llvm::dyn_cast<llvm::CallInst>(&i); call && call->getCalledFunction())
          if (ruleOf(call->getCalledFunction()->getName())) calls.push_back(call);
  return calls;
}
} // namespace

std::string Mutation::text() const {
  const std::string place = file + ":" + std::to_string(line) + ":" + std::to_string(col);
  const std::string which = copies > 1 ? " (" + std::to_string(copy + 1) + " of " + std::to_string(copies) + ")" : "";
  const char *what = kind == Kind::Remove      ? "without "
                     : kind == Kind::FlipPhase ? "the other phase: "
                     : kind == Kind::More      ? "more: "
                                               : "less: ";
  return place + ": " + what + operation + which;
}

std::vector<Mutation> mutationsOf(const llvm::Module &module) {
  std::vector<Mutation> all;
  const auto calls = callsOf(module);
  auto placeOf = [&](unsigned i, Mutation &m) {
    m.operation = calls[i]->getCalledFunction()->getName().str();
    if (const llvm::DILocation *loc = calls[i]->getDebugLoc().get())
      m.file = loc->getFilename().str(), m.line = loc->getLine(), m.col = loc->getColumn();
  };
  for (unsigned i = 0; i < calls.size(); ++i) {
    Mutation m;
    m.call = i;
    placeOf(i, m);
    m.copies = 0;
    for (unsigned k = 0; k < calls.size(); ++k) {
      Mutation other;
      placeOf(k, other);
      if (other.operation != m.operation || other.file != m.file || other.line != m.line || other.col != m.col)
        continue;
      if (k == i) m.copy = m.copies;
      ++m.copies;
    }
    const Rule &rule = *ruleOf(m.operation);
    auto add = [&](Kind kind) {
      m.kind = kind;
      all.push_back(m);
    };
    if (rule.remove) add(Kind::Remove);
    if (m.operation == "tlx.nv.mbarrier.try.wait") add(Kind::FlipPhase);
    if (rule.number < 0) continue;
    add(Kind::More);
    const auto *number = llvm::dyn_cast<llvm::ConstantInt>(calls[i]->getArgOperand(unsigned(rule.number)));
    if (rule.less && number && number->getZExtValue() > rule.step) add(Kind::Less);
  }
  return all;
}

void apply(llvm::Module &module, const Mutation &m) {
  llvm::CallInst *call = callsOf(module)[m.call];
  llvm::IRBuilder<> b(call);
  const Rule &rule = *ruleOf(m.operation);
  if (m.kind == Kind::Remove) {
    if (!call->getType()->isVoidTy()) call->replaceAllUsesWith(b.getTrue()); // a wait that passes
    call->eraseFromParent();
    return;
  }
  const unsigned at = m.kind == Kind::FlipPhase ? 1 : unsigned(rule.number);
  llvm::Value *v = call->getArgOperand(at);
  call->setArgOperand(at, m.kind == Kind::FlipPhase ? b.CreateXor(v, b.getInt32(1))
                          : m.kind == Kind::More    ? b.CreateAdd(v, b.getInt32(rule.step))
                                                    : b.CreateSub(v, b.getInt32(rule.step)));
}

namespace {
/// Whether a tensor that TMA loads is one that the kernel stores.
bool loadsWhatItStores(const llvm::Module &module) {
  llvm::SmallPtrSet<const llvm::Value *, 8> loaded, stored;
  for (const llvm::Function &f : module)
    for (const llvm::User *user : f.users()) {
      const auto *call = llvm::dyn_cast<llvm::CallInst>(user);
      if (!call || call->getCalledFunction() != &f) continue;
      if (f.getName().starts_with("tlx.nv.tma.load.")) loaded.insert(call->getArgOperand(2));
      if (f.getName().starts_with("tlx.nv.tma.store.") || f.getName().starts_with("tlx.nv.tma.reduce."))
        stored.insert(call->getArgOperand(1));
    }
  return llvm::any_of(stored, [&](const llvm::Value *map) { return loaded.contains(map); });
}
} // namespace

std::string unseen(const llvm::Module &module, const Mutation &m) {
  if (m.operation == "tlx.nv.fence.proxy.async.global" && loadsWhatItStores(module))
    return "a TMA load reads a tensor that the kernel stores, and the simulator does not look at this fence";
  return "";
}

// --- the same in the IR of the text

static void change(ir::Module &module, ir::Op &op, const Mutation &m) {
  ir::Builder b(module);
  const int64_t sign = m.kind == Kind::Less ? -1 : 1;
  if (m.kind == Kind::Remove) {
    for (unsigned i = 0; i < op.numResults(); ++i) op.result(i)->replaceAllUsesWith(op.operand(i));
    op.erase();
  } else if (m.kind == Kind::FlipPhase) {
    b.at(&op);
    op.setOperand(1, b.binary(ir::Opcode::Xor, op.operand(1), b.constant(op.operand(1)->type, 1)));
  } else if (op.is(ir::Opcode::BarrierExpect)) {
    op.setAttr(ir::Attr::bytes, op.intAttr(ir::Attr::bytes) + sign * 16);
  } else if (op.is(ir::Opcode::AllocBarriers) || op.is(ir::Opcode::BarrierArrive)) {
    op.setAttr(ir::Attr::arrivals, op.intAttr(ir::Attr::arrivals, 1) + sign);
  } else {
    op.setAttr(ir::Attr::pending, op.intAttr(ir::Attr::pending) + sign);
  }
}

bool apply(ir::Module &module, const Mutation &m, const SourceManager &sources) {
  const Rule &rule = *ruleOf(m.operation);
  if (!rule.source || (*rule.source == ir::Opcode::AllocBarriers && m.kind == Kind::Remove)) return false;
  std::vector<ir::Op *> found;
  module.kernel.body.walk([&](ir::Op &op) {
    if (op.is(*rule.source) && op.loc.known() && op.loc.line == m.line && op.loc.col == m.col &&
        llvm::StringRef(sources.name(op.loc.file)).ends_with(m.file))
      found.push_back(&op);
  });
  if (found.empty()) return false;
  change(module, *found[found.size() == m.copies ? m.copy : 0], m);
  return true;
}

} // namespace tlx::mutants
