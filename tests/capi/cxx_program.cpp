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

constexpr const char *kTwice = R"(
kernel twice(x: tensor_desc<f32, [8, 16]>, y: tensor_desc<f32, [8, 16]>) launch(num_warps = 1) {
  let at = [program_id(1) * 8, program_id(0) * 16];
  y.store(at, x.load(at) * 2.0);
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
    // A tensor for a descriptor: dense strides of its own accord.
    const tlx::Buffer in = sim.allocate(4000), out = sim.allocate(4000);
    std::vector<float> values(1000), result(1000);
    for (size_t i = 0; i < values.size(); ++i) values[i] = float(i);
    in.write(values.data());
    options.params.clear();
    const tlx::Kernel twice = context.compile(kTwice, options);
    twice.launch(sim, {3, 4},
                 {tlx::Tensor(in, TLX_DTYPE_F32, {25, 40}), tlx::Tensor(out, TLX_DTYPE_F32, {25, 40}, {40, 1})});
    out.read(result.data());
    for (size_t i = 0; i < values.size(); ++i) CHECK(result[i] == 2 * values[i]);
    const tlx::Tensor cube(in, TLX_DTYPE_F32, {2, 0, 4});
    CHECK(cube.rank == 3 && cube.strides[0] == 4 && cube.strides[1] == 4 && cube.strides[2] == 1);
    for (const std::vector<int64_t> &shape : {std::vector<int64_t>{}, {1, 1, 1, 1, 1, 1}}) {
      try {
        (void)tlx::Tensor(in, TLX_DTYPE_F32, shape);
        CHECK(false && "no exception");
      } catch (const std::invalid_argument &) {
      }
    }
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
