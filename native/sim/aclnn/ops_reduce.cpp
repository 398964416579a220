// ops_reduce.cpp: sums, means and norms over axes; softmax; layer and root-mean-square normalisation.
#include <cmath>

#include "sim/aclnn/check.hpp"
#include "sim/aclnn/executor.hpp"
#include "sim/kernels/reduce.hpp"
#include "sim/kernels/rows.hpp"

namespace aiocann::sim {
namespace {

/// The input with its kept axes first, and the shapes that the result may have.
struct Reduction {
  View in, out;
  int n_kept = 0;
  int64_t n_reduced = 1;
};

/// Axes given by `dims`; none given means all.
void split_axes(Check *check, const aclTensor *self, const aclIntArray *dims, bool keep,
                const aclTensor *out, Reduction *r) {
  if (check->failed()) return;
  const View in = view_of(self);
  const int rank = in.shape.rank;
  unsigned reduced = 0;
  for (int64_t wish : dims->values) {
    const int axis = normalise_axis(wish, rank);
    check->that(axis >= 0, "dim %lld is out of range for %d dimensions",
                static_cast<long long>(wish), rank);
    if (check->failed()) return;
    check->that((reduced >> axis & 1) == 0, "dim %lld occurs twice", static_cast<long long>(wish));
    reduced |= 1u << axis;
  }
  if (dims->values.empty()) reduced = (1u << rank) - 1;
  Shape expected;
  for (int d = 0; d < rank; ++d) {
    const bool is_reduced = (reduced >> d & 1) != 0;
    if (!is_reduced || keep) expected.dim[expected.rank++] = is_reduced ? 1 : in.shape.dim[d];
  }
  check->has_shape(out, "out", expected);
  if (check->failed()) return;
  const View to = view_of(out);
  r->in = in;
  r->out = to;
  int at = 0, to_axis = 0;
  for (int d = 0; d < rank; ++d) {
    const bool is_reduced = (reduced >> d & 1) != 0;
    if (!is_reduced) {
      r->in.shape.dim[at] = in.shape.dim[d];
      r->in.stride[at] = in.stride[d];
      r->out.shape.dim[at] = in.shape.dim[d];
      r->out.stride[at] = to.stride[to_axis];
      ++at;
    }
    if (!is_reduced || keep) ++to_axis;
  }
  r->n_kept = r->out.shape.rank = at;
  for (int d = 0; d < rank; ++d) {
    if ((reduced >> d & 1) == 0) continue;
    r->in.shape.dim[at] = in.shape.dim[d];
    r->in.stride[at++] = in.stride[d];
    r->n_reduced *= in.shape.dim[d];
  }
}

aclnnStatus plan_reduce(const char *name, const aclTensor *self, const aclTensor *out,
                        const Reduction &r, ReduceParams p, uint64_t *workspace,
                        aclOpExecutor **executor) {
  p.n_kept = r.n_kept;
  Planner plan(name, workspace, executor);
  const int x = plan.input(self), y = plan.output(out);
  plan.write(y, r.out);
  plan.read(x, r.in);
  return plan.finish(r.out.count() == 0 ? nullptr : reduce_kernel, p);
}

/// Sum and mean.
aclnnStatus plan_sum(const char *name, bool mean, DTypeSet types, const aclTensor *self,
                     const aclIntArray *dims, bool keep, aclDataType dtype, const aclTensor *out,
                     uint64_t *workspace, aclOpExecutor **executor) {
  Check check(name);
  check.not_null(self, "self")
      .not_null(dims, "dims")
      .not_null(out, "out")
      .results(workspace, executor);
  check.tensor(self, "self", types).tensor(out, "out", types);
  if (check.failed()) return check.status();
  check.that(types.has(dtype), "dtype %s is not supported", name_of(dtype));
  if (mean) {
    check.that(can_convert(self->dtype, dtype), "%s cannot become %s", name_of(self->dtype),
               name_of(dtype));
    check.that(can_convert(dtype, out->dtype), "%s cannot be stored as %s", name_of(dtype),
               name_of(out->dtype));
  } else {
    check.that(dtype == out->dtype, "dtype is %s but out is %s", name_of(dtype),
               name_of(out->dtype));
  }
  Reduction r;
  split_axes(&check, self, dims, keep, out, &r);
  if (check.failed()) return check.status();
  ReduceParams p;
  p.domain = domain_of(dtype);
  if (dtype == ACL_FLOAT16 || dtype == ACL_BF16) p.as = dtype;
  // A floating tensor summed as integers is converted element by element first.
  if (p.domain == Domain::kI64 && is_float(self->dtype)) p.as = dtype;
  p.via = dtype;
  if (mean) p.divisor = static_cast<double>(r.n_reduced);
  return plan_reduce(name, self, out, r, p, workspace, executor);
}

}  // namespace
}  // namespace aiocann::sim

using namespace aiocann::sim;  // NOLINT: the entry points are this file's whole business

