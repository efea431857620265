// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Software pipelining of loops with num_stages = S: global loads run S - 1 iterations ahead, into rings of S buffers.
//
//   for i … {num_stages = 3} {           ring = local_alloc depth 3
//     %a = load %p                       copies for iterations 0 and 1, each a commit group
//     %x = convert_layout %a             for i … {
//     … dot %x …                           async_wait {pending = 1}        iteration i has arrived
//     %p2 = addptr %p, %step        ->     barrier                         … for all threads, and slot i - 1 is free
//     yield %p2                            async_copy ring[i + 2], %ahead  masked off behind the last iteration
//   }                                      async_commit
//                                          %x = local_load ring[i]
//                                          … dot %x …
//                                        }
//                                        async_wait {pending = 0}
//
// Loads that cp.async cannot do (no such unit, or less than 4 bytes an access) are loaded into registers at the top and stored to their
// slot at the bottom of the iteration; the same barrier publishes them. Where wgmma reads the rings, it stays in flight into the next
// iteration, and the copies run S - 2 iterations ahead. What a load's address needs (the slice) is cloned and runs
// S - 1 iterations ahead in carried values of its own.
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SmallPtrSet.h"

#include "ir/builder.h"
#include "passes/async_dots.h"
#include "passes/axis_analysis.h"
#include "passes/direct_copies.h"
#include "passes/passes.h"
#include "passes/pipeline_common.h"
#include "passes/trip_count.h"

namespace tlx::passes {

using namespace ir;

namespace {

struct RingLoad {
  Op *load;
  bool async;
  Loc loc;
  std::optional<DirectRing> direct = std::nullopt;
  Value *ring = nullptr;
};

struct LoopPipeliner {
  Module &module;
  const features::Target &target;
  Diagnostics &diagnostics;
  const AxisAnalysis &axis;
  Op *loop;
  int64_t stages;

  std::vector<RingLoad> loads;
  Slice slice; // of all loads' addresses

  void warn(llvm::StringRef why) { diagnostics.report(Diag::NotPipelined, loop->loc, why.str()); }

  static bool feedsDot(Value *v, llvm::DenseSet<Value *> &seen) {
    if (!seen.insert(v).second) return false;
    for (const Use &use : v->uses()) {
      if (use.op->is(Opcode::Dot) && use.index < 2) return true;
      if (use.op->is(Opcode::LocalStore) && use.index == 1) return true; // the buffer of an async_dot
      if (use.op->isTerminator() || !(use.op->has(Pure))) continue;
      for (unsigned i = 0; i < use.op->numResults(); ++i)
        if (feedsDot(use.op->result(i), seen)) return true;
    }
    return false;
  }

  /// The kernel arguments that a pointer may be derived from. False if some are not known.
  static bool rootPointers(Value *v, llvm::SmallPtrSetImpl<Value *> &roots, llvm::SmallPtrSetImpl<Value *> &seen) {
    if (!seen.insert(v).second) return true;
    if (Op *def = v->def()) {
      bool all = true;
      switch (def->opcode) {
      case Opcode::For:
        return rootPointers(def->operand(3 + v->index()), roots, seen) &&
               rootPointers(def->body().terminator()->operand(v->index()), roots, seen);
      case Opcode::If:
        for (unsigned r = 0; r < 2; ++r)
          all = all && rootPointers(def->body(r).terminator()->operand(v->index()), roots, seen);
        return all;
      default:
        if (!def->has(Pure)) return false;
        bool any = false; // a select or join has two
        for (Value *o : def->operands())
          if (o->type.isPointerLike()) any = true, all = all && rootPointers(o, roots, seen);
        return any && all;
      }
    }
    Op *parent = v->block()->parentOp();
    if (!parent) {
      roots.insert(v);
      return true;
    }
    if (!parent->is(Opcode::For) || v->index() == 0) return false;
    return rootPointers(parent->operand(2 + v->index()), roots, seen) &&
           rootPointers(v->block()->terminator()->operand(v->index() - 1), roots, seen);
  }
  bool noAlias(Value *a, Value *b) {
    llvm::SmallPtrSet<Value *, 4> rootsOfA, rootsOfB, seenA, seenB;
    if (!rootPointers(a, rootsOfA, seenA) || !rootPointers(b, rootsOfB, seenB)) return false;
    // Stated, or a descriptor's: nothing orders accesses of the same elements through another argument.
    auto apart = [&](Value *v) {
      auto stated = [&](const Fact &f) {
        return f.noalias && f.program.size() == 1 && f.program[0].value == v->index();
      };
      auto itsPointer = [&](const DescriptorArgument &d) { return d.first == v->index(); };
      return llvm::any_of(module.kernel.facts, stated) || llvm::any_of(module.kernel.descriptors, itsPointer);
    };
    for (Value *x : rootsOfA)
      for (Value *y : rootsOfB)
        if (x == y || (!apart(x) && !apart(y))) return false;
    return true;
  }

