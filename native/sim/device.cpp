// device.cpp: opening and closing devices, contexts and streams; the gate that tests hold.
#include "sim/device.hpp"

#include <algorithm>

#include "sim/callback.hpp"
#include "sim/capture.hpp"
#include "sim/error.hpp"
#include "sim/faults.hpp"
#include "sim/lifecycle.hpp"
#include "sim/lookup.hpp"
#include "sim/machine.hpp"
#include "sim/state_callbacks.hpp"
#include "sim/stream.hpp"
#include "sim/thread_state.hpp"

namespace aiocann::sim {
namespace {

/// Of the configuration that aclInit was given: what threads have that set no device. nullptr: nothing.
std::atomic<Device *> g_default_device{nullptr};

std::vector<Stream *> streams_of(Context *context) {
  std::lock_guard<std::mutex> lock(context->mutex);
  return context->streams;
}

/// Everything that belongs to a device goes with its last context.
void clear_device(Device *device) {
  for (uint32_t i = 0; i < device->events.used(); ++i) {
    Event *event = device->events.at(i);
    if (!event->alive.exchange(false)) continue;
    event->forget_capture();
    event->release();
  }
  for (uint32_t i = 0; i < device->notifies.used(); ++i) {
    Notify *notify = device->notifies.at(i);
    if (notify->alive.exchange(false)) notify->release();
  }
  machine().virtual_memory().clear(device);
  device->memory.free_all();
  device->peers_enabled.store(0);
  if (!device->lost_for_ever.load()) device->lost.store(0);
}

}  // namespace

Context *current_context() {
  const ThreadState &thread = thread_state();
  if (thread.explicit_context != nullptr) {
    return thread.explicit_context->alive.load(std::memory_order_acquire) ? thread.explicit_context
                                                                          : nullptr;
  }
  if (thread.primary_device < 0) return nullptr;
  return machine().by_index(thread.primary_device)->primary.load(std::memory_order_acquire);
}

aclError set_device(Device *device) {
  const int32_t id = machine().user_id(device);
  tell_device_state(id, ACL_RT_DEVICE_STATE_SET_PRE);
  {
    std::lock_guard<std::mutex> lock(device->mutex);
    if (const aclError code = refuse_lost(device)) return code;
    if (device->primary.load() == nullptr) {
      Context *context = nullptr;
      if (const aclError code = open_context(device, true, &context)) return code;
      device->primary.store(context, std::memory_order_release);
    }
    ++device->primary_refs;
  }
  ThreadState &thread = thread_state();
  thread.primary_device = device->index;
  thread.explicit_context = nullptr;
  tell_device_state(id, ACL_RT_DEVICE_STATE_SET_POST);
  return ACL_SUCCESS;
}

void set_default_device(Device *device) { g_default_device.store(device); }
Device *default_device() { return g_default_device.load(std::memory_order_acquire); }

aclError require_context(Context **context) {
  if (const aclError code = refuse_forked()) return code;
  *context = current_context();
  if (*context != nullptr) return refuse_lost((*context)->device);
  const ThreadState &thread = thread_state();
  if (Device *device = default_device();
      device != nullptr && thread.explicit_context == nullptr && thread.primary_device < 0) {
    if (const aclError code = set_device(device)) return code;
    *context = current_context();
    if (*context != nullptr) return ACL_SUCCESS;
  }
  return fail(ACL_ERROR_RT_CONTEXT_NULL,
              "this thread has no current context: call aclrtSetDevice first");
}

aclError require_hbm_soc(const char *function) {
  const SocProfile &soc = *machine().config().soc;
  if (!soc.ddr_only) return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "%s is not supported on %s", function, soc.name);
}

bool soc_takes(aclDataType dtype) {
  const SocProfile *soc = machine().config().soc;  // nullptr: no machine was asked for yet
  return dtype != ACL_BF16 || soc == nullptr || soc->bf16;
}

bool soc_has_hbm() {
  const SocProfile *soc = machine().config().soc;
  return soc == nullptr || !soc->ddr_only;
}

