// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Simplification: one walk applies the equations of simplify_rules.cpp and merges equal computations; then invariants
// leave loops, and what no effect needs goes. Repeated until nothing changes, which takes two or three rounds.
//
//   %0 = splat %c0 : i32[64]              %0 = constant {value = 64} : i32
//   %1 = add %x, %0 : i32[64]      ->     for … {
//   for … {                                 store %p, %x          // %1 == %x
//     %2 = mul %n, %c64                   }
//     …
#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/ScopedHashTable.h"

#include "ir/speculation.h"
#include "passes/passes.h"
#include "passes/simplify_p.h"

namespace tlx::passes {
using namespace ir;

namespace {

/// Numbers compare by their bits: 0.0 and -0.0 are different constants, and a NaN is equal to itself.
bool sameAttr(const AttrValue &a, const AttrValue &b) {
  const double *x = std::get_if<double>(&a), *y = std::get_if<double>(&b);
  if (x && y) return llvm::bit_cast<uint64_t>(*x) == llvm::bit_cast<uint64_t>(*y);
  return a == b;
}

/// Ops as keys: equal if they compute the same values.
struct OpKey {
  static Op *getEmptyKey() { return llvm::DenseMapInfo<Op *>::getEmptyKey(); }
  static Op *getTombstoneKey() { return llvm::DenseMapInfo<Op *>::getTombstoneKey(); }
  static unsigned getHashValue(const Op *op) {
    llvm::hash_code h = llvm::hash_combine(op->opcode, op->attrs().size(), op->result()->type.data);
    for (Value *v : op->operands()) h = llvm::hash_combine(h, v);
    for (const auto &[key, value] : op->attrs()) {
      if (const int64_t *i = std::get_if<int64_t>(&value)) h = llvm::hash_combine(h, *i);
      if (const double *d = std::get_if<double>(&value)) h = llvm::hash_combine(h, llvm::bit_cast<uint64_t>(*d));
    }
    return unsigned(size_t(h));
  }
  static bool isEqual(const Op *a, const Op *b) {
    if (a == b) return true;
    if (a == getEmptyKey() || a == getTombstoneKey() || b == getEmptyKey() || b == getTombstoneKey()) return false;
    if (a->opcode != b->opcode || a->operands() != b->operands() || a->numResults() != b->numResults() ||
        a->attrs().size() != b->attrs().size())
      return false;
    for (unsigned i = 0; i < a->numResults(); ++i)
      if (a->result(i)->type != b->result(i)->type) return false;
    for (unsigned i = 0; i < a->attrs().size(); ++i)
      if (a->attrs()[i].first != b->attrs()[i].first || !sameAttr(a->attrs()[i].second, b->attrs()[i].second))
        return false;
    return true;
  }
};
using Table = llvm::ScopedHashTable<Op *, Op *, OpKey>;

class Simplifier {
public:
  explicit Simplifier(Module &module) : module(module) {}
  void run() {
    // Each round is linear; the bound only keeps a mistake in a rule from hanging a compile.
    for (int round = 0; round < 16; ++round) {
      changed = false;
      Table table;
      block(module.kernel.body, table);
      hoist(module.kernel.body);
      changed |= detail::eraseDead(module);
      if (!changed) break;
    }
  }

private:
  void block(Block &b, Table &table) {
    Table::ScopeTy scope(table);
    // A rule may put ops before the one that it works on; those are visited next.
    for (Op *op = b.front(); op;) {
      Op *before = op->prev();
      if (detail::simplifyOp(module, op)) {
        changed = true;
        op = before ? before->next() : b.front();
        continue;
      }
      if (op->is(Opcode::Reduce) || op->is(Opcode::Task)) {
        // Combiners are compiled by themselves, and tasks run on other warps: they capture nothing that they did not capture before.
        Table own;
        block(op->body(), own);
      } else {
        for (unsigned r = 0; r < op->numRegions(); ++r) block(op->body(r), table);
      }
      if (op->is(Opcode::Single)) join(op);
      Op *next = op->next();
      if (op->has(Pure) && op->numRegions() == 0 && op->numResults() > 0) merge(op, table);
      op = next;
    }
  }

  /// Regions of one thread that follow one another are one: it is elected once.
  ///
  ///   single { barrier_expect %b }          single { barrier_expect %b
  ///   %1 = add %k, %c                ->              async_desc_load … %1 … }        behind %1 = add %k, %c
  ///   single { async_desc_load … }
  void join(Op *single) {
    auto waits = [](Op &region) {
      bool found = false;
      region.walk([&](Op &op) { found |= op.is(Opcode::BarrierWait) || op.is(Opcode::AsyncStoreWait); });
      return found;
    };
    for (;;) {
      Op *next = single->next();
      while (next && next->has(Pure) && !next->has(Collective) && !next->numRegions()) next = next->next();
      if (!next || !next->is(Opcode::Single) || next->operands() != single->operands() || waits(*next) ||
          waits(*single))
        return;
      while (single->next() != next) single->next()->moveBefore(single);
      Op *end = single->body().terminator();
      for (Op *op : next->body().ops())
        if (!op->isTerminator()) op->moveBefore(end);
      next->erase();
      changed = true;
    }
  }

  void merge(Op *op, Table &table) {
    Op *known = table.lookup(op);
    if (!known) return table.insert(op, op);
    for (unsigned i = 0; i < op->numResults(); ++i) op->result(i)->replaceAllUsesWith(known->result(i));
    op->erase();
    changed = true;
  }

  static bool inside(const Value *v, const Op *loop) {
    const Op *at = v->def() ? v->def()->parentOp() : v->block()->parentOp();
    while (at && at != loop) at = at->parentOp();
    return at;
  }

  /// Invariants leave loops, innermost first. What they leave may not run, so divisions by what may be zero stay;
  /// collectives stay too, since they cost where they stand and layout passes place them on purpose.
  void hoist(Block &b) {
    for (Op &op : b) {
      for (unsigned r = 0; r < op.numRegions(); ++r) hoist(op.body(r));
      if (!op.is(Opcode::For) && !op.is(Opcode::While)) continue;
      for (unsigned r = 0; r < op.numRegions(); ++r)
        for (Op *inner : op.body(r).ops()) {
          if (!speculatable(*inner)) continue;
          if (llvm::any_of(inner->operands(), [&](Value *v) { return inside(v, &op); })) continue;
          inner->moveBefore(&op);
          changed = true;
        }
    }
  }

  Module &module;
  bool changed = false;
};

} // namespace

void simplify(Module &module, const SimplifyOptions &) {
  Simplifier(module).run();
}

} // namespace tlx::passes
