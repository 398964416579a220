// lane_memory.cpp: what a lane does for memory: growing the pool, pinned blocks, giving back, and requests of
// other lanes.
#include <time.h>

#include <algorithm>

#include "core/device.hpp"
#include "core/driver.hpp"
#include "core/graph_op.hpp"
#include "core/lane.hpp"
#include "core/memory.hpp"
#include "core/runtime.hpp"
#include "core/stream.hpp"

namespace aiocann::core {
namespace {

/// What small blocks of pinned memory are cut from.
constexpr uint64_t kPinnedSegmentBytes = uint64_t{2} << 20;
/// Beyond so much, pinned memory that nobody uses goes back to the driver: the whole machine may lack it.
constexpr uint64_t kIdlePinnedBytes = uint64_t{256} << 20;

}  // namespace

Status Lane::allocate(Mem *mem, uint64_t stream, Pool::By by) {
  if (Status status = mem->gone(); !status.is_ok()) return status;
  Pool &pool = device_->pool;
  int32_t code = 0;
  // More than once only when another thread takes what this one has just made.
  for (int attempt = 0; attempt < 16; ++attempt) {
    if (Block *block = pool.take(mem->nbytes, stream, by)) {
      mem->block = block;
      mem->address.store(block->address(), std::memory_order_release);
      return Status::ok();
    }
    const uint64_t exact =
        (Pool::rounded(mem->nbytes) + Pool::kHugePage - 1) / Pool::kHugePage * Pool::kHugePage;
    bool grown = false;
    for (int round = 0; round < 2 && !grown; ++round) {
      for (uint64_t bytes : {Pool::segment_bytes(mem->nbytes), exact}) {
        void *address = nullptr;
        code = lent([&] { return api_->aclrtMalloc(&address, bytes, ACL_MEM_MALLOC_HUGE_FIRST); });
        if (code == 0) {
          pool.add_segment(reinterpret_cast<uint64_t>(address), bytes);
          grown = true;
          break;
        }
      }
      if (grown || round > 0) break;
      // Out of memory: what the pools keep for nothing goes back to the driver, then once more. (Pinned memory is
      // the device's own where host and device share theirs.)
      const std::vector<uint64_t> empty = pool.remove_segments(false);
      for (uint64_t address : empty) {
        lent([&] { return api_->aclrtFree(reinterpret_cast<void *>(address)); });
      }
      if (!trim_pinned() && empty.empty()) break;
    }
    if (!grown) break;
  }
  const Status cause = driver_error(code, "aclrtMalloc");
  size_t free_bytes = 0, total = 0;
  lent([&] { return api_->aclrtGetMemInfo(kHbmMemory, &free_bytes, &total); });
  Status status = Status::error(
      AIOCANN_E_NO_MEMORY,
      "Device %d has no %llu bytes left: %llu of %llu bytes are free in the driver, and aiocann's "
      "pool holds %llu, "
      "of which %llu are in use. %s",
      device_->index, static_cast<unsigned long long>(mem->nbytes),
      static_cast<unsigned long long>(free_bytes), static_cast<unsigned long long>(total),
      static_cast<unsigned long long>(pool.reserved_bytes()),
      static_cast<unsigned long long>(pool.used_bytes()), cause.get()->detail);
  aiocann_error &error = status.mutate();
  error.device = device_->index;
  error.requested = mem->nbytes;
  error.free_bytes = free_bytes;
  error.total = total;
  error.reserved = pool.reserved_bytes();
  error.used = pool.used_bytes();
  snprintf(error.call, sizeof error.call, "aclrtMalloc");
  return status;
}

Status Lane::pinned(uint64_t nbytes, void **address) {
  const auto ask = [&] { return api_->aclrtMallocHost(address, nbytes); };
  int32_t code = lent(ask);
  if (code != 0 && trim_pinned()) code = lent(ask);
  if (code == 0) return Status::ok();
  const Status cause = driver_error(code, "aclrtMallocHost");
  Status status =
      Status::error(AIOCANN_E_NO_MEMORY, "The driver gave no %llu bytes of pinned host memory. %s",
                    static_cast<unsigned long long>(nbytes), cause.get()->detail);
  aiocann_error &error = status.mutate();
  error.requested = nbytes;
  error.used = runtime_->counters.pinned_bytes.load(std::memory_order_relaxed);
  snprintf(error.call, sizeof error.call, "aclrtMallocHost");
  return status;
}

Status Lane::pinned_block(uint64_t nbytes, Block **block) {
  Pool &pool = runtime_->pinned_pool;
  for (;;) {
    if ((*block = pool.take(nbytes, 0)) != nullptr) return Status::ok();
    void *address = nullptr;
    uint64_t bytes = std::max(kPinnedSegmentBytes, Pool::rounded(nbytes));
    Status status = pinned(bytes, &address);
    if (!status.is_ok() && bytes > Pool::rounded(nbytes)) {
      bytes = Pool::rounded(nbytes);
      status = pinned(bytes, &address);
    }
    if (!status.is_ok()) return status;
    // Another lane may be quicker than we to take it.
    pool.add_segment(reinterpret_cast<uint64_t>(address), bytes);
  }
}

bool Lane::trim_pinned() {
  const std::vector<uint64_t> empty = runtime_->pinned_pool.remove_segments(false);
  for (uint64_t address : empty) unpin(reinterpret_cast<void *>(address));
  const bool some_chunks = chunks_.trim(), some_slots = slots_.trim();
  return !empty.empty() || some_chunks || some_slots;
}

void Lane::free_left_pinned() {
  for (Command *command = runtime_->driver().left_pinned.take(); command != nullptr;) {
    Command *next = command->next;
    auto *mem = static_cast<Mem *>(command->owner);
    Pool &pool = mem->runtime->pinned_pool;
    pool.give_back(mem->block, false);
    // Refused: the driver has taken it back by itself, with what it was finalized with.
    for (uint64_t address : pool.remove_segments(false)) {
      api_->aclrtFreeHost(reinterpret_cast<void *>(address));
    }
    delete mem;
    command = next;
  }
}

void Lane::unpin(void *address) {
  const int32_t code = lent([&] { return api_->aclrtFreeHost(address); });
  // Nobody waits for it: closing tells.
  if (code != 0 && close_status_.is_ok()) close_status_ = driver_error(code, "aclrtFreeHost");
}

void Lane::drop_mem(Mem *mem) {
  if (mem->block != nullptr && !mem->lent) {
    mem->lent = true;
    const uint64_t stream = mem->only_stream();
    device_->pool.lend(mem->block, stream == Mem::kManyStreams ? 0 : stream,
                       mem->kind == MemKind::kInternal ? Pool::By::kLane : Pool::By::kUser);
  }
  mem->release();
}

void Lane::free_mem(Mem *mem) {
  if (mem->kind == MemKind::kPinned) {
    Pool &pool = runtime_->pinned_pool;
    runtime_->pinned.remove(mem);
    pool.give_back(mem->block, false);
    if (pool.reserved_bytes() - pool.used_bytes() > kIdlePinnedBytes) {
      for (uint64_t address : pool.remove_segments(false)) unpin(reinterpret_cast<void *>(address));
    }
  } else if (mem->block != nullptr) {
    device_->pool.give_back(mem->block, mem->lent);
  }
  mem->uncount();
  delete mem;
}

// ---- between lanes ---------------------------------------------------------------------------------------

bool Lane::ask(Device *other, Op *op) {
  op->requested.store(true, std::memory_order_relaxed);
  op->retain();
  if (other->lane->push(&op->request)) return true;
  op->requested.store(false, std::memory_order_relaxed);
  op->release();
  return false;
}

void Lane::answer_request(Op *op) {
  Status status;
  for (Side *side : {&op->dst, &op->src}) {
    Mem *mem = side->mem;
    if (mem == nullptr || mem->device != device_ ||
        mem->address.load(std::memory_order_acquire) != 0)
      continue;
    if (status.is_ok()) status = allocate(mem, 0, Pool::By::kLane);
  }
  if (status.is_ok() && op->plan == CopyPlan::kPeer) status = enable_peer(op->stream->device);
  op->request_status = status;
  op->requested.store(false, std::memory_order_release);
  op->stream->poke();
  op->release();
}

Status Lane::enable_peer(Device *other) {
  std::atomic<uint8_t> &state = device_->peer_state(other->position);
  if (state.load(std::memory_order_relaxed) == 1) return Status::ok();
  const int32_t code = lent([&] { return api_->aclrtDeviceEnablePeerAccess(other->index, 0); });
  state.store(code == 0 ? 1 : 2, std::memory_order_release);
  return code == 0 ? Status::ok() : driver_error(code, "aclrtDeviceEnablePeerAccess");
}

}  // namespace aiocann::core
