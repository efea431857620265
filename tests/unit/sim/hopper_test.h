// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Helpers of the tests of Hopper's units.
#pragma once
#include <initializer_list>

#include "sim/tensor_map.h"
#include "sim_test.h"

namespace sim_test {

using Element = tlx::sim::TensorMap::Element;

/// A tensor map as a kernel parameter: `ptr byval([128 x i8]) align 64`.
struct alignas(64) MapArgument {
  uint8_t bytes[128] = {};
};

/// Dimensions innermost first. `strides` in bytes, of all dimensions but the first; dense if empty.
MapArgument tensorMap(const void *base, Element element, unsigned elementBytes, std::vector<uint64_t> shape,
                      std::vector<uint32_t> box, unsigned swizzle, std::vector<uint64_t> strides = {});

/// Where byte `offset` of a dense box lies behind the box's start, which is aligned to 8 * swizzle: in each 128 bytes
/// the 16-byte units are permuted. Written from the tables of the PTX ISA, by units and lines.
uint32_t swizzledByte(uint32_t offset, unsigned swizzle);

// Pieces of kernels' text. Each is whole lines.

/// How a kernel's blocks begin: "%t" thread, "%s" shared memory.
inline const std::string kEntry =
    "entry:\n  %t = call i32 @tlx.nv.tid.x()\n  %s = call ptr addrspace(3) @tlx.smem.base()\n";
inline const std::string kProxyFence = "  call void @tlx.nv.fence.proxy.async()\n";
/// `body`, which may have blocks of its own, runs in thread 0 alone ("%first"); what follows stands in block "all".
std::string inFirstThread(const std::string &body);
/// A whole kernel: kEntry, `body` in thread 0, `all` in all threads behind it.
std::string oneThread(const std::string &parameters, const std::string &body, const std::string &all = "");
/// `threads` threads meet at barrier 0.
std::string barSync(unsigned threads);
/// "%NAME" = shared memory + offset.
std::string sharedAt(const std::string &name, unsigned offset);
/// An mbarrier at "%BARRIER".
std::string initBarrier(const std::string &barrier, unsigned arrivals);
/// A loop of try.wait on "%BARRIER"; what follows stands in block "LABELdone".
std::string waitFor(const std::string &barrier, const std::string &parity, const std::string &label);
/// `threads` threads copy 32-bit words ("ptr addrspace(1) %x" and the like); what stands before is block `before`, what
/// follows is block "copied".
std::string copyWords(const std::string &from, const std::string &to, unsigned words, unsigned threads,
                      const std::string &before);

/// A ring of two slots: mbarriers "%s" and "%full1" (at 0 and 8, one arrival), "%empty0" and "%empty1" (at 16 and 24,
/// `releases` arrivals) are initialized, then `threads` threads meet, in block "all".
std::string ringBarriers(unsigned releases, unsigned threads);
/// Where step "%STEP" of that ring is: "%Xslot", its mbarriers "%Xfull" and "%Xempty", and "%Xpar", the parity of the
/// full one, X being the role.
std::string ringStep(const std::string &step, const std::string &role);
/// The loop over steps "%k" of a ring's producer, block "p" behind block `from`: waits until the slot is empty (or does
/// not), `fill`; role "p". Goes on at block "end".
std::string ringProducer(const std::string &from, const std::string &fill, const std::string &steps, bool waits = true);
/// The loop over steps "%i" of a consumer, block "c" behind block `from`, and the end of the kernel, block "end". `step`
/// gives the mbarriers "%cfull" and "%cempty" and the parity "%cpar" to wait for, `read` gives i32 "%v". What comes of
/// "%sum" = 3 * "%sum" + "%v" is stored to "%out"[`index`].
std::string summingConsumer(const std::string &from, const std::string &step, const std::string &read, unsigned steps,
                            const std::string &index);

/// There is a finding of this kind whose message contains the text.
void checkFinding(const LaunchResult &result, FindingKind kind, const std::string &message);

} // namespace sim_test
