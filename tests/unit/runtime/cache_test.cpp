// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <csignal>
#include <cstdlib>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/cache.h"
#include "test_metadata.h"

using namespace tlx;
using namespace tlx::runtime;
namespace fs = std::filesystem;

namespace {

struct TempDir {
  TempDir() {
    char name[] = "/tmp/tlx-cache-test-XXXXXX";
    REQUIRE(mkdtemp(name));
    path = name;
  }
  ~TempDir() {
    std::error_code ignored;
    fs::permissions(path, fs::perms::owner_all, ignored);
    fs::remove_all(path, ignored);
  }
  std::string path;
};

CacheOptions in(const std::string &directory) {
  CacheOptions options;
  options.directory = directory;
  options.mode = CacheMode::ReadWrite;
  return options;
}

CacheEntry sampleEntry(uint8_t fill = 0) {
  CacheEntry entry;
  entry.binary = test::sampleBinary(Binary::Kind::Cubin);
  if (fill) entry.binary.image.assign(4096, fill);
  entry.diagnostics = "a.tlx:1:2: warning: something\n";
  entry.diagnosticsJson = "[{\"id\": \"X\"}]";
  return entry;
}

std::string read(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void write(const std::string &path, const std::string &bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}
size_t filesIn(const std::string &path) {
  size_t n = 0;
  for ([[maybe_unused]] const auto &entry : fs::directory_iterator(path)) ++n;
  return n;
}

const Log quiet;
const std::string kKey = "6:source4:spec";

} // namespace

TEST_CASE("an entry comes back as it went in") {
  TempDir dir;
  DiskCache cache(in(dir.path + "/deep/er"), quiet);
  REQUIRE(cache.canWrite());
  struct stat info;
  REQUIRE(stat((dir.path + "/deep/er").c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0700);
  CHECK(!cache.lookup(kKey));
  const CacheEntry entry = sampleEntry();
  cache.store(kKey, entry);
  const auto found = cache.lookup(kKey);
  REQUIRE(found);
  CHECK(found->binary.image == entry.binary.image);
  CHECK(found->binary.kind == Binary::Kind::Cubin);
  CHECK(toJson(found->binary.metadata) == toJson(entry.binary.metadata));
  CHECK(found->diagnostics == entry.diagnostics);
  CHECK(found->diagnosticsJson == entry.diagnosticsJson);
  CHECK(!cache.lookup(kKey + "x"));
  const CacheCounters counters = cache.counters();
  CHECK(counters.hits == 1);
  CHECK(counters.misses == 2);
  CHECK(counters.stores == 1);
  CHECK(filesIn(dir.path + "/deep/er") == 1); // no temporary file is left
}

TEST_CASE("truncation at every length, and every flipped byte, is seen") {
  const std::string good = DiskCache::encode(kKey, sampleEntry());
  std::string why;
  REQUIRE(DiskCache::decode(good, kKey, why));
  for (size_t n = 0; n < good.size(); ++n) CHECK_MESSAGE(!DiskCache::decode(good.substr(0, n), kKey, why), n);
  CHECK(!DiskCache::decode(good + "x", kKey, why));
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] ^= char(1 << (i % 8));
    CHECK_MESSAGE(!DiskCache::decode(bad, kKey, why), i);
  }
  CHECK(!DiskCache::decode(good, kKey + "y", why));
  CHECK(why == "another kernel's entry");
}

TEST_CASE("a damaged or foreign entry is deleted and stored again") {
  TempDir dir;
  DiskCache cache(in(dir.path), quiet);
  cache.store(kKey, sampleEntry());
  const std::string path = dir.path + "/" + DiskCache::fileName(kKey), good = read(path);
  for (size_t n : {size_t(0), size_t(1), size_t(50), good.size() - 1}) {
    write(path, good.substr(0, n));
    CHECK(!cache.lookup(kKey));
    CHECK(!fs::exists(path));
    cache.store(kKey, sampleEntry());
    CHECK(cache.lookup(kKey));
  }
  write(path, DiskCache::encode("another key", sampleEntry())); // as if two keys had one hash
  CHECK(!cache.lookup(kKey));
  CHECK(!fs::exists(path));
  CHECK(cache.counters().damaged == 5);
}