  bool carriedInSlice(unsigned i) { return slice.arguments.contains(loop->body().arg(1 + i)); }

  bool collect() {
    Block &body = loop->body();
    bool hasDot = false;
    std::vector<Op *> stores;
    const bool ordered = ordersMemory(body);
    bool groups = false;
    body.walk([&](Op &op) {
      groups |= op.is(Opcode::AsyncCommit);
      hasDot |= op.is(Opcode::Dot) || op.is(Opcode::AsyncDot);
      if (op.is(Opcode::Store) || op.is(Opcode::AtomicRmw) || op.is(Opcode::AtomicCas)) stores.push_back(&op);
    });
    slice.block = &body;
    slice.tiles = true;
    std::string why;
    if (groups) { // waits of both would count the groups of both
      warn("async_load_commit stands in it, and the copies of a pipeline would be among its groups");
      return false;
    }
    for (Op &op : body) {
      if (!op.is(Opcode::Load) || !op.operand(0)->type.isTile()) continue;
      llvm::DenseSet<Value *> seen;
      if (hasDot && !feedsDot(op.result(), seen)) continue;
      if (ordered) {
        why = "an atomic or a fence in it orders memory, which loads must not pass";
        continue;
      }
      bool aliased = llvm::any_of(stores, [&](Op *s) { return !noAlias(s->operand(0), op.operand(0)); });
      if (aliased) {
        why = "a store in it may write what the load reads; state noalias(pointer) in requires";
        continue;
      }
      Slice saved = slice;
      if (!llvm::all_of(op.operands(), [&](Value *v) { return slice.add(v); }) || !slice.addCarried()) {
        slice = saved;
        why = "the address of its load depends on memory or on control flow inside the loop";
        continue;
      }
      unsigned bytes = axis.prefixWidth(op) * scalarBytes(op.result()->type.scalar());
      // cp.async knows neither another value nor hints of the cache: such loads go through registers.
      const bool hinted = op.hasAttr(Attr::cache) || op.hasAttr(Attr::eviction);
      bool zeroOther = !hinted && (op.numOperands() < 3 || isZero(op.operand(2)));
      std::optional<DirectRing> direct = zeroOther ? directRing(op) : std::nullopt;
      loads.push_back({&op, direct || (target.cpAsync && bytes >= 4 && zeroOther), op.loc, std::move(direct)});
    }
    if (loads.empty()) {
      if (why.empty()) why = hasDot ? "no load in it feeds a dot" : "it loads no tile";
      warn(why);
    }
    return !loads.empty();
  }

  /// Layouts in which the loop's uses want a loaded value.
  static llvm::SmallVector<const layout::TileLayout *, 4> consumersOf(Op &load) {
    llvm::SmallVector<const layout::TileLayout *, 4> consumers;
    for (const Use &use : load.result()->uses())
      consumers.push_back(use.op->is(Opcode::ConvertLayout) ? use.op->result()->type.layout()
                                                            : load.result()->type.layout());
    return consumers;
  }
  std::optional<DirectRing> directRing(Op &load) {
    auto ring = planDirectRing(load, consumersOf(load), axis, target, module.kernel.numWarps);
    return ring && ring->pointers == *load.result()->type.layout() ? ring : std::nullopt;
  }

