// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// tlx.hpp: compile, launch from several threads, errors as exceptions.
#include <cstdio>
#include <thread>
#include <vector>

#include <tlxjit/tlx.hpp>

namespace {

int failures = 0;
void check(bool condition, const char *what) {
  if (condition) return;
  std::fprintf(stderr, "not true: %s\n", what);
  ++failures;
}
#define CHECK(...) check((__VA_ARGS__), #__VA_ARGS__)

constexpr const char *kSource = R"(
kernel add<B: i32, T: dtype = f32>(x: *T, y: *T, out: *T, n: i32) launch(num_warps = 4) {
  let i = program_id(0) * B + arange(0, B);
  store(out + i, load(x + i, i < n) + load(y + i, i < n), i < n);
}
)";

} // namespace

int main() {
  try {
    const tlx::Context context;
    const tlx::Device sim = context.open("sim");
    tlx::CompileOptions options;
    options.target = "sm_80";
    options.device = sim;
    options.params = {{"B", "128"}};
    std::vector<std::thread> threads;
    std::vector<int> right(4, 0);
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        const tlx::Kernel kernel = context.compile(kSource, options);
        std::vector<float> x(500, float(t)), y(500, 1), out(500);
        const tlx::Buffer dx = sim.allocate(2000), dy = sim.allocate(2000), dout = sim.allocate(2000);
        dx.write(x.data());
        dy.write(y.data());
        kernel.launch(sim, {4}, {dx, dy, dout, 500});
        dout.read(out.data());
        right[size_t(t)] = out == std::vector<float>(500, float(t + 1));
      });
    for (std::thread &thread : threads) thread.join();
    for (int one : right) CHECK(one);
    try {
      (void)context.compile("kernel f() { let x = ; }", options);
      CHECK(false && "no exception");
    } catch (const tlx::Error &error) {
      CHECK(error.status() == TLX_ERROR_COMPILE);
      CHECK(error.diagnostics().find("error:") != std::string::npos);
    }
  } catch (const std::exception &problem) {
    std::fprintf(stderr, "exception: %s\n", problem.what());
    return 1;
  }
  return failures != 0;
}
