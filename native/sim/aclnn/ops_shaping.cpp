// ops_shaping.cpp: operators that pad, repeat, resize and cut out, without computing.
#include <algorithm>

#include "sim/aclnn/check.hpp"
#include "sim/aclnn/executor.hpp"
#include "sim/kernels/convert.hpp"
#include "sim/kernels/copy.hpp"
#include "sim/kernels/gather.hpp"

namespace aiocann::sim {
namespace {

constexpr DTypeSet kPlain = kArithmetic | kUnsigned;

aclnnStatus plan_triangle(const char *name, bool upper, const aclTensor *self, int64_t diagonal,
                          const aclTensor *out, bool in_place, uint64_t *workspace,
                          aclOpExecutor **executor) {
  Check check(name);
  check.not_null(self, in_place ? "selfRef" : "self").not_null(out, "out");
  check.results(workspace, executor);
  check.tensor(self, "self", kPlain).tensor(out, "out", kPlain);
  check.same_dtype(self, out).same_shape(self, out);
  if (check.failed()) return check.status();
  check.that(self->format == out->format, "self and out differ in format");
  const View from = view_of(self);
  check.that(from.shape.rank >= 2 || from.count() == 0, "self has %d dimensions, not 2 to %d",
             from.shape.rank, kMaxTensorRank);
  if (check.failed()) return check.status();
  TriangleParams p;
  p.diagonal = diagonal;
  p.upper = upper;
  Planner plan(name, workspace, executor);
  const int x = in_place ? plan.in_place(self) : plan.input(self);
  const int y = in_place ? x : plan.output(out);
  plan.write(y, view_of(out));
  if (!in_place) plan.read(x, from);
  return plan.finish(from.count() == 0 ? nullptr : triangle_kernel, p);
}

/// An element of type `dtype` with a scalar's value. Numbers that are not complex fit a double, or an int64.
void encode(const aclScalar *value, aclDataType dtype, unsigned char *element) {
  if (dtype == ACL_COMPLEX64 || dtype == ACL_COMPLEX128) {
    const aclDataType part = dtype == ACL_COMPLEX64 ? ACL_FLOAT : ACL_DOUBLE;
    double parts[2] = {value->as_double(), 0};
    if (value->dtype == ACL_COMPLEX64) read_elements(parts, value->bytes, ACL_FLOAT, 2);
    if (value->dtype == ACL_COMPLEX128) read_elements(parts, value->bytes, ACL_DOUBLE, 2);
    write_elements(element, part, parts, 2);
  } else if (is_float(dtype) || is_float(value->dtype)) {
    const double number = value->as_double();
    write_elements(element, dtype, &number, 1);
  } else {
    const int64_t number = value->as_int();
    write_elements(element, dtype, &number, 1);
  }
}

/// How much is added before and after each axis; negative: taken away.
struct Padding {
  int64_t before[kMaxTensorRank] = {}, after[kMaxTensorRank] = {};
};

/// `pad` starts at the last axis.
Padding read_padding(Check *check, const Shape &shape, const aclIntArray *pad, Shape *padded) {
  Padding padding;
  *padded = shape;
  const size_t n = pad->values.size();
  check->that(n % 2 == 0 && n <= 2 * static_cast<size_t>(shape.rank),
              "pad has %zu values for %d dimensions", n, shape.rank);
  if (check->failed()) return padding;
  bool grows = false, vanishes = false;
  for (size_t i = 0; i < n / 2; ++i) {
    const int axis = shape.rank - 1 - static_cast<int>(i);
    const int64_t before = pad->values[2 * i], after = pad->values[2 * i + 1];
    constexpr int64_t kLimit = int64_t{1} << 50;
    check->that(std::max(std::abs(before), std::abs(after)) < kLimit, "pad is too large");
    if (check->failed()) return padding;
    const int64_t least = std::min({before, after, before + after, int64_t{0}});
    check->that(shape.dim[axis] + least >= 0, "pad takes away more than the %lld along dim %d",
                static_cast<long long>(shape.dim[axis]), axis);
    padding.before[axis] = before;
    padding.after[axis] = after;
    padded->dim[axis] = shape.dim[axis] + before + after;
    grows |= before > 0 || after > 0;
    vanishes |= padded->dim[axis] == 0;
  }
  check->that(!(grows && vanishes), "pad leaves nothing: %s", ShapeText(*padded).text);
  return padding;
}

}  // namespace
}  // namespace aiocann::sim

