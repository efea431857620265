// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Simplification: folds with the exact semantics of the language, and what must stay.
#include <bit>
#include <chrono>
#include <cmath>
#include <limits>

#include "testing.h"

using namespace tlx;
using namespace tlx::ir;
using namespace tlx::passes;
using namespace tlx::passes::testing;

namespace {

/// The constant that `op` of constants becomes, or nothing if it stays.
std::optional<AttrValue> folded(Opcode opcode, Scalar s, std::vector<AttrValue> operands,
                                std::optional<Scalar> result = {}, std::optional<int64_t> pred = {}) {
  Context c;
  Module m(c);
  Value *out = m.kernel.body.addArg(c.pointer(result.value_or(s)), "out");
  Builder b(m);
  std::vector<Value *> values;
  for (const AttrValue &v : operands) {
    values.push_back(b.constant(c.scalar(s), 0));
    values.back()->def()->setAttr(Attr::value, v);
  }
  Op *op = b.create(opcode, values, c.scalar(result.value_or(s)));
  if (pred) op->setAttr(Attr::pred, *pred);
  b.store(out, op->result());
  b.ret();
  simplify(m);
  const Op *def = m.kernel.body.back()->prev()->operand(1)->def();
  if (!def->is(Opcode::Constant)) return std::nullopt;
  return def->attrs()[0].second;
}
int64_t intFold(Opcode o, Scalar s, int64_t a, int64_t b) {
  auto r = folded(o, s, {a, b});
  REQUIRE(r);
  return std::get<int64_t>(*r);
}
double floatFold(Opcode o, Scalar s, double a, double b) {
  auto r = folded(o, s, {a, b});
  REQUIRE(r);
  return std::get<double>(*r);
}
int64_t toInt(double v, Scalar to) {
  return std::get<int64_t>(*folded(Opcode::Cast, Scalar::F32, {v}, to));
}
double toFloat(double v, Scalar to) {
  return std::get<double>(*folded(Opcode::Cast, Scalar::F64, {v}, to));
}

std::string simplified(const std::string &args, const std::string &ops) {
  Parsed p(args, ops);
  simplify(*p.module);
  Diagnostics broken;
  CHECK(verify(*p.module, broken));
  CHECK_MESSAGE(!broken.hasErrors(), broken.render(p.sources));
  return p.body();
}

} // namespace

TEST_CASE("integers wrap, divide to minus infinity and shift by any amount") {
  const Scalar i32 = Scalar::I32, u32 = Scalar::U32, i64 = Scalar::I64, u64 = Scalar::U64, i8 = Scalar::I8;
  CHECK(intFold(Opcode::Add, i32, INT32_MAX, 1) == INT32_MIN);
  CHECK(intFold(Opcode::Add, u32, 0xffffffff, 2) == 1);
  CHECK(intFold(Opcode::Sub, u32, 0, 1) == 0xffffffff);
  CHECK(intFold(Opcode::Mul, i64, INT64_MIN, -1) == INT64_MIN);
  CHECK(intFold(Opcode::Mul, i8, 100, 3) == 44);
  CHECK(intFold(Opcode::DivFloor, i32, -7, 2) == -4);
  CHECK(intFold(Opcode::DivFloor, i32, 7, -2) == -4);
  CHECK(intFold(Opcode::DivFloor, i32, INT32_MIN, -1) == INT32_MIN);
  CHECK(intFold(Opcode::DivFloor, u64, -1, 2) == INT64_MAX);
  CHECK(intFold(Opcode::ModFloor, i32, -7, 4) == 1);
  CHECK(intFold(Opcode::ModFloor, i32, 7, -4) == -1);
  CHECK(intFold(Opcode::ModFloor, i64, INT64_MIN, -1) == 0);
  CHECK(intFold(Opcode::CeilDiv, i32, 7, 2) == 4);
  CHECK(intFold(Opcode::CeilDiv, i32, -7, 2) == -3);
  CHECK(intFold(Opcode::CeilDiv, i32, INT32_MAX, 2) == 1073741824);
  CHECK(!folded(Opcode::DivFloor, i32, {int64_t(1), int64_t(0)}));
  CHECK(intFold(Opcode::Shl, i32, 1, 31) == INT32_MIN);
  CHECK(intFold(Opcode::Shl, i32, 1, 32) == 0);
  CHECK(intFold(Opcode::Shr, i32, -8, 1) == -4);
  CHECK(intFold(Opcode::Shr, i32, -8, 40) == -1);
  CHECK(intFold(Opcode::Shr, u32, 0x80000000, 31) == 1);
  CHECK(intFold(Opcode::Shr, u64, -1, 63) == 1);
  CHECK(intFold(Opcode::Min, u64, -1, 1) == 1);
  CHECK(intFold(Opcode::Max, i32, -1, 1) == 1);
  CHECK(intFold(Opcode::Xor, Scalar::I1, 1, 1) == 0);
}

