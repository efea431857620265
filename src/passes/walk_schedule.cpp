// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds waits that never end, before the kernel runs: a walk through all tasks with numbers for the arguments that keep the kernel's facts.
//
//   task a: barrier_wait(full[0], 0) …  waits for task b      task b: barrier_expect …, loads: phase 0 is complete, goes on …  barrier_wait(empty[0], 0)
//
// Each task goes on until it has to wait, then the next one does; what TMA brings is there at once. Any such order can happen on the device, so that
// what stops here for ever can stop there. Only integers are computed. Where a branch or a loop around barriers depends on anything else, nothing is
// known and nothing is said. The walk goes twice, with different numbers and the tasks in opposite order.
//
// All arguments have one number. Where tasks go by different ones (a loop to `steps` here, to `cdiv(K, 64)` there) the caller may keep them in step, so
// that what is found is a warning.
#include "passes/walk_schedule.h"

#include <array>
#include <deque>
#include <map>
#include <optional>
#include <set>

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include "ir/names.h"
#include "passes/passes.h"
#include "passes/simplify_p.h"

namespace tlx::passes {

using namespace ir;

namespace {

constexpr unsigned kMostSteps = 8000; // operations of one walk: less than a millisecond

struct Actor;

/// An mbarrier.
struct Slot {
  const Op *alloc = nullptr;
  int64_t index = 0, count = 0;  // arrivals of a phase
  int64_t pending = 0;           // of this phase
  int64_t expected = 0, got = 0; // bytes of this phase
  int64_t completed = 0;         // phases
  struct Arrival {
    const Op *op, *task;
    int64_t replica, count;
  };
  std::vector<Arrival> arrivals; // of all phases
  size_t phaseStart = 0;         // the first of this one
  std::string text() const { return slotText(*alloc, index); }
};

/// What one task does.
struct Actor {
  const Op *task = nullptr; // null: what stands outside of tasks
  int64_t replica = -1;     // of a task with several
  llvm::DenseMap<const Value *, int64_t> known;
  struct Frame {
    const Op *owner; // null: the body of the task or kernel
    const Block *block;
    const Op *next;
    int64_t index = 0, step = 0, left = 0; // of a for loop
  };
  std::vector<Frame> stack;
  bool ended = false;
  std::optional<unsigned> named; // waits for this phase of a named barrier
  struct Passes {
    int64_t phase, completed;
    bool same = true, stale = false;
    unsigned count = 1;
  };
  llvm::MapVector<std::pair<const Op *, Slot *>, Passes> passes;
  llvm::DenseMap<Slot *, size_t> seen; // arrivals when it last passed

