// moving.cpp: the threads that write, each with a word of its own.
#include "sim/moving.hpp"

#include <sched.h>

#include <set>

namespace aiocann::sim {
namespace {

struct alignas(64) Writer {
  std::atomic<uint32_t> depth{0};
  Writer();
  ~Writer();
};

struct Moves {
  std::mutex mutex;  ///< held while memory moves
  std::atomic<bool> is_moving{false};
  std::mutex writers_mutex;
  std::set<const Writer *> writers;
};

Moves &moves() {
  static Moves *const leaked = new Moves();
  return *leaked;
}

Writer::Writer() {
  std::lock_guard<std::mutex> lock(moves().writers_mutex);
  moves().writers.insert(this);
}

Writer::~Writer() {
  std::lock_guard<std::mutex> lock(moves().writers_mutex);
  moves().writers.erase(this);
}

thread_local Writer t_writer;

}  // namespace

WriteSection::WriteSection() {
  std::atomic<uint32_t> &depth = t_writer.depth;
  const uint32_t outer = depth.load(std::memory_order_relaxed);
  if (outer != 0) {
    depth.store(outer + 1, std::memory_order_relaxed);
    return;
  }
  while (true) {
    // seq_cst with MoveSection: either we see that memory moves, or it sees us writing.
    depth.store(1, std::memory_order_seq_cst);
    if (!moves().is_moving.load(std::memory_order_seq_cst)) return;
    depth.store(0, std::memory_order_release);
    std::lock_guard<std::mutex> wait(moves().mutex);
  }
}

WriteSection::~WriteSection() {
  std::atomic<uint32_t> &depth = t_writer.depth;
  depth.store(depth.load(std::memory_order_relaxed) - 1, std::memory_order_release);
}

MoveSection::MoveSection() : lock_(moves().mutex) {
  moves().is_moving.store(true, std::memory_order_seq_cst);
  std::lock_guard<std::mutex> lock(moves().writers_mutex);
  for (const Writer *writer : moves().writers) {
    while (writer->depth.load(std::memory_order_seq_cst) != 0) sched_yield();
  }
}

MoveSection::~MoveSection() { moves().is_moving.store(false, std::memory_order_seq_cst); }

}  // namespace aiocann::sim
