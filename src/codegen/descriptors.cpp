// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tensor descriptors that are passed as fields: one argument in the metadata for those that the lowering made of it.
#include "codegen/codegen_p.h"

namespace tlx::codegen {

void foldDescriptors(const ir::Kernel &kernel, KernelMetadata &metadata) {
  std::vector<ArgInfo> args;
  std::vector<int64_t> moved; // index of each argument of the kernel among those of the user
  size_t next = 0;
  for (const ir::DescriptorArgument &d : kernel.descriptors) {
    for (; next < d.first; ++next) {
      moved.push_back(int64_t(args.size()));
      args.push_back(std::move(metadata.args[next]));
    }
    const size_t rank = d.type.rank(), first = next;
    ArgInfo info = metadata.args[first];
    info.name = d.name, info.type = d.type.str(), info.kind = ArgInfo::Kind::TensorDesc;
    DescriptorInfo fields;
    fields.element = ir::scalarName(d.type.scalar()).str();
    fields.block = d.type.shape().vec();
    for (size_t i = 1; i < rank; ++i) fields.strideOffsets.push_back(metadata.args[first + i].offset);
    for (size_t i = 0; i < rank; ++i) fields.shapeOffsets.push_back(metadata.args[first + rank + i].offset);
    info.size = fields.shapeOffsets.back() + 4 - info.offset;
    info.descriptor = std::move(fields);
    moved.resize(moved.size() + 2 * rank, int64_t(args.size()));
    args.push_back(std::move(info));
    next = first + 2 * rank;
  }
  for (; next < metadata.args.size(); ++next) {
    moved.push_back(int64_t(args.size()));
    args.push_back(std::move(metadata.args[next]));
  }
  metadata.args = std::move(args);
  for (Fact &fact : metadata.facts)
    for (Fact::Step &step : fact.program)
      if (step.op == Fact::Op::Arg) step.value = moved[size_t(step.value)];
}

} // namespace tlx::codegen
