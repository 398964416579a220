// state_word.hpp: how an op stands, as all threads see it.
#pragma once
#include <atomic>
#include <cstdint>

#include "core/sync.hpp"

namespace aiocann::core {

/// One word holds all bits: an op counts as abandoned only if it was not settled, and then settling sees it.
template <typename Sync = Threads>
class StateWord {
 public:
  bool settled() const { return word_.load(std::memory_order_acquire) & kSettled; }
  /// 0: not settled; 1: done; 2: failed.
  int32_t outcome() const {
    const uint32_t bits = word_.load(std::memory_order_acquire);
    return (bits & kSettled) == 0 ? 0 : (bits & kFailed) != 0 ? 2 : 1;
  }
  /// Once. True: it had been abandoned.
  bool settle(bool failed) {
    const uint32_t bits = kSettled | (failed ? uint32_t{kFailed} : 0u);
    return (word_.fetch_or(bits, std::memory_order_acq_rel) & kAbandoned) != 0;
  }
  /// True: from now on it is abandoned. False: it was before, or it has settled.
  bool abandon() {
    uint32_t bits = word_.load(std::memory_order_acquire);
    while ((bits & (kSettled | kAbandoned)) == 0) {
      if (word_.compare_exchange_weak(bits, bits | kAbandoned, std::memory_order_acq_rel))
        return true;
    }
    return false;
  }

 protected:  // for the tests, which get it wrong
  enum : uint32_t { kSettled = 1, kFailed = 2, kAbandoned = 4 };
  typename Sync::template Atomic<uint32_t> word_{0};
};

}  // namespace aiocann::core
