// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// TMA: every rank and swizzle against a reference that goes element by element, boxes that hang over the edges, and
// each rule broken once.
#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <random>

#include "hopper_test.h"

using namespace sim_test;

namespace {
constexpr unsigned kBox = 1024; // offset of the box in shared memory; the barrier is at 0

std::string coordinates(unsigned rank, bool parameters) {
  std::string text;
  for (unsigned d = 0; d < rank; ++d) text += std::string(d ? ", " : "") + "i32 %c" + std::to_string(d);
  return parameters ? ", " + text : text;
}
std::string rankName(unsigned rank) {
  return std::to_string(rank) + "d";
}
const std::string kMap = "ptr byval([128 x i8]) align 64 %map";

/// Loads the box at %c and copies it, as it lies in shared memory, to %out.
std::string loadKernel(unsigned rank, unsigned bytes) {
  const std::string issue = "  call void @tlx.nv.tma.prefetch.map(ptr %map)\n" + initBarrier("s", 1) +
                            R"(  call void @tlx.nv.fence.mbarrier.init()
  call void @tlx.nv.mbarrier.arrive.expect.tx(ptr addrspace(3) %s, i32 )" +
                            std::to_string(bytes) + R"()
  call void @tlx.nv.tma.prefetch.)" +
                            rankName(rank) + "(ptr %map, " + coordinates(rank, false) + R"(, i64 0)
  call void @tlx.nv.tma.load.)" +
                            rankName(rank) + "(ptr addrspace(3) %box, ptr addrspace(3) %s, ptr %map, " +
                            coordinates(rank, false) + ", i64 0)\n";
  return "(" + kMap + ", ptr addrspace(1) %out" + coordinates(rank, true) + ") {\n" + kEntry + sharedAt("box", kBox) +
         inFirstThread(issue) + barSync(64) + waitFor("s", "0", "w") +
         copyWords("ptr addrspace(3) %box", "ptr addrspace(1) %out", bytes / 4, 64, "wdone") + "  ret void\n}";
}

/// Copies %in to shared memory and stores or reduces the box at %c; thread 0 runs `before` first.
std::string storeKernel(unsigned rank, unsigned bytes, const std::string &op, const std::string &fence = kProxyFence,
                        const std::string &before = "") {
  return "(" + kMap + ", ptr addrspace(1) %in" + coordinates(rank, true) + ") {\n" + kEntry + sharedAt("box", kBox) +
         copyWords("ptr addrspace(1) %in", "ptr addrspace(3) %box", bytes / 4, 64, "entry") + fence + barSync(64) +
         inFirstThread(before + "  call void @tlx.nv.tma." + op + "." + rankName(rank) +
                       "(ptr addrspace(3) %box, ptr %map, " + coordinates(rank, false) + R"(, i64 0)
  call void @tlx.nv.bulk.commit()
  call void @tlx.nv.bulk.wait(i32 0)
)") + "  ret void\n}";
}

template <typename... T> std::vector<uint8_t> paramsAt(const std::vector<int> &at, const T &...first) {
  std::vector<uint8_t> buffer = params(first...);
  for (int c : at) {
    const size_t size = buffer.size();
    buffer.resize(size + 4);
    std::memcpy(buffer.data() + size, &c, 4);
  }
  return buffer;
}

struct Shape {
  unsigned elementBytes, swizzle;
  std::vector<uint64_t> shape;
  std::vector<uint32_t> box;
  std::vector<int> at;
  uint64_t pitch = 0; // elements from row to row; 0: the inner extent
  uint64_t rowPitch() const { return pitch ? pitch : shape[0]; }
  MapArgument map(const void *base) const {
    std::vector<uint64_t> strides;
    uint64_t next = rowPitch() * elementBytes;
    for (size_t d = 1; d < shape.size(); next *= shape[d++]) strides.push_back(next);
    return tensorMap(base, Element::U8, elementBytes, shape, box, swizzle, strides);
  }
};
unsigned bytesOf(const Shape &s) {
  unsigned n = s.elementBytes;
  for (uint32_t b : s.box) n *= b;
  return n;
}
/// Calls f(byte of the dense box, element of the dense tensor or -1) for each element of the box.
template <typename F> void forEachElement(const Shape &s, F f) {
  const size_t rank = s.box.size();
  std::vector<uint32_t> i(rank, 0);
  for (unsigned n = 0; n < bytesOf(s) / s.elementBytes; ++n) {
    int64_t element = 0, scale = 1;
    bool inside = true;
    for (size_t d = 0; d < rank; ++d) {
      const int64_t c = int64_t(s.at[d]) + i[d];
      inside = inside && c >= 0 && c < int64_t(s.shape[d]);
      element += c * scale;
      scale *= int64_t(d ? s.shape[d] : s.rowPitch());
    }
    f(n * s.elementBytes, inside ? element : -1);
    for (size_t d = 0; d < rank && ++i[d] == s.box[d]; ++d) i[d] = 0;
  }
}
std::vector<uint8_t> randomBytes(size_t n, unsigned seed) {
  std::mt19937 rng(seed);
  std::vector<uint8_t> v(n);
  for (uint8_t &b : v) b = uint8_t(rng());
  return v;
}
size_t tensorBytes(const Shape &s) {
  size_t n = s.elementBytes;
  for (uint64_t e : s.shape) n *= e;
  return n / s.shape[0] * s.rowPitch();
}

