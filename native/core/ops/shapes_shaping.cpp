// shapes_shaping.cpp: the shape rules of ops that pad, repeat, resize and cut out, of gated units, and of losses.
#include <algorithm>
#include <cmath>

#include "core/ops/shapes.hpp"

namespace aiocann::core {
namespace {

constexpr int64_t kFar = int64_t{1} << 40;  ///< no axis is as long

void take(const Layout &from, Layout *out) {
  out->n_dims = from.n_dims;
  std::copy(from.ne, from.ne + kAxes, out->ne);
}

void take_one(Layout *out) {
  out->n_dims = 1;
  std::fill(out->ne, out->ne + kAxes, 1);
}

Status check_pair(const NodeView &node) {
  if (!node.src[0]->same_shape(*node.src[1])) return node.usage("the shapes differ");
  if (node.src[0]->dtype != node.src[1]->dtype) return node.unsupported("the dtypes differ");
  return Status::ok();
}

}  // namespace

Status shape_add1(const NodeView &node, Layout *out, int64_t *offset) {
  if (node.src[1]->elements() != 1) return node.usage("the second operand must have one element");
  Status status = shape_repeat(node, out, offset);
  out->n_dims = node.src[0]->n_dims;
  return status;
}

Status shape_glu(const NodeView &node, Layout *out, int64_t *) {
  const Layout &a = *node.src[0];
  take(a, out);
  if (node.has(1)) {
    if (node.params[0].i != 0) return node.usage("only halves of one tensor can be swapped");
    return check_pair(node);
  }
  if (a.ne[0] % 2 != 0) {
    return node.usage("the last axis has %lld elements, which is no pair of halves",
                      static_cast<long long>(a.ne[0]));
  }
  out->ne[0] /= 2;
  return Status::ok();
}

Status shape_group_norm(const NodeView &node, Layout *out, int64_t *) {
  const Layout &x = *node.src[0];
  const int64_t groups = node.params[0].i;
  if (groups < 1) return node.usage("n_groups is %lld", static_cast<long long>(groups));
  if (!(node.params[1].f > 0)) return node.usage("eps must be more than 0");
  if (x.ne[2] % groups != 0) {
    return node.unsupported("%lld groups do not divide %lld channels (the third axis from the end)",
                            static_cast<long long>(groups), static_cast<long long>(x.ne[2]));
  }
  take(x, out);
  return Status::ok();
}

Status shape_cross_entropy(const NodeView &node, Layout *out, int64_t *) {
  if (node.src[0]->is_empty()) return node.usage("there are no elements");
  take_one(out);
  return check_pair(node);
}

Status shape_count_equal(const NodeView &node, Layout *out, int64_t *) {
  if (node.src[0]->is_empty()) return node.usage("there are no elements");
  take_one(out);
  return check_pair(node);
}

Status shape_arange(const NodeView &node, Layout *out, int64_t *) {
  const double start = node.params[0].f, stop = node.params[1].f, step = node.params[2].f;
  if (!std::isfinite(start) || !std::isfinite(stop) || !std::isfinite(step) || step == 0)
    return node.usage("start, stop and step must be finite, and step not 0");
  // What lies far before the start has no more numbers than what lies just before it.
  const double count = std::max(std::ceil((stop - start) / step), 0.0);
  // Beyond that, neighbours cannot be told apart as float32, and counting is not exact.
  if (count > static_cast<double>(int64_t{1} << 31))
    return node.usage("%g numbers are more than the device counts", count);
  out->ne[0] = static_cast<int64_t>(count);
  out->ne[1] = out->ne[2] = out->ne[3] = 1;
  out->n_dims = 1;
  return Status::ok();
}

Status shape_tri(const NodeView &node, Layout *out, int64_t *) {
  const int64_t kind = node.params[0].i;
  if (kind < 0 || kind > 3)
    return node.usage("kind is %lld; it goes from 0 to 3", static_cast<long long>(kind));
  if (node.src[0]->n_dims < 2) return node.usage("there is only one axis");
  take(*node.src[0], out);
  return Status::ok();
}

Status shape_diag(const NodeView &node, Layout *out, int64_t *) {
  const Layout &x = *node.src[0];
  if (x.ne[1] != 1) return node.usage("the last axis but one must have one element");
  take(x, out);
  out->ne[1] = x.ne[0];
  out->n_dims = std::max(x.n_dims, 2);
  return Status::ok();
}

Status shape_diag_mask_inf(const NodeView &node, Layout *out, int64_t *) {
  const int64_t n_past = node.params[0].i;
  if (n_past < 0 || n_past > kFar)
    return node.usage("n_past is %lld", static_cast<long long>(n_past));
  take(*node.src[0], out);
  return Status::ok();
}

Status shape_pad(const NodeView &node, Layout *out, int64_t *) {
  take(*node.src[0], out);
  for (int i = 0; i < kAxes; ++i) {
    const int64_t before = node.params[2 * i].i, after = node.params[2 * i + 1].i;
    if (before < 0 || after < 0 || before > kFar || after > kFar) {
      return node.usage("axis %d cannot be padded with %lld and %lld", -1 - i,
                        static_cast<long long>(before), static_cast<long long>(after));
    }
    if (before + after > 0) out->n_dims = std::max(out->n_dims, i + 1);
    out->ne[i] += before + after;
  }
  return Status::ok();
}

Status shape_pad_reflect_1d(const NodeView &node, Layout *out, int64_t *) {
  const Layout &x = *node.src[0];
  const int64_t before = node.params[0].i, after = node.params[1].i;
  if (before < 0 || after < 0 || before >= x.ne[0] || after >= x.ne[0]) {
    return node.usage("%lld and %lld must be less than the %lld elements that there are",
                      static_cast<long long>(before), static_cast<long long>(after),
                      static_cast<long long>(x.ne[0]));
  }
  take(x, out);
  out->ne[0] += before + after;
  return Status::ok();
}

Status shape_upscale(const NodeView &node, Layout *out, int64_t *) {
  const Layout &x = *node.src[0];
  const int64_t height = node.params[0].i, width = node.params[1].i;
  if (x.n_dims < 2) return node.usage("there is only one axis");
  if (x.ne[0] == 0 || x.ne[1] == 0) return node.usage("there is nothing to resize");
  if (height < 1 || width < 1 || height > INT32_MAX || width > INT32_MAX) {
    return node.usage("nothing can be resized to %lld by %lld", static_cast<long long>(height),
                      static_cast<long long>(width));
  }
  take(x, out);
  out->ne[0] = width;
  out->ne[1] = height;
  return Status::ok();
}

Status shape_repeat_to(const NodeView &node, Layout *out, int64_t *) {
  const Layout &x = *node.src[0];
  int32_t n = 0;
  while (n < kAxes && node.params[n].i >= 0) ++n;
  if (n < 1) return node.usage("the new shape must have 1 to 4 axes");
  out->n_dims = n;
  for (int i = 0; i < kAxes; ++i) out->ne[i] = i < n ? node.params[i].i : 1;
  if (!repeats_into(x, *out)) {
    return node.usage("it does not repeat a whole number of times into %s",
                      shape_text(*out).c_str());
  }
  return Status::ok();
}

Status shape_concat(const NodeView &node, Layout *out, int64_t *) {
  const Layout &a = *node.src[0];
  const Layout &b = *node.src[1];
  const int64_t axis = node.params[0].i;
  if (axis < 0 || axis >= kAxes) return node.usage("there is no such axis");
  if (a.dtype != b.dtype) return node.unsupported("the dtypes differ");
  take(a, out);
  for (int i = 0; i < kAxes; ++i) {
    if (i != axis && a.ne[i] != b.ne[i]) {
      return node.usage("the shapes differ along another axis than the one that is joined");
    }
  }
  if (__builtin_add_overflow(a.ne[axis], b.ne[axis], &out->ne[axis])) out->ne[axis] = INT64_MAX;
  out->n_dims = std::max({a.n_dims, b.n_dims, static_cast<int32_t>(axis) + 1});
  return Status::ok();
}

Status shape_into_part(const NodeView &node, Layout *out, int64_t *) {
  const Layout &a = *node.src[0];
  Layout part = *node.src[1];
  if (a.dtype != part.dtype) return node.unsupported("the dtypes differ");
  const int64_t size = dtype_size(a.dtype), offset = node.params[3].i;
  part.nb[0] = size;
  bool is_even = offset >= 0 && offset % size == 0;
  for (int i = 1; i < kAxes; ++i) {
    part.nb[i] = node.params[i - 1].i;
    is_even = is_even && part.nb[i] >= 0 && part.nb[i] % size == 0;
  }
  if (!is_even) {
    return node.usage("strides and offset must be multiples of %lld bytes and not negative",
                      static_cast<long long>(size));
  }
  const uint64_t room = Layout::contiguous(a, a.dtype).extent(), bytes = part.extent();
  if (bytes > room || static_cast<uint64_t>(offset) > room - bytes) {
    return node.usage("%llu bytes at offset %lld end outside the first operand",
                      static_cast<unsigned long long>(bytes), static_cast<long long>(offset));
  }
  take(a, out);
  return Status::ok();
}

Status shape_set_rows(const NodeView &node, Layout *out, int64_t *) {
  const Layout &x = *node.src[0];
  const Layout &ids = *node.src[1];
  const Layout &dst = *node.src[2];
  if (x.ne[0] != dst.ne[0] || x.ne[2] != dst.ne[2] || x.ne[3] != dst.ne[3]) {
    return node.usage("x and dst may differ in the number of their rows only");
  }
  if (ids.n_dims > 3) return node.usage("ids has %d axes; at most 3 are possible", ids.n_dims);
  const auto divides = [](int64_t part, int64_t whole) {
    return part == 0 ? whole == 0 : whole % part == 0;
  };
  if (ids.ne[0] != x.ne[1] || !divides(ids.ne[1], x.ne[2]) || !divides(ids.ne[2], x.ne[3])) {
    return node.usage(
        "ids must have one number for each row of x, and leading axes that divide those of x");
  }
  if (dst.ne[1] == 0 && !x.is_empty()) return node.usage("dst has no rows");
  *out = dst;
  return Status::ok();
}

Status shape_timesteps(const NodeView &node, Layout *out, int64_t *) {
  const Layout &steps = *node.src[0];
  const int64_t dim = node.params[0].i, period = node.params[1].i;
  if (steps.n_dims != 1) return node.usage("timesteps has %d axes, not 1", steps.n_dims);
  if (dim < 2 || dim > kFar) return node.usage("dim is %lld", static_cast<long long>(dim));
  if (period < 1) return node.usage("max_period is %lld", static_cast<long long>(period));
  out->n_dims = 2;
  std::fill(out->ne, out->ne + kAxes, 1);
  out->ne[0] = dim;
  out->ne[1] = steps.ne[0];
  return Status::ok();
}

Status shape_out_prod(const NodeView &node, Layout *out, int64_t *) {
  const Layout &a = *node.src[0];
  const Layout &b = *node.src[1];
  if (on_310p(node)) return node.unsupported("%s has no outer products", node.soc);
  if (a.ne[1] != b.ne[1]) {
    return node.usage("the last axes but one differ (%lld and %lld); they are summed over",
                      static_cast<long long>(a.ne[1]), static_cast<long long>(b.ne[1]));
  }
  for (int i = 2; i < kAxes; ++i) {
    if (a.ne[i] == 0 ? b.ne[i] != 0 : b.ne[i] % a.ne[i] != 0) {
      return node.usage("axis %d of the first operand must divide that of the second", -1 - i);
    }
    out->ne[i] = b.ne[i];
  }
  out->ne[0] = a.ne[0];
  out->ne[1] = b.ne[0];
  if (a.ne[1] == 0 && !out->is_empty()) return node.usage("the axis summed over has no elements");
  out->n_dims = std::max({a.n_dims, b.n_dims, 2});
  return Status::ok();
}

}  // namespace aiocann::core
