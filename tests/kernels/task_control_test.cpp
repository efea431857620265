// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// async_tasks in loops and branches at run time: the workers are told which one comes next, and what they take from outside is of this
// iteration.
#include "async_testing.h"

using namespace async_testing;

// Two regions in a loop, each with its own numbers of warps, a branch around one of them, and one behind the loop. The loop's number, what it
// carries and what it loads reach the tasks; a buffer goes from task to task and from one region to the next.
TEST_CASE("tasks in a loop, in a branch of it, and behind it") {
  Rng rng(1);
  Array x("i32", 16);
  x.integers(rng, -1000, 1000);
  for (int32_t n : {0, 1, 2, 7}) {
    Array y("i32", 8 * 128 + 128);
    Job job{R"(
kernel k(x: *i32, y: *i32, n: i32) launch(num_warps = 4) {
  let lane = arange(0, 128);
  let buffer = local_alloc([128], i32);
  var sum = 0;
  for i in range(0, n) {
    let v = load(x + i);
    async_tasks {
      async_task(default) { store(y + i * 128 + arange(0, 128), full([128], sum)); }
      async_task(num_warps = 2) { local_store(buffer[0], arange(0, 128) * v + sum); }
    }
    if v % 2 == 0 {
      async_tasks {
        async_task(default) { let nothing = 0; }
        async_task(num_warps = 4) { store(y + i * 128 + arange(0, 128), local_load(buffer[0]) + 1); }
        async_task(num_warps = 1) { let nothing = v; }
      }
    } else {
      store(y + i * 128 + lane, local_load(buffer[0]));
    }
    sum += v;
  }
  async_tasks {
    async_task(default) { let nothing = 0; }
    async_task(num_warps = 4) { store(y + 8 * 128 + arange(0, 128), arange(0, 128) + sum); }
  }
})"};
    std::fill(y.data.begin(), y.data.end(), 0xa5);
    std::vector<uint64_t> want(8 * 128 + 128, 0xa5a5a5a5u);
    int64_t sum = 0;
    for (int32_t i = 0; i < n; ++i) {
      const int64_t v = int64_t(x.integer(size_t(i)));
      for (int64_t l = 0; l < 128; ++l) want[size_t(i * 128 + l)] = uint32_t(l * v + sum + (v % 2 == 0));
      sum += v;
    }
    for (int64_t l = 0; l < 128; ++l) want[size_t(8 * 128 + l)] = uint32_t(l + sum);
    job.in = {&x}, job.out = {&y}, job.scalars = {n}, job.on = withTasks();
    execute(job, [&](const std::string &where) { expectBits(y, want, where, true); });
  }
}

// What a return, a break or a while loop makes of the way to them.
TEST_CASE("tasks behind a return, in a loop that breaks, on one side of a branch") {
  for (int32_t n : {-1, 0, 1, 2, 3, 9}) {
    Array y("i32", 3 * 128);
    Job job{R"(
kernel k(y: *i32, n: i32) launch(num_warps = 2) {
  if n < 0 { return; }
  if n == 0 {
    async_tasks {
      async_task(default) { store(y + arange(0, 128), full([128], 100)); }
      async_task(num_warps = 1) { store(y + 128 + arange(0, 128), full([128], 200)); }
    }
  } else {
    if n > 2 {
      async_tasks {
        async_task(default) { store(y + arange(0, 128), full([128], n)); }
        async_task(num_warps = 8) { store(y + 128 + arange(0, 128), full([128], n + 1)); }
      }
    }
  }
  var (i, left) = (0, n);
  while left > 0 {
    if i == 2 { break; }
    async_tasks {
      async_task(default) { let nothing = i; }
      async_task(num_warps = 4) { store(y + 256 + arange(0, 128), full([128], i * 10 + left)); }
    }
    i += 1;
    left -= 1;
  }
})"};
    std::fill(y.data.begin(), y.data.end(), 0xa5);
    std::vector<uint64_t> want(3 * 128, 0xa5a5a5a5u);
    auto put = [&](size_t part, int32_t v) { std::fill_n(want.begin() + ptrdiff_t(part * 128), 128, uint32_t(v)); };
    if (n == 0) put(0, 100), put(1, 200);
    if (n > 2) put(0, n), put(1, n + 1);
    int32_t left = n;
    for (int32_t i = 0; left > 0 && i < 2; ++i, --left) put(2, i * 10 + left);
    job.out = {&y}, job.scalars = {n}, job.on = withTasks();
    execute(job, [&](const std::string &where) { expectBits(y, want, where, true); });
  }
}

// A product whose loop over tiles is outside: budgets of registers change around each region, phases go on from tile to tile.
TEST_CASE("tasks with registers and mbarriers in a loop over tiles") {
  check({R"(
kernel k(a: tensor_desc<f16, [64, 32]>, b: tensor_desc<f16, [32, 64]>, c: tensor_desc<f32, [64, 64]>) launch(num_warps = 4) {
  let (a_ring, b_ring) = (local_alloc([64, 32], f16, 2), local_alloc([32, 64], f16, 2));
  let (ready, empty) = (alloc_barriers(2), alloc_barriers(2));
  var step = 0; // of all tiles
  for tile in range(program_id(0), 3, num_programs(0)) {
    async_tasks {
      async_task(default, name = "producer") {
        for k in range(0, 5) {
          let (slot, round) = ((step + k) % 2, (step + k) / 2);
          barrier_wait(empty[slot], (round & 1) ^ 1);
          barrier_expect_bytes(ready[slot], bytes_of(a) + bytes_of(b));
          async_descriptor_load(a, a_ring[slot], [tile * 64, k * 32], ready[slot]);
          async_descriptor_load(b, b_ring[slot], [k * 32, 0], ready[slot]);
        }
      }
      async_task(num_warps = 4, registers = 168, name = "consumer") {
        var acc = zeros([64, 64], f32);
        for k in range(0, 5) {
          let (slot, round) = ((step + k) % 2, (step + k) / 2);
          barrier_wait(ready[slot], round & 1);
          acc = async_dot_wait(0, async_dot(a_ring[slot], b_ring[slot], acc));
          barrier_arrive(empty[slot]);
        }
        c.store([tile * 64, 0], acc);
      }
    }
    step += 5;
  }
})",
         {},
         {Matrix("f16", 192, 160), Matrix("f16", 160, 64)},
         Matrix("f32", 192, 64)},
        [](const std::vector<Matrix> &in, int64_t r, int64_t c) {
          double sum = 0;
          for (int64_t k = 0; k < 160; ++k) sum += in[0](r, k) * in[1](k, c);
          return sum;
        });
}
