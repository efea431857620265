// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Layout literals: what prints reads back, and hostile text ends in an error text.
#include "testing.h"

using namespace tlx::layout;
using namespace tlx::layout::testing;

namespace {
void checkRoundTrip(const TileLayout &l) {
  std::string error;
  const auto back = parseTileLayout(l.str(), l.shape(), error);
  CHECK(error == "");
  REQUIRE(back);
  CHECK(*back == l);
  CHECK(back->str() == l.str());
}
void checkRoundTrip(const SharedLayout &l) {
  std::string error;
  const auto back = parseSharedLayout(l.str(), l.shape(), error);
  CHECK(error == "");
  REQUIRE(back);
  CHECK(*back == l);
}
std::string tileError(const char *text, const Shape &shape = {64, 64}) {
  std::string error;
  const auto layout = parseTileLayout(text, shape, error);
  CHECK(layout.has_value() == error.empty());
  return error;
}
std::string sharedError(const char *text, const Shape &shape = {12}) {
  std::string error;
  const auto layout = parseSharedLayout(text, shape, error);
  CHECK(layout.has_value() == error.empty());
  return error;
}
bool has(const std::string &text, const char *part) {
  CAPTURE(text);
  return text.find(part) != std::string::npos;
}
} // namespace

TEST_CASE("literals print and read back") {
  CHECK(tile({16, 8}, kMmaAcc, {1, 1}).str() ==
        "linear(register = [[0, 1], [8, 0]], lane = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = [], cta = [])");
  checkRoundTrip(tile({192, 80}, kMmaA16, {4, 1}));
  checkRoundTrip(slice(tile({64, 176}, kMmaAcc, {4, 1}), 1));
  checkRoundTrip(defaultBlocked({}, 1, {}, 32, 4));
  checkRoundTrip(blocked({2, 3, 4}, {1, 1, 4}, {2, 1, 16}, {1, 1, 4}, {2, 1, 0}));
  CHECK(SharedLayout::swizzled({4, 8}, U{1, 0}, 2, 1, 4).str() ==
        "shared(box = [4, 8], bases = [[10, 20], [1, 2, 4]], stride = [32, 32])");
  checkRoundTrip(SharedLayout::swizzled({192, 80}, U{1, 0}, 8, 1, 2));
  checkRoundTrip(SharedLayout::rowMajor({}, {}));
  std::string error;
  const auto b = parseTileLayout("blocked(size=[1,8],lanes=[4,8],warps=[4,1],order=[1,0])", {64, 64}, error);
  REQUIRE(b);
  CHECK(*b == blocked({64, 64}, {1, 8}, {4, 8}, {4, 1}, {1, 0}));
  CHECK(parseTileLayout(" linear ( register = [ [ 1 ] ] ,\n lane = [[2]] ) ", {4}, error));
}

