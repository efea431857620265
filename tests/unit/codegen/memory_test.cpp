// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels, arguments, global memory, atomics, control flow.
#include "testing.h"

#include "llvm/IR/DebugInfoMetadata.h"

#include <numeric>

using namespace tlx;
using namespace tlx::codegen_test;
using ir::Pred;

TEST_CASE("vector add with a mask") {
  for (const char *target : kTargets) {
    CAPTURE(target);
    TestKernel k(target, 2);
    Value *x = k.pointer(Scalar::F32, "x"), *y = k.pointer(Scalar::F32, "y"), *out = k.pointer(Scalar::F32, "out");
    Value *n = k.scalar(Scalar::I32, "n");
    const int64_t block = 512;
    const TileLayout *l = k.rows({block}, 4);
    Value *start = k.b.binary(Opcode::Mul, k.b.programId(0), k.b.constI32(block));
    Value *offs = k.b.binary(Opcode::Add, k.splat(start, l), k.arange(0, block, l));
    Value *mask = k.b.cmp(Pred::Lt, offs, k.splat(n, l));
    auto load = [&](Value *p) {
      Value *v = k.b.load(k.b.addptr(k.splat(p, l), offs), mask);
      v->def()->setAttr(ir::Attr::vec, int64_t(4));
      return v;
    };
    Value *sum = k.b.binary(Opcode::Add, load(x), load(y));
    k.b.store(k.b.addptr(k.splat(out, l), offs), sum, mask);
    k.b.insertBlock()->back()->setAttr(ir::Attr::vec, int64_t(4));

    sim::Memory memory;
    std::vector<float> a(1200), b(1200);
    std::iota(a.begin(), a.end(), 1.0f);
    std::iota(b.begin(), b.end(), 0.5f);
    float *px = upload(memory, a), *py = upload(memory, b), *po = upload(memory, std::vector<float>(1200, -1));
    checkRan(k.run(memory, params(px, py, po, int32_t(1196)), 3));
    std::vector<float> result = download(memory, po, 1200);
    for (int i = 0; i < 1200; ++i) CHECK(result[i] == (i < 1196 ? a[i] + b[i] : -1));

    CHECK(k.metadata.args.size() == 4);
    CHECK(k.metadata.args[3].offset == 24);
    CHECK(k.metadata.paramBytes == 28);
    CHECK(k.metadata.args[0].type == "*f32");
    const std::string ir = k.text();
    CHECK(ir.find("tlx.masked.load.v4i32") != std::string::npos);
    CHECK(ir.find("\"tlx.threads\"=\"" + std::to_string(2 * k.target->warpSize) + "\"") != std::string::npos);
    CHECK(k.assembly().size() > 100);
  }
}

TEST_CASE("loads and stores of each width, replicated layouts, odd extents") {
  for (const char *target : kTargets)
    for (Scalar s : {Scalar::I1, Scalar::U8, Scalar::F8E4M3, Scalar::F16, Scalar::BF16, Scalar::I32, Scalar::F64})
      for (int64_t n : {4, 24, 1536}) {
        TestKernel k(target, 2);
        Value *p = k.pointer(s), *q = k.pointer(s);
        const unsigned vec = n == 4 ? 1 : 8;
        const TileLayout *l = k.rows({n}, vec);
        k.storeTile(q, k.loadTile(p, l, vec), vec);
        sim::Memory memory;
        const unsigned bytes = ir::scalarBytes(s);
        std::vector<uint8_t> data(n * bytes);
        for (size_t i = 0; i < data.size(); ++i) data[i] = s == Scalar::I1 ? i % 3 == 0 : uint8_t(i * 7 + 3);
        uint8_t *from = upload(memory, data), *to = upload(memory, std::vector<uint8_t>(data.size()));
        checkRan(k.run(memory, params(from, to)));
        CHECK(download(memory, to, data.size()) == data);
      }
}

TEST_CASE("other fills masked-off elements") {
  TestKernel k;
  Value *p = k.pointer(Scalar::F16), *q = k.pointer(Scalar::F16);
  const TileLayout *l = k.rows({128}, 4);
  Value *index = k.index(l);
  Value *mask = k.b.cmp(Pred::Lt, index, k.constant(l, Scalar::I32, 40));
  Value *v = k.b.load(k.b.addptr(k.splat(p, l), index), mask, k.constant(l, Scalar::F16, 2));
  v->def()->setAttr(ir::Attr::vec, int64_t(4));
  k.storeTile(q, v, 4);
  sim::Memory memory;
  uint16_t *from = upload(memory, std::vector<uint16_t>(40, 0x3c00)), *to = upload(memory, std::vector<uint16_t>(128));
  checkRan(k.run(memory, params(from, to)));
  auto result = download(memory, to, 128);
  for (int i = 0; i < 128; ++i) CHECK(result[i] == (i < 40 ? 0x3c00 : 0x4000));
}

