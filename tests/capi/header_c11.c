/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include <tlxjit/tlx.h>

tlx_launch_options tlx_test_launch_options(void);
tlx_launch_options tlx_test_launch_options(void) {
  const tlx_launch_options options = {.struct_size = sizeof(tlx_launch_options), .grid = {1, 1, 1}};
  return options;
}
