// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Layouts that TMA writes, against a model of the unit: a message writes its box row after row, and permutes 16-byte units by address bits
// (PTX ISA, "Tensor swizzling modes").
#include "testing.h"

#include "llvm/ADT/STLExtras.h"

#include "layout/message_layout.h"

using namespace tlx::layout;
using namespace tlx::layout::testing;

namespace {

uint64_t swizzled(uint64_t address, unsigned swizzle) {
  const uint64_t mask = swizzle / 16 ? swizzle / 16 - 1 : 0;
  return address ^ ((address >> 7 & mask) << 4);
}

/// Calls f(element, byte address) for what one message does to memory, or says that the unit refuses the message.
template <typename F> bool message(const Messages &m, const Messages::One &one, unsigned bytes, F f) {
  const unsigned rank = m.box.size();
  const uint64_t start = uint64_t(one.offset) * bytes;
  const uint64_t row = uint64_t(m.box[rank - 1]) * bytes;
  for (uint32_t e : m.box)
    if (e < 1 || e > 256) return false;
  if (row % 16 || (m.swizzle && row != m.swizzle) || start % (m.swizzle ? 8 * m.swizzle : 128)) return false;
  Coord p(one.at);
  for (uint64_t next = start;; next += bytes) { // row-major
    f(p, swizzled(next, m.swizzle));
    unsigned d = rank;
    while (d-- > 0) {
      if (++p[d] < one.at[d] + int32_t(m.box[d])) break;
      p[d] = one.at[d];
    }
    if (d == ~0u) return true;
  }
}

/// The messages of a layout put every element, once, where the layout says.
void checkMessages(const SharedLayout &l, unsigned bits) {
  const auto m = messagesOf(l, bits);
  REQUIRE(m);
  const unsigned bytes = bits / 8;
  size_t elements = 1, outside = 0, wrong = 0;
  for (int64_t e : l.shape()) elements *= size_t(e);
  std::vector<unsigned> written(elements), taken(elements);
  for (const Messages::One &one : m->list) {
    const bool accepted = message(*m, one, bytes, [&](const Coord &p, uint64_t address) {
      size_t number = 0;
      for (unsigned d = 0; d < l.rank(); ++d) {
        outside += p[d] >= l.shape()[d];
        number = number * size_t(l.shape()[d]) + size_t(p[d]);
      }
      if (outside) return;
      ++written[number];
      wrong += address != uint64_t(l.offsetOf(p)) * bytes;
      if (address / bytes < elements) ++taken[address / bytes];
    });
    REQUIRE_MESSAGE(accepted, "the unit refuses a message at offset ", one.offset);
  }
  CHECK(outside == 0);
  CHECK(wrong == 0);
  CHECK(llvm::all_of(written, [](unsigned n) { return n == 1; }));
  CHECK(llvm::all_of(taken, [](unsigned n) { return n == 1; }));
  // Tiles of a ring follow one another, each aligned as its pattern needs.
  CHECK(l.elements() == int64_t(elements));
}

std::string text(llvm::ArrayRef<int64_t> shape, unsigned bits, unsigned swizzle) {
  std::string s = std::to_string(bits) + " bits, swizzle " + std::to_string(swizzle) + ":";
  for (int64_t e : shape) s += " " + std::to_string(e);
  return s;
}

/// Whether a tile can have this swizzle, from the definition: it is a number of columns as wide as the pattern, each of whole patterns
/// of 8 rows (so that columns and tiles of a ring start with one).
bool possible(llvm::ArrayRef<int64_t> shape, unsigned bits, unsigned swizzle) {
  int64_t rows = 1, inner = shape.back() * bits / 8;
  for (int64_t e : shape.drop_back()) rows *= e;
  return inner % swizzle == 0 && rows % 8 == 0;
}

/// The same without a swizzle: a message has at most 256 columns, rows of 16 bytes, and starts at a multiple of 128 bytes.
bool possiblePlain(int64_t columns, unsigned bits) {
  const int64_t bytes = bits / 8;
  bool parts = false;
  for (int64_t part = 1; part <= 256; ++part) parts |= columns % part == 0 && part * bytes % 128 == 0;
  return columns * bytes % 16 == 0 && (columns <= 256 || parts);
}
} // namespace

TEST_CASE("messages: matrices of every width and height, all swizzles") {
  unsigned found = 0;
  for (unsigned bits : {8u, 16u, 32u, 64u})
    for (int64_t rows : {1, 2, 3, 8, 12, 16, 24, 40, 64, 80, 120, 208, 256, 320, 512})
      for (int64_t columns : {8, 16, 32, 48, 64, 80, 96, 128, 176, 192, 208, 240, 256, 320, 384, 480, 512, 960, 1024})
        for (unsigned swizzle : {0u, 32u, 64u, 128u}) {
          if (rows * columns > 40000) continue;
          const Shape shape{rows, columns};
          CAPTURE(text(shape, bits, swizzle));
          const auto l = messageLayout(shape, bits, swizzle);
          if (swizzle)
            REQUIRE(l.has_value() == possible(shape, bits, swizzle));
          else
            REQUIRE(l.has_value() == possiblePlain(columns, bits));
          if (!l) continue;
          ++found;
          checkMessages(*l, bits);
        }
  CHECK(found > 1000);
}