  std::optional<int64_t> get(const Value *v) const {
    auto it = known.find(v);
    return it == known.end() ? std::nullopt : std::optional(it->second);
  }
  void set(const Value *v, std::optional<int64_t> x) {
    if (x)
      known[v] = *x;
    else
      known.erase(v);
  }
  const Op *at() const { return stack.back().next; }
  void enter(const Op *owner, const Block &block) { stack.push_back({owner, &block, block.front()}); }
};

std::string counted(int64_t n, const char *what) {
  return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
}

/// The integer arguments that a number depends on; `addUncarried`: but for what loops make of it.
class Sources {
public:
  explicit Sources(const Module &module) : module(module) {}
  void addUncarried(const Value *v) {
    if (!seenUncarried.insert(v).second) return;
    if (const Op *def = v->def()) {
      for (const Value *o : def->operands()) addUncarried(o);
    } else if (const Op *owner = v->block()->parentOp(); !owner) {
      add(v);
    } else if (owner->is(Opcode::For) && v->index() == 0) {
      for (unsigned i = 0; i < 3; ++i) addUncarried(owner->operand(i));
    }
  }
  void add(const Value *v) {
    if (!seen.insert(v).second) return;
    if (const Op *def = v->def()) {
      for (const Value *o : def->operands()) add(o);
      for (unsigned r = 0; r < def->numRegions(); ++r) addAll(def->body(r).terminator());
    } else if (const Op *owner = v->block()->parentOp()) {
      for (const Value *o : owner->operands()) add(o);
      for (unsigned r = 0; r < owner->numRegions(); ++r) addAll(owner->body(r).terminator());
    } else if (v->block() == &module.kernel.body && v->type.isScalar() && isInt(v->type.scalar())) {
      names.insert(v->name);
    }
  }
  std::set<std::string> names;

private:
  void addAll(const Op *op) {
    for (const Value *o : op->operands()) add(o);
  }
  const Module &module;
  llvm::DenseSet<const Value *> seen, seenUncarried;
};

using Allocs = llvm::SmallVector<const Op *, 4>; // alloc_barriers

/// Something in it waits or arrives: at these barriers, or at any.
bool usesBarriers(const Op &op, const Allocs *these = nullptr) {
  bool uses = false;
  const_cast<Op &>(op).walk([&](Op &inner) {
    const bool is = inner.is(Opcode::BarrierWait) || inner.is(Opcode::BarrierArrive) || inner.is(Opcode::BarrierExpect);
    uses |= is && (!these || llvm::is_contained(*these, slotOf(inner.operand(0)).alloc));
  });
  return uses;
}

/// Names of the arguments that decide how often a task waits and arrives.
std::set<std::string> steering(const Module &module, const Op &task) {
  Sources sources(module);
  const_cast<Op &>(task).walk([&](Op &op) {
    const bool steers = op.is(Opcode::For) || op.is(Opcode::If) || op.is(Opcode::While);
    if (steers && usesBarriers(op)) {
      for (unsigned i = 0; i < std::min(op.numOperands(), op.is(Opcode::For) ? 3u : op.is(Opcode::If) ? 1u : 0u); ++i)
        sources.add(op.operand(i));
      if (op.is(Opcode::While)) sources.add(op.body(0).terminator()->operand(0));
    }
    if (op.is(Opcode::BarrierArrive) && op.numOperands() > 1) sources.add(op.operand(1));
    if (op.is(Opcode::BarrierWait)) sources.addUncarried(op.operand(1));
  });
  return sources.names;
}

/// "task 'a' by steps, task 'b' by K" of two tasks at these barriers that go by different arguments; "" if there are none.
std::string differentArguments(const Module &module, const Allocs &allocs) {
  std::string text;
  std::vector<std::pair<const Op *, std::set<std::string>>> tasks;
  const_cast<Module &>(module).kernel.body.walk([&](Op &task) {
    if (task.is(Opcode::Task) && usesBarriers(task, &allocs)) tasks.push_back({&task, steering(module, task)});
  });
  for (auto &[task, mine] : tasks)
    for (auto &[other, theirs] : tasks)
      if (text.empty() && mine != theirs && !mine.empty() && !theirs.empty())
        text = taskText(task) + " by " + llvm::join(mine, ", ") + ", " + taskText(other) + " by " +
               llvm::join(theirs, ", ");
  return text;
}

class Walk {
public:
  Walk(const Module &module, Diagnostics &diagnostics, int64_t number, bool reversed)
      : module(module), diagnostics(diagnostics), number(number), reversed(reversed) {}
  /// The barriers that what it has found is about.
  Allocs about;

