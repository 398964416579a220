// api_event.cpp: events of the three makers.
#include <string.h>
#include <time.h>

#include <algorithm>

#include "sim/capture.hpp"
#include "sim/entry.hpp"
#include "sim/event.hpp"
#include "sim/lookup.hpp"
#include "sim/machine.hpp"
#include "sim/stream.hpp"
#include "sim/strict.hpp"

namespace aiocann::sim {
namespace {

constexpr uint32_t kCombinable =
    ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS | ACL_EVENT_TIME_LINE;
constexpr uint32_t kTimeless = ACL_EVENT_EXTERNAL | ACL_EVENT_IPC;
/// What an event made without flags can do. The waiting is by kind.
constexpr uint32_t kDefaultFlags = ACL_EVENT_CAPTURE_STREAM_PROGRESS | ACL_EVENT_TIME_LINE;

/// `shared`: of an event that processes share.
aclError create(aclrtEvent *handle, EventKind kind, uint32_t flags,
                std::shared_ptr<SharedBlock> shared = nullptr) {
  Context *context = nullptr;
  if (const aclError code = require_context(&context)) return code;
  Device *device = context->device;
  Event *event = device->events.acquire(machine().config().max_events);
  if (event == nullptr) {
    return fail(ACL_ERROR_RT_NO_EVENT_RESOURCE, "device %d has no more events: %u are in use",
                machine().user_id(device), device->events.live());
  }
  event->device = device;
  event->kind = kind;
  event->flags = flags;
  event->flag.close();
  event->pending_waits.store(0);
  event->is_external_record.store(false);
  event->is_external_wait.store(false);
  event->refs.store(1);
  if (shared != nullptr) event->shared = std::make_shared<SharedEvent>(std::move(shared));
  event->alive.store(true, std::memory_order_release);
  *handle = event;
  return ACL_SUCCESS;
}

aclError check_flags(uint32_t flags) {
  return fail(ACL_ERROR_RT_PARAM_INVALID, "event flags 0x%x are not a valid combination", flags);
}

aclError check_timeout(int32_t timeout) {
  if (timeout >= -1 && timeout != 0) return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_PARAM_INVALID, "timeout %d: expected -1 or more than 0 milliseconds",
              timeout);
}

aclError not_supported(const char *what) {
  return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "%s is not supported for an event made this way",
              what);
}

/// Of aclrtSetOpWaitTimeout, for waits that are enqueued afterwards.
std::atomic<uint32_t> g_wait_timeout_s{0};

/// Events that only the device may use.
bool is_device_only(const Event *event) { return (event->flags & ACL_EVENT_DEVICE_USE_ONLY) != 0; }

/// 107028 for an event that a capture going on has recorded.
aclError refuse_captured(Event *event) {
  if (!event->capture()) return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_EVENT_CAPTURED, "the event is recorded in a capture that goes on");
}

/// Other processes wake nobody here: looked at again and again.
aclError synchronize_shared(const SharedEvent &event, const Deadline &deadline) {
  const uint64_t number = event.recorded();
  while (event.completed() < number) {
    if (deadline.has_passed() || machine_is_stopping())
      return fail(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, "the event was not reached in time");
    const timespec pause{0, 50000};
    nanosleep(&pause, nullptr);
  }
  return ACL_SUCCESS;
}

aclError synchronize(aclrtEvent handle, int32_t timeout) {
  Event *event = nullptr;
  if (const aclError code = find_event(handle, &event)) return code;
  if (const aclError code = refuse_captured(event)) return code;
  if ((event->flags & ACL_EVENT_EXTERNAL) != 0) return not_supported("synchronization");
  const Deadline deadline = Deadline::after_ms(timeout);
  if (event->shared != nullptr) return synchronize_shared(*event->shared, deadline);
  const Ref<RecordPoint> point = event->latest_point();
  if (!point) return ACL_SUCCESS;
  const aclError code = point->wait(deadline);
  return code == ACL_SUCCESS ? code
                             : fail(code, "the event was not reached (timeout %d ms)", timeout);
}

/// What a capture says about its streams and events; with the context's capture lock.
aclError check_captured_use(Event *event, Stream *on) {
  if (event->kind != EventKind::kEx || event->shared != nullptr) return not_supported("capturing");
  constexpr uint32_t kNever =
      ACL_STREAM_PERSISTENT | ACL_STREAM_CPU_SCHEDULE | ACL_STREAM_DEVICE_USE_ONLY;
  if ((on->flags() & kNever) != 0)
    return fail(ACL_ERROR_RT_INTERNAL_ERROR, "stream %d cannot be captured", on->id());
  if (on == on->context()->default_stream)
    return fail(ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT,
                "the default stream cannot take part in a capture");
  return ACL_SUCCESS;
}

