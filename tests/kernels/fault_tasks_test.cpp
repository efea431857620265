// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Faults that users of such compilers reported, in hand-written schedules: the right form computes the right numbers under every schedule, each
// wrong one has its finding. What needs calls of device operations that the compiler would not make is in tests/unit/sim/fault_test.cpp.
#include <doctest/doctest.h>

#include "harness.h"

using namespace harness;

namespace {
using Params = std::vector<std::pair<std::string, std::string>>;

/// Blocks of [64, 64] f16, one below the other, and 64 x 64 sums for each program.
struct Blocks {
  explicit Blocks(int count, uint64_t seed = 3) : count(count), values("f16", size_t(count) * 4096) {
    Rng rng(seed);
    fill(values, rng, Fill::Integers, 1);
  }
  int count;
  Tensor values;
  double operator()(int block, int row, int column) const {
    return values.get(size_t((block * 64 + row) * 64 + column));
  }
  /// Σ of block · block over [from, to).
  void addSquares(int from, int to, std::vector<double> &sum, size_t at) const {
    for (int b = from; b < to; ++b)
      for (int i = 0; i < 64; ++i)
        for (int j = 0; j < 64; ++j)
          for (int l = 0; l < 64; ++l) sum[at + size_t(i * 64 + j)] += (*this)(b, i, l) * (*this)(b, l, j);
  }
};

/// Launches k(a: tensor_desc<f16, [64, 64]>, c: *f32, scalars…); "" if it is silent and right under every schedule.
std::string ran(const std::string &text, const Params &params, const Blocks &a, const std::vector<double> &want,
                const std::vector<tlx::Arg> &scalars, unsigned programs = 1) {
  Program p = compileText(text, {"fault.tlx", "k", params, {}, TLX_COMPILE_NO_STATIC_CHECKS}, "sm_90a");
  Tensor c("f32", want.size());
  auto da = upload(a.values);
  for (const Setting &s : settings("sm_90a", seeds())) {
    c.poison();
    auto dc = upload(c);
    const tlx::Tensor seen = tensor(da, a.values, {a.count * 64, 64}); // arguments keep its address
    std::vector<tlx::Arg> args{seen, dc};
    args.insert(args.end(), scalars.begin(), scalars.end());
    if (const std::string problem = p.run({programs}, args, s); problem != "") return s.text() + ": " + problem;
    download(c, dc);
    if (const Worst w = compare(c, want, 0, 0); w.ratio != 0) return s.text() + ": " + w.text();
  }
  return "";
}
bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

const char *kStore = "store(c + (arange(0, 64)[:, None] * 64 + arange(0, 64)[None, :]), acc);";
} // namespace

TEST_CASE("fault cases: a task whose loop has one step, or none") {
  if (!onSimulator()) return;
  const char *text = R"(import "std/schedule.tlx";
kernel k<S: i32, SPLITS: i32>(a: tensor_desc<f16, [64, 64]>, c: *f32, steps: i32) launch(num_warps = 4) {
  let ring  = local_alloc([64, 64], f16, S);
  let full  = alloc_barriers(S);
  let empty = alloc_barriers(S);
  let share = cdiv(steps, SPLITS);
  let first = min(steps, program_id(0) * share);
  let last  = min(steps, first + share);
  async_tasks {
    async_task(default, name = "consumer") {
      var (slot, phase) = (0, 0);
      var acc = zeros([64, 64], f32);
      for k in range(first, last) {
        barrier_wait(full[slot], phase);
        acc = async_dot_wait(0, async_dot(ring[slot], ring[slot], acc));
        barrier_arrive(empty[slot]);
        (slot, phase) = ring_next(slot, phase, S);
      }
      store(c + program_id(0) * 4096 + (arange(0, 64)[:, None] * 64 + arange(0, 64)[None, :]), acc);
    }
    async_task(num_warps = 1, name = "producer") {
      var (slot, phase) = (0, 0);
      for k in range(first, last) {
        barrier_wait(empty[slot], phase ^ 1);
        barrier_expect_bytes(full[slot], bytes_of(ring[slot]));
        async_descriptor_load(a, ring[slot], [k * 64, 0], full[slot]);
        (slot, phase) = ring_next(slot, phase, S);
      }
    }
  }
})";
  for (int s : {1, 2, 3})
    for (auto [steps, splits] : {std::pair(1, 1), {0, 1}, {8, 5}, {7, 1}}) {
      CAPTURE(s);
      CAPTURE(steps);
      CAPTURE(splits);
      const Blocks a(8);
      std::vector<double> want(size_t(splits) * 4096);
      const int share = (steps + splits - 1) / splits;
      for (int p = 0; p < splits; ++p)
        a.addSquares(std::min(steps, p * share), std::min(steps, p * share + share), want, size_t(p) * 4096);
      CHECK(ran(text, {{"S", std::to_string(s)}, {"SPLITS", std::to_string(splits)}}, a, want, {steps},
                unsigned(splits)) == "");
    }
}

