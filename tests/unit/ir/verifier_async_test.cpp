// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The rules of descriptors, mbarriers, single regions and asynchronous units: what each accepts and what it says.
#include "testing.h"

using namespace tlx;
using namespace tlx::ir;
using namespace tlx::ir::testing;

namespace {

const char *kArgs = "%d: tensor_desc<f16, [64, 32]>, %e: tensor_desc<i32, [8]>, %p: *f16, %n: i32, %c: i1, %l: i64";
const char *kPrefix = "  %t = constant {value = 1.0} : f16[64, 32]\n"
                      "  %acc = constant {value = 0.0} : f32[64, 8]\n"
                      "  %r = local_alloc : buffer<f16[64, 32], 2, smem>\n"
                      "  %a = local_alloc : buffer<f16[64, 32], 1, smem>\n"
                      "  %b = local_alloc : buffer<f16[32, 8], 1, smem>\n"
                      "  %bars = alloc_barriers {arrivals = 1} : barrier<2>\n"
                      "  %bar = subview %bars, %n : barrier<1>\n";

struct Case {
  const char *ops;
  const char *rule; // null: valid
};

const Case kCases[] = {
    {"%0 = desc_load %d, %n, %n : f16[64, 32]", nullptr},
    {"%0 = desc_load %p, %n : f16[64, 32]", "the first operand is a tensor descriptor"},
    {"%0 = desc_load %d, %n : f16[64, 32]", "an index for each dimension"},
    {"%0 = desc_load %d, %n, %n, %n : f16[64, 32]", "an index for each dimension"},
    {"%0 = desc_load %d, %n, %l : f16[64, 32]", "an index is an i32, not i64"},
    {"%0 = desc_load %d, %n, %n : f16[32, 64]", "has the shape and the element type of the descriptor's block"},
    {"%0 = desc_load %d, %n, %n : f32[64, 32]", "has the shape and the element type of the descriptor's block"},
    {"%0 = desc_load %d, %n, %n : f16", "the block is a tile"},
    {"desc_store %d, %t, %n, %n", nullptr},
    {"desc_store %d, %t, %n, %n {reduce = \"add\"}", nullptr},
    {"desc_store %d, %t, %n, %n {reduce = \"inc\"}", "one of: add min max and or xor"},
    {"desc_store %d, %t, %n, %n {reduce = \"and\"}", "combines the bits of integers, not of floats"},
    {"desc_store %d, %acc, %n, %n", "has the shape and the element type of the descriptor's block"},
    {"desc_store %d, %t, %n", "an index for each dimension"},
    // single regions
    {"single ^() {\n barrier_expect %bar {bytes = 4096}\n async_desc_load %d, %a, %bar, %n, %n\n yield\n }", nullptr},
    {"single %c ^() {\n barrier_arrive %bar\n yield\n }", nullptr},
    {"single %n ^() {\n yield\n }", "the predicate is an i1"},
    {"single ^() {\n yield %n\n }", "the region takes and yields nothing"},
    {"single ^() {\n if %c ^() {\n single ^() {\n yield\n }\n yield\n } ^() {\n yield\n }\n yield\n }",
     "stands inside another single region"},
    {"single ^() {\n barrier\n yield\n }", "'barrier': stands in a single region, and needs the other threads"},
    {"single ^() {\n local_store %a, %t\n yield\n }",
     "'local_store': stands in a single region, whose thread has a part"},
    {"single ^() {\n %0 = alloc_barriers {arrivals = 1} : barrier<1>\n yield\n }", "needs the other threads"},
    // barriers
    {"%0 = alloc_barriers {arrivals = 1048575, offset = 8} : barrier<1>", nullptr},
    {"%0 = alloc_barriers : barrier<1>", "'arrivals', an integer from 1 to 1048575"},
    {"%0 = alloc_barriers {arrivals = 0} : barrier<1>", "from 1 to 1048575"},
    {"%0 = alloc_barriers {arrivals = 1048576} : barrier<1>", "from 1 to 1048575"},
    {"%0 = alloc_barriers {arrivals = 1} : buffer<f16[8], 1, smem>", "the result is barriers"},
    {"%0 = alloc_barriers {arrivals = 1, offset = 4} : barrier<1>", "no multiple of 8"},
    {"%0 = subview %bars, %l : barrier<1>", "the slot is an i32"},
    {"%0 = subview %bars, %n : barrier<2>", "the result is one barrier"},
    {"%0 = subview %n, %n : barrier<1>", "the first operand is a buffer"},
    {"barrier_expect %bar {bytes = 16}", "it stands in a single region"},
    {"single ^() {\n barrier_expect %bar\n yield\n }", "'bytes', an integer from 1 to 1048575"},
    {"single ^() {\n barrier_expect %bar {bytes = 1048576}\n yield\n }", "from 1 to 1048575"},
    {"single ^() {\n barrier_expect %bars {bytes = 16}\n yield\n }", "takes one barrier"},
    {"barrier_arrive %bar, %c", nullptr},
    {"barrier_arrive %bars", "takes one barrier"},
    {"barrier_arrive %bar, %n", "the predicate is an i1"},
    {"barrier_wait %bar, %n", nullptr},
    {"barrier_wait %bar, %c", "the phase is an i32"},
    {"barrier_wait %a, %n", "takes one barrier"},
    // TMA
    {"async_desc_load %d, %a, %bar, %n, %n", "it stands in a single region"},
    {"single ^() {\n async_desc_load %d, %r, %bar, %n, %n\n yield\n }", "a buffer of depth 1 in shared memory"},
    {"single ^() {\n async_desc_load %d, %b, %bar, %n, %n\n yield\n }", "has the shape and the element type"},
    {"single ^() {\n async_desc_load %d, %a, %bars, %n, %n\n yield\n }", "takes one barrier"},
    {"single ^() {\n async_desc_load %d, %a, %bar, %n\n yield\n }", "an index for each dimension"},
    {"single ^() {\n async_desc_store %d, %a, %n, %n {reduce = \"max\"}\n yield\n }", nullptr},
    {"async_desc_store %d, %a, %n, %n", "it stands in a single region"},
    {"single ^() {\n async_desc_store %d, %b, %n, %n\n yield\n }",
     "the block, or columns of it, is a buffer of depth 1"},
    {"async_store_commit", "it stands in a single region"},
    {"async_store_wait {pending = 0}", "it stands in a single region"},
    {"single ^() {\n async_store_wait\n yield\n }", "'pending'"},
    {"single ^() {\n async_store_wait {pending = 0, reads = 2}\n yield\n }", "'reads', an integer from 0 to 1"},
    {"fence_proxy_async", nullptr},
    {"fence_proxy_async %n", "has 1 operand, not 0"},
    // wgmma
    {"%0 = async_dot %a, %b, %acc, %c : f32[64, 8]\n %1 = async_dot_wait %0 {pending = 0} : f32[64, 8]", nullptr},
    {"%0 = async_dot %t, %b, %acc : f32[64, 8]", nullptr},
    {"%0 = async_dot %r, %b, %acc : f32[64, 8]", "a is a buffer of depth 1 in shared memory or a tile"},
    {"%0 = async_dot %a, %t, %acc : f32[64, 8]", "b is a buffer of depth 1 in shared memory"},
    {"%0 = async_dot %a, %a, %acc : f32[64, 8]", "shapes are [M, K], [K, N] and [M, N]"},
    {"%0 = async_dot %a, %b, %acc, %n : f32[64, 8]", "use_acc is an i1"},
    {"%0 = async_dot %a, %b, %acc : f32[8, 64]", "the result has the type of the accumulator"},
    {"%0 = async_dot %a, %b, %b : f32[64, 8]", "the accumulator is a tile of rank 2"},
    {"%0 = uninit : f16[64, 8]\n %1 = async_dot %a, %b, %0 : f16[64, 8]", "accumulates in f32, not in f16"},
    {"%x = local_alloc : buffer<i8[64, 32], 1, smem>\n %0 = async_dot %x, %b, %acc : f32[64, 8]",
     "a and b have one element type"},
    {"%x = local_alloc : buffer<i8[64, 32], 1, smem>\n %y = local_alloc : buffer<u8[32, 8], 1, smem>\n"
     "%z = uninit : i32[64, 8]\n %0 = async_dot %x, %y, %z : i32[64, 8]",
     nullptr},
    {"%x = local_alloc : buffer<f64[64, 32], 1, smem>\n %0 = async_dot %x, %x, %acc : f32[64, 8]", "shapes are"},
    {"%x = local_alloc : buffer<f64[64, 64], 1, smem>\n %z = uninit : f64[64, 64]\n %0 = async_dot %x, %x, %z : "
     "f64[64, 64]",
     "multiplies f16, bf16, f32, fp8, i8 and u8, not f64"},
    {"async_dot_wait {pending = 1}", nullptr},
    {"async_dot_wait", "'pending'"},
    {"%0 = async_dot_wait %acc {pending = 0} : f32[8, 64]", "the results are tiles of the operands' types"},
    {"async_dot_wait %acc {pending = 0}", "the results are tiles of the operands' types"},
    {"%0 = uninit : f16", "is a tile of numbers"},
    {"%0 = uninit : *f16[8]", "is a tile of numbers"},
};

} // namespace

