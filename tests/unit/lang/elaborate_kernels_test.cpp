// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The shipped kernels, compile-time parameters, facts, imports, limits.
#include "elaborate_testing.h"

using namespace tlx;
using namespace elaboration;

namespace {

using Params = std::vector<std::pair<std::string, std::string>>;

lang::ElaborateOptions withImports(Params params = {}) {
  lang::ElaborateOptions options;
  options.params = std::move(params);
  options.import = [](const std::string &name) -> std::optional<std::string> {
    std::filesystem::path path = root() / "kernels" / name;
    if (!std::filesystem::exists(path)) return std::nullopt;
    return readFile(path);
  };
  return options;
}

unsigned count(const ir::Module &module, ir::Opcode opcode) {
  unsigned n = 0;
  const_cast<ir::Module &>(module).kernel.body.walk([&](ir::Op &op) { n += op.is(opcode); });
  return n;
}

void elaborates(const std::string &file, Params params) {
  std::string shown;
  for (auto &[name, value] : params) shown += name + "=" + value + " ";
  CAPTURE(file);
  CAPTURE(shown);
  Elaborated e(readFile(root() / "kernels" / file), withImports(params), file);
  CHECK_MESSAGE(e.module, e.diags.render(e.sources));
}

} // namespace

TEST_SUITE_BEGIN("elaborated kernels");

TEST_CASE("shipped kernels") {
  for (const char *type : {"f32", "f16", "bf16", "f64"}) {
    if (std::string(type) != "f64") {
      elaborates("softmax.tlx", {{"BLOCK", "1024"}, {"T", type}});
      elaborates("softmax_long.tlx", {{"T", type}});
    }
    elaborates("vector_add.tlx", {{"T", type}});
  }
  for (const char *a : {"true", "false"})
    for (const char *b : {"true", "false"})
      for (const char *even : {"true", "false"}) {
        elaborates("matmul_pointers.tlx", {{"TRANS_A", a}, {"TRANS_B", b}, {"EVEN_K", even}});
        elaborates("matmul_pointers.tlx",
                   {{"T", "i8"}, {"ACC", "i32"}, {"OUT", "i32"}, {"TRANS_A", a}, {"TRANS_B", b}, {"EVEN_K", even}});
      }
  elaborates("matmul_pointers.tlx", {{"T", "bf16"}});
  elaborates("matmul_pointers.tlx", {{"T", "f32"}, {"BN", "96"}});
  elaborates("matmul_pointers.tlx", {{"T", "f64"}, {"ACC", "f64"}});
}

TEST_CASE("the schedule library") {
  const char *text = R"(import "std/schedule.tlx";
kernel k(p: *i32, slot: i32, phase: i32, step: i32) {
    let (m, n) = tile_coords(step, 1000, 500, 128, 64, 8);
    let (s, f) = ring_next(slot, phase, 3);
    let (a, b) = ring_position(step, 3);
    store(p, m + n + s + f + a + b);
})";
  Elaborated e(text, withImports());
  CHECK_MESSAGE(e.module, e.diags.render(e.sources));
}

TEST_CASE("compile-time parameters") {
  const char *text =
      "fn relu(x) { return maximum(x, 0.0); }\n"
      "kernel k<N: i32, X: f32 = 1.5, ON: i1 = false, T: dtype = f32, F: fn = relu, D: i32 = N * 2>(p: *T) "
      "launch(num_warps = N) {\n"
      "  static_assert(D == 16); static_assert(X == 0.25); static_assert(ON); static_assert(T == f32);\n"
      "  store(p + arange(0, D), F(X.to(T)));\n}";
  Elaborated e(text, withImports({{"N", "8"}, {"X", "0.25"}, {"ON", "true"}, {"F", "exp"}}));
  REQUIRE_MESSAGE(e.module, e.diags.render(e.sources));
  CHECK(e.module->kernel.numWarps == 8);
  auto fails = [&](Params params, const std::string &message) {
    Elaborated wrong(text, withImports(std::move(params)));
    CHECK(!wrong.module);
    REQUIRE(wrong.diags.all().size() == 1);
    CHECK(wrong.diags.all()[0].message == message);
  };
  fails({{"N", "eight"}}, "'eight' is not a value for parameter 'N' of type i32");
  fails({{"N", "3000000000"}}, "3000000000 does not fit in i32; write (3000000000).to(i64)");
  fails({{"N", "8"}, {"T", "float"}}, "'float' is not a value for parameter 'T' of type dtype");
  fails({{"N", "8"}, {"F", "nothing"}},
        "'nothing' is not a function of this file or its imports, which parameter 'F' needs");
  fails({{"N", "8"}, {"M", "1"}}, "kernel 'k' has no compile-time parameter 'M'; it has N, X, ON, T, F, D");
  fails({{"N", "8"}, {"N", "8"}}, "compile-time parameter 'N' is given twice");
  fails({{"N", "8"}, {"ON", "yes"}}, "'yes' is not a value for parameter 'ON' of type i1 (true or false)");
}

