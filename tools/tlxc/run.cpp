// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `tlxc run`: makes the arguments, launches once, writes the outputs; then, if asked, measures.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>

#include "npy.h"
#include "tlxc.h"
#include "values.h"

namespace tlxc {

namespace {

/// Device memory of one tensor.
struct Tensor {
  Tensor(const tlx_device *device, size_t bytes) : device(device) {
    tlx_error *error = nullptr;
    check(tlx_device_alloc(device, bytes, &address, &error), error);
  }
  ~Tensor() { tlx_device_free(device, address, nullptr); }
  Tensor(const Tensor &) = delete;
  const tlx_device *device;
  void *address = nullptr;
  tlx_tensor description = TLX_TENSOR_INIT; // for a tensor_desc
};

void parseGrid(const std::string &text, uint32_t (&grid)[3]) {
  size_t at = 0;
  for (int i = 0; i < 3; ++i) {
    const size_t comma = text.find(',', at);
    const std::string part = text.substr(at, comma == std::string::npos ? comma : comma - at);
    if (part.empty() || part.size() > 10 || part.find_first_not_of("0123456789") != std::string::npos ||
        std::stoull(part) > UINT32_MAX)
      throw Failure(kUsage, "tlxc: --grid " + text + ": write X, X,Y or X,Y,Z\n");
    grid[i] = uint32_t(std::stoull(part));
    if (comma == std::string::npos) return;
    at = comma + 1;
  }
  throw Failure(kUsage, "tlxc: --grid " + text + ": there are three dimensions\n");
}

uint32_t parseSchedule(const std::string &text) {
  if (text == "in-order") return TLX_SCHEDULE_IN_ORDER;
  if (text == "random") return TLX_SCHEDULE_RANDOM;
  if (text == "late") return TLX_SCHEDULE_LATE;
  return TLX_SCHEDULE_EARLY; // CLI11 has checked the word
}

/// Copies only what an index reaches: the holes of a strided tensor stay unwritten, so that the simulator reports reads
/// of them.
void copyIn(const tlx_device *device, const ArgSpec &spec, const std::vector<uint8_t> &data, void *address) {
  tlx_error *error = nullptr;
  const size_t width = spec.type->bytes;
  if (spec.count() ==
      spec.span()) { // no holes, or strides of 0 and holes that make up for each other: then all is copied
    check(tlx_device_copy_in(device, address, data.data(), data.size(), nullptr, &error), error);
    return;
  }
  std::vector<int64_t> offsets = spec.offsets();
  std::sort(offsets.begin(), offsets.end());
  for (size_t i = 0; i < offsets.size();) {
    size_t end = i + 1;
    while (end < offsets.size() && offsets[end] <= offsets[end - 1] + 1) ++end;
    const size_t from = size_t(offsets[i]) * width, bytes = size_t(offsets[end - 1] - offsets[i] + 1) * width;
    check(tlx_device_copy_in(device, static_cast<char *>(address) + from, data.data() + from, bytes, nullptr, &error),
          error);
    i = end;
  }
}

tlx_arg makeNumber(const ArgSpec &spec) {
  tlx_arg arg = {};
  if (spec.isFloat) {
    arg.kind = TLX_ARG_FLOAT;
    arg.value.f = spec.number;
  } else {
    arg.kind = spec.isUnsigned ? TLX_ARG_UINT : TLX_ARG_INT;
    arg.value.i = spec.integer;
  }
  return arg;
}

/// "f16" for a parameter of type *f16 or tensor_desc<f16, [128, 64]>; "" for a scalar.
std::string elementOf(const std::string &type) {
  constexpr std::string_view kDescriptor = "tensor_desc<";
  if (type[0] == '*') return type.substr(1);
  if (type.compare(0, kDescriptor.size(), kDescriptor) != 0) return "";
  return type.substr(kDescriptor.size(), type.find(',') - kDescriptor.size());
}

/// The rules of tensors are the launch's to check, but for what a tlx_tensor cannot hold.
void describe(const ArgSpec &spec, Tensor &tensor) {
  if (spec.shape.size() > TLX_MAX_RANK)
    throw Failure(kUsage, "tlxc: argument '" + spec.name + "' has " + std::to_string(spec.shape.size()) +
                              " dimensions, and a tensor_desc has at most " + std::to_string(TLX_MAX_RANK) + "\n");
  tensor.description.data = tensor.address;
  tensor.description.dtype = tlx_dtype_from_name(spec.type->name);
  tensor.description.rank = uint32_t(spec.shape.size());
  std::copy(spec.shape.begin(), spec.shape.end(), tensor.description.shape);
  std::copy(spec.strides.begin(), spec.strides.end(), tensor.description.strides);
}

std::string signature(const tlx_kernel *kernel) {
  std::string text;
  for (size_t i = 0; i < tlx_kernel_num_args(kernel); ++i) {
    tlx_arg_properties arg = TLX_ARG_PROPERTIES_INIT;
    if (tlx_kernel_arg(kernel, i, &arg, nullptr) == TLX_OK)
      text += (text.empty() ? "" : ", ") + std::string(arg.name) + ": " + arg.type;
  }
  return text;
}

} // namespace

int run(const RunArgs &args) {
  // All of the command line is checked before the compile, so that a slip costs no wait.
  uint32_t grid[3] = {1, 1, 1};
  parseGrid(args.grid, grid);
  std::map<std::string, ArgSpec> specs;
  for (const std::string &text : args.args) {
    ArgSpec spec = parseArg(text);
    const std::string name = spec.name;
    if (!specs.emplace(name, std::move(spec)).second)
      throw Failure(kUsage, "tlxc: --arg " + name + " is given twice\n");
  }
  std::vector<std::pair<std::string, std::string>> outs;
  for (const std::string &text : args.outs) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
      throw Failure(kUsage, "tlxc: --out " + text + ": write NAME=FILE.npy\n");
    outs.emplace_back(text.substr(0, equals), text.substr(equals + 1));
    const auto found = specs.find(outs.back().first);
    if (found == specs.end() || !found->second.isTensor)
      throw Failure(kUsage, "tlxc: --out " + outs.back().first + ": there is no tensor of this name among --arg\n");
  }