const Shape kShapes[] = {
    {4, 0, {64}, {32}, {8}},
    {4, 0, {64}, {32}, {40}},
    {1, 0, {256}, {64}, {-16}},
    {2, 128, {192, 40}, {64, 32}, {64, 8}},
    {2, 128, {192, 40}, {64, 32}, {160, 20}},  // over both far edges
    {2, 128, {192, 40}, {64, 32}, {-24, -5}},  // and both near ones
    {2, 128, {192, 40}, {64, 32}, {504, 8}},   // all outside
    {2, 128, {20, 40}, {64, 16}, {0, 3}, 24},  // wider than the tensor, rows that end within 16 bytes
    {2, 128, {20, 40}, {64, 16}, {-8, 3}, 24}, // also from the left
    {2, 128, {20, 40}, {64, 16}, {0, 40}, 24}, // but not below the last row
    {1, 0, {47, 8}, {64, 4}, {0, 2}, 48},      // one byte behind
    {2, 0, {20, 40}, {8, 16}, {0, 3}, 24},     // nor where boxes end inside
    {2, 128, {24, 40}, {64, 16}, {0, 3}},
    {2, 64, {96, 40}, {32, 24}, {64, 20}},
    {2, 32, {96, 40}, {16, 24}, {88, 20}},
    {4, 0, {96, 40}, {24, 5}, {80, 37}},
    {1, 128, {256, 16, 3}, {128, 8, 3}, {128, 4, 1}},
    {4, 128, {40, 9, 5}, {32, 4, 3}, {16, 7, 3}},
    {8, 64, {16, 9, 5, 3}, {8, 4, 3, 2}, {12, 7, -1, 2}},
    {2, 32, {24, 5, 4, 3, 3}, {16, 3, 2, 2, 2}, {16, 3, 3, 2, 2}},
    {2, 0, {24, 5, 4, 3, 3}, {8, 3, 2, 2, 3}, {16, -1, 3, 2, 1}},
    {2, 128, {64, 256}, {64, 256}, {0, 0}},
};
} // namespace

TEST_CASE("TMA loads: ranks 1 to 5, all swizzles, zeros outside") {
  for (const Shape &s : kShapes) {
    CAPTURE(s.swizzle);
    CAPTURE(s.box.size());
    const unsigned rank = unsigned(s.box.size()), bytes = bytesOf(s);
    auto p = program(loadKernel(rank, bytes), "sm_90a", 64, kBox + bytes);
    const std::vector<uint8_t> data = randomBytes(tensorBytes(s), bytes);
    std::vector<uint8_t> expected(bytes);
    forEachElement(s, [&](unsigned byte, int64_t element) {
      for (unsigned i = 0; i < s.elementBytes; ++i)
        expected[swizzledByte(byte + i, s.swizzle)] = element < 0 ? 0 : data[size_t(element) * s.elementBytes + i];
    });
    forEachSchedule([&](LaunchConfig &config) {
      Memory memory;
      uint8_t *tensor = upload(memory, data), *out = static_cast<uint8_t *>(memory.allocate(bytes));
      auto result = launch(*p, config, paramsAt(s.at, s.map(tensor), out), memory);
      CHECK_MESSAGE(result.ok(), text(result));
      CHECK(download(memory, out, bytes) == expected);
    });
  }
}

