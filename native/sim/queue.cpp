// queue.cpp: blocks of tasks, handed back and forth between the two ends.
#include "sim/queue.hpp"

namespace aiocann::sim {

void TaskQueue::grow() {
  Block *block = spare_.exchange(nullptr, std::memory_order_acquire);
  if (block == nullptr) block = new Block;
  block->next = nullptr;
  if (tail_ == nullptr)
    head_ = block;  // seen by the consumer through the stream's count of tasks
  else
    tail_->next = block;
  tail_ = block;
  tail_index_ = 0;
}

void TaskQueue::advance() {
  Block *finished = head_;
  head_ = finished->next;
  head_index_ = 0;
  delete spare_.exchange(finished, std::memory_order_acq_rel);
}

void TaskQueue::clear() {
  for (Block *block = head_; block != nullptr;) {
    Block *next = block->next;
    delete block;
    block = next;
  }
  delete spare_.exchange(nullptr);
  head_ = tail_ = nullptr;
  head_index_ = tail_index_ = 0;
}

TaskQueue::~TaskQueue() { clear(); }

}  // namespace aiocann::sim