TEST_CASE("fault cases: products that lag behind loads into their slots") {
  if (!onSimulator()) return;
  // One task loads a step ahead and leaves W products in flight.
  auto text = [](const char *product) {
    return std::string(
               R"(kernel k<S: i32, W: i32>(a: tensor_desc<f16, [64, 64]>, c: *f32, n: i32) launch(num_warps = 4) {
  let ring = local_alloc([64, 64], f16, S);
  let full = alloc_barriers(S);
  async_tasks {
    async_task(default, name = "all") {
      var acc = zeros([64, 64], f32);
      barrier_expect_bytes(full[0], bytes_of(ring[0]));
      async_descriptor_load(a, ring[0], [0, 0], full[0]);
      for i in range(0, n) {
        let ahead = (i + 1) % S;
        barrier_expect_bytes(full[ahead], bytes_of(ring[0]), pred = i + 1 < n);
        async_descriptor_load(a, ring[ahead], [(i + 1) * 64, 0], full[ahead], pred = i + 1 < n);
        barrier_wait(full[i % S], (i / S) & 1);
        )") +
           product + R"(
        acc = async_dot_wait(W, acc);
      }
      acc = async_dot_wait(0, acc);
      )" + kStore +
           R"(
    }
  }
})";
  };
  const Blocks a(10);
  std::vector<double> once(4096), twice(4096);
  a.addSquares(0, 10, once, 0);
  for (size_t i = 0; i < 4096; ++i) twice[i] = 2 * once[i];
  const std::string one = text("acc = async_dot(ring[i % S], ring[i % S], acc);");
  // One load feeds two products.
  const std::string two =
      text("acc = async_dot(ring[i % S], ring[i % S], acc); acc = async_dot(ring[i % S], ring[i % S], acc);");
  auto params = [](int s, int w) { return Params{{"S", std::to_string(s)}, {"W", std::to_string(w)}}; };
  CHECK(ran(one, params(2, 0), a, once, {10}) == "");
  CHECK(ran(one, params(3, 1), a, once, {10}) == "");
  // A load into a slot that is still read waits for its products: inside a task the compiler sees to it.
  CHECK(ran(one, params(2, 1), a, once, {10}) == "");
  for (int w : {0, 1, 2})
    for (int s : {2, 3}) CHECK(ran(two, params(s, w), a, twice, {10}) == "");

  // Between tasks nobody does: a slot is released with its product in flight, or a step later.
  auto tasks = [](const char *release) {
    return std::string(R"(import "std/schedule.tlx";
kernel k<S: i32>(a: tensor_desc<f16, [64, 64]>, c: *f32, n: i32) launch(num_warps = 4) {
  let ring = local_alloc([64, 64], f16, S);
  let full = alloc_barriers(S);
  let empty = alloc_barriers(S);
  async_tasks {
    async_task(default, name = "consumer") {
      var acc = zeros([64, 64], f32);
      var (slot, phase, last) = (0, 0, 0);
      for i in range(0, n) {
        barrier_wait(full[slot], phase);
        acc = async_dot(ring[slot], ring[slot], acc);
        acc = async_dot_wait(1, acc);
        )") +
           release + R"(
        last = slot;
        (slot, phase) = ring_next(slot, phase, S);
      }
      acc = async_dot_wait(0, acc);
      )" + kStore +
           R"(
    }
    async_task(num_warps = 1, name = "loader") {
      var (slot, phase) = (0, 0);
      for i in range(0, n) {
        barrier_wait(empty[slot], phase ^ 1);
        barrier_expect_bytes(full[slot], bytes_of(ring[slot]));
        async_descriptor_load(a, ring[slot], [i * 64, 0], full[slot]);
        (slot, phase) = ring_next(slot, phase, S);
      }
    }
  }
})";
  };
  for (const char *s : {"2", "3"}) {
    CHECK(ran(tasks("barrier_arrive(empty[last], pred = i > 0);"), {{"S", s}}, a, once, {10}) == "");
    const std::string early = ran(tasks("barrier_arrive(empty[slot]);"), {{"S", s}}, a, once, {10});
    CHECK_MESSAGE(contains(early, "which tlx.nv.wgmma.ss.f32.f16.f16"), early);
    CHECK_MESSAGE(contains(early, "may still read: no tlx.nv.wgmma.wait covers it"), early);
  }
}

