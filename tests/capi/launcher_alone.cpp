// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An ahead-of-time program in small: metadata as JSON and an image, launched without LLVM in the program.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <new>

#include "runtime/cuda/device.h"
#include "runtime/hip/device.h"
#include "runtime/launch/kernel.h"

using namespace tlx;
using namespace tlx::runtime;

static unsigned long allocations = 0;
void *operator new(size_t bytes) {
  ++allocations;
  if (void *p = std::malloc(bytes ? bytes : 1)) return p;
  std::abort();
}
void operator delete(void *p) noexcept {
  std::free(p);
}
void operator delete(void *p, size_t) noexcept {
  std::free(p);
}

namespace {

int failed(const char *what, const Status &status) {
  std::fprintf(stderr, "%s: %s\n", what, status.message.c_str());
  return 1;
}

/// A prepared kernel with a tensor map: launches on the same tensor encode and allocate nothing.
int tensorMaps() {
  const char *const path = TLX_TEST_FAKES "/libfake_cuda.so";
  void *fake = dlopen(path, RTLD_NOW);
  if (!fake) return std::fprintf(stderr, "%s\n", dlerror()), 1;
  reinterpret_cast<void (*)()>(dlsym(fake, "fake_make_current"))();
  Binary binary;
  std::string error;
  const auto metadata = metadataFromJson(
      R"({"name": "f", "symbol": "f", "target": "sm_90a", "assembled_for": "", "warp_size": 32, "num_warps": 4,
          "shared_bytes": 0, "param_bytes": 128, "args": [{"name": "x", "kind": "tensor_desc", "type": "tensor_desc<f16, [64, 64]>",
          "offset": 0, "size": 128, "descriptor": {"element": "f16", "block": [64, 64], "form": "tensor_map", "box": [64, 64],
          "swizzle": 128}}], "hidden": [], "facts": [], "resources": {}, "assembler": "", "stages": []})",
      error);
  if (!metadata) return std::fprintf(stderr, "%s\n", error.c_str()), 1;
  binary.metadata = *metadata;
  binary.kind = Binary::Kind::Cubin;
  binary.image = {0x7f, 'E', 'L', 'F'};
  std::shared_ptr<Kernel> kernel;
  if (Status s = Kernel::create(std::move(binary), kernel)) return failed("create", s);
  std::shared_ptr<Device> device;
  if (Status s = cuda::open(path, 0, device)) return failed("open", s);
  if (Status s = kernel->prepare(*device)) return failed("prepare", s);
  alignas(16) static char memory[16]; // no kernel runs
  const Tensor tensor = {memory, Element::F16, 2, {100, 64}, {64, 1}};
  const Arg args[] = {Arg::ofTensor(&tensor)};
  reinterpret_cast<void (*)()>(dlsym(fake, "fake_quiet"))(); // a recording driver allocates
  if (Status s = kernel->launch(*device, {7, 1, 1}, args, nullptr, {}, nullptr)) return failed("first launch", s);
  const unsigned long before = allocations;
  for (int i = 0; i < 100; ++i)
    if (Status s = kernel->launch(*device, {7, 1, 1}, args, nullptr, {}, nullptr)) return failed("launch", s);
  if (allocations != before) return std::fprintf(stderr, "100 launches allocated %lu times\n", allocations - before), 1;
  return 0;
}

} // namespace

int main() {
  if (int result = tensorMaps()) return result;
  Binary binary;
  std::string error;
  const auto metadata = metadataFromJson(
      R"({"name": "f", "symbol": "f", "target": "gfx942", "assembled_for": "", "warp_size": 64, "num_warps": 4,
          "shared_bytes": 0, "param_bytes": 12, "args": [{"name": "x", "kind": "pointer", "type": "*f32", "offset": 0, "size": 8}],
          "hidden": [{"kind": "grid_x", "offset": 8, "size": 4}], "facts": [], "resources": {}, "assembler": "", "stages": []})",
      error);
  if (!metadata) return std::fprintf(stderr, "%s\n", error.c_str()), 1;
  binary.metadata = *metadata;
  binary.kind = Binary::Kind::Hsaco;
  binary.image = {0x7f, 'E', 'L', 'F'};
  std::shared_ptr<Kernel> kernel;
  if (Status s = Kernel::create(std::move(binary), kernel)) return failed("create", s);
  std::shared_ptr<Device> device;
  if (Status s = hip::open(TLX_TEST_FAKES "/libfake_amdhip64.so", 0, device)) return failed("open", s);
  const Arg args[] = {Arg::ofPointer(&kernel)};
  if (Status s = kernel->launch(*device, {7, 1, 1}, args, nullptr, {}, nullptr)) return failed("launch", s);
  std::puts("launched");
  return 0;
}
