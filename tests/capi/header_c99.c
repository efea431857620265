/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The header first, alone and twice. */
#include <tlxjit/tlx.h>

extern tlx_context_options tlx_test_context_options;
extern tlx_compile_options tlx_test_compile_options;
tlx_context_options tlx_test_context_options;
tlx_compile_options tlx_test_compile_options;

/* The ABI that bindings write down by hand. */
#define CHECK(name, condition) typedef char check_##name[(condition) ? 1 : -1]
CHECK(status, TLX_ERROR_INTERNAL == 12 && TLX_ERROR_FINDINGS == 9 && sizeof(tlx_status) == 4);
CHECK(arg, sizeof(tlx_arg) == 16 && offsetof(tlx_arg, value) == 8);
CHECK(launch, offsetof(tlx_launch_options, grid) == 8 && offsetof(tlx_launch_options, stream) == 24 &&
                  offsetof(tlx_launch_options, report) == 48 && offsetof(tlx_launch_options, check_races) == 56 &&
                  offsetof(tlx_launch_options, timeline) == 64 && offsetof(tlx_launch_options, exact) == 72 &&
                  sizeof(tlx_launch_options) == 80);
CHECK(context, sizeof(tlx_context_options) == 72 && offsetof(tlx_context_options, log) == 48);
CHECK(compile, sizeof(tlx_compile_options) == 120 && offsetof(tlx_compile_options, target) == 56 &&
                   offsetof(tlx_compile_options, import) == 104);
CHECK(device, sizeof(tlx_device_properties) == 344 && offsetof(tlx_device_properties, memory_bytes) == 328);
