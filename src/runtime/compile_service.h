// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compiles with the cache in front: one compile per key at a time in the process, each on a guarded thread.
#pragma once
#include <condition_variable>
#include <map>
#include <mutex>

#include "compiler/compiler.h"
#include "runtime/cache.h"

namespace tlx::runtime {

/// The compiler behind the service; tests put their own here.
struct CompilerFunctions {
  std::function<CompileResult(const CompileRequest &)> compile;
  std::function<std::optional<std::string>(const CompileRequest &)> key;
  static CompilerFunctions standard();
};

struct CompileOutcome {
  CompileResult result;
  bool fromCache = false;
};

class CompileService {
public:
  CompileService(CompilerFunctions functions, const CacheOptions &cache, const Log &log);

  /// Thread-safe. A request that asks for text beside the image (IR, assembly, …) or for verification is compiled even
  /// if the cache has the image. With `failOnMiss` nothing is compiled: the result is Unsupported if the cache has no
  /// entry.
  CompileOutcome compileCached(const CompileRequest &request, bool failOnMiss = false);

  DiskCache &cache() { return disk; }

private:
  struct Flight;
  CompileResult compileNow(const CompileRequest &request);

  CompilerFunctions functions;
  const Log &log;
  DiskCache disk;
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Flight>> flights; // by key
};

} // namespace tlx::runtime
