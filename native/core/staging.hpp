// staging.hpp: pinned memory through which ordinary host memory travels: chunks of 4 MiB for large copies, slots
// of 64 KiB for small ones.
//
// Fairness: up to kShared pieces are for whoever asks first, at most kPerStream of them for one stream; and a stream
// that holds none always gets one, so streams that are stuck can never keep the others waiting.
#pragma once
#include <atomic>
#include <cstdint>

#include "core/op.hpp"

namespace aiocann::core {

class Lane;
class Staging;

struct Chunk {
  Chunk *next = nullptr;
  Staging *home = nullptr;
  char *base = nullptr;
  Stream *held_by = nullptr;  ///< Owns: one reference
  char *owned = nullptr;      ///< the driver's allocation that starts here, if one does

  /// Gives it back. Thread: any; lock-free.
  void release();
};

class Staging {
 public:
  Staging(Lane *lane, uint64_t piece_bytes, uint32_t pieces_per_allocation, uint32_t shared,
          uint32_t per_stream, uint32_t Stream::*held);
  static constexpr uint64_t kChunkBytes = uint64_t{4} << 20;
  static constexpr uint64_t kSlotBytes = uint64_t{64} << 10;

  /// A piece for stream, or null: then either *failure is set, or the stream will be poked. Thread: lane.
  Chunk *take(Stream *stream, Status *failure);
  /// Streams that may try again. Thread: lane.
  void wake_waiters();
  /// Gives the driver the allocations that no stream holds a piece of. True: there was one. Thread: lane.
  bool trim();
  /// All pieces are back: gives them to the driver. Thread: lane, when closing.
  void close();
  /// A piece came back while the lane was idle. Thread: any.
  void freed(Chunk *chunk);

 private:
  void collect();
  Lane *const lane_;
  const uint64_t piece_bytes_;
  const uint32_t per_allocation_, shared_, per_stream_;
  uint32_t Stream::*const held_;
  Chunk *free_ = nullptr;
  uint32_t in_use_ = 0;
  Stack<Chunk> freed_;
  std::atomic<bool> starved_{false};
  std::vector<Stream *> waiters_;  ///< Owns: a reference each
  std::vector<Chunk *> all_;
};

}  // namespace aiocann::core
