// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "references.h"

#include <algorithm>
#include <sstream>

namespace harness {

bool poisoned(const Tensor &t, size_t i) {
  const uint8_t *p = static_cast<const uint8_t *>(t.data()) + i * sizeOf(t.type());
  return std::all_of(p, p + sizeOf(t.type()), [](uint8_t b) { return b == 0xff; });
}

std::string mismatch(const Tensor &got, const Expected &want, size_t row) {
  auto place = [&](size_t i) { return "element (" + std::to_string(i / row) + ", " + std::to_string(i % row) + ")"; };
  double worst = 1; // of the tolerance
  size_t where = 0, wrong = 0;
  for (size_t i = 0; i < want.value.size(); ++i) {
    if (want.tolerance[i] < 0) {
      if (!poisoned(got, i)) return place(i) + " is no part of the output and was written";
      continue;
    }
    double g = got.get(i), w = want.value[i], ratio = g == w ? 0 : std::fabs(g - w) / want.tolerance[i];
    if (std::isnan(ratio)) ratio = INFINITY;
    if (ratio > 1) ++wrong;
    if (ratio > worst) worst = ratio, where = i;
  }
  if (!wrong) return "";
  std::ostringstream s;
  s.precision(9);
  s << wrong << " wrong, " << place(where) << " is " << got.get(where) << ", should be " << want.value[where] << ": "
    << worst << " of the tolerance";
  return s.str();
}

double relativeError(const Tensor &got, const Expected &want) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < want.value.size(); ++i) {
    if (want.tolerance[i] < 0) continue;
    double d = got.get(i) - want.value[i];
    difference += d * d, norm += want.value[i] * want.value[i];
  }
  return difference == 0 ? 0 : std::sqrt(difference / norm);
}

double roundTo(const std::string &type, double v) {
  if (type == "f16") return halfToFloat(floatToHalf(float(v)));
  if (type == "bf16") return bf16ToFloat(floatToBf16(float(v)));
  return type == "f32" ? double(float(v)) : v;
}
double storeError(const std::string &type) {
  return type == "f16" ? 0x1p-11 : type == "bf16" ? 0x1p-8 : type == "f64" ? 0x1p-53 : 0x1p-24;
}

static std::vector<double> unpack(const Tensor &t) {
  std::vector<double> values(t.count());
  for (size_t i = 0; i < values.size(); ++i) values[i] = t.get(i);
  return values;
}

// --- products

static int paddedRow(const std::string &type, int cols) {
  int unit = int(16 / sizeOf(type));
  return (cols + unit) / unit * unit;
}
Matrix::Matrix(const std::string &type, int rows, int cols, int ld)
    : rows(rows), cols(cols), ld(ld ? ld : paddedRow(type, cols)), values(type, size_t(rows) * this->ld) {
  values.poison();
}
void Matrix::fillWith(Rng &rng, Fill how, int bound) {
  Tensor row(values.type(), cols);
  for (int r = 0; r < rows; ++r) {
    fill(row, rng, how, bound);
    for (int c = 0; c < cols; ++c) values.set(at(r, c), row.get(c));
  }
}

