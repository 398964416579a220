// As much at once as a device takes, and a million small tasks over eight of them.
#include <memory>

#include "sim_scale.hpp"

namespace {

/// Every stream that a device has, each waiting, and most of its events: states, not threads.
void every_stream_and_many_events() {
  constexpr size_t kStreams = 1984, kEvents = 50000;
  const int threads = threads_of_process();
  std::vector<aclrtStream> streams(kStreams - 1);  // the default stream is one
  for (aclrtStream &stream : streams) stream = new_stream();
  aclrtStream more = nullptr;
  CHECK_CODE(aclrtCreateStream(&more), ACL_ERROR_RT_NO_STREAM_RESOURCE);
  CHECK_CONTAINS(recent(), "1984");
  CHECK_EQ(counter("live_streams"), kStreams);

  aclrtEvent start = nullptr;
  CHECK_OK(aclrtCreateEventWithFlag(&start, ACL_EVENT_SYNC));
  char *bytes = static_cast<char *>(device_memory(kStreams));
  CHECK_OK(aclrtMemset(bytes, kStreams, 0, kStreams));
  for (aclrtStream stream : streams) CHECK_OK(aclrtStreamWaitEvent(stream, start));
  std::vector<aclrtEvent> events(kEvents - 1);
  for (size_t i = 0; i < events.size(); ++i) {
    aclrtStream stream = streams[i % streams.size()];
    events[i] = new_event();
    CHECK_OK(aclrtRecordEvent(events[i], stream));
    // Each waits for the one before it, on another stream.
    if (i > 0) CHECK_OK(aclrtStreamWaitEvent(stream, events[i - 1]));
  }
  for (size_t i = 0; i < streams.size(); ++i)
    CHECK_OK(aclrtMemsetAsync(bytes + i, 1, 1, 1, streams[i]));
  CHECK_EQ(counter("live_events"), kEvents);
  CHECK_CODE(aclrtSynchronizeStreamWithTimeout(streams.back(), 20),
             ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  CHECK_EQ(threads_of_process(), threads);
  CHECK_OK(aclrtRecordEvent(start, nullptr));
  CHECK_OK(aclrtSynchronizeDeviceWithTimeout(kLongMs));
  std::vector<char> back(streams.size());
  CHECK_OK(aclrtMemcpy(back.data(), back.size(), bytes, back.size(), ACL_MEMCPY_DEVICE_TO_HOST));
  for (const char byte : back) CHECK_EQ(byte, 1);
  CHECK_EQ(threads_of_process(), threads);

  // One that goes makes room for one.
  CHECK_OK(aclrtDestroyStream(streams.back()));
  streams.back() = new_stream();
  for (aclrtStream stream : streams) CHECK_OK(aclrtDestroyStream(stream));
  for (aclrtEvent event : events) CHECK_OK(aclrtDestroyEvent(event));
  CHECK_OK(aclrtDestroyEvent(start));
  CHECK_OK(aclrtFree(bytes));
}

void a_million_tasks_over_eight_devices() {
  constexpr int kDevices = 8, kStreamsPerDevice = 8;
  constexpr int kSteps = 1000000 / kScale / kDevices / kStreamsPerDevice / 2;
  const uint64_t before = counter("tasks");
  std::vector<std::thread> threads;
  for (int32_t device = 0; device < kDevices; ++device) {
    threads.emplace_back([device] {
      CHECK_OK(aclrtSetDevice(device));
      std::vector<aclrtStream> streams(kStreamsPerDevice);
      std::vector<std::unique_ptr<TaskChain>> chains;
      for (aclrtStream &stream : streams) {
        stream = new_stream();
        chains.push_back(std::make_unique<TaskChain>(stream));
      }
      for (int step = 0; step < kSteps; ++step) {
        for (const auto &chain : chains) chain->step();
      }
      for (const auto &chain : chains) chain->check();
      chains.clear();
      for (aclrtStream stream : streams) CHECK_OK(aclrtDestroyStream(stream));
      CHECK_OK(aclrtResetDevice(device));
    });
  }
  for (std::thread &thread : threads) thread.join();
  CHECK_EQ(counter("tasks") - before, uint64_t{2} * kSteps * kDevices * kStreamsPerDevice);
}

}  // namespace

int main() {
  start(8, "64M");
  every_stream_and_many_events();
  a_million_tasks_over_eight_devices();
  CHECK_OK(aclrtResetDevice(0));
  CHECK_EQ(counter("live_streams"), 0);
  CHECK_EQ(counter("live_events"), 0);
  CHECK_EQ(counter("misuse"), 0);
  return 0;
}
