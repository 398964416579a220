// rows.hpp: operators that look at a whole row at a time: softmax, the norms, running sums.
#pragma once
#include <cstdint>

#include "acl_abi.h"
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
  bool rms = false;  ///< no mean is subtracted
  /// If not 0, rows are groups of channels: row r has the channels of group r % n_groups, and weight and bias have
  /// one number per channel.
  int32_t n_groups = 0;
  bool has_addend = false;  ///< in + addend, rounded to their type, is what is normalised
  bool has_weight = false;  ///< then a view of the row's shape
  bool has_bias = false;
  bool has_mean = false;  ///< then a view of the outer shape
  bool has_rstd = false;
  bool has_sum = false;  ///< in + addend is an output as well
};

/// Views: out, in, and those of addend, weight, bias, mean, rstd, sum that there are.
int norm_kernel(ExecContext &context, const void *args);

/// Views: loss (rows), gradient, logits, labels (rows, classes).
int cross_entropy_kernel(ExecContext &context, const void *args);

struct CumsumParams {
  int32_t n_outer = 0;
  aclDataType dtype = ACL_DT_UNDEFINED;  ///< elements become this type before they are added up
};

/// Views: out, in.
int cumsum_kernel(ExecContext &context, const void *args);

}  // namespace aiocann::sim