/// Rows x columns without gaps, of the matrix or of its transpose.
static std::vector<double> dense(const Matrix &stored, bool transposed) {
  int rows = transposed ? stored.cols : stored.rows, cols = transposed ? stored.rows : stored.cols;
  std::vector<double> values(size_t(rows) * cols);
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < cols; ++c) values[size_t(r) * cols + c] = transposed ? stored.get(c, r) : stored.get(r, c);
  return values;
}
Product multiply(const Matrix &a, bool ta, const Matrix &b, bool tb, int m, int n, int k) {
  Product p{m, n, k, std::vector<double>(size_t(m) * n), {}};
  p.magnitude = p.sum;
  const std::vector<double> left = dense(a, ta), right = dense(b, tb);
  for (int row = 0; row < m; ++row)
    for (int i = 0; i < k; ++i) {
      double x = left[size_t(row) * k + i], size = std::fabs(x), *sum = p.sum.data() + size_t(row) * n;
      double *magnitude = p.magnitude.data() + size_t(row) * n;
      const double *y = right.data() + size_t(i) * n;
      for (int col = 0; col < n; ++col) sum[col] += x * y[col], magnitude[col] += size * std::fabs(y[col]);
    }
  return p;
}
Expected expectProduct(const Product &p, const Matrix &out, const std::string &operandType, Fill how) {
  Expected want(out.values.count());
  // Sums in f32 (f64) of products that are exact in it; f32 operands are cut to tf32's 10 bits. One rounding to the type of C.
  const std::string &type = out.values.type();
  double sums = operandType == "f32" ? 0x1p-9 : operandType == "f64" ? 0x1p-46 : 0x1p-20, store = storeError(type);
  for (int m = 0; m < p.m; ++m)
    for (int n = 0; n < p.n; ++n) {
      size_t i = size_t(m) * p.n + n;
      if (how == Fill::Integers)
        want.set(out.at(m, n), roundTo(type, p.sum[i]), 0);
      else
        want.set(out.at(m, n), p.sum[i], sums * p.magnitude[i] + store * std::fabs(p.sum[i]));
    }
  return want;
}

const std::vector<Activation> &activations() {
  static const std::vector<Activation> all{
      {"identity", [](double x) { return x; }, true},
      {"relu", [](double x) { return x > 0 ? x : 0; }, true},
      {"silu", [](double x) { return x / (1 + std::exp(-x)); }, false},
      {"gelu", [](double x) { return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))); },
       false},
  };
  return all;
}
Expected expectBiasAct(const Product &p, const Tensor &bias, const Activation &activation, const Matrix &out,
                       Fill how) {
  Expected want(out.values.count());
  const std::string &type = out.values.type();
  for (int m = 0; m < p.m; ++m)
    for (int n = 0; n < p.n; ++n) {
      size_t i = size_t(m) * p.n + n;
      double b = bias.get(n), value = activation.of(p.sum[i] + b);
      // All activations have slopes of at most 1.13; exp(-x) is good to 2 + |x| ulp, and the quotient hardly moves where it is large.
      double way = 1.13 * 0x1p-20 * (p.magnitude[i] + std::fabs(b)) + 2e-6;
      if (how == Fill::Integers && activation.exact)
        want.set(out.at(m, n), roundTo(type, value), 0);
      else
        want.set(out.at(m, n), value, way + storeError(type) * std::fabs(value));
    }
  return want;
}

// --- rows

Expected expectSoftmax(const Tensor &x, int rows, int cols, int stride) {
  Expected want(x.count());
  const std::string &type = x.type();
  double rtol = type == "f32" ? 2e-6 : type == "f16" ? 1e-3 : 8e-3, atol = type == "f16" ? 1e-7 : 1e-12;
  std::vector<double> row(cols);
  for (int r = 0; r < rows; ++r) {
    double top = -INFINITY, total = 0;
    for (int c = 0; c < cols; ++c) top = std::max(top, row[c] = x.get(size_t(r) * stride + c));
    for (int c = 0; c < cols; ++c) total += row[c] = std::exp(row[c] - top);
    for (int c = 0; c < cols; ++c) want.set(size_t(r) * stride + c, row[c] / total, atol + rtol * row[c] / total);
  }
  return want;
}

Expected expectNorm(const Tensor &x, const Tensor &weight, const Tensor *bias, int rows, int cols, int stride,
                    double eps) {
  Expected want(x.count());
  std::vector<double> row(cols);
  for (int r = 0; r < rows; ++r) {
    double mean = 0, square = 0;
    for (int c = 0; c < cols; ++c) mean += (row[c] = x.get(size_t(r) * stride + c)) / cols;
    if (!bias) mean = 0;
    for (int c = 0; c < cols; ++c) square += (row[c] - mean) * (row[c] - mean) / cols;
    double deviation = std::sqrt(square + eps);
    for (int c = 0; c < cols; ++c) {
      double unit = (row[c] - mean) / deviation, w = weight.get(c), b = bias ? bias->get(c) : 0, value = unit * w + b;
      // Some ten roundings of f32 on the way (the mean's are relative to the mean), then one to the type.
      double way = 1e-6 * (std::fabs(b) + std::fabs(w) * (std::fabs(unit) + 1 + std::fabs(mean) / deviation));
      want.set(size_t(r) * stride + c, value,
               way + storeError(x.type()) * (std::fabs(value) + way) + (x.type() == "f16" ? 0x1p-25 : 0));
    }
  }
  return want;
}

