// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the runtime says besides its results: a cache that turned itself off, a damaged entry, a parked thread. Quiet
// unless the application gives a callback or the environment has TLX_LOG=trace|debug|info|warning|error (then to
// stderr).
#pragma once
#include <functional>
#include <memory>
#include <string>

namespace spdlog {
class logger;
}

namespace tlx::runtime {

enum class LogLevel : int { Trace = 0, Debug = 1, Info = 2, Warning = 3, Error = 4 };

class Log {
public:
  using Callback = std::function<void(LogLevel, const std::string &)>;
  /// The callback may be called from any thread that uses the library, several at once; no lock of ours is held.
  explicit Log(Callback callback = nullptr, LogLevel lowest = LogLevel::Info);
  ~Log();
  void write(LogLevel level, const std::string &message) const;
  void info(const std::string &message) const { write(LogLevel::Info, message); }
  void warning(const std::string &message) const { write(LogLevel::Warning, message); }

private:
  std::unique_ptr<spdlog::logger> logger; // null: quiet
};

} // namespace tlx::runtime
