// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copies by TMA's units that need no tile: bulk copies of bytes, prefetches, reductions by name, hints of L2, fences. And that ptxas takes what
// all operations of hand-written kernels become.
#include <nlohmann/json.hpp>

#include "async_testing.h"

using namespace async_testing;

namespace {
/// Errors of a compile for a target's machine code, or for the simulator: "" if there are none.
std::string refusal(const std::string &text, const std::string &target, tlx_image image = TLX_IMAGE_SIMULATOR,
                    const std::string &assembler = "", std::string *warnings = nullptr) {
  static tlx::Context context;
  tlx::CompileOptions o;
  o.fileName = "k.tlx", o.target = target, o.image = image, o.assembler = assembler;
  try {
    tlx::Kernel kernel = context.compile(text, o);
    if (warnings) *warnings = kernel.diagnostics();
  } catch (const tlx::Error &e) {
    std::string out;
    for (const auto &d : nlohmann::json::parse(e.diagnosticsJson()))
      if (d["severity"] == "error") out += d["message"].get<std::string>() + "\n";
    return out.empty() ? std::string("no diagnostic: ") + e.what() : out;
  }
  return "";
}
} // namespace

TEST_CASE("bulk: bytes to and from buffers") {
  for (const char *type : {"u8", "f16", "f32", "f64"})
    for (const char *hints :
         {"", ", eviction = \"evict_first\"", ", eviction = \"evict_last\"", ", eviction = \"evict_normal\""}) {
      const int64_t part = 192, bytes = part * typeOf(type).bytes(), some = bytes / 2 / 16 * 16;
      const int64_t moved = some / typeOf(type).bytes();
      check({replace(R"(
kernel k(a: *$T, c: *$T, n: i32) launch(num_warps = 2) requires(aligned(a, 16), aligned(c, 16)) {
  let ring = local_alloc([192], $T, 2);
  let full = alloc_barriers(2);
  for s in range(0, n) {
    let (slot, phase) = (s % 2, s / 2 % 2);
    barrier_expect_bytes(full[slot], $B);
    async_bulk_load(a + s * 192, ring[slot], full[slot], bytes = $B$H);
    barrier_wait(full[slot], phase);
    async_bulk_store(c + s * 192, ring[slot], $B, pred = s != 1$H);
  }
  async_descriptor_store_wait(0);
})",
                     {{"T", type}, {"H", hints}, number("B", some)}),
             {},
             {Matrix(type, 1, 5 * part, true)},
             Matrix(type, 1, 5 * part, true),
             {int32_t(5)}},
            [&](const std::vector<Matrix> &in, int64_t, int64_t c) {
              if (c / part != 1 && c % part < moved) return in[0](0, c);
              Array poison(type, 1); // stays
              std::fill(poison.data.begin(), poison.data.end(), 0xa5);
              return poison.value(0);
            });
    }
}

// Threads write the buffer before and behind: fences and waits are the compiler's.
TEST_CASE("bulk: a buffer that threads write as well") {
  check({R"(
kernel k(a: *i32, c: *i32, n: i32) launch(num_warps = 4) requires(aligned(a, 16), aligned(c, 16)) {
  let buffer = local_alloc([256], i32);
  let full = alloc_barriers(1);
  let i = arange(0, 256);
  for s in range(0, n) {
    barrier_expect_bytes(full[0], 1024);
    async_bulk_load(a + s * 256, buffer, full[0]);
    barrier_wait(full[0], s % 2);
    local_store(buffer, local_load(buffer) * 3);
    async_bulk_store(c + s * 256, buffer);
  }
  async_descriptor_store_wait(0);
})",
         {},
         {Matrix("i32", 1, 1024, true)},
         Matrix("i32", 1, 1024, true),
         {int32_t(4)}},
        [](const std::vector<Matrix> &in, int64_t, int64_t c) { return 3 * in[0](0, c); });
}

