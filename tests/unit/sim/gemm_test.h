// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A warp-specialized matrix product that uses all of Hopper's units; gemm_test.cpp describes and tests it, speed_test.cpp
// measures it.
#pragma once
#include "sim_test.h"

namespace sim_test {

/// What may be wrong with it; by default nothing.
struct GemmVariant {
  bool releaseCurrent = false; // the slot of the group that is still in flight
  bool waitForFull = true, fence = true, retire = true;
  unsigned expected = 49152;
};
std::unique_ptr<Program> gemmProgram(const GemmVariant &variant = {});

/// Operands of small integers and what they give: A is m x k, B is n x k, f16, C = A · Bᵀ is m x n, f32; m % 128 == 0,
/// n % 256 == 0.
struct GemmData {
  unsigned m, n, k;
  std::vector<uint16_t> a, b;
  std::vector<float> c;
  GemmData(unsigned m, unsigned n, unsigned k);
  LaunchResult run(const Program &program, LaunchConfig config, std::vector<float> &got) const;
};

} // namespace sim_test
