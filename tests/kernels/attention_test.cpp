// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// attention and attention_ws against float64. What a correct kernel may lose: each weight is rounded once to the type of V, the output
// once to its own, and scores and sums are f32.
#include <doctest/doctest.h>

#include "references.h"

using namespace harness;

namespace {
struct Config {
  int d = 64, bm = 64, bn = 64, stages = 2, warps = 4;
  int consumers = 0; // of attention_ws; 0: the blocked kernel
  bool dynamic = false;
  std::string type = "f16";
  bool causal = false, even = false;
  std::string text() const {
    return "D " + std::to_string(d) + " " + std::to_string(bm) + "x" + std::to_string(bn) + " stages " +
           std::to_string(stages) +
           (consumers ? " consumers " + std::to_string(consumers) + (dynamic ? " dynamic" : "")
                      : " warps " + std::to_string(warps)) +
           " " + type + (causal ? " causal" : " full") + (even ? " even" : "");
  }
};
Program build(const Config &c, const std::string &target) {
  auto number = [](int v) { return std::to_string(v); };
  if (c.consumers)
    return compile({"attention_ws.tlx",
                    "attention_ws",
                    {{"D", number(c.d)},
                     {"BM", number(c.bm)},
                     {"BN", number(c.bn)},
                     {"STAGES", number(c.stages)},
                     {"CONSUMERS", number(c.consumers)},
                     {"REGISTERS", c.consumers == 3 ? "160" : "240"},
                     {"DYNAMIC", c.dynamic ? "true" : "false"},
                     {"T", c.type},
                     {"CAUSAL", c.causal ? "true" : "false"},
                     {"EVEN", c.even ? "true" : "false"}},
                    {}},
                   target);
  return compile({"attention.tlx",
                  "attention",
                  {{"D", number(c.d)},
                   {"BM", number(c.bm)},
                   {"BN", number(c.bn)},
                   {"STAGES", number(c.stages)},
                   {"WARPS", number(c.warps)},
                   {"T", c.type},
                   {"CAUSAL", c.causal ? "true" : "false"},
                   {"EVEN", c.even ? "true" : "false"}},
                  {}},
                 target);
}

/// 64 KB of shared memory: not enough for the larger tiles.
bool smallMemory(const std::string &target) {
  return target == "gfx942";
}

enum class Data {
  Normal,
  Equal,   // Q = 0: every key that a row sees has the same weight, so that O is a mean and lse counts the keys
  Growing, // later keys have larger scores: the running maximum grows all the way
};

/// `programs` of attention_ws.
void run(const Config &c, const std::string &target, int heads, int seq, Data data, unsigned seeds, int programs = 2) {
  CAPTURE(target);
  CAPTURE(c.text());
  CAPTURE(heads);
  CAPTURE(seq);
  CAPTURE(int(data));
  Program p = build(c, target);
  Rng rng(seq * 31 + c.d);
  Sequences q(c.type, heads, seq, c.d), k(c.type, heads, seq, c.d), v(c.type, heads, seq, c.d),
      o(c.type, heads, seq, c.d);
  q.fillWith(rng, data == Data::Equal ? 0 : 1), k.fillWith(rng, 1, data == Data::Growing), v.fillWith(rng);
  Tensor lse("f32", size_t(heads) * seq);
  double scale = 1 / std::sqrt(double(c.d));
  AttentionReference want = expectAttention(q, k, v, c.causal, double(float(scale)));
  auto dq = upload(q.values), dk = upload(k.values), dv = upload(v.values);
  Tensor counter("i32", 2);
  counter.set(0, 0), counter.set(1, 0);
  auto dcounter = upload(counter);
  for (const Setting &setting : settings(target, seeds)) {
    o.values.poison(), lse.poison();
    auto dout = upload(o.values), dlse = upload(lse);
    const auto tq = q.argument(dq), tk = k.argument(dk), tv = v.argument(dv), to = o.argument(dout);
    if (c.consumers)
      CHECK(p.run({uint32_t(programs)}, {tq, tk, tv, to, dlse, dcounter, seq, heads, scale}, setting) == "");
    else
      CHECK(p.run({uint32_t((seq + c.bm - 1) / c.bm), uint32_t(heads)}, {tq, tk, tv, to, dlse, seq, scale}, setting) ==
            "");
    download(o.values, dout), download(lse, dlse);
    std::string wrong = mismatch(o.values, want.o, o.rowStride), wrongLse = mismatch(lse, want.lse, seq);
    CHECK_MESSAGE(wrong == "", setting.text(), " ", wrong);
    CHECK_MESSAGE(relativeError(o.values, want.o) <= attentionError(c.type), setting.text());
    CHECK_MESSAGE(wrongLse == "", setting.text(), " lse ", wrongLse);
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
      for (auto [bm, bn, stages, warps] :
           {std::array<int, 4>{128, 64, 2, 4}, {128, 128, 2, 8}, {64, 32, 3, 4}, {64, 80, 2, 4}, {128, 48, 1, 8}}) {
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
  CHECK(p.run({2, 1}, {x.argument(d), x.argument(d), x.argument(d), x.argument(d), d, 100, 0.125}, {targets()[0]})
            .find("seq % BN == 0") != std::string::npos);
}

TEST_CASE("attention_ws: tiles, consumers, ragged sequences, any number of programs") {
  for (const std::string &target : targets()) {
    if (target != "sm_90a") continue;
    for (auto [d, bm, bn, consumers] :
         {std::array<int, 4>{128, 128, 128, 2}, {128, 192, 80, 3}, {64, 192, 128, 3}, {64, 128, 32, 2}})
      for (bool causal : {false, true})
        for (const char *type : {"bf16", "f16"}) {
          Config c;
          c.d = d, c.bm = bm, c.bn = bn, c.consumers = consumers, c.causal = causal, c.type = type;
          c.dynamic = causal == (std::string(type) == "bf16");
          for (auto [heads, seq, programs] : {std::array<int, 3>{3, 200, 2}, {1, 1, 1}, {1, 80, 3}})
            run(c, target, heads, seq, Data::Normal, seq == 200 && d == 64 ? seeds() : 0, programs);
          run(c, target, 1, 400, Data::Growing, 0, 1);
          if (causal) run(c, target, 1, 130, Data::Equal, 0, 1);
        }
    Config even;
    even.d = 64, even.bm = 128, even.bn = 32, even.consumers = 2, even.even = true;
    for (bool causal : {false, true}) {
      even.causal = causal;
      run(even, target, 2, 192, Data::Normal, 1);
    }
  }
}
