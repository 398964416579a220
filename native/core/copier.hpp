// copier.hpp: two threads that move bytes between ordinary host memory and staging chunks, or host and host.
// Jobs are at most one chunk long, first come first served, so a huge copy delays a small one by a few chunks.
#pragma once
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "core/op.hpp"

namespace aiocann::core {

/// Moves bytes offset to offset + nbytes of a copy from its host memory to staging memory, or back; in the form that
/// the other side takes.
void from_host(const Op *copy, uint64_t offset, uint64_t nbytes, char *staging);
void to_host(const Op *copy, const char *staging, uint64_t offset, uint64_t nbytes);

class Copiers {
 public:
  static constexpr int kThreads = 2;
  static constexpr uint64_t kSlice = uint64_t{4} << 20;

  void start();
  /// Joins the threads; jobs still queued are dropped. Thread: the closer.
  void stop();
  /// part: a kChunkToDevice to fill, a kChunkToHost to empty, or a kHostSlices. Thread: any.
  void push(Op *part);

 private:
  void run();
  void work(Op *part);
  std::mutex mutex_;  // a leaf: list work only
  std::condition_variable ready_;
  Op *first_ = nullptr, *last_ = nullptr;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace aiocann::core
