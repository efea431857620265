// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A child process whose output is read and which can be killed. Private to src/target/nvidia.
#pragma once
#include <string>
#include <vector>

namespace tlx::target::nvidia {

struct ProcessResult {
  bool started = false;  // false: `output` says why not
  bool timedOut = false; // it and its children were killed
  int exitCode = -1;     // -1: ended by a signal; 0 also if the host program ignores SIGCHLD, so that no status exists
  std::string output;    // stdout and stderr, as they came
};

/// Runs a program with its own process group and no standard input. `timeoutSeconds` 0: no limit. Installs no signal
/// handler.
ProcessResult runProcess(const std::vector<std::string> &command, unsigned timeoutSeconds);

} // namespace tlx::target::nvidia
