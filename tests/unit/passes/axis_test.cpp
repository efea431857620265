// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Axis analysis on typical addressing, and its claims against every element of small kernels.
#include "passes/axis_analysis.h"
#include "testing.h"

using namespace tlx;
using namespace tlx::ir;
using namespace tlx::passes;
using namespace tlx::passes::testing;

namespace {
const char *kRow = R"(
  %0 = program_id {axis = 0} : i32
  %1 = mul %0, %stride : i32
  %2 = arange {start = 0} : i32[1024]
  %3 = splat %1 : i32[1024]
  %4 = add %3, %2 : i32[1024]
  %5 = splat %x : *f16[1024]
  %6 = addptr %5, %4 : *f16[1024]
  %7 = splat %cols : i32[1024]
  %8 = cmp %2, %7 {pred = lt} : i1[1024]
  %9 = load %6, %8 : f16[1024]
)";
const char *kArgs = "%x: *f16, %stride: i32, %cols: i32";
const char *kAligned = "  fact \"aligned(x, 16)\" [arg 0, const 16, mod, const 0, eq]\n";
const char *kStride = "  fact \"stride % 8 == 0\" [arg 1, const 8, mod, const 0, eq]\n";
const char *kCols = "  fact \"cols % 16 == 0\" [arg 2, const 16, mod, const 0, eq]\n";
} // namespace

TEST_CASE("a row at a stride: the width needs every fact") {
  auto width = [](const std::string &facts) {
    Parsed p(kArgs, kRow, facts);
    return AxisAnalysis(*p.module).vectorWidth(*p.last());
  };
  CHECK(width("") == 1);
  CHECK(width(std::string(kAligned) + kStride) == 1); // the mask may end inside a vector
  CHECK(width(std::string(kAligned) + kCols) == 1);   // rows may be misaligned
  CHECK(width(std::string(kStride) + kCols) == 1);    // the base may be
  CHECK(width(std::string(kAligned) + kStride + kCols) == 8);
  CHECK(width("  fact \"a\" [arg 0, const 4, mod, const 0, eq]\n" + std::string(kStride) + kCols) == 2);
  // One fact of several parts, and an equality.
  CHECK(
      width(
          "  fact \"all\" [arg 0, const 16, mod, const 0, eq, const 64, arg 1, eq, and, arg 2, const 96, eq, and]\n") ==
      8);
}

TEST_CASE("what is known of the row") {
  Parsed p(kArgs, kRow, std::string(kAligned) + kStride + kCols);
  AxisAnalysis a(*p.module);
  CHECK(a.info(p.op(0)->result()).str() ==
        "contiguity = [1], divisibility = [1], constancy = [1], range = [0, 2147483646]");
  CHECK(a.info(p.op(1)->result()).divisibility[0] == 8);
  CHECK(a.info(p.op(2)->result()).str() ==
        "contiguity = [1024], divisibility = [4611686018427387904], constancy = [1], range = [0, 1023]");
  CHECK(a.info(p.op(6)->result()).contiguity[0] == 1024);
  CHECK(a.info(p.op(6)->result()).divisibility[0] == 16);
  CHECK(a.info(p.op(8)->result()).constancy[0] == 16);
}

TEST_CASE("a two-dimensional tile is contiguous along its columns") {
  Parsed p("%x: *f32, %stride: i32", R"(
  %0 = arange {start = 0} : i32[32]
  %1 = expand_dims %0 {axis = 1} : i32[32, 1]
  %2 = splat %stride : i32[32, 1]
  %3 = mul %1, %2 : i32[32, 1]
  %4 = broadcast %3 : i32[32, 64]
  %5 = arange {start = 64} : i32[64]
  %6 = expand_dims %5 {axis = 0} : i32[1, 64]
  %7 = broadcast %6 : i32[32, 64]
  %8 = add %4, %7 : i32[32, 64]
  %9 = splat %x : *f32[32, 64]
  %10 = addptr %9, %8 : *f32[32, 64]
  %11 = load %10 : f32[32, 64]
)",
           "  fact \"\" [arg 0, const 16, mod, const 0, eq, arg 1, const 32, mod, const 0, eq, and]\n");
  AxisAnalysis a(*p.module);
  const AxisInfo &info = a.info(p.op(10)->result());
  CHECK(info.contiguity[1] == 64);
  CHECK(info.divisibility[1] == 16);
  CHECK(info.contiguity[0] == 1);
  CHECK(a.info(p.op(4)->result()).constancy[1] == 64);
  CHECK(a.vectorWidth(*p.last()) == 4);
}

