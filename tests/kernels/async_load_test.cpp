// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// async_load and its groups, on every target: cp.async where there is one, else through registers.
#include "async_testing.h"

using namespace async_testing;

namespace {
/// n elements through a ring of three, 128 at a time and two groups ahead.
const char *const kRing = R"(
kernel k(x: *$T, y: *$T, n: i32) launch(num_warps = $W) $F {
  let ring = local_alloc([128], $T, 3);
  let i = arange(0, 128);
  async_load(x + i, ring[0], i < n$O);
  async_load_commit();
  async_load(x + 128 + i, ring[1], 128 + i < n$O);
  async_load_commit();
  for s in range(0, 5) {
    async_load(x + (s + 2) * 128 + i, ring[(s + 2) % 3], (s + 2) * 128 + i < n$O);
    async_load_commit();
    async_load_wait($P);
    store(y + s * 128 + i, local_load(ring[s % 3]));
  }
})";

std::string said(const std::string &text, const std::string &target) {
  Program p = compileText(text, {"k.tlx", "k", {}, {}}, target);
  harness::Tensor in("i32", 1024), out("i32", 1024);
  for (size_t i = 0; i < 1024; ++i) in.set(i, double(i));
  out.poison();
  auto x = upload(in), y = upload(out);
  return p.run({1}, {x, y, 640}, {target});
}
} // namespace

TEST_CASE("async load: groups of a ring") {
  Rng rng(3);
  for (const char *type : {"i8", "f16", "i32", "f64"})
    for (const char *facts : {"", "requires(aligned(x, 16))", "requires(aligned(x, 16), n % 16 == 0)"})
      for (const char *other : {"", ", other = 0", ", other = 7", ", other = -0.0"})
        for (int warps : {1, 4}) {
          const bool isFloat = type[0] == 'f';
          if (!isFloat && other[0] && std::string(other).find('.') != std::string::npos) continue;
          Array x(type, 1024), y(type, 640);
          x.randomBits(rng);
          const int n = std::string(facts).find("n %") == std::string::npos ? 601 : 592;
          Array fill(type, 1);
          fill.set(0, std::string(other).find('7') != std::string::npos   ? 7
                      : std::string(other).find('-') != std::string::npos ? -0.0
                                                                          : 0.0);
          std::vector<uint64_t> want;
          for (int i = 0; i < 640; ++i) want.push_back(i < n ? x.raw(size_t(i)) : fill.raw(0));
          Job job{replace(kRing, {{"T", type}, {"F", facts}, {"O", other}, {"P", "2"}, {"W", std::to_string(warps)}})};
          job.in = {&x}, job.out = {&y}, job.scalars = {int32_t(n)};
          execute(job, [&](const std::string &where) { expectBits(y, want, where + facts + other, true); });
        }
}

// What a wait does not cover has not arrived: the simulator says so.
TEST_CASE("async load: a wait that covers too little") {
  if (!onSimulator()) return;
  for (const char *target : {"sm_80", "sm_90a"}) {
    auto text = [](const char *pending) {
      return replace(kRing, {{"T", "i32"}, {"F", ""}, {"O", ""}, {"P", pending}, {"W", "4"}});
    };
    CHECK(said(text("2"), target) == "");
    CHECK(said(text("0"), target) == "");
    CHECK(said(text("3"), target).find("in flight") != std::string::npos);
  }
}

TEST_CASE("async load: tiles, with ragged rows, swizzled for what reads them") {
  Rng rng(5);
  for (const char *type : {"u8", "f16", "f32"})
    for (int64_t cols : {32, 29}) {
      const int64_t rows = 48, ld = cols == 32 ? 32 : 48;
      Array x(type, size_t(rows * ld)), y(type, size_t(rows * 32)), z(type, size_t(rows * 32));
      x.randomBits(rng);
      std::vector<uint64_t> want(size_t(rows * 32)), turned(size_t(rows * 32));
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < 32; ++c)
          turned[size_t(c * rows + r)] = want[size_t(r * 32 + c)] = c < cols ? x.raw(size_t(r * ld + c)) : 0;
      Job job{replace(R"(
kernel k(x: *$T, y: *$T, z: *$T, cols: i32) launch(num_warps = 4) requires(aligned(x, 16)) {
  let (r, c) = (arange(0, 48)[:, None], arange(0, 32)[None, :]);
  let b = local_alloc([48, 32], $T);
  async_load(x + r * $L + c, b, c < cols);
  async_load_commit();
  async_load_wait(0);
  store(y + r * 32 + c, local_load(b));
  store(z + arange(0, 32)[:, None] * 48 + arange(0, 48)[None, :], local_load(local_trans(b)));
})",
                      {{"T", type}, number("L", ld)})};
      job.in = {&x}, job.out = {&y, &z}, job.scalars = {int32_t(cols)};
      execute(job, [&](const std::string &where) {
        expectBits(y, want, where, true);
        expectBits(z, turned, where, true);
      });
    }
}

