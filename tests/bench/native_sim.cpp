// native_sim.cpp: what the simulated runtime itself costs, as a plain ACL program. One line for each way of doing a
// thing: thing, way, unit, median, lowest, highest, median of the ratios to the first way of the thing; with tabs.
// native.py builds and runs it.
//
// Costs "by the caller" are CPU time of the calling thread alone, so that a busy machine disturbs them little.
#include <pthread.h>
#include <string.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "acl/acl.h"

namespace {

constexpr int kBurst = 10000;
constexpr int kDevices = 8;

void ok(int code, const char *call) {
  if (code == 0) return;
  const char *text = aclGetRecentErrMsg();
  std::fprintf(stderr, "%s: %d: %s\n", call, code, text == nullptr ? "" : text);
  std::exit(1);
}
#define OK(call) ok((call), #call)

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double cpu_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Way {
  const char *name;
  std::function<double()> run;  ///< what it cost, in the unit of the comparison
};

/// Every round runs all ways, one after the other; one round before is not counted.
void compare(const char *thing, const char *unit, int rounds, const std::vector<Way> &ways) {
  std::vector<std::vector<double>> costs(ways.size());
  for (int round = -1; round < rounds; ++round) {
    for (size_t i = 0; i < ways.size(); ++i) {
      const double cost = ways[i].run();
      if (round >= 0) costs[i].push_back(cost);
    }
  }
  for (size_t i = 0; i < ways.size(); ++i) {
    std::vector<double> ratios;
    for (size_t round = 0; round < costs[i].size(); ++round)
      ratios.push_back(costs[i][round] / costs[0][round]);
    const auto [low, high] = std::minmax_element(costs[i].begin(), costs[i].end());
    std::printf("%s\t%s\t%s\t%.6g\t%.6g\t%.6g\t%.6g\n", thing, ways[i].name, unit, median(costs[i]),
                *low, *high, median(ratios));
  }
  std::fflush(stdout);
}

/// Microseconds of the caller's CPU time for each of a burst of calls; the work itself is waited for outside.
template <class Call>
std::function<double()> by_the_caller(aclrtStream last, Call call) {
  return [last, call] {
    const double start = cpu_seconds();
    for (int i = 0; i < kBurst; ++i) call(i);
    const double spent = cpu_seconds() - start;
    OK(aclrtSynchronizeStream(last));
    return spent / kBurst * 1e6;
  };
}

/// Microseconds for each of `n` calls until all is done.
template <class Call>
std::function<double()> through(int n, aclrtStream last, Call call) {
  return [n, last, call] {
    const double start = seconds();
    for (int i = 0; i < n; ++i) call(i);
    if (last != nullptr) OK(aclrtSynchronizeStream(last));
    return (seconds() - start) / n * 1e6;
  };
}

/// Two streams, an event, memory on both sides: what small calls need.
struct Small {
  Small() {
    OK(aclrtCreateStream(&a));
    OK(aclrtCreateStream(&b));
    OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE));
    void *pointer = nullptr;
    OK(aclrtMalloc(&pointer, 1 << 20, ACL_MEM_MALLOC_HUGE_FIRST));
    device = static_cast<char *>(pointer);
    OK(aclrtMallocHost(&pointer, 1 << 20));
    pinned = static_cast<char *>(pointer);
    memset(pinned, 1, 1 << 20);
  }
  ~Small() {
    OK(aclrtFree(device));
    OK(aclrtFreeHost(pinned));
    OK(aclrtDestroyEvent(event));
    OK(aclrtDestroyStream(a));
    OK(aclrtDestroyStream(b));
  }
  Small(const Small &) = delete;
  Small &operator=(const Small &) = delete;

  void copy(int i) const {
    OK(aclrtMemcpyAsync(device + i % 1000 * 64, 64, pinned, 64, ACL_MEMCPY_HOST_TO_DEVICE, a));
  }
  void record() const { OK(aclrtRecordEvent(event, a)); }
  void wait() const { OK(aclrtStreamWaitEvent(b, event)); }

  aclrtStream a = nullptr, b = nullptr;
  aclrtEvent event = nullptr;
  char *device = nullptr, *pinned = nullptr;
};

