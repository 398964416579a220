// arena.hpp: the memory of one device (or the pinned host memory): one reserved address range, handed out in pages.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <shared_mutex>
#include <utility>

#include "sim/written.hpp"

namespace aiocann::sim {

constexpr uint64_t kHugePage = 2ull << 20;
constexpr uint64_t kGiantPage = 1ull << 30;
constexpr uint64_t kSmallPage = 4096;

/// Fresh private memory in place of whatever is mapped there.
void map_private(void *begin, uint64_t bytes);

/// Memory is accounted in pages of its policy and taken from address ranges kept apart by size: blocks of huge
/// pages from one list, blocks of small pages from huge pages cut up. Freed memory stays mapped and is handed out
/// again before untouched memory is; large amounts of it are given back to the system.
class Arena {
 public:
  enum class Check {
    kInside,  ///< within one live block
    kPadding,  ///< reaches into the bytes that the driver adds to a block: harmless here, a bug in the program
    kOutside,  ///< not within one live block
  };

  explicit Arena(int device) : device_(device) {}
  virtual ~Arena() = default;

  /// Reserves addresses for `bytes` of memory, at `wanted` if they are free there. False when the system refuses. Only
  /// while no block is live.
  bool reserve(uint64_t bytes, uintptr_t wanted = 0);
  void unreserve();
  bool is_reserved() const { return base_ != 0; }
  uint64_t capacity() const { return capacity_; }

  /// `size` bytes were asked for, `padded` are usable; `for_peers`: by a policy that says so. nullptr: not enough
  /// memory.
  void *allocate(uint64_t size, uint64_t padded, uint64_t page, bool for_peers = false);
  /// False when no block starts at `pointer`.
  bool free(void *pointer);
  void free_all();

  bool contains(const void *pointer) const {
    const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
    return address - base_ < span_;
  }
  /// Is [pointer, pointer + bytes) memory that is in use? Fast for blocks that this thread asked about lately.
  virtual Check check(const void *pointer, uint64_t bytes) const;
  /// A block in use, as programs may ask about it.
  struct BlockInfo {
    uintptr_t begin;
    uint64_t size;  ///< as asked for
    uint64_t page;
    bool is_managed;
    bool for_peers = false;
  };
  /// The block that holds `pointer`. False: none.
  virtual bool find_block(const void *pointer, BlockInfo *info) const;
  /// The block is memory that host and device share: only its description changes.
  void mark_managed(void *pointer);
  /// Moves the block that holds `pointer` to a file that other processes can map, at the same address, if it is not
  /// there yet. -1: no such block, or the system refuses. The descriptor stays the block's.
  int share_block(const void *pointer, uintptr_t *begin);

  /// Counts memory that is used without being a block of this arena. False: there is not so much.
  bool account(uint64_t bytes);
  void unaccount(uint64_t bytes);

  /// Strict mode: what was written of it. Open from reserve() on where that is asked for.
  WrittenMap written;
  /// Before reserve(), or on a reserved arena without live blocks.
  void track_writes(bool on);

  int device() const { return device_; }
  /// Addresses alone, in whole huge pages, that are no block. nullptr: none are left.
  void *take_addresses(uint64_t bytes);
  /// These; false when they are not free.
  bool take_addresses_at(void *begin, uint64_t bytes);
  void give_back_addresses(void *begin, uint64_t bytes);
  uint64_t used_bytes() const { return used_.load(std::memory_order_relaxed); }  ///< in whole pages
  uint64_t live_blocks() const { return live_blocks_.load(std::memory_order_relaxed); }

 private:
  struct Block {
    uint64_t size, padded, extent, page;
    bool for_peers = false;
    bool is_managed = false;
    int shared_fd = -1;
  };
  /// Free address ranges, by address (to merge) and by size (to choose).
  class FreeList {
   public:
    void add(uintptr_t begin, uint64_t bytes, std::pair<uintptr_t, uint64_t> *merged = nullptr);
    /// The smallest range that fits, lowest address first. 0: none.
    uintptr_t take(uint64_t bytes, uint64_t alignment);
    /// These; false when a part of them is not free.
    bool take_at(uintptr_t begin, uint64_t bytes);
    void clear();

   private:
    void erase(std::map<uintptr_t, uint64_t>::iterator range);
    std::map<uintptr_t, uint64_t> by_address_;
    std::set<std::pair<uint64_t, uintptr_t>> by_size_;
  };

  uintptr_t take_extent(uint64_t bytes, uint64_t page);
  bool commit(uintptr_t end);
  void give_back(uintptr_t begin, uint64_t bytes);
  void take_back_sharing(uintptr_t begin, const Block &block);

  const int device_;
  uintptr_t base_ = 0;
  uint64_t span_ =
      0;  ///< reserved addresses; more than the capacity, so that fragments do not matter
  uint64_t capacity_ = 0;    ///< bytes of memory
  uintptr_t committed_ = 0;  ///< addresses below are readable and writable

  mutable std::shared_mutex mutex_;
  std::map<uintptr_t, Block> blocks_;
  FreeList huge_, small_;
  uint64_t idle_touched_ = 0;  ///< bytes in free huge ranges that may be resident
  std::atomic<uint64_t> used_{0};
  std::atomic<uint64_t> live_blocks_{0};
  /// Bumped when a block is freed: what threads remember of blocks is void then.
  std::atomic<uint64_t> version_{1};
};

}  // namespace aiocann::sim
