#include "core/reactor.hpp"

#include <sched.h>
#include <time.h>

#include "core/device.hpp"
#include "core/runtime.hpp"
#include "core/stream.hpp"

namespace aiocann::core {
namespace {

/// Only a safety net: a closing lane wakes the reactor by a callback, which may get lost with everything else.
constexpr int32_t kReportTimeoutMs = 1000;
constexpr int32_t kReportTimeout = 507012;

/// Set on reactor threads alone. Plain data: nothing to destroy when a thread dies.
thread_local Reactor *current = nullptr;

}  // namespace

void Reactor::start() {
  std::atomic<bool> ready{false};
  thread_ = std::thread([this, &ready] {
    id_ = pthread_self();
    ready.store(true, std::memory_order_release);
    run();
  });
  while (!ready.load(std::memory_order_acquire)) sched_yield();
}

void Reactor::go() { going_.store(true, std::memory_order_release); }

void Reactor::marker_callback(void *argument) {
  Op *op = static_cast<Op *>(argument);
  if (current == nullptr) {
    // Some driver runs callbacks on a thread of its own: then there is no batch to wait for.
    op->stream->device->apply_faults();
    Settler settler;
    op->stream->marker_passed(op, settler);
    settler.run();
    op->release();
    return;
  }
  op->report_next = nullptr;
  (current->first_ != nullptr ? current->last_->report_next : current->first_) = op;
  current->last_ = op;
}

void Reactor::run() {
  current = this;
  const acl::Api &api = device_->runtime->api();
  while (!going_.load(std::memory_order_acquire)) {
    if (stopping_.load(std::memory_order_acquire)) return;
    sched_yield();
  }
  // Reports are of the subscribed device; timestamps of events want a context.
  api.aclrtSetCurrentContext(device_->context);
  Settler settler;
  for (;;) {
    const bool was_asked = asked_.load(std::memory_order_acquire);
    const int32_t code = api.aclrtProcessReport(kReportTimeoutMs);
    if (first_ != nullptr) {
      device_->apply_faults();
      while (Op *op = first_) {
        first_ = op->report_next;
        op->stream->marker_passed(op, settler);
        settler.run();
        op->release();
      }
    }
    if (stopping_.load(std::memory_order_acquire)) return;
    if (code == kReportTimeout && was_asked) return;
    // Anything but "nothing came": do not spin over it. The watchdog of the lane finds what we miss.
    if (code != 0 && code != kReportTimeout) {
      timespec pause{0, 10000000};
      nanosleep(&pause, nullptr);
    }
  }
}

}  // namespace aiocann::core
