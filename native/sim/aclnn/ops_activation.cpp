// ops_activation.cpp: activations with parameters, comparisons, powers, gated linear units.
#include <cfloat>
#include <cmath>

#include "sim/aclnn/elementwise.hpp"
#include "sim/kernels/convert.hpp"

namespace aiocann::sim {
namespace {

/// Scalars that can become floating numbers: of complex ones the real part counts.
constexpr DTypeSet kNumbers = kArithmetic | kUnsigned | kComplex;
constexpr DTypeSet kComparable = kArithmetic | kUnsigned;

struct NamedScalar {
  const aclScalar *scalar;
  const char *what;
};

/// The checks of a floating activation with scalars.
void check_activation(Check *check, const aclTensor *self, const aclTensor *out, DTypeSet types,
                      std::initializer_list<NamedScalar> scalars, const uint64_t *workspace,
                      aclOpExecutor **executor) {
  check->not_null(self, "self");
  for (const NamedScalar &each : scalars) check->not_null(each.scalar, each.what);
  check->not_null(out, "out").results(workspace, executor);
  check->tensor(self, "self", types).tensor(out, "out", types);
  for (const NamedScalar &each : scalars) check->scalar(each.scalar, each.what, kNumbers);
  check->same_shape(self, out);
}

aclnnStatus plan_activation(const char *name, UnaryParams p, const aclTensor *self,
                            const aclTensor *out, uint64_t *workspace, aclOpExecutor **executor) {
  p.domain = domain_of(self->dtype);
  p.via = self->dtype;
  return finish_unary(name, p, self->dtype, self, out, false, workspace, executor);
}

double rounded_to(double value, aclDataType type) {
  requantise(&value, type, 1);
  return value;
}

/// The type in which a tensor is compared with a scalar. A double is taken as the tensor's type where that
/// changes it by no more than float32's precision.
aclDataType comparing_type(aclDataType tensor, const aclScalar *scalar) {
  const aclDataType type = promote(tensor, scalar->dtype);
  if (scalar->dtype != ACL_DOUBLE || !is_float(tensor)) return type;
  const double value = scalar->as_double();
  return std::fabs(rounded_to(value, tensor) - value) <= FLT_EPSILON ? tensor : type;
}

/// The type of scalar to the power tensor.
aclDataType power_type(aclDataType base, aclDataType exponent, aclDataType out) {
  if (exponent == ACL_DOUBLE && out == ACL_FLOAT) return ACL_FLOAT;
  if (is_float(exponent)) return exponent;
  if (is_float(base) || exponent == ACL_BOOL) return promote(exponent, base);
  return exponent;
}

/// A tensor cut in two along an axis, and the results of half its size.
aclnnStatus plan_glu(const char *name, UnaryOp op, bool left, const aclTensor *x, int64_t dim,
                     const aclTensor *out, const aclTensor *activated, uint64_t *workspace,
                     aclOpExecutor **executor) {
  Check check(name);
  check.not_null(x, "self").not_null(out, "out").results(workspace, executor);
  check.tensor(x, "self", kHalfAndFloat, kMaxTensorRank, 1).tensor(out, "out", kHalfAndFloat);
  check.same_dtype(x, out);
  if (check.failed()) return check.status();
  View half = view_of(x);
  const int axis = normalise_axis(dim, half.shape.rank);
  check.that(axis >= 0, "dim %lld is out of range for %d dimensions", static_cast<long long>(dim),
             half.shape.rank);
  if (check.failed()) return check.status();
  check.that(half.shape.dim[axis] % 2 == 0, "self has %lld along dim %d, an odd number",
             static_cast<long long>(half.shape.dim[axis]), axis);
  half.shape.dim[axis] /= 2;
  check.has_shape(out, "out", half.shape);
  if (activated != nullptr) {
    check.tensor(activated, "outGelu", kHalfAndFloat).same_dtype(x, activated);
    check.has_shape(activated, "outGelu", half.shape);
  }
  if (check.failed()) return check.status();
  const int64_t shift =
      half.shape.dim[axis] * half.stride[axis] * static_cast<int64_t>(size_of(half.dtype));
  GluParams p;
  p.op = op;
  p.keeps_activated = activated != nullptr;
  Planner plan(name, workspace, executor);
  const int from = plan.input(x), to = plan.output(out);
  plan.write(to, view_of(out));
  plan.read(from, half, left ? 0 : shift);
  plan.read(from, half, left ? shift : 0);
  if (activated != nullptr) plan.write(plan.output(activated), view_of(activated));
  plan.need_workspace(straightening(view_of(x), x->dtype));
  return plan.finish(half.count() == 0 ? nullptr : glu_kernel, p);
}

}  // namespace
}  // namespace aiocann::sim

