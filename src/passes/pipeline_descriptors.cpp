// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// TMA pipelines: the descriptor loads of a loop with num_stages = S run S - 1 iterations ahead, into rings of S slots guarded by mbarriers;
// wgmma stays in flight from one iteration to the next.
//
//   for i … {num_stages = 3} {                  full = alloc_barriers {arrivals = 1} depth 3
//     %a = desc_load %d[%m, %i]                 empty = alloc_barriers {arrivals = warps} depth 3
//     local_store %s, %a                        ring = local_alloc depth 3
//     %1 = async_dot %s, …             ->       for s in 0 … 1 { single valid { expect full[s]; load ring[s] } next }
//     %2 = async_dot_wait {0} %1                for i … {
//     yield %2                                    barrier_wait full[slot], phase
//   }                                             %1 = async_dot ring[slot], …
//                                                 async_dot_wait {pending = 1}          iteration i - 1 has retired
//                                                 barrier_arrive empty[slot - 1]
//                                                 single valid {                        iteration i + 2
//                                                   barrier_wait empty[slot - 1], phase
//                                                   barrier_expect full[slot - 1]; async_desc_load … }
//                                                 yield %1, next …
//                                               }
//
// Every refill follows one release of its slot, the first use of slot S - 1 included (each warp arrives there in iteration 0), so that the
// parity of the release is the phase of the consumer, and no iteration is special.
//
// A loop that is entered more than once goes on where the ring stood: slot and phase are followed through the loops and branches around it,
// and the first loads wait for who read those slots the last time. (Iteration g releases the slot of iteration g - 1, where iteration
// g + S - 1 goes; on fresh barriers the wait for the release of an iteration g < 0, of parity 1, passes at once.)
//
// In a loop over tiles around it, the producer goes on into the next tile: its state (inner and outer iteration, what the addresses need of
// both) is carried through both loops, so that the ring stays full during a tile's epilogue.
#include "layout/message_layout.h"
#include "passes/async_dots.h"
#include "passes/control_edit.h"
#include "passes/passes.h"
#include "passes/pipeline_common.h"
#include "passes/trip_count.h"
#include "llvm/ADT/MapVector.h"

namespace tlx::passes {

using namespace ir;

namespace {

using Map = ValueMap;

struct TmaLoad {
  Op *load;
  Loc loc;
  Value *ring = nullptr;
  unsigned group = 0; // loads that feed one dot share a barrier
};

struct TmaPipeliner {
  Module &module;
  const features::Target &target;
  Diagnostics &diagnostics;
  Op *loop;
  int64_t stages;

  std::vector<TmaLoad> loads;
  std::vector<int64_t> groupBytes;
  std::vector<Value *> full; // by group
  Value *empty = nullptr;
  bool genericReaders = false;

  Slice inner, outer;
  llvm::SmallVector<unsigned, 4> innerArgs; // carried values of the loop that addresses need
  llvm::SmallVector<Value *, 8> boundary;   // values of the outer body that they need
  Op *tiles = nullptr;                      // the loop around, if the producer runs on through it

  Op *outermost() const { return tiles ? tiles : loop; }
  /// Whether it is entered more than once.
  bool repeated() const {
    for (Op *p = outermost()->parentOp(); p; p = p->parentOp())
      if (p->is(Opcode::For) || p->is(Opcode::While)) return true;
    return false;
  }

  // --- what can be pipelined ----------------------------------------------------------------------------------------
  /// A store to the descriptor that the loop's loads could meet: all but those behind the outermost loop around it.
  const Op *meets(const Value *descriptor) const {
    const Op *outer = loop;
    for (const Op *p = loop; p; p = p->parentOp())
      if (p->is(Opcode::For) || p->is(Opcode::While)) outer = p;
    const Op *found = nullptr;
    bool behind = false;
    auto look = [&](Op &op) {
      if (!behind && !found && op.is(Opcode::DescStore) && op.operand(0) == descriptor) found = &op;
    };
    // Program order: an op comes before what is in it, and the outermost loop's last op before what follows it.
    std::function<void(Block &)> visit = [&](Block &block) {
      for (Op &op : block) {
        look(op);
        for (unsigned r = 0; r < op.numRegions(); ++r) visit(op.body(r));
        behind |= &op == outer;
      }
    };
    visit(module.kernel.body);
    return found;
  }