TEST_CASE("TMA stores: ranks 1 to 5, all swizzles, nothing outside") {
  for (const Shape &s : kShapes) {
    CAPTURE(s.swizzle);
    CAPTURE(s.box.size());
    const unsigned rank = unsigned(s.box.size()), bytes = bytesOf(s);
    auto p = program(storeKernel(rank, bytes, "store"), "sm_90a", 64, kBox + bytes);
    const std::vector<uint8_t> data = randomBytes(bytes, bytes);
    std::vector<uint8_t> expected(tensorBytes(s), 0xa5);
    bool cut = false; // a row, by the tensor's end
    forEachElement(s, [&](unsigned byte, int64_t element) {
      cut |= element >= 0 && s.at[0] + s.box[0] > s.shape[0];
      if (element >= 0)
        for (unsigned i = 0; i < s.elementBytes; ++i)
          expected[size_t(element) * s.elementBytes + i] = data[swizzledByte(byte + i, s.swizzle)];
    });
    forEachSchedule([&](LaunchConfig &config) {
      Memory memory;
      uint8_t *tensor = static_cast<uint8_t *>(memory.allocate(tensorBytes(s))), *in = upload(memory, data);
      memory.fill(tensor, 0xa5, tensorBytes(s));
      auto result = launch(*p, config, paramsAt(s.at, s.map(tensor), in), memory);
      if (*std::min_element(s.at.begin(), s.at.end()) < 0)
        return checkFinding(result, FindingKind::InvalidOperation, "a TMA store takes no negative coordinate");
      if (s.pitch && cut) // the hardware writes the last 16 bytes of a row whole
        return checkFinding(result, FindingKind::InvalidOperation,
                            "rows of the tensor have " + std::to_string(s.shape[0] * s.elementBytes) +
                                " bytes, no multiple of 16: a TMA store to the end of a row writes " +
                                (s.elementBytes == 1 ? "1 byte behind it" : "8 bytes behind it"));
      CHECK_MESSAGE(result.ok(), text(result));
      CHECK(download(memory, tensor, tensorBytes(s)) == expected);
    });
  }
}

namespace {
template <typename T> T reduced(const std::string &op, T a, T b) {
  if (op == "add") return T(a + b);
  if (op == "min") return a < b ? a : b;
  if (op == "max") return a < b ? b : a;
  if constexpr (std::is_integral_v<T>) {
    if (op == "and") return a & b;
    if (op == "or") return a | b;
    if (op == "xor") return a ^ b;
  }
  return T(0);
}
LaunchResult reduceKernel(const std::string &op, Element element, unsigned elementBytes,
                          const std::vector<uint8_t> &before, const std::vector<uint8_t> &in,
                          std::vector<uint8_t> &after, LaunchConfig config = {}) {
  auto p = program(storeKernel(1, unsigned(in.size()), "reduce." + op), "sm_90a", 64, kBox + unsigned(in.size()));
  Memory memory;
  uint8_t *tensor = upload(memory, before), *source = upload(memory, in);
  const uint64_t n = in.size() / elementBytes;
  auto result = launch(*p, config,
                       paramsAt({0}, tensorMap(tensor, element, elementBytes, {n}, {uint32_t(n)}, 0), source), memory);
  after = download(memory, tensor, before.size());
  return result;
}
template <typename T>
void checkReductions(Element element, std::initializer_list<const char *> ops, std::vector<T> a, std::vector<T> b) {
  auto bytes = [](const std::vector<T> &v) {
    std::vector<uint8_t> out(v.size() * sizeof(T));
    std::memcpy(out.data(), v.data(), out.size());
    return out;
  };
  for (const char *op : ops) {
    CAPTURE(op);
    forEachSchedule([&](LaunchConfig &config) {
      std::vector<uint8_t> after;
      auto result = reduceKernel(op, element, sizeof(T), bytes(a), bytes(b), after, config);
      CHECK_MESSAGE(result.ok(), text(result));
      std::vector<T> expected(a.size());
      for (size_t i = 0; i < a.size(); ++i) expected[i] = reduced<T>(op, a[i], b[i]);
      CHECK(after == bytes(expected));
    });
  }
}
} // namespace