TEST_CASE("facts become programs over the arguments") {
  const char *text =
      "kernel k<B: i32 = 32>(x: *f32, n: i32, m: i64) requires(n <= B * 2, aligned(x, 16) && m % 8 == 0, "
      "noalias(x), cdiv(n, 4) >= 1, !(n == 3), B == 32, B == 1 || n > 0) { store(x, 1.0); }";
  lang::ElaborateOptions options;
  options.facts = {"m > n", "aligned(x, 64)"};
  Elaborated e(text, options);
  REQUIRE_MESSAGE(e.module, e.diags.render(e.sources));
  const auto &facts = e.module->kernel.facts;
  std::vector<std::string> texts;
  for (const Fact &f : facts) texts.push_back(f.text);
  CHECK(texts == std::vector<std::string>{"n <= B * 2", "aligned(x, 16)", "m % 8 == 0", "noalias(x)", "cdiv(n, 4) >= 1",
                                          "!(n == 3)", "B == 1 || n > 0", "m > n", "aligned(x, 64)"});
  CHECK(facts[3].noalias);
  auto holds = [&](std::vector<int64_t> args) {
    std::vector<bool> out;
    for (const Fact &f : facts)
      if (!f.noalias) out.push_back(evaluateFact(f, args));
    return out;
  };
  CHECK(holds({128, 4, 16}) == std::vector<bool>{true, true, true, true, true, true, true, true});
  CHECK(holds({8, 65, 12}) == std::vector<bool>{false, false, false, true, true, true, false, false});
  CHECK(holds({144, 0, 8}) == std::vector<bool>{true, true, true, false, true, false, true, false});
  CHECK(holds({144, 3, 8}) == std::vector<bool>{true, true, true, true, false, true, true, false});
}

TEST_CASE("a wrong fact of an option is shown as it was given") {
  lang::ElaborateOptions options;
  options.facts = {"n % 4 = 0", "q > 1"};
  Elaborated e("kernel k(x: *f32, n: i32) { store(x, 1.0); }", options);
  REQUIRE(e.diags.all().size() == 2);
  std::string shown = e.diags.render(e.sources);
  CHECK(shown.find("n % 4 = 0\n") != std::string::npos);
  CHECK(e.diags.all()[1].message == "unknown name 'q'");
  CHECK(e.diags.all()[1].loc.line == 2);
  CHECK(e.diags.all()[1].loc.col == 1);
}

TEST_CASE("imports") {
  auto text = [](const std::string &name) -> std::optional<std::string> {
    if (name == "a.tlx") return "import \"b.tlx\";\nfn a(x) { return b(x) + C; }\nconst C = 3;\n";
    if (name == "b.tlx") return "fn b(x) { return x * 2; }\nconst HIDDEN = 1;\n";
    return std::nullopt;
  };
  lang::ElaborateOptions options;
  options.import = text;
  CHECK(Elaborated("import \"a.tlx\";\nkernel k(p: *i32) { store(p, a(1) + C); }", options).module);
  // Imports of an import are not visible.
  Elaborated hidden("import \"a.tlx\";\nkernel k(p: *i32) { store(p, HIDDEN); }", options);
  CHECK(hidden.errors() == "2:30-36 unknown name 'HIDDEN'");
  auto all = lang::importsOf("import \"a.tlx\";\nimport \"b.tlx\";\nkernel k() {}", text);
  REQUIRE(all);
  REQUIRE(all->size() == 2);
  CHECK((*all)[0].first == "a.tlx");
  CHECK((*all)[1].first == "b.tlx");
  CHECK((*all)[1].second == *text("b.tlx"));
  CHECK(!lang::importsOf("import \"c.tlx\";", text));
}

