// activation.cpp: activations with parameters, and gated linear units.
#include "core/ops/kernels.hpp"

namespace aiocann::core {
namespace {

constexpr double kQuick = 1.702;

/// out = x * sigmoid(1.702 x), which is silu(1.702 x) / 1.702. x is float32, or has been converted to float32 in
/// `scaled`, which the caller lends; out may be narrower.
Status gelu_quick(Launch &launch, aclTensor *x, bool is_wide, aclTensor *scaled, aclTensor *silu,
                  aclTensor *out) {
  Status status = is_wide ? launch.call(ACLNN(aclnnMuls), x, launch.scalar(kQuick), scaled)
                          : launch.call(ACLNN(aclnnInplaceMuls), scaled, launch.scalar(kQuick));
  if (status.is_ok()) status = launch.call(ACLNN(aclnnSilu), scaled, silu);
  if (!status.is_ok()) return status;
  return launch.call(ACLNN(aclnnMuls), silu, launch.scalar(1 / kQuick), out);
}

bool is_packed(const NodeView &node) { return !node.has(1); }

bool is_swapped(const NodeView &node) { return node.params[0].i != 0; }

/// Whether one aclnn function does it all: they take both halves of one tensor. aclnnSwiGlu wants it contiguous, and
/// the gate first.
template <Gate gate>
bool is_fused(const NodeView &node) {
  if (!is_packed(node)) return false;
  if (gate == Gate::kSilu) return !is_swapped(node) && node.src[0]->is_contiguous();
  return gate == Gate::kGelu || gate == Gate::kGeluErf;
}

/// Half of the last axis of the first operand, or an operand of its own.
View operand(const Launch &launch, bool second) {
  if (!is_packed(launch.node())) return View(launch.src_address(second), launch.src(second));
  View half(launch.src_address(0), launch.src(0));
  half.ne[0] /= 2;
  if (second) half.address += static_cast<uint64_t>(half.ne[0] * half.nb[0]);
  return half;
}

}  // namespace

Status launch_elu(Launch &launch) {
  return launch.call(ACLNN(aclnnElu), launch.src_tensor(0), launch.scalar(1), launch.scalar(1),
                     launch.scalar(1), launch.out_tensor());
}

Status launch_step(Launch &launch) {
  return launch.call(ACLNN(aclnnGtScalar), launch.src_tensor(0), launch.scalar(0),
                     launch.out_tensor());
}

Status launch_softplus(Launch &launch) {
  return launch.call(ACLNN(aclnnSoftplus), launch.src_tensor(0), launch.scalar(1),
                     launch.scalar(20), launch.out_tensor());
}

Status launch_leaky_relu(Launch &launch) {
  return launch.call(ACLNN(aclnnLeakyRelu), launch.src_tensor(0), launch.scalar(launch.number(0)),
                     launch.out_tensor());
}

void temps_gelu_quick(const NodeView &, const Layout &out, Temps *temps) {
  temps->add(f32_bytes(out));  // 1.702 x
  temps->add(f32_bytes(out));  // its silu
}

Status launch_gelu_quick(Launch &launch) {
  const Layout packed = Layout::contiguous(launch.out(), AIOCANN_F32);
  aclTensor *x = launch.src_tensor(0);
  aclTensor *scaled = launch.tensor(launch.temp(0), packed);
  const bool is_wide = launch.src(0).dtype == AIOCANN_F32;
  if (!is_wide) {
    Status status = launch.call(ACLNN(aclnnCast), x, ACL_FLOAT, scaled);
    if (!status.is_ok()) return status;
  }
  return gelu_quick(launch, x, is_wide, scaled, launch.tensor(launch.temp(1), packed),
                    launch.out_tensor());
}

template <Gate gate>
void temps_glu(const NodeView &node, const Layout &out, Temps *temps) {
  if (is_fused<gate>(node)) {
    if (gate != Gate::kSilu) temps->add(own_bytes(out));  // the gate, which nobody reads
    return;
  }
  temps->add(f32_bytes(out));  // a in float32, or scaled
  temps->add(f32_bytes(out));  // the gate
}

template <Gate gate>
Status launch_glu(Launch &launch) {
  const NodeView &node = launch.node();
  aclTensor *out = launch.out_tensor();
  if (is_fused<gate>(node)) {
    aclTensor *x = launch.src_tensor(0);
    const int64_t last = kAxes - 1;
    if (gate == Gate::kSilu) return launch.call(ACLNN(aclnnSwiGlu), x, last, out);
    const int64_t tanh = gate == Gate::kGelu ? 1 : 0;
    return launch.call(ACLNN(aclnnGeGluV3), x, last, tanh, !is_swapped(node), out,
                       launch.tensor(launch.temp(0), launch.out()));
  }
  // The gate stays in float32 until it has been multiplied: one rounding.
  const Layout packed = Layout::contiguous(launch.out(), AIOCANN_F32);
  aclTensor *a = launch.tensor(operand(launch, is_swapped(node)));
  aclTensor *b = launch.tensor(operand(launch, !is_swapped(node)));
  aclTensor *wide = launch.tensor(launch.temp(0), packed);
  aclTensor *gated = launch.tensor(launch.temp(1), packed);
  const bool is_wide = launch.src(0).dtype == AIOCANN_F32;
  Status status;
  if (!is_wide) status = launch.call(ACLNN(aclnnCast), a, ACL_FLOAT, wide);
  if (!status.is_ok()) return status;
  aclTensor *x = is_wide ? a : wide;
  switch (gate) {
    case Gate::kRelu:
      status = launch.call(ACLNN(aclnnRelu), x, gated);
      break;
    case Gate::kGelu:
      status = launch.call(ACLNN(aclnnGeluV2), x, int64_t{1}, gated);
      break;
    case Gate::kGeluErf:
      status = launch.call(ACLNN(aclnnGeluV2), x, int64_t{0}, gated);
      break;
    case Gate::kSilu:
      status = launch.call(ACLNN(aclnnSilu), x, gated);
      break;
    case Gate::kGeluQuick:
      status = gelu_quick(launch, x, is_wide, wide, gated, wide);
      gated = wide;
      break;
  }
  if (!status.is_ok()) return status;
  return launch.call(ACLNN(aclnnMul), gated, b, out);
}

#define GLU(gate)                                                           \
  template void temps_glu<gate>(const NodeView &, const Layout &, Temps *); \
  template Status launch_glu<gate>(Launch &)
GLU(Gate::kRelu);
GLU(Gate::kGelu);
GLU(Gate::kGeluErf);
GLU(Gate::kSilu);
GLU(Gate::kGeluQuick);
#undef GLU

}  // namespace aiocann::core
