// Devices that are lost, what a reset gives back, and the way out when something never closes its device.
#include "sim_rt.hpp"

namespace {

constexpr aclError kLost = ACL_ERROR_RT_LOST_HEARTBEAT;

std::atomic<int> g_exceptions{0};
std::atomic<uint32_t> g_code{0};
void on_exception(aclrtExceptionInfo *info) {
  g_code = aclrtGetErrorCodeFromExceptionInfo(info);
  g_exceptions.fetch_add(1);
}

/// What a program has on a device, some of it in flight.
struct Work {
  aclrtStream stream = nullptr, blocked = nullptr;
  aclrtEvent event = nullptr, never = nullptr;
  void *memory = nullptr;

  explicit Work(int device) {
    CHECK_OK(aclrtSetDevice(device));
    stream = new_stream();
    blocked = new_stream();
    event = new_event();
    CHECK_OK(aclrtCreateEventWithFlag(&never, ACL_EVENT_SYNC));
    memory = device_memory(kKiB);
    CHECK_OK(aiocann_sim_hold(device, -1));
    CHECK_OK(aclrtStreamWaitEvent(blocked, never));
    CHECK_OK(aclrtMemsetAsync(memory, kKiB, 1, kKiB, stream));
    CHECK_OK(aclrtMemsetAsync(memory, kKiB, 2, kKiB, stream));
    CHECK_OK(aclrtRecordEvent(event, stream));
    CHECK_OK(aiocann_sim_release(device, -1));
  }

