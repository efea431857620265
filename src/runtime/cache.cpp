// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See cache.h.
#include "runtime/cache.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <pwd.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/SHA256.h"

namespace tlx::runtime {

namespace {

constexpr char kMagic[8] = {'T', 'L', 'X', 'J', 'I', 'T', 'C', '\n'};
constexpr uint32_t kSchema = 1;
constexpr size_t kParts = 5; // key, metadata, diagnostics, diagnostics as JSON, image
constexpr size_t kSizesAt = 16, kChecksumAt = kSizesAt + 8 * kParts, kChecksumSize = 32;
constexpr size_t kHeaderSize = kChecksumAt + kChecksumSize;
constexpr const char *kSuffix = ".tlxk";
constexpr const char *kTemporaryPrefix = "tmp-";
constexpr time_t kTouchAfter = 60 * 60;     // of use: coarse, so that hits rarely write
constexpr time_t kStaleTemporary = 60 * 60; // no writer takes that long

llvm::ArrayRef<uint8_t> bytesOf(llvm::StringRef text) {
  return {reinterpret_cast<const uint8_t *>(text.data()), text.size()};
}

std::array<uint8_t, 32> checksum(llvm::StringRef file) {
  llvm::SHA256 hash;
  hash.update(bytesOf(file.take_front(kChecksumAt)));
  hash.update(bytesOf(file.drop_front(kHeaderSize)));
  return hash.final();
}

class File {
public:
  explicit File(int fd) : fd(fd) {}
  ~File() {
    if (fd >= 0) ::close(fd);
  }
  File(const File &) = delete;
  int fd;
};

/// Reads a whole file; false with errno on an error. A file that changes under us comes out short or long, and decode
/// refuses it.
bool readAll(int fd, size_t size, std::string &out) {
  out.resize(size);
  size_t done = 0;
  while (done < size) {
    const ssize_t n = ::read(fd, out.data() + done, size - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    if (n == 0) break;
    done += size_t(n);
  }
  out.resize(done);
  return true;
}

bool writeAll(int fd, llvm::StringRef bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes = bytes.drop_front(size_t(n));
  }
  return true;
}

std::string defaultDirectory() {
  auto fromEnvironment = [](const char *name) -> std::string {
    const char *value = std::getenv(name);
    return value ? value : "";
  };
  if (std::string dir = fromEnvironment("TLX_CACHE_DIR"); !dir.empty()) return dir;
  // The XDG specification says that a relative path there is to be ignored.
  if (std::string dir = fromEnvironment("XDG_CACHE_HOME"); !dir.empty() && dir[0] == '/') return dir + "/tlxjit";
  std::string home = fromEnvironment("HOME");
  if (home.empty()) {
    char buffer[4096];
    passwd entry, *found = nullptr;
    if (getpwuid_r(geteuid(), &entry, buffer, sizeof buffer, &found) == 0 && found) home = entry.pw_dir;
  }
  return home.empty() ? "" : home + "/.cache/tlxjit";
}

/// mkdir -p; the last directory, which is ours, with mode 0700.
bool makeDirectories(const std::string &path) {
  for (size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1))
    if (::mkdir(path.substr(0, at).c_str(), 0777) != 0 && errno != EEXIST && errno != EROFS && errno != EACCES)
      return false;
  return ::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST;
}

std::string reason(int error) {
  return std::strerror(error);
}

} // namespace

std::string DiskCache::fileName(const std::string &key) {
  return llvm::toHex(llvm::SHA256::hash(bytesOf(key)), /*LowerCase=*/true) + kSuffix;
}

std::string DiskCache::encode(const std::string &key, const CacheEntry &entry) {
  const std::string metadata = toJson(entry.binary.metadata);
  const llvm::StringRef image(reinterpret_cast<const char *>(entry.binary.image.data()), entry.binary.image.size());
  const llvm::StringRef parts[kParts] = {key, metadata, entry.diagnostics, entry.diagnosticsJson, image};
  size_t total = kHeaderSize;
  for (llvm::StringRef part : parts) total += part.size();
  std::string file(kHeaderSize, '\0');
  file.reserve(total);
  std::memcpy(file.data(), kMagic, sizeof kMagic);
  llvm::support::endian::write32le(file.data() + 8, kSchema);
  llvm::support::endian::write32le(file.data() + 12, uint32_t(entry.binary.kind));
  for (size_t i = 0; i < kParts; ++i) llvm::support::endian::write64le(file.data() + kSizesAt + 8 * i, parts[i].size());
  for (llvm::StringRef part : parts) file.append(part.data(), part.size());
  const auto sum = checksum(file);
  std::memcpy(file.data() + kChecksumAt, sum.data(), sum.size());
  return file;
}