TEST_CASE("TMA reductions of every type") {
  const auto ints = {"add", "min", "max", "and", "or", "xor"};
  checkReductions<uint32_t>(Element::U32, ints, {1, 0xffffffff, 5, 7}, {2, 1, 3, 0x80000000});
  checkReductions<int32_t>(Element::I32, ints, {1, -5, 5, -7}, {2, 1, 3, -9});
  checkReductions<uint64_t>(Element::U64, ints, {1ull << 40, ~0ull}, {3, 1ull << 63});
  checkReductions<int64_t>(Element::I64, ints, {-(1ll << 40), 12}, {3, -13});
  checkReductions<float>(Element::F32, {"add"}, {1.5f, -2, 1e9f, 0}, {0.25f, 7, 1, -1});
  checkReductions<double>(Element::F64, {"add"}, {1.5, -2}, {0.25, 1e-9});
  std::vector<uint8_t> after, zeros(16), ones;
  // f16: 1 + 2 = 3, 2048 + 1 is halfway and rounds to even, -0.5 against 0.25, NaN against 1.
  auto halves = [](std::vector<uint16_t> v) {
    std::vector<uint8_t> bytes(v.size() * 2);
    std::memcpy(bytes.data(), v.data(), bytes.size());
    return bytes;
  };
  const auto a = halves({0x3c00, 0x6800, 0xb800, 0x7e00, 0, 0, 0, 0}),
             b = halves({0x4000, 0x3c00, 0x3400, 0x3c00, 0, 0, 0, 0});
  CHECK(reduceKernel("add", Element::F16, 2, a, b, after).ok());
  CHECK(after == halves({0x4200, 0x6800, 0xb400, 0x7e00, 0, 0, 0, 0}));
  CHECK(reduceKernel("min", Element::F16, 2, a, b, after).ok());
  CHECK(after == halves({0x3c00, 0x3c00, 0xb800, 0x3c00, 0, 0, 0, 0}));
  CHECK(reduceKernel("max", Element::F16, 2, a, b, after).ok());
  CHECK(after == halves({0x4000, 0x6800, 0x3400, 0x3c00, 0, 0, 0, 0}));
  // bf16: 1 + 2, 256 + 1 rounds to even.
  CHECK(reduceKernel("add", Element::BF16, 2, halves({0x3f80, 0x4380, 0, 0, 0, 0, 0, 0}),
                     halves({0x4000, 0x3f80, 0, 0, 0, 0, 0, 0}), after)
            .ok());
  CHECK(after == halves({0x4040, 0x4380, 0, 0, 0, 0, 0, 0}));
  const std::string none = "TMA has no such reduction of the tensor's element type";
  checkFinding(reduceKernel("max", Element::F32, 4, zeros, zeros, after), FindingKind::InvalidOperation, none);
  checkFinding(reduceKernel("add", Element::U8, 1, zeros, zeros, after), FindingKind::InvalidOperation, none);
  checkFinding(reduceKernel("and", Element::F16, 2, zeros, zeros, after), FindingKind::InvalidOperation, none);
}

namespace {
/// Thread 0 runs `body` with a tensor of 64 x 64 f16 behind %map (boxes of 64 x 8, 1024 bytes, swizzle 128), %box and
/// %box2 in shared memory, an mbarrier for one arrival at %s; %x points at the tensor.
struct Bench {
  MapArgument map;
  unsigned shared = 4096;
  Bench() { reset(128, {64, 8}); }
  void reset(unsigned swizzle, std::vector<uint32_t> box, std::vector<uint64_t> shape = {64, 64}) {
    data.assign(64 * 64, 0x3c00);
    tensor = upload(memory, data);
    map = tensorMap(tensor, Element::F16, 2, shape, box, swizzle);
  }
  std::vector<uint16_t> data;
  Memory memory;
  uint16_t *tensor;
  LaunchResult run(const std::string &body, LaunchConfig config = {}, const std::string &all = "",
                   unsigned threads = 32) {
    auto p = program(oneThread(kMap + ", ptr addrspace(1) %x",
                               sharedAt("box", 1024) + sharedAt("box2", 2048) + initBarrier("s", 1) + body, all),
                     "sm_90a", threads, shared);
    return launch(*p, config, params(map, tensor), memory);
  }
};
std::string load(const char *box = "box", const char *row = "0", const char *column = "0") {
  return std::string("  call void @tlx.nv.tma.load.2d(ptr addrspace(3) %") + box +
         ", ptr addrspace(3) %s, ptr %map, i32 " + column + ", i32 " + row + ", i64 0)\n";
}
std::string store(const char *box = "box", const char *row = "0") {
  return std::string("  call void @tlx.nv.tma.store.2d(ptr addrspace(3) %") + box + ", ptr %map, i32 0, i32 " + row +
         ", i64 0)\n";
}
std::string expect(unsigned bytes) {
  return "  call void @tlx.nv.mbarrier.arrive.expect.tx(ptr addrspace(3) %s, i32 " + std::to_string(bytes) + ")\n";
}
const std::string kCommit = "  call void @tlx.nv.bulk.commit()\n", kWait = "  call void @tlx.nv.bulk.wait(i32 0)\n",
                  kWaitRead = "  call void @tlx.nv.bulk.wait.read(i32 0)\n",
                  kRead = "  %v = load i32, ptr addrspace(3) %box, align 4\n",
                  kWrite = "  store i32 0, ptr addrspace(3) %box, align 4\n";
std::string w(const char *label, const char *parity = "0") {
  return waitFor("s", parity, label);
}
/// All of %box is loaded and waited for.
const std::string kLoaded = expect(1024) + load() + waitFor("s", "0", "loaded");
} // namespace

