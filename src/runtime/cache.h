// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The on-disk cache of compiled kernels. One file is one entry; its name is the SHA-256 of the key, and it holds the
// full key, so that nothing rests on the hash alone. Readers take no lock and trust nothing: a damaged, truncated or
// foreign entry is deleted and the kernel compiled again; an I/O error is a miss and deletes nothing.
//
// Layout of an entry (integers little-endian):
//   magic "TLXJITC\n" | u32 schema | u32 image kind | u64 sizes: key, metadata, diagnostics, diagnostics as JSON, image
//   | SHA-256 of all other bytes of the file | key | metadata (JSON) | diagnostics | diagnostics as JSON | image
#pragma once
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "llvm/ADT/StringRef.h"

#include "runtime/log.h"
#include "support/metadata.h"

namespace tlx::runtime {

enum class CacheMode : uint8_t { ReadWrite = 0, ReadOnly = 1, Off = 2 };

struct CacheOptions {
  std::string directory;          // empty: TLX_CACHE_DIR, $XDG_CACHE_HOME/tlxjit, ~/.cache/tlxjit
  std::optional<CacheMode> mode;  // unset: TLX_CACHE=off|readonly|on, else ReadWrite
  uint64_t maxBytes = 1ull << 30; // of all entries; beyond, the least recently used ones go. 0: no bound
};

struct CacheCounters {
  uint64_t hits = 0, misses = 0, stores = 0, damaged = 0, ioErrors = 0, evicted = 0;
};

/// What is kept of a compile. Warnings are part of it: a hit says what the compile said.
struct CacheEntry {
  Binary binary;
  std::string diagnostics, diagnosticsJson;
};

/// Thread-safe, and safe among processes that share the directory.
class DiskCache {
public:
  DiskCache(const CacheOptions &options, const Log &log);
  ~DiskCache();
  DiskCache(const DiskCache &) = delete;
  DiskCache &operator=(const DiskCache &) = delete;

  std::optional<CacheEntry> lookup(const std::string &key);
  /// Best effort: a failure is logged and leaves no partial entry.
  void store(const std::string &key, const CacheEntry &entry);
  /// Deletes least recently used entries until the size is under the bound, and what killed writers left. store() calls
  /// it at times.
  void sweep();

  bool canRead() const { return directoryFd >= 0; }
  bool canWrite() const { return canRead() && !readOnly.load(); }
  const std::string &directory() const { return path; }
  CacheCounters counters() const;

  static std::string fileName(const std::string &key);
  static std::string encode(const std::string &key, const CacheEntry &entry);
  /// nullopt with the reason if the bytes are not a whole entry of this key.
  static std::optional<CacheEntry> decode(llvm::StringRef bytes, const std::string &key, std::string &why);

private:
  void open(const CacheOptions &options);
  void stopWriting(const std::string &why);

  const Log &log;
  std::string path;
  int directoryFd = -1;
  std::atomic<bool> readOnly{false};
  uint64_t maxBytes = 0;
  std::atomic<uint64_t> writtenSinceSweep{UINT64_MAX / 2}; // so that the first store sweeps
  std::atomic<uint64_t> hits{0}, misses{0}, stores{0}, damaged{0}, ioErrors{0}, evicted{0};
};

} // namespace tlx::runtime
