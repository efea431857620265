// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attention against float64. What a correct kernel may lose: each weight is rounded once to the type of V, the output once to its own, and
// scores and sums are f32.
#include <doctest/doctest.h>

#include "harness.h"

using namespace harness;

namespace {
struct Config {
  int d = 64, bm = 64, bn = 64, stages = 2, warps = 4;
  std::string type = "f16";
  bool causal = false, even = false;
  std::string text() const {
    return "D " + std::to_string(d) + " " + std::to_string(bm) + "x" + std::to_string(bn) + " stages " + std::to_string(stages) + " warps " +
           std::to_string(warps) + " " + type + (causal ? " causal" : " full") + (even ? " even" : "");
  }
};
Program build(const Config &c, const std::string &target) {
  auto number = [](int v) { return std::to_string(v); };
  return compile({"attention.tlx", "attention",
                  {{"D", number(c.d)}, {"BM", number(c.bm)}, {"BN", number(c.bn)}, {"STAGES", number(c.stages)}, {"WARPS", number(c.warps)},
                   {"T", c.type}, {"CAUSAL", c.causal ? "true" : "false"}, {"EVEN", c.even ? "true" : "false"}}, {}},
                 target);
}

/// 64 KB of shared memory: not enough for the larger tiles.
bool smallMemory(const std::string &target) { return target == "gfx942"; }

enum class Data {
  Normal,
  Equal,   // Q = 0: every key that a row sees has the same weight, so that O is a mean and lse counts the keys
  Growing, // later keys have larger scores: the running maximum grows all the way
};

/// [heads, seq, D] in memory as frameworks keep it, [seq, heads, D], with a gap of NaN behind each row of all heads.
struct Sequences {
  int heads, seq, d, rowStride;
  Tensor values;
  Sequences(const std::string &type, int heads, int seq, int d)
      : heads(heads), seq(seq), d(d), rowStride(heads * d + 8), values(type, size_t(seq) * rowStride) {
    values.poison();
  }
  size_t at(int h, int row, int c) const { return size_t(row) * rowStride + h * d + c; }
  double get(int h, int row, int c) const { return values.get(at(h, row, c)); }
  tlx::Tensor argument(const tlx::Buffer &b) const { return tensor(b, values, {heads, seq, d}, {d, rowStride, 1}); }
};

void fillSequences(Sequences &s, Rng &rng, bool zero, bool growing) {
  for (int h = 0; h < s.heads; ++h)
    for (int row = 0; row < s.seq; ++row)
      for (int c = 0; c < s.d; ++c) s.values.set(s.at(h, row, c), zero ? 0 : rng.normal() * (growing ? 1 + row / 16.0 : 1));
}

struct Reference {
  std::vector<double> o, lse, tolerance; // [heads, seq, D], [heads, seq], as o
};
Reference reference(const Sequences &q, const Sequences &k, const Sequences &v, bool causal, double scale, const std::string &type) {
  int heads = q.heads, seq = q.seq, d = q.d;
  Reference r{std::vector<double>(size_t(heads) * seq * d), std::vector<double>(size_t(heads) * seq), {}};
  r.tolerance = r.o;
  double half = type == "f16" ? 0x1p-11 : 0x1p-8; // of a unit in the last place, relative
  std::vector<double> scores(seq), magnitude(d), absolute(d);
  for (int h = 0; h < heads; ++h)
    for (int i = 0; i < seq; ++i) {
      int visible = causal ? i + 1 : seq;
      double top = -INFINITY, largest = 0, total = 0;
      for (int j = 0; j < visible; ++j) {
        double s = 0, size = 0;
        for (int c = 0; c < d; ++c) s += q.get(h, i, c) * k.get(h, j, c), size += std::fabs(q.get(h, i, c) * k.get(h, j, c));
        scores[j] = s * scale;
        top = std::max(top, scores[j]), largest = std::max(largest, size * scale);
      }
      std::fill(magnitude.begin(), magnitude.end(), 0.0), std::fill(absolute.begin(), absolute.end(), 0.0);
      size_t at = (size_t(h) * seq + i) * d;
      for (int j = 0; j < visible; ++j) {
        double p = std::exp(scores[j] - top);
        total += p;
        for (int c = 0; c < d; ++c) {
          double x = v.get(h, j, c);
          r.o[at + c] += p * x, magnitude[c] += p * std::fabs(x), absolute[c] += std::fabs(x);
        }
      }
      r.lse[size_t(h) * seq + i] = top + std::log(total);
      for (int c = 0; c < d; ++c) {
        r.o[at + c] /= total;
        // Weights: `half` each (f16 also has a smallest step, 2^-24); scores: f32 sums, relative to the largest sum of magnitudes; the
        // output: `half`.
        r.tolerance[at + c] = half * (magnitude[c] / total + std::fabs(r.o[at + c])) + (2e-6 + 4 * 0x1p-23 * largest) * magnitude[c] / total +
                              (type == "f16" ? 0x1p-25 * (absolute[c] / total + 1) : 0);
      }
    }
  return r;
}

void run(const Config &c, const std::string &target, int heads, int seq, Data data, unsigned seeds) {
  CAPTURE(target); CAPTURE(c.text()); CAPTURE(heads); CAPTURE(seq); CAPTURE(int(data));
  Program p = build(c, target);
  Rng rng(seq * 31 + c.d);
  Sequences q(c.type, heads, seq, c.d), k(c.type, heads, seq, c.d), v(c.type, heads, seq, c.d), o(c.type, heads, seq, c.d);
  fillSequences(q, rng, data == Data::Equal, false), fillSequences(k, rng, false, data == Data::Growing), fillSequences(v, rng, false, false);
  Tensor lse("f32", size_t(heads) * seq);
  double scale = 1 / std::sqrt(double(c.d));
  Reference want = reference(q, k, v, c.causal, double(float(scale)), c.type);
  auto dq = upload(q.values), dk = upload(k.values), dv = upload(v.values);
  for (const Setting &setting : settings(target, seeds)) {
    o.values.poison(), lse.poison();
    auto dout = upload(o.values), dlse = upload(lse);
    CHECK(p.run({uint32_t((seq + c.bm - 1) / c.bm), uint32_t(heads)},
                {q.argument(dq), k.argument(dk), v.argument(dv), o.argument(dout), dlse, seq, scale}, setting) == "");
    download(o.values, dout), download(lse, dlse);
    double worst = 0, difference = 0, norm = 0;
    std::string where;
    for (int h = 0; h < heads; ++h)
      for (int i = 0; i < seq; ++i)
        for (int x = 0; x < c.d; ++x) {
          size_t at = (size_t(h) * seq + i) * c.d + x;
          double got = o.get(h, i, x), ratio = std::fabs(got - want.o[at]) / want.tolerance[at];
          difference += (got - want.o[at]) * (got - want.o[at]), norm += want.o[at] * want.o[at];
          if (std::isnan(ratio)) ratio = INFINITY;
          if (ratio > worst) {
            worst = ratio;
            where = "head " + std::to_string(h) + " row " + std::to_string(i) + " column " + std::to_string(x) + ": " + std::to_string(got) +
                    ", should be " + std::to_string(want.o[at]);
          }
        }
    CHECK_MESSAGE(worst <= 1, setting.text(), " ", where, ", ", worst, " of the tolerance");
    // Roundings are independent, so that their mean is far below the bound of each one.
    CHECK_MESSAGE(std::sqrt(difference / norm) <= (c.type == "f16" ? 4e-4 : 3.2e-3), setting.text());
    Worst w = compare(lse, want.lse, 1e-5, 1e-6);
    CHECK_MESSAGE(w.ratio <= 1, setting.text(), " lse ", w.text());
    for (int i = 0; i < seq; ++i)
      for (int x = heads * c.d; x < o.rowStride; ++x) CHECK(std::isnan(o.values.get(size_t(i) * o.rowStride + x))); // what lies between is untouched
  }
}
} // namespace