void calls(const Small &small, int rounds) {
  compare("ACL calls by the caller, bursts of 10,000", "us", 3 * rounds,
          {{"copy of 64 bytes", by_the_caller(small.a, [&](int i) { small.copy(i); })},
           {"record", by_the_caller(small.a, [&](int) { small.record(); })},
           {"record and wait", by_the_caller(small.b, [&](int) {
              small.record();
              small.wait();
            })}});
  compare("ACL calls until all is done", "us", rounds,
          {{"copy of 64 bytes", through(kBurst, small.a, [&](int i) { small.copy(i); })},
           {"copy and synchronise, one by one", through(1000, nullptr,
                                                        [&](int i) {
                                                          small.copy(i);
                                                          OK(aclrtSynchronizeStream(small.a));
                                                        })},
           {"make and destroy an event", through(kBurst, nullptr,
                                                 [](int) {
                                                   aclrtEvent event = nullptr;
                                                   OK(aclrtCreateEventExWithFlag(&event,
                                                                                 ACL_EVENT_SYNC));
                                                   OK(aclrtDestroyEvent(event));
                                                 })},
           {"allocate and free 64 KiB", through(kBurst, nullptr, [](int) {
              void *pointer = nullptr;
              OK(aclrtMalloc(&pointer, 65536, ACL_MEM_MALLOC_HUGE_FIRST));
              OK(aclrtFree(pointer));
            })}});
}

void callbacks(aclrtStream stream, int rounds) {
  static std::atomic<int> called{0};
  std::atomic<uint64_t> id{0};
  std::atomic<bool> stop{false};
  std::thread processor([&] {
    OK(aclrtSetDevice(0));
    id = static_cast<uint64_t>(pthread_self());
    while (!stop.load()) (void)aclrtProcessReport(20);
    OK(aclrtResetDevice(0));
  });
  while (id.load() == 0) std::this_thread::yield();
  OK(aclrtSubscribeReport(id.load(), stream));
  compare("callbacks until all have run", "us", rounds,
          {{"without blocking", [stream] {
              called = 0;
              const double start = seconds();
              for (int i = 0; i < kBurst; ++i) {
                OK(aclrtLaunchCallback([](void *) { called.fetch_add(1); }, nullptr,
                                       ACL_CALLBACK_NO_BLOCK, stream));
              }
              while (called.load() < kBurst) std::this_thread::yield();
              return (seconds() - start) / kBurst * 1e6;
            }}});
  OK(aclrtUnSubscribeReport(id.load(), stream));
  stop = true;
  processor.join();
}

void bandwidth(aclrtStream stream, int rounds) {
  constexpr size_t kBytes = 256u << 20;
  void *device = nullptr, *pinned = nullptr;
  OK(aclrtMalloc(&device, kBytes, ACL_MEM_MALLOC_HUGE_FIRST));
  OK(aclrtMallocHost(&pinned, kBytes));
  std::vector<char> a(kBytes, 1), b(kBytes, 2);
  memset(pinned, 3, kBytes);
  OK(aclrtMemset(device, kBytes, 4, kBytes));
  const auto rate = [](const std::function<void()> &copy) {
    const double start = seconds();
    copy();
    return kBytes / (seconds() - start) / 1e9;
  };
  const auto enqueue = [stream](void *to, const void *from) {
    OK(aclrtMemcpyAsync(to, kBytes, from, kBytes, ACL_MEMCPY_DEFAULT, stream));
    OK(aclrtSynchronizeStream(stream));
  };
  compare(
      "copies of 256 MiB through the C ABI", "GB/s", rounds,
      {{"memcpy, one thread", [&] { return rate([&] { memcpy(a.data(), b.data(), kBytes); }); }},
       {"host to device, pinned", [&] { return rate([&] { enqueue(device, pinned); }); }},
       {"device to host, pinned", [&] { return rate([&] { enqueue(pinned, device); }); }}});
  OK(aclrtFree(device));
  OK(aclrtFreeHost(pinned));
}

