// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tasks with replicas, whose code is made once: what each has of its own (numbers, staged tiles, totals between warps, results of atomics,
// named barriers), where the warps of a replica start, and replicas that do not do the same.
#include "async_testing.h"

using namespace async_testing;

namespace {
std::string number(int64_t v) {
  return std::to_string(v);
}

/// Replica r takes rows 16·r … of x, through layouts and memory of every kind, and leaves y = x + r, a scan, and old counters.
std::string kernel(int warps, int replicas, const std::string &place, const std::string &own) {
  return replace(R"(
kernel k(x: *i32, y: *i32, sums: *i32, count: *i32, old: *i32) launch(num_warps = 4) {
  async_tasks {
    async_task(default) { }
    async_task(num_warps = $W, replicate = $R$P, name = "worker") {
      let me   = async_task_replica_id();
      let at   = (me * 16 + arange(0, 16))[:, None] * 32 + arange(0, 32)[None, :];
      let v    = load(x + at);
      store(y + trans(at), trans(v) + me);
      let rows = sum(v, axis = 1);
      store(sums + me * 16 + arange(0, 16), cumsum(rows, axis = 0));
      let before = atomic_add(count + me, sum(rows, axis = 0));
      store(old + me * 16 + arange(0, 16), full([16], before));
      $OWN
    }
  }
}
)",
                 {{"W", number(warps)}, {"R", number(replicas)}, {"P", place}, {"OWN", own}});
}

void checkReplicas(const std::string &text, int replicas, const std::string &what) {
  Rng rng(3);
  const size_t rows = size_t(replicas) * 16;
  Array x("i32", rows * 32), y("i32", rows * 32), sums("i32", rows), count("i32", size_t(replicas)), old("i32", rows);
  x.integers(rng, -99, 99), count.integers(rng, 0, 99);
  std::vector<uint64_t> wantY, wantSums, wantOld, wantCount;
  for (size_t r = 0; r < rows; ++r) {
    uint64_t sum = 0;
    for (size_t c = 0; c < 32; ++c)
      sum += x.raw(r * 32 + c), wantY.push_back((x.raw(r * 32 + c) + r / 16) & 0xffffffffu);
    wantSums.push_back(((r % 16 ? wantSums.back() : 0) + sum) & 0xffffffffu);
    wantOld.push_back(count.raw(r / 16));
    if (r % 16 == 15) wantCount.push_back((count.raw(r / 16) + wantSums.back()) & 0xffffffffu);
  }
  Job job{text, {}, {&x}, {&y, &sums, &count, &old}, {}};
  job.keepOutputs = true;
  std::erase_if(job.on, [](const std::string &t) { return t[0] != 's'; }); // AMD has no tasks
  for (Array *a : {&y, &sums, &old}) std::fill(a->data.begin(), a->data.end(), 0xa5);
  execute(job, [&](const std::string &where) {
    expectBits(y, wantY, where + " y " + what);
    expectBits(sums, wantSums, where + " sums " + what);
    expectBits(old, wantOld, where + " old " + what);
    expectBits(count, wantCount, where + " count " + what);
  });
}
} // namespace

TEST_CASE("tasks: replicas have memory and named barriers of their own") {
  for (int warps : {1, 2, 4})
    for (int replicas : {2, 3})
      checkReplicas(kernel(warps, replicas, "", ""), replicas, number(replicas) + " of " + number(warps) + " warps");
}

TEST_CASE("tasks: replicas that start at no multiple of their size") {
  checkReplicas(kernel(2, 3, ", warp_group_start_id = 5", ""), 3, "from 5 on");
  checkReplicas(kernel(4, 2, ", warp_group_start_id = 6", ""), 2, "from 6 on");
}

TEST_CASE("tasks: what one replica does alone, and replicas that differ in more than numbers") {
  const char *one = "if me == 1 { named_barrier_arrive(9, 64); } else { if me == 0 { named_barrier_wait(9, 64); } }";
  checkReplicas(kernel(1, 2, "", one), 2, "a wait and an arrival");
  checkReplicas(kernel(1, 3, "", one), 3, "a wait, an arrival, nothing");
  checkReplicas(kernel(1, 2, "", "named_barrier_arrive(8 + me, 64); named_barrier_wait(9 - me, 64);"), 2,
                "numbers by replica");
  checkReplicas(kernel(2, 2, "", "if me == 1 { let w = sum(rows, axis = 0); store(old + me * 16, w - w + before); }"),
                2, "a branch of one");
}

TEST_CASE("tasks: replicas load and store blocks by descriptors") {
  check({R"(kernel k(a: tensor_desc<f16, [16, 64]>, d: tensor_desc<f16, [16, 64]>, n: i32) launch(num_warps = 4) {
  async_tasks {
    async_task(default) { }
    async_task(num_warps = 4, replicate = 3) {
      for i in range(0, n) {
        let row = (3 * i + async_task_replica_id()) * 16;
        d.store([row, 0], a.load([row, 0]) + a.load([row, 64]));
      }
    }
  }
})",
         {},
         {Matrix("f16", 192, 128)},
         Matrix("f16", 192, 64),
         {4}},
        [](const std::vector<Matrix> &in, int64_t r, int64_t c) { return in[0](r, c) + in[0](r, c + 64); });
}