TEST_CASE("atomics: once an element, results for all") {
  for (const char *target : kTargets) {
    CAPTURE(target);
    TestKernel k(target, 2);
    Value *counter = k.pointer(Scalar::I32, "counter"), *sums = k.pointer(Scalar::F32, "sums"),
          *out = k.pointer(Scalar::I32, "out");
    // A ticket for the program, seen by all threads.
    Value *ticket = k.b.atomicAdd(counter, k.b.constI32(1));
    const TileLayout *l = k.rows({256}, 1);
    Value *at = k.b.binary(Opcode::Add, k.index(l), k.splat(k.b.binary(Opcode::Mul, ticket, k.b.constI32(256)), l));
    k.b.store(k.b.addptr(k.splat(out, l), at), k.splat(ticket, l));
    // Fewer elements than threads: copies must not add.
    const TileLayout *small = k.rows({8}, 1);
    Value *before = k.b.atomicAdd(k.b.addptr(k.splat(sums, small), k.index(small)), k.constant(small, Scalar::F32, 3));
    k.b.store(
        k.b.addptr(k.splat(sums, small), k.b.binary(Opcode::Add, k.index(small), k.constant(small, Scalar::I32, 8))),
        before);
    // What lowerReductions and planMemory would say.
    for (auto [op, at, bytes] : {std::tuple{ticket->def(), 0, 16}, {before->def(), 16, 32}})
      op->setAttr(ir::Attr::offset, int64_t(at)), op->setAttr(ir::Attr::scratch, int64_t(bytes));
    k.module.kernel.sharedBytes = 48;
    sim::Memory memory;
    int32_t *c = upload(memory, std::vector<int32_t>{0}), *o = upload(memory, std::vector<int32_t>(1024, -1));
    float *s = upload(memory, std::vector<float>(16, 1.0f));
    checkRan(k.run(memory, params(c, s, o), 4));
    CHECK(download(memory, c, 1)[0] == 4);
    auto result = download(memory, o, 1024);
    for (int i = 0; i < 1024; ++i) CHECK(result[i] == i / 256);
    auto added = download(memory, s, 8);
    for (float f : added) CHECK(f == 13.0f);
    CHECK(k.assembly().size() > 100);
  }
}

TEST_CASE("for, while, if: trip counts, bounds near the limits, carried values") {
  struct Range {
    int32_t lo, hi, step;
  };
  const Range ranges[] = {{0, 10, 1},
                          {0, 10, 3},
                          {5, 5, 1},
                          {7, 3, 2},
                          {10, 0, -3},
                          {INT32_MAX - 5, INT32_MAX, 2},
                          {INT32_MIN, INT32_MIN + 3, 1},
                          {INT32_MIN + 4, INT32_MIN, -3},
                          {INT32_MIN, INT32_MAX, INT32_MAX}};
  for (bool dynamicStep : {false, true})
    for (Range r : ranges) {
      CAPTURE(r.lo);
      CAPTURE(r.hi);
      CAPTURE(r.step);
      TestKernel k("gfx942");
      Value *out = k.pointer(Scalar::I32, "out"), *lo = k.scalar(Scalar::I32, "lo"), *hi = k.scalar(Scalar::I32, "hi"),
            *st = k.scalar(Scalar::I32, "step");
      ir::Builder &b = k.b;
      ir::Op *loop = b.forLoop(lo, hi, dynamicStep ? st : b.constI32(r.step), {b.constI32(0), b.constI32(0)});
      ir::Builder in(k.module);
      in.loc = b.loc;
      in.atEnd(loop->body());
      Value *i = loop->body().arg(0);
      ir::Op *branch = in.ifOp(in.cmp(Pred::Eq, in.binary(Opcode::And, i, in.constI32(1)), in.constI32(0)), {in.i32()});
      ir::Builder arm(k.module);
      arm.loc = b.loc;
      arm.atEnd(branch->body(0));
      arm.yield(arm.binary(Opcode::Add, loop->body().arg(2), arm.constI32(1)));
      arm.atEnd(branch->body(1));
      arm.yield(loop->body().arg(2));
      in.yield({in.binary(Opcode::Add, loop->body().arg(1), i), branch->result()});
      // while (x > 0) x -= 7
      ir::Op *again = b.whileLoop(b.constI32(30));
      ir::Builder w(k.module);
      w.loc = b.loc;
      w.atEnd(again->body(0));
      w.condition(w.cmp(Pred::Gt, again->body(0).arg(0), w.constI32(0)), again->body(0).arg(0));
      w.atEnd(again->body(1));
      w.yield(w.binary(Opcode::Sub, again->body(1).arg(0), w.constI32(7)));
      b.store(out, loop->result(0));
      b.store(b.addptr(out, b.constI32(1)), loop->result(1));
      b.store(b.addptr(out, b.constI32(2)), again->result());
      sim::Memory memory;
      int32_t *o = upload(memory, std::vector<int32_t>(3, -1));
      checkRan(k.run(memory, params(o, r.lo, r.hi, r.step)));
      int64_t sum = 0, even = 0;
      for (int64_t v = r.lo; r.step > 0 ? v < r.hi : v > r.hi; v += r.step) sum += v, even += (v & 1) == 0;
      auto result = download(memory, o, 3);
      CHECK(result[0] == int32_t(sum));
      CHECK(result[1] == int32_t(even));
      CHECK(result[2] == -5);
    }
}

