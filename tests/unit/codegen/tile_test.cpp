// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operations on tiles: shapes, conversions, reductions, shared memory, matrix products, run on the simulator.
#include "testing.h"

#include <cmath>
#include <random>

#include "features/mma_layouts.h"

using namespace tlx;
using namespace tlx::codegen_test;
using layout::SharedLayout;

namespace {

/// Stores a tile of i32 row-major and returns it.
std::vector<int32_t> runAndRead(TestKernel &k, Value *tile) {
  Value *out = k.pointer(Scalar::I32, "out");
  k.storeTile(out, tile);
  sim::Memory memory;
  const size_t n = size_t(tile->type.elements());
  int32_t *o = upload(memory, std::vector<int32_t>(n, -1));
  checkRan(k.run(memory, params(o)));
  return download(memory, o, n);
}

void setOffset(Value *buffer, int64_t offset) {
  buffer->def()->setAttr(ir::Attr::offset, offset);
}
void barrier(TestKernel &k) {
  k.b.create(Opcode::Barrier, {}, {});
}

/// A layout with its bits dealt at random: registers, lanes and warps in any order of coordinate bits.
TileLayout shuffled(std::mt19937 &random, llvm::ArrayRef<int64_t> shape, unsigned laneBits, unsigned warpBits) {
  std::vector<layout::Coord> bits;
  for (unsigned d = 0; d < shape.size(); ++d)
    for (unsigned i = 0; i < layout::splitExtent(shape[d])->bits; ++i) {
      layout::Coord c(shape.size(), 0);
      c[d] = 1 << i;
      bits.push_back(c);
    }
  std::shuffle(bits.begin(), bits.end(), random);
  TileLayout::Bases bases;
  while (bits.size() < laneBits + warpBits) bits.push_back(layout::Coord(shape.size(), 0));
  for (unsigned i = 0; i < bits.size(); ++i)
    bases[i < laneBits ? 1 : i < laneBits + warpBits ? 2 : 0].push_back(bits[i]);
  return TileLayout(shape, bases);
}

} // namespace

TEST_CASE("indices of layouts with odd extents and replication") {
  for (const char *target : kTargets) {
    for (auto shape : std::vector<std::vector<int64_t>>{{96}, {24, 80}, {2, 3}, {1, 64}, {16, 16, 12}}) {
      TestKernel k(target, 4);
      auto result = runAndRead(k, k.index(k.rows(shape, 2)));
      for (size_t i = 0; i < result.size(); ++i) CHECK(result[i] == int32_t(i));
    }
  }
}

TEST_CASE("expand, broadcast, trans, reshape, join, split") {
  TestKernel k("sm_80", 2);
  ir::Builder &b = k.b;
  const TileLayout *l = k.rows({8, 48}, 2);
  Value *x = k.index(l);
  Value *t = b.trans(x, {1, 0});
  k.with(t, k.unique(layout::transpose(*l, {1, 0})));
  auto result = runAndRead(k, t);
  for (int i = 0; i < 48; ++i)
    for (int j = 0; j < 8; ++j) CHECK(result[i * 8 + j] == j * 48 + i);

  TestKernel k2("sm_80", 2);
  const TileLayout *l2 = k2.rows({16, 64}, 2);
  auto flat = layout::reshape(*l2, {4, 4, 64});
  REQUIRE(flat);
  Value *r = k2.with(k2.b.reshape(k2.index(l2), {4, 4, 64}), k2.unique(*flat));
  result = runAndRead(k2, r);
  for (int i = 0; i < 1024; ++i) CHECK(result[i] == i);

  TestKernel k3("sm_80", 2);
  const TileLayout *l3 = k3.rows({128}, 2);
  Value *i3 = k3.index(l3);
  const TileLayout *joined = k3.unique(layout::join(*l3));
  Value *j = k3.with(k3.b.join(i3, k3.b.unary(Opcode::Neg, i3)), joined);
  auto [a, c] = k3.b.split(j);
  k3.with(a, l3), k3.with(c, l3);
  Value *sum = k3.b.binary(Opcode::Sub, k3.b.binary(Opcode::Mul, a, k3.constant(l3, Scalar::I32, 3)), c);
  result = runAndRead(k3, sum);
  for (int i = 0; i < 128; ++i) CHECK(result[i] == 4 * i);
}

