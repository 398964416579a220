// ops_reduce.cpp: sums, means and norms over axes.
#include <cmath>

#include "sim/aclnn/check.hpp"
#include "sim/aclnn/executor.hpp"
#include "sim/kernels/reduce.hpp"

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

}  // extern "C"
