// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "harness.h"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace harness {

float bf16ToFloat(uint16_t b) {
  uint32_t bits = uint32_t(b) << 16;
  float f;
  std::memcpy(&f, &bits, 4);
  return f;
}
uint16_t floatToBf16(float f) {
  uint32_t bits;
  std::memcpy(&bits, &f, 4);
  if (std::isnan(f)) return uint16_t(bits >> 16) | 0x40;
  return uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
float halfToFloat(uint16_t h) {
  uint32_t sign = uint32_t(h & 0x8000) << 16, exponent = h >> 10 & 31, mantissa = h & 1023;
  float f;
  if (exponent == 0)
    f = std::ldexp(float(mantissa), -24);
  else if (exponent == 31)
    f = mantissa ? NAN : INFINITY;
  else
    f = std::ldexp(float(mantissa | 1024), int(exponent) - 25);
  return sign ? -f : f;
}
uint16_t floatToHalf(float f) {
  uint16_t sign = std::signbit(f) ? 0x8000 : 0;
  if (std::isnan(f)) return sign | 0x7e00;
  double a = std::fabs(double(f));
  if (a >= 65520) return sign | 0x7c00;
  int e;
  std::frexp(a, &e);                                    // a = m · 2^e, m in [0.5, 1)
  int scale = std::max(e - 11, -24);                    // unit in the last place
  double units = std::nearbyint(std::ldexp(a, -scale)); // the default rounding mode is to nearest even
  double v = std::ldexp(units, scale);
  if (v == 0) return sign;
  std::frexp(v, &e);
  if (e - 1 < -14) return sign | uint16_t(std::ldexp(v, 24));
  return sign | uint16_t((e - 1 + 15) << 10 | (uint32_t(std::ldexp(v, 10 - (e - 1))) & 1023));
}

size_t sizeOf(const std::string &type) {
  if (type == "i1" || type == "i8" || type == "u8") return 1;
  if (type == "f16" || type == "bf16" || type == "i16" || type == "u16") return 2;
  if (type == "f32" || type == "i32" || type == "u32") return 4;
  return 8;
}

Tensor::Tensor(std::string type, size_t count)
    : type_(std::move(type)), count_(count), size_(sizeOf(type_)), data_(std::max<size_t>(1, count) * size_) {}

template <typename T> static double loadAs(const uint8_t *p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return double(v);
}
template <typename T> static void storeAs(uint8_t *p, double d) {
  T v = T(d);
  std::memcpy(p, &v, sizeof v);
}
double Tensor::get(size_t i) const {
  const uint8_t *p = data_.data() + i * size_;
  if (type_ == "f32") return loadAs<float>(p);
  if (type_ == "f64") return loadAs<double>(p);
  if (type_ == "i32") return loadAs<int32_t>(p);
  if (type_ == "u32") return loadAs<uint32_t>(p);
  if (type_ == "i64") return double(loadAs<int64_t>(p));
  if (type_ == "i16") return loadAs<int16_t>(p);
  if (type_ == "u16") return loadAs<uint16_t>(p);
  if (type_ == "i8") return loadAs<int8_t>(p);
  if (type_ == "u8" || type_ == "i1") return loadAs<uint8_t>(p);
  uint16_t bits;
  std::memcpy(&bits, p, 2);
  return type_ == "f16" ? halfToFloat(bits) : bf16ToFloat(bits);
}
void Tensor::set(size_t i, double v) {
  uint8_t *p = data_.data() + i * size_;
  if (type_ == "f32") return storeAs<float>(p, v);
  if (type_ == "f64") return storeAs<double>(p, v);
  if (type_ == "i32") return storeAs<int32_t>(p, v);
  if (type_ == "u32") return storeAs<uint32_t>(p, v);
  if (type_ == "i64") return storeAs<int64_t>(p, v);
  if (type_ == "i16") return storeAs<int16_t>(p, v);
  if (type_ == "u16") return storeAs<uint16_t>(p, v);
  if (type_ == "i8") return storeAs<int8_t>(p, v);
  if (type_ == "u8" || type_ == "i1") return storeAs<uint8_t>(p, v);
  uint16_t bits = type_ == "f16" ? floatToHalf(float(v)) : floatToBf16(float(v));
  std::memcpy(p, &bits, 2);
}
void Tensor::poison() {
  std::fill(data_.begin(), data_.end(), 0xff);
}

uint64_t Rng::next() { // splitmix64
  uint64_t z = (state += 0x9e3779b97f4a7c15ull);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}
int64_t Rng::integer(int64_t lo, int64_t hi) {
  return lo + int64_t(next() % uint64_t(hi - lo + 1));
}
double Rng::normal() {
  double u = (double(next() >> 11) + 0.5) / 9007199254740992.0, v = double(next() >> 11) / 9007199254740992.0;
  return std::sqrt(-2 * std::log(u)) * std::cos(6.283185307179586 * v);
}

void fill(Tensor &t, Rng &rng, Fill how, int64_t bound) {
  bool isUnsigned = t.type()[0] == 'u' || t.type() == "i1";
  for (size_t i = 0; i < t.count(); ++i)
    t.set(i, how == Fill::Integers ? double(rng.integer(isUnsigned ? 0 : -bound, bound)) : rng.normal());
}

std::string Setting::text() const {
  const char *names[] = {"in-order", "random", "late", "early"};
  return target + " " + names[schedule] + " seed " + std::to_string(seed);
}

const std::string &deviceId() {
  static const std::string id = [] {
    const char *v = std::getenv("TLX_TEST_DEVICE");
    return std::string(v && *v ? v : "sim");
  }();
  return id;
}
bool onSimulator() {
  return deviceId() == "sim";
}
unsigned seeds() {
  const char *v = std::getenv("TLX_TEST_FULL");
  return v && *v == '1' ? 20 : 5;
}
std::vector<std::string> targets() {
  if (const char *v = std::getenv("TLX_TEST_TARGETS")) {
    std::vector<std::string> out;
    std::stringstream s(v);
    for (std::string t; std::getline(s, t, ',');) out.push_back(t);
    return out;
  }
  if (onSimulator()) return {"sm_80", "sm_90a", "gfx942", "gfx950"};
  return deviceId().rfind("cuda", 0) == 0 ? std::vector<std::string>{"sm_80", "sm_90a"}
                                          : std::vector<std::string>{"gfx942"};
}
std::vector<Setting> settings(const std::string &target, unsigned seeds) {
  if (!onSimulator()) return {{target}};
  std::vector<Setting> out{{target, TLX_SCHEDULE_IN_ORDER}, {target, TLX_SCHEDULE_LATE}, {target, TLX_SCHEDULE_EARLY}};
  for (unsigned s = 1; s <= seeds; ++s) out.push_back({target, TLX_SCHEDULE_RANDOM, s});
  return out;
}

static tlx::Context &context() {
  static tlx::Context c = [] {
    tlx_context_options o = TLX_CONTEXT_OPTIONS_INIT;
    o.cache_mode = TLX_CACHE_OFF; // the compiler is what is tested
    return tlx::Context(&o);
  }();
  return c;
}
static tlx::Device &device() {
  static tlx::Device d = context().open(deviceId());
  return d;
}

static std::string readFile(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path);
  std::stringstream s;
  s << in.rdbuf();
  return s.str();
}