TEST_CASE("floats are rounded in their own type") {
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  CHECK(floatFold(Opcode::Add, Scalar::F32, 16777216.0, 1.0) == 16777216.0);
  CHECK(floatFold(Opcode::Add, Scalar::F64, 16777216.0, 1.0) == 16777217.0);
  CHECK(floatFold(Opcode::Mul, Scalar::F32, 0.1, 1.0) == double(0.1f));
  CHECK(floatFold(Opcode::Add, Scalar::F16, 2048.0, 1.0) == 2048.0);
  CHECK(floatFold(Opcode::Mul, Scalar::F16, 256.0, 256.0) == inf);
  CHECK(floatFold(Opcode::Add, Scalar::BF16, 256.0, 1.0) == 256.0);
  CHECK(floatFold(Opcode::Div, Scalar::F32, 1.0, 3.0) == double(1.0f / 3.0f));
  CHECK(floatFold(Opcode::Min, Scalar::F32, nan, 2.0) == 2.0);
  CHECK(floatFold(Opcode::Max, Scalar::F32, 2.0, nan) == 2.0);
  CHECK(std::isnan(floatFold(Opcode::MaxNan, Scalar::F32, 2.0, nan)));
  CHECK(std::get<double>(*folded(Opcode::Fma, Scalar::F32, {double(0.1f), 10.0, -1.0})) ==
        double(std::fma(0.1f, 10.0f, -1.0f)));
  CHECK(std::get<double>(*folded(Opcode::Floor, Scalar::F32, {-1.5})) == -2.0);
  CHECK(std::signbit(std::get<double>(*folded(Opcode::Neg, Scalar::F32, {0.0}))));
}

TEST_CASE("casts truncate and saturate") {
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  CHECK(toInt(-1.9, Scalar::I32) == -1);
  CHECK(toInt(1e20, Scalar::I32) == INT32_MAX);
  CHECK(toInt(-inf, Scalar::I32) == INT32_MIN);
  CHECK(toInt(nan, Scalar::I32) == 0);
  CHECK(toInt(-5, Scalar::U8) == 0);
  CHECK(toInt(300, Scalar::U8) == 255);
  CHECK(toInt(1e30, Scalar::U64) == -1);
  CHECK(toFloat(1e6, Scalar::F8E4M3) == 448);
  CHECK(toFloat(-inf, Scalar::F8E4M3) == -448);
  CHECK(toFloat(1e6, Scalar::F8E5M2) == 57344);
  CHECK(std::isnan(toFloat(nan, Scalar::F8E4M3)));
  CHECK(toFloat(65520, Scalar::F16) == inf);
  CHECK(std::get<double>(*folded(Opcode::Cast, Scalar::U64, {int64_t(-1)}, Scalar::F32)) == 18446744073709551616.0);
  CHECK(std::get<double>(*folded(Opcode::Cast, Scalar::I64, {int64_t(16777217)}, Scalar::F32)) == 16777216.0);
  CHECK(std::get<int64_t>(*folded(Opcode::Cast, Scalar::I32, {int64_t(-1)}, Scalar::U64)) == -1);
  CHECK(std::get<int64_t>(*folded(Opcode::Cast, Scalar::I32, {int64_t(-1)}, Scalar::U32)) == 0xffffffff);
  CHECK(std::get<int64_t>(*folded(Opcode::Bitcast, Scalar::F32, {1.0}, Scalar::I32)) == 0x3f800000);
  CHECK(std::get<double>(*folded(Opcode::Bitcast, Scalar::U16, {int64_t(0x3c00)}, Scalar::F16)) == 1.0);
}

