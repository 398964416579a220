// inbox.hpp: what one thread is given to do by others, and how it sleeps in between.
//
// Work and nudges are made visible before the owner is woken, and the owner looks once more after announcing that it
// parks: so nothing falls between its look and its sleep. Whatever else is to wake it has to be a nudge.
#pragma once
#include <atomic>
#include <cstdint>

#include "core/parker.hpp"
#include "core/stack.hpp"

namespace aiocann::core {

template <typename Node, typename Sync = Threads>
class Inbox {
 public:
  // ---- Thread: any; lock-free ----

  /// False: the inbox is closed, and the node still belongs to the caller.
  bool push(Node *node) {
    if (!nodes_.push(node)) return false;
    parker_.wake();
    return true;
  }
  /// Something that the owner finds elsewhere has changed.
  void nudge() {
    nudged_.store(true, std::memory_order_seq_cst);
    parker_.wake();
  }

  // ---- Thread: the owner ----

  /// Everything pushed so far, oldest first.
  Node *take() { return nodes_.take(); }
  /// As take(); from now on push fails.
  Node *close() { return nodes_.close(); }
  bool take_nudge() { return nudged_.exchange(false, std::memory_order_seq_cst); }
  bool empty() const { return nodes_.empty(); }
  bool has_news() const { return !nodes_.empty() || nudged_.load(std::memory_order_seq_cst); }
  /// Until there is news, or for timeout_us (-1: no limit). May return early.
  void sleep_us(int64_t timeout_us) {
    parker_.announce();
    if (has_news()) return parker_.stay();
    parker_.park(timeout_us);
  }

 protected:  // for the tests, which get it wrong
  Parker<Sync> parker_;
  Stack<Node, Sync> nodes_;
  typename Sync::template Atomic<bool> nudged_{false};
};

}  // namespace aiocann::core