TEST_CASE("a shape operation whose layouts disagree is reported") {
  TestKernel k("sm_80", 2);
  Value *x = k.index(k.rows({8, 64}, 2));
  Value *t = k.with(k.b.trans(x, {1, 0}), k.rows({64, 8}, 1));
  k.storeTile(k.pointer(Scalar::I32), t);
  k.b.ret();
  llvm::LLVMContext context;
  CHECK(!codegen::generate(context, k.module, *k.target, k.sources, {}, k.metadata, k.diagnostics));
  CHECK(k.diagnostics.hasErrors());
}

TEST_CASE("conversions in registers and by shuffles") {
  std::mt19937 random(7);
  unsigned shuffles = 0;
  for (const char *target : {"sm_80", "gfx942"})
    for (unsigned n = 0; n < 60; ++n) {
      const unsigned lanes = std::string(target) == "sm_80" ? 5 : 6;
      std::vector<int64_t> shape = n % 3 == 0   ? std::vector<int64_t>{256}
                                   : n % 3 == 1 ? std::vector<int64_t>{16, 32}
                                                : std::vector<int64_t>{24, 32};
      TileLayout from = shuffled(random, shape, lanes, 1), to = shuffled(random, shape, lanes, 1);
      TileLayout::Bases bases = to.allBases();
      bases[2] = from.allBases()[2];                       // same warps where that is still a layout
      if (n % 2 == 0 || TileLayout::check(shape, bases)) { // permute registers and lanes of `from`
        bases = from.allBases();
        std::vector<layout::Coord> pool = bases[0];
        pool.insert(pool.end(), bases[1].begin(), bases[1].end());
        std::shuffle(pool.begin(), pool.end(), random);
        std::copy(pool.begin(), pool.begin() + bases[0].size(), bases[0].begin());
        std::copy(pool.begin() + bases[0].size(), pool.end(), bases[1].begin());
      }
      to = TileLayout(shape, bases);
      const Scalar types[] = {Scalar::I32, Scalar::F16, Scalar::I8, Scalar::F64, Scalar::I1};
      const Scalar s = types[n % 5];
      auto plan = layout::planConversion(from, to, ir::scalarBits(s));
      if (plan.kind == layout::ConversionKind::Shared) continue;
      shuffles += plan.kind == layout::ConversionKind::Shuffle;
      TestKernel k(target, 2);
      const TileLayout *f = k.unique(from), *t = k.unique(to);
      Value *x = k.b.cast(k.index(f), s);
      if (s == Scalar::I1)
        x = k.b.cmp(ir::Pred::Eq, k.b.binary(Opcode::ModFloor, k.index(f), k.constant(f, Scalar::I32, 5)),
                    k.constant(f, Scalar::I32, 0));
      auto result = runAndRead(k, k.b.cast(k.b.convertLayout(x, t), Scalar::I32));
      for (size_t i = 0; i < result.size(); ++i) {
        const int32_t want = s == Scalar::I8 ? int8_t(i) : s == Scalar::I1 ? i % 5 == 0 : int32_t(i);
        CHECK(result[i] == want);
      }
    }
  CHECK(shuffles > 10);
}

