// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See device.h. HIP has one current device a thread and no context to retain.
#include "runtime/hip/device.h"

#include <cstring>
#include <vector>

#include "runtime/hip/driver.h"

namespace tlx::runtime::hip {

namespace {

/// Makes a device current for a scope, and puts the caller's back.
class Current {
public:
  Current(const Driver &driver, int ordinal) : driver(driver) {
    result = driver.core.getDevice(&before);
    if (result != kSuccess || before == ordinal) return;
    result = driver.core.setDevice(ordinal);
    changed = result == kSuccess;
  }
  ~Current() {
    if (changed) driver.core.setDevice(before);
  }
  Current(const Current &) = delete;
  Status status() const { return driver.check(result, "hipSetDevice"); }

private:
  const Driver &driver;
  Result result;
  int before = 0;
  bool changed = false;
};

Stream toStream(void *stream) {
  return static_cast<Stream>(stream);
}

Status unavailable(const std::string &missing) {
  return Status::error(Code::Unsupported, "this HIP driver lacks " + missing);
}

/// hipDeviceProp_t has changed its layout between versions. Two members are needed: `name`, which is the first 256
/// bytes in all of them, and gcnArchName ("gfx942:sramecc+:xnack-"), found by its text, which no other member can hold.
Status describe(const Driver &driver, int ordinal, DeviceInfo &info) {
  std::vector<char> properties(16 << 10, 0); // the structure has about 1.5 KB
  if (Status s = driver.check(driver.core.getDeviceProperties(properties.data(), ordinal), "hipGetDeviceProperties"))
    return s;
  properties.back() = 0;
  info.id = "hip:" + std::to_string(ordinal);
  info.name.assign(properties.data(), strnlen(properties.data(), 256));
  for (size_t i = 256; i + 4 < properties.size(); ++i)
    if (std::memcmp(&properties[i], "gfx", 3) == 0) {
      const std::string full = &properties[i];
      info.architecture = full.substr(0, full.find(':'));
      break;
    }
  size_t memory = 0;
  if (driver.memory.total && driver.memory.total(&memory, ordinal) == kSuccess) info.memoryBytes = memory;
  int version = 0;
  driver.core.driverGetVersion(&version);
  info.driverVersion = unsigned(version);
  return Status::ok();
}

class HipDevice;

class HipKernel final : public LoadedKernel {
public:
  explicit HipKernel(std::shared_ptr<const HipDevice> device) : device(std::move(device)) {}
  ~HipKernel() override;
  std::shared_ptr<const HipDevice> device;
  Module module = nullptr;
  Function function = nullptr;
  unsigned threads = 0;
};

class HipTimer final : public Device::Timer {
public:
  HipTimer(std::shared_ptr<const HipDevice> device, Stream stream) : device(std::move(device)), stream(stream) {}
  ~HipTimer() override;
  Status create();
  Status start() override { return record(first); }
  Status stop() override { return record(last); }
  Status milliseconds(double &result) override;

private:
  Status record(Event event);
  std::shared_ptr<const HipDevice> device;
  Stream stream;
  Event first = nullptr, last = nullptr;
};

class HipDevice final : public Device {
public:
  static Status open(const std::string &path, int ordinal, std::shared_ptr<Device> &result) {
    auto made = std::make_shared<HipDevice>();
    if (Status s = Driver::load(path, made->driver)) return s;
    int count = 0;
    if (Status s = made->driver.check(made->driver.core.getDeviceCount(&count), "hipGetDeviceCount")) return s;
    if (ordinal < 0 || ordinal >= count)
      return Status::error(Code::NotFound, "there is no device hip:" + std::to_string(ordinal) + "; the driver has " +
                                               std::to_string(count));
    if (Status s = describe(made->driver, ordinal, made->deviceInfo)) return s;
    made->ordinal = ordinal;
    // An AQL packet holds the grid in work items, 32 bits a dimension (HSA runtime specification, kernel dispatch
    // packet).
    made->limits.y = made->limits.z = 65535;
    made->limits.threads = 0xffffffffu;
    result = std::move(made);
    return Status::ok();
  }

  Status allocate(size_t bytes, void **address) override {
    if (!driver.missingMemory.empty()) return unavailable(driver.missingMemory);
    Current current(driver, ordinal);
    if (Status s = current.status()) return s;
    if (Status s = driver.check(driver.memory.allocate(address, bytes ? bytes : 1), "hipMalloc")) {
      s.message += ", " + std::to_string(bytes) + " bytes on " + deviceInfo.id;
      return s;
    }
    return Status::ok();
  }
  Status release(void *address) override {
    if (!driver.missingMemory.empty()) return unavailable(driver.missingMemory);
    Current current(driver, ordinal);
    if (Status s = current.status()) return s;
    return driver.check(driver.memory.release(address), "hipFree");
  }
  Status copyIn(void *device, const void *host, size_t bytes, void *stream) override {
    return transfer(device, host, bytes, kHostToDevice, stream);
  }
  Status copyOut(void *host, const void *device, size_t bytes, void *stream) override {
    return transfer(host, device, bytes, kDeviceToHost, stream);
  }
  Status copy(void *to, const void *from, size_t bytes, void *stream) override {
    return transfer(to, from, bytes, kDeviceToDevice, stream);
  }

