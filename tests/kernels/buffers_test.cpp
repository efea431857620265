// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Views of buffers in other shapes and types, buffers that share bytes, and accesses by index, on every target.
#include <nlohmann/json.hpp>

#include "async_testing.h"

using namespace async_testing;

TEST_CASE("buffers: another shape, straight and turned, of a ring") {
  Rng rng(1);
  struct Form {
    Shape from, to;
  };
  for (const char *type : {"u8", "f16", "f64"})
    for (const Form &f : {Form{{64, 64}, {16, 256}},
                          {{64, 64}, {4096}},
                          {{8, 4, 16}, {32, 16}},
                          {{96, 16}, {3, 32, 16}},
                          {{96, 16}, {96, 4, 4}},
                          {{1, 64}, {64}},
                          {{12, 32}, {384}}}) {
      const int64_t n = product(f.from, 0, f.from.size());
      Array x(type, size_t(2 * n)), y(type, size_t(n));
      x.randomBits(rng);
      Job job{replace(R"(
kernel k(x: *$T, y: *$T) launch(num_warps = 4) {
  let ring = local_alloc($A, $T, 2);
  let seen = local_reshape(ring, $B);
  for s in range(0, 2) { local_store(ring[s], load(x + s * $N + $FROM)); }
  for s in range(0, 1) { store(y + $TO, local_load(seen[s + 1])); }
})",
                      {{"T", type},
                       {"A", operations::text(f.from)},
                       {"B", operations::text(f.to)},
                       {"N", std::to_string(n)},
                       {"FROM", offsets(f.from)},
                       {"TO", offsets(f.to)}})};
      job.in = {&x}, job.out = {&y};
      std::vector<uint64_t> want;
      for (int64_t i = 0; i < n; ++i) want.push_back(x.raw(size_t(n + i)));
      execute(job, [&](const std::string &where) { expectBits(y, want, where, true); });
    }
}

TEST_CASE("buffers: bytes as elements of another type") {
  Rng rng(2);
  struct Form {
    const char *from, *to;
  };
  for (const Form &f :
       {Form{"f32", "u32"}, {"u8", "f16"}, {"u8", "f64"}, {"f64", "i8"}, {"i64", "f16"}, {"f16", "f32"}})
    for (bool flat : {false, true}) {
      const int64_t rows = 16, cols = 32, a = typeOf(f.from).bytes(), b = typeOf(f.to).bytes(), total = rows * cols * 8;
      const Shape from{rows, cols * 8 / a}, to = flat ? Shape{total / b} : Shape{rows, cols * 8 / b};
      Array x(f.from, size_t(total / a)), y(f.to, size_t(total / b));
      x.randomBits(rng);
      Job job{replace(R"(
kernel k(x: *$T, y: *$U) launch(num_warps = 4) {
  let b = local_alloc($A, $T);
  local_store(b, load(x + $FROM));
  store(y + $TO, local_load(local_reinterpret(b, $U$S)));
})",
                      {{"T", f.from},
                       {"U", f.to},
                       {"A", operations::text(from)},
                       {"S", flat ? ", shape = " + operations::text(to) : ""},
                       {"FROM", offsets(from)},
                       {"TO", offsets(to)}})};
      job.in = {&x}, job.out = {&y};
      Array same(f.to, y.count);
      same.data = x.data;
      execute(job, [&](const std::string &where) { expectBits(y, bitsOf(same), where, true); });
    }
}