TEST_CASE("an early return") {
  TestKernel k;
  Value *out = k.pointer(Scalar::I32, "out"), *n = k.scalar(Scalar::I32, "n");
  ir::Op *branch = k.b.ifOp(k.b.cmp(Pred::Gt, n, k.b.constI32(3)), {});
  ir::Builder in(k.module);
  in.atEnd(branch->body(0));
  in.ret();
  in.atEnd(branch->body(1));
  in.yield({});
  k.b.store(out, n);
  for (int32_t v : {2, 4}) {
    sim::Memory memory;
    int32_t *o = upload(memory, std::vector<int32_t>{-1});
    checkRan(k.run(memory, params(o, v)));
    CHECK(download(memory, o, 1)[0] == (v > 3 ? -1 : v));
  }
}

TEST_CASE("program ids and the grid") {
  for (const char *target : kTargets) {
    TestKernel k(target);
    Value *out = k.pointer(Scalar::I32, "out");
    Value *pid = k.b.programId(0);
    k.b.store(k.b.addptr(out, pid), k.b.numPrograms(0));
    sim::Memory memory;
    int32_t *o = upload(memory, std::vector<int32_t>(3));
    checkRan(k.run(memory, params(o), 3));
    CHECK(download(memory, o, 3) == std::vector<int32_t>{3, 3, 3});
    CHECK(k.metadata.hidden.size() == (k.target->scalarGridArgs ? 1 : 0));
  }
}

TEST_CASE("print") {
  TestKernel k;
  Value *n = k.scalar(Scalar::I64, "n");
  const TileLayout *l = k.rows({2, 2}, 1);
  k.b.print("n = %d%%", {n});
  k.b.print("x %5.1f", {k.b.cast(k.index(l), Scalar::F16)});
  sim::Memory memory;
  auto result = k.run(memory, params(int64_t(1) << 40));
  checkRan(result);
  CHECK(result.printed == "n = 1099511627776%\n[0, 0] x   0.0\n[0, 1] x   1.0\n[1, 0] x   2.0\n[1, 1] x   3.0\n");
}

TEST_CASE("each instruction has a source line; other files get a scope") {
  TestKernel k;
  Value *p = k.pointer(Scalar::I32);
  const uint32_t other = k.sources.add("dir/lib.tlx", "fn f() {}\n");
  k.b.loc = {other, 9, 3, 5};
  const TileLayout *l = k.rows({32}, 1);
  k.storeTile(p, k.index(l));
  llvm::LLVMContext context;
  auto module = k.generate(context);
  REQUIRE(module);
  bool seen = false;
  for (llvm::Function &f : *module)
    for (llvm::BasicBlock &block : f)
      for (llvm::Instruction &i : block) {
        CHECK(i.getDebugLoc());
        if (!isa<llvm::StoreInst>(i)) continue;
        CHECK(i.getDebugLoc().getLine() == 9);
        CHECK(i.getDebugLoc()->getFilename() == "lib.tlx");
        seen = true;
      }
  CHECK(seen);
}

TEST_CASE("what a type cannot do is reported once") {
  TestKernel k;
  Value *p = k.pointer(Scalar::F8E4M3);
  const TileLayout *l = k.rows({256}, 4);
  k.b.atomicAdd(k.b.addptr(k.splat(p, l), k.index(l)), k.loadTile(p, l));
  k.b.ret();
  llvm::LLVMContext context;
  CHECK(!codegen::generate(context, k.module, *k.target, k.sources, {}, k.metadata, k.diagnostics));
  REQUIRE(k.diagnostics.all().size() == 1);
  CHECK(k.diagnostics.all()[0].id == Diag::CgUnsupported);
  CHECK(k.diagnostics.all()[0].message == "'atomic_rmw' on f8e4m3[256] is not supported on sm_80");
}
