// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels that a target refuses, and tensors that a launch refuses: all messages of a compile with their places, by target, through the
// library's interface. (What the elaborator refuses is in tests/unit/lang.) Beside each stands what is close to it and must work.
#include <nlohmann/json.hpp>

#include "operations.h"

using namespace operations;

namespace {

const char *const kTargets[] = {"sm_80", "sm_90a", "gfx942", "gfx950"};

/// "line:column-end message" of each error, a line each; "" if the target takes the kernel.
std::string refusal(const std::string &text, const std::string &target) {
  static tlx::Context context;
  tlx::CompileOptions o;
  o.fileName = "refused.tlx";
  o.target = target;
  o.image = TLX_IMAGE_SIMULATOR;
  try {
    context.compile(text, o);
  } catch (const tlx::Error &e) {
    std::string out;
    for (const auto &d : nlohmann::json::parse(e.diagnosticsJson())) {
      if (d["severity"] != "error") continue;
      out += (out.empty() ? "" : "\n") + std::to_string(d["line"].get<int>()) + ":" +
             std::to_string(d["column"].get<int>()) + "-" + std::to_string(d["end_column"].get<int>()) + " " +
             d["message"].get<std::string>();
    }
    return out.empty() ? std::string("no diagnostic: ") + e.what() : out;
  }
  return "";
}

/// What each target says, in the order of kTargets.
void check(const std::string &text, const std::string (&want)[4]) {
  CAPTURE(text);
  for (int i = 0; i < 4; ++i) {
    const std::string target = kTargets[i];
    CAPTURE(target);
    CHECK(refusal(text, target) == want[i]);
  }
}

/// c += a b over a loop, with descriptors; `b` is the operand's text, its block [rowsB, columnsB].
struct Loop {
  std::string a = "f16", b = "f16", acc = "f32";
  int64_t m = 64, n = 64, k = 64;
  bool transB = false;
  int stages = 2, warps = 4;
  std::string text() const {
    auto desc = [](const std::string &type, int64_t rows, int64_t columns) {
      return "tensor_desc<" + type + ", [" + std::to_string(rows) + ", " + std::to_string(columns) + "]>";
    };
    return replace("kernel k(a: $A, b: $B, c: $C, depth: i32) launch(num_warps = $W) {\n"
                   "  var acc = zeros([$M, $N], $T);\n"
                   "  for k in range(0, depth, $K, num_stages = $S) {\n"
                   "    acc = dot(a.load([0, k]), b.load($O)$R, acc);\n"
                   "  }\n"
                   "  c.store([0, 0], acc);\n"
                   "}\n",
                   {{"A", desc(a, m, k)},
                    {"B", transB ? desc(b, n, k) : desc(b, k, n)},
                    {"C", desc(acc, m, n)},
                    {"W", std::to_string(warps)},
                    {"M", std::to_string(m)},
                    {"N", std::to_string(n)},
                    {"K", std::to_string(k)},
                    {"T", acc},
                    {"S", std::to_string(stages)},
                    {"O", transB ? "[0, k]" : "[k, 0]"},
                    {"R", transB ? ".T" : ""}});
  }
};
const std::string kDot = "4:11-51 ", kDotTransposed = "4:11-53 "; // where dot stands in Loop

std::string lacks(const std::string &type, const std::string &target, const std::string &nearest) {
  return "dot of " + type + " has no matrix instruction on " + target + "; the nearest type that it has is " + nearest +
         ": convert the operands with .to(" + nearest + ")";
}

std::string copyOf(const std::string &type, const std::string &block, const std::string &at) {
  return "kernel k(a: tensor_desc<" + type + ", " + block + ">, b: tensor_desc<" + type + ", " + block +
         ">) {\n  let x = a.load(" + at + ");\n  b.store(" + at + ", x);\n}\n";
}

} // namespace

