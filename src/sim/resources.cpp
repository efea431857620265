// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What launches borrow from the process: fiber stacks, shared-memory windows, signal handlers.
#include "sim/engine.h"

#include <csignal>
#include <cstdlib>
#include <mutex>
#include <sys/mman.h>

namespace tlx::sim {

namespace {
constexpr unsigned kSlabStacks = 64;
std::mutex poolMutex;
std::vector<char *> freeStacks;     // guarded by poolMutex
std::vector<uint8_t *> freeWindows; // guarded by poolMutex
uintptr_t nextWindow = 0x10000000;  // guarded by poolMutex; above what the linker and the null page use

// Signals: the first launch installs, the last restores.
constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
std::mutex signalMutex;
unsigned signalUsers = 0;
struct sigaction previousActions[std::size(kSignals)];
constexpr size_t kAlternateBytes = 128 << 10; // the handler formats a finding

void onSignal(int signal, siginfo_t *info, void *) {
  Engine *engine = tlsEngine;
  if (engine && engine->current) {
    sigset_t set; // the handler is left by a jump, so the mask must be opened by hand
    sigemptyset(&set);
    sigaddset(&set, signal);
    pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
    engine->onFault(signal, reinterpret_cast<uintptr_t>(info->si_addr));
  }
  // Not a fiber's: the instruction runs again under the action that stood before us.
  for (size_t i = 0; i < std::size(kSignals); ++i)
    if (kSignals[i] == signal) sigaction(signal, &previousActions[i], nullptr);
}
} // namespace

char *acquireStack() {
  std::lock_guard lock(poolMutex);
  if (freeStacks.empty()) {
    constexpr size_t stride = kStackBytes + kGuardBytes;
    void *slab = mmap(nullptr, stride * kSlabStacks, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (slab == MAP_FAILED) std::abort(); // no address space at all
    for (unsigned i = kSlabStacks; i-- > 0;) {
      char *base = static_cast<char *>(slab) + i * stride;
      mprotect(base, kGuardBytes, PROT_NONE);
      freeStacks.push_back(base + kGuardBytes);
    }
  }
  char *stack = freeStacks.back();
  freeStacks.pop_back();
  return stack;
}

void releaseStacks(llvm::ArrayRef<char *> stacks) {
  std::lock_guard lock(poolMutex);
  // In reverse, so that the next launch gets them in the same order: neighbours stay neighbours.
  freeStacks.insert(freeStacks.end(), stacks.rbegin(), stacks.rend());
}

// Below 4 GB and 16 MB aligned: a pointer cut to i32, descriptors and swizzle bits then work unchanged.
uint8_t *acquireWindow() {
  std::lock_guard lock(poolMutex);
  if (!freeWindows.empty()) {
    uint8_t *window = freeWindows.back();
    freeWindows.pop_back();
    return window;
  }
  for (; nextWindow < 0xff000000u; nextWindow += 0x1000000) {
    void *p = mmap(reinterpret_cast<void *>(nextWindow), kWindowBytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (p == MAP_FAILED) continue;                      // somebody else's
    if (reinterpret_cast<uintptr_t>(p) != nextWindow) { // a kernel that does not know the flag
      munmap(p, kWindowBytes);
      continue;
    }
    nextWindow += 0x1000000;
    return static_cast<uint8_t *>(p);
  }
  return nullptr;
}

void releaseWindow(uint8_t *window) {
  std::lock_guard lock(poolMutex);
  freeWindows.push_back(window);
}

FaultGuard::FaultGuard() : alternateStack(std::malloc(kAlternateBytes)), previousStack(new stack_t) {
  stack_t stack{};
  stack.ss_sp = alternateStack;
  stack.ss_size = kAlternateBytes;
  sigaltstack(&stack, static_cast<stack_t *>(previousStack));
  std::lock_guard lock(signalMutex);
  if (signalUsers++) return;
  struct sigaction action {};
  action.sa_sigaction = onSignal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &action, &previousActions[i]);
}

FaultGuard::~FaultGuard() {
  {
    std::lock_guard lock(signalMutex);
    if (--signalUsers == 0)
      for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &previousActions[i], nullptr);
  }
  sigaltstack(static_cast<stack_t *>(previousStack), nullptr);
  delete static_cast<stack_t *>(previousStack);
  std::free(alternateStack);
}

} // namespace tlx::sim