aclError record_captured(Event *event, Stream *on) {
  if (const aclError code = check_captured_use(event, on)) return code;
  if (!event->can_be_waited_for())
    return ACL_SUCCESS;  // nobody could wait for it: nothing is recorded
  const Ref<ModelBase> held = event->capture();
  Model *model = held ? static_cast<Model *>(held.get()) : on->capture();
  if (const aclError code = join_capture(model, on)) return code;
  uint32_t node = 0;
  if (const aclError code = model->append_record(on, &node)) return code;
  Ref<ModelBase> recorded(model);
  std::lock_guard<SpinLock> guard(event->lock);
  std::swap(event->captured_in, recorded);
  event->captured_node = node;
  return ACL_SUCCESS;
}

aclError wait_captured(Event *event, Stream *on) {
  if (const aclError code = check_captured_use(event, on)) return code;
  uint32_t node = 0;
  const Ref<ModelBase> held = event->capture(&node);
  Model *model = static_cast<Model *>(held.get());
  if (const aclError code = join_capture(model, on)) return code;
  return model->append_wait(on, node);
}

/// Waits of a capturing stream for what happened outside.
aclError check_foreign_wait(Event *event) {
  if ((event->flags & ACL_EVENT_EXTERNAL) != 0) return ACL_SUCCESS;
  if (event->kind != EventKind::kEx || event->shared != nullptr) return not_supported("capturing");
  if (!event->latest_point()) return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_CAPTURE_DEPENDENCY,
              "the event was recorded outside of the capture that would wait for it");
}

/// Each event once per graph, and then always so.
aclError submit_external(Event *event, Stream *on, bool is_record) {
  if (event->kind != EventKind::kEx || (event->flags & ACL_EVENT_SYNC) == 0)
    return not_supported("external use");
  std::lock_guard<std::mutex> lock(on->context()->capture_mutex);
  Model *const model = on->capture();
  if (model == nullptr)
    return fail(ACL_ERROR_RT_STREAM_NOT_CAPTURED, "stream %d is not capturing", on->id());
  {
    std::lock_guard<std::mutex> model_lock(model->mutex);
    auto &used = is_record ? model->external_records : model->external_waits;
    if (std::find(used.begin(), used.end(), event) != used.end())
      return fail(ACL_ERROR_RT_PARAM_INVALID, "the graph uses the event in this way already");
    used.push_back(event);
  }
  (is_record ? event->is_external_record : event->is_external_wait).store(true);
  return is_record ? on->submit(RecordExternalTask{Ref<Event>(event)})
                   : on->submit(WaitExternalTask{Ref<Event>(event)});
}

/// Counted while it is queued, for aclrtQueryEventWaitStatus.
template <class Wait>
aclError submit_wait(Stream *stream, Event *event, Wait &&wait) {
  if (stream->capture() != nullptr || stream->bound() != nullptr)
    return stream->submit(std::forward<Wait>(wait));
  event->pending_waits.fetch_add(1);
  const aclError code = stream->submit(std::forward<Wait>(wait));
  if (code != ACL_SUCCESS) event->pending_waits.fetch_sub(1);
  return code;
}

/// 107000 for events that only the device may use.
aclError find_for_use(aclrtEvent handle, Event **event) {
  if (const aclError code = find_event(handle, event)) return code;
  if (!is_device_only(*event)) return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_PARAM_INVALID, "the event is for use on the device only");
}

/// Graphs that are built take events with a flag of their own: others have no meaning but when they are called.
aclError check_bound_use(const Event *event, const Stream *on) {
  if (on->bound() == nullptr || event->kind == EventKind::kFlag) return ACL_SUCCESS;
  return not_supported("use on a stream that is bound to a model");
}

