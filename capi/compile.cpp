// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compiling, and what a compiled kernel says of itself: tlx.h.
#include <nlohmann/json.hpp>

#include "features/features.h"
#include "handles.h"

using namespace tlx;
using namespace tlx::capi;

namespace {

/// sm_90 -> 90; 0 if it is not of this form.
unsigned computeCapability(const std::string &architecture) {
  unsigned value = 0;
  if (architecture.rfind("sm_", 0) != 0) return 0;
  for (size_t i = 3; i < architecture.size() && architecture[i] >= '0' && architecture[i] <= '9'; ++i)
    value = value * 10 + unsigned(architecture[i] - '0');
  return value;
}

/// Code for an "a" target uses units that only this one compute capability has (PTX ISA, "Directives: .target").
bool isForOneCapability(const features::Target &target) {
  return std::string_view(target.name).ends_with('a');
}

/// Fills in target, image and assembleFor from the device that the kernel will run on.
Status fitToDevice(const runtime::Device &device, CompileRequest &request) {
  if (device.isSimulator()) {
    request.forSimulator = true;
    if (request.target.empty()) return invalid("the simulator runs every target's code: say which (target is NULL)");
    return Status::ok();
  }
  const std::string &architecture = device.info().architecture;
  request.forSimulator = false;
  const unsigned capability = computeCapability(architecture);
  if (capability == 0) { // AMD: code is for one architecture
    if (request.target.empty()) request.target = architecture;
    if (request.target != architecture)
      return Status::error(Code::Unsupported, device.info().id + " is a " + architecture +
                                                  ", which does not run code for " + request.target);
    return Status::ok();
  }
  auto runs = [&](const features::Target &target) {
    if (target.vendor != features::Vendor::Nvidia) return false;
    return isForOneCapability(target) ? target.computeCapability == capability : target.computeCapability <= capability;
  };
  if (request.target.empty()) {
    const features::Target *best = nullptr;
    for (const features::Target &target : features::allTargets())
      if (runs(target) && (!best || target.computeCapability >= best->computeCapability)) best = &target;
    if (!best)
      return Status::error(Code::Unsupported, "there is no target for " + device.info().id + " (" + architecture + ")");
    request.target = best->name;
  }
  const features::Target *target = features::findTarget(request.target);
  if (!target) return Status::ok(); // the compiler names the targets that there are
  if (!runs(*target))
    return Status::error(Code::Unsupported, device.info().id + " is an " + architecture +
                                                ", which does not run code for " + request.target);
  // Older code is assembled for the device, in full: its own units included where the assembler can use them.
  if (target->computeCapability != capability)
    request.assembleFor = architecture + (capability >= 90 && capability < 120 ? "a" : "");
  return Status::ok();
}

Status readRequest(const ContextState &context, const char *source, size_t size, const tlx_compile_options &o,
                   CompileRequest &request) {
  if (!source) return invalid("source is NULL");
  request.source = size == TLX_NUL_TERMINATED ? std::string(source) : std::string(source, size);
  if (o.file_name) request.fileName = o.file_name;
  request.kernel = orEmpty(o.kernel);
  if ((o.num_params && !o.params) || (o.num_facts && !o.facts)) return invalid("params or facts is NULL");
  for (size_t i = 0; i < o.num_params; ++i) {
    if (!o.params[i].name || !o.params[i].value) return invalid("a parameter's name or value is NULL");
    request.params.emplace_back(o.params[i].name, o.params[i].value);
  }
  for (size_t i = 0; i < o.num_facts; ++i) {
    if (!o.facts[i]) return invalid("a fact is NULL");
    request.facts.emplace_back(o.facts[i]);
  }
  if (o.import)
    request.import = [callback = o.import,
                      user = o.import_user](const std::string &name) -> std::optional<std::string> {
      const char *text = nullptr;
      size_t length = TLX_NUL_TERMINATED;
      if (callback(user, name.c_str(), &text, &length) != TLX_OK || !text) return std::nullopt;
      return length == TLX_NUL_TERMINATED ? std::string(text) : std::string(text, length);
    };
  constexpr uint32_t kKeep = TLX_KEEP_IR | TLX_KEEP_LLVM | TLX_KEEP_ASSEMBLY | TLX_KEEP_LAYOUTS;
  constexpr uint32_t kFlags = TLX_COMPILE_VERIFY | TLX_COMPILE_NO_LINE_INFO | TLX_COMPILE_CACHE_ONLY | TLX_COMPILE_NO_STATIC_CHECKS;
  if ((o.keep & ~kKeep) || (o.flags & ~kFlags))
    return invalid("keep or flags has a bit that is not known");
  if (o.image > TLX_IMAGE_SIMULATOR) return invalid("image is not a tlx_image");
  request.keepIr = o.keep & TLX_KEEP_IR;
  request.keepLlvm = o.keep & TLX_KEEP_LLVM;
  request.keepAssembly = o.keep & TLX_KEEP_ASSEMBLY;
  request.explainLayouts = o.keep & TLX_KEEP_LAYOUTS;
  request.verify = o.flags & TLX_COMPILE_VERIFY;
  request.lineInfo = !(o.flags & TLX_COMPILE_NO_LINE_INFO);
  request.staticChecks = !(o.flags & TLX_COMPILE_NO_STATIC_CHECKS);
  request.debugTimeout = o.debug_timeout;
  request.dumpAfter = orEmpty(o.dump_after);
  request.assembler = orEmpty(o.assembler);
  request.ptxasPath = context.ptxas;
  request.target = orEmpty(o.target);
  request.forSimulator = o.image == TLX_IMAGE_SIMULATOR;
  if (o.device) return fitToDevice(*o.device->device, request);
  if (request.target.empty()) return invalid("neither target nor device says what to compile for");
  return Status::ok();
}

/// The first error's place, for tlx_error_location.
void locate(tlx_error &error) {
  const nlohmann::json list = nlohmann::json::parse(error.diagnosticsJson, nullptr, /*allow_exceptions=*/false);
  if (!list.is_array()) return;
  for (const auto &one : list)
    if (one.is_object() && one.value("severity", "") == "error") {
      error.file = one.value("file", "");
      error.line = one.value("line", 0u);
      error.column = one.value("column", 0u);
      return;
    }
}

/// The first line of the text that reports an error, without the source line and carets below it.
std::string firstError(const std::string &diagnostics) {
  size_t at = diagnostics.find("error:");
  if (at == std::string::npos) at = 0;
  const size_t newline = diagnostics.rfind('\n', at), begin = newline == std::string::npos ? 0 : newline + 1;
  const size_t end = diagnostics.find('\n', at);
  return diagnostics.substr(begin, end == std::string::npos ? end : end - begin);
}

tlx_error *makeCompileError(const CompileResult &result, Code code) {
  auto error = std::make_unique<tlx_error>();
  error->code = tlx_status(int(code));
  error->diagnostics = result.diagnostics;
  if (!result.diagnosticsJson.empty()) error->diagnosticsJson = result.diagnosticsJson;
  // An internal error keeps all of its text: what is needed to reproduce it.
  error->message = code == Code::Internal ? result.diagnostics : firstError(result.diagnostics);
  if (!result.assemblerLog.empty() && code != Code::Compile) error->message += "\n" + result.assemblerLog;
  if (error->message.empty()) error->message = "the compile failed without a message";
  locate(*error);
  return error.release();
}

} // namespace

