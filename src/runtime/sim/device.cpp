// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See device.h. The only file of the runtime that knows the simulator's interface. Streams are accepted and mean
// nothing: a launch has finished when it returns.
#include "runtime/sim/device.h"

#include <chrono>
#include <cstddef>
#include <cstring>
#include <mutex>

#include <nlohmann/json.hpp>

#include "features/features.h"
#include "runtime/guarded.h"
#include "sim/sim.h"
#include "sim/tensor_map.h"

namespace tlx::runtime::sim {

namespace {

class SimKernel final : public LoadedKernel {
public:
  /// The program, or the one with exact arithmetic, which is made when it is first asked for.
  Status find(bool exact, const tlx::sim::Program *&found) const {
    std::lock_guard lock(mutex);
    std::unique_ptr<tlx::sim::Program> &program = exact ? exactProgram : plainProgram;
    if (!program) {
      std::string error;
      // The host's compile is LLVM's too, with the same ways to fail.
      if (Status s = runGuarded([&] { program = tlx::sim::Program::load(image, *target, metadata, error, exact); }))
        return s;
      if (!program)
        return Status::error(exact ? Code::Unsupported : Code::Internal,
                             "the simulator cannot load kernel '" + name + "'" +
                                 (exact ? " with exact arithmetic: " : ": ") + error);
    }
    found = program.get();
    return Status::ok();
  }
  const features::Target *target = nullptr;
  KernelMetadata metadata;
  std::vector<uint8_t> image;
  std::string name;
  std::vector<ArgInfo> args;
  std::vector<Fact> noAlias;

private:
  mutable std::mutex mutex;
  mutable std::unique_ptr<tlx::sim::Program> plainProgram, exactProgram;
};

using Clock = std::chrono::steady_clock;

class SimTimer final : public Device::Timer {
public:
  Status start() override {
    first = Clock::now();
    return Status::ok();
  }
  Status stop() override {
    last = Clock::now();
    return Status::ok();
  }
  Status milliseconds(double &result) override {
    result = std::chrono::duration<double, std::milli>(last - first).count();
    return Status::ok();
  }

private:
  Clock::time_point first, last;
};

void fillReport(const tlx::sim::LaunchResult &result, SimReport &report) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const tlx::sim::Finding &finding : result.findings) {
    report.text += finding.text() + "\n";
    list.push_back({{"kind", tlx::sim::findingKindName(finding.kind)},
                    {"message", finding.message},
                    {"file", finding.file},
                    {"line", finding.line},
                    {"column", finding.col},
                    {"thread", finding.thread},
                    {"warp", finding.warp},
                    {"task", finding.task},
                    {"program", {finding.cta[0], finding.cta[1], finding.cta[2]}},
                    {"count", finding.count}});
  }
  report.errors = unsigned(result.findings.size());
  report.json = list.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  report.printed = result.printed;
  report.timeline = result.timeline;
  report.proof = result.proof;
}

tlx::sim::TensorMap::Element mapElementOf(Element element) {
  using E = tlx::sim::TensorMap::Element;
  switch (element) {
  case Element::I16:
  case Element::U16:
    return E::U16;
  case Element::I32:
    return E::I32;
  case Element::U32:
    return E::U32;
  case Element::I64:
    return E::I64;
  case Element::U64:
    return E::U64;
  case Element::F16:
    return E::F16;
  case Element::BF16:
    return E::BF16;
  case Element::F32:
    return E::F32;
  case Element::F64:
    return E::F64;
  default:
    return E::U8;
  }
}

class SimDevice final : public Device {
public:
  SimDevice() {
    deviceInfo = runtime::sim::info(); // not Device::info, which this shadows
    limits = {0x7fffffff, 65535, 65535, 0};
  }
  bool isSimulator() const override { return true; }

  Status allocate(size_t bytes, void **address) override {
    *address = memory.allocate(bytes ? bytes : 1);
    if (*address) return Status::ok();
    return Status::error(Code::OutOfMemory, "the simulator cannot allocate " + std::to_string(bytes) + " bytes");
  }
  Status release(void *address) override { return memory.free(address) ? Status::ok() : notOurs("free", address); }
  Status registerExternal(void *address, size_t bytes) override {
    memory.registerExternal(address, bytes);
    return Status::ok();
  }
  Status unregisterExternal(void *address) override {
    return memory.unregisterExternal(address) ? Status::ok() : notOurs("unregister", address);
  }
  Status copyIn(void *device, const void *host, size_t bytes, void *) override {
    return !bytes || memory.write(device, host, bytes) ? Status::ok() : notOurs("copy to", device);
  }
  Status copyOut(void *host, const void *device, size_t bytes, void *) override {
    return !bytes || memory.read(host, device, bytes) ? Status::ok() : notOurs("copy from", device);
  }
  Status copy(void *to, const void *from, size_t bytes, void *) override {
    // Both sides are checked: read into the destination's host memory only after it is known to be ours.
    if (!bytes) return Status::ok();
    const auto extent = memory.find(to);
    if (!extent || uintptr_t(to) + bytes > extent->end) return notOurs("copy to", to);
    std::vector<uint8_t> buffer(bytes);
    if (!memory.read(buffer.data(), from, bytes)) return notOurs("copy from", from);
    return memory.write(to, buffer.data(), bytes) ? Status::ok() : notOurs("copy to", to);
  }

  Status createStream(void **stream) override {
    *stream = nullptr;
    return Status::ok();
  }
  Status destroyStream(void *) override { return Status::ok(); }
  Status synchronize(void *) override { return Status::ok(); }

