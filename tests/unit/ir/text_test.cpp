// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The text form: round trips of modules with every operation, exact numbers, and diagnostics on bad text.
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <set>

#include "testing.h"

using namespace tlx;
using namespace tlx::ir;
using namespace tlx::ir::testing;

namespace {

/// Views, storages, accesses by index, bulk copies.
void buildViews(Builder &b) {
  Context &c = b.context;
  Value *desc = b.module.kernel.body.arg(5), *zero = b.constI32(0);
  Value *ring = b.localAlloc(Scalar::F32, {64, 64}, 2, nullptr), *bytes = b.localAlloc(Scalar::U8, {128}, 64, nullptr);
  b.create(Opcode::LocalReshape, ring, c.buffer(Scalar::F32, {16, 256}, 2, Space::Shared));
  b.create(Opcode::LocalReinterpret, ring, c.buffer(Scalar::F16, {64, 128}, 2, Space::Shared));
  Op *view = b.create(Opcode::StorageView, bytes, c.buffer(Scalar::F32, {32, 32}, 1, Space::Shared));
  for (auto [attr, value] : {std::pair{Attr::offset, 0}, {Attr::stride, 0}, {Attr::group, 1}})
    view->setAttr(attr, int64_t(value));
  Value *indices = b.splat(zero, {8, 32});
  Op *gather = b.create(Opcode::LocalGather, {view->result(), indices}, c.tile(b.f32(), {8, 32}));
  gather->setAttr(Attr::axis, int64_t(0));
  b.create(Opcode::LocalScatter, {view->result(), gather->result(), indices}, {})->setAttr(Attr::axis, int64_t(0));
  Value *line = b.localAlloc(Scalar::F32, {64}, 1, nullptr);
  Op *bar = b.create(Opcode::AllocBarriers, {}, c.barrier(1));
  bar->setAttr(Attr::arrivals, int64_t(1));
  b.create(Opcode::Fence, {}, {})->setAttr(Attr::scope, std::string("gpu"));
  Op *single = b.create(Opcode::Single, {}, {});
  Builder in(b.module);
  in.atEnd(single->addRegion());
  in.create(Opcode::AsyncDescPrefetch, {desc, zero, zero}, {});
  Value *pointer = b.module.kernel.body.arg(0);
  in.create(Opcode::AsyncBulkLoad, {pointer, line, bar->result()}, {})->setAttr(Attr::bytes, int64_t(256));
  in.create(Opcode::AsyncBulkStore, {pointer, line}, {})->setAttr(Attr::bytes, int64_t(16));
  in.yield({});
}

/// A kernel that uses every operation of the table at least once.
/// What works by itself: only its text matters here.
void buildAsync(Builder &b) {
  Context &c = b.context;
  Value *desc = b.module.kernel.body.arg(5), *zero = b.constI32(0);
  b.descStore(desc, b.descLoad(desc, {zero, zero}), {zero, zero}, "min");
  Op *bars = b.create(Opcode::AllocBarriers, {}, c.barrier(2));
  bars->setAttr(Attr::arrivals, int64_t(1));
  Value *bar = b.subview(bars->result(), zero);
  Value *buffer = b.localAlloc(Scalar::BF16, {128, 64}, 1, nullptr);
  Op *single = b.create(Opcode::Single, {}, {});
  single->addRegion();
  Builder in(b.module);
  in.atEnd(single->body());
  in.create(Opcode::BarrierExpect, bar, {})->setAttr(Attr::bytes, int64_t(16384));
  in.create(Opcode::AsyncDescLoad, {desc, buffer, bar, zero, zero}, {});
  in.create(Opcode::AsyncDescStore, {desc, buffer, zero, zero}, {});
  in.create(Opcode::AsyncStoreCommit, {}, {});
  in.create(Opcode::AsyncStoreWait, {}, {})->setAttr(Attr::pending, int64_t(0));
  in.yield({});
  b.create(Opcode::EdgeStore, {desc, buffer, zero, zero}, {});
  b.create(Opcode::BarrierArrive, bar, {});
  b.create(Opcode::BarrierWait, {bar, zero}, {});
  b.create(Opcode::FenceProxy, {}, {});
  Op *part = b.create(Opcode::LocalSlice, buffer, c.buffer(Scalar::BF16, {64, 64}, 1, Space::Shared));
  part->setAttr(Attr::offsets, std::vector<int64_t>{64, 0});
  Value *ones = b.splat(b.constant(b.i1(), 1), {64});
  b.create(Opcode::WarpAny, ones, b.i1());
  Op *named = b.create(Opcode::NamedBarrier, {}, {});
  named->setAttr(Attr::id, int64_t(9)), named->setAttr(Attr::threads, int64_t(256));
  Op *tasks = b.create(Opcode::AsyncTasks, {}, {});
  in.atEnd(tasks->addRegion());
  for (int64_t start : {0, 8}) {
    Op *task = in.create(Opcode::Task, {}, {});
    task->setAttr(Attr::start, start), task->setAttr(Attr::warps, int64_t(8));
    Builder body(b.module);
    body.atEnd(task->addRegion());
    body.create(Opcode::BarrierArrive, bar, {})->setAttr(Attr::task, int64_t(1));
    if (start) {
      task->setAttr(Attr::replicas, int64_t(2));
      body.create(Opcode::PerReplica, {}, b.i32())->setAttr(Attr::values, std::vector<int64_t>{3, -5});
    }
    body.yield({});
  }
  in.yield({});
  Value *other = b.localAlloc(Scalar::BF16, {64, 8}, 1, nullptr);
  Value *acc = b.create(Opcode::Uninit, {}, c.tile(b.f32(), {128, 8}))->result();
  acc = b.create(Opcode::AsyncDot, {buffer, other, acc}, acc->type)->result();
  b.create(Opcode::AsyncDotWait, acc, acc->type)->setAttr(Attr::pending, int64_t(0));
}

void buildEverything(Module &m) {
  Context &c = m.context;
  m.target = "sm_80";
  Kernel &k = m.kernel;
  k.name = "everything";
  k.numWarps = 8;
  k.sharedBytes = 4096;
  Value *x = k.body.addArg(c.pointer(Scalar::F32), "x");
  Value *h = k.body.addArg(c.pointer(Scalar::F16), "h");
  Value *n = k.body.addArg(c.scalar(Scalar::I32), "n");
  Value *unnamed = k.body.addArg(c.scalar(Scalar::F64));
  Value *twin = k.body.addArg(c.scalar(Scalar::I32), "n");
  k.body.addArg(c.tensorDesc(Scalar::BF16, {128, 64}), "desc");
  k.descriptors.push_back({"lowered \"a\"", c.tensorDesc(Scalar::F32, {8}), 0});
  k.body.addArg(c.barrier(2), "bar");
  k.body.addArg(c.token(), "tok");
  k.facts.push_back(
      {"n % 16 == 0",
       {{Fact::Op::Arg, 2}, {Fact::Op::Const, 16}, {Fact::Op::ModFloor}, {Fact::Op::Const, 0}, {Fact::Op::Eq}},
       false});
  k.facts.push_back({"noalias(x)", {{Fact::Op::Arg, 0}}, true});

  Builder b(m);
  Value *pid = b.programId(0);
  Value *programs = b.numPrograms(1);
  b.assume(b.cmp(Pred::Lt, pid, programs));
  Value *n16 = b.multipleOf(n, 16);
  Value *range = b.arange(0, 64);
  Value *ns = b.splat(n16, {64});
  Value *mask = b.cmp(Pred::Lt, range, ns);
  Value *p = b.addptr(b.splat(x, {64}), range);
  Value *v = b.load(p, mask, b.constantFloat(c.tile(b.f32(), {64}), -0.0));
  for (Opcode o :
       {Opcode::Add, Opcode::Sub, Opcode::Mul, Opcode::Div, Opcode::Min, Opcode::Max, Opcode::MinNan, Opcode::MaxNan})
    v = b.binary(o, v, v);
  v->def()->setAttr(Attr::vec, int64_t(4));
  for (Opcode o : {Opcode::Neg, Opcode::Exp, Opcode::Exp2, Opcode::Log, Opcode::Log2, Opcode::Sqrt, Opcode::Rsqrt,
                   Opcode::Abs, Opcode::Floor, Opcode::Ceil})
    v = b.unary(o, v);
  v = b.fma(v, v, v);
  Value *i = range;
  for (Opcode o : {Opcode::DivFloor, Opcode::ModFloor, Opcode::CeilDiv, Opcode::And, Opcode::Or, Opcode::Xor,
                   Opcode::Shl, Opcode::Shr})
    i = b.binary(o, i, ns);
  v = b.select(mask, v, b.bitcast(b.cast(i, Scalar::I32), b.f32()));
  v = b.requireLayout(v, "blocked(size = [1], lanes = [32], warps = [8], order = [0])");
  b.store(p, v, mask);
  b.atomicAdd(p, v);
  Value *square = b.broadcast(b.expandDims(v, 1), {64, 64});
  Value *joined = b.join(square, square);
  auto [left, right] = b.split(joined);
  Value *shaped = b.trans(b.reshape(left, {64, 8, 8}), {2, 0, 1});
  b.print("a \"quoted\" %d\n\t\\", {shaped, pid});
  Value *a16 = b.cast(right, Scalar::F16, "rtz");
  Value *acc = b.dot(a16, a16, square, "ieee");
  Value *buffer = b.localAlloc(Scalar::F16, {64, 64}, 3, nullptr);
  buffer->def()->setAttr(Attr::offset, int64_t(1024));
  Value *slot = b.subview(buffer, b.constI32(1));
  b.localStore(slot, a16);
  Op *trans = b.create(Opcode::LocalTrans, slot, c.buffer(Scalar::F16, {64, 64}, 1, Space::Shared));
  trans->setAttr(Attr::perm, std::vector<int64_t>{1, 0});
  b.localLoad(trans->result(), nullptr);
  Value *hp = b.splat(h, {64, 64});
  b.asyncCopy(slot, hp);
  b.create(Opcode::AsyncCommit, {}, {});
  b.create(Opcode::AsyncWait, {}, {})->setAttr(Attr::pending, int64_t(2));
  b.create(Opcode::Barrier, {}, {});
  b.create(Opcode::ConvertLayout, acc, acc->type);
  auto two = b.reduce({v, i}, 0, [&](llvm::ArrayRef<Value *> l, llvm::ArrayRef<Value *> r) {
    return llvm::SmallVector<Value *, 2>{b.binary(Opcode::Max, l[0], r[0]), b.binary(Opcode::Add, l[1], r[1])};
  });
  b.scan(v, 0, true, [&](llvm::ArrayRef<Value *> l, llvm::ArrayRef<Value *> r) {
    return llvm::SmallVector<Value *, 2>{b.binary(Opcode::Add, l[0], r[0])};
  });
  b.atomicCas(p, v, v, mask);
  b.binary(Opcode::MulHi, i, i);
  b.create(Opcode::Assert, mask, {})->setAttr(Attr::message, std::string("never"));
  buildAsync(b);
  buildViews(b);
  Builder in(m);
  in.atEnd(k.body);
  Op *loop = in.forLoop(pid, n, twin, {two[0], acc});
  loop->setAttr(Attr::num_stages, int64_t(3));
  in.atEnd(loop->body());
  Op *branch = in.ifOp(in.cmp(Pred::Ge, loop->body().arg(0), two[1]), {in.f32()});
  in.atEnd(branch->body(0));
  in.yield(loop->body().arg(1));
  in.atEnd(branch->body(1));
  in.yield(in.constantFloat(in.f32(), std::nan("")));
  in.atEnd(loop->body());
  in.yield({branch->result(), loop->body().arg(2)});
  in.atEnd(k.body);
  Op *loop2 = in.whileLoop({unnamed});
  in.atEnd(loop2->body(0));
  in.condition(in.constant(in.i1(), 1), loop2->body(0).arg(0));
  in.atEnd(loop2->body(1));
  in.yield(loop2->body(1).arg(0));
  in.atEnd(k.body);
  in.ret();
}

} // namespace

