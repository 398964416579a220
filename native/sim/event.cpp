// event.cpp: gates, recordings, and the life of event slots.
#include "sim/event.hpp"

#include "sim/capture.hpp"
#include "sim/device.hpp"
#include "sim/stream.hpp"

namespace aiocann::sim {

bool Gate::enter(Stream *stream) {
  if (is_open()) return true;
  std::lock_guard<SpinLock> wait_guard(stream->wait_lock);
  std::lock_guard<SpinLock> guard(lock_);
  if (open_.load(std::memory_order_relaxed)) return true;
  // kick() takes the wait lock after it has made this true: either it finds the stream listed, or we do not list it.
  if (stream->must_discard()) return true;
  stream->set_blocked(this);
  stream->next_waiter = waiters_;
  waiters_ = stream;
  return false;
}

void Gate::open() {
  Stream *waiters = nullptr;
  {
    std::lock_guard<SpinLock> guard(lock_);
    open_.store(true, std::memory_order_release);
    std::swap(waiters, waiters_);
  }
  while (waiters != nullptr) {
    Stream *stream = waiters;
    waiters = stream->next_waiter;  // read first: once unblocked it may wait somewhere else
    stream->unblock();
  }
}

void Gate::close() {
  std::lock_guard<SpinLock> guard(lock_);
  open_.store(false, std::memory_order_release);
}

bool Gate::remove(Stream *stream) {
  std::lock_guard<SpinLock> guard(lock_);
  for (Stream **link = &waiters_; *link != nullptr; link = &(*link)->next_waiter) {
    if (*link != stream) continue;
    *link = stream->next_waiter;
    return true;
  }
  return false;
}

void RecordPoint::settle(State outcome) {
  // seq_cst on both words: either we see the waiting thread, or it sees the outcome before it sleeps.
  state.store(outcome, std::memory_order_seq_cst);
  if (host_waiters.load(std::memory_order_seq_cst) != 0) futex_wake(state);
}

void RecordPoint::complete() {
  timestamp_ns = now_ns();
  settle(kComplete);
  gate.open();
}

void RecordPoint::abort(aclError code) {
  abort_code.store(code);
  settle(kAborted);
}

aclError RecordPoint::wait(const Deadline &deadline) {
  const auto is_settled = [this] { return state.load(std::memory_order_acquire) != kPending; };
  if (!is_settled() && !spin_for(kHostSpinNs, is_settled)) {
    host_waiters.fetch_add(1, std::memory_order_seq_cst);
    while (state.load(std::memory_order_seq_cst) == kPending && !machine_is_stopping()) {
      if (!futex_wait(state, kPending, deadline)) break;
    }
    host_waiters.fetch_sub(1, std::memory_order_seq_cst);
  }
  switch (state.load(std::memory_order_acquire)) {
    case kComplete:
      return ACL_SUCCESS;
    case kAborted:
      return abort_code.load();
    default:
      return machine_is_stopping() ? ACL_ERROR_RT_INTERNAL_ERROR : ACL_ERROR_RT_EVENT_SYNC_TIMEOUT;
  }
}

void Event::release() {
  if (refs.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  latest = Ref<RecordPoint>();
  shared.reset();
  captured_in = Ref<ModelBase>();
  device->events.release(this);
}

Ref<ModelBase> Event::capture(uint32_t *node) {
  std::lock_guard<SpinLock> guard(lock);
  if (!captured_in || !static_cast<const Model &>(*captured_in).is_capturing()) return {};
  if (node != nullptr) *node = captured_node;
  return captured_in;
}

bool Event::can_be_waited_for() const {
  // The default event has every ability; the others need the SYNC bit (or one that implies it).
  return kind == EventKind::kDefault ||
         (flags & (ACL_EVENT_SYNC | ACL_EVENT_EXTERNAL | ACL_EVENT_IPC)) != 0;
}

}  // namespace aiocann::sim
