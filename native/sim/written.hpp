// written.hpp: which granules of a memory range were ever written. For strict mode.
#pragma once
#include <atomic>
#include <cstdint>

namespace aiocann::sim {

/// One bit for each granule of 32 bytes; a granule that is written in part counts as written. Any thread may mark
/// and look at once; a block is forgotten only while nobody has it.
class WrittenMap {
 public:
  static constexpr uint64_t kGranule = 32;

  ~WrittenMap() { close(); }
  WrittenMap() = default;
  WrittenMap(const WrittenMap &) = delete;
  WrittenMap &operator=(const WrittenMap &) = delete;

  /// Everything counts as never written. False: no address space; then nothing is tracked.
  bool open(uintptr_t base, uint64_t bytes);
  void close();
  bool is_open() const { return words_ != nullptr; }

  void mark(uintptr_t begin, uint64_t bytes);
  void forget(uintptr_t begin, uint64_t bytes);
  /// The first address in the range that was never written, 0: none.
  uintptr_t first_unwritten(uintptr_t begin, uint64_t bytes) const;

 private:
  /// Calls visit(word, mask) for each word of the map that has bits of the range; stops when it returns false. What
  /// lies beyond the map is left out: a task that failed may have named anything.
  template <class Visit>
  void visit(uintptr_t begin, uint64_t bytes, Visit &&visit) const;

  std::atomic<uint64_t> *words_ = nullptr;
  uint64_t map_bytes_ = 0, span_ = 0;
  uintptr_t base_ = 0;
};

}  // namespace aiocann::sim
