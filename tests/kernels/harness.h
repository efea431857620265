// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs shipped kernels through the public C++ header, on the simulator or (TLX_TEST_DEVICE=cuda:0) on a GPU, and compares with
// references in float64 or exact integers. Inputs are fresh random numbers, outputs are poisoned first.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include <tlxjit/tlx.hpp>

namespace harness {

/// Element types as the language spells them, with their conversions.
float halfToFloat(uint16_t h);
uint16_t floatToHalf(float f); // to nearest even
float bf16ToFloat(uint16_t b);
uint16_t floatToBf16(float f);

/// A host tensor of one element type: bytes, and values as double.
class Tensor {
public:
  Tensor(std::string type, size_t count);
  const std::string &type() const { return type_; }
  size_t count() const { return count_; }
  size_t bytes() const { return data_.size(); }
  void *data() { return data_.data(); }
  const void *data() const { return data_.data(); }
  double get(size_t i) const;
  void set(size_t i, double v); // rounds to the type
  void poison();                // 0xff bytes

private:
  std::string type_;
  size_t count_, size_;
  std::vector<uint8_t> data_;
};
size_t sizeOf(const std::string &type);

/// A deterministic generator, seeded by the test.
class Rng {
public:
  explicit Rng(uint64_t seed) : state(seed * 0x9e3779b97f4a7c15ull + 1) {}
  uint64_t next();
  int64_t integer(int64_t lo, int64_t hi); // inclusive
  double normal();

private:
  uint64_t state;
};
enum class Fill { Integers, Normal };
void fill(Tensor &t, Rng &rng, Fill how, int64_t bound = 4);

/// One way to run: a target, and on the simulator a schedule and seed.
struct Setting {
  std::string target;
  uint32_t schedule = TLX_SCHEDULE_IN_ORDER;
  uint64_t seed = 0;
  bool exhaustive = false, exact = false;
  std::string text() const;
};
const std::string &deviceId(); // "sim" unless TLX_TEST_DEVICE says otherwise
bool onSimulator();
/// The targets that the device runs: all on the simulator, those of its vendor on a GPU.
std::vector<std::string> targets();
/// In-order, late, early, and random with `seeds` seeds; one setting on a GPU.
std::vector<Setting> settings(const std::string &target, unsigned seeds);
/// Seeds of the random schedule: five, and twenty in the long form (TLX_TEST_FULL=1).
unsigned seeds();

/// A compiled kernel of kernels/<file>.
struct Program {
  tlx::Kernel kernel;
  tlx::Device device;
  /// "" if it ran without findings, else what the simulator or driver said.
  std::string run(tlx::Grid grid, const std::vector<tlx::Arg> &args, const Setting &setting,
                  std::string *printed = nullptr) const;
  /// What the simulator draws of it, or proves: tlx_report_timeline, tlx_report_proof.
  std::string timeline(tlx::Grid grid, const std::vector<tlx::Arg> &args) const;
  std::string proof(tlx::Grid grid, const std::vector<tlx::Arg> &args) const;
};
struct CompileSpec {
  std::string file, kernel;
  std::vector<std::pair<std::string, std::string>> params;
  std::vector<std::string> facts;
  uint32_t flags = 0, debugTimeout = 0; // as in tlx::CompileOptions
};
Program compile(const CompileSpec &spec, const std::string &target);
/// The same from text.
Program compileText(const std::string &text, const CompileSpec &spec, const std::string &target);

/// Device memory with the tensor's contents.
tlx::Buffer upload(const Tensor &t);
void download(Tensor &t, const tlx::Buffer &b);

/// A tensor argument (for a tensor_desc): the buffer that holds `t`, seen with this shape. Without strides (in elements) it is dense and
/// row-major; `offset` is where its element 0 lies, in elements. An argument keeps its address: name it, or make it in the call.
tlx::Tensor tensor(const tlx::Buffer &b, const Tensor &t, const std::vector<int64_t> &shape,
                   const std::vector<int64_t> &strides = {}, int64_t offset = 0);

/// max |got - want| / (atol + rtol |want|), and where; NaN counts as infinite.
struct Worst {
  double ratio = 0;
  size_t index = 0;
  double got = 0, want = 0;
  std::string text() const;
};
Worst compare(const Tensor &got, const std::vector<double> &want, double atol, double rtol);

} // namespace harness
