// ops_elementwise.cpp: operators that work element by element.
#include "sim/aclnn/elementwise.hpp"

namespace aiocann::sim {

aclDataType lossy(aclDataType promoted) {
  return promoted == ACL_FLOAT16 || promoted == ACL_BF16 || promoted == ACL_BOOL ? promoted
                                                                                 : ACL_DT_UNDEFINED;
}

aclnnStatus finish_unary(const char *name, const UnaryParams &p, aclDataType type,
                         const aclTensor *self, const aclTensor *out, bool in_place,
                         uint64_t *workspace, aclOpExecutor **executor) {
  Planner plan(name, workspace, executor);
  const int in = in_place ? plan.in_place(self) : plan.input(self);
  const int to = in_place ? in : plan.output(out);
  const View from = view_of(self);
  plan.write(to, view_of(out));
  plan.read(in, from);
  plan.need_workspace(straightening(from, type));
  return plan.finish(from.count() == 0 ? nullptr : unary_kernel, p);
}

aclnnStatus plan_unary(const UnaryRow &row, const aclTensor *self, const aclTensor *out,
                       bool in_place, uint64_t *workspace, aclOpExecutor **executor) {
  Check check(row.name);
  check.not_null(self, in_place ? "selfRef" : "self")
      .not_null(out, "out")
      .results(workspace, executor);
  check.tensor(self, "self", row.self).tensor(out, "out", row.out).same_shape(self, out);
  if (row.result == Result::kSame) check.same_dtype(self, out);
  if (check.failed()) return check.status();
  const bool to_float = row.result == Result::kFloating && !is_float(self->dtype);
  UnaryParams p;
  p.op = row.op;
  const aclDataType type = to_float ? ACL_FLOAT : self->dtype;
  check.that(can_convert(type, out->dtype), "the result cannot be stored as %s",
             name_of(out->dtype));
  if (check.failed()) return check.status();
  p.domain = domain_of(type);
  p.via = type;

  return finish_unary(row.name, p, type, self, out, in_place, workspace, executor);
}

namespace {

// ---- a tensor and scalars --------------------------------------------------------------------------------

/// self <op> other, where other is alpha * scalar.
aclnnStatus plan_scalar(const char *name, UnaryOp op, bool negate, const aclTensor *self,
                        const aclScalar *other, const aclScalar *alpha, bool has_alpha,
                        const aclTensor *out, bool in_place, uint64_t *workspace,
                        aclOpExecutor **executor) {
  Check check(name);
  check.not_null(self, in_place ? "selfRef" : "self").not_null(other, "other").not_null(out, "out");
  if (has_alpha) check.not_null(alpha, "alpha");
  check.results(workspace, executor);
  check.tensor(self, "self", kArithmetic)
      .tensor(out, "out", kArithmetic)
      .scalar(other, "other", kArithmetic);
  if (has_alpha) check.scalar(alpha, "alpha", kArithmetic);
  check.same_shape(self, out);
  if (check.failed()) return check.status();
  // A floating scalar leaves a floating tensor's type alone; integers are combined like tensors.
  aclDataType type = promote_scalar(self->dtype, other->dtype);
  if (is_integer(self->dtype) && is_integer(other->dtype))
    type = promote(self->dtype, other->dtype);
  check.that(type != ACL_DT_UNDEFINED, "%s and %s cannot be combined", name_of(self->dtype),
             name_of(other->dtype));
  check.that(can_convert(type, out->dtype), "the result is %s and cannot be stored as %s",
             name_of(type), name_of(out->dtype));
  if (has_alpha && !check.failed()) {
    check.that(can_convert(alpha->dtype, type) || alpha->dtype == type,
               "alpha is %s and the result %s", name_of(alpha->dtype), name_of(type));
    check.that(!is_float(alpha->dtype) || is_float(type), "alpha is %s but the result is %s",
               name_of(alpha->dtype), name_of(type));
  }
  if (check.failed()) return check.status();

  UnaryParams p;
  p.op = op;
  p.domain = domain_of(type);
  p.via = type;
  if (op == UnaryOp::kDivide && p.domain == Domain::kI64) {
    // True division: an integer result is the truncated quotient.
    p.domain = Domain::kF64;
    p.via = ACL_DT_UNDEFINED;
  }
  p.as = lossy(type);
  p.a = other->as_double();
  p.int_a = other->as_int();
  if (has_alpha) {
    p.a *= alpha->as_double();
    p.int_a = static_cast<int64_t>(static_cast<uint64_t>(p.int_a) *
                                   static_cast<uint64_t>(alpha->as_int()));
  }
  if (negate) {
    p.a = -p.a;
    p.int_a = static_cast<int64_t>(0 - static_cast<uint64_t>(p.int_a));
  }

  return finish_unary(name, p, type, self, out, in_place, workspace, executor);
}

aclnnStatus plan_clamp(const char *name, const aclTensor *self, const aclScalar *low,
                       const aclScalar *high, const aclTensor *out, bool in_place,
                       uint64_t *workspace, aclOpExecutor **executor) {
  Check check(name);
  constexpr DTypeSet kTensors = kFloating | kIntegers;
  check.not_null(self, in_place ? "selfRef" : "self")
      .not_null(low != nullptr ? low : high, "the bound")
      .not_null(out, "out");
  check.results(workspace, executor).tensor(self, "self", kTensors).tensor(out, "out", kTensors);
  if (low != nullptr) check.scalar(low, "clipValueMin", kArithmetic);
  if (high != nullptr) check.scalar(high, "clipValueMax", kArithmetic);
  check.same_shape(self, out);
  if (check.failed()) return check.status();
  aclDataType type = self->dtype;
  for (const aclScalar *bound : {low, high}) {
    if (bound != nullptr) type = promote_scalar(type, bound->dtype);
  }
  check.that(can_convert(type, out->dtype), "the result is %s and cannot be stored as %s",
             name_of(type), name_of(out->dtype));
  if (check.failed()) return check.status();
  UnaryParams p;
  p.op = UnaryOp::kClamp;
  p.domain = domain_of(type);
  p.as = lossy(type);
  p.via = type;
  p.a = low != nullptr ? low->as_double() : -__builtin_inf();
  p.b = high != nullptr ? high->as_double() : __builtin_inf();
  p.int_a = low != nullptr ? low->as_int() : INT64_MIN;
  p.int_b = high != nullptr ? high->as_int() : INT64_MAX;

  return finish_unary(name, p, type, self, out, in_place, workspace, executor);
}

// ---- two operands ----------------------------------------------------------------------------------------

aclnnStatus plan_binary(const char *name, BinaryOp op, const aclTensor *self,
                        const aclTensor *other, const aclScalar *alpha, bool has_alpha,
                        const aclTensor *out, bool in_place, uint64_t *workspace,
                        aclOpExecutor **executor) {
  Check check(name);
  check.not_null(self, in_place ? "selfRef" : "self").not_null(other, "other").not_null(out, "out");
  if (has_alpha) check.not_null(alpha, "alpha");
  check.results(workspace, executor);
  check.tensor(self, "self", kArithmetic)
      .tensor(other, "other", kArithmetic)
      .tensor(out, "out", kArithmetic);
  if (has_alpha) check.scalar(alpha, "alpha", kArithmetic);
  if (check.failed()) return check.status();
  const aclDataType type = promote(self->dtype, other->dtype);
  check.that(type != ACL_DT_UNDEFINED, "%s and %s cannot be combined", name_of(self->dtype),
             name_of(other->dtype));
  // A comparison's result is a bool, which every type can hold.
  const bool compares = op == BinaryOp::kEqual;
  check.that(compares || can_convert(type, out->dtype),
             "the result is %s and cannot be stored as %s", name_of(type), name_of(out->dtype));
  if (has_alpha && !check.failed()) {
    check.that(alpha->dtype == type || can_convert(alpha->dtype, type),
               "alpha is %s and the result %s", name_of(alpha->dtype), name_of(type));
    check.that(!is_float(alpha->dtype) || is_float(type), "alpha is %s but the result is %s",
               name_of(alpha->dtype), name_of(type));
  }
  Shape shape;
  const Shape a = shape_of(self), b = shape_of(other);
  check.that(broadcast_shapes(a, b, &shape), "shapes %s and %s cannot be broadcast",
             ShapeText(a).text, ShapeText(b).text);
  check.has_shape(out, in_place ? "selfRef" : "out", shape);
  if (check.failed()) return check.status();

  BinaryParams p;
  p.op = op;
  p.domain = domain_of(type);
  p.as = lossy(type);
  p.via = compares ? ACL_DT_UNDEFINED : type;
  if (op == BinaryOp::kDiv && p.domain == Domain::kI64) {
    p.domain = Domain::kF64;
    p.via = ACL_DT_UNDEFINED;
  }
  if (has_alpha) {
    p.alpha = alpha->as_double();
    p.int_alpha = alpha->as_int();
  }

  Planner plan(name, workspace, executor);
  const int x = in_place ? plan.in_place(self) : plan.input(self);
  const int y = plan.input(other);
  const int to = in_place ? x : plan.output(out);
  const View left = view_of(self), right = view_of(other);
  plan.write(to, view_of(out));
  plan.read(x, broadcast(left, shape));
  plan.read(y, broadcast(right, shape));
  plan.need_workspace(straightening(left, type) + straightening(right, type));
  return plan.finish(shape.count() == 0 ? nullptr : binary_kernel, p);
}

// ---- filling ---------------------------------------------------------------------------------------------

aclnnStatus plan_fill(const char *name, const aclTensor *self, const aclScalar *value,
                      bool has_value, DTypeSet dtypes, uint64_t *workspace,
                      aclOpExecutor **executor) {
  Check check(name);
  check.not_null(self, "selfRef");
  if (has_value) check.not_null(value, "value");
  check.results(workspace, executor).tensor(self, "selfRef", dtypes);
  if (has_value) check.scalar(value, "value", kArithmetic | kUnsigned);
  if (check.failed()) return check.status();
  FillParams p;
  p.domain = domain_of(self->dtype);
  if (has_value) {
    p.value = value->as_double();
    p.int_value = value->as_int();
  }
  if (p.domain == Domain::kI64 && has_value && is_float(value->dtype) && self->dtype == ACL_BOOL) {
    p.int_value = p.value != 0;
  }
  Planner plan(name, workspace, executor);
  View view = view_of(self);
  plan.write(plan.in_place(self), view);
  return plan.finish(view.count() == 0 ? nullptr : fill_kernel, p);
}

}  // namespace
}  // namespace aiocann::sim

