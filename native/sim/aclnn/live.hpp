// live.hpp: how many objects of the aclnn interface a program has made and not destroyed.
#pragma once
#include <atomic>
#include <cstdint>

namespace aiocann::sim {

struct LiveObjects {
  std::atomic<uint64_t> tensors{0}, scalars{0}, arrays{0}, lists{0}, executors{0};
};
inline LiveObjects g_live_objects;

/// A base of what is counted as one of its kind while it lives.
template <std::atomic<uint64_t> LiveObjects::*kKind>
class Counted {
 protected:
  Counted() { (g_live_objects.*kKind).fetch_add(1, std::memory_order_relaxed); }
  Counted(const Counted &) : Counted() {}
  Counted &operator=(const Counted &) = default;
  ~Counted() { (g_live_objects.*kKind).fetch_sub(1, std::memory_order_relaxed); }
};

}  // namespace aiocann::sim