TEST_CASE("a module with every operation round-trips byte for byte") {
  Context c;
  Module m(c);
  buildEverything(m);
  std::set<Opcode> used;
  m.kernel.body.walk([&](Op &op) { used.insert(op.opcode); });
  CHECK(used.size() == allOpcodes().size());
  const std::string text = print(m);
  Parsed again(text);
  REQUIRE_MESSAGE(again.module, again.messages());
  CHECK(print(*again.module) == text);
  CHECK(again.module->kernel.facts.size() == 2);
  CHECK(again.module->kernel.body.arg(0)->name == "x");
}

TEST_CASE("locations round-trip") {
  Context c;
  SourceManager sources;
  Module m(c);
  const uint32_t a = sources.add("dir/a.tlx", "one\n"), b = sources.add("b \"q\".tlx", "two\n");
  buildEverything(m);
  unsigned i = 0;
  m.kernel.body.walk([&](Op &op) {
    if (++i % 5) op.loc = {i % 2 ? a : b, i, i + 1, i + 4};
  });
  const std::string text = print(m, &sources, {.locations = true});
  Parsed again(text);
  REQUIRE_MESSAGE(again.module, again.messages());
  CHECK(print(*again.module, &again.sources, {.locations = true}) == text);
  CHECK(again.sources.name(again.module->kernel.body.front()->loc.file) == "dir/a.tlx");
}