aclError refuse_lost(const Device *device) {
  const aclError code = device->lost.load(std::memory_order_acquire);
  if (code == ACL_SUCCESS) return code;
  return fail(code, "device %d is lost", machine().user_id(device));
}

aclError find_stream(aclrtStream handle, Stream **stream) {
  Context *context = nullptr;
  if (const aclError code = require_context(&context)) return code;
  if (handle == nullptr) {
    *stream = context->default_stream;
    return ACL_SUCCESS;
  }
  Stream *found = context->device->streams.find(handle);
  if (found != nullptr && found->alive.load(std::memory_order_acquire) &&
      found->context() == context) {
    *stream = found;
    return ACL_SUCCESS;
  }
  if (found != nullptr && !found->alive.load())
    misuse("stream %d is used after it was destroyed", found->id());
  return fail(ACL_ERROR_RT_STREAM_CONTEXT,
              "the stream was not created in the current context, or was destroyed");
}

aclError find_named_stream(aclrtStream handle, Stream **stream) {
  if (handle == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "the stream is NULL");
  return find_stream(handle, stream);
}

aclError find_event(aclrtEvent handle, Event **event) {
  if (handle == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "the event is NULL");
  for (int d = 0; d < machine().device_count(); ++d) {
    Event *found = machine().by_index(d)->events.find(handle);
    if (found == nullptr) continue;
    if (found->alive.load(std::memory_order_acquire)) {
      *event = found;
      return refuse_lost(found->device);
    }
    misuse("an event is used after it was destroyed");
    break;
  }
  return fail(ACL_ERROR_RT_PARAM_INVALID, "the event does not exist (any more)");
}

aclError find_notify(aclrtNotify handle, Notify **notify) {
  if (handle == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "the notify is NULL");
  for (int d = 0; d < machine().device_count(); ++d) {
    Notify *found = machine().by_index(d)->notifies.find(handle);
    if (found == nullptr) continue;
    if (found->alive.load(std::memory_order_acquire)) {
      *notify = found;
      return refuse_lost(found->device);
    }
    misuse("a notify is used after it was destroyed");
    break;
  }
  return fail(ACL_ERROR_RT_PARAM_INVALID, "the notify does not exist (any more)");
}

aclError find_device(int32_t id, Device **device) {
  if (const aclError code = machine().prepare()) return code;
  *device = machine().by_user_id(id);
  if (*device != nullptr) return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_INVALID_DEVICEID, "device %d does not exist: %d visible", id,
              machine().visible_count());
}

aclError create_stream(Context *context, uint32_t priority, uint32_t flags, Stream **stream) {
  Device *device = context->device;
  Stream *made = device->streams.acquire(machine().config().max_streams);
  if (made == nullptr) {
    return fail(ACL_ERROR_RT_NO_STREAM_RESOURCE, "device %d has no more streams: %u are in use",
                machine().user_id(device), device->streams.live());
  }
  made->open(device, context, priority, flags);
  bool is_made = false;
  {
    std::lock_guard<std::mutex> lock(context->mutex);
    // Checked here, so that close_context() sees every stream that was ever made in the context.
    is_made = context->alive.load();
    if (is_made) context->streams.push_back(made);
  }
  if (is_made) {
    *stream = made;
    tell_stream_state(made, ACL_RT_STREAM_STATE_CREATE_POST);
    return ACL_SUCCESS;
  }
  made->alive.store(false);
  device->streams.release(made);
  return fail(ACL_ERROR_RT_CONTEXT_NULL, "the context is being destroyed");
}

void destroy_stream(Stream *stream) {
  Context *context = stream->context();
  tell_stream_state(stream, ACL_RT_STREAM_STATE_DESTROY_PRE);
  stream->alive.store(false, std::memory_order_release);
  drop_capture(stream);
  drop_binding(stream);
  drop_subscription(stream);
  stream->close();
  {
    std::lock_guard<std::mutex> lock(context->mutex);
    auto &streams = context->streams;
    streams.erase(std::remove(streams.begin(), streams.end(), stream), streams.end());
  }
  stream->device()->streams.release(stream);
}

