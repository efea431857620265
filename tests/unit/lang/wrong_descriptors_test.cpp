// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Wrong programs about tensor descriptors, pipelines, matrix products and scans: the one message that each gives, with its place. (What a
// target refuses after the elaborator is in tests/kernels/refusals_test.cpp.)
#include "wrong_testing.h"

using namespace tlx;
using namespace elaboration;

namespace {
/// Statements of a kernel with these names, on line 2.
std::string described(const std::string &statements) {
  return "kernel k(a: tensor_desc<f16, [64, 64]>, b: tensor_desc<f16, [64, 64]>, q: tensor_desc<i32, [64, 64]>,"
         " p: *f16, n: i32, s: f32) {\n" +
         statements + R"(
}
fn get(d) { return d.load([0, 0]); }
fn twice(x) { return x * 2; }
fn pointer(d: *f16) { return load(d); }
fn narrow(d: tensor_desc<f16, [64, 32]>) { return d.load([0, 0]); }
fn pick(x, y, n) { if n > 0 { return x; } return y; }
fn picked(x, y, n) { if n > 0 { return (n, x); } else { return (1, y); } }
)";
}
} // namespace

TEST_SUITE_BEGIN("wrong programs");

// clang-format off
TEST_CASE("descriptors that are used as something else") {
  const Wrong table[] = {
    {"let x = a + 1;",
     2, 9, 10, "'+' does not work on tensor_desc<f16, [64, 64]>; its blocks come from .load([…]) and go to .store([…], x)"},
    {"let x = load(a + n);",
     2, 14, 15, "'+' does not work on tensor_desc<f16, [64, 64]>; its blocks come from .load([…]) and go to .store([…], x)"},
    {"let x = -a;",
     2, 9, 10, "'-' does not work on tensor_desc<f16, [64, 64]>; its blocks come from .load([…]) and go to .store([…], x)"},
    {"if a == b { store(p, load(p)); }",
     2, 6, 8, "'==' does not work on tensor_desc<f16, [64, 64]>; its blocks come from .load([…]) and go to .store([…], x)"},
    {"let x = exp(a);",
     2, 13, 14, "exp does not work on tensor_desc<f16, [64, 64]>; its blocks come from .load([…]) and go to .store([…], x)"},
    {"let x = broadcast_to(a, [64, 64]);",
     2, 22, 23, "broadcast_to does not work on tensor_desc<f16, [64, 64]>; its blocks come from .load([…]) and go to .store([…], x)"},
    {"let x = a.T;",
     2, 9, 12, ".T needs a tile, not tensor_desc<f16, [64, 64]>; load a block of it first, with .load([…])"},
    {"let x = dot(a.load([0, 0]), b);",
     2, 29, 30, "dot needs a tile, not tensor_desc<f16, [64, 64]>; load a block of it first, with .load([…])"},
    {"let x = sum(q, axis = 0);",
     2, 13, 14, "sum needs a tile, not tensor_desc<i32, [64, 64]>; load a block of it first, with .load([…])"},
    {"let x = cumsum(q, axis = 0);",
     2, 16, 17, "cumsum needs a tile, not tensor_desc<i32, [64, 64]>; load a block of it first, with .load([…])"},
    {"let x = a[0];",
     2, 9, 13, "tensor_desc<f16, [64, 64]> has no elements to index"},
    {"store(b, 1.0);",
     2, 7, 8, "store takes a pointer; a tensor descriptor has the methods .load and .store"},
    {"atomic_add(q, 1);",
     2, 12, 13, "atomic_add takes a pointer; a tensor descriptor has the methods .load and .store"},
    {"store(p, a);",
     2, 10, 11, "the value has type tensor_desc<f16, [64, 64]>, and the memory is *f16"},
    {"let x = a.to(f32);",
     2, 9, 10, "only numbers convert, not tensor_desc<f16, [64, 64]>"},
    {"let x = multiple_of(a, 16);",
     2, 21, 22, "multiple_of works on integers, not on tensor_desc<f16, [64, 64]>"},
    {"if a { store(p, load(p)); }",
     2, 4, 5, "the condition of 'if' is i1, and this is tensor_desc<f16, [64, 64]>"},
    {"for i in range(0, a) { store(p, load(p)); }",
     2, 19, 20, "the bounds and the step of range are integers, not tensor_desc<f16, [64, 64]>"},
    {"let x = a.prefetch([0, 0]);",
     2, 11, 19, "there is no method 'prefetch'; the methods are .to, .load and .store"},
    {"let x = twice(a);",
     5, 22, 23, "'*' does not work on tensor_desc<f16, [64, 64]>; its blocks come from .load([…]) and go to .store([…], x)"},
    {"let x = pointer(a);",
     2, 17, 18, "parameter 'd' has type *f16, not tensor_desc<f16, [64, 64]>"},
    {"let x = narrow(a);",
     2, 16, 17, "parameter 'd' has type tensor_desc<f16, [64, 32]>, not tensor_desc<f16, [64, 64]>"},
    {"let x = get(p);",
     4, 22, 26, "'.load' is a method of a tensor descriptor, and this is *f16; write load(pointer, …)"},
  };
  for (const Wrong &wrong : table) check(wrong, described(wrong.text));
}

