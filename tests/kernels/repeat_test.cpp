// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every shipped kernel at random shapes, again and again. Each shape is ragged, tiny, empty, tall, wide or long, with fresh numbers; the
// first launch is compared with the reference, and each later one, into poisoned outputs again, must write the same bits. What races or
// reads what nobody wrote does not stay the same for a hundred launches on a GPU; on the simulator each launch has another schedule.
//
//   TLX_TEST_SEED      the seed, which is printed; without it another one each time
//   TLX_TEST_SHAPES    how many shapes a kernel and target (20; on the simulator 2)
//   TLX_TEST_REPEAT    how often the first launch is repeated (100; on the simulator 3)
//
// Configurations are those of kernels/configs.json for the target, and some small ones, so that tiles are many and rings wrap.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <doctest/doctest.h>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "references.h"

using namespace harness;

namespace {

// --- what runs, how often

int64_t fromEnvironment(const char *name, int64_t otherwise) {
  const char *v = std::getenv(name);
  return v && *v ? std::strtoll(v, nullptr, 10) : otherwise;
}
int shapeCount() {
  return int(fromEnvironment("TLX_TEST_SHAPES", onSimulator() ? 2 : 20));
}
int repetitions() {
  return int(fromEnvironment("TLX_TEST_REPEAT", onSimulator() ? 3 : 100));
}

/// Numbers for one test case, whatever ran before it.
Rng rngFor(const std::string &name) {
  static const uint64_t seed = [] {
    std::random_device device;
    uint64_t s = uint64_t(fromEnvironment("TLX_TEST_SEED", int64_t(device())));
    std::printf("repeat: TLX_TEST_SEED=%llu\n", static_cast<unsigned long long>(s));
    std::fflush(stdout);
    return s;
  }();
  uint64_t hash = 14695981039346656037ull; // FNV-1a
  for (char c : name) hash = (hash ^ uint8_t(c)) * 1099511628211ull;
  return Rng(seed ^ hash);
}
bool coin(Rng &rng) {
  return rng.integer(0, 1) != 0;
}
template <typename T> const T &anyOf(const std::vector<T> &list, Rng &rng) {
  return list[size_t(rng.integer(0, int64_t(list.size()) - 1))];
}

enum class Kind { Ragged, Tiny, Tall, Wide, Long, Empty };
Kind kindOf(int shape) {
  static const Kind kinds[] = {Kind::Ragged, Kind::Tiny, Kind::Tall, Kind::Wide, Kind::Long, Kind::Empty};
  return kinds[shape % 6];
}
/// The simulator's launches are a few thousand times slower: what makes a shape large is cut.
int upTo(Rng &rng, int least, int most, int mostSimulated) {
  return onSimulator() ? int(rng.integer(std::min(least, mostSimulated), mostSimulated))
                       : int(rng.integer(least, most));
}

// --- configurations

using Params = std::map<std::string, std::string>;
struct Rule {
  std::string file, kernel;
  Params params;
  std::vector<std::string> facts;
};
/// The rules of kernels/configs.json for a work, in their order.
std::vector<Rule> rulesOf(const std::string &work, const std::string &target, const std::string &type) {
  const char *dir = std::getenv("TLX_KERNELS_DIR");
  std::ifstream in(std::string(dir ? dir : TLX_KERNELS_DIR) + "/configs.json");
  const nlohmann::json entry = nlohmann::json::parse(in).at(work);
  auto names = [](const nlohmann::json &rule, const char *list, const std::string &name) {
    return !rule.contains(list) || std::count(rule[list].begin(), rule[list].end(), name) > 0;
  };
  std::vector<Rule> rules;
  for (const nlohmann::json &rule : entry.at("rules")) {
    if (!names(rule, "targets", target) || !names(rule, "types", type)) continue;
    Rule r{rule.value("file", entry.at("file").get<std::string>()), rule.at("kernel"), {}, entry.at("facts")};
    for (const auto &[name, value] : rule.at("params").items())
      r.params[name] = value.is_string() ? value.get<std::string>() : value.dump();
    rules.push_back(std::move(r));
  }
  REQUIRE(!rules.empty());
  return rules;
}
/// The parameters of the first rule for this kernel, or of the first rule at all: a form of the kernel that no rule picks here.
Params shipped(const std::string &work, const std::string &kernel, const std::string &target, const std::string &type) {
  const std::vector<Rule> rules = rulesOf(work, target, type);
  auto found = std::find_if(rules.begin(), rules.end(), [&](const Rule &r) { return r.kernel == kernel; });
  return (found == rules.end() ? rules.front() : *found).params;
}
int number(const Params &params, const char *name) {
  return std::stoi(params.at(name));
}
const char *truth(bool v) {
  return v ? "true" : "false";
}
std::string textOf(const CompileSpec &spec) {
  std::string text = spec.kernel;
  for (const auto &[name, value] : spec.params) text += " " + name + "=" + value;
  return text + (spec.facts.empty() ? "" : " with facts");
}
CompileSpec specOf(const std::string &file, const std::string &kernel, const Params &params,
                   const std::vector<std::string> &facts = {}) {
  return {file, kernel, {params.begin(), params.end()}, facts};
}

/// Compiles each configuration once.
class Programs {
public:
  explicit Programs(std::string target) : target(std::move(target)) {}
  const Program &of(const CompileSpec &spec) {
    auto found = programs.find(textOf(spec));
    if (found == programs.end()) found = programs.emplace(textOf(spec), compile(spec, target)).first;
    return found->second;
  }

private:
  std::string target;
  std::map<std::string, Program> programs;
};

/// The configuration of a shape: all come before one comes again. On the simulator only `simulated` of them, the first ones.
template <typename T> const T &turn(const std::vector<T> &configs, int shape, size_t simulated = 2) {
  return configs[size_t(shape) % (onSimulator() ? std::min(simulated, configs.size()) : configs.size())];
}

// --- one launch, repeated

struct Launch {
  tlx::Grid grid;
  std::vector<tlx::Arg> args;