  static bool isZero(Value *v) {
    Op *def = v->def();
    while (def && (def->is(Opcode::Splat) || def->is(Opcode::Broadcast) || def->is(Opcode::Cast)))
      def = def->operand(0)->def();
    // -0.0 is not what a copy writes for masked-off elements.
    return def && def->is(Opcode::Constant) && def->intAttr(Attr::value, 0) == 0 &&
           llvm::bit_cast<uint64_t>(def->floatAttr(Attr::value)) == 0;
  }

  // --- rings ----------------------------------------------------------------------------------------------------
  void makeRings() {
    for (RingLoad &r : loads) {
      Type t = r.load->result()->type;
      if (Op *store = bufferStore(*r.load)) {
        Builder b(module);
        b.at(loop);
        b.loc = r.loc;
        r.ring = b.localAlloc(t.scalar(), t.shape(), unsigned(stages), store->operand(0)->type.sharedLayout());
        continue;
      }
      llvm::SmallVector<const layout::TileLayout *, 4> accesses{t.layout()};
      for (const Use &use : r.load->result()->uses()) {
        if (use.op->is(Opcode::ConvertLayout)) accesses.push_back(use.op->result()->type.layout());
      }
      layout::SharedLayout shared =
          r.direct ? r.direct->memory
                   : layout::chooseSwizzle(t.shape(), accesses, 8 * scalarBytes(t.scalar()), {target.sharedBanks});
      Builder b(module);
      b.at(loop);
      b.loc = r.loc;
      r.ring = b.localAlloc(t.scalar(), t.shape(), unsigned(stages), module.context.unique(shared));
    }
  }

  // --- the transformation ---------------------------------------------------------------------------------------
  using Map = ValueMap;
  /// mask & guard as a tile of the pointer's shape.
  Value *guardedMask(Builder &b, Op &load, Map &map, Value *guard) {
    Type pointer = load.operand(0)->type;
    Value *g = b.splat(guard, pointer.shape(), pointer.layout());
    return load.numOperands() > 1 ? b.binary(Opcode::And, mapped(map, load.operand(1)), g) : g;
  }
  Value *slot(Builder &b, Value *ring, Value *index, int64_t number) {
    Value *v = b.subview(ring, index);
    v->def()->setAttr(Attr::ring, number);
    return v;
  }
  /// Starts the loads of one iteration. Register loads are returned, to be stored at the end of the iteration.
  llvm::SmallVector<Value *, 4> issue(Builder &b, Map &map, Value *guard, Value *slotIndex, int64_t ringNumber) {
    llvm::SmallVector<Value *, 4> registers;
    bool any = false;
    for (RingLoad &r : loads) {
      b.loc = r.loc;
      Value *mask = guardedMask(b, *r.load, map, guard);
      Value *pointer = mapped(map, r.load->operand(0));
      if (r.async) {
        b.asyncCopy(slot(b, r.ring, slotIndex, ringNumber), pointer, mask);
        any = true;
      } else {
        Value *other = r.load->numOperands() > 2 ? mapped(map, r.load->operand(2)) : nullptr;
        Op *load = b.create(Opcode::Load, {pointer, mask}, r.load->result()->type);
        if (other) load->addOperand(other);
        for (Attr hint : {Attr::cache, Attr::eviction})
          if (r.load->hasAttr(hint)) load->setAttr(hint, r.load->strAttr(hint).str());
        registers.push_back(load->result());
      }
    }
    if (any) b.create(Opcode::AsyncCommit, {}, {});
    return registers;
  }
  void storeRegisters(Builder &b, llvm::ArrayRef<Value *> registers, Value *slotIndex, int64_t ringNumber) {
    unsigned i = 0;
    for (RingLoad &r : loads) {
      if (r.async) continue;
      b.loc = r.loc;
      b.localStore(slot(b, r.ring, slotIndex, ringNumber), registers[i++]);
    }
  }

