// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See device.h. The primary context is used, as the CUDA runtime and the frameworks over it do, so that their pointers
// and streams can be passed here.
#include "runtime/cuda/device.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>

#include "runtime/cuda/driver.h"
#include "runtime/launch/wait_records.h"

namespace tlx::runtime::cuda {

namespace {

/// Makes a context current for a scope. Nothing is pushed where it is current already, which is the common case.
class Current {
public:
  Current(const Driver &driver, Context context) : driver(driver) {
    Context now = nullptr;
    result = driver.core.contextGetCurrent(&now);
    if (result != kSuccess || now == context) return;
    result = driver.core.contextPush(context);
    pushed = result == kSuccess;
  }
  ~Current() {
    Context popped;
    if (pushed) driver.core.contextPop(&popped);
  }
  Current(const Current &) = delete;
  Status status() const { return driver.check(result, "cuCtxPushCurrent"); }

private:
  const Driver &driver;
  Result result;
  bool pushed = false;
};

Pointer toPointer(const void *address) {
  return reinterpret_cast<uintptr_t>(address);
}
Stream toStream(void *stream) {
  return static_cast<Stream>(stream);
}

Status unavailable(const std::string &missing) {
  return Status::error(Code::Unsupported, "this CUDA driver lacks " + missing);
}

Status describe(const Driver &driver, int ordinal, DeviceHandle &handle, DeviceInfo &info) {
  if (Status s = driver.check(driver.core.deviceGet(&handle, ordinal), "cuDeviceGet")) return s;
  char name[256] = {};
  if (Status s = driver.check(driver.core.deviceGetName(name, sizeof name - 1, handle), "cuDeviceGetName")) return s;
  int major = 0, minor = 0, processors = 0, version = 0;
  size_t memory = 0;
  if (Status s =
          driver.check(driver.core.deviceGetAttribute(&major, kComputeCapabilityMajor, handle), "cuDeviceGetAttribute"))
    return s;
  driver.core.deviceGetAttribute(&minor, kComputeCapabilityMinor, handle);
  driver.core.deviceGetAttribute(&processors, kMultiprocessorCount, handle);
  driver.core.deviceTotalMem(&memory, handle);
  driver.core.driverGetVersion(&version);
  info.id = "cuda:" + std::to_string(ordinal);
  info.name = name;
  info.architecture = "sm_" + std::to_string(major) + std::to_string(minor);
  info.memoryBytes = memory;
  info.multiprocessors = unsigned(processors);
  info.driverVersion = unsigned(version);
  return Status::ok();
}

/// i8, u8, fp8 and i1 are bytes to a load, i16 is u16. f32 stays f32: a TFLOAT32 map would round what it loads.
int mapTypeOf(Element element) {
  switch (element) {
  case Element::I16:
  case Element::U16:
    return kMapUint16;
  case Element::I32:
    return kMapInt32;
  case Element::U32:
    return kMapUint32;
  case Element::I64:
    return kMapInt64;
  case Element::U64:
    return kMapUint64;
  case Element::F16:
    return kMapFloat16;
  case Element::BF16:
    return kMapBfloat16;
  case Element::F32:
    return kMapFloat32;
  case Element::F64:
    return kMapFloat64;
  default:
    return kMapUint8;
  }
}

class CudaDevice;

class CudaKernel final : public LoadedKernel {
public:
  explicit CudaKernel(std::shared_ptr<const CudaDevice> device) : device(std::move(device)) {}
  ~CudaKernel() override;
  std::shared_ptr<const CudaDevice> device;
  Module module = nullptr;
  Function function = nullptr;
  unsigned threads = 0, sharedBytes = 0;
  /// Where each parameter lies in the buffer, in their order; empty: the buffer goes as a whole. A parameter aligned to more than the
  /// start of the parameter space (tensor maps: 64 bytes) has another offset there than here, so the driver must place it.
  std::vector<uint32_t> offsets;
  /// Under a debug time-out: what its waits write before they stop the kernel, in memory of the host, and where the address goes.
  WaitRecord *records = nullptr;
  Pointer recordsOnDevice = 0;
  uint32_t recordsOffset = 0;
  std::vector<WaitSite> waits;
  uint32_t debugTimeout = 0;
};

std::vector<uint32_t> offsetsOf(const KernelMetadata &metadata) {
  std::vector<uint32_t> offsets;
  bool maps = false;
  for (const ArgInfo &arg : metadata.args) {
    offsets.push_back(arg.offset);
    if (!arg.descriptor) continue;
    maps |= arg.descriptor->tensorMap;
    if (arg.descriptor->pointerOffset) offsets.push_back(*arg.descriptor->pointerOffset);
    offsets.insert(offsets.end(), arg.descriptor->strideOffsets.begin(), arg.descriptor->strideOffsets.end());
    offsets.insert(offsets.end(), arg.descriptor->shapeOffsets.begin(), arg.descriptor->shapeOffsets.end());
  }
  for (const HiddenArg &hidden : metadata.hidden) offsets.push_back(hidden.offset);
  std::sort(offsets.begin(), offsets.end());
  if (!maps) offsets.clear();
  return offsets;
}

/// Adds what waits of a kernel said to the error of a call.
class Recording {
public:
  void add(const CudaKernel *kernel) {
    std::lock_guard lock(mutex);
    kernels.push_back(kernel);
  }
  void remove(const CudaKernel *kernel) {
    std::lock_guard lock(mutex);
    std::erase(kernels, kernel);
  }
  Status explain(Status status) const {
    if (!status) return status;
    std::lock_guard lock(mutex);
    for (const CudaKernel *k : kernels)
      if (std::string text = waitText(k->waits, k->debugTimeout, {k->records, k->waits.size()}); !text.empty())
        status.message = text + "\n" + status.message;
    return status;
  }

private:
  mutable std::mutex mutex;
  std::vector<const CudaKernel *> kernels; // with records
};

class CudaTimer final : public Device::Timer {
public:
  CudaTimer(std::shared_ptr<const CudaDevice> device, Stream stream) : device(std::move(device)), stream(stream) {}
  ~CudaTimer() override;
  Status create();
  Status start() override { return record(first); }
  Status stop() override { return record(last); }
  Status milliseconds(double &result) override;

private:
  Status record(Event event);
  std::shared_ptr<const CudaDevice> device;
  Stream stream;
  Event first = nullptr, last = nullptr;
};

class CudaDevice final : public Device {
public:
  static Status open(const std::string &path, int ordinal, std::shared_ptr<Device> &result) {
    auto made = std::make_shared<CudaDevice>();
    if (Status s = Driver::load(path, made->driver)) return s;
    int count = 0;
    if (Status s = made->driver.check(made->driver.core.deviceGetCount(&count), "cuDeviceGetCount")) return s;
    if (ordinal < 0 || ordinal >= count)
      return Status::error(Code::NotFound, "there is no device cuda:" + std::to_string(ordinal) + "; the driver has " +
                                               std::to_string(count));
    if (Status s = describe(made->driver, ordinal, made->handle, made->deviceInfo)) return s;
    if (made->driver.core.deviceGetAttribute(&made->sharedLimit, kMaxSharedMemoryPerBlockOptin, made->handle) !=
        kSuccess)
      made->sharedLimit = 48 << 10;
    if (Status s = made->driver.check(made->driver.core.primaryContextRetain(&made->context, made->handle),
                                      "cuDevicePrimaryCtxRetain"))
      return s;
    result = std::move(made);
    return Status::ok();
  }
  ~CudaDevice() override {
    if (!context) return;
    if (emptyTensors) (void)release(emptyTensors);
    driver.core.primaryContextRelease(handle); // may answer "deinitialized" at exit, which is fine
  }