  if (!args.timeline.empty() && std::find(std::begin(grid), std::end(grid), 0u) != std::end(grid))
    throw Failure(kUsage, "tlxc: --timeline: a grid of " + args.grid + " has no program to draw\n");
  if (args.timelineProgram && args.timeline.empty())
    throw Failure(kUsage, "tlxc: --timeline-program is for --timeline FILE.html\n");

  const Context context = makeContext(args);
  tlx_error *error = nullptr;
  tlx_device *opened = nullptr;
  check(tlx_device_open(context.get(), args.device.c_str(), &opened, &error), error);
  const Device device(opened);
  const Kernel kernel = compile(context.get(), args, device.get(), 0);
  printReports(kernel.get(), args);

  std::vector<tlx_arg> launchArgs;
  std::map<std::string, std::unique_ptr<Tensor>> tensors;
  for (size_t i = 0; i < tlx_kernel_num_args(kernel.get()); ++i) {
    tlx_arg_properties arg = TLX_ARG_PROPERTIES_INIT;
    check(tlx_kernel_arg(kernel.get(), i, &arg, &error), error);
    const auto found = specs.find(arg.name);
    if (found == specs.end())
      throw Failure(kUsage, "tlxc: argument '" + std::string(arg.name) + "' is not given; the kernel takes (" +
                                signature(kernel.get()) + ")\n");
    const ArgSpec &spec = found->second;
    const std::string element = elementOf(arg.type);
    const bool isDescriptor = arg.type[0] != '*' && !element.empty();
    if (!spec.isTensor) {
      if (!element.empty())
        throw Failure(kUsage, "tlxc: argument '" + spec.name + "' is a " + arg.type + ": write --arg " + spec.name +
                                  "=" + element + "[SHAPE]=CONTENTS\n");
      launchArgs.push_back(makeNumber(spec));
      continue;
    }
    if (element != spec.type->name)
      throw Failure(kUsage, "tlxc: argument '" + spec.name + "' is a " + arg.type +
                                ", and --arg gives it a tensor of " + spec.type->name + "\n");
    const std::vector<uint8_t> data = makeData(spec, args.seed);
    auto tensor = std::make_unique<Tensor>(device.get(), data.size());
    if (spec.init != ArgSpec::Init::Empty && !data.empty()) copyIn(device.get(), spec, data, tensor->address);
    check(tlx_device_synchronize(device.get(), nullptr, &error), error); // `data` goes away
    tlx_arg value = {};
    if (isDescriptor) {
      describe(spec, *tensor);
      value.kind = TLX_ARG_TENSOR;
      value.value.tensor = &tensor->description;
    } else {
      value.kind = TLX_ARG_POINTER;
      value.value.pointer = tensor->address;
    }
    launchArgs.push_back(value);
    tensors.emplace(spec.name, std::move(tensor));
  }
  for (const auto &[name, spec] : specs) {
    bool known = tensors.count(name) != 0;
    for (size_t i = 0; !known && i < tlx_kernel_num_args(kernel.get()); ++i) {
      tlx_arg_properties arg = TLX_ARG_PROPERTIES_INIT;
      known = tlx_kernel_arg(kernel.get(), i, &arg, nullptr) == TLX_OK && name == arg.name;
    }
    if (!known)
      throw Failure(kUsage,
                    "tlxc: the kernel has no argument '" + name + "'; it takes (" + signature(kernel.get()) + ")\n");
  }

