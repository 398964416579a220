#include "core/ops/plan.hpp"

#include <algorithm>
#include <numeric>

namespace aiocann::core {
namespace {

/// Free ranges of a block that grows at its end, sorted by offset, never touching one another.
class FreeList {
 public:
  uint64_t take(uint64_t bytes) {
    auto best = free_.end();
    for (auto range = free_.begin(); range != free_.end(); ++range) {
      if (range->bytes >= bytes && (best == free_.end() || range->bytes < best->bytes))
        best = range;
    }
    if (best == free_.end()) return grow(bytes);
    const uint64_t offset = best->offset;
    best->offset += bytes;
    best->bytes -= bytes;
    if (best->bytes == 0) free_.erase(best);
    return offset;
  }

  void give(uint64_t offset, uint64_t bytes) {
    auto next = std::lower_bound(free_.begin(), free_.end(), offset,
                                 [](const Range &range, uint64_t at) { return range.offset < at; });
    if (next != free_.begin() && (next - 1)->offset + (next - 1)->bytes == offset) {
      --next;
      next->bytes += bytes;
    } else {
      next = free_.insert(next, {offset, bytes});
    }
    const auto after = next + 1;
    if (after != free_.end() && next->offset + next->bytes == after->offset) {
      next->bytes += after->bytes;
      free_.erase(after);
    }
  }

  uint64_t end() const { return end_; }

 private:
  struct Range {
    uint64_t offset, bytes;
  };

  /// What is free at the end of the block is used first: only the rest is new.
  uint64_t grow(uint64_t bytes) {
    uint64_t offset = end_;
    if (!free_.empty() && free_.back().offset + free_.back().bytes == end_) {
      offset = free_.back().offset;
      free_.pop_back();
    }
    end_ = offset + bytes;
    return offset;
  }

  std::vector<Range> free_;
  uint64_t end_ = 0;
};

uint64_t rounded(uint64_t bytes) {
  return (bytes + kPlanAlignment - 1) / kPlanAlignment * kPlanAlignment;
}

}  // namespace

uint64_t place(std::vector<Placement> *items, int32_t n_nodes) {
  std::vector<size_t> order(items->size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const Placement &x = (*items)[a];
    const Placement &y = (*items)[b];
    if (x.first != y.first) return x.first < y.first;
    return x.bytes != y.bytes ? x.bytes > y.bytes : a < b;
  });
  std::vector<std::vector<size_t>> ending(static_cast<size_t>(n_nodes));
  FreeList list;
  size_t next = 0;
  for (int32_t node = 0; node < n_nodes; ++node) {
    for (; next < order.size() && (*items)[order[next]].first == node; ++next) {
      Placement &item = (*items)[order[next]];
      if (item.bytes == 0) continue;
      item.offset = list.take(rounded(item.bytes));
      ending[static_cast<size_t>(item.last)].push_back(order[next]);
    }
    for (size_t ended : ending[static_cast<size_t>(node)]) {
      list.give((*items)[ended].offset, rounded((*items)[ended].bytes));
    }
  }
  return list.end();
}

}  // namespace aiocann::core
