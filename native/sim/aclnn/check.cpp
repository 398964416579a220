#include "sim/aclnn/check.hpp"

#include <charconv>
#include <cstdio>

#include "sim/error.hpp"
#include "sim/lookup.hpp"

namespace aiocann::sim {

Check &Check::reject_list(aclnnStatus status, const char *format, va_list list) {
  char text[400];
  std::vsnprintf(text, sizeof text, format, list);
  status_ = fail(status, "%s: %s", op_, text);
  return *this;
}

Check &Check::reject(aclnnStatus status, const char *format, ...) {
  va_list list;
  va_start(list, format);
  reject_list(status, format, list);
  va_end(list);
  return *this;
}

Check &Check::that(bool condition, const char *format, ...) {
  if (condition || failed()) return *this;
  va_list list;
  va_start(list, format);
  reject_list(ACLNN_ERR_PARAM_INVALID, format, list);
  va_end(list);
  return *this;
}

Check &Check::not_null(const void *pointer, const char *what) {
  if (failed() || pointer != nullptr) return *this;
  return reject(ACLNN_ERR_PARAM_NULLPTR, "%s is NULL", what);
}

Check &Check::needs_hbm() {
  if (failed() || soc_has_hbm()) return *this;
  return reject(ACLNN_ERR_RUNTIME_ERROR, "this SoC does not have the operator");
}

Check &Check::results(const uint64_t *workspace, aclOpExecutor **executor) {
  return not_null(workspace, "workspaceSize").not_null(executor, "executor");
}

Check &Check::tensor(const aclTensor *tensor, const char *what, DTypeSet dtypes, int max_rank,
                     int min_rank) {
  if (failed()) return *this;
  switch (tensor->format) {
    case ACL_FORMAT_ND:
    case ACL_FORMAT_NCHW:
    case ACL_FORMAT_NHWC:
    case ACL_FORMAT_HWCN:
    case ACL_FORMAT_NDHWC:
    case ACL_FORMAT_NCDHW:
    case ACL_FORMAT_NC:
    case ACL_FORMAT_NCL:
    case ACL_FORMAT_UNDEFINED:
      break;
    default:  // tiled: the strides do not say where elements are
      return reject(ACLNN_ERR_PARAM_INVALID, "%s has format %d, which is not supported", what,
                    static_cast<int>(tensor->format));
  }
  return dimensions(tensor, what, dtypes, max_rank, min_rank);
}

Check &Check::weight(const aclTensor *tensor, const char *what, DTypeSet dtypes, int max_rank,
                     int min_rank) {
  if (failed()) return *this;
  if (tensor->format != ACL_FORMAT_FRACTAL_NZ)
    return this->tensor(tensor, what, dtypes, max_rank, min_rank);
  return dimensions(tensor, what, dtypes, max_rank, min_rank);
}

Check &Check::dimensions(const aclTensor *tensor, const char *what, DTypeSet dtypes, int max_rank,
                         int min_rank) {
  if (!dtypes.has(tensor->dtype) || !soc_takes(tensor->dtype)) {
    return reject(ACLNN_ERR_PARAM_INVALID, "%s has data type %s, which is not supported", what,
                  name_of(tensor->dtype));
  }
  const uint64_t rank = tensor->shape.size();
  if (rank > static_cast<uint64_t>(max_rank) || rank < static_cast<uint64_t>(min_rank)) {
    return reject(ACLNN_ERR_PARAM_INVALID, "%s has %llu dimensions, not %d to %d", what,
                  static_cast<unsigned long long>(rank), min_rank, max_rank);
  }
  // Everything later multiplies these without looking: keep sizes and reach within 2^56 bytes.
  constexpr int64_t kLimit = int64_t{1} << 56;
  int64_t count = static_cast<int64_t>(size_of(tensor->dtype));
  int64_t reach = tensor->offset;
  bool sane = tensor->offset >= 0 && tensor->offset < kLimit / 16;
  bool empty = false;
  for (uint64_t d = 0; d < rank && sane; ++d) empty |= tensor->shape[d] == 0;
  for (uint64_t d = 0; d < rank && sane; ++d) {
    const int64_t dim = tensor->shape[d], stride = tensor->strides[d];
    sane = dim >= 0 &&
           (empty ? dim < kLimit : !__builtin_mul_overflow(count, dim, &count) && count < kLimit);
    if (!sane || empty || dim == 0) continue;
    int64_t span;
    sane = !__builtin_mul_overflow(dim - 1, stride, &span) &&
           !__builtin_add_overflow(reach, span, &reach) && reach < kLimit / 16 &&
           reach > -kLimit / 16;
  }
  if (!sane) {
    return reject(ACLNN_ERR_PARAM_INVALID, "%s has impossible dimensions, strides or offset", what);
  }
  return *this;
}

Check &Check::scalar(const aclScalar *scalar, const char *what, DTypeSet dtypes) {
  if (failed()) return *this;
  return that(dtypes.has(scalar->dtype) && soc_takes(scalar->dtype),
              "%s has data type %s, which is not supported", what, name_of(scalar->dtype));
}

Check &Check::same_dtype(const aclTensor *a, const aclTensor *b) {
  if (failed()) return *this;
  return that(a->dtype == b->dtype, "data types differ: %s and %s", name_of(a->dtype),
              name_of(b->dtype));
}

Check &Check::same_shape(const aclTensor *a, const aclTensor *b) {
  if (failed()) return *this;
  const Shape x = shape_of(a), y = shape_of(b);
  if (x == y) return *this;
  return that(false, "shapes differ: %s and %s", ShapeText(x).text, ShapeText(y).text);
}

Check &Check::has_shape(const aclTensor *tensor, const char *what, const Shape &shape) {
  if (failed()) return *this;
  const Shape own = shape_of(tensor);
  if (own == shape) return *this;
  return that(false, "%s has shape %s, not %s", what, ShapeText(own).text, ShapeText(shape).text);
}

// By hand, as most texts are made for checks that then hold.
ShapeText::ShapeText(const Shape &shape) {
  static_assert(sizeof text >= kMaxRank * (sizeof ", -9223372036854775808" - 1) + sizeof "[]");
  char *to = text;
  *to++ = '[';
  for (int d = 0; d < shape.rank; ++d) {
    if (d != 0) {
      *to++ = ',';
      *to++ = ' ';
    }
    to = std::to_chars(to, text + sizeof text, shape.dim[d]).ptr;
  }
  *to++ = ']';
  *to = '\0';
}

Shape shape_of(const aclTensor *tensor) {
  Shape shape;
  shape.rank = static_cast<int>(tensor->shape.size());
  for (int d = 0; d < shape.rank; ++d) shape.dim[d] = tensor->shape[static_cast<uint64_t>(d)];
  return shape;
}

View view_of(const aclTensor *tensor) {
  View view;
  view.dtype = tensor->dtype;
  view.shape = shape_of(tensor);
  for (int d = 0; d < view.shape.rank; ++d)
    view.stride[d] = tensor->strides[static_cast<uint64_t>(d)];
  return view;
}

View broadcast(const View &view, const Shape &shape) {
  View wide = view;
  wide.shape = shape;
  const int missing = shape.rank - view.shape.rank;
  for (int d = 0; d < shape.rank; ++d) {
    const bool own = d >= missing && (view.shape.dim[d - missing] != 1 || shape.dim[d] == 1);
    wide.stride[d] = own ? view.stride[d - missing] : 0;
  }
  return wide;
}

bool broadcast_shapes(const Shape &a, const Shape &b, Shape *out) {
  Shape result;
  result.rank = a.rank > b.rank ? a.rank : b.rank;
  for (int d = 1; d <= result.rank; ++d) {
    const int64_t x = d <= a.rank ? a.dim[a.rank - d] : 1;
    const int64_t y = d <= b.rank ? b.dim[b.rank - d] : 1;
    if (x != y && x != 1 && y != 1) return false;
    result.dim[result.rank - d] = x == 1 ? y : x;
  }
  *out = result;
  return true;
}

bool is_contiguous(const View &view) {
  int64_t expected = 1;
  for (int d = view.shape.rank - 1; d >= 0; --d) {
    if (view.shape.dim[d] != 1 && view.stride[d] != expected) return false;
    expected *= view.shape.dim[d];
  }
  return true;
}

uint64_t straightening(const View &view, aclDataType dtype) {
  if (view.dtype == dtype && is_contiguous(view)) return 0;
  return static_cast<uint64_t>(view.count()) * size_of(dtype);
}

int normalise_axis(int64_t axis, int rank) {
  const int64_t n = rank == 0 ? 1 : rank;
  if (axis < -n || axis >= n) return -1;
  return static_cast<int>(axis < 0 ? axis + n : axis);
}

}  // namespace aiocann::sim