tlx_status tlx_compile(const tlx_context *context, const char *source, size_t source_size,
                       const tlx_compile_options *options, tlx_kernel **kernel, tlx_error **error) {
  tlx_error *compileError = nullptr; // richer than a Status: it has the diagnostics
  const tlx_status status = entry(error, [&]() -> Status {
    if (!context || !kernel) return invalid("context or kernel is NULL");
    tlx_compile_options o;
    if (Status s = readOptions(options, o)) return s;
    CompileRequest request;
    if (Status s = readRequest(*context->state, source, source_size, o, request)) return s;
    const bool cacheOnly = o.flags & TLX_COMPILE_CACHE_ONLY;
    runtime::CompileOutcome outcome = context->state->service.compileCached(request, cacheOnly);
    CompileResult &result = outcome.result;
    if (result.status != CompileStatus::Ok || !result.binary) {
      Code code = Code::Internal;
      if (result.status == CompileStatus::UserError) code = Code::Compile;
      if (result.status == CompileStatus::Unsupported) code = cacheOnly ? Code::CacheMiss : Code::Unsupported;
      if (error) compileError = makeCompileError(result, code);
      return Status::error(code, "");
    }
    auto made = std::make_unique<tlx_kernel>();
    made->state = context->state;
    made->fromCache = outcome.fromCache;
    made->metadataJson = toJson(result.binary->metadata);
    if (Status s = runtime::Kernel::create(std::move(*result.binary), made->kernel)) return s;
    result.binary.reset();
    if (result.diagnosticsJson.empty()) result.diagnosticsJson = "[]";
    made->result = std::move(result);
    *kernel = made.release();
    return Status::ok();
  });
  if (compileError) {
    if (*error) tlx_error_release(*error);
    *error = compileError;
  }
  return status;
}