TEST_CASE("fault cases: A of a product in registers that are written again") {
  if (!onSimulator()) return;
  // Two products a step, each on half of the depth; the registers of the first are free when the second is in flight.
  const char *text = R"(kernel k(a: tensor_desc<f16, [64, 64]>, c: *f32, x: *i8, n: i32) launch(num_warps = 4) {
  let buffer = local_alloc([64, 64], f16);
  let full   = alloc_barriers(1);
  async_tasks {
    async_task(default) {
      barrier_expect_bytes(full[0], bytes_of(buffer[0]));
      async_descriptor_load(a, buffer[0], [0, 0], full[0]);
      barrier_wait(full[0], 0);
      var acc = zeros([64, 64], f32);
      let at = arange(0, 64)[:, None] * 64 + arange(0, 32)[None, :];
      for i in range(0, n) {
        acc = async_dot(load(x + i * 4096 + at).to(f16), local_slice(buffer[0], [0, 0], [32, 64]), acc);
        acc = async_dot_wait(1, acc);
        acc = async_dot(load(x + i * 4096 + 32 + at).to(f16), local_slice(buffer[0], [32, 0], [32, 64]), acc);
        acc = async_dot_wait(1, acc);
      }
      acc = async_dot_wait(0, acc);
      store(c + (arange(0, 64)[:, None] * 64 + arange(0, 64)[None, :]), acc);
    }
  }
})";
  const int n = 3;
  const Blocks a(1);
  Rng rng(11);
  Tensor x("i8", size_t(n) * 4096);
  fill(x, rng, Fill::Integers, 3);
  std::vector<double> want(4096);
  for (int b = 0; b < n; ++b)
    for (int i = 0; i < 64; ++i)
      for (int j = 0; j < 64; ++j)
        for (int l = 0; l < 64; ++l) want[size_t(i * 64 + j)] += x.get(size_t(b * 4096 + i * 64 + l)) * a(0, l, j);
  auto dx = upload(x);
  CHECK(ran(text, {}, a, want, {dx, n}) == "");
}

