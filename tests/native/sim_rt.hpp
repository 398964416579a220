// sim_rt.hpp: what the tests of the simulated runtime share. They are ordinary ACL programs; the simulator's
// controls only set the machine up and hold its engine, so that "in flight" needs no sleeping.
#pragma once
#include <pthread.h>
#include <string.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "acl_abi.h"
#include "check.hpp"
#include "sim/aiocann_sim.h"

constexpr size_t kKiB = 1024, kMiB = 1024 * kKiB, kGiB = 1024 * kMiB;
/// Nothing in these tests takes this long; a wait that is lost ends the test instead of hanging it.
constexpr int32_t kLongMs = 60000;

inline void configure(const char *key, const char *value) {
  const int32_t code = aiocann_sim_configure(key, value);
  if (code != 0) check::fail(__FILE__, __LINE__, aiocann_sim_last_error());
}

/// A machine of `devices` small devices; device 0 is set on this thread.
inline void start(int devices, const char *memory = "256M") {
  configure("devices", std::to_string(devices).c_str());
  configure("memory", memory);
  CHECK_OK(aclInit(nullptr));
  CHECK_OK(aclrtSetDevice(0));
}

inline uint64_t counter(const char *name) {
  const uint64_t value = aiocann_sim_counter(name);
  CHECK(value != UINT64_MAX);
  return value;
}

/// Text of the last failure on this thread; "" when there is none.
inline std::string recent() {
  const char *text = aclGetRecentErrMsg();
  return text == nullptr ? "" : text;
}

inline void *device_memory(size_t bytes) {
  void *pointer = nullptr;
  CHECK_OK(aclrtMalloc(&pointer, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
  return pointer;
}

inline void *pinned_memory(size_t bytes) {
  void *pointer = nullptr;
  CHECK_OK(aclrtMallocHost(&pointer, bytes));
  return pointer;
}

inline aclrtStream new_stream() {
  aclrtStream stream = nullptr;
  CHECK_OK(aclrtCreateStream(&stream));
  return stream;
}

inline aclrtEvent new_event(uint32_t flags = ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE) {
  aclrtEvent event = nullptr;
  CHECK_OK(aclrtCreateEventExWithFlag(&event, flags));
  return event;
}

inline void sync(aclrtStream stream) {
  CHECK_OK(aclrtSynchronizeStreamWithTimeout(stream, kLongMs));
}

inline aclrtStreamStatus query(aclrtStream stream) {
  aclrtStreamStatus status = ACL_STREAM_STATUS_RESERVED;
  CHECK_OK(aclrtStreamQuery(stream, &status));
  return status;
}

/// Calls `fn` on a thread of its own, which has no context yet.
template <class Fn>
void on_thread(Fn &&fn) {
  std::thread thread(std::forward<Fn>(fn));
  thread.join();
}
