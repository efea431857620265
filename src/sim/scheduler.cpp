// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fibers and who runs next. The unit of the queue is the warp: its ready lanes run one after the other, which keeps the
// lanes that meet at the next collective in the cache together. A warp whose lanes only spin goes to the end of the
// queue, so what it waits for gets its turn.
#include "sim/engine.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>

#include "sim/orders.h"
#include "sim/text.h"

#ifdef TLX_ASAN
// LLVM's headers, told that they are not instrumented, make these names empty macros.
#undef __asan_poison_memory_region
#undef __asan_unpoison_memory_region
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

using namespace boost::context::detail;

namespace tlx::sim {

thread_local Engine *tlsEngine __attribute__((tls_model("initial-exec"))) = nullptr;

namespace {
constexpr uint32_t kSliceSteps = 2048;      // back-edges before a fiber that meets nobody lets the others run
constexpr unsigned kThreadsPerSm = 2048;    // of every target here
constexpr unsigned kHardResidentCtas = 192; // windows of 16 MB in the low 4 GB
constexpr unsigned kHardThreads = 16384;    // stacks, two mappings each, against the kernel's limit of 65,530

#ifdef TLX_ASAN
thread_local const void *mainStackBottom;
thread_local size_t mainStackSize;
void sanStart(void **fakeStack, Thread *to) {
  __sanitizer_start_switch_fiber(fakeStack, to ? to->stack : mainStackBottom, to ? kStackBytes : mainStackSize);
}
void sanFinish(void *fakeStack) {
  __sanitizer_finish_switch_fiber(fakeStack, nullptr, nullptr);
}
void sanFirst(bool fromMain) {
  const void *bottom;
  size_t size;
  __sanitizer_finish_switch_fiber(nullptr, &bottom, &size);
  if (fromMain) mainStackBottom = bottom, mainStackSize = size;
}
void sanReuse(char *stack) {
  __asan_unpoison_memory_region(stack, kStackBytes);
} // frames that the last user abandoned
#else
void sanStart(void **, Thread *) {}
void sanFinish(void *) {}
void sanFirst(bool) {}
void sanReuse(char *) {}
#endif
} // namespace

Engine::Engine(const ProgramImage &program, const LaunchConfig &config, llvm::ArrayRef<uint8_t> params, Memory &memory,
               LaunchResult &result)
    : program(program), config(config), result(result), stats(result.statistics),
      amd(program.target->vendor == features::Vendor::Amd), hopper(program.target->tma || program.target->wgmma),
      directLoads(program.target->directToLds != 0), checkRaces(config.checkRaces), clocks(hopper || checkRaces),
      traceAccesses(config.exhaustive && hopper), warpSize(program.target->warpSize),
      rng(config.seed * 0x9e3779b97f4a7c15ull + 1), paramMemory(new uint8_t[params.size() + kParamAlign]),
      extents(memory.extents()), siteExtent(program.sites.size(), 0), stepsLeft(config.maxSteps ? config.maxSteps : 1) {
  const uintptr_t roundedUp = reinterpret_cast<uintptr_t>(paramMemory.get()) + kParamAlign - 1;
  auto *aligned = reinterpret_cast<uint8_t *>(roundedUp / kParamAlign * kParamAlign);
  std::copy(params.begin(), params.end(), aligned);
  this->params = llvm::ArrayRef<uint8_t>(aligned, params.size());
  for (const ArgInfo &arg : program.metadata.args) {
    const bool map = arg.descriptor && arg.descriptor->tensorMap;
    const uint64_t at = arg.offset + (map ? offsetof(TensorMap, base) : 0);
    if (arg.kind == ArgInfo::Kind::Scalar || at + sizeof(uintptr_t) > params.size()) continue;
    Argument a{arg.name, 0};
    std::memcpy(&a.address, params.data() + at, sizeof a.address);
    arguments.push_back(std::move(a));
  }
}

Engine::~Engine() {
  llvm::SmallVector<char *, 0> stacks;
  for (auto *list : {&resident, &spare})
    for (auto &cta : *list) {
      for (Thread &t : cta->threads) stacks.push_back(t.stack);
      releaseWindow(cta->shared);
    }
  releaseStacks(stacks);
}

std::unique_ptr<Cta> Engine::makeCta() {
  auto cta = std::make_unique<Cta>();
  cta->shared = acquireWindow();
  if (!cta->shared) return nullptr;
  const unsigned warps = (program.threads + warpSize - 1) / warpSize;
  cta->threads.resize(program.threads);
  cta->warps.resize(warps);
  cta->shadow.resize(program.sharedBytes + 64);
  if (amd) cta->writer.resize(program.sharedBytes + 64);
  if (directLoads) cta->reading.resize(program.sharedBytes + 64);
  for (NamedBarrier &b : cta->barriers) b.lanes.resize(warps), b.passed.resize(warps);
  if (clocks) cta->units = std::make_unique<Units>();
  if (checkRaces) cta->races = std::make_unique<Races>();
  for (unsigned w = 0; w < warps; ++w) {
    Warp &warp = cta->warps[w];
    warp.cta = cta.get();
    warp.index = w;
    warp.lanes = &cta->threads[w * warpSize];
    unsigned n = std::min(warpSize, program.threads - w * warpSize);
    warp.all = n == 64 ? ~uint64_t(0) : (uint64_t(1) << n) - 1;
    for (unsigned l = 0; l < n; ++l) {
      Thread &t = warp.lanes[l];
      t.warp = &warp;
      t.index = w * warpSize + l;
      t.lane = l;
      t.stack = acquireStack();
    }
  }
  return cta;
}

void Engine::startCta(Cta &cta, uint64_t linear) {
  cta.number = uint32_t(linear);
  cta.id[0] = uint32_t(linear % config.grid[0]);
  cta.id[1] = uint32_t(linear / config.grid[0] % config.grid[1]);
  cta.id[2] = uint32_t(linear / config.grid[0] / config.grid[1]);
  std::memset(cta.shared, 0xff, program.sharedBytes); // NaN in every format
  std::fill(cta.shadow.begin(), cta.shadow.end(), uint8_t(kUnwritten));
  std::fill(cta.writer.begin(), cta.writer.end(), uint8_t(0));
  cta.live = program.threads;
  for (NamedBarrier &b : cta.barriers) b.arrived = b.uses = 0;
  cta.trace.reset();
  if (traceAccesses || (config.timeline && linear == config.timelineProgram)) {
    cta.trace = std::make_unique<Trace>(unsigned(cta.warps.size()), traceAccesses);
    std::copy(std::begin(cta.id), std::end(cta.id), cta.trace->id);
  }
  if (clocks) startUnits(cta);
  if (checkRaces) cta.races->forget();
  if (directLoads) startDirect(cta);
  for (Thread &t : cta.threads) {
    sanReuse(t.stack);
    // Frames of the lanes of a warp must not fall on the same cache sets: the first one starts at another line in each
    // lane.
    size_t color = (t.index * 9 % 60) * 64;
    t.context = make_fcontext(t.stack + kStackBytes - color, kStackBytes - color, fiberMain);
    t.exited = false;
    t.wait = Wait::None;
    t.sliceSteps = 0;
    t.committedGroups = 0;
    t.copies.clear();
    t.unreleased.clear();
    t.needsAcquire = false;
  }
  for (Warp &w : cta.warps) {
    w.live = w.ready = w.all;
    w.yielded = 0;
    w.queued = false;
    for (Gather &g : w.gathers) g.site = 0;
    push(w);
  }
  ++stats.ctas;
}

unsigned Engine::residencyLimit(bool hard) const {
  if (hard) return std::max(1u, std::min(kHardResidentCtas, kHardThreads / program.threads));
  unsigned limit = std::max(1u, std::min(config.maxResidentCtas, kThreadsPerSm / program.threads));
  if (program.sharedBytes) limit = std::min(limit, std::max(1u, program.target->sharedBytes / program.sharedBytes));
  return limit;
}

void Engine::run() {
  tlsEngine = this;
  FaultGuard faults;
  totalCtas = uint64_t(config.grid[0]) * config.grid[1] * config.grid[2];
  size_t limit = residencyLimit(false);
  const size_t hardLimit = residencyLimit(true);
  for (;;) {
    if (ctaFinished) {
      ctaFinished = false;
      yieldsSinceProgress = 0;
      for (auto &cta : resident)
        if (cta->live == 0) {
          if (hopper) endUnits(*cta);
          if (cta->trace) endTrace(*cta, true);
          if (directLoads) endDirect(*cta);
          std::erase_if(queue, [&](Warp *w) { return w->cta == cta.get(); });
          if (running && running->cta == cta.get()) running = nullptr;
          spare.push_back(std::move(cta));
        }
      std::erase(resident, nullptr);
    }
    if (wantMoreCtas) {
      wantMoreCtas = false;
      yieldsSinceProgress = 0;
      limit = std::min(limit + 1, hardLimit);
    }
    while (!stopping && nextCta < totalCtas && resident.size() < limit) {
      if (spare.empty()) {
        auto cta = makeCta();
        if (!cta && !resident.empty()) break;
        if (!cta) {
          report(FindingKind::Fault, 0, "no address space below 4 GB for shared memory", nullptr);
          stopping = true;
          break;
        }
        spare.push_back(std::move(cta));
      }
      resident.push_back(std::move(spare.back()));
      spare.pop_back();
      startCta(*resident.back(), nextCta++);
      stats.residentCtas = std::max(stats.residentCtas, unsigned(resident.size()));
    }
    if (stopping) break;
    if (resident.empty()) {
      result.completed = true;
      break;
    }
    if (Thread *t = next()) {
      switchTo(t);
      continue;
    }
    if (stopping || ctaFinished || wantMoreCtas) continue;
    // Nothing can run: what the live CTAs wait for may be a CTA that has not started.
    if (nextCta < totalCtas && limit < hardLimit) {
      wantMoreCtas = true;
      continue;
    }
    reportDeadlock();
    break;
  }
  for (auto &cta : resident)
    if (cta->trace) endTrace(*cta, false);
  tlsEngine = nullptr;
}

void Engine::push(Warp &warp) {
  warp.queued = true;
  queue.push_back(&warp);
}

Warp *Engine::pop() {
  if (queue.empty()) return nullptr;
  size_t i = 0;
  if (config.schedule == Schedule::Random) i = rng() % queue.size();
  if (config.schedule == Schedule::Late) i = queue.size() - 1;
  Warp *warp = queue[i];
  queue.erase(queue.begin() + ptrdiff_t(i));
  warp->queued = false;
  return warp;
}

Thread *Engine::next() {
  if (stopping || ctaFinished || wantMoreCtas) return nullptr;
  // Most switches: the next lane of the warp that runs.
  if (running && running->ready && (config.schedule == Schedule::InOrder || config.schedule == Schedule::Late)) {
    const unsigned lane = unsigned(std::countr_zero(running->ready));
    running->ready &= running->ready - 1;
    return &running->lanes[lane];
  }
  const bool random = config.schedule == Schedule::Random;
  if (random) asyncRandom();
  if (running && running->ready) {
    bool preempt = random ? rng() % 16 == 0 : config.schedule == Schedule::Early && stats.switches % 8 == 0;
    if (preempt && !queue.empty()) {
      push(*running);
      running = nullptr;
    }
  }
  for (;;) {
    if (!running) running = pop();
    if (!running) {
      if (completeLoad()) continue; // what the threads wait for may be on its way
      return nullptr;
    }
    if (running->ready) break;
    if (running->yielded) { // behind all others, in every schedule
      if (!openLoads.empty() && std::none_of(queue.begin(), queue.end(), [](Warp *w) { return w->ready != 0; }))
        completeLoad();
      running->ready |= running->yielded;
      running->yielded = 0;
      running->queued = true;
      if (config.schedule == Schedule::Late)
        queue.push_front(running);
      else
        queue.push_back(running);
    }
    running = nullptr;
  }
  unsigned lane = unsigned(std::countr_zero(running->ready));
  if (random) {
    unsigned skip = unsigned(rng() % unsigned(std::popcount(running->ready)));
    uint64_t rest = running->ready;
    while (skip--) rest &= rest - 1;
    lane = unsigned(std::countr_zero(rest));
  }
  running->ready &= ~(uint64_t(1) << lane);
  return &running->lanes[lane];
}

void Engine::switchTo(Thread *to) {
  Thread *from = current;
  if (from == to) return;
  ++stats.switches;
  current = to;
  void *fakeStack = nullptr;
  bool abandoned = from && (from->exited || stopping);
  sanStart(abandoned ? nullptr : &fakeStack, to);
  transfer_t t = jump_fcontext(to ? to->context : mainContext, from);
  sanFinish(fakeStack);
  if (auto *previous = static_cast<Thread *>(t.data))
    previous->context = t.fctx;
  else
    mainContext = t.fctx;
}

void Engine::fiberMain(transfer_t t) {
  sanFirst(t.data == nullptr);
  Engine &e = engine();
  if (auto *previous = static_cast<Thread *>(t.data))
    previous->context = t.fctx;
  else
    e.mainContext = t.fctx;
  e.program.entry(e.params.data());
  e.exitThread();
}

void Engine::exitThread() {
  Thread &t = *current;
  asyncDrain(t);
  if (hopper) endThreadUnits(t);
  onSync(SyncKind::Exit, 0, kKernelSite);
  t.exited = true;
  t.warp->live &= ~t.bit();
  if (directLoads) directExit(t);
  if (--t.warp->cta->live == 0)
    ctaFinished = true;
  else if (amd)
    barrierExit(t);
  switchTo(next());
}

void Engine::block(Wait wait, uint32_t site) {
  Thread &t = *current;
  t.wait = wait;
  t.waitSite = site;
  switchTo(next());
  t.wait = Wait::None;
}

void Engine::wake(Warp &warp, uint64_t lanes) {
  warp.ready |= lanes;
  if (!warp.queued && &warp != running) push(warp);
}

void Engine::yield() {
  Thread &t = *current;
  t.sliceSteps = 0;
  t.warp->yielded |= t.bit();
  // The live CTAs may be spinning for one that has not started. A spinning thread gets here often, a busy one seldom
  // (see backEdge).
  yieldsSinceProgress += 16;
  if (nextCta < totalCtas && yieldsSinceProgress > 64 * uint64_t(program.threads) * resident.size() &&
      resident.size() < residencyLimit(true))
    wantMoreCtas = true;
  Thread *to = next();
  if (to == &t) return;
  switchTo(to);
}

TLX_COLD void Engine::endlessLoop(uint32_t site) {
  report(FindingKind::EndlessLoop, site,
         "endless loop: this loop is running after " + std::to_string(config.maxSteps) + " iterations of all threads");
}

void Engine::backEdge(uint32_t site) {
  ++stats.backEdges;
  if (--stepsLeft == 0) {
    endlessLoop(site);
    stop();
  }
  if (++current->sliceSteps >= kSliceSteps) {
    yieldsSinceProgress -= std::min<uint64_t>(yieldsSinceProgress, 15);
    yield();
  }
}

void Engine::stop() {
  stopping = true;
  if (current) switchTo(nullptr);
}

void Engine::onFault(int signal, uintptr_t address) {
  const uintptr_t bottom = reinterpret_cast<uintptr_t>(current->stack);
  const bool overflow = address < bottom && address >= bottom - kGuardBytes;
  report(FindingKind::Fault, overflow ? kKernelSite : 0,
         overflow
             ? "the thread's stack overflows (" + std::to_string(kStackBytes >> 10) +
                   " KB): more warps or a smaller tile"
             : "signal " + std::to_string(signal) + " in kernel code at address 0x" + llvm::utohexstr(address, true));
  stop();
}

LaunchResult launch(const Program &program, const LaunchConfig &config, llvm::ArrayRef<uint8_t> params,
                    Memory &memory) {
  LaunchResult result;
  auto start = std::chrono::steady_clock::now();
  if (params.size() < program.paramBytes()) {
    Finding f;
    f.kind = FindingKind::InvalidOperation;
    f.message = "the parameter buffer has " + countText(params.size(), "byte") + ", the kernel needs " +
                std::to_string(program.paramBytes());
    result.findings.push_back(std::move(f));
    return result;
  }
  const auto rehearsed =
      config.exhaustive ? rehearse(program, config, params, memory) : std::vector<std::vector<uint64_t>>();
  {
    LaunchConfig own = config;
    own.checkRaces |= config.exhaustive; // which leaves the lanes of a warp to it
    Engine engine(program.image(), own, params, memory, result);
    engine.run();
    if (config.exhaustive) concludeOrders(engine, rehearsed);
  }
  result.statistics.milliseconds =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return result;
}

} // namespace tlx::sim