TEST_CASE("reductions: sums along each axis, arg max, partial over warps") {
  for (const char *target : kTargets)
    for (unsigned axis : {0u, 1u}) {
      TestKernel k(target, 2);
      const unsigned lanes = k.target->warpSize;
      // All warps along the other axis.
      std::vector<unsigned> warps = axis == 0 ? std::vector<unsigned>{1, 2} : std::vector<unsigned>{2, 1};
      const TileLayout *l = k.unique(layout::blocked({24, 32}, {1, 2}, {lanes / 8, 8}, warps, {1, 0}));
      const TileLayout *reducedLayout = k.unique(layout::slice(*l, axis));
      Value *x = k.index(l);
      // A value whose maximum is not unique: ties take the smaller index.
      Value *key = k.b.binary(Opcode::ModFloor, k.b.binary(Opcode::Mul, x, k.constant(l, Scalar::I32, 7)),
                              k.constant(l, Scalar::I32, 11));
      auto best = k.b.reduce({key, x}, axis, [&](llvm::ArrayRef<Value *> p, llvm::ArrayRef<Value *> q) {
        Value *greater = k.b.cmp(ir::Pred::Gt, q[0], p[0]), *equal = k.b.cmp(ir::Pred::Eq, q[0], p[0]);
        Value *take =
            k.b.binary(Opcode::Or, greater, k.b.binary(Opcode::And, equal, k.b.cmp(ir::Pred::Lt, q[1], p[1])));
        return llvm::SmallVector<Value *, 2>{k.b.select(take, q[0], p[0]), k.b.select(take, q[1], p[1])};
      });
      auto sum = k.b.reduce({x}, axis, [&](llvm::ArrayRef<Value *> p, llvm::ArrayRef<Value *> q) {
        return llvm::SmallVector<Value *, 2>{k.b.binary(Opcode::Add, p[0], q[0])};
      });
      for (Value *v : {best[0], best[1], sum[0]}) k.with(v, reducedLayout);
      Value *combined = k.b.binary(Opcode::Add, best[1],
                                   k.b.binary(Opcode::Mul, sum[0], k.constant(reducedLayout, Scalar::I32, 1000)));
      auto result = runAndRead(k, combined);
      const int outer = axis == 0 ? 32 : 24, inner = axis == 0 ? 24 : 32;
      for (int i = 0; i < outer; ++i) {
        int total = 0, at = -1;
        for (int j = 0; j < inner; ++j) {
          const int v = axis == 0 ? j * 32 + i : i * 32 + j;
          total += v;
          if (at < 0 || v * 7 % 11 > at * 7 % 11) at = v;
        }
        CHECK(result[i] == at + 1000 * total);
      }
    }

  // Four warps along the axis keep one element each.
  TestKernel k("sm_80", 4);
  const TileLayout *l = k.rows({512}, 2);
  auto sum = k.b.reduce({k.index(l)}, 0, [&](llvm::ArrayRef<Value *> p, llvm::ArrayRef<Value *> q) {
    return llvm::SmallVector<Value *, 2>{k.b.binary(Opcode::Add, p[0], q[0])};
  });
  ir::Op *op = sum[0]->def();
  op->setAttr(ir::Attr::partial, int64_t(1));
  TileLayout::Bases bases;
  bases[1].assign(5, layout::Coord{0});
  bases[2] = {layout::Coord{1}, layout::Coord{2}};
  op->result()->type = k.context.tile(k.b.i32(), {4}, k.unique(TileLayout({4}, bases)));
  auto result = runAndRead(k, sum[0]);
  std::vector<int> want(4);
  for (int i = 0; i < 512; ++i) want[i / 64 % 4] += i;
  CHECK(result == std::vector<int32_t>(want.begin(), want.end()));
}

