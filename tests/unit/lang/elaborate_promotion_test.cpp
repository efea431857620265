// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The promotion table: its rules, that operators follow it, and that the documentation shows it.
#include "elaborate_testing.h"
#include "lang/elaborate_promotion.h"

using namespace tlx;
using namespace tlx::lang;
using namespace elaboration;
using ir::Scalar;

namespace {
std::vector<Scalar> allScalars() {
  std::vector<Scalar> out;
  for (unsigned i = 0; i < ir::kScalars; ++i) out.push_back(Scalar(i));
  return out;
}
} // namespace

TEST_SUITE_BEGIN("promotion");

TEST_CASE("rules") {
  CHECK(promote(Scalar::I8, Scalar::I64).type == Scalar::I64);
  CHECK(promote(Scalar::U16, Scalar::U8).type == Scalar::U16);
  CHECK(promote(Scalar::F16, Scalar::F32).type == Scalar::F32);
  CHECK(promote(Scalar::BF16, Scalar::F64).type == Scalar::F64);
  CHECK(promote(Scalar::F8E5M2, Scalar::BF16).type == Scalar::BF16);
  CHECK(promote(Scalar::I32, Scalar::U64).outcome == Promotion::SignMix);
  CHECK(promote(Scalar::I32, Scalar::F32).outcome == Promotion::KindMix);
  CHECK(promote(Scalar::F16, Scalar::BF16).outcome == Promotion::FormatMix);
  CHECK(promote(Scalar::F8E4M3, Scalar::F8E5M2).outcome == Promotion::FormatMix);
  CHECK(promote(Scalar::I1, Scalar::I32).outcome == Promotion::BoolMix);
  for (Scalar a : allScalars())
    for (Scalar b : allScalars()) {
      Promotion ab = promote(a, b), ba = promote(b, a);
      CHECK(ab.outcome == ba.outcome);
      if (ab.outcome != Promotion::Ok) continue;
      CHECK(ab.type == ba.type);
      CHECK((ab.type == a || ab.type == b));
      CHECK(ir::scalarBits(ab.type) == std::max(ir::scalarBits(a), ir::scalarBits(b)));
    }
}

TEST_CASE("every pair, as where(c, x, y) of the two types") {
  for (Scalar a : allScalars())
    for (Scalar b : allScalars()) {
      std::string x = ir::scalarName(a).str(), y = ir::scalarName(b).str();
      CAPTURE(x);
      CAPTURE(y);
      Promotion p = promote(a, b);
      std::string check =
          p.outcome == Promotion::Ok ? "static_assert(dtype_of(z) == " + ir::scalarName(p.type).str() + ");" : "";
      Elaborated e("kernel k(p: *" + x + ", q: *" + y + ", c: i1) { let z = where(c, load(p), load(q)); " + check +
                   " }");
      CHECK(bool(e.module) == (p.outcome == Promotion::Ok));
      CHECK(e.diags.all().size() == (p.outcome == Promotion::Ok ? 0u : 1u));
    }
}

TEST_CASE("literals adapt, and values of a let do not") {
  auto type = [](const std::string &expression, const std::string &name) {
    Elaborated e(program("let z = " + expression + "; static_assert(dtype_of(z) == " + name + ");"));
    CHECK_MESSAGE(e.module, (expression + "\n" + e.diags.render(e.sources)));
  };
  type("load(h) * 2", "f16");
  type("load(h) * 2.5", "f16");
  type("2.5 * load(h) + 1", "f16");
  type("m + 1", "i64");
  type("u / 3", "u32");
  type("load(b8) + (1 + 2 * 3)", "i8");
  type("s * -inf", "f32");
  type("1", "i32");
  type("1.0", "f32");
  type("1 + 2.0", "f32");
  type("N", "i32");
  type("m + N", "i64");
  type("load(b8) + N", "i32");
  Elaborated let(program("let c = 2.5; let z = load(h) * c; static_assert(dtype_of(z) == f32);"));
  CHECK(let.module);
  Elaborated wrong(program("let z = load(h) + N;"));
  CHECK(wrong.errors() == "2:17-18 '+' mixes integer i32 with f16; convert the integer with .to(f16)");
}

TEST_CASE("compile-time arithmetic") {
  const char *facts[] = {"-7 / 2 == -4",
                         "-7 % 2 == 1",
                         "7 / -2 == -4",
                         "7 % -2 == -1",
                         "cdiv(-7, 2) == -3",
                         "cdiv(7, 2) == 4",
                         "1 << 40 == 1099511627776",
                         "-9223372036854775808 < 0",
                         "(300).to(i8) == 44",
                         "(-1).to(u32) == 4294967295",
                         "(3.99).to(i32) == 3",
                         "(1.0e20).to(i32) == 2147483647",
                         "(-1.0).to(u8) == 0",
                         "(0.1).to(f32).to(f64) != (0.1).to(f64)",
                         "(2049.0).to(f16) == 2048.0",
                         "(500.0).to(f8e4m3) == 448.0",
                         "max(3, 5) == 5 && min(3, 5) == 3",
                         "maximum(1.5, 2) == 2.0",
                         "where(N == 8, 1, 2) == 1",
                         "f16 == f16 && f16 != bf16",
                         "bytes_of(f16) == 2 && bytes_of(zeros([4, 8], f64)) == 256",
                         "twice == twice && twice != typed",
                         "twice(4) == 8",
                         "exp2(3) == 8.0 && sqrt(16.0) == 4.0 && abs(-3) == 3 && floor(-1.5) == -2.0",
                         "false && no_such || true",
                         "(1, 2)[1] == 2",
                         "~5 == -6 && (5 ^ 3) == 6 && (5 | 2) == 7 && (5 & 4) == 4",
                         "nan != nan && !(nan == nan)"};
  for (const char *fact : facts) {
    Elaborated e(program(std::string("static_assert(") + fact + ");"));
    CHECK_MESSAGE(e.module, (std::string(fact) + "\n" + e.diags.render(e.sources)));
  }
}

TEST_CASE("docs/language.md shows the table") {
  std::string text = readFile(root() / "docs" / "language.md");
  CHECK_MESSAGE(text.find(promotionTable()) != std::string::npos, promotionTable());
}

TEST_CASE("docs/language.md describes every operation") {
  std::string text = readFile(root() / "docs" / "language.md");
  for (const std::string &name : operationNames())
    CHECK_MESSAGE(text.find("`" + name + "(") != std::string::npos, name);
}

TEST_SUITE_END();
