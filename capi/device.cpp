// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Devices, memory and streams of tlx.h.
#include "handles.h"

using namespace tlx;
using namespace tlx::capi;

namespace {

template <size_t N> void copyText(char (&to)[N], const std::string &from) {
  const size_t size = std::min(from.size(), N - 1);
  std::memcpy(to, from.data(), size);
  to[size] = 0;
}

Status fill(const runtime::DeviceInfo &info, tlx_device_properties *properties) {
  tlx_device_properties out = {};
  copyText(out.id, info.id);
  copyText(out.name, info.name);
  copyText(out.architecture, info.architecture);
  out.memory_bytes = info.memoryBytes;
  out.multiprocessors = info.multiprocessors;
  out.driver_version = info.driverVersion;
  return writeProperties(out, properties);
}

/// An entry on a device: `body` gets the runtime's object.
template <typename Body> tlx_status onDevice(const tlx_device *device, tlx_error **error, Body &&body) noexcept {
  return entry(error, [&]() -> Status {
    if (!device) return invalid("device is NULL");
    return body(*device->device);
  });
}

} // namespace

tlx_status tlx_context_device_count(const tlx_context *context, size_t *count, tlx_error **error) {
  return entry(error, [&]() -> Status {
    if (!context || !count) return invalid("context or count is NULL");
    context->state->list();
    *count = context->state->devices.size();
    return Status::ok();
  });
}

tlx_status tlx_context_device_properties(const tlx_context *context, size_t index, tlx_device_properties *properties,
                                         tlx_error **error) {
  return entry(error, [&]() -> Status {
    if (!context) return invalid("context is NULL");
    context->state->list();
    if (index >= context->state->devices.size())
      return Status::error(Code::NotFound, "there is no device number " + std::to_string(index));
    return fill(context->state->devices[index], properties);
  });
}

const char *tlx_context_driver_problem(const tlx_context *context, const char *api) {
  if (!context || !api) return "";
  try {
    context->state->list();
  } catch (...) {
    return "out of memory";
  }
  if (std::strcmp(api, "cuda") == 0) return context->state->cudaProblem.c_str();
  if (std::strcmp(api, "hip") == 0) return context->state->hipProblem.c_str();
  return "";
}

tlx_status tlx_device_open(const tlx_context *context, const char *id, tlx_device **device, tlx_error **error) {
  return entry(error, [&]() -> Status {
    if (!context || !id || !device) return invalid("context, id or device is NULL");
    auto made = std::make_unique<tlx_device>();
    made->state = context->state;
    if (Status status = context->state->open(id, made->device)) return status;
    *device = made.release();
    return Status::ok();
  });
}

void tlx_device_retain(tlx_device *device) {
  retain(device);
}
void tlx_device_release(tlx_device *device) {
  release(device);
}

tlx_status tlx_device_get_properties(const tlx_device *device, tlx_device_properties *properties, tlx_error **error) {
  return onDevice(device, error, [&](runtime::Device &d) { return fill(d.info(), properties); });
}

tlx_status tlx_device_alloc(const tlx_device *device, size_t bytes, void **address, tlx_error **error) {
  return onDevice(device, error, [&](runtime::Device &d) {
    if (!address) return invalid("address is NULL");
    return d.allocate(bytes, address);
  });
}

tlx_status tlx_device_free(const tlx_device *device, void *address, tlx_error **error) {
  return onDevice(device, error, [&](runtime::Device &d) { return address ? d.release(address) : Status::ok(); });
}

tlx_status tlx_device_copy_in(const tlx_device *device, void *address, const void *host, size_t bytes, void *stream,
                              tlx_error **error) {
  return onDevice(device, error, [&](runtime::Device &d) {
    if (!bytes) return Status::ok();
    if (!address || !host) return invalid("address or host is NULL");
    return d.copyIn(address, host, bytes, stream);
  });
}

tlx_status tlx_device_copy_out(const tlx_device *device, void *host, const void *address, size_t bytes, void *stream,
                               tlx_error **error) {
  return onDevice(device, error, [&](runtime::Device &d) {
    if (!bytes) return Status::ok();
    if (!address || !host) return invalid("address or host is NULL");
    return d.copyOut(host, address, bytes, stream);
  });
}

tlx_status tlx_device_copy(const tlx_device *device, void *to, const void *from, size_t bytes, void *stream,
                           tlx_error **error) {
  return onDevice(device, error, [&](runtime::Device &d) {
    if (!bytes) return Status::ok();
    if (!to || !from) return invalid("to or from is NULL");
    return d.copy(to, from, bytes, stream);
  });
}

tlx_status tlx_device_register(const tlx_device *device, void *address, size_t bytes, tlx_error **error) {
  return onDevice(device, error, [&](runtime::Device &d) {
    if (!address || !bytes) return invalid("address is NULL or bytes is 0");
    return d.registerExternal(address, bytes);
  });
}

tlx_status tlx_device_unregister(const tlx_device *device, void *address, tlx_error **error) {
  return onDevice(device, error, [&](runtime::Device &d) { return d.unregisterExternal(address); });
}

tlx_status tlx_stream_create(const tlx_device *device, void **stream, tlx_error **error) {
  return onDevice(device, error, [&](runtime::Device &d) {
    if (!stream) return invalid("stream is NULL");
    return d.createStream(stream);
  });
}

tlx_status tlx_stream_destroy(const tlx_device *device, void *stream, tlx_error **error) {
  return onDevice(device, error, [&](runtime::Device &d) { return stream ? d.destroyStream(stream) : Status::ok(); });
}

tlx_status tlx_device_synchronize(const tlx_device *device, void *stream, tlx_error **error) {
  return onDevice(device, error, [&](runtime::Device &d) { return d.synchronize(stream); });
}