TEST_CASE("TMA: what is touched in flight, under every schedule") {
  const std::string reads =
      " touches the destination of a TMA load in flight: no wait has seen its mbarrier's phase complete";
  struct Case {
    FindingKind kind;
    std::string body, message;
  };
  const Case cases[] = {
      {FindingKind::InFlight, expect(1024) + load() + kRead + w("w"), "read of 4 bytes at shared offset 1024" + reads},
      {FindingKind::InFlight, expect(1024) + load() + kWrite + w("w"),
       "write of 4 bytes at shared offset 1024" + reads},
      {FindingKind::SlotOverrun, expect(2048) + load() + load() + w("w"),
       "TMA load of 1024 bytes at shared offset 1024" + reads},
      {FindingKind::InFlight, expect(1024) + load() + store() + kCommit + kWait + w("w"),
       "TMA store of 1024 bytes at shared offset 1024" + reads},
      {FindingKind::InFlight, expect(1024) + load(),
       "the kernel ends with this TMA load in flight: no wait has seen its mbarrier's phase complete"},
      {FindingKind::InFlight,
       "  call void @tlx.nv.cp.async.cg.16(ptr addrspace(3) %box, ptr addrspace(1) %x, i32 16)\n" + kProxyFence +
           kLoaded,
       "TMA load of 1024 bytes at shared offset 1024 touches a cp.async destination in flight: no wait covers the copy "
       "yet"},
      // The source of a store.
      {FindingKind::SlotOverrun, kLoaded + store() + kCommit + kWrite + kWait,
       "write of 4 bytes at shared offset 1024 which tlx.nv.tma.store.2d (k.tlx:13:1) may still read: no "
       "tlx.nv.bulk.wait.read covers it"},
      {FindingKind::SlotOverrun,
       kLoaded + store() + kCommit + "  call void @tlx.nv.bulk.wait.read(i32 1)\n" + kWrite + kWait,
       "which tlx.nv.tma.store.2d (k.tlx:13:1) may still read"},
      {FindingKind::SlotOverrun, kLoaded + store() + kCommit + expect(1024) + load() + w("w", "1") + kWait,
       "TMA load of 1024 bytes at shared offset 1024 which tlx.nv.tma.store.2d (k.tlx:13:1) may still read"},
      {FindingKind::InFlight, kLoaded + store() + kCommit,
       "the thread ends while this TMA store may still read shared memory: no tlx.nv.bulk.wait.read or "
       "tlx.nv.bulk.wait covers it"},
      {FindingKind::InFlight, kLoaded + store() + kWait,
       "the thread ends while this TMA store may still read shared memory"}, // no commit
      {FindingKind::UninitializedRead, kLoaded + store("box2") + kCommit + kWait,
       "uninitialized read: 1024 bytes of the source of a TMA store at shared offset 2048 were never written"},
  };
  for (const Case &c : cases) {
    CAPTURE(c.message);
    forEachSchedule([&](LaunchConfig &config) {
      auto result = Bench().run(c.body, config);
      checkFinding(result, c.kind, c.message);
      CHECK_MESSAGE(result.findings.size() == 1, text(result));
    });
  }
  for (const std::string &right :
       {kLoaded + kRead, kLoaded + store() + kCommit + kWaitRead + kWrite, kLoaded + store() + kCommit + kWait + kWrite,
        kLoaded + store() + kCommit + kWaitRead + expect(1024) + load("box", "3") + w("w", "1"),
        // a load may follow generic reads without a fence
        kLoaded + kRead + expect(1024) + load() + w("w", "1"),
        // two groups, the older one waited for
        expect(2048) + load() + load("box2") + w("w") + store() + kCommit + store("box2", "8") + kCommit +
            "  call void @tlx.nv.bulk.wait.read(i32 1)\n" + kWrite + kWait})
    forEachSchedule([&](LaunchConfig &config) {
      auto result = Bench().run(right, config);
      CHECK_MESSAGE(result.ok(), text(result));
    });
}

TEST_CASE("TMA: bytes that do not match what the mbarrier expects") {
  forEachSchedule([&](LaunchConfig &config) {
    // Too many: never completes.
    auto more = Bench().run(expect(1040) + load() + w("w"), config);
    checkFinding(more, FindingKind::Deadlock, "1 of 1 arrival made, 16 bytes expected have not arrived");
    checkFinding(more, FindingKind::WrongBytes, "16 bytes expected have not arrived");
    // Too few: the phase never ends either, for one load.
    auto less = Bench().run(expect(1008) + load() + w("w"), config);
    checkFinding(less, FindingKind::Deadlock, "16 bytes arrived that were not expected");
    checkFinding(less, FindingKind::WrongBytes, "16 bytes arrived that were not expected");
    // Two loads and one of them expected: whichever arrives second is late, unless both arrive before the expectation.
    auto two = Bench().run(expect(1024) + load() + load("box2") + w("w"), config);
    CHECK(has(two, FindingKind::WrongBytes));
    // No arrival, only bytes.
    auto none = Bench().run(load() + w("w"), config);
    checkFinding(none, FindingKind::WrongBytes, "0 of 1 arrival made, 1024 bytes arrived that were not expected");
  });
  auto two = Bench().run(expect(1024) + load() + load("box2") + w("w"));
  checkFinding(two, FindingKind::WrongBytes,
               "wrong bytes: 1024 bytes arrive at the mbarrier at shared offset 0 in phase 1, but were on their way "
               "since phase 0: it was told to "
               "expect too few");
}

