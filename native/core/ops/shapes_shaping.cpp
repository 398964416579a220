// shapes_shaping.cpp: the shape rules of ops that pad, repeat, resize and cut out, of gated units, and of losses.
#include <algorithm>

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

}  // namespace aiocann::core
