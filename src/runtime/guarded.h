// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs a compile on a thread of its own: a large stack, and LLVM's fatal errors become a status instead of the end of
// the process.
#pragma once
#include <functional>

#include "runtime/launch/status.h"

namespace tlx::runtime {

/// Runs `work` on a new thread with a 64 MB stack and waits for it. If LLVM reports a fatal error there, the thread is
/// parked for ever (its stack, locks and LLVM context leak; nothing of it runs again) and the status is Internal with
/// LLVM's message. An exception of `work` is Internal too. What `work` refers to may go away after this returns.
/// abort(), llvm_unreachable and stack overflow do not come this way and end the process.
Status runGuarded(std::function<void()> work);

/// Threads parked so far in this process.
unsigned parkedThreads();

} // namespace tlx::runtime
