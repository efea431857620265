// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Wrong programs about views, storages, accesses by index, asynchronous and bulk copies: the one message that each gives, with its place.
#include "wrong_testing.h"

using namespace tlx;
using namespace elaboration;

namespace {
/// Statements of a kernel with these names, on line 3.
std::string around(const std::string &statements) {
  return "kernel k(a: tensor_desc<f16, [64, 64]>, p: *f16, q: *f32, n: i32, c: i1) launch(num_warps = 4) {\n"
         "let one = local_alloc([64, 64], f16); let flat = local_alloc([24], f16); let full = alloc_barriers(1); "
         "let bars = alloc_warp_barrier(2, num_warps = 4); let i = arange(0, 64); let s = storage_alias_spec(); "
         "let x = local_alloc([64], f32, 4, reuse = s); let y = local_alloc([64], f16, 2, reuse = s);\n" +
         statements + "\n}\n";
}
} // namespace

TEST_SUITE_BEGIN("wrong programs");

// clang-format off
TEST_CASE("asynchronous loads") {
  const Wrong table[] = {
    {"async_load(p, one);", 3, 15, 18,
     "*f16 does not fit buffer<f16[64, 64], 1, smem>: async_load takes a tile of pointers and a buffer of one shape and element type"},
    {"async_load(q + i, y[0]);", 3, 19, 23,
     "*f32[64] does not fit buffer<f16[64], 1, smem>: async_load takes a tile of pointers and a buffer of one shape and element type"},
    {"async_load(q + i, x);", 3, 19, 20, "async_load takes one of buffer<f32[64], 4, smem>: index it, x[slot]"},
    {"async_load(q + i, x[0], other = 1.0);", 3, 33, 36, "'other' stands for masked-off elements, and there is no mask"},
    {"async_load(q + i, x[0], i < n, other = n);", 3, 40, 41,
     "'other' has type i32, and the memory is *f32; convert it with .to(f32)"},
    {"async_load_wait(n);", 3, 17, 18, "the number of groups of async_load_wait is an integer known at compile time, not i32"},
    {"async_load_wait(64);", 3, 17, 19, "the number of groups that may be in flight is from 0 to 63, not 64"},
  };
  for (const Wrong &wrong : table) check(wrong, around(wrong.text));
}

TEST_CASE("views and indices") {
  const Wrong table[] = {
    {"let v = local_reshape(one, [64, 32]);", 3, 9, 37, "cannot reshape [64, 64] with 4096 elements to [64, 32] with 2048"},
    {"let v = local_reshape(i, [8, 8]);", 3, 23, 24, "local_reshape takes a buffer of local_alloc, not i32[64]"},
    {"let v = local_reinterpret(local_slice(flat, [0], [3]), f32);", 3, 9, 60,
     "the rows of buffer<f16[3], 1, smem> have 6 bytes, which are no whole elements of f32 (4 bytes)"},
    {"let v = local_reinterpret(one, f32, shape = [64]);", 3, 9, 50,
     "cannot reshape [64, 32] with 2048 elements to [64] with 64"},
    {"let v = local_gather(one, i, 0);", 3, 27, 28,
     "local_gather of buffer<f16[64, 64], 1, smem> along axis 0 takes a tile of integers with the buffer's other extents, not i32[64]"},
    {"let v = local_gather(x[0], i.to(f32), 0);", 3, 28, 37,
     "local_gather of buffer<f32[64], 1, smem> along axis 0 takes a tile of integers with the buffer's other extents, not f32[64]"},
    {"let v = local_gather(x[0], i, 1);", 3, 31, 32, "axis 1 does not exist; the last is 0"},
    {"local_scatter(x[0], zeros([32], f32), i, 0);", 3, 21, 37,
     "local_scatter takes a value for each index, and f32[32] does not fit i32[64]"},
    {"local_scatter(x[0], i, i, 0);", 3, 21, 22,
     "the value has type i32, and the memory is buffer<f32[64], 1, smem>; convert it with .to(f32)"},
  };
  for (const Wrong &wrong : table) check(wrong, around(wrong.text));
}