TEST_CASE("fault cases: tiles and their steps in one loop, the sums stored on a tile's last step") {
  if (!onSimulator()) return;
  const char *text = R"(import "std/schedule.tlx";
kernel k<S: i32>(a: tensor_desc<f16, [64, 64]>, c: *f32, tiles: i32, steps: i32) launch(num_warps = 4) {
  let ring  = local_alloc([64, 64], f16, S);
  let full  = alloc_barriers(S);
  let empty = alloc_barriers(S);
  async_tasks {
    async_task(default, name = "consumer") {
      var (slot, phase) = (0, 0);
      var acc = zeros([64, 64], f32);
      for i in range(0, tiles * steps) {
        let k = i % steps;
        barrier_wait(full[slot], phase);
        acc = async_dot(ring[slot], ring[slot], acc, use_acc = k > 0);
        acc = async_dot_wait(0, acc);
        barrier_arrive(empty[slot]);
        if k + 1 == steps { store(c + i / steps * 4096 + (arange(0, 64)[:, None] * 64 + arange(0, 64)[None, :]), acc); }
        (slot, phase) = ring_next(slot, phase, S);
      }
    }
    async_task(num_warps = 1, name = "producer") {
      var (slot, phase) = (0, 0);
      for i in range(0, tiles * steps) {
        barrier_wait(empty[slot], phase ^ 1);
        barrier_expect_bytes(full[slot], bytes_of(ring[slot]));
        async_descriptor_load(a, ring[slot], [i * 64, 0], full[slot]);
        (slot, phase) = ring_next(slot, phase, S);
      }
    }
  }
})";
  const Blocks a(12);
  std::vector<double> want(4 * 4096);
  for (int t = 0; t < 4; ++t) a.addSquares(3 * t, 3 * t + 3, want, size_t(t) * 4096);
  for (int s : {1, 2, 3, 4}) CHECK(ran(text, {{"S", std::to_string(s)}}, a, want, {4, 3}) == "");
}

namespace {
/// A loader hands blocks to a consumer, which sums squares; `n` blocks through one slot.
std::string handed(const std::string &barriers, const std::string &bytes, const std::string &fullPhase,
                   const std::string &arrive = "barrier_arrive(empty[0]);") {
  return R"(kernel k(a: tensor_desc<f16, [64, 64]>, c: *f32, n: i32) launch(num_warps = 4) {
  let block = local_alloc([64, 64], f16);
  )" + barriers +
         R"(
  async_tasks {
    async_task(default, name = "consumer") {
      var acc = zeros([64, 64], f32);
      for i in range(0, n) {
        barrier_wait(full[0], )" +
         fullPhase + R"();
        acc = async_dot_wait(0, async_dot(block[0], block[0], acc));
        )" +
         arrive +
         R"(
      }
      )" +
         kStore +
         R"(
    }
    async_task(num_warps = 1, name = "loader") {
      for i in range(0, n) {
        barrier_wait(empty[0], (i & 1) ^ 1);
        barrier_expect_bytes(full[0], )" +
         bytes + R"();
        async_descriptor_load(a, block[0], [i * 64, 0], full[0]);
      }
    }
  }
})";
}
const char *kBarriers = "let full = alloc_barriers(1); let empty = alloc_barriers(1);";
} // namespace

TEST_CASE("fault cases: bytes, arrivals and phases of an mbarrier") {
  if (!onSimulator()) return;
  const Blocks a(2);
  std::vector<double> want(4096);
  a.addSquares(0, 2, want, 0);
  auto said = [&](const std::string &text) { return ran(text, {}, a, want, {2}); };
  CHECK(said(handed(kBarriers, "8192", "i & 1")) == "");
  for (const char *bytes : {"8176", "8208"}) {
    const std::string wrong = said(handed(kBarriers, bytes, "i & 1"));
    CHECK_MESSAGE(contains(wrong, "wrong bytes"), wrong);
  }
  const std::string more = said(handed(kBarriers, "8208", "i & 1"));
  CHECK_MESSAGE(contains(more, "deadlock"), more);
  CHECK_MESSAGE(contains(more, "the mbarrier full[0] at shared offset"), more);
  CHECK_MESSAGE(contains(more, "16 bytes expected have not arrived"), more);
  // An arrival too few, and one too many.
  const std::string few =
      said(handed("let full = alloc_barriers(1); let empty = alloc_barriers(1, arrive_count = 2);", "8192", "i & 1"));
  CHECK_MESSAGE(contains(few, "deadlock"), few);
  const std::string many = said(handed(kBarriers, "8192", "i & 1", "barrier_arrive(empty[0], arrive_count = 3);"));
  CHECK_MESSAGE(contains(many, "arrivals at the mbarrier empty[0]"), many);
  // The second wait for a constant phase passes at once: it sees the first block again, or one on its way.
  const std::string stale = said(handed(kBarriers, "8192", "0"));
  CHECK_MESSAGE(contains(stale, "wgmma"), stale);
}