/// Millions of tasks a second, over `devices` with as many streams each; a thread for each device.
double task_rate(int devices, int streams_per_device) {
  constexpr int kTasks = 1000000;
  const int per_stream = kTasks / devices / streams_per_device;
  const double start = seconds();
  std::vector<std::thread> threads;
  for (int32_t device = 0; device < devices; ++device) {
    threads.emplace_back([device, per_stream, streams_per_device] {
      OK(aclrtSetDevice(device));
      void *memory = nullptr;
      OK(aclrtMalloc(&memory, 1 << 16, ACL_MEM_MALLOC_HUGE_FIRST));
      std::vector<aclrtStream> streams(static_cast<size_t>(streams_per_device));
      for (aclrtStream &stream : streams) OK(aclrtCreateStream(&stream));
      for (int i = 0; i < per_stream; ++i) {
        char *at = static_cast<char *>(memory);
        for (aclrtStream stream : streams) OK(aclrtMemsetAsync(at += 64, 64, i, 64, stream));
      }
      for (aclrtStream stream : streams) OK(aclrtSynchronizeStream(stream));
      for (aclrtStream stream : streams) OK(aclrtDestroyStream(stream));
      OK(aclrtFree(memory));
      OK(aclrtResetDevice(device));
    });
  }
  for (std::thread &thread : threads) thread.join();
  return kTasks / (seconds() - start) / 1e6;
}

/// Every stream of a device waits while 50,000 events are recorded and waited for; microseconds for each event.
double many_at_once() {
  constexpr size_t kStreams = 1900, kEvents = 50000;
  std::vector<aclrtStream> streams(kStreams);
  std::vector<aclrtEvent> events(kEvents);
  aclrtEvent start = nullptr;
  const double began = seconds();
  OK(aclrtCreateEventWithFlag(&start, ACL_EVENT_SYNC));
  for (aclrtStream &stream : streams) {
    OK(aclrtCreateStream(&stream));
    OK(aclrtStreamWaitEvent(stream, start));
  }
  for (size_t i = 0; i < kEvents; ++i) {
    OK(aclrtCreateEventExWithFlag(&events[i], ACL_EVENT_SYNC));
    OK(aclrtRecordEvent(events[i], streams[i % kStreams]));
    if (i > 0) OK(aclrtStreamWaitEvent(streams[i % kStreams], events[i - 1]));
  }
  OK(aclrtRecordEvent(start, nullptr));
  OK(aclrtSynchronizeDevice());
  const double took = seconds() - began;
  for (aclrtEvent event : events) OK(aclrtDestroyEvent(event));
  for (aclrtStream stream : streams) OK(aclrtDestroyStream(stream));
  OK(aclrtDestroyEvent(start));
  return took / kEvents * 1e6;
}

}  // namespace

int main(int argc, char **argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 7;
  setenv("AIOCANN_SIM_DEVICES", std::to_string(kDevices).c_str(), 1);
  setenv("AIOCANN_SIM_STRICT", "0", 1);
  OK(aclInit(nullptr));
  OK(aclrtSetDevice(0));
  {
    const Small small;
    calls(small, rounds);
    callbacks(small.a, rounds);
    bandwidth(small.a, rounds);
  }
  compare("a million small tasks", "million/s", rounds,
          {{"one stream", [] { return task_rate(1, 1); }},
           {"64 streams, 8 devices", [] { return task_rate(kDevices, 8); }}});
  compare("50,000 events on 1,900 streams that wait", "us/event", rounds,
          {{"made, recorded, waited for", many_at_once}});
  OK(aclrtResetDevice(0));
  OK(aclFinalize());
  return 0;
}