  /// False: it was lost.
  bool run() {
    Actor &main = actors.emplace_back();
    arguments(main);
    main.enter(nullptr, module.kernel.body);
    while (go(main)) {
      if (!main.at()->is(Opcode::AsyncTasks)) break;
      const Op *tasks = main.at();
      if (!runTasks(*tasks, main)) break;
      main.stack.back().next = tasks->next();
    }
    if (!main.ended && !failed && !lost && steps < kMostSteps && !main.at()->is(Opcode::AsyncTasks)) stuck({&main});
    if (!lost) stale();
    return !lost;
  }
  bool failed = false;

private:
  // --- arguments ---------------------------------------------------------------------------------------------------
  static bool takesNumber(const Value &arg) { return arg.type.isScalar() && isInt(arg.type.scalar()); }
  int64_t argument(const Value &arg) const {
    if (!takesNumber(arg)) return arg.type.isPointer() ? int64_t(1) << 20 : 0;
    if (arg.type.scalar() == Scalar::I1) return reversed;
    return scalarBits(arg.type.scalar()) < 32 ? std::min<int64_t>(number, 64) : number;
  }
  void arguments(Actor &main) const {
    for (unsigned i = 0; i < module.kernel.body.numArgs(); ++i) {
      const Value &arg = *module.kernel.body.arg(i);
      if (takesNumber(arg)) main.known[&arg] = argument(arg);
    }
  }
  /// " (M = N = 1024)"
  std::string with() const {
    std::string names;
    for (unsigned i = 0; i < module.kernel.body.numArgs(); ++i) {
      const Value &arg = *module.kernel.body.arg(i);
      if (takesNumber(arg) && !arg.unused() && scalarBits(arg.type.scalar()) >= 32) names += arg.name + " = ";
    }
    return names.empty() ? "" : " (" + names + std::to_string(number) + ")";
  }

  /// How to go on where the numbers for the arguments are none that the caller passes.
  Diagnostic &withAdvice(Diagnostic &said, Loc loc) const {
    const char *advice =
        "these numbers keep what the kernel requires: say by 'requires' how its arguments depend on one "
        "another, or compile without static checks";
    if (!with().empty()) said.notes.emplace_back().loc = loc, said.notes.back().message = advice;
    return said;
  }

public:
  bool factsHold() const {
    std::vector<int64_t> values;
    for (unsigned i = 0; i < module.kernel.body.numArgs(); ++i) values.push_back(argument(*module.kernel.body.arg(i)));
    return llvm::all_of(module.kernel.facts, [&](const Fact &f) { return f.noalias || evaluateFact(f, values); });
  }

private:
  // --- tasks -------------------------------------------------------------------------------------------------------
  bool runTasks(const Op &tasks, const Actor &main) {
    std::vector<Actor *> all;
    for (const Op &task : tasks.body()) {
      if (!task.is(Opcode::Task)) continue;
      for (unsigned r = 0; r < replicasOf(task); ++r) {
        Actor &a = actors.emplace_back();
        a.task = &task;
        if (replicasOf(task) > 1) a.replica = r;
        a.known = main.known;
        a.enter(nullptr, task.body());
        for (auto &[place, slot] : slots)
          a.seen[&slot] = slot.arrivals.size(); // what came before, other tasks have seen
        all.push_back(&a);
      }
    }
    if (reversed) std::reverse(all.begin(), all.end());
    auto ended = [](const Actor *a) { return a->ended; };
    while (!llvm::all_of(all, ended)) {
      const unsigned before = steps;
      for (Actor *a : all)
        if (!a->ended) go(*a);
      if (failed || lost || steps >= kMostSteps) return false;
      if (steps == before) {
        llvm::erase_if(all, ended);
        stuck(all);
        return false;
      }
    }
    return true;
  }

  /// Until it waits, ends, or stands at async_tasks; false if the walk is over.
  bool go(Actor &a) {
    while (!a.ended && !failed && !lost && steps < kMostSteps) {
      const Op &op = *a.at();
      if (op.is(Opcode::AsyncTasks)) return true;
      if (!step(a, op)) return false; // it waits
      ++steps;
    }
    return false;
  }

