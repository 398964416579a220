// order.hpp: operators that say where numbers stand in an order: argmax, argsort.
#pragma once
#include <cstdint>

#include "sim/task.hpp"

namespace aiocann::sim {

/// Views: out [outer...] of integers, in [outer..., n]. The first of equal maxima; NaN is larger than any number.
int argmax_kernel(ExecContext &context, const void *args);

struct ArgsortParams {
  bool descending = false;
};

/// Views: out [outer..., n] of integers, in [outer..., n]. Equal elements keep their order; NaN is larger than any
/// number; -0 equals 0.
int argsort_kernel(ExecContext &context, const void *args);

}  // namespace aiocann::sim