TEST_CASE("comparisons") {
  const double nan = std::nan("");
  for (int64_t p = 0; p < 6; ++p)
    CHECK(std::get<int64_t>(*folded(Opcode::Cmp, Scalar::F32, {nan, 1.0}, Scalar::I1, p)) == (p == 1));
  CHECK(std::get<int64_t>(
            *folded(Opcode::Cmp, Scalar::I32, {int64_t(-1), int64_t(1)}, Scalar::I1, int64_t(Pred::Lt))) == 1);
  CHECK(std::get<int64_t>(
            *folded(Opcode::Cmp, Scalar::U64, {int64_t(-1), int64_t(1)}, Scalar::I1, int64_t(Pred::Lt))) == 0);
}

TEST_CASE("identities, with scalar work kept scalar") {
  CHECK(simplified("%x: *i32, %n: i32", R"(
  %0 = constant {value = 0} : i32
  %1 = add %0, %n : i32
  %2 = constant {value = 4} : i32
  %3 = add %1, %2 : i32
  %4 = sub %3, %2 : i32
  %5 = splat %4 : i32[64]
  %6 = splat %2 : i32[64]
  %7 = mul %5, %6 : i32[64]
  %8 = expand_dims %7 {axis = 0} : i32[1, 64]
  %9 = broadcast %8 : i32[8, 64]
  %10 = splat %x : *i32[8, 64]
  %11 = splat %0 : i32[8, 64]
  %12 = addptr %10, %11 : *i32[8, 64]
  %13 = cmp %11, %11 {pred = eq} : i1[8, 64]
  store %12, %9, %13
)") == R"(  %0 = constant {value = 4} : i32
  %1 = mul %n, %0 : i32
  %2 = splat %1 : i32[8, 64]
  %3 = splat %x : *i32[8, 64]
  store %3, %2
)");
}

TEST_CASE("zeros of floats are not lost") {
  CHECK(simplified("%x: *f32, %f: f32", R"(
  %0 = constant {value = 0.0} : f32
  %1 = add %f, %0 : f32
  %2 = mul %1, %0 : f32
  store %x, %2
)") == R"(  %0 = constant {value = 0.0} : f32
  %1 = add %f, %0 : f32
  %2 = mul %1, %0 : f32
  store %x, %2
)");
}

TEST_CASE("equal computations merge in scopes, not across branches") {
  CHECK(simplified("%x: *i32, %n: i32, %c: i1", R"(
  if %c ^() {
    %0 = mul %n, %n : i32
    store %x, %0
    yield
  } ^() {
    %1 = mul %n, %n : i32
    %2 = mul %n, %n : i32
    %3 = add %1, %2 : i32
    store %x, %3
    yield
  }
)") == R"(  if %c ^() {
    %0 = mul %n, %n : i32
    store %x, %0
    yield
  } ^() {
    %1 = mul %n, %n : i32
    %2 = add %1, %1 : i32
    store %x, %2
    yield
  }
)");
}

TEST_CASE("loops: dead and invariant values, hoisting, no trips") {
  CHECK(simplified("%x: *i32, %n: i32", R"(
  %0 = constant {value = 0} : i32
  %1 = constant {value = 1} : i32
  %2, %3, %4 = for %0, %n, %1, %0, %n, %0 : i32, i32, i32 ^(%5: i32, %6: i32, %7: i32, %8: i32) {
    %9 = add %6, %1 : i32
    %10 = mul %7, %n : i32
    %11 = add %8, %10 : i32
    yield %9, %7, %11
  }
  %12 = for %1, %0, %1, %4 : i32 ^(%13: i32, %14: i32) {
    %15 = add %14, %13 : i32
    yield %15
  }
  %16 = add %3, %12 : i32
  store %x, %16
)") == R"(  %0 = constant {value = 0} : i32
  %1 = constant {value = 1} : i32
  %2 = mul %n, %n : i32
  %3 = for %0, %n, %1, %0 : i32 ^(%4: i32, %5: i32) {
    %6 = add %5, %2 : i32
    yield %6
  }
  %7 = add %n, %3 : i32
  store %x, %7
)");
}

TEST_CASE("loops and branches without effect go, those with effects stay") {
  CHECK(simplified("%x: *i32, %n: i32, %c: i1", R"(
  %0 = constant {value = 0} : i32
  %1 = constant {value = 1} : i32
  %2 = for %0, %n, %1, %0 : i32 ^(%3: i32, %4: i32) {
    %5 = load %x : i32
    yield %5
  }
  %6 = if %c : i32 ^() {
    yield %0
  } ^() {
    yield %1
  }
  %7, %8 = while %0, %n : i32, i32 ^(%9: i32, %10: i32) {
    %11 = load %x : i32
    %12 = cmp %11, %10 {pred = lt} : i1
    condition %12, %9, %10
  } ^(%13: i32, %14: i32) {
    %15 = add %13, %1 : i32
    yield %15, %14
  }
)") == R"(  while ^() {
    %0 = load %x : i32
    %1 = cmp %0, %n {pred = lt} : i1
    condition %1
  } ^() {
    yield
  }
)");
}

TEST_CASE("constant conditions") {
  CHECK(simplified("%x: *i32, %n: i32", R"(
  %0 = constant {value = 1} : i1
  %1 = constant {value = 0} : i1
  %2 = if %0 : i32 ^() {
    %3 = add %n, %n : i32
    yield %3
  } ^() {
    yield %n
  }
  %4 = while %2 : i32 ^(%5: i32) {
    %6 = mul %5, %n : i32
    condition %1, %6
  } ^(%7: i32) {
    yield %7
  }
  %8 = select %1, %n, %4 : i32
  store %x, %8, %0
  store %x, %n, %1
  %9 = load %x, %1 : i32
  %10 = atomic_rmw %x, %9, %0 {kind = "add"} : i32
)") == R"(  %0 = add %n, %n : i32
  %1 = mul %0, %n : i32
  store %x, %1
  %2 = constant {value = 0} : i32
  %3 = atomic_rmw %x, %2 {kind = "add"} : i32
)");
}

TEST_CASE("pointer offsets add up unless their sum wraps; casts that come back go") {
  CHECK(simplified("%x: *f16, %h: f16", R"(
  %0 = constant {value = 2147483647} : i32
  %1 = constant {value = 1} : i32
  %2 = addptr %x, %1 : *f16
  %3 = addptr %2, %1 : *f16
  %4 = addptr %3, %0 : *f16
  %5 = cast %h : f32
  %6 = cast %5 : f16
  store %4, %6
)") == R"(  %0 = constant {value = 2147483647} : i32
  %1 = constant {value = 2} : i32
  %2 = addptr %x, %1 : *f16
  %3 = addptr %2, %0 : *f16
  store %3, %h
)");
}

TEST_CASE("combiners of reductions capture nothing new") {
  CHECK(simplified("%x: *f32, %f: f32, %p: *f32", R"(
  %0 = constant {value = 2.0} : f32
  %1 = mul %f, %0 : f32
  store %p, %1
  %2 = arange {start = 0} : i32[64]
  %3 = splat %x : *f32[64]
  %4 = addptr %3, %2 : *f32[64]
  %5 = load %4 : f32[64]
  %6 = reduce %5 {axis = 0} : f32 ^(%7: f32, %8: f32) {
    %9 = constant {value = 2.0} : f32
    %10 = mul %8, %9 : f32
    %11 = add %7, %10 : f32
    yield %11
  }
  store %x, %6
)")
            .find("= constant {value = 2.0} : f32\n    ") != std::string::npos);
}

TEST_CASE("a long kernel takes milliseconds") {
  Context c;
  Module m(c);
  Value *x = m.kernel.body.addArg(c.pointer(Scalar::I32), "x"), *n = m.kernel.body.addArg(c.scalar(Scalar::I32), "n");
  Builder b(m);
  Value *sum = n;
  for (int i = 0; i < 4000; ++i) {
    Value *v = b.binary(Opcode::Mul, b.binary(Opcode::Add, n, b.constI32(i)), b.constI32(3));
    sum = b.binary(Opcode::Xor, sum, v);
  }
  b.store(x, sum);
  b.ret();
  const auto start = std::chrono::steady_clock::now();
  simplify(m);
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
  MESSAGE("16,000 ops: " << time.count() << " ms");
  CHECK(time.count() < 5000); // generous: sanitizers, shared machines
}