TEST_CASE("descriptors that a condition chooses") {
  const Wrong table[] = {
    {"let x = pick(a, b, n).load([0, 0]);",
     8, 38, 39, "a tensor descriptor can only be returned where no run-time condition decides; load and store through each in a branch of its own"},
    {"let (_, d) = picked(a, b, n); let x = d.load([0, 0]);",
     9, 40, 46, "a tensor descriptor can only be returned where no run-time condition decides; load and store through each in a branch of its own"},
    {"let x = where(n > 0, a, b).load([0, 0]);",
     2, 22, 23, "where does not work on tensor_desc<f16, [64, 64]>; its blocks come from .load([…]) and go to .store([…], x)"},
    {"var d = a; if n > 0 { d = b; }",
     2, 9, 10, "a variable holds a number or a pointer, and 'd' would be tensor_desc<f16, [64, 64]>; write 'let'"},
    {"a = b;",
     2, 1, 2, "'a' cannot be assigned: it is not a 'var'"},
  };
  for (const Wrong &wrong : table) check(wrong, described(wrong.text));
  Elaborated known(described("b.store([0, 0], get(pick(a, b, 1)));")); // which one is known here
  CHECK(known.errors() == "");
  CHECK(known.module);
}

TEST_CASE("blocks, offsets and reductions of descriptors") {
  const Wrong table[] = {
    {"let x = a.load([arange(0, 64), 0]);",
     2, 17, 30, "the offset of a block is i32, not i32[64]"},
    {"let x = a.load([n.to(u32), 0]);",
     2, 17, 26, "the offset of a block is i32, not u32"},
    {"let x = a.load([p, 0]);",
     2, 17, 18, "the offset of a block is i32, not *f16"},
    {"let x = a.load([0, -3000000000]);",
     2, 20, 31, "the offset of a block is i32, and -3000000000 does not fit"},
    {"let x = a.load(0, 0);",
     2, 16, 17, "a block of tensor_desc<f16, [64, 64]> has 2 offsets, and this is an integer literal"},
    {"let x = a.load([0, 0, 0]);",
     2, 16, 25, "a block of tensor_desc<f16, [64, 64]> has 2 offsets, and this is 3"},
    {"let x = a.load([0, 0], mask = n > 0);",
     2, 24, 28, ".load has no argument 'mask'; it has offsets, eviction"},
    {"let x = a.load([0, 0], cache = \"cg\");",
     2, 24, 29, ".load has no argument 'cache'; it has offsets, eviction"},
    {"let x = a.store([0, 0], b.load([0, 0]));",
     2, 9, 40, "this call returns nothing"},
    {"a.store([0, 0], 1.0);",
     2, 17, 20, "a float literal is not a block of tensor_desc<f16, [64, 64]>"},
    {"a.store([0, 0], zeros([1, 64, 64], f16));",
     2, 17, 40, "f16[1, 64, 64] is not a block of tensor_desc<f16, [64, 64]>"},
    {"a.store([0, 0], b.load([0, 0]) + load(p).to(f32));",
     2, 17, 49, "the value has type f32, and the memory is tensor_desc<f16, [64, 64]>; convert it with .to(f16)"},
    {"a.store([0, 0], b.load([0, 0]), reduce = \"xor\");",
     2, 42, 47, "a block cannot be combined by \"xor\" in f16: integers of 32 and 64 bits have all forms, f16, bf16, f32 and f64 have add, min and max"},
    {"q.store([0, 0], q.load([0, 0]), reduce = 3);",
     2, 42, 43, "'reduce' is one of \"add\", \"min\", \"max\", \"and\", \"or\", \"xor\""},
    {"let x = a.load([0, 0], reduce = \"add\");",
     2, 24, 30, ".load has no argument 'reduce'; it has offsets, eviction"},
  };
  for (const Wrong &wrong : table) check(wrong, described(wrong.text));
}

