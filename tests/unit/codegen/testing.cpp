// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "testing.h"

#include "target/target.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Support/raw_ostream.h"

namespace tlx::codegen_test {

TestKernel::TestKernel(const char *name, unsigned warps)
    : module(context), b(module), target(features::findTarget(name)) {
  module.target = name;
  module.kernel.name = "test";
  module.kernel.numWarps = warps;
  module.kernel.warpSize = target->warpSize;
  file = sources.add("test.tlx", "kernel test() {}\n");
  module.kernel.loc = b.loc = {file, 1, 1, 7};
}

const TileLayout *TestKernel::rows(llvm::ArrayRef<int64_t> shape, unsigned perThread) {
  llvm::SmallVector<unsigned, 4> order;
  for (unsigned d = shape.size(); d-- > 0;) order.push_back(d);
  return unique(layout::defaultBlocked(shape, perThread, order, target->warpSize, module.kernel.numWarps));
}

Value *TestKernel::coordinate(const TileLayout *l, unsigned dim) {
  // Only this dimension stays, then the others come back with extent 1, then broadcast.
  TileLayout one = *l;
  for (unsigned d = l->rank(); d-- > 0;)
    if (d != dim) one = layout::slice(one, d);
  Value *v = arange(0, l->shape()[dim], unique(one));
  for (unsigned d = 0; d < l->rank(); ++d)
    if (d != dim) {
      one = layout::expandDims(one, d);
      v = with(b.expandDims(v, d), unique(one));
    }
  return l->rank() == 1 ? v : with(b.broadcast(v, l->shape()), l);
}

Value *TestKernel::index(const TileLayout *l) {
  Value *sum = nullptr;
  for (unsigned d = 0; d < l->rank(); ++d) {
    Value *c = coordinate(l, d);
    sum = sum ? b.binary(Opcode::Add, b.binary(Opcode::Mul, sum, constant(l, Scalar::I32, l->shape()[d])), c) : c;
  }
  return sum;
}

static void setVec(ir::Op *op, unsigned vec) {
  if (vec > 1) op->setAttr(ir::Attr::vec, int64_t(vec));
}

Value *TestKernel::loadTile(Value *base, const TileLayout *l, unsigned vec) {
  Value *v = b.load(b.addptr(splat(base, l), index(l)));
  setVec(v->def(), vec);
  return v;
}

void TestKernel::storeTile(Value *base, Value *tile, unsigned vec) {
  const TileLayout *l = tile->type.layout();
  b.store(b.addptr(splat(base, l), index(l)), tile);
  setVec(b.insertBlock()->back(), vec);
}

std::unique_ptr<llvm::Module> TestKernel::generate(llvm::LLVMContext &llvmContext) {
  if (!module.kernel.body.terminator()) b.ret();
  auto made = codegen::generate(llvmContext, module, *target, sources, {}, metadata, diagnostics);
  CHECK_MESSAGE(made, diagnostics.render(sources));
  if (!made) return nullptr;
  std::string error;
  llvm::raw_string_ostream stream(error);
  if (llvm::verifyModule(*made, &stream)) {
    std::string dump;
    llvm::raw_string_ostream out(dump);
    made->print(out, nullptr);
    FAIL_CHECK(error << dump.substr(0, 4000));
    return nullptr;
  }
  return made;
}

std::string TestKernel::text() {
  llvm::LLVMContext llvmContext;
  auto made = generate(llvmContext);
  std::string out;
  llvm::raw_string_ostream stream(out);
  if (made) made->print(stream, nullptr);
  return out;
}

std::string TestKernel::assembly() {
  llvm::LLVMContext llvmContext;
  auto made = generate(llvmContext);
  if (!made) return {};
  target::Options options;
  options.assembler = "none";
  target::Output out;
  const bool ok = target::emit(*made, *target, options, out, diagnostics);
  CHECK_MESSAGE(ok, diagnostics.render(sources));
  return out.assembly;
}

sim::LaunchResult TestKernel::run(sim::Memory &memory, std::vector<uint8_t> params, unsigned grid) {
  llvm::LLVMContext llvmContext;
  auto made = generate(llvmContext);
  if (!made) return {};
  llvm::SmallVector<char, 0> bitcode;
  llvm::raw_svector_ostream stream(bitcode);
  llvm::WriteBitcodeToFile(*made, stream);
  std::string error;
  auto program =
      sim::Program::load({reinterpret_cast<const uint8_t *>(bitcode.data()), bitcode.size()}, *target, metadata, error);
  REQUIRE_MESSAGE(program, error);
  for (const HiddenArg &hidden : metadata.hidden) {
    params.resize(hidden.offset + hidden.size);
    const uint32_t extent = hidden.kind == HiddenArg::Kind::GridX ? grid : 1;
    std::memcpy(params.data() + hidden.offset, &extent, sizeof extent);
  }
  sim::LaunchConfig config;
  config.grid[0] = grid;
  return sim::launch(*program, config, params, memory);
}

void checkRan(const sim::LaunchResult &result) {
  std::string all;
  for (const sim::Finding &f : result.findings) all += f.text() + "\n";
  CHECK_MESSAGE(result.ok(), all);
}

} // namespace tlx::codegen_test