  bool collect() {
    Block &body = loop->body();
    inner.block = &body;
    const bool ordered = ordersMemory(body);
    std::string why;
    for (Op &op : body) {
      if (!op.is(Opcode::DescLoad)) continue;
      Slice saved = inner;
      bool known =
          llvm::all_of(op.operands().drop_front(), [&](Value *v) { return inner.add(v); }) && inner.addCarried();
      // TMA writes to multiples of 128 bytes: so must each slot lie.
      Type t = op.result()->type;
      if (ordered)
        why = "an atomic or a fence in it orders memory, which loads must not pass";
      else if (!known)
        why = "the index of its load depends on memory or on control flow inside the loop";
      else if (meets(op.operand(0)))
        why = "it loads from a descriptor that is stored to as well";
      else if (t.elements() * int64_t(scalarBytes(t.scalar())) % 128)
        why = "the blocks of its load are no multiple of 128 bytes";
      else {
        loads.push_back({&op, op.loc});
        continue;
      }
      inner = saved;
    }
    // Loads through pointers are the next pass's.
    if (loads.empty() && !loadsByPointer()) {
      diagnostics.report(Diag::NotPipelined, loop->loc, why);
      loop->removeAttr(Attr::num_stages);
    }
    for (Value *v : inner.arguments)
      if (v->index()) innerArgs.push_back(v->index() - 1);
    return !loads.empty();
  }
  bool loadsByPointer() const {
    return llvm::any_of(loop->body().ops(), [](Op *op) { return op->is(Opcode::Load) && op->result()->type.isTile(); });
  }

  /// The loop around, where trip count and addresses allow the producer to run on.
  void findTiles() {
    Op *around = loop->parentOp();
    if (!around || !around->is(Opcode::For) || ordersMemory(around->body())) return;
    Block &body = around->body();
    auto outside = [&](Value *v) { return v->block() != &body && !(v->def() && v->def()->parent() == &body); };
    for (unsigned i = 0; i < 3; ++i)
      if (!outside(loop->operand(i))) return;
    outer.block = &body;
    llvm::SetVector<Value *> needed;
    auto need = [&](Value *v) {
      if (!outside(v)) needed.insert(v);
    };
    for (Op *op : inner.ops)
      for (Value *o : op->operands()) need(o);
    for (TmaLoad &l : loads)
      for (Value *o : l.load->operands().drop_front()) need(o);
    for (unsigned i : innerArgs) need(loop->operand(3 + i));
    for (Value *v : needed) {
      if (!outer.add(v)) return;
      boundary.push_back(v);
    }
    for (Value *v : outer.arguments)
      if (v->index() != 0) return; // carried from tile to tile
    tiles = around;
  }

  // --- rings ------------------------------------------------------------------------------------------------------
  bool makeRings() {
    Builder b(module);
    b.at(outermost());
    llvm::MapVector<Op *, unsigned> groups;
    for (TmaLoad &l : loads) {
      Type t = l.load->result()->type;
      const layout::SharedLayout *layout = nullptr;
      Op *dot = nullptr;
      if (Op *store = bufferStore(*l.load)) {
        layout = store->operand(0)->type.sharedLayout();
        for (const Use &use : store->operand(0)->uses()) {
          Op *reader = use.op->is(Opcode::LocalTrans) && !use.op->result()->uses().empty()
                           ? use.op->result()->uses().front().op
                           : use.op;
          if (reader->is(Opcode::AsyncDot) && !dot) dot = reader;
        }
      } else if (auto made = layout::messageLayout(t.shape(), 8 * scalarBytes(t.scalar()))) {
        layout = module.context.unique(*made);
      }
      if (!layout || !layout::messagesOf(*layout, 8 * scalarBytes(t.scalar()))) {
        diagnostics.report(Diag::DescriptorBlock, l.loc, t.str(),
                           layout::messageProblem(t.shape(), 8 * scalarBytes(t.scalar())));
        return false;
      }
      b.loc = l.loc;
      l.ring = b.localAlloc(t.scalar(), t.shape(), unsigned(stages), layout);
      l.ring->def()->setAttr(Attr::managed, int64_t(1));
      auto [it, fresh] = groups.try_emplace(dot ? dot : l.load, unsigned(groups.size()));
      l.group = it->second;
      if (fresh) groupBytes.push_back(0);
      groupBytes[l.group] += t.elements() * scalarBytes(t.scalar());
    }
    b.loc = loop->loc;
    if (repeated()) b.at(module.kernel.body.front()); // initialized once
    auto barriers = [&](int64_t arrivals) {
      Op *op = b.create(Opcode::AllocBarriers, {}, module.context.barrier(unsigned(stages)));
      op->setAttr(Attr::arrivals, arrivals);
      return op->result();
    };
    for (unsigned g = 0; g < groupBytes.size(); ++g) full.push_back(barriers(1));
    empty = barriers(module.kernel.numWarps);
    b.create(Opcode::Barrier, {}, {}); // they are initialized for all
    return true;
  }

