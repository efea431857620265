// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "target/nvidia/process.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern "C" char **environ;

namespace tlx::target::nvidia {

namespace {
using Clock = std::chrono::steady_clock;

/// Reads until the last writer closes the pipe; false if the deadline passed first.
bool readAll(int fd, std::string &text, const Clock::time_point *deadline) {
  char buffer[4096];
  for (;;) {
    int wait = -1;
    if (deadline) {
      auto left = std::chrono::duration_cast<std::chrono::milliseconds>(*deadline - Clock::now()).count();
      if (left <= 0) return false;
      wait = static_cast<int>(std::min<long long>(left, 1 << 30));
    }
    pollfd p{fd, POLLIN, 0};
    int ready = poll(&p, 1, wait);
    if (ready < 0 && errno != EINTR) return true;
    if (ready <= 0) continue;
    ssize_t n = read(fd, buffer, sizeof buffer);
    if (n > 0)
      text.append(buffer, static_cast<size_t>(n));
    else if (n == 0 || errno != EINTR)
      return true;
  }
}

/// pid, or -1 and errno.
pid_t spawn(const std::vector<std::string> &command, int output) {
  std::vector<char *> argv;
  for (const std::string &part : command) argv.push_back(const_cast<char *>(part.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, output, 1);
  posix_spawn_file_actions_adddup2(&actions, output, 2);
  // Last: in a host without a standard input the pipe itself may be number 0.
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // A group of its own, so that a wrapper script dies with what it started; the signal state of a fresh process, not
  // this thread's.
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t pid = -1;
  int error = posix_spawn(&pid, argv[0], &actions, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (!error) return pid;
  errno = error;
  return -1;
}
} // namespace

ProcessResult runProcess(const std::vector<std::string> &command, unsigned timeoutSeconds) {
  ProcessResult result;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC)) {
    result.output = std::strerror(errno);
    return result;
  }
  pid_t pid = spawn(command, ends[1]);
  int error = errno;
  close(ends[1]);
  if (pid < 0) {
    close(ends[0]);
    result.output = std::strerror(error);
    return result;
  }
  result.started = true;
  auto deadline = Clock::now() + std::chrono::seconds(timeoutSeconds);
  if (!readAll(ends[0], result.output, timeoutSeconds ? &deadline : nullptr)) {
    result.timedOut = true;
    kill(-pid, SIGKILL);
  }
  close(ends[0]);
  int status = 0;
  pid_t waited;
  while ((waited = waitpid(pid, &status, 0)) < 0 && errno == EINTR) {
  }
  // ECHILD: the host program ignores SIGCHLD or reaped it; the caller judges by the output file.
  if (waited < 0)
    result.exitCode = 0;
  else if (WIFEXITED(status))
    result.exitCode = WEXITSTATUS(status);
  return result;
}

} // namespace tlx::target::nvidia
