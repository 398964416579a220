// callback.hpp: host callbacks: subscribed threads, host-function threads, exception callbacks.
#pragma once
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "acl_abi.h"
#include "sim/futex.hpp"
#include "sim/queue.hpp"

/// What exception callbacks get; the getters of the ABI read it. Valid during the call only.
struct aclrtExceptionInfo {
  uint32_t task_id, stream_id, thread_id, device_id, code;
  bool is_kernel;  ///< else there are no arguments and no function
  const std::vector<const void *> *arguments;
  void *function;
};

namespace aiocann::sim {

struct Device;
struct KernelTask;
class Stream;

/// A callback that waits to be run by a thread of the program (or a host-function thread).
struct PendingCallback {
  aclrtCallback fn;
  void *data;
  Stream *blocked;  ///< goes on when fn has returned; nullptr: it never stopped
};

/// A list that workers append to and one thread takes whole; wakes that thread only when it sleeps.
class CallbackList {
 public:
  void push(const PendingCallback &callback);
  /// Everything there is, waiting until there is something; empty after the deadline or interrupt().
  std::vector<PendingCallback> take(const Deadline &deadline);
  std::vector<PendingCallback> take_now();
  /// Takes out the callback that `blocked` waits for; false when it is not (any more) here.
  bool withdraw(const Stream *blocked);
  void interrupt();

 private:
  SpinLock lock_;
  std::vector<PendingCallback> list_;
  std::atomic<uint32_t> word_{0};  ///< changes with every push and interrupt
  std::atomic<uint32_t> pending_{0};
  std::atomic<uint32_t> sleeping_{0};
};

/// A thread of the program that called (or was named in) aclrtSubscribeReport. Never freed: streams refer to it
/// without a lock.
class Subscriber {
 public:
  Device *device = nullptr;  ///< all of its streams are on one device
  std::atomic<int> n_streams{0};
  CallbackList list;
};

/// Runs the functions of aclrtLaunchHostFunc for all streams of one context, one after the other.
class HostFuncThread {
 public:
  /// nullptr when no thread could be started.
  static std::shared_ptr<HostFuncThread> start();
  void post(const PendingCallback &callback) { list_.push(callback); }
  bool withdraw(const Stream *blocked) { return list_.withdraw(blocked); }
  void stop();

 private:
  void work();
  CallbackList list_;
  std::atomic<bool> stopping_{false};
};

/// Hands a callback to the stream's subscriber; false (and misuse) when there is none any more. `late_ms`: see late.hpp.
bool post_callback(Stream *stream, const CallbackTask &callback, Stream *blocked,
                   std::optional<int64_t> late_ms);
void post_host_func(Stream *stream, const HostFuncTask &host, std::optional<int64_t> late_ms);
/// The stream's blocking callback will not be waited for: takes it back if it has not begun.
void withdraw_callback(Stream *stream);
/// Ends the stream's subscription, if any. Part of destroying it.
void drop_subscription(Stream *stream);

/// Calls the program's exception callbacks. `kernel`: nullptr where the task was none. Thread: the worker on which
/// the task failed.
void report_exception(uint32_t task_id, int32_t stream_id, uint32_t thread_id, int device_id,
                      aclError code, const KernelTask *kernel);

}  // namespace aiocann::sim