using namespace aiocann::sim;  // NOLINT: the entry points are this file's whole business

extern "C" {

aclnnStatus aclnnEluGetWorkspaceSize(const aclTensor *self, const aclScalar *alpha,
                                     const aclScalar *scale, const aclScalar *inputScale,
                                     aclTensor *out, uint64_t *workspaceSize,
                                     aclOpExecutor **executor) {
  Check check("aclnnElu");
  check_activation(&check, self, out, kFloating,
                   {{alpha, "alpha"}, {scale, "scale"}, {inputScale, "inputScale"}}, workspaceSize,
                   executor);
  if (check.failed()) return check.status();
  UnaryParams p;
  p.op = UnaryOp::kElu;
  p.a = alpha->as_double() * scale->as_double();
  p.b = scale->as_double();
  p.c = inputScale->as_double();
  return plan_activation(check.op(), p, self, out, workspaceSize, executor);
}
ACLNN_RUN(aclnnElu)

aclnnStatus aclnnLeakyReluGetWorkspaceSize(const aclTensor *self, const aclScalar *negativeSlope,
                                           aclTensor *out, uint64_t *workspaceSize,
                                           aclOpExecutor **executor) {
  Check check("aclnnLeakyRelu");
  check_activation(&check, self, out, kFloating, {{negativeSlope, "negativeSlope"}}, workspaceSize,
                   executor);
  if (check.failed()) return check.status();
  UnaryParams p;
  p.op = UnaryOp::kLeakyRelu;
  p.a = negativeSlope->as_double();
  return plan_activation(check.op(), p, self, out, workspaceSize, executor);
}
ACLNN_RUN(aclnnLeakyRelu)

aclnnStatus aclnnSoftplusGetWorkspaceSize(const aclTensor *self, const aclScalar *beta,
                                          const aclScalar *threshold, aclTensor *out,
                                          uint64_t *workspaceSize, aclOpExecutor **executor) {
  Check check("aclnnSoftplus");
  check_activation(&check, self, out, kHalfAndFloat, {{beta, "beta"}, {threshold, "threshold"}},
                   workspaceSize, executor);
  if (check.failed()) return check.status();
  UnaryParams p;
  p.op = UnaryOp::kSoftplus;
  p.a = beta->as_double();
  p.b = threshold->as_double();
  return plan_activation(check.op(), p, self, out, workspaceSize, executor);
}
ACLNN_RUN(aclnnSoftplus)

aclnnStatus aclnnInplaceThresholdGetWorkspaceSize(aclTensor *selfRef, const aclScalar *threshold,
                                                  const aclScalar *value, uint64_t *workspaceSize,
                                                  aclOpExecutor **executor) {
  constexpr DTypeSet kTypes = kHalfAndFloat | kIntegers;
  Check check("aclnnInplaceThreshold");
  check.not_null(selfRef, "selfRef").not_null(threshold, "threshold").not_null(value, "value");
  check.results(workspaceSize, executor).tensor(selfRef, "selfRef", kTypes);
  check.scalar(threshold, "threshold", kFloating | kIntegers)
      .scalar(value, "value", kFloating | kIntegers);
  if (check.failed()) return check.status();
  UnaryParams p;
  p.op = UnaryOp::kThreshold;
  p.domain = domain_of(selfRef->dtype);
  // Integers are compared with a fraction, and replaced by a truncated one, without losing digits on the way.
  const bool fractions = is_float(threshold->dtype) || is_float(value->dtype);
  if (p.domain == Domain::kI64 && fractions) p.domain = Domain::kF64;
  p.a = threshold->as_double();
  p.b = value->as_double();
  p.int_a = threshold->as_int();
  p.int_b = value->as_int();
  return finish_unary(check.op(), p, selfRef->dtype, selfRef, selfRef, true, workspaceSize,
                      executor);
}
ACLNN_RUN(aclnnInplaceThreshold)

aclnnStatus aclnnGtScalarGetWorkspaceSize(const aclTensor *self, const aclScalar *other,
                                          aclTensor *out, uint64_t *workspaceSize,
                                          aclOpExecutor **executor) {
  Check check("aclnnGtScalar");
  check.not_null(self, "self").not_null(other, "other").not_null(out, "out");
  check.results(workspaceSize, executor);
  check.tensor(self, "self", kComparable).scalar(other, "other", kComparable);
  check.tensor(out, "out", kComparable).same_shape(self, out);
  if (check.failed()) return check.status();
  const aclDataType type = comparing_type(self->dtype, other);
  check.that(type != ACL_DT_UNDEFINED, "%s and %s cannot be compared", name_of(self->dtype),
             name_of(other->dtype));
  if (check.failed()) return check.status();
  UnaryParams p;
  p.op = UnaryOp::kGreater;
  p.domain = domain_of(type);
  p.as = lossy(type);
  p.a = rounded_to(other->as_double(), type);
  p.int_a = other->as_int();
  p.int_b = type == ACL_UINT64 ? INT64_MIN : 0;
  return finish_unary(check.op(), p, type, self, out, false, workspaceSize, executor);
}
ACLNN_RUN(aclnnGtScalar)

aclnnStatus aclnnPowScalarTensorGetWorkspaceSize(const aclScalar *self, const aclTensor *exponent,
                                                 const aclTensor *out, uint64_t *workspaceSize,
                                                 aclOpExecutor **executor) {
  Check check("aclnnPowScalarTensor");
  check.not_null(self, "self").not_null(exponent, "exponent").not_null(out, "out");
  check.results(workspaceSize, executor);
  check.scalar(self, "self", kArithmetic).tensor(exponent, "exponent", kArithmetic);
  check.tensor(out, "out", kComparable).same_shape(exponent, out);
  if (check.failed()) return check.status();
  check.that(self->dtype != ACL_BOOL || exponent->dtype != ACL_BOOL, "self and exponent are BOOL");
  const aclDataType type = power_type(self->dtype, exponent->dtype, out->dtype);
  check.that(can_convert(type, out->dtype), "the result is %s and cannot be stored as %s",
             name_of(type), name_of(out->dtype));
  if (check.failed()) return check.status();
  UnaryParams p;
  p.op = UnaryOp::kPower;
  p.domain = domain_of(type);
  p.as = lossy(type);
  p.via = type;
  p.a = rounded_to(self->as_double(), type);
  p.int_a = self->as_int();
  return finish_unary(check.op(), p, type, exponent, out, false, workspaceSize, executor);
}
ACLNN_RUN(aclnnPowScalarTensor)

aclnnStatus aclnnSwiGluGetWorkspaceSize(const aclTensor *x, int64_t dim, const aclTensor *out,
                                        uint64_t *workspaceSize, aclOpExecutor **executor) {
  return plan_glu("aclnnSwiGlu", UnaryOp::kSilu, true, x, dim, out, nullptr, workspaceSize,
                  executor);
}
ACLNN_RUN(aclnnSwiGlu)

aclnnStatus aclnnGeGluV3GetWorkspaceSize(const aclTensor *self, int64_t dim, int64_t approximate,
                                         bool activateLeft, aclTensor *out, aclTensor *outGelu,
                                         uint64_t *workspaceSize, aclOpExecutor **executor) {
  Check check("aclnnGeGluV3");
  check.not_null(self, "self").not_null(out, "out").not_null(outGelu, "outGelu");
  check.that(approximate == 0 || approximate == 1, "approximate is %lld, not 0 or 1",
             static_cast<long long>(approximate));
  if (check.failed()) return check.status();
  return plan_glu(check.op(), approximate == 0 ? UnaryOp::kGeluErf : UnaryOp::kGeluTanh,
                  activateLeft, self, dim, out, outGelu, workspaceSize, executor);
}
ACLNN_RUN(aclnnGeGluV3)

}  // extern "C"
