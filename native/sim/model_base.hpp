// model_base.hpp: what a captured graph is to the tasks and events that refer to it; see capture.hpp.
#pragma once
#include <atomic>
#include <cstdint>

namespace aiocann::sim {

struct ModelBase {
  virtual ~ModelBase() = default;
  void retain() { refs.fetch_add(1, std::memory_order_relaxed); }
  void release() {
    if (refs.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }
  std::atomic<uint32_t> refs{0};
};

}  // namespace aiocann::sim