TEST_CASE("TMA: the rules of boxes, maps and memory") {
  struct Case {
    FindingKind kind;
    unsigned swizzle;
    std::vector<uint32_t> box;
    std::string body, message;
  };
  const std::string half = sharedAt("half", 1536), odd = sharedAt("odd", 1024 + 64), far = sharedAt("far", 3072 + 512);
  const Case cases[] = {
      {FindingKind::Misaligned,
       128,
       {64, 8},
       half + load("half"),
       "misaligned: the destination at shared offset 1536 needs an alignment of 1024 for its swizzle"},
      {FindingKind::Misaligned,
       64,
       {32, 8},
       sharedAt("q", 1280) + load("q"),
       "at shared offset 1280 needs an alignment of 512 for its swizzle"},
      {FindingKind::Misaligned,
       32,
       {16, 8},
       sharedAt("q", 1152) + load("q"),
       "at shared offset 1152 needs an alignment of 256 for its swizzle"},
      {FindingKind::Misaligned,
       0,
       {64, 8},
       odd + load("odd"),
       "misaligned: the destination at shared offset 1088 needs an alignment of 128"},
      {FindingKind::Misaligned,
       0,
       {64, 8},
       odd + store("odd"),
       "misaligned: the source at shared offset 1088 needs an alignment of 128"},
      {FindingKind::Misaligned,
       128,
       {64, 8},
       load("box", "3", "4"),
       "misaligned: the innermost coordinate 4 is byte 8 of a row; TMA begins at multiples of 16"},
      {FindingKind::Misaligned,
       0,
       {64, 8},
       "  call void @tlx.nv.tma.store.2d(ptr addrspace(3) %box, ptr %map, i32 -9, i32 0, i64 0)\n",
       "misaligned: the innermost coordinate -9 is byte -18 of a row"},
      {FindingKind::OutOfBounds,
       0,
       {64, 8},
       far + load("far"),
       "out of bounds: the destination of a box of 1024 bytes at shared offset 3584 of 4096 bytes"},
      {FindingKind::InvalidOperation,
       64,
       {64, 8},
       load(),
       "the inner extent of the box is 128 bytes with a swizzle of 64: it must not be wider"},
      {FindingKind::InvalidOperation,
       128,
       {32, 8},
       load(),
       "the inner extent of the box is 64 bytes with a swizzle of 128: the simulator knows no rows narrower than the "
       "pattern"},
      {FindingKind::InvalidOperation,
       0,
       {4, 8},
       load(),
       "the inner extent of the box is 8 bytes, which is no multiple of 16"},
      {FindingKind::InvalidOperation, 0, {64, 0}, load(), "the box is empty"},
      {FindingKind::InvalidOperation, 0, {512, 1}, load(), "a dimension of the box has more than 256 elements"},
      {FindingKind::InvalidOperation,
       128,
       {64, 8},
       "  call void @tlx.nv.tma.load.1d(ptr addrspace(3) %box, ptr addrspace(3) %s, ptr %map, i32 0, i64 0)\n",
       "1 coordinates for a tensor map of rank 2"},
      {FindingKind::OutOfBounds,
       128,
       {64, 8},
       "  call void @tlx.nv.tma.prefetch.map(ptr null)\n",
       "the tensor map is neither a kernel parameter nor in global memory"},
      {FindingKind::InvalidOperation,
       128,
       {64, 8},
       "  %g = addrspacecast ptr addrspace(1) %x to ptr\n  call void @tlx.nv.tma.prefetch.map(ptr %g)\n",
       "there is no tensor map at this address"},
      {FindingKind::Misaligned,
       128,
       {64, 8},
       "  %g = getelementptr i8, ptr %map, i32 8\n  call void @tlx.nv.tma.prefetch.2d(ptr %g, i32 0, i32 0, i64 0)\n",
       "misaligned: a tensor map needs an alignment of 64"},
      {FindingKind::MbarrierMisuse,
       128,
       {64, 8},
       "  call void @tlx.nv.tma.load.2d(ptr addrspace(3) %box, ptr addrspace(3) %box2, ptr %map, i32 0, i32 0, i64 "
       "0)\n",
       "a TMA load will arrive at shared offset 2048, where there is no mbarrier"},
      {FindingKind::MbarrierMisuse,
       128,
       {64, 8},
       load("s"),
       "TMA load of 1024 bytes at shared offset 0 touches an mbarrier"},
      {FindingKind::MbarrierMisuse,
       128,
       {64, 8},
       expect(1024) + load() + "  call void @tlx.nv.mbarrier.inval(ptr addrspace(3) %s)\n",
       "the mbarrier at shared offset 0 is invalidated while a TMA load will arrive at it"},
  };
  for (const Case &c : cases) {
    CAPTURE(c.message);
    Bench bench;
    bench.reset(c.swizzle, c.box);
    checkFinding(bench.run(c.body), c.kind, c.message);
  }
  Bench past; // the map says more than there is
  past.reset(128, {64, 8}, {64, 100});
  checkFinding(past.run(expect(1024) + load("box", "60") + w("w")), FindingKind::OutOfBounds,
               "out of bounds: global read of 128 bytes at the end of an allocation of 8192 bytes");
  Bench unwritten;
  unwritten.map = tensorMap(unwritten.memory.allocate(8192), Element::F16, 2, {64, 64}, {64, 8}, 128);
  checkFinding(unwritten.run(kLoaded), FindingKind::UninitializedRead, "uninitialized read: 128 bytes at offset 0 of");
  auto stored = program(storeKernel(2, 1024, "store"), "sm_90a", 64, kBox + 1024);
  Memory memory;
  auto *in = upload(memory, std::vector<uint8_t>(1024, 1));
  checkFinding(
      launch(*stored, {}, paramsAt({0, 1}, tensorMap(in, Element::F16, 2, {64, 64}, {64, 8}, 128), in), memory),
      FindingKind::OutOfBounds, "out of bounds: global write of 128 bytes");
}