using namespace aiocann::sim;  // NOLINT: the entry points are this file's whole business

// An operator of one operand: name, function, types of self, types of out, rule for the result.
#define UNARY(name, op, self_types, out_types, rule)                                        \
  aclnnStatus name##GetWorkspaceSize(const aclTensor *self, aclTensor *out,                 \
                                     uint64_t *workspaceSize, aclOpExecutor **executor) {   \
    static constexpr UnaryRow row{#name, UnaryOp::op, self_types, out_types, Result::rule}; \
    return plan_unary(row, self, out, false, workspaceSize, executor);                      \
  }                                                                                         \
  ACLNN_RUN(name)

#define UNARY_CONST_OUT(name, op, self_types, out_types, rule)                              \
  aclnnStatus name##GetWorkspaceSize(const aclTensor *self, const aclTensor *out,           \
                                     uint64_t *workspace, aclOpExecutor **executor) {       \
    static constexpr UnaryRow row{#name, UnaryOp::op, self_types, out_types, Result::rule}; \
    return plan_unary(row, self, out, false, workspace, executor);                          \
  }                                                                                         \
  ACLNN_RUN(name)

#define UNARY_IN_PLACE(name, op, types)                                             \
  aclnnStatus name##GetWorkspaceSize(aclTensor *self, uint64_t *workspace,          \
                                     aclOpExecutor **executor) {                    \
    static constexpr UnaryRow row{#name, UnaryOp::op, types, types, Result::kSame}; \
    return plan_unary(row, self, self, true, workspace, executor);                  \
  }                                                                                 \
  ACLNN_RUN(name)

extern "C" {

UNARY(aclnnAbs, kAbs, kArithmetic, kArithmetic, kSame)
UNARY(aclnnNeg, kNeg, kFloating | DTypeSet::of(ACL_INT8, ACL_INT32, ACL_INT64),
      kFloating | DTypeSet::of(ACL_INT8, ACL_INT32, ACL_INT64), kConvert)
UNARY(aclnnExp, kExp, kFloating | DTypeSet::of(ACL_BOOL, ACL_INT64), kFloating, kFloating)
UNARY(aclnnLog, kLog, kArithmetic, kFloating, kFloating)
UNARY(aclnnSqrt, kSqrt, kArithmetic, kFloating, kFloating)
UNARY(aclnnSin, kSin, kArithmetic, kFloating, kFloating)
UNARY(aclnnCos, kCos, kArithmetic, kFloating, kFloating)
UNARY(aclnnTanh, kTanh, kHalfAndFloat | kIntegers | kBool, kHalfAndFloat, kFloating)
UNARY(aclnnSigmoid, kSigmoid, kHalfAndFloat, kHalfAndFloat, kConvert)
UNARY(aclnnSilu, kSilu, kHalfAndFloat, kHalfAndFloat, kSame)
UNARY(aclnnGelu, kGeluTanh, kHalfAndFloat, kHalfAndFloat, kSame)
UNARY(aclnnSign, kSign, kFloating | kIndex | kBool, kFloating | kIndex | kBool, kSame)
UNARY(aclnnHardsigmoid, kHardsigmoid, kHalfAndFloat | DTypeSet::of(ACL_INT32),
      kHalfAndFloat | DTypeSet::of(ACL_INT32), kSame)
UNARY_CONST_OUT(aclnnHardswish, kHardswish, kHalfAndFloat, kHalfAndFloat, kConvert)
UNARY_CONST_OUT(aclnnRelu, kRelu, kHalfAndFloat | DTypeSet::of(ACL_INT8, ACL_INT32, ACL_INT64),
                kHalfAndFloat | DTypeSet::of(ACL_INT8, ACL_INT32, ACL_INT64), kSame)
UNARY_IN_PLACE(aclnnInplaceExp, kExp, kFloating)
UNARY_IN_PLACE(aclnnInplaceSin, kSin, kHalfAndFloat)
UNARY_IN_PLACE(aclnnInplaceCos, kCos, kFloating)

aclnnStatus aclnnGeluV2GetWorkspaceSize(const aclTensor *x, int64_t approximate, aclTensor *y,
                                        uint64_t *workspaceSize, aclOpExecutor **executor) {
  static constexpr UnaryRow exact{"aclnnGeluV2", UnaryOp::kGeluErf, kHalfAndFloat, kHalfAndFloat,
                                  Result::kSame};
  static constexpr UnaryRow tanh{"aclnnGeluV2", UnaryOp::kGeluTanh, kHalfAndFloat, kHalfAndFloat,
                                 Result::kSame};
  Check check("aclnnGeluV2");
  check.not_null(x, "x").not_null(y, "y");
  check.that(approximate == 0 || approximate == 1, "approximate is %lld, not 0 or 1",
             static_cast<long long>(approximate));
  if (check.failed()) return check.status();
  return plan_unary(approximate == 0 ? exact : tanh, x, y, false, workspaceSize, executor);
}
ACLNN_RUN(aclnnGeluV2)

aclnnStatus aclnnMulsGetWorkspaceSize(const aclTensor *self, const aclScalar *other, aclTensor *out,
                                      uint64_t *workspaceSize, aclOpExecutor **executor) {
  return plan_scalar("aclnnMuls", UnaryOp::kScale, false, self, other, nullptr, false, out, false,
                     workspaceSize, executor);
}
ACLNN_RUN(aclnnMuls)

aclnnStatus aclnnInplaceMulsGetWorkspaceSize(aclTensor *selfRef, const aclScalar *other,
                                             uint64_t *workspaceSize, aclOpExecutor **executor) {
  return plan_scalar("aclnnInplaceMuls", UnaryOp::kScale, false, selfRef, other, nullptr, false,
                     selfRef, true, workspaceSize, executor);
}
ACLNN_RUN(aclnnInplaceMuls)

aclnnStatus aclnnInplaceDivsGetWorkspaceSize(aclTensor *selfRef, const aclScalar *other,
                                             uint64_t *workspaceSize, aclOpExecutor **executor) {
  return plan_scalar("aclnnInplaceDivs", UnaryOp::kDivide, false, selfRef, other, nullptr, false,
                     selfRef, true, workspaceSize, executor);
}
ACLNN_RUN(aclnnInplaceDivs)

aclnnStatus aclnnInplaceAddsGetWorkspaceSize(const aclTensor *selfRef, const aclScalar *other,
                                             const aclScalar *alpha, uint64_t *workspaceSize,
                                             aclOpExecutor **executor) {
  return plan_scalar("aclnnInplaceAdds", UnaryOp::kShift, false, selfRef, other, alpha, true,
                     selfRef, true, workspaceSize, executor);
}
ACLNN_RUN(aclnnInplaceAdds)

aclnnStatus aclnnInplaceSubsGetWorkspaceSize(aclTensor *selfRef, const aclScalar *other,
                                             const aclScalar *alpha, uint64_t *workspaceSize,
                                             aclOpExecutor **executor) {
  return plan_scalar("aclnnInplaceSubs", UnaryOp::kShift, true, selfRef, other, alpha, true,
                     selfRef, true, workspaceSize, executor);
}
ACLNN_RUN(aclnnInplaceSubs)

aclnnStatus aclnnClampGetWorkspaceSize(const aclTensor *self, const aclScalar *clipValueMin,
                                       const aclScalar *clipValueMax, aclTensor *out,
                                       uint64_t *workspaceSize, aclOpExecutor **executor) {
  return plan_clamp("aclnnClamp", self, clipValueMin, clipValueMax, out, false, workspaceSize,
                    executor);
}
ACLNN_RUN(aclnnClamp)

aclnnStatus aclnnClampMinGetWorkspaceSize(const aclTensor *self, const aclScalar *clipValueMin,
                                          aclTensor *out, uint64_t *workspaceSize,
                                          aclOpExecutor **executor) {
  return plan_clamp("aclnnClampMin", self, clipValueMin, nullptr, out, false, workspaceSize,
                    executor);
}
ACLNN_RUN(aclnnClampMin)

aclnnStatus aclnnInplaceClampMaxGetWorkspaceSize(const aclTensor *selfRef,
                                                 const aclScalar *clipValueMax,
                                                 uint64_t *workspaceSize,
                                                 aclOpExecutor **executor) {
  return plan_clamp("aclnnInplaceClampMax", selfRef, nullptr, clipValueMax, selfRef, true,
                    workspaceSize, executor);
}
ACLNN_RUN(aclnnInplaceClampMax)

aclnnStatus aclnnAddGetWorkspaceSize(const aclTensor *self, const aclTensor *other,
                                     const aclScalar *alpha, aclTensor *out,
                                     uint64_t *workspaceSize, aclOpExecutor **executor) {
  return plan_binary("aclnnAdd", BinaryOp::kAdd, self, other, alpha, true, out, false,
                     workspaceSize, executor);
}
ACLNN_RUN(aclnnAdd)

aclnnStatus aclnnInplaceAddGetWorkspaceSize(const aclTensor *selfRef, const aclTensor *other,
                                            const aclScalar *alpha, uint64_t *workspaceSize,
                                            aclOpExecutor **executor) {
  return plan_binary("aclnnInplaceAdd", BinaryOp::kAdd, selfRef, other, alpha, true, selfRef, true,
                     workspaceSize, executor);
}
ACLNN_RUN(aclnnInplaceAdd)

aclnnStatus aclnnSubGetWorkspaceSize(const aclTensor *self, const aclTensor *other,
                                     const aclScalar *alpha, aclTensor *out,
                                     uint64_t *workspaceSize, aclOpExecutor **executor) {
  return plan_binary("aclnnSub", BinaryOp::kSub, self, other, alpha, true, out, false,
                     workspaceSize, executor);
}
ACLNN_RUN(aclnnSub)

aclnnStatus aclnnInplaceSubGetWorkspaceSize(aclTensor *selfRef, const aclTensor *other,
                                            const aclScalar *alpha, uint64_t *workspaceSize,
                                            aclOpExecutor **executor) {
  return plan_binary("aclnnInplaceSub", BinaryOp::kSub, selfRef, other, alpha, true, selfRef, true,
                     workspaceSize, executor);
}
ACLNN_RUN(aclnnInplaceSub)

aclnnStatus aclnnMulGetWorkspaceSize(const aclTensor *self, const aclTensor *other, aclTensor *out,
                                     uint64_t *workspaceSize, aclOpExecutor **executor) {
  return plan_binary("aclnnMul", BinaryOp::kMul, self, other, nullptr, false, out, false,
                     workspaceSize, executor);
}
ACLNN_RUN(aclnnMul)

aclnnStatus aclnnInplaceMulGetWorkspaceSize(aclTensor *selfRef, const aclTensor *other,
                                            uint64_t *workspaceSize, aclOpExecutor **executor) {
  return plan_binary("aclnnInplaceMul", BinaryOp::kMul, selfRef, other, nullptr, false, selfRef,
                     true, workspaceSize, executor);
}
ACLNN_RUN(aclnnInplaceMul)

aclnnStatus aclnnDivGetWorkspaceSize(const aclTensor *self, const aclTensor *other, aclTensor *out,
                                     uint64_t *workspaceSize, aclOpExecutor **executor) {
  return plan_binary("aclnnDiv", BinaryOp::kDiv, self, other, nullptr, false, out, false,
                     workspaceSize, executor);
}
ACLNN_RUN(aclnnDiv)

aclnnStatus aclnnInplaceDivGetWorkspaceSize(aclTensor *selfRef, const aclTensor *other,
                                            uint64_t *workspaceSize, aclOpExecutor **executor) {
  return plan_binary("aclnnInplaceDiv", BinaryOp::kDiv, selfRef, other, nullptr, false, selfRef,
                     true, workspaceSize, executor);
}
ACLNN_RUN(aclnnInplaceDiv)

aclnnStatus aclnnEqTensorGetWorkspaceSize(const aclTensor *self, const aclTensor *other,
                                          aclTensor *out, uint64_t *workspaceSize,
                                          aclOpExecutor **executor) {
  return plan_binary("aclnnEqTensor", BinaryOp::kEqual, self, other, nullptr, false, out, false,
                     workspaceSize, executor);
}
ACLNN_RUN(aclnnEqTensor)

aclnnStatus aclnnInplaceZeroGetWorkspaceSize(aclTensor *selfRef, uint64_t *workspaceSize,
                                             aclOpExecutor **executor) {
  return plan_fill("aclnnInplaceZero", selfRef, nullptr, false,
                   kArithmetic | DTypeSet::of(ACL_UINT16), workspaceSize, executor);
}
ACLNN_RUN(aclnnInplaceZero)

aclnnStatus aclnnInplaceFillScalarGetWorkspaceSize(aclTensor *selfRef, const aclScalar *value,
                                                   uint64_t *workspaceSize,
                                                   aclOpExecutor **executor) {
  return plan_fill("aclnnInplaceFillScalar", selfRef, value, true, kArithmetic | kUnsigned,
                   workspaceSize, executor);
}
ACLNN_RUN(aclnnInplaceFillScalar)

aclnnStatus aclnnArangeGetWorkspaceSize(const aclScalar *start, const aclScalar *end,
                                        const aclScalar *step, aclTensor *out,
                                        uint64_t *workspaceSize, aclOpExecutor **executor) {
  Check check("aclnnArange");
  check.not_null(start, "start").not_null(end, "end").not_null(step, "step").not_null(out, "out");
  check.results(workspaceSize, executor);
  check.scalar(start, "start", kArithmetic)
      .scalar(end, "end", kArithmetic)
      .scalar(step, "step", kArithmetic);
  check.tensor(out, "out", kFloating | kIndex);
  if (check.failed()) return check.status();
  const double first = start->as_double(), last = end->as_double(), by = step->as_double();
  check.that(by != 0, "step is 0")
      .that(by > 0 ? first <= last : first >= last, "step leads away from end");
  if (check.failed()) return check.status();
  FillParams p;
  p.domain = domain_of(out->dtype);
  p.value = first;
  p.step = by;
  // Integer results of floating steps are computed as floating numbers and truncated.
  const bool whole = !is_float(start->dtype) && !is_float(step->dtype);
  if (!whole && p.domain == Domain::kI64) p.domain = Domain::kF64;
  p.int_value = start->as_int();
  p.int_step = step->as_int();
  Planner plan("aclnnArange", workspaceSize, executor);
  const View view = view_of(out);
  plan.write(plan.output(out), view);
  return plan.finish(view.count() == 0 ? nullptr : fill_kernel, p);
}
ACLNN_RUN(aclnnArange)

}  // extern "C"