using namespace aiocann::sim;  // NOLINT: the entry points are this file's whole business

extern "C" {

aclnnStatus aclnnTrilGetWorkspaceSize(const aclTensor *self, int64_t diagonal, aclTensor *out,
                                      uint64_t *workspaceSize, aclOpExecutor **executor) {
  return plan_triangle("aclnnTril", false, self, diagonal, out, false, workspaceSize, executor);
}
ACLNN_RUN(aclnnTril)

aclnnStatus aclnnTriuGetWorkspaceSize(const aclTensor *self, int64_t diagonal, aclTensor *out,
                                      uint64_t *workspaceSize, aclOpExecutor **executor) {
  return plan_triangle("aclnnTriu", true, self, diagonal, out, false, workspaceSize, executor);
}
ACLNN_RUN(aclnnTriu)

aclnnStatus aclnnInplaceTriuGetWorkspaceSize(aclTensor *selfRef, int64_t diagonal,
                                             uint64_t *workspaceSize, aclOpExecutor **executor) {
  return plan_triangle("aclnnInplaceTriu", true, selfRef, diagonal, selfRef, true, workspaceSize,
                       executor);
}
ACLNN_RUN(aclnnInplaceTriu)

aclnnStatus aclnnConstantPadNdGetWorkspaceSize(const aclTensor *self, const aclIntArray *pad,
                                               const aclScalar *value, aclTensor *out,
                                               uint64_t *workspaceSize, aclOpExecutor **executor) {
  constexpr DTypeSet kTypes = kPlain | kComplex;
  Check check("aclnnConstantPadNd");
  check.not_null(self, "self").not_null(pad, "pad").not_null(value, "value").not_null(out, "out");
  check.results(workspaceSize, executor);
  check.tensor(self, "self", kTypes).tensor(out, "out", kTypes).same_dtype(self, out);
  check.scalar(value, "value", kTypes);
  if (check.failed()) return check.status();
  check.that(promote_scalar(self->dtype, value->dtype) != ACL_DT_UNDEFINED,
             "%s and %s cannot be combined", name_of(self->dtype), name_of(value->dtype));
  check.that(self->format == ACL_FORMAT_ND || self->format == out->format,
             "self and out differ in format");
  if (check.failed()) return check.status();
  View source = view_of(self), target = view_of(out);
  Shape padded;
  const Padding padding = read_padding(&check, source.shape, pad, &padded);
  check.has_shape(out, "out", padded);
  if (check.failed()) return check.status();

  PadParams p;
  encode(value, self->dtype, p.value);
  const auto item = static_cast<int64_t>(size_of(self->dtype));
  // What is copied, and the frame around it: along each axis two slabs, whole along later axes.
  struct Slab {
    View view;
    int64_t shift;
  } slabs[2 * kMaxTensorRank];
  int n_slabs = 0;
  int64_t source_shift = 0, target_shift = 0;
  for (int d = 0; d < target.shape.rank; ++d) {
    const int64_t before = padding.before[d], after = padding.after[d];
    const int64_t step = target.stride[d] * item, whole = target.shape.dim[d];
    const int64_t first = std::max<int64_t>(before, 0), last = whole - std::max<int64_t>(after, 0);
    View slab = target;
    slab.shape.dim[d] = first;
    slabs[n_slabs++] = {slab, target_shift};
    slab.shape.dim[d] = whole - last;
    slabs[n_slabs++] = {slab, target_shift + last * step};
    target.shape.dim[d] = source.shape.dim[d] = last - first;
    target_shift += first * step;
    source_shift += std::max<int64_t>(-before, 0) * source.stride[d] * item;
  }
  Planner plan(check.op(), workspaceSize, executor);
  const int x = plan.input(self), y = plan.output(out);
  plan.write(y, target, target_shift);
  plan.read(x, source, source_shift);
  for (int i = 0; i < n_slabs; ++i) {
    if (slabs[i].view.count() != 0) plan.write(y, slabs[i].view, slabs[i].shift);
  }
  return plan.finish(padded.count() == 0 ? nullptr : pad_kernel, p);
}
ACLNN_RUN(aclnnConstantPadNd)

aclnnStatus aclnnReflectionPad1dGetWorkspaceSize(const aclTensor *self, const aclIntArray *padding,
                                                 aclTensor *out, uint64_t *workspaceSize,
                                                 aclOpExecutor **executor) {
  constexpr DTypeSet kTypes = kArithmetic | kComplex;
  Check check("aclnnReflectionPad1d");
  check.not_null(self, "self").not_null(padding, "padding").not_null(out, "out");
  check.results(workspaceSize, executor);
  check.tensor(self, "self", kTypes, 3, 2).tensor(out, "out", kTypes, 3, 2).same_dtype(self, out);
  if (check.failed()) return check.status();
  check.that(self->format == out->format, "self and out differ in format");
  check.that(padding->values.size() == 2, "padding has %zu values, not 2", padding->values.size());
  if (check.failed()) return check.status();
  const View in = view_of(self), to = view_of(out);
  const int axis = in.shape.rank - 1;
  const int64_t n = in.shape.dim[axis], left = padding->values[0], right = padding->values[1];
  for (int d = in.shape.rank == 2 ? 0 : 1; d <= axis; ++d) {
    check.that(in.shape.dim[d] != 0, "self has shape %s: only a batch may be empty",
               ShapeText(in.shape).text);
  }
  check.that(left < n && right < n, "padding is not less than the %lld that there are",
             static_cast<long long>(n));
  check.that(
      left > -n && right > -n && std::min<int64_t>(left, 0) + std::min<int64_t>(right, 0) > -n,
      "padding leaves nothing");
  if (check.failed()) return check.status();
  Shape padded = in.shape;
  padded.dim[axis] = n + left + right;
  check.has_shape(out, "out", padded);
  if (check.failed()) return check.status();

  Planner plan(check.op(), workspaceSize, executor);
  const int x = plan.input(self), y = plan.output(out);
  const auto item = static_cast<int64_t>(size_of(in.dtype));
  const auto part = [&](int64_t at, int64_t from, int64_t length, int step) {
    if (length <= 0) return;
    View target = to, source = in;
    target.shape.dim[axis] = source.shape.dim[axis] = length;
    source.stride[axis] *= step;
    plan.write(y, target, at * to.stride[axis] * item);
    plan.read(x, source, from * in.stride[axis] * item);
  };
  const int64_t first = std::max<int64_t>(-left, 0), middle = std::max<int64_t>(left, 0);
  const int64_t kept = n - first - std::max<int64_t>(-right, 0);
  part(0, left, left, -1);
  part(middle, first, kept, 1);
  part(middle + kept, n - 2, right, -1);
  return plan.finish(padded.count() == 0 ? nullptr : copy_kernel);
}
ACLNN_RUN(aclnnReflectionPad1d)

aclnnStatus aclnnRepeatInterleaveIntWithDimGetWorkspaceSize(const aclTensor *self, int64_t repeats,
                                                            int64_t dim, int64_t outputSize,
                                                            aclTensor *out, uint64_t *workspaceSize,
                                                            aclOpExecutor **executor) {
  constexpr DTypeSet kTypes = kHalfAndFloat | kIntegers | kBool;
  Check check("aclnnRepeatInterleaveIntWithDim");
  check.not_null(self, "self").not_null(out, "out").results(workspaceSize, executor);
  check.tensor(self, "self", kTypes, kMaxTensorRank, 1).tensor(out, "out", kTypes);
  check.same_dtype(self, out);
  if (check.failed()) return check.status();
  View from = view_of(self), to = view_of(out);
  const int rank = from.shape.rank, axis = normalise_axis(dim, rank);
  check.that(axis >= 0, "dim %lld is out of range for %d dimensions", static_cast<long long>(dim),
             rank);
  check.that(repeats >= 0, "repeats is %lld, less than 0", static_cast<long long>(repeats));
  if (check.failed()) return check.status();
  const int64_t n = from.shape.dim[axis];
  Shape repeated = from.shape;
  check.that(
      !__builtin_mul_overflow(n, repeats, &repeated.dim[axis]) && outputSize == repeated.dim[axis],
      "outputSize is %lld, not %lld times %lld", static_cast<long long>(outputSize),
      static_cast<long long>(repeats), static_cast<long long>(n));
  check.has_shape(out, "out", repeated);
  if (check.failed()) return check.status();
  // The axis becomes two: which element, and which copy of it.
  for (View *view : {&from, &to}) {
    for (int d = rank; d > axis + 1; --d) {
      view->shape.dim[d] = view->shape.dim[d - 1];
      view->stride[d] = view->stride[d - 1];
    }
    view->shape.rank = rank + 1;
    view->shape.dim[axis] = n;
    view->shape.dim[axis + 1] = repeats;
  }
  from.stride[axis + 1] = 0;
  to.stride[axis + 1] = to.stride[axis];
  to.stride[axis] *= repeats;
  Planner plan(check.op(), workspaceSize, executor);
  const int x = plan.input(self), y = plan.output(out);
  plan.write(y, to);
  plan.read(x, from);
  return plan.finish(repeated.count() == 0 ? nullptr : copy_kernel);
}
ACLNN_RUN(aclnnRepeatInterleaveIntWithDim)

aclnnStatus aclnnUpsampleNearest2dGetWorkspaceSize(const aclTensor *self,
                                                   const aclIntArray *outputSize, aclTensor *out,
                                                   uint64_t *workspaceSize,
                                                   aclOpExecutor **executor) {
  constexpr DTypeSet kTypes = kFloating | DTypeSet::of(ACL_UINT8);
  Check check("aclnnUpsampleNearest2d");
  check.not_null(self, "self").not_null(outputSize, "outputSize").not_null(out, "out");
  check.results(workspaceSize, executor);
  check.tensor(self, "self", kTypes, 4, 4).tensor(out, "out", kTypes, 4, 4).same_dtype(self, out);
  if (check.failed()) return check.status();
  const bool channels_last = self->format == ACL_FORMAT_NHWC;
  check.that(channels_last || self->format == ACL_FORMAT_NCHW,
             "self has format %d, neither NCHW nor NHWC", static_cast<int>(self->format));
  check.that(self->format == out->format, "self and out differ in format");
  check.that(outputSize->values.size() == 2, "outputSize has %zu values, not 2",
             outputSize->values.size());
  if (check.failed()) return check.status();
  View from = view_of(self), to = view_of(out);
  const int height = channels_last ? 1 : 2;
  Shape resized = from.shape;
  for (int d = 0; d < 2; ++d) {
    const int64_t size = outputSize->values[static_cast<size_t>(d)];
    check.that(size > 0, "outputSize has the value %lld", static_cast<long long>(size));
    resized.dim[height + d] = size;
  }
  for (int d = 1; d < 4; ++d) {
    check.that(from.shape.dim[d] != 0, "self has shape %s: only the batch may be empty",
               ShapeText(from.shape).text);
  }
  for (int d = 0; d < 4; ++d) {
    check.that(from.shape.dim[d] < INT32_MAX && resized.dim[d] < INT32_MAX, "sizes beyond 32 bits");
  }
  check.has_shape(out, "out", resized);
  if (check.failed()) return check.status();
  if (channels_last) {
    for (View *view : {&from, &to}) {
      std::rotate(view->shape.dim + 1, view->shape.dim + 3, view->shape.dim + 4);
      std::rotate(view->stride + 1, view->stride + 3, view->stride + 4);
    }
  }
  Planner plan(check.op(), workspaceSize, executor);
  const int x = plan.input(self), y = plan.output(out);
  plan.write(y, to);
  plan.read(x, from);
  return plan.finish(resized.count() == 0 ? nullptr : resize_kernel);
}
ACLNN_RUN(aclnnUpsampleNearest2d)

}  // extern "C"
