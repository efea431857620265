// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What correct text means: grouping, every form of statement and expression, literals, locations.
#include <cmath>

#include "syntax_testing.h"

using namespace tlx;
using namespace tlx::ast;
using llvm::cast;
using llvm::isa;

namespace {

/// The grouping of an expression, with every operator's operands in parentheses.
std::string grouping(const Expr &e) {
  if (auto *b = llvm::dyn_cast<Binary>(&e))
    return "(" + grouping(*b->lhs) + " " + std::string(spelling(b->op)) + " " + grouping(*b->rhs) + ")";
  if (auto *u = llvm::dyn_cast<Unary>(&e)) return "(" + std::string(spelling(u->op)) + grouping(*u->operand) + ")";
  if (auto *m = llvm::dyn_cast<Member>(&e)) return "(" + grouping(*m->object) + "." + m->member.text + ")";
  if (auto *i = llvm::dyn_cast<Index>(&e)) return "(" + grouping(*i->object) + "[…])";
  return print(e);
}

struct One {
  syntax::Parsed parsed;
  const Stmt *stmt;
  explicit One(const std::string &text) : parsed(syntax::inKernel(text)) {
    REQUIRE_MESSAGE(parsed.diags.all().empty(), parsed.diags.render(parsed.sources));
    stmt = parsed.file->kernels[0]->body->stmts.at(0).get();
  }
  const Expr &value() const { return *cast<Let>(stmt)->value; }
};

std::string group(const std::string &expr) {
  return grouping(One("let x = " + expr + ";").value());
}

uint64_t intOf(const std::string &text) {
  return cast<IntLit>(One("let x = " + text + ";").value()).value;
}
double floatOf(const std::string &text) {
  return cast<FloatLit>(One("let x = " + text + ";").value()).value;
}

} // namespace

TEST_SUITE_BEGIN("syntax");

TEST_CASE("precedence and associativity") {
  CHECK(group("a + b * c") == "(a + (b * c))");
  CHECK(group("a - b - c") == "((a - b) - c)");
  CHECK(group("a / b % c * d") == "(((a / b) % c) * d)");
  CHECK(group("a << b + c") == "(a << (b + c))");
  CHECK(group("a & b << c") == "(a & (b << c))");
  CHECK(group("a ^ b & c") == "(a ^ (b & c))");
  CHECK(group("a | b ^ c") == "(a | (b ^ c))");
  CHECK(group("flags & 1 == 0") == "((flags & 1) == 0)");
  CHECK(group("a | b < c ^ d") == "((a | b) < (c ^ d))");
  CHECK(group("a < b && c == d") == "((a < b) && (c == d))");
  CHECK(group("a || b && c") == "(a || (b && c))");
  CHECK(group("a && b || c && d") == "((a && b) || (c && d))");
  CHECK(group("-a * b") == "((-a) * b)");
  CHECK(group("!a && b") == "((!a) && b)");
  CHECK(group("~a & b") == "((~a) & b)");
  CHECK(group("- -a") == "(-(-a))");
  CHECK(group("-x.T") == "(-(x.T))");
  CHECK(group("-x[0]") == "(-(x[…]))");
  CHECK(group("(a < b) == (c < d)") == "((a < b) == (c < d))");
  CHECK(group("a < (b < c)") == "(a < (b < c))");
  CHECK(group("a - (b - c)") == "(a - (b - c))");
}

TEST_CASE("parentheses are printed where the tree needs them") {
  for (const char *text : {"(a + b) * c", "a - (b - c)", "-(a + b)", "(-a).to(f32)", "(a + b)[:, None]", "(a < b) == c",
                           "-(-a)", "!!a", "~-a", "a * -b", "(a, b)", "f((a, b), [c, d])", "a || (b || c)"})
    CHECK(syntax::statement("let x = " + std::string(text) + ";") == "let x = " + std::string(text) + ";");
  CHECK(syntax::statement("let x = ((a) + ((b * c)));") == "let x = a + b * c;");
}

