// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Launches and the simulator's reports: tlx.h.
#include "handles.h"

using namespace tlx;
using namespace tlx::capi;

// tlx_arg is converted, not reinterpreted: the ABI of the header and our own struct change separately.
namespace {

constexpr size_t kSmallCount = 32, kSmallTensors = 8;

/// Reads a tensor of a header of any age.
Status readTensor(const tlx_tensor *from, runtime::Tensor &to) {
  static_assert(TLX_MAX_RANK == runtime::kMaxRank && TLX_DTYPE_I1 == int(runtime::Element::I1) &&
                TLX_DTYPE_U64 == int(runtime::Element::U64) && TLX_DTYPE_F16 == int(runtime::Element::F16) &&
                TLX_DTYPE_F64 == int(runtime::Element::F64));
  if (!from) return invalid("a tensor is NULL");
  tlx_tensor copy;
  if (from->struct_size != sizeof copy) { // usually it is, and nothing is copied
    if (Status status = readOptions(from, copy)) return status;
    from = &copy;
  }
  to.data = from->data;
  to.element = from->dtype <= TLX_DTYPE_F64 ? runtime::Element(from->dtype) : runtime::Element::None;
  to.rank = from->rank;
  std::memcpy(to.shape, from->shape, sizeof to.shape);
  std::memcpy(to.strides, from->strides, sizeof to.strides);
  return Status::ok();
}

/// On the stack, but for kernels with very many arguments: a launch does not allocate.
class Args {
public:
  Status read(const tlx_arg *args, size_t count) {
    if (count && !args) return invalid("args is NULL");
    if (count > kSmallCount) large.resize(count);
    to = count > kSmallCount ? large.data() : small;
    size = count;
    size_t tensors = 0;
    for (size_t i = 0; i < count; ++i) tensors += args[i].kind == TLX_ARG_TENSOR;
    if (tensors > kSmallTensors) largeTensors.resize(tensors);
    runtime::Tensor *nextTensor = tensors > kSmallTensors ? largeTensors.data() : smallTensors;
    for (size_t i = 0; i < count; ++i) {
      switch (args[i].kind) {
      case TLX_ARG_POINTER:
        to[i] = runtime::Arg::ofPointer(args[i].value.pointer);
        break;
      case TLX_ARG_INT:
        to[i] = runtime::Arg::ofInt(args[i].value.i);
        break;
      case TLX_ARG_UINT:
        to[i] = runtime::Arg::ofUInt(args[i].value.u);
        break;
      case TLX_ARG_FLOAT:
        to[i] = runtime::Arg::ofFloat(args[i].value.f);
        break;
      case TLX_ARG_TENSOR:
        if (Status status = readTensor(args[i].value.tensor, *nextTensor)) return status;
        to[i] = runtime::Arg::ofTensor(nextTensor++);
        break;
      default:
        return invalid("the kind of argument " + std::to_string(i) + " is not a tlx_arg_kind");
      }
    }
    return Status::ok();
  }
  std::span<const runtime::Arg> span() const { return {to, size}; }

private:
  runtime::Arg small[kSmallCount];
  runtime::Tensor smallTensors[kSmallTensors]; // not initialized: read() fills what is used
  std::vector<runtime::Arg> large;
  std::vector<runtime::Tensor> largeTensors;
  runtime::Arg *to = small;
  size_t size = 0;
};

/// Reads the options, runs `body(grid, sim options, report)`, and hands the report over whatever came of it.
template <typename Body>
tlx_status launchEntry(const tlx_kernel *kernel, const tlx_device *device, const tlx_launch_options *options,
                       tlx_error **error, Body &&body) noexcept {
  return entry(error, [&]() -> Status {
    if (!kernel || !device || !options) return invalid("kernel, device or options is NULL");
    tlx_launch_options o;
    if (Status status = readOptions(options, o)) return status;
    if (o.report) *o.report = nullptr;
    if (o.schedule > TLX_SCHEDULE_EARLY) return invalid("schedule is not a tlx_schedule");
    runtime::SimOptions sim;
    sim.schedule = runtime::SimOptions::Schedule(o.schedule);
    sim.seed = o.seed;
    sim.maxSteps = o.max_steps;
    if (o.check_races > 1) return invalid("check_races is 0 or 1");
    sim.checkRaces = o.check_races;
    if (o.timeline > 1 || o.exhaustive > 1 || o.exact > 1) return invalid("timeline, exhaustive and exact are 0 or 1");
    if (o.timeline_program && !o.timeline) return invalid("timeline_program is for timeline, which is 0");
    const uint64_t programs = uint64_t(o.grid[0]) * o.grid[1] * o.grid[2];
    if (o.timeline_program && o.timeline_program >= programs)
      return invalid("timeline_program is " + std::to_string(o.timeline_program) + ", and the grid has " +
                     std::to_string(programs) + (programs == 1 ? " program" : " programs, numbered from 0"));
    if ((o.timeline || o.exhaustive || o.exact) && !device->device->isSimulator())
      return invalid("timeline, exhaustive and exact are for the simulator, and the device is " +
                     device->device->info().id);
    sim.timeline = o.timeline;
    sim.timelineProgram = o.timeline_program;
    sim.exhaustive = o.exhaustive;
    sim.exact = o.exact;
    std::unique_ptr<tlx_report> report;
    if (o.report && device->device->isSimulator()) report = std::make_unique<tlx_report>();
    const Status status =
        body(runtime::Grid{o.grid[0], o.grid[1], o.grid[2]}, o.stream, sim, report ? &report->report : nullptr);
    if (report && (!status || status.code == Code::Findings)) *o.report = report.release();
    return status;
  });
}

} // namespace