aclError record(Event *event, Stream *on) {
  if (const aclError code = check_bound_use(event, on)) return code;
  if ((event->flags & ACL_EVENT_EXTERNAL) == 0 && (on->capture() != nullptr || event->capture())) {
    std::lock_guard<std::mutex> lock(on->context()->capture_mutex);
    if (on->capture() != nullptr || event->capture()) return record_captured(event, on);
  }
  if (event->shared != nullptr) {
    return on->submit(RecordSharedTask{Ref<Event>(event), event->shared->begin_record()});
  }
  auto point = Ref<RecordPoint>::adopt(new RecordPoint(on->uid()));
  if (const aclError code = on->submit(RecordTask{Ref<Event>(event), point})) return code;
  std::lock_guard<SpinLock> guard(event->lock);
  std::swap(event->latest, point);
  return ACL_SUCCESS;
}

aclError wait(aclrtStream stream, aclrtEvent handle, uint32_t timeout_s) {
  Event *event = nullptr;
  if (const aclError code = find_for_use(handle, &event)) return code;
  if (!event->can_be_waited_for()) return not_supported("waiting");
  Stream *on = nullptr;
  if (const aclError code = find_stream(stream, &on)) return code;
  if (const aclError code = check_bound_use(event, on)) return code;
  if (event->capture()) {
    std::lock_guard<std::mutex> lock(on->context()->capture_mutex);
    if (event->capture()) return wait_captured(event, on);
  }
  if (on->capture() != nullptr) {
    if (const aclError code = check_foreign_wait(event)) return code;
  }
  if (event->kind == EventKind::kFlag)
    return submit_wait(on, event, WaitFlagTask{Ref<Event>(event), timeout_s});
  if (event->shared != nullptr) {
    if (event->shared->is_complete()) return ACL_SUCCESS;
    return submit_wait(on, event,
                       WaitSharedTask{Ref<Event>(event), event->shared->recorded(), timeout_s});
  }
  Ref<RecordPoint> point = event->latest_point();
  if (!point) {
    if (event->kind == EventKind::kEx) return ACL_SUCCESS;
    return fail(ACL_ERROR_RT_PARAM_INVALID, "the event was never recorded");
  }
  if (point->is_complete() || point->stream_uid == on->uid())
    return ACL_SUCCESS;  // nothing to wait for
  return submit_wait(on, event, WaitPointTask{Ref<Event>(event), std::move(point), timeout_s});
}

aclError used_externally() {
  return fail(ACL_ERROR_RT_PARAM_INVALID, "the event was used with the external flag before");
}

aclError bad_use_flag(uint32_t flag) {
  return fail(ACL_ERROR_RT_PARAM_INVALID, "flag %u is neither 0 nor 1 (external)", flag);
}

/// The old forms of query, for events with a flag of their own.
aclError check_old_query(aclrtEvent handle, Event **event) {
  if (const aclError code = find_event(handle, event)) return code;
  if (const aclError code = refuse_captured(*event)) return code;
  if ((*event)->kind == EventKind::kEx || ((*event)->flags & ACL_EVENT_EXTERNAL) != 0) {
    return not_supported("this query");
  }
  return ACL_SUCCESS;
}

/// The time of the latest recording, in nanoseconds of the device clock.
aclError timestamp(Event *event, uint64_t *ns) {
  if (const aclError code = refuse_captured(event)) return code;
  const Ref<RecordPoint> point = event->latest_point();
  if (!point) return fail(ACL_ERROR_RT_INTERNAL_ERROR, "the event was never recorded");
  if (!point->is_complete() || (event->flags & ACL_EVENT_TIME_LINE) == 0) {
    return fail(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID,
                "the event has no time (yet): it is not complete, or was made without TIME_LINE");
  }
  *ns = point->timestamp_ns;
  return ACL_SUCCESS;
}

}  // namespace
}  // namespace aiocann::sim

using namespace aiocann::sim;

aclError aclrtCreateEvent(aclrtEvent *event) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(event);
  return create(event, EventKind::kDefault, kDefaultFlags);
}

aclError aclrtCreateEventWithFlag(aclrtEvent *event, uint32_t flag) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(event);
  const bool combined = flag != 0 && (flag & ~kCombinable) == 0;
  if (!combined && flag != ACL_EVENT_DEVICE_USE_ONLY && flag != ACL_EVENT_EXTERNAL)
    return check_flags(flag);
  return create(event, EventKind::kFlag, flag);
}

aclError aclrtCreateEventExWithFlag(aclrtEvent *event, uint32_t flag) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(event);
  if (flag == ACL_EVENT_IPC) {
    Context *context = nullptr;
    if (const aclError code = require_context(&context)) return code;
    if (const aclError code = require_hbm_soc("an IPC event")) return code;
    auto block = SharedBlock::make(SharedBlock::Kind::kEvent, context->device->index);
    if (block == nullptr)
      return fail(ACL_ERROR_RT_NO_EVENT_RESOURCE, "no memory or descriptors for an IPC event");
    block->header().checks_pids.store(0);
    return create(event, EventKind::kEx, flag, std::move(block));
  }
  if (flag == 0 || (flag & ~kCombinable) != 0) return check_flags(flag);
  return create(event, EventKind::kEx, flag);
}