void tlx_kernel_retain(tlx_kernel *kernel) {
  retain(kernel);
}
void tlx_kernel_release(tlx_kernel *kernel) {
  release(kernel);
}

const char *tlx_kernel_name(const tlx_kernel *kernel) {
  return kernel ? kernel->kernel->metadata().name.c_str() : "";
}
const char *tlx_kernel_metadata_json(const tlx_kernel *kernel) {
  return kernel ? kernel->metadataJson.c_str() : "{}";
}
const char *tlx_kernel_diagnostics(const tlx_kernel *kernel) {
  return kernel ? kernel->result.diagnostics.c_str() : "";
}
const char *tlx_kernel_diagnostics_json(const tlx_kernel *kernel) {
  return kernel ? kernel->result.diagnosticsJson.c_str() : "[]";
}
int tlx_kernel_from_cache(const tlx_kernel *kernel) {
  return kernel && kernel->fromCache;
}
uint32_t tlx_kernel_threads(const tlx_kernel *kernel) {
  return kernel ? kernel->kernel->plan().threadsPerProgram() : 0;
}
size_t tlx_kernel_num_args(const tlx_kernel *kernel) {
  return kernel ? kernel->kernel->metadata().args.size() : 0;
}
size_t tlx_kernel_packed_size(const tlx_kernel *kernel) {
  return kernel ? kernel->kernel->plan().userBytes() : 0;
}

tlx_status tlx_kernel_arg(const tlx_kernel *kernel, size_t index, tlx_arg_properties *properties, tlx_error **error) {
  return entry(error, [&]() -> Status {
    if (!kernel) return invalid("kernel is NULL");
    const auto &args = kernel->kernel->metadata().args;
    if (index >= args.size())
      return Status::error(Code::NotFound, "there is no argument number " + std::to_string(index));
    tlx_arg_properties out = {};
    out.name = args[index].name.c_str();
    out.type = args[index].type.c_str();
    out.offset = args[index].offset;
    out.size = args[index].size;
    return writeProperties(out, properties);
  });
}

tlx_image_kind tlx_kernel_image_kind(const tlx_kernel *kernel) {
  static_assert(int(Binary::Kind::Cubin) == TLX_IMAGE_KIND_CUBIN && int(Binary::Kind::Ptx) == TLX_IMAGE_KIND_PTX &&
                int(Binary::Kind::Hsaco) == TLX_IMAGE_KIND_HSACO &&
                int(Binary::Kind::SimBitcode) == TLX_IMAGE_KIND_SIMULATOR);
  return kernel ? tlx_image_kind(int(kernel->kernel->binary().kind)) : TLX_IMAGE_KIND_CUBIN;
}

tlx_status tlx_kernel_artifact(const tlx_kernel *kernel, tlx_artifact artifact, const void **data, size_t *size,
                               tlx_error **error) {
  return entry(error, [&]() -> Status {
    if (!kernel || !data || !size) return invalid("kernel, data or size is NULL");
    const CompileResult &result = kernel->result;
    const std::string *text = nullptr;
    const char *name = "", *how = "";
    switch (artifact) {
    case TLX_ARTIFACT_IMAGE:
      *data = kernel->kernel->binary().image.data();
      *size = kernel->kernel->binary().image.size();
      return Status::ok();
    case TLX_ARTIFACT_IR:
      text = &result.ir, name = "IR", how = "TLX_KEEP_IR";
      break;
    case TLX_ARTIFACT_LLVM:
      text = &result.llvm, name = "LLVM IR", how = "TLX_KEEP_LLVM";
      break;
    case TLX_ARTIFACT_ASSEMBLY:
      text = &result.assembly, name = "assembly", how = "TLX_KEEP_ASSEMBLY";
      break;
    case TLX_ARTIFACT_LAYOUTS:
      text = &result.layouts, name = "layout report", how = "TLX_KEEP_LAYOUTS";
      break;
    case TLX_ARTIFACT_DUMP:
      text = &result.dump, name = "dump", how = "dump_after";
      break;
    case TLX_ARTIFACT_ASSEMBLER_LOG:
      text = &result.assemblerLog, name = "assembler log", how = "a compile";
      break;
    }
    if (!text) return invalid("artifact is not a tlx_artifact");
    if (text->empty())
      return Status::error(Code::NotFound, std::string("this kernel has no ") + name + " (asked for by " + how + ")");
    *data = text->c_str();
    *size = text->size();
    return Status::ok();
  });
}