TEST_CASE("every form of expression") {
  for (const char *text : {"1",
                           "0.5",
                           "inf",
                           "-inf",
                           "nan",
                           "true",
                           "false",
                           "\"a \\\"b\\\" \\\\ \\n\\t \\x01 é\"",
                           "name",
                           "f()",
                           "f(a, b, c = 1, d = [1, 2])",
                           "x.to(f32)",
                           "1.to(i64)",
                           "1.5.to(f16)",
                           "x.T",
                           "desc.load([m, k])",
                           "x.T[0].to(f16).T",
                           "x[:, None]",
                           "x[None, :, 0]",
                           "ring[slot]",
                           "ring[slot + 1][0]",
                           "[]",
                           "[a, b]",
                           "[[a, b], [c]]",
                           "(a, b)",
                           "((a, b), c)",
                           "static_range",
                           "range",
                           "launch(requires, default)"})
    CHECK(syntax::statement("let x = " + std::string(text) + ";") == "let x = " + std::string(text) + ";");
  CHECK(syntax::statement("let x = f(a, b,);") == "let x = f(a, b);");
  CHECK(syntax::statement("let x = [a, b,];") == "let x = [a, b];");
  CHECK(syntax::statement("let x = (a, b,);") == "let x = (a, b);");
}

TEST_CASE("every form of statement") {
  for (const char *text : {"let x = 1;",
                           "let (a, _, c) = f();",
                           "let _ = f();",
                           "var x = 1;",
                           "var (slot, phase) = (0, 0);",
                           "x = 1;",
                           "(a, b) = f();",
                           "(a, _) = f();",
                           "_ = f();",
                           "x += 1;",
                           "x -= 1;",
                           "x *= 2;",
                           "x /= 2;",
                           "x %= 2;",
                           "x &= 1;",
                           "x |= 1;",
                           "x ^= 1;",
                           "x <<= 1;",
                           "x >>= 1;",
                           "f(x);",
                           "c.store([m, n], x);",
                           "static_assert(a >= 2, \"message\");",
                           "return;",
                           "return x;",
                           "return (a, b);",
                           "{}",
                           "if a {}",
                           "if a {} else {}",
                           "if a {} else if b {} else {}",
                           "for i in range(4) {}",
                           "for i in range(0, 4) {}",
                           "for i in range(0, 4, 2, num_stages = 3) {}",
                           "static for i in range(4) {}",
                           "for _ in range(4) {}",
                           "while a < b {}"})
    CHECK(syntax::statement(text) == text);
  CHECK(syntax::statement("while a { break; }") == "while a {\n        break;\n    }");
  CHECK(syntax::statement("for i in range(2) { continue; }") == "for i in range(2) {\n        continue;\n    }");
  CHECK(syntax::statement("async_tasks(exclusive = true) { if A { async_task(default, registers = 40) {} } else { "
                          "async_task(num_warps = 4) { for i in range(4) { break; } } } }") ==
        "async_tasks(exclusive = true) {\n        if A {\n            async_task(default, registers = 40) {}\n        "
        "} else "
        "{\n            async_task(num_warps = 4) {\n                for i in range(4) {\n                    break;\n"
        "                }\n            }\n        }\n    }");
}

TEST_CASE("every form of item") {
  const char *text =
      "import \"std/schedule.tlx\";\n"
      "import \"b.tlx\";\n"
      "\n"
      "const A = 4;\n"
      "const B = A << 2;\n"
      "\n"
      "fn f(x, const N: i32, y: *f16, z: f32[128, N], w = 3) {\n"
      "    return (x, N);\n"
      "}\n"
      "\n"
      "kernel k<T: dtype = f16, F: fn = f, I: i1 = (A < B), S: f32 = 0.5>(x: *T, y: **f16, d: tensor_desc<T, [A, "
      "B / 2]>, n: i64) launch(num_warps = 4, cluster = [2, 1, 1]) requires(n <= A, aligned(x, 16)) {}\n"
      "\n"
      "kernel empty() {}\n";
  CHECK(syntax::canonical(text) == text);
  syntax::Parsed parsed(text);
  CHECK(parsed.file->imports.size() == 2);
  CHECK(parsed.file->consts.size() == 2);
  CHECK(parsed.file->fns[0]->params[1].isConst);
  CHECK(parsed.file->kernels[0]->facts.size() == 2);
  CHECK(parsed.file->order.size() == 7);
}

TEST_CASE("numbers") {
  CHECK(intOf("0") == 0);
  CHECK(intOf("1_000_000") == 1000000);
  CHECK(intOf("0xFf_00") == 0xff00);
  CHECK(intOf("0b1010_0101") == 0xa5);
  CHECK(intOf("18446744073709551615") == UINT64_MAX);
  CHECK(floatOf("1_0.2_5") == 10.25);
  CHECK(floatOf("1e3") == 1000);
  CHECK(floatOf("2.5E-1") == 0.25);
  CHECK(std::isinf(floatOf("inf")));
  CHECK(std::isnan(floatOf("nan")));
  CHECK(floatOf("1.7976931348623157e308") == std::numeric_limits<double>::max());
  CHECK(print(One("let x = 0.1;").value()) == "0.1");
  CHECK(print(One("let x = 3e0;").value()) == "3.0");
}