Program compileText(const std::string &text, const CompileSpec &spec, const std::string &target) {
  tlx::CompileOptions o;
  o.fileName = spec.file;
  o.kernel = spec.kernel;
  o.target = target;
  o.params = spec.params;
  o.facts = spec.facts;
  o.flags = spec.flags;
  o.debugTimeout = spec.debugTimeout;
  o.device = device();
  o.image = onSimulator() ? TLX_IMAGE_SIMULATOR : TLX_IMAGE_NATIVE;
  try {
    return {context().compile(text, o), device()};
  } catch (const tlx::Error &e) {
    throw std::runtime_error(std::string("compile for ") + target + ": " + e.what() + "\n" + e.diagnostics());
  }
}
Program compile(const CompileSpec &spec, const std::string &target) {
  const char *dir = std::getenv("TLX_KERNELS_DIR");
  return compileText(readFile(std::string(dir ? dir : TLX_KERNELS_DIR) + "/" + spec.file), spec, target);
}

std::string Program::run(tlx::Grid grid, const std::vector<tlx::Arg> &args, const Setting &setting,
                         std::string *printed) const {
  tlx_launch_options o = TLX_LAUNCH_OPTIONS_INIT;
  o.grid[0] = grid.x, o.grid[1] = grid.y, o.grid[2] = grid.z;
  o.schedule = setting.schedule;
  o.seed = setting.seed;
  tlx_report *raw = nullptr;
  o.report = &raw;
  o.check_races = onSimulator() && setting.schedule == TLX_SCHEDULE_IN_ORDER;
  o.exhaustive = setting.exhaustive;
  o.exact = setting.exact;
  std::string problem;
  try {
    kernel.launchWith(device, o, args);
    device.synchronize();
  } catch (const tlx::Error &e) {
    problem = e.what();
  }
  tlx::Report report(raw);
  if (raw) {
    if (report.count()) problem += "\n" + report.text();
    if (printed) *printed = report.printed();
  }
  return problem;
}