  Status allocate(size_t bytes, void **address) override {
    if (!driver.missingMemory.empty()) return unavailable(driver.missingMemory);
    Current current(driver, context);
    if (Status s = current.status()) return s;
    Pointer pointer = 0;
    if (Status s = driver.check(driver.memory.allocate(&pointer, bytes ? bytes : 1), "cuMemAlloc")) {
      s.message += ", " + std::to_string(bytes) + " bytes on " + deviceInfo.id;
      return s;
    }
    *address = reinterpret_cast<void *>(uintptr_t(pointer));
    return Status::ok();
  }
  Status release(void *address) override {
    if (!driver.missingMemory.empty()) return unavailable(driver.missingMemory);
    Current current(driver, context);
    if (Status s = current.status()) return s;
    return driver.check(driver.memory.release(toPointer(address)), "cuMemFree");
  }
  Status copyIn(void *device, const void *host, size_t bytes, void *stream) override {
    if (!driver.missingMemory.empty()) return unavailable(driver.missingMemory);
    Current current(driver, context);
    if (Status s = current.status()) return s;
    return recording.explain(driver.check(
        driver.memory.copyHostToDevice(toPointer(device), host, bytes, toStream(stream)), "cuMemcpyHtoDAsync"));
  }
  Status copyOut(void *host, const void *device, size_t bytes, void *stream) override {
    if (!driver.missingMemory.empty()) return unavailable(driver.missingMemory);
    Current current(driver, context);
    if (Status s = current.status()) return s;
    return recording.explain(driver.check(
        driver.memory.copyDeviceToHost(host, toPointer(device), bytes, toStream(stream)), "cuMemcpyDtoHAsync"));
  }
  Status copy(void *to, const void *from, size_t bytes, void *stream) override {
    if (!driver.missingMemory.empty()) return unavailable(driver.missingMemory);
    Current current(driver, context);
    if (Status s = current.status()) return s;
    return recording.explain(
        driver.check(driver.memory.copyDeviceToDevice(toPointer(to), toPointer(from), bytes, toStream(stream)),
                     "cuMemcpyDtoDAsync"));
  }

