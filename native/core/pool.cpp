#include "core/pool.hpp"

#include <algorithm>

namespace aiocann::core {

uint64_t Block::address() const { return segment->address + offset; }

namespace {

void delete_segment(Segment *segment) {
  for (Block *block = segment->first; block != nullptr;) {
    Block *next = block->after;
    delete block;
    block = next;
  }
  delete segment;
}

}  // namespace

Pool::~Pool() { remove_segments(true); }

void Pool::condemn() {
  std::lock_guard<std::mutex> guard(mutex_);
  free_.clear();
  lent_.clear();
  for (Segment *segment : segments_) {
    for (Block *block = segment->first; block != nullptr; block = block->after) {
      segment->condemned += block->generations > 0 ? 1 : 0;
    }
    if (segment->condemned > 0) {
      condemned_.insert(segment);
    } else {
      delete_segment(segment);
    }
  }
  segments_.clear();
  reserved_.store(0, std::memory_order_relaxed);
  used_.store(0, std::memory_order_relaxed);
}

uint64_t Pool::segment_bytes(uint64_t nbytes) {
  const uint64_t wanted = rounded(nbytes);
  if (wanted < kLargeBytes) return kSegmentBytes;
  return (wanted + kHugePage - 1) / kHugePage * kHugePage;
}

Pool::Sorted::iterator Pool::best_fit(const Sorted &blocks, uint64_t nbytes) {
  Segment probe_segment;
  Block probe;
  probe.segment = &probe_segment;
  probe.nbytes = nbytes;
  return blocks.lower_bound(&probe);
}

Block *Pool::take_lent_locked(uint64_t wanted, uint64_t key) {
  auto of_stream = lent_.find(key);
  if (of_stream == lent_.end()) return nullptr;
  auto found = best_fit(of_stream->second, wanted);
  // A lent block is handed out whole (its neighbours may not be in the same order), so it must fit well.
  if (found == of_stream->second.end() || (*found)->nbytes > wanted + wanted / 2 + 65536)
    return nullptr;
  Block *block = *found;
  of_stream->second.erase(found);
  if (of_stream->second.empty()) lent_.erase(of_stream);
  block->lent = false;
  ++block->generations;
  used_.fetch_add(block->nbytes, std::memory_order_relaxed);
  return block;
}

Block *Pool::take(uint64_t nbytes, uint64_t stream, By by) {
  const uint64_t wanted = rounded(nbytes);
  std::lock_guard<std::mutex> guard(mutex_);
  if (stream != 0) {
    if (Block *block = take_lent_locked(wanted, key(stream, By::kLane))) return block;
    if (by == By::kUser) {
      if (Block *block = take_lent_locked(wanted, key(stream, By::kUser))) return block;
    }
  }
  auto found = best_fit(free_, wanted);
  if (found == free_.end()) return nullptr;
  Block *block = *found;
  free_.erase(found);
  block = split_locked(block, wanted);
  block->generations = 1;
  block->stream = 0;
  used_.fetch_add(block->nbytes, std::memory_order_relaxed);
  return block;
}

Block *Pool::split_locked(Block *block, uint64_t nbytes) {
  if (block->nbytes == nbytes) return block;
  auto *rest = new Block;
  rest->segment = block->segment;
  rest->offset = block->offset + nbytes;
  rest->nbytes = block->nbytes - nbytes;
  rest->before = block;
  rest->after = block->after;
  if (rest->after != nullptr) rest->after->before = rest;
  block->after = rest;
  block->nbytes = nbytes;
  free_.insert(rest);
  return block;
}

void Pool::lend(Block *block, uint64_t stream, By by) {
  std::lock_guard<std::mutex> guard(mutex_);
  if (block->segment->condemned > 0) return;
  used_.fetch_sub(block->nbytes, std::memory_order_relaxed);
  // An earlier mem of this block may still be in use by another stream: then no one order protects it.
  const bool one_order = stream != 0 && (block->stream == 0 || stream_of(block->stream) == stream);
  block->stream = one_order ? key(stream, by) : UINT64_MAX;
  block->lent = true;
  if (one_order) lent_[block->stream].insert(block);
}

void Pool::give_back(Block *block, bool dropped) {
  std::lock_guard<std::mutex> guard(mutex_);
  if (Segment *segment = block->segment; segment->condemned > 0) {
    if (--block->generations == 0 && --segment->condemned == 0) {
      condemned_.erase(segment);
      delete_segment(segment);
    }
    return;
  }
  if (!dropped) used_.fetch_sub(block->nbytes, std::memory_order_relaxed);
  if (--block->generations == 0) {
    if (block->lent && block->stream != UINT64_MAX) {
      auto of_stream = lent_.find(block->stream);
      of_stream->second.erase(block);
      if (of_stream->second.empty()) lent_.erase(of_stream);
    }
    block->lent = false;
    block->stream = 0;
    free_locked(block);
    return;
  }
  if (!dropped && !block->lent) {
    // Its present mem is gone, earlier ones are still in use, on one stream: that one may have it again.
    block->lent = true;
    lent_[block->stream].insert(block);
  } else if (block->generations == 1 && !block->lent) {
    block->stream = 0;  // only the present mem is left; what it is used on is noted when it is lent
  }
}

void Pool::free_locked(Block *block) {
  auto is_free = [](const Block *other) { return other != nullptr && other->generations == 0; };
  if (Block *next = block->after; is_free(next)) {
    free_.erase(next);
    block->nbytes += next->nbytes;
    block->after = next->after;
    if (block->after != nullptr) block->after->before = block;
    delete next;
  }
  if (Block *previous = block->before; is_free(previous)) {
    free_.erase(previous);
    previous->nbytes += block->nbytes;
    previous->after = block->after;
    if (previous->after != nullptr) previous->after->before = previous;
    delete block;
    block = previous;
  }
  free_.insert(block);
}

void Pool::add_segment(uint64_t address, uint64_t nbytes) {
  std::lock_guard<std::mutex> guard(mutex_);
  auto *segment = new Segment{address, nbytes, nullptr};
  auto *block = new Block;
  block->segment = segment;
  block->nbytes = nbytes;
  segment->first = block;
  segments_.insert(segment);
  free_.insert(block);
  reserved_.fetch_add(nbytes, std::memory_order_relaxed);
}

std::vector<uint64_t> Pool::remove_segments(bool all) {
  std::lock_guard<std::mutex> guard(mutex_);
  std::vector<uint64_t> addresses;
  for (auto it = segments_.begin(); it != segments_.end();) {
    Segment *segment = *it;
    const bool empty = segment->first->generations == 0 && segment->first->after == nullptr;
    if (!empty && !all) {
      ++it;
      continue;
    }
    for (Block *block = segment->first; block != nullptr;) {
      Block *next = block->after;
      if (block->generations == 0) free_.erase(block);
      delete block;
      block = next;
    }
    addresses.push_back(segment->address);
    reserved_.fetch_sub(segment->nbytes, std::memory_order_relaxed);
    delete segment;
    it = segments_.erase(it);
  }
  if (all) {
    for (Segment *segment : condemned_) delete_segment(segment);
    condemned_.clear();
    free_.clear();
    lent_.clear();
    used_.store(0, std::memory_order_relaxed);
  }
  return addresses;
}

bool Pool::consistent() const {
  std::lock_guard<std::mutex> guard(mutex_);
  uint64_t reserved = 0, in_use = 0;
  size_t n_free = 0, n_lent = 0;
  for (const Segment *segment : segments_) {
    uint64_t offset = 0;
    const Block *before = nullptr;
    for (const Block *block = segment->first; block != nullptr; block = block->after) {
      if (block->segment != segment || block->offset != offset || block->before != before)
        return false;
      if (block->nbytes == 0 || block->nbytes % kGranule != 0) return false;
      const bool is_free = block->generations == 0;
      if (is_free && before != nullptr && before->generations == 0) return false;
      if (is_free != (free_.count(const_cast<Block *>(block)) == 1)) return false;
      n_free += is_free;
      if (block->lent && block->stream != UINT64_MAX) {
        auto of_stream = lent_.find(block->stream);
        if (of_stream == lent_.end() || of_stream->second.count(const_cast<Block *>(block)) == 0)
          return false;
        ++n_lent;
      }
      if (!is_free && !block->lent) in_use += block->nbytes;
      offset += block->nbytes;
      before = block;
    }
    if (offset != segment->nbytes) return false;
    reserved += segment->nbytes;
  }
  size_t in_lent = 0;
  for (const auto &entry : lent_) in_lent += entry.second.size();
  return n_free == free_.size() && n_lent == in_lent && reserved == reserved_.load() &&
         in_use == used_.load();
}

}  // namespace aiocann::core
