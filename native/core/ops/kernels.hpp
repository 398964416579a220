// kernels.hpp: the launch functions that the op table names, and the device memory that they need.
#pragma once
#include "core/ops/launch.hpp"

namespace aiocann::core {

// Element-wise ops of one source, all alike: out = f(x).
template <auto Phase1, auto Phase2>
Status launch_unary(Launch &launch) {
  return launch.call(launch.node().row->aclnn, Phase1, Phase2, launch.src_tensor(0),
                     launch.out_tensor());
}

// Element-wise ops of two sources, the second repeated into the first.
Status launch_add(Launch &launch);
Status launch_sub(Launch &launch);
Status launch_mul(Launch &launch);
Status launch_div(Launch &launch);

Status launch_sqr(Launch &launch);
Status launch_gelu(Launch &launch);
Status launch_gelu_erf(Launch &launch);
void temps_scale(const NodeView &node, const Layout &out, Temps *temps);
Status launch_scale(Launch &launch);
Status launch_clamp(Launch &launch);

void temps_get_rows(const NodeView &node, const Layout &out, Temps *temps);
Status launch_get_rows(Launch &launch);
void temps_cpy(const NodeView &node, const Layout &out, Temps *temps);
Status launch_cpy(Launch &launch);
Status launch_copy(Launch &launch);

void temps_mul_mat(const NodeView &node, const Layout &out, Temps *temps);
Status launch_mul_mat(Launch &launch);
Status launch_out_prod(Launch &launch);
void temps_quantized(const NodeView &node, const Layout &out, Temps *temps);
Status launch_quantized(Launch &launch);
void temps_quantized_id(const NodeView &node, const Layout &out, Temps *temps);
Status launch_quantized_id(Launch &launch);
void temps_mul_mat_id(const NodeView &node, const Layout &out, Temps *temps);
Status launch_mul_mat_id(Launch &launch);

void temps_soft_max(const NodeView &node, const Layout &out, Temps *temps);
Status launch_soft_max(Launch &launch);

Status launch_norm(Launch &launch);
void temps_rms_norm(const NodeView &node, const Layout &out, Temps *temps);
Status launch_rms_norm(Launch &launch);
void temps_l2_norm(const NodeView &node, const Layout &out, Temps *temps);
Status launch_l2_norm(Launch &launch);
Status launch_sum(Launch &launch);
Status launch_sum_rows(Launch &launch);
Status launch_mean(Launch &launch);

Status launch_group_norm(Launch &launch);
void temps_group_norm(const NodeView &node, const Layout &out, Temps *temps);
Status launch_cumsum(Launch &launch);
void temps_cross_entropy_loss(const NodeView &node, const Layout &out, Temps *temps);
Status launch_cross_entropy_loss(Launch &launch);
void temps_count_equal(const NodeView &node, const Layout &out, Temps *temps);
Status launch_count_equal(Launch &launch);

Status launch_elu(Launch &launch);
Status launch_step(Launch &launch);
Status launch_softplus(Launch &launch);
Status launch_leaky_relu(Launch &launch);
void temps_gelu_quick(const NodeView &node, const Layout &out, Temps *temps);
Status launch_gelu_quick(Launch &launch);

/// The gated linear units: gate(a) * b.
enum class Gate { kRelu, kGelu, kGeluErf, kSilu, kGeluQuick };
template <Gate gate>
void temps_glu(const NodeView &node, const Layout &out, Temps *temps);
template <Gate gate>
Status launch_glu(Launch &launch);

Status launch_tri(Launch &launch);
Status launch_fill(Launch &launch);
Status launch_arange(Launch &launch);
void temps_gated_linear_attn(const NodeView &node, const Layout &out, Temps *temps);
Status launch_gated_linear_attn(Launch &launch);
Status launch_diag(Launch &launch);
void temps_diag_mask_inf(const NodeView &node, const Layout &out, Temps *temps);
Status launch_diag_mask_inf(Launch &launch);
Status launch_pad(Launch &launch);
Status launch_pad_reflect_1d(Launch &launch);
Status launch_upscale(Launch &launch);
Status launch_repeat(Launch &launch);
Status launch_concat(Launch &launch);
Status launch_acc(Launch &launch);
Status launch_set(Launch &launch);
void temps_set_rows(const NodeView &node, const Layout &out, Temps *temps);
Status launch_set_rows(Launch &launch);
void temps_timestep_embedding(const NodeView &node, const Layout &out, Temps *temps);
Status launch_timestep_embedding(Launch &launch);
void temps_rope(const NodeView &node, const Layout &out, Temps *temps);
Status launch_rope(Launch &launch);
void temps_flash_attn_ext(const NodeView &node, const Layout &out, Temps *temps);
Status launch_flash_attn_ext(Launch &launch);

Status launch_argmax(Launch &launch);
void temps_argsort(const NodeView &node, const Layout &out, Temps *temps);
Status launch_argsort(Launch &launch);
void temps_solve_tri(const NodeView &node, const Layout &out, Temps *temps);
Status launch_solve_tri(Launch &launch);

void temps_im2col(const NodeView &node, const Layout &out, Temps *temps);
Status launch_im2col(Launch &launch);
Status launch_pool_2d(Launch &launch);
void temps_conv_transpose_1d(const NodeView &node, const Layout &out, Temps *temps);
Status launch_conv_transpose_1d(Launch &launch);
Status launch_ssm_conv(Launch &launch);

/// ALiBi: heads up to the largest power of two get powers of one base, the others odd powers of its
/// root.
double alibi_slope(double max_bias, int64_t n_heads, int64_t head);
/// The mask's first n_rows, multiplied with the slope of each head: packed.
Layout biased_mask(const Layout &mask, int64_t n_rows, int64_t n_heads, int32_t dtype);
Status bias_mask(Launch &launch, uint64_t mask_address, const Layout &mask, double max_bias,
                 uint64_t to, const Layout &biased);

/// out = src converted to the dtype of out; both have the same shape.
Status convert(Launch &launch, aclTensor *src, int32_t src_dtype, aclTensor *out,
               int32_t out_dtype);

inline bool is_quantized(const Layout &layout) {
  return (kQuantized & dtype_bit(layout.dtype)) != 0;
}

/// Room for `shape` in float32.
uint64_t f32_bytes(const Layout &shape);
/// Room for `shape` in its own dtype.
uint64_t own_bytes(const Layout &shape);

}  // namespace aiocann::core