  Status createStream(void **stream) override {
    if (!driver.missingStream.empty()) return unavailable(driver.missingStream);
    Current current(driver, context);
    if (Status s = current.status()) return s;
    Stream made = nullptr;
    constexpr unsigned kNonBlocking = 1;
    if (Status s = driver.check(driver.stream.create(&made, kNonBlocking), "cuStreamCreate")) return s;
    *stream = made;
    return Status::ok();
  }
  Status destroyStream(void *stream) override {
    if (!driver.missingStream.empty()) return unavailable(driver.missingStream);
    Current current(driver, context);
    if (Status s = current.status()) return s;
    return driver.check(driver.stream.destroy(toStream(stream)), "cuStreamDestroy");
  }
  Status synchronize(void *stream) override {
    if (!driver.missingStream.empty()) return unavailable(driver.missingStream);
    Current current(driver, context);
    if (Status s = current.status()) return s;
    return recording.explain(driver.check(driver.stream.synchronize(toStream(stream)), "cuStreamSynchronize"));
  }

  Status load(const Binary &binary, std::shared_ptr<LoadedKernel> &loaded) override {
    if (!driver.missingModule.empty()) return unavailable(driver.missingModule);
    const KernelMetadata &metadata = binary.metadata;
    if (binary.kind != Binary::Kind::Cubin && binary.kind != Binary::Kind::Ptx)
      return Status::error(Code::InvalidArgument, "kernel '" + metadata.name + "' was not compiled for a CUDA device");
    if (metadata.sharedBytes > unsigned(sharedLimit))
      return Status::error(Code::Unsupported,
                           "kernel '" + metadata.name + "' needs " + std::to_string(metadata.sharedBytes) +
                               " bytes of shared memory, and " + deviceInfo.id + " (" + deviceInfo.architecture +
                               ") gives a block " + std::to_string(sharedLimit));
    for (const ArgInfo &arg : metadata.args)
      if (arg.descriptor && arg.descriptor->tensorMap)
        if (Status s = reserveEmptyTensors()) return s; // now: a launch allocates nothing
    Current current(driver, context);
    if (Status s = current.status()) return s;

    auto kernel = std::make_shared<CudaKernel>(std::static_pointer_cast<const CudaDevice>(shared_from_this()));
    // PTX is text that the driver reads to a NUL byte.
    std::string text;
    const void *image = binary.image.data();
    if (binary.kind == Binary::Kind::Ptx) {
      text.assign(binary.image.begin(), binary.image.end());
      image = text.c_str();
    }
    // The driver takes a value in the pointer's place for sizes, and writes the used size back there.
    char infoLog[4096] = {}, errorLog[8192] = {};
    int options[] = {kJitInfoLogBuffer, kJitInfoLogBufferSize, kJitErrorLogBuffer, kJitErrorLogBufferSize};
    void *values[] = {infoLog, reinterpret_cast<void *>(sizeof infoLog - 1), errorLog,
                      reinterpret_cast<void *>(sizeof errorLog - 1)};
    const Result result = driver.module.moduleLoadDataEx(&kernel->module, image, 4, options, values);
    if (Status s = driver.check(result, "cuModuleLoadDataEx")) {
      s.message += ", for kernel '" + metadata.name + "' (" + metadata.target + ") on " + deviceInfo.id + " (" +
                   deviceInfo.architecture + ")";
      if (errorLog[0]) s.message += std::string("\n") + errorLog;
      return s;
    }
    if (Status s =
            driver.check(driver.module.moduleGetFunction(&kernel->function, kernel->module, metadata.symbol.c_str()),
                         "cuModuleGetFunction"))
      return s;
    // Above 48 KB dynamic shared memory must be asked for (CUDA C++ Programming Guide, "Shared Memory" of each
    // capability).
    if (metadata.sharedBytes > (48u << 10))
      if (Status s = driver.check(
              driver.module.functionSetAttribute(kernel->function, kMaxDynamicSharedSize, int(metadata.sharedBytes)),
              "cuFuncSetAttribute"))
        return s;
    kernel->threads = metadata.warpSize * metadata.numWarps;
    kernel->sharedBytes = metadata.sharedBytes;
    kernel->offsets = offsetsOf(metadata);
    if (Status s = makeRecords(metadata, *kernel)) return s;
    loaded = std::move(kernel);
    return Status::ok();
  }

