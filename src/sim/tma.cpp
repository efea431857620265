// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Hopper's tensor memory accelerator (PTX ISA 9.0, "cp.async.bulk.tensor", "Tensor Swizzling Modes"): loads that arrive
// at an mbarrier, stores and reductions in bulk groups. What can be checked is checked at issue, so that findings do
// not depend on the moment at which the schedule moves the bytes.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "sim/engine.h"
#include "sim/exact.h"
#include "sim/matrix.h"
#include "sim/round.h"
#include "sim/text.h"

namespace tlx::sim {

namespace {
uint32_t boxBytes(const TensorMap &m) {
  uint64_t n = m.elementBytes;
  for (unsigned d = 0; d < m.rank; ++d) n *= m.box[d];
  return uint32_t(std::min<uint64_t>(n, kWindowBytes + 1)); // more fits nowhere
}
uint32_t rowBytes(const TensorMap &m) {
  return m.box[0] * m.elementBytes;
}

/// 16-byte units of a row are permuted by bits of the address: 128: [4:6] ^= [7:9], 64: [4:5] ^= [7:8], 32: [4] ^= [7].
/// Windows are aligned to more than the pattern, so an offset does as well.
uint32_t swizzled(uint32_t offset, uint32_t swizzle) {
  return swizzle ? offset ^ ((offset >> 7 & (swizzle / 16 - 1)) << 4) : offset;
}

/// Calls f(row of the box, address, first byte of the row, bytes) with the part of each row that lies inside the
/// tensor; 0 bytes if none does.
template <typename F> void forEachRow(const TensorMap &m, const int32_t *at, F f) {
  uint32_t rows = 1;
  for (unsigned d = 1; d < m.rank; ++d) rows *= m.box[d];
  const int64_t low = std::max<int64_t>(0, -int64_t(at[0])),
                high = std::min<int64_t>(m.box[0], int64_t(m.shape[0]) - at[0]);
  uint32_t index[5] = {};
  for (uint32_t row = 0; row < rows; ++row) {
    bool inside = low < high;
    uint64_t address = m.base + uint64_t(int64_t(at[0]) + low) * m.elementBytes;
    for (unsigned d = 1; d < m.rank; ++d) {
      const int64_t i = int64_t(at[d]) + index[d];
      inside &= i >= 0 && uint64_t(i) < m.shape[d];
      address += uint64_t(i) * m.strides[d - 1];
    }
    if (inside)
      f(row, uintptr_t(address), uint32_t(low * m.elementBytes), uint32_t((high - low) * m.elementBytes));
    else
      f(row, uintptr_t(0), 0u, 0u);
    for (unsigned d = 1; d < m.rank && ++index[d] == m.box[d]; ++d) index[d] = 0;
  }
}

AccessFlags wholeRow(uint32_t bytes, uint32_t flags) {
  return {AccessFlags::pack(bytes, 0, flags)};
}
} // namespace

// --- checks

const TensorMap *Engine::checkMap(const uint8_t *address, unsigned rank, uint32_t site) {
  const uintptr_t begin = reinterpret_cast<uintptr_t>(address), end = begin + sizeof(TensorMap);
  const uintptr_t first = reinterpret_cast<uintptr_t>(params.data());
  const bool readable = (begin >= first && end <= first + params.size()) || extentOf(begin, sizeof(TensorMap));
  if (!hopper)
    report(FindingKind::InvalidOperation, site, "this target has no TMA");
  else if (!readable)
    report(FindingKind::OutOfBounds, site,
           "out of bounds: the tensor map is neither a kernel parameter nor in global memory");
  else if (begin % 64)
    report(FindingKind::Misaligned, site, "misaligned: a tensor map needs an alignment of 64");
  else if (auto *map = reinterpret_cast<const TensorMap *>(address);
           map->magic != TensorMap::kMagic || map->rank < 1 || map->rank > 5 || !map->elementBytes)
    report(FindingKind::InvalidOperation, site, "there is no tensor map at this address");
  else if (rank && map->rank != rank)
    report(FindingKind::InvalidOperation, site,
           std::to_string(rank) + " coordinates for a tensor map of rank " + std::to_string(map->rank));
  else
    return map;
  return nullptr;
}

/// The rules of where a box begins in the tensor, and of its bytes in shared memory.
bool Engine::checkBox(const TensorMap &map, const int32_t *at, const uint8_t *address, const char *what, uint32_t site,
                      uint32_t &offset, uint32_t &bytes) {
  const int64_t from = address - cta().shared;
  const uint32_t row = rowBytes(map), align = map.swizzle ? 8 * map.swizzle : 128;
  bytes = boxBytes(map);
  offset = uint32_t(from);
  bool tooLong = false;
  for (unsigned d = 0; d < map.rank; ++d) tooLong |= map.box[d] > 256;
  // As measured on an H200: an illegal instruction.
  if (int64_t(at[0]) * map.elementBytes % 16)
    report(FindingKind::Misaligned, site,
           "misaligned: the innermost coordinate " + std::to_string(at[0]) + " is byte " +
               std::to_string(int64_t(at[0]) * map.elementBytes) + " of a row; TMA begins at multiples of 16");
  else if (tooLong)
    report(FindingKind::InvalidOperation, site, "a dimension of the box has more than 256 elements");
  else if (row % 16)
    report(FindingKind::InvalidOperation, site,
           "the inner extent of the box is " + countText(row, "byte") + ", which is no multiple of 16");
  else if (map.swizzle && row != map.swizzle)
    report(
        FindingKind::InvalidOperation, site,
        "the inner extent of the box is " + countText(row, "byte") + " with a swizzle of " +
            std::to_string(map.swizzle) +
            (row > map.swizzle ? ": it must not be wider" : ": the simulator knows no rows narrower than the pattern"));
  else if (bytes == 0)
    report(FindingKind::InvalidOperation, site, "the box is empty");
  else if (from < 0 || uint64_t(from) + bytes > program.sharedBytes)
    report(FindingKind::OutOfBounds, site,
           std::string("out of bounds: the ") + what + " of a box" + placeText(bytes, from) + " of " +
               countText(program.sharedBytes, "byte"));
  else if (from % align)
    report(FindingKind::Misaligned, site,
           std::string("misaligned: the ") + what + " at shared offset " + std::to_string(from) +
               " needs an alignment of " + std::to_string(align) + (map.swizzle ? " for its swizzle" : ""));
  else
    return true;
  return false;
}

/// Whether a unit may use bytes of shared memory: to write them, or to read them. What it will read must also be
/// written.
bool Engine::checkShared(Cta &cta, uint32_t offset, uint32_t bytes, bool write, const char *what, uint32_t site) {
  uint8_t worst = kWritten;
  const uint8_t *shadow = cta.shadow.data() + offset;
  for (uint32_t i = 0; i < bytes; ++i) worst = std::max(worst, shadow[i]);
  if (worst > kWritten)
    touchesUnit(worst, write ? FindingKind::SlotOverrun : FindingKind::InFlight, what, bytes, offset, site);
  if (write)
    for (uint32_t i = offset / 16; i <= (offset + bytes - 1) / 16; ++i)
      if (cta.units->readers[i]) {
        overwritten(cta, offset, bytes, what, site);
        return false;
      }
  return worst == kWritten;
}

// --- loads

void Engine::tmaLoad(uint8_t *destination, uint8_t *barrierAddress, const uint8_t *mapAddress, const int32_t *at,
                     unsigned rank, uint32_t site) {
  const TensorMap *map = checkMap(mapAddress, rank, site);
  uint32_t offset, bytes;
  if (!map || !checkBox(*map, at, destination, "destination", site, offset, bytes)) return;
  issueLoad(*map, at, offset, bytes, barrierAddress, "TMA load", site);
}

void Engine::issueLoad(const TensorMap &map, const int32_t *at, uint32_t offset, uint32_t bytes,
                       uint8_t *barrierAddress, const char *what, uint32_t site) {
  const std::string article = std::string("a ") + what;
  Mbarrier *b = barrierOf(barrierAddress, (article + " will arrive at").c_str(), site);
  if (!b) return;
  Cta &c = cta();
  Units &units = *c.units;
  checkShared(c, offset, bytes, true, what, site);
  if (uint32_t stamp = unfencedWrite(c, current->warp->index, current->lane, offset, bytes))
    missingProxyFence(stamp, (article + " overwrites bytes").c_str(), offset, site);
  if (checkRaces && !b->visible)
    report(
        FindingKind::MissingFence, site,
        "missing fence: " + article + " will arrive at " + mbarrierName(b->offset) + ", which was initialized at " +
            siteText(b->initSite) +
            ", and neither tlx.nv.fence.mbarrier.init nor tlx.nv.fence.proxy.async of that warp stands between them");
  Mark mark{c.number,
            Mark::kLoads + units.barrierAt[b->offset],
            uint32_t(b->phase),
            site,
            Mark::Kind::Write,
            false,
            uint8_t(current->lane)};
  if (checkRaces) {
    raceCheck(*c.races, offset, offset + bytes, mark, c, current->warp->index, what);
    raceRecord(*c.races, offset, offset + bytes, mark, c, current->warp->index);
  }
  mark.kind = Mark::Kind::Read;
  forEachRow(map, at, [&](uint32_t, uintptr_t address, uint32_t, uint32_t n) {
    if (!n) return;
    globalAccess(reinterpret_cast<uint8_t *>(address), wholeRow(n, AccessFlags::kRead), site);
    if (checkRaces && extentOf(address, n)) raceRow(address, n, mark, what);
  });
  uint8_t *shadow = c.shadow.data() + offset;
  for (uint32_t i = 0; i < bytes; ++i) shadow[i] = shadow[i] == kMbarrier ? uint8_t(kMbarrier) : uint8_t(kTmaInFlight);
  std::memset(c.shared + offset, 0xff, bytes);
  std::fill(&units.stamps[offset / 4], &units.stamps[(offset + bytes) / 4], 0u);

  b->loads.push_back(std::make_unique<TmaLoad>());
  TmaLoad &load = *b->loads.back();
  load.map = map;
  std::copy(at, at + map.rank, load.at);
  load.offset = offset;
  load.bytes = bytes;
  load.barrier = units.barrierAt[b->offset];
  load.site = site;
  load.phase = b->phase;
  load.thread = current;
  load.cta = &c;
  recordLoad(load);
  if (config.schedule == Schedule::Early)
    arrive(load);
  else
    openLoads.push_back(&load);
}

bool Engine::completeLoad() {
  if (openLoads.empty()) return false;
  size_t i = 0;
  if (config.schedule == Schedule::Random) i = rng() % openLoads.size();
  if (config.schedule == Schedule::Late) i = openLoads.size() - 1;
  TmaLoad *load = openLoads[i];
  openLoads.erase(openLoads.begin() + ptrdiff_t(i));
  arrive(*load);
  return true;
}

/// The bytes are written and counted.
void Engine::arrive(TmaLoad &load) {
  Cta &c = *load.cta;
  const TensorMap &m = load.map;
  const uint32_t pitch = rowBytes(m);
  alignas(64) uint8_t row[4096];
  forEachRow(m, load.at, [&](uint32_t r, uintptr_t address, uint32_t first, uint32_t n) {
    std::memset(row, 0, pitch);
    if (n && extentOf(address, n)) std::memcpy(row + first, reinterpret_cast<const void *>(address), n);
    const uint32_t to = load.offset + r * pitch;
    for (uint32_t i = 0; i < pitch; i += 16) std::memcpy(c.shared + swizzled(to + i, m.swizzle), row + i, 16);
  });
  load.arrived = true;
  if (c.trace) c.trace->operations[load.traced].end = c.trace->tick();
  Mbarrier &b = c.units->barriers[load.barrier];
  logArrival(b, {load.thread->warp->index, load.site, load.barrier, 0, load.bytes, 0, {}, b.phase, stats.switches});
  if (b.valid && b.phase != load.phase)
    report(FindingKind::WrongBytes, load.site,
           "wrong bytes: " + countText(load.bytes, "byte") + " arrive at " + mbarrierName(b.offset) + " in phase " +
               std::to_string(b.phase) + ", but were on their way since phase " + std::to_string(load.phase) +
               ": it was told to expect too few",
           load.thread);
  expectBytes(b, -int64_t(load.bytes), load.site, load.thread);
  if (b.valid) finishPhase(b, c);
}

// --- stores and reductions

namespace {
/// What bytes of global memory remember of a store in flight.
Mark storeMark(const Thread &t, uint64_t serial, BulkKind kind, uint32_t site) {
  return {t.warp->cta->number,
          Mark::kStores,
          uint32_t(serial),
          site,
          kind == BulkKind::Store ? Mark::Kind::Write : Mark::Kind::Atomic,
          false,
          uint8_t(t.lane)};
}

template <typename T> T combine(BulkKind kind, T a, T b) {
  switch (kind) {
  case BulkKind::Min:
    return std::min(a, b);
  case BulkKind::Max:
    return std::max(a, b);
  case BulkKind::And:
    return a & b;
  case BulkKind::Or:
    return a | b;
  case BulkKind::Xor:
    return a ^ b;
  default:
    return T(std::make_unsigned_t<T>(a) + std::make_unsigned_t<T>(b));
  }
}
template <typename T> void reduceIntegers(BulkKind kind, uint8_t *to, const uint8_t *from, uint32_t bytes) {
  for (uint32_t i = 0; i < bytes; i += sizeof(T)) {
    T a, b;
    std::memcpy(&a, to + i, sizeof a), std::memcpy(&b, from + i, sizeof b);
    a = combine(kind, a, b);
    std::memcpy(to + i, &a, sizeof a);
  }
}
template <typename T> void addFloats(uint8_t *to, const uint8_t *from, uint32_t bytes) {
  for (uint32_t i = 0; i < bytes; i += sizeof(T)) {
    T a, b;
    std::memcpy(&a, to + i, sizeof a), std::memcpy(&b, from + i, sizeof b);
    a += b;
    std::memcpy(to + i, &a, sizeof a);
  }
}
/// f16 and bf16: rounded once; the smaller or larger of a number and a NaN is the number.
template <typename Operand, uint16_t (*Round)(double)>
void reduceHalves(BulkKind kind, uint8_t *to, const uint8_t *from, uint32_t bytes) {
  for (uint32_t i = 0; i < bytes; i += 2) {
    uint16_t a, b;
    std::memcpy(&a, to + i, 2), std::memcpy(&b, from + i, 2);
    const double x = double(Operand::convert(a)), y = double(Operand::convert(b));
    a = Round(kind == BulkKind::Min ? std::fmin(x, y) : kind == BulkKind::Max ? std::fmax(x, y) : x + y);
    std::memcpy(to + i, &a, 2);
  }
}
void reduceExactly(BulkKind kind, FloatFormat format, unsigned size, uint8_t *to, const uint8_t *from, uint32_t bytes) {
  for (uint32_t i = 0; i < bytes; i += size) {
    uint64_t a = 0, b = 0;
    std::memcpy(&a, to + i, size), std::memcpy(&b, from + i, size);
    a = kind == BulkKind::Add ? exactAdd(format, a, b) : exactMin(format, a, b, kind == BulkKind::Max);
    std::memcpy(to + i, &a, size);
  }
}
/// Of floats in a launch with exact arithmetic. False: of integers.
bool reduceExactly(BulkKind kind, TensorMap::Element element, uint8_t *to, const uint8_t *from, uint32_t bytes) {
  using E = TensorMap::Element;
  switch (element) {
  case E::F16:
    return reduceExactly(kind, FloatFormat::F16, 2, to, from, bytes), true;
  case E::BF16:
    return reduceExactly(kind, FloatFormat::BF16, 2, to, from, bytes), true;
  case E::F32:
    return reduceExactly(kind, FloatFormat::F32, 4, to, from, bytes), true;
  case E::F64:
    return reduceExactly(kind, FloatFormat::F64, 8, to, from, bytes), true;
  default:
    return false;
  }
}
void reduceRow(BulkKind kind, TensorMap::Element element, uint8_t *to, const uint8_t *from, uint32_t bytes) {
  using E = TensorMap::Element;
  switch (element) {
  case E::U32:
    return reduceIntegers<uint32_t>(kind, to, from, bytes);
  case E::I32:
    return reduceIntegers<int32_t>(kind, to, from, bytes);
  case E::U64:
    return reduceIntegers<uint64_t>(kind, to, from, bytes);
  case E::I64:
    return reduceIntegers<int64_t>(kind, to, from, bytes);
  case E::F16:
    return reduceHalves<HalfOperand, toF16>(kind, to, from, bytes);
  case E::BF16:
    return reduceHalves<BFloatOperand, doubleToBf16>(kind, to, from, bytes);
  case E::F32:
    return addFloats<float>(to, from, bytes);
  case E::F64:
    return addFloats<double>(to, from, bytes);
  case E::U8:
  case E::U16:
    return; // refused at issue
  }
}
/// PTX ISA, "cp.reduce.async.bulk": which operation there is for which type.
bool reduces(BulkKind kind, TensorMap::Element element) {
  using E = TensorMap::Element;
  const bool integer = element == E::U32 || element == E::I32 || element == E::U64 || element == E::I64;
  const bool half = element == E::F16 || element == E::BF16;
  switch (kind) {
  case BulkKind::Store:
    return true;
  case BulkKind::Add:
    return integer || half || element == E::F32 || element == E::F64;
  case BulkKind::Min:
  case BulkKind::Max:
    return integer || half;
  default:
    return integer;
  }
}
} // namespace

void Engine::tmaStore(BulkKind kind, uint8_t *source, const uint8_t *mapAddress, const int32_t *at, unsigned rank,
                      uint32_t site) {
  const TensorMap *map = checkMap(mapAddress, rank, site);
  uint32_t offset, bytes;
  if (!map || !checkBox(*map, at, source, "source", site, offset, bytes)) return;
  if (!reduces(kind, map->element))
    return report(FindingKind::InvalidOperation, site, "TMA has no such reduction of the tensor's element type");
  // As measured on an H200: an illegal instruction. Loads take them.
  if (const int32_t *negative = std::find_if(at, at + rank, [](int32_t c) { return c < 0; }); negative != at + rank)
    return report(FindingKind::InvalidOperation, site,
                  "a TMA store takes no negative coordinate, and that of dimension " + std::to_string(negative - at) +
                      " (the innermost is 0) is " + std::to_string(*negative));
  issueStore(*map, at, offset, bytes, kind, "TMA store", site);
}

void Engine::issueStore(const TensorMap &map, const int32_t *at, uint32_t offset, uint32_t bytes, BulkKind kind,
                        const char *what, uint32_t site) {
  Thread &t = *current;
  Cta &c = cta();
  Units &units = *c.units;
  checkShared(c, offset, bytes, false, what, site);
  if (uint32_t stamp = unfencedWrite(c, t.warp->index, t.lane, offset, bytes))
    missingProxyFence(stamp, (std::string("a ") + what + " reads bytes").c_str(), offset, site);
  if (checkRaces) raceCheck(*c.races, offset, offset + bytes, markNow(Mark::Kind::Read, site), c, t.warp->index, what);
  // What falls outside the tensor need not be written.
  const uint32_t pitch = rowBytes(map);
  uint32_t unwritten = 0;
  bool cut = false; // a row at its end
  const uint64_t serial = ++asyncSerial;
  forEachRow(map, at, [&](uint32_t r, uintptr_t address, uint32_t first, uint32_t n) {
    if (!n) return;
    cut |= first + n < pitch;
    const uint32_t flags = AccessFlags::kWrite | (kind == BulkKind::Store ? 0 : AccessFlags::kRead);
    globalAccess(reinterpret_cast<uint8_t *>(address), wholeRow(n, flags), site);
    if (checkRaces && extentOf(address, n)) raceRow(address, n, storeMark(t, serial, kind, site), what);
    for (uint32_t i = first; i < first + n; ++i)
      unwritten += c.shadow[swizzled(offset + r * pitch + i, map.swizzle)] == kUnwritten;
  });
  // As measured on an H200: the last 16 bytes of a row are written whole.
  const uint64_t row = map.shape[0] * map.elementBytes, past = row % 16 ? 16 - row % 16 : 0;
  if (cut && past)
    report(FindingKind::InvalidOperation, site,
           "rows of the tensor have " + countText(row, "byte") +
               ", no multiple of 16: a TMA store to the end of a row writes " + countText(past, "byte") + " behind it");
  if (unwritten)
    report(FindingKind::UninitializedRead, site,
           "uninitialized read: " + countText(unwritten, "byte") + " of the source of a " + what +
               " at shared offset " + std::to_string(offset) + " were never written");
  for (uint32_t i = offset / 16; i < (offset + bytes) / 16; ++i) ++units.readers[i];

  BulkStore &store = t.stores.emplace_back();
  store.map = map;
  std::copy(at, at + map.rank, store.at);
  store.offset = offset;
  store.bytes = bytes;
  store.group = t.bulkGroups;
  store.site = site;
  store.kind = kind;
  store.serial = serial;
  recordStore(store);
  if (config.schedule == Schedule::Early) {
    readSource(store, c);
    writeResult(store);
  }
  if (config.schedule == Schedule::Random) openStores.push_back({&t, store.serial});
}

void Engine::readSource(BulkStore &store, Cta &cta) {
  if (store.stage != BulkStore::Stage::Issued) return;
  store.stage = BulkStore::Stage::Read;
  if (cta.trace) cta.trace->operations[store.traced].read = cta.trace->tick();
  store.data.resize(store.bytes);
  for (uint32_t i = 0; i < store.bytes; i += 16)
    std::memcpy(&store.data[i], cta.shared + swizzled(store.offset + i, store.map.swizzle), 16);
}

void Engine::writeResult(BulkStore &store) {
  if (store.stage != BulkStore::Stage::Read) return;
  store.stage = BulkStore::Stage::Written;
  const uint32_t pitch = rowBytes(store.map);
  forEachRow(store.map, store.at, [&](uint32_t r, uintptr_t address, uint32_t first, uint32_t n) {
    if (!n || !extentOf(address, n)) return;
    auto *to = reinterpret_cast<uint8_t *>(address);
    const uint8_t *from = &store.data[r * pitch + first];
    if (store.kind == BulkKind::Store)
      std::memcpy(to, from, n);
    else if (!program.exact || !reduceExactly(store.kind, store.map.element, to, from, n))
      reduceRow(store.kind, store.map.element, to, from, n);
  });
}

void Engine::releaseSource(BulkStore &store, Cta &cta) {
  if (store.readCovered) return;
  store.readCovered = true;
  if (checkRaces && current) raceReadsEnd(cta, store.offset, store.bytes, false, store.site);
  for (uint32_t i = store.offset / 16; i < (store.offset + store.bytes) / 16; ++i) --cta.units->readers[i];
}

// --- bulk copies: boxes of rows of 16 bytes, without a tensor map of the program's

namespace {
TensorMap rowsOf(const uint8_t *global, uint32_t bytes) {
  TensorMap map;
  map.rank = 2;
  map.base = reinterpret_cast<uintptr_t>(global);
  map.shape[0] = map.strides[0] = map.box[0] = 16;
  map.shape[1] = map.box[1] = bytes / 16;
  return map;
}
constexpr int32_t kStart[2] = {0, 0};
} // namespace

bool Engine::checkBulk(const uint8_t *global, const uint8_t *shared, uint32_t bytes, uint32_t site) {
  const int64_t from = shared - cta().shared;
  if (!hopper)
    report(FindingKind::InvalidOperation, site, "this target has no bulk copies");
  else if (bytes == 0 || bytes % 16)
    report(FindingKind::InvalidOperation, site,
           "a bulk copy of " + countText(bytes, "byte") + ": it moves a multiple of 16");
  else if (from < 0 || uint64_t(from) + bytes > program.sharedBytes)
    report(FindingKind::OutOfBounds, site,
           "out of bounds: a bulk copy" + placeText(bytes, from) + " of " + countText(program.sharedBytes, "byte"));
  else if (from % 16 || reinterpret_cast<uintptr_t>(global) % 16)
    report(FindingKind::Misaligned, site, "misaligned: both sides of a bulk copy need an alignment of 16");
  else
    return true;
  return false;
}

void Engine::bulkLoad(uint8_t *destination, uint8_t *barrier, uint8_t *source, uint32_t bytes, uint32_t site) {
  if (checkBulk(source, destination, bytes, site))
    issueLoad(rowsOf(source, bytes), kStart, uint32_t(destination - cta().shared), bytes, barrier, "bulk load", site);
}

void Engine::bulkStore(uint8_t *destination, uint8_t *source, uint32_t bytes, uint32_t site) {
  if (checkBulk(destination, source, bytes, site))
    issueStore(rowsOf(destination, bytes), kStart, uint32_t(source - cta().shared), bytes, BulkKind::Store,
               "bulk store", site);
}

void Engine::tmaPrefetch(const uint8_t *map, const int32_t *, unsigned rank, uint32_t site) {
  checkMap(map, rank, site);
}

void Engine::bulkCommit(uint32_t site) {
  onSync(SyncKind::StoreCommit, 0, site);
  ++current->bulkGroups;
}

void Engine::bulkWait(uint32_t keep, bool readOnly, uint32_t site) {
  Thread &t = *current;
  const uint32_t event = onSync(readOnly ? SyncKind::StoreWaitRead : SyncKind::StoreWait, keep, site);
  if (t.bulkGroups <= keep) return;
  const uint32_t covered = t.bulkGroups - keep; // groups [0, covered)
  std::erase_if(t.stores, [&](BulkStore &store) {
    if (store.group >= covered) return false;
    readSource(store, cta());
    releaseSource(store, cta());
    if (Trace *trace = cta().trace.get()) trace->covered(store.traced, event, readOnly);
    if (readOnly) return false;
    writeResult(store);
    if (checkRaces) storeEnds(store);
    return true;
  });
}

void Engine::storeEnds(const BulkStore &store) {
  const Mark mark = storeMark(*current, store.serial, store.kind, store.site);
  forEachRow(store.map, store.at, [&](uint32_t, uintptr_t address, uint32_t, uint32_t n) {
    if (n && extentOf(address, n)) raceStoreEnds(address, n, mark);
  });
}

// --- symbols

namespace {
template <typename... C> struct Tma {
  static void load(uint8_t *to, uint8_t *barrier, const uint8_t *map, C... c, uint64_t, uint32_t site) {
    const int32_t at[] = {c...};
    engine().tmaLoad(to, barrier, map, at, sizeof...(C), site);
  }
  template <BulkKind Kind> static void store(uint8_t *from, const uint8_t *map, C... c, uint64_t, uint32_t site) {
    const int32_t at[] = {c...};
    engine().tmaStore(Kind, from, map, at, sizeof...(C), site);
  }
  static void prefetch(const uint8_t *map, C... c, uint64_t, uint32_t site) {
    const int32_t at[] = {c...};
    engine().tmaPrefetch(map, at, sizeof...(C), site);
  }
};
void prefetchMap(const uint8_t *map, uint32_t site) {
  engine().tmaPrefetch(map, nullptr, 0, site);
}
void load(uint8_t *to, uint8_t *barrier, uint8_t *from, uint32_t bytes, uint64_t, uint32_t site) {
  engine().bulkLoad(to, barrier, from, bytes, site);
}
void store(uint8_t *to, uint8_t *from, uint32_t bytes, uint64_t, uint32_t site) {
  engine().bulkStore(to, from, bytes, site);
}
void commit(uint32_t site) {
  engine().bulkCommit(site);
}
void wait(uint32_t keep, uint32_t site) {
  engine().bulkWait(keep, false, site);
}
void waitRead(uint32_t keep, uint32_t site) {
  engine().bulkWait(keep, true, site);
}

#define TMA(N, ...)                                                                                                    \
  symbol("tlx.nv.tma.load." N, Tma<__VA_ARGS__>::load), symbol("tlx.nv.tma.prefetch." N, Tma<__VA_ARGS__>::prefetch),  \
      symbol("tlx.nv.tma.store." N, Tma<__VA_ARGS__>::store<BulkKind::Store>),                                         \
      symbol("tlx.nv.tma.reduce.add." N, Tma<__VA_ARGS__>::store<BulkKind::Add>),                                      \
      symbol("tlx.nv.tma.reduce.min." N, Tma<__VA_ARGS__>::store<BulkKind::Min>),                                      \
      symbol("tlx.nv.tma.reduce.max." N, Tma<__VA_ARGS__>::store<BulkKind::Max>),                                      \
      symbol("tlx.nv.tma.reduce.and." N, Tma<__VA_ARGS__>::store<BulkKind::And>),                                      \
      symbol("tlx.nv.tma.reduce.or." N, Tma<__VA_ARGS__>::store<BulkKind::Or>),                                        \
      symbol("tlx.nv.tma.reduce.xor." N, Tma<__VA_ARGS__>::store<BulkKind::Xor>)
const Symbol kSymbols[] = {
    TMA("1d", int32_t),
    TMA("2d", int32_t, int32_t),
    TMA("3d", int32_t, int32_t, int32_t),
    TMA("4d", int32_t, int32_t, int32_t, int32_t),
    TMA("5d", int32_t, int32_t, int32_t, int32_t, int32_t),
    symbol("tlx.nv.tma.prefetch.map", prefetchMap),
    symbol("tlx.nv.bulk.load", load),
    symbol("tlx.nv.bulk.store", store),
    symbol("tlx.nv.bulk.commit", commit),
    symbol("tlx.nv.bulk.wait", wait),
    symbol("tlx.nv.bulk.wait.read", waitRead),
};
#undef TMA
} // namespace

llvm::ArrayRef<Symbol> tmaOperations() {
  return kSymbols;
}

} // namespace tlx::sim
