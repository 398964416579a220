// Host callbacks: subscribed threads, host functions, what blocks a stream and what does not.
#include "sim_rt.hpp"
#include "sim_subscriber.hpp"

namespace {

std::atomic<int> g_calls{0};
std::atomic<uint64_t> g_caller{0};

void count_call(void *) {
  g_caller = static_cast<uint64_t>(pthread_self());
  g_calls.fetch_add(1);
}

void subscription_rules() {
  Subscriber processor(0), other(0);
  aclrtStream stream = new_stream(), second = new_stream();
  CHECK_CODE(aclrtLaunchCallback(count_call, nullptr, ACL_CALLBACK_NO_BLOCK, stream),
             ACL_ERROR_RT_STREAM_NO_CB_REG);
  CHECK_OK(aclrtSubscribeReport(processor.id(), stream));
  CHECK_CODE(aclrtSubscribeReport(processor.id(), stream), ACL_ERROR_RT_STREAM_SUBSCRIBE);
  CHECK_CODE(aclrtSubscribeReport(other.id(), stream), ACL_ERROR_RT_STREAM_SUBSCRIBE);
  CHECK_OK(aclrtSubscribeReport(processor.id(), second));  // one thread, many streams
  CHECK_OK(aclrtSetDevice(1));
  aclrtStream foreign = new_stream();
  CHECK_CODE(aclrtSubscribeReport(processor.id(), foreign),
             ACL_ERROR_RT_THREAD_SUBSCRIBE);  // of one device
  CHECK_CODE(aclrtUnSubscribeReport(processor.id(), foreign), ACL_ERROR_RT_STREAM_SUBSCRIBE);
  CHECK_OK(aclrtDestroyStream(foreign));
  CHECK_OK(aclrtResetDevice(1));
  CHECK_OK(aclrtSetDevice(0));
  CHECK_CODE(aclrtUnSubscribeReport(other.id(), stream), ACL_ERROR_RT_THREAD_SUBSCRIBE);
  CHECK_CODE(aclrtLaunchCallback(nullptr, nullptr, ACL_CALLBACK_NO_BLOCK, stream),
             ACL_ERROR_INVALID_PARAM);
  CHECK_CODE(
      aclrtLaunchCallback(count_call, nullptr, static_cast<aclrtCallbackBlockType>(2), stream),
      ACL_ERROR_INVALID_PARAM);
  CHECK_OK(aclrtSubscribeReport(other.id(), nullptr));  // the default stream
  CHECK_OK(aclrtUnSubscribeReport(other.id(), nullptr));
  for (aclrtStream s : {stream, second}) {
    CHECK_OK(aclrtUnSubscribeReport(processor.id(), s));
    CHECK_OK(aclrtDestroyStream(s));
  }
}

void process_report_rules() {
  on_thread([] {
    CHECK_CODE(aclrtProcessReport(0), ACL_ERROR_INVALID_PARAM);
    CHECK_CODE(aclrtProcessReport(-2), ACL_ERROR_INVALID_PARAM);
    CHECK_CODE(aclrtProcessReport(10), ACL_ERROR_RT_THREAD_SUBSCRIBE);
    CHECK_OK(aclrtSetDevice(0));
    aclrtStream stream = new_stream();
    const auto self = static_cast<uint64_t>(pthread_self());
    CHECK_OK(aclrtSubscribeReport(self, stream));
    CHECK_CODE(aclrtProcessReport(10), ACL_ERROR_RT_REPORT_TIMEOUT);
    g_calls = 0;
    for (int i = 0; i < 3; ++i)
      CHECK_OK(aclrtLaunchCallback(count_call, nullptr, ACL_CALLBACK_NO_BLOCK, stream));
    sync(stream);  // does not wait for the callbacks: they have not been processed
    CHECK_EQ(g_calls.load(), 0);
    CHECK_OK(aclrtProcessReport(kLongMs));
    CHECK_EQ(g_calls.load(), 3);  // one call takes all that are there
    CHECK_EQ(g_caller.load(), self);
    CHECK_OK(aclrtUnSubscribeReport(self, stream));
    CHECK_CODE(aclrtProcessReport(10), ACL_ERROR_RT_THREAD_SUBSCRIBE);
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_OK(aclrtResetDevice(0));
  });
}

/// A thread needs no context of its own to process callbacks, as long as its device is set by somebody.
void processing_goes_by_the_subscribed_device() {
  std::atomic<uint64_t> id{0};
  std::atomic<int> step{0};
  std::thread processor([&] {
    const auto reach = [&step](int n) {
      while (step.load() < n) std::this_thread::yield();
    };
    id = static_cast<uint64_t>(pthread_self());
    reach(1);
    CHECK_OK(aclrtProcessReport(kLongMs));
    step = 2;
    reach(3);
    CHECK_CODE(aclrtProcessReport(10), ACL_ERROR_RT_CONTEXT_NULL);
  });
  while (id.load() == 0) std::this_thread::yield();
  CHECK_OK(aclrtSetDevice(1));
  aclrtContext context = nullptr;
  CHECK_OK(aclrtCreateContext(&context, 1));
  aclrtStream stream = new_stream();
  CHECK_OK(aclrtSubscribeReport(id.load(), stream));
  g_calls = 0;
  CHECK_OK(aclrtLaunchCallback(count_call, nullptr, ACL_CALLBACK_BLOCK, stream));
  step = 1;
  sync(stream);
  CHECK_EQ(g_calls.load(), 1);
  while (step.load() < 2) std::this_thread::yield();
  CHECK_OK(aclrtResetDevice(1));  // the explicit context stays
  step = 3;
  processor.join();
  CHECK_OK(aclrtUnSubscribeReport(id.load(), stream));
  CHECK_OK(aclrtDestroyContext(context));
  CHECK_OK(aclrtSetDevice(0));
  CHECK_OK(aclrtResetDevice(0));
}

void a_blocking_callback_holds_its_stream() {
  Subscriber processor(0);
  aclrtStream stream = new_stream(), other = new_stream();
  char *pinned = static_cast<char *>(pinned_memory(64));
  CHECK_OK(aclrtSubscribeReport(processor.id(), stream));
  struct State {
    std::atomic<bool> entered{false}, go_on{false};
  } state;
  const auto wait_for_go = [](void *data) {
    auto *s = static_cast<State *>(data);
    s->entered = true;
    while (!s->go_on.load()) std::this_thread::yield();
  };
  pinned[0] = 0;
  CHECK_OK(aclrtLaunchCallback(wait_for_go, &state, ACL_CALLBACK_BLOCK, stream));
  CHECK_OK(aclrtMemsetAsync(pinned, 64, 1, 1, stream));
  wait_until([&] { return state.entered.load(); });
  CHECK_OK(aclrtMemsetAsync(pinned + 1, 63, 1, 1, other));
  sync(other);  // no other stream is held
  CHECK_EQ(query(stream), ACL_STREAM_STATUS_NOT_READY);
  CHECK_EQ(pinned[0], 0);
  state.go_on = true;
  sync(stream);
  CHECK_EQ(pinned[0], 1);

  // Without blocking the stream goes on while the callback runs.
  state.entered = state.go_on = false;
  CHECK_OK(aclrtLaunchCallback(wait_for_go, &state, ACL_CALLBACK_NO_BLOCK, stream));
  CHECK_OK(aclrtMemsetAsync(pinned, 64, 2, 1, stream));
  sync(stream);
  CHECK_EQ(pinned[0], 2);
  wait_until([&] { return state.entered.load(); });
  state.go_on = true;
  CHECK_OK(aclrtUnSubscribeReport(processor.id(), stream));
  for (aclrtStream s : {stream, other}) CHECK_OK(aclrtDestroyStream(s));
  CHECK_OK(aclrtFreeHost(pinned));
}

void callbacks_come_in_stream_order() {
  Subscriber processor(0);
  aclrtStream stream = new_stream();
  CHECK_OK(aclrtSubscribeReport(processor.id(), stream));
  static std::vector<uintptr_t> seen;  // touched by one thread at a time
  seen.clear();
  constexpr uintptr_t kCalls = 20000;
  for (uintptr_t i = 0; i < kCalls; ++i) {
    CHECK_OK(
        aclrtLaunchCallback([](void *data) { seen.push_back(reinterpret_cast<uintptr_t>(data)); },
                            reinterpret_cast<void *>(i),
                            i % 100 == 0 ? ACL_CALLBACK_BLOCK : ACL_CALLBACK_NO_BLOCK, stream));
  }
  g_calls = 0;
  CHECK_OK(aclrtLaunchCallback(count_call, nullptr, ACL_CALLBACK_BLOCK, stream));
  sync(stream);
  CHECK_EQ(g_calls.load(), 1);
  CHECK_EQ(seen.size(), kCalls);
  for (uintptr_t i = 0; i < kCalls; ++i) CHECK_EQ(seen[i], i);
  CHECK_OK(aclrtUnSubscribeReport(processor.id(), stream));
  CHECK_OK(aclrtDestroyStream(stream));
}

void host_functions_share_one_thread() {
  aclrtStream a = new_stream(), b = new_stream();
  static std::vector<pthread_t> threads;
  threads.clear();
  char *pinned = static_cast<char *>(pinned_memory(64));
  pinned[0] = 3;
  CHECK_CODE(aclrtLaunchHostFunc(a, nullptr, nullptr), ACL_ERROR_INVALID_PARAM);
  for (int i = 0; i < 100; ++i) {
    CHECK_OK(aclrtLaunchHostFunc(
        i % 2 == 0 ? a : b, [](void *) { threads.push_back(pthread_self()); }, nullptr));
  }
  // Always blocking: what comes after sees what the function did.
  CHECK_OK(aclrtLaunchHostFunc(a, [](void *data) { static_cast<char *>(data)[0] = 7; }, pinned));
  void *memory = device_memory(64);
  CHECK_OK(aclrtMemcpyAsync(memory, 1, pinned, 1, ACL_MEMCPY_HOST_TO_DEVICE, a));
  sync(a);
  sync(b);
  CHECK_EQ(threads.size(), 100);
  for (pthread_t thread : threads)
    CHECK(pthread_equal(thread, threads[0]) && !pthread_equal(thread, pthread_self()));
  char byte = 0;
  CHECK_OK(aclrtMemcpy(&byte, 1, memory, 1, ACL_MEMCPY_DEVICE_TO_HOST));
  CHECK_EQ(byte, 7);
  CHECK_CODE(aclrtSubscribeReport(static_cast<uint64_t>(pthread_self()), a),
             ACL_ERROR_RT_STREAM_SUBSCRIBE);
  for (aclrtStream s : {a, b}) CHECK_OK(aclrtDestroyStream(s));
  CHECK_OK(aclrtFree(memory));
  CHECK_OK(aclrtFreeHost(pinned));
}

/// Each context has its own: a slow function of one context holds no stream of another.
void contexts_have_a_host_function_thread_each() {
  static std::atomic<bool> entered{false}, go_on{false};
  static std::atomic<int> code{-1};
  static pthread_t threads[2];
  entered = go_on = false;
  aclrtStream slow = new_stream();
  CHECK_OK(aclrtLaunchHostFunc(
      slow,
      [](void *) {
        threads[0] = pthread_self();
        void *memory = nullptr;
        code = aclrtMalloc(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST);
        entered = true;
        while (!go_on.load()) std::this_thread::yield();
      },
      nullptr));
  wait_until([] { return entered.load(); });
  CHECK_CODE(code.load(), ACL_ERROR_RT_CONTEXT_NULL);  // no place for ACL calls: it has no context
  aclrtStream same = new_stream();
  CHECK_OK(aclrtLaunchHostFunc(same, [](void *) {}, nullptr));
  CHECK_CODE(aclrtSynchronizeStreamWithTimeout(same, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  aclrtContext primary = nullptr, context = nullptr;
  CHECK_OK(aclrtGetCurrentContext(&primary));
  CHECK_OK(aclrtCreateContext(&context, 0));
  CHECK_OK(aclrtLaunchHostFunc(nullptr, [](void *) { threads[1] = pthread_self(); }, nullptr));
  sync(nullptr);
  CHECK(!pthread_equal(threads[0], threads[1]));
  CHECK_OK(aclrtDestroyContext(context));
  CHECK_OK(aclrtSetCurrentContext(primary));
  go_on = true;
  for (aclrtStream stream : {slow, same}) {
    sync(stream);
    CHECK_OK(aclrtDestroyStream(stream));
  }
}

void threads_that_subscribe_are_limited() {
  constexpr uint64_t kThreads = 1024;
  std::vector<aclrtStream> streams;
  for (uint64_t id = 1; id <= kThreads; ++id) {
    streams.push_back(new_stream());
    CHECK_OK(aclrtSubscribeReport(id, streams.back()));
  }
  aclrtStream more = new_stream();
  CHECK_CODE(aclrtSubscribeReport(kThreads + 1, more), ACL_ERROR_RT_THREAD_SUBSCRIBE);
  CHECK_OK(aclrtSubscribeReport(1, more));
  CHECK_OK(aclrtUnSubscribeReport(1, more));
  CHECK_OK(aclrtDestroyStream(more));
  for (uint64_t id = 1; id <= kThreads; ++id) {
    CHECK_OK(aclrtUnSubscribeReport(id, streams[id - 1]));
    CHECK_OK(aclrtDestroyStream(streams[id - 1]));
  }
}

void abort_takes_back_a_blocking_callback() {
  on_thread([] {
    CHECK_OK(aclrtSetDevice(0));
    aclrtStream stream = new_stream();
    const auto self = static_cast<uint64_t>(pthread_self());
    CHECK_OK(aclrtSubscribeReport(self, stream));
    g_calls = 0;
    CHECK_OK(aclrtLaunchCallback(count_call, nullptr, ACL_CALLBACK_BLOCK, stream));
    CHECK_CODE(aclrtSynchronizeStreamWithTimeout(stream, 20),
               ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);  // nobody processes
    CHECK_OK(aclrtStreamAbort(stream));
    CHECK_CODE(aclrtSynchronizeStream(stream), ACL_ERROR_RT_STREAM_ABORT);
    CHECK_CODE(aclrtProcessReport(10), ACL_ERROR_RT_REPORT_TIMEOUT);
    CHECK_EQ(g_calls.load(), 0);
    CHECK_OK(aclrtUnSubscribeReport(self, stream));
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_OK(aclrtResetDevice(0));
  });
}

void unsubscribing_too_early_is_misuse() {
  on_thread([] {
    CHECK_OK(aclrtSetDevice(0));
    aclrtStream stream = new_stream();
    const auto self = static_cast<uint64_t>(pthread_self());
    CHECK_OK(aclrtSubscribeReport(self, stream));
    CHECK_OK(aclrtLaunchCallback(count_call, nullptr, ACL_CALLBACK_BLOCK, stream));
    CHECK_CODE(aclrtSynchronizeStreamWithTimeout(stream, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    const uint64_t misuses = counter("misuse");
    CHECK_OK(aclrtUnSubscribeReport(self, stream));
    CHECK_EQ(counter("misuse"), misuses + 1);
    sync(stream);
    CHECK_OK(aclrtDestroyStream(stream));
    CHECK_OK(aclrtResetDevice(0));
  });
}

}  // namespace

int main() {
  start(2);
  subscription_rules();
  process_report_rules();
  processing_goes_by_the_subscribed_device();
  a_blocking_callback_holds_its_stream();
  callbacks_come_in_stream_order();
  host_functions_share_one_thread();
  contexts_have_a_host_function_thread_each();
  threads_that_subscribe_are_limited();
  abort_takes_back_a_blocking_callback();
  unsubscribing_too_early_is_misuse();
  CHECK_OK(aclrtResetDevice(0));
  return 0;
}
