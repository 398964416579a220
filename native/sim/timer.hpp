// timer.hpp: calls functions at a later time. One thread, started when first needed.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

namespace aiocann::sim {

class Timer {
 public:
  static Timer &instance();

  /// Calls `fn` on the timer's thread, which it must not keep. The id is never 0.
  uint64_t after_ns(uint64_t ns, std::function<void()> fn);
  uint64_t after_ms(uint64_t ms, std::function<void()> fn) {
    return after_ns(ms * 1000000, std::move(fn));
  }
  /// False when `fn` has been called, or is being called.
  bool cancel(uint64_t id);

 private:
  void start();
  void work();

  std::mutex mutex_;
  std::map<std::pair<uint64_t, uint64_t>, std::function<void()>> calls_;  ///< by time, then id
  std::map<uint64_t, uint64_t> times_;                                    ///< by id
  uint64_t last_id_ = 0;
  bool is_started_ = false;
  std::atomic<uint32_t> word_{0};  ///< changes when an earlier call was added
};

}  // namespace aiocann::sim
