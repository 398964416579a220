// ops_rows.cpp: operators that look at whole rows: softmax, normalisation, cross entropy, running sums.
#include <utility>

#include "sim/aclnn/check.hpp"
#include "sim/aclnn/executor.hpp"
#include "sim/kernels/rows.hpp"

namespace aiocann::sim {
namespace {

void move_last(View *view, int axis) {
  for (int d = axis; d + 1 < view->shape.rank; ++d) {
    std::swap(view->shape.dim[d], view->shape.dim[d + 1]);
    std::swap(view->stride[d], view->stride[d + 1]);
  }
}

/// The leading axes: where a row's statistics go.
View leading(const aclTensor *tensor, int n_outer) {
  View view = view_of(tensor);
  view.shape.rank = n_outer;
  return view;
}

/// Gamma has the shape of the trailing axes of x, which make up a row. Answers the shape of a statistic: x's,
/// with 1 along those axes.
Shape check_gamma(Check *check, const Shape &x, const Shape &gamma) {
  Shape statistics = x;
  const int n_outer = x.rank - gamma.rank;
  check->that(n_outer >= 0, "gamma has more dimensions than x");
  for (int d = 0; d < gamma.rank && !check->failed(); ++d) {
    check->that(gamma.dim[d] == x.dim[n_outer + d], "gamma has shape %s and x %s",
                ShapeText(gamma).text, ShapeText(x).text);
    statistics.dim[n_outer + d] = 1;
  }
  return statistics;
}

}  // namespace
}  // namespace aiocann::sim

using namespace aiocann::sim;  // NOLINT: the entry points are this file's whole business

extern "C" {

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
  move_last(&in, axis);
  move_last(&to, axis);
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
  if (p.has_mean) plan.write(m, leading(meanOutOptional, n_outer));
  if (p.has_rstd) plan.write(s, leading(rstdOutOptional, n_outer));
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
  const Shape statistics = check_gamma(&check, in.shape, weight.shape);
  check.has_shape(rstdOut, "rstdOut", statistics);
  if (check.failed()) return check.status();
  NormParams p;
  p.epsilon = epsilon;
  p.n_outer = in.shape.rank - weight.shape.rank;
  p.rms = true;
  p.has_weight = true;
  p.has_rstd = true;
  Planner plan("aclnnRmsNorm", workspaceSize, executor);
  const int from = plan.input(x), w = plan.input(gamma), y = plan.output(yOut),
            s = plan.output(rstdOut);
  plan.write(y, view_of(yOut));
  plan.read(from, in);
  plan.read(w, weight);
  plan.write(s, leading(rstdOut, p.n_outer));
  return plan.finish(in.count() == 0 ? nullptr : norm_kernel, p);
}
ACLNN_RUN(aclnnRmsNorm)

aclnnStatus aclnnAddRmsNormGetWorkspaceSize(const aclTensor *x1, const aclTensor *x2,
                                            const aclTensor *gamma, double epsilon,
                                            const aclTensor *yOut, const aclTensor *rstdOut,
                                            const aclTensor *xOut, uint64_t *workspaceSize,
                                            aclOpExecutor **executor) {
  Check check("aclnnAddRmsNorm");
  check.not_null(x1, "x1").not_null(x2, "x2").not_null(gamma, "gamma").not_null(yOut, "yOut");
  // Without rstdOut the sum may be wanted or not; with it, it must be.
  if (rstdOut != nullptr) check.not_null(xOut, "xOut");
  check.results(workspaceSize, executor);
  // Without rstdOut, another kernel does the work, one that knows 16-bit numbers and single rows only.
  const bool simple = rstdOut == nullptr;
  const DTypeSet types = simple ? DTypeSet::of(ACL_FLOAT16, ACL_BF16) : kHalfAndFloat;
  check.tensor(x1, "x1", types, kMaxTensorRank, 1).tensor(x2, "x2", types, kMaxTensorRank, 1);
  check.tensor(gamma, "gamma", types, simple ? 2 : kMaxTensorRank, 1).tensor(yOut, "yOut", types);
  check.same_dtype(x1, x2).same_dtype(x1, gamma).same_dtype(x1, yOut);
  check.same_shape(x1, x2).same_shape(x1, yOut);
  if (xOut != nullptr) {
    check.tensor(xOut, "xOut", types).same_dtype(x1, xOut).same_shape(x1, xOut);
  }
  check.that(epsilon >= 0, "epsilon is %g, less than 0", epsilon);
  if (check.failed()) return check.status();
  const View in = view_of(x1);
  View weight = view_of(gamma);
  if (simple && weight.shape.rank == 2) {
    check.that(weight.shape.dim[0] == 1, "gamma has shape %s, not one row",
               ShapeText(weight.shape).text);
    weight.shape.dim[0] = weight.shape.dim[1];
    weight.stride[0] = weight.stride[1];
    weight.shape.rank = 1;
  }
  const Shape statistics = check_gamma(&check, in.shape, weight.shape);
  if (!simple) {
    check.tensor(rstdOut, "rstdOut", DTypeSet::of(ACL_FLOAT))
        .has_shape(rstdOut, "rstdOut", statistics);
  }
  if (check.failed()) return check.status();
  NormParams p;
  p.epsilon = epsilon;
  p.n_outer = in.shape.rank - weight.shape.rank;
  p.rms = true;
  p.has_addend = true;
  p.has_weight = true;
  p.has_rstd = !simple;
  p.has_sum = xOut != nullptr;
  Planner plan(check.op(), workspaceSize, executor);
  const int a = plan.input(x1), b = plan.input(x2), w = plan.input(gamma);
  const int y = plan.output(yOut), s = plan.output(rstdOut), x = plan.output(xOut);
  plan.write(y, view_of(yOut));
  plan.read(a, in);
  plan.read(b, view_of(x2));
  plan.read(w, weight);
  if (p.has_rstd) plan.write(s, leading(rstdOut, p.n_outer));
  if (p.has_sum) plan.write(x, view_of(xOut));
  return plan.finish(in.count() == 0 ? nullptr : norm_kernel, p);
}
ACLNN_RUN(aclnnAddRmsNorm)