  void in(const Tensor &t) {
    inputs.push_back(upload(t));
    args.push_back(inputs.back());
  }
  template <typename T> void inView(const T &t) { // a Matrix, a Sequences
    inputs.push_back(upload(t.values));
    tensors.push_back(t.argument(inputs.back()));
    args.push_back(tensors.back());
  }
  void out(const Tensor &t, Expected want, size_t row) {
    outputs.push_back({t, upload(t), std::move(want), std::max<size_t>(1, row), {}});
    args.push_back(outputs.back().buffer);
  }
  template <typename T> void outView(const T &t, Expected want, size_t row) {
    outputs.push_back({t.values, upload(t.values), std::move(want), row, {}});
    tensors.push_back(t.argument(outputs.back().buffer));
    args.push_back(tensors.back());
  }
  template <typename T> void value(T v) { args.push_back(v); }
  void repeat(const Program &p, const std::string &target);

private:
  struct Output {
    Tensor memory;
    tlx::Buffer buffer;
    Expected want;
    size_t row;
    std::vector<uint8_t> first;
  };
  std::deque<tlx::Buffer> inputs; // arguments keep addresses of what these hold
  std::deque<tlx::Tensor> tensors;
  std::deque<Output> outputs;
};

void Launch::repeat(const Program &p, const std::string &target) {
  const std::vector<Setting> ways = settings(target, 1);
  for (int launch = 0; launch <= repetitions(); ++launch) {
    for (Output &o : outputs) o.memory.poison(), o.buffer.write(o.memory.data());
    const Setting &way = ways[size_t(launch) % ways.size()];
    const std::string problem = p.run(grid, args, way);
    CHECK_MESSAGE(problem == "", "launch ", launch, ", ", way.text(), ": ", problem);
    bool same = problem == "";
    for (Output &o : outputs) {
      o.buffer.read(o.memory.data());
      const uint8_t *bytes = static_cast<const uint8_t *>(o.memory.data());
      if (launch == 0) {
        o.first.assign(bytes, bytes + o.memory.bytes());
        const std::string wrong = mismatch(o.memory, o.want, o.row);
        CHECK_MESSAGE(wrong == "", way.text(), ": ", wrong);
        same = same && wrong == "";
        continue;
      }
      auto difference = std::mismatch(o.first.begin(), o.first.end(), bytes).first - o.first.begin();
      const size_t at = size_t(difference) / sizeOf(o.memory.type());
      CHECK_MESSAGE(size_t(difference) == o.first.size(), "launch ", launch, ", ", way.text(), ": element (",
                    at / o.row, ", ", at % o.row, ") is ", o.memory.get(at),
                    ", and was another number in the first launch");
      same = same && size_t(difference) == o.first.size();
    }
    if (!same) break; // one report a shape says enough
  }
}

// --- products

struct Shape {
  int m, n, k;
  std::string text() const { return std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k); }
};
Shape productShape(Kind kind, Rng &rng) {
  switch (kind) {
  case Kind::Ragged:
    return {upTo(rng, 1, 600, 150), upTo(rng, 1, 600, 150), upTo(rng, 1, 600, 150)};
  case Kind::Tiny:
    return {upTo(rng, 1, 40, 40), upTo(rng, 1, 40, 40), upTo(rng, 1, 40, 40)};
  case Kind::Tall:
    return {upTo(rng, 1000, 2000, 1000), upTo(rng, 1, 64, 4), upTo(rng, 1, 600, 64)};
  case Kind::Wide:
    return {upTo(rng, 1, 64, 4), upTo(rng, 1000, 2000, 1000), upTo(rng, 1, 600, 64)};
  case Kind::Long:
    return {upTo(rng, 300, 560, 300), upTo(rng, 300, 560, 300), upTo(rng, 600, 1200, 600)};
  case Kind::Empty:
    break;
  }
  Shape s{upTo(rng, 1, 300, 100), upTo(rng, 1, 300, 100), upTo(rng, 1, 300, 100)};
  int *sizes[] = {&s.m, &s.n, &s.k};
  *sizes[rng.integer(0, 2)] = 0; // nothing to write, or sums of nothing
  return s;
}
uint32_t tilesOf(const Params &p, const Shape &s) {
  int bm = number(p, "BM"), bn = number(p, "BN");
  return uint32_t((s.m + bm - 1) / bm * ((s.n + bn - 1) / bn));
}

