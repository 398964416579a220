#include "core/memory.hpp"

#include "core/device.hpp"
#include "core/driver.hpp"
#include "core/lane.hpp"
#include "core/runtime.hpp"
#include "core/stream.hpp"

using namespace aiocann::core;

aiocann_mem::aiocann_mem(MemKind mem_kind, Runtime *rt, Device *dev, uint64_t size)
    : kind(mem_kind), runtime(rt), device(dev), nbytes(size) {
  dropped_.kind = CommandKind::kMemDropped;
  dropped_.owner = this;
  unused_.kind = CommandKind::kMemUnused;
  unused_.owner = this;
  if (device != nullptr) epoch = device->epoch();
  runtime->retain();
  if (kind != MemKind::kInternal) add(runtime->counters.live_buffers);
}

aiocann_mem::~aiocann_mem() { runtime->release(); }

void aiocann_mem::uncount() {
  if (kind != MemKind::kInternal) subtract(runtime->counters.live_buffers);
  if (kind == MemKind::kPinned) subtract(runtime->counters.pinned_bytes, nbytes);
}

Status aiocann_mem::gone() const {
  if (device == nullptr || epoch == device->epoch()) return Status::ok();
  return Status::error(AIOCANN_E_CLOSED,
                       "%llu bytes of memory are closed: device %d was reset, which took them.",
                       static_cast<unsigned long long>(nbytes), device->index);
}

void aiocann_mem::retain_handle() {
  handles_.fetch_add(1, std::memory_order_relaxed);
  references_.fetch_add(1, std::memory_order_relaxed);
}

void aiocann_mem::release_handle() {
  if (handles_.fetch_sub(1, std::memory_order_acq_rel) == 1 && device != nullptr &&
      kind != MemKind::kWrapped && references_.load(std::memory_order_acquire) > 1) {
    // Ops still use it: its pool may lend the block to the stream in whose order they are.
    references_.fetch_add(1, std::memory_order_relaxed);
    if (!device->lane->push(&dropped_)) release();
  }
  release();
}

void aiocann_mem::use(const Stream *stream) {
  references_.fetch_add(1, std::memory_order_relaxed);
  if (stream != nullptr) note_stream(stream);
}

void aiocann_mem::note_stream(const Stream *stream) {
  uint64_t seen = 0;
  if (!stream_id_.compare_exchange_strong(seen, stream->id, std::memory_order_acq_rel) &&
      seen != stream->id) {
    stream_id_.store(kManyStreams, std::memory_order_release);
  }
}

bool aiocann_mem::try_use() {
  uint32_t count = references_.load(std::memory_order_relaxed);
  while (count != 0) {
    if (references_.compare_exchange_weak(count, count + 1, std::memory_order_acq_rel)) return true;
  }
  return false;
}

void aiocann_mem::release() {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (kind != MemKind::kWrapped) {
    Lane *lane = device != nullptr ? device->lane.get() : runtime->any_lane();
    if (lane != nullptr && lane->push(&unused_)) return;
    // The runtime is closed: device memory went with it. Pinned memory waits for the driver's next runtime.
    if (kind == MemKind::kPinned) {
      uncount();
      runtime->driver().left_pinned.push(&unused_);
      return;
    }
  }
  uncount();
  delete this;
}

namespace aiocann::core {

void PinnedMap::add(Mem *mem) {
  std::unique_lock<std::shared_mutex> guard(mutex_);
  by_address_.emplace(mem->address.load(), mem);
  size_.store(static_cast<uint32_t>(by_address_.size()), std::memory_order_release);
}

void PinnedMap::remove(Mem *mem) {
  std::unique_lock<std::shared_mutex> guard(mutex_);
  by_address_.erase(mem->address.load());
  size_.store(static_cast<uint32_t>(by_address_.size()), std::memory_order_release);
}

Mem *PinnedMap::find(const void *host, uint64_t nbytes) const {
  if (size_.load(std::memory_order_acquire) == 0) return nullptr;
  const auto address = reinterpret_cast<uint64_t>(host);
  std::shared_lock<std::shared_mutex> guard(mutex_);
  auto found = by_address_.upper_bound(address);
  if (found == by_address_.begin()) return nullptr;
  Mem *mem = (--found)->second;
  const uint64_t offset = address - found->first;
  // Only what was asked for: the rounding behind it is not ours to give.
  if (offset > mem->nbytes || nbytes > mem->nbytes - offset) return nullptr;
  return mem->try_use() ? mem : nullptr;
}

}  // namespace aiocann::core

extern "C" {

uint64_t aiocann_mem_address(const aiocann_mem *mem) {
  return mem->address.load(std::memory_order_acquire);
}

uint64_t aiocann_mem_nbytes(const aiocann_mem *mem) { return mem->nbytes; }

aiocann_device *aiocann_mem_device(const aiocann_mem *mem) { return mem->device; }

void aiocann_mem_retain(aiocann_mem *mem) { mem->retain_handle(); }

void aiocann_mem_release(aiocann_mem *mem) { mem->release_handle(); }

}  // extern "C"