TEST_CASE("types of descriptors") {
  const Wrong table[] = {
    {"kernel k(a: tensor_desc, p: *f32) { store(p, 1.0); }",
     1, 24, 25, "a tensor descriptor is written tensor_desc<f16, [128, 64]>: the type of its elements, and the shape of its blocks"},
    {"kernel k(a: tensor_desc<f16>, p: *f32) { store(p, 1.0); }",
     1, 28, 29, "a tensor descriptor is written tensor_desc<f16, [128, 64]>: the type of its elements, and the shape of its blocks"},
    {"kernel k(a: tensor_desc<f16, 64>, p: *f32) { store(p, 1.0); }",
     1, 30, 32, "a tensor descriptor is written tensor_desc<f16, [128, 64]>: the type of its elements, and the shape of its blocks"},
    {"kernel k(a: tensor_desc<f16, []>, p: *f32) { store(p, 1.0); }",
     1, 31, 32, "expected an extent, found ']'"},
    {"kernel k(a: tensor_desc<f16, [64, 0]>, p: *f32) { store(p, 1.0); }",
     1, 35, 36, "an extent is p * 2^k with odd p up to 15, and 0 is not"},
    {"kernel k(a: tensor_desc<f16, [-64, 64]>, p: *f32) { store(p, 1.0); }",
     1, 31, 34, "an extent is p * 2^k with odd p up to 15, and -64 is not"},
    {"kernel k(a: tensor_desc<f16, [64, 34]>, p: *f32) { store(p, 1.0); }",
     1, 35, 37, "an extent is p * 2^k with odd p up to 15, and 34 is not"},
    {"kernel k(a: tensor_desc<f16, [64, 2.0]>, p: *f32) { store(p, 1.0); }",
     1, 35, 38, "an extent is an integer, not a float literal"},
    {"kernel k(n: i32, a: tensor_desc<f16, [64, n]>, p: *f32) { store(p, 1.0); }",
     1, 43, 44, "a shape is known at compile time; this extent is a run-time i32"},
    {"kernel k(a: tensor_desc<f16, [2048, 1024]>, p: *f32) { store(p, 1.0); }",
     1, 13, 43, "a tile of shape [2048, 1024] is too large; the limit is 1048576 elements"},
    {"kernel k(a: tensor_desc<*f16, [64, 64]>, p: *f32) { store(p, 1.0); }",
     1, 25, 29, "the element of this type must be a data type, like f16"},
    {"kernel k(a: *tensor_desc<f16, [64]>, p: *f32) { store(p, 1.0); }",
     1, 14, 36, "the element of this type must be a data type, like f16"},
    {"kernel k(a: tensor_desc<f16, [64, 64]>, p: *f32) requires(aligned(a, 16)) { store(p, 1.0); }",
     1, 67, 68, "aligned is about a pointer argument, not tensor_desc<f16, [64, 64]>"},
    {"kernel k(a: tensor_desc<f16, [64, 64]>, p: *f32) requires(a == 0) { store(p, 1.0); }",
     1, 59, 60, "a fact about a pointer is aligned(…) or noalias(…), not arithmetic on tensor_desc<f16, [64, 64]>"},
  };
  for (const Wrong &wrong : table) check(wrong, wrong.text);
}