TEST_CASE("bulk: copies that do not begin or end where they may") {
  if (hopper().empty()) return;
  const std::string text = R"(kernel k(p: *f32, n: i32) launch(num_warps = 1) requires(aligned(p, 16)) {
  let b = local_alloc([64], f32);
  async_bulk_store(p + n$M, b);
})";
  CHECK(refusal(replace(text, {{"M", " * 4"}}), "sm_90a") == "");
  CHECK(refusal(replace(text, {{"M", " * 2"}}), "sm_90a") ==
        "a bulk copy begins at a multiple of 16 bytes, and this pointer is not known to be one: state it with "
        "multiple_of, or aligned(…, 16) in requires\n");
  for (const char *target : {"sm_80", "gfx942"})
    CHECK(refusal(replace(text, {{"M", " * 4"}}), target) == std::string("async_bulk_store needs bulk copies, which ") +
                                                                 target + " has not; use load, store and buffers\n");
}

TEST_CASE("bulk: reductions by name, of the kinds that TMA has") {
  for (const char *kind : {"add", "min", "max", "and"})
    check({replace(R"(
kernel k(a: tensor_desc<i32, [16, 32]>, c: tensor_desc<i32, [16, 32]>) launch(num_warps = 4) {
  let b = local_alloc([16, 32], i32);
  local_store(b, zeros([16, 32], i32));
  async_descriptor_store(c, b, [0, 0]);
  async_descriptor_store_wait(0);
  local_store(b, a.load([0, 0], eviction = "evict_first"));
  for i in range(0, 2) { async_descriptor_reduce(c, b, [0, 0], "$K", eviction = "evict_last"); }
  async_descriptor_store_wait(0);
})",
                   {{"K", kind}}),
           {},
           {Matrix("i32", 16, 32)},
           Matrix("i32", 16, 32)},
          [&](const std::vector<Matrix> &in, int64_t r, int64_t c) {
            const double v = in[0](r, c);
            return kind[0] == 'a' ? kind[1] == 'd' ? 2 * v : 0 : kind[1] == 'i' ? std::min(v, 0.0) : std::max(v, 0.0);
          });
  if (hopper().empty()) return;
  for (const char *type : {"f32", "f64"})
    CHECK(refusal(replace(R"(kernel k(c: tensor_desc<$T, [16, 32]>) launch(num_warps = 4) {
  let b = local_alloc([16, 32], $T);
  async_descriptor_reduce(c, b, [0, 0], "max");
})",
                          {{"T", type}}),
                  "sm_90a") == std::string("TMA cannot combine by \"max\" in ") + type +
                                   ": use .store of the descriptor with reduce, which can do without\n");
}

// The writer's side has the fence that the units of the other need.
TEST_CASE("bulk: what one task wrote is stored by another, behind a named barrier") {
  for (const char *meet : {"named_barrier_arrive(3, 192);", "named_barrier_wait(3, 192);"})
    check({replace(R"(
kernel k(a: tensor_desc<i32, [16, 32]>, c: tensor_desc<i32, [16, 32]>) launch(num_warps = 4) {
  let b = local_alloc([16, 32], i32);
  async_tasks {
    async_task(default) { local_store(b, a.load([0, 0]) * 3); $M }
    async_task(num_warps = 2) {
      named_barrier_wait(3, 192);
      async_descriptor_store(c, b, [0, 0]);
      async_descriptor_store_wait(0);
    }
  }
})",
                   {{"M", meet}}),
           {},
           {Matrix("i32", 16, 32)},
           Matrix("i32", 16, 32)},
          [](const std::vector<Matrix> &in, int64_t r, int64_t c) { return 3 * in[0](r, c); });
}

