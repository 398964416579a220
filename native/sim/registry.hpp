// registry.hpp: ordinary host memory that a program has registered: pinned, as far as copies are concerned.
#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>

namespace aiocann::sim {

class HostRegistry {
 public:
  /// False: a part of it is registered already.
  bool add(const void *pointer, uint64_t bytes) {
    const uintptr_t begin = reinterpret_cast<uintptr_t>(pointer);
    std::lock_guard<std::mutex> lock(mutex_);
    const auto next = ranges_.lower_bound(begin);
    if (next != ranges_.end() && next->first < begin + bytes) return false;
    if (holds(begin)) return false;
    ranges_[begin] = bytes;
    n_ranges_.store(ranges_.size());
    return true;
  }
  /// False: nothing that starts there is registered.
  bool remove(const void *pointer) {
    std::lock_guard<std::mutex> lock(mutex_);
    const bool removed = ranges_.erase(reinterpret_cast<uintptr_t>(pointer)) != 0;
    n_ranges_.store(ranges_.size());
    return removed;
  }
  bool contains(const void *pointer) const {
    if (n_ranges_.load() == 0) return false;
    std::lock_guard<std::mutex> lock(mutex_);
    return holds(reinterpret_cast<uintptr_t>(pointer));
  }

 private:
  bool holds(uintptr_t address) const {
    auto range = ranges_.upper_bound(address);
    if (range == ranges_.begin()) return false;
    --range;
    return address - range->first < range->second;
  }

  mutable std::mutex mutex_;
  std::map<uintptr_t, uint64_t> ranges_;
  std::atomic<uint64_t> n_ranges_{0};
};

}  // namespace aiocann::sim
