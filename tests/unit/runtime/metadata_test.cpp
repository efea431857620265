// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <doctest/doctest.h>

#include "test_metadata.h"

using namespace tlx;

TEST_CASE("metadata survives JSON") {
  const std::string text = toJson(test::sampleMetadata());
  std::string error;
  const auto read = metadataFromJson(text, error);
  REQUIRE_MESSAGE(read, error);
  CHECK(toJson(*read) == text);
  CHECK(read->args[5].type == "f16");
  CHECK(read->facts[1].program.size() == 5);
  CHECK(read->facts[2].noalias);
  CHECK(read->resources.registers == 40u);
  CHECK(!read->resources.stackBytes);
  CHECK(read->stages[1].milliseconds == 20.5);
}

TEST_CASE("what is not metadata is refused with a reason") {
  for (const char *text : {"", "{}", "[1, 2]", "{\"name\": 3}", "null"}) {
    std::string error;
    CHECK(!metadataFromJson(text, error));
    CHECK(!error.empty());
  }
  std::string text = toJson(test::sampleMetadata()), error;
  text.replace(text.find("\"pointer\""), 9, "\"poynter\"");
  CHECK(!metadataFromJson(text, error));
  CHECK(error.find("poynter") != std::string::npos);
}

TEST_CASE("text that is not UTF-8 does not make a kernel unusable") {
  KernelMetadata m = test::sampleMetadata();
  m.assembler = "bad \xff byte";
  std::string error;
  CHECK(metadataFromJson(toJson(m), error));
}

TEST_CASE("facts") {
  using Op = Fact::Op;
  auto eval = [](std::vector<Fact::Step> program, std::vector<int64_t> args) {
    return evaluateFact({"", std::move(program), false}, args);
  };
  auto binary = [&](Op op, int64_t a, int64_t b, int64_t expected) {
    return eval({{Op::Arg, 0}, {Op::Arg, 1}, {op}, {Op::Const, expected}, {Op::Eq}}, {a, b});
  };
  CHECK(binary(Op::Add, 3, 4, 7));
  CHECK(binary(Op::Add, INT64_MAX, 1, INT64_MIN)); // wraps
  CHECK(binary(Op::Mul, int64_t(1) << 62, 4, 0));
  CHECK(binary(Op::Sub, 3, 4, -1));
  CHECK(binary(Op::DivFloor, -7, 2, -4));
  CHECK(binary(Op::ModFloor, -7, 2, 1));
  CHECK(binary(Op::DivFloor, 7, -2, -4));
  CHECK(binary(Op::ModFloor, 7, -2, -1));
  CHECK(binary(Op::DivFloor, INT64_MIN, -1, INT64_MIN));
  CHECK(binary(Op::ModFloor, INT64_MIN, -1, 0));
  CHECK(binary(Op::ModFloor, -8, 2, 0));
  CHECK(eval({{Op::Arg, 0}, {Op::Const, 8}, {Op::Le}}, {8}));
  CHECK(!eval({{Op::Arg, 0}, {Op::Const, 8}, {Op::Lt}}, {8}));
  CHECK(eval({{Op::Arg, 0}, {Op::Neg}, {Op::Const, -5}, {Op::Eq}}, {5}));
  CHECK(eval({{Op::Const, 0}, {Op::Not}}, {}));
  CHECK(eval({{Op::Const, 1}, {Op::Const, 0}, {Op::Or}}, {}));
  CHECK(!eval({{Op::Const, 1}, {Op::Const, 0}, {Op::And}}, {}));
  SUBCASE("nothing unproven passes") {
    CHECK(!eval({{Op::Const, 1}, {Op::Const, 0}, {Op::DivFloor}, {Op::Const, 0}, {Op::Eq}}, {}));
    CHECK(!eval({{Op::Arg, 3}}, {1, 1}));
    CHECK(!eval({{Op::Arg, -1}}, {1, 1}));
    CHECK(!eval({{Op::Add}}, {}));
    CHECK(!eval({}, {}));
    CHECK(!eval({{Op::Const, 1}, {Op::Const, 1}}, {}));
  }
}
