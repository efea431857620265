// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the shipped kernels should compute, in float64 on the host, element by element of the memory that a kernel may write, with what
// correct code may lose on the way. Integers that f32 sums hold exactly come without tolerance.
#pragma once
#include "harness.h"

namespace harness {

/// What memory must hold after a launch: at each element a value ± a tolerance, or, where the tolerance is negative, the poison of before.
struct Expected {
  std::vector<double> value, tolerance;
  explicit Expected(size_t count) : value(count, 0.0), tolerance(count, -1.0) {}
  void set(size_t i, double v, double t) { value[i] = v, tolerance[i] = t; }
};
/// "" if `got` holds what it should, else the element that is worst, as row and column of rows of `row` elements.
std::string mismatch(const Tensor &got, const Expected &want, size_t row);
/// √(Σ(got - want)² / Σ want²): roundings are independent, so that their mean is far below the bound of each one.
double relativeError(const Tensor &got, const Expected &want);
bool poisoned(const Tensor &t, size_t i);

/// `v` as the type holds it, rounded once to nearest even.
double roundTo(const std::string &type, double v);
/// Half a unit in the last place of a number of the type, relative to it: what storing it may cost.
double storeError(const std::string &type);

/// A matrix in memory: rows `ld` elements apart with poison between. Without `ld` that is a multiple of 16 bytes, as descriptors demand,
/// with at least one element between rows.
struct Matrix {
  int rows, cols, ld;
  Tensor values;
  Matrix(const std::string &type, int rows, int cols, int ld = 0);
  size_t at(int r, int c) const { return size_t(r) * ld + c; }
  double get(int r, int c) const { return values.get(at(r, c)); }
  void fillWith(Rng &rng, Fill how, int bound);
  tlx::Tensor argument(const tlx::Buffer &b) const { return tensor(b, values, {rows, cols}, {ld, 1}); }
};

/// A[m, k] · B[k, n] of stored matrices (`ta`, `tb`: their transposes are stored) and the same of magnitudes, both row-major.
struct Product {
  int m, n, k;
  std::vector<double> sum, magnitude;
};
Product multiply(const Matrix &a, bool ta, const Matrix &b, bool tb, int m, int n, int k);
/// What a product of f32 accumulation (i32, f64 by type) stores to `out`. Integers: exact, but for the one rounding to the type of C.
Expected expectProduct(const Product &p, const Matrix &out, const std::string &operandType, Fill how);

/// ACT(A·B + bias); bias has an element a column.
struct Activation {
  const char *name;
  double (*of)(double);
  bool exact; // of integers: identity and relu
};
const std::vector<Activation> &activations();
Expected expectBiasAct(const Product &p, const Tensor &bias, const Activation &activation, const Matrix &out, Fill how);

/// Softmax of rows `stride` elements apart.
Expected expectSoftmax(const Tensor &x, int rows, int cols, int stride);
/// layer_norm (bias given) and rms_norm (null) of rows `stride` elements apart.
Expected expectNorm(const Tensor &x, const Tensor &weight, const Tensor *bias, int rows, int cols, int stride,
                    double eps);

/// [heads, seq, D] in memory as frameworks keep it, [seq, heads, D], with a gap of poison behind each row of all heads.
struct Sequences {
  int heads, seq, d, rowStride;
  Tensor values;
  Sequences(const std::string &type, int heads, int seq, int d);
  size_t at(int h, int row, int c) const { return size_t(row) * rowStride + h * d + c; }
  tlx::Tensor argument(const tlx::Buffer &b) const { return tensor(b, values, {heads, seq, d}, {d, rowStride, 1}); }
  /// Normal numbers times `scale` and, `growing`, more in later rows.
  void fillWith(Rng &rng, double scale = 1, bool growing = false);
};
/// What a correct kernel may lose: each weight is rounded once to the type of V, the output once to its own; scores and sums are f32.
struct AttentionReference {
  Expected o, lse; // memory of a Sequences; [heads, seq]
};
AttentionReference expectAttention(const Sequences &q, const Sequences &k, const Sequences &v, bool causal,
                                   double scale);
/// The bound of relativeError of attention's output.
double attentionError(const std::string &type);

} // namespace harness