aclError open_context(Device *device, bool is_primary, Context **context) {
  if (const aclError code = refuse_lost(device)) return code;
  if (const aclError code = machine().opened()) return code;
  Context *made = machine().contexts().acquire(UINT32_MAX);
  if (made == nullptr) {
    machine().closed();
    return fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "no more contexts");
  }
  made->device = device;
  made->is_primary = is_primary;
  made->stop_on_failure.store(false);
  made->stop_error.store(0);
  made->alive.store(true, std::memory_order_release);  // its handle is not known to anybody yet
  device->n_contexts.fetch_add(1);
  if (const aclError code = create_stream(made, 0, 0, &made->default_stream)) {
    made->alive.store(false);
    device->n_contexts.fetch_sub(1);
    machine().contexts().release(made);
    machine().closed();
    return code;
  }
  *context = made;
  return ACL_SUCCESS;
}

void close_context(Context *context, bool force) {
  Device *device = context->device;
  if (!force) {
    for (Stream *stream : streams_of(context)) stream->wait_for_all(Deadline::never());
  }
  {
    std::lock_guard<std::mutex> lock(context->mutex);
    context->alive.store(false, std::memory_order_release);
  }
  for (Stream *stream : streams_of(context)) {
    stream->discard(ACL_ERROR_RT_STREAM_ABORT);  // empty, unless forced or still submitted to
    destroy_stream(stream);
  }
  forget_models(context);
  std::shared_ptr<HostFuncThread> host_funcs;
  {
    std::lock_guard<std::mutex> lock(context->mutex);
    host_funcs.swap(context->host_funcs);
  }
  if (host_funcs != nullptr) host_funcs->stop();
  if (device->n_contexts.fetch_sub(1) == 1) clear_device(device);
  machine().contexts().release(context);
  machine().closed();
}

void Context::stop(aclError code) {
  aclError none = 0;
  if (!stop_error.compare_exchange_strong(none, code)) return;
  for (Stream *stream : streams_of(this)) stream->kick();
}

void close_all_contexts(Device *device, bool primary_too) {
  std::lock_guard<std::mutex> lock(device->mutex);
  for (uint32_t i = 0; i < machine().contexts().used(); ++i) {
    Context *context = machine().contexts().at(i);
    if (!context->alive.load() || context->device != device) continue;
    if (context->is_primary) {
      if (!primary_too) continue;
      device->primary_refs = 0;
      device->primary.store(nullptr, std::memory_order_release);
    }
    close_context(context, true);
  }
}

void lose(Device *device, aclError code, bool for_ever) {
  device->lost_for_ever.store(for_ever);
  device->lost.store(code, std::memory_order_seq_cst);
  for (uint32_t i = 0; i < device->streams.used(); ++i) {
    Stream *stream = device->streams.at(i);
    if (stream->alive.load()) stream->kick();
  }
}

void restore(Device *device) {
  std::lock_guard<std::mutex> lock(device->mutex);
  device->lost_for_ever.store(false);
  if (!device->is_open()) device->lost.store(0);
}

void hold(Device *device, Stream *stream) {
  std::lock_guard<std::mutex> lock(device->held_mutex);
  (stream != nullptr ? stream->held : device->held).store(true);
}

void release(Device *device, Stream *stream) {
  Stream *freed = nullptr;
  {
    std::lock_guard<std::mutex> lock(device->held_mutex);
    (stream != nullptr ? stream->held : device->held).store(false);
    Stream **link = &device->held_streams;
    while (*link != nullptr) {
      Stream *candidate = *link;
      if (device->held.load() || candidate->held.load()) {
        link = &candidate->next_ready;
        continue;
      }
      *link = candidate->next_ready;
      candidate->next_ready = freed;
      freed = candidate;
    }
  }
  // In the order in which they came: the list is a stack, and was turned over once more just now.
  Pool::instance().schedule_all(freed);
}

void release_held(Device *device, Stream *stream) {
  {
    std::lock_guard<std::mutex> lock(device->held_mutex);
    Stream **link = &device->held_streams;
    while (*link != nullptr && *link != stream) link = &(*link)->next_ready;
    if (*link == nullptr) return;
    *link = stream->next_ready;
  }
  Pool::instance().schedule(stream);
}

}  // namespace aiocann::sim
