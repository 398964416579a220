// memory.hpp: blocks of memory with two counts. Handles are what users hold; references are handles, uses by
// ops, and places in a lane's inbox. Memory goes back to its pool by way of its lane: releasing takes no lock.
#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <shared_mutex>

#include "aiocann.h"
#include "core/op.hpp"

namespace aiocann::core {

struct Block;  // of a pool

enum class MemKind : uint8_t { kPool, kPinned, kWrapped, kInternal };

}  // namespace aiocann::core

struct aiocann_mem {
 public:
  using Stream = aiocann::core::Stream;

  /// One handle. dev is null for pinned memory.
  aiocann_mem(aiocann::core::MemKind mem_kind, aiocann::core::Runtime *rt,
              aiocann::core::Device *dev, uint64_t size);

  void retain_handle();
  void release_handle();
  /// A use by an op. stream: in whose order (null: none).
  void use(const Stream *stream);
  /// Only the stream part of use().
  void note_stream(const Stream *stream);
  void release();
  /// For a memory found by address: false when it is already on its way out.
  bool try_use();

  /// Ok, or that the reset of its device has taken it.
  aiocann::core::Status gone() const;

  bool is_device() const { return device != nullptr; }
  /// The one stream that has used it, 0 when none, kManyStreams when several.
  uint64_t only_stream() const { return stream_id_.load(std::memory_order_acquire); }
  static constexpr uint64_t kManyStreams = UINT64_MAX;

  const aiocann::core::MemKind kind;
  aiocann::core::Runtime *const runtime;  ///< Owns: one reference
  aiocann::core::Device *const device;
  const uint64_t nbytes;
  uint32_t epoch = 0;  ///< of the device when it was asked for
  std::atomic<uint64_t> address{0};
  /// Of the device's pool, or of the runtime's of pinned memory. Thread: the lane of device, or whoever makes the mem.
  aiocann::core::Block *block = nullptr;
  uint64_t wanted_by_stream = 0;  ///< allocate(stream=): may get a block still in use there
  bool lent = false;  ///< the pool knows that no user refers to it. Thread: the lane of device

 private:
  friend class aiocann::core::Lane;
  ~aiocann_mem();
  void uncount();
  aiocann::core::Command dropped_, unused_;
  std::atomic<uint32_t> handles_{1};
  std::atomic<uint32_t> references_{1};
  std::atomic<uint64_t> stream_id_{0};
};

namespace aiocann::core {

/// Pinned blocks by address. Lock: its own, a leaf; never taken by finalisers.
class PinnedMap {
 public:
  void add(Mem *mem);
  void remove(Mem *mem);
  /// The block that holds all of [host, host + nbytes), with a reference, or null.
  Mem *find(const void *host, uint64_t nbytes) const;

 private:
  mutable std::shared_mutex mutex_;
  std::map<uint64_t, Mem *> by_address_;
  std::atomic<uint32_t> size_{0};
};

}  // namespace aiocann::core
