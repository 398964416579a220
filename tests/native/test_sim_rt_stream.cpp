// Streams: identity, order, synchronisation, failure modes, abort, limits.
#include <malloc.h>

#include "sim_rt.hpp"

namespace {

void identity() {
  aclrtStream a = new_stream(), b = nullptr;
  CHECK_OK(aclrtCreateStreamWithConfig(&b, 3, ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC));
  int32_t id_a = -1, id_b = -1, id_default = -1;
  CHECK_OK(aclrtStreamGetId(a, &id_a));
  CHECK_OK(aclrtStreamGetId(b, &id_b));
  CHECK_OK(aclrtStreamGetId(nullptr, &id_default));
  CHECK(id_a != id_b && id_a != id_default && id_b != id_default);
  uint32_t value = 99;
  CHECK_OK(aclrtStreamGetPriority(a, &value));
  CHECK_EQ(value, 0);  // the default is the highest
  CHECK_OK(aclrtStreamGetPriority(b, &value));
  CHECK_EQ(value, 3);
  CHECK_OK(aclrtStreamGetFlags(b, &value));
  CHECK_EQ(value, ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC);
  CHECK_OK(aclrtStreamGetFlags(nullptr, &value));
  CHECK_CODE(aclrtStreamGetId(a, nullptr), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclrtStreamQuery(a, nullptr), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclrtCreateStream(nullptr), ACL_ERROR_INVALID_PARAM);
  aclrtStream clamped = nullptr;
  CHECK_OK(aclrtCreateStreamWithConfig(&clamped, 500, 0));
  CHECK_OK(aclrtStreamGetPriority(clamped, &value));
  CHECK_EQ(value, 7);
  aclrtStream unknown = nullptr;  // bits that mean nothing are left alone
  CHECK_OK(aclrtCreateStreamWithConfig(&unknown, 0, ACL_STREAM_HUGE | 0x4000));
  void *memory = device_memory(kKiB);
  CHECK_OK(aclrtMemsetAsync(memory, kKiB, 1, kKiB, unknown));
  sync(unknown);
  CHECK_OK(aclrtFree(memory));
  CHECK_OK(aclrtDestroyStream(unknown));
  int32_t least = -1, greatest = -1;
  CHECK_OK(aclrtDeviceGetStreamPriorityRange(&least, &greatest));
  CHECK_EQ(least, 7);
  CHECK_EQ(greatest, 0);
  CHECK_OK(aclrtDeviceGetStreamPriorityRange(nullptr, nullptr));
  for (aclrtStream stream : {a, b, clamped}) CHECK_OK(aclrtDestroyStream(stream));
}

void a_destroyed_stream_is_recognised() {
  aclrtStream stream = new_stream();
  CHECK_CODE(aclrtDestroyStream(nullptr), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclrtDestroyStreamForce(nullptr), ACL_ERROR_INVALID_PARAM);
  CHECK_OK(aclrtDestroyStream(stream));
  const uint64_t before = counter("misuse");
  CHECK_CODE(aclrtSynchronizeStream(stream), ACL_ERROR_RT_STREAM_CONTEXT);
  CHECK_CODE(aclrtDestroyStream(stream), ACL_ERROR_RT_STREAM_CONTEXT);
  CHECK_EQ(counter("misuse"), before + 2);
  CHECK_CONTAINS(std::string(aiocann_sim_last_misuse()), "destroyed");
  int unrelated = 0;
  CHECK_CODE(aclrtSynchronizeStream(&unrelated), ACL_ERROR_RT_STREAM_CONTEXT);
}

void query_and_timeouts() {
  aclrtStream stream = new_stream();
  void *memory = device_memory(kMiB);
  CHECK_EQ(query(stream), ACL_STREAM_STATUS_COMPLETE);
  CHECK_OK(aiocann_sim_hold(0, -1));
  CHECK_OK(aclrtMemsetAsync(memory, kMiB, 1, kMiB, stream));
  CHECK_EQ(query(stream), ACL_STREAM_STATUS_NOT_READY);
  CHECK_CODE(aclrtSynchronizeStreamWithTimeout(stream, 30), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  CHECK_CODE(aclrtSynchronizeStreamWithTimeout(stream, 0), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclrtSynchronizeStreamWithTimeout(stream, -2), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_EQ(query(stream), ACL_STREAM_STATUS_NOT_READY);  // the timeout leaves it usable
  CHECK_OK(aiocann_sim_release(0, -1));
  CHECK_OK(aclrtSynchronizeStreamWithTimeout(stream, -1));
  CHECK_EQ(query(stream), ACL_STREAM_STATUS_COMPLETE);
  CHECK_OK(aclrtFree(memory));
  CHECK_OK(aclrtDestroyStream(stream));
}

void streams_that_are_never_synchronised() {
  void *memory = device_memory(kMiB);
  for (const uint32_t flag :
       {ACL_STREAM_PERSISTENT, ACL_STREAM_CPU_SCHEDULE, ACL_STREAM_DEVICE_USE_ONLY}) {
    aclrtStream stream = nullptr;
    CHECK_OK(aclrtCreateStreamWithConfig(&stream, 0, flag));
    CHECK_OK(aiocann_sim_hold(0, -1));
    CHECK_OK(aclrtMemsetAsync(memory, kMiB, 1, kMiB, stream));
    CHECK_OK(aclrtSynchronizeStream(stream));
    CHECK_EQ(query(stream), ACL_STREAM_STATUS_COMPLETE);
    CHECK_OK(aiocann_sim_release(0, -1));
    CHECK_OK(aclrtDestroyStream(stream));
  }
  CHECK_OK(aclrtFree(memory));
}

void null_is_the_default_stream() {
  aclrtStream named = nullptr;
  CHECK_OK(aclrtCtxGetCurrentDefaultStream(&named));
  char *host = static_cast<char *>(pinned_memory(kKiB));
  void *memory = device_memory(kKiB);
  memset(host, 3, kKiB);
  aclrtEvent event = new_event(), flag = nullptr;
  CHECK_OK(aclrtCreateEventWithFlag(&flag, ACL_EVENT_SYNC));
  CHECK_OK(aiocann_sim_hold(0, -1));
  CHECK_OK(aclrtMemcpyAsync(memory, kKiB, host, kKiB, ACL_MEMCPY_HOST_TO_DEVICE, nullptr));
  CHECK_OK(aclrtRecordEvent(event, nullptr));
  CHECK_OK(aclrtStreamWaitEvent(nullptr, event));
  CHECK_OK(aclrtResetEvent(flag, nullptr));
  CHECK_OK(
      aclrtLaunchHostFunc(nullptr, [](void *data) { static_cast<char *>(data)[0] = 4; }, host));
  CHECK_EQ(query(nullptr), ACL_STREAM_STATUS_NOT_READY);
  CHECK_EQ(query(named), ACL_STREAM_STATUS_NOT_READY);
  CHECK_OK(aiocann_sim_release(0, -1));
  sync(nullptr);
  CHECK_EQ(query(named), ACL_STREAM_STATUS_COMPLETE);
  CHECK_EQ(host[0], 4);
  int32_t id = -1, id_named = -2;
  CHECK_OK(aclrtStreamGetId(nullptr, &id));
  CHECK_OK(aclrtStreamGetId(named, &id_named));
  CHECK_EQ(id, id_named);
  uint32_t value = 99;
  CHECK_OK(aclrtStreamGetPriority(nullptr, &value));
  CHECK_EQ(value, 0);
  aclrtStreamAttrValue attribute = {};
  attribute.userCustomTag = 5;
  CHECK_OK(aclrtSetStreamAttribute(nullptr, ACL_STREAM_ATTR_USER_CUSTOM_TAG, &attribute));
  CHECK_OK(aclrtSetStreamFailureMode(nullptr, 0));
  // Where a stream must be named.
  aclmdlRI model = nullptr;
  aclmdlRICaptureStatus status;
  aclrtTaskGrp group = nullptr;
  CHECK_CODE(aclmdlRICaptureBegin(nullptr, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL),
             ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclmdlRICaptureGetInfo(nullptr, &status, &model), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclmdlRICaptureEnd(nullptr, &model), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclmdlRICaptureTaskGrpBegin(nullptr), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclmdlRICaptureTaskGrpEnd(nullptr, &group), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclmdlRICaptureTaskUpdateBegin(nullptr, &group), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclmdlRICaptureTaskUpdateEnd(nullptr), ACL_ERROR_INVALID_PARAM);
  CHECK_OK(aclrtDestroyEvent(event));
  CHECK_OK(aclrtDestroyEvent(flag));
  CHECK_OK(aclrtFree(memory));
  CHECK_OK(aclrtFreeHost(host));
}

/// The default stream is a queue like any other: it waits for nobody, and nobody for it.
void the_default_stream_orders_nothing() {
  aclrtStream stream = new_stream(), default_stream = nullptr;
  CHECK_OK(aclrtCtxGetCurrentDefaultStream(&default_stream));
  char *host = static_cast<char *>(pinned_memory(kKiB));
  const std::pair<aclrtStream, aclrtStream> both_ways[] = {{stream, default_stream},
                                                           {default_stream, stream}};
  for (const auto &[held, other] : both_ways) {
    int32_t id = -1;
    CHECK_OK(aclrtStreamGetId(held, &id));
    memset(host, 0, kKiB);
    CHECK_OK(aiocann_sim_hold(0, id));
    CHECK_OK(aclrtMemsetAsync(host, kKiB, 1, 1, held));
    CHECK_OK(aclrtMemsetAsync(host + 1, 8, 2, 1, other));
    sync(other);
    CHECK_EQ(host[0], 0);
    CHECK_EQ(host[1], 2);
    CHECK_OK(aiocann_sim_release(0, id));
    sync(held);
    CHECK_EQ(host[0], 1);
  }
  CHECK_OK(aclrtDestroyStream(stream));
  CHECK_OK(aclrtFreeHost(host));
}

void holding_one_stream_leaves_the_others() {
  aclrtStream a = new_stream(), b = new_stream();
  int32_t id = -1;
  CHECK_OK(aclrtStreamGetId(a, &id));
  void *memory = device_memory(kMiB);
  CHECK_OK(aiocann_sim_hold(0, id));
  CHECK_OK(aclrtMemsetAsync(memory, kMiB, 1, kKiB, a));
  CHECK_OK(aclrtMemsetAsync(static_cast<char *>(memory) + kKiB, kKiB, 1, kKiB, b));
  sync(b);
  CHECK_EQ(query(a), ACL_STREAM_STATUS_NOT_READY);
  CHECK_OK(aiocann_sim_release(0, id));
  sync(a);
  CHECK(aiocann_sim_hold(0, 4000) != 0);
  CHECK_CONTAINS(std::string(aiocann_sim_last_error()), "4000");
  CHECK(aiocann_sim_hold(9, -1) != 0);
  CHECK_OK(aclrtFree(memory));
  CHECK_OK(aclrtDestroyStream(a));
  CHECK_OK(aclrtDestroyStream(b));
}

void destroy_waits_and_force_does_not() {
  void *memory = device_memory(kMiB);
  char *host = static_cast<char *>(pinned_memory(kMiB));
  memset(host, 0, kMiB);
  aclrtStream stream = new_stream();
  CHECK_OK(aclrtMemset(memory, kMiB, 5, kMiB));
  for (int i = 0; i < 50; ++i) {
    CHECK_OK(aclrtMemcpyAsync(host, kMiB, memory, kMiB, ACL_MEMCPY_DEVICE_TO_HOST, stream));
  }
  CHECK_OK(aclrtDestroyStream(stream));
  CHECK_EQ(host[kMiB - 1], 5);

  memset(host, 0, kMiB);
  stream = new_stream();
  CHECK_OK(aiocann_sim_hold(0, -1));
  CHECK_OK(aclrtMemcpyAsync(host, kMiB, memory, kMiB, ACL_MEMCPY_DEVICE_TO_HOST, stream));
  CHECK_OK(aclrtDestroyStreamForce(stream));  // while held: the work is dropped, not run
  CHECK_OK(aiocann_sim_release(0, -1));
  CHECK_EQ(host[0], 0);
  CHECK_OK(aclrtFree(memory));
  CHECK_OK(aclrtFreeHost(host));
}

void abort_discards_and_tells_those_who_wait() {
  aclrtStream stream = new_stream(), waiting = new_stream();
  aclrtEvent event = new_event();
  char *host = static_cast<char *>(pinned_memory(kKiB));
  void *memory = device_memory(kKiB);
  memset(host, 0, kKiB);
  CHECK_OK(aclrtMemset(memory, kKiB, 7, kKiB));
  CHECK_OK(aiocann_sim_hold(0, -1));
  CHECK_OK(aclrtMemcpyAsync(host, kKiB, memory, kKiB, ACL_MEMCPY_DEVICE_TO_HOST, stream));
  CHECK_OK(aclrtRecordEvent(event, stream));
  std::thread on_stream([stream] {
    CHECK_OK(aclrtSetDevice(0));
    CHECK_CODE(aclrtSynchronizeStream(stream), ACL_ERROR_RT_STREAM_ABORT);
    CHECK_OK(aclrtResetDevice(0));
  });
  std::thread on_event(
      [event] { CHECK_CODE(aclrtSynchronizeEvent(event), ACL_ERROR_RT_STREAM_ABORT); });
  CHECK_OK(aclrtStreamWaitEvent(waiting, event));
  // Both threads see the abort, whether they come before it or after.
  CHECK_OK(aclrtStreamAbort(stream));
  on_stream.join();
  on_event.join();
  CHECK_OK(aiocann_sim_release(0, -1));
  CHECK_EQ(host[0], 0);
  // Work that waits for what was dropped hangs, and needs an abort of its own.
  CHECK_CODE(aclrtSynchronizeStreamWithTimeout(waiting, 30), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  CHECK_OK(aclrtStreamAbort(waiting));
  CHECK_CODE(aclrtSynchronizeStream(waiting), ACL_ERROR_RT_STREAM_ABORT);
  CHECK_CODE(aclrtStreamAbort(nullptr), ACL_ERROR_INVALID_PARAM);
  // Both are usable again.
  for (aclrtStream again : {stream, waiting}) {
    CHECK_OK(aclrtMemcpyAsync(host, kKiB, memory, kKiB, ACL_MEMCPY_DEVICE_TO_HOST, again));
    sync(again);
    CHECK_EQ(host[kKiB - 1], 7);
    CHECK_OK(aclrtDestroyStream(again));
  }
  CHECK_OK(aclrtDestroyEvent(event));
  CHECK_OK(aclrtFree(memory));
  CHECK_OK(aclrtFreeHost(host));
}

/// A copy whose fault is injected.
void failing_copy(aclrtStream stream, void *host, void *memory) {
  CHECK_OK(aiocann_sim_inject("copy", "memcpy", 1, 0));
  CHECK_OK(aclrtMemcpyAsync(host, kKiB, memory, kKiB, ACL_MEMCPY_DEVICE_TO_HOST, stream));
}

void failures_in_continue_mode() {
  aclrtStream stream = new_stream();
  char *host = static_cast<char *>(pinned_memory(2 * kKiB));
  char *memory = static_cast<char *>(device_memory(2 * kKiB));
  memset(host, 0, 2 * kKiB);
  CHECK_OK(aclrtMemset(memory, 2 * kKiB, 4, 2 * kKiB));
  CHECK_OK(aiocann_sim_hold(0, -1));
  failing_copy(stream, host, memory);
  CHECK_OK(aclrtMemcpyAsync(host + kKiB, kKiB, memory, kKiB, ACL_MEMCPY_DEVICE_TO_HOST, stream));
  CHECK_OK(aiocann_sim_release(0, -1));
  CHECK_CODE(aclrtSynchronizeStream(stream), ACL_ERROR_RT_DEVICE_MEM_ERROR);
  CHECK_EQ(host[0], 0);                      // the failed one wrote nothing
  CHECK_EQ(host[kKiB], 4);                   // the one behind it ran
  CHECK_OK(aclrtSynchronizeStream(stream));  // told once
  CHECK_OK(aclrtSetStreamFailureMode(stream, 0));
  CHECK_OK(aclrtFree(memory));
  CHECK_OK(aclrtFreeHost(host));
  CHECK_OK(aclrtDestroyStream(stream));
}

void stop_on_failure_is_for_the_whole_context() {
  aclrtContext context = nullptr;
  CHECK_OK(aclrtCreateContext(&context, 0));
  aclrtStream a = new_stream(), b = new_stream(), blocked = new_stream();
  char *host = static_cast<char *>(pinned_memory(kKiB));
  void *memory = device_memory(kKiB);
  memset(host, 0, kKiB);
  aclrtEvent never = nullptr;
  CHECK_OK(aclrtCreateEventWithFlag(&never, ACL_EVENT_SYNC));
  CHECK_OK(aclrtSetStreamFailureMode(a, 2));  // only the low bit counts
  CHECK_OK(aclrtSetStreamFailureMode(a, 1));
  CHECK_OK(aclrtSetStreamFailureMode(b, 1));
  CHECK_CODE(aclrtSetStreamFailureMode(b, 0), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  CHECK_OK(aclrtStreamWaitEvent(blocked, never));
  CHECK_OK(aiocann_sim_hold(0, -1));
  failing_copy(a, host, memory);
  CHECK_OK(aclrtMemsetAsync(memory, kKiB, 8, kKiB, a));
  CHECK_OK(aiocann_sim_release(0, -1));
  CHECK_CODE(aclrtSynchronizeStream(a), ACL_ERROR_RT_DEVICE_MEM_ERROR);
  CHECK_CODE(aclrtSynchronizeStream(blocked), ACL_ERROR_RT_DEVICE_MEM_ERROR);  // dropped, not stuck
  CHECK_CODE(aclrtSynchronizeStream(a), ACL_ERROR_RT_DEVICE_MEM_ERROR);        // and again
  CHECK_CODE(aclrtMemsetAsync(memory, kKiB, 8, kKiB, b), ACL_ERROR_RT_DEVICE_MEM_ERROR);
  CHECK_CODE(aclrtSynchronizeDevice(), ACL_ERROR_RT_DEVICE_MEM_ERROR);
  CHECK_OK(aclrtDestroyEvent(never));
  CHECK_OK(aclrtDestroyContext(context));
  CHECK_OK(aclrtSetDevice(0));  // another context of the device is not concerned
  aclrtStream fresh = new_stream();
  CHECK_OK(aclrtMemsetAsync(memory, kKiB, 8, kKiB, fresh));
  sync(fresh);
  CHECK_OK(aclrtDestroyStream(fresh));
  CHECK_OK(aclrtFree(memory));
  CHECK_OK(aclrtFreeHost(host));
}

void task_ids_increase_per_stream() {
  aclrtStream a = new_stream(), b = new_stream();
  void *memory = device_memory(kKiB);
  uint32_t id = 0;
  for (uint32_t i = 0; i < 3; ++i) {
    CHECK_OK(aclrtMemsetAsync(memory, kKiB, 1, kKiB, a));
    CHECK_OK(aclrtGetThreadLastTaskId(&id));
    CHECK_EQ(id, i);
  }
  sync(a);
  CHECK_OK(aclrtMemsetAsync(memory, kKiB, 1, kKiB, b));
  CHECK_OK(aclrtGetThreadLastTaskId(&id));
  CHECK_EQ(id, 0);
  CHECK_CODE(aclrtGetThreadLastTaskId(nullptr), ACL_ERROR_INVALID_PARAM);
  CHECK_OK(aclrtDestroyStream(a));
  CHECK_OK(aclrtDestroyStream(b));
  CHECK_OK(aclrtFree(memory));
}

void streams_run_out() {
  uint32_t available = 0;
  CHECK_OK(aclrtGetStreamAvailableNum(&available));
  CHECK_EQ(available, 1984 - counter("live_streams"));
  std::vector<aclrtStream> streams;
  for (uint32_t i = 0; i < available; ++i) streams.push_back(new_stream());
  aclrtStream one_too_many = nullptr;
  CHECK_CODE(aclrtCreateStream(&one_too_many), ACL_ERROR_RT_NO_STREAM_RESOURCE);
  CHECK_CONTAINS(recent(), "1984");
  CHECK_OK(aclrtDestroyStream(streams.back()));
  CHECK_OK(aclrtCreateStream(&one_too_many));
  streams.back() = one_too_many;
  for (aclrtStream stream : streams) CHECK_OK(aclrtDestroyStream(stream));
}

void a_destroyed_stream_keeps_no_memory() {
  void *memory = device_memory(kKiB);
  const auto use = [memory] {
    for (int i = 0; i < 100; ++i) {
      aclrtStream stream = new_stream();
      CHECK_OK(aclrtMemsetAsync(memory, kKiB, 1, kKiB, stream));
      CHECK_OK(aclrtSynchronizeStream(stream));
      CHECK_OK(aclrtDestroyStream(stream));
    }
  };
  use();
  const size_t before = mallinfo2().uordblks;
  use();
  // A slot is taken again as late as possible, so each of these was a fresh one.
  CHECK(mallinfo2().uordblks < before + 100 * 1000);
}

/// Records in which order streams got to run, on one worker.
void priorities_are_respected() {
  std::vector<aclrtStream> streams;
  std::vector<aclrtEvent> events;
  for (uint32_t priority : {7u, 3u, 5u, 0u}) {
    aclrtStream stream = nullptr;
    CHECK_OK(aclrtCreateStreamWithConfig(&stream, priority, 0));
    streams.push_back(stream);
    events.push_back(new_event());
  }
  // All become ready at once, when the device is released.
  char *memory = static_cast<char *>(device_memory(8 * kMiB));
  CHECK_OK(aiocann_sim_hold(0, -1));
  for (size_t i = 0; i < streams.size(); ++i) {
    CHECK_OK(aclrtMemsetAsync(memory + i * kMiB, kMiB, 1, kMiB, streams[i]));
    CHECK_OK(aclrtRecordEvent(events[i], streams[i]));
  }
  CHECK_OK(aiocann_sim_release(0, -1));
  for (aclrtStream stream : streams) sync(stream);
  uint64_t at[4];
  for (size_t i = 0; i < 4; ++i) CHECK_OK(aclrtEventGetTimestamp(events[i], &at[i]));
  // With several workers equals may overtake each other; the first must not come last on one.
  if (counter("threads") == 1) {
    CHECK(at[3] <= at[1] && at[1] <= at[2] && at[2] <= at[0]);
  }
  for (aclrtStream stream : streams) CHECK_OK(aclrtDestroyStream(stream));
  for (aclrtEvent event : events) CHECK_OK(aclrtDestroyEvent(event));
  CHECK_OK(aclrtFree(memory));
}

}  // namespace

int main() {
  start(1);
  identity();
  a_destroyed_stream_is_recognised();
  query_and_timeouts();
  streams_that_are_never_synchronised();
  null_is_the_default_stream();
  the_default_stream_orders_nothing();
  holding_one_stream_leaves_the_others();
  destroy_waits_and_force_does_not();
  abort_discards_and_tells_those_who_wait();
  failures_in_continue_mode();
  stop_on_failure_is_for_the_whole_context();
  task_ids_increase_per_stream();
  streams_run_out();
  a_destroyed_stream_keeps_no_memory();
  priorities_are_respected();
  while (aclrtResetDevice(0) == ACL_SUCCESS) {
  }
  configure("threads", "1");
  CHECK_OK(aclrtSetDevice(0));
  priorities_are_respected();
  CHECK_OK(aclrtResetDevice(0));
  CHECK_OK(aclFinalize());
  return 0;
}
