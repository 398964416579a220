// op_rows_layers.cpp: rows of the op table: ops that are layers of models.
#include "core/ops/kernels.hpp"
#include "core/ops/op_table.hpp"
#include "core/ops/shapes.hpp"

namespace aiocann::core {
namespace {

const OpRow kRows[] = {
    // ---- attention ----
    {"rope",
     "x turned by angles that grow with its position: rotary position embedding.",
     "x positions freq_factors?",
     2,
     3,
     "n_dims:i mode:i n_ctx_orig:i freq_base:f freq_scale:f ext_factor:f attn_factor:f beta_fast:f "
     "beta_slow:f section0:i section1:i section2:i section3:i",
     {dtype_bit(AIOCANN_F32) | dtype_bit(AIOCANN_F16), dtype_bit(AIOCANN_I32),
      dtype_bit(AIOCANN_F32)},
     OutDtype::kSame,
     "shape of x (batch, tokens, heads, n); positions (tokens,), in modes 8, 24 and 40 four times "
     "as many",
     shape_rope,
     "aclnnRotaryPositionEmbedding aclnnArange aclnnPowScalarTensor aclnnInplaceDiv "
     "aclnnInplaceMuls aclnnInplaceAdds aclnnInplaceMul aclnnClamp aclnnCast aclnnMul aclnnCos "
     "aclnnSin aclnnInplaceCopy",
     "Ascend310P: whole, contiguous rows, by halves alone",
     temps_rope,
     launch_rope},
    {"flash_attn_ext",
     "Attention: softmax(scale * q k^T + slope * mask) v.",
     "q k v mask?",
     3,
     4,
     "scale:f max_bias:f logit_softcap:f",
     {kFloats, dtype_bit(AIOCANN_F16), dtype_bit(AIOCANN_F16), dtype_bit(AIOCANN_F16)},
     OutDtype::kF32,
     "q (batch, heads, m, d), k and v (batch, key heads, n, d) -> (batch, m, heads, d); mask "
     "(batch or 1, heads or 1, m or more, n)",
     shape_flash_attn_ext,
     "aclnnFusedInferAttentionScoreV2 aclnnCast aclnnInplaceCopy aclnnInplaceZero aclnnMul "
     "aclnnInplaceFillScalar",
     "Ascend310P: none",
     temps_flash_attn_ext,
     launch_flash_attn_ext},
    // ---- windows ----
    {"im2col",
     "The elements that each place of a kernel's window sees, in rows.",
     "kernel x",
     2,
     2,
     "dtype:i s0:i s1:i p0:i p1:i d0:i d1:i is_2d:i",
     {kFloats, kFloats},
     OutDtype::kParameter,
     "kernel (oc, ic, kh, kw), x (n, ic, h, w) -> (n, oh, ow, ic * kh * kw); 1-D: without h",
     shape_im2col,
     "aclnnIm2col aclnnCast",
     kNo310PBf16,
     temps_im2col,
     launch_im2col},
    {"pool_2d",
     "The largest number, or the mean, of each window.",
     "x",
     1,
     1,
     "average:i k0:i k1:i s0:i s1:i p0:i p1:i",
     {dtype_bit(AIOCANN_F32)},
     OutDtype::kSame,
     "(..., h, w) -> (..., oh, ow)",
     shape_pool_2d,
     "aclnnAvgPool2d aclnnMaxPool",
     "Ascend310P: means alone",
     nullptr,
     launch_pool_2d},
    {"conv_transpose_1d",
     "Transposed convolution along the last axis.",
     "w x",
     2,
     2,
     "stride:i",
     {dtype_bit(AIOCANN_F32), dtype_bit(AIOCANN_F32)},
     OutDtype::kF32,
     "w (ic, oc, k), x (ic, l) -> (oc, (l - 1) * stride + k)",
     shape_conv_transpose_1d,
     "aclnnConvolution aclnnInplaceZero aclnnInplaceAdd",
     "",
     temps_conv_transpose_1d,
     launch_conv_transpose_1d},
    {"ssm_conv",
     "Each channel convolved with a kernel of its own.",
     "x kernel",
     2,
     2,
     "",
     {dtype_bit(AIOCANN_F32), dtype_bit(AIOCANN_F32)},
     OutDtype::kSame,
     "x (n, channels, k - 1 + l), kernel (channels, k) -> (n, l, channels)",
     shape_ssm_conv,
     "aclnnConvolution",
     "",
     nullptr,
     launch_ssm_conv},
    {"gated_linear_attn",
     "Linear attention whose state decays by gates, token after token.",
     "k v q g state",
     5,
     5,
     "scale:f",
     {dtype_bit(AIOCANN_F32), dtype_bit(AIOCANN_F32), dtype_bit(AIOCANN_F32),
      dtype_bit(AIOCANN_F32), dtype_bit(AIOCANN_F32)},
     OutDtype::kF32,
     "k, v, q, g (tokens, heads, size), state (sequences, heads, size, size) -> (tokens + size * "
     "sequences, heads * size): the results, then the new state",
     shape_gated_linear_attn,
     "aclnnMul aclnnInplaceMul aclnnInplaceAdd aclnnMatmul aclnnMuls aclnnInplaceCopy",
     "",
     temps_gated_linear_attn,
     launch_gated_linear_attn},
};

}  // namespace

const OpRows kLayerRows(kRows);

}  // namespace aiocann::core
