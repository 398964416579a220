#include "core/copier.hpp"

#include <algorithm>
#include <cstring>

#include "core/blocks.hpp"
#include "core/device.hpp"
#include "core/lane.hpp"
#include "core/parker.hpp"
#include "core/stream.hpp"

namespace aiocann::core {

void from_host(const Op *copy, uint64_t offset, uint64_t nbytes, char *staging) {
  if (copy->blocks != 0)
    return pack_blocks(copy->blocks, copy->nbytes, copy->src.host, offset, nbytes, staging);
  std::memcpy(staging, copy->src.host + offset, nbytes);
}

void to_host(const Op *copy, const char *staging, uint64_t offset, uint64_t nbytes) {
  if (copy->blocks != 0)
    return unpack_blocks(copy->blocks, copy->nbytes, staging, offset, nbytes, copy->dst.host);
  std::memcpy(copy->dst.host + offset, staging, nbytes);
}

void Copiers::start() {
  for (int i = 0; i < kThreads; ++i) {
    threads_.emplace_back([this] {
      name_thread("aiocann-copier");
      run();
    });
  }
}

void Copiers::stop() {
  {
    std::lock_guard<std::mutex> guard(mutex_);
    stopping_ = true;
  }
  ready_.notify_all();
  for (std::thread &thread : threads_) thread.join();
  threads_.clear();
  Op *left = nullptr;
  {
    std::lock_guard<std::mutex> guard(mutex_);
    left = first_;
    first_ = nullptr;
  }
  while (Op *part = left) {
    left = part->work_next;
    drop_part(part);
  }
}

void Copiers::push(Op *part) {
  {
    std::unique_lock<std::mutex> guard(mutex_);
    if (stopping_) {
      guard.unlock();
      return drop_part(part);  // its copy is given up, as the runtime closes
    }
    part->work_next = nullptr;
    (first_ != nullptr ? last_->work_next : first_) = part;
    last_ = part;
  }
  ready_.notify_one();
}

void Copiers::run() {
  std::unique_lock<std::mutex> guard(mutex_);
  for (;;) {
    ready_.wait(guard, [this] { return stopping_ || first_ != nullptr; });
    if (stopping_) return;
    Op *part = first_;
    first_ = part->work_next;
    guard.unlock();
    work(part);
    guard.lock();
  }
}

void Copiers::work(Op *part) {
  Op *parent = part->parent;
  switch (part->kind) {
    case OpKind::kChunkToDevice:
      from_host(parent, part->assigned, part->nbytes, part->chunk->base);
      part->stream->device->lane->push_or_drop(part);
      return;
    case OpKind::kChunkToHost: {
      to_host(parent, part->chunk->base, part->assigned, part->nbytes);
      part->chunk->release();
      part->chunk = nullptr;
      Settler settler;
      part->stream->host_part_done(parent, settler);
      part->release();
      return;
    }
    case OpKind::kHostSlices: {
      const uint64_t slice = part->nbytes;
      uint64_t offset = parent->host_cursor.fetch_add(slice, std::memory_order_relaxed);
      if (offset < parent->nbytes) {
        const uint64_t bytes = std::min(slice, parent->nbytes - offset);
        // Both sides may overlap: no slice is written before it has been read.
        if (parent->src.host < parent->dst.host) offset = parent->nbytes - offset - bytes;
        std::memmove(parent->dst.host + offset, parent->src.host + offset, bytes);
        push(part);
        return;
      }
      part->stream->device->lane->push_or_drop(part);
      return;
    }
    default:
      return;
  }
}

}  // namespace aiocann::core