TEST_CASE("num_stages") {
  const Wrong table[] = {
    {"for i in range(0, n, num_stages = -2) { store(p + i, 1.0); }",
     2, 35, 37, "num_stages is an integer from 1 to 16, not -2"},
    {"for i in range(0, n, num_stages = 1000000) { store(p + i, 1.0); }",
     2, 35, 42, "num_stages is an integer from 1 to 16, not 1000000"},
    {"for i in range(0, n, num_stages = 2.5) { store(p + i, 1.0); }",
     2, 35, 38, "num_stages is an integer from 1 to 16, not a float literal"},
    {"for i in range(0, n, num_stages = n) { store(p + i, 1.0); }",
     2, 35, 36, "num_stages is an integer from 1 to 16, not i32"},
    {"for i in range(0, n, num_stages = 2, num_stages = 3) { store(p + i, 1.0); }",
     2, 38, 48, "'num_stages' is named twice"},
    {"static for i in range(0, 4, num_stages = 2) { store(p + i, 1.0); }",
     2, 29, 39, "'num_stages' has no meaning for 'static for', which is unrolled completely"},
    {"while n > 0, num_stages = 3 { store(p, 1.0); break; }",
     2, 12, 13, "'while' takes a condition alone; num_stages and unroll belong to 'for i in range(lo, hi, num_stages = 3)'"},
    {"for i in range(0, n, num_stages = 3) { if i == n { return; } store(p + i, 1.0); }",
     2, 22, 36, "num_stages needs a loop that runs to its end, and this one has 'break' or 'return' in it"},
  };
  for (const Wrong &wrong : table) check(wrong, described(wrong.text));
}

TEST_CASE("matrix products and scans of the wrong types") {
  const Wrong table[] = {
    {"let x = dot(zeros([64, 64], f8e4m3), zeros([64, 64], f16));",
     2, 9, 59, "dot needs operands of one type, not f8e4m3 and f16; convert one with .to(…)"},
    {"let x = dot(zeros([64, 64], u8), zeros([64, 64], i8));",
     2, 9, 54, "dot needs operands of one type, not u8 and i8; convert one with .to(…)"},
    {"let x = dot(q.load([0, 0]).to(i16), q.load([0, 0]).to(i16));",
     2, 13, 35, "dot works on i8, u8 and floats, not on i16"},
    {"let x = dot(zeros([64, 64], i8), zeros([64, 64], i8), zeros([64, 64], f32));",
     2, 55, 75, "the accumulator is f32[64, 64], and this dot needs i32[64, 64]"},
    {"let x = dot(zeros([64, 64], f64), zeros([64, 64], f64), zeros([64, 64], f32));",
     2, 57, 77, "the accumulator is f32[64, 64], and this dot needs f64[64, 64]"},
    {"let x = dot(zeros([64, 64], f8e5m2), zeros([64, 64], f8e4m3), zeros([64, 64], f16));",
     2, 63, 83, "the accumulator is f16[64, 64], and this dot needs f32[64, 64]"},
    {"let x = dot(zeros([64, 64], i8), zeros([64, 64], i8), precision = \"ieee\");",
     2, 67, 73, "precision is for f32 operands, and these are i8"},
    {"let x = cumsum(q.load([0, 0]), axis = 2);",
     2, 39, 40, "axis 2 does not exist; the last is 1"},
    {"let x = cumsum(q.load([0, 0]), axis = -3);",
     2, 39, 41, "axis -3 does not exist; the last is 1"},
    {"let x = cumprod(q.load([0, 0]), axis = n);",
     2, 40, 41, "the axis of cumprod is an integer known at compile time, not i32"},
    {"let x = cumsum(q.load([0, 0]), axis = 0, keep_dims = true);",
     2, 42, 51, "cumsum has no argument 'keep_dims'; it has x, axis, reverse"},
    {"let x = cumsum(zeros([8], f8e4m3));",
     2, 16, 34, "cumsum does not work on f8e4m3; convert it with .to(f32)"},
    {"let x = associative_scan(q.load([0, 0]), 0, 3);",
     2, 45, 46, "associative_scan needs a function of two values, not an integer literal"},
    {"let x = associative_scan((zeros([8], f32), zeros([16], f32)), 0, maximum);",
     2, 26, 61, "associative_scan needs tiles of one shape, not [8] and [16]"},
    {"let x = associative_scan(q.load([0, 0]), 0, twice);",
     2, 45, 50, "twice takes 1 argument (x); this one is too many"},
  };
  for (const Wrong &wrong : table) check(wrong, described(wrong.text));
}
// clang-format on

TEST_SUITE_END();
