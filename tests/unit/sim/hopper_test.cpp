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

std::string inFirstThread(const std::string &body) {
  return R"(  %first = icmp eq i32 %t, 0
  br i1 %first, label %one, label %all
one:
)" + body +
         "  br label %all\nall:\n";
}

std::string oneThread(const std::string &parameters, const std::string &body, const std::string &all) {
  return "(" + parameters + ") {\n" + kEntry + inFirstThread(body) + all + "  ret void\n}";
}

std::string barSync(unsigned threads) {
  return "  call void @tlx.nv.bar.sync(i32 0, i32 " + std::to_string(threads) + ")\n";
}

std::string sharedAt(const std::string &name, unsigned offset) {
  return "  %" + name + " = getelementptr i8, ptr addrspace(3) %s, i32 " + std::to_string(offset) + "\n";
}

std::string initBarrier(const std::string &barrier, unsigned arrivals) {
  return "  call void @tlx.nv.mbarrier.init(ptr addrspace(3) %" + barrier + ", i32 " + std::to_string(arrivals) + ")\n";
}

std::string waitFor(const std::string &barrier, const std::string &parity, const std::string &label) {
  return "  br label %" + label + "\n" + label + ":\n  %d" + label +
         " = call i1 @tlx.nv.mbarrier.try.wait(ptr addrspace(3) %" + barrier + ", i32 " + parity + ")\n  br i1 %d" +
         label + ", label %" + label + "done, label %" + label + "\n" + label + "done:\n";
}

std::string copyWords(const std::string &from, const std::string &to, unsigned words, unsigned threads,
                      const std::string &before) {
  auto type = [](const std::string &pointer) { return pointer.substr(0, pointer.find('%')); };
  return "  br label %copy\ncopy:\n  %i = phi i32 [ %t, %" + before +
         " ], [ %i1, %step ]\n  %inside = icmp ult i32 %i, " + std::to_string(words) + R"(
  br i1 %inside, label %step, label %copied
step:
  %source = getelementptr i32, )" +
         from + R"(, i32 %i
  %word = load i32, )" +
         type(from) + R"(%source, align 4
  %target = getelementptr i32, )" +
         to + R"(, i32 %i
  store i32 %word, )" +
         type(to) + R"(%target, align 4
  %i1 = add i32 %i, )" +
         std::to_string(threads) + R"(
  br label %copy
copied:
)";
}

std::string ringBarriers(unsigned releases, unsigned threads) {
  return sharedAt("full1", 8) + sharedAt("empty0", 16) + sharedAt("empty1", 24) +
         inFirstThread(initBarrier("s", 1) + initBarrier("full1", 1) + initBarrier("empty0", releases) +
                       initBarrier("empty1", releases) + "  call void @tlx.nv.fence.mbarrier.init()\n") +
         barSync(threads);
}

std::string ringStep(const std::string &step, const std::string &role) {
  const std::string x = "%" + role;
  return "  " + x + "slot = and i32 %" + step + ", 1\n  " + x + "b8 = shl i32 " + x + "slot, 3\n  " + x +
         "full = getelementptr i8, ptr addrspace(3) %s, i32 " + x + "b8\n  " + x +
         "empty = getelementptr i8, ptr addrspace(3) %empty0, i32 " + x + "b8\n  " + x + "half = lshr i32 %" + step +
         ", 1\n  " + x + "par = and i32 " + x + "half, 1\n";
}

std::string ringProducer(const std::string &from, const std::string &fill, const std::string &steps, bool waits) {
  // The first pass through the ring finds it empty: parity 1 of a fresh mbarrier.
  return "p:\n  %k = phi i32 [ 0, %" + from + " ], [ %k1, %pwdone ]\n" + ringStep("k", "p") +
         "  %epar = xor i32 %ppar, 1\n" + (waits ? waitFor("pempty", "%epar", "pw") : "  br label %pwdone\npwdone:\n") +
         fill + R"(  %k1 = add i32 %k, 1
  %pmore = icmp slt i32 %k1, )" +
         steps + R"(
  br i1 %pmore, label %p, label %end
)";
}

std::string summingConsumer(const std::string &from, const std::string &step, const std::string &read, unsigned steps,
                            const std::string &index) {
  return "c:\n  %i = phi i32 [ 0, %" + from + " ], [ %i1, %cwdone ]\n  %sum = phi i32 [ 0, %" + from +
         " ], [ %sum1, %cwdone ]\n" + step + waitFor("cfull", "%cpar", "cw") + read + R"(  %sum3 = mul i32 %sum, 3
  %sum1 = add i32 %sum3, %v
  call void @tlx.nv.mbarrier.arrive(ptr addrspace(3) %cempty, i32 1)
  %i1 = add i32 %i, 1
  %cmore = icmp slt i32 %i1, )" +
         std::to_string(steps) + R"(
  br i1 %cmore, label %c, label %cend
cend:
  %q = getelementptr i32, ptr addrspace(1) %out, i32 )" +
         index + R"(
  store i32 %sum1, ptr addrspace(1) %q, align 4
  br label %end
end:
  ret void
})";
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