  // --- the producer -------------------------------------------------------------------------------------------------
  /// Where it stands: a real iteration or not, how many are left of this tile, the loop variable, carried values that addresses need; and, across tiles, how
  /// many tiles are left, the tile loop's variable, what addresses need of the tile.
  struct State {
    Value *valid, *left, *index;
    llvm::SmallVector<Value *, 4> args;
    Value *tilesLeft = nullptr, *tile = nullptr;
    llvm::SmallVector<Value *, 8> boundary;

    llvm::SmallVector<Value *, 16> flat() const {
      llvm::SmallVector<Value *, 16> all{valid, left, index};
      all.append(args.begin(), args.end());
      if (tile) all.append({tilesLeft, tile});
      all.append(boundary.begin(), boundary.end());
      return all;
    }
    State with(llvm::ArrayRef<Value *> values) const {
      State s = *this;
      unsigned n = 0;
      s.valid = values[n++], s.left = values[n++], s.index = values[n++];
      for (Value *&v : s.args) v = values[n++];
      if (tile) s.tilesLeft = values[n++], s.tile = values[n++];
      for (Value *&v : s.boundary) v = values[n++];
      return s;
    }
  };
  Value *trips = nullptr; // of the loop; the same for every tile

  void enterTile(Builder &b, State &s) {
    Map map;
    if (tiles) {
      map[tiles->body().arg(0)] = s.tile;
      outer.clone(b, map, s.valid);
      s.boundary.clear();
      for (Value *v : boundary) s.boundary.push_back(mapped(map, v));
    }
    s.left = trips;
    s.index = loop->operand(0);
    s.args.clear();
    for (unsigned i : innerArgs) s.args.push_back(mapped(map, loop->operand(3 + i)));
  }
  State start(Builder &b) {
    State s;
    trips = tripCount(b, loop->operand(0), loop->operand(1), loop->operand(2));
    Value *any = b.cmp(Pred::Gt, trips, b.constant(trips->type, 0));
    if (tiles) {
      s.tilesLeft = tripCount(b, tiles->operand(0), tiles->operand(1), tiles->operand(2));
      s.tile = tiles->operand(0);
      any = b.binary(Opcode::And, any, b.cmp(Pred::Gt, s.tilesLeft, b.constant(s.tilesLeft->type, 0)));
    }
    s.valid = any;
    enterTile(b, s);
    return s;
  }
  Map mapOf(const State &s) const {
    Map map;
    Block &body = loop->body();
    map[body.arg(0)] = s.index;
    for (unsigned i = 0; i < innerArgs.size(); ++i) map[body.arg(1 + innerArgs[i])] = s.args[i];
    for (unsigned i = 0; i < s.boundary.size(); ++i) map[boundary[i]] = s.boundary[i];
    return map;
  }
  State advance(Builder &b, const State &s) {
    Map map = mapOf(s);
    State next = s;
    if (!innerArgs.empty()) inner.clone(b, map, s.valid);
    next.left = b.binary(Opcode::Sub, s.left, b.constant(s.left->type, 1));
    next.index = b.binary(Opcode::Add, s.index, loop->operand(2));
    for (unsigned i = 0; i < innerArgs.size(); ++i)
      next.args[i] = mapped(map, loop->body().terminator()->operand(innerArgs[i]));
    Value *more = b.cmp(Pred::Ne, next.left, b.constant(s.left->type, 0));
    if (!tiles) {
      next.valid = b.binary(Opcode::And, s.valid, more);
      return next;
    }
    llvm::SmallVector<Type, 16> types;
    for (Value *v : next.flat()) types.push_back(v->type);
    Op *branch = b.ifOp(more, types);
    Builder then(module);
    then.loc = b.loc;
    then.atEnd(branch->body(0));
    then.yield(next.flat());
    Builder other(module);
    other.loc = b.loc;
    other.atEnd(branch->body(1));
    State fresh = next;
    fresh.tilesLeft = other.binary(Opcode::Sub, s.tilesLeft, other.constant(s.tilesLeft->type, 1));
    fresh.tile = other.binary(Opcode::Add, s.tile, tiles->operand(2));
    fresh.valid =
        other.binary(Opcode::And, s.valid, other.cmp(Pred::Ne, fresh.tilesLeft, other.constant(s.tilesLeft->type, 0)));
    enterTile(other, fresh);
    other.yield(fresh.flat());
    llvm::SmallVector<Value *, 16> results;
    for (unsigned i = 0; i < branch->numResults(); ++i) results.push_back(branch->result(i));
    return next.with(results);
  }
  /// Loads of the iteration where the producer stands, into `slot`; behind the release of that slot if there is a phase.
  void issue(Builder &b, const State &s, Value *slot, Value *phase) {
    Map map = mapOf(s);
    inner.clone(b, map, s.valid);
    Op *single = b.create(Opcode::Single, {s.valid}, {});
    Builder in(module);
    in.loc = b.loc;
    in.atEnd(single->addRegion());
    if (phase) in.create(Opcode::BarrierWait, {in.subview(empty, slot), phase}, {});
    llvm::SmallVector<Value *, 4> bars;
    for (unsigned g = 0; g < full.size(); ++g) {
      bars.push_back(in.subview(full[g], slot));
      in.create(Opcode::BarrierExpect, {bars[g]}, {})->setAttr(Attr::bytes, groupBytes[g]);
    }
    for (TmaLoad &l : loads) {
      in.loc = l.loc;
      llvm::SmallVector<Value *, 8> operands{l.load->operand(0), in.subview(l.ring, slot), bars[l.group]};
      for (Value *v : l.load->operands().drop_front()) operands.push_back(mapped(map, v));
      copyEviction(*l.load, *in.create(Opcode::AsyncDescLoad, operands, {}));
    }
    in.yield({});
  }