  // --- one operation -----------------------------------------------------------------------------------------------
  /// Nothing in it is about barriers.
  bool isQuiet(const Op &op) {
    auto [it, isNew] = quiet.try_emplace(&op, true);
    if (!isNew) return it->second;
    bool found = true;
    const_cast<Op &>(op).walk([&](Op &inner) {
      switch (inner.opcode) {
      case Opcode::BarrierWait:
      case Opcode::BarrierArrive:
      case Opcode::BarrierExpect:
      case Opcode::AsyncDescLoad:
      case Opcode::AsyncBulkLoad:
      case Opcode::NamedBarrier:
      case Opcode::Return:
        found = false;
        break;
      default:
        break;
      }
    });
    return quiet[&op] = found;
  }
  void forget(Actor &a, const Op &op) {
    for (unsigned i = 0; i < op.numResults(); ++i)
      if (!op.result(i)->type.isTile()) a.known.erase(op.result(i));
  }
  using Numbers = llvm::SmallVector<std::optional<int64_t>, 8>;
  static Numbers read(const Actor &a, const Op &op, unsigned first) {
    Numbers values;
    for (unsigned i = first; i < op.numOperands(); ++i) values.push_back(a.get(op.operand(i)));
    return values;
  }
  static void giveResults(Actor &a, const Op &op, const Numbers &values) {
    for (unsigned i = 0; i < op.numResults(); ++i) a.set(op.result(i), values[i]);
  }
  static void giveArguments(Actor &a, const Block &block, const Numbers &values, unsigned first) {
    for (unsigned i = 0; i < values.size(); ++i) a.set(block.arg(first + i), values[i]);
  }

  /// False: it has to wait.
  bool step(Actor &a, const Op &op) {
    Actor::Frame &frame = a.stack.back();
    switch (op.opcode) {
    case Opcode::Yield:
    case Opcode::Condition:
      leave(a, op);
      return true;
    case Opcode::Return:
      a.ended = true;
      return true;
    case Opcode::For:
    case Opcode::While:
    case Opcode::If:
    case Opcode::Single:
      frame.next = op.next();
      enter(a, op);
      return true;
    case Opcode::BarrierWait:
      if (!wait(a, op)) return false;
      break;
    case Opcode::NamedBarrier:
      if (!namedBarrier(a, op)) return false;
      break;
    case Opcode::BarrierArrive:
    case Opcode::BarrierExpect:
      arrive(a, op);
      break;
    case Opcode::AsyncDescLoad:
    case Opcode::AsyncBulkLoad:
      load(a, op);
      break;
    case Opcode::AsyncDescStore:
    case Opcode::LocalLoad:
    case Opcode::LocalStore:
    case Opcode::AsyncDot:
      for (const Value *v : op.operands())
        if (v->type.isBuffer()) inRing(a, op, *v);
      forget(a, op);
      break;
    case Opcode::Assume:
    case Opcode::Assert:
      if (op.operand(0)->type.isScalar()) lost |= a.get(op.operand(0)).value_or(1) == 0; // no launch that should work
      break;
    default:
      compute(a, op);
    }
    frame.next = op.next();
    return true;
  }

  void compute(Actor &a, const Op &op) {
    if (op.numResults() != 1 || op.result()->type.isTile() || op.numRegions()) return forget(a, op);
    if (!op.result()->type.isScalar() || !isInt(op.result()->type.scalar())) return;
    if (op.is(Opcode::Constant)) return a.set(op.result(), op.intAttr(Attr::value));
    if (op.is(Opcode::PerReplica)) return a.set(op.result(), op.listAttr(Attr::values)[size_t(a.replica)]);
    if (op.is(Opcode::ProgramId)) return a.set(op.result(), 0);
    if (op.is(Opcode::NumPrograms)) return a.set(op.result(), 1);
    llvm::SmallVector<int64_t, 3> values;
    for (const Value *v : op.operands()) {
      const auto x = v->type.isScalar() && isInt(v->type.scalar()) ? a.get(v) : std::nullopt;
      if (x) values.push_back(*x);
    }
    const bool all = values.size() == op.numOperands() && !values.empty() && op.has(Pure);
    a.set(op.result(), all ? detail::foldIntegers(op, values) : std::nullopt);
  }