TEST_CASE("proxy fences: on the writer's side before the barrier or behind it, and nowhere else") {
  auto run = [&](const std::string &before, const std::string &behind, LaunchConfig &config) {
    auto p = program(storeKernel(2, 1024, "store", before, behind), "sm_90a", 64, kBox + 1024);
    Memory memory;
    auto *in = upload(memory, std::vector<uint8_t>(1024, 1)), *tensor = upload(memory, std::vector<uint8_t>(8192, 0));
    return launch(*p, config, paramsAt({0, 0}, tensorMap(tensor, Element::F16, 2, {64, 64}, {64, 8}, 128), in), memory);
  };
  const std::string message = "missing fence: a TMA store reads bytes at shared offset 1024, which warp ";
  forEachSchedule([&](LaunchConfig &config) {
    for (const LaunchResult &right : {run(kProxyFence, "", config), run("", kProxyFence, config)})
      CHECK_MESSAGE(right.ok(), text(right));
    checkFinding(run("", "", config), FindingKind::MissingFence, message);
    // One warp fences, and the barrier that would carry the other's writes to it stands behind the fence.
    const std::string half = "  %lower = icmp slt i32 %t, 32\n  br i1 %lower, label %fenced, label %met\nfenced:\n" +
                             kProxyFence + "  br label %met\nmet:\n";
    checkFinding(run(half, "", config), FindingKind::MissingFence, "which warp 1 has written by an ordinary store");
    // fence.mbarrier.init is another thing.
    checkFinding(
        run("  call void @tlx.nv.fence.mbarrier.init()\n", "  call void @tlx.nv.fence.acq.rel.cta()\n", config),
        FindingKind::MissingFence, message);
  });
  // A load over bytes that were written.
  forEachSchedule([&](LaunchConfig &config) {
    checkFinding(Bench().run(kWrite + kLoaded, config), FindingKind::MissingFence,
                 "missing fence: a TMA load overwrites bytes at shared offset 1024");
    CHECK(Bench().run(kWrite + kProxyFence + kLoaded, config).ok());
  });
}

TEST_CASE("proxy fences by mbarrier: the four places of a fence") {
  // Warp 1 writes, arrives; warp 0 waits and stores by TMA.
  auto kernel = [](const std::string &beforeArrive, const std::string &afterArrive, const std::string &afterWait) {
    return "(" + kMap + ") {\n" + kEntry + sharedAt("box", kBox) + inFirstThread(initBarrier("s", 32)) + barSync(64) +
           R"(  %lower = icmp ult i32 %t, 32
  br i1 %lower, label %consumer, label %producer
producer:
  %l = and i32 %t, 31
  %p = getelementptr [32 x i8], ptr addrspace(3) %box, i32 %l
  store <8 x i32> zeroinitializer, ptr addrspace(3) %p, align 32
)" + beforeArrive +
           "  call void @tlx.nv.mbarrier.arrive(ptr addrspace(3) %s, i32 1)\n" + afterArrive +
           R"(  ret void
consumer:
  br i1 %first, label %go, label %end
go:
)" + waitFor("s", "0", "w") +
           afterWait + R"(  call void @tlx.nv.tma.store.2d(ptr addrspace(3) %box, ptr %map, i32 0, i32 0, i64 0)
  call void @tlx.nv.bulk.commit()
  call void @tlx.nv.bulk.wait(i32 0)
  br label %end
