// parker.hpp: how one thread sleeps until others give it work. One futex word; waking a thread that is awake
// costs one load.
#pragma once
#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "core/sync.hpp"

namespace aiocann::core {

/// What tools show of this thread; at most 15 characters.
inline void name_thread(const char *name) { pthread_setname_np(pthread_self(), name); }

template <typename Sync = Threads>
class Parker {
 public:
  /// Thread: the sleeper. Then look for work once more, and either park() or stay().
  void announce() { word_.store(1, std::memory_order_seq_cst); }
  void stay() { word_.store(0, std::memory_order_relaxed); }

  /// Sleeps until wake(), or for timeout_us (-1: no limit). May return early.
  void park(int64_t timeout_us) {
    Sync::sleep_while(word_, 1, timeout_us);
    word_.store(0, std::memory_order_seq_cst);
  }

  /// Thread: any, after the work has been made visible by a seq_cst operation.
  void wake() {
    if (word_.load(std::memory_order_seq_cst) == 0) return;
    if (word_.exchange(0, std::memory_order_seq_cst) == 0) return;
    Sync::wake_one(word_);
  }

 private:
  typename Sync::template Atomic<uint32_t> word_{0};
};

}  // namespace aiocann::core