  // --- control -----------------------------------------------------------------------------------------------------
  void skip(Actor &a, const Op &op) {
    if (!isQuiet(op)) lost = true;
    forget(a, op);
  }
  void enter(Actor &a, const Op &op) {
    switch (op.opcode) {
    case Opcode::Single: {
      const auto on = op.numOperands() ? a.get(op.operand(0)) : 1;
      if (!on) return skip(a, op);
      if (*on) a.enter(&op, op.body());
      return;
    }
    case Opcode::If: {
      const auto on = a.get(op.operand(0));
      if (!on) return skip(a, op);
      return a.enter(&op, op.body(*on ? 0 : 1));
    }
    case Opcode::While:
      if (isQuiet(op)) return forget(a, op);
      giveArguments(a, op.body(0), read(a, op, 0), 0);
      return a.enter(&op, op.body(0));
    default:
      return enterFor(a, op);
    }
  }
  void enterFor(Actor &a, const Op &op) {
    const auto lo = a.get(op.operand(0)), hi = a.get(op.operand(1)), by = a.get(op.operand(2));
    auto isNumber = [](const Value *v) { return v->type.isScalar() && isInt(v->type.scalar()); };
    bool numbers = false;
    for (unsigned i = 0; i < op.numResults(); ++i) numbers |= isNumber(op.result(i)) && !op.result(i)->unused();
    if (isQuiet(op) && !numbers) return forget(a, op);
    if (!lo || !hi || !by || *by == INT64_MIN) return skip(a, op);
    const bool up = *by > 0;
    const uint64_t span = up ? uint64_t(*hi) - uint64_t(*lo) : uint64_t(*lo) - uint64_t(*hi);
    const uint64_t trips = !*by || (up ? *hi <= *lo : *lo <= *hi) ? 0 : (span - 1) / uint64_t(up ? *by : -*by) + 1;
    Numbers carried = read(a, op, 3);
    if (!trips) return giveResults(a, op, carried);
    a.enter(&op, op.body());
    Actor::Frame &frame = a.stack.back();
    frame.index = *lo, frame.step = *by, frame.left = int64_t(std::min<uint64_t>(trips, INT64_MAX)) - 1;
    a.set(op.body().arg(0), *lo);
    giveArguments(a, op.body(), carried, 1);
  }
  /// The end of a block.
  void leave(Actor &a, const Op &end) {
    Actor::Frame &frame = a.stack.back();
    const Op *owner = frame.owner;
    if (!owner) {
      a.ended = true;
      return;
    }
    if (owner->is(Opcode::While)) return leaveWhile(a, end);
    Numbers values = read(a, end, 0);
    if (owner->is(Opcode::For) && frame.left > 0) {
      --frame.left;
      frame.index += frame.step;
      frame.next = frame.block->front();
      a.set(frame.block->arg(0), frame.index);
      return giveArguments(a, *frame.block, values, 1);
    }
    a.stack.pop_back();
    if (!owner->is(Opcode::Single)) giveResults(a, *owner, values);
  }
  void leaveWhile(Actor &a, const Op &end) {
    Actor::Frame &frame = a.stack.back();
    const Op &owner = *frame.owner;
    Numbers values = read(a, end, end.is(Opcode::Condition) ? 1 : 0);
    unsigned to = 0;
    if (end.is(Opcode::Condition)) {
      const auto goOn = a.get(end.operand(0));
      if (!goOn) {
        lost = true;
        return;
      }
      if (!*goOn) {
        a.stack.pop_back();
        return giveResults(a, owner, values);
      }
      to = 1;
    }
    frame.block = &owner.body(to);
    frame.next = frame.block->front();
    giveArguments(a, *frame.block, values, 0);
  }

