// sim_scale.hpp: for tests of the simulator that do very much: how much, and what it may not cost.
#pragma once
#include <dirent.h>

#include "sim_rt.hpp"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kScale = 20;  // the same, shorter
#else
constexpr int kScale = 1;
#endif

inline int threads_of_process() {
  int n = 0;
  DIR *tasks = opendir("/proc/self/task");
  CHECK(tasks != nullptr);
  while (const dirent *entry = readdir(tasks)) n += entry->d_name[0] != '.';
  closedir(tasks);
  return n;
}

/// A chain of copies and fills round a ring of 16 words, each of which reads what the one before it wrote: a word
/// arrives where it must only if none is lost or out of order.
class TaskChain {
 public:
  static constexpr uint32_t kPattern = 0x12345678;

  explicit TaskChain(aclrtStream stream) : stream_(stream) {
    CHECK_OK(aclrtMemset(words_, 64, 0, 64));
    CHECK_OK(aclrtMemcpy(words_, 4, &kPattern, 4, ACL_MEMCPY_HOST_TO_DEVICE));
  }
  ~TaskChain() { CHECK_OK(aclrtFree(words_)); }
  TaskChain(const TaskChain &) = delete;
  TaskChain &operator=(const TaskChain &) = delete;

  /// Two tasks.
  void step() {
    char *const from = words_ + steps_ % 16 * 4, *const to = words_ + (steps_ + 1) % 16 * 4;
    CHECK_OK(aclrtMemcpyAsync(to, 4, from, 4, ACL_MEMCPY_DEVICE_TO_DEVICE, stream_));
    CHECK_OK(aclrtMemsetAsync(from, 4, 0, 4, stream_));
    ++steps_;
  }

  /// Waits, and looks.
  void check() {
    sync(stream_);
    uint32_t found[16];
    CHECK_OK(aclrtMemcpy(found, 64, words_, 64, ACL_MEMCPY_DEVICE_TO_HOST));
    for (size_t i = 0; i < 16; ++i) CHECK_EQ(found[i], i == steps_ % 16 ? kPattern : 0);
  }

 private:
  aclrtStream stream_;
  char *words_ = static_cast<char *>(device_memory(64));
  size_t steps_ = 0;
};
