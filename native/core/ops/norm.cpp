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

void temps_rms_norm(const NodeView &node, const Layout &out, Temps *temps) {
  temps->add(static_cast<uint64_t>(out.ne[0] * dtype_size(node.src[0]->dtype)));  // gamma
  temps->add(f32_bytes(row_values(out)));                                         // 1 / rms
}

Status launch_rms_norm(Launch &launch) {
  const Layout &x = launch.src(0);
  View gamma;
  gamma.address = launch.temp(0);
  gamma.dtype = x.dtype;
  gamma.push(x.ne[0], dtype_size(x.dtype));
  aclTensor *ones = launch.tensor(gamma);
  Status status = launch.call(ACLNN(aclnnInplaceFillScalar), ones, launch.scalar(1));
  if (!status.is_ok()) return status;
  return launch.call(ACLNN(aclnnRmsNorm), launch.src_tensor(0), ones, launch.number(0),
                     launch.out_tensor(), launch.tensor(launch.temp(1), row_values(x)));
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

}  // namespace aiocann::core