TEST_CASE("shared memory: every layout to every other, with swizzle, ring slots and transposition") {
  std::mt19937 random(11);
  for (const char *target : kTargets)
    for (unsigned n = 0; n < 24; ++n) {
      CAPTURE(target);
      CAPTURE(n);
      const Scalar types[] = {Scalar::I32, Scalar::F16, Scalar::I8, Scalar::F64};
      const Scalar s = types[n % 4];
      TestKernel k(target, 2);
      const unsigned laneBits = k.target->warpSize == 32 ? 5 : 6;
      std::vector<int64_t> shape = n % 3 == 0   ? std::vector<int64_t>{16, 16}
                                   : n % 3 == 1 ? std::vector<int64_t>{32, 64}
                                                : std::vector<int64_t>{48, 32};
      const TileLayout *f = k.unique(shuffled(random, shape, laneBits, 1)),
                       *t = k.unique(shuffled(random, shape, laneBits, 1));
      SharedLayout mem =
          n % 2 ? layout::chooseSwizzle(shape, {f, t}, ir::scalarBits(s)) : SharedLayout::rowMajor(shape, {1, 0});
      const SharedLayout *shared = k.context.unique(mem);
      Value *ring = k.b.localAlloc(s, shape, 2, shared);
      setOffset(ring, 256);
      k.module.kernel.sharedBytes = 256 + 2 * unsigned(mem.elements()) * ir::scalarBytes(s);
      Value *slot = k.b.subview(ring, n % 4 < 2 ? k.b.constI32(1) : k.b.programId(0));
      k.b.localStore(slot, k.b.cast(k.index(f), s));
      barrier(k);
      Value *from = slot;
      if (n % 3 == 1) { // seen transposed, loaded in the transposed layout
        const SharedLayout *seen = k.context.unique(mem.transposed({1, 0}));
        ir::Op *op =
            k.b.create(Opcode::LocalTrans, slot, k.context.buffer(s, {shape[1], shape[0]}, 1, ir::Space::Shared, seen));
        op->setAttr(ir::Attr::perm, std::vector<int64_t>{1, 0});
        from = op->result();
        t = k.unique(layout::transpose(*t, {1, 0}));
      }
      auto result = runAndRead(k, k.b.cast(k.b.localLoad(from, t), Scalar::I32));
      for (int i = 0; i < int(result.size()); ++i) {
        const int source = n % 3 == 1 ? i % int(shape[0]) * int(shape[1]) + i / int(shape[0]) : i;
        CHECK(result[i] == (s == Scalar::I8 ? int8_t(source) : source));
      }
    }
}

TEST_CASE("fragments come by ldmatrix and go by stmatrix") {
  for (bool transposed : {false, true}) {
    TestKernel k("sm_90a", 4);
    const features::MmaInstruction mma = features::mmaInstructions(*k.target, features::MmaType::F16)[0];
    const features::WarpGrid grid{2, 2};
    const TileLayout *a = k.unique(features::operandALayout(*k.target, mma, 64, 64, grid));
    const SharedLayout mem = SharedLayout::swizzled({64, 64}, {transposed ? 0u : 1u, transposed ? 1u : 0u}, 8, 1, 8);
    const TileLayout *flat = k.rows({64, 64}, 1);
    Value *buffer = k.b.localAlloc(Scalar::F16, {64, 64}, 1, k.context.unique(mem));
    setOffset(buffer, 0);
    k.module.kernel.sharedBytes = 8192;
    k.b.localStore(buffer, k.b.cast(k.index(flat), Scalar::F16));
    barrier(k);
    Value *fragment = k.b.localLoad(buffer, a);
    Value *again = k.b.localAlloc(Scalar::F16, {64, 64}, 1, k.context.unique(mem));
    setOffset(again, 8192);
    k.module.kernel.sharedBytes = 16384;
    k.b.localStore(again, fragment);
    barrier(k);
    auto result = runAndRead(k, k.b.cast(k.b.localLoad(again, flat), Scalar::I32));
    for (int i = 0; i < 4096; ++i) CHECK(std::abs(result[i] - i) <= 1);
    const std::string text = k.text();
    CHECK(text.find(transposed ? "tlx.nv.ldmatrix.x4.trans" : "tlx.nv.ldmatrix.x4(") != std::string::npos);
    CHECK(text.find("tlx.nv.stmatrix.x4") != std::string::npos);
  }
}

