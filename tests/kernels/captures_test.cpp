// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Numbers and pointers from outside that the warps of a task cannot compute again: loaded, an atomic's result, carried by a loop.
#include "async_testing.h"

using namespace async_testing;

TEST_CASE("captures: of every type") {
  Rng rng(1);
  for (const char *type : {"i1", "i8", "u16", "i32", "i64", "f16", "bf16", "f32", "f64"})
    for (const char *warps : {"1", "2", "4"}) {
      const bool flag = std::string(type) == "i1";
      Array x(flag ? "i8" : type, 4), y(flag ? "i32" : type, 256);
      x.randomBits(rng);
      Job job{replace(R"(
kernel k(x: *$M, y: *$Y) launch(num_warps = $W) {
  let v = load(x + 2)$C;
  async_tasks {
    async_task(default) { store(y + arange(0, 128), full([128], v)$S); }
    async_task(num_warps = $W) { store(y + 128 + arange(0, 128), full([128], v)$S); }
  }
})",
                      {{"M", flag ? "i8" : type},
                       {"Y", flag ? "i32" : type},
                       {"W", warps},
                       {"C", flag ? ".to(i1)" : ""},
                       {"S", flag ? ".to(i32)" : ""}})};
      job.in = {&x}, job.out = {&y}, job.on = withTasks();
      const std::vector<uint64_t> want(256, flag ? uint64_t(x.raw(2) != 0) : x.raw(2));
      execute(job, [&](const std::string &where) { expectBits(y, want, where, true); });
    }
}

// What a task computes from it, it computes itself; a loop's result, an atomic's, a pointer that a branch chooses; two regions, each with
// the value at its time.
TEST_CASE("captures: counters, loops and branches") {
  Rng rng(2);
  Array x("i32", 256), y("i32", 512);
  x.integers(rng, -1000, 1000);
  Job job{R"(
kernel k(x: *i32, y: *i32, n: i32) launch(num_warps = 4) {
  let before = atomic_add(y, n);
  var (s, p) = (0, x);
  for i in range(0, n) { s += load(x + i); }
  if s > 0 { p = x + 1; } else { p = x + 2; }
  async_tasks {
    async_task(default) { let q = before; }
    async_task(num_warps = 4) { store(y + 128 + arange(0, 128), arange(0, 128) * (s + before * 2) + load(p)); }
    async_task(num_warps = 2) { store(y + 256 + arange(0, 128), full([128], s * 3)); }
  }
  for i in range(0, n) { s -= load(x + 2 * i); }
  async_tasks {
    async_task(default) { store(y + arange(0, 128), full([128], s)); }
    async_task(num_warps = 2) { store(y + 384 + arange(0, 128), full([128], s)); }
  }
})"};
  job.in = {&x}, job.out = {&y}, job.scalars = {int32_t(5)}, job.on = withTasks();
  std::fill(y.data.begin(), y.data.end(), 0xa5);
  const int64_t before = int64_t(y.integer(0));
  int64_t s = 0;
  for (size_t i = 0; i < 5; ++i) s += int64_t(x.integer(i));
  const int64_t element = int64_t(x.integer(s > 0 ? 1 : 2));
  int64_t later = s;
  for (size_t i = 0; i < 5; ++i) later -= int64_t(x.integer(2 * i));
  std::vector<uint64_t> want;
  for (int64_t i = 0; i < 512; ++i)
    want.push_back(uint32_t(i < 128   ? later
                            : i < 256 ? (i - 128) * (s + before * 2) + element
                            : i < 384 ? s * 3
                                      : later));
  execute(job, [&](const std::string &where) { expectBits(y, want, where, true); });
}

// A loaded number steers a task that only waits and issues, and where its blocks begin.
TEST_CASE("captures: a task that only issues") {
  check({R"(
kernel k(a: tensor_desc<i32, [16, 32]>, p: *i32, c: tensor_desc<i32, [16, 32]>) launch(num_warps = 4) {
  let row = load(p) * 0 + 16;
  let steps = load(p + 1) * 0 + 2;
  let (ring, full) = (local_alloc([16, 32], i32, 2), alloc_barriers(2));
  async_tasks {
    async_task(default) {
      for s in range(0, steps) {
        barrier_wait(full[s], 0);
        c.store([s * 16, 0], local_load(ring[s]) + 1);
      }
    }
    async_task(num_warps = 1) {
      for s in range(0, steps) {
        barrier_expect_bytes(full[s], bytes_of(a));
        async_descriptor_load(a, ring[s], [row * s, 0], full[s]);
      }
    }
  }
})",
         {},
         {Matrix("i32", 32, 32), Matrix("i32", 1, 4, true)},
         Matrix("i32", 32, 32)},
        [](const std::vector<Matrix> &in, int64_t r, int64_t c) { return in[0](r, c) + 1; });
}
