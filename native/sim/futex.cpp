// futex.cpp: the system calls behind futex.hpp.
#include "sim/futex.hpp"

#include <errno.h>
#include <sched.h>

namespace aiocann::sim {
namespace {

constexpr int64_t kNsPerSecond = 1000000000;

}  // namespace

Deadline Deadline::after_ms(int64_t ms) {
  Deadline deadline;
  if (ms < 0) return deadline;
  deadline.never_ = false;
  clock_gettime(CLOCK_MONOTONIC, &deadline.when_);
  const int64_t ns = deadline.when_.tv_nsec + (ms % 1000) * 1000000;
  deadline.when_.tv_sec += ms / 1000 + ns / kNsPerSecond;
  deadline.when_.tv_nsec = ns % kNsPerSecond;
  return deadline;
}

Deadline Deadline::at_ns(uint64_t ns) {
  Deadline deadline;
  deadline.never_ = false;
  deadline.when_.tv_sec = static_cast<time_t>(ns / kNsPerSecond);
  deadline.when_.tv_nsec = static_cast<long>(ns % kNsPerSecond);
  return deadline;
}

bool Deadline::has_passed() const {
  if (never_) return false;
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  if (now.tv_sec != when_.tv_sec) return now.tv_sec > when_.tv_sec;
  return now.tv_nsec >= when_.tv_nsec;
}

bool futex_wait(std::atomic<uint32_t> &word, uint32_t expected, const Deadline &deadline) {
  // FUTEX_WAIT_BITSET takes an absolute time of the monotonic clock.
  const long rc = syscall(SYS_futex, reinterpret_cast<uint32_t *>(&word),
                          FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, expected, deadline.when(),
                          nullptr, FUTEX_BITSET_MATCH_ANY);
  return !(rc == -1 && errno == ETIMEDOUT);
}

void futex_wake(std::atomic<uint32_t> &word, int count) {
  syscall(SYS_futex, reinterpret_cast<uint32_t *>(&word), FUTEX_WAKE | FUTEX_PRIVATE_FLAG, count,
          nullptr, nullptr, 0);
}

uint64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * kNsPerSecond + static_cast<uint64_t>(now.tv_nsec);
}

void SpinLock::yield() { sched_yield(); }

}  // namespace aiocann::sim