TEST_CASE("fault cases: tasks that wait for each other") {
  if (!onSimulator()) return;
  auto text = [](const char *first, const char *second) {
    return std::string(R"(kernel k(a: tensor_desc<f16, [64, 64]>, c: *f32) launch(num_warps = 4) {
  let left = alloc_barriers(1);
  let right = alloc_barriers(1);
  async_tasks {
    async_task(default, name = "one") { )") +
           first + R"( }
    async_task(num_warps = 4, name = "other") { )" +
           second + R"( }
  }
})";
  };
  const Blocks a(1);
  const std::string stuck = ran(text("barrier_wait(left[0], 0); barrier_arrive(right[0]);",
                                     "barrier_wait(right[0], 0); barrier_arrive(left[0]);"),
                                {}, a, {}, {});
  CHECK_MESSAGE(contains(stuck, "deadlock: every thread waits:"), stuck);
  CHECK_MESSAGE(contains(stuck, "warp 0 (one) at tlx.nv.mbarrier.try.wait (fault.tlx:5:"), stuck);
  CHECK_MESSAGE(contains(stuck, "the mbarrier left[0] at shared offset"), stuck);
  CHECK_MESSAGE(contains(stuck, "warp 4 (other) at tlx.nv.mbarrier.try.wait (fault.tlx:6:"), stuck);
  CHECK_MESSAGE(contains(stuck, "the mbarrier right[0] at shared offset"), stuck);
  CHECK_MESSAGE(contains(stuck, "nobody has arrived there"), stuck);
  // Waits for different phases of one barrier are no deadlock.
  CHECK(ran(text("barrier_wait(left[0], 1); barrier_arrive(left[0]); barrier_wait(left[0], 0);",
                 "barrier_wait(left[0], 0);"),
            {}, a, {}, {}) == "");
}