TEST_CASE("asynchronous copies") {
  for (const char *target : kTargets)
    for (unsigned vec : {1u, 2u, 8u}) {
      CAPTURE(target);
      CAPTURE(vec);
      TestKernel k(target, 2);
      const std::vector<int64_t> shape{32, 64};
      const TileLayout *l = k.rows(shape, 8), *t = k.rows(shape, 1);
      const SharedLayout mem = SharedLayout::swizzled(shape, {1, 0}, 8, 1, 8);
      Value *p = k.pointer(Scalar::F16, "p");
      Value *buffer = k.b.localAlloc(Scalar::F16, shape, 1, k.context.unique(mem));
      setOffset(buffer, 0);
      k.module.kernel.sharedBytes = 4096;
      Value *index = k.index(l);
      k.b.asyncCopy(buffer, k.b.addptr(k.splat(p, l), index),
                    k.b.cmp(ir::Pred::Lt, index, k.constant(l, Scalar::I32, 1024)));
      k.b.insertBlock()->back()->setAttr(ir::Attr::vec, int64_t(vec));
      k.b.create(Opcode::AsyncCommit, {}, {});
      k.b.create(Opcode::AsyncWait, {}, {})->setAttr(ir::Attr::pending, int64_t(0));
      barrier(k);
      Value *q = k.pointer(Scalar::F16, "q");
      k.storeTile(q, k.b.localLoad(buffer, t));
      sim::Memory memory;
      std::vector<uint16_t> data(2048);
      for (unsigned i = 0; i < 2048; ++i) data[i] = uint16_t(i + 1);
      uint16_t *from = upload(memory, data), *to = upload(memory, std::vector<uint16_t>(2048));
      checkRan(k.run(memory, params(from, to)));
      auto result = download(memory, to, 2048);
      for (unsigned i = 0; i < 2048; ++i) CHECK(result[i] == (i < 1024 ? i + 1 : 0));
      const bool async = k.target->cpAsync && vec > 1;
      CHECK((k.text().find(vec == 8 ? "tlx.nv.cp.async.cg.16" : "tlx.nv.cp.async.ca.4") != std::string::npos) == async);
    }
}

