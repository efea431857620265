// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ./dev demo: compiles the shipped matmul_pointers through the public header, runs it on the GPU if there is one and on the simulator
// otherwise, compares with a float64 product, and says what it did.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include <nlohmann/json.hpp>
#include <tlxjit/tlx.hpp>

namespace {

// Small integers are exact in f16, and so is their product's sum in f32: the comparison below is to the bit.
uint16_t smallHalf(int v) {
  if (v == 0) return 0;
  int a = v < 0 ? -v : v, e = 0;
  while (a >> (e + 1)) ++e;
  return uint16_t((v < 0 ? 0x8000 : 0) | (e + 15) << 10 | ((a << (10 - e)) & 1023));
}
double halfValue(uint16_t h) {
  int e = h >> 10 & 31, m = h & 1023;
  double v = e == 0 ? std::ldexp(m, -24) : e == 31 ? (m ? NAN : INFINITY) : std::ldexp(m | 1024, e - 25);
  return h & 0x8000 ? -v : v;
}

std::string slurp(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path);
  std::stringstream s;
  s << in.rdbuf();
  return s.str();
}

std::string firstGpu(const tlx::Context &context) {
  size_t count = 0;
  tlx_context_device_count(context.get(), &count, nullptr);
  for (size_t i = 0; i < count; ++i) {
    tlx_device_properties p = TLX_DEVICE_PROPERTIES_INIT;
    if (tlx_context_device_properties(context.get(), i, &p, nullptr) == TLX_OK && std::strcmp(p.id, "sim") != 0)
      return p.id;
  }
  return {};
}

