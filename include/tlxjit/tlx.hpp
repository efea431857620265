// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// C++ over tlx.h: RAII handles and exceptions. Header only, C++17, includes nothing but tlx.h and the standard library,
// so that no C++ type crosses the library's boundary. Thread rules and errors are those of the functions called.
#ifndef TLXJIT_TLX_HPP
#define TLXJIT_TLX_HPP

#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tlx.h"

namespace tlx {

/// What every failure throws. what() is the message; a compile's errors stand in diagnostics().
class Error : public std::runtime_error {
public:
  Error(tlx_status status, tlx_error *error)
      : std::runtime_error(error ? tlx_error_message(error) : tlx_status_name(status)), code(status) {
    if (!error) return;
    text = tlx_error_diagnostics(error);
    json = tlx_error_diagnostics_json(error);
    tlx_error_release(error);
  }
  tlx_status status() const noexcept { return code; }
  const std::string &diagnostics() const noexcept { return text; }
  const std::string &diagnosticsJson() const noexcept { return json; }

private:
  tlx_status code;
  std::string text, json = "[]";
};

namespace detail {

/// By reference: in `check(call(…, &error), error)` the arguments are evaluated in any order, and the pointer is to be
/// read last.
inline void check(tlx_status status, tlx_error *&error) {
  if (status != TLX_OK) throw Error(status, error);
}

/// One reference to a handle.
template <typename T, void (*Retain)(T *), void (*Release)(T *)> class Handle {
public:
  Handle() = default;
  /// Takes over the caller's reference.
  explicit Handle(T *taken) : pointer(taken) {}
  Handle(const Handle &other) : pointer(other.pointer) {
    if (pointer) Retain(pointer);
  }
  Handle(Handle &&other) noexcept : pointer(std::exchange(other.pointer, nullptr)) {}
  Handle &operator=(Handle other) noexcept {
    std::swap(pointer, other.pointer);
    return *this;
  }
  ~Handle() { Release(pointer); }
  T *get() const noexcept { return pointer; }
  explicit operator bool() const noexcept { return pointer != nullptr; }

protected:
  T *pointer = nullptr;
};

} // namespace detail

/// Device memory, freed with the object.
class Buffer;

class Device : public detail::Handle<tlx_device, tlx_device_retain, tlx_device_release> {
public:
  using Handle::Handle;
  tlx_device_properties properties() const {
    tlx_device_properties result = TLX_DEVICE_PROPERTIES_INIT;
    tlx_error *error = nullptr;
    detail::check(tlx_device_get_properties(get(), &result, &error), error);
    return result;
  }
  inline Buffer allocate(size_t bytes) const;
  void copyIn(void *address, const void *host, size_t bytes, void *stream = nullptr) const {
    tlx_error *error = nullptr;
    detail::check(tlx_device_copy_in(get(), address, host, bytes, stream, &error), error);
  }
  void copyOut(void *host, const void *address, size_t bytes, void *stream = nullptr) const {
    tlx_error *error = nullptr;
    detail::check(tlx_device_copy_out(get(), host, address, bytes, stream, &error), error);
  }
  void registerMemory(void *address, size_t bytes) const {
    tlx_error *error = nullptr;
    detail::check(tlx_device_register(get(), address, bytes, &error), error);
  }
  void unregisterMemory(void *address) const {
    tlx_error *error = nullptr;
    detail::check(tlx_device_unregister(get(), address, &error), error);
  }
  void synchronize(void *stream = nullptr) const {
    tlx_error *error = nullptr;
    detail::check(tlx_device_synchronize(get(), stream, &error), error);
  }
};

class Buffer {
public:
  Buffer() = default;
  Buffer(Device device, size_t bytes) : owner(std::move(device)), bytes(bytes) {
    tlx_error *error = nullptr;
    detail::check(tlx_device_alloc(owner.get(), bytes, &address, &error), error);
  }
  Buffer(Buffer &&other) noexcept
      : owner(std::move(other.owner)), address(std::exchange(other.address, nullptr)),
        bytes(std::exchange(other.bytes, 0)) {}
  Buffer &operator=(Buffer &&other) noexcept {
    std::swap(owner, other.owner);
    std::swap(address, other.address);
    std::swap(bytes, other.bytes);
    return *this;
  }
  ~Buffer() {
    if (address) tlx_device_free(owner.get(), address, nullptr);
  }
  void *data() const noexcept { return address; }
  size_t size() const noexcept { return bytes; }
  /// Copies the whole buffer, and waits.
  void write(const void *host) const {
    owner.copyIn(address, host, bytes);
    owner.synchronize();
  }
  void read(void *host) const {
    owner.copyOut(host, address, bytes);
    owner.synchronize();
  }

private:
  Device owner;
  void *address = nullptr;
  size_t bytes = 0;
};

inline Buffer Device::allocate(size_t bytes) const {
  return Buffer(*this, bytes);
}

class Report : public detail::Handle<tlx_report, tlx_report_retain, tlx_report_release> {
public:
  using Handle::Handle;
  size_t count() const { return tlx_report_count(get()); }
  std::string text() const { return tlx_report_text(get()); }
  std::string json() const { return tlx_report_json(get()); }
  std::string printed() const { return tlx_report_printed(get()); }
  std::string timeline() const { return tlx_report_timeline(get()); }
  std::string proof() const { return tlx_report_proof(get()); }
};

/// A tensor in device memory, for a tensor_desc. Strides are in elements; without them it is dense and row-major.
struct Tensor : tlx_tensor {
  Tensor(void *data, tlx_dtype dtype, const std::vector<int64_t> &shape, const std::vector<int64_t> &strides = {})
      : tlx_tensor(TLX_TENSOR_INIT) {
    if (shape.empty() || shape.size() > TLX_MAX_RANK || (!strides.empty() && strides.size() != shape.size()))
      throw std::invalid_argument("a tensor has 1 to 5 dimensions, and a stride for each or none");
    this->data = data;
    this->dtype = dtype;
    rank = uint32_t(shape.size());
    int64_t dense = 1;
    for (size_t d = shape.size(); d-- > 0; dense *= shape[d] > 0 ? shape[d] : 1) {
      this->shape[d] = shape[d];
      this->strides[d] = strides.empty() ? dense : strides[d];
    }
  }
  Tensor(const Buffer &buffer, tlx_dtype dtype, const std::vector<int64_t> &shape,
         const std::vector<int64_t> &strides = {})
      : Tensor(buffer.data(), dtype, shape, strides) {}
};

/// A launch argument from a C++ value: pointers, buffers, integers, floating point, and tensors, which must outlive it.
struct Arg : tlx_arg {
  template <typename T> Arg(T value) : tlx_arg{} {
    if constexpr (std::is_pointer_v<T>) {
      kind = TLX_ARG_POINTER;
      this->value.pointer = value;
    } else if constexpr (std::is_floating_point_v<T>) {
      kind = TLX_ARG_FLOAT;
      this->value.f = value;
    } else if constexpr (std::is_unsigned_v<T>) {
      kind = TLX_ARG_UINT;
      this->value.u = value;
    } else {
      static_assert(std::is_integral_v<T>, "a launch argument is a pointer, a Buffer, an integer or a float");
      kind = TLX_ARG_INT;
      this->value.i = value;
    }
  }
  Arg(const Buffer &buffer) : tlx_arg{} {
    kind = TLX_ARG_POINTER;
    value.pointer = buffer.data();
  }
  Arg(const Tensor &tensor) : tlx_arg{} {
    kind = TLX_ARG_TENSOR;
    value.tensor = &tensor;
  }
};

struct Grid {
  uint32_t x = 1, y = 1, z = 1;
};

class Kernel : public detail::Handle<tlx_kernel, tlx_kernel_retain, tlx_kernel_release> {
public:
  using Handle::Handle;
  std::string name() const { return tlx_kernel_name(get()); }
  std::string metadataJson() const { return tlx_kernel_metadata_json(get()); }
  std::string diagnostics() const { return tlx_kernel_diagnostics(get()); }
  bool fromCache() const { return tlx_kernel_from_cache(get()) != 0; }
  std::string artifact(tlx_artifact which) const {
    const void *data = nullptr;
    size_t size = 0;
    tlx_error *error = nullptr;
    detail::check(tlx_kernel_artifact(get(), which, &data, &size, &error), error);
    return std::string(static_cast<const char *>(data), size);
  }
  void prepare(const Device &device) const {
    tlx_error *error = nullptr;
    detail::check(tlx_kernel_prepare(get(), device.get(), &error), error);
  }
  void launch(const Device &device, Grid grid, const std::vector<Arg> &args, void *stream = nullptr) const {
    tlx_launch_options options = TLX_LAUNCH_OPTIONS_INIT;
    options.grid[0] = grid.x;
    options.grid[1] = grid.y;
    options.grid[2] = grid.z;
    options.stream = stream;
    launchWith(device, options, args);
  }
  /// With all options. `options.report` is the caller's to release.
  void launchWith(const Device &device, const tlx_launch_options &options, const std::vector<Arg> &args) const {
    static_assert(sizeof(Arg) == sizeof(tlx_arg), "an array of Arg is an array of tlx_arg");
    tlx_error *error = nullptr;
    detail::check(tlx_kernel_launch(get(), device.get(), &options, args.data(), args.size(), &error), error);
  }
};

struct CompileOptions {
  std::string fileName = "kernel.tlx", kernel, target, assembler;
  std::vector<std::pair<std::string, std::string>> params;
  std::vector<std::string> facts;
  Device device;
  tlx_image image = TLX_IMAGE_NATIVE;
  uint32_t keep = 0, flags = 0;
  uint32_t debugTimeout = 0; // microseconds
  tlx_import_callback import = nullptr;
  void *importUser = nullptr;
};

class Context : public detail::Handle<tlx_context, tlx_context_retain, tlx_context_release> {
public:
  explicit Context(const tlx_context_options *options) {
    tlx_error *error = nullptr;
    detail::check(tlx_context_create(options, &pointer, &error), error);
  }
  Context() : Context(nullptr) {}

