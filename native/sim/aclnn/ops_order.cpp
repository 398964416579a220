// ops_order.cpp: argmax, argsort.
#include "sim/aclnn/check.hpp"
#include "sim/aclnn/executor.hpp"
#include "sim/kernels/order.hpp"

namespace aiocann::sim {
namespace {

struct NoParams {};

/// The view with one axis moved to the end.
View axis_last(const View &view, int axis) {
  View moved = view;
  const int last = view.shape.rank - 1;
  for (int d = axis; d < last; ++d) {
    moved.shape.dim[d] = view.shape.dim[d + 1];
    moved.stride[d] = view.stride[d + 1];
  }
  moved.shape.dim[last] = view.shape.dim[axis];
  moved.stride[last] = view.stride[axis];
  return moved;
}

/// A scalar is a vector of one element here.
View at_least_1d(View view) {
  if (view.shape.rank == 0) {
    view.shape.rank = 1;
    view.shape.dim[0] = 1;
    view.stride[0] = 1;
  }
  return view;
}

}  // namespace
}  // namespace aiocann::sim

using namespace aiocann::sim;  // NOLINT: the entry points are this file's whole business

extern "C" {

aclnnStatus aclnnArgMaxGetWorkspaceSize(const aclTensor *self, int64_t dim, bool keepdim,
                                        aclTensor *out, uint64_t *workspaceSize,
                                        aclOpExecutor **executor) {
  Check check("aclnnArgMax");
  check.not_null(self, "self").not_null(out, "out").results(workspaceSize, executor);
  check.tensor(self, "self", kFloating | kIntegers).tensor(out, "out", kIndex);
  if (check.failed()) return check.status();
  const View in = at_least_1d(view_of(self));
  const int axis = normalise_axis(dim, in.shape.rank);
  check.that(axis >= 0, "dim %lld is out of range for %d dimensions", static_cast<long long>(dim),
             in.shape.rank);
  if (check.failed()) return check.status();
  View from = axis_last(in, axis), to = view_of(out);
  Shape kept = from.shape, expected = view_of(self).shape;
  kept.rank -= 1;
  if (!keepdim) {
    expected = kept;
  } else if (expected.rank > 0) {
    expected.dim[axis] = 1;
  }
  check.has_shape(out, "out", expected);
  check.that(from.shape.dim[kept.rank] != 0 || kept.count() == 0, "dim %lld is empty",
             static_cast<long long>(dim));
  if (check.failed()) return check.status();
  if (keepdim && to.shape.rank > 0) to = axis_last(to, axis);
  to.shape = kept;
  Planner plan(check.op(), workspaceSize, executor);
  const int x = plan.input(self), y = plan.output(out);
  plan.write(y, to);
  plan.read(x, from);
  plan.need_workspace(straightening(in, self->dtype));
  return plan.finish(to.count() == 0 ? nullptr : argmax_kernel, NoParams{});
}
ACLNN_RUN(aclnnArgMax)

aclnnStatus aclnnArgsortGetWorkspaceSize(const aclTensor *self, int64_t dim, bool descending,
                                         aclTensor *out, uint64_t *workspaceSize,
                                         aclOpExecutor **executor) {
  Check check("aclnnArgsort");
  check.not_null(self, "self").not_null(out, "out").results(workspaceSize, executor);
  check.tensor(self, "self", kHalfAndFloat | kIntegers | kUnsigned)
      .tensor(out, "out", DTypeSet::of(ACL_INT64));
  check.same_shape(self, out);
  if (check.failed()) return check.status();
  const View in = at_least_1d(view_of(self));
  const int axis = normalise_axis(dim, in.shape.rank);
  check.that(axis >= 0, "dim %lld is out of range for %d dimensions", static_cast<long long>(dim),
             in.shape.rank);
  check.that(axis < 0 || in.shape.dim[axis] <= UINT32_MAX, "dim %lld is too long",
             static_cast<long long>(dim));
  if (check.failed()) return check.status();
  Planner plan(check.op(), workspaceSize, executor);
  const int x = plan.input(self), y = plan.output(out);
  plan.write(y, axis_last(at_least_1d(view_of(out)), axis));
  plan.read(x, axis_last(in, axis));
  // Keys and places, there and back.
  plan.need_workspace(static_cast<uint64_t>(in.count()) * 2 *
                      (size_of(self->dtype) + sizeof(int32_t)));
  return plan.finish(in.count() == 0 ? nullptr : argsort_kernel, ArgsortParams{descending});
}
ACLNN_RUN(aclnnArgsort)

}  // extern "C"