  // --- the transformation --------------------------------------------------------------------------------------------
  void pipeline() {
    if (!makeRings()) return;
    if (!repeated()) {
      transform(nullptr);
      return;
    }
    Builder b(module);
    b.at(module.kernel.body.front());
    b.loc = loop->loc;
    threadVariable(module, outermost(), b.constI32(0), [&](Value *position) { return transform(position); });
  }

  /// The slot behind this one, and its phase.
  std::pair<Value *, Value *> nextSlot(Builder &b, Value *slot, Value *phase) {
    Value *next = b.binary(Opcode::Add, slot, b.constI32(1)), *wraps = b.cmp(Pred::Eq, next, b.constI32(stages));
    return {b.select(wraps, b.constI32(0), next), b.select(wraps, b.binary(Opcode::Xor, phase, b.constI32(1)), phase)};
  }

  /// `position`: where the ring stands, slot + S · phase; null at its start. The result is where it stands behind the loop.
  Value *transform(Value *position) {
    Builder b(module);
    b.at(outermost());
    b.loc = loop->loc;
    Value *slot0 = b.constI32(0), *phase0 = b.constI32(0), *previous0 = b.constI32(stages - 1);
    if (position) {
      Value *second = b.cmp(Pred::Ge, position, b.constI32(stages));
      slot0 = b.select(second, b.binary(Opcode::Sub, position, b.constI32(stages)), position);
      phase0 = b.select(second, b.constI32(1), b.constI32(0));
      previous0 =
          b.select(b.cmp(Pred::Eq, slot0, b.constI32(0)), previous0, b.binary(Opcode::Sub, slot0, b.constI32(1)));
    }
    State state = start(b);
    const unsigned stateSize = state.flat().size();
    // The first S - 1 iterations, as a loop: the code stays small.
    llvm::SmallVector<Value *, 16> inits = state.flat();
    if (position) inits.append({slot0, phase0});
    Op *fill = b.forLoop(b.constI32(0), b.constI32(stages - 1), b.constI32(1), inits);
    {
      Builder in(module);
      in.loc = loop->loc;
      in.atEnd(fill->body());
      llvm::SmallVector<Value *, 16> args;
      for (unsigned i = 1; i < fill->body().numArgs(); ++i) args.push_back(fill->body().arg(i));
      State s = state.with(llvm::ArrayRef<Value *>(args).take_front(stateSize));
      llvm::SmallVector<Value *, 16> yields;
      if (position) {
        Value *slot = args[stateSize], *phase = args[stateSize + 1];
        Value *last = in.cmp(Pred::Eq, slot, in.constI32(stages - 1));
        issue(in, s, slot, in.select(last, phase, in.binary(Opcode::Xor, phase, in.constI32(1))));
        yields = advance(in, s).flat();
        auto [nextOne, itsPhase] = nextSlot(in, slot, phase);
        yields.append({nextOne, itsPhase});
      } else {
        issue(in, s, fill->body().arg(0), nullptr);
        yields = advance(in, s).flat();
      }
      in.yield(yields);
    }
    llvm::SmallVector<Value *, 16> carried;
    for (unsigned i = 0; i < stateSize; ++i) carried.push_back(fill->result(i));
    // Behind it: slot and phase of the consumer, and the slot before.
    carried.append({slot0, phase0, previous0});
    auto lastOf = [&](Op *op) {
      llvm::SmallVector<Value *, 16> args;
      for (unsigned i = op->body().numArgs() - carried.size(); i < op->body().numArgs(); ++i)
        args.push_back(op->body().arg(i));
      return args;
    };
    if (tiles) {
      Value *variable = tiles->body().arg(0);
      tiles = addCarried(module, tiles, carried);
      for (Value *&v : boundary)
        if (v == variable) v = tiles->body().arg(0);
      outer.block = &tiles->body();
      loop = addCarried(module, loop, lastOf(tiles));
    } else {
      loop = addCarried(module, loop, carried);
    }
    inner.block = &loop->body();
    llvm::SmallVector<Value *, 16> args = lastOf(loop);
    State s = state.with(llvm::ArrayRef<Value *>(args).take_front(stateSize));
    Value *slot = args[stateSize], *phase = args[stateSize + 1], *previous = args[stateSize + 2];

    for (TmaLoad &l : loads) consume(l, slot, phase);
    Op *retired = deferDots(module, *loop, true);
    Builder in(module);
    in.loc = loop->loc;
    if (retired)
      in.after(retired);
    else
      in.at(loop->body().front());
    // Generic reads come before the next asynchronous write.
    if (genericReaders) in.create(Opcode::FenceProxy, {}, {});
    in.create(Opcode::BarrierArrive, {in.subview(empty, previous)}, {});
    issue(in, s, previous, phase);
    for (TmaLoad &l : loads) l.load->erase(); // until here they say what is to be loaded
    Builder out(module);
    out.loc = loop->loc;
    out.at(loop->body().terminator());
    llvm::SmallVector<Value *, 16> yields = advance(out, s).flat();
    auto [next, nextPhase] = nextSlot(out, slot, phase);
    yields.append({next, nextPhase, slot});
    appendYield(loop->body(), yields);
    if (tiles) {
      llvm::SmallVector<Value *, 16> results;
      for (unsigned i = loop->numResults() - carried.size(); i < loop->numResults(); ++i)
        results.push_back(loop->result(i));
      appendYield(tiles->body(), results);
    }
    if (!loadsByPointer()) loop->removeAttr(Attr::num_stages);
    if (!position) return nullptr;
    Builder behind(module);
    behind.loc = loop->loc;
    behind.after(outermost());
    const unsigned n = outermost()->numResults();
    Value *turn = behind.binary(Opcode::Mul, outermost()->result(n - 2), behind.constI32(stages));
    return behind.binary(Opcode::Add, outermost()->result(n - 3), turn);
  }

