// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A driver's library by dlopen. The handle is never closed: drivers register exit handlers and threads, and unloading
// one is a known way to crash at exit.
#pragma once
#include <dlfcn.h>
#include <string>

namespace tlx::runtime {

class SharedLibrary {
public:
  /// Opens `path`, or reuses the copy that the process has. On failure `error` says what the loader said.
  bool open(const std::string &path, std::string &error) {
    handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle) return true;
    const char *why = dlerror();
    error = why ? why : "cannot load " + path;
    return false;
  }
  /// Finds `name`; on failure adds it to `missing`.
  template <typename F> bool find(const char *name, F *&function, std::string &missing) const {
    function = reinterpret_cast<F *>(dlsym(handle, name));
    if (!function) missing += (missing.empty() ? "" : ", ") + std::string(name);
    return function != nullptr;
  }

private:
  void *handle = nullptr;
};

} // namespace tlx::runtime