TEST_CASE("bulk: a descriptor that the program gives to TMA keeps to its rules in .load and .store") {
  if (hopper().empty()) return;
  auto said = [](const char *statement) {
    return refusal(replace(R"(kernel k(c: tensor_desc<f32, [16, 32]>, out: *f32, n: i32) launch(num_warps = 4) {
  let b = local_alloc([16, 32], f32);
  local_store(b, zeros([16, 32], f32));
  async_descriptor_store(c, b, [0, 0]);
  async_descriptor_store_wait(0);
  $S
})",
                           {{"S", statement}}),
                   "sm_90a");
  };
  const std::string rule = "TMA serves 'c', which async_descriptor operations use too, and ";
  for (const char *statement :
       {"c.store([0, n], c.load([0, 4]));", "c.store([0, 3], c.load([0, 4]));", "c.store([0, 4], c.load([0, n]));"})
    CHECK(said(statement) ==
          rule +
              "this last index is not known to be a multiple of 4: state it with multiple_of, or pass the tensor by a "
              "second descriptor\n");
  CHECK(said("c.store([16, 0], zeros([16, 32], f32), reduce = \"max\");") ==
        rule + "cannot combine by \"max\" in f32: pass the tensor by a second descriptor\n");
  CHECK(said("c.store([16, n * 4], c.load([0, multiple_of(n, 4)]));") == "");
}

TEST_CASE("bulk: prefetches and hints change no result") {
  for (const char *block : {"[64, 64]", "[64, 256]", "[32, 8]"})
    for (const char *hint : {"evict_first", "evict_last", "evict_normal"}) {
      const int64_t rows = block[1] == '3' ? 32 : 64, cols = block[5] == '8' ? 8 : block[5] == '2' ? 256 : 64;
      check({replace(R"(
kernel k(a: tensor_desc<f16, $B>, c: tensor_desc<f16, $B>) launch(num_warps = 4) {
  async_descriptor_prefetch(a, [0, 0]);
  async_descriptor_prefetch(c, [0, 0], pred = program_id(0) == 1, eviction = "$H");
  for i in range(0, 2, num_stages = 2) {
    async_descriptor_prefetch(a, [(i + 1) * $R, 0], eviction = "$H");
    c.store([i * $R, 0], a.load([i * $R, 0], eviction = "$H") + 1.0, eviction = "$H");
  }
})",
                     {{"B", block}, {"H", hint}, number("R", rows)}),
             {},
             {Matrix("f16", 2 * rows, cols)},
             Matrix("f16", 2 * rows, cols)},
            [](const std::vector<Matrix> &in, int64_t r, int64_t c) { return in[0](r, c) + 1; });
    }
  // A kernel that only prefetches; a descriptor that TMA does not serve, whose hint has no effect.
  CHECK(refusal("kernel k(a: tensor_desc<f16, [64, 64]>) { async_descriptor_prefetch(a, [0, 0]); }", "sm_90a") == "");
  const std::string odd = "kernel k(a: tensor_desc<f16, [64, 64]>, n: i32) { a.store([0, n], a.load([0, n], eviction = "
                          "\"evict_last\")); }";
  for (const char *target : {"sm_90a", "sm_80", "gfx942"}) {
    std::string warnings;
    CHECK(refusal(odd, target, TLX_IMAGE_SIMULATOR, "", &warnings) == "");
    CHECK_MESSAGE(warnings.find("'eviction' has no effect on 'a', which is accessed by masked loads and stores") !=
                      std::string::npos,
                  warnings);
  }
}

TEST_CASE("bulk: fences") {
  Rng rng(1);
  for (const char *scope : {"cta", "gpu", "sys"}) {
    Array x("i32", 128), y("i32", 128);
    x.randomBits(rng);
    Job job{replace(R"(
kernel k(x: *i32, y: *i32) launch(num_warps = 2) {
  let i = arange(0, 128);
  store(y + i, load(x + i));
  fence("$S");
  store(y + i, load(y + i) + 1);
})",
                    {{"S", scope}})};
    job.in = {&x}, job.out = {&y};
    std::vector<uint64_t> want;
    for (size_t i = 0; i < 128; ++i) want.push_back(uint32_t(x.raw(i) + 1));
    execute(job, [&](const std::string &where) { expectBits(y, want, where, true); });
  }
}