TEST_CASE("attention: head dimensions, full and causal, ragged sequences") {
  for (const std::string &target : targets())
    for (int d : {64, 80, 96, 128})
      for (bool causal : {false, true}) {
        Config c;
        c.d = d, c.causal = causal;
        if (smallMemory(target) && d == 128) c.bn = 32;
        run(c, target, 2, 150, Data::Normal, d == 80 || d == 128 ? seeds() : 1);
        for (int seq : {1, 63, 64}) run(c, target, 1, seq, Data::Normal, 0);
        c.type = "bf16";
        run(c, target, 1, 150, Data::Normal, 0);
      }
}

TEST_CASE("attention: tiles, stages, warps") {
  for (const std::string &target : targets())
    for (bool causal : {false, true})
      for (auto [bm, bn, stages, warps] : {std::array<int, 4>{128, 64, 2, 4}, {128, 128, 2, 8}, {64, 32, 3, 4}, {64, 80, 2, 4}, {128, 48, 1, 8}}) {
        if (smallMemory(target) && bn == 128) continue;
        Config c;
        c.causal = causal, c.bm = bm, c.bn = bn, c.stages = stages, c.warps = warps;
        run(c, target, 1, 200, Data::Normal, seeds());
      }
}

TEST_CASE("attention: every key with the same weight") {
  for (const std::string &target : targets())
    for (bool causal : {false, true}) {
      Config c;
      c.causal = causal;
      run(c, target, 2, 130, Data::Equal, 1);
    }
}

TEST_CASE("attention: a maximum that grows all the way") {
  for (const std::string &target : targets())
    for (const char *type : {"f16", "bf16"})
      for (bool causal : {false, true}) {
        Config c;
        c.causal = causal, c.type = type;
        run(c, target, 1, 200, Data::Growing, 1);
      }
}

TEST_CASE("attention: EVEN has no masked block, and is checked") {
  for (const std::string &target : targets())
    for (bool causal : {false, true}) {
      Config c;
      c.causal = causal, c.even = true;
      run(c, target, 2, 192, Data::Normal, seeds());
    }
  Config c;
  c.even = true;
  Program p = build(c, targets()[0]);
  Sequences x(c.type, 1, 100, c.d);
  auto d = upload(x.values);
  CHECK(p.run({2, 1}, {x.argument(d), x.argument(d), x.argument(d), x.argument(d), d, 100, 0.125}, {targets()[0]}).find("seq % BN == 0") !=
        std::string::npos);
}