struct ProductConfig {
  Params params; // with types and transposes
  bool ta = false, tb = false;
};
Params tile(int bm, int bn, int bk, int stages, int warps) {
  return {{"BM", std::to_string(bm)},
          {"BN", std::to_string(bn)},
          {"BK", std::to_string(bk)},
          {"STAGES", std::to_string(stages)},
          {"WARPS", std::to_string(warps)}};
}
/// A letter of `order` says how A and B are stored: n, or t for the transpose.
ProductConfig product(Params params, const std::string &type, const std::string &out, const char *order,
                      bool pointers) {
  ProductConfig c{std::move(params), order[0] == 't', order[1] == 't'};
  c.params["T"] = type, c.params["OUT"] = out;
  c.params["ACC"] = type == "i8" ? "i32" : type == "f64" ? "f64" : "f32";
  c.params[pointers ? "TRANS_A" : "TA"] = truth(c.ta), c.params[pointers ? "TRANS_B" : "TB"] = truth(c.tb);
  return c;
}
/// First what configs.json ships for the kernel, then small tiles, then every type.
std::vector<ProductConfig> productConfigs(const std::string &kernel, const std::string &target, Rng &rng) {
  const bool pointers = kernel == "matmul_pointers", small = target == "gfx942"; // 64 KB of shared memory
  const std::vector<const char *> orders{"nn", "nt", "tn", "tt"};
  auto ship = [&](const char *type) { return shipped("matmul", kernel, target, type); };
  auto any = [&] { return anyOf(orders, rng); };
  return {product(ship("f16"), "f16", "f16", "nn", pointers),
          product(tile(64, 64, 32, 3, 4), "bf16", "bf16", any(), pointers),
          product(ship("bf16"), "bf16", "f32", any(), pointers),
          product(small ? tile(64, 96, 32, 2, 4) : tile(128, 192, 64, 3, 8), "f16", "f16", any(), pointers),
          product(tile(64, 80, 48, 2, 4), "f16", "f32", any(), pointers),
          product(ship("f16"), "f16", "f16", any(), pointers),
          product(ship("f32"), "f32", "f32", any(), pointers),
          product(ship("i8"), "i8", "i32", any(), pointers),
          product(tile(64, 64, 16, 2, 4), "f64", "f64", any(), pointers)};
}