std::optional<CacheEntry> DiskCache::decode(llvm::StringRef bytes, const std::string &key, std::string &why) {
  auto bad = [&](const char *text) {
    why = text;
    return std::nullopt;
  };
  if (bytes.size() < kHeaderSize) return bad("shorter than a header");
  if (std::memcmp(bytes.data(), kMagic, sizeof kMagic) != 0) return bad("not a cache entry");
  if (llvm::support::endian::read32le(bytes.data() + 8) != kSchema) return bad("another schema");
  const uint32_t kind = llvm::support::endian::read32le(bytes.data() + 12);
  if (kind > uint32_t(Binary::Kind::SimBitcode)) return bad("unknown kind of image");
  llvm::StringRef rest = bytes.drop_front(kHeaderSize), parts[kParts];
  for (size_t i = 0; i < kParts; ++i) {
    const uint64_t size = llvm::support::endian::read64le(bytes.data() + kSizesAt + 8 * i);
    if (size > rest.size()) return bad("truncated");
    parts[i] = rest.take_front(size_t(size));
    rest = rest.drop_front(size_t(size));
  }
  if (!rest.empty()) return bad("longer than its header says");
  const auto sum = checksum(bytes);
  if (std::memcmp(sum.data(), bytes.data() + kChecksumAt, sum.size()) != 0) return bad("wrong checksum");
  if (parts[0] != llvm::StringRef(key)) return bad("another kernel's entry");
  std::optional<KernelMetadata> metadata = metadataFromJson(parts[1].str(), why);
  if (!metadata) return std::nullopt;
  CacheEntry entry;
  entry.binary.kind = Binary::Kind(kind);
  entry.binary.metadata = std::move(*metadata);
  entry.binary.image.assign(parts[4].bytes_begin(), parts[4].bytes_end());
  entry.diagnostics = parts[2].str();
  entry.diagnosticsJson = parts[3].str();
  return entry;
}

DiskCache::DiskCache(const CacheOptions &options, const Log &log) : log(log), maxBytes(options.maxBytes) {
  open(options);
}

DiskCache::~DiskCache() {
  if (directoryFd >= 0) ::close(directoryFd);
}

void DiskCache::open(const CacheOptions &options) {
  CacheMode mode = CacheMode::ReadWrite;
  if (options.mode)
    mode = *options.mode;
  else if (const char *text = std::getenv("TLX_CACHE")) {
    const llvm::StringRef value(text);
    if (value == "off")
      mode = CacheMode::Off;
    else if (value == "readonly")
      mode = CacheMode::ReadOnly;
    else if (!value.empty() && value != "on")
      log.warning("TLX_CACHE=" + value.str() + " is not off, readonly or on: taken as on");
  }
  if (mode == CacheMode::Off) return;
  readOnly = mode == CacheMode::ReadOnly;
  path = options.directory.empty() ? defaultDirectory() : options.directory;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  if (path.empty()) {
    log.warning("no directory for the kernel cache (no TLX_CACHE_DIR, XDG_CACHE_HOME or HOME): compiling without it");
    return;
  }
  if (!readOnly && !makeDirectories(path)) {
    log.warning("cannot make the cache directory " + path + ": " + reason(errno) + "; compiling without it");
    return;
  }
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) {
    log.warning("cannot open the cache directory " + path + ": " + reason(errno) + "; compiling without it");
    return;
  }
  // Whoever can write there can put code into this process. Checked on the open directory, so that it cannot be
  // exchanged after. A directory that an administrator prepared (root's) is good for reading.
  struct stat info;
  const bool known = ::fstat(fd, &info) == 0;
  const bool ours = known && (info.st_uid == geteuid() || (readOnly && info.st_uid == 0));
  if (!ours || (info.st_mode & (S_IWGRP | S_IWOTH))) {
    log.warning("the cache directory " + path + (ours ? " can be written by others" : " belongs to another user") +
                "; compiling without it");
    ::close(fd);
    return;
  }
  directoryFd = fd;
}

void DiskCache::stopWriting(const std::string &why) {
  // Once, not at every kernel: an unwritable directory stays one.
  if (!readOnly.exchange(true)) log.warning("the kernel cache in " + path + " is read-only from here on: " + why);
}

