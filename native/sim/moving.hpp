// moving.hpp: memory that changes its pages while others may write to it.
//
// Exporting a block moves it to a file. Whoever writes to device memory says so while it does; who moves a block waits
// for those and keeps others out meanwhile, so that no write is lost. Writing costs a store to a word of the thread.
#pragma once
#include <atomic>
#include <mutex>

namespace aiocann::sim {

/// The calling thread writes to device memory; may nest. What helps it (parallel_for) needs none of its own.
class WriteSection {
 public:
  WriteSection();
  ~WriteSection();
  WriteSection(const WriteSection &) = delete;
  WriteSection &operator=(const WriteSection &) = delete;
};

/// While it lives nobody writes. The thread must not be within a section.
class MoveSection {
 public:
  MoveSection();
  ~MoveSection();
  MoveSection(const MoveSection &) = delete;
  MoveSection &operator=(const MoveSection &) = delete;

 private:
  std::lock_guard<std::mutex> lock_;
};

}  // namespace aiocann::sim
