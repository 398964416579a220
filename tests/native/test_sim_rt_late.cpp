// Faults that hold things back: tasks that take longer or never end, callbacks that come late or never.
#include "sim_rt.hpp"
#include "sim_subscriber.hpp"

namespace {

std::atomic<int> g_calls{0};
void count_call(void *) { g_calls.fetch_add(1); }

char *g_host = nullptr;  // pinned

void fill(aclrtStream stream, char value, size_t at = 0) {
  CHECK_OK(aclrtMemsetAsync(g_host + at, 1, value, 1, stream));
}

void inject(const char *kind, const char *target, uint64_t nth, int32_t value) {
  CHECK_OK(aiocann_sim_inject(kind, target, nth, value));
}

void a_delayed_task_holds_its_stream_only() {
  aclrtStream slow = new_stream(), quick = new_stream();
  const auto begin = std::chrono::steady_clock::now();
  inject("copy_delay", "memset", 2, 60);
  fill(slow, 1, 0);
  fill(slow, 2, 1);
  fill(slow, 3, 2);
  sync(quick);
  fill(quick, 4, 3);
  sync(quick);
  CHECK_EQ(g_host[3], 4);
  sync(slow);
  CHECK(std::chrono::steady_clock::now() - begin >= std::chrono::milliseconds(60));
  CHECK_EQ(g_host[1], 2);
  CHECK_EQ(g_host[2], 3);
  CHECK_EQ(counter("armed_faults"), 0);
  CHECK_OK(aclrtDestroyStream(slow));
  CHECK_OK(aclrtDestroyStream(quick));
}

void delays_can_strike_every_time() {
  aclrtStream stream = new_stream();
  const auto begin = std::chrono::steady_clock::now();
  inject("copy_delay", "*", 0, 10);
  for (int i = 0; i < 3; ++i) fill(stream, static_cast<char>(i));
  sync(stream);
  CHECK(std::chrono::steady_clock::now() - begin >= std::chrono::milliseconds(30));
  aiocann_sim_clear_faults();
  // One that would take for ever is cut short.
  inject("copy_delay", "*", 1, 1000000000);
  fill(stream, 9);
  CHECK_CODE(aclrtSynchronizeStreamWithTimeout(stream, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  aiocann_sim_let_go();
  sync(stream);
  CHECK_EQ(g_host[0], 9);
  CHECK_OK(aclrtDestroyStream(stream));
}

void a_stalled_task_ends_by_abort() {
  aclrtStream stream = new_stream();
  aclrtEvent event = new_event();
  g_host[0] = 0;
  inject("copy_stall", "memset", 1, 0);
  fill(stream, 5);
  CHECK_OK(aclrtRecordEvent(event, stream));
  CHECK_CODE(aclrtSynchronizeStreamWithTimeout(stream, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  CHECK_CODE(aclrtSynchronizeEventWithTimeout(event, 20), ACL_ERROR_RT_EVENT_SYNC_TIMEOUT);
  CHECK_EQ(query(stream), ACL_STREAM_STATUS_NOT_READY);
  CHECK_OK(aclrtStreamAbort(stream));
  CHECK_CODE(aclrtSynchronizeStream(stream), ACL_ERROR_RT_STREAM_ABORT);
  CHECK_CODE(aclrtSynchronizeEvent(event), ACL_ERROR_RT_STREAM_ABORT);
  CHECK_EQ(g_host[0], 0);
  fill(stream, 6);
  sync(stream);
  CHECK_EQ(g_host[0], 6);

  inject("copy_stall", "memset", 1, 0);
  fill(stream, 7);
  CHECK_CODE(aclrtSynchronizeStreamWithTimeout(stream, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  CHECK_OK(aclrtDestroyStreamForce(stream));
  CHECK_EQ(g_host[0], 6);
  CHECK_OK(aclrtDestroyEvent(event));
}

void a_stalled_task_may_refuse_to_be_aborted() {
  aclrtStream stream = new_stream();
  inject("copy_stall", "*", 1, ACL_ERROR_RT_TS_ERROR);
  fill(stream, 7);
  CHECK_CODE(aclrtSynchronizeStreamWithTimeout(stream, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  CHECK_CODE(aclrtStreamAbort(stream), ACL_ERROR_RT_TS_ERROR);
  CHECK_CODE(aclrtDestroyStreamForce(stream), ACL_ERROR_RT_TS_ERROR);
  CHECK_EQ(query(stream), ACL_STREAM_STATUS_NOT_READY);
  aiocann_sim_let_go();
  sync(stream);
  CHECK_EQ(g_host[0], 7);
  CHECK_OK(aclrtStreamAbort(stream));
  // Only resetting the device ends it otherwise.
  CHECK_OK(aclrtSetDevice(1));
  aclrtStream stuck = new_stream();
  inject("copy_stall", "*", 1, ACL_ERROR_RT_TS_ERROR);
  fill(stuck, 8);
  CHECK_CODE(aclrtSynchronizeStreamWithTimeout(stuck, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  CHECK_OK(aclrtResetDeviceForce(1));
  CHECK_EQ(g_host[0], 7);
  CHECK_OK(aclrtSetDevice(0));
  CHECK_CODE(aclrtStreamQuery(stuck, nullptr), ACL_ERROR_INVALID_PARAM);
  aclrtStreamStatus status;
  CHECK_CODE(aclrtStreamQuery(stuck, &status), ACL_ERROR_RT_STREAM_CONTEXT);
  CHECK_OK(aclrtDestroyStreamForce(stream));
}

/// aclrtStreamStop: the task that is running ends, those behind it stay.
void stopping_ends_the_running_task_alone() {
  aclrtStream stream = new_stream();
  CHECK_CODE(aclrtStreamStop(nullptr), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_OK(aclrtStreamStop(stream));  // nothing runs
  memset(g_host, 0, 64);
  inject("copy_stall", "memset", 1, 0);
  fill(stream, 1, 0);
  fill(stream, 2, 1);
  CHECK_CODE(aclrtSynchronizeStreamWithTimeout(stream, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  CHECK_OK(aclrtStreamStop(stream));
  sync(stream);
  CHECK_EQ(g_host[0], 0);
  CHECK_EQ(g_host[1], 2);

  // A wait is a running task, too.
  aclrtEvent flag = nullptr;
  CHECK_OK(aclrtCreateEventWithFlag(&flag, ACL_EVENT_SYNC));
  CHECK_OK(aclrtStreamWaitEvent(stream, flag));
  fill(stream, 3, 2);
  CHECK_CODE(aclrtSynchronizeStreamWithTimeout(stream, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  CHECK_OK(aclrtStreamStop(stream));
  sync(stream);
  CHECK_EQ(g_host[2], 3);
  CHECK_OK(aclrtDestroyEvent(flag));

  // What has not begun is not touched.
  CHECK_OK(aiocann_sim_hold(0, -1));
  fill(stream, 4, 3);
  CHECK_OK(aclrtStreamStop(stream));
  CHECK_OK(aiocann_sim_release(0, -1));
  sync(stream);
  CHECK_EQ(g_host[3], 4);
  CHECK_OK(aclrtDestroyStream(stream));
}

void dropped_callbacks_never_come() {
  Subscriber thread(0);
  aclrtStream stream = new_stream();
  CHECK_OK(aclrtSubscribeReport(thread.id(), stream));
  const uint64_t dropped = counter("dropped_callbacks");
  g_calls = 0;
  inject("callback_drop", "no_block", 2, 0);
  inject("callback_drop", "block", 1, 0);
  for (int i = 0; i < 3; ++i)
    CHECK_OK(aclrtLaunchCallback(count_call, nullptr, ACL_CALLBACK_NO_BLOCK, stream));
  CHECK_OK(aclrtLaunchCallback(count_call, nullptr, ACL_CALLBACK_BLOCK, stream));  // goes on
  CHECK_OK(aclrtLaunchCallback(count_call, nullptr, ACL_CALLBACK_BLOCK, stream));
  sync(stream);
  CHECK_EQ(g_calls.load(), 3);
  CHECK_EQ(counter("dropped_callbacks"), dropped + 2);

  inject("callback_drop", "*", 1, 1);  // the stream waits for it all the same
  CHECK_OK(aclrtLaunchCallback(count_call, nullptr, ACL_CALLBACK_BLOCK, stream));
  CHECK_CODE(aclrtSynchronizeStreamWithTimeout(stream, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  CHECK_OK(aclrtStreamAbort(stream));
  CHECK_CODE(aclrtSynchronizeStream(stream), ACL_ERROR_RT_STREAM_ABORT);
  CHECK_OK(aclrtUnSubscribeReport(thread.id(), stream));
  CHECK_OK(aclrtDestroyStream(stream));

  aclrtStream host = new_stream();
  inject("callback_drop", "host_func", 1, 0);
  CHECK_OK(aclrtLaunchHostFunc(host, count_call, nullptr));
  CHECK_OK(aclrtLaunchHostFunc(host, count_call, nullptr));
  sync(host);
  CHECK_EQ(g_calls.load(), 4);
  inject("callback_drop", "host_func", 1, 1);
  CHECK_OK(aclrtLaunchHostFunc(host, count_call, nullptr));
  CHECK_CODE(aclrtSynchronizeStreamWithTimeout(host, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  aiocann_sim_let_go();
  sync(host);
  CHECK_EQ(g_calls.load(), 4);
  CHECK_OK(aclrtDestroyStream(host));
}

void late_callbacks_come_after_all() {
  Subscriber thread(0);
  aclrtStream stream = new_stream();
  CHECK_OK(aclrtSubscribeReport(thread.id(), stream));
  g_calls = 0;
  inject("callback_delay", "no_block", 1, 0);
  CHECK_OK(aclrtLaunchCallback(count_call, nullptr, ACL_CALLBACK_NO_BLOCK, stream));
  CHECK_OK(aclrtLaunchCallback(count_call, nullptr, ACL_CALLBACK_BLOCK, stream));  // overtakes
  sync(stream);
  CHECK_EQ(g_calls.load(), 1);
  aiocann_sim_let_go();
  wait_until([] { return g_calls.load() == 2; });

  const auto begin = std::chrono::steady_clock::now();
  inject("callback_delay", "*", 1, 40);
  CHECK_OK(aclrtLaunchCallback(count_call, nullptr, ACL_CALLBACK_BLOCK, stream));
  sync(stream);
  CHECK_EQ(g_calls.load(), 3);
  CHECK(std::chrono::steady_clock::now() - begin >= std::chrono::milliseconds(40));

  // One that is aborted meanwhile does not run.
  inject("callback_delay", "block", 1, 0);
  CHECK_OK(aclrtLaunchCallback(count_call, nullptr, ACL_CALLBACK_BLOCK, stream));
  CHECK_CODE(aclrtSynchronizeStreamWithTimeout(stream, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  CHECK_OK(aclrtStreamAbort(stream));
  aiocann_sim_let_go();
  CHECK_CODE(aclrtSynchronizeStream(stream), ACL_ERROR_RT_STREAM_ABORT);
  CHECK_EQ(g_calls.load(), 3);

  // Nor does one whose thread has left.
  inject("callback_delay", "no_block", 1, 0);
  CHECK_OK(aclrtLaunchCallback(count_call, nullptr, ACL_CALLBACK_NO_BLOCK, stream));
  sync(stream);
  CHECK_OK(aclrtUnSubscribeReport(thread.id(), stream));
  CHECK_OK(aclrtDestroyStream(stream));
  aiocann_sim_let_go();
  CHECK_EQ(g_calls.load(), 3);

  aclrtStream host = new_stream();
  inject("callback_delay", "host_func", 1, 0);
  CHECK_OK(aclrtLaunchHostFunc(host, count_call, nullptr));
  CHECK_CODE(aclrtSynchronizeStreamWithTimeout(host, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  CHECK_EQ(g_calls.load(), 3);
  aiocann_sim_let_go();
  sync(host);
  CHECK_EQ(g_calls.load(), 4);
  CHECK_OK(aclrtDestroyStream(host));
}

}  // namespace

int main() {
  start(2);
  g_host = static_cast<char *>(pinned_memory(64));
  a_delayed_task_holds_its_stream_only();
  delays_can_strike_every_time();
  a_stalled_task_ends_by_abort();
  a_stalled_task_may_refuse_to_be_aborted();
  stopping_ends_the_running_task_alone();
  dropped_callbacks_never_come();
  late_callbacks_come_after_all();
  CHECK_EQ(counter("armed_faults"), 0);
  CHECK_OK(aclrtFreeHost(g_host));
  return 0;
}