TEST_CASE("buffers: elements by index") {
  Rng rng(3);
  struct Form {
    Shape buffer;
    size_t axis;
    int64_t extent; // of the indices along the axis
  };
  for (const char *type : {"i8", "bf16", "f32", "i64"})
    for (const char *index : {"i32", "u8", "i64"})
      for (const Form &f : {Form{{128}, 0, 256},
                            {{64}, 0, 16},
                            {{32, 64}, 0, 8},
                            {{32, 64}, 1, 96},
                            {{12, 32}, 0, 48},
                            {{4, 8, 16}, 1, 8},
                            {{4, 8, 16}, 2, 4}}) {
        Shape shape = f.buffer;
        shape[f.axis] = f.extent;
        const int64_t n = product(f.buffer, 0, f.buffer.size()), m = product(shape, 0, shape.size());
        Array x(type, size_t(n)), i(index, size_t(m)), y(type, size_t(m));
        x.randomBits(rng), i.integers(rng, 0, f.buffer[f.axis] - 1);
        Job job{replace(R"(
kernel k(x: *$T, i: *$I, y: *$T) launch(num_warps = 4) {
  let b = local_alloc($A, $T);
  local_store(b, load(x + $FROM));
  store(y + $TO, local_gather(b, load(i + $TO), $X));
})",
                        {{"T", type},
                         {"I", index},
                         {"A", operations::text(f.buffer)},
                         {"X", std::to_string(f.axis)},
                         {"FROM", offsets(f.buffer)},
                         {"TO", offsets(shape)}})};
        job.in = {&x, &i}, job.out = {&y};
        const auto from = lines(f.buffer, f.axis), to = lines(shape, f.axis);
        std::vector<uint64_t> want(static_cast<size_t>(m));
        for (size_t l = 0; l < to.size(); ++l)
          for (size_t at : to[l]) want[at] = x.raw(from[l][size_t(i.value(at))]);
        execute(job, [&](const std::string &where) { expectBits(y, want, where); });
        if (f.extent > f.buffer[f.axis]) continue;
        // The other way: each index once, over what was there.
        std::vector<uint64_t> after = bitsOf(x);
        Array values(type, size_t(m)), z(type, size_t(n));
        values.randomBits(rng);
        for (const auto &line : to) {
          const int64_t first = rng.integer(0, f.buffer[f.axis] - 1);
          for (size_t at = 0; at < line.size(); ++at) i.set(line[at], double((first + int64_t(at)) % f.buffer[f.axis]));
        }
        for (size_t l = 0; l < to.size(); ++l)
          for (size_t at : to[l]) after[from[l][size_t(i.value(at))]] = values.raw(at);
        Job back{replace(R"(
kernel k(x: *$T, v: *$T, i: *$I, z: *$T) launch(num_warps = 4) {
  let b = local_alloc($A, $T);
  local_store(b, load(x + $FROM));
  local_scatter(b, load(v + $TO), load(i + $TO), $X);
  store(z + $FROM, local_load(b));
})",
                         {{"T", type},
                          {"I", index},
                          {"A", operations::text(f.buffer)},
                          {"X", std::to_string(f.axis)},
                          {"FROM", offsets(f.buffer)},
                          {"TO", offsets(shape)}})};
        back.in = {&x, &values, &i}, back.out = {&z};
        execute(back, [&](const std::string &where) { expectBits(z, after, where); });
      }
}

TEST_CASE("buffers: a storage of buffers that share their bytes") {
  Rng rng(4);
  Array x("f32", 256), y("u32", 512);
  x.randomBits(rng);
  // b sees the bytes of a; c lies behind d in each slot, and both together are as large as a.
  Job job{R"(
kernel k(x: *f32, y: *u32) launch(num_warps = 4) {
  let s = storage_alias_spec();
  let a = local_alloc([128], f32, 2, reuse = s);
  let b = local_alloc([32], u32, 8, reuse = s);
  let c = local_alloc([64], u32, 2, reuse = s);
  let d = local_alloc([64], u32, 2, reuse = s);
  set_buffer_overlap(s, reuse_group([a, reuse_group([b], group_size = 4), reuse_group([d, c], "distinct")]));
  for i in range(0, 2) { local_store(a[i], load(x + i * 128 + arange(0, 128))); }
  for i in range(0, 8) { store(y + i * 32 + arange(0, 32), local_load(b[i])); }
  for i in range(0, 2) {
    store(y + 256 + i * 128 + arange(0, 64), local_load(d[i]));
    store(y + 320 + i * 128 + arange(0, 64), local_load(c[i]));
  }
})"};
  job.in = {&x}, job.out = {&y};
  std::vector<uint64_t> want = bitsOf(x);
  want.insert(want.end(), want.begin(), want.begin() + 256);
  execute(job, [&](const std::string &where) { expectBits(y, want, where, true); });
}

