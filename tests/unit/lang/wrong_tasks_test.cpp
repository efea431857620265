// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Wrong programs about tasks, buffers, barriers and asynchronous units: the one message that each gives, with its place. (What a target refuses
// after the elaborator is in tests/kernels/refusals_test.cpp.)
#include "wrong_testing.h"

using namespace tlx;
using namespace elaboration;

namespace {
/// Statements of a kernel with these names, on line 3.
std::string around(const std::string &statements) {
  return "kernel k(a: tensor_desc<f16, [64, 64]>, p: *f16, n: i32, c: i1) launch(num_warps = 4) {\n"
         "let ring = local_alloc([64, 64], f16, 3); let full = alloc_barriers(3); let one = local_alloc([64, 64], "
         "f16); "
         "let bars = alloc_warp_barrier(2, num_warps = 4); let acc = zeros([64, 64], f32); var v = 1;\n" +
         statements + "\n}\n";
}
/// The same with two tasks, of which the second holds the statements.
std::string inTask(const std::string &statements) {
  return around("async_tasks { async_task(default) { barrier_wait(full[0], 0); } async_task(num_warps = 4) {\n" +
                statements + "\n} }");
}
} // namespace

TEST_SUITE_BEGIN("wrong programs");

// clang-format off
TEST_CASE("headers of tasks") {
  const Wrong table[] = {
    {"async_tasks { async_task(num_warps = 4) { } }", 3, 1, 12, "async_tasks has one default task, and this has 0"},
    {"async_tasks { async_task(default) { } async_task(default) { } }", 3, 1, 12, "async_tasks has one default task, and this has 2"},
    {"async_tasks { async_task(default) { } async_task(name = \"x\") { } }", 3, 39, 61,
     "a task says how many warps it has: num_warps = 4; the default task has those of the launch"},
    {"async_tasks { async_task(default) { } async_task(num_warps = 3) { } }", 3, 62, 63,
     "'num_warps' of a task is a power of two from 1 to 16, not 3"},
    {"async_tasks { async_task(default) { } async_task(num_warps = n) { } }", 3, 62, 63,
     "'num_warps' of a task is a power of two from 1 to 16, not i32"},
    {"async_tasks { async_task(default, num_warps = 4) { } }", 3, 35, 44,
     "the default task has no attribute 'num_warps'; there are registers and name; its warps are those of the launch"},
    {"async_tasks { async_task(default) { } async_task(warps = 4) { } }", 3, 50, 55,
     "async_task has no attribute 'warps'; there are num_warps, registers, replicate, name and warp_group_start_id"},
    {"async_tasks { async_task(default) { } async_task(num_warps = 4, registers = 230) { } }", 3, 77, 80,
     "'registers' of a task is a multiple of 8 from 24 to 240, not 230"},
    {"async_tasks { async_task(default) { } async_task(num_warps = 4, registers = 232) { } async_task(num_warps = 4) { } }", 3, 86, 111,
     "'registers' stands at every task but the default one, or at none: this task has none"},
    {"async_tasks { async_task(default) { } async_task(num_warps = 4, replicate = 9) { } }", 3, 77, 78,
     "'replicate' of a task is an integer from 1 to 8, not 9"},
    {"async_tasks { async_task(default) { } async_task(num_warps = 4, warp_group_start_id = 2) { } }", 3, 39, 89,
     "warps 2 to 5 of this task belong to another one as well"},
    {"async_tasks { async_task(default) { } async_task(num_warps = 4, name = 1) { } }", 3, 72, 73,
     "the name of a task is a string, not an integer literal"},
    {"async_tasks { async_task(default, name = \"x\") { } async_task(num_warps = 4, name = \"x\") { } }", 3, 51, 88,
     "two tasks are named 'x'; reports tell tasks apart by their names"},
    {"async_tasks { async_task(default) { } async_task(num_warps = 4, name = \"default\") { } }", 3, 39, 82,
     "two tasks are named 'default'; reports tell tasks apart by their names"},
    {"async_tasks(exclusive = true) { async_task(default) { } }", 3, 13, 22, "async_tasks takes no 'exclusive'"},
    {"async_tasks { async_task(default) { } if c { async_task(num_warps = 4) { } } }", 3, 42, 43,
     "an 'if' around tasks needs a condition that is known at compile time"},
    {"for i in range(0, n) { async_tasks { async_task(default) { v = v + 1; } } }", 3, 64, 65,
     "tasks assign to 'v', each to a copy of its own: behind async_tasks, and in the next iteration of a loop around it, it has no value"},
    {"while n > 0 { let w = v; for i in range(0, n) { async_tasks { async_task(default) { v = 2; } } } }", 3, 23, 24,
     "tasks assign to 'v', each to a copy of its own: behind async_tasks, and in the next iteration of a loop around it, it has no value"},
    {"for i in range(0, n) { if c { v = 1; } async_tasks { async_task(default) { let w = v; } } async_tasks { async_task(default) { v = i; } } }", 3, 84, 85,
     "tasks assign to 'v', each to a copy of its own: behind async_tasks, and in the next iteration of a loop around it, it has no value"},
    {"for i in range(0, n) { if c { async_tasks { async_task(default) { v = i; } } } } let w = v;", 3, 90, 91,
     "tasks assign to 'v', each to a copy of its own: behind async_tasks, and in the next iteration of a loop around it, it has no value"},
    {"while v < n { async_tasks { async_task(default) { v = 2; } } }", 3, 7, 8,
     "tasks assign to 'v', each to a copy of its own: behind async_tasks, and in the next iteration of a loop around it, it has no value"},
    {"if n > 0 { async_tasks { async_task(default) { v = 2; } } } let w = v;", 3, 69, 70,
     "tasks assign to 'v', each to a copy of its own: behind async_tasks, and in the next iteration of a loop around it, it has no value"},
    {"let i = async_task_replica_id();", 3, 9, 30, "async_task_replica_id has a value inside a task only"},
    {"async_tasks { async_task(default) { v = 2; } } let w = v + 1;", 3, 56, 57,
     "tasks assign to 'v', each to a copy of its own: behind async_tasks, and in the next iteration of a loop around it, it has no value"},
    {"async_tasks { async_task(default) { v = 2; } } v += 1;", 3, 48, 49,
     "tasks assign to 'v', each to a copy of its own: behind async_tasks, and in the next iteration of a loop around it, it has no value"},
  };
  for (const Wrong &wrong : table) check(wrong, around(wrong.text));
}

