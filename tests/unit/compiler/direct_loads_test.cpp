// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// gfx950: loops that load straight into shared memory, as compiled, on the simulator: right, and without any one of their waits a finding.
#include <doctest/doctest.h>

#include <cstring>

#include "compiler/compiler.h"
#include "features/features.h"
#include "sim/sim.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Module.h"

using namespace tlx;

namespace {
// C[32, 32] = A · B^T: each warp has one load of A and one of B a step.
const char *kText = R"(
kernel mm<STAGES: i32, T: dtype>(a: *T, b: *T, c: *f32, K: i32, lda: i64, ldb: i64) launch(num_warps = 4)
    requires(aligned(a, 16), aligned(b, 16), lda % 8 == 0, ldb % 8 == 0, K % 64 == 0) {
    let r = arange(0, 32);
    let k = arange(0, 64);
    var pa = a + (r[:, None].to(i64) * lda + k[None, :]);
    var pb = b + (r[None, :].to(i64) * ldb + k[:, None]);
    var acc = zeros([32, 32], f32);
    for i in range(0, K, 64, num_stages = STAGES) {
        acc = dot(load(pa), load(pb), acc);
        pa = pa + 64;
        pb = pb + 64;
    }
    store(c + (r[:, None] * 32 + r[None, :]), acc);
}
)";

Binary build(unsigned stages) {
  CompileRequest request;
  request.source = kText;
  request.params = {{"STAGES", std::to_string(stages)}, {"T", "f16"}};
  request.target = "gfx950";
  request.forSimulator = true;
  request.verify = true;
  CompileResult result = compile(request);
  REQUIRE_MESSAGE(result.status == CompileStatus::Ok, result.diagnostics);
  return *result.binary;
}

std::unique_ptr<sim::Program> load(llvm::ArrayRef<uint8_t> image, const Binary &binary) {
  std::string error;
  auto program = sim::Program::load(image, *features::findTarget("gfx950"), binary.metadata, error);
  REQUIRE_MESSAGE(program, error);
  return program;
}

constexpr int kSteps = 9, kK = 64 * kSteps; // each ring goes round at least twice

struct Run {
  sim::LaunchResult result;
  unsigned wrong = 0;
};
/// Small integers as f16: exact. `lda`: elements between rows of A.
Run run(const sim::Program &program, sim::Schedule schedule, uint64_t seed, int64_t lda = kK) {
  auto half = [](int v) { // |v| < 4
    const uint16_t magnitude[] = {0, 0x3c00, 0x4000, 0x4200};
    return uint16_t(magnitude[std::abs(v)] | (v < 0 ? 0x8000 : 0));
  };
  auto valueA = [](int m, int k) { return (m * 7 + k * 3 + m * k) % 7 - 3; };
  auto valueB = [](int n, int k) { return (n * 5 + k * 11 + n * k) % 7 - 3; };
  sim::Memory memory;
  auto *a = static_cast<uint16_t *>(memory.allocate(size_t(31 * lda + kK) * 2));
  auto *b = static_cast<uint16_t *>(memory.allocate(32 * kK * 2));
  auto *c = static_cast<float *>(memory.allocate(32 * 32 * 4));
  for (int m = 0; m < 32; ++m) {
    std::vector<uint16_t> rowA, rowB;
    for (int k = 0; k < kK; ++k) rowA.push_back(half(valueA(m, k))), rowB.push_back(half(valueB(m, k)));
    REQUIRE(memory.write(a + m * lda, rowA.data(), rowA.size() * 2));
    REQUIRE(memory.write(b + m * kK, rowB.data(), rowB.size() * 2));
  }
  std::vector<uint8_t> params(program.paramBytes());
  auto put = [&](size_t at, auto v) { std::memcpy(params.data() + at, &v, sizeof v); };
  put(0, a), put(8, b), put(16, c), put(24, int32_t(kK)), put(32, lda), put(40, int64_t(kK));
  sim::LaunchConfig config;
  config.schedule = schedule;
  config.seed = seed;
  Run r;
  r.result = sim::launch(program, config, params, memory);
  std::vector<float> got(32 * 32);
  memory.read(got.data(), c, got.size() * 4);
  for (int m = 0; m < 32; ++m)
    for (int n = 0; n < 32; ++n) {
      int sum = 0;
      for (int k = 0; k < kK; ++k) sum += valueA(m, k) * valueB(n, k);
      r.wrong += got[size_t(m * 32 + n)] != float(sum);
    }
  return r;
}
std::string text(const sim::LaunchResult &result) {
  std::string all;
  for (const sim::Finding &f : result.findings) all += f.text() + "\n";
  return all;
}

