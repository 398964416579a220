// Many streams, many events, many tasks, many threads: order holds, and threads stay few.
#include "sim_scale.hpp"

namespace {

/// Whether the process gets back to so many threads. A thread that has been joined may be listed for a
/// moment longer: join returns before the kernel takes it off the list.
bool threads_settle_at(int expected) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(kLongMs);
  while (threads_of_process() != expected) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

void a_million_tasks_in_order() {
  const int n = 1000000 / kScale;
  aclrtStream stream = new_stream();
  uint32_t task = 0;
  {
    TaskChain chain(stream);
    for (int i = 0; i < n; ++i) chain.step();
    CHECK_OK(aclrtGetThreadLastTaskId(&task));
    CHECK_EQ(task, static_cast<uint32_t>(2 * n - 1));
    chain.check();
  }
  CHECK_OK(aclrtDestroyStream(stream));
}

/// 50,000 events alive, each recorded on one stream and waited for on the next: a relay over all streams.
void a_relay_of_fifty_thousand_events() {
  const size_t n = 50000 / kScale;
  std::vector<aclrtStream> streams;
  for (int i = 0; i < 100; ++i) streams.push_back(new_stream());
  std::vector<aclrtEvent> events;
  char *memory = static_cast<char *>(device_memory(64));
  CHECK_OK(aclrtMemset(memory, 64, 0, 64));
  for (size_t i = 0; i < n; ++i) {
    aclrtStream stream = streams[i % streams.size()], next = streams[(i + 1) % streams.size()];
    CHECK_OK(aclrtMemsetAsync(memory, 1, static_cast<int32_t>(i % 251), 1, stream));
    events.push_back(new_event());
    CHECK_OK(aclrtRecordEvent(events.back(), stream));
    CHECK_OK(aclrtStreamWaitEvent(next, events.back()));
  }
  CHECK_OK(aclrtSynchronizeDeviceWithTimeout(kLongMs));
  unsigned char byte = 0;
  CHECK_OK(aclrtMemcpy(&byte, 1, memory, 1, ACL_MEMCPY_DEVICE_TO_HOST));
  CHECK_EQ(byte, (n - 1) % 251);
  for (aclrtEvent event : events) CHECK_OK(aclrtDestroyEvent(event));
  for (aclrtStream stream : streams) CHECK_OK(aclrtDestroyStream(stream));
  CHECK_OK(aclrtFree(memory));
}

/// Threads that create, use, wait for and destroy streams and events, over two devices, all at once.
void everything_from_many_threads() {
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([t] {
      CHECK_OK(aclrtSetDevice(t % 2));
      char *memory = static_cast<char *>(device_memory(64 * kKiB));
      char *pinned = static_cast<char *>(pinned_memory(64 * kKiB));
      for (int round = 0; round < 400 / kScale + 5; ++round) {
        aclrtStream a = new_stream(), b = nullptr;
        CHECK_OK(aclrtCreateStreamWithConfig(&b, static_cast<uint32_t>(round % 8), 0));
        aclrtEvent event = new_event();
        memset(pinned, round, 64 * kKiB);
        CHECK_OK(
            aclrtMemcpyAsync(memory, 64 * kKiB, pinned, 64 * kKiB, ACL_MEMCPY_HOST_TO_DEVICE, a));
        CHECK_OK(aclrtRecordEvent(event, a));
        CHECK_OK(aclrtStreamWaitEvent(b, event));
        CHECK_OK(
            aclrtMemcpyAsync(pinned, 64 * kKiB, memory, 64 * kKiB, ACL_MEMCPY_DEVICE_TO_HOST, b));
        CHECK_OK(aclrtMemsetAsync(memory, 64 * kKiB, 0x55, 64 * kKiB, b));
        if (round % 3 == 0) CHECK_OK(aclrtDestroyEvent(event));
        if (round % 2 == 0) sync(b);
        CHECK_OK(aclrtDestroyStream(b));
        CHECK_EQ(pinned[64 * kKiB - 1], static_cast<char>(round));
        if (round % 3 != 0) CHECK_OK(aclrtDestroyEvent(event));
        CHECK_OK(aclrtDestroyStream(a));
      }
      CHECK_OK(aclrtFree(memory));
      CHECK_OK(aclrtFreeHost(pinned));
      CHECK_OK(aclrtResetDevice(t % 2));
    });
  }
  for (std::thread &thread : threads) thread.join();
}

/// Aborts race with work, waits and other aborts.
void aborts_under_load() {
  aclrtStream a = new_stream(), b = new_stream();
  char *memory = static_cast<char *>(device_memory(kMiB));
  std::atomic<bool> stop{false};
  std::thread submitter([&] {
    CHECK_OK(aclrtSetDevice(0));
    aclrtEvent event = new_event();
    while (!stop.load()) {
      for (int i = 0; i < 16; ++i) {
        CHECK_OK(aclrtMemsetAsync(memory, kMiB, 1, 16 * kKiB, a));
        CHECK_OK(aclrtRecordEvent(event, a));
        CHECK_OK(aclrtStreamWaitEvent(b, event));
        CHECK_OK(aclrtMemsetAsync(memory + 512 * kKiB, 512 * kKiB, 1, 1024, b));
      }
      // Queues have no end here: a slow machine would fall ever further behind.
      while (!stop.load() && query(a) == ACL_STREAM_STATUS_NOT_READY) std::this_thread::yield();
    }
    CHECK_OK(aclrtDestroyEvent(event));
    CHECK_OK(aclrtResetDevice(0));
  });
  for (int i = 0; i < 300 / kScale + 10; ++i) {
    CHECK_OK(aclrtStreamAbort(i % 2 == 0 ? a : b));
    const aclError code = aclrtSynchronizeStreamWithTimeout(a, kLongMs);
    CHECK(code == ACL_SUCCESS || code == ACL_ERROR_RT_STREAM_ABORT);
  }
  stop = true;
  submitter.join();
  CHECK_OK(aclrtDestroyStreamForce(a));
  CHECK_OK(aclrtDestroyStreamForce(b));
  CHECK_OK(aclrtFree(memory));
}

}  // namespace

int main() {
  start(2, "512M");
  const int threads = threads_of_process();
  a_million_tasks_in_order();
  a_relay_of_fifty_thousand_events();
  everything_from_many_threads();
  aborts_under_load();
  CHECK(threads_settle_at(threads));
  CHECK_OK(aclrtResetDevice(0));
  CHECK_EQ(counter("live_streams"), 0);
  CHECK_EQ(counter("live_events"), 0);
  CHECK_EQ(counter("misuse"), 0);
  return 0;
}