  Status launch(const LoadedKernel &loaded, const Grid &grid, const ParamBuffer &params, void *stream,
                const SimOptions &, SimReport *) override {
    const auto &kernel = static_cast<const CudaKernel &>(loaded);
    Current current(driver, context);
    if (Status s = current.status()) return s;
    ParamBuffer own; // with the address of the records
    const ParamBuffer &buffer = kernel.records ? own : params;
    if (kernel.records) {
      own.size = params.size;
      std::memcpy(own.bytes, params.bytes, params.size);
      std::memcpy(own.bytes + kernel.recordsOffset, &kernel.recordsOnDevice, sizeof kernel.recordsOnDevice);
    }
    if (!kernel.offsets.empty()) {
      constexpr size_t kMaxParams = ParamBuffer::kCapacity; // a parameter is a byte at least
      void *pointers[kMaxParams];
      for (size_t i = 0; i < kernel.offsets.size(); ++i)
        pointers[i] = const_cast<uint8_t *>(buffer.bytes) + kernel.offsets[i];
      return recording.explain(
          driver.check(driver.module.launchKernel(kernel.function, grid.x, grid.y, grid.z, kernel.threads, 1, 1,
                                                  kernel.sharedBytes, toStream(stream), pointers, nullptr),
                       "cuLaunchKernel"));
    }
    size_t size = params.size;
    constexpr uintptr_t kEnd = 0, kBufferPointer = 1, kBufferSize = 2; // CU_LAUNCH_PARAM_*
    void *extra[] = {reinterpret_cast<void *>(kBufferPointer), const_cast<uint8_t *>(buffer.bytes),
                     reinterpret_cast<void *>(kBufferSize), &size, reinterpret_cast<void *>(kEnd)};
    return recording.explain(
        driver.check(driver.module.launchKernel(kernel.function, grid.x, grid.y, grid.z, kernel.threads, 1, 1,
                                                kernel.sharedBytes, toStream(stream), nullptr, extra),
                     "cuLaunchKernel"));
  }

