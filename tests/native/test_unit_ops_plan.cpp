// The planner of intermediates: nothing that lives at once overlaps, and what has died is used again.
#include <algorithm>
#include <random>

#include "check.hpp"
#include "core/ops/plan.hpp"

using aiocann::core::kPlanAlignment;
using aiocann::core::place;
using aiocann::core::Placement;

namespace {

bool live_at_once(const Placement &a, const Placement &b) {
  return a.first <= b.last && b.first <= a.last;
}

void check_plan(const std::vector<Placement> &items, uint64_t total, int32_t n_nodes) {
  for (const Placement &item : items) {
    CHECK_EQ(item.offset % kPlanAlignment, 0u);
    CHECK(item.offset + item.bytes <= total);
  }
  for (size_t i = 0; i < items.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const Placement &a = items[i];
      const Placement &b = items[j];
      if (a.bytes == 0 || b.bytes == 0 || !live_at_once(a, b)) continue;
      CHECK(a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset);
    }
  }
  uint64_t most = 0;
  for (int32_t node = 0; node < n_nodes; ++node) {
    uint64_t live = 0;
    for (const Placement &item : items) {
      if (item.first <= node && node <= item.last) live += item.bytes;
    }
    most = std::max(most, live);
  }
  CHECK(total >= most);
}

void test_random_lifetimes() {
  std::mt19937 random(20240917);
  for (int round = 0; round < 500; ++round) {
    const int32_t n_nodes = 1 + static_cast<int32_t>(random() % 60);
    std::vector<Placement> items(random() % 80);
    for (Placement &item : items) {
      item.first = static_cast<int32_t>(random() % static_cast<uint32_t>(n_nodes));
      item.last =
          item.first + static_cast<int32_t>(random() % static_cast<uint32_t>(n_nodes - item.first));
      item.bytes = random() % 8 == 0 ? 0 : random() % 5000;
    }
    const uint64_t total = place(&items, n_nodes);
    check_plan(items, total, n_nodes);
  }
}

void test_a_chain_needs_two_blocks() {
  std::vector<Placement> items;
  for (int32_t i = 0; i < 100; ++i) items.push_back({1000, i, i + 1, 0});
  items.back().last = 99;
  CHECK_EQ(place(&items, 100), 2 * 1024u);
}

void test_what_is_free_at_the_end_grows() {
  std::vector<Placement> items = {{512, 0, 1, 0}, {512, 0, 0, 0}, {4096, 1, 1, 0}};
  CHECK_EQ(place(&items, 2), 512u + 4096u);
  check_plan(items, 512 + 4096, 2);
}

void test_same_input_same_plan() {
  std::vector<Placement> a = {{700, 0, 2, 0}, {700, 0, 1, 0}, {700, 1, 2, 0}};
  std::vector<Placement> b = a;
  CHECK_EQ(place(&a, 3), place(&b, 3));
  for (size_t i = 0; i < a.size(); ++i) CHECK_EQ(a[i].offset, b[i].offset);
}

}  // namespace

int main() {
  test_random_lifetimes();
  test_a_chain_needs_two_blocks();
  test_what_is_free_at_the_end_grows();
  test_same_input_same_plan();
  return 0;
}
