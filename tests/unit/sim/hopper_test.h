// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Helpers of the tests of Hopper's units.
#pragma once
#include <functional>
#include <initializer_list>

#include "sim/tensor_map.h"
#include "sim_test.h"

namespace sim_test {

/// A tensor map as a kernel parameter: `ptr byval([128 x i8]) align 64`.
struct alignas(64) MapArgument {
  uint8_t bytes[128] = {};
};

/// Dimensions innermost first. `strides` in bytes, of all dimensions but the first; dense if empty.
MapArgument tensorMap(const void *base, tlx::sim::TensorMap::Element element, unsigned elementBytes,
                      std::vector<uint64_t> shape, std::vector<uint32_t> box, unsigned swizzle,
                      std::vector<uint64_t> strides = {});

/// Where byte `offset` of a dense box lies behind the box's start, which is aligned to 8 * swizzle: in each 128 bytes
/// the 16-byte units are permuted. Written from the tables of the PTX ISA, by units and lines.
uint32_t swizzledByte(uint32_t offset, unsigned swizzle);

/// "%t" thread, "%s" shared memory; `body` runs in thread 0 alone, `all` in all threads behind it (both may have blocks
/// of their own).
std::string oneThread(const std::string &parameters, const std::string &body, const std::string &all = "");
/// "%NAME" = shared memory + offset.
std::string sharedAt(const std::string &name, unsigned offset);
/// A loop of try.wait on "%BARRIER".
std::string waitFor(const std::string &barrier, const std::string &parity, const std::string &label);

/// Every schedule, Random with five seeds.
void forEachSchedule(const std::function<void(tlx::sim::LaunchConfig &)> &f);

/// There is a finding of this kind whose message contains the text.
void checkFinding(const tlx::sim::LaunchResult &result, tlx::sim::FindingKind kind, const std::string &message);

} // namespace sim_test