  Status encodeTensorMap(const TensorMapSpec &spec, uint8_t *out) override {
    if (!driver.missingTensorMap.empty()) return unavailable(driver.missingTensorMap);
    void *data = spec.data;
    uint64_t shape[kMaxRank];
    for (uint32_t d = 0; d < spec.rank; ++d) shape[d] = spec.empty ? 1 : spec.shape[d];
    if (spec.empty)
      if (Status s = emptyTensor(spec.stored, &data)) return s;
    constexpr uint32_t kElementStrides[kMaxRank] = {1, 1, 1, 1, 1};
    const int swizzle = spec.swizzle == 128  ? kMapSwizzle128
                        : spec.swizzle == 64 ? kMapSwizzle64
                        : spec.swizzle == 32 ? kMapSwizzle32
                                             : kMapSwizzleNone;
    Current current(driver, context); // the driver refuses without one
    if (Status s = current.status()) return s;
    return driver.check(driver.tensorMap.encodeTiled(out, mapTypeOf(spec.element), spec.rank, data, shape, spec.strides,
                                                     spec.box, kElementStrides, kMapInterleaveNone, swizzle,
                                                     kMapPromotion256, kMapFillZeros),
                        "cuTensorMapEncodeTiled");
  }

  Status createTimer(void *stream, std::unique_ptr<Timer> &timer) override {
    if (!driver.missingEvent.empty()) return unavailable(driver.missingEvent);
    auto made =
        std::make_unique<CudaTimer>(std::static_pointer_cast<const CudaDevice>(shared_from_this()), toStream(stream));
    if (Status s = made->create()) return s;
    timer = std::move(made);
    return Status::ok();
  }

  Driver driver;
  DeviceHandle handle = 0;
  Context context = nullptr;
  int sharedLimit = 48 << 10;
  mutable Recording recording;

private:
  /// The context is current.
  Status makeRecords(const KernelMetadata &metadata, CudaKernel &kernel) const {
    const auto hidden = std::find_if(metadata.hidden.begin(), metadata.hidden.end(),
                                     [](const HiddenArg &arg) { return arg.kind == HiddenArg::Kind::WaitRecord; });
    if (hidden == metadata.hidden.end()) return Status::ok();
    if (!driver.missingHost.empty()) return unavailable(driver.missingHost + ", which a debug time-out needs");
    constexpr unsigned kDeviceMap = 2; // CU_MEMHOSTALLOC_DEVICEMAP
    const size_t bytes = sizeof(WaitRecord) * std::max<size_t>(metadata.waits.size(), 1);
    void *memory = nullptr;
    if (Status s = driver.check(driver.host.allocate(&memory, bytes, kDeviceMap), "cuMemHostAlloc")) return s;
    std::memset(memory, 0, bytes);
    kernel.records = static_cast<WaitRecord *>(memory);
    kernel.recordsOffset = hidden->offset;
    kernel.waits = metadata.waits;
    kernel.debugTimeout = metadata.debugTimeout;
    recording.add(&kernel);
    return driver.check(driver.host.devicePointer(&kernel.recordsOnDevice, memory, 0), "cuMemHostGetDevicePointer");
  }

