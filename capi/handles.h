// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The objects behind the opaque handles of tlx.h, and the frame around every entry: reference counts, size-led structs,
// and the catch of all exceptions.
#pragma once
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "runtime/compile_service.h"
#include "runtime/launch/device.h"
#include "runtime/launch/kernel.h"
#include "runtime/log.h"
#include "tlxjit/tlx.h"

namespace tlx::capi {

using runtime::Code;
using runtime::Status;

/// Shared by a context and what was opened in it, so that handles can be released in any order.
struct ContextState {
  ContextState(const runtime::CacheOptions &cache, runtime::Log::Callback callback, runtime::LogLevel level)
      : log(std::move(callback), level), service(runtime::CompilerFunctions::standard(), cache, log) {}
  runtime::Log log;
  runtime::CompileService service;
  std::string cudaDriver, hipDriver, ptxas;

  std::mutex mutex; // of what follows
  bool listed = false;
  std::vector<runtime::DeviceInfo> devices;
  std::string cudaProblem, hipProblem;
  std::vector<std::weak_ptr<runtime::Device>> opened;
  /// Fills `devices` once. Never fails: a missing driver is a text.
  void list();
  Status open(const std::string &id, std::shared_ptr<runtime::Device> &device);
};

struct Counted {
  std::atomic<unsigned> references{1};
};
template <typename T> void retain(T *handle) {
  if (handle) handle->references.fetch_add(1, std::memory_order_relaxed);
}
template <typename T> void release(T *handle) {
  if (handle && handle->references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete handle;
}

} // namespace tlx::capi

struct tlx_error : tlx::capi::Counted {
  tlx_status code = TLX_OK;
  std::string message, diagnostics, diagnosticsJson = "[]";
  std::string file; // of the first error
  uint32_t line = 0, column = 0;
};
struct tlx_context : tlx::capi::Counted {
  std::shared_ptr<tlx::capi::ContextState> state;
};
struct tlx_device : tlx::capi::Counted {
  std::shared_ptr<tlx::capi::ContextState> state;
  std::shared_ptr<tlx::runtime::Device> device;
};
struct tlx_kernel : tlx::capi::Counted {
  std::shared_ptr<tlx::capi::ContextState> state;
  std::shared_ptr<tlx::runtime::Kernel> kernel;
  tlx::CompileResult result; // without its binary, which `kernel` has
  std::string metadataJson;
  bool fromCache = false;
};
struct tlx_report : tlx::capi::Counted {
  tlx::runtime::SimReport report;
};

namespace tlx::capi {

/// Writes *error (if wanted) and returns the code. Does not throw.
tlx_status fail(tlx_error **error, Code code, const char *message) noexcept;

inline Status invalid(std::string message) {
  return Status::error(Code::InvalidArgument, std::move(message));
}

/// The body of an entry: `body` returns a Status; no exception crosses.
template <typename Body> tlx_status entry(tlx_error **error, Body &&body) noexcept {
  if (error) *error = nullptr;
  try {
    const Status status = body();
    return status ? fail(error, status.code, status.message.c_str()) : TLX_OK;
  } catch (const std::bad_alloc &) {
    return fail(error, Code::OutOfMemory, "out of memory on the host");
  } catch (const std::exception &problem) {
    return fail(error, Code::Internal, problem.what());
  } catch (...) {
    return fail(error, Code::Internal, "unknown exception");
  }
}

/// Reads a caller's option struct of any age: a shorter one is filled up with zeros; a longer one is from a newer
/// header, and is taken if what we do not know is zero.
template <typename T> Status readOptions(const T *from, T &to) {
  std::memset(static_cast<void *>(&to), 0, sizeof to);
  to.struct_size = sizeof to;
  if (!from) return Status::ok();
  const size_t size = from->struct_size;
  if (size < sizeof(size_t) || size > (1u << 20)) return invalid("struct_size of an options struct is not set");
  for (size_t i = sizeof to; i < size; ++i)
    if (reinterpret_cast<const unsigned char *>(from)[i])
      return invalid("an options struct has a field that this version of the library does not know");
  std::memcpy(static_cast<void *>(&to), from, size < sizeof to ? size : sizeof to);
  return Status::ok();
}

/// Writes as much of `from` as the caller's struct has room for, and leaves its struct_size.
template <typename T> Status writeProperties(T from, T *to) {
  if (!to) return invalid("the struct to fill is NULL");
  const size_t size = to->struct_size;
  if (size < sizeof(size_t)) return invalid("struct_size of the struct to fill is not set");
  from.struct_size = size;
  std::memcpy(static_cast<void *>(to), &from, size < sizeof from ? size : sizeof from);
  return Status::ok();
}

inline std::string orEmpty(const char *text) {
  return text ? text : "";
}

} // namespace tlx::capi
