// parker.hpp: how one thread sleeps until others give it work. One futex word; waking a thread that is awake
// costs one load.
#pragma once
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace aiocann::core {

/// What tools show of this thread; at most 15 characters.
inline void name_thread(const char *name) { pthread_setname_np(pthread_self(), name); }

class Parker {
 public:
  /// Thread: the sleeper. Then look for work once more, and either park() or stay().
  void announce() { word_.store(1, std::memory_order_seq_cst); }
  void stay() { word_.store(0, std::memory_order_relaxed); }

  /// Sleeps until wake(), or for timeout_ms (-1: no limit). May return early.
  void park(int64_t timeout_ms) { park_us(timeout_ms < 0 ? -1 : timeout_ms * 1000); }
  void park_us(int64_t timeout_us) {
    timespec limit{};
    limit.tv_sec = timeout_us / 1000000;
    limit.tv_nsec = (timeout_us % 1000000) * 1000;
    syscall(SYS_futex, reinterpret_cast<uint32_t *>(&word_), FUTEX_WAIT_PRIVATE, 1,
            timeout_us < 0 ? nullptr : &limit, nullptr, 0);
    word_.store(0, std::memory_order_seq_cst);
  }

  /// Thread: any, after the work has been made visible by a seq_cst operation.
  void wake() {
    if (word_.load(std::memory_order_seq_cst) == 0) return;
    if (word_.exchange(0, std::memory_order_seq_cst) == 0) return;
    syscall(SYS_futex, reinterpret_cast<uint32_t *>(&word_), FUTEX_WAKE_PRIVATE, 1, nullptr,
            nullptr, 0);
  }

 private:
  static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));
  std::atomic<uint32_t> word_{0};
};

}  // namespace aiocann::core