TEST_CASE("strings, comments and line ends") {
  CHECK(cast<StringLit>(One("let x = \"a\\n\\x41\\0\\\"\";").value()).value == std::string("a\nA\0\"", 5));
  CHECK(syntax::statement("let x /* a\n b */ = // c\n 1; // d") == "let x = 1;");
  CHECK(syntax::statement("let x = 1;\r\nlet y = \"é\"; // ü\r\n") == "let x = 1;\n    let y = \"é\";");
  CHECK(syntax::canonical("\xEF\xBB\xBFkernel k() {}") == "kernel k() {}\n");
  CHECK(syntax::canonical("") == "");
  CHECK(syntax::canonical("// only a comment") == "");
  // A string that is not UTF-8 is written with escapes.
  CHECK(syntax::statement("let x = \"\\xff\";") == "let x = \"\\xff\";");
}

TEST_CASE("locations") {
  One one("let x = foo(a,\n  b) + (c * d);");
  const auto &sum = cast<Binary>(one.value());
  CHECK(sum.loc == Loc{1, 2, 9, 15}); // as far as its first line goes
  CHECK(sum.opLoc == Loc{1, 3, 6, 7});
  CHECK(sum.lhs->loc == Loc{1, 2, 9, 15});
  CHECK(sum.rhs->loc == Loc{1, 3, 9, 14});
  CHECK(cast<Call>(*sum.lhs).args[1].loc == Loc{1, 3, 3, 4});
  CHECK(one.stmt->loc == Loc{1, 2, 1, 15});
  CHECK(sum.height == 3);

  One product("let x = (a + b) * c.T;");
  CHECK(product.value().loc == Loc{1, 2, 9, 22}); // with the parentheses
  CHECK(cast<Binary>(product.value()).lhs->loc == Loc{1, 2, 10, 15});

  One loop("for i in range(0, n,\n num_stages = 3) {\n}");
  CHECK(loop.stmt->loc == Loc{1, 2, 1, 21});
  CHECK(cast<For>(loop.stmt)->var.loc == Loc{1, 2, 5, 6});
  CHECK(cast<For>(loop.stmt)->attrs[0].loc == Loc{1, 3, 2, 16});
  CHECK(cast<For>(loop.stmt)->body->endLoc == Loc{1, 4, 1, 2});
}

TEST_CASE("range bounds") {
  One one("for i in range(n) {}");
  CHECK(!cast<For>(one.stmt)->lo);
  CHECK(!cast<For>(one.stmt)->step);
  One three("for i in range(a, b, c, x = 1) {}");
  CHECK(print(*cast<For>(three.stmt)->lo) == "a");
  CHECK(print(*cast<For>(three.stmt)->hi) == "b");
  CHECK(print(*cast<For>(three.stmt)->step) == "c");
}

TEST_CASE("what could be parsed is returned") {
  syntax::Parsed parsed("kernel a() { let x = ; f(); }\nkernel b() { g(); }\nkernel c() { let y = 1.; }\nfn d( { }\n");
  CHECK(parsed.diags.errorCount() == 3);
  REQUIRE(parsed.file->kernels.size() == 3);
  CHECK(parsed.file->kernels[0]->incomplete);
  CHECK(parsed.file->kernels[0]->body->stmts.size() == 1);
  CHECK(!parsed.file->kernels[1]->incomplete);
  CHECK(parsed.file->kernels[2]->incomplete); // the lexer's report counts
}

TEST_CASE("a comment where a division was meant is explained and shown") {
  syntax::Parsed parsed(syntax::inKernel("let q = n // 4;\nlet r = q;"));
  REQUIRE(parsed.diags.all().size() == 1);
  REQUIRE(parsed.diags.all()[0].notes.size() == 1);
  CHECK(parsed.diags.all()[0].notes[0].loc == Loc{1, 2, 11, 13});
}

TEST_CASE("names of types in other languages") {
  CHECK(lang::dtypeSuggestion("float32") == "f32");
  CHECK(lang::dtypeSuggestion("tl.bfloat16") == "bf16");
  CHECK(lang::dtypeSuggestion("f32") == "");
  CHECK(lang::dtypeSuggestion("x") == "");
}

TEST_SUITE_END();