static tlx::Report reportOf(const Program &p, tlx::Grid grid, const std::vector<tlx::Arg> &args, bool timeline) {
  tlx_launch_options o = TLX_LAUNCH_OPTIONS_INIT;
  o.grid[0] = grid.x, o.grid[1] = grid.y, o.grid[2] = grid.z;
  tlx_report *raw = nullptr;
  o.report = &raw;
  (timeline ? o.timeline : o.exhaustive) = 1;
  try {
    p.kernel.launchWith(p.device, o, args);
  } catch (const tlx::Error &) { // the report says it as well
  }
  return tlx::Report(raw);
}
std::string Program::timeline(tlx::Grid grid, const std::vector<tlx::Arg> &args) const {
  return reportOf(*this, grid, args, true).timeline();
}
std::string Program::proof(tlx::Grid grid, const std::vector<tlx::Arg> &args) const {
  return reportOf(*this, grid, args, false).proof();
}

tlx::Buffer upload(const Tensor &t) {
  tlx::Buffer b = device().allocate(std::max<size_t>(1, t.bytes()));
  b.write(t.data());
  return b;
}
void download(Tensor &t, const tlx::Buffer &b) {
  b.read(t.data());
}

tlx::Tensor tensor(const tlx::Buffer &b, const Tensor &t, const std::vector<int64_t> &shape,
                   const std::vector<int64_t> &strides, int64_t offset) {
  uint32_t dtype = tlx_dtype_from_name(t.type().c_str());
  if (!dtype) throw std::runtime_error("'" + t.type() + "' is no dtype");
  return tlx::Tensor(static_cast<char *>(b.data()) + offset * int64_t(sizeOf(t.type())), tlx_dtype(dtype), shape,
                     strides);
}

std::string Worst::text() const {
  std::ostringstream s;
  s.precision(9);
  s << "element " << index << ": " << got << ", should be " << want << " (" << ratio << " of the tolerance)";
  return s.str();
}
Worst compare(const Tensor &got, const std::vector<double> &want, double atol, double rtol) {
  Worst w;
  for (size_t i = 0; i < want.size(); ++i) {
    double g = got.get(i), e = want[i];
    double tolerance = atol + rtol * std::fabs(e), difference = std::fabs(g - e);
    double ratio = g == e ? 0 : tolerance > 0 ? difference / tolerance : INFINITY;
    if (std::isnan(g) || std::isnan(ratio)) ratio = INFINITY;
    if (ratio > w.ratio) w = {ratio, i, g, e};
  }
  return w;
}

} // namespace harness
