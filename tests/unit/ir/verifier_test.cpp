// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Each rule of the verifier: what it accepts and what it says when it refuses.
#include "testing.h"

using namespace tlx;
using namespace tlx::ir;
using namespace tlx::ir::testing;

namespace {

const char *kArgs = "%x: *f32, %h: *f16, %n: i32, %f: f32, %c: i1, %l: i64";
/// Values that the cases use.
const char *kPrefix = "  %t = splat %f : f32[8]\n"
                      "  %u = splat %n : i32[8]\n"
                      "  %v = splat %x : *f32[8]\n"
                      "  %m = splat %c : i1[8]\n"
                      "  %q = splat %f : f32[4, 8]\n"
                      "  %b = local_alloc : buffer<f32[4, 8], 2, smem>\n"
                      "  %s = subview %b, %n : buffer<f32[4, 8], 1, smem>\n";

std::string messages(const std::string &text) {
  Parsed p(text);
  REQUIRE_MESSAGE(p.module, p.messages());
  verify(*p.module, p.diagnostics);
  return p.messages();
}

struct Case {
  const char *ops;
  const char *rule; // null: valid
};

const Case kCases[] = {
    // counts and structure
    {"%0 = neg : f32", "'neg': has 0 operands, not 1"},
    {"%0 = load %x, %c, %f, %f : f32", "'load': has 4 operands, not 1 to 3"},
    {"%0 = for %n : i32 ^(%i: i32) {\n yield\n }", "'for': has 1 operand, not at least 3"},
    {"barrier ^() {\n yield\n }", "'barrier': has 1 region, not 0"},
    {"%0 = barrier : i32", "'barrier': has 1 result, not 0"},
    {"if %c ^() {\n %0 = neg %f : f32\n yield\n } ^() {\n %1 = neg %0 : f32\n yield\n }",
     "'neg': an operand is not defined"},
    {"if %c ^() {\n barrier\n } ^() {\n yield\n }", "'if': a region does not end with 'yield'"},
    {"if %c ^() {\n } ^() {\n yield\n }", "'if': a region does not end with 'yield'"},
    {"if %c ^() {\n yield\n yield\n } ^() {\n yield\n }", "'yield': stands in the middle"},
    {"return", "'return': stands in the middle"},
    {"%0 = splat %n : i32[17]", "'splat': a tile's extent 17 is not p * 2^k"},
    {"%0 = splat %n : i32[15]", nullptr},
    // values
    {"%0 = constant {value = 1} : i32", nullptr},
    {"%0 = constant {value = 1.0} : f16[4]", nullptr},
    {"%0 = constant : i32", "needs the attribute 'value'"},
    {"%0 = constant {value = 1.0} : i32", "the value of an integer type is an integer"},
    {"%0 = constant {value = 1} : f32", "the value of a float type is a float"},
    {"%0 = constant {value = 256} : u8", "does not fit"},
    {"%0 = constant {value = -1} : u32", "does not fit"},
    {"%0 = constant {value = -1} : u64", nullptr},
    {"%0 = constant {value = 2} : i1", "does not fit"},
    {"%0 = constant {value = 0} : *f32", "is a number"},
    {"%0 = program_id {axis = 2} : i32", nullptr},
    {"%0 = program_id {axis = 3} : i32", "an integer from 0 to 2"},
    {"%0 = num_programs {axis = 0} : i64", "the result is an i32"},
    {"%0 = arange {start = -4} : i32[8]", nullptr},
    {"%0 = arange {start = 2147483647} : i32[8]", "needs the attribute 'start'"},
    {"%0 = arange {start = 0} : i32[4, 2]", "a tile of i32 with one dimension"},
    {"%0 = splat %f : i32[8]", "the operand is one element"},
    {"%0 = splat %t : f32[8]", "the operand is one element"},
    // shapes
    {"%0 = expand_dims %t {axis = 1} : f32[8, 1]", nullptr},
    {"%0 = expand_dims %t {axis = 0} : f32[8, 1]", "a dimension of 1 at 'axis'"},
    {"%0 = expand_dims %t {axis = 2} : f32[8, 1]", "from 0 to 1"},
    {"%0 = expand_dims %t {axis = 1} : i32[8, 1]", "one element type"},
    {"%0 = expand_dims %f {axis = 0} : f32[1]", "the operand is a tile"},
    {"%0 = expand_dims %t {axis = 0} : f32[1, 8]\n %1 = broadcast %0 : f32[4, 8]", nullptr},
    {"%0 = broadcast %t : f32[16]", "only dimensions of extent 1 grow"},
    {"%0 = reshape %q : f32[32]", nullptr},
    {"%0 = reshape %q : f32[16]", "keeps the number of elements"},
    {"%0 = trans %q {perm = [1, 0]} : f32[8, 4]", nullptr},
    {"%0 = trans %q {perm = [1, 1]} : f32[8, 4]", "no permutation"},
    {"%0 = trans %q {perm = [1]} : f32[8, 4]", "an entry for each dimension"},
    {"%0 = trans %q {perm = [1, 0]} : f32[4, 8]", "dimension perm[i]"},
    {"%0 = join %t, %t : f32[8, 2]\n %1, %2 = split %0 : f32[8], f32[8]", nullptr},
    {"%0 = join %t, %u : f32[8, 2]", "the operands have one type"},
    {"%0 = join %t, %t : f32[2, 8]", "a last dimension of 2"},
    {"%0, %1 = split %q : f32[4], f32[4]", "a last dimension of 2"},
    {"%0 = require_layout %t {layout = \"linear()\"} : f32[8]", nullptr},
    {"%0 = require_layout %t : f32[8]", "needs the attribute 'layout'"},
    {"%0 = convert_layout %t : f32[4]", "one shape"},
    // arithmetic
    {"%0 = add %t, %t : f32[8]", nullptr},
    {"%0 = add %t, %u : f32[8]", "i32[8] and f32[8] differ"},
    {"%0 = add %t, %f : f32[8]", "operands and result have one type; f32 and f32[8] differ"},
    {"%0 = add %x, %x : *f32", "works on numbers, not on *f32"},
    {"%0 = div_floor %f, %f : f32", "works on integers"},
    {"%0 = div %n, %n : i32", "works on floats"},
    {"%0 = exp %n : i32", "works on floats"},
    {"%0 = fma %f, %f, %f : f32", nullptr},
    {"%0 = and %c, %c : i1", nullptr},
    {"%0 = cmp %t, %t {pred = lt} : i1[8]", nullptr},
    {"%0 = cmp %x, %x {pred = eq} : i1", nullptr},
    {"%0 = cmp %t, %t {pred = lt} : i1", "an i1 in the shape"},
    {"%0 = cmp %t, %t {pred = 6} : i1[8]", "'pred'"},
    {"%0 = cmp %t, %t : i1[8]", "'pred'"},
    {"%0 = cmp %t, %f {pred = lt} : i1[8]", "one type"},
    {"%0 = select %m, %t, %t : f32[8]", nullptr},
    {"%0 = select %c, %t, %t : f32[8]", nullptr},
    {"%0 = select %c, %x, %x : *f32", nullptr},
    {"%0 = select %m, %f, %f : f32", "the condition is an i1"},
    {"%0 = select %c, %t, %f : f32[8]", "the alternatives"},
    {"%0 = cast %t {rounding = \"rtz\"} : f16[8]", nullptr},
    {"%0 = cast %t {rounding = \"up\"} : f16[8]", "one of: rtne rtz"},
    {"%0 = cast %t : f16[4]", "one shape"},
    {"%0 = cast %x : i64", "converts numbers"},
    {"%0 = bitcast %t : i32[8]", nullptr},
    {"%0 = bitcast %x : i64", nullptr},
    {"%0 = bitcast %t : i64[8]", "one width"},
    // facts
    {"assume %c", nullptr},
    {"assume %n", "the operand is an i1"},
    {"%0 = multiple_of %n {values = [16]} : i32", nullptr},
    {"%0 = multiple_of %x {values = [16]} : *f32", nullptr},
    {"%0 = multiple_of %n {values = [0]} : i32", "one positive number"},
    {"%0 = multiple_of %f {values = [4]} : f32", "works on integers and pointers"},
    // memory
    {"%0 = addptr %v, %u : *f32[8]\n %1 = load %0, %m, %t {vec = 4} : f32[8]\n store %0, %1, %m", nullptr},
    {"%0 = addptr %x, %l : *f32\n %1 = load %0 : f32", nullptr},
    {"%0 = addptr %x, %u : *f32", "one shape"},
    {"%0 = addptr %v, %t : *f32[8]", "the offset is an integer"},
    {"%0 = addptr %u, %u : i32[8]", "a pointer or a tile of pointers"},
    {"%0 = load %v : f16[8]", "the value is f16[8], the pointer to f32[8]"},
    {"%0 = load %v, %c : f32[8]", "the mask is i1[8], not i1"},
    {"%0 = load %v, %m, %f : f32[8]", "'other' has the type of the result"},
    {"%0 = load %v {vec = 32} : f32[8]", "from 1 to 16"},
    {"store %v, %u", "the value is i32[8]"},
    {"%0 = atomic_rmw %v, %t, %m {kind = \"add\"} : f32[8]", nullptr},
    {"%0 = atomic_rmw %v, %t {kind = \"add\"} : f32", "the result has the type of the value"},
    {"%0 = atomic_rmw %v, %t : f32[8]", "needs the attribute 'kind'"},
    {"%0 = atomic_rmw %v, %t {kind = \"nand\"} : f32[8]", "one of: add min max and or xor xchg"},
    {"%0 = atomic_rmw %v, %t {kind = \"xor\"} : f32[8]", "combines the bits of integers, not of f32[8]"},
    {"%0 = atomic_rmw %v, %t {kind = \"max\", order = \"seq_cst\"} : f32[8]",
     "one of: relaxed acquire release acq_rel"},
    {"%0 = atomic_rmw %v, %t {kind = \"max\", scope = \"warp\"} : f32[8]", "one of: cta gpu sys"},
    {"%0 = atomic_cas %v, %t, %t, %m {order = \"release\"} : f32[8]", nullptr},
    {"%0 = atomic_cas %v, %t, %u : f32[8]", "the value has the type of what is expected"},
    {"%0 = load %v {cache = \"cg\", eviction = \"evict_last\"} : f32[8]", nullptr},
    {"%0 = load %v {cache = \"wt\"} : f32[8]", "one of: ca cg cv"},
    {"store %v, %t {cache = \"ca\"}", "one of: wb cg cs wt"},
    {"%0 = mulhi %n, %n : i32", nullptr},
    {"%0 = mulhi %f, %f : f32", "works on integers"},
    {"%0 = cast %n : i16\n %1 = mulhi %0, %0 : i16", "works on integers of 32 and 64 bits"},
    {"%0 = scan %t {axis = 0} : f32[8] ^(%a: f32, %d: f32) {\n yield %d\n }", nullptr},
    {"%0 = scan %t {axis = 0} : f32 ^(%a: f32, %d: f32) {\n yield %d\n }", "results have the types of the operands"},
    {"%0 = scan %t {axis = 1} : f32[8] ^(%a: f32, %d: f32) {\n yield %d\n }", "'axis'"},
    {"device_assert %m {message = \"x\"}", nullptr},
    {"device_assert %c", "needs the attribute 'message'"},
    {"device_assert %n {message = \"x\"}", "the operand is an i1"},
    // buffers
    {"%0 = local_load %s : f32[4, 8]\n local_store %s, %0", nullptr},
    {"%0 = local_load %b : f32[4, 8]", "the buffer has depth 1"},
    {"%0 = local_load %s : f32[8]", "one shape and element type"},
    {"local_store %t, %t", "the first operand is a buffer"},
    {"%0 = local_alloc : f32[8]", "the result is a buffer"},
    {"%0 = local_alloc {offset = -1} : buffer<f32[8], 1, smem>", "'offset'"},
    {"%0 = subview %b, %l : buffer<f32[4, 8], 1, smem>", "the slot is an i32"},
    {"%0 = subview %b, %n : buffer<f32[4, 8], 2, smem>", "with depth 1"},
    {"%0 = local_trans %s {perm = [1, 0]} : buffer<f32[8, 4], 1, smem>", nullptr},
    {"%0 = local_trans %s {perm = [1, 0]} : buffer<f32[4, 8], 1, smem>", "dimension perm[i]"},
    {"%0 = splat %x : *f32[4, 8]\n async_copy %s, %0 {vec = 4}\n async_commit\n async_wait {pending = 0}", nullptr},
    {"async_copy %s, %v", "one shape and element type"},
    {"async_copy %s, %x", "a tile of pointers"},
    {"async_wait", "'pending'"},
    // matrices and reductions
    {"%0 = splat %f : f32[8, 16]\n %1 = splat %f : f32[4, 16]\n %2 = dot %q, %0, %1 {precision = \"ieee\"} : f32[4, "
     "16]",
     nullptr},
    {"%0 = splat %f : f32[8, 16]\n %1 = splat %f : f32[4, 16]\n %2 = dot %q, %0, %1 {precision = \"best\"} : f32[4, "
     "16]",
     "one of: tf32"},
    {"%0 = dot %q, %q, %q : f32[4, 8]", "shapes are [M, K], [K, N] and [M, N]"},
    {"%0 = dot %t, %t, %t : f32[8]", "rank 2"},
    {"%0 = reduce %q {axis = 1} : f32[4] ^(%1: f32, %2: f32) {\n %3 = add %1, %2 : f32\n yield %3\n }", nullptr},
    {"%0 = reduce %q {axis = 1, partial = 1} : f32[4, 2] ^(%1: f32, %2: f32) {\n %3 = add %1, %2 : f32\n yield %3\n }",
     nullptr},
    {"%0 = reduce %t {axis = 0} : f32 ^(%1: f32, %2: f32) {\n yield %1\n }", nullptr},
    {"%0 = reduce %t {axis = 1} : f32 ^(%1: f32, %2: f32) {\n yield %1\n }", "'axis'"},
    {"%0 = reduce %t {axis = 0} : f32 ^(%1: f32) {\n yield %1\n }", "two arguments for each operand"},
    {"%0 = reduce %t {axis = 0} : f32 ^(%1: f32, %2: f32) {\n yield\n }", "yields a value for each operand"},
    {"%0 = reduce %t {axis = 0} : f32 ^(%1: f32, %2: f32) {\n yield %n\n }", "element types of the operands"},
    {"%0 = reduce %q {axis = 0} : f32[4] ^(%1: f32, %2: f32) {\n yield %1\n }", "without the axis"},
    {"%0 = reduce %t {axis = 0} : f32 ^(%1: f32, %2: f32) {\n %3 = load %x : f32\n yield %1\n }", "touches no memory"},
    // control
    {"%0 = for %n, %n, %n, %f {num_stages = 3} : f32 ^(%i: i32, %a: f32) {\n yield %a\n }", nullptr},
    {"for %n, %l, %n ^(%i: i32) {\n yield\n }", "integers of one type"},
    {"for %n, %n, %n ^(%i: i64) {\n yield\n }", "the type of the bounds"},
    {"%0 = for %n, %n, %n : f32 ^(%i: i32) {\n yield\n }", "initial values"},
    {"%0 = for %n, %n, %n, %f : f32 ^(%i: i32) {\n yield %f\n }", "the region's arguments"},
    {"%0 = for %n, %n, %n, %f : f32 ^(%i: i32, %a: f32) {\n yield %n\n }", "yielded values"},
    {"%0 = for %n, %n, %n, %f {num_stages = -1} : f32 ^(%i: i32, %a: f32) {\n yield %a\n }", "'num_stages'"},
    {"%0 = while %f : f32 ^(%a: f32) {\n condition %c, %a\n } ^(%d: f32) {\n yield %d\n }", nullptr},
    {"%0 = while %f : f32 ^(%a: f32) {\n condition %c\n } ^(%d: f32) {\n yield %d\n }", "values of the condition"},
    {"%0 = while %f : f32 ^(%a: f32) {\n condition %a, %a\n } ^(%d: f32) {\n yield %d\n }",
     "the first operand is an i1"},
    {"%0 = while %f : f32 ^(%a: f32) {\n yield %a\n } ^(%d: f32) {\n yield %d\n }", "does not end with 'condition'"},
    {"%0 = if %c : f32 ^() {\n yield %f\n } ^() {\n yield %f\n }", nullptr},
    {"%0 = if %n : f32 ^() {\n yield %f\n } ^() {\n yield %f\n }", "the condition is an i1"},
    {"%0 = if %c : f32 ^() {\n yield %f\n } ^() {\n yield\n }", "yielded values"},
    {"if %c ^(%0: i32) {\n yield\n } ^() {\n yield\n }", "the regions have no arguments"},
    {"device_print %t {format = \"%f\"}", nullptr},
    {"device_print %t", "needs the attribute 'format'"},
    {"device_print %b {format = \"%d\"}", "prints numbers"},
};

} // namespace