TEST_CASE("what is not a plain file is a miss and stays") {
  TempDir dir;
  DiskCache cache(in(dir.path), quiet);
  const std::string path = dir.path + "/" + DiskCache::fileName(kKey);
  fs::create_directory(path);
  CHECK(!cache.lookup(kKey));
  CHECK(fs::exists(path));
  fs::remove(path);
  write(dir.path + "/elsewhere", DiskCache::encode(kKey, sampleEntry()));
  fs::create_symlink(dir.path + "/elsewhere", path);
  CHECK(!cache.lookup(kKey)); // links are not followed
  fs::remove(path);
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  CHECK(!cache.lookup(kKey)); // and a pipe does not block
  CHECK(cache.counters().ioErrors == 3);
}

TEST_CASE("directories that others can write, or own, are refused") {
  TempDir dir;
  fs::permissions(dir.path, fs::perms::all);
  CHECK(!DiskCache(in(dir.path), quiet).canRead());
  fs::permissions(dir.path, fs::perms::owner_all);
  CHECK(DiskCache(in(dir.path), quiet).canRead());
  if (geteuid() == 0) {
    REQUIRE(chown(dir.path.c_str(), 12345, 12345) == 0);
    CHECK(!DiskCache(in(dir.path), quiet).canRead());
    REQUIRE(chown(dir.path.c_str(), 0, 0) == 0);
  }
}

TEST_CASE("a directory that cannot be written turns writing off once, and is still read") {
  TempDir dir;
  { DiskCache(in(dir.path), quiet).store(kKey, sampleEntry()); }
  // Root may write anywhere, so the test continues as another user where it must.
  const pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0) {
      if (chown(dir.path.c_str(), 12345, 12345) != 0) _exit(10);
      if (chown((dir.path + "/" + DiskCache::fileName(kKey)).c_str(), 12345, 12345) != 0) _exit(10);
      if (setgid(12345) != 0 || setuid(12345) != 0) _exit(11);
    }
    if (chmod(dir.path.c_str(), 0500) != 0) _exit(12);
    unsigned warnings = 0;
    const Log log([&](LogLevel, const std::string &) { ++warnings; });
    DiskCache cache(in(dir.path), log);
    if (!cache.canWrite() || !cache.lookup(kKey)) _exit(13);
    cache.store("a", sampleEntry());
    if (cache.canWrite()) _exit(14);
    cache.store("b", sampleEntry());
    if (warnings != 1) _exit(15);
    if (!cache.lookup(kKey)) _exit(16);
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("off and read-only") {
  TempDir dir;
  CacheOptions options = in(dir.path + "/x");
  options.mode = CacheMode::Off;
  CHECK(!DiskCache(options, quiet).canRead());
  CHECK(!fs::exists(dir.path + "/x"));
  options.mode = CacheMode::ReadOnly;
  CHECK(!DiskCache(options, quiet).canRead()); // and makes no directory
  CHECK(!fs::exists(dir.path + "/x"));
  { DiskCache(in(dir.path + "/x"), quiet).store(kKey, sampleEntry()); }
  DiskCache cache(options, quiet);
  CHECK(cache.lookup(kKey));
  const std::string path = dir.path + "/x/" + DiskCache::fileName(kKey);
  write(path, "damaged");
  CHECK(!cache.lookup(kKey));
  CHECK(fs::exists(path)); // read-only deletes nothing
  cache.store("other", sampleEntry());
  CHECK(filesIn(dir.path + "/x") == 1);

  options.mode.reset();
  setenv("TLX_CACHE", "off", 1);
  CHECK(!DiskCache(options, quiet).canRead());
  setenv("TLX_CACHE", "readonly", 1);
  CHECK(!DiskCache(options, quiet).canWrite());
  unsetenv("TLX_CACHE");
  CHECK(DiskCache(options, quiet).canWrite());
  setenv("TLX_CACHE_DIR", (dir.path + "/env").c_str(), 1);
  options.directory.clear();
  CHECK(DiskCache(options, quiet).directory() == dir.path + "/env");
  unsetenv("TLX_CACHE_DIR");
  setenv("XDG_CACHE_HOME", dir.path.c_str(), 1);
  CHECK(DiskCache(options, quiet).directory() == dir.path + "/tlxjit");
  unsetenv("XDG_CACHE_HOME");
}