aclError aclrtDestroyEvent(aclrtEvent event) {
  ACL_ENTRY();
  Event *target = nullptr;
  if (const aclError code = find_event(event, &target)) return code;
  if (!target->alive.exchange(false))
    return fail(ACL_ERROR_RT_PARAM_INVALID, "the event was destroyed already");
  // Waits for the other kinds hold a recording, not the event.
  if (strict::is_on() && target->kind == EventKind::kFlag && target->pending_waits.load() != 0) {
    misuse("aclrtDestroyEvent: %u waits for the event are not done", target->pending_waits.load());
  }
  target->forget_capture();  // a graph may refer to the event, and the event to the graph
  target->release();
  return ACL_SUCCESS;
}

aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream) {
  ACL_ENTRY();
  Event *target = nullptr;
  if (const aclError code = find_for_use(event, &target)) return code;
  Stream *on = nullptr;
  if (const aclError code = find_stream(stream, &on)) return code;
  return record(target, on);
}

aclError aclrtRecordEventWithFlag(aclrtEvent event, aclrtStream stream, uint32_t flag) {
  ACL_ENTRY();
  if (const aclError code = require_hbm_soc("aclrtRecordEventWithFlag")) return code;
  if (flag > ACL_EVENT_RECORD_EXTERNAL) return bad_use_flag(flag);
  Event *target = nullptr;
  if (const aclError code = find_for_use(event, &target)) return code;
  if (flag == ACL_EVENT_RECORD_DEFAULT) {
    if (target->is_external_record.load()) return used_externally();
    return aclrtRecordEvent(event, stream);
  }
  Stream *on = nullptr;
  if (const aclError code = find_stream(stream, &on)) return code;
  return submit_external(target, on, true);
}

aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event) {
  ACL_ENTRY();
  return wait(stream, event, g_wait_timeout_s.load());
}

aclError aclrtStreamWaitEventWithTimeout(aclrtStream stream, aclrtEvent event, int32_t timeout) {
  ACL_ENTRY();
  if (timeout < 0) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "timeout %d: expected seconds, 0 for ever", timeout);
  }
  return wait(stream, event, static_cast<uint32_t>(timeout));
}

aclError aclrtStreamWaitEventWithFlag(aclrtStream stream, aclrtEvent event, uint32_t timeout,
                                      uint32_t flag) {
  ACL_ENTRY();
  if (const aclError code = require_hbm_soc("aclrtStreamWaitEventWithFlag")) return code;
  if (flag > ACL_EVENT_WAIT_EXTERNAL) return bad_use_flag(flag);
  if (flag == ACL_EVENT_WAIT_DEFAULT) {
    Event *target = nullptr;
    if (const aclError code = find_for_use(event, &target)) return code;
    if (target->is_external_wait.load()) return used_externally();
    return wait(stream, event, timeout);
  }
  if (timeout != 0) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "an external wait takes no timeout, not %u", timeout);
  }
  Event *target = nullptr;
  if (const aclError code = find_for_use(event, &target)) return code;
  Stream *on = nullptr;
  if (const aclError code = find_stream(stream, &on)) return code;
  return submit_external(target, on, false);
}

aclError aclrtSetOpWaitTimeout(uint32_t timeout) {
  ACL_ENTRY();
  if (const aclError code = machine().prepare()) return code;
  if (const aclError code = require_hbm_soc("aclrtSetOpWaitTimeout")) return code;
  g_wait_timeout_s.store(timeout);
  return ACL_SUCCESS;
}

aclError aclrtIpcGetEventHandle(aclrtEvent event, aclrtIpcEventHandle *handle) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(handle);
  Event *target = nullptr;
  if (const aclError code = find_event(event, &target)) return code;
  if (target->shared == nullptr) return not_supported("sharing");
  *handle = aclrtIpcEventHandle{};
  const std::string key = target->shared->block().key();
  memcpy(handle->reserved, key.c_str(), key.size());
  return ACL_SUCCESS;
}

