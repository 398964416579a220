// spin.hpp: waiting a short, bounded time for what is about to happen, where falling asleep and being woken would
// take longer. Adaptive: it shrinks to next to nothing where it does not pay, and tries again now and then.
#pragma once
#include <time.h>

#include <algorithm>
#include <cstdint>

namespace aiocann::core {

inline uint64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000 + static_cast<uint64_t>(now.tv_nsec);
}

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Thread: one.
class Spin {
 public:
  static constexpr uint64_t kMaxNs = 50000;

  /// Calls done until it says true, for at most 50 us.
  template <typename Done>
  bool wait(Done &&done) {
    const uint64_t window = attempts_++ % kTryAgain == 0 ? kMaxNs : window_ns_;
    const uint64_t start = now_ns();
    for (uint64_t before = start;;) {
      if (done()) {
        window_ns_ = std::min(kMaxNs, window_ns_ * 2);
        return true;
      }
      if (before - start >= window) break;
      // Never sched_yield: on a loaded machine who yields waits for everybody else's time slices.
      for (int i = 0; i < 8; ++i) relax();
      const uint64_t after = now_ns();
      if (after - before > kMaxNs) {
        // Others have work for this core.
        attempts_ = 1;
        window_ns_ = kMinNs;
        return done();
      }
      before = after;
    }
    window_ns_ = std::max(kMinNs, window_ns_ / 2);
    return false;
  }

 private:
  static constexpr uint64_t kMinNs = 2000;
  static constexpr uint32_t kTryAgain = 16;
  uint64_t window_ns_ = kMaxNs;
  uint32_t attempts_ = 0;
};

}  // namespace aiocann::core
