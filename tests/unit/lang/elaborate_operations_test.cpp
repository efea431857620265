// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What operations become: types, conversions, broadcasts and constants in the IR's text.
#include "elaborate_testing.h"

using namespace elaboration;

TEST_SUITE_BEGIN("elaborated operations");

// clang-format off
TEST_CASE("operations and functions") {
  const std::pair<const char *, const char *> table[] = {
    {R"tlx(if N == 8 { store(p, s); } else { no_such(); })tlx",
R"ir(  store %p, %s
  return
)ir"},
    {R"tlx(let t = reduce((arange(0, 8), arange(0, 8)), 0, swap2); let (a, b) = t; store(p + a, s);)tlx",
R"ir(  %0 = arange {start = 0} : i32[8]
  %1 = arange {start = 0} : i32[8]
  %2, %3 = reduce %0, %1 {axis = 0} : i32, i32 ^(%4: i32, %5: i32, %6: i32, %7: i32) {
    %8 = min %4, %6 : i32
    %9 = max %5, %7 : i32
    yield %8, %9
  }
  %10 = addptr %p, %2 : *f32
  store %10, %s
  return
)ir"},
    {R"tlx(let t = reduce(zeros([8], f32), 0, maximum); store(p, t);)tlx",
R"ir(  %0 = constant {value = 0.0} : f32[8]
  %1 = reduce %0 {axis = 0} : f32 ^(%2: f32, %3: f32) {
    %4 = max %2, %3 : f32
    yield %4
  }
  store %p, %1
  return
)ir"},
    {R"tlx(let i = argmax(load(p + arange(0, 8)), axis = 0); store(p + i, s);)tlx",
R"ir(  %0 = arange {start = 0} : i32[8]
  %1 = splat %p : *f32[8]
  %2 = addptr %1, %0 : *f32[8]
  %3 = load %2 : f32[8]
  %4 = arange {start = 0} : i32[8]
  %5, %6 = reduce %3, %4 {axis = 0} : f32, i32 ^(%7: f32, %8: i32, %9: f32, %10: i32) {
    %11 = cmp %7, %9 {pred = gt} : i1
    %12 = cmp %7, %9 {pred = eq} : i1
    %13 = cmp %7, %7 {pred = ne} : i1
    %14 = cmp %9, %9 {pred = ne} : i1
    %15 = cmp %7, %7 {pred = eq} : i1
    %16 = and %15, %14 : i1
    %17 = or %11, %16 : i1
    %18 = and %13, %14 : i1
    %19 = or %12, %18 : i1
    %20 = cmp %8, %10 {pred = lt} : i1
    %21 = and %19, %20 : i1
    %22 = or %17, %21 : i1
    %23 = select %22, %7, %9 : f32
    %24 = select %22, %8, %10 : i32
    yield %23, %24
  }
  %25 = addptr %p, %6 : *f32
  store %25, %s
  return
)ir"},
    {R"tlx(store(h, sum(load(h + arange(0, 8))));)tlx",
R"ir(  %0 = arange {start = 0} : i32[8]
  %1 = splat %h : *f16[8]
  %2 = addptr %1, %0 : *f16[8]
  %3 = load %2 : f16[8]
  %4 = cast %3 : f32[8]
  %5 = reduce %4 {axis = 0} : f32 ^(%6: f32, %7: f32) {
    %8 = add %6, %7 : f32
    yield %8
  }
  %9 = cast %5 : f16
  store %h, %9
  return
)ir"},
    {R"tlx(let x = exp(load(h)); store(h, x);)tlx",
R"ir(  %0 = load %h : f16
  %1 = cast %0 : f32
  %2 = exp %1 : f32
  %3 = cast %2 : f16
  store %h, %3
  return
)ir"},
    {R"tlx(let c = sum((arange(0, 8) < n), axis = 0); store(p + c, s);)tlx",
R"ir(  %0 = arange {start = 0} : i32[8]
  %1 = splat %n : i32[8]
  %2 = cmp %0, %1 {pred = lt} : i1[8]
  %3 = cast %2 : i32[8]
  %4 = reduce %3 {axis = 0} : i32 ^(%5: i32, %6: i32) {
    %7 = add %5, %6 : i32
    yield %7
  }
  %8 = addptr %p, %4 : *f32
  store %8, %s
  return
)ir"},
    {R"tlx(let x = full([8, 8], 0.0, f32); let y = sum(x, axis = 1, keep_dims = true); store(p + arange(0, 8)[:, None], y);)tlx",
R"ir(  %0 = constant {value = 0.0} : f32[8, 8]
  %1 = reduce %0 {axis = 1} : f32[8] ^(%2: f32, %3: f32) {
    %4 = add %2, %3 : f32
    yield %4
  }
  %5 = expand_dims %1 {axis = 1} : f32[8, 1]
  %6 = arange {start = 0} : i32[8]
  %7 = expand_dims %6 {axis = 1} : i32[8, 1]
  %8 = splat %p : *f32[8, 1]
  %9 = addptr %8, %7 : *f32[8, 1]
  store %9, %5
  return
)ir"},
    {R"tlx(let x = s.to(f16, rounding = "rtz"); store(h, x);)tlx",
R"ir(  %0 = cast %s {rounding = "rtz"} : f16
  store %h, %0
  return
)ir"},
    {R"tlx(let x = n.to(f8e4m3).to(i32); store(p + x, s);)tlx",
R"ir(  %0 = cast %n : f32
  %1 = cast %0 : f8e4m3
  %2 = cast %1 : f32
  %3 = cast %2 : i32
  %4 = addptr %p, %3 : *f32
  store %4, %s
  return
)ir"},
    {R"tlx(let (a, b) = split(join(arange(0, 8), arange(0, 8))); store(p + a + b, s);)tlx",
R"ir(  %0 = arange {start = 0} : i32[8]
  %1 = arange {start = 0} : i32[8]
  %2 = join %0, %1 : i32[8, 2]
  %3, %4 = split %2 : i32[8], i32[8]
  %5 = splat %p : *f32[8]
  %6 = addptr %5, %3 : *f32[8]
  %7 = addptr %6, %4 : *f32[8]
  %8 = splat %s : f32[8]
  store %7, %8
  return
)ir"},
    {R"tlx(let x = require_layout(zeros([64, 16], f32), blocked(size = [1, 4], lanes = [8, 4], warps = [4, 1], order = [1, 0])); store(p + (arange(0, 64)[:, None] * 16 + arange(0, 16)[None, :]), x);)tlx",
R"ir(  %0 = constant {value = 0.0} : f32[64, 16]
  %1 = require_layout %0 {layout = "blocked(size = [1, 4], lanes = [8, 4], warps = [4, 1], order = [1, 0])"} : f32[64, 16]
  %2 = arange {start = 0} : i32[64]
  %3 = expand_dims %2 {axis = 1} : i32[64, 1]
  %4 = constant {value = 16} : i32[64, 1]
  %5 = mul %3, %4 : i32[64, 1]
  %6 = arange {start = 0} : i32[16]
  %7 = expand_dims %6 {axis = 0} : i32[1, 16]
  %8 = broadcast %5 : i32[64, 16]
  %9 = broadcast %7 : i32[64, 16]
  %10 = add %8, %9 : i32[64, 16]
  %11 = splat %p : *f32[64, 16]
  %12 = addptr %11, %10 : *f32[64, 16]
  store %12, %1
  return
)ir"},
    {R"tlx(device_print("%d %5.2f %p\n", n, s, p);)tlx",
R"ir(  device_print %n, %s, %p {format = "%d %5.2f %p\n"}
  return
)ir"},
    {R"tlx(let old = atomic_add(p, s, n > 3); atomic_add(p, 1.0);)tlx",
R"ir(  %0 = constant {value = 3} : i32
  %1 = cmp %n, %0 {pred = gt} : i1
  %2 = atomic_rmw %p, %s, %1 {kind = "add"} : f32
  %3 = constant {value = 1.0} : f32
  %4 = atomic_rmw %p, %3 {kind = "add"} : f32
  return
)ir"},
    {R"tlx(let q = p - u; store(q, s); store(p - 1, s);)tlx",
R"ir(  %0 = cast %u : i64
  %1 = neg %0 : i64
  %2 = addptr %p, %1 : *f32
  store %2, %s
  %3 = constant {value = 1} : i32
  %4 = neg %3 : i32
  %5 = addptr %p, %4 : *f32
  store %5, %s
  return
)ir"},
    {R"tlx(assume(n > 3); let k2 = multiple_of(n, 16); store(p + k2, s);)tlx",
R"ir(  %0 = constant {value = 3} : i32
  %1 = cmp %n, %0 {pred = gt} : i1
  assume %1
  %2 = multiple_of %n {values = [16]} : i32
  %3 = addptr %p, %2 : *f32
  store %3, %s
  return
)ir"},
    {R"tlx(let x = a_b(b = n, a = 2); store(p + x, s);)tlx",
R"ir(  %0 = constant {value = 2} : i32
  %1 = mul %0, %n : i32
  %2 = addptr %p, %1 : *f32
  store %2, %s
  return
)ir"},
    {R"tlx(let x = apply(s, exp); store(p, x); store(p, apply(s, halved));)tlx",
R"ir(  %0 = exp %s : f32
  store %p, %0
  %1 = constant {value = 0.5} : f32
  %2 = mul %s, %1 : f32
  store %p, %2
  return
)ir"},
    {R"tlx(let x = dtype_of(s); store(p, n.to(x)); static_assert(bytes_of(x) == 4);)tlx",
R"ir(  %0 = cast %n : f32
  store %p, %0
  return
)ir"},
    {R"tlx(let x = n / 2 + n % 3 + cdiv(n, 4) + max(n, 3) + (n << 2 >> 1); store(p + x, s);)tlx",
R"ir(  %0 = constant {value = 2} : i32
  %1 = div_floor %n, %0 : i32
  %2 = constant {value = 3} : i32
  %3 = mod_floor %n, %2 : i32
  %4 = add %1, %3 : i32
  %5 = constant {value = 4} : i32
  %6 = cdiv %n, %5 : i32
  %7 = add %4, %6 : i32
  %8 = constant {value = 3} : i32
  %9 = max %n, %8 : i32
  %10 = add %7, %9 : i32
  %11 = constant {value = 2} : i32
  %12 = shl %n, %11 : i32
  %13 = constant {value = 1} : i32
  %14 = shr %12, %13 : i32
  %15 = add %10, %14 : i32
  %16 = addptr %p, %15 : *f32
  store %16, %s
  return
)ir"},
  };
  for (auto [text, body] : table) {
    Elaborated e(program(text));
    CAPTURE(std::string(text));
    CHECK(e.body() == body);
  }
}
// clang-format on