  // --- barriers ----------------------------------------------------------------------------------------------------
  /// The caller may know that the number fits: it comes from an argument, or counts up to one. What a task carries from step to step does not.
  bool isCallers(const Value *v) const {
    Sources sources(module);
    sources.addUncarried(v);
    return !sources.names.empty();
  }
  /// The slot's number; nothing after a report, or where it is not known.
  std::optional<int64_t> inRing(Actor &a, const Op &op, const Value &view) {
    const SlotOf of = slotOf(&view);
    const auto index = of.index ? a.get(of.index) : 0;
    const int64_t depth = of.depth;
    if (!index || (*index >= 0 && *index < depth)) return index;
    if (of.index && isCallers(of.index)) {
      lost = true;
      return std::nullopt;
    }
    diagnostics.report(Diag::SlotOutside, op.loc, *index, slotText(*of.alloc), depth)
        .notes.push_back({of.alloc->loc, "declared here" + with()});
    failed = true;
    return std::nullopt;
  }
  Slot *slot(Actor &a, const Op &op, const Value &view) {
    const auto index = inRing(a, op, view);
    if (!index) {
      lost |= !failed;
      return nullptr;
    }
    const Op *alloc = slotOf(&view).alloc;
    Slot &s = slots[{alloc, *index}];
    if (!s.alloc) {
      s.alloc = alloc, s.index = *index;
      s.count = s.pending = alloc->intAttr(Attr::arrivals, 1);
    }
    return &s;
  }
  static void complete(Slot &s) {
    if (s.pending || s.got != s.expected) return;
    s.pending = s.count;
    s.expected = s.got = 0;
    s.phaseStart = s.arrivals.size();
    ++s.completed;
  }
  /// How often an operation of a task arrives.
  int64_t weight(const Op &op) const {
    const int64_t count = op.intAttr(Attr::arrivals, 1);
    if (op.is(Opcode::BarrierExpect) || op.intAttr(Attr::task)) return count;
    const bool single = op.parentOp() && op.parentOp()->is(Opcode::Single);
    return single ? count : count * warpsOf(module, op);
  }
  void arrive(Actor &a, const Op &op) {
    if (op.is(Opcode::BarrierArrive) && op.numOperands() > 1) {
      const auto on = a.get(op.operand(1));
      lost |= !on;
      if (!on || !*on) return;
    }
    Slot *s = slot(a, op, *op.operand(0));
    if (!s) return;
    const int64_t count = weight(op);
    if (count > s->pending) {
      const int64_t missing = s->expected - s->got;
      withAdvice(diagnostics.report(Diag::ArriveTooMany, op.loc, taskText(a.task, a.replica), with(),
                                    counted(count, "arrival"), s->text(), s->pending, s->count,
                                    missing ? "; it still waits for " + counted(missing, "byte") : ""),
                 op.loc);
      failed = true;
      about.push_back(s->alloc);
      return;
    }
    s->pending -= count;
    s->arrivals.push_back({&op, a.task, a.replica, count});
    if (op.is(Opcode::BarrierExpect)) s->expected += op.intAttr(Attr::bytes);
    complete(*s);
  }
  void load(Actor &a, const Op &op) {
    inRing(a, op, *op.operand(1));
    Slot *s = failed ? nullptr : slot(a, op, *op.operand(2));
    if (!s) return;
    s->got += op.is(Opcode::AsyncBulkLoad) ? op.intAttr(Attr::bytes) : bufferBytes(op.operand(1)->type);
    complete(*s);
  }
  bool wait(Actor &a, const Op &op) {
    Slot *s = slot(a, op, *op.operand(0));
    const auto phase = a.get(op.operand(1));
    lost |= !phase;
    if (!s || !phase) return true;
    if (*phase != 0 && *phase != 1 && isCallers(op.operand(1))) {
      lost = true;
      return true;
    }
    if (*phase != 0 && *phase != 1) {
      diagnostics.report(Diag::PhaseValue, op.loc, *phase);
      failed = true;
      return true;
    }
    if ((s->completed & 1) == *phase) return false;
    a.seen[s] = s->arrivals.size();
    auto [it, isNew] = a.passes.insert({{&op, s}, Actor::Passes{*phase, s->completed}});
    if (isNew) return true;
    Actor::Passes &p = it->second;
    ++p.count;
    p.same &= p.phase == *phase;
    p.stale |= p.completed == s->completed;
    p.completed = s->completed;
    return true;
  }

