// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tensors as arguments, end to end: a kernel copies one tensor to another by blocks that start anywhere, before and behind the tensor too.
// What lies outside reads as zero and is not written. Bytes are compared, so every type is exact; targets with tensor maps and without.
#include <algorithm>
#include <doctest/doctest.h>

#include "harness.h"

using namespace harness;

namespace {

using Ints = std::vector<int64_t>;

struct View {
  Ints shape, strides; // elements; no strides: dense
  int64_t offset = 0;  // of element 0 in the memory

  Ints dense() const {
    Ints result(shape.size());
    int64_t stride = 1;
    for (size_t d = shape.size(); d-- > 0; stride *= std::max<int64_t>(shape[d], 1)) result[d] = stride;
    return result;
  }
  const Ints withStrides() const { return strides.empty() ? dense() : strides; }
  int64_t span() const { // elements up to the last one, plus some that must stay as they are
    int64_t last = offset;
    for (size_t d = 0; d < shape.size(); ++d)
      if (shape[d] > 1) last += (shape[d] - 1) * withStrides()[d];
    return last + 64;
  }
};

/// The offsets of all elements of `view` that are inside `shape`, by index in row-major order over view.shape; -1 outside.
Ints offsetsIn(const View &view, const Ints &over) {
  Ints result, index(over.size(), 0), strides = view.withStrides();
  if (std::find(over.begin(), over.end(), 0) != over.end()) return result;
  for (;;) {
    int64_t at = view.offset;
    for (size_t d = 0; d < over.size(); ++d) at = index[d] < view.shape[d] && at >= 0 ? at + index[d] * strides[d] : -1;
    result.push_back(at);
    size_t d = over.size();
    while (d-- > 0 && ++index[d] == over[d]) index[d] = 0;
    if (d == size_t(-1)) return result;
  }
}

std::string list(const Ints &values) {
  std::string text;
  for (int64_t v : values) text += (text.empty() ? "" : ", ") + std::to_string(v);
  return "[" + text + "]";
}

/// y.store(at, x.load(at)) at coordinates (id - 1) * block + shift: from before the tensor to behind it.
std::string kernelText(const std::string &type, const Ints &block, const Ints &counts, const Ints &shifts) {
  const std::string desc = "tensor_desc<" + type + ", " + list(block) + ">";
  std::string text =
                  "kernel copy(x: " + desc + ", y: " + desc + ") launch(num_warps = 4) {\n  let p0 = program_id(0);\n",
              at;
  for (size_t d = 0; d < block.size(); ++d) {
    const std::string n = std::to_string(d), next = std::to_string(d + 1);
    const std::string count = std::to_string(counts[d]), extent = std::to_string(block[d]),
                      shift = std::to_string(shifts[d]);
    text += "  let (at" + n + ", p" + next + ") = ((p" + n + " % " + count + " - 1) * " + extent + " + " + shift +
            ", p" + n + " / " + count + ");\n";
    at += (at.empty() ? "at" : ", at") + n;
  }
  return text + "  y.store([" + at + "], x.load([" + at + "]));\n}\n";
}

void copies(const std::string &type, size_t bytes, const Ints &block, const View &x, const View &y,
            bool nullX = false) {
  Ints counts, shifts;
  int64_t programs = 1;
  for (size_t d = 0; d < block.size(); ++d) {
    shifts.push_back(block[d] > 1 ? 1 + int64_t(d) % (block[d] - 1) : 0);
    counts.push_back((y.shape[d] + block[d] - 1) / block[d] + 2);
    programs *= counts[d];
  }
  Rng rng(7);
  Tensor from("u8", size_t(x.span()) * bytes), to("u8", size_t(y.span()) * bytes), want("u8", to.count());
  // Floats are no NaNs: which payload a NaN keeps is not promised, and the simulator's host does not keep a bf16's across a branch.
  const bool isFloat = type[0] == 'f' || type[0] == 'b';
  for (size_t i = 0; i < from.count(); ++i)
    from.set(i, double(rng.integer(0, 255) & (isFloat && i % bytes == bytes - 1 ? 0xbf : 0xff)));
  want.poison();
  const Ints sources = offsetsIn(x, y.shape), targets = offsetsIn(y, y.shape);
  for (size_t i = 0; i < targets.size(); ++i)
    for (size_t b = 0; b < bytes; ++b)
      want.set(size_t(targets[i]) * bytes + b, sources[i] < 0 ? 0 : from.get(size_t(sources[i]) * bytes + b));
  const tlx_dtype dtype = tlx_dtype(tlx_dtype_from_name(type.c_str()));
  REQUIRE(dtype);
  const tlx::Buffer dx = upload(from);
  for (const std::string &target : harness::targets()) {
    const Program program = compileText(kernelText(type, block, counts, shifts), {"copy.tlx", "copy"}, target);
    for (const Setting &setting : settings(target, 1)) {
      to.poison();
      const tlx::Buffer dy = upload(to);
      auto address = [&](const tlx::Buffer &b, int64_t offset) {
        return static_cast<char *>(b.data()) + offset * int64_t(bytes);
      };
      const tlx::Tensor xt(nullX ? nullptr : address(dx, x.offset), dtype, x.shape, x.withStrides());
      const tlx::Tensor yt(address(dy, y.offset), dtype, y.shape, y.withStrides());
      INFO(setting.text() << " " << type << " block " << list(block) << " x " << list(x.shape) << " y "
                          << list(y.shape));
      const std::string problem = program.run({uint32_t(programs)}, {xt, yt}, setting);
      CHECK_MESSAGE(problem.empty(), problem);
      download(to, dy);
      CHECK(std::memcmp(to.data(), want.data(), to.bytes()) == 0);
    }
  }
}

} // namespace