TEST_CASE("literal errors") {
  CHECK(has(tileError(""), "expected a layout"));
  CHECK(has(tileError("blocky(size = 1)"), "unknown layout 'blocky'"));
  CHECK(has(tileError("linear(register = [[0, 1]"), "expected ']' at column 26"));
  CHECK(has(tileError("linear(register = [[0, 1]])) "), "text after"));
  CHECK(has(tileError("linear(register = [[0, -1]])"), "expected a number"));
  CHECK(has(tileError("linear(register = [[0, 99999999999999999999]])"), "too large"));
  CHECK(has(tileError("linear(register = [[[0]]])"), "two deep"));
  CHECK(has(tileError("linear(register = [0, 1])"), "list of numbers"));
  CHECK(has(tileError("linear(register = 3)"), "list of lists"));
  CHECK(has(tileError("linear(register = [[0]])"), "1 coordinates"));
  CHECK(has(tileError("linear(register = [[0, 64]])"), "leaves the tile"));
  CHECK(has(tileError("linear(register = [[0, 1]])"), "reach only 2^1"));
  CHECK(has(tileError("linear(lane = [], lane = [])"), "twice"));
  CHECK(has(tileError("linear(lanes = [])"), "has no 'lanes'"));
  CHECK(has(tileError("linear(lane = [])", {17}), "extent 17"));
  CHECK(has(tileError("linear(lane = [[1], [1], [1], [1], [1], [1], [1]])", {2}), "at most 6"));
  CHECK(has(tileError("blocked(size = [1, 8])"), "needs 'lanes'"));
  CHECK(has(tileError("blocked(size = [8], lanes = [4, 8], warps = [4, 1], order = [1, 0])"), "1 entries"));
  CHECK(has(tileError("blocked(size = [1, 3], lanes = [4, 8], warps = [4, 1], order = [1, 0])"), "powers of two"));
  CHECK(has(tileError("blocked(size = [1, 0], lanes = [4, 8], warps = [4, 1], order = [1, 0])"), "powers of two"));
  CHECK(has(tileError("blocked(size = [1, 1], lanes = [64, 8], warps = [4, 1], order = [1, 0])"), "more than 64"));
  CHECK(has(tileError("blocked(size = [1, 1], lanes = [1, 32], warps = [4, 1], order = [1, 1])"), "permutation"));
  CHECK(has(tileError("blocked(size = [1, 1], lanes = [1, 32], warps = [4, 1], order = [2, 0])"), "permutation"));
  CHECK(has(tileError("blocked(size = [1], lanes = [1], warps = [1], order = [0])", {1 << 28}), "at most 20"));
  CHECK(has(tileError("blocked(size = [1], lanes = [1], warps = [1], order = [0])", {-4}), "extent -4"));
  CHECK(has(sharedError("linear()"), "unknown layout 'linear'"));
  CHECK(has(sharedError("shared(box = [4], stride = [4])"), "needs 'bases'"));
  CHECK(has(sharedError("shared(box = [4], bases = [[1, 1]], stride = [4])"), "bijection"));
  CHECK(has(sharedError("shared(box = [4], bases = [[1, 2]], stride = [2])"), "overlap"));
  CHECK(has(sharedError("shared(box = [0], bases = [[]], stride = [2])"), "power of two"));
  CHECK(has(sharedError("shared(box = [], bases = [], stride = [])"), "one entry"));
  CHECK(has(sharedError("shared(box = [4], bases = [[1, 2]], stride = [2147483647])"), "out of range"));
}

TEST_CASE("damaged literals never do more than fail") {
  const std::string good[] = {tile({64, 48}, kMmaAcc, {2, 2}).str(),
                              "blocked(size = [1, 8], lanes = [4, 8], warps = [4, 1], order = [1, 0])",
                              SharedLayout::swizzled({64, 48}, U{1, 0}, 8, 1, 2).str()};
  unsigned state = 1, accepted = 0;
  auto random = [&] { return state = state * 1664525u + 1013904223u, state >> 16; };
  const char alphabet[] = "()[],= 0123456789linearblockedshared\xff\n";
  for (unsigned i = 0; i < 30000; ++i) {
    std::string text = good[random() % 3];
    for (unsigned n = 1 + random() % 3; n > 0 && !text.empty(); --n) {
      const size_t at = random() % text.size();
      switch (random() % 4) {
      case 0:
        text.resize(at);
        break;
      case 1:
        text.erase(at, 1 + random() % 4);
        break;
      case 2:
        text[at] = alphabet[random() % (sizeof alphabet - 1)];
        break;
      case 3:
        text.insert(at, text.substr(random() % text.size(), random() % 20));
        break;
      }
    }
    std::string error;
    const auto l = parseTileLayout(text, {64, 48}, error);
    REQUIRE(l.has_value() == error.empty());
    if (l) REQUIRE(!TileLayout::check(l->shape(), l->allBases()));
    const auto m = parseSharedLayout(text, {64, 48}, error);
    REQUIRE(m.has_value() == error.empty());
    if (m) REQUIRE(m->elements() >= 64 * 48);
    accepted += l || m;
  }
  CHECK(accepted > 0);
  std::string error;
  CHECK(!parseTileLayout("linear(register = " + std::string(100000, '['), {4}, error));
  CHECK(!parseTileLayout("linear(register = [" + std::string(100000, '1'), {4}, error));
}
