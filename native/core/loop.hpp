// loop.hpp: where an event loop finds the ids of settled ops.
//
// One atomic word holds the list of deliveries, or one of two marks: kArmed (the loop sleeps: whoever pushes
// next writes the eventfd) and kClosed (deliveries go to the heir). So "arm only if still empty" and "wake only
// if armed" are single compare-and-swaps, and no wake-up can fall between them.
#pragma once
#include <atomic>
#include <cstdint>

#include "aiocann.h"
#include "core/spin.hpp"

namespace aiocann::core {

using Op = ::aiocann_op;
using Loop = ::aiocann_loop;

/// An id on its way to a loop. One is embedded in each op, for its home; others are made by watching.
struct Delivery {
  Delivery *next = nullptr;
  Loop *loop = nullptr;  ///< Owns: one reference, where not null
  uint64_t id = 0;
  Op *embedded_in =
      nullptr;              ///< Owns: one reference of the op that holds this node; null: allocated
  Op *dependent = nullptr;  ///< not a delivery: this `wait` op depends on the settling one

  /// Frees or unreferences what the node stands for, after delivery or instead of it.
  void discard();
};

}  // namespace aiocann::core

struct aiocann_loop {
 public:
  explicit aiocann_loop(int fd);

  void retain() { references_.fetch_add(1, std::memory_order_relaxed); }
  void release();
  /// Takes over the node and its reference of the loop. True: the eventfd was written. Thread: any; lock-free.
  bool push(aiocann::core::Delivery *node);
  int32_t drain(uint64_t *ids, int32_t max);
  /// Waits a moment for a delivery; true: there is one, and the loop is not armed. Thread: the drainer.
  bool linger();
  void close(aiocann_loop *heir);
  uint64_t wakes() const { return wakes_.load(std::memory_order_relaxed); }

 private:
  ~aiocann_loop();
  using Delivery = aiocann::core::Delivery;
  static Delivery *armed_mark() { return reinterpret_cast<Delivery *>(uintptr_t{1}); }
  static Delivery *closed_mark() { return reinterpret_cast<Delivery *>(uintptr_t{2}); }
  static bool is_mark(const Delivery *node) { return reinterpret_cast<uintptr_t>(node) <= 2; }
  bool forward(Delivery *node);

  const int fd_;
  std::atomic<Delivery *> head_;
  std::atomic<uint32_t> references_{1};
  std::atomic<uint32_t> writers_{
      0};  ///< threads between seeing kArmed and having written the eventfd
  std::atomic<uint64_t> wakes_{0};
  aiocann_loop *heir_ = nullptr;  ///< set before kClosed. Owns: one reference
  Delivery *pending_ = nullptr;   ///< taken, not yet handed out. Thread: the drainer
  aiocann::core::Spin spin_;      ///< Thread: the drainer
};
