#include "core/loop.hpp"

#include <sched.h>
#include <unistd.h>

#include "core/op.hpp"
#include "core/stack.hpp"

using aiocann::core::Delivery;
using aiocann::core::Stack;

void Delivery::discard() {
  aiocann_loop *to = loop;
  loop = nullptr;
  if (embedded_in != nullptr) {
    embedded_in->release();
  } else {
    delete this;
  }
  if (to != nullptr) to->release();
}

aiocann_loop::aiocann_loop(int fd) : fd_(fd), head_(fd >= 0 ? armed_mark() : nullptr) {}

aiocann_loop::~aiocann_loop() {
  if (heir_ != nullptr) heir_->release();
}

void aiocann_loop::release() {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

bool aiocann_loop::push(Delivery *node) {
  Delivery *head = head_.load(std::memory_order_acquire);
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
      wakes_.fetch_add(1, std::memory_order_relaxed);  // before: who is woken finds itself counted
      const uint64_t one = 1;
      // Fails only when the counter is full, and then the loop is awake anyway.
      [[maybe_unused]] const ssize_t written = ::write(fd_, &one, sizeof one);
      writers_.fetch_sub(1, std::memory_order_seq_cst);
      return true;
    }
    if (wakes) writers_.fetch_sub(1, std::memory_order_seq_cst);
  }
}

bool aiocann_loop::forward(Delivery *node) {
  if (heir_ == nullptr) {
    node->discard();
    return false;
  }
  aiocann_loop *from = node->loop;
  heir_->retain();
  node->loop = heir_;
  const bool woke = heir_->push(node);
  from->release();
  return woke;
}

int32_t aiocann_loop::drain(uint64_t *ids, int32_t max) {
  int32_t count = 0;
  while (count < max) {
    if (pending_ == nullptr) {
      Delivery *head = head_.load(std::memory_order_acquire);
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
      pending_ = Stack<Delivery>::reversed(head);
    }
    Delivery *node = pending_;
    pending_ = node->next;
    ids[count++] = node->id;
    node->discard();
  }
  return count;
}

bool aiocann_loop::linger() {
  if (pending_ != nullptr) return true;
  // Not armed meanwhile: who delivers need not write the eventfd.
  Delivery *head = armed_mark();
  if (!head_.compare_exchange_strong(head, nullptr, std::memory_order_seq_cst))
    return !is_mark(head);
  if (spin_.wait([this] { return head_.load(std::memory_order_acquire) != nullptr; })) return true;
  head = nullptr;
  return !head_.compare_exchange_strong(head, armed_mark(), std::memory_order_seq_cst);
}

void aiocann_loop::close(aiocann_loop *heir) {
  if (head_.load(std::memory_order_acquire) == closed_mark()) return;
  if (heir != nullptr && heir != this) {
    heir->retain();
    heir_ = heir;
  }
  Delivery *head = head_.exchange(closed_mark(), std::memory_order_seq_cst);
  while (writers_.load(std::memory_order_seq_cst) != 0) sched_yield();
  Delivery *node = pending_;
  pending_ = nullptr;
  for (int part = 0; part < 2; ++part) {
    while (node != nullptr) {
      Delivery *next = node->next;
      forward(node);
      node = next;
    }
    node = is_mark(head) ? nullptr : Stack<Delivery>::reversed(head);
    head = nullptr;
  }
}

extern "C" {

aiocann_loop *aiocann_loop_create(int fd) { return new aiocann_loop(fd); }

int32_t aiocann_loop_drain(aiocann_loop *loop, uint64_t *ids, int32_t max) {
  return loop->drain(ids, max);
}

int32_t aiocann_loop_linger(aiocann_loop *loop) { return loop->linger() ? 1 : 0; }

void aiocann_loop_close(aiocann_loop *loop, aiocann_loop *heir) { loop->close(heir); }

void aiocann_loop_release(aiocann_loop *loop) {
  // Whatever still comes has no reader; closing also ends the use of the caller's eventfd.
  loop->close(nullptr);
  loop->release();
}

uint64_t aiocann_loop_wakes(const aiocann_loop *loop) { return loop->wakes(); }

}  // extern "C"
