// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See compile_service.h.
#include "runtime/compile_service.h"

#include "runtime/guarded.h"

namespace tlx::runtime {

struct CompileService::Flight {
  std::mutex mutex;
  std::condition_variable landed;
  bool done = false;
  CompileResult result;
};

namespace {

bool wantsText(const CompileRequest &request) {
  return request.keepIr || request.keepLlvm || request.keepAssembly || !request.dumpAfter.empty() ||
         request.explainLayouts || request.verify;
}

CompileResult internalError(const std::string &message) {
  CompileResult result;
  result.status = CompileStatus::Internal;
  result.diagnostics = "internal error: " + message + "\n";
  return result;
}

} // namespace

CompileService::CompileService(CompilerFunctions functions, const CacheOptions &cache, const Log &log)
    : functions(std::move(functions)), log(log), disk(cache, log) {}

CompileResult CompileService::compileNow(const CompileRequest &request) {
  // Behind a pointer that the thread shares: it may be parked with its frames, while we go on.
  auto result = std::make_shared<CompileResult>();
  auto copy = std::make_shared<const CompileRequest>(request);
  Status status = runGuarded([result, copy, compile = functions.compile] { *result = compile(*copy); });
  if (!status) return std::move(*result);
  log.write(LogLevel::Error, status.message);
  return internalError(status.message);
}

CompileOutcome CompileService::compileCached(const CompileRequest &request, bool failOnMiss) {
  // The key reads the source and its imports: hostile nesting there needs the large stack as well.
  auto key = std::make_shared<std::optional<std::string>>();
  auto copy = std::make_shared<const CompileRequest>(request);
  if (Status status = runGuarded([key, copy, makeKey = functions.key] { *key = makeKey(*copy); }))
    return {internalError(status.message), false};
  if (!*key) return {compileNow(request), false}; // an import is missing: the compile says which, and nothing is cached
  const std::string &text = **key;

  const bool textWanted = wantsText(request);
  auto fromDisk = [&]() -> std::optional<CompileOutcome> {
    if (textWanted) return std::nullopt;
    std::optional<CacheEntry> entry = disk.lookup(text);
    if (!entry) return std::nullopt;
    CompileOutcome outcome;
    outcome.fromCache = true;
    outcome.result.status = CompileStatus::Ok;
    outcome.result.diagnostics = std::move(entry->diagnostics);
    outcome.result.diagnosticsJson = std::move(entry->diagnosticsJson);
    outcome.result.binary = std::move(entry->binary);
    return outcome;
  };

  if (failOnMiss) {
    if (auto hit = fromDisk()) return std::move(*hit);
    CompileResult result;
    result.status = CompileStatus::Unsupported;
    result.diagnostics = "the kernel is not in the cache, and compiling was ruled out\n";
    return {std::move(result), false};
  }
  if (textWanted) {
    // What is kept differs between such requests, so they do not share a flight; the image is the same and is stored.
    CompileOutcome outcome{compileNow(request), false};
    if (outcome.result.status == CompileStatus::Ok && outcome.result.binary)
      disk.store(text, {*outcome.result.binary, outcome.result.diagnostics, outcome.result.diagnosticsJson});
    return outcome;
  }

  std::shared_ptr<Flight> flight;
  bool leader = false;
  {
    std::lock_guard lock(mutex);
    std::shared_ptr<Flight> &slot = flights[text];
    if (!slot) {
      slot = std::make_shared<Flight>();
      leader = true;
    }
    flight = slot;
  }
  if (!leader) {
    std::unique_lock lock(flight->mutex);
    flight->landed.wait(lock, [&] { return flight->done; });
    return {flight->result, true};
  }

  CompileOutcome outcome;
  try {
    // Looked up by the leader only, after it owns the key: otherwise a thread that missed just before another's store
    // compiles again.
    if (auto hit = fromDisk())
      outcome = std::move(*hit);
    else {
      outcome.result = compileNow(request);
      if (outcome.result.status == CompileStatus::Ok && outcome.result.binary)
        disk.store(text, {*outcome.result.binary, outcome.result.diagnostics, outcome.result.diagnosticsJson});
    }
  } catch (const std::exception &problem) { // out of memory, say: those who wait must be told
    outcome.result = internalError(problem.what());
  }
  {
    std::lock_guard lock(mutex);
    flights.erase(text);
  }
  std::lock_guard lock(flight->mutex);
  flight->result = outcome.result;
  flight->done = true;
  flight->landed.notify_all();
  return outcome;
}

} // namespace tlx::runtime
