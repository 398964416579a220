// elementwise.hpp: the engine of operators that work element by element.
#pragma once
#include <cstdint>

#include "sim/kernels/dtype.hpp"
#include "sim/kernels/table.hpp"
#include "sim/task.hpp"

namespace aiocann::sim {

struct UnaryParams {
  UnaryOp op = UnaryOp::kCopy;
  Domain domain = Domain::kF32;
  aclDataType as = ACL_DT_UNDEFINED;   ///< operands are rounded to this type first
  aclDataType via = ACL_DT_UNDEFINED;  ///< the result has this type before it is stored
  double a = 0, b = 0, c = 0;          ///< for the floating domains
  int64_t int_a = 0, int_b = 0;        ///< for integers
};

struct BinaryParams {
  BinaryOp op = BinaryOp::kAdd;
  Domain domain = Domain::kF32;
  aclDataType as = ACL_DT_UNDEFINED;
  aclDataType via = ACL_DT_UNDEFINED;
  double alpha = 1;
  int64_t int_alpha = 1;
};

/// Views: out, x (broadcast to out's shape).
int unary_kernel(ExecContext &context, const void *args);
/// Views: out, x, y (broadcast to out's shape).
int binary_kernel(ExecContext &context, const void *args);

struct GluParams {
  UnaryOp op = UnaryOp::kSilu;
  bool keeps_activated = false;
};

/// out = op(a) * b. Views: out, a, b and, where it is kept, op(a).
int glu_kernel(ExecContext &context, const void *args);

struct FillParams {
  double value = 0;
  int64_t int_value = 0;
  Domain domain = Domain::kF32;
  double step = 0;  ///< element i is value + i * step
  int64_t int_step = 0;
};

/// Views: out.
int fill_kernel(ExecContext &context, const void *args);

}  // namespace aiocann::sim