TEST_CASE("an op without a location gets that of its text") {
  Parsed p(kernel("  %0 = program_id {axis = 0} : i32"));
  REQUIRE(p.module);
  CHECK(p.module->kernel.body.front()->loc == Loc{1, 3, 8, 18});
}

TEST_CASE("numbers read back as the same bits") {
  Context c;
  Module m(c);
  Builder b(m);
  const double values[] = {0.0,
                           -0.0,
                           1.0,
                           -1.0,
                           0.1,
                           double(0.1f),
                           1e300,
                           5e-324,
                           2.2250738585072014e-308,
                           INFINITY,
                           -INFINITY,
                           std::nan(""),
                           std::bit_cast<double>(0xfff8000000000001),
                           1e15,
                           123456789012345678.0,
                           std::numeric_limits<double>::max()};
  for (double v : values) b.constantFloat(b.f32(), v);
  for (int64_t v : {INT64_MIN, INT64_MAX, int64_t(0), int64_t(-1)}) b.constant(b.i64(), v);
  b.ret();
  Parsed again(print(m));
  REQUIRE_MESSAGE(again.module, again.messages());
  CHECK(print(*again.module) == print(m));
  Op *op = again.module->kernel.body.front();
  for (double v : values) {
    REQUIRE(std::holds_alternative<double>(op->attrs()[0].second));
    CHECK(std::bit_cast<uint64_t>(op->floatAttr(Attr::value)) == std::bit_cast<uint64_t>(v));
    op = op->next();
  }
  CHECK(op->intAttr(Attr::value) == INT64_MIN);
}