TEST_CASE("refusals: blocks that TMA cannot move") {
  auto both = [](const std::string &block, const std::string &why, unsigned at) { // the load and the store
    const std::string what = "TMA cannot move a block of " + block + ": " + why;
    return "2:11-" + std::to_string(19 + at) + " " + what + "\n3:3-" + std::to_string(15 + at) + " " + what;
  };
  const std::string rows = " bytes, which is no multiple of 16; make the last extent a multiple of ";
  check(copyOf("f16", "[64, 12]", "[0, 0]"), {"", both("f16[64, 12]", "its rows have 24" + rows + "8", 6), "", ""});
  check(copyOf("f16", "[4]", "[0]"), {"", both("f16[4]", "its rows have 8" + rows + "8", 3), "", ""});
  check(copyOf("i8", "[64, 8]", "[0, 0]"), {"", both("i8[64, 8]", "its rows have 8" + rows + "16", 6), "", ""});
  check(copyOf("f32", "[32, 1]", "[0, 0]"), {"", both("f32[32, 1]", "its rows have 4" + rows + "4", 6), "", ""});
  check(copyOf("f64", "[8, 8, 1]", "[0, 0, 0]"), {"", both("f64[8, 8, 1]", "its rows have 8" + rows + "2", 9), "", ""});
  check(copyOf("i8", "[3, 480]", "[0, 0]"), {"",
                                             both("i8[3, 480]",
                                                  "its rows of 480 elements are more than the 256 of a message, and "
                                                  "have no equal parts of whole 128 bytes; make the last "
                                                  "extent a power of two, or the others a multiple of 8",
                                                  6),
                                             "", ""});
  for (const char *block : {"[8]", "[64, 24]", "[512]", "[3, 512]", "[8, 480]"})
    check(copyOf("f16", block, std::string(block).find(',') == std::string::npos ? "[0]" : "[0, 0]"), {"", "", "", ""});
}

TEST_CASE("refusals: 8-bit floats of the other kind") {
  for (const char *kind : {"f8e4m3", "f8e5m2"}) {
    const std::string ocp = kind, fnuz = ocp + "fnuz";
    Loop loop{ocp, ocp};
    loop.transB = true;
    check(loop.text(),
          {kDotTransposed + lacks(ocp, "sm_80", "f16"), "", kDotTransposed + lacks(ocp, "gfx942", fnuz), ""});
    loop.a = loop.b = fnuz;
    check(loop.text(), {kDotTransposed + lacks(fnuz, "sm_80", "f16"), kDotTransposed + lacks(fnuz, "sm_90a", ocp), "",
                        kDotTransposed + lacks(fnuz, "gfx950", ocp)});
    loop.b = ocp; // one of each
    check(loop.text(), {kDotTransposed + lacks(fnuz, "sm_80", "f16"), kDotTransposed + lacks(fnuz, "sm_90a", ocp),
                        kDotTransposed + lacks(ocp, "gfx942", fnuz), kDotTransposed + lacks(fnuz, "gfx950", ocp)});
  }
  const Loop bytes{"u8", "u8", "i32"};
  check(bytes.text(), {"", "", kDot + lacks("u8", "gfx942", "f16"), kDot + lacks("u8", "gfx950", "f16")});
}

TEST_CASE("refusals: 8-bit floats in forms that wgmma does not take") {
  const std::string needs = "dot of f8e4m3 and f8e5m2 on sm_90a goes through wgmma, which needs ";
  auto refused = [&](const std::string &place, const std::string &what, auto change) {
    Loop loop{"f8e4m3", "f8e5m2"};
    loop.transB = true;
    change(loop);
    CAPTURE(loop.text());
    CHECK(refusal(loop.text(), "sm_90a") == place + needs + what);
    CHECK(refusal(loop.text(), "gfx950") == "");
  };
  refused(kDot, "K as the contiguous dimension of both operands: load B as a tile [64, 64] and pass its .T",
          [](Loop &l) { l.transB = false; });
  refused(kDot, "K as the contiguous dimension of both operands: load B as a tile [96, 128] and pass its .T",
          [](Loop &l) { l.transB = false, l.n = 96, l.k = 128; });
  refused(kDotTransposed, "num_warps to be a multiple of 4, not 2", [](Loop &l) { l.warps = 2; });
  refused(kDotTransposed, "M to be a multiple of 64, not 32", [](Loop &l) { l.m = 32; });
  refused(kDotTransposed, "K to be a multiple of 32 for 8-bit types, not 16", [](Loop &l) { l.k = 16; });
  refused(kDotTransposed, "a tile that 4 warpgroups can share: 64 x 16 is none",
          [](Loop &l) { l.warps = 16, l.n = 16; });
}