  void transform() {
    Block &oldBody = loop->body();
    bool async = llvm::any_of(loads, [](const RingLoad &r) { return r.async; });
    bool viaRegisters = llvm::any_of(loads, [](const RingLoad &r) { return !r.async; });
    // Registers bridge one iteration only: with nothing asynchronous two slots do.
    if (!async) stages = 2;
    // wgmma in flight reads the slot before this iteration's: the copies then stay one slot behind it.
    const bool units = llvm::any_of(loads, [](const RingLoad &r) { return bufferStore(*r.load); });
    const int64_t ahead = stages - (units && async && !viaRegisters && stages > 2 ? 2 : 1);
    makeRings();

    Value *lo = loop->operand(0), *hi = loop->operand(1), *step = loop->operand(2);
    Builder b(module);
    b.at(loop);
    b.loc = loop->loc;
    Value *trips = tripCount(b, lo, hi, step);
    Type count = trips->type;

    // Prologue: iterations 0 … ahead - 1.
    Map map;
    for (unsigned i = 0; i < loop->numResults(); ++i) map[oldBody.arg(1 + i)] = loop->operand(3 + i);
    map[oldBody.arg(0)] = lo;
    for (int64_t s = 0; s < ahead; ++s) {
      b.loc = loop->loc;
      Value *guard = b.cmp(Pred::Gt, trips, b.constant(count, s));
      Map inner = map;
      slice.clone(b, inner, guard);
      Value *slotIndex = b.constI32(s);
      auto registers = issue(b, inner, guard, slotIndex, s);
      storeRegisters(b, registers, slotIndex, s);
      advance(b, map, inner, step);
    }

    // The new loop carries, behind the old values: the slice's values that many iterations ahead, the ahead iteration's number, and the two slots.
    llvm::SmallVector<Value *, 16> inits(loop->operands().begin() + 3, loop->operands().end());
    llvm::SmallVector<unsigned, 8> aheadArgs;
    for (unsigned i = 0; i < loop->numResults(); ++i)
      if (carriedInSlice(i)) {
        aheadArgs.push_back(i);
        inits.push_back(map[oldBody.arg(1 + i)]);
      }
    b.loc = loop->loc;
    unsigned kAhead = inits.size();
    inits.push_back(b.constant(count, ahead));
    inits.push_back(b.constI32(0));
    inits.push_back(b.constI32(ahead));
    inits.push_back(map[oldBody.arg(0)]); // the ahead iteration's loop variable
    Op *fresh = b.forLoop(lo, hi, step, inits);
    Block &body = fresh->body();
    for (const auto &[key, value] : loop->attrs())
      if (key != Attr::num_stages) fresh->setAttr(key, value);

    // Move the old body over.
    for (unsigned i = 0; i < oldBody.numArgs(); ++i) oldBody.arg(i)->replaceAllUsesWith(body.arg(i));
    for (Op *op : oldBody.ops()) op->moveTo(body);
    slice.block = &body;
    Op *oldYield = body.terminator();

    Map later;
    later[body.arg(0)] = body.arg(1 + kAhead + 3);
    for (unsigned j = 0; j < aheadArgs.size(); ++j)
      later[body.arg(1 + aheadArgs[j])] = body.arg(1 + loop->numResults() + j);
    Value *number = body.arg(1 + kAhead), *consumer = body.arg(1 + kAhead + 1), *producer = body.arg(1 + kAhead + 2);

    Builder in(module);
    if (body.front()) in.at(body.front());
    in.loc = loop->loc;
    if (async) in.create(Opcode::AsyncWait, {}, {})->setAttr(Attr::pending, ahead - 1);
    if (units) in.create(Opcode::FenceProxy, {}, {});
    in.create(Opcode::Barrier, {}, {});
    Value *guard = in.cmp(Pred::Lt, number, trips);
    slice.clone(in, later, guard);
    auto registers = issue(in, later, guard, producer, ahead);

    for (RingLoad &r : loads) consume(r, consumer);

    Builder out(module);
    out.at(oldYield);
    out.loc = loop->loc;
    if (viaRegisters) storeRegisters(out, registers, producer, ahead);
    out.loc = loop->loc;
    llvm::SmallVector<Value *, 16> yields(oldYield->operands());
    for (unsigned i : aheadArgs) yields.push_back(mapped(later, oldYield->operand(i)));
    yields.push_back(out.binary(Opcode::Add, number, out.constant(count, 1)));
    yields.push_back(wrap(out, consumer));
    yields.push_back(wrap(out, producer));
    yields.push_back(out.binary(Opcode::Add, later[body.arg(0)], step));
    out.yield(yields);
    oldYield->erase();

    for (unsigned i = 0; i < loop->numResults(); ++i) loop->result(i)->replaceAllUsesWith(fresh->result(i));
    if (async) {
      b.after(fresh);
      b.loc = loop->loc;
      b.create(Opcode::AsyncWait, {}, {})->setAttr(Attr::pending, int64_t(0));
    }
    // The old loop still needs a terminator to be well-formed while it is erased.
    loop->erase();
    if (ahead + 1 < stages) deferDots(module, *fresh, false);
  }