  Status createStream(void **stream) override {
    if (!driver.missingStream.empty()) return unavailable(driver.missingStream);
    Current current(driver, ordinal);
    if (Status s = current.status()) return s;
    Stream made = nullptr;
    constexpr unsigned kNonBlocking = 1;
    if (Status s = driver.check(driver.stream.create(&made, kNonBlocking), "hipStreamCreateWithFlags")) return s;
    *stream = made;
    return Status::ok();
  }
  Status destroyStream(void *stream) override {
    if (!driver.missingStream.empty()) return unavailable(driver.missingStream);
    return driver.check(driver.stream.destroy(toStream(stream)), "hipStreamDestroy");
  }
  Status synchronize(void *stream) override {
    if (!driver.missingStream.empty()) return unavailable(driver.missingStream);
    Current current(driver, ordinal);
    if (Status s = current.status()) return s;
    return driver.check(driver.stream.synchronize(toStream(stream)), "hipStreamSynchronize");
  }

  Status load(const Binary &binary, std::shared_ptr<LoadedKernel> &loaded) override {
    if (!driver.missingModule.empty()) return unavailable(driver.missingModule);
    const KernelMetadata &metadata = binary.metadata;
    if (binary.kind != Binary::Kind::Hsaco)
      return Status::error(Code::InvalidArgument, "kernel '" + metadata.name + "' was not compiled for a HIP device");
    Current current(driver, ordinal);
    if (Status s = current.status()) return s;
    auto kernel = std::make_shared<HipKernel>(std::static_pointer_cast<const HipDevice>(shared_from_this()));
    if (Status s = driver.check(driver.module.loadData(&kernel->module, binary.image.data()), "hipModuleLoadData")) {
      s.message += ", for kernel '" + metadata.name + "' (" + metadata.target + ") on " + deviceInfo.id + " (" +
                   deviceInfo.architecture + ")";
      return s;
    }
    if (Status s = driver.check(driver.module.getFunction(&kernel->function, kernel->module, metadata.symbol.c_str()),
                                "hipModuleGetFunction"))
      return s;
    kernel->threads = metadata.warpSize * metadata.numWarps;
    loaded = std::move(kernel);
    return Status::ok();
  }

  Status launch(const LoadedKernel &loaded, const Grid &grid, const ParamBuffer &params, void *stream,
                const SimOptions &, SimReport *) override {
    const auto &kernel = static_cast<const HipKernel &>(loaded);
    Current current(driver, ordinal);
    if (Status s = current.status()) return s;
    size_t size = params.size;
    constexpr uintptr_t kBufferPointer = 1, kBufferSize = 2, kEnd = 3; // HIP_LAUNCH_PARAM_*
    void *extra[] = {reinterpret_cast<void *>(kBufferPointer), const_cast<uint8_t *>(params.bytes),
                     reinterpret_cast<void *>(kBufferSize), &size, reinterpret_cast<void *>(kEnd)};
    // LDS is static on AMD: its size stands in the code object, and no dynamic part is added.
    return driver.check(driver.module.launchKernel(kernel.function, grid.x, grid.y, grid.z, kernel.threads, 1, 1, 0,
                                                   toStream(stream), nullptr, extra),
                        "hipModuleLaunchKernel");
  }

  Status createTimer(void *stream, std::unique_ptr<Timer> &timer) override {
    if (!driver.missingEvent.empty()) return unavailable(driver.missingEvent);
    auto made =
        std::make_unique<HipTimer>(std::static_pointer_cast<const HipDevice>(shared_from_this()), toStream(stream));
    if (Status s = made->create()) return s;
    timer = std::move(made);
    return Status::ok();
  }

  Driver driver;
  int ordinal = 0;

private:
  Status transfer(void *to, const void *from, size_t bytes, int kind, void *stream) {
    if (!driver.missingMemory.empty()) return unavailable(driver.missingMemory);
    Current current(driver, ordinal);
    if (Status s = current.status()) return s;
    return driver.check(driver.memory.copyAsync(to, from, bytes, kind, toStream(stream)), "hipMemcpyAsync");
  }
};

HipKernel::~HipKernel() {
  if (!module) return;
  Current current(device->driver, device->ordinal);
  if (!current.status()) device->driver.module.unload(module);
}

Status HipTimer::create() {
  Current current(device->driver, device->ordinal);
  if (Status s = current.status()) return s;
  if (Status s = device->driver.check(device->driver.event.create(&first), "hipEventCreate")) return s;
  return device->driver.check(device->driver.event.create(&last), "hipEventCreate");
}

HipTimer::~HipTimer() {
  if (first) device->driver.event.destroy(first);
  if (last) device->driver.event.destroy(last);
}

Status HipTimer::record(Event event) {
  Current current(device->driver, device->ordinal);
  if (Status s = current.status()) return s;
  return device->driver.check(device->driver.event.record(event, stream), "hipEventRecord");
}

Status HipTimer::milliseconds(double &result) {
  if (Status s = device->driver.check(device->driver.event.synchronize(last), "hipEventSynchronize")) return s;
  float time = 0;
  if (Status s = device->driver.check(device->driver.event.elapsedTime(&time, first, last), "hipEventElapsedTime"))
    return s;
  result = time;
  return Status::ok();
}

} // namespace

Status enumerate(const std::string &driverPath, std::vector<DeviceInfo> &devices) {
  Driver driver;
  if (Status s = Driver::load(driverPath, driver)) return s;
  int count = 0;
  if (Status s = driver.check(driver.core.getDeviceCount(&count), "hipGetDeviceCount")) return s;
  for (int i = 0; i < count; ++i) {
    DeviceInfo info;
    if (Status s = describe(driver, i, info)) return s;
    devices.push_back(std::move(info));
  }
  return Status::ok();
}

Status open(const std::string &driverPath, int ordinal, std::shared_ptr<Device> &device) {
  return HipDevice::open(driverPath, ordinal, device);
}

} // namespace tlx::runtime::hip
