#include "core/ops/op_table.hpp"

#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "core/ops/kernels.hpp"
#include "core/ops/shapes.hpp"

namespace aiocann::core {
namespace {

constexpr DtypeSet kSettable = dtype_bit(AIOCANN_F32) | dtype_bit(AIOCANN_I32);
constexpr const char *kNo310PBf16 = "Ascend310P: no bf16";
constexpr const char *kNo310PQuantized = "Ascend310P: no bf16, no quantized w";

// Of one tensor of floating numbers, with a result like it.
#define OF_ONE(name, text, params, aclnn, temps, launch)                                    \
  {name,         text,       "x",   1,           1,     params, {kFloats}, OutDtype::kSame, \
   "shape of x", shape_same, aclnn, kNo310PBf16, temps, launch}
#define UNARY(name, text, aclnn)          \
  OF_ONE(name, text, "", #aclnn, nullptr, \
         (launch_unary<&acl::Api::aclnn##GetWorkspaceSize, &acl::Api::aclnn>))
#define BINARY(name, text, aclnn)                    \
  {#name,                                            \
   text,                                             \
   "a b",                                            \
   2,                                                \
   2,                                                \
   "",                                               \
   {kFloats, kFloats},                               \
   OutDtype::kSame,                                  \
   "shape of a; b repeats into it along every axis", \
   shape_repeat,                                     \
   #aclnn,                                           \
   kNo310PBf16,                                      \
   nullptr,                                          \
   launch_##name}

// One operand is cut in two, or there are two.
#define GLU(name, text, gate, aclnn)                   \
  {#name,                                              \
   text,                                               \
   "a b?",                                             \
   1,                                                  \
   2,                                                  \
   "swapped:i",                                        \
   {kFloats, kFloats},                                 \
   OutDtype::kSame,                                    \
   "a (..., 2n) -> (..., n), or the shape of a and b", \
   shape_glu,                                          \
   aclnn,                                              \
   kNo310PBf16,                                        \
   temps_glu<gate>,                                    \
   launch_glu<gate>}

// The rows, in the order of docs/ops.md. Indices are not part of any contract:
// everyone looks names up.
const OpRow kRows[] = {
    // ---- element by element ----
    BINARY(add, "a + b.", aclnnAdd),
    BINARY(sub, "a - b.", aclnnSub),
    BINARY(mul, "a * b.", aclnnMul),
    BINARY(div, "a / b.", aclnnDiv),
    {"add1",
     "a + b, where b has one element.",
     "a b",
     2,
     2,
     "",
     {kFloats, kFloats},
     OutDtype::kSame,
     "shape of a; b has one element",
     shape_add1,
     "aclnnAdd",
     kNo310PBf16,
     nullptr,
     launch_add},
    OF_ONE("sqr", "x * x.", "", "aclnnMul", nullptr, launch_sqr),
    OF_ONE("scale", "scale * x + bias.", "scale:f bias:f",
           "aclnnMuls aclnnInplaceMuls aclnnInplaceAdds aclnnCast", temps_scale, launch_scale),
    OF_ONE("clamp", "x, but at least min and at most max.", "min:f max:f", "aclnnClamp", nullptr,
           launch_clamp),
    UNARY("abs", "Absolute value.", aclnnAbs),
    UNARY("neg", "-x.", aclnnNeg),
    UNARY("exp", "e to the power x.", aclnnExp),
    UNARY("log", "Natural logarithm.", aclnnLog),
    UNARY("sqrt", "Square root.", aclnnSqrt),
    UNARY("sin", "Sine.", aclnnSin),
    UNARY("cos", "Cosine.", aclnnCos),
    UNARY("tanh", "Hyperbolic tangent.", aclnnTanh),
    UNARY("sigmoid", "1 / (1 + exp(-x)).", aclnnSigmoid),
    UNARY("relu", "max(x, 0).", aclnnRelu),
    UNARY("silu", "x * sigmoid(x).", aclnnSilu),
    OF_ONE("gelu", "x * Phi(x), by its usual approximation with tanh.", "", "aclnnGeluV2", nullptr,
           launch_gelu),
    OF_ONE("gelu_erf", "x * Phi(x), with the error function.", "", "aclnnGeluV2", nullptr,
           launch_gelu_erf),
    UNARY("hardsigmoid", "(x + 3) / 6, but at least 0 and at most 1.", aclnnHardsigmoid),
    UNARY("hardswish", "x * hardsigmoid(x).", aclnnHardswish),
    UNARY("sgn", "1, 0 or -1: the sign of x.", aclnnSign),
    OF_ONE("step", "1 where x is more than 0, else 0.", "", "aclnnGtScalar", nullptr, launch_step),
    OF_ONE("elu", "x where x is more than 0, else exp(x) - 1.", "", "aclnnElu", nullptr,
           launch_elu),
    OF_ONE("softplus", "log(1 + exp(x)); x itself where it is more than 20.", "", "aclnnSoftplus",
           nullptr, launch_softplus),
    OF_ONE("leaky_relu", "x where x is more than 0, else negative_slope * x.", "negative_slope:f",
           "aclnnLeakyRelu", nullptr, launch_leaky_relu),
    OF_ONE("gelu_quick", "x * sigmoid(1.702 * x).", "",
           "aclnnCast aclnnMuls aclnnInplaceMuls aclnnSilu", temps_gelu_quick, launch_gelu_quick),
    // ---- gated linear units ----
    GLU(reglu, "relu(a) * b.", Gate::kRelu, "aclnnRelu aclnnMul aclnnCast"),
    GLU(geglu, "gelu(a) * b, gelu by its approximation with tanh.", Gate::kGelu,
        "aclnnGeGluV3 aclnnGeluV2 aclnnMul aclnnCast"),
    GLU(geglu_erf, "gelu_erf(a) * b.", Gate::kGeluErf,
        "aclnnGeGluV3 aclnnGeluV2 aclnnMul aclnnCast"),
    GLU(swiglu, "silu(a) * b.", Gate::kSilu, "aclnnSwiGlu aclnnSilu aclnnMul aclnnCast"),
    GLU(geglu_quick, "gelu_quick(a) * b.", Gate::kGeluQuick,
        "aclnnMuls aclnnInplaceMuls aclnnSilu aclnnMul aclnnCast"),
    // ---- matrix products ----
    {"mul_mat",
     "x times w transposed, summed in float32; with quantized w, x is rounded to float16.",
     "w x",
     2,
     2,
     "cube_math_type:i",
     {kFloats | kQuantized, kFloats},
     OutDtype::kF32,
     "w (..., n, k), x (..., m, k) -> (..., m, n); leading axes of w divide "
     "those of x, neighbours share",
     shape_mul_mat,
     "aclnnMm aclnnBatchMatMul aclnnMatmul aclnnCast aclnnInplaceCopy "
     "aclnnWeightQuantBatchMatmulV2",
     kNo310PQuantized,
     temps_mul_mat,
     launch_mul_mat},
    {"out_prod",
     "b transposed times a, summed in float32.",
     "a b",
     2,
     2,
     "",
     {kFloats, kFloats},
     OutDtype::kF32,
     "a (..., k, m), b (..., k, n) -> (..., n, m); leading axes of a divide those of b, neighbours "
     "share",
     shape_out_prod,
     "aclnnMm aclnnBatchMatMul aclnnMatmul aclnnCast",
     kNo310PBf16,
     temps_mul_mat,
     launch_out_prod},
    {"mul_mat_id",
     "x times transposed matrices that ids choose for each token, summed in float32.",
     "w x ids",
     3,
     3,
     "",
     {kFloats | kQuantized, kFloats, dtype_bit(AIOCANN_I32)},
     OutDtype::kF32,
     "w (experts, n, k), x (tokens, used or 1, k), ids (tokens, used) -> (tokens, used, n)",
     shape_mul_mat_id,
     "aclnnIndexSelect aclnnBatchMatMul aclnnCast aclnnInplaceCopy "
     "aclnnWeightQuantBatchMatmulV2",
     kNo310PQuantized,
     temps_mul_mat_id,
     launch_mul_mat_id},
    // ---- rows ----
    {"soft_max",
     "Softmax over the last axis of scale * x + slope(head) * mask.",
     "x mask?",
     1,
     2,
     "scale:f max_bias:f",
     {kFloats, kMasks},
     OutDtype::kSame,
     "shape of x; mask has its last axis, one row or at least as many, leading "
     "axes that divide",
     shape_soft_max,
     "aclnnSoftmax aclnnMuls aclnnAdd aclnnInplaceAdd aclnnCast",
     kNo310PBf16,
     temps_soft_max,
     launch_soft_max},
    {"norm",
     "Layer normalisation over the last axis, without affine part.",
     "x",
     1,
     1,
     "eps:f",
     {kFloats},
     OutDtype::kSame,
     "shape of x",
     shape_rows_nonempty,
     "aclnnLayerNorm",
     kNo310PBf16,
     nullptr,
     launch_norm},
    {"group_norm",
     "Normalisation over groups of channels (the third axis from the end), without affine part.",
     "x",
     1,
     1,
     "n_groups:i eps:f",
     {kFloats},
     OutDtype::kSame,
     "shape of x; n_groups divides its channels",
     shape_group_norm,
     "aclnnGroupNorm",
     kNo310PBf16,
     temps_group_norm,
     launch_group_norm},
    {"rms_norm",
     "x divided by the root of its mean square over the last axis.",
     "x",
     1,
     1,
     "eps:f",
     {kFloats},
     OutDtype::kSame,
     "shape of x",
     shape_rows_nonempty,
     "aclnnRmsNorm aclnnInplaceFillScalar",
     kNo310PBf16,
     temps_rms_norm,
     launch_rms_norm},
    {"l2_norm",
     "x divided by its length over the last axis, or by eps where that is "
     "more.",
     "x",
     1,
     1,
     "eps:f",
     {kFloats},
     OutDtype::kSame,
     "shape of x",
     shape_rows_nonempty,
     "aclnnNorm aclnnClampMin aclnnDiv aclnnCast",
     kNo310PBf16,
     temps_l2_norm,
     launch_l2_norm},
    {"sum",
     "Sum of all elements.",
     "x",
     1,
     1,
     "",
     {kFloats},
     OutDtype::kSame,
     "(1,)",
     shape_sum,
     "aclnnReduceSum",
     kNo310PBf16,
     nullptr,
     launch_sum},
    {"sum_rows",
     "Sum over the last axis, which stays with one element.",
     "x",
     1,
     1,
     "",
     {kFloats},
     OutDtype::kSame,
     "(..., n) -> (..., 1)",
     shape_sum_rows,
     "aclnnReduceSum",
     kNo310PBf16,
     nullptr,
     launch_sum_rows},
    {"mean",
     "Mean over the last axis, which stays with one element.",
     "x",
     1,
     1,
     "",
     {kFloats},
     OutDtype::kSame,
     "(..., n) -> (..., 1)",
     shape_sum_rows,
     "aclnnMean",
     kNo310PBf16,
     nullptr,
     launch_mean},
    {"cumsum",
     "Running sums along the last axis.",
     "x",
     1,
     1,
     "",
     {dtype_bit(AIOCANN_F32)},
     OutDtype::kSame,
     "shape of x",
     shape_same,
     "aclnnCumsum",
     "",
     nullptr,
     launch_cumsum},
    {"cross_entropy_loss",
     "Mean over the rows of -sum(labels * log(softmax(logits))).",
     "logits labels",
     2,
     2,
     "",
     {dtype_bit(AIOCANN_F32), dtype_bit(AIOCANN_F32)},
     OutDtype::kSame,
     "(1,); both of one shape",
     shape_cross_entropy,
     "aclnnSoftmaxCrossEntropyWithLogits aclnnReduceSum aclnnInplaceMuls aclnnInplaceCopy",
     "",
     temps_cross_entropy_loss,
     launch_cross_entropy_loss},
    {"count_equal",
     "How many elements of a equal those of b.",
     "a b",
     2,
     2,
     "",
     {kIndices, kIndices},
     OutDtype::kI64,
     "(1,); both of one shape",
     shape_count_equal,
     "aclnnEqTensor aclnnReduceSum",
     "",
     temps_count_equal,
     launch_count_equal},
    // ---- copies and conversions ----
    {"get_rows",
     "Rows of a table, picked by number, as float32.",
     "table ids",
     2,
     2,
     "",
     {kFloats | dtype_bit(AIOCANN_Q8_0), kIndices},
     OutDtype::kF32,
     "table (n, k), ids (...) -> (..., k); table (..., n, k), ids (..., i) -> "
     "(..., i, k)",
     shape_get_rows,
     "aclnnGatherV2 aclnnCast aclnnMul",
     kNo310PBf16,
     temps_get_rows,
     launch_get_rows},
    {"cast",
     "x in another dtype.",
     "x",
     1,
     1,
     "dtype:i",
     {kPlain},
     OutDtype::kParameter,
     "shape of x",
     shape_same,
     "aclnnCast aclnnInplaceCopy",
     kNo310PBf16,
     nullptr,
     launch_copy},
    {"cont",
     "A contiguous copy of x.",
     "x",
     1,
     1,
     "",
     {kPlain},
     OutDtype::kSame,
     "shape of x",
     shape_same,
     "aclnnInplaceCopy",
     kNo310PBf16,
     nullptr,
     launch_copy},
    {"dup",
     "A copy of x.",
     "x",
     1,
     1,
     "",
     {kPlain},
     OutDtype::kSame,
     "shape of x",
     shape_same,
     "aclnnInplaceCopy",
     kNo310PBf16,
     nullptr,
     launch_copy},
    {"cpy",
     "Writes x into dst, converted to its dtype; the result is dst.",
     "x dst",
     2,
     2,
     "",
     {kPlain, kPlain},
     OutDtype::kDst,
     "shape of dst; x has as many elements",
     shape_cpy,
     "aclnnInplaceCopy aclnnCast",
     kNo310PBf16,
     temps_cpy,
     launch_cpy},
    {"set_rows",
     "Writes the rows of x into rows of dst, picked by number; the result is dst.",
     "x ids dst",
     3,
     3,
     "",
     {kFloats, kIndices, kFloats},
     OutDtype::kDst,
     "x (..., r, k), ids (..., r), dst (..., n, k); leading axes of ids divide those of x and are "
     "gone through again",
     shape_set_rows,
     "aclnnInplaceIndexCopy aclnnCast aclnnInplaceCopy",
     kNo310PBf16,
     temps_set_rows,
     launch_set_rows},
    {"set",
     "a, with b in the place of a part of it.",
     "a b",
     2,
     2,
     "nb1:i nb2:i nb3:i offset:i",
     {kSettable, kSettable},
     OutDtype::kSame,
     "shape of a; b lies inside, with strides and offset in bytes",
     shape_into_part,
     "aclnnInplaceCopy",
     "",
     nullptr,
     launch_set},
    {"acc",
     "a, with b added to a part of it.",
     "a b",
     2,
     2,
     "nb1:i nb2:i nb3:i offset:i",
     {dtype_bit(AIOCANN_F32), dtype_bit(AIOCANN_F32)},
     OutDtype::kSame,
     "shape of a; b lies inside, with strides and offset in bytes",
     shape_into_part,
     "aclnnInplaceCopy aclnnInplaceAdd",
     "",
     nullptr,
     launch_acc},
    {"concat",
     "a and b, one after the other along an axis.",
     "a b",
     2,
     2,
     "axis:i",
     {kPlain, kPlain},
     OutDtype::kSame,
     "shape of a, longer along the axis; other axes are equal",
     shape_concat,
     "aclnnInplaceCopy",
     kNo310PBf16,
     nullptr,
     launch_concat},
    // ---- padding, repeating, cutting out ----
    {"repeat",
     "x, as often along each axis as it takes to fill a shape.",
     "x",
     1,
     1,
     "ne0:i ne1:i ne2:i ne3:i",
     {kPlain},
     OutDtype::kSame,
     "as given; x repeats into it",
     shape_repeat_to,
     "aclnnRepeat",
     kNo310PBf16,
     nullptr,
     launch_repeat},
    {"pad",
     "x with zeros before and after it along each axis.",
     "x",
     1,
     1,
     "before0:i after0:i before1:i after1:i before2:i after2:i before3:i after3:i",
     {kPlain},
     OutDtype::kSame,
     "shape of x, plus what is added",
     shape_pad,
     "aclnnConstantPadNd",
     kNo310PBf16,
     nullptr,
     launch_pad},
    {"pad_reflect_1d",
     "x, continued along its last axis by its own reflection.",
     "x",
     1,
     1,
     "before:i after:i",
     {kPlain},
     OutDtype::kSame,
     "(..., n) -> (..., before + n + after)",
     shape_pad_reflect_1d,
     "aclnnReflectionPad1d",
     kNo310PBf16,
     nullptr,
     launch_pad_reflect_1d},
    {"upscale",
     "The last two axes resized, to the nearest neighbour.",
     "x",
     1,
     1,
     "height:i width:i",
     {kFloats},
     OutDtype::kSame,
     "(..., h, w) -> (..., height, width)",
     shape_upscale,
     "aclnnUpsampleNearest2d",
     kNo310PBf16,
     nullptr,
     launch_upscale},
    {"tri",
     "A triangle of the last two axes; zeros elsewhere.",
     "x",
     1,
     1,
     "kind:i",
     {dtype_bit(AIOCANN_F32)},
     OutDtype::kSame,
     "shape of x",
     shape_tri,
     "aclnnTriu aclnnTril",
     "",
     nullptr,
     launch_tri},
    {"diag",
     "Matrices with the rows of x as their diagonals.",
     "x",
     1,
     1,
     "",
     {dtype_bit(AIOCANN_F32)},
     OutDtype::kSame,
     "(..., 1, n) -> (..., n, n)",
     shape_diag,
     "aclnnInplaceZero aclnnInplaceCopy",
     "",
     nullptr,
     launch_diag},
    {"diag_mask_inf",
     "x, but minus infinity to the right of column row + n_past.",
     "x",
     1,
     1,
     "n_past:i",
     {kFloats},
     OutDtype::kSame,
     "shape of x",
     shape_diag_mask_inf,
     "aclnnInplaceFillScalar aclnnInplaceTriu aclnnTril aclnnInplaceAdd",
     kNo310PBf16,
     temps_diag_mask_inf,
     launch_diag_mask_inf},
    {"timestep_embedding",
     "Cosines, then sines of each timestep times falling frequencies.",
     "timesteps",
     1,
     1,
     "dim:i max_period:i",
     {dtype_bit(AIOCANN_F32)},
     OutDtype::kSame,
     "(n,) -> (n, dim)",
     shape_timesteps,
     "aclnnArange aclnnInplaceMuls aclnnInplaceExp aclnnMul aclnnCos aclnnSin aclnnInplaceZero",
     "",
     temps_timestep_embedding,
     launch_timestep_embedding},
    {"fill",
     "A tensor like x, full of one value.",
     "x",
     1,
     1,
     "value:f",
     {dtype_bit(AIOCANN_F32)},
     OutDtype::kSame,
     "shape of x",
     shape_same,
     "aclnnInplaceFillScalar",
     "",
     nullptr,
     launch_fill},
    {"arange",
     "The numbers start, start + step, start + 2 step, ... before stop.",
     "",
     0,
     0,
     "start:f stop:f step:f",
     {},
     OutDtype::kF32,
     "(n), n = ceil((stop - start) / step), at least 0",
     shape_arange,
     "aclnnArange",
     "",
     nullptr,
     launch_arange},
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
     "aclnnFusedInferAttentionScoreV2 aclnnCast aclnnInplaceCopy aclnnInplaceZero aclnnMuls",
     "Ascend310P: none",
     temps_flash_attn_ext,
     launch_flash_attn_ext},
    // ---- order ----
    {"argmax",
     "Where the largest number of each row is; the first of several.",
     "x",
     1,
     1,
     "",
     {dtype_bit(AIOCANN_F32)},
     OutDtype::kI32,
     "(..., n) -> (...)",
     shape_argmax,
     "aclnnArgMax",
     "",
     nullptr,
     launch_argmax},
    {"argsort",
     "The numbers of the columns, in the order of their values.",
     "x",
     1,
     1,
     "descending:i",
     {dtype_bit(AIOCANN_F32)},
     OutDtype::kI32,
     "shape of x",
     shape_same,
     "aclnnArgsort aclnnCast",
     "",
     temps_argsort,
     launch_argsort},
    {"solve_tri",
     "Solves a x = b; a is lower triangular.",
     "a b",
     2,
     2,
     "",
     {dtype_bit(AIOCANN_F32), dtype_bit(AIOCANN_F32)},
     OutDtype::kSame,
     "a (..., n, n), b (..., n, m) -> (..., n, m)",
     shape_solve_tri,
     "aclnnTriangularSolve",
     "",
     temps_solve_tri,
     launch_solve_tri},
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
    // ---- views ----
    {"reshape",
     "The same elements in another shape.",
     "x",
     1,
     1,
     "ne0:i ne1:i ne2:i ne3:i",
     {kPlain},
     OutDtype::kSame,
     "as given; x must be contiguous",
     shape_reshape,
     "",
     "",
     nullptr,
     nullptr},
    {"view",
     "A part of x, with strides and offset in bytes.",
     "x",
     1,
     1,
     "ne0:i ne1:i ne2:i ne3:i nb1:i nb2:i nb3:i offset:i",
     {kPlain},
     OutDtype::kSame,
     "as given; inside x",
     shape_view,
     "",
     "",
     nullptr,
     nullptr},
    {"permute",
     "The axes in another order.",
     "x",
     1,
     1,
     "axis0:i axis1:i axis2:i axis3:i",
     {kPlain},
     OutDtype::kSame,
     "axis i of the result is axis axes[i] of x",
     shape_permute,
     "",
     "",
     nullptr,
     nullptr},
    {"transpose",
     "The last two axes exchanged.",
     "x",
     1,
     1,
     "",
     {kPlain},
     OutDtype::kSame,
     "(..., m, n) -> (..., n, m)",
     shape_transpose,
     "",
     "",
     nullptr,
     nullptr},
};

#undef OF_ONE
#undef UNARY
#undef BINARY
#undef GLU

constexpr int32_t kCount = static_cast<int32_t>(sizeof(kRows) / sizeof(kRows[0]));

bool is_310p(const char *soc_name) {
  return soc_name != nullptr && std::strncmp(soc_name, "Ascend310P", 10) == 0;
}

std::string set_text(DtypeSet set) {
  std::string text;
  for (int32_t dtype = AIOCANN_F32; dtype <= AIOCANN_Q8_0; ++dtype) {
    if ((set & dtype_bit(dtype)) == 0) continue;
    if (!text.empty()) text += ' ';
    text += dtype_name(dtype);
  }
  return text;
}

bool is_whole(const Layout &layout) {
  const int64_t size = dtype_size(layout.dtype);
  if (layout.ne[0] % dtype_block(layout.dtype) != 0) return false;
  for (int i = 0; i < kAxes; ++i) {
    if (layout.ne[i] < 0 || layout.nb[i] < 0 || (size > 0 && layout.nb[i] % size != 0))
      return false;
  }
  return layout.extent() != UINT64_MAX && layout.elements() != INT64_MAX;
}

}  // namespace

bool on_310p(const NodeView &node) { return is_310p(node.soc); }

int32_t op_count() { return kCount; }

const OpRow *op_row(int32_t op) { return op >= 0 && op < kCount ? &kRows[op] : nullptr; }

int32_t find_op(const char *name) {
  for (int32_t op = 0; op < kCount; ++op) {
    if (std::strcmp(kRows[op].name, name) == 0) return op;
  }
  return -1;
}

int32_t count_params(const OpRow &row) {
  int32_t count = 0;
  for (const char *at = row.params; *at != '\0'; ++at) count += *at == ':';
  return count;
}

std::string dtypes_text(const OpRow &row) {
  std::string text;
  const char *source = row.sources;
  for (int32_t i = 0; i < row.max_src; ++i) {
    const size_t length = std::strcspn(source, " ?");
    if (i > 0) text += "; ";
    text += std::string(source, length) + ": " + set_text(row.dtypes[i]);
    source += std::strcspn(source, " ");
    source += std::strspn(source, " ");
  }
  return text;
}

std::string NodeView::describe() const {
  std::string text = row->name;
  text += '(';
  for (int i = 0; i < n_src; ++i) {
    if (i > 0) text += ", ";
    text += src[i] == nullptr ? "-" : src[i]->describe();
  }
  return text + ')';
}

Status NodeView::usage(const char *format, ...) const {
  char text[512];
  va_list args;
  va_start(args, format);
  std::vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  return Status::error(AIOCANN_E_USAGE, "%s: %s", describe().c_str(), text);
}

Status NodeView::unsupported(const char *format, ...) const {
  char text[512];
  va_list args;
  va_start(args, format);
  std::vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  return Status::error(AIOCANN_E_UNSUPPORTED, "%s: %s", describe().c_str(), text);
}

Status infer(const NodeView &node, const char *soc_name, Layout *out, int64_t *view_offset) {
  const OpRow &row = *node.row;
  if (node.n_src < row.min_src || node.n_src > row.max_src) {
    return Status::error(AIOCANN_E_USAGE, "%s takes %d operands, not %d", row.name, row.max_src,
                         node.n_src);
  }
  for (int32_t i = 0; i < node.n_src; ++i) {
    if (node.src[i] == nullptr) {
      if (i < row.min_src)
        return Status::error(AIOCANN_E_USAGE, "%s: operand %d is missing", row.name, i);
      continue;
    }
    const Layout &src = *node.src[i];
    if ((row.dtypes[i] & dtype_bit(src.dtype)) == 0) {
      return node.unsupported("operand %d cannot be %s; it takes %s", i, dtype_name(src.dtype),
                              set_text(row.dtypes[i]).c_str());
    }
    if (!is_whole(src))
      return node.usage("operand %d has a negative, uneven or endless shape or stride", i);
    if (src.dtype == AIOCANN_BF16 && is_310p(soc_name))
      return node.unsupported("%s has no bf16", soc_name);
  }
  switch (row.out_dtype) {
    case OutDtype::kSame:
      out->dtype = node.src[0]->dtype;
      break;
    case OutDtype::kF32:
      out->dtype = AIOCANN_F32;
      break;
    case OutDtype::kI64:
      out->dtype = AIOCANN_I64;
      break;
    case OutDtype::kI32:
      out->dtype = AIOCANN_I32;
      break;
    case OutDtype::kDst:
      out->dtype = node.last().dtype;
      break;
    case OutDtype::kParameter:
      if (node.params[0].i < 0 || node.params[0].i > AIOCANN_Q8_0) {
        return node.usage("there is no dtype %lld", static_cast<long long>(node.params[0].i));
      }
      out->dtype = static_cast<int32_t>(node.params[0].i);
      if ((kPlain & dtype_bit(out->dtype)) == 0) {
        return node.unsupported("nothing can be cast to %s", dtype_name(out->dtype));
      }
      if (out->dtype == AIOCANN_BF16 && is_310p(soc_name)) {
        return node.unsupported("%s has no bf16", soc_name);
      }
      break;
  }
  *view_offset = 0;
  NodeView seen = node;
  if (soc_name != nullptr) seen.soc = soc_name;
  Status status = row.shape_rule(seen, out, view_offset);
  if (!status.is_ok()) return status;
  // Views and cpy say how their result lies; everything else makes a new, contiguous tensor.
  if (row.launch != nullptr && row.out_dtype != OutDtype::kDst)
    *out = Layout::contiguous(*out, out->dtype);
  if (!is_whole(*out)) return node.usage("the result would be larger than any memory");
  return Status::ok();
}

}  // namespace aiocann::core