  tlx_report *madeReport = nullptr;
  tlx_launch_options options = TLX_LAUNCH_OPTIONS_INIT;
  std::copy(std::begin(grid), std::end(grid), options.grid);
  options.schedule = parseSchedule(args.schedule);
  options.seed = args.seed;
  options.max_steps = args.maxSteps;
  options.check_races = args.checkRaces;
  options.timeline = !args.timeline.empty();
  options.timeline_program = args.timelineProgram;
  options.exhaustive = args.exhaustive;
  options.exact = args.exact;
  options.report = &madeReport;
  const tlx_status status =
      tlx_kernel_launch(kernel.get(), device.get(), &options, launchArgs.data(), launchArgs.size(), &error);
  const Report report(madeReport);
  std::fputs(tlx_report_printed(report.get()), stdout);
  std::fflush(stdout);
  std::fputs(tlx_report_text(report.get()), stderr);
  if (const char *page = tlx_report_timeline(report.get()); *page) writeFile(args.timeline, page);
  const bool findings = status == TLX_ERROR_FINDINGS;
  if (!findings)
    check(status, error);
  else
    tlx_error_release(error); // its text is the report's
  error = nullptr;
  check(tlx_device_synchronize(device.get(), nullptr, &error), error);

  // Outputs are written in spite of findings: what went wrong often shows there.
  for (const auto &[name, path] : outs) {
    const ArgSpec &spec = specs.at(name);
    const size_t width = spec.type->bytes;
    std::vector<uint8_t> memory(size_t(spec.span()) * width), values(size_t(spec.count()) * width);
    check(tlx_device_copy_out(device.get(), memory.data(), tensors.at(name)->address, memory.size(), nullptr, &error),
          error);
    check(tlx_device_synchronize(device.get(), nullptr, &error), error);
    const std::vector<int64_t> offsets = spec.offsets();
    for (size_t i = 0; i < offsets.size(); ++i)
      std::memcpy(&values[i * width], &memory[size_t(offsets[i]) * width], width);
    writeNpy(path, *spec.type, spec.shape, values);
  }
  std::fprintf(stderr, "ran %s on %s, grid %u x %u x %u, %u threads a program\n", tlx_kernel_name(kernel.get()),
               args.device.c_str(), grid[0], grid[1], grid[2], tlx_kernel_threads(kernel.get()));
  if (const char *proof = tlx_report_proof(report.get()); *proof) std::fprintf(stderr, "%s\n", proof);
  if (findings) {
    std::fprintf(stderr, "%zu finding%s\n", tlx_report_count(report.get()),
                 tlx_report_count(report.get()) == 1 ? "" : "s");
    return kFindings;
  }

  if (args.time) {
    std::vector<double> times(args.repeats);
    options.report = nullptr;
    options.timeline = options.timeline_program = 0;
    check(tlx_kernel_time(kernel.get(), device.get(), &options, launchArgs.data(), launchArgs.size(), args.warmUps,
                          args.repeats, times.data(), &error),
          error);
    std::sort(times.begin(), times.end());
    const size_t n = times.size();
    const double median = n % 2 ? times[n / 2] : (times[n / 2 - 1] + times[n / 2]) / 2;
    std::printf(
        "time: median %.6f ms, lowest %.6f, highest %.6f (%zu launches after %u to warm up, on the same arguments)\n",
        median, times.front(), times.back(), n, args.warmUps);
  }
  return kRight;
}

} // namespace tlxc
