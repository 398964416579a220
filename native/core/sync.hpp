// sync.hpp: what the protocols between threads are made of. They are templates over it, so that a test can put them
// on atomics whose every access is a scheduling point, and try all schedules (tests/native/schedules.hpp).
#pragma once
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "core/spin.hpp"

namespace aiocann::core {

/// The real thing.
struct Threads {
  template <typename T>
  using Atomic = std::atomic<T>;
  using Spin = core::Spin;

  /// Sleeps while word is value, until wake_one(), or for timeout_us (-1: no limit). May return early.
  static void sleep_while(Atomic<uint32_t> &word, uint32_t value, int64_t timeout_us) {
    static_assert(sizeof(Atomic<uint32_t>) == sizeof(uint32_t));
    timespec limit{};
    limit.tv_sec = timeout_us / 1000000;
    limit.tv_nsec = (timeout_us % 1000000) * 1000;
    syscall(SYS_futex, reinterpret_cast<uint32_t *>(&word), FUTEX_WAIT_PRIVATE, value,
            timeout_us < 0 ? nullptr : &limit, nullptr, 0);
  }
  static void wake_one(Atomic<uint32_t> &word) {
    syscall(SYS_futex, reinterpret_cast<uint32_t *>(&word), FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr,
            0);
  }
  static void write_eventfd(int fd) {
    const uint64_t one = 1;
    // Fails only when the counter is full, and then its reader is awake anyway.
    [[maybe_unused]] const ssize_t written = ::write(fd, &one, sizeof one);
  }
  /// Somebody else is just about to do what we wait for.
  static void give_way() { sched_yield(); }
};

}  // namespace aiocann::core