/// Integers mostly, which are exact; random numbers at every fourth shape.
Fill fillOf(int shape, const std::string &type) {
  return shape % 4 == 3 && type != "i8" ? Fill::Normal : Fill::Integers;
}

void matmulByDescriptors(const std::string &kernel) {
  for (const std::string &target : targets()) {
    Rng rng = rngFor(kernel + target);
    Programs programs(target);
    const std::vector<ProductConfig> configs = productConfigs(kernel, target, rng);
    for (int shape = 0; shape < shapeCount(); ++shape) {
      const ProductConfig &c = turn(configs, shape);
      const CompileSpec spec = specOf("matmul.tlx", kernel, c.params);
      const Shape s = productShape(kindOf(shape), rng);
      INFO(target, " ", textOf(spec), " at ", s.text());
      const std::string type = c.params.at("T");
      const Fill how = fillOf(shape, type);
      Matrix a(type, c.ta ? s.k : s.m, c.ta ? s.m : s.k), b(type, c.tb ? s.n : s.k, c.tb ? s.k : s.n),
          out(c.params.at("OUT"), s.m, s.n);
      a.fillWith(rng, how, 4), b.fillWith(rng, how, 4);
      Launch launch;
      launch.inView(a), launch.inView(b);
      launch.outView(out, expectProduct(multiply(a, c.ta, b, c.tb, s.m, s.n, s.k), out, type, how), out.ld);
      for (int size : {s.m, s.n, s.k}) launch.value(size);
      launch.grid = {tilesOf(c.params, s)};
      // Fewer programs than tiles, so that each makes several; a few too many now and then.
      if (kernel == "matmul_persistent")
        launch.grid = {uint32_t(rng.integer(1, std::max(2u, (launch.grid.x + 2) / 2)))};
      launch.repeat(programs.of(spec), target);
    }
  }
}

/// gemm_ws, gemm_pingpong: what configs.json ships, and small tiles.
void matmulOfTasks(const std::string &kernel, std::vector<Params> configs) {
  for (const std::string &target : targets()) {
    if (target != "sm_90a") continue;
    Rng rng = rngFor(kernel + target);
    Programs programs(target);
    for (const Rule &rule : rulesOf(kernel, target, "f16")) configs.push_back(rule.params);
    for (int shape = 0; shape < shapeCount(); ++shape) {
      const std::string type = shape % 2 ? "bf16" : "f16";
      Params params = turn(configs, shape);
      params["T"] = type;
      const CompileSpec spec = specOf(kernel + ".tlx", kernel, params);
      const Shape s = productShape(kindOf(shape), rng);
      INFO(target, " ", textOf(spec), " at ", s.text());
      const Fill how = fillOf(shape, type);
      Matrix a(type, s.m, s.k), b(type, s.k, s.n), out(type, s.m, s.n);
      a.fillWith(rng, how, 4), b.fillWith(rng, how, 4);
      Launch launch;
      launch.inView(a), launch.inView(b);
      launch.outView(out, expectProduct(multiply(a, false, b, false, s.m, s.n, s.k), out, type, how), out.ld);
      for (int size : {s.m, s.n, s.k}) launch.value(size);
      launch.grid = {uint32_t(rng.integer(1, std::max(2u, (tilesOf(params, s) + 2) / 2)))};
      launch.repeat(programs.of(spec), target);
    }
  }
}