TEST_CASE("storages") {
  const Wrong table[] = {
    {"let t = storage_alias_spec(n);", 3, 28, 29, "the size of a storage of storage_alias_spec is an integer known at compile time, not i32"},
    {"let t = storage_alias_spec(64); let z = local_alloc([64], f32, reuse = t);", 3, 9, 31,
     "a storage of 64 bytes is too small: its buffers take 256"},
    {"let z = local_alloc([64], f32, reuse = one);", 3, 40, 43,
     "reuse takes a storage of storage_alias_spec, not buffer<f16[64, 64], 1, smem>"},
    {"let g = reuse_group(x);", 3, 21, 22, "reuse_group takes a list of buffers of one storage and of groups of them, not buffer<f32[64], 4, smem>"},
    {"let g = reuse_group([x, n]);", 3, 25, 26, "reuse_group takes a list of buffers of one storage and of groups of them, not i32"},
    {"let g = reuse_group([x], \"beside\");", 3, 26, 34, "'group_type' is one of \"shared\", \"distinct\""},
    {"let g = reuse_group([x, y], group_size = 2);", 3, 42, 43,
     "a group_size of more than 1 is that of one buffer: write reuse_group([buffer], group_size = …) for it"},
    {"set_buffer_overlap(s, reuse_group([x, y]));", 3, 23, 42,
     "what shares a slot has as many slots: 4 and 2 differ; group_size makes one of several"},
    {"set_buffer_overlap(s, reuse_group([reuse_group([x], group_size = 3), y]));", 3, 23, 73,
     "group_size = 3 does not divide the slots of buffer<f32[64], 4, smem>, which has 4"},
    {"set_buffer_overlap(s, reuse_group([x]));", 3, 23, 39,
     "buffer<f16[64], 2, smem> is a buffer of the storage, and does not stand in the group"},
    {"set_buffer_overlap(s, reuse_group([one]));", 3, 23, 41,
     "buffer<f16[64, 64], 1, smem> in this group is no buffer of the storage: allocate it with reuse = storage"},
    {"set_buffer_overlap(s, reuse_group([x, reuse_group([x])]));", 3, 23, 57, "buffer<f32[64], 4, smem> stands in this group twice"},
    {"set_buffer_overlap(s, x);", 3, 23, 24, "set_buffer_overlap takes a group of reuse_group, not buffer<f32[64], 4, smem>"},
    {"set_buffer_overlap(x, reuse_group([x]));", 3, 20, 21,
     "set_buffer_overlap takes a storage of storage_alias_spec, not buffer<f32[64], 4, smem>"},
  };
  for (const Wrong &wrong : table) check(wrong, around(wrong.text));
  const std::string group = "set_buffer_overlap(s, reuse_group([reuse_group([x], group_size = 2), y]));\n";
  check({"", 4, 1, 74, "set_buffer_overlap has been called for this storage"}, around(group + group));
  check({"", 4, 40, 41, "set_buffer_overlap has said how the buffers of this storage lie: allocate all of them before it"},
        around(group + "let z = local_alloc([64], f32, reuse = s);"));
}

TEST_CASE("bulk copies, prefetches, hints, fences") {
  const Wrong table[] = {
    {"async_bulk_load(p, one, full[0]);", 3, 20, 23,
     "async_bulk_load takes a buffer of rank 1, not buffer<f16[64, 64], 1, smem>: see others as one with local_reshape"},
    {"async_bulk_load(q, y[0], full[0]);", 3, 17, 18, "async_bulk_load takes a pointer to the buffer's elements, and *f32 is none to f16"},
    {"async_bulk_store(q + i, x[0]);", 3, 18, 23, "async_bulk_store takes a pointer to the buffer's elements, and *f32[64] is none to f32"},
    {"async_bulk_load(q, x[0], full[0], bytes = 24);", 3, 43, 45,
     "a bulk copy moves a multiple of 16 bytes, at most the 256 of its buffer, not 24"},
    {"async_bulk_store(q, x[0], 272);", 3, 27, 30, "a bulk copy moves a multiple of 16 bytes, at most the 256 of its buffer, not 272"},
    {"async_bulk_store(p, local_slice(flat, [0], [12]));", 3, 21, 49,
     "a bulk copy moves a multiple of 16 bytes, at most the 24 of its buffer, not 24"},
    {"async_bulk_load(q, x[0], bars[0]);", 3, 26, 33,
     "async_bulk_load makes one arrival, and at a barrier of alloc_warp_barrier each warp arrives; use alloc_barriers"},
    {"async_descriptor_prefetch(p, [0, 0]);", 3, 27, 28, "async_descriptor_prefetch takes a tensor descriptor, not *f16"},
    {"async_descriptor_load(a, one, [0, 0], full[0], eviction = \"evict_never\");", 3, 59, 72,
     "'eviction' is one of \"evict_first\", \"evict_last\", \"evict_normal\""},
    {"async_descriptor_reduce(a, one, [0, 0]);", 3, 1, 24, "async_descriptor_reduce needs the argument 'kind'"},
    {"async_descriptor_reduce(a, one, [0, 0], \"xor\");", 3, 41, 46,
     "a block cannot be combined by \"xor\" in f16: integers of 32 and 64 bits have all forms, f16, bf16, f32 and f64 have add, min and max"},
    {"fence(\"warp\");", 3, 7, 13, "'scope' is one of \"cta\", \"gpu\", \"sys\", \"async_shared\", \"async_global\""},
    {"let r = async_dot_wait(0, zeros([64, 64], f32), pinned = n);", 3, 58, 59, "this argument of async_dot_wait is true or false, known at compile time, and not i32"},
  };
  for (const Wrong &wrong : table) check(wrong, around(wrong.text));
}
// clang-format on
TEST_SUITE_END();
