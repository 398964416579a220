// ops_movement.cpp: operators that move elements without computing.
#include <algorithm>

#include "sim/aclnn/check.hpp"
#include "sim/aclnn/executor.hpp"
#include "sim/error.hpp"
#include "sim/kernels/copy.hpp"
#include "sim/kernels/gather.hpp"

namespace aiocann::sim {
namespace {

constexpr DTypeSet kCastable = kArithmetic | kUnsigned;
constexpr DTypeSet kMovable = kCastable | kComplex;

struct NoParams {};

aclnnStatus plan_gather(const char *name, const aclTensor *self, int64_t dim,
                        const aclTensor *index, int max_index_rank, const aclTensor *out,
                        DTypeSet dtypes, uint64_t *workspace, aclOpExecutor **executor) {
  Check check(name);
  check.not_null(self, "self")
      .not_null(index, "index")
      .not_null(out, "out")
      .results(workspace, executor);
  check.tensor(self, "self", dtypes).tensor(index, "index", kIndex, max_index_rank);
  check.tensor(out, "out", dtypes).same_dtype(self, out);
  if (check.failed()) return check.status();
  View from = view_of(self);
  const int axis = normalise_axis(dim, from.shape.rank);
  check.that(axis >= 0, "dim %lld is out of range for %d dimensions", static_cast<long long>(dim),
             from.shape.rank);
  if (check.failed()) return check.status();
  if (from.shape.rank == 0) {
    from.shape.rank = 1;  // a scalar is a vector of one element here
    from.shape.dim[0] = 1;
    from.stride[0] = 1;
  }
  View places = view_of(index);
  Shape expected;
  for (int d = 0; d < axis; ++d) expected.dim[expected.rank++] = from.shape.dim[d];
  const bool scalar_index = places.shape.rank == 0;
  if (scalar_index) {
    places.shape.rank = 1;
    places.shape.dim[0] = 1;
    places.stride[0] = 1;
  }
  const Shape before = expected;
  for (int d = 0; d < places.shape.rank; ++d) expected.dim[expected.rank++] = places.shape.dim[d];
  Shape without = before;
  for (int d = axis + 1; d < from.shape.rank; ++d) {
    expected.dim[expected.rank++] = from.shape.dim[d];
    without.dim[without.rank++] = from.shape.dim[d];
  }
  View to = view_of(out);
  if (scalar_index && to.shape == without) {
    // A 0-d index may also take its axis away.
    for (int d = to.shape.rank; d > axis; --d) {
      to.shape.dim[d] = to.shape.dim[d - 1];
      to.stride[d] = to.stride[d - 1];
    }
    ++to.shape.rank;
    to.shape.dim[axis] = 1;
    to.stride[axis] = 0;
  } else if (to.shape.rank == 0 && expected.count() == 1) {
    to.shape = expected;
  } else {
    check.has_shape(out, "out", expected);
  }
  check.that(expected.rank <= kMaxTensorRank, "out would have %d dimensions", expected.rank);
  if (check.failed()) return check.status();
  GatherParams p;
  p.axis = axis;
  p.index_rank = places.shape.rank;
  Planner plan(name, workspace, executor);
  const int x = plan.input(self), i = plan.input(index), y = plan.output(out);
  plan.write(y, to);
  plan.read(x, from);
  plan.read(i, places);
  return plan.finish(to.count() == 0 ? nullptr : gather_kernel, p);
}

}  // namespace
}  // namespace aiocann::sim

using namespace aiocann::sim;  // NOLINT: the entry points are this file's whole business

