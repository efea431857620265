// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What findings call warps and bytes of shared memory: by the names of the text, where it has any.
#include "sim/engine.h"
#include "sim/text.h"

namespace tlx::sim {

std::string Engine::siteText(uint32_t index) const {
  const Site &site = program.sites[index];
  if (!site.line) return site.what;
  return site.what + " (" + site.file + ":" + std::to_string(site.line) + ":" + std::to_string(site.col) + ")";
}

/// "consumer[1]": the task that `warp` runs at a site; "" outside of tasks.
std::string Engine::taskText(unsigned warp, uint32_t site) const {
  const uint32_t region = program.sites[site].region;
  for (const TaskInfo &task : program.metadata.tasks)
    if (task.region + 1 == region && warp >= task.start && warp < task.start + task.warps) return task.name;
  return "";
}

/// "warp 4 (consumer[1])".
std::string Engine::warpText(unsigned warp, uint32_t site) const {
  const std::string task = taskText(warp, site), number = "warp " + std::to_string(warp);
  return task.empty() ? number : number + " (" + task + ")";
}

/// "a_ring[1] + 256": what the text calls a byte of shared memory; "" if nothing. Buffers that follow one another there are all named.
std::string Engine::bufferText(int64_t offset) const {
  std::string text;
  for (const SharedInfo &one : program.metadata.shared) {
    if (offset < one.offset || offset >= int64_t(one.offset) + one.bytes || !one.bytes) continue;
    const uint32_t slot = one.bytes / one.slots, inside = uint32_t(offset) - one.offset;
    text += (text.empty() ? "" : " or ") + one.name;
    if (one.slots > 1 || one.barriers) text += "[" + std::to_string(inside / slot) + "]";
    if (inside % slot) text += " + " + std::to_string(inside % slot);
  }
  return text;
}

/// " of 4 bytes at shared offset 1024 (a_ring[1] + 256)".
std::string Engine::placeText(uint64_t bytes, int64_t offset) const {
  return " of " + countText(bytes, "byte") + " at " + offsetText(offset);
}

std::string Engine::offsetText(int64_t offset) const {
  const std::string name = bufferText(offset);
  return "shared offset " + std::to_string(offset) + (name.empty() ? "" : " (" + name + ")");
}

/// "the mbarrier full[1] at shared offset 8".
std::string Engine::mbarrierName(uint32_t offset) const {
  const std::string name = bufferText(offset);
  return "the mbarrier " + (name.empty() ? "" : name + " ") + "at shared offset " + std::to_string(offset);
}

} // namespace tlx::sim
