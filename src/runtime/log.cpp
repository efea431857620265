// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See log.h. The only file that sees spdlog.
#include "runtime/log.h"

#include <cstdlib>

#define SPDLOG_HEADER_ONLY
#ifndef FMT_HEADER_ONLY
#define FMT_HEADER_ONLY
#endif
#include <spdlog/details/null_mutex.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace tlx::runtime {

namespace {

/// Hands messages to the application. No mutex: a callback that compiles or logs itself must not deadlock.
class CallbackSink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
public:
  explicit CallbackSink(Log::Callback callback) : callback(std::move(callback)) {}

protected:
  void sink_it_(const spdlog::details::log_msg &message) override {
    callback(LogLevel(int(message.level)), std::string(message.payload.data(), message.payload.size()));
  }
  void flush_() override {}

private:
  Log::Callback callback;
};

} // namespace

static_assert(int(LogLevel::Trace) == SPDLOG_LEVEL_TRACE && int(LogLevel::Error) == SPDLOG_LEVEL_ERROR);

Log::Log(Callback callback, LogLevel lowest) {
  spdlog::level::level_enum level = spdlog::level::level_enum(int(lowest));
  spdlog::sink_ptr sink;
  if (callback) {
    sink = std::make_shared<CallbackSink>(std::move(callback));
  } else {
    const char *name = std::getenv("TLX_LOG");
    if (!name || !*name) return;
    level = spdlog::level::from_str(name);
    sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  }
  logger = std::make_unique<spdlog::logger>("tlxjit", std::move(sink));
  logger->set_level(level);
}

Log::~Log() = default;

void Log::write(LogLevel level, const std::string &message) const {
  if (logger) logger->log(spdlog::level::level_enum(int(level)), "{}", message);
}

} // namespace tlx::runtime
