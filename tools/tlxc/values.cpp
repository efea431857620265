// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See values.h.
#include "values.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>

#include "npy.h"
#include "tlxc.h"

namespace tlxc {

namespace {

using T = ElementType;
constexpr ElementType kTypes[] = {
    {"i1", T::Bool, 1, 0, 0, false, false, "|b1", false},
    {"i8", T::Signed, 1, 0, 0, false, false, "|i1", false},
    {"i16", T::Signed, 2, 0, 0, false, false, "<i2", false},
    {"i32", T::Signed, 4, 0, 0, false, false, "<i4", false},
    {"i64", T::Signed, 8, 0, 0, false, false, "<i8", false},
    {"u8", T::Unsigned, 1, 0, 0, false, false, "|u1", false},
    {"u16", T::Unsigned, 2, 0, 0, false, false, "<u2", false},
    {"u32", T::Unsigned, 4, 0, 0, false, false, "<u4", false},
    {"u64", T::Unsigned, 8, 0, 0, false, false, "<u8", false},
    {"f16", T::Float, 2, 5, 10, false, false, "<f2", false},
    {"bf16", T::Float, 2, 8, 7, false, false, "<u2", true},
    {"f32", T::Float, 4, 8, 23, false, false, "<f4", false},
    {"f64", T::Float, 8, 11, 52, false, false, "<f8", false},
    {"f8e4m3", T::Float, 1, 4, 3, true, false, "|u1", true},
    {"f8e5m2", T::Float, 1, 5, 2, false, false, "|u1", true},
    {"f8e4m3fnuz", T::Float, 1, 4, 3, true, true, "|u1", true},
    {"f8e5m2fnuz", T::Float, 1, 5, 2, true, true, "|u1", true},
};

[[noreturn]] void bad(const std::string &text, const std::string &why) {
  throw Failure(kUsage, "tlxc: --arg " + text + ": " + why + "\n");
}

/// Bits of a float type of at most 16 bits, rounded to nearest even in one step.
uint32_t smallFloat(const ElementType &type, double value) {
  const uint32_t sign = std::signbit(value) ? 1u << (type.exponent + type.mantissa) : 0;
  const uint32_t infinity = ((1u << type.exponent) - 1) << type.mantissa;
  const uint32_t nan = type.fnuz     ? 1u << (type.exponent + type.mantissa)
                       : type.finite ? infinity | ((1u << type.mantissa) - 1)
                                     : infinity | (1u << (type.mantissa - 1));
  if (std::isnan(value)) return nan;
  if (std::isinf(value)) return type.finite ? nan : sign | infinity;
  if (value == 0) return type.fnuz ? 0 : sign;
  const int lowest = 1 - ((1 << (type.exponent - 1)) - 1 + type.fnuz);
  int exponent;
  std::frexp(std::fabs(value), &exponent);
  exponent = std::max(exponent - 1, lowest);
  const uint64_t scaled = uint64_t(std::nearbyint(std::ldexp(std::fabs(value), int(type.mantissa) - exponent)));
  const uint64_t bits = (uint64_t(exponent - lowest) << type.mantissa) + scaled;
  if (type.finite) {
    const uint64_t largest = type.fnuz ? infinity | ((1u << type.mantissa) - 1) : nan - 1;
    if (bits > largest) return nan;
    return type.fnuz && bits == 0 ? 0 : sign | uint32_t(bits);
  }
  return sign | uint32_t(std::min<uint64_t>(bits, infinity));
}

} // namespace

const ElementType *findType(const std::string &name) {
  for (const ElementType &type : kTypes)
    if (name == type.name) return &type;
  return nullptr;
}

void storeInteger(const ElementType &type, uint8_t *to, int64_t value) {
  if (type.kind == T::Float) return storeValue(type, to, double(value));
  if (type.kind == T::Bool) value = value != 0;
  std::memcpy(to, &value, type.bytes); // little-endian host, as all that we support
}

void storeValue(const ElementType &type, uint8_t *to, double value) {
  if (type.kind != T::Float) return storeInteger(type, to, int64_t(value));
  if (type.bytes == 8) {
    std::memcpy(to, &value, 8);
  } else if (type.bytes == 4) {
    const float narrow = float(value);
    std::memcpy(to, &narrow, 4);
  } else {
    const uint32_t bits = smallFloat(type, value);
    std::memcpy(to, &bits, type.bytes);
  }
}

Random::Random(uint64_t seed, const std::string &name) {
  uint64_t hash = 0xcbf29ce484222325u; // FNV-1a
  for (unsigned char c : name) hash = (hash ^ c) * 0x100000001b3u;
  state = hash ^ seed;
}

uint64_t Random::next() {
  uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

double Random::normal() {
  if (hasSpare) {
    hasSpare = false;
    return spare;
  }
  const double u = double((next() >> 11) + 1) * 0x1p-53; // (0, 1]: its logarithm is finite
  const double v = double(next() >> 11) * 0x1p-53;
  const double radius = std::sqrt(-2 * std::log(u)), angle = 6.283185307179586 * v;
  spare = radius * std::sin(angle);
  hasSpare = true;
  return radius * std::cos(angle);
}

int64_t Random::integer(int64_t low, int64_t high) {
  const uint64_t range = uint64_t(high) - uint64_t(low);
  const uint64_t scaled = uint64_t((static_cast<unsigned __int128>(next()) * range) >> 64);
  return int64_t(uint64_t(low) + scaled);
}

int64_t ArgSpec::count() const {
  int64_t n = 1;
  for (int64_t extent : shape) n *= extent;
  return n;
}

int64_t ArgSpec::span() const {
  if (count() == 0) return 0;
  int64_t last = 0;
  for (size_t i = 0; i < shape.size(); ++i) last += (shape[i] - 1) * strides[i];
  return last + 1;
}

std::vector<int64_t> ArgSpec::offsets() const {
  std::vector<int64_t> result;
  result.reserve(size_t(count()));
  std::vector<int64_t> index(shape.size(), 0);
  int64_t offset = 0;
  for (int64_t n = count(); n > 0; --n) {
    result.push_back(offset);
    for (size_t d = shape.size(); d-- > 0;) {
      offset += strides[d];
      if (++index[d] < shape[d]) break;
      offset -= strides[d] * shape[d];
      index[d] = 0;
    }
  }
  return result;
}

namespace {

int64_t parseInteger(const std::string &whole, std::string_view text) {
  int64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size())
    bad(whole, "'" + std::string(text) + "' is not an integer");
  return value;
}

std::vector<int64_t> parseList(const std::string &whole, std::string_view text) {
  std::vector<int64_t> list;
  for (;;) {
    const size_t comma = text.find(',');
    list.push_back(parseInteger(whole, text.substr(0, comma)));
    if (comma == std::string_view::npos) return list;
    text.remove_prefix(comma + 1);
  }
}

double parseDouble(const std::string &whole, const std::string &text) {
  char *end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end) bad(whole, "'" + text + "' is neither a number nor TYPE[SHAPE]=CONTENTS");
  return value;
}

void parseNumber(const std::string &whole, const std::string &text, ArgSpec &spec) {
  if (text == "true" || text == "false") {
    spec.integer = text == "true";
    return;
  }
  const bool negative = text[0] == '-';
  const char *begin = text.c_str() + negative, *end = text.c_str() + text.size();
  const bool isHex = end - begin > 2 && begin[0] == '0' && (begin[1] == 'x' || begin[1] == 'X');
  uint64_t magnitude = 0;
  const auto [stop, problem] = std::from_chars(begin + (isHex ? 2 : 0), end, magnitude, isHex ? 16 : 10);
  if (problem == std::errc() && stop == end && (!negative || magnitude <= uint64_t(1) << 63)) {
    spec.integer = int64_t(negative ? 0 - magnitude : magnitude);
    spec.isUnsigned = !negative && magnitude > uint64_t(INT64_MAX);
    return;
  }
  spec.isFloat = true;
  spec.number = parseDouble(whole, text);
}

void parseContents(const std::string &whole, const std::string &text, ArgSpec &spec) {
  using Init = ArgSpec::Init;
  if (text == "empty")
    spec.init = Init::Empty;
  else if (text == "zeros")
    spec.init = Init::Zeros;
  else if (text == "ones")
    spec.init = Init::Ones;
  else if (text == "arange")
    spec.init = Init::Arange;
  else if (text == "randn")
    spec.init = Init::Randn;
  else if (text.rfind("full:", 0) == 0) {
    spec.init = Init::Full;
    spec.value = parseDouble(whole, text.substr(5));
  } else if (text.rfind("randint:", 0) == 0) {
    spec.init = Init::Randint;
    const size_t colon = text.find(':', 8);
    if (colon == std::string::npos) bad(whole, "write randint:LO:HI");
    spec.low = parseInteger(whole, std::string_view(text).substr(8, colon - 8));
    spec.high = parseInteger(whole, std::string_view(text).substr(colon + 1));
    if (spec.low >= spec.high) bad(whole, "randint:LO:HI draws from LO up to but without HI, so HI must be larger");
  } else if (text[0] == '@' && text.size() > 1) {
    spec.init = Init::File;
    spec.file = text.substr(1);
  } else {
    bad(whole, "'" + text + "' is none of randn, zeros, ones, arange, randint:LO:HI, full:VALUE, empty, @FILE.npy");
  }
  if (spec.init == Init::Randn && spec.type->kind != ElementType::Float) bad(whole, "randn needs a float type");
}

} // namespace

