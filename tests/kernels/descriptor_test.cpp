// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tensor descriptors: blocks inside, across and outside the edges of strided tensors, of every rank and type, loaded,
// stored and combined. The tensors' memory ends with their last element, so that a byte too much is a finding.
#include "operations.h"

using namespace operations;

namespace {

using Index = std::vector<int64_t>;

struct View {
  Index shape, strides;
  size_t elements() const {
    int64_t last = 0;
    for (size_t d = 0; d < shape.size(); ++d) last += (shape[d] - 1) * strides[d];
    return size_t(last) + 1;
  }
  bool inside(const Index &at) const {
    for (size_t d = 0; d < shape.size(); ++d)
      if (at[d] < 0 || at[d] >= shape[d]) return false;
    return true;
  }
  size_t offset(const Index &at) const {
    int64_t o = 0;
    for (size_t d = 0; d < shape.size(); ++d) o += at[d] * strides[d];
    return size_t(o);
  }
};

/// Strides that are multiples of 16 bytes, rows with a gap behind them.
View strided(const Index &shape, unsigned elementBytes) {
  const int64_t unit = 16 / elementBytes;
  View v{shape, Index(shape.size(), 1)};
  int64_t size = (shape.back() + unit - 1) / unit * unit + unit;
  for (size_t d = shape.size() - 1; d-- > 0;) v.strides[d] = size, size *= shape[d];
  return v;
}

void eachElement(const Index &block, const std::function<void(const Index &, size_t)> &f) {
  Index at(block.size(), 0);
  for (size_t i = 0;; ++i) {
    f(at, i);
    size_t d = block.size();
    while (d-- > 0 && ++at[d] == block[d]) at[d] = 0;
    if (d == size_t(-1)) return;
  }
}

Index plus(const Index &a, const Index &b) {
  Index out = a;
  for (size_t d = 0; d < b.size(); ++d) out[d] += b[d];
  return out;
}

std::string list(const Index &v, const char *suffix = "") {
  std::string out = "[";
  for (size_t d = 0; d < v.size(); ++d) out += (d ? ", " : "") + std::to_string(v[d]) + suffix;
  return out + "]";
}

struct Case {
  const char *type;
  Index block, shape;
  std::vector<Index> starts;
  unsigned warps = 4;
  int64_t multiple = 1; // of the last index, known while compiling
};

/// c[block] = a's block at `start`; then d's block at `start` = that block, on a tensor of a's shape.
void checkOne(const Case &c, const std::string &target) {
  const unsigned rank = unsigned(c.block.size());
  std::string names, indices;
  for (unsigned d = 0; d < rank; ++d) {
    const bool scaled = d + 1 == rank && c.multiple > 1;
    names += ", at" + std::to_string(d) + ": i32";
    indices += (d ? ", at" : "at") + std::to_string(d) + (scaled ? " * " + std::to_string(c.multiple) : "");
  }
  const std::string desc = "tensor_desc<" + std::string(c.type) + ", " + list(c.block) + ">";
  const std::string text = "kernel k(first: i32, a: " + desc + ", c: *" + c.type + ", d: " + desc + names +
                           ") launch(num_warps = " + std::to_string(c.warps) +
                           ") requires(first == 7, aligned(c, 16)) {\n  let x = a.load([" + indices +
                           "]);\n  store(c + " + offsets(c.block) + ", x);\n  d.store([" + indices + "], x);\n}\n";
  Program program;
  try {
    program = compileText(text, {"descriptors.tlx", "", {}, {}}, target);
  } catch (const std::exception &e) {
    std::string why = e.what();
    CHECK_MESSAGE(false, why, "\n", text);
    return;
  }
  const Type &t = typeOf(c.type);
  const View view = strided(c.shape, t.bytes());
  Rng rng(uint64_t(rank) * 100 + t.bits);
  Array a(c.type, view.elements()), out(c.type, size_t(product(c.block, 0, rank))), d(c.type, view.elements());
  a.randomBits(rng);
  auto upload = [&](const Array &x) {
    tlx::Buffer b = program.device.allocate(x.data.size());
    b.write(x.data.data());
    return b;
  };
  tlx::Buffer source = upload(a);
  std::vector<Setting> all{{target}};
  if (onSimulator()) all.push_back({target, TLX_SCHEDULE_LATE}), all.push_back({target, TLX_SCHEDULE_RANDOM, 3});
  harness::Tensor like(c.type, view.elements());
  for (const Index &start : c.starts)
    for (const Setting &setting : all) {
      std::fill(out.data.begin(), out.data.end(), 0xa5);
      std::fill(d.data.begin(), d.data.end(), 0x5a);
      std::vector<uint64_t> want(out.count), stored = bitsOf(d);
      eachElement(c.block, [&](const Index &at, size_t i) {
        const Index where = plus(at, start);
        want[i] = view.inside(where) ? a.raw(view.offset(where)) : 0;
        if (view.inside(where)) stored[view.offset(where)] = want[i];
      });
      tlx::Buffer to = upload(out), back = upload(d);
      tlx::Tensor from = tensor(source, like, c.shape, view.strides), into = tensor(back, like, c.shape, view.strides);
      std::vector<tlx::Arg> args{int32_t(7), from, to, into};
      for (unsigned i = 0; i < rank; ++i) args.push_back(int32_t(i + 1 == rank ? start[i] / c.multiple : start[i]));
      const std::string problem = program.run({1, 1, 1}, args, setting);
      CHECK_MESSAGE(problem == "", setting.text(), " at ", list(start), "\n", text);
      to.read(out.data.data()), back.read(d.data.data());
      const std::string where = setting.text() + " " + desc + " of " + list(c.shape) + " at " + list(start);
      expectBits(out, want, where + " load"), expectBits(d, stored, where + " store");
    }
}

/// With TMA also by tensor maps, which need a last index that is known to be a multiple of 16 bytes.
void check(Case c, const std::string &target) {
  checkOne(c, target);
  if (target != "sm_90a" || c.multiple > 1) return;
  c.multiple = 16 / typeOf(c.type).bytes();
  for (Index &start : c.starts) start.back() -= (start.back() % c.multiple + c.multiple) % c.multiple;
  checkOne(c, target);
}

struct Combine {
  const char *type, *kind;
};

/// Four programs combine their blocks with the same one, which begins at (row, first) of a tensor of so many columns:
/// their order does not matter for integers that are small enough to be exact.
void combine(const Combine &c, int64_t row, int64_t first, int64_t columns, const std::string &target) {
  const std::string text =
      replace("kernel k(a: tensor_desc<$T, [16, 32]>, d: tensor_desc<$T, [16, 32]>) launch(num_warps = 4) {\n"
              "  d.store([$R, $C], a.load([program_id(0) * 16, 0]), reduce = \"$K\");\n}\n",
              {{"T", c.type}, {"K", c.kind}, {"R", std::to_string(row)}, {"C", std::to_string(first)}});
  Program program;
  try {
    program = compileText(text, {"descriptors.tlx", "", {}, {}}, target);
  } catch (const std::exception &e) {
    std::string why = e.what();
    CHECK_MESSAGE(false, why, "\n", text);
    return;
  }
  Rng rng(5);
  const Type &t = typeOf(c.type);
  const View from = strided({64, 32}, t.bytes()), to = strided({17, columns}, t.bytes());
  Array a(c.type, from.elements()), d(c.type, to.elements());
  a.integers(rng, t.isSigned ? -9 : 0, 9), d.integers(rng, t.isSigned ? -9 : 0, 9);
  std::vector<uint64_t> want = bitsOf(d);
  const Array before = d;
  auto combined = [&](Array &x, size_t i, double v, Wide bits) {
    const std::string kind = c.kind;
    if (kind == "add") x.set(i, x.value(i) + v);
    if (kind == "min") x.set(i, std::min(x.value(i), v));
    if (kind == "max") x.set(i, std::max(x.value(i), v));
    if (kind == "and") x.setRaw(i, wrap(t, x.integer(i) & bits));
    if (kind == "or") x.setRaw(i, wrap(t, x.integer(i) | bits));
    if (kind == "xor") x.setRaw(i, wrap(t, x.integer(i) ^ bits));
  };
  Array sum = before;
  for (int64_t program = 0; program < 4; ++program)
    for (int64_t r = 0; r < 16; ++r)
      for (int64_t column = 0; column < 32; ++column) {
        const size_t at = from.offset({program * 16 + r, column});
        const Index where{row + r, first + column};
        if (to.inside(where)) combined(sum, to.offset(where), a.value(at), t.isFloat ? Wide(0) : a.integer(at));
      }
  want = bitsOf(sum);
  harness::Tensor likeA(c.type, a.count), likeD(c.type, d.count);
  tlx::Buffer source = program.device.allocate(a.data.size()), out = program.device.allocate(d.data.size());
  source.write(a.data.data());
  std::vector<Setting> all{{target}};
  if (onSimulator()) all.push_back({target, TLX_SCHEDULE_RANDOM, 4});
  for (const Setting &setting : all) {
    out.write(before.data.data());
    tlx::Tensor x = tensor(source, likeA, from.shape, from.strides), y = tensor(out, likeD, to.shape, to.strides);
    const std::string problem = program.run({4, 1, 1}, {x, y}, setting);
    CHECK_MESSAGE(problem == "", setting.text(), "\n", text);
    out.read(d.data.data());
    expectBits(d, want, setting.text() + " " + c.type + " " + c.kind);
  }
}

} // namespace