TEST_CASE("fault cases: named barriers that are used again") {
  if (!onSimulator()) return;
  // The writer arrives and goes on to the next tile; nothing says that the reader has been there.
  auto tiles = [](const char *behindRead, const char *beforeWrite) {
    return std::string(R"(kernel k(a: tensor_desc<f16, [64, 64]>, c: *f32) launch(num_warps = 4) {
  let buffer = local_alloc([4096], f32, 2);
  async_tasks {
    async_task(default, name = "writer") {
      for i in range(0, 4) {
        )") +
           beforeWrite + R"(
        local_store(buffer[i % 2], arange(0, 4096).to(f32));
        named_barrier_arrive(5, 256);
      }
    }
    async_task(num_warps = 4, name = "reader") {
      for i in range(0, 4) {
        named_barrier_wait(5, 256);
        store(c + arange(0, 4096), local_load(buffer[i % 2]));
        )" +
           behindRead + R"(
      }
    }
  }
})";
  };
  const Blocks a(1);
  std::vector<double> want(4096);
  for (size_t i = 0; i < want.size(); ++i) want[i] = double(i);
  CHECK(ran(tiles("named_barrier_arrive(6, 256);", "named_barrier_wait(6, 256);"), {}, a, want, {}).find("deadlock") !=
        std::string::npos); // the reader's arrival of the first tile comes behind its wait
  CHECK(ran(tiles("named_barrier_arrive(6, 256);", "if i > 0 { named_barrier_wait(6, 256); }"), {}, a, want, {}) == "");
  const std::string wrong = ran(tiles("", ""), {}, a, want, {});
  CHECK_MESSAGE(contains(wrong, "barrier 5"), wrong);
  // Two pairs of tasks that take one number.
  auto pairs = [](const char *second) {
    return std::string(R"(kernel k(a: tensor_desc<f16, [64, 64]>, c: *f32) launch(num_warps = 1) {
  let x = local_alloc([128], f32);
  let y = local_alloc([128], f32);
  async_tasks {
    async_task(default, name = "x writer") { local_store(x, arange(0, 128).to(f32)); named_barrier_arrive(5, 64); }
    async_task(num_warps = 1, name = "x reader") { named_barrier_wait(5, 64); store(c + arange(0, 128), local_load(x)); }
    async_task(num_warps = 1, name = "y writer") { local_store(y, arange(0, 128).to(f32)); named_barrier_arrive()") +
           second + R"(, 64); }
    async_task(num_warps = 1, name = "y reader") { named_barrier_wait()" +
           second + R"(, 64); store(c + 128 + arange(0, 128), local_load(y)); }
  }
})";
  };
  want.assign(256, 0);
  for (size_t i = 0; i < want.size(); ++i) want[i] = double(i % 128);
  CHECK(ran(pairs("6"), {}, a, want, {}) == "");
  const std::string mixed = ran(pairs("5"), {}, a, want, {});
  CHECK_MESSAGE(contains(mixed, "barrier 5"), mixed);
}

TEST_CASE("fault cases: two rings of tasks, one after the other") {
  if (!onSimulator()) return;
  // The second ring's barriers know nothing of the first one's phases; 3 steps leave each at an odd one.
  auto region = [](const std::string &n) {
    std::string text = R"(
  async_tasks {
    async_task(default, name = "consumer@") {
      var (slot, phase) = (0, 0);
      var acc = zeros([64, 64], f32);
      for k in range(0, 3) {
        barrier_wait(full@[slot], phase);
        acc = async_dot_wait(0, async_dot(ring@[slot], ring@[slot], acc));
        barrier_arrive(empty@[slot]);
        (slot, phase) = ring_next(slot, phase, 2);
      }
      store(c + @ * 4096 + (arange(0, 64)[:, None] * 64 + arange(0, 64)[None, :]), acc);
    }
    async_task(num_warps = 1, name = "producer@") {
      var (slot, phase) = (0, 0);
      for k in range(0, 3) {
        barrier_wait(empty@[slot], phase ^ 1);
        barrier_expect_bytes(full@[slot], bytes_of(ring@[slot]));
        async_descriptor_load(a, ring@[slot], [(3 * @ + k) * 64, 0], full@[slot]);
        (slot, phase) = ring_next(slot, phase, 2);
      }
    }
  })";
    for (size_t at; (at = text.find('@')) != std::string::npos;) text.replace(at, 1, n);
    return text;
  };
  const std::string text = R"(import "std/schedule.tlx";
kernel k(a: tensor_desc<f16, [64, 64]>, c: *f32) launch(num_warps = 4) {
  let ring0 = local_alloc([64, 64], f16, 2);
  let ring1 = local_alloc([64, 64], f16, 2);
  let full0 = alloc_barriers(2);
  let full1 = alloc_barriers(2);
  let empty0 = alloc_barriers(2);
  let empty1 = alloc_barriers(2);)" +
                           region("0") + region("1") + "\n}";
  const Blocks a(6);
  std::vector<double> want(2 * 4096);
  a.addSquares(0, 3, want, 0), a.addSquares(3, 6, want, 4096);
  CHECK(ran(text, {}, a, want, {}) == "");
}