TEST_CASE("bad text gives a diagnostic at its column") {
  struct {
    const char *text;
    uint32_t line, col;
    const char *message;
  } cases[] = {
      {"", 1, 1, "'kernel'"},
      {"kernel k", 1, 8, "'@'"},
      {"#0 linear()", 1, 4, "'='"},
      {"#0 = a\n#0 = b\n", 2, 1, "already defined"},
  };
  for (auto &t : cases) {
    Parsed p(t.text);
    CHECK(!p.module);
    REQUIRE(p.diagnostics.all().size() == 1);
    CHECK(p.diagnostics.all()[0].id == Diag::IrSyntax);
    CHECK(p.diagnostics.all()[0].loc.line == t.line);
    CHECK(p.diagnostics.all()[0].loc.col == t.col);
    CHECK(p.diagnostics.all()[0].message.find(t.message) != std::string::npos);
  }
  struct {
    const char *ops;
    uint32_t col;
    const char *message;
  } ops[] = {
      {"  %0 = nothing : i32", 8, "unknown operation 'nothing'"},
      {"  %0 = neg %1 : i32", 12, "%1 is not defined above"},
      {"  %n = constant {value = 1} : i32", 3, "%n is already defined"},
      {"  %0 = constant {value = 1} : i33", 31, "a type"},
      {"  %0 = constant {value = 1} : i32[0]", 35, "between 1"},
      {"  %0 = constant {value = 1} : i32[1073741824, 2]", 34, "2^30"},
      {"  %0 = constant {value = 1} : i32[1, 1, 1, 1, 1, 1, 1, 1, 1]", 34, "8 dimensions"},
      {"  %0 = constant {value = 1} : i32[4, #7]", 38, "no layout #7"},
      {"  %0 = constant {value = 1, value = 2} : i32", 29, "stands twice"},
      {"  %0 = constant {colour = 1} : i32", 18, "name of an attribute"},
      {"  %0 = constant {value = 99999999999999999999} : i32", 26, "number"},
      {"  %0 = constant {value = 1e999} : f32", 26, "double"},
      {"  %0 = constant {value = \"a\\q\"} : f32", 28, "escape"},
      {"  %0 = constant {value = \"open} : f32", 26, "value of an attribute"},
      {"  %0 = constant {value = nan(0x1)} : f32", 26, "no nan"},
      {"  %0, %1 = constant {value = 1} : i32", 33, "2 results are named, 1 have a type"},
      {"  constant {value = 1} : i32", 24, "0 results are named"},
      {"  barrier barrier", 11, "end of the operation"},
      {"  barrier loc(3:1:1-2)", 15, "no file 3"},
      {"  %0 = constant {value = 1} : buffer<f16[4], 0, smem>", 46, "between 1"},
      {"  %0 = constant {value = 1} : buffer<f16[4], 1, rmem>", 49, "'smem' or 'tmem'"},
  };
  for (auto &t : ops) {
    CAPTURE(t.ops);
    Parsed p(kernel(t.ops, "%n: i32"));
    CHECK(!p.module);
    REQUIRE(p.diagnostics.all().size() == 1);
    const Diagnostic &d = p.diagnostics.all()[0];
    CHECK(d.loc.line == 3);
    CHECK(d.loc.col == t.col);
    CHECK_MESSAGE(d.message.find(t.message) != std::string::npos, d.message);
  }
}