// What the unit cannot do in this form (i8 and f32 along N, f64 at all, two warps) goes through other instructions, with the same result.
TEST_CASE("refusals: none where other instructions do it") {
  constexpr int64_t kDepth = 96; // three blocks
  for (const std::string type : {"i8", "f32", "f64"}) {
    const std::string acc = type == "i8" ? "i32" : type;
    for (const bool transB : {false, true})
      for (const int warps : {2, 4}) {
        Loop loop{type, type, acc};
        loop.k = 32, loop.transB = transB, loop.warps = warps;
        Rng rng(uint64_t(warps + transB));
        harness::Tensor a(type, size_t(loop.m * kDepth)), b(type, size_t(loop.n * kDepth)),
            c(acc, size_t(loop.m * loop.n));
        fill(a, rng, Fill::Integers), fill(b, rng, Fill::Integers);
        std::vector<double> want(c.count());
        for (int64_t i = 0; i < loop.m; ++i)
          for (int64_t j = 0; j < loop.n; ++j)
            for (int64_t k = 0; k < kDepth; ++k)
              want[size_t(i * loop.n + j)] +=
                  a.get(size_t(i * kDepth + k)) * b.get(size_t(transB ? j * kDepth + k : k * loop.n + j));
        for (const std::string &target : targets()) {
          CAPTURE(target);
          CAPTURE(loop.text());
          const Program program = compileText(loop.text(), {"refused.tlx", "", {}, {}}, target);
          c.poison();
          const tlx::Buffer da = upload(a), db = upload(b), dc = upload(c);
          const tlx::Tensor ta = tensor(da, a, {loop.m, kDepth}), tc = tensor(dc, c, {loop.m, loop.n}),
                            tb = transB ? tensor(db, b, {loop.n, kDepth}) : tensor(db, b, {kDepth, loop.n});
          CHECK(program.run({1, 1, 1}, {ta, tb, tc, int32_t(kDepth)}, {target}) == "");
          download(c, dc);
          const Worst worst = compare(c, want, 1e-30, 0);
          CHECK_MESSAGE(worst.ratio == 0, worst.text());
        }
      }
  }
}