TEST_CASE("pointers that a loop carries") {
  auto width = [](const char *step) {
    Parsed p("%x: *f16, %n: i32", std::string(R"(
  %0 = arange {start = 0} : i32[128]
  %1 = splat %x : *f16[128]
  %2 = addptr %1, %0 : *f16[128]
  %3 = constant {value = 0} : i32
  %4 = constant {value = 1} : i32
  %5 = constant {value = )") + step + R"(} : i32[128]
  %6 = for %3, %n, %4, %2 : *f16[128] ^(%7: i32, %8: *f16[128]) {
    %9 = load %8 : f16[128]
    %10 = addptr %8, %5 : *f16[128]
    yield %10
  }
)",
             "  fact \"\" [arg 0, const 16, mod, const 0, eq]\n");
    AxisAnalysis a(*p.module);
    Op *loop = p.last();
    CHECK(a.info(loop->body().arg(1)).contiguity[0] == 128);
    CHECK(a.info(loop->body().arg(0)).min == 0);
    CHECK(a.info(loop->body().arg(0)).max == INT32_MAX - 1);
    CHECK(a.info(loop->result()) == a.info(loop->body().arg(1)));
    return a.vectorWidth(*loop->body().front());
  };
  CHECK(width("64") == 8);
  CHECK(width("4") == 4);
  CHECK(width("3") == 1);
}

TEST_CASE("values that swap around a loop meet, and counters are widened") {
  Parsed p("%n: i32", R"(
  %0 = constant {value = 0} : i32
  %1 = constant {value = 1} : i32
  %2 = constant {value = 8} : i32
  %3 = constant {value = 12} : i32
  %4, %5, %6 = for %0, %n, %1, %2, %3, %0 : i32, i32, i32 ^(%7: i32, %8: i32, %9: i32, %10: i32) {
    %11 = add %10, %2 : i32
    yield %9, %8, %11
  }
)");
  AxisAnalysis a(*p.module);
  Op *loop = p.last();
  CHECK(a.info(loop->result(0)).divisibility[0] == 4);
  CHECK(!a.info(loop->result(0)).constant);
  CHECK(a.info(loop->result(0)).min == 8);
  CHECK(a.info(loop->result(0)).max == 12);
  CHECK(a.info(loop->result(2)).divisibility[0] == 8);
  CHECK(a.info(loop->result(2)).min == INT32_MIN); // it may wrap
}

TEST_CASE("while and if") {
  Parsed p("%c: i1", R"(
  %0 = constant {value = 16} : i32
  %1 = constant {value = 24} : i32
  %2 = if %c : i32 ^() {
    yield %0
  } ^() {
    yield %1
  }
  %3 = while %2 : i32 ^(%4: i32) {
    condition %c, %4
  } ^(%5: i32) {
    %6 = mul %5, %0 : i32
    yield %6
  }
)");
  AxisAnalysis a(*p.module);
  CHECK(a.info(p.op(2)->result()).divisibility[0] == 8);
  CHECK(a.info(p.op(2)->result()).min == 16);
  CHECK(a.info(p.op(3)->result()).divisibility[0] == 8);
}

TEST_CASE("assume and multiple_of") {
  Parsed p("%n: i32, %m: i32", R"(
  %0 = constant {value = 0} : i32
  %1 = constant {value = 64} : i32
  %2 = mod_floor %n, %1 : i32
  %3 = cmp %2, %0 {pred = eq} : i1
  %4 = cmp %n, %0 {pred = ge} : i1
  %5 = and %3, %4 : i1
  assume %5
  %6 = multiple_of %m {values = [48]} : i32
  %7 = div_floor %n, %1 : i32
)");
  AxisAnalysis a(*p.module);
  const Value *n = p.module->kernel.body.arg(0);
  CHECK(a.info(n).divisibility[0] == 64);
  CHECK(a.nonNegative(n));
  CHECK(a.info(p.last()->prev()->result()).divisibility[0] == 16);
  CHECK(a.info(p.last()->result()).max == INT32_MAX / 64);
}

TEST_CASE("an assumption under a condition holds only there") {
  Parsed p("%n: i32, %c: i1", R"(
  %0 = constant {value = 0} : i32
  if %c ^() {
    %1 = cmp %n, %0 {pred = ge} : i1
    assume %1
    yield
  } ^() {
    yield
  }
)");
  CHECK(!AxisAnalysis(*p.module).nonNegative(p.module->kernel.body.arg(0)));
}

TEST_CASE("a pinned layout limits the width to its registers") {
  Parsed p("%x: *f32", R"(
  %0 = arange {start = 0} : i32[1024]
  %1 = splat %x : *f32[1024]
  %2 = addptr %1, %0 : *f32[1024]
  %3 = load %2 : f32[1024]
)",
           "  fact \"\" [arg 0, const 16, mod, const 0, eq]\n");
  CHECK(AxisAnalysis(*p.module).vectorWidth(*p.last()) == 4);
  const layout::TileLayout *pairs = p.context.unique(layout::blocked({1024}, {2}, {32}, {4}, {0}));
  p.op(2)->result()->type = p.op(2)->result()->type.withLayout(pairs);
  CHECK(AxisAnalysis(*p.module).vectorWidth(*p.last()) == 2);
}

