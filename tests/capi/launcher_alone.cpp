// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An ahead-of-time program in small: metadata as JSON and an image, launched without LLVM in the program.
#include <cstdio>
#include <cstring>

#include "runtime/cuda/device.h"
#include "runtime/hip/device.h"
#include "runtime/launch/kernel.h"

using namespace tlx;
using namespace tlx::runtime;

namespace {

int failed(const char *what, const Status &status) {
  std::fprintf(stderr, "%s: %s\n", what, status.message.c_str());
  return 1;
}

} // namespace

int main() {
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