TEST_CASE("buffers: a storage without groups, and what stands beside one another keeps apart") {
  Rng rng(5);
  Array x("f16", 64 * 64), y("f16", 3 * 64 * 64);
  x.randomBits(rng);
  Job job{R"(
kernel k(x: *f16, y: *f16) launch(num_warps = 4) {
  let (r, c) = (arange(0, 64)[:, None], arange(0, 64)[None, :]);
  let s = storage_alias_spec();
  let a = local_alloc([64, 64], f16, reuse = s);
  let t = local_alloc([4096], f16, reuse = s);
  let u = storage_alias_spec(32768);
  let p = local_alloc([64, 64], f16, reuse = u);
  let q = local_alloc([128], f32, reuse = u);
  let o = local_alloc([64, 64], f16, reuse = u);
  set_buffer_overlap(u, reuse_group([p, q, o], "distinct"));
  local_store(q, arange(0, 128).to(f32));
  local_store(a, load(x + r * 64 + c));
  store(y + r * 64 + c, local_load(a));
  local_store(t, load(x + 4095 - arange(0, 4096)));
  store(y + 4096 + arange(0, 4096), local_load(t));
  local_store(p, load(x + r * 64 + c));
  local_store(o, local_load(p).T);
  store(y + 8192 + r * 64 + c, local_load(o) + (sum(local_load(q), axis = 0) - 8128.0).to(f16));
})"};
  job.in = {&x}, job.out = {&y};
  std::vector<uint64_t> want = bitsOf(x);
  for (size_t i = 0; i < 4096; ++i) want.push_back(x.raw(4095 - i));
  for (size_t r = 0; r < 64; ++r)
    for (size_t c = 0; c < 64; ++c) {
      Array one("f16", 1);
      one.setRaw(0, x.raw(c * 64 + r));
      one.set(0, one.value(0) + 0.0); // -0.0 becomes 0.0
      want.push_back(one.raw(0));
    }
  execute(job, [&](const std::string &where) { expectBits(y, want, where); });
}

// A storage of bytes, seen by wgmma and TMA in the forms that these need: the same as if the buffers had been allocated so.
TEST_CASE("buffers: views of bytes for units") {
  check({R"(
kernel k(a: tensor_desc<f16, [64, 64]>, b: tensor_desc<f16, [64, 64]>, c: tensor_desc<f32, [64, 64]>) launch(num_warps = 4) {
  let full = alloc_barriers(1);
  let s = storage_alias_spec();
  let raw = local_alloc([64, 128], u8, 2, reuse = s);
  let out = local_alloc([64, 64], f32, reuse = s);
  let tiles = local_reinterpret(raw, f16);
  let flat = local_alloc([4096], f16);
  let other = local_reshape(flat, [64, 64]);
  barrier_expect_bytes(full[0], bytes_of(a) + bytes_of(b));
  async_descriptor_load(a, tiles[1], [0, 0], full[0]);
  async_descriptor_load(b, other, [0, 0], full[0]);
  barrier_wait(full[0], 0);
  let acc = async_dot_wait(0, async_dot(tiles[1], other));
  local_store(out, acc);
  async_descriptor_store(c, out, [0, 0]);
  async_descriptor_store_wait(0);
})",
         {},
         {Matrix("f16", 64, 64), Matrix("f16", 64, 64)},
         Matrix("f32", 64, 64)},
        [](const std::vector<Matrix> &in, int64_t r, int64_t c) {
          return sum(
              64, [&](int64_t k) { return in[0](r, k); }, [&](int64_t k) { return in[1](k, c); });
        });
}

TEST_CASE("buffers: the map of shared memory names the buffers of a storage") {
  tlx::Context context;
  tlx::CompileOptions o;
  o.fileName = "k.tlx", o.target = "sm_90a", o.image = TLX_IMAGE_SIMULATOR;
  try {
    context.compile(R"(kernel k(p: *f32) launch(num_warps = 4) {
  let s = storage_alias_spec(300000);
  let a = local_alloc([64, 64], f32, 2, reuse = s);
  let b = local_alloc([64, 64], f16, 4, reuse = s);
  let c = local_alloc([64], f32, 2, reuse = s);
  set_buffer_overlap(s, reuse_group([a, reuse_group([reuse_group([b], group_size = 2), c], "distinct")]));
  local_store(a[0], zeros([64, 64], f32));
  local_store(b[3], zeros([64, 64], f16));
  store(p + arange(0, 64), local_load(c[0]));
})",
                    o);
    CHECK(false);
  } catch (const tlx::Error &e) {
    const std::string message = nlohmann::json::parse(e.diagnosticsJson())[0]["message"].get<std::string>();
    CHECK(message ==
          "the kernel needs 300032 bytes of shared memory, sm_90a has 232448; lower num_stages or take smaller tiles:"
          "\n         0 ..   300032  buffer<u8[128], 2344, smem>  storage of 3 buffers (line 2)"
          "\n         0 ..    33792    buffer<f32[64, 64], 2, smem>  1 every 17408 bytes (line 3)"
          "\n         0 ..    33792    buffer<f16[64, 64], 4, smem>  2 every 17408 bytes (line 4)"
          "\n     16384 ..    34048    buffer<f32[64], 2, smem>  1 every 17408 bytes (line 5)");
  }
}
