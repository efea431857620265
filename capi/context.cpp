// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Version, errors, context and targets of tlx.h.
#include <nlohmann/json.hpp>

#include "features/features.h"
#include "handles.h"
#include "runtime/cuda/device.h"
#include "runtime/hip/device.h"
#include "runtime/sim/device.h"

using namespace tlx;
using namespace tlx::capi;

static_assert(TLX_VERSION_MAJOR == 0, "SOVERSION in capi/CMakeLists.txt follows the major version");
static_assert(int(Code::Internal) == TLX_ERROR_INTERNAL && int(Code::Findings) == TLX_ERROR_FINDINGS &&
                  int(Code::CacheMiss) == TLX_ERROR_CACHE_MISS && int(Code::Fact) == TLX_ERROR_FACT,
              "runtime::Code and tlx_status are the same numbers");

uint32_t tlx_version(void) {
  return TLX_VERSION_MAJOR * 10000 + TLX_VERSION_MINOR * 100 + TLX_VERSION_PATCH;
}
const char *tlx_version_string(void) {
  return TLX_VERSION;
}

const char *tlx_status_name(tlx_status status) {
  switch (status) {
#define NAME(X)                                                                                                        \
  case X:                                                                                                              \
    return #X;
    NAME(TLX_OK)
    NAME(TLX_ERROR_INVALID_ARGUMENT)
    NAME(TLX_ERROR_COMPILE)
    NAME(TLX_ERROR_UNSUPPORTED)
    NAME(TLX_ERROR_FACT)
    NAME(TLX_ERROR_NOT_FOUND)
    NAME(TLX_ERROR_NO_DRIVER)
    NAME(TLX_ERROR_DRIVER)
    NAME(TLX_ERROR_OUT_OF_MEMORY)
    NAME(TLX_ERROR_FINDINGS)
    NAME(TLX_ERROR_CACHE_MISS)
    NAME(TLX_ERROR_IO)
    NAME(TLX_ERROR_INTERNAL)
#undef NAME
  }
  return "unknown status";
}

tlx_status tlx::capi::fail(tlx_error **error, Code code, const char *message) noexcept {
  if (error) {
    try {
      auto made = std::make_unique<tlx_error>();
      made->code = tlx_status(int(code));
      made->message = message;
      *error = made.release();
    } catch (...) {
      *error = nullptr; // no memory for the error itself: the code still tells
    }
  }
  return tlx_status(int(code));
}

void tlx_error_retain(tlx_error *error) {
  retain(error);
}
void tlx_error_release(tlx_error *error) {
  release(error);
}
tlx_status tlx_error_code(const tlx_error *error) {
  return error ? error->code : TLX_OK;
}
const char *tlx_error_message(const tlx_error *error) {
  return error ? error->message.c_str() : "";
}
const char *tlx_error_diagnostics(const tlx_error *error) {
  return error ? error->diagnostics.c_str() : "";
}
const char *tlx_error_diagnostics_json(const tlx_error *error) {
  return error ? error->diagnosticsJson.c_str() : "[]";
}
int tlx_error_location(const tlx_error *error, const char **file, uint32_t *line, uint32_t *column) {
  if (file) *file = error ? error->file.c_str() : "";
  if (line) *line = error ? error->line : 0;
  if (column) *column = error ? error->column : 0;
  return error && error->line != 0;
}

// -------------------------------------------------------------------------------------------------------------------
// context

void ContextState::list() {
  std::lock_guard lock(mutex);
  if (listed) return;
  devices.push_back(runtime::sim::info());
  if (Status status = runtime::cuda::enumerate(cudaDriver, devices)) cudaProblem = status.message;
  if (Status status = runtime::hip::enumerate(hipDriver, devices)) hipProblem = status.message;
  listed = true;
}

