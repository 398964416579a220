// plan.hpp: places the intermediates of a graph in one block of scratch memory, by lifetime.
#pragma once
#include <cstdint>
#include <vector>

namespace aiocann::core {

constexpr uint64_t kPlanAlignment = 512;

/// Bytes that must be there from node `first` to node `last`, both included.
struct Placement {
  uint64_t bytes = 0;
  int32_t first = 0;
  int32_t last = 0;
  uint64_t offset = 0;  ///< the answer
};

/// Gives every item an offset so that no two that live at once overlap; returns the bytes needed in
/// all.
uint64_t place(std::vector<Placement> *items, int32_t n_nodes);

}  // namespace aiocann::core