TEST_CASE("bulk: a wait that stays where it is written") {
  check({R"(
kernel k(a: tensor_desc<f16, [64, 64]>, b: tensor_desc<f16, [64, 64]>, c: tensor_desc<f32, [64, 64]>) launch(num_warps = 4) {
  let (x, y, full) = (local_alloc([64, 64], f16), local_alloc([64, 64], f16), alloc_barriers(1));
  barrier_expect_bytes(full[0], bytes_of(a) + bytes_of(b));
  async_descriptor_load(a, x, [0, 0], full[0]);
  async_descriptor_load(b, y, [0, 0], full[0]);
  barrier_wait(full[0], 0);
  var acc = async_dot(x, y);
  let s = sum(exp2(local_load(x).to(f32)), axis = 1);
  acc = async_dot_wait(0, acc, pinned = true);
  c.store([0, 0], acc + (s - s)[:, None]);
})",
         {},
         {Matrix("f16", 64, 64), Matrix("f16", 64, 64)},
         Matrix("f32", 64, 64)},
        [](const std::vector<Matrix> &in, int64_t r, int64_t c) {
          return sum(
              64, [&](int64_t k) { return in[0](r, k); }, [&](int64_t k) { return in[1](k, c); });
        });
}

TEST_CASE("bulk: what the assembler takes") {
  const std::string copies = R"(
kernel k(p: *f32, q: *f32, n: i32) launch(num_warps = 4) requires(aligned(p, 16), aligned(q, 16)) {
  let s = storage_alias_spec();
  let b = local_alloc([64, 32], f32, 2, reuse = s);
  let h = local_alloc([64, 32], f16, 4, reuse = s);
  set_buffer_overlap(s, reuse_group([b, reuse_group([h], group_size = 2)]));
  let (i, j) = (arange(0, 64)[:, None], arange(0, 32)[None, :]);
  async_load(p + i * 32 + j, b[0], j < n);
  async_load_commit();
  async_load(p + i * 32 + j, b[1], j < n, other = 1.0);
  async_load_commit();
  async_load_wait(1);
  let v = local_gather(b[0], (i + j) % 64, 0);
  fence("gpu");
  async_load_wait(0);
  local_scatter(b[1], v, (i + j) % 32, 1);
  store(q + i * 32 + j, local_load(local_reinterpret(local_reshape(b[1], [32, 64]), u32, shape = [64, 32])).to(f32));
  store(q + 2048 + i * 32 + j, local_load(h[3]).to(f32));
})";
  const std::string units = R"(
kernel k(a: tensor_desc<f16, [64, 256]>, c: tensor_desc<f32, [64, 64]>, p: *f32) launch(num_warps = 4) requires(aligned(p, 16)) {
  let (x, y, flat) = (local_alloc([64, 256], f16), local_alloc([64, 64], f32), local_alloc([1024], f32));
  let full = alloc_barriers(1);
  async_descriptor_prefetch(a, [64, 0], eviction = "evict_last");
  barrier_expect_bytes(full[0], bytes_of(a) + bytes_of(flat));
  async_descriptor_load(a, x, [0, 0], full[0], eviction = "evict_first");
  async_bulk_load(p, flat, full[0], eviction = "evict_last");
  barrier_wait(full[0], 0);
  let part = local_slice(x, [0, 0], [64, 64]);
  let acc = async_dot(part, part);
  let s = sum(exp2(local_load(part).to(f32)), axis = 1);
  local_store(y, async_dot_wait(0, acc, pinned = true) + s[:, None]);
  async_descriptor_store(c, y, [0, 0], eviction = "evict_normal");
  async_descriptor_reduce(c, y, [64, 0], "add");
  async_bulk_store(p + 1024, flat);
  async_descriptor_store_wait(0);
  fence("sys");
})";
  const std::string missing = refusal(copies, "sm_80", TLX_IMAGE_NATIVE, "ptxas");
  if (missing.find("was not found") != std::string::npos) {
    MESSAGE("no ptxas: nothing is assembled");
    return;
  }
  CHECK(missing == "");
  CHECK(refusal(copies, "sm_90a", TLX_IMAGE_NATIVE, "ptxas") == "");
  CHECK(refusal(units, "sm_90a", TLX_IMAGE_NATIVE, "ptxas") == "");
}