TEST_CASE("rules of operations") {
  for (const Case &c : kCases) {
    CAPTURE(std::string(c.ops));
    const std::string found = messages(kernel(std::string(kPrefix) + c.ops, kArgs));
    if (!c.rule)
      CHECK(found == "");
    else
      CHECK_MESSAGE(found.find(c.rule) != std::string::npos, found);
  }
}

TEST_CASE("a breach is reported at the op") {
  Parsed p(kernel("  %0 = neg %n : i32\n  %1 = exp %0 : i32", "%n: i32"));
  REQUIRE(p.module);
  CHECK(!verify(*p.module, p.diagnostics));
  REQUIRE(p.diagnostics.all().size() == 1);
  CHECK(p.diagnostics.all()[0].id == Diag::IrInvalid);
  CHECK(p.diagnostics.all()[0].loc == Loc{1, 4, 8, 11});
}

TEST_CASE("rules of the kernel") {
  auto check = [](const char *text, const char *rule) {
    const std::string found = messages(text);
    CHECK_MESSAGE(found.find(rule) != std::string::npos, found);
  };
  check("kernel @k() target = \"\" warps = 3 warp_size = 32 shared_bytes = 0 properties = []\n{\n return\n}",
        "power of two");
  check("kernel @k() target = \"\" warps = 4 warp_size = 31 shared_bytes = 0 properties = []\n{\n return\n}",
        "neither 32 nor 64");
  check("kernel @k(%t: f32[4]) target = \"\" warps = 4 warp_size = 32 shared_bytes = 0 properties = []\n{\n return\n}",
        "argument 0 is a tile");
  check("kernel @k() target = \"\" warps = 4 warp_size = 32 shared_bytes = 0 properties = []\n fact \"n\" [arg 0]\n{\n "
        "return\n}",
        "names argument 0");
  check("kernel @k() target = \"\" warps = 4 warp_size = 32 shared_bytes = 0 properties = []\n{\n}",
        "does not end with 'return'");
}

TEST_CASE("properties") {
  CHECK(messages(kernel("%0 = constant {value = 1} : i32[8]", "", "layouts")).find("a tile has no layout") !=
        std::string::npos);
  auto planned = [](const char *attrs) {
    return messages(
        "kernel @k() target = \"\" warps = 4 warp_size = 32 shared_bytes = 256 properties = [planned_memory]\n{\n %0 = "
        "local_alloc " +
        std::string(attrs) + " : buffer<f16[4, 8], 2, smem>\n return\n}");
  };
  CHECK(planned("{offset = 128}") == "");
  CHECK(planned("{offset = 144}").find("ends at byte 272 of 256") != std::string::npos);
  CHECK(planned("{offset = 8}").find("no multiple of 16") != std::string::npos);
  CHECK(planned("").find("'offset'") != std::string::npos);
}