void demo(const std::string &kernels, const std::string &out) {
  tlx_context_options contextOptions = TLX_CONTEXT_OPTIONS_INIT;
  contextOptions.cache_mode = TLX_CACHE_OFF; // the stages below are those of a real compile
  tlx::Context context(&contextOptions);
  std::string gpu = firstGpu(context);
  bool simulated = gpu.empty();
  tlx::Device device = context.open(simulated ? "sim" : gpu);
  tlx_device_properties properties = device.properties();
  bool amd = std::strncmp(properties.architecture, "gfx", 3) == 0;
  const char *target = simulated ? "sm_80" : amd ? "gfx942" : "sm_80";

  const int size = simulated ? 256 : 4096, bm = 128, bn = 128, bk = 32;
  tlx::CompileOptions options;
  options.fileName = "matmul_pointers.tlx";
  options.kernel = "matmul_pointers";
  options.target = target;
  options.device = device;
  options.params = {{"BM", "128"}, {"BN", "128"}, {"BK", "32"}, {"STAGES", "3"}, {"T", "f16"}};
  options.facts = {"aligned(a, 16)", "aligned(b, 16)", "aligned(c, 16)", "M % 16 == 0",  "N % 16 == 0",
                   "K % 32 == 0",    "lda % 16 == 0",  "ldb % 16 == 0",  "ldc % 16 == 0"};
  options.keep = TLX_KEEP_IR | TLX_KEEP_ASSEMBLY;
  std::string source = slurp(kernels + "/matmul_pointers.tlx");
  tlx::Kernel kernel = context.compile(source, options);

  // The simulator's image is the lowering itself; the target's assembly comes from a second compile.
  std::string assembly, assemblyName = amd ? "matmul.s" : "matmul.ptx";
  nlohmann::json native = nlohmann::json::parse(kernel.metadataJson());
  if (simulated) {
    tlx::CompileOptions forTarget = options;
    forTarget.device = tlx::Device();
    tlx::Kernel k = context.compile(source, forTarget);
    assembly = k.artifact(TLX_ARTIFACT_ASSEMBLY);
    native = nlohmann::json::parse(k.metadataJson());
  } else {
    assembly = kernel.artifact(TLX_ARTIFACT_ASSEMBLY);
  }
  std::filesystem::create_directories(out);
  std::ofstream(out + "/matmul.ir") << kernel.artifact(TLX_ARTIFACT_IR);
  std::ofstream(out + "/" + assemblyName) << assembly;

  std::mt19937 random(std::random_device{}());
  std::uniform_int_distribution<int> digit(-4, 4);
  size_t count = size_t(size) * size;
  std::vector<uint16_t> a(count), b(count), c(count, 0xffff);
  for (auto &x : a) x = smallHalf(digit(random));
  for (auto &x : b) x = smallHalf(digit(random));
  tlx::Buffer da = device.allocate(count * 2), db = device.allocate(count * 2), dc = device.allocate(count * 2);
  da.write(a.data()), db.write(b.data()), dc.write(c.data());

  tlx_launch_options launch = TLX_LAUNCH_OPTIONS_INIT;
  launch.grid[0] = uint32_t(((size + bm - 1) / bm) * ((size + bn - 1) / bn));
  std::vector<tlx::Arg> args{da, db, dc, size, size, size, size, size, size};
  const int repeats = simulated ? 1 : 20;
  std::vector<double> ms(repeats);
  tlx_error *error = nullptr;
  tlx::detail::check(tlx_kernel_time(kernel.get(), device.get(), &launch, args.data(), args.size(), simulated ? 0 : 5,
                                     repeats, ms.data(), &error),
                     error);
  std::sort(ms.begin(), ms.end());
  dc.read(c.data());

  // All of C where that is quick, else 64 random rows.
  double worst = 0;
  int rows = simulated ? size : 64;
  for (int r = 0; r < rows; ++r) {
    int m = simulated ? r : int(random() % size);
    std::vector<double> row(size, 0.0);
    for (int k = 0; k < size; ++k) {
      double x = halfValue(a[size_t(m) * size + k]);
      for (int n = 0; n < size; ++n) row[n] += x * halfValue(b[size_t(k) * size + n]);
    }
    for (int n = 0; n < size; ++n) {
      double want = halfValue(smallHalf(0)), got = halfValue(c[size_t(m) * size + n]);
      want = row[n];
      // C is stored as f16: the nearest of them to the exact sum.
      double unit = std::fabs(want) < 2048 ? 1 : std::ldexp(1, int(std::floor(std::log2(std::fabs(want)))) - 10);
      want = std::nearbyint(want / unit) * unit;
      worst = std::max(worst, std::isnan(got) ? INFINITY : std::fabs(got - want));
    }
  }

  std::printf("kernel       matmul_pointers, f16, tile %dx%dx%d, 3 stages, %s\n", bm, bn, bk, target);
  std::printf("shape        %d x %d x %d\n", size, size, size);
  std::printf("device       %s (%s)\n", properties.id, properties.name);
  std::printf("error        %g (largest difference from the float64 product, %d rows)%s\n", worst, rows,
              worst == 0 ? ": exact" : "");
  std::printf("time         %.3f ms%s\n", ms[ms.size() / 2],
              simulated ? " on the host (the simulator is not timed hardware)" : "");
  if (!simulated) std::printf("speed        %.1f TFLOP/s\n", 2.0 * size * size * size / ms[ms.size() / 2] / 1e9);
  std::printf("compile      ");
  const char *separator = "";
  double total = 0;
  for (const auto &s : native["stages"]) {
    std::string name = s["name"];
    if (name.rfind("pass ", 0) == 0) continue; // parts of "passes"
    total += s["ms"].get<double>();
    std::printf("%s%s %.1f", separator, name.c_str(), s["ms"].get<double>());
    separator = ", ";
  }
  std::printf(" = %.1f ms", total);
  std::printf("\nassembler    %s\n", native.value("assembler", "").c_str());
  const auto &resources = native["resources"];
  if (resources.contains("registers") && !resources["registers"].is_null())
    std::printf("registers    %d a thread\n", resources["registers"].get<int>());
  std::printf("shared       %d bytes a program\n", native.value("shared_bytes", 0));
  std::printf("written      %s/matmul.ir, %s/%s\n", out.c_str(), out.c_str(), assemblyName.c_str());
  if (worst != 0) throw std::runtime_error("the result is wrong");
}

} // namespace

int main(int argc, char **argv) {
  try {
    demo(argc > 1 ? argv[1] : "kernels", argc > 2 ? argv[2] : "build/demo");
  } catch (const tlx::Error &e) {
    std::fprintf(stderr, "demo: %s\n%s", e.what(), e.diagnostics().c_str());
    return 1;
  } catch (const std::exception &e) {
    std::fprintf(stderr, "demo: %s\n", e.what());
    return 1;
  }
}