TEST_CASE("refusals: rings that shared memory does not hold") {
  Loop loop;
  loop.m = 128, loop.n = 256, loop.stages = 8, loop.warps = 8;
  const std::string place = "1:8-9 the kernel needs ", advice = "; lower num_stages or take smaller tiles:";
  check(loop.text(),
        {place + "393216 bytes of shared memory, sm_80 has 166912" + advice +
             "\n         0 ..   262144  buffer<f16[64, 256], 8, smem>  ring of 8: loads straight into shared memory "
             "(line 4)"
             "\n         0 ..   131072  buffer<f32[128, 256], 1, smem>  a tile that changes its layout (line 6)"
             "\n    262144 ..   393216  buffer<f16[128, 64], 8, smem>  ring of 8: loads straight into shared memory "
             "(line 4)",
         place + "393344 bytes of shared memory, sm_90a has 232448" + advice +
             "\n         0 ..   262144  buffer<f16[64, 256], 8, smem>  ring of 8: blocks that TMA loads (line 4)"
             "\n         0 ..   131072  buffer<f32[128, 256], 1, smem>  a block on its way to desc.store (line 6)"
             "\n    262144 ..   393216  buffer<f16[128, 64], 8, smem>  ring of 8: blocks that TMA loads (line 4)"
             "\n    393216 ..   393280  barrier<8>  8 mbarriers (line 3)"
             "\n    393280 ..   393344  barrier<8>  8 mbarriers (line 3)",
         place + "131072 bytes of shared memory, gfx942 has 65536" + advice +
             "\n         0 ..   131072  buffer<f32[128, 256], 1, smem>  a tile that changes its layout (line 6)"
             "\n         0 ..    65536  buffer<f16[64, 256], 2, smem>  ring of 2: loads through registers (line 4)"
             "\n     65536 ..    98304  buffer<f16[128, 64], 2, smem>  ring of 2: loads through registers (line 4)",
         ""}); // two stages through registers
  // Loads of whole blocks through pointers: gfx950 has them go straight to memory.
  const std::string straight =
      "\n         0 ..   262144  buffer<f16[64, 256], 8, smem>  ring of 8: loads straight into shared memory (line 5)"
      "\n    262144 ..   393216  buffer<f16[128, 64], 8, smem>  ring of 8: loads straight into shared memory (line 5)";
  check("kernel k(a: *f16, b: *f16, c: *f32, n: i32) launch(num_warps = 8) requires(aligned(a, 16), aligned(b, 16), n "
        "% 64 == 0) {\n"
        "  let (i, j, k) = (arange(0, 128), arange(0, 256), arange(0, 64));\n"
        "  var acc = zeros([128, 256], f32);\n"
        "  for s in range(0, n, 64, num_stages = 8) {\n"
        "    acc = dot(load(a + i[:, None] * n + (s + k)[None, :]), load(b + (s + k)[:, None] * 256 + j[None, :]), "
        "acc);\n"
        "  }\n"
        "  store(c + i[:, None] * 256 + j[None, :], acc);\n}\n",
        {place + "393216 bytes of shared memory, sm_80 has 166912" + advice + straight,
         place + "393216 bytes of shared memory, sm_90a has 232448" + advice + straight,
         place + "98304 bytes of shared memory, gfx942 has 65536" + advice +
             "\n         0 ..    65536  buffer<f16[64, 256], 2, smem>  ring of 2: loads through registers (line 5)"
             "\n     65536 ..    98304  buffer<f16[128, 64], 2, smem>  ring of 2: loads through registers (line 5)",
         place + "393216 bytes of shared memory, gfx950 has 163840" + advice + straight});
  loop.stages = 2, loop.m = 64, loop.n = 128, loop.k = 32;
  check(loop.text(), {"", "", "", ""});
}

TEST_CASE("refusals: a store whose staging shared memory does not hold") {
  auto text = [](const std::string &type, const std::string &shape) {
    return "kernel k(c: tensor_desc<" + type + ", " + shape + ">) launch(num_warps = 8) {\n  c.store([0, 0], zeros(" +
           shape + ", " + type + "));\n}\n";
  };
  for (const std::string shape : {"[2048, 32]", "[256, 256]"})
    check(text("f32", shape),
          {"",
           "1:8-9 the kernel needs 262144 bytes of shared memory, sm_90a has 232448; take smaller tiles:"
           "\n         0 ..   262144  buffer<f32" +
               shape + ", 1, smem>  a block on its way to desc.store (line 2)",
           "", ""});
  check(text("f16", "[256, 256]"), {"", "", "", ""});
}