aclnnStatus aclnnGroupNormGetWorkspaceSize(const aclTensor *self, const aclTensor *gamma,
                                           const aclTensor *beta, int64_t N, int64_t C, int64_t HxW,
                                           int64_t group, double eps, aclTensor *out,
                                           aclTensor *meanOut, aclTensor *rstdOut,
                                           uint64_t *workspaceSize, aclOpExecutor **executor) {
  Check check("aclnnGroupNorm");
  check.not_null(self, "self").not_null(out, "out");
  check.not_null(meanOut, "meanOut").not_null(rstdOut, "rstdOut").results(workspaceSize, executor);
  check.tensor(self, "self", kHalfAndFloat, kMaxTensorRank, 2).tensor(out, "out", kHalfAndFloat);
  check.same_dtype(self, out).same_shape(self, out);
  check.that(group > 0, "group is %lld, not positive", static_cast<long long>(group));
  check.that(eps > 0, "eps is %g, not positive", eps);
  if (check.failed()) return check.status();
  check.that(self->format == out->format, "self and out differ in format");
  const View in = view_of(self);
  const int64_t channels = in.shape.dim[1];
  int64_t area = 1;
  for (int d = 2; d < in.shape.rank; ++d) area *= in.shape.dim[d];
  check.that(in.shape.dim[0] == N && channels == C && area == HxW,
             "self has shape %s, but N, C and HxW are %lld, %lld and %lld",
             ShapeText(in.shape).text, static_cast<long long>(N), static_cast<long long>(C),
             static_cast<long long>(HxW));
  check.that(channels % group == 0, "C is %lld, not a multiple of group, which is %lld",
             static_cast<long long>(C), static_cast<long long>(group));
  Shape per_channel, per_group;
  per_channel.rank = 1;
  per_channel.dim[0] = channels;
  per_group.rank = 2;
  per_group.dim[0] = N;
  per_group.dim[1] = group;
  const struct {
    const aclTensor *tensor;
    const char *what;
    const Shape &shape;
  } others[] = {{gamma, "gamma", per_channel},
                {beta, "beta", per_channel},
                {meanOut, "meanOut", per_group},
                {rstdOut, "rstdOut", per_group}};
  for (const auto &each : others) {
    if (each.tensor == nullptr) continue;
    check.tensor(each.tensor, each.what, kHalfAndFloat).same_dtype(self, each.tensor);
    check.has_shape(each.tensor, each.what, each.shape);
  }
  if (check.failed()) return check.status();

  // The channels become groups of channels, and a group is a row.
  const auto grouped = [group](const aclTensor *tensor) {
    View view = view_of(tensor);
    for (int d = view.shape.rank; d > 2; --d) {
      view.shape.dim[d] = view.shape.dim[d - 1];
      view.stride[d] = view.stride[d - 1];
    }
    ++view.shape.rank;
    view.shape.dim[2] = view.shape.dim[1] / group;
    view.stride[2] = view.stride[1];
    view.shape.dim[1] = group;
    view.stride[1] *= view.shape.dim[2];
    return view;
  };
  NormParams p;
  p.epsilon = eps;
  p.n_outer = 2;
  p.n_groups = static_cast<int32_t>(group);
  p.has_weight = gamma != nullptr;
  p.has_bias = beta != nullptr;
  p.has_mean = true;
  p.has_rstd = true;
  Planner plan(check.op(), workspaceSize, executor);
  const int x = plan.input(self), w = plan.input(gamma), b = plan.input(beta);
  const int y = plan.output(out), m = plan.output(meanOut), s = plan.output(rstdOut);
  plan.write(y, grouped(out));
  plan.read(x, grouped(self));
  if (p.has_weight) plan.read(w, view_of(gamma));
  if (p.has_bias) plan.read(b, view_of(beta));
  plan.write(m, view_of(meanOut));
  plan.write(s, view_of(rstdOut));
  return plan.finish(in.count() == 0 ? nullptr : norm_kernel, p);
}
ACLNN_RUN(aclnnGroupNorm)

