// pool.hpp: the worker threads that play all devices' engines: ready streams in, parallel loops helped along.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>

#include "sim/futex.hpp"
#include "sim/task.hpp"

namespace aiocann::sim {

class Stream;

constexpr int kPriorities = 8;

/// Workers run at a lower priority than the program's threads: a real device takes no host core. They are never
/// joined and the pool is never destroyed; at exit they are told to stop and given a moment to do so.
class Pool {
 public:
  static Pool &instance();

  /// Starts workers until there are `threads` of them; more than that are left asleep.
  void start(int threads);
  int threads() const { return wanted_.load(std::memory_order_relaxed); }

  /// `stream` is in state queued. Thread: any.
  void schedule(Stream *stream);
  /// Several at once, linked through next_ready: no worker sees some of them before all.
  void schedule_all(Stream *first);
  /// Is a stream ready whose priority is better (lower) than `priority`?
  bool has_better(uint32_t priority) const {
    return (ready_mask_.load(std::memory_order_relaxed) & ((1u << priority) - 1)) != 0;
  }
  bool has_ready() const { return ready_mask_.load(std::memory_order_relaxed) != 0; }

  /// Runs body(0 .. n-1) on the calling thread and on idle workers; returns when all have run.
  void parallel_for(size_t n, const std::function<void(size_t)> &body);

  /// True in a forked child, where no worker exists.
  bool is_forked() const { return forked_.load(std::memory_order_relaxed); }
  bool is_stopping() const { return stopping_.load(std::memory_order_relaxed); }

 private:
  struct Job;
  struct ReadyList {
    Stream *head = nullptr;
    Stream *tail = nullptr;
  };

  Pool() = default;
  void work(int index);
  bool run_one();
  void append_ready(Stream *stream);
  Stream *take_ready();
  bool help();
  size_t take_index(Job *job);
  void park();
  void wait_until_wanted(int index);
  void wake_one();
  void stop_at_exit();

  std::mutex mutex_;  ///< guards ready_ and jobs_; held for a few instructions
  ReadyList ready_[kPriorities];
  Job *jobs_ = nullptr;
  std::atomic<uint32_t> ready_mask_{0};  ///< bit p: ready_[p] is not empty
  std::atomic<uint32_t> open_jobs_{0};   ///< loops that still have indices to hand out
  std::atomic<int> wanted_{0};
  int started_ = 0;
  std::mutex start_mutex_;

  // Sleeping and waking. A worker that spins will see new work by itself, so nobody is woken while one does.
  alignas(64) std::atomic<uint32_t> spinners_{0};
  std::atomic<uint32_t> sleepers_{0};
  std::atomic<uint32_t> wake_word_{0};
  std::atomic<uint32_t> surplus_word_{0};
  alignas(64) std::atomic<uint32_t> done_word_{0};  ///< bumped when a helper leaves a loop
  std::atomic<uint32_t> done_waiters_{0};

  std::atomic<uint32_t> busy_{0};  ///< workers inside run_one
  std::atomic<bool> stopping_{false};
  std::atomic<bool> forked_{false};
};

/// The ExecContext that kernels see.
class PoolContext final : public ExecContext {
 public:
  void parallel_for(size_t n, const std::function<void(size_t)> &body) override {
    Pool::instance().parallel_for(n, body);
  }
};

}  // namespace aiocann::sim