ArgSpec parseArg(const std::string &text) {
  ArgSpec spec;
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) bad(text, "write NAME=SPEC");
  spec.name = text.substr(0, equals);
  const std::string rest = text.substr(equals + 1);
  const size_t bracket = rest.find('[');
  if (bracket == std::string::npos) {
    parseNumber(text, rest, spec);
    return spec;
  }
  spec.isTensor = true;
  spec.type = findType(rest.substr(0, bracket));
  if (!spec.type) bad(text, "'" + rest.substr(0, bracket) + "' is not an element type");
  const size_t close = rest.find(']', bracket);
  if (close == std::string::npos) bad(text, "']' is missing");
  const std::string inside = rest.substr(bracket + 1, close - bracket - 1);
  const size_t colon = inside.find(':');
  const std::string extents = inside.substr(0, colon);
  if (!extents.empty()) spec.shape = parseList(text, extents);
  for (int64_t extent : spec.shape)
    if (extent < 0 || extent > int64_t(1) << 40) bad(text, "an extent must be between 0 and 2^40");
  if (colon != std::string::npos) {
    constexpr const char *kStride = "stride=";
    if (inside.compare(colon + 1, std::strlen(kStride), kStride) != 0) bad(text, "after ':' write stride=S0,S1,...");
    spec.strides = parseList(text, std::string_view(inside).substr(colon + 1 + std::strlen(kStride)));
    if (spec.strides.size() != spec.shape.size()) bad(text, "there must be a stride for each dimension");
    for (int64_t stride : spec.strides)
      if (stride < 0 || stride > int64_t(1) << 40) bad(text, "a stride must be between 0 and 2^40 elements");
  } else {
    spec.strides.resize(spec.shape.size());
    int64_t stride = 1;
    for (size_t d = spec.shape.size(); d-- > 0; stride *= std::max<int64_t>(spec.shape[d], 1)) spec.strides[d] = stride;
  }
  double elements = 1, reach = 1;
  for (size_t d = 0; d < spec.shape.size(); ++d) {
    elements *= double(spec.shape[d]);
    reach += double(spec.shape[d]) * double(spec.strides[d]);
  }
  if (elements > 0x1p38 || reach > 0x1p38) bad(text, "more than 2^38 elements");
  std::string contents = rest.substr(close + 1);
  if (contents.empty()) contents = "=empty";
  if (contents[0] != '=' || contents.size() == 1) bad(text, "after ']' write =CONTENTS");
  parseContents(text, contents.substr(1), spec);
  return spec;
}

