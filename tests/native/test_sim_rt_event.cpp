// Events of the three makers: what each can do, snapshots, flags, times, limits.
#include "sim_rt.hpp"

namespace {

void *g_memory = nullptr;
char *g_host = nullptr;

/// Something to be done on the stream whose effect the host can see: g_host[index] becomes value.
void mark(aclrtStream stream, int index, int value) {
  CHECK_OK(aclrtMemsetAsync(g_host + index, 1, value, 1, stream));
}

aclrtEventRecordedStatus recorded(aclrtEvent event) {
  aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
  CHECK_OK(aclrtQueryEventStatus(event, &status));
  return status;
}

void flags_of_each_maker() {
  aclrtEvent event = nullptr;
  for (const uint32_t bad : {0u, 4u, 0x10u, 0x20u, 0x11u, 0x80u}) {
    CHECK_CODE(aclrtCreateEventExWithFlag(&event, bad), ACL_ERROR_RT_PARAM_INVALID);
  }
  for (const uint32_t bad : {0u, 4u, 0x11u, 0x21u, 0x30u, 0x80u}) {
    CHECK_CODE(aclrtCreateEventWithFlag(&event, bad), ACL_ERROR_RT_PARAM_INVALID);
  }
  for (const uint32_t good : {1u, 2u, 8u, 11u, 0x10u, 0x20u}) {
    CHECK_OK(aclrtCreateEventWithFlag(&event, good));
    CHECK_OK(aclrtDestroyEvent(event));
  }
  for (const uint32_t good : {1u, 2u, 8u, 9u, 11u}) {
    CHECK_OK(aclrtCreateEventExWithFlag(&event, good));
    CHECK_OK(aclrtDestroyEvent(event));
  }
  CHECK_CODE(aclrtCreateEvent(nullptr), ACL_ERROR_INVALID_PARAM);
  on_thread([] {
    aclrtEvent none = nullptr;
    CHECK_CODE(aclrtCreateEvent(&none), ACL_ERROR_RT_CONTEXT_NULL);
  });
}

void handles_are_checked() {
  aclrtEvent event = new_event();
  CHECK_CODE(aclrtDestroyEvent(nullptr), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclrtRecordEvent(nullptr, nullptr), ACL_ERROR_INVALID_PARAM);
  CHECK_OK(aclrtDestroyEvent(event));
  CHECK_CODE(aclrtDestroyEvent(event), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclrtRecordEvent(event, nullptr), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclrtSynchronizeEvent(event), ACL_ERROR_RT_PARAM_INVALID);
  aclrtEvent device_only = nullptr;
  CHECK_OK(aclrtCreateEventWithFlag(&device_only, ACL_EVENT_DEVICE_USE_ONLY));
  CHECK_CODE(aclrtRecordEvent(device_only, nullptr), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_OK(aclrtDestroyEvent(device_only));
}

void a_wait_orders_two_streams() {
  aclrtStream first = new_stream(), second = new_stream();
  aclrtEvent event = new_event();
  int32_t id = -1;
  CHECK_OK(aclrtStreamGetId(first, &id));
  g_host[0] = g_host[1] = 0;
  CHECK_OK(aiocann_sim_hold(0, id));
  mark(first, 0, 1);
  CHECK_OK(aclrtRecordEvent(event, first));
  CHECK_OK(aclrtStreamWaitEvent(second, event));
  mark(second, 1, 2);
  CHECK_CODE(aclrtSynchronizeStreamWithTimeout(second, 30), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  CHECK_EQ(recorded(event), ACL_EVENT_RECORDED_STATUS_NOT_READY);
  CHECK_OK(aiocann_sim_release(0, id));
  sync(second);
  CHECK_EQ(g_host[0], 1);
  CHECK_EQ(g_host[1], 2);
  CHECK_EQ(recorded(event), ACL_EVENT_RECORDED_STATUS_COMPLETE);
  for (aclrtStream stream : {first, second}) CHECK_OK(aclrtDestroyStream(stream));
  CHECK_OK(aclrtDestroyEvent(event));
}

void ex_waits_are_snapshots() {
  aclrtStream one = new_stream(), two = new_stream(), waiting = new_stream();
  aclrtEvent event = new_event();
  // Never recorded: complete, and no wait.
  CHECK_EQ(recorded(event), ACL_EVENT_RECORDED_STATUS_COMPLETE);
  CHECK_OK(aclrtSynchronizeEvent(event));
  CHECK_OK(aclrtStreamWaitEvent(waiting, event));
  sync(waiting);

  int32_t id_two = -1;
  CHECK_OK(aclrtStreamGetId(two, &id_two));
  CHECK_OK(aiocann_sim_hold(0, id_two));
  CHECK_OK(aclrtRecordEvent(event, one));
  CHECK_OK(aclrtStreamWaitEvent(waiting, event));
  mark(two, 0, 1);
  CHECK_OK(aclrtRecordEvent(event, two));  // recorded again, on a stream that stands still
  sync(waiting);                           // the wait keeps to the first recording
  CHECK_EQ(recorded(event), ACL_EVENT_RECORDED_STATUS_NOT_READY);
  CHECK_OK(aclrtStreamWaitEvent(waiting, event));
  CHECK_OK(aclrtDestroyEvent(event));  // queued waits keep what they need
  CHECK_CODE(aclrtSynchronizeStreamWithTimeout(waiting, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  CHECK_OK(aiocann_sim_release(0, id_two));
  sync(waiting);
  for (aclrtStream stream : {one, two, waiting}) CHECK_OK(aclrtDestroyStream(stream));
}

void ex_shortcuts_queue_nothing() {
  aclrtStream stream = new_stream(), other = new_stream();
  aclrtEvent event = new_event();
  uint32_t before = 0, after = 0;
  CHECK_OK(aclrtRecordEvent(event, stream));
  CHECK_OK(aclrtGetThreadLastTaskId(&before));
  CHECK_OK(aclrtStreamWaitEvent(stream, event));  // recorded on the same stream
  CHECK_OK(aclrtSynchronizeEventWithTimeout(event, kLongMs));
  CHECK_OK(aclrtStreamWaitEvent(other, event));  // complete already
  CHECK_OK(aclrtGetThreadLastTaskId(&after));
  CHECK_EQ(before, after);
  CHECK_OK(aclrtDestroyEvent(event));
  for (aclrtStream s : {stream, other}) CHECK_OK(aclrtDestroyStream(s));
}

void what_an_ex_event_refuses() {
  aclrtEvent event = new_event();
  aclrtEventStatus old = ACL_EVENT_STATUS_RESERVED;
  aclrtEventWaitStatus wait = ACL_EVENT_WAIT_STATUS_RESERVED;
  CHECK_CODE(aclrtResetEvent(event, nullptr), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  CHECK_CODE(aclrtQueryEvent(event, &old), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  CHECK_CODE(aclrtQueryEventWaitStatus(event, &wait), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  aclrtEvent no_sync = new_event(ACL_EVENT_TIME_LINE);
  CHECK_OK(aclrtRecordEvent(no_sync, nullptr));
  CHECK_CODE(aclrtStreamWaitEvent(nullptr, no_sync), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  CHECK_CODE(aclrtQueryEventStatus(event, nullptr), ACL_ERROR_INVALID_PARAM);
  CHECK_OK(aclrtDestroyEvent(event));
  CHECK_OK(aclrtDestroyEvent(no_sync));
}

void the_default_maker() {
  aclrtStream stream = new_stream(), waiting = new_stream();
  aclrtEvent event = nullptr;
  CHECK_OK(aclrtCreateEvent(&event));
  CHECK_EQ(recorded(event), ACL_EVENT_RECORDED_STATUS_NOT_READY);
  CHECK_CODE(aclrtStreamWaitEvent(waiting, event), ACL_ERROR_RT_PARAM_INVALID);  // not recorded
  CHECK_CODE(aclrtResetEvent(event, stream), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  CHECK_OK(aiocann_sim_hold(0, -1));
  CHECK_OK(aclrtRecordEvent(event, stream));
  CHECK_OK(aclrtStreamWaitEvent(waiting, event));
  aclrtEventStatus status = ACL_EVENT_STATUS_RESERVED;
  aclrtEventWaitStatus waits = ACL_EVENT_WAIT_STATUS_RESERVED;
  CHECK_OK(aclrtQueryEvent(event, &status));
  CHECK_EQ(status, ACL_EVENT_STATUS_NOT_READY);
  CHECK_OK(aclrtQueryEventWaitStatus(event, &waits));
  CHECK_EQ(waits, ACL_EVENT_WAIT_STATUS_NOT_READY);
  CHECK_OK(aiocann_sim_release(0, -1));
  sync(waiting);
  CHECK_OK(aclrtQueryEvent(event, &status));
  CHECK_EQ(status, ACL_EVENT_STATUS_COMPLETE);
  CHECK_OK(aclrtQueryEventWaitStatus(event, &waits));
  CHECK_EQ(waits, ACL_EVENT_WAIT_STATUS_COMPLETE);
  CHECK_OK(aclrtDestroyEvent(event));
  for (aclrtStream s : {stream, waiting}) CHECK_OK(aclrtDestroyStream(s));
}

void a_flag_event_really_waits_and_resets() {
  aclrtStream stream = new_stream(), waiting = new_stream();
  aclrtEvent event = nullptr;
  CHECK_OK(aclrtCreateEventWithFlag(&event, ACL_EVENT_SYNC));
  CHECK_EQ(recorded(event), ACL_EVENT_RECORDED_STATUS_NOT_READY);
  CHECK_OK(aclrtStreamWaitEvent(waiting, event));  // before any record: waits all the same
  CHECK_OK(aclrtResetEvent(event, waiting));
  mark(waiting, 0, 5);
  g_host[0] = 0;
  CHECK_CODE(aclrtSynchronizeStreamWithTimeout(waiting, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  CHECK_OK(aclrtRecordEvent(event, stream));
  sync(waiting);
  CHECK_EQ(g_host[0], 5);
  // It was reset: the next wait needs the next record.
  CHECK_OK(aclrtStreamWaitEvent(waiting, event));
  CHECK_CODE(aclrtSynchronizeStreamWithTimeout(waiting, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  CHECK_OK(aclrtRecordEvent(event, stream));
  sync(waiting);
  CHECK_OK(aclrtDestroyEvent(event));
  aclrtEvent no_sync = nullptr;
  CHECK_OK(aclrtCreateEventWithFlag(&no_sync, ACL_EVENT_TIME_LINE));
  CHECK_CODE(aclrtStreamWaitEvent(waiting, no_sync), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  CHECK_CODE(aclrtResetEvent(no_sync, waiting), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  CHECK_OK(aclrtDestroyEvent(no_sync));
  for (aclrtStream s : {stream, waiting}) CHECK_OK(aclrtDestroyStream(s));
}

/// A flag is one word: who comes to its wait after a reset has missed the recording.
void a_reset_takes_the_recording_from_the_others() {
  aclrtStream setter = new_stream(), early = new_stream(), late = new_stream();
  aclrtEvent event = nullptr;
  CHECK_OK(aclrtCreateEventWithFlag(&event, ACL_EVENT_SYNC));
  int32_t id = -1;
  CHECK_OK(aclrtStreamGetId(late, &id));
  CHECK_OK(aiocann_sim_hold(0, id));
  for (aclrtStream stream : {early, late}) CHECK_OK(aclrtStreamWaitEvent(stream, event));
  CHECK_OK(aclrtResetEvent(event, early));
  CHECK_OK(aclrtRecordEvent(event, setter));
  sync(early);
  CHECK_OK(aiocann_sim_release(0, id));
  CHECK_CODE(aclrtSynchronizeStreamWithTimeout(late, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  CHECK_OK(aclrtRecordEvent(event, setter));
  sync(late);
  CHECK_OK(aclrtDestroyEvent(event));
  for (aclrtStream s : {setter, early, late}) CHECK_OK(aclrtDestroyStream(s));
}

void streams_of_another_context_are_refused() {
  aclrtStream stream = new_stream();
  aclrtEvent event = new_event(), flag = nullptr;
  CHECK_OK(aclrtCreateEventWithFlag(&flag, ACL_EVENT_SYNC));
  aclrtContext context = nullptr;
  CHECK_OK(aclrtCreateContext(&context, 0));
  CHECK_CODE(aclrtRecordEvent(event, stream), ACL_ERROR_RT_STREAM_CONTEXT);
  CHECK_CODE(aclrtStreamWaitEvent(stream, event), ACL_ERROR_RT_STREAM_CONTEXT);
  CHECK_CODE(aclrtResetEvent(flag, stream), ACL_ERROR_RT_STREAM_CONTEXT);
  // The event itself is of the device: another context's streams may record it.
  CHECK_OK(aclrtRecordEvent(event, nullptr));
  CHECK_OK(aclrtSynchronizeEvent(event));
  CHECK_OK(aclrtDestroyContext(context));
  CHECK_OK(aclrtSetDevice(0));
  CHECK_OK(aclrtDestroyEvent(event));
  CHECK_OK(aclrtDestroyEvent(flag));
  CHECK_OK(aclrtDestroyStream(stream));
}

void external_events() {
  aclrtEvent event = nullptr;
  float ms = 0;
  uint64_t time = 0;
  aclrtEventStatus status = ACL_EVENT_STATUS_RESERVED;
  CHECK_OK(aclrtCreateEventWithFlag(&event, ACL_EVENT_EXTERNAL));
  CHECK_CODE(aclrtSynchronizeEvent(event), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  CHECK_CODE(aclrtQueryEvent(event, &status), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  CHECK_CODE(aclrtEventElapsedTime(&ms, event, event), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  CHECK_CODE(aclrtEventGetTimestamp(event, &time), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  aclrtStream stream = new_stream(), waiting = new_stream();
  CHECK_OK(aclrtStreamWaitEvent(waiting, event));
  CHECK_OK(aclrtResetEvent(event, waiting));
  CHECK_OK(aclrtRecordEvent(event, stream));
  sync(waiting);
  CHECK_OK(aclrtDestroyEvent(event));
  for (aclrtStream s : {stream, waiting}) CHECK_OK(aclrtDestroyStream(s));
}

void synchronisation_has_timeouts() {
  aclrtStream stream = new_stream();
  aclrtEvent event = new_event();
  CHECK_OK(aiocann_sim_hold(0, -1));
  CHECK_OK(aclrtRecordEvent(event, stream));
  CHECK_CODE(aclrtSynchronizeEventWithTimeout(event, 20), ACL_ERROR_RT_EVENT_SYNC_TIMEOUT);
  CHECK_CODE(aclrtSynchronizeEventWithTimeout(event, 0), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclrtSynchronizeEventWithTimeout(event, -2), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_OK(aiocann_sim_release(0, -1));
  CHECK_OK(aclrtSynchronizeEventWithTimeout(event, kLongMs));
  CHECK_OK(aclrtDestroyEvent(event));
  CHECK_OK(aclrtDestroyStream(stream));
}

void times() {
  aclrtStream stream = new_stream();
  aclrtEvent start = new_event(), end = new_event();
  float ms = -1;
  uint64_t at_start = 0, at_end = 0;
  CHECK_CODE(aclrtEventElapsedTime(&ms, start, end), ACL_ERROR_RT_INTERNAL_ERROR);  // not recorded
  CHECK_CODE(aclrtEventGetTimestamp(start, &at_start), ACL_ERROR_RT_INTERNAL_ERROR);
  CHECK_OK(aclrtRecordEvent(start, stream));
  for (int i = 0; i < 8; ++i) CHECK_OK(aclrtMemsetAsync(g_memory, kMiB, i, kMiB, stream));
  CHECK_OK(aiocann_sim_hold(0, -1));
  CHECK_OK(aclrtRecordEvent(end, stream));
  CHECK_CODE(aclrtEventElapsedTime(&ms, start, end), ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID);
  CHECK_OK(aiocann_sim_release(0, -1));
  sync(stream);
  CHECK_OK(aclrtEventElapsedTime(&ms, start, end));
  CHECK_OK(aclrtEventGetTimestamp(start, &at_start));
  CHECK_OK(aclrtEventGetTimestamp(end, &at_end));
  CHECK(ms > 0 && at_end >= at_start);
  const double difference =
      static_cast<double>(at_end - at_start) / 1000.0 - static_cast<double>(ms);
  CHECK(difference < 0.01 && difference > -0.01);
  float swapped = 0;
  CHECK_OK(aclrtEventElapsedTime(&swapped, end, start));
  CHECK_EQ(swapped, -ms);
  aclrtEvent no_time = new_event(ACL_EVENT_SYNC);
  CHECK_OK(aclrtRecordEvent(no_time, stream));
  sync(stream);
  CHECK_CODE(aclrtEventGetTimestamp(no_time, &at_end), ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID);
  for (aclrtEvent event : {start, end, no_time}) CHECK_OK(aclrtDestroyEvent(event));
  CHECK_OK(aclrtDestroyStream(stream));
}

void an_event_reaches_another_device() {
  CHECK_OK(aclrtSetDevice(1));
  aclrtStream theirs = new_stream();
  CHECK_OK(aclrtSetDevice(0));
  aclrtStream ours = new_stream();
  aclrtEvent event = new_event();
  CHECK_OK(aiocann_sim_hold(0, -1));
  CHECK_OK(aclrtRecordEvent(event, ours));
  CHECK_CODE(aclrtStreamWaitEvent(theirs, event), ACL_ERROR_RT_STREAM_CONTEXT);
  CHECK_OK(aclrtSetDevice(1));
  CHECK_OK(aclrtStreamWaitEvent(theirs, event));
  CHECK_CODE(aclrtSynchronizeStreamWithTimeout(theirs, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  CHECK_OK(aiocann_sim_release(0, -1));
  sync(theirs);
  CHECK_OK(aclrtDestroyStream(theirs));
  CHECK_OK(aclrtResetDevice(1));
  CHECK_OK(aclrtSetDevice(0));
  CHECK_OK(aclrtDestroyEvent(event));
  CHECK_OK(aclrtDestroyStream(ours));
}

void destroying_does_not_wait() {
  aclrtStream stream = new_stream();
  aclrtEvent event = new_event();
  CHECK_OK(aiocann_sim_hold(0, -1));
  CHECK_OK(aclrtRecordEvent(event, stream));
  const uint64_t live = counter("live_events");
  CHECK_OK(aclrtDestroyEvent(event));
  CHECK_EQ(counter("live_events"), live);  // its resources go when the stream gets there
  CHECK_OK(aiocann_sim_release(0, -1));
  sync(stream);
  CHECK_EQ(counter("live_events"), live - 1);
  CHECK_OK(aclrtDestroyStream(stream));
}

void events_run_out() {
  uint32_t available = 0;
  CHECK_OK(aclrtGetEventAvailNum(&available));
  CHECK_EQ(available, 65536 - counter("live_events"));
  std::vector<aclrtEvent> events;
  for (uint32_t i = 0; i < available; ++i) events.push_back(new_event());
  aclrtEvent one_too_many = nullptr;
  CHECK_CODE(aclrtCreateEvent(&one_too_many), ACL_ERROR_RT_NO_EVENT_RESOURCE);
  for (aclrtEvent event : events) CHECK_OK(aclrtDestroyEvent(event));
  CHECK_OK(aclrtCreateEvent(&one_too_many));
  CHECK_OK(aclrtDestroyEvent(one_too_many));
}

}  // namespace

int main() {
  start(2);
  g_memory = device_memory(kMiB);
  g_host = static_cast<char *>(pinned_memory(64));
  flags_of_each_maker();
  handles_are_checked();
  a_wait_orders_two_streams();
  ex_waits_are_snapshots();
  ex_shortcuts_queue_nothing();
  what_an_ex_event_refuses();
  the_default_maker();
  a_flag_event_really_waits_and_resets();
  a_reset_takes_the_recording_from_the_others();
  streams_of_another_context_are_refused();
  external_events();
  synchronisation_has_timeouts();
  times();
  an_event_reaches_another_device();
  destroying_does_not_wait();
  events_run_out();
  CHECK_EQ(counter("live_events"), 0);
  CHECK_OK(aclrtFree(g_memory));
  CHECK_OK(aclrtFreeHost(g_host));
  while (aclrtResetDevice(0) == ACL_SUCCESS) {
  }
  CHECK_OK(aclFinalize());
  return 0;
}
