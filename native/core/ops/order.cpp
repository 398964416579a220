// order.cpp: argmax, argsort, and triangular systems.
#include "core/ops/kernels.hpp"
#include "core/ops/shapes.hpp"

namespace aiocann::core {

Status shape_argmax(const NodeView &node, Layout *out, int64_t *offset) {
  const Layout &x = *node.src[0];
  Status status = shape_rows_nonempty(node, out, offset);
  for (int i = 0; i < kAxes; ++i) out->ne[i] = i + 1 < kAxes ? x.ne[i + 1] : 1;
  out->n_dims = x.n_dims > 1 ? x.n_dims - 1 : 1;
  return status;
}

Status launch_argmax(Launch &launch) {
  const Layout &out = launch.out();
  View places;
  places.address = launch.out_address();
  places.dtype = out.dtype;
  for (int i = 0; i + 1 < kAxes; ++i) places.push(out.ne[i], out.nb[i]);
  return launch.call(ACLNN(aclnnArgMax), launch.src_tensor(0), int64_t{kAxes - 1}, false,
                     launch.tensor(places));
}

void temps_argsort(const NodeView &, const Layout &out, Temps *temps) {
  temps->add(static_cast<uint64_t>(out.elements()) * sizeof(int64_t));
}

Status launch_argsort(Launch &launch) {
  const Layout wide = Layout::contiguous(launch.out(), AIOCANN_I64);
  aclTensor *places = launch.tensor(launch.temp(0), wide);
  Status status = launch.call(ACLNN(aclnnArgsort), launch.src_tensor(0), int64_t{kAxes - 1},
                              launch.integer(0) != 0, places);
  if (!status.is_ok()) return status;
  return launch.call(ACLNN(aclnnCast), places, ACL_INT32, launch.out_tensor());
}

Status shape_solve_tri(const NodeView &node, Layout *out, int64_t *) {
  const Layout &a = *node.src[0];
  const Layout &b = *node.src[1];
  if (a.ne[0] != a.ne[1]) return node.usage("the first operand must be square");
  bool fits = a.ne[1] == b.ne[1];
  for (int i = 2; i < kAxes; ++i) fits = fits && a.ne[i] == b.ne[i];
  if (!fits) return node.usage("all axes but the last must be those of the first operand");
  for (int i = 0; i < kAxes; ++i) out->ne[i] = b.ne[i];
  out->n_dims = b.n_dims;
  return Status::ok();
}

void temps_solve_tri(const NodeView &node, const Layout &, Temps *temps) {
  temps->add(f32_bytes(*node.src[0]));  // the triangle, which aclnn hands out as well
}

Status launch_solve_tri(Launch &launch) {
  const Layout triangle = Layout::contiguous(launch.src(0), AIOCANN_F32);
  return launch.call(ACLNN(aclnnTriangularSolve), launch.src_tensor(1), launch.src_tensor(0), false,
                     false, false, launch.out_tensor(), launch.tensor(launch.temp(0), triangle));
}

}  // namespace aiocann::core
