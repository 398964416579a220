// check.hpp: the argument checks of the first phase, and the views that they justify.
#pragma once
#include <cstdarg>
#include <cstdint>

#include "sim/aclnn/objects.hpp"
#include "sim/kernels/dtype.hpp"
#include "sim/kernels/view.hpp"

namespace aiocann::sim {

/// Collects the first thing that is wrong with a call; later checks then do nothing. 161001 for missing
/// arguments, 161002 for wrong ones.
class Check {
 public:
  explicit Check(const char *op) : op_(op) {}

  Check &not_null(const void *pointer, const char *what);
  /// The outputs of every first phase.
  Check &results(const uint64_t *workspace, aclOpExecutor **executor);
  /// Element type in a support list, rank in a range, dimensions and strides that make sense.
  Check &tensor(const aclTensor *tensor, const char *what, DTypeSet dtypes,
                int max_rank = kMaxTensorRank, int min_rank = 0);
  /// The same, and FRACTAL_NZ is a format like any other.
  Check &weight(const aclTensor *tensor, const char *what, DTypeSet dtypes, int max_rank,
                int min_rank);
  Check &scalar(const aclScalar *scalar, const char *what, DTypeSet dtypes);
  Check &same_dtype(const aclTensor *a, const aclTensor *b);
  Check &same_shape(const aclTensor *a, const aclTensor *b);
  Check &has_shape(const aclTensor *tensor, const char *what, const Shape &shape);
  Check &that(bool condition, const char *format, ...) __attribute__((format(printf, 3, 4)));

  /// 361001 where the SoC does not have the operator.
  Check &needs_hbm();

  bool failed() const { return status_ != ACLNN_SUCCESS; }
  aclnnStatus status() const { return status_; }
  const char *op() const { return op_; }

 private:
  Check &dimensions(const aclTensor *tensor, const char *what, DTypeSet dtypes, int max_rank,
                    int min_rank);
  Check &reject(aclnnStatus status, const char *format, ...) __attribute__((format(printf, 3, 4)));
  Check &reject_list(aclnnStatus status, const char *format, va_list list);

  const char *op_;
  aclnnStatus status_ = ACLNN_SUCCESS;
};

/// "[2, 3]", for messages.
struct ShapeText {
  explicit ShapeText(const Shape &shape);
  char text[400];
};

Shape shape_of(const aclTensor *tensor);
/// The view as the program described it; its address comes from the planner.
View view_of(const aclTensor *tensor);
/// The same elements for every position of a larger shape.
View broadcast(const View &view, const Shape &shape);
/// False when the shapes do not go together.
bool broadcast_shapes(const Shape &a, const Shape &b, Shape *out);
bool is_contiguous(const View &view);
/// Workspace bytes for a copy of an operand that is not in a row, or not of the type that is computed with.
uint64_t straightening(const View &view, aclDataType type);
/// An axis from [-rank, rank) (a 0-d tensor counts as 1-d), or -1.
int normalise_axis(int64_t axis, int rank);

/// Support lists.
constexpr DTypeSet kHalfAndFloat = DTypeSet::of(ACL_FLOAT, ACL_FLOAT16, ACL_BF16);
constexpr DTypeSet kFloating = kHalfAndFloat | DTypeSet::of(ACL_DOUBLE);
constexpr DTypeSet kSigned = DTypeSet::of(ACL_INT8, ACL_INT16, ACL_INT32, ACL_INT64);
constexpr DTypeSet kIntegers = kSigned | DTypeSet::of(ACL_UINT8);
constexpr DTypeSet kUnsigned = DTypeSet::of(ACL_UINT16, ACL_UINT32, ACL_UINT64);
constexpr DTypeSet kBool = DTypeSet::of(ACL_BOOL);
constexpr DTypeSet kComplex = DTypeSet::of(ACL_COMPLEX64, ACL_COMPLEX128);
/// What arithmetic takes. The device also takes complex numbers; the simulator does not compute with them.
constexpr DTypeSet kArithmetic = kFloating | kIntegers | kBool;
constexpr DTypeSet kIndex = DTypeSet::of(ACL_INT32, ACL_INT64);

}  // namespace aiocann::sim