// --- every claim against every element ------------------------------------------------------------------------------

namespace {

/// Elements of integer tiles of rank 1, computed one by one.
std::vector<int64_t> evaluate(const Value *v) {
  const Op &op = *v->def();
  const int64_t n = v->type.elements();
  std::vector<int64_t> a, b, out(n);
  if (op.numOperands() > 0) a = evaluate(op.operand(0));
  if (op.numOperands() > 1) b = evaluate(op.operand(1));
  auto floorDiv = [](int64_t x, int64_t y) { return x / y - (x % y != 0 && (x < 0) != (y < 0)); };
  for (int64_t i = 0; i < n; ++i) {
    switch (op.opcode) {
    case Opcode::Constant:
      out[i] = op.intAttr(Attr::value);
      continue;
    case Opcode::Arange:
      out[i] = op.intAttr(Attr::start) + i;
      continue;
    default:
      break;
    }
    const int64_t x = a[i], y = b[i];
    switch (op.opcode) {
    case Opcode::Add:
      out[i] = x + y;
      break;
    case Opcode::Sub:
      out[i] = x - y;
      break;
    case Opcode::Mul:
      out[i] = x * y;
      break;
    case Opcode::DivFloor:
      out[i] = floorDiv(x, y);
      break;
    case Opcode::ModFloor:
      out[i] = x - floorDiv(x, y) * y;
      break;
    case Opcode::CeilDiv:
      out[i] = -floorDiv(-x, y);
      break;
    case Opcode::And:
      out[i] = x & y;
      break;
    case Opcode::Min:
      out[i] = std::min(x, y);
      break;
    case Opcode::Cmp: {
      const Pred p = Pred(op.intAttr(Attr::pred));
      out[i] = p == Pred::Lt   ? x < y
               : p == Pred::Le ? x <= y
               : p == Pred::Gt ? x > y
               : p == Pred::Ge ? x >= y
               : p == Pred::Eq ? x == y
                               : x != y;
      break;
    }
    default:
      FAIL("no evaluation");
    }
  }
  return out;
}

bool claimsHold(const AxisInfo &info, const std::vector<int64_t> &e) {
  const int64_t c = info.contiguity[0], d = info.divisibility[0], k = info.constancy[0];
  bool good = true;
  for (size_t i = 0; i < e.size(); ++i) {
    good = good && (i % c ? e[i] == e[i - 1] + 1 : e[i] % d == 0);
    good = good && (i % k == 0 || e[i] == e[i - 1]);
    good = good && e[i] >= info.min && e[i] <= info.max && (!info.constant || e[i] == *info.constant);
  }
  return good;
}

} // namespace

TEST_CASE("claims hold for each element") {
  Context context;
  Module m(context);
  Builder b(m);
  const Opcode binary[] = {Opcode::Add,      Opcode::Sub,     Opcode::Mul, Opcode::DivFloor,
                           Opcode::ModFloor, Opcode::CeilDiv, Opcode::And, Opcode::Min};
  const Type t = context.tile(b.i32(), {96});
  std::vector<Value *> values = {b.arange(0, 96), b.arange(16, 112), b.arange(-24, 72)};
  const size_t ranges = values.size();
  std::vector<Value *> constants;
  for (int64_t c : {1, 2, 3, 4, 8, 12, 32, 96, -4, -1}) constants.push_back(b.constant(t, c));
  for (size_t i = 0; i < ranges; ++i)
    for (Opcode o : binary)
      for (Value *c : constants) values.push_back(b.binary(o, values[i], c));
  const size_t first = values.size();
  for (size_t i = ranges; i < first; i += 3)
    for (Opcode o : binary)
      for (Value *c : constants) values.push_back(b.binary(o, values[i], c));
  for (size_t i = 0; i < first; i += 5)
    for (size_t j = 1; j < first; j += 7) {
      values.push_back(b.binary(Opcode::Add, values[i], values[j]));
      for (Pred p : {Pred::Lt, Pred::Le, Pred::Gt, Pred::Ge, Pred::Eq, Pred::Ne})
        values.push_back(b.cmp(p, values[i], values[j]));
    }
  b.ret();
  AxisAnalysis a(m);
  unsigned useful = 0;
  for (Value *v : values) {
    const bool good = claimsHold(a.info(v), evaluate(v));
    if (!good) FAIL_CHECK((print(*v->def()) + a.info(v).str()));
    useful += a.info(v).contiguity[0] > 1 || a.info(v).constancy[0] > 1;
  }
  CHECK(useful > values.size() / 4);
}
