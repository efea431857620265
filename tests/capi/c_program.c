/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The whole C API from C, on the simulator. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tlxjit/tlx.h>

static int failures = 0;
#define CHECK(condition)                                                                                               \
  do {                                                                                                                 \
    if (!(condition)) {                                                                                                \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);                                        \
      ++failures;                                                                                                      \
    }                                                                                                                  \
  } while (0)

/* Prints an error, if there is one, and drops it. */
static tlx_status report(tlx_status status, tlx_error **error, int line) {
  if (*error) {
    fprintf(stderr, "line %d: %s: %s\n", line, tlx_status_name(status), tlx_error_message(*error));
    tlx_error_release(*error);
    *error = NULL;
  }
  return status;
}
#define OK(call) CHECK(report(call, &error, __LINE__) == TLX_OK)

static const char *kSource =
    "import \"library.tlx\";\n"
    "kernel scale<B: i32>(x: *f32, y: *f32, n: i32, a: f32) launch(num_warps = 4) requires(n >= 0) {\n"
    "  let i = program_id(0) * B + arange(0, B);\n"
    "  store(y + i, times(load(x + i, i < n), a), i < n);\n"
    "}\n";
static const char *kLibrary = "fn times(x, a) { return x * a; }\n";

static int logged = 0;
static void on_log(void *user, tlx_log_level level, const char *message) {
  (void)level;
  CHECK(user == &logged && message);
  ++logged;
}

static tlx_status import(void *user, const char *name, const char **text, size_t *size) {
  ++*(int *)user;
  if (strcmp(name, "library.tlx") != 0) return TLX_ERROR_NOT_FOUND;
  *text = kLibrary;
  *size = TLX_NUL_TERMINATED;
  return TLX_OK;
}

static void check_errors(const tlx_context *context) {
  tlx_error *error = NULL;
  tlx_kernel *kernel = NULL;
  tlx_device *device = NULL;
  tlx_compile_options options = TLX_COMPILE_OPTIONS_INIT;
  const char *file;
  uint32_t line, column;

  options.target = "sm_80";
  options.image = TLX_IMAGE_SIMULATOR;
  options.file_name = "wrong.tlx";
  CHECK(tlx_compile(context, "kernel f(x: *f32) {\n  store(x, y);\n}\n", TLX_NUL_TERMINATED, &options, &kernel,
                    &error) == TLX_ERROR_COMPILE);
  CHECK(!kernel && error);
  CHECK(tlx_error_code(error) == TLX_ERROR_COMPILE);
  CHECK(strstr(tlx_error_message(error), "wrong.tlx:2:12: error:") != NULL);
  CHECK(strstr(tlx_error_diagnostics(error), "^") != NULL);
  CHECK(strstr(tlx_error_diagnostics_json(error), "\"error\"") != NULL);
  CHECK(tlx_error_location(error, &file, &line, &column) == 1);
  CHECK(strcmp(file, "wrong.tlx") == 0 && line == 2 && column == 12);
  tlx_error_retain(error);
  tlx_error_release(error);
  CHECK(tlx_error_code(error) == TLX_ERROR_COMPILE);
  tlx_error_release(error);
  error = NULL;

  CHECK(tlx_compile(context, NULL, 0, &options, &kernel, NULL) ==
        TLX_ERROR_INVALID_ARGUMENT); /* no error object wanted */
  CHECK(tlx_compile(NULL, "", 0, &options, &kernel, NULL) == TLX_ERROR_INVALID_ARGUMENT);
  options.struct_size = 0;
  CHECK(tlx_compile(context, kSource, TLX_NUL_TERMINATED, &options, &kernel, NULL) == TLX_ERROR_INVALID_ARGUMENT);
  options.struct_size = sizeof options;
  options.flags = 1u << 31;
  CHECK(tlx_compile(context, kSource, TLX_NUL_TERMINATED, &options, &kernel, NULL) == TLX_ERROR_INVALID_ARGUMENT);
  options.flags = 0;
  options.target = NULL;
  CHECK(tlx_compile(context, kSource, TLX_NUL_TERMINATED, &options, &kernel, NULL) == TLX_ERROR_INVALID_ARGUMENT);
  options.target = "sm_80";
  options.flags = TLX_COMPILE_CACHE_ONLY;
  CHECK(tlx_compile(context, "kernel g() {}", TLX_NUL_TERMINATED, &options, &kernel, &error) == TLX_ERROR_CACHE_MISS);
  tlx_error_release(error);
  error = NULL;

  CHECK(tlx_device_open(context, "gpu", &device, &error) == TLX_ERROR_NOT_FOUND);
  CHECK(strstr(tlx_error_message(error), "sim, cuda:N or hip:N") != NULL);
  CHECK(tlx_error_location(error, NULL, NULL, NULL) == 0);
  tlx_error_release(error);
  error = NULL;
  CHECK(tlx_device_open(context, "cuda:0", &device, &error) == TLX_ERROR_NO_DRIVER);
  CHECK(strstr(tlx_error_message(error), "/nonexistent") != NULL);
  tlx_error_release(error);
  CHECK(strcmp(tlx_error_message(NULL), "") == 0);
}

