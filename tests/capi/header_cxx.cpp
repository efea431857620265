// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tlxjit/tlx.h>
#include <tlxjit/tlx.hpp>

tlx_launch_options tlxTestLaunchOptions() {
  tlx_launch_options options = TLX_LAUNCH_OPTIONS_INIT;
  return options;
}