  llvm::DenseSet<unsigned> waited;
  /// The load becomes its slot: buffers that it was stored to are the slot, other uses read it.
  void consume(TmaLoad &l, Value *slot, Value *phase) {
    Builder b(module);
    b.at(l.load);
    b.loc = l.loc;
    // All loads of a group are behind the barrier of the first.
    if (waited.insert(l.group).second) b.create(Opcode::BarrierWait, {b.subview(full[l.group], slot), phase}, {});
    Value *here = b.subview(l.ring, slot);
    Op *store = bufferStore(*l.load);
    if (store && store->operand(0)->type.sharedLayout() == l.ring->type.sharedLayout()) {
      Op *alloc = store->operand(0)->def();
      alloc->result()->replaceAllUsesWith(here);
      store->erase();
      alloc->erase();
    }
    std::vector<Use> uses(l.load->result()->uses().begin(), l.load->result()->uses().end());
    if (!uses.empty()) {
      genericReaders = true;
      Value *tile = b.localLoad(here, l.load->result()->type.layout());
      l.load->result()->replaceAllUsesWith(tile);
    }
  }
};

} // namespace

bool pipelineDescriptors(Module &module, const features::Target &target, Diagnostics &diagnostics) {
  if (!target.tma) return true;
  const unsigned before = diagnostics.errorCount();
  std::vector<Op *> loops;
  module.kernel.body.walk([&](Op &op) {
    if (op.is(Opcode::For) && op.intAttr(Attr::num_stages) > 1)
      for (Op &inside : op.body())
        if (inside.is(Opcode::DescLoad)) {
          loops.push_back(&op);
          break;
        }
  });
  for (Op *loop : loops) {
    TmaPipeliner p{module, target, diagnostics, loop, loop->intAttr(Attr::num_stages)};
    if (!p.collect()) continue;
    p.findTiles();
    p.pipeline();
  }
  return diagnostics.errorCount() == before;
}

} // namespace tlx::passes
