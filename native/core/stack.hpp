// stack.hpp: the one lock-free structure of the core: many threads push, one takes everything.
//
// It can be closed, atomically with taking what is in it: a push either lands in a list that someone has taken
// or will take, or it fails and says so. Wake-ups and deliveries cannot be lost in between.
#pragma once
#include <atomic>
#include <cstdint>

#include "core/sync.hpp"

namespace aiocann::core {

/// Node has a member `Node *next`. Nodes belong to the stack from push to take.
template <typename Node, typename Sync = Threads>
class Stack {
 public:
  /// False: the stack is closed, and the node still belongs to the caller.
  bool push(Node *node) {
    Node *head = head_.load(std::memory_order_acquire);
    do {
      if (head == closed_mark()) return false;
      node->next = head;
      // seq_cst: the consumer of an inbox announces that it parks, then looks here once more.
    } while (!head_.compare_exchange_weak(head, node, std::memory_order_seq_cst,
                                          std::memory_order_acquire));
    return true;
  }

  /// Everything pushed so far, oldest first. Thread: the consumer.
  Node *take() {
    Node *head = head_.load(std::memory_order_acquire);
    do {
      if (head == nullptr || head == closed_mark()) return nullptr;
    } while (!head_.compare_exchange_weak(head, nullptr, std::memory_order_acq_rel,
                                          std::memory_order_acquire));
    return reversed(head);
  }

  /// As take(); from now on push fails. A second close gives nothing.
  Node *close() {
    Node *head = head_.exchange(closed_mark(), std::memory_order_acq_rel);
    return head == closed_mark() ? nullptr : reversed(head);
  }

  bool empty() const {
    Node *head = head_.load(std::memory_order_seq_cst);
    return head == nullptr || head == closed_mark();
  }
  bool closed() const { return head_.load(std::memory_order_acquire) == closed_mark(); }

  static Node *reversed(Node *head) {
    Node *result = nullptr;
    while (head != nullptr) {
      Node *next = head->next;
      head->next = result;
      result = head;
      head = next;
    }
    return result;
  }

 protected:  // for the tests, which get it wrong
  static Node *closed_mark() { return reinterpret_cast<Node *>(uintptr_t{1}); }
  typename Sync::template Atomic<Node *> head_{nullptr};
};

}  // namespace aiocann::core
