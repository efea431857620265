// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the tests of single operations share: arrays of any element type, exact conversions, and running a text on every
// target.
#pragma once
#include <algorithm>
#include <functional>
#include <sstream>

#include <doctest/doctest.h>

#include "harness.h"

namespace operations {
using namespace harness;

struct Type {
  std::string name;
  unsigned bits;
  bool isFloat, isSigned;
  int mantissa = 0, bias = 0; // floats
  bool fnuz = false;
  unsigned bytes() const { return bits < 8 ? 1 : bits / 8; }
};
inline const Type &typeOf(const std::string &name) {
  static const Type all[] = {{"i1", 1, false, false},
                             {"i8", 8, false, true},
                             {"i16", 16, false, true},
                             {"i32", 32, false, true},
                             {"i64", 64, false, true},
                             {"u8", 8, false, false},
                             {"u16", 16, false, false},
                             {"u32", 32, false, false},
                             {"u64", 64, false, false},
                             {"f8e4m3", 8, true, true, 3, 7},
                             {"f8e5m2", 8, true, true, 2, 15},
                             {"f8e4m3fnuz", 8, true, true, 3, 8, true},
                             {"f8e5m2fnuz", 8, true, true, 2, 16, true},
                             {"f16", 16, true, true, 10, 15},
                             {"bf16", 16, true, true, 7, 127},
                             {"f32", 32, true, true, 23, 127},
                             {"f64", 64, true, true, 52, 1023}};
  for (const Type &t : all)
    if (t.name == name) return t;
  throw std::runtime_error("no type " + name);
}

using Wide = __int128;
inline uint64_t maskOf(const Type &t) {
  return t.bits == 64 ? ~0ull : (1ull << t.bits) - 1;
}
inline Wide intOf(const Type &t, uint64_t raw) {
  raw &= maskOf(t);
  if (t.isSigned && raw >> (t.bits - 1)) return Wide(raw) - (Wide(1) << t.bits);
  return Wide(raw);
}
inline uint64_t wrap(const Type &t, Wide v) {
  return uint64_t(v) & maskOf(t);
}
inline Wide smallest(const Type &t) {
  return t.isSigned ? -(Wide(1) << (t.bits - 1)) : Wide(0);
}
inline Wide largest(const Type &t) {
  return (Wide(1) << (t.bits - (t.isSigned ? 1 : 0))) - 1;
}

inline double floatOf(const Type &t, uint64_t raw) {
  if (t.bits == 64) {
    double d;
    std::memcpy(&d, &raw, 8);
    return d;
  }
  unsigned eBits = t.bits - 1 - t.mantissa;
  uint64_t sign = raw >> (t.bits - 1) & 1, e = raw >> t.mantissa & ((1u << eBits) - 1),
           m = raw & ((1ull << t.mantissa) - 1);
  uint64_t top = (1u << eBits) - 1;
  if (t.fnuz) {
    if (sign && !e && !m) return NAN;
  } else if (t.name == "f8e4m3") {
    if (e == top && m == 7) return NAN;
  } else if (e == top) {
    return m ? NAN : sign ? -INFINITY : INFINITY;
  }
  double v = e == 0 ? std::ldexp(double(m), 1 - t.bias - t.mantissa)
                    : std::ldexp(double(m | 1ull << t.mantissa), int(e) - t.bias - t.mantissa);
  return sign ? -v : v;
}
/// The largest finite magnitude.
inline double limitOf(const Type &t) {
  if (t.name == "f8e4m3") return 448;
  if (t.name == "f8e4m3fnuz") return 240;
  if (t.name == "f8e5m2" || t.name == "f8e5m2fnuz") return 57344;
  if (t.bits == 64) return 1.7976931348623157e308;
  return floatOf(t, (((1ull << (t.bits - 1 - t.mantissa)) - 1) << t.mantissa) - 1);
}
/// The value of a float type next to `v`: to nearest even, or towards zero. 8-bit types saturate.
inline double roundTo(const Type &t, long double v, bool towardsZero = false) {
  if (std::isnan(v) || v == 0) return double(v);
  long double limit = limitOf(t);
  if (std::isinf(v)) return double(t.bits == 8 ? std::copysign(limit, v) : v);
  int e;
  std::frexp(v, &e);
  int unit = std::max(e - 1 - t.mantissa, 1 - t.bias - t.mantissa);
  long double n = std::ldexp(v, -unit);
  long double r = std::ldexp(towardsZero ? std::trunc(n) : std::nearbyint(n), unit);
  if (r == 0) r = std::copysign(0.0L, v);
  if (std::fabs(r) <= limit) return double(r);
  return double(t.bits == 8 || towardsZero ? std::copysign(limit, v) : std::copysign((long double)INFINITY, v));
}
inline uint64_t floatBits(const Type &t, double v) { // of a value that the type has
  if (t.bits == 64) {
    uint64_t raw;
    std::memcpy(&raw, &v, 8);
    return raw;
  }
  uint64_t sign = std::signbit(v) ? 1ull << (t.bits - 1) : 0, top = (1ull << (t.bits - 1 - t.mantissa)) - 1;
  if (std::isnan(v)) return t.fnuz ? 0x80 : t.name == "f8e4m3" ? 0x7f : top << t.mantissa | 1ull << (t.mantissa - 1);
  if (std::isinf(v)) return sign | top << t.mantissa;
  if (v == 0) return t.fnuz ? 0 : sign;
  int e;
  double m = std::frexp(std::fabs(v), &e);
  int biased = e - 1 + t.bias;
  if (biased <= 0) return sign | uint64_t(std::ldexp(std::fabs(v), t.bias - 1 + t.mantissa));
  return sign | uint64_t(biased) << t.mantissa | (uint64_t(std::ldexp(m, t.mantissa + 1)) & ((1ull << t.mantissa) - 1));
}

/// Elements of one type as their bits.
class Array {
public:
  Array(const std::string &type, size_t count) : type(typeOf(type)), count(count), data(count * this->type.bytes()) {}
  const Type &type;
  size_t count;
  std::vector<uint8_t> data;
  uint64_t raw(size_t i) const {
    uint64_t v = 0;
    std::memcpy(&v, data.data() + i * type.bytes(), type.bytes());
    return v;
  }
  void setRaw(size_t i, uint64_t v) { std::memcpy(data.data() + i * type.bytes(), &v, type.bytes()); }
  Wide integer(size_t i) const { return intOf(type, raw(i)); }
  double value(size_t i) const { return type.isFloat ? floatOf(type, raw(i)) : double(integer(i)); }
  /// Rounds to nearest even, or wraps.
  void set(size_t i, double v) { setRaw(i, type.isFloat ? floatBits(type, roundTo(type, v)) : wrap(type, Wide(v))); }
  Array &randomBits(Rng &rng) {
    for (size_t i = 0; i < count; ++i) setRaw(i, rng.next() & maskOf(type));
    return *this;
  }
  Array &normal(Rng &rng, double scale = 1) {
    for (size_t i = 0; i < count; ++i) set(i, rng.normal() * scale);
    return *this;
  }
  Array &integers(Rng &rng, int64_t lo, int64_t hi) {
    for (size_t i = 0; i < count; ++i) set(i, double(rng.integer(lo, hi)));
    return *this;
  }
};

/// Fails with the first wrong element. NaN is equal to NaN whatever its bits.
inline void expectBits(const Array &got, const std::vector<uint64_t> &want, const std::string &where,
                       bool strict = false) {
  size_t wrong = 0;
  std::ostringstream first;
  for (size_t i = 0; i < want.size(); ++i) {
    if (got.raw(i) == want[i]) continue;
    if (!strict && got.type.isFloat && std::isnan(got.value(i)) && std::isnan(floatOf(got.type, want[i]))) continue;
    if (wrong++ == 0)
      first << got.type.name << " element " << i << ": " << got.value(i) << " (0x" << std::hex << got.raw(i)
            << "), should be " << (got.type.isFloat ? floatOf(got.type, want[i]) : double(intOf(got.type, want[i])))
            << " (0x" << want[i] << ")";
  }
  CHECK_MESSAGE(wrong == 0, where, ": ", wrong, " of ", want.size(), " wrong; ", first.str());
}
inline void expectClose(const Array &got, const std::vector<double> &want, double atol, double rtol,
                        const std::string &where) {
  size_t wrong = 0;
  std::ostringstream first;
  first.precision(10);
  for (size_t i = 0; i < want.size(); ++i) {
    double g = got.value(i), w = want[i];
    if (g == w || (std::isnan(g) && std::isnan(w)) || std::fabs(g - w) <= atol + rtol * std::fabs(w)) continue;
    if (wrong++ == 0) first << got.type.name << " element " << i << ": " << g << ", should be " << w;
  }
  CHECK_MESSAGE(wrong == 0, where, ": ", wrong, " of ", want.size(), " wrong; ", first.str());
}
inline std::vector<uint64_t> bitsOf(const Array &a) {
  std::vector<uint64_t> out;
  for (size_t i = 0; i < a.count; ++i) out.push_back(a.raw(i));
  return out;
}

struct Job {
  std::string text;
  std::vector<std::pair<std::string, std::string>> params;
  std::vector<Array *> in, out; // the first arguments of the kernel, in this order
  std::vector<tlx::Arg> scalars;
  tlx::Grid grid = {1, 1, 1};
  bool keepOutputs = false; // else they are poisoned
  bool inOrderOnly = false;
  std::vector<std::string> on = targets();
  std::string *printed = nullptr;
};
/// Compiles the only kernel of a text for each target and runs it under each schedule; `check` looks at the outputs.
inline void execute(const Job &job, const std::function<void(const std::string &)> &check) {
  std::vector<std::vector<uint8_t>> first;
  for (Array *a : job.out) first.push_back(a->data);
  for (const std::string &target : job.on) {
    Program program;
    try {
      program = compileText(job.text, {"operations.tlx", "", job.params, {}}, target);
    } catch (const std::exception &e) {
      std::string why = e.what();
      CHECK_MESSAGE(false, why, "\n", job.text.substr(0, 1500));
      continue;
    }
    std::vector<tlx::Buffer> inputs;
    for (Array *a : job.in) {
      inputs.push_back(program.device.allocate(std::max<size_t>(1, a->data.size())));
      if (a->count) inputs.back().write(a->data.data());
    }
    std::vector<Setting> settings{{target}};
    if (onSimulator() && !job.inOrderOnly)
      for (uint64_t seed : {1, 2}) settings.push_back({target, TLX_SCHEDULE_RANDOM, seed});
    for (const Setting &s : settings) {
      std::vector<tlx::Buffer> outputs;
      std::vector<tlx::Arg> args;
      for (auto &b : inputs) args.push_back(b);
      for (size_t i = 0; i < job.out.size(); ++i) {
        auto &data = job.out[i]->data;
        if (job.keepOutputs)
          data = first[i];
        else
          std::fill(data.begin(), data.end(), 0xa5);
        outputs.push_back(program.device.allocate(std::max<size_t>(1, data.size())));
        outputs.back().write(data.data());
        args.push_back(outputs.back());
      }
      args.insert(args.end(), job.scalars.begin(), job.scalars.end());
      std::string problem = program.run(job.grid, args, s, job.printed);
      CHECK_MESSAGE(problem == "", s.text(), "\n", job.text.substr(0, 1500));
      for (size_t i = 0; i < job.out.size(); ++i) outputs[i].read(job.out[i]->data.data());
      check(s.text());
    }
  }
}

/// Text with every $NAME replaced.
inline std::string replace(std::string text, std::vector<std::pair<std::string, std::string>> by) {
  std::sort(by.begin(), by.end(), [](auto &a, auto &b) { return a.first.size() > b.first.size(); });
  for (auto &[name, value] : by)
    for (size_t at = 0; (at = text.find("$" + name, at)) != std::string::npos; at += value.size())
      text.replace(at, name.size() + 1, value);
  return text;
}

using Shape = std::vector<int64_t>;
inline int64_t product(const Shape &s, size_t from, size_t to) {
  int64_t p = 1;
  for (size_t i = from; i < to; ++i) p *= s[i];
  return p;
}
inline std::string text(const Shape &s) {
  std::string out = "[";
  for (size_t i = 0; i < s.size(); ++i) out += (i ? ", " : "") + std::to_string(s[i]);
  return out + "]";
}
/// The elements along `axis` for each of the other coordinates, in row-major order of these.
inline std::vector<std::vector<size_t>> lines(const Shape &s, size_t axis) {
  int64_t outer = product(s, 0, axis), n = s[axis], inner = product(s, axis + 1, s.size());
  std::vector<std::vector<size_t>> out;
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i) {
      out.emplace_back();
      for (int64_t k = 0; k < n; ++k) out.back().push_back(size_t((o * n + k) * inner + i));
    }
  return out;
}
/// A tile of row-major offsets of this shape.
inline std::string offsets(const Shape &s) {
  std::string out;
  for (size_t d = 0; d < s.size(); ++d) {
    out += (d ? " + " : "") + std::string("arange(0, ") + std::to_string(s[d]) + ")";
    if (s.size() > 1) {
      out += "[";
      for (size_t e = 0; e < s.size(); ++e) out += std::string(e ? ", " : "") + (e == d ? ":" : "None");
      out += "]";
    }
    out += " * " + std::to_string(product(s, d + 1, s.size()));
  }
  return "(" + out + ")";
}
inline Shape without(Shape s, size_t axis) {
  s.erase(s.begin() + axis);
  return s;
}

} // namespace operations