TEST_CASE("deep nesting is refused, not a crash") {
  std::string text = "  %0 = constant {value = 1} : i1\n";
  for (int i = 0; i < 100000; ++i) text += "if %0 ^() {\n";
  Parsed p(kernel(text));
  CHECK(!p.module);
  CHECK(p.messages().find("regions nest deeper than 256") != std::string::npos);
}

TEST_CASE("mutated text never crashes, and what still parses prints to a fixed point") {
  Context c;
  Module m(c);
  buildEverything(m);
  const std::string text = print(m, nullptr, {.locations = true});
  std::mt19937 random(1);
  const std::string pieces[] = {"%",       "\"",
                                "{",       "}",
                                "(",       ")",
                                "[",       "]",
                                "^",       ",",
                                "nan(0x",  "-inf",
                                "1e",      "99999999999999999999",
                                "buffer<", "tensor_desc<",
                                "//",      "\n",
                                "\\",      "#s0",
                                "loc(",    "return",
                                "\xff",    "i32"};
  unsigned parsed = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string mutated = text;
    for (unsigned edits = 1 + random() % 3; edits--;) {
      const size_t at = random() % mutated.size();
      switch (random() % 4) {
      case 0:
        mutated.erase(at, 1 + random() % 8);
        break;
      case 1:
        mutated.insert(at, pieces[random() % std::size(pieces)]);
        break;
      case 2:
        mutated[at] = char(random());
        break;
      default:
        mutated.insert(at, mutated.substr(random() % mutated.size(), random() % 40));
        break;
      }
      if (mutated.empty()) mutated = " ";
    }
    if (round % 10 == 0) mutated.resize(random() % mutated.size() + 1);
    Parsed p(mutated);
    CHECK(bool(p.module) != p.diagnostics.hasErrors());
    if (!p.module) continue;
    ++parsed;
    Diagnostics found;
    verify(*p.module, found);
    const std::string once = print(*p.module, &p.sources, {.locations = true});
    Parsed again(once);
    REQUIRE_MESSAGE(again.module, again.messages());
    CHECK(print(*again.module, &again.sources, {.locations = true}) == once);
  }
  CHECK(parsed > 30);
}
