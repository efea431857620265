// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From typed arguments to the packed parameter buffer that a driver takes. The layout is read from the metadata once
// per kernel; a launch is then the checks, one pass over the arguments, and one driver call. Free of LLVM and of any
// driver: programs with ahead-of-time kernels use the same code.
#pragma once
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "runtime/launch/status.h"
#include "runtime/launch/tensor.h"
#include "support/metadata.h"

namespace tlx::runtime {

/// An argument as the host states it. Integers are checked against the parameter's range, floats are rounded (to
/// nearest even) to the parameter's type.
struct Arg {
  enum class Kind : uint8_t { Pointer = 1, Int = 2, UInt = 3, Float = 4, Tensor = 5 };
  Kind kind = Kind::Int;
  union {
    const void *pointer;
    int64_t i;
    uint64_t u;
    double f;
    const Tensor *tensor; // read during the launch only
  };
  static Arg ofPointer(const void *value) {
    Arg arg{Kind::Pointer, {}};
    arg.pointer = value;
    return arg;
  }
  static Arg ofInt(int64_t value) {
    Arg arg{Kind::Int, {}};
    arg.i = value;
    return arg;
  }
  static Arg ofUInt(uint64_t value) {
    Arg arg{Kind::UInt, {}};
    arg.u = value;
    return arg;
  }
  static Arg ofFloat(double value) {
    Arg arg{Kind::Float, {}};
    arg.f = value;
    return arg;
  }
  static Arg ofTensor(const Tensor *value) {
    Arg arg{Kind::Tensor, {}};
    arg.tensor = value;
    return arg;
  }
};

struct Grid {
  uint32_t x = 1, y = 1, z = 1;
  bool empty() const { return x == 0 || y == 0 || z == 0; }
};

/// The most programs a device takes in each dimension, and threads (programs times CTA size) in one dimension; 0: no
/// limit.
struct GridLimits {
  uint64_t x = 0x7fffffff, y = 65535, z = 65535;
  uint64_t threads = 0;
};
Status checkGrid(const Grid &grid, const GridLimits &limits, unsigned threadsPerProgram);

/// Parameter bytes of one launch, on the caller's stack: a launch does not allocate.
struct ParamBuffer {
  static constexpr size_t kCapacity = 4096; // what every CUDA version takes
  alignas(kTensorMapAlignment) uint8_t bytes[kCapacity];
  size_t size = 0;
};

class LaunchPlan {
public:
  /// Checks that the metadata's layout makes sense: known types, their sizes, natural alignment (64 bytes for tensor
  /// maps), no overlap, all inside paramBytes. The metadata must outlive the plan.
  static Status create(const KernelMetadata &metadata, LaunchPlan &plan);

  /// Count, type, range, facts and the rules of tensors of `args`, then the buffer with the hidden arguments. `maps` is
  /// the device that will launch; a plan without tensor maps needs none.
  Status pack(std::span<const Arg> args, const Grid &grid, ParamBuffer &out, TensorMapEncoder *maps = nullptr) const;
  /// The fast path: `bytes` holds the user's arguments already laid out (userBytes() of them); facts are checked,
  /// hidden arguments added.
  Status packRaw(std::span<const uint8_t> bytes, const Grid &grid, ParamBuffer &out) const;

  /// The bytes of a tensor argument in the packed form: all of `out`, which has the argument's size.
  Status packTensor(size_t index, const Tensor &tensor, TensorMapEncoder *maps, std::span<uint8_t> out) const;

  /// Bytes up to the end of the last argument of the user.
  size_t userBytes() const { return user; }
  unsigned threadsPerProgram() const { return metadata->warpSize * metadata->numWarps; }

private:
  enum class Format : uint8_t {
    Pointer,
    I1,
    Signed,
    Unsigned,
    F8E4M3,
    F8E5M2,
    F8E4M3Fnuz,
    F8E5M2Fnuz,
    F16,
    BF16,
    F32,
    F64,
    Tensor
  };
  Status packOne(size_t index, const Arg &arg, TensorMapEncoder *maps, uint8_t *bytes, int64_t &factValue) const;
  Status checkFacts(std::span<const int64_t> values) const;
  void addHidden(const Grid &grid, ParamBuffer &out) const;

  const KernelMetadata *metadata = nullptr;
  std::vector<Format> formats;
  std::vector<TensorParam> tensors; // by argument; empty if none is a tensor
  bool anyFacts = false;
  size_t user = 0;
};

/// The bits of `value` in a small float type with `exponent` and `mantissa` bits, rounded to nearest even.
uint32_t roundToFloatBits(double value, unsigned exponent, unsigned mantissa);

} // namespace tlx::runtime
