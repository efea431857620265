/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* beside_llvm LIBRARY: loads an LLVM of the system with all its symbols visible, then ours, and compiles. Exits with 77
 * (skipped) where the system has none. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include <tlxjit/tlx.h>

static const char *kSource = "kernel f<B: i32>(x: *f32, n: i32) launch(num_warps = 4) {\n"
                             "  let i = program_id(0) * B + arange(0, B);\n"
                             "  store(x + i, load(x + i, i < n) + 1.0, i < n);\n"
                             "}\n";

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  const char *names[] = {"libLLVM.so.22.1", "libLLVM-22.so.1", "libLLVM.so.21.1", "libLLVM.so.20.1", "libLLVM.so.19.1",
                         "libLLVM-18.so.1", "libLLVM-17.so.1", "libLLVM-16.so.1", "libLLVM-15.so.1", "libLLVM-14.so.1"};
  void *other = NULL;
  for (size_t i = 0; i < sizeof names / sizeof names[0] && !other; ++i) {
    other = dlopen(names[i], RTLD_NOW | RTLD_GLOBAL);
    if (other) printf("beside %s\n", names[i]);
  }
  if (!other) return 77;
  void *ours = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (!ours) return fprintf(stderr, "%s\n", dlerror()), 1;

  tlx_status (*create)(const tlx_context_options *, tlx_context **, tlx_error **);
  tlx_status (*compile)(const tlx_context *, const char *, size_t, const tlx_compile_options *, tlx_kernel **,
                        tlx_error **);
  const char *(*message)(const tlx_error *);
  *(void **)&create = dlsym(ours, "tlx_context_create");
  *(void **)&compile = dlsym(ours, "tlx_compile");
  *(void **)&message = dlsym(ours, "tlx_error_message");

  tlx_context *context = NULL;
  tlx_error *error = NULL;
  if (create(NULL, &context, &error) != TLX_OK) return 1;
  const char *targets[] = {"sm_80", "gfx942"};
  for (int i = 0; i < 2; ++i) {
    const tlx_param params[] = {{"B", "1024"}};
    tlx_compile_options options = TLX_COMPILE_OPTIONS_INIT;
    options.params = params;
    options.num_params = 1;
    options.target = targets[i];
    options.assembler = "driver"; /* PTX is enough here */
    tlx_kernel *kernel = NULL;
    if (compile(context, kSource, TLX_NUL_TERMINATED, &options, &kernel, &error) != TLX_OK)
      return fprintf(stderr, "%s: %s\n", targets[i], message(error)), 1;
  }
  puts("compiled");
  return 0;
}