std::vector<uint8_t> makeData(const ArgSpec &spec, uint64_t seed) {
  using Init = ArgSpec::Init;
  const ElementType &type = *spec.type;
  std::vector<uint8_t> data(size_t(spec.span()) * type.bytes, 0);
  if (spec.init == Init::Empty || spec.init == Init::Zeros) return data;
  const std::vector<int64_t> offsets = spec.offsets();
  if (spec.init == Init::File) {
    const std::vector<uint8_t> values = readNpy(spec.file, type, spec.shape);
    for (size_t i = 0; i < offsets.size(); ++i)
      std::memcpy(&data[size_t(offsets[i]) * type.bytes], &values[i * type.bytes], type.bytes);
    return data;
  }
  Random random(seed, spec.name);
  for (size_t i = 0; i < offsets.size(); ++i) {
    uint8_t *to = &data[size_t(offsets[i]) * type.bytes];
    switch (spec.init) {
    case Init::Ones:
      storeInteger(type, to, 1);
      break;
    case Init::Arange:
      storeInteger(type, to, int64_t(i));
      break;
    case Init::Randn:
      storeValue(type, to, random.normal());
      break;
    case Init::Randint:
      storeInteger(type, to, random.integer(spec.low, spec.high));
      break;
    default:
      storeValue(type, to, spec.value);
      break;
    }
  }
  return data;
}

} // namespace tlxc
