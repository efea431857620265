// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// async_tasks and its tasks. Each replica of a task is elaborated on its own, since its number is known at compile time.
#include "lang/elaborate_p.h"

#include "llvm/Support/MathExtras.h"

namespace tlx::lang {

using namespace ast;
using llvm::cast;
using llvm::dyn_cast;

namespace {
constexpr int64_t kMaxTaskWarps = 16, kMaxReplicas = 8, kMinRegisters = 24, kMaxRegisters = 240;

/// What the header of a task says.
struct Header {
  const AsyncTask *task = nullptr;
  int64_t warps = 0, registers = 0, replicate = 1;
  std::optional<int64_t> start; // in warps
  std::string name;
  std::string reportName() const { return name.empty() && task->isDefault ? "default" : name; }
};
} // namespace

/// The attributes of a task's header; false after an error.
static bool readHeader(Elaborator &e, const AsyncTask &task, int64_t kernelWarps, Header &h) {
  h.task = &task;
  bool ok = true;
  auto integer = [&](const Arg &a, const Val &v, int64_t lo, int64_t hi, int64_t multiple, int64_t &out) {
    const bool power = multiple == 0; // of two
    if (v.isPoison()) return ok = false;
    if (v.isInt() && v.i >= lo && v.i <= hi && (power ? llvm::isPowerOf2_64(uint64_t(v.i)) : v.i % multiple == 0)) {
      out = v.i;
      return true;
    }
    e.error(Diag::ElTaskAttrValue, a.value->loc, a.name.text,
            power          ? "a power of two"
            : multiple > 1 ? "a multiple of " + std::to_string(multiple)
                           : "an integer",
            lo, hi, v.isInt() ? std::to_string(v.i) : e.describe(v));
    return ok = false;
  };
  for (const Arg &a : task.attrs) {
    const llvm::StringRef name = a.name.text;
    Val v = e.value(*a.value);
    if (name == "num_warps" && !task.isDefault) {
      integer(a, v, 1, kMaxTaskWarps, 0, h.warps);
    } else if (name == "registers" || name == "num_regs") {
      integer(a, v, kMinRegisters, kMaxRegisters, 8, h.registers);
    } else if (name == "replicate" && !task.isDefault) {
      integer(a, v, 1, kMaxReplicas, 1, h.replicate);
    } else if (name == "warp_group_start_id" && !task.isDefault) {
      int64_t start = 0;
      if (integer(a, v, 1, 63, 1, start)) h.start = start;
    } else if (name == "name") {
      if (v.is(Val::Kind::String))
        h.name = v.s;
      else if (!v.isPoison())
        e.error(Diag::ElTaskName, a.value->loc, e.describe(v));
    } else {
      e.error(Diag::ElTaskAttr, a.name.loc, task.isDefault ? "the default task" : "async_task", name,
              task.isDefault ? "registers and name; its warps are those of the launch"
                             : "num_warps, registers, replicate, name and warp_group_start_id");
      ok = false;
    }
  }
  if (task.isDefault) h.warps = kernelWarps;
  if (ok && !h.warps) {
    e.error(Diag::ElTaskWarps, task.loc);
    ok = false;
  }
  return ok;
}

/// The tasks of a body, and of the taken sides of ifs around tasks.
bool Elaborator::collectTasks(const Block &body, std::vector<const AsyncTask *> &tasks) {
  for (const StmtPtr &s : body.stmts) {
    if (auto *task = dyn_cast<AsyncTask>(s.get())) {
      tasks.push_back(task);
    } else if (auto *branch = dyn_cast<If>(s.get())) {
      ir::Value *runtime = nullptr;
      auto known = condition(*branch->cond, runtime, "if");
      if (!known) {
        error(Diag::ElTaskIf, branch->cond->loc);
        return false;
      }
      if (*known) {
        if (!collectTasks(*branch->thenBlock, tasks)) return false;
      } else if (branch->elseBranch) {
        const Stmt *other = branch->elseBranch.get();
        if (auto *block = dyn_cast<Block>(other)) {
          if (!collectTasks(*block, tasks)) return false;
        } else {
          error(Diag::ElTaskElseIf, other->loc);
          return false;
        }
      }
    }
  }
  return true;
}

/// First warps of the tasks. Without ids large tasks come first, so that each starts at a multiple of its size, with which a thread's number
/// in its task is a mask; nullopt after an error.
static std::optional<std::vector<int64_t>> placeTasks(Elaborator &e, llvm::ArrayRef<Header> headers,
                                                      llvm::ArrayRef<unsigned> copies) {
  std::vector<int64_t> starts(copies.size(), -1);
  std::vector<std::pair<int64_t, int64_t>> taken;
  auto place = [&](size_t i, int64_t at) {
    starts[i] = at;
    taken.push_back({at, at + headers[copies[i]].warps});
  };
  auto isFree = [&](int64_t from, int64_t to) {
    return llvm::none_of(taken, [&](auto &t) { return from < t.second && t.first < to; });
  };
  std::vector<size_t> rest;
  std::vector<int64_t> replicas(headers.size(), 0);
  for (size_t i = 0; i < copies.size(); ++i) {
    const Header &h = headers[copies[i]];
    if (h.task->isDefault) {
      place(i, 0);
    } else if (h.start) {
      const int64_t at = *h.start + h.warps * replicas[copies[i]]++;
      if (!isFree(at, at + h.warps)) {
        e.error(Diag::ElTaskOverlap, h.task->loc, at, at + h.warps - 1);
        return std::nullopt;
      }
      place(i, at);
    } else {
      rest.push_back(i);
    }
  }
  llvm::stable_sort(rest, [&](size_t a, size_t b) { return headers[copies[a]].warps > headers[copies[b]].warps; });
  for (size_t i : rest) {
    const int64_t warps = headers[copies[i]].warps;
    int64_t at = 0;
    while (!isFree(at, at + warps)) at += warps;
    place(i, at);
  }
  return starts;
}

void Elaborator::asyncTasks(const AsyncTasks &s) {
  At at(*this, s.loc);
  if (task) {
    error(Diag::ElTaskNested, s.loc);
    return;
  }
  for (const Arg &a : s.attrs) error(Diag::ElTasksAttr, a.name.loc, a.name.text);
  std::vector<const AsyncTask *> tasks;
  if (!collectTasks(*s.body, tasks)) return;
  std::vector<Header> headers;
  bool ok = true;
  unsigned defaults = 0;
  for (const AsyncTask *t : tasks) {
    headers.emplace_back();
    ok &= readHeader(*this, *t, module->kernel.numWarps, headers.back());
    defaults += t->isDefault;
  }
  if (defaults != 1) {
    error(Diag::ElTaskDefault, s.loc, defaults);
    ok = false;
  }
  if (!ok) return;
  const auto budget = [](const Header &h) { return h.registers != 0; };
  const bool some = llvm::any_of(headers, budget);
  for (const Header &h : headers) {
    if (!some) break;
    if (!h.task->isDefault && !h.registers) error(Diag::ElTaskRegistersAll, h.task->loc);
  }
  for (size_t i = 0; i < headers.size(); ++i) {
    const std::string name = headers[i].reportName();
    auto same = [&](const Header &h) { return !name.empty() && h.reportName() == name; };
    if (std::any_of(headers.begin(), headers.begin() + i, same)) error(Diag::ElTaskTwice, headers[i].task->loc, name);
  }
  // The default task first: its warps are the first of the launch.
  llvm::stable_sort(headers, [](const Header &a, const Header &b) { return a.task->isDefault > b.task->isDefault; });
  std::vector<unsigned> copies;
  for (unsigned i = 0; i < headers.size(); ++i) copies.insert(copies.end(), size_t(headers[i].replicate), i);
  auto starts = placeTasks(*this, headers, copies);
  if (!starts) return;

  std::vector<int> assigned;
  ir::Block *outside = b().insertBlock();
  ir::Op *all = b().create(ir::Opcode::AsyncTasks, {}, {});
  ir::Block &list = all->addRegion();
  ++operations;
  for (size_t i = 0; i < copies.size(); ++i) {
    const Header &h = headers[copies[i]];
    const int64_t replica = int64_t(i) - (llvm::find(copies, copies[i]) - copies.begin());
    b().atEnd(list);
    ir::Op *op = b().create(ir::Opcode::Task, {}, {});
    op->loc = h.task->loc;
    op->setAttr(ir::Attr::warps, h.warps);
    op->setAttr(ir::Attr::start, (*starts)[i]);
    if (h.registers) op->setAttr(ir::Attr::registers, h.registers);
    if (h.replicate > 1) op->setAttr(ir::Attr::replica, replica);
    if (!h.reportName().empty()) op->setAttr(ir::Attr::name, h.reportName());
    oneTask(*h.task, *op, replica, assigned);
  }
  for (int c : assigned) cells[c].taskCopy = true;
  b().atEnd(list);
  b().yield({});
  b().atEnd(*outside);
}

/// `assigned` gets the variables from outside that it has assigned to its copies.
void Elaborator::oneTask(const AsyncTask &s, ir::Op &op, int64_t replica, std::vector<int> &assigned) {
  b().atEnd(op.addRegion());
  const std::vector<Cell> before = cells;
  task = &op;
  taskReplica = replica;
  block(*s.body);
  task = nullptr;
  b().atEnd(op.body());
  b().yield({});
  for (size_t i = 0; i < before.size(); ++i) {
    if (cells[i].value != before[i].value) assigned.push_back(int(i));
    const auto read = cells[i].read;
    cells[i] = before[i];
    cells[i].read = read;
  }
  // Tiles stay with the warps that made them.
  ir::Op *bad = nullptr;
  op.body().walk([&](ir::Op &inner) {
    for (ir::Value *v : inner.operands()) {
      if (bad || !v->type.isTile()) continue;
      const ir::Op *around = v->def() ? v->def()->parentOp() : v->block()->parentOp();
      while (around && around != &op) around = around->parentOp();
      if (!around) bad = &inner;
    }
  });
  if (bad) error(Diag::ElTaskTile, bad->loc);
}

Val Elaborator::opTaskReplicaId(CallArgs &a) {
  if (!task) return error(Diag::ElTaskReplica, a.nameLoc);
  return Val::integer(taskReplica, ir::Scalar::I32);
}

} // namespace tlx::lang
