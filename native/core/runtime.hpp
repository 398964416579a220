// runtime.hpp: everything that belongs to one opened driver.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "acl/loader.hpp"
#include "aiocann.h"
#include "core/completion.hpp"
#include "core/copier.hpp"
#include "core/events.hpp"
#include "core/memory.hpp"
#include "core/pool.hpp"
#include "core/status.hpp"

namespace aiocann::core {

/// What aiocann_statistics shows. Relaxed: each is right by itself.
struct Counters {
  using Counter = std::atomic<uint64_t>;
  alignas(64) Counter in_flight_ops{0};
  Counter in_flight_bytes{0}, completions{0};
  alignas(64) Counter abandoned{0}, reaped{0}, loop_wakes{0}, lost_callbacks{0};
  Counter live_buffers{0}, live_streams{0}, events_created{0}, events_in_use{0};
  Counter live_tensors{0}, live_executors{0}, pinned_bytes{0};
  Counter h2d_bytes{0}, d2h_bytes{0}, d2d_bytes{0}, peer_bytes{0};
};

inline void add(Counters::Counter &counter, uint64_t n = 1) {
  counter.fetch_add(n, std::memory_order_relaxed);
}
inline void subtract(Counters::Counter &counter, uint64_t n = 1) {
  counter.fetch_sub(n, std::memory_order_relaxed);
}

/// Changes in every forked child. A runtime works only in the process that opened it.
uint32_t fork_generation();

enum class Phase : uint32_t { kOpening, kOpen, kFailed, kClosing, kClosed };

struct Driver;

}  // namespace aiocann::core

struct aiocann_runtime {
 public:
  explicit aiocann_runtime(const aiocann_config &config);

  void retain() { references_.fetch_add(1, std::memory_order_relaxed); }
  void release();
  /// The user's one reference has gone.
  void release_handle();

  /// Not ok in a forked child, or when it is not open (any more). Thread: any.
  aiocann::core::Status usable() const;
  aiocann::core::Phase phase() const { return phase_.load(std::memory_order_acquire); }
  const aiocann::acl::Api &api() const { return *api_; }
  /// The text the driver kept for this thread about the call that just failed, in a status.
  aiocann::core::Status driver_error(int32_t code, const char *call) const;
  aiocann::core::Lane *any_lane() const { return any_lane_; }
  aiocann::core::Driver &driver() const { return *loaded_; }  ///< once open

  void start_open(aiocann_op *op);
  void start_close(int64_t timeout_ms, aiocann_op *op);
  void statistics(aiocann_statistics *out) const;

  aiocann::core::Counters counters;
  aiocann::core::PinnedMap pinned;
  aiocann::core::Pool pinned_pool;  ///< of pinned memory, for users
  aiocann::core::Copiers copiers;
  std::vector<std::unique_ptr<aiocann::core::Device>> devices;  ///< fixed once open
  std::string acl_version, library_path;
  const uint32_t generation;
  aiocann::core::Family family = aiocann::core::Family::kAuto;  ///< fixed before it opens
  aiocann::core::EventMaker event_maker = aiocann::core::EventMaker::kAuto;

 private:
  ~aiocann_runtime();
  aiocann::core::Status open();
  aiocann::core::Status choose_devices();
  /// On a thread of its own, which keeps the runtime.
  void run_apart(std::function<void()> what);
  void run_close();
  void ask_to_close(int64_t deadline_ms);
  aiocann::core::Status close();

  std::atomic<uint32_t> references_{1};
  std::atomic<aiocann::core::Phase> phase_{aiocann::core::Phase::kOpening};
  const std::string driver_, sim_library_;
  std::vector<int32_t> wanted_;
  int32_t n_wanted_;
  aiocann::core::Driver *loaded_ = nullptr;
  const aiocann::acl::Api *api_ = nullptr;
  aiocann::core::Lane *any_lane_ = nullptr;

  std::mutex close_mutex_;  // guards what is below and the changes of phase_; before a lane's gate
  std::condition_variable opened_;
  std::vector<aiocann_op *> closers_;  ///< shutdown ops to settle when closed
  bool close_started_ = false;
  int64_t close_deadline_ms_ = 0;  ///< the earliest that was asked for
};
