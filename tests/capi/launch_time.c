/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* launch_time FAKE_CUDA: what tlx_kernel_launch costs over the driver's call. The driver is the recording one of the tests, told to be
 * quiet: its calls return at once. Nanoseconds a launch, the lowest of several rounds; on a busy machine still the cost of the code. */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tlxjit/tlx.h>

static const char *kSource =
    "kernel sum(a: tensor_desc<f16, [64, 64]>, b: tensor_desc<f16, [64, 64]>, c: tensor_desc<f16, [64, 64]>,\n"
    "           m: i32, n: i32) launch(num_warps = 4) {\n"
    "  c.store([m, n], a.load([m, n]) + b.load([m, n]));\n"
    "}\n"
    "kernel pointers(a: *f16, b: *f16, c: *f16, m: i32, n: i32) launch(num_warps = 4) {\n"
    "  let i = arange(0, 128);\n"
    "  store(c + i, load(a + i) + load(b + i), i < m + n);\n"
    "}\n";

enum { kRounds = 20, kLaunches = 20000 };

static void ok(tlx_status status, tlx_error *error) {
  if (status == TLX_OK) return;
  fprintf(stderr, "%s: %s\n", tlx_status_name(status), error ? tlx_error_message(error) : "");
  exit(1);
}

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct launcher {
  const tlx_kernel *kernel;
  const tlx_device *device;
  tlx_arg args[5];
  tlx_tensor tensors[3];
  int changing; /* each launch has other tensors than the one before */
  unsigned char packed[512];
  size_t packed_size; /* 0: typed arguments */
} launcher;

static double nanoseconds(launcher *l) {
  double best = 1e9;
  tlx_error *error = NULL;
  tlx_launch_options options = TLX_LAUNCH_OPTIONS_INIT;
  for (int round = 0; round < kRounds; ++round) {
    const double start = seconds();
    for (int i = 0; i < kLaunches; ++i) {
      if (l->changing)
        for (int t = 0; t < 3; ++t) l->tensors[t].shape[0] = 1024 + (i & 1);
      ok(l->packed_size ? tlx_kernel_launch_packed(l->kernel, l->device, &options, l->packed, l->packed_size, &error)
                        : tlx_kernel_launch(l->kernel, l->device, &options, l->args, 5, &error),
         error);
    }
    const double each = (seconds() - start) / kLaunches * 1e9;
    if (each < best) best = each;
  }
  return best;
}

int main(int argc, char **argv) {
  if (argc != 2) return fprintf(stderr, "launch_time FAKE_CUDA\n"), 2;
  void *fake = dlopen(argv[1], RTLD_NOW);
  if (!fake) return fprintf(stderr, "%s\n", dlerror()), 2;
  void (*quiet)(void), (*make_current)(void);
  *(void **)&quiet = dlsym(fake, "fake_quiet");
  *(void **)&make_current = dlsym(fake, "fake_make_current");
  quiet();
  make_current();

  tlx_error *error = NULL;
  tlx_context *context;
  tlx_device *device;
  tlx_context_options contextOptions = TLX_CONTEXT_OPTIONS_INIT;
  contextOptions.cuda_driver = argv[1];
  contextOptions.cache_mode = TLX_CACHE_OFF;
  ok(tlx_context_create(&contextOptions, &context, &error), error);
  ok(tlx_device_open(context, "cuda:0", &device, &error), error);
  tlx_compile_options options = TLX_COMPILE_OPTIONS_INIT;
  options.device = device;
  options.target = "sm_90a";
  tlx_kernel *sum, *pointers;
  options.kernel = "sum";
  ok(tlx_compile(context, kSource, TLX_NUL_TERMINATED, &options, &sum, &error), error);
  options.kernel = "pointers";
  ok(tlx_compile(context, kSource, TLX_NUL_TERMINATED, &options, &pointers, &error), error);
  ok(tlx_kernel_prepare(sum, device, &error), error);
  ok(tlx_kernel_prepare(pointers, device, &error), error);

  launcher l;
  memset(&l, 0, sizeof l);
  l.device = device;
  for (int i = 0; i < 5; ++i) {
    l.args[i].kind = i < 3 ? TLX_ARG_POINTER : TLX_ARG_INT;
    if (i < 3) l.args[i].value.pointer = (void *)((uintptr_t)0x7f0000000000 + ((uintptr_t)i << 30));
  }
  l.kernel = pointers;
  const double withPointers = nanoseconds(&l);

  l.kernel = sum;
  for (int i = 0; i < 3; ++i) {
    tlx_tensor *t = &l.tensors[i];
    t->struct_size = sizeof *t;
    t->data = (void *)l.args[i].value.pointer;
    t->dtype = TLX_DTYPE_F16;
    t->rank = 2;
    t->shape[0] = 1024;
    t->shape[1] = t->strides[0] = 2048;
    t->strides[1] = 1;
    l.args[i].kind = TLX_ARG_TENSOR;
    l.args[i].value.tensor = t;
  }
  const double same = nanoseconds(&l);
  l.changing = 1;
  const double changing = nanoseconds(&l);
  l.changing = 0;
  l.packed_size = tlx_kernel_packed_size(sum);
  if (l.packed_size > sizeof l.packed) return 1;
  for (size_t i = 0; i < 3; ++i) {
    tlx_arg_properties arg = TLX_ARG_PROPERTIES_INIT;
    ok(tlx_kernel_arg(sum, i, &arg, &error), error);
    ok(tlx_kernel_encode_tensor(sum, device, i, &l.tensors[i], l.packed + arg.offset, arg.size, &error), error);
  }
  const double packed = nanoseconds(&l);

  printf("three pointers                 %6.0f ns\n", withPointers);
  printf("three tensor maps, the same    %6.0f ns\n", same);
  printf("three tensor maps, new ones    %6.0f ns and the driver's encoding\n", changing);
  printf("three tensor maps, packed      %6.0f ns\n", packed);
  tlx_kernel_release(sum);
  tlx_kernel_release(pointers);
  tlx_device_release(device);
  tlx_context_release(context);
  return 0;
}