static void check_launch(const tlx_context *context, const char *target) {
  enum { kCount = 1000 };
  tlx_error *error = NULL;
  tlx_device *device = NULL, *again = NULL;
  OK(tlx_device_open(context, "sim", &device, &error));
  OK(tlx_device_open(context, "sim", &again, &error));
  tlx_device_properties properties = TLX_DEVICE_PROPERTIES_INIT;
  OK(tlx_device_get_properties(device, &properties, &error));
  CHECK(strcmp(properties.id, "sim") == 0);

  int imports = 0;
  const tlx_param params[] = {{"B", "256"}};
  const char *facts[] = {"aligned(x, 16)"};
  tlx_compile_options options = TLX_COMPILE_OPTIONS_INIT;
  options.target = target;
  options.device = device;
  options.params = params;
  options.num_params = 1;
  options.facts = facts;
  options.num_facts = 1;
  options.import = import;
  options.import_user = &imports;
  options.keep = TLX_KEEP_IR | TLX_KEEP_LLVM;
  tlx_kernel *kernel = NULL;
  if (report(tlx_compile(context, kSource, TLX_NUL_TERMINATED, &options, &kernel, &error), &error, __LINE__) !=
      TLX_OK) {
    ++failures;
    tlx_device_release(device);
    tlx_device_release(again);
    return;
  }
  CHECK(imports > 0);
  CHECK(!tlx_kernel_from_cache(kernel));
  CHECK(strcmp(tlx_kernel_name(kernel), "scale") == 0);
  CHECK(tlx_kernel_image_kind(kernel) == TLX_IMAGE_KIND_SIMULATOR);
  CHECK(strstr(tlx_kernel_metadata_json(kernel), "aligned(x, 16)") != NULL);
  CHECK(tlx_kernel_threads(kernel) == 4u * (strcmp(target, "gfx942") == 0 ? 64 : 32));
  const void *data = NULL;
  size_t size = 0;
  OK(tlx_kernel_artifact(kernel, TLX_ARTIFACT_IR, &data, &size, &error));
  CHECK(size == strlen((const char *)data));
  OK(tlx_kernel_artifact(kernel, TLX_ARTIFACT_IMAGE, &data, &size, &error));
  CHECK(size > 0);
  CHECK(tlx_kernel_artifact(kernel, TLX_ARTIFACT_DUMP, &data, &size, NULL) == TLX_ERROR_NOT_FOUND);
  CHECK(tlx_kernel_num_args(kernel) == 4);
  tlx_arg_properties arg = TLX_ARG_PROPERTIES_INIT;
  OK(tlx_kernel_arg(kernel, 2, &arg, &error));
  CHECK(strcmp(arg.name, "n") == 0 && strcmp(arg.type, "i32") == 0 && arg.offset == 16 && arg.size == 4);
  CHECK(tlx_kernel_packed_size(kernel) == 24);
  tlx_kernel_release(kernel);

  options.keep = 0; /* without texts the cache answers */
  kernel = NULL;
  OK(tlx_compile(context, kSource, strlen(kSource), &options, &kernel, &error));
  CHECK(tlx_kernel_from_cache(kernel));
  OK(tlx_kernel_prepare(kernel, device, &error));

  float host[kCount], result[kCount], other[kCount];
  for (int i = 0; i < kCount; ++i) host[i] = (float)i;
  void *x = NULL, *y = NULL;
  OK(tlx_device_alloc(device, sizeof host, &x, &error));
  OK(tlx_device_alloc(device, sizeof host, &y, &error));
  OK(tlx_device_copy_in(device, x, host, sizeof host, NULL, &error));
  tlx_arg args[4] = {
      {TLX_ARG_POINTER, 0, {NULL}}, {TLX_ARG_POINTER, 0, {NULL}}, {TLX_ARG_INT, 0, {NULL}}, {TLX_ARG_FLOAT, 0, {NULL}}};
  args[0].value.pointer = x;
  args[1].value.pointer = y;
  args[2].value.i = kCount;
  args[3].value.f = 3;
  tlx_report *findings = NULL;
  tlx_launch_options launch = TLX_LAUNCH_OPTIONS_INIT;
  launch.grid[0] = 4;
  launch.report = &findings;
  for (uint32_t schedule = TLX_SCHEDULE_IN_ORDER; schedule <= TLX_SCHEDULE_EARLY; ++schedule) {
    launch.schedule = schedule;
    launch.seed = schedule;
    OK(tlx_kernel_launch(kernel, device, &launch, args, 4, &error));
    CHECK(findings && tlx_report_count(findings) == 0 && strcmp(tlx_report_text(findings), "") == 0);
    tlx_report_release(findings);
  }
  OK(tlx_device_copy_out(device, result, y, sizeof result, NULL, &error));
  OK(tlx_device_synchronize(device, NULL, &error));
  for (int i = 0; i < kCount; ++i) CHECK(result[i] == 3 * host[i]);

  /* The packed form, on memory of ours. */
  unsigned char packed[24];
  void *mine = other;
  const int32_t n = kCount;
  const float two = 2;
  memset(other, 0, sizeof other);
  OK(tlx_device_register(device, other, sizeof other, &error));
  memcpy(packed, &x, 8);
  memcpy(packed + 8, &mine, 8);
  memcpy(packed + 16, &n, 4);
  memcpy(packed + 20, &two, 4);
  OK(tlx_kernel_launch_packed(kernel, device, &launch, packed, sizeof packed, &error));
  tlx_report_release(findings);
  for (int i = 0; i < kCount; ++i) CHECK(other[i] == 2 * host[i]);
  OK(tlx_device_unregister(device, other, &error));

  /* Now it is foreign memory: a finding at the store's line. */
  CHECK(tlx_kernel_launch_packed(kernel, device, &launch, packed, sizeof packed, &error) == TLX_ERROR_FINDINGS);
  CHECK(findings && tlx_report_count(findings) >= 1);
  CHECK(strstr(tlx_report_text(findings), "kernel.tlx:4") != NULL);
  CHECK(strstr(tlx_report_json(findings), "\"line\": 4") != NULL);
  tlx_report_release(findings);
  tlx_error_release(error);
  error = NULL;

  /* A broken fact, a wrong type, a wrong count, an empty grid. */
  args[0].value.pointer = (char *)x + 4;
  CHECK(tlx_kernel_launch(kernel, device, &launch, args, 4, &error) == TLX_ERROR_FACT);
  CHECK(strstr(tlx_error_message(error), "aligned(x, 16)") != NULL && !findings);
  tlx_error_release(error);
  args[0].value.pointer = x;
  args[2].kind = TLX_ARG_FLOAT;
  CHECK(tlx_kernel_launch(kernel, device, &launch, args, 4, NULL) == TLX_ERROR_INVALID_ARGUMENT);
  args[2].kind = TLX_ARG_INT;
  CHECK(tlx_kernel_launch(kernel, device, &launch, args, 3, NULL) == TLX_ERROR_INVALID_ARGUMENT);
  launch.grid[1] = 0;
  error = NULL;
  OK(tlx_kernel_launch(kernel, device, &launch, args, 4, &error));
  tlx_report_release(findings);
  launch.grid[1] = 1;
  double times[3] = {-1, -1, -1};
  OK(tlx_kernel_time(kernel, device, &launch, args, 4, 1, 3, times, &error));
  CHECK(times[0] >= 0 && times[2] >= 0);

  /* A reader that is past what was written. */
  void *fresh = NULL;
  OK(tlx_device_alloc(device, sizeof host, &fresh, &error));
  args[0].value.pointer = fresh;
  findings = NULL;
  CHECK(tlx_kernel_launch(kernel, device, &launch, args, 4, NULL) == TLX_ERROR_FINDINGS);
  tlx_report_release(findings);
  OK(tlx_device_free(device, fresh, &error));
  CHECK(tlx_device_copy_in(device, fresh, host, 4, NULL, NULL) == TLX_ERROR_INVALID_ARGUMENT);
  OK(tlx_device_copy(device, y, x, sizeof host, NULL, &error));
  OK(tlx_device_copy_out(device, result, y, sizeof result, NULL, &error));
  CHECK(memcmp(result, host, sizeof host) == 0);
  void *stream = &stream;
  OK(tlx_stream_create(device, &stream, &error));
  OK(tlx_stream_destroy(device, stream, &error));

  OK(tlx_device_free(device, x, &error));
  OK(tlx_device_free(device, y, &error));
  OK(tlx_device_free(device, NULL, &error));
  tlx_device_release(device); /* the kernel still holds its image there */
  tlx_device_release(again);
  tlx_kernel_release(kernel);
}

