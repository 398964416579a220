// norm.cpp: normalisations over the last axis, and reductions.
#include "core/ops/kernels.hpp"

namespace aiocann::core {
namespace {

aclTensor *no_tensor() { return nullptr; }

/// One float32 for each row.
Layout row_values(const Layout &x) {
  Layout shape = x;
  shape.ne[0] = 1;
  return Layout::contiguous(shape, AIOCANN_F32);
}

}  // namespace

Status launch_norm(Launch &launch) {
  return launch.call(ACLNN(aclnnLayerNorm), launch.src_tensor(0),
                     launch.ints({launch.src(0).ne[0]}), no_tensor(), no_tensor(), launch.number(0),
                     launch.out_tensor(), no_tensor(), no_tensor());
}

void temps_rms_norm(const NodeView &, const Layout &out, Temps *temps) {
  temps->add(f32_bytes(row_values(out)));  // 1 / rms
}

Status launch_rms_norm(Launch &launch) {
  const Layout &x = launch.src(0);
  const int64_t size = dtype_size(x.dtype);
  View ones;  // gamma
  ones.dtype = x.dtype;
  ones.push(x.ne[0], size);
  Status status = launch.constant(
      ConstantKey(ConstantKey::kOnes, x.dtype, x.ne[0]), static_cast<uint64_t>(x.ne[0] * size),
      &ones.address, [&](uint64_t address) {
        ones.address = address;
        return launch.call(ACLNN(aclnnInplaceFillScalar), launch.tensor(ones), launch.scalar(1));
      });
  if (!status.is_ok()) return status;
  return launch.call(ACLNN(aclnnRmsNorm), launch.src_tensor(0), launch.tensor(ones),
                     launch.number(0), launch.out_tensor(),
                     launch.tensor(launch.temp(0), row_values(x)));
}

void temps_l2_norm(const NodeView &node, const Layout &out, Temps *temps) {
  temps->add(f32_bytes(row_values(out)));  // lengths
  temps->add(f32_bytes(row_values(out)));  // lengths, at least eps
  if (node.src[0]->dtype != AIOCANN_F32) {
    temps->add(f32_bytes(out));  // x in float32
    temps->add(f32_bytes(out));  // the result in float32
  }
}

Status launch_l2_norm(Launch &launch) {
  const double eps = launch.number(0);
  const bool is_wide = launch.src(0).dtype == AIOCANN_F32;
  const Layout packed = Layout::contiguous(launch.out(), AIOCANN_F32);
  const Layout rows = row_values(launch.out());
  aclTensor *x = launch.src_tensor(0);
  aclTensor *out = launch.out_tensor();
  Status status;
  if (!is_wide) {
    aclTensor *wide = launch.tensor(launch.temp(2), packed);
    status = launch.call(ACLNN(aclnnCast), x, ACL_FLOAT, wide);
    if (!status.is_ok()) return status;
    x = wide;
    out = launch.tensor(launch.temp(3), packed);
  }
  aclTensor *length = launch.tensor(launch.temp(0), rows);
  status =
      launch.call(ACLNN(aclnnNorm), x, launch.scalar(2), launch.ints({kAxes - 1}), true, length);
  if (status.is_ok() && eps > 0) {
    aclTensor *clamped = launch.tensor(launch.temp(1), rows);
    status = launch.call(ACLNN(aclnnClampMin), length, launch.scalar(eps), clamped);
    length = clamped;
  }
  if (status.is_ok()) status = launch.call(ACLNN(aclnnDiv), x, length, out);
  if (!status.is_ok() || is_wide) return status;
  return convert(launch, out, AIOCANN_F32, launch.out_tensor(), launch.out().dtype);
}

Status launch_sum(Launch &launch) {
  View out;  // every axis kept, with one element
  out.address = launch.out_address();
  out.dtype = launch.out().dtype;
  for (int i = 0; i < kAxes; ++i) out.push(1, dtype_size(out.dtype));
  return launch.call(ACLNN(aclnnReduceSum), launch.src_tensor(0), launch.ints({0, 1, 2, 3}), true,
                     static_cast<aclDataType>(acl_dtype(out.dtype)), launch.tensor(out));
}

Status launch_sum_rows(Launch &launch) {
  return launch.call(ACLNN(aclnnReduceSum), launch.src_tensor(0), launch.ints({kAxes - 1}), true,
                     static_cast<aclDataType>(acl_dtype(launch.out().dtype)), launch.out_tensor());
}

Status launch_mean(Launch &launch) {
  return launch.call(ACLNN(aclnnMean), launch.src_tensor(0), launch.ints({kAxes - 1}), true,
                     static_cast<aclDataType>(acl_dtype(launch.out().dtype)), launch.out_tensor());
}

Status launch_cumsum(Launch &launch) {
  return launch.call(ACLNN(aclnnCumsum), launch.src_tensor(0), int64_t{kAxes - 1},
                     static_cast<aclDataType>(acl_dtype(launch.out().dtype)), launch.out_tensor());
}

void temps_group_norm(const NodeView &node, const Layout &out, Temps *temps) {
  const uint64_t groups = static_cast<uint64_t>(node.params[0].i * out.ne[3]);
  for (int i = 0; i < 2; ++i) {
    temps->add(groups * static_cast<uint64_t>(dtype_size(out.dtype)));  // mean, 1 / deviation
  }
}

Status launch_group_norm(Launch &launch) {
  const Layout &x = launch.src(0);
  const int64_t groups = launch.integer(0);
  const auto statistic = [&](int temp) {
    View view;
    view.address = launch.temp(temp);
    view.dtype = x.dtype;
    const int64_t size = dtype_size(x.dtype);
    return launch.tensor(view.push(groups, size).push(x.ne[3], groups * size));
  };
  return launch.call(ACLNN(aclnnGroupNorm), launch.src_tensor(0), no_tensor(), no_tensor(), x.ne[3],
                     x.ne[2], x.ne[0] * x.ne[1], groups, launch.number(1), launch.out_tensor(),
                     statistic(0), statistic(1));
}

void temps_cross_entropy_loss(const NodeView &node, const Layout &, Temps *temps) {
  const Layout &x = *node.src[0];
  temps->add(f32_bytes(row_values(x)));  // the loss of each row
  temps->add(f32_bytes(x));              // the gradient, which nobody reads
  for (int i = 0; i < 2; ++i) {
    if (!node.src[i]->is_contiguous()) temps->add(f32_bytes(x));
  }
}

Status launch_cross_entropy_loss(Launch &launch) {
  const Layout &x = launch.src(0);
  const int64_t n_rows = x.rows();
  const auto matrix = [&](uint64_t address) {
    View view;
    view.address = address;
    return launch.tensor(view.push(x.ne[0], 4).push(n_rows, 4 * x.ne[0]));
  };
  int temp = 2;
  aclTensor *operands[2];
  for (int i = 0; i < 2; ++i) {
    uint64_t address = launch.src_address(i);
    if (!launch.src(i).is_contiguous()) {
      address = launch.temp(temp++);
      Status status = launch.call(ACLNN(aclnnInplaceCopy),
                                  launch.tensor(address, Layout::contiguous(x, AIOCANN_F32)),
                                  launch.src_tensor(i));
      if (!status.is_ok()) return status;
    }
    operands[i] = matrix(address);
  }
  View losses, total;
  losses.address = launch.temp(0);
  losses.push(n_rows, 4);
  total.address = launch.out_address();
  total.push(1, 4);
  aclTensor *loss = launch.tensor(losses);
  aclTensor *out = launch.tensor(total);
  Status status = launch.call(ACLNN(aclnnSoftmaxCrossEntropyWithLogits), operands[0], operands[1],
                              loss, matrix(launch.temp(1)));
  if (status.is_ok()) {
    status = launch.call(ACLNN(aclnnReduceSum), loss, launch.ints({0}), true, ACL_FLOAT, out);
  }
  if (!status.is_ok()) return status;
  return launch.call(ACLNN(aclnnInplaceMuls), out,
                     launch.scalar(1.0 / static_cast<double>(n_rows)));
}

void temps_count_equal(const NodeView &node, const Layout &, Temps *temps) {
  temps->add(static_cast<uint64_t>(node.src[0]->elements()));  // 1 or 0 for each element
}

Status launch_count_equal(Launch &launch) {
  aclTensor *equal = launch.tensor(launch.temp(0), Layout::contiguous(launch.src(0), AIOCANN_I8));
  Status status =
      launch.call(ACLNN(aclnnEqTensor), launch.src_tensor(0), launch.src_tensor(1), equal);
  if (!status.is_ok()) return status;
  return launch.call(ACLNN(aclnnReduceSum), equal, launch.ints({0, 1, 2, 3}), true, ACL_INT64,
                     launch.out_tensor());
}

}  // namespace aiocann::core
