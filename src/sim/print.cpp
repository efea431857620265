// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// printf of kernels, formatted on the host. Arguments lie packed after C's promotions, each at its natural alignment.
#include <cstdio>
#include <cstring>

#include "sim/engine.h"

namespace tlx::sim {

namespace {
class Packed {
public:
  Packed(const uint8_t *p, uint32_t bytes) : p(p), bytes(bytes) {}
  template <typename T> T take() {
    at = (at + sizeof(T) - 1) / sizeof(T) * sizeof(T);
    T value{};
    if (at + sizeof(T) <= bytes)
      std::memcpy(&value, p + at, sizeof(T));
    else
      missing = true;
    at += sizeof(T);
    return value;
  }
  bool missing = false;

private:
  const uint8_t *p;
  uint32_t bytes, at = 0;
};

template <typename T> void append(std::string &out, const std::string &spec, T value) {
  char buffer[512];
  int n = std::snprintf(buffer, sizeof buffer, spec.c_str(), value);
  if (n > 0) out.append(buffer, std::min<size_t>(size_t(n), sizeof buffer - 1));
}

std::string formatPacked(const char *format, const uint8_t *arguments, uint32_t bytes) {
  std::string out;
  Packed packed(arguments, bytes);
  for (const char *f = format; *f; ++f) {
    if (*f != '%') {
      out += *f;
      continue;
    }
    if (f[1] == '%') {
      out += '%';
      ++f;
      continue;
    }
    std::string spec = "%";
    ++f;
    while (*f && std::strchr("-+ #0123456789.*", *f)) {
      if (*f == '*')
        spec += std::to_string(packed.take<int32_t>());
      else
        spec += *f;
      ++f;
    }
    bool wide = false;
    while (*f && std::strchr("hlqjzt", *f)) wide |= *f++ != 'h';
    switch (*f) {
    case 'd':
    case 'i':
      if (wide)
        append(out, spec + "lld", static_cast<long long>(packed.take<int64_t>()));
      else
        append(out, spec + "d", packed.take<int32_t>());
      break;
    case 'u':
    case 'x':
    case 'X':
    case 'o':
      if (wide)
        append(out, spec + "ll" + *f, static_cast<unsigned long long>(packed.take<uint64_t>()));
      else
        append(out, spec + *f, packed.take<uint32_t>());
      break;
    case 'c':
      append(out, spec + "c", packed.take<int32_t>());
      break;
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
    case 'a':
    case 'A':
      append(out, spec + *f, packed.take<double>());
      break;
    case 'p':
      append(out, spec + "p", packed.take<void *>());
      break;
    case 's': {
      const char *s = packed.take<const char *>();
      out += s ? s : "(null)";
      break;
    }
    case 0:
      return out + spec;
    default:
      out += spec + *f;
      break;
    }
  }
  if (packed.missing) out += " (printf: fewer arguments than the format names)";
  return out;
}
} // namespace

// Two frames: nothing that owns memory may live in a frame where a fiber ends.
void Engine::print(const char *format, const uint8_t *arguments, uint32_t bytes) {
  printText(formatPacked(format, arguments, bytes));
}

void Engine::failAssertion(const char *text, uint32_t site) {
  reportAssertion(text, site);
  stop();
}

void Engine::reportAssertion(const char *text, uint32_t site) {
  std::string message = formatPacked(text, nullptr, 0);
  // The finding has its place already: what stands before the text is for a device's output.
  if (size_t at = message.find("assertion failed"); at != std::string::npos) message.erase(0, at);
  while (!message.empty() && message.back() == '\n') message.pop_back();
  report(FindingKind::AssertionFailed, site, std::move(message));
}

void Engine::printText(std::string text) {
  if (config.onPrint) config.onPrint(text);
  result.printed += text;
}

} // namespace tlx::sim