TEST_CASE("messages: every rank") {
  const std::vector<Shape> shapes{{16},
                                  {64},
                                  {256},
                                  {48},
                                  {512},
                                  {3, 2, 384},
                                  {8192},
                                  {2, 8, 64},
                                  {3, 16, 32},
                                  {4, 6, 64},
                                  {2, 24, 64},
                                  {5, 8, 96},
                                  {1, 128, 64},
                                  {128, 1, 64},
                                  {2, 4, 64},
                                  {2, 2, 2, 64},
                                  {3, 5, 8, 16},
                                  {2, 320, 32},
                                  {3, 1, 8, 32},
                                  {1, 1, 1, 64},
                                  {2, 3, 2, 2, 32},
                                  {2, 2, 2, 2, 64},
                                  {1, 1, 1, 8, 128},
                                  {2, 1, 16, 1, 16},
                                  {15, 16, 16},
                                  {2, 2, 6, 48},
                                  {4, 12, 80}};
  unsigned found = 0;
  for (const Shape &shape : shapes)
    for (unsigned bits : {8u, 16u, 32u, 64u})
      for (unsigned swizzle : {0u, 32u, 64u, 128u}) {
        CAPTURE(text(shape, bits, swizzle));
        const auto l = messageLayout(shape, bits, swizzle);
        if (swizzle && !possible(shape, bits, swizzle)) CHECK_FALSE(l);
        if (!l) continue;
        ++found;
        checkMessages(*l, bits);
      }
  CHECK(found > 150);
  // With whole patterns below every odd factor there is a form.
  CHECK(messageLayout({5, 8, 96}, 16, 64));
  // 12 rows are no whole patterns: the next 12 start inside one, where no integer stride leads.
  for (unsigned swizzle : {32u, 64u, 128u}) CHECK_FALSE(messageLayout({2, 12, 64}, 16, swizzle));
  CHECK_FALSE(messageLayout({2, 2, 2, 2, 2, 64}, 16, 128)); // six dimensions
  CHECK_FALSE(messageLayout({}, 16, 0));
}

TEST_CASE("messages: the widest swizzle is chosen") {
  auto chosen = [](Shape shape, unsigned bits) {
    const auto l = messageLayout(shape, bits);
    return l ? int(messagesOf(*l, bits)->swizzle) : -1;
  };
  CHECK(chosen({128, 64}, 16) == 128);
  CHECK(chosen({128, 256}, 16) == 128);
  CHECK(chosen({128, 96}, 16) == 64);
  CHECK(chosen({64, 80}, 16) == 32);
  CHECK(chosen({64, 16}, 16) == 32);
  CHECK(chosen({64, 8}, 16) == 0);
  CHECK(chosen({4, 64}, 16) == 0);
  CHECK(chosen({64, 32}, 32) == 128);
  CHECK(chosen({64, 64}, 8) == 64);
  CHECK(chosen({64, 4}, 16) == -1); // rows of 8 bytes
  CHECK(chosen({2, 8, 64}, 16) == 128);
}

TEST_CASE("messages: a 256-wide row of f16 is four boxes, a tall tile two") {
  const auto wide = messagesOf(*messageLayout({64, 256}, 16), 16);
  REQUIRE(wide);
  CHECK(wide->list.size() == 4);
  CHECK(wide->box == llvm::SmallVector<uint32_t, 5>{64, 64});
  CHECK(wide->list[1].at == Coord{0, 64});
  CHECK(wide->list[1].offset == 64 * 64);
  const auto tall = messagesOf(*messageLayout({512, 64}, 16), 16);
  REQUIRE(tall);
  CHECK(tall->list.size() == 2);
  CHECK(tall->box == llvm::SmallVector<uint32_t, 5>{256, 64});
  const auto row = messagesOf(*messageLayout({512}, 32), 32);
  REQUIRE(row);
  CHECK(row->swizzle == 0);
  CHECK(row->box == llvm::SmallVector<uint32_t, 5>{256});
  CHECK(row->list.size() == 2);
  CHECK(row->list[1].offset == 256);
  const auto rows = messagesOf(*messageLayout({3, 384}, 8), 8); // one by one: a message is no rectangle of longer rows
  REQUIRE(rows);
  CHECK(rows->box == llvm::SmallVector<uint32_t, 5>{1, 128});
  CHECK(rows->list.size() == 9);
  CHECK_FALSE(messageLayout({3, 480}, 8)); // 240 bytes are no place for a message to start
}

TEST_CASE("messages: layouts that TMA does not write") {
  CHECK_FALSE(messagesOf(SharedLayout::swizzled({64, 64}, {1, 0}, 8, 1, 4), 16)); // another pattern
  CHECK_FALSE(messagesOf(messageLayout({64, 64}, 16)->transposed({1, 0}), 16));
  CHECK_FALSE(messagesOf(*messageLayout({64, 64}, 16), 32)); // of other elements
  CHECK(messagesOf(*messageLayout({64, 64}, 16, 0), 16)->swizzle == 0);
}