  Status load(const Binary &binary, std::shared_ptr<LoadedKernel> &loaded) override {
    const KernelMetadata &metadata = binary.metadata;
    if (binary.kind != Binary::Kind::SimBitcode)
      return Status::error(Code::InvalidArgument, "kernel '" + metadata.name + "' was not compiled for the simulator");
    const features::Target *target = features::findTarget(metadata.target);
    if (!target)
      return Status::error(Code::Internal, "unknown target '" + metadata.target + "' in a kernel's metadata");
    auto kernel = std::make_shared<SimKernel>();
    kernel->target = target;
    kernel->metadata = metadata;
    kernel->image.assign(binary.image.begin(), binary.image.end());
    kernel->name = metadata.name;
    const tlx::sim::Program *program;
    if (Status s = kernel->find(false, program)) return s;
    kernel->args = metadata.args;
    for (const Fact &fact : metadata.facts)
      if (fact.noalias && fact.program.size() == 1 && uint64_t(fact.program[0].value) < metadata.args.size())
        kernel->noAlias.push_back(fact);
    loaded = std::move(kernel);
    return Status::ok();
  }

  Status launch(const LoadedKernel &loaded, const Grid &grid, const ParamBuffer &params, void *,
                const SimOptions &options, SimReport *report) override {
    const auto &kernel = static_cast<const SimKernel &>(loaded);
    if (Status status = checkNoAlias(kernel, params)) return status;
    tlx::sim::LaunchConfig config;
    config.grid[0] = grid.x;
    config.grid[1] = grid.y;
    config.grid[2] = grid.z;
    switch (options.schedule) {
    case SimOptions::Schedule::InOrder:
      config.schedule = tlx::sim::Schedule::InOrder;
      break;
    case SimOptions::Schedule::Random:
      config.schedule = tlx::sim::Schedule::Random;
      break;
    case SimOptions::Schedule::Late:
      config.schedule = tlx::sim::Schedule::Late;
      break;
    case SimOptions::Schedule::Early:
      config.schedule = tlx::sim::Schedule::Early;
      break;
    }
    config.seed = options.seed;
    config.checkRaces = options.checkRaces;
    config.timeline = options.timeline;
    config.timelineProgram = options.timelineProgram;
    config.exhaustive = options.exhaustive;
    const tlx::sim::Program *program;
    if (Status status = kernel.find(options.exact, program)) return status;
    if (options.maxSteps) config.maxSteps = options.maxSteps;
    const tlx::sim::LaunchResult result = tlx::sim::launch(*program, config, {params.bytes, params.size}, memory);
    SimReport local;
    fillReport(result, local);
    Status status;
    if (local.errors)
      status = Status::error(Code::Findings, "the simulator found " + std::to_string(local.errors) +
                                                 (local.errors == 1 ? " fault:\n" : " faults:\n") + local.text);
    else if (!result.completed)
      status = Status::error(Code::Internal, "the simulated launch did not complete, and no finding says why");
    if (report) *report = std::move(local);
    return status;
  }

  Status encodeTensorMap(const TensorMapSpec &spec, uint8_t *out) override {
    tlx::sim::TensorMap map;
    map.rank = uint8_t(spec.rank);
    map.element = mapElementOf(spec.element);
    map.elementBytes = uint8_t(elementBytes(spec.element));
    map.swizzle = uint8_t(spec.swizzle);
    map.base = reinterpret_cast<uintptr_t>(spec.data);
    std::copy_n(spec.shape, spec.rank, map.shape); // extents of 0 as they are: all of it is outside
    std::copy_n(spec.strides, spec.rank - 1, map.strides);
    std::copy_n(spec.box, spec.rank, map.box);
    std::memset(out, 0, kTensorMapBytes);
    std::memcpy(out, &map, sizeof map);
    return Status::ok();
  }

  Status createTimer(void *, std::unique_ptr<Timer> &timer) override {
    timer = std::make_unique<SimTimer>();
    return Status::ok();
  }

private:
  /// A noalias pointer must be the only argument that points into its memory (one allocation or registered range):
  /// which parts of it a kernel touches is not known before it runs.
  Status checkNoAlias(const SimKernel &kernel, const ParamBuffer &params) const {
    auto extentOf = [&](const ArgInfo &arg) {
      void *pointer = nullptr;
      const uint8_t *at = params.bytes + arg.offset; // a descriptor passed as fields starts with its pointer
      if (arg.descriptor && arg.descriptor->tensorMap) at += offsetof(tlx::sim::TensorMap, base);
      if (arg.kind != ArgInfo::Kind::Scalar) std::memcpy(&pointer, at, sizeof pointer);
      const auto extent = memory.find(pointer);
      return extent ? extent->begin : 0;
    };
    for (const Fact &fact : kernel.noAlias) {
      const size_t own = size_t(fact.program[0].value);
      const uintptr_t extent = extentOf(kernel.args[own]);
      if (!extent) continue;
      for (size_t i = 0; i < kernel.args.size(); ++i)
        if (i != own && extentOf(kernel.args[i]) == extent)
          return Status::error(Code::Fact, "kernel '" + kernel.name + "' requires '" + fact.text +
                                               "', which does not hold here: '" + kernel.args[i].name +
                                               "' points into the same memory as '" + kernel.args[own].name + "'");
    }
    return Status::ok();
  }
  static Status notOurs(const char *what, const void *address) {
    char text[32];
    std::snprintf(text, sizeof text, "%p", address);
    return Status::error(Code::InvalidArgument,
                         std::string("cannot ") + what + " " + text +
                             ": not inside memory of the simulator (allocated or registered there)");
  }
  tlx::sim::Memory memory;
};

} // namespace

DeviceInfo info() {
  DeviceInfo info;
  info.id = "sim";
  info.name = "simulator";
  return info;
}

std::shared_ptr<Device> open() {
  return std::make_shared<SimDevice>();
}

} // namespace tlx::runtime::sim
