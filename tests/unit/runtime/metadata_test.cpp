// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <cstring>
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
  CHECK(read->tasks == test::sampleMetadata().tasks);
  CHECK(read->shared == test::sampleMetadata().shared);
}

TEST_CASE("descriptors survive JSON") {
  for (const bool tensorMap : {false, true}) {
    const KernelMetadata m = test::tensorMetadata(tensorMap);
    const std::string text = toJson(m);
    std::string error;
    const auto read = metadataFromJson(text, error);
    REQUIRE_MESSAGE(read, error);
    CHECK(toJson(*read) == text);
    CHECK(read->args[1].kind == ArgInfo::Kind::TensorDesc);
    CHECK(read->args[1].type == "tensor_desc<f16, [128, 64]>");
    REQUIRE(read->args[1].descriptor);
    CHECK(*read->args[1].descriptor == *m.args[1].descriptor);
    CHECK(!read->args[0].descriptor);
  }
}

TEST_CASE("a descriptor that is none is refused with a reason") {
  auto refused = [](bool tensorMap, const char *from, const char *to, const char *why) {
    std::string text = toJson(test::tensorMetadata(tensorMap)), error;
    // Without the spaces of the pretty form, so that a list is one piece.
    std::erase_if(text, [](char c) { return c == ' ' || c == '\n'; });
    const size_t at = text.find(from);
    REQUIRE_MESSAGE(at != std::string::npos, text);
    text.replace(at, std::strlen(from), to);
    CHECK(!metadataFromJson(text, error));
    CHECK_MESSAGE(error.find(why) != std::string::npos, error);
  };
  refused(true, "\"descriptor\"", "\"description\"", "descriptor");
  refused(true, "\"tensor_map\"", "\"tensor_mop\"", "tensor_mop");
  refused(true, "\"tensor_map\"", "\"fields\"", "shape_offsets");
  refused(true, "\"box\":[128,64]", "\"box\":[128,-64]", "-64 is not a 32-bit unsigned number");
  refused(true, "\"box\":[128,64]", "\"box\":64", "64 is not a list");
  refused(true, "\"box\":[128,64]", "\"box\":[4294967296]", "4294967296 is not");
  refused(true, "\"swizzle\":128", "\"swizzle\":1.5", "1.5 is not");
  refused(true, "\"block\":[128,64]", "\"block\":[128,\"64\"]", "is not the extent of a block");
  refused(true, "\"block\":[128,64]", "\"block\":8", "block");
  refused(true, "\"element\":\"f16\"", "\"element\":16", "string");
  refused(false, "\"stride_offsets\":[16]", "\"stride_offsets\":[\"16\"]", "is not a 32-bit unsigned number");
  refused(false, "\"shape_offsets\"", "\"shapes\"", "shape_offsets");
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
