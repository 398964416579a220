#include "core/ops/shapes.hpp"

#include <algorithm>

namespace aiocann::core {
namespace {

void take_shape(const Layout &from, Layout *out) {
  out->n_dims = from.n_dims;
  std::copy(from.ne, from.ne + kAxes, out->ne);
}

/// How many leading parameters describe axes: those before the first -1, with nothing but -1 after
/// it; -1 when they make no sense.
int32_t count_axes(const aiocann_param *params) {
  int32_t n = 0;
  while (n < kAxes && params[n].i >= 0) ++n;
  for (int32_t i = n; i < kAxes; ++i) {
    if (params[i].i != -1) return -1;
  }
  return n;
}

}  // namespace

Status shape_same(const NodeView &node, Layout *out, int64_t *) {
  take_shape(*node.src[0], out);
  return Status::ok();
}

Status shape_rows_nonempty(const NodeView &node, Layout *out, int64_t *) {
  const Layout &x = *node.src[0];
  if (x.ne[0] == 0 && x.rows() != 0) return node.usage("the last axis has no elements");
  take_shape(x, out);
  return Status::ok();
}

Status shape_repeat(const NodeView &node, Layout *out, int64_t *) {
  const Layout &a = *node.src[0];
  const Layout &b = *node.src[1];
  if (!repeats_into(b, a)) {
    return node.usage(
        "the second operand must repeat a whole number of times "
        "into the first%s",
        repeats_into(a, b) ? "; swap them" : "");
  }
  if (a.dtype != b.dtype && a.dtype != AIOCANN_F32 && b.dtype != AIOCANN_F32) {
    return node.unsupported("f16 and bf16 do not mix; cast one of them");
  }
  take_shape(a, out);
  out->n_dims = std::max(a.n_dims, b.n_dims);
  return Status::ok();
}

Status shape_get_rows(const NodeView &node, Layout *out, int64_t *) {
  const Layout &table = *node.src[0];
  const Layout &ids = *node.src[1];
  if (ids.n_dims > 3) return node.usage("ids has %d axes; at most 3 are possible", ids.n_dims);
  if (table.dtype == AIOCANN_Q8_0 && !table.is_contiguous())
    return node.unsupported("a quantized table must be without gaps");
  if ((table.ne[2] != 1 && table.ne[2] != ids.ne[1]) ||
      (table.ne[3] != 1 && table.ne[3] != ids.ne[2])) {
    return node.usage(
        "the leading axes of a table of more than 2 axes must "
        "equal those of ids before its last");
  }
  if (table.ne[1] == 0 && !ids.is_empty()) return node.usage("the table has no rows");
  out->ne[0] = table.ne[0];
  for (int i = 0; i < 3; ++i) out->ne[i + 1] = ids.ne[i];
  out->n_dims = std::max(ids.n_dims + 1, table.n_dims);
  return Status::ok();
}

/// What aclnn's product takes of quantized weights.
static Status check_quantized(const NodeView &node) {
  constexpr int64_t kLongest = 65535;
  const Layout &w = *node.src[0];
  if ((kQuantized & dtype_bit(w.dtype)) == 0) return Status::ok();
  if (on_310p(node)) return node.unsupported("%s has no quantized weights", node.soc);
  if (node.src[1]->dtype == AIOCANN_BF16)
    return node.unsupported("with quantized weights, x must be f32 or f16");
  if (!w.is_contiguous()) return node.unsupported("quantized weights must be without gaps");
  if (w.ne[0] > kLongest) {
    return node.unsupported("rows of quantized weights have at most %lld elements",
                            static_cast<long long>(kLongest));
  }
  return Status::ok();
}

Status shape_mul_mat(const NodeView &node, Layout *out, int64_t *) {
  const Layout &w = *node.src[0];
  const Layout &x = *node.src[1];
  if (Status status = check_quantized(node); !status.is_ok()) return status;
  const int64_t mode = node.params[0].i;
  if (mode < 0 || mode > 3) {
    return node.usage("cube_math_type is %lld; it goes from 0 to 3", static_cast<long long>(mode));
  }
  if (w.n_dims < 2) return node.usage("the first operand must have 2 axes or more: (..., n, k)");
  if (w.ne[0] != x.ne[0]) {
    return node.usage(
        "the last axes differ (%lld and %lld); they are summed "
        "over: w (..., n, k), x (..., m, k)",
        static_cast<long long>(w.ne[0]), static_cast<long long>(x.ne[0]));
  }
  for (int i = 2; i < kAxes; ++i) {
    if (w.ne[i] == 0 ? x.ne[i] != 0 : x.ne[i] % w.ne[i] != 0) {
      return node.usage("axis %d of the first operand must divide that of the second", -1 - i);
    }
  }
  out->ne[0] = w.ne[1];
  for (int i = 1; i < kAxes; ++i) out->ne[i] = x.ne[i];
  if (w.ne[0] == 0 && !out->is_empty()) return node.usage("the axis summed over has no elements");
  out->n_dims = std::max(x.n_dims, w.n_dims > 2 ? w.n_dims : 1);
  return Status::ok();
}

Status shape_mul_mat_id(const NodeView &node, Layout *out, int64_t *) {
  const Layout &w = *node.src[0];
  const Layout &x = *node.src[1];
  const Layout &ids = *node.src[2];
  if (Status status = check_quantized(node); !status.is_ok()) return status;
  if (w.ne[0] != x.ne[0] || w.ne[0] == 0 || w.ne[3] != 1)
    return node.usage("w must be (experts, n, k) and x (tokens, used or 1, k)");
  if (x.ne[3] != 1 || ids.rows() != ids.ne[1] || ids.ne[1] != x.ne[2] ||
      (x.ne[1] != 1 && x.ne[1] != ids.ne[0]))
    return node.usage("ids must be (tokens, used) for x (tokens, used or 1, k)");
  if (w.ne[2] == 0 && !ids.is_empty()) return node.usage("there are no experts");
  out->ne[0] = w.ne[1];
  out->ne[1] = ids.ne[0];
  out->ne[2] = ids.ne[1];
  out->ne[3] = 1;
  out->n_dims = 3;
  return Status::ok();
}

Status shape_soft_max(const NodeView &node, Layout *out, int64_t *offset) {
  const Layout &x = *node.src[0];
  const double max_bias = node.params[1].f;
  if (!(max_bias >= 0)) return node.usage("max_bias is %g; it must not be negative", max_bias);
  if (node.has(1)) {
    const Layout &mask = *node.src[1];
    const bool rows_fit = mask.ne[1] == 1 || mask.ne[1] >= x.ne[1];
    if (mask.ne[0] != x.ne[0] || !rows_fit || mask.ne[2] == 0 || x.ne[2] % mask.ne[2] != 0 ||
        mask.ne[3] == 0 || x.ne[3] % mask.ne[3] != 0) {
      return node.usage(
          "the mask must have the last axis of x, one row or at "
          "least as many as x, and leading axes that "
          "divide those of x");
    }
  } else if (max_bias > 0) {
    return node.usage("max_bias needs a mask: it scales the mask by a slope for each head");
  }
  return shape_rows_nonempty(node, out, offset);
}

Status shape_sum(const NodeView &node, Layout *out, int64_t *) {
  if (node.src[0]->is_empty()) return node.usage("there are no elements");
  out->n_dims = 1;
  std::fill(out->ne, out->ne + kAxes, 1);
  return Status::ok();
}

Status shape_sum_rows(const NodeView &node, Layout *out, int64_t *offset) {
  Status status = shape_rows_nonempty(node, out, offset);
  out->ne[0] = 1;
  return status;
}

Status shape_cpy(const NodeView &node, Layout *out, int64_t *) {
  const Layout &src = *node.src[0];
  const Layout &dst = *node.src[1];
  if (src.elements() != dst.elements()) {
    return node.usage("%lld elements do not fill %lld", static_cast<long long>(src.elements()),
                      static_cast<long long>(dst.elements()));
  }
  *out = dst;
  return Status::ok();
}

Status shape_reshape(const NodeView &node, Layout *out, int64_t *) {
  const Layout &x = *node.src[0];
  const int32_t n = count_axes(node.params);
  if (n < 1) return node.usage("the new shape must have 1 to 4 axes");
  Layout shape;
  shape.n_dims = n;
  for (int i = 0; i < n; ++i) shape.ne[i] = node.params[i].i;
  if (shape.elements() != x.elements()) {
    return node.usage("%lld elements cannot take the shape %s",
                      static_cast<long long>(x.elements()), shape_text(shape).c_str());
  }
  if (!x.is_contiguous())
    return node.usage("only a contiguous tensor can be reshaped; use cont first");
  *out = Layout::contiguous(shape, x.dtype);
  return Status::ok();
}

Status shape_view(const NodeView &node, Layout *out, int64_t *offset) {
  const Layout &x = *node.src[0];
  const int64_t size = dtype_size(x.dtype);
  const int32_t n = count_axes(node.params);
  if (n < 1) return node.usage("the shape of a view must have 1 to 4 axes");
  out->n_dims = n;
  out->nb[0] = size;
  for (int i = 0; i < kAxes; ++i) out->ne[i] = i < n ? node.params[i].i : 1;
  for (int i = 1; i < kAxes; ++i) {
    const int64_t given = node.params[kAxes - 1 + i].i;
    // The strides of axes that are not there are never used; they look contiguous where they can.
    if (i >= n && __builtin_mul_overflow(out->nb[i - 1], out->ne[i - 1], &out->nb[i]))
      out->nb[i] = 0;
    if (i < n) out->nb[i] = given;
    if (out->nb[i] < 0 || out->nb[i] % size != 0) {
      return node.usage("strides must be multiples of %lld bytes and not negative",
                        static_cast<long long>(size));
    }
  }
  *offset = node.params[7].i;
  if (*offset < 0 || *offset % size != 0) {
    return node.usage("the offset must be a multiple of %lld bytes and not negative",
                      static_cast<long long>(size));
  }
  if (out->extent() > x.extent() || static_cast<uint64_t>(*offset) > x.extent() - out->extent()) {
    return node.usage(
        "a view of %llu bytes at offset %lld ends outside its "
        "source, which has %llu bytes",
        static_cast<unsigned long long>(out->extent()), static_cast<long long>(*offset),
        static_cast<unsigned long long>(x.extent()));
  }
  return Status::ok();
}

Status shape_permute(const NodeView &node, Layout *out, int64_t *) {
  const Layout &x = *node.src[0];
  bool used[kAxes] = {};
  for (int i = 0; i < kAxes; ++i) {
    const int64_t axis = node.params[i].i;
    const bool is_seen = i < x.n_dims;
    if (axis < 0 || axis >= kAxes || used[axis] || (is_seen ? axis >= x.n_dims : axis != i)) {
      return node.usage("axes must name each of the %d axes once", x.n_dims);
    }
    used[axis] = true;
    out->ne[i] = x.ne[axis];
    out->nb[i] = x.nb[axis];
  }
  out->n_dims = x.n_dims;
  return Status::ok();
}

Status shape_transpose(const NodeView &node, Layout *out, int64_t *) {
  const Layout &x = *node.src[0];
  if (x.n_dims < 2) return node.usage("there is only one axis");
  *out = x;
  std::swap(out->ne[0], out->ne[1]);
  std::swap(out->nb[0], out->nb[1]);
  return Status::ok();
}

}  // namespace aiocann::core