TEST_CASE("descriptors: blocks of every type, inside and across edges") {
  for (const std::string &target : targets())
    for (const char *type :
         {"i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f8e4m3", "f8e5m2", "f16", "bf16", "f32", "f64"})
      check({type, {16, 32}, {19, 45}, {{0, 0}, {8, 16}, {-3, -5}, {3, 13}, {-16, 0}, {19, 0}, {0, 45}}}, target);
}

TEST_CASE("descriptors: every rank") {
  for (const std::string &target : targets()) {
    check({"f32", {64}, {75}, {{0}, {11}, {12}, {-1}, {75}}}, target);
    check({"f16", {8, 16}, {9, 17}, {{0, 0}, {1, 1}, {-1, 8}}}, target);
    check({"i32", {4, 8, 16}, {5, 9, 18}, {{0, 0, 0}, {1, 1, 2}, {-1, -2, -3}, {4, 8, 17}}}, target);
    check({"bf16", {2, 4, 2, 16}, {3, 5, 3, 20}, {{0, 0, 0, 0}, {1, 1, 1, 4}, {-1, 2, -1, 12}}}, target);
    check({"f32", {2, 2, 2, 2, 8}, {3, 3, 3, 3, 9}, {{0, 0, 0, 0, 0}, {1, 1, 1, 1, 1}, {-1, 1, -1, 1, -1}}, 1}, target);
  }
}