void matmulByPointers() {
  for (const std::string &target : targets()) {
    Rng rng = rngFor("matmul_pointers" + target);
    Programs programs(target);
    const std::vector<ProductConfig> configs = productConfigs("matmul_pointers", target, rng);
    for (int shape = 0; shape < shapeCount(); ++shape) {
      const ProductConfig &c = turn(configs, shape);
      Params params = c.params;
      Shape s = productShape(kindOf(shape), rng);
      std::vector<std::string> facts;
      // Every other round with all facts, and sizes that keep them.
      if (shape / 6 % 2 || (onSimulator() && shape % 2)) {
        const int bk = number(params, "BK");
        s = {(s.m + 15) / 16 * 16, (s.n + 15) / 16 * 16, (s.k + bk - 1) / bk * bk};
        params["EVEN_K"] = "true";
        facts = {"aligned(a, 16)", "aligned(b, 16)", "aligned(c, 16)", "M % 16 == 0",  "N % 16 == 0",
                 "K % 16 == 0",    "lda % 16 == 0",  "ldb % 16 == 0",  "ldc % 16 == 0"};
      }
      const CompileSpec spec = specOf("matmul_pointers.tlx", "matmul_pointers", params, facts);
      INFO(target, " ", textOf(spec), " at ", s.text());
      const std::string type = params.at("T");
      const Fill how = fillOf(shape, type);
      auto matrix = [&](const std::string &of, int rows, int cols) {
        return Matrix(of, rows, cols, cols + (facts.empty() ? 3 : 16));
      };
      Matrix a = matrix(type, c.ta ? s.k : s.m, c.ta ? s.m : s.k), b = matrix(type, c.tb ? s.n : s.k, c.tb ? s.k : s.n);
      Matrix out = matrix(params.at("OUT"), s.m, s.n);
      a.fillWith(rng, how, 4), b.fillWith(rng, how, 4);
      Launch launch;
      launch.in(a.values), launch.in(b.values);
      launch.out(out.values, expectProduct(multiply(a, c.ta, b, c.tb, s.m, s.n, s.k), out, type, how), out.ld);
      for (int size : {s.m, s.n, s.k, a.ld, b.ld, out.ld}) launch.value(size);
      launch.grid = {tilesOf(params, s)};
      launch.repeat(programs.of(spec), target);
    }
  }
}

void matmulBiasAct() {
  for (const std::string &target : targets()) {
    Rng rng = rngFor("matmul_bias_act" + target);
    Programs programs(target);
    for (int shape = 0; shape < shapeCount(); ++shape) {
      const Activation &activation = activations()[size_t(shape) % activations().size()];
      const char *type = shape % 3 == 1 ? "bf16" : "f16";
      Params params = shape % 2 ? tile(64, 64, 32, 3, 4) : shipped("matmul", "matmul", target, type);
      params["T"] = type, params["ACT"] = activation.name;
      const CompileSpec spec = specOf("matmul_bias_act.tlx", "matmul_bias_act", params);
      const Shape s = productShape(kindOf(shape), rng);
      INFO(target, " ", textOf(spec), " at ", s.text());
      const Fill how = activation.exact ? Fill::Integers : Fill::Normal;
      Matrix a(type, s.m, s.k), b(type, s.n, s.k), out(type, s.m, s.n);
      Tensor bias(type, size_t(s.n));
      a.fillWith(rng, how, 4), b.fillWith(rng, how, 4), fill(bias, rng, how, 4);
      Launch launch;
      launch.inView(a), launch.inView(b), launch.in(bias);
      launch.outView(out, expectBiasAct(multiply(a, false, b, true, s.m, s.n, s.k), bias, activation, out, how),
                     out.ld);
      for (int size : {s.m, s.n, s.k}) launch.value(size);
      launch.grid = {tilesOf(params, s)};
      launch.repeat(programs.of(spec), target);
    }
  }
}

// --- attention

