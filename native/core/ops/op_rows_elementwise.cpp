// op_rows_elementwise.cpp: rows of the op table: ops element by element, and gated linear units.
#include "core/ops/kernels.hpp"
#include "core/ops/op_table.hpp"
#include "core/ops/shapes.hpp"

namespace aiocann::core {
namespace {

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
};

}  // namespace

const OpRows kElementwiseRows(kRows);

}  // namespace aiocann::core
