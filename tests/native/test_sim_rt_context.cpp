// Devices, contexts, and what a thread's current context is.
#include "sim_rt.hpp"

namespace {

void a_thread_has_no_device_of_its_own() {
  on_thread([] {
    int32_t device = -1;
    CHECK_CODE(aclrtGetDevice(&device), ACL_ERROR_RT_CONTEXT_NULL);
    aclrtContext context = nullptr;
    CHECK_CODE(aclrtGetCurrentContext(&context), ACL_ERROR_RT_CONTEXT_NULL);
    void *pointer = nullptr;
    CHECK_CODE(aclrtMalloc(&pointer, 64, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_CODE(aclrtMallocHost(&pointer, 64), ACL_ERROR_RT_CONTEXT_NULL);
    aclrtStream stream = nullptr;
    CHECK_CODE(aclrtCreateStream(&stream), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_CODE(aclrtSynchronizeStream(nullptr), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_CODE(aclrtSynchronizeDevice(), ACL_ERROR_RT_CONTEXT_NULL);
    CHECK_CONTAINS(recent(), "aclrtSetDevice");
  });
}

void devices_are_counted_and_checked() {
  uint32_t count = 0;
  CHECK_OK(aclrtGetDeviceCount(&count));
  CHECK_EQ(count, 2);
  CHECK_CODE(aclrtGetDeviceCount(nullptr), ACL_ERROR_INVALID_PARAM);
  for (const int32_t bad : {-1, 2, 1 << 30}) {
    CHECK_CODE(aclrtSetDevice(bad), ACL_ERROR_RT_INVALID_DEVICEID);
    CHECK_CODE(aclrtResetDevice(bad), ACL_ERROR_RT_INVALID_DEVICEID);
    aclrtContext context = nullptr;
    CHECK_CODE(aclrtCreateContext(&context, bad), ACL_ERROR_RT_INVALID_DEVICEID);
  }
}

void the_primary_context_is_shared_and_counted() {
  CHECK_OK(aclrtSetDevice(1));
  int32_t device = -1;
  CHECK_OK(aclrtGetDevice(&device));
  CHECK_EQ(device, 1);
  aclrtContext mine = nullptr;
  CHECK_OK(aclrtGetCurrentContext(&mine));
  on_thread([mine] {
    CHECK_OK(aclrtSetDevice(1));
    aclrtContext theirs = nullptr;
    CHECK_OK(aclrtGetCurrentContext(&theirs));
    CHECK_EQ(theirs, mine);
    CHECK_OK(aclrtResetDevice(1));
    CHECK_OK(aclrtGetCurrentContext(
        &theirs));  // one reference is left: still there, for this thread too
  });
  CHECK_CODE(aclrtDestroyContext(mine),
             ACL_ERROR_RT_CONTEXT_NULL);  // a primary context cannot be destroyed
  int32_t active = -1;
  CHECK_OK(aclrtGetPrimaryCtxState(1, nullptr, &active));
  CHECK_EQ(active, 1);
  CHECK_OK(aclrtResetDevice(1));
  CHECK_OK(aclrtGetPrimaryCtxState(1, nullptr, &active));
  CHECK_EQ(active, 0);
  CHECK_CODE(aclrtGetDevice(&device), ACL_ERROR_RT_CONTEXT_NULL);
  CHECK_CODE(aclrtResetDevice(1), ACL_ERROR_RT_CONTEXT_RELEASE_ERROR);
}

/// The thread whose reset ends the primary context refers to nothing afterwards; others go on referring to the device.
void references_outlive_a_reset_by_others() {
  std::atomic<int> step{0};
  const auto reach = [&step](int n) {
    while (step.load() < n) std::this_thread::yield();
  };
  CHECK_OK(aclrtSetDevice(1));
  std::thread other([&] {
    int32_t device = -1;
    CHECK_OK(aclrtSetDevice(1));
    CHECK_OK(aclrtResetDevice(1));
    step = 1;
    reach(2);
    CHECK_CODE(aclrtGetDevice(&device), ACL_ERROR_RT_CONTEXT_NULL);
    step = 3;
    reach(4);
    CHECK_OK(aclrtGetDevice(&device));
    CHECK_EQ(device, 1);
  });
  reach(1);
  CHECK_OK(aclrtResetDevice(1));
  step = 2;
  reach(3);
  int32_t device = -1;
  on_thread([] { CHECK_OK(aclrtSetDevice(1)); });
  CHECK_CODE(aclrtGetDevice(&device), ACL_ERROR_RT_CONTEXT_NULL);
  step = 4;
  other.join();
  CHECK_OK(aclrtResetDevice(1));
}

void a_forced_reset_ends_every_reference() {
  CHECK_OK(aclrtSetDevice(1));
  CHECK_OK(aclrtSetDevice(1));
  CHECK_OK(aclrtResetDevice(1));
  CHECK_OK(aclrtResetDeviceForce(1));  // reset, then force: fine while a reference is left
  CHECK_CODE(aclrtResetDevice(1), ACL_ERROR_RT_CONTEXT_RELEASE_ERROR);
  CHECK_CODE(aclrtResetDeviceForce(1), ACL_ERROR_RT_CONTEXT_RELEASE_ERROR);
}

void a_forced_reset_drops_work_that_cannot_finish() {
  CHECK_OK(aclrtSetDevice(1));
  aclrtStream stream = new_stream();
  void *memory = device_memory(kMiB);
  aclrtEvent flag = nullptr;
  CHECK_OK(aclrtCreateEventWithFlag(&flag, ACL_EVENT_SYNC));
  CHECK_OK(aclrtStreamWaitEvent(stream, flag));  // never recorded: blocks for good
  CHECK_OK(aclrtMemsetAsync(memory, kMiB, 1, kMiB, stream));
  CHECK_OK(aclrtResetDeviceForce(1));
  CHECK_CODE(aclrtDestroyEvent(flag), ACL_ERROR_RT_PARAM_INVALID);  // went with the device
  CHECK_CODE(aclrtFree(memory), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_OK(aclrtSetDevice(0));
}

void explicit_contexts() {
  CHECK_OK(aclrtSetDevice(0));
  aclrtContext primary = nullptr, context = nullptr, current = nullptr;
  CHECK_OK(aclrtGetCurrentContext(&primary));
  aclrtStream of_primary = new_stream();

  CHECK_OK(aclrtCreateContext(&context, 0));  // also makes it current
  CHECK_OK(aclrtGetCurrentContext(&current));
  CHECK_EQ(current, context);
  CHECK_CODE(aclrtSynchronizeStream(of_primary),
             ACL_ERROR_RT_STREAM_CONTEXT);  // same device, other context
  CHECK_CODE(aclrtDestroyStream(of_primary), ACL_ERROR_RT_STREAM_CONTEXT);
  aclrtStream of_context = new_stream();
  aclrtStream default_stream = nullptr;
  CHECK_OK(aclrtCtxGetCurrentDefaultStream(&default_stream));
  CHECK_OK(aclrtSynchronizeStream(nullptr));
  CHECK_CODE(aclrtDestroyStream(default_stream), ACL_ERROR_RT_PARAM_INVALID);

  CHECK_OK(aclrtSetDevice(0));  // replaces the explicit context by the primary one
  CHECK_OK(aclrtGetCurrentContext(&current));
  CHECK_EQ(current, primary);
  CHECK_CODE(aclrtStreamWaitEvent(of_context, new_event()), ACL_ERROR_RT_STREAM_CONTEXT);
  CHECK_OK(aclrtResetDevice(0));

  CHECK_CODE(aclrtSetCurrentContext(nullptr), ACL_ERROR_INVALID_PARAM);
  CHECK_OK(aclrtSetCurrentContext(context));
  on_thread([context, of_context] {
    CHECK_OK(aclrtSetCurrentContext(context));
    CHECK_OK(aclrtSynchronizeStream(of_context));
  });
  CHECK_OK(aclrtDestroyContext(context));
  CHECK_CODE(aclrtGetCurrentContext(&current),
             ACL_ERROR_RT_CONTEXT_NULL);  // nothing is left behind it
  CHECK_CODE(aclrtSetCurrentContext(context), ACL_ERROR_RT_CONTEXT_NULL);
  CHECK_CODE(aclrtDestroyContext(context), ACL_ERROR_RT_CONTEXT_NULL);
  on_thread([context] { CHECK_CODE(aclrtSetCurrentContext(context), ACL_ERROR_RT_CONTEXT_NULL); });
  CHECK_OK(aclrtSetDevice(0));
  CHECK_OK(aclrtDestroyStream(of_primary));
  CHECK_OK(aclrtResetDevice(0));
}

void synchronize_device_covers_the_current_context() {
  CHECK_OK(aclrtSetDevice(0));
  aclrtStream stream = new_stream();
  void *memory = device_memory(kMiB);
  CHECK_OK(aiocann_sim_hold(0, -1));
  CHECK_OK(aclrtMemsetAsync(memory, kMiB, 1, kMiB, stream));
  CHECK_CODE(aclrtSynchronizeDeviceWithTimeout(20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  CHECK_CODE(aclrtSynchronizeDeviceWithTimeout(0), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_CODE(aclrtSynchronizeDeviceWithTimeout(-2), ACL_ERROR_RT_PARAM_INVALID);
  aclrtContext other = nullptr;
  CHECK_OK(aclrtCreateContext(&other, 0));
  CHECK_OK(aclrtSynchronizeDevice());  // the other context has no work
  CHECK_OK(aclrtDestroyContext(other));
  CHECK_OK(aclrtSetDevice(0));
  CHECK_OK(aiocann_sim_release(0, -1));
  CHECK_OK(aclrtSynchronizeDeviceWithTimeout(kLongMs));
  CHECK_EQ(query(stream), ACL_STREAM_STATUS_COMPLETE);
  CHECK_OK(aclrtFree(memory));
  CHECK_OK(aclrtDestroyStream(stream));
  CHECK_OK(aclrtResetDevice(0));
}

void a_reset_waits_for_work_and_takes_everything_with_it() {
  while (aclrtResetDevice(0) == ACL_SUCCESS) {
  }
  CHECK_OK(aclrtSetDevice(0));
  aclrtStream stream = new_stream();
  void *memory = device_memory(kMiB), *host = pinned_memory(kMiB);
  memset(host, 3, kMiB);
  (void)new_event();
  CHECK_OK(aclrtMemsetAsync(memory, kMiB, 9, kMiB, stream));
  CHECK_OK(aclrtMemcpyAsync(host, kMiB, memory, kMiB, ACL_MEMCPY_DEVICE_TO_HOST, stream));
  CHECK_OK(aclrtResetDevice(0));
  CHECK_EQ(static_cast<char *>(host)[kMiB - 1], 9);  // pinned memory belongs to the process
  CHECK_EQ(counter("live_streams"), 0);
  CHECK_EQ(counter("live_events"), 0);
  CHECK_EQ(counter("live_allocations"), 0);
  CHECK_EQ(counter("live_contexts"), 0);
  CHECK_OK(aclrtFreeHost(host));
  CHECK_EQ(counter("live_pinned"), 0);
}

void a_context_brings_its_device() {
  CHECK_OK(aclrtSetDevice(0));
  aclrtContext primary = nullptr, other = nullptr;
  CHECK_OK(aclrtGetCurrentContext(&primary));
  CHECK_OK(aclrtCreateContext(&other, 1));
  int32_t device = -1;
  CHECK_OK(aclrtGetDevice(&device));
  CHECK_EQ(device, 1);
  CHECK_OK(aclrtSetCurrentContext(primary));
  CHECK_OK(aclrtGetDevice(&device));
  CHECK_EQ(device, 0);
  CHECK_OK(aclrtSetCurrentContext(other));
  CHECK_OK(aclrtGetDevice(&device));
  CHECK_EQ(device, 1);
  // Destroyed on another thread, it is still what this thread has: nothing.
  on_thread([other] { CHECK_OK(aclrtDestroyContext(other)); });
  CHECK_CODE(aclrtGetDevice(&device), ACL_ERROR_RT_CONTEXT_NULL);
  CHECK_OK(aclrtSetDevice(0));
  CHECK_OK(aclrtResetDevice(0));
  CHECK_OK(aclrtResetDevice(0));
}

}  // namespace

int main() {
  start(2);
  a_thread_has_no_device_of_its_own();
  devices_are_counted_and_checked();
  the_primary_context_is_shared_and_counted();
  references_outlive_a_reset_by_others();
  a_forced_reset_ends_every_reference();
  a_forced_reset_drops_work_that_cannot_finish();
  explicit_contexts();
  a_context_brings_its_device();
  synchronize_device_covers_the_current_context();
  a_reset_waits_for_work_and_takes_everything_with_it();
  CHECK_OK(aclFinalize());
  return 0;
}