/// `tasks`: attention_ws.
void attention(bool causal, bool tasks = false) {
  const std::string name = tasks ? "attention_ws" : "attention";
  for (const std::string &target : targets()) {
    if (tasks && target != "sm_90a") continue;
    Rng rng = rngFor(name + truth(causal) + target);
    Programs programs(target);
    struct Config {
      Params params;
      const char *type;
      int d;
    };
    const Params rule = shipped("attention", "attention", target, "f16");
    auto tiles = [](int bm, int bn, int stages, int warps) {
      Params p = tile(bm, bn, 0, stages, warps);
      p.erase("BK");
      return p;
    };
    const bool small = target == "gfx942";
    Params even = rule;
    even["EVEN"] = "true";
    std::vector<Config> configs{{rule, "f16", 128}, {tiles(64, 32, 2, 4), "bf16", 64},
                                {rule, "bf16", 64}, {rule, "f16", 80},
                                {rule, "bf16", 96}, {small ? tiles(64, 32, 1, 4) : tiles(128, 64, 3, 4), "f16", 128},
                                {even, "f16", 128}};
    if (tasks) {
      configs = {{{{"BM", "128"}, {"BN", "32"}, {"CONSUMERS", "2"}, {"DYNAMIC", "true"}}, "f16", 64},
                 {{{"BM", "64"}, {"BN", "48"}, {"CONSUMERS", "1"}, {"PING_PONG", "false"}}, "bf16", 80}};
      for (const Rule &r : rulesOf("attention_ws", target, "bf16"))
        configs.push_back({r.params, configs.size() % 2 ? "bf16" : "f16",
                           number(r.params, "BN") == 128 && number(r.params, "BM") == 192 ? 64 : 128});
    }
    for (int shape = 0; shape < shapeCount(); ++shape) {
      const Config &c = turn(configs, shape);
      int heads = 0, seq = 0;
      switch (kindOf(shape)) {
      case Kind::Ragged:
        heads = upTo(rng, 1, 4, 2), seq = upTo(rng, 1, 400, 200);
        break;
      case Kind::Tiny:
        heads = upTo(rng, 1, 2, 2), seq = upTo(rng, 1, 20, 20);
        break;
      case Kind::Tall:
        heads = 1, seq = upTo(rng, 400, 700, 400);
        break;
      case Kind::Wide:
        heads = upTo(rng, 16, 40, 16), seq = upTo(rng, 1, 64, 16);
        break;
      case Kind::Long:
        heads = 2, seq = upTo(rng, 300, 500, 300);
        break;
      case Kind::Empty:
        heads = upTo(rng, 0, 1, 1), seq = heads ? 0 : 50;
        break;
      }
      Params params = c.params;
      const int bm = number(params, "BM"), bn = number(params, "BN");
      if (params.count("EVEN")) seq = (seq + bn - 1) / bn * bn;
      params["T"] = c.type, params["D"] = std::to_string(c.d), params["CAUSAL"] = truth(causal);
      const CompileSpec spec = specOf(name + ".tlx", name, params);
      INFO(target, " ", textOf(spec), " at ", heads, " heads of ", seq);
      Sequences q(c.type, heads, seq, c.d), k = q, v = q, o = q;
      // Every fifth: keys that grow, so that the running maximum does all the way.
      q.fillWith(rng), k.fillWith(rng, 1, shape % 5 == 4), v.fillWith(rng);
      Tensor lse("f32", size_t(heads) * seq);
      const double scale = 1 / std::sqrt(double(c.d));
      AttentionReference want = expectAttention(q, k, v, causal, double(float(scale)));
      Launch launch;
      launch.inView(q), launch.inView(k), launch.inView(v);
      launch.outView(o, std::move(want.o), o.rowStride), launch.out(lse, std::move(want.lse), size_t(seq));
      launch.grid = {uint32_t((seq + bm - 1) / bm), uint32_t(heads)};
      if (tasks) { // it leaves the counter as it was
        Tensor counter("i32", 2);
        counter.set(0, 0), counter.set(1, 0);
        launch.in(counter);
        launch.grid = {uint32_t(rng.integer(1, launch.grid.x * launch.grid.y + 2))};
      }
      launch.value(seq);
      if (tasks) launch.value(heads);
      launch.value(scale);
      launch.repeat(programs.of(spec), target);
    }
  }
}

// --- kernels over rows, and over vectors

struct Rows {
  int rows, cols, stride;
};
/// `longest`: columns that the kernel's block takes, or for a kernel without such a bound how far to go.
Rows rowsShape(Kind kind, int longest, bool facts, Rng &rng) {
  Rows r{};
  switch (kind) {
  case Kind::Ragged:
    r = {upTo(rng, 1, 20, 3), upTo(rng, 1, longest, std::min(longest, 1500)), 0};
    break;
  case Kind::Tiny:
    r = {upTo(rng, 1, 3, 3), upTo(rng, 1, 20, 20), 0};
    break;
  case Kind::Tall:
    r = {upTo(rng, 500, 1500, 30), upTo(rng, 1, 100, 50), 0};
    break;
  case Kind::Wide:
    r = {upTo(rng, 1, 3, 1), upTo(rng, longest / 2, longest, std::max(longest / 2, 1500)), 0};
    break;
  case Kind::Long:
    r = {upTo(rng, 1, 16, 2), onSimulator() ? std::min(longest, 1024) : longest, 0};
    break;
  case Kind::Empty:
    r = {0, upTo(rng, 1, 100, 100), 0};
    break;
  }
  // Stated facts speak of multiples of 16; a longest row is one.
  if (facts) r.cols = (r.cols + 15) / 16 * 16;
  r.stride = r.cols + (facts ? 16 * int(rng.integer(0, 1)) : int(rng.integer(0, 5)));
  return r;
}