TEST_CASE("constants of loops and branches leave nothing behind") {
  Elaborated e(program("for i in range(0, n) { if N == 8 { store(p + i, s); } else { store(q, no_such); } }"));
  REQUIRE_MESSAGE(e.module, e.diags.render(e.sources));
  CHECK(count(*e.module, ir::Opcode::If) == 0);
  CHECK(count(*e.module, ir::Opcode::For) == 1);
}

TEST_CASE("loop attributes and locations") {
  Elaborated e(program("for i in range(0, n, num_stages = N / 2, unroll = 2) {\n  store(p + i, s);\n}"));
  REQUIRE(e.module);
  e.module->kernel.body.walk([](ir::Op &op) {
    if (op.is(ir::Opcode::For)) {
      CHECK(op.intAttr(ir::Attr::num_stages) == 4);
      CHECK(op.intAttr(ir::Attr::unroll) == 2);
      CHECK(op.loc.line == 2);
    }
    if (op.is(ir::Opcode::Store)) CHECK(op.loc.line == 3);
    CHECK(op.loc.known());
  });
}

TEST_CASE("limits say what they are") {
  auto fails = [](const std::string &text, lang::ElaborateLimits limits, const std::string &message) {
    lang::ElaborateOptions options;
    options.limits = limits;
    Elaborated e(text, options);
    CHECK(!e.module);
    REQUIRE(e.diags.all().size() == 1);
    CHECK(e.diags.all()[0].message == message);
  };
  std::string loop = program("static for i in range(0, 100) { store(p + i, s); }");
  fails(loop, {.steps = 200}, "the kernel needs more than 200 elaboration steps; that is the limit: unroll less");
  fails(loop, {.unroll = 99}, "this loop has 100 iterations; the limit for 'static for' is 99");
  fails(loop, {.operations = 150},
        "the kernel needs more than 150 operations; that is the limit: unroll less, or split it");
  fails(program("let t = zeros([64, 64], f32);"), {.tileElements = 4095},
        "a tile of shape [64, 64] is too large; the limit is 4095 elements");
  fails(program("let t = arange(0, 64)[:, None] + arange(0, 128)[None, :];"), {.tileElements = 4096},
        "a tile of shape [64, 128] is too large; the limit is 4096 elements");
  fails("fn a(x) { return b(x); }\nfn b(x) { return c(x); }\nfn c(x) { return x; }\nkernel k(p: *f32) { store(p, "
        "a(1.0)); }",
        {.callDepth = 2}, "calls are nested deeper than the limit of 2");
  fails(program("let x = ((((((((1 + 2) * 3) + 4) * 5) - 6) * 7) + 8) * 9) - (1 + (2 * (3 + (4 * (5 + n)))));"),
        {.nesting = 4}, "nested deeper than the limit of 4 levels of expressions, blocks and calls");
}

TEST_CASE("hostile text ends in an error, not in a crash") {
  std::string deep;
  for (int i = 0; i < 200; ++i) deep += "if n > " + std::to_string(i) + " { return; } ";
  CHECK(Elaborated(program(deep + "store(p, s);")).module);
  std::string nested = "store(p, s);";
  for (int i = 0; i < 60; ++i)
    nested = "for v" + std::to_string(i) + " in range(0, n) { if n > 3 { break; } " + nested + " }";
  CHECK(Elaborated(program(nested)).module);
  std::string sum = "n";
  for (int i = 0; i < 900; ++i) sum += " + n";
  CHECK(Elaborated(program("store(p + (" + sum + "), s);")).module);
  Elaborated many(program("static for i in range(0, 4096) { static for j in range(0, 4096) { store(p, s); } }"));
  CHECK(!many.module);
  CHECK(many.diags.all().size() == 1);
}

TEST_SUITE_END();
