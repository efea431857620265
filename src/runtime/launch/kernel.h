// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A compiled kernel that can be launched: its binary, its launch plan, and its image on each device that it ran on.
// Free of LLVM.
#pragma once
#include <mutex>
#include <span>

#include "runtime/launch/device.h"

namespace tlx::runtime {

class Kernel {
public:
  static Status create(Binary binary, std::shared_ptr<Kernel> &kernel);

  const Binary &binary() const { return code; }
  const KernelMetadata &metadata() const { return code.metadata; }
  const LaunchPlan &plan() const { return launchPlan; }

  /// Loads the image now; afterwards a launch on that device loads and allocates nothing (so that graphs can capture
  /// it).
  Status prepare(Device &device) const;
  Status launch(Device &device, const Grid &grid, std::span<const Arg> args, void *stream, const SimOptions &options,
                SimReport *report) const;
  /// The fast path: arguments already laid out.
  Status launchPacked(Device &device, const Grid &grid, std::span<const uint8_t> bytes, void *stream,
                      const SimOptions &options, SimReport *report) const;
  /// The bytes of tensor argument `index` for launchPacked on this device.
  Status encodeTensor(Device &device, size_t index, const Tensor &tensor, std::span<uint8_t> out) const {
    return launchPlan.packTensor(index, tensor, &device, out);
  }
  /// Milliseconds of each of `times.size()` launches after `warmUps` unmeasured ones.
  Status time(Device &device, const Grid &grid, std::span<const Arg> args, void *stream, const SimOptions &options,
              unsigned warmUps, std::span<double> times) const;

private:
  Status loadedOn(Device &device, std::shared_ptr<LoadedKernel> &loaded) const;
  Status run(Device &device, const Grid &grid, const ParamBuffer &params, void *stream, const SimOptions &options,
             SimReport *report) const;

  Binary code;
  LaunchPlan launchPlan;
  mutable std::mutex mutex;
  mutable std::vector<std::pair<std::shared_ptr<Device>, std::shared_ptr<LoadedKernel>>> images;
};

} // namespace tlx::runtime