  Device open(const std::string &id) const {
    tlx_device *device = nullptr;
    tlx_error *error = nullptr;
    detail::check(tlx_device_open(get(), id.c_str(), &device, &error), error);
    return Device(device);
  }

  Kernel compile(std::string_view source, const CompileOptions &options) const {
    std::vector<tlx_param> params;
    for (const auto &param : options.params) params.push_back({param.first.c_str(), param.second.c_str()});
    std::vector<const char *> facts;
    for (const std::string &fact : options.facts) facts.push_back(fact.c_str());
    auto orNull = [](const std::string &text) { return text.empty() ? nullptr : text.c_str(); };
    tlx_compile_options c = TLX_COMPILE_OPTIONS_INIT;
    c.file_name = orNull(options.fileName);
    c.kernel = orNull(options.kernel);
    c.params = params.data();
    c.num_params = params.size();
    c.facts = facts.data();
    c.num_facts = facts.size();
    c.target = orNull(options.target);
    c.assembler = orNull(options.assembler);
    c.device = options.device.get();
    c.image = options.image;
    c.keep = options.keep;
    c.flags = options.flags;
    c.debug_timeout = options.debugTimeout;
    c.import = options.import;
    c.import_user = options.importUser;
    tlx_kernel *kernel = nullptr;
    tlx_error *error = nullptr;
    detail::check(tlx_compile(get(), source.data(), source.size(), &c, &kernel, &error), error);
    return Kernel(kernel);
  }
};

} // namespace tlx

#endif // TLXJIT_TLX_HPP
