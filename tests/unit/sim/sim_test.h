// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Helpers of the simulator's tests: kernels as LLVM text, launches with a parameter buffer built from typed values.
#pragma once
#include <cstring>
#include <string>
#include <vector>

#include "sim/sim.h"

namespace sim_test {

/// The n-th instruction of the kernel stands in line n of k.tlx. `body` is the kernel's parameter list and blocks:
/// "(ptr addrspace(1) %x) { … }". Declarations of device operations it names are added.
std::unique_ptr<tlx::sim::Program> program(const std::string &body, const char *target = "sm_80", unsigned threads = 32,
                                           unsigned sharedBytes = 0, std::vector<std::string> pointerNames = {});

/// The packed parameter buffer: each value at its natural alignment.
template <typename... T> std::vector<uint8_t> params(const T &...values) {
  std::vector<uint8_t> buffer;
  auto add = [&](const auto &v) {
    constexpr size_t align = alignof(std::remove_cvref_t<decltype(v)>);
    size_t at = (buffer.size() + align - 1) / align * align;
    buffer.resize(at + sizeof v);
    std::memcpy(buffer.data() + at, &v, sizeof v);
  };
  (add(values), ...);
  return buffer;
}

template <typename T> T *upload(tlx::sim::Memory &memory, const std::vector<T> &values) {
  auto *p = static_cast<T *>(memory.allocate(values.size() * sizeof(T)));
  memory.write(p, values.data(), values.size() * sizeof(T));
  return p;
}
template <typename T> std::vector<T> download(const tlx::sim::Memory &memory, const T *p, size_t n) {
  std::vector<T> values(n);
  memory.read(values.data(), p, n * sizeof(T));
  return values;
}

/// The findings as text, for messages of failed checks.
std::string text(const tlx::sim::LaunchResult &result);
const tlx::sim::Finding *find(const tlx::sim::LaunchResult &result, tlx::sim::FindingKind kind); // the first, or null
bool has(const tlx::sim::LaunchResult &result, tlx::sim::FindingKind kind);

inline constexpr tlx::sim::Schedule kSchedules[] = {tlx::sim::Schedule::InOrder, tlx::sim::Schedule::Random,
                                                    tlx::sim::Schedule::Late, tlx::sim::Schedule::Early};

} // namespace sim_test