// One task copies, the other multiplies: what cp.async wrote is seen by wgmma behind the barrier.
TEST_CASE("async load: a task that copies for one that multiplies") {
  for (int64_t depth : {64, 192})
    check({R"(
kernel k(a: *f16, b: *f16, c: tensor_desc<f32, [64, 64]>, depth: i32) launch(num_warps = 4)
    requires(aligned(a, 16), aligned(b, 16), depth % 64 == 0) {
  let (as, bs) = (local_alloc([64, 64], f16, 2), local_alloc([64, 64], f16, 2));
  let (full, empty) = (alloc_barriers(2), alloc_barriers(2));
  async_tasks {
    async_task(default) {
      var (slot, phase) = (0, 0);
      let (i, j) = (arange(0, 64)[:, None], arange(0, 64)[None, :]);
      for k in range(0, depth, 64) {
        barrier_wait(empty[slot], phase ^ 1);
        async_load(a + i * depth + k + j, as[slot]);
        async_load(b + (i + k) * 64 + j, bs[slot]);
        async_load_commit();
        async_load_wait(0);
        barrier_arrive(full[slot]);
        slot = slot ^ 1;
        if slot == 0 { phase = phase ^ 1; }
      }
    }
    async_task(num_warps = 4) {
      var (slot, phase) = (0, 0);
      var acc = zeros([64, 64], f32);
      for k in range(0, depth, 64) {
        barrier_wait(full[slot], phase);
        acc = async_dot(as[slot], bs[slot], acc);
        acc = async_dot_wait(0, acc);
        barrier_arrive(empty[slot]);
        slot = slot ^ 1;
        if slot == 0 { phase = phase ^ 1; }
      }
      c.store([0, 0], acc);
    }
  }
})",
           {},
           {Matrix("f16", 64, depth, true), Matrix("f16", depth, 64, true)},
           Matrix("f32", 64, 64),
           {int32_t(depth)}},
          [&](const std::vector<Matrix> &in, int64_t r, int64_t c) {
            return sum(
                depth, [&](int64_t k) { return in[0](r, k); }, [&](int64_t k) { return in[1](k, c); });
          });
}

// Copies on their way when a kernel ends with other buffers: their bytes are nobody else's until a wait.
TEST_CASE("async load: memory of copies that nobody has waited for") {
  Rng rng(9);
  Array x("i32", 1024), y("i32", 1024);
  x.randomBits(rng);
  Job job{R"(
kernel k(x: *i32, y: *i32) launch(num_warps = 4) {
  let i = arange(0, 1024);
  let a = local_alloc([1024], i32);
  async_load(x + i, a);
  async_load_commit();
  let b = local_alloc([1024], i32);
  local_store(b, i);
  store(y + i, local_load(b));
  async_load_wait(0);
})"};
  job.in = {&x}, job.out = {&y};
  std::vector<uint64_t> want;
  for (uint64_t i = 0; i < 1024; ++i) want.push_back(i);
  execute(job, [&](const std::string &where) { expectBits(y, want, where, true); });
}

TEST_CASE("async load: a loop with groups of its own is not pipelined") {
  tlx::Context context;
  tlx::CompileOptions o;
  o.fileName = "k.tlx", o.target = "sm_80", o.image = TLX_IMAGE_SIMULATOR;
  const std::string text = R"(
kernel k(x: *f32, y: *f32, n: i32) launch(num_warps = 4) {
  let i = arange(0, 128);
  let b = local_alloc([128], f32);
  var s = zeros([128], f32);
  for k in range(0, n, 128, num_stages = 3) {
    async_load(x + k + i, b);
    async_load_commit();
    s = s + load(x + k + i);
    async_load_wait(0);
    s = s + local_load(b);
  }
  store(y + i, s);
})";
  Array x("f32", 512), y("f32", 128);
  Rng rng(1);
  x.integers(rng, -8, 8);
  Job job{text};
  job.in = {&x}, job.out = {&y}, job.scalars = {int32_t(512)};
  std::vector<uint64_t> want;
  for (size_t i = 0; i < 128; ++i) {
    double s = 0;
    for (size_t k = 0; k < 512; k += 128) s += 2 * x.value(k + i);
    Array one("f32", 1);
    one.set(0, s);
    want.push_back(one.raw(0));
  }
  execute(job, [&](const std::string &where) { expectBits(y, want, where, true); });
}