extern "C" {

aclnnStatus aclnnReduceSumGetWorkspaceSize(const aclTensor *self, const aclIntArray *dims,
                                           bool keepDims, aclDataType dtype, aclTensor *out,
                                           uint64_t *workspaceSize, aclOpExecutor **executor) {
  return plan_sum("aclnnReduceSum", false, kArithmetic, self, dims, keepDims, dtype, out,
                  workspaceSize, executor);
}
ACLNN_RUN(aclnnReduceSum)

aclnnStatus aclnnMeanGetWorkspaceSize(const aclTensor *self, const aclIntArray *dim, bool keepDim,
                                      aclDataType dtype, aclTensor *out, uint64_t *workspaceSize,
                                      aclOpExecutor **executor) {
  return plan_sum("aclnnMean", true, kFloating | kIntegers, self, dim, keepDim, dtype, out,
                  workspaceSize, executor);
}
ACLNN_RUN(aclnnMean)

aclnnStatus aclnnNormGetWorkspaceSize(const aclTensor *self, const aclScalar *pScalar,
                                      const aclIntArray *dim, bool keepdim, aclTensor *out,
                                      uint64_t *workspaceSize, aclOpExecutor **executor) {
  Check check("aclnnNorm");
  check.not_null(self, "self")
      .not_null(pScalar, "pScalar")
      .not_null(dim, "dim")
      .not_null(out, "out");
  check.results(workspaceSize, executor)
      .tensor(self, "self", kHalfAndFloat)
      .tensor(out, "out", kHalfAndFloat);
  check.scalar(pScalar, "pScalar", kArithmetic);
  Reduction r;
  split_axes(&check, self, dim, keepdim, out, &r);
  if (check.failed()) return check.status();
  const double power = pScalar->as_double();
  ReduceParams p;
  p.power = power;
  if (power == 2) {
    p.op = ReduceOp::kSquares;
    p.end = ReduceEnd::kSqrt;
  } else if (power == 1) {
    p.op = ReduceOp::kAbs;
  } else if (power == 0) {
    p.op = ReduceOp::kNonZero;
  } else if (std::isinf(power)) {
    p.op = power > 0 ? ReduceOp::kMaxAbs : ReduceOp::kMinAbs;
  } else {
    p.op = ReduceOp::kPower;
    p.end = ReduceEnd::kRoot;
  }
  return plan_reduce("aclnnNorm", self, out, r, p, workspaceSize, executor);
}
ACLNN_RUN(aclnnNorm)

aclnnStatus aclnnSoftmaxGetWorkspaceSize(const aclTensor *self, int64_t dim, aclTensor *out,
                                         uint64_t *workspaceSize, aclOpExecutor **executor) {
  Check check("aclnnSoftmax");
  check.not_null(self, "self").not_null(out, "out").results(workspaceSize, executor);
  check.tensor(self, "self", kFloating).tensor(out, "out", kFloating).same_shape(self, out);
  if (check.failed()) return check.status();
  View in = view_of(self), to = view_of(out);
  const int rank = in.shape.rank;
  const int axis = normalise_axis(dim, rank);
  check.that(axis >= 0, "dim %lld is out of range for %d dimensions", static_cast<long long>(dim),
             rank);
  if (check.failed()) return check.status();
  for (View *view : {&in, &to}) {  // the axis goes last
    for (int d = axis; d + 1 < rank; ++d) {
      std::swap(view->shape.dim[d], view->shape.dim[d + 1]);
      std::swap(view->stride[d], view->stride[d + 1]);
    }
  }
  SoftmaxParams p;
  p.n_outer = rank == 0 ? 0 : rank - 1;
  Planner plan("aclnnSoftmax", workspaceSize, executor);
  const int x = plan.input(self), y = plan.output(out);
  plan.write(y, to);
  plan.read(x, in);
  const bool wide = self->dtype == ACL_DOUBLE || out->dtype == ACL_DOUBLE;
  return plan.finish(in.count() == 0 ? nullptr : wide ? softmax_double_kernel : softmax_kernel, p);
}
ACLNN_RUN(aclnnSoftmax)

aclnnStatus aclnnLayerNormGetWorkspaceSize(
    const aclTensor *input, const aclIntArray *normalizedShape, const aclTensor *weightOptional,
    const aclTensor *biasOptional, double eps, aclTensor *out, aclTensor *meanOutOptional,
    aclTensor *rstdOutOptional, uint64_t *workspaceSize, aclOpExecutor **executor) {
  Check check("aclnnLayerNorm");
  check.not_null(input, "input").not_null(normalizedShape, "normalizedShape").not_null(out, "out");
  check.results(workspaceSize, executor);
  check.tensor(input, "input", kHalfAndFloat, kMaxTensorRank, 1).tensor(out, "out", kHalfAndFloat);
  check.same_shape(input, out);
  if (check.failed()) return check.status();
  const View in = view_of(input);
  const auto n_normalised = normalizedShape->values.size();
  check.that(n_normalised >= 1 && n_normalised <= static_cast<size_t>(in.shape.rank),
             "normalizedShape has %zu dimensions and input %d", n_normalised, in.shape.rank);
  if (check.failed()) return check.status();
  const int n_outer = in.shape.rank - static_cast<int>(n_normalised);
  Shape row, statistics = in.shape;
  for (size_t d = 0; d < n_normalised; ++d) {
    row.dim[row.rank++] = normalizedShape->values[d];
    const int axis = n_outer + static_cast<int>(d);
    check.that(normalizedShape->values[d] == in.shape.dim[axis],
               "normalizedShape has %lld where input has %lld",
               static_cast<long long>(normalizedShape->values[d]),
               static_cast<long long>(in.shape.dim[axis]));
    statistics.dim[axis] = 1;
  }
  const struct {
    const aclTensor *tensor;
    const char *what;
    const Shape &shape;
  } optional[] = {{weightOptional, "weightOptional", row},
                  {biasOptional, "biasOptional", row},
                  {meanOutOptional, "meanOutOptional", statistics},
                  {rstdOutOptional, "rstdOutOptional", statistics}};
  for (const auto &each : optional) {
    if (each.tensor == nullptr) continue;
    check.tensor(each.tensor, each.what, kHalfAndFloat)
        .has_shape(each.tensor, each.what, each.shape);
  }
  if (check.failed()) return check.status();

  NormParams p;
  p.epsilon = eps;
  p.n_outer = n_outer;
  p.has_weight = weightOptional != nullptr;
  p.has_bias = biasOptional != nullptr;
  p.has_mean = meanOutOptional != nullptr;
  p.has_rstd = rstdOutOptional != nullptr;
  Planner plan("aclnnLayerNorm", workspaceSize, executor);
  const int x = plan.input(input), w = plan.input(weightOptional), b = plan.input(biasOptional);
  const int y = plan.output(out), m = plan.output(meanOutOptional),
            s = plan.output(rstdOutOptional);
  plan.write(y, view_of(out));
  plan.read(x, in);
  if (p.has_weight) plan.read(w, view_of(weightOptional));
  if (p.has_bias) plan.read(b, view_of(biasOptional));
  const auto outer = [n_outer](const aclTensor *tensor) {
    View view = view_of(tensor);
    view.shape.rank = n_outer;
    return view;
  };
  if (p.has_mean) plan.write(m, outer(meanOutOptional));
  if (p.has_rstd) plan.write(s, outer(rstdOutOptional));
  return plan.finish(in.count() == 0 ? nullptr : norm_kernel, p);
}
ACLNN_RUN(aclnnLayerNorm)

aclnnStatus aclnnRmsNormGetWorkspaceSize(const aclTensor *x, const aclTensor *gamma, double epsilon,
                                         const aclTensor *yOut, const aclTensor *rstdOut,
                                         uint64_t *workspaceSize, aclOpExecutor **executor) {
  Check check("aclnnRmsNorm");
  check.not_null(x, "x")
      .not_null(gamma, "gamma")
      .not_null(yOut, "yOut")
      .not_null(rstdOut, "rstdOut");
  check.results(workspaceSize, executor);
  check.tensor(x, "x", kHalfAndFloat, kMaxTensorRank, 1)
      .tensor(gamma, "gamma", kHalfAndFloat, kMaxTensorRank, 1);
  check.tensor(yOut, "yOut", kHalfAndFloat).tensor(rstdOut, "rstdOut", DTypeSet::of(ACL_FLOAT));
  check.same_shape(x, yOut).same_dtype(x, yOut);
  if (check.failed()) return check.status();
  check.that(gamma->dtype == x->dtype || gamma->dtype == ACL_FLOAT, "x is %s and gamma %s",
             name_of(x->dtype), name_of(gamma->dtype));
  const View in = view_of(x), weight = view_of(gamma);
  const int n_outer = in.shape.rank - weight.shape.rank;
  check.that(n_outer >= 0, "gamma has more dimensions than x");
  Shape statistics = in.shape;
  for (int d = 0; d < weight.shape.rank && !check.failed(); ++d) {
    check.that(weight.shape.dim[d] == in.shape.dim[n_outer + d], "gamma has shape %s and x %s",
               ShapeText(weight.shape).text, ShapeText(in.shape).text);
    statistics.dim[n_outer + d] = 1;
  }
  check.has_shape(rstdOut, "rstdOut", statistics);
  if (check.failed()) return check.status();
  NormParams p;
  p.epsilon = epsilon;
  p.n_outer = n_outer;
  p.rms = true;
  p.has_weight = true;
  p.has_rstd = true;
  Planner plan("aclnnRmsNorm", workspaceSize, executor);
  const int from = plan.input(x), w = plan.input(gamma), y = plan.output(yOut),
            s = plan.output(rstdOut);
  plan.write(y, view_of(yOut));
  plan.read(from, in);
  plan.read(w, weight);
  View outer = view_of(rstdOut);
  outer.shape.rank = n_outer;
  plan.write(s, outer);
  return plan.finish(in.count() == 0 ? nullptr : norm_kernel, p);
}
ACLNN_RUN(aclnnRmsNorm)

}  // extern "C"
