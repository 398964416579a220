// Host functions on a thread of the program's: aclrtSubscribeHostFunc and its companions.
#include "sim_rt.hpp"
#include "sim_subscriber.hpp"

namespace {

std::atomic<int> g_calls{0};
std::atomic<uint64_t> g_caller{0};

void note_call(void *) {
  g_caller = static_cast<uint64_t>(pthread_self());
  g_calls.fetch_add(1);
}

uint64_t self() { return static_cast<uint64_t>(pthread_self()); }

void subscription_rules() {
  aclrtStream stream = new_stream(), second = new_stream();
  CHECK_CODE(aclrtProcessHostFunc(0), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclrtProcessHostFunc(-2), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclrtProcessHostFunc(10), ACL_ERROR_RT_THREAD_SUBSCRIBE);
  CHECK_CODE(aclrtSubscribeHostFunc(self(), nullptr), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclrtUnSubscribeHostFunc(self(), nullptr), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclrtUnSubscribeHostFunc(self(), stream), ACL_ERROR_RT_STREAM_SUBSCRIBE);
  CHECK_OK(aclrtSubscribeHostFunc(self(), stream));
  CHECK_CODE(aclrtSubscribeHostFunc(self(), stream), ACL_ERROR_RT_STREAM_SUBSCRIBE);
  CHECK_OK(aclrtSubscribeHostFunc(self(), second));  // one thread, many streams
  CHECK_OK(aclrtSetDevice(1));
  aclrtStream foreign = new_stream();
  CHECK_CODE(aclrtSubscribeHostFunc(self(), foreign), ACL_ERROR_RT_THREAD_SUBSCRIBE);
  CHECK_OK(aclrtDestroyStream(foreign));
  CHECK_OK(aclrtResetDevice(1));
  CHECK_OK(aclrtSetDevice(0));
  CHECK_CODE(aclrtUnSubscribeHostFunc(self() + 1, stream), ACL_ERROR_RT_THREAD_SUBSCRIBE);
  CHECK_CODE(aclrtProcessHostFunc(10), ACL_ERROR_RT_REPORT_TIMEOUT);
  for (aclrtStream s : {stream, second}) {
    CHECK_OK(aclrtUnSubscribeHostFunc(self(), s));
    CHECK_OK(aclrtDestroyStream(s));
  }
}

/// Both families on one stream: each has its thread, and both hold the stream until they return.
void both_families_on_one_stream() {
  Subscriber reports(0);
  aclrtStream stream = new_stream();
  char *pinned = static_cast<char *>(pinned_memory(64));
  pinned[0] = 0;
  CHECK_OK(aclrtSubscribeReport(reports.id(), stream));
  CHECK_OK(aclrtSubscribeHostFunc(self(), stream));
  g_calls = 0;
  CHECK_OK(aclrtLaunchCallback(note_call, nullptr, ACL_CALLBACK_BLOCK, stream));
  CHECK_OK(aclrtLaunchHostFunc(stream, note_call, nullptr));
  CHECK_OK(aclrtMemsetAsync(pinned, 64, 1, 1, stream));
  wait_until([] { return g_calls.load() == 1; });
  CHECK_EQ(g_caller.load(), reports.id());
  CHECK_CODE(aclrtSynchronizeStreamWithTimeout(stream, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  CHECK_EQ(pinned[0], 0);
  CHECK_OK(aclrtProcessHostFunc(kLongMs));
  CHECK_EQ(g_calls.load(), 2);
  CHECK_EQ(g_caller.load(), self());
  sync(stream);
  CHECK_EQ(pinned[0], 1);

  // Aborting takes a function back that has not begun.
  CHECK_OK(aclrtLaunchHostFunc(stream, note_call, nullptr));
  CHECK_CODE(aclrtSynchronizeStreamWithTimeout(stream, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  CHECK_OK(aclrtStreamAbort(stream));
  CHECK_CODE(aclrtSynchronizeStream(stream), ACL_ERROR_RT_STREAM_ABORT);
  CHECK_CODE(aclrtProcessHostFunc(10), ACL_ERROR_RT_REPORT_TIMEOUT);
  CHECK_EQ(g_calls.load(), 2);

  // Without a subscribed thread the context's own runs them.
  CHECK_OK(aclrtUnSubscribeReport(reports.id(), stream));
  CHECK_OK(aclrtUnSubscribeHostFunc(self(), stream));
  CHECK_OK(aclrtLaunchHostFunc(stream, note_call, nullptr));
  sync(stream);
  CHECK_EQ(g_calls.load(), 3);
  CHECK(g_caller.load() != self());
  CHECK_OK(aclrtDestroyStream(stream));
  CHECK_OK(aclrtFreeHost(pinned));
}

}  // namespace

int main() {
  start(2);
  subscription_rules();
  both_families_on_one_stream();
  return 0;
}
