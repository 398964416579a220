#include "core/reactor.hpp"

#include <sched.h>
#include <unistd.h>

#include "core/device.hpp"
#include "core/lane.hpp"
#include "core/parker.hpp"
#include "core/runtime.hpp"

namespace aiocann::core {
namespace {

/// How long it may take to take its last reports.
constexpr int64_t kLeaveMs = 3000;
/// How long an aborted stream is waited for: it has nothing before the last callback.
constexpr int64_t kAbortedMs = 100;

const char *name_of(Family family) {
  switch (family) {
    case Family::kCallback:
      return "callback";
    case Family::kCallbackBlock:
      return "callback-block";
    case Family::kHostFunc:
      return "host-func";
    default:
      return "query";
  }
}

}  // namespace

void Reactor::start() {
  bound_ = std::promise<Status>();
  binding_.store(false, std::memory_order_relaxed);
  going_.store(false, std::memory_order_relaxed);
  ended_.store(false, std::memory_order_relaxed);
  asked_.store(false, std::memory_order_relaxed);
  stopping_.store(false, std::memory_order_relaxed);
  std::atomic<bool> ready{false};
  thread_ = std::thread([this, &ready] {
    name_thread("aiocann-reactor");
    id_ = pthread_self();
    ready.store(true, std::memory_order_release);
    run();
  });
  while (!ready.load(std::memory_order_acquire)) sched_yield();
}

Status Reactor::bind() {
  binding_.store(true, std::memory_order_release);
  return bound_.get_future().get();
}

Status Reactor::choose(Family wanted, void *internal_raw) {
  Status refused;
  if (completion_ != nullptr) {  // chosen before the device was reset
    const char *call = "";
    completion_->resume(static_cast<uint64_t>(id_));
    const int32_t code = completion_->subscribe(internal_raw, &call);
    return code == 0 ? refused : device_->lane->driver_error(code, call);
  }
  for (Family family :
       {Family::kCallback, Family::kCallbackBlock, Family::kHostFunc, Family::kQuery}) {
    // That a callback holds its stream has to be asked for.
    if (wanted == Family::kAuto ? family == Family::kCallbackBlock : family != wanted) continue;
    completion_ =
        Completion::make(family, device_->runtime->api(), device_, static_cast<uint64_t>(id_));
    if (completion_ == nullptr) {
      refused = Status::error(AIOCANN_E_UNSUPPORTED,
                              "AIOCANN_COMPLETION=%s needs functions that are not in this CANN.",
                              name_of(family));
      continue;
    }
    const char *call = "";
    int32_t code = completion_->subscribe(internal_raw, &call);
    if (code == 0) {
      call = completion_->call();
      code = completion_->probe(internal_raw);
      if (code == 0) return Status::ok();
      completion_->unsubscribe(internal_raw);
    }
    refused = device_->lane->driver_error(code, call);
    if (!is_refusal_code(code)) return refused;
  }
  return refused;
}

void Reactor::stop(void *internal_raw, bool is_aborted) {
  if (!thread_.joinable()) return;
  asked_.store(true, std::memory_order_release);
  if (completion_ != nullptr) {
    completion_->interrupt(internal_raw, &stopping_);
  } else {
    stopping_.store(true, std::memory_order_release);
  }
  if (is_aborted && !ends_within(kAbortedMs)) stopping_.store(true, std::memory_order_release);
  thread_.join();
}

bool Reactor::ends_within(int64_t ms) const {
  for (const int64_t deadline = now_ms() + ms; !ended() && now_ms() < deadline;) usleep(1000);
  return ended();
}

bool Reactor::leave() {
  completion_->interrupt(nullptr, &stopping_);
  if (ends_within(kLeaveMs)) {
    thread_.join();
    return true;
  }
  thread_.detach();
  return false;
}

void Reactor::run() {
  serve();
  ended_.store(true, std::memory_order_release);
}

bool Reactor::waits_for(const std::atomic<bool> &word) const {
  while (!word.load(std::memory_order_acquire)) {
    if (stopping_.load(std::memory_order_acquire)) return false;
    sched_yield();
  }
  return true;
}

void Reactor::serve() {
  if (!waits_for(binding_)) return;
  // Reports are of the subscribed device; events and streams that are asked want a context.
  const int32_t code = device_->runtime->api().aclrtSetCurrentContext(device_->context);
  bound_.set_value(code == 0 ? Status::ok()
                             : device_->lane->driver_error(code, "aclrtSetCurrentContext"));
  if (code != 0 || !waits_for(going_)) return;
  Settler settler;
  for (;;) {
    const bool was_asked = asked_.load(std::memory_order_acquire);
    const bool something_came = completion_->await(settler);
    if (stopping_.load(std::memory_order_acquire)) return;
    if (was_asked && !something_came) return;
  }
}

}  // namespace aiocann::core