aclError aclrtIpcOpenEventHandle(aclrtIpcEventHandle handle, aclrtEvent *event) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(event);
  Context *context = nullptr;
  if (const aclError code = require_context(&context)) return code;
  if (const aclError code = require_hbm_soc("aclrtIpcOpenEventHandle")) return code;
  const std::string key(handle.reserved, strnlen(handle.reserved, sizeof handle.reserved));
  aclError code = ACL_SUCCESS;
  auto block = SharedBlock::open(key, SharedBlock::Kind::kEvent, &code);
  if (block == nullptr) return code;
  return create(event, EventKind::kEx, ACL_EVENT_IPC, std::move(block));
}

aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream) {
  ACL_ENTRY();
  Event *target = nullptr;
  if (const aclError code = find_for_use(event, &target)) return code;
  if (target->kind != EventKind::kFlag || !target->can_be_waited_for())
    return not_supported("reset");
  Stream *on = nullptr;
  if (const aclError code = find_stream(stream, &on)) return code;
  if (on->capture() != nullptr && (target->flags & ACL_EVENT_EXTERNAL) == 0)
    return not_supported("capturing");
  return on->submit(ResetFlagTask{Ref<Event>(target)});
}

aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus *status) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(status);
  Event *target = nullptr;
  if (const aclError code = find_event(event, &target)) return code;
  if (const aclError code = refuse_captured(target)) return code;
  if ((target->flags & ACL_EVENT_EXTERNAL) != 0) return not_supported("this query");
  if (target->shared != nullptr) {
    *status = target->shared->is_complete() ? ACL_EVENT_RECORDED_STATUS_COMPLETE
                                            : ACL_EVENT_RECORDED_STATUS_NOT_READY;
    return ACL_SUCCESS;
  }
  const Ref<RecordPoint> point = target->latest_point();
  const bool complete = point ? point->is_complete() : target->kind == EventKind::kEx;
  *status = complete ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
  return ACL_SUCCESS;
}

aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus *status) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(status);
  Event *target = nullptr;
  if (const aclError code = check_old_query(event, &target)) return code;
  const Ref<RecordPoint> point = target->latest_point();
  *status = !point || point->is_complete() ? ACL_EVENT_STATUS_COMPLETE : ACL_EVENT_STATUS_NOT_READY;
  return ACL_SUCCESS;
}

aclError aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus *status) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(status);
  Event *target = nullptr;
  if (const aclError code = check_old_query(event, &target)) return code;
  *status = target->pending_waits.load() == 0 ? ACL_EVENT_WAIT_STATUS_COMPLETE
                                              : ACL_EVENT_WAIT_STATUS_NOT_READY;
  return ACL_SUCCESS;
}

aclError aclrtSynchronizeEvent(aclrtEvent event) {
  ACL_ENTRY();
  return synchronize(event, -1);
}

aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout) {
  ACL_ENTRY();
  if (const aclError code = check_timeout(timeout)) return code;
  return synchronize(event, timeout);
}

aclError aclrtEventElapsedTime(float *ms, aclrtEvent startEvent, aclrtEvent endEvent) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(ms);
  Event *start = nullptr, *end = nullptr;
  if (const aclError code = find_event(startEvent, &start)) return code;
  if (const aclError code = find_event(endEvent, &end)) return code;
  if (((start->flags | end->flags) & kTimeless) != 0) return not_supported("elapsed time");
  uint64_t from = 0, to = 0;
  if (const aclError code = timestamp(start, &from)) return code;
  if (const aclError code = timestamp(end, &to)) return code;
  *ms = static_cast<float>((static_cast<double>(to) - static_cast<double>(from)) / 1e6);
  return ACL_SUCCESS;
}

aclError aclrtEventGetTimestamp(aclrtEvent event, uint64_t *timestamp_us) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(timestamp_us);
  Event *target = nullptr;
  if (const aclError code = find_event(event, &target)) return code;
  if ((target->flags & kTimeless) != 0) return not_supported("a timestamp");
  uint64_t ns = 0;
  if (const aclError code = timestamp(target, &ns)) return code;
  *timestamp_us = ns / 1000;
  return ACL_SUCCESS;
}

aclError aclrtGetEventAvailNum(uint32_t *eventCount) {
  ACL_ENTRY();
  REQUIRE_NOT_NULL(eventCount);
  Context *context = nullptr;
  if (const aclError code = require_context(&context)) return code;
  *eventCount = machine().config().max_events - context->device->events.live();
  return ACL_SUCCESS;
}