TEST_CASE("dot by every matrix instruction, and without one") {
  struct Case {
    Scalar operand, accumulator;
    const char *precision;
  };
  const Case cases[] = {{Scalar::F16, Scalar::F32, ""},     {Scalar::BF16, Scalar::F32, ""},
                        {Scalar::F32, Scalar::F32, "tf32"}, {Scalar::F32, Scalar::F32, "tf32x3"},
                        {Scalar::F32, Scalar::F32, "ieee"}, {Scalar::I8, Scalar::I32, ""},
                        {Scalar::U8, Scalar::I32, ""},      {Scalar::F64, Scalar::F64, ""}};
  for (const char *name : kTargets)
    for (const Case &c : cases)
      for (int index = -1; index < 2; ++index) {
        const features::Target *target = features::findTarget(name);
        const bool amd = target->vendor == features::Vendor::Amd;
        features::MmaType type = c.operand == Scalar::F16             ? features::MmaType::F16
                                 : c.operand == Scalar::BF16          ? features::MmaType::BF16
                                 : c.operand == Scalar::I8            ? features::MmaType::S8
                                 : c.operand == Scalar::U8            ? features::MmaType::U8
                                 : c.operand == Scalar::F64           ? features::MmaType::F64
                                 : !amd                               ? features::MmaType::TF32
                                 : std::string(c.precision) == "tf32" ? features::MmaType::XF32
                                                                      : features::MmaType::F32;
        auto list = features::mmaInstructions(*target, type);
        if (index >= int(list.size()) || (index >= 0 && !amd && std::string(c.precision) == "ieee")) continue;
        const int64_t M = 64, N = 96, K = index < 0 ? 16 : 64;
        CAPTURE(name);
        CAPTURE(ir::scalarName(c.operand).str());
        CAPTURE(c.precision);
        CAPTURE(index);
        TestKernel k(name, 4);
        const TileLayout *a, *b, *acc;
        if (index >= 0) {
          features::WarpGrid grid{2, 2};
          acc = k.unique(features::accumulatorLayout(*target, list[index], M, N, grid));
          a = k.unique(features::operandALayout(*target, list[index], M, K, grid));
          b = k.unique(features::operandBLayout(*target, list[index], K, N, grid));
        } else {
          acc = k.rows({M, N}, 4);
          a = k.unique(layout::broadcastTo(layout::expandDims(layout::slice(*acc, 1), 1), {M, K}));
          b = k.unique(layout::broadcastTo(layout::expandDims(layout::slice(*acc, 0), 0), {K, N}));
        }
        Value *pa = k.pointer(Scalar::I32, "a"), *pb = k.pointer(Scalar::I32, "b"), *pc = k.pointer(Scalar::I32, "c");
        Value *d = k.b.dot(k.b.cast(k.loadTile(pa, a), c.operand), k.b.cast(k.loadTile(pb, b), c.operand),
                           k.constant(acc, c.accumulator, 5), c.precision);
        d->def()->setAttr(ir::Attr::mma, int64_t(index));
        k.storeTile(pc, k.b.cast(d, Scalar::I32));
        std::vector<int32_t> va(M * K), vb(K * N);
        std::mt19937 random(1);
        const int low = c.operand == Scalar::U8 ? 0 : -4;
        for (int32_t &v : va) v = low + int(random() % 9);
        for (int32_t &v : vb) v = low + int(random() % 9);
        sim::Memory memory;
        int32_t *da = upload(memory, va), *db = upload(memory, vb), *dc = upload(memory, std::vector<int32_t>(M * N));
        checkRan(k.run(memory, params(da, db, dc)));
        auto result = download(memory, dc, M * N);
        unsigned bad = 0;
        for (int64_t i = 0; i < M; ++i)
          for (int64_t j = 0; j < N; ++j) {
            int32_t want = 5;
            for (int64_t x = 0; x < K; ++x) want += va[i * K + x] * vb[x * N + j];
            if (result[i * N + j] != want && bad++ < 2)
              FAIL_CHECK("(" << i << ", " << j << ") is " << result[i * N + j] << ", not " << want);
          }
        if (index >= 0) CHECK(k.text().find(list[index].deviceOp) != std::string::npos);
      }
}

TEST_CASE("tf32x3 is as exact as f32") {
  TestKernel k("sm_80", 1);
  const features::MmaInstruction mma = features::mmaInstructions(*k.target, features::MmaType::TF32)[0];
  const TileLayout *acc = k.unique(features::accumulatorLayout(*k.target, mma, 16, 8, {1, 1}));
  const TileLayout *a = k.unique(features::operandALayout(*k.target, mma, 16, 32, {1, 1})),
                   *b = k.unique(features::operandBLayout(*k.target, mma, 32, 8, {1, 1}));
  Value *pa = k.pointer(Scalar::F32, "a"), *pb = k.pointer(Scalar::F32, "b"), *pc = k.pointer(Scalar::F32, "c");
  Value *d = k.b.dot(k.loadTile(pa, a), k.loadTile(pb, b), k.constant(acc, Scalar::F32, 0), "tf32x3");
  d->def()->setAttr(ir::Attr::mma, int64_t(0));
  k.storeTile(pc, d);
  std::mt19937 random(2);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> va(16 * 32), vb(32 * 8);
  for (float &v : va) v = uniform(random);
  for (float &v : vb) v = uniform(random);
  sim::Memory memory;
  float *da = upload(memory, va), *db = upload(memory, vb), *dc = upload(memory, std::vector<float>(128));
  checkRan(k.run(memory, params(da, db, dc)));
  auto result = download(memory, dc, 128);
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 8; ++j) {
      double want = 0;
      for (int x = 0; x < 32; ++x) want += double(va[i * 32 + x]) * vb[x * 8 + j];
      CHECK(std::fabs(result[i * 8 + j] - want) < 4e-6);
    }
}