TEST_CASE("refusals: threads, lanes, hints, shapes, random numbers") {
  const std::string warps = "1:8-9 num_warps = 32 is 32 x 64 threads; on ", most = " a program has at most 16 warps";
  check("kernel k(p: *f32) launch(num_warps = 32) { store(p, 1.0); }\n",
        {"", "", warps + "gfx942" + most, warps + "gfx950" + most});
  const std::string lanes = "2:44-103 this layout has 32 lanes, and the kernel has 64";
  check("kernel k(p: *f32) launch(num_warps = 4) {\n"
        "  let x = require_layout(zeros([64], f32), blocked(size = [1], lanes = [32], warps = [4], order = [0]));\n"
        "  store(p + arange(0, 64), x);\n}\n",
        {"", "", lanes, lanes});
  const std::string hint = "2:12-33 cache = \"cv\" has no meaning on ",
                    instead = "; leave it out, or choose by a parameter of the kernel";
  check("kernel k(p: *f32) {\n  store(p, load(p, cache = \"cv\"));\n}\n",
        {"", "", hint + "gfx942" + instead, hint + "gfx950" + instead});
  const std::string odd = "2:11-43 reshape from i32[192] to i32[64, 3] mixes odd factors; an extent that is not a "
                          "power of two must stay whole";
  check("kernel k(p: *i32) {\n  let x = reshape(arange(0, 192), [64, 3]);\n  store(p, sum(sum(x, axis = 1), axis = "
        "0));\n}\n",
        {odd, odd, odd, odd});
  const std::string seed = "28:19-35 static assertion failed: the seed of random numbers is an integer";
  check(
      "import \"std/random.tlx\";\nkernel k(p: *f32, s: f32) {\n  store(p + arange(0, 8), rand(s, arange(0, 8)));\n}\n",
      {seed, seed, seed, seed});
}

namespace {
/// What a launch of `text`, whose one argument is a descriptor, says to a tensor.
std::string launched(const std::string &text, const std::string &target, const tlx::Tensor &t) {
  return compileText(text, {"refused.tlx", "", {}, {}}, target).run({1, 1, 1}, {t}, {target});
}
} // namespace

TEST_CASE("refusals: tensors that break a rule of descriptors") {
  const std::string text =
      "kernel k(d: tensor_desc<f16, [16, 32]>) launch(num_warps = 4) {\n  d.store([0, 0], d.load([0, 0]));\n}\n";
  const std::string d = "argument 'd' of type tensor_desc<f16, [16, 32]>: ";
  const harness::Tensor memory("f16", 64 * 64), floats("f32", 64 * 64);
  const tlx::Buffer b = upload(memory), f = upload(floats);
  for (const std::string &target : targets()) {
    CAPTURE(target);
    auto refused = [&](const std::string &why, const tlx::Tensor &t) { CHECK(launched(text, target, t) == d + why); };
    refused("the tensor's elements are f32, not f16", tensor(f, floats, {32, 32}));
    refused("the tensor has rank 1, and its blocks have rank 2", tensor(b, memory, {1024}));
    refused("the tensor has rank 3, and its blocks have rank 2", tensor(b, memory, {2, 32, 32}));
    refused("the stride of dimension 1 is 64, and the last dimension's must be 1",
            tensor(b, memory, {32, 32}, {1, 64}));
    refused("the stride of dimension 0 is 36 elements, which is 72 bytes and no multiple of 16",
            tensor(b, memory, {32, 32}, {36, 1}));
    refused("the stride of dimension 0 is -64, and strides are not negative", tensor(b, memory, {32, 32}, {-64, 1}));
    refused("the extent of dimension 0 is -1, and extents are 0 to 2147483647", tensor(b, memory, {-1, 32}, {32, 1}));
    refused("the extent of dimension 1 is 2147483648, and extents are 0 to 2147483647",
            tensor(b, memory, {1, int64_t(1) << 31}, {0, 1}));
    refused("the stride of dimension 0 is 549755813888 elements, which is not less than 2^40 bytes",
            tensor(b, memory, {2, 32}, {int64_t(1) << 39, 1}));
    refused("the tensor's data is NULL", tlx::Tensor(nullptr, TLX_DTYPE_F16, {32, 32}, {32, 1}));
    const std::string message = launched(text, target, tensor(b, memory, {32, 32}, {32, 1}, 4));
    CHECK_MESSAGE(message.rfind(d + "the tensor's data is at 0x", 0) == 0, message);
    const std::string end = "8, which is no multiple of 16";
    CHECK_MESSAGE((message.size() > end.size() && message.compare(message.size() - end.size(), end.size(), end) == 0),
                  message);
    CHECK(launched(text, target, tensor(b, memory, {32, 31}, {32, 1})) == "");
  }
}

