// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Helpers of the simulator's tests: kernels as LLVM text, launches with a parameter buffer built from typed values.
#pragma once
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "sim/sim.h"

namespace sim_test {

// What every test of the simulator names.
using tlx::sim::Finding;
using tlx::sim::FindingKind;
using tlx::sim::launch;
using tlx::sim::LaunchConfig;
using tlx::sim::LaunchResult;
using tlx::sim::Memory;
using tlx::sim::Program;
using tlx::sim::Schedule;

/// The n-th instruction of the kernel stands in line n of k.tlx. `body` is the kernel's parameter list and blocks:
/// "(ptr addrspace(1) %x) { … }". Declarations of device operations it names are added.
std::unique_ptr<Program> program(const std::string &body, const char *target = "sm_80", unsigned threads = 32,
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

template <typename T> T *upload(Memory &memory, const std::vector<T> &values) {
  auto *p = static_cast<T *>(memory.allocate(values.size() * sizeof(T)));
  memory.write(p, values.data(), values.size() * sizeof(T));
  return p;
}
template <typename T> std::vector<T> download(const Memory &memory, const T *p, size_t n) {
  std::vector<T> values(n);
  memory.read(values.data(), p, n * sizeof(T));
  return values;
}

/// The findings as text, for messages of failed checks.
std::string text(const LaunchResult &result);
const Finding *find(const LaunchResult &result, FindingKind kind); // the first, or null
bool has(const LaunchResult &result, FindingKind kind);

inline constexpr Schedule kSchedules[] = {Schedule::InOrder, Schedule::Random, Schedule::Late, Schedule::Early};
/// Every schedule, Random with five seeds (no other draws from them).
void forEachSchedule(const std::function<void(LaunchConfig &)> &f);

/// Runs 7 steps of a ring, a kernel (x, out, steps) whose threads copy 16 bytes of x each a step. out[t] is the sum of
/// the first and the last word of what thread neighbour(t) copied, over all steps; null: not looked at.
LaunchResult runRing(const Program &ring, const LaunchConfig &config, unsigned (*neighbour)(unsigned) = nullptr);

} // namespace sim_test
