// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "hopper_test.h"

#include <doctest/doctest.h>

using namespace tlx::sim;

namespace sim_test {

MapArgument tensorMap(const void *base, TensorMap::Element element, unsigned elementBytes, std::vector<uint64_t> shape,
                      std::vector<uint32_t> box, unsigned swizzle, std::vector<uint64_t> strides) {
  TensorMap m;
  m.rank = uint8_t(shape.size());
  m.element = element;
  m.elementBytes = uint8_t(elementBytes);
  m.swizzle = uint8_t(swizzle);
  m.base = reinterpret_cast<uintptr_t>(base);
  uint64_t dense = elementBytes;
  for (size_t d = 0; d < shape.size(); ++d) {
    m.shape[d] = shape[d];
    m.box[d] = box[d];
    if (d) m.strides[d - 1] = strides.empty() ? dense : strides[d - 1];
    dense *= shape[d];
  }
  MapArgument a;
  std::memcpy(a.bytes, &m, sizeof m);
  return a;
}

uint32_t swizzledByte(uint32_t offset, unsigned swizzle) {
  const uint32_t line = offset / 128, unit = offset / 16 % 8, byte = offset % 16;
  // 128: line r of 8 has unit u at u ^ r. 64: a line is two rows of 4 units, the pattern repeats after 4 lines. 32:
  // four rows of 2, after 2.
  const uint32_t moved = swizzle == 128  ? unit ^ line % 8
                         : swizzle == 64 ? unit ^ line % 4
                         : swizzle == 32 ? unit ^ line % 2
                                         : unit;
  return line * 128 + moved * 16 + byte;
}

std::string oneThread(const std::string &parameters, const std::string &body, const std::string &all) {
  return "(" + parameters + R"() {
entry:
  %t = call i32 @tlx.nv.tid.x()
  %s = call ptr addrspace(3) @tlx.smem.base()
  %first = icmp eq i32 %t, 0
  br i1 %first, label %one, label %all
one:
)" + body +
         R"(
  br label %all
all:
)" + all +
         R"(
  ret void
})";
}

std::string sharedAt(const std::string &name, unsigned offset) {
  return "  %" + name + " = getelementptr i8, ptr addrspace(3) %s, i32 " + std::to_string(offset) + "\n";
}

std::string waitFor(const std::string &barrier, const std::string &parity, const std::string &label) {
  return "  br label %" + label + "\n" + label + ":\n  %d" + label +
         " = call i1 @tlx.nv.mbarrier.try.wait(ptr addrspace(3) %" + barrier + ", i32 " + parity + ")\n  br i1 %d" +
         label + ", label %" + label + "done, label %" + label + "\n" + label + "done:\n";
}

void forEachSchedule(const std::function<void(LaunchConfig &)> &f) {
  for (Schedule schedule : kSchedules)
    for (uint64_t seed = 0; seed < (schedule == Schedule::Random ? 5 : 1); ++seed) {
      LaunchConfig config;
      config.schedule = schedule;
      config.seed = seed;
      CAPTURE(int(schedule));
      CAPTURE(seed);
      f(config);
    }
}

void checkFinding(const LaunchResult &result, FindingKind kind, const std::string &message) {
  for (const Finding &f : result.findings)
    if (f.kind == kind && f.message.find(message) != std::string::npos) {
      CHECK(true);
      return;
    }
  FAIL_CHECK(std::string(findingKindName(kind)) << " '" << message << "' is missing in: " << text(result));
}

} // namespace sim_test
