// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The compile service with a compiler made of a few lines.
#include <atomic>
#include <cstdlib>
#include <doctest/doctest.h>
#include <filesystem>
#include <thread>
#include <unistd.h>

#include "llvm/Support/ErrorHandling.h"

#include "runtime/compile_service.h"
#include "runtime/guarded.h"
#include "test_metadata.h"

using namespace tlx;
using namespace tlx::runtime;

namespace {

std::atomic<unsigned> compiles{0};

CompileResult fakeCompile(const CompileRequest &request) {
  compiles.fetch_add(1);
  CompileResult result;
  if (request.source == "fatal") llvm::report_fatal_error("Cannot select: t42");
  if (request.source == "throw") throw std::runtime_error("oh");
  if (request.source == "wrong") {
    result.status = CompileStatus::UserError;
    result.diagnostics = "kernel.tlx:1:1: error: wrong\n";
    return result;
  }
  if (request.source == "slow") std::this_thread::sleep_for(std::chrono::milliseconds(200));
  if (request.source == "deep") { // needs more than the 8 MB of an ordinary thread
    volatile char stack[24 << 20];
    stack[0] = 1;
    for (size_t i = 0; i < sizeof stack; i += 4096) stack[i] = stack[0];
  }
  result.status = CompileStatus::Ok;
  result.diagnostics = "a warning\n";
  if (request.keepIr) result.ir = "module";
  result.binary = test::sampleBinary(Binary::Kind::Ptx);
  return result;
}

std::optional<std::string> fakeKey(const CompileRequest &request) {
  if (request.source == "no import") return std::nullopt;
  return request.source + "|" + request.target;
}

struct Fixture {
  Fixture() {
    char name[] = "/tmp/tlx-service-test-XXXXXX";
    REQUIRE(mkdtemp(name));
    directory = name;
    compiles = 0;
  }
  ~Fixture() {
    std::error_code ignored;
    std::filesystem::remove_all(directory, ignored);
  }
  CompileService make() {
    CacheOptions options;
    options.directory = directory;
    options.mode = CacheMode::ReadWrite;
    return {CompilerFunctions{fakeCompile, fakeKey}, options, log};
  }
  static CompileRequest request(const char *source) {
    CompileRequest r;
    r.source = source;
    return r;
  }
  std::string directory;
  Log log;
};

} // namespace

TEST_CASE("a second request is answered from the cache, in another process too") {
  Fixture f;
  CompileService service = f.make();
  CompileOutcome first = service.compileCached(f.request("good"));
  CHECK(first.result.status == CompileStatus::Ok);
  CHECK(!first.fromCache);
  CompileService another = f.make();
  CompileOutcome second = another.compileCached(f.request("good"));
  CHECK(second.fromCache);
  CHECK(second.result.binary->image == first.result.binary->image);
  CHECK(second.result.diagnostics == "a warning\n");
  CHECK(compiles == 1);
}

TEST_CASE("texts are not in the cache, so asking for them compiles") {
  Fixture f;
  CompileService service = f.make();
  (void)service.compileCached(f.request("good"));
  CompileRequest r = f.request("good");
  r.keepIr = true;
  CompileOutcome outcome = service.compileCached(r);
  CHECK(outcome.result.ir == "module");
  CHECK(compiles == 2);
  CHECK(service.compileCached(f.request("good")).fromCache);
}

TEST_CASE("equal requests at the same time compile once") {
  Fixture f;
  CompileService service = f.make();
  std::vector<std::thread> threads;
  std::atomic<unsigned> right{0};
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      CompileOutcome outcome = service.compileCached(f.request("slow"));
      right += outcome.result.status == CompileStatus::Ok && outcome.result.binary;
    });
  for (std::thread &thread : threads) thread.join();
  CHECK(right == 8);
  CHECK(compiles == 1);
}

TEST_CASE("failures are told and not kept") {
  Fixture f;
  CompileService service = f.make();
  for (int i = 0; i < 2; ++i) {
    CHECK(service.compileCached(f.request("wrong")).result.status == CompileStatus::UserError);
    CHECK(service.compileCached(f.request("throw")).result.status == CompileStatus::Internal);
  }
  CHECK(compiles == 4);
  CHECK(service.compileCached(f.request("no import")).result.status == CompileStatus::Ok);
  CHECK(service.cache().counters().stores == 0);
}

TEST_CASE("only the cache may answer") {
  Fixture f;
  CompileService service = f.make();
  CHECK(service.compileCached(f.request("good"), true).result.status == CompileStatus::Unsupported);
  CHECK(compiles == 0);
  (void)service.compileCached(f.request("good"));
  CHECK(service.compileCached(f.request("good"), true).fromCache);
}

TEST_CASE("a compile has a large stack") {
  Fixture f;
  CompileService service = f.make();
  CHECK(service.compileCached(f.request("deep")).result.status == CompileStatus::Ok);
}

TEST_CASE("LLVM's fatal error is a status, and later compiles work") {
  Fixture f;
  CompileService service = f.make();
  const unsigned before = parkedThreads();
  for (int i = 0; i < 3; ++i) {
    CompileOutcome outcome = service.compileCached(f.request("fatal"));
    CHECK(outcome.result.status == CompileStatus::Internal);
    CHECK(outcome.result.diagnostics.find("Cannot select: t42") != std::string::npos);
    CHECK(service.compileCached(f.request(("good" + std::to_string(i)).c_str())).result.status == CompileStatus::Ok);
  }
  CHECK(parkedThreads() == before + 3);
  // Those who wait for the same key are told as well.
  std::vector<std::thread> threads;
  std::atomic<unsigned> told{0};
  for (int i = 0; i < 4; ++i)
    threads.emplace_back(
        [&] { told += service.compileCached(f.request("fatal")).result.status == CompileStatus::Internal; });
  for (std::thread &thread : threads) thread.join();
  CHECK(told == 4);
}

TEST_CASE("an exception of guarded work is a status") {
  const Status status = runGuarded([] { throw std::runtime_error("inside"); });
  CHECK(status.code == Code::Internal);
  CHECK(status.message.find("inside") != std::string::npos);
  bool ran = false;
  CHECK(runGuarded([&] { CHECK(runGuarded([&] { ran = true; }).isOk()); }).isOk());
  CHECK(ran);
}
