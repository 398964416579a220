// Faults that strike within replays: tasks of a graph are late, stall and fail as tasks of a stream do.
#include "sim_rt.hpp"
#include "sim_subscriber.hpp"

namespace {

char *g_host = nullptr;  // pinned
std::atomic<int> g_calls{0};
void count_call(void *) { g_calls.fetch_add(1); }

void fill(aclrtStream stream, char value, size_t at) {
  CHECK_OK(aclrtMemsetAsync(g_host + at, 1, value, 1, stream));
}

void inject(const char *kind, const char *target, uint64_t nth, int32_t value) {
  CHECK_OK(aiocann_sim_inject(kind, target, nth, value));
}

/// Looks while the device may write: that is what it is for.
__attribute__((no_sanitize_thread, noinline)) bool is_set(size_t at, char value) {
  return const_cast<volatile char *>(g_host)[at] == value;
}

/// Two branches: 0 and 2 are written by the origin, 1 by the other, 3 when both are done.
aclmdlRI fork_and_join(aclrtStream origin, aclrtStream other) {
  aclrtEvent fork = new_event(), join = new_event();
  CHECK_OK(aclmdlRICaptureBegin(origin, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
  CHECK_OK(aclrtRecordEvent(fork, origin));
  CHECK_OK(aclrtStreamWaitEvent(other, fork));
  fill(origin, 1, 0);
  fill(other, 2, 1);
  fill(origin, 3, 2);
  CHECK_OK(aclrtRecordEvent(join, other));
  CHECK_OK(aclrtStreamWaitEvent(origin, join));
  fill(origin, 4, 3);
  aclmdlRI model = nullptr;
  CHECK_OK(aclmdlRICaptureEnd(origin, &model));
  CHECK_OK(aclrtDestroyEvent(fork));
  CHECK_OK(aclrtDestroyEvent(join));
  return model;
}

void a_delay_holds_its_branch_alone(aclmdlRI model, aclrtStream stream) {
  memset(g_host, 0, 64);
  inject("copy_delay", "memset", 1, 1000000000);  // the origin's first
  CHECK_OK(aclmdlRIExecuteAsync(model, stream));
  wait_until([] { return is_set(1, 2); });  // the other branch goes on
  CHECK_CODE(aclrtSynchronizeStreamWithTimeout(stream, 10), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  CHECK(is_set(0, 0) && is_set(2, 0) && is_set(3, 0));
  aiocann_sim_let_go();
  sync(stream);
  CHECK(is_set(0, 1) && is_set(2, 3) && is_set(3, 4));

  // By time, and once for each run.
  memset(g_host, 0, 64);
  inject("copy_delay", "*", 0, 5);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 2; ++i) CHECK_OK(aclmdlRIExecuteAsync(model, stream));
  sync(stream);
  // Two of the four are side by side with others.
  CHECK(std::chrono::steady_clock::now() - begin >= std::chrono::milliseconds(30));
  CHECK(is_set(3, 4));
  aiocann_sim_clear_faults();
}

void a_stall_ends_by_abort(aclmdlRI model, aclrtStream stream) {
  memset(g_host, 0, 64);
  inject("copy_stall", "memset", 2, 0);
  CHECK_OK(aclmdlRIExecuteAsync(model, stream));
  CHECK_CODE(aclrtSynchronizeStreamWithTimeout(stream, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  CHECK(is_set(3, 0));
  CHECK_OK(aclrtStreamAbort(stream));
  CHECK_CODE(aclrtSynchronizeStream(stream), ACL_ERROR_RT_STREAM_ABORT);
  CHECK(is_set(3, 0));
  CHECK_OK(aclmdlRIExecuteAsync(model, stream));
  sync(stream);
  CHECK(is_set(3, 4));

  inject("copy_stall", "memset", 4, ACL_ERROR_RT_TS_ERROR);  // it may refuse that
  memset(g_host, 0, 64);
  CHECK_OK(aclmdlRIExecuteAsync(model, stream));
  wait_until([] { return is_set(2, 3) && is_set(1, 2); });
  CHECK_CODE(aclrtSynchronizeStreamWithTimeout(stream, 10), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  CHECK_CODE(aclrtStreamAbort(stream), ACL_ERROR_RT_TS_ERROR);
  aiocann_sim_let_go();
  sync(stream);
  CHECK(is_set(3, 4));
  CHECK_OK(aclrtStreamAbort(stream));
}

void kernels_too() {
  aclrtStream stream = new_stream();
  auto *memory = static_cast<float *>(device_memory(128));
  CHECK_OK(aclrtMemset(memory, 128, 0, 128));
  CHECK_OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
  CHECK_OK(aclrtReduceAsync(memory, memory + 16, 16, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_FLOAT,
                            stream, nullptr));
  aclmdlRI model = nullptr;
  CHECK_OK(aclmdlRICaptureEnd(stream, &model));
  inject("kernel_stall", "*", 1, 0);
  CHECK_OK(aclmdlRIExecuteAsync(model, stream));
  CHECK_CODE(aclrtSynchronizeStreamWithTimeout(stream, 10), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  aiocann_sim_let_go();
  sync(stream);
  inject("kernel", "*", 1, 0);
  CHECK_OK(aclmdlRIExecuteAsync(model, stream));
  CHECK_CODE(aclrtSynchronizeStream(stream), ACL_ERROR_RT_AICORE_EXCEPTION);
  CHECK_OK(aclmdlRIDestroy(model));
  CHECK_OK(aclrtFree(memory));
  CHECK_OK(aclrtDestroyStream(stream));
}

void host_functions_are_dropped_and_late() {
  aclrtStream stream = new_stream();
  CHECK_OK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
  CHECK_OK(aclrtLaunchHostFunc(stream, count_call, nullptr));
  CHECK_OK(aclrtLaunchHostFunc(stream, count_call, nullptr));
  aclmdlRI model = nullptr;
  CHECK_OK(aclmdlRICaptureEnd(stream, &model));
  const uint64_t dropped = counter("dropped_callbacks");
  inject("callback_drop", "host_func", 2, 0);
  CHECK_OK(aclmdlRIExecuteAsync(model, stream));
  sync(stream);
  CHECK_EQ(g_calls.load(), 1);
  CHECK_EQ(counter("dropped_callbacks"), dropped + 1);
  inject("callback_drop", "host_func", 1, 1);  // waited for all the same
  CHECK_OK(aclmdlRIExecuteAsync(model, stream));
  CHECK_CODE(aclrtSynchronizeStreamWithTimeout(stream, 10), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  CHECK_OK(aclrtStreamAbort(stream));
  CHECK_CODE(aclrtSynchronizeStream(stream), ACL_ERROR_RT_STREAM_ABORT);
  CHECK_EQ(g_calls.load(), 1);
  inject("callback_delay", "host_func", 2, 0);
  CHECK_OK(aclmdlRIExecuteAsync(model, stream));
  CHECK_CODE(aclrtSynchronizeStreamWithTimeout(stream, 10), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  CHECK_EQ(g_calls.load(), 2);
  aiocann_sim_let_go();
  sync(stream);
  CHECK_EQ(g_calls.load(), 3);
  CHECK_OK(aclmdlRIDestroy(model));
  CHECK_OK(aclrtDestroyStream(stream));
}

}  // namespace

int main() {
  start(1);
  g_host = static_cast<char *>(pinned_memory(64));
  aclrtStream stream = new_stream(), other = new_stream();
  const aclmdlRI model = fork_and_join(stream, other);
  a_delay_holds_its_branch_alone(model, stream);
  a_stall_ends_by_abort(model, stream);
  kernels_too();
  host_functions_are_dropped_and_late();
  CHECK_EQ(counter("armed_faults"), 0);
  CHECK_OK(aclmdlRIDestroy(model));
  CHECK_OK(aclrtDestroyStream(stream));
  CHECK_OK(aclrtDestroyStream(other));
  CHECK_OK(aclrtFreeHost(g_host));
  return 0;
}
