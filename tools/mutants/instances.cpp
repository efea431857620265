// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "instances.h"

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "runtime/launch/kernel.h"
#include "runtime/sim/device.h"

namespace tlx::mutants {

using runtime::Element;

namespace {
Argument tensor(std::vector<int64_t> shape, bool output = false) {
  return {Argument::Kind::Tensor, Element::F16, std::move(shape), output, 0};
}
Argument pointer(Element element, int64_t count, bool output = false) {
  return {Argument::Kind::Pointer, element, {count}, output, 0};
}
Argument integer(int64_t v) {
  return {Argument::Kind::Integer, Element::None, {}, false, double(v)};
}
Argument number(double v) {
  return {Argument::Kind::Float, Element::None, {}, false, v};
}

/// `rows`: of C; each consumer stores twice.
Instance gemm(const char *name, const char *kernel, const char *stages, int rows = 256) {
  return {name,
          kernel,
          {{"BM", "128"}, {"BN", "64"}, {"STAGES", stages}},
          {tensor({rows, 832}), tensor({832, 64}), tensor({rows, 64}, true), integer(rows), integer(64), integer(832)},
          1};
}
Instance attention(const char *name, const char *dynamic, const char *causal) {
  return {name,
          "attention_ws",
          {{"D", "64"}, {"BM", "128"}, {"BN", "64"}, {"T", "f16"}, {"DYNAMIC", dynamic}, {"CAUSAL", causal}},
          {tensor({3, 256, 64}), tensor({3, 256, 64}), tensor({3, 256, 64}), tensor({3, 256, 64}, true),
           pointer(Element::F32, 768, true), pointer(Element::I32, 2), integer(256), integer(3), number(0.125)},
          1};
}
} // namespace

const std::vector<Instance> &instances() {
  static const std::vector<Instance> list = {gemm("gemm_ws", "gemm_ws", "2"), gemm("gemm_ws, 3 stages", "gemm_ws", "3"),
                                             gemm("gemm_pingpong", "gemm_pingpong", "2", 512),
                                             attention("attention_ws", "false", "false"),
                                             attention("attention_ws, dynamic, causal", "true", "true")};
  return list;
}

namespace {
void check(const runtime::Status &status) {
  if (!status.isOk()) throw std::runtime_error(status.message);
}

/// The memory of one instance's arguments.
struct Arguments {
  Arguments(runtime::Device &device, const Instance &instance) : device(device), instance(instance) {
    tensors.reserve(instance.arguments.size());
    for (const Argument &a : instance.arguments) {
      if (a.kind == Argument::Kind::Integer) list.push_back(runtime::Arg::ofInt(int64_t(a.number)));
      if (a.kind == Argument::Kind::Float) list.push_back(runtime::Arg::ofFloat(a.number));
      if (a.kind == Argument::Kind::Integer || a.kind == Argument::Kind::Float) continue;
      int64_t count = 1;
      for (int64_t n : a.shape) count *= n;
      const size_t bytes = size_t(count) * runtime::elementBytes(a.element);
      void *data = nullptr;
      check(device.allocate(bytes, &data));
      memory.push_back({&a, data, bytes});
      if (a.kind == Argument::Kind::Pointer) {
        list.push_back(runtime::Arg::ofPointer(data));
        continue;
      }
      runtime::Tensor t{data, a.element, uint32_t(a.shape.size()), {}, {}};
      int64_t stride = 1;
      for (size_t d = a.shape.size(); d-- > 0; stride *= a.shape[d]) t.shape[d] = a.shape[d], t.strides[d] = stride;
      tensors.push_back(t);
      list.push_back(runtime::Arg::ofTensor(&tensors.back()));
    }
  }
  ~Arguments() {
    for (const Memory &m : memory) (void)device.release(m.data);
  }
  Arguments(const Arguments &) = delete;

  /// Inputs are integers from -2 to 2, so that every order of sums gives the same bits.
  void fill() {
    uint32_t random = 12345;
    for (const Memory &m : memory) {
      std::vector<uint8_t> bytes(m.bytes, m.argument->output ? 0xff : 0);
      if (!m.argument->output && m.argument->element == Element::F16)
        for (size_t i = 0; i < bytes.size(); i += 2) {
          constexpr uint8_t kHigh[] = {0xc0, 0xbc, 0x00, 0x3c, 0x40}; // of -2, -1, 0, 1, 2
          random = random * 1664525 + 1013904223;
          bytes[i + 1] = kHigh[(random >> 16) % 5];
        }
      check(device.copyIn(m.data, bytes.data(), m.bytes, nullptr));
    }
  }
  std::vector<uint8_t> outputs() {
    std::vector<uint8_t> all;
    for (const Memory &m : memory) {
      if (!m.argument->output) continue;
      all.resize(all.size() + m.bytes);
      check(device.copyOut(all.data() + all.size() - m.bytes, m.data, m.bytes, nullptr));
    }
    return all;
  }

  struct Memory {
    const Argument *argument;
    void *data;
    size_t bytes;
  };
  runtime::Device &device;
  const Instance &instance;
  std::vector<Memory> memory;
  std::vector<runtime::Tensor> tensors;
  std::vector<runtime::Arg> list;
};
} // namespace

Outcome launchUntil(const Instance &instance, const Binary &binary, const std::vector<runtime::SimOptions> &options,
                    const std::vector<uint8_t> &right) {
  const std::shared_ptr<runtime::Device> device = runtime::sim::open();
  std::shared_ptr<runtime::Kernel> kernel;
  check(runtime::Kernel::create(binary, kernel));
  Arguments arguments(*device, instance);
  Outcome outcome;
  for (const runtime::SimOptions &one : options) {
    arguments.fill();
    runtime::SimReport report;
    const runtime::Status status =
        kernel->launch(*device, {instance.programs, 1, 1}, arguments.list, nullptr, one, &report);
    const auto findings = nlohmann::json::parse(report.json);
    if (!status.isOk() && findings.empty()) throw std::runtime_error(status.message);
    outcome = Outcome();
    if (!findings.empty()) {
      outcome.kind = findings[0]["kind"].get<std::string>();
      outcome.text = report.text;
      return outcome;
    }
    outcome.proof = report.proof;
    outcome.out = arguments.outputs();
    if (!right.empty() && outcome.out != right) return outcome;
  }
  return outcome;
}

Outcome launch(const Instance &instance, const Binary &binary, const runtime::SimOptions &options) {
  return launchUntil(instance, binary, {options}, {});
}

} // namespace tlx::mutants