  struct Named {
    int64_t threads = 0;
    unsigned phase = 0;
  };
  bool namedBarrier(Actor &a, const Op &op) {
    const auto ids = op.listAttr(Attr::ids);
    Named &n = named[size_t(ids.empty() ? op.intAttr(Attr::id) : ids[size_t(a.replica)])];
    if (a.named) {
      if (*a.named == n.phase) return false;
      a.named.reset();
      return true;
    }
    const unsigned before = n.phase;
    n.threads += int64_t(warpsOf(module, op)) * module.kernel.warpSize;
    if (n.threads >= op.intAttr(Attr::threads)) n.threads = 0, ++n.phase;
    if (op.intAttr(Attr::arrive) || n.phase != before) return true;
    a.named = before;
    ++steps; // it arrived
    return false;
  }

  // --- reports -----------------------------------------------------------------------------------------------------
  /// How much a wait tells about what is wrong.
  int rank(Actor &a) {
    if (!a.at()->is(Opcode::BarrierWait)) return -1;
    const Slot &s = *slot(a, *a.at(), *a.at()->operand(0));
    if (since(a, s) > s.count) return 3;
    if (!s.pending || s.pending < s.count || s.got != s.expected) return 2;
    return s.arrivals.empty() && !anyArrival(*s.alloc) ? 1 : 0;
  }
  static bool anyArrival(const Op &alloc) {
    bool any = false;
    for (const Use &use : alloc.result()->uses()) {
      auto arrives = [](const Op &op) { return op.is(Opcode::BarrierArrive) || op.is(Opcode::BarrierExpect); };
      any |= arrives(*use.op);
      if (use.op->is(Opcode::SubView))
        for (const Use &inner : use.op->result()->uses()) any |= arrives(*inner.op);
    }
    return any;
  }
  static int64_t since(const Actor &a, const Slot &s) {
    auto it = a.seen.find(&const_cast<Slot &>(s));
    int64_t n = 0;
    for (size_t i = it == a.seen.end() ? 0 : it->second; i < s.arrivals.size(); ++i) n += s.arrivals[i].count;
    return n;
  }
  /// "3: task 'a' in line 3, 2 times, task 'b' in line 4"
  static std::string arrivalsText(const Slot &s, size_t from) {
    int64_t n = 0;
    std::vector<std::pair<const Slot::Arrival *, unsigned>> who;
    for (size_t i = from; i < s.arrivals.size(); ++i) {
      const Slot::Arrival &one = s.arrivals[i];
      n += one.count;
      auto same = llvm::find_if(who, [&](auto &w) { return w.first->op == one.op && w.first->replica == one.replica; });
      if (same == who.end())
        who.push_back({&one, 1});
      else
        ++same->second;
    }
    std::string text = std::to_string(n);
    for (auto &[one, times] : who)
      text += (text.find(':') == std::string::npos ? ": " : ", ") + taskText(one->task, one->replica) + " in line " +
              std::to_string(one->op->loc.line) + (times > 1 ? ", " + std::to_string(times) + " times" : "");
    return text;
  }
  Diagnostic &waitsForEver(Actor &a) {
    const Op &op = *a.at();
    const Slot &s = *slot(a, op, *op.operand(0));
    const int64_t phase = s.completed & 1;
    if (since(a, s) > s.count) {
      auto it = a.seen.find(&const_cast<Slot &>(s));
      return diagnostics.report(Diag::WaitMissed, op.loc, taskText(a.task, a.replica), with(), s.text(),
                                s.count == 1 ? "arrival" : counted(s.count, "arrival"),
                                arrivalsText(s, it == a.seen.end() ? 0 : it->second), 1 - phase);
    }
    std::string needs = counted(s.count, "arrival"), gets = arrivalsText(s, s.phaseStart);
    if (!anyArrival(*s.alloc)) gets = "none: no task arrives there";
    if (!s.pending && s.expected != s.got) {
      needs = counted(s.expected, "byte");
      gets = std::to_string(s.got) + " (expected by " + arrivalsText(s, s.phaseStart).substr(3) + ")";
    }
    return diagnostics.report(Diag::WaitForever, op.loc, taskText(a.task, a.replica), with(), phase, s.text(), needs,
                              gets);
  }
  void stuck(llvm::ArrayRef<Actor *> waiting) {
    failed = true;
    Actor *first = waiting[0];
    for (Actor *a : waiting)
      if (rank(*a) > rank(*first)) first = a;
    if (rank(*first) < 0) { // named barriers alone
      failed = false, lost = true;
      return;
    }
    Diagnostic &said = waitsForEver(*first);
    const Loc place = first->at()->loc;
    for (Actor *a : waiting) {
      const Op &op = *a->at();
      if (op.is(Opcode::BarrierWait)) about.push_back(slotOf(op.operand(0)).alloc);
      if (a == first) continue;
      std::string what = "a named barrier";
      if (op.is(Opcode::BarrierWait)) {
        const Slot &s = *slot(*a, op, *op.operand(0));
        what = "phase " + std::to_string(s.completed & 1) + " of " + s.text();
      }
      said.notes.push_back({op.loc, taskText(a->task, a->replica) + " waits for " + what});
    }
    withAdvice(said, place);
  }