  Value *wrap(Builder &b, Value *slotIndex) {
    Value *next = b.binary(Opcode::Add, slotIndex, b.constI32(1));
    return b.select(b.cmp(Pred::Eq, next, b.constI32(stages)), b.constI32(0), next);
  }
  /// Values of the next iteration, for the prologue: `map` from the clones in `inner`.
  void advance(Builder &b, Map &map, Map &inner, Value *step) {
    Block &body = loop->body();
    Map next;
    for (unsigned i = 0; i < loop->numResults(); ++i)
      if (carriedInSlice(i)) next[body.arg(1 + i)] = mapped(inner, body.terminator()->operand(i));
    next[body.arg(0)] = b.binary(Opcode::Add, map[body.arg(0)], step);
    for (auto &[k, v] : next) map[k] = v;
  }
  /// Replaces a load by reads of its slot, in the layout each use wants.
  void consume(RingLoad &r, Value *consumer) {
    Builder b(module);
    b.at(r.load);
    b.loc = r.loc;
    Value *view = slot(b, r.ring, consumer, 0);
    Value *v = r.load->result();
    if (Op *store = bufferStore(*r.load)) {
      Op *alloc = store->operand(0)->def();
      alloc->result()->replaceAllUsesWith(view);
      store->erase();
      alloc->erase();
    }
    std::vector<Use> uses(v->uses().begin(), v->uses().end());
    Value *plain = nullptr;
    for (const Use &use : uses) {
      if (use.op->is(Opcode::ConvertLayout)) {
        b.at(use.op);
        b.loc = use.op->loc;
        use.op->result()->replaceAllUsesWith(b.localLoad(view, use.op->result()->type.layout()));
        use.op->erase();
      } else {
        if (!plain) {
          b.after(view->def());
          b.loc = r.loc;
          plain = b.localLoad(view, v->type.layout());
        }
        use.op->setOperand(use.index, plain);
      }
    }
    r.load->erase();
  }
};

} // namespace

bool pipelineLoops(Module &module, const features::Target &target, Diagnostics &diagnostics) {
  std::vector<Op *> loops;
  module.kernel.body.walk([&](Op &op) {
    if (op.is(Opcode::For) && op.intAttr(Attr::num_stages) > 1) loops.push_back(&op);
  });
  for (Op *loop : loops) {
    if (target.directToLds) separateSteps(module, *loop);
    AxisAnalysis axis(module);
    LoopPipeliner p{module, target, diagnostics, axis, loop, loop->intAttr(Attr::num_stages)};
    if (p.collect()) p.transform();
  }
  return true;
}

} // namespace tlx::passes
