// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Helpers of the tests of code generation: kernels built with layouts by hand, generated, verified, and run on the
// simulator.
#pragma once
#include <doctest/doctest.h>

#include <cstring>

#include "codegen/codegen.h"
#include "ir/builder.h"
#include "sim/sim.h"
#include "llvm/IR/LLVMContext.h"

namespace tlx::codegen_test {

using ir::Opcode;
using ir::Scalar;
using ir::Value;
using layout::TileLayout;

/// A kernel under construction.
class TestKernel {
public:
  explicit TestKernel(const char *target = "sm_80", unsigned warps = 1);
  ir::Context context;
  ir::Module module;
  ir::Builder b;
  const features::Target *target;
  SourceManager sources;
  Diagnostics diagnostics;
  uint32_t file;

  Value *pointer(Scalar s, std::string name = "p") {
    return module.kernel.body.addArg(context.pointer(s), std::move(name));
  }
  Value *scalar(Scalar s, std::string name = "n") {
    return module.kernel.body.addArg(context.scalar(s), std::move(name));
  }
  const TileLayout *unique(const TileLayout &l) { return context.unique(l); }
  /// One row-major layout over all threads with `perThread` elements of the last dimension.
  const TileLayout *rows(llvm::ArrayRef<int64_t> shape, unsigned perThread = 1);
  Value *with(Value *v, const TileLayout *l) {
    v->type = v->type.withLayout(l);
    return v;
  }
  Value *arange(int64_t start, int64_t end, const TileLayout *l) { return with(b.arange(start, end), l); }
  /// The coordinate along `dim`, and the row-major index, of each element of a tile with this layout: i32.
  Value *coordinate(const TileLayout *l, unsigned dim);
  Value *index(const TileLayout *l);
  Value *splat(Value *scalar, const TileLayout *l) { return b.splat(scalar, l->shape(), l); }
  /// Elements base[index] of a tile in memory, and back.
  Value *loadTile(Value *base, const TileLayout *l, unsigned vec = 1);
  void storeTile(Value *base, Value *tile, unsigned vec = 1);
  Value *constant(const TileLayout *l, Scalar s, int64_t v) {
    return b.constant(context.tile(context.scalar(s), l->shape(), l), v);
  }

  /// LLVM IR that the verifier accepts; null (and a failed check) otherwise.
  std::unique_ptr<llvm::Module> generate(llvm::LLVMContext &llvmContext);
  std::string text(); // of the generated module
  /// PTX or GCN ISA: both back ends select everything.
  std::string assembly();
  sim::LaunchResult run(sim::Memory &memory, std::vector<uint8_t> params, unsigned grid = 1);
  KernelMetadata metadata;
};

template <typename... T> std::vector<uint8_t> params(T... values) {
  std::vector<uint8_t> buffer;
  auto add = [&](auto v) {
    size_t at = (buffer.size() + sizeof v - 1) / sizeof v * sizeof v;
    buffer.resize(at + sizeof v);
    std::memcpy(buffer.data() + at, &v, sizeof v);
  };
  (add(values), ...);
  return buffer;
}
template <typename T> T *upload(sim::Memory &memory, const std::vector<T> &values) {
  auto *p = static_cast<T *>(memory.allocate(values.size() * sizeof(T)));
  memory.write(p, values.data(), values.size() * sizeof(T));
  return p;
}
template <typename T> std::vector<T> download(const sim::Memory &memory, const T *p, size_t n) {
  std::vector<T> values(n);
  memory.read(values.data(), p, n * sizeof(T));
  return values;
}

/// Fails with the findings if there are some.
void checkRan(const sim::LaunchResult &result);

inline constexpr const char *kTargets[] = {"sm_80", "sm_90a", "gfx942", "gfx950"};

} // namespace tlx::codegen_test