  /// Waits that passed for one phase again and again while the barrier went on.
  void stale() {
    std::vector<Loc> said;
    for (Actor &a : actors)
      for (auto &[key, p] : a.passes) {
        auto [op, s] = key;
        if (!p.same || !p.stale || (s->completed < 2 && !failed) || llvm::is_contained(said, op->loc)) continue;
        bool alone = true;
        for (auto &[other, q] : a.passes) alone &= other.second->alloc != s->alloc || other.first == op;
        if (!alone) continue;
        said.push_back(op->loc);
        diagnostics.report(Diag::WaitStale, op->loc, taskText(a.task, a.replica), p.phase, s->text(), with());
      }
  }

  const Module &module;
  Diagnostics &diagnostics;
  const int64_t number; // every integer argument
  const bool reversed;
  std::deque<Actor> actors; // the kernel, then the tasks
  std::map<std::pair<const Op *, int64_t>, Slot> slots;
  std::array<Named, 16> named{};
  llvm::DenseMap<const Op *, bool> quiet;
  unsigned steps = 0;
  bool lost = false; // what tasks do depends on what is not known
};

} // namespace

bool walkSchedule(const Module &module, Diagnostics &diagnostics) {
  bool seen = true;
  unsigned walks = 0;
  for (int64_t number : {1024, 512, 256, 64, 16, 8, 4, 2, 1}) {
    Diagnostics found;
    Walk walk(module, found, number, walks % 2);
    if (!walk.factsHold()) continue;
    seen &= walk.run();
    const std::string different = differentArguments(module, walk.about);
    for (Diagnostic said : found.all()) {
      if (!different.empty() && said.severity == Severity::Error)
        said.severity = Severity::Warning,
        said.notes.push_back({said.loc, "tasks go by different arguments, which have one number here: " + different});
      diagnostics.take(std::move(said));
    }
    if (++walks == 2 || walk.failed) break;
  }
  return seen && walks;
}

} // namespace tlx::passes
