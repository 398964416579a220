// basic_loop.hpp: where an event loop finds the ids of settled ops.
//
// One atomic word holds the list of deliveries, or one of two marks: armed (the loop sleeps: whoever pushes next
// writes the eventfd) and closed (deliveries go to the heir). So "arm only if still empty" and "wake only if armed"
// are single compare-and-swaps, and no wake-up can fall between them.
#pragma once
#include <atomic>
#include <cstdint>

#include "core/stack.hpp"
#include "core/sync.hpp"

namespace aiocann::core {

/// Loop: the class that derives from this. Node: has next, loop (a reference, where not null), id and discard().
template <typename Loop, typename Node, typename Sync = Threads>
class BasicLoop {
 public:
  explicit BasicLoop(int fd) : fd_(fd), head_(fd >= 0 ? armed_mark() : nullptr) {}
  BasicLoop(const BasicLoop &) = delete;
  BasicLoop &operator=(const BasicLoop &) = delete;

  void retain() { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete static_cast<Loop *>(this);
  }

  /// Takes over the node and its reference of the loop. True: the eventfd was written. Thread: any; lock-free.
  bool push(Node *node) {
    Node *head = head_.load(std::memory_order_acquire);
    for (;;) {
      if (head == closed_mark()) return forward(node);
      const bool wakes = head == armed_mark();
      node->next = wakes ? nullptr : head;
      // Announced before the swap, so that a close() that comes after it waits for the write: the caller of
      // close() may close the eventfd next.
      if (wakes) writers_.fetch_add(1, std::memory_order_seq_cst);
      if (head_.compare_exchange_weak(head, node, std::memory_order_seq_cst,
                                      std::memory_order_acquire)) {
        if (!wakes) return false;
        wakes_.fetch_add(1,
                         std::memory_order_relaxed);  // before: who is woken finds itself counted
        Sync::write_eventfd(fd_);
        writers_.fetch_sub(1, std::memory_order_seq_cst);
        return true;
      }
      if (wakes) writers_.fetch_sub(1, std::memory_order_seq_cst);
    }
  }

  /// Hands out ids. Fewer than max: there are no more, and the loop is armed. Thread: the drainer.
  int32_t drain(uint64_t *ids, int32_t max) {
    int32_t count = 0;
    while (count < max) {
      if (pending_ == nullptr) {
        Node *head = head_.load(std::memory_order_acquire);
        if (head == closed_mark()) return count;
        if (is_mark(head)) {
          if (fd_ < 0 || head == armed_mark()) return count;
          // Arms only if still empty.
          if (head_.compare_exchange_strong(head, armed_mark(), std::memory_order_seq_cst))
            return count;
          continue;
        }
        while (!head_.compare_exchange_weak(head, nullptr, std::memory_order_acq_rel)) {
          if (is_mark(head)) break;
        }
        if (is_mark(head)) continue;
        pending_ = Stack<Node, Sync>::reversed(head);
      }
      Node *node = pending_;
      pending_ = node->next;
      ids[count++] = node->id;
      node->discard();
    }
    return count;
  }

  /// Waits a moment for a delivery; true: there is one, and the loop is not armed. Thread: the drainer.
  bool linger() {
    if (pending_ != nullptr) return true;
    // Not armed meanwhile: who delivers need not write the eventfd.
    Node *head = armed_mark();
    if (!head_.compare_exchange_strong(head, nullptr, std::memory_order_seq_cst))
      return !is_mark(head);
    if (spin_.wait([this] { return head_.load(std::memory_order_acquire) != nullptr; }))
      return true;
    head = nullptr;
    return !head_.compare_exchange_strong(head, armed_mark(), std::memory_order_seq_cst);
  }

  /// What is there, and what comes later, goes to heir; null: is discarded.
  void close(Loop *heir) {
    if (head_.load(std::memory_order_acquire) == closed_mark()) return;
    if (heir != nullptr && heir != this) {
      heir->retain();
      heir_ = heir;
    }
    Node *head = head_.exchange(closed_mark(), std::memory_order_seq_cst);
    while (writers_.load(std::memory_order_seq_cst) != 0) Sync::give_way();
    Node *node = pending_;
    pending_ = nullptr;
    for (int part = 0; part < 2; ++part) {
      while (node != nullptr) {
        Node *next = node->next;
        forward(node);
        node = next;
      }
      node = is_mark(head) ? nullptr : Stack<Node, Sync>::reversed(head);
      head = nullptr;
    }
  }

  uint64_t wakes() const { return wakes_.load(std::memory_order_relaxed); }

 protected:  // what the tests need, which get it wrong
  template <typename T>
  using Atomic = typename Sync::template Atomic<T>;
  ~BasicLoop() {
    if (heir_ != nullptr) heir_->release();
  }
  static Node *armed_mark() { return reinterpret_cast<Node *>(uintptr_t{1}); }
  static Node *closed_mark() { return reinterpret_cast<Node *>(uintptr_t{2}); }
  static bool is_mark(const Node *node) { return reinterpret_cast<uintptr_t>(node) <= 2; }
  bool forward(Node *node) {
    if (heir_ == nullptr) {
      node->discard();
      return false;
    }
    Loop *from = node->loop;
    heir_->retain();
    node->loop = heir_;
    const bool woke = heir_->push(node);
    from->release();
    return woke;
  }

  const int fd_;
  Atomic<Node *> head_;
  Atomic<uint32_t> references_{1};
  Atomic<uint32_t> writers_{0};  ///< threads between seeing "armed" and having written the eventfd
  Atomic<uint64_t> wakes_{0};
  Loop *heir_ = nullptr;      ///< set before "closed". Owns: one reference
  Node *pending_ = nullptr;   ///< taken, not yet handed out. Thread: the drainer
  typename Sync::Spin spin_;  ///< Thread: the drainer
};

}  // namespace aiocann::core
