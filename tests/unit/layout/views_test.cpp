// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shared layouts seen in other shapes and element sizes: every element and every byte stays where it is.
#include "layout/message_layout.h"
#include "testing.h"

using namespace tlx::layout;

namespace {
Coord coordOf(int64_t index, llvm::ArrayRef<int64_t> shape) {
  Coord c(shape.size());
  for (size_t d = shape.size(); d-- > 0; index /= shape[d]) c[d] = int32_t(index % shape[d]);
  return c;
}
int64_t elementsOf(llvm::ArrayRef<int64_t> shape) {
  int64_t n = 1;
  for (int64_t e : shape) n *= e;
  return n;
}
std::vector<SharedLayout> layoutsOf(llvm::ArrayRef<int64_t> shape) {
  llvm::SmallVector<unsigned, 4> order;
  for (unsigned d = shape.size(); d-- > 0;) order.push_back(d);
  std::vector<SharedLayout> out{SharedLayout::rowMajor(shape, order)};
  if (shape.size() > 1) out.push_back(SharedLayout::swizzled(shape, order, 4, 1, 8));
  for (unsigned swizzle : {0, 32, 64, 128})
    if (auto l = messageLayout(shape, 16, swizzle)) out.push_back(*l);
  return out;
}
} // namespace

TEST_CASE("views: another shape of the same elements") {
  using Shape = llvm::SmallVector<int64_t, 4>;
  unsigned seen = 0, refused = 0;
  for (const Shape &from : {Shape{64, 64}, {4096}, {8, 4, 32}, {96, 64}, {64, 96}, {1, 128, 64}, {12, 32}, {3, 64, 64}})
    for (const Shape &to : {Shape{64, 64},
                            {16, 256},
                            {4096},
                            {2, 2, 1024},
                            {1024},
                            {3, 32, 64},
                            {96, 8, 8},
                            {6144},
                            {384},
                            {12288},
                            {128, 64},
                            {1, 64, 64},
                            {32, 2, 96},
                            {64, 3, 32},
                            {192, 64}})
      for (const SharedLayout &l : layoutsOf(from)) {
        if (elementsOf(from) != elementsOf(to)) {
          CHECK(!l.reshaped(to));
          continue;
        }
        auto view = l.reshaped(to);
        ++(view ? seen : refused);
        if (!view) continue;
        CAPTURE(l.str());
        CAPTURE(view->str());
        bool same = view->shape() == llvm::ArrayRef<int64_t>(to);
        for (int64_t i = 0; i < elementsOf(from); ++i)
          same &= l.offsetOf(coordOf(i, from)) == view->offsetOf(coordOf(i, to));
        CHECK(same);
        if (auto back = view->reshaped(from)) { // the same map, perhaps with other strides where there is one box
          for (int64_t i = 0; i < elementsOf(from); ++i)
            same &= l.offsetOf(coordOf(i, from)) == back->offsetOf(coordOf(i, from));
          CHECK(same);
        }
      }
  CHECK(seen > 50);
  CHECK(refused > 0);
  // An odd factor keeps its place.
  CHECK(!SharedLayout::rowMajor({12, 32}, {1, 0}).reshaped({32, 12}));
  CHECK(SharedLayout::rowMajor({12, 32}, {1, 0}).reshaped({3, 128}));
}

TEST_CASE("views: the same bytes as elements of another size") {
  using Shape = llvm::SmallVector<int64_t, 4>;
  for (const Shape &shape : {Shape{64, 64}, {256}, {8, 4, 32}, {96, 64}, {64, 96}})
    for (unsigned from : {1, 2, 4, 8})
      for (unsigned to : {1, 2, 4, 8})
        for (const SharedLayout &l : layoutsOf(shape)) {
          auto view = l.reinterpreted(from, to);
          CAPTURE(l.str());
          CAPTURE(from);
          CAPTURE(to);
          // 4 elements of 16 bits and more stay together in all of them; wider swizzles keep 8.
          if (to <= from) REQUIRE(view);
          if (!view) continue;
          Shape seen = shape;
          seen.back() = shape.back() * from / to;
          bool same = view->shape() == llvm::ArrayRef<int64_t>(seen);
          const int64_t bytes = elementsOf(shape) * from;
          for (int64_t i = 0; same && i < bytes; ++i)
            same = l.offsetOf(coordOf(i / from, shape)) * from + i % from ==
                   view->offsetOf(coordOf(i / to, seen)) * to + i % to;
          CHECK(same);
        }
  // What would become one element lies apart.
  CHECK(!SharedLayout::rowMajor({64, 64}, {0, 1}).reinterpreted(2, 4));
}
