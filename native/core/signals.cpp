// signals.cpp: the one signal handler of ours: it writes an eventfd, and calls whom it replaced.
#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>

#include "core/status.hpp"

using namespace aiocann::core;

namespace {

constexpr int kSignals = 65;
std::atomic<int> watched_fd[kSignals];  // 0: not watched; else the eventfd, plus one
struct sigaction replaced[kSignals];

void on_signal(int number, siginfo_t *info, void *context) {
  const int kept = errno;
  const int fd = watched_fd[number].load(std::memory_order_relaxed) - 1;
  const uint64_t one = 1;
  // A full eventfd says what this would.
  [[maybe_unused]] const ssize_t ignored = write(fd, &one, sizeof one);
  const struct sigaction &other = replaced[number];
  if ((other.sa_flags & SA_SIGINFO) != 0) {
    other.sa_sigaction(number, info, context);
  } else if (other.sa_handler != SIG_DFL && other.sa_handler != SIG_IGN) {
    other.sa_handler(number);
  }
  errno = kept;
}

}  // namespace

namespace {

int32_t watch(int32_t number, int32_t fd) {
  if (number < 1 || number >= kSignals)
    return publish(Status::error(AIOCANN_E_USAGE, "There is no signal %d.", number));
  if (watched_fd[number].exchange(fd + 1, std::memory_order_relaxed) != 0) return 0;
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  if (sigaction(number, &action, &replaced[number]) == 0) return 0;
  watched_fd[number].store(0, std::memory_order_relaxed);
  return publish(
      Status::error(AIOCANN_E_USAGE, "Signal %d cannot be caught: %s", number, strerror(errno)));
}

}  // namespace

int32_t aiocann_signal_watch(int32_t number, int32_t fd) {
  return guarded([&] { return watch(number, fd); });
}