TEST_CASE("tensor arguments: every type") {
  const std::pair<const char *, int64_t> types[] = {{"i8", 1},  {"u8", 1},  {"f8e4m3", 1}, {"f8e5m2", 1}, {"i16", 2},
                                                    {"u16", 2}, {"f16", 2}, {"bf16", 2},   {"i32", 4},    {"u32", 4},
                                                    {"f32", 4}, {"i64", 8}, {"u64", 8},    {"f64", 8}};
  for (const auto &[type, bytes] : types) {
    const int64_t columns = 50, pitch = (columns * bytes + 15) / 16 * 16 / bytes;
    copies(type, size_t(bytes), {8, 32}, {{19, columns}, {pitch, 1}}, {{19, columns}, {pitch + 16 / bytes, 1}});
  }
}

TEST_CASE("tensor arguments: rank 1 to 5") {
  copies("f16", 2, {64}, {{150}}, {{150}});
  copies("f16", 2, {16, 16}, {{33, 24}}, {{33, 24}});
  copies("f16", 2, {2, 8, 16}, {{3, 13, 24}}, {{3, 13, 24}});
  copies("f32", 4, {2, 2, 4, 8}, {{3, 2, 5, 12}}, {{3, 2, 5, 12}});
  copies("f32", 4, {1, 2, 2, 4, 8}, {{2, 2, 3, 5, 12}}, {{2, 2, 3, 5, 12}});
}

TEST_CASE("tensor arguments: strides") {
  const View dense{{20, 40}};
  copies("f16", 2, {16, 32}, {{20, 40}, {64, 1}, 8}, {{20, 40}, {48, 1}, 16}); // inside something larger
  copies("f16", 2, {16, 32}, {{20, 40}, {8, 1}}, dense);                       // rows overlap
  copies("f16", 2, {16, 32}, {{20, 40}, {0, 1}}, dense);                       // one row for all
  copies("f16", 2, {4, 4, 16}, {{5, 6, 24}, {24, 120, 1}}, {{5, 6, 24}});      // two dimensions exchanged
  copies("f16", 2, {16, 32}, {{1, 40}, {3, 1}}, {{1, 40}}); // the stride of an extent of 1 is not read
  copies("f16", 2, {16, 32}, {{20, 1}, {8, 77}}, {{20, 1}, {8, 1}});
}

TEST_CASE("tensor arguments: an empty tensor reads as zeros and takes no stores") {
  const View y{{20, 40}}, none{{0, 40}}, narrow{{20, 0}, {8, 1}};
  copies("f16", 2, {16, 32}, none, y);
  copies("f16", 2, {16, 32}, none, y, true); // no address
  copies("f16", 2, {16, 32}, narrow, y);
  copies("f16", 2, {16, 32}, y, none);
  copies("f16", 2, {16, 32}, y, narrow);
}

TEST_CASE("tensor arguments: noalias sees them") {
  if (!onSimulator()) return; // real devices do not check it
  const std::string text =
      "kernel f(p: *f32, x: tensor_desc<f32, [8, 32]>) launch(num_warps = 4) requires(noalias(p)) {\n"
      "  store(p + arange(0, 8)[:, None] * 32 + arange(0, 32)[None, :], x.load([0, 0]));\n}\n";
  Tensor values("f32", 8 * 32);
  Rng rng(1);
  fill(values, rng, Fill::Integers);
  for (const std::string &target : harness::targets()) {
    CAPTURE(target);
    const Program program = compileText(text, {"f.tlx", "f"}, target);
    const tlx::Buffer in = upload(values), out = upload(values);
    CHECK(program.run({1}, {out, tensor(in, values, {8, 32})}, {target}) == "");
    const std::string problem = program.run({1}, {in, tensor(in, values, {8, 32})}, {target});
    CHECK(problem.find("'x' points into the same memory as 'p'") != std::string::npos);
  }
}