static const char *kTensorSource =
    "kernel next(x: tensor_desc<f32, [16, 32]>, y: tensor_desc<f32, [16, 32]>) launch(num_warps = 4) {\n"
    "  let at = [program_id(1) * 16, program_id(0) * 32];\n"
    "  y.store(at, x.load(at) + 1.0);\n"
    "}\n";

/* Refused with this text. */
static void refused(const tlx_kernel *kernel, const tlx_device *device, const tlx_launch_options *launch,
                    const tlx_tensor *x, const tlx_tensor *y, const char *text) {
  tlx_error *error = NULL;
  tlx_arg args[2] = {{TLX_ARG_TENSOR, 0, {NULL}}, {TLX_ARG_TENSOR, 0, {NULL}}};
  args[0].value.tensor = x;
  args[1].value.tensor = y;
  CHECK(tlx_kernel_launch(kernel, device, launch, args, 2, &error) == TLX_ERROR_INVALID_ARGUMENT);
  if (!strstr(tlx_error_message(error), text)) {
    fprintf(stderr, "'%s' is not in '%s'\n", text, tlx_error_message(error));
    ++failures;
  }
  tlx_error_release(error);
}

static void check_tensors(const tlx_context *context, const char *target) {
  enum { kRows = 20, kColumns = 36, kPitch = 40 };
  tlx_error *error = NULL;
  tlx_device *device = NULL;
  tlx_kernel *kernel = NULL;
  tlx_compile_options options = TLX_COMPILE_OPTIONS_INIT;
  OK(tlx_device_open(context, "sim", &device, &error));
  options.target = target;
  options.device = device;
  if (report(tlx_compile(context, kTensorSource, TLX_NUL_TERMINATED, &options, &kernel, &error), &error, __LINE__) !=
      TLX_OK) {
    ++failures;
    tlx_device_release(device);
    return;
  }
  tlx_arg_properties properties[2] = {TLX_ARG_PROPERTIES_INIT, TLX_ARG_PROPERTIES_INIT};
  OK(tlx_kernel_arg(kernel, 0, &properties[0], &error));
  OK(tlx_kernel_arg(kernel, 1, &properties[1], &error));
  CHECK(strcmp(properties[0].type, "tensor_desc<f32, [16, 32]>") == 0);
  CHECK(strstr(tlx_kernel_metadata_json(kernel), "\"descriptor\"") != NULL);
  /* A map has 128 bytes; fields are the pointer, a stride, two extents. A kernel that stores through a map gets both. */
  const int maps = strcmp(target, "sm_90a") == 0;
  CHECK(properties[0].size == (maps ? 128 : 24) && properties[1].size == (maps ? 152 : 24));

  float host[kRows * kPitch], result[kRows * kColumns];
  for (int i = 0; i < kRows * kPitch; ++i) host[i] = (float)i;
  void *in = NULL, *out = NULL;
  OK(tlx_device_alloc(device, sizeof host, &in, &error));
  OK(tlx_device_alloc(device, sizeof result, &out, &error));
  OK(tlx_device_copy_in(device, in, host, sizeof host, NULL, &error));
  tlx_tensor x = TLX_TENSOR_INIT, y = TLX_TENSOR_INIT;
  x.data = in;
  x.dtype = y.dtype = tlx_dtype_from_name("f32");
  CHECK(x.dtype == TLX_DTYPE_F32 && tlx_dtype_from_name("float") == 0 && tlx_dtype_from_name(NULL) == 0);
  x.rank = y.rank = 2;
  x.shape[0] = y.shape[0] = kRows;
  x.shape[1] = y.shape[1] = kColumns;
  x.strides[0] = kPitch;
  y.strides[0] = kColumns;
  x.strides[1] = y.strides[1] = 1;
  y.data = out;
  tlx_arg args[2] = {{TLX_ARG_TENSOR, 0, {NULL}}, {TLX_ARG_TENSOR, 0, {NULL}}};
  args[0].value.tensor = &x;
  args[1].value.tensor = &y;
  tlx_launch_options launch = TLX_LAUNCH_OPTIONS_INIT;
  launch.grid[0] = launch.grid[1] = 2;
  for (uint32_t packed = 0; packed < 2; ++packed) {
    memset(result, 0xff, sizeof result);
    OK(tlx_device_copy_in(device, out, result, sizeof result, NULL, &error));
    if (packed) {
      unsigned char bytes[512];
      memset(bytes, 0, sizeof bytes);
      CHECK(tlx_kernel_packed_size(kernel) <= sizeof bytes);
      for (size_t i = 0; i < 2; ++i)
        OK(tlx_kernel_encode_tensor(kernel, device, i, i ? &y : &x, bytes + properties[i].offset, properties[i].size,
                                    &error));
      OK(tlx_kernel_launch_packed(kernel, device, &launch, bytes, tlx_kernel_packed_size(kernel), &error));
    } else {
      OK(tlx_kernel_launch(kernel, device, &launch, args, 2, &error));
    }
    OK(tlx_device_copy_out(device, result, out, sizeof result, NULL, &error));
    for (int r = 0; r < kRows; ++r)
      for (int c = 0; c < kColumns; ++c) CHECK(result[r * kColumns + c] == host[r * kPitch + c] + 1);
  }

  /* An empty tensor reads as zeros, at NULL too; a store to one is lost. */
  tlx_tensor empty = x;
  empty.shape[0] = 0;
  empty.data = NULL;
  args[0].value.tensor = &empty;
  OK(tlx_kernel_launch(kernel, device, &launch, args, 2, &error));
  OK(tlx_device_copy_out(device, result, out, sizeof result, NULL, &error));
  for (int i = 0; i < kRows * kColumns; ++i) CHECK(result[i] == 1);
  args[0].value.tensor = &x;
  args[1].value.tensor = &empty;
  OK(tlx_kernel_launch(kernel, device, &launch, args, 2, &error));

  /* A struct of a newer header whose new part is zero. */
  struct {
    tlx_tensor tensor;
    uint64_t more;
  } newer = {y, 0};
  newer.tensor.struct_size = sizeof newer;
  args[1].value.tensor = &newer.tensor;
  OK(tlx_kernel_launch(kernel, device, &launch, args, 2, &error));
  newer.more = 1;
  CHECK(tlx_kernel_launch(kernel, device, &launch, args, 2, NULL) == TLX_ERROR_INVALID_ARGUMENT);

  tlx_tensor wrong = y;
  refused(kernel, device, &launch, &x, NULL, "a tensor is NULL");
  wrong.struct_size = 0;
  refused(kernel, device, &launch, &x, &wrong, "struct_size");
  wrong = y, wrong.strides[0] = 37;
  refused(kernel, device, &launch, &x, &wrong,
          "'y' of type tensor_desc<f32, [16, 32]>: the stride of dimension 0 is 37 elements");
  wrong = y, wrong.dtype = TLX_DTYPE_F16;
  refused(kernel, device, &launch, &x, &wrong, "the tensor's elements are f16, not f32");
  wrong = y, wrong.dtype = 1u << 30;
  refused(kernel, device, &launch, &x, &wrong, "of no known dtype");
  wrong = y, wrong.data = (char *)y.data + 4;
  refused(kernel, device, &launch, &x, &wrong, "no multiple of 16");
  args[1].kind = TLX_ARG_POINTER;
  CHECK(tlx_kernel_launch(kernel, device, &launch, args, 2, NULL) == TLX_ERROR_INVALID_ARGUMENT);
  unsigned char bytes[512];
  CHECK(tlx_kernel_encode_tensor(kernel, device, 0, &x, bytes, properties[0].size - 1, NULL) ==
        TLX_ERROR_INVALID_ARGUMENT);
  CHECK(tlx_kernel_encode_tensor(kernel, device, 2, &x, bytes, sizeof bytes, NULL) == TLX_ERROR_NOT_FOUND);
  CHECK(tlx_kernel_encode_tensor(kernel, device, 0, NULL, bytes, properties[0].size, NULL) ==
        TLX_ERROR_INVALID_ARGUMENT);

  OK(tlx_device_free(device, in, &error));
  OK(tlx_device_free(device, out, &error));
  tlx_kernel_release(kernel);
  tlx_device_release(device);
}

