// notify.hpp: notifies: one record lets one wait pass.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>

#include "sim/gate.hpp"
#include "sim/shared.hpp"

namespace aiocann::sim {

struct Device;

/// A slot of the device's table of notifies, kept by its handle and by the tasks that refer to it.
struct Notify {
  void retain() { refs.fetch_add(1, std::memory_order_relaxed); }
  void release();
  /// Thread: a worker.
  void set();
  /// True: it was set, and is not any more.
  bool take();
  void clear() { word().store(0); }
  bool is_shared() const { return header.load() != nullptr; }
  /// From now on the word is the block's. Once in a life, under the lock of whoever makes or exports it.
  void share(std::shared_ptr<SharedBlock> block, bool is_import);

  uint32_t slot_index = 0;
  std::atomic<bool> alive{false};
  std::atomic<uint32_t> refs{0};
  Device *device = nullptr;
  Gate gate;  ///< opened by every set, so that the streams that wait look again
  std::atomic<uint32_t> own_word{0};
  std::shared_ptr<SharedBlock> shared;  ///< exported or imported: processes share the word
  std::atomic<SharedBlock::Header *> header{nullptr};  ///< of `shared`, for workers

 private:
  std::atomic<uint32_t> &word() {
    SharedBlock::Header *const own = header.load();
    return own != nullptr ? own->word : own_word;
  }
};

}  // namespace aiocann::sim