std::optional<CacheEntry> DiskCache::lookup(const std::string &key) {
  auto miss = [&] {
    misses.fetch_add(1);
    return std::nullopt;
  };
  if (!canRead()) return miss();
  const std::string name = fileName(key);
  File file(::openat(directoryFd, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  auto ioError = [&](const char *what) {
    const int error = errno;
    ioErrors.fetch_add(1);
    log.warning("cache entry " + name + ": " + what + ": " + reason(error));
    return miss();
  };
  if (file.fd < 0) return errno == ENOENT ? miss() : ioError("open");
  struct stat info;
  if (::fstat(file.fd, &info) != 0) return ioError("stat");
  if (!S_ISREG(info.st_mode)) {
    errno = EINVAL;
    return ioError("not a plain file");
  }
  std::string bytes, why;
  if (!readAll(file.fd, size_t(info.st_size), bytes)) return ioError("read");
  std::optional<CacheEntry> entry = decode(bytes, key, why);
  if (!entry) {
    damaged.fetch_add(1);
    log.warning("cache entry " + name + ": " + why + "; compiling again");
    // If another process has put a good entry there meanwhile, this deletes that one: a compile more, never a wrong
    // kernel.
    if (canWrite()) ::unlinkat(directoryFd, name.c_str(), 0);
    return miss();
  }
  if (canWrite() && info.st_mtime + kTouchAfter < ::time(nullptr)) {
    const timespec now[2] = {{0, UTIME_OMIT}, {0, UTIME_NOW}};
    (void)::futimens(file.fd, now);
  }
  hits.fetch_add(1);
  return entry;
}

void DiskCache::store(const std::string &key, const CacheEntry &entry) {
  if (!canWrite()) return;
  const std::string file = encode(key, entry), name = fileName(key);
  uint64_t random = 0;
  if (::getrandom(&random, sizeof random, 0) != ssize_t(sizeof random)) random = uint64_t(uintptr_t(&random));
  static std::atomic<unsigned> serial{0};
  const std::string temporary = kTemporaryPrefix + std::to_string(::getpid()) + "-" + llvm::utohexstr(random) + "-" +
                                std::to_string(serial.fetch_add(1));
  auto fail = [&](const char *what, int error) {
    ioErrors.fetch_add(1);
    ::unlinkat(directoryFd, temporary.c_str(), 0);
    log.warning("cannot store a kernel in the cache " + path + ": " + what + ": " + reason(error));
  };
  {
    File out(::openat(directoryFd, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (out.fd < 0) {
      if (errno == EACCES || errno == EROFS || errno == EPERM || errno == ENOENT) return stopWriting(reason(errno));
      return fail("create", errno);
    }
    if (!writeAll(out.fd, file)) return fail("write", errno);
    // The rename must not become durable before the bytes: after a power loss the checksum would catch it, but only at
    // the next use.
    if (::fsync(out.fd) != 0) return fail("sync", errno);
  }
  if (::renameat(directoryFd, temporary.c_str(), directoryFd, name.c_str()) != 0) return fail("rename", errno);
  stores.fetch_add(1);
  // Debounced: a sweep reads the directory, so it comes once per 1/16 of the bound (and at the first store of a
  // process).
  if (maxBytes && writtenSinceSweep.fetch_add(file.size()) + file.size() > maxBytes / 16) {
    writtenSinceSweep = 0;
    sweep();
  }
}

void DiskCache::sweep() {
  if (!canWrite()) return;
  const int fd = ::openat(directoryFd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *directory = fd >= 0 ? ::fdopendir(fd) : nullptr;
  if (!directory) {
    if (fd >= 0) ::close(fd);
    return;
  }
  struct Item {
    timespec used;
    uint64_t size;
    std::string name;
  };
  std::vector<Item> items;
  uint64_t total = 0;
  const time_t now = ::time(nullptr);
  while (const dirent *entry = ::readdir(directory)) {
    const llvm::StringRef name = entry->d_name;
    const bool temporary = name.starts_with(kTemporaryPrefix);
    if (!temporary && !name.ends_with(kSuffix)) continue; // not ours: leave it alone
    struct stat info;
    if (::fstatat(directoryFd, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode)) continue;
    if (temporary) {
      if (info.st_mtime + kStaleTemporary < now) ::unlinkat(directoryFd, entry->d_name, 0);
      continue;
    }
    items.push_back({info.st_mtim, uint64_t(info.st_size), name.str()});
    total += uint64_t(info.st_size);
  }
  ::closedir(directory);
  if (!maxBytes || total <= maxBytes) return;
  std::sort(items.begin(), items.end(), [](const Item &a, const Item &b) {
    return std::tie(a.used.tv_sec, a.used.tv_nsec, a.name) < std::tie(b.used.tv_sec, b.used.tv_nsec, b.name);
  });
  const uint64_t goal = maxBytes - maxBytes / 10; // some room, so that the next store does not sweep again
  for (const Item &item : items) {
    if (total <= goal) break;
    // On Linux an open entry stays readable after unlink: a reader elsewhere is not disturbed.
    if (::unlinkat(directoryFd, item.name.c_str(), 0) == 0) evicted.fetch_add(1);
    total -= item.size;
  }
}

CacheCounters DiskCache::counters() const {
  return {hits.load(), misses.load(), stores.load(), damaged.load(), ioErrors.load(), evicted.load()};
}

} // namespace tlx::runtime