TEST_CASE("what a task may not take or hold") {
  const Wrong table[] = {
    {"let x = acc + 1.0;", 4, 9, 18,
     "a tile from outside cannot be used in a task: it is in the registers of other warps; compute it in the task, or pass it through a buffer"},
    {"async_tasks { async_task(default) { } }", 4, 1, 12, "async_tasks cannot stand inside a task"},
    {"let b = alloc_barriers(2);", 4, 9, 23,
     "alloc_barriers stands outside of tasks, loops and run-time branches: barriers are initialized once, before anybody uses them"},
    {"return;", 4, 1, 7, "'return' cannot leave a task"},
  };
  for (const Wrong &wrong : table) check(wrong, inTask(wrong.text));
}

TEST_CASE("buffers") {
  const Wrong table[] = {
    {"let r = local_alloc([64, 64], f16, 0);", 3, 36, 37, "the number of buffers is from 1 to 64, not 0"},
    {"let r = local_alloc([64, 64], f16, n);", 3, 36, 37, "the number of buffers of local_alloc is an integer known at compile time, not i32"},
    {"let r = local_alloc([17, 64], f16);", 3, 22, 24, "an extent is p * 2^k with odd p up to 15, and 17 is not"},
    {"let s = ring[3];", 3, 14, 15, "there is no slot 3 in buffer<f16[64, 64], 3, smem>: they go from 0, and it has 3"},
    {"let s = ring[1.0];", 3, 14, 17, "a slot is an i32, not a float literal"},
    {"let s = full[n, n];", 3, 9, 19, "barrier<3> takes one index"},
    {"let t = local_load(ring);", 3, 20, 24, "local_load takes one of buffer<f16[64, 64], 3, smem>: index it, x[slot]"},
    {"let t = local_load(acc);", 3, 20, 23, "local_load takes a buffer of local_alloc, not f32[64, 64]"},
    {"local_store(one, zeros([64, 32], f16));", 3, 18, 38,
     "f16[64, 32] does not fit buffer<f16[64, 64], 1, smem>: a buffer takes a tile of its shape"},
    {"local_store(one, acc);", 3, 18, 21,
     "the value has type f32, and the memory is buffer<f16[64, 64], 1, smem>; convert it with .to(f16)"},
    {"let s = local_slice(one, [0], [32, 64]);", 3, 26, 29, "local_slice of buffer<f16[64, 64], 1, smem> takes 2 offsets and 2 extents"},
    {"let s = local_slice(one, [n, 0], [32, 64]);", 3, 27, 28, "an offset of local_slice is known at compile time; it cannot be i32"},
    {"let s = local_slice(one, [48, 0], [32, 64]);", 3, 27, 29, "the slice from 48 to 80 leaves the 64 elements of dimension 0"},
    {"let s = local_trans(one, [0, 0]);", 3, 26, 32, "a permutation is a list that holds each dimension from 0 to 1 once"},
    {"var b = one;", 3, 9, 12,
     "a variable holds a number or a pointer, and 'b' would be buffer<f16[64, 64], 1, smem>; write 'let'"},
    {"let x = one + 1;", 3, 9, 12, "'+' does not work on buffer<f16[64, 64], 1, smem>"},
  };
  for (const Wrong &wrong : table) check(wrong, around(wrong.text));
}

