// rows.hpp: operators that look at a whole row at a time: softmax and the norms.
#pragma once
#include <cstdint>

#include "sim/task.hpp"

namespace aiocann::sim {

struct SoftmaxParams {
  int32_t n_outer = 0;  ///< leading axes; the others make up the row
};

/// Views: out, in.
int softmax_kernel(ExecContext &context, const void *args);
int softmax_double_kernel(ExecContext &context, const void *args);

struct NormParams {
  double epsilon = 0;
  int32_t n_outer = 0;
  bool rms = false;         ///< no mean is subtracted
  bool has_weight = false;  ///< then a view of the row's shape
  bool has_bias = false;
  bool has_mean = false;  ///< then a view of the outer shape
  bool has_rstd = false;
};

/// Views: out, in, and those of weight, bias, mean, rstd that there are.
int norm_kernel(ExecContext &context, const void *args);

}  // namespace aiocann::sim