end:
  ret void
})";
  };
  auto run = [&](const std::string &text, LaunchConfig &config) {
    auto p = program(text, "sm_90a", 64, 2048);
    Memory memory;
    auto *tensor = upload(memory, std::vector<uint8_t>(8192, 0));
    return launch(*p, config, params(tensorMap(tensor, Element::F16, 2, {64, 64}, {64, 8}, 128)), memory);
  };
  forEachSchedule([&](LaunchConfig &config) {
    for (const LaunchResult &right :
         {run(kernel(kProxyFence, "", ""), config), run(kernel("", "", kProxyFence), config)})
      CHECK_MESSAGE(right.ok(), text(right));
    checkFinding(run(kernel("", "", ""), config), FindingKind::MissingFence,
                 "which warp 1 has written by an ordinary store");
    checkFinding(run(kernel("", kProxyFence, ""), config), FindingKind::MissingFence,
                 "which warp 1 has written by an ordinary store");
  });
  // For all interleavings the causes are looked at as well: one finding more at the same place.
  LaunchConfig plain, all;
  all.exhaustive = true;
  for (const std::string &text : {kernel(kProxyFence, "", ""), kernel("", "", kProxyFence)}) {
    const LaunchResult right = run(text, all);
    CHECK_MESSAGE(right.ok(), sim_test::text(right));
    CHECK(right.proof.find("every interleaving of 1 program is covered") == 0);
  }
  for (const std::string &text : {kernel("", "", ""), kernel("", kProxyFence, "")}) {
    const LaunchResult once = run(text, plain), more = run(text, all);
    CHECK(find(more, FindingKind::MissingFence)->count > find(once, FindingKind::MissingFence)->count);
    CHECK(more.proof.empty());
  }
}

TEST_CASE("what a loop of loads overruns is found in every schedule: a ring of two slots without and with its empty "
          "barriers") {
  // Thread 32 loads step k into slot k % 2 (full barriers at 0, 8), warp 0 sums; empty barriers at 16, 24 unless left
  // out.
  auto kernel = [](bool waitsForEmpty) {
    const std::string fill = R"(  %so = shl i32 %pslot, 10
  %so1 = add i32 %so, 1024
  %dst = getelementptr i8, ptr addrspace(3) %s, i32 %so1
  call void @tlx.nv.mbarrier.arrive.expect.tx(ptr addrspace(3) %pfull, i32 1024)
  %row = shl i32 %k, 3
  call void @tlx.nv.tma.load.2d(ptr addrspace(3) %dst, ptr addrspace(3) %pfull, ptr %map, i32 0, i32 %row, i64 0)
)";
    const std::string read = R"(  %cs = shl i32 %cslot, 10
  %t4 = shl i32 %t, 2
  %ct = add i32 %cs, %t4
  %cs1 = add i32 %ct, 1024
  %src = getelementptr i8, ptr addrspace(3) %s, i32 %cs1
  %v = load i32, ptr addrspace(3) %src, align 4
)";
    return "(" + kMap + ", ptr addrspace(1) %out) {\n" + kEntry + ringBarriers(32, 64) +
           R"(  %producer = icmp eq i32 %t, 32
  br i1 %producer, label %p, label %other
other:
  %idle = icmp ugt i32 %t, 32
  br i1 %idle, label %end, label %c
)" + ringProducer("all", fill, "7", waitsForEmpty) +
           summingConsumer("other", ringStep("i", "c"), read, 7, "%t");
  };
  auto right = program(kernel(true), "sm_90a", 64, 4096), wrong = program(kernel(false), "sm_90a", 64, 4096);
  std::vector<uint32_t> data(64 * 32);
  for (size_t i = 0; i < data.size(); ++i) data[i] = uint32_t(i * 2654435761u >> 6);
  forEachSchedule([&](LaunchConfig &config) {
    Memory memory;
    auto *x = upload(memory, data);
    auto *out = static_cast<uint32_t *>(memory.allocate(128));
    const MapArgument map = tensorMap(x, Element::F16, 2, {64, 64}, {64, 8}, 128);
    auto result = launch(*right, config, params(map, out), memory);
    CHECK_MESSAGE(result.ok(), text(result));
    auto got = download(memory, out, 32);
    for (unsigned t = 0; t < 32; ++t) {
      uint32_t sum = 0;
      for (unsigned k = 0; k < 7; ++k) sum = 3 * sum + data[k * 256 + t]; // the first row of a box is not permuted
      REQUIRE(got[t] == sum);
    }
    CHECK(has(launch(*wrong, config, params(map, out), memory), FindingKind::SlotOverrun));
  });
}