TEST_CASE("the least recently used entries go first") {
  TempDir dir;
  CacheOptions options = in(dir.path);
  options.maxBytes = 60000; // a dozen entries of some 5 KB
  DiskCache cache(options, quiet);
  auto path = [&](int i) { return dir.path + "/" + DiskCache::fileName("key" + std::to_string(i)); };
  for (int i = 0; i < 40; ++i) {
    cache.store("key" + std::to_string(i), sampleEntry(1));
    // An hour apart, in the past; entry 0 was used a moment ago.
    const time_t then = time(nullptr) - (i == 0 ? 0 : (100 - i) * 3600);
    const timespec times[2] = {{then, 0}, {then, 0}};
    utimensat(AT_FDCWD, path(i).c_str(), times, 0);
  }
  write(dir.path + "/tmp-1-DEAD-0", "left by a killed writer");
  const timespec old[2] = {{1, 0}, {1, 0}};
  utimensat(AT_FDCWD, (dir.path + "/tmp-1-DEAD-0").c_str(), old, 0);
  write(dir.path + "/tmp-2-BEEF-0", "being written");
  write(dir.path + "/notes.txt", "not ours");
  cache.sweep();
  uint64_t total = 0;
  for (int i = 0; i < 40; ++i)
    if (fs::exists(path(i))) total += fs::file_size(path(i));
  CHECK(total <= options.maxBytes);
  CHECK(total > options.maxBytes / 2);
  CHECK(fs::exists(path(0)));
  CHECK(fs::exists(path(39)));
  CHECK(!fs::exists(path(1)));
  CHECK(!fs::exists(dir.path + "/tmp-1-DEAD-0"));
  CHECK(fs::exists(dir.path + "/tmp-2-BEEF-0"));
  CHECK(fs::exists(dir.path + "/notes.txt"));
  CHECK(cache.counters().evicted > 0);
}

TEST_CASE("several processes write and read the same keys") {
  TempDir dir;
  std::vector<pid_t> children;
  for (int c = 0; c < 4; ++c) {
    const pid_t child = fork();
    if (child == 0) {
      DiskCache cache(in(dir.path), quiet);
      for (int round = 0; round < 40; ++round) {
        const int k = (round * 7 + c) % 5;
        const std::string key = "shared" + std::to_string(k);
        if (auto found = cache.lookup(key); found && found->binary.image != std::vector<uint8_t>(4096, uint8_t(k + 1)))
          _exit(1);
        cache.store(key, sampleEntry(uint8_t(k + 1)));
      }
      _exit(cache.counters().damaged ? 2 : 0);
    }
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(status == 0);
  }
  CHECK(filesIn(dir.path) == 5);
}

TEST_CASE("a writer killed at any moment leaves no wrong entry") {
  TempDir dir;
  for (int round = 0; round < 20; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      DiskCache cache(in(dir.path), quiet);
      for (;;) cache.store(kKey, sampleEntry(uint8_t(round + 1)));
    }
    usleep(useconds_t(1000 + round * 700));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    DiskCache cache(in(dir.path), quiet);
    if (const auto found = cache.lookup(kKey)) {
      const uint8_t first = found->binary.image[0];
      CHECK(found->binary.image == std::vector<uint8_t>(4096, first));
    }
    CHECK(cache.counters().damaged == 0);
  }
}

TEST_CASE("a full disk is survived") {
  // RLIMIT_FSIZE makes write fail as a full disk does (with SIGXFSZ ignored).
  TempDir dir;
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    DiskCache cache(in(dir.path), quiet);
    const rlimit limit{1000, 1000};
    setrlimit(RLIMIT_FSIZE, &limit);
    cache.store(kKey, sampleEntry(1));
    _exit(cache.counters().ioErrors == 1 && filesIn(dir.path) == 0 && !cache.lookup(kKey) ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(status == 0);
}
