// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See guarded.h.
#include "runtime/guarded.h"

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>

#include <pthread.h>
#include <unistd.h>

#include "llvm/Support/ErrorHandling.h"

namespace tlx::runtime {

namespace {

struct Job {
  std::function<void()> work;
  std::mutex mutex;
  std::condition_variable changed;
  enum { Running, Done, Parked } state = Running;
  Status status;
};

thread_local Job *currentJob = nullptr;
std::atomic<unsigned> parked{0};

void onFatalError(void *, const char *reason, bool) {
  Job *job = currentJob;
  if (!job) return; // not one of our threads: LLVM goes on to end the process
  parked.fetch_add(1);
  {
    std::lock_guard lock(job->mutex);
    job->status = Status::error(Code::Internal, std::string("LLVM gave up: ") + (reason ? reason : "(no message)"));
    job->state = Job::Parked;
    job->changed.notify_all();
  }
  for (;;) pause();
}

void installHandlers() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::install_fatal_error_handler(onFatalError);
    llvm::install_bad_alloc_error_handler(onFatalError);
  });
}

void *threadMain(void *argument) {
  // The thread owns a share of the job: a parked one keeps it alive for ever, with all that `work` holds.
  std::unique_ptr<std::shared_ptr<Job>> owned(static_cast<std::shared_ptr<Job> *>(argument));
  Job &job = **owned;
  currentJob = &job;
  Status status;
  try {
    job.work();
  } catch (const std::exception &problem) {
    status = Status::error(Code::Internal, std::string("exception in the compiler: ") + problem.what());
  } catch (...) {
    status = Status::error(Code::Internal, "exception in the compiler");
  }
  currentJob = nullptr;
  std::lock_guard lock(job.mutex);
  job.status = std::move(status);
  job.state = Job::Done;
  job.changed.notify_all();
  return nullptr;
}

} // namespace

unsigned parkedThreads() {
  return parked.load();
}

Status runGuarded(std::function<void()> work) {
  if (currentJob) { // a compile inside a compile (an import callback, say) has the stack already
    work();
    return Status::ok();
  }
  installHandlers();
  auto job = std::make_shared<Job>();
  job->work = std::move(work);

  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes,
                            size_t(64) << 20); // reserved, not touched: hostile nesting needs it, others do not pay
  auto argument = std::make_unique<std::shared_ptr<Job>>(job);
  pthread_t thread;
  const int failure = pthread_create(&thread, &attributes, threadMain, argument.get());
  pthread_attr_destroy(&attributes);
  if (failure)
    return Status::error(Code::Internal, std::string("cannot start a thread to compile on: ") + std::strerror(failure));
  argument.release();

  std::unique_lock lock(job->mutex);
  job->changed.wait(lock, [&] { return job->state != Job::Running; });
  Status status = job->status;
  const bool done = job->state == Job::Done;
  lock.unlock();
  if (done)
    pthread_join(thread, nullptr);
  else
    pthread_detach(thread);
  return status;
}

} // namespace tlx::runtime
