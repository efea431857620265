// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Our own declarations of what we use of nvJitLink (CUDA documentation, "nvJitLink API"): nothing of CUDA is needed to
// build.
#include "target/nvidia/nvjitlink.h"

#include <cstdlib>
#include <dlfcn.h>

namespace tlx::target::nvidia {

namespace {
using Handle = struct nvJitLink *;
constexpr int kInputPtx = 2;

struct Library {
  int (*create)(Handle *, uint32_t, const char **) = nullptr;
  int (*destroy)(Handle *) = nullptr;
  int (*addData)(Handle, int, const void *, size_t, const char *) = nullptr;
  int (*complete)(Handle) = nullptr;
  int (*cubinSize)(Handle, size_t *) = nullptr;
  int (*cubin)(Handle, void *) = nullptr;
  int (*errorLogSize)(Handle, size_t *) = nullptr;
  int (*errorLog)(Handle, char *) = nullptr;
  int (*infoLogSize)(Handle, size_t *) = nullptr;
  int (*infoLog)(Handle, char *) = nullptr;
  unsigned major = 0, minor = 0;

  bool load(void *library) {
    int (*version)(unsigned *, unsigned *) = nullptr;
    version = reinterpret_cast<decltype(version)>(dlsym(library, "nvJitLinkVersion"));
    if (!version || version(&major, &minor)) major = 12, minor = 0; // 12.0 has no such function
    return resolve(library, create, "Create") && resolve(library, destroy, "Destroy") &&
           resolve(library, addData, "AddData") && resolve(library, complete, "Complete") &&
           resolve(library, cubinSize, "GetLinkedCubinSize") && resolve(library, cubin, "GetLinkedCubin") &&
           resolve(library, errorLogSize, "GetErrorLogSize") && resolve(library, errorLog, "GetErrorLog") &&
           resolve(library, infoLogSize, "GetInfoLogSize") && resolve(library, infoLog, "GetInfoLog");
  }

private:
  /// The header maps each name to a versioned one; the plain name is exported as well since 12.3.
  template <typename F> bool resolve(void *library, F &function, const std::string &name) {
    std::string versioned = "__nvJitLink" + name + "_" + std::to_string(major) + "_" + std::to_string(minor);
    void *symbol = dlsym(library, versioned.c_str());
    if (!symbol) symbol = dlsym(library, ("nvJitLink" + name).c_str());
    function = reinterpret_cast<F>(symbol);
    return symbol != nullptr;
  }
};

const Library *library() {
  static const Library *const loaded = []() -> const Library * {
    std::vector<std::string> names;
    if (const char *named = std::getenv("TLX_NVJITLINK")) names.push_back(named);
    for (const char *name :
         {"libnvJitLink.so.13", "libnvJitLink.so.12", "libnvJitLink.so", "/usr/local/cuda/lib64/libnvJitLink.so"})
      names.push_back(name);
    for (const std::string &name : names) {
      void *handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (!handle) continue;
      auto *made = new Library; // lives as long as the process: the library is never unloaded
      if (made->load(handle)) return made;
      delete made;
      dlclose(handle);
    }
    return nullptr;
  }();
  return loaded;
}

template <typename Size, typename Text> std::string readLog(Handle handle, Size size, Text text) {
  size_t n = 0;
  if (size(handle, &n) || n == 0) return {};
  std::string log(n, '\0');
  if (text(handle, log.data())) return {};
  log.resize(log.find('\0') == std::string::npos ? log.size() : log.find('\0'));
  return log;
}
} // namespace

std::string nvJitLinkVersion() {
  const Library *l = library();
  return l ? std::to_string(l->major) + "." + std::to_string(l->minor) : std::string();
}

bool nvJitLinkAssemble(const std::string &ptx, const std::vector<std::string> &options, std::vector<uint8_t> &image,
                       std::string &log) {
  const Library *l = library();
  if (!l) return false;
  std::vector<const char *> raw;
  for (const std::string &option : options) raw.push_back(option.c_str());
  Handle handle = nullptr;
  if (l->create(&handle, static_cast<uint32_t>(raw.size()), raw.data())) {
    log = handle ? readLog(handle, l->errorLogSize, l->errorLog) : "nvJitLinkCreate failed";
    if (handle) l->destroy(&handle);
    return false;
  }
  size_t size = 0;
  // The terminating zero belongs to PTX given as data.
  bool ok = !l->addData(handle, kInputPtx, ptx.c_str(), ptx.size() + 1, "kernel.ptx") && !l->complete(handle) &&
            !l->cubinSize(handle, &size);
  log = readLog(handle, l->errorLogSize, l->errorLog) + readLog(handle, l->infoLogSize, l->infoLog);
  if (ok) {
    image.resize(size);
    ok = !l->cubin(handle, image.data());
  }
  l->destroy(&handle);
  return ok;
}

} // namespace tlx::target::nvidia