TEST_CASE("descriptors, barriers and asynchronous units") {
  for (const Case &c : kCases) {
    CAPTURE(c.ops);
    Parsed p(kernel(std::string(kPrefix) + c.ops, kArgs));
    REQUIRE_MESSAGE(p.module, p.messages());
    verify(*p.module, p.diagnostics);
    if (!c.rule)
      CHECK(p.messages().empty());
    else
      CHECK_MESSAGE(p.messages().find(c.rule) != std::string::npos, p.messages());
  }
}

TEST_CASE("barriers lie inside the planned memory") {
  for (int bytes : {24, 23}) {
    Parsed p("kernel @k() target = \"sm_90a\" warps = 4 warp_size = 32 shared_bytes = " + std::to_string(bytes) +
             " properties = [planned_memory]\n{\n  %0 = alloc_barriers {offset = 8, arrivals = 1} : barrier<2>\n  "
             "return\n}\n");
    REQUIRE_MESSAGE(p.module, p.messages());
    CHECK(verify(*p.module, p.diagnostics) == (bytes == 24));
    if (bytes == 23) CHECK(p.messages().find("ends at byte 24 of 23") != std::string::npos);
  }
}

TEST_CASE("a lowered descriptor names its arguments") {
  auto text = [](const char *args, const char *type, int first) {
    return std::string("kernel @k(") + args +
           ") target = \"sm_80\" warps = 4 warp_size = 32 shared_bytes = 0 properties = []\n  descriptor \"a b\" at " +
           std::to_string(first) + " : " + type + "\n{\n  return\n}\n";
  };
  const char *good = "%n: i32, %a: *f16, %0: i64, %1: i32, %2: i32";
  Parsed p(text(good, "tensor_desc<f16, [64, 32]>", 1));
  REQUIRE_MESSAGE(p.module, p.messages());
  CHECK(verify(*p.module, p.diagnostics));
  CHECK(print(*p.module) == text(good, "tensor_desc<f16, [64, 32]>", 1));
  for (const auto &[type, first] :
       {std::pair("tensor_desc<f16, [64, 32]>", 0), std::pair("tensor_desc<f16, [64, 32]>", 2),
        std::pair("tensor_desc<f32, [64, 32]>", 1), std::pair("tensor_desc<f16, [64]>", 1), std::pair("f16", 1)}) {
    Parsed wrong(text(good, type, first));
    REQUIRE_MESSAGE(wrong.module, wrong.messages());
    CHECK(!verify(*wrong.module, wrong.diagnostics));
    CHECK(wrong.messages().find("the descriptor 'a b' names arguments") != std::string::npos);
  }
}
