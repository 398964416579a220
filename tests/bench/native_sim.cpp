// native_sim.cpp: what the simulated runtime itself costs, as a plain ACL program. Prints a table and one JSON line.
//
//   scripts/native-build release aiocann_sim
//   g++ -std=c++17 -O2 -Ibuild/release/generated tests/bench/native_sim.cpp -o build/native_sim
//       -Lbuild/release/aiocann -laiocann_sim -Wl,-rpath,build/release/aiocann -lpthread     (one line)
//
// Absolute times are this machine's; the bandwidths stand beside memcpy of the same run. Medians of 7 rounds.
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

#include "acl_abi.h"

namespace {

constexpr int kRounds = 7;

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

/// Of this thread alone: what a call costs its caller, whatever else the machine does.
double cpu_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

struct Row {
  std::string name, unit;
  double value;
};
std::vector<Row> g_rows;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void add(const char *name, const char *unit, double value) {
  g_rows.push_back({name, unit, value});
  std::printf("%-44s %10.3f %s\n", name, value, unit);
}

/// `work` returns seconds for `n` operations; the row is the median cost of one, in microseconds.
void per_op(const char *name, int n, const std::function<double()> &work) {
  std::vector<double> costs;
  for (int round = 0; round < kRounds; ++round) costs.push_back(work() / n * 1e6);
  add(name, "us", median(costs));
}

void small_tasks(char *device, char *pinned, aclrtStream a, aclrtStream b) {
  constexpr int kN = 50000;
  per_op("64-byte copy, CPU time of the caller", kN, [&] {
    const double start = cpu_seconds();
    for (int i = 0; i < kN; ++i) {
      OK(aclrtMemcpyAsync(device + i % 1000 * 64, 64, pinned, 64, ACL_MEMCPY_HOST_TO_DEVICE, a));
    }
    const double submitted = cpu_seconds() - start;
    OK(aclrtSynchronizeStream(a));
    return submitted;
  });
  per_op("64-byte copy, through", kN, [&] {
    const double start = seconds();
    for (int i = 0; i < kN; ++i) {
      OK(aclrtMemcpyAsync(device + i % 1000 * 64, 64, pinned, 64, ACL_MEMCPY_HOST_TO_DEVICE, a));
    }
    OK(aclrtSynchronizeStream(a));
    return seconds() - start;
  });
  aclrtEvent event = nullptr;
  OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE));
  per_op("record, CPU time of the caller", kN, [&] {
    const double start = cpu_seconds();
    for (int i = 0; i < kN; ++i) OK(aclrtRecordEvent(event, a));
    const double submitted = cpu_seconds() - start;
    OK(aclrtSynchronizeStream(a));
    return submitted;
  });
  per_op("record and wait, CPU time of the caller", kN, [&] {
    const double start = cpu_seconds();
    for (int i = 0; i < kN; ++i) {
      OK(aclrtRecordEvent(event, a));
      OK(aclrtStreamWaitEvent(b, event));
    }
    const double submitted = cpu_seconds() - start;
    OK(aclrtSynchronizeStream(b));
    return submitted;
  });
  OK(aclrtDestroyEvent(event));
  constexpr int kSync = 2000;
  per_op("copy and synchronise, one by one", kSync, [&] {
    const double start = seconds();
    for (int i = 0; i < kSync; ++i) {
      OK(aclrtMemcpyAsync(device, 64, pinned, 64, ACL_MEMCPY_HOST_TO_DEVICE, a));
      OK(aclrtSynchronizeStream(a));
    }
    return seconds() - start;
  });
  per_op("create and destroy an event", kN, [&] {
    const double start = seconds();
    for (int i = 0; i < kN; ++i) {
      OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
      OK(aclrtDestroyEvent(event));
    }
    return seconds() - start;
  });
  per_op("allocate and free 64 KiB", kN, [&] {
    const double start = seconds();
    for (int i = 0; i < kN; ++i) {
      void *pointer = nullptr;
      OK(aclrtMalloc(&pointer, 65536, ACL_MEM_MALLOC_HUGE_FIRST));
      OK(aclrtFree(pointer));
    }
    return seconds() - start;
  });
}

void callbacks(aclrtStream stream) {
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
  constexpr int kN = 50000;
  per_op("callback that does not block, through", kN, [&] {
    called = 0;
    const double start = seconds();
    for (int i = 0; i < kN; ++i) {
      OK(aclrtLaunchCallback([](void *) { called.fetch_add(1); }, nullptr, ACL_CALLBACK_NO_BLOCK,
                             stream));
    }
    while (called.load() < kN) std::this_thread::yield();
    return seconds() - start;
  });
  OK(aclrtUnSubscribeReport(id.load(), stream));
  stop = true;
  processor.join();
}

void bandwidth(aclrtStream stream) {
  constexpr size_t kBytes = 256u << 20;
  void *device = nullptr, *pinned = nullptr;
  OK(aclrtMalloc(&device, kBytes, ACL_MEM_MALLOC_HUGE_FIRST));
  OK(aclrtMallocHost(&pinned, kBytes));
  std::vector<char> a(kBytes, 1), b(kBytes, 2);
  memset(pinned, 3, kBytes);
  OK(aclrtMemset(device, kBytes, 4, kBytes));
  std::vector<double> plain, h2d, d2h, ratio;
  for (int round = 0; round < kRounds; ++round) {
    double start = seconds();
    memcpy(a.data(), b.data(), kBytes);
    plain.push_back(kBytes / (seconds() - start) / 1e9);
    start = seconds();
    OK(aclrtMemcpyAsync(device, kBytes, pinned, kBytes, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    OK(aclrtSynchronizeStream(stream));
    h2d.push_back(kBytes / (seconds() - start) / 1e9);
    ratio.push_back(h2d.back() / plain.back());
    start = seconds();
    OK(aclrtMemcpyAsync(pinned, kBytes, device, kBytes, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    OK(aclrtSynchronizeStream(stream));
    d2h.push_back(kBytes / (seconds() - start) / 1e9);
  }
  add("memcpy of 256 MiB, this thread", "GB/s", median(plain));
  add("host to device, 256 MiB pinned", "GB/s", median(h2d));
  add("device to host, 256 MiB pinned", "GB/s", median(d2h));
  add("host to device beside memcpy", "x", median(ratio));
  OK(aclrtFree(device));
  OK(aclrtFreeHost(pinned));
}

}  // namespace

int main() {
  OK(aclInit(nullptr));
  OK(aclrtSetDevice(0));
  aclrtStream a = nullptr, b = nullptr;
  OK(aclrtCreateStream(&a));
  OK(aclrtCreateStream(&b));
  void *device = nullptr, *pinned = nullptr;
  OK(aclrtMalloc(&device, 1 << 20, ACL_MEM_MALLOC_HUGE_FIRST));
  OK(aclrtMallocHost(&pinned, 1 << 20));
  memset(pinned, 1, 1 << 20);
  small_tasks(static_cast<char *>(device), static_cast<char *>(pinned), a, b);
  callbacks(a);
  bandwidth(a);
  std::printf("{");
  for (size_t i = 0; i < g_rows.size(); ++i) {
    std::printf("%s\"%s [%s]\": %.4f", i == 0 ? "" : ", ", g_rows[i].name.c_str(),
                g_rows[i].unit.c_str(), g_rows[i].value);
  }
  std::printf("}\n");
  OK(aclrtResetDevice(0));
  OK(aclFinalize());
  return 0;
}