struct RowConfig {
  std::string file, kernel;
  Params params;
  std::vector<std::string> facts;
};
/// What configs.json ships for this form of the kernel, each with its facts and without; for rows longer than a block also a small block.
std::vector<RowConfig> rowConfigs(const std::string &work, const std::string &kernel, const std::string &target) {
  std::vector<RowConfig> result;
  std::vector<Rule> rules = rulesOf(work, target, "f32");
  rules.erase(std::remove_if(rules.begin(), rules.end(), [&](const Rule &r) { return r.kernel != kernel; }),
              rules.end());
  REQUIRE(!rules.empty());
  if (rules.size() == 1) {
    rules.push_back(rules[0]);
    rules[1].params["BLOCK"] = "256", rules[1].params["WARPS"] = "4";
    std::swap(rules[0], rules[1]); // on the simulator, rows of several blocks
  }
  for (bool facts : {true, false})
    for (size_t i = 0; i < rules.size();
         ++i) // shapes take turns in this order: each block once, then once more without facts
      result.push_back({rules[i].file, kernel, rules[i].params,
                        (i % 2 == 0) == facts ? rules[i].facts : std::vector<std::string>{}});
  return result;
}
constexpr double kEps = 1e-5;

/// softmax (no weight), layer_norm (weight and bias), rms_norm (weight) and their long forms.
void rowKernel(const std::string &work, const std::string &kernel) {
  const bool bounded = kernel.find("_long") == std::string::npos;
  for (const std::string &target : targets()) {
    Rng rng = rngFor(kernel + target);
    Programs programs(target);
    const std::vector<RowConfig> configs = rowConfigs(work, kernel, target);
    const std::vector<std::string> types{"bf16", "f32", "f16"};
    for (int shape = 0; shape < shapeCount(); ++shape) {
      const RowConfig &c = turn(configs, shape);
      const std::string &type = anyOf(types, rng);
      const std::string weightType = work != "softmax" && type == "bf16" && coin(rng) ? "f32" : type;
      const Rows r = rowsShape(kindOf(shape), bounded ? number(c.params, "BLOCK") : 20000, !c.facts.empty(), rng);
      Params params = c.params;
      params["T"] = type;
      if (work != "softmax") params["W"] = weightType;
      const CompileSpec spec = specOf(c.file, kernel, params, c.facts);
      INFO(target, " ", textOf(spec), " at ", r.rows, "x", r.cols, ", rows ", r.stride, " apart");
      Tensor x(type, size_t(r.rows) * r.stride), y = x, weight(weightType, size_t(r.cols)), bias = weight;
      fill(x, rng, Fill::Normal), fill(weight, rng, Fill::Normal), fill(bias, rng, Fill::Normal);
      const bool centred = work == "layer_norm";
      Launch launch;
      launch.in(x);
      if (work == "softmax") {
        launch.out(y, expectSoftmax(x, r.rows, r.cols, r.stride), size_t(r.stride));
      } else {
        launch.in(weight);
        if (centred) launch.in(bias);
        launch.out(y, expectNorm(x, weight, centred ? &bias : nullptr, r.rows, r.cols, r.stride, kEps),
                   size_t(r.stride));
      }
      launch.value(r.cols), launch.value(r.stride);
      if (work != "softmax") launch.value(kEps);
      launch.grid = {uint32_t(r.rows)};
      launch.repeat(programs.of(spec), target);
    }
  }
}

