// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What every runtime call answers. The codes are those of tlx_status in tlxjit/tlx.h, value for value.
#pragma once
#include <string>
#include <utility>

namespace tlx::runtime {

enum class Code : int {
  Ok = 0,
  InvalidArgument = 1, // the call itself is wrong: a null handle, a bad option, the wrong number or type of arguments
  Compile = 2,         // the kernel's text or its parameters are wrong: see the diagnostics
  Unsupported = 3,     // nothing is wrong, but a tool, a feature or the device cannot do it
  Fact = 4,            // a fact that the code was compiled on does not hold for these arguments
  NotFound = 5,        // no such device, kernel, artifact
  NoDriver = 6,        // the driver's library is absent or too old
  Driver = 7,          // the driver reported an error
  OutOfMemory = 8,
  Findings = 9,   // the simulator's checkers found something
  CacheMiss = 10, // fail-on-miss was asked for and the cache has no entry
  Io = 11,
  Internal = 12
};

struct [[nodiscard]] Status {
  Code code = Code::Ok;
  std::string message;

  static Status ok() { return {}; }
  static Status error(Code code, std::string message) { return {code, std::move(message)}; }
  bool isOk() const { return code == Code::Ok; }
  /// True on failure, so that `if (Status s = f()) return s;` reads as "if it failed".
  explicit operator bool() const { return code != Code::Ok; }
};

} // namespace tlx::runtime
