// rotary.hpp: rotary position embedding.
#pragma once
#include <cstdint>

#include "sim/task.hpp"

namespace aiocann::sim {

enum class RotaryMode : int32_t { kHalf, kInterleaved };

struct RotaryParams {
  RotaryMode mode = RotaryMode::kHalf;
};

/// Views: out, x, cos, sin, all of one shape; the last axis is what is rotated. out may be x.
int rotary_kernel(ExecContext &context, const void *args);

}  // namespace aiocann::sim