void vectorAdd() {
  for (const std::string &target : targets()) {
    Rng rng = rngFor("vector_add" + target);
    Programs programs(target);
    const std::vector<std::string> types{"f32", "f16", "bf16", "f64", "i32", "i64", "u8"};
    for (int shape = 0; shape < shapeCount(); ++shape) {
      const std::string &type = types[size_t(shape) % types.size()];
      const bool facts = shape / 6 % 2;
      const int block = coin(rng) ? 1024 : 256;
      int n = 0;
      switch (kindOf(shape)) {
      case Kind::Ragged:
        n = upTo(rng, 1, 5000, 3000);
        break;
      case Kind::Tiny:
        n = upTo(rng, 1, 40, 40);
        break;
      case Kind::Tall:
      case Kind::Wide:
      case Kind::Long:
        n = upTo(rng, 5000, 300000, 5000);
        break;
      case Kind::Empty:
        n = 0;
        break;
      }
      if (facts) n = (n + 15) / 16 * 16;
      CompileSpec spec{"vector_add.tlx", "vector_add", {{"BLOCK", std::to_string(block)}, {"T", type}}, {}};
      if (facts) spec.facts = {"aligned(x, 16)", "aligned(y, 16)", "aligned(out, 16)", "n % 16 == 0"};
      INFO(target, " ", textOf(spec), " at ", n);
      // Some elements behind the end, which must stay as they are.
      Tensor x(type, size_t(n)), y(type, size_t(n)), out(type, size_t(n) + 64);
      const bool isFloat = type[0] == 'f' || type[0] == 'b';
      for (Tensor *t : {&x, &y}) fill(*t, rng, isFloat ? Fill::Normal : Fill::Integers, 50);
      Expected want(out.count());
      // One rounding: the exact sum of two numbers of a type fits a double, or rounds like it.
      for (size_t i = 0; i < size_t(n); ++i) want.set(i, roundTo(type, x.get(i) + y.get(i)), 0);
      Launch launch;
      launch.in(x), launch.in(y), launch.out(out, std::move(want), size_t(block)), launch.value(n);
      launch.grid = {uint32_t((n + block - 1) / block)};
      launch.repeat(programs.of(spec), target);
    }
  }
}
} // namespace

TEST_CASE("repeat: vector_add") {
  vectorAdd();
}
TEST_CASE("repeat: softmax") {
  rowKernel("softmax", "softmax");
}
TEST_CASE("repeat: softmax_long") {
  rowKernel("softmax", "softmax_long");
}
TEST_CASE("repeat: layer_norm") {
  rowKernel("layer_norm", "layer_norm");
}
TEST_CASE("repeat: layer_norm_long") {
  rowKernel("layer_norm", "layer_norm_long");
}
TEST_CASE("repeat: rms_norm") {
  rowKernel("rms_norm", "rms_norm");
}
TEST_CASE("repeat: rms_norm_long") {
  rowKernel("rms_norm", "rms_norm_long");
}
TEST_CASE("repeat: matmul_pointers") {
  matmulByPointers();
}
TEST_CASE("repeat: matmul") {
  matmulByDescriptors("matmul");
}
TEST_CASE("repeat: matmul_persistent") {
  matmulByDescriptors("matmul_persistent");
}
TEST_CASE("repeat: matmul_bias_act") {
  matmulBiasAct();
}
TEST_CASE("repeat: attention, full") {
  attention(false);
}
TEST_CASE("repeat: attention_ws, full") {
  attention(false, true);
}
TEST_CASE("repeat: attention_ws, causal") {
  attention(true, true);
}
TEST_CASE("repeat: gemm_ws matmul") {
  matmulOfTasks("gemm_ws", {{{"BM", "128"}, {"BN", "64"}, {"BK", "32"}, {"STAGES", "2"}},
                            {{"BM", "256"}, {"BN", "80"}, {"BK", "64"}, {"STAGES", "3"}}});
}
TEST_CASE("repeat: gemm_pingpong matmul") {
  matmulOfTasks("gemm_pingpong", {{{"BM", "64"}, {"BN", "64"}, {"BK", "32"}, {"STAGES", "2"}},
                                  {{"BM", "128"}, {"BN", "80"}, {"BK", "64"}, {"STAGES", "3"}}});
}
TEST_CASE("repeat: attention, causal") {
  attention(true);
}