// --- attention

Sequences::Sequences(const std::string &type, int heads, int seq, int d)
    : heads(heads), seq(seq), d(d), rowStride(heads * d + 8), values(type, size_t(seq) * rowStride) {
  values.poison();
}
void Sequences::fillWith(Rng &rng, double scale, bool growing) {
  for (int h = 0; h < heads; ++h)
    for (int row = 0; row < seq; ++row)
      for (int c = 0; c < d; ++c) values.set(at(h, row, c), rng.normal() * scale * (growing ? 1 + row / 16.0 : 1));
}

double attentionError(const std::string &type) {
  return type == "f16" ? 4e-4 : 3.2e-3;
}

AttentionReference expectAttention(const Sequences &q, const Sequences &k, const Sequences &v, bool causal,
                                   double scale) {
  const std::string &type = q.values.type();
  int heads = q.heads, seq = q.seq, d = q.d;
  AttentionReference r{Expected(q.values.count()), Expected(size_t(heads) * seq)};
  const std::vector<double> qs = unpack(q.values), ks = unpack(k.values), vs = unpack(v.values);
  double half = storeError(type);
  std::vector<double> keys(size_t(d) * seq), scores(seq), sizes(seq), sum(d), magnitude(d), absolute(d);
  for (int h = 0; h < heads; ++h) {
    for (int j = 0; j < seq; ++j) // by column, so that the scores of a row are sums over vectors
      for (int c = 0; c < d; ++c) keys[size_t(c) * seq + j] = ks[k.at(h, j, c)];
    for (int i = 0; i < seq; ++i) {
      int visible = causal ? i + 1 : seq;
      std::fill(scores.begin(), scores.end(), 0.0), std::fill(sizes.begin(), sizes.end(), 0.0);
      for (int c = 0; c < d; ++c) {
        double x = qs[q.at(h, i, c)];
        const double *column = keys.data() + size_t(c) * seq;
        for (int j = 0; j < visible; ++j) scores[j] += x * column[j], sizes[j] += std::fabs(x * column[j]);
      }
      double top = -INFINITY, largest = 0, total = 0;
      for (int j = 0; j < visible; ++j)
        top = std::max(top, scores[j] *= scale), largest = std::max(largest, sizes[j] * scale);
      for (std::vector<double> *s : {&sum, &magnitude, &absolute}) std::fill(s->begin(), s->end(), 0.0);
      for (int j = 0; j < visible; ++j) {
        double p = std::exp(scores[j] - top);
        const double *row = vs.data() + v.at(h, j, 0);
        total += p;
        for (int c = 0; c < d; ++c)
          sum[c] += p * row[c], magnitude[c] += p * std::fabs(row[c]), absolute[c] += std::fabs(row[c]);
      }
      double lse = top + std::log(total);
      r.lse.set(size_t(h) * seq + i, lse, 1e-5 + 1e-6 * std::fabs(lse));
      for (int c = 0; c < d; ++c) {
        double o = sum[c] / total, size = magnitude[c] / total;
        // Weights: `half` each (f16 also has a smallest step, 2^-24); scores: f32 sums, relative to the largest sum of magnitudes; the
        // output: `half`.
        double tolerance = half * (size + std::fabs(o)) + (2e-6 + 4 * 0x1p-23 * largest) * size +
                           (type == "f16" ? 0x1p-25 * (absolute[c] / total + 1) : 0);
        r.o.set(q.at(h, i, c), o, tolerance);
      }
    }
  }
  return r;
}

} // namespace harness
