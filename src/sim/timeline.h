// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Private to src/sim: a trace as a page of HTML.
#pragma once
#include <string>

namespace tlx::sim {

class Engine;
class Trace;

/// One page that needs nothing else: warps and units as lanes, phases of barriers, who waits for whom.
std::string drawTimeline(const Engine &engine, const Trace &trace);

/// What stands before and behind the data in it.
extern const char *const kTimelinePage[2];

} // namespace tlx::sim
