// shaping.cpp: ops that pad, repeat, resize, cut out and fill.
#include <cmath>
#include <limits>

#include "core/ops/kernels.hpp"

namespace aiocann::core {
namespace {

Status copy(Launch &launch, aclTensor *to, aclTensor *from) {
  return launch.call(ACLNN(aclnnInplaceCopy), to, from);
}

/// The part of the result that the second operand goes to, as parameters describe it.
aclTensor *described_part(Launch &launch) {
  Layout part = launch.src(1);
  part.nb[0] = dtype_size(part.dtype);
  for (int i = 1; i < kAxes; ++i) part.nb[i] = launch.integer(i - 1);
  return launch.tensor(launch.out_address() + static_cast<uint64_t>(launch.integer(3)), part);
}

}  // namespace

Status launch_tri(Launch &launch) {
  // As in ggml: 0 upper with the diagonal, 1 without, 2 lower with the diagonal, 3 without.
  const int64_t kind = launch.integer(0);
  aclTensor *x = launch.src_tensor(0);
  aclTensor *out = launch.out_tensor();
  if (kind < 2) return launch.call(ACLNN(aclnnTriu), x, kind, out);
  return launch.call(ACLNN(aclnnTril), x, 2 - kind, out);
}

// Up to the middle of the last step: where exactly it ends is a matter of rounding.
Status launch_arange(Launch &launch) {
  const double start = launch.number(0), step = launch.number(2);
  const double stop = start + (static_cast<double>(launch.out().ne[0]) - 0.5) * step;
  return launch.call(ACLNN(aclnnArange), launch.scalar(start), launch.scalar(stop),
                     launch.scalar(step), launch.out_tensor());
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

Status launch_concat(Launch &launch) {
  const auto axis = static_cast<int>(launch.integer(0));
  uint64_t address = launch.out_address();
  for (int i = 0; i < 2; ++i) {
    Layout part = launch.out();
    part.ne[axis] = launch.src(i).ne[axis];
    if (!part.is_empty()) {
      Status status = copy(launch, launch.tensor(address, part), launch.src_tensor(i));
      if (!status.is_ok()) return status;
    }
    address += static_cast<uint64_t>(part.ne[axis] * part.nb[axis]);
  }
  return Status::ok();
}

Status launch_acc(Launch &launch) {
  Status status = copy(launch, launch.out_tensor(), launch.src_tensor(0));
  if (!status.is_ok() || launch.src(1).is_empty()) return status;
  return launch.call(ACLNN(aclnnInplaceAdd), described_part(launch), launch.src_tensor(1),
                     launch.scalar(1));
}

Status launch_set(Launch &launch) {
  Status status = copy(launch, launch.out_tensor(), launch.src_tensor(0));
  if (!status.is_ok() || launch.src(1).is_empty()) return status;
  return copy(launch, described_part(launch), launch.src_tensor(1));
}

void temps_set_rows(const NodeView &node, const Layout &out, Temps *temps) {
  const Layout &x = *node.src[0];
  if (x.dtype != out.dtype) temps->add(own_bytes(Layout::contiguous(x, out.dtype)));
}

Status launch_set_rows(Launch &launch) {
  const Layout &ids = launch.src(1);
  const Layout &dst = launch.out();
  Layout x = launch.src(0);
  uint64_t rows = launch.src_address(0);
  if (x.is_empty()) return Status::ok();
  if (x.dtype != dst.dtype) {
    const Layout converted = Layout::contiguous(x, dst.dtype);
    Status status = convert(launch, launch.tensor(rows, x), x.dtype,
                            launch.tensor(launch.temp(0), converted), dst.dtype);
    if (!status.is_ok()) return status;
    x = converted;
    rows = launch.temp(0);
  }
  const auto put = [&](aclTensor *to, int64_t dim, int64_t ids_at, aclTensor *from) {
    View index;
    index.address = launch.src_address(1) + static_cast<uint64_t>(ids_at);
    index.dtype = ids.dtype;
    return launch.call(ACLNN(aclnnInplaceIndexCopy), to, dim,
                       launch.tensor(index.push(ids.ne[0], ids.nb[0])), from);
  };
  if (ids.ne[1] == 1 && ids.ne[2] == 1) {  // the same rows of every matrix
    return put(launch.out_tensor(), kAxes - 2, 0, launch.tensor(rows, x));
  }
  const auto matrix = [&](uint64_t address, const Layout &of, int64_t i2, int64_t i3) {
    View view(address + static_cast<uint64_t>(i2 * of.nb[2] + i3 * of.nb[3]), of);
    view.n = 2;
    return launch.tensor(view);
  };
  for (int64_t i3 = 0; i3 < x.ne[3]; ++i3) {
    for (int64_t i2 = 0; i2 < x.ne[2]; ++i2) {
      const int64_t at = i2 % ids.ne[1] * ids.nb[1] + i3 % ids.ne[2] * ids.nb[2];
      Status status =
          put(matrix(launch.out_address(), dst, i2, i3), 0, at, matrix(rows, x, i2, i3));
      if (!status.is_ok()) return status;
    }
  }
  return Status::ok();
}

void temps_timestep_embedding(const NodeView &, const Layout &out, Temps *temps) {
  const auto half = static_cast<uint64_t>(out.ne[0] / 2);
  temps->add(half * sizeof(float));                                     // frequencies
  temps->add(half * static_cast<uint64_t>(out.ne[1]) * sizeof(float));  // angles
}

Status launch_timestep_embedding(Launch &launch) {
  const Layout &out = launch.out();
  const int64_t half = out.ne[0] / 2, n = out.ne[1], size = sizeof(float);
  View frequency, angle, step;
  frequency.address = launch.temp(0);
  frequency.push(half, size);
  angle.address = launch.temp(1);
  angle.push(half, size).push(n, half * size);
  step.address = launch.src_address(0);
  step.push(1, size).push(n, launch.src(0).nb[0]);
  aclTensor *frequencies = launch.tensor(frequency);
  aclTensor *angles = launch.tensor(angle);
  const auto columns = [&](int64_t first, int64_t count) {
    View view;
    view.address = launch.out_address() + static_cast<uint64_t>(first * size);
    return launch.tensor(view.push(count, size).push(n, out.nb[1]));
  };
  const double slope =
      -std::log(static_cast<double>(launch.integer(1))) / static_cast<double>(half);
  Status status =
      launch.call(ACLNN(aclnnArange), launch.scalar(0), launch.scalar(static_cast<double>(half)),
                  launch.scalar(1), frequencies);
  if (status.is_ok())
    status = launch.call(ACLNN(aclnnInplaceMuls), frequencies, launch.scalar(slope));
  if (status.is_ok()) status = launch.call(ACLNN(aclnnInplaceExp), frequencies);
  if (status.is_ok())
    status = launch.call(ACLNN(aclnnMul), launch.tensor(step), frequencies, angles);
  if (status.is_ok()) status = launch.call(ACLNN(aclnnCos), angles, columns(0, half));
  if (status.is_ok()) status = launch.call(ACLNN(aclnnSin), angles, columns(half, half));
  if (!status.is_ok() || out.ne[0] % 2 == 0) return status;
  return launch.call(ACLNN(aclnnInplaceZero), columns(out.ne[0] - 1, 1));
}

}  // namespace aiocann::core
