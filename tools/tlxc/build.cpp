// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `tlxc build`, `tlxc targets`, `tlxc devices`.
#include <cstdio>
#include <cstring>

#include "tlxc.h"

namespace tlxc {

namespace {

struct Emit {
  const char *name;
  uint32_t keep;
  tlx_artifact artifact;
  int imageKind; // of --emit cubin, hsaco; -1: a text
};
constexpr Emit kEmits[] = {
    {"ir", TLX_KEEP_IR, TLX_ARTIFACT_IR, -1},
    {"llvm", TLX_KEEP_LLVM, TLX_ARTIFACT_LLVM, -1},
    {"ptx", TLX_KEEP_ASSEMBLY, TLX_ARTIFACT_ASSEMBLY, -1},
    {"asm", TLX_KEEP_ASSEMBLY, TLX_ARTIFACT_ASSEMBLY, -1},
    {"cubin", 0, TLX_ARTIFACT_IMAGE, TLX_IMAGE_KIND_CUBIN},
    {"hsaco", 0, TLX_ARTIFACT_IMAGE, TLX_IMAGE_KIND_HSACO},
};

const char *kindName(tlx_image_kind kind) {
  switch (kind) {
  case TLX_IMAGE_KIND_CUBIN:
    return "cubin";
  case TLX_IMAGE_KIND_PTX:
    return "ptx";
  case TLX_IMAGE_KIND_HSACO:
    return "hsaco";
  case TLX_IMAGE_KIND_SIMULATOR:
    return "bc";
  }
  return "bin";
}

std::string vendorOf(const std::string &name) {
  for (size_t i = 0; i < tlx_target_count(); ++i) {
    tlx_target_properties target = TLX_TARGET_PROPERTIES_INIT;
    if (tlx_target_get(i, &target, nullptr) == TLX_OK && name == target.name) return target.vendor;
  }
  return "";
}

} // namespace

int build(const BuildArgs &args) {
  const Emit *emit = nullptr;
  for (const Emit &one : kEmits)
    if (args.emit == one.name) emit = &one;
  const std::string vendor = vendorOf(args.target);
  const bool forNvidia = args.emit == "ptx" || args.emit == "cubin", forAmd = args.emit == "hsaco";
  if ((forNvidia && vendor == "amd") || (forAmd && vendor == "nvidia"))
    throw Failure(kUsage, "tlxc: --emit " + args.emit + " does not go with --target " + args.target + "\n");

  const Context context = makeContext(args);
  const Kernel kernel = compile(context.get(), args, nullptr, emit ? emit->keep : 0);
  printReports(kernel.get(), args);

  std::string_view bytes;
  std::string extension = args.emit;
  bool isText = true;
  if (args.emit == "json") {
    bytes = tlx_kernel_metadata_json(kernel.get());
  } else {
    const tlx_image_kind kind = tlx_kernel_image_kind(kernel.get());
    if (!emit) extension = kindName(kind);
    isText = emit && emit->imageKind < 0;
    if (emit && emit->imageKind >= 0 && kind != tlx_image_kind(emit->imageKind))
      throw Failure(kUserError,
                    "error: no " + args.emit + " was made: without an assembler the image is " + kindName(kind) + "\n");
    const void *data = nullptr;
    size_t size = 0;
    tlx_error *error = nullptr;
    check(tlx_kernel_artifact(kernel.get(), emit ? emit->artifact : TLX_ARTIFACT_IMAGE, &data, &size, &error), error);
    bytes = {static_cast<const char *>(data), size};
  }
  // Texts go to stdout, as a compiler's do; images to a file named after the kernel.
  std::string output = args.output;
  if (output.empty()) output = isText ? "-" : std::string(tlx_kernel_name(kernel.get())) + "." + extension;
  writeFile(output, bytes);
  if (output == "-" && isText && !bytes.empty() && bytes.back() != '\n') writeFile("-", "\n");
  if (output != "-") std::fprintf(stderr, "wrote %s (%zu bytes)\n", output.c_str(), bytes.size());
  return kRight;
}

int targets() {
  std::printf("%-10s %-8s %9s %15s %18s\n", "target", "vendor", "warp size", "threads/program", "shared memory");
  for (size_t i = 0; i < tlx_target_count(); ++i) {
    tlx_target_properties target = TLX_TARGET_PROPERTIES_INIT;
    tlx_error *error = nullptr;
    check(tlx_target_get(i, &target, &error), error);
    std::printf("%-10s %-8s %9u %15u %12u bytes\n", target.name, target.vendor, target.warp_size, target.max_threads,
                target.shared_bytes);
  }
  return kRight;
}

int devices() {
  const Context context = makeContext({});
  size_t count = 0;
  tlx_error *error = nullptr;
  check(tlx_context_device_count(context.get(), &count, &error), error);
  for (size_t i = 0; i < count; ++i) {
    tlx_device_properties device = TLX_DEVICE_PROPERTIES_INIT;
    check(tlx_context_device_properties(context.get(), i, &device, &error), error);
    if (i == 0) { // the simulator
      std::printf("%-8s %s, runs the code of every target\n", device.id, device.name);
      continue;
    }
    std::printf("%-8s %s, %s", device.id, device.name, device.architecture);
    if (device.memory_bytes) std::printf(", %.1f GiB", double(device.memory_bytes) / (1 << 30));
    if (device.multiprocessors) std::printf(", %u multiprocessors", device.multiprocessors);
    std::printf(", driver %u\n", device.driver_version);
  }
  for (const char *api : {"cuda", "hip"})
    if (const char *problem = tlx_context_driver_problem(context.get(), api); *problem)
      std::printf("%-8s none: %s\n", api, problem);
  return kRight;
}

} // namespace tlxc
