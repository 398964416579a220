#include "core/events.hpp"

#include <cstring>

#include "core/device.hpp"
#include "core/lane.hpp"
#include "core/runtime.hpp"

namespace aiocann::core {

bool parse_event_maker(const char *text, EventMaker *maker) {
  static constexpr struct {
    const char *name;
    EventMaker maker;
  } kNames[] = {{"", EventMaker::kAuto},
                {"auto", EventMaker::kAuto},
                {"ex", EventMaker::kEx},
                {"flag", EventMaker::kFlag},
                {"plain", EventMaker::kPlain}};
  for (const auto &known : kNames) {
    if (std::strcmp(known.name, text != nullptr ? text : "") != 0) continue;
    *maker = known.maker;
    return true;
  }
  return false;
}

int32_t Events::create(void **raw) {
  const acl::Api &api = device_->runtime->api();
  constexpr uint32_t kFlags = ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE;
  const EventMaker wanted = maker_;
  const bool automatic = wanted == EventMaker::kAuto;
  int32_t code = 0;
  for (EventMaker maker : {EventMaker::kEx, EventMaker::kFlag, EventMaker::kPlain}) {
    if (!automatic && maker != wanted) continue;
    switch (maker) {
      case EventMaker::kFlag:
        call_ = "aclrtCreateEventWithFlag";
        code = api.aclrtCreateEventWithFlag != nullptr ? api.aclrtCreateEventWithFlag(raw, kFlags)
                                                       : ACL_ERROR_API_NOT_SUPPORT;
        break;
      case EventMaker::kPlain:
        call_ = "aclrtCreateEvent";
        code =
            api.aclrtCreateEvent != nullptr ? api.aclrtCreateEvent(raw) : ACL_ERROR_API_NOT_SUPPORT;
        break;
      default:
        call_ = "aclrtCreateEventExWithFlag";
        code = api.aclrtCreateEventExWithFlag != nullptr
                   ? api.aclrtCreateEventExWithFlag(raw, kFlags)
                   : ACL_ERROR_API_NOT_SUPPORT;
    }
    if (code == 0) maker_ = maker;
    if (!is_refusal_code(code)) return code;
  }
  return code;
}

bool Events::ready(Status *failure) {
  // seq_cst: either we see what is let go from now on, or who lets go sees that we are starved.
  for (bool announced = false;; announced = true) {
    if (idle_ == nullptr) collect();
    if (idle_ != nullptr) return true;
    if (announced) return false;
    void *raw = nullptr;
    const int32_t code = create(&raw);
    if (code == 0) {
      idle_ = new NativeEvent;
      idle_->raw = raw;
      idle_->serves_once = maker_ != EventMaker::kEx;
      idle_->place = all_.size();
      all_.push_back(idle_);
      add(device_->runtime->counters.events_created);
      return true;
    }
    const Status why = device_->lane->driver_error(code, call_);
    if (all_.empty()) {
      *failure = why;
      return false;
    }
    // Some are in use and will come back.
    starved_.store(true, std::memory_order_seq_cst);
  }
}

NativeEvent *Events::take() {
  if (idle_ == nullptr) collect();
  NativeEvent *event = idle_;
  if (event == nullptr) return nullptr;
  idle_ = event->next;
  event->next = nullptr;
  event->users.store(1, std::memory_order_relaxed);
  add(device_->runtime->counters.events_in_use);
  return event;
}

bool Events::hold_for_wait(NativeEvent *event) {
  if (!event->serves_once) return false;
  event->users.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void Events::let_go(NativeEvent *event) {
  if (event->users.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  subtract(device_->runtime->counters.events_in_use);
  if (!returned_.push(event)) return;  // the device is closed, its events are gone
  if (starved_.load(std::memory_order_seq_cst)) device_->lane->nudge();
}

void Events::collect() {
  for (NativeEvent *event = returned_.take(); event != nullptr;) {
    NativeEvent *next = event->next;
    if (event->serves_once || event->is_dead) {
      // Nobody is left to tell if it fails.
      if (!event->is_dead) device_->runtime->api().aclrtDestroyEvent(event->raw);
      forget(event);
    } else {
      event->next = idle_;
      idle_ = event;
    }
    event = next;
  }
}

void Events::forget(NativeEvent *event) {
  all_[event->place] = all_.back();
  all_[event->place]->place = event->place;
  all_.pop_back();
  delete event;
}

void Events::forget_all() {
  for (NativeEvent *event : all_) event->is_dead = true;
  while (NativeEvent *event = idle_) {
    idle_ = event->next;
    forget(event);
  }
  collect();
}

Status Events::destroy_all() {
  returned_.close();
  Status status;
  for (NativeEvent *event : all_) {
    const int32_t code = event->is_dead ? 0 : device_->runtime->api().aclrtDestroyEvent(event->raw);
    if (code != 0 && status.is_ok())
      status = device_->lane->driver_error(code, "aclrtDestroyEvent");
    delete event;
  }
  all_.clear();
  idle_ = nullptr;
  return status;
}

}  // namespace aiocann::core
