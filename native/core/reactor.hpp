// reactor.hpp: the thread of a device that learns which markers have been reached.
#pragma once
#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <thread>

#include "core/op.hpp"

namespace aiocann::core {

class Reactor {
 public:
  explicit Reactor(Device *device) : device_(device) {}
  /// Starts the thread; afterwards thread_id() is what aclrtSubscribeReport wants. Thread: lane.
  void start();
  /// The internal stream is subscribed: from now on reports can be awaited. Thread: lane.
  void go();
  /// A stop_callback is on its way. Should nothing come for a whole report's time (the stream is stuck, or the
  /// callback is lost), the thread ends without it. Thread: lane.
  void ask_to_stop() { asked_.store(true, std::memory_order_release); }
  void join() { thread_.join(); }
  bool started() const { return thread_.joinable(); }
  uint64_t thread_id() const { return static_cast<uint64_t>(id_); }

  /// Callbacks for aclrtLaunchCallback. The first one's argument is the op, and owns a reference of it.
  static void marker_callback(void *op);
  /// The other's is the reactor, which ends after it. So it is not left behind unprocessed, when its stream is
  /// unsubscribed, by a thread that had ended for the sake of another callback.
  static void stop_callback(void *reactor) {
    static_cast<Reactor *>(reactor)->stopping_.store(true, std::memory_order_release);
  }

 private:
  void run();
  Device *const device_;
  std::thread thread_;
  pthread_t id_{};
  std::atomic<bool> going_{false}, asked_{false}, stopping_{false};
  Op *first_ = nullptr, *last_ = nullptr;  ///< reached by the last report. Thread: own
};

}  // namespace aiocann::core
