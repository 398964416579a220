#include "core/constants.hpp"

#include <algorithm>

namespace aiocann::core {

Constants::Entry *Constants::find(const ConstantKey &key) {
  for (Entry &entry : entries_) {
    if (entry.key == key) return &entry;
  }
  return nullptr;
}

Constants::Entry *Constants::add(const ConstantKey &key, Mem *mem) {
  while (!entries_.empty() && (entries_.size() >= kMost || bytes_ + mem->nbytes > kMostBytes)) {
    const auto oldest =
        std::min_element(entries_.begin(), entries_.end(),
                         [](const Entry &a, const Entry &b) { return a.used < b.used; });
    remove(static_cast<size_t>(oldest - entries_.begin()));
  }
  bytes_ += mem->nbytes;
  entries_.push_back({key, mem});
  return &entries_.back();
}

void Constants::forget(const ConstantKey &key) {
  if (const Entry *entry = find(key)) remove(static_cast<size_t>(entry - entries_.data()));
}

void Constants::clear() {
  while (!entries_.empty()) remove(entries_.size() - 1);
}

void Constants::remove(size_t index) {
  bytes_ -= entries_[index].mem->nbytes;
  entries_[index].mem->release_handle();
  entries_[index] = entries_.back();
  entries_.pop_back();
}

}  // namespace aiocann::core
