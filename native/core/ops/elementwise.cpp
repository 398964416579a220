// elementwise.cpp: ops that work element by element.
#include "core/ops/kernels.hpp"

namespace aiocann::core {
namespace {

struct Operands {
  aclTensor *a;
  aclTensor *b;
  aclTensor *out;
};

Operands broadcast(Launch &launch) {
  const Broadcast split(launch.src(0), launch.src(1));
  return {launch.tensor(split.of_big(launch.src_address(0), launch.src(0))),
          launch.tensor(split.of_small(launch.src_address(1), launch.src(1))),
          launch.tensor(split.of_big(launch.out_address(), launch.out()))};
}

/// Rounding once needs float32 in between when a narrow dtype is both multiplied and added to.
bool scales_in_f32(const NodeView &node) {
  return node.params[1].f != 0 && node.src[0]->dtype != AIOCANN_F32;
}

}  // namespace

uint64_t f32_bytes(const Layout &shape) {
  return static_cast<uint64_t>(shape.elements()) * sizeof(float);
}

uint64_t own_bytes(const Layout &shape) {
  return static_cast<uint64_t>(shape.elements() * dtype_size(shape.dtype));
}

Status launch_add(Launch &launch) {
  const Operands op = broadcast(launch);
  return launch.call(ACLNN(aclnnAdd), op.a, op.b, launch.scalar(1), op.out);
}

Status launch_sub(Launch &launch) {
  const Operands op = broadcast(launch);
  return launch.call(ACLNN(aclnnSub), op.a, op.b, launch.scalar(1), op.out);
}

Status launch_mul(Launch &launch) {
  const Operands op = broadcast(launch);
  return launch.call(ACLNN(aclnnMul), op.a, op.b, op.out);
}

Status launch_div(Launch &launch) {
  const Operands op = broadcast(launch);
  return launch.call(ACLNN(aclnnDiv), op.a, op.b, op.out);
}

Status launch_sqr(Launch &launch) {
  aclTensor *x = launch.src_tensor(0);
  return launch.call(ACLNN(aclnnMul), x, x, launch.out_tensor());
}

// aclnnGelu does not say which of the two it computes; aclnnGeluV2 does.
Status launch_gelu(Launch &launch) {
  return launch.call(ACLNN(aclnnGeluV2), launch.src_tensor(0), int64_t{1}, launch.out_tensor());
}

Status launch_gelu_erf(Launch &launch) {
  return launch.call(ACLNN(aclnnGeluV2), launch.src_tensor(0), int64_t{0}, launch.out_tensor());
}

void temps_scale(const NodeView &node, const Layout &out, Temps *temps) {
  if (scales_in_f32(node)) temps->add(f32_bytes(out));
}

Status launch_scale(Launch &launch) {
  const double scale = launch.number(0);
  const double bias = launch.number(1);
  aclTensor *x = launch.src_tensor(0);
  aclTensor *out = launch.out_tensor();
  if (bias == 0) return launch.call(ACLNN(aclnnMuls), x, launch.scalar(scale), out);
  if (!scales_in_f32(launch.node())) {
    Status status = launch.call(ACLNN(aclnnMuls), x, launch.scalar(scale), out);
    if (!status.is_ok()) return status;
    return launch.call(ACLNN(aclnnInplaceAdds), out, launch.scalar(bias), launch.scalar(1));
  }
  aclTensor *wide = launch.tensor(launch.temp(0), Layout::contiguous(launch.out(), AIOCANN_F32));
  Status status = launch.call(ACLNN(aclnnCast), x, ACL_FLOAT, wide);
  if (status.is_ok()) status = launch.call(ACLNN(aclnnInplaceMuls), wide, launch.scalar(scale));
  if (status.is_ok()) {
    status = launch.call(ACLNN(aclnnInplaceAdds), wide, launch.scalar(bias), launch.scalar(1));
  }
  if (!status.is_ok()) return status;
  return convert(launch, wide, AIOCANN_F32, out, launch.out().dtype);
}

Status launch_clamp(Launch &launch) {
  return launch.call(ACLNN(aclnnClamp), launch.src_tensor(0), launch.scalar(launch.number(0)),
                     launch.scalar(launch.number(1)), launch.out_tensor());
}

}  // namespace aiocann::core
