// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A log of calls that a test reads from the fake driver which it has made the library load.
#pragma once
#include <cstdarg>
#include <cstdio>
#include <mutex>
#include <string>

static std::string gLog;
static std::mutex gLogMutex;
static bool gQuiet = false; // for measurements

__attribute__((format(printf, 1, 2))) static inline void record(const char *format, ...) {
  if (gQuiet) return;
  char line[512];
  va_list list;
  va_start(list, format);
  std::vsnprintf(line, sizeof line, format, list);
  va_end(list);
  std::lock_guard lock(gLogMutex);
  gLog += line;
  gLog += '\n';
}

static inline std::string hexBytes(const void *data, size_t size) {
  std::string text;
  char digits[4];
  for (size_t i = 0; i < size; ++i) {
    std::snprintf(digits, sizeof digits, "%02x", static_cast<const unsigned char *>(data)[i]);
    text += digits;
  }
  return text;
}

#define FAKE extern "C" __attribute__((visibility("default")))
FAKE const char *fake_log() {
  return gLog.c_str();
}
FAKE void fake_reset() {
  gLog.clear();
}
FAKE void fake_quiet() {
  gQuiet = true;
}
FAKE void fake_loud() {
  gQuiet = false;
}
