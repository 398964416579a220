// late.hpp: what injected faults hold back: tasks that take longer or never end, callbacks that come late or never.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>

#include "sim/callback.hpp"
#include "sim/gate.hpp"
#include "sim/ref.hpp"

namespace aiocann::sim {

/// A task at the front of its stream that does not run yet; the stream is blocked at the gate.
struct Pause {
  void retain() { refs.fetch_add(1, std::memory_order_relaxed); }
  void release() {
    if (refs.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }
  std::atomic<uint32_t> refs{0};
  uint64_t timer = 0;
  Gate gate;
};

/// Ends after `ms` milliseconds, 0: never; or by let_go().
Ref<Pause> begin_pause(uint64_t ms);
/// The task has gone, whichever way.
void end_pause(const Ref<Pause> &pause);

/// Gives `callback` to `deliver` in `ms` milliseconds, negative: when let_go() says so.
void post_late(const PendingCallback &callback, int64_t ms,
               std::function<void(const PendingCallback &)> deliver);
/// It is never run; a stream that waits for its return waits until it is aborted, or let_go().
void post_lost(const PendingCallback &callback);
/// Takes out the callback that `blocked` waits for; false when it is not (any more) here.
bool withdraw_late(const Stream *blocked);

/// Everything that is late comes now; streams no longer wait for what was lost.
void let_go();

}  // namespace aiocann::sim
