// Capturing streams: what begins, joins and ends a capture, what is refused meanwhile, and by whose mode.
#include "sim_rt.hpp"

namespace {

char *g_host = nullptr;  // pinned

constexpr auto kGlobal = ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;
constexpr auto kThread = ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL;
constexpr auto kRelaxed = ACL_MODEL_RI_CAPTURE_MODE_RELAXED;

void fill(aclrtStream stream, char value, size_t at = 0) {
  CHECK_OK(aclrtMemsetAsync(g_host + at, 1, value, 1, stream));
}

aclmdlRICaptureStatus status_of(aclrtStream stream) {
  aclmdlRICaptureStatus status = ACL_MODEL_RI_CAPTURE_STATUS_NONE;
  CHECK_OK(aclmdlRICaptureGetInfo(stream, &status, nullptr));
  return status;
}

/// Ends a capture that has failed: the code, no model, and the stream is ordinary again.
void end_fails(aclrtStream stream, aclError code) {
  aclmdlRI model = &code;
  CHECK_CODE(aclmdlRICaptureEnd(stream, &model), code);
  CHECK(model == nullptr);
  CHECK_EQ(status_of(stream), ACL_MODEL_RI_CAPTURE_STATUS_NONE);
  fill(stream, 1);
  sync(stream);
}

aclmdlRI end(aclrtStream stream) {
  aclmdlRI model = nullptr;
  CHECK_OK(aclmdlRICaptureEnd(stream, &model));
  CHECK(model != nullptr);
  return model;
}

void begin_and_end() {
  aclrtStream stream = new_stream(), persistent = nullptr;
  aclmdlRI model = nullptr, told = nullptr;
  CHECK_CODE(aclmdlRICaptureBegin(nullptr, kGlobal), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclmdlRICaptureBegin(stream, static_cast<aclmdlRICaptureMode>(3)),
             ACL_ERROR_RT_PARAM_INVALID);
  aclrtStream default_stream = nullptr;
  CHECK_OK(aclrtCtxGetCurrentDefaultStream(&default_stream));
  CHECK_CODE(aclmdlRICaptureBegin(default_stream, kGlobal), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  CHECK_OK(aclrtCreateStreamWithConfig(&persistent, 0, ACL_STREAM_PERSISTENT));
  CHECK_CODE(aclmdlRICaptureBegin(persistent, kGlobal), ACL_ERROR_RT_INTERNAL_ERROR);
  CHECK_OK(aclrtDestroyStream(persistent));
  CHECK_CODE(aclmdlRICaptureEnd(stream, &model), ACL_ERROR_RT_STREAM_NOT_CAPTURED);
  CHECK_CODE(aclmdlRICaptureEnd(nullptr, &model), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclmdlRICaptureEnd(stream, nullptr), ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(aclmdlRICaptureGetInfo(stream, nullptr, nullptr), ACL_ERROR_INVALID_PARAM);
  CHECK_EQ(status_of(stream), ACL_MODEL_RI_CAPTURE_STATUS_NONE);

  // Work from before is not captured, work from within does not run.
  CHECK_OK(aiocann_sim_hold(0, -1));
  fill(stream, 1);
  CHECK_OK(aclmdlRICaptureBegin(stream, kGlobal));
  CHECK_CODE(aclmdlRICaptureBegin(stream, kGlobal), ACL_ERROR_RT_STREAM_CAPTURED);
  fill(stream, 2);
  CHECK_OK(aiocann_sim_release(0, -1));
  aclmdlRICaptureStatus status;
  CHECK_OK(aclmdlRICaptureGetInfo(stream, &status, &told));
  CHECK_EQ(status, ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE);
  CHECK_CODE(aclmdlRIDestroy(told), ACL_ERROR_RT_MODEL_CAPTURED);
  model = end(stream);
  CHECK_EQ(model, told);
  sync(stream);
  CHECK_EQ(g_host[0], 1);
  CHECK_OK(aclmdlRIDestroy(model));
  CHECK_CODE(aclmdlRIDestroy(model), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclmdlRIDestroy(nullptr), ACL_ERROR_INVALID_PARAM);
  CHECK_OK(aclrtDestroyStream(stream));
}

void a_capturing_stream_refuses() {
  aclrtStream stream = new_stream();
  aclrtEvent event = new_event();
  CHECK_OK(aclmdlRICaptureBegin(stream, kRelaxed));
  CHECK_CODE(aclrtSynchronizeStream(stream), ACL_ERROR_RT_STREAM_CAPTURED);
  CHECK_CODE(aclrtSynchronizeStreamWithTimeout(stream, 10), ACL_ERROR_RT_STREAM_CAPTURED);
  aclrtStreamStatus status;
  CHECK_CODE(aclrtStreamQuery(stream, &status), ACL_ERROR_RT_STREAM_CAPTURED);
  CHECK_CODE(aclrtDestroyStream(stream), ACL_ERROR_RT_STREAM_CAPTURED);
  CHECK_CODE(aclrtDestroyStreamForce(stream), ACL_ERROR_RT_STREAM_CAPTURED);
  CHECK_CODE(aclrtStreamAbort(stream), ACL_ERROR_RT_STREAM_CAPTURED);
  CHECK_CODE(aclrtSynchronizeDevice(), ACL_ERROR_RT_STREAM_CAPTURED);
  char pageable = 1;
  CHECK_CODE(
      aclrtMemcpyAsync(device_memory(64), 1, &pageable, 1, ACL_MEMCPY_HOST_TO_DEVICE, stream),
      ACL_ERROR_RT_PARAM_INVALID);
  // Recorded in the capture, the event is nobody else's.
  CHECK_OK(aclrtRecordEvent(event, stream));
  CHECK_CODE(aclrtSynchronizeEvent(event), ACL_ERROR_RT_EVENT_CAPTURED);
  aclrtEventRecordedStatus recorded;
  CHECK_CODE(aclrtQueryEventStatus(event, &recorded), ACL_ERROR_RT_EVENT_CAPTURED);
  float ms = 0;
  uint64_t us = 0;
  CHECK_CODE(aclrtEventElapsedTime(&ms, event, event), ACL_ERROR_RT_EVENT_CAPTURED);
  CHECK_CODE(aclrtEventGetTimestamp(event, &us), ACL_ERROR_RT_EVENT_CAPTURED);
  CHECK_CODE(aclrtStreamWaitEvent(nullptr, event), ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT);
  CHECK_CODE(aclrtRecordEvent(event, nullptr), ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT);
  // Allocating and making streams is allowed.
  CHECK_OK(aclrtFree(device_memory(64)));
  CHECK_OK(aclrtDestroyStream(new_stream()));
  aclmdlRI model = end(stream);
  CHECK_OK(aclrtSynchronizeEvent(event));  // never recorded, as far as the outside can tell
  CHECK_OK(aclmdlRIDestroy(model));
  CHECK_OK(aclrtDestroyEvent(event));
  CHECK_OK(aclrtDestroyStream(stream));
}

void kinds_of_events() {
  aclrtStream stream = new_stream(), other = new_stream();
  aclrtEvent plain = nullptr, flag = nullptr, timed = new_event(ACL_EVENT_TIME_LINE);
  aclrtEvent outside = new_event(), fresh = new_event();
  CHECK_OK(aclrtCreateEvent(&plain));
  CHECK_OK(aclrtCreateEventWithFlag(&flag, ACL_EVENT_SYNC));
  CHECK_OK(aclrtRecordEvent(outside, other));
  sync(other);
  CHECK_OK(aclmdlRICaptureBegin(stream, kGlobal));
  for (aclrtEvent event : {plain, flag}) {
    CHECK_CODE(aclrtRecordEvent(event, stream), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    CHECK_CODE(aclrtStreamWaitEvent(stream, event), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  }
  CHECK_CODE(aclrtResetEvent(flag, stream), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  aclrtEvent shared = nullptr;
  CHECK_OK(aclrtCreateEventExWithFlag(&shared, ACL_EVENT_IPC));
  CHECK_CODE(aclrtRecordEvent(shared, stream), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  CHECK_CODE(aclrtStreamWaitEvent(stream, shared), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  CHECK_OK(aclrtDestroyEvent(shared));
  CHECK_OK(aclrtRecordEvent(timed, stream));  // nobody can wait for it: nothing is recorded
  CHECK_CODE(aclrtStreamWaitEvent(stream, outside), ACL_ERROR_RT_CAPTURE_DEPENDENCY);
  CHECK_OK(aclrtStreamWaitEvent(stream, fresh));  // never recorded: no wait
  CHECK_OK(aclmdlRIDestroy(end(stream)));
  for (aclrtEvent event : {plain, flag, timed, outside, fresh}) CHECK_OK(aclrtDestroyEvent(event));
  CHECK_OK(aclrtDestroyStream(stream));
  CHECK_OK(aclrtDestroyStream(other));
}

void branches_must_come_back() {
  aclrtStream origin = new_stream(), side = new_stream(), far = new_stream();
  aclrtEvent fork = new_event(), join = new_event(), deep = new_event();
  const auto begin = [&] {
    CHECK_OK(aclmdlRICaptureBegin(origin, kGlobal));
    CHECK_OK(aclrtRecordEvent(fork, origin));
    CHECK_OK(aclrtStreamWaitEvent(side, fork));
    CHECK_EQ(status_of(side), ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE);
    fill(side, 5, 1);
  };
  begin();
  end_fails(origin, ACL_ERROR_RT_STREAM_UNJOINED);
  CHECK_EQ(status_of(side), ACL_MODEL_RI_CAPTURE_STATUS_NONE);
  begin();
  CHECK_OK(aclrtRecordEvent(join, side));
  end_fails(origin, ACL_ERROR_RT_STREAM_UNJOINED);  // recorded, and not waited for
  begin();
  CHECK_OK(aclrtRecordEvent(join, side));
  CHECK_OK(aclrtStreamWaitEvent(origin, join));
  fill(side, 6, 1);
  end_fails(origin, ACL_ERROR_RT_STREAM_UNJOINED);  // more after the join
  begin();
  aclmdlRI model = &fork;
  CHECK_CODE(aclmdlRICaptureEnd(side, &model), ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED);
  CHECK(model == nullptr);
  CHECK_OK(aclrtRecordEvent(join, side));
  CHECK_OK(aclrtStreamWaitEvent(origin, join));
  CHECK_OK(aclmdlRIDestroy(end(origin)));
  // Through another branch.
  begin();
  CHECK_OK(aclrtRecordEvent(deep, side));
  CHECK_OK(aclrtStreamWaitEvent(far, deep));
  CHECK_OK(aclrtRecordEvent(join, far));
  CHECK_OK(aclrtStreamWaitEvent(origin, join));
  CHECK_OK(aclmdlRIDestroy(end(origin)));
  for (aclrtEvent event : {fork, join, deep}) CHECK_OK(aclrtDestroyEvent(event));
  for (aclrtStream stream : {origin, side, far}) CHECK_OK(aclrtDestroyStream(stream));
}

void captures_do_not_mix() {
  aclrtStream a = new_stream(), b = new_stream();
  aclrtEvent event = new_event();
  CHECK_OK(aclmdlRICaptureBegin(a, kGlobal));
  CHECK_OK(aclmdlRICaptureBegin(b, kGlobal));
  CHECK_OK(aclrtRecordEvent(event, a));
  CHECK_CODE(aclrtStreamWaitEvent(b, event), ACL_ERROR_STREAM_CAPTURE_CONFLICT);
  CHECK_EQ(status_of(a), ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED);
  CHECK_EQ(status_of(b), ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED);
  CHECK_CODE(aclrtMemsetAsync(g_host, 1, 1, 1, a), ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED);
  end_fails(a, ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED);
  end_fails(b, ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED);
  CHECK_OK(aclrtDestroyEvent(event));
  CHECK_OK(aclrtDestroyStream(a));
  CHECK_OK(aclrtDestroyStream(b));
}

void the_thread_matters_unless_relaxed() {
  aclrtContext context = nullptr;
  CHECK_OK(aclrtGetCurrentContext(&context));
  for (const auto mode : {kGlobal, kThread, kRelaxed}) {
    aclrtStream stream = new_stream();
    CHECK_OK(aclmdlRICaptureBegin(stream, mode));
    fill(stream, 1);
    on_thread([&] {
      CHECK_OK(aclrtSetCurrentContext(context));
      if (mode == kRelaxed)
        CHECK_OK(aclmdlRIDestroy(end(stream)));
      else
        end_fails(stream, ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD);
    });
    CHECK_OK(aclrtDestroyStream(stream));
  }
}

/// Calls that would disturb a capture, on this thread, in the exchanged mode.
void unsafe_calls(aclmdlRICaptureMode mode, bool refused) {
  CHECK_OK(aclmdlRICaptureThreadExchangeMode(&mode));
  char pageable[4] = {};
  void *memory = device_memory(64);
  aclrtStream stream = new_stream();
  const aclError sync_code = refused ? ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT : 0;
  CHECK_CODE(aclrtMemcpy(pageable, 4, memory, 4, ACL_MEMCPY_DEVICE_TO_HOST), sync_code);
  CHECK_CODE(aclrtMemset(memory, 64, 0, 64), sync_code);
  CHECK_CODE(aclrtMemcpy2d(pageable, 2, memory, 2, 2, 2, ACL_MEMCPY_DEVICE_TO_HOST), sync_code);
  CHECK_CODE(aclrtMemcpyAsync(pageable, 4, memory, 4, ACL_MEMCPY_DEVICE_TO_HOST, stream),
             refused ? ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC : 0);
  CHECK_OK(aclrtMemcpyAsync(g_host, 4, memory, 4, ACL_MEMCPY_DEVICE_TO_HOST, stream));  // pinned
  sync(stream);
  CHECK_OK(aclrtDestroyStream(stream));
  CHECK_OK(aclrtFree(memory));
  CHECK_OK(aclmdlRICaptureThreadExchangeMode(&mode));
}

void modes_forbid_what_disturbs() {
  aclmdlRICaptureMode mode = kRelaxed;
  CHECK_OK(aclmdlRICaptureThreadExchangeMode(&mode));
  CHECK_EQ(mode, kGlobal);
  CHECK_OK(aclmdlRICaptureThreadExchangeMode(&mode));
  CHECK_EQ(mode, kRelaxed);
  mode = static_cast<aclmdlRICaptureMode>(3);
  CHECK_CODE(aclmdlRICaptureThreadExchangeMode(&mode), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclmdlRICaptureThreadExchangeMode(nullptr), ACL_ERROR_INVALID_PARAM);
  aclrtContext context = nullptr;
  CHECK_OK(aclrtGetCurrentContext(&context));
  const struct {
    aclmdlRICaptureMode capture, exchanged;
    bool own, others;  ///< refused on the capturing thread, and on another one
  } rows[] = {
      {kGlobal, kGlobal, true, true},     {kGlobal, kThread, true, false},
      {kGlobal, kRelaxed, false, false},  {kThread, kGlobal, true, false},
      {kThread, kThread, true, false},    {kThread, kRelaxed, false, false},
      {kRelaxed, kGlobal, false, false},  {kRelaxed, kThread, false, false},
      {kRelaxed, kRelaxed, false, false},
  };
  for (const auto &row : rows) {
    aclrtStream stream = new_stream();
    CHECK_OK(aclmdlRICaptureBegin(stream, row.capture));
    unsafe_calls(row.exchanged, row.own);
    on_thread([&] {
      CHECK_OK(aclrtSetCurrentContext(context));
      unsafe_calls(row.exchanged, row.others);
    });
    CHECK_OK(aclmdlRIDestroy(end(stream)));  // a refusal does not make the capture invalid
    CHECK_OK(aclrtDestroyStream(stream));
    unsafe_calls(row.exchanged, false);
  }
}

void captures_end_with_their_context() {
  aclrtContext context = nullptr;
  CHECK_OK(aclrtCreateContext(&context, 0));
  aclrtStream stream = new_stream();
  aclmdlRI model = nullptr;
  CHECK_OK(aclmdlRICaptureBegin(stream, kGlobal));
  fill(stream, 1);
  aclmdlRICaptureStatus status;
  CHECK_OK(aclmdlRICaptureGetInfo(stream, &status, &model));
  CHECK_OK(aclrtDestroyContext(context));
  CHECK_OK(aclrtSetDevice(0));
  CHECK_CODE(aclmdlRIDestroy(model), ACL_ERROR_RT_PARAM_INVALID);
  char byte = 0;
  void *memory = device_memory(64);
  CHECK_OK(aclrtMemcpy(memory, 1, &byte, 1, ACL_MEMCPY_HOST_TO_DEVICE));
  CHECK_OK(aclrtFree(memory));
}

}  // namespace

int main() {
  start(1);
  g_host = static_cast<char *>(pinned_memory(64));
  begin_and_end();
  a_capturing_stream_refuses();
  kinds_of_events();
  branches_must_come_back();
  captures_do_not_mix();
  the_thread_matters_unless_relaxed();
  modes_forbid_what_disturbs();
  captures_end_with_their_context();
  return 0;
}
