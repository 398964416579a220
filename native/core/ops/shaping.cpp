// shaping.cpp: ops that pad, repeat, resize, cut out and fill.
#include <limits>

#include "core/ops/kernels.hpp"

namespace aiocann::core {

Status launch_tri(Launch &launch) {
  // As in ggml: 0 upper with the diagonal, 1 without, 2 lower with the diagonal, 3 without.
  const int64_t kind = launch.integer(0);
  aclTensor *x = launch.src_tensor(0);
  aclTensor *out = launch.out_tensor();
  if (kind < 2) return launch.call(ACLNN(aclnnTriu), x, kind, out);
  return launch.call(ACLNN(aclnnTril), x, 2 - kind, out);
}

Status launch_fill(Launch &launch) {
  return launch.call(ACLNN(aclnnInplaceFillScalar), launch.out_tensor(),
                     launch.scalar(launch.number(0)));
}

Status launch_diag(Launch &launch) {
  Status status = launch.call(ACLNN(aclnnInplaceZero), launch.out_tensor());
  if (!status.is_ok()) return status;
  const Layout &x = launch.src(0);
  Layout diagonal = launch.out();
  diagonal.nb[0] += diagonal.nb[1];
  diagonal.ne[1] = x.ne[1];
  return launch.call(ACLNN(aclnnInplaceCopy), launch.tensor(launch.out_address(), diagonal),
                     launch.src_tensor(0));
}

void temps_diag_mask_inf(const NodeView &node, const Layout &, Temps *temps) {
  const Layout &x = *node.src[0];
  temps->add(static_cast<uint64_t>(x.ne[0] * x.ne[1] * dtype_size(x.dtype)));
}

Status launch_diag_mask_inf(Launch &launch) {
  // What is cut off may be infinite itself: it becomes 0 before minus infinity is added.
  const int64_t n_past = launch.integer(0);
  Layout matrix = launch.out();
  matrix.ne[2] = matrix.ne[3] = 1;
  aclTensor *mask = launch.tensor(launch.temp(0), Layout::contiguous(matrix, matrix.dtype));
  aclTensor *out = launch.out_tensor();
  Status status = launch.call(ACLNN(aclnnInplaceFillScalar), mask,
                              launch.scalar(-std::numeric_limits<double>::infinity()));
  if (status.is_ok()) status = launch.call(ACLNN(aclnnInplaceTriu), mask, n_past + 1);
  if (status.is_ok()) {
    status = launch.call(ACLNN(aclnnTril), launch.src_tensor(0), n_past, out);
  }
  if (!status.is_ok()) return status;
  return launch.call(ACLNN(aclnnInplaceAdd), out, mask, launch.scalar(1));
}

Status launch_pad(Launch &launch) {
  aclIntArray *widths =
      launch.ints({launch.integer(0), launch.integer(1), launch.integer(2), launch.integer(3),
                   launch.integer(4), launch.integer(5), launch.integer(6), launch.integer(7)});
  return launch.call(ACLNN(aclnnConstantPadNd), launch.src_tensor(0), widths, launch.scalar(0),
                     launch.out_tensor());
}

Status launch_pad_reflect_1d(Launch &launch) {
  // At most three axes at a time: one call for each position of the outermost.
  aclIntArray *widths = launch.ints({launch.integer(0), launch.integer(1)});
  const Layout &x = launch.src(0);
  const Layout &out = launch.out();
  for (int64_t i = 0; i < x.ne[3]; ++i) {
    View from(launch.src_address(0) + static_cast<uint64_t>(i * x.nb[3]), x);
    View to(launch.out_address() + static_cast<uint64_t>(i * out.nb[3]), out);
    from.n = to.n = 3;
    Status status =
        launch.call(ACLNN(aclnnReflectionPad1d), launch.tensor(from), widths, launch.tensor(to));
    if (!status.is_ok()) return status;
  }
  return Status::ok();
}

Status launch_upscale(Launch &launch) {
  const Layout &out = launch.out();
  aclTensor *x = launch.tensor(View(launch.src_address(0), launch.src(0)), ACL_FORMAT_NCHW);
  return launch.call(ACLNN(aclnnUpsampleNearest2d), x, launch.ints({out.ne[1], out.ne[0]}),
                     launch.tensor(View(launch.out_address(), out), ACL_FORMAT_NCHW));
}

Status launch_repeat(Launch &launch) {
  const Layout &x = launch.src(0);
  const Layout &out = launch.out();
  const auto times = [&](int axis) { return x.ne[axis] == 0 ? 1 : out.ne[axis] / x.ne[axis]; };
  return launch.call(ACLNN(aclnnRepeat), launch.src_tensor(0),
                     launch.ints({times(3), times(2), times(1), times(0)}), launch.out_tensor());
}

}  // namespace aiocann::core