  /// All handles are of a device that was reset since.
  void check_stale() {
    aclrtStreamStatus status;
    for (aclrtStream s : {stream, blocked}) {
      CHECK_CODE(aclrtStreamQuery(s, &status), ACL_ERROR_RT_STREAM_CONTEXT);
      CHECK_CODE(aclrtSynchronizeStream(s), ACL_ERROR_RT_STREAM_CONTEXT);
    }
    CHECK_CODE(aclrtSynchronizeEvent(event), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_CODE(aclrtFree(memory), ACL_ERROR_RT_PARAM_INVALID);
    CHECK_CODE(aclrtMemset(memory, kKiB, 0, kKiB), ACL_ERROR_RT_PARAM_INVALID);
  }
};

void use(int device) {
  Work work(device);
  CHECK_OK(aclrtSynchronizeEvent(work.event));
  sync(work.stream);
  CHECK_OK(aclrtDestroyStreamForce(work.blocked));
  CHECK_OK(aclrtDestroyStream(work.stream));
  CHECK_OK(aclrtDestroyEvent(work.event));
  CHECK_OK(aclrtDestroyEvent(work.never));
  CHECK_OK(aclrtFree(work.memory));
  CHECK_OK(aclrtResetDevice(device));
}

void everything_answers_the_code_until_the_reset() {
  CHECK_OK(aclrtSetExceptionInfoCallback(on_exception));
  CHECK_OK(aiocann_sim_inject("copy_stall", "memset", 1, ACL_ERROR_RT_TS_ERROR));
  Work work(1);
  g_exceptions = 0;
  CHECK_CODE(aclrtSynchronizeStreamWithTimeout(work.stream, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  // Threads that wait already are told too.
  std::atomic<int> told{0};
  std::thread waiter([&] {
    CHECK_OK(aclrtSetDevice(1));
    told = 1;
    CHECK_CODE(aclrtSynchronizeEvent(work.event), kLost);
    told = 2;
  });
  while (told.load() == 0) std::this_thread::yield();
  CHECK_OK(aiocann_sim_lose(1, 0, 0));
  waiter.join();
  CHECK_EQ(told.load(), 2);
  CHECK_CODE(aclrtSynchronizeStream(work.stream), kLost);
  CHECK_CODE(aclrtSynchronizeStream(work.stream), kLost);
  CHECK_CODE(aclrtSynchronizeStream(work.blocked), kLost);
  CHECK_CODE(aclrtSynchronizeDevice(), kLost);
  CHECK_CODE(aclrtMemsetAsync(work.memory, kKiB, 1, kKiB, work.stream), kLost);
  CHECK_CODE(aclrtMemset(work.memory, kKiB, 1, kKiB), kLost);
  CHECK_CODE(aclrtRecordEvent(work.event, work.stream), kLost);
  CHECK_CODE(aclrtStreamAbort(work.stream), kLost);
  void *more = nullptr;
  CHECK_CODE(aclrtMalloc(&more, 64, ACL_MEM_MALLOC_HUGE_FIRST), kLost);
  CHECK_CODE(aclrtFree(work.memory), kLost);
  aclrtEventRecordedStatus status;
  CHECK_CODE(aclrtQueryEventStatus(work.event, &status), kLost);
  CHECK_CODE(aclrtSetDevice(1), kLost);
  aclrtContext context = nullptr;
  CHECK_CODE(aclrtCreateContext(&context, 1), kLost);
  CHECK_CONTAINS(recent(), "device 1 is lost");
  // One exception for each stream that had work.
  for (int i = 0; g_exceptions.load() < 2; ++i) {
    CHECK(i < 100000000);
    std::this_thread::yield();
  }
  CHECK_EQ(g_code.load(), kLost);
  // Others are not concerned, unless they touch its memory.
  use(0);

  CHECK_OK(aclrtResetDeviceForce(1));
  CHECK_OK(aclrtSetDevice(1));
  work.check_stale();
  CHECK_OK(aclrtResetDevice(1));
  use(1);
  CHECK_EQ(g_exceptions.load(), 2);
  CHECK_OK(aclrtSetExceptionInfoCallback(nullptr));
}

void an_ordinary_reset_brings_it_back_too() {
  Work work(1);
  CHECK_OK(aclrtSetDevice(1));  // twice
  CHECK_OK(aiocann_sim_lose(1, ACL_ERROR_RT_DEV_SETUP_ERROR, 0));
  CHECK_OK(aclrtResetDevice(1));
  CHECK_CODE(aclrtSetDevice(1), ACL_ERROR_RT_DEV_SETUP_ERROR);
  CHECK_OK(aclrtResetDevice(1));
  use(1);
}

void a_peer_sees_it() {
  CHECK_OK(aclrtSetDevice(1));
  void *theirs = device_memory(64);
  CHECK_OK(aclrtSetDevice(0));
  void *ours = device_memory(64);
  CHECK_OK(aclrtDeviceEnablePeerAccess(1, 0));
  aclrtStream stream = new_stream();
  CHECK_OK(aiocann_sim_hold(0, -1));
  CHECK_OK(aclrtMemcpyAsync(ours, 64, theirs, 64, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
  CHECK_OK(aiocann_sim_lose(1, 0, 0));
  CHECK_CODE(aclrtMemcpyAsync(ours, 64, theirs, 64, ACL_MEMCPY_DEVICE_TO_DEVICE, stream), kLost);
  CHECK_OK(aiocann_sim_release(0, -1));
  CHECK_CODE(aclrtSynchronizeStream(stream), ACL_ERROR_RT_DEVICE_MEM_ERROR);
  CHECK_OK(aclrtResetDeviceForce(1));
  CHECK_OK(aclrtResetDeviceForce(0));
}

void lost_for_ever() {
  Work work(1);
  aclrtContext context = nullptr;
  CHECK_OK(aclrtCreateContext(&context, 1));
  CHECK_OK(aiocann_sim_lose(1, ACL_ERROR_RT_DRV_INTERNAL_ERROR, 1));
  CHECK_CODE(aclrtResetDeviceForce(1), ACL_ERROR_RT_DRV_INTERNAL_ERROR);
  CHECK_CODE(aclrtSetDevice(1), ACL_ERROR_RT_DRV_INTERNAL_ERROR);
  CHECK_CODE(aclrtResetDeviceForce(1), ACL_ERROR_RT_DRV_INTERNAL_ERROR);
  CHECK_EQ(counter("live_contexts"), 0);  // closed all the same
  CHECK_OK(aiocann_sim_restore(1));
  use(1);
  CHECK_CODE(aiocann_sim_lose(9, 0, 0), ACL_ERROR_RT_INVALID_DEVICEID);
  CHECK_CODE(aiocann_sim_restore(9), ACL_ERROR_RT_INVALID_DEVICEID);
}

void a_forced_reset_makes_handles_stale() {
  Work work(1);
  CHECK_OK(aclrtResetDeviceForce(1));
  CHECK_CODE(aclrtSynchronizeStream(work.stream), ACL_ERROR_RT_CONTEXT_NULL);
  CHECK_CODE(aclrtResetDeviceForce(1), ACL_ERROR_RT_CONTEXT_RELEASE_ERROR);
  CHECK_OK(aclrtSetDevice(1));
  work.check_stale();
  CHECK_OK(aclrtResetDevice(1));
}

void a_reset_of_the_machine_lets_it_change() {
  Work work(1);
  aclrtContext context = nullptr;
  CHECK_OK(aclrtCreateContext(&context, 0));
  CHECK_OK(aiocann_sim_hold(1, -1));
  CHECK_OK(aiocann_sim_inject("call", "aclrtSetDevice", 0, 507000));
  CHECK_OK(aiocann_sim_lose(0, 0, 1));
  CHECK_CODE(aiocann_sim_configure("devices", "3"), ACL_ERROR_RT_CONTEXT_RELEASE_ERROR);
  CHECK_CONTAINS(std::string(aiocann_sim_last_error()), "aiocann_sim_reset");
  aiocann_sim_reset();
  for (const char *name : {"live_contexts", "live_streams", "live_events", "live_allocations"})
    CHECK_EQ(counter(name), 0);
  configure("devices", "3");
  configure("peers", "0-2");
  uint32_t count = 0;
  CHECK_OK(aclrtGetDeviceCount(&count));
  CHECK_EQ(count, 3);
  int32_t can = -1;
  CHECK_OK(aclrtDeviceCanAccessPeer(&can, 0, 2));
  CHECK_EQ(can, 1);
  CHECK_OK(aclrtDeviceCanAccessPeer(&can, 2, 0));
  CHECK_EQ(can, 0);
  use(2);
  CHECK_OK(aclrtSetDevice(1));
  work.check_stale();
  CHECK_OK(aclrtResetDevice(1));
}

}  // namespace

int main() {
  configure("devices", "2");
  configure("memory", "64M");
  CHECK_OK(aclInit(nullptr));
  everything_answers_the_code_until_the_reset();
  an_ordinary_reset_brings_it_back_too();
  a_peer_sees_it();
  lost_for_ever();
  a_forced_reset_makes_handles_stale();
  a_reset_of_the_machine_lets_it_change();
  return 0;
}