TEST_CASE("atomics, scans, hints, assertions") {
  const std::pair<const char *, const char *> table[] = {
      {R"tlx(atomic_max(p, 2.0, n > 3, order = "acq_rel", scope = "sys"); let old = atomic_cas(p, 0.0, s, order = "acquire"); store(p, old);)tlx",
       R"ir(  %0 = constant {value = 3} : i32
  %1 = cmp %n, %0 {pred = gt} : i1
  %2 = constant {value = 2.0} : f32
  %3 = atomic_rmw %p, %2, %1 {kind = "max", order = "acq_rel", scope = "sys"} : f32
  %4 = constant {value = 0.0} : f32
  %5 = atomic_cas %p, %4, %s {order = "acquire"} : f32
  store %p, %5
  return
)ir"},
      {R"tlx(store(p, load(p, cache = "cg"), eviction = "evict_first");)tlx",
       R"ir(  %0 = load %p {cache = "cg"} : f32
  store %p, %0 {eviction = "evict_first"}
  return
)ir"},
      {R"tlx(device_assert(n < 3, "too many"); device_assert(false);)tlx",
       R"ir(  %0 = constant {value = 3} : i32
  %1 = cmp %n, %0 {pred = lt} : i1
  device_assert %1 {message = "too many"}
  %2 = constant {value = 0} : i1
  device_assert %2 {message = ""}
  return
)ir"},
      {R"tlx(let v = cumsum(load(h + arange(0, 8)), reverse = true); store(h + arange(0, 8), v);)tlx",
       R"ir(  %0 = arange {start = 0} : i32[8]
  %1 = splat %h : *f16[8]
  %2 = addptr %1, %0 : *f16[8]
  %3 = load %2 : f16[8]
  %4 = cast %3 : f32[8]
  %5 = scan %4 {axis = 0, reverse = 1} : f32[8] ^(%6: f32, %7: f32) {
    %8 = add %6, %7 : f32
    yield %8
  }
  %9 = cast %5 : f16[8]
  %10 = arange {start = 0} : i32[8]
  %11 = splat %h : *f16[8]
  %12 = addptr %11, %10 : *f16[8]
  store %12, %9
  return
)ir"},
      {R"tlx(let (a, b) = associative_scan((arange(0, 8), arange(0, 8)), 0, swap2); let c = mulhi(sum(a), max(b, 0)); store(p + c, s);)tlx",
       R"ir(  %0 = arange {start = 0} : i32[8]
  %1 = arange {start = 0} : i32[8]
  %2, %3 = scan %0, %1 {axis = 0} : i32[8], i32[8] ^(%4: i32, %5: i32, %6: i32, %7: i32) {
    %8 = min %4, %6 : i32
    %9 = max %5, %7 : i32
    yield %8, %9
  }
  %10 = reduce %2 {axis = 0} : i32 ^(%11: i32, %12: i32) {
    %13 = add %11, %12 : i32
    yield %13
  }
  %14 = reduce %3 {axis = 0} : i32 ^(%15: i32, %16: i32) {
    %17 = max %15, %16 : i32
    yield %17
  }
  %18 = mulhi %10, %14 : i32
  %19 = addptr %p, %18 : *f32
  store %19, %s
  return
)ir"},
  };
  for (auto [text, ir] : table) {
    Elaborated e(program(text));
    CHECK(e.body() == ir);
  }
}

TEST_CASE("descriptors") {
  Elaborated e("kernel k(a: tensor_desc<f16, [64, 32]>, v: tensor_desc<i32, [8]>, n: i32) {\n"
               "  const_check(bytes_of(a));\n"
               "  let x = a.load([n, 32]);\n"
               "  a.store(offsets = [0, n + 1], value = x);\n"
               "  v.store([n], v.load([-1]), reduce = \"max\");\n"
               "}\n"
               "fn const_check(const x) { static_assert(x == 4096); }\n");
  CHECK(e.body() == R"ir(  %0 = constant {value = 32} : i32
  %1 = desc_load %a, %n, %0 : f16[64, 32]
  %2 = constant {value = 1} : i32
  %3 = add %n, %2 : i32
  %4 = constant {value = 0} : i32
  desc_store %a, %1, %4, %3
  %5 = constant {value = -1} : i32
  %6 = desc_load %v, %5 : i32[8]
  desc_store %v, %6, %n {reduce = "max"}
)ir"
                    "  return\n");
}

TEST_SUITE_END();