tlx_status tlx_kernel_prepare(const tlx_kernel *kernel, const tlx_device *device, tlx_error **error) {
  return entry(error, [&]() -> Status {
    if (!kernel || !device) return invalid("kernel or device is NULL");
    return kernel->kernel->prepare(*device->device);
  });
}

tlx_status tlx_kernel_launch(const tlx_kernel *kernel, const tlx_device *device, const tlx_launch_options *options,
                             const tlx_arg *args, size_t num_args, tlx_error **error) {
  return launchEntry(
      kernel, device, options, error,
      [&](const runtime::Grid &grid, void *stream, const runtime::SimOptions &sim, runtime::SimReport *report) {
        Args converted;
        if (Status status = converted.read(args, num_args)) return status;
        return kernel->kernel->launch(*device->device, grid, converted.span(), stream, sim, report);
      });
}

tlx_status tlx_kernel_launch_packed(const tlx_kernel *kernel, const tlx_device *device,
                                    const tlx_launch_options *options, const void *args, size_t size,
                                    tlx_error **error) {
  return launchEntry(
      kernel, device, options, error,
      [&](const runtime::Grid &grid, void *stream, const runtime::SimOptions &sim, runtime::SimReport *report) {
        if (size && !args) return invalid("args is NULL");
        return kernel->kernel->launchPacked(*device->device, grid, {static_cast<const uint8_t *>(args), size}, stream,
                                            sim, report);
      });
}

tlx_status tlx_kernel_encode_tensor(const tlx_kernel *kernel, const tlx_device *device, size_t index,
                                    const tlx_tensor *tensor, void *out, size_t size, tlx_error **error) {
  return entry(error, [&]() -> Status {
    if (!kernel || !device || !out) return invalid("kernel, device or out is NULL");
    runtime::Tensor converted;
    if (Status status = readTensor(tensor, converted)) return status;
    return kernel->kernel->encodeTensor(*device->device, index, converted, {static_cast<uint8_t *>(out), size});
  });
}

uint32_t tlx_dtype_from_name(const char *name) {
  return name ? uint32_t(runtime::findElement(name)) : 0;
}

tlx_status tlx_kernel_time(const tlx_kernel *kernel, const tlx_device *device, const tlx_launch_options *options,
                           const tlx_arg *args, size_t num_args, uint32_t warm_ups, uint32_t repeats,
                           double *milliseconds, tlx_error **error) {
  return launchEntry(
      kernel, device, options, error,
      [&](const runtime::Grid &grid, void *stream, const runtime::SimOptions &sim, runtime::SimReport *) {
        if (repeats && !milliseconds) return invalid("milliseconds is NULL");
        Args converted;
        if (Status status = converted.read(args, num_args)) return status;
        return kernel->kernel->time(*device->device, grid, converted.span(), stream, sim, warm_ups,
                                    {milliseconds, repeats});
      });
}

void tlx_report_retain(tlx_report *report) {
  retain(report);
}
void tlx_report_release(tlx_report *report) {
  release(report);
}
size_t tlx_report_count(const tlx_report *report) {
  return report ? report->report.errors + report->report.warnings : 0;
}
const char *tlx_report_text(const tlx_report *report) {
  return report ? report->report.text.c_str() : "";
}
const char *tlx_report_json(const tlx_report *report) {
  return report ? report->report.json.c_str() : "[]";
}
const char *tlx_report_timeline(const tlx_report *report) {
  return report ? report->report.timeline.c_str() : "";
}
const char *tlx_report_proof(const tlx_report *report) {
  return report ? report->report.proof.c_str() : "";
}
const char *tlx_report_printed(const tlx_report *report) {
  return report ? report->report.printed.c_str() : "";
}
