// futex.hpp: waiting on a 32-bit word with a deadline, and the pause of a spinning loop.
#pragma once
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>

namespace aiocann::sim {

/// A point of CLOCK_MONOTONIC, or never.
class Deadline {
 public:
  static Deadline never() { return Deadline(); }
  /// `ms` < 0: never.
  static Deadline after_ms(int64_t ms);
  /// `ns` as now_ns() counts.
  static Deadline at_ns(uint64_t ns);

  bool is_never() const { return never_; }
  bool has_passed() const;
  const timespec *when() const { return never_ ? nullptr : &when_; }

 private:
  bool never_ = true;
  timespec when_{};
};

/// Sleeps while `word` holds `expected`; false once the deadline has passed. May return early.
bool futex_wait(std::atomic<uint32_t> &word, uint32_t expected,
                const Deadline &deadline = Deadline::never());
void futex_wake(std::atomic<uint32_t> &word, int count = INT_MAX);

inline void cpu_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Nanoseconds of CLOCK_MONOTONIC.
uint64_t now_ns();

/// Calls `done` for at most `ns` nanoseconds, pausing between; true when it answered true.
template <class Done>
bool spin_for(uint64_t ns, Done &&done) {
  const uint64_t limit = now_ns() + ns;
  do {
    for (int i = 0; i < 32; ++i) {
      if (done()) return true;
      cpu_pause();
    }
  } while (now_ns() < limit);
  return done();
}

/// For sections of a few instructions: a thread that holds it never sleeps or makes a system call.
class SpinLock {
 public:
  void lock() {
    int tries = 0;
    while (flag_.exchange(true, std::memory_order_acquire)) {
      while (flag_.load(std::memory_order_relaxed)) {
        cpu_pause();
        if (++tries % 256 == 0) yield();  // the holder may have lost its core
      }
    }
  }
  void unlock() { flag_.store(false, std::memory_order_release); }

 private:
  static void yield();
  std::atomic<bool> flag_{false};
};

}  // namespace aiocann::sim