aclnnStatus aclnnSoftmaxCrossEntropyWithLogitsGetWorkspaceSize(const aclTensor *features,
                                                               aclTensor *labels, aclTensor *loss,
                                                               aclTensor *backprop,
                                                               uint64_t *workspaceSize,
                                                               aclOpExecutor **executor) {
  Check check("aclnnSoftmaxCrossEntropyWithLogits");
  check.not_null(features, "features").not_null(labels, "labels").not_null(loss, "loss");
  check.not_null(backprop, "backprop").results(workspaceSize, executor);
  check.tensor(features, "features", kHalfAndFloat, 2, 2);
  check.tensor(labels, "labels", kHalfAndFloat, 2, 2);
  check.tensor(loss, "loss", kHalfAndFloat).tensor(backprop, "backprop", kHalfAndFloat);
  check.same_dtype(features, labels).same_dtype(features, loss).same_dtype(features, backprop);
  check.same_shape(features, labels).same_shape(features, backprop);
  if (check.failed()) return check.status();
  const View in = view_of(features);
  Shape rows;
  rows.rank = 1;
  rows.dim[0] = in.shape.dim[0];
  check.has_shape(loss, "loss", rows);
  if (check.failed()) return check.status();
  Planner plan(check.op(), workspaceSize, executor);
  const int x = plan.input(features), t = plan.input(labels), l = plan.output(loss),
            g = plan.output(backprop);
  plan.write(l, view_of(loss));
  plan.write(g, view_of(backprop));
  plan.read(x, in);
  plan.read(t, view_of(labels));
  return plan.finish(in.count() == 0 ? nullptr : cross_entropy_kernel);
}
ACLNN_RUN(aclnnSoftmaxCrossEntropyWithLogits)

aclnnStatus aclnnCumsumGetWorkspaceSize(const aclTensor *self, int64_t dim, aclDataType dtype,
                                        aclTensor *out, uint64_t *workspaceSize,
                                        aclOpExecutor **executor) {
  constexpr DTypeSet kTypes = kFloating | kIntegers;
  Check check("aclnnCumsum");
  check.not_null(self, "self").not_null(out, "out").results(workspaceSize, executor);
  check.tensor(self, "self", kTypes).tensor(out, "out", kTypes).same_shape(self, out);
  if (check.failed()) return check.status();
  check.that(dtype == out->dtype, "dtype is %s but out is %s", name_of(dtype), name_of(out->dtype));
  View in = view_of(self), to = view_of(out);
  const int rank = in.shape.rank, axis = normalise_axis(dim, rank);
  check.that(axis >= 0, "dim %lld is out of range for %d dimensions", static_cast<long long>(dim),
             rank);
  if (check.failed()) return check.status();
  move_last(&in, axis);
  move_last(&to, axis);
  CumsumParams p;
  p.n_outer = rank == 0 ? 0 : rank - 1;
  p.dtype = dtype;
  Planner plan(check.op(), workspaceSize, executor);
  const int x = plan.input(self), y = plan.output(out);
  plan.write(y, to);
  plan.read(x, in);
  return plan.finish(in.count() == 0 ? nullptr : cumsum_kernel, p);
}
ACLNN_RUN(aclnnCumsum)

}  // extern "C"
