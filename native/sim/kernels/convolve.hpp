// convolve.hpp: convolutions of one to three spatial axes, as matrix products.
#pragma once
#include <cstdint>

#include "sim/kernels/matmul.hpp"
#include "sim/kernels/windows.hpp"

namespace aiocann::sim {

constexpr int kSpatial = 3;

struct ConvolveParams {
  Window window[kSpatial];  ///< depth, height, width; those that are missing are of size 1
  int32_t groups = 1;
  bool transposed = false;
  bool has_bias = false;
  MatmulRounding rounding = MatmulRounding::kNone;
};

/// Views: out [n, c out, d, h, w], in [n, c in, d, h, w], weight [c out, c in / groups, ...] (transposed:
/// [c in, c out / groups, ...]), bias [c out].
int convolve_kernel(ExecContext &context, const void *args);

}  // namespace aiocann::sim