  /// A map has no extent of 0. An empty tensor is encoded with extents of 1 over one of these elements, which are zero:
  /// then all that a kernel loads is 0, and its stores do no harm. Maps that are only loaded from share the first
  /// element, which nothing writes; others get one element after another, so that what a kernel stores to one empty
  /// tensor does not appear in another one.
  static constexpr size_t kEmptyTensors = 1024, kEmptyTensorBytes = 16;
  Status reserveEmptyTensors() {
    std::lock_guard lock(emptyTensorsMutex);
    if (emptyTensors) return Status::ok();
    static const std::array<uint8_t, kEmptyTensors * kEmptyTensorBytes> kZeros{};
    void *address = nullptr;
    if (Status s = allocate(kZeros.size(), &address)) return s;
    Status s = copyIn(address, kZeros.data(), kZeros.size(), nullptr);
    if (!s) s = synchronize(nullptr);
    if (s) {
      (void)release(address);
      return s;
    }
    emptyTensors = address;
    return Status::ok();
  }
  Status emptyTensor(bool stored, void **data) {
    if (Status s = reserveEmptyTensors()) return s;
    const size_t index = stored ? 1 + emptyTensorsUsed++ % (kEmptyTensors - 1) : 0;
    *data = static_cast<uint8_t *>(emptyTensors) + index * kEmptyTensorBytes;
    return Status::ok();
  }
  std::mutex emptyTensorsMutex;
  void *emptyTensors = nullptr; // does not change once it is set
  std::atomic<size_t> emptyTensorsUsed{0};
};

CudaKernel::~CudaKernel() {
  if (records) device->recording.remove(this);
  if (!module && !records) return;
  Current current(device->driver, device->context);
  if (current.status()) return;
  if (module) device->driver.module.moduleUnload(module);
  if (records) device->driver.host.release(records);
}

Status CudaTimer::create() {
  Current current(device->driver, device->context);
  if (Status s = current.status()) return s;
  if (Status s = device->driver.check(device->driver.event.create(&first, 0), "cuEventCreate")) return s;
  return device->driver.check(device->driver.event.create(&last, 0), "cuEventCreate");
}

CudaTimer::~CudaTimer() {
  Current current(device->driver, device->context);
  if (current.status()) return;
  if (first) device->driver.event.destroy(first);
  if (last) device->driver.event.destroy(last);
}

Status CudaTimer::record(Event event) {
  Current current(device->driver, device->context);
  if (Status s = current.status()) return s;
  return device->recording.explain(device->driver.check(device->driver.event.record(event, stream), "cuEventRecord"));
}

Status CudaTimer::milliseconds(double &result) {
  Current current(device->driver, device->context);
  if (Status s = current.status()) return s;
  if (Status s = device->driver.check(device->driver.event.synchronize(last), "cuEventSynchronize"))
    return device->recording.explain(s);
  float time = 0;
  if (Status s = device->driver.check(device->driver.event.elapsedTime(&time, first, last), "cuEventElapsedTime"))
    return s;
  result = time;
  return Status::ok();
}

} // namespace

Status enumerate(const std::string &driverPath, std::vector<DeviceInfo> &devices) {
  Driver driver;
  if (Status s = Driver::load(driverPath, driver)) return s;
  int count = 0;
  if (Status s = driver.check(driver.core.deviceGetCount(&count), "cuDeviceGetCount")) return s;
  for (int i = 0; i < count; ++i) {
    DeviceHandle handle;
    DeviceInfo info;
    if (Status s = describe(driver, i, handle, info)) return s;
    devices.push_back(std::move(info));
  }
  return Status::ok();
}

Status open(const std::string &driverPath, int ordinal, std::shared_ptr<Device> &device) {
  return CudaDevice::open(driverPath, ordinal, device);
}

} // namespace tlx::runtime::cuda
