// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to src/sim: every interleaving of a program from one trace of it. See orders.cpp.
#pragma once
#include <cstdint>
#include <vector>

#include "llvm/ADT/ArrayRef.h"

#include "sim/sim.h"

namespace tlx::sim {

class Engine;
struct Cta;

/// Digests of what each warp of each program does, from runs under other schedules; empty where two of them differ. Memory is as before.
std::vector<std::vector<uint64_t>> rehearse(const Program &program, const LaunchConfig &config,
                                            llvm::ArrayRef<uint8_t> params, Memory &memory);
/// Finds what another interleaving of a program that has ended, by its trace, would do otherwise.
void checkOrders(Engine &engine, const Cta &cta);
/// After the launch: says that it is covered, or why not.
void concludeOrders(Engine &engine, const std::vector<std::vector<uint64_t>> &rehearsed);

} // namespace tlx::sim
