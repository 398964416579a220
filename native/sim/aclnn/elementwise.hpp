// elementwise.hpp: what the operators that work element by element share.
#pragma once
#include "sim/aclnn/check.hpp"
#include "sim/aclnn/executor.hpp"
#include "sim/kernels/elementwise.hpp"

namespace aiocann::sim {

/// The type that operands are rounded to when they are read, where that can change a value.
aclDataType lossy(aclDataType promoted);

/// How the result's type follows from the operand's.
enum class Result {
  kSame,      ///< out has the type of self
  kConvert,   ///< out is any type that self can become
  kFloating,  ///< integers are computed as float32; out is floating
};

struct UnaryRow {
  const char *name;
  UnaryOp op;
  DTypeSet self, out;
  Result result;
};

/// An operator of one tensor.
aclnnStatus plan_unary(const UnaryRow &row, const aclTensor *self, const aclTensor *out,
                       bool in_place, uint64_t *workspace, aclOpExecutor **executor);
/// The plan of one whose arguments have been checked; `type` is what self is computed as.
aclnnStatus finish_unary(const char *name, const UnaryParams &p, aclDataType type,
                         const aclTensor *self, const aclTensor *out, bool in_place,
                         uint64_t *workspace, aclOpExecutor **executor);

}  // namespace aiocann::sim
