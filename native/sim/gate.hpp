// gate.hpp: what a blocked stream waits for. A waiting stream is an entry in a list; no thread waits.
#pragma once
#include "sim/futex.hpp"

namespace aiocann::sim {

class Stream;

/// Open or closed. Lock order: Stream's wait lock, then a gate's. Neither is held while anything runs.
class Gate {
 public:
  /// True: open, go on. False: the stream is now in state blocked and listed here; the caller must not touch it
  /// any more, for it may already run again elsewhere. Thread: the worker that runs `stream`.
  bool enter(Stream *stream);
  /// Sends every waiting stream back to the workers.
  void open();
  void close();
  bool is_open() const { return open_.load(std::memory_order_acquire); }
  /// Takes `stream` off the list; false when it is not there (any more).
  bool remove(Stream *stream);

 private:
  SpinLock lock_;
  std::atomic<bool> open_{false};
  Stream *waiters_ = nullptr;  ///< linked through Stream::next_waiter
};

}  // namespace aiocann::sim
