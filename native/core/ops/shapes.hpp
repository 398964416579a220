// shapes.hpp: the shape rules that the op table names.
#pragma once
#include "core/ops/op_table.hpp"

namespace aiocann::core {

Status shape_same(const NodeView &node, Layout *out, int64_t *offset);
Status shape_repeat(const NodeView &node, Layout *out, int64_t *offset);
Status shape_rows_nonempty(const NodeView &node, Layout *out, int64_t *offset);
Status shape_get_rows(const NodeView &node, Layout *out, int64_t *offset);
Status shape_mul_mat(const NodeView &node, Layout *out, int64_t *offset);
Status shape_mul_mat_id(const NodeView &node, Layout *out, int64_t *offset);
Status shape_soft_max(const NodeView &node, Layout *out, int64_t *offset);
Status shape_sum(const NodeView &node, Layout *out, int64_t *offset);
Status shape_sum_rows(const NodeView &node, Layout *out, int64_t *offset);
Status shape_cpy(const NodeView &node, Layout *out, int64_t *offset);
Status shape_add1(const NodeView &node, Layout *out, int64_t *offset);
Status shape_glu(const NodeView &node, Layout *out, int64_t *offset);
Status shape_group_norm(const NodeView &node, Layout *out, int64_t *offset);
Status shape_cross_entropy(const NodeView &node, Layout *out, int64_t *offset);
Status shape_count_equal(const NodeView &node, Layout *out, int64_t *offset);
Status shape_tri(const NodeView &node, Layout *out, int64_t *offset);
Status shape_diag(const NodeView &node, Layout *out, int64_t *offset);
Status shape_diag_mask_inf(const NodeView &node, Layout *out, int64_t *offset);
Status shape_pad(const NodeView &node, Layout *out, int64_t *offset);
Status shape_pad_reflect_1d(const NodeView &node, Layout *out, int64_t *offset);
Status shape_upscale(const NodeView &node, Layout *out, int64_t *offset);
Status shape_concat(const NodeView &node, Layout *out, int64_t *offset);
Status shape_into_part(const NodeView &node, Layout *out, int64_t *offset);
Status shape_set_rows(const NodeView &node, Layout *out, int64_t *offset);
Status shape_timesteps(const NodeView &node, Layout *out, int64_t *offset);
Status shape_out_prod(const NodeView &node, Layout *out, int64_t *offset);
Status shape_repeat_to(const NodeView &node, Layout *out, int64_t *offset);
Status shape_argmax(const NodeView &node, Layout *out, int64_t *offset);
Status shape_solve_tri(const NodeView &node, Layout *out, int64_t *offset);
Status shape_rope(const NodeView &node, Layout *out, int64_t *offset);
Status shape_flash_attn_ext(const NodeView &node, Layout *out, int64_t *offset);
Status shape_im2col(const NodeView &node, Layout *out, int64_t *offset);
Status shape_pool_2d(const NodeView &node, Layout *out, int64_t *offset);
Status shape_conv_transpose_1d(const NodeView &node, Layout *out, int64_t *offset);
Status shape_ssm_conv(const NodeView &node, Layout *out, int64_t *offset);
Status shape_gated_linear_attn(const NodeView &node, Layout *out, int64_t *offset);
Status shape_arange(const NodeView &node, Layout *out, int64_t *offset);
Status shape_reshape(const NodeView &node, Layout *out, int64_t *offset);
Status shape_view(const NodeView &node, Layout *out, int64_t *offset);
Status shape_permute(const NodeView &node, Layout *out, int64_t *offset);
Status shape_transpose(const NodeView &node, Layout *out, int64_t *offset);

}  // namespace aiocann::core
