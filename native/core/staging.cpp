#include "core/staging.hpp"

#include <algorithm>

#include "core/lane.hpp"
#include "core/runtime.hpp"
#include "core/stream.hpp"

namespace aiocann::core {

void Chunk::release() { home->freed(this); }

Staging::Staging(Lane *lane, uint64_t piece_bytes, uint32_t pieces_per_allocation, uint32_t shared,
                 uint32_t per_stream, uint32_t Stream::*held)
    : lane_(lane),
      piece_bytes_(piece_bytes),
      per_allocation_(pieces_per_allocation),
      shared_(shared),
      per_stream_(per_stream),
      held_(held) {}

void Staging::freed(Chunk *chunk) {
  if (!freed_.push(chunk)) return;  // the lane has ended; the memory went with it, or is leaked
  if (starved_.load(std::memory_order_seq_cst)) lane_->nudge();
}

void Staging::collect() {
  for (Chunk *chunk = freed_.take(); chunk != nullptr;) {
    Chunk *next = chunk->next;
    --(chunk->held_by->*held_);
    chunk->held_by->release();
    chunk->held_by = nullptr;
    --in_use_;
    chunk->next = free_;
    free_ = chunk;
    chunk = next;
  }
}

Chunk *Staging::take(Stream *stream, Status *failure) {
  // seq_cst: either we see what is freed from now on, or who frees it sees that we are starved.
  for (bool announced = false;; announced = true) {
    collect();
    if (stream->*held_ == 0 || (in_use_ < shared_ && stream->*held_ < per_stream_)) break;
    if (announced) {
      if (std::find(waiters_.begin(), waiters_.end(), stream) == waiters_.end()) {
        stream->retain();
        waiters_.push_back(stream);
      }
      return nullptr;
    }
    starved_.store(true, std::memory_order_seq_cst);
  }
  if (free_ == nullptr) {
    void *base = nullptr;
    *failure = lane_->pinned(piece_bytes_ * per_allocation_, &base);
    if (!failure->is_ok()) return nullptr;
    for (uint32_t i = per_allocation_; i-- > 0;) {
      auto *chunk = new Chunk;
      chunk->home = this;
      chunk->base = static_cast<char *>(base) + i * piece_bytes_;
      chunk->owned = i == 0 ? chunk->base : nullptr;
      chunk->next = free_;
      free_ = chunk;
      all_.push_back(chunk);
    }
  }
  Chunk *chunk = free_;
  free_ = chunk->next;
  stream->retain();
  chunk->held_by = stream;
  ++(stream->*held_);
  ++in_use_;
  return chunk;
}

void Staging::wake_waiters() {
  if (waiters_.empty()) return;
  collect();
  starved_.store(false, std::memory_order_seq_cst);
  // Those that find nothing queue up again, behind the others.
  std::vector<Stream *> waiters;
  waiters.swap(waiters_);
  for (Stream *stream : waiters) {
    lane_->make_ready(stream);
    stream->release();
  }
}

bool Staging::trim() {
  collect();
  // In all_, the pieces of an allocation follow each other.
  std::vector<Chunk *> left;
  for (size_t first = 0; first < all_.size(); first += per_allocation_) {
    const auto begin = all_.begin() + static_cast<ptrdiff_t>(first), end = begin + per_allocation_;
    if (std::any_of(begin, end, [](const Chunk *chunk) { return chunk->held_by != nullptr; })) {
      left.insert(left.end(), begin, end);
      continue;
    }
    for (auto chunk = begin; chunk != end; ++chunk) {
      if ((*chunk)->owned != nullptr) lane_->unpin((*chunk)->owned);
      delete *chunk;
    }
  }
  const bool some = left.size() < all_.size();
  all_.swap(left);
  free_ = nullptr;
  for (Chunk *chunk : all_) {
    if (chunk->held_by != nullptr) continue;
    chunk->next = free_;
    free_ = chunk;
  }
  return some;
}

void Staging::close() {
  collect();
  for (Stream *stream : waiters_) stream->release();
  waiters_.clear();
  freed_.close();
  if (in_use_ > 0) return;  // something is stuck: all of it is leaked
  for (Chunk *chunk : all_) {
    if (chunk->owned != nullptr) lane_->unpin(chunk->owned);
  }
  for (Chunk *chunk : all_) delete chunk;
  all_.clear();
  free_ = nullptr;
}

}  // namespace aiocann::core
