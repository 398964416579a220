// slots.hpp: handles. Objects of one type at fixed places of one reserved range, never given back to the heap.
#pragma once
#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <new>

/// There when the program was made with AddressSanitizer, also where this library was not.
extern "C" __attribute__((weak)) void __lsan_register_root_region(const void *begin, size_t size);

namespace aiocann::sim {

/// Handles given to programs are addresses of slots. A stale or foreign handle is recognised instead of being
/// followed: `find` answers whether an address is a slot, and the slot itself says whether it is alive. A slot
/// is taken again as late as possible, so that a stale handle or id rarely meets a new object.
template <class T>
class SlotTable {
 public:
  explicit SlotTable(uint32_t capacity) : capacity_(capacity) {}
  SlotTable(const SlotTable &) = delete;
  SlotTable &operator=(const SlotTable &) = delete;

  /// nullptr when `limit` objects are alive (or no address space is left). The object is as its last user left it.
  T *acquire(uint32_t limit) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (live_ >= limit || live_ >= capacity_ || !reserve()) return nullptr;
    T *slot = nullptr;
    if (fresh_ < capacity_ && (free_.empty() || fresh_ < limit)) {
      slot = new (slots_ + fresh_) T();
      slot->slot_index = fresh_++;
    } else {
      slot = slots_ + free_.front();
      free_.pop_front();
    }
    ++live_;
    return slot;
  }

  void release(T *slot) {
    std::lock_guard<std::mutex> lock(mutex_);
    free_.push_back(slot->slot_index);
    --live_;
  }

  /// The slot at `handle`, alive or not; nullptr when no slot was ever there.
  T *find(const void *handle) const {
    const uintptr_t base = reinterpret_cast<uintptr_t>(slots_.load());
    const uintptr_t address = reinterpret_cast<uintptr_t>(handle);
    if (base == 0 || address < base) return nullptr;
    const uintptr_t offset = address - base;
    if (offset % sizeof(T) != 0 || offset / sizeof(T) >= fresh_.load()) return nullptr;
    return slots_.load() + offset / sizeof(T);
  }

  uint32_t live() const { return live_.load(); }
  /// Slots that have been constructed: 0 .. used() - 1 may be looked at with at().
  uint32_t used() const { return fresh_.load(); }
  T *at(uint32_t index) const { return slots_.load() + index; }

 private:
  bool reserve() {
    if (slots_.load() != nullptr) return true;
    void *range = mmap(nullptr, sizeof(T) * size_t{capacity_}, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) return false;
    slots_ = static_cast<T *>(range);
    if (__lsan_register_root_region != nullptr)  // slots own heap memory
      __lsan_register_root_region(range, sizeof(T) * size_t{capacity_});
    return true;
  }

  const uint32_t capacity_;
  std::mutex mutex_;
  std::atomic<T *> slots_{nullptr};
  std::atomic<uint32_t> fresh_{0};
  std::atomic<uint32_t> live_{0};
  std::deque<uint32_t> free_;
};

}  // namespace aiocann::sim