int main(void) {
  CHECK(tlx_version() == TLX_VERSION_MAJOR * 10000 + TLX_VERSION_MINOR * 100 + TLX_VERSION_PATCH);
  CHECK(strcmp(tlx_version_string(), "0.1.0") == 0);
  CHECK(strcmp(tlx_status_name(TLX_ERROR_FACT), "TLX_ERROR_FACT") == 0);
  CHECK(strcmp(tlx_status_name((tlx_status)99), "unknown status") == 0);

  tlx_error *error = NULL;
  tlx_context *context = NULL;
  tlx_context_options options = TLX_CONTEXT_OPTIONS_INIT;
  options.log = on_log;
  options.log_user = &logged;
  OK(tlx_context_create(&options, &context, &error));
  if (!context) return 1;

  CHECK(tlx_target_count() >= 2);
  for (size_t i = 0; i < tlx_target_count(); ++i) {
    tlx_target_properties target = TLX_TARGET_PROPERTIES_INIT;
    OK(tlx_target_get(i, &target, &error));
    CHECK(target.name && target.warp_size >= 32);
  }
  size_t count = 0;
  OK(tlx_context_device_count(context, &count, &error));
  CHECK(count == 1); /* the test's environment hides the drivers */
  CHECK(strstr(tlx_context_driver_problem(context, "cuda"), "/nonexistent") != NULL);
  CHECK(strcmp(tlx_context_driver_problem(context, "vulkan"), "") == 0);
  tlx_device_properties properties = TLX_DEVICE_PROPERTIES_INIT;
  OK(tlx_context_device_properties(context, 0, &properties, &error));
  CHECK(tlx_context_device_properties(context, 1, &properties, NULL) == TLX_ERROR_NOT_FOUND);
  /* A caller built with an older, shorter struct gets no more than it has room for. */
  properties.struct_size = offsetof(tlx_device_properties, memory_bytes);
  properties.memory_bytes = 42;
  OK(tlx_context_device_properties(context, 0, &properties, &error));
  CHECK(properties.memory_bytes == 42);

  check_errors(context);
  check_launch(context, "sm_80");
  check_launch(context, "sm_90a");
  check_launch(context, "gfx942");
  check_tensors(context, "sm_80");
  check_tensors(context, "sm_90a");
  check_tensors(context, "gfx942");

  tlx_cache_counters counters = TLX_CACHE_COUNTERS_INIT;
  OK(tlx_context_cache_counters(context, &counters, &error));
  CHECK(counters.stores >= 3 && counters.hits >= 3 && counters.damaged == 0);
  CHECK(strlen(tlx_context_cache_directory(context)) > 0);
  tlx_context_retain(context);
  tlx_context_release(context);
  tlx_context_release(context);
  tlx_context_release(NULL);
  printf("%d failures\n", failures);
  return failures != 0;
}