Status ContextState::open(const std::string &name, std::shared_ptr<runtime::Device> &device) {
  std::string id = name;
  if (id == "cuda" || id == "hip") id += ":0";
  std::lock_guard lock(mutex);
  std::erase_if(opened, [](const auto &weak) { return weak.expired(); });
  for (const auto &weak : opened)
    if (auto one = weak.lock(); one && one->info().id == id) {
      device = std::move(one);
      return Status::ok();
    }
  const size_t colon = id.find(':');
  const std::string api = id.substr(0, colon), number = colon == std::string::npos ? "" : id.substr(colon + 1);
  if (id == "sim") {
    device = runtime::sim::open();
  } else if ((api == "cuda" || api == "hip") && !number.empty() && number.size() < 5 &&
             number.find_first_not_of("0123456789") == std::string::npos) {
    const int ordinal = std::stoi(number);
    const Status status = api == "cuda" ? runtime::cuda::open(cudaDriver, ordinal, device)
                                        : runtime::hip::open(hipDriver, ordinal, device);
    if (status) return status;
  } else {
    return Status::error(Code::NotFound, "there is no device '" + name + "': write sim, cuda:N or hip:N");
  }
  opened.push_back(device);
  return Status::ok();
}

tlx_status tlx_context_create(const tlx_context_options *options, tlx_context **context, tlx_error **error) {
  return entry(error, [&]() -> Status {
    if (!context) return invalid("context is NULL");
    tlx_context_options o;
    if (Status status = readOptions(options, o)) return status;
    if (o.cache_mode > TLX_CACHE_OFF) return invalid("cache_mode is not a tlx_cache_mode");
    if (o.log_level > TLX_LOG_ERROR) return invalid("log_level is not a tlx_log_level");
    runtime::CacheOptions cache;
    cache.directory = orEmpty(o.cache_directory);
    if (o.cache_max_bytes) cache.maxBytes = o.cache_max_bytes;
    if (o.cache_mode == TLX_CACHE_ON) cache.mode = runtime::CacheMode::ReadWrite;
    if (o.cache_mode == TLX_CACHE_READ_ONLY) cache.mode = runtime::CacheMode::ReadOnly;
    if (o.cache_mode == TLX_CACHE_OFF) cache.mode = runtime::CacheMode::Off;
    runtime::Log::Callback callback;
    if (o.log)
      callback = [log = o.log, user = o.log_user](runtime::LogLevel level, const std::string &message) {
        log(user, tlx_log_level(int(level)), message.c_str());
      };
    auto made = std::make_unique<tlx_context>();
    made->state = std::make_shared<ContextState>(cache, std::move(callback), runtime::LogLevel(int(o.log_level)));
    made->state->cudaDriver = orEmpty(o.cuda_driver);
    made->state->hipDriver = orEmpty(o.hip_driver);
    made->state->ptxas = orEmpty(o.ptxas);
    *context = made.release();
    return Status::ok();
  });
}

void tlx_context_retain(tlx_context *context) {
  retain(context);
}
void tlx_context_release(tlx_context *context) {
  release(context);
}

const char *tlx_context_cache_directory(const tlx_context *context) {
  if (!context || !context->state->service.cache().canRead()) return "";
  return context->state->service.cache().directory().c_str();
}

tlx_status tlx_context_cache_counters(const tlx_context *context, tlx_cache_counters *counters, tlx_error **error) {
  return entry(error, [&]() -> Status {
    if (!context) return invalid("context is NULL");
    const runtime::CacheCounters now = context->state->service.cache().counters();
    tlx_cache_counters out = {};
    out.hits = now.hits;
    out.misses = now.misses;
    out.stores = now.stores;
    out.damaged = now.damaged;
    out.io_errors = now.ioErrors;
    out.evicted = now.evicted;
    return writeProperties(out, counters);
  });
}

// -------------------------------------------------------------------------------------------------------------------
// targets

size_t tlx_target_count(void) {
  return features::allTargets().size();
}

tlx_status tlx_target_get(size_t index, tlx_target_properties *properties, tlx_error **error) {
  return entry(error, [&]() -> Status {
    if (index >= features::allTargets().size())
      return Status::error(Code::NotFound, "there is no target number " + std::to_string(index));
    const features::Target &target = features::allTargets()[index];
    tlx_target_properties out = {};
    out.name = target.name;
    out.vendor = target.vendor == features::Vendor::Nvidia ? "nvidia" : "amd";
    out.warp_size = target.warpSize;
    out.max_threads = target.maxThreads;
    out.shared_bytes = target.sharedBytes;
    return writeProperties(out, properties);
  });
}