TEST_CASE("refusals: tasks and what they use") {
  // On targets without the units, the message names what is missing.
  const std::string tasks = R"(kernel k(p: *f32) launch(num_warps = 4) {
  async_tasks {
    async_task(default) { store(p + arange(0, 128), zeros([128], f32)); }
    async_task(num_warps = 4) { store(p + 128 + arange(0, 128), zeros([128], f32)); }
  }
})";
  auto lacks = [](const char *what, const char *target, const char *instead) {
    return std::string("2:3-14 async_tasks needs ") + what + ", which " + target + " has not" + instead;
  };
  check(tasks, {"", "", lacks("named barriers", "gfx942", "; write the kernel without tasks for it"),
                lacks("named barriers", "gfx950", "; write the kernel without tasks for it")});
  auto onHopper = [](const std::string &text, const std::string &want) {
    CAPTURE(text);
    CHECK(refusal(text, "sm_90a") == want);
  };
  auto budget = [](const char *own, const char *first, const char *second) {
    return std::string("kernel k(p: *f32) launch(num_warps = 4) {\n  async_tasks {\n    async_task(default") + own +
           ") { store(p, 1.0); }\n    async_task(num_warps = " + first +
           ") { store(p, 1.0); }\n    async_task(num_warps = " + second + ") { store(p, 1.0); }\n  }\n}";
  };
  onHopper(budget("", "4, registers = 232", "4, registers = 232"), "");
  onHopper(budget("", "8, registers = 240", "4, registers = 32"),
           "2:3-14 the tasks ask for 2048 registers in their warps, and 16 warps have 2048: 240 x 8 + 32 x 4, of 128 a "
           "thread (16 warps); "
           "the default task needs 24 a thread at least");
  onHopper(budget(", registers = 48", "4, registers = 232", "4, registers = 232"),
           "2:3-14 the tasks ask for 2048 registers in their warps, and 12 warps have 2016: 48 x 4 + 232 x 4 + 232 x "
           "4, of 168 a thread (12 warps)");
  onHopper(budget("", "4, registers = 232", "1, registers = 24"),
           "5:5-46 a budget of registers is one of whole warpgroups, and the number of warps of this task is 1, no "
           "multiple of 4");
  onHopper(budget("", "16", "16"),
           "1:8-9 the kernel's own 4 warps and those of its tasks are 48; on sm_90a a program has at most 32");
  // Products in flight, and those that wgmma cannot do.
  auto product = [](const std::string &statements, const char *warps = "4", const char *rows = "64") {
    return replace(R"(kernel k(p: *f32) launch(num_warps = $W) {
  let a = local_alloc([$M, 64], f16);
  let b = local_alloc([64, 64], f16);
  let acc = async_dot(a, b);
  $S
})",
                   {{"W", warps}, {"M", rows}, {"S", statements}});
  };
  onHopper(
      product("let d = async_dot_wait(0, acc); store(p + arange(0, 64)[:, None] * 64 + arange(0, 64)[None, :], d);"),
      "");
  onHopper(product("store(p + arange(0, 64)[:, None] * 64 + arange(0, 64)[None, :], acc);"),
           "5:3-71 a product in flight may only go on as the accumulator of another, be carried by a loop, or be "
           "waited for: write "
           "async_dot_wait(0, x) first");
  onHopper(product("let d = async_dot_wait(0, acc);", "2"),
           "4:13-28 wgmma cannot do this product: it is done by 4 warps or a multiple, not by 2");
  onHopper(product("let d = async_dot_wait(0, acc);", "4", "32"),
           "4:13-28 wgmma cannot do this product: M is a multiple of 64, not 32");
  // A branch of one warp.
  const std::string branch = R"(kernel k(p: *f32) launch(num_warps = 4) {
  var x = load(p + arange(0, 512));
  if warp_any(x > 1.0) { x = $X; }
  store(p + arange(0, 512), x);
})";
  onHopper(replace(branch, {{"X", "x * 2.0"}}), "");
  onHopper(replace(branch, {{"X", "x * sum(x, axis = 0)"}}),
           "3:34-50 a branch that warp_any decides keeps to the warp, and this needs others: what it computes crosses "
           "warps, through shared memory");
}
