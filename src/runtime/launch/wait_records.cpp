// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See wait_records.h.
#include "runtime/launch/wait_records.h"

namespace tlx::runtime {

std::string waitText(const std::vector<WaitSite> &sites, uint32_t microseconds, std::span<const WaitRecord> records) {
  std::string text;
  const std::string time =
      microseconds % 1000 ? std::to_string(microseconds) + " us" : std::to_string(microseconds / 1000) + " ms";
  for (size_t i = 0; i < sites.size() && i < records.size(); ++i) {
    const WaitRecord &r = records[i];
    const WaitSite &site = sites[i];
    if (!(r.phase & WaitRecord::kWritten)) continue;
    constexpr uint32_t kBarrierBytes = 8;
    const uint32_t slot = (r.barrier - site.offset) / kBarrierBytes;
    text += (text.empty() ? "" : "\n") + site.task + " of program (" + std::to_string(r.x) + ", " +
            std::to_string(r.yz & 0xffff) + ", " + std::to_string(r.yz >> 16) + ") waited " + time + " for " +
            site.barrier + (slot < site.barriers ? "[" + std::to_string(slot) + "]" : "") + ", phase " +
            std::to_string(r.phase & ~WaitRecord::kWritten) + (site.place.empty() ? "" : ", " + site.place);
  }
  return text;
}

} // namespace tlx::runtime
