// loop.hpp: the loop of the C ABI, and the deliveries that it hands out.
#pragma once
#include <cstdint>

#include "aiocann.h"
#include "core/basic_loop.hpp"

namespace aiocann::core {

using Op = ::aiocann_op;
using Loop = ::aiocann_loop;

/// An id on its way to a loop. One is embedded in each op, for its home; others are made by watching.
struct Delivery {
  Delivery *next = nullptr;
  Loop *loop = nullptr;  ///< Owns: one reference, where not null
  uint64_t id = 0;
  Op *embedded_in =
      nullptr;              ///< Owns: one reference of the op that holds this node; null: allocated
  Op *dependent = nullptr;  ///< not a delivery: this `wait` op depends on the settling one

  /// Frees or unreferences what the node stands for, after delivery or instead of it.
  void discard();
};

}  // namespace aiocann::core

struct aiocann_loop final : aiocann::core::BasicLoop<aiocann_loop, aiocann::core::Delivery> {
  using BasicLoop::BasicLoop;
};
