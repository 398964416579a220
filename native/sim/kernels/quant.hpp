// quant.hpp: matrix products with weights of small integers.
#pragma once
#include <cstdint>

#include "sim/kernels/matmul.hpp"

namespace aiocann::sim {

struct QuantParams {
  int64_t k = 0, n = 0;
  int64_t group = 0;           ///< rows of the weight that share a scale
  int32_t bits = 8;            ///< of an element of the weight
  bool rows_along_k = true;    ///< elements of one column of the weight lie side by side
  bool encoded_scale = false;  ///< scales are the upper bits of float32 in 64-bit integers
  Tiling tiling;  ///< of the weight, where it is tiled: its view is that of the tiles then
  int16_t offset = -1, bias = -1, out_scale = -1, out_offset = -1;  ///< views, or -1
};

/// Views: out [m, n], x [m, k], weight [n, bytes of k] (rows_along_k) or [k, bytes of n], scale [groups, n]; and offset
/// in the shape of scale; bias, out_scale (64-bit), out_offset [n]. out = x ((weight + offset) scale) + bias; with
/// out_scale rounded to int8.
int quant_matmul_kernel(ExecContext &context, const void *args);

}  // namespace aiocann::sim
