// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// async_tasks in loops and branches at run time: the workers are told which one comes next, and what they take from outside is of this
// iteration.
#include <bit>

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

// Loads and stores of descriptors: whose phases go on from one time to the next, and whose stores what follows sees.
TEST_CASE("tasks that load and store by descriptors in a loop") {
  for (const char *copies : {"1", "2"}) {
    check({replace(R"(
kernel k(d: tensor_desc<f32, [32, 32]>, e: tensor_desc<f32, [32, 32]>, c: tensor_desc<f32, [32, 32]>, n: i32) launch(num_warps = 2) {
  for i in range(0, n) {
    async_tasks {
      async_task(default) { let q = d.load([i * 32, 0]); if i % 2 == 0 { e.store([0, 0], q + d.load([0, 0])); } }
      async_task(num_warps = 1, replicate = $R) {
        for j in range(0, i) { let x = d.load([j * 32, 0]); }
        e.store([32 + async_task_replica_id() * 32, 0], d.load([i * 32, 0]) * 2.0);
      }
    }
    if i % 2 == 1 {
      async_tasks {
        async_task(default) { let q = 0; }
        async_task(num_warps = 4) { e.store([0, 0], d.load([i * 32, 0]) + 1.0); }
      }
    }
    c.store([i * 64, 0], e.load([0, 0]));
    c.store([i * 64 + 32, 0], e.load([$R * 32, 0]));
  }
})",
                   {{"R", copies}}),
           {},
           {Matrix("f32", 128, 32), Matrix("f32", 96, 32)},
           Matrix("f32", 256, 32),
           {int32_t(4)}},
          [](const std::vector<Matrix> &in, int64_t r, int64_t c) {
            const int64_t i = r / 64, row = r % 32;
            const double own = in[0](i * 32 + row, c);
            return r % 64 >= 32 ? own * 2 : i % 2 ? own + 1 : own + in[0](row, c);
          });
  }
}

// The lanes of a task of one warp wait one by one; the one that arrives for all of them may not run ahead.
TEST_CASE("tasks of one warp that wait for themselves") {
  Array y("i32", 128);
  Job job{R"(
kernel k(y: *i32, steps: i32) launch(num_warps = 4) {
  let x = alloc_barriers(1);
  async_tasks {
    async_task(default, name = "a") { for i in range(0, steps) { barrier_arrive(x[0]); barrier_wait(x[0], i & 1); } }
    async_task(num_warps = 4, name = "b") { store(y + arange(0, 128), arange(0, 128)); }
  }
  if steps > 100 { barrier_arrive(x[0]); }
})"};
  std::vector<uint64_t> want;
  for (uint64_t i = 0; i < 128; ++i) want.push_back(i);
  job.out = {&y}, job.scalars = {int32_t(8)}, job.on = hopper();
  execute(job, [&](const std::string &where) { expectBits(y, want, where, true); });
}

// Each task, and each replica, has a copy of its own.
TEST_CASE("tasks that assign to copies of one variable") {
  Array y("i32", 4);
  Job job{R"(
kernel k(y: *i32, n: i32) launch(num_warps = 1) {
  var v = n;
  for i in range(0, 2) {
    v = n + i;
    async_tasks {
      async_task(default) { v += 1; store(y, v); }
      async_task(num_warps = 1, replicate = 2) { v += 10 + async_task_replica_id(); store(y + 1 + async_task_replica_id(), v); }
      async_task(num_warps = 2) { store(y + 3, v); }
    }
  }
})"};
  job.out = {&y}, job.scalars = {int32_t(5)}, job.on = withTasks();
  execute(job, [&](const std::string &where) { expectBits(y, {7, 16, 17, 6}, where, true); });
}

// A variable has a value where it was assigned since, and where no task assigned it after all.
TEST_CASE("tasks that assign to copies of a variable of a loop") {
  for (int32_t n : {0, 1, 3}) {
    Array y("i32", 4);
    std::fill(y.data.begin(), y.data.end(), 0);
    Job job{R"(
kernel k<USE: i1 = false>(y: *i32, n: i32) launch(num_warps = 1) {
  var (v, sum) = (n, 0);
  for i in range(0, n) {
    if USE {
      async_tasks {
        async_task(default) { sum = 1; }
        async_task(num_warps = 1) { sum = 2; }
      }
    }
    sum += i + 1;
    if i % 2 == 0 { v = i; } else { v = -i; }
    async_tasks {
      async_task(default) { v += 1; store(y, v); }
      async_task(num_warps = 1) { v += 10; store(y + 1, v); }
    }
    v = 7 * i;
  }
  store(y + 2, v);
  store(y + 3, sum);
})"};
    job.out = {&y}, job.keepOutputs = true, job.scalars = {n}, job.on = withTasks();
    const int32_t last = n - 1, start = last % 2 == 0 ? last : -last;
    std::vector<uint64_t> want{uint32_t(n ? start + 1 : 0), uint32_t(n ? start + 10 : 0), uint32_t(n ? 7 * last : 0),
                               uint32_t(n * (n + 1) / 2)};
    execute(job, [&](const std::string &where) { expectBits(y, want, where, true); });
  }
}

// Barriers of tasks are used again by those of the next async_tasks.
TEST_CASE("tasks of many async_tasks need few named barriers") {
  Array y("f32", 20);
  Job job{R"(
kernel k(y: *f32, n: i32) launch(num_warps = 4) {
  static for j in range(20) {
    async_tasks {
      async_task(default) { let q = 0; }
      async_task(num_warps = 2) { store(y + j, sum((arange(0, 256) + n + j).to(f32), 0)); }
    }
  }
})"};
  std::vector<uint64_t> want;
  for (uint32_t j = 0; j < 20; ++j) want.push_back(std::bit_cast<uint32_t>(float(255 * 128 + 256 * (3 + j))));
  job.out = {&y}, job.scalars = {int32_t(3)}, job.on = withTasks();
  execute(job, [&](const std::string &where) { expectBits(y, want, where, true); });
}