struct Setting {
  sim::Schedule schedule;
  uint64_t seed;
};
std::vector<Setting> settings() {
  std::vector<Setting> all{{sim::Schedule::InOrder, 0}, {sim::Schedule::Late, 0}, {sim::Schedule::Early, 0}};
  for (uint64_t seed = 1; seed <= 5; ++seed) all.push_back({sim::Schedule::Random, seed});
  return all;
}

/// The calls of tlx.amd.s.waitcnt on the way that runs, in program order.
std::vector<llvm::CallInst *> waitsOf(llvm::Module &module) {
  std::vector<llvm::CallInst *> waits;
  for (llvm::Function &f : module)
    for (llvm::BasicBlock &block : f) {
      // The way through registers is taken by addresses far apart only.
      bool registers = false;
      for (llvm::Instruction &i : block) {
        auto *store = llvm::dyn_cast<llvm::StoreInst>(&i);
        registers |= store && store->getPointerAddressSpace() == 3;
      }
      for (llvm::Instruction &i : block) {
        auto *call = llvm::dyn_cast<llvm::CallInst>(&i);
        llvm::Function *callee = call ? call->getCalledFunction() : nullptr;
        if (callee && !registers && callee->getName() == "tlx.amd.s.waitcnt") waits.push_back(call);
      }
    }
  return waits;
}
std::vector<uint8_t> mutate(const Binary &binary,
                            llvm::function_ref<void(const std::vector<llvm::CallInst *> &)> edit) {
  llvm::LLVMContext context;
  auto module = llvm::parseBitcodeFile(
      llvm::MemoryBufferRef(llvm::StringRef(reinterpret_cast<const char *>(binary.image.data()), binary.image.size()),
                            "m"),
      context);
  REQUIRE(bool(module));
  edit(waitsOf(**module));
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream out(bytes);
  llvm::WriteBitcodeToFile(**module, out);
  return std::vector<uint8_t>(bytes.begin(), bytes.end());
}
uint64_t number(const llvm::CallInst *call, unsigned i) {
  return llvm::cast<llvm::ConstantInt>(call->getArgOperand(i))->getZExtValue();
}
} // namespace

TEST_CASE("gfx950: every wait of a loop of direct loads is needed, in every schedule") {
  for (unsigned stages : {3u, 4u}) {
    CAPTURE(stages);
    Binary binary = build(stages);
    auto right = load(binary.image, binary);
    for (Setting s : settings()) {
      Run r = run(*right, s.schedule, s.seed);
      CHECK_MESSAGE(r.result.ok(), text(r.result));
      CHECK(r.wrong == 0);
    }
    size_t count = 0;
    mutate(binary, [&](auto &waits) {
      count = waits.size();
      // In the loop: loads, then reads; behind it: all loads.
      REQUIRE(count == 3);
      CHECK(number(waits[0], 0) == 2 * (stages - 2));
      CHECK(number(waits[1], 0) == 63);
      CHECK(number(waits[1], 1) == 0);
      CHECK(number(waits[2], 0) == 0);
    });
    for (size_t i = 0; i < count; ++i)
      for (bool remove : {true, false}) {
        CAPTURE(i);
        CAPTURE(remove);
        auto image = mutate(binary, [&](auto &waits) {
          if (remove) {
            waits[i]->eraseFromParent();
            return;
          }
          const unsigned operand = number(waits[i], 0) == 63 ? 1 : 0;
          llvm::Type *type = waits[i]->getArgOperand(operand)->getType();
          waits[i]->setArgOperand(operand, llvm::ConstantInt::get(type, number(waits[i], operand) + 1));
        });
        auto program = load(image, binary);
        for (Setting s : settings()) {
          Run r = run(*program, s.schedule, s.seed);
          CHECK_FALSE(r.result.ok());
          using enum sim::FindingKind;
          for (const sim::Finding &f : r.result.findings)
            CHECK_MESSAGE((f.kind == InFlight || f.kind == MissingFence || f.kind == SlotOverrun), f.text());
        }
      }
  }
}

TEST_CASE("gfx950: rows further apart than an offset tells go through registers, at the same places") {
  Binary binary = build(3);
  auto program = load(binary.image, binary);
  const uint64_t direct = run(*program, sim::Schedule::InOrder, 0).result.statistics.sharedAccesses;
  for (Setting s : {Setting{sim::Schedule::InOrder, 0},
                    {sim::Schedule::Late, 0},
                    {sim::Schedule::Early, 0},
                    {sim::Schedule::Random, 1}}) {
    Run r = run(*program, s.schedule, s.seed, (int64_t(1) << 28) + 8); // half a GB a row, eight rows a warp
    CHECK_MESSAGE(r.result.ok(), text(r.result));
    CHECK(r.wrong == 0);
    CHECK(r.result.statistics.sharedAccesses > direct);
  }
}
