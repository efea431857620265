// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A device as the launcher sees it: CUDA, HIP or the simulator. Free of LLVM. Addresses are what the device's kernels
// use; on the simulator they are host addresses. All calls may come from several threads at once; a stream is used as
// its driver says.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/launch/launch_plan.h"
#include "runtime/launch/status.h"
#include "support/metadata.h"

namespace tlx::runtime {

/// How the simulator schedules and when it gives up. Ignored by real devices.
struct SimOptions {
  enum class Schedule : uint8_t { InOrder = 0, Random = 1, Late = 2, Early = 3 };
  Schedule schedule = Schedule::InOrder;
  uint64_t seed = 0;
  uint64_t maxSteps = 0; // 0: the simulator's default
  bool checkRaces = false, timeline = false, exhaustive = false, exact = false;
  uint32_t timelineProgram = 0; // by number in the grid
};

/// What one simulated launch said. Empty for real devices.
struct SimReport {
  unsigned errors = 0, warnings = 0;
  std::string text;        // findings for people, one after another
  std::string json = "[]"; // the same as a JSON array
  std::string printed;     // what device_print wrote
  std::string timeline;    // a page of HTML, if asked for
  std::string proof;       // what an exhaustive launch without findings covered
};

/// A kernel's image on one device. Unloaded when destroyed; must not outlive the device, which it keeps alive.
class LoadedKernel {
public:
  virtual ~LoadedKernel() = default;
};

struct DeviceInfo {
  std::string id;           // "sim", "cuda:0", "hip:1"
  std::string name;         // the vendor's
  std::string architecture; // "sm_90", "gfx942"; empty for the simulator, which takes any
  uint64_t memoryBytes = 0;
  unsigned multiprocessors = 0;
  unsigned driverVersion = 0; // as the driver reports it
};

class Device : public TensorMapEncoder, public std::enable_shared_from_this<Device> {
public:
  const DeviceInfo &info() const { return deviceInfo; }
  const GridLimits &gridLimits() const { return limits; }
  virtual bool isSimulator() const { return false; }

  virtual Status allocate(size_t bytes, void **address) = 0;
  virtual Status release(void *address) = 0;
  /// Lets kernels use memory that came from elsewhere (simulator: bounds for the checkers; real devices: nothing to
  /// do).
  virtual Status registerExternal(void *address, size_t bytes) { return Status::ok(); }
  virtual Status unregisterExternal(void *address) { return Status::ok(); }
  /// Copies in the order of the stream; the host side must stay valid until it is synchronized.
  virtual Status copyIn(void *device, const void *host, size_t bytes, void *stream) = 0;
  virtual Status copyOut(void *host, const void *device, size_t bytes, void *stream) = 0;
  virtual Status copy(void *to, const void *from, size_t bytes, void *stream) = 0;

  virtual Status createStream(void **stream) = 0;
  virtual Status destroyStream(void *stream) = 0;
  virtual Status synchronize(void *stream) = 0;

  /// For devices without tensor maps, whose kernels get descriptors as fields.
  Status encodeTensorMap(const TensorMapSpec &, uint8_t *) override {
    return Status::error(Code::Unsupported, deviceInfo.id + " has no tensor maps");
  }

  virtual Status load(const Binary &binary, std::shared_ptr<LoadedKernel> &loaded) = 0;
  /// `params` is the complete buffer. The grid has been checked and is not empty.
  virtual Status launch(const LoadedKernel &kernel, const Grid &grid, const ParamBuffer &params, void *stream,
                        const SimOptions &options, SimReport *report) = 0;

  /// Two marks in a stream and the time between them. Real devices use events; the simulator the host's clock.
  class Timer {
  public:
    virtual ~Timer() = default;
    virtual Status start() = 0;
    virtual Status stop() = 0;
    /// Waits for both marks.
    virtual Status milliseconds(double &result) = 0;
  };
  virtual Status createTimer(void *stream, std::unique_ptr<Timer> &timer) = 0;

protected:
  DeviceInfo deviceInfo;
  GridLimits limits;
};

} // namespace tlx::runtime
