// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "passes/explain_layouts.h"

#include <map>

#include "passes/passes.h"

namespace tlx::passes {

using namespace ir;

namespace {

struct Explainer {
  const Module &module;
  const features::Target &target;
  std::string values, accesses;
  std::map<const layout::TileLayout *, unsigned> numbers;
  std::string layouts;

  std::string name(const layout::TileLayout *l) {
    auto [it, fresh] = numbers.try_emplace(l, numbers.size());
    if (fresh) layouts += llvm::formatv("  #{0} = {1}, {2} registers\n", it->second, l->str(), l->registers());
    return "#" + std::to_string(it->second);
  }

  void value(const Op &op, const Value &v) {
    if (v.type.isTile() && v.type.layout())
      values += llvm::formatv("  line {0,4}  {1,-16} {2,-24} {3}\n", op.loc.line, op.info().name, v.type.str(),
                              name(v.type.layout()));
    if (v.type.isBuffer() && (op.is(Opcode::LocalAlloc) || op.is(Opcode::StorageView)))
      values += llvm::formatv("  line {0,4}  {1,-16} {2,-24} {3}\n", op.loc.line, op.info().name, v.type.str(),
                              v.type.sharedLayout()->str());
  }

  void access(const Op &op) {
    Type buffer = op.operand(0)->type;
    Type tile = op.is(Opcode::LocalLoad) ? op.result()->type : op.operand(1)->type;
    if (!tile.isTile()) return;
    const layout::TileLayout &regs = *tile.layout();
    const layout::SharedLayout &mem = *buffer.sharedLayout();
    unsigned bits = 8 * scalarBytes(buffer.scalar());
    layout::BankModel model{target.sharedBanks};
    std::string how;
    layout::BankReport report;
    bool load = op.is(Opcode::LocalLoad), store = op.is(Opcode::LocalStore);
    auto plan =
        (load && target.ldmatrix) || (store && target.stmatrix) ? layout::matrixPlan(regs, mem, bits) : std::nullopt;
    if (plan) {
      how = llvm::formatv("{0}.x{1}{2}", load ? "ldmatrix" : "stmatrix", plan->count, plan->transposed ? ".trans" : "");
      report = layout::bankWavefronts(*plan, bits, model);
    } else {
      layout::VectorPlan vectors = layout::vectorPlan(regs, mem, bits);
      how = llvm::formatv("{0} bytes an access", vectors.vector * bits / 8);
      report = layout::bankWavefronts(regs, mem, vectors, bits, model);
    }
    accesses += llvm::formatv("  line {0,4}  {1,-12} {2,-24} {3,-20} {4} wavefronts, minimum {5}\n", op.loc.line,
                              op.info().name, buffer.str(), how, report.wavefronts, report.minimum);
  }
};

} // namespace

std::string explainLayouts(const Module &module, const features::Target &target) {
  Explainer e{module, target};
  const_cast<Block &>(module.kernel.body).walk([&](Op &op) {
    for (unsigned i = 0; i < op.numResults(); ++i) e.value(op, *op.result(i));
    if (op.is(Opcode::LocalLoad) || op.is(Opcode::LocalStore) || op.is(Opcode::AsyncCopy)) e.access(op);
  });
  return "values\n" + e.values + "layouts\n" + e.layouts + "shared accesses (of one warp)\n" + e.accesses +
         memoryMap(module);
}

} // namespace tlx::passes
