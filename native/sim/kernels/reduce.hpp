// reduce.hpp: the engine of reductions.
#pragma once
#include <cstdint>

#include "sim/kernels/dtype.hpp"
#include "sim/kernels/table.hpp"
#include "sim/task.hpp"

namespace aiocann::sim {

/// What is done with the total of all elements.
enum class ReduceEnd : int32_t { kNone, kSqrt, kRoot };

struct ReduceParams {
  ReduceOp op = ReduceOp::kSum;
  ReduceEnd end = ReduceEnd::kNone;
  Domain domain = Domain::kF32;
  int32_t n_kept = 0;                  ///< leading axes that stay
  aclDataType as = ACL_DT_UNDEFINED;   ///< elements are rounded to this type first
  aclDataType via = ACL_DT_UNDEFINED;  ///< the result has this type before it is stored
  double divisor = 1;                  ///< of the total, before `end`
  double power = 1;                    ///< for kPower and kRoot
};

/// Views: out (the kept axes), in (kept axes, then reduced axes).
int reduce_kernel(ExecContext &context, const void *args);

}  // namespace aiocann::sim
