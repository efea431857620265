// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the tests of wgmma, TMA and mbarriers share: matrices with poison between their rows, and a kernel from text under every schedule.
#pragma once
#include "operations.h"

namespace async_testing {
using namespace operations;

struct Matrix {
  int64_t rows, cols, ld;
  Array values;
  bool pointer = false; // passed as a pointer and not as a tensor
  Matrix(const std::string &type, int64_t rows, int64_t cols, bool pointer = false)
      : rows(rows), cols(cols), ld(pointer ? cols : padded(cols, typeOf(type).bytes())),
        values(type, size_t(std::max<int64_t>(1, rows) * ld)), pointer(pointer) {}
  static int64_t padded(int64_t cols, unsigned bytes) { // at least one element between rows
    const int64_t unit = 16 / bytes;
    return (cols + unit) / unit * unit;
  }
  double operator()(int64_t r, int64_t c) const {
    return r < 0 || c < 0 || r >= rows || c >= cols ? 0 : values.value(size_t(r * ld + c));
  }
};

struct Case {
  std::string text;
  std::vector<std::pair<std::string, std::string>> params;
  std::vector<Matrix> inputs;
  Matrix output;
  std::vector<tlx::Arg> scalars;
  unsigned programs = 1;
  std::vector<std::string> facts;
  int64_t bound = 2;
  uint8_t poison = 0xa5; // of the output; what is not written keeps it
};

using Reference = std::function<double(const std::vector<Matrix> &in, int64_t row, int64_t col)>;

inline std::vector<std::string> hopper() {
  std::vector<std::string> out;
  for (const std::string &t : targets())
    if (t == "sm_90a") out.push_back(t);
  return out;
}

/// Those that have tasks.
inline std::vector<std::string> withTasks() {
  std::vector<std::string> out;
  for (const std::string &t : targets())
    if (t.starts_with("sm_")) out.push_back(t);
  return out;
}

inline void check(Case c, const Reference &reference) {
  for (const std::string &target : hopper()) {
    Program program;
    try {
      program = compileText(c.text, {"async.tlx", "k", c.params, c.facts}, target);
    } catch (const std::exception &e) {
      std::string why = e.what();
      CHECK_MESSAGE(false, why, "\n", c.text);
      return;
    }
    Rng rng(uint64_t(c.output.rows * 31 + c.output.cols));
    std::vector<tlx::Buffer> buffers;
    std::vector<tlx::Tensor> tensors;
    std::vector<harness::Tensor> like;
    std::vector<tlx::Arg> args;
    buffers.reserve(8), tensors.reserve(8);
    auto pass = [&](Matrix &m) {
      buffers.push_back(program.device.allocate(m.values.data.size()));
      buffers.back().write(m.values.data.data());
      if (m.pointer) return args.push_back(buffers.back());
      tensors.push_back(tensor(buffers.back(), harness::Tensor(m.values.type.name, 1), {m.rows, m.cols}, {m.ld, 1}));
      args.push_back(tensors.back());
    };
    for (Matrix &m : c.inputs) {
      std::fill(m.values.data.begin(), m.values.data.end(), 0xff);
      for (int64_t r = 0; r < m.rows; ++r)
        for (int64_t k = 0; k < m.cols; ++k)
          m.values.set(size_t(r * m.ld + k), double(rng.integer(m.values.type.isSigned ? -c.bound : 0, c.bound)));
      pass(m);
    }
    std::vector<uint64_t> want;
    std::fill(c.output.values.data.begin(), c.output.values.data.end(), c.poison);
    want = bitsOf(c.output.values);
    for (int64_t r = 0; r < c.output.rows; ++r)
      for (int64_t k = 0; k < c.output.cols; ++k) {
        Array one(c.output.values.type.name, 1);
        one.set(0, reference(c.inputs, r, k));
        want[size_t(r * c.output.ld + k)] = one.raw(0);
      }
    pass(c.output);
    args.insert(args.end(), c.scalars.begin(), c.scalars.end());
    for (const Setting &s : settings(target, seeds())) {
      std::fill(c.output.values.data.begin(), c.output.values.data.end(), c.poison);
      buffers.back().write(c.output.values.data.data());
      const std::string problem = program.run({c.programs, 1, 1}, args, s);
      std::string params;
      for (auto &[name, value] : c.params) params += " " + name + "=" + value;
      CHECK_MESSAGE(problem == "", s.text(), params, "\n", c.text);
      buffers.back().read(c.output.values.data.data());
      expectBits(c.output.values, want, s.text() + params + "\n" + c.text);
      if (problem != "") return; // the other schedules say the same
    }
  }
}

inline std::pair<std::string, std::string> number(const char *name, int64_t v) {
  return {name, std::to_string(v)};
}

/// Σ over k of a(r, k) b(k, c).
template <typename A, typename B> double sum(int64_t depth, A a, B b) {
  double s = 0;
  for (int64_t k = 0; k < depth; ++k) s += a(k) * b(k);
  return s;
}

} // namespace async_testing