extern "C" {

aclnnStatus aclnnCastGetWorkspaceSize(const aclTensor *self, const aclDataType dtype,
                                      aclTensor *out, uint64_t *workspaceSize,
                                      aclOpExecutor **executor) {
  Check check("aclnnCast");
  check.not_null(self, "self").not_null(out, "out").results(workspaceSize, executor);
  check.tensor(self, "self", kCastable).tensor(out, "out", kCastable).same_shape(self, out);
  if (!check.failed()) {
    check.that(kCastable.has(dtype), "cannot cast to %s", name_of(dtype));
    check.that(dtype == out->dtype, "dtype is %s but out is %s", name_of(dtype),
               name_of(out->dtype));
  }
  if (check.failed()) return check.status();
  Planner plan("aclnnCast", workspaceSize, executor);
  const int from = plan.input(self), to = plan.output(out);
  const View view = view_of(self);
  plan.write(to, view_of(out));
  plan.read(from, view);
  return plan.finish(view.count() == 0 ? nullptr : copy_kernel);
}
ACLNN_RUN(aclnnCast)

aclnnStatus aclnnInplaceCopyGetWorkspaceSize(aclTensor *selfRef, const aclTensor *src,
                                             uint64_t *workspaceSize, aclOpExecutor **executor) {
  Check check("aclnnInplaceCopy");
  check.not_null(selfRef, "selfRef").not_null(src, "src").results(workspaceSize, executor);
  check.tensor(selfRef, "selfRef", kMovable).tensor(src, "src", kMovable);
  if (check.failed()) return check.status();
  const bool complex = is_complex(selfRef->dtype) || is_complex(src->dtype);
  check.that(!complex || selfRef->dtype == src->dtype, "%s cannot be copied to %s",
             name_of(src->dtype), name_of(selfRef->dtype));
  Shape shape;
  const Shape to_shape = shape_of(selfRef), from_shape = shape_of(src);
  check.that(broadcast_shapes(to_shape, from_shape, &shape) && shape == to_shape,
             "src of shape %s cannot be broadcast to selfRef of shape %s",
             ShapeText(from_shape).text, ShapeText(to_shape).text);
  if (check.failed()) return check.status();
  Planner plan("aclnnInplaceCopy", workspaceSize, executor);
  const int to = plan.in_place(selfRef), from = plan.input(src);
  plan.write(to, view_of(selfRef));
  plan.read(from, broadcast(view_of(src), shape));
  return plan.finish(shape.count() == 0 ? nullptr : copy_kernel);
}
ACLNN_RUN(aclnnInplaceCopy)

aclnnStatus aclnnPermuteGetWorkspaceSize(const aclTensor *self, const aclIntArray *dims,
                                         aclTensor *out, uint64_t *workspaceSize,
                                         aclOpExecutor **executor) {
  Check check("aclnnPermute");
  check.not_null(self, "self")
      .not_null(dims, "dims")
      .not_null(out, "out")
      .results(workspaceSize, executor);
  check.tensor(self, "self", kMovable).tensor(out, "out", kMovable).same_dtype(self, out);
  if (check.failed()) return check.status();
  const View from = view_of(self);
  const int rank = from.shape.rank;
  check.that(dims->values.size() == static_cast<size_t>(rank),
             "dims has %zu values for %d dimensions", dims->values.size(), rank);
  View permuted = from;
  unsigned seen = 0;
  for (int d = 0; d < rank && !check.failed(); ++d) {
    const int64_t wish = dims->values[static_cast<size_t>(d)];
    const int axis = normalise_axis(wish, rank);
    check.that(axis >= 0, "dim %lld is out of range for %d dimensions",
               static_cast<long long>(wish), rank);
    if (check.failed()) break;
    check.that((seen >> axis & 1) == 0, "dim %lld occurs twice", static_cast<long long>(wish));
    seen |= 1u << axis;
    permuted.shape.dim[d] = from.shape.dim[axis];
    permuted.stride[d] = from.stride[axis];
  }
  if (check.failed()) return check.status();
  check.has_shape(out, "out", permuted.shape);
  if (check.failed()) return check.status();
  Planner plan("aclnnPermute", workspaceSize, executor);
  const int x = plan.input(self), y = plan.output(out);
  plan.write(y, view_of(out));
  plan.read(x, permuted);
  return plan.finish(from.count() == 0 ? nullptr : copy_kernel);
}
ACLNN_RUN(aclnnPermute)

aclnnStatus aclnnCatGetWorkspaceSize(const aclTensorList *tensors, int64_t dim, aclTensor *out,
                                     uint64_t *workspaceSize, aclOpExecutor **executor) {
  constexpr DTypeSet kTypes = kArithmetic | kUnsigned | DTypeSet::of(ACL_COMPLEX64);
  Check check("aclnnCat");
  check.not_null(tensors, "tensors").not_null(out, "out").results(workspaceSize, executor);
  if (check.failed()) return check.status();
  check.that(!tensors->members.empty(), "tensors is empty").tensor(out, "out", kTypes);
  aclDataType type = ACL_DT_UNDEFINED;
  for (const aclTensor *member : tensors->members) {
    check.not_null(member, "a tensor of tensors").tensor(member, "a tensor of tensors", kTypes);
    if (check.failed()) return check.status();
    type = type == ACL_DT_UNDEFINED ? member->dtype : promote(type, member->dtype);
    check.that(type != ACL_DT_UNDEFINED, "the tensors' data types cannot be combined");
  }
  if (check.failed()) return check.status();
  check.that(type == out->dtype ||
                 (can_convert(type, out->dtype) && !is_complex(type) && !is_complex(out->dtype)),
             "the result is %s and cannot be stored as %s", name_of(type), name_of(out->dtype));
  const View to = view_of(out);
  const int rank = to.shape.rank;
  const int axis = normalise_axis(dim, rank);
  check.that(rank > 0 && axis >= 0, "dim %lld is out of range for %d dimensions",
             static_cast<long long>(dim), rank);
  if (check.failed()) return check.status();

  Planner plan("aclnnCat", workspaceSize, executor);
  const int first = plan.input_list(tensors);
  const int y = plan.output(out);
  int64_t filled = 0;
  for (size_t i = 0; i < tensors->members.size(); ++i) {
    const View from = view_of(tensors->members[i]);
    if (from.shape.rank == 1 && from.shape.dim[0] == 0)
      continue;  // an empty vector goes with everything
    bool fits = from.shape.rank == rank;
    for (int d = 0; d < rank && fits; ++d) fits = d == axis || from.shape.dim[d] == to.shape.dim[d];
    check.that(fits, "tensor %zu has shape %s, which does not fit out's %s", i,
               ShapeText(from.shape).text, ShapeText(to.shape).text);
    if (check.failed()) return check.status();
    View part = to;
    part.shape.dim[axis] = from.shape.dim[axis];
    plan.write(y, part, filled * to.stride[axis] * static_cast<int64_t>(size_of(to.dtype)));
    plan.read(first + static_cast<int>(i), from);
    filled += from.shape.dim[axis];
  }
  check.that(filled == to.shape.dim[axis],
             "out has %lld along dim %d, the tensors have %lld together",
             static_cast<long long>(to.shape.dim[axis]), axis, static_cast<long long>(filled));
  if (check.failed()) return check.status();
  return plan.finish(to.count() == 0 ? nullptr : copy_kernel);
}
ACLNN_RUN(aclnnCat)

aclnnStatus aclnnSliceGetWorkspaceSize(const aclTensor *self, int64_t dim, int64_t start,
                                       int64_t end, int64_t step, aclTensor *out,
                                       uint64_t *workspaceSize, aclOpExecutor **executor) {
  constexpr DTypeSet kTypes = kHalfAndFloat | kIndex | DTypeSet::of(ACL_INT8, ACL_UINT8, ACL_BOOL);
  Check check("aclnnSlice");
  check.not_null(self, "self").not_null(out, "out").results(workspaceSize, executor);
  check.tensor(self, "self", kTypes, kMaxTensorRank, 1)
      .tensor(out, "out", kTypes)
      .same_dtype(self, out);
  if (check.failed()) return check.status();
  View from = view_of(self);
  const int axis = normalise_axis(dim, from.shape.rank);
  check.that(axis >= 0, "dim %lld is out of range for %d dimensions", static_cast<long long>(dim),
             from.shape.rank);
  check.that(step > 0, "step is %lld, not positive", static_cast<long long>(step));
  if (check.failed()) return check.status();
  const int64_t n = from.shape.dim[axis];
  const auto clip = [n](int64_t at) {
    if (at < -n) return int64_t{0};
    if (at < 0) return at + n;
    return std::min(at, n);
  };
  const int64_t first = clip(start);
  const int64_t last = end < -n ? first : std::max(first, clip(end));
  const int64_t length = last - first;
  from.shape.dim[axis] = length == 0 ? 0 : (length - 1) / step + 1;
  const int64_t shift = first * from.stride[axis] * static_cast<int64_t>(size_of(from.dtype));
  if (from.shape.dim[axis] > 1) from.stride[axis] *= step;
  check.has_shape(out, "out", from.shape);
  if (check.failed()) return check.status();
  Planner plan("aclnnSlice", workspaceSize, executor);
  const int x = plan.input(self), y = plan.output(out);
  plan.write(y, view_of(out));
  plan.read(x, from, shift);
  return plan.finish(from.count() == 0 ? nullptr : copy_kernel);
}
ACLNN_RUN(aclnnSlice)

aclnnStatus aclnnRepeatGetWorkspaceSize(const aclTensor *self, const aclIntArray *repeats,
                                        aclTensor *out, uint64_t *workspaceSize,
                                        aclOpExecutor **executor) {
  Check check("aclnnRepeat");
  check.not_null(self, "self").not_null(repeats, "repeats").not_null(out, "out");
  check.results(workspaceSize, executor)
      .tensor(self, "self", kMovable)
      .tensor(out, "out", kMovable);
  check.same_dtype(self, out);
  if (check.failed()) return check.status();
  const View from = view_of(self), to = view_of(out);
  const int rank = static_cast<int>(std::min<size_t>(repeats->values.size(), kMaxRank));
  check.that(repeats->values.size() <= static_cast<size_t>(kMaxTensorRank),
             "repeats has %zu values, more than %d", repeats->values.size(), kMaxTensorRank);
  check.that(rank >= from.shape.rank, "repeats has %d values for %d dimensions", rank,
             from.shape.rank);
  if (check.failed()) return check.status();
  // Every axis becomes two: which copy, and the place in it.
  Shape shape;
  View source = from, target = to;
  source.shape.rank = target.shape.rank = 2 * rank;
  shape.rank = rank;
  const int missing = rank - from.shape.rank;
  int n_repeated = 0;
  for (int d = 0; d < rank; ++d) {
    const int64_t times = repeats->values[static_cast<size_t>(d)];
    const int64_t own = d < missing ? 1 : from.shape.dim[d - missing];
    check.that(times >= 0, "repeats has the negative value %lld", static_cast<long long>(times));
    check.that(own == 0 || times < (int64_t{1} << 50) / std::max<int64_t>(1, own),
               "repeats is too large");
    if (check.failed()) return check.status();
    n_repeated += times != 1;
    shape.dim[d] = own * times;
    source.shape.dim[2 * d] = target.shape.dim[2 * d] = times;
    source.shape.dim[2 * d + 1] = target.shape.dim[2 * d + 1] = own;
    source.stride[2 * d] = 0;
    source.stride[2 * d + 1] = d < missing ? 0 : from.stride[d - missing];
    const int64_t stride = d < to.shape.rank ? to.stride[d] : 0;
    target.stride[2 * d] = own * stride;
    target.stride[2 * d + 1] = stride;
  }
  check.has_shape(out, "out", shape);
  if (check.failed()) return check.status();
  const int limit = rank > 0 && repeats->values[0] != 1 ? 4 : 3;
  if (n_repeated > limit) {
    // What the device's kernel cannot do either.
    return fail(ACLNN_ERR_INNER_NULLPTR,
                "aclnnRepeat: %d dimensions are repeated, at most %d can be", n_repeated, limit);
  }
  Planner plan("aclnnRepeat", workspaceSize, executor);
  const int x = plan.input(self), y = plan.output(out);
  plan.write(y, target);
  plan.read(x, source);
  return plan.finish(shape.count() == 0 ? nullptr : copy_kernel);
}
ACLNN_RUN(aclnnRepeat)

aclnnStatus aclnnGatherV2GetWorkspaceSize(const aclTensor *self, int64_t dim,
                                          const aclTensor *index, aclTensor *out,
                                          uint64_t *workspaceSize, aclOpExecutor **executor) {
  return plan_gather("aclnnGatherV2", self, dim, index, kMaxTensorRank, out, kArithmetic | kComplex,
                     workspaceSize, executor);
}
ACLNN_RUN(aclnnGatherV2)

aclnnStatus aclnnIndexSelectGetWorkspaceSize(const aclTensor *self, int64_t dim,
                                             const aclTensor *index, aclTensor *out,
                                             uint64_t *workspaceSize, aclOpExecutor **executor) {
  return plan_gather("aclnnIndexSelect", self, dim, index, 1, out, kMovable, workspaceSize,
                     executor);
}
ACLNN_RUN(aclnnIndexSelect)

aclnnStatus aclnnInplaceIndexCopyGetWorkspaceSize(aclTensor *selfRef, int64_t dim,
                                                  const aclTensor *index, const aclTensor *source,
                                                  uint64_t *workspaceSize,
                                                  aclOpExecutor **executor) {
  constexpr DTypeSet kTypes = kArithmetic | kComplex;
  Check check("aclnnInplaceIndexCopy");
  check.not_null(selfRef, "selfRef").not_null(index, "index").not_null(source, "source");
  check.results(workspaceSize, executor);
  check.tensor(selfRef, "selfRef", kTypes)
      .tensor(index, "index", kIndex, 1)
      .tensor(source, "source", kTypes);
  check.same_dtype(selfRef, source);
  if (check.failed()) return check.status();
  View to = view_of(selfRef), from = view_of(source), places = view_of(index);
  const int axis = normalise_axis(dim, to.shape.rank);
  check.that(axis >= 0, "dim %lld is out of range for %d dimensions", static_cast<long long>(dim),
             to.shape.rank);
  if (check.failed()) return check.status();
  for (View *view : {&to, &places}) {
    if (view->shape.rank != 0) continue;
    view->shape.rank = 1;
    view->shape.dim[0] = 1;
    view->stride[0] = 1;
  }
  const int64_t n = places.shape.dim[0];
  if (from.shape.rank == 0) {
    check.that(n == 1, "source is a scalar but index has %lld elements", static_cast<long long>(n));
    check.that(to.shape.rank == 1, "source is a scalar but selfRef has %d dimensions",
               to.shape.rank);
    from.shape.rank = 1;
    from.shape.dim[0] = 1;
    from.stride[0] = 1;
  }
  check.that(from.shape.rank == to.shape.rank, "source has %d dimensions and selfRef %d",
             from.shape.rank, to.shape.rank);
  for (int d = 0; d < to.shape.rank && !check.failed(); ++d) {
    const int64_t wanted = d == axis ? n : to.shape.dim[d];
    check.that(from.shape.dim[d] == wanted, "source has %lld along dim %d, not %lld",
               static_cast<long long>(from.shape.dim[d]), d, static_cast<long long>(wanted));
  }
  if (check.failed()) return check.status();
  GatherParams p;
  p.axis = axis;
  p.index_rank = 1;
  Planner plan("aclnnInplaceIndexCopy", workspaceSize, executor);
  const int y = plan.in_place(selfRef), i = plan.input(index), x = plan.input(source);
  plan.write(y, to);
  plan.read(x, from);
  plan.read(i, places);
  return plan.finish(from.count() == 0 ? nullptr : index_copy_kernel, p);
}
ACLNN_RUN(aclnnInplaceIndexCopy)

}  // extern "C"
