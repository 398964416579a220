// reactor.hpp: the thread of a device that learns which markers have been reached.
#pragma once
#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <future>
#include <memory>
#include <thread>

#include "core/completion.hpp"
#include "core/op.hpp"

namespace aiocann::core {

/// Thread: lane, where nothing else is said.
class Reactor {
 public:
  explicit Reactor(Device *device) : device_(device) {}
  /// Starts the thread, which waits for bind(), then for go().
  void start();
  /// Has the thread work in the device's context. A failure: the thread has ended.
  Status bind();
  /// Chooses how markers are told, and subscribes the internal stream. auto: the first family whose calls
  /// the driver takes, which is tried.
  Status choose(Family wanted, void *internal_raw);
  /// From now on markers can be awaited.
  void go() { going_.store(true, std::memory_order_release); }
  /// Ends the thread. internal_raw: the stream whose order that is to keep; null: at once. Should nothing come for a
  /// whole while (the stream is stuck, or the callback is lost), it ends without; sooner, where it is aborted.
  void stop(void *internal_raw, bool is_aborted = false);
  /// Ends it for a lane that is stuck, by another thread. False: it is stuck too, and goes on for ever.
  bool leave();
  bool ended() const { return ended_.load(std::memory_order_acquire); }

  Completion &completion() { return *completion_; }  ///< Thread: any, once chosen

 private:
  void run();
  void serve();
  bool ends_within(int64_t ms) const;
  /// False: it is to end instead.
  bool waits_for(const std::atomic<bool> &word) const;
  Device *const device_;
  std::thread thread_;
  pthread_t id_{};
  std::unique_ptr<Completion> completion_;
  std::promise<Status> bound_;
  std::atomic<bool> binding_{false}, going_{false}, asked_{false}, stopping_{false}, ended_{false};
};

}  // namespace aiocann::core