// The index is a multiple of a vector, the extent is not: whole vectors, and the one that the edge cuts.
TEST_CASE("descriptors: an edge inside a vector") {
  for (const std::string &target : targets())
    for (int64_t columns : {41, 47, 48, 33}) {
      check({"f16", {16, 32}, {19, columns}, {{0, 0}, {4, 16}, {2, 32}, {-3, -16}, {3, 24}}, 1, 8}, target);
      check({"i8", {16, 64}, {19, columns}, {{0, 0}, {4, 16}, {2, 32}}, 4, 16}, target);
      check({"f32", {16, 32}, {16, columns}, {{0, 0}, {0, 20}, {0, 32}}, 2, 4}, target);
    }
}

// More than a message holds, in rows that no swizzle pattern fits.
TEST_CASE("descriptors: long rows") {
  for (const std::string &target : targets()) {
    check({"f32", {512}, {700}, {{0}, {188}, {300}, {-8}}}, target);
    check({"i8", {3, 512}, {4, 1000}, {{0, 0}, {1, 488}, {2, 600}}}, target);
    check({"f16", {2, 2, 384}, {3, 3, 400}, {{0, 0, 0}, {1, 1, 16}, {2, 2, 120}}}, target);
  }
}

TEST_CASE("descriptors: a block with odd factors") {
  for (const std::string &target : targets())
    check({"f16", {48, 80}, {50, 100}, {{0, 0}, {2, 20}, {16, 64}, {-1, -8}}, 4}, target);
}

// The largest index and the smallest: nothing is inside, and nothing is touched.
TEST_CASE("descriptors: indices at the ends of i32") {
  for (const std::string &target : targets())
    check({"f32",
           {8, 16},
           {8, 16},
           {{2147483647, 0}, {0, 2147483647}, {-2147483647 - 1, 0}, {0, -2147483647 - 1}, {2147483640, 2147483640}},
           1},
          target);
}

TEST_CASE("descriptors: stores that combine") {
  const Combine table[] = {{"i32", "add"}, {"u32", "add"}, {"u64", "add"},  {"f16", "add"}, {"bf16", "add"},
                           {"f32", "add"}, {"i32", "min"}, {"i32", "max"},  {"u32", "min"}, {"u32", "max"},
                           {"i64", "min"}, {"u64", "max"}, {"i32", "and"},  {"u32", "or"},  {"i32", "xor"},
                           {"u64", "xor"}, {"f16", "max"}, {"bf16", "min"}, {"f32", "min"}, {"f32", "max"},
                           {"f64", "add"}, {"f64", "min"}, {"f64", "max"}};
  // Column 5 is no multiple of 16 bytes, which TMA needs; it takes no negative index, nor rows of 42 elements.
  for (const std::string &target : targets())
    for (const Combine &c : table) {
      combine(c, 2, 5, 40, target);
      combine(c, 2, 8, 40, target);
      combine(c, -3, 8, 40, target);
      combine(c, 2, 16, 42, target); // an even number: the neighbour in a word of 32 bits is read with f16
    }
}