TEST_CASE("barriers and asynchronous operations") {
  const Wrong table[] = {
    {"let b = alloc_barriers(0);", 3, 24, 25, "the number of barriers is from 1 to 256, not 0"},
    {"let b = alloc_barriers(2, arrive_count = 0);", 3, 42, 43, "arrive_count is from 1 to 1048575, not 0"},
    {"barrier_wait(full, 0);", 3, 14, 18, "barrier_wait takes one of barrier<3>: index it, x[slot]"},
    {"barrier_wait(one, 0);", 3, 14, 17, "barrier_wait takes a barrier of alloc_barriers, not buffer<f16[64, 64], 1, smem>"},
    {"barrier_wait(full[0], 2);", 3, 23, 24, "a phase is 0 or 1, an i32, not 2"},
    {"barrier_wait(full[0], c);", 3, 23, 24, "a phase is 0 or 1, an i32, not i1"},
    {"barrier_arrive(full[0], pred = n);", 3, 32, 33, "'pred' needs a scalar i1, not i32"},
    {"barrier_expect_bytes(full[0], 0);", 3, 31, 32, "the number of bytes is from 1 to 1048575, not 0"},
    {"barrier_expect_bytes(full[0], n);", 3, 31, 32, "the number of bytes of barrier_expect_bytes is an integer known at compile time, not i32"},
    {"barrier_expect_bytes(bars[0], 64);", 3, 22, 29,
     "barrier_expect_bytes makes one arrival, and at a barrier of alloc_warp_barrier each warp arrives; use alloc_barriers"},
    {"named_barrier_wait(16, 128);", 3, 20, 22, "named barriers are 0 to 15, and there is no 16"},
    {"named_barrier_wait(9, 100);", 3, 23, 26, "the threads at a named barrier are a multiple of 32 up to 1024, not 100"},
    {"async_descriptor_load(p, one, [0, 0], full[0]);", 3, 23, 24, "async_descriptor_load takes a tensor descriptor, not *f16"},
    {"async_descriptor_load(a, local_slice(one, [0, 0], [32, 64]), [0, 0], full[0]);", 3, 26, 60,
     "buffer<f16[32, 64], 1, smem> does not hold a block of tensor_desc<f16, [64, 64]>: the element type must be the same, and the shape but for extents of 1"},
    {"async_descriptor_load(a, one, [0], full[0]);", 3, 31, 34, "a block of tensor_desc<f16, [64, 64]> has 2 offsets, and this is 1"},
    {"async_descriptor_store_wait(n);", 3, 29, 30, "the number of stores of async_descriptor_store_wait is an integer known at compile time, not i32"},
    {"let x = async_dot(one, local_slice(one, [0, 0], [32, 64]), acc);", 3, 9, 64,
     "dot needs A[M, K] and B[K, N], and has [64, 64] and [32, 64]: K is 64 on the left and 32 on the right"},
    {"let x = async_dot(one, acc, acc);", 3, 24, 27, "async_dot takes a buffer of local_alloc, not f32[64, 64]"},
    {"let x = async_dot(one, one, zeros([64, 64], f16));", 3, 29, 49, "the accumulator is f16[64, 64], and this dot needs f32[64, 64]"},
    {"let x = async_dot(one, one, use_acc = c);", 3, 39, 40,
     "use_acc chooses whether an accumulator is added, and there is none: pass acc"},
    {"let x = async_dot_wait(9, acc);", 3, 24, 25, "the number of products that may be in flight is from 0 to 7, not 9"},
    {"let x = warp_any(acc);", 3, 18, 21, "warp_any takes a tile of i1, like a comparison of tiles, not f32[64, 64]"},
    {"let x = warp_any(c);", 3, 18, 19, "warp_any needs a tile, not i1"},
    {"async_load_wait_group(0);", 3, 1, 22, "'async_load_wait_group' is not supported by this version; write async_load_wait(n)"},
  };
  for (const Wrong &wrong : table) check(wrong, around(wrong.text));
}
// clang-format on
TEST_SUITE_END();
