// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See names.h.
#include "ir/names.h"

namespace tlx::ir {

std::string taskText(const Op *task, int64_t replica) {
  if (!task) return "the kernel";
  const llvm::StringRef name = task->strAttr(Attr::name);
  std::string text = "task '" + name.str() + "'";
  if (name.empty()) text = "the task of line " + std::to_string(task->loc.line);
  if (name == "default") text = "the default task";
  if (replica < 0) replica = task->intAttr(Attr::replica, -1);
  return replica < 0 ? text : text + " (replica " + std::to_string(replica) + ")";
}

std::string slotText(const Op &alloc, int64_t slot) {
  std::string text = alloc.strAttr(Attr::name).str();
  if (text.empty())
    text = (alloc.is(Opcode::AllocBarriers) ? "the barriers of line " : "the buffers of line ") +
           std::to_string(alloc.loc.line) + (slot < 0 ? "" : " ");
  return slot < 0 ? text : text + "[" + std::to_string(slot) + "]";
}

SlotOf slotOf(const Value *view) {
  SlotOf of;
  of.alloc = view->def();
  for (; !of.alloc->is(Opcode::AllocBarriers) && !of.alloc->is(Opcode::LocalAlloc);
       of.alloc = of.alloc->operand(0)->def())
    if (of.alloc->is(Opcode::SubView)) of.index = of.alloc->operand(1), of.depth = of.alloc->operand(0)->type.depth();
  return of;
}

} // namespace tlx::ir
