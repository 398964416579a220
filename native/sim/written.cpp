// written.cpp: the bits of WrittenMap, in a range that is resident only where it is used.
#include "sim/written.hpp"

#include <sys/mman.h>

#include <algorithm>

namespace aiocann::sim {
namespace {

constexpr uint64_t kBits = 64;

}  // namespace

bool WrittenMap::open(uintptr_t base, uint64_t bytes) {
  close();
  const uint64_t words = bytes / kGranule / kBits + 1;
  void *map = mmap(nullptr, words * sizeof(uint64_t), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED) return false;
  words_ = static_cast<std::atomic<uint64_t> *>(map);
  map_bytes_ = words * sizeof(uint64_t);
  base_ = base;
  span_ = bytes;
  return true;
}

void WrittenMap::close() {
  if (words_ != nullptr) munmap(static_cast<void *>(words_), map_bytes_);
  words_ = nullptr;
}

template <class Visit>
void WrittenMap::visit(uintptr_t begin, uint64_t bytes, Visit &&visit) const {
  if (words_ == nullptr || bytes == 0 || begin - base_ >= span_) return;
  bytes = std::min(bytes, span_ - (begin - base_));
  uint64_t bit = (begin - base_) / kGranule;
  const uint64_t end = (begin - base_ + bytes - 1) / kGranule + 1;
  while (bit < end) {
    const uint64_t first = bit % kBits, n = std::min(kBits - first, end - bit);
    const uint64_t mask = (n == kBits ? ~0ull : (1ull << n) - 1) << first;
    if (!visit(bit / kBits, mask)) return;
    bit += n;
  }
}

void WrittenMap::mark(uintptr_t begin, uint64_t bytes) {
  visit(begin, bytes, [this](uint64_t word, uint64_t mask) {
    if ((words_[word].load(std::memory_order_relaxed) & mask) != mask)
      words_[word].fetch_or(mask, std::memory_order_relaxed);
    return true;
  });
}

void WrittenMap::forget(uintptr_t begin, uint64_t bytes) {
  visit(begin, bytes, [this](uint64_t word, uint64_t mask) {
    // Reading a word that was never touched brings in no memory.
    if ((words_[word].load(std::memory_order_relaxed) & mask) != 0)
      words_[word].fetch_and(~mask, std::memory_order_relaxed);
    return true;
  });
}

uintptr_t WrittenMap::first_unwritten(uintptr_t begin, uint64_t bytes) const {
  uintptr_t found = 0;
  visit(begin, bytes, [&](uint64_t word, uint64_t mask) {
    const uint64_t missing = mask & ~words_[word].load(std::memory_order_relaxed);
    if (missing == 0) return true;
    const uint64_t granule = word * kBits + static_cast<uint64_t>(__builtin_ctzll(missing));
    found = std::max(begin, base_ + granule * kGranule);
    return false;
  });
  return found;
}

}  // namespace aiocann::sim
