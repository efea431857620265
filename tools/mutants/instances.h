// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Small instances of the shipped kernels with tasks: each ring wraps twice, each program has several tiles.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/launch/device.h"

namespace tlx::mutants {

struct Argument {
  enum class Kind : uint8_t { Tensor, Pointer, Integer, Float };
  Kind kind = Kind::Integer;
  runtime::Element element = runtime::Element::None;
  std::vector<int64_t> shape;
  bool output = false; // poisoned before a launch, compared behind it; else small integers, or zeros for i32
  double number = 0;
};

struct Instance {
  const char *name;
  const char *kernel; // kernels/<kernel>.tlx
  std::vector<std::pair<std::string, std::string>> params;
  std::vector<Argument> arguments;
  uint32_t programs;
};
const std::vector<Instance> &instances();

/// What a launch said and computed.
struct Outcome {
  std::string kind, text;   // of the first finding; empty if there is none
  std::string proof;        // of an exhaustive launch
  std::vector<uint8_t> out; // all outputs
};
/// Throws std::runtime_error if the binary cannot be launched at all.
Outcome launch(const Instance &instance, const Binary &binary, const runtime::SimOptions &options);
/// Loads once, launches with each of the options until one finds something or computes other than `right`.
Outcome launchUntil(const Instance &instance, const Binary &binary, const std::vector<runtime::SimOptions> &options,
                    const std::vector<uint8_t> &right);

} // namespace tlx::mutants
