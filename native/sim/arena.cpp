// arena.cpp: reserving, handing out and looking up device memory.
#include "sim/arena.hpp"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>

#include "sim/moving.hpp"
#include "sim/shared.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(begin, bytes) ((void)(begin), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(begin, bytes) ((void)(begin), (void)(bytes))
#endif

namespace aiocann::sim {
namespace {

constexpr uint64_t kCommitStep = 64ull << 20;
constexpr uint64_t kKeepIdle = 2ull << 30;  ///< freed memory kept resident per arena

uint64_t round_up(uint64_t n, uint64_t step) { return (n + step - 1) / step * step; }

/// A block that this thread looked up: found again without the arena's lock while its version stands.
struct Remembered {
  const void *arena = nullptr;
  uint64_t version = 0;
  uintptr_t begin = 0;
  uint64_t size = 0, padded = 0;
};
constexpr size_t kRemembered = 8;
thread_local Remembered t_remembered[kRemembered];
thread_local uint32_t t_next_remembered = 0;

Arena::Check check_inside(uintptr_t begin, uint64_t size, uint64_t padded, uintptr_t address,
                          uint64_t bytes) {
  const uint64_t offset = address - begin;
  if (offset > padded || bytes > padded - offset) return Arena::Check::kOutside;
  return offset + bytes <= size ? Arena::Check::kInside : Arena::Check::kPadding;
}

}  // namespace

void Arena::FreeList::erase(std::map<uintptr_t, uint64_t>::iterator range) {
  by_size_.erase({range->second, range->first});
  by_address_.erase(range);
}

void Arena::FreeList::add(uintptr_t begin, uint64_t bytes, std::pair<uintptr_t, uint64_t> *merged) {
  auto next = by_address_.lower_bound(begin);
  if (next != by_address_.end() && next->first == begin + bytes) {
    bytes += next->second;
    auto absorbed = next++;
    erase(absorbed);
  }
  if (next != by_address_.begin()) {
    auto previous = std::prev(next);
    if (previous->first + previous->second == begin) {
      begin = previous->first;
      bytes += previous->second;
      erase(previous);
    }
  }
  by_address_[begin] = bytes;
  by_size_.insert({bytes, begin});
  if (merged != nullptr) *merged = {begin, bytes};
}

uintptr_t Arena::FreeList::take(uint64_t bytes, uint64_t alignment) {
  for (auto fit = by_size_.lower_bound({bytes, 0}); fit != by_size_.end(); ++fit) {
    const auto [range_bytes, begin] = *fit;
    const uintptr_t aligned = round_up(begin, alignment);
    if (aligned - begin > range_bytes - bytes) continue;
    erase(by_address_.find(begin));
    if (aligned > begin) add(begin, aligned - begin);
    const uintptr_t end = aligned + bytes;
    if (begin + range_bytes > end) add(end, begin + range_bytes - end);
    return aligned;
  }
  return 0;
}

bool Arena::FreeList::take_at(uintptr_t begin, uint64_t bytes) {
  auto range = by_address_.upper_bound(begin);
  if (range == by_address_.begin()) return false;
  --range;
  const auto [first, range_bytes] = *range;
  const uintptr_t end = begin + bytes, range_end = first + range_bytes;
  if (end < begin || end > range_end) return false;
  erase(range);
  if (begin > first) add(first, begin - first);
  if (range_end > end) add(end, range_end - end);
  return true;
}

void Arena::FreeList::clear() {
  by_address_.clear();
  by_size_.clear();
}

bool Arena::reserve(uint64_t bytes, uintptr_t wanted) {
  unreserve();
  // Twice the memory in addresses: fragmentation never makes an allocation fail that fits by its bytes.
  const uint64_t span = 2 * round_up(bytes, kHugePage) + 2 * kGiantPage;
  void *range = mmap(reinterpret_cast<void *>(wanted), span + kHugePage, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return false;
  const uintptr_t begin = reinterpret_cast<uintptr_t>(range);
  const uintptr_t aligned = round_up(begin, kHugePage);
  if (aligned > begin) munmap(range, aligned - begin);
  const uint64_t tail = begin + span + kHugePage - (aligned + span);
  if (tail > 0) munmap(reinterpret_cast<void *>(aligned + span), tail);
  base_ = aligned;
  span_ = span;
  capacity_ = bytes;
  committed_ = base_;
  idle_touched_ = 0;
  huge_.add(base_, span_);
  return true;
}

void Arena::unreserve() {
  if (base_ == 0) return;
  written.close();
  ASAN_UNPOISON_MEMORY_REGION(reinterpret_cast<void *>(base_), committed_ - base_);
  munmap(reinterpret_cast<void *>(base_), span_);
  huge_.clear();
  small_.clear();
  blocks_.clear();
  base_ = span_ = capacity_ = 0;
  used_ = 0;
  live_blocks_ = 0;
  version_.fetch_add(1);
}

void Arena::track_writes(bool on) {
  if (on && base_ != 0) {
    if (!written.is_open()) written.open(base_, span_);
  } else {
    written.close();
  }
}

bool Arena::commit(uintptr_t end) {
  if (end <= committed_) return true;
  const uintptr_t upto = std::min(round_up(end - base_, kCommitStep) + base_, base_ + span_);
  void *begin = reinterpret_cast<void *>(committed_);
  if (mprotect(begin, upto - committed_, PROT_READ | PROT_WRITE) != 0) return false;
  madvise(begin, upto - committed_, MADV_HUGEPAGE);  // a matter of speed only
  committed_ = upto;
  return true;
}

uintptr_t Arena::take_extent(uint64_t bytes, uint64_t page) {
  if (page == kSmallPage) {
    if (const uintptr_t begin = small_.take(bytes, kSmallPage)) return begin;
    const uint64_t whole = round_up(bytes, kHugePage);
    const uintptr_t fresh = take_extent(whole, kHugePage);
    if (fresh == 0) return 0;
    small_.add(fresh, whole);
    return small_.take(bytes, kSmallPage);
  }
  const uintptr_t begin = huge_.take(bytes, kHugePage);
  if (begin == 0) return 0;
  if (!commit(begin + bytes)) {
    huge_.add(begin, bytes);
    return 0;
  }
  idle_touched_ -= std::min(idle_touched_, bytes);
  return begin;
}

void *Arena::allocate(uint64_t size, uint64_t padded, uint64_t page, bool for_peers) {
  const uint64_t accounted = round_up(padded, page);
  std::unique_lock<std::shared_mutex> lock(mutex_);
  if (accounted < padded || accounted > capacity_ || used_ > capacity_ - accounted) return nullptr;
  const uint64_t extent = page == kGiantPage ? round_up(padded, kHugePage) : accounted;
  const uintptr_t begin = take_extent(extent, page == kSmallPage ? kSmallPage : kHugePage);
  if (begin == 0) return nullptr;
  blocks_[begin] = Block{size, padded, extent, page, for_peers};
  used_ += accounted;
  ++live_blocks_;
  void *pointer = reinterpret_cast<void *>(begin);
  ASAN_POISON_MEMORY_REGION(pointer, extent);
  ASAN_UNPOISON_MEMORY_REGION(pointer, padded);
  written.forget(begin, extent);
  return pointer;
}

bool Arena::free(void *pointer) {
  std::unique_lock<std::shared_mutex> lock(mutex_);
  auto found = blocks_.find(reinterpret_cast<uintptr_t>(pointer));
  if (found == blocks_.end()) return false;
  const uintptr_t begin = found->first;
  const Block block = found->second;
  blocks_.erase(found);
  version_.fetch_add(1, std::memory_order_release);
  used_ -= round_up(block.padded, block.page);
  --live_blocks_;
  take_back_sharing(begin, block);
  ASAN_POISON_MEMORY_REGION(pointer, block.extent);
  give_back(begin, block.extent);
  return true;
}

void Arena::give_back(uintptr_t begin, uint64_t bytes) {
  if (bytes % kHugePage != 0 || begin % kHugePage != 0) {
    std::pair<uintptr_t, uint64_t> merged;
    small_.add(begin, bytes, &merged);
    return;
  }
  huge_.add(begin, bytes);
  idle_touched_ += bytes;
  if (idle_touched_ <= kKeepIdle) return;
  madvise(reinterpret_cast<void *>(begin), bytes, MADV_DONTNEED);
  idle_touched_ -= bytes;
}

void Arena::free_all() {
  std::unique_lock<std::shared_mutex> lock(mutex_);
  for (const auto &[begin, block] : blocks_) {
    take_back_sharing(begin, block);
    ASAN_POISON_MEMORY_REGION(reinterpret_cast<void *>(begin), block.extent);
    give_back(begin, block.extent);
  }
  blocks_.clear();
  version_.fetch_add(1, std::memory_order_release);
  used_ = 0;
  live_blocks_ = 0;
}

Arena::Check Arena::check(const void *pointer, uint64_t bytes) const {
  const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
  const uint64_t version = version_.load(std::memory_order_acquire);
  for (const Remembered &known : t_remembered) {
    if (known.arena != this || known.version != version) continue;
    if (address - known.begin >= known.padded) continue;  // its end may be the next block
    return check_inside(known.begin, known.size, known.padded, address, bytes);
  }
  std::shared_lock<std::shared_mutex> lock(mutex_);
  auto block = blocks_.upper_bound(address);
  if (block == blocks_.begin()) return Check::kOutside;
  --block;
  const Check result =
      check_inside(block->first, block->second.size, block->second.padded, address, bytes);
  if (result != Check::kOutside) {
    t_remembered[t_next_remembered++ % kRemembered] =
        Remembered{this, version_.load(std::memory_order_relaxed), block->first, block->second.size,
                   block->second.padded};
  }
  return result;
}

bool Arena::find_block(const void *pointer, BlockInfo *info) const {
  const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
  std::shared_lock<std::shared_mutex> lock(mutex_);
  auto block = blocks_.upper_bound(address);
  if (block == blocks_.begin()) return false;
  --block;
  if (address - block->first >= block->second.padded) return false;
  const Block &found = block->second;
  *info = BlockInfo{block->first, found.size, found.page, found.is_managed, found.for_peers};
  return true;
}

void Arena::mark_managed(void *pointer) {
  std::unique_lock<std::shared_mutex> lock(mutex_);
  const auto block = blocks_.find(reinterpret_cast<uintptr_t>(pointer));
  if (block == blocks_.end()) return;
  block->second.is_managed = true;
  written.mark(block->first, block->second.extent);  // the host writes to it unseen
}

int Arena::share_block(const void *pointer, uintptr_t *begin) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
  const MoveSection nobody_writes;
  std::unique_lock<std::shared_mutex> lock(mutex_);
  auto found = blocks_.upper_bound(address);
  if (found == blocks_.begin()) return -1;
  --found;
  Block &block = found->second;
  if (address - found->first >= block.padded) return -1;
  *begin = found->first;
  if (block.shared_fd >= 0) return block.shared_fd;
  const int fd = make_shared_file(block.extent);
  if (fd < 0) return -1;
  void *const start = reinterpret_cast<void *>(found->first);
  ASAN_UNPOISON_MEMORY_REGION(start, block.extent);
  void *const copy = mmap(nullptr, block.extent, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  bool moved = copy != MAP_FAILED;
  if (moved) {
    memcpy(copy, start, block.extent);
    munmap(copy, block.extent);
    moved = mmap(start, block.extent, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) !=
            MAP_FAILED;
  }
  ASAN_POISON_MEMORY_REGION(start, block.extent);
  ASAN_UNPOISON_MEMORY_REGION(start, block.padded);
  if (!moved) {
    close(fd);
    return -1;
  }
  block.shared_fd = fd;
  written.mark(found->first, block.extent);  // others write to it unseen
  return fd;
}

/// Private pages again, for the next block at this place.
void Arena::take_back_sharing(uintptr_t begin, const Block &block) {
  if (block.shared_fd < 0) return;
  map_private(reinterpret_cast<void *>(begin), block.extent);
  close(block.shared_fd);
}

void *Arena::take_addresses(uint64_t bytes) {
  std::unique_lock<std::shared_mutex> lock(mutex_);
  return reinterpret_cast<void *>(take_extent(bytes, kHugePage));
}

bool Arena::take_addresses_at(void *begin, uint64_t bytes) {
  const auto address = reinterpret_cast<uintptr_t>(begin);
  std::unique_lock<std::shared_mutex> lock(mutex_);
  if (!huge_.take_at(address, bytes)) return false;
  if (commit(address + bytes)) return true;
  huge_.add(address, bytes);
  return false;
}

void Arena::give_back_addresses(void *begin, uint64_t bytes) {
  std::unique_lock<std::shared_mutex> lock(mutex_);
  huge_.add(reinterpret_cast<uintptr_t>(begin), bytes);
}

bool Arena::account(uint64_t bytes) {
  std::unique_lock<std::shared_mutex> lock(mutex_);
  if (bytes > capacity_ || used_ > capacity_ - bytes) return false;
  used_ += bytes;
  return true;
}

void Arena::unaccount(uint64_t bytes) {
  std::unique_lock<std::shared_mutex> lock(mutex_);
  used_ -= std::min(used_.load(), bytes);
}

void map_private(void *begin, uint64_t bytes) {
  mmap(begin, bytes, PROT_READ | PROT_WRITE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  madvise(begin, bytes, MADV_HUGEPAGE);  // a matter of speed only
}

}  // namespace aiocann::sim
