// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See kernel.h.
#include "runtime/launch/kernel.h"

namespace tlx::runtime {

Status Kernel::create(Binary binary, std::shared_ptr<Kernel> &kernel) {
  auto made = std::make_shared<Kernel>();
  made->code = std::move(binary);
  if (Status status = LaunchPlan::create(made->code.metadata, made->launchPlan)) return status;
  kernel = std::move(made);
  return Status::ok();
}

Status Kernel::loadedOn(Device &device, std::shared_ptr<LoadedKernel> &loaded) const {
  // Loading happens under the lock: two threads that launch first at the same time load once. A launch on a loaded
  // kernel pays an uncontended lock, some 20 ns.
  std::lock_guard lock(mutex);
  for (const auto &[owner, image] : images)
    if (owner.get() == &device) {
      loaded = image;
      return Status::ok();
    }
  if (Status status = device.load(code, loaded)) return status;
  images.emplace_back(device.shared_from_this(), loaded);
  return Status::ok();
}

Status Kernel::prepare(Device &device) const {
  std::shared_ptr<LoadedKernel> loaded;
  return loadedOn(device, loaded);
}

Status Kernel::run(Device &device, const Grid &grid, const ParamBuffer &params, void *stream, const SimOptions &options,
                   SimReport *report) const {
  if (grid.empty()) return Status::ok(); // after the checks: an empty launch with broken facts is still a mistake
  if (Status status = checkGrid(grid, device.gridLimits(), launchPlan.threadsPerProgram())) return status;
  std::shared_ptr<LoadedKernel> loaded;
  if (Status status = loadedOn(device, loaded)) return status;
  return device.launch(*loaded, grid, params, stream, options, report);
}

Status Kernel::launch(Device &device, const Grid &grid, std::span<const Arg> args, void *stream,
                      const SimOptions &options, SimReport *report) const {
  ParamBuffer params;
  if (Status status = launchPlan.pack(args, grid, params, &device)) return status;
  return run(device, grid, params, stream, options, report);
}

Status Kernel::launchPacked(Device &device, const Grid &grid, std::span<const uint8_t> bytes, void *stream,
                            const SimOptions &options, SimReport *report) const {
  ParamBuffer params;
  if (Status status = launchPlan.packRaw(bytes, grid, params)) return status;
  return run(device, grid, params, stream, options, report);
}

Status Kernel::time(Device &device, const Grid &grid, std::span<const Arg> args, void *stream,
                    const SimOptions &options, unsigned warmUps, std::span<double> times) const {
  ParamBuffer params;
  if (Status status = launchPlan.pack(args, grid, params, &device)) return status;
  for (unsigned i = 0; i < warmUps; ++i)
    if (Status status = run(device, grid, params, stream, options, nullptr)) return status;
  // All marks are queued before the first is waited for: the host's own pace does not show in the device's times.
  std::vector<std::unique_ptr<Device::Timer>> timers(times.size());
  for (auto &timer : timers)
    if (Status status = device.createTimer(stream, timer)) return status;
  for (auto &timer : timers) {
    if (Status status = timer->start()) return status;
    if (Status status = run(device, grid, params, stream, options, nullptr)) return status;
    if (Status status = timer->stop()) return status;
  }
  for (size_t i = 0; i < times.size(); ++i)
    if (Status status = timers[i]->milliseconds(times[i])) return status;
  return device.synchronize(stream);
}

} // namespace tlx::runtime
